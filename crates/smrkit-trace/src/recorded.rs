//! A result file whose runs are to be repeated.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use smrkit::error::Error;
use smrkit::experiment::demand::Demand;
use smrkit::experiment::record;
use smrkit::stats::outcome::{Outcome, Outcomes, Replayed, TraceReading};

use crate::demand::TraceDemand;
use crate::layout::VolumeChoice;
use crate::open::OpenOptions;

/// The runs of a result file.
pub struct Recorded {
    path: PathBuf,
    /// At least one.
    pub outcomes: Vec<Outcome>,
}

impl Recorded {
    /// Reads the file. Errors: no result file, one without a run, or without what it takes to repeat one.
    pub fn read(path: &Path) -> Result<Recorded, Error> {
        let content = std::fs::read(path).map_err(|error| Error::reading(path, error))?;
        let outcomes: Outcomes = serde_json::from_slice(&content).map_err(|error| {
            Error::input(
                path,
                format!("no result file of this version of smrkit ({error}): give one that smrkit run --json wrote"),
            )
        })?;
        match outcomes.runs.is_empty() {
            true => Err(Error::input(path, "no run is recorded here: give a result file with one")),
            false => Ok(Recorded { path: path.into(), outcomes: outcomes.runs }),
        }
    }

    fn replayed(&self) -> &Replayed {
        &self.outcomes[0].replayed
    }

    /// The traces that were replayed.
    pub fn traces(&self) -> impl Iterator<Item = PathBuf> {
        let merged = self.replayed().sources.iter().flatten().filter_map(|source| source.trace.as_ref());
        self.replayed().trace.iter().chain(merged).map(PathBuf::from)
    }

    /// Demand that all of its runs replayed.
    pub fn demand(&self) -> Result<Box<dyn Demand>, Error> {
        record::demand(self.replayed(), &trace)
    }

    /// Refuses traces that are not those of the record.
    pub fn check_traces(&self, repeated: &[Outcome]) -> Result<(), Error> {
        let hashes = |replayed: &Replayed| -> Vec<Option<String>> {
            let merged = replayed.sources.iter().flatten().map(|source| source.sha256.clone());
            std::iter::once(replayed.trace_sha256.clone()).chain(merged).collect()
        };
        match repeated.first().filter(|first| !first.interrupted) {
            Some(first) if hashes(&first.replayed) != hashes(self.replayed()) => Err(Error::input(
                &self.path,
                "a trace is not what it was (its SHA-256 differs): restore it, or run it anew",
            )),
            _ => Ok(()),
        }
    }
}

fn trace(path: &str, reading: &TraceReading) -> Result<Box<dyn Demand>, Error> {
    let volumes = VolumeChoice::from_str(&reading.volume)?;
    let (format, skip_bad_rows) = (reading.format.clone(), reading.skip_bad_rows);
    let options = OpenOptions { format, skip_bad_rows, ..OpenOptions::default() };
    Ok(Box::new(TraceDemand::new(path.as_ref(), options, volumes)?))
}
