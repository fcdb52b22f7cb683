//! Drive files: TOML in which every key is a table of a value, its source and, where it is known only roughly, the range that it lies in.
//!
//! Unknown keys, wrong types and missing sources are errors with file, line and column. Each key is declared once in the tables below, with
//! its unit and range; `build.rs` checks whether values fit together.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{ReadAheadTo, Translation, WriteCacheOrder};
use crate::error::Error;
use crate::quantity::{
    parse_bytes, parse_count, parse_duration, parse_number, parse_percent, parse_sectors, parse_share,
};
use crate::toml_file::{Mistake, TomlKeys};

/// A table of a drive file: each key with its type, its unit, and the range of its values with the remedy, where it has one.
macro_rules! table {
    ($(#[$attribute:meta])* struct $table:ident = $name:literal {
        $($key:ident: $type:ty, $unit:literal $(, $range:expr, $remedy:literal)?;)*
    }) => {
        #[derive(Clone, Debug)]
        $(#[$attribute])*
        pub(super) struct $table {
            $(pub $key: $type,)*
        }

        impl $table {
            const NAME: &str = $name;

            /// The table, if the file has it.
            fn take_from(file: &mut TomlKeys) -> Result<Option<$table>, Mistake> {
                let Some(mut keys) = file.table($name, &[$(stringify!($key)),*])? else { return Ok(None) };
                let table = $table { $($key: FileEntry::take(&mut keys, stringify!($key), $unit)?,)* };
                keys.end();
                Ok(Some(table))
            }

            fn visit(&mut self, visit: KeyVisitor) {
                $(self.$key.visit(visit, concat!($name, ".", stringify!($key)), $unit);)*
            }

            /// Refuses a value out of its key's range.
            fn check(&self) -> Result<(), Error> {
                $($(
                    if let Some(value) = self.$key.given() && !($range).contains(&value) {
                        let key = concat!($name, ".", stringify!($key));
                        return Err(Error::Impossible(format!("{key} = {value}: {}", $remedy)));
                    }
                )?)*
                Ok(())
            }
        }
    };
}

/// Keys of the file itself.
const FILE: [&str; 7] = [
    "name",
    "summary",
    GeometryTable::NAME,
    InterferenceTable::NAME,
    ConstantTable::NAME,
    MechanicalTable::NAME,
    TranslationTable::NAME,
];

#[derive(Clone, Debug)]
pub(super) struct DriveFile {
    pub name: String,
    pub summary: String,
    pub geometry: GeometryTable,
    pub interference: InterferenceTable,
    pub constant: Option<ConstantTable>,
    pub mechanical: Option<MechanicalTable>,
    pub translation: Option<TranslationTable>,
    /// How many times the drive has each of its surfaces: more than once if it was made larger.
    pub copies: u32,
    /// The model of the catalogue that it stands for, if it was made for another model.
    pub stands_for: Option<&'static str>,
}

impl ZoneTable {
    /// True if it has keys that only zones over all surfaces have.
    pub fn is_over_all_surfaces(&self) -> bool {
        self.offset.or(self.head_skew).or(self.cylinder_skew).is_some()
            || self.spare_sectors.or(self.spare_tracks).is_some()
            || self.front > 0
            || !self.slips.is_empty()
    }
}

impl MechanicalTable {
    /// True if it has a key that only a buffered clock uses: an overhead for one kind of command or for a part of it, or a watermark of
    /// reads. That of writes has no effect without `write_data_ms`.
    pub fn has_electronics(&self) -> bool {
        let by_kind = [&self.read_miss_ms, &self.read_hit_ms, &self.write_ms, &self.media_write_ms];
        let others = [
            &self.write_data_ms,
            &self.read_reselect_ms,
            &self.read_completion_ms,
            &self.write_completion_ms,
            &self.watermark,
        ];
        by_kind.iter().any(|key| key.is_some()) || others.iter().any(|key| key.is_some())
    }
}

table! {
    struct GeometryTable = "geometry" {
        surfaces: Option<Sourced<u32>>, "", 1..=64, "give 1 to 64";
        order: Option<Sourced<OrderName>>, "";
        run_tracks: Option<Sourced<u64>>, "tracks";
        zones: Sourced<Vec<ZoneTable>>, "";
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
    Run(u64, u64),
}

named_values! {
    /// Order of tracks.
    pub(super) enum OrderName {
        /// All tracks of a recording zone on a surface, then those on the next.
        #[default]
        Surfaces = "surfaces",
        /// All tracks of a cylinder, then the next.
        Cylinders = "cylinders",
        /// Cylinder by cylinder, the surfaces forward on a zone's first cylinder, back on its next.
        Alternating = "alternating",
        /// Cylinder by cylinder, the surfaces forward on each even cylinder of the disk, back on each odd one.
        AlternatingThroughout = "alternating-throughout",
        /// `run_tracks` tracks on a surface, then as many on the next, back.
        Serpentine = "serpentine",
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
        cw_degrees: Option<Sourced<f64>>, "°", 0.0..360.0, "give degrees from 0 to below 360";
        ccw_degrees: Option<Sourced<f64>>, "°", 0.0..360.0, "give degrees from 0 to below 360";
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
        write_data_ms: Option<Sourced<f64>>, "ms";
        read_reselect_ms: Option<Sourced<f64>>, "ms";
        read_completion_ms: Option<Sourced<f64>>, "ms";
        write_completion_ms: Option<Sourced<f64>>, "ms";
        write_settle_ms: Option<Sourced<f64>>, "ms";
        skew_ms: Option<Sourced<f64>>, "ms";
        write_cache_bytes: Option<Sourced<u64>>, "bytes", ..=1 << 34, "give at most 17179869184";
        write_cache_order: Option<Sourced<WriteCacheOrder>>, "";
        read_ahead_bytes: Option<Sourced<u64>>, "bytes";
        read_ahead_to: Option<Sourced<ReadAheadTo>>, "";
        segment_bytes: Option<Sourced<u64>>, "bytes";
        segments: Option<Sourced<u32>>, "stretches", 1..=4096, "give 1 to 4096";
        reads_passing: Option<Sourced<bool>>, "";
        keeps_requested: Option<Sourced<bool>>, "";
        watermark: Option<Sourced<f64>>, "share of a read", 0.0..=1.0, "give a share from 0 to 1";
        write_watermark: Option<Sourced<f64>>, "share of a write", 0.0..=1.0, "give a share from 0 to 1";
        bus_bytes_per_s: Option<Sourced<f64>>, "bytes/s", 1e3..=1e13, "give 1e3 to 1e13";
        write_bus_bytes_per_s: Option<Sourced<f64>>, "bytes/s", 1e3..=1e13, "give 1e3 to 1e13";
        queued_commands: Option<Sourced<u32>>, "commands", 2..=65_536,
            "give 2 to 65536, or leave it out for a drive that orders none";
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

/// The layer that the drive is sold with. Its name and parameters are checked by the layers.
#[derive(Clone, Debug)]
pub(super) struct TranslationTable {
    layer: Sourced<Parameter>,
    parameters: Vec<(String, Sourced<Parameter>)>,
}

impl TranslationTable {
    const NAME: &str = "translation";
    const LAYER: &str = "layer";

    fn take_from(file: &mut TomlKeys) -> Result<Option<TranslationTable>, Mistake> {
        let Some(mut keys) = file.open_table(Self::NAME)? else { return Ok(None) };
        let layer = FileEntry::take(&mut keys, Self::LAYER, "")?;
        let mut parameters = Vec::new();
        for key in keys.names() {
            parameters.extend(Sourced::take(&mut keys, &key, "")?.map(|value| (key, value)));
        }
        keys.end();
        Ok(Some(TranslationTable { layer, parameters }))
    }

    fn visit(&mut self, visit: KeyVisitor) {
        visit("translation.layer", "", &mut self.layer);
        for (key, value) in &mut self.parameters {
            visit(&format!("translation.{key}"), "", value);
        }
    }

    pub fn translation(&self) -> Translation {
        let parameters = self.parameters.iter().map(|(key, value)| (key.clone(), value.value.0.clone())).collect();
        Translation { layer: self.layer.value.0.clone(), parameters }
    }
}

/// A value that its layer reads.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "toml::Value")]
pub(super) struct Parameter(String);

impl From<toml::Value> for Parameter {
    fn from(value: toml::Value) -> Parameter {
        Parameter(match value {
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Float(number) => number.to_string(),
            toml::Value::Boolean(yes) => yes.to_string(),
            toml::Value::Datetime(time) => time.to_string(),
            // No key takes these: the text is for a message.
            toml::Value::Array(_) => "a list".into(),
            toml::Value::Table(_) => "a table".into(),
            toml::Value::String(text) => text,
        })
    }
}

impl FileValue for Parameter {
    fn shown(&self) -> String {
        self.0.clone()
    }

    fn of_text(text: &str, _unit: &str) -> Option<Parameter> {
        Some(Parameter(text.into()))
    }

    fn is_between(&self, low: &Self, high: &Self) -> bool {
        let size = |text: &str| parse_bytes(text).map(|bytes| bytes as f64);
        let duration = |text: &str| parse_duration(text).map(|time| time.0 as f64);
        // The kind of value is known to the layer alone: it may be a number, a size or a duration.
        let number = |text: &str| parse_number(text).or_else(|_| size(text)).or_else(|_| duration(text)).ok();
        match [low, self, high].map(|parameter| number(&parameter.0)) {
            [Some(low), Some(value), Some(high)] => low <= value && value <= high && low < high,
            _ => false,
        }
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
            geometry: GeometryTable::take_from(&mut keys)?.ok_or_else(|| keys.lacks(GeometryTable::NAME))?,
            interference: InterferenceTable::take_from(&mut keys)?.unwrap_or_default(),
            constant: ConstantTable::take_from(&mut keys)?,
            mechanical: MechanicalTable::take_from(&mut keys)?,
            translation: TranslationTable::take_from(&mut keys)?,
            copies: 1,
            stands_for: None,
        };
        keys.end();
        Ok(file)
    }

    /// Refuses values out of the ranges of their keys.
    pub fn check(&self) -> Result<(), Error> {
        self.geometry.check()?;
        self.interference.check()?;
        self.constant.as_ref().map_or(Ok(()), ConstantTable::check)?;
        self.mechanical.as_ref().map_or(Ok(()), MechanicalTable::check)
    }

    /// Shows every key, in the order of the file's tables.
    fn visit(&mut self, visit: KeyVisitor) {
        self.geometry.visit(visit);
        self.interference.visit(visit);
        self.constant.iter_mut().for_each(|table| table.visit(visit));
        self.mechanical.iter_mut().for_each(|table| table.visit(visit));
        self.translation.iter_mut().for_each(|table| table.visit(visit));
    }
}

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

    /// Sets key `wanted` to an end of its range, or to a number. If it can't be set, returns the keys that have ranges.
    pub fn choose(&mut self, wanted: &str, value: &str) -> Result<(), Vec<String>> {
        let (mut chosen, mut with_range) = (false, Vec::new());
        self.visit(&mut |name, unit, key| {
            if key.setting(name, unit).range.is_some() {
                with_range.push(name.to_string());
            }
            chosen |= name == wanted && key.choose(unit, value);
        });
        if chosen { Ok(()) } else { Err(with_range) }
    }
}

/// A value and where it comes from: a paper, arithmetic, or "assumption".
#[derive(Clone, Debug)]
pub(super) struct Sourced<T> {
    pub value: T,
    pub source: String,
    /// The ends of the range of the value.
    low: Option<T>,
    high: Option<T>,
}

/// One value of a drive file, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DriveSetting {
    /// The key, dotted.
    pub key: String,
    /// The value as text.
    pub value: String,
    /// The unit; empty for names and counts without one.
    pub unit: String,
    /// The source of the value.
    pub source: String,
    /// The lowest and the highest value, where it is known only roughly.
    pub range: Option<(String, String)>,
}

impl DriveSetting {
    /// Kinds of sources with the words that show them. A value that is partly assumed counts as assumed.
    const BASES: [(&str, &[&str]); 5] = [
        ("assumed", &["assumption"]),
        ("derived", &["derived"]),
        ("data sheet", &["data sheet", "product data", "specification", "manual", "sata "]),
        ("measured", &["measured", "smartctl", "hdparm", "reports", "zonedstorage", "vguard 2017"]),
        ("reported", &[""]),
    ];

    /// How the value is known: assumed in part or whole, derived, from a data sheet, measured, or reported.
    pub fn basis(&self) -> &'static str {
        let source = self.source.to_lowercase();
        let is_told = |words: &[&str]| words.iter().any(|word| source.contains(word));
        Self::BASES.iter().find(|(_, words)| is_told(words)).map_or("reported", |(basis, _)| basis)
    }
}

