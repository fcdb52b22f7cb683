//! Repair and durability of many drives: how fast a drive takes what is rebuilt, by a run of its layer, and what a fleet of such drives
//! loses (`losses.rs`). `words.rs` says it.

pub mod losses;
mod words;

use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use serde::{Deserialize, Serialize};
use smrkit::device::spec::ArraySpec;
use smrkit::drive::Drive;
use smrkit::engine::rebuild::{Begin, RebuildOrder, RebuildSpec, Task};
use smrkit::error::Error;
use smrkit::experiment::demand::{Demand, GeneratedDemand, Table};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool::{self, Monitor, RunWatch};
use smrkit::experiment::system::{DEFAULT_DRIVE, DefaultLayers, System, Systems};
use smrkit::layer;
use smrkit::schema::{Count, Size, Time, number, share};
use smrkit::settings::Settings;
use smrkit::stats::rebuild::Rebuild;
use smrkit::units::{Nanos, SECTOR_BYTES};
use smrkit::workload::Workload;
use smrkit_options::value::{count, value};

use crate::trial::Trial;
use crate::uses::parse_rate;
use crate::{Load, LoadKind};
use losses::{Failures, Fleet, Losses, Repair, Sums};

/// Layer by which hosts write the zones of a host-managed drive one after another.
const ZONE_APPENDS: &str = "zone-log";
/// Pieces that are rebuilt in a run at first and at most, while neither a chunk is covered nor a full cache was seen.
const FIRST_PIECES: u64 = 16_000;
const MOST_PIECES: u64 = 128_000;
/// Pieces of a repair under way at once (assumption; Ceph has three for a disk: `osd_recovery_max_active_hdd`).
const WINDOW: u32 = 4;
/// Bytes of a piece at most, and the unit of pieces.
const MOST_PIECE_BYTES: u64 = 64 << 20;
const PAGE_BYTES: u64 = 4096;
/// From this share of the first rate down, a cache is taken to have become full.
const SLOWER: f64 = 0.7;
/// The narrowest interval that may be asked for, which takes minutes of a processor already.
const MOST_PRECISE: f64 = 0.0005;
/// Blocks of cascades that are simulated by one worker: about a second.
const BLOCKS_AT_ONCE: u64 = 25;
/// Points of the curve of repair bandwidth.
const POINTS: usize = 24;

/// An erasure code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Code {
    data: u32,
    parity: u32,
}

impl FromStr for Code {
    type Err = Error;

    /// Reads `17+3`, or a number of copies.
    fn from_str(text: &str) -> Result<Code, Error> {
        let number = |number: &str| {
            let why =
                format!("`{number}` is no code: give data+parity, such as 17+3, or a number of copies, such as 3");
            count::<u32>(number).map_err(|_| why)
        };
        let code = || match text.split_once('+') {
            Some((data, parity)) => Ok(Code { data: number(data)?, parity: number(parity)? }),
            None => Ok(Code { data: 1, parity: number(text)?.saturating_sub(1) }),
        };
        let Code { data, parity } = code().map_err(Error::Usage)?;
        let why = match () {
            () if data == 0 => format!("{text} has no data: give at least 1+{parity}"),
            () if parity == 0 => {
                format!("{text} keeps nothing twice, so that a failed drive is lost: add parity, such as 8+3")
            }
            () if u64::from(data) + u64::from(parity) > 256 => {
                format!("{text} is wider than 256 chunks, the most that codes over bytes have")
            }
            () => return Ok(Code { data, parity }),
        };
        Err(Error::Usage(why))
    }
}

