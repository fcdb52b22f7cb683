//! The parts of a sweep that are computed by themselves: a comparison, or a group of volumes of one.
//!
//! The volumes of a split trace are independent disks of one size, which holds the largest of them. A group of volumes gives the
//! merge of their outcomes; the groups together give the comparison.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smrkit::VERSION;
use smrkit::error::Error;
use smrkit::experiment::comparison::{Compared, RunRecorders, compare};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool::{self, Monitor};
use smrkit::stats::outcome::Outcome;
use smrkit::stats::verdict::{Baseline, judge};
use smrkit_options::COMMIT;
use smrkit_options::pairs::{self, Pair};
use smrkit_options::run::RunOptions;
use smrkit_trace::split::SplitTrace;

use crate::plan::VOLUMES;
use crate::store::{Contents, Store, VolumeRow, hash_of, key};

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
    /// The program that it was planned by: another would give other numbers under the key.
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
struct Asked {
    options: RunOptions,
    split: Option<(PathBuf, SplitTrace)>,
}

impl Asked {
    fn read(options: &[Pair]) -> Result<Asked, Error> {
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
            None => Ok(Asked { options: pairs::read(&others, &|name| name.replace('-', "_"))?, split }),
        }
    }
}

/// Options in words, for messages.
fn words(options: &[Pair]) -> String {
    options.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

impl Comparison {
    /// Plans a comparison. Errors: options that make no sense, alone or together.
    pub fn plan(options: &[Pair], contents: &mut Contents) -> Result<Comparison, Error> {
        let plan = |contents: &mut Contents| {
            let asked = Asked::read(options)?;
            let runs = asked.options.ask()?.systems.count();
            let task = |key: String, volumes: Option<Vec<usize>>| {
                let runs = runs * volumes.as_ref().map_or(1, Vec::len);
                Task { key, program: program(), options: options.to_vec(), volumes, runs }
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

fn program() -> String {
    [VERSION, COMMIT.unwrap_or_default()].join(" ")
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
        if self.program != program() {
            let message = format!(
                "this is smrkit {}, and the sweep was planned by {}: install one version",
                program(),
                self.program
            );
            return Err(Error::Usage(message));
        }
        let within = Within { monitor, threads };
        let compute = || {
            let asked = Asked::read(&self.options)?;
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
                rows.extend(outcomes.runs.iter().map(|one| VolumeRow::new(volume, one, &conventional)));
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
mod tests {
    use super::*;
    use std::fs;
    use std::sync::Mutex;

    use proptest::prelude::*;
    use smrkit::stats::histogram::LatencyCounts;
    use smrkit_trace::split::Splitter;
    use smrkit_trace::{OpenOptions, Trace};

    use crate::execute::execute;
    use crate::plan::Sweep;
    use smrkit::experiment::pool::Unwatched;

    fn split(path: &Path, folder: &Path) {
        let options = OpenOptions::default();
        let mut trace = Trace::open(path, &options).unwrap();
        let mut splitter = Splitter::create(folder, 3).unwrap();
        assert!(splitter.split(&mut trace, |_| true).unwrap());
        splitter.finish(path, &options, &trace).unwrap();
    }

    /// Requests of several volumes as Alibaba's trace has them.
    fn text(rows: &[(u64, bool, u64, u64)]) -> String {
        let mut us = 0;
        let row = |&(volume, write, sector, gap): &(u64, bool, u64, u64)| {
            us += gap;
            format!("{volume},{},{},4096,{us}\n", if write { 'W' } else { 'R' }, sector * 512)
        };
        rows.iter().map(row).collect()
    }

    #[test]
    fn what_another_version_found_has_another_key() {
        assert!(program().starts_with(&format!("{VERSION} ")));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

        #[test]
        fn merged_volumes_have_the_counts_of_all_their_requests(
            rows in prop::collection::vec((0u64..70, any::<bool>(), 0u64..8000, 0u64..2_000_000), 100..600),
            open in any::<bool>(),
        ) {
            let scratch = tempfile::tempdir().unwrap();
            let (path, folder) = (scratch.path().join("trace.csv"), scratch.path().join("volumes"));
            fs::write(&path, text(&rows)).unwrap();
            split(&path, &folder);
            let arrival = if open { "trace" } else { "flat-out" };
            let options = format!("drive = 'tiny'\nlayer = 'drive-managed'\narrival = '{arrival}'\n");
            let sweep = Sweep::parse("test", &format!("{options}volumes = '{}'", folder.display())).unwrap();
            let store = Store::create(&scratch.path().join("store")).unwrap();
            let done = execute(&sweep, &store, &Unwatched).unwrap();
            let mut merged = store.of_sweep("test").unwrap();
            prop_assert_eq!(merged.len(), 1);
            let merged = merged.remove(0);

            // Each volume alone, from the trace itself; all latencies in one count.
            let trace = SplitTrace::open(&folder).unwrap();
            let capacity = merged.capacity.raw_sectors * 512;
            let counts: &'static Mutex<LatencyCounts> = Box::leak(Box::default());
            let mut alone = Vec::new();
            for volume in &trace.volumes {
                let text = format!("{options}trace = '{}'\nvolume = {}\ncapacity = '{capacity}'", path.display(), volume.number);
                let own = Sweep::parse("alone", &text).unwrap();
                let options: RunOptions = pairs::read(&own.comparisons[0], &|name| name.to_string()).unwrap();
                let asked = options.ask().unwrap();
                let demand = asked.demand().unwrap();
                let (experiment, systems) = asked.on(demand);
                let sink = Box::new(|row: &smrkit::stats::rows::RequestRow| {
                    counts.lock().unwrap().record(row.op, row.latency_ns);
                });
                let records = RunRecorders { requests: Some(sink), accesses: None };
                let within = Within { monitor: &Unwatched, threads: 0 };
                alone.extend(experiment.compare_watched(&systems, &within, records).unwrap().outcomes.runs);
            }
            let counts = counts.lock().unwrap().list();
            prop_assert_eq!(done.computed, trace.volumes.len());
            prop_assert_eq!(merged.latency_ns, counts.summary());
            prop_assert_eq!(&merged.latency_buckets, &counts.buckets());
            prop_assert_eq!(&merged.latency_histogram, &counts.histograms());
            let sum = |of: fn(&Outcome) -> u64| alone.iter().map(of).sum::<u64>();
            prop_assert_eq!(merged.merged_runs, Some(alone.len() as u64));
            prop_assert_eq!(merged.elapsed_ns, sum(|one| one.elapsed_ns));
            prop_assert_eq!(merged.physical_written_sectors.total, sum(|one| one.physical_written_sectors.total));
            let verdicts = merged.merged_verdicts.unwrap();
            let having = |of: fn(&Outcome) -> bool| alone.iter().filter(|one| of(one)).count() as u64;
            prop_assert_eq!(verdicts.runs, alone.len() as u64);
            prop_assert_eq!(verdicts.waiting_for_cleaning, having(|one| one.verdict.cache_full_at_s.is_some()));
            prop_assert_eq!(verdicts.longest_ns[1].1, having(|one| (10_000_001..=100_000_000).contains(&one.latency_ns.all.max)));
            prop_assert_eq!(verdicts.slowdown_percent.iter().map(|(_, runs)| runs).sum::<u64>(), alone.len() as u64);
            prop_assert_eq!(verdicts.slowdown_percent[0].1, having(|one| one.slowdown.unwrap() <= 1.0));
            prop_assert!(merged.verdict.text.contains("runs with requests"), "{}", merged.verdict.text);
        }
    }

    #[test]
    fn groups_of_volumes_are_computed_once_and_resumed() {
        let scratch = tempfile::tempdir().unwrap();
        let (path, folder) = (scratch.path().join("trace.csv"), scratch.path().join("volumes"));
        let rows: Vec<_> = (0..1200).map(|at| (at % 600, true, at * 31 % 8000, 10)).collect();
        fs::write(&path, text(&rows)).unwrap();
        split(&path, &folder);
        let options = format!("drive = 'tiny'\nlayer = ['rmw', 'in-place']\nvolumes = '{}'\n", folder.display());
        let sweep = Sweep::parse("test", &(options + "set = {'rmw.region_sectors' = 300}")).unwrap();
        let store = Store::create(&scratch.path().join("store")).unwrap();
        let comparison = Comparison::plan(&sweep.comparisons[0], &mut Contents::default()).unwrap();
        let tasks = &comparison.tasks;
        assert_eq!(tasks.len(), 3, "600 volumes in groups of 256");
        let sent: Task = serde_json::from_str(&serde_json::to_string(&tasks[0]).unwrap()).unwrap();
        assert_eq!(sent, tasks[0]);
        let other = Task { program: "9.9".into(), ..sent };
        assert!(other.compute(&store, &Unwatched, 0).unwrap_err().to_string().contains("install one version"));
        assert_eq!(tasks[1].compute(&store, &Unwatched, 0).unwrap(), Some(512));
        comparison.merge_groups(&store).unwrap();
        assert!(!store.has(&comparison.key), "two groups are missing");
        let done = execute(&sweep, &store, &Unwatched).unwrap();
        assert_eq!((done.computed, done.found), (1200 - 512, 512));
        let outcomes = store.of_sweep("test").unwrap();
        let names: Vec<_> = outcomes.iter().map(|one| (one.layer.as_str(), one.merged_runs)).collect();
        assert_eq!(names, [("rmw", Some(600)), ("in-place", Some(600))]);
        assert!(outcomes[0].slowdown.is_some_and(|slowdown| slowdown > 1.0));
        assert_eq!(outcomes[1].slowdown, Some(1.0));
        let volumes = fs::read_dir(scratch.path().join("store/volumes")).unwrap().count();
        assert_eq!(volumes, 3);
        let done = execute(&sweep, &store, &Unwatched).unwrap();
        assert_eq!((done.computed, done.found), (0, 1200));
    }

    #[test]
    fn the_drives_of_all_volumes_hold_the_one_that_reaches_furthest() {
        let scratch = tempfile::tempdir().unwrap();
        let (path, folder) = (scratch.path().join("trace.csv"), scratch.path().join("volumes"));
        fs::write(&path, text(&[(1, true, 0, 0), (2, true, 1_000_000, 5), (1, false, 8, 5)])).unwrap();
        split(&path, &folder);
        let options = format!("drive = 'tiny'\nlayer = 'vguard'\nvolumes = '{}'", folder.display());
        let store = Store::create(&scratch.path().join("store")).unwrap();
        execute(&Sweep::parse("test", &options).unwrap(), &store, &Unwatched).unwrap();
        let merged = store.of_sweep("test").unwrap().remove(0);
        assert!(merged.capacity.host_sectors >= 1_000_008, "{:?}", merged.capacity);
        assert!(merged.scaled.is_some_and(|scaled| scaled.needed_bytes == 1_000_008 * 512), "{:?}", merged.scaled);
        assert_eq!((merged.requests, merged.merged_runs), (3, Some(2)));
    }

    #[test]
    fn a_folder_split_anew_has_the_key_of_its_trace() {
        let scratch = tempfile::tempdir().unwrap();
        let (path, folder) = (scratch.path().join("trace.csv"), scratch.path().join("volumes"));
        let key_of = |rows: &[(u64, bool, u64, u64)]| {
            fs::write(&path, text(rows)).unwrap();
            split(&path, &folder);
            let sweep = Sweep::parse("test", &format!("drive = 'tiny'\nvolumes = '{}'", folder.display())).unwrap();
            let comparison = Comparison::plan(&sweep.comparisons[0], &mut Contents::default()).unwrap();
            fs::remove_dir_all(&folder).unwrap();
            comparison.key
        };
        let one = key_of(&[(1, true, 0, 0), (2, true, 8, 5)]);
        assert_ne!(one, key_of(&[(1, true, 0, 0), (2, false, 8, 5)]));
        assert_eq!(one, key_of(&[(1, true, 0, 0), (2, true, 8, 5)]));
    }

    #[test]
    fn volumes_and_traces_exclude_each_other() {
        let scratch = tempfile::tempdir().unwrap();
        let (path, folder) = (scratch.path().join("trace.csv"), scratch.path().join("volumes"));
        fs::write(&path, text(&[(1, true, 0, 0)])).unwrap();
        split(&path, &folder);
        let error = |text: String| {
            let sweep = Sweep::parse("test", &text).unwrap();
            Comparison::plan(&sweep.comparisons[0], &mut Contents::default()).err().unwrap().to_string()
        };
        let volumes = format!("volumes = '{}'\n", folder.display());
        assert!(error(volumes.clone() + "workload = 'mix'").contains("leave out workload"));
        let sweep = Sweep::parse("test", &(volumes + "drive = 'tiny'\nlayer = 'vguard'\narrival = 'closed'")).unwrap();
        let store = Store::create(&scratch.path().join("store")).unwrap();
        let closed = execute(&sweep, &store, &Unwatched).unwrap_err().to_string();
        assert!(closed.contains("think times"), "{closed}");
        assert!(error("volumes = 'nowhere'".into()).contains("trace split"));
    }
}
