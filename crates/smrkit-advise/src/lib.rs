//! Advice on a drive or an array: whether it will do for a load, how long or how fast, why, and which changes would help, each shown by a
//! run.
//!
//! `options.rs` reads the question, with `uses.rs` (what people do with disks) and `sums.rs` (what they have measured). A preview comes
//! from the first requests of the load, the answer from the drive as it is and its conventional twin; then its budget is worked out
//! (`budget.rs`) and changes are tried (`changes.rs`), judged by `comparison.rs`. `advice.rs` is the answer as data. Every sentence is in
//! `words.rs`, what others have measured in `measured.rs`; `screen.rs` lays them out for a terminal, `page.rs` as a page.

mod stretches;
pub mod comparison;
mod trial;
mod changes;
pub mod uses;
pub mod sums;
pub mod budget;
mod measured;
pub mod advice;
pub mod options;
mod words;
pub mod fleet;
pub mod screen;
pub mod page;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::{Serialize, Serializer};
use smrkit::error::Error;
use smrkit::experiment::demand::Demand;
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool::{self, Monitor, RunWatch};
use smrkit::settings::{Arrival, Prefill, Settings};
use smrkit::units::Nanos;

use advice::{Advice, Answer, End, INTERRUPTED, Present, Remedy};
use changes::{Change, ChangeKind};
use comparison::{Comparison, Effect, Judged, Problems, Trajectory, effect};
use sums::ReportedWaits;
use trial::{FEWEST, Measured, Trial};
use uses::AskedUse;

/// Requests of a load after which there is a first answer: a second or two of a processor, whatever the load (assumption).
const AT_FIRST_SIGHT: u64 = 10_000;

/// Question to the advice.
#[derive(Clone)]
pub struct Question {
    /// The drive or array as it is; its settings are those of each load.
    pub run: PlannedRun,
    /// The loads under which it is looked at.
    pub loads: Vec<Load>,
    /// The use that the load stands for.
    pub asked_use: Option<AskedUse>,
    /// Makes the load at a multiple of its rate, for a use whose parts do not all scale.
    pub scaled_load: Option<ScaledLoad>,
    /// What the program could do instead: the change's name, and the load with it.
    pub instead: Option<(&'static str, Arc<dyn Demand>)>,
    /// What is needed.
    pub need: Need,
    /// What a report of sums leaves unknown about the load.
    pub note: Option<String>,
    /// How the recorded disk did, if the report says so.
    pub reported: Option<ReportedWaits>,
    /// The multiple of the load that has to be done.
    pub times: f64,
    /// Requests of the whole load, if only a part may be run.
    pub even_requests: Option<u64>,
    /// Bytes of a whole disk, if only a part of one is rebuilt.
    pub whole_disk_bytes: Option<u64>,
    /// True if nobody said whether the disk that is written to was written before.
    pub assumes_written: bool,
}

impl Question {
    /// How a system does under these loads, with nothing needed.
    pub fn of(run: PlannedRun, loads: Vec<Load>) -> Question {
        Question {
            run,
            loads,
            asked_use: None,
            scaled_load: None,
            instead: None,
            need: Need::default(),
            note: None,
            reported: None,
            times: 1.0,
            even_requests: None,
            whole_disk_bytes: None,
            assumes_written: false,
        }
    }

