//! Bounded, exhaustive crash tests, as CrashMonkey and ACE do them (Mohan et al. 2018): every workload of one operation out of a set,
//! and of two and three as many as there is time for, each operation with an fsync of its file, of its directory, a sync, or nothing
//! behind it. After each of those the power is cut, and what they promised must be there.
//!
//! The disk is nearly full, and behind a workload another file takes all room and the cleaner works: whatever became free too early is
//! written over, before a last cut. Of some workloads a flush fails.
//!
//! The file system that runs is the oracle: its tree is noted after every operation. What an operation needs, such as the file that it
//! writes to, is made before it, and is synced or not. `SMRFS_ACE` is the number of workloads of two and of three operations for each
//! disk; from as many as there are on, those of two are all tried.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::data::Data;
use smrfs::error::{Errno, FsError, FsResult};
use smrfs::fs::{Allocate, FileSystem};
use smrfs::meta::memory::StoreLoss;
use smrfs::meta::{Kind, NewNode, RenameMode, SetAttr};
use smrfs::testing::memory::{Access, Power, WriteLoss as DiskLoss};
use smrfs::units::NodeId;

use crate::count::count_from;
use crate::rig::{Disk, GRANULE, Mounted, Rig};
use crate::run::read;

const FILE: NewNode = NewNode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0 };
const DIRECTORY: NewNode = NewNode { kind: Kind::Directory, mode: 0o755, ..FILE };
const ATTRIBUTE: &[u8] = b"user.a";

/// Bytes of a file that is made because an operation needs it: not whole granules.
const NEEDED_BYTES: u64 = 3 * GRANULE + 100;

/// Kinds of loss that each cut of a workload of several operations is tried with.
const LOSSES: usize = 2;

/// Granules that are free when a workload begins: enough for three operations.
const FREE: u64 = 40;

type Path = &'static str;

#[derive(Clone, Copy, Debug)]
enum Op {
    Create(Path),
    MakeDir(Path),
    MakeLink(Path),
    /// Bytes from an offset on, or none: at the end.
    Write(Path, Option<u64>, u64),
    Allocate(Path, Allocate, u64, u64),
    Truncate(Path, u64),
    Link(Path, Path),
    Unlink(Path),
    RemoveDir(Path),
    Rename(Path, Path, RenameMode),
    SetAttribute(Path),
    RemoveAttribute(Path),
    Share(Path, Path),
    Remount,
}

impl Op {
    /// The path that is synced behind it.
    fn target(self) -> Path {
        match self {
            Op::Create(path) | Op::MakeDir(path) | Op::MakeLink(path) | Op::Unlink(path) | Op::RemoveDir(path) => path,
            Op::Write(path, ..) | Op::Allocate(path, ..) | Op::Truncate(path, _) => path,
            Op::SetAttribute(path) | Op::RemoveAttribute(path) => path,
            Op::Link(_, path) | Op::Rename(_, path, _) | Op::Share(_, path) => path,
            Op::Remount => "foo",
        }
    }
}

/// What makes an operation durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sync {
    File,
    Directory,
    Everything,
    Nothing,
}

const SYNCS: [Sync; 4] = [Sync::File, Sync::Directory, Sync::Everything, Sync::Nothing];

/// The set of operations: two files in the root and two in a directory, as in ACE; and sharing and clean mounts, which are ours.
fn operations() -> Vec<Op> {
    let mut all = Vec::new();
    all.extend(["foo", "bar", "A/foo", "A/bar"].map(Op::Create));
    all.extend(["B", "A/C"].map(Op::MakeDir));
    all.extend(["bar", "A/bar"].map(Op::MakeLink));
    for path in ["foo", "A/foo"] {
        all.extend([None, Some(0), Some(GRANULE + 7), Some(8 * GRANULE)].map(|at| Op::Write(path, at, 700)));
        // Straight to the disk.
        all.push(Op::Write(path, Some(GRANULE), 7 * GRANULE));
        let modes =
            [Allocate::Extend, Allocate::KeepSize, Allocate::Punch, Allocate::Zero(false), Allocate::Zero(true)];
        all.extend(modes.map(|mode| Op::Allocate(path, mode, GRANULE / 2, 4 * GRANULE)));
        all.extend([0, GRANULE + 9, 6 * GRANULE].map(|size| Op::Truncate(path, size)));
        all.extend([Op::SetAttribute(path), Op::RemoveAttribute(path), Op::Unlink(path)]);
        for to in ["bar", "A/bar"] {
            all.extend([Op::Link(path, to), Op::Rename(path, to, RenameMode::Replace), Op::Share(path, to)]);
        }
    }
    all.push(Op::Rename("foo", "A/foo", RenameMode::Replace));
    all.push(Op::Rename("foo", "A/foo", RenameMode::Exchange));
    all.push(Op::Rename("A/C", "B/C", RenameMode::Replace));
    all.extend(["B", "A/C"].map(Op::RemoveDir));
    all.push(Op::Remount);
    all
}

