//! Nodes and other files of the store, as it tells them, compared with what the host's file system says.

use std::os::unix::fs::MetadataExt;

use smrfs::error::Errno;
use smrfs::meta::{Attr, Attributes, Durability, Kind, Maps, Names, RenameMode, SetAttr, SetTime, Time};
use smrfs::units::NodeId;
use tempfile::TempDir;

use super::super::seal::SEAL_BYTES;
use super::super::{DirectoryStore, check_name};
use super::{home, new, store};

fn own() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

fn make(store: &DirectoryStore, name: &str, kind: Kind, mode: u32) -> Attr {
    let (uid, gid) = own();
    store.make(store.root(), name.as_bytes(), &new(kind, mode, uid, gid)).expect(name)
}

fn at(seconds: i64) -> Time {
    Time { seconds, nanoseconds: 5 }
}

/// The attributes of what is in the tree, as the host tells them; of files it knows no data.
fn told(folder: &TempDir, name: &str, kind: Kind) -> Attr {
    let host = std::fs::symlink_metadata(folder.path().join("meta/tree").join(name)).unwrap();
    let time = |seconds, nanoseconds| Time { seconds, nanoseconds: nanoseconds as u32 };
    let is_file = kind == Kind::File;
    Attr {
        id: NodeId(host.ino()),
        generation: 0,
        kind,
        mode: host.mode() & 0o7777,
        links: host.nlink() as u32,
        uid: host.uid(),
        gid: host.gid(),
        rdev: host.rdev() as u32,
        size: if is_file { 0 } else { host.size() },
        blocks: if is_file { 0 } else { host.blocks() },
        atime: time(host.atime(), host.atime_nsec()),
        mtime: time(host.mtime(), host.mtime_nsec()),
        ctime: time(host.ctime(), host.ctime_nsec()),
    }
}

#[test]
fn attributes_are_those_that_the_host_tells_of_each_kind() {
    let folder = TempDir::new().unwrap();
    let first = store(&folder, 16);
    let (uid, gid) = own();
    let mut kinds =
        vec![("file", Kind::File), ("directory", Kind::Directory), ("pipe", Kind::Pipe), ("socket", Kind::Socket)];
    let mut generations = std::collections::HashMap::new();
    for (name, kind) in &kinds {
        generations.insert(*name, make(&first, name, *kind, 0o4751).generation);
    }
    if rustix::process::geteuid().is_root() {
        for (name, kind) in [("tty", Kind::CharDevice), ("disk", Kind::BlockDevice)] {
            let device = smrfs::meta::NewNode { rdev: 0x0703, ..new(kind, 0o600, uid, gid) };
            let made = first.make(first.root(), name.as_bytes(), &device).unwrap();
            assert_eq!((made.rdev, made.kind), (0x0703, kind));
            kinds.push((name, kind));
        }
    }
    first.make_link(first.root(), b"link", b"somewhere else", uid, gid).unwrap();
    kinds.push(("link", Kind::Link));
    drop(first);
    std::fs::write(folder.path().join("meta/tree/file"), [7; 9000]).unwrap();
    let store = DirectoryStore::open_with(home_again(&folder), true, 16).unwrap();
    for (name, kind) in kinds {
        let found = store.lookup(store.root(), name.as_bytes()).unwrap();
        assert_eq!(Attr { generation: 0, ..found }, told(&folder, name, kind), "{name}");
        assert!(generations.get(name).is_none_or(|made| *made == found.generation), "{name}");
        assert!(kind != Kind::Link || found.size == 14);
        let id = found.id;
        let set =
            SetAttr { atime: Some(SetTime::To(at(100))), mtime: Some(SetTime::To(at(200))), ..SetAttr::default() };
        let changed = store.set_attributes(id, &set).unwrap();
        assert_eq!((changed.atime, changed.mtime), (at(100), at(200)), "{name}");
        let only = SetAttr { atime: Some(SetTime::To(at(300))), ..SetAttr::default() };
        let changed = store.set_attributes(id, &only).unwrap();
        assert_eq!((changed.atime, changed.mtime), (at(300), at(200)), "{name}");
        assert!(changed.ctime >= found.ctime && store.attributes(id).unwrap().ctime == changed.ctime, "{name}");
        let host = told(&folder, name, kind);
        assert_eq!((host.atime, host.mtime), (at(300), at(200)), "{name}");
    }
}

fn home_again(folder: &TempDir) -> super::Home {
    use smrfs::superblock::{Uuid, VolumeKey};
    super::Home::open(&folder.path().join("meta"), Uuid([1; 16]), Uuid([2; 16]), VolumeKey([4; 16])).unwrap()
}

