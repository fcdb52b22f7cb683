//! The store against the one in memory: equal results of the same random operations.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::error::{Errno, FsResult};
use smrfs::meta::memory::{Limits, MemoryStore};
use smrfs::meta::{Attr, Attributes, Kind, Maps, MetadataStore, Names, RenameMode, SetAttr, SetTime, Time};
use smrfs::units::NodeId;
use tempfile::TempDir;

use super::super::DirectoryStore;
use super::{everything, files, new, store};

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
        const NAMES: [&str; 4] = ["user.one", "user.two", "system.other", "nonsense"];
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

#[track_caller]
fn same<T: PartialEq + std::fmt::Debug>(said: &str, (memory, directory): (T, T)) {
    assert_eq!(memory, directory, "{said}");
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
