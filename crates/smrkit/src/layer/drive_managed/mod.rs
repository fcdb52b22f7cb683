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
mod cache;
mod cleaning;
pub(super) mod host_aware;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use smallvec::SmallVec;

use super::bands::{BandKeys, BufferKeys, CACHE_TRACKS_MIN, Cleaner, Home};
use super::interface::DelayKeys;
use super::runs::Gather;
use crate::extent_map::joined;
use crate::layer::prelude::*;
use crate::schema::Size;
use crate::units::SECTOR_BYTES;
use bypass::{Bypass, BypassMode};
use cache::{CacheLog, CachedDisk, CostKeys, Costs, Extent, HEADER, Limits, PersistentCache};
use cleaning::MergedPiece;

pub(super) const SPEC: LayerSpec = LayerSpec::new::<DriveManagedKeys>(
    "drive-managed",
    "A disk as sold: all writes go to a log in a persistent cache; bands are cleaned when the log or its map fills.",
    "Shafaei & Desnoyers 2017 (Vguard), the baseline of section 3",
    &Form::ALL,
);

keys! {
    struct DriveManagedKeys {
        /// Variant of the disk: as sold, or as in the Vguard paper. It also decides what auto means in the parameters
        /// below.
        variant: Variant = Variant::WORDS, "sold";
        /// Bands and the persistent cache.
        bands: BandKeys;
        /// Number of map entries above which bands are cleaned; auto is (5/3 · `cache_tracks` + 1) · `shared_writes`.
        alpha: Option<u64> = THRESHOLD, "auto";
        /// Number of log entries above which bands are cleaned; auto is `alpha` if that is set, otherwise 5/3 ·
        /// `cache_tracks` + 1.
        beta: Option<u64> = THRESHOLD, "auto";
        /// Share of the drive's tracks that form the persistent cache if `cache_tracks` is auto; paper is the share in
        /// the Vguard paper.
        cache_percent: Option<f64> = Or("paper", percent(0.0, 50.0)), "paper";
        /// Costs.
        costs: CostKeys;
        /// Most waiting writes that share a log entry; auto is 8 as sold, and 1 with `variant=vguard-2017`.
        shared_writes: Option<u64> = Or("auto", Count(1, SHARED_MAX)), "auto";
        /// Memory.
        buffer: BufferKeys;
        /// Whether rewriting a band ends early, before tracks that are completely in the cache.
        partial: bool = Switch, "off";
        /// Whether bands are cleaned in idle time; auto is on as sold, and off with `variant=vguard-2017`.
        idle_clean: Option<bool> = Or("auto", Switch), "auto";
        /// When.
        delay: DelayKeys;
        /// Which writes bypass the cache and go straight to their bands: none (off); long sequential runs (run); long
        /// commands (command); or long runs for which at most half as much other data must be copied (stream). auto is
        /// stream as sold, and off with `variant=vguard-2017` (assumption).
        bypass: Option<BypassMode> = Or("auto", BypassMode::WORDS), "auto";
        /// Length from which a run or a command counts as long for bypass.
        bypass_bytes: u64 = Size(512, 1 << 40), "512Ki";
        /// Whether cleaning skips the tracks after the last written track of a band: it neither reads nor saves them
        /// (assumption).
        skip_unwritten: bool = Switch, "off";
        /// Whether cleaning skips reading and saving tracks that are completely in the cache; auto is on as sold, and
        /// off with `variant=vguard-2017`.
        skip_cached: Option<bool> = Or("auto", Switch), "auto";
    }
}

const THRESHOLD: Or<Count> = Or("auto", Count(1, 1 << 24));
/// The most writes that share an entry. The map keeps room for what they split.
const SHARED_MAX: u64 = 64;

words! {
    /// Variant of the disk.
    enum Variant {
        Sold = "sold",
        Vguard2017 = "vguard-2017",
    }
}

impl LayerKeys for DriveManagedKeys {
    fn settled(self, drive: &Drive) -> DriveManagedKeys {
        let (alpha, beta) = self.thresholds(drive);
        let bands = BandKeys { cache_tracks: Some(self.bands(drive).cache_tracks(drive)), ..self.bands.clone() };
        DriveManagedKeys {
            bands,
            alpha: Some(alpha),
            beta: Some(beta),
            shared_writes: Some(self.shared_writes()),
            idle_clean: Some(self.idle_clean()),
            bypass: Some(self.bypass()),
            skip_cached: Some(self.skip_cached()),
            ..self
        }
    }

    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error> {
        Ok(Box::new(DriveManaged::new(drive, self)?))
    }
}

impl DriveManagedKeys {
    /// The thresholds on map and log entries.
    fn thresholds(&self, drive: &Drive) -> (u64, u64) {
        let auto = self.bands(drive).cache_tracks(drive) * 5 / 3 + 1;
        let alpha = self.alpha.unwrap_or(auto * self.shared_writes());
        (alpha, self.beta.unwrap_or(self.alpha.unwrap_or(auto)))
    }

