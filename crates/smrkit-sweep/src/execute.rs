//! Computes the comparisons of a sweep that its store lacks.

use smrkit::error::Error;
use smrkit::experiment::comparison::RunRecorders;
use smrkit::experiment::pool::{self, Monitor};
use smrkit_options::pairs::{self, Pair};
use smrkit_options::run::RunOptions;

use crate::plan::Sweep;
use crate::store::{Store, key};

/// Account of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Runs that were computed.
    pub computed: usize,
    /// Runs that were in the store.
    pub found: usize,
    /// True if all of the sweep is in the store now.
    pub complete: bool,
}

/// One comparison to be computed.
struct Task<'a> {
    key: &'a str,
    options: RunOptions,
    /// Its options, for messages.
    words: String,
}

/// Computes what is missing, and keeps each comparison as soon as it is whole. An interrupt loses those in flight.
pub fn execute(sweep: &Sweep, store: &Store, monitor: &dyn Monitor) -> Result<Done, Error> {
    let keys = sweep.comparisons.iter().map(|options| key(options)).collect::<Result<Vec<_>, Error>>()?;
    store.note(sweep, &keys)?;
    let (mut done, mut tasks) = (Done::default(), Vec::new());
    for (options, key) in sweep.comparisons.iter().zip(&keys) {
        let (read, words) = read(options)?;
        let runs = read.ask().map_err(|error| error.about(words.clone()))?.systems.count();
        match store.has(key) {
            true => done.found += runs,
            false if tasks.iter().any(|task: &Task| task.key == key) => {}
            false => tasks.push(Task { key, options: read, words }),
        }
    }
    // Many comparisons keep all cores busy by themselves; few need their runs next to each other.
    let threads = if tasks.len() >= monitor.threads() { 0 } else { monitor.threads() };
    let made = match threads {
        0 => pool::make_all(&tasks, monitor, "sweeping", |_, task, _| compute(task, store, monitor, 0)),
        _ => tasks.iter().map(|task| compute(task, store, monitor, threads).map(Some)).collect(),
    };
    done.complete = true;
    for made in made {
        let runs = made?.flatten();
        done.complete &= runs.is_some();
        done.computed += runs.unwrap_or(0);
    }
    Ok(done)
}

/// Computes a task; returns the number of runs that were kept, none where an interrupt came before the end.
fn compute(task: &Task, store: &Store, monitor: &dyn Monitor, threads: usize) -> Result<Option<usize>, Error> {
    if !monitor.goes_on() {
        return Ok(None);
    }
    let compared = || {
        let asked = task.options.ask()?;
        let demand = asked.demand()?;
        let (experiment, systems) = asked.on(demand);
        experiment.compare_watched(&systems, &Within { monitor, threads }, RunRecorders::default())
    };
    let compared = compared().map_err(|error: Error| error.about(task.words.clone()))?;
    if !compared.complete {
        return Ok(None);
    }
    store.keep(task.key, &compared.outcomes.runs)?;
    Ok(Some(compared.outcomes.runs.len()))
}

fn read(options: &[Pair]) -> Result<(RunOptions, String), Error> {
    let words = options.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ");
    let read = pairs::read(options, &|name| name.replace('-', "_")).map_err(|error| error.about(words.clone()))?;
    Ok((read, words))
}

/// A monitor for the runs of one comparison.
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
    use smrkit::experiment::pool::Unwatched;
    use std::sync::atomic::{AtomicU32, Ordering};

    const TEXT: &str =
        "drive = 'tiny'\nlayer = ['drive-managed', 'vguard']\nworkload = 'random-write:count=300'\nseed = [1, 2, 3]";

    #[test]
    fn a_second_start_computes_nothing_and_an_added_value_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path()).unwrap();
        let sweep = |text: &str| execute(&Sweep::parse("test", text).unwrap(), &store, &Unwatched).unwrap();
        assert_eq!(sweep(TEXT), Done { computed: 6, found: 0, complete: true });
        assert_eq!(sweep(TEXT), Done { computed: 0, found: 6, complete: true });
        let more = TEXT.replace("[1, 2, 3]", "[1, 2, 3, 4]");
        assert_eq!(sweep(&more), Done { computed: 2, found: 6, complete: true });
        let outcomes = store.of_sweep("test").unwrap();
        let seeds: Vec<_> = outcomes.iter().map(|one| (one.layer.as_str(), one.seed)).collect();
        assert_eq!(seeds[..3], [("drive-managed", 1), ("vguard", 1), ("drive-managed", 2)]);
        assert_eq!(seeds.len(), 8);
    }

    #[test]
    fn outcomes_are_those_of_a_comparison_alone() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path()).unwrap();
        let sweep = Sweep::parse("test", TEXT).unwrap();
        execute(&sweep, &store, &Unwatched).unwrap();
        let (options, _) = read(&sweep.comparisons[1]).unwrap();
        let asked = options.ask().unwrap();
        let demand = asked.demand().unwrap();
        let alone = asked.on(demand).0.compare().unwrap();
        let kept = store.outcomes(&key(&sweep.comparisons[1]).unwrap()).unwrap();
        assert_eq!(serde_json::json!(kept).to_string(), serde_json::json!(alone).to_string());
    }

    /// Ends after some questions.
    struct Impatient(AtomicU32);

    impl Monitor for Impatient {
        fn goes_on(&self) -> bool {
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
        }
    }

    #[test]
    fn an_interrupted_sweep_resumes_from_its_whole_comparisons() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path()).unwrap();
        let sweep = Sweep::parse("test", &TEXT.replace("count=300", "count=20k")).unwrap();
        let (mut computed, mut starts) = (0, 0);
        loop {
            let done = execute(&sweep, &store, &Impatient(AtomicU32::new(60 << starts))).unwrap();
            assert_eq!(done.found, computed, "what was kept is found");
            (computed, starts) = (computed + done.computed, starts + 1);
            if done.complete {
                break;
            }
        }
        assert!(starts > 1 && computed == 6, "{starts} starts computed {computed}");
        let left = std::fs::read_dir(folder.path())
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains("partial"));
        assert_eq!(left.count(), 0);
    }

    #[test]
    fn a_wrong_option_is_said_before_anything_is_computed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path()).unwrap();
        let sweep = Sweep::parse("test", &TEXT.replace("seed", "queue = 'sptf'\ndepth = [2, 1]\nseed")).unwrap();
        let error = execute(&sweep, &store, &Unwatched).unwrap_err().to_string();
        assert!(error.contains("depth 1") && error.contains("add depth 32"), "{error}");
        assert!(sweep.comparisons.iter().all(|options| !store.has(&key(options).unwrap())));
    }
}
