//! What the layer takes, and how it is laid out on a drive.

use super::bypass::{Bypass, Written};
use super::costs::Costs;
use super::log::Log;
use super::map_copy::{MapCopies, copy_sectors};
use super::write_cache::WriteCache;
use super::{Counts, DriveManaged};
use crate::drive::Drive;
use crate::error::Error;
use crate::extent_map::ExtentMap;
use crate::layer::bands::{Cleaner, Episode, Home, Reserve};
use crate::layer::{Kind, LayerSpec, Parameter, Parameters};
use crate::medium::interference::Form;
use crate::units::SECTOR_BYTES;

pub(in crate::layer) const SPEC: LayerSpec = LayerSpec {
    name: "drive-managed",
    summary: "A shipped disk: all writes go to a log in a persistent cache; its oldest bands are cleaned when maps fill.",
    paper: "Shafaei & Desnoyers 2017 (Vguard), the baseline of section 3",
    parameters: &[
        Parameter {
            key: "band_tracks",
            kind: Kind::Count(1, 4096),
            default: "20",
            summary: "Tracks of a band, its guard not counted.",
        },
        Parameter {
            key: "cache_tracks",
            kind: Kind::Count(0, 1 << 24),
            default: "0",
            summary: "Tracks of the persistent cache; 0: as large a share of the drive as 13,791 of the paper's.",
        },
        Parameter {
            key: "alpha",
            kind: Kind::Count(0, 1 << 24),
            default: "0",
            summary: "Map entries beyond which bands are cleaned; 0: 5/3 of the cache tracks (22,986 for 13,791).",
        },
        Parameter {
            key: "beta",
            kind: Kind::Count(0, 1 << 24),
            default: "0",
            summary: "Log entries beyond which bands are cleaned; 0: as many.",
        },
        Parameter {
            key: "buffer_bytes",
            kind: Kind::Bytes(512, 1 << 40),
            default: "15M",
            summary: "Memory for cleaning: the length of its stages.",
        },
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
    build: |drive, parameters| Ok(Box::new(DriveManaged::new(drive, parameters)?)),
};

/// Tracks of the drive in the paper's simulations (st5000as0011), and of its persistent cache.
const PAPER_TRACKS: u64 = 3_911_040;
const PAPER_CACHE_TRACKS: u64 = 13_791;
/// A smaller cache would be all guard.
const LEAST_CACHE_TRACKS: u64 = 16;

impl DriveManaged {
    fn new(drive: &Drive, parameters: &Parameters) -> Result<DriveManaged, Error> {
        let or = |key: &str, auto: u64| Some(parameters.int(key)).filter(|&value| value > 0).unwrap_or(auto);
        let scaled = (PAPER_CACHE_TRACKS * drive.geometry.tracks()).div_ceil(PAPER_TRACKS);
        let cache_tracks = or("cache_tracks", scaled.max(LEAST_CACHE_TRACKS));
        let alpha = or("alpha", cache_tracks * 5 / 3 + 1);
        let map_entries_max = 2 * alpha + SPARE_ENTRIES;
        let reserve = Reserve {
            cache_tracks,
            band_tracks: parameters.int("band_tracks"),
            buffer_bytes: parameters.int("buffer_bytes"),
            map_slots: 2,
            map_sectors: copy_sectors(map_entries_max),
        };
        let home = Home::new("drive-managed", drive, &reserve)?;
        let (start, end) = home.cache();
        let guard = drive.interference.guard(&drive.geometry);
        let log = Log::new(&drive.geometry, guard, start, end);
        let &[first, second] = home.maps() else { unreachable!("two places for map copies") };
        Ok(DriveManaged {
            capacity: home.capacity(),
            alpha,
            beta: or("beta", alpha),
            map_entries_max,
            partial: parameters.is_on("partial"),
            idle_clean: parameters.is_on("idle_clean"),
            costs: Costs::new(drive),
            log,
            map: ExtentMap::new(),
            copies: MapCopies::new([first, second], map_entries_max),
            appends: 0,
            episode: Episode::default(),
            frees: 0,
            cleaner: Cleaner::default(),
            sequence: 0,
            noted_band: None,
            merged: Vec::new(),
            current: Vec::new(),
            cache: WriteCache::new(parameters.int("write_cache_bytes") / SECTOR_BYTES),
            bypass: Bypass::new(parameters.word("bypass"), parameters.int("bypass_bytes").div_ceil(SECTOR_BYTES)),
            written: Written::new(parameters.is_on("skip_unwritten"), home.bands()),
            home,
            counts: Counts::default(),
        })
    }
}

/// Entries of the map beyond twice α: what a single request may add on a small drive.
const SPARE_ENTRIES: u64 = 64;
