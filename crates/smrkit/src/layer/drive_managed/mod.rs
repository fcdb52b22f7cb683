//! A shipped drive-managed disk: the baseline of Shafaei & Desnoyers, "Virtual Guard", HotStorage 2017, and what such disks
//! are reported to do beyond it.
//!
//! Every write is appended to a log in the persistent cache; a map of exceptions says where. When map or log pass their
//! thresholds, the bands of the log's oldest entries are cleaned, two an episode; and in idle time.

mod bypass;
mod cleaning;
mod direct;
mod log;
mod parameters;
mod persistent;
mod reading;
#[cfg(test)]
mod tests;
mod together;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::bypass::Bypass;
use self::cleaning::{BandCleaning, HomeBands};
use self::persistent::PersistentCache;
use super::{Capacity, Gauge, Gauges, Layer, LayerStats, Need, QueuedWrite, Scalar};
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::medium::{Buf, Placement};
use crate::state::{self, state};
use crate::tally::Cause;
use crate::units::{Lba, Nanos, Pba};

pub(super) use self::parameters::SPEC;

struct DriveManaged {
    bands: HomeBands,
    cache: PersistentCache,
    cleaning: BandCleaning,
    bypass: Bypass,
    /// True if a torn write must leave what it was to replace: what comes from a write cache was not flushed.
    is_careful: bool,
    /// Writes that may share a log entry.
    shared_writes: usize,
    idle_delay: Option<Nanos>,
    counts: DriveManagedCounts,
}

#[derive(Default, Serialize, Deserialize)]
struct DriveManagedCounts {
    first_cleaning_request: Option<u64>,
    bypassed_sectors: u64,
}

state! {
    DriveManaged {
        parts: bands, cache, cleaning, bypass;
        values: counts;
        built: is_careful, shared_writes, idle_delay;
    }
}

impl DriveManaged {
    /// True if a restored state names bands, tracks and LBAs that there are.
    fn is_possible(&self) -> bool {
        let (home, host) = (&self.bands.home, self.bands.home.capacity().host_sectors);
        self.bands.written.is_possible(home)
            && self.cache.is_possible(host)
            && self.cleaning.is_possible(home)
            && self.bypass.is_possible()
    }

    /// Brings `n` sectors of `data` into the log, as many requests as it takes.
    #[inline]
    fn put(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf, at: u64) -> DiskResult {
        let mut done = 0;
        while done < n {
            let count = (n - done).min(self.cache.log.request_max());
            self.make_room(disk, count)?;
            self.cache.append(disk, Cause::Host, lba + done, count, data, at + done)?;
            self.follow_up(disk)?;
            done += count;
        }
        Ok(())
    }

    /// Steps that follow an append: cleaning where little of the log is free, and every so often a copy of the map.
    #[inline]
    fn follow_up(&mut self, disk: &mut Disk) -> DiskResult {
        if self.cache.log.is_nearly_full() {
            self.clean_ahead(disk)?;
        }
        if self.cache.is_copy_due() { self.persist(disk) } else { Ok(()) }
    }

    /// Writes a copy of the map.
    fn persist(&mut self, disk: &mut Disk) -> DiskResult {
        self.cache.persist(disk)?;
        self.cleaning.persisted();
        Ok(())
    }

    /// Sees that log and map have room for a request of `n` sectors, while the host waits.
    #[inline]
    fn make_room(&mut self, disk: &mut Disk, n: u64) -> DiskResult {
        if self.cache.has_room(n) { Ok(()) } else { self.clear_room(disk, n) }
    }

    #[cold]
    fn clear_room(&mut self, disk: &mut Disk, n: u64) -> DiskResult {
        while !self.cache.has_room(n) {
            self.cache.trim();
            if self.cache.is_held_by_copy() {
                self.persist(disk)?;
                continue;
            }
            if self.cache.log.entries.is_empty() && !self.cleaning.is_running() {
                self.cache.log.head = self.cache.log.next_lap();
                return self.persist(disk);
            }
            self.clean_episode(disk)?;
        }
        Ok(())
    }

