//! Drive files: TOML in which every key is a table of a value and its source.
//!
//! Unknown keys, wrong types and missing sources are errors with file, line and column. What the values mean, and
//! whether they fit together, is decided where they are used.

use std::path::Path;

use serde::Deserialize;

use super::setting::{DriveSetting, FileEntry, FileValue, KeyVisitor, RangeEnd, Sourced, names};
use crate::error::Error;
use crate::toml_file::{Mistake, TomlKeys};

/// A table of a drive file: its keys with their units.
macro_rules! table {
    ($(#[$attribute:meta])* struct $table:ident = $name:literal { $($key:ident: $type:ty, $unit:literal;)* }) => {
        #[derive(Clone, Debug)]
        $(#[$attribute])*
        pub(super) struct $table {
            $(pub $key: $type,)*
        }

        impl $table {
            const NAME: &str = $name;

            /// The table, if the file has it.
            fn of(file: &mut TomlKeys) -> Result<Option<$table>, Mistake> {
                let Some(mut keys) = file.table($name, &[$(stringify!($key)),*])? else { return Ok(None) };
                let table = $table { $($key: FileEntry::take(&mut keys, stringify!($key), $unit)?,)* };
                keys.end();
                Ok(Some(table))
            }

            fn visit(&mut self, visit: KeyVisitor) {
                $(self.$key.visit(visit, concat!($name, ".", stringify!($key)), $unit);)*
            }
        }
    };
}

/// Keys of the file itself.
const FILE: [&str; 8] = [
    "name",
    "summary",
    GeometryTable::NAME,
    InterferenceTable::NAME,
    ConstantTable::NAME,
    MechanicalTable::NAME,
    DriveManagedTable::NAME,
    HostManagedTable::NAME,
];

#[derive(Clone, Debug)]
pub(super) struct DriveFile {
    pub name: String,
    pub summary: String,
    pub geometry: GeometryTable,
    pub interference: InterferenceTable,
    pub constant: Option<ConstantTable>,
    pub mechanical: Option<MechanicalTable>,
    pub drive_managed: Option<DriveManagedTable>,
    pub host_managed: Option<HostManagedTable>,
    /// Times that the drive has each of its surfaces, where it was made larger; 0 is once.
    pub copies: u32,
}

impl ZoneTable {
    /// True if it has what only zones over all surfaces know.
    pub fn is_over_all_surfaces(&self) -> bool {
        let angles = [self.offset, self.head_skew, self.cylinder_skew];
        let spares = [self.spare_sectors, self.spare_tracks];
        angles.iter().any(Option::is_some)
            || spares.iter().any(Option::is_some)
            || self.front > 0
            || !self.slips.is_empty()
    }
}

impl MechanicalTable {
    /// True if overheads are told by kind, when the bus begins, or that sectors are read as they come.
    pub fn has_electronics(&self) -> bool {
        let by_kind = [&self.read_miss_ms, &self.read_hit_ms, &self.write_ms, &self.media_write_ms];
        let ends = [&self.read_reselect_ms, &self.read_completion_ms, &self.write_completion_ms, &self.watermark];
        by_kind.iter().any(|key| key.is_some())
            || ends.iter().any(|key| key.is_some())
            || self.any_order.as_ref().is_some_and(|any| any.value)
    }
}

impl DriveFile {
    /// Times that the drive has each of its surfaces.
    pub fn copies(&self) -> u32 {
        self.copies.max(1)
    }
}

table! {
    struct GeometryTable = "geometry" {
        surfaces: Option<Sourced<u32>>, "";
        order: Option<Sourced<OrderName>>, "";
        run_tracks: Option<Sourced<u64>>, "tracks";
        zones: Sourced<Vec<ZoneTable>>, "";
        slips: Option<Sourced<Vec<u64>>>, "raw sectors";
    }
}

/// A recording zone on every surface.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ZoneTable {
    /// On each surface.
    pub tracks: u64,
    pub track_sectors: Lengths,
    /// Unwritten tracks after the zone, toward the inner edge.
    #[serde(default)]
    pub guard_tracks: u64,
    pub toward: Option<crate::geometry::Edge>,
    /// Cylinder of the zone's outermost track; after the zone listed before, if not given.
    pub first_cylinder: Option<u64>,
    /// Place at which its first sector begins, in sectors; as all that follows, for zones over all surfaces.
    pub offset: Option<f64>,
    /// Skew to a track on another surface, and to one on another cylinder, in sectors.
    pub head_skew: Option<f64>,
    pub cylinder_skew: Option<f64>,
    /// Raw sectors at its front that hold nothing.
    #[serde(default)]
    pub front: u64,
    /// Spare sectors at the end of each `spare_tracks` tracks; slips there use them up.
    pub spare_sectors: Option<u64>,
    pub spare_tracks: Option<u64>,
    /// Raw sectors that are passed over, from the zone's first on: one, or [first, count].
    #[serde(default)]
    pub slips: Vec<Slip>,
}

/// Raw sectors that are passed over.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a sector, or [first sector, how many]")]
pub(super) enum Slip {
    One(u64),
    Some(u64, u64),
}

/// Order of tracks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum OrderName {
    /// All tracks of a recording zone on a surface, then those on the next.
    #[default]
    Surfaces,
    /// All tracks of a cylinder, then the next.
    Cylinders,
    /// Cylinder by cylinder, the surfaces forward on a zone's first cylinder, back on its next.
    Alternating,
    /// Cylinder by cylinder, the surfaces forward on each even cylinder of the disk, back on each odd one.
    AlternatingThroughout,
    /// `run_tracks` tracks on a surface, then as many on the next, back.
    Serpentine,
}

