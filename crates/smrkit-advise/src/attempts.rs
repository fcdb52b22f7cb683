//! Runs the changes and judges them. Where the load is long, all of them serve its first part.

use smrkit::error::Error;
use smrkit::experiment::pool::{self, Monitor, RunWatch};
use smrkit::settings::{Arrival, Warmup};

use crate::advice::{Advice, NotRun, Remedy};
use crate::changes::{Change, ChangeKind, one_line};
use crate::comparison::{Effect, Judged, Problems, effect, mean_request_bytes};
use crate::trial::{Measured, Trial};
use crate::{Load, LoadKind, Question, Reference};

/// Length of a load's first part, as a multiple of what fills the cache now; and its fewest requests (assumptions).
const FILLS: f64 = 4.0;
const FEW_REQUESTS: u64 = 50_000;
/// Conventional disks, by the name that they have in shops.
const CONVENTIONAL: &str = "CMR disks";

/// The run of a change, and that of conventional disks where that is judged by one of its own; or why there is none.
type Attempted = Result<(Measured, Option<Measured>), NotRun>;

/// What the changes are compared with, over the requests that they serve.
struct Compared<'a> {
    /// The system as it is, judged.
    before: Judged,
    /// Conventional disks.
    usual: &'a Measured,
}

/// Runs every change and puts it into the answer, with what it is compared with.
pub fn make(
    question: &Question,
    known: &Reference,
    changes: &[Change],
    sectors: u64,
    monitor: &dyn Monitor,
    advice: &mut Advice,
) -> Result<(), Error> {
    let part = match first_part(known) {
        None => None,
        Some(first) => match as_it_is(question, known, first, sectors, monitor)? {
            Some((own, usual)) => Some((first, own, usual)),
            None => {
                let usual =
                    Change::new(ChangeKind::Conventional, CONVENTIONAL, Ok(Trial::for_run(question.run.clone())));
                let interrupted = |change| Remedy::new(change, Err(NotRun::Interrupted));
                advice.remedies = std::iter::once(&usual).chain(changes).map(interrupted).collect();
                advice.complete = false;
                return Ok(());
            }
        },
    };
    // A first part that does not show the problems of the whole is no place to try what would cure them.
    let judged = |(_, own, usual): &(u64, Measured, Measured)| Judged::new(&own.trajectory, &own.compared_with(usual));
    let part = part.filter(|part| judged(part).problems == known.before.problems);
    let compared = match &part {
        None => Compared { before: known.before, usual: &known.conventional },
        Some(part) => Compared { before: judged(part), usual: &part.2 },
    };
    if let Some((first, own, usual)) = &part {
        advice.first_requests = Some(*first);
        advice.compared = (own.trajectory.clone(), own.compared_with(usual));
    }
    // What is known of a drive is told of a rebuild that nobody disturbs: it is the one that others have measured. Other ways to rebuild
    // are tried on it too where no load was asked for, since it is the cheaper run by far.
    let calm = known.calm.as_ref().map(|(load, own, usual)| {
        let before = Judged::new(&own.trajectory, &own.compared_with(usual));
        (*load, Compared { before, usual })
    });
    let of = |change: &Change| match &calm {
        Some((load, calm)) if change.kind == ChangeKind::Range || known.load.kind == LoadKind::Light => (*load, calm),
        _ => (known.load, &compared),
    };
    let shown = calm.as_ref().filter(|_| known.load.kind == LoadKind::Light).map_or(&compared, |(_, calm)| calm);
    if known.load.kind == LoadKind::Light
        && let Some((_, own, usual)) = &known.calm
    {
        advice.compared = (own.trajectory.clone(), own.compared_with(usual));
    }
    let made = run(changes, |change| of(change).0, advice.first_requests, sectors, monitor)?;
    let mut remedies: Vec<Remedy> =
        changes.iter().zip(made).map(|(change, made)| judge(of(change).1, change, made)).collect();
    if part.is_some() {
        // Nobody has seen what comes after it.
        let fixes = remedies.iter_mut().filter(|remedy| remedy.effect == Some(Effect::Fixes));
        fixes.for_each(|remedy| remedy.effect = Some(Effect::FixesSoFar));
    }
    if !question.run.is_conventional() {
        remedies.insert(0, conventional(question, &compared, shown));
    }
    advice.complete = remedies.iter().all(|remedy| remedy.not_run != Some(NotRun::Interrupted));
    advice.remedies = remedies;
    Ok(())
}

