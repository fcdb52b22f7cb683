//! A write cache in DRAM: writes are answered from it, merged, and brought to the platters in ascending order later.
//!
//! Assumption: the papers' runs have none. What it holds is lost with the power, unless it was flushed.

use std::collections::BTreeMap;

use crate::disk::Disk;
use crate::medium::Buf;
use crate::units::Lba;

/// The longest run that is brought to the platters at once: 8 MiB (assumption).
const RUN_SECTORS_MAX: u64 = 16_384;

struct Held {
    sectors: u64,
    data: Buf,
    /// Goes straight to its band.
    direct: bool,
}

/// A run on its way to the platters.
pub(super) struct Run {
    pub lba: Lba,
    pub sectors: u64,
    pub data: Buf,
    pub direct: bool,
}

/// The write cache; one of 0 sectors takes nothing.
pub(super) struct WriteCache {
    limit: u64,
    sectors: u64,
    /// By the first LBA; they don't overlap.
    held: BTreeMap<u64, Held>,
    /// The elevator goes on at this LBA.
    at: u64,
}

impl WriteCache {
    pub fn new(limit_sectors: u64) -> WriteCache {
        WriteCache { limit: limit_sectors, sectors: 0, held: BTreeMap::new(), at: 0 }
    }

    #[inline]
    pub fn takes(&self, n: u64) -> bool {
        n <= self.limit
    }

    pub fn has_room(&self, n: u64) -> bool {
        self.sectors + n <= self.limit
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Takes `n` sectors of `data`.
    pub fn put(&mut self, disk: &Disk, lba: Lba, n: u64, data: &Buf, direct: bool) {
        self.remove(disk, lba, n);
        let mut own = disk.buf(n);
        own.put(0, data, 0, n);
        self.insert(lba.0, Held { sectors: n, data: own, direct });
    }

    fn insert(&mut self, lba: u64, held: Held) {
        self.sectors += held.sectors;
        self.held.insert(lba, held);
    }

    /// Forgets `n` sectors from `lba` on.
    pub fn remove(&mut self, disk: &Disk, lba: Lba, n: u64) {
        let (first, end) = (lba.0, lba.0 + n);
        while let Some((&at, _)) = self.held.range(..end).next_back().filter(|(at, held)| *at + held.sectors > first) {
            let Some(old) = self.held.remove(&at) else { return };
            self.sectors -= old.sectors;
            for (from, to) in [(at, first), (end, at + old.sectors)] {
                if from < to {
                    let mut data = disk.buf(to - from);
                    data.put(0, &old.data, from - at, to - from);
                    self.insert(from, Held { sectors: to - from, data, direct: old.direct });
                }
            }
        }
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

    /// Takes out the next run in ascending order, beginning again at the lowest LBA.
    pub fn take_run(&mut self, disk: &Disk) -> Option<Run> {
        let first = self.held.range(self.at..).next().or_else(|| self.held.iter().next()).map(|(&lba, _)| lba)?;
        let direct = self.held[&first].direct;
        let mut end = first;
        for (&lba, held) in self.held.range(first..) {
            let fits = lba == end && held.direct == direct && end + held.sectors - first <= RUN_SECTORS_MAX;
            if !fits && end > first {
                break;
            }
            end = lba + held.sectors;
        }
        let mut data = disk.buf(end - first);
        while let Some((&lba, _)) = self.held.range(first..end).next() {
            let Some(held) = self.held.remove(&lba) else { break };
            self.sectors -= held.sectors;
            data.put(lba - first, &held.data, 0, held.sectors);
        }
        self.at = end;
        Some(Run { lba: Lba(first), sectors: end - first, data, direct })
    }

    /// The books, for checks: sectors held, and whether nothing overlaps.
    pub fn is_sound(&self) -> bool {
        let sum: u64 = self.held.values().map(|held| held.sectors).sum();
        let mut ends = self.held.iter().map(|(lba, held)| (lba, lba + held.sectors)).peekable();
        let mut apart = true;
        while let Some((_, end)) = ends.next() {
            apart &= ends.peek().is_none_or(|(next, _)| **next >= end);
        }
        apart && sum == self.sectors && sum <= self.limit
    }
}
