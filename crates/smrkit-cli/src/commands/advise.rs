//! `smrkit advise`: what a demand meets on one drive or array, and which change would fix it, each shown by a run.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use smrkit::error::Error;
use smrkit::experiment::Experiment;
use smrkit::experiment::demand::Demand;
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool;
use smrkit::experiment::system::{System, Systems};
use smrkit::layer;
use smrkit::settings::{Arrival, Queue, Settings};
use smrkit_advise::{Question, advise, screen};

use super::trace::warn;
use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::options::conditions::Conditions;
use crate::options::demand::DemandOptions;
use crate::options::system::SystemOptions;
use crate::options::value::count;
use crate::output::{JsonTarget, Paths, print};
use crate::remedy::option;

/// The layer of the drives that are sold, unless another is named.
const DEFAULT_LAYER: &str = "drive-managed";
/// Depths of a program that waits for each answer, of a rebuild, and of a queue that is full (SATA has 32).
const DEFAULT_DEPTHS: [u32; 3] = [1, 10, 32];

const EXAMPLES: &str = "\
Examples:
  smrkit advise --workload random-write:count=100k             a drive-managed disk of 5 TB under random writes
  smrkit advise --trace trace.csv.gz --fold                    a trace of yours
  smrkit advise --trace trace.csv --arrival trace              the same at its own times
  smrkit advise --array raid5:disks=4 --workload mix:count=50k --depth 1,32

The answer is for the deepest of the depths; docs/reference/advise.md says what is tried and what the words mean.
Exit codes: 0 done, 1 anything else, 2 usage, 3 bad input, 4 impossible configuration, 130 interrupted.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("layer", |arg| arg.help("The layer (see smrkit layers) [default: drive-managed]").value_name("NAME")))]
pub struct Advise {
    #[command(flatten)]
    system: SystemOptions,
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
    /// Write the answer as JSON; - is standard output.
    #[arg(long, value_name = "OUT|-")]
    json: Option<PathBuf>,
}

impl Advise {
    pub fn execute(self) -> anyhow::Result<Done> {
        self.check()?;
        let depths = self.depths()?;
        let system = System {
            set: self.set.clone(),
            default_layers: vec![layer::find(DEFAULT_LAYER)?],
            ..self.system.asked(self.conditions.capacity)?
        };
        let placement = self.demand.check_array(system.array.as_ref())?;
        let systems = Systems::new(&system)?;
        self.check_one(systems.count())?;
        let json = self.open(&systems)?;
        let demand = Arc::from(self.demand.open(&self.conditions, placement)?);
        let settings = depths.last().copied().unwrap_or_default();
        let experiment = Experiment { system, demand, settings };
        let run = sized(&experiment, &systems)?;
        self.answer(run, &depths, experiment.demand.as_ref(), json)
    }

    fn answer(
        &self,
        run: PlannedRun,
        depths: &[Settings],
        demand: &dyn Demand,
        json: Option<JsonTarget>,
    ) -> anyhow::Result<Done> {
        let interrupt = Interrupt::watch();
        let question = Question { run, demand, depths, sources: self.demand.count().max(1), names: option };
        let Some(advice) = advise(&question, &interrupt)? else {
            eprintln!("smrkit: interrupted before the drive as it is was known: no answer");
            return Ok(Done::Interrupted);
        };
        interrupt.writing();
        warn(advice.demand.replayed.trace_notes);
        match json {
            None => print(screen::text(&advice))?,
            Some(target) => {
                if let JsonTarget::File(_) = target {
                    print(screen::text(&advice))?;
                }
                target.write(&advice)?;
            }
        }
        Ok(if advice.complete { Done::All } else { Done::Interrupted })
    }

    /// Opens the output, once it is known that it is no input.
    fn open(&self, systems: &Systems) -> anyhow::Result<Option<JsonTarget>> {
        let mut paths = Paths { outputs: self.json.iter().cloned().collect(), ..Paths::default() };
        paths.inputs.extend(systems.files().chain(self.system.files()).chain(self.demand.files()));
        paths.check()?;
        let interrupt = Interrupt::watch();
        let _opening = paths.opening(&interrupt);
        Ok(self.json.as_deref().map(JsonTarget::open).transpose()?)
    }

    /// The settings of each depth, from the shallowest on.
    fn depths(&self) -> Result<Vec<Settings>, Error> {
        let mut depths = match self.depth.as_slice() {
            [] => DEFAULT_DEPTHS.to_vec(),
            own => own.to_vec(),
        };
        depths.sort_unstable();
        depths.dedup();
        let first = self.conditions.settings(1);
        // A queue that orders needs more than one command.
        if self.depth.is_empty() && first.queue != Queue::Fcfs {
            depths.retain(|&depth| depth > 1);
        }
        // By the trace's times, what comes first is served first whatever the depth.
        if first.arrival == Arrival::Trace && first.queue == Queue::Fcfs {
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

/// The one run, on drives that hold the demand; where they had to be made larger, with a margin for the changes tried.
fn sized(experiment: &Experiment, systems: &Systems) -> Result<PlannedRun, Error> {
    let demand = experiment.demand.as_ref();
    let needed = pool::make_one(&Interrupt::watch(), "reading the trace", |_| {
        demand.look_for_volumes()?;
        experiment.needed_sectors()
    })?;
    let mut runs = systems.runs(experiment.settings, needed)?;
    if runs.iter().any(|run| run.scaled.is_some()) {
        runs = systems.runs(experiment.settings, needed.map(with_margin))?;
    }
    runs.pop().ok_or_else(|| Error::Usage("nothing to look at: name a --layer".into()))
}

/// An eighth more than a trace needs: other layers, which are tried on a drive made larger for it, may offer less.
fn with_margin(sectors: u64) -> u64 {
    sectors + sectors / 8
}
