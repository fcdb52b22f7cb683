//! Options that ask for advice, and the question that they make: one parser for the command line and Python.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use smrkit::device::spec::ArraySpec;
use smrkit::engine::rebuild::{RebuildOrder, RebuildSpec, Task};
use smrkit::engine::system::DriveRun;
use smrkit::error::Error;
use smrkit::experiment::Experiment;
use smrkit::experiment::demand::{Demand, GeneratedDemand, Table};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool::{self, Monitor};
use smrkit::experiment::system::{AskedCapacity, DEFAULT_DRIVE, DefaultLayers, System, Systems};
use smrkit::interleave::SourcePlacement;
use smrkit::quantity::parse_share;
use smrkit::schema::Time;
use smrkit::settings::{Arrival, Settings, Warmup};
use smrkit::stats::outcome::Scalar;
use smrkit::units::{Nanos, SECTOR_BYTES};
use smrkit::workload::Workload;
use smrkit_options::run::{Conditions, DemandOptions, SystemOptions};
use smrkit_options::value::{count, value};
use smrkit_trace::VolumeChoice;

use crate::advice::Advice;
use crate::changes::{ArrayFacts, Software};
use crate::sums::{self, Recorded, ReportedWaits};
use crate::uses::{AskedUse, Disk, Pace, USES, Use, Work};
use crate::{Listener, Load, LoadKind, Need, Question, ScaledLoad, advise};

/// Sectors of the part of a disk on which a rebuild is run: 20 GB.
const PART_SECTORS: u64 = 20_000_000_000 / SECTOR_BYTES;
/// Commands outstanding where nothing is said of it: as many as a drive takes (SATA has 32).
const DEPTH: u32 = 32;

/// Pause of a user of an array in light use between an answer and the next request.
const LIGHT_PAUSE: Nanos = Nanos(1_000_000_000);

/// Light use of an array that is rebuilt, for longer than any rebuild lasts, as a workload, and the users, each of whom waits for an
/// answer before he asks again a second later. By times of their own a backlog would grow for ever on drives that can't keep up, and
/// the rebuild would never end.
///
/// md writes in place what the file system above it writes. ZFS gathers the writes of 5 s (zfs_txg_timeout) and puts them where there
/// is free room in one piece, with some metadata: of the same 20 small requests a second only the reads go anywhere.
fn light_use(software: Software) -> (&'static str, u32) {
    match software {
        Software::Md => ("mix:size=4Ki,write_share=0.5,count=1G", 20),
        Software::Zfs => (
            "random-read:size=4Ki,interval=100ms,count=1G+sequential-write:size=256Ki,interval=5s,count=1G\
             +random-write:size=16Ki,span=10%,interval=1250ms,count=1G",
            11,
        ),
    }
}

/// Options of a question.
#[derive(Args, Clone)]
#[command(mut_arg("layer", |arg| arg.help("The layer. See smrkit layers [default: the one that the drive is sold with]").value_name("NAME")))]
#[command(mut_arg("drive", |arg| arg.help("The drive's name, or a drive file; several, separated by commas, are compared. Different disks of an array are separated by +, and the last stands for all further ones. See smrkit drives").value_name("NAME,…")))]
pub struct AdviseOptions {
    #[command(flatten)]
    system: SystemOptions,
    /// What the disks are for: NAME or NAME:key=value,…, such as restic:bytes=60G or surveillance:cameras=8,rate=4Mbit.
    #[arg(long = "for", id = "use", value_name = "USE", value_parser = AskedUse::from_str, conflicts_with_all = ["trace", "workload", "rebuild"], help = uses_help())]
    asked_use: Vec<AskedUse>,
    /// Work of the array: replace (a disk, in the way of the array's software), resilver (as ZFS does), scrub or
    /// key=value,….
    #[arg(long, value_name = "SPEC", value_parser = AskedRebuild::from_str, requires = "array")]
    rebuild: Option<AskedRebuild>,
    /// Time in which all of the work has to be done.
    #[arg(long, value_parser = value(Time(1)), value_name = "TIME")]
    within: Option<Nanos>,
    /// Interval at which the work recurs; within it the work has to be done, and its data cleaned.
    #[arg(long, value_parser = value(Time(1)), value_name = "TIME")]
    every: Option<Nanos>,
    /// Time in which 99 of 100 requests have to be answered.
    #[arg(long, value_parser = value(Time(1)), value_name = "TIME")]
    keep: Option<Nanos>,
    #[command(flatten)]
    demand: DemandOptions,
    /// Set a parameter of the layer.
    #[arg(long, value_name = "LAYER.KEY=VALUE")]
    set: Vec<String>,
    /// Commands outstanding at once [default: 32; with --for as many as the use needs; with --think or --rebuild 1].
    #[arg(long, value_parser = count::<u32>, value_name = "N")]
    depth: Option<u32>,
    #[command(flatten)]
    conditions: Conditions,
}

