//! The values that keys take: how each form is read, checked and written.

use std::fmt;

use super::arrivals::Spread;
use super::names::known;
use super::sizes::Sizes;
use crate::error::Error;
use crate::quantity::{
    exact_bytes, exact_duration, parse_bytes, parse_count, parse_duration, parse_number, parse_percent, parse_share,
};
use crate::units::{Nanos, SECTOR_BYTES};

/// What a key expects.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// One size, a range, or a list with weights.
    Sizes,
    /// A stretch of addresses: bytes or a percentage of the capacity.
    Reach,
    /// An amount of data.
    Bytes,
    /// A whole number in these limits.
    Count(u64, u64),
    /// A share from 0 to 1.
    Share,
    /// A number in these limits.
    Number(f64, f64),
    /// A duration of at least this many nanoseconds.
    Duration(u64),
    /// How intervals are spread.
    Spread,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// What a key was given.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Sizes(Sizes),
    Bytes(u64),
    /// Of the capacity, as a share.
    Percent(f64),
    Count(u64),
    Number(f64),
    Duration(Nanos),
    Spread(Spread),
    Word(&'static str),
}

impl Form {
    /// Reads a value of this form.
    pub fn parse(self, text: &str) -> Result<Value, Error> {
        match self {
            Form::Sizes => Sizes::parse(text).map(Value::Sizes),
            Form::Reach if text.trim_end().ends_with('%') => parse_percent(text).map(Value::Percent),
            Form::Reach => parse_bytes(text).map(Value::Bytes),
            Form::Bytes => match parse_bytes(text)? {
                bytes if bytes < SECTOR_BYTES => Err(outside(text, "at least 512 bytes")),
                bytes => Ok(Value::Bytes(bytes)),
            },
            Form::Count(low, high) => match parse_count(text)? {
                count if !(low..=high).contains(&count) => Err(outside(text, &self.range())),
                count => Ok(Value::Count(count)),
            },
            Form::Share => parse_share(text).map(Value::Number),
            Form::Number(low, high) => match parse_number(text)? {
                number if !(low..=high).contains(&number) => Err(outside(text, &self.range())),
                number => Ok(Value::Number(number)),
            },
            Form::Duration(least) => match parse_duration(text)? {
                time if time.0 < least => Err(outside(text, &self.range())),
                time => Ok(Value::Duration(time)),
            },
            Form::Spread => Spread::parse(text).map(Value::Spread),
            Form::Word(words) => match words.iter().find(|word| **word == text) {
                Some(word) => Ok(Value::Word(word)),
                None => Err(Error::Usage(format!("unknown value; {}", known(text, words.iter().copied())))),
            },
        }
    }

    /// The values allowed, for help and docs.
    pub fn range(self) -> String {
        match self {
            Form::Sizes => "from 512; 4Ki, 4Ki-64Ki or 4Ki/70:64Ki/30".into(),
            Form::Reach => "or a percentage of the capacity".into(),
            Form::Bytes => "from 512".into(),
            Form::Count(low, u64::MAX) => format!("from {low}"),
            Form::Count(low, high) => format!("{low} to {high}"),
            Form::Share => "0 to 1, or 0% to 100%".into(),
            Form::Number(low, high) => format!("{low} to {high}"),
            Form::Duration(0) => "from 0".into(),
            Form::Duration(1) => "above 0".into(),
            Form::Duration(least) => format!("from {}", exact_duration(Nanos(least))),
            Form::Spread => "even, poisson, normal:DEVIATION".into(),
            Form::Word(words) => words.join(", "),
        }
    }
}

fn outside(text: &str, range: &str) -> Error {
    Error::Usage(format!("`{text}` is out of range: give {range}"))
}

impl fmt::Display for Value {
    /// Exactly, so that it reads back as the same value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Sizes(sizes) => sizes.fmt(f),
            Value::Bytes(bytes) => f.write_str(&exact_bytes(*bytes)),
            Value::Percent(percent) => write!(f, "{percent}%"),
            Value::Count(count) => count.fmt(f),
            Value::Number(number) => number.fmt(f),
            Value::Duration(time) => f.write_str(&exact_duration(*time)),
            Value::Spread(spread) => spread.fmt(f),
            Value::Word(word) => f.write_str(word),
        }
    }
}
