//! The map from LBA to PBA that layers share.
//!
//! Extents lie in sorted vectors, one for each chunk of 4,096 sectors, whatever the layer's own region size; an entry is one 64-bit word.
//! In a prototype this was several times faster than a search tree; 10^7 scattered extents take some 160 MB. Extents that touch both
//! logically and physically are joined inside a chunk; across chunks, [`joined`] does it, so that the container never shows in the results.
//!
//! With scattered writes, few of millions of chunks hold anything. A bit for each chunk says which, so that a search skips the others
//! without a cache miss for each.
//!
//! On a disk that began full, a map begins with long runs, its base. A chunk copies its part of the base when it is first changed.

#[cfg(test)]
mod tests;

use std::ops::Range;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;

use crate::units::{Lba, Pba};

const CHUNK_BITS: u32 = 12;
const CHUNK: u64 = 1 << CHUNK_BITS;
const LEAF_BITS: u32 = 8;
const LEAF: usize = 1 << LEAF_BITS;
const PBA_BITS: u32 = 64 - 2 * CHUNK_BITS;

/// The largest PBA that fits an entry: 2^40 sectors, 562 TB, the largest geometry.
const PBA_MAX: u64 = (1 << PBA_BITS) - 1;

/// Start and length inside a chunk, and where it lies: start (12 bits), length − 1 (12 bits), PBA (40 bits).
///
/// The start has the highest bits, so that entries sort as numbers.
#[derive(Clone, Copy)]
struct PackedExtent(u64);

impl PackedExtent {
    #[inline]
    fn new(start: u64, end: u64, pba: u64) -> PackedExtent {
        debug_assert!(start < end && end <= CHUNK && pba <= PBA_MAX);
        PackedExtent(start << (CHUNK_BITS + PBA_BITS) | (end - start - 1) << PBA_BITS | pba)
    }
    #[inline]
    fn start(self) -> u64 {
        self.0 >> (CHUNK_BITS + PBA_BITS)
    }
    #[inline]
    fn end(self) -> u64 {
        self.start() + (self.0 >> PBA_BITS & (CHUNK - 1)) + 1
    }
    #[inline]
    fn pba(self) -> u64 {
        self.0 & PBA_MAX
    }
    /// True if `next` continues this one, logically and physically.
    #[inline]
    fn touches(self, next: PackedExtent) -> bool {
        self.end() == next.start() && self.pba() + (self.end() - self.start()) == next.pba()
    }
}

/// A run of LBAs that is contiguous on the disk, or unmapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedPiece {
    /// The first LBA.
    pub lba: Lba,
    /// Number of sectors.
    pub sectors: u64,
    /// The PBA of the first; `None` if they are unmapped.
    pub pba: Option<Pba>,
}

/// The extents of a chunk in order. Up to seven lie in one cache line, which is what scattered writes touch; more move to
/// the heap.
#[derive(Default)]
#[repr(align(64))]
struct Chunk(SmallVec<[PackedExtent; INLINE]>);

const INLINE: usize = 7;
/// Entries of a cache line, which are counted together.
const LINE: usize = 8;
const COUNTED: usize = 128;

type Leaf = Box<[Chunk; LEAF]>;

/// A map from LBA to PBA by extents.
#[derive(Default)]
pub struct ExtentMap {
    leaves: Vec<Option<Leaf>>,
    leaf_count: usize,
    extents: usize,
    sectors: u64,
    /// Entries of chunks on the heap, by their capacity.
    heap_entries: usize,
    /// A bit for each chunk: whether it holds extents.
    used: Vec<u64>,
    /// The map of chunks that have not copied their part of it yet.
    base: Base,
    /// A bit for each chunk: whether it has copied its part of the base.
    copied: Vec<u64>,
}

/// Runs in the order of their LBAs, one after another from LBA 0 on.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Base {
    /// The first LBA and PBA of each.
    runs: Vec<(u64, u64)>,
    end: u64,
}

impl Base {
    /// The piece of the base from `at` on, up to `limit`: (its end, PBA).
    fn piece(&self, at: u64, limit: u64) -> (u64, Option<Pba>) {
        let next = self.runs.partition_point(|run| run.0 <= at);
        match next.checked_sub(1).map(|found| self.runs[found]) {
            Some((lba, pba)) if at < self.end => {
                let end = self.runs.get(next).map_or(self.end, |run| run.0);
                (end.min(limit), Some(Pba(pba + (at - lba))))
            }
            _ => (limit, None),
        }
    }
}

