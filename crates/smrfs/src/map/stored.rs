//! The durable part of a map, and the plan of a commit's writes.
//!
//! The record of a small map holds all of it. A larger map is divided by place in the file into parts, which are written once; the record
//! overlays later changes, so that a small write with fsync rewrites only the record. When the overlay gets too large for the record, the
//! parts that it touches are rewritten under new numbers.

use std::collections::BTreeSet;
use std::ops::Range;

use super::record::{
    Base, EXTENTS, Head, INDEX, LIMIT, MapError, PartRef, PieceWriter, RecordReader, RecordSummary, SUMS, apply,
    pieces, read_part, read_parts, read_record, write_part, write_parts, write_record,
};
use super::{FileMap, FilePiece, Ranges, cut};
use crate::error::{Errno, FsError, FsResult};
use crate::meta::MetadataStore;

/// The longest record, even if a store takes longer ones: a page (assumption). A longer one would be rewritten at each commit.
pub const PAGE_BYTES: usize = 4096;

/// The most extents of a part, which take some 24 KiB (assumption).
const PART_EXTENTS: usize = 4096;

/// The most granules of a part with checksums: 64 KiB of checksums.
const PART_GRANULES: u64 = 1 << 14;

/// A rough estimate of how many checksums take as much space as a piece.
const GRANULES_OF_PIECE: u64 = 6;

/// An estimate of the bytes of a piece that is rarely too low: place, length and address of a small one.
const PIECE_BYTES: usize = 8;

/// The longest record without pieces that names at most one part. Stores must keep this much room for it next to users' attributes.
pub const POINTER_BYTES: usize = 128;

/// Durable part of a file's map: its parts, and the ranges where the record overrides them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    generation: u64,
    parts: Vec<PartRef>,
    /// The part with the list of parts, if that is not in the record.
    index: Option<u64>,
    /// Ranges in which parts are outdated. Without parts the record has everything, and this is empty.
    overlay: Overlay,
}

/// The plan of a commit. Its parts are stored first and made durable, then the record. When that is durable, call [`Stored::adopt`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoragePlan {
    /// New parts by number. After a failure, those that were stored have to be removed.
    pub parts: Vec<(u64, Vec<u8>)>,
    /// The record.
    pub record: Vec<u8>,
    generation: u64,
    /// What replaces the parts and the overlay; `None` if only the record changes.
    new_parts: Option<Stored>,
}

/// Result of [`decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Generation, size, times, promise, granules.
    pub summary: RecordSummary,
    /// The map.
    pub map: FileMap,
    /// The durable part of it, which is all.
    pub stored: Stored,
}

impl Stored {
    /// The durable part of a file without a record.
    pub fn new() -> Stored {
        Stored::default()
    }