impl std::fmt::Display for OrderName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(["surfaces", "cylinders", "alternating", "alternating-throughout", "serpentine"][*self as usize])
    }
}

/// Track lengths: one for all surfaces, or one for each.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a number of sectors, or a list with one number for each surface")]
pub(super) enum Lengths {
    All(u64),
    Each(Vec<u64>),
}

table! {
    #[derive(Default)]
    struct InterferenceTable = "interference" {
        blocks: Option<Sourced<u64>>, "sectors";
        tracks: Option<Sourced<u64>>, "tracks";
        band_tracks: Option<Sourced<u64>>, "tracks";
        did_sectors: Option<Sourced<u64>>, "sectors";
        dpid_sectors: Option<Sourced<u64>>, "sectors";
        writes: Option<Sourced<u32>>, "";
        inner_tracks: Option<Sourced<u64>>, "tracks";
        outer_tracks: Option<Sourced<u64>>, "tracks";
        cw_degrees: Option<Sourced<f64>>, "°";
        ccw_degrees: Option<Sourced<f64>>, "°";
    }
}

table! {
    struct ConstantTable = "constant" {
        command_ms: Sourced<f64>, "ms";
        sector_us: Sourced<f64>, "µs";
    }
}

table! {
    struct MechanicalTable = "mechanical" {
        rpm: Sourced<f64>, "rotations a minute";
        seek: Option<Sourced<Vec<(f64, f64)>>>, "share of stroke: ms";
        seek_cylinders: Option<Sourced<Vec<(f64, f64)>>>, "cylinders: ms";
        switch_ms: Sourced<f64>, "ms";
        overhead_ms: Sourced<f64>, "ms";
        read_miss_ms: Option<Sourced<ByBefore>>, "ms";
        read_hit_ms: Option<Sourced<ByBefore>>, "ms";
        write_ms: Option<Sourced<ByBefore>>, "ms";
        media_write_ms: Option<Sourced<ByBefore>>, "ms";
        read_reselect_ms: Option<Sourced<f64>>, "ms";
        read_completion_ms: Option<Sourced<f64>>, "ms";
        write_completion_ms: Option<Sourced<f64>>, "ms";
        write_settle_ms: Option<Sourced<f64>>, "ms";
        skew_ms: Option<Sourced<f64>>, "ms";
        write_cache_bytes: Option<Sourced<u64>>, "bytes";
        read_ahead_bytes: Option<Sourced<u64>>, "bytes";
        read_ahead_to: Option<Sourced<super::ReadAheadTo>>, "";
        segment_bytes: Option<Sourced<u64>>, "bytes";
        segments: Option<Sourced<u32>>, "stretches";
        any_order: Option<Sourced<bool>>, "";
        reads_passing: Option<Sourced<bool>>, "";
        keeps_requested: Option<Sourced<bool>>, "";
        watermark: Option<Sourced<f64>>, "share of a read";
        bus_bytes_per_s: Option<Sourced<f64>>, "bytes/s";
        write_bus_bytes_per_s: Option<Sourced<f64>>, "bytes/s";
        queued_commands: Option<Sourced<u32>>, "commands";
        queue_age_ms: Option<Sourced<f64>>, "ms";
    }
}

/// Milliseconds: the same whatever came before, or after a read and after a write.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged, expecting = "expected milliseconds, or [after a read, after a write]")]
pub(super) enum ByBefore {
    Any(f64),
    Each(f64, f64),
}

