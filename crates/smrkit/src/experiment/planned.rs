//! One run of an experiment.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::demand::{Demand, Opened, Opening};
use super::record::PlannedRecord;
use crate::engine::Observer;
use crate::engine::rebuild::RebuildSpec;
use crate::engine::run::Run;
use crate::engine::saved::SavedState;
use crate::engine::system::{DriveRun, SystemRun};
use crate::engine::task::BackgroundTask;
use crate::error::Error;
use crate::layer::{self, BASELINE, HOST_MANAGED_DISK, LayerSpec};
use crate::request::Source;
use crate::settings::{Arrival, Prefill, Settings};
use crate::stats::outcome::{Outcome, Replayed, RunRecord, Scaled};

/// A run and its demand: a value that gives the same results wherever it is executed. Outcomes record it as text.
#[derive(Clone, Serialize, Deserialize)]
#[serde(into = "PlannedRecord", try_from = "PlannedRecord")]
pub struct PlannedRun {
    pub(crate) run: Run,
    /// The description of an array, as it was given.
    pub array: Option<String>,
    /// Why the drives have more platters than their own.
    pub scaled: Option<Scaled>,
    /// Sectors that every source can address, if known: those of the smallest member if each source has its own, else all.
    pub(super) host_sectors: Option<u64>,
    /// The demand, if the run was planned for one.
    pub demand: Option<Replayed>,
}

impl PlannedRun {
    /// The run of `demand`, whose workloads assume a disk of `host_sectors`.
    pub fn serving(self, demand: &dyn Demand, host_sectors: u64) -> Result<PlannedRun, Error> {
        let described = demand.describe(&Opening::new(host_sectors, self.settings().seed))?;
        Ok(PlannedRun { demand: Some(described), host_sectors: Some(host_sectors), ..self })
    }

    /// How the run opens its demand.
    pub fn opening(&self) -> Result<Opening, Error> {
        // The description of a planned demand has the hashes already: `measure` takes them from there.
        let hash = self.demand.is_none();
        let think_times = self.settings().arrival == Arrival::Closed;
        Ok(Opening { hash, think_times, ..Opening::new(self.host_sectors()?, self.settings().seed) })
    }

    /// The drive or the array.
    pub fn system(&self) -> &SystemRun {
        &self.run.system
    }

    /// Arrivals, queue, state before.
    pub fn settings(&self) -> &Settings {
        &self.run.settings
    }

    /// The array's own work next to the demand.
    pub fn rebuild(&self) -> Option<RebuildSpec> {
        self.run.background
    }

    /// Record from which the run can be repeated, on any demand.
    pub fn record(&self) -> RunRecord {
        self.run.record()
    }

    /// Sectors that every source can address.
    pub fn host_sectors(&self) -> Result<u64, Error> {
        self.host_sectors.map_or_else(|| self.run.system.sectors_for_all(), Ok)
    }

    /// Checks that such a system is possible.
    pub fn possible(self) -> Result<PlannedRun, Error> {
        let host_sectors = Some(self.host_sectors()?);
        Ok(PlannedRun { host_sectors, ..self })
    }

    /// Sectors on the platters of all its drives.
    pub fn raw_sectors(&self) -> u64 {
        self.run.system.drives().iter().map(|drive| drive.drive.geometry.sectors).sum()
    }

    /// True if it is a baseline.
    pub fn is_conventional(&self) -> bool {
        self.run.system.drives().iter().all(|drive| drive.layer.name == BASELINE)
    }

    /// True if a drive refuses writes that are out of order.
    pub fn refuses_writes(&self) -> bool {
        self.run.system.drives().iter().any(|drive| drive.layer.name == HOST_MANAGED_DISK)
    }

    /// The run on conventional disks, without check mode, in which `in-place` would fail on the shingled drive.
    pub fn conventional(&self) -> Result<PlannedRun, Error> {
        // A saved state is of the shingled layer; the conventional disk begins full instead.
        let prefill = if self.settings().prefill == Prefill::Saved { Prefill::Full } else { self.settings().prefill };
        // A power cut needs check mode.
        let settings = Settings { check: false, power_cut: None, prefill, ..*self.settings() };
        let run = self.under(layer::find(BASELINE)?)?.with(settings);
        Ok(PlannedRun { run: Run { from_state: None, ..run.run }, ..run })
    }

