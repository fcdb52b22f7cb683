//! Writing back: the write cache is emptied in the background, from when it is half full or no write comes.
//!
//! Assumption: the papers' runs have no write cache. What would have begun by now is begun when the next command comes, in
//! the order of time. A command waits where the cache has no room for it, or where it needs the platters itself.

use super::DriveManaged;
use super::write_cache::FlushRun;
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::medium::Buf;
use crate::units::{Lba, Nanos};

/// The longest run that goes to the log at once: 8 MiB (assumption).
const LOGGED_SECTORS_MAX: u64 = 16_384;

impl DriveManaged {
    /// Begins what the platters would have begun by now.
    #[inline]
    pub(super) fn catch_up(&mut self, disk: &mut Disk) -> DiskResult {
        while let Some(due) = self.write_cache.due().filter(|due| (*due).max(disk.free_at()) < disk.now()) {
            self.write_back(disk, due)?;
        }
        Ok(())
    }

    /// Begins to bring the next run to the platters at `due`, or once they are free, and before it cleans what is due.
    fn write_back(&mut self, disk: &mut Disk, due: Nanos) -> DiskResult {
        let Some(run) = self.write_cache.next_run().map(|run| self.cut(disk, run)) else { return Ok(()) };
        let data = self.write_cache.take(disk, &run)?;
        disk.in_background(due, |disk| {
            while self.clean_due(disk)? {}
            self.put_or_bypass(disk, run.lba, run.sectors, &data, run.direct)
        })
    }

    /// Empties it, while the host waits.
    pub(super) fn write_all_back(&mut self, disk: &mut Disk) -> DiskResult {
        self.catch_up(disk)?;
        while !self.write_cache.is_empty() {
            self.write_back(disk, disk.now())?;
        }
        disk.wait_until_free();
        Ok(())
    }

    /// The part of a run written at once: up to the band's end, so that a band costs one extra rotation.
    fn cut(&self, disk: &Disk, run: FlushRun) -> FlushRun {
        let cheap = |n: u64| !self.bypass.is_thrifty() || self.is_cheap(disk, run.lba, n);
        let direct = run.direct || self.bypass.takes_merged(run.sectors) && cheap(run.sectors);
        if !direct {
            return FlushRun { sectors: run.sectors.min(LOGGED_SECTORS_MAX), ..run };
        }
        let in_band = self.home_run(run.lba, run.sectors).1;
        // What is left must still be long enough by itself.
        let cut = run.direct || self.bypass.takes_merged(run.sectors - in_band);
        FlushRun { direct, sectors: if cut { in_band } else { run.sectors }, ..run }
    }

    pub(super) fn put_or_bypass(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf, direct: bool) -> DiskResult {
        if direct { self.put_direct(disk, lba, n, data) } else { self.put(disk, lba, n, data, 0) }
    }

    /// Takes a write into the write cache.
    pub(super) fn write_cached(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf, direct: bool) -> DiskResult {
        if !self.write_cache.takes(n) {
            self.catch_up(disk)?;
            self.write_cache.remove(disk, lba, n)?;
            return self.put_or_bypass(disk, lba, n, data, direct);
        }
        charge_overhead(disk);
        self.catch_up(disk)?;
        while !self.has_cache_room(disk, n) {
            if self.write_cache.is_under_way() {
                disk.wait_until_free();
            } else {
                self.write_back(disk, disk.now())?;
            }
        }
        self.write_cache.put(disk, lba, n, data, direct)
    }

    fn has_cache_room(&mut self, disk: &Disk, n: u64) -> bool {
        if disk.free_at() <= disk.now() {
            self.write_cache.arrived();
        }
        self.write_cache.has_room(n)
    }
}

/// Charges a command that touches no platter.
pub(super) fn charge_overhead(disk: &mut Disk) {
    let overhead = disk.clock().mechanical().map_or(Nanos::ZERO, |clock| clock.overhead());
    disk.wait_until(disk.now() + overhead);
}