/// Work of an array, as it was asked for.
#[derive(Clone, Copy)]
enum AskedRebuild {
    /// A disk is replaced, in whichever way the array's software does that.
    Replace,
    /// All of it was said; perhaps whether the new disk was written before, too.
    Spec(RebuildSpec, bool),
}

impl FromStr for AskedRebuild {
    type Err = Error;

    fn from_str(text: &str) -> Result<AskedRebuild, Error> {
        match text {
            "replace" | "rebuild" => Ok(AskedRebuild::Replace),
            text => RebuildSpec::parse(text).map(|spec| AskedRebuild::Spec(spec, text.contains("new="))),
        }
    }
}

fn uses_help() -> String {
    let names: Vec<&str> = USES.iter().map(|one| one.name).collect();
    format!(
        "What the disks are for: NAME or NAME:key=value,…, such as surveillance:cameras=8,rate=4Mbit. May be repeated, for several at once. Names: {}",
        names.join(", ")
    )
}

/// A question whose names were looked up, with nothing read yet.
pub struct AskedAdvice<'a> {
    options: &'a AdviseOptions,
    settings: Settings,
    system: System,
    systems: Systems,
    placement: SourcePlacement,
    whole_disk_bytes: Option<u64>,
    source: LoadSource,
    asked_use: Option<AskedUse>,
}

/// Where the load comes from.
struct LoadSource {
    /// Whose it is: light use, where nothing but a rebuild was asked for.
    kind: LoadKind,
    /// The workload, made for a use or of what was measured; `None` of traces and workloads that were named, and of a table in memory.
    workload: Option<String>,
    /// How many times as much it stands for.
    times: f64,
    note: Option<String>,
    reported: Option<ReportedWaits>,
}

