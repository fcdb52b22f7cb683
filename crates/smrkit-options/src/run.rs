//! Options of a run: the system, the demand on it, the conditions, and how they make an experiment.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use smrkit::device::NCQ_COMMANDS;
use smrkit::device::level::Level;
use smrkit::device::spec::{ArraySpec, SystemSpec};
use smrkit::drive::Drive;
use smrkit::edit::Edit;
use smrkit::engine::rebuild::RebuildSpec;
use smrkit::engine::saved::SavedState;
use smrkit::error::Error;
use smrkit::experiment::Experiment;
use smrkit::experiment::demand::{Demand, EditedDemand, GeneratedDemand, MergedDemand};
use smrkit::experiment::system::{AskedCapacity, DefaultLayers, System, Systems, check_sources};
use smrkit::interleave::{Interleave, SOURCES_MAX, SourcePlacement};
use smrkit::schema::{Size, Time, number};
use smrkit::settings::{Arrival, Prefill, Queue, Settings, Warmup};
use smrkit::units::{Nanos, SECTOR_BYTES};
use smrkit::workload::Workload;
use smrkit_trace::served::ServedDrive;
use smrkit_trace::{OpenOptions, TraceDemand, VolumeChoice, are_one_blktrace};

use crate::value::{count, one_of, value};

/// Options of a run.
#[derive(Args, Clone)]
pub struct RunOptions {
    /// The drive or the array.
    #[command(flatten)]
    pub system: SystemOptions,
    /// Rebuild or scrub an array while requests come: rebuild, resilver, scrub or key=value,…. A scrub reads all
    /// members of the array.
    #[arg(long, value_name = "SPEC", value_parser = RebuildSpec::parse, requires = "array")]
    pub rebuild: Option<RebuildSpec>,
    /// Begin with the state that --save-state wrote. Without options that name a system, the state's own runs.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prefill", "rebuild"])]
    pub from_state: Option<PathBuf>,
    /// Simulate the drive that recorded this log, with its order of commands and the state that it began with; without
    /// another trace or workload, the log is also the trace. If another drive or layer is named, the simulated drive is as
    /// large as the recorded one, or larger if the recording needs it.
    #[arg(long, value_name = "LOG", conflicts_with_all = ["rebuild", "from_state"])]
    pub like: Option<PathBuf>,
    /// The demand.
    #[command(flatten)]
    pub demand: DemandOptions,
    /// Change the requests before they are served, by key=value,…: take the first ones or a stretch of time, pack or
    /// split writes.
    #[arg(long, value_name = "SPEC", value_parser = Edit::from_str)]
    pub edit: Option<Edit>,
    /// Set a parameter of a layer; if several values or several parameters are given, every combination is run.
    #[arg(long, value_name = "LAYER.KEY=V1,V2")]
    pub set: Vec<String>,
    /// Commands outstanding at once; when a served drive's log is replayed, as many as were recorded, of which the
    /// drive sees at most N [default: 1; for a log 32].
    #[arg(long, value_parser = count::<u32>, value_name = "N")]
    pub depth: Option<u32>,
    /// The conditions.
    #[command(flatten)]
    pub conditions: Conditions,
    /// Verify every read, and that no data of the host is damaged.
    #[arg(long)]
    pub check: bool,
    /// Cut the power at this physical write. Tells what is lost; turns on --check.
    #[arg(long, value_name = "N", value_parser = count::<u64>)]
    pub power_cut: Option<u64>,
    /// Count head movements and bands moved.
    #[arg(long)]
    pub movement: bool,
    /// Length of the run. Python's alone.
    #[arg(skip)]
    pub until: Option<Nanos>,
    /// Length of the timeline's windows. Python's alone.
    #[arg(skip)]
    pub window: Option<Nanos>,
    /// Sectors of each member of the array that are used at most. Python's alone.
    #[arg(skip)]
    pub used_sectors: Option<Vec<u64>>,
}

/// The requested runs, with names looked up, and no file read yet.
pub struct AskedRuns<'a> {
    options: &'a RunOptions,
    demand: DemandOptions,
    settings: Settings,
    system: System,
    /// Every run of the system.
    pub systems: Systems,
}

