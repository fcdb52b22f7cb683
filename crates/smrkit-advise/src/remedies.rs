//! The changes that are tried, each as a run with all else equal: what the program could do, what the disk could, other
//! disks; and what is not a change, the ends between which the drive itself may lie.

use std::collections::BTreeSet;
use std::convert::Infallible;

use serde::Serialize;
use smrkit::device::level::Level;
use smrkit::drive::{DRIVES, Drive, RangeEnd};
use smrkit::engine::rebuild::{RebuildOrder, RebuildSpec};
use smrkit::engine::system::{ArrayRun, DriveRun};
use smrkit::error::Error;
use smrkit::experiment::planned::PlannedRun;
use smrkit::interleave::SourcePlacement;
use smrkit::layer::{self, BASELINE, LayerSpec, Parameters};
use smrkit::quantity::Bytes;
use smrkit::settings::{Arrival, Settings, Warmup};
use smrkit::stats::comparison::Trajectory;
use smrkit::units::{Nanos, SECTOR_BYTES};

use super::trial::Trial;
use super::{Question, Reference};

/// Sizes of writes and of chunks: that of a page cache's clusters, of md's chunk, and of a large buffer (assumption).
const SIZES_BYTES: [u64; 3] = [64 << 10, 512 << 10, 4 << 20];
/// The records that ZFS is set to for large files.
pub const RECORD_BYTES: u64 = 1 << 20;
/// Shares of the time that the disk is left idle.
const IDLE: [f64; 3] = [0.5, 0.9, 0.99];
/// Factors on the trace's times.
const STRETCHES: [f64; 3] = [2.0, 10.0, 100.0];
/// Behaviour assumed of a drive-managed disk: nobody has measured it.
const ASSUMED: [(&str, &str, &str, Option<OwnerStep>); 2] = [
    ("write_cache_bytes", "64M", "write cache of 64 MB", Some(OwnerStep::WriteCache)),
    ("bypass", "run", "bypass by long runs", None),
];

/// The kinds of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// Larger writes.
    WriteSize,
    /// Time between requests.
    Idle,
    /// A parameter of the layer, on no known disk.
    Parameter,
    /// Another way to rebuild.
    Rebuild,
    /// Another drive that is sold.
    Drive,
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

/// Something that an owner can set, among changes of a kind that differ in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerStep {
    /// Writes of this many bytes.
    WriteBytes(u64),
    /// The disk's write cache.
    WriteCache,
    /// The records of a file system.
    Records,
    /// The order of a rebuild.
    Order,
}

/// A change, and the run that shows what it does.
pub struct Change {
    /// Its kind.
    pub kind: ChangeKind,
    /// The change's name.
    pub name: String,
    /// The owner's step for it, where the kind does not say.
    pub step: Option<OwnerStep>,
    /// True if the disk is assumed to be able to do it.
    pub is_assumed: bool,
    /// The pause after each completion, where that is what changes.
    pub think: Option<Nanos>,
    /// The factor on the trace's times, where that is what changes.
    pub time_scale: Option<f64>,
    /// The run, or why there is none.
    pub trial: Result<Trial, Error>,
    /// Conventional disks under the same requests or times, where those are what changes.
    pub baseline: Option<Trial>,
}

impl Change {
    /// A change; an error says why it has no run.
    pub fn new(kind: ChangeKind, name: impl Into<String>, trial: Result<Trial, Error>) -> Change {
        let name = name.into();
        Change { kind, name, step: None, is_assumed: false, think: None, time_scale: None, trial, baseline: None }
    }
}

/// An error's text in one line; fields have the names of the record, whatever a front calls them.
pub fn one_line(error: &Error) -> String {
    error.to_string().lines().collect::<Vec<_>>().join(" ")
}

