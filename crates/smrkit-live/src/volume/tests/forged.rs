//! Maps made by another hand: refused when they are read, named by the check, and no harm to the files that they name.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::chown;
use std::path::Path;

use rustix::fs::XattrFlags;
use smrfs::data::{Data, ReadBuffer};
use smrfs::device::Model;
use smrfs::error::Errno;
use smrfs::fs::{FileSystem, FsOptions};
use smrfs::fsck::report::{Problem, Verdict};
use smrfs::fsck::{self, check};
use smrfs::meta::{Attributes, Kind, Maps, Names, NewNode, SetAttr};
use smrfs::superblock::VolumeKey;
use tempfile::TempDir;

use super::super::{Layout, MkfsOptions, Open, Volume, mkfs};
use crate::directory::seal::{Owners, Sealer};

const MAP: &str = "user.smrfs.map";
const NOBODY: u32 = 65534;

fn open(folder: &Path) -> (Volume, FileSystem) {
    let volume = Volume::open(&folder.join("image"), &Open::default()).expect("a volume");
    let space = volume.space().expect("a space");
    let fs = FileSystem::mount(volume.device(), volume.store(), space, FsOptions::default()).expect("a mount");
    (volume, fs)
}

fn end((mut volume, fs): (Volume, FileSystem)) {
    fs.unmount().expect("an end");
    drop(fs);
    volume.close().expect("a close");
}

fn write(fs: &FileSystem, name: &str, uid: u32, bytes: &[u8]) {
    let new = NewNode { kind: Kind::File, mode: 0o600, uid, gid: uid, rdev: 0 };
    let id = fs.make(fs.root(), name.as_bytes(), &new).unwrap().id;
    fs.open(id, true, false).unwrap();
    fs.write(id, 0, Data::Bytes(bytes)).unwrap();
    fs.sync(id).unwrap();
    fs.release(id, true).unwrap();
}

fn read(fs: &FileSystem, name: &str) -> Result<Vec<u8>, Errno> {
    let attr = fs.lookup(fs.root(), name.as_bytes()).map_err(|error| error.errno())?;
    fs.open(attr.id, false, false).map_err(|error| error.errno())?;
    let mut bytes = vec![0; attr.size as usize];
    fs.read(attr.id, 0, ReadBuffer::Bytes(&mut bytes)).map_err(|error| error.errno())?;
    Ok(bytes)
}

/// A volume with a file of root's, two of another user's, and a second one of root's, left in good order.
fn made(model: Model) -> Option<TempDir> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can make files of two users");
        return None;
    }
    let folder = TempDir::new().unwrap();
    let layout = Layout { model, size_bytes: 64 << 20, did_bytes: None, dpid_bytes: None, band_bytes: None };
    let (image, meta) = (folder.path().join("image"), folder.path().join("meta"));
    mkfs(&MkfsOptions { image, meta, layout, force: false }).unwrap();
    let mounted = open(folder.path());
    for (name, uid) in [("secret", 0), ("evil", NOBODY), ("other", NOBODY), ("twin", 0)] {
        write(&mounted.1, name, uid, &name.repeat(5000).into_bytes());
    }
    end(mounted);
    Some(folder)
}

fn stub(folder: &Path, name: &str) -> OwnedFd {
    File::open(folder.join("meta/tree").join(name)).unwrap().into()
}

fn stored(folder: &Path, name: &str) -> Vec<u8> {
    let mut bytes = vec![0; 65536];
    let length = rustix::fs::fgetxattr(stub(folder, name), MAP, &mut bytes).unwrap();
    bytes.truncate(length);
    bytes
}

fn store(folder: &Path, name: &str, bytes: &[u8]) {
    rustix::fs::fsetxattr(stub(folder, name), MAP, bytes, XattrFlags::empty()).unwrap();
}

/// The record of a file, sealed with a key of one's own for whom one likes.
fn forged(folder: &Path, name: &str) -> Vec<u8> {
    let key =
        Volume::open(&folder.join("image"), &Open { read_only: true, ..Open::default() }).unwrap().superblock().key;
    let map = Sealer::new(key).open_map(0, 0, stored(folder, name)).unwrap();
    Sealer::new(VolumeKey([1; 16])).seal_map(&map.record, Owners::only(NOBODY), 77)
}

