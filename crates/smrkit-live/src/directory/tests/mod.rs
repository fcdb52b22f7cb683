//! Faults that only a directory can have: descriptors, names that go while a node is in use, wrong directories.

mod comparison;
mod state;

use std::collections::BTreeMap;

use smrfs::error::{Errno, FsResult};
use smrfs::meta::{Attributes, Durability, Kind, Maps, MetadataStore, Names, NewNode, RenameMode, SetAttr};
use smrfs::superblock::{Uuid, VolumeKey};
use smrfs::units::NodeId;
use tempfile::TempDir;

use super::{DirectoryStore, Home, NewHome};
use crate::error::LiveError;

const KEY: VolumeKey = VolumeKey([4; 16]);
const OWN: Uuid = Uuid([1; 16]);
const IMAGE: Uuid = Uuid([2; 16]);

pub(super) fn home(folder: &TempDir) -> Home {
    let path = folder.path().join("meta");
    NewHome::choose(&path, false).expect("a place with attributes").format(OWN, IMAGE, KEY).expect("a new directory")
}

pub(super) fn store(folder: &TempDir, descriptors: usize) -> DirectoryStore {
    DirectoryStore::open_with(home(folder), true, descriptors).expect("a store")
}

fn own() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

pub(super) fn new(kind: Kind, mode: u32, uid: u32, gid: u32) -> NewNode {
    NewNode { kind, mode, uid, gid, rdev: 0 }
}

/// All entries of a directory, in as many calls as it takes.
pub(super) fn everything(store: &dyn MetadataStore, id: NodeId) -> FsResult<Vec<(Vec<u8>, Kind, NodeId)>> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let some = store.list(id, from)?;
        let Some(last) = some.last() else { return Ok(all) };
        from = last.next;
        all.extend(some.into_iter().map(|entry| (entry.name, entry.kind, entry.id)));
    }
}

/// Every file below a directory, by path, with its map.
pub(super) fn files(store: &dyn MetadataStore) -> BTreeMap<u64, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    store
        .scan(&mut |id, map| {
            assert!(found.insert(id.0, map).is_none(), "{id} is told twice");
            Ok(())
        })
        .expect("a scan");
    found
}

fn file(store: &DirectoryStore, parent: NodeId, name: &str) -> NodeId {
    let (uid, gid) = own();
    store.make(parent, name.as_bytes(), &new(Kind::File, 0o644, uid, gid)).expect(name).id
}

fn directory(store: &DirectoryStore, parent: NodeId, name: &str) -> NodeId {
    let (uid, gid) = own();
    store.make(parent, name.as_bytes(), &new(Kind::Directory, 0o755, uid, gid)).expect(name).id
}

#[test]
fn many_files_in_use_take_few_descriptors_even_unlinked() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder, 16);
    let root = store.root();
    let ids: Vec<NodeId> = (0..400).map(|i| file(&store, root, &format!("f{i}"))).collect();
    assert!(store.nodes.lock().open <= 16);
    for (i, id) in ids.iter().enumerate() {
        store.unlink(root, format!("f{i}").as_bytes()).unwrap();
        store.store_map(*id, &[i as u8; 40]).unwrap();
    }
    let open = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
    let ours = open.filter(|path| path.starts_with(folder.path())).count();
    assert!(ours <= 16 + 16 + 8, "{ours} descriptors");
    for (i, id) in ids.iter().enumerate() {
        assert_eq!(store.attributes(*id).unwrap().links, 0);
        assert_eq!(store.load_map(*id).unwrap(), Some(vec![i as u8; 40]));
    }
    assert!(files(&store).is_empty(), "a file without a name is not told");
    let orphans = folder.path().join("meta/orphans");
    assert!(std::fs::read_dir(&orphans).unwrap().count() > 300);
    ids.iter().take(200).for_each(|id| store.forget(*id, 1));
    assert!(std::fs::read_dir(&orphans).unwrap().count() <= 200);
    drop(store);
    // The rest goes at the next mount.
    let home = Home::open(&folder.path().join("meta"), OWN, IMAGE, KEY).unwrap();
    drop(DirectoryStore::open(home, true).unwrap());
    assert_eq!(std::fs::read_dir(&orphans).unwrap().count(), 0);
}

