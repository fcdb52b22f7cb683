//! Account of a replay: a trace, a workload, or several of them merged.

use std::ops::Add;

use serde::{Deserialize, Serialize};

use super::physical::add_fields;
use crate::interleave::Interleave;

/// Account of a replay. `docs/reference/outcome.md` explains every key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replayed {
    /// The trace's path.
    pub trace: Option<String>,
    /// The SHA-256 of the trace file as it lies on the disk.
    pub trace_sha256: Option<String>,
    /// The trace's format, as recognised.
    pub trace_format: Option<String>,
    /// Account of the trace's reading.
    pub trace_reading: Option<TraceReading>,
    /// The SHA-256 of requests from memory; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_sha256: Option<String>,
    /// The workload, in its short text form.
    pub workload: Option<String>,
    /// The sectors that the workload took for the disk's size: the least that a layer of the comparison offers, or --span.
    pub workload_sectors: Option<u64>,
    /// Several traces or workloads merged into one stream: each of them, in the order of `by_source`; absent for one alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources: Option<Vec<MergedSource>>,
    /// Merging of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interleave: Option<Interleave>,
    /// Rows of the trace that were skipped, mended or out of order.
    pub trace_notes: TraceNotes,
}

impl Replayed {
    /// Takes the traces' hashes from another run of the same, which had them reckoned.
    pub fn take_hashes(&mut self, hashed: &Replayed) {
        self.trace_sha256.clone_from(&hashed.trace_sha256);
        self.requests_sha256.clone_from(&hashed.requests_sha256);
        let hashes = hashed.sources.iter().flatten().map(|source| &source.sha256);
        self.sources.iter_mut().flatten().zip(hashes).for_each(|(own, sha256)| own.sha256.clone_from(sha256));
    }
}

/// One of several merged sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergedSource {
    /// The trace's path; null for a workload.
    pub trace: Option<String>,
    /// The workload, in its short text form; null for a trace.
    pub workload: Option<String>,
    /// The SHA-256 of the trace file as it lies on the disk, or of requests from memory.
    pub sha256: Option<String>,
    /// The trace's format, as recognised; absent for a workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_format: Option<String>,
    /// Account of the trace's reading; absent for a workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_reading: Option<TraceReading>,
    /// Its size: what a trace uses, rounded up to 1 MiB, or what a workload took for the disk's size.
    pub sectors: u64,
    /// Place of its LBA 0.
    pub first_lba: u64,
    /// Requests taken from it, warm-up included.
    pub requests: u64,
}

/// Account of a trace's reading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceReading {
    /// The volume taken, or `all`.
    pub volume: String,
    /// The format that was asked for, its column map included; null where it was recognised.
    pub format: Option<String>,
    /// True if malformed rows were left out.
    pub skip_bad_rows: bool,
}

/// Rows of a trace that needed attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceNotes {
    /// Malformed rows left out (`--skip-bad-rows`).
    pub skipped_rows: u64,
    /// Rows whose offset or size was not a multiple of 512 bytes: the offset was rounded down, the end up.
    pub unaligned_rows: u64,
    /// Rows whose time lies before the row above.
    pub out_of_order_rows: u64,
}

add_fields!(TraceNotes: skipped_rows, unaligned_rows, out_of_order_rows);