/// Options of a fleet: what it is made of, how it fails and how it is repaired.
#[derive(Args, Clone)]
pub struct FleetOptions {
    /// The drive's name, a model string, or a drive file; each of several, separated by commas, makes a fleet of its
    /// own. See smrkit drives.
    #[arg(long, value_delimiter = ',', default_value = DEFAULT_DRIVE, value_name = "NAME,…")]
    drive: Vec<String>,
    /// The layer [default: the one that the drive is sold with; for a host-managed drive zone-log, which appends to
    /// zones].
    #[arg(long, value_name = "NAME")]
    layer: Option<String>,
    /// Set a parameter of the layer.
    #[arg(long, value_name = "LAYER.KEY=VALUE")]
    set: Vec<String>,
    /// Number of drives in the fleet.
    #[arg(long, value_parser = value(Count(1, 1_000_000_000)), default_value = "1000", value_name = "N")]
    disks: u64,
    /// The erasure code, as data+parity, or a number of copies.
    #[arg(long, value_parser = Code::from_str, default_value = "8+3", value_name = "K+M|N")]
    code: Code,
    /// Number of placement groups that have a chunk on a drive; their other chunks are spread over all other drives. 1
    /// makes arrays of drives of their own.
    #[arg(long, value_parser = value(Count(1, 1_000_000)), default_value = "100", value_name = "N")]
    groups: u64,
    /// Share of each drive that is in use.
    #[arg(long, value_parser = value(share()), default_value = "80%", value_name = "SHARE")]
    fill: f64,
    /// Size of a coded object; its piece on a drive is read or written at once.
    #[arg(long, value_parser = value(Size(PAGE_BYTES, 1 << 50)), default_value = "4Mi", value_name = "SIZE")]
    object: u64,
    /// Requests a second from users to each drive while it is repaired.
    #[arg(long, value_parser = count::<u32>, default_value = "0", value_name = "N")]
    load: u32,
    /// Workload that describes these requests from users.
    #[arg(long, default_value = "mix:size=64Ki,write_share=0.3", value_name = "TEXT")]
    workload: String,
    /// Maximum rate at which a drive reads or writes for repairs, in bytes a second.
    #[arg(long, value_parser = parse_rate, value_name = "RATE")]
    throttle: Option<f64>,
    /// Time from a failure until its repair begins.
    #[arg(long, value_parser = value(Time(0)), default_value = "10min", value_name = "TIME")]
    delay: Nanos,
    /// Share of the drives that fail in a year.
    #[arg(long, value_parser = value(share()), default_value = "1.5%", value_name = "SHARE")]
    afr: f64,
    /// Shape of the Weibull distribution of ages at failure: 1 for a constant rate, more for wear.
    #[arg(long, value_parser = value(number(0.2, 20.0)), default_value = "1", value_name = "X")]
    shape: f64,
    /// Number of years to simulate, beginning with new drives.
    #[arg(long, value_parser = value(number(0.1, 100.0)), default_value = "10", value_name = "N")]
    years: f64,
    /// Share of failures in which only one head is lost: the drive keeps its other surfaces, and only the zones of the
    /// lost one are rebuilt.
    #[arg(long, value_parser = value(share()), default_value = "0", value_name = "SHARE")]
    head_loss: f64,
    /// Number of racks, over which each group is spread.
    #[arg(long, value_parser = value(Count(1, 1_000_000)), requires = "rack_loss", value_name = "N")]
    racks: Option<u64>,
    /// Chance in a year that a rack loses several drives at once, such as 0.1%.
    #[arg(long, value_parser = value(share()), requires = "racks", value_name = "SHARE")]
    rack_loss: Option<f64>,
    /// Share of its drives that a rack loses at once.
    #[arg(long, value_parser = value(share()), default_value = "100%", value_name = "SHARE")]
    rack_share: f64,
    /// Share of the drives that get an unreadable sector in a year.
    #[arg(long, value_parser = value(share()), default_value = "3%", value_name = "SHARE")]
    latent: f64,
    /// Time that a scrub takes to read all sectors and find the unreadable ones.
    #[arg(long, value_parser = value(Time(1)), default_value = "336h", value_name = "TIME")]
    scrub: Nanos,
    /// Rate at which a chunk is rebuilt, in bytes a second, instead of the rate that a run of the drive gives.
    #[arg(long, value_parser = parse_rate, value_name = "RATE", conflicts_with_all = ["load", "object", "throttle"])]
    repair_rate: Option<f64>,
    /// Draw repair times from exponential distributions, as Markov models do.
    #[arg(long)]
    exponential: bool,
    /// Precision to reach: half the width of the confidence interval, as a share of the estimate.
    #[arg(long, value_parser = value(share()), default_value = "2%", value_name = "SHARE")]
    precision: f64,
    /// The seed of everything random.
    #[arg(long, value_parser = count::<u64>, default_value = "1", value_name = "N")]
    seed: u64,
}

