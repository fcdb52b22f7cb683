//! The metadata blocks: two sets of a super block, the mapping table and the bitmaps of all zones, in the first conventional
//! zones.
//!
//! A commit writes the changed blocks to the secondary set, then its super block with the next generation, then both in the
//! primary set: one set is always whole. Of the bitmaps a limited number is in memory; a block that is not there is read.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::blocks::BLOCK;
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::layer::COUNT_MAX;
use crate::layer::zones::ZoneLayout;
use crate::medium::WritePart;
use crate::state::state;
use crate::tally::Cause;
use crate::units::{Lba, Pba};

/// Words of a block: 4 KiB less the head of a record.
pub(super) const BLOCK_WORDS: usize = 509;
/// Blocks of a bitmap's word.
const WORD: u32 = 64;
/// Blocks in memory besides those that are always there, and the bitmaps of 16 zones (the kernel's; recalled).
const CACHED_BLOCKS: u64 = 512;
const CACHED_ZONES: u64 = 16;
const MAGIC: u64 = 0x646d_7a6f_6e65_6431;
const SETS: u64 = 2;
/// Blocks that one access reads while the drive recovers.
const READ_TOGETHER: u64 = 256;

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
        let words = zone_blocks.div_ceil(u64::from(WORD));
        let bitmap_blocks = words.div_ceil(BLOCK_WORDS as u64);
        let map_blocks = zones.div_ceil(BLOCK_WORDS as u64);
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
        let part = if self.bitmap_blocks == 1 { 0 } else { block / WORD / BLOCK_WORDS as u32 };
        1 + self.map_blocks as u32 + zone * self.bitmap_blocks as u32 + part
    }

    /// Contents of a block behind the super block.
    pub fn contents(&self, block: u32) -> BlockContents {
        match u64::from(block - 1).checked_sub(self.map_blocks) {
            None => BlockContents::Map { first: (block - 1) * BLOCK_WORDS as u32 },
            Some(at) => BlockContents::Bitmap {
                zone: (at / self.bitmap_blocks) as u32,
                word: (at % self.bitmap_blocks) as usize * BLOCK_WORDS,
            },
        }
    }
}

/// Contents of a block.
#[derive(Clone, Copy, Debug)]
pub(super) enum BlockContents {
    /// Entries of the mapping table, from this chunk on.
    Map { first: u32 },
    /// Words of a zone's bitmap, from this one on.
    Bitmap { zone: u32, word: usize },
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
    /// Commits since the disk was new.
    pub generation: u64,
    /// Of each block.
    state: Vec<BlockCaching>,
    /// Bitmap blocks in memory, in the order in which they are given up unless used again.
    queue: VecDeque<u32>,
    queue_max: usize,
    dirty: Vec<u32>,
    is_dirty: Vec<bool>,
    /// Blocks read since counting began.
    reads: u64,
    /// Commits since counting began.
    commits: u64,
}

