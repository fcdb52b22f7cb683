//! Options of a run: the system, the demand on it, and how the one is put to the other.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use smrkit::engine::rebuild::RebuildSpec;
use smrkit::engine::saved::SavedState;
use smrkit::error::Error;
use smrkit::experiment::Experiment;
use smrkit::experiment::demand::Demand;
use smrkit::experiment::system::{System, Systems};
use smrkit::layer::{self, BASELINE, LayerSpec};
use smrkit::settings::{Prefill, Settings};
use smrkit::units::Nanos;

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
    /// The demand.
    #[command(flatten)]
    pub demand: DemandOptions,
    /// A parameter; several values, and several of these options, multiply into runs.
    #[arg(long, value_name = "LAYER.KEY=V1,V2")]
    pub set: Vec<String>,
    /// Commands outstanding.
    #[arg(long, value_parser = count::<u32>, default_value = "1", value_name = "N")]
    pub depth: u32,
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
    settings: Settings,
    system: System,
    /// Every run of the system.
    pub systems: Systems,
}

impl RunOptions {
    /// Looks up what was asked for. Errors: options that make no sense, alone or together.
    pub fn ask(&self) -> Result<AskedRuns<'_>, Error> {
        let settings = self.settings()?;
        self.demand.check(self.conditions.arrival)?;
        let system = System {
            set: self.set.clone(),
            default_layers: self.default_layers(),
            rebuild: self.rebuild,
            window: self.window,
            used_sectors: self.used_sectors.clone(),
            from_state: self.from_state.as_deref().map(read_state).transpose()?,
            ..self.system.asked(self.conditions.capacity)?
        };
        self.demand.check_array(system.array.as_ref())?;
        let systems = Systems::new(&system)?;
        Ok(AskedRuns { options: self, settings, system, systems })
    }

    fn is_checked(&self) -> bool {
        self.check || self.power_cut.is_some()
    }

    fn settings(&self) -> Result<Settings, Error> {
        let settings = Settings {
            check: self.is_checked(),
            movement: self.movement,
            power_cut: self.power_cut,
            until: self.until,
            ..self.conditions.settings(self.depth)
        };
        let settings = match self.from_state {
            Some(_) => Settings { prefill: Prefill::Saved, ..settings },
            None => settings,
        };
        settings.validate()?;
        Ok(settings)
    }

    /// All layers; but the baseline knows nothing of shingling: a check would end with its first overwrite.
    fn default_layers(&self) -> Vec<&'static LayerSpec> {
        layer::all().into_iter().filter(|spec| !(self.is_checked() && spec.name == BASELINE)).collect()
    }
}

impl AskedRuns<'_> {
    /// Files that are read for it.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let state = self.options.from_state.clone();
        let system = self.systems.files().chain(self.options.system.files()).chain(state);
        system.chain(self.options.demand.files())
    }

    /// True if the system is an array.
    pub fn is_array(&self) -> bool {
        self.systems.is_array()
    }

    /// The traces and workloads that were named.
    pub fn demand(&self) -> Result<Arc<dyn Demand>, Error> {
        let placement = self.options.demand.check_array(self.system.array.as_ref())?;
        Ok(Arc::from(self.options.demand.open(&self.options.conditions, placement)?))
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
