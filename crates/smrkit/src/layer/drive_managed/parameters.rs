//! What the layer takes, and how it is laid out on a drive.

use super::bypass::{Bypass, BypassMode, Written};
use super::costs::Costs;
use super::log::Log;
use super::map_copy::{MapCopies, copy_sectors};
use super::write_cache::WriteCache;
use super::{Counts, DriveManaged, MAP_ENTRY_SECTORS};
use crate::drive::Drive;
use crate::error::Error;
use crate::extent_map::ExtentMap;
use crate::keys;
use crate::layer::bands::{BandKeys, BufferKeys, Cleaner, Episode, Home, Reserve};
use crate::layer::{Capacity, Layer, LayerKeys, LayerSpec};
use crate::medium::interference::Form;
use crate::schema::{Count, Or, Size, Switch, Word};
use crate::units::SECTOR_BYTES;

pub(in crate::layer) const SPEC: LayerSpec = LayerSpec::new::<DriveManagedKeys>(
    "drive-managed",
    "A shipped disk: all writes go to a log in a persistent cache; its oldest bands are cleaned when maps fill.",
    "Shafaei & Desnoyers 2017 (Vguard), the baseline of section 3",
    &Form::ALL,
);

keys! {
    /// The parameters.
    #[derive(Clone)]
    struct DriveManagedKeys {
        /// Bands and the persistent cache.
        bands: BandKeys;
        /// Map entries beyond which bands are cleaned; auto is 5/3 of cache_tracks and one.
        alpha: Option<u64> = THRESHOLD, "auto";
        /// Log entries beyond which bands are cleaned; auto is as many as alpha.
        beta: Option<u64> = THRESHOLD, "auto";
        /// Memory.
        buffer: BufferKeys;
        /// Rewriting a band stops before tracks that are wholly cached.
        partial: bool = Switch, "off";
        /// Cleans whenever nothing waits, until the cache is empty.
        idle_clean: bool = Switch, "off";
        /// Writes are answered from a buffer of this size, and lost with the power unless flushed (assumption).
        write_cache_bytes: u64 = Size(0, 1 << 34), "0";
        /// Which writes go straight to their bands: long runs, or long commands (assumption).
        bypass: BypassMode = BYPASS_MODE, "off";
        /// From which length on they do.
        bypass_bytes: u64 = Size(512, 1 << 40), "512Ki";
        /// Tracks never written are neither read nor kept from damage (assumption).
        skip_unwritten: bool = Switch, "off";
    }
}

const THRESHOLD: Or<Count> = Or("auto", Count(1, 1 << 24));
const BYPASS_MODE: Word<BypassMode> =
    Word(&[("off", BypassMode::Off), ("run", BypassMode::Run), ("command", BypassMode::Command)]);

impl LayerKeys for DriveManagedKeys {
    fn capacity(&self, drive: &Drive) -> Result<Capacity, Error> {
        Ok(Plan::new(drive, self)?.home.capacity())
    }

    fn settled(self, drive: &Drive) -> DriveManagedKeys {
        let (alpha, beta) = self.thresholds(drive);
        let bands = BandKeys { cache_tracks: Some(self.bands.cache_tracks(drive)), ..self.bands };
        DriveManagedKeys { bands, alpha: Some(alpha), beta: Some(beta), ..self }
    }

    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error> {
        Ok(Box::new(DriveManaged::new(drive, self)?))
    }
}

impl DriveManagedKeys {
    /// The thresholds on map and log entries.
    fn thresholds(&self, drive: &Drive) -> (u64, u64) {
        let alpha = self.alpha.unwrap_or(self.bands.cache_tracks(drive) * 5 / 3 + 1);
        (alpha, self.beta.unwrap_or(alpha))
    }
}

/// What the parameters make of a drive, before any state.
struct Plan {
    home: Home,
    costs: Costs,
    alpha: u64,
    beta: u64,
    map_entries_max: u64,
    copied_max: u64,
}

impl Plan {
    fn new(drive: &Drive, keys: &DriveManagedKeys) -> Result<Plan, Error> {
        let reserve = Reserve::new(drive, &keys.bands, &keys.buffer);
        let (alpha, beta) = keys.thresholds(drive);
        let map_entries_max = 2 * alpha + SPARE_ENTRIES;
        let costs = Costs::new(drive);
        // What a power cut brings back: an append leaves up to three entries more, and one for each chunk it spans.
        let log_sectors = reserve.cache_tracks.saturating_mul(drive.geometry.longest_track());
        let added = costs.map_every_writes.saturating_mul(3).saturating_add(log_sectors / MAP_ENTRY_SECTORS);
        // No log holds more extents than sectors.
        let copied_max = map_entries_max.saturating_add(added).min(log_sectors);
        let home = Home::new("drive-managed", drive, &Reserve { map_sectors: copy_sectors(copied_max), ..reserve })?;
        Ok(Plan { home, costs, alpha, beta, map_entries_max, copied_max })
    }
}

impl DriveManaged {
    fn new(drive: &Drive, keys: &DriveManagedKeys) -> Result<DriveManaged, Error> {
        let Plan { home, costs, alpha, beta, map_entries_max, copied_max } = Plan::new(drive, keys)?;
        let (start, end) = home.cache();
        let guard = drive.interference.guard(&drive.geometry);
        let log = Log::new(&drive.geometry, guard, start, end);
        let &[first, second] = home.maps() else { unreachable!("two places for map copies") };
        Ok(DriveManaged {
            capacity: home.capacity(),
            alpha,
            beta,
            map_entries_max,
            partial: keys.partial,
            idle_clean: keys.idle_clean,
            costs,
            log,
            map: ExtentMap::new(),
            copies: MapCopies::new([first, second], copied_max),
            appends: 0,
            stale: ExtentMap::new(),
            episode: Episode::default(),
            cleaner: Cleaner::default(),
            sequence: 0,
            noted_band: None,
            merged: Vec::new(),
            ordered: Vec::new(),
            cache: WriteCache::new(keys.write_cache_bytes.div_ceil(SECTOR_BYTES)),
            bypass: Bypass::new(keys.bypass, keys.bypass_bytes.div_ceil(SECTOR_BYTES)),
            written: Written::new(keys.skip_unwritten, home.bands()),
            home,
            counts: Counts::default(),
        })
    }
}

/// Entries of the map beyond twice α: what a single request may add on a small drive.
const SPARE_ENTRIES: u64 = 64;
