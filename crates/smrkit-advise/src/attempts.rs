//! Runs the changes. Where the demand is long, all of them serve its first part, and the whole what that part does not show.

use smrkit::error::Error;
use smrkit::experiment::pool::{self, Monitor, RunWatch};
use smrkit::settings::{Arrival, Warmup};
use smrkit::stats::comparison::{Effect, Judged, Problems, Trajectory, effect, mean_request_bytes};

use super::advice::{NotRun, Remedy};
use super::remedies::{Change, ChangeKind, one_line};
use super::trial::{Measured, Trial};
use super::{Question, Reference};

/// Length of a demand's first part, as a multiple of what fills the cache now; and its fewest requests (assumptions).
const FILLS: f64 = 4.0;
const FEW_REQUESTS: u64 = 50_000;

/// The run of a change, and that of conventional disks over the same requests where those change too; or why there is none.
type Attempted = Result<(Measured, Option<Measured>), NotRun>;

/// A part of the demand that changes serve, with the runs they are compared with.
struct AttemptPart<'a> {
    /// The system as it is.
    own: Trajectory,
    before: Judged,
    /// Conventional disks.
    usual: &'a Measured,
    /// Only the first this many requests are served.
    first: Option<u64>,
}

/// Runs every change and judges it.
pub fn make(
    question: &Question,
    known: &Reference,
    changes: &[Change],
    sectors: u64,
    monitor: &dyn Monitor,
) -> Result<Vec<Remedy>, Error> {
    let all: Vec<&Change> = changes.iter().collect();
    let whole = AttemptPart {
        own: known.own.trajectory.clone(),
        before: known.before,
        usual: &known.conventional,
        first: None,
    };
    let serve = |changes: &[&Change], part: &AttemptPart| -> Result<Vec<Remedy>, Error> {
        let made = run(question, changes, part.first, sectors, monitor)?;
        Ok(changes.iter().zip(made).map(|(change, made)| judged(part, change, made)).collect())
    };
    let Some(first) = first_part(known) else { return serve(&all, &whole) };
    let Some((own, usual)) = as_it_is(question, first, sectors, monitor)? else {
        // An interrupt: there is nothing to compare the others with.
        return Ok(all.iter().map(|change| Remedy::new(change, Err(NotRun::Interrupted), None)).collect());
    };
    let before = Judged::new(&own.trajectory, &own.compared_with(&usual));
    if before.problems != known.before.problems {
        return serve(&all, &whole);
    }
    let mut remedies = serve(&all, &AttemptPart { own: own.trajectory, before, usual: &usual, first: Some(first) })?;
    let again: Vec<usize> = (0..all.len()).filter(|&at| !is_shown(&remedies[at])).collect();
    let open: Vec<&Change> = again.iter().map(|&at| all[at]).collect();
    for (at, remedy) in again.into_iter().zip(serve(&open, &whole)?) {
        remedies[at] = remedy;
    }
    Ok(remedies)
}

/// A first part of the demand may show what a change does: never that it is a fix, or no difference. A pause says what is
/// kept up with, which it does show.
fn is_shown(remedy: &Remedy) -> bool {
    match remedy.effect {
        Some(Effect::Helps | Effect::Mixed | Effect::Worsens) => true,
        Some(Effect::Fixes | Effect::FixesSoFar) => remedy.kind == ChangeKind::Idle,
        // What can't be run can't be run whole either.
        None => remedy.not_run != Some(NotRun::Interrupted),
        Some(Effect::None) => false,
    }
}

/// Requests of the first part; `None` where the whole is not much longer, or nothing is known to be wrong.
fn first_part(known: &Reference) -> Option<u64> {
    let (own, outcome) = (&known.own.trajectory, &known.own.outcome);
    let bytes = own.cache_full_after_bytes.filter(|_| known.own.is_timed() && known.before.problems.any())?;
    let until_full = bytes as f64 / mean_request_bytes(outcome).max(1.0);
    let Warmup::Requests(warmup) = outcome.engine.warmup else { return None };
    let first = ((until_full * FILLS) as u64).max(FEW_REQUESTS) + warmup;
    (own.requests / 2 > first).then_some(first)
}