/// Checks that the map of `victim` is refused, on a mount and by the check, and `secret` keeps its data.
fn is_refused(folder: &Path, victim: &str, names_it: fn(&Problem) -> bool) {
    let mounted = open(folder);
    assert_eq!(read(&mounted.1, victim), Err(Errno::EIO));
    assert_eq!(read(&mounted.1, "secret").unwrap(), "secret".repeat(5000).into_bytes());
    mounted.1.check().unwrap();
    end(mounted);
    let volume = Volume::open(&folder.join("image"), &Open::default()).unwrap();
    let options = fsck::FsckOptions { repair: true, ..fsck::FsckOptions::default() };
    let report = check(&*volume.device(), &*volume.store(), &options).unwrap();
    assert_eq!(report.verdict, Verdict::Repaired, "{:?}", report.findings);
    assert!(report.findings.iter().any(|finding| names_it(&finding.problem)), "{:?}", report.findings);
    let report = check(&*volume.device(), &*volume.store(), &options).unwrap();
    assert_eq!(report.verdict, Verdict::Clean, "{:?}", report.findings);
    drop(volume);
    let mounted = open(folder);
    assert_eq!(read(&mounted.1, "secret").unwrap(), "secret".repeat(5000).into_bytes());
    mounted.1.unlink(mounted.1.root(), victim.as_bytes()).unwrap();
    write(&mounted.1, "new", 0, &[9; 1 << 20]);
    assert_eq!(read(&mounted.1, "secret").unwrap(), "secret".repeat(5000).into_bytes());
    end(mounted);
}

#[test]
fn a_damaged_long_attribute_is_named_and_removed_by_the_check() {
    for model in [Model::StrictAppend, Model::Caveat] {
        let Some(folder) = made(model) else { return };
        let mounted = open(folder.path());
        let id = mounted.1.lookup(mounted.1.root(), b"twin").unwrap().id;
        for name in [b"user.a", b"user.b"] {
            mounted.1.set_attribute(id, name, &vec![name[5]; 60_000], false, false).unwrap();
        }
        mounted.1.sync(id).unwrap();
        end(mounted);
        let path = folder.path().join("meta/tree/twin");
        let mut held = std::fs::read(&path).unwrap();
        // A host whose attributes are long enough keeps them there.
        let Some(byte) = held.get_mut(70_000) else { return };
        *byte ^= 1;
        std::fs::write(&path, &held).unwrap();
        let check_it = |repair| {
            let volume = Volume::open(&folder.path().join("image"), &Open::default()).unwrap();
            let options = fsck::FsckOptions { repair, ..fsck::FsckOptions::default() };
            let report = check(&*volume.device(), &*volume.store(), &options).unwrap();
            let problems: Vec<String> = report.findings.iter().map(|found| found.problem.to_string()).collect();
            (report.verdict, problems.concat())
        };
        let (found, problems) = check_it(false);
        assert_eq!(found, Verdict::ErrorsLeft);
        assert!(problems.ends_with("attributes: not what was written: user.b"), "{problems}");
        assert_eq!((check_it(true).0, check_it(false)), (Verdict::Repaired, (Verdict::Clean, String::new())));
        let mounted = open(folder.path());
        let id = mounted.1.lookup(mounted.1.root(), b"twin").unwrap().id;
        assert!(mounted.1.attribute(id, b"user.a").unwrap() == vec![b'a'; 60_000]);
        assert_eq!(mounted.1.attribute_names(id).unwrap(), [b"user.a"]);
        assert_eq!(read(&mounted.1, "twin").unwrap(), "twin".repeat(5000).into_bytes());
        end(mounted);
    }
}

fn is_forged(problem: &Problem) -> bool {
    matches!(problem, Problem::ForgedMap { .. })
}

#[test]
fn a_map_made_without_the_key_is_refused() {
    for model in [Model::StrictAppend, Model::Caveat] {
        let Some(folder) = made(model) else { return };
        store(folder.path(), "evil", &forged(folder.path(), "secret"));
        is_refused(folder.path(), "evil", is_forged);
    }
}

#[test]
fn a_map_copied_from_another_users_file_is_refused() {
    for model in [Model::StrictAppend, Model::Caveat] {
        let Some(folder) = made(model) else { return };
        store(folder.path(), "evil", &stored(folder.path(), "secret"));
        is_refused(folder.path(), "evil", is_forged);
    }
}

#[test]
fn a_map_copied_from_a_file_of_the_same_user_is_refused() {
    for model in [Model::StrictAppend, Model::Caveat] {
        let Some(folder) = made(model) else { return };
        store(folder.path(), "twin", &stored(folder.path(), "secret"));
        is_refused(folder.path(), "twin", is_forged);
    }
}

