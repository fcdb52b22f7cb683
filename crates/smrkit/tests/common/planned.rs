//! Runs of drives and arrays as values, as an experiment plans and executes them.
#![allow(dead_code)]

use smrkit::engine::Observer;
use smrkit::engine::system::SystemRun;
use smrkit::error::Error;
use smrkit::experiment::demand::{Demand, GeneratedDemand, Opening};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::system::System;
use smrkit::settings::Settings;
use smrkit::stats::outcome::Outcome;
use smrkit::units::Nanos;
use smrkit::workload::Workload;

/// A layer's parameters as text.
pub type Set<'a> = &'a [(&'a str, &'a str)];

/// The planned run of a drive or an array made by hand.
pub fn plan(system: impl Into<SystemRun>, settings: Settings) -> Result<PlannedRun, Error> {
    plan_windowed(system, settings, None)
}

/// A run as [`plan`] makes it, with a timeline of such windows.
pub fn plan_windowed(
    system: impl Into<SystemRun>,
    settings: Settings,
    window: Option<Nanos>,
) -> Result<PlannedRun, Error> {
    let planned = System { window, ..System::drive("tiny").layer("in-place") }.run(settings)?;
    planned.on(system).with(settings).possible()
}

/// The system under a layer with these parameters.
pub fn with(system: System, layer: &str, set: Set) -> System {
    set.iter().fold(system.layer(layer), |system, (key, value)| system.set(&format!("{layer}.{key}"), value))
}

/// The demand of a workload.
pub fn workload(text: &str) -> GeneratedDemand {
    Workload::parse(text).unwrap().into()
}

/// The outcome of a run on `demand`, which is not hashed.
pub fn serve(run: &PlannedRun, demand: &dyn Demand, observer: &mut dyn Observer) -> Result<Outcome, Error> {
    run.execute(demand, &Opening::new(run.host_sectors()?, run.settings().seed), observer)
}