    /// The numbers of the parts that the durable record needs.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.parts.iter().flat_map(|part| [Some(part.number), part.sums]).flatten().chain(self.index)
    }

    /// Plans a commit of `map` as it is now. The record takes at most `bytes_max` bytes, or 128 if that is more. `number` returns an
    /// unused number for a new part at each call. A plan that failed is thrown away, and the next covers its changes.
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
        // With no more extents than changes, a record of the whole map is as short as one of the changes.
        let is_outgrown = !self.parts.is_empty() && map.extents() <= self.overlay.len();
        if !is_outgrown && let Some(record) = self.record(&summary, map, bytes_max) {
            return StoragePlan { parts: Vec::new(), record, generation, new_parts: None };
        }
        // A map that has shrunk to half a record needs no parts any more.
        let whole = Stored::new();
        if let Some(record) = whole.record(&summary, map, bytes_max / 2) {
            return StoragePlan { parts: Vec::new(), record, generation, new_parts: Some(whole) };
        }
        // First, the changes that are left take a third of the record or less, and the list of parts half of it. If the record is too long even
        // so, no change is left in it, and one part lists the others.
        for (changes_left, list_bytes_max) in [(bytes_max / 3 / PIECE_BYTES, bytes_max / 2), (0, 0)] {
            let (mut new, mut added) = (self.clone(), AddedParts { number: &mut *number, parts: Vec::new() });
            new.spill(map, changes_left as u64, &mut added);
            new.list(list_bytes_max, &mut added);
            if let Some(record) = new.record(&summary, map, bytes_max.max(POINTER_BYTES)) {
                return StoragePlan { parts: added.parts, record, generation, new_parts: Some(new) };
            }
        }
        unreachable!("a record that names one part has at most {POINTER_BYTES} bytes")
    }

    /// Adopts a plan whose record is durable; returns the parts that are no longer needed.
    pub fn adopt(&mut self, plan: StoragePlan) -> Vec<u64> {
        let mut obsolete = Vec::new();
        if let Some(new) = plan.new_parts {
            let needed: BTreeSet<u64> = new.numbers().collect();
            obsolete.extend(self.numbers().filter(|number| !needed.contains(number)));
            *self = new;
        }
        self.generation = plan.generation;
        obsolete
    }

    /// Encodes the record, if it is not longer than `bytes_max`.
    fn record(&self, summary: &RecordSummary, map: &FileMap, bytes_max: usize) -> Option<Vec<u8>> {
        let pieces = if self.parts.is_empty() { map.extents() } else { self.overlay.len() };
        let mut writer = PieceWriter::with_room(bytes_max.min(pieces * PIECE_BYTES));
        let mut fits = |piece: FilePiece, map: &FileMap| {
            writer.push(&piece);
            let sums_bytes = if piece.at.is_none() || map.sums.chunks.is_empty() { 0 } else { piece.count * 4 };
            let fits = writer.bytes.len() as u64 + writer.sums.len() as u64 + sums_bytes <= bytes_max as u64;
            if fits && sums_bytes > 0 {
                writer.push_sums(&map.sums(piece.first..piece.end()));
            }
            fits
        };
        let all_fit = if self.parts.is_empty() {
            map.extents_from(0).all(|piece| fits(piece, map))
        } else {
            self.overlay.pieces().all(|piece| fits(piece, &self.overlay.data))
        };
        let record = all_fit.then(|| write_record(summary, &self.parts, self.index, &writer))?;
        (record.len() <= bytes_max).then_some(record)
    }

    /// Rewrites the parts with the most changes, or writes the first ones.
    fn spill(&mut self, map: &FileMap, changes_left: u64, added: &mut AddedParts<'_>) {
        if self.parts.is_empty() {
            self.parts = write_parts_of(map, 0..LIMIT, added);
            return;
        }
        let chosen = self.parts_to_rewrite(changes_left);
        let old = std::mem::take(&mut self.parts);
        let mut at = 0;
        while at < old.len() {
            if !chosen[at] {
                self.parts.push(old[at]);
                at += 1;
                continue;
            }
            // Neighbours are rewritten together, so that parts that have shrunk are joined.
            let end = (at..old.len()).find(|&part| !chosen[part]).unwrap_or(old.len());
            let covered = old[at].first..old.get(end).map_or(LIMIT, |part| part.first);
            self.parts.extend(write_parts_of(map, covered.clone(), added));
            self.overlay.remove(covered);
            at = end;
        }
        // The first part may have become empty and been dropped. Its successor covers its range, too.
        if let Some(first) = self.parts.first_mut() {
            first.first = 0;
        }
    }

    /// Chooses the parts to rewrite, so that at most `changes_left`, and at most a quarter of the changes, are left.
    fn parts_to_rewrite(&self, changes_left: u64) -> Vec<bool> {
        let mut changes_by_part = vec![0u64; self.parts.len()];
        for piece in self.overlay.pieces() {
            let first = self.parts.partition_point(|part| part.first <= piece.first) - 1;
            for (part, count) in self.parts.iter().zip(&mut changes_by_part).skip(first) {
                if part.first >= piece.end() {
                    break;
                }
                // Counted in pieces, where the checksums of a few granules take as much room as a piece.
                *count +=
                    1 + if self.overlay.data.sums.chunks.is_empty() { 0 } else { piece.count / GRANULES_OF_PIECE };
            }
        }
        let mut order: Vec<usize> = (0..changes_by_part.len()).filter(|&part| changes_by_part[part] > 0).collect();
        order.sort_by_key(|&part| std::cmp::Reverse(changes_by_part[part]));
        let mut left: u64 = changes_by_part.iter().sum();
        let left_max = changes_left.min(left / 4);
        let mut chosen = vec![false; changes_by_part.len()];
        for part in order {
            if left <= left_max {
                break;
            }
            chosen[part] = true;
            left -= changes_by_part[part];
        }
        chosen
    }

    /// Moves the list of parts to a part of its own if it is longer than `bytes_max`.
    fn list(&mut self, bytes_max: usize, added: &mut AddedParts<'_>) {
        let mut list = Vec::new();
        let with_sums = self.parts.iter().any(|part| part.sums.is_some());
        write_parts(&mut list, &self.parts, with_sums);
        let is_too_long = list.len() > bytes_max && !self.parts.is_empty();
        self.index = is_too_long.then(|| added.add(INDEX, None, &list, with_sums));
    }
}

