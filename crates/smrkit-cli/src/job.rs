//! One run of a comparison: what is run, and what results call it.

use smrkit::engine::run::Run;
use smrkit::engine::settings::Settings;
use smrkit::engine::system::MemberRun;
use smrkit::error::Error;
use smrkit::layer::{self, BASELINE, LayerSpec, Parameters};
use smrkit::request::Source;
use smrkit::stats::outcome::{Outcome, Scaled};
use smrkit::stats::timeline::TimelineBuilder;
use smrkit::stats::verdict::judge;

use crate::exit::{COMMIT, VERSION};
use crate::pool::Watch;

/// A run of a comparison.
#[derive(Clone)]
pub struct Job {
    /// What is run.
    pub run: Run,
    /// The description of an array, without what the run gave to it.
    pub array: Option<String>,
    /// Sectors that a source finds, where they are known: of the whole, or of the smallest member where each source has one of
    /// its own.
    pub host_sectors: Option<u64>,
    /// The files of the drives, where they do not come with smrkit, in order.
    pub files: Vec<Option<String>>,
    /// Why the drives have more platters than their own.
    pub scaled: Option<Scaled>,
}

impl Job {
    /// Arrivals, queue, state before.
    pub fn settings(&self) -> &Settings {
        &self.run.settings
    }

    /// Sectors that a source finds.
    pub fn host_sectors(&self) -> Result<u64, Error> {
        self.host_sectors.map_or_else(|| self.run.system.sectors_for_all(), Ok)
    }

    /// The job, once it is known that there can be such a system.
    pub fn possible(self) -> Result<Job, Error> {
        let host_sectors = Some(self.host_sectors()?);
        Ok(Job { host_sectors, ..self })
    }

    /// Sectors on the platters of all its drives.
    pub fn raw_sectors(&self) -> u64 {
        self.run.system.drives().iter().map(|drive| drive.drive.geometry.sectors()).sum()
    }

    /// Whether it is what the others are compared with.
    pub fn is_conventional(&self) -> bool {
        self.run.system.drives().iter().all(|drive| drive.layer.name == BASELINE)
    }

    /// The job on conventional disks; unchecked, for on a shingled disk it would be caught, as it should be when it is asked
    /// for.
    pub fn conventional(&self) -> Result<Job, Error> {
        let settings = Settings { check: false, power_cut: None, ..*self.settings() };
        Ok(self.under(layer::find(BASELINE)?, &Parameters::default()).with(settings))
    }

    /// The job with all drives under `layer`.
    pub fn under(&self, layer: &'static LayerSpec, parameters: &Parameters) -> Job {
        self.on(self.run.system.with_layer(layer, parameters))
    }

    /// The job on another system of the same drives.
    pub fn on(&self, system: impl Into<MemberRun>) -> Job {
        let run = Run { system: system.into(), ..self.run.clone() };
        Job { run, host_sectors: None, ..self.clone() }
    }

    /// The job under other settings.
    pub fn with(mut self, settings: Settings) -> Job {
        self.run.settings = settings;
        self
    }

    /// Runs the requests of `source`; what was replayed is left to the caller.
    pub fn execute(
        &self,
        source: &mut dyn Source,
        watch: &mut Watch,
        timeline: TimelineBuilder,
    ) -> Result<Outcome, Error> {
        let mut outcome = self.run.execute(source, watch, timeline)?;
        outcome.array.clone_from(&self.array);
        outcome.scaled = self.scaled;
        for (member, file) in outcome.members.iter_mut().zip(&self.files) {
            member.drive_file.clone_from(file);
            // Each says for itself what its array met there.
            judge(member, None);
        }
        outcome.drive_file = match self.files.split_first() {
            Some((first, others)) if others.iter().all(|file| file == first) => first.clone(),
            _ => None,
        };
        stamp(&mut outcome);
        outcome.members.iter_mut().for_each(stamp);
        Ok(outcome)
    }

    /// Says which layer broke the law, and what follows from it; or what it is that cannot be, unless the error says so.
    pub fn named(&self, error: Error) -> anyhow::Error {
        let drives = self.run.system.drives();
        let layer = drives.first().map_or("", |drive| drive.layer.name);
        let name = self.array.clone().unwrap_or_else(|| layer.to_string());
        let copes = drives.iter().all(|drive| drive.layer.name != BASELINE);
        let whose = match &error {
            Error::Impossible(text) if text.starts_with(&name) => return error.into(),
            Error::Fault(_) if !copes => {
                format!(
                    "{BASELINE} copes with no shingling, and --check has caught it (check other layers with --layer)"
                )
            }
            Error::Fault(_) | Error::Impossible(_) => name,
            _ => return error.into(),
        };
        anyhow::Error::new(error).context(whose)
    }
}

/// Notes what made an outcome.
fn stamp(outcome: &mut Outcome) {
    outcome.version = VERSION.into();
    outcome.commit = COMMIT.map(str::to_string);
}
