//! Map of a file's data: extents in memory, and their code in the metadata store.
//!
//! A [`FileMap`] maps granules of a file to granules of the shingled partition; what it does not map is a hole. [`Stored`]
//! knows what of it is durable and plans what to write at a commit; `decode` reads it back. Each granule has a checksum of its
//! data there, so that a granule that holds something else is found, wherever it came from.

mod record;
mod stored;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;

pub use crate::data::checksum;
use crate::units::{Granule, Span};
pub use record::{Head, MapError, RecordSummary, sealed, summary};
pub(crate) use record::{RecordReader, put};
pub use stored::{
    Decoded, PAGE_BYTES, POINTER_BYTES, StoragePlan, Stored, decode, decode_places, load_part, part_numbers,
};

/// Granules of a file that lie together on the disk, or that are a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePiece {
    /// The first, in the file.
    pub first: u64,
    /// Number of granules.
    pub count: u64,
    /// First granule on the disk; none for a hole.
    pub at: Option<Granule>,
}

impl FilePiece {
    /// The first granule of the file behind it.
    pub fn end(&self) -> u64 {
        self.first + self.count
    }

    /// Span on the disk; none for a hole.
    pub fn span(&self) -> Option<Span> {
        self.at.map(|at| Span { at, count: self.count })
    }
}

/// The extents of a file, by their place in it. Neighbours in the file that are neighbours on the disk are one.
#[derive(Clone, Debug, Default)]
pub struct FileMap {
    extents: BTreeMap<u64, (u64, Granule)>,
    granules: u64,
    changes: Ranges,
    sums: Sums,
}

impl PartialEq for FileMap {
    /// True if both map the same, with the same checksums.
    fn eq(&self, other: &FileMap) -> bool {
        self.extents == other.extents && self.sums == other.sums
    }
}

impl Eq for FileMap {}

impl FileMap {
    /// A file without data.
    pub fn new() -> FileMap {
        FileMap::default()
    }

    /// The granules of data.
    pub fn granules(&self) -> u64 {
        self.granules
    }

    /// The extents.
    pub fn extents(&self) -> usize {
        self.extents.len()
    }

    /// True if there is no data.
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// The first granule behind all data.
    pub fn end(&self) -> u64 {
        self.extents.last_key_value().map_or(0, |(&first, &(count, _))| first + count)
    }

