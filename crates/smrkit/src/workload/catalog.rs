//! The table of workloads and their keys: help, docs, parsing and checks all read it.

use super::value::Form;

/// One workload: its name, what it does, and its keys.
#[derive(Debug)]
pub struct WorkloadInfo {
    /// The name, as in `smrkit run --workload NAME`.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The keys it takes, in the order of the canonical text.
    pub keys: &'static [Key],
}

/// A key of a workload.
#[derive(Debug)]
pub struct Key {
    /// The name, as in `NAME=VALUE`.
    pub name: &'static str,
    /// The value where none is given, as text; empty where the key then has no effect.
    pub default: &'static str,
    /// The unit of its values.
    pub unit: &'static str,
    /// One line.
    pub what: &'static str,
    pub(super) form: Form,
}

impl Key {
    /// The values allowed, in words.
    pub fn range(&self) -> String {
        self.form.range()
    }
}

impl WorkloadInfo {
    /// The key of this name.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

/// The workload of this name.
pub fn find(name: &str) -> Option<&'static WorkloadInfo> {
    WORKLOADS.iter().find(|info| info.name == name)
}

const fn key(name: &'static str, default: &'static str, unit: &'static str, form: Form, what: &'static str) -> Key {
    Key { name, default, unit, what, form }
}

const fn size(default: &'static str) -> Key {
    key("size", default, "bytes", Form::Sizes, "length of a request: one size, a range, or a list with weights")
}

const fn span(default: &'static str) -> Key {
    key("span", default, "bytes", Form::Reach, "stretch of addresses it stays in; never more than the drive by default")
}

const fn count(default: &'static str) -> Key {
    key("count", default, "requests", Form::Count(1, u64::MAX), "end after this many requests")
}

const fn duration(default: &'static str) -> Key {
    key("duration", default, "time", Form::Duration(1), "end at this time (instead of count)")
}

const fn interval(default: &'static str) -> Key {
    key("interval", default, "time", Form::Duration(0), "mean time between requests")
}

const fn write_share(default: &'static str) -> Key {
    key("write_share", default, "share", Form::Share, "share of requests that write")
}

const START: Key = key("start", "0", "bytes", Form::Reach, "first address, rounded down to a sector");
const ALIGN: Key =
    key("align", "", "bytes", Form::Bytes, "addresses are multiples of this from start; the smallest size by default");
const BYTES: Key = key("bytes", "", "bytes", Form::Bytes, "end once this much was asked for (instead of count)");
const RATE: Key = key("rate", "", "requests/s", Form::Number(1e-6, 1e9), "requests a second (instead of interval)");
const ARRIVALS: Key = key("arrivals", "even", "", Form::Spread, "how intervals are spread about their mean");
const SECOND: u64 = 1_000_000_000;

