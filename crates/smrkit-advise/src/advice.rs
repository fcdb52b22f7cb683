//! The answer as data: what `--json` writes, and what the screen shows. `docs/reference/advise.md` has every key.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};
use smrkit::VERSION;
use smrkit::settings::rebuild::RebuildSpec;
use smrkit::settings::{Arrival, Settings};
use smrkit::stats::outcome::{Replayed, Scalar, Scaled, State};
use smrkit::stats::verdict;
use smrkit::units::SECTOR_BYTES;

use crate::changes::{self, ArrayFacts, Change, ChangeKind};
use crate::comparison::{Comparison, Effect, Problems, Trajectory};
use crate::{LoadKind, Question, Reference};

/// The shortest simulated time from which anything is concluded (assumption): longer than a drive's RAM hides.
const SHORTEST_NS: u64 = 5_000_000_000;
/// Ends of a drive's range are told where one is this many times the other.
const RANGE: f64 = 1.1;

/// The whole answer.
#[derive(Serialize)]
pub struct Advice {
    /// The version of this format.
    pub schema: u32,
    /// The answer in a word.
    pub verdict: Verdict,
    /// The answer in a few sentences, one a line.
    pub text: String,
    /// Steps that an owner can take, the most useful first.
    pub actions: Vec<Action>,
    /// Problems under the load on which changes were tried.
    pub problems: Problems,
    /// Problems that it has at some end of what is known of the drive, and not as it was run.
    pub problems_at_ends: Problems,
    /// Between what its main figure lies, by what is known of the drive; null where that makes no difference.
    pub range: Option<Range>,
    /// The system as it is, under each load.
    pub present: Vec<Present>,
    /// The load on which changes were tried, from 0: that on which it does worst.
    pub hardest: usize,
    /// Changes that were tried.
    pub remedies: Vec<Remedy>,
    /// Requests of the load that changes have served; null where that was all.
    pub first_requests: Option<u64>,
    /// The system as it is over the requests that changes have served, and against conventional disks.
    #[serde(skip)]
    pub compared: (Trajectory, Comparison),
    /// The array, if it is one.
    #[serde(skip)]
    pub array: Option<ArrayFacts>,
    /// True if all of it was run.
    pub complete: bool,
    /// The disks that serve.
    pub system: AdvisedSystem,
    /// The demand.
    pub demand: AdvisedDemand,
    /// The rebuild, as it was asked for; null without one.
    pub rebuild: Option<RebuildSpec>,
    /// Bytes of a whole disk, where a rebuild was run on a part of one; null where it was not.
    pub whole_disk_bytes: Option<u64>,
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
pub enum Verdict {
    /// A host-managed disk would refuse some of the requests.
    Refused,
    /// The load is over too soon for an answer.
    TooShort,
    /// The disks are conventional ones.
    Conventional,
    /// A timeout drops a disk.
    Dropped,
    /// It takes more than twice what conventional disks take.
    Slow,
    /// It has a problem at an end of what is known of the drive.
    Depends,
    /// It takes more than one and a half times what conventional disks take.
    SomewhatSlower,
    /// It does as well as conventional disks.
    Fine,
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
    /// Seconds of a rebuild, a resilver or a scrub, of the whole disk.
    RebuildS,
    /// Host bytes a second that remain.
    BytesPerS,
    /// Mean latency.
    MeanNs,
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
    pub not_run: Option<NotRun>,
    /// The pause after each completion; null if something else changes.
    pub think_ns: Option<u64>,
    /// The factor on the trace's times; null if something else changes.
    pub time_scale: Option<f64>,
    /// The run; null where there was none.
    pub trajectory: Option<Trajectory>,
    /// Compared with conventional disks under the load as it is; of pauses, with conventional disks that rest as much.
    pub against: Option<Comparison>,
}

/// Why a change was not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRun {
    /// Interrupted before its turn.
    Interrupted,
    /// Impossible to run.
    Refused(String),
}

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotRun::Interrupted => "interrupted",
            NotRun::Refused(reason) => reason,
        })
    }
}

