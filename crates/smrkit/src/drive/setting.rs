//! Values of a drive file: each with its source and, where it is known only roughly, the range that it lies in.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ReadAheadTo;
use crate::error::Error;
use crate::quantity::{
    parse_bytes, parse_count, parse_duration, parse_number, parse_percent, parse_sectors, parse_share,
};
use crate::toml_file::{Mistake, TomlKeys};

/// A value and where it comes from: a paper, arithmetic, or "assumption".
#[derive(Clone, Debug)]
pub(super) struct Sourced<T> {
    pub value: T,
    pub source: String,
    /// The ends of the range that the value lies in.
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

/// An end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeEnd {
    /// The lowest value.
    Low,
    /// The highest value.
    High,
}

impl RangeEnd {
    /// Both ends.
    pub const ALL: [RangeEnd; 2] = [RangeEnd::Low, RangeEnd::High];

    /// Its name, as drives at an end of a range have it in theirs.
    pub fn name(self) -> &'static str {
        match self {
            RangeEnd::Low => "low",
            RangeEnd::High => "high",
        }
    }
}

/// A type of value that a drive file can have.
pub(super) trait FileValue: Clone + DeserializeOwned {
    /// The value for people.
    fn shown(&self) -> String;

    /// True if it is a number between two others; names and lists never are.
    fn is_between(&self, _low: &Self, _high: &Self) -> bool {
        false
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
names!(bool, ReadAheadTo);
pub(super) use names;

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

/// Slips.
impl FileValue for Vec<u64> {
    fn shown(&self) -> String {
        let first: Vec<String> = self.iter().take(8).map(u64::to_string).collect();
        let more = if self.len() > 8 { format!(" and {} more", self.len() - 8) } else { String::new() };
        first.join(", ") + &more
    }
}

/// A key of a drive file, whatever its type.
pub(super) trait DriveFileKey {
    /// The key for people.
    fn setting(&self, key: &str, unit: &str) -> DriveSetting;

    /// The key's mistake and its remedy, if it has one.
    fn problem(&self) -> Option<&'static str>;

    /// Takes an end of its range for the value; tells whether it has one.
    fn choose(&mut self, end: RangeEnd) -> bool;
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

    fn choose(&mut self, end: RangeEnd) -> bool {
        let chosen = match end {
            RangeEnd::Low => &self.low,
            RangeEnd::High => &self.high,
        };
        let Some(value) = chosen.clone() else { return false };
        (self.value, self.low, self.high) = (value, None, None);
        true
    }
}

/// Shows each key of a file with its unit.
pub(super) type KeyVisitor<'a> = &'a mut dyn FnMut(&str, &str, &mut dyn DriveFileKey);

/// A key of a table, which files need or may have.
pub(super) trait FileEntry: Sized {
    /// Takes it from the keys of the table.
    fn take(keys: &mut TomlKeys, key: &'static str, unit: &str) -> Result<Self, Mistake>;

    /// Shows it, if the file has it.
    fn visit(&mut self, visit: KeyVisitor, key: &str, unit: &str);
}

/// A number that is written as text, in the unit of its key; none where the key has none.
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

impl<T: FileValue> FileEntry for Option<Sourced<T>> {
    fn take(keys: &mut TomlKeys, key: &'static str, unit: &str) -> Result<Self, Mistake> {
        let Some(mut parts) = keys.table(key, &["value", "source", "low", "high"])? else { return Ok(None) };
        let number = |text: &str| number(text, unit);
        let value = parts.get_number("value", number)?.ok_or_else(|| parts.lacks("value"))?;
        let (low, high) = (parts.get_number("low", number)?, parts.get_number("high", number)?);
        let sourced = Sourced { value, source: parts.need("source")?, low, high };
        parts.end();
        Ok(Some(sourced))
    }

    fn visit(&mut self, visit: KeyVisitor, key: &str, unit: &str) {
        if let Some(sourced) = self {
            visit(key, unit, sourced);
        }
    }
}

impl<T: FileValue> FileEntry for Sourced<T> {
    fn take(keys: &mut TomlKeys, key: &'static str, unit: &str) -> Result<Self, Mistake> {
        <Option<Sourced<T>> as FileEntry>::take(keys, key, unit)?.ok_or_else(|| keys.lacks(key))
    }

    fn visit(&mut self, visit: KeyVisitor, key: &str, unit: &str) {
        visit(key, unit, self);
    }
}
