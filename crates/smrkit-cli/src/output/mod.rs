//! Standard output, and result files that go there or to a path; an output never takes the place of an input.

pub mod figures;
pub mod target;

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use smrkit::error::Error;
use smrkit_trace::partial::temporary_of;

use crate::interrupt::Interrupt;
use figures::FigureFormat;
use smrkit_report::figure::Figure;
use target::{Folder, Target};

/// Prints to standard output; the error of a closed pipe ends the command quietly.
pub fn print(text: impl AsRef<str>) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_ref().as_bytes()).and_then(|()| out.flush()).context("standard output")
}

/// Prints `value` as JSON.
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(serde_json::to_string_pretty(value)? + "\n")
}

/// The paths that a command reads and writes, as given.
#[derive(Default)]
pub struct Paths {
    /// Files that are read.
    pub inputs: Vec<PathBuf>,
    /// Files that are written.
    pub outputs: Vec<PathBuf>,
    /// Folders that files with such an ending are written into.
    pub folders: Vec<(PathBuf, &'static str)>,
}

impl Paths {
    /// Refuses an output that is an input or another output, whatever its name, before anything is opened.
    pub fn check(&self) -> Result<(), Error> {
        let mut known: Vec<(Identity, &Path, &str)> = Vec::new();
        let named = self.inputs.iter().map(|path| (path, "an input"));
        for (path, what) in named {
            known.extend(Identity::for_path(path).map(|identity| (identity, path.as_path(), what)));
        }
        for path in &self.outputs {
            let Some(identity) = Identity::for_path(path) else { continue };
            match known.iter().find(|(other, ..)| *other == identity) {
                Some((_, other, "an input")) => {
                    let whose =
                        if *other == path { String::new() } else { format!(" under the name {}", other.display()) };
                    return Err(Error::Usage(format!(
                        "{} is read by this command{whose}: write to another file",
                        path.display()
                    )));
                }
                Some(_) => {
                    let message = format!("{} is named for two outputs: give each its own", path.display());
                    return Err(Error::Usage(message));
                }
                None => known.push((identity, path, "an output")),
            }
        }
        self.folders.iter().try_for_each(|(folder, ending)| in_the_way(folder, ending, &known))
    }

    /// Tells an interrupt what is about to be opened, and keeps it from ending the process meanwhile.
    pub fn opening<'a>(&self, interrupt: &'a Interrupt) -> MutexGuard<'a, Vec<PathBuf>> {
        let mut partial = interrupt.opening();
        partial.extend(self.outputs.iter().filter(|path| !is_stream(path)).filter_map(|path| temporary_of(path)));
        partial
    }
}

/// Refuses files that figures may take the place of.
fn in_the_way(folder: &Path, ending: &str, known: &[(Identity, &Path, &str)]) -> Result<(), Error> {
    let Ok(folder) = fs::canonicalize(folder) else { return Ok(()) };
    let is_there = |path: &Path| {
        let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        whole.parent() == Some(&folder) && whole.extension().is_some_and(|own| own == ending)
    };
    match known.iter().find(|(_, path, _)| is_there(path)) {
        Some((_, path, what)) => Err(Error::Usage(format!(
            "{} is {what} of this command, and figures are written next to it as .{ending}: give --figures another folder",
            path.display()
        ))),
        None => Ok(()),
    }
}

/// Identity of the file that a path leads to.
#[derive(PartialEq, Eq)]
enum Identity {
    /// A file that exists, by device and number: links lead to it too.
    File(u64, u64),
    /// One that does not, by its folder and name.
    Missing(PathBuf),
}

impl Identity {
    /// None for standard streams, and for pipes and devices, which keep nothing.
    fn for_path(path: &Path) -> Option<Identity> {
        if is_stream(path) {
            return None;
        }
        match fs::metadata(path) {
            Ok(meta) if meta.is_file() => Some(Identity::File(meta.dev(), meta.ino())),
            Ok(_) => None,
            Err(_) => {
                let path = fs::read_link(path).map_or_else(|_| path.to_path_buf(), |to| path.with_file_name(to));
                let folder = match path.parent() {
                    Some(parent) if parent != Path::new("") => parent,
                    _ => Path::new("."),
                };
                Some(Identity::Missing(fs::canonicalize(folder).ok()?.join(path.file_name()?)))
            }
        }
    }
}

fn is_stream(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Target of JSON: standard output (`-`) or a file, opened before the work starts.
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

/// Targets of results besides the terminal.
#[derive(Args)]
pub struct OutputOptions {
    /// Write the results as JSON; - is standard output.
    #[arg(long, value_name = "OUT|-")]
    pub json: Option<PathBuf>,
    /// Write one HTML page that opens offline.
    #[arg(long, value_name = "OUT.html")]
    pub report: Option<PathBuf>,
    /// Write the figures into this directory.
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// The figures' format.
    #[arg(long, value_enum, default_value_t)]
    figure_format: FigureFormat,
}

/// Places of results, opened before the work starts.
pub struct Outputs {
    json: Option<JsonTarget>,
    report: Option<Target>,
    figures: Option<(Folder, FigureFormat)>,
}

impl OutputOptions {
    /// Adds what it names to the outputs of a command.
    pub fn name(&self, paths: &mut Paths) {
        paths.outputs.extend([&self.json, &self.report].into_iter().flatten().cloned());
        paths.folders.extend(self.figures.clone().map(|folder| (folder, self.figure_format.ending())));
    }

    /// Opens all of them: fails at once where one can't be written.
    pub fn open(&self) -> Result<Outputs, Error> {
        Ok(Outputs {
            json: self.json.as_deref().map(JsonTarget::open).transpose()?,
            report: self.report.as_ref().map(Target::open).transpose()?,
            figures: self.figures.as_ref().map(Folder::open).transpose()?.map(|folder| (folder, self.figure_format)),
        })
    }
}

impl Outputs {
    /// Writes all of it, the most precious first; what fails does not keep the rest from being written.
    pub fn write(
        self,
        text: impl FnOnce() -> String,
        record: &impl Serialize,
        page: impl FnOnce() -> String,
        figures: impl FnOnce() -> Vec<Figure>,
    ) -> anyhow::Result<()> {
        let printed = match self.json {
            Some(JsonTarget::Stdout) => Ok(()),
            _ => print(text()),
        };
        let json = self.json.map_or(Ok(()), |json| json.write(record));
        let report = self.report.map_or(Ok(()), |report| report.write(page().as_bytes()));
        let drawn =
            self.figures.map_or(Ok(Vec::new()), |(folder, format)| figures::write_all(&figures(), &folder, format));
        printed.and(json)?;
        report?;
        drawn?;
        Ok(())
    }
}
