//! Computes the comparisons of a sweep that a store lacks; each is a task, which can be computed by itself on another machine.

use std::collections::HashSet;
use std::thread::sleep;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use smrkit::error::Error;
use smrkit::experiment::comparison::RunRecorders;
use smrkit::experiment::pool::{self, Monitor};
use smrkit_options::pairs::{self, Pair};
use smrkit_options::run::RunOptions;

use crate::plan::{Part, Sweep};
use crate::store::{FileHashes, Store, check_program, key, program};

/// A comparison to compute. As JSON, it can be sent to another machine that has the same files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The key of its results in the store.
    pub key: String,
    /// The program that planned it. Another one must not compute it: its numbers could differ under the same key.
    program: String,
    options: Vec<Pair>,
    /// Number of its runs.
    pub runs: usize,
}

/// Options in words, for messages.
fn words(options: &[Pair]) -> String {
    options.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

fn read(options: &[Pair]) -> Result<RunOptions, Error> {
    pairs::read(options, &|name| name.replace('-', "_"))
}

impl Task {
    /// Plans a comparison. Errors: options that are invalid, alone or together.
    pub fn plan(options: &[Pair], contents: &mut FileHashes) -> Result<Task, Error> {
        let mut plan = || {
            // `ask` only looks the runs up.
            let runs = read(options)?.ask()?.systems.count();
            Ok(Task { key: key(options, contents)?, program: program(options)?, options: options.to_vec(), runs })
        };
        plan().map_err(|error: Error| error.about(words(options)))
    }

    /// Computes its runs, `threads` at once, and stores them. Returns their number; `None` after an interrupt.
    pub fn compute(&self, store: &Store, monitor: &dyn Monitor, threads: usize) -> Result<Option<usize>, Error> {
        if !monitor.goes_on() {
            return Ok(None);
        }
        check_program(&self.program, &self.options)?;
        let compute = || {
            let options = read(&self.options)?;
            let asked = options.ask()?;
            let demand = asked.demand()?;
            let (experiment, systems) = asked.on(demand);
            let within = Within { monitor, threads };
            let compared = experiment.compare_watched(&systems, &within, RunRecorders::default())?;
            if !compared.complete {
                return Ok(None);
            }
            store.write(&self.key, &compared.outcomes.runs)?;
            Ok(Some(compared.outcomes.runs.len()))
        };
        compute().map_err(|error: Error| error.about(words(&self.options)))
    }
}

/// The monitor of the runs of one task, with the task's number of threads.
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

/// Time between looks at a comparison that another process computes.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The result of executing a sweep.
#[derive(Debug, Default)]
pub struct SweepAccount {
    /// Runs that were computed.
    pub computed: usize,
    /// Runs that were in the store.
    pub found: usize,
    /// True if all of the sweep is in the store now.
    pub complete: bool,
    /// Errors of comparisons that the store still lacks. The others were computed.
    pub failures: Vec<Error>,
}

/// Plans the comparisons of a sweep, and notes them in the store.
pub fn plan_tasks(sweep: &Sweep, store: &Store) -> Result<Vec<Task>, Error> {
    let mut contents = FileHashes::default();
    let plan = |options: &Vec<_>| Task::plan(options, &mut contents);
    let tasks = sweep.comparisons.iter().map(plan).collect::<Result<Vec<_>, Error>>()?;
    store.write_list(sweep, &tasks.iter().map(|task| task.key.as_str()).collect::<Vec<_>>())?;
    Ok(tasks)
}

/// The tasks of a part of the sweep, each once. It includes those that the store has by now, because other parts may have started earlier.
fn tasks(all: &[Task], part: Part) -> impl Iterator<Item = &Task> {
    let mut known = HashSet::new();
    all.iter().filter(move |task| known.insert(&task.key)).skip(part.at - 1).step_by(part.of)
}

/// The tasks of a part of the sweep that the store lacks.
pub fn missing<'a>(all: &'a [Task], part: Part, store: &Store) -> Vec<&'a Task> {
    tasks(all, part).filter(|task| !store.has(&task.key)).collect()
}

