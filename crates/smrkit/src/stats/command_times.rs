//! Times of a drive's commands, as a host's timeout sees them: from dispatch to completion.

use std::ops::Add;

use serde::{Deserialize, Serialize};

use super::physical::add_fields;
use crate::units::Nanos;

/// Latency beyond which a request stalls: the time that hardware RAID waits for a command.
pub const STALL_7S: Nanos = Nanos(7_000_000_000);
/// The longest stall that Linux forgives by default (`/sys/block/*/device/timeout`).
pub const STALL_30S: Nanos = Nanos(30_000_000_000);

/// The longest commands of a drive, from dispatch to completion: time in the host's queue is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommandTimes {
    /// The longest command.
    pub longest_command_ns: u64,
    /// Commands that took longer than 7 s.
    pub commands_over_7s: u64,
    /// Commands that took longer than 30 s.
    pub commands_over_30s: u64,
}

impl CommandTimes {
    /// A command took so long.
    #[inline]
    pub fn count(&mut self, time: Nanos) {
        self.longest_command_ns = self.longest_command_ns.max(time.0);
        self.commands_over_7s += u64::from(time > STALL_7S);
        self.commands_over_30s += u64::from(time > STALL_30S);
    }
}

add_fields!(CommandTimes: longest_command_ns by u64::max, commands_over_7s, commands_over_30s);

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