    /// The question of disks that were never written.
    fn on_empty_disks(&self) -> Question {
        let empty = |settings: &Settings| Settings { prefill: Prefill::None, ..*settings };
        let loads = self.loads.iter().map(|load| Load { settings: empty(&load.settings), ..load.clone() });
        Question { loads: loads.collect(), run: self.run.clone().with(empty(self.run.settings())), ..self.clone() }
    }
}

/// Makes the load at a multiple of its rate.
pub type ScaledLoad = Arc<dyn Fn(f64) -> Result<Arc<dyn Demand>, Error> + Send + Sync>;

/// What is needed; nothing, where all are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Need {
    /// All of it has to be done in this time.
    #[serde(rename = "within_ns")]
    pub within: Option<Nanos>,
    /// It comes again after this time, and has to be done and cleaned by then.
    #[serde(rename = "every_ns")]
    pub every: Option<Nanos>,
    /// Ninety-nine requests of a hundred have to be answered in this time.
    #[serde(rename = "keep_ns")]
    pub keep: Option<Nanos>,
    /// No read, and no write, may take longer than the buffer of a program bridges.
    #[serde(rename = "buffer_ns", serialize_with = "shortest_ns")]
    pub buffers: [Option<Buffer>; 2],
}

/// What a program holds in memory, so that nobody notices a wait for the disk until it is full, or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The time that it bridges.
    pub bridges: Nanos,
    /// True if it is filled by reads: a player's; a recorder's is emptied by writes.
    pub is_read: bool,
    /// What it is, in words: "the player's buffer".
    pub name: &'static str,
    /// What happens when it does not bridge a wait.
    pub harm: &'static str,
    /// True unless somebody has said how long that is.
    pub is_assumed: bool,
}

impl Buffer {
    /// The longest request that it had to bridge.
    pub fn longest_ns(&self, run: &Trajectory) -> u64 {
        if self.is_read { run.longest_read_ns } else { run.longest_write_ns }
    }
}

fn shortest_ns<S: Serializer>(buffers: &[Option<Buffer>; 2], serializer: S) -> Result<S::Ok, S::Error> {
    buffers.iter().flatten().map(|buffer| buffer.bridges.0).min().serialize(serializer)
}

impl Need {
    /// Of the buffers that which the longest request exhausts first, if there is any.
    pub fn scarcest_buffer(&self, run: &Trajectory) -> Option<Buffer> {
        let share = |buffer: &Buffer| buffer.longest_ns(run) as f64 / buffer.bridges.0 as f64;
        self.buffers.into_iter().flatten().max_by(|one, other| share(one).total_cmp(&share(other)))
    }
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
    /// True if any part of it is like the whole, so that a part is enough.
    pub is_even: bool,
}

impl Load {
    /// True of requests that come for as long as somebody works, of which only some time is served.
    pub fn is_endless(&self) -> bool {
        self.kind == LoadKind::Asked && (self.settings.arrival != Arrival::FlatOut || self.settings.think > Nanos::ZERO)
    }
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

/// Receives an answer while it is worked out.
pub trait Listener {
    /// Receives an answer by the first requests of the load, or by the drive's most likely figures, if there is more to run.
    fn preview(&mut self, _advice: &Advice) {}

    /// Receives the answer; changes are still to be tried.
    fn answered(&mut self, _advice: &Advice) {}

    /// Receives the answer with one more change, the last of `remedies`.
    fn tried(&mut self, _advice: &Advice) {}

    /// False if the answer is enough, and no changes need be tried.
    fn wants_changes(&self) -> bool {
        true
    }
}

/// Waits for the whole answer.
pub struct Silent;

impl Listener for Silent {}

/// Waits for the answer, and wants no changes tried.
pub struct Brief;

impl Listener for Brief {
    fn wants_changes(&self) -> bool {
        false
    }
}

/// The system and conventional disks in its place, under one load.
type Pair = (Measured, Arc<Measured>);

/// What all runs for an answer have in common.
#[derive(Clone, Copy)]
struct Inquiry<'a> {
    question: &'a Question,
    /// Sectors that the system and conventional disks offer, which a workload takes for the disk's size.
    sectors: u64,
    monitor: &'a dyn Monitor,
}

