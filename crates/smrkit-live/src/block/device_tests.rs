//! Served drives without a server: what they hold, and what faults and failing images do to them.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrkit::device::Served;
use smrkit::device::spec::ArraySpec;
use smrkit::experiment::size::AskedCapacity;
use smrkit::experiment::system::{System, Systems};
use smrkit::medium::Buf;
use smrkit::request::{Op, Request};
use smrkit::settings::Settings;
use smrkit::units::{Lba, Nanos};
use tempfile::TempDir;

use super::device::{BlockDevice, Unserved};
use super::fault::InjectedFault;
use super::image::{DriveImage, complete_record, create, journal_path};
use super::log::{FoundState, LogWriter};
use super::storage::Storage;

const NO_TRACK: u32 = u32::MAX;

fn image(folder: &TempDir, system: &System) -> PathBuf {
    let path = folder.path().join("drive.img");
    let planned = Systems::new(system).unwrap().runs(&[Settings::default()], None).unwrap().pop().unwrap();
    create(&path, complete_record(&planned), false).unwrap();
    path
}

fn drive(name: &str, layer: &str) -> System {
    let system = System::drive(name).layer(layer).capacity(AskedCapacity::Auto);
    if layer == "set-assoc" {
        system.set("set-assoc.region_sectors", 512).set("set-assoc.idle_clean", "on")
    } else {
        system
    }
}

fn open(path: &Path) -> BlockDevice {
    BlockDevice::open(DriveImage::open(path, true).unwrap(), None).unwrap().0
}

/// A new drive, and the folder that it lies in.
fn new(name: &str, layer: &str) -> (TempDir, BlockDevice) {
    let folder = TempDir::new().unwrap();
    let path = image(&folder, &drive(name, layer));
    (folder, open(&path))
}

fn serve(device: &mut BlockDevice, op: Op, range: Range<u64>, bytes: Vec<u8>) -> Result<(Served, Vec<u8>), Unserved> {
    let mut buf = Buf::Bytes(bytes);
    let now = device.now();
    let request = Request::new(op, Lba(range.start), (range.end - range.start) as u32);
    let served = device.serve(&request, now, &mut buf)?;
    let Buf::Bytes(bytes) = buf else { unreachable!("bytes stay bytes") };
    Ok((served, bytes))
}

fn write(device: &mut BlockDevice, range: Range<u64>, fill: u8) -> Result<Served, Unserved> {
    let bytes = vec![fill; (range.end - range.start) as usize * 512];
    serve(device, Op::Write, range, bytes).map(|served| served.0)
}

/// The first byte of each sector read.
fn read(device: &mut BlockDevice, range: Range<u64>) -> Result<Vec<u8>, Unserved> {
    let bytes = vec![1; (range.end - range.start) as usize * 512];
    let (_, bytes) = serve(device, Op::Read, range, bytes)?;
    let sectors = bytes.chunks(512);
    assert!(sectors.clone().all(|sector| sector.iter().all(|byte| *byte == sector[0])));
    Ok(sectors.map(|sector| sector[0]).collect())
}

/// Runs of what is the same.
fn runs<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<(u64, T)> {
    let mut runs: Vec<(u64, T)> = Vec::new();
    for one in all {
        match runs.last_mut() {
            Some((count, last)) if *last == one => *count += 1,
            _ => runs.push((1, one)),
        }
    }
    runs
}

