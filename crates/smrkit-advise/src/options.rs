//! Options that ask for advice, and the question that they make: one parser for the command line and Python.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use smrkit::device::spec::{ArraySpec, MemberSpec};
use smrkit::drive::Drive;
use smrkit::engine::rebuild::RebuildSpec;
use smrkit::engine::system::DriveRun;
use smrkit::error::Error;
use smrkit::experiment::Experiment;
use smrkit::experiment::demand::{Demand, GeneratedDemand, Table};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool::{self, Monitor};
use smrkit::experiment::size::AskedCapacity;
use smrkit::experiment::system::{DEFAULT_DRIVE, System, Systems};
use smrkit::interleave::SourcePlacement;
use smrkit::layer;
use smrkit::settings::{Arrival, Queue, Settings};
use smrkit::units::{Nanos, SECTOR_BYTES};
use smrkit::workload::Workload;
use smrkit_options::conditions::Conditions;
use smrkit_options::demand::DemandOptions;
use smrkit_options::system::SystemOptions;
use smrkit_options::value::count;

use crate::advice::Advice;
use crate::{Load, LoadKind, Question, advise};

/// The layers of drives as they are sold, unless another is named.
const DRIVE_MANAGED: &str = "drive-managed";
const HOST_MANAGED: &str = "zoned";
/// Light use of an array that is rebuilt, for longer than any rebuild lasts: small requests by some users, each of whom waits for an
/// answer before he asks again a second later. By times of their own a backlog would grow for ever on drives that can't keep up, and
/// the rebuild would never end.
const LIGHT_USE: &str = "mix:size=4Ki,write_share=0.5,count=1G";
const LIGHT_USERS: u32 = 20;
const LIGHT_PAUSE: Nanos = Nanos(1_000_000_000);
/// Sectors of the part of a disk on which a rebuild is run: 20 GB.
const PART_SECTORS: u64 = 20_000_000_000 / SECTOR_BYTES;
/// Depths of a program that waits for each request, of a rebuild, and of a queue that is full (SATA has 32).
const DEFAULT_DEPTHS: [u32; 3] = [1, 10, 32];

/// Options of a question.
#[derive(Args, Clone)]
#[command(mut_arg("layer", |arg| arg.help("The layer. See smrkit layers [default: that of the drive as it is sold]").value_name("NAME")))]
pub struct AdviseOptions {
    #[command(flatten)]
    system: SystemOptions,
    /// A rebuild: rebuild (as md does), resilver (as ZFS does) or key=value,….
    #[arg(long, value_name = "SPEC", value_parser = RebuildSpec::parse, requires = "array")]
    rebuild: Option<RebuildSpec>,
    #[command(flatten)]
    demand: DemandOptions,
    /// A parameter.
    #[arg(long, value_name = "LAYER.KEY=VALUE")]
    set: Vec<String>,
    /// Commands outstanding, with commas between. Changes are tried at that where it does worst [default: 1,10,32].
    #[arg(long, value_parser = count::<u32>, value_delimiter = ',', value_name = "N1,N2")]
    depth: Vec<u32>,
    #[command(flatten)]
    conditions: Conditions,
    /// Try all translation layers too. No shop sells a drive by its layer.
    #[arg(long)]
    all: bool,
}

/// A question whose names were looked up, with nothing read yet.
pub struct AskedAdvice<'a> {
    options: &'a AdviseOptions,
    depths: Vec<Settings>,
    system: System,
    systems: Systems,
    placement: SourcePlacement,
    whole_disk_bytes: Option<u64>,
    /// True if the load is for advise to choose: nothing but a rebuild was asked for.
    is_rebuild_alone: bool,
}