/// The answer; `None` if an interrupt came before there was one.
pub fn advise(
    question: &Question,
    monitor: &dyn Monitor,
    listener: &mut dyn Listener,
) -> Result<Option<Advice>, Error> {
    let own_sectors = question.run.host_sectors().map_err(|error| question.run.named(error))?;
    let sectors = own_sectors.min(question.run.conventional()?.host_sectors()?);
    let mut inquiry = Inquiry { question, sectors, monitor };
    let (is_previewed, unused) = inquiry.preview(listener)?;
    let Some(mut pairs) = inquiry.run_as_it_is(unused, None)? else { return Ok(None) };
    // Who writes a zone of a host-managed disk again resets it before. A load that is refused for nothing else is judged on empty zones.
    let refused = |pairs: &[Pair]| pairs.iter().map(|(own, _)| own.trajectory.refused_share()).fold(0.0, f64::max);
    let on_empty = question.on_empty_disks();
    let mut refused_where_written = None;
    if question.assumes_written && refused(&pairs) > 0.0 {
        let empty = Inquiry { question: &on_empty, ..inquiry };
        let Some(others) = empty.run_as_it_is(None, None)? else { return Ok(None) };
        refused_where_written = Some(refused(&pairs)).filter(|_| refused(&others) == 0.0);
        // As much refused on empty zones is refused for its order, and not because zones were full.
        if refused(&others) <= refused(&pairs) {
            (inquiry, pairs) = (empty, others);
        }
    }
    let question = inquiry.question;
    let present: Vec<Present> = pairs.iter().zip(&question.loads).map(present_of).collect();
    let Some(hardest) = hardest(&present) else { return Ok(None) };
    let (own, load) = (&pairs[hardest].0, &question.loads[hardest]);
    if own.outcome.requests == 0 && own.outcome.rebuild.is_none() {
        let message = "no request was counted: lower {warmup}, or give a longer trace or workload";
        return Err(Error::Usage(message.into()));
    }
    let mut advice = Advice::new(question, &pairs[hardest], present, hardest);
    advice.refused_where_written = refused_where_written;
    let base = if advice.tries_unused() { 0 } else { hardest };
    let (base_load, base_pair) = (&question.loads[base], &pairs[base]);
    let can_be_judged = !advice.is_too_short() && !advice.problems.refused;
    if can_be_judged {
        advice.conclude();
        if !is_previewed && inquiry.has_more_to_run(&advice)? {
            words::answer(&mut advice, &own.outcome);
            listener.preview(&advice);
        }
        let (ends, lacks_room) = inquiry.run_ends(base_load, &base_pair.0)?;
        advice.lacks_room_at_an_end = lacks_room;
        advice.take_ends(ends);
        // Whether the drive has recovered when work comes again is known only by its budget.
        if question.need.every.is_some() {
            if advice.is_open() {
                advice.recovery = budget::recovery(question, inquiry.trial(load), own, monitor)?;
            } else {
                advice.budget = budget::find(question, inquiry.trial(load), own, monitor)?;
            }
            advice.is_rest_known = true;
        }
        advice.conclude();
        if advice.answer != Answer::Yes && changes::trimmed(&question.run).is_some() {
            let trimmed = inquiry.run_as_it_is(None, Some(&pairs))?.unwrap_or_default();
            advice.trimmed = trimmed.iter().zip(&question.loads).map(present_of).collect();
        }
        judge_beside(&mut advice, base_pair.1.compared_with(&base_pair.1));
    }
    words::answer(&mut advice, &own.outcome);
    listener.answered(&advice);
    if !listener.wants_changes() {
        return Ok(Some(advice));
    }
    if can_be_judged && advice.budget.is_none() {
        advice.budget = budget::find(question, inquiry.trial(load), own, monitor)?;
    }
    // Of a load that is over at once every change would seem to help, or none.
    if !advice.is_too_short() && advice.problems.any() {
        let trial = inquiry.trial(base_load);
        for change in changes::all(question, &trial, &base_pair.0, advice.problems.refused)? {
            advice.remedies.push(try_change(&advice, change, base_pair, monitor)?);
            listener.tried(&advice);
        }
    }
    advice.is_tried = true;
    advice.complete = monitor.goes_on() && !advice.remedies.iter().any(Remedy::is_interrupted);
    words::answer(&mut advice, &own.outcome);
    Ok(Some(advice))
}

