//! Sweeps and their stores.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use smrkit::error::Error;
use smrkit::stats::outcome;
use smrkit_sweep::execute::{SweepAccount, Task, execute, missing, plan_tasks};
use smrkit_sweep::frame::rows;
use smrkit_sweep::pairs::Pairs;
use smrkit_sweep::plan::{Part, Sweep};
use smrkit_sweep::store::Store;
use smrkit_sweep::table;

use crate::error::{Raised, exception, json_error};
use crate::outcomes::Outcomes;
use crate::watch::{Watcher, watched};

fn read(name: &str, json: Option<&str>, file: Option<PathBuf>) -> Result<Sweep, Error> {
    match json {
        Some(json) => Sweep::from_json(name, json),
        None => Sweep::read(&file.unwrap_or_default()),
    }
}

/// Computes the runs of a sweep (JSON, or the path of its file) that a store lacks; returns how many were computed and found.
#[pyfunction]
pub fn sweep(
    py: Python,
    name: String,
    json: Option<String>,
    file: Option<PathBuf>,
    store: PathBuf,
    progress: Option<Bound<PyAny>>,
) -> PyResult<(usize, usize)> {
    let work = move |watcher: &Watcher| -> Result<SweepAccount, Error> {
        execute(&read(&name, json.as_deref(), file)?, &Store::create(&store)?, watcher)
    };
    let done = watched(py, progress.as_ref(), work)?.raised(py)?;
    let failures: Vec<PyErr> = done.failures.iter().map(|failure| exception(py, failure)).collect();
    let Some(first) = failures.first() else { return Ok((done.computed, done.found)) };
    for other in &failures[1..] {
        first.value(py).call_method1("add_note", (other.value(py).to_string(),))?;
    }
    Err(first.clone_ref(py))
}

/// A sweep whose tasks are computed by other processes.
#[pyclass(frozen)]
pub struct SweepPlan {
    tasks: Vec<Task>,
    store: Store,
}

#[pymethods]
impl SweepPlan {
    /// Plans a sweep, given as JSON or as the path of its file, and notes it in the store.
    #[new]
    fn new(
        py: Python,
        name: String,
        json: Option<String>,
        file: Option<PathBuf>,
        store: PathBuf,
    ) -> PyResult<SweepPlan> {
        let plan = move |_: &Watcher| -> Result<SweepPlan, Error> {
            let store = Store::create(&store)?;
            Ok(SweepPlan { tasks: plan_tasks(&read(&name, json.as_deref(), file)?, &store)?, store })
        };
        watched(py, None, plan)?.raised(py)
    }

    /// The number of its runs.
    fn runs(&self) -> usize {
        self.tasks.iter().map(|task| task.runs).sum()
    }

    /// The tasks that the store lacks, as JSON, each with its number of runs.
    fn missing(&self, py: Python) -> PyResult<Vec<(String, usize)>> {
        let text = |task: &Task| Ok((serde_json::to_string(task).map_err(json_error)?, task.runs));
        let missing = missing(&self.tasks, Part::ALL, &self.store).into_iter();
        missing.map(text).collect::<Result<_, Error>>().raised(py)
    }

    /// Completes the store after all tasks were computed.
    fn end(&self, py: Python) -> PyResult<()> {
        self.store.tidy().raised(py)
    }
}

/// Computes a task, given as JSON, unless the store has it.
#[pyfunction]
pub fn compute(py: Python, task: String, store: PathBuf) -> PyResult<()> {
    let work = move |watcher: &Watcher| -> Result<(), Error> {
        let task: Task = serde_json::from_str(&task).map_err(json_error)?;
        let store = Store::create(&store)?;
        if store.has(&task.key) { Ok(()) } else { task.compute(&store, watcher, 0).map(drop) }
    };
    watched(py, None, work)?.raised(py)
}

/// The outcomes of one sweep of a store, or of all.
#[pyfunction]
pub fn results(py: Python, store: PathBuf, sweep: Option<String>) -> PyResult<Outcomes> {
    let outcomes = Store::open(&store).and_then(|store| store.of_sweep_or_all(sweep.as_deref()));
    Ok(Outcomes(Arc::new(outcome::Outcomes::new(outcomes.raised(py)?))))
}

/// The page of a sweep's outcomes.
#[pyfunction]
pub fn sweep_page(py: Python, name: &str, outcomes: &Bound<Outcomes>) -> PyResult<String> {
    table::page(name, &outcomes.get().0.runs, &[]).raised(py)
}

/// The table of a sweep's outcomes, as the command prints it.
#[pyfunction]
pub fn sweep_text(py: Python, outcomes: &Bound<Outcomes>) -> PyResult<String> {
    let rows = rows(&outcomes.get().0.runs);
    table::text_of(&rows, &table::shown_keys(&[], &rows), false).raised(py)
}

/// For runs that differ only in their seed: n, mean and 95 % confidence interval of some keys, or of the table's, as JSON. With `compare`,
/// a key and two values of it: their paired comparison.
#[pyfunction]
pub fn statistics(
    py: Python,
    outcomes: &Bound<Outcomes>,
    keys: Vec<String>,
    compare: Option<(String, String)>,
) -> PyResult<String> {
    let rows = rows(&outcomes.get().0.runs);
    let keys = table::shown_keys(&keys, &rows);
    let frame = match compare {
        Some((key, sides)) => Pairs::new(&rows, &key, &sides, &keys).map(|pairs| pairs.frame()),
        None => table::intervals(&rows, &keys),
    };
    Ok(frame.raised(py)?.records().to_string())
}