impl RunOptions {
    /// Looks up the requested runs. Errors: options that are invalid, alone or together.
    pub fn ask(&self) -> Result<AskedRuns<'_>, Error> {
        let mut demand = self.demand.clone();
        if let (Some(log), 0) = (&self.like, demand.count()) {
            demand.trace = vec![log.clone()];
        }
        let is_log = demand.is_log();
        demand.check(self.conditions.arrival(is_log))?;
        if self.edit.is_some() && self.conditions.arrival(is_log) == Arrival::Closed {
            let message = "{edit} leaves requests out that think times count from: add {arrival} trace or flat-out";
            return Err(Error::Usage(message.into()));
        }
        let depth = self.depth.unwrap_or(if is_log { NCQ_COMMANDS } else { 1 });
        let mut settings = Settings {
            check: self.is_checked(),
            movement: self.movement,
            power_cut: self.power_cut,
            until: self.until,
            ..self.conditions.settings(depth, is_log)
        };
        if self.from_state.is_some() {
            settings.prefill = Prefill::Saved;
        }
        // Of `self.demand`, because the log that `like` names is no demand that was asked for.
        let is_bare = self.system.drive.is_none() && self.system.array.is_none() && self.demand.count() == 0;
        let mut system = System {
            set: self.set.clone(),
            // Without any system or demand, every layer is shown; else the drive's own beside a conventional disk.
            default_layers: match is_bare {
                true => DefaultLayers::Every,
                false => DefaultLayers::Compared,
            },
            // The conventional disk ignores shingling, so in check mode it would end with its first overwrite.
            no_baseline: self.is_checked(),
            rebuild: self.rebuild,
            window: self.window,
            used_sectors: self.used_sectors.clone(),
            from_state: self.from_state.as_deref().map(read_state).transpose()?,
            ..self.system.asked(self.conditions.capacity)?
        };
        if let Some(log) = &self.like {
            settings = self.make_like(ServedDrive::read(log)?, settings, &mut system)?;
        }
        settings.validate()?;
        demand.check_array(system.array.as_ref())?;
        let systems = Systems::new(&system)?;
        Ok(AskedRuns { options: self, demand, settings, system, systems })
    }

    /// Takes settings that were not given from a served drive.
    fn make_like(&self, served: ServedDrive, settings: Settings, system: &mut System) -> Result<Settings, Error> {
        let queue = self.conditions.queue.unwrap_or(served.queue);
        let names_parts = system.array.is_some() || !system.drives.is_empty() || !system.layers.is_empty();
        if !names_parts && system.set.is_empty() && system.capacity.is_none() {
            system.from_state = Some(Arc::new(served.state));
            return Ok(Settings { queue, prefill: Prefill::Saved, ..settings });
        }
        // Another drive or layer can't use the state: it begins empty if the served one did.
        let prefill = if served.is_new { Prefill::None } else { settings.prefill };
        if let (SystemSpec::Drive(own), None) = (SystemSpec::parse(&served.run.system)?, &system.array) {
            if system.layers.is_empty() {
                system.layers.extend(own.layer);
                system
                    .set
                    .splice(0..0, own.set.iter().map(|(key, value)| format!("{}.{key}={value}", system.layers[0])));
            }
            // A shingled layer offers less of the platters than the recorded one: the drive grows until the recording fits, and no further, since
            // the size of its cache decides what comes out.
            if let (None | Some(AskedCapacity::Auto), Some(sectors)) = (system.capacity, own.capacity_sectors) {
                system.capacity = Some(AskedCapacity::AtLeast(sectors));
            }
            if let (true, Some(name)) = (system.drives.is_empty(), own.drive) {
                if let Some(text) = served.run.drive_files.get(&name) {
                    system.given.insert(name.clone(), Drive::parse(name.as_ref(), text)?);
                }
                system.drives.push(name);
            }
        }
        Ok(Settings { queue, prefill, ..settings })
    }

    fn is_checked(&self) -> bool {
        self.check || self.power_cut.is_some()
    }
}