/// The load on which the answer rests: that with the worst problem, of such the one on which it does worst. A rebuild has two, unused
/// and used, of which the second is what an owner meets.
fn hardest(present: &[Present]) -> Option<usize> {
    let key = |one: &Present| (one.load != LoadKind::Unused, Judged::new(&one.own, &one.against).problems);
    let order = |&(_, one): &(usize, &Present), &(_, other): &(usize, &Present)| {
        key(one).cmp(&key(other)).then(one.against.worst().total_cmp(&other.against.worst()))
    };
    present.iter().enumerate().max_by(order).map(|(at, _)| at)
}

fn present_of(((own, conventional), load): (&Pair, &Load)) -> Present {
    Present {
        load: load.kind,
        depth: load.settings.depth,
        own: own.trajectory.clone(),
        conventional: conventional.trajectory.clone(),
        against: own.compared_with(conventional),
    }
}

impl Inquiry<'_> {
    /// The system as it is, under a load.
    fn trial(&self, load: &Load) -> Trial {
        Trial::new(self.question.run.clone().with(load.settings), load, self.sectors)
    }

    /// True if more than the system as it is, with the drive's most likely figures, is run for an answer.
    fn has_more_to_run(&self, advice: &Advice) -> Result<bool, Error> {
        let run = &self.question.run;
        let is_trimmed = advice.answer != Answer::Yes && changes::trimmed(run).is_some();
        Ok(is_trimmed || self.question.need.every.is_some() || changes::at_end(run, true)?.is_some())
    }

    /// Answers by the first requests of a load, or by the rebuild of the unused array, if there is more to run. Until it is known what comes once
    /// a cache is full, a hundred times as many requests may have to be served. Returns true if the listener was told, and the run of the
    /// unused array, which is a part of the answer.
    fn preview(&self, listener: &mut dyn Listener) -> Result<(bool, Option<Pair>), Error> {
        let Question { run, loads, whole_disk_bytes, .. } = self.question;
        let Some(load) = loads.first() else { return Ok((false, None)) };
        // Of a rebuild that is run on a part of each disk, as long as nobody uses the array.
        let is_part = run.rebuild().is_some() && whole_disk_bytes.is_some();
        // Nobody knows whether a trace, or work on all of a disk, begins as it goes on.
        if !is_part && (run.rebuild().is_some() || !load.is_even) {
            return Ok((false, None));
        }
        let pair = pool::make_one(self.monitor, "the first requests", |watch| {
            if is_part {
                return self.pair(load, None, watch);
            }
            let own = Trial { first: Some(AT_FIRST_SIGHT), ..self.trial(load) };
            let usual = Trial { run: own.run.conventional()?, ..own.clone() };
            Ok((own.serve(watch)?, Arc::new(usual.serve(watch)?)))
        })?;
        let (own, usual) = &pair;
        let is_whole = !own.outcome.interrupted && !usual.outcome.interrupted && (own.outcome.requests > 0 || is_part);
        // What is refused is tried on empty zones first.
        if !is_whole || own.trajectory.refused > 0 {
            return Ok((false, None));
        }
        // Times and bytes of the whole load are extrapolated.
        let even_requests = match load.settings.arrival {
            Arrival::FlatOut => load.demand.open(&run.opening()?)?.progress().total,
            Arrival::Trace | Arrival::Closed => None,
        };
        let question = Question { even_requests, ..self.question.clone() };
        let mut advice = Advice::new(&question, &pair, vec![present_of((&pair, load))], 0);
        advice.is_preview = true;
        advice.conclude();
        let is_all = own.asked < AT_FIRST_SIGHT && !is_part;
        let is_told = !advice.is_too_short() && (!is_all || self.has_more_to_run(&advice)?);
        if is_told {
            words::answer(&mut advice, &own.outcome);
            listener.preview(&advice);
        }
        Ok((is_told, is_part.then_some(pair)))
    }

    /// The system as it is and conventional disks, under each load, of which the first may have been run; or with the disk trimmed that is
    /// written to, where `written` is as it is. `None` after an interrupt.
    fn run_as_it_is(&self, first: Option<Pair>, written: Option<&[Pair]>) -> Result<Option<Vec<Pair>>, Error> {
        let rest = &self.question.loads[usize::from(first.is_some())..];
        let results = pool::make_all(rest, self.monitor, "the drive as it is, run", |nth, load, mut watch| {
            self.pair(load, written.map(|pairs| &pairs[nth]), &mut watch)
        });
        let is_whole = |(own, usual): &Pair| !own.outcome.interrupted && !usual.outcome.interrupted;
        let rest = results.into_iter().map(|result| Ok(result?.filter(is_whole)));
        first.map(|pair| Ok(Some(pair))).into_iter().chain(rest).collect()
    }

    /// The system as it is and conventional disks, under a load; or with the disk trimmed that is written to, where `written` is as it is.
    fn pair(&self, load: &Load, written: Option<&Pair>, watch: &mut RunWatch) -> Result<Pair, Error> {
        let mut trial = self.trial(load);
        if let Some(trimmed) = written.and_then(|_| changes::trimmed(&trial.run)) {
            trial.run = trimmed;
        }
        let usual = Trial { run: trial.run.conventional()?, ..trial.clone() };
        let own = trial.serve_load(self.question.whole_disk_bytes.is_some(), watch)?;
        // Over the same requests; whether its disk was trimmed makes no difference to a conventional one.
        if let Some((_, usual)) = written.filter(|(before, _)| before.asked == own.asked || !load.is_even) {
            return Ok((own, Arc::clone(usual)));
        }
        let usual = Trial { first: load.is_even.then_some(own.asked), ..usual };
        Ok((own, Arc::new(usual.serve(watch)?)))
    }

    /// The drive at both ends of what is known of it; and true if the load has no room at one of them.
    fn run_ends(&self, load: &Load, own: &Measured) -> Result<(Vec<End>, bool), Error> {
        // As many requests as told what the drive as it is does, unless that was told from a full cache on.
        let fewest = if own.full.is_some() { FEWEST } else { own.asked.max(FEWEST) };
        let (is_part, trial) = (self.question.whole_disk_bytes.is_some(), self.trial(load));
        let mut ends: Vec<(bool, PlannedRun)> = Vec::new();
        for worse in [true, false] {
            ends.extend(changes::at_end(&trial.run, worse)?.map(|run| (worse, run)));
        }
        if ends.is_empty() {
            return Ok((Vec::new(), false));
        }
        let made = pool::make_all(&ends, self.monitor, "the drive's range, run", |_, (worse, run), mut watch| {
            // A larger cache may leave less room, and of a trace that needs the last of it nothing is known at that end.
            let sectors = run.host_sectors()?.min(self.sectors);
            let trial = Trial { run: run.clone(), sectors, fewest, ..trial.clone() };
            let measured = match trial.serve_load(is_part, &mut watch) {
                Err(error) if matches!(error.cause(), Error::NoRoom(_)) => return Ok(None),
                measured => measured?,
            };
            let end = End { worse: *worse, problems: Problems::default(), trajectory: measured.trajectory };
            Ok(Some((end, measured.outcome.interrupted)))
        });
        let all = made.into_iter().filter_map(Result::transpose).collect::<Result<Vec<_>, Error>>()?;
        let lacks_room = all.iter().any(Option::is_none);
        let whole = all.into_iter().flatten().filter(|(_, is_interrupted)| !is_interrupted);
        Ok((whole.map(|(end, _)| end).collect(), lacks_room))
    }
}

