//! `smrkit run`: serves a trace or a workload with each layer, compares them, and says what it means.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueEnum};
use smrkit::array::level::Level;
use smrkit::array::spec::ArraySpec;
use smrkit::drive::{DRIVES, Drive};
use smrkit::engine::rebuild::RebuildSpec;
use smrkit::engine::run::Run as Runs;
use smrkit::engine::settings::{Arrival, Prefill, Queue, Settings};
use smrkit::error::Error;
use smrkit::interleave::{Interleave, Placement, SOURCES_MAX};
use smrkit::layer::{self, BASELINE, LAYERS, LayerSpec, Parameters};
use smrkit::quantity::{parse_bytes, parse_duration, parse_share};
use smrkit::stats::outcome::TraceNotes;
use smrkit::trace::{OpenOptions, VolumeChoice};
use smrkit::units::{Nanos, SECTOR_BYTES};
use smrkit::workload::Workload;

use super::trace::warn;
use crate::comparison::{Compared, compare};
use crate::exit::Done;
use crate::input::{Input, TraceInput};
use crate::interrupt::Interrupt;
use crate::job::{ArrayJob, DriveJob, Job};
use crate::merged::Merged;
use crate::output::{OutputOptions, Outputs};
use crate::plan::arrays::{self, Arrays, Own};
use crate::plan::settings::{Setting, combinations, of_layer};
use crate::plan::size::{Capacity, fit_drive};
use crate::records;
use crate::report::{html, series, table};

/// The drive that is taken where none is named: a shipped drive-managed one.
const DEFAULT_DRIVE: &str = "st5000as0011";
const DEFAULT_WORKLOAD: &str = "desktop";

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
    /// A drive that comes with smrkit (see smrkit drives), or a drive file [default: st5000as0011].
    #[arg(long)]
    drive: Option<String>,
    /// Layers, with commas between (see smrkit layers) [default: all; with --check all but in-place].
    #[arg(long, value_delimiter = ',')]
    layer: Vec<String>,
    /// An array of drives, as LEVEL:key=value,… or a TOML file; what it leaves out of a member (layer, drive, capacity) is
    /// that of this run. Levels: span, raid0, raid1, raid10, raid4, raid5, raid6, dedicated.
    #[arg(long, value_name = "SPEC")]
    array: Option<String>,
    /// A member of the array fails and is rebuilt beside the requests, as disk=0,order=ascending,write=512KiB,…; or scrub.
    #[arg(long, value_name = "SPEC", value_parser = RebuildSpec::parse, requires = "array")]
    rebuild: Option<RebuildSpec>,
    /// A trace file, in any format that trace info recognises; - is standard input. May be repeated.
    #[arg(long)]
    trace: Vec<PathBuf>,
    /// A workload, as name:key=value,… or a TOML file; may be repeated [default: desktop].
    #[arg(long)]
    workload: Vec<String>,
    /// What a workload takes for the disk's size [default: the least that a layer of this run offers].
    #[arg(long, value_parser = parse_bytes, value_name = "SIZE")]
    span: Option<u64>,
    /// How several traces and workloads are merged: in bursts of N requests, each from a source drawn at random (by what
    /// each has left: weighted), by their times, or one after another.
    #[arg(long, value_parser = Interleave::from_str, value_name = "burst:N[,weighted]|time|none")]
    interleave: Option<Interleave>,
    /// Where their addresses go: each behind the one before it, or all from 0 [default: end-to-end].
    #[arg(long, value_parser = Placement::from_str, value_name = "end-to-end|zero")]
    sources: Option<Placement>,
    /// A parameter: LAYER.KEY=VALUE; several values with commas make several runs.
    #[arg(long, value_name = "LAYER.KEY=V1,V2")]
    set: Vec<String>,
    /// Commands outstanding.
    #[arg(long, default_value_t = 1)]
    depth: u32,
    /// Pause between an answer and the next request (closed loop).
    #[arg(long, value_parser = parse_duration, default_value = "0s", value_name = "TIME")]
    think: Nanos,
    /// Ignore the trace's times, or keep them.
    #[arg(long, value_enum, default_value = "flat-out")]
    arrival: ArrivalName,
    /// Stretch the trace's times by this factor.
    #[arg(long, default_value_t = 1.0, value_name = "X", allow_negative_numbers = true)]
    time_scale: f64,
    /// The order of waiting commands.
    #[arg(long, value_enum, default_value = "fcfs")]
    queue: QueueName,
    /// The state before: none, sequential, or random:SHARE of the persistent cache (of the disk, where there is none).
    #[arg(long, value_parser = parse_prefill, default_value = "none")]
    prefill: Prefill,
    /// Requests served before counting begins.
    #[arg(long, default_value_t = 0, value_name = "N")]
    warmup: u64,
    /// One of the trace's volumes by number, or all laid end to end.
    #[arg(long, value_parser = VolumeChoice::from_str, default_value = "all", value_name = "N|all")]
    volume: VolumeChoice,
    /// The drive's size (of each member of an array), or auto for as large as the trace [default: the drive's own].
    #[arg(long, value_name = "auto|SIZE")]
    capacity: Option<Capacity>,
    /// Take addresses modulo the capacity.
    #[arg(long)]
    fold: bool,
    /// The trace's format, where it is not to be recognised.
    #[arg(long)]
    format: Option<String>,
    /// Count and report malformed rows instead of stopping.
    #[arg(long)]
    skip_bad_rows: bool,
    /// The seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
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

