//! The arrays of the study: four disks under one of five schemes, in one of the paper's configurations.

use std::fmt;
use std::sync::Arc;

use smrkit::device::level::Level;
use smrkit::device::spec::{ArraySpec, DriveSpec, MemberSpec};
use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit::experiment::demand::Demand;
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::system::System;
use smrkit::interleave::{Interleave, Interleaved, MergePart, SourcePlacement};
use smrkit::request::Source;
use smrkit::settings::{Prefill, Settings};

use super::super::small_drive::{LIKE, SmallDrive};
use super::sets::{BLOCK_SECTORS, Set};
use crate::{Maker, Planned};

/// Disks of the array (the paper's four).
pub const DISKS: u64 = 4;
/// The share of a disk that footprints fill.
pub const FILL: f64 = 0.8;
/// Sectors of a track: 1 MiB (assumption; the paper names no drive).
pub const TRACK_SECTORS: u64 = 512;
/// Tracks of a band, its guard not counted (assumption).
pub const BAND_TRACKS: u64 = 20;
/// Bands that a log needs beyond its data: an open one, three to clean with, and one for its spare.
const SPARE_BANDS: u64 = 5;
/// The least spare that the log takes: how full it is, its size says.
const SPARE_PERCENT: &str = "0.1";

/// Update scheme of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UpdateScheme {
    /// A log with greedy cleaning: what the paper names.
    Log,
    /// A log that gives each source bands of its own: the paper's remedy.
    Separated,
    /// In place; the rest of the band is copied.
    Tail,
    /// In place; one band is held open until another is written.
    Held,
    /// In place, with nothing to copy: a conventional disk.
    Conventional,
}

impl UpdateScheme {
    /// All of them.
    pub const ALL: [UpdateScheme; 5] = [
        UpdateScheme::Log,
        UpdateScheme::Separated,
        UpdateScheme::Tail,
        UpdateScheme::Held,
        UpdateScheme::Conventional,
    ];

    /// As results call it.
    pub fn name(self) -> &'static str {
        match self {
            UpdateScheme::Log => "log",
            UpdateScheme::Separated => "log, bands by source",
            UpdateScheme::Tail => "band's tail copied",
            UpdateScheme::Held => "band held open",
            UpdateScheme::Conventional => "conventional",
        }
    }

    /// The layer and its parameters.
    pub fn layer(self) -> (&'static str, Vec<(String, String)>) {
        let region = (BAND_TRACKS * TRACK_SECTORS).to_string();
        let log = || vec![("segment_tracks", BAND_TRACKS.to_string()), ("spare_percent", SPARE_PERCENT.into())];
        let (layer, set) = match self {
            UpdateScheme::Log => ("log", log()),
            UpdateScheme::Separated => ("log", [log(), vec![("separate", "source".into())]].concat()),
            UpdateScheme::Tail => ("rmw", vec![("region_sectors", region), ("portion", "tail".into())]),
            UpdateScheme::Held => {
                ("rmw", vec![("region_sectors", region), ("portion", "tail".into()), ("hold", "1".into())])
            }
            UpdateScheme::Conventional => ("in-place", Vec::new()),
        };
        (layer, set.into_iter().map(|(key, value)| (key.to_string(), value)).collect())
    }
}

/// Arrangement of blocks and merging of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Configuration {
    /// Disks in sequence, sources one after another.
    Pure,
    /// A disk for each source, one after another.
    Dedicated,
    /// Block after block on all disks in turn, sources merged in bursts of this many operations.
    Striped(u64),
    /// Block after block on all disks in turn, sources one after another.
    Uninterleaved,
    /// Disks in sequence, sources merged in bursts.
    Spanned(u64),
    /// A disk for each source, sources merged in bursts.
    DedicatedInBursts(u64),
}

/// The paper's bursts.
pub const BURSTS: [u64; 6] = [1, 10, 50, 250, 500, 1000];

impl Configuration {
    /// The paper's eight, and the one that long bursts tend to; the first is what the others are compared with.
    pub fn all() -> Vec<Configuration> {
        let striped = BURSTS.map(Configuration::Striped);
        [Configuration::Pure]
            .into_iter()
            .chain(striped)
            .chain([Configuration::Uninterleaved, Configuration::Dedicated])
            .collect()
    }

    /// Its name at the head of a column.
    pub fn short_name(self) -> String {
        match self {
            Configuration::Striped(burst) => format!("bursts of {burst}"),
            Configuration::Uninterleaved => "not interleaved".into(),
            _ => self.to_string(),
        }
    }

    fn level(self) -> Level {
        match self {
            Configuration::Pure | Configuration::Spanned(_) => Level::Span,
            Configuration::Dedicated | Configuration::DedicatedInBursts(_) => Level::Dedicated,
            Configuration::Striped(_) | Configuration::Uninterleaved => Level::Raid0,
        }
    }

