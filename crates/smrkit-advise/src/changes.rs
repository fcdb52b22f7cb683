//! The changes that are tried, each as a run with all else equal: what the program could do, what the array's software could, other
//! disks; and what is not a change, the ends between which the drive itself may lie.

use std::collections::BTreeSet;
use std::convert::Infallible;

use serde::Serialize;
use smrkit::device::level::Level;
use smrkit::drive::{Drive, RangeEnd};
use smrkit::engine::rebuild::{RebuildOrder, RebuildSpec, Task};
use smrkit::engine::system::{ArrayRun, DriveRun};
use smrkit::error::Error;
use smrkit::experiment::planned::PlannedRun;
use smrkit::interleave::SourcePlacement;
use smrkit::layer::{self, BASELINE, LayerSpec, Parameters};
use smrkit::quantity::Bytes;
use smrkit::settings::{Arrival, Settings, Warmup};
use smrkit::units::{Nanos, SECTOR_BYTES};

use crate::comparison::Trajectory;
use crate::trial::Trial;
use crate::{LoadKind, Question, Reference};
use smrkit_report::format;

/// Sizes of writes and of chunks: that of a page cache's clusters, of md's chunk, and of a large buffer (assumption).
const SIZES_BYTES: [u64; 3] = [64 << 10, 512 << 10, 4 << 20];
/// The records that ZFS is set to for large files.
const RECORD_BYTES: u64 = 1 << 20;
/// The slowest that md lets a rebuild go while there is other work, in KiB/s, unless told otherwise (md's manual page,
/// sync_speed_min). A limit below has no effect.
const MD_FLOOR_KIB_PER_S: u64 = 1000;
/// A rebuild is not held back where it would then take longer than this: another disk may fail meanwhile (assumption).
pub const LONGEST_REBUILD_S: f64 = 7.0 * 86_400.0;
/// Memory of a drive's write cache, where it has none yet: what most have of their DRAM for it (assumption).
const WRITE_CACHE: &str = "64M";
/// Shares of the time that the disk is left idle.
const IDLE: [f64; 3] = [0.5, 0.9, 0.99];
/// Factors on the trace's times.
const STRETCHES: [f64; 3] = [2.0, 10.0, 100.0];
/// The kinds of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// Larger writes.
    WriteSize,
    /// Time between requests.
    Idle,
    /// The drive's write cache, which it is run without.
    WriteCache,
    /// A rebuild with one piece under way at a time.
    RebuildPieces,
    /// A rebuild of larger records.
    RebuildRecords,
    /// A rebuild in the order of the disk.
    RebuildOrder,
    /// A rebuild held to half its speed.
    RebuildSpeed,
    /// Another chunk.
    Chunk,
    /// Another level of the same disks.
    Level,
    /// A disk for each source.
    Dedicated,
    /// Another translation layer on the same disks.
    Layer,
    /// Conventional disks.
    Conventional,
    /// The drive at an end of what is known of it: no change, but how far the answer holds.
    Range,
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

    /// True if a lost disk loses nothing.
    pub fn is_redundant(&self) -> bool {
        self.level.parities() > 0 || !matches!(self.level, Level::Span | Level::Raid0 | Level::Dedicated)
    }

    /// True if ZFS can rebuild it in the order of the disk: mirrors only (and dRAID, which is not modelled), since the
    /// records of a RAIDZ have to be found by its block pointers.
    pub fn rebuilds_in_order(&self) -> bool {
        self.software == Software::Md || matches!(self.level, Level::Raid1 | Level::Raid10 { .. })
    }

    /// Other ways to rebuild that its software has. A rebuild alone goes at `bytes_per_s`; the whole of it is `disk_bytes`.
    pub fn rebuilds(&self, bytes_per_s: f64, disk_bytes: u64) -> Vec<(RebuildSpec, ChangeKind, String)> {
        let Some(spec) = self.rebuild else { return Vec::new() };
        let mut others = Vec::new();
        match self.software {
            Software::Md => {
                let half = (bytes_per_s / 2.0) as u64;
                let takes_s = disk_bytes as f64 / half.max(1) as f64;
                if spec.rate.is_none() && half / 1024 > MD_FLOOR_KIB_PER_S && takes_s <= LONGEST_REBUILD_S {
                    let name = format!("at {}/s at most", format::bytes(half as f64));
                    others.push((RebuildSpec { rate: Some(half), ..spec }, ChangeKind::RebuildSpeed, name));
                }
            }
            Software::Zfs => {
                let one = RebuildSpec { window: 1, ..spec };
                others.push((one, ChangeKind::RebuildPieces, "one piece at a time".into()));
            }
        }
        if let RebuildOrder::Scattered { record_sectors, run_sectors, live, sorted } = spec.order {
            let large = RECORD_BYTES / SECTOR_BYTES;
            if record_sectors < large {
                let order = RebuildOrder::Scattered {
                    record_sectors: large,
                    run_sectors: run_sectors.max(large),
                    live,
                    sorted,
                };
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
    /// The pause after each completion, where that is what changes.
    pub think: Option<Nanos>,
    /// The factor on the trace's times, where that is what changes.
    pub time_scale: Option<f64>,
    /// The run, or why there is none.
    pub trial: Result<Trial, Error>,
    /// Conventional disks with the same pauses or times, where those are what changes.
    pub baseline: Option<Trial>,
}

impl Change {
    /// A change; an error says why it has no run.
    pub fn new(kind: ChangeKind, name: impl Into<String>, trial: Result<Trial, Error>) -> Change {
        let name = name.into();
        Change { kind, name, think: None, time_scale: None, trial, baseline: None }
    }
}

/// An error's text in one line; fields have the names of the record, whatever a front calls them.
pub fn one_line(error: &Error) -> String {
    error.to_string().lines().collect::<Vec<_>>().join(" ")
}

/// All that is tried, but for conventional disks, which have been run.
pub fn all(question: &Question, known: &Reference) -> Result<Vec<Change>, Error> {
    let settings = match &known.calm {
        Some((load, ..)) if known.load.kind == LoadKind::Light => load.settings,
        _ => known.load.settings,
    };
    let run = question.run.clone().with(settings);
    if known.before.problems.refused {
        // No time of it is a disk's, so that there is nothing to compare; only a layer that writes in order would help.
        return Ok(vec![host_layer(&run)?]);
    }
    let is_rebuilt = run.rebuild().is_some();
    let mut all = Vec::new();
    // The load beside a rebuild stands for whatever else is done, and is not what an owner would change. Judged by the load's own
    // requests, a change of it would seem to help though the rebuild takes as long.
    if known.load.kind == LoadKind::Asked && !is_rebuilt {
        all.extend(write_sizes(&run, known)?);
        all.extend(times(&run, &settings, known)?);
    }
    all.extend(write_cache(&run)?);
    all.extend(rebuilds(&run, question, known));
    if !is_rebuilt {
        all.extend(chunks(&run));
        all.extend(levels(&run, question));
        all.extend(dedicated(&run, question));
    }
    if question.all {
        all.extend(layers(&run)?);
    }
    let calm = known.calm.as_ref().map(|(load, ..)| question.run.clone().with(load.settings));
    all.extend(ranges(&calm.unwrap_or(run))?);
    Ok(all)
}

/// Larger writes of equal bytes in all, as far as the disk holds one.
fn write_sizes(run: &PlannedRun, known: &Reference) -> Result<Vec<Change>, Error> {
    let (outcome, room) = (&known.own.outcome, run.host_sectors()? * SECTOR_BYTES);
    let (bytes, writes) = (outcome.host_written_sectors * SECTOR_BYTES, outcome.commands.host_write);
    let larger = SIZES_BYTES.into_iter().filter(|&size| size <= room && writes > 0 && size * writes > bytes);
    let change = |size: u64| {
        let packed_sectors = Some((size / SECTOR_BYTES) as u32);
        let mut settings = *run.settings();
        if let Warmup::Requests(requests) = &mut settings.warmup {
            // As much of the demand is warm-up as without the change.
            let packed = outcome.requests - writes + bytes.div_ceil(size);
            *requests = (u128::from(*requests) * u128::from(packed) / u128::from(outcome.requests.max(1))) as u64;
        }
        let trial = Trial { packed_sectors, ..Trial::for_run(run.clone().with(settings)) };
        Ok(Change::new(ChangeKind::WriteSize, format!("writes of {}", Bytes(size)), Ok(trial)))
    };
    larger.map(change).collect()
}

/// Pauses in a closed loop, stretched times in an open one.
fn times(run: &PlannedRun, settings: &Settings, known: &Reference) -> Result<Vec<Change>, Error> {
    let mut changes = Vec::new();
    if known.own.outcome.requests == 0 {
        return Ok(changes);
    }
    let mut add = |name: String, changed: Settings| -> Result<(), Error> {
        let trial = changed.validate().map(|()| Trial::for_run(run.clone().with(changed)));
        let baseline = match trial {
            Ok(_) => Some(Trial::for_run(run.conventional()?.with(changed))),
            Err(_) => None,
        };
        let think = (changed.think != settings.think).then_some(changed.think);
        let time_scale = (changed.time_scale != settings.time_scale).then_some(changed.time_scale);
        changes.push(Change { think, time_scale, baseline, ..Change::new(ChangeKind::Idle, name, trial) });
        Ok(())
    };
    match settings.arrival {
        // A trace's own think times are the host's, and stay.
        Arrival::Closed => {}
        Arrival::FlatOut => {
            for share in IDLE {
                let think = pause(&known.own.trajectory, settings.depth, share);
                if think > settings.think {
                    let name = format!("pauses of {}", pause_text(think));
                    add(name, Settings { think, ..*settings })?;
                }
            }
        }
        Arrival::Trace => {
            for factor in STRETCHES {
                let name = format!("times stretched {factor}×");
                add(name, Settings { time_scale: settings.time_scale * factor, ..*settings })?;
            }
        }
    }
    Ok(changes)
}

/// The pause after each completion that leaves the busiest disk idle for `share` of the time, if it then works as long for a
/// request as now: `depth` requests come in the time of one round, pause and answer. It has three digits that count, for it
/// to be told in full.
fn pause(own: &Trajectory, depth: u32, share: f64) -> Nanos {
    let work_ns = own.elapsed_ns as f64 * (1.0 - own.idle_share) / own.requests.max(1) as f64;
    rounded(Nanos((work_ns * (f64::from(depth) / (1.0 - share) - 1.0)).round() as u64))
}

/// To three digits that count.
fn rounded(time: Nanos) -> Nanos {
    let unit = 10_u64.pow(time.0.checked_ilog10().unwrap_or(0).saturating_sub(2));
    Nanos(((time.0 / unit) + u64::from(time.0 % unit >= unit.div_ceil(2))).saturating_mul(unit))
}

/// A rounded time in full, as --think takes it.
fn pause_text(time: Nanos) -> String {
    let (scale, unit) = match time.0 {
        0..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "µs"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    format!("{} {unit}", time.0 as f64 / f64::from(scale))
}

/// The write cache of drives that are run without one.
fn write_cache(run: &PlannedRun) -> Result<Option<Change>, Error> {
    let has_one = |own: &DriveRun| own.drive.drive_managed.as_ref().is_some_and(|sold| sold.write_cache_bytes > 0);
    if run.system().drives().iter().any(|own| has_one(own)) {
        return Ok(None);
    }
    let changed = with_parameter(run, "write_cache_bytes", WRITE_CACHE)?;
    Ok(changed.map(|run| Change::new(ChangeKind::WriteCache, "write cache on (64 MB)", Ok(Trial::for_run(run)))))
}

/// The system with another value of a parameter; `None` where no drive's layer has it, or has it otherwise.
fn with_parameter(run: &PlannedRun, key: &str, value: &str) -> Result<Option<PlannedRun>, Error> {
    let other = |layer: &'static LayerSpec, parameters: &Parameters| -> Option<Parameters> {
        let default = layer.resolve(&[]).ok()?.scalars().remove(key)?;
        let is_default = parameters.scalars().get(key) == Some(&default);
        is_default.then(|| layer.with(parameters, key, value).ok()).flatten()
    };
    if run.system().drives().iter().all(|run| other(run.layer, &run.parameters).is_none()) {
        return Ok(None);
    }
    let changed = |run: &DriveRun| {
        let parameters = other(run.layer, &run.parameters).unwrap_or_else(|| run.parameters.clone());
        Ok::<_, Infallible>(DriveRun { parameters, ..run.clone() })
    };
    let Ok(system) = run.system().with_drives(&changed);
    Ok(Some(run.on(system)))
}

/// Other ways to rebuild.
fn rebuilds(run: &PlannedRun, question: &Question, known: &Reference) -> Vec<Change> {
    let Some((facts, rebuilt)) = facts(run).zip(known.own.trajectory.rebuild) else { return Vec::new() };
    let bytes_per_s = rebuilt.bytes as f64 / (rebuilt.elapsed_ns as f64 / 1e9).max(1e-9);
    let whole = question.whole_disk_bytes.unwrap_or(rebuilt.disk_bytes);
    let change = |(spec, kind, name): (RebuildSpec, ChangeKind, String)| {
        Change::new(kind, name, Ok(Trial::for_run(run.clone().rebuilding(spec))))
    };
    facts.rebuilds(bytes_per_s, whole).into_iter().map(change).collect()
}

/// The array of a run, if it is one.
pub fn facts(run: &PlannedRun) -> Option<ArrayFacts> {
    let level = run.system().array()?.level;
    let name = run.array.as_deref().and_then(|text| text.split(':').next()).unwrap_or(level.name());
    Some(ArrayFacts::new(name, level, run.rebuild()))
}

/// A host-managed disk behind dm-zoned, which writes in order.
fn host_layer(run: &PlannedRun) -> Result<Change, Error> {
    let spec = layer::find("dm-zoned")?;
    let made = run.under(spec, &spec.resolve(&[])?).possible().map(Trial::for_run);
    Ok(Change::new(ChangeKind::Layer, "dm-zoned", made))
}

/// The drives at both ends of each value that has a range in their files.
fn ranges(run: &PlannedRun) -> Result<Vec<Change>, Error> {
    let drives = run.system().drives();
    let keys: BTreeSet<&str> =
        drives.iter().flat_map(|own| own.drive.ranges().map(|known| known.key.as_str())).collect();
    let mut changes = Vec::new();
    for (key, end) in keys.iter().flat_map(|&key| RangeEnd::ALL.map(|end| (key, end))) {
        let at_end = |own: &Drive| match own.ranges().any(|known| known.key == key) {
            true => own.at(key, end),
            false => Ok(own.clone()),
        };
        let trial = with_each_drive(run, at_end).map(Trial::for_run);
        changes.push(Change::new(ChangeKind::Range, format!("{key}={}", end.name()), trial));
    }
    Ok(changes)
}

/// The run with `change` made to each of its drives.
fn with_each_drive(run: &PlannedRun, change: impl Fn(&Drive) -> Result<Drive, Error>) -> Result<PlannedRun, Error> {
    let changed = |own: &DriveRun| Ok::<_, Error>(DriveRun { drive: change(&own.drive)?, ..own.clone() });
    run.on(run.system().with_drives(&changed)?).possible()
}

/// Other chunks, which ZFS has not.
fn chunks(run: &PlannedRun) -> Vec<Change> {
    let is_zfs = facts(run).is_some_and(|facts| facts.software == Software::Zfs);
    let Some(array) = run.system().array().filter(|_| !is_zfs) else { return Vec::new() };
    let others =
        SIZES_BYTES.into_iter().filter(|size| array.level.is_striped() && *size != array.chunk_sectors * SECTOR_BYTES);
    let change = |size: u64| {
        let changed = run.on(ArrayRun { chunk_sectors: size / SECTOR_BYTES, ..array.clone() });
        Change::new(ChangeKind::Chunk, format!("chunks of {}", Bytes(size)), changed.possible().map(Trial::for_run))
    };
    others.map(change).collect()
}

/// Other levels of the same disks; a member for each source is a change of its own.
fn levels(run: &PlannedRun, question: &Question) -> Vec<Change> {
    let Some(array) = run.system().array() else { return Vec::new() };
    let was_dedicated = array.level == Level::Dedicated;
    let all = [Level::Span, Level::Raid0, Level::Raid10 { copies: 2 }, Level::Raid5];
    // One that bears fewer losses is no remedy.
    let spares = |level: &Level| level.parities() as u32 + level.copies(array.members.len());
    let is_zfs = facts(run).is_some_and(|facts| facts.software == Software::Zfs);
    let is_other = |level: &Level| *level != array.level && !(is_zfs && *level == Level::Span);
    let others = all.into_iter().filter(|level| is_other(level) && spares(level) >= spares(&array.level));
    let change = |level: Level| {
        let changed = run.on(ArrayRun { level, ..array.clone() });
        let made = level.check_disks(level.name(), array.members.len()).and_then(|()| changed.possible());
        let placement = (was_dedicated && question.sources > 1).then_some(SourcePlacement::EndToEnd);
        let trial = made.map(|run| Trial { placement, ..Trial::for_run(run) });
        let name = match facts(run).map(|facts| facts.software) {
            Some(Software::Zfs) => in_words_of_zfs(level),
            _ => level.name(),
        };
        Change::new(ChangeKind::Level, format!("{name} of the same disks"), trial)
    };
    others.map(change).collect()
}

fn in_words_of_zfs(level: Level) -> &'static str {
    match level {
        Level::Span | Level::Raid0 => "stripe",
        Level::Raid10 { .. } => "striped mirrors",
        Level::Raid5 => "raidz1",
        other => other.name(),
    }
}

/// A disk for each source, each from its first sector on.
fn dedicated(run: &PlannedRun, question: &Question) -> Option<Change> {
    let sources = question.sources;
    let changed = match run.system().array() {
        _ if sources < 2 => return None,
        None => one_each(run, sources),
        Some(array) if sources == array.members.len() && array.level != Level::Dedicated => {
            run.on(ArrayRun { level: Level::Dedicated, ..array.clone() })
        }
        Some(_) => return None,
    };
    let trial = changed.possible().map(|run| Trial { placement: Some(SourcePlacement::Zero), ..Trial::for_run(run) });
    Some(Change::new(ChangeKind::Dedicated, "a disk for each source", trial))
}

/// As many of a run's drives as sources.
fn one_each(own: &PlannedRun, sources: usize) -> PlannedRun {
    let array = ArrayRun::new(Level::Dedicated, vec![own.system().clone(); sources]);
    let mut run = own.on(array);
    run.array = Some(format!("{}:disks={sources}", Level::Dedicated));
    run
}

/// Every other published layer on the same disks.
fn layers(run: &PlannedRun) -> Result<Vec<Change>, Error> {
    let drives = run.system().drives();
    let has = |layer: &LayerSpec| drives.iter().all(|run| run.layer.name == layer.name);
    let mut changes = Vec::new();
    for spec in layer::all().into_iter().filter(|spec| spec.name != BASELINE && !has(spec)) {
        let parameters = spec.resolve(&[])?;
        // A layer that the drive has no room for is seen here.
        let made = run.under(spec, &parameters).possible().map(Trial::for_run);
        changes.push(Change::new(ChangeKind::Layer, format!("layer {}", spec.name), made));
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use smrkit::quantity::parse_duration;

    use super::*;

    #[test]
    fn a_pause_leaves_the_disk_idle_for_its_share() {
        // 100 requests in 1 s, the busiest disk idle for a fifth: 8 ms of work for each.
        let own = Trajectory { elapsed_ns: 1_000_000_000, requests: 100, idle_share: 0.2, ..Trajectory::default() };
        assert_eq!(pause(&own, 1, 0.5), Nanos(8_000_000));
        assert_eq!(pause(&own, 1, 0.9), Nanos(72_000_000));
        // Two outstanding: each comes every 32 ms, 8 of which it is served.
        assert_eq!(pause(&own, 2, 0.5), Nanos(24_000_000));
    }

    #[test]
    fn the_text_of_a_pause_is_what_is_run() {
        let texts =
            [0, 7, 451, 4_514, 999_499, 999_500, 24_750_000, 4_514_449_271, 781_400_000_000, 65_536_000_000_000]
                .map(|ns| pause_text(rounded(Nanos(ns))));
        let wanted = ["0 ns", "7 ns", "451 ns", "4.51 µs", "999 µs", "1 ms", "24.8 ms", "4.51 s", "781 s", "65500 s"];
        assert_eq!(texts, wanted);
    }

    #[test]
    fn a_pause_reads_back_as_it_is_told_and_is_rounded_by_little() {
        // From 292 years down, each a ninth less.
        for ns in std::iter::successors(Some(u64::MAX / 2), |ns| Some(ns - ns.div_ceil(9))).take_while(|ns| *ns > 0) {
            let pause = rounded(Nanos(ns));
            assert_eq!(parse_duration(&pause_text(pause)).unwrap(), pause);
            assert!(pause.0.abs_diff(ns) <= ns / 200, "{ns}: {pause:?}");
        }
    }
}