/// A name: its directory, and its bytes.
type Name = (NodeId, Vec<u8>);

/// The tree at a moment.
#[derive(Clone, Debug, Default)]
struct Tree {
    /// The operation of the power supply with which it began.
    from: u64,
    names: BTreeMap<Name, NodeId>,
    files: BTreeMap<NodeId, Vec<u8>>,
    attributes: BTreeMap<NodeId, Option<Vec<u8>>>,
}

impl Tree {
    fn of(fs: &FileSystem, from: u64) -> FsResult<Tree> {
        let mut tree = Tree { from, ..Tree::default() };
        let mut left = vec![fs.root()];
        while let Some(directory) = left.pop() {
            for entry in fs.list(directory, 0)? {
                tree.names.insert((directory, entry.name), entry.id);
                match entry.kind {
                    Kind::Directory => left.push(entry.id),
                    Kind::File => drop(tree.files.insert(entry.id, read(fs, entry.id)?)),
                    _ => {}
                }
                let value = match fs.attribute(entry.id, ATTRIBUTE) {
                    Err(error) if error.errno() == Errno::ENODATA => None,
                    value => Some(value?),
                };
                tree.attributes.insert(entry.id, value);
            }
        }
        Ok(tree)
    }
}

/// What a sync has promised: as in the tree of number `tree`, from operation `number` of the power supply on.
struct Promise {
    number: u64,
    tree: usize,
    file: Option<NodeId>,
    directories: Vec<NodeId>,
    names: Vec<Name>,
    everything: bool,
}

/// A workload on a new file system, with all trees and promises.
struct Workload {
    rig: Rig,
    mounted: Mounted,
    /// True if what an operation needs is synced before it.
    syncs_needs: bool,
    /// The first operation of the power supply that is the workload's own, and the first behind it.
    first: u64,
    tail: u64,
    trees: Vec<Tree>,
    promises: Vec<Promise>,
    /// Names that a file was given by a rename or a link, which makes its contents durable first; and the tree then.
    given: Vec<(usize, Name, NodeId)>,
}

impl Workload {
    fn run(rig: Rig, syncs_needs: bool, steps: &[(Op, Sync)]) -> Workload {
        let mounted = rig.mount().expect("an empty file system");
        let fs = &mounted.fs;
        let full = fs.make(fs.root(), b"full", &FILE).expect("a file").id;
        let bytes = (fs.usage().expect("usage").free - FREE) * GRANULE;
        fs.write(full, 0, Data::Bytes(&vec![100; bytes as usize])).expect("room");
        fs.sync_all().expect("a sync");
        let (first, begin) = (rig.power.operations() + 1, Tree::of(fs, 0).expect("a tree"));
        let (trees, promises, given) = (vec![begin], Vec::new(), Vec::new());
        let mut workload = Workload { rig, mounted, syncs_needs, first, tail: 0, trees, promises, given };
        for &(op, sync) in steps {
            let is_done = workload.step(op).is_some();
            assert!(is_done || workload.rig.power.is_broken(), "{op:?}");
            workload.sync(op, sync);
        }
        workload.tail = workload.rig.power.operations() + 1;
        workload.take_all_room();
        workload
    }