    fn rule(self) -> Interleave {
        match self {
            Configuration::Striped(operations)
            | Configuration::Spanned(operations)
            | Configuration::DedicatedInBursts(operations) => Interleave::Burst { operations, weighted: false },
            _ => Interleave::None,
        }
    }

    fn is_dedicated(self) -> bool {
        self.level() == Level::Dedicated
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Configuration::Pure => f.write_str("pure"),
            Configuration::Dedicated => f.write_str("dedicated"),
            Configuration::Striped(burst) => write!(f, "striped, bursts of {burst}"),
            Configuration::Uninterleaved => f.write_str("striped, not interleaved"),
            Configuration::Spanned(burst) => write!(f, "spanning, bursts of {burst}"),
            Configuration::DedicatedInBursts(burst) => write!(f, "dedicated, bursts of {burst}"),
        }
    }
}

/// A run of an array.
#[derive(Clone)]
pub struct ArrayPlan {
    /// Update scheme of its disks.
    pub scheme: UpdateScheme,
    /// Its arrangement.
    pub configuration: Configuration,
    /// Its demand.
    pub set: Arc<Set>,
    /// Placement of the sources.
    pub placement: SourcePlacement,
    /// The seed of everything random.
    pub seed: u64,
}

impl Planned for ArrayPlan {
    fn planned(&self) -> Result<(PlannedRun, Arc<dyn Demand>), Error> {
        let used = self.used_sectors();
        let (layer, set) = self.scheme.layer();
        let disk = |number: usize| format!("disk{number}");
        let member = |number| MemberSpec::Drive(DriveSpec::of(disk(number), layer, set.clone()));
        let members = (0..used.len()).map(member).collect();
        let array = ArraySpec { chunk_sectors: BLOCK_SECTORS, ..ArraySpec::new(self.configuration.level(), members) };
        let mut system = System { used_sectors: Some(used.clone()), ..System::array(array) };
        for (number, used) in used.into_iter().enumerate() {
            system = system.given(disk(number), drive(bands(used))?);
        }
        let settings =
            Settings { seed: self.seed, prefill: Prefill::Sequential, movement: true, ..Settings::default() };
        let plan = self.clone();
        let open = move |_, _| -> Result<Box<dyn Source>, Error> { Ok(Box::new(plan.source()?)) };
        Ok((system.run(settings)?, Arc::new(Maker(open))))
    }
}

impl ArrayPlan {
    /// Sectors that are used of each disk: what its source needs, where it has its own, or a fourth of what all need.
    fn used_sectors(&self) -> Vec<u64> {
        let sizes = self.set.sizes();
        if self.configuration.is_dedicated() {
            return sizes;
        }
        vec![sizes.iter().sum::<u64>().div_ceil(DISKS).next_multiple_of(BLOCK_SECTORS); DISKS as usize]
    }

    /// The sources, merged. On disks of their own each begins at the first sector.
    fn source(&self) -> Result<Interleaved<Box<dyn Source>>, Error> {
        let placement = if self.configuration.is_dedicated() { SourcePlacement::Zero } else { self.placement };
        let sizes = self.set.sizes();
        let part = |(number, sectors): (usize, u64)| {
            Ok(MergePart { source: self.set.open(number, self.seed)?, sectors, requests: None })
        };
        let parts = sizes.into_iter().enumerate().map(part).collect::<Result<_, Error>>()?;
        Interleaved::new(parts, self.configuration.rule(), placement, self.seed)
    }
}

/// The members, in words.
pub fn about_members() -> String {
    let mib = |sectors: u64| sectors as f64 / 2048.0;
    format!(
        "Tracks of {} MiB, bands of {BAND_TRACKS} tracks and a guard, mechanics of {LIKE} (assumptions)",
        mib(TRACK_SECTORS)
    )
}

/// Bands of a disk of which this many sectors are used.
fn bands(used_sectors: u64) -> u64 {
    let band = BAND_TRACKS * TRACK_SECTORS;
    let filled = (used_sectors as f64 / FILL / band as f64).ceil() as u64;
    filled.max(used_sectors.div_ceil(band) + SPARE_BANDS)
}

/// A drive of this many bands, each with its guard: one surface, one recording zone, tracks of one length.
fn drive(bands: u64) -> Result<Drive, Error> {
    SmallDrive {
        name: "arrays",
        summary: format!("Bands of {BAND_TRACKS} tracks with the mechanics of {LIKE}"),
        tracks: bands * (BAND_TRACKS + 1),
        track_sectors: TRACK_SECTORS,
        reach: 2,
        switch_ms: 0.0,
        skew_ms: Some(0.0),
        seek: SmallDrive::stretched_seeks()?,
    }
    .build()
}
