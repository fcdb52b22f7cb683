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
        /// The layer's maps on the disk.
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

    /// Applies `of` to each cause and the total.
    pub fn map<U>(self, of: impl Fn(T) -> U) -> Causes<U> {
        let Causes { total, host, destage, clean, map } = self;
        Causes { total: of(total), host: of(host), destage: of(destage), clean: of(clean), map: of(map) }
    }
}

record! {
    /// Commands, as the host sent them and as the platters saw them.
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
        /// Sectors read and written in them.
        pub sectors: u64,
        /// Their time.
        pub ns: u64,
        /// The longest; of an array, the longest of one drive.
        pub max_ns: u64 => u64::max,
    }
}

record! {
    /// Movement of the head from track to track. Tracks are numbered in the order of PBAs.
    #[derive(Copy)]
    pub struct Movement: Add {
        /// Sum over accesses of |first track − last track of the access before|.
        pub track_distance: ByCause,
        /// Accesses that begin on another track than the last one ended on.
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
            stroke_share: track_distance.map(|distance| distance as f64 / tracks.max(1) as f64),
            // Whatever the causes of its accesses, a band moves because it is cleaned.
            bands_moved: ByCause { total: bands_moved, clean: bands_moved, ..ByCause::default() },
        }
    }
}

record! {
    /// Sectors written to each of the equal parts of a disk, in the order of PBAs.
    #[derive(Eq)]
    pub struct Surface {
        /// Sectors in a part.
        pub part_sectors: u64,
        /// Host writes that went straight to their place or to the persistent cache.
        pub host: Vec<u64>,
        /// Destaged.
        pub destage: Vec<u64>,
        /// Cleaned.
        pub clean: Vec<u64>,
        /// Maps.
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
        /// The longest command of a drive, from dispatch to completion. A drive takes 32 at once, or `depth` where it orders them.
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
        /// Sectors read.
        pub host_read_sectors: u64,
        /// Sectors written.
        pub host_written_sectors: u64,
        /// Latency from arrival to completion.
        pub latency_ns: Latencies,
        /// The distribution in fine buckets.
        pub latency_buckets: LatencyBuckets,
    }
}

record! {
    /// Why a drive, or each drive of an array, has more platters than its own: a trace needs them.
    #[derive(Copy, Eq)]
    pub struct Scaled {
        /// Times its own platters.
        pub platters: u64,
        /// The end of what the trace uses.
        pub needed_bytes: u64,
        /// The size of the drive itself; of an array, of all its drives.
        pub own_bytes: u64,
    }
}

record! {
    /// The disk when counting began.
    pub struct State {
        /// How it was filled: as `engine.prefill`.
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
    /// When cleaning had settled.
    #[derive(Copy, Eq)]
    pub struct Steady {
        /// Requests completed until then.
        pub after_requests: u64,
        /// The time that they took.
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
    /// What else `smrkit run --repeat` needs to make the run again.
    pub struct RunRecord {
        /// SHA-256 of system, settings and requests; the version is no part of it. Absent where the requests have no hash.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub hash: Option<String>,
        /// The drive or the array with every drive, layer, size and parameter spelled out, in the form of `--array`.
        pub system: String,
        /// Sectors that are used of each member; absent where all are.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub used_sectors: Option<Vec<u64>>,
        /// The text of each drive file, by its path; absent without any.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        pub drive_files: BTreeMap<String, String>,
        /// The rebuild, in the form of `--rebuild`; null without.
        pub rebuild: Option<RebuildSpec>,
        /// The timeline's window, where it was set; null where windows double as the run grows.
        pub window_ns: Option<u64>,
        /// The SHA-256 of the saved state that the run began with; absent where it began with none.
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
        /// The SHA-256 of requests from memory; absent otherwise.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub requests_sha256: Option<String>,
        /// The workload's [canonical text](workloads.md); null for a trace.
        pub workload: Option<String>,
        /// What the workload took for the size of the disk: the least that a layer of the comparison offers, or `--span`; null
        /// for a trace.
        pub workload_sectors: Option<u64>,
        /// Merged sources by number, traces first; absent for a single source.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub sources: Option<Vec<MergedSource>>,
        /// How they were [merged](workloads.md#several-sources); absent for a single source.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub interleave: Option<Interleave>,
        /// [Edits](command-line.md#edits) of the requests; absent where they are served as they are.
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
        self.requests_sha256.clone_from(&hashed.requests_sha256);
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
        /// The SHA-256 of the trace file as stored, or of requests from memory.
        pub sha256: Option<String>,
        /// The trace's format; absent for a workload.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub trace_format: Option<String>,
        /// How the trace was read; absent for a workload.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub trace_reading: Option<TraceReading>,
        /// What a trace uses, rounded up to 1 MiB, or what a workload took for the disk's size.
        pub sectors: u64,
        /// Where its LBA 0 was placed.
        pub first_lba: u64,
        /// Requests taken from it, warm-up included.
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
        /// Malformed, left out by `--skip-bad-rows`.
        pub skipped_rows: u64,
        /// Rounded outward to sectors.
        pub unaligned_rows: u64,
        /// With a time before that of the row above.
        pub out_of_order_rows: u64,
    }
}

record! {
    /// A power cut, and what was found after it.
    #[derive(Eq)]
    pub struct PowerCut {
        /// The physical write that was cut, from 1.
        pub write: u64,
        /// Requests completed before it.
        pub completed: u64,
        /// What became of the write in flight: `whole`, `absent`, `part`, or `none` if the cut hit other work.
        pub in_flight: InFlight,
        /// Sectors that had been acknowledged and were lost.
        pub lost_sectors: u64,
        /// Of those, the ones that were destroyed; the others show an older write.
        pub destroyed_sectors: u64,
        /// The first 100 lost extents, (LBA, sectors).
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