    /// The bands, with the cache that cache_percent gives.
    fn bands(&self, drive: &Drive) -> BandKeys {
        let share = |percent: f64| ((drive.geometry.tracks as f64 * percent / 100.0) as u64).max(CACHE_TRACKS_MIN);
        BandKeys { cache_tracks: self.bands.cache_tracks.or(self.cache_percent.map(share)), ..self.bands.clone() }
    }

    fn is_sold(&self) -> bool {
        self.variant == Variant::Sold
    }

    fn shared_writes(&self) -> u64 {
        self.shared_writes.unwrap_or(if self.is_sold() { 8 } else { 1 })
    }

    fn idle_clean(&self) -> bool {
        self.idle_clean.unwrap_or(self.is_sold())
    }

    fn skip_cached(&self) -> bool {
        self.skip_cached.unwrap_or(self.is_sold())
    }

    fn bypass(&self) -> BypassMode {
        self.bypass.unwrap_or(if self.is_sold() { BypassMode::Stream } else { BypassMode::Off })
    }
}

struct DriveManaged {
    home: Home,
    /// How many tracks of each band, from its first, may hold data. Empty if every track counts as written.
    written_tracks: Vec<u32>,
    cache: PersistentCache,
    cleaner: Cleaner,
    /// Rewriting stops before tracks that are wholly cached.
    partial: bool,
    /// Tracks that are wholly cached are neither read nor saved.
    skip_cached: bool,
    /// A command that finds no room waits until there is some, and an episode is one band.
    at_once: bool,
    /// Band whose tracks a drive would restore from the scratch pad after a power cut, unless a map copy says that they are outdated.
    noted_band: Option<u32>,
    /// Cached pieces that were merged into the current band and are not yet written home, by LBA.
    merged: Vec<MergedPiece>,
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

counts! { DriveManagedCounts { bands_cleaned, episodes } }

state! {
    DriveManaged {
        parts: cache, bypass;
        values: written_tracks, cleaner, noted_band, merged, counts;
        built: home, partial, skip_cached, at_once, is_careful, is_flushing, shared_writes, idle_delay;
    }
}

impl DriveManaged {
    fn new(drive: &Drive, keys: &DriveManagedKeys) -> Result<DriveManaged, Error> {
        let bands = keys.bands(drive);
        let costs = Costs::new(drive, &keys.costs);
        let log_sectors = bands.cache_tracks(drive).saturating_mul(drive.geometry.longest_track());
        let limits = Limits::new(keys.thresholds(drive), keys.shared_writes(), &costs, log_sectors);
        let home = Home::new("drive-managed", drive, &bands, &keys.buffer, limits.copy_sectors())?;
        let (start, end) = home.cache;
        let log = CacheLog::new(drive, costs, start, end);
        let bypass = Bypass::new(keys.bypass(), keys.bypass_bytes.div_ceil(SECTOR_BYTES));
        Ok(DriveManaged {
            cache: PersistentCache::new(limits, log, home.maps, bypass.is_on()),
            written_tracks: if keys.skip_unwritten { vec![0; home.bands as usize] } else { Vec::new() },
            home,
            cleaner: Cleaner::default(),
            partial: keys.partial,
            skip_cached: keys.skip_cached(),
            at_once: keys.is_sold(),
            noted_band: None,
            merged: Vec::new(),
            bypass,
            is_careful: drive.clock.write_cache_sectors() == 0,
            is_flushing: false,
            shared_writes: keys.shared_writes() as usize,
            idle_delay: keys.delay.when(keys.idle_clean()),
            counts: DriveManagedCounts::default(),
        })
    }

    /// True if a write is to go straight to its band. To be called once for each write.
    fn goes_direct(&mut self, disk: &Disk, lba: Lba, n: u64) -> bool {
        if !self.bypass.takes(lba, n) {
            return false;
        }
        // Even long runs go to the log while the host waits for each write to be durable.
        let is_durable = self.is_careful || self.is_flushing;
        self.bypass.mode != BypassMode::Stream || (!is_durable && self.is_cheap(disk, lba, n))
    }

    /// Reads sectors from the log and from their bands. Entries that follow each other in the log are read in one access, with the headers
    /// between them.
    fn read_platters(&self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        let mut gather = Gather::new(Cause::Host, HEADER);
        joined(self.cache.map.pieces(lba, n), |piece| {
            let at = piece.lba - lba;
            if let Some(pba) = piece.pba {
                return gather.read(disk, pba, piece.sectors, out, at);
            }
            gather.finish(disk, out)?;
            self.read_home(disk, piece.lba, piece.sectors, out, at)
        })?;
        gather.finish(disk, out)
    }

    /// Reads `n` sectors from their bands, contiguous ones in one access.
    fn read_home(&self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf, at: u64) -> DiskResult {
        let mut done = 0;
        while done < n {
            let (pba, count) = self.home_run(lba + done, n - done);
            disk.read(pba, count, Cause::Host, out, at + done)?;
            done += count;
        }
        Ok(())
    }

