//! Advice on a drive or an array: whether it will do for a load, how long or how fast, why, and which changes would help, each shown by a
//! run.
//!
//! `options.rs` reads the question, with `uses.rs` (what people do with disks) and `sums.rs` (what they have measured). The first answer
//! comes from the drive as it is and its conventional twin; then its budget is worked out (`budget.rs`) and changes are tried
//! (`changes.rs`), judged by `comparison.rs`. `advice.rs` is the answer as data. Every sentence is in `words.rs`, what others have measured in
//! `measured.rs`; `screen.rs` lays them out for a terminal, `page.rs` as a page.

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
use smrkit::experiment::demand::{Demand, Opening};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool::{self, Monitor, RunWatch};
use smrkit::settings::{Arrival, Prefill, Settings};
use smrkit::units::Nanos;

use advice::{Advice, Answer, End, NotRun, Present, Remedy};
use changes::{Change, ChangeKind};
use comparison::{Comparison, Effect, Judged, Problems, Trajectory, effect};
use sums::Seen;
use trial::{FEWEST, MOST_FILLING, Measured, Trial};
use uses::AskedUse;

/// Requests of a load of equal requests that are run at most, and of one that is packed into fewer.
const MOST_REQUESTS: u64 = 160_000;
const MOST_PACKED: u64 = 16 * MOST_REQUESTS;

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
    pub seen: Option<Seen>,
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
            seen: None,
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
    /// Receives the answer of the drive's most likely figures, if others are still to be tried.
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