/// How fast a drive takes what is rebuilt, by a run of its layer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RepairSpeed {
    /// Seconds since the repair of a chunk began, and bytes by then.
    pub curve: Vec<(f64, f64)>,
    /// Bytes a second at first.
    pub first_bytes_per_s: f64,
    /// Bytes a second in the end.
    pub lasting_bytes_per_s: f64,
    /// Bytes after which its cache is full; null if that was not seen.
    pub full_after_bytes: Option<f64>,
    /// True if the rate was given, and no drive was run.
    pub is_given: bool,
    /// The share of that time in which the drive that gets the chunk is busy.
    pub writer_busy: f64,
    /// The share of that time in which each drive is busy that gives what the chunk is made of.
    pub reader_busy: f64,
}

impl RepairSpeed {
    fn given(bytes_per_s: f64) -> RepairSpeed {
        RepairSpeed {
            curve: vec![(0.0, 0.0), (1.0, bytes_per_s)],
            first_bytes_per_s: bytes_per_s,
            lasting_bytes_per_s: bytes_per_s,
            full_after_bytes: None,
            is_given: true,
            writer_busy: 1.0,
            reader_busy: 1.0,
        }
    }

    fn measured(rebuild: &Rebuild) -> RepairSpeed {
        let window_s = rebuild.series.window_ns as f64 / 1e9;
        let all_s = rebuild.work_ns as f64 / 1e9;
        let mut curve = vec![(0.0, 0.0)];
        for (nth, &bytes) in rebuild.series.bytes.iter().enumerate() {
            let before = curve[nth].1;
            // The last window is not over when the work is.
            curve.push((((nth + 1) as f64 * window_s).min(all_s), before + bytes as f64));
        }
        let bytes = curve[curve.len() - 1].1;
        let mut speed = RepairSpeed { curve, is_given: false, ..RepairSpeed::given(0.0) };
        speed.first_bytes_per_s = bytes * 0.05 / speed.seconds_for(bytes * 0.05).max(1e-9);
        speed.lasting_bytes_per_s = (bytes - speed.bytes_at(all_s * 0.75)) / (all_s * 0.25).max(1e-9);
        if speed.lasting_bytes_per_s < SLOWER * speed.first_bytes_per_s {
            // Where two straight lines meet that have these slopes and the ends of the curve.
            let (first, lasting) = (speed.first_bytes_per_s, speed.lasting_bytes_per_s);
            let full_s = (bytes - lasting * all_s).max(0.0) / (first - lasting);
            speed.full_after_bytes = Some(full_s * first);
        }
        let busy = |is_new| {
            let member = rebuild.members.iter().find(|member| member.new == is_new);
            member.map_or(1.0, |member| member.busy_ns.total as f64 / rebuild.work_ns.max(1) as f64).min(1.0)
        };
        (speed.writer_busy, speed.reader_busy) = (busy(true), busy(false));
        speed
    }

    /// Seconds in which a drive takes so many bytes.
    pub fn seconds_for(&self, bytes: f64) -> f64 {
        let at = self.curve.partition_point(|&(_, by_then)| by_then < bytes);
        let Some(&(from_s, from)) = at.checked_sub(1).map(|before| &self.curve[before]) else { return 0.0 };
        match self.curve.get(at) {
            Some(&(to_s, to)) => from_s + (bytes - from) / (to - from) * (to_s - from_s),
            None => from_s + (bytes - from) / self.lasting_bytes_per_s.max(1e-9),
        }
    }

    /// Bytes that a drive has taken after so many seconds.
    fn bytes_at(&self, seconds: f64) -> f64 {
        let at = self.curve.partition_point(|&(until_s, _)| until_s < seconds);
        let Some(&(from_s, from)) = at.checked_sub(1).map(|before| &self.curve[before]) else { return 0.0 };
        match self.curve.get(at) {
            Some(&(to_s, to)) => from + (seconds - from_s) / (to_s - from_s) * (to - from),
            None => from + (seconds - from_s) * self.lasting_bytes_per_s,
        }
    }
}

/// A kind of drive, and what a run of it told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DriveKind {
    /// The drive.
    pub drive: String,
    /// Its layer.
    pub layer: String,
    /// True of the drive without shingling, beside the drive as it is.
    pub is_twin: bool,
    /// Bytes of a drive.
    pub drive_bytes: u64,
    /// Surfaces of a drive.
    pub surfaces: u32,
    /// Bytes of an object's piece.
    pub piece_bytes: u64,
    /// How fast it takes what is rebuilt.
    pub speed: RepairSpeed,
}