#[test]
fn a_file_that_nobody_has_looked_up_is_found_by_its_number() {
    let folder = TempDir::new().unwrap();
    let first = store(&folder, 16);
    let deep = directory(&first, directory(&first, first.root(), "a"), "b");
    let (one, two) = (file(&first, deep, "one"), file(&first, deep, "two"));
    first.link(two, first.root(), b"second-name").unwrap();
    first.store_map(one, b"map of one").unwrap();
    drop(first);
    let store = DirectoryStore::open(Home::open(&folder.path().join("meta"), OWN, IMAGE, KEY).unwrap(), true).unwrap();
    assert_eq!(store.load_map(one).unwrap().unwrap(), b"map of one");
    store.store_map(two, b"map of two").unwrap();
    // The names that the index knows move and go.
    let root = store.root();
    let a = store.lookup(root, b"a").unwrap().id;
    store.rename((a, b"b"), (root, b"c"), RenameMode::Replace).unwrap();
    assert_eq!(store.load_map(one).unwrap().unwrap(), b"map of one");
    let c = store.lookup(root, b"c").unwrap().id;
    for (parent, name) in [(c, &b"two"[..]), (c, b"one")] {
        store.unlink(parent, name).unwrap();
    }
    assert_eq!(store.load_map(two).unwrap().unwrap(), b"map of two", "it has a second name");
    assert_eq!(store.load_map(one).unwrap_err().errno(), Errno::ENOENT);
    let late = file(&store, c, "late");
    store.forget(late, 1);
    store.store_map(late, b"map of late").unwrap();
    assert_eq!(files(&store).into_values().flatten().count(), 2);
}

#[test]
fn a_tree_deeper_than_any_path_is_scanned() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder, 16);
    let name = "d".repeat(200);
    let mut at = store.root();
    let mut ids = Vec::new();
    for _ in 0..60 {
        at = directory(&store, at, &name);
        ids.push(at);
    }
    let deepest = file(&store, at, "deepest");
    store.store_map(deepest, b"map").unwrap();
    ids.iter().chain([&deepest]).rev().for_each(|id| store.forget(*id, 1));
    assert_eq!(store.nodes.lock().known(), 2);
    assert_eq!(files(&store), BTreeMap::from([(deepest.0, Some(b"map".to_vec()))]));
    assert_eq!(store.load_map(deepest).unwrap().unwrap(), b"map");
}

#[test]
fn a_large_directory_is_listed_whole_in_parts() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder, 16);
    let root = store.root();
    for i in 0..3000 {
        let id = file(&store, root, &format!("a-name-that-is-not-short-{i}"));
        store.forget(id, 1);
    }
    let mut names: Vec<_> = everything(&store, root).unwrap().into_iter().map(|entry| entry.0).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 3000);
}

#[test]
fn users_attributes_leave_room_for_the_map_and_do_not_show_it() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder, 16);
    let id = file(&store, store.root(), "file");
    let most = store.map_bytes_max();
    let full = (0..1000).find(|i| {
        let name = format!("user.{i}");
        store.set_attribute(id, name.as_bytes(), &[1; 100], true, false).is_err()
    });
    // A file system whose attributes don't share their room, such as xfs, takes all of them.
    assert!(full.is_none() || store.home.users_bytes().is_some());
    store.store_map(id, &vec![7; most]).unwrap();
    assert_eq!(store.load_map(id).unwrap().unwrap(), vec![7; most]);
    assert!(store.attribute_names(id).unwrap().iter().all(|name| !name.starts_with(b"user.smrfs")));
    assert_eq!(store.attribute(id, b"user.smrfs.map").unwrap_err().errno(), Errno::ENODATA);
    let refused = store.set_attribute(id, b"user.smrfs.map", b"x", false, false).unwrap_err();
    assert_eq!(refused.errno(), Errno::EPERM);
}

