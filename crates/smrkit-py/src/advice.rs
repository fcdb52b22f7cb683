//! Advice for Python, with the options and the answer of the command.

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use smrkit::error::Error;
use smrkit::experiment::pool::Monitor;
use smrkit_advise::options::AdviseOptions;
use smrkit_advise::{Silent, advice, page, screen};
use smrkit_options::pairs;

use crate::error::{Raised, json_file};
use crate::requests::Requests;
use crate::run::{is_in_python, python_name, watched_or_here};

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

/// Describes the options of advice, as `options` describes those of a run.
#[pyfunction]
pub fn advise_options() -> Vec<pairs::Described> {
    pairs::described::<AdviseOptions>()
}