/// Judges the changes that were run beside the system as it is; `alike` is a comparison of conventional disks with themselves.
fn judge_beside(advice: &mut Advice, alike: Comparison) {
    let present = advice.judged();
    let before = judged(advice, &present.own, &present.against);
    // Figures are those of the base, and problems those under the load on which the answer rests.
    let remedy = |kind, change: &str, run: &Trajectory, under_load: &Trajectory, against: Comparison| {
        let after = judged(advice, under_load, &against);
        // A rebuild is all there is of it, however full the cache was in the part that was run.
        let after = Judged { is_settled: after.is_settled || advice.rebuild.is_some(), ..after };
        Remedy::judged(kind, change.into(), effect(&before, &after), after.problems, run.clone(), against)
    };
    let trimmed = advice.trimmed_base().map(|trimmed| {
        let name = if advice.rebuild.is_some() { "new disk trimmed first" } else { "trimmed" };
        let under_load = advice.trimmed.get(advice.hardest).unwrap_or(trimmed);
        remedy(ChangeKind::Trim, name, &trimmed.own, &under_load.own, trimmed.against)
    });
    let conventional = (!advice.system.is_conventional).then(|| {
        let run = &advice.base().conventional;
        remedy(ChangeKind::Conventional, "CMR disks", run, &present.conventional, alike)
    });
    advice.remedies = trimmed.into_iter().chain(conventional).collect();
}

