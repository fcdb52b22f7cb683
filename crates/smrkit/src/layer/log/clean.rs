//! Cleaning: a victim's live sectors are read in runs and appended to the log, a stage at a time.
//!
//! A sector is live if the map still points to it. Runs a little apart are read in one access, with the dead sectors between them.

use serde::{Deserialize, Serialize};

use super::Log;
use crate::layer::prelude::*;
use crate::layer::runs::Gather;

/// The most sectors of a victim that one stage reads: 2 MiB (assumption).
const STAGE_SECTORS: u64 = 4096;

/// The most dead sectors between two runs that are read along with them. They pass under the head anyway (128 KiB: assumption).
const GAP_SECTORS: u64 = 256;

/// A segment being cleaned, and the progress.
#[derive(Serialize, Deserialize, Clone, Copy)]
pub(super) struct Job {
    pub(super) victim: u32,
    /// Index of the next entry in the segment's list, and the entry's first sector in the segment.
    pub(super) entry: usize,
    pub(super) entry_at: u64,
    /// Live data before this sector of the segment has been moved.
    pub(super) at: u64,
    /// True if anything was moved.
    moved: bool,
    /// True if it began in idle time: then it continues in idle time, or when cleaning is due.
    pub(super) idle: bool,
}

/// Live sectors of a victim: the first LBA, how many, and the first one's number in the segment.
#[derive(Clone, Copy)]
pub(super) struct LiveRun {
    lba: Lba,
    sectors: u64,
    at: u64,
}

impl Log {
    /// True if a segment has to be cleaned before the next request: few are free, and cleaning can gain one.
    pub(super) fn cleaning_is_due(&self) -> bool {
        self.segments.free_sectors < self.clean_below_sectors() && self.segments.closed.dead >= self.segments.longest
    }

    /// Free sectors below which cleaning is due: the reserve and, beyond it, `clean_below` segments or the share `low_space` of the space that
    /// the host leaves unused, whichever is more.
    pub(super) fn clean_below_sectors(&self) -> u64 {
        let longest = self.segments.longest;
        let unused = self.capacity.host_sectors.saturating_sub(self.segments.live_sectors);
        let low_space = (self.rules.low_space * unused as f64) as u64;
        self.rules.reserve * longest + low_space.max(self.rules.clean_below * longest)
    }

    /// True if a segment is worth cleaning in idle time. Cleaning ahead of need has to move more live data, so it stops when most of the space
    /// that is not live is free or, if empty segments are freed at once, when no segment is less than half live.
    pub(super) fn cleaning_helps(&mut self) -> bool {
        match self.rules.resets {
            true => self.segments.closed.any_below_half(),
            false => self.segments.closed.dead > self.segments.free_sectors.max(self.segments.longest),
        }
    }

    /// Does a stage of cleaning, of a new victim if there is no job; returns `false` if there is no victim.
    pub(super) fn clean_stage(&mut self, disk: &mut Disk, need: Need) -> DiskResult<bool> {
        let Some(mut job) = self.job.take().or_else(|| self.choose(disk, need)) else { return Ok(false) };
        let before = job;
        let done = self.find_runs(&mut job);
        if !self.runs.is_empty() {
            if !job.moved {
                job.moved = true;
                self.counts.segments_moved += 1;
            }
            let runs = std::mem::take(&mut self.runs);
            let moved = self.move_runs(disk, job.victim, &runs);
            self.runs = runs;
            if let Err(fault) = moved {
                // The stage is repeated after a power cut. Parts that were moved are no longer live then.
                self.job = Some(Job { moved: job.moved, ..before });
                return Err(fault);
            }
        }
        if done {
            self.segments.free_victim(job.victim)?;
            self.counts.bands_cleaned += 1;
        } else {
            self.job = Some(job);
        }
        Ok(true)
    }

    /// Chooses a victim, and begins a job with it.
    pub(super) fn choose(&mut self, disk: &Disk, need: Need) -> Option<Job> {
        let victim = self.segments.take_victim(self.age, need)?;
        Some(self.begin(disk, victim, need))
    }

    /// A job to clean `victim`.
    fn begin(&mut self, disk: &Disk, victim: u32, need: Need) -> Job {
        self.counts.collections += 1;
        let idle = need == Need::Spare;
        if !idle {
            self.counts.first_cleaning_request.get_or_insert(disk.requests());
        }
        Job { victim, entry: 0, entry_at: 0, at: 0, moved: false, idle }
    }

