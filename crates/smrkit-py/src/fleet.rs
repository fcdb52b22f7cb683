//! Fleets that Python asks about: the question of the command, and its answer, whose work other machines may do.

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use smrkit::error::Error;
use smrkit::experiment::pool::{self, Monitor};
use smrkit_advise::fleet::{FleetAnswer, FleetOptions, Found, Work};
use smrkit_options::pairs;
use smrkit_report::format::WIDTH;
use smrkit_sweep::store::{check_program, program};

use crate::error::Raised;
use crate::run::{is_in_python, on_this_thread, python_name};
use crate::watch::{Watcher, watched};

/// An answer.
#[pyclass(frozen)]
pub struct Fleet(FleetAnswer);

#[pymethods]
impl Fleet {
    /// The answer as the command writes it.
    fn json(&self, py: Python) -> PyResult<String> {
        Ok(serde_json::to_string_pretty(&self.0).map_err(unreadable).raised(py)? + "\n")
    }

    /// The sentences and the table that the command prints.
    fn text(&self) -> String {
        self.0.screen(WIDTH)
    }
}

fn unreadable(error: serde_json::Error) -> Error {
    Error::Usage(error.to_string())
}

/// Simulates repairs and losses of a fleet.
#[pyfunction]
pub fn fleet(py: Python, options: Vec<pairs::Pair>, progress: Option<Bound<PyAny>>) -> PyResult<Fleet> {
    let in_python = is_in_python(&options, false);
    let options: FleetOptions = pairs::read(&options, &python_name).raised(py)?;
    let answer = match in_python {
        true => on_this_thread(|watcher| options.answer(watcher))?.raised(py)?,
        false => watched(py, progress.as_ref(), move |watcher: &Watcher| options.answer(watcher))?.raised(py)?,
    };
    answer.map(|(answer, _)| Fleet(answer)).ok_or_else(|| PyKeyboardInterrupt::new_err(()))
}

/// The same from work that `compute` has done elsewhere, by [`fleet_work`]: it is called with lists of work and with what they are for.
#[pyfunction]
pub fn fleet_by(py: Python, options: Vec<pairs::Pair>, compute: Bound<PyAny>) -> PyResult<Fleet> {
    let program = program(&options).raised(py)?;
    let asked: FleetOptions = pairs::read(&options, &python_name).raised(py)?;
    let mut failed = None;
    let answer = asked.answer_by(&mut |work, what| {
        let planned = |work: &Work| serde_json::to_string(&(&program, &options, work)).map_err(unreadable);
        let planned: Vec<String> = work.iter().map(planned).collect::<Result<_, Error>>()?;
        match compute.call1((planned, what)).and_then(|found| found.extract::<Vec<String>>()) {
            Ok(found) => {
                let read = |found: &String| serde_json::from_str::<Found>(found).map_err(unreadable);
                found.iter().map(read).collect::<Result<_, Error>>().map(Some)
            }
            Err(raised) => {
                failed = Some(raised);
                Ok(None)
            }
        }
    });
    match (answer.raised(py)?, failed) {
        (Some((answer, _)), None) => Ok(Fleet(answer)),
        (_, raised) => Err(raised.unwrap_or_else(|| PyKeyboardInterrupt::new_err(()))),
    }
}

/// Does work of [`fleet_by`], where it is called; what it has found.
#[pyfunction]
pub fn fleet_work(py: Python, work: String) -> PyResult<String> {
    let work = move |watcher: &Watcher| -> Result<Option<String>, Error> {
        let (planned, options, work): (String, Vec<pairs::Pair>, Work) =
            serde_json::from_str(&work).map_err(unreadable)?;
        check_program(&planned, &options)?;
        let asked: FleetOptions = pairs::read(&options, &python_name)?;
        let found = pool::make_one(watcher as &dyn Monitor, "", |watch| asked.compute(&work, watch))?;
        found.map(|found| serde_json::to_string(&found).map_err(unreadable)).transpose()
    };
    watched(py, None, work)?.raised(py)?.ok_or_else(|| PyKeyboardInterrupt::new_err(()))
}

/// The options of a fleet, as those of a run.
#[pyfunction]
pub fn fleet_options() -> Vec<pairs::Described> {
    pairs::described::<FleetOptions>()
}
