//! Several runs on the same requests, and the conventional disk as their baseline.

use std::sync::Mutex;

use super::demand::{Demand, Opening};
use super::planned::PlannedRun;
use super::pool::{self, Monitor, RecorderOf, RequestSink, StateSink, lock};
use crate::error::Error;
use crate::stats::outcome::{Outcome, Outcomes, RunRecord};
use crate::stats::verdict::judge;

/// Recorders of the details of the first run.
#[derive(Default)]
pub struct RunRecorders {
    /// Takes completed requests.
    pub requests: Option<RequestSink>,
    /// Takes physical accesses.
    pub accesses: Option<RecorderOf>,
    /// Takes the state at the end.
    pub state: Option<StateSink>,
}

impl RunRecorders {
    /// True if anything is recorded.
    pub fn is_some(&self) -> bool {
        self.requests.is_some() || self.accesses.is_some() || self.state.is_some()
    }
}

/// Result of a comparison.
pub struct Compared {
    /// The runs that were asked for, as far as they were begun.
    pub outcomes: Outcomes,
    /// The runs on conventional disks, one for each drive and settings, as far as they were completed.
    pub conventional: Vec<Outcome>,
    /// True if every run was completed, the unlisted baselines included.
    pub complete: bool,
}

/// Runs of one demand on the same drives under the same settings. They get the same requests, and have one baseline.
pub(super) struct Group {
    /// Numbers of the runs.
    pub runs: Vec<usize>,
    /// Number of the demand.
    demand: usize,
    /// Size of the disk for workloads: the smallest that a run offers.
    pub host_sectors: u64,
    /// The run on conventional disks.
    conventional: PlannedRun,
}

impl Group {
    /// The groups of `runs`, each with the number of its demand.
    pub fn from_runs<'a>(runs: impl Iterator<Item = (&'a PlannedRun, usize)>) -> Result<Vec<Group>, Error> {
        // Each with the record of its baseline, by which baselines are told apart.
        let mut groups: Vec<(RunRecord, Group)> = Vec::new();
        for (at, (run, demand)) in runs.enumerate() {
            let conventional = run.conventional()?;
            let record = conventional.run.record();
            let host_sectors = run.host_sectors().map_err(|error| run.named(error))?;
            let known = groups.iter_mut().find(|(known, group)| {
                let has_same_baseline = *known == record && group.conventional.settings() == conventional.settings();
                has_same_baseline && group.demand == demand
            });
            match known {
                Some((_, group)) => {
                    group.runs.push(at);
                    group.host_sectors = group.host_sectors.min(host_sectors);
                }
                None => groups.push((record, Group { runs: vec![at], demand, host_sectors, conventional })),
            }
        }
        Ok(groups.into_iter().map(|(_, group)| group).collect())
    }
}

/// Executes all runs, run `i` on `demands[served[i]]`, and judges them against conventional disks. Errors: `served` does not name one demand
/// for each run.
///
/// The baseline is `in-place` on conventional disks (for an array, the same array of such disks). If it is not among the runs on the same
/// drives under the same settings, it is run unlisted and unchecked. An interrupt leaves the outcomes so far, marked as incomplete.
pub fn compare(
    runs: &[PlannedRun],
    served: &[usize],
    demands: &[&dyn Demand],
    monitor: &dyn Monitor,
    what: &str,
    records: RunRecorders,
) -> Result<Compared, Error> {
    if served.len() != runs.len() || served.iter().any(|&number| number >= demands.len()) {
        return Err(Error::Usage("each run takes the number of one demand".into()));
    }
    let groups = Group::from_runs(runs.iter().zip(served.iter().copied()))?;
    // The runs asked for, then the conventional ones that are not among them; each with the number of its demand.
    let mut all: Vec<(PlannedRun, usize)> = runs.iter().cloned().zip(served.iter().copied()).collect();
    let mut baselines: Vec<usize> = Vec::new();
    for group in &groups {
        for &run in &group.runs {
            // The workload must fit the smallest of them, because all get the same requests.
            all[run].0.host_sectors = Some(group.host_sectors);
        }
        let listed = group.runs.iter().copied().find(|&run| runs[run].is_conventional());
        baselines.push(listed.unwrap_or(all.len()));
        if listed.is_none() {
            let host_sectors = Some(group.host_sectors);
            all.push((PlannedRun { host_sectors, ..group.conventional.clone() }, group.demand));
        }
    }
    let first_of_same_demand: Vec<usize> =
        all.iter().map(|(_, demand)| all.iter().position(|(_, other)| other == demand).expect("itself")).collect();
    let records = Mutex::new(Some(records));
    let results = pool::make_all(&all, monitor, what, |at, (run, demand), watch| {
        // Only the first run is recorded.
        let records = if at == 0 { lock(&records).take() } else { None }.unwrap_or_default();
        // To hash a trace takes about as long as to read it, and one run for each demand is enough.
        let opening = Opening { hash: first_of_same_demand[at] == at, ..run.opening()? };
        run.measure(demands[*demand], &opening, &mut watch.recording(records))
    });
    let mut outcomes: Vec<Option<Outcome>> = Vec::new();
    for (result, (run, _)) in results.into_iter().zip(&all) {
        let mut outcome = result.map_err(|error| run.named(error))?.map(Outcome::conclude);
        // A first run is never later than those that take its hashes.
        if let (Some(own), Some(Some(first))) = (&mut outcome, outcomes.get(first_of_same_demand[outcomes.len()])) {
            own.replayed.take_hashes(&first.replayed);
        }
        outcomes.push(outcome);
    }
    let complete = outcomes.iter().all(|outcome| outcome.as_ref().is_some_and(is_complete));
    for (group, &at) in groups.iter().zip(&baselines) {
        let Some(baseline) = outcomes[at].clone().filter(is_complete) else { continue };
        for &run in &group.runs {
            // A part of the requests can't be compared with all of them.
            if let Some(outcome) = outcomes[run].as_mut().filter(|outcome| is_complete(outcome)) {
                judge(outcome, &baseline);
            }
        }
    }
    let conventional = baselines.iter().filter_map(|&at| outcomes[at].clone().filter(is_complete)).collect();
    outcomes.truncate(runs.len());
    let asked_for = outcomes.into_iter().flatten().collect();
    Ok(Compared { outcomes: Outcomes::new(asked_for), conventional, complete })
}

fn is_complete(outcome: &Outcome) -> bool {
    !outcome.interrupted
}
