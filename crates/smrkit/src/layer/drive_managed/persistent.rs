//! The persistent cache: the log, its map, and the copies of the map on the platters.
//!
//! Map copies are written to two places in turn, so that one is always intact.

use serde::{Deserialize, Serialize};

use super::log::{CacheLog, Extent, LogEntry};
use crate::extent_map::ExtentMap;
use crate::layer::prelude::*;
use crate::layer::record_sectors;

/// The most sectors that one entry of the map spans.
pub(super) const MAP_ENTRY_SECTORS: u64 = 4096;

/// Memory of a map entry and of a log entry. The sum of 56 bytes follows from Vguard 2017, table 1 (1.3 MB for 22,986 of each); how it is
/// divided is an assumption.
const MAP_ENTRY_BYTES: u64 = 40;
const LOG_ENTRY_BYTES: u64 = 16;

/// Words at the beginning of a map copy (kind, number, tail, head, outdated notes of the scratch pad, their number, and a checksum of the
/// headers), and words of each extent in it.
const COPY_HEAD_WORDS: u64 = 7;
const COPY_EXTENT_WORDS: u64 = 2;

/// Sectors of a map copy of up to `extents` extents.
pub(super) fn copy_sectors(extents: u64) -> u64 {
    record_sectors(COPY_HEAD_WORDS + COPY_EXTENT_WORDS * extents)
}

pub(super) struct Limits {
    /// Number of map entries above which cleaning is due.
    pub alpha: u64,
    /// Number of log entries above which cleaning is due.
    pub beta: u64,
    /// Number of map entries above which writes wait.
    pub map_entries_max: u64,
    /// Extents that a map copy has room for.
    pub copied_max: u64,
}

pub(super) struct PersistentCache {
    pub limits: Limits,
    pub log: CacheLog,
    /// Places of the valid sectors.
    pub map: ExtentMap,
    copy_places: [Pba; 2],
    /// Map copies since the drive was new, and since counting began.
    pub copies: u64,
    pub map_writes: u64,
    /// Appends since the last map copy.
    pub appends: u64,
    /// Log entries of the last append.
    pub last_entries: u64,
    /// LBAs for which the last map copy may still point to the log, and the map does not. Kept only if writes may bypass the log.
    pub stale: Option<StaleRuns>,
}

state! {
    PersistentCache {
        parts: log;
        values: map, copies, map_writes, appends, last_entries, stale;
        built: limits, copy_places;
    }
}

/// Runs of LBAs that are added in any order, and seldom queried.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct StaleRuns {
    runs: Vec<(Lba, Lba)>,
    /// True if the runs are in order, and no two of them overlap.
    is_sorted: bool,
}

impl StaleRuns {
    pub fn add(&mut self, lba: Lba, n: u64) {
        self.runs.push((lba, lba + n));
        self.is_sorted = false;
    }

    /// True if it has one of `n` LBAs from `lba` on.
    pub fn overlap(&mut self, lba: Lba, n: u64) -> bool {
        if !self.is_sorted {
            // The stable sort is fast here: cleaning adds ascending runs, band by band, which it only has to merge.
            self.runs.sort();
            self.runs.dedup_by(|next, last| {
                let overlaps = next.0 <= last.1;
                last.1 = if overlaps { last.1.max(next.1) } else { last.1 };
                overlaps
            });
            self.is_sorted = true;
        }
        let after = self.runs.partition_point(|&(_, end)| end <= lba);
        self.runs.get(after).is_some_and(|&(start, _)| start < lba + n)
    }
}

impl PersistentCache {
    /// An empty cache. `bypassed` if writes may bypass it.
    pub fn new(limits: Limits, log: CacheLog, copy_places: [Pba; 2], bypassed: bool) -> PersistentCache {
        PersistentCache {
            limits,
            log,
            map: ExtentMap::new(),
            copy_places,
            copies: 0,
            map_writes: 0,
            appends: 0,
            last_entries: 0,
            stale: bypassed.then(StaleRuns::default),
        }
    }

