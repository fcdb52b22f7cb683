//! Outcomes of runs: the records of `outcome.json`, as the command writes them.

use std::sync::Arc;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use smrkit::error::Error;
use smrkit::stats::outcome::{self, Outcome};
use smrkit_report::Terminal;

use crate::error::{Raised, json_error, json_file};

/// The outcomes of a comparison, or of a result file.
#[pyclass(frozen)]
pub struct Outcomes(pub Arc<outcome::Outcomes>);

impl Outcomes {
    fn from_runs(runs: Vec<Outcome>) -> Outcomes {
        Outcomes(Arc::new(outcome::Outcomes::new(runs)))
    }

    fn run(&self, at: usize) -> PyResult<&Outcome> {
        self.0.runs.get(at).ok_or_else(|| PyIndexError::new_err(format!("there are {} outcomes", self.0.runs.len())))
    }
}

#[pymethods]
impl Outcomes {
    /// Reads the text of a result file; `name` is its name in errors.
    #[staticmethod]
    fn parse(py: Python, text: &str, name: &str) -> PyResult<Outcomes> {
        let read = serde_json::from_str(text).map_err(|error| {
            let message = format!("no result file of this version of smrkit ({error}): give one that smrkit wrote");
            Error::input(name, message)
        });
        Ok(Outcomes(Arc::new(read.raised(py)?)))
    }

    fn __len__(&self) -> usize {
        self.0.runs.len()
    }

    /// One of the outcomes.
    fn only(&self, at: usize) -> PyResult<Outcomes> {
        Ok(Outcomes::from_runs(vec![self.run(at)?.clone()]))
    }

    /// The outcomes of all `parts`, in order.
    #[staticmethod]
    fn joined(parts: Vec<Py<Outcomes>>) -> Outcomes {
        Outcomes::from_runs(parts.iter().flat_map(|part| part.get().0.runs.clone()).collect())
    }

    /// Merges all outcomes, as if one run had served all their requests.
    fn merged(&self, py: Python) -> PyResult<Outcomes> {
        Ok(Outcomes::from_runs(vec![Outcome::merge(&self.0.runs).raised(py)?]))
    }

    /// The result file that the command writes.
    fn json(&self, py: Python, summary: bool) -> PyResult<String> {
        let json = match summary {
            true => serde_json::to_string(&self.0.summary()),
            false => serde_json::to_string_pretty(&*self.0),
        };
        json_file(py, json)
    }

    /// The record of one outcome as JSON.
    fn record(&self, py: Python, at: usize) -> PyResult<String> {
        serde_json::to_string(self.run(at)?).map_err(json_error).raised(py)
    }

    /// The tables that the command prints.
    fn text(&self) -> String {
        smrkit_report::text_for(&self.0.runs, self.0.measured.as_ref(), Terminal::default())
    }

    /// The page that the command writes.
    fn page(&self) -> String {
        smrkit_report::report(&self.0.runs, self.0.measured.as_ref(), None)
    }
}
