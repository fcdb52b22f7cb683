//! `smrkit advise`: what a demand meets on one drive or array, and which change would fix it, each shown by a run.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use smrkit::engine::rebuild::RebuildSpec;
use smrkit::engine::system::DriveRun;
use smrkit::error::Error;
use smrkit::experiment::Experiment;
use smrkit::experiment::demand::{Demand, Table};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool;
use smrkit::experiment::size::AskedCapacity;
use smrkit::experiment::system::{System, Systems};
use smrkit::layer;
use smrkit::settings::{Arrival, Queue, Settings};
use smrkit::units::SECTOR_BYTES;
use smrkit_advise::{Question, advise, screen};

use super::trace::warn;
use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::output::target::Target;
use crate::output::{JsonTarget, Paths, print};
use crate::remedy::option;
use crate::style;
use smrkit_options::conditions::Conditions;
use smrkit_options::demand::DemandOptions;
use smrkit_options::system::SystemOptions;
use smrkit_options::value::count;

/// The layer of the drives that are sold, unless another is named.
const DEFAULT_LAYER: &str = "drive-managed";
/// Sectors of the part of a disk on which a rebuild is run: 20 GB.
const PART_SECTORS: u64 = 20_000_000_000 / SECTOR_BYTES;
/// Depths of a program that waits for each request, of a rebuild, and of a queue that is full (SATA has 32).
const DEFAULT_DEPTHS: [u32; 3] = [1, 10, 32];

const EXAMPLES: &str = "\
Examples:
  smrkit advise --workload random-write:count=100k             a drive-managed disk of 5 TB under random writes
  smrkit advise --trace trace.csv.gz --fold                    a trace of yours
  smrkit advise --trace trace.csv --arrival trace              the same at its own times
  smrkit advise --array raid5:disks=4 --workload mix:count=50k --depth 1,32
  smrkit advise --array raidz1:disks=4 --rebuild resilver      how long a resilver takes, and whether it ends

The answer is for the deepest of the depths; docs/reference/advise.md says what is tried and what the words mean.
Exit codes: 0 done, 1 anything else, 2 usage, 3 bad input, 4 impossible configuration, 130 interrupted.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("layer", |arg| arg.help("The layer (see smrkit layers) [default: drive-managed]").value_name("NAME")))]
pub struct Advise {
    #[command(flatten)]
    system: SystemOptions,
    /// A member of the array fails and is rebuilt: rebuild (as md does), resilver (as ZFS does), or keys as smrkit run takes them.
    #[arg(long, value_name = "SPEC", value_parser = RebuildSpec::parse, requires = "array")]
    rebuild: Option<RebuildSpec>,
    #[command(flatten)]
    demand: DemandOptions,
    /// A parameter: LAYER.KEY=VALUE.
    #[arg(long, value_name = "LAYER.KEY=VALUE")]
    set: Vec<String>,
    /// Commands outstanding, with commas between; changes are tried at the deepest [default: 1,10,32].
    #[arg(long, value_parser = count::<u32>, value_delimiter = ',', value_name = "N1,N2")]
    depth: Vec<u32>,
    #[command(flatten)]
    conditions: Conditions,
    /// Try all translation layers too: no shop sells a drive by its layer.
    #[arg(long)]
    all: bool,
    /// Write the answer as JSON; - is standard output.
    #[arg(long, value_name = "OUT|-")]
    json: Option<PathBuf>,
    /// Write the answer as one HTML page that opens offline.
    #[arg(long, value_name = "OUT.html")]
    report: Option<PathBuf>,
}

impl Advise {
    pub fn execute(self) -> anyhow::Result<Done> {
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
        self.check_one(systems.count())?;
        let whole_disk_bytes = self.whole_disk_bytes(&systems, settings)?;
        if whole_disk_bytes.is_some() {
            system.capacity = Some(AskedCapacity::Sectors(PART_SECTORS));
            systems = Systems::new(&system)?;
        }
        let outputs = self.open(&systems)?;
        let demand: Arc<dyn Demand> = match self.rebuild.is_some() && self.demand.count() == 0 {
            true => Arc::new(Table(Arc::new([]))),
            false => Arc::from(self.demand.open(&self.conditions, placement)?),
        };
        let experiment = Experiment { system, demand, settings: vec![settings] };
        let run = sized(&experiment, &systems)?;
        let question = Question {
            run,
            demand: experiment.demand.as_ref(),
            depths: &depths,
            sources: self.demand.count().max(1),
            all: self.all,
            whole_disk_bytes,
            names: option,
        };
        answer(&question, outputs)
    }