impl Serialize for NotRun {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

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
#[derive(Serialize)]
pub struct AdvisedSystem {
    /// The drive's name; `mixed` where members differ.
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
    /// The answer from what was run as it is: no changes, sentences and actions yet.
    pub(crate) fn new(question: &Question, known: &Reference, present: Vec<Present>, hardest: usize) -> Advice {
        let outcome = &known.own.outcome;
        let writes = outcome.commands.host_write;
        let written_bytes = outcome.host_written_sectors * SECTOR_BYTES;
        Advice {
            schema: 1,
            verdict: Verdict::Fine,
            text: String::new(),
            actions: Vec::new(),
            problems: known.before.problems,
            problems_at_ends: Problems::default(),
            range: None,
            compared: (known.own.trajectory.clone(), present[hardest].against),
            array: changes::facts(&question.run),
            present,
            hardest,
            remedies: Vec::new(),
            first_requests: None,
            complete: true,
            demand: AdvisedDemand {
                replayed: outcome.replayed.clone(),
                requests: outcome.requests,
                read_bytes: outcome.host_read_sectors * SECTOR_BYTES,
                written_bytes,
                mean_write_bytes: (writes > 0).then(|| written_bytes as f64 / writes as f64),
                sequential_share: known.own.sequential_share,
            },
            system: AdvisedSystem {
                drive: outcome.drive.clone(),
                drive_file: outcome.drive_file.clone(),
                layer: outcome.layer.clone(),
                array: outcome.array.clone(),
                parameters: outcome.parameters.clone(),
                host_sectors: outcome.capacity.host_sectors,
                cache_sectors: outcome.capacity.cache_sectors,
                cleans: verdict::cleans(outcome),
                is_conventional: question.run.is_conventional(),
            },
            rebuild: outcome.run.rebuild,
            whole_disk_bytes: question.whole_disk_bytes,
            engine: outcome.engine,
            state: outcome.state.clone(),
            scaled: outcome.scaled,
            seed: outcome.seed,
            version: VERSION,
            commit: outcome.commit.clone(),
        }
    }

    /// The system as it is under the load on which changes were tried.
    pub fn judged(&self) -> &Present {
        &self.present[self.hardest]
    }

    /// True if no load lasts long enough for an answer. A rebuild is all there is of it, however short.
    pub fn is_too_short(&self) -> bool {
        let is_short = |present: &Present| present.own.elapsed_ns.max(present.conventional.elapsed_ns) < SHORTEST_NS;
        self.rebuild.is_none() && !self.problems.refused && self.present.iter().all(is_short)
    }

    /// What follows from the runs: the range, and the answer in a word.
    pub fn conclude(&mut self) {
        let ends = || self.remedies.iter().filter(|remedy| remedy.kind == ChangeKind::Range);
        self.problems_at_ends =
            ends().filter_map(|end| end.problems).fold(Problems::default(), |all, at_end| Problems {
                refused: false,
                slow: all.slow || at_end.slow && !self.problems.slow,
                dropped_7s: all.dropped_7s || at_end.dropped_7s && !self.problems.dropped_7s,
                dropped_30s: all.dropped_30s || at_end.dropped_30s && !self.problems.dropped_30s,
            });
        let measure = self.measure();
        // Ends are run as the calm load of a rebuild, or as all changes are, on a part of the load: they are told as multiples of the drive
        // as it was run there.
        let (whole, run) = match self.rebuild {
            Some(_) => (&self.present[0].own, &self.present[0].own),
            None => (&self.judged().own, &self.compared.0),
        };
        let own = self.figure(whole);
        let times = |end: &Remedy| Some(self.figure(end.trajectory.as_ref()?) / self.figure(run));
        let figures =
            || ends().filter_map(times).filter(|times| times.is_finite()).map(|times| own * times).chain([own]);
        let (low, high) = (figures().fold(own, f64::min), figures().fold(own, f64::max));
        self.range = (high > low * RANGE).then_some(Range { of: measure, low, high });
        let is_alike = self.present.iter().all(|present| present.against.is_alike() && present.own.dropped_7s == 0);
        self.verdict = match self.problems {
            Problems { refused: true, .. } => Verdict::Refused,
            _ if self.is_too_short() => Verdict::TooShort,
            _ if self.system.is_conventional => Verdict::Conventional,
            Problems { dropped_7s: true, .. } => Verdict::Dropped,
            Problems { slow: true, .. } => Verdict::Slow,
            _ if self.problems_at_ends.any() => Verdict::Depends,
            _ if is_alike => Verdict::Fine,
            _ => Verdict::SomewhatSlower,
        };
    }