/// A value of this many bytes that no other has.
fn long(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed).collect()
}

fn set(store: &DirectoryStore, id: NodeId, name: &str, value: &[u8]) -> FsResult {
    store.set_attribute(id, name.as_bytes(), value, false, false)
}

/// The stub of the file `file`.
fn stub(folder: &TempDir) -> std::path::PathBuf {
    folder.path().join("meta/tree/file")
}

#[test]
fn attributes_have_up_to_64_kib_whatever_the_host_gives() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder, 16);
    let id = file(&store, store.root(), "file");
    let modified = store.attributes(id).unwrap().mtime;
    let lengths = [65536, 3000, 60000, 10, 65535, 5000];
    for (seed, bytes) in lengths.into_iter().enumerate() {
        set(&store, id, &format!("user.{seed}"), &long(bytes, seed as u8)).unwrap();
    }
    assert_eq!(store.attributes(id).unwrap().mtime, modified);
    let most = store.map_bytes_max();
    store.store_map(id, &vec![7; most]).unwrap();
    drop(store);
    let store = DirectoryStore::open(Home::open(&folder.path().join("meta"), OWN, IMAGE, KEY).unwrap(), true).unwrap();
    for (seed, bytes) in lengths.into_iter().enumerate() {
        let name = format!("user.{seed}");
        assert!(store.attribute(id, name.as_bytes()).unwrap() == long(bytes, seed as u8), "{name}");
    }
    let mut names = store.attribute_names(id).unwrap();
    names.sort();
    assert_eq!(names, (0..6).map(|at| format!("user.{at}").into_bytes()).collect::<Vec<_>>());
    assert_eq!(store.load_map(id).unwrap().unwrap(), vec![7; most]);
    // Long to short, short to long, gone.
    set(&store, id, "user.0", b"short").unwrap();
    set(&store, id, "user.3", &long(40000, 9)).unwrap();
    assert_eq!(store.attribute(id, b"user.0").unwrap(), b"short");
    assert!(store.attribute(id, b"user.3").unwrap() == long(40000, 9));
    let flags = |name: &str, create, replace| {
        store.set_attribute(id, name.as_bytes(), &long(50000, 1), create, replace).map_err(|error| error.errno())
    };
    assert_eq!((flags("user.3", true, false), flags("user.8", false, true)), (Err(Errno::EEXIST), Err(Errno::ENODATA)));
    assert_eq!((flags("user.3", false, true), flags("user.8", true, false)), (Ok(()), Ok(())));
    for name in store.attribute_names(id).unwrap() {
        store.remove_attribute(id, &name).unwrap();
        assert_eq!(store.remove_attribute(id, &name).unwrap_err().errno(), Errno::ENODATA);
        assert_eq!(store.attribute(id, &name).unwrap_err().errno(), Errno::ENODATA);
    }
    assert!(store.attribute_names(id).unwrap().is_empty());
    assert_eq!(std::fs::metadata(stub(&folder)).unwrap().len(), 0, "the stub is empty again");
    assert_eq!(store.attributes(id).unwrap().mtime, modified);
    assert_eq!(store.load_map(id).unwrap().unwrap(), vec![7; most]);
}

/// False, with a word for the skip list, where the host itself takes long attributes.
fn has_long_values(store: &DirectoryStore) -> bool {
    let is_so = store.home.users_bytes().is_some();
    if !is_so {
        println!("skipped: attributes have all their room next to the file here");
    }
    is_so
}

