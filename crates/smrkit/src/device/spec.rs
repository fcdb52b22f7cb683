//! The description of an array as users write it: a short text, or a TOML file where members differ.
//!
//! Names of layers and drives are not looked up here. `docs/reference/arrays.md` has the keys.

mod asked;
mod file;
mod resolve;
mod text;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

pub use self::asked::{ArraySpec, DEPTH_MAX, DRIVES_MAX, DriveSpec, MemberSpec};
use self::resolve::{ArrayKeys, CHUNK, DriveKeys, WRITE};
use super::level::{CHUNK_SECTORS, Level, WritePolicy};
use crate::error::Error;
use crate::quantity::exact_bytes;
use crate::schema::{Key, Keyed, ValueKind};
use crate::units::SECTOR_BYTES;

impl DriveSpec {
    /// A drive by its name under a layer with these parameters.
    pub fn of(drive: impl Into<String>, layer: impl Into<String>, set: Vec<(String, String)>) -> DriveSpec {
        DriveSpec { layer: Some(layer.into()), drive: Some(drive.into()), capacity_sectors: None, set }
    }
}

impl ArraySpec {
    /// An array with chunks of the usual size.
    pub fn new(level: Level, members: Vec<MemberSpec>) -> ArraySpec {
        ArraySpec { level, name: level.name(), chunk_sectors: CHUNK_SECTORS, write: WritePolicy::Auto, members }
    }

    /// The keys that are values: those of an array, then those of a drive in it.
    pub fn keys() -> Vec<Key> {
        [ArrayKeys::keys(), DriveKeys::keys()].concat()
    }

    /// Reads the short form: `raid5:disks=4,chunk=512KiB,layer=drive-managed`.
    pub fn parse(text: &str) -> Result<ArraySpec, Error> {
        resolve::array(&text::array(text)?, &DriveSpec::default(), 1)
    }

    /// Reads the TOML form; `path` is for messages.
    pub fn from_toml(path: &Path, text: &str) -> Result<ArraySpec, Error> {
        let raw = file::array(path, text)?;
        resolve::array(&raw, &DriveSpec::default(), 1).map_err(|error| match error {
            Error::Usage(message) => Error::input(path, message),
            other => other,
        })
    }

    /// Number of drives, those of nested arrays included.
    pub fn drives(&self) -> usize {
        self.members.iter().map(MemberSpec::drives).sum()
    }
}

impl MemberSpec {
    /// Reads the short form of an array, or that of a drive: `layer=rmw,drive=tiny,set=(region_sectors=1k)`.
    pub fn parse(text: &str) -> Result<MemberSpec, Error> {
        if Level::named(text.split(':').next().unwrap_or_default()).is_ok() {
            return ArraySpec::parse(text).map(|array| MemberSpec::Array(Box::new(array)));
        }
        let alone = ArraySpec::parse(&format!("{}:disks=1,{text}", Level::Span))?;
        Ok(alone.members.into_iter().next().expect("an array of one"))
    }

    fn drives(&self) -> usize {
        match self {
            MemberSpec::Drive(_) => 1,
            MemberSpec::Array(array) => array.drives(),
        }
    }
}

impl FromStr for ArraySpec {
    type Err = Error;
    fn from_str(text: &str) -> Result<ArraySpec, Error> {
        ArraySpec::parse(text)
    }
}

impl fmt::Display for ArraySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:disks={}", self.name, self.members.len())?;
        // ZFS has no chunks: whoever wrote its words is told of them only if he gave one.
        if self.name == self.level.name() || self.chunk_sectors != CHUNK_SECTORS {
            write!(f, ",chunk={}", CHUNK.write(&self.chunk_sectors).text)?;
        }
        if let Some(copies) = self.level.chosen_copies() {
            write!(f, ",copies={copies}")?;
        }
        if self.level.parities() > 0 && self.write != WritePolicy::Auto {
            write!(f, ",write={}", WRITE.write(&self.write).text)?;
        }
        let alike = self.members.windows(2).all(|pair| pair[0] == pair[1]);
        match self.members.first() {
            Some(MemberSpec::Drive(drive)) if alike => match drive.to_string() {
                none if none.is_empty() => Ok(()),
                keys => write!(f, ",{keys}"),
            },
            Some(member) if alike => write!(f, ",member=({member})"),
            _ => self.members.iter().try_for_each(|member| write!(f, ",member=({member})")),
        }
    }
}

impl fmt::Display for MemberSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemberSpec::Drive(drive) => drive.fmt(f),
            MemberSpec::Array(array) => array.fmt(f),
        }
    }
}

impl fmt::Display for DriveSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut keys = Vec::new();
        keys.extend(self.layer.iter().map(|name| format!("layer={}", text::quoted(name))));
        keys.extend(self.drive.iter().map(|name| format!("drive={}", text::quoted(name))));
        let bytes = |sectors: &u64| exact_bytes(sectors.saturating_mul(SECTOR_BYTES));
        keys.extend(self.capacity_sectors.iter().map(|sectors| format!("capacity={}", bytes(sectors))));
        if !self.set.is_empty() {
            let pairs = self.set.iter().map(|(key, value)| format!("{}={}", text::quoted(key), text::quoted(value)));
            keys.push(format!("set=({})", pairs.collect::<Vec<_>>().join(",")));
        }
        f.write_str(&keys.join(","))
    }
}