impl AskedRuns<'_> {
    /// Files that the run reads.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let state = self.options.from_state.iter().chain(&self.options.like).cloned();
        let system = self.systems.files().chain(self.options.system.files()).chain(state);
        system.chain(self.demand.trace.iter().cloned())
    }

    /// The traces and workloads that were named.
    pub fn demand(&self) -> Result<Arc<dyn Demand>, Error> {
        let placement = self.demand.check_array(self.system.array.as_ref())?;
        Ok(Arc::from(self.demand.open(&self.options.conditions, placement)?))
    }

    /// The experiment on `demand`, and every run of it.
    pub fn on(self, demand: Arc<dyn Demand>) -> (Experiment, Systems) {
        let demand: Arc<dyn Demand> = match self.options.edit.clone() {
            Some(edit) => Arc::new(EditedDemand { demand, edit }),
            None => demand,
        };
        (Experiment { system: self.system, demand, settings: vec![self.settings] }, self.systems)
    }
}

/// State of a drive or an array from a file.
pub fn read_state(path: &Path) -> Result<Arc<SavedState>, Error> {
    let bytes = std::fs::read(path).map_err(|error| Error::reading(path, error))?;
    Ok(Arc::new(SavedState::parse(path, &bytes)?))
}

/// The drive or the array, and its layers.
#[derive(Args, Clone)]
pub struct SystemOptions {
    /// The drive's name, a model string, or a drive file; for an array of different disks several, joined by +, of which the last is used for
    /// all remaining disks. See smrkit drives [default: st8000dm004].
    #[arg(long)]
    pub drive: Option<String>,
    /// Layers to compare, separated by commas; as-sold is the layer that the drive is sold with. See smrkit layers
    /// [default: in-place,as-sold; with --check as-sold alone; all layers if neither a drive nor a trace or workload is
    /// named, or if the drive is not sold].
    #[arg(long, value_delimiter = ',')]
    pub layer: Vec<String>,
    /// An array of drives, as LEVEL:key=value,…
    #[arg(long, value_name = "SPEC", help = format!(
        "An array: LEVEL:key=value,…. What it leaves out of a member (layer, drive, capacity) is that of this run. Levels: {}",
        Level::names()
    ))]
    pub array: Option<String>,
}

impl SystemOptions {
    /// The file that describes the drive.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.drive.iter().map(PathBuf::from).filter(|path| path.is_file())
    }

    /// The system of these options, without parameters.
    pub fn asked(&self, capacity: Option<AskedCapacity>) -> Result<System, Error> {
        let mut array = self.array.as_deref().map(ArraySpec::parse).transpose()?;
        let (mut drives, layers) = (self.drive.iter().cloned().collect::<Vec<_>>(), self.layer.clone());
        if let Some(names) = self.drive.as_deref().filter(|names| names.contains('+') && !Path::new(names).is_file()) {
            let Some(array) = &mut array else {
                return Err(Error::Usage(format!(
                    "{names} are several disks of one array: add {{array}} raidz1:disks=4"
                )));
            };
            place(array, names)?;
            drives.clear();
        }
        Ok(System { array, drives, layers, capacity, ..System::default() })
    }
}

/// Makes these drives, with + between, an array's members, the last of them all that are left.
fn place(array: &mut ArraySpec, names: &str) -> Result<(), Error> {
    let names: Vec<&str> = names.split('+').map(str::trim).collect();
    if array.members.iter().any(|member| member.drive.is_some()) {
        return Err(Error::Usage("every member of the array has a drive of its own: leave out {drive}".into()));
    }
    let disks = array.members.len();
    if names.len() > disks {
        let all = names.len();
        return Err(Error::Usage(format!("{all} drives are named, but the array has {disks}: write disks={all}")));
    }
    let last = names[names.len() - 1];
    for (number, member) in array.members.iter_mut().enumerate() {
        member.drive = Some(names.get(number).copied().unwrap_or(last).into());
    }
    Ok(())
}

const DEFAULT_WORKLOAD: &str = "desktop";

