//! The result of a run. This struct is the format of `outcome.json`, the table on the terminal and the figures.
//!
//! Keys carry their unit. A ratio without a denominator is null. `docs/reference/outcome.md` explains every key.

mod members;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::command_times::CommandTimes;
pub use super::latency::{Histograms, Latencies, Latency};
pub use super::latency_buckets::{LatencyBuckets, OpLatencies};
pub use super::physical::{ByCause, Causes, Cleaning, Commands, Movement, Surface};
pub use super::rebuild::Rebuild;
pub use super::replayed::{MergedSource, Replayed, TraceNotes, TraceReading};
pub use super::timeline::Timeline;
pub use super::verdict_counts::VerdictCounts;
pub use crate::layer::{Capacity, LayerStats, Scalar};
use crate::settings::rebuild::RebuildSpec;
use crate::settings::{Prefill, Settings};
use crate::units::SECTOR_BYTES;
pub use members::LISTED_MAX;
pub(super) use members::shortened;

/// The file: one record a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcomes {
    /// The version of this format.
    pub schema: u32,
    /// The runs, in the order they were asked for.
    pub runs: Vec<Outcome>,
}

/// One run: configuration, counts, latency, the course of time, and the plain verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The layer's name.
    pub layer: String,
    /// The drive's name.
    pub drive: String,
    /// The drive file, where the drive is not one that comes with smrkit.
    pub drive_file: Option<String>,
    /// The array, if the device was one.
    pub array: Option<String>,
    /// The layer's parameters, defaults included, each `auto` as the value that it became.
    pub parameters: BTreeMap<String, Scalar>,
    /// Parameters that were asked for in another form, as they were asked for: `auto`.
    #[serde(default)]
    pub asked: BTreeMap<String, Scalar>,
    /// Why the drive has more platters than its own; null where it has its own, or the size asked for.
    #[serde(default)]
    pub scaled: Option<Scaled>,
    /// Settings of the run: arrivals and order of requests.
    pub engine: Settings,
    /// State of the disk when counting began.
    #[serde(default)]
    pub state: State,
    /// The seed of everything random.
    pub seed: u64,
    /// All else that is needed to repeat the run.
    pub run: RunRecord,
    /// smrkit's version.
    pub version: String,
    /// The commit it was built from, where known.
    pub commit: Option<String>,
    /// The requests that were replayed.
    #[serde(flatten)]
    pub replayed: Replayed,
    /// Number of runs that this is the merge of; absent for a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_runs: Option<u64>,
    /// Counts of the merged runs' verdicts; absent for a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_verdicts: Option<VerdictCounts>,
    /// True if the run was interrupted.
    pub interrupted: bool,
    /// Requests served and counted (warm-up left out).
    pub requests: u64,
    /// Sectors read by the host.
    pub host_read_sectors: u64,
    /// Sectors written by the host.
    pub host_written_sectors: u64,
    /// Sectors read from the platters, by cause.
    pub physical_read_sectors: ByCause,
    /// Sectors written to the platters, by cause.
    pub physical_written_sectors: ByCause,
    /// The time the drive was busy, by cause.
    pub busy_by_cause_ns: ByCause,
    /// Commands of any length.
    pub commands: Commands,
    /// Commands as Cassuto 2010 counts them: one of n sectors counts floor(n / 1000) + 1.
    pub adjusted: Commands,
    /// Cassuto's definition 4.
    pub write_overloading: Option<f64>,
    /// Physical sectors written / host sectors written.
    pub write_amplification: Option<f64>,
    /// Elapsed time / elapsed time of `in-place` on the same requests.
    pub slowdown: Option<f64>,
    /// Latency from arrival to completion.
    pub latency_ns: Latencies,
    /// Time that requests spent waiting, and being served; they sum to the sum of latencies.
    #[serde(with = "super::wide")]
    pub wait_ns: u128,
    /// See `wait_ns`.
    pub service_ns: u64,
    /// The time of the accesses to the platters.
    pub busy_ns: u64,
    /// In addition to it, the time that the drive wrote from its own buffer while no access was made; absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_write_ns: Option<u64>,
    /// From the beginning of counting (the start, or the end of prefill and warm-up) to the last completion.
    pub elapsed_ns: u64,
    /// From the beginning of counting to the last arrival.
    pub arrivals_ns: u64,
    /// Memory of the layer's maps at the end.
    pub map_bytes: u64,
    /// Uninterrupted stretches of destaging and cleaning.
    pub cleaning: Cleaning,
    /// Use of the platters' sectors.
    pub capacity: Capacity,
    /// The course of time.
    pub timeline: Timeline,
    /// Sectors written to each equal part of the disk's surface, outermost first, by cause.
    pub surface: Surface,
    /// The distribution behind `latency_ns`, for figures: (latency at most, requests), ascending.
    pub latency_histogram: Histograms,
    /// The distribution in fine buckets, for [`Outcome::merge`]; empty in a summary.
    #[serde(default)]
    pub latency_buckets: LatencyBuckets,
    /// Requests and times of each of several merged sources; absent for one alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_source: Option<Vec<SourceCounts>>,
    /// Movement of the head from track to track; absent where it was not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub movement: Option<Movement>,
    /// The layer's own counters.
    pub layer_stats: LayerStats,
    /// The power cut, and what was found after it; null without, or where the run ended before it.
    pub power_cut: Option<PowerCut>,
    /// The plain verdict.
    pub verdict: Verdict,
    /// Of an array: the same of each drive, as its array saw it; in a summary a row of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "members")]
    pub members: Vec<Outcome>,
    /// The rebuild, resilver or scrub of an array; absent without, or where the run ended before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<Rebuild>,
}

