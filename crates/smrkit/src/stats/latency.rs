//! Latencies as results have them: summaries, and distributions coarse enough to draw.

use serde::{Deserialize, Serialize};

/// Latencies of all requests, reads, and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latencies {
    /// Reads and writes (flushes and discards too).
    pub all: Latency,
    /// Reads.
    pub read: Latency,
    /// Writes.
    pub write: Latency,
}

/// A distribution in nanoseconds: nearest rank, relative error at most 0.01 %; count, mean and max exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Latency {
    pub count: u64,
    pub mean: u64,
    pub p50: u64,
    pub p90: u64,
    pub p95: u64,
    pub p99: u64,
    pub p99_5: u64,
    pub p99_9: u64,
    pub max: u64,
}

/// Latency distributions, coarse enough to draw: steps of at most 3 %.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histograms {
    /// (latency at most this many ns, requests) for reads, ascending.
    pub read: Vec<(u64, u64)>,
    /// (latency at most this many ns, requests) for writes, ascending.
    pub write: Vec<(u64, u64)>,
}