/// The ends of a range, as they are written in the name of a drive.
pub const RANGE_ENDS: [&str; 2] = ["low", "high"];

/// A type of value that a drive file can have.
pub(super) trait FileValue: Clone + DeserializeOwned {
    /// The value for people.
    fn shown(&self) -> String;

    /// True if it is a number between two others; names and lists never are.
    fn is_between(&self, _low: &Self, _high: &Self) -> bool {
        false
    }

    /// The value that a number means, if it is one.
    fn of_number(_number: f64) -> Option<Self> {
        None
    }

    /// The value that a text means: a number in the unit of its key, which may be left out.
    fn of_text(text: &str, unit: &str) -> Option<Self> {
        let with_unit = number(text, unit).and_then(Result::ok);
        with_unit.or_else(|| parse_number(text).ok()).and_then(Self::of_number)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl FileValue for $number {
            fn shown(&self) -> String {
                self.to_string()
            }

            fn is_between(&self, low: &Self, high: &Self) -> bool {
                low <= self && self <= high && low < high
            }

            fn of_number(number: f64) -> Option<$number> {
                (number as $number as f64 == number).then_some(number as $number)
            }
        }
    )*};
}

/// Values that are shown as they are written.
macro_rules! names {
    ($($name:ty),*) => {$(
        impl FileValue for $name {
            fn shown(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

numbers!(f64, u64, u32);
names!(bool, ReadAheadTo, WriteCacheOrder, OrderName, ByBefore);

/// A seek curve's points.
impl FileValue for Vec<(f64, f64)> {
    fn shown(&self) -> String {
        self.iter().map(|(distance, ms)| format!("{distance}: {ms}")).collect::<Vec<_>>().join(", ")
    }

    fn is_between(&self, low: &Self, high: &Self) -> bool {
        let alike = |other: &Self| other.len() == self.len() && other.iter().zip(self).all(|(a, b)| a.0 == b.0);
        let within = |at: usize| low[at].1 <= self[at].1 && self[at].1 <= high[at].1;
        alike(low) && alike(high) && (0..self.len()).all(within) && low != high
    }
}

/// A key of a drive file, whatever its type.
pub(super) trait DriveFileKey {
    /// The key for people.
    fn setting(&self, key: &str, unit: &str) -> DriveSetting;

    /// The key's mistake and its remedy, if it has one.
    fn problem(&self) -> Option<&'static str>;

    /// Sets the value to an end of its range, or to another value; returns `false` if there is no such value.
    fn choose(&mut self, unit: &str, value: &str) -> bool;
}

impl<T: FileValue> DriveFileKey for Sourced<T> {
    fn setting(&self, key: &str, unit: &str) -> DriveSetting {
        let range = self.low.as_ref().zip(self.high.as_ref()).map(|(low, high)| (low.shown(), high.shown()));
        DriveSetting {
            key: key.into(),
            value: self.value.shown(),
            unit: unit.into(),
            source: self.source.clone(),
            range,
        }
    }

    fn problem(&self) -> Option<&'static str> {
        if self.source.trim().is_empty() {
            return Some("has no source: name one, or write \"assumption\"");
        }
        match (&self.low, &self.high) {
            (None, None) => None,
            (Some(low), Some(high)) if self.value.is_between(low, high) => None,
            (Some(_), Some(_)) => {
                Some("has a range without its value: give numbers or seek curves, low and high on either side of value")
            }
            _ => Some("has half a range: give both low and high, or neither"),
        }
    }

    fn choose(&mut self, unit: &str, value: &str) -> bool {
        let chosen = match value {
            "low" => self.low.clone(),
            "high" => self.high.clone(),
            _ => T::of_text(value, unit),
        };
        let Some(value) = chosen else { return false };
        (self.value, self.low, self.high) = (value, None, None);
        true
    }
}

/// Called with the name, unit and value of each key of a file.
type KeyVisitor<'a> = &'a mut dyn FnMut(&str, &str, &mut dyn DriveFileKey);

/// A key of a table, which files need or may have.
pub(super) trait FileEntry: Sized {
    type Value;

    /// Its value, if the file has it.
    fn given(&self) -> Option<Self::Value>;

    /// Takes it from the keys of the table.
    fn take(keys: &mut TomlKeys, key: &'static str, unit: &str) -> Result<Self, Mistake>;

    /// Shows it, if the file has it.
    fn visit(&mut self, visit: KeyVisitor, key: &str, unit: &str);
}

/// A number that is written as text, converted to the unit of its key. `None` for a key without a unit, whose text is no number.
fn number(text: &str, unit: &str) -> Option<Result<f64, Error>> {
    Some(match unit {
        "" => return None,
        "bytes" => parse_bytes(text).map(|bytes| bytes as f64),
        "sectors" => parse_sectors(text).map(|sectors| sectors as f64),
        "ms" => parse_duration(text).map(|time| time.0 as f64 / 1e6),
        "µs" => parse_duration(text).map(|time| time.0 as f64 / 1e3),
        _ if unit.starts_with('%') => parse_percent(text),
        _ if unit.starts_with("share") => parse_share(text),
        _ => parse_number(text).or_else(|_| parse_count(text).map(|count| count as f64)),
    })
}

impl<T: FileValue> Sourced<T> {
    /// Takes it from the keys of a table, if it is there.
    fn take(keys: &mut TomlKeys, key: &str, unit: &str) -> Result<Option<Sourced<T>>, Mistake> {
        let Some(mut parts) = keys.table(key, &["value", "source", "low", "high"])? else { return Ok(None) };
        let number = |text: &str| number(text, unit);
        let value = parts.get_number("value", number)?.ok_or_else(|| parts.lacks("value"))?;
        let (low, high) = (parts.get_number("low", number)?, parts.get_number("high", number)?);
        let sourced = Sourced { value, source: parts.need("source")?, low, high };
        parts.end();
        Ok(Some(sourced))
    }
}

impl<T: FileValue> FileEntry for Option<Sourced<T>> {
    type Value = T;

    fn given(&self) -> Option<T> {
        self.as_ref().map(|sourced| sourced.value.clone())
    }

    fn take(keys: &mut TomlKeys, key: &'static str, unit: &str) -> Result<Self, Mistake> {
        Sourced::take(keys, key, unit)
    }

    fn visit(&mut self, visit: KeyVisitor, key: &str, unit: &str) {
        if let Some(sourced) = self {
            visit(key, unit, sourced);
        }
    }
}

impl<T: FileValue> FileEntry for Sourced<T> {
    type Value = T;

    fn given(&self) -> Option<T> {
        Some(self.value.clone())
    }

    fn take(keys: &mut TomlKeys, key: &'static str, unit: &str) -> Result<Self, Mistake> {
        Sourced::take(keys, key, unit)?.ok_or_else(|| keys.lacks(key))
    }

    fn visit(&mut self, visit: KeyVisitor, key: &str, unit: &str) {
        visit(key, unit, self);
    }
}
