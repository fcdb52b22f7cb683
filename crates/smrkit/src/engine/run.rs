//! One run: a drive or an array, settings and requests; out comes an outcome.

use std::sync::Arc;

use super::rebuild::RebuildSpec;
use super::saved::SavedState;
use super::system::{DriveRun, SystemRun};
use super::task::{BackgroundTask, Idle};
use super::{Engine, Observer};
use crate::device::{Device, LayeredDisk, MemberDrive};
use crate::error::Error;
use crate::pages::WHOLE_SECTORS_MAX;
use crate::quantity::Bytes;
use crate::request::Source;
use crate::settings::{Prefill, Settings};
use crate::stats::counts::{HostCounts, HostSide};
use crate::stats::outcome::{DriveEnd, Outcome, RunRecord, State};
use crate::stats::timeline::TimelineBuilder;
use crate::units::{Nanos, SECTOR_BYTES};

/// A run of a drive or an array.
#[derive(Clone)]
pub struct Run {
    /// System that serves the requests.
    pub system: SystemRun,
    /// Arrivals, queue, state before.
    pub settings: Settings,
    /// The array's own work next to the requests.
    pub background: Option<RebuildSpec>,
    /// The length of the timeline's windows; without, they double as the run grows.
    pub window: Option<Nanos>,
    /// State that the run begins with, for the prefill [`Prefill::Saved`].
    pub from_state: Option<Arc<SavedState>>,
}

impl Run {
    /// A run without work of the array's own.
    pub fn new(system: impl Into<SystemRun>, settings: Settings) -> Run {
        let system = system.into();
        let settings = system.effective(settings);
        Run { system, settings, background: None, window: None, from_state: None }
    }

    /// Runs the requests of `source`. The caller notes in the outcome where they came from.
    pub fn measure(&self, source: &mut dyn Source, observer: &mut dyn Observer) -> Result<Outcome, Error> {
        match (&self.background, &self.system) {
            (Some(spec), SystemRun::Array(array)) => {
                self.measure_with(&mut spec.build(array, &self.settings)?, source, observer)
            }
            (Some(_), SystemRun::Drive(_)) => {
                Err(Error::Usage("a drive is not rebuilt: leave out {rebuild}, or give an {array}".into()))
            }
            (None, _) => self.measure_with(&mut Idle, source, observer),
        }
    }

