//! `smrkit run`: serves a trace or a workload with each layer, compares them, and says what it means.

use std::path::PathBuf;

use clap::Args;
use smrkit::array::level::Level;
use smrkit::array::spec::ArraySpec;
use smrkit::drive::{DRIVES, Drive};
use smrkit::engine::rebuild::RebuildSpec;
use smrkit::engine::run::Run as Runs;
use smrkit::engine::settings::Settings;
use smrkit::error::Error;
use smrkit::interleave::Placement;
use smrkit::layer::{self, BASELINE, LAYERS, LayerSpec, Parameters};
use smrkit::stats::outcome::TraceNotes;

use super::trace::warn;
use crate::comparison::{Compared, compare};
use crate::exit::Done;
use crate::input::Input;
use crate::interrupt::Interrupt;
use crate::job::{ArrayJob, DriveJob, Job};
use crate::options::conditions::Conditions;
use crate::options::demand::Demand;
use crate::options::system::{DEFAULT_DRIVE, System};
use crate::output::{OutputOptions, Outputs};
use crate::plan::arrays::{self, Arrays, Own};
use crate::plan::settings::{Setting, combinations, of_layer};
use crate::plan::size::{Capacity, fit_drive};
use crate::records;
use crate::report::{html, series, table};

const EXAMPLES: &str = "\
Examples:
  smrkit run                                          the built-in desktop day on every layer
  smrkit run --trace trace.csv.gz --capacity auto     a trace, on a drive as large as it needs
  smrkit run --layer set-assoc --set set-assoc.cache_percent=1,2,5 --workload random-write
  smrkit run --trace trace.csv --arrival trace --depth 32 --queue sptf --report report.html
  smrkit run --array raid5:disks=4,chunk=512KiB --layer in-place,drive-managed --workload random-write
  smrkit run --array mixed.toml --trace trace.csv     members that differ, described in a file
  smrkit run --array raid5:disks=4 --capacity 100GB --rebuild disk=1,write=64KiB

Sizes: k, M, G, T are decimal, Ki, Mi, Gi, Ti binary. Durations: 5ms, 2s, 1h. Exit codes: 0 done, 1 anything else,
2 usage, 3 bad input, 4 impossible configuration, 5 integrity violation found, 130 interrupted (results so far written).";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Run {
    #[command(flatten)]
    system: System,
    /// A member of the array fails and is rebuilt beside the requests, as disk=0,order=ascending,write=512KiB,…; or scrub.
    #[arg(long, value_name = "SPEC", value_parser = RebuildSpec::parse, requires = "array")]
    rebuild: Option<RebuildSpec>,
    #[command(flatten)]
    demand: Demand,
    /// A parameter: LAYER.KEY=VALUE; several values with commas make several runs.
    #[arg(long, value_name = "LAYER.KEY=V1,V2")]
    set: Vec<String>,
    /// Commands outstanding.
    #[arg(long, default_value_t = 1)]
    depth: u32,
    #[command(flatten)]
    conditions: Conditions,
    /// Verify every read, and that nothing the host owns is ever damaged.
    #[arg(long)]
    check: bool,
    /// Cut the power at this physical write, recover, and tell what is lost; turns on --check.
    #[arg(long, value_name = "N")]
    power_cut: Option<u64>,
    /// Count the head's movements from track to track, and bands moved.
    #[arg(long)]
    movement: bool,
    /// Write one row a request, as Parquet (of one run).
    #[arg(long, value_name = "OUT.parquet")]
    requests: Option<PathBuf>,
    /// Write one row a physical access, as Parquet (of one run); of an array it tells the member.
    #[arg(long, value_name = "OUT.parquet")]
    accesses: Option<PathBuf>,
    #[command(flatten)]
    outputs: OutputOptions,
}

impl Run {
    pub fn execute(self) -> anyhow::Result<Done> {
        let settings = self.settings()?;
        self.demand.check(self.conditions.arrival)?;
        match self.system.array.as_deref().map(arrays::read).transpose()? {
            None => self.run_drives(settings),
            Some(spec) => self.run_arrays(settings, &spec),
        }
    }

    fn run_drives(&self, settings: Settings) -> anyhow::Result<Done> {
        let name = self.system.drive();
        let drive = Drive::load(name)?;
        let plans = self.plans()?;
        let prepared = self.prepare(plans.len(), Placement::default())?;
        let drive = self.sized(drive, &plans, &prepared.input)?;
        let file = DRIVES.iter().all(|(shipped, _)| *shipped != name).then(|| name.to_string());
        let job = |(layer, parameters)| {
            Job::Drive(DriveJob { run: Runs { drive: &drive, layer, parameters, settings }, file: file.clone() })
        };
        let jobs: Vec<Job> = plans.into_iter().map(job).collect();
        self.compare(&jobs, prepared)
    }

    fn run_arrays(&self, settings: Settings, spec: &ArraySpec) -> anyhow::Result<Done> {
        self.check_array(spec)?;
        let own = Own {
            drive: self.system.drive.as_deref(),
            default_drive: DEFAULT_DRIVE,
            layers: &self.system.layer,
            default_layers: self.default_layers(),
            set: &self.set,
            capacity: self.conditions.capacity,
        };
        let all = Arrays::new(spec, &own)?;
        // Where each source has a member, each begins at its member's first sector.
        let placement = if spec.level == Level::Dedicated { Placement::Zero } else { Placement::default() };
        let prepared = self.prepare(all.count(), placement)?;
        let needed = match self.conditions.capacity {
            Some(Capacity::Auto) => prepared.input.least_sectors()?,
            _ => None,
        };
        let jobs = all.jobs(settings, needed)?;
        let job = |job: ArrayJob| Job::Array(Box::new(ArrayJob { rebuild: self.rebuild, ..job }));
        let jobs: Vec<Job> = jobs.into_iter().map(job).collect();
        self.compare(&jobs, prepared)
    }

