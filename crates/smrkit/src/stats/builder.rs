//! The one place where an [`Outcome`] is made: of what the drives show, what the host saw, and what was asked for.

use std::collections::BTreeMap;
use std::ops::Add;

use super::command_times::CommandTimes;
use super::counts::HostSide;
use super::outcome::{Outcome, PowerCut, RunRecord, Scaled, State, Verdict};
use super::physical::{ByCause, Cleaning, Commands, Movement, Surface};
use super::rebuild::Rebuild;
use super::replayed::Replayed;
use super::sums::{add_stats, common, write_amplification, write_overloading};
use super::verdict::sentence;
use super::verdict_counts::VerdictCounts;
use crate::layer::{Capacity, LayerStats, Scalar};
use crate::settings::Settings;

/// Name where drives have none in common.
const MIXED: &str = "mixed";

/// Everything that an outcome is made of; the default is a run that asked for nothing on nothing.
#[derive(Default)]
pub(crate) struct OutcomeBuilder {
    /// Names of the system.
    pub names: RunNames,
    /// Physical state of the drives.
    pub physical: Physical,
    /// Figures on the host's side.
    pub host: HostSide,
    /// The request for the run.
    pub asked: RunRequest,
    /// The description of an array.
    pub array: Option<String>,
    /// Why the drives have more platters than their own.
    pub scaled: Option<Scaled>,
    /// The requests; nothing of those from memory.
    pub replayed: Replayed,
    /// Number of runs that were merged.
    pub merged_runs: Option<u64>,
    /// Counts of their verdicts.
    pub merged_verdicts: Option<VerdictCounts>,
    /// True if requests were left.
    pub interrupted: bool,
    /// The power cut.
    pub power_cut: Option<PowerCut>,
    /// The drives of an array.
    pub members: Vec<OutcomeBuilder>,
    /// The array's own work.
    pub rebuild: Option<Rebuild>,
}

/// Names of a drive and its layer, or those that the drives of an array have in common.
#[derive(Default)]
pub(crate) struct RunNames {
    /// The layer's.
    pub layer: String,
    /// The drive's.
    pub drive: String,
    /// The drive file's.
    pub drive_file: Option<String>,
    /// The layer's parameters.
    pub parameters: BTreeMap<String, Scalar>,
    /// Parameters that were asked for in another form.
    pub asked: BTreeMap<String, Scalar>,
}

/// Settings, and what else was asked for.
#[derive(Default)]
pub(crate) struct RunRequest {
    /// Arrivals, queue, seed.
    pub engine: Settings,
    /// The disk when counting began.
    pub state: State,
    /// Record from which the run can be repeated.
    pub run: RunRecord,
    /// smrkit's version.
    pub version: String,
    /// The commit that it was built from.
    pub commit: Option<String>,
}

/// Physical state of a drive, or of several together.
#[derive(Default)]
pub(crate) struct Physical {
    /// Sectors read.
    pub read_sectors: ByCause,
    /// Sectors written.
    pub written_sectors: ByCause,
    /// Busy time.
    pub busy_by_cause_ns: ByCause,
    /// Commands, physical ones only.
    pub commands: Commands,
    /// The physical commands by Cassuto's count.
    pub adjusted: Commands,
    /// Busy time, total.
    pub busy_ns: u64,
    /// In addition to it, the drive's time for writes from its own buffer.
    pub buffer_write_ns: Option<u64>,
    /// Memory of maps.
    pub map_bytes: u64,
    /// Stretches of cleaning.
    pub cleaning: Cleaning,
    /// Use of the sectors.
    pub capacity: Capacity,
    /// Places of the writes.
    pub surface: Surface,
    /// The head's movements.
    pub movement: Option<Movement>,
    /// The layer's counters.
    pub layer_stats: LayerStats,
    /// Times of the commands, as a timeout sees them.
    pub command_times: CommandTimes,
}

impl OutcomeBuilder {
    /// The outcome, which says what can be said without a comparison.
    pub fn finish(self) -> Outcome {
        let is_rebuild = self.rebuild.is_some();
        self.finish_next_to(is_rebuild)
    }

