//! Standard output, and result files that go there or to a path.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde::Serialize;
pub use serde_json::to_string_pretty as pretty;
use smrkit::error::Error;
use smrkit_report::format::command;
use smrkit_trace::output::TargetFile;

use crate::invocation;

/// Prints to standard output; the error of a closed pipe ends the command quietly.
pub fn print(text: impl AsRef<str>) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_ref().as_bytes()).and_then(|()| out.flush()).context("standard output")
}

/// Prints `value` as JSON.
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(pretty(value)? + "\n")
}

/// Prints the record as JSON if that is asked for, otherwise the text.
pub fn print_as<R: Serialize>(
    json: bool,
    record: impl FnOnce() -> R,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    if json { print_json(&record()) } else { print(text()) }
}

/// Prints on standard error which drives are simulated for models that have no drive file.
pub fn note_stand_ins(sentences: impl Iterator<Item = String>) {
    sentences.for_each(|sentence| eprintln!("smrkit: note: {sentence}"));
}

/// The command as it was given, without the files that it writes.
pub fn command_given() -> String {
    const WRITTEN: [&str; 5] = ["--report", "--json", "--requests", "--accesses", "--save-state"];
    let mut given = invocation::words().iter().skip(1).map(|word| word.to_string_lossy().into_owned());
    let mut words = Vec::new();
    while let Some(word) = given.next() {
        match word.split_once('=') {
            Some((option, _)) if WRITTEN.contains(&option) => {}
            // The next word is the option's value.
            None if WRITTEN.contains(&word.as_str()) => drop(given.next()),
            _ => words.push(word),
        }
    }
    command(words.into_iter())
}

/// Target of JSON: standard output (`-`) or a file, opened before the work starts.
pub enum JsonTarget {
    Stdout,
    File(TargetFile),
}

impl JsonTarget {
    /// Opens the target that `--json` names.
    pub fn open(path: &Path) -> Result<JsonTarget, Error> {
        if path.as_os_str() == "-" { Ok(JsonTarget::Stdout) } else { TargetFile::open(path).map(JsonTarget::File) }
    }

    /// Writes a text of JSON.
    pub fn write(self, json: String) -> anyhow::Result<()> {
        match self {
            JsonTarget::Stdout => print(json + "\n"),
            JsonTarget::File(target) => Ok(target.write((json + "\n").as_bytes())?),
        }
    }
}

/// Targets of results besides the terminal.
#[derive(Args)]
pub struct OutputOptions {
    /// Write the results as JSON; - is standard output.
    #[arg(long, value_name = "OUT|-")]
    pub json: Option<PathBuf>,
    /// Write one HTML page that opens offline. Its charts save as SVG and PNG.
    #[arg(long, value_name = "OUT.html")]
    pub report: Option<PathBuf>,
}

/// Places of results, opened before the work starts.
pub struct Outputs {
    pub json: Option<JsonTarget>,
    pub report: Option<TargetFile>,
}

impl OutputOptions {
    /// The paths that are named.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.json.iter().chain(&self.report).cloned().collect()
    }

    /// Opens all outputs; fails at once if one can't be written.
    pub fn open(&self) -> Result<Outputs, Error> {
        Ok(Outputs {
            json: self.json.as_deref().map(JsonTarget::open).transpose()?,
            report: self.report.as_ref().map(TargetFile::open).transpose()?,
        })
    }
}

impl Outputs {
    /// True if standard output is for JSON alone.
    pub fn is_stdout_json(&self) -> bool {
        matches!(self.json, Some(JsonTarget::Stdout))
    }

    /// Writes all outputs, the most valuable first. A failure does not stop the others.
    pub fn write(
        self,
        text: impl FnOnce() -> String,
        record: impl FnOnce() -> serde_json::Result<String>,
        page: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        let printed = if self.is_stdout_json() { Ok(()) } else { print(text()) };
        let json = self.json.map_or(Ok(()), |json| json.write(record()?));
        let report = self.report.map_or(Ok(()), |report| report.write(page().as_bytes()));
        printed.and(json)?;
        Ok(report?)
    }
}
