//! The table of workloads: name, keys, and what makes the requests. Help, docs, parsing and checks all read it.

use super::recipe::{Recipe, Site, Streams};
use super::recipes::{
    Backup, Burst, CassutoDay, DesktopDay, HotCold, LocalInSpace, LocalInTime, Mix, Overwrite, RandomRead, RandomWrite,
    Runs, SequentialRead, SequentialWrite, Zipf,
};
use crate::error::Error;
use crate::schema::{Key, Values};

/// A workload: its name, what it does, its keys, and how its requests are made.
pub struct WorkloadInfo {
    /// The name, as in `smrkit run --workload NAME`.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Defaults of its own, in place of those of the keys.
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

    /// The streams of its requests: one, save for `runs`.
    pub(super) fn streams(&self, values: &Values, site: &Site) -> Streams {
        (self.streams)(values, site)
    }
}

impl std::fmt::Debug for WorkloadInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
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
        "reads ascending addresses, from the start again at the end of its span",
        &[("size", "512Ki"), ("interval", "5ms")],
    ),
    workload::<SequentialWrite>(
        "sequential-write",
        "writes ascending addresses, from the start again at the end of its span",
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
    workload::<Runs>(
        "runs",
        "sources that each access runs of single blocks in the hot part of a region of their own",
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
