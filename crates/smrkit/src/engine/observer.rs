//! Observers of runs.

use super::saved::SavedState;
use crate::disk::Recorder;
use crate::request::{Progress, Request};
use crate::stats::counts::RequestRow;
use crate::stats::counts::{HostCounts, Times};

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

/// An observer, asked once if it wants requests.
pub(super) struct Watcher<'a> {
    observer: &'a mut dyn Observer,
    wants_requests: bool,
}

impl<'a> Watcher<'a> {
    pub fn new(observer: &'a mut dyn Observer) -> Watcher<'a> {
        Watcher { wants_requests: observer.wants_requests(), observer }
    }

    #[inline]
    pub fn wants_requests(&self) -> bool {
        self.wants_requests
    }

    /// Shows the progress, and how many requests are completed; returns whether the run goes on.
    pub fn go_on(&mut self, progress: Progress, requests: u64) -> bool {
        self.observer.go_on(progress, requests)
    }

    /// Shows the state at the end.
    pub fn show_state(&mut self, state: SavedState) {
        self.observer.state(state);
    }

    /// Shows a request that has been counted.
    #[inline(never)]
    pub fn request(&mut self, request: &Request, row: u64, times: &Times, counts: &HostCounts) {
        // This request has been counted already; rows are numbered from 0.
        self.observer.request(&RequestRow::new(request, row, times, counts.begin, counts.totals.requests - 1));
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