/// The value that the disk still names is whole wherever a crash comes: a new one is written next to it.
#[test]
fn a_crash_leaves_the_old_long_value_or_the_new_one() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder, 16);
    if !has_long_values(&store) {
        return;
    }
    let id = file(&store, store.root(), "file");
    let list = || {
        let mut value = vec![0; 65536];
        let bytes = rustix::fs::getxattr(stub(&folder), "user.smrfs.values", &mut value[..]).ok()?;
        Some(value[..bytes].to_vec())
    };
    let put_back = |list: &[u8]| {
        rustix::fs::setxattr(stub(&folder), "user.smrfs.values", list, rustix::fs::XattrFlags::empty()).unwrap();
    };
    for (one, other) in [(60000, 60000), (60000, 20000), (20000, 60000)] {
        for (round, bytes) in [one, other, one, other].into_iter().enumerate() {
            let before = list().map(|list| (list, store.attribute(id, b"user.a").unwrap()));
            set(&store, id, "user.a", &long(bytes, round as u8)).unwrap();
            let (Some(new), Some((old, value))) = (list(), before) else { continue };
            put_back(&old);
            assert!(store.attribute(id, b"user.a").unwrap() == value, "round {round} of {one} and {other}");
            put_back(&new);
            assert!(store.attribute(id, b"user.a").unwrap() == long(bytes, round as u8));
        }
        // Both lie there after a crash between the two steps: the one next to the file counts, and goes with the other.
        let old = list().unwrap();
        set(&store, id, "user.a", b"short").unwrap();
        put_back(&old);
        assert_eq!(store.attribute(id, b"user.a").unwrap(), b"short");
        assert_eq!(store.attribute_names(id).unwrap(), [b"user.a"]);
        store.remove_attribute(id, b"user.a").unwrap();
        assert_eq!(store.attribute(id, b"user.a").unwrap_err().errno(), Errno::ENODATA);
    }
    assert!(std::fs::metadata(stub(&folder)).unwrap().len() <= 120_000, "room is used again");
}

#[test]
fn damaged_long_values_are_refused_found_and_taken_away() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder, 16);
    if !has_long_values(&store) {
        return;
    }
    let id = file(&store, store.root(), "file");
    set(&store, id, "user.a", &long(60000, 1)).unwrap();
    set(&store, id, "user.b", &long(50000, 2)).unwrap();
    let check = |repair| {
        let mut told = Vec::new();
        store.check_attributes(repair, &mut |id, reason| told.push((id, reason))).unwrap();
        told
    };
    assert_eq!(check(false), []);
    let mut stored = std::fs::read(stub(&folder)).unwrap();
    stored[123] ^= 1;
    std::fs::write(stub(&folder), &stored).unwrap();
    assert_eq!(store.attribute(id, b"user.a").unwrap_err().errno(), Errno::EIO);
    let found = vec![(id, "not what was written: user.a".to_string())];
    assert_eq!((check(false), check(true), check(false)), (found.clone(), found, vec![]));
    assert_eq!(store.attribute(id, b"user.a").unwrap_err().errno(), Errno::ENODATA);
    assert!(store.attribute(id, b"user.b").unwrap() == long(50000, 2));
    std::fs::write(stub(&folder), b"").unwrap();
    assert_eq!(check(true).len(), 1);
    assert!(store.attribute_names(id).unwrap().is_empty());
}

#[test]
fn a_copy_of_the_directory_has_the_long_values() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder, 16);
    let id = file(&store, store.root(), "file");
    set(&store, id, "user.a", &long(65536, 1)).unwrap();
    let copy = folder.path().join("copy");
    super::copy(&folder.path().join("meta"), &copy, &|| true).unwrap();
    drop(store);
    let store = DirectoryStore::open(Home::open(&copy, OWN, IMAGE, KEY).unwrap(), true).unwrap();
    let id = store.lookup(store.root(), b"file").unwrap().id;
    assert!(store.attribute(id, b"user.a").unwrap() == long(65536, 1));
}