/// Traces and workloads, and how several are merged.
#[derive(Args, Clone)]
pub struct DemandOptions {
    /// A trace file; - is standard input. May be repeated, and in any format that trace info recognises.
    #[arg(long, value_name = "FILE")]
    pub trace: Vec<PathBuf>,
    /// A workload: name:key=value,…. May be repeated [default: desktop].
    #[arg(long, value_name = "TEXT")]
    pub workload: Vec<String>,
    /// Disk size that a workload assumes [default: the smallest capacity that a compared layer offers].
    #[arg(long, value_parser = value(Size(0, u64::MAX)), value_name = "SIZE")]
    pub span: Option<u64>,
    /// How several traces and workloads are merged. In bursts of N requests, each from a source drawn at random; by
    /// their times; or one after another.
    #[arg(long, value_parser = Interleave::from_str, value_name = "burst:N|time|none")]
    pub interleave: Option<Interleave>,
    /// Addresses of merged sources: one source after the other, or each from LBA 0 [default: end-to-end].
    #[arg(long, value_parser = SourcePlacement::from_str, value_name = "end-to-end|zero")]
    pub sources: Option<SourcePlacement>,
}

impl DemandOptions {
    /// True if the demand is the log of a served drive.
    pub fn is_log(&self) -> bool {
        self.count() == 1 && self.trace.iter().any(|path| ServedDrive::has_log(path))
    }

    /// Number of traces and workloads that are named.
    pub fn count(&self) -> usize {
        self.trace.len() + self.workload.len()
    }

    /// Refuses options for several sources where there is one, and the reverse.
    pub fn check(&self, arrival: Arrival) -> Result<(), Error> {
        let refuse = |message: String| Err(Error::Usage(message));
        let count = self.count();
        if count < 2 && (self.interleave.is_some() || self.sources.is_some()) {
            let field = if self.interleave.is_some() { "{interleave}" } else { "{sources}" };
            return refuse(format!(
                "{field} is for several sources: leave it out, or name another {{trace}} or {{workload}}"
            ));
        }
        if count > 1 && self.interleave.is_none() {
            return refuse(format!(
                "{count} sources, but it is not said how to merge them: add {{interleave}} burst:N, time or none"
            ));
        }
        if count > SOURCES_MAX {
            return refuse(format!("{count} sources can't be merged: give at most {SOURCES_MAX}"));
        }
        if self.span.is_some() && self.workload.is_empty() && !self.trace.is_empty() {
            return refuse("{span} is what a workload takes for the disk's size: leave it out with a {trace}".into());
        }
        if self.trace.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
            return refuse("standard input can be read once: name - for one {trace} only".into());
        }
        for (number, path) in self.trace.iter().enumerate() {
            if let Some(earlier) = self.trace[..number].iter().find(|earlier| are_one_blktrace(earlier, path)) {
                let (one, other) = (earlier.display(), path.display());
                return refuse(format!("{{trace}} {one} reads the files of all CPUs, {other} too: name one of them"));
            }
        }
        match (arrival, self.interleave) {
            (Arrival::Trace, Some(rule)) if rule != Interleave::Time => refuse(format!(
                "{{interleave}} {rule} takes requests out of the order of their times: use {{interleave}} time, or \
                 {{arrival}} flat-out"
            )),
            _ => Ok(()),
        }
    }

    /// Refuses sources for which a dedicated array has no members or no room. Returns their placement, with the default for the array.
    pub fn check_array(&self, array: Option<&ArraySpec>) -> Result<SourcePlacement, Error> {
        let Some(spec) = array else { return Ok(SourcePlacement::default()) };
        let is_dedicated = spec.level == Level::Dedicated;
        if is_dedicated && self.sources == Some(SourcePlacement::EndToEnd) {
            return Err(Error::Usage(
                "in a dedicated array each source begins at the first sector of its own member: leave out {sources}, or \
                 use span"
                    .into(),
            ));
        }
        check_sources(spec, self.count())?;
        // If each source has its own member, each begins at its member's first sector.
        Ok(if is_dedicated { SourcePlacement::Zero } else { SourcePlacement::default() })
    }

    /// Opens the sources, traces first and then workloads.
    pub fn open(&self, how: &Conditions, placement: SourcePlacement) -> Result<Box<dyn Demand>, Error> {
        let traces = self.trace.iter().map(|path| trace(path, how));
        let workloads = self.workload.iter().map(|text| self.generated(text));
        let mut demands = traces.chain(workloads).collect::<Result<Vec<_>, Error>>()?;
        match (self.interleave, demands.pop()) {
            (_, None) => self.generated(DEFAULT_WORKLOAD),
            (Some(rule), Some(last)) => {
                demands.push(last);
                Ok(Box::new(MergedDemand::new(demands, rule, self.sources.unwrap_or(placement))))
            }
            (None, Some(only)) => Ok(only),
        }
    }

    fn generated(&self, text: &str) -> Result<Box<dyn Demand>, Error> {
        Ok(Box::new(GeneratedDemand {
            workload: Workload::parse(text)?,
            span: self.span.map(|bytes| bytes / SECTOR_BYTES),
        }))
    }
}

