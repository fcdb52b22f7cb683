//! Options that ask for advice, and the question that they make: one parser for the command line and Python.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use smrkit::engine::rebuild::RebuildSpec;
use smrkit::engine::system::DriveRun;
use smrkit::error::Error;
use smrkit::experiment::Experiment;
use smrkit::experiment::demand::{Demand, Table};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool::{self, Monitor};
use smrkit::experiment::size::AskedCapacity;
use smrkit::experiment::system::{System, Systems};
use smrkit::interleave::SourcePlacement;
use smrkit::layer;
use smrkit::settings::{Arrival, Queue, Settings};
use smrkit::units::SECTOR_BYTES;
use smrkit_options::conditions::Conditions;
use smrkit_options::demand::DemandOptions;
use smrkit_options::system::SystemOptions;
use smrkit_options::value::count;

use super::advice::Advice;
use super::{Question, advise};

/// The layer of the drives that are sold, unless another is named.
const DEFAULT_LAYER: &str = "drive-managed";
/// Sectors of the part of a disk on which a rebuild is run: 20 GB.
const PART_SECTORS: u64 = 20_000_000_000 / SECTOR_BYTES;
/// Depths of a program that waits for each request, of a rebuild, and of a queue that is full (SATA has 32).
const DEFAULT_DEPTHS: [u32; 3] = [1, 10, 32];

/// Options of a question.
#[derive(Args, Clone)]
#[command(mut_arg("layer", |arg| arg.help("The layer. See smrkit layers [default: drive-managed]").value_name("NAME")))]
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
    /// Commands outstanding, with commas between. Changes are tried at the deepest [default: 1,10,32].
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
}

impl AdviseOptions {
    /// Looks up what was asked for; `has_table` if the demand is a table in memory. Errors: options that make no sense, alone or
    /// together.
    pub fn ask(&self, has_table: bool) -> Result<AskedAdvice<'_>, Error> {
        self.check()?;
        let depths = self.depths()?;
        let settings = depths.last().copied().unwrap_or_default();
        let mut system = System {
            set: self.set.clone(),
            default_layers: vec![layer::find(DEFAULT_LAYER)?],
            rebuild: self.rebuild,
            ..self.system.asked(self.conditions.capacity)?
        };
        let placement = self.demand.check_array(system.array.as_ref())?;
        let mut systems = Systems::new(&system)?;
        check_one(systems.count())?;
        let whole_disk_bytes = if has_table { None } else { self.whole_disk_bytes(&systems, settings)? };
        if whole_disk_bytes.is_some() {
            system.capacity = Some(AskedCapacity::Sectors(PART_SECTORS));
            systems = Systems::new(&system)?;
        }
        Ok(AskedAdvice { options: self, depths, system, systems, placement, whole_disk_bytes })
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

    /// Size of a disk of which only a part is rebuilt: where no trace needs all of it, and no size was asked for.
    fn whole_disk_bytes(&self, systems: &Systems, settings: Settings) -> Result<Option<u64>, Error> {
        if self.rebuild.is_none() || !self.demand.trace.is_empty() || self.conditions.capacity.is_some() {
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

impl AskedAdvice<'_> {
    /// Files that are read for it.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.systems.files().chain(self.options.system.files()).chain(self.options.demand.files())
    }

    /// The traces and workloads that were named; nothing is asked of disks that are rebuilt alone.
    pub fn demand(&self) -> Result<Arc<dyn Demand>, Error> {
        let demand = &self.options.demand;
        match self.options.rebuild.is_some() && demand.count() == 0 {
            true => Ok(Arc::new(Table(Arc::new([])))),
            false => Ok(Arc::from(demand.open(&self.options.conditions, self.placement)?)),
        }
    }

    /// The answer for `demand`; `None` if an interrupt came before there was one.
    pub fn answer(self, demand: Arc<dyn Demand>, monitor: &dyn Monitor) -> Result<Option<Advice>, Error> {
        let settings = self.depths.last().copied().into_iter().collect();
        let experiment = Experiment { system: self.system, demand, settings };
        let question = Question {
            run: sized(&experiment, &self.systems, monitor)?,
            demand: experiment.demand.as_ref(),
            depths: &self.depths,
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