/// The kernel forgets nodes when it needs memory. Programs that compare times would take a file for changed.
#[test]
fn times_are_the_same_after_a_node_was_forgotten() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder, 16);
    for kind in [Kind::File, Kind::Directory, Kind::Pipe] {
        let name = format!("{kind:?}");
        let mut told = make(&store, &name, kind, 0o700);
        for changes in 0..3 {
            store.forget(told.id, 1);
            let again = store.lookup(store.root(), name.as_bytes()).unwrap();
            assert_eq!((told.mtime, told.ctime), (again.mtime, again.ctime), "{name} after {changes} changes");
            if kind == Kind::Directory {
                let (uid, gid) = own();
                let inside = format!("{changes}");
                let made = store.make(told.id, inside.as_bytes(), &new(Kind::File, 0o644, uid, gid)).unwrap();
                store.forget(made.id, 1);
            }
            let mode = SetAttr { mode: Some(0o600 + changes), ..SetAttr::default() };
            told = store.set_attributes(told.id, &mode).unwrap();
        }
    }
}

#[test]
fn every_change_of_names_sets_the_times_of_what_it_changes() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder, 16);
    let root = store.root();
    let below = make(&store, "below", Kind::Directory, 0o755).id;
    let file = make(&store, "file", Kind::File, 0o644).id;
    let other = make(&store, "other", Kind::File, 0o644).id;
    let times = |id| {
        let attr = store.attributes(id).unwrap();
        (attr.mtime, attr.ctime)
    };
    type Act<'a> = (&'a str, &'a dyn Fn(), &'a [NodeId], &'a [NodeId]);
    // What is done, whose names change by it, and whose state alone.
    let acts: [Act<'_>; 8] = [
        (
            "make",
            &|| {
                make(&store, "more", Kind::File, 0o644);
            },
            &[root],
            &[],
        ),
        (
            "link",
            &|| {
                store.link(file, below, b"second").unwrap();
            },
            &[below],
            &[file],
        ),
        ("unlink", &|| store.unlink(below, b"second").unwrap(), &[below], &[file]),
        (
            "move",
            &|| store.rename((root, b"more"), (below, b"more"), RenameMode::Replace).unwrap(),
            &[root, below],
            &[],
        ),
        (
            "exchange",
            &|| store.rename((root, b"file"), (root, b"other"), RenameMode::Exchange).unwrap(),
            &[root],
            &[file, other],
        ),
        (
            "replace",
            &|| store.rename((below, b"more"), (root, b"file"), RenameMode::Replace).unwrap(),
            &[root, below],
            &[other],
        ),
        (
            "set",
            &|| {
                store.set_attributes(file, &SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
            },
            &[],
            &[file],
        ),
        ("attribute", &|| store.set_attribute(file, b"user.a", b"x", false, false).unwrap(), &[], &[file]),
    ];
    for (what, act, names, states) in acts {
        let all = [root, below, file, other];
        let before = all.map(times);
        // Longer than a tick of the host's clock.
        std::thread::sleep(std::time::Duration::from_millis(20));
        act();
        for (id, (mtime, ctime)) in all.into_iter().zip(before) {
            let found = times(id);
            let (is_named, is_changed) = (names.contains(&id), states.contains(&id) || names.contains(&id));
            assert!(if is_named { found.0 > mtime } else { found.0 == mtime }, "{what}, {id}: mtime");
            assert!(if is_changed { found.1 > ctime } else { found.1 == ctime }, "{what}, {id}: ctime");
        }
    }
}

#[test]
fn a_folder_of_parts_is_settled_once_a_part_of_it_is_durable() {
    let folder = TempDir::new().unwrap();
    let mut store = store(&folder, 16);
    // With a journal nothing is synced before the record.
    store.journal = None;
    for number in [7, 256 + 9] {
        store.store_spill(number, b"part").unwrap();
    }
    let durable_folders = || (0..256).filter(|&folder| store.home.durable_folders.lock()[folder]).collect::<Vec<_>>();
    assert_eq!(durable_folders(), [0; 0]);
    store.sync_spill(256 + 9).unwrap();
    assert_eq!(durable_folders(), [9]);
    store.sync_spill(7).unwrap();
    assert_eq!(durable_folders(), [7, 9]);
}