/// All that is tried.
pub fn all(question: &Question, known: &Reference) -> Result<Vec<Change>, Error> {
    let Some(&settings) = question.depths.last() else { return Ok(Vec::new()) };
    let run = question.run.clone().with(settings);
    let mut all = Vec::new();
    if !run.is_conventional() {
        let conventional = run.conventional().map(Trial::for_run);
        all.push(Change::new(ChangeKind::Conventional, "conventional disks", conventional));
    }
    all.extend(write_sizes(&run, known)?);
    all.extend(times(&run, &settings, known)?);
    all.extend(assumed(&run)?);
    all.extend(rebuilds(&run));
    all.extend(drives(&run)?);
    all.extend(ranges(&run)?);
    all.extend(chunks(&run));
    if run.rebuild().is_none() {
        all.extend(levels(&run, question));
        all.extend(dedicated(&run, question));
    }
    if question.all {
        all.extend(layers(&run)?);
    }
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
        let run = run.clone().with(settings);
        let trial = Trial { packed_sectors, ..Trial::for_run(run.clone()) };
        let baseline = Trial { run: run.conventional()?, ..trial.clone() };
        let change = Change::new(ChangeKind::WriteSize, format!("writes of {}", Bytes(size)), Ok(trial));
        Ok(Change { baseline: Some(baseline), step: Some(OwnerStep::WriteBytes(size)), ..change })
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

/// Behaviour that the layer has where it is told to, but no known disk is known to have.
fn assumed(run: &PlannedRun) -> Result<Vec<Change>, Error> {
    let mut changes = Vec::new();
    for (key, value, name, step) in ASSUMED {
        if let Some(changed) = with_parameter(run, key, value)? {
            let change = Change::new(ChangeKind::Parameter, name, Ok(Trial::for_run(changed)));
            changes.push(Change { is_assumed: true, step, ..change });
        }
    }
    Ok(changes)
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

/// Rebuilds in another order, in larger pieces or by fewer at once.
fn rebuilds(run: &PlannedRun) -> Vec<Change> {
    let Some(spec) = run.rebuild() else { return Vec::new() };
    let large = RECORD_BYTES / SECTOR_BYTES;
    let in_order = RebuildOrder::Ascending { sectors: large / 2 };
    let mut changed = vec![(RebuildSpec { window: 1, ..spec }, "one piece at a time".to_string(), None)];
    if let RebuildOrder::Scattered { record_sectors, run_sectors, live, sorted } = spec.order {
        let order =
            RebuildOrder::Scattered { record_sectors: large, run_sectors: run_sectors.max(large), live, sorted };
        if record_sectors < large {
            let name = format!("records of {}", Bytes(RECORD_BYTES));
            changed.push((RebuildSpec { order, ..spec }, name, Some(OwnerStep::Records)));
        }
        let name = "in the order of sectors".into();
        changed.push((RebuildSpec { order: in_order, ..spec }, name, Some(OwnerStep::Order)));
    }
    let change = |(spec, name, step): (RebuildSpec, String, Option<OwnerStep>)| {
        let trial = Trial::for_run(run.clone().rebuilding(spec));
        Change { step, ..Change::new(ChangeKind::Rebuild, name, Ok(trial)) }
    };
    changed.into_iter().filter(|(other, ..)| *other != spec).map(change).collect()
}

/// The other drives that are sold as drive-managed, in the place of each; those that are known roughly are left out.
fn drives(run: &PlannedRun) -> Result<Vec<Change>, Error> {
    let own = run.system().drives();
    let is_sold = own.iter().all(|own| own.drive.drive_managed.is_some());
    let mut changes = Vec::new();
    for (name, _) in DRIVES.iter().filter(|(name, _)| is_sold && own.iter().any(|own| own.drive.name != *name)) {
        let drive = Drive::load(name)?;
        if drive.drive_managed.is_none() || drive.ranges().next().is_some() {
            continue;
        }
        let trial = with_each_drive(run, |own| drive.clone().with_capacity(own.geometry.sectors())).map(Trial::for_run);
        changes.push(Change::new(ChangeKind::Drive, format!("drive {name}, as large"), trial));
    }
    Ok(changes)
}

/// The drives at both ends of each value that has a range in their files, and conventional disks with the same value.
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
        let trial = with_each_drive(run, at_end);
        let baseline = trial.as_ref().ok().map(|run| run.conventional()).transpose()?.map(Trial::for_run);
        let change =
            Change::new(ChangeKind::Range, format!("drive at {key}={}", end.name()), trial.map(Trial::for_run));
        changes.push(Change { baseline, ..change });
    }
    Ok(changes)
}

/// The run with `change` made to each of its drives.
fn with_each_drive(run: &PlannedRun, change: impl Fn(&Drive) -> Result<Drive, Error>) -> Result<PlannedRun, Error> {
    let changed = |own: &DriveRun| Ok::<_, Error>(DriveRun { drive: change(&own.drive)?, ..own.clone() });
    run.on(run.system().with_drives(&changed)?).possible()
}

fn chunks(run: &PlannedRun) -> Vec<Change> {
    let Some(array) = run.system().array() else { return Vec::new() };
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
    let others = all.into_iter().filter(|level| *level != array.level && spares(level) >= spares(&array.level));
    let change = |level: Level| {
        let changed = run.on(ArrayRun { level, ..array.clone() });
        let made = level.check_disks(array.members.len()).and_then(|()| changed.possible());
        let placement = (was_dedicated && question.sources > 1).then_some(SourcePlacement::EndToEnd);
        let trial = made.map(|run| Trial { placement, ..Trial::for_run(run) });
        Change::new(ChangeKind::Level, format!("{level} of the same disks"), trial)
    };
    others.map(change).collect()
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
