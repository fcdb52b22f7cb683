//! The core on a volume: what was synced is there after a process that ends without a word, and after a clean end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::data::{Data, ReadBuffer};
use smrfs::device::stacked;
use smrfs::device::{HostManaged, Model, Shape};
use smrfs::error::{DeviceResult, FsError};
use smrfs::fs::{FileSystem, FsOptions};
use smrfs::fsck::report::Problem;
use smrfs::meta::{Kind, Maps, NewNode, RenameMode};
use smrfs::testing::shingled::History;
use smrfs::units::{GRANULE_BYTES, Granule, HostJournal, NodeId, Span};
use smrkit::tally::Cause;
use tempfile::TempDir;

use super::super::{Layout, MkfsOptions, Open, Volume, mkfs};
use crate::survey::survey;

#[path = "../../../../smrfs/tests/model/crowd.rs"]
mod crowd;

/// A Caveat-Scriptor disk on which a write destroys its neighbours, as its law says.
struct Destroying {
    disk: Arc<dyn HostManaged>,
    history: Mutex<History>,
}

impl stacked::Stacked for Destroying {
    type Below = dyn HostManaged;

    fn below(&self) -> &Self::Below {
        &*self.disk
    }

    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        let mut history = self.history.lock().unwrap();
        let span = self.below().shape().span(at, data.bytes())?;
        self.below().write(at, data, cause)?;
        let mut destroyed = Vec::new();
        history.write(span, |hit, _| destroyed.push(hit));
        let garbage = |hit: Span| vec![0xdb; (hit.count * GRANULE_BYTES) as usize];
        destroyed.into_iter().try_for_each(|hit| self.below().write(hit.at, Data::Bytes(&garbage(hit)), cause))
    }
}

fn open(folder: &Path) -> (Volume, FileSystem) {
    let volume = Volume::open(&folder.join("image"), &Open::default()).expect("a volume");
    let (mut device, store) = (volume.device(), volume.store());
    let Shape { model, granules, did, dpid, .. } = *device.shape();
    if model == Model::Caveat {
        device = Arc::new(Destroying { disk: device, history: Mutex::new(History::new(granules, did, dpid, true)) });
    }
    let space = volume.space().expect("a space");
    let mounted = FileSystem::mount(device, store, space, FsOptions::default()).expect("a mount");
    (volume, mounted)
}

fn made(folder: &Path, model: Model) {
    let layout = Layout { model, size_bytes: 64 << 20, did_bytes: None, dpid_bytes: None, band_bytes: None };
    let (image, meta) = (folder.join("image"), folder.join("meta"));
    mkfs(&MkfsOptions { image, meta, layout, force: false }).expect("a new volume");
}

fn owner() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

fn content(fs: &FileSystem, name: &str) -> Vec<u8> {
    let attr = fs.lookup(fs.root(), name.as_bytes()).expect(name);
    let mut bytes = vec![0; attr.size as usize];
    assert_eq!(fs.read(attr.id, 0, ReadBuffer::Bytes(&mut bytes)).unwrap(), attr.size);
    fs.forget(attr.id, 1);
    bytes
}

/// Writes and removes files at random, and syncs each; tells what there is.
fn work(fs: &FileSystem, files: &mut BTreeMap<String, Vec<u8>>, dice: &mut Pcg64Mcg) {
    let (uid, gid) = owner();
    let root: NodeId = fs.root();
    for _ in 0..40 {
        let name = format!("file-{}", dice.random_range(0..12));
        if files.remove(&name).is_some() {
            fs.unlink(root, name.as_bytes()).unwrap();
            fs.sync_dir(root).unwrap();
            continue;
        }
        let new = NewNode { kind: Kind::File, mode: 0o600, uid, gid, rdev: 0 };
        let id = fs.make(root, name.as_bytes(), &new).unwrap().id;
        let bytes: Vec<u8> = (0..dice.random_range(1..300_000)).map(|_| dice.random()).collect();
        fs.open(id, true, false).unwrap();
        fs.write(id, 0, Data::Bytes(&bytes)).unwrap();
        fs.sync(id).unwrap();
        fs.release(id, true).unwrap();
        fs.forget(id, 1);
        files.insert(name, bytes);
    }
}

