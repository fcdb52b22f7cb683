//! Advice on a drive or an array: how it serves a demand at several depths, and which changes would help, each shown by a run.
//!
//! `remedies.rs` says what is tried, `attempts.rs` runs it, `advice.rs` what comes out, `words.rs` puts it into sentences, `screen.rs` into tables.

pub mod advice;
mod attempts;
mod remedies;
pub mod screen;
mod trial;
mod words;

use smrkit::error::Error;
use smrkit::experiment::demand::Demand;
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool::{self, Monitor};
use smrkit::layer;
use smrkit::message::{Field, Message};
use smrkit::settings::{Arrival, Settings};
use smrkit::stats::outcome::Outcome;
use smrkit::stats::remedy::{Course, Judged, Pace, mean_request_bytes};

use advice::{Advice, Present};
use remedies::Kind;
use trial::Trial;

/// A layer counts for the size of a workload if it offers so much of what the present one does, in percent (assumption).
const ALIKE_PERCENT: u64 = 80;

/// What is asked about.
pub struct Question<'a> {
    /// The drive or array as it is; its settings are those of `depths`.
    pub run: PlannedRun,
    /// The demand.
    pub demand: &'a dyn Demand,
    /// The settings at each depth, the deepest last.
    pub depths: &'a [Settings],
    /// Traces and workloads in the demand.
    pub sources: usize,
    /// What the front calls the fields that errors name.
    pub names: fn(Field) -> &'static str,
}

/// The system as it is at the deepest depth, beside conventional disks.
struct Known {
    outcome: Outcome,
    own: Course,
    conventional: Course,
    /// Whether requests come at times of their own.
    is_open: bool,
    /// The rate that it should keep.
    wanted_bytes_per_s: f64,
}

/// The answer; `None` if an interrupt came before there was one.
pub fn advise(question: &Question, monitor: &dyn Monitor) -> Result<Option<Advice>, Error> {
    let sectors = common_sectors(&question.run).map_err(|error| question.run.named(error))?;
    let Some((present, outcome)) = present(question, sectors, monitor)? else { return Ok(None) };
    let Some(hardest) = present.last() else { return Ok(None) };
    if outcome.requests == 0 {
        let problem = Message::from("no request was counted: lower ") + Field::Warmup;
        return Err(Error::senseless(Field::Warmup, problem + ", or give a longer trace or workload"));
    }
    let wanted_bytes_per_s = match hardest.own.fresh_bytes_per_s() {
        Some(fresh) => fresh,
        None => hardest.conventional.lasting_bytes_per_s(),
    };
    let is_open = question.depths.iter().any(|settings| settings.arrival == Arrival::Trace);
    let (own, conventional) = (hardest.own.clone(), hardest.conventional.clone());
    let known = Known { outcome, own, conventional, is_open, wanted_bytes_per_s };
    let before = Judged::new(&known.own, pace(&known, None, None));
    let changes = remedies::all(question, &known)?;
    let remedies = attempts::make(question, &known, &before, &changes, sectors, monitor)?;
    Ok(Some(Advice::new(question, known.outcome, present, before.problems, remedies, words::text)))
}

/// What a workload takes for the disk's size: what the layers that are compared offer, all of them.
fn common_sectors(run: &PlannedRun) -> Result<u64, Error> {
    let own = run.host_sectors()?;
    let mut least = own.min(run.conventional()?.host_sectors()?);
    for layer in layer::all() {
        let defaults = layer.resolve(&[])?;
        let offered = run.under(layer, &defaults).host_sectors();
        least = match offered {
            Ok(sectors) if sectors >= own / 100 * ALIKE_PERCENT => least.min(sectors),
            _ => least,
        };
    }
    Ok(least)
}

/// The system as it is and conventional disks, at each depth; and the outcome at the deepest.
fn present(question: &Question, sectors: u64, monitor: &dyn Monitor) -> Result<Option<(Vec<Present>, Outcome)>, Error> {
    let mut trials = Vec::new();
    for &settings in question.depths {
        trials.push(Trial::of(question.run.clone().with(settings)));
        trials.push(Trial::of(question.run.conventional()?.with(settings)));
    }
    let results = pool::make_all(&trials, monitor, "the drive as it is", |at, trial, watch| {
        trial.serve(question.demand, sectors, at == 0, watch)
    });
    let mut outcomes = Vec::new();
    for (result, trial) in results.into_iter().zip(&trials) {
        match result.map_err(|error| trial.run.named(error))?.filter(|outcome| !outcome.interrupted) {
            Some(outcome) => outcomes.push(outcome),
            None => return Ok(None),
        }
    }
    let pairs = outcomes.chunks(2).zip(question.depths);
    let of = |(pair, settings): (&[Outcome], &Settings)| Present {
        depth: settings.depth,
        own: Course::of(&pair[0]),
        conventional: Course::of(&pair[1]),
    };
    let all: Vec<Present> = pairs.map(of).collect();
    let hashed = outcomes[0].replayed.clone();
    let mut deepest = outcomes.swap_remove(outcomes.len() - 2);
    deepest.replayed.take_hashes(&hashed);
    Ok(Some((all, deepest)))
}

/// By what a run is judged. `conventional` is the run of conventional disks under the same changed times, if it has one.
fn pace(known: &Known, kind: Option<Kind>, conventional: Option<&Course>) -> Pace {
    let usual = conventional.unwrap_or(&known.conventional).mean_ns as f64;
    match kind {
        // Between pauses one request after another is served, as it was before the cache was full.
        Some(Kind::Idle) if !known.is_open => {
            let fresh_ns = mean_request_bytes(&known.outcome) / known.wanted_bytes_per_s.max(1.0) * 1e9;
            Pace::MeanNs(usual.max(fresh_ns))
        }
        _ if known.is_open => Pace::MeanNs(usual),
        _ => Pace::BytesPerSecond(known.wanted_bytes_per_s),
    }
}

/// What is said of a run that an interrupt kept from its end.
const INTERRUPTED: &str = "interrupted";
