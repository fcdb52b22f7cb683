//! The parts of a sweep that are computed by themselves: a comparison, or a group of volumes of one.
//!
//! The volumes of a split trace are independent disks of one size, which holds the largest of them. A group of volumes gives the
//! merge of their outcomes; the groups together give the comparison.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smrkit::error::Error;
use smrkit::experiment::comparison::{Compared, RunRecorders, compare};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool::{self, Monitor};
use smrkit::stats::outcome::Outcome;
use smrkit::stats::verdict::{Baseline, judge};
use smrkit_options::pairs::{self, Pair};
use smrkit_options::run::RunOptions;
use smrkit_trace::split::SplitTrace;

use crate::plan::VOLUMES;
use crate::store::{FileHashes, Store, hash_of, key, program, volume_row};

/// The most volumes of a group.
const VOLUMES_MAX: usize = 256;
/// The most requests of a group, which are held in memory, 24 bytes each; a volume of more is a group by itself, and read anew by
/// each run.
const REQUESTS_MAX: u64 = 8_000_000;
/// Volumes whose outcomes are held before they are merged.
const MERGED_AT_ONCE: usize = 32;
/// Options that say what is replayed, which volumes do themselves.
const REPLAYED: [&str; 8] = ["trace", "workload", "span", "interleave", "sources", "volume", "format", "skip_bad_rows"];

/// Work that is computed by itself; as JSON it can be sent to another machine that sees the same files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The key of its results: in the store, or of a group of volumes among the store's groups.
    pub key: String,
    /// The program that planned it: another could compute other numbers under the same key.
    program: String,
    /// The comparison's options.
    options: Vec<Pair>,
    /// Indices of the volumes of a group; none for a comparison without volumes.
    volumes: Option<Vec<usize>>,
    /// Number of its runs.
    pub runs: usize,
}

/// A comparison of a sweep, and what it consists of.
pub struct Comparison {
    /// The key of its results.
    pub key: String,
    /// Itself, or groups of its volumes.
    pub tasks: Vec<Task>,
}

/// Options as they were read.
struct AskedTask {
    options: RunOptions,
    split: Option<(PathBuf, SplitTrace)>,
}

impl AskedTask {
    fn read(options: &[Pair]) -> Result<AskedTask, Error> {
        let (volumes, others): (Vec<Pair>, Vec<Pair>) = options.iter().cloned().partition(|(name, _)| name == VOLUMES);
        let split = match volumes.as_slice() {
            [] => None,
            [(_, folder)] => Some((folder.into(), SplitTrace::open(folder.as_ref())?)),
            _ => {
                let message = "volumes takes one folder a comparison: list them without a list inside";
                return Err(Error::Usage(message.into()));
            }
        };
        let is_second = |(name, _): &&Pair| REPLAYED.contains(&name.replace('-', "_").as_str());
        match others.iter().find(is_second).filter(|_| split.is_some()) {
            Some((name, _)) => Err(Error::Usage(format!("volumes says what is replayed: leave out {name}"))),
            None => Ok(AskedTask { options: pairs::read(&others, &|name| name.replace('-', "_"))?, split }),
        }
    }
}

