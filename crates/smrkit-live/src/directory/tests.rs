//! The store against the one in memory: the same operations, the same answers. And what only a directory can get wrong:
//! descriptors, names that go while a node is in use, wrong directories.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::error::{Errno, FsResult};
use smrfs::meta::memory::{Limits, MemoryStore};
use smrfs::meta::{Attr, Kind, MetadataStore, NewNode, RenameMode, SetAttr, SetTime, Time};
use smrfs::superblock::{Uuid, VolumeKey};
use smrfs::units::NodeId;
use tempfile::TempDir;

use super::{DirectoryStore, Home, Site};
use crate::error::LiveError;

const KEY: VolumeKey = VolumeKey([4; 16]);
const OWN: Uuid = Uuid([1; 16]);
const IMAGE: Uuid = Uuid([2; 16]);

fn home(folder: &TempDir) -> Home {
    let path = folder.path().join("meta");
    Site::choose(&path, false).expect("a place with attributes").furnish(OWN, IMAGE, KEY).expect("a new directory")
}

fn store(folder: &TempDir, descriptors: usize) -> DirectoryStore {
    DirectoryStore::open_with(home(folder), true, descriptors).expect("a store")
}

fn new(kind: Kind, mode: u32, uid: u32, gid: u32) -> NewNode {
    NewNode { kind, mode, uid, gid, rdev: 0 }
}

/// Two stores that are told the same.
struct Pair {
    memory: MemoryStore,
    directory: DirectoryStore,
    /// Nodes with an answer outstanding, by their number in memory.
    known: BTreeMap<u64, (NodeId, NodeId, u64)>,
}

type Ids = (NodeId, NodeId);

impl Pair {
    fn new(folder: &TempDir, descriptors: usize) -> Pair {
        let ticks = AtomicI64::new(0);
        let clock = Arc::new(move || Time { seconds: ticks.fetch_add(1, Ordering::Relaxed), nanoseconds: 0 });
        let memory = MemoryStore::new(Limits { nodes: 1 << 40, ..Limits::EXT4 }, clock);
        let directory = store(folder, descriptors);
        Pair { memory, directory, known: BTreeMap::new() }
    }

    fn both<T>(
        &self,
        what: impl Fn(&dyn MetadataStore, fn(Ids) -> NodeId) -> FsResult<T>,
    ) -> (Result<T, Errno>, Result<T, Errno>) {
        let memory = what(&self.memory, |ids| ids.0).map_err(|error| error.errno());
        let directory = what(&self.directory, |ids| ids.1).map_err(|error| error.errno());
        (memory, directory)
    }

    /// Both answer alike; what they answer about is known from now on.
    #[track_caller]
    fn answer(&mut self, said: &str, (memory, directory): (Result<Attr, Errno>, Result<Attr, Errno>)) {
        match (memory, directory) {
            (Ok(memory), Ok(directory)) => {
                self.alike(said, &memory, &directory);
                let entry = self.known.entry(memory.id.0).or_insert((memory.id, directory.id, 0));
                assert_eq!(entry.1, directory.id, "{said}: another node");
                entry.2 += 1;
            }
            (memory, directory) => assert_eq!(memory.err(), directory.err(), "{said}"),
        }
    }

    #[track_caller]
    fn alike(&self, said: &str, memory: &Attr, directory: &Attr) {
        // File systems differ in whether directories count as links of the one above.
        let links = |attr: &Attr| if attr.kind == Kind::Directory { attr.links.min(1) } else { attr.links };
        let seen = |attr: &Attr| (attr.kind, attr.mode, attr.uid, attr.gid, links(attr));
        assert_eq!(seen(memory), seen(directory), "{said}");
        if memory.kind == Kind::Link {
            assert_eq!(memory.size, directory.size, "{said}");
        }
    }

    fn roots(&self) -> Ids {
        (self.memory.root(), self.directory.root())
    }

    /// The root or any known node.
    fn any(&self, dice: &mut Pcg64Mcg) -> Ids {
        let at = dice.random_range(0..=self.known.len());
        self.known.values().nth(at).map_or(self.roots(), |known| (known.0, known.1))
    }

    fn forget(&mut self, dice: &mut Pcg64Mcg) {
        let at = dice.random_range(0..=self.known.len());
        if let Some((&key, &(memory, directory, count))) = self.known.iter().nth(at) {
            self.memory.forget(memory, count);
            self.directory.forget(directory, count);
            self.known.remove(&key);
        }
    }

