//! The system that serves a demand: a drive or an array as it was asked for, and the runs that its lists of values expand to.
//!
//! `--capacity` is a size, or as many platters as a trace needs on every layer of a comparison.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use crate::device::address::ArrayLayout;
use crate::device::level::Level;
use crate::device::spec::{ArraySpec, DriveSpec, SystemSpec};
use crate::drive::{DRIVES, Drive};
use crate::engine::rebuild::RebuildSpec;
use crate::engine::run::Run;
use crate::engine::saved::SavedState;
use crate::engine::system::{ArrayRun, DriveRun, SystemRun};
use crate::error::Error;
use crate::experiment::planned::PlannedRun;
use crate::layer::{self, AS_SOLD, BASELINE, DRIVE_MANAGED, LayerSpec};
use crate::quantity::{Bytes, parse_bytes};
use crate::settings::Settings;
use crate::stats::outcome::{RunRecord, Scaled};
use crate::units::{Nanos, SECTOR_BYTES};

/// The default drive: a drive-managed disk that many people own.
pub const DEFAULT_DRIVE: &str = "st8000dm004";

/// Layers if none is named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultLayers {
    /// Every layer.
    #[default]
    Every,
    /// The layer that the drive is sold with, beside the baseline; every layer on a drive that is not sold.
    Compared,
    /// The layer that the drive is sold with; that of drive-managed disks on a drive that is not sold.
    AsSold,
}

/// A drive or an array, as it was asked for.
#[derive(Clone, Default)]
pub struct System {
    /// An array. Members inherit from the system the values that they leave out.
    pub array: Option<ArraySpec>,
    /// Built-in drives, or paths of drive files, each in runs of its own; by default [`DEFAULT_DRIVE`].
    pub drives: Vec<String>,
    /// Layers, each in a run of its own; [`AS_SOLD`] is that of the drive's file.
    pub layers: Vec<String>,
    /// Layers if none is named.
    pub default_layers: DefaultLayers,
    /// Leaves the baseline out if no layer is named.
    pub no_baseline: bool,
    /// Parameters, as `layer.key=value`; several values with commas between multiply the runs.
    pub set: Vec<String>,
    /// The size of drives; by default [`AskedCapacity::Auto`].
    pub capacity: Option<AskedCapacity>,
    /// The array's own work next to the demand.
    pub rebuild: Option<RebuildSpec>,
    /// Drives given as values, by the names that `drives` and the array's members use for them.
    pub given: BTreeMap<String, Drive>,
    /// How many sectors of each member of the array are used at most; by default all.
    pub used_sectors: Option<Vec<u64>>,
    /// The length of the timeline's windows; without, they double as the run grows.
    pub window: Option<Nanos>,
    /// Saved state that runs begin with, if their settings say so. If nothing else is named, the system is the state's.
    pub from_state: Option<Arc<SavedState>>,
}

impl System {
    /// One drive given as a value, under every layer.
    pub fn of(drive: Drive) -> System {
        System::drive(drive.name.clone()).given(drive.name.clone(), drive)
    }

    /// The system with this drive for `name`. A record keeps the path and the text of a drive's file; a drive without a file is recorded as
    /// the built-in drive of its name.
    pub fn given(mut self, name: impl Into<String>, drive: Drive) -> System {
        self.given.insert(name.into(), drive);
        self
    }

    /// A built-in drive, or the path of a drive file, under every layer.
    pub fn drive(name: impl Into<String>) -> System {
        System::default().and_drive(name)
    }

    /// Adds a drive, in runs of its own.
    pub fn and_drive(mut self, name: impl Into<String>) -> System {
        self.drives.push(name.into());
        self
    }

    /// An array of the default drive, under every layer.
    pub fn array(spec: ArraySpec) -> System {
        System { array: Some(spec), ..System::default() }
    }

    /// Adds a layer.
    pub fn layer(mut self, name: impl Into<String>) -> System {
        self.layers.push(name.into());
        self
    }

    /// Sets a parameter, `layer.key`. Several values with commas between multiply the runs.
    pub fn set(mut self, key: &str, value: impl ToString) -> System {
        self.set.push(format!("{key}={}", value.to_string()));
        self
    }

