//! The table of workloads: name, keys, and the function that makes the requests. Help, docs, parsing and checks all read it.

use std::fmt;

use super::recipes::{
    Backup, Burst, CassutoDay, DesktopDay, Flush, HotCold, LocalInSpace, LocalInTime, Mix, Overwrite, RandomRead,
    RandomWrite, Recipe, Runs, SequentialRead, SequentialWrite, Site, Streams, Zipf,
};
use crate::error::Error;
use crate::names::known;
use crate::schema::{Key, Refused, TextPiece, Values};

/// A workload: its name, what it does, its keys, and how its requests are made.
#[derive(Debug)]
pub struct WorkloadInfo {
    /// The name, as in `smrkit run --workload NAME`.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Defaults that override those of the keys.
    defaults: &'static [(&'static str, &'static str)],
    keys: fn() -> Vec<Key>,
    check: fn(&Values) -> Result<(), Error>,
    streams: fn(&Values, &Site) -> Streams,
}

impl WorkloadInfo {
    /// The keys it takes, in the order of the canonical text, with the defaults of this workload.
    pub fn keys(&self) -> Vec<Key> {
        let own = |key: Key| match self.defaults.iter().find(|(name, _)| *name == key.name) {
            Some((_, default)) => key.with_default(default),
            None => key,
        };
        (self.keys)().into_iter().map(own).collect()
    }

    /// Refuses values that don't go together.
    pub(super) fn check(&self, values: &Values) -> Result<(), Error> {
        (self.check)(values)
    }

    /// The streams of its requests: one, except for `runs`.
    pub(super) fn streams(&self, values: &Values, site: &Site) -> Streams {
        (self.streams)(values, site)
    }
}

/// The workload of this name.
pub fn find(name: &str) -> Option<&'static WorkloadInfo> {
    WORKLOADS.iter().find(|info| info.name == name)
}

const fn workload<R: Recipe>(
    name: &'static str,
    summary: &'static str,
    defaults: &'static [(&'static str, &'static str)],
) -> WorkloadInfo {
    WorkloadInfo {
        name,
        summary,
        defaults,
        keys: R::keys,
        check: |values| R::read(values).and_then(|_| R::check(values)),
        streams: |values, site| R::read(values)?.streams(site),
    }
}

/// The workloads, in the order of the docs.
pub static WORKLOADS: &[WorkloadInfo] = &[
    workload::<SequentialRead>(
        "sequential-read",
        "reads ascending addresses, and begins again at the start when it reaches the end of its span",
        &[("size", "512Ki"), ("interval", "5ms")],
    ),
    workload::<SequentialWrite>(
        "sequential-write",
        "writes ascending addresses, and begins again at the start when it reaches the end of its span",
        &[("size", "512Ki"), ("interval", "5ms")],
    ),
    workload::<RandomRead>("random-read", "reads uniformly random addresses", &[]),
    workload::<RandomWrite>("random-write", "writes uniformly random addresses", &[]),
    workload::<Mix>("mix", "reads and writes uniformly random addresses", &[("write_share", "0.3")]),
    workload::<Zipf>("zipf", "some addresses are asked for far more often than others, by Zipf's law", &[]),
    workload::<HotCold>(
        "hot-cold",
        "most requests go to one small stretch, placed by the seed, the rest elsewhere",
        &[],
    ),
    workload::<LocalInSpace>(
        "local-in-space",
        "random requests within one sub-range of the drive, placed by the seed (Cassuto 2010, III-A)",
        &[],
    ),
    workload::<LocalInTime>(
        "local-in-time",
        "random requests for a while, then a sequential stretch, in turns (Cassuto 2010, III-A)",
        &[],
    ),
    workload::<Burst>(
        "burst",
        "random requests in bursts with pauses between them",
        &[("write_share", "1"), ("interval", "10ms")],
    ),
    workload::<Backup>(
        "backup",
        "a long sequential write with small updates of metadata at the start of its span",
        &[("size", "1Mi"), ("count", "20k"), ("interval", "10ms")],
    ),
    workload::<Overwrite>(
        "overwrite",
        "writes every place of its span once a pass, pass after pass",
        &[("span", "1Gi"), ("count", "1M")],
    ),
    workload::<Flush>(
        "flush",
        "flushes that make the drive write the data in its memory to the platters, as a file system's commits do; to be merged with another workload",
        &[("interval", "5s")],
    ),
    workload::<Runs>(
        "runs",
        "several sources, each of which accesses runs of single blocks in the hot part of its own region",
        &[],
    ),
    workload::<DesktopDay>(
        "desktop",
        "a plausible day of a PC: boot, applications, small writes, downloads, an evening copy, idle time",
        &[("count", ""), ("duration", "24h")],
    ),
    workload::<CassutoDay>(
        "cassuto-pc",
        "a stand-in for the 24 h PC trace of Cassuto 2010, Table I, with its exact counts",
        &[("span", "304128M"), ("write_share", "")],
    ),
];