impl AdviseOptions {
    /// Looks up what was asked for, a question for each drive; `has_table` if the demand is a table in memory. Errors: options that make
    /// no sense, alone or together.
    pub fn ask(&self, has_table: bool) -> Result<Vec<AskedAdvice<'_>>, Error> {
        self.check()?;
        let drives = self.system.drive.as_deref().unwrap_or_default();
        let names: Vec<Option<&str>> = match drives {
            "" => vec![None],
            // A file may have a comma in its name.
            path if path.ends_with(".toml") => vec![Some(path)],
            names => names.split(',').map(|name| Some(name.trim())).collect(),
        };
        names.into_iter().map(|drive| self.ask_one(drive, has_table)).collect()
    }

    fn ask_one(&self, drive: Option<&str>, has_table: bool) -> Result<AskedAdvice<'_>, Error> {
        let options = SystemOptions { drive: drive.map(str::to_string), ..self.system.clone() };
        let default_layers = DefaultLayers::AsSold;
        let mut system = System { set: self.set.clone(), default_layers, ..options.asked(self.conditions.capacity)? };
        system.rebuild = self.rebuild_of(system.array.as_ref())?;
        let placement = self.demand.check_array(system.array.as_ref())?;
        let mut systems = Systems::new(&system)?;
        check_one(systems.count())?;
        let asked_use = AskedUse::together(&self.asked_use, self.within)?;
        if let (Some(asked), Some(array)) = (&asked_use, &system.array) {
            asked.check_array(&facts(array))?;
        }
        let (source, settings) = self.load(asked_use.as_ref(), &system, &systems, has_table)?;
        let whole_disk_bytes = match has_table || system.rebuild.is_none() {
            true => None,
            false => self.whole_disk_bytes(&systems, settings)?,
        };
        if let Some(whole_bytes) = whole_disk_bytes {
            // A layer of large zones has no room on a small disk.
            let larger = |part: &u64| Some(part * 2).filter(|part| part * SECTOR_BYTES < whole_bytes);
            for part in std::iter::successors(Some(PART_SECTORS), larger) {
                system.capacity = Some(AskedCapacity::Sectors(part));
                systems = Systems::new(&system)?;
                if smallest_disk_sectors(&systems, settings).is_ok() {
                    break;
                }
            }
        }
        Ok(AskedAdvice { options: self, settings, system, systems, placement, whole_disk_bytes, source, asked_use })
    }

    fn check(&self) -> Result<(), Error> {
        let arrival = self.conditions.arrival(self.demand.is_log());
        // What was measured becomes a workload, of which the size of the data has to be told.
        match self.demand.span.is_some() && self.measured()?.is_some() {
            true => DemandOptions { span: None, ..self.demand.clone() }.check(arrival)?,
            false => self.demand.check(arrival)?,
        }
        let asked_use = AskedUse::together(&self.asked_use, self.within);
        if let Some(paced) = self.asked_use.iter().find(|one| matches!(one.info.pace, Pace::Own(_)))
            && self.every.is_some()
        {
            let has_amount = self.asked_use.iter().any(|one| matches!(one.info.pace, Pace::AtOnce(_)));
            let amount = "; what has to be done beside it is spread over {within}, again and again";
            let (what, beside) = (paced.info.what, if has_amount { amount } else { "" });
            return Err(Error::Usage(format!(
                "{what} never ends, so that it can't come again: leave {{every}} out{beside}"
            )));
        }
        let is_paced = asked_use?.is_some_and(|asked| asked.is_paced() && asked.spread_over.is_none());
        let is_recorded =
            arrival == Arrival::Trace || self.measured()?.is_some_and(|measured| measured.depth.is_none());
        // Work of an array has a time of its own.
        let is_of_array = self.rebuild.is_some() || self.asked_use.iter().any(|one| one.info.work.is_of_array());
        if self.within.is_some() && (is_paced || is_recorded) && !is_of_array {
            return Err(Error::Usage(
                "these requests come at times of their own, so that there is no time to be done in: use {keep}".into(),
            ));
        }
        match self.system.layer.len() {
            0 | 1 => Ok(()),
            count => Err(Error::Usage(format!(
                "{count} layers, but advise looks at one drive or array: name one, or compare them in a run"
            ))),
        }
    }

    /// The work of the array's own, by the words that it was named in.
    fn rebuild_of(&self, array: Option<&ArraySpec>) -> Result<Option<RebuildSpec>, Error> {
        let text = match (self.asked_use.first(), self.rebuild, array) {
            (Some(asked), _, None) if asked.info.work.is_of_array() => {
                return Err(Error::Usage(format!(
                    "{asked} is work of an array: add {{array}} raidz1:disks=4, or another"
                )));
            }
            (Some(AskedUse { info: Use { work: Work::Scrub, .. }, .. }), ..) => "scrub".to_string(),
            (asked @ Some(AskedUse { info: Use { work: Work::Replace, .. }, .. }), _, Some(array))
            | (asked @ None, Some(AskedRebuild::Replace), Some(array)) => replacement(asked, facts(array).software)?,
            (None, Some(AskedRebuild::Spec(spec, _)), array) => {
                let facts = array.map(|array| ArrayFacts { rebuild: Some(spec), ..facts(array) });
                let is_in_order =
                    matches!((spec.order, spec.task), (RebuildOrder::Ascending { .. }, Task::Rebuild { .. }));
                if is_in_order && facts.is_some_and(|facts| !facts.rebuilds_in_order()) {
                    let message = "ZFS never rebuilds a RAIDZ in disk order: give {rebuild} resilver, with its keys after a colon, such as \
                                   resilver:new=empty";
                    return Err(Error::Usage(message.into()));
                }
                return Ok(Some(self.with_written(spec)));
            }
            _ => return Ok(None),
        };
        RebuildSpec::parse(&text).map(|spec| Some(self.with_written(spec)))
    }

    /// True if nobody said whether the disk that is written to was written before.
    fn assumes_written(&self) -> bool {
        match (self.rebuild, self.asked_use.first()) {
            (Some(spec), _) => !matches!(spec, AskedRebuild::Spec(_, true)),
            (None, Some(asked @ AskedUse { info: Use { work: Work::Replace, .. }, .. })) => {
                asked.given("new").is_none()
            }
            (None, _) => self.conditions.prefill.is_none(),
        }
    }

    /// A new disk may come from another array, or was tested by writing all of it: the worse of both is taken, unless it was said.
    fn with_written(&self, spec: RebuildSpec) -> RebuildSpec {
        match spec.task {
            Task::Rebuild { disk, before, .. } if self.assumes_written() => {
                RebuildSpec { task: Task::Rebuild { disk, before, used: true }, ..spec }
            }
            _ => spec,
        }
    }

    /// The load, and how its requests come.
    fn load(
        &self,
        asked_use: Option<&AskedUse>,
        system: &System,
        systems: &Systems,
        has_table: bool,
    ) -> Result<(LoadSource, Settings), Error> {
        let settings = |depth: u32| self.conditions.settings(self.depth.unwrap_or(depth), self.demand.is_log());
        let mut source = LoadSource { kind: LoadKind::Asked, workload: None, times: 1.0, note: None, reported: None };
        let has_load = asked_use.is_some_and(AskedUse::has_load) || self.demand.count() > 0 || has_table;
        if let (Some(array), Some(spec), false) = (&system.array, system.rebuild, has_load) {
            let is_scattered = matches!(spec.order, RebuildOrder::Scattered { .. });
            let (workload, users) = light_use(if is_scattered { Software::Zfs } else { facts(array).software });
            settings(1).validate()?;
            (source.kind, source.workload) = (LoadKind::Light, Some(workload.into()));
            return Ok((source, Settings { depth: users, think: LIGHT_PAUSE, ..flat_out(settings(1)) }));
        }
        let is_one_by_one = self.conditions.think > Nanos::ZERO || system.rebuild.is_some();
        let mut settings = settings(match asked_use {
            Some(asked) if !asked.is_paced() => asked.depth(),
            None if is_one_by_one => 1,
            _ => DEPTH,
        });
        if let Some(asked) = asked_use {
            let run = systems.runs(&[Settings::default()], None)?.pop();
            let disk = run.as_ref().map_or(Ok(Disk::default()), disk)?;
            let (workload, times) = asked.workload(&disk)?.unwrap_or_default();
            (source.workload, source.times) = (Some(workload), times);
            if asked.is_paced() {
                settings.arrival = Arrival::Trace;
            }
        } else if let Some(Recorded { workload, depth, note, reported }) = self.measured()? {
            settings.depth = self.depth.or(depth).unwrap_or(DEPTH);
            if depth.is_none() {
                settings.arrival = Arrival::Trace;
            }
            source = LoadSource { workload: Some(workload), note: Some(note), reported, ..source };
        }
        settings.validate()?;
        Ok((source, settings))
    }

    /// What was measured, where a file is not a trace but sums of one.
    fn measured(&self) -> Result<Option<Recorded>, Error> {
        match self.demand.trace.as_slice() {
            [path] if self.demand.workload.is_empty() && self.conditions.format.is_none() => {
                let device = match &self.conditions.volume {
                    VolumeChoice::Name(name) => Some(name.as_str()),
                    VolumeChoice::All | VolumeChoice::Number(_) => None,
                };
                sums::read(path, self.system.array.is_some(), device)
            }
            _ => Ok(None),
        }
    }

    /// Size of a disk of which only a part is rebuilt: where no trace needs all of it.
    fn whole_disk_bytes(&self, systems: &Systems, settings: Settings) -> Result<Option<u64>, Error> {
        if !self.demand.trace.is_empty() {
            return Ok(None);
        }
        let sectors = smallest_disk_sectors(systems, settings)?;
        Ok(sectors.filter(|&sectors| sectors > PART_SECTORS).map(|sectors| sectors * SECTOR_BYTES))
    }
}

