//! The record of a run in its outcome: a content hash, and all that is needed to repeat the run.
//!
//! The hash is equal for equal runs, on any machine and wherever their files lie. The version that made an outcome is no part of it.

use std::collections::BTreeMap;
use std::fmt::Debug;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::demand::{Demand, EditedDemand, GeneratedDemand, MergedDemand};
use super::planned::PlannedRun;
use super::system::Systems;
use crate::device::spec::SystemSpec;
use crate::drive::choices;
use crate::error::Error;
use crate::interleave::{Interleave, SourcePlacement};
use crate::request::{Op, Request};
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
        let (engine, run) = (*planned.settings(), RunRecord { hash: planned.hash(), ..planned.run.record() });
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

/// The run with its content hash.
pub(super) fn hashed(mut run: Outcome) -> Outcome {
    run.run.hash = run_hash(&run.run, &run.engine, &run.replayed);
    run
}

/// The SHA-256 of the system, the settings (the seed among them) and the requests; `None` if the requests came from a source without a
/// hash.
pub(super) fn run_hash(run: &RunRecord, settings: &Settings, demand: &Replayed) -> Option<String> {
    // Every field is named, so that no new one is forgotten.
    let RunRecord { hash: _, system, used_sectors, drive_files, rebuild, window_ns, from_state } = run;
    let system = named_by_text(SystemSpec::parse(system).ok()?, drive_files).to_string();
    let rebuild = rebuild.map(String::from);
    let run = (system, used_sectors, rebuild, window_ns, settings, request_properties(demand)?);
    // Runs without a state or edits keep the hashes that they had before there were any.
    Some(match (from_state, &demand.edit) {
        (None, None) => hash(&run),
        (Some(state), None) => hash(&(run, state)),
        (state, Some(edit)) => hash(&(run, state, edit)),
    })
}

/// The system with the hash of its text in place of each drive file's path. The values chosen after a path (`@KEY=low`) stay.
fn named_by_text(mut system: SystemSpec, files: &BTreeMap<String, String>) -> SystemSpec {
    for name in system.drives_mut().iter_mut().filter_map(|drive| drive.drive.as_mut()) {
        if let Some(text) = files.get(name) {
            *name = hex(Sha256::digest(text)) + choices(name);
        }
    }
    system
}

/// How a trace was read, for the hash of a run: its format, named or recognised, and the options that selected requests.
fn reading_properties(format: &Option<String>, reading: &Option<TraceReading>) -> Option<impl Debug> {
    let TraceReading { volume, format: asked, skip_bad_rows } = reading.as_ref()?;
    // A name alone is what would have been recognised; only text after a colon changes how a trace is read.
    let asked = asked.as_deref().filter(|asked| asked.contains(':'));
    // Without the detail in brackets that may follow the name.
    let recognised = format.as_deref().and_then(|format| format.split(" (").next());
    Some((asked.or(recognised).map(str::to_string), volume.clone(), *skip_bad_rows))
}

/// Properties that identify the requests, for the hash of a run, without the path of a trace and the notes on its rows. `None` if some source
/// has no hash.
fn request_properties(demand: &Replayed) -> Option<impl Debug> {
    let Replayed { trace, trace_sha256, trace_format, trace_reading, trace_notes: _, .. } = demand;
    let Replayed { requests_sha256, workload, workload_sectors, sources, interleave, .. } = demand;
    let is_known = match sources {
        None => trace_sha256.is_some() || trace.is_none() && (workload.is_some() || requests_sha256.is_some()),
        Some(sources) => {
            sources.iter().all(|one| one.sha256.is_some() || one.trace.is_none() && one.workload.is_some())
        }
    };
    let sources = sources.iter().flatten().map(|one| {
        let reading = reading_properties(&one.trace_format, &one.trace_reading);
        (&one.sha256, reading, &one.workload, one.sectors, one.first_lba)
    });
    let (sources, reading): (Vec<_>, _) = (sources.collect(), reading_properties(trace_format, trace_reading));
    let interleave = interleave.map(|rule| rule.to_string());
    is_known.then_some((trace_sha256, reading, requests_sha256, workload, workload_sectors, sources, interleave))
}

/// The SHA-256 of requests in memory.
pub(super) fn requests_hash(requests: &[Request]) -> String {
    let mut hash = Sha256::new();
    for Request { time, lba, sectors, volume, op, source } in requests {
        // Fixed numbers, because records hold the hash.
        let op = match op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Flush => 2,
            Op::Discard => 3,
        };
        hash.update(time.0.to_le_bytes());
        hash.update(lba.0.to_le_bytes());
        hash.update(sectors.to_le_bytes());
        hash.update(volume.to_le_bytes());
        hash.update([op, *source]);
    }
    hex(hash.finalize())
}

/// The SHA-256 of a value's debug text, which has every field.
fn hash(value: &impl Debug) -> String {
    hex(Sha256::digest(format!("{value:?}")))
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
