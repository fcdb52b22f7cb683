//! The answer as a record, which `--json` writes and the terminal renders. `docs/reference/advise.md` has every key.

use std::collections::BTreeMap;

use serde::Serialize;
use smrkit::VERSION;
use smrkit::drive::Drive;
use smrkit::settings::rebuild::{RebuildSpec, Task};
use smrkit::settings::{Arrival, Prefill, Settings};
use smrkit::stats::outcome::{Outcome, Replayed, Scalar, Scaled, State};
use smrkit::stats::verdict;
use smrkit::units::{Nanos, SECTOR_BYTES};
use smrkit_report::format;

use crate::budget::{Budget, Recovery};
use crate::changes::{self, ArrayFacts, ChangeKind};
use crate::comparison::{
    ALIKE, Comparison, Effect, FACTOR, Judged, Multiples, Problems, SHORT_NS, Trajectory, UNNOTICED_NS,
};
use crate::measured::{AskedWork, Known};
use crate::sums::ReportedWaits;
use crate::trial::{self, Measured};
use crate::uses::AskedUse;
use crate::{AT_FIRST_SIGHT, Buffer, LoadKind, Need, Pair, Question};

/// The shortest simulated time from which anything is concluded (assumption): longer than a drive's RAM hides.
const SHORTEST_NS: u64 = 5_000_000_000;
/// Ends of a drive's range are told where one is this many times the other.
const RANGE: f64 = 1.1;
/// By how many times longer than simulated requests were seen to wait where something else than the load holds them up (assumption).
const ELSEWHERE: f64 = 5.0;
/// From this share of the time on a disk is called busy most of the time (assumption).
const MOSTLY_BUSY: f64 = 0.5;

/// The whole answer.
#[derive(Serialize)]
pub struct Advice {
    /// The version of this format.
    pub schema: u32,
    /// The answer in a word.
    pub answer: Answer,
    /// What it rests on.
    pub verdict: Verdict,
    /// The answer in five lines: yes or no, how long or how fast, why, what to do, how sure.
    pub text: String,
    /// Steps that an owner can take, the most useful first.
    pub actions: Vec<Action>,
    /// The use, as it was asked for; null without one.
    #[serde(rename = "use")]
    pub asked_use: Option<AskedUse>,
    /// True if any part of the load is like the whole.
    #[serde(skip)]
    pub is_even: bool,
    /// True if the load goes on for as long as somebody works.
    #[serde(skip)]
    pub is_endless: bool,
    /// What can't be known of the load, where it was made of sums over intervals; null else.
    pub note: Option<String>,
    /// How the recorded disk did, if the report says so.
    #[serde(skip)]
    pub reported: Option<ReportedWaits>,
    /// What is needed; all null without a need.
    pub need: Need,
    /// Problems under the load on which changes were tried.
    pub problems: Problems,
    /// Between what its main figure lies, by what is known of the drive and of its state; null where that makes no difference.
    pub range: Option<Range>,
    /// The same of the state that is assumed.
    #[serde(skip)]
    pub drive_range: Option<Range>,
    /// What the drive takes; null of a rebuild, of reads, of conventional disks, and before it is known.
    pub budget: Option<Budget>,
    /// The system as it is, under each load.
    pub present: Vec<Present>,
    /// The load on which the answer rests, from 0: that on which it does worst.
    pub hardest: usize,
    /// The same, where the disk that is written to was trimmed before; empty where that makes no difference, or none is needed.
    #[serde(skip)]
    pub trimmed: Vec<Present>,
    /// True if nobody said that it was not.
    #[serde(skip)]
    pub assumes_written: bool,
    /// Share of the requests that a host-managed disk would refuse unless its zones are empty, where the answer takes them to be.
    #[serde(skip)]
    pub refused_where_written: Option<f64>,
    /// The drive where everything that is known only roughly is as bad, and as good, as it may be.
    pub ends: Vec<End>,
    /// True if one of them is left out, since the load has no room on it.
    #[serde(skip)]
    pub lacks_room_at_an_end: bool,
    /// Changes that were tried.
    pub remedies: Vec<Remedy>,
    /// The system as it is and conventional disks, under the load on which the answer rests.
    #[serde(skip)]
    pub runs: Vec<Outcome>,
    /// The array, if it is one.
    #[serde(skip)]
    pub array: Option<ArrayFacts>,
    /// True if all of it was run.
    pub complete: bool,
    /// How long the drive has to rest after requests at times of their own, if these come again.
    #[serde(skip)]
    pub recovery: Recovery,
    /// True once it was tried how long the drive has to rest, which decides whether work that comes again finds it cleaned.
    #[serde(skip)]
    pub is_rest_known: bool,
    /// True once all changes were tried.
    #[serde(skip)]
    pub is_tried: bool,
    /// True of an answer by the first requests of a load, of which more are served meanwhile.
    #[serde(skip)]
    pub is_preview: bool,
    /// The disks that serve.
    pub system: AdvisedSystem,
    /// The demand.
    pub demand: AdvisedDemand,
    /// The rebuild, as it was asked for; null without one.
    pub rebuild: Option<RebuildSpec>,
    /// Bytes of a whole disk, where a rebuild was run on a part of one; null where it was not.
    pub whole_disk_bytes: Option<u64>,
    /// Bytes of the whole load, of which a part may have been run; null if it has no end.
    pub whole_bytes: Option<f64>,
    /// Settings of the hardest load: how requests come.
    pub engine: Settings,
    /// State of the disks before, under every change as well.
    pub state: State,
    /// Why the drives have more platters than their own; null where they have their own, or the size asked for.
    pub scaled: Option<Scaled>,
    /// The seed of everything random.
    pub seed: u64,
    /// smrkit's version.
    pub version: &'static str,
    /// The commit that it was built from.
    pub commit: Option<String>,
}

