//! Seeded generators of requests.
//!
//! A workload is parts joined by `+` (merged by time) and `;` (one after another), each a name of the table
//! `WORKLOADS` with values for its keys. The same text and seed give the same requests on every platform.
//! `docs/reference/workloads.md` has each of them with its assumptions.

mod cassuto_pc;
mod desktop;
mod draws;
mod patterns;
mod recipes;

use std::fmt;

use crate::error::Error;
use crate::interleave::{Interleave, Interleaved, MergePart, SOURCES_MAX, SourcePlacement};
use crate::names::known;
use crate::request::{Op, Source};
use crate::schema::{Key, Refused, TextPiece, Values};
use patterns::{Chained, Stream};
use recipes::{
    AtRandom, Backup, Burst, CassutoDay, DesktopDay, Flush, HotCold, LocalInSpace, LocalInTime, Mix, Overwrite, Recipe,
    Requests, Runs, Site, Streams, Zipf,
};

/// Bits of a stream's number that are left to the parts of one workload; the bits above number the workloads of a run, so that no two
/// streams draw the same random numbers.
const PART_BITS: u32 = 40;

/// A workload as it was written; `Display` gives its canonical text, which parses to the same workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Phases, one after another. The parts of each are merged.
    phases: Vec<Vec<WorkloadPart>>,
}

impl Workload {
    /// Reads a text such as `zipf:size=4Ki,count=10k;backup+desktop`.
    pub fn parse(text: &str) -> Result<Workload, Error> {
        let phases = TextPiece::whole("workload", text).split(';');
        let phases = phases.map(|phase| phase.split('+').map(|piece| parse_part(piece).map_err(|e| *e)).collect());
        Ok(Workload { phases: phases.collect::<Result<_, _>>()? })
    }

    /// The requests for a host that sees `span_sectors` sectors. Merged parts are told apart by `Request::source`.
    pub fn source(&self, span_sectors: u64, seed: u64) -> Result<Box<dyn Source>, Error> {
        self.nth_source(span_sectors, seed, 0)
    }

    /// Requests of the n-th of several sources, from 0. Sources with the same text and seed are independent of each other.
    pub fn nth_source(&self, span_sectors: u64, seed: u64, nth: u8) -> Result<Box<dyn Source>, Error> {
        let mut number = u64::from(nth) << PART_BITS;
        let mut phases: Vec<Box<dyn Stream>> = Vec::new();
        for parts in &self.phases {
            let mut streams = Vec::new();
            for part in parts {
                let op = part.info.op;
                let site = Site { part: part.to_string(), capacity: span_sectors, seed, number, op };
                streams.extend((part.info.streams)(&part.values, &site)?);
                number += 1;
            }
            if streams.len() > SOURCES_MAX {
                let merged = streams.len();
                let message = format!("{merged} sources are merged, at most {SOURCES_MAX} can be: lower `sources`");
                return Err(Error::Usage(message));
            }
            phases.push(if streams.len() == 1 {
                streams.remove(0)
            } else {
                // Streams have addresses on the whole device, so sizes are not needed to place them.
                let parts = streams.into_iter().map(|source| MergePart { source, sectors: 0 }).collect();
                Box::new(Interleaved::new(parts, Interleave::Time, SourcePlacement::Zero, seed)?)
            });
        }
        Ok(Box::new(Chained::new(phases)))
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = |parts: &Vec<WorkloadPart>| parts.iter().map(WorkloadPart::to_string).collect::<Vec<_>>().join("+");
        f.write_str(&self.phases.iter().map(phase).collect::<Vec<_>>().join(";"))
    }
}

/// A workload of the table with its values. Others have the table's defaults.
#[derive(Clone, Debug)]
struct WorkloadPart {
    info: &'static WorkloadInfo,
    values: Values,
}

impl PartialEq for WorkloadPart {
    fn eq(&self, other: &WorkloadPart) -> bool {
        self.info.name == other.info.name && self.values == other.values
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

/// Reads `name:key=value,…`.
fn parse_part(piece: TextPiece<'_>) -> Result<WorkloadPart, Box<Error>> {
    let (name, rest) = piece.split_once(':').map_or((piece, None), |(name, rest)| (name, Some(rest)));
    if name.text.is_empty() {
        return Err(name.error("a workload is missing: write name:key=value,… and separate by `;` or `+`"));
    }
    let Some(info) = WORKLOADS.iter().find(|info| info.name == name.text) else {
        let names = known(name.text, WORKLOADS.iter().map(|info| info.name));
        return Err(name.error(format!("no workload is called `{}`; {names}", name.text)));
    };
    // Keys are set in any order, and checked against each other once all are.
    let mut values = Values::new(info.keys());
    if let Some(rest) = rest {
        rest.settings(|key, value| {
            values.set_once(key, value).map_err(|refused| match refused {
                Refused::Key(names) => Refused::Key(format!("{} has no key of this name; {names}", info.name)),
                other => other,
            })
        })?;
    }
    (info.check)(&values).map_err(|error| piece.error(format!("{}: {error}", info.name)))?;
    Ok(WorkloadPart { info, values })
}

/// A workload: its name, what it does, its keys, and how its requests are made. Help, docs, parsing and checks all read the table of them.
#[derive(Debug)]
pub struct WorkloadInfo {
    /// The name, as in `smrkit run --workload NAME`.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Defaults that override those of the keys.
    defaults: &'static [(&'static str, &'static str)],
    keys: fn() -> Vec<Key>,
    /// Refuses values that don't go together.
    check: fn(&Values) -> Result<(), Error>,
    /// The streams of its requests: one, except for `runs`.
    streams: fn(&Values, &Site) -> Streams,
    /// Operation of the requests that no key makes writes.
    op: Op,
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

    const fn of(self, op: Op) -> WorkloadInfo {
        WorkloadInfo { op, ..self }
    }
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
        op: Op::Read,
    }
}

/// The workloads, in the order of the docs.
pub static WORKLOADS: &[WorkloadInfo] = &[
    workload::<Requests>(
        "sequential-read",
        "reads ascending addresses, and begins again at the start when it reaches the end of its span",
        &[("size", "512Ki"), ("interval", "5ms")],
    ),
    workload::<Requests>(
        "sequential-write",
        "writes ascending addresses, and begins again at the start when it reaches the end of its span",
        &[("size", "512Ki"), ("interval", "5ms")],
    )
    .of(Op::Write),
    workload::<AtRandom>("random-read", "reads uniformly random addresses", &[]),
    workload::<AtRandom>("random-write", "writes uniformly random addresses", &[]).of(Op::Write),
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
    workload::<Requests>(
        "discard",
        "discards ascending stretches, as a host does that resets zones or trims; to be run before or after another workload",
        &[("size", "256Mi"), ("count", "1")],
    )
    .of(Op::Discard),
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

#[cfg(test)]
mod tests;
