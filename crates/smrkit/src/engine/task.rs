//! Work of an array alongside the host's requests: a rebuild, a scrub, a member's failure.

use crate::device::{Array, DonePart, MemberDrive};
use crate::error::DiskResult;
use crate::request::{Progress, Request};
use crate::stats::counts::Times;
use crate::stats::outcome::Rebuild;
use crate::units::Nanos;

/// Work of an array's own next to the host's. A drive has none.
pub trait BackgroundTask {
    /// Counting begins (after prefill and warm-up).
    fn counting(&mut self, _now: Nanos) {}

    /// The host sends no more requests, and none is in flight: work that waited for the host can begin.
    fn host_done(&mut self, _now: Nanos) {}

    /// The result at the end of the run. Lets the members finish their own cleaning.
    fn report(&mut self, _array: &mut Array) -> DiskResult<Option<Rebuild>> {
        Ok(None)
    }

    /// When it is to act next; [`Nanos::MAX`] while it waits for its own commands, or has nothing to do.
    fn next(&self) -> Nanos {
        Nanos::MAX
    }

    /// Acts at the time of `next`.
    fn act(&mut self, _array: &mut Array, _now: Nanos) -> DiskResult {
        Ok(())
    }

    /// Notes a part that is done.
    fn done(&mut self, _done: &DonePart, _array: &mut Array) -> DiskResult {
        Ok(())
    }

    /// The drive that will replace another, and its number.
    fn successor(&mut self) -> Option<(usize, &mut MemberDrive)> {
        None
    }

    /// Notes a completed request of the host.
    fn completed(&mut self, _request: &Request, _times: &Times) {}

    /// True if nothing is left to do.
    fn is_over(&self) -> bool;

    /// Progress of the task.
    fn progress(&self) -> Progress {
        Progress::default()
    }
}

/// No work of the array's own.
pub struct Idle;

impl BackgroundTask for Idle {
    fn is_over(&self) -> bool {
        true
    }
}