impl ExtentMap {
    /// An empty map.
    pub fn new() -> ExtentMap {
        ExtentMap::default()
    }

    /// A map with the base `runs`: (PBA, sectors) for consecutive LBAs from 0 on.
    pub fn of_runs(runs: impl Iterator<Item = (Pba, u64)>) -> ExtentMap {
        let mut base = Base { runs: Vec::with_capacity(runs.size_hint().0), end: 0 };
        for (pba, sectors) in runs {
            base.runs.push((base.end, pba.0));
            base.end += sectors;
        }
        ExtentMap { sectors: base.end, base, ..ExtentMap::default() }
    }

    /// The number of extents, without those of the base.
    pub fn len(&self) -> usize {
        self.extents
    }

    /// Sectors mapped.
    #[inline]
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Memory that it takes, in bytes, without the bits of chunks.
    pub fn bytes(&self) -> u64 {
        let leaf = LEAF * size_of::<Chunk>();
        let top = self.leaves.capacity() * size_of::<Option<Leaf>>();
        let base = size_of_val(self.base.runs.as_slice());
        (top + self.leaf_count * leaf + self.heap_entries * size_of::<PackedExtent>() + base) as u64
    }

    /// Prefetches the entries of several LBAs: the cache misses overlap, because no lookup depends on another.
    #[inline]
    pub fn fetch(&self, lbas: impl Iterator<Item = Lba>) {
        let index = |lba: Lba| (lba.0 >> CHUNK_BITS) as usize;
        let leaf = |index: usize| self.leaves.get(index >> LEAF_BITS)?.as_ref();
        let extents = |index: usize| leaf(index).map_or(0, |leaf| leaf[index & (LEAF - 1)].0.len());
        std::hint::black_box(lbas.map(|lba| extents(index(lba))).sum::<usize>());
    }

    /// Maps `n` sectors from `lba` on to `pba` on, replacing older mappings.
    #[inline]
    pub fn insert(&mut self, lba: Lba, n: u64, pba: Pba) {
        self.replace(lba, n, Some(pba), |_, _| {});
    }

    /// Forgets `n` sectors from `lba` on.
    pub fn remove(&mut self, lba: Lba, n: u64) {
        self.replace(lba, n, None, |_, _| {});
    }

    /// Moves the extent of `n` sectors at `from` to `to`. Returns `false`, and changes nothing, if these sectors are not exactly one
    /// extent, or would join another.
    #[inline]
    pub fn relocate(&mut self, lba: Lba, n: u64, from: Pba, to: Pba) -> bool {
        let (index, start) = (lba.0 >> CHUNK_BITS, lba.0 & (CHUNK - 1));
        if n == 0 || start + n > CHUNK {
            return false;
        }
        let Some(Some(leaf)) = self.leaves.get_mut((index >> LEAF_BITS) as usize) else { return false };
        let chunk = &mut leaf[index as usize & (LEAF - 1)].0;
        let (old, new) = (PackedExtent::new(start, start + n, from.0), PackedExtent::new(start, start + n, to.0));
        // Most chunks are short, and counting has no branch to predict.
        let at = match chunk.len() {
            0..=INLINE => chunk.iter().map(|entry| usize::from(entry.0 < old.0)).sum::<usize>(),
            _ => chunk.partition_point(|entry| entry.0 < old.0),
        };
        let joins = at > 0 && chunk[at - 1].touches(new) || chunk.get(at + 1).is_some_and(|next| new.touches(*next));
        if joins || chunk.get(at).is_none_or(|found| found.0 != old.0) {
            return false;
        }
        chunk[at] = new;
        true
    }

