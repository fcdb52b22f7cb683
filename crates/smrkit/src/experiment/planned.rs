//! One run of an experiment: what is run, and what results call it.

use super::demand::{Demand, Opened, Opening};
use crate::engine::Observer;
use crate::engine::run::Run;
use crate::engine::system::MemberRun;
use crate::error::Error;
use crate::layer::{self, BASELINE, LayerSpec, Parameters};
use crate::message::{Field, Message};
use crate::settings::{Arrival, Settings};
use crate::stats::outcome::{Outcome, Scaled};
use crate::stats::verdict::judge;

/// A run that needs nothing but a demand.
#[derive(Clone)]
pub struct PlannedRun {
    /// What is run.
    pub run: Run,
    /// The description of an array, without what the run gave to it.
    pub array: Option<String>,
    /// Why the drives have more platters than their own.
    pub scaled: Option<Scaled>,
    /// Sectors that a demand finds, where they are known: of the whole, or of the smallest member where each source has
    /// one of its own.
    pub(super) host_sectors: Option<u64>,
}

impl PlannedRun {
    /// `run`, described by nothing but itself.
    pub fn new(run: Run) -> PlannedRun {
        PlannedRun { run, array: None, scaled: None, host_sectors: None }
    }

    /// A run of `array`, if it is one, that is known to offer `host_sectors` to every source.
    pub(super) fn offering(run: Run, array: Option<String>, host_sectors: u64) -> PlannedRun {
        PlannedRun { array, host_sectors: Some(host_sectors), ..PlannedRun::new(run) }
    }

    /// Arrivals, queue, state before.
    pub fn settings(&self) -> &Settings {
        &self.run.settings
    }

    /// Sectors that a demand finds.
    pub fn host_sectors(&self) -> Result<u64, Error> {
        self.host_sectors.map_or_else(|| self.run.system.sectors_for_all(), Ok)
    }

    /// The run, once it is known that there can be such a system.
    pub fn possible(self) -> Result<PlannedRun, Error> {
        let host_sectors = Some(self.host_sectors()?);
        Ok(PlannedRun { host_sectors, ..self })
    }

    /// Sectors on the platters of all its drives.
    pub fn raw_sectors(&self) -> u64 {
        self.run.system.drives().iter().map(|drive| drive.drive.geometry.sectors()).sum()
    }

    /// Whether it is what the others are compared with.
    pub fn is_conventional(&self) -> bool {
        self.run.system.drives().iter().all(|drive| drive.layer.name == BASELINE)
    }

    /// The run on conventional disks; unchecked, for on a shingled disk it would be caught, as it should be when it is asked
    /// for.
    pub fn conventional(&self) -> Result<PlannedRun, Error> {
        let settings = Settings { check: false, power_cut: None, ..*self.settings() };
        Ok(self.under(layer::find(BASELINE)?, &Parameters::default()).with(settings))
    }

    /// The run with all drives under `layer`.
    pub fn under(&self, layer: &'static LayerSpec, parameters: &Parameters) -> PlannedRun {
        self.on(self.run.system.with_layer(layer, parameters))
    }

    /// The run on another system of the same drives.
    pub fn on(&self, system: impl Into<MemberRun>) -> PlannedRun {
        let run = Run { system: system.into(), ..self.run.clone() };
        PlannedRun { run, host_sectors: None, ..self.clone() }
    }

    /// The run under other settings.
    pub fn with(mut self, settings: Settings) -> PlannedRun {
        self.run.settings = settings;
        self
    }

    /// Serves `demand`; what only a comparison tells is left out.
    pub fn execute(
        &self,
        demand: &dyn Demand,
        opening: &Opening,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Error> {
        self.serve(demand, || demand.open(opening), observer).map_err(|error| demand.named(error))
    }

    /// Serves what `open` makes of `demand`, and looks for volumes where a second one shows up.
    pub fn serve(
        &self,
        demand: &dyn Demand,
        open: impl Fn() -> Result<Box<dyn Opened>, Error>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Error> {
        let mut opened = open()?;
        let mut outcome = match self.run.execute(opened.as_mut(), observer) {
            Err(Error::SecondVolume(_)) => {
                demand.look_for_volumes()?;
                opened = open()?;
                observer.restart();
                self.run.execute(opened.as_mut(), observer)?
            }
            result => result?,
        };
        outcome.replayed = opened.describe();
        outcome.array.clone_from(&self.array);
        outcome.scaled = self.scaled;
        judge(&mut outcome, None);
        if self.settings().arrival == Arrival::Trace {
            opened.refuse_disorder()?;
        }
        Ok(outcome)
    }

    /// Says which layer broke the law, and what follows from it; or what it is that cannot be, unless the error says so.
    pub fn named(&self, error: Error) -> Error {
        let drives = self.run.system.drives();
        let layer = drives.first().map_or("", |drive| drive.layer.name);
        let name = self.array.clone().unwrap_or_else(|| layer.to_string());
        let copes = drives.iter().all(|drive| drive.layer.name != BASELINE);
        match error {
            Error::Fault(_) if !copes => {
                let caught = Message::from(format!("{BASELINE} copes with no shingling, and ")) + Field::Check;
                error.of(caught + " has caught it (check other layers with " + Field::Layer + ")")
            }
            Error::Fault(_) => error.of(name),
            _ => error.impossible_of(name),
        }
    }
}
