//! Reclaim: the data of a conventional zone moves to a sequential one, and the conventional zone is free again.
//!
//! The conventional zone used longest ago is taken. If it holds a chunk, its valid blocks go to an empty sequential zone. If it
//! buffers one, they are appended to the sequential zone where all of them lie behind its write pointer; else what is valid
//! there moves into the buffer, which then holds the chunk. Copying changes no map: a write to the chunk drops the job, and at
//! its end a commit makes the change durable.

use serde::{Deserialize, Serialize};

use super::DmZoned;
use super::maps::{BLOCK, ChunkZones, NONE};
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::tally::Cause;

/// Shares of free conventional zones at which reclaim begins and ends (dm-zoned-reclaim.c; recalled).
const RECLAIM_LOW_PERCENT: u64 = 30;
const RECLAIM_HIGH_PERCENT: u64 = 50;
/// Blocks of a copy: 512 KiB (assumption).
const COPY_BLOCKS: u32 = 128;

/// A chunk whose zones become one.
#[derive(Serialize, Deserialize)]
pub(super) struct ReclaimJob {
    chunk: u32,
    from: u32,
    to: u32,
    /// True if `to` was free, and is mapped at the end only.
    to_is_new: bool,
    /// The next block to look at.
    next: u32,
}

impl DmZoned {
    /// True if reclaim is due: it begins at the lower share of free conventional zones, and goes on up to the higher one.
    pub(super) fn reclaim_is_due(&mut self) -> bool {
        let (free, all) = (100 * self.unused.random.len() as u64, self.layout.randoms());
        if free <= RECLAIM_LOW_PERCENT * all {
            self.reclaiming = true;
        }
        if free >= RECLAIM_HIGH_PERCENT * all {
            self.reclaiming = false;
        }
        self.reclaiming
    }

    /// True if a job is about the zones that its chunk has.
    pub(super) fn is_possible_job(&self, job: &ReclaimJob) -> bool {
        let Some(zones) = self.maps.chunks.get(job.chunk as usize) else { return false };
        let has_both = match job.to_is_new {
            true => (job.from, NONE) == (zones.data, zones.buffer) && !self.layout.is_random(job.to),
            false => [(zones.data, zones.buffer), (zones.buffer, zones.data)].contains(&(job.from, job.to)),
        };
        let exists = |zone| (self.layout.first_data()..self.pointers.len() as u32).contains(&zone);
        has_both && exists(job.from) && exists(job.to) && job.next <= self.layout.blocks()
    }

    /// One stage: a copy, or the end of a job. Returns false where nothing can be reclaimed.
    pub(super) fn reclaim_stage(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        let Some(job) = self.job.take().or_else(|| self.next_job()) else {
            self.nothing_to_reclaim = true;
            let commits = !self.unused.freed.is_empty();
            self.commit(disk)?;
            return Ok(commits);
        };
        let most = COPY_BLOCKS;
        let Some((first, n)) = self.maps.valid[job.from as usize].next_valid(job.next, most) else {
            self.finish(disk, &job)?;
            return Ok(true);
        };
        let pointer = self.pointers[job.to as usize];
        if !self.layout.is_random(job.to) && pointer < first {
            // Nothing is skipped in a sequential zone: the gap is written with zeros.
            let gap = (first - pointer).min(most);
            let buf = disk.buf(u64::from(gap) * BLOCK);
            self.pointers[job.to as usize] += gap;
            disk.write(self.layout.place(job.to, pointer), u64::from(gap) * BLOCK, Cause::Clean, &buf, 0)?;
            self.job = Some(ReclaimJob { next: first, ..job });
            return Ok(true);
        }
        let mut buf = disk.buf(u64::from(n) * BLOCK);
        disk.read(self.layout.place(job.from, first), u64::from(n) * BLOCK, Cause::Clean, &mut buf, 0)?;
        if !self.layout.is_random(job.to) {
            self.pointers[job.to as usize] = first + n;
        }
        disk.write(self.layout.place(job.to, first), u64::from(n) * BLOCK, Cause::Clean, &buf, 0)?;
        self.job = Some(ReclaimJob { next: first + n, ..job });
        Ok(true)
    }