/// The parts that a plan adds.
struct AddedParts<'a> {
    /// Returns an unused number at each call.
    number: &'a mut dyn FnMut() -> u64,
    parts: Vec<(u64, Vec<u8>)>,
}

impl AddedParts<'_> {
    /// Encodes a part, and returns its number.
    fn add(&mut self, kind: u8, count: Option<u64>, body: &[u8], with_sums: bool) -> u64 {
        let number = (self.number)();
        self.parts.push((number, write_part(kind, number, count, body, with_sums)));
        number
    }
}

/// Encodes the extents of `map` in `covered` as parts with about the same number of extents, and returns their references.
fn write_parts_of(map: &FileMap, covered: Range<u64>, added: &mut AddedParts<'_>) -> Vec<PartRef> {
    let extents = || map.lookup(covered.clone()).filter(|piece| piece.at.is_some());
    let count = extents().count();
    let extents_per_part = count.div_ceil(count.div_ceil(PART_EXTENTS).max(1)).max(1);
    let has_sums = !map.sums.chunks.is_empty();
    let granules_max = if has_sums { PART_GRANULES } else { u64::MAX };
    let (mut parts, mut extents) = (Vec::new(), extents());
    let mut next = extents.next();
    while let Some(first) = next {
        let first = if parts.is_empty() { covered.start } else { first.first };
        let (mut writer, mut left) = (PieceWriter::default(), granules_max);
        while let Some(piece) = next.filter(|_| left > 0 && writer.count < extents_per_part as u64) {
            let cut_piece = cut(piece, piece.first..piece.first.saturating_add(left));
            writer.push(&cut_piece);
            if has_sums {
                writer.push_sums(&map.sums(cut_piece.first..cut_piece.end()));
            }
            left -= cut_piece.count;
            next = if cut_piece.count < piece.count {
                Some(cut(piece, cut_piece.end()..piece.end()))
            } else {
                extents.next()
            };
        }
        let number = added.add(EXTENTS, Some(writer.count), &writer.bytes, false);
        let sums = writer.has_sums.then(|| added.add(SUMS, None, &writer.sums, false));
        parts.push(PartRef { first, number, sums });
    }
    parts
}

/// Reads a map back: its record and, by `load`, the parts that it names. Errors say what is wrong with the bytes.
pub fn decode(record: &[u8], load: impl FnMut(u64) -> FsResult<Vec<u8>>) -> FsResult<Decoded> {
    decode_with(record, load, true)
}

/// Reads a map without the parts that hold checksums, for callers that need only the places of data. Nothing can be committed from it.
pub fn decode_places(record: &[u8], load: impl FnMut(u64) -> FsResult<Vec<u8>>) -> FsResult<Decoded> {
    decode_with(record, load, false)
}

/// Puts the extents of a part, which must be before `end`, and its checksums into the map.
fn decode_part(
    map: &mut FileMap,
    part: &PartRef,
    end: u64,
    load: &mut impl FnMut(u64) -> FsResult<Vec<u8>>,
    load_sums: bool,
) -> FsResult {
    let bytes = load(part.number)?;
    let (mut reader, _) = read_part(EXTENTS, part.number, &bytes)?;
    let count = reader.integer()?;
    let mut with_data = Vec::new();
    pieces(&mut reader, count, |piece| match piece.at {
        Some(at) if part.first <= piece.first && piece.end() <= end => {
            map.put(piece.first, piece.count, at);
            with_data.push(piece);
            Ok(())
        }
        _ => Err(MapError::Range),
    })?;
    reader.end()?;
    if let Some(number) = part.sums.filter(|_| load_sums) {
        let bytes = load(number)?;
        let (mut reader, _) = read_part(SUMS, number, &bytes)?;
        read_sums(&mut reader, &with_data, |first, sums| map.set_sums(first, sums))?;
        reader.end()?;
    }
    Ok(())
}