fn judged(advice: &Advice, run: &Trajectory, against: &Comparison) -> Judged {
    Judged { problems: advice.problems_of(run, against), ..Judged::new(run, against) }
}

/// Runs a change under the load, and compares it with conventional disks under the load as it is.
fn try_change(advice: &Advice, change: Change, (own, usual): &Pair, monitor: &dyn Monitor) -> Result<Remedy, Error> {
    let Change { kind, name, trial } = change;
    let is_part = advice.whole_disk_bytes.is_some();
    let is_even = trial.as_ref().is_ok_and(|trial| trial.load.is_even);
    let served = trial
        .and_then(|trial| pool::make_one(monitor, &format!("trying {name}"), |watch| trial.serve_load(is_part, watch)));
    let made = match served {
        Err(error) => return Ok(Remedy::not_run(kind, name, changes::one_line(&error))),
        Ok(made) if made.outcome.interrupted => return Ok(Remedy::not_run(kind, name, INTERRUPTED.into())),
        // Nothing can be said of a change that serves nothing.
        Ok(made) if made.outcome.requests == 0 && made.outcome.rebuild.is_none() => {
            return Ok(Remedy::not_run(kind, name, "the warm-up takes all of its requests".into()));
        }
        Ok(made) => made,
    };
    let as_it_is = own.compared_with(usual);
    let mut before = judged(advice, &own.trajectory, &as_it_is);
    if before.problems.refused {
        // No time of what is refused is a disk's.
        (before.multiples, before.longest_stall_ns) = ([None; 4], u64::MAX);
    }
    let is_by_bytes = matches!(kind, ChangeKind::WriteSize | ChangeKind::Program);
    let against = if is_by_bytes { made.compared_by_bytes(usual) } else { made.compared_with(usual) };
    let mut after = judged(advice, &made.trajectory, &against);
    if is_by_bytes {
        // Latencies of larger writes are no longer or shorter than those of smaller ones for what the disk does.
        let mean = Some(against.whole.mean).filter(|_| made.outcome.engine.arrival == Arrival::Trace);
        let [was, is] = comparison::times_by_bytes(&as_it_is, &against, is_even);
        before.multiples[0] = was;
        after.multiples = [is, mean, None, None];
    }
    let found = match effect(&before, &after) {
        // Where a part of it was run, nobody has seen what comes after it.
        Effect::Fixes if is_by_bytes && is_even && made.trajectory.cache_full_at_s.is_none() => Effect::FixesSoFar,
        found => found,
    };
    Ok(Remedy::judged(kind, name, found, after.problems, made.trajectory, against))
}
