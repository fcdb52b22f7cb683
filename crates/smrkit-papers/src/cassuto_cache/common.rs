//! Clocks and counters of the runs.

use smrkit::drive::{Constant, Drive, DriveClock};
use smrkit::error::Error;
use smrkit::stats::outcome::Outcome;

use super::super::counter;

/// The drive's clock, which is the constant one.
pub(super) fn constant(drive: &Drive) -> Result<Constant, Error> {
    match &drive.clock {
        DriveClock::Constant(clock) => Ok(*clock),
        _ => Err(Error::Impossible(format!("{} has no constant clock: give it command_ms and sector_us", drive.name))),
    }
}

/// A counter of the layer's own.
pub(super) fn stat(outcome: &Outcome, key: &str) -> f64 {
    counter(outcome, key).map_or(f64::NAN, |value| value as f64)
}

pub(super) fn seconds(outcome: &Outcome) -> f64 {
    outcome.elapsed_ns as f64 / 1e9
}