impl AdviseOptions {
    /// Looks up what was asked for; `has_table` if the demand is a table in memory. Errors: options that make no sense, alone or
    /// together.
    pub fn ask(&self, has_table: bool) -> Result<AskedAdvice<'_>, Error> {
        self.check()?;
        let depths = self.depths()?;
        let settings = depths.last().copied().unwrap_or_default();
        let mut system =
            System { set: self.set.clone(), rebuild: self.rebuild, ..self.system.asked(self.conditions.capacity)? };
        system.default_layers = vec![layer::find(layer_as_sold(&system)?)?];
        let placement = self.demand.check_array(system.array.as_ref())?;
        let mut systems = Systems::new(&system)?;
        check_one(systems.count())?;
        let whole_disk_bytes = if has_table { None } else { self.whole_disk_bytes(&systems, settings)? };
        if whole_disk_bytes.is_some() {
            system.capacity = Some(AskedCapacity::Sectors(PART_SECTORS));
            systems = Systems::new(&system)?;
        }
        let is_rebuild_alone = self.rebuild.is_some() && self.demand.count() == 0 && !has_table;
        Ok(AskedAdvice { options: self, depths, system, systems, placement, whole_disk_bytes, is_rebuild_alone })
    }

    fn check(&self) -> Result<(), Error> {
        self.demand.check(self.conditions.arrival)?;
        match self.system.layer.len() {
            0 | 1 => Ok(()),
            count => Err(Error::Usage(format!(
                "{count} layers, but advise looks at one drive or array: name one, or compare them in a run"
            ))),
        }
    }

    /// The settings of each depth, from the shallowest on.
    fn depths(&self) -> Result<Vec<Settings>, Error> {
        let mut depths = match self.depth.as_slice() {
            [] if self.rebuild.is_some() => vec![1],
            [] => DEFAULT_DEPTHS.to_vec(),
            own => own.to_vec(),
        };
        depths.sort_unstable();
        depths.dedup();
        let first = self.conditions.settings(1);
        // A queue that orders needs more than one command.
        if self.depth.is_empty() && matches!(first.queue, Queue::Elevator | Queue::Sptf) {
            depths.retain(|&depth| depth > 1);
        }
        // By the trace's times, what comes first is served first whatever the depth.
        if first.arrival == Arrival::Trace && matches!(first.queue, Queue::Fcfs | Queue::Drive) {
            depths.drain(..depths.len() - 1);
        }
        let all: Vec<Settings> = depths.into_iter().map(|depth| self.conditions.settings(depth)).collect();
        all.iter().try_for_each(Settings::validate)?;
        Ok(all)
    }

    /// Size of a disk of which only a part is rebuilt: where no trace needs all of it.
    fn whole_disk_bytes(&self, systems: &Systems, settings: Settings) -> Result<Option<u64>, Error> {
        if self.rebuild.is_none() || !self.demand.trace.is_empty() {
            return Ok(None);
        }
        let whole = systems.runs(&[settings], None)?.pop();
        let members = whole.iter().flat_map(|run| run.system().drives());
        let sectors = members.map(DriveRun::host_sectors).collect::<Result<Vec<u64>, _>>()?.into_iter().min();
        Ok(sectors.filter(|&sectors| sectors > PART_SECTORS).map(|sectors| sectors * SECTOR_BYTES))
    }
}

fn check_one(systems: usize) -> Result<(), Error> {
    match systems {
        0 | 1 => Ok(()),
        count => Err(Error::Usage(format!(
            "the values of {{set}} make {count} systems, but advise looks at one: give one value each, or compare them \
             in a run"
        ))),
    }
}

/// The layer that drives are sold with, where none is named: host-managed disks translate nothing.
fn layer_as_sold(system: &System) -> Result<&'static str, Error> {
    let default = DEFAULT_DRIVE.to_string();
    let mut names: Vec<Option<&String>> = Vec::new();
    match &system.array {
        None => names.push(system.drives.first()),
        Some(array) => names_without_layer(array, &mut names),
    }
    let mut host_managed = Vec::new();
    for name in &names {
        let name = name.or(system.drives.first()).unwrap_or(&default);
        let drive = match system.given.get(name) {
            Some(drive) => drive.clone(),
            None => Drive::load(name)?,
        };
        host_managed.push(drive.host_managed.is_some() && drive.drive_managed.is_none());
    }
    match (system.layers.is_empty(), host_managed.contains(&true), host_managed.contains(&false)) {
        (true, true, true) => Err(Error::Usage(
            "some of these disks are host-managed, others not: give each a layer= of its own in the {array}".into(),
        )),
        (true, true, false) => Ok(HOST_MANAGED),
        _ => Ok(DRIVE_MANAGED),
    }
}