    /// The system on drives of this size.
    pub fn capacity(self, capacity: AskedCapacity) -> System {
        System { capacity: Some(capacity), ..self }
    }

    /// True if it names no drive, layer, array, size or parameter.
    fn names_nothing(&self) -> bool {
        let no_drive = self.array.is_none() && self.drives.is_empty() && self.capacity.is_none();
        no_drive && self.layers.is_empty() && self.set.is_empty()
    }

    /// The only run of a system. Errors: lists of values, which make several runs, and settings that make no sense.
    pub fn run(&self, settings: Settings) -> Result<PlannedRun, Error> {
        settings.validate()?;
        let runs = Systems::new(self)?.runs(&[settings], None)?;
        let [run] = <[PlannedRun; 1]>::try_from(runs)
            .map_err(|runs| Error::Usage(format!("one run is wanted, and this makes {}: choose one", runs.len())))?;
        Ok(run)
    }

    fn spec(&self) -> SystemSpec {
        match &self.array {
            Some(array) => SystemSpec::Array(array.clone()),
            None => SystemSpec::Drive(DriveSpec::default()),
        }
    }

    /// The layers that `drives`, which name none themselves, are run under. Errors: a layer that one of them can't have.
    fn chosen(&self, drives: &[&Drive]) -> Result<Vec<ChosenLayer>, Error> {
        let is_sold = drives.iter().all(|drive| drive.translation.is_some());
        let candidates = || layer::all().into_iter().filter(|spec| !(self.no_baseline && spec.name == BASELINE));
        let chosen: Vec<ChosenLayer> = match (self.layers.as_slice(), self.default_layers) {
            ([], DefaultLayers::AsSold) => vec![ChosenLayer::AsSold { unsold: Some(layer::find(DRIVE_MANAGED)?) }],
            ([], DefaultLayers::Compared) if is_sold => {
                let baseline = candidates().filter(|spec| spec.name == BASELINE).map(ChosenLayer::Named);
                baseline.chain([ChosenLayer::AsSold { unsold: None }]).collect()
            }
            ([], _) => candidates().map(ChosenLayer::Named).collect(),
            (names, _) => names.iter().map(|name| ChosenLayer::find(name.trim())).collect::<Result<_, _>>()?,
        };
        let mut distinct: Vec<ChosenLayer> = Vec::new();
        // The names of their layers on each drive.
        let mut listed: Vec<Vec<&str>> = Vec::new();
        for layer in chosen {
            let mut names = Vec::new();
            for drive in drives {
                let spec = layer.on(drive)?;
                if !self.layers.is_empty() {
                    spec.check_on(drive)?;
                }
                names.push(spec.name);
            }
            // A conventional disk is sold with the baseline itself, so the same layer would be listed twice.
            if matches!(layer, ChosenLayer::AsSold { .. }) && listed.contains(&names) {
                continue;
            }
            distinct.push(layer);
            listed.push(names);
        }
        Ok(distinct)
    }

    /// Refuses options that no drive of an array would use.
    fn refuse_unused(&self, drives: &[DriveSpec]) -> Result<(), Error> {
        let is_unused = [
            ("layer", !self.layers.is_empty() && drives.iter().all(|drive| drive.layer.is_some())),
            ("drive", !self.drives.is_empty() && drives.iter().all(|drive| drive.drive.is_some())),
            ("capacity", self.capacity.is_some() && drives.iter().all(|drive| drive.capacity_sectors.is_some())),
        ];
        match is_unused.iter().find(|(_, unused)| *unused) {
            None => Ok(()),
            Some((key, _)) => Err(Error::Usage(format!(
                "every member of the array has a {key} of its own: leave out {{{key}}}, or {key}= in the array"
            ))),
        }
    }
}

/// A system whose names have been looked up, and every run of it.
pub struct Systems {
    spec: SystemSpec,
    array: Option<String>,
    drives: BTreeMap<String, Drive>,
    asked: System,
    choices: Vec<Choice>,
}

