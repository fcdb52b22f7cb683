//! A shipped drive-managed disk: the baseline of Shafaei & Desnoyers, "Virtual Guard", HotStorage 2017, and what such disks
//! are reported to do beyond it.
//!
//! Every write is appended to a log in the persistent cache; a map says which LBAs are there. When map or log pass their thresholds, the
//! bands of the log's oldest entries are cleaned. Bands are also cleaned in idle time.
//!
//! Writes that are queued together share an entry of the log, up to eight as sold: disks are reported to take some 182,000 random writes
//! before cleaning begins at queue depth 31, and 22,900 at depth 1.
//!
//! The sectors of a read may be partly in the log and partly in their band, a seek apart. Contiguous pieces are read in one access; in the
//! log it includes the headers between them. A band that is being cleaned may have damaged tracks, which are read from the scratch pad.

mod bypass;
mod cleaning;
pub(super) mod host_aware;
mod log;
mod parameters;
mod persistent;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use self::bypass::Bypass;
use self::cleaning::{BandCleaning, HomeBands};
use self::log::{Extent, HEADER};
use self::persistent::PersistentCache;
use crate::extent_map::MappedPiece;
use crate::layer::prelude::*;

pub(super) use self::parameters::SPEC;

struct DriveManaged {
    bands: HomeBands,
    cache: PersistentCache,
    cleaning: BandCleaning,
    bypass: Bypass,
    /// True if a torn write must not lose the data that it was to replace. With a write cache it may, because the new data was not flushed.
    is_careful: bool,
    /// True while a flush waits for the writes.
    is_flushing: bool,
    /// The most writes that share a log entry.
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
        built: is_careful, is_flushing, shared_writes, idle_delay;
    }
}

impl DriveManaged {
    /// Writes `n` sectors of `data` to the log, in several requests if one is too long.
    #[inline]
    fn put(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf, at: u64) -> DiskResult {
        let mut done = 0;
        while done < n {
            let count = (n - done).min(self.cache.log.request_max());
            self.make_room(disk, count)?;
            self.cache.append(disk, Cause::Host, lba + done, count, data, at + done)?;
            self.cache.log.skip_gap();
            self.follow_up(disk)?;
            done += count;
        }
        Ok(())
    }

    /// Copies the map after an append, if that is due.
    #[inline]
    fn follow_up(&mut self, disk: &mut Disk) -> DiskResult {
        if self.cache.is_copy_due() { self.persist(disk) } else { Ok(()) }
    }

    fn persist(&mut self, disk: &mut Disk) -> DiskResult {
        self.cache.persist(disk)?;
        self.cleaning.persisted();
        Ok(())
    }

    /// Makes room in log and map for a request of `n` sectors, while the host waits.
    #[inline]
    fn make_room(&mut self, disk: &mut Disk, n: u64) -> DiskResult {
        if self.cache.has_room(n) { Ok(()) } else { self.clear_room(disk, n) }
    }

    /// Cleans until the cache has room for `n` sectors.
    #[cold]
    fn clear_room(&mut self, disk: &mut Disk, n: u64) -> DiskResult {
        while !self.cache.has_room(n) {
            self.cache.trim();
            if self.cache.is_held_by_copy() {
                self.persist(disk)?;
                continue;
            }
            if self.cache.log.entries.is_empty() && !self.cleaning.is_running() {
                // The log is empty, and the request still does not fit before `limit`. So it starts with the next lap, and saving the map
                // moves `limit` by a lap.
                self.cache.log.head = self.cache.log.next_lap();
                return self.persist(disk);
            }
            self.clean_episode(disk)?;
        }
        Ok(())
    }

    /// Makes room for one entry of `n` sectors; returns `false` if these can't be in one entry.
    fn has_room_together(&mut self, disk: &mut Disk, n: u64) -> DiskResult<bool> {
        if n > self.cache.log.request_max() {
            return Ok(false);
        }
        self.make_room(disk, n)?;
        Ok(self.cache.log.holds_undivided(n))
    }

