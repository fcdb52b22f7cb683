//! Copies to and from an emulated zoned device: failures, interrupts (of images, too), power cuts, and granules that can't be read.

#[path = "../../../smrfs/tests/common/zones.rs"]
mod zones;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use smrfs::data::Data;
use smrfs::device::zoned::{ZonedGeometry, Zones};
use smrfs::fs::{FileSystem, FsOptions};
use smrfs::fsck::{FsckOptions, check as fsck};
use smrfs::meta::{Kind, NewNode};
use smrfs::testing::memory::Power;
use smrfs::testing::memory::WriteLoss;
use smrfs::units::GRANULE_BYTES;
use tempfile::TempDir;
use zones::{Emulated, EmulatedZones};

use super::*;
use crate::mount::MountError;
use crate::volume::{Layout, MkfsOptions, Open, Volume, mkfs, space};

const PITCH: u64 = 20;
const LENGTH: u64 = 16;
const COUNT: u64 = 24;

/// As many bands as the image has, one conventional zone for their cursors and one that is a band.
fn zones(max_active: u64) -> EmulatedZones {
    let zone_bytes = PITCH * GRANULE_BYTES;
    let geometry = ZonedGeometry { zones: COUNT + 1, zone_bytes, block_bytes: 512, max_open: 0, max_active };
    EmulatedZones { geometry, conventional: 1, capacity_blocks: LENGTH * GRANULE_BYTES / 512 }
}

fn zoned_disk(device: &Arc<Emulated>, is_new: bool) -> Arc<dyn HostManaged> {
    let device = Arc::clone(device);
    let disk = if is_new { Zones::format(device, GRANULE_BYTES) } else { Zones::open(device, GRANULE_BYTES, true) };
    Arc::new(disk.unwrap())
}

fn paths(folder: &Path, name: &str) -> VolumePaths {
    VolumePaths { image: folder.join(name).with_extension("img"), meta: folder.join(name).with_extension("meta") }
}

type Files = BTreeMap<String, Vec<u8>>;

/// A volume with zones like those of the device, and files on it of which some have been written over.
fn made(folder: &Path) -> (VolumePaths, Files) {
    let at = paths(folder, "old");
    let (gap, band) = (Some((PITCH - LENGTH) * GRANULE_BYTES), Some(LENGTH * GRANULE_BYTES));
    let size_bytes = 65536 + (COUNT * PITCH - (PITCH - LENGTH)) * GRANULE_BYTES;
    let layout = Layout { model: Model::StrictAppend, size_bytes, did_bytes: gap, dpid_bytes: gap, band_bytes: band };
    mkfs(&MkfsOptions { image: at.image.clone(), meta: at.meta.clone(), layout, force: false }).unwrap();
    let mut volume = Volume::open(&at.image, &Open::default()).unwrap();
    let core = FileSystem::mount(volume.device(), volume.store(), volume.space().unwrap(), FsOptions::default());
    let core = core.unwrap();
    let mut files = Files::new();
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    for number in 0..12u8 {
        let new = NewNode { kind: Kind::File, mode: 0o600, uid, gid, rdev: 0 };
        let id = core.make(core.root(), format!("{number}").as_bytes(), &new).unwrap().id;
        for round in 0..=number % 3 {
            let bytes = vec![16 * round + number + 1; 7000 + 3000 * usize::from(number)];
            core.write(id, 0, Data::Bytes(&bytes)).unwrap();
            core.sync_all().unwrap();
            files.insert(number.to_string(), bytes);
        }
    }
    core.unmount().unwrap();
    drop(core);
    volume.close().unwrap();
    (at, files)
}

/// The source of a copy, locked.
fn open(at: &VolumePaths) -> Volume {
    let how = Open { meta: Some(at.meta.clone()), read_only: true, ..Open::default() };
    Volume::open(&at.image, &how).unwrap()
}

/// Copies to `disk`, and makes a volume of it.
fn put(
    disk: &Arc<dyn HostManaged>,
    source: &Area,
    from: &VolumePaths,
    to: &VolumePaths,
    may_continue: &MayContinue,
) -> Result<(), LiveError> {
    let job = CopyJob { from, to, force: false, may_continue };
    job.fill_disk(Arc::clone(disk), source, &mut || {})?.finish(&job).map(drop)
}