    /// Maps `n` sectors from `lba` on to `pba` on, or forgets them if that is `None`. Calls `displaced` with the place and the sectors of each
    /// piece that was mapped before.
    #[inline]
    pub fn replace(&mut self, lba: Lba, n: u64, pba: Option<Pba>, mut displaced: impl FnMut(Pba, u64)) {
        let (mut at, end) = (lba.0, lba.0 + n);
        while at < end {
            let start = at & (CHUNK - 1);
            let count = (CHUNK - start).min(end - at);
            let new = pba.map(|pba| PackedExtent::new(start, start + count, pba.0 + (at - lba.0)));
            let index = at >> CHUNK_BITS;
            // Removing sectors that were never mapped must not create a leaf.
            if new.is_none() && !is_marked(&self.used, index) && at >= self.base.end {
                at = next_marked(&self.used, at, end);
                continue;
            }
            let chunk = &mut self.chunk_mut(index).0;
            let (len, room) = (chunk.len(), heap_room(chunk));
            let mut lost = 0;
            overwrite(chunk, start, start + count, new, |pba, sectors| {
                lost += sectors;
                displaced(pba, sectors);
            });
            let (grown, new_room) = (chunk.len(), heap_room(chunk));
            self.extents = self.extents + grown - len;
            self.sectors = self.sectors + new.map_or(0, |_| count) - lost;
            self.heap_entries = self.heap_entries + new_room - room;
            mark(&mut self.used, index, grown > 0);
            at += count;
        }
    }

    #[inline]
    fn chunk(&self, index: u64) -> &[PackedExtent] {
        match self.leaves.get((index >> LEAF_BITS) as usize) {
            Some(Some(leaf)) if is_marked(&self.used, index) => &leaf[index as usize & (LEAF - 1)].0,
            _ => &[],
        }
    }

    /// The beginning of the next chunk after `at` that may have extents, or `end`.
    #[inline]
    fn next_chunk(&self, at: u64, end: u64) -> u64 {
        match at < self.base.end {
            // A chunk that has no bit may be mapped by the base.
            true => end.min(((at >> CHUNK_BITS) + 1) << CHUNK_BITS),
            false => next_marked(&self.used, at, end),
        }
    }

    #[inline]
    fn chunk_mut(&mut self, index: u64) -> &mut Chunk {
        let at = (index >> LEAF_BITS) as usize;
        if self.leaves.get(at).is_none_or(Option::is_none) {
            self.make_leaf(at);
        }
        if index << CHUNK_BITS < self.base.end && !is_marked(&self.copied, index) {
            self.copy_base(index);
        }
        let Some(leaf) = &mut self.leaves[at] else { unreachable!("just made") };
        &mut leaf[index as usize & (LEAF - 1)]
    }

    #[cold]
    fn make_leaf(&mut self, number: usize) {
        if number >= self.leaves.len() {
            self.leaves.resize_with(number + 1, || None);
            self.used.resize(self.leaves.len() * LEAF / 64, 0);
        }
        self.leaves[number] = Some(Box::new([const { Chunk(SmallVec::new_const()) }; LEAF]));
        self.leaf_count += 1;
    }

    /// Copies the part of the base of a chunk whose leaf exists.
    #[cold]
    fn copy_base(&mut self, index: u64) {
        self.copied.resize(self.used.len(), 0);
        mark(&mut self.copied, index, true);
        mark(&mut self.used, index, true);
        let Some(leaf) = &mut self.leaves[(index >> LEAF_BITS) as usize] else { unreachable!("it exists") };
        let chunk = &mut leaf[index as usize & (LEAF - 1)].0;
        let first = index << CHUNK_BITS;
        let (mut at, end) = (first, (first + CHUNK).min(self.base.end));
        while at < end {
            let (stop, pba) = self.base.piece(at, end);
            let Some(pba) = pba else { break };
            chunk.push(PackedExtent::new(at - first, stop - first, pba.0));
            // The sectors have been counted with `base`.
            self.extents += 1;
            at = stop;
        }
        self.heap_entries += heap_room(chunk);
    }

    /// Place of `lba`, if it is mapped.
    pub fn get(&self, lba: Lba) -> Option<Pba> {
        self.pieces(lba, 1).next().and_then(|piece| piece.pba)
    }

    /// The pieces that make up `n` sectors from `lba` on, in order, the unmapped ones too.
    #[inline]
    pub fn pieces(&self, lba: Lba, n: u64) -> MappedPieces<'_> {
        let mut pieces = MappedPieces { map: self, at: lba.0, end: lba.0 + n, chunk: &[], by_base: false };
        if n > 0 {
            pieces.enter();
        }
        pieces
    }

    /// The mapped pieces of `n` sectors from `lba` on, in order: (LBA, sectors, PBA).
    pub fn mapped(&self, lba: Lba, n: u64) -> impl Iterator<Item = (Lba, u64, Pba)> + '_ {
        self.pieces(lba, n).filter_map(|piece| Some((piece.lba, piece.sectors, piece.pba?)))
    }
}

