//! What the layer takes, and how it is laid out on a drive.

use super::bypass::{Bypass, Written};
use super::costs::Costs;
use super::log::Log;
use super::map_copy::{MapCopies, copy_sectors};
use super::write_cache::WriteCache;
use super::{Counts, DriveManaged, MAP_ENTRY_SECTORS};
use crate::drive::Drive;
use crate::error::Error;
use crate::extent_map::ExtentMap;
use crate::layer::bands::{BAND_TRACKS, BUFFER_BYTES, CACHE_TRACKS, Cleaner, Episode, Home, Reserve, cache_tracks};
use crate::layer::{Kind, LayerSpec, Parameter, Parameters};
use crate::medium::interference::Form;
use crate::units::SECTOR_BYTES;

pub(in crate::layer) const SPEC: LayerSpec = LayerSpec {
    name: "drive-managed",
    summary: "A shipped disk: all writes go to a log in a persistent cache; its oldest bands are cleaned when maps fill.",
    paper: "Shafaei & Desnoyers 2017 (Vguard), the baseline of section 3",
    parameters: &[
        BAND_TRACKS,
        CACHE_TRACKS,
        Parameter {
            key: "alpha",
            kind: Kind::CountOr("auto", 1, 1 << 24),
            default: "auto",
            summary: "Map entries beyond which bands are cleaned; auto is 5/3 of cache_tracks and one.",
        },
        Parameter {
            key: "beta",
            kind: Kind::CountOr("auto", 1, 1 << 24),
            default: "auto",
            summary: "Log entries beyond which bands are cleaned; auto is as many as alpha.",
        },
        BUFFER_BYTES,
        Parameter {
            key: "partial",
            kind: Kind::Switch,
            default: "off",
            summary: "Rewriting a band stops before tracks that are wholly cached.",
        },
        Parameter {
            key: "idle_clean",
            kind: Kind::Switch,
            default: "off",
            summary: "Cleans whenever nothing waits, until the cache is empty.",
        },
        Parameter {
            key: "write_cache_bytes",
            kind: Kind::Bytes(0, 1 << 34),
            default: "0",
            summary: "Writes are answered from a buffer of this size, and lost with the power unless flushed (assumption).",
        },
        Parameter {
            key: "bypass",
            kind: Kind::Word(&["off", "run", "command"]),
            default: "off",
            summary: "Which writes go straight to their bands: long runs, or long commands (assumption).",
        },
        Parameter {
            key: "bypass_bytes",
            kind: Kind::Bytes(512, 1 << 40),
            default: "512Ki",
            summary: "From which length on they do.",
        },
        Parameter {
            key: "skip_unwritten",
            kind: Kind::Switch,
            default: "off",
            summary: "Tracks never written are neither read nor kept from damage (assumption).",
        },
    ],
    copes_with: &Form::ALL,
    capacity: |drive, parameters| Ok(Plan::new(drive, parameters)?.home.capacity()),
    settled,
    build: |drive, parameters| Ok(Box::new(DriveManaged::new(drive, parameters)?)),
};

/// The thresholds on map and log entries that stand for `auto`.
fn settled(drive: &Drive, asked: &Parameters) -> Parameters {
    let mut parameters = asked.clone();
    let cache_tracks = cache_tracks(drive, asked);
    let alpha = asked.count("alpha").unwrap_or(cache_tracks * 5 / 3 + 1);
    parameters.settle("cache_tracks", cache_tracks);
    parameters.settle("alpha", alpha);
    parameters.settle("beta", asked.count("beta").unwrap_or(alpha));
    parameters
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
    fn new(drive: &Drive, parameters: &Parameters) -> Result<Plan, Error> {
        let parameters = settled(drive, parameters);
        let reserve = Reserve::new(drive, &parameters);
        let (alpha, beta) = (parameters.int("alpha"), parameters.int("beta"));
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
    fn new(drive: &Drive, parameters: &Parameters) -> Result<DriveManaged, Error> {
        let Plan { home, costs, alpha, beta, map_entries_max, copied_max } = Plan::new(drive, parameters)?;
        let (start, end) = home.cache();
        let guard = drive.interference.guard(&drive.geometry);
        let log = Log::new(&drive.geometry, guard, start, end);
        let &[first, second] = home.maps() else { unreachable!("two places for map copies") };
        Ok(DriveManaged {
            capacity: home.capacity(),
            alpha,
            beta,
            map_entries_max,
            partial: parameters.is_on("partial"),
            idle_clean: parameters.is_on("idle_clean"),
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
            cache: WriteCache::new(parameters.int("write_cache_bytes").div_ceil(SECTOR_BYTES)),
            bypass: Bypass::new(parameters.word("bypass"), parameters.int("bypass_bytes").div_ceil(SECTOR_BYTES)),
            written: Written::new(parameters.is_on("skip_unwritten"), home.bands()),
            home,
            counts: Counts::default(),
        })
    }
}

/// Entries of the map beyond twice α: what a single request may add on a small drive.
const SPARE_ENTRIES: u64 = 64;
