//! A recorded run: random operations on a file system, and what each of them promised.

use std::collections::BTreeMap;
use std::rc::Rc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::data::{Data, ReadBuffer};
use smrfs::error::{Errno, FsError, FsResult};
use smrfs::fs::statistics::Statistics;
use smrfs::fs::{Allocate, FileSystem};
use smrfs::meta::{Kind, NewNode, RenameMode, SetAttr};
use smrfs::space::caveat::Placement;
use smrfs::units::NodeId;

use crate::rig::{Disk, GRANULE, Mounted, Rig};

/// A directory and a name in it.
pub type Place = (usize, u8);

/// The directories.
pub const DIRECTORIES: usize = 2;

/// The names in each.
pub const NAMES: std::ops::Range<u8> = b'a'..b'e';

/// State from an operation of the power supply on.
pub struct Moment<T> {
    pub from: u64,
    pub what: T,
}

/// Account of a run and its promises.
pub struct Run {
    pub rig: Rig,
    pub directories: Vec<NodeId>,
    /// The first operation that is the run's own.
    pub first: u64,
    /// Every name after each change.
    pub names: Vec<Moment<BTreeMap<Place, NodeId>>>,
    /// Every content of each file.
    pub contents: BTreeMap<NodeId, Vec<Moment<Rc<[u8]>>>>,
    /// When each file was made durable: from then on, as it was.
    pub synced_files: BTreeMap<NodeId, Vec<u64>>,
    /// When each name was.
    pub synced_names: BTreeMap<Place, Vec<u64>>,
    /// A file with this content got this name by a rename or a link, which commits it first.
    pub given: Vec<Moment<(Place, NodeId)>>,
    /// Before the last mount.
    cleaned: (u64, u64),
    mounted: Mounted,
    random: Pcg64Mcg,
}

impl Run {
    /// Makes a file system, whose placement policy the seed decides, and does `count` random operations on it.
    pub fn new(disk: Disk, seed: u64, count: usize) -> Run {
        Run::on(Rig::new(disk, seed % 2 == 1), seed, count)
    }

    /// As [`Run::new`], on a rig that may break.
    pub fn on(mut rig: Rig, seed: u64, count: usize) -> Run {
        rig.placement = Placement::ALL[seed as usize % Placement::ALL.len()];
        let mounted = rig.mount().expect("an empty file system");
        let fs = &mounted.fs;
        let new = NewNode { kind: Kind::Directory, mode: 0o755, uid: 0, gid: 0, rdev: 0 };
        let directories = vec![fs.root(), fs.make(fs.root(), b"x", &new).expect("a directory").id];
        fs.sync_all().expect("a sync");
        let first = rig.power.operations() + 1;
        let names = vec![Moment { from: 0, what: BTreeMap::new() }];
        let mut run = Run {
            rig,
            directories,
            first,
            names,
            contents: BTreeMap::new(),
            synced_files: BTreeMap::new(),
            synced_names: BTreeMap::new(),
            given: Vec::new(),
            cleaned: (0, 0),
            mounted,
            random: Pcg64Mcg::seed_from_u64(seed),
        };
        for _ in 0..count {
            run.step();
        }
        run.mounted.check();
        run
    }

    /// Pieces that were moved, and bands that were reset.
    pub fn cleaned(&self) -> (u64, u64) {
        let Statistics { moves, resets, .. } = self.fs().statistics();
        (self.cleaned.0 + moves, self.cleaned.1 + resets)
    }

    /// The file system as it is now.
    pub fn fs(&self) -> &FileSystem {
        &self.mounted.fs
    }

    fn place(&mut self) -> Place {
        (self.random.random_range(0..DIRECTORIES), self.random.random_range(NAMES))
    }

    /// A name that exists, mostly.
    fn file(&mut self) -> Place {
        let names: Vec<Place> = self.current().keys().copied().collect();
        if names.is_empty() { self.place() } else { names[self.random.random_range(0..names.len())] }
    }

    /// The names as they are now.
    pub fn current(&self) -> &BTreeMap<Place, NodeId> {
        &self.names.last().expect("at least one").what
    }

