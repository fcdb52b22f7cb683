//! A write cache in DRAM: writes complete in it, are merged, and brought to the platters in ascending order later.
//!
//! Assumption: the papers' runs have none. What it holds is lost with the power, unless it was flushed.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::disk::Disk;
use crate::error::DiskResult;
use crate::layer::COUNT_MAX;
use crate::medium::Buf;
use crate::state::state;
use crate::units::{Lba, Nanos};

/// Without a write for so long, it is emptied even if it is less than half full (assumption).
const QUIET: Nanos = Nanos(100_000_000);

#[derive(Serialize, Deserialize)]
struct HeldWrite {
    sectors: u64,
    #[serde(skip)]
    data: Buf,
    /// Number of writes that the cache had taken when it came.
    came: u64,
    /// Goes straight to its band.
    direct: bool,
}

/// Run that is brought to the platters at once.
pub(super) struct FlushRun {
    pub lba: Lba,
    pub sectors: u64,
    /// Goes straight to its band.
    pub direct: bool,
}

/// The write cache; one of 0 sectors takes nothing.
pub(super) struct WriteCache {
    limit: u64,
    sectors: u64,
    /// Of the run on its way to the platters.
    under_way: u64,
    /// When it last took something, and the last time that this made it half full.
    last: Nanos,
    half_full: Nanos,
    /// By the first LBA; they don't overlap.
    held: BTreeMap<u64, HeldWrite>,
    /// Writes taken so far.
    taken: u64,
    /// Writes taken when the sweep began. It brings those that came before to the platters, and what follows on them: a stream
    /// can't keep it from ending.
    sweep: u64,
    /// The sweep goes on at this LBA.
    at: u64,
}

state! {
    WriteCache {
        values: sectors, under_way, last, half_full, held, taken, sweep, at;
        built: limit;
    }
}

impl WriteCache {
    pub fn new(limit_sectors: u64) -> WriteCache {
        WriteCache {
            limit: limit_sectors,
            sectors: 0,
            under_way: 0,
            last: Nanos::ZERO,
            half_full: Nanos::ZERO,
            held: BTreeMap::new(),
            taken: 0,
            sweep: 0,
            at: 0,
        }
    }

    /// True if a restored state holds sectors of the first `host_sectors` LBAs alone, and no more than it has room for.
    pub fn is_possible(&self, host_sectors: u64) -> bool {
        let is_held = |(&lba, held): (&u64, &HeldWrite)| {
            0 < held.sectors && held.sectors <= self.limit && lba < host_sectors && lba + held.sectors <= host_sectors
        };
        let counts = [self.taken, self.sweep, self.at].iter().all(|&count| count < COUNT_MAX);
        counts && self.sectors <= self.limit && self.under_way <= self.limit && self.held.iter().all(is_held)
    }

    #[inline]
    pub fn takes(&self, n: u64) -> bool {
        n <= self.limit
    }

