//! The description of a rebuild as users write it: `disk=1,order=ascending,write=512KiB,window=32,after=1000`.
//!
//! `docs/reference/arrays.md` has the keys.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::keys;
use crate::names;
use crate::quantity::{exact_bytes, exact_duration};
use crate::schema::{Count, Key, Keyed, Maybe, Sectors, Size, TextPiece, Time, Values, Word, kept_as_text, share};
use crate::units::{Nanos, SECTOR_BYTES};

/// The most sectors of a piece: 64 MiB (assumption).
const PIECE_SECTORS_MAX: u64 = 1 << 17;

/// Sectors of a piece in ascending order: 512 KiB.
const ASCENDING_SECTORS: u64 = 1024;

/// Sectors of a record: 128 KiB.
const RECORD_SECTORS: u64 = 256;

/// Defaults of a ZFS resilver: records in runs of 3 MB, on a full disk (assumption).
const RESILVER: [(&str, &str); 3] = [("order", "scattered"), ("record", "128Ki"), ("run", "3M")];

/// The most outstanding commands, as for the host.
const WINDOW_MAX: u64 = 65_536;

/// A rebuild, a resilver or a scrub; `Display` gives its canonical text, which parses to the same. Results hold that text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct RebuildSpec {
    /// The task.
    pub task: Task,
    /// In which order and in what pieces.
    pub order: RebuildOrder,
    /// Pieces outstanding.
    pub window: u32,
    /// The most bytes a second.
    pub rate: Option<u64>,
    /// When the work begins.
    pub begin: Begin,
}

/// Task of a rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// A member fails, and a new one is rebuilt in its place.
    Rebuild {
        /// The disk.
        disk: u32,
        /// True if it fails when counting begins; else when the work begins.
        before: bool,
        /// True if the new member was filled once, and never trimmed.
        used: bool,
    },
    /// All members are read, and in check mode compared.
    Scrub,
}

/// The order in which a member is rebuilt or read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RebuildOrder {
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
    },
}

/// When the work begins, or earlier, when all of the host's requests are complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// After this many requests of the host.
    After(u64),
    /// This long after counting began.
    At(Nanos),
}

/// Words that may come before the keys.
const TASKS: [&str; 3] = ["rebuild", "resilver", "scrub"];

const PIECE: Sectors = Sectors(1, PIECE_SECTORS_MAX);

keys! {
    /// Rate of the work, and the moment when it begins.
    struct RateKeys {
        /// Number of pieces that are rebuilt or scrubbed at once.
        window: u64 = Count(1, WINDOW_MAX), "32";
        /// Maximum rate of the rebuild or scrub, in bytes a second; no limit by default.
        rate: Option<u64> = Maybe(Size(1, u64::MAX)), "";
        /// Number of host requests after which the rebuild or scrub begins; 0 by default.
        after: Option<u64> = Maybe(Count(0, u64::MAX)), "";
        /// Time after the beginning of counting at which the rebuild or scrub begins (instead of `after`).
        at: Option<Nanos> = Maybe(Time(0)), "";
    }
}

keys! {
    /// A rebuild or a resilver.
    struct RebuildKeys {
        /// Number of the member that fails, counted from 0.
        disk: u64 = Count(0, u32::MAX as u64), "0";
        /// When the member fails: at the beginning of the rebuild (then), or before counting begins (before).
        failed: bool = Word(&[("then", false), ("before", true)]), "then";
        /// State of the new disk: empty, as it left the factory; or full, because it was filled once and never trimmed.
        new: bool = Word(&[("empty", false), ("full", true)]), "empty";
        /// Order of the rebuild: the whole member from its first sector to its last (ascending), or records in the
        /// order in which ZFS finds them (scattered).
        order: bool = Word(&[("ascending", false), ("scattered", true)]), "ascending";
        /// With `order=ascending`, length of a piece; 512Ki by default.
        write: Option<u64> = Maybe(PIECE), "";
        /// With `order=scattered`, length of a piece, which is a record; 128Ki by default.
        record: Option<u64> = Maybe(PIECE), "";
        /// With `order=scattered`, mean length of a run of neighbouring records; one record by default.
        run: Option<u64> = Maybe(Size(0, u64::MAX)), "";
        /// With `order=scattered`, share of the disk that is in use and has to be rebuilt; all of it by default.
        live: Option<f64> = Maybe(share()), "";
        /// Rate and beginning.
        pace: RateKeys;
    }
}

keys! {
    /// A scrub.
    struct ScrubKeys {
        /// Always from the first sector on.
        order: () = Word(&[("ascending", ())]), "ascending";
        /// Length of a piece of a scrub, which is read from each member.
        read: u64 = PIECE, "512Ki";
        /// Rate and beginning.
        pace: RateKeys;
    }
}

