//! The persistent cache: the log, the map of what lies in it, and the copies of that map on the platters.

#[cfg(test)]
mod tests;

use std::collections::vec_deque;

use serde::{Deserialize, Serialize};

use super::costs::Costs;
use super::log::{CacheLog, Extent, HostData, LogEntry};
use super::map_copy::MapCopies;
use super::recovery;
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::extent_map::ExtentMap;
use crate::layer::COUNT_MAX;
use crate::layer::inconsistent;
use crate::medium::Buf;
use crate::state::state;
use crate::tally::Cause;
use crate::units::{Lba, Pba};

/// Sectors that one entry of the map spans at most.
pub(super) const MAP_ENTRY_SECTORS: u64 = 4096;

/// Memory of a map entry and of a log entry: together 56 bytes, so that 22,986 of each take the 1.3 MB of Vguard 2017,
/// table 1; how they share it is an assumption.
const MAP_ENTRY_BYTES: u64 = 40;
const LOG_ENTRY_BYTES: u64 = 16;

/// Limits of map and log.
pub(super) struct Limits {
    /// Map entries and log entries beyond which cleaning is due.
    pub alpha: u64,
    pub beta: u64,
    /// Map entries beyond which writes wait.
    pub map_entries_max: u64,
}

/// The log with its map.
pub(super) struct PersistentCache {
    limits: Limits,
    costs: Costs,
    log: CacheLog,
    map: ExtentMap,
    copies: MapCopies,
    /// Appends since the last map copy.
    appends: u64,
    /// LBAs that the last map copy may still find in the log, and the map no longer: kept where writes may bypass the log.
    stale: Option<StaleRuns>,
    map_writes: u64,
}

state! {
    PersistentCache {
        parts: log, copies;
        values: map, appends, stale, map_writes;
        built: limits, costs;
    }
}

/// Runs of LBAs, gathered in any order and asked for seldom.
#[derive(Default, Serialize, Deserialize)]
struct StaleRuns {
    runs: Vec<(Lba, Lba)>,
    /// True if the runs are in order, and no two of them overlap.
    is_sorted: bool,
}

impl StaleRuns {
    fn add(&mut self, lba: Lba, n: u64) {
        self.runs.push((lba, lba + n));
        self.is_sorted = false;
    }

    /// True if one of `n` LBAs from `lba` on is among them.
    fn overlap(&mut self, lba: Lba, n: u64) -> bool {
        if !self.is_sorted {
            // Cleaning adds them in order, band by band: the stable sort merges such runs.
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
    /// An empty cache; `bypassed` where writes may bypass it.
    pub fn new(limits: Limits, costs: Costs, log: CacheLog, copies: MapCopies, bypassed: bool) -> PersistentCache {
        PersistentCache {
            limits,
            costs,
            log,
            map: ExtentMap::new(),
            copies,
            appends: 0,
            stale: bypassed.then(StaleRuns::default),
            map_writes: 0,
        }
    }

    /// True if a restored state has counted no more than any drive does, and its log is possible.
    pub fn is_possible(&self, host_sectors: u64) -> bool {
        let counts = [self.appends, self.map_writes, self.copies.number()].iter().all(|&count| count < COUNT_MAX);
        counts && self.log.is_possible(host_sectors)
    }

    /// Places of the valid sectors.
    #[inline]
    pub fn map(&self) -> &ExtentMap {
        &self.map
    }

    /// The log's entries, oldest first.
    pub fn entries(&self) -> vec_deque::Iter<'_, LogEntry> {
        self.log.entries()
    }

    /// The valid extents of an entry: (LBA, sectors, PBA).
    pub fn valid(&self, entry: &LogEntry) -> impl Iterator<Item = (Lba, u64, Pba)> + '_ {
        self.log.valid(&self.map, entry)
    }

    /// By how many entries map or log pass their thresholds.
    #[inline]
    pub fn excess(&self) -> u64 {
        let map = (self.map.len() as u64).saturating_sub(self.limits.alpha);
        map.max(self.log.length().saturating_sub(self.limits.beta))
    }

    /// Forgets the oldest entries as far as nothing in them is valid; whether any is left.
    pub fn trim(&mut self) -> bool {
        self.log.trim(&self.map).is_some()
    }

    /// True if map and log have room for a request of `n` sectors.
    #[inline]
    pub fn has_room(&self, n: u64) -> bool {
        // A write into the middle of an extent makes three of it; longer ones take an entry for each chunk.
        let entries = self.map.len() as u64 + n / MAP_ENTRY_SECTORS + 16;
        entries <= self.limits.map_entries_max && self.log.has_room(n)
    }

    /// The most sectors that one request may bring.
    pub fn request_max(&self) -> u64 {
        self.log.request_max()
    }

    /// True if less is free than is to be kept free by cleaning ahead.
    #[inline]
    pub fn is_nearly_full(&self) -> bool {
        self.log.is_nearly_full()
    }

    /// True if a map copy would let the log go on where it can't now.
    pub fn is_held_by_copy(&self) -> bool {
        self.log.tail() > self.log.kept()
    }

    /// True if the log holds no entry.
    pub fn is_empty(&self) -> bool {
        self.log.entries().len() == 0
    }

    /// Goes on at the log's beginning; a map copy has to follow.
    pub fn begin_lap(&mut self) {
        self.log.restart_at(self.log.next_lap(), self.copies.number());
    }

