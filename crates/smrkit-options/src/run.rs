//! Options of a run: the system, the demand on it, and how the one is put to the other.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use smrkit::device::NCQ_COMMANDS;
use smrkit::device::spec::MemberSpec;
use smrkit::drive::Drive;
use smrkit::engine::rebuild::RebuildSpec;
use smrkit::engine::saved::SavedState;
use smrkit::error::Error;
use smrkit::experiment::Experiment;
use smrkit::experiment::demand::Demand;
use smrkit::experiment::size::AskedCapacity;
use smrkit::experiment::system::{System, Systems};
use smrkit::layer::{self, BASELINE, LayerSpec};
use smrkit::settings::{Prefill, Settings};
use smrkit::units::Nanos;
use smrkit_trace::served::ServedDrive;

use crate::conditions::Conditions;
use crate::demand::DemandOptions;
use crate::system::SystemOptions;
use crate::value::count;

/// Options of a run.
#[derive(Args, Clone)]
pub struct RunOptions {
    /// The drive or the array.
    #[command(flatten)]
    pub system: SystemOptions,
    /// A rebuild while requests come: rebuild, resilver, scrub or key=value,…. A scrub reads all members of the array.
    #[arg(long, value_name = "SPEC", value_parser = RebuildSpec::parse, requires = "array")]
    pub rebuild: Option<RebuildSpec>,
    /// Begin with the state that --save-state wrote. Without options that name a system, the state's own runs.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prefill", "rebuild"])]
    pub from_state: Option<PathBuf>,
    /// The drive of a served drive's log, and its state and order of commands; the log is the trace if none is named. Options that name a
    /// drive or a layer change that.
    #[arg(long, value_name = "LOG", conflicts_with_all = ["rebuild", "from_state"])]
    pub like: Option<PathBuf>,
    /// The demand.
    #[command(flatten)]
    pub demand: DemandOptions,
    /// A parameter; several values, and several of these options, multiply into runs.
    #[arg(long, value_name = "LAYER.KEY=V1,V2")]
    pub set: Vec<String>,
    /// Commands outstanding; of a served drive's log, as many as there were, of which the drive sees N [default: 1; of a log 32].
    #[arg(long, value_parser = count::<u32>, value_name = "N")]
    pub depth: Option<u32>,
    /// The conditions.
    #[command(flatten)]
    pub conditions: Conditions,
    /// Verify every read, and that nothing of the host's is damaged.
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

/// A run that was asked for, its names looked up and nothing read yet.
pub struct AskedRuns<'a> {
    options: &'a RunOptions,
    demand: DemandOptions,
    settings: Settings,
    system: System,
    /// Every run of the system.
    pub systems: Systems,
}

impl RunOptions {
    /// Looks up what was asked for. Errors: options that make no sense, alone or together.
    pub fn ask(&self) -> Result<AskedRuns<'_>, Error> {
        let mut demand = self.demand.clone();
        if let (Some(log), 0) = (&self.like, demand.count()) {
            demand.trace = vec![log.clone()];
        }
        let is_log = demand.is_log();
        demand.check(self.conditions.arrival(is_log))?;
        let mut settings = self.settings(is_log)?;
        let mut system = System {
            set: self.set.clone(),
            default_layers: self.default_layers(),
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

    /// Takes what is not asked for from a served drive.
    fn make_like(&self, served: ServedDrive, settings: Settings, system: &mut System) -> Result<Settings, Error> {
        let queue = self.conditions.queue.unwrap_or(served.queue);
        let is_same = system.array.is_none() && system.drives.is_empty() && system.layers.is_empty();
        if is_same && system.set.is_empty() && system.capacity.is_none() {
            system.from_state = Some(Arc::new(served.into_state()));
            return Ok(Settings { queue, prefill: Prefill::Saved, ..settings });
        }
        // Another drive or layer knows nothing of the state: it begins new where that one did.
        let prefill = if served.is_new { Prefill::None } else { settings.prefill };
        if let (MemberSpec::Drive(own), None) = (MemberSpec::parse(&served.run.system)?, &system.array) {
            if system.layers.is_empty() {
                system.layers.extend(own.layer);
                system
                    .set
                    .splice(0..0, own.set.iter().map(|(key, value)| format!("{}.{key}={value}", system.layers[0])));
            }
            system.capacity = system.capacity.or(own.capacity_sectors.map(AskedCapacity::Sectors));
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

    fn settings(&self, is_log: bool) -> Result<Settings, Error> {
        let depth = self.depth.unwrap_or(if is_log { NCQ_COMMANDS } else { 1 });
        let settings = Settings {
            check: self.is_checked(),
            movement: self.movement,
            power_cut: self.power_cut,
            until: self.until,
            ..self.conditions.settings(depth, is_log)
        };
        Ok(match self.from_state {
            Some(_) => Settings { prefill: Prefill::Saved, ..settings },
            None => settings,
        })
    }

    /// All layers; but the baseline knows nothing of shingling: a check would end with its first overwrite.
    fn default_layers(&self) -> Vec<&'static LayerSpec> {
        layer::all().into_iter().filter(|spec| !(self.is_checked() && spec.name == BASELINE)).collect()
    }
}

impl AskedRuns<'_> {
    /// Files that are read for it.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let state = self.options.from_state.iter().chain(&self.options.like).cloned();
        let system = self.systems.files().chain(self.options.system.files()).chain(state);
        system.chain(self.demand.files())
    }

    /// True if the system is an array.
    pub fn is_array(&self) -> bool {
        self.systems.is_array()
    }

    /// The traces and workloads that were named.
    pub fn demand(&self) -> Result<Arc<dyn Demand>, Error> {
        let placement = self.demand.check_array(self.system.array.as_ref())?;
        Ok(Arc::from(self.demand.open(&self.options.conditions, placement)?))
    }

    /// The experiment on `demand`, and every run of it.
    pub fn on(self, demand: Arc<dyn Demand>) -> (Experiment, Systems) {
        (Experiment { system: self.system, demand, settings: vec![self.settings] }, self.systems)
    }
}

/// State of a drive or an array from a file.
pub fn read_state(path: &Path) -> Result<Arc<SavedState>, Error> {
    let bytes = std::fs::read(path).map_err(|error| Error::reading(path, error))?;
    Ok(Arc::new(SavedState::parse(path, &bytes)?))
}