#[test]
fn a_drive_holds_what_was_written_and_reads_the_rest_as_zeros() {
    for (layer, cache_sectors) in [("log", 0), ("set-assoc", 0), ("log", 40), ("in-place", 7)] {
        let (_folder, device) = new("tiny", layer);
        let mut device = device.with_write_cache(cache_sectors);
        let mut model = vec![None; 300];
        let dice = &mut Pcg64Mcg::seed_from_u64(1);
        for step in 0..150u8 {
            let start = dice.random_range(0..300);
            let range = start..(start + dice.random_range(1..30)).min(300);
            let own = range.start as usize..range.end as usize;
            match dice.random_range(0..9) {
                0..5 => {
                    write(&mut device, range.clone(), step + 2).unwrap();
                    model[own.clone()].fill(Some(step + 2));
                }
                5..7 => {
                    serve(&mut device, Op::Discard, range.clone(), Vec::new()).unwrap();
                    model[own.clone()].fill(None);
                }
                7 => drop(serve(&mut device, Op::Flush, 0..0, Vec::new()).unwrap()),
                _ => {
                    let now = device.now();
                    device.write_back(now, |lba| lba % 3 == 0).unwrap();
                }
            }
            let expected: Vec<u8> = model[own.clone()].iter().map(|byte| byte.unwrap_or(0)).collect();
            assert_eq!(read(&mut device, range.clone()).unwrap(), expected, "{layer}, step {step}");
            let holes = runs(model[own].iter().map(|byte| byte.is_none()));
            assert_eq!(device.extents(range).unwrap(), holes, "{layer}, step {step}");
        }
        device.check().unwrap();
        let now = device.now();
        device.close(now).unwrap();
    }
}

#[test]
fn sectors_are_told_to_lie_on_the_tracks_of_their_drives() {
    let array = |text: &str| System::array(ArraySpec::parse(text).unwrap()).capacity(AskedCapacity::Auto);
    let systems = [
        drive("tiny", "log"),
        array("raid0:disks=2,chunk=4KiB,drive=tiny,layer=log"),
        array("span:disks=3,drive=tiny,layer=in-place"),
    ];
    for system in systems {
        let folder = TempDir::new().unwrap();
        let mut device = open(&image(&folder, &system));
        let end = device.image().export_sectors();
        let written = [0..30, 37..40, 41..42, end - 20..end - 3];
        for range in written.clone() {
            write(&mut device, range, 7).unwrap();
        }
        for range in [0..60, 5..6, 30..37, 29..42, end - 40..end, end - 20..end - 19] {
            let of_run: Vec<_> =
                device.image().system().drives().iter().map(|run| run.drive.geometry.clone()).collect();
            let track = |lba: u64| {
                if !written.iter().any(|range| range.contains(&lba)) {
                    return NO_TRACK;
                }
                let (disk, own) = match device.image().system().array() {
                    Some(array) => array.layout().unwrap().place(Lba(lba)),
                    None => (0, Lba(lba)),
                };
                let before: u64 = of_run[..disk as usize].iter().map(|geometry| geometry.tracks()).sum();
                let pba = device.drives()[disk as usize].layer.locate(own);
                (before + of_run[disk as usize].track_of(pba).0) as u32
            };
            let expected = runs(range.clone().map(track));
            assert_eq!(device.tracks(range).unwrap(), expected);
        }
    }
}

#[test]
fn bad_sectors_fail_reads_until_they_are_written() {
    let (_folder, mut device) = new("tiny", "log");
    let (end, now) = (device.image().export_sectors(), device.now());
    write(&mut device, 0..16, 7).unwrap();
    let refused = device.inject(InjectedFault::BadSector(end), now).unwrap_err();
    assert_eq!(refused, format!("sector {end} is past the drive's end: it has {end}"));
    for lba in [5, 9, end - 1] {
        device.inject(InjectedFault::BadSector(lba), now).unwrap();
    }
    let fails = |device: &mut BlockDevice, range: Range<u64>| read(device, range).is_err();
    let failing = |device: &mut BlockDevice| (0..16).filter(|&lba| fails(device, lba..lba + 1)).collect::<Vec<u64>>();
    assert_eq!(failing(&mut device), [5, 9]);
    assert!(fails(&mut device, 0..16) && fails(&mut device, 4..6) && fails(&mut device, end - 2..end));
    assert!(!fails(&mut device, 0..5) && !fails(&mut device, 6..9) && !fails(&mut device, end - 2..end - 1));
    write(&mut device, 3..5, 8).unwrap();
    write(&mut device, 6..9, 8).unwrap();
    serve(&mut device, Op::Discard, 9..10, Vec::new()).unwrap();
    assert_eq!(failing(&mut device), [5, 9]);
    write(&mut device, 5..6, 8).unwrap();
    assert_eq!(failing(&mut device), [9]);
    assert!(device.failure().is_none());
}

