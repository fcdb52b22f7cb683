//! Crashes of a served drive: kills and crashes of the host at its writes to the image, and injected power cuts, in memory.
//!
//! A model of what was acknowledged and flushed judges what is found. `SMRKIT_LIVE_CUTS` sets the crashes for each layer and test.

#[path = "../../../smrkit/tests/common/count.rs"]
mod count;
mod forged;
mod model;

use std::collections::BTreeMap;
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
use smrkit_live::block::drive::{Command, CommandKind, ServedDrive};
use smrkit_live::block::image::{self, DriveImage, Storage};
use tempfile::TempDir;

use count::count_from;
use model::{Model, Promise, fill};

const SECTOR: usize = 512;
const REQUESTS: usize = 240;

/// Every layer, with parameters that make it clean soon, and what it keeps when its power is cut.
const LAYERS: [(&str, &[&str], Promise); 17] = [
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
    ("smart", &["spare_percent=20"], Promise::Acknowledged),
    ("imr", &[], Promise::Flushed),
    ("h-swd", &["region_sectors=200", "cache_percent=10"], Promise::Flushed),
    ("host-aware", &["zone_bytes=80Ki", "cache_percent=10", "alpha=6"], Promise::Acknowledged),
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

/// Mechanics with a write-back cache of 60 sectors.
const CACHED: &str = r#"[mechanical]
rpm = { value = 7200, source = "test" }
seek = { value = [[0.0, 0.8], [0.333, 8.0], [1.0, 16.0]], source = "test" }
switch_ms = { value = 0.8, source = "test" }
overhead_ms = { value = 0.03, source = "test" }
write_cache_bytes = { value = 30720, source = "test" }
bus_bytes_per_s = { value = 600000000, source = "test" }
"#;

/// True if the drive that is made with this seed has a write cache.
fn is_cached(seed: u64) -> bool {
    seed % 2 == 1
}

/// Makes a drive under a layer in `folder`.
fn make(folder: &Path, layer: &str, set: &[&str], seed: u64) -> DriveImage {
    let law = LAWS[seed as usize % if layer == "track-map" { 1 } else { LAWS.len() }];
    let text = include_str!("../../../smrkit/drives/tiny-constant.toml")
        .replace("tracks = 400, track_sectors = 50", "tracks = 100, track_sectors = 40")
        .replace("blocks = { value = 6, source = \"the example of Cassuto 2010, figure 2\" }", law);
    let text = if is_cached(seed) { text.split("[constant]").next().unwrap().to_string() + CACHED } else { text };
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
        // What holds zeros counts as a hole.
        let bytes = self.bytes.lock().unwrap();
        let is_hole = |at: &u64| bytes[*at as usize..*at as usize + SECTOR].iter().all(|&byte| byte == 0);
        let mut sectors = (offset..end).step_by(SECTOR);
        let Some(start) = sectors.find(|at| !is_hole(at)) else { return Ok(None) };
        Ok(Some(start..sectors.find(is_hole).unwrap_or(end)))
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
    fn new(image: DriveImage, what: &str, seed: u64) -> Run {
        let sectors = image.sectors();
        let memory = Memory::new(vec![0; sectors as usize * SECTOR]);
        let (drive, _) = ServedDrive::open(image.over(memory.clone()), None, Queue::Sptf).unwrap();
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let span = [sectors, 500, 120][random.random_range(0..3)];
        let what = format!("{what}, seed {seed}");
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
        let is_served = matches!(ended.ended, Some((_, Ok(()))));
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
fn explore(mut crash: impl FnMut(DriveImage, &str, Promise, u64) -> u64) {
    for (layer, set, promise) in LAYERS {
        let (mut tried, folder) = (0, TempDir::new().unwrap());
        for seed in 0.. {
            let image = make(folder.path(), layer, set, seed);
            tried += crash(image, layer, promise, seed);
            if tried >= cuts() && seed > 0 {
                break;
            }
        }
        println!("{layer}: {tried} crashes");
    }
}

/// Serves a command for some sectors; a write fills them with `byte`.
fn ask(drive: &mut ServedDrive, kind: CommandKind, sectors: Range<u64>, byte: u8) -> Command {
    let bytes = (sectors.end - sectors.start) * 512;
    let data = if kind == CommandKind::Write { vec![byte; bytes as usize] } else { Vec::new() };
    drive.serve(Command::new(kind, sectors.start * 512, bytes, data)).unwrap()
}

/// Sectors that can't be read, found by halves.
fn unreadable_sectors(drive: &mut ServedDrive, range: Range<u64>) -> Vec<u64> {
    let sectors = range.end - range.start;
    match ask(drive, CommandKind::Read, range.clone(), 0).ended {
        Some((_, Ok(()))) => Vec::new(),
        _ if sectors == 1 => vec![range.start],
        _ => {
            let middle = range.start + sectors / 2;
            let first = unreadable_sectors(drive, range.start..middle);
            first.into_iter().chain(unreadable_sectors(drive, middle..range.end)).collect()
        }
    }
}

#[test]
fn a_kill_at_any_write_loses_nothing_that_was_acknowledged() {
    explore(|image, layer, _, seed| {
        let mut run = Run::new(image, layer, seed);
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
            run.judge(&left, run.request, Promise::Acknowledged, "killed");
            tried += 1;
        }
        tried
    });
}

#[test]
fn a_crash_of_the_host_loses_nothing_that_was_flushed() {
    explore(|image, layer, _, seed| {
        let mut run = Run::new(image, layer, seed);
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
    let (mut losses, mut unreadable) = (0, BTreeMap::new());
    explore(|image, layer, promise, seed| {
        let mut run = Run::new(image, layer, seed);
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
            let kept = if is_cached(seed) { Promise::Flushed } else { promise };
            run.judge(&bytes, request, kept, &format!("power cut {number}"));
            losses += u64::from(run.drive.take_loss());
            let lost = unreadable_sectors(&mut run.drive, 0..run.span);
            assert!(lost.iter().all(|&lba| run.model.was_written(lba)), "{}: {lost:?}", run.what);
            if let (Some(first), Some(last)) = (lost.first(), lost.last()) {
                match layer {
                    // One region was being rewritten, and the head reaches the end of the next track, or five sectors.
                    "rmw" => assert!(first / 400 == last / 400 && lost.len() < 2 * 40, "{}: {lost:?}", run.what),
                    // One band was being rewritten.
                    "h-swd" => assert!(first / 200 == last / 200 && lost.len() < 2 * 40, "{}: {lost:?}", run.what),
                    // Tops beside the bottom tracks of one write, of four tracks at most.
                    "imr" => assert!(lost.len() <= 5 * 40, "{}: {lost:?}", run.what),
                    "track-map" => assert!(last - first < 40 * 100, "{}: {lost:?}", run.what),
                    "set-assoc" => {}
                    _ => panic!("{}: {lost:?} can't be read", run.what),
                }
                *unreadable.entry(layer.to_string()).or_insert(0) += lost.len();
            }
            run.drive.inject(InjectedFault::Clear, run.drive.now()).unwrap();
            run.drive.check().unwrap_or_else(|fault| panic!("{}: {fault}", run.what));
            // What is there now is what the host finds from here on.
            run.model = Model::found(&bytes, run.request);
            tried += 1;
        }
        tried
    });
    assert!(losses > 0);
    assert!(unreadable.keys().eq(["h-swd", "imr", "rmw", "set-assoc", "track-map"]), "{unreadable:?}");
}

/// A write of one sector to a region that is full: it is rewritten from there on, and the cut leaves a gap of what the head had reached
/// and not yet written again.
#[test]
fn a_torn_rewrite_leaves_a_gap_that_reads_as_an_error() {
    const REGION: u64 = 400;
    let folder = TempDir::new().unwrap();
    let mut longest = 0;
    for seed in 0..40 {
        let image = make(folder.path(), "rmw", &["region_sectors=400", "portion=tail"], 0);
        let mut drive = ServedDrive::open(image, None, Queue::Fcfs).unwrap().0;
        ask(&mut drive, CommandKind::Write, 0..2 * REGION, 1);
        ask(&mut drive, CommandKind::Flush, 0..0, 0);
        drive.inject(InjectedFault::PowerCut(seed), drive.now()).unwrap();
        let torn = ask(&mut drive, CommandKind::Write, 100..101, 2);
        assert!(matches!(torn.ended, Some((_, Err(_)))) && drive.power_cuts == 1);
        let lost = unreadable_sectors(&mut drive, 0..2 * REGION);
        longest = longest.max(lost.len());
        // Blocks of six sectors: the five behind the last one written.
        assert!(lost.len() <= 5 && lost.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{lost:?}");
        assert!(lost.iter().all(|lba| (101..REGION).contains(lba)), "{lost:?}");
        for lba in (0..2 * REGION).filter(|lba| !lost.contains(lba)) {
            let read = ask(&mut drive, CommandKind::Read, lba..lba + 1, 0).data;
            let is_new = read == [2; 512];
            assert!(read == [1; 512] || is_new && lba == 100, "LBA {lba}");
            // Behind it the rewrite has got on only if the sector itself was written.
            assert!(lba != 100 || is_new || lost.is_empty(), "{lost:?}");
        }
        // What is written again can be read again.
        ask(&mut drive, CommandKind::Write, 0..REGION, 3);
        assert!(unreadable_sectors(&mut drive, 0..2 * REGION).is_empty());
    }
    assert_eq!(longest, 5);
}

/// The region's free end is written over: what lay there was trimmed, and is no loss, whether or not the trim was flushed.
#[test]
fn a_trim_is_not_undone_into_what_a_neighbour_destroyed() {
    let folder = TempDir::new().unwrap();
    let rewrites = |drive: &ServedDrive| drive.drives()[0].layer.bands_moved();
    let mut without_rewrite = [0; 2];
    // Without a write cache and with one, in which the second write may wait while the first one goes to the platters.
    for cached in [0, 1] {
        let image = make(folder.path(), "rmw", &["region_sectors=400"], 3 * cached as u64);
        let mut drive = ServedDrive::open(image, None, Queue::Fcfs).unwrap().0;
        for cut in 0..80 {
            let end = 250 + cut;
            ask(&mut drive, CommandKind::Write, 0..400, 1);
            ask(&mut drive, CommandKind::Flush, 0..0, 0);
            ask(&mut drive, CommandKind::Trim, end..400, 0);
            let before = rewrites(&drive);
            if cached == 1 {
                ask(&mut drive, CommandKind::Write, end - 1..end, 2);
                ask(&mut drive, CommandKind::Write, end + 2..end + 5, 2);
            }
            drive.inject(InjectedFault::PowerCut(cut), drive.now()).unwrap();
            match cached {
                0 => drop(ask(&mut drive, CommandKind::Write, end - 1..end, 2)),
                _ => assert!(drive.step_before(drive.now() + Nanos(10_000_000_000))),
            }
            assert_eq!(drive.power_cuts, cut + 1);
            let unreadable = unreadable_sectors(&mut drive, 0..400);
            if rewrites(&drive) > before {
                continue;
            }
            without_rewrite[cached] += 1;
            assert_eq!(unreadable, [0; 0], "seed {cut}");
            let read = ask(&mut drive, CommandKind::Read, end..400, 0).data;
            let is_expected =
                |(at, sector): (usize, &[u8])| sector == [0; SECTOR] || sector == [2; SECTOR] && (2..5).contains(&at);
            assert!(read.chunks_exact(SECTOR).enumerate().all(is_expected), "seed {cut}");
        }
    }
    assert!(without_rewrite.iter().all(|&cuts| cuts > 0), "{without_rewrite:?}");
}

const DM_ZONED: &[&str] = &["zone_bytes=80Ki", "conventional_percent=40"];

/// A write waits until a zone has been copied and the copy committed; where the power is cut before that, the maps name the old zone.
#[test]
fn a_cut_amid_the_reclaim_of_dm_zoned_leaves_all_sectors_readable() {
    let folder = TempDir::new().unwrap();
    let image = make(folder.path(), "dm-zoned", DM_ZONED, 0);
    let (sectors, mut random) = (image.sectors(), Pcg64Mcg::seed_from_u64(1));
    let mut drive = ServedDrive::open(image, None, Queue::Fcfs).unwrap().0;
    ask(&mut drive, CommandKind::Write, 0..sectors, 1);
    for cut in 0..400 {
        ask(&mut drive, CommandKind::Flush, 0..0, 0);
        drive.inject(InjectedFault::PowerCut(cut), drive.now()).unwrap();
        let lba = random.random_range(0..sectors - 40);
        ask(&mut drive, CommandKind::Write, lba..lba + 40, 1);
        assert_eq!(drive.power_cuts, cut + 1);
        assert_eq!(unreadable_sectors(&mut drive, 0..sectors), [0; 0], "cut {cut}");
    }
}

#[test]
fn what_dm_zoned_has_committed_is_kept_without_a_flush() {
    let folder = TempDir::new().unwrap();
    let mut undone = [[0; 2]; 2];
    for (cut, idles) in (0..12).flat_map(|cut| [(cut, false), (cut, true)]) {
        let image = make(folder.path(), "dm-zoned", DM_ZONED, 0);
        let mut drive = ServedDrive::open(image, None, Queue::Fcfs).unwrap().0;
        ask(&mut drive, CommandKind::Write, 0..8, 1);
        if idles {
            // Ten seconds until a commit.
            drive.inject(InjectedFault::Idle(Nanos(60_000_000_000)), drive.now()).unwrap();
        }
        ask(&mut drive, CommandKind::Write, 800..808, 1);
        drive.inject(InjectedFault::PowerCut(cut), drive.now()).unwrap();
        ask(&mut drive, CommandKind::Write, 1600..1608, 1);
        assert_eq!(drive.power_cuts, 1);
        for (write, lba) in [0, 800].into_iter().enumerate() {
            let is_kept = ask(&mut drive, CommandKind::Read, lba..lba + 8, 0).data == [1; 8 * SECTOR];
            undone[usize::from(idles)][write] += u64::from(!is_kept);
        }
    }
    let [[first, second], [committed, after]] = undone;
    assert!(first > 0 && second > 0 && committed == 0 && after > 0, "{undone:?}");
}

/// The map of its cache is in memory alone: a flush does not help.
#[test]
fn set_assoc_forgets_what_it_has_cached() {
    let folder = TempDir::new().unwrap();
    let image = make(folder.path(), "set-assoc", &["region_sectors=400", "cache_percent=10"], 0);
    let path = image.path.to_path_buf();
    let mut drive = ServedDrive::open(image, None, Queue::Fcfs).unwrap().0;
    let cached = [10, 100, 800];
    cached.into_iter().for_each(|lba| drop(ask(&mut drive, CommandKind::Write, lba..lba + 4, 1)));
    ask(&mut drive, CommandKind::Flush, 0..0, 0);
    drive.inject(InjectedFault::PowerCut(1), drive.now()).unwrap();
    ask(&mut drive, CommandKind::Write, 500..504, 1);
    assert_eq!(drive.power_cuts, 1);
    let lost: Vec<u64> = cached.into_iter().flat_map(|lba| lba..lba + 4).collect();
    assert_eq!(unreadable_sectors(&mut drive, 0..1000), lost);
    drive.close().unwrap();
    let mut drive = ServedDrive::open(DriveImage::open(&path, |_| Ok(None)).unwrap(), None, Queue::Fcfs).unwrap().0;
    assert_eq!(unreadable_sectors(&mut drive, 0..1000), lost, "the state file knows");
}