/// What the smallest disk of a system offers.
fn smallest_disk_sectors(systems: &Systems, settings: Settings) -> Result<Option<u64>, Error> {
    let run = systems.runs(&[settings], None)?.pop();
    let members = run.iter().flat_map(|run| run.system().drives());
    Ok(members.map(DriveRun::host_sectors).collect::<Result<Vec<u64>, _>>()?.into_iter().min())
}

/// The same, with requests as fast as they are served.
fn flat_out(settings: Settings) -> Settings {
    Settings { arrival: Arrival::FlatOut, think: Nanos::ZERO, time_scale: 1.0, ..settings }
}

/// What a use has to know of the disk.
fn disk(run: &PlannedRun) -> Result<Disk, Error> {
    let mut disk = Disk { bytes: run.host_sectors()? * SECTOR_BYTES, zone_bytes: None };
    if let Some(zoned) = run.system().drives().first().filter(|_| run.refuses_writes()) {
        let parameters = (zoned.layer.settled)(&zoned.drive, &zoned.parameters)?.scalars();
        if let Some(Scalar::Int(bytes)) = parameters.get("zone_bytes") {
            disk.zone_bytes = Some(*bytes);
        }
    }
    Ok(disk)
}

/// An array, by the word that it was asked for with.
fn facts(array: &ArraySpec) -> ArrayFacts {
    let text = array.to_string();
    ArrayFacts::new(text.split(':').next().unwrap_or_default(), array.level, None)
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
    /// Sentences on the drives that stand for models which have none of their own, and for one that was not named.
    pub fn stand_ins(&self) -> impl Iterator<Item = String> {
        let names_all = |array: &ArraySpec| array.members.iter().all(|member| member.drive.is_some());
        let is_named = self.options.system.drive.is_some() || self.system.array.as_ref().is_some_and(names_all);
        let drive = (!is_named).then(|| format!("no drive was named: {DEFAULT_DRIVE} is taken"));
        let names_load = self.asked_use.is_some() || self.system.rebuild.is_some() || self.options.demand.count() > 0;
        let load = (!names_load).then(|| "no load was named, which --for does: a desktop's is taken".to_string());
        self.systems.stand_ins().chain(drive).chain(load)
    }

    /// Files that are read for it.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.systems.files().chain(self.options.system.files()).chain(self.options.demand.trace.iter().cloned())
    }

    /// The requests: the traces and workloads that were named, those of a use, or light use where there is nothing but a rebuild.
    pub fn demand(&self) -> Result<Arc<dyn Demand>, Error> {
        let demand = &self.options.demand;
        match &self.source.workload {
            // Light use is that of the whole array.
            Some(workload) if self.source.kind == LoadKind::Light => generated(workload, None),
            Some(workload) => generated(workload, demand.span),
            None => Ok(Arc::from(demand.open(&self.options.conditions, self.placement)?)),
        }
    }

    /// The loads under which the system is looked at: that of the question, and before it none where there is a rebuild.
    fn loads(&self, demand: &Arc<dyn Demand>) -> Vec<Load> {
        let mut loads = Vec::new();
        if self.system.rebuild.is_some() {
            let nothing: Arc<dyn Demand> = Arc::new(Table(Arc::new([])));
            // The rebuild alone is the same whatever is done beside it later.
            let settings = Settings { depth: self.options.depth.unwrap_or(1), ..flat_out(self.settings) };
            loads.push(Load { kind: LoadKind::Unused, demand: nothing, settings, is_even: false });
        }
        let (kind, demand, settings) = (self.source.kind, Arc::clone(demand), self.settings);
        loads.push(Load { kind, demand, settings, is_even: self.is_even() });
        loads
    }

    /// True of a workload that does the same from beginning to end.
    fn is_even(&self) -> bool {
        let is_even = |text: &String| !text.contains(';') && !UNEVEN.iter().any(|name| text.contains(name));
        let counts_all = self.settings.warmup == Warmup::Requests(0) && self.settings.until.is_none();
        let DemandOptions { trace, workload, .. } = &self.options.demand;
        let named = workload.first().filter(|_| workload.len() == 1 && trace.is_empty());
        let text = self.source.workload.as_ref().or(named);
        counts_all && self.system.rebuild.is_none() && text.is_some_and(is_even)
    }

    /// The answer for `demand`; `None` if an interrupt came before there was one.
    pub fn answer(
        self,
        demand: Arc<dyn Demand>,
        monitor: &dyn Monitor,
        listener: &mut dyn Listener,
    ) -> Result<Option<Advice>, Error> {
        let loads = self.loads(&demand);
        let experiment = Experiment { system: self.system.clone(), demand, settings: vec![self.settings] };
        let run = sized(&experiment, &self.systems, monitor)?;
        let AskedAdvice { options, source, asked_use, .. } = self;
        let AdviseOptions { within, every, keep, .. } = *options;
        let (span, disk) = (options.demand.span, disk(&run)?);
        let (mut buffers, mut scaled_load) = ([None; 2], None);
        if let Some(asked) = asked_use.clone().filter(AskedUse::is_paced) {
            // Who says how long requests may take knows better, and a rebuild is judged by its own time.
            if keep.is_none() && run.rebuild().is_none() {
                buffers = asked.buffers();
            }
            scaled_load = Some(Arc::new(move |load_factor| {
                generated(&asked.workload_at(&disk, load_factor)?.unwrap_or_default().0, span)
            }) as ScaledLoad);
        }
        let instead = match asked_use.as_ref().and_then(AskedUse::instead) {
            Some((one, other)) => Some((one.name, generated(&other.workload(&disk)?.unwrap_or_default().0, span)?)),
            None => None,
        };
        // What is spread over a time has no other need of it.
        let within = within.filter(|_| asked_use.as_ref().is_none_or(|asked| asked.spread_over.is_none()));
        let load = &loads[loads.len() - 1];
        let even_requests = match load.is_even && load.settings.arrival == Arrival::FlatOut {
            true => load.demand.open(&run.opening()?)?.progress().total,
            false => None,
        };
        let question = Question {
            run,
            loads,
            asked_use,
            scaled_load,
            instead,
            need: Need { within, every, keep, buffers },
            note: source.note,
            reported: source.reported,
            times: source.times,
            even_requests,
            whole_disk_bytes: self.whole_disk_bytes,
            assumes_written: options.assumes_written(),
        };
        advise(&question, monitor, listener)
    }
}

