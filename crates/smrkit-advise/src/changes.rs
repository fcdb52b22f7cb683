//! The changes that are tried, each as a run with all else equal: what the program could do, what the array's software could, and
//! other disks.

use std::sync::Arc;

use serde::Serialize;
use smrkit::device::level::Level;
use smrkit::drive::Drive;
use smrkit::engine::rebuild::{RebuildOrder, RebuildSpec, Task};
use smrkit::engine::system::DriveRun;
use smrkit::error::Error;
use smrkit::experiment::planned::PlannedRun;
use smrkit::layer;
use smrkit::quantity::Bytes;
use smrkit::settings::{Prefill, Settings, Warmup};
use smrkit::units::SECTOR_BYTES;

use crate::trial::{Measured, Trial, is_dynamic};
use crate::{Load, LoadKind, Question};

/// Sizes of writes: that of a page cache's clusters, of md's chunk, and of a large buffer (assumption).
const SIZES_BYTES: [u64; 3] = [64 << 10, 512 << 10, 4 << 20];
/// The records that ZFS is set to for large files.
const RECORD_BYTES: u64 = 1 << 20;
/// A change that slows a rebuild is not advised if the rebuild then takes longer than this: another disk may fail meanwhile (assumption).
pub const LONGEST_REBUILD_S: f64 = 7.0 * 86_400.0;

/// The kinds of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// Conventional disks.
    Conventional,
    /// Larger writes.
    WriteSize,
    /// A rebuild with one piece under way at a time.
    RebuildPieces,
    /// A rebuild of larger records.
    RebuildRecords,
    /// A rebuild in the order of the disk.
    RebuildOrder,
    /// Software that writes a host-managed disk in order.
    HostLayer,
    /// A disk that is trimmed before it is written to.
    Trim,
    /// The program with another option, or another way to do it.
    Program,
}

/// Software that makes an array of disks, as far as the question tells: its words, and its kind of rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Software {
    /// Linux's md, or what behaves like it.
    Md,
    /// ZFS.
    Zfs,
}

/// The array of a question: what decides which changes its software can make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArrayFacts {
    /// Its software.
    pub software: Software,
    /// Its level.
    pub level: Level,
    /// Work of its own.
    pub rebuild: Option<RebuildSpec>,
}

impl ArrayFacts {
    /// An array that was asked for by this name.
    pub fn new(name: &str, level: Level, rebuild: Option<RebuildSpec>) -> ArrayFacts {
        let is_resilver = matches!(rebuild, Some(RebuildSpec { order: RebuildOrder::Scattered { .. }, .. }));
        let is_zfs = name == "mirror" || name.starts_with("raidz") || is_resilver;
        ArrayFacts { software: if is_zfs { Software::Zfs } else { Software::Md }, level, rebuild }
    }

    /// True if ZFS can rebuild it in the order of the disk: mirrors only (and dRAID, which is not modelled), since the
    /// records of a RAIDZ have to be found by its block pointers.
    pub fn rebuilds_in_order(&self) -> bool {
        self.software == Software::Md || matches!(self.level, Level::Raid1 | Level::Raid10)
    }

    /// Other ways to rebuild that its software has.
    pub fn rebuilds(&self) -> Vec<(RebuildSpec, ChangeKind, String)> {
        let Some(spec) = self.rebuild else { return Vec::new() };
        let mut others = Vec::new();
        if self.software == Software::Zfs {
            let one = RebuildSpec { window: 1, ..spec };
            others.push((one, ChangeKind::RebuildPieces, "one command at a time".into()));
        }
        if let RebuildOrder::Scattered { record_sectors, run_sectors, live } = spec.order {
            let large = RECORD_BYTES / SECTOR_BYTES;
            if record_sectors < large {
                let order =
                    RebuildOrder::Scattered { record_sectors: large, run_sectors: run_sectors.max(large), live };
                let name = format!("records of {}", Bytes(RECORD_BYTES));
                others.push((RebuildSpec { order, ..spec }, ChangeKind::RebuildRecords, name));
            }
            if self.rebuilds_in_order() && !matches!(spec.task, Task::Scrub) {
                let order = RebuildOrder::Ascending { sectors: large / 2 };
                others.push((RebuildSpec { order, ..spec }, ChangeKind::RebuildOrder, "in disk order".into()));
            }
        }
        others.retain(|(other, ..)| *other != spec);
        others
    }
}

/// A change, and the run that shows what it does.
pub struct Change {
    /// Its kind.
    pub kind: ChangeKind,
    /// The change's name.
    pub name: String,
    /// The run, or why there is none.
    pub trial: Result<Trial, Error>,
}

/// An error's text in one line; fields have the names of the record, whatever a front calls them.
pub fn one_line(error: &Error) -> String {
    match error.cause() {
        // What helps there is no remedy here: the load fits the system as it is.
        Error::NoRoom(_) => "offers less room than the load needs".into(),
        _ => error.to_string().lines().collect::<Vec<_>>().join(" "),
    }
}

