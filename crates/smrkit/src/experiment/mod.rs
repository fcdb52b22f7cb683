//! What is asked, as a value: a system, a demand on it, and how the one is put to the other.
//!
//! [`Experiment::plan`] turns lists of values and automatic sizes into runs that need nothing but themselves;
//! [`Experiment::compare`] executes them next to conventional disks and judges them. The command line, `advise` and the
//! studies are fronts of it.

pub mod comparison;
pub mod demand;
pub mod merged;
pub mod planned;
pub mod pool;
pub mod record;
mod set;
pub mod size;
pub mod system;

use std::sync::Arc;

use crate::error::Error;
use crate::settings::Settings;
use crate::stats::outcome::Outcome;
use comparison::{Compared, Records};
use demand::Demand;
use planned::PlannedRun;
use pool::{Monitor, Unwatched};
use size::Capacity;
use system::{System, Systems};

/// A demand on a system.
#[derive(Clone)]
pub struct Experiment {
    /// What serves.
    pub system: System,
    /// What is asked of it.
    pub demand: Arc<dyn Demand>,
    /// Arrivals, queue, state before.
    pub settings: Settings,
}

impl Experiment {
    /// `demand` on `system`, as the default settings say.
    pub fn new(system: System, demand: impl Demand + 'static) -> Experiment {
        Experiment { system, demand: Arc::new(demand), settings: Settings::default() }
    }

    /// The experiment under these settings.
    pub fn settings(self, settings: Settings) -> Experiment {
        Experiment { settings, ..self }
    }

    /// Whether drives get more platters where the demand needs them.
    pub fn is_sized(&self) -> bool {
        !self.settings.fold && !matches!(self.system.capacity, Some(Capacity::Sectors(_)))
    }

    /// Sectors that drives without a size of their own must offer; `None` where that is not theirs to choose. Reads a trace
    /// to its end.
    pub fn needed_sectors(&self) -> Result<Option<u64>, Error> {
        if self.is_sized() { self.demand.least_sectors() } else { Ok(None) }
    }

    /// The runs, on drives that hold the demand.
    pub fn plan(&self) -> Result<Vec<PlannedRun>, Error> {
        self.settings.validate()?;
        Systems::new(&self.system)?.runs(self.settings, self.needed_sectors()?)
    }

    /// The outcome of every run, judged next to conventional disks.
    pub fn compare(&self) -> Result<Vec<Outcome>, Error> {
        let systems = Systems::new(&self.system)?;
        Ok(self.compare_watched(&systems, &Unwatched, Records::default())?.outcomes.runs)
    }

    /// Compares all runs of `systems`, the experiment's own, under a monitor.
    ///
    /// A trace is read for its size only where that has to be known: before a run that is recorded, and after one that met an
    /// address past the drive.
    pub fn compare_watched(
        &self,
        systems: &Systems,
        monitor: &dyn Monitor,
        records: Records,
    ) -> Result<Compared, Error> {
        self.settings.validate()?;
        let needed = || pool::make_one(monitor, "reading the trace", |_| self.needed_sectors());
        let compare = |needed, records| {
            let runs = systems.runs(self.settings, needed)?;
            comparison::compare(&runs, self.demand.as_ref(), monitor, "replaying", records)
        };
        if records.is_some() {
            // A run that starts again for a second volume would record twice.
            self.demand.look_for_volumes()?;
            return compare(needed()?, records);
        }
        match compare(None, Records::default()) {
            Err(error) if matches!(error.cause(), Error::NoRoom(_)) => match needed()? {
                Some(needed) => compare(Some(needed), Records::default()),
                None => Err(error),
            },
            result => result,
        }
    }
}
