//! The report of a served drive: what `serve --json` and `detach --json` print at the end, and `top --json` while it is served.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use smrkit::request::Op;
use smrkit::stats::latency::{Latency, LatencyCounts, LatencyLists};
use smrkit::units::{Nanos, SECTOR_BYTES};
use smrkit::{column_types, record};

use super::drive::ServedDrive;
use super::pace::PacedClock;

/// Replies that are late by no more than this count as on time, however short the latency is (assumption).
const TOLERATED_LATENESS: Duration = Duration::from_millis(1);

record! {
    /// Report of a served drive. Bytes and times are those since the server began; latencies are in the drive's time.
    pub struct DriveReport {
        /// True: the server has answered.
        pub ok: bool,
        /// `drive`; the report of a mount of SMRfs has no such key.
        pub kind: String,
        /// Number of the server's process.
        pub process: u32,
        /// smrkit's version.
        pub version: String,
        /// Clients that are connected over NBD.
        pub clients: u64,
        /// Requests completed.
        pub completed: u64,
        /// Requests that have arrived and are not completed.
        pub waiting: u64,
        /// Bytes of requests and replies in the server's memory.
        pub held_bytes: u64,
        /// The drive's clock, which goes on from one server to the next.
        pub drive_time_ns: u64,
        /// Time that has passed on the drive's clock.
        pub served_ns: u64,
        /// Bytes that clients read.
        pub host_read_bytes: u64,
        /// Bytes that clients wrote.
        pub host_written_bytes: u64,
        /// `host_read_bytes` per second of the drive's time.
        pub host_read_bytes_per_s: f64,
        /// `host_written_bytes` per second of the drive's time.
        pub host_written_bytes_per_s: f64,
        /// Latencies, from arrival to completion.
        pub latency_ns: DriveLatencies,
        /// Latencies in steps of at most 3 %: pairs of an upper bound and the number of requests, in ascending order.
        pub latency_histogram_ns: ByOp<Vec<(u64, u64)>>,
        /// Exact sums of the latencies.
        pub latency_sum_ns: ByOp<u64>,
        /// Requests that stalled.
        pub stalls: Stalls,
        /// Time that the drives spent on work of their own, such as cleaning.
        pub cleaning_ns: u64,
        /// Share of `served_ns` that a drive spent on work of its own; for an array, the mean of its drives.
        pub cleaning_share: f64,
        /// Share of the persistent cache in use; null for a layer that has none.
        pub cache_fill: Option<f64>,
        /// Memory of the layers' maps.
        pub map_bytes: u64,
        /// Bytes read from the platters.
        pub physical_read_bytes: u64,
        /// Bytes written to the platters.
        pub physical_written_bytes: u64,
        /// How late replies were by the host's clock; without a pace nothing is counted.
        pub lateness_ns: Latency,
        /// The same in steps, as in `latency_histogram_ns`.
        pub lateness_histogram_ns: ByOp<Vec<(u64, u64)>>,
        /// Exact sums of the lateness.
        pub lateness_sum_ns: ByOp<u64>,
        /// True if the server runs with real-time priority; null without a pace.
        pub is_real_time: Option<bool>,
        /// True if 1 % of the replies were late by more than 1 ms and more than 5 % of the mean latency.
        pub fell_behind: bool,
        /// Injected power cuts that have happened.
        pub power_cuts: u64,
        /// Members of an array that lack data: the number of each, and for a new one the share that is rebuilt.
        pub missing_members: Vec<MissingMember>,
        /// Commands that failed because they broke a rule of zones.
        pub zone_violations: u64,
        /// Injected faults that are still to come, as `smrkit inject` takes them.
        pub faults: Vec<String>,
        /// True once the drive fails every command.
        pub has_failed: bool,
        /// Why; null if it has not failed.
        pub failure: Option<String>,
        /// What is served.
        #[serde(flatten)]
        pub image: ImageReport,
    }
}