/// The answer in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It will do.
    Yes,
    /// It won't.
    No,
    /// It depends on what is not known.
    Perhaps,
    /// The load is over too soon for an answer.
    Unknown,
}

/// What an answer rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A host-managed disk would refuse some of the requests.
    Refused,
    /// The load is over too soon for an answer.
    TooShort,
    /// Conventional disks can't keep up either.
    Overloaded,
    /// It can't keep up, though conventional disks can.
    FallsBehind,
    /// It does not do what is needed.
    Misses,
    /// A timeout of 30 s drops a disk.
    Dropped,
    /// A timeout of 7 s drops a disk, and one of 30 s does not.
    DroppedByRaid,
    /// It takes more than twice what conventional disks take.
    Slow,
    /// Owners have reported that such drives fail at this.
    Fails,
    /// It was measured to be far slower than this load makes it.
    Elsewhere,
    /// By what is known of the drive it may be one or the other.
    Depends,
    /// It does what is needed.
    Meets,
    /// The disks are conventional ones.
    Conventional,
    /// It takes more than one and a half times what conventional disks take.
    SomewhatSlower,
    /// It does as well as conventional disks.
    Fine,
}

impl Verdict {
    /// The answer that it makes.
    pub fn answer(self) -> Answer {
        match self {
            Verdict::TooShort => Answer::Unknown,
            Verdict::Refused
            | Verdict::Overloaded
            | Verdict::FallsBehind
            | Verdict::Misses
            | Verdict::Dropped
            | Verdict::Slow
            | Verdict::Fails
            | Verdict::Elsewhere => Answer::No,
            Verdict::Depends | Verdict::DroppedByRaid => Answer::Perhaps,
            Verdict::Meets | Verdict::Conventional | Verdict::SomewhatSlower | Verdict::Fine => Answer::Yes,
        }
    }
}

/// Between what a figure lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    /// The figure.
    pub of: Measure,
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
}

/// The figure by which a system is told from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Seconds of all of it: of a rebuild the whole disk.
    Seconds,
    /// Host bytes a second that remain.
    BytesPerS,
    /// Mean latency.
    MeanNs,
}

impl Measure {
    /// A figure as digits and a unit: that of the figure beside which it stands, unless too many digits would be needed.
    pub fn beside(self, value: f64, other: f64) -> (String, String) {
        let (unit, name) = self.unit(other);
        // Nobody says 0.48 hours, or 4,462 seconds.
        let (least, most) = if self == Measure::Seconds { (1.0, 1e3) } else { (0.1, 1e4) };
        let is_readable = (least * unit..most * unit).contains(&value);
        let (unit, name) = if is_readable { (unit, name) } else { self.unit(value) };
        (format::short(value / unit), name)
    }

    /// The unit that keeps figures up to the largest readable: how much of the figure it is, and its name.
    pub fn unit(self, largest: f64) -> (f64, String) {
        let ((unit, name), scale, suffix) = match self {
            Measure::BytesPerS => (format::byte_unit(largest), 1.0, "/s"),
            Measure::Seconds => (format::time_unit(largest), 1.0, ""),
            Measure::MeanNs => (format::time_unit(largest / 1e9), 1e9, ""),
        };
        (unit * scale, format!("{name}{suffix}"))
    }
}

/// The drive at an end of what is known of it.
#[derive(Clone, Serialize)]
pub struct End {
    /// True at the worse end.
    pub worse: bool,
    /// Its problems.
    pub problems: Problems,
    /// The run.
    pub trajectory: Trajectory,
}

/// The system as it is, and conventional disks in its place.
#[derive(Serialize)]
pub struct Present {
    /// Whose load it is.
    pub load: LoadKind,
    /// Commands outstanding.
    pub depth: u32,
    /// As it is.
    #[serde(flatten)]
    pub own: Trajectory,
    /// Conventional disks.
    pub conventional: Trajectory,
    /// The drive compared with them, over the same requests.
    pub against: Comparison,
}

/// A change and what it does.
#[derive(Serialize)]
pub struct Remedy {
    /// Its kind.
    pub kind: ChangeKind,
    /// The change.
    pub change: String,
    /// Its effect; null where it was not run.
    pub effect: Option<Effect>,
    /// Problems with it; null where it was not run.
    pub problems: Option<Problems>,
    /// Why it was not run; null where it was.
    pub not_run: Option<String>,
    /// The run; null where there was none.
    pub trajectory: Option<Trajectory>,
    /// Compared with conventional disks under the load as it is.
    pub against: Option<Comparison>,
}

