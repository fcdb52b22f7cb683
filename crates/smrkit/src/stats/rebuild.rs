//! Report of a rebuild, a resilver or a scrub of an array. `docs/reference/outcome.md` explains every key.

use std::ops::Add;

use serde::{Deserialize, Serialize};

use super::latency::Latencies;
use super::physical::add_fields;
use super::timeline::{WINDOW_FIRST, WINDOWS_MAX};
use crate::settings::rebuild::RebuildSpec;
use crate::tally::{Cause, Tally};
use crate::units::Nanos;

/// A rebuild, a resilver or a scrub, from the failure (or its beginning) to the moment that the array was whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rebuild {
    /// The task.
    pub spec: RebuildSpec,
    /// From the beginning of counting to the failure, or to the beginning of a scrub.
    pub begin_ns: u64,
    /// From there until the array was redundant again, or all had been read.
    pub elapsed_ns: u64,
    /// The part of it in which there was work: without the wait for its beginning.
    pub work_ns: u64,
    /// From the failure until no cache held anything, if nothing more came; null where some layer stops before that.
    pub clean_ns: Option<u64>,
    /// Bytes that were rebuilt, or read of each member.
    pub bytes: u64,
    /// Bytes a second of `work_ns`.
    pub bytes_per_s: f64,
    /// When they were.
    #[serde(default, alias = "course")]
    pub series: Series,
    /// Number of pieces: a write each, and what had to be read for it.
    pub pieces: u64,
    /// The longest that one of them took.
    pub longest_piece_ns: u64,
    /// True if a timeout of 7 s would have dropped the new member (of a scrub: any), since a command took longer.
    pub dropped: bool,
    /// A copy of `dropped`, under the name that goes with `dropped_30s`.
    pub dropped_7s: bool,
    /// True if a timeout of 30 s would have dropped it.
    pub dropped_30s: bool,
    /// The longest command of any member.
    pub longest_command_ns: u64,
    /// The longest command of the new member; null of a scrub.
    pub longest_new_ns: Option<u64>,
    /// Latency of the host's requests completed meanwhile.
    pub foreground_ns: Latencies,
    /// The array's drives, in their order.
    pub members: Vec<MemberRebuild>,
}

/// Amount rebuilt (or read) in each of equal windows of time, from the failure on (or the beginning of the scrub).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// The length of a window; it doubles as the work takes longer.
    pub window_ns: u64,
    /// Bytes of the pieces that were finished in it.
    pub bytes: Vec<u64>,
}

impl Default for Series {
    fn default() -> Series {
        Series { window_ns: WINDOW_FIRST.0, bytes: Vec::new() }
    }
}

impl Series {
    /// A piece is finished, so long after the failure.
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

/// Work of a drive meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRebuild {
    /// True if it is new.
    pub new: bool,
    /// Commands that it was given and began.
    pub commands: u64,
    /// The longest of them, from its dispatch to its completion.
    pub longest_command_ns: u64,
    /// Number of those longer than 7 s.
    pub commands_over_7s: u64,
    /// Commands that took longer than 30 s.
    pub commands_over_30s: u64,
    /// The time that it was busy, by cause and operation.
    pub busy_ns: BusyTimes,
}

add_fields!(
    MemberRebuild: new by std::ops::BitOr::bitor,
    commands,
    longest_command_ns by u64::max,
    commands_over_7s,
    commands_over_30s,
    busy_ns
);

/// The time that a drive was busy, by cause and operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusyTimes {
    /// All of it.
    pub total: u64,
    /// Reads for commands.
    pub host_read: u64,
    /// Writes for commands, to their place or to the persistent cache.
    pub host_write: u64,
    /// Reads of maps.
    pub map_read: u64,
    /// Writes of maps.
    pub map_write: u64,
    /// Reading the persistent cache back.
    pub destage_read: u64,
    /// Writing destaged data.
    pub destage_write: u64,
    /// Reading bands, and garbage that is collected.
    pub clean_read: u64,
    /// Writing bands and scratch space.
    pub clean_write: u64,
}

add_fields!(
    BusyTimes: total, host_read, host_write, map_read, map_write, destage_read, destage_write, clean_read, clean_write
);

impl BusyTimes {
    /// The times of all accesses so far.
    pub fn from_tally(tally: &Tally) -> BusyTimes {
        let (read, write) = (|cause| tally.reads(cause).ns, |cause| tally.writes(cause).ns);
        BusyTimes {
            total: tally.busy().0,
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

    /// Part that came after `before`.
    pub fn since(&self, before: &BusyTimes) -> BusyTimes {
        BusyTimes {
            total: self.total - before.total,
            host_read: self.host_read - before.host_read,
            host_write: self.host_write - before.host_write,
            map_read: self.map_read - before.map_read,
            map_write: self.map_write - before.map_write,
            destage_read: self.destage_read - before.destage_read,
            destage_write: self.destage_write - before.destage_write,
            clean_read: self.clean_read - before.clean_read,
            clean_write: self.clean_write - before.clean_write,
        }
    }

    /// All but the total.
    pub fn parts(&self) -> [u64; 8] {
        [
            self.host_read,
            self.host_write,
            self.map_read,
            self.map_write,
            self.destage_read,
            self.destage_write,
            self.clean_read,
            self.clean_write,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_a_series_double_and_no_byte_is_lost() {
        let mut series = Series::default();
        for second in 0..1000 {
            series.add(Nanos(second * 1_000_000_000), 1 + second);
        }
        assert_eq!(series.window_ns, 1_600_000_000);
        assert!(series.bytes.len() <= WINDOWS_MAX);
        assert_eq!(series.bytes.iter().sum::<u64>(), 500_500);
        assert_eq!(series.bytes[..2], [1 + 2, 3 + 4], "of 0, 1 and 2, 3 s");
    }
}
