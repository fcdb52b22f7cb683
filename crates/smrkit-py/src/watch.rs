//! Does work on a separate thread, while the calling thread checks for Ctrl-C and reports the progress.
//!
//! The simulator therefore never calls Python. The calling thread checks every 50 ms, and releases the interpreter's lock in between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use smrkit::experiment::pool::{Monitor, RunStage, Stage};
use smrkit_options::COMMIT;

/// Time between checks of the calling thread.
const CHECK_EVERY: Duration = Duration::from_millis(50);
/// Time that the work has to end after Ctrl-C. After that, its thread is abandoned.
const GRACE: Duration = Duration::from_millis(100);

/// Receives the progress of work, and can stop it.
#[derive(Clone, Default)]
pub struct Watcher(Arc<State>);

#[derive(Default)]
struct State {
    is_stopped: AtomicBool,
    progress: Mutex<Progress>,
}

#[derive(Clone, Default, PartialEq)]
struct Progress {
    /// What is being done.
    what: String,
    /// The share of each run that is done.
    runs: Vec<f64>,
}

impl Watcher {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.0.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `callback` with the progress, if it is not the one that was `reported` last.
    fn report(&self, callback: &Bound<PyAny>, reported: &mut Option<Progress>) -> PyResult<()> {
        let progress = self.progress().clone();
        if reported.as_ref() == Some(&progress) {
            return Ok(());
        }
        let share = progress.runs.iter().sum::<f64>() / progress.runs.len().max(1) as f64;
        callback.call1((share, progress.what.as_str()))?;
        *reported = Some(progress);
        Ok(())
    }
}

impl Monitor for Watcher {
    fn goes_on(&self) -> bool {
        !self.0.is_stopped.load(Ordering::Relaxed)
    }

    fn commit(&self) -> Option<&str> {
        COMMIT
    }

    fn begin(&self, runs: usize, what: &str) -> Box<dyn Stage> {
        *self.progress() = Progress { what: what.into(), runs: vec![0.0; runs] };
        Box::new(self.clone())
    }
}

impl Stage for Watcher {
    fn show(&self, run: usize, step: RunStage) {
        let RunStage::Serving { progress, .. } = step else { return };
        let done = progress.total.map_or(0.0, |total| progress.done as f64 / total.max(1) as f64);
        if let Some(share) = self.progress().runs.get_mut(run) {
            *share = done.min(1.0);
        }
    }

    fn end(&self, run: usize) {
        if let Some(share) = self.progress().runs.get_mut(run) {
            *share = 1.0;
        }
    }
}

/// Does `work` on a thread of its own, and calls `progress` with the share that is done and what is being done. Ctrl-C or an exception of
/// `progress` stops the work.
pub fn watched<T: Send + 'static>(
    py: Python,
    progress: Option<&Bound<PyAny>>,
    work: impl FnOnce(&Watcher) -> T + Send + 'static,
) -> PyResult<T> {
    let watcher = Watcher::default();
    let (sender, result) = mpsc::sync_channel(1);
    let (workers, result) = (watcher.clone(), Mutex::new(result));
    // Sending fails if the thread was abandoned, and then nobody needs the result.
    std::thread::spawn(move || drop(sender.send(work(&workers))));
    let wait = |time| py.detach(|| result.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(time));
    let mut reported = None;
    let mut check = |watcher: &Watcher| {
        py.check_signals()?;
        progress.map_or(Ok(()), |callback| watcher.report(callback, &mut reported))
    };
    loop {
        match wait(CHECK_EVERY) {
            Ok(result) => {
                check(&watcher)?;
                return Ok(result);
            }
            // The thread ended without a result, so it has panicked.
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("smrkit has met a bug of its own; standard error tells more"));
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Err(exception) = check(&watcher) {
                    watcher.0.is_stopped.store(true, Ordering::Relaxed);
                    let _ = wait(GRACE);
                    return Err(exception);
                }
            }
        }
    }
}
