//! The maps: the zones of each chunk, the valid blocks of each zone, and the zones that no chunk is mapped to. Each change marks the
//! metadata blocks that hold it as dirty.
//!
//! The metadata blocks are two sets in the first conventional zones, each of a super block, the mapping table, and the bitmaps of all zones.
//!
//! A commit writes the dirty blocks to the secondary set, then its super block, and then does both in the primary set, so that one set is
//! always consistent. A limited number of bitmap blocks is in memory; others are read when needed. The simulated platters do not keep the
//! contents of metadata blocks; the structures of this module do.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::layer::dm_zoned::DmLayout;
use crate::layer::prelude::*;
use crate::layer::zones::ZoneLayout;

/// Sectors of a block.
pub(super) const BLOCK: u64 = 8;

/// Blocks in a word of a bitmap.
const WORD: u32 = 64;

/// No zone, or no chunk.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChunkZones {
    pub(super) data: u32,
    pub(super) buffer: u32,
}

pub(super) const UNMAPPED: ChunkZones = ChunkZones { data: NONE, buffer: NONE };

impl ChunkZones {
    /// The zones of the chunk.
    pub(super) fn each(self) -> impl Iterator<Item = u32> {
        [self.data, self.buffer].into_iter().filter(|&zone| zone != NONE)
    }
}

pub(super) struct DmMaps {
    pub(super) chunks: Vec<ChunkZones>,
    /// Valid blocks of each zone.
    pub(super) valid: Vec<ValidBlocks>,
    /// Chunk mapped to each zone.
    pub(super) owners: Vec<u32>,
    pub(super) metadata: Metadata,
    /// The values at the last commit of chunks and zones that have changed since.
    committed_chunks: BTreeMap<u32, ChunkZones>,
    committed_valid: BTreeMap<u32, ValidBlocks>,
}

state! {
    DmMaps {
        parts: metadata;
        sized: chunks, valid, owners;
        values: committed_chunks, committed_valid;
    }
}

impl DmMaps {
    /// Maps in which nothing is mapped.
    pub(super) fn new(layout: &DmLayout) -> DmMaps {
        let zones = layout.zones.count() as usize;
        DmMaps {
            chunks: vec![UNMAPPED; layout.chunks as usize],
            valid: vec![ValidBlocks::none(layout.blocks()); zones],
            owners: vec![NONE; zones],
            metadata: Metadata::new(layout.metadata, layout.zones.clone()),
            committed_chunks: BTreeMap::new(),
            committed_valid: BTreeMap::new(),
        }
    }

    pub(super) fn zones_of(&self, chunk: u32) -> ChunkZones {
        self.chunks[chunk as usize]
    }

    /// Maps a chunk to zones. Keeps its committed zones, to which a power cut returns.
    pub(super) fn map(&mut self, chunk: u32, zones: ChunkZones) {
        let before = std::mem::replace(&mut self.chunks[chunk as usize], zones);
        self.committed_chunks.entry(chunk).or_insert(before);
        for zone in zones.each() {
            self.owners[zone as usize] = chunk;
        }
        // The super block comes before the mapping table.
        self.metadata.dirty.insert(1 + chunk / BLOCK_WORDS as u32);
    }

    /// Empties a zone, which belongs to no chunk from then on.
    pub(super) fn clear(&mut self, zone: u32, blocks: u32) {
        self.set_valid(zone, 0, blocks, false);
        self.owners[zone as usize] = NONE;
    }

    /// Makes blocks valid or invalid. Their bits must be in memory ([`Metadata::need`]).
    pub(super) fn set_valid(&mut self, zone: u32, first: u32, n: u32, valid: bool) {
        let own = &mut self.valid[zone as usize];
        self.committed_valid.entry(zone).or_insert_with(|| own.clone());
        if own.put(first, n, valid) {
            self.metadata.dirty.extend(self.metadata.shape.bitmap_blocks_of(zone, first, n));
        }
    }

    /// The zone in which `block` of a chunk is valid, or `NONE`, and the number of blocks from `block` on, up to `end`, of which that is true.
    pub(super) fn source(&self, chunk: u32, block: u32, end: u32) -> (u32, u32) {
        let mut n = end - block;
        for zone in self.zones_of(chunk).each() {
            let (valid, run) = self.valid[zone as usize].run(block, block + n);
            n = run;
            if valid {
                return (zone, n);
            }
        }
        (NONE, n)
    }

