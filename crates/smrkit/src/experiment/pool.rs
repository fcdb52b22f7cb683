//! Several runs at once: a thread for each run, on all cores, under one progress bar. An interrupt or a failed run ends the others. Written
//! by hand: runs are long, so a counter distributes them as well as rayon would.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::comparison::RunRecorders;
use crate::disk::Recorder;
use crate::engine::Observer;
use crate::engine::saved::SavedState;
use crate::error::Error;
use crate::request::{Progress, Request, Source};
use crate::stats::counts::RequestRow;

/// Time between a run's reports on its progress.
const REPORT_EVERY: Duration = Duration::from_millis(200);

/// Takes the completed requests of a run, one by one.
pub type RequestSink = Box<dyn FnMut(&RequestRow) + Send>;

/// Makes the recorder for the physical accesses of a drive, by its number.
pub type RecorderOf = Box<dyn FnMut(usize) -> Box<dyn Recorder> + Send>;

/// Takes the state at the end of a run.
pub type StateSink = Box<dyn FnOnce(SavedState) + Send>;

/// How a front end watches runs and interrupts them.
pub trait Monitor: Sync {
    /// `false` interrupts the runs. Asked often.
    fn goes_on(&self) -> bool {
        true
    }

    /// The commit that the program was built from, where it is known.
    fn commit(&self) -> Option<&str> {
        None
    }

    /// Number of concurrent runs; 0 keeps them on the calling thread, one after another.
    fn threads(&self) -> usize {
        std::thread::available_parallelism().map_or(1, |n| n.get())
    }

    /// Begins `runs` runs for the purpose `what`.
    fn begin(&self, _runs: usize, _what: &str) -> Box<dyn Stage> {
        Box::new(Unwatched)
    }
}

/// Shows the progress of several runs; dropped at their end.
pub trait Stage: Send + Sync {
    /// Shows the progress of a run.
    fn show(&self, _run: usize, _step: RunStage) {}

    /// Notes the end of a run.
    fn end(&self, _run: usize) {}
}

/// Stage of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunStage {
    /// The disk is filled.
    Filling(Progress),
    /// Requests are served, or work that has no rate is done.
    Serving {
        /// The progress.
        progress: Progress,
        /// Requests a second.
        rate: Option<f64>,
    },
}

/// Shows nothing and never interrupts.
pub struct Unwatched;

impl Monitor for Unwatched {}

impl Stage for Unwatched {}

/// Calls `make` for each of `jobs`, with the job's number. After an interrupt or a failure no further job begins; jobs that were not begun
/// are `None`, and come last.
pub fn make_all<Job: Sync, Made: Send>(
    jobs: &[Job],
    monitor: &dyn Monitor,
    what: &str,
    make: impl Fn(usize, &Job, RunWatch) -> Result<Made, Error> + Sync,
) -> Vec<Result<Option<Made>, Error>> {
    let stage = monitor.begin(jobs.len(), what);
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<Made, Error>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let failed = AtomicBool::new(false);
    let work = || {
        while monitor.goes_on() && !failed.load(Ordering::Relaxed) {
            // Relaxed, because only the number has to be unique: results are handed over by the mutexes.
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(at) else { break };
            let result = make(at, job, RunWatch::new(at, stage.as_ref(), monitor, &failed));
            if result.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            *lock(&results[at]) = Some(result);
        }
    };
    match monitor.threads().min(jobs.len()) {
        // On the calling thread, where no others can be started.
        0 => work(),
        threads => std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        }),
    }
    let take = |result: Mutex<Option<_>>| result.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    results.into_iter().map(|result| take(result).transpose()).collect()
}

/// Like [`make_all`], for a single job on the calling thread.
pub fn make_one<Made>(
    monitor: &dyn Monitor,
    what: &str,
    make: impl FnOnce(&mut RunWatch) -> Result<Made, Error>,
) -> Result<Made, Error> {
    let stage = monitor.begin(1, what);
    make(&mut RunWatch::new(0, stage.as_ref(), monitor, &AtomicBool::new(false)))
}

/// A source that shows its progress, and ends when its monitor interrupts it.
pub struct WatchedSource<'a, S> {
    /// The source.
    pub source: S,
    stage: Box<dyn Stage>,
    monitor: &'a dyn Monitor,
}

impl<'a, S: Source> WatchedSource<'a, S> {
    /// A source that is read for `what`.
    pub fn new(source: S, monitor: &'a dyn Monitor, what: &str) -> WatchedSource<'a, S> {
        WatchedSource { source, stage: monitor.begin(1, what), monitor }
    }

    /// Ends the display; returns the source.
    pub fn finish(self) -> S {
        self.source
    }
}

impl<S: Source> Source for WatchedSource<'_, S> {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        if self.monitor.goes_on() {
            self.source.fill(batch)?;
            self.stage.show(0, RunStage::Serving { progress: self.source.progress(), rate: None });
        }
        Ok(())
    }

    fn progress(&self) -> Progress {
        self.source.progress()
    }
}