/// Saved form of a map. It keeps the capacities of its chunks, so that [`ExtentMap::bytes`] is the same after a restore.
#[derive(Serialize, Deserialize)]
struct SavedMap {
    base: Base,
    leaf_room: usize,
    leaves: Vec<Option<Vec<SavedChunk>>>,
}

/// A chunk with extents or room, or that has copied its part of the base: its number in the leaf, entries that it has room for on the heap, and
/// for each extent the sectors between the end of the one before and its start, its sectors, and its PBA.
#[derive(Serialize, Deserialize)]
struct SavedChunk(u8, usize, SmallVec<[(u16, u16, u64); INLINE]>);

impl Serialize for ExtentMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let extents = |chunk: &Chunk| {
            let mut before = 0;
            let saved = chunk.0.iter().map(|extent| {
                let (gap, sectors) = (extent.start() - before, extent.end() - extent.start());
                before = extent.end();
                (gap as u16, sectors as u16, extent.pba())
            });
            saved.collect()
        };
        let chunks = |(number, leaf): (usize, &Option<Leaf>)| {
            let is_copied = |at: usize| is_marked(&self.copied, (number * LEAF + at) as u64);
            let all = leaf.as_ref()?.iter().enumerate();
            let stored = all.filter(|(at, chunk)| !chunk.0.is_empty() || chunk.0.spilled() || is_copied(*at));
            Some(stored.map(|(at, chunk)| SavedChunk(at as u8, heap_room(&chunk.0), extents(chunk))).collect())
        };
        let leaves = self.leaves.iter().enumerate().map(chunks).collect();
        SavedMap { base: self.base.clone(), leaf_room: self.leaves.capacity(), leaves }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ExtentMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ExtentMap, D::Error> {
        let saved = SavedMap::deserialize(deserializer)?;
        ExtentMap::restore(saved).ok_or_else(|| D::Error::custom("a map has extents that overlap or lie nowhere"))
    }
}

impl ExtentMap {
    /// Restores a map; `None` if it contradicts itself.
    fn restore(SavedMap { base, leaf_room, leaves }: SavedMap) -> Option<ExtentMap> {
        let ends = base.runs.iter().skip(1).map(|run| run.0).chain([base.end]);
        let is_run = |(&(lba, pba), end): (&(u64, u64), u64)| {
            lba < end && pba.checked_add(end - lba).is_some_and(|end| end <= PBA_MAX + 1)
        };
        if base.runs.first().map_or(base.end, |run| run.0) != 0 || !base.runs.iter().zip(ends).all(is_run) {
            return None;
        }
        let mut map = ExtentMap { sectors: base.end, base, ..ExtentMap::default() };
        map.leaves.try_reserve_exact(leaf_room.max(leaves.len())).ok()?;
        map.used = vec![0; leaves.len() * LEAF / 64];
        map.copied = vec![0; if map.base.end > 0 { map.used.len() } else { 0 }];
        for chunks in leaves {
            let Some(chunks) = chunks else {
                map.leaves.push(None);
                continue;
            };
            let mut leaf: Leaf = Box::new([const { Chunk(SmallVec::new_const()) }; LEAF]);
            for saved in chunks {
                let index = (map.leaves.len() * LEAF) as u64 + u64::from(saved.0);
                map.restore_chunk(index, &mut leaf[usize::from(saved.0)], saved)?;
            }
            map.leaf_count += 1;
            map.leaves.push(Some(leaf));
        }
        Some(map)
    }