#[derive(Clone, Copy, ValueEnum)]
enum ArrivalName {
    FlatOut,
    Trace,
}

#[derive(Clone, Copy, ValueEnum)]
enum QueueName {
    Fcfs,
    Elevator,
    Sptf,
}

fn parse_prefill(text: &str) -> Result<Prefill, Error> {
    match text.split_once(':') {
        None if text == "none" => Ok(Prefill::None),
        None if text == "sequential" => Ok(Prefill::Sequential),
        None if text == "random" => Ok(Prefill::Random(1.0)),
        Some(("random", share)) => Ok(Prefill::Random(parse_share(share)?)),
        _ => Err(Error::Usage(format!("'{text}': expected none, sequential, random or random:SHARE"))),
    }
}

impl Run {
    pub fn execute(self) -> anyhow::Result<Done> {
        let settings = self.settings()?;
        self.check_sources()?;
        match self.array.as_deref().map(arrays::read).transpose()? {
            None => self.run_drives(settings),
            Some(spec) => self.run_arrays(settings, &spec),
        }
    }

    fn run_drives(&self, settings: Settings) -> anyhow::Result<Done> {
        let name = self.drive.as_deref().unwrap_or(DEFAULT_DRIVE);
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
            drive: self.drive.as_deref(),
            default_drive: DEFAULT_DRIVE,
            layers: &self.layer,
            default_layers: self.default_layers(),
            set: &self.set,
            capacity: self.capacity,
        };
        let all = Arrays::new(spec, &own)?;
        // Where each source has a member, each begins at its member's first sector.
        let placement = if spec.level == Level::Dedicated { Placement::Zero } else { Placement::default() };
        let prepared = self.prepare(all.count(), placement)?;
        let needed = match self.capacity {
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
        let input = self.input(placement)?;
        self.look_for_volumes(&input)?;
        Ok(Prepared { outputs, input })
    }

    fn compare(&self, jobs: &[Job], Prepared { outputs, input }: Prepared) -> anyhow::Result<Done> {
        let interrupt = Interrupt::watch();
        let (records, files) = records::open(self.requests.as_deref(), self.accesses.as_deref(), self.array.is_some())?;
        let Compared { outcomes, complete } = compare(jobs, &input, &interrupt, "replaying", records)?;
        warn(outcomes.runs.first().map_or_else(TraceNotes::default, |outcome| outcome.trace_notes));
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
        if spec.level == Level::Dedicated && self.sources == Some(Placement::EndToEnd) {
            return wrong(
                "in a dedicated array each source begins at the first sector of its own member: leave out --sources, or \
                 use span",
            );
        }
        arrays::check_sources(spec, self.trace.len() + self.workload.len())
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

    /// Refuses options that belong to several sources where there is one, and the other way round.
    fn check_sources(&self) -> Result<(), Error> {
        let wrong = |message: String| Err(Error::Usage(message));
        let count = self.trace.len() + self.workload.len();
        if count < 2 && (self.interleave.is_some() || self.sources.is_some()) {
            let option = if self.interleave.is_some() { "--interleave" } else { "--sources" };
            return wrong(format!(
                "{option} is for several sources: leave it out, or name another --trace or --workload"
            ));
        }
        if count > 1 && self.interleave.is_none() {
            return wrong(format!(
                "{count} sources, but it is not said how to merge them: add --interleave burst:N, time or none"
            ));
        }
        if count > SOURCES_MAX {
            return wrong(format!("{count} sources can't be merged: give at most {SOURCES_MAX}"));
        }
        if self.span.is_some() && self.workload.is_empty() && !self.trace.is_empty() {
            return wrong("--span is what a workload takes for the disk's size: leave it out with a --trace".into());
        }
        if self.trace.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
            return wrong("standard input can be read once: name - for one --trace only".into());
        }
        match (&self.arrival, self.interleave) {
            (ArrivalName::Trace, Some(rule)) if rule != Interleave::Time => wrong(format!(
                "--interleave {rule} takes requests out of the order of their times: use --interleave time, or --arrival \
                 flat-out"
            )),
            _ => Ok(()),
        }
    }

