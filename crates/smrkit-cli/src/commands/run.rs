//! `smrkit run`: serves a trace or a workload with each layer, compares them, and says what it means.

use std::path::PathBuf;

use clap::Args;
use smrkit::device::level::Level;
use smrkit::device::spec::ArraySpec;
use smrkit::drive::{DRIVES, Drive};
use smrkit::engine::rebuild::RebuildSpec;
use smrkit::engine::run as engine;
use smrkit::engine::settings::Settings;
use smrkit::engine::system::DriveRun;
use smrkit::error::Error;
use smrkit::interleave::Placement;
use smrkit::layer::{self, BASELINE, LAYERS, LayerSpec, Parameters};
use smrkit::stats::outcome::TraceNotes;
use smrkit_report::{figures, report, text};

use super::trace::warn;
use crate::comparison::{Compared, Records, compare};
use crate::exit::Done;
use crate::input::Input;
use crate::interrupt::Interrupt;
use crate::job::Job;
use crate::options::conditions::Conditions;
use crate::options::demand::Demand;
use crate::options::system::{DEFAULT_DRIVE, System};
use crate::output::{OutputOptions, Outputs, Paths};
use crate::plan::arrays::{self, Arrays, Own};
use crate::plan::settings::{Setting, combinations, of_layer};
use crate::plan::size::{Size, Wanted, scaled};
use crate::pool;
use crate::records::{self, Files};

const EXAMPLES: &str = "\
Examples:
  smrkit run                                          the built-in desktop day on every layer
  smrkit run --trace trace.csv.gz                     a trace, on a drive that holds it
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
        let prepared = self.prepare(plans.len(), Placement::default(), Vec::new())?;
        let file = DRIVES.iter().all(|(shipped, _)| *shipped != name).then(|| name.to_string());
        self.compare(prepared, |needed, compare| {
            let (times, sized) = match needed {
                Some(needed) => Wanted { drive: &drive, plans: &plans }.fitted(needed)?,
                None => (1, Size::of(self.conditions.capacity).applied(drive.clone())?),
            };
            let scaled = needed.and_then(|needed| scaled(times, needed, drive.geometry.sectors()));
            let job = |(layer, parameters): &(&'static LayerSpec, Parameters)| {
                let run = DriveRun { drive: sized.clone(), layer, parameters: parameters.clone() };
                let (run, files) = (engine::Run::new(run, settings), vec![file.clone()]);
                Job { run, array: None, host_sectors: None, files, scaled }
            };
            compare(&plans.iter().map(job).collect::<Vec<_>>())
        })
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
        let prepared = self.prepare(all.count(), placement, all.files())?;
        self.compare(prepared, |needed, compare| {
            let mut jobs = all.jobs(settings, needed)?;
            jobs.iter_mut().for_each(|job| job.run.background = self.rebuild);
            compare(&jobs)
        })
    }

    /// Opens the outputs of so many runs, and what they replay; `drives` are read too.
    fn prepare(&self, runs: usize, placement: Placement, drives: Vec<PathBuf>) -> anyhow::Result<Prepared> {
        if (self.requests.is_some() || self.accesses.is_some()) && runs > 1 {
            let message = format!("--requests and --accesses record one run, but there are {runs}: name one --layer");
            return Err(Error::Usage(message).into());
        }
        let mut paths = Paths { inputs: drives, ..Paths::default() };
        paths.inputs.extend(self.system.files().chain(self.demand.files()));
        paths.outputs.extend([&self.requests, &self.accesses].into_iter().flatten().cloned());
        self.outputs.name(&mut paths);
        paths.check()?;
        let interrupt = Interrupt::watch();
        let opening = paths.opening(&interrupt);
        let outputs = self.outputs.open()?;
        let (records, files) =
            records::open(self.requests.as_deref(), self.accesses.as_deref(), self.system.array.is_some())?;
        drop(opening);
        let input = self.demand.input(&self.conditions, placement)?;
        self.look_for_volumes(&input)?;
        Ok(Prepared { outputs, records, files, input, interrupt })
    }

    /// Compares the jobs that `sized` makes for the sectors that the input needs, and writes what comes out.
    ///
    /// The size of a trace is looked for only where it has to be: before a run that is recorded, and after one that met an
    /// address past the drive.
    fn compare(&self, prepared: Prepared, sized: impl Fn(Option<u64>, &mut Compare) -> Made) -> anyhow::Result<Done> {
        let Prepared { outputs, records, files, input, interrupt } = prepared;
        let is_recorded = self.requests.is_some() || self.accesses.is_some();
        let read = || pool::make_one(&interrupt, "reading the trace", |_| input.least_sectors());
        let needed = || if self.conditions.is_sized() { read() } else { Ok(None) };
        let mut records = Some(records);
        let mut compare =
            |jobs: &[Job]| compare(jobs, &input, &interrupt, "replaying", records.take().unwrap_or_default());
        let first = if is_recorded { needed()? } else { None };
        let compared = match sized(first, &mut compare) {
            Err(error) if !is_recorded && matches!(error.downcast_ref(), Some(Error::NoRoom(_))) => match needed()? {
                Some(needed) => sized(Some(needed), &mut compare),
                None => Err(error),
            },
            result => result,
        };
        let Compared { outcomes, complete } = compared?;
        warn(outcomes.runs.first().map_or_else(TraceNotes::default, |outcome| outcome.replayed.trace_notes));
        if complete && self.conditions.warmup > 0 && outcomes.runs.iter().all(|outcome| outcome.requests == 0) {
            let warmup = self.conditions.warmup;
            eprintln!(
                "smrkit: warning: --warmup {warmup} takes all requests, and no request was counted: give a smaller one"
            );
        }
        interrupt.writing();
        // The results come first: a full disk must not take them with it.
        let runs = &outcomes.runs;
        let written = outputs.write(|| text(runs), &outcomes, || report(runs), || figures(runs));
        files.finish()?;
        written?;
        Ok(if complete { Done::All } else { Done::Interrupted })
    }

    /// Refuses sources that a dedicated array has no members or no places for.
    fn check_array(&self, spec: &ArraySpec) -> Result<(), Error> {
        let wrong = |message: &str| Err(Error::Usage(message.into()));
        if spec.level == Level::Dedicated && self.demand.sources == Some(Placement::EndToEnd) {
            return wrong(
                "in a dedicated array each source begins at the first sector of its own member: leave out --sources, or \
                 use span",
            );
        }
        arrays::check_sources(spec, self.demand.count())
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
}

/// Compares jobs.
type Compare<'a> = dyn FnMut(&[Job]) -> Made + 'a;
type Made = anyhow::Result<Compared>;

/// What is open before the runs begin.
struct Prepared {
    outputs: Outputs,
    records: Records,
    files: Files,
    input: Input,
    interrupt: Interrupt,
}