/// A layer's name, and a key of it with one value.
type SetValue = (&'static str, (String, String));

/// The values of one run, among those that were asked for.
struct Choice {
    /// The drive for members that name none.
    drive: String,
    layer: Option<ChosenLayer>,
    set: Vec<SetValue>,
}

/// A layer for all drives, or each drive's own.
#[derive(Clone, Copy)]
enum ChosenLayer {
    /// The layer that the drive is sold with, or `unsold` for a drive that is not a product.
    AsSold {
        unsold: Option<&'static LayerSpec>,
    },
    Named(&'static LayerSpec),
}

impl ChosenLayer {
    fn find(name: &str) -> Result<ChosenLayer, Error> {
        match name {
            AS_SOLD => Ok(ChosenLayer::AsSold { unsold: None }),
            name => layer::find(name).map(ChosenLayer::Named),
        }
    }

    fn on(self, drive: &Drive) -> Result<&'static LayerSpec, Error> {
        match self {
            ChosenLayer::Named(layer) => Ok(layer),
            ChosenLayer::AsSold { unsold: Some(layer) } if drive.translation.is_none() => Ok(layer),
            ChosenLayer::AsSold { .. } => layer::as_sold(drive),
        }
    }
}

impl Systems {
    /// Looks up the names of what was asked for, and refuses options that no drive would use.
    pub fn new(asked: &System) -> Result<Systems, Error> {
        if asked.used_sectors.is_some() && asked.array.is_none() {
            return Err(Error::Usage("used_sectors is for members of an array: leave it out".into()));
        }
        match &asked.from_state {
            Some(saved) if asked.names_nothing() => Systems::saved(saved, asked),
            _ => {
                let systems = Systems::from_spec(asked.spec(), asked, Drive::load)?;
                systems.check_members()?;
                Ok(systems)
            }
        }
    }

    /// Refuses an array whose drive names a layer that it can't have.
    fn check_members(&self) -> Result<(), Error> {
        for spec in self.spec.drives() {
            let Some(layer) = spec.layer.as_deref() else { continue };
            let names: Vec<&String> = match &spec.drive {
                Some(name) => vec![name],
                None => self.choices.iter().map(|choice| &choice.drive).collect(),
            };
            for drive in names.into_iter().map(|name| &self.drives[name]) {
                ChosenLayer::find(layer)?.on(drive)?.check_on(drive)?;
            }
        }
        Ok(())
    }

    /// The system that a state was saved of.
    fn saved(saved: &Arc<SavedState>, asked: &System) -> Result<Systems, Error> {
        let mut systems = Systems::recorded(&saved.record())?;
        systems.array = systems.is_array().then(|| saved.record().system);
        (systems.asked.window, systems.asked.from_state) = (asked.window, Some(Arc::clone(saved)));
        Ok(systems)
    }

    /// True if it is an array.
    pub fn is_array(&self) -> bool {
        matches!(self.spec, SystemSpec::Array(_))
    }

    /// The system of a record: every drive with its layer, its size and its parameters. Errors: a drive file whose text is not in the
    /// record. Its path is never read, because a record may come from anybody.
    pub(super) fn recorded(record: &RunRecord) -> Result<Systems, Error> {
        let (used_sectors, window) = (record.used_sectors.clone(), record.window_ns.map(Nanos));
        let asked = System { rebuild: record.rebuild, used_sectors, window, ..System::default() };
        let load = |name: &str| match record.drive_files.get(name) {
            Some(text) => Drive::parse(name.as_ref(), text),
            // The name of a built-in drive may end with a chosen value, such as @KEY=low.
            None if !name.contains('/') && DRIVES.iter().any(|(own, _)| name.split('@').next() == Some(own)) => {
                Drive::load(name)
            }
            None => {
                Err(Error::Usage(format!("the drive `{name}` does not come with smrkit, and its text is missing here")))
            }
        };
        Systems::from_spec(SystemSpec::parse(&record.system)?, &asked, load)
    }

    fn from_spec(
        spec: SystemSpec,
        asked: &System,
        load: impl Fn(&str) -> Result<Drive, Error>,
    ) -> Result<Systems, Error> {
        let specs = spec.drives();
        asked.refuse_unused(specs)?;
        let default = [DEFAULT_DRIVE.to_string()];
        let asked_drives = if asked.drives.is_empty() { &default } else { asked.drives.as_slice() };
        let mut drives = BTreeMap::new();
        for asked_drive in asked_drives {
            for spec in specs {
                // Members without a drive of their own have the one asked for.
                let name = spec.drive.as_deref().unwrap_or(asked_drive);
                if !drives.contains_key(name) {
                    let given = asked.given.get(name).cloned();
                    drives.insert(name.to_string(), given.map_or_else(|| load(name), Ok)?);
                }
            }
        }
        let drives = with_distinct_paths(drives);
        let mut choices = Vec::new();
        for drive in asked_drives {
            choices.extend(self::choices(drive, specs, &drives, asked)?);
        }
        let array = asked.array.as_ref().map(ToString::to_string);
        Ok(Systems { spec, array, drives, asked: asked.clone(), choices })
    }

    /// Files that describe its drives.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.drives.values().filter_map(Drive::file).map(Path::to_path_buf)
    }

    /// Sentences on drives that are not quite what was asked for: they stand for a model without a drive of its own, or have a layer that
    /// no such disk is sold with.
    pub fn stand_ins(&self) -> impl Iterator<Item = String> {
        let other_models = self.drives.values().filter_map(|drive| {
            let size = Bytes::of_sectors(drive.geometry.sectors);
            Some(format!("{} stands for {}, with platters of {size}", drive.name, drive.stands_for()?))
        });
        // A choice without a layer has drives that all name their own.
        let other_layers = self.choices.iter().filter_map(|choice| match choice.layer? {
            ChosenLayer::Named(layer) => layer.note_if_not_sold(self.drives.get(&choice.drive)?),
            ChosenLayer::AsSold { .. } => None,
        });
        other_models.chain(other_layers.collect::<BTreeSet<String>>())
    }

    /// The number of runs.
    pub fn count(&self) -> usize {
        self.choices.len()
    }

    /// The runs, drive by drive, each under all of the settings. If no size was asked for, each drive gets as many platters as every run
    /// needs to hold `needed` sectors (on a dedicated array: the sectors of each source).
    pub fn runs(&self, settings: &[Settings], needed: Option<u64>) -> Result<Vec<PlannedRun>, Error> {
        let mut runs = Vec::new();
        for choices in self.choices.chunk_by(|a, b| a.drive == b.drive) {
            let sized = self.sized(choices, needed)?;
            for settings in settings {
                runs.extend(sized.iter().map(|run| run.clone().with(*settings)));
            }
        }
        Ok(runs)
    }

    /// Runs of one drive under the default settings.
    fn sized(&self, choices: &[Choice], needed: Option<u64>) -> Result<Vec<PlannedRun>, Error> {
        let capacity = self.asked.capacity.unwrap_or_default();
        let runs_of_size =
            |multiple| choices.iter().map(|choice| self.run(choice, multiple)).collect::<Result<Vec<_>, _>>();
        let is_fixed = matches!(capacity, AskedCapacity::Sectors(_));
        let Some(needed) = needed.filter(|_| !is_fixed) else { return runs_of_size(1) };
        // The runs with drives of this multiple of their size; `None` if that is too small.
        let fitting = |multiple: u64| match runs_of_size(multiple) {
            Ok(runs) => {
                for run in &runs {
                    if run.host_sectors()? < needed {
                        return Ok(None);
                    }
                }
                Ok(Some(runs))
            }
            // A small drive may have no room for its layer's own needs.
            Err(error) if matches!(error.cause(), Error::Impossible(_)) => Ok(None),
            Err(other) => Err(other),
        };
        let is_by_platters = capacity == AskedCapacity::Auto;
        let first = match (&self.array, choices.first().and_then(|choice| self.drives.get(&choice.drive))) {
            // With fewer platters a single drive certainly holds too little.
            (None, Some(drive)) if is_by_platters => needed.div_ceil(drive.geometry.sectors.max(1)),
            _ => 1,
        };
        let Some((multiple, mut runs)) = fewest(first, fitting)? else {
            // If a drive is impossible at its own size, that error is the one to show.
            runs_of_size(1)?;
            let names = || self.drives.values().map(|drive| drive.name.clone()).collect();
            return Err(Error::Impossible(format!(
                "the trace needs {}, and no number of platters lets {} offer that under every layer: choose one \
                 {{volume}}, a larger {{drive}}, or {{fold}}",
                Bytes::of_sectors(needed),
                self.array.clone().unwrap_or_else(names)
            )));
        };
        if multiple > 1 && is_by_platters {
            for (run, own) in runs.iter_mut().zip(runs_of_size(1)?) {
                let bytes = |sectors: u64| sectors.saturating_mul(SECTOR_BYTES);
                let (needed_bytes, own_bytes) = (bytes(needed), bytes(own.raw_sectors()));
                run.scaled = Some(Scaled { platters: multiple, needed_bytes, own_bytes });
            }
        }
        Ok(runs)
    }

    /// The run of a choice with drives of the `nth` size.
    fn run(&self, choice: &Choice, nth: u64) -> Result<PlannedRun, Error> {
        // Drives with the same description are built once: an array may have thousands.
        let mut built: Vec<(&DriveSpec, DriveRun, u64)> = Vec::new();
        let (mut members, mut sizes) = (Vec::new(), Vec::new());
        for spec in self.spec.drives() {
            let known = built.iter().position(|(known, ..)| *known == spec);
            let at = known.unwrap_or(built.len());
            if known.is_none() {
                let (run, sectors) = self.drive(spec, choice, nth)?;
                built.push((spec, run, sectors));
            }
            let (_, run, sectors) = &built[at];
            members.push(run.clone());
            sizes.push(*sectors);
        }
        let (system, host_sectors): (SystemRun, u64) = match &self.spec {
            SystemSpec::Drive(_) => (members.remove(0).into(), sizes[0]),
            SystemSpec::Array(ArraySpec { level, chunk_sectors, .. }) => {
                let (level, chunk_sectors) = (*level, *chunk_sectors);
                let array = ArrayRun { level, chunk_sectors, members, used_sectors: self.asked.used_sectors.clone() };
                // Without a limit on them, the sizes found above give the layout.
                let layout = match array.used_sectors {
                    None => ArrayLayout::new(level, chunk_sectors, &sizes)?,
                    Some(_) => array.layout()?,
                };
                (array.into(), layout.sectors_for_all())
            }
        };
        let System { rebuild: background, window, ref from_state, .. } = self.asked;
        let run = Run { background, window, from_state: from_state.clone(), ..Run::new(system, Settings::default()) };
        Ok(PlannedRun { run, array: self.array.clone(), scaled: None, host_sectors: Some(host_sectors), demand: None })
    }

    /// A drive of the `nth` size under its layer, and the sectors that it offers.
    fn drive(&self, spec: &DriveSpec, choice: &Choice, nth: u64) -> Result<(DriveRun, u64), Error> {
        let drive = self.drives[spec.drive.as_deref().unwrap_or(&choice.drive)].clone();
        let layer = match (&spec.layer, choice.layer) {
            (Some(name), _) => ChosenLayer::find(name)?,
            (None, Some(layer)) => layer,
            (None, None) => unreachable!("where a drive names no layer, the run does"),
        };
        let layer = layer.on(&drive)?;
        // The description's own parameters come last, and override.
        let shared = choice.set.iter().filter(|(of_layer, _)| *of_layer == layer.name).map(|(_, value)| value);
        let set: Vec<(String, String)> = shared.chain(&spec.set).cloned().collect();
        let parameters = layer.resolve_on(&drive, &set)?;
        let drive = match spec.capacity_sectors {
            Some(sectors) => drive.with_capacity(sectors)?,
            None => self.asked.capacity.unwrap_or_default().apply(drive, nth)?,
        };
        let capacity = (layer.capacity)(&drive, &parameters).map_err(|error| error.impossible_about(layer.name))?;
        Ok((DriveRun { drive, layer, parameters }, capacity.host_sectors))
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

/// A drive with each layer for the drives of the system that name none, and every combination of the parameters set.
fn choices(
    drive: &str,
    specs: &[DriveSpec],
    loaded: &BTreeMap<String, Drive>,
    asked: &System,
) -> Result<Vec<Choice>, Error> {
    let drive_of = |spec: &DriveSpec| &loaded[spec.drive.as_deref().unwrap_or(drive)];
    // The layers of drives that name one, and the drives that name none.
    let (mut named, mut undecided): (Vec<&LayerSpec>, Vec<&Drive>) = (Vec::new(), Vec::new());
    for spec in specs {
        match &spec.layer {
            Some(layer) => named.push(ChosenLayer::find(layer)?.on(drive_of(spec))?),
            None => undecided.push(drive_of(spec)),
        }
    }
    let chosen = match undecided.is_empty() {
        true => vec![None],
        false => asked.chosen(&undecided)?.into_iter().map(Some).collect(),
    };
    // For each layer chosen, the layers of all drives if the undecided ones get it.
    let mut layers_used: Vec<Vec<&LayerSpec>> = Vec::new();
    for layer in &chosen {
        let mut layers = named.clone();
        if let Some(layer) = layer {
            for drive in &undecided {
                layers.push(layer.on(drive)?);
            }
        }
        layers_used.push(layers);
    }
    // A parameter must be of a layer that some run uses; runs under other layers ignore it.
    let all = layers_used.concat();
    let settings = asked.set.iter().map(|text| Setting::parse(text, &all)).collect::<Result<Vec<_>, _>>()?;
    let mut choices = Vec::new();
    for (layer, layers) in chosen.into_iter().zip(&layers_used) {
        for set in combinations(&settings, layers) {
            choices.push(Choice { drive: drive.to_string(), layer, set });
        }
    }
    Ok(choices)
}

/// Gives drives with distinct texts distinct paths, because a record keeps texts by path. If two texts have one path, the second gets a
/// folder with the name of its drive before its path.
fn with_distinct_paths(drives: BTreeMap<String, Drive>) -> BTreeMap<String, Drive> {
    let mut texts: BTreeMap<PathBuf, String> = BTreeMap::new();
    let with_distinct_path = |(name, drive): (String, Drive)| {
        let Some((path, text)) = drive.file().zip(drive.text()) else { return (name, drive) };
        let (mut path, text) = (path.to_path_buf(), text.to_string());
        while texts.get(&path).is_some_and(|other| *other != text) {
            path = PathBuf::from(format!("{name}/{}", path.display()));
        }
        texts.insert(path.clone(), text);
        (name, drive.with_path(path))
    };
    drives.into_iter().map(with_distinct_path).collect()
}

/// Parts of one `--set`.
struct Setting {
    layer: &'static LayerSpec,
    key: String,
    values: Vec<String>,
}

impl Setting {
    /// Reads `layer.key=v1,v2`, where `layers` are those of the run.
    pub fn parse(text: &str, layers: &[&LayerSpec]) -> Result<Setting, Error> {
        let parts = text.split_once('=').and_then(|(name, values)| Some((name.split_once('.')?, values)));
        let Some(((name, key), values)) = parts else {
            return Err(Error::Usage(format!(
                "{{set}} {text}: expected LAYER.KEY=VALUE, such as set-assoc.cache_percent=1,2"
            )));
        };
        let layer = layer::find(name)?;
        if !layers.iter().any(|spec| spec.name == name) {
            return Err(Error::Usage(format!(
                "{{set}} {text}: {name} is not among the layers of this run: add it to {{layer}}"
            )));
        }
        let values = values.split(',').map(str::to_string).collect();
        Ok(Setting { layer, key: key.into(), values })
    }
}

/// Every combination of the values that `settings` have for `layers`, each with its layer.
fn combinations(settings: &[Setting], layers: &[&LayerSpec]) -> Vec<Vec<SetValue>> {
    let mut lists: Vec<Vec<SetValue>> = vec![Vec::new()];
    for Setting { layer, key, values } in settings {
        if !layers.iter().any(|used| used.name == layer.name) {
            continue;
        }
        let mut longer = Vec::new();
        for list in &lists {
            for text in values {
                let value = (layer.name, (key.clone(), text.clone()));
                longer.push([list.as_slice(), &[value]].concat());
            }
        }
        lists = longer;
    }
    lists
}

/// The size of drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AskedCapacity {
    /// A drive's own, or more of its platters where a trace needs them.
    #[default]
    Auto,
    /// A number of sectors.
    Sectors(u64),
    /// This number of sectors, or as few more as a trace needs: for the recording of a drive of this size.
    AtLeast(u64),
}

impl FromStr for AskedCapacity {
    type Err = Error;
    fn from_str(text: &str) -> Result<AskedCapacity, Error> {
        match text {
            "auto" => Ok(AskedCapacity::Auto),
            // Whole sectors: the rest of a round size such as 8TB is left out.
            _ => Ok(AskedCapacity::Sectors(parse_bytes(text)? / SECTOR_BYTES)),
        }
    }
}

impl AskedCapacity {
    /// The drive in the `nth` size to be tried, counted from 1: first the size asked for, then as much larger as a trace may need.
    fn apply(self, drive: Drive, nth: u64) -> Result<Drive, Error> {
        match self {
            AskedCapacity::Auto if nth == 1 => Ok(drive),
            AskedCapacity::Auto => drive.with_platters(nth),
            AskedCapacity::Sectors(sectors) | AskedCapacity::AtLeast(sectors) => {
                drive.with_capacity(sectors.saturating_add((nth - 1) * STEP_SECTORS))
            }
        }
    }
}

/// Step from one size to the next where a drive's size is not a multiple of its platters: 1 MiB (assumption).
const STEP_SECTORS: u64 = 2048;

/// More platters are not tried: even if each held a single sector, the drive would be as large as drives may be.
const PLATTERS_MAX: u64 = 1 << 40;

/// Finds the smallest number, from `least` on, for which `made` returns a value (a drive that is large enough); `None` if there is none. Relies
/// on larger numbers succeeding too, because more platters never hold less.
fn fewest<T>(least: u64, made: impl Fn(u64) -> Result<Option<T>, Error>) -> Result<Option<(u64, T)>, Error> {
    let (mut too_few, mut enough, mut step) = (least.max(1) - 1, least.max(1), 1);
    let mut fitting = made(enough)?;
    while fitting.is_none() {
        if enough > PLATTERS_MAX {
            return Ok(None);
        }
        (too_few, enough, step) = (enough, enough + step, step * 2);
        fitting = made(enough)?;
    }
    while enough - too_few > 1 {
        let middle = too_few + (enough - too_few) / 2;
        match made(middle)? {
            None => too_few = middle,
            better => (enough, fitting) = (middle, better),
        }
    }
    Ok(fitting.map(|made| (enough, made)))
}

#[cfg(test)]
mod tests {
    mod system {
        use super::super::*;

        fn platters(needed: u64) -> (Option<u64>, Drive) {
            let systems = Systems::new(&System::drive("st5000as0011").layer("drive-managed")).unwrap();
            let run = systems.runs(&[Settings::default()], Some(needed)).unwrap().pop().unwrap();
            (run.scaled.map(|scaled| scaled.platters), run.system().drives()[0].drive.clone())
        }

        #[test]
        fn a_drive_that_holds_the_demand_stays_as_it_is() {
            let (times, own) = platters(1);
            assert_eq!(times, None);
            let (times, larger) = platters(92_000_000_000_000 / 512);
            assert_eq!((times, larger.geometry.sectors), (Some(19), 19 * own.geometry.sectors));
            assert_eq!(larger.geometry.cylinders, own.geometry.cylinders, "seeks are as long as ever");
        }
    }

    mod size {
        use super::super::*;

        #[test]
        fn the_fewest_that_are_enough_are_found_from_any_start() {
            for enough in [1, 2, 3, 17, 18, 1000] {
                for least in [0, 1, 2, enough] {
                    let found = fewest(least, |times| Ok((times >= enough).then_some(times))).unwrap();
                    let expected = enough.max(least);
                    assert_eq!(found, Some((expected, expected)), "{enough} from {least}");
                }
            }
            assert_eq!(fewest(1, |_| Ok(None::<()>)).unwrap(), None);
            let most = 2 * PLATTERS_MAX;
            for (enough, found) in [(PLATTERS_MAX + 1, true), (most, true), (most + 1, false)] {
                let fewest = fewest(1, |times| Ok((times >= enough).then_some(()))).unwrap();
                assert_eq!(fewest, found.then_some((enough, ())), "{enough}");
            }
        }

        #[test]
        fn few_sizes_are_tried_however_many_platters_it_takes() {
            let tries = std::cell::Cell::new(0);
            let made = |times| {
                tries.set(tries.get() + 1);
                Ok((times >= 1_000_000_000).then_some(()))
            };
            assert_eq!(fewest(1, made).unwrap(), Some((1_000_000_000, ())));
            assert!(tries.get() <= 64, "twice the bits of the number: {}", tries.get());
        }
    }
}
