//! Runs for Python. They take the command's options as names and values, and optionally a table of requests.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use smrkit::error::Error;
use smrkit::experiment::comparison::RunRecorders;
use smrkit::experiment::pool::{Monitor, RequestSink};
use smrkit::stats::counts::RequestRow;
use smrkit::units::Nanos;
use smrkit_options::run::RunOptions;
use smrkit_options::{COMMIT, pairs};
use smrkit_trace::latencies::with_measured;
use smrkit_trace::rows::{MemberAccess, RowFiles, recorders};

use crate::error::Raised;
use crate::layer;
use crate::outcomes::Outcomes;
use crate::requests::Requests;
use crate::rows::{Rows, appending, shared, taken};
use crate::watch::watched;

/// Executes runs; returns outcomes, latencies and accesses. With `single`, more than one run is refused. With `baseline`, outcomes are compared with conventional disks.
#[pyfunction]
#[pyo3(signature = (options, requests, progress, *, single=false, latencies=false, accesses=false, baseline=true,
    until_ns=None, window_ns=None, used_sectors=None, save_state=None))]
#[allow(clippy::too_many_arguments)]
pub fn compare(
    py: Python,
    options: Vec<pairs::Pair>,
    requests: Option<Py<Requests>>,
    progress: Option<Bound<PyAny>>,
    single: bool,
    latencies: bool,
    accesses: bool,
    baseline: bool,
    until_ns: Option<u64>,
    window_ns: Option<u64>,
    used_sectors: Option<Vec<u64>>,
    save_state: Option<PathBuf>,
) -> PyResult<(Outcomes, Option<Rows>, Option<Rows>)> {
    let tries_all = options.iter().all(|(name, _)| name != "layer");
    let in_python = is_in_python(&options, tries_all);
    let options: RunOptions = pairs::read(&options, &python_name).raised(py)?;
    let (until, window) = (until_ns.map(Nanos), window_ns.map(Nanos));
    let options = RunOptions { until, window, used_sectors, ..options };
    let demand = requests.map(|requests| requests.get().demand());
    let (latencies, accesses) = (latencies.then(shared::<RequestRow>), accesses.then(shared::<MemberAccess>));
    let sink = |table| -> RequestSink {
        let append = appending(table);
        Box::new(move |row: &RequestRow| append(*row))
    };
    let mut records = RunRecorders {
        requests: latencies.as_ref().map(sink),
        accesses: accesses.as_ref().map(|table| recorders(appending(table))),
        state: None,
    };
    let mut files = RowFiles::default();
    if let Some(path) = &save_state {
        files.save_state(path, &mut records).raised(py)?;
    }
    let run = move |watcher: &dyn Monitor| -> Result<_, Error> {
        let request = options.ask()?;
        let runs = request.systems.count();
        if single && runs != 1 {
            let message = format!("{runs} runs, but run gives the outcome of one: name one layer, or call compare");
            return Err(Error::Usage(message));
        }
        let demand = match demand {
            Some(demand) => demand,
            None => request.demand()?,
        };
        let (experiment, systems) = request.on(demand);
        match baseline || records.is_some() {
            true => Ok(with_measured(experiment.compare_watched(&systems, watcher, records)?)),
            false => experiment.execute_watched(&systems, watcher).map(smrkit::stats::outcome::Outcomes::new),
        }
    };
    let outcomes = watched_or_here(py, in_python, progress.as_ref(), run)?;
    files.finish().raised(py)?;
    Ok((Outcomes(Arc::new(outcomes)), latencies.map(|table| taken(&table)), accesses.map(|table| taken(&table))))
}

/// Python's name for an option.
pub fn python_name(name: &str) -> String {
    name.replace('-', "_")
}

/// True if a layer written in Python may be run, because it is named or all layers are tried. Such a run has to stay on the calling thread.
pub fn is_in_python(options: &[pairs::Pair], tries_all: bool) -> bool {
    let python_layers = layer::names();
    let is_named = |(name, value): &pairs::Pair| {
        ["layer", "array"].contains(&name.as_str()) && python_layers.iter().any(|layer| value.contains(layer.as_str()))
    };
    // The file of a saved state may name such a layer.
    let begins_with_state = options.iter().any(|(name, _)| name.replace('-', "_") == "from_state");
    (tries_all || begins_with_state) && !python_layers.is_empty() || options.iter().any(is_named)
}

/// Does `work`: with layers written in Python on the calling thread, which holds the interpreter's lock meanwhile, otherwise as [`watched`]
/// does. Ctrl-C or an exception of a layer ends the work.
pub fn watched_or_here<T: Send + 'static>(
    py: Python,
    in_python: bool,
    progress: Option<&Bound<PyAny>>,
    work: impl FnOnce(&dyn Monitor) -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    if !in_python {
        return watched(py, progress, move |watcher| work(watcher))?.raised(py);
    }
    let result = work(&SignalMonitor);
    layer::take_aside().map_or_else(|| result.raised(py), Err)
}

/// Ends work on the calling thread when Python has received a signal.
struct SignalMonitor;

impl Monitor for SignalMonitor {
    fn goes_on(&self) -> bool {
        Python::attach(|py| py.check_signals()).map_err(layer::set_aside).is_ok()
    }

    fn commit(&self) -> Option<&str> {
        COMMIT
    }

    fn threads(&self) -> usize {
        0
    }
}
