//! Records that columns of an outcome hold: quantities by cause, commands, what was replayed, states, power cuts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::latency::{Latencies, LatencyBuckets};
use crate::interleave::Interleave;
use crate::layer::{Capacity, GaugeUnit, LayerStats};
use crate::settings::rebuild::RebuildSpec;
use crate::settings::{Prefill, Settings};
use crate::tally::Cause;
use crate::units::{Nanos, SECTOR_BYTES};
use crate::{column_types, record};

// Types with a text form of their own, and records that other pages explain.
column_types!(Prefill: "str", Interleave: "str", RebuildSpec: "str", InFlight: "str", GaugeUnit: "str");
column_types!(Settings: "Record", LayerStats: "Record");

record! {
    /// A quantity by the cause of the access.
    #[derive(Copy, Eq)]
    pub struct Causes<T>: Add {
        /// All causes.
        pub total: T,
        /// Serving the host directly.
        pub host: T,
        /// Reading the persistent cache back, to move cached data home.
        pub destage: T,
        /// Read-modify-write of regions and bands, and garbage collection.
        pub clean: T,
        /// Reading and writing the layer's maps.
        pub map: T,
    }
}

/// A count by cause.
pub type ByCause = Causes<u64>;

impl<T> Causes<T> {
    /// The part of one cause.
    pub fn of(&self, cause: Cause) -> &T {
        match cause {
            Cause::Host => &self.host,
            Cause::Destage => &self.destage,
            Cause::Clean => &self.clean,
            Cause::Map => &self.map,
        }
    }

    /// Applies `change` to each cause and the total.
    pub fn map<U>(self, change: impl Fn(T) -> U) -> Causes<U> {
        let Causes { total, host, destage, clean, map } = self;
        Causes {
            total: change(total),
            host: change(host),
            destage: change(destage),
            clean: change(clean),
            map: change(map),
        }
    }
}

record! {
    /// Commands of the host, and commands to the platters.
    #[derive(Copy, Eq)]
    pub struct Commands: Add {
        /// The host's reads.
        pub host_read: u64,
        /// The host's writes.
        pub host_write: u64,
        /// Reads of the platters.
        pub physical_read: u64,
        /// Writes to the platters.
        pub physical_write: u64,
    }
}

record! {
    /// Uninterrupted stretches of destaging and cleaning.
    #[derive(Copy, Eq)]
    pub struct Cleaning: Add {
        /// Number of stretches.
        pub count: u64,
        /// Sectors read and written in these stretches.
        pub sectors: u64,
        /// Total time of the stretches.
        pub ns: u64,
        /// Time of the longest stretch; for an array, of the longest on any one drive.
        pub max_ns: u64 => u64::max,
    }
}

record! {
    /// Movement of the head from track to track. Tracks are numbered in the order of PBAs.
    #[derive(Copy)]
    pub struct Movement: Add {
        /// Sum over accesses of |first track − last track of the access before|.
        pub track_distance: ByCause,
        /// Accesses that begin on another track than the one on which the access before ended.
        pub track_count: ByCause,
        /// `track_distance` as a share of the disk's tracks.
        pub stroke_share: Causes<f64>,
        /// Bands moved or rewritten by the layer ([which](layers.md#bands-moved)).
        pub bands_moved: ByCause,
    }
}

impl Movement {
    /// Movements on a disk of `tracks`.
    pub fn new(track_distance: ByCause, track_count: ByCause, tracks: u64, bands_moved: u64) -> Movement {
        Movement {
            track_distance,
            track_count,
            stroke_share: track_distance.map(|distance| distance as f64 / tracks as f64),
            // Whatever the causes of its accesses, a band moves because it is cleaned.
            bands_moved: ByCause { total: bands_moved, clean: bands_moved, ..ByCause::default() },
        }
    }
}

record! {
    /// Sectors written to each slice of the PBA range, by cause. All slices have the same size and follow each other.
    #[derive(Eq)]
    pub struct Surface {
        /// Sectors in a slice.
        pub part_sectors: u64,
        /// Sectors that the host wrote, in place or to the persistent cache.
        pub host: Vec<u64>,
        /// Sectors written with the cause `destage`.
        pub destage: Vec<u64>,
        /// Sectors written by cleaning.
        pub clean: Vec<u64>,
        /// Sectors of maps written.
        pub map: Vec<u64>,
    }
}