/// Locks the mutex, also if a thread panicked while it held it.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Watches one run for a monitor.
pub struct RunWatch<'a> {
    run: usize,
    stage: &'a dyn Stage,
    monitor: &'a dyn Monitor,
    failed: &'a AtomicBool,
    /// Takes completed requests.
    pub requests: Option<RequestSink>,
    accesses: Option<RecorderOf>,
    /// Takes the state at the end of the next run.
    pub state: Option<StateSink>,
    started: Instant,
    reported: Instant,
}

impl<'a> RunWatch<'a> {
    fn new(run: usize, stage: &'a dyn Stage, monitor: &'a dyn Monitor, failed: &'a AtomicBool) -> RunWatch<'a> {
        let now = Instant::now();
        RunWatch {
            run,
            stage,
            monitor,
            failed,
            requests: None,
            accesses: None,
            state: None,
            started: now,
            reported: now,
        }
    }

    /// Records the run to `records`.
    pub fn recording(self, records: RunRecorders) -> RunWatch<'a> {
        let RunRecorders { requests, accesses, state } = records;
        RunWatch { requests, accesses, state, ..self }
    }

    /// Shows the progress, from 0 to 1, of a run that counts no requests; returns `false` if it is interrupted.
    pub fn is_at(&mut self, share: f64) -> bool {
        const STEPS: u64 = 1_000_000;
        let done = (share.clamp(0.0, 1.0) * STEPS as f64) as u64;
        self.report(|_| RunStage::Serving { progress: Progress { done, total: Some(STEPS) }, rate: None });
        self.goes_on()
    }

    fn report(&mut self, step: impl FnOnce(&RunWatch) -> RunStage) {
        if self.reported.elapsed() > REPORT_EVERY {
            self.reported = Instant::now();
            self.stage.show(self.run, step(self));
        }
    }

    fn goes_on(&self) -> bool {
        self.monitor.goes_on() && !self.failed.load(Ordering::Relaxed)
    }
}

impl Drop for RunWatch<'_> {
    fn drop(&mut self) {
        self.stage.end(self.run);
    }
}

impl Observer for RunWatch<'_> {
    fn go_on(&mut self, progress: Progress, requests: u64) -> bool {
        self.report(|watch| match requests {
            0 => RunStage::Filling(progress),
            _ => RunStage::Serving { progress, rate: Some(requests as f64 / watch.started.elapsed().as_secs_f64()) },
        });
        self.goes_on()
    }

    fn restart(&mut self) {
        self.started = Instant::now();
    }

    fn commit(&self) -> Option<&str> {
        self.monitor.commit()
    }

    fn wants_requests(&self) -> bool {
        self.requests.is_some()
    }

    fn request(&mut self, row: &RequestRow) {
        if let Some(sink) = &mut self.requests {
            sink(row);
        }
    }

    fn wants_state(&self) -> bool {
        self.state.is_some()
    }

    fn state(&mut self, state: SavedState) {
        // The sink is for the next run only.
        if let Some(sink) = self.state.take() {
            sink(state);
        }
    }

    fn recorder(&mut self, drive: usize) -> Option<Box<dyn Recorder>> {
        self.accesses.as_mut().map(|recorder_of| recorder_of(drive))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen(Mutex<Vec<RunStage>>);

    impl Stage for Seen {
        fn show(&self, _run: usize, step: RunStage) {
            lock(&self.0).push(step);
        }
    }

    #[test]
    fn a_run_without_a_request_yet_is_filling_its_disk() {
        let (seen, failed) = (Seen::default(), AtomicBool::new(false));
        let mut watch = RunWatch::new(0, &seen, &Unwatched, &failed);
        let progress = Progress { done: 3, total: Some(4) };
        for requests in [0, 1, 1000] {
            watch.reported = Instant::now().checked_sub(2 * REPORT_EVERY).unwrap();
            assert!(watch.go_on(progress, requests));
        }
        let seen = lock(&seen.0);
        assert_eq!((seen.len(), seen[0]), (3, RunStage::Filling(progress)));
        for step in &seen[1..] {
            let RunStage::Serving { progress: served, rate: Some(rate) } = *step else { panic!("{step:?}") };
            assert!(served == progress && rate > 0.0, "{step:?}");
        }
        failed.store(true, Ordering::Relaxed);
        assert!(!watch.go_on(progress, 1), "another run has failed");
    }
}