/// The drives of an array that have no layer of their own, by name where they have one.
fn names_without_layer<'a>(array: &'a ArraySpec, names: &mut Vec<Option<&'a String>>) {
    for member in &array.members {
        match member {
            MemberSpec::Drive(drive) if drive.layer.is_none() => names.push(drive.drive.as_ref()),
            MemberSpec::Drive(_) => {}
            MemberSpec::Array(array) => names_without_layer(array, names),
        }
    }
}

impl AskedAdvice<'_> {
    /// Sentences on the drives that stand for models which have none of their own.
    pub fn stand_ins(&self) -> impl Iterator<Item = String> {
        self.systems.stand_ins()
    }

    /// Files that are read for it.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.systems.files().chain(self.options.system.files()).chain(self.options.demand.files())
    }

    /// The traces and workloads that were named; light use, where there is nothing but a rebuild.
    pub fn demand(&self) -> Result<Arc<dyn Demand>, Error> {
        match self.is_rebuild_alone {
            true => Ok(Arc::new(GeneratedDemand::from(Workload::parse(LIGHT_USE)?))),
            false => Ok(Arc::from(self.options.demand.open(&self.options.conditions, self.placement)?)),
        }
    }

    /// The loads under which the system is looked at: that of the question at each depth, and before it none where there is a rebuild.
    fn loads(&self, demand: &Arc<dyn Demand>) -> Vec<Load> {
        let mut loads = Vec::new();
        let first = self.depths.first().copied().unwrap_or_default();
        let flat_out = Settings { arrival: Arrival::FlatOut, think: Nanos::ZERO, time_scale: 1.0, ..first };
        if self.options.rebuild.is_some() {
            let nothing: Arc<dyn Demand> = Arc::new(Table(Arc::new([])));
            loads.push(Load { kind: LoadKind::Unused, demand: nothing, settings: flat_out });
        }
        let load = |kind, settings| Load { kind, demand: Arc::clone(demand), settings };
        match self.is_rebuild_alone {
            true => loads.push(load(LoadKind::Light, Settings { depth: LIGHT_USERS, think: LIGHT_PAUSE, ..flat_out })),
            false => loads.extend(self.depths.iter().map(|&settings| load(LoadKind::Asked, settings))),
        }
        loads
    }

    /// The answer for `demand`; `None` if an interrupt came before there was one.
    pub fn answer(self, demand: Arc<dyn Demand>, monitor: &dyn Monitor) -> Result<Option<Advice>, Error> {
        let loads = self.loads(&demand);
        let settings = self.depths.last().copied().into_iter().collect();
        let experiment = Experiment { system: self.system, demand, settings };
        let question = Question {
            run: sized(&experiment, &self.systems, monitor)?,
            loads,
            sources: self.options.demand.count().max(1),
            all: self.options.all,
            whole_disk_bytes: self.whole_disk_bytes,
        };
        advise(&question, monitor)
    }
}

/// The one run, on drives that hold the demand; where they had to be made larger, with a margin for the changes tried.
fn sized(experiment: &Experiment, systems: &Systems, monitor: &dyn Monitor) -> Result<PlannedRun, Error> {
    let needed = pool::make_one(monitor, "reading the trace", |_| {
        experiment.demand.look_for_volumes()?;
        experiment.needed_sectors()
    })?;
    let mut runs = systems.runs(&experiment.settings, needed)?;
    if runs.iter().any(|run| run.scaled.is_some()) {
        runs = systems.runs(&experiment.settings, needed.map(with_margin))?;
    }
    let nothing = || Error::Usage("nothing to look at: name a {layer}".into());
    runs.pop().ok_or_else(nothing)
}

/// An eighth more than a trace needs: other layers, which are tried on a drive made larger for it, may offer less.
fn with_margin(sectors: u64) -> u64 {
    sectors + sectors / 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use smrkit_options::pairs;

    #[test]
    fn a_rebuild_beside_a_table_is_one_of_whole_disks() {
        let words =
            [("array", "raid1:disks=2"), ("rebuild", "resilver")].map(|(name, value)| (name.into(), value.into()));
        let options: AdviseOptions = pairs::read(&words, &|name| name.to_string()).unwrap();
        let part = |has_table| options.ask(has_table).unwrap().whole_disk_bytes.is_some();
        assert_eq!((part(false), part(true)), (true, false));
    }
}