/// Why a change was not run that had to wait its turn for too long.
pub const INTERRUPTED: &str = "interrupted";

/// Something that an owner can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Action {
    /// The step, and what it brings.
    pub what: String,
    /// What it costs.
    pub cost: String,
    /// The command that does it; null where there is none.
    pub command: Option<String>,
}

/// Disks that serve.
#[derive(Clone, Serialize)]
pub struct AdvisedSystem {
    /// The drive's name; of an array of several kinds all of them.
    pub drive: String,
    /// The drive file's path, where the drive does not come with smrkit.
    pub drive_file: Option<String>,
    /// The layer's name; `mixed` where members differ.
    pub layer: String,
    /// The array, if it is one.
    pub array: Option<String>,
    /// The layer's parameters.
    pub parameters: BTreeMap<String, Scalar>,
    /// Sectors offered.
    pub host_sectors: u64,
    /// Of them in the persistent cache.
    pub cache_sectors: u64,
    /// True if its layer puts its rewriting off.
    #[serde(skip)]
    pub cleans: bool,
    /// True of conventional disks.
    #[serde(skip)]
    pub is_conventional: bool,
    /// True of disks that write wherever there is room.
    #[serde(skip)]
    pub is_dynamic: bool,
    /// How well its drives are known.
    #[serde(skip)]
    pub known: KnownFigures,
    /// Of an array of several kinds of drive that with the longest command.
    #[serde(skip)]
    pub slowest: Option<String>,
    /// The drive that is rebuilt.
    #[serde(skip)]
    pub rebuilt: Option<String>,
}

/// How well a drive is known: the figures of its file, how many of them are assumed, and how many have a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KnownFigures {
    /// Those without a source that says them.
    pub assumed: usize,
    /// Those of which only the ends are known.
    pub ranged: usize,
    /// All of them.
    pub all: usize,
}

impl AdvisedSystem {
    fn new(question: &Question, outcome: &Outcome) -> AdvisedSystem {
        let drives = outcome.drives();
        // Several kinds of drive are all named, each with how many there are.
        let kinds: Vec<&[Outcome]> = drives.chunk_by(|one, next| one.drive == next.drive).collect();
        let name = |alike: &&[Outcome]| match alike.len() {
            1 => alike[0].drive.clone(),
            count => format!("{count} × {}", alike[0].drive),
        };
        let drive = match kinds.len() {
            1 => outcome.drive.clone(),
            _ => format::list(kinds.iter().map(name).collect()),
        };
        let slowest = drives.iter().max_by_key(|disk| disk.verdict.commands.longest_command_ns);
        let rebuilt = match outcome.run.rebuild.map(|spec| spec.task) {
            Some(Task::Rebuild { disk, .. }) => outcome.members.get(disk as usize),
            _ => None,
        };
        let known = |drive: &Drive| KnownFigures {
            assumed: drive.settings.iter().filter(|setting| setting.basis() == "assumed").count(),
            ranged: drive.ranges().count(),
            all: drive.settings.len(),
        };
        AdvisedSystem {
            drive,
            drive_file: outcome.drive_file.clone(),
            layer: outcome.layer.clone(),
            array: outcome.array.clone(),
            parameters: outcome.parameters.clone(),
            host_sectors: outcome.capacity.host_sectors,
            cache_sectors: outcome.capacity.cache_sectors,
            cleans: verdict::cleans(outcome),
            is_conventional: question.run.is_conventional(),
            is_dynamic: trial::is_dynamic(&question.run),
            known: question.run.system().drives().iter().map(|own| known(&own.drive)).max().unwrap_or_default(),
            slowest: slowest.filter(|_| kinds.len() > 1).map(|disk| disk.drive.clone()),
            rebuilt: rebuilt.map(|disk| disk.drive.clone()),
        }
    }
}

/// Demand on them.
#[derive(Serialize)]
pub struct AdvisedDemand {
    /// Account of the replay.
    #[serde(flatten)]
    pub replayed: Replayed,
    /// Requests served and counted.
    pub requests: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Mean size of a write; null where there is none.
    pub mean_write_bytes: Option<f64>,
    /// Share of the bytes written that continue another write; null without writes.
    pub sequential_share: Option<f64>,
}

