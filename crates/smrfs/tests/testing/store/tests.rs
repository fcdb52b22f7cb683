//! Names behave as in a real directory.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use proptest::prelude::*;

use super::*;
use crate::meta::{Attributes, Maps, Names, RenameMode};

/// A clock that counts.
fn counter() -> Clock {
    let seconds = AtomicI64::new(0);
    Arc::new(move || Time { seconds: seconds.fetch_add(1, Relaxed), nanoseconds: 0 })
}

const FILE: NewNode = NewNode { kind: Kind::File, mode: 0o644, uid: 1, gid: 2, rdev: 0 };
const DIRECTORY: NewNode = NewNode { kind: Kind::Directory, mode: 0o755, uid: 1, gid: 2, rdev: 0 };

/// Directory and name out of a handful.
type Place = (usize, usize);

#[derive(Clone, Debug)]
enum Op {
    File(Place),
    Directory(Place),
    Symlink(Place),
    Link(Place, Place),
    Unlink(Place),
    RemoveDir(Place),
    Rename(Place, Place),
}

const DIRECTORIES: [&str; 7] = ["", "a", "b", "a/a", "a/b", "b/a", "a/a/c"];
const NAMES: [&str; 3] = ["a", "b", "c"];

fn op() -> impl Strategy<Value = Op> {
    let place = || (0..DIRECTORIES.len(), 0..NAMES.len());
    prop_oneof![
        2 => place().prop_map(Op::File),
        3 => place().prop_map(Op::Directory),
        1 => place().prop_map(Op::Symlink),
        2 => (place(), place()).prop_map(|(from, to)| Op::Link(from, to)),
        2 => place().prop_map(Op::Unlink),
        2 => place().prop_map(Op::RemoveDir),
        5 => (place(), place()).prop_map(|(from, to)| Op::Rename(from, to)),
    ]
}

fn path(root: &Path, place: Place) -> PathBuf {
    root.join(DIRECTORIES[place.0]).join(NAMES[place.1])
}

/// The node of a path; what stands in the way as an error.
fn walk(store: &MemoryStore, path: &str) -> FsResult<NodeId> {
    path.split('/').filter(|name| !name.is_empty()).try_fold(store.root(), |at, name| {
        let attr = store.lookup(at, name.as_bytes())?;
        store.forget(attr.id, 1);
        Ok(attr.id)
    })
}

fn on_store(store: &MemoryStore, op: &Op) -> FsResult {
    let at = |place: Place| {
        let parent = walk(store, DIRECTORIES[place.0])?;
        store.list(parent, 0)?;
        Ok::<_, FsError>((parent, NAMES[place.1].as_bytes()))
    };
    let made = match *op {
        Op::File(place) => at(place).and_then(|(parent, name)| store.make(parent, name, &FILE))?,
        Op::Directory(place) => at(place).and_then(|(parent, name)| store.make(parent, name, &DIRECTORY))?,
        Op::Symlink(place) => at(place).and_then(|(parent, name)| store.make_link(parent, name, b"/dev/null", 0, 0))?,
        Op::Link(from, to) => {
            let (parent, name) = at(from)?;
            let id = store.lookup(parent, name)?.id;
            store.forget(id, 1);
            at(to).and_then(|(parent, name)| store.link(id, parent, name))?
        }
        Op::Unlink(place) => return at(place).and_then(|(parent, name)| store.unlink(parent, name)),
        Op::RemoveDir(place) => return at(place).and_then(|(parent, name)| store.remove_dir(parent, name)),
        Op::Rename(from, to) => return store.rename(at(from)?, at(to)?, RenameMode::Replace),
    };
    store.forget(made.id, 1);
    Ok(())
}

fn on_directory(root: &Path, op: &Op) -> io::Result<()> {
    match *op {
        Op::File(place) => fs::File::create_new(path(root, place)).map(drop),
        Op::Directory(place) => fs::create_dir(path(root, place)),
        Op::Symlink(place) => symlink("/dev/null", path(root, place)),
        Op::Link(from, to) => fs::hard_link(path(root, from), path(root, to)),
        Op::Unlink(place) => fs::remove_file(path(root, place)),
        Op::RemoveDir(place) => fs::remove_dir(path(root, place)),
        Op::Rename(from, to) => fs::rename(path(root, from), path(root, to)),
    }
}

