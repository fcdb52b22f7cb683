//! The command `smrkit`, where the package brings it.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;

/// Executes the command and ends the process. The first word is the name that it was called by; `program` starts it anew.
#[pyfunction]
pub fn command(py: Python, words: Vec<OsString>, program: PathBuf) {
    // Not by way of Python, which flushes nothing that was printed here.
    py.detach(|| std::process::exit(smrkit_cli::main(words, Ok(program)).into()))
}