    /// The extents from the one on that holds `from` or else follows it, whole, in ascending order.
    pub fn extents_from(&self, from: u64) -> impl Iterator<Item = FilePiece> + '_ {
        let first = match self.extents.range(..=from).next_back() {
            Some((&first, &(count, _))) if first + count > from => first,
            _ => from,
        };
        self.extents.range(first..).map(|(&first, &(count, at))| FilePiece { first, count, at: Some(at) })
    }

    /// Pieces of `range` in ascending order, data and holes, cut to it.
    pub fn lookup(&self, range: Range<u64>) -> impl Iterator<Item = FilePiece> + '_ {
        let mut at = range.start;
        let mut extents = self.extents_from(at).peekable();
        std::iter::from_fn(move || {
            if at >= range.end {
                return None;
            }
            let piece = match extents.peek() {
                Some(extent) if extent.first <= at => {
                    let extent = cut(*extent, at..range.end);
                    extents.next();
                    extent
                }
                Some(extent) => FilePiece { first: at, count: extent.first.min(range.end) - at, at: None },
                None => FilePiece { first: at, count: range.end - at, at: None },
            };
            at = piece.end();
            Some(piece)
        })
    }

    /// Place of granule `granule` of the file; none in a hole.
    pub fn at(&self, granule: u64) -> Option<Granule> {
        let (&first, &(count, at)) = self.extents.range(..=granule).next_back()?;
        (granule < first + count).then(|| at + (granule - first))
    }

    /// Memory that it takes, in extents.
    pub(crate) fn weight(&self) -> usize {
        self.extents.len() + self.sums.chunks.len() * SUMS_WEIGHT
    }

    /// The checksums of the granules in `range`; 0 where none is known.
    pub fn sums(&self, range: Range<u64>) -> Vec<u32> {
        self.sums.within(range)
    }

    /// Sets the checksums of granules with data, from `first` on.
    pub fn set_sums(&mut self, first: u64, sums: &[u32]) {
        self.sums.set(first, sums);
    }

    /// The granules from `first` of the file on lie at `span` from now on; tells what they were before. Their checksums stay: where
    /// they are new data, and not moved, `set_sums` follows.
    pub fn insert(&mut self, first: u64, span: Span) -> Vec<FilePiece> {
        if span.is_empty() {
            return Vec::new();
        }
        let replaced = self.cut_out(first..first + span.count);
        self.changes.insert(first..first + span.count);
        self.put(first, span.count, span.at);
        replaced
    }

    /// Makes a hole of `range`; tells what was there.
    pub fn remove(&mut self, range: Range<u64>) -> Vec<FilePiece> {
        // A hole stays a hole: only what is mapped changes.
        let end = range.end.min(self.end());
        self.changes.insert(self.next_data(range.start).unwrap_or(end)..end);
        self.sums.remove(range.clone());
        self.cut_out(range)
    }

    /// Cuts out a range without a note of the change.
    fn cut_out(&mut self, range: Range<u64>) -> Vec<FilePiece> {
        let found: Vec<FilePiece> =
            self.extents_from(range.start).take_while(|piece| piece.first < range.end).collect();
        let mut removed = Vec::with_capacity(found.len());
        for whole in found {
            let gone = cut(whole, range.clone());
            self.extents.remove(&whole.first);
            for rest in [cut(whole, whole.first..gone.first), cut(whole, gone.end()..whole.end())] {
                if let Some(at) = rest.at.filter(|_| rest.count > 0) {
                    self.extents.insert(rest.first, (rest.count, at));
                }
            }
            self.granules -= gone.count;
            removed.push(gone);
        }
        removed
    }

    /// The first granule with data from `from` on.
    pub fn next_data(&self, from: u64) -> Option<u64> {
        self.extents_from(from).next().map(|extent| extent.first.max(from))
    }

    /// The first granule without data from `from` on.
    pub fn next_hole(&self, from: u64) -> u64 {
        let mut hole = from;
        for extent in self.extents_from(from) {
            if extent.first > hole {
                break;
            }
            hole = extent.end();
        }
        hole
    }

    /// Ranges that changed since the last commit was planned.
    pub fn changes(&self) -> &Ranges {
        &self.changes
    }

    fn take_changes(&mut self) -> Ranges {
        std::mem::take(&mut self.changes)
    }

    /// Adds what is a hole so far, and joins it with its neighbours.
    fn put(&mut self, mut first: u64, mut count: u64, mut at: Granule) {
        self.granules += count;
        if let Some((&before, extent)) = self.extents.range_mut(..first).next_back()
            && before + extent.0 == first
            && extent.1 + extent.0 == at
        {
            (first, count, at) = (before, extent.0 + count, extent.1);
        }
        if let Some(&(more, behind)) = self.extents.get(&(first + count))
            && at + count == behind
        {
            self.extents.remove(&(first + count));
            count += more;
        }
        self.extents.insert(first, (count, at));
    }
}

/// The part of `piece` inside `range`; of no length if there is none.
fn cut(piece: FilePiece, range: Range<u64>) -> FilePiece {
    let first = piece.first.max(range.start);
    let end = piece.end().min(range.end).max(first);
    FilePiece { first, count: end - first, at: piece.at.map(|at| at + (first - piece.first)) }
}

/// Granules of a chunk of checksums: a small file has one chunk.
const SUMS: u64 = 32;

/// The weight of a chunk of checksums, in extents.
const SUMS_WEIGHT: usize = 2;

/// Checksums of a file's granules, by their place in it. 0 stands for none: one granule in four billion is not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sums {
    /// Those that are all 0 are left out.
    chunks: BTreeMap<u64, Box<[u32; SUMS as usize]>>,
}

impl Sums {
    fn within(&self, range: Range<u64>) -> Vec<u32> {
        let mut sums = vec![0; (range.end - range.start) as usize];
        for (&chunk, known) in self.chunks.range(range.start / SUMS..range.end.div_ceil(SUMS)) {
            let (from, to) = (range.start.max(chunk * SUMS), range.end.min((chunk + 1) * SUMS));
            sums[(from - range.start) as usize..(to - range.start) as usize]
                .copy_from_slice(&known[(from - chunk * SUMS) as usize..(to - chunk * SUMS) as usize]);
        }
        sums
    }