#[test]
fn one_request_is_slow_or_never_completes_and_the_next_does() {
    let times = |fault: Option<InjectedFault>| {
        let (_folder, mut device) = new("tiny-constant", "log");
        let now = device.now();
        if let Some(fault) = fault {
            device.inject(fault, now).unwrap();
        }
        [0..8, 8..16].map(|range| write(&mut device, range, 7).map(|served| served.end.0 - served.start.0))
    };
    let span = |served: Result<u64, Unserved>| served.unwrap();
    let [first, second] = times(None).map(span);
    let slow = times(Some(InjectedFault::Slow(Nanos(30_000_000))));
    assert_eq!(slow, [Ok(first), Ok(second)], "its service begins later");
    assert_eq!(times(Some(InjectedFault::Timeout)), [Err(Unserved::Silence), Ok(second)]);
    let begins = |slow: u64| {
        let (_folder, mut device) = new("tiny-constant", "log");
        device.inject(InjectedFault::Slow(Nanos(slow)), Nanos::ZERO).unwrap();
        [0..8, 8..16].map(|range| write(&mut device, range, 7).unwrap().start.0)
    };
    assert_eq!(begins(30_000_000).map(|start| start - 30_000_000), begins(0));
}

/// The lines of a log after the first.
fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap().lines().skip(1).map(String::from).collect()
}

#[test]
fn a_power_cut_fails_one_request_and_loses_what_was_not_kept() {
    // Layers that keep what was acknowledged, and one that does not; a write cache keeps nothing.
    for (layer, cache_sectors, loses) in [("log", 0, false), ("set-assoc", 0, true), ("log", 100, true)] {
        let folder = TempDir::new().unwrap();
        let path = image(&folder, &drive("tiny", layer));
        let (log, image) = (folder.path().join("log"), DriveImage::open(&path, true).unwrap());
        let writer = LogWriter::open(&log, &image.head().run).unwrap();
        let (device, opened) = BlockDevice::open(image, Some(writer)).unwrap();
        assert_eq!(opened.found, FoundState::New);
        let mut device = device.with_write_cache(cache_sectors);
        write(&mut device, 0..8, 7).unwrap();
        let now = device.now();
        device.inject(InjectedFault::PowerCut(3), now).unwrap();
        let cut = write(&mut device, 8..16, 8).and_then(|_| serve(&mut device, Op::Flush, 0..0, Vec::new()));
        assert_eq!((cut.err(), device.power_cuts()), (Some(Unserved::Failed), 1), "{layer}");
        assert_eq!([device.take_loss(), device.take_loss()], [loses, false], "{layer}, {cache_sectors}");
        if layer == "log" && cache_sectors == 0 {
            assert_eq!(read(&mut device, 0..8).unwrap(), [7; 8]);
        }
        write(&mut device, 8..16, 9).unwrap();
        assert_eq!(read(&mut device, 8..16).unwrap(), [9; 8]);
        let now = device.now();
        device.close(now).unwrap();
        let lines = lines(&log);
        let first = |word: &str| lines.iter().position(|line| line.starts_with(word)).unwrap_or(usize::MAX);
        assert_eq!(lines[0], "open new 0");
        assert_eq!(lines.last().map(String::as_str), Some("closed"));
        assert!(first("fault power-cut 3") < first("failed write"), "{lines:?}");
        assert_eq!(first("failed write") + 1, first("recovered"), "{lines:?}");
        // A log has no books: it is read from the platters.
        let after_a_close = if layer == "set-assoc" { FoundState::Clean } else { FoundState::Recovered };
        let found = || BlockDevice::open(DriveImage::open(&path, true).unwrap(), None).unwrap().1.found;
        assert_eq!([found(), found()], [after_a_close, FoundState::Recovered]);
    }
}