    /// Makes the changed blocks durable.
    pub(super) fn commit(&mut self, disk: &mut Disk) -> DiskResult {
        self.metadata.commit(disk)?;
        // Only after both sets are written: a power cut in between counts as one before the commit. That is right, because the flush that
        // asked for the commit has not returned then.
        self.committed_chunks.clear();
        self.committed_valid.clear();
        Ok(())
    }

    /// Returns to the maps of the last commit, after a power cut.
    pub(super) fn power_cut(&mut self) {
        for (chunk, zones) in std::mem::take(&mut self.committed_chunks) {
            self.chunks[chunk as usize] = zones;
        }
        for (zone, valid) in std::mem::take(&mut self.committed_valid) {
            self.valid[zone as usize] = valid;
        }
        self.owners.fill(NONE);
        for (chunk, zones) in (0..).zip(&self.chunks) {
            zones.each().for_each(|zone| self.owners[zone as usize] = chunk);
        }
        self.metadata.power_cut();
    }

    /// Maps each chunk to a zone, in order from `first` on, with all blocks valid; returns the zones.
    pub(super) fn fill(&mut self, first: u32, blocks: u32) -> std::ops::Range<u32> {
        self.owners.fill(NONE);
        for ((chunk, zones), zone) in (0..).zip(&mut self.chunks).zip(first..) {
            *zones = ChunkZones { data: zone, buffer: NONE };
            self.owners[zone as usize] = chunk;
            self.valid[zone as usize].put(0, blocks, true);
        }
        first..first + self.chunks.len() as u32
    }
}

/// Validity of a zone's blocks: a bitmap, stored only if some are valid and some are not.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ValidBlocks {
    blocks: u32,
    valid: u32,
    words: Option<Box<[u64]>>,
}

impl ValidBlocks {
    /// A zone with none of `blocks` blocks valid.
    pub fn none(blocks: u32) -> ValidBlocks {
        ValidBlocks { blocks, valid: 0, words: None }
    }

    pub fn count(&self) -> u32 {
        self.valid
    }

    /// Makes `n` blocks from `first` on valid or invalid; returns whether any changed.
    #[inline]
    pub fn put(&mut self, first: u32, n: u32, valid: bool) -> bool {
        let before = self.valid;
        if self.words.is_none() {
            let valid_if_all = if valid { self.blocks } else { 0 };
            if self.valid == valid_if_all {
                return false;
            }
            if n == self.blocks {
                self.valid = valid_if_all;
                return true;
            }
        }
        let words = self.words.get_or_insert_with(|| {
            let word = if before == 0 { 0 } else { u64::MAX };
            vec![word; self.blocks.div_ceil(WORD) as usize].into()
        });
        let mut at = first;
        while at < first + n {
            let end = (first + n).min((at / WORD + 1) * WORD);
            let mask = (u64::MAX >> (WORD - (end - at))) << (at % WORD);
            let word = &mut words[(at / WORD) as usize];
            let changed = if valid { mask & !*word } else { mask & *word };
            *word ^= changed;
            self.valid = if valid { self.valid + changed.count_ones() } else { self.valid - changed.count_ones() };
            at = end;
        }
        if self.valid == 0 || self.valid == self.blocks {
            self.words = None;
        }
        self.valid != before
    }

    /// Returns whether the block `at` is valid, and for how many blocks from it on, up to `end`, that is the same.
    #[inline]
    pub fn run(&self, at: u32, end: u32) -> (bool, u32) {
        let Some(words) = &self.words else { return (self.valid > 0, end - at) };
        let valid = words[(at / WORD) as usize] >> (at % WORD) & 1 == 1;
        let mut to = at;
        while to < end {
            let word = words[(to / WORD) as usize] >> (to % WORD);
            let alike = if valid { word.trailing_ones() } else { word.trailing_zeros() };
            let left = WORD - to % WORD;
            to += alike.min(left);
            if alike < left {
                break;
            }
        }
        (valid, to.min(end) - at)
    }

    /// Finds the first run of valid blocks from `at` on: (first, count), of which it returns at most `most` blocks.
    pub fn next_valid(&self, at: u32, most: u32) -> Option<(u32, u32)> {
        let run_within =
            |at: u32, n: u32| (at < self.blocks).then(|| self.run(at, at.saturating_add(n).min(self.blocks)));
        let first = match run_within(at, 1)? {
            (true, _) => at,
            (false, _) => at + run_within(at, self.blocks)?.1,
        };
        run_within(first, most).map(|(_, n)| (first, n))
    }

    /// The block after the last valid one.
    pub fn end(&self) -> u32 {
        let mut end = 0;
        while let Some((first, n)) = self.next_valid(end, self.blocks) {
            end = first + n;
        }
        end
    }
}