    fn step(&mut self, dice: &mut Pcg64Mcg) {
        const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "A-longer-name.txt", ".hidden"];
        const MODES: [u32; 6] = [0o644, 0o600, 0o755, 0o2755, 0o4711, 0o1777];
        let (a, b) = (self.any(dice), self.any(dice));
        let name = |dice: &mut Pcg64Mcg| NAMES[dice.random_range(0..NAMES.len())].as_bytes();
        let (from, to) = (name(dice), name(dice));
        let mode = MODES[dice.random_range(0..MODES.len())];
        let (uid, gid) = (dice.random_range(0..3), dice.random_range(0..3));
        match dice.random_range(0..24) {
            0..4 => {
                let kinds = [Kind::File, Kind::File, Kind::Directory, Kind::Pipe, Kind::Socket];
                let node = new(kinds[dice.random_range(0..kinds.len())], mode, uid, gid);
                let said = format!("make {node:?} {}", from.escape_ascii());
                let answer = self.both(|store, of| store.make(of(a), from, &node));
                self.answer(&said, answer);
            }
            4 => {
                let answer = self.both(|store, of| store.make_link(of(a), from, to, uid, gid));
                self.answer("make_link", answer);
            }
            5..9 => {
                let answer = self.both(|store, of| store.lookup(of(a), from));
                self.answer("lookup", answer);
            }
            9 => {
                let answer = self.both(|store, of| store.link(of(a), of(b), from));
                self.answer("link", answer);
            }
            10..12 => same("unlink", self.both(|store, of| store.unlink(of(a), from))),
            12 => same("remove_dir", self.both(|store, of| store.remove_dir(of(a), from))),
            13..16 => {
                let modes = [RenameMode::Replace, RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange];
                let how = modes[dice.random_range(0..modes.len())];
                same(&format!("rename {how:?}"), self.both(|store, of| store.rename((of(a), from), (of(b), to), how)));
            }
            16 => self.set(a, mode, uid, gid, dice),
            17..19 => self.attributes(a, dice),
            19 => same("read_link", self.both(|store, of| store.read_link(of(a)))),
            20 => {
                let map = vec![7; dice.random_range(0..self.directory.map_bytes_max().min(1900))];
                let kind = self.memory.attributes(a.0).map(|attr| attr.kind);
                if kind.is_ok_and(|kind| kind == Kind::File) {
                    same("store_map", self.both(|store, of| store.store_map(of(a), &map)));
                }
                same("load_map", self.both(|store, of| store.load_map(of(a))));
            }
            21 => {
                let listed = |store: &dyn MetadataStore, id| {
                    let mut names: Vec<_> =
                        everything(store, id)?.into_iter().map(|(name, kind, _)| (name, kind as u8)).collect();
                    names.sort();
                    Ok(names)
                };
                same("list", self.both(|store, of| listed(store, of(a))));
            }
            _ => self.forget(dice),
        }
        let answer = self.both(|store, of| store.attributes(of(b)));
        match answer {
            (Ok(memory), Ok(directory)) => self.alike("attributes", &memory, &directory),
            (memory, directory) => assert_eq!(memory.err(), directory.err(), "attributes"),
        }
    }

    fn set(&self, a: Ids, mode: u32, uid: u32, gid: u32, dice: &mut Pcg64Mcg) {
        let some = |dice: &mut Pcg64Mcg| dice.random_bool(0.5);
        let time = Time { seconds: dice.random_range(-5..5), nanoseconds: dice.random_range(0..1_000_000_000) };
        let is_link = self.memory.attributes(a.0).is_ok_and(|attr| attr.kind == Kind::Link);
        let set = SetAttr {
            // The kernel changes no permissions of links.
            mode: (some(dice) && !is_link).then_some(mode),
            uid: some(dice).then_some(uid),
            gid: some(dice).then_some(gid),
            mtime: Some(SetTime::To(time)),
            ..SetAttr::default()
        };
        // What a change of the owner does to set-id bits is the kernel's business.
        let set = if set.mode.is_none() { SetAttr { uid: None, gid: None, ..set } } else { set };
        match self.both(|store, of| store.set_attributes(of(a), &set)) {
            (Ok(memory), Ok(directory)) => {
                self.alike(&format!("{set:?}"), &memory, &directory);
                assert_eq!((memory.mtime, directory.mtime), (time, time));
            }
            (memory, directory) => assert_eq!(memory.err(), directory.err(), "{set:?}"),
        }
    }

    fn attributes(&self, a: Ids, dice: &mut Pcg64Mcg) {
        const NAMES: [&str; 4] = ["user.one", "user.two", "system.posix_acl_access", "nonsense"];
        let name = NAMES[dice.random_range(0..NAMES.len())].as_bytes();
        let (create, replace) = [(false, false), (true, false), (false, true)][dice.random_range(0..3)];
        let kind = self.memory.attributes(a.0).map(|attr| attr.kind);
        // The kernel says EPERM for any user's attribute of what is neither a file nor a directory.
        if !kind.as_ref().is_ok_and(|kind| matches!(kind, Kind::File | Kind::Directory)) {
            return;
        }
        let value = vec![b'v'; dice.random_range(0..100)];
        let said = format!("{} of {:?}", name.escape_ascii(), kind);
        match dice.random_range(0..3) {
            0 => same(&said, self.both(|store, of| store.set_attribute(of(a), name, &value, create, replace))),
            1 => same(&said, self.both(|store, of| store.remove_attribute(of(a), name))),
            _ => same(&said, self.both(|store, of| store.attribute(of(a), name))),
        }
        same(
            "attribute_names",
            self.both(|store, of| {
                let mut names = store.attribute_names(of(a))?;
                names.sort();
                // What the security modules of a host add is not the users'.
                names.retain(|name| name.starts_with(b"user."));
                Ok(names)
            }),
        );
    }
}

