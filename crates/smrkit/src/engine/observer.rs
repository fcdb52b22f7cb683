//! Observers of runs.

use super::saved::SavedState;
use crate::disk::Recorder;
use crate::request::Progress;
use crate::stats::counts::RequestRow;

/// Watches a run.
pub trait Observer {
    /// Called every few thousand requests; `false` ends the run with what there is.
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

    /// One request was completed (warm-up left out).
    fn request(&mut self, _row: &RequestRow) {}

    /// True if [`Observer::state`] is to be called.
    fn wants_state(&self) -> bool {
        false
    }

    /// The state at the end of a run that came to it.
    fn state(&mut self, _state: SavedState) {}

    /// Takes note of the accesses of a drive, by its number; asked again for one that takes its place.
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