    /// The size of a disk that is rebuilt, where a part of it is enough: no trace needs it all, and no size was asked for.
    fn whole_disk_bytes(&self, systems: &Systems, settings: Settings) -> Result<Option<u64>, Error> {
        if self.rebuild.is_none() || !self.demand.trace.is_empty() || self.conditions.capacity.is_some() {
            return Ok(None);
        }
        let whole = systems.runs(&[settings], None)?.pop();
        let members = whole.iter().flat_map(|run| run.run.system.drives());
        let sectors = members.map(DriveRun::host_sectors).collect::<Result<Vec<u64>, _>>()?.into_iter().min();
        Ok(sectors.filter(|&sectors| sectors > PART_SECTORS).map(|sectors| sectors * SECTOR_BYTES))
    }

    /// Opens the outputs, once it is known that none is an input.
    fn open(&self, systems: &Systems) -> anyhow::Result<AdviceOutputs> {
        let mut paths = Paths { outputs: self.json.iter().chain(&self.report).cloned().collect(), ..Paths::default() };
        paths.inputs.extend(systems.files().chain(self.system.files()).chain(self.demand.files()));
        paths.check()?;
        let interrupt = Interrupt::watch();
        let _opening = paths.opening(&interrupt);
        Ok((
            self.json.as_deref().map(JsonTarget::open).transpose()?,
            self.report.as_ref().map(Target::open).transpose()?,
        ))
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

    fn check(&self) -> Result<(), Error> {
        self.demand.check(self.conditions.arrival)?;
        if self.system.layer.len() > 1 {
            return Err(Error::Usage(format!(
                "{} layers, but advise looks at one drive or array: name one, or compare layers with smrkit run",
                self.system.layer.len()
            )));
        }
        Ok(())
    }

    fn check_one(&self, plans: usize) -> Result<(), Error> {
        match plans {
            0 | 1 => Ok(()),
            count => Err(Error::Usage(format!(
                "the values of --set make {count} systems, but advise looks at one: give one value each, or compare them \
                 with smrkit run"
            ))),
        }
    }
}

/// Outputs besides the terminal.
type AdviceOutputs = (Option<JsonTarget>, Option<Target>);

fn answer(question: &Question, (json, report): AdviceOutputs) -> anyhow::Result<Done> {
    let interrupt = Interrupt::watch();
    let Some(advice) = advise(question, &interrupt)? else {
        eprintln!("smrkit: interrupted before the drive as it is was known: no answer");
        return Ok(Done::Interrupted);
    };
    interrupt.writing();
    warn(advice.demand.replayed.trace_notes);
    if !matches!(json, Some(JsonTarget::Stdout)) {
        print(screen::text(&advice, style::is_coloured()))?;
    }
    json.map_or(Ok(()), |json| json.write(&advice))?;
    report.map_or(Ok(()), |report| report.write(screen::page(&advice).as_bytes()))?;
    Ok(if advice.complete { Done::All } else { Done::Interrupted })
}

/// The one run, on drives that hold the demand; where they had to be made larger, with a margin for the changes tried.
fn sized(experiment: &Experiment, systems: &Systems) -> Result<PlannedRun, Error> {
    let demand = experiment.demand.as_ref();
    let needed = pool::make_one(&Interrupt::watch(), "reading the trace", |_| {
        demand.look_for_volumes()?;
        experiment.needed_sectors()
    })?;
    let mut runs = systems.runs(&experiment.settings, needed)?;
    if runs.iter().any(|run| run.scaled.is_some()) {
        runs = systems.runs(&experiment.settings, needed.map(with_margin))?;
    }
    runs.pop().ok_or_else(|| Error::Usage("nothing to look at: name a --layer".into()))
}

/// An eighth more than a trace needs: other layers, which are tried on a drive made larger for it, may offer less.
fn with_margin(sectors: u64) -> u64 {
    sectors + sectors / 8
}
