//! Map of a file's data: extents in memory, and their code in the metadata store.
//!
//! A [`FileMap`] maps granules of a file to granules of the shingled partition; granules that it does not map are holes. [`Stored`] knows
//! which part is durable, and plans the writes of a commit; `decode` reads it back. It has a checksum of each granule's data, so that wrong
//! data is found, wherever it comes from.

mod record;
mod stored;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;

use smrkit::ranges::{RangeMap, Shift};

pub use crate::data::{checksum, sealed, unsealed};
use crate::units::{Granule, Span};
pub use record::{Head, MapError, RecordSummary, summary};
pub use stored::{
    Decoded, PAGE_BYTES, POINTER_BYTES, StoragePlan, Stored, decode, decode_places, load_part, part_numbers,
};

/// Granules of a file that are contiguous on the disk, or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePiece {
    /// The first, in the file.
    pub first: u64,
    /// Number of granules.
    pub count: u64,
    /// First granule on the disk; `None` for a hole.
    pub at: Option<Granule>,
}

impl FilePiece {
    /// The granule of the file after it.
    pub fn end(&self) -> u64 {
        self.first + self.count
    }

    /// Span on the disk; `None` for a hole.
    pub fn span(&self) -> Option<Span> {
        self.at.map(|at| Span { at, count: self.count })
    }
}

impl Shift for Granule {
    fn shifted(&self, by: u64) -> Granule {
        *self + by
    }
}

/// The extents of a file, by their place in it. Extents that are contiguous both in the file and on the disk are joined.
#[derive(Clone, Debug, Default)]
pub struct FileMap {
    extents: RangeMap<Granule>,
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
    /// The granules of data.
    pub fn granules(&self) -> u64 {
        self.extents.count()
    }

    /// The extents.
    pub fn extents(&self) -> usize {
        self.extents.len()
    }

    /// True if there is no data.
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// The granule after all data.
    pub fn end(&self) -> u64 {
        self.extents.end()
    }

    /// The extents that contain or follow `from`, whole, in ascending order.
    pub fn extents_from(&self, from: u64) -> impl Iterator<Item = FilePiece> + '_ {
        self.extents.overlapping(from..u64::MAX).map(|(extent, &at)| piece(extent, Some(at)))
    }

    /// Pieces of `range` in ascending order, data and holes, cut to it.
    pub fn lookup(&self, range: Range<u64>) -> impl Iterator<Item = FilePiece> + '_ {
        self.extents.parts(range).map(|(part, at)| piece(part, at))
    }

    /// Place of a granule of the file; `None` in a hole.
    pub fn at(&self, granule: u64) -> Option<Granule> {
        self.extents.get(granule)
    }

    /// Memory that it takes, in extents.
    pub(crate) fn weight(&self) -> usize {
        self.extents.len() + self.sums.chunks.len() * SUMS_WEIGHT
    }

    /// The checksums of the granules in `range`; 0 if unknown.
    pub fn sums(&self, range: Range<u64>) -> Vec<u32> {
        self.sums.within(range)
    }

    /// Sets the checksums of granules with data, from `first` on.
    pub fn set_sums(&mut self, first: u64, sums: &[u32]) {
        self.sums.set(first, sums);
    }

    /// Maps the granules from `first` of the file on to `span`; returns the replaced pieces. Checksums stay, as is right for moved data; for
    /// new data the caller calls `set_sums`.
    pub fn insert(&mut self, first: u64, span: Span) -> Vec<FilePiece> {
        if span.is_empty() {
            return Vec::new();
        }
        let replaced = self.cut_out(first..first + span.count);
        self.changes.cover(first..first + span.count, ());
        self.put(first, span.count, span.at);
        replaced
    }

    /// Makes a hole of `range`; returns the removed pieces.
    pub fn remove(&mut self, range: Range<u64>) -> Vec<FilePiece> {
        // Granules in holes do not change, so the change begins and ends with data.
        let end = range.end.min(self.end());
        self.changes.cover(self.next_data(range.start).unwrap_or(end)..end, ());
        self.sums.remove(range.clone());
        self.cut_out(range)
    }

    /// Removes a range without noting the change.
    fn cut_out(&mut self, range: Range<u64>) -> Vec<FilePiece> {
        self.extents.uncover(range).into_iter().map(|(part, at)| piece(part, Some(at))).collect()
    }

    /// The first granule with data from `from` on.
    pub fn next_data(&self, from: u64) -> Option<u64> {
        self.extents.first_from(from)
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

    /// Adds an extent where there is a hole, and joins it with its neighbours.
    fn put(&mut self, first: u64, count: u64, at: Granule) {
        self.extents.insert(first..first + count, at);
    }
}

fn piece(range: Range<u64>, at: Option<Granule>) -> FilePiece {
    FilePiece { first: range.start, count: range.end - range.start, at }
}

/// The part of `piece` inside `range`; empty if there is none.
fn cut(piece: FilePiece, range: Range<u64>) -> FilePiece {
    let first = piece.first.max(range.start);
    let end = piece.end().min(range.end).max(first);
    FilePiece { first, count: end - first, at: piece.at.map(|at| at + (first - piece.first)) }
}

/// Granules of a chunk of checksums: a small file has one chunk.
const SUMS: u64 = 32;

/// The weight of a chunk of checksums, in extents.
const SUMS_WEIGHT: usize = 2;

/// Checksums of a file's granules, by their place in it. 0 means unknown, so one granule in four billion is not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sums {
    /// Chunks of zeros are left out.
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

    /// Sets the checksums of granules from `first` on. Keeps no chunk that is all zeros.
    fn set(&mut self, mut first: u64, mut sums: &[u32]) {
        while !sums.is_empty() {
            let (chunk, at) = (first / SUMS, (first % SUMS) as usize);
            let (chunk_sums, rest) = sums.split_at(sums.len().min(SUMS as usize - at));
            if chunk_sums.iter().any(|&sum| sum != 0) || self.chunks.contains_key(&chunk) {
                let stored = self.chunks.entry(chunk).or_insert_with(|| Box::new([0; SUMS as usize]));
                stored[at..at + chunk_sums.len()].copy_from_slice(chunk_sums);
                if stored.iter().all(|&sum| sum == 0) {
                    self.chunks.remove(&chunk);
                }
            }
            (first, sums) = (first + chunk_sums.len() as u64, rest);
        }
    }

    /// Clears the checksums of `range`, and drops chunks that are all zeros then.
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

/// A set of numbers.
pub type Ranges = RangeMap<()>;