    /// Opens the outputs of so many runs, and what they replay.
    fn prepare(&self, runs: usize, placement: Placement) -> anyhow::Result<Prepared> {
        self.check_outputs(runs)?;
        let outputs = self.outputs.open()?;
        let input = self.demand.input(&self.conditions, placement)?;
        self.look_for_volumes(&input)?;
        Ok(Prepared { outputs, input })
    }

    fn compare(&self, jobs: &[Job], Prepared { outputs, input }: Prepared) -> anyhow::Result<Done> {
        let interrupt = Interrupt::watch();
        let (records, files) =
            records::open(self.requests.as_deref(), self.accesses.as_deref(), self.system.array.is_some())?;
        let Compared { outcomes, complete } = compare(jobs, &input, &interrupt, "replaying", records)?;
        warn(outcomes.runs.first().map_or_else(TraceNotes::default, |outcome| outcome.replayed.trace_notes));
        // The results come first: a full disk must not take them with it.
        let runs = &outcomes.runs;
        let written = outputs.write(|| table::text(runs), &outcomes, || html::report(runs), || series::figures(runs));
        files.finish()?;
        written?;
        Ok(if complete { Done::All } else { Done::Interrupted })
    }

    /// Refuses what arrays can't do, and sources that a dedicated one has no members for.
    fn check_array(&self, spec: &ArraySpec) -> Result<(), Error> {
        let wrong = |message: &str| Err(Error::Usage(message.into()));
        if self.power_cut.is_some() {
            return wrong("--power-cut knows single drives only: leave out --array, or cut the power of one drive");
        }
        if spec.level == Level::Dedicated && self.demand.sources == Some(Placement::EndToEnd) {
            return wrong(
                "in a dedicated array each source begins at the first sector of its own member: leave out --sources, or \
                 use span",
            );
        }
        arrays::check_sources(spec, self.demand.count())
    }

    /// Refuses outputs that get in each other's way.
    fn check_outputs(&self, runs: usize) -> Result<(), Error> {
        if (self.requests.is_some() || self.accesses.is_some()) && runs > 1 {
            let message = format!("--requests and --accesses record one run, but there are {runs}: name one --layer");
            return Err(Error::Usage(message));
        }
        let named = [&self.outputs.json, &self.outputs.report, &self.requests, &self.accesses];
        let mut paths: Vec<&PathBuf> = named.into_iter().flatten().collect();
        paths.sort();
        match paths.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                Err(Error::Usage(format!("{} is named for two outputs: give each its own", pair[0].display())))
            }
            None => Ok(()),
        }
    }

    /// A run that starts again for a second volume would record twice: volumes are looked for beforehand.
    fn look_for_volumes(&self, input: &Input) -> Result<(), Error> {
        if self.requests.is_some() || self.accesses.is_some() { input.look_for_volumes() } else { Ok(()) }
    }

    fn is_checked(&self) -> bool {
        self.check || self.power_cut.is_some()
    }

    fn settings(&self) -> Result<Settings, Error> {
        let settings = Settings {
            check: self.is_checked(),
            movement: self.movement,
            power_cut: self.power_cut,
            ..self.conditions.settings(self.depth)
        };
        settings.validate()?;
        Ok(settings)
    }

    /// The layers, each with every combination of the parameters set for it.
    fn plans(&self) -> Result<Vec<(&'static LayerSpec, Parameters)>, Error> {
        let layers: Vec<&'static LayerSpec> = match self.system.layer.as_slice() {
            [] => self.default_layers(),
            names => names.iter().map(|name| layer::find(name.trim())).collect::<Result<_, _>>()?,
        };
        let set = self.set.iter().map(|text| Setting::parse(text, &layers)).collect::<Result<Vec<_>, _>>()?;
        let mut plans = Vec::new();
        for spec in layers {
            for values in combinations(&set, &[spec]) {
                plans.push((spec, spec.resolve(&of_layer(&values, spec))?));
            }
        }
        Ok(plans)
    }

    /// All layers; but the baseline knows nothing of shingling: a check would end with its first overwrite.
    fn default_layers(&self) -> Vec<&'static LayerSpec> {
        LAYERS.iter().filter(|spec| !(self.is_checked() && spec.name == BASELINE)).collect()
    }

    /// The drive in the size asked for.
    fn sized(&self, drive: Drive, plans: &[(&'static LayerSpec, Parameters)], input: &Input) -> Result<Drive, Error> {
        match self.conditions.capacity {
            None => Ok(drive),
            Some(Capacity::Sectors(sectors)) => drive.with_capacity(sectors),
            Some(Capacity::Auto) => match input.least_sectors()? {
                Some(sectors) => fit_drive(&drive, plans, sectors),
                None => Ok(drive),
            },
        }
    }
}

/// What is open before the runs begin.
struct Prepared {
    outputs: Outputs,
    input: Input,
}
