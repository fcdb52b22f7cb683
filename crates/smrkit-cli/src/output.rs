//! Standard output, and result files that go there or to a path.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use smrkit::error::Error;

use crate::report::target::Target;

/// Prints to standard output; the error of a closed pipe ends the command quietly.
pub fn print(text: impl AsRef<str>) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_ref().as_bytes()).and_then(|()| out.flush()).context("standard output")
}

/// Prints `value` as JSON.
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(serde_json::to_string_pretty(value)? + "\n")
}

/// Where JSON goes: standard output (`-`) or a file, opened before the work starts.
pub enum JsonTarget {
    Stdout,
    File(Target),
}

impl JsonTarget {
    /// Opens the target that `--json` names.
    pub fn open(path: &Path) -> Result<JsonTarget, Error> {
        match path.as_os_str() == "-" {
            true => Ok(JsonTarget::Stdout),
            false => Target::open(path).map(JsonTarget::File),
        }
    }

    /// Writes `value`.
    pub fn write(self, value: &impl Serialize) -> anyhow::Result<()> {
        match self {
            JsonTarget::Stdout => print_json(value),
            JsonTarget::File(target) => Ok(target.write((serde_json::to_string_pretty(value)? + "\n").as_bytes())?),
        }
    }
}
