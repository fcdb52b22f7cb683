//! The state that outlives the power: the metadata blocks on the platters, and the write pointers in the drive.
//!
//! Changes since the last commit are lost with the maps. Blocks of the maps that a disk began full with need not be on the platters.

use super::DmZoned;
use super::maps::NONE;
use super::reclaim::ReclaimJob;
use super::unused::UnusedZones;
use crate::disk::Disk;
use crate::error::{DiskResult, Fault};
use crate::layer::COUNT_MAX;

impl DmZoned {
    /// Every block of every chunk is valid, in the order of the zones, the first conventional ones free.
    pub(super) fn begin_full(&mut self) {
        self.began_full = true;
        let blocks = self.layout.blocks();
        let zones = self.maps.fill(self.layout.first_of_full(), blocks);
        self.pointers[zones.start as usize..zones.end as usize].fill(blocks);
        self.find_unused();
    }

    /// True (1) if the disk began full, and the write pointers.
    pub(super) fn drive_state(&self) -> Vec<u64> {
        [u64::from(self.began_full)].into_iter().chain(self.pointers.iter().map(|&pointer| pointer.into())).collect()
    }

    /// All of it, after a commit: the drive's state, the metadata blocks, and what is in memory only.
    pub(super) fn all_state(&self) -> Vec<u64> {
        let lists = self.in_memory().into_iter();
        let lists = lists.flat_map(|list| [list.len() as u64].into_iter().chain(list).collect::<Vec<u64>>());
        self.drive_state().into_iter().chain(self.maps.words()).chain(lists).collect()
    }

    /// State that outlives a clean end, and no power cut.
    pub(super) fn in_memory(&self) -> [Vec<u64>; 6] {
        let [random, sequential] = self.unused.words();
        let (uses, metadata) = (self.last_uses.uses(), self.maps.metadata());
        [
            self.last_uses.words(),
            random,
            sequential,
            metadata.in_memory().collect(),
            self.job.iter().flat_map(ReclaimJob::words).collect(),
            vec![uses, self.reclaiming.into(), self.nothing_to_reclaim.into(), metadata.generation],
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
        let Some(rest) = self.maps.take_words(rest) else { return of_another() };
        self.settle()?;
        self.take_pointers(&drive[1..]);
        if self.take_in_memory(rest).is_none() { of_another() } else { self.check_maps() }
    }

    fn take_pointers(&mut self, words: &[u64]) {
        let blocks = u64::from(self.layout.blocks());
        for (pointer, &word) in self.pointers.iter_mut().zip(words) {
            *pointer = word.min(blocks) as u32;
        }
    }

    /// Takes the lists of [`DmZoned::in_memory`]; `None` if they are not of this disk.
    fn take_in_memory(&mut self, mut words: &[u64]) -> Option<()> {
        let mut lists = Vec::new();
        while let Some((&length, others)) = words.split_first() {
            let (list, others) = others.split_at_checked(length as usize)?;
            lists.push(list);
            words = others;
        }
        let [used, random, sequential, blocks, job, &[uses, reclaiming, nothing, generation]] = lists[..] else {
            return None;
        };
        let last_uses = self.last_uses.parse(used, uses)?;
        let unused = UnusedZones::parse(&self.layout, random, sequential)?;
        let job = ReclaimJob::parse(job);
        if generation >= COUNT_MAX || job.as_ref().is_some_and(|job| !self.is_possible_job(job)) {
            return None;
        }
        (self.last_uses, self.unused, self.job) = (last_uses, unused, job);
        self.maps.put_in_memory(blocks, generation);
        (self.reclaiming, self.nothing_to_reclaim) = (reclaiming == 1, nothing == 1);
        Some(())
    }

    /// Rebuilds the maps from the newest whole set of metadata blocks.
    pub(super) fn rebuild(&mut self, disk: &mut Disk) -> DiskResult {
        let stale = self.maps.restore(disk)?;
        self.settle()?;
        self.check_maps()?;
        self.maps.renew(disk, &stale)
    }

    /// Works out what follows from the mapping and the bitmaps.
    fn settle(&mut self) -> DiskResult {
        self.maps.settle()?;
        for zone in self.layout.first_sequential()..self.pointers.len() as u32 {
            // A drive that forgot its pointers has them behind what is valid.
            let pointer = &mut self.pointers[zone as usize];
            let is_free = self.maps.owners()[zone as usize] == NONE;
            *pointer = if is_free { 0 } else { self.maps.valid(zone).end().max(*pointer) };
        }
        self.find_unused();
        (self.reclaiming, self.nothing_to_reclaim) = (false, false);
        Ok(())
    }
}

fn of_another<T>() -> DiskResult<T> {
    Err(Box::new(Fault::Inconsistent("its books are of another disk".into())))
}