/// A fleet of one kind of drives, and what it loses.
#[derive(Clone, Debug, Serialize)]
pub struct FleetOfDrives {
    /// The drives.
    #[serde(flatten)]
    pub kind: DriveKind,
    /// Bytes of a chunk, which is a group's part of a drive.
    pub chunk_bytes: f64,
    /// What one drive does for repairs, for calculators that ask for it.
    pub ceilings: Ceilings,
    /// What the model of losses was given.
    pub fleet: Fleet,
    /// Bytes a second that a drive reads or writes for repairs at most; null if nothing holds them back.
    pub throttle: Option<f64>,
    /// True if drives fail faster than they are repaired.
    pub falls_behind: bool,
    /// What it loses.
    pub losses: Losses,
    /// Hours from the failure of a drive, and bytes a second that the fleet rebuilds then.
    pub bandwidth: Vec<(f64, f64)>,
    /// The loss of a head.
    pub head: HeadLoss,
}

/// What one drive does for repairs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ceilings {
    /// Bytes a second of a chunk that it takes, on average over the chunk.
    pub recovery_bytes_per_s: f64,
    /// Objects a second of which it takes a piece.
    pub recovery_objects_per_s: f64,
    /// Bytes a second that it rebuilds where all drives of the fleet repair, each reading for others as well.
    pub fleet_bytes_per_s_per_drive: f64,
}

/// The loss of a head beside that of its drive.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct HeadLoss {
    /// Hours in which what was on its surface is rebuilt, once that begins.
    pub repair_h: f64,
    /// How many times as long a whole drive takes.
    pub times_faster: f64,
    /// The part of that factor which is bytes: the surfaces.
    pub by_bytes: f64,
    /// The part of it which is the rate: less is written to each drive, so that it is still in the cache.
    pub by_rate: f64,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct FleetAnswer {
    /// Version of this JSON.
    pub schema: u32,
    /// Sentences, some for each drive.
    pub text: String,
    /// Fleets: of each drive as asked for, and of its conventional twin.
    pub fleets: Vec<FleetOfDrives>,
}

impl FleetAnswer {
    /// The answer on a terminal of this many columns: the sentences, and a table of all fleets.
    pub fn screen(&self, width: usize) -> String {
        words::screen(self, width)
    }
}

/// Work of an answer that needs nothing but the options: it may be computed on another machine.
#[derive(Serialize, Deserialize)]
pub enum Work {
    /// A run of a drive.
    Run(Job),
    /// Blocks of cascades in the fleet of this number.
    Cascades {
        /// Its number.
        nth: usize,
        /// The fleet.
        fleet: Fleet,
        /// Numbers of the blocks.
        blocks: Range<u64>,
    },
}

/// What work has found.
#[derive(Serialize, Deserialize)]
pub enum Found {
    /// The drive that was run.
    Kind(DriveKind),
    /// The sums of each block.
    Sums(Vec<Sums>),
}

/// Computes pieces of work, in any order, and gives what each has found; `None` after an interrupt.
pub type Compute<'a> = dyn FnMut(&[Work], &str) -> Result<Option<Vec<Found>>, Error> + 'a;

/// A run of a drive.
#[derive(Serialize, Deserialize)]
pub struct Job {
    drive: String,
    layer: Option<String>,
    is_twin: bool,
}

impl FleetOptions {
    /// The answer, and notes on drives that stand for others; `None` after an interrupt.
    pub fn answer(&self, monitor: &dyn Monitor) -> Result<Option<(FleetAnswer, Vec<String>)>, Error> {
        self.answer_by(&mut |work, what| {
            let found = pool::make_all(work, monitor, what, |_, work, mut watch| self.compute(work, &mut watch));
            let found: Result<Vec<Option<Option<Found>>>, Error> = found.into_iter().collect();
            Ok(found?.into_iter().map(Option::flatten).collect())
        })
    }

