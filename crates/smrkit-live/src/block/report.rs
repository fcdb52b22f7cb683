//! A server's account of a run, and whether it kept up with the drive's clock.

use std::time::Duration;

use smrkit::stats::histogram::LatencyCounts;

/// Lateness that programs hardly notice: replies that are no later were in time, however short their latency.
const LATE: Duration = Duration::from_millis(1);

/// A server's account of what it has done.
#[derive(Default)]
pub struct ServeReport {
    /// Commands that were completed.
    pub completed: u64,
    /// Lateness of replies by the wall clock; empty without a pace.
    pub lateness: LatencyCounts,
    /// Mean latency of those replies by the wall clock, as the drive has it.
    pub mean_latency: Duration,
    /// True if the server had real-time priority.
    pub is_real_time: bool,
    /// True if the drive failed.
    pub has_failed: bool,
}

impl ServeReport {
    /// True if the server fell behind the drive's clock: one reply in a hundred was late by more than a twentieth of the mean latency
    /// and by more than `LATE` (assumptions).
    pub fn fell_behind(&self) -> bool {
        let late = Duration::from_nanos(self.lateness.list().summary().all.p99);
        late > self.mean_latency.div_f64(20.0).max(LATE)
    }
}

#[cfg(test)]
mod tests {
    use smrkit::request::Op;

    use super::*;

    #[test]
    fn a_server_fell_behind_if_replies_were_late_for_their_latency() {
        let mut report = ServeReport { mean_latency: Duration::from_millis(10), ..ServeReport::default() };
        assert!(!report.fell_behind());
        (0..990).for_each(|_| report.lateness.record(Op::Read, 40_000));
        (0..9).for_each(|_| report.lateness.record(Op::Write, 80_000_000));
        assert!(!report.fell_behind());
        (0..9).for_each(|_| report.lateness.record(Op::Write, 1_200_000));
        assert!(report.fell_behind());
        // What a write cache takes in has hardly a latency.
        let mut cached = ServeReport::default();
        cached.lateness.record(Op::Write, 50_000);
        assert!(!cached.fell_behind());
    }
}
