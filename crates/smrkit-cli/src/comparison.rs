//! Several runs on the same requests: one thread a run, all cores, and the conventional disk as their baseline.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use smrkit::disk::Recorder;
use smrkit::engine::Observer;
use smrkit::engine::run::Run;
use smrkit::engine::settings::{Arrival, Settings};
use smrkit::error::Error;
use smrkit::layer::{self, BASELINE, Parameters};
use smrkit::request::Progress;
use smrkit::stats::outcome::{Outcome, Outcomes};
use smrkit::stats::rows::RequestRow;
use smrkit::stats::timeline::{TimelineBuilder, WINDOW_FIRST};
use smrkit::stats::verdict::{Baseline, judge};

use crate::exit::{COMMIT, VERSION};
use crate::input::{Input, Opened};
use crate::interrupt::Interrupt;
use crate::progress::{Bar, Part};

/// Takes the answered requests of a run, one by one.
pub type RequestSink = Box<dyn FnMut(&RequestRow) + Send>;

/// What records a run in detail; it goes to the one run that was asked for.
#[derive(Default)]
pub struct Records {
    pub requests: Option<RequestSink>,
    pub accesses: Option<Box<dyn Recorder>>,
}

/// What a comparison gave.
pub struct Compared {
    pub outcomes: Outcomes,
    /// Every run came to its end, the quiet baseline too.
    pub complete: bool,
}

/// Runs every run on `input` and completes the outcomes with what only the comparison tells.
///
/// `in-place` is run quietly where it is not among them, unchecked, for it copes with no shingling. An interrupt leaves
/// the outcomes so far, marked as such.
pub fn compare(
    runs: &[Run],
    input: &Input,
    interrupt: &Interrupt,
    what: &str,
    records: Records,
) -> anyhow::Result<Compared> {
    let listed = runs.iter().position(|run| run.layer.name == BASELINE);
    let mut all: Vec<Run> = runs.to_vec();
    if let (None, Some(first)) = (listed, runs.first()) {
        // Unchecked: on a shingled disk the baseline would be caught, as it should be when it is asked for.
        let settings = Settings { check: false, ..first.settings };
        let (layer, parameters) = (layer::find(BASELINE)?, Parameters::default());
        all.push(Run { layer, parameters, settings, ..first.clone() });
    }
    let mut outcomes = run_all(&all, input, interrupt, what, records)?;
    let at = listed.unwrap_or(runs.len());
    let complete = outcomes.iter().all(|outcome| outcome.as_ref().is_some_and(|outcome| !outcome.interrupted));
    let baseline = outcomes[at].as_ref().filter(|outcome| !outcome.interrupted).map(Baseline::of);
    outcomes.truncate(runs.len());
    let mut runs: Vec<Outcome> = outcomes.into_iter().flatten().collect();
    let sha256 = runs.first().and_then(|first| first.trace_sha256.clone());
    for outcome in &mut runs {
        outcome.trace_sha256.clone_from(&sha256);
        // A part of the requests says nothing beside all of them.
        judge(outcome, baseline.as_ref().filter(|_| !outcome.interrupted));
    }
    Ok(Compared { outcomes: Outcomes { schema: 1, runs }, complete })
}

fn run_all(
    runs: &[Run],
    input: &Input,
    interrupt: &Interrupt,
    what: &str,
    records: Records,
) -> anyhow::Result<Vec<Option<Outcome>>> {
    let bar = Bar::new(runs.len(), what);
    let capacities = runs.iter().map(|run| run.host_sectors().map_err(|error| name_layer(error, run)));
    // All see the same requests, so the workload keeps to what the smallest of them offers.
    let host_sectors = capacities.collect::<anyhow::Result<Vec<u64>>>()?.into_iter().min().unwrap_or(0);
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<Outcome, Error>>>> = runs.iter().map(|_| Mutex::new(None)).collect();
    let records = Mutex::new(Some(records));
    let failed = Interrupt::default();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(runs.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(run) = runs.get(at) else { break };
                    if interrupt.is_set() || failed.is_set() {
                        break;
                    }
                    let records = if at == 0 { lock(&records).take() } else { None }.unwrap_or_default();
                    let watch = Watch::new(&bar, interrupt, &failed, records.requests);
                    let open = || input.open(host_sectors, run.settings.seed, at == 0);
                    let result = execute(run, input, open, watch, records.accesses).map_err(|error| input.named(error));
                    if result.is_err() {
                        failed.set();
                    }
                    *lock(&results[at]) = Some(result);
                }
            });
        }
    });
    bar.clear();
    let results = results.into_iter().map(|result| result.into_inner().unwrap_or_else(|e| e.into_inner()).transpose());
    results.zip(runs).map(|(result, run)| result.map_err(|error| name_layer(error, run))).collect()
}

/// Says which layer broke the law, and what follows from it.
pub fn name_layer(error: Error, run: &Run) -> anyhow::Error {
    let layer = run.layer.name;
    let whose = match error {
        Error::Fault(_) if layer == BASELINE => {
            format!("{layer} copes with no shingling, and --check has caught it (check other layers with --layer)")
        }
        Error::Fault(_) | Error::Impossible(_) => layer.to_string(),
        _ => return error.into(),
    };
    anyhow::Error::new(error).context(whose)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn execute(
    run: &Run,
    input: &Input,
    open: impl Fn() -> Result<Opened, Error>,
    mut watch: Watch,
    accesses: Option<Box<dyn Recorder>>,
) -> Result<Outcome, Error> {
    let mut opened = open()?;
    let timeline = || TimelineBuilder::growing(WINDOW_FIRST);
    let mut outcome = match run.execute(opened.source(), &mut watch, accesses, timeline()) {
        Err(Error::SecondVolume(_)) => {
            let Input::Trace(trace) = input else { unreachable!("only traces have volumes") };
            trace.look_for_volumes()?;
            opened = open()?;
            watch.started = Instant::now();
            run.execute(opened.source(), &mut watch, None, timeline())?
        }
        result => result?,
    };
    input.describe(&opened, &mut outcome);
    if run.settings.arrival == Arrival::Trace {
        input.refuse_disorder(&opened)?;
    }
    outcome.version = VERSION.into();
    outcome.commit = COMMIT.map(str::to_string);
    Ok(outcome)
}

/// Watches one run for the terminal and for the interrupt.
struct Watch<'a> {
    bar: &'a Bar,
    part: Part,
    interrupt: &'a Interrupt,
    failed: &'a Interrupt,
    requests: Option<RequestSink>,
    started: Instant,
    said: Instant,
}

impl<'a> Watch<'a> {
    fn new(bar: &'a Bar, interrupt: &'a Interrupt, failed: &'a Interrupt, requests: Option<RequestSink>) -> Watch<'a> {
        let now = Instant::now();
        Watch { bar, part: bar.part(), interrupt, failed, requests, started: now, said: now }
    }
}

impl Observer for Watch<'_> {
    fn go_on(&mut self, progress: Progress, requests: u64) -> bool {
        if self.said.elapsed() > Duration::from_millis(200) {
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
}
