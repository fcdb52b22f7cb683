//! Faults that are injected into a served drive, and their names.

use std::fmt;
use std::str::FromStr;

use smrkit::error::Error;
use smrkit::quantity::{exact_duration, parse_duration};
use smrkit::units::Nanos;

/// A fault that is injected into a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The power is cut at the next physical write; how much of that is written, the seed decides.
    PowerCut(u64),
    /// Reads of a sector fail until it is written.
    BadSector(u64),
    /// The next request takes this much longer.
    Slow(Nanos),
    /// The next request is never answered.
    Timeout,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::PowerCut(seed) => write!(f, "power-cut {seed}"),
            Fault::BadSector(lba) => write!(f, "bad-sector {lba}"),
            Fault::Slow(span) => write!(f, "slow {}", exact_duration(*span)),
            Fault::Timeout => f.write_str("timeout"),
        }
    }
}

impl FromStr for Fault {
    type Err = Error;
    fn from_str(text: &str) -> Result<Fault, Error> {
        let (name, value) = text.split_once(' ').unwrap_or((text, ""));
        let number = |default: Option<u64>| match (value, default) {
            ("", Some(default)) => Ok(default),
            _ => value.parse().map_err(|_| Error::Usage(format!("'{text}': expected a whole number after {name}"))),
        };
        match name {
            "power-cut" => Ok(Fault::PowerCut(number(Some(1))?)),
            "bad-sector" => Ok(Fault::BadSector(number(None)?)),
            "slow" => Ok(Fault::Slow(parse_duration(value)?)),
            "timeout" if value.is_empty() => Ok(Fault::Timeout),
            _ => Err(Error::Usage(format!("'{text}': expected power-cut, bad-sector LBA, slow TIME or timeout"))),
        }
    }
}