impl RebuildSpec {
    /// The keys of a rebuild, and those that only a scrub has.
    pub fn keys() -> Vec<Key> {
        let mut keys = RebuildKeys::keys();
        let of_scrub = ScrubKeys::keys();
        keys.extend(of_scrub.into_iter().filter(|key| RebuildKeys::keys().iter().all(|other| other.name != key.name)));
        keys
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Result<RebuildSpec, Error> {
        let text = TextPiece::whole("rebuild", text);
        // `scrub:read=1MiB` or `scrub,read=1MiB`. Before a comma, any other word begins a key.
        let named =
            text.split_once(':').or_else(|| text.split_once(',').filter(|(task, _)| TASKS.contains(&task.text)));
        let (task, keys) = match named {
            Some(parts) => parts,
            None if TASKS.contains(&text.text) => (text, text.slice(0, 0)),
            None if !text.text.is_empty() && !text.text.contains('=') => {
                let known = names::known(text.text, TASKS.into_iter());
                let message = format!("no task is called so; {known}. For anything else, expected key=value");
                return Err(text.error(message).into());
            }
            // Keys without a task are those of a rebuild.
            None => (TextPiece::whole("rebuild", "rebuild"), text),
        };
        let defaults: &[(&str, &'static str)] = if task.text == "resilver" { &RESILVER } else { &[] };
        let (task, order, pace) = match task.text {
            "scrub" => {
                let ScrubKeys { read: sectors, pace, .. } = read(keys, defaults)?;
                (Task::Scrub, RebuildOrder::Ascending { sectors }, pace)
            }
            "rebuild" | "resilver" => {
                let rebuild: RebuildKeys = read(keys, defaults)?;
                let task = Task::Rebuild { disk: rebuild.disk as u32, before: rebuild.failed, used: rebuild.new };
                (task, rebuild.order()?, rebuild.pace)
            }
            other => {
                let known = names::known(other, TASKS.into_iter());
                return Err(task.error(format!("neither a rebuild nor a scrub; {known}")).into());
            }
        };
        let begin = match (pace.after, pace.at) {
            (Some(_), Some(_)) => return wrong("it begins after a number of requests or at a time: leave one out"),
            (None, Some(time)) => Begin::At(time),
            (after, None) => Begin::After(after.unwrap_or(0)),
        };
        Ok(RebuildSpec { task, order, window: pace.window as u32, rate: pace.rate, begin })
    }

    /// Sectors of a piece.
    pub fn piece_sectors(&self) -> u64 {
        match self.order {
            RebuildOrder::Ascending { sectors } => sectors,
            RebuildOrder::Scattered { record_sectors, .. } => record_sectors,
        }
    }
}

/// Reads keys from `key=value,…`, with other defaults for some of them.
fn read<K: Keyed>(text: TextPiece<'_>, defaults: &[(&str, &'static str)]) -> Result<K, Error> {
    let with_default = |key: Key| match defaults.iter().find(|(name, _)| *name == key.name) {
        Some((_, default)) => key.with_default(default),
        None => key,
    };
    let mut values = Values::new(K::keys().into_iter().map(with_default).collect());
    text.fill(&mut values)?;
    K::read(&values)
}

impl RebuildKeys {
    fn order(&self) -> Result<RebuildOrder, Error> {
        if !self.order {
            let given = [("record", self.record.is_some()), ("run", self.run.is_some()), ("live", self.live.is_some())];
            return match given.iter().find(|(_, given)| *given) {
                Some((key, _)) => wrong(&format!("{key} belongs to order=scattered: add that, or leave it out")),
                None => Ok(RebuildOrder::Ascending { sectors: self.write.unwrap_or(ASCENDING_SECTORS) }),
            };
        }
        if self.write.is_some() {
            return wrong("with order=scattered a write is a record: give record=SIZE in place of write");
        }
        let record_sectors = self.record.unwrap_or(RECORD_SECTORS);
        let run_sectors = self.run.map_or(record_sectors, |bytes| bytes / SECTOR_BYTES);
        if run_sectors < record_sectors {
            return wrong("runs are shorter than a record: raise run, or lower record");
        }
        let live = self.live.unwrap_or(1.0);
        if live == 0.0 {
            return wrong("live=0: nothing is in use, so that there is nothing to rebuild: raise it");
        }
        Ok(RebuildOrder::Scattered { record_sectors, run_sectors, live })
    }
}

/// The error for values that don't go together.
fn wrong<T>(message: &str) -> Result<T, Error> {
    Err(Error::Usage(format!("rebuild: {message}")))
}

impl FromStr for RebuildSpec {
    type Err = Error;
    fn from_str(text: &str) -> Result<RebuildSpec, Error> {
        RebuildSpec::parse(text)
    }
}

kept_as_text!(RebuildSpec);

impl Default for RebuildSpec {
    /// A rebuild of the first member, every key at its default.
    fn default() -> RebuildSpec {
        RebuildSpec::parse("").expect("every key has a default")
    }
}

impl fmt::Display for RebuildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |sectors: u64| exact_bytes(sectors * SECTOR_BYTES);
        let piece = match self.task {
            Task::Rebuild { disk, before, used } => {
                write!(f, "disk={disk},")?;
                if before {
                    f.write_str("failed=before,")?;
                }
                if used {
                    f.write_str("new=full,")?;
                }
                "write"
            }
            Task::Scrub => {
                f.write_str("scrub:")?;
                "read"
            }
        };
        match self.order {
            RebuildOrder::Ascending { sectors } => write!(f, "order=ascending,{piece}={}", bytes(sectors))?,
            RebuildOrder::Scattered { record_sectors, run_sectors, live } => {
                write!(f, "order=scattered,record={},run={}", bytes(record_sectors), bytes(run_sectors))?;
                if live < 1.0 {
                    write!(f, ",live={live}")?;
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