    /// The figure by which runs of it are told apart.
    pub fn measure(&self) -> Measure {
        match () {
            () if self.rebuild.is_some() => Measure::RebuildS,
            () if self.is_open() => Measure::MeanNs,
            () => Measure::BytesPerS,
        }
    }

    /// That figure of a run.
    pub fn figure(&self, run: &Trajectory) -> f64 {
        match self.measure() {
            Measure::RebuildS => self.rebuild_s(run).unwrap_or(0.0),
            Measure::BytesPerS => run.lasting_bytes_per_s(),
            Measure::MeanNs => run.mean_ns as f64,
        }
    }

    /// Seconds that a rebuild of the whole disk takes, if all of it goes like the part that was run.
    pub fn rebuild_s(&self, run: &Trajectory) -> Option<f64> {
        let rebuilt = run.rebuild?;
        let parts = self.whole_disk_bytes.map_or(1.0, |whole| whole as f64 / rebuilt.disk_bytes.max(1) as f64);
        Some(rebuilt.elapsed_ns as f64 / 1e9 * parts)
    }

    /// A run's time as a multiple of that of conventional disks under the load as it is: of the rebuild, of the load, or by its own times
    /// of the mean latency. None of pauses, which are no part of the load.
    pub fn times(&self, against: &Comparison) -> f64 {
        against.rebuild.unwrap_or(against.whole.elapsed.unwrap_or(against.whole.mean))
    }

    /// The change that does most: of those that leave the fewest problems the fastest, if it is faster than the system as it is.
    pub fn best(&self) -> Option<usize> {
        let is_change = |kind| !matches!(kind, ChangeKind::Idle | ChangeKind::Range);
        let changes = self.remedies.iter().enumerate().filter(|(_, remedy)| is_change(remedy.kind));
        let ranked = changes.filter_map(|(at, remedy)| {
            let times = self.times(remedy.against.as_ref()?);
            remedy.rank().filter(|_| times < self.times(&self.compared.1)).map(|rank| (rank, times, at))
        });
        ranked.min_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))).map(|(.., at)| at)
    }

    /// True if depths are told: at the trace's own times one decides little, unless several were asked for.
    pub fn names_depths(&self) -> bool {
        self.present.len() > 1 && self.rebuild.is_none()
    }

    /// True if requests come at times of their own.
    pub fn is_open(&self) -> bool {
        self.engine.arrival == Arrival::Trace
    }
}

impl Remedy {
    /// The best of several of a kind, such as pauses; of those that do as much the first, which is the smallest.
    pub fn best_of(remedies: &[Remedy], kind: ChangeKind) -> Option<&Remedy> {
        let ranked = remedies.iter().filter(|remedy| remedy.kind == kind);
        ranked.filter_map(|remedy| Some((remedy.rank()?, remedy))).min_by_key(|(rank, _)| *rank).map(|(_, best)| best)
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

    /// Remedy that a change turned out to be.
    pub fn new(change: &Change, judged: Result<(Effect, Trajectory, Comparison, Problems), NotRun>) -> Remedy {
        let (effect, trajectory, against, problems, not_run) = match judged {
            Ok((effect, run, against, problems)) => (Some(effect), Some(run), Some(against), Some(problems), None),
            Err(reason) => (None, None, None, None, Some(reason)),
        };
        Remedy {
            kind: change.kind,
            change: change.name.clone(),
            effect,
            problems,
            not_run,
            think_ns: change.think.map(|think| think.0),
            time_scale: change.time_scale,
            trajectory,
            against,
        }
    }
}