state! {
    Metadata {
        sized: state, is_dirty;
        values: generation, queue, dirty, reads, commits;
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
            generation: 0,
            queue: VecDeque::new(),
            dirty: Vec::new(),
            reads: 0,
            commits: 0,
        }
    }

    /// True if a restored state names blocks that there are.
    pub fn is_possible(&self) -> bool {
        let mut named = self.queue.iter().chain(&self.dirty);
        self.generation < COUNT_MAX && named.all(|&block| (block as usize) < self.state.len())
    }

    pub fn shape(&self) -> MetadataShape {
        self.shape
    }

    /// Commits, and blocks read, since counting began.
    pub fn counts(&self) -> (u64, u64) {
        (self.commits, self.reads)
    }

    pub fn reset_counts(&mut self) {
        (self.reads, self.commits) = (0, 0);
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

    /// The bitmap blocks in memory as words, those given up first at the front.
    pub fn in_memory(&self) -> impl Iterator<Item = u64> + '_ {
        let used = |block: u32| u64::from(self.state[block as usize] == BlockCaching::Used);
        self.queue.iter().map(move |&block| u64::from(block) << 1 | used(block))
    }

    /// Takes these blocks as in memory.
    pub fn put_in_memory(&mut self, words: &[u64]) {
        for word in words {
            let block = (word >> 1) as usize;
            if let Some(state) = self.state.get_mut(block).filter(|state| **state == BlockCaching::Absent) {
                *state = if word & 1 == 1 { BlockCaching::Used } else { BlockCaching::Present };
                self.queue.push_back(block as u32);
            }
        }
    }

    fn place(&self, set: u64, block: u32) -> Pba {
        let (zone, at) = self.layout.of(Lba(u64::from(block) * BLOCK));
        self.layout.start(set * self.shape.zones + zone) + at
    }

    /// Makes the changed blocks durable, all or none; `words` gives a block's.
    pub fn commit(&mut self, disk: &mut Disk, words: impl Fn(u32) -> Vec<u64>) -> DiskResult {
        if self.dirty.is_empty() {
            return Ok(());
        }
        self.dirty.sort_unstable();
        self.generation += 1;
        self.commits += 1;
        for set in [1, 0] {
            self.write_blocks(disk, set, &self.dirty, &words)?;
            self.write_super(disk, set)?;
        }
        for block in self.dirty.drain(..) {
            self.is_dirty[block as usize] = false;
        }
        Ok(())
    }

    /// Writes blocks, given in order: neighbours in one access.
    fn write_blocks(&self, disk: &mut Disk, set: u64, blocks: &[u32], words: &impl Fn(u32) -> Vec<u64>) -> DiskResult {
        let holds = disk.holds_data();
        let adjoins = |a: &u32, b: &u32| self.place(set, *b) == self.place(set, *a) + BLOCK;
        for run in blocks.chunk_by(adjoins) {
            let all: Vec<Vec<u64>> =
                run.iter().map(|&block| if holds { filled(words(block)) } else { Vec::new() }).collect();
            let parts: Vec<WritePart> = all.iter().map(|words| WritePart::Record { words, sectors: BLOCK }).collect();
            disk.write_parts(self.place(set, run[0]), Cause::Map, &parts)?;
        }
        Ok(())
    }

    fn write_super(&self, disk: &mut Disk, set: u64) -> DiskResult {
        let words = filled(vec![MAGIC, self.generation]);
        let part = WritePart::Record { words: &words, sectors: BLOCK };
        disk.write_parts(self.place(set, 0), Cause::Map, &[part])?;
        disk.flush()
    }

    /// Finds the newest whole set and hands its blocks to `take`; returns those in which the other set differs.
    pub fn restore(&mut self, disk: &mut Disk, mut take: impl FnMut(u32, &[u64])) -> DiskResult<Stale> {
        let mut generations = [0; SETS as usize];
        for (set, generation) in generations.iter_mut().enumerate() {
            let words = disk.read_record(self.place(set as u64, 0), BLOCK, Cause::Map)?;
            *generation = match words.as_deref() {
                Some(&[MAGIC, generation, ..]) if generation < COUNT_MAX => generation,
                _ => 0,
            };
        }
        let newest = u64::from(generations[1] > generations[0]);
        self.generation = generations[newest as usize];
        let mut stale = Stale { set: 1 - newest, blocks: Vec::new(), is_older: generations[0] != generations[1] };
        let last = self.shape.blocks as u32;
        let mut first = 1;
        while first < last {
            let (_, at) = self.layout.of(Lba(u64::from(first) * BLOCK));
            let together = ((self.layout.size() - at) / BLOCK).min(READ_TOGETHER) as u32;
            let end = last.min(first + together);
            for set in 0..SETS {
                disk.read_for_records(self.place(set, first), u64::from(end - first) * BLOCK, Cause::Map)?;
            }
            for block in first..end {
                let [good, other] = [newest, stale.set].map(|set| disk.record_at(self.place(set, block), BLOCK));
                let (good, other) = (good?, other?);
                if good != other {
                    stale.blocks.push(block);
                }
                if let Some(words) = good.filter(|_| self.generation > 0) {
                    take(block, &words);
                }
            }
            first = end;
        }
        Ok(stale)
    }

    /// Writes the stale blocks of the other set anew, so that the next commit finds it whole.
    pub fn renew(&self, disk: &mut Disk, stale: &Stale, words: impl Fn(u32) -> Vec<u64>) -> DiskResult {
        self.write_blocks(disk, stale.set, &stale.blocks, &words)?;
        if stale.is_older { self.write_super(disk, stale.set) } else { Ok(()) }
    }
}

/// Words as a record that fills a block, as which it is read back.
fn filled(mut words: Vec<u64>) -> Vec<u64> {
    words.resize(BLOCK_WORDS, 0);
    words
}

/// The set that is not the newest, and the blocks in which it differs.
pub(super) struct Stale {
    set: u64,
    blocks: Vec<u32>,
    is_older: bool,
}