impl Advice {
    /// The answer from what was run as it is: no ends, changes, sentences and actions yet.
    pub(crate) fn new(question: &Question, (own, usual): &Pair, present: Vec<Present>, hardest: usize) -> Advice {
        let (outcome, load) = (&own.outcome, &question.loads[hardest]);
        let (writes, written_bytes) = (outcome.commands.host_write, outcome.host_written_sectors * SECTOR_BYTES);
        let is_whole = outcome.run.rebuild.is_none() && outcome.engine.arrival == Arrival::FlatOut;
        let mut advice = Advice {
            schema: 1,
            answer: Answer::Unknown,
            verdict: Verdict::TooShort,
            text: String::new(),
            actions: Vec::new(),
            asked_use: question.asked_use.clone(),
            is_even: load.is_even,
            is_endless: load.is_endless(),
            need: question.need,
            problems: Problems::default(),
            range: None,
            drive_range: None,
            budget: None,
            array: changes::facts(&question.run),
            present,
            hardest,
            trimmed: Vec::new(),
            assumes_written: question.assumes_written,
            refused_where_written: None,
            ends: Vec::new(),
            lacks_room_at_an_end: false,
            remedies: Vec::new(),
            runs: vec![usual.outcome.clone(), outcome.clone()],
            complete: true,
            recovery: Recovery::Unknown,
            is_rest_known: false,
            is_tried: false,
            is_preview: false,
            demand: AdvisedDemand {
                replayed: outcome.replayed.clone(),
                requests: outcome.requests,
                read_bytes: outcome.host_read_sectors * SECTOR_BYTES,
                written_bytes,
                mean_write_bytes: (writes > 0).then(|| written_bytes as f64 / writes as f64),
                sequential_share: own.sequential_share,
            },
            system: AdvisedSystem::new(question, outcome),
            rebuild: outcome.run.rebuild,
            whole_disk_bytes: question.whole_disk_bytes,
            whole_bytes: is_whole.then(|| question.times * bytes_of_all(question, own)),
            note: question.note.clone(),
            reported: question.reported,
            engine: outcome.engine,
            state: outcome.state.clone(),
            scaled: outcome.scaled,
            seed: outcome.seed,
            version: VERSION,
            commit: outcome.commit.clone(),
        };
        advice.problems = advice.problems_of(&advice.judged().own, &advice.judged().against);
        advice
    }

    /// True of an answer by a part of what is asked: the first requests of a load, or a part of each disk that is rebuilt.
    pub fn is_of_part(&self) -> bool {
        let own = &self.judged().own;
        let has_more = || self.whole_bytes.is_none_or(|whole| whole > own.bytes as f64);
        self.is_preview && (self.rebuild.is_some() || own.requests >= AT_FIRST_SIGHT && has_more())
    }

    /// The system as it is under the load on which the answer rests.
    pub fn judged(&self) -> &Present {
        &self.present[self.hardest]
    }

    /// The run with which changes and both ends of the drive's range are compared. Of a rebuild in light use that is the run of the unused
    /// array, because that is what others have measured, and because it is by far the cheaper.
    pub fn base(&self) -> &Present {
        &self.present[self.base_at()]
    }

    /// The same, where the disk that is written to was trimmed before, if that was run.
    pub fn trimmed_base(&self) -> Option<&Present> {
        self.trimmed.get(self.base_at())
    }

    fn base_at(&self) -> usize {
        if self.tries_unused() { 0 } else { self.hardest }
    }

    /// True if changes are tried on the unused array, although the answer rests on light use.
    pub fn tries_unused(&self) -> bool {
        self.present[0].load == LoadKind::Unused && self.judged().load != LoadKind::Asked
    }

    /// Problems of a run. Where something is needed, slow is what misses that.
    pub fn problems_of(&self, run: &Trajectory, against: &Comparison) -> Problems {
        let problems = Judged::new(run, against).problems;
        let slow = match against.rebuild {
            _ if self.has_limit() => self.misses(run),
            // Light use stands for whatever is done beside a rebuild: what is asked about is how long that takes.
            Some(times) if self.judged().load == LoadKind::Light => times > FACTOR,
            _ => problems.slow,
        };
        // A drive alone is behind no RAID controller.
        Problems { slow, dropped_7s: problems.dropped_7s && self.array.is_some(), ..problems }
    }

    /// Problems at an end of what is known of the drive. Without a need it is compared by its figures, as its requests may be more, or fewer.
    fn problems_at(&self, end: &Trajectory) -> Problems {
        let Present { conventional, against, .. } = self.base();
        let (own, usual) = (self.metric(end), self.metric(conventional));
        let multiples = || Multiples::from_figures(&end.figures(), &conventional.figures(), false);
        let problems = self.problems_of(end, against);
        let slow = match self.measure() {
            _ if self.has_limit() => problems.slow,
            Measure::MeanNs => end.falls_behind || multiples().worst() > FACTOR,
            Measure::BytesPerS => own * FACTOR < usual,
            Measure::Seconds => own > usual * FACTOR,
        };
        Problems { slow, ..problems }
    }

    /// True if the need is a limit that a run meets or misses. Requests at times of their own take as long as their times say, so `every` is
    /// no limit for them: they are compared with the CMR twin's, and what matters besides is whether the drive has recovered by the next time.
    pub fn has_limit(&self) -> bool {
        let Need { within, every, keep, buffers } = self.need;
        let has_buffer = buffers.iter().any(Option::is_some);
        within.is_some() || keep.is_some() || has_buffer || every.is_some() && !self.is_open()
    }

    /// Whether requests at times of their own, which come again after `every`, find the drive still cleaning; `None` if that is not asked or
    /// not known.
    pub fn returns_too_soon(&self) -> Option<bool> {
        let every = self.need.every.filter(|_| self.is_open())?;
        match self.recovery {
            _ if !self.judged().own.cleans => Some(false),
            Recovery::Unknown => None,
            Recovery::After(rest_s) => Some(self.judged().own.elapsed_ns as f64 / 1e9 + rest_s > every.as_secs()),
            Recovery::NotSoon => Some(true),
        }
    }