impl Surface {
    /// The writes of one cause.
    pub fn of(&self, cause: Cause) -> &Vec<u64> {
        match cause {
            Cause::Host => &self.host,
            Cause::Destage => &self.destage,
            Cause::Clean => &self.clean,
            Cause::Map => &self.map,
        }
    }
}

/// The latency beyond which a request stalls: hardware RAID waits for a command this long.
pub const STALL_7S: Nanos = Nanos(7_000_000_000);
/// The longest stall that Linux forgives by default (`/sys/block/*/device/timeout`).
pub const STALL_30S: Nanos = Nanos(30_000_000_000);

record! {
    /// Times of a drive's commands as a host's timeout sees them: from dispatch to completion, without time in the host's queue.
    #[derive(Copy, Eq)]
    pub struct CommandTimes: Add {
        /// Longest time of a command of a drive, from dispatch to completion. A drive has up to 32 commands at once, or
        /// up to `depth` if it orders them itself.
        pub longest_command_ns: u64 => u64::max,
        /// Commands that took longer than 7 s.
        pub commands_over_7s: u64,
        /// Commands that took longer than 30 s.
        pub commands_over_30s: u64,
    }
}

impl CommandTimes {
    /// Counts a command that took `time`.
    #[inline]
    pub fn count(&mut self, time: Nanos) {
        self.longest_command_ns = self.longest_command_ns.max(time.0);
        self.commands_over_7s += u64::from(time > STALL_7S);
        self.commands_over_30s += u64::from(time > STALL_30S);
    }
}

record! {
    /// Counts of one of several merged sources.
    #[derive(Eq)]
    pub struct SourceCounts {
        /// Requests completed and counted.
        pub requests: u64,
        /// Sectors read by the host.
        pub host_read_sectors: u64,
        /// Sectors written by the host.
        pub host_written_sectors: u64,
        /// Latency from arrival to completion.
        pub latency_ns: Latencies,
        /// Distribution of latencies in fine buckets.
        pub latency_buckets: LatencyBuckets,
    }
}

record! {
    /// Enlargement of a drive, or of each drive of an array, to more platters than its own, because a trace needs them.
    #[derive(Copy, Eq)]
    pub struct Scaled {
        /// Number of platters, as a multiple of the drive's own.
        pub platters: u64,
        /// End of the address range that the trace uses.
        pub needed_bytes: u64,
        /// Size of the drive with its own platters; for an array, of all its drives together.
        pub own_bytes: u64,
    }
}

record! {
    /// State of the disk when counting began.
    pub struct State {
        /// How the disk was filled before the run, as in `engine.prefill`.
        pub prefill: Prefill,
        /// Bytes offered to the host.
        pub capacity_bytes: u64,
        /// Bytes of persistent cache.
        pub cache_bytes: u64,
        /// With `until-steady`, when cleaning had settled; null if it never did.
        pub steady: Option<Steady>,
    }
}

record! {
    /// The moment at which cleaning had settled.
    #[derive(Copy, Eq)]
    pub struct Steady {
        /// Requests completed until cleaning had settled.
        pub after_requests: u64,
        /// Simulated time from the first request (after the prefill) until cleaning had settled.
        pub after_ns: u64,
    }
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
            other => format!("prefill {other}"),
        }
    }
}

record! {
    /// Further values that `smrkit run --repeat` needs to repeat the run.
    pub struct RunRecord {
        /// The drive or the array with every drive, layer, size and parameter spelled out, in the form of `--array`.
        pub system: String,
        /// Sectors used of each member; absent if all are used.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub used_sectors: Option<Vec<u64>>,
        /// The text of each drive file, by its path; absent if there is none.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        pub drive_files: BTreeMap<String, String>,
        /// The rebuild, in the form of `--rebuild`; null if there is none.
        pub rebuild: Option<RebuildSpec>,
        /// Length of the timeline's windows if it was set; null if windows double as the run grows.
        pub window_ns: Option<u64>,
        /// The SHA-256 of the saved state that the run began with; absent if there was none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub from_state: Option<String>,
    }
}