/// The requests of a workload, which takes so many bytes for the disk's size if that is given.
fn generated(workload: &str, span: Option<u64>) -> Result<Arc<dyn Demand>, Error> {
    Ok(Arc::new(GeneratedDemand { workload: Workload::parse(workload)?, span: span.map(|bytes| bytes / SECTOR_BYTES) }))
}

/// Workloads that do different things one after another.
const UNEVEN: [&str; 2] = ["desktop", "cassuto-pc"];

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

/// The rebuild of a replaced disk, as the option that asks for it.
fn replacement(asked: Option<&AskedUse>, software: Software) -> Result<String, Error> {
    let mut keys = Vec::new();
    if let Some(live) = asked.and_then(|asked| asked.given("live")) {
        if software == Software::Md {
            let message = "md rebuilds all of a disk, in use or not: leave {use} replace:live= out";
            return Err(Error::Usage(message.into()));
        }
        keys.push(format!("live={}", parse_share(live)?));
    }
    keys.extend(asked.and_then(|asked| asked.given("new")).map(|new| format!("new={new}")));
    let name = if software == Software::Zfs { "resilver" } else { "rebuild" };
    Ok(if keys.is_empty() { name.to_string() } else { format!("{name}:{}", keys.join(",")) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use smrkit_options::pairs;

    #[test]
    fn a_disk_is_replaced_as_the_software_of_the_array_does_it() {
        let asked = |array: &str, word: &str| {
            let words = [("array", array), ("rebuild", word)].map(|(name, value)| (name.into(), value.into()));
            let options: AdviseOptions = pairs::read(&words, &|name| name.to_string()).unwrap();
            options.ask(false).map(|asked| asked[0].system.rebuild.unwrap())
        };
        let [md, zfs, empty] =
            ["rebuild:new=full", "resilver:new=full", "rebuild"].map(|text| RebuildSpec::parse(text).unwrap());
        for word in ["replace", "rebuild"] {
            assert_eq!(asked("raidz1:disks=4", word).unwrap(), zfs);
            assert_eq!(asked("raid5:disks=4", word).unwrap(), md);
        }
        assert_eq!(asked("raid5:disks=4", "resilver").unwrap(), zfs);
        assert_eq!(asked("raid5:disks=4", "rebuild:new=empty").unwrap(), empty);
        // That of a mirror may go in order, that of a RAIDZ never does.
        assert_eq!(asked("mirror:disks=2", "new=empty").unwrap(), empty);
        assert!(
            asked("raidz1:disks=4", "new=empty").is_err_and(|error| error.to_string().contains("resilver:new=empty"))
        );
    }

    #[test]
    fn the_new_disk_of_a_use_was_written_or_not() {
        let asked = |use_name: &str, more: &[(&str, &str)]| {
            let words = [("array", "raidz1:disks=4"), ("use", use_name)].into_iter().chain(more.iter().copied());
            let words: Vec<(String, String)> = words.map(|(name, value)| (name.into(), value.into())).collect();
            let options: AdviseOptions = pairs::read(&words, &|name| name.to_string()).unwrap();
            let spec = options.ask(false).unwrap()[0].system.rebuild.unwrap();
            (matches!(spec.task, Task::Rebuild { used: true, .. }), options.assumes_written())
        };
        assert_eq!(asked("replace", &[]), (true, true));
        assert_eq!(asked("replace:new=empty", &[]), (false, false));
        assert_eq!(asked("replace:live=40%,new=full", &[]), (true, false));
    }

    #[test]
    fn a_rebuild_alone_is_the_same_whatever_is_done_beside_it() {
        let alone = |uses: &[&str]| {
            let words = uses.iter().map(|name| ("use", *name)).chain([("array", "raidz1:disks=4")]);
            let words: Vec<(String, String)> = words.map(|(name, value)| (name.into(), value.into())).collect();
            let options: AdviseOptions = pairs::read(&words, &|name| name.to_string()).unwrap();
            let asked = options.ask(false).unwrap().remove(0);
            let load = asked.loads(&asked.demand().unwrap()).remove(0);
            assert_eq!(load.kind, LoadKind::Unused);
            load.settings
        };
        assert_eq!(alone(&["replace"]), alone(&["replace", "plex"]));
    }

    #[test]
    fn what_never_ends_does_not_come_again() {
        let asked = |words: &[(&str, &str)]| {
            let words: Vec<(String, String)> =
                words.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            let options: AdviseOptions = pairs::read(&words, &|name| name.to_string()).unwrap();
            options.ask(false).err().map(|error| error.to_string()).unwrap_or_default()
        };
        let both = [("use", "restic:bytes=60G"), ("use", "torrent")];
        let within = [&both[..], &[("within", "8h")]].concat();
        for words in [[&both[..], &[("every", "1d")]].concat(), [&within[..], &[("every", "1d")]].concat()] {
            assert!(asked(&words).contains("leave every out"), "{}", asked(&words));
        }
        assert_eq!(asked(&within), "");
        // A rebuild ends, whatever goes on beside it.
        let rebuilt = [("array", "raidz1:disks=4"), ("use", "replace"), ("use", "plex"), ("within", "2d")];
        assert_eq!(asked(&rebuilt), "");
    }

    #[test]
    fn disks_of_an_array_may_differ() {
        let asked = |array: &str, drive: &str| {
            let words: [(String, String); 2] =
                [("array", array), ("drive", drive)].map(|(name, value)| (name.into(), value.into()));
            let options: AdviseOptions =
                pairs::read(&words[usize::from(array.is_empty())..], &|name| name.to_string()).unwrap();
            options.ask(false).map(|asked| {
                let members = &asked[0].system.array.as_ref().unwrap().members;
                members.iter().map(|member| member.drive.clone().unwrap()).collect::<Vec<_>>()
            })
        };
        assert_eq!(
            asked("raidz1:disks=4", "wd40efax+wd40efrx").unwrap(),
            ["wd40efax", "wd40efrx", "wd40efrx", "wd40efrx"]
        );
        assert_eq!(asked("mirror:disks=2", "wd40efax+WD40EFRX").unwrap(), ["wd40efax", "WD40EFRX"]);
        let why = |array: &str, drive: &str| asked(array, drive).err().unwrap().to_string();
        assert!(why("mirror:disks=2", "wd40efax+wd40efrx+wd40efrx").contains("write disks=3"));
        assert!(why("", "wd40efax+wd40efrx").contains("several disks of one array"));
    }

    #[test]
    fn a_rebuild_beside_a_table_is_one_of_whole_disks() {
        let words =
            [("array", "raid1:disks=2"), ("rebuild", "resilver")].map(|(name, value)| (name.into(), value.into()));
        let options: AdviseOptions = pairs::read(&words, &|name| name.to_string()).unwrap();
        let part = |has_table| options.ask(has_table).unwrap()[0].whole_disk_bytes.is_some();
        assert_eq!((part(false), part(true)), (true, false));
    }
}
