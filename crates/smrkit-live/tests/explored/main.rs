//! Crashes of a served drive: kills and crashes of the host at its writes to the image, and injected power cuts, in memory.
//!
//! A model of what was acknowledged and flushed judges what is found. `SMRKIT_LIVE_CUTS` sets the crashes for each layer and test.

#[path = "../../../smrkit/tests/common/count.rs"]
mod count;
mod forged;
mod model;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrkit::device::spec::ArraySpec;
use smrkit::experiment::system::{System, Systems};
use smrkit::settings::{Queue, Settings};
use smrkit::units::Nanos;
use smrkit_live::block::control::InjectedFault;
use smrkit_live::block::drive::{Command, CommandKind, CommandState, ServedDrive};
use smrkit_live::block::image::{self, DriveImage, Storage};
use tempfile::TempDir;

use count::count_from;
use model::{Model, Promise, fill};

const SECTOR: usize = 512;
const REQUESTS: usize = 240;

/// Every layer, with parameters that make it clean soon, and what it keeps when its power is cut.
const LAYERS: [(&str, &[&str], Promise); 13] = [
    ("in-place", &[], Promise::Flushed),
    ("drive-managed", &["cache_tracks=24", "band_tracks=4", "alpha=6"], Promise::Acknowledged),
    ("vguard", &["cache_tracks=12", "band_tracks=4", "alpha=6"], Promise::Acknowledged),
    ("log", &["segment_tracks=3", "policy=fifo", "spare_percent=10"], Promise::Acknowledged),
    (
        "zone-log",
        &["zone_bytes=160Ki", "conventional_percent=0", "open_zones=2", "clean_below_zones=1", "spare_percent=5"],
        Promise::Acknowledged,
    ),
    ("s-block", &["sblock_sectors=40", "cache_percent=20", "spare_percent=8"], Promise::Acknowledged),
    ("set-assoc", &["region_sectors=400", "cache_percent=10"], Promise::Flushed),
    ("rmw", &["region_sectors=400"], Promise::Flushed),
    ("track-map", &[], Promise::Flushed),
    ("dm-zoned", &["zone_bytes=80Ki", "conventional_percent=40"], Promise::Flushed),
    (
        "raid5:disks=3,chunk=4KiB,layer=drive-managed",
        &["cache_tracks=24", "band_tracks=4", "alpha=6"],
        Promise::Acknowledged,
    ),
    ("raid1:disks=2,layer=log", &["segment_tracks=3", "policy=fifo", "spare_percent=10"], Promise::Acknowledged),
    ("raid6:disks=4,chunk=4KiB,layer=dm-zoned", &["zone_bytes=80Ki", "conventional_percent=40"], Promise::Flushed),
];

/// Drives of 2 MB: neighbours that are destroyed by sectors, by tracks, and none.
const LAWS: [&str; 3] = [
    "blocks = { value = 6, source = \"test\" }",
    "tracks = { value = 2, source = \"test\" }",
    "blocks = { value = 1, source = \"test\" }",
];

fn cuts() -> u64 {
    count_from("SMRKIT_LIVE_CUTS", 100)
}

/// Makes a drive under a layer in `folder`.
fn make(folder: &Path, layer: &str, set: &[&str], seed: u64) -> DriveImage {
    let law = LAWS[seed as usize % if layer == "track-map" { 1 } else { LAWS.len() }];
    let text = include_str!("../../../smrkit/drives/tiny-constant.toml")
        .replace("tracks = 400, track_sectors = 50", "tracks = 100, track_sectors = 40")
        .replace("blocks = { value = 6, source = \"the example of Cassuto 2010, figure 2\" }", law);
    let (file, path) = (folder.join("drive.toml"), folder.join("drive.img"));
    std::fs::write(&file, text).unwrap();
    let drive = System::drive(file.to_str().unwrap());
    let mut system = match ArraySpec::parse(layer) {
        Ok(array) => System { array: Some(array), ..drive },
        Err(_) => drive.layer(layer),
    };
    let layer = layer.rsplit('=').next().unwrap();
    system.set = set.iter().map(|set| format!("{layer}.{set}")).collect();
    let planned = Systems::new(&system).unwrap().runs(&[Settings::default()], None).unwrap().pop().unwrap();
    image::create(&path, image::complete_record(&planned), true).unwrap()
}

/// A change of the image, or the order to make all before it durable.
#[derive(Clone)]
enum Op {
    Write(u64, Vec<u8>),
    Sync,
}

