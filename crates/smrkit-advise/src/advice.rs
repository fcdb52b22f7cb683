//! The answer as data: what `--json` writes, and what the screen shows. `docs/reference/advise.md` has every key.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};
use smrkit::VERSION;
use smrkit::settings::rebuild::RebuildSpec;
use smrkit::settings::{Arrival, Settings};
use smrkit::stats::comparison::{Comparison, Effect, Problems, Trajectory};
use smrkit::stats::outcome::{Outcome, Replayed, Scalar, Scaled, State};
use smrkit::stats::verdict;
use smrkit::units::SECTOR_BYTES;

use super::Question;
use super::remedies::{Change, ChangeKind, OwnerStep};

/// The whole answer.
#[derive(Serialize)]
pub struct Advice {
    /// The version of this format.
    pub schema: u32,
    /// The answer in a few sentences.
    pub text: String,
    /// Steps that an owner can take, the most useful first.
    pub actions: Vec<Action>,
    /// Problems at the deepest depth.
    pub problems: Problems,
    /// The system as it is, at each depth.
    pub present: Vec<Present>,
    /// Changes that were tried, at the deepest depth.
    pub remedies: Vec<Remedy>,
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
    /// Settings at the deepest depth: how requests come.
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

/// The system as it is, and conventional disks in its place.
#[derive(Serialize)]
pub struct Present {
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
    /// True if it is assumed that the disk can do it.
    pub assumption: bool,
    /// Its effect; null where it was not run.
    pub effect: Option<Effect>,
    /// As in the change.
    #[serde(skip)]
    pub step: Option<OwnerStep>,
    /// Why it was not run; null where it was.
    pub not_run: Option<NotRun>,
    /// The pause after each completion; null if something else changes.
    pub think_ns: Option<u64>,
    /// The factor on the trace's times; null if something else changes.
    pub time_scale: Option<f64>,
    /// The number of requests of the demand that were served, which showed enough; null where it was all of them.
    pub first_requests: Option<u64>,
    /// The run; null where there was none.
    pub trajectory: Option<Trajectory>,
    /// The drive compared with conventional disks over the same requests, with the same pauses.
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
    /// The step, and its reason.
    pub what: String,
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
}

impl Advice {
    /// The answer from what was run, without its sentences and actions; `outcome` is the system as it is at the deepest depth.
    pub fn new(
        question: &Question,
        outcome: &Outcome,
        present: Vec<Present>,
        problems: Problems,
        remedies: Vec<Remedy>,
    ) -> Advice {
        let writes = outcome.commands.host_write;
        let written_bytes = outcome.host_written_sectors * SECTOR_BYTES;
        let complete = remedies.iter().all(|remedy| remedy.not_run != Some(NotRun::Interrupted));
        Advice {
            schema: 1,
            text: String::new(),
            actions: Vec::new(),
            problems,
            present,
            remedies,
            complete,
            demand: AdvisedDemand {
                replayed: outcome.replayed.clone(),
                requests: outcome.requests,
                read_bytes: outcome.host_read_sectors * SECTOR_BYTES,
                written_bytes,
                mean_write_bytes: (writes > 0).then(|| written_bytes as f64 / writes as f64),
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

    /// True if depths are told: at the trace's own times one decides little, unless several were asked for.
    pub fn names_depths(&self) -> bool {
        !self.is_open() || self.present.len() > 1
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
    pub fn new(
        change: &Change,
        judged: Result<(Effect, Trajectory, Comparison), NotRun>,
        first: Option<u64>,
    ) -> Remedy {
        let (effect, trajectory, against, not_run) = match judged {
            Ok((effect, run, against)) => (Some(effect), Some(run), Some(against), None),
            Err(reason) => (None, None, None, Some(reason)),
        };
        Remedy {
            kind: change.kind,
            change: change.name.clone(),
            step: change.step,
            assumption: change.is_assumed,
            effect,
            not_run,
            think_ns: change.think.map(|think| think.0),
            time_scale: change.time_scale,
            first_requests: first.filter(|_| trajectory.is_some()),
            trajectory,
            against,
        }
    }
}
