//! Parameters of the layer, and its layout on a drive.

use super::DriveManaged;
use super::bypass::{Bypass, BypassMode, WrittenTracks};
use super::cleaning::{BandCleaning, HomeBands};
use super::log::{CacheLog, CostKeys, Costs};
use super::persistent::{Limits, MAP_ENTRY_SECTORS, PersistentCache, copy_sectors};
use crate::layer::bands::{BandKeys, BufferKeys, CACHE_TRACKS_MIN, Home, Reserve};
use crate::layer::interface::DelayKeys;
use crate::layer::prelude::*;
use crate::schema::Size;
use crate::units::SECTOR_BYTES;

pub(in crate::layer) const SPEC: LayerSpec = LayerSpec::new::<DriveManagedKeys>(
    "drive-managed",
    "A disk as sold: all writes go to a log in a persistent cache; bands are cleaned when the log or its map fills.",
    "Shafaei & Desnoyers 2017 (Vguard), the baseline of section 3",
    &Form::ALL,
);

keys! {
    #[derive(Clone)]
    pub(super) struct DriveManagedKeys {
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
    fn capacity(&self, drive: &Drive) -> Result<Capacity, Error> {
        Ok(self.plan(drive)?.0.capacity)
    }

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

    /// Layout, costs and limits of the layer on a drive.
    fn plan(&self, drive: &Drive) -> Result<(Home, Costs, Limits), Error> {
        let reserve = Reserve::new(drive, &self.bands(drive), &self.buffer);
        let (alpha, beta) = self.thresholds(drive);
        let map_entries_max = 2 * alpha + SPARE_ENTRIES;
        let costs = Costs::new(drive, &self.costs);
        // Entries that a power cut may bring back: each append since the last map copy may add three, and one for each chunk that it spans.
        let log_sectors = reserve.cache_tracks.saturating_mul(drive.geometry.longest_track());
        let added = costs
            .map_every_writes
            .saturating_mul(3 * self.shared_writes())
            .saturating_add(log_sectors / MAP_ENTRY_SECTORS.min(costs.entry_sectors));
        // A log never holds more extents than sectors.
        let copied_max = map_entries_max.saturating_add(added).min(log_sectors);
        let home = Home::new("drive-managed", drive, &Reserve { map_sectors: copy_sectors(copied_max), ..reserve })?;
        Ok((home, costs, Limits { alpha, beta, map_entries_max, copied_max }))
    }
}

impl DriveManaged {
    pub(super) fn new(drive: &Drive, keys: &DriveManagedKeys) -> Result<DriveManaged, Error> {
        let (home, costs, limits) = keys.plan(drive)?;
        let (start, end) = home.cache;
        let log = CacheLog::new(drive, costs, start, end);
        let &[first, second] = home.maps.as_slice() else { unreachable!("two places for map copies") };
        let bypass = Bypass::new(keys.bypass(), keys.bypass_bytes.div_ceil(SECTOR_BYTES));
        Ok(DriveManaged {
            cache: PersistentCache::new(limits, log, [first, second], bypass.is_on()),
            cleaning: BandCleaning::new(keys.partial, keys.skip_cached(), keys.is_sold()),
            is_careful: drive.clock.write_cache_sectors() == 0,
            is_flushing: false,
            bypass,
            bands: HomeBands { written: WrittenTracks::new(keys.skip_unwritten, home.bands()), home },
            shared_writes: keys.shared_writes() as usize,
            idle_delay: keys.delay.when(keys.idle_clean()),
            counts: Default::default(),
        })
    }
}

/// Entries of the map beyond twice α: what a single request may add on a small drive.
const SPARE_ENTRIES: u64 = 64;