    /// The valid extents of an entry: (LBA, sectors, PBA).
    pub fn valid(&self, entry: &LogEntry) -> impl Iterator<Item = (Lba, u64, Pba)> + '_ {
        self.log.valid(&self.map, entry)
    }

    /// By how many entries map or log exceed their thresholds.
    #[inline]
    pub fn excess(&self) -> u64 {
        let map = (self.map.len() as u64).saturating_sub(self.limits.alpha);
        map.max(self.log.length().saturating_sub(self.limits.beta)).max(self.log.excess())
    }

    /// Drops the oldest entries as long as nothing in them is valid; returns whether any entry is left.
    pub fn trim(&mut self) -> bool {
        self.log.trim(&self.map)
    }

    /// True if map and log have room for a request of `n` sectors.
    #[inline]
    pub fn has_room(&self, n: u64) -> bool {
        // A long write takes a map entry for each chunk. Besides, each of the 8 writes that share a log entry by default may split an extent
        // in three, which adds two entries.
        let entries = self.map.len() as u64 + n / MAP_ENTRY_SECTORS + 16;
        entries <= self.limits.map_entries_max && self.log.has_room(n)
    }

    /// True if a new map copy would make room in the log, because the last copy still refers to entries before the tail.
    pub fn is_held_by_copy(&self) -> bool {
        self.log.tail() > self.log.kept
    }

    /// Appends `n` sectors of `data` as one request, in as many entries as it takes.
    #[inline]
    pub fn append(&mut self, disk: &mut Disk, cause: Cause, lba: Lba, n: u64, data: &Buf, at: u64) -> DiskResult {
        let mut done = 0;
        self.last_entries = 0;
        while done < n {
            self.last_entries += 1;
            let (count, pba) = self.log.append(disk, cause, (lba + done, n - done), data, at + done)?;
            self.map.insert(lba + done, count, pba);
            done += count;
        }
        self.appends += 1;
        Ok(())
    }

    /// Appends `extents`, whose sectors follow each other in `data`, as one entry; see [`CacheLog::holds_undivided`].
    pub fn append_together(&mut self, disk: &mut Disk, extents: &[Extent], data: &Buf) -> DiskResult {
        let mut pba = self.log.append_together(disk, extents, data)?;
        self.map.fetch(extents.iter().map(|extent| extent.0));
        for &(lba, sectors) in extents {
            self.map.insert(lba, sectors, pba);
            pba += sectors;
        }
        self.appends += 1;
        self.last_entries = 1;
        Ok(())
    }

    /// Notes on the platters that `n` sectors are valid at home from now on, if the log or the last map copy says otherwise.
    pub fn outdate(&mut self, disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        let is_cached = self.map.mapped(lba, n).next().is_some();
        if is_cached || self.stale.as_mut().is_some_and(|stale| stale.overlap(lba, n)) {
            self.log.append_drop(disk)?;
            self.map.remove(lba, n);
            self.appends += 1;
        }
        Ok(())
    }

    pub fn forget(&mut self, lba: Lba, n: u64) {
        if let Some(stale) = &mut self.stale {
            stale.add(lba, n);
        }
        self.map.remove(lba, n);
    }

    /// Removes from the map those of `n` sectors that were read as `merged` (LBA, sectors, PBA), unless they were written again since.
    pub fn forget_merged(&mut self, first: Lba, n: u64, merged: &[(Lba, u64, Pba)]) {
        if !self.map.mapped(first, n).eq(merged.iter().copied()) {
            return merged.iter().for_each(|&piece| self.forget_piece(piece));
        }
        // Usually nothing was written again, and all can be removed at once.
        self.map.remove(first, n);
        if let Some(stale) = &mut self.stale {
            merged.iter().for_each(|&(lba, sectors, _)| stale.add(lba, sectors));
        }
    }

    fn forget_piece(&mut self, (lba, sectors, pba): (Lba, u64, Pba)) {
        let mut done = 0;
        loop {
            let found = self.map.mapped(lba + done, sectors - done).next();
            let Some((at, n, now)) = found else { return };
            if now == pba + (at - lba) {
                self.forget(at, n);
            }
            done = at + n - lba;
        }
    }

    /// True if enough appends have come since the last map copy for one to be due.
    #[inline]
    pub fn is_copy_due(&self) -> bool {
        self.appends >= self.log.costs.map_every_writes
    }

    /// Writes a copy of the map, after which the log may overwrite the sectors before its tail.
    pub fn persist(&mut self, disk: &mut Disk) -> DiskResult {
        self.trim();
        let place = self.copy_places[(self.copies % 2) as usize];
        self.log.costs.map_copy(disk, place, copy_sectors(self.limits.copied_max))?;
        // Only now: if this write had been torn, the drive would use the previous copy, and need all entries that it points to.
        self.log.keep_from(self.log.tail());
        self.copies += 1;
        self.map_writes += 1;
        self.appends = 0;
        if let Some(stale) = &mut self.stale {
            stale.runs.clear();
        }
        Ok(())
    }

    /// Checks that entries are in order, that as many sectors are valid as mapped, and that the next map copy has room.
    pub fn check(&self) -> DiskResult {
        let (mut valid, mut extents) = (0, 0);
        let mut before = 0;
        for entry in &self.log.entries {
            if entry.data < before {
                return inconsistent(format!("the log's entries overlap at position {}", entry.data));
            }
            before = entry.data + entry.sectors;
            for (.., sectors, _) in self.valid(entry) {
                valid += sectors;
                extents += 1;
            }
        }
        if valid != self.map.sectors() {
            return inconsistent(format!("{valid} sectors are valid in the log, {} in the map", self.map.sectors()));
        }
        if before > self.log.head || self.log.tail() < self.log.kept {
            return inconsistent(format!(
                "the log's head lies before {before}, or its tail before the last map copy's"
            ));
        }
        if self.log.used() > self.log.size.value {
            return inconsistent(format!("the log holds {} sectors, more than it has", self.log.used()));
        }
        if extents <= self.limits.copied_max { Ok(()) } else { inconsistent(format!("{extents} map entries")) }
    }

    /// The largest of three shares: map entries of alpha, log entries of beta, and sectors in use of `cache_sectors`.
    pub fn fill(&self, cache_sectors: u64) -> f64 {
        let fill = share(self.map.len() as u64, self.limits.alpha).max(share(self.log.length(), self.limits.beta));
        fill.max(share(self.log.used(), cache_sectors)).min(1.0)
    }

    /// Share of the log's sectors in use that hold nothing valid.
    pub fn invalid_share(&self) -> f64 {
        let used = self.log.used().max(1);
        1.0 - share(self.map.sectors() + self.log.length(), used).min(1.0)
    }

    /// Memory that the drive would need.
    pub fn memory_bytes(&self) -> u64 {
        self.map.len() as u64 * MAP_ENTRY_BYTES + self.log.length() * LOG_ENTRY_BYTES
    }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