/// A workload of the table with its values. Others have the table's defaults.
#[derive(Clone, Debug)]
pub(super) struct WorkloadPart {
    pub info: &'static WorkloadInfo,
    values: Values,
}

impl PartialEq for WorkloadPart {
    fn eq(&self, other: &WorkloadPart) -> bool {
        self.info.name == other.info.name && self.values == other.values
    }
}

impl WorkloadPart {
    /// The workload of this name, nothing set yet.
    pub fn named(name: &str) -> Result<WorkloadPart, Error> {
        let Some(info) = find(name) else {
            return Err(Error::Usage(format!(
                "no workload is called `{name}`; {}",
                known(name, WORKLOADS.iter().map(|w| w.name))
            )));
        };
        Ok(WorkloadPart { info, values: Values::new(info.keys()) })
    }

    /// Sets a key that must not have been set before.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Refused> {
        self.values.set_once(key, value).map_err(|refused| match refused {
            Refused::Key(names) => Refused::Key(format!("{} has no key of this name; {names}", self.info.name)),
            other => other,
        })
    }

    /// Refuses values that don't go together.
    pub fn check(&self) -> Result<(), Error> {
        self.info.check(&self.values).map_err(|error| Error::Usage(format!("{}: {error}", self.info.name)))
    }

    /// The streams of its requests, for a host that sees `capacity` sectors. `number` is the part's number in its workload.
    pub fn streams(&self, capacity: u64, seed: u64, number: u64) -> Streams {
        self.info.streams(&self.values, &Site { part: self.to_string(), capacity, seed, number })
    }
}

impl fmt::Display for WorkloadPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info.name)?;
        for (i, (key, value)) in self.values.given().enumerate() {
            write!(f, "{}{key}={value}", if i == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

/// Reads `name:key=value,…`, joined by `+` (together) and `;` (one after another).
pub(super) fn from_text(text: &str) -> Result<Vec<Vec<WorkloadPart>>, Error> {
    let phases = TextPiece::whole("workload", text).split(';');
    let phases = phases.map(|phase| phase.split('+').map(|piece| part(piece).map_err(|e| *e)).collect());
    phases.collect()
}

fn part(piece: TextPiece<'_>) -> Result<WorkloadPart, Box<Error>> {
    let (name, rest) = piece.split_once(':').map_or((piece, None), |(name, rest)| (name, Some(rest)));
    if name.text.is_empty() {
        return Err(name.error("a workload is missing: write name:key=value,… and separate by `;` or `+`"));
    }
    let mut part = WorkloadPart::named(name.text).map_err(|e| name.error(e))?;
    if let Some(rest) = rest {
        rest.settings(|key, value| part.set(key, value))?;
    }
    part.check().map_err(|e| piece.error(e))?;
    Ok(part)
}