    /// The answer, from work that may be computed elsewhere: the same to the last bit.
    pub fn answer_by(&self, compute: &mut Compute) -> Result<Option<(FleetAnswer, Vec<String>)>, Error> {
        self.check()?;
        let (mut runs, mut notes) = (Vec::new(), Vec::new());
        for name in self.drive.iter().map(|name| name.trim()) {
            let drive = Drive::load(name)?;
            let is_host_managed = |sold: &str| layer::HOST_MANAGED.iter().any(|spec| spec.name == sold);
            let sold = drive.translation.as_ref().map(|sold| sold.layer.as_str());
            let layer = self.layer.clone().or_else(|| sold.is_some_and(is_host_managed).then(|| ZONE_APPENDS.into()));
            let job = |is_twin| Job { drive: name.into(), layer: layer.clone(), is_twin };
            notes.extend(self.systems(&job(false), 1.0)?.stand_ins());
            runs.push(Work::Run(job(false)));
            // A rate that was given is the same on every drive.
            runs.extend(self.repair_rate.is_none().then(|| Work::Run(job(true))));
        }
        let Some(found) = compute(&runs, "a drive's share of a repair, run")? else { return Ok(None) };
        let mut kinds: Vec<DriveKind> = Vec::new();
        for found in found {
            let Found::Kind(kind) = found else { continue };
            // A conventional drive is its own twin.
            let is_known = kinds.iter().any(|other| other.drive == kind.drive && other.layer == kind.layer);
            if !kind.is_twin || !is_known {
                kinds.push(kind);
            }
        }
        let models: Vec<Fleet> = kinds.iter().map(|kind| self.model(kind)).collect();
        let Some(sums) = self.simulate(&models, compute)? else { return Ok(None) };
        let made = kinds.into_iter().zip(models.iter().zip(&sums));
        let fleets: Vec<FleetOfDrives> =
            made.map(|(kind, (fleet, sums))| self.fleet(kind, *fleet, fleet.losses(sums))).collect();
        let text = words::text(&fleets);
        Ok(Some((FleetAnswer { schema: 1, text, fleets }, notes)))
    }

    /// Does one piece of work; `None` after an interrupt.
    pub fn compute(&self, work: &Work, watch: &mut RunWatch) -> Result<Option<Found>, Error> {
        match work {
            Work::Run(job) => Ok(self.kind(job, watch)?.map(Found::Kind)),
            Work::Cascades { fleet, blocks, .. } => {
                let mut sums = Vec::new();
                for block in blocks.clone() {
                    if !watch.is_at((block - blocks.start) as f64 / (blocks.end - blocks.start) as f64) {
                        return Ok(None);
                    }
                    sums.push(fleet.simulate(self.seed, block));
                }
                Ok(Some(Found::Sums(sums)))
            }
        }
    }

    /// Simulates cascades in fleets, until the losses of each are known precisely enough.
    fn simulate(&self, fleets: &[Fleet], compute: &mut Compute) -> Result<Option<Vec<Sums>>, Error> {
        let mut sums = vec![Sums::default(); fleets.len()];
        loop {
            let mut work = Vec::new();
            for (nth, fleet) in fleets.iter().enumerate() {
                let blocks = sums[nth].next_blocks(self.precision);
                work.extend(blocks.clone().step_by(BLOCKS_AT_ONCE as usize).map(|first| {
                    let blocks = first..blocks.end.min(first + BLOCKS_AT_ONCE);
                    Work::Cascades { nth, fleet: *fleet, blocks }
                }));
            }
            if work.is_empty() {
                return Ok(Some(sums));
            }
            let Some(found) = compute(&work, "cascades of failures, simulated")? else { return Ok(None) };
            for (work, found) in work.iter().zip(found) {
                if let (Work::Cascades { nth, .. }, Found::Sums(blocks)) = (work, found) {
                    blocks.into_iter().for_each(|block| sums[*nth].add(block));
                }
            }
        }
    }