/// Every path with its kind and its number of links.
fn tree_of_store(store: &MemoryStore, id: NodeId, path: &str, out: &mut BTreeMap<String, (Kind, u32)>) {
    let attr = store.attributes(id).unwrap();
    out.insert(path.to_owned(), (attr.kind, attr.links));
    if attr.kind == Kind::Directory {
        let (mut from, mut seen) = (0, 0);
        loop {
            let entries = store.list(id, from).unwrap();
            let Some(last) = entries.last() else { break };
            from = last.next;
            for entry in entries {
                seen += 1;
                tree_of_store(store, entry.id, &format!("{path}/{}", String::from_utf8(entry.name).unwrap()), out);
            }
        }
        assert!(seen <= 3);
    }
}

fn tree_of_directory(at: &Path, path: &str, out: &mut BTreeMap<String, (Kind, u32)>) {
    let metadata = fs::symlink_metadata(at).unwrap();
    let kind = match metadata.file_type() {
        kind if kind.is_dir() => Kind::Directory,
        kind if kind.is_symlink() => Kind::Link,
        _ => Kind::File,
    };
    // Some file systems count the names in a directory as 1.
    let links = if kind == Kind::Directory { 0 } else { metadata.nlink() as u32 };
    out.insert(path.to_owned(), (kind, links));
    if kind == Kind::Directory {
        for entry in fs::read_dir(at).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            tree_of_directory(&at.join(&name), &format!("{path}/{name}"), out);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn names_behave_as_in_a_real_directory(ops in prop::collection::vec(op(), 0..80)) {
        let directory = tempfile::tempdir().unwrap();
        let store = MemoryStore::new(Limits::EXT4, counter());
        for op in &ops {
            let ours = on_store(&store, op).map_err(|error| error.errno());
            let real = on_directory(directory.path(), op).map_err(|error| Errno(error.raw_os_error().unwrap()));
            prop_assert_eq!(ours, real, "{:?}", op);
            let (mut ours, mut real) = (BTreeMap::new(), BTreeMap::new());
            tree_of_store(&store, store.root(), "", &mut ours);
            tree_of_directory(directory.path(), "", &mut real);
            for (path, (kind, links)) in &mut ours {
                if *kind == Kind::Directory {
                    let below = real.iter().filter(|(name, (kind, _))| {
                        let inside = name.strip_prefix(path.as_str()).and_then(|rest| rest.strip_prefix('/'));
                        *kind == Kind::Directory && inside.is_some_and(|rest| !rest.contains('/'))
                    });
                    prop_assert_eq!(*links as usize, 2 + below.count());
                    *links = 0;
                }
            }
            prop_assert_eq!(ours, real);
        }
        prop_assert!(store.lock().tree.nodes.len() <= 1 + ops.len());
    }
}

#[test]
fn a_map_takes_what_attributes_leave() {
    let store = MemoryStore::new(Limits::EXT4, counter());
    let id = store.make(store.root(), b"file", &FILE).unwrap().id;
    let room = Limits::EXT4.map_bytes + Limits::EXT4.attribute_bytes;
    let refused = |bytes: usize| {
        let error = store.store_map(id, &vec![1; bytes]).unwrap_err();
        assert_eq!(error.errno(), Errno::ENOSPC, "{bytes}");
    };
    for bytes in [0, 1, room - 1, room] {
        store.store_map(id, &vec![bytes as u8; bytes]).unwrap();
        refused(room + 1);
        refused(2 * room);
        assert_eq!(store.load_map(id).unwrap(), Some(vec![bytes as u8; bytes]));
    }
    store.store_map(id, &[1]).unwrap();
    store.set_attribute(id, b"user.a", &[2; 1000], false, false).unwrap();
    refused(room);
    refused(room - 1000);
    store.store_map(id, &vec![3; room - 1100]).unwrap();
}