    /// Writes and cleans until no room is left: data that was free too early is written over. If a flush has failed, nothing may count as
    /// durable any more.
    fn take_all_room(&mut self) {
        self.act(|fs| {
            let id = fs.make(fs.root(), b"tail", &FILE)?.id;
            fs.forget(id, 1);
            let mut end = 0;
            for granules in [8, 4, 1] {
                let piece = vec![101; (granules * GRANULE) as usize];
                while fs.write(id, end, Data::Bytes(&piece)).is_ok() {
                    end += granules * GRANULE;
                }
            }
            (0..4).try_for_each(|_| fs.background(true).map(drop))
        });
        if self.rig.power.is_broken() {
            self.sync(Op::Remount, Sync::Everything);
        }
    }

    fn fs(&self) -> &FileSystem {
        &self.mounted.fs
    }

    /// Does something, and notes the tree that it leaves. Refusals change nothing.
    fn act(&mut self, act: impl FnOnce(&FileSystem) -> FsResult) {
        let from = self.rig.power.operations() + 1;
        match act(self.fs()) {
            Ok(()) | Err(FsError::Errno(_)) => {}
            Err(error) if self.rig.power.is_broken() && error.errno() == Errno::EIO => {}
            Err(error) => panic!("{error}"),
        }
        let tree = Tree::of(self.fs(), from).expect("what is there can be read");
        self.trees.push(tree);
    }

    fn find(&self, path: &str) -> Option<NodeId> {
        let fs = self.fs();
        path.split('/').try_fold(fs.root(), |at, name| {
            let id = fs.lookup(at, name.as_bytes()).ok()?.id;
            fs.forget(id, 1);
            Some(id)
        })
    }

    /// The directory of a path, which is made where there is none, and the name in it.
    fn place(&mut self, path: Path) -> Option<(NodeId, &'static [u8])> {
        let Some((directory, name)) = path.split_once('/') else { return Some((self.fs().root(), path.as_bytes())) };
        if self.find(directory).is_none() {
            self.act(|fs| fs.make(fs.root(), directory.as_bytes(), &DIRECTORY).map(|attr| fs.forget(attr.id, 1)));
        }
        Some((self.find(directory)?, name.as_bytes()))
    }

    /// The file at a path, which is made where there is none.
    fn file(&mut self, path: Path) -> Option<NodeId> {
        let (parent, name) = self.place(path)?;
        if self.find(path).is_none() {
            self.act(|fs| fs.make(parent, name, &FILE).map(|attr| fs.forget(attr.id, 1)));
            let id = self.find(path)?;
            let bytes: Vec<u8> = (0..NEEDED_BYTES).map(|at| (at / 100 + 1) as u8).collect();
            self.act(|fs| fs.write(id, 0, Data::Bytes(&bytes)));
            if self.syncs_needs {
                self.sync(Op::Create(path), Sync::Everything);
            }
        }
        self.find(path)
    }