/// The volume on `disk` with the directory `meta` has these files, and a check finds nothing.
fn holds(disk: Arc<dyn HostManaged>, meta: &Path, files: &Files) {
    let area = Area::load(disk).unwrap();
    let superblock = area.newest;
    let home = Home::open(meta, superblock.metadata, superblock.uuid, superblock.key).unwrap();
    assert!(superblock.is_clean);
    home.check_moment(Path::new(""), &superblock).unwrap();
    assert_eq!(superblock.path, fs::canonicalize(meta).unwrap().as_os_str().as_bytes());
    let store = Arc::new(DirectoryStore::open(home, true).unwrap());
    let device: Arc<dyn HostManaged> = Arc::new(data_part(&area.device));
    assert_eq!(fsck(&*device, &*store, &FsckOptions::default()).unwrap().found, 0);
    let allocator = space(device.shape()).unwrap();
    let core = FileSystem::mount(device, store, allocator, FsOptions::default()).unwrap();
    for (name, bytes) in files {
        let id = core.lookup(core.root(), name.as_bytes()).unwrap().id;
        let mut room = vec![0; bytes.len()];
        assert_eq!(core.read(id, 0, ReadBuffer::Bytes(&mut room)).unwrap(), bytes.len() as u64);
        assert!(room == *bytes, "{name}");
    }
}

#[test]
fn a_volume_goes_to_a_zoned_device_and_back() {
    let folder = TempDir::new().unwrap();
    let (old, files) = made(folder.path());
    for max_active in [0, 4] {
        let device = Arc::new(Emulated::new(zones(max_active), Arc::new(Power::new())));
        let (there, back) = (paths(folder.path(), "there"), paths(folder.path(), "back"));
        put(&zoned_disk(&device, true), &open(&old).area, &old, &there, &|| true).unwrap();
        holds(zoned_disk(&device, false), &there.meta, &files);
        let area = Area::load(zoned_disk(&device, false)).unwrap();
        let job = CopyJob { from: &there, to: &back, force: false, may_continue: &|| true };
        job.copy_to_disk(&area, &mut || {}).unwrap().finish(&job).unwrap();
        drop(area);
        assert_eq!(device.refused(), Vec::<String>::new());
        let mut volume = Volume::open(&back.image, &Open::default()).unwrap();
        assert!(volume.was_clean);
        volume.close().unwrap();
        drop(volume);
        holds(crate::image::open(&back.image, true).unwrap(), &back.meta, &files);
        remove(&there);
        remove(&back);
    }
}

/// Neither an older volume nor the copy is on the device before all of the copy is.
#[test]
fn after_a_power_cut_a_device_holds_the_whole_copy_or_no_volume() {
    let folder = TempDir::new().unwrap();
    let (old, files) = made(folder.path());
    let power = Arc::new(Power::new());
    let device = Arc::new(Emulated::new(zones(0), Arc::clone(&power)));
    let (first, second) = (paths(folder.path(), "first"), paths(folder.path(), "second"));
    put(&zoned_disk(&device, true), &open(&old).area, &old, &first, &|| true).unwrap();
    let before = power.operations();
    let reports = zoned_disk(&device, false).report(0, COUNT).unwrap();
    let begun = reports.iter().filter(|report| report.cursor > report.start).count() as u64;
    put(&zoned_disk(&device, true), &open(&old).area, &old, &second, &|| true).unwrap();
    let own = fs::canonicalize(&second.meta).unwrap();
    let (mut absent, mut whole) = (0, 0);
    // The first operations write the table of cursors, reset what is begun, and flush that.
    let emptied = before + 2 + begun;
    for cut in before..=power.operations() {
        for loss in [WriteLoss::All, WriteLoss::None, WriteLoss::Any] {
            let survivor = Arc::new(device.survivor(cut, loss, cut, Arc::new(Power::new())));
            let Ok(disk) = Zones::open(Arc::clone(&survivor), GRANULE_BYTES, true) else { continue };
            match Area::load(Arc::new(disk)) {
                Ok(area) if area.newest.path == own.as_os_str().as_bytes() => {
                    drop(area);
                    holds(zoned_disk(&survivor, false), &second.meta, &files);
                    whole += 1;
                }
                Ok(_) => assert!(cut <= emptied, "an older volume at {cut} of {}", power.operations()),
                Err(_) => absent += 1,
            }
        }
    }
    assert!(absent > 30 && whole > 0, "{absent}, {whole}");
}

/// A disk of which some can't be read.
struct Worn {
    disk: Arc<dyn HostManaged>,
    bad: Mutex<Span>,
}

impl stacked::Stacked for Worn {
    type Below = dyn HostManaged;

    fn below(&self) -> &Self::Below {
        &*self.disk
    }

