//! Advice on a drive or an array: how it serves a load, and which changes would help, each shown by a run.
//!
//! `options.rs` reads the question, `changes.rs` says what is tried, `attempts.rs` runs and judges it by `comparison.rs`, `advice.rs` is
//! the answer as data. Every sentence is in `words.rs`; `screen.rs` lays them out, with tables, for a terminal and as a page.

mod stretches;
pub mod comparison;
mod trial;
mod changes;
pub mod advice;
mod attempts;
pub mod options;
mod words;
pub mod screen;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::Serialize;
use smrkit::error::Error;
use smrkit::experiment::demand::Demand;
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool::{self, Monitor};
use smrkit::layer;
use smrkit::settings::Settings;

use advice::{Advice, Present};
use comparison::Judged;
use trial::{Measured, Trial};

/// A layer counts for the size of a workload if it offers this share of what the present one does, in percent (assumption).
const ALIKE_PERCENT: u64 = 80;

/// Question to the advice.
pub struct Question {
    /// The drive or array as it is; its settings are those of each load.
    pub run: PlannedRun,
    /// The loads under which it is looked at.
    pub loads: Vec<Load>,
    /// Traces and workloads in the demand.
    pub sources: usize,
    /// Tries layers that no shop sells, too.
    pub all: bool,
    /// Bytes of a whole disk, where a rebuild is run on a part of one.
    pub whole_disk_bytes: Option<u64>,
}

/// A load.
#[derive(Clone)]
pub struct Load {
    /// Whose it is.
    pub kind: LoadKind,
    /// The requests.
    pub demand: Arc<dyn Demand>,
    /// How they come.
    pub settings: Settings,
}

/// Whose load it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadKind {
    /// The user's own.
    Asked,
    /// None: a rebuild alone.
    Unused,
    /// A few small requests beside a rebuild.
    Light,
}

/// The system as it is under the load on which changes are tried, and conventional disks under it.
struct Reference<'a> {
    load: &'a Load,
    own: Measured,
    conventional: Measured,
    /// The system, judged.
    before: Judged,
    /// The first load, where that is another one, and the system and conventional disks under it.
    calm: Option<(&'a Load, Measured, Measured)>,
}

/// The answer; `None` if an interrupt came before there was one.
pub fn advise(question: &Question, monitor: &dyn Monitor) -> Result<Option<Advice>, Error> {
    let sectors = common_sectors(question).map_err(|error| question.run.named(error))?;
    let Some(mut pairs) = as_it_is(question, sectors, monitor)? else { return Ok(None) };
    let present: Vec<Present> = pairs.iter().zip(&question.loads).map(present).collect();
    let Some(hardest) = hardest(&present) else { return Ok(None) };
    let (own, conventional) = pairs.remove(hardest);
    let is_calm = question.loads[0].kind == LoadKind::Unused && hardest > 0;
    let calm = is_calm.then(|| pairs.swap_remove(0)).map(|(own, usual)| (&question.loads[0], own, usual));
    if own.outcome.requests == 0 && own.outcome.rebuild.is_none() {
        let message = "no request was counted: lower {warmup}, or give a longer trace or workload";
        return Err(Error::Usage(message.into()));
    }
    let before = Judged::new(&own.trajectory, &present[hardest].against);
    let known = Reference { load: &question.loads[hardest], own, conventional, before, calm };
    let mut advice = Advice::new(question, &known, present, hardest);
    // Of a load that is over at once every change would seem to help, or none.
    if !advice.is_too_short() {
        let changes = changes::all(question, &known)?;
        attempts::make(question, &known, &changes, sectors, monitor, &mut advice)?;
    }
    words::answer(&mut advice, &known.own.outcome, &known.conventional.outcome);
    Ok(Some(advice))
}

/// The load on which changes are tried: that with the worst problem, of such the one on which it does worst. A rebuild has two, unused
/// and used, of which the second is what an owner meets.
fn hardest(present: &[Present]) -> Option<usize> {
    let key = |one: &Present| (one.load != LoadKind::Unused, Judged::new(&one.own, &one.against).problems);
    let order = |&(_, one): &(usize, &Present), &(_, other): &(usize, &Present)| {
        key(one).cmp(&key(other)).then(one.against.worst().total_cmp(&other.against.worst()))
    };
    present.iter().enumerate().max_by(order).map(|(at, _)| at)
}

/// Size of the disk for a workload: what the layers that are compared all offer.
fn common_sectors(question: &Question) -> Result<u64, Error> {
    let run = &question.run;
    let own = run.host_sectors()?;
    let mut least = own.min(run.conventional()?.host_sectors()?);
    for layer in layer::all().into_iter().filter(|_| question.all) {
        let defaults = layer.resolve(&[])?;
        let offered = run.under(layer, &defaults).host_sectors();
        least = match offered {
            Ok(sectors) if sectors >= own / 100 * ALIKE_PERCENT => least.min(sectors),
            _ => least,
        };
    }
    Ok(least)
}

/// The system as it is and conventional disks, under each load.
fn as_it_is(
    question: &Question,
    sectors: u64,
    monitor: &dyn Monitor,
) -> Result<Option<Vec<(Measured, Measured)>>, Error> {
    let mut trials = Vec::new();
    for load in &question.loads {
        let conventional = question.run.conventional()?.with(load.settings);
        trials.push([question.run.clone().with(load.settings), conventional].map(Trial::for_run));
    }
    let results = pool::make_all(&trials, monitor, "the drive as it is, run", |at, [own, conventional], mut watch| {
        let mut serve = |trial: &Trial, hash| -> Result<Measured, Error> {
            let served = trial.serve(question.loads[at].demand.as_ref(), sectors, hash, &mut watch);
            served.map_err(|error| trial.run.named(error))
        };
        Ok((serve(own, true)?, serve(conventional, false)?))
    });
    let is_whole = |(own, usual): &(Measured, Measured)| !own.outcome.interrupted && !usual.outcome.interrupted;
    let all = results.into_iter().map(|result| Ok(result?.filter(is_whole)));
    all.collect()
}

fn present(((own, conventional), load): (&(Measured, Measured), &Load)) -> Present {
    Present {
        load: load.kind,
        depth: load.settings.depth,
        own: own.trajectory.clone(),
        conventional: conventional.trajectory.clone(),
        against: own.compared_with(conventional),
    }
}