    /// Does an operation, if what it needs can be made: after a failed flush that is refused.
    fn step(&mut self, op: Op) -> Option<()> {
        match op {
            Op::Create(path) | Op::MakeDir(path) => {
                let ((parent, name), is_file) = (self.place(path)?, matches!(op, Op::Create(_)));
                let new = if is_file { &FILE } else { &DIRECTORY };
                self.act(|fs| fs.make(parent, name, new).map(|attr| fs.forget(attr.id, 1)));
            }
            Op::MakeLink(path) => {
                let (parent, name) = self.place(path)?;
                self.act(|fs| fs.make_link(parent, name, b"foo", 0, 0).map(|attr| fs.forget(attr.id, 1)));
            }
            Op::Write(path, at, bytes) => {
                let id = self.file(path)?;
                let mark = self.trees.len() as u8;
                self.act(|fs| {
                    let at = at.map_or_else(|| fs.attributes(id).map(|attr| attr.size), Ok)?;
                    fs.write(id, at, Data::Bytes(&vec![200 + mark; bytes as usize]))
                });
            }
            Op::Allocate(path, mode, at, bytes) => {
                let id = self.file(path)?;
                self.act(|fs| fs.allocate(id, mode, at, bytes));
            }
            Op::Truncate(path, size) => {
                let (id, set) = (self.file(path)?, SetAttr { size: Some(size), ..SetAttr::default() });
                self.act(|fs| fs.set_attributes(id, &set).map(drop));
            }
            Op::SetAttribute(path) => {
                let (id, value) = (self.file(path)?, [self.trees.len() as u8]);
                self.act(|fs| fs.set_attribute(id, ATTRIBUTE, &value, false, false));
            }
            Op::RemoveAttribute(path) => {
                let id = self.file(path)?;
                self.act(|fs| fs.set_attribute(id, ATTRIBUTE, b"old", false, false));
                self.act(|fs| fs.remove_attribute(id, ATTRIBUTE));
            }
            Op::Link(from, to) => {
                let (id, (parent, name)) = (self.file(from)?, self.place(to)?);
                self.act(|fs| fs.link(id, parent, name).map(|_| fs.forget(id, 1)));
                self.note_given(id, (parent, name.to_vec()));
            }
            Op::Rename(from, to, mode) => {
                let id = if from == "A/C" { self.directory(from)? } else { self.file(from)? };
                if mode == RenameMode::Exchange {
                    self.file(to)?;
                }
                let ((old, old_name), (new, new_name)) = (self.place(from)?, self.place(to)?);
                self.act(|fs| fs.rename((old, old_name), (new, new_name), mode));
                self.note_given(id, (new, new_name.to_vec()));
            }
            Op::Unlink(path) => {
                self.file(path)?;
                let (parent, name) = self.place(path)?;
                self.act(|fs| fs.unlink(parent, name));
            }
            Op::RemoveDir(path) => {
                self.directory(path)?;
                let (parent, name) = self.place(path)?;
                self.act(|fs| fs.remove_dir(parent, name));
            }
            Op::Share(from, to) => {
                let (from, to) = (self.file(from)?, self.file(to)?);
                self.act(|fs| fs.share((from, 0), (to, 0), 3 * GRANULE).map(drop));
            }
            Op::Remount => {
                match self.fs().unmount() {
                    Ok(()) => {
                        self.mounted.check();
                        self.mounted = self.rig.mount().expect("a mount");
                        self.fs().check().expect("a right account");
                        self.promise(None, Sync::Everything);
                    }
                    // What a flush has lost stays lost: the next mount does not know of it.
                    Err(error) => assert!(self.rig.power.is_broken(), "an unmount: {error}"),
                }
            }
        }
        Some(())
    }

    fn directory(&mut self, path: Path) -> Option<NodeId> {
        let (parent, name) = self.place(path)?;
        if self.find(path).is_none() {
            self.act(|fs| fs.make(parent, name, &DIRECTORY).map(|attr| fs.forget(attr.id, 1)));
        }
        self.find(path)
    }

    fn note_given(&mut self, id: NodeId, name: Name) {
        let last = self.trees.len() - 1;
        let [.., before, after] = &self.trees[..] else { return };
        if after.names.get(&name) == Some(&id) && before.names.get(&name) != Some(&id) && after.files.contains_key(&id)
        {
            self.given.push((last, name, id));
        }
    }

    fn sync(&mut self, op: Op, sync: Sync) {
        let (path, root) = (op.target(), self.fs().root());
        let id = match sync {
            Sync::File => self.find(path),
            Sync::Directory => path.split_once('/').map_or(Some(root), |(directory, _)| self.find(directory)),
            Sync::Everything => None,
            Sync::Nothing => return,
        };
        let synced = match (sync, id) {
            (Sync::Everything, _) => self.fs().sync_all(),
            (_, Some(id)) => self.fs().sync(id),
            // It is gone: there is nothing to sync.
            (_, None) => return,
        };
        match synced {
            Ok(()) => self.promise(id, sync),
            Err(error) => assert!(self.rig.power.is_broken(), "a sync: {error}"),
        }
    }

    /// From here on what was synced is as it is now.
    fn promise(&mut self, id: Option<NodeId>, sync: Sync) {
        let (tree, root) = (self.trees.len() - 1, self.fs().root());
        let mut promise = Promise {
            number: self.rig.power.operations(),
            tree,
            file: id.filter(|_| sync == Sync::File),
            directories: id.into_iter().collect(),
            names: Vec::new(),
            everything: sync == Sync::Everything,
        };
        // With a file come its names, and those of the directories above.
        let mut next = id;
        while let Some(id) = next {
            let names = self.trees[tree].names.iter().filter(|(_, found)| **found == id).map(|(name, _)| name.clone());
            let names: Vec<Name> = names.collect();
            next = names.first().map(|(parent, _)| *parent).filter(|parent| *parent != root);
            promise.names.extend(names);
        }
        self.promises.push(promise);
    }