    /// The outcome of a run with or without a rebuild, whose writes are not the host's writes amplified.
    fn finish_next_to(self, is_rebuild: bool) -> Outcome {
        let OutcomeBuilder { names, physical, host, asked, .. } = self;
        let adjusted = both(host.totals.adjusted, physical.adjusted);
        let (overloading, amplification) = match is_rebuild {
            true => (None, None),
            false => (
                write_overloading(&adjusted),
                write_amplification(&physical.written_sectors, host.totals.written_sectors),
            ),
        };
        let latency_ns = host.latency.summary();
        let mut outcome = Outcome {
            layer: names.layer,
            drive: names.drive,
            drive_file: names.drive_file,
            array: self.array,
            parameters: names.parameters,
            asked: names.asked,
            scaled: self.scaled,
            engine: asked.engine,
            state: asked.state,
            seed: asked.engine.seed,
            run: asked.run,
            version: asked.version,
            commit: asked.commit,
            replayed: self.replayed,
            merged_runs: self.merged_runs,
            merged_verdicts: self.merged_verdicts,
            interrupted: self.interrupted,
            requests: host.totals.requests,
            host_read_sectors: host.totals.read_sectors,
            host_written_sectors: host.totals.written_sectors,
            physical_read_sectors: physical.read_sectors,
            physical_written_sectors: physical.written_sectors,
            busy_by_cause_ns: physical.busy_by_cause_ns,
            commands: both(host.totals.commands, physical.commands),
            adjusted,
            write_overloading: overloading,
            write_amplification: amplification,
            slowdown: None,
            latency_ns,
            wait_ns: host.totals.wait_ns,
            service_ns: host.totals.service_ns,
            busy_ns: physical.busy_ns,
            buffer_write_ns: physical.buffer_write_ns,
            elapsed_ns: host.elapsed_ns,
            arrivals_ns: host.arrivals_ns,
            map_bytes: physical.map_bytes,
            cleaning: physical.cleaning,
            capacity: physical.capacity,
            verdict: Verdict { commands: physical.command_times, ..host.verdict(latency_ns.all.max) },
            timeline: host.timeline,
            surface: physical.surface,
            latency_histogram: host.latency.histograms(),
            latency_buckets: host.latency.buckets(),
            by_source: host.by_source,
            movement: physical.movement,
            layer_stats: physical.layer_stats,
            power_cut: self.power_cut,
            members: self.members.into_iter().map(|member| member.finish_next_to(is_rebuild)).collect(),
            rebuild: self.rebuild,
        };
        outcome.verdict.text = sentence(&outcome);
        outcome
    }
}

/// The host's commands with those that the platters saw.
fn both(host: Commands, physical: Commands) -> Commands {
    Commands { physical_read: physical.physical_read, physical_write: physical.physical_write, ..host }
}

impl RunNames {
    /// The names of an outcome.
    pub fn from_outcome(outcome: &Outcome) -> RunNames {
        RunNames {
            layer: outcome.layer.clone(),
            drive: outcome.drive.clone(),
            drive_file: outcome.drive_file.clone(),
            parameters: outcome.parameters.clone(),
            asked: outcome.asked.clone(),
        }
    }

    /// Names that all drives of an array have in common.
    pub fn common(drives: &[&RunNames]) -> RunNames {
        let name = |of: fn(&RunNames) -> &String| common(drives, of).cloned().unwrap_or_else(|| MIXED.into());
        let parameters = common(drives, |names| &names.parameters);
        let asked = drives.first().filter(|_| parameters.is_some()).map(|first| first.asked.clone());
        RunNames {
            layer: name(|names| &names.layer),
            drive: name(|names| &names.drive),
            drive_file: common(drives, |names| &names.drive_file).cloned().flatten(),
            parameters: parameters.cloned().unwrap_or_default(),
            asked: asked.unwrap_or_default(),
        }
    }
}

impl Physical {
    /// Physical state in a run that has an outcome.
    pub fn from_outcome(outcome: &Outcome) -> Physical {
        Physical {
            read_sectors: outcome.physical_read_sectors,
            written_sectors: outcome.physical_written_sectors,
            busy_by_cause_ns: outcome.busy_by_cause_ns,
            commands: outcome.commands,
            adjusted: outcome.adjusted,
            busy_ns: outcome.busy_ns,
            buffer_write_ns: outcome.buffer_write_ns,
            map_bytes: outcome.map_bytes,
            cleaning: outcome.cleaning,
            capacity: outcome.capacity,
            surface: outcome.surface.clone(),
            movement: outcome.movement,
            layer_stats: outcome.layer_stats.clone(),
            command_times: outcome.verdict.commands,
        }
    }

    /// Physical state of several drives together, or of one in several runs. Times are sums; a surface that all share there is not.
    pub fn sum(all: &[&Physical]) -> Physical {
        let causes = |of: fn(&Physical) -> ByCause| all.iter().map(|one| of(one)).fold(ByCause::default(), Add::add);
        let commands =
            |of: fn(&Physical) -> Commands| all.iter().map(|one| of(one)).fold(Commands::default(), Add::add);
        Physical {
            read_sectors: causes(|one| one.read_sectors),
            written_sectors: causes(|one| one.written_sectors),
            busy_by_cause_ns: causes(|one| one.busy_by_cause_ns),
            commands: commands(|one| one.commands),
            adjusted: commands(|one| one.adjusted),
            busy_ns: all.iter().map(|one| one.busy_ns).sum(),
            buffer_write_ns: all.iter().filter_map(|one| one.buffer_write_ns).reduce(Add::add),
            map_bytes: all.iter().map(|one| one.map_bytes).sum(),
            cleaning: all.iter().map(|one| one.cleaning).fold(Cleaning::default(), Add::add),
            capacity: all.iter().map(|one| one.capacity).fold(Capacity::default(), Add::add),
            surface: Surface::default(),
            movement: all.iter().filter_map(|one| one.movement).reduce(Add::add),
            layer_stats: add_stats(all.iter().map(|one| &one.layer_stats)),
            command_times: all.iter().map(|one| one.command_times).fold(CommandTimes::default(), Add::add),
        }
    }
}

impl Outcome {
    /// The outcome of a run that asked for nothing on nothing.
    pub fn blank() -> Outcome {
        OutcomeBuilder::default().finish()
    }
}
