//! Links, users' attributes and modes as the system calls have them.

use smrfs::data::Data;
use smrfs::device::Model;
use smrfs::error::Errno;
use smrfs::fs::FileSystem;
use smrfs::meta::memory::Limits;
use smrfs::meta::{Kind, NewNode, RenameMode, SetAttr, SetTime, Time};

use crate::rig::{GRANULE, Rig};
use crate::{FILE, options};

const DIRECTORY: NewNode = NewNode { kind: Kind::Directory, mode: 0o755, ..FILE };
/// Longest value of a user's attribute, as Linux has it.
const VALUE_BYTES: usize = 65536;

fn rig() -> Rig {
    Rig::new(Model::Caveat, options())
}

/// Errors and values as setxattr(2) and its like give them.
#[test]
fn attributes_of_users_are_set_listed_and_removed() {
    let rig = rig();
    let fs = &rig.fs;
    let id = fs.make(fs.root(), b"f", &FILE).unwrap().id;
    let set = |name: &[u8], value: &[u8], create, replace| {
        fs.set_attribute(id, name, value, create, replace).map_err(|error| error.errno())
    };
    let get = |name: &[u8]| fs.attribute(id, name).map_err(|error| error.errno());
    assert_eq!(get(b"user.a"), Err(Errno::ENODATA));
    assert_eq!(fs.attribute_names(id).unwrap(), [b""; 0]);
    assert_eq!(set(b"user.a", b"1", false, true), Err(Errno::ENODATA));
    assert_eq!(set(b"user.a", b"1", true, false), Ok(()));
    assert_eq!(set(b"user.a", b"2", true, false), Err(Errno::EEXIST));
    assert_eq!(get(b"user.a"), Ok(b"1".to_vec()));
    assert_eq!(set(b"user.a", b"22", false, true), Ok(()));
    assert_eq!(set(b"user.b", b"", false, false), Ok(()));
    assert_eq!((get(b"user.a"), get(b"user.b")), (Ok(b"22".to_vec()), Ok(vec![])));
    assert_eq!(fs.attribute_names(id).unwrap(), [b"user.a", b"user.b"]);
    assert_eq!(set(b"user.c", &[0; VALUE_BYTES + 1], false, false), Err(Errno::E2BIG));
    assert_eq!(set(b"user.c", &[0; VALUE_BYTES], false, false), Err(Errno::ENOSPC));
    assert_eq!(set(b"user.a", &vec![0; Limits::EXT4.attribute_bytes], false, false), Err(Errno::ENOSPC));
    assert_eq!(get(b"user.a"), Ok(b"22".to_vec()), "a value without room replaces none");
    for (name, errno) in [(&b""[..], Errno::ERANGE), (&[b'u'; 256], Errno::ERANGE), (b"system.a", Errno::EOPNOTSUPP)] {
        assert_eq!(set(name, b"", false, false), Err(errno));
        assert_eq!(get(name), Err(errno));
        assert_eq!(fs.remove_attribute(id, name).unwrap_err().errno(), errno);
    }
    let before = fs.attributes(id).unwrap().ctime;
    fs.remove_attribute(id, b"user.a").unwrap();
    assert!(fs.attributes(id).unwrap().ctime > before);
    assert_eq!((get(b"user.a"), fs.attribute_names(id).unwrap()), (Err(Errno::ENODATA), vec![b"user.b".to_vec()]));
    assert_eq!(fs.remove_attribute(id, b"user.a").unwrap_err().errno(), Errno::ENODATA);
}

#[test]
fn a_symbolic_link_keeps_its_target_and_no_attribute_of_users() {
    let rig = rig();
    let (fs, root) = (&rig.fs, rig.fs.root());
    let link = fs.make_link(root, b"l", b"to/what", 3, 4).unwrap();
    assert_eq!((link.kind, link.uid, link.gid, link.size), (Kind::Link, 3, 4, 7));
    assert_eq!(fs.read_link(link.id).unwrap(), b"to/what");
    assert_eq!(fs.set_attribute(link.id, b"user.a", b"", false, false).unwrap_err().errno(), Errno::EPERM);
    fs.set_attribute(link.id, b"trusted.a", b"1", false, false).unwrap();
    assert_eq!(fs.attribute(link.id, b"trusted.a").unwrap(), b"1");
    assert_eq!(fs.make_link(root, b"l", b"", 0, 0).unwrap_err().errno(), Errno::EEXIST);
    let file = fs.make(root, b"f", &FILE).unwrap();
    assert_eq!(fs.read_link(file.id).unwrap_err().errno(), Errno::EINVAL);
    let other = fs.make(root, b"m", &NewNode { kind: Kind::Link, ..FILE }).unwrap_err();
    assert_eq!(other.errno(), Errno::EINVAL, "a link is made with its target");
    assert_eq!(fs.link(file.id, root, b"g").unwrap().links, 2);
    let names: Vec<Vec<u8>> = fs.list(root, 0).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, [b"l", b"f", b"g"]);
}

