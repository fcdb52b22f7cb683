//! Sweeps and their stores.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use smrkit::error::Error;
use smrkit::stats::outcome;
use smrkit_sweep::execute::{Done, execute};
use smrkit_sweep::plan::Sweep;
use smrkit_sweep::store::Store;

use crate::error::Raised;
use crate::outcomes::Outcomes;
use crate::watch::{Watcher, watched};

/// Computes what a store lacks of a sweep, given as JSON or as the path of its file; runs computed and runs found.
#[pyfunction]
pub fn sweep(
    py: Python,
    name: String,
    json: Option<String>,
    file: Option<PathBuf>,
    store: PathBuf,
    progress: Option<Bound<PyAny>>,
) -> PyResult<(usize, usize)> {
    let work = move |watcher: &Watcher| -> Result<Done, Error> {
        let sweep = match (json, file) {
            (Some(json), _) => Sweep::from_json(&name, &json)?,
            (None, file) => Sweep::read(&file.unwrap_or_default())?,
        };
        execute(&sweep, &Store::create(&store)?, watcher)
    };
    let done = watched(py, progress.as_ref(), work)?.raised(py)?;
    Ok((done.computed, done.found))
}

/// The outcomes of one sweep of a store, or of all.
#[pyfunction]
pub fn results(py: Python, store: PathBuf, sweep: Option<String>) -> PyResult<Outcomes> {
    let read = || -> Result<Vec<outcome::Outcome>, Error> {
        let store = Store::open(&store)?;
        let names = sweep.map_or_else(|| store.sweeps(), |name| Ok(vec![name]))?;
        Ok(names.iter().map(|name| store.of_sweep(name)).collect::<Result<Vec<_>, Error>>()?.concat())
    };
    Ok(Outcomes(Arc::new(outcome::Outcomes { schema: 1, runs: read().raised(py)? })))
}