    fn check(&self) -> Result<(), Error> {
        // Also of a fleet that nobody uses, where nothing else reads it.
        endless(&self.workload)?;
        let (Code { data, parity }, disks) = (self.code, self.disks);
        let width = u64::from(data + parity);
        let positive = [("fill", self.fill), ("afr", self.afr), ("rack-share", self.rack_share)];
        let zero = positive.into_iter().find(|&(_, value)| value <= 0.0);
        let is_nothing = |rate: Option<f64>| rate.is_some_and(|rate| rate < 1.0);
        let why = if disks < width {
            let needs = format!("--code {data}+{parity} needs {width} drives for a group, and --disks are {disks}");
            format!("{needs}: add drives, or make the code narrower")
        } else if self.groups == 1 && !disks.is_multiple_of(width) {
            format!("--groups 1 makes arrays of {width} drives, and --disks {disks} is no multiple of that")
        } else if let Some(racks) = self.racks.filter(|&racks| racks > disks) {
            format!("--racks {racks} are more than --disks {disks}: give at most one for each drive")
        } else if let Some((name, _)) = zero {
            format!("--{name} is 0, so that nothing is ever repaired: give more")
        } else if self.precision < MOST_PRECISE {
            format!("--precision {} would take for ever: give 0.05% or more", self.precision)
        } else if is_nothing(self.throttle) {
            "--throttle 0 repairs nothing: leave it out for none".into()
        } else if is_nothing(self.repair_rate) {
            "--repair-rate 0 repairs nothing: give more".into()
        } else {
            return Ok(());
        };
        Err(Error::Usage(why))
    }

    /// Bytes of an object's piece on each drive.
    fn piece_bytes(&self) -> u64 {
        let piece = self.object.div_ceil(u64::from(self.code.data)).next_multiple_of(PAGE_BYTES);
        piece.min(MOST_PIECE_BYTES)
    }

    /// The system that a job runs: a drive that gets a chunk, and one of those that give what it is made of. A pair of mirrors is just that,
    /// whatever the code: all that give are read at once, and each reads as much as is written.
    fn systems(&self, job: &Job, live: f64) -> Result<Systems, Error> {
        let piece_sectors = self.piece_bytes() / SECTOR_BYTES;
        let order = RebuildOrder::Scattered { record_sectors: piece_sectors, run_sectors: piece_sectors, live };
        // Zones are reset before they are written again. Other drives don't know which of their sectors are free, and keep old data with care.
        let used = job.layer.as_deref() != Some(ZONE_APPENDS);
        let spec = RebuildSpec {
            task: Task::Rebuild { disk: 0, before: false, used },
            order,
            window: WINDOW,
            rate: self.throttle.map(|rate| rate as u64),
            begin: Begin::After(0),
        };
        let system = System {
            array: Some(ArraySpec::parse("raid1:disks=2")?),
            drives: vec![job.drive.clone()],
            layers: job.layer.iter().cloned().collect(),
            default_layers: DefaultLayers::AsSold,
            set: self.set.clone(),
            rebuild: Some(spec),
            ..System::default()
        };
        Systems::new(&system)
    }

    /// Runs a drive's share of a repair; `None` after an interrupt.
    fn kind(&self, job: &Job, watch: &mut RunWatch) -> Result<Option<DriveKind>, Error> {
        let demand: Arc<dyn Demand> = match self.load {
            0 => Arc::new(Table(Arc::new([]))),
            _ => Arc::new(GeneratedDemand::from(endless(&self.workload)?)),
        };
        // By times of their own a backlog would grow for ever on a drive that can't keep up: each user waits for an answer instead.
        let think = if self.load == 0 { Nanos::ZERO } else { Nanos(1_000_000_000) };
        let settings = Settings { depth: self.load.max(1), think, seed: self.seed, ..Settings::default() };
        let run = |live: f64| -> Result<PlannedRun, Error> {
            let runs = self.systems(job, live)?.runs(&[settings], None)?;
            let [run] = <[PlannedRun; 1]>::try_from(runs).map_err(|runs| {
                let several = format!("the values of {{set}} make {} fleets of each drive", runs.len());
                Error::Usage(format!("{several}: give one value each"))
            })?;
            if job.is_twin { run.conventional() } else { Ok(run) }
        };
        let load = Load { kind: LoadKind::Light, demand, settings, is_even: false };
        let whole = run(1.0)?;
        let drive = whole.system().drives()[0].clone();
        let drive_bytes = whole.host_sectors()? * SECTOR_BYTES;
        let surfaces = drive.drive.geometry.zones.iter().map(|zone| zone.surfaces().end).max().unwrap_or(1);
        let (piece_bytes, chunk_bytes) = (self.piece_bytes(), self.chunk_bytes(drive_bytes));
        // Without a given rate, a share of the disk is rebuilt that doubles until the run shows how fast a whole chunk is.
        let mut pieces = FIRST_PIECES;
        let speed = loop {
            if let Some(rate) = self.repair_rate {
                break RepairSpeed::given(rate);
            }
            // A little more than the chunk, so that the run reaches its end, but at least 64 pieces.
            let bytes = ((pieces * piece_bytes) as f64).min(chunk_bytes * 1.1).max(piece_bytes as f64 * 64.0);
            let part = run((bytes / drive_bytes as f64).min(1.0))?;
            let sectors = part.host_sectors()?;
            let trial = Trial::new(part, &load, sectors);
            let served = trial.serve(watch)?;
            let Some(rebuild) = served.outcome.rebuild.filter(|_| !served.outcome.interrupted) else { return Ok(None) };
            let speed = RepairSpeed::measured(&rebuild);
            // The rate with a full cache is known if it fills well before the end of the run.
            let knows_end = bytes >= chunk_bytes || speed.full_after_bytes.is_some_and(|full| full < bytes * 0.8);
            // Only a layer with a cache gets slower.
            if knows_end || pieces >= MOST_PIECES || trial.run.is_conventional() {
                break speed;
            }
            pieces *= 2;
        };
        Ok(Some(DriveKind {
            drive: job.drive.clone(),
            layer: drive.layer.name.into(),
            is_twin: job.is_twin,
            drive_bytes,
            surfaces,
            piece_bytes,
            speed,
        }))
    }