record! {
    /// The part of a report on the image, the drives and their layers.
    pub struct ImageReport {
        /// Path of the image; a list of bytes if it is not UTF-8.
        pub image: ReportedPath,
        /// The layer's name; of an array, those of its members.
        pub layer: String,
        /// The drive's name; of an array, those of its members.
        pub drive: String,
        /// Bytes that clients see.
        pub export_bytes: u64,
        /// Bytes on the platters.
        pub raw_bytes: u64,
        /// Bytes of persistent cache.
        pub cache_bytes: u64,
        /// The array's level and its number of drives; absent for a single drive.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub array: Option<String>,
    }
}

record! {
    /// Latencies of requests, of all together and by operation.
    #[derive(Copy, Eq)]
    pub struct DriveLatencies {
        /// All requests.
        pub all: Latency,
        /// The others.
        #[serde(flatten)]
        pub by_op: ByOp<Latency>,
    }
}

record! {
    /// A value for each operation.
    #[derive(Copy, Eq)]
    pub struct ByOp<T> {
        /// Reads.
        pub read: T,
        /// Writes, also those of zeros.
        pub write: T,
        /// Flushes, and commands that change a zone.
        pub flush: T,
        /// Discards.
        pub discard: T,
    }
}

impl<T> From<[T; 4]> for ByOp<T> {
    /// From values in the order of [`Op`].
    fn from([read, write, flush, discard]: [T; 4]) -> ByOp<T> {
        ByOp { read, write, flush, discard }
    }
}

record! {
    /// Requests that took longer than a span: users notice 1 s, many RAID controllers drop a disk after 7 s, and Linux's SCSI layer by
    /// default gives up after 30 s (assumptions).
    #[derive(Copy, Eq)]
    pub struct Stalls {
        /// Requests that took longer than 1 s.
        pub over_1s: u64,
        /// Those that took longer than 7 s.
        pub over_7s: u64,
        /// Those that took longer than 30 s.
        pub over_30s: u64,
    }
}

/// A path in a report, as [`path_value`](crate::mount::control::path_value) writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportedPath(pub Value);

/// The number of an array's member that lacks data, and the share of it that is rebuilt if it is new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MissingMember(pub u64, pub Option<f64>);

column_types!(ReportedPath: "str | list[int]", MissingMember: "list");

/// Totals of a drive since it was new. A report shows the difference to those at the server's start.
struct DriveTotals {
    now: Nanos,
    cleaning: Nanos,
    read_sectors: u64,
    written_sectors: u64,
}

impl DriveTotals {
    fn of(drive: &ServedDrive) -> DriveTotals {
        let sectors = drive.drives().into_iter().map(|drive| drive.physical_sectors());
        let (read_sectors, written_sectors) = sectors.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        DriveTotals { now: drive.now(), cleaning: drive.cleaning_time(), read_sectors, written_sectors }
    }
}

/// What the server has counted since it began.
pub(super) struct Counters {
    /// Latencies of completed commands, in the drive's time.
    latencies: LatencyCounts,
    stalls: Stalls,
    read_bytes: u64,
    written_bytes: u64,
    /// Lateness of replies in the host's time; empty without a pace.
    lateness: LatencyCounts,
    at_start: DriveTotals,
}

impl Counters {
    pub fn new(drive: &ServedDrive) -> Counters {
        Counters {
            latencies: LatencyCounts::default(),
            stalls: Stalls::default(),
            read_bytes: 0,
            written_bytes: 0,
            lateness: LatencyCounts::default(),
            at_start: DriveTotals::of(drive),
        }
    }

    /// Counts a command that has completed.
    pub fn note(&mut self, op: Op, latency: Nanos, late: Option<Duration>, bytes: u64) {
        self.latencies.record(op, latency.0);
        if let Some(late) = late {
            self.lateness.record(op, late.as_nanos() as u64);
        }
        let Stalls { over_1s, over_7s, over_30s } = &mut self.stalls;
        for (stalled, seconds) in [(over_1s, 1), (over_7s, 7), (over_30s, 30)] {
            *stalled += u64::from(latency.0 > seconds * 1_000_000_000);
        }
        match op {
            Op::Read => self.read_bytes += bytes,
            Op::Write => self.written_bytes += bytes,
            Op::Flush | Op::Discard => {}
        }
    }