    /// True if a write is to go straight to its band. To be called once for each write.
    #[inline]
    fn takes_direct(&mut self, disk: &Disk, lba: Lba, n: u64) -> bool {
        if !self.bypass.takes(lba, n) {
            return false;
        }
        // Even long runs go to the log while the host waits for each write to be durable.
        let is_durable = self.is_careful || self.is_flushing;
        !self.bypass.is_thrifty() || (!is_durable && self.is_cheap(disk, lba, n))
    }

    #[inline]
    fn read_platters(&self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        let mut pieces = self.cache.map.pieces(lba, n);
        let Some(first) = pieces.next() else { return Ok(()) };
        let mut run = ReadRun::from_piece(first);
        for piece in pieces {
            if !run.take(&piece) {
                self.read_run(disk, &run, out, run.lba - lba)?;
                run = ReadRun::from_piece(piece);
            }
        }
        self.read_run(disk, &run, out, run.lba - lba)
    }

    #[inline]
    fn read_run(&self, disk: &mut Disk, run: &ReadRun, out: &mut Buf, at: u64) -> DiskResult {
        let Some((pba, span)) = run.place else { return self.read_home(disk, run.lba, run.sectors, out, at) };
        if span == run.sectors {
            return disk.read(pba, span, Cause::Host, out, at);
        }
        // The span includes headers, which are left out here.
        let mut read = disk.buf(span);
        disk.read(pba, span, Cause::Host, &mut read, 0)?;
        for (lba, sectors, place) in self.cache.map.mapped(run.lba, run.sectors) {
            out.put(at + (lba - run.lba), &read, place - pba, sectors);
        }
        Ok(())
    }

    /// Reads `n` sectors from their bands, contiguous ones in one access.
    #[inline]
    fn read_home(&self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf, at: u64) -> DiskResult {
        let mut done = 0;
        while done < n {
            let (pba, count) = match self.cleaning.cleaner.is_working() {
                false => self.home_run(lba + done, n - done),
                true => self.home_run_amid_cleaning(lba + done, n - done),
            };
            disk.read(pba, count, Cause::Host, out, at + done)?;
            done += count;
        }
        Ok(())
    }

    /// Place of `lba` at home, and how many of `n` sectors are contiguous there.
    #[inline]
    fn home_run(&self, lba: Lba, n: u64) -> (Pba, u64) {
        let spot = self.bands.home.spot(lba);
        (spot.pba, self.bands.home.run_from(&spot, n))
    }

    /// Like `home_run`, while some tracks have to be read from the scratch pad: such a track ends a run.
    fn home_run_amid_cleaning(&self, lba: Lba, n: u64) -> (Pba, u64) {
        let spot = self.bands.home.spot(lba);
        if let Some(pba) = self.cleaning.cleaner.scratch_copy(&self.bands.home, spot.track) {
            return (pba + spot.offset, n.min(spot.left));
        }
        let held = self.cleaning.cleaner.held();
        let band_end = spot.track + spot.following + 1;
        let end = if spot.track < held.start { band_end.min(held.start) } else { band_end };
        (spot.pba, n.min(self.bands.home.sectors_of(spot.track..end) - spot.offset))
    }
}

/// Pieces that are read in one access.
struct ReadRun {
    lba: Lba,
    sectors: u64,
    /// First PBA in the log, and sectors from there to the run's end, headers included; `None` if the run is at home.
    place: Option<(Pba, u64)>,
}

impl ReadRun {
    fn from_piece(piece: MappedPiece) -> ReadRun {
        ReadRun { lba: piece.lba, sectors: piece.sectors, place: piece.pba.map(|pba| (pba, piece.sectors)) }
    }

    /// Adds the next piece, if it is contiguous with the run; returns `false` if not.
    #[inline]
    fn take(&mut self, piece: &MappedPiece) -> bool {
        match (&mut self.place, piece.pba) {
            (None, None) => {}
            (Some((pba, span)), Some(next)) if *pba + *span == next || *pba + *span + HEADER == next => {
                *span = next + piece.sectors - *pba;
            }
            _ => return false,
        }
        self.sectors += piece.sectors;
        true
    }
}

