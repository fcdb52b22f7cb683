//! Drive files: TOML in which every key is a table of a value and its source.
//!
//! Unknown keys, wrong types and missing sources are errors with file, line and column. What the values mean, and
//! whether they fit together, is decided where they are used.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{BadInput, Error};

/// A value and where it comes from: a paper, arithmetic, or "assumption".
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sourced<T> {
    pub value: T,
    pub source: String,
}

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
    /// Times that the drive has each of its surfaces, where it was made larger; 0 is once.
    #[serde(skip)]
    pub copies: u32,
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
    /// Where the zone's outermost track lies; after the zone listed before, if not given.
    pub first_cylinder: Option<u64>,
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
    pub seek: Sourced<Vec<(f64, f64)>>,
    pub switch_ms: Sourced<f64>,
    pub overhead_ms: Sourced<f64>,
    pub write_settle_ms: Option<Sourced<f64>>,
    pub skew_ms: Option<Sourced<f64>>,
    pub write_cache_bytes: Option<Sourced<u64>>,
    pub read_ahead_bytes: Option<Sourced<u64>>,
    pub bus_bytes_per_s: Option<Sourced<f64>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DriveManagedTable {
    pub append_ms: Sourced<f64>,
    pub append_bytes: Sourced<u64>,
    pub map_every_writes: Sourced<u64>,
    pub map_ms: Sourced<f64>,
}

/// One value of a drive file, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The key, dotted.
    pub key: String,
    /// The value as text.
    pub value: String,
    /// The unit; empty for names and counts without one.
    pub unit: String,
    /// Where the value comes from.
    pub source: String,
}

impl DriveFile {
    /// Reads a drive file's text; `path` is for messages.
    pub fn parse(path: &Path, text: &str) -> Result<DriveFile, Error> {
        let file: DriveFile = toml::from_str(text).map_err(|e| bad_toml(path, text, &e))?;
        match file.settings().iter().find(|s| s.source.trim().is_empty()) {
            None => Ok(file),
            Some(s) => Err(Error::input(path, format!("{} has no source: name one, or write \"assumption\"", s.key))),
        }
    }

    /// Every value with its source, in the order of the file's tables.
    pub fn settings(&self) -> Vec<Setting> {
        let mut list = List(Vec::new());
        let g = &self.geometry;
        list.optional("geometry.surfaces", "", &g.surfaces);
        list.push("geometry.zones", "", &describe_zones(&g.zones.value), &g.zones.source);
        if let Some(slips) = &g.slips {
            list.push("geometry.slips", "raw sectors", &describe_slips(&slips.value), &slips.source);
        }
        let i = &self.interference;
        list.optional("interference.blocks", "sectors", &i.blocks);
        list.optional("interference.tracks", "tracks", &i.tracks);
        list.optional("interference.band_tracks", "tracks", &i.band_tracks);
        list.optional("interference.did_sectors", "sectors", &i.did_sectors);
        list.optional("interference.dpid_sectors", "sectors", &i.dpid_sectors);
        list.optional("interference.writes", "", &i.writes);
        list.optional("interference.inner_tracks", "tracks", &i.inner_tracks);
        list.optional("interference.outer_tracks", "tracks", &i.outer_tracks);
        list.optional("interference.cw_degrees", "°", &i.cw_degrees);
        list.optional("interference.ccw_degrees", "°", &i.ccw_degrees);
        if let Some(c) = &self.constant {
            list.sourced("constant.command_ms", "ms", &c.command_ms);
            list.sourced("constant.sector_us", "µs", &c.sector_us);
        }
        if let Some(m) = &self.mechanical {
            list.mechanical(m);
        }
        if let Some(d) = &self.drive_managed {
            list.sourced("drive_managed.append_ms", "ms", &d.append_ms);
            list.sourced("drive_managed.append_bytes", "bytes", &d.append_bytes);
            list.sourced("drive_managed.map_every_writes", "writes", &d.map_every_writes);
            list.sourced("drive_managed.map_ms", "ms", &d.map_ms);
        }
        list.0
    }
}

struct List(Vec<Setting>);

impl List {
    fn push(&mut self, key: &str, unit: &str, value: &str, source: &str) {
        let (key, value, unit, source) = (key.into(), value.into(), unit.into(), source.into());
        self.0.push(Setting { key, value, unit, source });
    }

    fn sourced<T: std::fmt::Display>(&mut self, key: &str, unit: &str, setting: &Sourced<T>) {
        self.push(key, unit, &setting.value.to_string(), &setting.source);
    }

    fn optional<T: std::fmt::Display>(&mut self, key: &str, unit: &str, setting: &Option<Sourced<T>>) {
        if let Some(setting) = setting {
            self.sourced(key, unit, setting);
        }
    }

    fn mechanical(&mut self, m: &MechanicalTable) {
        self.sourced("mechanical.rpm", "rotations a minute", &m.rpm);
        let seek: Vec<String> = m.seek.value.iter().map(|(share, ms)| format!("{share}: {ms}")).collect();
        self.push("mechanical.seek", "share of stroke: ms", &seek.join(", "), &m.seek.source);
        self.sourced("mechanical.switch_ms", "ms", &m.switch_ms);
        self.sourced("mechanical.overhead_ms", "ms", &m.overhead_ms);
        self.optional("mechanical.write_settle_ms", "ms", &m.write_settle_ms);
        self.optional("mechanical.skew_ms", "ms", &m.skew_ms);
        self.optional("mechanical.write_cache_bytes", "bytes", &m.write_cache_bytes);
        self.optional("mechanical.read_ahead_bytes", "bytes", &m.read_ahead_bytes);
        self.optional("mechanical.bus_bytes_per_s", "bytes/s", &m.bus_bytes_per_s);
    }
}

fn describe_zones(zones: &[ZoneTable]) -> String {
    let lengths = zones.iter().flat_map(|z| match &z.track_sectors {
        Lengths::All(n) => std::slice::from_ref(n),
        Lengths::Each(all) => all.as_slice(),
    });
    let (longest, shortest) = (lengths.clone().max().unwrap_or(&0), lengths.min().unwrap_or(&0));
    let tracks: u64 = zones.iter().fold(0, |sum, z| sum.saturating_add(z.tracks));
    match zones.len() {
        1 => format!("1 recording zone, {tracks} tracks a surface of {longest} sectors"),
        n => format!("{n} recording zones, {tracks} tracks a surface of {longest} to {shortest} sectors"),
    }
}

fn describe_slips(slips: &[u64]) -> String {
    let first: Vec<String> = slips.iter().take(8).map(u64::to_string).collect();
    let more = if slips.len() > 8 { format!(" and {} more", slips.len() - 8) } else { String::new() };
    first.join(", ") + &more
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