#[test]
fn what_was_synced_is_there_after_any_end() {
    for model in [Model::StrictAppend, Model::Caveat] {
        let folder = TempDir::new().unwrap();
        made(folder.path(), model);
        let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut dice = Pcg64Mcg::seed_from_u64(5);
        for ends_well in [false, true, false, false, true] {
            let (mut volume, fs) = open(folder.path());
            for (name, bytes) in &files {
                assert!(content(&fs, name) == *bytes, "{model:?}: {name}");
            }
            work(&fs, &mut files, &mut dice);
            if ends_well {
                fs.unmount().unwrap();
                drop(fs);
                volume.close().unwrap();
            }
        }
        let look = Volume::open(&folder.path().join("image"), &Open { read_only: true, ..Open::default() }).unwrap();
        assert!(look.was_clean);
        let found = survey(&look).unwrap();
        let granules: u64 = files.values().map(|bytes| (bytes.len() as u64).div_ceil(4096)).sum();
        assert_eq!((found.files, found.usage.live), (files.len() as u64, granules));
        let report = smrfs::fsck::check(&*look.device(), &*look.store(), &smrfs::fsck::FsckOptions::default());
        assert_eq!(report.unwrap().found, 0);
    }
}

#[test]
fn a_crowd_on_a_directory_leaves_whole_files_and_nothing_else() {
    for model in [Model::StrictAppend, Model::Caveat] {
        let folder = TempDir::new().unwrap();
        made(folder.path(), model);
        let longest = 200_000;
        let (volume, fs) = open(folder.path());
        let found = crowd::crowd(&fs, 4, 600, owner(), longest);
        let live = fs.usage().unwrap().live;
        drop((fs, volume));
        let (volume, fs) = open(folder.path());
        assert!(crowd::contents(&fs, longest) == found);
        assert_eq!(fs.usage().unwrap().live, live);
        let report = smrfs::fsck::check(&*volume.device(), &*volume.store(), &smrfs::fsck::FsckOptions::default());
        assert_eq!(report.unwrap().found, 0);
    }
}

