//! Several runs at once: one thread a run, all cores, one bar. An interrupt or a failed run ends the others.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use smrkit::disk::Recorder;
use smrkit::engine::Observer;
use smrkit::error::Error;
use smrkit::request::Progress;
use smrkit::stats::rows::RequestRow;

use crate::interrupt::Interrupt;
use crate::progress::{Bar, Part};

/// How often a run says how far it is.
const SAY_EVERY: Duration = Duration::from_millis(200);

/// Takes the answered requests of a run, one by one.
pub type RequestSink = Box<dyn FnMut(&RequestRow) + Send>;

/// Makes what takes note of the physical accesses of a drive, by its number.
pub type RecorderOf = Box<dyn FnMut(usize) -> Box<dyn Recorder> + Send>;

/// Makes all of `jobs` by `make`, which is given a job's number too; what was not begun is `None`.
pub fn make_all<Job: Sync, Made: Send>(
    jobs: &[Job],
    interrupt: &Interrupt,
    what: &str,
    make: impl Fn(usize, &Job, Watch) -> Result<Made, Error> + Sync,
) -> Vec<Result<Option<Made>, Error>> {
    let bar = Bar::new(jobs.len(), what);
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<Made, Error>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let failed = Interrupt::default();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(jobs.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(at).filter(|_| !interrupt.is_set() && !failed.is_set()) else { break };
                    let result = make(at, job, Watch::new(&bar, interrupt, &failed));
                    if result.is_err() {
                        failed.set();
                    }
                    *lock(&results[at]) = Some(result);
                }
            });
        }
    });
    bar.clear();
    let take = |result: Mutex<Option<_>>| result.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    results.into_iter().map(|result| take(result).transpose()).collect()
}

/// Makes one thing, watched.
pub fn make_one<Made>(
    interrupt: &Interrupt,
    what: &str,
    make: impl FnOnce(&mut Watch) -> Result<Made, Error>,
) -> Result<Made, Error> {
    let bar = Bar::new(1, what);
    let failed = Interrupt::default();
    let made = make(&mut Watch::new(&bar, interrupt, &failed));
    bar.clear();
    made
}

/// The content, also after a thread died with it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Watches one run for the terminal and for the interrupt.
pub struct Watch<'a> {
    bar: &'a Bar,
    part: Part,
    interrupt: &'a Interrupt,
    failed: &'a Interrupt,
    requests: Option<RequestSink>,
    accesses: Option<RecorderOf>,
    started: Instant,
    said: Instant,
}

impl<'a> Watch<'a> {
    fn new(bar: &'a Bar, interrupt: &'a Interrupt, failed: &'a Interrupt) -> Watch<'a> {
        let now = Instant::now();
        Watch { bar, part: bar.part(), interrupt, failed, requests: None, accesses: None, started: now, said: now }
    }

    /// Hands answered requests and physical accesses to what takes note of them, where there is such.
    pub fn recording(self, requests: Option<RequestSink>, accesses: Option<RecorderOf>) -> Watch<'a> {
        Watch { requests, accesses, ..self }
    }

    /// A run that counts no requests has come so far, from 0 to 1; tells whether it shall go on.
    pub fn is_at(&mut self, share: f64) -> bool {
        const STEPS: u64 = 1_000_000;
        if self.said.elapsed() > SAY_EVERY {
            self.said = Instant::now();
            let done = (share.clamp(0.0, 1.0) * STEPS as f64) as u64;
            self.part.show(Progress { done, total: Some(STEPS) });
        }
        !self.interrupt.is_set() && !self.failed.is_set()
    }

    /// The run begins anew: the rate is that of now on.
    pub fn restart(&mut self) {
        self.started = Instant::now();
    }
}

impl Observer for Watch<'_> {
    fn go_on(&mut self, progress: Progress, requests: u64) -> bool {
        if self.said.elapsed() > SAY_EVERY {
            self.said = Instant::now();
            let rate = requests as f64 / self.started.elapsed().as_secs_f64() / 1e6;
            match (requests, progress.total) {
                (0, Some(total)) => self.bar.say(format!("filling the disk, {} %", progress.done * 100 / total.max(1))),
                (0, None) => self.bar.say("filling the disk".into()),
                _ => {
                    self.part.show(progress);
                    self.bar.say(format!("{rate:.1} M requests/s"));
                }
            }
        }
        !self.interrupt.is_set() && !self.failed.is_set()
    }

    fn wants_requests(&self) -> bool {
        self.requests.is_some()
    }

    fn request(&mut self, row: &RequestRow) {
        if let Some(sink) = &mut self.requests {
            sink(row);
        }
    }

    fn recorder(&mut self, drive: usize) -> Option<Box<dyn Recorder>> {
        self.accesses.as_mut().map(|of| of(drive))
    }
}
