//! The state that outlives the power: the metadata blocks on the platters, and the write pointers in the drive.
//!
//! Changes since the last commit are lost with the maps. Blocks of the maps that a disk began full with need not be on the platters.

use std::collections::VecDeque;

use super::metadata::BlockContents;
use super::reclaim::ReclaimJob;
use super::{ChunkZones, DmZoned, NONE, block_words};
use crate::disk::Disk;
use crate::error::{DiskResult, Fault};
use crate::layer::{COUNT_MAX, inconsistent};

impl DmZoned {
    /// Every block of every chunk is valid, in the order of the zones, the first conventional ones free.
    pub(super) fn begin_full(&mut self) {
        self.began_full = true;
        let (first, blocks) = (self.first_of_full(), self.blocks);
        self.owners.fill(NONE);
        for (chunk, zones) in self.chunks.iter_mut().enumerate() {
            let zone = first + chunk as u32;
            *zones = ChunkZones { data: zone, buffer: NONE };
            self.owners[zone as usize] = chunk as u32;
            self.valid[zone as usize].put(0, blocks, true);
            self.pointers[zone as usize] = blocks;
        }
        self.find_free();
    }

    /// True (1) if the disk began full, and the write pointers.
    pub(super) fn drive_state(&self) -> Vec<u64> {
        [u64::from(self.began_full)].into_iter().chain(self.pointers.iter().map(|&pointer| pointer.into())).collect()
    }

    /// All of it, after a commit: the drive's state, the metadata blocks, and what is in memory only.
    pub(super) fn all_state(&self) -> Vec<u64> {
        let shape = self.metadata.shape();
        let blocks = 1..shape.blocks as u32;
        let words = blocks.flat_map(|block| block_words(shape.contents(block), &self.chunks, &self.valid));
        let lists = self.in_memory().into_iter();
        let lists = lists.flat_map(|list| [list.len() as u64].into_iter().chain(list).collect::<Vec<u64>>());
        self.drive_state().into_iter().chain(words).chain(lists).collect()
    }

    /// State that outlives a clean end, and no power cut.
    pub(super) fn in_memory(&self) -> [Vec<u64>; 6] {
        let wide = |zones: &VecDeque<u32>| zones.iter().map(|&zone| zone.into()).collect();
        [
            self.used.clone(),
            wide(&self.free_random),
            wide(&self.free_sequential),
            self.metadata.in_memory().collect(),
            self.job.iter().flat_map(ReclaimJob::words).collect(),
            vec![self.uses, self.reclaiming.into(), self.nothing_to_reclaim.into(), self.metadata.generation],
        ]
    }

    /// Takes back the drive's state, or all of it.
    pub(super) fn take_state(&mut self, state: &[u64]) -> DiskResult {
        let Some((drive, rest)) = state.split_at_checked(1 + self.pointers.len()) else { return of_another() };
        if drive[0] == 1 {
            self.begin_full();
        }
        self.take_pointers(&drive[1..]);
        if rest.is_empty() {
            return Ok(());
        }
        let Some(rest) = self.take_blocks(rest) else { return of_another() };
        self.settle()?;
        self.take_pointers(&drive[1..]);
        if self.take_in_memory(rest).is_none() { of_another() } else { self.check_maps() }
    }

    fn take_pointers(&mut self, words: &[u64]) {
        for (pointer, &word) in self.pointers.iter_mut().zip(words) {
            *pointer = word.min(u64::from(self.blocks)) as u32;
        }
    }

    /// Takes the metadata blocks from the front of `words`, and returns the others.
    fn take_blocks<'a>(&mut self, mut words: &'a [u64]) -> Option<&'a [u64]> {
        let shape = self.metadata.shape();
        for block in 1..shape.blocks as u32 {
            let count = block_words(shape.contents(block), &self.chunks, &self.valid).len();
            let (own, others) = words.split_at_checked(count)?;
            self.take_block(shape.contents(block), own);
            words = others;
        }
        Some(words)
    }

    /// Takes the lists of [`DmZoned::in_memory`]; `None` if they are not of this disk.
    fn take_in_memory(&mut self, mut words: &[u64]) -> Option<()> {
        let mut lists = Vec::new();
        while let Some((&length, others)) = words.split_first() {
            let (list, others) = others.split_at_checked(length as usize)?;
            lists.push(list);
            words = others;
        }
        let [used, free_random, free_sequential, blocks, job, flags] = lists[..] else { return None };
        let (&[uses, reclaiming, nothing, generation], true) = (flags, used.len() == self.used.len()) else {
            return None;
        };
        let zones = |list: &[u64]| list.iter().map(|&zone| zone as u32).collect();
        let (sequential, end) = (u64::from(self.first_sequential), self.owners.len() as u64);
        let is_sound = free_random.iter().all(|&zone| zone < sequential)
            && free_sequential.iter().all(|zone| (sequential..end).contains(zone))
            && uses.max(generation) < COUNT_MAX
            && used.iter().all(|&used| used <= uses);
        let job = ReclaimJob::parse(job);
        if !is_sound || job.as_ref().is_some_and(|job| !self.is_possible(job)) {
            return None;
        }
        self.used.copy_from_slice(used);
        (self.free_random, self.free_sequential) = (zones(free_random), zones(free_sequential));
        self.metadata.put_in_memory(blocks);
        self.job = job;
        (self.uses, self.metadata.generation) = (uses, generation);
        (self.reclaiming, self.nothing_to_reclaim) = (reclaiming == 1, nothing == 1);
        Some(())
    }

    /// Rebuilds the maps from the newest whole set of metadata blocks.
    pub(super) fn rebuild(&mut self, disk: &mut Disk) -> DiskResult {
        let shape = self.metadata.shape();
        let mut found = Vec::new();
        let stale = self.metadata.restore(disk, |block, words| found.push((shape.contents(block), words.to_vec())))?;
        for (contents, words) in found {
            self.take_block(contents, &words);
        }
        self.settle()?;
        self.check_maps()?;
        let DmZoned { metadata, chunks, valid, .. } = self;
        metadata.renew(disk, &stale, |block| block_words(shape.contents(block), chunks, valid))?;
        Ok(())
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

    /// Works out what follows from the mapping and the bitmaps.
    fn settle(&mut self) -> DiskResult {
        self.owners.fill(NONE);
        for (chunk, zones) in self.chunks.iter().enumerate() {
            for zone in [zones.data, zones.buffer].into_iter().filter(|&zone| zone != NONE) {
                let Some(owner) = self.owners.get_mut(zone as usize).filter(|owner| **owner == NONE) else {
                    return inconsistent(format!("chunk {chunk} is mapped to zone {zone}, which is another's or none"));
                };
                *owner = chunk as u32;
            }
        }
        for zone in self.first_sequential as usize..self.owners.len() {
            // A drive that forgot its pointers has them behind what is valid.
            let pointer = &mut self.pointers[zone];
            *pointer = if self.owners[zone] == NONE { 0 } else { self.valid[zone].end().max(*pointer) };
        }
        self.find_free();
        (self.reclaiming, self.nothing_to_reclaim) = (false, false);
        Ok(())
    }
}

fn of_another<T>() -> DiskResult<T> {
    Err(Box::new(Fault::Inconsistent("its books are of another disk".into())))
}
