//! `smrkit advise`: what a demand meets on one drive or array, and which change would fix it, each shown by a run.

use std::path::PathBuf;

use clap::Args;
use smrkit::device::level::Level;
use smrkit::device::spec::ArraySpec;
use smrkit::drive::{DRIVES, Drive};
use smrkit::engine::run::Run;
use smrkit::engine::settings::{Arrival, Queue, Settings};
use smrkit::engine::system::DriveRun;
use smrkit::error::Error;
use smrkit::interleave::Placement;
use smrkit::layer::{self, LayerSpec, Parameters};

use super::trace::warn;
use crate::advise::{Base, advise, screen};
use crate::exit::Done;
use crate::input::Input;
use crate::interrupt::Interrupt;
use crate::job::Job;
use crate::options::conditions::Conditions;
use crate::options::demand::Demand;
use crate::options::system::{DEFAULT_DRIVE, System};
use crate::output::{JsonTarget, Paths, print};
use crate::plan::arrays::{self, Arrays, Own};
use crate::plan::settings::{Setting, combinations, of_layer};
use crate::plan::size::{Size, Wanted, scaled};
use crate::pool;

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
    system: System,
    #[command(flatten)]
    demand: Demand,
    /// A parameter: LAYER.KEY=VALUE.
    #[arg(long, value_name = "LAYER.KEY=VALUE")]
    set: Vec<String>,
    /// Commands outstanding, with commas between; changes are tried at the deepest [default: 1,10,32].
    #[arg(long, value_delimiter = ',', value_name = "N1,N2")]
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
        match self.system.array.as_deref().map(arrays::read).transpose()? {
            None => self.of_drive(&depths),
            Some(spec) => self.of_array(&depths, &spec),
        }
    }

    fn of_drive(&self, depths: &[Settings]) -> anyhow::Result<Done> {
        let name = self.system.drive();
        let drive = Drive::load(name)?;
        let (layer, parameters) = self.plan()?;
        let (json, input) = self.open(Placement::default(), Vec::new())?;
        let (own_sectors, plans) = (drive.geometry.sectors(), [(layer, parameters.clone())]);
        let wanted = Wanted { drive: &drive, plans: &plans };
        let needed = self.needed(&input)?;
        let (times, sized) = match needed {
            Some(needed) => match wanted.fitted(needed)? {
                (1, own) => (1, own),
                _ => wanted.fitted(with_margin(needed))?,
            },
            None => (1, Size::of(self.conditions.capacity).applied(drive.clone())?),
        };
        let scaled = needed.and_then(|needed| scaled(times, needed, own_sectors));
        let file = DRIVES.iter().all(|(shipped, _)| *shipped != name).then(|| name.to_string());
        let run = Run::new(DriveRun { drive: sized, layer, parameters }, Settings::default());
        let job = Job { run, array: None, host_sectors: None, files: vec![file], scaled };
        self.answer(job, depths, &input, json)
    }

    fn of_array(&self, depths: &[Settings], spec: &ArraySpec) -> anyhow::Result<Done> {
        let own = Own {
            drive: self.system.drive.as_deref(),
            default_drive: DEFAULT_DRIVE,
            layers: &self.system.layer,
            default_layers: vec![layer::find(DEFAULT_LAYER)?],
            set: &self.set,
            capacity: self.conditions.capacity,
        };
        if spec.level == Level::Dedicated && self.demand.sources == Some(Placement::EndToEnd) {
            let message = "in a dedicated array each source begins at the first sector of its own member: leave out \
                           --sources, or use span";
            return Err(Error::Usage(message.into()).into());
        }
        arrays::check_sources(spec, self.demand.count())?;
        let all = Arrays::new(spec, &own)?;
        self.check_one(all.count())?;
        let placement = if spec.level == Level::Dedicated { Placement::Zero } else { Placement::default() };
        let (json, input) = self.open(placement, all.files())?;
        let needed = self.needed(&input)?;
        let mut jobs = all.jobs(Settings::default(), needed)?;
        if jobs.iter().any(|job| job.scaled.is_some()) {
            jobs = all.jobs(Settings::default(), needed.map(with_margin))?;
        }
        match jobs.pop() {
            Some(job) => self.answer(job, depths, &input, json),
            None => Ok(Done::All),
        }
    }

    fn answer(&self, job: Job, depths: &[Settings], input: &Input, json: Option<JsonTarget>) -> anyhow::Result<Done> {
        let interrupt = Interrupt::watch();
        let base = Base { job, input, depths, sources: self.demand.count().max(1) };
        let Some(advice) = advise(&base, &interrupt)? else {
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

    /// Opens the output, and what is replayed; `drives` are read too.
    fn open(&self, placement: Placement, drives: Vec<PathBuf>) -> anyhow::Result<(Option<JsonTarget>, Input)> {
        let mut paths = Paths { inputs: drives, outputs: self.json.iter().cloned().collect(), ..Paths::default() };
        paths.inputs.extend(self.system.files().chain(self.demand.files()));
        paths.check()?;
        let interrupt = Interrupt::watch();
        let opening = paths.opening(&interrupt);
        let json = self.json.as_deref().map(JsonTarget::open).transpose()?;
        drop(opening);
        let input = self.demand.input(&self.conditions, placement)?;
        pool::make_one(&interrupt, "reading the trace", |_| input.look_for_volumes())?;
        Ok((json, input))
    }

    /// Sectors that the drive must offer.
    fn needed(&self, input: &Input) -> Result<Option<u64>, Error> {
        if self.conditions.is_sized() { input.least_sectors() } else { Ok(None) }
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

    fn plan(&self) -> Result<(&'static LayerSpec, Parameters), Error> {
        let layer = layer::find(self.system.layer.first().map_or(DEFAULT_LAYER, |name| name.trim()))?;
        let set = self.set.iter().map(|text| Setting::parse(text, &[layer])).collect::<Result<Vec<_>, _>>()?;
        let plans = combinations(&set, &[layer]);
        self.check_one(plans.len())?;
        let values = plans.first().map(|values| of_layer(values, layer)).unwrap_or_default();
        Ok((layer, layer.resolve(&values)?))
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

/// An eighth more than a trace needs: other layers, which are tried on a drive made larger for it, may offer less.
fn with_margin(sectors: u64) -> u64 {
    sectors + sectors / 8
}
