//! An experiment as a value: a system, a demand on it, and the settings of the replay.
//!
//! [`Experiment::plan`] expands lists of values and automatic sizes into runs, each of which can be executed by itself.
//! [`Experiment::compare`] executes them next to conventional disks and judges them. The command line, `advise` and the studies are front
//! ends of it.

pub mod comparison;
pub mod demand;
pub mod planned;
pub mod pool;
pub mod record;
pub mod system;

use std::sync::Arc;

use crate::error::Error;
use crate::settings::Settings;
use crate::stats::outcome::Outcome;
use comparison::{Compared, Group, RunRecorders};
use demand::{Demand, Opening};
use planned::PlannedRun;
use pool::{Monitor, Unwatched};
use system::{AskedCapacity, System, Systems};

/// A demand on a system.
#[derive(Clone)]
pub struct Experiment {
    /// The system that serves.
    pub system: System,
    /// The demand.
    pub demand: Arc<dyn Demand>,
    /// Arrivals, queue, state before; several multiply the runs.
    pub settings: Vec<Settings>,
}

impl Experiment {
    /// `demand` on `system`, as the default settings say.
    pub fn new(system: System, demand: impl Demand + 'static) -> Experiment {
        Experiment { system, demand: Arc::new(demand), settings: vec![Settings::default()] }
    }

    /// The experiment under these settings.
    pub fn settings(self, settings: Settings) -> Experiment {
        Experiment { settings: vec![settings], ..self }
    }

    /// Sectors that drives without a size of their own must offer; `None` if the size is fixed. Reads a trace to its end.
    pub fn needed_sectors(&self) -> Result<Option<u64>, Error> {
        let is_fixed = matches!(self.system.capacity, Some(AskedCapacity::Sectors(_)));
        // With `fold` requests fit any size.
        if is_fixed || self.settings.iter().any(|settings| settings.fold) {
            return Ok(None);
        }
        self.demand.least_sectors()
    }

    /// The runs, on drives that hold the demand: each can be executed by itself, in any order and on any machine. Reads a trace
    /// to its end.
    pub fn plan(&self) -> Result<Vec<PlannedRun>, Error> {
        self.validate()?;
        self.demand.look_for_volumes()?;
        let runs = Systems::new(&self.system)?.runs(&self.settings, self.needed_sectors()?)?;
        let groups = Group::from_runs(runs.iter().map(|run| (run, 0)))?;
        let mut planned = Vec::new();
        for (at, run) in runs.into_iter().enumerate() {
            let group = groups.iter().find(|group| group.runs.contains(&at)).expect("each run is in a group");
            planned.push(run.serving(self.demand.as_ref(), group.host_sectors)?);
        }
        Ok(planned)
    }

    fn validate(&self) -> Result<(), Error> {
        self.settings.iter().try_for_each(Settings::validate)
    }

    /// The outcome of every run, judged next to conventional disks.
    pub fn compare(&self) -> Result<Vec<Outcome>, Error> {
        let systems = Systems::new(&self.system)?;
        Ok(self.compare_watched(&systems, &Unwatched, RunRecorders::default())?.outcomes.runs)
    }

    /// Compares all runs of `systems`, the experiment's own, under a monitor.
    ///
    /// A trace is scanned for its size only if that is needed: before a recorded run, and after a run that met an address past the drive.
    pub fn compare_watched(
        &self,
        systems: &Systems,
        monitor: &dyn Monitor,
        records: RunRecorders,
    ) -> Result<Compared, Error> {
        self.validate()?;
        let needed = || pool::make_one(monitor, "reading the trace", |_| self.needed_sectors());
        let compare = |needed, records| {
            let runs = systems.runs(&self.settings, needed)?;
            let served = vec![0; runs.len()];
            comparison::compare(&runs, &served, &[&*self.demand], monitor, "replaying", records)
        };
        if records.is_some() {
            // Scanned beforehand: a run that starts again for a second volume would record twice.
            self.demand.look_for_volumes()?;
            return compare(needed()?, records);
        }
        match compare(None, RunRecorders::default()) {
            Err(error) if matches!(error.cause(), Error::NoRoom(_)) => match needed()? {
                Some(needed) => compare(Some(needed), RunRecorders::default()),
                None => Err(error),
            },
            result => result,
        }
    }

    /// Executes all runs of `systems`, the experiment's own, without a conventional disk and without hashing traces. Columns that need a
    /// comparison are null.
    pub fn execute_watched(&self, systems: &Systems, monitor: &dyn Monitor) -> Result<Vec<Outcome>, Error> {
        self.validate()?;
        let runs = systems.runs(&self.settings, None)?;
        let results = pool::make_all(&runs, monitor, "replaying", |_, run, mut watch| {
            let opening = Opening { hash: false, ..run.opening()? };
            run.execute(self.demand.as_ref(), &opening, &mut watch)
        });
        let named = results.into_iter().zip(&runs).map(|(result, run)| result.map_err(|error| run.named(error)));
        Ok(named.collect::<Result<Vec<_>, Error>>()?.into_iter().flatten().collect())
    }
}