    /// Finds the next live runs of the victim, as many as a stage reads; returns `true` if these are its last.
    fn find_runs(&mut self, job: &mut Job) -> bool {
        self.runs.clear();
        let segment = self.segments.get(job.victim);
        while let Some(entry) = segment.entries.get(job.entry) {
            if let Some(lba) = entry.lba() {
                let moved = job.at.saturating_sub(job.entry_at);
                for (at_lba, sectors, pba) in self.map.mapped(lba + moved, entry.sectors() - moved) {
                    let at = job.entry_at + (at_lba - lba);
                    // A newer copy is elsewhere.
                    if pba != segment.place.start + at {
                        continue;
                    }
                    if !add_run(&mut self.runs, LiveRun { lba: at_lba, sectors, at }) {
                        // The next stage continues after what this one takes.
                        job.at = self.runs.last().map_or(0, |run| run.at + run.sectors).max(job.at);
                        return false;
                    }
                }
            }
            job.entry += 1;
            job.entry_at += entry.sectors();
            job.at = job.entry_at;
        }
        true
    }

    /// Moves runs of a victim to the log's end.
    fn move_runs(&mut self, disk: &mut Disk, victim: u32, runs: &[LiveRun]) -> DiskResult {
        let start = self.segments.get(victim).place.start;
        let total: u64 = runs.iter().map(|run| run.sectors).sum();
        let mut live = disk.buf(total);
        let (mut gather, mut at) = (Gather::new(Cause::Clean, GAP_SECTORS), 0);
        for run in runs {
            gather.read(disk, start + run.at, run.sectors, &mut live, at)?;
            at += run.sectors;
        }
        gather.finish(disk, &mut live)?;
        let stream = self.segments.stream_of_survivors(victim);
        let youngest = self.segments.get(victim).youngest;
        let moved = runs.iter().map(|run| (run.lba, run.sectors));
        let appended = self.append_runs(disk, (stream, Cause::Clean), moved, (&live, 0));
        // Also after a power cut: parts that were written completely need not be moved again.
        self.note_parts(youngest);
        appended?;
        self.counts.garbage.moved_sectors += total;
        Ok(())
    }

    /// True if a write of `n` sectors to a stream would use up the space that cleaning needs for live data. Checked also if the write fits
    /// into the open segment, because cleaning appends to the same segment if they share a stream.
    pub(super) fn is_short(&self, stream: u8, n: u64) -> bool {
        // Enough for a segment of any length to be free again once the live data of the victim has moved.
        let longest = self.segments.longest;
        let victim = self.job.map(|job| job.victim);
        let needed = victim.map_or(longest, |at| {
            let segment = self.segments.get(at);
            u64::from(segment.live) + longest - u64::from(segment.place.sectors)
        });
        let may_take_survivors = match victim {
            Some(at) => self.segments.stream_of_survivors(at) == stream,
            // Any victim may be next, so its survivors may go to this stream, unless they have one of their own.
            None => !self.segments.survivors_apart || usize::from(stream) + 1 == self.segments.open.len(),
        };
        may_take_survivors && self.segments.free_sectors + self.segments.room(stream) < n + needed
    }

    /// Cleans until `n` sectors can be written to a stream while leaving the reserve, without which cleaning could not continue.
    #[cold]
    pub(super) fn make_room(&mut self, disk: &mut Disk, stream: u8, n: u64) -> DiskResult {
        let (mut has_slept, mut is_refused) = (false, false);
        loop {
            let missing = n.saturating_sub(self.segments.room(stream));
            let free = self.segments.free_sectors;
            let fits = missing == 0 || free >= missing + self.rules.reserve * self.segments.longest;
            if fits && !self.is_short(stream, n) {
                return Ok(());
            }
            if !has_slept {
                has_slept = true;
                self.counts.garbage.writers_slept += 1;
            }
            if self.clean_stage(disk, Need::Must)? {
                continue;
            }
            let garbage = self.segments.closed.dead;
            let victim = if garbage > 0 { self.segments.take_least_live() } else { None };
            let Some(victim) = victim else {
                return inconsistent(format!("no segment can be cleaned, and {free} sectors are free"));
            };
            // The file system does not clean zones with so little garbage, and reports that no space is left. Its user then cleans the zone
            // with the most garbage, as `btrfs balance` does, and writes again (assumption).
            if !is_refused {
                is_refused = true;
                self.counts.garbage.enospc += 1;
                self.counts.garbage.enospc_garbage_sectors += garbage;
            }
            self.job = Some(self.begin(disk, victim, Need::Must));
        }
    }
}

/// Adds as much of a run to a stage as fits; returns whether all of it did.
fn add_run(runs: &mut Vec<LiveRun>, run: LiveRun) -> bool {
    // A stage is bounded by its span, because it is read in one access from the first run to the last.
    let (Some(&first), Some(&last)) = (runs.first(), runs.last()) else {
        runs.push(LiveRun { sectors: run.sectors.min(STAGE_SECTORS), ..run });
        return run.sectors <= STAGE_SECTORS;
    };
    let end = first.at + STAGE_SECTORS;
    if run.at - (last.at + last.sectors) > GAP_SECTORS || run.at >= end {
        return false;
    }
    let sectors = run.sectors.min(end - run.at);
    runs.push(LiveRun { sectors, ..run });
    sectors == run.sectors
}