    fn restore_chunk(
        &mut self,
        index: u64,
        Chunk(chunk): &mut Chunk,
        SavedChunk(_, room, extents): SavedChunk,
    ) -> Option<()> {
        let was_restored_before = !chunk.is_empty() || is_marked(&self.copied, index);
        // More than one extent for each sector is never asked for.
        if was_restored_before || room > 2 * CHUNK as usize || extents.len() > room.max(INLINE) {
            return None;
        }
        chunk.reserve_exact(room);
        let mut end = 0;
        for (gap, sectors, pba) in extents {
            let start = end + u64::from(gap);
            end = start + u64::from(sectors);
            if sectors == 0 || end > CHUNK || pba > PBA_MAX {
                return None;
            }
            chunk.push(PackedExtent::new(start, end, pba));
            self.sectors += u64::from(sectors);
        }
        self.extents += chunk.len();
        mark(&mut self.used, index, !chunk.is_empty());
        self.heap_entries += heap_room(chunk);
        if index << CHUNK_BITS < self.base.end {
            mark(&mut self.copied, index, true);
            // The chunk replaces its part of the base, whose sectors were counted with the whole base.
            self.sectors -= self.base.end.min((index + 1) << CHUNK_BITS) - (index << CHUNK_BITS);
        }
        Some(())
    }
}

#[inline]
fn is_marked(bits: &[u64], index: u64) -> bool {
    bits.get((index / 64) as usize).is_some_and(|word| word >> (index % 64) & 1 == 1)
}

/// The beginning of the next marked chunk behind `at`, or `end`.
#[inline]
fn next_marked(bits: &[u64], at: u64, end: u64) -> u64 {
    let mut index = (at >> CHUNK_BITS) + 1;
    while index << CHUNK_BITS < end
        && let Some(word) = bits.get((index / 64) as usize)
    {
        let left = word >> (index % 64);
        if left > 0 {
            return end.min((index + u64::from(left.trailing_zeros())) << CHUNK_BITS);
        }
        index = (index | 63) + 1;
    }
    end
}

#[inline]
fn mark(bits: &mut [u64], index: u64, is_marked: bool) {
    let (word, bit) = (&mut bits[(index / 64) as usize], 1 << (index % 64));
    *word = if is_marked { *word | bit } else { *word & !bit };
}

/// A chunk's capacity on the heap, in entries.
#[inline]
fn heap_room(chunk: &SmallVec<[PackedExtent; INLINE]>) -> usize {
    if chunk.spilled() { chunk.capacity() } else { 0 }
}

/// The index of the first entry that ends behind `start`, or the number of entries if none does.
#[inline]
fn first_behind(entries: &[PackedExtent], start: u64) -> usize {
    // An entry's start is its highest bits: entries up to this key start at or before `start`. Only the last of them may end behind it.
    let key = ((start + 1) << (CHUNK_BITS + PBA_BITS)).wrapping_sub(1);
    let begun = |entry: &PackedExtent| entry.0 <= key;
    let count = match entries.len() {
        // In a short list counting is faster than a binary search, each step of which waits for the one before.
        0..=COUNTED => {
            let last_of_lines = entries.iter().skip(LINE - 1).step_by(LINE);
            let lines = LINE * last_of_lines.map(|last| usize::from(begun(last))).sum::<usize>();
            let rest = &entries[lines..entries.len().min(lines + LINE)];
            lines + rest.iter().map(|entry| usize::from(begun(entry))).sum::<usize>()
        }
        _ => entries.partition_point(begun),
    };
    count - usize::from(count > 0 && entries[count - 1].end() > start)
}

/// Replaces `start..end` by `new`: cuts entries that overlap, and joins entries that touch. Calls `displaced` with the place and the sectors
/// of each piece of the range that was mapped before.
#[inline]
fn overwrite(
    chunk: &mut SmallVec<[PackedExtent; INLINE]>,
    start: u64,
    end: u64,
    new: Option<PackedExtent>,
    mut displaced: impl FnMut(Pba, u64),
) {
    let first = first_behind(chunk, start);
    let mut last = first;
    while let Some(old) = chunk.get(last).filter(|old| old.start() < end) {
        let from = old.start().max(start);
        displaced(Pba(old.pba() + (from - old.start())), old.end().min(end) - from);
        last += 1;
    }
    let mut fresh = [PackedExtent(0); 3];
    let mut count = 0;
    let (mut from, mut to) = (first, last);
    if first < last && chunk[first].start() < start {
        fresh[count] = PackedExtent::new(chunk[first].start(), start, chunk[first].pba());
        count += 1;
    } else if let Some(new) = new
        && first > 0
        && chunk[first - 1].touches(new)
    {
        from = first - 1;
        fresh[count] = chunk[from];
        count += 1;
    }
    if let Some(new) = new {
        push(&mut fresh, &mut count, new);
    }
    if first < last && chunk[last - 1].end() > end {
        let old = chunk[last - 1];
        push(&mut fresh, &mut count, PackedExtent::new(end, old.end(), old.pba() + (end - old.start())));
    } else if let Some(&next) = chunk.get(last)
        && count > 0
        && fresh[count - 1].touches(next)
    {
        to = last + 1;
        push(&mut fresh, &mut count, next);
    }
    splice(chunk, from..to, &fresh[..count]);
}