    /// True if a run does not do what is needed.
    pub fn misses(&self, run: &Trajectory) -> bool {
        let Need { within, every, keep, .. } = self.need;
        let seconds = self.seconds(run);
        let is_over = |limit: Nanos, seconds: f64| seconds > limit.as_secs();
        let later = |seconds| self.later_s(run, seconds).unwrap_or(seconds);
        within.zip(seconds).is_some_and(|(limit, seconds)| is_over(limit, later(seconds)))
            || every.zip(seconds).is_some_and(|(limit, seconds)| is_over(limit, self.turn_s(run, seconds)))
            || keep.is_some_and(|limit| run.p99_ns > limit.0 || run.falls_behind)
            || self
                .need
                .scarcest_buffer(run)
                .is_some_and(|buffer| buffer.longest_ns(run) > buffer.bridges.0 || run.falls_behind)
    }

    /// Seconds of rest that the load needs: those of a full cache, in proportion to how much of the cache the load fills.
    pub fn rest_s(&self) -> Option<f64> {
        let budget = self.budget?;
        let share = self.whole_bytes? / budget.at_once_bytes? as f64;
        Some(budget.rest_s? * share.min(1.0))
    }

    /// The shortest interval, in seconds, at which a load that takes `seconds` may recur for ever: with the rest that it needs, or without rest
    /// at the rate that the drive sustains. A conventional disk has nothing to clean.
    fn turn_s(&self, run: &Trajectory, seconds: f64) -> f64 {
        if !run.cleans {
            return seconds;
        }
        let lasting = self.budget.and_then(|budget| budget.for_ever_bytes_per_s).zip(self.whole_bytes);
        let without_rest = lasting.map(|(lasting, bytes)| seconds.max(bytes / lasting.max(1e-9)));
        let with_rest = self.rest_s().map(|rest_s| seconds + rest_s);
        with_rest.into_iter().chain(without_rest).reduce(f64::min).unwrap_or(seconds)
    }

    /// Seconds that a load which takes `seconds` at first takes whenever it recurs, if the drive has not cleaned up by then; `None` if it has.
    pub fn later_s(&self, run: &Trajectory, seconds: f64) -> Option<f64> {
        let every = self.need.every.filter(|_| run.cleans)?;
        let is_cleaned = self.rest_s().is_some_and(|rest_s| seconds + rest_s <= every.as_secs());
        self.begun_full_s().map(|later| later.max(seconds)).filter(|_| !is_cleaned)
    }

    /// True if no load lasts long enough for an answer. A rebuild is all there is of it, however short.
    pub fn is_too_short(&self) -> bool {
        let is_short = |present: &Present| present.own.elapsed_ns.max(present.conventional.elapsed_ns) < SHORTEST_NS;
        self.rebuild.is_none() && !self.problems.refused && self.present.iter().all(is_short)
    }

    /// True if no run has shown what comes once the cache is full.
    pub fn is_unsettled(&self) -> bool {
        self.leaves_open(&self.judged().own)
    }

    /// True of a run that ended with a cache which would be full before the load ends, if it ever does.
    fn leaves_open(&self, run: &Trajectory) -> bool {
        let Some(more_s) = run.full_in_s else { return false };
        match self.whole_bytes {
            Some(whole) => (whole - run.bytes as f64) / run.lasting_bytes_per_s().max(1e-9) > more_s,
            None => self.is_endless,
        }
    }

    /// Takes the runs of the drive at both ends of its range, the worse end first. Which end is worse shows only in the runs: a larger cache
    /// takes more data, but is cleaned for longer. The better end is left out if it does worse than the drive itself, which then is the best
    /// that is known; if a disk is dropped on it, it stays as another worse end.
    pub fn take_ends(&mut self, mut ends: Vec<End>) {
        let sign = if self.measure() == Measure::BytesPerS { -1.0 } else { 1.0 };
        let rank = |run: &Trajectory| (run.falls_behind, sign * self.metric(run));
        let is_worse = |one: &Trajectory, other: &Trajectory| rank(one) > rank(other);
        if let [one, other] = ends.as_mut_slice() {
            one.worse = !is_worse(&other.trajectory, &one.trajectory);
            other.worse = !one.worse;
        }
        let own = &self.base().own;
        ends.iter_mut().for_each(|end| end.worse |= end.trajectory.dropped_30s > own.dropped_30s);
        ends.retain(|end| end.worse || !is_worse(&end.trajectory, own));
        ends.sort_by_key(|end| !end.worse);
        self.ends = ends;
    }