/// Its own older map, whose place another file has by now: no seal tells, but what is live does.
#[test]
fn an_older_map_put_back_does_not_show_what_others_wrote() {
    for model in [Model::StrictAppend, Model::Caveat] {
        let Some(folder) = made(model) else { return };
        let older = stored(folder.path(), "evil");
        let mounted = open(folder.path());
        mounted.1.unlink(mounted.1.root(), b"evil").unwrap();
        mounted.1.sync_all().unwrap();
        write(&mounted.1, "evil", NOBODY, b"small");
        end(mounted);
        store(folder.path(), "evil", &older);
        let mounted = open(folder.path());
        assert_eq!(read(&mounted.1, "evil"), Err(Errno::EIO));
        mounted.1.unlink(mounted.1.root(), b"evil").unwrap();
        mounted.1.check().unwrap();
    }
}

#[test]
fn a_map_follows_its_file_to_a_new_owner() {
    let Some(folder) = made(Model::Caveat) else { return };
    let mounted = open(folder.path());
    let fs = &mounted.1;
    let id = fs.lookup(fs.root(), b"evil").unwrap().id;
    fs.set_attributes(id, &SetAttr { uid: Some(1234), ..SetAttr::default() }).unwrap();
    end(mounted);
    let mounted = open(folder.path());
    assert_eq!(read(&mounted.1, "evil").unwrap(), "evil".repeat(5000).into_bytes());
    end(mounted);
}

#[test]
fn a_map_given_away_does_not_come_back_with_its_file() {
    let Some(folder) = made(Model::Caveat) else { return };
    let volume = Volume::open(&folder.path().join("image"), &Open::default()).unwrap();
    let store = volume.store();
    let id = store.lookup(store.root(), b"evil").unwrap().id;
    store.set_attributes(id, &SetAttr { uid: Some(1234), ..SetAttr::default() }).unwrap();
    assert!(store.load_map(id).unwrap().is_some());
    chown(folder.path().join("meta/tree/evil"), Some(NOBODY), None).unwrap();
    assert!(store.load_map(id).is_err(), "sealed for the new owner alone");
}

#[test]
fn owners_changed_by_a_copy_are_accepted_on_demand_alone() {
    let Some(folder) = made(Model::StrictAppend) else { return };
    for name in ["secret", "evil", "other", "twin"] {
        chown(folder.path().join("meta/tree").join(name), Some(4321), None).unwrap();
    }
    let run = |accept_owners| {
        let volume = Volume::open(&folder.path().join("image"), &Open::default()).unwrap();
        let options = fsck::FsckOptions { repair: true, accept_owners, ..fsck::FsckOptions::default() };
        check(&*volume.device(), &*volume.store(), &options).unwrap()
    };
    let left = run(false);
    assert_eq!((left.verdict, left.found), (Verdict::ErrorsLeft, 4), "{:?}", left.findings);
    assert!(left.findings.iter().all(|finding| matches!(finding.problem, Problem::OtherOwner { .. })));
    assert_eq!(run(true).verdict, Verdict::Repaired);
    assert_eq!(run(false).verdict, Verdict::Clean);
    let mounted = open(folder.path());
    for name in ["secret", "evil", "other", "twin"] {
        assert_eq!(read(&mounted.1, name).unwrap(), name.repeat(5000).into_bytes());
    }
}

#[test]
fn a_copy_of_the_whole_volume_keeps_its_maps() {
    let Some(folder) = made(Model::Caveat) else { return };
    let copy = TempDir::new().unwrap();
    for name in ["image", "meta"] {
        let mut cp = std::process::Command::new("cp");
        assert!(cp.arg("-a").arg(folder.path().join(name)).arg(copy.path()).status().unwrap().success());
    }
    let how = Open { meta: Some(copy.path().join("meta")), ..Open::default() };
    let volume = Volume::open(&copy.path().join("image"), &how).unwrap();
    let options = fsck::FsckOptions { read_all: true, repair: true, ..fsck::FsckOptions::default() };
    let report = check(&*volume.device(), &*volume.store(), &options).unwrap();
    // The saved free map knows files by the numbers of the original.
    let stale = |problem: &Problem| matches!(problem, Problem::StaleState { .. });
    assert!(report.findings.iter().all(|finding| stale(&finding.problem)), "{:?}", report.findings);
    let fs = FileSystem::mount(volume.device(), volume.store(), volume.space().unwrap(), FsOptions::default()).unwrap();
    assert_eq!(read(&fs, "secret").unwrap(), "secret".repeat(5000).into_bytes());
}