    /// Appends `n` sectors of `data` as one request that is there whole or not at all.
    #[inline]
    pub fn append(&mut self, disk: &mut Disk, cause: Cause, lba: Lba, n: u64, data: &Buf, at: u64) -> DiskResult {
        let mut done = 0;
        while done < n {
            let rest = HostData { lba: lba + done, sectors: n - done, buf: data, at: at + done };
            let (count, pba) = self.log.append(disk, &self.costs, cause, &rest)?;
            self.map.insert(lba + done, count, pba);
            done += count;
        }
        self.appends += 1;
        Ok(())
    }

    /// True if an entry of `n` sectors would be one access.
    pub fn holds_undivided(&self, n: u64) -> bool {
        self.log.holds_undivided(n)
    }

    /// Appends `extents`, of which `data` holds one after another, as one entry; see [`CacheLog::holds_undivided`].
    pub fn append_together(&mut self, disk: &mut Disk, extents: &[Extent], data: &Buf) -> DiskResult {
        let mut pba = self.log.append_together(disk, &self.costs, extents, data)?;
        for &(lba, sectors) in extents {
            self.map.insert(lba, sectors, pba);
            pba += sectors;
        }
        self.appends += 1;
        Ok(())
    }

    /// Appends since the last map copy.
    pub fn appends(&self) -> u64 {
        self.appends
    }

    /// Notes that `n` sectors are valid at home from now on, where the log or the last map copy says otherwise.
    pub fn outdate(&mut self, disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        let is_cached = self.map.mapped(lba, n).next().is_some();
        if is_cached || self.stale.as_mut().is_some_and(|stale| stale.overlap(lba, n)) {
            self.log.append_drop(disk, &self.costs, lba, n)?;
            self.map.remove(lba, n);
            self.appends += 1;
        }
        Ok(())
    }

    /// Takes `n` sectors out of the map.
    pub fn forget(&mut self, lba: Lba, n: u64) {
        if let Some(stale) = &mut self.stale {
            stale.add(lba, n);
        }
        self.map.remove(lba, n);
    }

    /// Takes `n` sectors out of the map that was read as `merged` (LBA, sectors, PBA), unless they were written again since.
    pub fn forget_merged(&mut self, first: Lba, n: u64, merged: &[(Lba, u64, Pba)]) {
        if !self.map.mapped(first, n).eq(merged.iter().copied()) {
            return merged.iter().for_each(|&piece| self.forget_piece(piece));
        }
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
        self.appends >= self.costs.map_every_writes
    }

    /// Writes a copy of the map. Notes of the scratch pad up to `settled` need not be replayed any more.
    pub fn persist(&mut self, disk: &mut Disk, settled: u64) -> DiskResult {
        self.trim();
        self.copies.write(disk, &self.costs, &mut self.log, &self.map, settled)?;
        self.map_writes += 1;
        self.appends = 0;
        if let Some(stale) = &mut self.stale {
            stale.runs.clear();
        }
        Ok(())
    }

    /// Finds the newest map copy and follows the log from there. Returns up to which one the scratch pad's notes are settled.
    pub fn recover(&mut self, disk: &mut Disk, host_sectors: u64) -> DiskResult<u64> {
        let settled = self.copies.restore(disk, &mut self.log, &mut self.map, host_sectors)?;
        recovery::follow(disk, &mut self.log, &mut self.map, host_sectors)?;
        self.check()?;
        Ok(settled)
    }

    /// Lets nothing be taken for an entry that a power cut has torn; a map copy has to follow.
    pub fn restart_log(&mut self) {
        self.log.restart_at(self.log.next().head, self.copies.number());
    }

    /// The power was cut.
    pub fn power_cut(&mut self) {
        self.log.power_cut();
    }

    /// Checks the books: entries in order, as many sectors valid as mapped, room for the next map copy.
    pub fn check(&self) -> DiskResult {
        let (mut valid, mut extents) = (0, 0);
        let mut before = 0;
        for entry in self.log.entries() {
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
        if before > self.log.next().head || self.log.tail() < self.log.kept() {
            return inconsistent(format!(
                "the log's head lies before {before}, or its tail before the last map copy's"
            ));
        }
        if self.log.used() > self.log.length_sectors() {
            return inconsistent(format!("the log holds {} sectors, more than it has", self.log.used()));
        }
        match extents <= self.copies.extents_max() {
            true => Ok(()),
            false => inconsistent(format!("{extents} map entries")),
        }
    }

    /// Log entries in use.
    pub fn log_length(&self) -> u64 {
        self.log.length()
    }

    /// Map entries in use.
    pub fn map_entries(&self) -> u64 {
        self.map.len() as u64
    }

    /// The largest share of a threshold, or of `cache_sectors`, that is in use.
    pub fn fill(&self, cache_sectors: u64) -> f64 {
        let fill = share(self.map_entries(), self.limits.alpha).max(share(self.log_length(), self.limits.beta));
        fill.max(share(self.log.used(), cache_sectors)).min(1.0)
    }

    /// The share of the log in use that holds nothing valid.
    pub fn invalid_share(&self) -> f64 {
        let used = self.log.used().max(1);
        1.0 - share(self.map.sectors() + self.log_length(), used).min(1.0)
    }

    /// Memory that the drive would take.
    pub fn memory_bytes(&self) -> u64 {
        self.map_entries() * MAP_ENTRY_BYTES + self.log_length() * LOG_ENTRY_BYTES
    }

    /// Map copies written since counting began.
    pub fn map_writes(&self) -> u64 {
        self.map_writes
    }

    /// Counting starts anew.
    pub fn reset_counts(&mut self) {
        self.map_writes = 0;
    }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
