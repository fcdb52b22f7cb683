//! Report of a rebuild, a resilver or a scrub of an array. `docs/reference/outcome.md` explains every key.

use std::ops::Add;

use super::latency::Latencies;
use super::timeline::{WINDOW_FIRST, WINDOWS_MAX};
use crate::record;
use crate::settings::rebuild::RebuildSpec;
use crate::tally::{Cause, CauseTimes};
use crate::units::Nanos;

record! {
    /// A rebuild, a resilver or a scrub. Times of members cover the time from the failure (or the start of the scrub)
    /// until the array was redundant again; a command counts if the drive began it in this time.
    pub struct Rebuild {
        /// Canonical text of the rebuild, resilver or scrub.
        pub spec: RebuildSpec,
        /// Time from the beginning of counting to the failure, or to the start of the scrub.
        pub begin_ns: u64,
        /// Time from `begin_ns` until the array was redundant again, or until the scrub had read everything.
        pub elapsed_ns: u64,
        /// Part of `elapsed_ns` in which the array was rebuilding; less than all of it with `failed=before`.
        pub work_ns: u64,
        /// Time from the failure until all caches would be empty if no further requests came; null if a layer stops
        /// cleaning earlier.
        pub clean_ns: Option<u64>,
        /// Bytes that were rebuilt; for a scrub, bytes read from each member.
        pub bytes: u64,
        /// Rate: `bytes` per second of `work_ns`.
        pub bytes_per_s: f64,
        /// Progress over time.
        pub series: Series,
        /// Number of pieces. A piece is one write, and the reads that it needs.
        pub pieces: u64,
        /// Longest time that a piece took, including its reads.
        pub longest_piece_ns: u64,
        /// True if a timeout of 7 s would have dropped the new member (for a scrub, any member), because a command took
        /// longer.
        pub dropped: bool,
        /// The same as `dropped`, under a name that matches `dropped_30s`.
        pub dropped_7s: bool,
        /// True if a timeout of 30 s would have dropped that member.
        pub dropped_30s: bool,
        /// The longest command of any member, from dispatch to completion.
        pub longest_command_ns: u64,
        /// The longest command of the new member; null for a scrub.
        pub longest_new_ns: Option<u64>,
        /// Latency of the host's requests that completed during the rebuild or scrub.
        pub foreground_ns: Latencies,
        /// Work of each drive, in the order of the run's `members`.
        pub members: Vec<MemberRebuild>,
    }
}

impl Rebuild {
    /// Leaves out the series, and all members except the new ones; of a scrub it keeps their sum.
    pub(super) fn summary(&self) -> Rebuild {
        let new: Vec<MemberRebuild> = self.members.iter().filter(|member| member.new).cloned().collect();
        let all = || self.members.iter().cloned().reduce(Add::add).into_iter().collect();
        Rebuild {
            series: Series { window_ns: self.series.window_ns, ..Series::default() },
            members: if new.is_empty() { all() } else { new },
            ..self.clone()
        }
    }
}

record! {
    /// Progress in equal windows of time, from the failure on (or the start of the scrub).
    #[derive(Eq)]
    pub struct Series {
        /// The length of a window; it doubles as the work takes longer.
        pub window_ns: u64,
        /// Bytes of the pieces that were finished in each window.
        pub bytes: Vec<u64>,
    }
}

impl Series {
    /// An empty series, in windows of the first length.
    pub fn new() -> Series {
        Series { window_ns: WINDOW_FIRST.0, bytes: Vec::new() }
    }

    /// Adds a piece that was finished `at` after the failure.
    #[inline]
    pub fn add(&mut self, at: Nanos, bytes: u64) {
        while at.0 / self.window_ns >= WINDOWS_MAX as u64 {
            self.bytes = self.bytes.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.window_ns *= 2;
        }
        let window = (at.0 / self.window_ns) as usize;
        self.bytes.resize(self.bytes.len().max(window + 1), 0);
        self.bytes[window] += bytes;
    }
}

record! {
    /// Work of a drive during the rebuild or scrub.
    #[derive(Copy, Eq)]
    pub struct MemberRebuild: Add {
        /// True for the new drive.
        pub new: bool => std::ops::BitOr::bitor,
        /// Commands that the drive received and began.
        pub commands: u64,
        /// Longest time of one of these commands, from dispatch to completion.
        pub longest_command_ns: u64 => u64::max,
        /// Number of these commands that took longer than 7 s.
        pub commands_over_7s: u64,
        /// Number of these commands that took longer than 30 s.
        pub commands_over_30s: u64,
        /// Time that the drive was busy, by cause and operation.
        pub busy_ns: BusyTimes,
    }
}

record! {
    /// Time that a drive was busy, by cause and operation.
    #[derive(Copy, Eq)]
    pub struct BusyTimes: Add {
        /// All causes and operations.
        pub total: u64,
        /// Reads for commands.
        pub host_read: u64,
        /// Writes for commands, in place or to the persistent cache.
        pub host_write: u64,
        /// Reads of maps.
        pub map_read: u64,
        /// Writes of maps.
        pub map_write: u64,
        /// Reading the persistent cache back.
        pub destage_read: u64,
        /// Writing destaged data.
        pub destage_write: u64,
        /// Reads of bands that are cleaned, and of garbage that is collected.
        pub clean_read: u64,
        /// Writes of bands and of scratch space.
        pub clean_write: u64,
    }
}

impl BusyTimes {
    /// The times of the accesses between two moments, from [`Tally::times`] at each.
    ///
    /// [`Tally::times`]: crate::tally::Tally::times
    pub fn between(before: CauseTimes, now: CauseTimes) -> BusyTimes {
        let ([reads_before, writes_before], [reads, writes]) = (before, now);
        let read = |cause: Cause| reads[cause as usize] - reads_before[cause as usize];
        let write = |cause: Cause| writes[cause as usize] - writes_before[cause as usize];
        BusyTimes {
            total: Cause::ALL.into_iter().map(|cause| read(cause) + write(cause)).sum(),
            host_read: read(Cause::Host),
            host_write: write(Cause::Host),
            map_read: read(Cause::Map),
            map_write: write(Cause::Map),
            destage_read: read(Cause::Destage),
            destage_write: write(Cause::Destage),
            clean_read: read(Cause::Clean),
            clean_write: write(Cause::Clean),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_a_series_double_and_no_byte_is_lost() {
        let mut series = Series::new();
        for second in 0..1000 {
            series.add(Nanos(second * 1_000_000_000), 1 + second);
        }
        assert_eq!(series.window_ns, 1_600_000_000);
        assert!(series.bytes.len() <= WINDOWS_MAX);
        assert_eq!(series.bytes.iter().sum::<u64>(), 500_500);
        assert_eq!(series.bytes[..2], [1 + 2, 3 + 4], "of 0, 1 and 2, 3 s");
    }
}