/// Decodes a record: first the parts that it is based on, then its own changes to them.
fn decode_with(record: &[u8], mut load: impl FnMut(u64) -> FsResult<Vec<u8>>, load_sums: bool) -> FsResult<Decoded> {
    let (summary, base, mut reader, with_sums) = read_record(record)?;
    let (parts, index) = parts_of(base, &mut load)?;
    let mut map = FileMap::default();
    for (at, part) in parts.iter().enumerate() {
        let end = parts.get(at + 1).map_or(LIMIT, |next| next.first);
        decode_part(&mut map, part, end, &mut load, load_sums)?;
    }
    let mut overlay = Overlay::default();
    let count = reader.integer()?;
    let mut with_data = Vec::new();
    pieces(&mut reader, count, |piece| {
        // Without parts, the record is the whole map, and lies over nothing.
        if !parts.is_empty() {
            overlay.put(piece);
        }
        apply(&mut map, piece);
        with_data.extend(piece.at.map(|_| piece));
        Ok(())
    })?;
    // A record that names checksums of parts may have none itself.
    if with_sums && !reader.is_empty() {
        read_sums(&mut reader, &with_data, |first, sums| {
            map.set_sums(first, sums);
            if !parts.is_empty() {
                overlay.data.set_sums(first, sums);
            }
        })?;
    }
    reader.end()?;
    // What was loaded is no change to be stored.
    map.take_changes();
    if map.granules() != summary.granules {
        return Err(MapError::Granules { said: summary.granules, found: map.granules() }.into());
    }
    let stored = Stored { generation: summary.generation, parts, index, overlay };
    Ok(Decoded { summary, map, stored })
}

/// Reads part `number` of a map. Because a record names it, a missing part is reported as damage, and not as a wrong name.
pub fn load_part(store: &dyn MetadataStore, number: u64) -> FsResult<Vec<u8>> {
    match store.load_spill(number) {
        Err(FsError::Errno(Errno::ENOENT)) => {
            Err(FsError::Corrupt(format!("part {number} of a map is missing; run smrkit fsck")))
        }
        loaded => loaded,
    }
}

/// The numbers of the parts that a record needs. `load` is called only for the list of parts, if that is in a part.
pub fn part_numbers(record: &[u8], mut load: impl FnMut(u64) -> FsResult<Vec<u8>>) -> FsResult<Vec<u64>> {
    let (_, base, ..) = read_record(record)?;
    let (parts, index) = parts_of(base, &mut load)?;
    Ok(Stored { parts, index, ..Stored::default() }.numbers().collect())
}

/// The parts that a record is based on and, if they are listed in an index part, its number.
fn parts_of(base: Base, load: &mut impl FnMut(u64) -> FsResult<Vec<u8>>) -> FsResult<(Vec<PartRef>, Option<u64>)> {
    match base {
        Base::Nothing => Ok((Vec::new(), None)),
        Base::Parts(parts) => Ok((parts, None)),
        Base::Index(number) => {
            let bytes = load(number)?;
            let (mut reader, with_sums) = read_part(INDEX, number, &bytes)?;
            let parts = read_parts(&mut reader, with_sums)?;
            reader.end()?;
            Ok((parts, Some(number)))
        }
    }
}

fn read_sums(
    reader: &mut RecordReader<'_>,
    with_data: &[FilePiece],
    mut set: impl FnMut(u64, &[u32]),
) -> Result<(), MapError> {
    for piece in with_data {
        // Without reserving memory, because a damaged length could ask for any amount.
        let mut sums = Vec::new();
        for _ in 0..piece.count {
            sums.push(reader.sum()?);
        }
        set(piece.first, &sums);
    }
    Ok(())
}

/// Ranges of a file, and their data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Overlay {
    ranges: Ranges,
    /// The data in them.
    data: FileMap,
}

impl Overlay {
    /// Updates `changes` to their state in `map`.
    pub(super) fn take(&mut self, changes: &Ranges, map: &FileMap) {
        for (range, ()) in changes.iter() {
            self.remove(range.clone());
            for piece in map.lookup(range.clone()) {
                self.put(piece);
                if piece.at.is_some() && !map.sums.chunks.is_empty() {
                    self.data.set_sums(piece.first, &map.sums(piece.first..piece.end()));
                }
            }
        }
    }

    /// Adds a piece in ranges that are not in the overlay yet.
    pub(super) fn put(&mut self, piece: FilePiece) {
        self.ranges.cover(piece.first..piece.end(), ());
        if let Some(at) = piece.at {
            self.data.put(piece.first, piece.count, at);
        }
    }

    pub(super) fn remove(&mut self, range: Range<u64>) {
        self.ranges.uncover(range.clone());
        self.data.sums.remove(range.clone());
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
                left = ranges.next()?.0;
            }
            // An extent lies in one range, because ranges that touch are joined.
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
