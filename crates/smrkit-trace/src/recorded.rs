//! Runs of a result file, to be repeated.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use smrkit::error::Error;
use smrkit::experiment::comparison::{self, Compared, RunRecorders};
use smrkit::experiment::demand::Demand;
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool::Monitor;
use smrkit::experiment::record;
use smrkit::stats::outcome::{Outcome, Outcomes, Replayed, TraceNotes, TraceReading};

use crate::demand::{TraceDemand, VolumeChoice};
use crate::trace::OpenOptions;

/// The runs of a result file.
pub struct Recorded {
    path: PathBuf,
    /// Its content: at least one run.
    pub file: Outcomes,
}

impl Recorded {
    /// Reads the file. Errors: no result file, one without a run, or without the record of a run.
    pub fn read(path: &Path) -> Result<Recorded, Error> {
        let content = std::fs::read(path).map_err(|error| Error::reading(path, error))?;
        let outcomes: Outcomes = serde_json::from_slice(&content).map_err(|error| {
            Error::input(
                path,
                format!("no result file of this version of smrkit ({error}): give one that smrkit run wrote"),
            )
        })?;
        if outcomes.runs.is_empty() {
            return Err(Error::input(path, "no run is recorded here: give a result file with one"));
        }
        Ok(Recorded { path: path.into(), file: outcomes })
    }

    /// The plans of the runs. Errors: one is a merge of several.
    pub fn runs(&self) -> Result<Vec<PlannedRun>, Error> {
        self.file.runs.iter().map(record::run).collect()
    }

    /// The distinct demands, and for each run the index of its demand.
    fn demands(&self) -> (Vec<Replayed>, Vec<usize>) {
        let mut demands: Vec<Replayed> = Vec::new();
        // Runs of one comparison share their demand, so that its trace is scanned once.
        let number = |outcome: &Outcome| {
            // The description alone, without the results of reading it.
            let mut own = Replayed { trace_notes: TraceNotes::default(), ..outcome.replayed.clone() };
            own.sources.iter_mut().flatten().for_each(|source| source.requests = 0);
            demands.iter().position(|known| *known == own).unwrap_or_else(|| {
                demands.push(own);
                demands.len() - 1
            })
        };
        let by_run = self.file.runs.iter().map(number).collect();
        (demands, by_run)
    }

    /// The traces that were replayed.
    pub fn traces(&self) -> impl Iterator<Item = PathBuf> {
        self.demands().0.into_iter().flat_map(|demand| {
            let merged = demand.sources.into_iter().flatten().filter_map(|source| source.trace);
            demand.trace.into_iter().chain(merged).map(PathBuf::from)
        })
    }

    /// Executes `runs`, its own runs, again. Errors: a trace has changed since.
    pub fn repeat(&self, runs: &[PlannedRun], monitor: &dyn Monitor, records: RunRecorders) -> Result<Compared, Error> {
        let (demands, by_run) = self.demands();
        let demands = demands.iter().map(|demand| record::demand(demand, &trace)).collect::<Result<Vec<_>, _>>()?;
        let demands: Vec<&dyn Demand> = demands.iter().map(|demand| &**demand).collect();
        demands.iter().try_for_each(|demand| demand.look_for_volumes())?;
        let compared = comparison::compare(runs, &by_run, &demands, monitor, "repeating", records)?;
        self.check_traces(&compared.outcomes.runs)?;
        Ok(compared)
    }

    /// Errors: a repeated run read a trace with another hash than the recorded one.
    fn check_traces(&self, repeated: &[Outcome]) -> Result<(), Error> {
        let hashes = |outcome: &Outcome| -> Vec<Option<String>> {
            let merged = outcome.replayed.sources.iter().flatten().map(|source| source.sha256.clone());
            std::iter::once(outcome.replayed.trace_sha256.clone()).chain(merged).collect()
        };
        // An interrupted run has no hash, because it did not read its trace to the end.
        let same = |(own, again): (&Outcome, &Outcome)| {
            let pairs = hashes(own).into_iter().zip(hashes(again));
            pairs.into_iter().all(|(own, again)| own.is_none() || again.is_none() || own == again)
        };
        match self.file.runs.iter().zip(repeated).all(same) {
            true => Ok(()),
            false => Err(Error::input(
                &self.path,
                "a trace is not what it was (its SHA-256 differs): restore it, or run it anew",
            )),
        }
    }
}

fn trace(path: &str, reading: &TraceReading) -> Result<Box<dyn Demand>, Error> {
    let volumes = VolumeChoice::from_str(&reading.volume)?;
    let (format, skip_bad_rows) = (reading.format.clone(), reading.skip_bad_rows);
    let options = OpenOptions { format, skip_bad_rows, ..OpenOptions::default() };
    Ok(Box::new(TraceDemand::new(path.as_ref(), options, volumes)?))
}