    /// The report on a drive since this server started. `held_bytes` are those in memory.
    pub fn report(
        &self,
        drive: &ServedDrive,
        clock: Option<&PacedClock>,
        clients: usize,
        held_bytes: usize,
    ) -> DriveReport {
        let drives = drive.drives();
        let (begin, end) = (&self.at_start, DriveTotals::of(drive));
        let (served, cleaning) = (end.now.since(begin.now), end.cleaning.since(begin.cleaning));
        // A replaced member of an array counts from 0 again.
        let physical = |end: u64, begin: u64| end.saturating_sub(begin) * SECTOR_BYTES;
        let [latencies, lateness] = [&self.latencies, &self.lateness].map(LatencyCounts::list);
        let (latency, late) = (latencies.summary().all, lateness.summary().all);
        let mean_latency = clock.map_or(Duration::ZERO, |clock| clock.wall(Nanos(latency.mean)));
        let sums = |lists: &LatencyLists| lists.sums_ns().map(|sum| sum as u64).into();
        let rate = |bytes: u64| bytes as f64 * 1e9 / served.0.max(1) as f64;
        let missing = drive.model.missing_members().into_iter();
        DriveReport {
            ok: true,
            kind: "drive".into(),
            process: std::process::id(),
            version: smrkit::VERSION.into(),
            clients: clients as u64,
            completed: latency.count,
            waiting: drive.queue_length() as u64,
            held_bytes: held_bytes as u64,
            drive_time_ns: drive.now().0,
            served_ns: served.0,
            host_read_bytes: self.read_bytes,
            host_written_bytes: self.written_bytes,
            host_read_bytes_per_s: rate(self.read_bytes),
            host_written_bytes_per_s: rate(self.written_bytes),
            latency_ns: DriveLatencies { all: latency, by_op: latencies.by_op().into() },
            latency_histogram_ns: latencies.steps().into(),
            latency_sum_ns: sums(&latencies),
            stalls: self.stalls,
            cleaning_ns: cleaning.0,
            cleaning_share: (cleaning.0 as f64 / (served.0.max(1) * drives.len() as u64) as f64).min(1.0),
            cache_fill: drive.gauges().cache_fill,
            map_bytes: drives.iter().map(|drive| drive.layer.map_bytes()).sum(),
            physical_read_bytes: physical(end.read_sectors, begin.read_sectors),
            physical_written_bytes: physical(end.written_sectors, begin.written_sectors),
            lateness_ns: late,
            lateness_histogram_ns: lateness.steps().into(),
            lateness_sum_ns: sums(&lateness),
            is_real_time: clock.map(|clock| clock.is_real_time),
            fell_behind: fell_behind(Duration::from_nanos(late.p99), mean_latency),
            power_cuts: drive.power_cuts,
            missing_members: missing.map(|(number, share)| MissingMember(number as u64, share)).collect(),
            zone_violations: drive.zone_violations,
            faults: drive.faults(),
            has_failed: drive.failure.is_some(),
            failure: drive.failure.clone(),
            image: drive.image.describe(),
        }
    }
}

/// True if a server whose replies are this late (99 %) fell behind a drive of this mean latency: by more than 5 % of it, and by more than
/// `TOLERATED_LATENESS` (assumptions).
fn fell_behind(late: Duration, mean_latency: Duration) -> bool {
    late > mean_latency.div_f64(20.0).max(TOLERATED_LATENESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_fell_behind_if_replies_were_late_for_their_latency() {
        let [short, long] = [Duration::from_millis(10), Duration::from_millis(100)];
        for (late_us, mean_latency, is_behind) in
            [(900, short, false), (1200, short, true), (1200, long, false), (50, Duration::ZERO, false)]
        {
            assert_eq!(
                fell_behind(Duration::from_micros(late_us), mean_latency),
                is_behind,
                "{late_us} us, {mean_latency:?}"
            );
        }
    }
}
