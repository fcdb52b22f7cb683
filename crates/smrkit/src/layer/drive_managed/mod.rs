//! A shipped drive-managed disk: the baseline of Shafaei & Desnoyers, "Virtual Guard", HotStorage 2017.
//!
//! Every write is appended to a log in the persistent cache; a map of exceptions says where. When map or log pass their
//! thresholds, the bands of the log's oldest entries are cleaned, two an episode. Left out: what the drive does by itself
//! when idle, unless `idle_clean` is on.

mod behind;
mod bypass;
mod cleaning;
mod costs;
mod direct;
mod log;
mod map_copy;
mod parameters;
mod reading;
mod recovery;
mod write_cache;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::behind::take_overhead;
use self::bypass::{Bypass, Written};
use self::cleaning::Merged;
use self::costs::Costs;
use self::log::{HostData, Log};
use self::map_copy::MapCopies;
use self::write_cache::WriteCache;
use super::bands::{Cleaner, Episode, Home};
use super::{Capacity, Gauge, Gauges, Layer, Need, Scalar, inconsistent};
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::extent_map::ExtentMap;
use crate::medium::{Buf, Placement};
use crate::tally::Cause;
use crate::units::{Lba, Pba};

pub(super) use self::parameters::SPEC;

/// Memory of a map entry and of a log entry: together 56 bytes, so that 22,986 of each take the 1.3 MB of Vguard 2017,
/// table 1; how they share it is an assumption.
const MAP_ENTRY_BYTES: u64 = 40;
const LOG_ENTRY_BYTES: u64 = 16;

/// Sectors that one entry of the map spans at most.
const MAP_ENTRY_SECTORS: u64 = 4096;

struct DriveManaged {
    home: Home,
    capacity: Capacity,
    /// Map entries and log entries beyond which cleaning is due.
    alpha: u64,
    beta: u64,
    /// Map entries beyond which writes wait.
    map_entries_max: u64,
    partial: bool,
    idle_clean: bool,
    costs: Costs,
    log: Log,
    map: ExtentMap,
    copies: MapCopies,
    /// Appends since the last map copy.
    appends: u64,
    /// Where writes may bypass the log: LBAs that the last map copy may still find in the log, and the map no longer.
    stale: ExtentMap,
    episode: Episode,
    cleaner: Cleaner,
    /// Of the newest note in the scratch pad.
    sequence: u64,
    /// The band of that note, unless the map copy says that it is out of date.
    noted_band: Option<u32>,
    /// What cleaning has laid over the band at work, as far as it is not home yet, by LBA; and room to read it
    /// in the order of the log.
    merged: Vec<Merged>,
    ordered: Vec<Merged>,
    cache: WriteCache,
    bypass: Bypass,
    written: Written,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    requests: u64,
    first_cleaning_request: Option<u64>,
    bands_cleaned: u64,
    episodes: u64,
    map_writes: u64,
    bypassed_sectors: u64,
}