/// Conventional disks as a change: they have been run, also under the load to which the other changes are shown.
fn conventional(question: &Question, compared: &Compared, shown: &Compared) -> Remedy {
    let after = Judged::new(&compared.usual.trajectory, &compared.usual.compared_with(compared.usual));
    let (own, against) = (&shown.usual.trajectory, shown.usual.compared_with(shown.usual));
    let change = Change::new(ChangeKind::Conventional, CONVENTIONAL, Ok(Trial::for_run(question.run.clone())));
    let effect = effect(&compared.before, &after);
    Remedy::new(&change, Ok((effect, own.clone(), against, after.problems)))
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
    known: &Reference,
    first: u64,
    sectors: u64,
    monitor: &dyn Monitor,
) -> Result<Option<(Measured, Measured)>, Error> {
    let run = question.run.clone().with(known.load.settings);
    let usual = run.conventional()?;
    let own = Change::new(ChangeKind::Layer, "as it is", Ok(Trial::for_run(run)));
    let both = Change { baseline: Some(Trial::for_run(usual)), ..own };
    let made = self::run(&[both], |_| known.load, Some(first), sectors, monitor)?.pop();
    Ok(made.and_then(Result::ok).and_then(|(own, usual)| Some((own, usual?))))
}

/// Runs each change under its load, on the first `first` requests if that is given.
fn run<'a>(
    changes: &[Change],
    load: impl Fn(&Change) -> &'a Load + Sync,
    first: Option<u64>,
    sectors: u64,
    monitor: &dyn Monitor,
) -> Result<Vec<Attempted>, Error> {
    // A change that is impossible must not end the others.
    let results = pool::make_all(changes, monitor, "change", |_, change, mut watch| {
        Ok(made(load(change), change, first, sectors, &mut watch))
    });
    let all = results.into_iter().map(|result| Ok(result?.unwrap_or(Err(NotRun::Interrupted))));
    all.collect()
}

/// Runs a change, and conventional disks as well where it is judged by a run of theirs.
fn made(load: &Load, change: &Change, first: Option<u64>, sectors: u64, watch: &mut RunWatch) -> Attempted {
    let mut serve = |trial: &Trial| -> Result<Measured, NotRun> {
        let trial = Trial { first, ..trial.clone() };
        match trial.serve(load.demand.as_ref(), sectors, false, watch) {
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

/// Judges a change. All are compared with the same run of conventional disks, but for pauses, of which it is asked whether the drive
/// keeps up with them, and not whether it serves the load as fast.
fn judge(compared: &Compared, change: &Change, made: Attempted) -> Remedy {
    let judged = made.map(|(own, baseline)| {
        let against = match change.kind {
            ChangeKind::WriteSize => own.compared_by_bytes(compared.usual),
            _ => own.compared_with(baseline.as_ref().unwrap_or(compared.usual)),
        };
        let after = Judged::new(&own.trajectory, &against);
        let effect = match change.kind {
            ChangeKind::WriteSize => {
                // Latencies of larger writes are no longer or shorter than those of smaller ones for what the disk does.
                let is_open = own.outcome.engine.arrival == Arrival::Trace;
                let mean = Some(against.whole.mean).filter(|_| is_open);
                effect(&compared.before, &Judged { multiples: [against.whole.elapsed, mean, None, None], ..after })
            }
            ChangeKind::Idle => keeps_up(&compared.before, &after),
            _ => effect(&compared.before, &after),
        };
        (effect, own.trajectory, against, after.problems)
    });
    Remedy::new(change, judged)
}

/// Effect of a pause, which is compared with conventional disks that rest as much. That those wait less with it is no fault of the
/// drive, and neither is the rate that it leaves.
fn keeps_up(before: &Judged, after: &Judged) -> Effect {
    let pairs = before.multiples.into_iter().zip(after.multiples);
    let better = |(was, is): (Option<f64>, Option<f64>)| Some(was?.min(is?));
    let multiples: Vec<Option<f64>> = pairs.map(better).collect();
    let multiples = multiples.try_into().unwrap_or(after.multiples);
    let was = before.problems;
    let before = Judged { problems: Problems { slow: was.slow || after.problems.slow, ..was }, ..*before };
    effect(&before, &Judged { multiples, ..*after })
}

/// Why a change could not be run, in one line.
fn why_not(error: &Error) -> NotRun {
    NotRun::Refused(match error {
        // What helps there is no remedy here: the load fits the system as it is.
        Error::NoRoom(_) => "offers less room than the load needs".into(),
        other => one_line(other),
    })
}