impl Layer for DriveManaged {
    fn capacity(&self) -> Capacity {
        self.bands.home.capacity
    }

    #[inline]
    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        self.read_platters(disk, lba, n, out)
    }

    #[inline]
    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let direct = self.takes_direct(disk, lba, n);
        self.put_or_bypass(disk, lba, n, data, direct)
    }

    fn takes_together(&self) -> usize {
        self.shared_writes
    }

    fn joint_sectors(&self) -> u64 {
        self.cache.log.costs.entry_sectors
    }

    fn write_together(&mut self, disk: &mut Disk, writes: &[QueuedWrite]) -> DiskResult {
        let (data, n) = QueuedWrite::joined(disk, writes);
        let first = writes[0].lba;
        let follows = |pair: &[QueuedWrite]| pair[0].lba + pair[0].sectors == pair[1].lba;
        if writes.windows(2).all(follows) {
            let direct = self.takes_direct(disk, first, n);
            return self.put_or_bypass(disk, first, n, &data, direct);
        }
        let direct: SmallVec<[bool; 8]> =
            writes.iter().map(|one| self.takes_direct(disk, one.lba, one.sectors)).collect();
        if direct.contains(&true) || !self.has_room_together(disk, n)? {
            let each = writes.iter().zip(direct);
            return each
                .into_iter()
                .try_for_each(|(one, direct)| self.put_or_bypass(disk, one.lba, one.sectors, one.data, direct));
        }
        let extents: SmallVec<[Extent; 8]> = writes.iter().map(|one| (one.lba, one.sectors)).collect();
        self.cache.append_together(disk, &extents, &data)?;
        self.cache.log.skip_gap();
        self.follow_up(disk)
    }

    fn set_flushing(&mut self, is_flushing: bool) {
        self.is_flushing = is_flushing;
    }

    fn band_end(&self, lba: Lba) -> Option<Lba> {
        Some(lba + self.home_run(lba, u64::MAX).1)
    }

    /// Drops cached copies.
    fn discard(&mut self, disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        // A discard may split an extent in two, which needs room in the map.
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

    /// All data is at home, and every track of a band counts as written.
    fn fill(&mut self) -> Arc<dyn Placement> {
        self.bands.written.forget();
        self.bands.home.placement()
    }

    /// Map and log survive (assumption: map copies and headers record them completely), and so do the tracks that cleaning saved in the
    /// scratch pad.
    fn power_cut(&mut self) {
        self.cleaning.power_cut(&self.bands.home);
        self.cache.log.power_cut();
        self.bands.written.forget();
    }

    layer_state!();

    fn locate(&self, lba: Lba) -> Pba {
        self.cache.map.get(lba).unwrap_or_else(|| self.home_run_amid_cleaning(lba, 1).0)
    }

    fn check(&self) -> DiskResult {
        self.cache.check()
    }

    fn map_bytes(&self) -> u64 {
        self.cache.memory_bytes() + self.bands.written.bytes()
    }

    fn gauges(&self) -> Gauges {
        let others = vec![
            Gauge::count("log_length", self.cache.log.length() as f64),
            Gauge::count("map_entries", self.cache.map.len() as f64),
            Gauge::share("invalid_share", self.cache.invalid_share()),
            Gauge::bytes("map_bytes", self.map_bytes()),
        ];
        Gauges { cache_fill: Some(self.cache.fill(self.bands.home.capacity.cache_sectors)), others }
    }

    fn stats(&self) -> LayerStats {
        let counts = [
            ("bands_cleaned", self.cleaning.bands_cleaned),
            ("episodes", self.cleaning.episodes),
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
        self.cleaning.bands_cleaned
    }

    fn reset_stats(&mut self) {
        self.counts = DriveManagedCounts::default();
        (self.cleaning.bands_cleaned, self.cleaning.episodes) = (0, 0);
        self.cache.map_writes = 0;
    }
}
