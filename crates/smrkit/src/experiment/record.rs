//! The record of a run in its outcome: all that is needed to repeat the run.

use serde::{Deserialize, Serialize};

use super::demand::{Demand, EditedDemand, GeneratedDemand, MergedDemand};
use super::planned::PlannedRun;
use super::system::Systems;
use crate::error::Error;
use crate::interleave::{Interleave, SourcePlacement};
use crate::settings::Settings;
use crate::stats::outcome::{Outcome, Replayed, RunRecord, Scaled, TraceReading};
use crate::workload::Workload;

/// Opens the trace at a path, read as recorded.
pub type OpenTrace<'a> = dyn Fn(&str, &TraceReading) -> Result<Box<dyn Demand>, Error> + 'a;

/// The text form of a planned run, as outcomes record it.
#[derive(Clone, Serialize, Deserialize)]
pub struct PlannedRecord {
    /// The description of an array.
    pub array: Option<String>,
    /// Why the drives have more platters than their own.
    pub scaled: Option<Scaled>,
    /// Arrivals, queue, state before.
    pub engine: Settings,
    /// The seed of everything random, which `engine` is serialized without.
    pub seed: u64,
    /// The system, its own work, and the timeline's windows.
    pub run: RunRecord,
    /// The demand, where the run was planned for one.
    #[serde(default)]
    pub demand: Option<Replayed>,
}

impl PlannedRun {
    /// Rebuilds the demand from its description. Errors: there is none, or it was requests from memory.
    pub fn demand(&self, open: &OpenTrace) -> Result<Box<dyn Demand>, Error> {
        match &self.demand {
            Some(replayed) => demand(replayed, open),
            None => Err(Error::Usage("the run was planned for no demand: plan it by an experiment".into())),
        }
    }
}

impl From<PlannedRun> for PlannedRecord {
    fn from(planned: PlannedRun) -> PlannedRecord {
        let (engine, run) = (*planned.settings(), planned.run.record());
        PlannedRecord {
            array: planned.array,
            scaled: planned.scaled,
            engine,
            seed: engine.seed,
            run,
            demand: planned.demand,
        }
    }
}

impl TryFrom<PlannedRecord> for PlannedRun {
    type Error = Error;
    fn try_from(record: PlannedRecord) -> Result<PlannedRun, Error> {
        let PlannedRecord { array, scaled, engine, seed, run: recorded, demand } = record;
        let run = planned(&recorded, Settings { seed, ..engine })?;
        Ok(PlannedRun { array, scaled, demand, ..run })
    }
}

/// Rebuilds the run of `outcome`. Errors: a merge of several.
pub fn run(outcome: &Outcome) -> Result<PlannedRun, Error> {
    if let Some(count) = outcome.merged_runs {
        return Err(Error::Usage(format!("the record is a merge of {count} runs: repeat each of them from its own")));
    }
    let run = planned(&outcome.run, Settings { seed: outcome.seed, ..outcome.engine })?;
    Ok(PlannedRun { array: outcome.array.clone(), scaled: outcome.scaled, ..run })
}

/// Rebuilds the run of a recorded system under `settings`.
pub fn planned(record: &RunRecord, settings: Settings) -> Result<PlannedRun, Error> {
    if record.from_state.is_some() {
        let message = "the run began with a saved state, which its record does not hold: run it again from that state";
        return Err(Error::Usage(message.into()));
    }
    let runs = Systems::recorded(record)?.runs(&[settings], None)?;
    let unknown = || Error::Usage("the record names no system: it was not written by smrkit".into());
    runs.into_iter().next().ok_or_else(unknown)
}

/// Rebuilds the demand that was `replayed`. Errors: one that was neither a trace nor a workload.
pub fn demand(replayed: &Replayed, open: &OpenTrace) -> Result<Box<dyn Demand>, Error> {
    if let Some(edit) = &replayed.edit {
        let demand = demand(&Replayed { edit: None, ..replayed.clone() }, open)?.into();
        return Ok(Box::new(EditedDemand { demand, edit: edit.parse()? }));
    }
    // Older records have one reading for all sources of a merge.
    let shared_reading = replayed.trace_reading.clone().unwrap_or_default();
    let of_source = |trace: &Option<String>, workload: &Option<String>, sectors, reading: &Option<TraceReading>| {
        if let Some(path) = trace {
            return open(path, reading.as_ref().unwrap_or(&shared_reading));
        }
        let Some(text) = workload else {
            return Err(Error::Usage("requests from memory are in no record: give them again".into()));
        };
        Ok(Box::new(GeneratedDemand { workload: Workload::parse(text)?, span: sectors }) as Box<dyn Demand>)
    };
    let Some(sources) = &replayed.sources else {
        return of_source(&replayed.trace, &replayed.workload, replayed.workload_sectors, &None);
    };
    let each = sources
        .iter()
        .map(|source| of_source(&source.trace, &source.workload, Some(source.sectors), &source.trace_reading));
    // The record has first sectors in place of the placement.
    let placement = match sources.iter().any(|source| source.first_lba > 0) {
        true => SourcePlacement::EndToEnd,
        false => SourcePlacement::Zero,
    };
    let rule = replayed.interleave.unwrap_or(Interleave::None);
    Ok(Box::new(MergedDemand::new(each.collect::<Result<_, Error>>()?, rule, placement)))
}
