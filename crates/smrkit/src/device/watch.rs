//! What a drive does from some moment on, for reports on a part of a run.

use crate::stats::counts::{STALL_7S, STALL_30S};
use crate::stats::rebuild::{BusyTimes, MemberRebuild};
use crate::tally::Tally;
use crate::units::Nanos;

/// Counts a drive's commands and times since a moment. A command belongs to the moment at which the drive begins it.
#[derive(Default)]
pub(super) struct Watch {
    before: BusyTimes,
    commands: u64,
    longest: Nanos,
    over_7s: u64,
    over_30s: u64,
}

impl Watch {
    /// From now on.
    pub fn new(tally: &Tally) -> Watch {
        Watch { before: BusyTimes::of(tally), ..Watch::default() }
    }

    /// A command has been served.
    #[inline]
    pub fn count(&mut self, latency: Nanos) {
        self.commands += 1;
        self.longest = self.longest.max(latency);
        self.over_7s += u64::from(latency > STALL_7S);
        self.over_30s += u64::from(latency > STALL_30S);
    }

    /// What there was until now.
    pub fn report(&self, tally: &Tally) -> MemberRebuild {
        MemberRebuild {
            new: false,
            commands: self.commands,
            longest_command_ns: self.longest.0,
            commands_over_7s: self.over_7s,
            commands_over_30s: self.over_30s,
            busy_ns: BusyTimes::of(tally).since(&self.before),
        }
    }
}