    fn read(&self, at: Granule, room: ReadBuffer<'_>, cause: Cause) -> DeviceResult {
        let count = room.bytes() / GRANULE_BYTES;
        match self.bad.lock().unwrap().overlap(Span { at, count }) {
            Some(_) => Err(DeviceError::Io(std::io::Error::other("worn"))),
            None => self.below().read(at, room, cause),
        }
    }
}

#[test]
fn what_can_not_be_read_is_zeros_unless_it_is_a_files() {
    let folder = TempDir::new().unwrap();
    let (old, files) = made(folder.path());
    let volume = open(&old);
    let live = owners(&volume.store()).unwrap();
    let first = smrfs::superblock::granules(volume.area.device.shape());
    let worn = Worn { disk: Arc::clone(&volume.area.device), bad: Mutex::default() };
    let worn = Arc::new(worn);
    let area = Area::load(Arc::clone(&worn) as Arc<dyn HostManaged>).unwrap();
    let is_live = |at: u64| live.iter().any(|(span, _)| span.contains(Span::new(at, 1)));
    let (mut named, mut dead) = (0, 0);
    for report in volume.device().report(0, COUNT - 2).unwrap() {
        for at in (report.start.0..report.cursor.0).step_by(3) {
            *worn.bad.lock().unwrap() = Span::new(first + at, 1);
            let device = Arc::new(Emulated::new(zones(0), Arc::new(Power::new())));
            let to = paths(folder.path(), "new");
            let copied = put(&zoned_disk(&device, true), &area, &old, &to, &|| true);
            match copied {
                Ok(()) => {
                    assert!(!is_live(at), "{at}");
                    holds(zoned_disk(&device, false), &to.meta, &files);
                    dead += 1;
                }
                Err(error) => {
                    let owner = live.iter().find(|(span, _)| span.contains(Span::new(at, 1))).expect("a file's").1;
                    let path = volume.store().path_to(owner).unwrap();
                    let said = error.to_string();
                    let expected = format!("belongs to {}: remove", String::from_utf8_lossy(&path[1..]));
                    assert!(said.contains(&expected) && said.contains("old.img"), "{said}");
                    assert!(!to.meta.exists());
                    named += 1;
                }
            }
            remove(&to);
        }
    }
    assert!(named > 20 && dead > 5, "{named}, {dead}");
}

#[test]
fn an_offline_zone_is_empty_in_a_copy_unless_it_has_data_of_files() {
    let folder = TempDir::new().unwrap();
    let (old, files) = made(folder.path());
    let (first, second) = (paths(folder.path(), "first"), paths(folder.path(), "second"));
    let device = Arc::new(Emulated::new(zones(0), Arc::new(Power::new())));
    put(&zoned_disk(&device, true), &open(&old).area, &old, &first, &|| true).unwrap();
    let live = owners(&open(&old).store()).unwrap();
    let bands = zoned_disk(&device, false).shape().bands;
    let has_data = |band: u64| live.iter().any(|(span, _)| bands.span(band).overlap(*span).is_some());
    let (with, without): (Vec<u64>, Vec<u64>) = (0..COUNT - 2).partition(|&band| has_data(band));
    // Behind the zone of the table and those of superblocks.
    let lose = |band: u64| device.lose(band + 3, BandState::Offline);
    let copied = |to: &VolumePaths| {
        let area = Area::load(zoned_disk(&device, false)).unwrap();
        put(&zoned_disk(&Arc::new(Emulated::new(zones(0), Arc::new(Power::new()))), true), &area, &first, to, &|| true)
    };
    lose(without[0]);
    copied(&second).unwrap();
    remove(&second);
    lose(with[0]);
    let said = copied(&second).unwrap_err().to_string();
    assert!(
        said.contains("its zone is offline") && files.keys().any(|name| said.contains(&format!("to {name}: "))),
        "{said}"
    );
    assert!(!second.meta.exists());
}

/// As where image and directory are of two moments, or the disk has written somewhere else.
#[test]
fn data_that_is_not_what_was_written_is_named_in_the_copy() {
    let folder = TempDir::new().unwrap();
    let (old, _) = made(folder.path());
    let volume = open(&old);
    let mut places = owners(&volume.store()).unwrap();
    let (one, file) = places[0];
    let (other, _) = places.pop().unwrap();
    let path = volume.store().path_to(file).unwrap();
    let first = smrfs::superblock::granules(volume.area.device.shape());
    drop(volume);
    // Behind the disk's back: it would not take such a write.
    let mut bytes = vec![0; GRANULE_BYTES as usize];
    let at = |span: Span| 65536 + (first + span.at.0) * GRANULE_BYTES;
    let image = fs::File::options().read(true).write(true).open(&old.image).unwrap();
    image.read_exact_at(&mut bytes, at(other)).unwrap();
    image.write_all_at(&bytes, at(one)).unwrap();
    let expected = format!("{}: 4 KiB of it are not what was written", String::from_utf8_lossy(&path));
    let how = Open { meta: Some(old.meta.clone()), ..Open::default() };
    let saved = of_volume(&old.image, &how, &folder.path().join("saved"), &|| true).unwrap();
    assert_eq!(saved.damage, Damage { maps: Vec::new(), data: vec![expected.clone()] });
    let wanted = RestoreOptions { to: paths(folder.path(), "new"), force: false, trust_open_metadata: false };
    let back = restore(&folder.path().join("saved"), &wanted, &|| true).unwrap();
    assert_eq!(back.damage.data, [expected]);
}