/// Options in words, for messages.
fn words(options: &[Pair]) -> String {
    options.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

impl Comparison {
    /// Plans a comparison. Errors: options that make no sense, alone or together.
    pub fn plan(options: &[Pair], contents: &mut FileHashes) -> Result<Comparison, Error> {
        let plan = |contents: &mut FileHashes| {
            let asked = AskedTask::read(options)?;
            let runs = asked.options.ask()?.systems.count();
            let program = program(options)?;
            let task = |key: String, volumes: Option<Vec<usize>>| {
                let runs = runs * volumes.as_ref().map_or(1, Vec::len);
                Task { key, program: program.clone(), options: options.to_vec(), volumes, runs }
            };
            let key = key(options, contents)?;
            let tasks = match &asked.split {
                None => vec![task(key.clone(), None)],
                Some((folder, split)) => {
                    let keyed = |group: Vec<usize>| task(group_key(&key, split, &group), Some(group));
                    groups(folder, split)?.into_iter().map(keyed).collect()
                }
            };
            Ok(Comparison { key, tasks })
        };
        plan(contents).map_err(|error: Error| error.about(words(options)))
    }

    /// Number of its runs.
    pub fn runs(&self) -> usize {
        self.tasks.iter().map(|task| task.runs).sum()
    }

    /// Merges the groups of its volumes, once all are in the store; nothing is to be done for a comparison without volumes.
    pub fn merge_groups(&self, store: &Store) -> Result<(), Error> {
        if store.has(&self.key) || self.tasks.iter().any(|task| task.volumes.is_none() || !task.is_done(store)) {
            return Ok(());
        }
        let (groups, mut merged) = (store.groups(), Merged::default());
        for task in &self.tasks {
            merged.add(groups.outcomes(&task.key)?)?;
        }
        let mut outcomes = merged.finish()?;
        // The last one is the conventional disk's.
        if let Some(baseline) = outcomes.pop().as_ref().map(Baseline::from_outcome) {
            outcomes.iter_mut().for_each(|outcome| judge(outcome, &baseline));
        }
        store.keep(&self.key, &outcomes)
    }
}

/// Groups of volumes, in the order of their buckets.
fn groups(folder: &Path, split: &SplitTrace) -> Result<Vec<Vec<usize>>, Error> {
    let volumes = &split.volumes;
    let mut order: Vec<usize> = (0..volumes.len()).filter(|&at| volumes[at].requests > 0).collect();
    order.sort_by_key(|&at| (volumes[at].bucket, at));
    let (mut groups, mut requests): (Vec<Vec<usize>>, u64) = (Vec::new(), 0);
    for at in order {
        requests += volumes[at].requests;
        match groups.last_mut().filter(|group| group.len() < VOLUMES_MAX && requests <= REQUESTS_MAX) {
            Some(group) => group.push(at),
            None => {
                requests = volumes[at].requests;
                groups.push(vec![at]);
            }
        }
    }
    match groups.is_empty() {
        true => Err(Error::input(folder, "no volume has a request: split another trace")),
        false => Ok(groups),
    }
}

fn group_key(comparison: &str, split: &SplitTrace, group: &[usize]) -> String {
    let volumes = group.iter().map(|&at| &split.volumes[at]);
    let names: Vec<String> = volumes.map(|volume| format!("{} {}", volume.number, volume.name)).collect();
    hash_of(std::iter::once(comparison.as_bytes()).chain(names.iter().map(String::as_bytes)))
}

impl Task {
    /// True if its results are in the store.
    pub fn is_done(&self, store: &Store) -> bool {
        match self.volumes {
            None => store.has(&self.key),
            Some(_) => store.groups().has(&self.key),
        }
    }

    /// Computes and keeps its runs, `threads` at once; their number, none where an interrupt came before the end.
    pub fn compute(&self, store: &Store, monitor: &dyn Monitor, threads: usize) -> Result<Option<usize>, Error> {
        if !monitor.goes_on() {
            return Ok(None);
        }
        let here = program(&self.options)?;
        if self.program != here {
            return Err(Error::Usage(format!(
                "this is smrkit {here}, and the sweep was planned by {}: install one version, and register the same layers",
                self.program
            )));
        }
        let within = Within { monitor, threads };
        let compute = || {
            let asked = AskedTask::read(&self.options)?;
            match (&asked.split, &self.volumes) {
                (Some((folder, split)), Some(group)) => {
                    self.run_volumes(&asked.options, folder, split, group, store, &within)
                }
                _ => self.compare(&asked.options, store, &within),
            }
        };
        compute().map_err(|error: Error| error.about(words(&self.options)))
    }

    fn compare(&self, options: &RunOptions, store: &Store, within: &Within) -> Result<Option<usize>, Error> {
        let asked = options.ask()?;
        let demand = asked.demand()?;
        let (experiment, systems) = asked.on(demand);
        let compared = experiment.compare_watched(&systems, within, RunRecorders::default())?;
        if !compared.complete {
            return Ok(None);
        }
        store.keep(&self.key, &compared.outcomes.runs)?;
        Ok(Some(compared.outcomes.runs.len()))
    }

    fn run_volumes(
        &self,
        options: &RunOptions,
        folder: &Path,
        split: &SplitTrace,
        group: &[usize],
        store: &Store,
        within: &Within,
    ) -> Result<Option<usize>, Error> {
        let demands = split.demands(folder, group, REQUESTS_MAX)?;
        let volumes: Vec<_> = group.iter().map(|&at| &split.volumes[at]).zip(demands).collect();
        let runs = planned(options, folder, split)?;
        let (mut merged, mut rows, mut count) = (Merged::default(), Vec::new(), 0);
        for part in volumes.chunks(MERGED_AT_ONCE) {
            let made = pool::make_all(part, within, "", |_, (volume, demand), _| {
                let alone = Within { threads: 0, ..*within };
                let compared = compare(&runs, demand, &alone, "", RunRecorders::default());
                compared.map_err(|error| error.about(format!("volume {}", volume.number)))
            });
            for (made, (volume, _)) in made.into_iter().zip(part) {
                let Some(Compared { mut outcomes, conventional, complete: true }) = made? else { return Ok(None) };
                let Some(conventional) = conventional.into_iter().next() else { return Ok(None) };
                rows.extend(outcomes.runs.iter().map(|one| volume_row(volume, one)));
                count += outcomes.runs.len();
                outcomes.runs.push(conventional);
                merged.add(outcomes.runs)?;
            }
        }
        store.keep_volumes(&self.key, &rows)?;
        store.groups().keep(&self.key, &merged.finish()?)?;
        Ok(Some(count))
    }
}

/// The runs of every volume, on drives that hold the one that reaches furthest.
fn planned(options: &RunOptions, folder: &Path, split: &SplitTrace) -> Result<Vec<PlannedRun>, Error> {
    let mut any = split.demands(folder, &[0], 0)?;
    let (experiment, systems) = options.ask()?.on(Arc::new(any.remove(0)));
    experiment.settings.iter().try_for_each(|settings| settings.validate())?;
    systems.runs(&experiment.settings, experiment.needed_sectors()?)
}

/// Outcomes of the same runs on several demands, merged as they come.
#[derive(Default)]
struct Merged(Vec<Vec<Outcome>>);

impl Merged {
    fn add(&mut self, outcomes: Vec<Outcome>) -> Result<(), Error> {
        self.0.resize_with(outcomes.len(), Vec::new);
        for (all, outcome) in self.0.iter_mut().zip(outcomes) {
            all.push(outcome);
            if all.len() > MERGED_AT_ONCE {
                *all = vec![Outcome::merge(all)?];
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<Outcome>, Error> {
        self.0.iter().map(|all| Outcome::merge(all)).collect()
    }
}

/// A monitor for the runs of one task.
#[derive(Clone, Copy)]
struct Within<'a> {
    monitor: &'a dyn Monitor,
    threads: usize,
}

impl Monitor for Within<'_> {
    fn goes_on(&self) -> bool {
        self.monitor.goes_on()
    }

    fn commit(&self) -> Option<&str> {
        self.monitor.commit()
    }

    fn threads(&self) -> usize {
        self.threads
    }
}

#[cfg(test)]
mod tests;
