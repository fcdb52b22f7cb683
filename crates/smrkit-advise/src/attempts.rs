//! Runs the changes. Where the demand is long, all of them serve its first part, and only what may be a fix the whole.

use smrkit::error::Error;
use smrkit::experiment::pool::{self, Monitor};
use smrkit::message::Field;
use smrkit::stats::remedy::{Course, Effect, Judged, effect, mean_request_bytes};

use super::advice::Remedy;
use super::remedies::{Change, Kind, one_line};
use super::trial::Trial;
use super::{INTERRUPTED, Known, Question, pace};

/// The first part of a demand is so many times what fills the cache as things are, and at least so many requests
/// (assumptions).
const FILLS: f64 = 4.0;
const FEW_REQUESTS: u64 = 50_000;

/// The run of a change, and that of conventional disks under the same times where it has one; or why there is none.
type Made = Result<(Course, Option<Course>), String>;

/// Runs every change, and says what it does. `before` is the system as it is.
pub fn make(
    question: &Question,
    known: &Known,
    before: &Judged,
    changes: &[Change],
    sectors: u64,
    monitor: &dyn Monitor,
) -> Result<Vec<Remedy>, Error> {
    let all: Vec<&Change> = changes.iter().collect();
    let whole = |changes: &[&Change]| run(question, changes, None, sectors, monitor);
    let Some(first) = first_part(known) else {
        let made = whole(&all)?;
        return Ok(all.iter().zip(made).map(|(change, made)| judged(known, before, change, made, None)).collect());
    };
    let Some(&settings) = question.depths.last() else { return Ok(Vec::new()) };
    let present = Change::new(Kind::Layer, "as it is", Ok(Trial::of(question.run.clone().with(settings))));
    let with_present: Vec<&Change> = std::iter::once(&present).chain(changes).collect();
    let mut made = run(question, &with_present, Some(first), sectors, monitor)?.into_iter();
    let Some(Ok((course, _))) = made.next() else {
        // An interrupt: there is nothing to compare the others with.
        return Ok(all.iter().map(|change| Remedy::new(change, Err(INTERRUPTED.into()), None)).collect());
    };
    let before_first = Judged::new(&course, pace(known, None, None));
    let of_first = all.iter().zip(made).map(|(change, made)| judged(known, &before_first, change, made, Some(first)));
    let mut remedies: Vec<Remedy> = of_first.collect();
    let again: Vec<usize> = (0..all.len()).filter(|&at| may_be_a_fix(&remedies[at])).collect();
    let promising: Vec<&Change> = again.iter().map(|&at| all[at]).collect();
    for (at, made) in again.into_iter().zip(whole(&promising)?) {
        remedies[at] = judged(known, before, all[at], made, None);
    }
    Ok(remedies)
}

/// Whether the whole demand has to show what a change does. A pause says what is kept up with, which the first part shows.
fn may_be_a_fix(remedy: &Remedy) -> bool {
    remedy.kind != Kind::Idle && matches!(remedy.effect, Some(Effect::Fixes | Effect::FixesSoFar))
}

/// Requests of the first part; `None` where the whole is not much longer, or nothing is known to be wrong.
fn first_part(known: &Known) -> Option<u64> {
    let bytes = known.own.cache_full_after_bytes.filter(|_| !known.is_open)?;
    let until_full = bytes as f64 / mean_request_bytes(&known.outcome).max(1.0);
    let first = ((until_full * FILLS) as u64).max(FEW_REQUESTS) + known.outcome.engine.warmup;
    (known.own.requests / 2 > first).then_some(first)
}

/// Runs `changes`, on the first so many requests where that is said.
fn run(
    question: &Question,
    changes: &[&Change],
    first: Option<u64>,
    sectors: u64,
    monitor: &dyn Monitor,
) -> Result<Vec<Made>, Error> {
    let trials = changes.iter().flat_map(|change| change.trial.iter().chain(&change.beside));
    let trials: Vec<Trial> = trials.map(|trial| Trial { first, ..trial.clone() }).collect();
    // A change that is impossible must not end the others.
    let results = pool::make_all(&trials, monitor, "what would help", |_, trial, watch| {
        Ok(trial
            .serve(question.demand, sectors, false, watch)
            .map(|outcome| (outcome.interrupted, Course::of(&outcome))))
    });
    let mut results = results.into_iter();
    let mut next = || -> Result<Course, String> {
        match results.next().transpose().map_err(|error| one_line(&error, question.names))?.flatten() {
            Some(Ok((false, course))) => Ok(course),
            Some(Ok((true, _))) | None => Err(INTERRUPTED.into()),
            Some(Err(error)) => Err(why_not(&error, question.names)),
        }
    };
    let mut one = |change: &&Change| -> Made {
        let own = match &change.trial {
            Ok(_) => next(),
            Err(error) => Err(one_line(error, question.names)),
        };
        let beside = change.beside.as_ref().map(|_| next()).transpose();
        Ok((own?, beside?))
    };
    Ok(changes.iter().map(&mut one).collect())
}

/// What a change does.
fn judged(known: &Known, before: &Judged, change: &Change, made: Made, first: Option<u64>) -> Remedy {
    let judged = made.map(|(course, beside)| {
        let after = Judged::new(&course, pace(known, Some(change.kind), beside.as_ref()));
        // After pauses the pace says whether it is enough, not how much better it is.
        let after = if change.kind == Kind::Idle { Judged { pace: before.pace, ..after } } else { after };
        (effect(before, &after), course)
    });
    Remedy::new(change, judged, first)
}

/// Why a change could not be run, in one line.
fn why_not(error: &Error, names: fn(Field) -> &'static str) -> String {
    match error {
        // What helps there is no remedy here: the demand fits the system as it is.
        Error::NoRoom(_) => "offers less room than the demand needs".into(),
        other => one_line(other, names),
    }
}