fn own() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

#[track_caller]
fn same<T: PartialEq + std::fmt::Debug>(said: &str, (memory, directory): (T, T)) {
    assert_eq!(memory, directory, "{said}");
}

/// All entries of a directory, in as many calls as it takes.
fn everything(store: &dyn MetadataStore, id: NodeId) -> FsResult<Vec<(Vec<u8>, Kind, NodeId)>> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let some = store.list(id, from)?;
        let Some(last) = some.last() else { return Ok(all) };
        from = last.next;
        all.extend(some.into_iter().map(|entry| (entry.name, entry.kind, entry.id)));
    }
}

/// Every file below a directory, by path, with its map.
fn files(store: &dyn MetadataStore) -> BTreeMap<u64, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    store
        .scan(&mut |id, map| {
            assert!(found.insert(id.0, map).is_none(), "{id} is told twice");
            Ok(())
        })
        .expect("a scan");
    found
}

#[test]
fn it_answers_as_the_store_in_memory_does() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: the store in memory checks no permissions, which only root is free of here");
        return;
    }
    for (seed, descriptors) in [(1, 3), (2, 4), (3, 16), (4, 1000)] {
        let folder = TempDir::new().expect("a folder");
        let mut pair = Pair::new(&folder, descriptors);
        let dice = &mut Pcg64Mcg::seed_from_u64(seed);
        for _ in 0..8000 {
            pair.step(dice);
        }
        while !pair.known.is_empty() {
            pair.forget(dice);
        }
        // Nothing is known any more; what is there is the same, and the orphans are gone.
        let maps = |store: &dyn MetadataStore| {
            let mut maps: Vec<_> = files(store).into_values().collect();
            maps.sort();
            maps
        };
        assert_eq!(maps(&pair.memory), maps(&pair.directory), "seed {seed}");
        assert_eq!(std::fs::read_dir(folder.path().join("meta/orphans")).unwrap().count(), 0);
    }
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
fn any_number_of_files_in_use_takes_few_descriptors_also_when_their_names_go() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder, 16);
    let root = store.root();
    let ids: Vec<NodeId> = (0..400).map(|i| file(&store, root, &format!("f{i}"))).collect();
    assert!(store.nodes().open() <= 16);
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
    assert_eq!(store.nodes().known(), 2);
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
    assert!(full.is_none() || store.home().users_bytes().is_some());
    store.store_map(id, &vec![7; most]).unwrap();
    assert_eq!(store.load_map(id).unwrap().unwrap(), vec![7; most]);
    assert!(store.attribute_names(id).unwrap().iter().all(|name| !name.starts_with(b"user.smrfs")));
    assert_eq!(store.attribute(id, b"user.smrfs.map").unwrap_err().errno(), Errno::ENODATA);
    let refused = store.set_attribute(id, b"user.smrfs.map", b"x", false, false).unwrap_err();
    assert_eq!(refused.errno(), Errno::EPERM);
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
    assert!(matches!(Site::choose(&meta, true), Err(LiveError::NotEmpty(_))));
    assert!(matches!(Home::open(&meta.join("file"), OWN, IMAGE, KEY), Err(LiveError::NotADirectory(_))));
    std::fs::remove_file(meta.join("file")).unwrap();
    let home = home(&folder);
    assert!(matches!(Home::open(&meta, OWN, IMAGE, KEY), Err(LiveError::InUse(_))));
    assert!(matches!(Site::choose(&meta, true), Err(LiveError::InUse(_))));
    drop(home);
    assert!(matches!(Home::open(&meta, OWN, Uuid([3; 16]), KEY), Err(LiveError::OtherImage { .. })));
    assert!(matches!(Home::open(&meta, IMAGE, IMAGE, KEY), Err(LiveError::OtherImage { .. })));
    assert!(matches!(Site::choose(&meta, false), Err(LiveError::Exists(_))));
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
