//! Account of a drive from some moment on, for reports on a part of a run.

use crate::stats::outcome::CommandTimes;
use crate::stats::rebuild::{BusyTimes, MemberRebuild};
use crate::tally::Tally;
use crate::units::Nanos;

/// Counts a drive's commands and times since a moment. A command belongs to the moment at which the drive begins it.
#[derive(Default)]
pub(super) struct CommandWatch {
    before: BusyTimes,
    commands: u64,
    times: CommandTimes,
}

impl CommandWatch {
    /// From now on.
    pub fn new(tally: &Tally) -> CommandWatch {
        CommandWatch { before: BusyTimes::from_tally(tally), ..CommandWatch::default() }
    }

    /// A command has been served, so long after its dispatch.
    #[inline]
    pub fn count(&mut self, time: Nanos) {
        self.commands += 1;
        self.times.count(time);
    }

    /// The account until now.
    pub fn report(&self, tally: &Tally) -> MemberRebuild {
        MemberRebuild {
            new: false,
            commands: self.commands,
            longest_command_ns: self.times.longest_command_ns,
            commands_over_7s: self.times.commands_over_7s,
            commands_over_30s: self.times.commands_over_30s,
            busy_ns: BusyTimes::from_tally(tally).since(&self.before),
        }
    }
}