impl Op {
    /// Makes the change as far as `is_made` says of its sectors.
    fn apply(&self, bytes: &mut [u8], mut is_made: impl FnMut(usize) -> bool) {
        let Op::Write(at, data) = self else { return };
        for (number, sector) in data.chunks(SECTOR).enumerate().filter(|(number, _)| is_made(*number)) {
            let at = *at as usize + number * SECTOR;
            bytes[at..at + sector.len()].copy_from_slice(sector);
        }
    }
}

/// An image in memory that remembers its changes.
struct Memory {
    bytes: Mutex<Vec<u8>>,
    ops: Mutex<Vec<Op>>,
}

impl Memory {
    fn new(bytes: Vec<u8>) -> Arc<Memory> {
        Arc::new(Memory { bytes: Mutex::new(bytes), ops: Mutex::new(Vec::new()) })
    }
}

impl Storage for Memory {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        bytes.copy_from_slice(&self.bytes.lock().unwrap()[offset as usize..][..bytes.len()]);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.bytes.lock().unwrap()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        self.ops.lock().unwrap().push(Op::Write(offset, bytes.into()));
        Ok(())
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        self.write(range.start, &vec![0; (range.end - range.start) as usize])
    }

    fn sync(&self) -> io::Result<()> {
        self.ops.lock().unwrap().push(Op::Sync);
        Ok(())
    }

    fn data_from(&self, offset: u64, end: u64) -> io::Result<Option<Range<u64>>> {
        Ok((offset < end).then_some(offset..end))
    }
}

/// A drive under test, and what was asked of it.
struct Run {
    drive: ServedDrive,
    memory: Arc<Memory>,
    model: Model,
    random: Pcg64Mcg,
    /// The part of the drive that is written.
    span: u64,
    request: usize,
    what: String,
}

impl Run {
    fn new(image: &DriveImage, what: &str, seed: u64, cache_sectors: usize) -> Run {
        let memory = Memory::new(vec![0; image.sectors() as usize * SECTOR]);
        let (drive, _) = ServedDrive::open(image.over(memory.clone()), None, Queue::Sptf, cache_sectors).unwrap();
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let span = [image.sectors(), 500, 120][random.random_range(0..3)];
        let what = format!("{what}, seed {seed}, cache {cache_sectors}");
        Run { drive, memory, model: Model::default(), random, span, request: 0, what }
    }

    /// Serves a random request, and takes it into the model; false if it failed.
    fn ask(&mut self) -> bool {
        self.request += 1;
        let cuts = self.drive.power_cuts;
        if self.random.random_range(0..3) == 0 {
            self.drive.step_before(self.drive.now() + Nanos(3_000_000_000));
        }
        if self.drive.power_cuts > cuts {
            // It met the drive's own work.
            return false;
        }
        let most = [8, 24, 120][self.random.random_range(0..3)];
        let sectors = self.random.random_range(1..=most).min(self.span);
        let lba = self.random.random_range(0..=self.span - sectors);
        let (offset, bytes, number) = (lba * 512, sectors * 512, self.request as u64);
        let kind = match self.random.random_range(0..12) {
            0 => CommandKind::Flush,
            1 => CommandKind::Trim,
            2 => CommandKind::WriteZeroes,
            3 => CommandKind::Read,
            _ => CommandKind::Write,
        };
        let command = match kind {
            CommandKind::Flush => Command::new(kind, 0, 0, Vec::new()),
            CommandKind::Write => {
                let mut data = vec![0; bytes as usize];
                (lba..).zip(data.chunks_mut(SECTOR)).for_each(|(lba, sector)| fill(lba, number, sector));
                self.model.write(self.request, lba, sectors, number);
                Command { fua: self.random.random_range(0..16) == 0, ..Command::new(kind, offset, bytes, data) }
            }
            CommandKind::Trim | CommandKind::WriteZeroes => {
                self.model.write(self.request, lba, sectors, 0);
                Command::new(kind, offset, bytes, Vec::new())
            }
            _ => Command::new(kind, offset, bytes, Vec::new()),
        };
        let fua = command.fua;
        let ended = self.drive.serve(command).unwrap();
        let is_served = matches!(ended.state, CommandState::Ended(_, Ok(())));
        if is_served && (kind == CommandKind::Flush || fua) {
            self.model.flush(self.request);
        }
        if is_served && kind == CommandKind::Read {
            let judged = self.model.judge(lba, &ended.data, self.request, Promise::Acknowledged);
            judged.unwrap_or_else(|error| panic!("{}: {error}", self.what));
        }
        is_served
    }