record! {
    /// What was replayed: a trace, a workload, or several of them merged.
    #[derive(Eq)]
    pub struct Replayed {
        /// The trace's path as given; null for a workload.
        pub trace: Option<String>,
        /// The SHA-256 of the trace file as stored, compressed or not; of several CPUs' blktrace files, of their merged records.
        pub trace_sha256: Option<String>,
        /// The trace's format, as recognised or forced ([formats](trace-formats.md)).
        pub trace_format: Option<String>,
        /// How the trace was read; null for a workload.
        pub trace_reading: Option<TraceReading>,
        /// The workload's [canonical text](workloads.md); null for a trace.
        pub workload: Option<String>,
        /// Disk size that the workload assumed: the smallest capacity that a compared layer offers, or `--span`; null
        /// for a trace.
        pub workload_sectors: Option<u64>,
        /// The merged sources in the order of their numbers, traces first; absent for a single source.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub sources: Option<Vec<MergedSource>>,
        /// How the sources were [merged](workloads.md#several-sources); absent for a single source.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub interleave: Option<Interleave>,
        /// [Edits](command-line.md#edits) of the requests; absent if there were none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub edit: Option<String>,
        /// Rows of the trace that needed attention.
        pub trace_notes: TraceNotes,
    }
}

impl Replayed {
    /// Copies the traces' hashes from another run of the same requests, for which they were computed.
    pub fn take_hashes(&mut self, hashed: &Replayed) {
        self.trace_sha256.clone_from(&hashed.trace_sha256);
        let hashes = hashed.sources.iter().flatten().map(|source| &source.sha256);
        self.sources.iter_mut().flatten().zip(hashes).for_each(|(own, sha256)| own.sha256.clone_from(sha256));
    }
}

record! {
    /// One of several merged sources.
    #[derive(Eq)]
    pub struct MergedSource {
        /// The trace's path; null for a workload.
        pub trace: Option<String>,
        /// The workload's text; null for a trace.
        pub workload: Option<String>,
        /// The SHA-256 of the trace file as stored; null for a workload.
        pub sha256: Option<String>,
        /// The trace's format; absent for a workload.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub trace_format: Option<String>,
        /// How the trace was read; absent for a workload.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub trace_reading: Option<TraceReading>,
        /// Size of the source: the address range of a trace, rounded up to 1 MiB, or the disk size that a workload
        /// assumed.
        pub sectors: u64,
        /// LBA at which the source's LBA 0 was placed.
        pub first_lba: u64,
        /// Requests taken from the source, including warm-up.
        pub requests: u64,
    }
}

record! {
    /// How a trace was read.
    #[derive(Eq)]
    pub struct TraceReading {
        /// The volume taken, or `all`.
        pub volume: String,
        /// The format asked for, with its column map; null where it was recognised.
        pub format: Option<String>,
        /// True if malformed rows were left out.
        pub skip_bad_rows: bool,
    }
}

record! {
    /// Rows of a trace that needed attention.
    #[derive(Copy, Eq)]
    pub struct TraceNotes: Add {
        /// Malformed rows, left out by `--skip-bad-rows`.
        pub skipped_rows: u64,
        /// Rows whose requests were rounded outward to whole sectors.
        pub unaligned_rows: u64,
        /// Rows with an earlier time than the row above.
        pub out_of_order_rows: u64,
    }
}

record! {
    /// A power cut, and what was found after it.
    #[derive(Eq)]
    pub struct PowerCut {
        /// Number of the physical write that was cut, counted from 1.
        pub write: u64,
        /// Requests completed before the cut.
        pub completed: u64,
        /// What became of the write in flight: `whole`, `absent`, `part`, or `none` if the cut hit other work.
        pub in_flight: InFlight,
        /// Sectors that had been acknowledged and were lost.
        pub lost_sectors: u64,
        /// Lost sectors that were destroyed; the other lost sectors have the data of an older write.
        pub destroyed_sectors: u64,
        /// The first 100 lost extents, as (LBA, sectors).
        pub lost: Vec<(u64, u64)>,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_several_drives_are_counted_together() {
        let counted = |seconds: &[u64]| {
            let mut times = CommandTimes::default();
            seconds.iter().for_each(|second| times.count(Nanos(second * 1_000_000_000)));
            times
        };
        assert_eq!(counted(&[7, 8, 31]) + counted(&[1, 9, 40, 50]), counted(&[7, 8, 31, 1, 9, 40, 50]));
        assert_eq!((counted(&[7, 8, 31]).commands_over_7s, counted(&[7, 8, 31]).commands_over_30s), (2, 1));
        assert_eq!((counted(&[30]).commands_over_7s, counted(&[30]).commands_over_30s), (1, 0));
        assert_eq!(counted(&[31, 8]).longest_command_ns, 31_000_000_000);
    }
}