/// Zones without a chunk, those used next first.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct UnusedZones {
    pub(super) random: VecDeque<u32>,
    pub(super) sequential: VecDeque<u32>,
    /// Zones that are free after the next commit.
    pub(super) freed: Vec<u32>,
}

impl UnusedZones {
    /// Finds the free zones: those for data that no chunk is mapped to, except for those that wait for a commit.
    pub(super) fn find(&mut self, layout: &DmLayout, owners: &[u32]) {
        let free = |&zone: &u32| owners[zone as usize] == NONE;
        let (first, sequential) = (layout.first_data(), layout.first_sequential());
        self.random = (first..sequential).filter(free).collect();
        self.sequential = (sequential..owners.len() as u32).filter(free).collect();
    }
}

/// Words in a block: 4 KiB less the header of a record.
const BLOCK_WORDS: u64 = 509;
/// Bitmap blocks that fit in memory: 512, and those of 16 zones (the kernel's numbers; recalled).
const CACHED_BLOCKS: u64 = 512;
const CACHED_ZONES: u64 = 16;
/// The primary set has number 0, the secondary set 1.
const SETS: u64 = 2;

/// The places of a set's blocks, by arithmetic.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetadataShape {
    /// Blocks of the mapping table, after the super block.
    pub map_blocks: u64,
    /// Blocks of a zone's bitmap. Bitmaps follow the mapping table, zone by zone.
    pub bitmap_blocks: u64,
    /// Blocks of a set.
    pub blocks: u64,
    /// Zones of a set.
    pub zones: u64,
}

impl MetadataShape {
    /// The sets for `zones` zones of `zone_blocks` blocks.
    pub fn new(zones: u64, zone_blocks: u64) -> MetadataShape {
        let words = zone_blocks.div_ceil(WORD.into());
        let bitmap_blocks = words.div_ceil(BLOCK_WORDS);
        let map_blocks = zones.div_ceil(BLOCK_WORDS);
        let blocks = 1 + map_blocks + zones * bitmap_blocks;
        MetadataShape { map_blocks, bitmap_blocks, blocks, zones: blocks.div_ceil(zone_blocks) }
    }

    /// Zones of both sets.
    pub fn all_zones(&self) -> u64 {
        SETS * self.zones
    }

    /// The most blocks that are in memory.
    pub fn cached(&self) -> u64 {
        SETS + self.map_blocks + self.cached_bitmap_blocks()
    }

    fn cached_bitmap_blocks(&self) -> u64 {
        CACHED_ZONES * self.bitmap_blocks + CACHED_BLOCKS
    }

    /// The blocks with the bits of `n` blocks of a zone from `first` on.
    #[inline]
    fn bitmap_blocks_of(&self, zone: u32, first: u32, n: u32) -> RangeInclusive<u32> {
        let start = 1 + self.map_blocks as u32 + zone * self.bitmap_blocks as u32;
        let holder_of = |block: u32| start + block / (WORD * BLOCK_WORDS as u32);
        holder_of(first)..=holder_of(first + n - 1)
    }
}

/// Whether a block is in memory, and was used since it was last considered for eviction.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
enum BlockCaching {
    Absent,
    Present,
    Used,
}

/// The blocks on the platters, those in memory, and those that changed since the last commit.
pub(super) struct Metadata {
    shape: MetadataShape,
    layout: ZoneLayout,
    /// The state of each block.
    state: Vec<BlockCaching>,
    /// Bitmap blocks in memory, in the order of eviction (second chance).
    queue: VecDeque<u32>,
    queue_max: usize,
    /// Blocks that changed since the last commit.
    pub dirty: BTreeSet<u32>,
    /// Blocks read since counting began.
    pub reads: u64,
    /// Commits since counting began.
    pub commits: u64,
}

state! {
    Metadata {
        sized: state;
        values: queue, dirty, reads, commits;
        built: shape, layout, queue_max;
    }
}

impl Metadata {
    pub fn new(shape: MetadataShape, layout: ZoneLayout) -> Metadata {
        // The super block and the mapping table are always in memory.
        let resident = 1 + shape.map_blocks as usize;
        let mut state = vec![BlockCaching::Absent; shape.blocks as usize];
        state[..resident].fill(BlockCaching::Used);
        Metadata {
            queue_max: shape.cached_bitmap_blocks() as usize,
            state,
            shape,
            layout,
            queue: VecDeque::new(),
            dirty: BTreeSet::new(),
            reads: 0,
            commits: 0,
        }
    }