    fn chunk_bytes(&self, drive_bytes: u64) -> f64 {
        drive_bytes as f64 * self.fill / self.groups as f64
    }

    /// What the model of losses is given of these drives.
    fn model(&self, kind: &DriveKind) -> Fleet {
        let DriveKind { speed, surfaces, .. } = kind;
        let (data, disks) = (f64::from(self.code.data), self.disks as f64);
        let chunk_bytes = self.chunk_bytes(kind.drive_bytes);
        let head_part = 1.0 / f64::from(*surfaces);
        let (chunk_s, head_s) = (speed.seconds_for(chunk_bytes), speed.seconds_for(chunk_bytes * head_part));
        // Each group that is rebuilt takes this much of the time of a writer and of as many readers as the code has data.
        let by_time = disks / (speed.writer_busy + data * speed.reader_busy);
        let by_throttle = self.throttle.map(|rate| disks * rate * chunk_s / ((1.0 + data) * chunk_bytes));
        let slots = by_throttle.map_or(by_time, |slots| slots.min(by_time)).max(1.0);
        Fleet {
            disks: self.disks,
            data: self.code.data,
            parity: self.code.parity,
            groups_per_disk: self.groups,
            failures: Failures {
                per_year: self.afr,
                shape: self.shape,
                years: self.years,
                head_share: self.head_loss,
                racks: self.racks.unwrap_or(0),
                rack_losses_per_year: self.rack_loss.unwrap_or(0.0),
                rack_share: self.rack_share,
                latent_per_year: self.latent,
                scrub_h: self.scrub.as_secs() / 3600.0,
            },
            repair: Repair {
                delay_h: self.delay.as_secs() / 3600.0,
                chunk_h: chunk_s / 3600.0,
                head_chunk_h: head_s / 3600.0,
                head_part,
                slots,
                exponential: self.exponential,
            },
        }
    }

    /// The fleet of these drives, whose losses are known.
    fn fleet(&self, kind: DriveKind, fleet: Fleet, losses: Losses) -> FleetOfDrives {
        let Repair { chunk_h, head_chunk_h, slots, .. } = fleet.repair;
        let chunk_bytes = self.chunk_bytes(kind.drive_bytes);
        let chunk_s = chunk_h * 3600.0;
        let waves = (fleet.groups_per_disk as f64 / slots).ceil();
        let (disk_h, head_disk_h) = (waves * chunk_h, waves * head_chunk_h);
        let (by_bytes, times_faster) = (f64::from(kind.surfaces), disk_h / head_disk_h.max(1e-12));
        FleetOfDrives {
            ceilings: Ceilings {
                recovery_bytes_per_s: chunk_bytes / chunk_s,
                recovery_objects_per_s: chunk_bytes / chunk_s / kind.piece_bytes as f64,
                fleet_bytes_per_s_per_drive: slots / self.disks as f64 * chunk_bytes / chunk_s,
            },
            throttle: self.throttle,
            falls_behind: fleet.busy_share() >= 1.0,
            losses,
            bandwidth: bandwidth(&kind.speed, &fleet, chunk_bytes),
            head: HeadLoss { repair_h: head_disk_h, times_faster, by_bytes, by_rate: times_faster / by_bytes },
            kind,
            chunk_bytes,
            fleet,
        }
    }
}

