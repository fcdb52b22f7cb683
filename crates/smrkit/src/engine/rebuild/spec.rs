//! The description of a rebuild as users write it: `disk=1,order=ascending,write=512KiB,window=32,after=1000`.
//!
//! `docs/reference/arrays.md` has the keys.

use std::fmt;

use crate::error::Error;
use crate::names;
use crate::quantity::{
    exact_bytes, exact_duration, parse_bytes, parse_count, parse_duration, parse_sectors, parse_share,
};
use crate::units::{Nanos, SECTOR_BYTES};

/// Sectors of a piece at least and at most: 512 bytes and 64 MiB (assumption).
const PIECE_SECTORS: (u64, u64) = (1, 1 << 17);

/// Commands outstanding at most, as for the host.
const WINDOW_MAX: u64 = 65_536;

/// Records that are sorted at once, at most: 128 MiB of memory (assumption).
const SORTED_MAX: u64 = 1 << 24;

const KEYS: &[&str] =
    &["disk", "order", "write", "read", "window", "rate", "after", "at", "failed", "live", "record", "run", "sorted"];

/// A rebuild, a resilver or a scrub; `Display` gives its canonical text, which parses to the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RebuildSpec {
    /// What is done.
    pub task: Task,
    /// In which order and in what pieces.
    pub order: Order,
    /// Pieces outstanding.
    pub window: u32,
    /// The most bytes a second.
    pub rate: Option<u64>,
    /// When the work begins.
    pub begin: Begin,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// A member fails, and a new one is rebuilt in its place.
    Rebuild {
        /// Which.
        disk: u32,
        /// Whether it fails when counting begins, or as the work begins.
        before: bool,
    },
    /// All members are read, and in check mode compared.
    Scrub,
}

/// In which order a member is gone through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// All of it from the first sector on, as mdraid does.
    Ascending {
        /// Sectors of a piece.
        sectors: u64,
    },
    /// Records as ZFS finds them, in runs.
    Scattered {
        /// Sectors of a record.
        record_sectors: u64,
        /// Sectors of a run, on average.
        run_sectors: u64,
        /// The share of the disk that is in use.
        live: f64,
        /// Records that are sorted at once; 0 for none.
        sorted: u64,
    },
}

/// When the work begins; where the host's requests are all answered before that, then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// After so many requests of the host.
    After(u64),
    /// So long after counting began.
    At(Nanos),
}

/// Values as they were given.
#[derive(Default)]
struct Given<'a>(Vec<(&'a str, &'a str)>);

impl RebuildSpec {
    /// Reads the text form.
    pub fn parse(text: &str) -> Result<RebuildSpec, Error> {
        let text = text.trim();
        let (task, rest) = match text.split_once(':') {
            Some((task, rest)) => (task.trim(), rest),
            None if text == "scrub" || text == "rebuild" => (text, ""),
            None => ("rebuild", text),
        };
        let given = Given::read(rest)?;
        let scrub = match task {
            "rebuild" => false,
            "scrub" => true,
            other => {
                let known = names::known(other, ["rebuild", "scrub"].into_iter());
                return Err(wrong(other, format!("neither a rebuild nor a scrub; {known}")));
            }
        };
        let task = match scrub {
            true => given.only(&["order", "read", "window", "rate", "after", "at"], "a scrub").map(|()| Task::Scrub)?,
            false => given.rebuild()?,
        };
        Ok(RebuildSpec {
            task,
            order: given.order(scrub)?,
            window: given.number("window", 32, 1, WINDOW_MAX)? as u32,
            rate: given.rate()?,
            begin: given.begin()?,
        })
    }

    /// Sectors of a piece.
    pub fn piece_sectors(&self) -> u64 {
        match self.order {
            Order::Ascending { sectors } => sectors,
            Order::Scattered { record_sectors, .. } => record_sectors,
        }
    }
}

impl<'a> Given<'a> {
    fn read(text: &'a str) -> Result<Given<'a>, Error> {
        let mut given = Given::default();
        for item in text.split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
            let Some((key, value)) = item.split_once('=').map(|(key, value)| (key.trim(), value.trim())) else {
                return Err(wrong(item, "expected key=value"));
            };
            if !KEYS.contains(&key) {
                return Err(wrong(key, format!("no key of this name; {}", names::known(key, KEYS.iter().copied()))));
            }
            if given.get(key).is_some() {
                return Err(wrong(key, "given twice: leave one out"));
            }
            given.0.push((key, value));
        }
        Ok(given)
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find(|(other, _)| *other == key).map(|(_, value)| *value)
    }

    /// Refuses keys that are not among `keys`.
    fn only(&self, keys: &[&str], what: &str) -> Result<(), Error> {
        match self.0.iter().find(|(key, _)| !keys.contains(key)) {
            Some((key, _)) => {
                Err(wrong(key, format!("{what} has no such key: leave it out, or use {}", keys.join(", "))))
            }
            None => Ok(()),
        }
    }

    fn rebuild(&self) -> Result<Task, Error> {
        if self.get("read").is_some() {
            return Err(wrong("read", "what is read is as large as what is written: give write=SIZE, or record=SIZE"));
        }
        let before = match self.get("failed") {
            None | Some("then") => false,
            Some("before") => true,
            Some(other) => {
                return Err(wrong(other, "failed is `before` (counting begins) or `then` (when the rebuild begins)"));
            }
        };
        Ok(Task::Rebuild { disk: self.number("disk", 0, 0, u64::from(u32::MAX))? as u32, before })
    }

