//! The metadata blocks: two sets of a super block, the mapping table and the bitmaps of all zones, in the first conventional
//! zones.
//!
//! A commit writes the changed blocks to the secondary set, then its super block, then both in the primary set: one set is always
//! whole. Of the bitmaps a limited number is in memory; a block that is not there is read. What blocks say is not kept on the
//! platters: [`super::maps`] knows it.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::maps::BLOCK;
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::layer::zones::ZoneLayout;
use crate::state::state;
use crate::tally::Cause;
use crate::units::{Lba, Pba};

/// Words of a block: 4 KiB less those in front of a record.
const BLOCK_WORDS: u64 = 509;
/// Blocks of a bitmap's word.
const WORD: u64 = 64;
/// Blocks in memory besides those that are always there, and the bitmaps of 16 zones (the kernel's; recalled).
const CACHED_BLOCKS: u64 = 512;
const CACHED_ZONES: u64 = 16;
const SETS: u64 = 2;
/// Places of the blocks of a set, by arithmetic.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetadataShape {
    /// Blocks of the mapping table, behind the super block.
    pub map_blocks: u64,
    /// Blocks of a zone's bitmap, behind that, zone by zone.
    pub bitmap_blocks: u64,
    /// Blocks of a set.
    pub blocks: u64,
    /// Zones of a set.
    pub zones: u64,
}

impl MetadataShape {
    /// The sets for `zones` zones of `zone_blocks` blocks.
    pub fn new(zones: u64, zone_blocks: u64) -> MetadataShape {
        let words = zone_blocks.div_ceil(WORD);
        let bitmap_blocks = words.div_ceil(BLOCK_WORDS);
        let map_blocks = zones.div_ceil(BLOCK_WORDS);
        let blocks = 1 + map_blocks + zones * bitmap_blocks;
        MetadataShape { map_blocks, bitmap_blocks, blocks, zones: blocks.div_ceil(zone_blocks) }
    }

    /// Zones of both sets.
    pub fn all_zones(&self) -> u64 {
        SETS * self.zones
    }

    /// Blocks that are in memory at most.
    pub fn cached(&self) -> u64 {
        SETS + self.map_blocks + CACHED_ZONES * self.bitmap_blocks + CACHED_BLOCKS
    }

    /// The block with a chunk's entry.
    pub fn map_block(chunk: u32) -> u32 {
        1 + chunk / BLOCK_WORDS as u32
    }

    /// The block with the bit of a zone's block.
    #[inline]
    pub fn bitmap_block(&self, zone: u32, block: u32) -> u32 {
        let part = if self.bitmap_blocks == 1 { 0 } else { block / (WORD * BLOCK_WORDS) as u32 };
        1 + self.map_blocks as u32 + zone * self.bitmap_blocks as u32 + part
    }
}

/// The part of a block in memory.
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
    /// Of each block.
    state: Vec<BlockCaching>,
    /// Bitmap blocks in memory, in the order in which they are given up unless used again.
    queue: VecDeque<u32>,
    queue_max: usize,
    dirty: Vec<u32>,
    is_dirty: Vec<bool>,
    /// Blocks read since counting began.
    pub reads: u64,
    /// Commits since counting began.
    pub commits: u64,
}

state! {
    Metadata {
        sized: state, is_dirty;
        values: queue, dirty, reads, commits;
        built: shape, layout, queue_max;
    }
}

impl Metadata {
    pub fn new(shape: MetadataShape, layout: ZoneLayout) -> Metadata {
        let always = 1 + shape.map_blocks as usize;
        let mut state = vec![BlockCaching::Absent; shape.blocks as usize];
        state[..always].fill(BlockCaching::Used);
        Metadata {
            queue_max: shape.cached() as usize - 1 - always,
            is_dirty: vec![false; shape.blocks as usize],
            state,
            shape,
            layout,
            queue: VecDeque::new(),
            dirty: Vec::new(),
            reads: 0,
            commits: 0,
        }
    }

    /// True if a restored state names blocks that there are.
    pub fn is_possible(&self) -> bool {
        let mut named = self.queue.iter().chain(&self.dirty);
        named.all(|&block| (block as usize) < self.state.len())
    }

    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Needs the bits of `n` blocks of a zone from `first` on: what is not in memory is read.
    #[inline]
    pub fn need(&mut self, disk: &mut Disk, zone: u32, first: u32, n: u32) -> DiskResult {
        let shape = self.shape;
        for block in shape.bitmap_block(zone, first)..=shape.bitmap_block(zone, first + n - 1) {
            match self.state[block as usize] {
                BlockCaching::Absent => self.fetch(disk, block)?,
                _ => self.state[block as usize] = BlockCaching::Used,
            }
        }
        Ok(())
    }

    #[cold]
    fn fetch(&mut self, disk: &mut Disk, block: u32) -> DiskResult {
        // Blocks that changed stay until they are committed.
        let mut tries = 2 * self.queue.len();
        while self.queue.len() >= self.queue_max && tries > 0 {
            tries -= 1;
            let Some(oldest) = self.queue.pop_front() else { break };
            let state = &mut self.state[oldest as usize];
            if *state == BlockCaching::Present && !self.is_dirty[oldest as usize] {
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

    /// The bits of `n` blocks of a zone from `first` on have changed.
    #[inline]
    pub fn bits_changed(&mut self, zone: u32, first: u32, n: u32) {
        let shape = self.shape;
        (shape.bitmap_block(zone, first)..=shape.bitmap_block(zone, first + n - 1))
            .for_each(|block| self.changed(block));
    }

    /// A chunk's entry has changed.
    pub fn entry_changed(&mut self, chunk: u32) {
        self.changed(MetadataShape::map_block(chunk));
    }

    #[inline]
    fn changed(&mut self, block: u32) {
        if !std::mem::replace(&mut self.is_dirty[block as usize], true) {
            self.dirty.push(block);
        }
    }

    /// The power was cut: nothing is in memory but what always is, and nothing differs from the platters.
    pub fn power_cut(&mut self) {
        for block in self.queue.drain(..) {
            self.state[block as usize] = BlockCaching::Absent;
        }
        for block in self.dirty.drain(..) {
            self.is_dirty[block as usize] = false;
        }
    }

    fn place(&self, set: u64, block: u32) -> Pba {
        let (zone, at) = self.layout.of(Lba(u64::from(block) * BLOCK));
        self.layout.start(set * self.shape.zones + zone) + at
    }

    /// Makes the changed blocks durable, all or none.
    pub fn commit(&mut self, disk: &mut Disk) -> DiskResult {
        if self.dirty.is_empty() {
            return Ok(());
        }
        self.dirty.sort_unstable();
        self.commits += 1;
        for set in [1, 0] {
            // Neighbours in one access.
            let adjoins = |a: &u32, b: &u32| self.place(set, *b) == self.place(set, *a) + BLOCK;
            for run in self.dirty.chunk_by(adjoins) {
                disk.write_metadata(self.place(set, run[0]), run.len() as u64 * BLOCK, Cause::Map)?;
            }
            disk.write_metadata(self.place(set, 0), BLOCK, Cause::Map)?;
            // The other set must not be touched before this one is whole.
            disk.flush()?;
        }
        for block in self.dirty.drain(..) {
            self.is_dirty[block as usize] = false;
        }
        Ok(())
    }
}
