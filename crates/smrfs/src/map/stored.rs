//! Durable part of a map, and the plan of what a commit has to write.
//!
//! A small map is all in its record. A larger one is cut by place in the file into parts, written once each, and the record
//! overlays what changed since: a small write with fsync rewrites only the record. When the overlay outgrows it, the parts
//! that it touches are written anew under new numbers.

use std::collections::BTreeSet;
use std::ops::Range;

use super::record::{
    Base, EXTENTS, Head, INDEX, LIMIT, MapError, PartRef, PieceWriter, RecordReader, RecordSummary, apply, pieces,
    read_part, read_parts, read_record, write_part, write_parts, write_record,
};
use super::{FileMap, FilePiece, Ranges, cut};
use crate::error::{Errno, FsError, FsResult};
use crate::meta::MetadataStore;

/// Records are kept to this even where a store takes longer ones: a record is rewritten at each commit. (Assumption: a page.)
pub const PAGE_BYTES: usize = 4096;

/// Extents of a part at most: some 24 KiB. (Assumption.)
const PART_EXTENTS: usize = 4096;

/// Bytes of a piece, by a guess that is rarely too low: place, length and address of a small one.
const PIECE_BYTES: usize = 8;

/// The longest record that holds no piece and names one part or none: keep so much room for it next to users' attributes.
pub const POINTER_BYTES: usize = 128;

/// Durable part of a file's map: its parts, and the ranges where the record overrides them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    generation: u64,
    parts: Vec<PartRef>,
    /// The part with the list of parts, where that is not in the record.
    index: Option<u64>,
    /// Ranges in which parts are out of date. Without parts the record has everything, and this is empty.
    overlay: Overlay,
}

/// Plan of a commit: first the parts, then, when they are durable, the record. When that is durable, [`Stored::done`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoragePlan {
    /// New parts by number. After a failure remove those that were stored.
    pub parts: Vec<(u64, Vec<u8>)>,
    /// The record.
    pub record: Vec<u8>,
    generation: u64,
    /// None: only the record changes.
    after: Option<Stored>,
}

/// Result of [`decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Generation, size, times, promise, granules.
    pub summary: RecordSummary,
    /// The map.
    pub map: FileMap,
    /// The durable part of it: all.
    pub stored: Stored,
}

impl Stored {
    /// Of a file that has no record yet.
    pub fn new() -> Stored {
        Stored::default()
    }

