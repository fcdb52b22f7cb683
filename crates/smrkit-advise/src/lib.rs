//! Advice on a drive or an array: how it serves a demand at several depths, and which changes would help, each shown by a run.
//!
//! `options.rs` reads the question, `remedies.rs` says what is tried, `attempts.rs` runs it, `advice.rs` what comes out, `words.rs`,
//! `changes.rs` and `rebuild.rs` put it into sentences, `owner.rs` into what an owner can do, `screen.rs` into tables and a page.

mod trial;
mod question;
mod remedies;
pub mod advice;
mod attempts;
pub mod options;
mod owner;
mod rebuild;
mod changes;
mod words;
pub mod screen;

use smrkit::error::Error;
use smrkit::experiment::pool::{self, Monitor};
use smrkit::layer;
use smrkit::settings::Settings;
use smrkit::stats::comparison::Judged;
use smrkit::stats::verdict;

use advice::{Advice, Present};
pub use question::Question;
use question::Reference;
use trial::{Measured, Trial};

/// A layer counts for the size of a workload if it offers this share of what the present one does, in percent (assumption).
const ALIKE_PERCENT: u64 = 80;

/// The answer; `None` if an interrupt came before there was one.
pub fn advise(question: &Question, monitor: &dyn Monitor) -> Result<Option<Advice>, Error> {
    let sectors = common_sectors(question).map_err(|error| question.run.named(error))?;
    let Some(mut pairs) = as_it_is(question, sectors, monitor)? else { return Ok(None) };
    let present: Vec<Present> = pairs.iter().zip(question.depths).map(present).collect();
    let (Some((own, conventional)), Some(hardest)) = (pairs.pop(), present.last()) else { return Ok(None) };
    if own.outcome.requests == 0 && own.trajectory.rebuild.is_none() {
        let message = "no request was counted: lower {warmup}, or give a longer trace or workload";
        return Err(Error::Usage(message.into()));
    }
    let before = Judged::new(&own.trajectory, &hardest.against);
    let known = Reference { own, conventional, before };
    let changes = remedies::all(question, &known)?;
    let remedies = attempts::make(question, &known, &changes, sectors, monitor)?;
    let outcome = &known.own.outcome;
    let mut advice = Advice::new(question, outcome, present, before.problems, remedies);
    let is_conventional = question.run.is_conventional();
    advice.text = words::text(&advice, &outcome.timeline, is_conventional);
    if verdict::is_overloaded(&known.conventional.outcome) && !is_conventional {
        advice.text += " Conventional disks can't keep up with these arrival times either: stretch them.";
    }
    advice.text.extend(verdict::scaling(outcome).map(|text| format!(" {text}")));
    if !is_conventional {
        advice.actions = owner::actions(&advice);
    }
    Ok(Some(advice))
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

/// The system as it is and conventional disks, at each depth.
fn as_it_is(
    question: &Question,
    sectors: u64,
    monitor: &dyn Monitor,
) -> Result<Option<Vec<(Measured, Measured)>>, Error> {
    let mut trials = Vec::new();
    for &settings in question.depths {
        let conventional = question.run.conventional()?.with(settings);
        trials.push([question.run.clone().with(settings), conventional].map(Trial::for_run));
    }
    let results = pool::make_all(&trials, monitor, "the drive as it is, run", |at, [own, conventional], mut watch| {
        let mut serve = |trial: &Trial, hash| -> Result<Measured, Error> {
            let served = trial.serve(question.demand, sectors, hash, &mut watch);
            served.map_err(|error| trial.run.named(error))
        };
        Ok((serve(own, at + 1 == trials.len())?, serve(conventional, false)?))
    });
    let is_whole = |(own, usual): &(Measured, Measured)| !own.outcome.interrupted && !usual.outcome.interrupted;
    let all = results.into_iter().map(|result| Ok(result?.filter(is_whole)));
    all.collect()
}

fn present(((own, conventional), settings): (&(Measured, Measured), &Settings)) -> Present {
    Present {
        depth: settings.depth,
        own: own.trajectory.clone(),
        conventional: conventional.trajectory.clone(),
        against: own.compared_with(conventional),
    }
}
