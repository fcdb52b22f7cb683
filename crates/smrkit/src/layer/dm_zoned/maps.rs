//! The maps: the zones of each chunk, and the valid blocks of each zone. Each change tells the metadata in whose blocks it is kept.

use serde::{Deserialize, Serialize};

use super::blocks::ValidBlocks;
use super::keys::DmLayout;
use super::metadata::{BLOCK_WORDS, BlockContents, Metadata, Stale};
use crate::disk::Disk;
use std::collections::BTreeMap;

use crate::error::DiskResult;
use crate::layer::inconsistent;
use crate::state::state;

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
    chunks: Vec<ChunkZones>,
    /// Valid blocks of each zone.
    valid: Vec<ValidBlocks>,
    /// Chunk mapped to each zone.
    owners: Vec<u32>,
    metadata: Metadata,
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

    pub(super) fn chunks(&self) -> &[ChunkZones] {
        &self.chunks
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

    /// Chunks by the zones that are mapped to them.
    pub(super) fn owners(&self) -> &[u32] {
        &self.owners
    }

    pub(super) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    pub(super) fn reset_counts(&mut self) {
        self.metadata.reset_counts();
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

    /// Needs the bits of `n` blocks of a zone from `first` on: what is not in memory is read.
    #[inline]
    pub(super) fn need(&mut self, disk: &mut Disk, zone: u32, first: u32, n: u32) -> DiskResult {
        self.metadata.need(disk, zone, first, n)
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
        let DmMaps { metadata, chunks, valid, .. } = self;
        let shape = metadata.shape();
        metadata.commit(disk, |block| block_words(shape.contents(block), chunks, valid))?;
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

    /// The words of all metadata blocks.
    pub(super) fn words(&self) -> impl Iterator<Item = u64> + '_ {
        let shape = self.metadata.shape();
        (1..shape.blocks as u32).flat_map(move |block| block_words(shape.contents(block), &self.chunks, &self.valid))
    }

    /// Takes the metadata blocks from the front of `words`, and returns the others.
    pub(super) fn take_words<'a>(&mut self, mut words: &'a [u64]) -> Option<&'a [u64]> {
        let shape = self.metadata.shape();
        for block in 1..shape.blocks as u32 {
            let count = block_words(shape.contents(block), &self.chunks, &self.valid).len();
            let (own, others) = words.split_at_checked(count)?;
            self.take_block(shape.contents(block), own);
            words = others;
        }
        Some(words)
    }

    /// Takes the state of the metadata that is in memory only.
    pub(super) fn put_in_memory(&mut self, blocks: &[u64], generation: u64) {
        self.metadata.put_in_memory(blocks);
        self.metadata.generation = generation;
    }

    /// Takes the newest whole set of metadata blocks from the platters; the other one is stale.
    pub(super) fn restore(&mut self, disk: &mut Disk) -> DiskResult<Stale> {
        let shape = self.metadata.shape();
        let mut found = Vec::new();
        let stale = self.metadata.restore(disk, |block, words| found.push((shape.contents(block), words.to_vec())))?;
        found.into_iter().for_each(|(contents, words)| self.take_block(contents, &words));
        Ok(stale)
    }

    /// Writes the stale set anew.
    pub(super) fn renew(&self, disk: &mut Disk, stale: &Stale) -> DiskResult {
        let shape = self.metadata.shape();
        self.metadata.renew(disk, stale, |block| block_words(shape.contents(block), &self.chunks, &self.valid))
    }

    fn take_block(&mut self, contents: BlockContents, words: &[u64]) {
        match contents {
            BlockContents::Map { first } => {
                for (zones, word) in self.chunks.iter_mut().skip(first as usize).zip(words) {
                    *zones = ChunkZones { data: (word >> 32) as u32, buffer: *word as u32 };
                }
            }
            BlockContents::Bitmap { zone, word } => {
                let valid = &mut self.valid[zone as usize];
                words.iter().enumerate().for_each(|(index, &bits)| valid.set_word(word + index, bits));
            }
        }
    }

    /// Works out whose each zone is.
    pub(super) fn settle(&mut self) -> DiskResult {
        self.owners.fill(NONE);
        for (chunk, zones) in (0..).zip(&self.chunks) {
            for zone in zones.each() {
                let Some(owner) = self.owners.get_mut(zone as usize).filter(|owner| **owner == NONE) else {
                    return inconsistent(format!("chunk {chunk} is mapped to zone {zone}, which is another's or none"));
                };
                *owner = chunk;
            }
        }
        Ok(())
    }
}

/// Words of a metadata block, from the maps.
fn block_words(contents: BlockContents, chunks: &[ChunkZones], valid: &[ValidBlocks]) -> Vec<u64> {
    match contents {
        BlockContents::Map { first } => {
            let entries = chunks.iter().skip(first as usize).take(BLOCK_WORDS);
            entries.map(|zones| u64::from(zones.data) << 32 | u64::from(zones.buffer)).collect()
        }
        BlockContents::Bitmap { zone, word } => {
            let valid = &valid[zone as usize];
            (word..valid.words().min(word + BLOCK_WORDS)).map(|index| valid.word(index)).collect()
        }
    }
}

#[cfg(test)]
impl DmMaps {
    /// The parts that tests damage.
    pub(super) fn parts(&mut self) -> (&mut [ChunkZones], &mut [ValidBlocks], &mut [u32]) {
        (&mut self.chunks, &mut self.valid, &mut self.owners)
    }
}