    /// Computes the range and the verdict from the runs. The verdict is `Depends` if it would be another at an end of the drive's range, or on a
    /// trimmed disk.
    pub fn conclude(&mut self) {
        self.problems = self.problems_of(&self.judged().own, &self.judged().against);
        let at_ends: Vec<Problems> = self.ends.iter().map(|end| self.problems_at(&end.trajectory)).collect();
        for (end, problems) in self.ends.iter_mut().zip(at_ends) {
            end.problems = problems;
        }
        // With a growing backlog the mean latency depends on the run's length, so such an end has no place in the range.
        let has_metric = |run: &&Trajectory| self.measure() != Measure::MeanNs || !run.falls_behind;
        let ends = self.ends.iter().map(|end| &end.trajectory).filter(has_metric);
        let likely = &self.base().own;
        let drive_range = self.range_of(ends.chain([likely]).map(|run| self.metric(run)));
        // The drive's range is of the state that is assumed; this one covers a trimmed disk, too.
        let known = drive_range.map_or([self.metric(likely); 2], |range| [range.low, range.high]);
        let trimmed = self.trimmed_base().map(|trimmed| self.metric(&trimmed.own));
        (self.range, self.drive_range) = (self.range_of(known.into_iter().chain(trimmed)), drive_range);
        self.verdict = self.verdict_by_itself();
        let depends = match self.verdict.answer() {
            Answer::No => self.may_suffice(),
            Answer::Yes | Answer::Unknown => self.may_not_suffice(),
            Answer::Perhaps => false,
        };
        if depends {
            self.verdict = Verdict::Depends;
        }
        self.answer = self.verdict.answer();
    }

    /// The verdict on the drive as it is taken to be.
    fn verdict_by_itself(&self) -> Verdict {
        let Present { own, conventional, .. } = self.judged();
        match self.problems {
            Problems { refused: true, .. } => Verdict::Refused,
            // However fast it is.
            _ if self.asked_work().fault().is_some() => Verdict::Fails,
            _ if self.is_too_short() => Verdict::TooShort,
            // Where both fall behind, it is the shingling all the same if one does so by far.
            _ if conventional.falls_behind && own.elapsed_ns <= 2 * conventional.elapsed_ns => Verdict::Overloaded,
            // Requests wait for seconds on average, though the backlog does not grow for ever.
            _ if self.system.is_conventional
                && self.measure() == Measure::MeanNs
                && !self.has_limit()
                && own.mean_ns > SHORT_NS =>
            {
                Verdict::Overloaded
            }
            _ if own.falls_behind => Verdict::FallsBehind,
            Problems { slow: true, .. } if self.has_limit() => Verdict::Misses,
            Problems { dropped_30s: true, .. } => Verdict::Dropped,
            Problems { dropped_7s: true, slow: false, .. } => Verdict::DroppedByRaid,
            Problems { slow: true, .. } if !self.system.is_conventional => Verdict::Slow,
            _ if self.is_unsettled() => Verdict::TooShort,
            _ if self.is_held_up_elsewhere() => Verdict::Elsewhere,
            _ if self.returns_too_soon() == Some(true) => Verdict::Misses,
            _ if self.has_limit() && !self.is_refuted() => Verdict::Meets,
            _ if self.system.is_conventional => Verdict::Conventional,
            _ if self.disputed().is_some() => Verdict::Depends,
            _ if self.present.iter().all(|present| present.against.is_alike()) => Verdict::Fine,
            _ => Verdict::SomewhatSlower,
        }
    }

    /// True if a "no" may be a "yes": at the better end of what is known of the drive, on a disk that was trimmed, or because the limit that is
    /// missed was only assumed.
    fn may_suffice(&self) -> bool {
        let holds = |end: &End| {
            let Problems { refused, dropped_30s, slow, .. } = end.problems;
            // Of a cache that was still filling nobody has seen what comes then.
            !(refused || dropped_30s || slow || end.trajectory.falls_behind || self.leaves_open(&end.trajectory))
        };
        // The ends were run while nobody uses the array, and tell nothing of what does not show in the same figures of the drive itself.
        let is_of_load = !matches!(self.verdict, Verdict::Refused | Verdict::Overloaded | Verdict::Elsewhere)
            && !self.tries_unused()
            && (self.problems_at(&self.judged().own).any() || self.judged().own.falls_behind);
        let suffices = is_of_load && self.ends.iter().any(holds)
            || self.assumes_written && self.trim_suffices()
            || self.misses_an_assumption();
        suffices && self.verdict != Verdict::Fails
    }

    /// True if a "yes" may be a "no": at an end of what is known of the drive, or with a buffer that only just bridges the waits.
    fn may_not_suffice(&self) -> bool {
        let base = self.base();
        let is_slow = match self.verdict {
            // It is not known what comes after that either.
            Verdict::TooShort => !self.has_limit(),
            Verdict::Conventional => true,
            _ => false,
        } || self.problems_of(&base.own, &base.against).slow;
        self.ends.iter().any(|end| end.problems.dropped_30s || end.problems.slow && !is_slow) || self.nears_a_buffer()
    }

    /// True if a buffer bridges the longest request, but not one of twice that length (assumption). A run shows the longest request of some
    /// hours at most, and a longer time has longer ones.
    pub fn nears_a_buffer(&self) -> bool {
        let own = &self.judged().own;
        let is_near = |buffer: Buffer| {
            buffer.longest_ns(own) <= buffer.bridges.0 && buffer.longest_ns(own) > buffer.bridges.0 / 2
        };
        self.need.scarcest_buffer(own).is_some_and(is_near)
    }