    fn order(&self, scrub: bool) -> Result<Order, Error> {
        match self.get("order").unwrap_or("ascending") {
            "ascending" => {
                let foreign = ["live", "record", "run", "sorted"].into_iter().find(|key| self.get(key).is_some());
                if let Some(key) = foreign {
                    return Err(wrong(key, "belongs to order=scattered: add that, or leave it out"));
                }
                Ok(Order::Ascending { sectors: self.piece(if scrub { "read" } else { "write" }, "512Ki")? })
            }
            "scattered" if scrub => Err(wrong("scattered", "a scrub goes in order: leave order out")),
            "scattered" => self.scattered(),
            other => Err(wrong(
                other,
                format!("no such order; {}", names::known(other, ["ascending", "scattered"].into_iter())),
            )),
        }
    }

    fn scattered(&self) -> Result<Order, Error> {
        if self.get("write").is_some() {
            return Err(wrong("write", "with order=scattered a write is a record: give record=SIZE"));
        }
        let record_sectors = self.piece("record", "128Ki")?;
        let run_sectors = match self.get("run") {
            None => record_sectors,
            Some(text) => parse_bytes(text).map_err(|e| wrong(text, e))? / SECTOR_BYTES,
        };
        if run_sectors < record_sectors {
            return Err(wrong("run", "runs are shorter than a record: raise run, or lower record"));
        }
        let live = self.get("live").map_or(Ok(1.0), |text| parse_share(text).map_err(|e| wrong(text, e)))?;
        if live == 0.0 {
            return Err(wrong("live", "nothing is in use, so that there is nothing to rebuild: raise it"));
        }
        let sorted = self.number("sorted", 0, 0, SORTED_MAX)?;
        Ok(Order::Scattered { record_sectors, run_sectors, live, sorted })
    }

    fn piece(&self, key: &str, default: &'static str) -> Result<u64, Error> {
        let text = self.get(key).unwrap_or(default);
        let sectors = parse_sectors(text).map_err(|e| wrong(text, e))?;
        match (PIECE_SECTORS.0..=PIECE_SECTORS.1).contains(&sectors) {
            true => Ok(sectors),
            false => Err(wrong(key, "give a size from 512 to 64Mi")),
        }
    }

    fn number(&self, key: &str, default: u64, min: u64, max: u64) -> Result<u64, Error> {
        let Some(text) = self.get(key) else { return Ok(default) };
        match parse_count(text).map_err(|e| wrong(text, e))? {
            number if (min..=max).contains(&number) => Ok(number),
            _ => Err(wrong(key, format!("give a whole number from {min} to {max}"))),
        }
    }

    fn rate(&self) -> Result<Option<u64>, Error> {
        let Some(text) = self.get("rate") else { return Ok(None) };
        match parse_bytes(text).map_err(|e| wrong(text, e))? {
            0 => Err(wrong("rate", "nothing would ever be done: give bytes a second, at least 1, or leave it out")),
            // Sizes are rounded.
            1 if is_less_than_one(text) => {
                Err(wrong(text, "pieces keep to whole bytes a second: give at least 1, or leave it out"))
            }
            rate => Ok(Some(rate)),
        }
    }

    fn begin(&self) -> Result<Begin, Error> {
        match (self.get("after"), self.get("at")) {
            (Some(_), Some(_)) => Err(wrong("at", "it begins after so many requests or at a time: leave one out")),
            (None, Some(text)) => parse_duration(text).map(Begin::At).map_err(|e| wrong(text, e)),
            _ => Ok(Begin::After(self.number("after", 0, 0, u64::MAX)?)),
        }
    }
}

/// Whether a size of one byte has been rounded up to it.
fn is_less_than_one(text: &str) -> bool {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = parse_bytes(&format!("1{unit}")).unwrap_or(1) as f64;
    number.parse::<f64>().is_ok_and(|number| number * unit < 1.0)
}

fn wrong(what: &str, message: impl fmt::Display) -> Error {
    let shown: String = what.chars().take(40).collect();
    Error::Usage(format!("rebuild, `{shown}`: {message}"))
}

impl std::str::FromStr for RebuildSpec {
    type Err = Error;
    fn from_str(text: &str) -> Result<RebuildSpec, Error> {
        RebuildSpec::parse(text)
    }
}

impl fmt::Display for RebuildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |sectors: u64| exact_bytes(sectors * SECTOR_BYTES);
        let piece = match self.task {
            Task::Rebuild { disk, before } => {
                write!(f, "disk={disk},")?;
                if before {
                    f.write_str("failed=before,")?;
                }
                "write"
            }
            Task::Scrub => {
                f.write_str("scrub:")?;
                "read"
            }
        };
        match self.order {
            Order::Ascending { sectors } => write!(f, "order=ascending,{piece}={}", bytes(sectors))?,
            Order::Scattered { record_sectors, run_sectors, live, sorted } => {
                write!(f, "order=scattered,record={},run={}", bytes(record_sectors), bytes(run_sectors))?;
                if live < 1.0 {
                    write!(f, ",live={live}")?;
                }
                if sorted > 0 {
                    write!(f, ",sorted={sorted}")?;
                }
            }
        }
        write!(f, ",window={}", self.window)?;
        if let Some(rate) = self.rate {
            write!(f, ",rate={}", exact_bytes(rate))?;
        }
        match self.begin {
            Begin::After(0) => Ok(()),
            Begin::After(requests) => write!(f, ",after={requests}"),
            Begin::At(time) => write!(f, ",at={}", exact_duration(time)),
        }
    }
}