impl DriveManaged {
    /// Appends `n` sectors of `data` to the log, as one request that is there whole or not at all.
    #[inline]
    fn append(&mut self, disk: &mut Disk, cause: Cause, lba: Lba, n: u64, data: &Buf, at: u64) -> DiskResult {
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

    /// Brings `n` sectors of `data` into the log, as many requests as it takes.
    #[inline]
    fn put(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf, at: u64) -> DiskResult {
        let mut done = 0;
        while done < n {
            let count = (n - done).min(self.log.request_max());
            self.make_room(disk, count)?;
            self.append(disk, Cause::Host, lba + done, count, data, at + done)?;
            self.follow_up(disk)?;
            done += count;
        }
        Ok(())
    }

    /// What follows an append: cleaning where little of the log is free, and every so often a copy of the map.
    #[inline]
    fn follow_up(&mut self, disk: &mut Disk) -> DiskResult {
        if self.log.is_nearly_full() {
            self.clean_ahead(disk)?;
        }
        if self.appends >= self.costs.map_every_writes { self.persist(disk) } else { Ok(()) }
    }

    /// Writes a copy of the map.
    fn persist(&mut self, disk: &mut Disk) -> DiskResult {
        self.log.trim(&self.map);
        let settled = self.settled();
        self.copies.write(disk, &self.costs, &mut self.log, &self.map, settled)?;
        if settled == self.sequence {
            self.noted_band = None;
        }
        self.counts.map_writes += 1;
        self.appends = 0;
        if !self.stale.is_empty() {
            self.stale = ExtentMap::new();
        }
        Ok(())
    }

    /// Takes `n` sectors out of the map.
    fn forget(&mut self, lba: Lba, n: u64) {
        if self.bypass.is_on() {
            self.stale.insert(lba, n, Pba(lba.0));
        }
        self.map.remove(lba, n);
    }

    /// Notes up to this one need not be replayed any more.
    fn settled(&self) -> u64 {
        self.cleaner.noted().map_or(self.sequence, |(sequence, _)| sequence - 1)
    }

    /// Whether log and map have room for a request of `n` sectors.
    #[inline]
    fn has_room(&self, n: u64) -> bool {
        // A write into the middle of an extent makes three of it; longer ones take an entry for each chunk.
        let entries = self.map.len() as u64 + n / MAP_ENTRY_SECTORS + 16;
        entries <= self.map_entries_max && self.log.has_room(n)
    }

    /// Sees that log and map have room for a request of `n` sectors, while the host waits.
    #[inline]
    fn make_room(&mut self, disk: &mut Disk, n: u64) -> DiskResult {
        if self.has_room(n) { Ok(()) } else { self.clear_room(disk, n) }
    }

    #[cold]
    fn clear_room(&mut self, disk: &mut Disk, n: u64) -> DiskResult {
        while !self.has_room(n) {
            self.log.trim(&self.map);
            if self.log.tail() > self.log.kept() {
                self.persist(disk)?;
                continue;
            }
            if self.log.entries.is_empty() && !self.is_cleaning() {
                self.log.go_on_at(self.log.next_lap(), self.copies.number());
                return self.persist(disk);
            }
            self.clean_episode(disk)?;
        }
        Ok(())
    }

    fn map_memory_bytes(&self) -> u64 {
        self.map.len() as u64 * MAP_ENTRY_BYTES + self.log.entries.len() as u64 * LOG_ENTRY_BYTES + self.written.bytes()
    }
}

impl Layer for DriveManaged {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    #[inline]
    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        self.counts.requests += 1;
        if self.cache.is_empty() {
            return self.read_platters(disk, Cause::Host, lba, n, out, 0);
        }
        self.catch_up(disk)?;
        let mut from_memory = 0;
        self.cache.parts(lba, n, |first, sectors, held| match held {
            None => self.read_platters(disk, Cause::Host, first, sectors, out, first - lba),
            Some((data, at)) => {
                out.put(first - lba, data, at, sectors);
                from_memory += sectors;
                Ok(())
            }
        })?;
        if from_memory == n {
            take_overhead(disk);
        }
        Ok(())
    }