    /// Checks what is left if the power fails at operation `cut`.
    fn check(&self, cut: u64, losses: (DiskLoss, StoreLoss), seed: u64) {
        let left = self.rig.survivor(cut, losses, seed, Power::new());
        let mounted = left.mount().expect("it mounts");
        mounted.fs.check().expect("a right account");
        let found = Tree::of(&mounted.fs, 0).expect("everything can be read");
        self.check_tree(&found, cut);
        // It goes on.
        let goes_on = |fs: &FileSystem| -> FsResult<Vec<u8>> {
            let id = fs.make(fs.root(), b"next", &FILE)?.id;
            fs.write(id, 0, Data::Bytes(&[102; GRANULE as usize]))?;
            fs.sync(id)?;
            read(fs, id)
        };
        match goes_on(&mounted.fs) {
            Err(error) => assert_eq!(error.errno(), Errno::ENOSPC, "{error}"),
            Ok(bytes) => assert_eq!(bytes, [102; GRANULE as usize]),
        }
        mounted.check();
    }

    /// What was promised before the cut is in the tree that was found, and nothing that never was.
    fn check_tree(&self, found: &Tree, cut: u64) {
        let end = self.trees.partition_point(|tree| tree.from <= cut);
        let last = |is: &dyn Fn(&Promise) -> bool| {
            let promises =
                self.promises.iter().filter(|promise| promise.number < cut && (promise.everything || is(promise)));
            promises.map(|promise| promise.tree).max()
        };
        let names: Vec<&Name> =
            self.trees.iter().flat_map(|tree| tree.names.keys()).chain(found.names.keys()).collect();
        for name in names {
            let promised = last(&|promise| promise.directories.contains(&name.0) || promise.names.contains(name));
            let possible = &self.trees[promised.unwrap_or(0)..end];
            let is = found.names.get(name);
            // Where its directory was not promised and is gone, so are its names.
            assert!(
                possible.iter().any(|tree| tree.names.get(name) == is),
                "{name:?} is {is:?}, and may be {:?}",
                possible.iter().map(|tree| tree.names.get(name)).collect::<Vec<_>>()
            );
        }
        for (name, id) in found.names.iter().filter(|(_, id)| found.files.contains_key(id)) {
            // What was made since has no promise yet. It is as it was at some moment, or has the first bytes of then, because several writes
            // may lie between two trees.
            let by_sync = last(&|promise| promise.file == Some(*id))
                .filter(|&promised| self.trees[promised].files.contains_key(id));
            let name_promised =
                last(&|promise| promise.directories.contains(&name.0) || promise.names.contains(name)).unwrap_or(0);
            let by_name = self.given.iter().rev().find(|(tree, given, whose)| {
                let before = &self.trees[name_promised.min(*tree)..*tree];
                given == name
                    && whose == id
                    && *tree < end
                    && before.iter().all(|tree| tree.names.get(name) != Some(id))
            });
            let (promised, bytes) = (by_sync.max(by_name.map(|(tree, ..)| *tree)), &found.files[id]);
            let possible = &self.trees[promised.unwrap_or(0)..end];
            let mut contents = possible.iter().filter_map(|tree| tree.files.get(id));
            assert!(
                contents.any(|content| if promised.is_some() { content == bytes } else { content.starts_with(bytes) }),
                "{name:?} ({id}) has {} bytes of none of the {} trees from {promised:?} on",
                bytes.len(),
                possible.len()
            );
            // A rename commits unsaved data first, and not a change of attributes alone.
            let possible = &self.trees[by_sync.unwrap_or(0)..end];
            let is_one_of = possible.iter().any(|tree| tree.attributes.get(id) == found.attributes.get(id));
            assert!(is_one_of, "{name:?} ({id}) has the attribute {:?}", found.attributes.get(id));
        }
    }
}