#[test]
fn long_values_leave_room_for_the_map() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder, 16);
    let id = file(&store, store.root(), "file");
    let name = |number: usize| format!("user.{number}.{}", "n".repeat(200));
    let refused = (0..30).find(|&number| set(&store, id, &name(number), &long(65536, number as u8)).is_err());
    assert!(store.home.users_bytes().is_none() || refused.is_some_and(|number| number > 3), "{refused:?}");
    let is_full = |number: &i32| set(&store, id, &format!("user.short.{number}"), &[1; 100]).is_err();
    assert_eq!((0..100).find(is_full).is_some(), store.home.users_bytes().is_some());
    let most = store.map_bytes_max();
    store.store_map(id, &vec![7; most]).unwrap();
    assert!(store.attribute(id, name(2).as_bytes()).unwrap() == long(65536, 2));
}

/// The value that it replaces takes no room in the end.
#[test]
fn a_long_value_replaces_a_short_one_that_fills_the_room() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder, 16);
    let id = file(&store, store.root(), "file");
    if !has_long_values(&store) {
        return;
    }
    let room = store.home.users_bytes().unwrap();
    set(&store, id, "user.a", &long(room - 60, 1)).unwrap();
    assert!(set(&store, id, "user.b", b"0123456789").is_err(), "no room is left");
    set(&store, id, "user.a", &long(60000, 2)).unwrap();
    assert!(store.attribute(id, b"user.a").unwrap() == long(60000, 2));
    set(&store, id, "user.b", b"0123456789").unwrap();
}

/// A write takes capabilities away, and a crash would not give them back.
#[test]
fn a_program_with_capabilities_takes_no_long_value() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder, 16);
    let id = file(&store, store.root(), "file");
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    if store.home.users_bytes().is_none() || set(&store, id, "security.capability", &capability).is_err() {
        return;
    }
    assert_eq!(set(&store, id, "user.a", &long(60000, 1)).unwrap_err().errno(), Errno::ENOSPC);
    assert_eq!(store.attribute(id, b"security.capability").unwrap(), capability);
    store.remove_attribute(id, b"security.capability").unwrap();
    set(&store, id, "user.a", &long(60000, 1)).unwrap();
    set(&store, id, "security.capability", &capability).unwrap();
    assert!(store.attribute(id, b"user.a").unwrap() == long(60000, 1));
    assert_eq!(store.attribute(id, b"security.capability").unwrap(), capability);
}

#[test]
fn parts_and_states_are_kept_under_their_names() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder, 16);
    let numbers = [0, 1, 255, 256, 257, u64::MAX];
    for number in numbers {
        store.store_spill(number, &number.to_le_bytes()).unwrap();
        store.sync_spill(number).unwrap();
    }
    assert_eq!(store.store_spill(256, b"again").unwrap_err().errno(), Errno::EEXIST);
    assert_eq!(store.load_spill(256).unwrap(), 256_u64.to_le_bytes());
    std::fs::write(folder.path().join("meta/maps/00/notes"), "not ours").unwrap();
    assert_eq!(store.spills().unwrap(), numbers);
    store.remove_spill(257).unwrap();
    assert_eq!(store.load_spill(257).unwrap_err().errno(), Errno::ENOENT);
    assert_eq!(store.load_state("free-map").unwrap(), None);
    store.store_state("free-map", b"first").unwrap();
    store.store_state("free-map", b"second").unwrap();
    assert_eq!(store.load_state("free-map").unwrap().unwrap(), b"second");
    store.remove_state("free-map").unwrap();
    store.remove_state("free-map").unwrap();
    assert_eq!(store.load_state("free-map").unwrap(), None);
    assert_eq!(store.store_state("../escape", b"x").unwrap_err().errno(), Errno::EINVAL);
}

#[test]
fn a_saved_state_is_taken_where_it_was_stored_and_not_in_a_copy() {
    let folder = TempDir::new().unwrap();
    let original = store(&folder, 16);
    original.store_state("free-map", b"saved").unwrap();
    drop(original);
    let (meta, copy) = (folder.path().join("meta"), folder.path().join("copy"));
    let status = std::process::Command::new("cp").arg("-a").arg(&meta).arg(&copy).status();
    assert!(status.unwrap().success());
    let state = |path: &std::path::Path| {
        let store = DirectoryStore::open(Home::open(path, OWN, IMAGE, KEY).unwrap(), false).unwrap();
        store.load_state("free-map").unwrap()
    };
    assert_eq!(state(&meta).as_deref(), Some(&b"saved"[..]));
    assert_eq!(state(&copy), None);
    // A state put back from a copy, and a tree put back below a state that stayed.
    std::fs::remove_file(meta.join("state/free-map")).unwrap();
    let status =
        std::process::Command::new("cp").arg("-a").args([copy.join("state/free-map"), meta.join("state")]).status();
    assert!(status.unwrap().success());
    assert_eq!(state(&meta), None);
}