/// Computes the missing tasks, and stores the results of each when it ends. An interrupt loses the tasks that are being computed. A failed task
/// does not stop the others.
pub fn execute(sweep: &Sweep, store: &Store, monitor: &dyn Monitor) -> Result<SweepAccount, Error> {
    let planned = plan_tasks(sweep, store)?;
    let all: usize = tasks(&planned, sweep.part).map(|task| task.runs).sum();
    let tasks = missing(&planned, sweep.part, store);
    let mut done =
        SweepAccount { found: all - tasks.iter().map(|task| task.runs).sum::<usize>(), ..SweepAccount::default() };
    done.complete = true;
    // Tasks that another process computes are left out at first (`false`), and waited for at the end, when their results may be there.
    let claimed_elsewhere = compute_all(&tasks, store, monitor, false, &mut done)?;
    compute_all(&claimed_elsewhere, store, monitor, true, &mut done)?;
    store.tidy()?;
    Ok(done)
}

/// Computes tasks, and counts their results in `done`. If another process computes a task, waits for its result if `waits`, and else leaves it
/// out. Returns the tasks that were left out.
fn compute_all<'a>(
    tasks: &[&'a Task],
    store: &Store,
    monitor: &dyn Monitor,
    waits: bool,
    done: &mut SweepAccount,
) -> Result<Vec<&'a Task>, Error> {
    // With enough tasks for all threads, each task's runs are serial. With fewer tasks, the runs of one task use all threads.
    let threads = if tasks.len() >= monitor.threads() { 0 } else { monitor.threads() };
    let made = match threads {
        0 => pool::make_all(tasks, monitor, "sweeping", |_, task, _| Ok(compute(task, store, monitor, 0, waits))),
        _ => tasks.iter().map(|task| Ok(Some(compute(task, store, monitor, threads, waits)))).collect(),
    };
    let mut left_out = Vec::new();
    for (task, made) in tasks.iter().zip(made) {
        match made? {
            Some(Ok(TaskEnd::Computed)) => done.computed += task.runs,
            Some(Ok(TaskEnd::Found)) => done.found += task.runs,
            Some(Ok(TaskEnd::Elsewhere)) => left_out.push(*task),
            Some(Ok(TaskEnd::Interrupted)) | None => done.complete = false,
            Some(Err(failure)) => {
                done.complete = false;
                done.failures.push(failure);
            }
        }
    }
    Ok(left_out)
}

enum TaskEnd {
    Computed,
    /// Another process has computed it meanwhile.
    Found,
    /// Another process computes it now.
    Elsewhere,
    Interrupted,
}

