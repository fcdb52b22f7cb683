//! Observers of runs.

use super::saved::SavedState;
use crate::disk::Recorder;
use crate::request::Progress;
use crate::stats::counts::RequestRow;

/// Watches a run.
pub trait Observer {
    /// Called every few thousand requests; `false` ends the run with the counts so far.
    fn go_on(&mut self, _progress: Progress, _requests: u64) -> bool {
        true
    }

    /// The run begins anew.
    fn restart(&mut self) {}

    /// The commit that the program was built from, where it is known.
    fn commit(&self) -> Option<&str> {
        None
    }

    /// True if [`Observer::request`] is to be called.
    fn wants_requests(&self) -> bool {
        false
    }

    /// Receives the row of a completed request (after the warm-up).
    fn request(&mut self, _row: &RequestRow) {}

    /// True if [`Observer::state`] is to be called.
    fn wants_state(&self) -> bool {
        false
    }

    /// Receives the state at the end of a run that was not ended early.
    fn state(&mut self, _state: SavedState) {}

    /// The recorder for a drive's accesses, by the number of the drive. Asked again for a drive that replaces it.
    fn recorder(&mut self, _drive: usize) -> Option<Box<dyn Recorder>> {
        None
    }
}

/// Watches nothing.
pub struct NoObserver;

impl Observer for NoObserver {}

/// Keeps the row of every request, in the order of completion.
#[derive(Clone, Debug, Default)]
pub struct RequestRows(pub Vec<RequestRow>);

impl Observer for RequestRows {
    fn wants_requests(&self) -> bool {
        true
    }

    fn request(&mut self, row: &RequestRow) {
        self.0.push(*row);
    }
}
