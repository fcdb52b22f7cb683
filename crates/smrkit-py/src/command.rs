//! The command `smrkit`, which the Python package includes.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;

/// Executes the command line `words`, whose first is the command's name, and ends the process. It starts itself again by the path `program`.
#[pyfunction]
pub fn command(py: Python, words: Vec<OsString>, program: PathBuf) {
    // Ends the process here: Python's exit would not flush Rust's standard output.
    py.detach(|| std::process::exit(smrkit_cli::main(words, Ok(program)).into()))
}