/// Replaces `old` by `fresh`.
#[inline]
fn splice(chunk: &mut SmallVec<[PackedExtent; INLINE]>, old: Range<usize>, fresh: &[PackedExtent]) {
    let end = old.start + fresh.len();
    if end < old.end {
        chunk.drain(end..old.end);
    }
    (old.end..end).for_each(|at| chunk.insert(at, PackedExtent(0)));
    for (entry, &new) in chunk[old.start..end].iter_mut().zip(fresh) {
        *entry = new;
    }
}

/// Appends `entry` to `fresh`, joined to the one before where they touch.
#[inline]
fn push(fresh: &mut [PackedExtent; 3], count: &mut usize, entry: PackedExtent) {
    if *count > 0 && fresh[*count - 1].touches(entry) {
        let before = fresh[*count - 1];
        fresh[*count - 1] = PackedExtent::new(before.start(), entry.end(), before.pba());
    } else {
        fresh[*count] = entry;
        *count += 1;
    }
}

/// Iterator of [`ExtentMap::pieces`].
pub struct MappedPieces<'a> {
    map: &'a ExtentMap,
    at: u64,
    end: u64,
    /// The entries of the current chunk that end after `at`.
    chunk: &'a [PackedExtent],
    /// True if the current chunk is mapped by the base.
    by_base: bool,
}

impl MappedPieces<'_> {
    #[inline]
    fn enter(&mut self) {
        let index = self.at >> CHUNK_BITS;
        self.by_base = self.at < self.map.base.end && !is_marked(&self.map.copied, index);
        let (entries, start) = (self.map.chunk(index), self.at & (CHUNK - 1));
        self.chunk = &entries[entries.partition_point(|entry| entry.end() <= start)..];
    }
}

impl Iterator for MappedPieces<'_> {
    type Item = MappedPiece;

    #[inline]
    fn next(&mut self) -> Option<MappedPiece> {
        if self.at >= self.end {
            return None;
        }
        let base = self.at & !(CHUNK - 1);
        let (start, limit) = (self.at - base, self.end.min(base + CHUNK));
        let (stop, pba) = match self.chunk.first() {
            Some(entry) if entry.start() <= start => {
                self.chunk = &self.chunk[1..];
                (limit.min(base + entry.end()), Some(Pba(entry.pba() + (start - entry.start()))))
            }
            Some(entry) => (limit.min(base + entry.start()), None),
            // A run of the base may go on through chunks that have not copied their part of it.
            None if self.by_base && self.at < self.map.base.end => {
                self.map.base.piece(self.at, next_marked(&self.map.copied, self.at, self.end))
            }
            None if self.by_base => (limit, None),
            None => (self.map.next_chunk(self.at, self.end), None),
        };
        let piece = MappedPiece { lba: Lba(self.at), sectors: stop - self.at, pba };
        self.at = stop;
        if stop >= base + CHUNK && stop < self.end {
            self.enter();
        }
        Some(piece)
    }
}

/// Calls `each` with the pieces, joining those that are contiguous on the disk (or both unmapped), so that one access serves them.
pub fn joined<E>(
    pieces: impl Iterator<Item = MappedPiece>,
    mut each: impl FnMut(MappedPiece) -> Result<(), E>,
) -> Result<(), E> {
    let mut pending: Option<MappedPiece> = None;
    for piece in pieces {
        match &mut pending {
            Some(before) if before.pba.map(|pba| pba + before.sectors) == piece.pba => before.sectors += piece.sectors,
            _ => {
                if let Some(before) = pending.replace(piece) {
                    each(before)?;
                }
            }
        }
    }
    pending.map_or(Ok(()), each)
}