    /// True if the drive fails only the time that we assumed for a buffer, and by less than a factor of two. A need with buffers has no other
    /// limit, and the scarcest one is missed by most.
    pub fn misses_an_assumption(&self) -> bool {
        let own = &self.judged().own;
        let is_near = |buffer: Buffer| buffer.is_assumed && buffer.longest_ns(own) < 2 * buffer.bridges.0;
        self.verdict_by_itself() == Verdict::Misses && self.need.scarcest_buffer(own).is_some_and(is_near)
    }

    /// True if requests were measured to wait as they do for a drive that cleans all the time: for longer than any seek, on a disk that was
    /// busy most of the time (assumptions).
    pub fn is_reported_full(&self) -> bool {
        self.reported.is_some_and(|reported| {
            reported.mean_ns as f64 > ELSEWHERE * UNNOTICED_NS as f64
                && (reported.busy == 0.0 || reported.busy > MOSTLY_BUSY)
        })
    }

    /// True if requests were measured to wait far longer than this load makes them.
    pub fn is_held_up_elsewhere(&self) -> bool {
        let own_ns = self.judged().own.mean_ns.max(UNNOTICED_NS) as f64;
        self.reported.is_some_and(|reported| reported.mean_ns as f64 > ELSEWHERE * own_ns)
    }

    /// The range of some figures; `None` if its ends differ by too little to be told.
    fn range_of(&self, figures: impl Iterator<Item = f64> + Clone) -> Option<Range> {
        let finite = || figures.clone().filter(|figure| figure.is_finite());
        let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(0.0, f64::max));
        (high > low * RANGE).then_some(Range { of: self.measure(), low, high })
    }

    /// How many of the changes were run beside the system as it is, before the others.
    pub fn run_beside(&self) -> usize {
        let is_beside = |remedy: &&Remedy| matches!(remedy.kind, ChangeKind::Conventional | ChangeKind::Trim);
        self.remedies.iter().take_while(is_beside).count()
    }

    /// The drive where the disk that is written to was trimmed before, if the answer depends on that.
    pub fn decided_by_trim(&self) -> Option<&Present> {
        let is_good = self.verdict == Verdict::Depends && !self.problems.any() && !self.judged().own.falls_behind;
        self.trimmed_base().filter(|_| self.verdict == Verdict::Depends && !is_good && self.trim_suffices())
    }

    /// True if no problem is left on a disk that was trimmed.
    fn trim_suffices(&self) -> bool {
        let does =
            |present: &Present| !present.own.falls_behind && !self.problems_of(&present.own, &present.against).any();
        self.trimmed.get(self.hardest).is_some_and(does)
    }

    /// True of disks and uses that are behind a USB adapter.
    pub fn is_on_usb(&self) -> bool {
        self.asked_use.as_ref().is_some_and(AskedUse::is_on_usb)
            || self.array.is_none() && self.system.drive == "wd40ndzw"
    }

    /// What is asked, for whoever may have measured it.
    pub fn asked_work(&self) -> AskedWork<'_> {
        let is_stream = !self.is_open() && self.demand.sequential_share.is_some_and(|share| share > 0.5);
        AskedWork {
            // What was measured of a rebuild is the pace of the disk that is written to.
            drive: self.system.rebuilt.as_deref().unwrap_or(&self.system.drive),
            array: self.array.map(|array| (array.level, self.judged().own.disks)),
            rebuild: self.rebuild,
            use_name: self.asked_use.as_ref().map(|asked| asked.info.name),
            stream_write_bytes: self.demand.mean_write_bytes.filter(|_| is_stream),
            is_full: self.state.prefill == Prefill::Full,
        }
    }

    /// Seconds that all of it took by what others have measured.
    pub fn known_seconds(&self, known: &Known) -> f64 {
        let disk_bytes = self.base().own.rebuild.map(|rebuilt| self.whole_disk_bytes.unwrap_or(rebuilt.disk_bytes));
        known.seconds(disk_bytes.map(|bytes| bytes as f64).or(self.whole_bytes).unwrap_or(0.0))
    }

    /// A published time of the asked work, if it is more than twice the longest time that we predict for it.
    pub fn disputed(&self) -> Option<&'static Known> {
        let range = self.range.filter(|range| range.of == Measure::Seconds);
        let is_sure = |known: &&Known| !known.is_doubtful;
        let longest = range.map_or_else(|| self.seconds(&self.base().own), |range| Some(range.high))?;
        // Nobody has measured such work on a disk that was trimmed.
        let is_comparable = self.rebuild.is_some() || self.state.prefill != Prefill::None;
        self.asked_work()
            .known()
            .filter(is_sure)
            .filter(|known| is_comparable && self.known_seconds(known) > 2.0 * longest)
    }

    /// True if what others have measured is longer than what is needed, and than what it may be by what is known of the drive.
    fn is_refuted(&self) -> bool {
        let limit = self.need.within.into_iter().chain(self.need.every).min();
        self.disputed().is_some_and(|known| limit.is_none_or(|limit| self.known_seconds(known) > limit.as_secs()))
    }

    /// What the answer would be with the drive's cache full at the start: seconds for all of it, where that makes a difference.
    pub fn seconds_from_full(&self) -> Option<f64> {
        let (from_full, whole) = (self.begun_full_s()?, self.whole_bytes?);
        let takes_longer = from_full > ALIKE * self.judged().own.seconds_for(whole);
        (takes_longer && !matches!(self.state.prefill, Prefill::Random(_) | Prefill::Saved)).then_some(from_full)
    }

    fn begun_full_s(&self) -> Option<f64> {
        let whole = self.whole_bytes.filter(|_| !self.is_open() && self.rebuild.is_none())?;
        Some(whole / self.budget?.after_bytes_per_s?.max(1e-9))
    }

    /// The figure by which runs of it are told apart.
    pub fn measure(&self) -> Measure {
        match () {
            () if self.rebuild.is_some() || self.is_amount() => Measure::Seconds,
            () if self.is_open() => Measure::MeanNs,
            () => Measure::BytesPerS,
        }
    }

    /// True of a load of which the time for all of it counts.
    pub fn is_amount(&self) -> bool {
        let has_limit = self.need.within.is_some() || self.need.every.is_some();
        !self.is_open() && self.whole_bytes.is_some() && (self.asked_use.is_some() || has_limit)
    }

    /// That figure of a run.
    pub fn metric(&self, run: &Trajectory) -> f64 {
        match self.measure() {
            Measure::Seconds => self.seconds(run).unwrap_or(0.0),
            Measure::BytesPerS => run.lasting_bytes_per_s(),
            Measure::MeanNs => run.mean_ns as f64,
        }
    }

    /// Seconds that all of it takes: the rebuild of a whole disk, if all of it goes like the part that was run, or a load of some amount.
    pub fn seconds(&self, run: &Trajectory) -> Option<f64> {
        if self.rebuild.is_none() {
            let bytes = self.whole_bytes.filter(|_| !self.is_open())?;
            // A log puts what is written at places all over the disk on its outer tracks, one after another. To write all of a disk takes at
            // least as long as on conventional platters, of which these have as many tracks.
            let is_sampled = self.system.is_dynamic && self.asked_use.as_ref().is_some_and(AskedUse::is_of_whole_disk);
            let least_s = if is_sampled { self.base().conventional.seconds_for(bytes) } else { 0.0 };
            return Some(run.seconds_for(bytes).max(least_s));
        }
        let rebuilt = run.rebuild?;
        let parts = self.whole_disk_bytes.map_or(1.0, |whole| whole as f64 / rebuilt.disk_bytes.max(1) as f64);
        Some(rebuilt.elapsed_ns as f64 / 1e9 * parts)
    }

    /// The change that does most: of those that leave the fewest problems the fastest, if it is faster than the system as it is.
    pub fn best(&self) -> Option<usize> {
        let times =
            |against: &Comparison| against.rebuild.unwrap_or(against.whole.elapsed.unwrap_or(against.whole.mean));
        let own = times(&self.base().against);
        let ranked = self.remedies.iter().enumerate().filter_map(|(at, remedy)| {
            let times = times(remedy.against.as_ref()?);
            remedy.rank().filter(|_| times < own).map(|rank| (rank, times, at))
        });
        ranked.min_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))).map(|(.., at)| at)
    }

    /// True if a disk of an array is replaced.
    pub fn is_replacement(&self) -> bool {
        matches!(self.rebuild, Some(RebuildSpec { task: Task::Rebuild { .. }, .. }))
    }

    /// True if requests come at times of their own.
    pub fn is_open(&self) -> bool {
        self.engine.arrival == Arrival::Trace
    }
}

