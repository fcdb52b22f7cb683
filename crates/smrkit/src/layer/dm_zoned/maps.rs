//! The maps: the zones of each chunk, the valid blocks of each zone, and the zones that no chunk is mapped to. Each change tells the
//! metadata in whose blocks it is kept.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::keys::DmLayout;
use super::metadata::Metadata;
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::layer::COUNT_MAX;
use crate::state::state;

/// Sectors of a block.
pub(super) const BLOCK: u64 = 8;

/// Blocks of a word.
const WORD: u32 = 64;

/// No zone, or no chunk.
pub(super) const NONE: u32 = u32::MAX;

/// The zones of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChunkZones {
    pub(super) data: u32,
    pub(super) buffer: u32,
}

pub(super) const UNMAPPED: ChunkZones = ChunkZones { data: NONE, buffer: NONE };

impl ChunkZones {
    /// Each zone that the chunk has.
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
    /// What the last commit made durable, where it has changed since: of chunks, and of zones.
    committed_chunks: BTreeMap<u32, ChunkZones>,
    committed_valid: BTreeMap<u32, ValidBlocks>,
    /// True for each zone in `committed_valid`.
    is_changed: Vec<bool>,
}

state! {
    DmMaps {
        parts: metadata;
        sized: chunks, valid, owners, is_changed;
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
            is_changed: vec![false; zones],
        }
    }

    /// True if a restored state names zones, chunks and blocks that there are.
    pub(super) fn is_possible(&self, layout: &DmLayout) -> bool {
        let (zones, chunks) = (self.valid.len() as u32, self.chunks.len() as u32);
        let mapped = |of: &ChunkZones| of.each().all(|zone| layout.first_data() <= zone && zone < zones);
        let valid = |of: &ValidBlocks| of.is_possible(layout.blocks());
        self.chunks.iter().all(mapped)
            && self.owners.iter().all(|&chunk| chunk == NONE || chunk < chunks)
            && self.valid.iter().all(valid)
            && self.committed_chunks.iter().all(|(&chunk, of)| chunk < chunks && mapped(of))
            && self.committed_valid.iter().all(|(&zone, of)| zone < zones && valid(of))
            && self.metadata.is_possible()
    }

    #[inline]
    pub(super) fn zones_of(&self, chunk: u32) -> ChunkZones {
        self.chunks[chunk as usize]
    }

    /// Valid blocks of a zone.
    #[inline]
    pub(super) fn valid(&self, zone: u32) -> &ValidBlocks {
        &self.valid[zone as usize]
    }

    pub(super) fn map(&mut self, chunk: u32, zones: ChunkZones) {
        let before = std::mem::replace(&mut self.chunks[chunk as usize], zones);
        self.committed_chunks.entry(chunk).or_insert(before);
        for zone in zones.each() {
            self.owners[zone as usize] = chunk;
        }
        self.metadata.entry_changed(chunk);
    }

    /// A zone holds nothing any more, and no chunk.
    pub(super) fn clear(&mut self, zone: u32, blocks: u32) {
        self.set_valid(zone, 0, blocks, false);
        self.owners[zone as usize] = NONE;
    }

    /// Makes blocks valid, or invalid, whose bits are in memory.
    #[inline]
    pub(super) fn set_valid(&mut self, zone: u32, first: u32, n: u32, valid: bool) {
        if !std::mem::replace(&mut self.is_changed[zone as usize], true) {
            self.committed_valid.insert(zone, self.valid[zone as usize].clone());
        }
        if self.valid[zone as usize].put(first, n, valid) {
            self.metadata.bits_changed(zone, first, n);
        }
    }

    /// The zone where a chunk's block is valid, and how many blocks from it on, up to `end`, lie there too.
    #[inline]
    pub(super) fn source(&self, chunk: u32, block: u32, end: u32) -> (u32, u32) {
        let mut n = end - block;
        for zone in self.zones_of(chunk).each() {
            let (valid, run) = self.valid(zone).run(block, block + n);
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
        // A cut in the middle leaves one set whole, of which the older one is as good: no flush has returned.
        self.committed_chunks.clear();
        for (zone, _) in std::mem::take(&mut self.committed_valid) {
            self.is_changed[zone as usize] = false;
        }
        Ok(())
    }

    /// The power was cut: the maps are those of the last commit.
    pub(super) fn power_cut(&mut self) {
        for (chunk, zones) in std::mem::take(&mut self.committed_chunks) {
            self.chunks[chunk as usize] = zones;
        }
        for (zone, valid) in std::mem::take(&mut self.committed_valid) {
            (self.valid[zone as usize], self.is_changed[zone as usize]) = (valid, false);
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

/// Validity of a zone's blocks: a bitmap, stored only where some are valid and some are not.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ValidBlocks {
    blocks: u32,
    valid: u32,
    words: Option<Box<[u64]>>,
}

impl ValidBlocks {
    /// None of `blocks` blocks.
    pub fn none(blocks: u32) -> ValidBlocks {
        ValidBlocks { blocks, valid: 0, words: None }
    }

    /// True if it is of a zone of `blocks` blocks, and its count agrees with its bits. Those behind the last block may be set.
    pub fn is_possible(&self, blocks: u32) -> bool {
        let bits = |(index, word): (usize, &u64)| (word & self.mask(index)).count_ones();
        let agrees = match &self.words {
            Some(words) => {
                words.len() as u32 == self.blocks.div_ceil(WORD)
                    && words.iter().enumerate().map(bits).sum::<u32>() == self.valid
            }
            None => self.valid == 0 || self.valid == self.blocks,
        };
        self.blocks == blocks && agrees
    }

    /// Number of valid blocks.
    #[inline]
    pub fn count(&self) -> u32 {
        self.valid
    }

    /// Makes `n` blocks from `first` on valid, or invalid; returns true if that changes any.
    #[inline]
    pub fn put(&mut self, first: u32, n: u32, valid: bool) -> bool {
        let before = self.valid;
        if self.words.is_none() {
            if self.valid == if valid { self.blocks } else { 0 } {
                return false;
            }
            if n == self.blocks {
                self.valid = if valid { n } else { 0 };
                return true;
            }
            let all = if self.valid == 0 { 0 } else { u64::MAX };
            self.words = Some(vec![all; self.blocks.div_ceil(WORD) as usize].into());
        }
        let Some(words) = &mut self.words else { return false };
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

    /// Validity of the block `at`, and how many from it on, up to `end`, are alike.
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

    /// The first run of valid blocks from `at` on: (first, how many), of which no more than `most` are looked at.
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

    /// The bits of word `index` that stand for blocks.
    fn mask(&self, index: usize) -> u64 {
        let left = self.blocks.saturating_sub(index as u32 * WORD).min(WORD);
        if left == 0 { 0 } else { u64::MAX >> (WORD - left) }
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
    /// Every zone for data that no chunk is mapped to is free; those that wait for a commit go on waiting.
    pub(super) fn find(&mut self, layout: &DmLayout, owners: &[u32]) {
        let free = |&zone: &u32| owners[zone as usize] == NONE;
        let (first, sequential) = (layout.first_data(), layout.first_sequential());
        self.random = (first..sequential).filter(free).collect();
        self.sequential = (sequential..owners.len() as u32).filter(free).collect();
    }

    /// True if a restored state names zones that there are, each among those of its kind.
    pub(super) fn is_possible(&self, layout: &DmLayout) -> bool {
        let (first, end) = (layout.first_sequential(), layout.zones.count() as u32);
        let kinds = self.random.iter().all(|&zone| zone < first)
            && self.sequential.iter().all(|zone| (first..end).contains(zone));
        kinds && self.freed.iter().all(|&zone| zone < end)
    }

    /// A zone that was released is free.
    pub(super) fn add(&mut self, zone: u32, is_random: bool) {
        if is_random { self.random.push_back(zone) } else { self.sequential.push_back(zone) }
    }

    pub(super) fn each(&self) -> impl Iterator<Item = u32> + '_ {
        self.random.iter().chain(&self.sequential).chain(&self.freed).copied()
    }
}

/// When each conventional zone for data was used last, by a counter of uses.
pub(super) struct LastUses {
    used: Vec<u64>,
    uses: u64,
}

state! { LastUses { sized: used; values: uses; } }

impl LastUses {
    /// No zone of so many has been used.
    pub(super) fn new(zones: u64) -> LastUses {
        LastUses { used: vec![0; zones as usize], uses: 0 }
    }

    /// True if no zone of a restored state was used after the last use.
    pub(super) fn is_possible(&self) -> bool {
        self.uses < COUNT_MAX && self.used.iter().all(|&used| used <= self.uses)
    }

    /// A zone, counted from the first for data, has been used.
    #[inline]
    pub(super) fn touch(&mut self, zone: u32) {
        self.uses += 1;
        self.used[zone as usize] = self.uses;
    }

    /// When a zone was used last.
    pub(super) fn of(&self, zone: u32) -> u64 {
        self.used[zone as usize]
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