/// A file that fails with an error of the system's from some moment on.
struct Failing {
    file: File,
    errno: Arc<AtomicI32>,
}

impl Failing {
    fn then<T>(&self, act: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        match self.errno.load(Relaxed) {
            0 => act(&self.file),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

impl Storage for Failing {
    fn length(&self) -> io::Result<u64> {
        Storage::length(&self.file)
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.then(|file| Storage::read(file, offset, bytes))
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.then(|file| Storage::write(file, offset, bytes))
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.then(|file| Storage::set_length(file, length))
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        self.then(|file| Storage::punch(file, range))
    }

    fn sync(&self) -> io::Result<()> {
        self.then(Storage::sync)
    }

    fn allocated_from(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        Storage::allocated_from(&self.file, offset)
    }
}

/// A drive whose image fails once the number is not 0.
fn failing(system: &System) -> (TempDir, BlockDevice, Arc<AtomicI32>) {
    let folder = TempDir::new().unwrap();
    let path = image(&folder, system);
    let errno = Arc::new(AtomicI32::new(0));
    let opened = |path: &Path| {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        Arc::new(Failing { file, errno: errno.clone() })
    };
    let first = DriveImage::open(&path, true).unwrap();
    let image = first.in_storage(opened(&path), opened(&journal_path(&path)), None).unwrap();
    let device = BlockDevice::open(image, None).unwrap().0;
    (folder, device, errno)
}

#[test]
fn a_drive_whose_image_fails_serves_nothing_any_more() {
    let io_error = rustix::io::Errno::IO.raw_os_error();
    let full = rustix::io::Errno::NOSPC.raw_os_error();
    for (errno, remedy) in [(io_error, ": serve it anew"), (full, ": free some room there, and serve it anew")] {
        let (_folder, mut device, fails) = failing(&drive("tiny", "log"));
        write(&mut device, 0..8, 7).unwrap();
        fails.store(errno, Relaxed);
        assert_eq!(write(&mut device, 8..16, 8).unwrap_err(), Unserved::Failed);
        let failure = device.failure().unwrap().to_string();
        assert!(failure.ends_with(&format!("the drive fails every command from now on{remedy}")), "{failure}");
        fails.store(0, Relaxed);
        assert_eq!(read(&mut device, 0..8).unwrap_err(), Unserved::Failed);
        assert_eq!((device.power_cuts(), device.take_loss()), (0, false));
        let now = device.now();
        let said = device.close(now).unwrap_err().to_string();
        assert!(said.contains(&failure) && said.contains("not closed in good order"), "{said}");
    }
}

/// Work of a drive's own, while nothing waits, meets faults, too.
#[test]
fn idle_work_meets_power_cuts_and_failing_images() {
    let system = drive("tiny", "set-assoc");
    let far = Nanos(3_600_000_000_000);
    let dirty = |device: &mut BlockDevice| {
        for at in 0..40 {
            write(device, at * 40..at * 40 + 8, 7).unwrap();
        }
    };
    let (_folder, mut device, fails) = failing(&system);
    dirty(&mut device);
    fails.store(rustix::io::Errno::IO.raw_os_error(), Relaxed);
    let steps = (0..1000).take_while(|_| device.step_before(far)).count();
    assert!(steps < 1000 && device.failure().is_some(), "{steps} steps");
    assert_eq!(device.power_cuts(), 0);
    let (_folder, mut device, _) = failing(&system);
    dirty(&mut device);
    assert!(!device.step_before(device.now()), "nothing begins before now");
    device.device.cut_power(5);
    let steps = (0..1000).take_while(|_| device.step_before(far) && device.power_cuts() == 0).count();
    assert!(steps < 999 && device.failure().is_none(), "{steps} steps");
    assert_eq!((device.power_cuts(), device.take_loss()), (1, true));
    let array =
        ArraySpec::parse("span:disks=2,drive=tiny,layer=set-assoc,set=(region_sectors=512,idle_clean=on)").unwrap();
    let (_folder, mut device, fails) = failing(&System::array(array).capacity(AskedCapacity::Auto));
    dirty(&mut device);
    fails.store(rustix::io::Errno::IO.raw_os_error(), Relaxed);
    let steps = (0..1000).take_while(|_| device.step_before(far)).count();
    assert!(steps < 1000 && device.failure().is_some(), "{steps} steps");
    assert_eq!(device.power_cuts(), 0);
}

#[test]
fn a_request_waits_for_those_on_its_sectors_if_one_changes_them() {
    let array = ArraySpec::parse("span:disks=2,drive=tiny,layer=in-place").unwrap();
    let folder = TempDir::new().unwrap();
    let mut device = open(&image(&folder, &System::array(array).capacity(AskedCapacity::Auto)));
    let request = |op, range: Range<u64>| Request::new(op, Lba(range.start), (range.end - range.start) as u32);
    let now = device.now();
    assert!(device.is_array() && device.is_idle());
    device.send(1, &request(Op::Write, 10..20), now, vec![7; 10 * 512]);
    device.send(2, &request(Op::Read, 30..40), now, Vec::new());
    assert!(!device.is_idle());
    let around = |at: u64| [at - 5..at, at - 5..at + 1, at..at + 10, at + 9..at + 15, at + 10..at + 15];
    let waits = |device: &BlockDevice, op, at| around(at).map(|range| device.must_wait(&request(op, range)));
    let touching = [false, true, true, true, false];
    assert_eq!([Op::Read, Op::Write].map(|op| waits(&device, op, 10)), [touching; 2]);
    assert_eq!([Op::Read, Op::Discard].map(|op| waits(&device, op, 30)), [[false; 5], touching]);
    let mut go_on = |limit| {
        device.go_on(limit);
        std::iter::from_fn(|| device.take_ended()).collect::<Vec<_>>()
    };
    let ended = go_on(None);
    assert_eq!(ended.len(), 1, "one at a time");
    let rest = go_on(None);
    let mut tags: Vec<u64> = ended.iter().chain(&rest).map(|ended| ended.tag).collect();
    tags.sort_unstable();
    assert_eq!((tags, device.is_idle(), device.next()), (vec![1, 2], true, None));
    let read = ended.iter().chain(&rest).find(|ended| ended.tag == 2).unwrap();
    assert!(read.bytes == [0; 10 * 512] && read.served.is_ok());
}

/// Books are what was stored last in good order, or none at all.
#[test]
fn books_are_believed_after_a_close_and_where_they_are_whole() {
    let folder = TempDir::new().unwrap();
    let path = image(&folder, &drive("tiny", "in-place"));
    let open = || DriveImage::open(&path, false).unwrap();
    let close = |books: Option<&[u64]>| {
        let image = open();
        image.begin().unwrap();
        assert_eq!(open_again(&folder, &image).books().unwrap(), None, "in use");
        image.close(books).unwrap();
    };
    for books in [vec![], vec![7], vec![1, u64::MAX, 3]] {
        close(Some(&books));
        assert_eq!(open().books().unwrap(), Some(books));
    }
    let end = open().places().end;
    let file = File::options().write(true).open(&path).unwrap();
    Storage::write(&file, end + 8 + 16, &[9]).unwrap();
    assert_eq!(open().books().unwrap(), None, "another word");
    for length in [end + 16, end + 8, end + 7, end] {
        file.set_len(length).unwrap();
        assert_eq!(open().books().unwrap(), None, "cut to {length}");
    }
    close(None);
    assert_eq!(open().books().unwrap(), None);
}

/// The image's file as another process would see it.
fn open_again(folder: &TempDir, image: &DriveImage) -> DriveImage {
    let file = File::options().read(true).write(true).open(folder.path().join("drive.img")).unwrap();
    image.in_storage(Arc::new(file), Arc::new(tempfile::tempfile().unwrap()), None).unwrap()
}
