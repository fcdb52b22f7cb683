//! Advice and fleets for Python, with the options and the answers of the command. Other processes may do the work of a fleet.

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use smrkit::error::Error;
use smrkit::experiment::pool::{self, Monitor};
use smrkit_advise::fleet::{FleetAnswer, FleetOptions, Found, Work};
use smrkit_advise::options::AdviseOptions;
use smrkit_advise::{Silent, advice, page, screen};
use smrkit_options::pairs;
use smrkit_report::format::WIDTH;
use smrkit_sweep::store::{check_program, program};

use crate::error::{Raised, json_error, json_file};
use crate::requests::Requests;
use crate::run::{is_in_python, python_name, watched_or_here};
use crate::watch::{Watcher, watched};

/// The answer to one question.
#[pyclass(frozen)]
pub struct Advice(advice::Advice);

#[pymethods]
impl Advice {
    /// The answer as the command writes it.
    fn json(&self, py: Python) -> PyResult<String> {
        json_file(py, serde_json::to_string_pretty(&self.0))
    }

    /// The sentences and tables that the command prints.
    fn text(&self) -> String {
        screen::text(&self.0, screen::Screen::default())
    }

    /// The page that the command writes.
    fn page(&self) -> String {
        page::page(std::slice::from_ref(&self.0), None)
    }
}

/// Runs a drive or an array as it is, and the changes that could help.
#[pyfunction]
#[pyo3(signature = (options, requests, progress))]
pub fn advise(
    py: Python,
    options: Vec<pairs::Pair>,
    requests: Option<Py<Requests>>,
    progress: Option<Bound<PyAny>>,
) -> PyResult<Advice> {
    let in_python = is_in_python(&options, false);
    let options: AdviseOptions = pairs::read(&options, &python_name).raised(py)?;
    let table = requests.map(|requests| requests.get().demand());
    let answer = move |monitor: &dyn Monitor| -> Result<Option<advice::Advice>, Error> {
        let mut questions = options.ask(table.is_some())?;
        let Some(question) = questions.pop().filter(|_| questions.is_empty()) else {
            return Err(Error::Usage("one drive is looked at: name one, and call it for each".into()));
        };
        let demand = table.map_or_else(|| question.demand(), Ok)?;
        question.answer(demand, monitor, &mut Silent)
    };
    // No answer means that Ctrl-C ended the runs.
    let advice = watched_or_here(py, in_python, progress.as_ref(), answer)?;
    advice.map(Advice).ok_or_else(|| PyKeyboardInterrupt::new_err(()))
}

/// The answer to one question.
#[pyclass(frozen)]
pub struct Fleet(FleetAnswer);

#[pymethods]
impl Fleet {
    /// The answer as the command writes it.
    fn json(&self, py: Python) -> PyResult<String> {
        json_file(py, serde_json::to_string_pretty(&self.0))
    }

    /// The sentences and the table that the command prints.
    fn text(&self) -> String {
        self.0.screen(WIDTH)
    }
}

/// Simulates repairs and losses of a fleet.
#[pyfunction]
pub fn fleet(py: Python, options: Vec<pairs::Pair>, progress: Option<Bound<PyAny>>) -> PyResult<Fleet> {
    // Runs no layer that the options don't name. A layer in Python has to run on this thread.
    let in_python = is_in_python(&options, false);
    let options: FleetOptions = pairs::read(&options, &python_name).raised(py)?;
    // No answer means that Ctrl-C ended the work.
    let answer = watched_or_here(py, in_python, progress.as_ref(), move |monitor| options.answer(monitor))?;
    answer.map(|(answer, _)| Fleet(answer)).ok_or_else(|| PyKeyboardInterrupt::new_err(()))
}

/// Simulates a fleet, with work that other processes do by [`fleet_work`]. `compute` is called with a list of work and a word on its purpose,
/// and returns the results.
#[pyfunction]
pub fn fleet_by(py: Python, options: Vec<pairs::Pair>, compute: Bound<PyAny>) -> PyResult<Fleet> {
    let program = program(&options).raised(py)?;
    let fleet_options: FleetOptions = pairs::read(&options, &python_name).raised(py)?;
    // An exception of `compute`, which ends the work.
    let mut exception = None;
    let answer = fleet_options.answer_by(&mut |work, what| {
        let task = |work: &Work| serde_json::to_string(&(&program, &options, work)).map_err(json_error);
        let tasks: Vec<String> = work.iter().map(task).collect::<Result<_, Error>>()?;
        match compute.call1((tasks, what)).and_then(|results| results.extract::<Vec<String>>()) {
            Ok(results) => {
                let read = |result: &String| serde_json::from_str::<Found>(result).map_err(json_error);
                results.iter().map(read).collect::<Result<_, Error>>().map(Some)
            }
            Err(raised) => {
                exception = Some(raised);
                Ok(None)
            }
        }
    });
    match (answer.raised(py)?, exception) {
        (Some((answer, _)), None) => Ok(Fleet(answer)),
        (_, exception) => Err(exception.unwrap_or_else(|| PyKeyboardInterrupt::new_err(()))),
    }
}

/// Does work for [`fleet_by`] in this process, and returns its result.
#[pyfunction]
pub fn fleet_work(py: Python, task: String) -> PyResult<String> {
    let work = move |watcher: &Watcher| -> Result<Option<String>, Error> {
        let (program, options, work): (String, Vec<pairs::Pair>, Work) =
            serde_json::from_str(&task).map_err(json_error)?;
        check_program(&program, &options)?;
        let options: FleetOptions = pairs::read(&options, &python_name)?;
        let result = pool::make_one(watcher as &dyn Monitor, "", |watch| options.compute(&work, watch))?;
        result.map(|result| serde_json::to_string(&result).map_err(json_error)).transpose()
    };
    watched(py, None, work)?.raised(py)?.ok_or_else(|| PyKeyboardInterrupt::new_err(()))
}
