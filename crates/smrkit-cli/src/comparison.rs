//! Several runs on the same requests: one thread a run, all cores, and the conventional disk as their baseline.

use std::sync::Mutex;

use smrkit::engine::settings::Arrival;
use smrkit::error::Error;
use smrkit::stats::outcome::{Outcome, Outcomes};
use smrkit::stats::timeline::TimelineBuilder;
use smrkit::stats::verdict::{Baseline, judge};

use crate::input::{Input, Opened};
use crate::interrupt::Interrupt;
use crate::job::Job;
use crate::pool::{self, RecorderOf, RequestSink, Watch, lock};

/// What records a run in detail; it goes to the one run that was asked for.
#[derive(Default)]
pub struct Records {
    pub requests: Option<RequestSink>,
    pub accesses: Option<RecorderOf>,
}

/// What a comparison gave.
pub struct Compared {
    pub outcomes: Outcomes,
    /// Every run came to its end, the quiet baseline too.
    pub complete: bool,
}

/// Runs every job on `input` and completes the outcomes with what only the comparison tells.
///
/// `in-place` is run quietly where it is not among them, unchecked, for it copes with no shingling; for arrays the same array
/// of such disks. An interrupt leaves the outcomes so far, marked as such.
pub fn compare(
    jobs: &[Job],
    input: &Input,
    interrupt: &Interrupt,
    what: &str,
    records: Records,
) -> anyhow::Result<Compared> {
    let listed = jobs.iter().position(Job::is_conventional);
    let mut all: Vec<Job> = jobs.to_vec();
    if let (None, Some(first)) = (listed, jobs.first()) {
        all.push(first.conventional()?);
    }
    let mut outcomes = run_all(&all, input, interrupt, what, records)?;
    let at = listed.unwrap_or(jobs.len());
    let complete = outcomes.iter().all(|outcome| outcome.as_ref().is_some_and(|outcome| !outcome.interrupted));
    let baseline = outcomes[at].as_ref().filter(|outcome| !outcome.interrupted).map(Baseline::of);
    outcomes.truncate(jobs.len());
    let mut runs: Vec<Outcome> = outcomes.into_iter().flatten().collect();
    // The first run hashed the traces, and all have the same sources.
    let hashed = runs.first().map(|first| first.replayed.clone());
    for outcome in &mut runs {
        if let Some(hashed) = &hashed {
            outcome.replayed.take_hashes(hashed);
        }
        // A part of the requests says nothing beside all of them.
        judge(outcome, baseline.as_ref().filter(|_| !outcome.interrupted));
    }
    Ok(Compared { outcomes: Outcomes { schema: 1, runs }, complete })
}

fn run_all(
    jobs: &[Job],
    input: &Input,
    interrupt: &Interrupt,
    what: &str,
    records: Records,
) -> anyhow::Result<Vec<Option<Outcome>>> {
    let capacities = jobs.iter().map(|job| job.host_sectors().map_err(|error| job.named(error)));
    // All see the same requests, so the workload keeps to what the smallest of them offers.
    let host_sectors = capacities.collect::<anyhow::Result<Vec<u64>>>()?.into_iter().min().unwrap_or(0);
    let records = Mutex::new(Some(records));
    let results = pool::make_all(jobs, interrupt, what, |at, job, watch| {
        let records = if at == 0 { lock(&records).take() } else { None }.unwrap_or_default();
        let open = || input.open(host_sectors, job.settings().seed, at == 0);
        let watch = watch.recording(records.requests, records.accesses);
        execute(job, input, open, watch).map_err(|error| input.named(error))
    });
    results.into_iter().zip(jobs).map(|(result, job)| result.map_err(|error| job.named(error))).collect()
}

fn execute(
    job: &Job,
    input: &Input,
    open: impl Fn() -> Result<Opened, Error>,
    mut watch: Watch,
) -> Result<Outcome, Error> {
    let mut opened = open()?;
    let timeline = TimelineBuilder::default;
    let mut outcome = match job.execute(opened.source(), &mut watch, timeline()) {
        Err(Error::SecondVolume(_)) => {
            input.look_for_volumes()?;
            opened = open()?;
            watch.restart();
            job.execute(opened.source(), &mut watch, timeline())?
        }
        result => result?,
    };
    outcome.replayed = input.describe(&opened);
    if job.settings().arrival == Arrival::Trace {
        input.refuse_disorder(&opened)?;
    }
    Ok(outcome)
}
