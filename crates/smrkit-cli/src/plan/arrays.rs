//! `--array`: from a description to arrays that can be run. What it leaves out of a member is the run's own: layer, drive,
//! parameters, size.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use smrkit::device::address::Layout;
use smrkit::device::level::Level;
use smrkit::device::spec::{ArraySpec, DriveSpec, MemberSpec};
use smrkit::drive::{DRIVES, Drive};
use smrkit::engine::run::Run;
use smrkit::engine::settings::Settings;
use smrkit::engine::system::{ArrayRun, DriveRun, MemberRun};
use smrkit::error::Error;
use smrkit::layer::{self, LayerSpec};

use super::settings::{self, Setting, Value};
use super::size::{Capacity, Size, fewest, scaled, too_large};
use crate::job::Job;

/// The array that `--array` describes, as text or as the path of a TOML file.
pub fn read(text: &str) -> Result<ArraySpec, Error> {
    if !text.ends_with(".toml") {
        let message = || format!("--array {text} is a path: the name of a file that describes one must end in .toml");
        return ArraySpec::parse(text).map_err(|error| match Path::new(text).exists() {
            true => Error::Usage(message()),
            false => error,
        });
    }
    let content = std::fs::read_to_string(text).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => Error::input(text, "not a text file: give an array in TOML"),
        _ => Error::reading(text, error),
    })?;
    ArraySpec::from_toml(Path::new(text), &content)
}

/// What members take from the run, as the options give it.
pub struct Own<'a> {
    /// `--drive`.
    pub drive: Option<&'a str>,
    /// What stands for it.
    pub default_drive: &'a str,
    /// `--layer`; none for all that are to be compared.
    pub layers: &'a [String],
    /// What stands for it.
    pub default_layers: Vec<&'static LayerSpec>,
    /// `--set`.
    pub set: &'a [String],
    /// `--capacity`.
    pub capacity: Option<Capacity>,
}

/// An array, and every run of it that options multiply into.
pub struct Arrays<'a> {
    spec: &'a ArraySpec,
    drive: &'a str,
    drives: BTreeMap<&'a str, Drive>,
    capacity: Option<Capacity>,
    plans: Vec<Plan>,
}

/// What the members of one run take from it.
struct Plan {
    layer: Option<&'static LayerSpec>,
    set: Vec<Value>,
}

impl<'a> Arrays<'a> {
    /// Looks up what the description and the options name, and refuses options that no member would take.
    pub fn new(spec: &'a ArraySpec, own: &Own<'a>) -> Result<Arrays<'a>, Error> {
        let drives = spec_drives(spec);
        let (named, open): (Vec<&DriveSpec>, Vec<&DriveSpec>) =
            drives.iter().copied().partition(|drive| drive.layer.is_some());
        let in_vain = |option: &str, key: &str| {
            let message =
                format!("every member of the array has a {key} of its own: leave out {option}, or {key}= in the array");
            Err(Error::Usage(message))
        };
        if open.is_empty() && !own.layers.is_empty() {
            return in_vain("--layer", "layer");
        }
        if own.drive.is_some() && drives.iter().all(|drive| drive.drive.is_some()) {
            return in_vain("--drive", "drive");
        }
        if own.capacity.is_some() && drives.iter().all(|drive| drive.capacity_sectors.is_some()) {
            return in_vain("--capacity", "capacity");
        }
        let mut fixed: Vec<&'static LayerSpec> = Vec::new();
        for name in named.iter().filter_map(|drive| drive.layer.as_deref()) {
            let spec = layer::find(name)?;
            if !fixed.iter().any(|known| known.name == spec.name) {
                fixed.push(spec);
            }
        }
        let drive = own.drive.unwrap_or(own.default_drive);
        let names: BTreeSet<&str> = drives.iter().map(|spec| spec.drive.as_deref().unwrap_or(drive)).collect();
        Ok(Arrays {
            spec,
            drive,
            drives: names.into_iter().map(|name| Ok((name, Drive::load(name)?))).collect::<Result<_, Error>>()?,
            capacity: own.capacity,
            plans: plans(&fixed, !open.is_empty(), own)?,
        })
    }

    /// Files that describe its drives.
    pub fn files(&self) -> Vec<PathBuf> {
        self.drives.keys().map(PathBuf::from).filter(|path| path.is_file()).collect()
    }

    /// How many runs there are.
    pub fn count(&self) -> usize {
        self.plans.len()
    }

    /// The runs; with `--capacity auto` each drive with as many of its platters as let the array hold `needed` (what each
    /// source needs of a dedicated array, all together of another).
    pub fn jobs(&self, settings: Settings, needed: Option<u64>) -> Result<Vec<Job>, Error> {
        let all = |size| self.plans.iter().map(|plan| self.job(plan, settings, size)).collect::<Result<Vec<_>, _>>();
        let own = Size::of(self.capacity);
        let Some(needed) = needed.filter(|_| own == Size::Platters(1)) else { return all(own) };
        let holds = |jobs: &Vec<Job>| jobs.iter().all(|job| job.host_sectors >= Some(needed));
        let sized = |times: u64| match all(Size::Platters(times)) {
            Ok(jobs) => Ok(Some(jobs).filter(holds)),
            Err(Error::Impossible(_)) => Ok(None),
            Err(other) => Err(other),
        };
        let (times, mut jobs) = match fewest(1, sized)? {
            Some(found) => found,
            // Where the members themselves are impossible, that is what has to be said.
            None => return Err(all(own).err().unwrap_or_else(|| too_large(&self.spec.to_string(), needed))),
        };
        if times > 1 {
            for (job, own) in jobs.iter_mut().zip(all(own)?) {
                job.scaled = scaled(times, needed, own.raw_sectors());
            }
        }
        Ok(jobs)
    }

    fn job(&self, plan: &Plan, settings: Settings, size: Size) -> Result<Job, Error> {
        let mut builder = Builder { of: self, plan, size, known: Vec::new(), files: Vec::new() };
        let (run, layout) = builder.array(self.spec)?;
        let (array, host_sectors) = (Some(self.spec.to_string()), Some(layout.sectors_for_all()));
        Ok(Job { run: Run::new(run, settings), array, host_sectors, files: builder.files, scaled: None })
    }
}

