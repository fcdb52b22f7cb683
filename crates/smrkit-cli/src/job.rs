//! One run of a comparison: a drive under its layer, or an array of drives. What both can do stands here; the comparison
//! tells them apart nowhere.

use smrkit::engine::Observer;
use smrkit::engine::array_run::ArrayRun;
use smrkit::engine::fleet::Idle;
use smrkit::engine::rebuild::RebuildSpec;
use smrkit::engine::run::Run;
use smrkit::engine::settings::Settings;
use smrkit::error::Error;
use smrkit::layer::{self, BASELINE, LayerSpec, Parameters};
use smrkit::request::Source;
use smrkit::stats::outcome::Outcome;
use smrkit::stats::timeline::TimelineBuilder;
use smrkit::stats::verdict::judge;

use crate::exit::{COMMIT, VERSION};
use crate::pool::Watch;

/// A run of a comparison.
#[derive(Clone)]
pub enum Job<'a> {
    /// A drive.
    Drive(DriveJob<'a>),
    /// An array.
    Array(Box<ArrayJob>),
}

/// A run of a drive.
#[derive(Clone)]
pub struct DriveJob<'a> {
    /// What is run.
    pub run: Run<'a>,
    /// The drive's file, where it does not come with smrkit.
    pub file: Option<String>,
}

/// A run of an array.
#[derive(Clone)]
pub struct ArrayJob {
    /// What is run.
    pub run: ArrayRun,
    /// Its description, without what the run gave to it.
    pub text: String,
    /// Arrivals, queue, state before.
    pub settings: Settings,
    /// Sectors that a source finds: of the array, or of the smallest member where each source has one of its own.
    pub host_sectors: u64,
    /// The files of its drives, where they do not come with smrkit, in order.
    pub files: Vec<Option<String>>,
    /// What the array does beside the requests.
    pub rebuild: Option<RebuildSpec>,
}

impl Job<'_> {
    /// Arrivals, queue, state before.
    pub fn settings(&self) -> &Settings {
        match self {
            Job::Drive(job) => &job.run.settings,
            Job::Array(job) => &job.settings,
        }
    }

    /// Sectors that a source finds.
    pub fn host_sectors(&self) -> Result<u64, Error> {
        match self {
            Job::Drive(job) => job.run.host_sectors(),
            Job::Array(job) => Ok(job.host_sectors),
        }
    }

    /// Whether it is what the others are compared with.
    pub fn is_conventional(&self) -> bool {
        match self {
            Job::Drive(job) => job.run.layer.name == BASELINE,
            Job::Array(job) => job.run.drives().iter().all(|drive| drive.layer.name == BASELINE),
        }
    }

    /// The same of conventional disks; unchecked, for on a shingled disk it would be caught, as it should be when it is asked
    /// for.
    pub fn conventional(&self) -> Result<Self, Error> {
        let settings = Settings { check: false, power_cut: None, ..*self.settings() };
        Ok(self.under(layer::find(BASELINE)?, &Parameters::default())?.with(settings))
    }

    /// The same drives, all under `layer`.
    pub fn under(&self, layer: &'static LayerSpec, parameters: &Parameters) -> Result<Self, Error> {
        match self {
            Job::Drive(job) => {
                let run = Run { layer, parameters: parameters.clone(), ..job.run.clone() };
                Ok(Job::Drive(DriveJob { run, file: job.file.clone() }))
            }
            Job::Array(job) => job.remade(job.run.with_layer(layer, parameters)),
        }
    }

    /// The same under other settings.
    pub fn with(mut self, settings: Settings) -> Self {
        match &mut self {
            Job::Drive(job) => job.run.settings = settings,
            Job::Array(job) => job.settings = settings,
        }
        self
    }

    /// Runs the requests of `source`; what was replayed is left to the caller.
    pub fn execute(
        &self,
        source: &mut dyn Source,
        watch: &mut Watch,
        timeline: TimelineBuilder,
    ) -> Result<Outcome, Error> {
        let mut outcome = match self {
            Job::Drive(job) => {
                let accesses = watch.recorder(0);
                let outcome = job.run.execute(source, watch, accesses, timeline)?;
                Outcome { drive_file: job.file.clone(), ..outcome }
            }
            Job::Array(job) => job.execute(source, watch, timeline)?,
        };
        stamp(&mut outcome);
        outcome.members.iter_mut().for_each(stamp);
        Ok(outcome)
    }

    /// Says which layer broke the law, and what follows from it; or what it is that cannot be, unless the error says so.
    pub fn named(&self, error: Error) -> anyhow::Error {
        let (name, copes) = match self {
            Job::Drive(job) => (job.run.layer.name.to_string(), job.run.layer.name != BASELINE),
            Job::Array(job) => (job.text.clone(), job.run.drives().iter().all(|drive| drive.layer.name != BASELINE)),
        };
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

impl ArrayJob {
    /// The same job with `run` in place of its array.
    pub fn remade<'a>(&self, run: ArrayRun) -> Result<Job<'a>, Error> {
        let host_sectors = run.layout()?.sectors_for_all();
        Ok(Job::Array(Box::new(ArrayJob { run, host_sectors, ..self.clone() })))
    }

    fn execute(&self, source: &mut dyn Source, watch: &mut Watch, timeline: TimelineBuilder) -> Result<Outcome, Error> {
        let mut outcome = match &self.rebuild {
            None => self.run.execute(self.settings, source, &mut Idle, watch, timeline)?,
            Some(spec) => {
                let mut chore = spec.chore(&self.run, &self.settings)?;
                self.run.execute(self.settings, source, &mut chore, watch, timeline)?
            }
        };
        outcome.array = Some(self.text.clone());
        for (member, file) in outcome.members.iter_mut().zip(&self.files) {
            member.drive_file.clone_from(file);
            // Each says for itself what its array met there.
            judge(member, None);
        }
        outcome.drive_file = match self.files.split_first() {
            Some((first, others)) if others.iter().all(|file| file == first) => first.clone(),
            _ => None,
        };
        Ok(outcome)
    }
}

/// Notes what made an outcome.
fn stamp(outcome: &mut Outcome) {
    outcome.version = VERSION.into();
    outcome.commit = COMMIT.map(str::to_string);
}