    pub fn has_room(&self, n: u64) -> bool {
        self.sectors + self.under_way + n <= self.limit
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Takes `n` sectors of `data`.
    pub fn put(&mut self, disk: &Disk, lba: Lba, n: u64, data: &Buf, direct: bool) -> DiskResult {
        self.last = disk.now();
        if !self.is_half_full() {
            self.half_full = disk.now();
        }
        self.remove(disk, lba, n)?;
        let mut own = disk.buf(n);
        own.put(0, data, 0, n);
        self.insert(lba.0, HeldWrite { sectors: n, data: own, came: self.taken, direct });
        self.taken += 1;
        Ok(())
    }

    fn insert(&mut self, lba: u64, held: HeldWrite) {
        self.sectors += held.sectors;
        self.held.insert(lba, held);
    }

    /// Forgets `n` sectors from `lba` on.
    pub fn remove(&mut self, disk: &Disk, lba: Lba, n: u64) -> DiskResult {
        let (first, end) = (lba.0, lba.0 + n);
        while let Some((&at, _)) = self.held.range(..end).next_back().filter(|(at, held)| *at + held.sectors > first) {
            let Some(old) = self.held.remove(&at) else { break };
            self.sectors -= old.sectors;
            for (from, to) in [(at, first), (end, at + old.sectors)] {
                if from < to {
                    let mut data = disk.buf(to - from);
                    data.put(0, &old.data, from - at, to - from);
                    self.insert(from, HeldWrite { sectors: to - from, data, ..old });
                }
            }
        }
        Ok(())
    }

    /// Calls `each` with the parts of `n` sectors from `lba` on, in order: (first, sectors, what holds them and where).
    pub fn parts<E>(
        &self,
        lba: Lba,
        n: u64,
        mut each: impl FnMut(Lba, u64, Option<(&Buf, u64)>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut at, end) = (lba.0, lba.0 + n);
        let before = self.held.range(..at).next_back();
        for (&first, held) in before.into_iter().chain(self.held.range(at..end)) {
            let stop = (first + held.sectors).min(end);
            if stop <= at {
                continue;
            }
            if at < first {
                each(Lba(at), first - at, None)?;
                at = first;
            }
            each(Lba(at), stop - at, Some((&held.data, at - first)))?;
            at = stop;
        }
        if at < end { each(Lba(at), end - at, None) } else { Ok(()) }
    }

    /// Moment from which it is emptied: when it was half full, or a while after the last write; `None` if it is empty.
    #[inline]
    pub fn due(&self) -> Option<Nanos> {
        match self.is_half_full() {
            true => Some(self.half_full),
            false => (!self.is_empty()).then_some(self.last + QUIET),
        }
    }

    fn is_half_full(&self) -> bool {
        self.sectors > self.limit / 2
    }

    /// The next run of the sweep in ascending order, or the first of a new sweep: pieces of one kind that follow on each other.
    pub fn next_run(&mut self) -> Option<FlushRun> {
        let (lba, direct) = self.next_of_sweep().or_else(|| {
            (self.at, self.sweep) = (0, self.taken);
            self.next_of_sweep()
        })?;
        let mut run = FlushRun { lba: Lba(lba), sectors: 0, direct };
        for (&at, held) in self.held.range(lba..) {
            if at != lba + run.sectors || held.direct != run.direct {
                break;
            }
            run.sectors += held.sectors;
        }
        Some(run)
    }

    fn next_of_sweep(&self) -> Option<(u64, bool)> {
        let mut rest = self.held.range(self.at..);
        rest.find(|(_, held)| held.came < self.sweep).map(|(&lba, held)| (lba, held.direct))
    }

    /// Takes out what it holds of a run, which is on its way until [`WriteCache::arrived`].
    pub fn take(&mut self, disk: &Disk, run: &FlushRun) -> DiskResult<Buf> {
        let mut data = disk.buf(run.sectors);
        // It begins with a piece, and may end within one.
        let (first, end) = (run.lba.0, run.lba.0 + run.sectors);
        for (&lba, held) in self.held.range(first..end) {
            data.put(lba - first, &held.data, 0, held.sectors.min(end - lba));
        }
        self.remove(disk, run.lba, run.sectors)?;
        self.at = end;
        self.under_way = run.sectors;
        Ok(data)
    }

    /// True if a run is on its way, or was when last asked: it takes room.
    pub fn is_under_way(&self) -> bool {
        self.under_way > 0
    }

    /// The run on its way has arrived.
    pub fn arrived(&mut self) {
        self.under_way = 0;
    }

    /// The power is cut: what it holds is lost, and the sweep with it.
    pub fn power_cut(&mut self) {
        (self.sectors, self.under_way) = (0, 0);
        self.held.clear();
    }

    /// The books, for checks: sectors held, and whether nothing overlaps.
    pub fn is_sound(&self) -> bool {
        let sum: u64 = self.held.values().map(|held| held.sectors).sum();
        let mut ends = self.held.iter().map(|(lba, held)| (lba, lba + held.sectors)).peekable();
        let mut apart = true;
        while let Some((_, end)) = ends.next() {
            apart &= ends.peek().is_none_or(|(next, _)| **next >= end);
        }
        apart && sum == self.sectors && sum + self.under_way <= self.limit
    }
}