#[test]
fn an_interrupted_backup_or_restore_of_an_image_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let (old, _) = made(folder.path());
    let (saved, new) = (folder.path().join("saved"), paths(folder.path(), "new"));
    let how = Open { meta: Some(old.meta.clone()), ..Open::default() };
    let wanted = RestoreOptions { to: new.clone(), force: false, trust_open_metadata: false };
    type Step<'a> = &'a dyn Fn(&MayContinue) -> Result<(), MountError>;
    let backup: Step = &|may_continue| of_volume(&old.image, &how, &saved, may_continue).map(drop);
    let back: Step = &|may_continue| restore(&saved, &wanted, may_continue).map(drop);
    for (step, left) in [(backup, [&saved, &saved]), (back, [&new.image, &new.meta])] {
        for questions in 0.. {
            let asked = AtomicU64::new(0);
            let ended = step(&|| asked.fetch_add(1, Relaxed) < questions);
            if ended.is_ok() {
                // Each of the twelve files was a chance.
                assert!(questions >= 12 && left[0].exists(), "{questions}");
                break;
            }
            assert!(matches!(ended, Err(MountError::Volume(LiveError::Interrupted))), "{ended:?}");
            assert!(!left[0].exists() && !left[1].exists(), "{questions}");
        }
    }
}

#[test]
fn a_copy_that_fails_or_is_interrupted_leaves_an_empty_disk() {
    let folder = TempDir::new().unwrap();
    let (old, files) = made(folder.path());
    let volume = open(&old);
    let to = paths(folder.path(), "new");
    let device = Arc::new(Emulated::new(zones(0), Arc::new(Power::new())));
    let disk = zoned_disk(&device, true);
    let is_empty = || {
        assert!(matches!(Area::load(zoned_disk(&device, false)), Err(error) if error.to_string().contains("no SMRfs")));
        assert!(disk.report(0, COUNT).unwrap().iter().all(|report| report.cursor == report.start));
        assert!(!to.meta.exists());
    };
    // It is asked before each entry of the directory and each piece of the disk.
    for questions in 0..20 {
        let asked = AtomicU64::new(0);
        let may_continue = || asked.fetch_add(1, Relaxed) < questions;
        let copied = put(&disk, &volume.area, &old, &to, &may_continue);
        assert!(matches!(copied, Err(LiveError::Interrupted)), "{questions}: {copied:?}");
        is_empty();
    }
    device.fail_next_write(3);
    assert!(matches!(put(&disk, &volume.area, &old, &to, &|| true), Err(LiveError::Io(..))));
    is_empty();
    put(&disk, &volume.area, &old, &to, &|| true).unwrap();
    drop(disk);
    holds(zoned_disk(&device, false), &to.meta, &files);
}

#[test]
fn a_disk_that_does_not_fit_is_refused_with_what_to_do() {
    let folder = TempDir::new().unwrap();
    let (old, _) = made(folder.path());
    let shape = *open(&old).area.device.shape();
    let said = |from: &Shape, to: &Shape| {
        check_bands(&old, from, Path::new("/dev/zoned"), to).map_err(|error| error.to_string())
    };
    let more = Shape { bands: smrfs::device::Bands { count: COUNT + 1, ..shape.bands }, ..shape };
    assert_eq!(said(&shape, &more), Ok(()));
    let fewer = said(&more, &shape).unwrap_err();
    assert!(fewer.contains("the zones of /dev/zoned (24 of 64 KiB, 16 KiB apart)"), "{fewer}");
    assert!(fewer.contains("old.img (25 of 64 KiB, 16 KiB apart)") && fewer.contains("rsync -aAX"), "{fewer}");
    let caveat = said(&Shape { model: Model::Caveat, ..shape }, &shape).unwrap_err();
    assert!(caveat.contains("old.img is a caveat disk") && caveat.contains("rsync -aAX"), "{caveat}");
}