/// A disk that does something of a test's choosing when it is flushed the next time.
struct Hooked {
    disk: Arc<dyn HostManaged>,
    at_flush: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl stacked::Stacked for Hooked {
    type Below = dyn HostManaged;

    fn below(&self) -> &Self::Below {
        &*self.disk
    }

    fn flush_with(&self, journal: Option<HostJournal>) -> DeviceResult {
        let hook = self.at_flush.lock().unwrap().take();
        if let Some(hook) = hook {
            hook();
        }
        self.below().flush_with(journal)
    }
}

/// File systems give the number of a file that is gone to the next one that is made.
#[test]
fn a_commit_gives_no_map_to_a_file_with_a_reused_number() {
    let folder = TempDir::new().unwrap();
    made(folder.path(), Model::Caveat);
    let volume = Volume::open(&folder.path().join("image"), &Open::default()).unwrap();
    let disk = Arc::new(Hooked { disk: volume.device(), at_flush: Mutex::default() });
    let space = volume.space().unwrap();
    let fs = Arc::new(FileSystem::mount(disk.clone(), volume.store(), space, FsOptions::default()).unwrap());
    let (uid, gid) = owner();
    let new = NewNode { kind: Kind::File, mode: 0o600, uid, gid, rdev: 0 };
    for _ in 0..20 {
        let id = fs.make(fs.root(), b"old", &new).unwrap().id;
        fs.write(id, 0, Data::Bytes(&[1; 5000])).unwrap();
        let core = fs.clone();
        *disk.at_flush.lock().unwrap() = Some(Box::new(move || {
            core.unlink(core.root(), b"old").unwrap();
            core.forget(id, 1);
            core.make(core.root(), b"new", &new).unwrap();
        }));
        fs.sync_all().unwrap();
        let id = fs.lookup(fs.root(), b"new").unwrap().id;
        assert_eq!(volume.store().load_map(id).unwrap(), None);
        fs.forget(id, 2);
        fs.unlink(fs.root(), b"new").unwrap();
    }
}

/// The stub of a file in the metadata directory.
fn stub(folder: &Path, name: &str) -> std::path::PathBuf {
    folder.join("meta/tree").join(name)
}

const MAP: &str = "user.smrfs.map";

/// A volume with three files, left after a crash or not.
fn with_files(folder: &Path, model: Model, ends_well: bool) -> [Vec<u8>; 3] {
    made(folder, model);
    let (mut volume, fs) = open(folder);
    let (uid, gid) = owner();
    let new = NewNode { kind: Kind::File, mode: 0o600, uid, gid, rdev: 0 };
    let contents = [1, 2, 3].map(|byte| vec![byte; 100_000 * usize::from(byte)]);
    for (name, bytes) in ["a", "b", "c"].iter().zip(&contents) {
        let id = fs.make(fs.root(), name.as_bytes(), &new).unwrap().id;
        fs.write(id, 0, Data::Bytes(bytes)).unwrap();
    }
    fs.sync_all().unwrap();
    if ends_well {
        fs.unmount().unwrap();
        drop(fs);
        volume.close().unwrap();
    }
    contents
}

fn corrupt(fs: &FileSystem, name: &str) -> bool {
    // It is there, as large as is known, and can't be opened.
    let attr = fs.lookup(fs.root(), name.as_bytes()).unwrap();
    let opened = fs.open(attr.id, false, false);
    attr.size > 0 && matches!(opened, Err(FsError::Corrupt(_) | FsError::Seal(_)))
}

#[test]
fn one_damaged_map_costs_its_file_and_not_the_volume() {
    for (model, ends_well) in [Model::StrictAppend, Model::Caveat].into_iter().flat_map(|m| [(m, false), (m, true)]) {
        let folder = TempDir::new().unwrap();
        let folder = folder.path();
        let contents = with_files(folder, model, ends_well);
        let mut map = [0; 4096];
        let bytes = rustix::fs::getxattr(stub(folder, "b"), MAP, &mut map).unwrap();
        map[bytes / 2] ^= 1;
        rustix::fs::setxattr(stub(folder, "b"), MAP, &map[..bytes], rustix::fs::XattrFlags::REPLACE).unwrap();
        let image = folder.join("image");
        let whole = |fs: &FileSystem| content(fs, "a") == contents[0] && content(fs, "c") == contents[2];
        let names = |named: Vec<String>| named.len() == 1 && named[0].starts_with("/b: ");
        {
            let volume = Volume::open(&image, &Open { read_only: true, ..Open::default() }).unwrap();
            assert_eq!(survey(&volume).unwrap().damaged_maps, 1);
            let read_only = FsOptions { read_only: true, ..FsOptions::default() };
            let fs = FileSystem::mount(volume.device(), volume.store(), volume.space().unwrap(), read_only).unwrap();
            assert!(whole(&fs) && corrupt(&fs, "b"));
            assert!(ends_well || names(super::super::damaged_maps(&fs)), "a saved state names none");
        }
        let backup = folder.join("backup");
        let copy = crate::backup::of_volume(&image, &Open::default(), &backup, &|| true).unwrap();
        assert!(names(copy.damage.maps));
        let how = Open { meta: Some(copy.at.meta), ..Open::default() };
        drop(Volume::open(&copy.at.image, &how).unwrap());
        let (_volume, fs) = open(folder);
        assert!(whole(&fs) && corrupt(&fs, "b"));
        fs.rename((fs.root(), b"b"), (fs.root(), b"moved"), RenameMode::NoReplace).unwrap();
        fs.rename((fs.root(), b"moved"), (fs.root(), b"b"), RenameMode::NoReplace).unwrap();
        // Others are written, and where the place is known, the data stays for a repair.
        let id = fs.lookup(fs.root(), b"a").unwrap().id;
        fs.write(id, 0, Data::Bytes(&[9; 50_000])).unwrap();
        fs.sync(id).unwrap();
        fs.unlink(fs.root(), b"b").unwrap();
        fs.sync_all().unwrap();
    }
}

#[test]
fn a_map_that_is_gone_is_damage_and_not_an_empty_file() {
    for model in [Model::StrictAppend, Model::Caveat] {
        let folder = TempDir::new().unwrap();
        let folder = folder.path();
        let contents = with_files(folder, model, true);
        rustix::fs::removexattr(stub(folder, "b"), MAP).unwrap();
        let check = |repair: bool| {
            let volume = Volume::open(&folder.join("image"), &Open { read_only: !repair, ..Open::default() }).unwrap();
            let options = smrfs::fsck::FsckOptions { repair, ..smrfs::fsck::FsckOptions::default() };
            let report = smrfs::fsck::check(&*volume.device(), &*volume.store(), &options).unwrap();
            report.findings.iter().any(|finding| matches!(finding.problem, Problem::LostMap { .. }))
        };
        assert!(check(false), "{model:?}");
        {
            let (_volume, fs) = open(folder);
            assert!(corrupt(&fs, "b") && content(&fs, "a") == contents[0]);
            // A file that is made anew with that number is no damage.
            fs.unlink(fs.root(), b"b").unwrap();
            let (uid, gid) = owner();
            let new = NewNode { kind: Kind::File, mode: 0o600, uid, gid, rdev: 0 };
            for number in 0..20 {
                let id = fs.make(fs.root(), format!("new-{number}").as_bytes(), &new).unwrap().id;
                fs.forget(id, 1);
                assert_eq!(content(&fs, &format!("new-{number}")), b"");
            }
        }
    }
}