#[test]
fn a_rename_replaces_only_where_it_may() {
    let rig = rig();
    let (fs, root) = (&rig.fs, rig.fs.root());
    let a = fs.make(root, b"a", &FILE).unwrap().id;
    let b = fs.make(root, b"b", &FILE).unwrap().id;
    let rename =
        |from: &[u8], to: &[u8], mode| fs.rename((root, from), (root, to), mode).map_err(|error| error.errno());
    assert_eq!(rename(b"a", b"b", RenameMode::NoReplace), Err(Errno::EEXIST));
    assert_eq!(rename(b"a", b"c", RenameMode::Exchange), Err(Errno::ENOENT));
    assert_eq!(rename(b"a", &[b'x'; 256], RenameMode::Replace), Err(Errno::ENAMETOOLONG));
    assert_eq!(rename(b"a", b"c", RenameMode::NoReplace), Ok(()));
    assert_eq!(rename(b"c", b"b", RenameMode::Exchange), Ok(()));
    let id = |name: &[u8]| fs.lookup(root, name).map(|attr| attr.id).map_err(|error| error.errno());
    assert_eq!([id(b"a"), id(b"b"), id(b"c")], [Err(Errno::ENOENT), Ok(a), Ok(b)]);
    fs.make(root, b"d", &DIRECTORY).unwrap();
    fs.remove_dir(root, b"d").unwrap();
    assert_eq!(id(b"d"), Err(Errno::ENOENT));
}

#[test]
fn modes_and_times_follow_chown_and_directories_with_a_group() {
    let rig = rig();
    let (fs, root) = (&rig.fs, rig.fs.root());
    let set = |id, set| fs.set_attributes(id, &set).unwrap();
    let shared = fs.make(root, b"d", &NewNode { mode: 0o2775, gid: 7, ..DIRECTORY }).unwrap();
    let inside = |name: &[u8], new: &NewNode| {
        let attr = fs.make(shared.id, name, new).unwrap();
        (attr.id, attr.mode, attr.gid)
    };
    let (_, mode, gid) = inside(b"d", &DIRECTORY);
    assert_eq!((mode, gid), (0o2755, 7));
    let (id, mode, gid) = inside(b"f", &NewNode { mode: 0o644, gid: 5, ..FILE });
    assert_eq!((mode, gid), (0o644, 7));
    // An owner takes set-user-id away, and set-group-id where the group may execute.
    for (before, after) in [(0o6755, 0o755), (0o6745, 0o2745), (0o755, 0o755)] {
        for (uid, gid) in [(Some(1), None), (None, Some(2))] {
            assert_eq!(set(id, SetAttr { mode: Some(before), ..SetAttr::default() }).mode, before);
            assert_eq!(set(id, SetAttr { uid, gid, ..SetAttr::default() }).mode, after);
        }
    }
    assert_eq!(set(id, SetAttr { uid: Some(1), mode: Some(0o4755), ..SetAttr::default() }).mode, 0o4755);
    assert_eq!(set(shared.id, SetAttr { uid: Some(1), ..SetAttr::default() }).mode, 0o2775);
    let (early, before) = (Time { seconds: 1, nanoseconds: 2 }, fs.attributes(id).unwrap());
    let now = set(id, SetAttr { atime: Some(SetTime::To(early)), mtime: Some(SetTime::Now), ..SetAttr::default() });
    assert_eq!(now.atime, early);
    assert!(now.mtime > before.ctime && now.ctime == now.mtime);
    assert_eq!((now.uid, now.gid), (1, 2));
    // A host that caches writes has noted when it changed the file, and tells that time until it asks.
    fs.write(id, 0, Data::Bytes(&[1])).unwrap();
    let noted = SetAttr { mtime: Some(SetTime::To(early)), ctime: Some(early), ..SetAttr::default() };
    assert_eq!((set(id, noted).mtime, set(id, noted).ctime), (early, early));
}

#[test]
fn what_is_not_durable_is_told_of_named_files_most_first() {
    let rig = rig();
    let (fs, root) = (&rig.fs, rig.fs.root());
    let file = |name: &[u8], granules: u64| {
        let id = fs.make(root, name, &FILE).unwrap().id;
        fs.write(id, 0, Data::Bytes(&vec![1; (granules * GRANULE) as usize])).unwrap();
        id
    };
    let (one, three, open) = (file(b"one", 1), file(b"three", 3), file(b"open", 2));
    file(b"durable", 2);
    fs.sync(fs.lookup(root, b"durable").unwrap().id).unwrap();
    fs.open(open, true, false).unwrap();
    fs.unlink(root, b"open").unwrap();
    let bytes = |fs: &FileSystem| fs.unsaved().into_iter().filter_map(|one| one.data_bytes).collect::<Vec<_>>();
    assert_eq!(bytes(fs), [3 * GRANULE, GRANULE]);
    fs.sync(three).unwrap();
    assert_eq!(bytes(fs), [GRANULE]);
    // A size alone is not durable either.
    fs.set_attributes(three, &SetAttr { size: Some(9 * GRANULE), ..SetAttr::default() }).unwrap();
    assert_eq!(bytes(fs), [GRANULE, 0]);
    fs.sync(one).unwrap();
    assert_eq!(bytes(fs), [0]);
    // Nor is a block on the disk that no durable map names.
    let block = Data::Blank(options().block_granules * GRANULE);
    let placed = fs.make(root, b"placed", &FILE).unwrap().id;
    fs.write(placed, 0, block).unwrap();
    fs.sync(placed).unwrap();
    assert_eq!(bytes(fs), [0]);
    fs.write(placed, 0, block).unwrap();
    assert_eq!(bytes(fs), [0, 0]);
    let is_open = |id| fs.is_open_for_writing(id).unwrap();
    assert_eq!((is_open(open), is_open(one)), (true, false));
    fs.open(one, false, false).unwrap();
    fs.release(open, true).unwrap();
    assert!(!is_open(one));
}