/// Computes a task, unless its result is there or another process computes it.
fn compute(task: &Task, store: &Store, monitor: &dyn Monitor, threads: usize, waits: bool) -> Result<TaskEnd, Error> {
    loop {
        let claim = store.claim(&task.key)?;
        match claim {
            _ if store.has(&task.key) => return Ok(TaskEnd::Found),
            Some(_claim) => {
                let runs = task.compute(store, monitor, threads)?;
                return Ok(runs.map_or(TaskEnd::Interrupted, |_| TaskEnd::Computed));
            }
            None if !waits => return Ok(TaskEnd::Elsewhere),
            None if !monitor.goes_on() => return Ok(TaskEnd::Interrupted),
            None => sleep(LOOK_EVERY),
        }
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
        let sweep = |text: &str| {
            let done = execute(&Sweep::parse("test", text).unwrap(), &store, &Unwatched).unwrap();
            (done.computed, done.found, done.complete)
        };
        assert_eq!(sweep(TEXT), (6, 0, true));
        assert_eq!(sweep(TEXT), (0, 6, true));
        let more = TEXT.replace("[1, 2, 3]", "[1, 2, 3, 4]");
        assert_eq!(sweep(&more), (2, 6, true));
        let outcomes = store.of_sweep("test").unwrap();
        let seeds: Vec<_> = outcomes.iter().map(|one| (one.layer.as_str(), one.seed)).collect();
        assert_eq!(seeds[..3], [("drive-managed", 1), ("vguard", 1), ("drive-managed", 2)]);
        assert_eq!(seeds.len(), 8);
        execute(&Sweep::parse("again", TEXT).unwrap(), &store, &Unwatched).unwrap();
        assert_eq!(store.of_sweep_or_all(None).unwrap().len(), 8, "what two sweeps share counts once");
    }

    #[test]
    fn parts_together_are_the_sweep_whatever_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path()).unwrap();
        let sweep = Sweep::parse("test", &TEXT.replace("[1, 2, 3]", "[1, 2, 3, 4, 5]")).unwrap();
        let computed = |text: &str| {
            let done = execute(&Sweep { part: text.parse().unwrap(), ..sweep.clone() }, &store, &Unwatched).unwrap();
            (done.computed, done.found)
        };
        assert_eq!(["2/3", "1/3", "1/3", "3/3"].map(computed), [(4, 0), (4, 0), (0, 4), (2, 0)]);
        assert_eq!(store.missing(None).unwrap(), (0, 5));
        assert_eq!(computed("1/1"), (0, 10));
        for wrong in ["0/2", "3/2", "1", "1/x", "/"] {
            assert!(wrong.parse::<Part>().unwrap_err().to_string().contains("1/8"), "{wrong}");
        }
    }

    #[test]
    fn processes_that_share_a_store_compute_nothing_twice() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path()).unwrap();
        let sweep = Sweep::parse("test", &TEXT.replace("[1, 2, 3]", "[1, 2, 3, 4, 5, 6, 7, 8]")).unwrap();
        // One that never gets further than its claim, as if it had been killed in the end.
        let held = store.claim(&plan_tasks(&sweep, &store).unwrap()[0].key).unwrap().unwrap();
        let both = std::thread::scope(|scope| {
            let begun: Vec<_> = (0..2).map(|_| scope.spawn(|| execute(&sweep, &store, &Unwatched).unwrap())).collect();
            while store.of_sweep("test").unwrap().len() < 14 {
                sleep(LOOK_EVERY);
            }
            drop(held);
            begun.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(both.iter().map(|one| one.computed).sum::<usize>(), 16);
        assert!(both.iter().all(|one| one.complete && one.computed + one.found == 16), "{both:?}");
        let left = std::fs::read_dir(folder.path())
            .unwrap()
            .filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().contains(".of-"));
        assert_eq!(left.count(), 0);
    }

    #[test]
    fn what_no_sweep_names_any_more_is_pruned() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path()).unwrap();
        let sweep = |name: &str, seeds: &str| {
            let sweep = Sweep::parse(name, &TEXT.replace("[1, 2, 3]", seeds)).unwrap();
            execute(&sweep, &store, &Unwatched).unwrap().found
        };
        sweep("a", "[1, 2, 3]");
        sweep("b", "[3, 4]");
        sweep("a", "[1]");
        std::fs::write(folder.path().join("mine.parquet"), "").unwrap();
        assert_eq!([store.prune().unwrap(), store.prune().unwrap()], [1, 0]);
        assert_eq!((sweep("c", "[1, 3, 4]"), store.of_sweep_or_all(None).unwrap().len()), (6, 6));
        assert_eq!(sweep("c", "[2]"), 0);
        assert!(folder.path().join("mine.parquet").exists());
    }

    #[test]
    fn outcomes_are_those_of_a_comparison_alone() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path()).unwrap();
        let sweep = Sweep::parse("test", TEXT).unwrap();
        execute(&sweep, &store, &Unwatched).unwrap();
        let options: RunOptions = pairs::read(&sweep.comparisons[1], &|name| name.to_string()).unwrap();
        let asked = options.ask().unwrap();
        let demand = asked.demand().unwrap();
        let alone = asked.on(demand).0.compare().unwrap();
        let kept = store.outcomes(&key(&sweep.comparisons[1], &mut FileHashes::default()).unwrap()).unwrap();
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
    fn each_value_of_a_list_has_a_line_of_its_own() {
        let lists = [
            "workload = 'zipf:count=300'\nedit = ['first=100', 'first=200']",
            "workload = 'zipf:count=300'\nspan = ['1MiB', '2MiB']",
            "workload = 'zipf:count=300'\ndepth = [1, 2]\nqueue = 'fcfs'",
        ];
        for list in lists {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::create(folder.path()).unwrap();
            let text = format!("drive = 'tiny'\nlayer = 'vguard'\n{list}\nrepeat = 2");
            execute(&Sweep::parse("test", &text).unwrap(), &store, &Unwatched).unwrap();
            let rows = crate::frame::rows(&store.of_sweep("test").unwrap());
            let frame = crate::table::intervals(&rows, &["slowdown".into()]).unwrap();
            assert_eq!((rows.len(), frame.rows.len()), (4, 2), "{list}: {:?}", frame.columns);
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
    fn a_comparison_that_fails_stops_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let trace = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        // Times that go back can't be replayed by the trace's clock.
        let good = trace("good.csv", "time_s,op,offset,size\n0,W,0,4096\n1,W,4096,4096\n");
        let bad = trace("bad.csv", "time_s,op,offset,size\n1,W,0,4096\n0,W,4096,4096\n");
        for repeated in [1, 40] {
            let store = Store::create(&folder.path().join(repeated.to_string())).unwrap();
            let seeds: Vec<usize> = (1..=repeated).collect();
            let text = format!(
                "drive = 'tiny'\nlayer = 'vguard'\narrival = 'trace'\ntrace = ['{bad}', '{good}']\nseed = {seeds:?}"
            );
            let sweep = Sweep::parse("test", &text).unwrap();
            for (computed, found) in [(repeated, 0), (0, repeated)] {
                let done = execute(&sweep, &store, &Unwatched).unwrap();
                assert_eq!((done.computed, done.found, done.complete), (computed, found, false), "{:?}", done.failures);
                assert_eq!(done.failures.len(), repeated);
                let said = done.failures[0].to_string();
                assert!(said.contains("bad.csv"), "{said}");
            }
        }
    }

    #[test]
    fn a_wrong_option_is_said_before_anything_is_computed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path()).unwrap();
        let sweep = Sweep::parse("test", &TEXT.replace("seed", "queue = 'sptf'\ndepth = [2, 1]\nseed")).unwrap();
        let error = execute(&sweep, &store, &Unwatched).unwrap_err().to_string();
        assert!(error.contains("depth 1") && error.contains("add depth 32"), "{error}");
        assert!(sweep.comparisons.iter().all(|options| !store.has(&key(options, &mut FileHashes::default()).unwrap())));
    }

    #[test]
    fn what_another_version_found_has_another_key() {
        assert!(program(&[]).unwrap().starts_with(smrkit::VERSION));
    }

    #[test]
    fn a_task_is_computed_unless_interrupted_or_of_another_version() {
        struct Ended;
        impl Monitor for Ended {
            fn goes_on(&self) -> bool {
                false
            }
        }
        let scratch = tempfile::tempdir().unwrap();
        let store = Store::create(scratch.path()).unwrap();
        let text =
            "drive = 'tiny'\nlayer = 'rmw'\nset = {'rmw.region_sectors' = 300}\nworkload = 'random-write:count=9'";
        let sweep = Sweep::parse("test", text).unwrap();
        let task = Task::plan(&sweep.comparisons[0], &mut FileHashes::default()).unwrap();
        assert_eq!(task.runs, 1);
        assert_eq!(task.compute(&store, &Ended, 0).unwrap(), None);
        assert!(!store.has(&task.key));
        assert_eq!(task.compute(&store, &Unwatched, 0).unwrap(), Some(1));
        assert!(store.has(&task.key));
        let sent: Task = serde_json::from_str(&serde_json::to_string(&task).unwrap()).unwrap();
        assert_eq!(sent, task);
        let other = Task { program: "9.9".into(), ..sent };
        assert!(other.compute(&store, &Unwatched, 0).unwrap_err().to_string().contains("install one version"));
        let within = Within { monitor: &Ended, threads: 7 };
        assert_eq!((within.goes_on(), within.threads(), within.commit()), (false, 7, None));
    }

    #[test]
    fn an_error_names_the_options_that_it_is_about() {
        let options = [("drive", "tiny"), ("layer", "none")].map(|(name, value)| (name.to_string(), value.to_string()));
        assert_eq!(words(&options), "drive tiny, layer none");
        let error = Task::plan(&options, &mut FileHashes::default()).err().unwrap().to_string();
        assert!(error.contains("drive tiny, layer none"), "{error}");
    }
}