/// The answer; `None` if an interrupt came before there was one.
pub fn advise(
    question: &Question,
    monitor: &dyn Monitor,
    listener: &mut dyn Listener,
) -> Result<Option<Advice>, Error> {
    let own_sectors = question.run.host_sectors().map_err(|error| question.run.named(error))?;
    let sectors = own_sectors.min(question.run.conventional()?.host_sectors()?);
    let Some(mut pairs) = as_it_is(question, sectors, None, monitor)? else { return Ok(None) };
    // Who writes a zone of a host-managed disk again resets it before. A load that is refused for nothing else is judged on empty zones.
    let refused = |pairs: &[Pair]| pairs.iter().any(|(own, _)| own.trajectory.refused > 0);
    let (mut question, mut refused_where_written) = (question, None);
    let on_empty = question.on_empty_disks();
    if question.assumes_written && refused(&pairs) {
        let Some(others) = as_it_is(&on_empty, sectors, None, monitor)? else { return Ok(None) };
        let most = |pairs: &[Pair]| pairs.iter().map(|(own, _)| own.trajectory.refused_share()).fold(0.0, f64::max);
        refused_where_written = Some(most(&pairs)).filter(|_| !refused(&others));
        if most(&others) < most(&pairs) {
            (question, pairs) = (&on_empty, others);
        }
    }
    let present: Vec<Present> = pairs.iter().zip(&question.loads).map(present_of).collect();
    let Some(hardest) = hardest(&present) else { return Ok(None) };
    let (own, _) = &pairs[hardest];
    if own.outcome.requests == 0 && own.outcome.rebuild.is_none() {
        let message = "no request was counted: lower {warmup}, or give a longer trace or workload";
        return Err(Error::Usage(message.into()));
    }
    let mut advice = Advice::new(question, &pairs[hardest], present, hardest);
    advice.refused_where_written = refused_where_written;
    let base = if advice.tries_unused() { 0 } else { hardest };
    let (load, (base_own, base_usual)) = (&question.loads[base], &pairs[base]);
    let is_open = !advice.is_too_short() && !advice.problems.refused;
    let alike = base_usual.compared_with(base_usual);
    let ends_are_asked = changes::at_end(&question.run, true)?.is_some();
    if is_open {
        advice.conclude();
        let trim_is_asked = changes::trimmed(&question.run).is_some() && advice.answer != Answer::Yes;
        if ends_are_asked || trim_is_asked || question.need.every.is_some() {
            words::answer(&mut advice, &own.outcome);
            listener.preview(&advice);
        }
        if ends_are_asked {
            let (ends, lacks_room) = ends(question, load, base_own, sectors, monitor)?;
            advice.lacks_room_at_an_end = lacks_room;
            advice.take_ends(ends);
        }
        // Whether the drive has recovered when work comes again is known only by its budget.
        if question.need.every.is_some() {
            if advice.is_open() {
                advice.recovery = budget::recovery(question, &question.loads[hardest], own, sectors, monitor)?;
            } else {
                advice.budget = budget::find(question, &question.loads[hardest], own, sectors, monitor)?;
            }
            advice.is_rest_known = true;
        }
        advice.conclude();
        if advice.answer != Answer::Yes && changes::trimmed(&question.run).is_some() {
            let trimmed = as_it_is(question, sectors, Some(&pairs), monitor)?.unwrap_or_default();
            advice.trimmed = trimmed.iter().zip(&question.loads).map(present_of).collect();
        }
        judge_beside(&mut advice, alike);
    }
    words::answer(&mut advice, &own.outcome);
    listener.answered(&advice);
    if !listener.wants_changes() {
        return Ok(Some(advice));
    }
    if is_open && advice.budget.is_none() {
        advice.budget = budget::find(question, &question.loads[hardest], own, sectors, monitor)?;
    }
    // Of a load that is over at once every change would seem to help, or none.
    if !advice.is_too_short() {
        let changes = if advice.problems.any() {
            changes::all(question, load, base_own, advice.problems.refused)?
        } else {
            Vec::new()
        };
        for change in &changes {
            let remedy = tried((question, &advice), load, change, (base_own, base_usual), sectors, monitor)?;
            advice.remedies.push(remedy);
            listener.tried(&advice);
        }
    }
    advice.is_tried = true;
    let is_interrupted = |remedy: &Remedy| remedy.not_run == Some(NotRun::Interrupted);
    advice.complete = monitor.goes_on() && !advice.remedies.iter().any(is_interrupted);
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

/// Serves a load, or enough of it. Beside it a rebuild of a part of a disk is run on one of half that size, which tells what of it grows with
/// the disk.
fn serve_of(
    question: &Question,
    trial: &Trial,
    load: &Load,
    sectors: u64,
    watch: &mut RunWatch,
) -> Result<Measured, Error> {
    let mut served = serve(trial, load, sectors, watch)?;
    // Where nothing is cleaned, all of it grows with the disk.
    let cleans = served.outcome.drives().iter().any(|disk| disk.cleaning.count > 0);
    let part = served.trajectory.rebuild.filter(|_| question.whole_disk_bytes.is_some() && cleans);
    if let Some(part) = part.filter(|_| !served.outcome.interrupted) {
        let half = Trial { run: changes::halved(&trial.run)?, ..trial.clone() };
        let sectors = half.run.host_sectors()?.min(sectors);
        let half = serve(&half, load, sectors, watch)?;
        served.outcome.interrupted |= half.outcome.interrupted;
        served.trajectory.rebuild = half.trajectory.rebuild.map(|half| part.of_whole(half)).or(Some(part));
    }
    Ok(served)
}

/// Serves a load, or enough of it. One without an end is not judged by how it began: where the cache was still filling when that ended,
/// it is served again from when the cache is full.
fn serve(trial: &Trial, load: &Load, sectors: u64, watch: &mut RunWatch) -> Result<Measured, Error> {
    let demand = &load.demand;
    let most = if trial.packed_sectors.is_some() { MOST_PACKED } else { MOST_REQUESTS };
    let named = |error| trial.run.named(error);
    let part = match load.is_even {
        true => Some(trial.serve_enough(demand, sectors, most, load.is_endless(), watch).map_err(named)?),
        false => None,
    };
    // A part of a load may lie in zones that take everything: whether a drive refuses any of it shows in all of it.
    let decides = |part: &Measured| {
        !trial.run.refuses_writes() || part.trajectory.refused > 0 || part.outcome.host_written_sectors == 0
    };
    let served = match part.filter(decides) {
        Some(part) => part,
        None => trial.serve(demand, sectors, true, watch).map_err(named)?,
    };
    let is_over = served.outcome.interrupted || trial.run.rebuild().is_some() || trial.run.settings().check;
    let Some(times) = served.times_until_full().filter(|_| !is_over) else { return Ok(served) };
    let until_full = served.asked as f64 * times;
    if !load.is_endless() {
        let opening = Opening::new(sectors, trial.run.settings().seed);
        let all = demand.open(&opening).map_err(named)?.progress().total;
        let ends_before = !load.is_even || all.is_some_and(|all| (all as f64) < until_full);
        return if ends_before {
            Ok(served)
        } else {
            trial.with_what_remains(demand, sectors, served, watch).map_err(named)
        };
    }
    match trial.serve_from_full(load, sectors, &served, watch).map_err(named)? {
        Some(later) => Ok(later),
        // Streams that come at once may go past a cache that they fill one by one: only their own times tell what comes then.
        _ if load.is_even && until_full <= MOST_FILLING as f64 => {
            trial.serve_enough(demand, sectors, MOST_FILLING, false, watch).map_err(named)
        }
        _ => Ok(served),
    }
}

/// The system and conventional disks in its place, under one load.
type Pair = (Measured, Arc<Measured>);

/// The system as it is and conventional disks, under each load; or with the disk trimmed that is written to, where `written` is as it is.
fn as_it_is(
    question: &Question,
    sectors: u64,
    written: Option<&[Pair]>,
    monitor: &dyn Monitor,
) -> Result<Option<Vec<Pair>>, Error> {
    let results = pool::make_all(&question.loads, monitor, "the drive as it is, run", |nth, load, mut watch| {
        let run = question.run.clone().with(load.settings);
        let run = if written.is_some() { changes::trimmed(&run).unwrap_or(run) } else { run };
        let usual = Trial::for_run(run.conventional()?);
        let own = serve_of(question, &Trial::for_run(run), load, sectors, &mut watch)?;
        // Over the same requests; whether its disk was trimmed makes no difference to a conventional one.
        let known = written.map(|pairs| &pairs[nth]).filter(|(before, _)| before.asked == own.asked || !load.is_even);
        if let Some((_, usual)) = known {
            return Ok((own, Arc::clone(usual)));
        }
        let usual = Trial { first: load.is_even.then_some(own.asked), ..usual };
        let served = usual.serve(&load.demand, sectors, false, &mut watch);
        Ok((own, Arc::new(served.map_err(|error| usual.run.named(error))?)))
    });
    let is_whole = |(own, usual): &Pair| !own.outcome.interrupted && !usual.outcome.interrupted;
    let all = results.into_iter().map(|result| Ok(result?.filter(is_whole)));
    all.collect()
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

/// The drive at both ends of what is known of it; and true if the load has no room at one of them.
fn ends(
    question: &Question,
    load: &Load,
    own: &Measured,
    sectors: u64,
    monitor: &dyn Monitor,
) -> Result<(Vec<End>, bool), Error> {
    // As many requests as told what the drive as it is does, unless that was told from a full cache on.
    let fewest = if own.full.is_some() { FEWEST } else { own.asked.max(FEWEST) };
    let run = question.run.clone().with(load.settings);
    let ends = [true, false].map(|worse| changes::at_end(&run, worse).map(|run| run.map(|run| (worse, run))));
    let ends: Vec<(bool, PlannedRun)> =
        ends.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    let made = pool::make_all(&ends, monitor, "the drive's range, run", |_, (worse, run), mut watch| {
        // A larger cache may leave less room, and of a trace that needs the last of it nothing is known at that end.
        let sectors = run.host_sectors()?.min(sectors);
        let trial = Trial { fewest, ..Trial::for_run(run.clone()) };
        let measured = match serve_of(question, &trial, load, sectors, &mut watch) {
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

/// Judges the changes that were run beside the system as it is; `alike` is a comparison of conventional disks with themselves.
fn judge_beside(advice: &mut Advice, alike: Comparison) {
    let trimmed = advice.trimmed_base().map(|trimmed| {
        let name = if advice.rebuild.is_some() { "new disk trimmed first" } else { "trimmed" };
        beside(advice, &Change::beside(ChangeKind::Trim, name), &trimmed.own, trimmed.against)
    });
    let conventional = (!advice.system.is_conventional).then(|| {
        let change = Change::beside(ChangeKind::Conventional, "CMR disks");
        beside(advice, &change, &advice.base().conventional, alike)
    });
    advice.remedies = trimmed.into_iter().chain(conventional).collect();
}

fn beside(advice: &Advice, change: &Change, run: &Trajectory, against: Comparison) -> Remedy {
    let present = advice.judged();
    let before = judged(advice, &present.own, &present.against);
    let of_load = match change.kind {
        ChangeKind::Trim => advice.trimmed.get(advice.hardest).map_or(run, |trimmed| &trimmed.own),
        _ => &present.conventional,
    };
    // A rebuild is all there is of it, however full the cache was in the part that was run.
    let after = judged(advice, of_load, &against);
    let after = Judged { is_settled: after.is_settled || advice.rebuild.is_some(), ..after };
    Remedy::new(change, Ok((effect(&before, &after), run.clone(), against, after.problems)))
}

fn judged(advice: &Advice, run: &Trajectory, against: &Comparison) -> Judged {
    Judged { problems: advice.problems_of(run, against), ..Judged::new(run, against) }
}

/// Runs a change under the load, and compares it with conventional disks under the load as it is.
fn tried(
    (question, advice): (&Question, &Advice),
    load: &Load,
    change: &Change,
    (own, usual): (&Measured, &Measured),
    sectors: u64,
    monitor: &dyn Monitor,
) -> Result<Remedy, Error> {
    let trial = match &change.trial {
        Ok(trial) => trial,
        Err(error) => return Ok(Remedy::new(change, Err(NotRun::Refused(changes::one_line(error))))),
    };
    let what = format!("trying {}", change.name);
    let load = &Load { demand: Arc::clone(change.demand.as_ref().unwrap_or(&load.demand)), ..load.clone() };
    let served = pool::make_one(monitor, &what, |watch| serve_of(question, trial, load, sectors, watch));
    let made = match served {
        Err(error) => Err(NotRun::Refused(changes::one_line(&error))),
        Ok(made) if made.outcome.interrupted => Err(NotRun::Interrupted),
        // Nothing can be said of a change that serves nothing.
        Ok(made) if made.outcome.requests == 0 && made.outcome.rebuild.is_none() => {
            Err(NotRun::Refused("the warm-up takes all of its requests".into()))
        }
        Ok(made) => Ok(made),
    };
    let mut before = judged(advice, &own.trajectory, &own.compared_with(usual));
    if before.problems.refused {
        // No time of what is refused is a disk's.
        (before.multiples, before.longest_stall_ns) = ([None; 4], u64::MAX);
    }
    let judged = made.map(|made| {
        if !matches!(change.kind, ChangeKind::WriteSize | ChangeKind::Program) {
            let against = made.compared_with(usual);
            let after = judged(advice, &made.trajectory, &against);
            return (effect(&before, &after), made.trajectory, against, after.problems);
        }
        let against = made.compared_by_bytes(usual);
        let after = judged(advice, &made.trajectory, &against);
        // Latencies of larger writes are no longer or shorter than those of smaller ones for what the disk does.
        let is_open = made.outcome.engine.arrival == Arrival::Trace;
        let mean = Some(against.whole.mean).filter(|_| is_open);
        let timed = Judged { multiples: [against.whole.elapsed, mean, None, None], ..after };
        let found = match effect(&before, &timed) {
            // Where a part of it was run, nobody has seen what comes after it.
            Effect::Fixes if load.is_even && made.trajectory.cache_full_at_s.is_none() => Effect::FixesSoFar,
            other => other,
        };
        (found, made.trajectory, against, after.problems)
    });
    Ok(Remedy::new(change, judged))
}