/// A trace at `path`, read as the conditions say.
pub fn trace(path: &Path, how: &Conditions) -> Result<Box<dyn Demand>, Error> {
    let options =
        OpenOptions { format: how.format.clone(), skip_bad_rows: how.skip_bad_rows, ..OpenOptions::default() };
    Ok(Box::new(TraceDemand::new(path, options, how.volume.clone())?))
}

/// Conditions of a run: how requests come, what they find, and how a trace is read.
#[derive(Args, Clone)]
pub struct Conditions {
    /// Pause between a completion and the next request.
    #[arg(long, value_parser = value(Time(0)), default_value = "0s", value_name = "TIME")]
    pub think: Nanos,
    /// When requests arrive: as soon as one before completes (flat-out), at the times of the trace (trace), or after the
    /// think times of the trace (closed) [default: flat-out; for the log of a served drive closed].
    #[arg(long, value_parser = one_of(&Arrival::ALL))]
    pub arrival: Option<Arrival>,
    /// Factor by which the trace's times are multiplied.
    #[arg(long, value_parser = value(number(0.0, f64::MAX)), default_value = "1", value_name = "X", allow_negative_numbers = true)]
    pub time_scale: f64,
    /// Order in which waiting commands are served [default: drive; with --like as recorded].
    #[arg(long, value_parser = one_of(&Queue::ALL))]
    pub queue: Option<Queue>,
    /// What the disk contains before the run [default: full]. Full: every LBA was written once, the cache is empty;
    /// random: SHARE of the persistent cache (of the disk, if it has none) is in use.
    #[arg(long, value_parser = Prefill::from_str, value_name = "full|none|sequential|random[:SHARE]")]
    pub prefill: Option<Prefill>,
    /// Requests served before counting begins: N, or until cleaning has settled.
    #[arg(long, value_parser = Warmup::from_str, default_value = "0", value_name = "N|until-steady")]
    pub warmup: Warmup,
    /// Volume of the trace to replay, by number or name; with all, the volumes are laid end to end.
    #[arg(long, value_parser = VolumeChoice::from_str, default_value = "all", value_name = "N|NAME|all")]
    pub volume: VolumeChoice,
    /// Size of the drive, or of each member. Auto: its own, or more of the same platters where the trace needs them [default:
    /// auto].
    #[arg(long, value_name = "auto|SIZE")]
    pub capacity: Option<AskedCapacity>,
    /// Take addresses modulo the capacity.
    #[arg(long)]
    pub fold: bool,
    /// The trace's format, if not recognised.
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
    /// Count and report malformed rows instead of stopping.
    #[arg(long)]
    pub skip_bad_rows: bool,
    /// The seed of everything random.
    #[arg(long, value_parser = count::<u64>, default_value = "1", value_name = "N")]
    pub seed: u64,
}

impl Conditions {
    /// The arrival of requests; its default differs for a served drive's log.
    pub fn arrival(&self, is_log: bool) -> Arrival {
        self.arrival.unwrap_or(if is_log { Arrival::Closed } else { Arrival::FlatOut })
    }

    /// The settings of a run with `depth` commands outstanding, without check mode. They are not validated yet. `is_log`: the demand is a
    /// served drive's log.
    pub fn settings(&self, depth: u32, is_log: bool) -> Settings {
        Settings {
            arrival: self.arrival(is_log),
            depth,
            think: self.think,
            time_scale: self.time_scale,
            queue: self.queue.unwrap_or_default(),
            prefill: self.prefill.unwrap_or(Prefill::Full),
            warmup: self.warmup,
            fold: self.fold,
            seed: self.seed,
            ..Settings::default()
        }
    }
}