    /// Every sector of an image that a crash left holds what it may.
    fn judge(&self, bytes: &[u8], request: usize, promise: Promise, how: &str) {
        let judged = self.model.judge(0, &bytes[..self.span as usize * SECTOR], request, promise);
        judged.unwrap_or_else(|error| panic!("{}, {how}: {error}", self.what));
    }
}

/// Runs on every layer, with and without a write cache, until `crash` has crashed often enough.
fn explore(mut crash: impl FnMut(&DriveImage, &str, Promise, u64, usize) -> u64) {
    for (layer, set, promise) in LAYERS {
        let (mut tried, folder) = (0, TempDir::new().unwrap());
        for seed in 0.. {
            let image = make(folder.path(), layer, set, seed);
            tried += crash(&image, layer, promise, seed, [0, 60][seed as usize % 2]);
            if tried >= cuts() && seed > 0 {
                break;
            }
        }
        println!("{layer}: {tried} crashes");
    }
}

#[test]
fn a_kill_at_any_write_loses_nothing_that_was_acknowledged() {
    explore(|image, layer, _, seed, cache| {
        let mut run = Run::new(image, layer, seed, cache);
        let promise = if cache == 0 { Promise::Acknowledged } else { Promise::Flushed };
        let mut tried = 0;
        for _ in 0..REQUESTS {
            let before = run.memory.bytes.lock().unwrap().clone();
            run.ask();
            let ops = std::mem::take(&mut *run.memory.ops.lock().unwrap());
            if run.random.random_range(0..4) > 0 {
                continue;
            }
            // Killed amid one of the writes, whose first sectors are there.
            let (mut left, last) = (before, run.random.random_range(0..=ops.len()));
            ops[..last].iter().for_each(|op| op.apply(&mut left, |_| true));
            let torn = run.random.random_range(0..200);
            ops.get(last).into_iter().for_each(|op| op.apply(&mut left, |sector| sector < torn));
            run.judge(&left, run.request, promise, "killed");
            tried += 1;
        }
        tried
    });
}

#[test]
fn a_crash_of_the_host_loses_nothing_that_was_flushed() {
    explore(|image, layer, _, seed, cache| {
        let mut run = Run::new(image, layer, seed, cache);
        let (mut durable, mut pending, mut tried) = (run.memory.bytes.lock().unwrap().clone(), Vec::new(), 0);
        for _ in 0..REQUESTS {
            run.ask();
            for op in std::mem::take(&mut *run.memory.ops.lock().unwrap()) {
                match op {
                    Op::Sync => pending.drain(..).for_each(|op: Op| op.apply(&mut durable, |_| true)),
                    op => pending.push(op),
                }
            }
            // Any sectors of what was not synced got to the disk.
            let mut left = durable.clone();
            let share = run.random.random_range(0..=4);
            pending.iter().for_each(|op| op.apply(&mut left, |_| run.random.random_range(0..4) < share));
            run.judge(&left, run.request + 1, Promise::Flushed, "host crashed");
            tried += 1;
        }
        tried
    });
}

#[test]
fn a_power_cut_loses_what_the_layer_does_not_promise_and_no_more() {
    let mut losses = 0;
    explore(|image, layer, promise, seed, cache| {
        let mut run = Run::new(image, layer, seed, cache);
        let mut tried = 0;
        for number in 0..8 {
            for _ in 0..run.random.random_range(5..40) {
                run.ask();
            }
            run.drive.inject(InjectedFault::PowerCut(seed * 100 + number), run.drive.now()).unwrap();
            let cuts = run.drive.power_cuts;
            let mut request = run.request;
            while run.drive.power_cuts == cuts {
                run.ask();
                request = run.request;
            }
            let bytes = run.memory.bytes.lock().unwrap().clone();
            let kept = if cache == 0 { promise } else { Promise::Flushed };
            run.judge(&bytes, request, kept, &format!("power cut {number}"));
            losses += u64::from(run.drive.take_loss());
            run.drive.check().unwrap_or_else(|fault| panic!("{}: {fault}", run.what));
            // What is there now is what the host finds from here on.
            run.model = Model::found(&bytes, run.request);
            tried += 1;
        }
        tried
    });
    assert!(losses > 0);
}