    /// The numbers of the parts that the durable record needs.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.parts.iter().map(|part| part.number).chain(self.index)
    }

    /// Plans a commit of `map` as it is now. The record takes at most `bytes_max` bytes (but 128 if that is less).
    /// `number` gives numbers for new parts, each once. A plan that failed is thrown away; the next covers its changes.
    pub fn plan(
        &mut self,
        map: &mut FileMap,
        head: &Head,
        bytes_max: usize,
        number: &mut dyn FnMut() -> u64,
    ) -> StoragePlan {
        let changes = map.take_changes();
        if !self.parts.is_empty() {
            self.overlay.take(&changes, map);
        }
        let generation = self.generation + 1;
        let summary = RecordSummary { generation, head: *head, granules: map.granules() };
        let bytes_max = bytes_max.min(PAGE_BYTES);
        let small = !self.parts.is_empty() && map.extents() <= self.overlay.len();
        if !small && let Some(record) = self.record(&summary, map, bytes_max) {
            return StoragePlan { parts: Vec::new(), record, generation, after: None };
        }
        // A map that has shrunk to half a record needs no parts any more.
        let whole = Stored::new();
        if let Some(record) = whole.record(&summary, map, bytes_max / 2) {
            return StoragePlan { parts: Vec::new(), record, generation, after: Some(whole) };
        }
        for (changes_left, list_bytes_max) in [(bytes_max / 24, bytes_max / 2), (0, 0)] {
            let (mut after, mut parts) = (self.clone(), Vec::new());
            after.spill(map, changes_left as u64, number, &mut parts);
            after.list(list_bytes_max, number, &mut parts);
            if let Some(record) = after.record(&summary, map, bytes_max.max(POINTER_BYTES)) {
                return StoragePlan { parts, record, generation, after: Some(after) };
            }
        }
        unreachable!("a record that names one part has at most {POINTER_BYTES} bytes")
    }

    /// The plan has been carried out: its record is durable. Tells the parts that are no longer needed.
    pub fn done(&mut self, plan: StoragePlan) -> Vec<u64> {
        self.generation = plan.generation;
        let Some(after) = plan.after else { return Vec::new() };
        let needed: BTreeSet<u64> = after.numbers().collect();
        let obsolete = self.numbers().filter(|number| !needed.contains(number)).collect();
        *self = Stored { generation: plan.generation, ..after };
        obsolete
    }

    /// The record, if it is not longer than `bytes_max`.
    fn record(&self, summary: &RecordSummary, map: &FileMap, bytes_max: usize) -> Option<Vec<u8>> {
        let pieces = if self.parts.is_empty() { map.extents() } else { self.overlay.len() };
        let mut writer = PieceWriter::with_room(bytes_max.min(pieces * PIECE_BYTES));
        let mut fits = |piece: FilePiece| {
            writer.push(&piece);
            writer.bytes.len() <= bytes_max
        };
        let all = match self.parts.is_empty() {
            true => map.extents_from(0).all(&mut fits),
            false => self.overlay.pieces().all(&mut fits),
        };
        let record = all.then(|| write_record(summary, &self.parts, self.index, &writer))?;
        (record.len() <= bytes_max).then_some(record)
    }

    /// Writes anew the parts with most of the changes, or makes the first ones.
    fn spill(
        &mut self,
        map: &FileMap,
        changes_left: u64,
        number: &mut dyn FnMut() -> u64,
        out: &mut Vec<(u64, Vec<u8>)>,
    ) {
        if self.parts.is_empty() {
            self.parts = cut_up(map, 0..LIMIT, number, out);
            return;
        }
        let chosen = self.touched_most(changes_left);
        let old = std::mem::take(&mut self.parts);
        let mut at = 0;
        while at < old.len() {
            if !chosen[at] {
                self.parts.push(old[at]);
                at += 1;
                continue;
            }
            let behind = (at..old.len()).find(|&part| !chosen[part]).unwrap_or(old.len());
            let covered = old[at].first..old.get(behind).map_or(LIMIT, |part| part.first);
            self.parts.extend(cut_up(map, covered.clone(), number, out));
            self.overlay.remove(covered);
            at = behind;
        }
        if let Some(first) = self.parts.first_mut() {
            first.first = 0;
        }
    }

    /// The parts that leave at most `changes_left`, and a quarter of the changes, when they are written anew.
    fn touched_most(&self, changes_left: u64) -> Vec<bool> {
        let mut touches = vec![0u64; self.parts.len()];
        for piece in self.overlay.pieces() {
            let first = self.parts.partition_point(|part| part.first <= piece.first) - 1;
            for (part, count) in self.parts.iter().zip(&mut touches).skip(first) {
                if part.first >= piece.end() {
                    break;
                }
                *count += 1;
            }
        }
        let mut order: Vec<usize> = (0..touches.len()).filter(|&part| touches[part] > 0).collect();
        order.sort_by_key(|&part| std::cmp::Reverse(touches[part]));
        let mut left: u64 = touches.iter().sum();
        let enough = changes_left.min(left / 4);
        let mut chosen = vec![false; touches.len()];
        for part in order {
            if left <= enough {
                break;
            }
            chosen[part] = true;
            left -= touches[part];
        }
        chosen
    }

    /// Puts the list of parts into a part of its own where it is longer than `bytes_max`.
    fn list(&mut self, bytes_max: usize, number: &mut dyn FnMut() -> u64, out: &mut Vec<(u64, Vec<u8>)>) {
        let mut list = Vec::new();
        write_parts(&mut list, &self.parts);
        self.index = None;
        if list.len() > bytes_max && !self.parts.is_empty() {
            let number = number();
            out.push((number, write_part(INDEX, number, None, &list)));
            self.index = Some(number);
        }
    }
}

/// Writes what `map` has in `covered` as parts of about the same number of extents.
fn cut_up(
    map: &FileMap,
    covered: Range<u64>,
    number: &mut dyn FnMut() -> u64,
    out: &mut Vec<(u64, Vec<u8>)>,
) -> Vec<PartRef> {
    let extents = || data_in(map, covered.clone());
    let count = extents().count();
    let each = count.div_ceil(count.div_ceil(PART_EXTENTS).max(1)).max(1);
    let (mut parts, mut extents) = (Vec::new(), extents().peekable());
    while let Some(piece) = extents.peek() {
        let first = if parts.is_empty() { covered.start } else { piece.first };
        let mut writer = PieceWriter::default();
        extents.by_ref().take(each).for_each(|piece| writer.push(&piece));
        let number = number();
        out.push((number, write_part(EXTENTS, number, Some(writer.count), &writer.bytes)));
        parts.push(PartRef { first, number });
    }
    parts
}