    fn set(&mut self, mut first: u64, mut sums: &[u32]) {
        while !sums.is_empty() {
            let (chunk, at) = (first / SUMS, (first % SUMS) as usize);
            let (these, rest) = sums.split_at(sums.len().min(SUMS as usize - at));
            if these.iter().any(|&sum| sum != 0) || self.chunks.contains_key(&chunk) {
                let known = self.chunks.entry(chunk).or_insert_with(|| Box::new([0; SUMS as usize]));
                known[at..at + these.len()].copy_from_slice(these);
                if known.iter().all(|&sum| sum == 0) {
                    self.chunks.remove(&chunk);
                }
            }
            (first, sums) = (first + these.len() as u64, rest);
        }
    }

    fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let chunks = range.start / SUMS..=(range.end - 1) / SUMS;
        for (&chunk, sums) in self.chunks.range_mut(chunks.clone()) {
            let (from, to) = (range.start.max(chunk * SUMS), range.end.min((chunk + 1).saturating_mul(SUMS)));
            sums[(from - chunk * SUMS) as usize..(to - chunk * SUMS) as usize].fill(0);
        }
        let is_empty = |sums: &[u32; SUMS as usize]| sums.iter().all(|&sum| sum == 0);
        let empty: Vec<u64> =
            self.chunks.range(chunks).filter(|(_, sums)| is_empty(sums)).map(|(&chunk, _)| chunk).collect();
        empty.iter().for_each(|chunk| drop(self.chunks.remove(chunk)));
    }
}

/// A set of numbers, as ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    ends: BTreeMap<u64, u64>,
    count: u64,
}

impl Ranges {
    /// Adds `range`; tells the range that it is in now.
    pub fn insert(&mut self, range: Range<u64>) -> Range<u64> {
        if range.is_empty() {
            return range;
        }
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&from, &to)) = self.ends.range(..=end).next_back()
            && to >= start
        {
            self.ends.remove(&from);
            self.count -= to - from;
            (start, end) = (start.min(from), end.max(to));
        }
        self.ends.insert(start, end);
        self.count += end - start;
        start..end
    }

    /// Takes out `range`.
    pub fn remove(&mut self, range: Range<u64>) {
        while let Some((&from, &to)) = self.ends.range(..range.end).next_back()
            && to > range.start
            && !range.is_empty()
        {
            self.ends.remove(&from);
            self.count -= to.min(range.end) - from.max(range.start);
            if to > range.end {
                self.ends.insert(range.end, to);
            }
            if from < range.start {
                self.ends.insert(from, range.start);
            }
        }
    }

    /// Adds all of `other`.
    pub fn extend(&mut self, other: Ranges) {
        for range in other.iter() {
            self.insert(range);
        }
    }

    /// True if `number` is in it.
    pub fn contains(&self, number: u64) -> bool {
        self.ends.range(..=number).next_back().is_some_and(|(_, &end)| number < end)
    }

    /// Count of the numbers of `range` that are in it.
    pub fn count_within(&self, range: Range<u64>) -> u64 {
        let first = match self.ends.range(..=range.start).next_back() {
            Some((&start, &end)) if end > range.start => start,
            _ => range.start,
        };
        let found = self.ends.range(first..range.end.max(first));
        found.map(|(&start, &end)| end.min(range.end).saturating_sub(start.max(range.start))).sum()
    }

    /// Count of the numbers in it.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The first number in it from `at` on.
    pub fn first_from(&self, at: u64) -> Option<u64> {
        if self.contains(at) { Some(at) } else { self.from(at).next().map(|range| range.start) }
    }

    /// The ranges that begin before `at`, the nearest first.
    #[inline]
    pub fn before(&self, at: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ends.range(..at).rev().map(|(&start, &end)| start..end)
    }

    /// The ranges that begin at `at` or behind it.
    #[inline]
    pub fn from(&self, at: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ends.range(at..).map(|(&start, &end)| start..end)
    }

    /// True if nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The ranges, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ends.iter().map(|(&start, &end)| start..end)
    }
}