    /// The job for the conventional zone used longest ago that can be reclaimed.
    fn next_job(&mut self) -> Option<ReclaimJob> {
        if self.nothing_to_reclaim {
            return None;
        }
        let (has_room, owners) = (!self.unused.sequential.is_empty(), &self.maps.owners);
        let reclaimable = |&zone: &u32| {
            let chunk = owners[zone as usize];
            chunk != NONE && (has_room || self.maps.zones_of(chunk).data != zone)
        };
        let first = self.layout.first_data();
        let zones = (first..self.layout.first_sequential()).filter(reclaimable);
        let zone = zones.min_by_key(|&zone| self.last_uses.of(zone - first))?;
        let chunk = owners[zone as usize];
        let data = self.maps.zones_of(chunk).data;
        let job = |from, to, to_is_new| ReclaimJob { chunk, from, to, to_is_new, next: 0 };
        if data == zone {
            return self.unused.sequential.pop_front().map(|to| job(zone, to, true));
        }
        let first = self.maps.valid[zone as usize].next_valid(0, 1).map_or(u32::MAX, |(first, _)| first);
        Some(if first >= self.pointers[data as usize] { job(zone, data, false) } else { job(data, zone, false) })
    }

    /// Ends a job: the copy is valid, the old zone free, and both are durable.
    fn finish(&mut self, disk: &mut Disk, job: &ReclaimJob) -> DiskResult {
        let blocks = self.layout.blocks();
        // Bits change in memory, so that all of them have to be there first.
        self.maps.metadata.need(disk, job.from, 0, blocks)?;
        self.maps.metadata.need(disk, job.to, 0, blocks)?;
        let mut at = 0;
        while let Some((first, n)) = self.maps.valid[job.from as usize].next_valid(at, blocks) {
            self.maps.set_valid(job.to, first, n, true);
            at = first + n;
        }
        self.release(job.from);
        self.maps.map(job.chunk, ChunkZones { data: job.to, buffer: NONE });
        self.touch(job.to);
        self.counts.zones_reclaimed += 1;
        self.commit(disk)
    }

    /// The host changes a chunk: a job that copies it is dropped.
    #[inline]
    pub(super) fn drop_job_of(&mut self, chunk: u32) {
        if self.job.as_ref().is_some_and(|job| job.chunk == chunk) {
            self.drop_job();
        }
    }

    #[cold]
    fn drop_job(&mut self) {
        let Some(job) = self.job.take() else { return };
        if job.to_is_new {
            self.pointers[job.to as usize] = 0;
            // Nothing was written to it that counts: it is the next to be taken again.
            self.unused.sequential.push_front(job.to);
        }
        self.counts.jobs_dropped += 1;
    }

    /// The zone that a job copies to and no chunk is mapped to yet.
    pub(super) fn zone_in_the_making(&self) -> Option<u32> {
        self.job.as_ref().filter(|job| job.to_is_new).map(|job| job.to)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::unmapped;
    use super::*;

    #[test]
    fn a_job_of_a_chunk_names_its_zones_and_goes_to_a_sequential_one() {
        let mut layer = unmapped();
        let (random, sequential) = (layer.layout.first_data(), layer.layout.first_sequential());
        layer.maps.map(0, ChunkZones { data: random, buffer: NONE });
        layer.maps.map(1, ChunkZones { data: sequential, buffer: random + 1 });
        let is_possible =
            |chunk, from, to, to_is_new, next| layer.is_possible_job(&ReclaimJob { chunk, from, to, to_is_new, next });
        assert!(is_possible(0, random, sequential + 1, true, 0));
        assert!(!is_possible(0, random, random + 1, true, 0), "the new zone is a conventional one");
        assert!(!is_possible(0, random + 1, sequential + 1, true, 0), "the chunk lies elsewhere");
        assert!(!is_possible(1, sequential, sequential + 1, true, 0), "the chunk has a buffer");
        assert!(is_possible(1, sequential, random + 1, false, 0) && is_possible(1, random + 1, sequential, false, 0));
        assert!(!is_possible(0, random, sequential, false, 0));
        let (blocks, zones, chunks) = (layer.layout.blocks(), layer.pointers.len(), layer.maps.chunks.len());
        assert!(is_possible(0, random, sequential, true, blocks));
        assert!(!is_possible(0, random, sequential, true, blocks + 1));
        assert!(!is_possible(0, random, zones as u32, true, 0), "there is no such zone");
        assert!(!is_possible(chunks as u32, random, sequential, true, 0), "nor such a chunk");
    }
}