    #[inline]
    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let direct = self.bypass.takes(lba, n);
        match self.cache.takes(1) {
            false if !direct => self.put(disk, lba, n, data, 0)?,
            false => self.put_direct(disk, lba, n, data)?,
            true => self.write_cached(disk, lba, n, data, direct)?,
        }
        self.counts.requests += 1;
        Ok(())
    }

    /// Cached copies are dropped; after a power cut they may be there again.
    fn discard(&mut self, disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        self.catch_up(disk)?;
        self.cache.remove(disk, lba, n);
        self.make_room(disk, 0)?;
        self.forget(lba, n);
        self.counts.requests += 1;
        Ok(())
    }

    fn flush(&mut self, disk: &mut Disk) -> DiskResult {
        self.write_all_back(disk)?;
        self.counts.requests += 1;
        disk.flush()
    }

    #[inline]
    fn step(&mut self, disk: &mut Disk, need: Need) -> DiskResult<bool> {
        self.catch_up(disk)?;
        match need {
            // Else it is done behind the host's back, before the next run of the write cache.
            Need::Must if self.cache.is_empty() => self.clean_due(disk),
            Need::Must => Ok(false),
            // What is under way has to end first.
            Need::Spare if self.idle_clean && disk.free_at() <= disk.now() => self.clean_idly(disk),
            Need::Spare => Ok(false),
        }
    }

    /// Only a write cache may lose what was answered.
    fn keeps_acknowledged(&self) -> bool {
        !self.cache.takes(1)
    }

    /// All data is at home: no track of a band is blank.
    fn fill(&mut self) -> Arc<dyn Placement> {
        self.written.forget();
        self.home.placement()
    }

    fn recover(&mut self, disk: &mut Disk) -> DiskResult {
        let settled = self.copies.restore(disk, &mut self.log, &mut self.map)?;
        recovery::follow(disk, &mut self.log, &mut self.map)?;
        self.sequence = settled;
        if let Some(note) = self.cleaner.newest_note(disk, &self.home)?.filter(|note| note.sequence > settled) {
            (self.sequence, self.noted_band) = (note.sequence, Some(self.home.band_of(note.first)));
            self.cleaner.take_up(disk, &self.home, note, false)?;
        }
        self.written.forget();
        self.log.go_on_at(self.log.next().head, self.copies.number());
        self.persist(disk)
    }

    fn locate(&self, lba: Lba) -> Pba {
        self.place(lba)
    }

    fn check(&self, _disk: &Disk) -> DiskResult {
        let (mut valid, mut extents) = (0, 0);
        let mut before = 0;
        for entry in &self.log.entries {
            if entry.data < before {
                return inconsistent(format!("the log's entries overlap at position {}", entry.data));
            }
            before = entry.data + entry.sectors;
            for (.., sectors, _) in self.log.valid(&self.map, entry) {
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
        match extents <= self.copies.extents_max() && self.cache.is_sound() {
            true => Ok(()),
            false => inconsistent(format!("{extents} map entries, or the write cache's books are wrong")),
        }
    }

    fn map_bytes(&self) -> u64 {
        self.map_memory_bytes()
    }

    fn gauges(&self) -> Gauges {
        let share = |part: u64, whole: u64| part as f64 / whole as f64;
        let (entries, length) = (self.map.len() as u64, self.log.entries.len() as u64);
        let fill = share(entries, self.alpha).max(share(length, self.beta));
        let fill = fill.max(share(self.log.used(), self.capacity.cache_sectors)).min(1.0);
        let used = self.log.used().max(1);
        let mut others = vec![
            Gauge::count("log_length", length as f64),
            Gauge::count("map_entries", entries as f64),
            Gauge::share("invalid_share", 1.0 - share(self.map.sectors() + length, used).min(1.0)),
            Gauge::count("map_bytes", self.map_memory_bytes() as f64),
        ];
        if self.cache.takes(1) {
            others.push(Gauge::count("write_cache_sectors", self.cache.sectors() as f64));
        }
        Gauges { cache_fill: Some(fill), others }
    }

    fn stats(&self) -> BTreeMap<String, Scalar> {
        let mut stats = BTreeMap::from(
            [
                ("bands_cleaned", self.counts.bands_cleaned),
                ("episodes", self.counts.episodes),
                ("map_writes", self.counts.map_writes),
                ("map_entries", self.map.len() as u64),
                ("log_length", self.log.entries.len() as u64),
            ]
            .map(|(key, value)| (key.to_string(), Scalar::Int(value))),
        );
        if self.bypass.is_on() {
            stats.insert("bypassed_sectors".into(), Scalar::Int(self.counts.bypassed_sectors));
        }
        if let Some(request) = self.counts.first_cleaning_request {
            stats.insert("first_cleaning_request".into(), Scalar::Int(request));
        }
        stats
    }

    fn bands_moved(&self) -> u64 {
        self.counts.bands_cleaned
    }

    fn reset_stats(&mut self) {
        self.counts = Counts::default();
    }
}