    fn step(&mut self) {
        let from = self.rig.power.operations() + 1;
        let mut names = self.current().clone();
        let kind = self.random.random_range(0..100);
        let (a, b) = (self.file(), self.place());
        let id = names.get(&a).copied();
        let at = |run: &Run, place: Place| (run.directories[place.0], [place.1]);
        let done: FsResult = match (kind, id) {
            (0..12, _) => self.make(b).map(|id| {
                names.insert(b, id);
            }),
            (12..46, Some(id)) => self.write(id),
            (46..50, Some(id)) => {
                let ((from, bytes), (to, _)) = (self.range(), self.range());
                let to_id = names.get(&b).copied().unwrap_or(id);
                self.fs().share((id, from), (to_id, to), bytes).map(drop)
            }
            (50..56, Some(id)) => {
                let size = self.random.random_range(0..10 * GRANULE);
                self.fs().set_attributes(id, &SetAttr { size: Some(size), ..SetAttr::default() }).map(drop)
            }
            (56..59, Some(id)) => {
                let (offset, bytes) = self.range();
                let how = [Allocate::Punch, Allocate::Extend, Allocate::KeepSize, Allocate::Zero(true)];
                let how = how[self.random.random_range(0..how.len())];
                self.fs().allocate(id, how, offset, bytes)
            }
            (59..62, Some(id)) => {
                let ((parent, name), fs) = (at(self, b), self.fs());
                let linked = fs.link(id, parent, &name).map(|_| fs.forget(id, 1));
                if linked.is_ok() {
                    names.insert(b, id);
                    self.given.push(Moment { from, what: (b, id) });
                }
                linked
            }
            (62..69, Some(id)) => {
                let ((parent, name), (to, to_name)) = (at(self, a), at(self, b));
                let renamed = self.fs().rename((parent, &name), (to, &to_name), RenameMode::Replace);
                if renamed.is_ok() && names.get(&b) != Some(&id) {
                    names.remove(&a);
                    names.insert(b, id);
                    self.given.push(Moment { from, what: (b, id) });
                }
                renamed
            }
            (69..73, Some(_)) => {
                let (parent, name) = at(self, a);
                self.fs().unlink(parent, &name).map(|()| {
                    names.remove(&a);
                })
            }
            (73..83, Some(id)) => self.fs().sync(id).map(|()| self.promise(Some(id), None)),
            (83..87, _) => {
                let directory = self.directories[b.0];
                self.fs().sync_dir(directory).map(|()| self.promise(None, Some(b.0)))
            }
            (87..90, _) => self.fs().sync_all().map(|()| self.promise_all()),
            (90..92, _) => self.remount(),
            _ => (0..self.random.random_range(1..6)).try_for_each(|_| self.fs().background(kind % 2 == 0).map(drop)),
        };
        match done {
            // Refusals change nothing (the model test has them), and are no failure of the disk.
            Ok(()) => {}
            // It may have been done in part.
            Err(error) if self.rig.power.is_broken() && error.errno() == Errno::EIO => names = self.found(),
            Err(FsError::Errno(_)) => {}
            Err(error) => panic!("{error}"),
        }
        if names != *self.current() {
            self.names.push(Moment { from, what: names });
        }
        self.note_contents(from);
    }

    /// The names that there are.
    fn found(&self) -> BTreeMap<Place, NodeId> {
        let places = (0..DIRECTORIES).flat_map(|directory| NAMES.map(move |name| (directory, name)));
        let found = places.filter_map(|place| {
            let id = self.fs().lookup(self.directories[place.0], &[place.1]).ok()?.id;
            self.fs().forget(id, 1);
            Some((place, id))
        });
        found.collect()
    }

    /// A clean unmount, which promises everything, and a mount.
    fn remount(&mut self) -> FsResult {
        self.fs().unmount()?;
        self.promise_all();
        self.mounted.check();
        self.cleaned = self.cleaned();
        // An access that fails may be one of the mount's; it is not the next one's.
        self.mounted = self.rig.mount().or_else(|_| self.rig.mount())?;
        Ok(())
    }

    /// From here on all is durable as it is now.
    pub fn promise_all(&mut self) {
        (0..DIRECTORIES).for_each(|directory| self.promise(None, Some(directory)));
        let files: Vec<NodeId> = self.current().values().copied().collect();
        files.into_iter().for_each(|id| self.promise(Some(id), None));
    }

    fn make(&self, place: Place) -> FsResult<NodeId> {
        let new = NewNode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0 };
        let attr = self.fs().make(self.directories[place.0], &[place.1], &new)?;
        self.fs().forget(attr.id, 1);
        Ok(attr.id)
    }

    fn range(&mut self) -> (u64, u64) {
        let aligned = self.random.random_bool(0.5);
        let unit = if aligned { GRANULE } else { 1 };
        let offset = self.random.random_range(0..20 * GRANULE) / unit * unit;
        (offset, (self.random.random_range(1..9 * GRANULE) / unit * unit).max(unit))
    }

    fn write(&mut self, id: NodeId) -> FsResult {
        let (offset, bytes) = self.range();
        let value = self.random.random_range(1..=255u8);
        let bytes: Vec<u8> = (0..bytes).map(|i| value.wrapping_add(i as u8)).collect();
        self.fs().write(id, offset, Data::Bytes(&bytes))
    }

    /// From here on these are durable as they are now.
    fn promise(&mut self, file: Option<NodeId>, directory: Option<usize>) {
        let now = self.rig.power.operations();
        if let Some(id) = file {
            self.synced_files.entry(id).or_default().push(now);
        }
        let names = self.current().clone();
        let places = (0..DIRECTORIES).flat_map(|directory| NAMES.map(move |name| (directory, name)));
        for place in places {
            let is_named = file.is_some() && names.get(&place).copied() == file;
            if is_named || Some(place.0) == directory {
                self.synced_names.entry(place).or_default().push(now);
            }
        }
    }

    fn note_contents(&mut self, from: u64) {
        let ids: Vec<NodeId> = self.current().values().copied().collect();
        for id in ids {
            let again = |_| read(self.fs(), id);
            let bytes: Rc<[u8]> = read(self.fs(), id).or_else(again).expect("what is written can be read").into();
            let history = self.contents.entry(id).or_default();
            if history.last().is_none_or(|last| last.what != bytes) {
                history.push(Moment { from, what: bytes });
            }
        }
    }
}

/// All of a file.
pub fn read(fs: &FileSystem, id: NodeId) -> FsResult<Vec<u8>> {
    let size = fs.attributes(id)?.size;
    let mut bytes = vec![0; size as usize];
    let read = fs.read(id, 0, ReadBuffer::Bytes(&mut bytes))?;
    assert_eq!(read, size);
    Ok(bytes)
}
