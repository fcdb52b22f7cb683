//! Work on a separate thread, while the calling thread checks for Ctrl-C and reports the progress.
//!
//! So the simulator never calls Python: the calling thread checks every 50 ms, and releases the interpreter's lock in between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use smrkit::experiment::pool::{Monitor, RunStage, Stage};
use smrkit_options::COMMIT;

/// Time between checks of the calling thread.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time that the work has to notice that it should end; after that, it is left behind.
const PATIENCE: Duration = Duration::from_millis(100);

/// Watches work, and ends it.
#[derive(Clone, Default)]
pub struct Watcher(Arc<State>);

#[derive(Default)]
struct State {
    is_ended: AtomicBool,
    at: Mutex<At>,
}

/// Progress of the work.
#[derive(Clone, Default, PartialEq)]
struct At {
    what: String,
    /// The share of each run that is done.
    runs: Vec<f64>,
}

impl Watcher {
    fn at(&self) -> MutexGuard<'_, At> {
        self.0.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports the progress, if it has changed since `said`.
    fn say(&self, progress: &Bound<PyAny>, said: &mut Option<At>) -> PyResult<()> {
        let at = self.at().clone();
        if said.as_ref() == Some(&at) {
            return Ok(());
        }
        let share = at.runs.iter().sum::<f64>() / at.runs.len().max(1) as f64;
        progress.call1((share, at.what.as_str()))?;
        *said = Some(at);
        Ok(())
    }
}

impl Monitor for Watcher {
    fn goes_on(&self) -> bool {
        !self.0.is_ended.load(Ordering::Relaxed)
    }

    fn commit(&self) -> Option<&str> {
        COMMIT
    }

    fn begin(&self, runs: usize, what: &str) -> Box<dyn Stage> {
        *self.at() = At { what: what.into(), runs: vec![0.0; runs] };
        Box::new(self.clone())
    }
}

impl Stage for Watcher {
    fn show(&self, run: usize, step: RunStage) {
        let RunStage::Serving { progress, .. } = step else { return };
        let share = progress.total.map_or(0.0, |total| progress.done as f64 / total.max(1) as f64);
        if let Some(at) = self.at().runs.get_mut(run) {
            *at = share.min(1.0);
        }
    }

    fn end(&self, run: usize) {
        if let Some(at) = self.at().runs.get_mut(run) {
            *at = 1.0;
        }
    }
}

/// Does `work`, and calls `progress` with the share that is done and the current stage. An exception of that ends the work, and so does
/// Ctrl-C.
pub fn watched<T: Send + 'static>(
    py: Python,
    progress: Option<&Bound<PyAny>>,
    work: impl FnOnce(&Watcher) -> T + Send + 'static,
) -> PyResult<T> {
    let watcher = Watcher::default();
    let (sender, result) = mpsc::sync_channel(1);
    let (own, result) = (watcher.clone(), Mutex::new(result));
    // Sending fails if the work was left behind; nobody needs the result then.
    std::thread::spawn(move || drop(sender.send(work(&own))));
    let wait = |time| py.detach(|| result.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(time));
    let mut said = None;
    let mut look = |watcher: &Watcher| {
        py.check_signals()?;
        progress.map_or(Ok(()), |progress| watcher.say(progress, &mut said))
    };
    loop {
        match wait(LOOK_EVERY) {
            Ok(made) => {
                look(&watcher)?;
                return Ok(made);
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("smrkit has met a bug of its own; standard error tells more"));
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Err(raised) = look(&watcher) {
                    watcher.0.is_ended.store(true, Ordering::Relaxed);
                    let _ = wait(PATIENCE);
                    return Err(raised);
                }
            }
        }
    }
}