    fn map_memory_bytes(&self) -> u64 {
        self.cache.memory_bytes() + self.bands.written.bytes()
    }
}

impl Layer for DriveManaged {
    fn capacity(&self) -> Capacity {
        self.bands.home.capacity()
    }

    #[inline]
    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        self.read_platters(disk, Cause::Host, lba, n, out, 0)
    }

    #[inline]
    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let direct = self.takes_direct(disk, lba, n);
        self.put_or_bypass(disk, lba, n, data, direct)
    }

    fn takes_together(&self) -> usize {
        self.shared_writes
    }

    fn write_together(&mut self, disk: &mut Disk, writes: &[QueuedWrite]) -> DiskResult {
        self.put_together(disk, writes)
    }

    fn band_end(&self, lba: Lba) -> Option<Lba> {
        Some(lba + self.home_run(lba, u64::MAX).1)
    }

    /// Cached copies are dropped.
    fn discard(&mut self, disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        self.make_room(disk, 0)?;
        self.cache.forget(lba, n);
        Ok(())
    }

    #[inline]
    fn step(&mut self, disk: &mut Disk, need: Need) -> DiskResult<bool> {
        match need {
            Need::Must => self.clean_due(disk),
            Need::Spare => self.clean_idly(disk),
        }
    }

    fn idle_delay(&self) -> Option<Nanos> {
        self.idle_delay
    }

    fn keeps_acknowledged(&self) -> bool {
        true
    }

    /// All data is at home: no track of a band is blank.
    fn fill(&mut self) -> Arc<dyn Placement> {
        self.bands.written.forget();
        self.bands.home.placement()
    }

    /// Map and log survive (assumption: map copies and headers tell of everything), and what cleaning saved in the scratch pad.
    fn power_cut(&mut self) {
        self.cleaning.power_cut(&self.bands.home);
        self.cache.log.power_cut();
        self.bands.written.forget();
    }

    fn state(&self) -> Vec<u8> {
        state::saved(self)
    }

    fn restore(&mut self, saved: &[u8]) -> DiskResult {
        state::load(self, saved)?;
        state::possible(self.is_possible())
    }

    fn locate(&self, lba: Lba) -> Pba {
        self.place(lba)
    }

    fn check(&self, _disk: &Disk) -> DiskResult {
        self.cache.check()
    }

    fn map_bytes(&self) -> u64 {
        self.map_memory_bytes()
    }

    fn gauges(&self) -> Gauges {
        let others = vec![
            Gauge::count("log_length", self.cache.log.length() as f64),
            Gauge::count("map_entries", self.cache.map.len() as f64),
            Gauge::share("invalid_share", self.cache.invalid_share()),
            Gauge::bytes("map_bytes", self.map_memory_bytes()),
        ];
        Gauges { cache_fill: Some(self.cache.fill(self.bands.home.capacity().cache_sectors)), others }
    }

    fn stats(&self) -> LayerStats {
        let cleaned = &self.cleaning.counts;
        let counts = [
            ("bands_cleaned", cleaned.bands_cleaned),
            ("episodes", cleaned.episodes),
            ("map_writes", self.cache.map_writes),
            ("map_entries", self.cache.map.len() as u64),
            ("log_length", self.cache.log.length()),
        ];
        let stats = LayerStats::new(counts, self.counts.first_cleaning_request);
        match self.bypass.is_on() {
            true => stats.with("bypassed_sectors", Scalar::Int(self.counts.bypassed_sectors)),
            false => stats,
        }
    }

    fn bands_moved(&self) -> u64 {
        self.cleaning.counts.bands_cleaned
    }

    fn reset_stats(&mut self) {
        self.counts = DriveManagedCounts::default();
        self.cleaning.counts = Default::default();
        self.cache.map_writes = 0;
    }
}
