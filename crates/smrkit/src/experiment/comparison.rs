//! Several runs on the same requests, and the conventional disk as their baseline.

use std::sync::Mutex;

use super::demand::{Demand, Opening};
use super::planned::PlannedRun;
use super::pool::{self, Monitor, RecorderOf, RequestSink, lock};
use crate::error::Error;
use crate::stats::outcome::{Outcome, Outcomes};
use crate::stats::verdict::{Baseline, judge};

/// What records a run in detail; it goes to the one run that was asked for.
#[derive(Default)]
pub struct Records {
    /// Takes completed requests.
    pub requests: Option<RequestSink>,
    /// Takes physical accesses.
    pub accesses: Option<RecorderOf>,
}

impl Records {
    /// Whether anything is recorded.
    pub fn is_some(&self) -> bool {
        self.requests.is_some() || self.accesses.is_some()
    }
}

/// What a comparison gave.
pub struct Compared {
    /// The runs that were asked for, as far as they were begun.
    pub outcomes: Outcomes,
    /// Whether every run came to its end, the quiet baseline too.
    pub complete: bool,
}

/// Executes all runs on `demand`, and judges them beside conventional disks.
///
/// `in-place` is run quietly where it is not among them, unchecked, for it copes with no shingling; for arrays the same array
/// of such disks. An interrupt leaves the outcomes so far, marked as such.
pub fn compare(
    runs: &[PlannedRun],
    demand: &dyn Demand,
    monitor: &dyn Monitor,
    what: &str,
    records: Records,
) -> Result<Compared, Error> {
    let listed = runs.iter().position(PlannedRun::is_conventional);
    let mut all: Vec<PlannedRun> = runs.to_vec();
    if let (None, Some(first)) = (listed, runs.first()) {
        all.push(first.conventional()?);
    }
    let mut outcomes = execute_all(&all, demand, monitor, what, records)?;
    let at = listed.unwrap_or(runs.len());
    let complete = outcomes.iter().all(|outcome| outcome.as_ref().is_some_and(|outcome| !outcome.interrupted));
    let baseline = outcomes[at].as_ref().filter(|outcome| !outcome.interrupted).map(Baseline::of);
    outcomes.truncate(runs.len());
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

fn execute_all(
    runs: &[PlannedRun],
    demand: &dyn Demand,
    monitor: &dyn Monitor,
    what: &str,
    records: Records,
) -> Result<Vec<Option<Outcome>>, Error> {
    let capacities = runs.iter().map(|run| run.host_sectors().map_err(|error| run.named(error)));
    // All see the same requests, so the workload keeps to what the smallest of them offers.
    let host_sectors = capacities.collect::<Result<Vec<u64>, Error>>()?.into_iter().min().unwrap_or(0);
    let records = Mutex::new(Some(records));
    let results = pool::make_all(runs, monitor, what, |at, run, watch| {
        let records = if at == 0 { lock(&records).take() } else { None }.unwrap_or_default();
        let opening = Opening { hash: at == 0, ..Opening::new(host_sectors, run.settings().seed) };
        run.execute(demand, &opening, &mut watch.recording(records.requests, records.accesses))
    });
    results.into_iter().zip(runs).map(|(result, run)| result.map_err(|error| run.named(error))).collect()
}