/// How a workload is tried.
#[derive(Clone, Copy, Debug)]
struct Trial {
    disk: Disk,
    has_journal: bool,
    syncs_needs: bool,
    /// From that operation on the first flush fails.
    fault: Option<u64>,
    seed: u64,
}

impl Trial {
    /// Runs a workload and cuts the power behind each sync, or at every operation, and behind it; tells how many cuts.
    fn try_out(self, steps: &[(Op, Sync)], at_every_operation: bool) -> u64 {
        let tried = catch_unwind(AssertUnwindSafe(|| {
            let power = self.fault.map_or_else(Power::new, |from| Power::with_fault(Access::Flush, from));
            let workload = Workload::run(Rig::on(self.disk, self.has_journal, power), self.syncs_needs, steps);
            let (tail, end) = (workload.tail, workload.rig.power.operations() + 1);
            let mut cuts: Vec<u64> = if at_every_operation {
                (workload.first..tail).collect()
            } else {
                workload.promises.iter().map(|promise| promise.number + 1).collect()
            };
            let dice = &mut Pcg64Mcg::seed_from_u64(self.seed);
            cuts.extend([dice.random_range(tail..=end), end]);
            // A journal loses its latest changes only.
            let stores = &[StoreLoss::Latest, StoreLoss::Any][..if self.has_journal { 1 } else { 2 }];
            let losses: Vec<_> =
                DiskLoss::ALL.into_iter().flat_map(|disk| stores.iter().map(move |&store| (disk, store))).collect();
            let count = if steps.len() == 1 { losses.len() } else { LOSSES };
            for &cut in &cuts {
                // Each of many workloads meets some of the losses.
                let first = dice.random_range(0..losses.len());
                let losses = losses.iter().cycle().skip(first).take(count);
                losses.for_each(|&losses| workload.check(cut, losses, self.seed));
            }
            (cuts.len() * count) as u64
        }));
        tried.unwrap_or_else(|why| {
            eprintln!("{self:?}: {steps:?}");
            resume_unwind(why)
        })
    }
}

/// The workload of that number of those with `count` operations.
fn numbered(all: &[Op], count: u32, mut number: u64) -> Vec<(Op, Sync)> {
    let mut digit = |base: usize| {
        let digit = number % base as u64;
        number /= base as u64;
        digit as usize
    };
    (0..count).map(|_| (all[digit(all.len())], SYNCS[digit(SYNCS.len())])).collect()
}

fn bounded(disk: Disk) {
    let all = operations();
    let wanted: u64 = count_from("SMRFS_ACE", 4000);
    let first = Workload::run(Rig::new(disk, false), false, &[]).first;
    for count in 1..=3 {
        let number = ((all.len() * SYNCS.len()) as u64).pow(count);
        let is_whole = count == 1 || count == 2 && wanted >= number;
        let dice = &mut Pcg64Mcg::seed_from_u64(u64::from(count));
        let mut cuts = 0;
        let tried = if is_whole { number } else { wanted };
        for seed in 0..tried {
            let which = if is_whole { seed } else { dice.random_range(0..number) };
            let steps = numbered(&all, count, which);
            // Single operations are tried in all ways, others in one each.
            for way in (0..8).filter(|&way| count == 1 || way == seed % 8) {
                let (has_journal, syncs_needs) = (way & 1 == 1, way & 2 == 2);
                let fault = (way & 4 == 4).then(|| first + dice.random_range(0..30));
                let trial = Trial { disk, has_journal, syncs_needs, fault, seed };
                cuts += trial.try_out(&steps, count == 1 && fault.is_none());
            }
        }
        println!("{disk:?}: {tried} of {number} workloads of {count} operations, {cuts} cuts");
    }
}

#[test]
fn every_small_workload_keeps_its_promises_on_strict_append() {
    bounded(Disk::StrictAppend);
}

#[test]
fn every_small_workload_keeps_its_promises_on_caveat_scriptor() {
    bounded(Disk::Caveat);
}

#[test]
fn every_small_workload_keeps_its_promises_on_zones() {
    bounded(Disk::Zoned);
}