impl std::fmt::Display for ByBefore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ByBefore::Any(ms) => write!(f, "{ms}"),
            ByBefore::Each(read, write) => write!(f, "{read} after a read, {write} after a write"),
        }
    }
}

table! {
    struct DriveManagedTable = "drive_managed" {
        append_ms: Option<Sourced<f64>>, "ms";
        append_bytes: Option<Sourced<u64>>, "bytes";
        map_every_writes: Option<Sourced<u64>>, "writes";
        map_ms: Option<Sourced<f64>>, "ms";
        cache_percent: Option<Sourced<f64>>, "% of its tracks";
        write_cache_bytes: Option<Sourced<u64>>, "bytes";
    }
}

table! {
    struct HostManagedTable = "host_managed" {
        zone_bytes: Option<Sourced<u64>>, "bytes";
        conventional_percent: Option<Sourced<f64>>, "% of its zones";
        open_zones: Option<Sourced<u64>>, "zones";
    }
}

impl DriveFile {
    /// Reads a drive file's text; `path` is for messages.
    pub fn parse(path: &Path, text: &str) -> Result<DriveFile, Error> {
        let remedy = "every key is { value = …, source = \"…\" }, compare `smrkit drives show tiny`";
        let mut file = DriveFile::read(text).map_err(|mistake| mistake.in_file(path, text, remedy))?;
        match file.problem() {
            None => Ok(file),
            Some(problem) => Err(Error::input(path, problem)),
        }
    }

    fn read(text: &str) -> Result<DriveFile, Mistake> {
        let mut keys = TomlKeys::parse(text, &FILE)?;
        let file = DriveFile {
            name: keys.need("name")?,
            summary: keys.need("summary")?,
            geometry: GeometryTable::of(&mut keys)?.ok_or_else(|| keys.lacks(GeometryTable::NAME))?,
            interference: InterferenceTable::of(&mut keys)?.unwrap_or_default(),
            constant: ConstantTable::of(&mut keys)?,
            mechanical: MechanicalTable::of(&mut keys)?,
            drive_managed: DriveManagedTable::of(&mut keys)?,
            host_managed: HostManagedTable::of(&mut keys)?,
            copies: 0,
        };
        keys.end();
        Ok(file)
    }

    /// Shows every key, in the order of the file's tables.
    pub fn visit(&mut self, visit: KeyVisitor) {
        self.geometry.visit(visit);
        self.interference.visit(visit);
        self.constant.iter_mut().for_each(|table| table.visit(visit));
        self.mechanical.iter_mut().for_each(|table| table.visit(visit));
        self.drive_managed.iter_mut().for_each(|table| table.visit(visit));
        self.host_managed.iter_mut().for_each(|table| table.visit(visit));
    }
}

names!(OrderName, ByBefore);

impl FileValue for Vec<ZoneTable> {
    fn shown(&self) -> String {
        let lengths = self.iter().flat_map(|z| match &z.track_sectors {
            Lengths::All(n) => std::slice::from_ref(n),
            Lengths::Each(all) => all.as_slice(),
        });
        let (longest, shortest) = (lengths.clone().max().unwrap_or(&0), lengths.min().unwrap_or(&0));
        let tracks: u64 = self.iter().fold(0, |sum, z| sum.saturating_add(z.tracks));
        match self.len() {
            1 => format!("1 recording zone, {tracks} tracks a surface of {longest} sectors"),
            n => format!("{n} recording zones, {tracks} tracks a surface of {longest} to {shortest} sectors"),
        }
    }
}

impl DriveFile {
    /// Every value with its source, in the order of the file's tables.
    pub fn settings(&mut self) -> Vec<DriveSetting> {
        let mut settings = Vec::new();
        self.visit(&mut |name, unit, key| settings.push(key.setting(name, unit)));
        settings
    }

    /// The mistake of the first key without a source or with a senseless range.
    pub fn problem(&mut self) -> Option<String> {
        let mut problem = None;
        self.visit(&mut |name, _, key| {
            if problem.is_none() {
                problem = key.problem().map(|what| format!("{name} {what}"));
            }
        });
        problem
    }

    /// Takes an end of the range of key `wanted` for its value. Returns the keys that have ranges where it has none.
    pub fn choose(&mut self, wanted: &str, end: RangeEnd) -> Result<(), Vec<String>> {
        let (mut chosen, mut with_range) = (false, Vec::new());
        self.visit(&mut |name, unit, key| {
            if key.setting(name, unit).range.is_some() {
                with_range.push(name.to_string());
            }
            chosen |= name == wanted && key.choose(end);
        });
        if chosen { Ok(()) } else { Err(with_range) }
    }
}