/// Record from which a run can be repeated, with `engine`, `seed`, and what was replayed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The SHA-256 of the run: system, settings and requests; absent where the requests are known by no hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The drive or the array with every drive, layer, size and parameter spelled out, in the form of `--array`.
    pub system: String,
    /// Sectors that are used of each member, where not all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_sectors: Option<Vec<u64>>,
    /// The text of each drive file, by its path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drive_files: BTreeMap<String, String>,
    /// The array's own work.
    pub rebuild: Option<RebuildSpec>,
    /// The length of the timeline's windows; null where they double as the run grows.
    pub window_ns: Option<u64>,
    /// The SHA-256 of the saved state that the run began with; absent where it began with none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_state: Option<String>,
}

impl Outcome {
    /// The drives of the run: itself, or an array's members.
    pub fn drives(&self) -> &[Outcome] {
        if self.members.is_empty() { std::slice::from_ref(self) } else { &self.members }
    }

    /// The time that the drive worked, for the host or for itself.
    pub fn working_ns(&self) -> u64 {
        self.busy_ns + self.buffer_write_ns.unwrap_or(0)
    }
}

/// A drive, or each drive of an array, with more platters than its own, because a trace needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scaled {
    /// Times its own platters.
    pub platters: u64,
    /// The end of what the trace uses.
    pub needed_bytes: u64,
    /// The size of the drive itself; of an array, of all its drives.
    pub own_bytes: u64,
}

/// Counts of one of several merged sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceCounts {
    /// Requests served and counted.
    pub requests: u64,
    /// Sectors read.
    pub host_read_sectors: u64,
    /// Sectors written.
    pub host_written_sectors: u64,
    /// Latency from arrival to completion.
    pub latency_ns: Latencies,
    /// Their fine buckets.
    #[serde(default)]
    pub latency_buckets: LatencyBuckets,
}

/// State of the disk when counting began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Way in which it was filled.
    pub prefill: Prefill,
    /// Bytes offered to the host.
    pub capacity_bytes: u64,
    /// Bytes of persistent cache.
    pub cache_bytes: u64,
    /// When cleaning had settled; null where that was not asked for.
    pub steady: Option<Steady>,
}

/// When cleaning had settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steady {
    /// Requests completed until then.
    pub after_requests: u64,
    /// The time that they took.
    pub after_ns: u64,
}

impl State {
    /// The state that a prefill leaves on a device of this capacity.
    pub fn new(prefill: Prefill, capacity: &Capacity) -> State {
        State {
            prefill,
            capacity_bytes: capacity.host_sectors * SECTOR_BYTES,
            cache_bytes: capacity.cache_sectors * SECTOR_BYTES,
            steady: None,
        }
    }

    /// The state in words, to follow "run" or a comma.
    pub fn words(&self) -> String {
        match self.prefill {
            Prefill::Full => "on a full disk".into(),
            Prefill::None => "on an empty disk".into(),
            other => format!("pre-filled {other}"),
        }
    }
}

/// A power cut, and what was found after it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerCut {
    /// The physical write that was cut, from 1.
    pub write: u64,
    /// Requests completed before it.
    #[serde(alias = "answered")]
    pub completed: u64,
    /// Fate of the request in flight.
    pub in_flight: InFlight,
    /// Sectors that had been acknowledged and were lost.
    pub lost_sectors: u64,
    /// Lost sectors that were destroyed; the others show an older write.
    pub destroyed_sectors: u64,
    /// The first lost extents, (LBA, sectors), ascending.
    pub lost: Vec<(u64, u64)>,
}

/// Fate of a write that was in flight when the power was cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InFlight {
    /// There was none.
    #[default]
    None,
    /// All of it is there.
    Whole,
    /// Nothing of it is there.
    Absent,
    /// Some of it is there.
    Part,
}

/// The plain verdict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The first moment that a host request waits for cleaning, in seconds; null if none did.
    pub cache_full_at_s: Option<f64>,
    /// Host bytes completed before that moment (or in the whole run).
    #[serde(default)]
    pub before_bytes: u64,
    /// The time until that moment (or of the whole run).
    #[serde(default)]
    pub before_ns: u64,
    /// Host bytes per second before that moment (or over the whole run).
    pub rate_before_bytes_per_s: f64,
    /// Host bytes per second from that moment.
    pub rate_after_bytes_per_s: Option<f64>,
    /// The longest latency.
    pub longest_stall_ns: u64,
    /// Requests that took longer than 7 s.
    pub stalls_over_7s: u64,
    /// Requests that took longer than 30 s.
    pub stalls_over_30s: u64,
    /// Times of the drive's commands, as a timeout sees them; of an array, of those of all its drives.
    #[serde(flatten)]
    pub commands: CommandTimes,
    /// Mean latency on the conventional disk; null without a baseline.
    pub baseline_mean_ns: Option<u64>,
    /// Latency that 99 % of requests don't exceed on the conventional disk.
    pub baseline_p99_ns: Option<u64>,
    /// Requests over 7 s on the conventional disk; null without a baseline.
    pub baseline_stalls_over_7s: Option<u64>,
    /// Requests over 30 s on the conventional disk.
    pub baseline_stalls_over_30s: Option<u64>,
    /// True if the conventional disk itself can't keep up with the trace's times.
    pub baseline_overloaded: bool,
    /// One sentence that a person can act on.
    pub text: String,
}