/// Reads a map back: its record, and by `load` the parts that it names. Bytes that make no sense are an error that says why.
pub fn decode(record: &[u8], mut load: impl FnMut(u64) -> FsResult<Vec<u8>>) -> FsResult<Decoded> {
    let (summary, base, mut reader) = read_record(record)?;
    let (parts, index) = parts_of(base, &mut load)?;
    let mut map = FileMap::new();
    for (at, part) in parts.iter().enumerate() {
        let bytes = load(part.number)?;
        let end = parts.get(at + 1).map_or(LIMIT, |next| next.first);
        let mut reader = read_part(EXTENTS, part.number, &bytes)?;
        all_pieces(&mut reader, |piece| match piece.at {
            Some(at) if part.first <= piece.first && piece.end() <= end => {
                map.put(piece.first, piece.count, at);
                Ok(())
            }
            _ => Err(MapError::Range),
        })?;
    }
    let mut overlay = Overlay::default();
    all_pieces(&mut reader, |piece| {
        if !parts.is_empty() {
            overlay.put(piece);
        }
        apply(&mut map, piece);
        Ok(())
    })?;
    map.take_changes();
    if map.granules() != summary.granules {
        return Err(MapError::Granules { said: summary.granules, found: map.granules() }.into());
    }
    let stored = Stored { generation: summary.generation, parts, index, overlay };
    Ok(Decoded { summary, map, stored })
}

/// Reads part `number` of a map. A record names it: that it is missing is damage, and no wrong name.
pub fn load_part(store: &dyn MetadataStore, number: u64) -> FsResult<Vec<u8>> {
    match store.load_spill(number) {
        Err(FsError::Errno(Errno::ENOENT)) => {
            Err(FsError::Corrupt(format!("part {number} of a map is missing; run smrkit fsck")))
        }
        loaded => loaded,
    }
}

/// The numbers of the parts that a record needs; of them `load` reads only the list of the others, if that is in a part.
pub fn part_numbers(record: &[u8], mut load: impl FnMut(u64) -> FsResult<Vec<u8>>) -> FsResult<Vec<u64>> {
    let (_, base, _) = read_record(record)?;
    let (parts, index) = parts_of(base, &mut load)?;
    Ok(parts.iter().map(|part| part.number).chain(index).collect())
}

fn parts_of(base: Base, load: &mut impl FnMut(u64) -> FsResult<Vec<u8>>) -> FsResult<(Vec<PartRef>, Option<u64>)> {
    match base {
        Base::Nothing => Ok((Vec::new(), None)),
        Base::Parts(parts) => Ok((parts, None)),
        Base::Index(number) => {
            let bytes = load(number)?;
            let mut reader = read_part(INDEX, number, &bytes)?;
            let parts = read_parts(&mut reader)?;
            reader.end()?;
            Ok((parts, Some(number)))
        }
    }
}

/// The pieces up to the end of what is read.
fn all_pieces(
    reader: &mut RecordReader<'_>,
    visit: impl FnMut(FilePiece) -> Result<(), MapError>,
) -> Result<(), MapError> {
    let count = reader.integer()?;
    pieces(reader, count, visit)?;
    reader.end()
}

/// Ranges of a file and what they are made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Overlay {
    ranges: Ranges,
    /// The data in them.
    data: FileMap,
}

impl Overlay {
    /// `changes` are as in `map` now.
    pub(super) fn take(&mut self, changes: &Ranges, map: &FileMap) {
        for range in changes.iter() {
            self.data.cut_out(range.clone());
            for piece in map.lookup(range.clone()) {
                self.put(piece);
            }
        }
    }

    /// Adds a piece of which nothing is there as data.
    pub(super) fn put(&mut self, piece: FilePiece) {
        self.ranges.insert(piece.first..piece.end());
        if let Some(at) = piece.at {
            self.data.put(piece.first, piece.count, at);
        }
    }

    /// Takes out `range`.
    pub(super) fn remove(&mut self, range: Range<u64>) {
        self.ranges.remove(range.clone());
        self.data.cut_out(range);
    }

    /// Number of ranges.
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Pieces of the ranges, data and holes, in ascending order.
    pub(super) fn pieces(&self) -> impl Iterator<Item = FilePiece> + '_ {
        let (mut ranges, mut extents) = (self.ranges.iter(), self.data.extents_from(0).peekable());
        let mut left = 0..0;
        std::iter::from_fn(move || {
            if left.is_empty() {
                left = ranges.next()?;
            }
            // An extent lies in one range: ranges that touch are one.
            let piece = match extents.peek() {
                Some(extent) if extent.first <= left.start => extents.next()?,
                Some(extent) => {
                    FilePiece { first: left.start, count: extent.first.min(left.end) - left.start, at: None }
                }
                None => FilePiece { first: left.start, count: left.end - left.start, at: None },
            };
            left.start = piece.end();
            Some(piece)
        })
    }
}

/// Data of `map` in `range`, cut to it.
pub(super) fn data_in(map: &FileMap, range: Range<u64>) -> impl Iterator<Item = FilePiece> + '_ {
    let whole = map.extents_from(range.start).take_while({
        let end = range.end;
        move |piece| piece.first < end
    });
    whole.map(move |piece| cut(piece, range.clone()))
}
