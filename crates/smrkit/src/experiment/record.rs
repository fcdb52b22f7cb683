//! A run again, from what its outcome records.

use super::demand::{Demand, Generated};
use super::merged::Merged;
use super::planned::PlannedRun;
use super::system::Systems;
use crate::engine::run::Run;
use crate::engine::system::MemberRun;
use crate::error::Error;
use crate::interleave::Placement;
use crate::settings::Settings;
use crate::stats::outcome::{Outcome, Replayed, TraceReading};
use crate::units::Nanos;
use crate::workload::Workload;

/// Opens the trace at a path, read as it was.
pub type OpenTrace<'a> = dyn Fn(&str, &TraceReading) -> Result<Box<dyn Demand>, Error> + 'a;

/// The run that `outcome` tells of. Errors: a merge of several.
pub fn run(outcome: &Outcome) -> Result<PlannedRun, Error> {
    if let Some(count) = outcome.merged_runs {
        return Err(Error::Usage(format!("the record is a merge of {count} runs: repeat each of them from its own")));
    }
    let settings = Settings { seed: outcome.seed, ..outcome.engine };
    let runs = Systems::recorded(&outcome.run)?.runs(settings, None)?;
    let Some(planned) = runs.into_iter().next() else {
        return Err(Error::Usage("the record names no system: it was not written by smrkit".into()));
    };
    let mut run = Run { window: outcome.run.window_ns.map(Nanos), ..planned.run };
    if let (MemberRun::Array(array), Some(used)) = (&mut run.system, &outcome.run.used_sectors) {
        array.used_sectors = Some(used.clone());
    }
    let (array, scaled) = (outcome.array.clone(), outcome.scaled);
    Ok(PlannedRun { array, scaled, host_sectors: None, run })
}

/// The demand that was `replayed`. Errors: one that was neither a trace nor a workload.
pub fn demand(replayed: &Replayed, open: &OpenTrace) -> Result<Box<dyn Demand>, Error> {
    let reading = replayed.trace_reading.clone().unwrap_or_default();
    let one = |trace: Option<&str>, workload: Option<&str>, sectors: Option<u64>| match (trace, workload) {
        (Some(path), _) => open(path, &reading),
        (None, Some(text)) => {
            Ok(Box::new(Generated { workload: Workload::parse(text)?, span: sectors }) as Box<dyn Demand>)
        }
        (None, None) => Err(Error::Usage("requests from memory are in no record: give them again".into())),
    };
    let Some(sources) = &replayed.sources else {
        return one(replayed.trace.as_deref(), replayed.workload.as_deref(), replayed.workload_sectors);
    };
    let each =
        sources.iter().map(|source| one(source.trace.as_deref(), source.workload.as_deref(), Some(source.sectors)));
    let placement = match sources.iter().any(|source| source.first_lba > 0) {
        true => Placement::EndToEnd,
        false => Placement::Zero,
    };
    let rule = replayed.interleave.as_deref().unwrap_or("none").parse()?;
    Ok(Box::new(Merged::new(each.collect::<Result<_, Error>>()?, rule, placement)))
}