#[test]
fn names_that_are_none_are_refused_everywhere() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder, 16);
    let (root, file) = (store.root(), make(&store, "file", Kind::File, 0o644).id);
    let (uid, gid) = own();
    for name in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0"] {
        let refused = [
            check_name(name),
            store.lookup(root, name).map(drop),
            store.make(root, name, &new(Kind::File, 0o644, uid, gid)).map(drop),
            store.make_link(root, name, b"x", uid, gid).map(drop),
            store.link(file, root, name).map(drop),
            store.unlink(root, name),
            store.rename((root, name), (root, b"new"), RenameMode::Replace),
            store.rename((root, b"file"), (root, name), RenameMode::Replace),
        ];
        assert!(refused.into_iter().all(|done| done.is_err_and(|error| error.errno() == Errno::EINVAL)), "{name:?}");
    }
    for name in [&b"..."[..], b".a", b"a b", b"\xff"] {
        check_name(name).unwrap();
    }
}

#[test]
fn a_state_is_one_of_the_directory_that_it_is_in() {
    let folder = TempDir::new().unwrap();
    let home = home(&folder);
    let room = home.room().unwrap();
    let host = rustix::fs::statvfs(folder.path()).unwrap();
    assert_eq!((room.nodes, room.name_bytes), (host.f_files, 255));
    assert!(room.free_nodes <= room.nodes && room.free_bytes >= host.f_bavail.saturating_sub(1 << 16) * host.f_frsize);
    let most = home.map_bytes() + SEAL_BYTES;
    match home.users_bytes() {
        Some(users) => assert!(most == users || most + 1 == users, "half for maps: {most}, {users}"),
        None => assert!(most >= 4000, "{most}"),
    }
    let store = DirectoryStore::open(home, true).unwrap();
    for name in ["free-map", "damaged-map.7", "damaged-map", "other"] {
        store.store_state(name, name.as_bytes()).unwrap();
    }
    store.home.forget_states().unwrap();
    let left: Vec<_> =
        std::fs::read_dir(folder.path().join("meta/state")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["damaged-map.7"]);
}

/// An attribute lies next to its file up to the last byte of the room for users', and in the stub beyond.
#[test]
fn users_attributes_fill_their_room_to_the_byte() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder, 16);
    let id = make(&store, "file", Kind::File, 0o644).id;
    let Some(room) = store.home.users_bytes() else {
        println!("skipped: attributes have all their room next to the file here");
        return;
    };
    let is_long = || {
        let mut list = vec![0; 65536];
        rustix::fs::getxattr(folder.path().join("meta/tree/file"), "user.smrfs.values", &mut list[..]).is_ok()
    };
    let set = |name: &[u8], bytes: usize| store.set_attribute(id, name, &vec![7; bytes], false, false).unwrap();
    // Besides name and value 24 bytes are counted for each.
    set(b"user.b", 100);
    let left = room - (6 + 100 + 24) - (6 + 24);
    for (bytes, long) in [(left - 1, false), (left, false), (left + 1, true)] {
        set(b"user.a", bytes);
        assert_eq!(is_long(), long, "{bytes} of {left}");
        assert!(store.attribute(id, b"user.a").unwrap() == vec![7; bytes]);
    }
}

#[test]
fn a_node_is_found_by_its_number_and_by_what_lies_in_it() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder, 16);
    let root = store.root();
    let below = make(&store, "below", Kind::Directory, 0o755).id;
    let (uid, gid) = own();
    let file = store.make(below, b"file", &new(Kind::File, 0o644, uid, gid)).unwrap();
    let found = store.find(file.id).unwrap();
    assert_eq!(Attr { ctime: file.ctime, ..found }, file);
    assert_eq!((store.parent(below).unwrap().id, store.find(root).unwrap().id), (root, root));
    assert_eq!([store.path_to(file.id), store.path_to(root)], [Some(b"/below/file".to_vec()), Some(Vec::new())]);
    assert_eq!(store.path_to(NodeId(u64::MAX)), None);
    assert_eq!(store.find(NodeId(u64::MAX)).unwrap_err().errno(), Errno::ENOENT);
    store.unlink(below, b"file").unwrap();
    assert_eq!(store.path_to(file.id), None);
    assert_eq!(store.attributes(file.id).unwrap().links, 0);
    // The number counts as found twice, and is given back as often.
    store.forget(file.id, 1);
    assert!(store.attributes(file.id).is_ok());
    store.forget(file.id, 1);
    assert_eq!(store.attributes(file.id).unwrap_err().errno(), Errno::ENOENT);
    assert_eq!(store.read_link(root).unwrap_err().errno(), Errno::EINVAL);
    assert_eq!(store.remove_dir(root, b"none").unwrap_err().errno(), Errno::ENOENT);
    store.remove_dir(root, b"below").unwrap();
}
