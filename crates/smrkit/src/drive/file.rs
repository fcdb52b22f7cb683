//! Drive files: TOML in which every key is a table of a value and its source.
//!
//! Unknown keys, wrong types and missing sources are errors with file, line and column. What the values mean, and
//! whether they fit together, is decided where they are used.

use std::path::Path;

use serde::Deserialize;

use super::setting::{DriveSetting, FileValue, KeyVisitor, RangeEnd, Sourced, names, optional};
use crate::error::{BadInput, Error};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DriveFile {
    pub name: String,
    pub summary: String,
    pub geometry: GeometryTable,
    #[serde(default)]
    pub interference: InterferenceTable,
    pub constant: Option<ConstantTable>,
    pub mechanical: Option<MechanicalTable>,
    pub drive_managed: Option<DriveManagedTable>,
    pub host_managed: Option<HostManagedTable>,
    /// Times that the drive has each of its surfaces, where it was made larger; 0 is once.
    #[serde(skip)]
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

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GeometryTable {
    pub surfaces: Option<Sourced<u32>>,
    pub order: Option<Sourced<OrderName>>,
    pub run_tracks: Option<Sourced<u64>>,
    pub zones: Sourced<Vec<ZoneTable>>,
    pub slips: Option<Sourced<Vec<u64>>>,
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

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InterferenceTable {
    pub blocks: Option<Sourced<u64>>,
    pub tracks: Option<Sourced<u64>>,
    pub band_tracks: Option<Sourced<u64>>,
    pub did_sectors: Option<Sourced<u64>>,
    pub dpid_sectors: Option<Sourced<u64>>,
    pub writes: Option<Sourced<u32>>,
    pub inner_tracks: Option<Sourced<u64>>,
    pub outer_tracks: Option<Sourced<u64>>,
    pub cw_degrees: Option<Sourced<f64>>,
    pub ccw_degrees: Option<Sourced<f64>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConstantTable {
    pub command_ms: Sourced<f64>,
    pub sector_us: Sourced<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MechanicalTable {
    pub rpm: Sourced<f64>,
    pub seek: Option<Sourced<Vec<(f64, f64)>>>,
    pub seek_cylinders: Option<Sourced<Vec<(f64, f64)>>>,
    pub switch_ms: Sourced<f64>,
    pub overhead_ms: Sourced<f64>,
    pub read_miss_ms: Option<Sourced<ByBefore>>,
    pub read_hit_ms: Option<Sourced<ByBefore>>,
    pub write_ms: Option<Sourced<ByBefore>>,
    pub media_write_ms: Option<Sourced<ByBefore>>,
    pub read_reselect_ms: Option<Sourced<f64>>,
    pub read_completion_ms: Option<Sourced<f64>>,
    pub write_completion_ms: Option<Sourced<f64>>,
    pub write_settle_ms: Option<Sourced<f64>>,
    pub skew_ms: Option<Sourced<f64>>,
    pub write_cache_bytes: Option<Sourced<u64>>,
    pub read_ahead_bytes: Option<Sourced<u64>>,
    pub read_ahead_to: Option<Sourced<super::ReadAheadTo>>,
    pub segment_bytes: Option<Sourced<u64>>,
    pub segments: Option<Sourced<u32>>,
    pub any_order: Option<Sourced<bool>>,
    pub reads_passing: Option<Sourced<bool>>,
    pub keeps_requested: Option<Sourced<bool>>,
    pub watermark: Option<Sourced<f64>>,
    pub bus_bytes_per_s: Option<Sourced<f64>>,
    pub write_bus_bytes_per_s: Option<Sourced<f64>>,
    pub queued_commands: Option<Sourced<u32>>,
    pub queue_age_ms: Option<Sourced<f64>>,
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

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DriveManagedTable {
    pub append_ms: Option<Sourced<f64>>,
    pub append_bytes: Option<Sourced<u64>>,
    pub map_every_writes: Option<Sourced<u64>>,
    pub map_ms: Option<Sourced<f64>>,
    pub cache_percent: Option<Sourced<f64>>,
    pub write_cache_bytes: Option<Sourced<u64>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostManagedTable {
    pub zone_bytes: Option<Sourced<u64>>,
    pub conventional_percent: Option<Sourced<f64>>,
    pub open_zones: Option<Sourced<u64>>,
}

impl DriveFile {
    /// Reads a drive file's text; `path` is for messages.
    pub fn parse(path: &Path, text: &str) -> Result<DriveFile, Error> {
        let mut file: DriveFile = toml::from_str(text).map_err(|e| bad_toml(path, text, &e))?;
        match file.problem() {
            None => Ok(file),
            Some(problem) => Err(Error::input(path, problem)),
        }
    }

    /// Shows every key, in the order of the file's tables.
    pub fn visit(&mut self, visit: KeyVisitor) {
        let g = &mut self.geometry;
        optional(visit, "geometry.surfaces", "", &mut g.surfaces);
        optional(visit, "geometry.order", "", &mut g.order);
        optional(visit, "geometry.run_tracks", "tracks", &mut g.run_tracks);
        visit("geometry.zones", "", &mut g.zones);
        optional(visit, "geometry.slips", "raw sectors", &mut g.slips);
        let i = &mut self.interference;
        optional(visit, "interference.blocks", "sectors", &mut i.blocks);
        optional(visit, "interference.tracks", "tracks", &mut i.tracks);
        optional(visit, "interference.band_tracks", "tracks", &mut i.band_tracks);
        optional(visit, "interference.did_sectors", "sectors", &mut i.did_sectors);
        optional(visit, "interference.dpid_sectors", "sectors", &mut i.dpid_sectors);
        optional(visit, "interference.writes", "", &mut i.writes);
        optional(visit, "interference.inner_tracks", "tracks", &mut i.inner_tracks);
        optional(visit, "interference.outer_tracks", "tracks", &mut i.outer_tracks);
        optional(visit, "interference.cw_degrees", "°", &mut i.cw_degrees);
        optional(visit, "interference.ccw_degrees", "°", &mut i.ccw_degrees);
        if let Some(c) = &mut self.constant {
            visit("constant.command_ms", "ms", &mut c.command_ms);
            visit("constant.sector_us", "µs", &mut c.sector_us);
        }
        if let Some(m) = &mut self.mechanical {
            m.visit(visit);
        }
        if let Some(d) = &mut self.drive_managed {
            optional(visit, "drive_managed.append_ms", "ms", &mut d.append_ms);
            optional(visit, "drive_managed.append_bytes", "bytes", &mut d.append_bytes);
            optional(visit, "drive_managed.map_every_writes", "writes", &mut d.map_every_writes);
            optional(visit, "drive_managed.map_ms", "ms", &mut d.map_ms);
            optional(visit, "drive_managed.cache_percent", "% of its tracks", &mut d.cache_percent);
            optional(visit, "drive_managed.write_cache_bytes", "bytes", &mut d.write_cache_bytes);
        }
        if let Some(h) = &mut self.host_managed {
            optional(visit, "host_managed.zone_bytes", "bytes", &mut h.zone_bytes);
            optional(visit, "host_managed.conventional_percent", "% of its zones", &mut h.conventional_percent);
            optional(visit, "host_managed.open_zones", "zones", &mut h.open_zones);
        }
    }
}

impl MechanicalTable {
    fn visit(&mut self, visit: KeyVisitor) {
        visit("mechanical.rpm", "rotations a minute", &mut self.rpm);
        optional(visit, "mechanical.seek", "share of stroke: ms", &mut self.seek);
        optional(visit, "mechanical.seek_cylinders", "cylinders: ms", &mut self.seek_cylinders);
        visit("mechanical.switch_ms", "ms", &mut self.switch_ms);
        visit("mechanical.overhead_ms", "ms", &mut self.overhead_ms);
        optional(visit, "mechanical.read_miss_ms", "ms", &mut self.read_miss_ms);
        optional(visit, "mechanical.read_hit_ms", "ms", &mut self.read_hit_ms);
        optional(visit, "mechanical.write_ms", "ms", &mut self.write_ms);
        optional(visit, "mechanical.media_write_ms", "ms", &mut self.media_write_ms);
        optional(visit, "mechanical.read_reselect_ms", "ms", &mut self.read_reselect_ms);
        optional(visit, "mechanical.read_completion_ms", "ms", &mut self.read_completion_ms);
        optional(visit, "mechanical.write_completion_ms", "ms", &mut self.write_completion_ms);
        optional(visit, "mechanical.write_settle_ms", "ms", &mut self.write_settle_ms);
        optional(visit, "mechanical.skew_ms", "ms", &mut self.skew_ms);
        optional(visit, "mechanical.write_cache_bytes", "bytes", &mut self.write_cache_bytes);
        optional(visit, "mechanical.read_ahead_bytes", "bytes", &mut self.read_ahead_bytes);
        optional(visit, "mechanical.read_ahead_to", "", &mut self.read_ahead_to);
        optional(visit, "mechanical.segment_bytes", "bytes", &mut self.segment_bytes);
        optional(visit, "mechanical.segments", "stretches", &mut self.segments);
        optional(visit, "mechanical.any_order", "", &mut self.any_order);
        optional(visit, "mechanical.reads_passing", "", &mut self.reads_passing);
        optional(visit, "mechanical.keeps_requested", "", &mut self.keeps_requested);
        optional(visit, "mechanical.watermark", "share of a read", &mut self.watermark);
        optional(visit, "mechanical.bus_bytes_per_s", "bytes/s", &mut self.bus_bytes_per_s);
        optional(visit, "mechanical.write_bus_bytes_per_s", "bytes/s", &mut self.write_bus_bytes_per_s);
        optional(visit, "mechanical.queued_commands", "commands", &mut self.queued_commands);
        optional(visit, "mechanical.queue_age_ms", "ms", &mut self.queue_age_ms);
    }
}

fn bad_toml(path: &Path, text: &str, error: &toml::de::Error) -> Error {
    let before = error.span().and_then(|span| text.get(..span.start.min(text.len())));
    let line = before.map(|b| b.matches('\n').count() as u64 + 1);
    let column = before.map(|b| (b.len() - b.rfind('\n').map_or(0, |at| at + 1)) as u64 + 1);
    let message = format!(
        "{}; every key is {{ value = …, source = \"…\" }}, compare `smrkit drives show tiny`",
        error.message().trim_end()
    );
    Error::Input(Box::new(BadInput { path: path.into(), line, column, message: message.into() }))
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