    fn is_checked(&self) -> bool {
        self.check || self.power_cut.is_some()
    }

    fn settings(&self) -> Result<Settings, Error> {
        let settings = Settings {
            arrival: match self.arrival {
                ArrivalName::FlatOut => Arrival::FlatOut,
                ArrivalName::Trace => Arrival::Trace,
            },
            depth: self.depth,
            think: self.think,
            time_scale: self.time_scale,
            queue: match self.queue {
                QueueName::Fcfs => Queue::Fcfs,
                QueueName::Elevator => Queue::Elevator,
                QueueName::Sptf => Queue::Sptf,
            },
            prefill: self.prefill,
            warmup: self.warmup,
            until: None,
            fold: self.fold,
            check: self.is_checked(),
            movement: self.movement,
            power_cut: self.power_cut,
            seed: self.seed,
        };
        settings.validate()?;
        Ok(settings)
    }

    /// Traces come first, then workloads.
    fn input(&self, placement: Placement) -> Result<Input, Error> {
        let traces = self.trace.iter().map(|path| self.trace_input(path));
        let workloads = self.workload.iter().map(|text| self.workload_input(text));
        let mut inputs = traces.chain(workloads).collect::<Result<Vec<Input>, Error>>()?;
        match (self.interleave, inputs.pop()) {
            (_, None) => self.workload_input(DEFAULT_WORKLOAD),
            (Some(rule), Some(last)) => {
                inputs.push(last);
                Ok(Input::Merged(Box::new(Merged::new(inputs, rule, self.sources.unwrap_or(placement)))))
            }
            (None, Some(only)) => Ok(only),
        }
    }

    fn workload_input(&self, text: &str) -> Result<Input, Error> {
        Ok(Input::Workload(workload(text)?, self.span.map(|bytes| bytes / SECTOR_BYTES)))
    }

    fn trace_input(&self, path: &Path) -> Result<Input, Error> {
        let options =
            OpenOptions { format: self.format.clone(), skip_bad_rows: self.skip_bad_rows, ..OpenOptions::default() };
        TraceInput::new(path, options, self.volume).map(Box::new).map(Input::Trace)
    }

    /// The layers, each with every combination of the parameters set for it.
    fn plans(&self) -> Result<Vec<(&'static LayerSpec, Parameters)>, Error> {
        let layers: Vec<&'static LayerSpec> = match self.layer.as_slice() {
            [] => self.default_layers(),
            names => names.iter().map(|name| layer::find(name.trim())).collect::<Result<_, _>>()?,
        };
        let set = self.set.iter().map(|text| Setting::parse(text, &layers)).collect::<Result<Vec<_>, _>>()?;
        let mut plans = Vec::new();
        for spec in layers {
            for values in combinations(&set, &[spec]) {
                plans.push((spec, Parameters::resolve(spec.name, spec.parameters, &of_layer(&values, spec))?));
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
        match self.capacity {
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

fn workload(text: &str) -> Result<Workload, Error> {
    if !text.ends_with(".toml") {
        return Workload::parse(text);
    }
    let content = std::fs::read_to_string(text).map_err(|error| Error::reading(text, error))?;
    Workload::from_toml(&content)
}