/// All changes to try, except those that were run beside the system as it is. `own` is the system under the load of `trial`.
pub fn all(question: &Question, trial: &Trial, own: &Measured, is_refused: bool) -> Result<Vec<Change>, Error> {
    let Trial { run, load, .. } = trial;
    let change = |kind, name: &str, trial| Change { kind, name: name.into(), trial };
    if is_refused {
        // No time of it is a disk's, so that there is nothing to compare; only a layer that writes in order would help.
        let made = run.under(layer::find("dm-zoned")?)?.possible();
        return Ok(vec![change(ChangeKind::HostLayer, "dm-zoned", made.map(|run| Trial { run, ..trial.clone() }))]);
    }
    // The load beside a rebuild stands for whatever else is done, and is not what an owner would change. Judged by the load's own
    // requests, a change of it would seem to help though the rebuild takes as long.
    if load.kind != LoadKind::Asked || run.rebuild().is_some() {
        return Ok(rebuilds(trial));
    }
    if question.asked_use.is_none() {
        return write_sizes(trial, own);
    }
    // Nobody can tell a program of a kind how much to write at a time, but for the options that it has.
    let instead = question.instead.iter().map(|(name, demand)| {
        let load = Load { demand: Arc::clone(demand), ..load.clone() };
        change(ChangeKind::Program, name, Ok(Trial { load, ..trial.clone() }))
    });
    Ok(instead.collect())
}

/// Larger writes of equal bytes in all, as far as the disk holds one.
fn write_sizes(trial: &Trial, own: &Measured) -> Result<Vec<Change>, Error> {
    let (outcome, room) = (&own.outcome, trial.run.host_sectors()? * SECTOR_BYTES);
    let (bytes, writes) = (outcome.host_written_sectors * SECTOR_BYTES, outcome.commands.host_write);
    let larger = SIZES_BYTES.into_iter().filter(|&size| size <= room && writes > 0 && size * writes > bytes);
    let change = |size: u64| {
        let mut settings = *trial.run.settings();
        if let Warmup::Requests(requests) = &mut settings.warmup {
            // As much of the demand is warm-up as without the change.
            let packed = outcome.requests - writes + bytes.div_ceil(size);
            *requests = (u128::from(*requests) * u128::from(packed) / u128::from(outcome.requests.max(1))) as u64;
        }
        let packed_sectors = Some((size / SECTOR_BYTES) as u32);
        let trial = Trial { run: trial.run.clone().with(settings), packed_sectors, ..trial.clone() };
        Change { kind: ChangeKind::WriteSize, name: format!("writes of {}", Bytes(size)), trial: Ok(trial) }
    };
    Ok(larger.map(change).collect())
}

/// Other ways to rebuild.
fn rebuilds(trial: &Trial) -> Vec<Change> {
    let Some(facts) = facts(&trial.run) else { return Vec::new() };
    let change = |(spec, kind, name)| {
        let run = trial.run.clone().rebuilding(spec);
        Change { kind, name, trial: Ok(Trial { run, ..trial.clone() }) }
    };
    facts.rebuilds().into_iter().map(change).collect()
}

/// The array of a run, if it is one.
pub fn facts(run: &PlannedRun) -> Option<ArrayFacts> {
    let level = run.system().array()?.level;
    let name = run.array.as_deref().and_then(|text| text.split(':').next()).unwrap_or(level.name());
    Some(ArrayFacts::new(name, level, run.rebuild()))
}

/// The same run on trimmed disks; with a rebuild only the new disk is. `None` if that is so already, or if a trim makes no difference, because
/// each LBA has a fixed place.
pub fn trimmed(run: &PlannedRun) -> Option<PlannedRun> {
    match run.rebuild() {
        _ if !is_dynamic(run) => None,
        Some(RebuildSpec { task: Task::Rebuild { disk, before, used: true }, .. }) => {
            let task = Task::Rebuild { disk, before, used: false };
            run.rebuild().map(|spec| run.clone().rebuilding(RebuildSpec { task, ..spec }))
        }
        None if run.settings().prefill == Prefill::Full => {
            Some(run.clone().with(Settings { prefill: Prefill::None, ..*run.settings() }))
        }
        _ => None,
    }
}

/// True of a value of which the high end is the worse one: times. Of caches and speeds it is the low end.
fn is_cost(key: &str) -> bool {
    ["_ms", "_time", "seek"].iter().any(|end| key.ends_with(end))
}

/// The run on drives at the worse, or at the better, end of everything that is known of them only roughly; `None` where all is known.
pub fn at_end(run: &PlannedRun, worse: bool) -> Result<Option<PlannedRun>, Error> {
    let is_rough = |own: &DriveRun| own.drive.ranges().next().is_some();
    if !run.system().drives().iter().any(is_rough) {
        return Ok(None);
    }
    let at_end = |drive: &Drive| -> Result<Drive, Error> {
        let keys: Vec<String> = drive.ranges().map(|known| known.key.clone()).collect();
        keys.iter()
            .try_fold(drive.clone(), |drive, key| drive.at(key, if is_cost(key) == worse { "high" } else { "low" }))
    };
    let changed = |own: &DriveRun| own.with_drive(at_end(&own.drive)?);
    run.on(run.system().with_drives(&changed)?).possible().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use smrkit::experiment::system::System;
    use smrkit::settings::Settings;

    #[test]
    fn every_range_is_taken_at_its_worse_end() {
        let run = System::drive("st8000dm004").layer("drive-managed").run(Settings::default()).unwrap();
        let name = |worse| at_end(&run, worse).unwrap().unwrap().system().drives()[0].drive.name.clone();
        let (worse, better) = (name(true), name(false));
        assert!(worse.contains("seek=high") && better.contains("seek=low"), "{worse}");
        assert!(worse.contains("cache_percent=low") && better.contains("cache_percent=high"), "{worse}");
        assert!(worse.contains("append_time=high") && better.contains("append_time=low"), "{worse}");
        let exact = System::drive("tiny").layer("drive-managed").run(Settings::default()).unwrap();
        assert!(at_end(&exact, true).unwrap().is_none());
    }
}