    /// Place of `lba` in its band, and how many of `n` sectors are contiguous there. Tracks that have to be read from the scratch pad end a run.
    fn home_run(&self, lba: Lba, n: u64) -> (Pba, u64) {
        let spot = self.home.locate(lba);
        if !self.cleaner.is_working() {
            return (spot.pba, self.home.run_from(&spot, n));
        }
        if let Some(pba) = self.cleaner.scratch_copy(&self.home, spot.track) {
            return (pba + spot.offset, n.min(spot.left));
        }
        let held = self.cleaner.tracks_in_memory();
        let band_end = spot.track + spot.following + 1;
        let end = if spot.track < held.start { band_end.min(held.start) } else { band_end };
        (spot.pba, n.min(self.home.sectors_of(spot.track..end) - spot.offset))
    }
}

impl CachedDisk for DriveManaged {
    fn cache(&mut self) -> &mut PersistentCache {
        &mut self.cache
    }

    /// Completes an episode, or begins and completes one.
    fn clean(&mut self, disk: &mut Disk) -> DiskResult {
        if !self.cleaner.is_cleaning() {
            self.begin_episode(disk, Need::Must);
        }
        while self.clean_phase(disk)? {}
        Ok(())
    }

    fn is_cleaning(&self) -> bool {
        self.cleaner.is_cleaning()
    }

    /// After a power cut, the drive ignores the scratch pad, unless a stage in progress needs it.
    fn note_copied(&mut self) {
        if !self.cleaner.is_saved() {
            self.noted_band = None;
        }
    }
}

impl Layer for DriveManaged {
    fn capacity(&self) -> Capacity {
        self.home.capacity
    }

    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        self.read_platters(disk, lba, n, out)
    }

    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let direct = self.goes_direct(disk, lba, n);
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
            let direct = self.goes_direct(disk, first, n);
            return self.put_or_bypass(disk, first, n, &data, direct);
        }
        // Asked once for each, also if all go to the log together, because each answer notes the write as part of a run.
        let direct: SmallVec<[bool; 8]> =
            writes.iter().map(|write| self.goes_direct(disk, write.lba, write.sectors)).collect();
        let extents: SmallVec<[Extent; 8]> = writes.iter().map(|write| (write.lba, write.sectors)).collect();
        if !direct.contains(&true) && self.put_together(disk, &extents, n, &data)? {
            return Ok(());
        }
        for (write, direct) in writes.iter().zip(direct) {
            self.put_or_bypass(disk, write.lba, write.sectors, write.data, direct)?;
        }
        Ok(())
    }

    fn set_flushing(&mut self, is_flushing: bool) {
        self.is_flushing = is_flushing;
    }

    fn band_end(&self, lba: Lba) -> Option<Lba> {
        Some(lba + self.home.run_from(&self.home.locate(lba), u64::MAX))
    }

    /// Drops cached copies.
    fn discard(&mut self, disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        // A discard may split an extent in two, which needs room in the map.
        self.make_room(disk, 0)?;
        self.cache.forget(lba, n);
        Ok(())
    }

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
        self.written_tracks = Vec::new();
        self.home.placement()
    }

    /// Map and log survive (assumption: map copies and headers record them completely), and so do the tracks that cleaning saved in the
    /// scratch pad.
    fn power_cut(&mut self) {
        if let Some(end) = self.cleaner.power_cut() {
            let end = self.home.lba(end);
            self.merged.retain(|&(lba, ..)| lba < end);
        }
        self.cache.log.power_cut();
        self.written_tracks = Vec::new();
    }

    layer_state!();

    fn locate(&self, lba: Lba) -> Pba {
        self.cache.map.get(lba).unwrap_or_else(|| self.home_run(lba, 1).0)
    }

    fn check(&self) -> DiskResult {
        self.cache.check()
    }

    fn map_bytes(&self) -> u64 {
        // A byte for each band tells how many of its tracks are written.
        self.cache.memory_bytes() + self.written_tracks.len() as u64
    }

    fn gauges(&self) -> Gauges {
        let others = vec![
            Gauge::count("log_length", self.cache.log.length() as f64),
            Gauge::count("map_entries", self.cache.map.len() as f64),
            Gauge::share("invalid_share", self.cache.invalid_share()),
            Gauge::bytes("map_bytes", self.map_bytes()),
        ];
        Gauges { cache_fill: Some(self.cache.fill(self.home.capacity.cache_sectors)), others }
    }

    fn stats(&self) -> LayerStats {
        let count = |count: u64| Scalar::Int(count);
        let stats = self
            .counts
            .stats()
            .with("map_writes", count(self.cache.map_writes))
            .with("map_entries", count(self.cache.map.len() as u64))
            .with("log_length", count(self.cache.log.length()));
        match self.bypass.is_on() {
            true => stats.with("bypassed_sectors", count(self.bypass.bypassed_sectors)),
            false => stats,
        }
    }

    fn bands_moved(&self) -> u64 {
        self.counts.bands_cleaned
    }

    fn reset_stats(&mut self) {
        self.counts = DriveManagedCounts::default();
        (self.cache.map_writes, self.bypass.bypassed_sectors) = (0, 0);
    }
}