    /// Brings the bits of `n` blocks of a zone, from `first` on, into memory: reads bitmap blocks that are not there, and marks all as used.
    pub fn need(&mut self, disk: &mut Disk, zone: u32, first: u32, n: u32) -> DiskResult {
        for block in self.shape.bitmap_blocks_of(zone, first, n) {
            match self.state[block as usize] {
                BlockCaching::Absent => self.fetch(disk, block)?,
                _ => self.state[block as usize] = BlockCaching::Used,
            }
        }
        Ok(())
    }

    /// Reads a map block, and evicts another one if too many are cached.
    #[cold]
    fn fetch(&mut self, disk: &mut Disk, block: u32) -> DiskResult {
        // Two rounds, because the first may only clear marks of use; then the second finds a block to evict, unless all are dirty. Dirty
        // blocks stay until they are committed.
        let mut tries = 2 * self.queue.len();
        while self.queue.len() >= self.queue_max && tries > 0 {
            tries -= 1;
            let Some(oldest) = self.queue.pop_front() else { break };
            let state = &mut self.state[oldest as usize];
            if *state == BlockCaching::Present && !self.dirty.contains(&oldest) {
                *state = BlockCaching::Absent;
            } else {
                *state = BlockCaching::Present;
                self.queue.push_back(oldest);
            }
        }
        let mut buf = disk.buf(BLOCK);
        disk.read(self.place(0, block), BLOCK, Cause::Map, &mut buf, 0)?;
        self.reads += 1;
        self.state[block as usize] = BlockCaching::Used;
        self.queue.push_back(block);
        Ok(())
    }

    /// Empties the memory, after a power cut, except for blocks that are always there. Nothing is dirty.
    pub fn power_cut(&mut self) {
        for block in self.queue.drain(..) {
            self.state[block as usize] = BlockCaching::Absent;
        }
        self.dirty.clear();
    }

    /// The PBA of a block in one of the sets. Block 0 is the super block.
    fn place(&self, set: u64, block: u32) -> Pba {
        let (zone, at) = self.layout.locate(Lba(u64::from(block) * BLOCK));
        self.layout.start(set * self.shape.zones + zone) + at
    }

    /// Makes the changed blocks durable, all or none.
    pub fn commit(&mut self, disk: &mut Disk) -> DiskResult {
        if self.dirty.is_empty() {
            return Ok(());
        }
        let dirty: Vec<u32> = self.dirty.iter().copied().collect();
        self.commits += 1;
        // The secondary set is written first, and in each set the super block last.
        for set in [1, 0] {
            // Contiguous blocks are written in one access.
            let adjoins = |a: &u32, b: &u32| self.place(set, *b) == self.place(set, *a) + BLOCK;
            for run in dirty.chunk_by(adjoins) {
                disk.write_metadata(self.place(set, run[0]), run.len() as u64 * BLOCK)?;
            }
            disk.write_metadata(self.place(set, 0), BLOCK)?;
            // The other set must not be written before this one is durable.
            disk.flush()?;
        }
        self.dirty.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn valid_blocks_agree_with_a_list(
            blocks in 1u32..300,
            changes in prop::collection::vec((0u32..300, 1u32..300, any::<bool>()), 0..30),
        ) {
            let (mut valid, mut list) = (ValidBlocks::none(blocks), vec![false; blocks as usize]);
            for (first, n, put) in changes {
                let (first, end) = (first % blocks, (first % blocks + n).min(blocks));
                let range = first as usize..end as usize;
                let changes = list[range.clone()].iter().any(|&was| was != put);
                prop_assert_eq!(valid.put(first, end - first, put), changes);
                list[range].fill(put);
            }
            prop_assert_eq!(valid.count() as usize, list.iter().filter(|&&valid| valid).count());
            prop_assert_eq!(valid.end() as usize, list.iter().rposition(|&valid| valid).map_or(0, |last| last + 1));
            for at in 0..blocks {
                let first = (at..blocks).find(|&block| list[block as usize]);
                let run = first.map(|first| (first, valid.run(first, blocks).1));
                prop_assert_eq!(valid.next_valid(at, blocks), run);
                prop_assert_eq!(valid.next_valid(at, 3), run.map(|(first, n)| (first, n.min(3))));
                let alike = list[at as usize..].iter().take_while(|&&valid| valid == list[at as usize]).count();
                prop_assert_eq!(valid.run(at, blocks), (list[at as usize], alike as u32));
            }
        }
    }
}