    /// Runs the requests of `source` next to a task of the caller's.
    pub fn measure_with(
        &self,
        task: &mut dyn BackgroundTask,
        source: &mut dyn Source,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Error> {
        let settings = &self.settings;
        self.check_power_cut()?;
        let timeline = self.window.map_or_else(TimelineBuilder::default, TimelineBuilder::fixed);
        let commit = observer.commit().map(str::to_string);
        let counts = HostCounts::new(timeline).of_sources(source.sources()).in_blocks();
        let mut device = self.system.build(settings)?;
        let begin = match (&self.from_state, settings.prefill) {
            (Some(saved), Prefill::Saved) => saved.restore(&self.system, &mut device)?,
            (None, Prefill::Saved) => {
                return Err(Error::Usage("{prefill} saved begins with a saved state: give {from_state}".into()));
            }
            _ => Nanos::ZERO,
        };
        let wants_state = observer.wants_state();
        self.check_state(wants_state)?;
        let mut engine = Engine::new(device, *settings, counts, task, observer);
        engine.now = begin;
        let finished = engine.run(source)?;
        if wants_state && finished {
            engine.observer.state(SavedState::take(&self.system, &engine.device, engine.now)?);
        }
        // Reads of the final verification are no part of the outcome.
        engine.device.drives_mut().iter_mut().for_each(|drive| drive.record(None));
        let counts = std::mem::take(&mut engine.counts);
        let host = counts.finish(&engine.device.reading());
        let mut outcome = self.system.outcome(&mut engine.device, settings, host, &commit)?;
        // After the outcome is taken: a rebuild's report lets the members finish cleaning, which is no part of it.
        let rebuild = match engine.device.array_mut() {
            Some(array) => engine.task.report(array)?,
            None => None,
        };
        outcome.power_cut = engine.take_power_cuts().pop();
        engine.finish()?;
        outcome.state.steady = engine.warm_up.steady;
        Ok(Outcome { interrupted: !finished, rebuild, ..self.identified(outcome, commit) })
    }

    /// Refuses settings that a saved state can't serve.
    fn check_state(&self, is_saved: bool) -> Result<(), Error> {
        let uses = is_saved || self.settings.prefill == Prefill::Saved;
        if uses && self.settings.check {
            let message = "a saved state holds no data that could be verified: leave out {check}";
            return Err(Error::Usage(message.into()));
        }
        if uses && self.background.is_some() {
            let message = "a saved state is of an array that does no work of its own: leave out {rebuild}";
            return Err(Error::Usage(message.into()));
        }
        Ok(())
    }

    /// The outcome with what it takes to run it again: settings, seed, record, version and commit.
    fn identified(&self, outcome: Outcome, commit: Option<String>) -> Outcome {
        Outcome {
            engine: self.settings,
            seed: self.settings.seed,
            run: self.record(),
            version: crate::VERSION.into(),
            commit,
            // Only `steady` was measured; the rest follows from the settings and the capacity.
            state: State { steady: outcome.state.steady, ..State::new(self.settings.prefill, &outcome.capacity) },
            ..outcome
        }
    }

    /// Record from which the run can be made again.
    pub fn record(&self) -> RunRecord {
        RunRecord {
            system: self.system.spec().to_string(),
            used_sectors: self.system.array().and_then(|array| array.used_sectors.clone()),
            drive_files: self.system.drives().iter().filter_map(|drive| drive.file()).collect(),
            rebuild: self.background,
            window_ns: self.window.map(|window| window.0),
            from_state: self.from_state.as_ref().map(|saved| saved.hash()),
        }
    }

    /// Refuses settings that power cuts don't support.
    fn check_power_cut(&self) -> Result<(), Error> {
        match &self.system {
            _ if self.settings.power_cut.is_none() => Ok(()),
            SystemRun::Array(_) => Err(Error::Usage(
                "{power_cut} knows single drives only, since members of an array are ahead of each other in time: leave \
                 out {array}, or cut the power of one drive"
                    .into(),
            )),
            SystemRun::Drive(run) if run.drive.clock.completes_early() => Err(Error::Impossible(
                "{power_cut} knows no write cache in the order of arrival: take a drive file without write_cache_order".into(),
            )),
            SystemRun::Drive(run) => self.check_full(run.host_sectors()?),
        }
    }

    /// Refuses large full disks: after a power cut every LBA is looked at, because the host owns all of them.
    fn check_full(&self, host_sectors: u64) -> Result<(), Error> {
        if self.settings.prefill != Prefill::Full || host_sectors <= WHOLE_SECTORS_MAX {
            return Ok(());
        }
        Err(Error::Impossible(format!(
            "after a power cut all of a full disk is looked at, and {host_sectors} sectors are too many: give a {{capacity}} \
             of {} at most, or {{prefill}} none",
            Bytes(WHOLE_SECTORS_MAX * SECTOR_BYTES)
        )))
    }
}

impl SystemRun {
    /// The measured part of the outcome: of the system and, for an array, of each drive.
    fn outcome(
        &self,
        device: &mut Device,
        settings: &Settings,
        host: HostSide,
        commit: &Option<String>,
    ) -> Result<Outcome, Error> {
        match device {
            Device::Drive(drive) => self.drives()[0].outcome(drive, host),
            Device::Array(array) => {
                let host_sectors = array.layout.host_sectors;
                let members = self.drives().iter().zip(array.drives_mut()).map(|(run, drive)| {
                    let host = drive.take_counts().finish(&drive.reading());
                    let outcome = run.outcome(drive, host)?;
                    Ok(Run::new(run.clone(), *settings).identified(outcome, commit.clone()))
                });
                let mut all = Outcome::of_array(members.collect::<Result<_, Error>>()?, host)?;
                // What the array offers is less than the sum of its members if it keeps copies or parity.
                all.capacity.host_sectors = host_sectors;
                Ok(all)
            }
        }
    }
}

impl DriveRun {
    fn outcome(&self, drive: &MemberDrive, host: HostSide) -> Result<Outcome, Error> {
        let parameters = (self.layer.settled)(&self.drive, &self.parameters)?;
        let mut outcome = Outcome {
            layer: self.layer.name.into(),
            drive: self.drive.name.clone(),
            drive_file: self.drive.file().map(|path| path.display().to_string()),
            asked: self.parameters.asked(&parameters),
            parameters: parameters.scalars(),
            ..Outcome::default()
        };
        let LayeredDisk { disk, layer, .. } = drive.device();
        outcome.measure_drive(&DriveEnd { disk, layer: layer.as_ref(), commands: drive.command_times() });
        // After the drive's side, because some columns are sums of both.
        outcome.measure_host(host);
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::super::system::ArrayRun;
    use super::*;
    use crate::device::level::Level;
    use crate::drive::Drive;
    use crate::layer::{self, Parameters};

    /// A run of the drive `tiny`, with more lines in its file.
    fn drive_run(more: &str) -> DriveRun {
        let text = format!("{}{more}", include_str!("../../drives/tiny.toml"));
        let drive = Drive::parse("tiny.toml".as_ref(), &text).unwrap();
        DriveRun { drive, layer: layer::find("in-place").unwrap(), parameters: Parameters::default() }
    }

    fn drive(more: &str) -> SystemRun {
        drive_run(more).into()
    }

    #[test]
    fn the_power_of_a_single_drive_can_be_cut() {
        let checked = |system: SystemRun, power_cut| {
            let settings = Settings { power_cut, check: true, ..Settings::default() };
            Run::new(system, settings).check_power_cut().map_err(|error| error.to_string())
        };
        let bytes = "write_cache_bytes = { value = 65536, source = \"test\" }\n";
        let cached = |order: &str| drive(&(String::from(bytes) + order));
        let array = || SystemRun::Array(ArrayRun::new(Level::Raid1, vec![drive_run(""), drive_run("")]));
        assert!(checked(array(), None).is_ok());
        assert!(checked(drive(""), Some(1)).is_ok() && checked(cached(""), Some(1)).is_ok());
        let in_order = cached("write_cache_order = { value = \"arrival\", source = \"test\" }\n");
        assert!(checked(in_order, Some(1)).unwrap_err().contains("knows no write cache in the order of arrival"));
        assert!(checked(array(), Some(1)).unwrap_err().contains("knows single drives only"));
    }

    #[test]
    fn after_a_power_cut_a_full_disk_is_looked_at_if_it_is_small() {
        let checked = |prefill, sectors| {
            Run::new(drive(""), Settings { prefill, ..Settings::default() }).check_full(sectors).is_ok()
        };
        assert!(checked(Prefill::Full, WHOLE_SECTORS_MAX) && !checked(Prefill::Full, WHOLE_SECTORS_MAX + 1));
        assert!(checked(Prefill::None, WHOLE_SECTORS_MAX + 1));
    }
}