    /// The run with all drives under `layer`, with the layer's default parameters on each.
    pub fn under(&self, layer: &'static LayerSpec) -> Result<PlannedRun, Error> {
        let system = self.run.system.with_drives(&|run: &DriveRun| {
            let parameters = layer.resolve_on(&run.drive, &[])?;
            Ok::<_, Error>(DriveRun { drive: run.drive.clone(), layer, parameters })
        })?;
        Ok(self.on(system))
    }

    /// The run on another system of the same drives.
    pub fn on(&self, system: impl Into<SystemRun>) -> PlannedRun {
        let run = Run { system: system.into(), ..self.run.clone() };
        PlannedRun { run, host_sectors: None, demand: None, ..self.clone() }
    }

    /// The run under other settings.
    pub fn with(mut self, settings: Settings) -> PlannedRun {
        self.run.settings = self.run.system.effective(settings);
        self
    }

    /// The run beginning with a saved state.
    pub fn beginning_with(mut self, saved: Arc<SavedState>) -> PlannedRun {
        self.run.settings.prefill = Prefill::Saved;
        self.run.from_state = Some(saved);
        self
    }

    /// The run with other work of the array's own.
    pub fn rebuilding(mut self, spec: RebuildSpec) -> PlannedRun {
        self.run.background = Some(spec);
        self
    }

    /// Serves `demand`. Columns that need a comparison are null.
    pub fn execute(
        &self,
        demand: &dyn Demand,
        opening: &Opening,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Error> {
        Ok(self.measure(demand, opening, observer)?.conclude())
    }

    /// Serves the requests of `source` next to a task of the caller's: for tests that bring their own.
    pub fn execute_with(
        &self,
        task: &mut dyn BackgroundTask,
        source: &mut dyn Source,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Error> {
        Ok(self.run.measure_with(task, source, observer)?.conclude())
    }

    pub(super) fn measure(
        &self,
        demand: &dyn Demand,
        opening: &Opening,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Error> {
        let measured = self.measure_opened(demand, || demand.open(opening), observer);
        let mut measured = measured.map_err(|error| demand.named(error))?;
        if let Some(described) = &self.demand {
            measured.replayed.take_hashes(described);
        }
        Ok(measured)
    }

    /// Runs on the requests of `open` instead of the demand's own. If these turn out to have a second volume, `demand` scans for volumes.
    pub fn serve(
        &self,
        demand: &dyn Demand,
        open: impl Fn() -> Result<Box<dyn Opened>, Error>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Error> {
        Ok(self.measure_opened(demand, open, observer)?.conclude())
    }

    /// Measures the run. If the trace turns out to have a second volume, looks for all volumes and starts again.
    fn measure_opened(
        &self,
        demand: &dyn Demand,
        open: impl Fn() -> Result<Box<dyn Opened>, Error>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Error> {
        if self.settings().arrival == Arrival::Closed && !demand.has_trace() {
            let message = "{arrival} closed takes the think times of a trace: give one, or use {think}";
            return Err(Error::Usage(message.into()));
        }
        let mut opened = open()?;
        if self.settings().arrival == Arrival::Trace {
            opened.refuse_disorder()?;
        }
        let measured = match self.run.measure(opened.as_mut(), observer) {
            Err(Error::SecondVolume(_)) => {
                demand.look_for_volumes()?;
                opened = open()?;
                observer.restart();
                self.run.measure(opened.as_mut(), observer)?
            }
            result => result?,
        };
        // Asked again, because a trace may show its disorder only once it is read.
        if self.settings().arrival == Arrival::Trace {
            opened.refuse_disorder()?;
        }
        let (array, replayed) = (self.array.clone(), opened.describe());
        Ok(Outcome { array, scaled: self.scaled, replayed, ..measured })
    }

    /// Adds the layer (or the array) to the message of an error: to a fault always, to an impossible configuration unless it names one.
    pub fn named(&self, error: Error) -> Error {
        let drives = self.run.system.drives();
        let layer = drives.first().map_or("", |drive| drive.layer.name);
        let name = self.array.clone().unwrap_or_else(|| layer.to_string());
        let uses_baseline = drives.iter().any(|drive| drive.layer.name == BASELINE);
        match error {
            Error::Fault(_) if uses_baseline => error.about(format!(
                "{BASELINE} copes with no shingling, and {{check}} has caught it (check other layers with {{layer}})"
            )),
            Error::Fault(_) => error.about(name),
            _ => error.impossible_about(name),
        }
    }
}