/// The first requests on the system as it is and on conventional disks; `None` after an interrupt.
fn as_it_is(
    question: &Question,
    first: u64,
    sectors: u64,
    monitor: &dyn Monitor,
) -> Result<Option<(Measured, Measured)>, Error> {
    let Some(&settings) = question.depths.last() else { return Ok(None) };
    let own = Change::new(ChangeKind::Layer, "as it is", Ok(Trial::for_run(question.run.clone().with(settings))));
    let usual = question.run.conventional()?.with(settings);
    let both = Change { baseline: Some(Trial::for_run(usual)), ..own };
    let made = run(question, &[&both], Some(first), sectors, monitor)?.pop();
    Ok(made.and_then(Result::ok).and_then(|(own, usual)| Some((own, usual?))))
}

/// Runs `changes`, on the first this many requests where that is said.
fn run(
    question: &Question,
    changes: &[&Change],
    first: Option<u64>,
    sectors: u64,
    monitor: &dyn Monitor,
) -> Result<Vec<Attempted>, Error> {
    // A change that is impossible must not end the others.
    let results = pool::make_all(changes, monitor, "change", |_, change, mut watch| {
        Ok(made(question, change, first, sectors, &mut watch))
    });
    let all = results.into_iter().map(|result| Ok(result?.unwrap_or(Err(NotRun::Interrupted))));
    all.collect()
}

/// Runs a change, and conventional disks as well where it changes the requests.
fn made(question: &Question, change: &Change, first: Option<u64>, sectors: u64, watch: &mut RunWatch) -> Attempted {
    let mut serve = |trial: &Trial| -> Result<Measured, NotRun> {
        let trial = Trial { first, ..trial.clone() };
        match trial.serve(question.demand, sectors, false, watch) {
            Ok(measured) if measured.outcome.interrupted => Err(NotRun::Interrupted),
            // Nothing can be said of a change that serves nothing.
            Ok(measured) if measured.outcome.requests == 0 && measured.outcome.rebuild.is_none() => {
                Err(NotRun::Refused("the warm-up takes all of its requests".into()))
            }
            Ok(measured) => Ok(measured),
            Err(error) => Err(why_not(&error)),
        }
    };
    let own = serve(change.trial.as_ref().map_err(|error| NotRun::Refused(one_line(error)))?)?;
    Ok((own, change.baseline.as_ref().map(serve).transpose()?))
}

/// Judges a change.
fn judged(part: &AttemptPart, change: &Change, made: Attempted) -> Remedy {
    let judged = made.map(|(own, baseline)| {
        let is_timed = own.is_timed();
        let against = own.compared_with(baseline.as_ref().unwrap_or(part.usual));
        let after = Judged::new(&own.trajectory, &against);
        let after = match change.kind {
            // The same bytes by other requests: of them the time can be compared with what it was, by the trace's times the mean.
            // With pauses, which are fewer then, neither can.
            ChangeKind::WriteSize => {
                let mean = own.compared_with(part.usual).whole.mean;
                let is_open = own.outcome.engine.arrival == Arrival::Trace;
                let elapsed = is_timed.then(|| own.time_for_a_byte() / part.usual.time_for_a_byte());
                Judged { multiples: [elapsed, Some(mean).filter(|_| is_open), None, None], ..after }
            }
            // A pause is not held against the rate, or the shorter waits of conventional disks, that it leaves.
            ChangeKind::Idle => {
                let pairs = part.before.multiples.into_iter().zip(after.multiples);
                let better = |(was, is): (Option<f64>, Option<f64>)| Some(was?.min(is?));
                let multiples: Vec<Option<f64>> = pairs.map(better).collect();
                Judged { multiples: multiples.try_into().unwrap_or(after.multiples), ..after }
            }
            _ => after,
        };
        let before = match change.kind {
            // Conventional disks that wait less with it don't make it slow.
            ChangeKind::Idle => {
                let was = part.before.problems;
                Judged { problems: Problems { slow: was.slow || after.problems.slow, ..was }, ..part.before }
            }
            _ => part.before,
        };
        let effect = match change.kind {
            // What conventional disks do with it is no effect on a drive that does what it did.
            ChangeKind::Range if own.trajectory == part.own => Effect::None,
            _ => effect(&before, &after),
        };
        (effect, own.trajectory, against)
    });
    Remedy::new(change, judged, part.first)
}

/// Why a change could not be run, in one line.
fn why_not(error: &Error) -> NotRun {
    NotRun::Refused(match error {
        // What helps there is no remedy here: the demand fits the system as it is.
        Error::NoRoom(_) => "offers less room than the demand needs".into(),
        other => one_line(other),
    })
}
