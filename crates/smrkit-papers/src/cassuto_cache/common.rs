//! Clocks and counters of the runs.

use smrkit::drive::{Constant, Drive, DriveClock};
use smrkit::error::Error;
use smrkit::stats::outcome::Outcome;

/// The drive's clock, which is the constant one.
pub(super) fn constant(drive: &Drive) -> Result<Constant, Error> {
    match &drive.clock {
        DriveClock::Constant(clock) => Ok(*clock),
        _ => Err(Error::Impossible(format!("{} has no constant clock: give it command_ms and sector_us", drive.name))),
    }
}

pub(super) fn seconds(outcome: &Outcome) -> f64 {
    outcome.elapsed_ns as f64 / 1e9
}