/// Bytes of all of a load, of which some was run.
fn bytes_of_all(question: &Question, own: &Measured) -> f64 {
    let (bytes, requests) = (own.trajectory.bytes as f64, own.trajectory.requests as f64);
    let all = question.even_requests.map_or(requests, |all| all as f64);
    // The number of requests that come to some bytes is known only roughly.
    if all <= requests * 1.01 { bytes } else { bytes / requests.max(1.0) * all }
}

impl Remedy {
    /// True if it was interrupted before its turn, or in it.
    pub fn is_interrupted(&self) -> bool {
        self.not_run.as_deref() == Some(INTERRUPTED)
    }

    /// Its place among others by its effect, 0 for the best; `None` where it doesn't help.
    pub fn rank(&self) -> Option<u8> {
        match self.effect? {
            Effect::Fixes => Some(0),
            Effect::FixesSoFar => Some(1),
            Effect::Helps => Some(2),
            Effect::Mixed | Effect::None | Effect::Worsens => None,
        }
    }

    /// A change that was run.
    pub(crate) fn judged(
        kind: ChangeKind,
        change: String,
        effect: Effect,
        problems: Problems,
        run: Trajectory,
        against: Comparison,
    ) -> Remedy {
        let (effect, problems, trajectory) = (Some(effect), Some(problems), Some(run));
        Remedy { kind, change, effect, problems, not_run: None, trajectory, against: Some(against) }
    }

    /// A change that was not run.
    pub(crate) fn not_run(kind: ChangeKind, change: String, why: String) -> Remedy {
        let not_run = Some(why);
        Remedy { kind, change, effect: None, problems: None, not_run, trajectory: None, against: None }
    }
}