/// Refuses more sources than a dedicated array has members for.
pub fn check_sources(spec: &ArraySpec, sources: usize) -> Result<(), Error> {
    let disks = spec.members.len();
    if spec.level == Level::Dedicated && sources > disks {
        let message = format!(
            "dedicated has a member for each source, and there are {sources} sources for {disks} members: raise disks to \
             {sources}, or merge fewer"
        );
        return Err(Error::Impossible(message));
    }
    Ok(())
}

/// The runs: each layer for the members that name none, with every combination of the parameters set.
fn plans(fixed: &[&'static LayerSpec], is_open: bool, own: &Own) -> Result<Vec<Plan>, Error> {
    let chosen: Vec<Option<&'static LayerSpec>> = match own.layers {
        _ if !is_open => vec![None],
        [] => own.default_layers.iter().copied().map(Some).collect(),
        names => names.iter().map(|name| layer::find(name.trim()).map(Some)).collect::<Result<_, _>>()?,
    };
    let all: Vec<&LayerSpec> = fixed.iter().copied().chain(chosen.iter().copied().flatten()).collect();
    let set = own.set.iter().map(|text| Setting::parse(text, &all)).collect::<Result<Vec<_>, _>>()?;
    let of_layer = |layer: Option<&'static LayerSpec>| {
        let used: Vec<&LayerSpec> = fixed.iter().copied().chain(layer).collect();
        settings::combinations(&set, &used).into_iter().map(move |set| Plan { layer, set })
    };
    Ok(chosen.into_iter().flat_map(of_layer).collect())
}

/// The drives of a description, those of nested arrays included, in order.
fn spec_drives(spec: &ArraySpec) -> Vec<&DriveSpec> {
    let mut drives = Vec::new();
    for member in &spec.members {
        match member {
            MemberSpec::Drive(drive) => drives.push(drive),
            MemberSpec::Array(array) => drives.extend(spec_drives(array)),
        }
    }
    drives
}

/// Builds one run of an array; members that are described alike are looked at once.
struct Builder<'a> {
    of: &'a Arrays<'a>,
    plan: &'a Plan,
    size: Size,
    known: Vec<(&'a DriveSpec, DriveRun, u64)>,
    files: Vec<Option<String>>,
}

impl<'a> Builder<'a> {
    fn array(&mut self, spec: &'a ArraySpec) -> Result<(ArrayRun, Layout), Error> {
        let (mut members, mut sizes) = (Vec::new(), Vec::new());
        for member in &spec.members {
            let (member, sectors) = match member {
                MemberSpec::Drive(drive) => {
                    let (run, sectors) = self.drive(drive)?;
                    (MemberRun::from(run), sectors)
                }
                MemberSpec::Array(array) => {
                    let (run, layout) = self.array(array)?;
                    (MemberRun::from(run), layout.host_sectors())
                }
            };
            members.push(member);
            sizes.push(sectors);
        }
        let layout = Layout::new(spec.level, spec.chunk_sectors, &sizes)?;
        let (chunk_sectors, write) = (spec.chunk_sectors, spec.write);
        let run = ArrayRun { chunk_sectors, write, ..ArrayRun::new(spec.level, members) };
        Ok((run, layout))
    }

    /// A drive under its layer, and the sectors that it offers.
    fn drive(&mut self, spec: &'a DriveSpec) -> Result<(DriveRun, u64), Error> {
        let name = spec.drive.as_deref().unwrap_or(self.of.drive);
        let is_shipped = DRIVES.iter().any(|(known, _)| *known == name);
        self.files.push(Some(name.to_string()).filter(|_| !is_shipped));
        if let Some((_, run, sectors)) = self.known.iter().find(|(known, _, _)| *known == spec) {
            return Ok((run.clone(), *sectors));
        }
        let layer = match (&spec.layer, self.plan.layer) {
            (Some(name), _) => layer::find(name)?,
            (None, Some(layer)) => layer,
            (None, None) => unreachable!("where a member names no layer, the run does"),
        };
        // The description's own parameters come last: they hold.
        let set = [settings::of_layer(&self.plan.set, layer), spec.set.clone()].concat();
        let parameters = layer.resolve(&set)?;
        let drive = match self.of.drives.get(name) {
            Some(drive) => drive.clone(),
            None => Drive::load(name)?,
        };
        let drive = spec.capacity_sectors.map_or(self.size, Size::Sectors).applied(drive)?;
        let capacity = (layer.capacity)(&drive, &parameters).map_err(|error| match error {
            Error::Impossible(text) if !text.starts_with(layer.name) => {
                Error::Impossible(format!("{}: {text}", layer.name))
            }
            other => other,
        })?;
        let sectors = capacity.host_sectors;
        let run = DriveRun { drive, layer, parameters };
        self.known.push((spec, run.clone(), sectors));
        Ok((run, sectors))
    }
}