/// The workloads, in the order of the docs.
pub static WORKLOADS: &[WorkloadInfo] = &[
    WorkloadInfo {
        name: "sequential-read",
        summary: "reads ascending addresses, from the start again at the end of its span",
        keys: &[
            size("512Ki"),
            span("100%"),
            START,
            count("100k"),
            duration(""),
            BYTES,
            interval("5ms"),
            RATE,
            ARRIVALS,
        ],
    },
    WorkloadInfo {
        name: "sequential-write",
        summary: "writes ascending addresses, from the start again at the end of its span",
        keys: &[
            size("512Ki"),
            span("100%"),
            START,
            count("100k"),
            duration(""),
            BYTES,
            interval("5ms"),
            RATE,
            ARRIVALS,
        ],
    },
    WorkloadInfo {
        name: "random-read",
        summary: "reads uniformly random addresses",
        keys: &[
            size("4Ki"),
            span("100%"),
            START,
            ALIGN,
            count("100k"),
            duration(""),
            BYTES,
            interval("20ms"),
            RATE,
            ARRIVALS,
        ],
    },
    WorkloadInfo {
        name: "random-write",
        summary: "writes uniformly random addresses",
        keys: &[
            size("4Ki"),
            span("100%"),
            START,
            ALIGN,
            count("100k"),
            duration(""),
            BYTES,
            interval("20ms"),
            RATE,
            ARRIVALS,
        ],
    },
    WorkloadInfo {
        name: "mix",
        summary: "reads and writes uniformly random addresses",
        keys: &[
            size("4Ki"),
            span("100%"),
            START,
            ALIGN,
            write_share("0.3"),
            count("100k"),
            duration(""),
            BYTES,
            interval("20ms"),
            RATE,
            ARRIVALS,
        ],
    },
    WorkloadInfo {
        name: "zipf",
        summary: "some addresses are asked for far more often than others, by Zipf's law",
        keys: &[
            size("4Ki"),
            span("100%"),
            START,
            ALIGN,
            write_share("0.5"),
            key(
                "theta",
                "0.99",
                "",
                Form::Number(0.0, 10.0),
                "skew: the k-th most frequent address has weight k^-theta",
            ),
            key("scatter", "yes", "", Form::Word(&["yes", "no"]), "frequent addresses lie anywhere (no: at the start)"),
            count("100k"),
            duration(""),
            BYTES,
            interval("20ms"),
            RATE,
            ARRIVALS,
        ],
    },
    WorkloadInfo {
        name: "hot-cold",
        summary: "most requests go to one small stretch, placed by the seed, the rest elsewhere",
        keys: &[
            size("4Ki"),
            span("100%"),
            START,
            ALIGN,
            write_share("0.5"),
            key("hot_share", "0.2", "share", Form::Share, "share of the span that is hot"),
            key("hot_access_share", "0.8", "share", Form::Share, "share of requests that go there"),
            count("100k"),
            duration(""),
            BYTES,
            interval("20ms"),
            RATE,
            ARRIVALS,
        ],
    },
    WorkloadInfo {
        name: "local-in-space",
        summary: "random requests within one sub-range of the drive, placed by the seed (Cassuto 2010, III-A)",
        keys: &[
            size("4Ki"),
            span("100%"),
            START,
            ALIGN,
            write_share("0.5"),
            key("range_share", "0.01", "share", Form::Share, "the sub-range, as a share of the span"),
            count("100k"),
            duration(""),
            BYTES,
            interval("20ms"),
            RATE,
            ARRIVALS,
        ],
    },
    WorkloadInfo {
        name: "local-in-time",
        summary: "random requests for a while, then a sequential stretch, in turns (Cassuto 2010, III-A)",
        keys: &[
            size("4Ki"),
            span("100%"),
            START,
            ALIGN,
            write_share("0.5"),
            key("random", "1000", "requests", Form::Count(1, 1_000_000_000), "random requests in a turn"),
            key("sequential", "1000", "requests", Form::Count(0, 1_000_000_000), "sequential requests in a turn"),
            count("100k"),
            duration(""),
            BYTES,
            interval("20ms"),
            RATE,
            ARRIVALS,
        ],
    },
    WorkloadInfo {
        name: "burst",
        summary: "random requests in bursts with pauses between them",
        keys: &[
            size("4Ki"),
            span("100%"),
            START,
            ALIGN,
            write_share("1"),
            key("on", "10s", "time", Form::Duration(1), "length of a burst"),
            key("off", "50s", "time", Form::Duration(0), "pause after it"),
            count("100k"),
            duration(""),
            BYTES,
            interval("10ms"),
            RATE,
            ARRIVALS,
        ],
    },
    WorkloadInfo {
        name: "backup",
        summary: "a long sequential write with small updates of metadata at the start of its span",
        keys: &[
            size("1Mi"),
            span("100%"),
            START,
            key(
                "metadata_every",
                "64",
                "requests",
                Form::Count(0, 1_000_000_000),
                "data requests between updates (0: none)",
            ),
            key("metadata_size", "4Ki", "bytes", Form::Sizes, "length of an update"),
            key("metadata_area", "1Gi", "bytes", Form::Bytes, "where they lie at random; at most a tenth of the span"),
            count("20k"),
            duration(""),
            BYTES,
            interval("10ms"),
            RATE,
            ARRIVALS,
        ],
    },
    WorkloadInfo {
        name: "overwrite",
        summary: "writes every place of its span once a pass, pass after pass",
        keys: &[
            size("4Ki"),
            span("1Gi"),
            START,
            key("order", "random", "", Form::Word(&["random", "sequential"]), "order of the places in a pass"),
            count("1M"),
            duration(""),
            BYTES,
            interval("20ms"),
            RATE,
            ARRIVALS,
        ],
    },
    WorkloadInfo {
        name: "runs",
        summary: "sources that each access runs of single blocks in the hot part of a region of their own",
        keys: &[
            size("4Ki"),
            START,
            key("sources", "4", "", Form::Count(1, 256), "sources, merged; their regions lie end to end from start"),
            key("blocks", "65536", "blocks", Form::Count(1, 1_000_000_000_000), "blocks of `size` in a region"),
            key("run_min", "16", "blocks", Form::Count(1, 1_000_000_000), "shortest run; lengths are uniform"),
            key("run_max", "111", "blocks", Form::Count(1, 1_000_000_000), "longest run"),
            key("hot_share", "0.25", "share", Form::Share, "hot part of a region, placed by the seed"),
            key("write_share", "0.5", "share", Form::Share, "share of runs that write"),
            key("count", "400k", "requests", Form::Count(1, u64::MAX), "requests of each source"),
            interval("20ms"),
            RATE,
            ARRIVALS,
        ],
    },
    WorkloadInfo {
        name: "desktop",
        summary: "a plausible day of a PC: boot, applications, small writes, downloads, an evening copy, idle time",
        keys: &[span("100%"), START, count(""), duration("24h"), BYTES],
    },
    WorkloadInfo {
        name: "cassuto-pc",
        summary: "a stand-in for the 24 h PC trace of Cassuto 2010, Table I, with its exact counts",
        keys: &[
            span("304128M"),
            START,
            key("write_share", "", "share", Form::Share, "share of requests that write; 75,615 of 510,900 by default"),
            key("count", "510900", "requests", Form::Count(1, 1_000_000_000), "requests"),
            key("duration", "24h", "time", Form::Duration(SECOND), "their times are spread over this"),
            key("period", "3072M", "bytes", Form::Bytes, "the places preferred repeat after this much"),
            key("spots", "120", "", Form::Count(1, 1_000_000), "equal places in a period"),
            key("theta", "0.825", "", Form::Number(0.0, 10.0), "skew of the preference among them"),
        ],
    },
];