/// A workload that goes on for longer than any repair.
fn endless(text: &str) -> Result<Workload, Error> {
    Workload::parse(text)?;
    let separator = if text.contains(':') { ',' } else { ':' };
    Workload::parse(&format!("{text}{separator}count=1G"))
}

/// Hours from the failure of a drive, and bytes a second that the fleet rebuilds then on average until the next of them: groups are
/// rebuilt in waves, each as fast as the drives take it.
fn bandwidth(speed: &RepairSpeed, fleet: &Fleet, chunk_bytes: f64) -> Vec<(f64, f64)> {
    let Repair { delay_h, chunk_h, slots, .. } = fleet.repair;
    let groups = fleet.groups_per_disk as f64;
    let waves = (groups / slots).ceil();
    let step_h = waves * chunk_h / POINTS as f64;
    let rebuilt = |until_h: f64| {
        let over = (until_h / chunk_h).floor().min(waves);
        let in_wave = (groups - over * slots).clamp(0.0, slots);
        let taken = speed.bytes_at((until_h - over * chunk_h) * 3600.0).min(chunk_bytes);
        ((over * slots).min(groups)) * chunk_bytes + in_wave * taken
    };
    let at = |nth: usize| {
        let (from_h, to_h) = (nth as f64 * step_h, (nth + 1) as f64 * step_h);
        (delay_h + from_h, (rebuilt(to_h) - rebuilt(from_h)).max(0.0) / (step_h * 3600.0))
    };
    (0..POINTS).map(at).collect()
}

#[cfg(test)]
mod tests {
    use smrkit::experiment::pool::Unwatched;
    use smrkit_options::pairs;

    use super::*;

    fn asked(words: &[(&str, &str)]) -> FleetAnswer {
        let words: Vec<pairs::Pair> = words.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let options: FleetOptions = pairs::read(&words, &|name| name.to_string()).unwrap();
        options.answer(&Unwatched).unwrap().unwrap().0
    }

    #[test]
    fn the_loss_of_a_head_is_repaired_faster_by_its_bytes_and_by_the_cache_that_holds_them() {
        let answer = asked(&[("drive", "st8000dm004"), ("code", "17+3"), ("object", "64Mi")]);
        let of = |is_twin| answer.fleets.iter().find(|fleet| fleet.kind.is_twin == is_twin);
        let (own, twin) = (of(false).unwrap(), of(true).unwrap());
        let surfaces = f64::from(own.kind.surfaces);
        assert!((twin.head.times_faster / surfaces - 1.0).abs() < 0.02, "a conventional drive: {:?}", twin.head);
        // The chunk fills the cache, and its part of one surface does not.
        let RepairSpeed { first_bytes_per_s: first, lasting_bytes_per_s: lasting, full_after_bytes, .. } =
            own.kind.speed;
        let (full, chunk) = (full_after_bytes.unwrap(), own.chunk_bytes);
        let times = (full / first + (chunk - full) / lasting) / (chunk / surfaces / first);
        assert!(times > 2.0 * surfaces && (own.head.times_faster / times - 1.0).abs() < 0.1, "{times}: {:?}", own.head);
    }

    #[test]
    fn the_repair_bandwidth_of_a_drive_sums_to_what_was_on_it() {
        for (disks, slots) in [("1000", "many"), ("20", "one")] {
            let answer = asked(&[("disks", disks), ("code", "17+3"), ("repair-rate", "50M")]);
            let fleet = &answer.fleets[0];
            let step_h = fleet.bandwidth[1].0 - fleet.bandwidth[0].0;
            let bytes = fleet.bandwidth.iter().map(|(_, rate)| rate * step_h * 3600.0).sum::<f64>();
            let on_drive = fleet.chunk_bytes * fleet.fleet.groups_per_disk as f64;
            assert!((bytes / on_drive - 1.0).abs() < 0.01, "{slots} at once: {bytes} of {on_drive}");
        }
    }
}