#[test]
fn a_wrong_or_a_used_directory_is_refused() {
    let folder = TempDir::new().unwrap();
    let meta = folder.path().join("meta");
    assert!(matches!(Home::open(&meta, OWN, IMAGE, KEY), Err(LiveError::NoMetadata(_))));
    std::fs::create_dir(&meta).unwrap();
    assert!(matches!(Home::open(&meta, OWN, IMAGE, KEY), Err(LiveError::NotMetadata(_))));
    std::fs::write(meta.join("file"), "x").unwrap();
    assert!(matches!(NewHome::choose(&meta, true), Err(LiveError::NotEmpty(_))));
    assert!(matches!(Home::open(&meta.join("file"), OWN, IMAGE, KEY), Err(LiveError::NotADirectory(_))));
    std::fs::remove_file(meta.join("file")).unwrap();
    let home = home(&folder);
    assert!(matches!(Home::open(&meta, OWN, IMAGE, KEY), Err(LiveError::InUse(_))));
    assert!(matches!(NewHome::choose(&meta, true), Err(LiveError::InUse(_))));
    drop(home);
    assert!(matches!(Home::open(&meta, OWN, Uuid([3; 16]), KEY), Err(LiveError::OtherImage { .. })));
    assert!(matches!(Home::open(&meta, IMAGE, IMAGE, KEY), Err(LiveError::OtherImage { .. })));
    assert!(matches!(NewHome::choose(&meta, false), Err(LiveError::Exists(_))));
    drop(Home::open(&meta, OWN, IMAGE, KEY).unwrap());
}

/// As root permissions are no obstacle; as another user they are, and a file that was opened first is written all the same.
#[test]
fn the_map_of_a_file_is_stored_whatever_its_permissions_are() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder, 16);
    for mode in [0o000, 0o444, 0o200] {
        let name = format!("mode-{mode}");
        let id = file(&store, store.root(), &name);
        store.set_attributes(id, &SetAttr { mode: Some(mode), ..SetAttr::default() }).unwrap();
        store.store_map(id, b"map").unwrap();
        assert_eq!(store.load_map(id).unwrap().unwrap(), b"map");
        assert_eq!(store.attributes(id).unwrap().mode, mode);
        store.sync(id).unwrap();
    }
    assert_eq!(files(&store).len(), 3);
}

/// A pipe without a writer would be waited for, a link followed.
#[test]
fn only_a_regular_file_is_read_as_a_part_or_a_state() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder, 16);
    store.store_spill(7, b"part").unwrap();
    store.store_state("free-map", b"state").unwrap();
    let meta = folder.path().join("meta");
    let (part, state) = (meta.join(format!("maps/07/{:016x}", 7)), meta.join("state/free-map"));
    let odd = |store: &DirectoryStore| {
        for error in [store.load_spill(7).unwrap_err(), store.load_state("free-map").unwrap_err()] {
            assert_eq!(error.errno(), Errno::EIO);
            assert!(error.to_string().contains("no regular file: remove it"), "{error}");
        }
    };
    for path in [&part, &state] {
        std::fs::remove_file(path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    }
    odd(&store);
    for path in [&part, &state] {
        std::fs::remove_file(path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", path).unwrap();
    }
    odd(&store);
    for path in [&part, &state] {
        std::fs::remove_file(path).unwrap();
        std::fs::create_dir(path).unwrap();
    }
    odd(&store);
}
