//! Random operations on a file system and on the reference at once, and their comparison.

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::data::{Data, ReadBuffer};
use smrfs::error::{Errno, FsError, FsResult};
use smrfs::fs::{Allocate, Seek};
use smrfs::meta::{Kind, NewNode, RenameMode, SetAttr};

use crate::count::count_from;
use crate::reference::{At, Tree, put};
use crate::rig::{GRANULE, Rig};

/// One operation. Files are named by their place among those that exist, directories likewise.
#[derive(Clone, Debug)]
pub enum Op {
    Make(usize, u8, bool),
    Link(usize, usize, u8),
    Unlink(usize, u8),
    RemoveDir(usize, u8),
    Rename(usize, u8, usize, u8),
    Write(usize, u64, usize, u8),
    Read(usize, u64, usize),
    Truncate(usize, u64),
    Allocate(usize, Allocate, u64, u64),
    Seek(usize, u64, Seek),
    Open(usize),
    Close(usize),
    Sync(usize),
    SyncDir(usize),
    SyncAll,
    Background(bool),
    Defragment(usize),
    /// A file shares what another has from a place on, at a place of its own, up to so many bytes.
    Share(usize, u64, usize, u64, u64),
    FailWrite(u64),
    Remount(bool),
}

/// Files are at most so long.
const LONGEST: u64 = 60 * GRANULE;

impl Op {
    /// One that is likely to meet others.
    pub fn random(random: &mut impl Rng) -> Op {
        let (file, directory, other) =
            (random.random_range(0..16), random.random_range(0..4), random.random_range(0..4));
        let (name, name2) = (random.random_range(0..5), random.random_range(0..5));
        let place = |random: &mut dyn FnMut(u64) -> u64| match random(3) {
            0 => random(LONGEST),
            1 => random(LONGEST / GRANULE) * GRANULE,
            _ => random(8 * GRANULE),
        };
        let mut below = |n: u64| random.random_range(0..n);
        let (offset, length) = (place(&mut below), place(&mut below));
        match below(100) {
            0..10 => Op::Make(directory, name, true),
            10..12 => Op::Make(directory, name, false),
            12..14 => Op::Link(file, directory, name),
            14..18 => Op::Unlink(directory, name),
            18..19 => Op::RemoveDir(directory, name),
            19..24 => Op::Rename(directory, name, other, name2),
            24..50 => Op::Write(file, offset, length as usize, below(255) as u8 + 1),
            50..60 => Op::Read(file, offset, length as usize),
            60..66 => Op::Truncate(file, offset),
            66..68 => Op::Allocate(file, Allocate::Extend, offset, length),
            68..70 => Op::Allocate(file, Allocate::KeepSize, offset, length),
            70..73 => Op::Allocate(file, Allocate::Punch, offset, length),
            73..75 => Op::Allocate(file, Allocate::Zero(name > 2), offset, length),
            75..77 => Op::Seek(file, offset, if name > 2 { Seek::Data } else { Seek::Hole }),
            77..80 => Op::Open(file),
            80..83 => Op::Close(name as usize),
            83..87 => Op::Sync(file),
            87..88 => Op::SyncDir(directory),
            88..91 => Op::SyncAll,
            91..96 => Op::Background(name > 1),
            96..98 => Op::Defragment(file),
            98..99 => Op::FailWrite(below(4)),
            _ => Op::Remount(name > 2),
        }
    }
}

impl Op {
    /// One that shares, mostly whole granules.
    pub fn share(random: &mut impl Rng) -> Op {
        let mut place = |granules: u64| match random.random_range(0..8) {
            0 => random.random_range(0..granules * GRANULE),
            _ => random.random_range(0..granules) * GRANULE,
        };
        let (from, to, bytes) = (place(20), place(20), place(40));
        Op::Share(random.random_range(0..16), from, random.random_range(0..16), to, bytes)
    }
}

/// A file system and what it should be.
pub struct Life {
    pub rig: Rig,
    tree: Tree,
    open: Vec<At>,
    /// A write that was made to fail may yet fail a call.
    failing: bool,
    /// Files may share extents: their blocks are more than those of the disk.
    shared: bool,
}

impl Life {
    pub fn new(rig: Rig) -> Life {
        let tree = Tree::new(rig.fs.root());
        Life { rig, tree, open: Vec::new(), failing: false, shared: false }
    }

    fn file(&self, number: usize) -> Option<At> {
        let files = self.tree.files();
        (!files.is_empty()).then(|| files[number % files.len()])
    }

    fn directory(&self, number: usize) -> At {
        let directories = self.tree.directories();
        directories[number % directories.len()]
    }

    /// Does one operation on both, and compares what they say.
    pub fn step(&mut self, op: &Op) {
        match *op {
            Op::Make(directory, name, is_file) => self.make(directory, &[b'a' + name], is_file),
            Op::Link(file, directory, name) => self.link(file, directory, &[b'a' + name]),
            Op::Unlink(directory, name) => {
                let (at, name) = (self.directory(directory), [b'a' + name]);
                let says = self.rig.fs.unlink(self.tree.id(at), &name);
                if same(op, says, self.tree.may_unlink(at, &name)) {
                    self.tree.remove(at, &name);
                }
            }
            Op::RemoveDir(directory, name) => {
                let (at, name) = (self.directory(directory), [b'a' + name]);
                let says = self.rig.fs.remove_dir(self.tree.id(at), &name);
                if same(op, says, self.tree.may_remove_dir(at, &name)) {
                    self.tree.remove(at, &name);
                }
            }
            Op::Rename(from, name, to, name2) => {
                let (from, name) = (self.directory(from), [b'a' + name]);
                let (to, name2) = (self.directory(to), [b'a' + name2]);
                let ids = (self.tree.id(from), self.tree.id(to));
                let says = self.rig.fs.rename((ids.0, &name), (ids.1, &name2), RenameMode::Replace);
                if same(op, says, self.tree.may_rename((from, &name), (to, &name2))) {
                    self.tree.rename((from, &name), (to, &name2));
                }
            }
            Op::SyncDir(directory) => {
                self.rig.fs.sync_dir(self.tree.id(self.directory(directory))).unwrap();
            }
            Op::SyncAll => self.settled(|rig| rig.fs.sync_all()),
            Op::Background(idle) => self.settled(|rig| rig.fs.background(idle).map(|_| ())),
            Op::FailWrite(granules) => {
                self.failing = true;
                self.rig.memory.fail_next_write(granules);
            }
            Op::Remount(clean) => self.remount(clean),
            Op::Close(number) => self.close(number),
            Op::Share(from, from_at, to, to_at, bytes) => self.share(op, (from, from_at), (to, to_at), bytes),
            _ => self.on_file(op),
        }
        self.rig.check();
    }

    /// Result of work that must succeed, unless a write was made to fail twice in a row.
    fn settled(&mut self, work: impl Fn(&Rig) -> FsResult) {
        work(&self.rig).unwrap();
    }

    fn on_file(&mut self, op: &Op) {
        let file = match *op {
            Op::Write(file, ..) | Op::Read(file, ..) | Op::Truncate(file, _) | Op::Allocate(file, ..) => file,
            Op::Seek(file, ..) | Op::Open(file) | Op::Sync(file) | Op::Defragment(file) => file,
            _ => return,
        };
        let Some(at) = self.file(file) else { return };
        let id = self.tree.id(at);
        let fs = self.rig.fs.clone();
        match *op {
            Op::Write(_, offset, length, fill) => {
                let mut data = vec![0; length];
                (0..).zip(data.chunks_mut(7)).for_each(|(i, bytes): (usize, _)| bytes.fill(fill ^ i as u8));
                let free = fs.usage().unwrap().free;
                match fs.write(id, offset, Data::Bytes(&data)) {
                    Ok(()) if length > 0 => put(self.tree.bytes_mut(at), offset as usize, &data),
                    Ok(()) => {}
                    Err(error) => self.full(op, &error, free, length as u64),
                }
            }
            Op::Read(_, offset, length) => {
                let bytes = self.tree.bytes(at).unwrap();
                let expected = &bytes[(offset as usize).min(bytes.len())..(offset as usize + length).min(bytes.len())];
                let mut back = vec![0xaa; length];
                let count = fs.read(id, offset, ReadBuffer::Bytes(&mut back)).unwrap() as usize;
                assert_eq!(count, expected.len(), "{op:?}");
                assert_same(&back[..count], expected, op);
                assert!(back[count..] == vec![0xaa; length - count], "{op:?} wrote behind the end");
            }
            Op::Truncate(_, size) => {
                let free = if self.shared { fs.usage().unwrap().free } else { 0 };
                match fs.set_attributes(id, &SetAttr { size: Some(size), ..SetAttr::default() }) {
                    Ok(_) => self.tree.bytes_mut(at).resize(size as usize, 0),
                    // The last granule is written anew, and so needs room if it is shared.
                    Err(error) if self.shared => self.full(op, &error, free, 0),
                    Err(error) => panic!("{op:?}: {error}"),
                }
            }
            Op::Allocate(_, how, offset, bytes) => self.allocate(op, at, how, offset, bytes),
            Op::Seek(_, offset, what) => self.seek(op, at, offset, what),
            Op::Open(_) if self.open.len() < 5 => {
                fs.open(id, true, false).unwrap();
                *self.tree.uses(at).1 += 1;
                self.open.push(at);
            }
            Op::Sync(_) => fs.sync(id).unwrap(),
            Op::Defragment(_) => {
                fs.defragment(id).unwrap();
            }
            _ => {}
        }
    }

    /// ENOSPC with so little room that it is right: the first and the last granule may not be whole, and the last one of a
    /// file that grows is written anew, which takes room if it is shared.
    fn full(&self, op: &Op, error: &FsError, free: u64, bytes: u64) {
        assert_eq!(error.errno(), Errno::ENOSPC, "{op:?}: {error:?}");
        let needed = bytes / GRANULE + 2 + u64::from(self.shared);
        assert!(free < needed, "{op:?} says no space with {free} granules free");
    }

    fn share(&mut self, op: &Op, from: (usize, u64), to: (usize, u64), bytes: u64) {
        let (Some(original), Some(copy)) = (self.file(from.0), self.file(to.0)) else { return };
        let (fs, free) = (self.rig.fs.clone(), self.rig.fs.usage().unwrap().free);
        let size = self.tree.bytes(original).unwrap().len() as u64;
        match fs.share((self.tree.id(original), from.1), (self.tree.id(copy), to.1), bytes) {
            Ok(shared) => {
                assert!(shared <= bytes.min(size.saturating_sub(from.1)), "{op:?}: {shared}");
                let aligned = from.1.is_multiple_of(GRANULE) && to.1.is_multiple_of(GRANULE);
                let apart = original != copy || from.1.abs_diff(to.1) >= bytes;
                let most = if aligned && apart { bytes.min(size.saturating_sub(from.1)) } else { 0 };
                // A part of a granule only where both files end in it.
                let at_end = from.1 + most == size && to.1 + most >= self.tree.bytes(copy).unwrap().len() as u64;
                assert_eq!(shared, if at_end { most } else { most / GRANULE * GRANULE }, "{op:?}");
                self.shared |= shared > 0;
                let data = self.tree.bytes(original).unwrap()[from.1.min(size) as usize..][..shared as usize].to_vec();
                if shared > 0 {
                    put(self.tree.bytes_mut(copy), to.1 as usize, &data);
                }
            }
            Err(error) => self.full(op, &error, free, 0),
        }
    }

    fn make(&mut self, directory: usize, name: &[u8], is_file: bool) {
        let at = self.directory(directory);
        let kind = if is_file { Kind::File } else { Kind::Directory };
        let new = NewNode { kind, mode: 0o755, uid: 0, gid: 0, rdev: 0 };
        match (self.rig.fs.make(self.tree.id(at), name, &new), self.tree.may_make(at, name)) {
            (Ok(attr), Ok(())) => self.tree.make(at, name, attr.id, is_file),
            (Err(error), Err(errno)) => assert_eq!(error.errno(), errno),
            (says, expected) => panic!("make: {says:?}, expected {expected:?}"),
        }
    }

    fn link(&mut self, file: usize, directory: usize, name: &[u8]) {
        let (Some(file), at) = (self.file(file), self.directory(directory)) else { return };
        let expected = match *self.tree.uses(file).0 {
            0 => Err(Errno::ENOENT),
            _ => self.tree.may_make(at, name),
        };
        match (self.rig.fs.link(self.tree.id(file), self.tree.id(at), name), expected) {
            (Ok(_), Ok(())) => self.tree.link(file, at, name),
            (Err(error), Err(errno)) => assert_eq!(error.errno(), errno),
            (says, expected) => panic!("link: {says:?}, expected {expected:?}"),
        }
    }

    fn close(&mut self, number: usize) {
        if number < self.open.len() {
            let at = self.open.swap_remove(number);
            self.rig.fs.release(self.tree.id(at), true).unwrap();
            *self.tree.uses(at).1 -= 1;
        }
    }

    fn allocate(&mut self, op: &Op, at: At, how: Allocate, offset: u64, bytes: u64) {
        let free = self.rig.fs.usage().unwrap().free;
        match self.rig.fs.allocate(self.tree.id(at), how, offset, bytes) {
            Ok(()) => {}
            Err(error) if bytes == 0 => return assert_eq!(error.errno(), Errno::EINVAL),
            Err(error) => return self.full(op, &error, free, bytes),
        }
        let content = self.tree.bytes_mut(at);
        let end = (offset + bytes) as usize;
        if matches!(how, Allocate::Extend | Allocate::Zero(true)) && content.len() < end {
            content.resize(end, 0);
        }
        if matches!(how, Allocate::Punch | Allocate::Zero(_)) {
            let end = end.min(content.len());
            content[(offset as usize).min(end)..end].fill(0);
        }
    }

    fn seek(&self, op: &Op, at: At, offset: u64, what: Seek) {
        let bytes = self.tree.bytes(at).unwrap();
        let found = self.rig.fs.seek(self.tree.id(at), offset, what);
        let rest = bytes.get(offset as usize..).unwrap_or(&[]);
        match (found, what) {
            (Ok(found), Seek::Data) => {
                let skipped = &rest[..(found - offset) as usize];
                assert!(found < bytes.len() as u64 && skipped.iter().all(|&byte| byte == 0), "{op:?}: {found}");
            }
            (Ok(found), Seek::Hole) => {
                assert!(found <= bytes.len() as u64 && !rest.is_empty(), "{op:?}: {found}");
                assert!(bytes.get(found as usize).is_none_or(|&byte| byte == 0), "{op:?}: {found} is no hole");
            }
            (Err(error), Seek::Data) => {
                assert_eq!(error.errno(), Errno::ENXIO);
                assert!(rest.iter().all(|&byte| byte == 0), "{op:?} found no data");
            }
            (Err(error), Seek::Hole) => assert!(error.errno() == Errno::ENXIO && rest.is_empty(), "{op:?}: {error}"),
        }
    }

    fn remount(&mut self, clean: bool) {
        while !self.open.is_empty() {
            self.close(0);
        }
        self.rig.remount(clean);
        self.compare();
    }

    /// Compares everything: names, sizes, contents, the room in use.
    pub fn compare(&mut self) {
        let fs = &self.rig.fs;
        for at in self.tree.directories() {
            let mut names: Vec<_> = Vec::new();
            let mut from = 0;
            while let Some(last) = fs.list(self.tree.id(at), from).unwrap().last() {
                names.extend(fs.list(self.tree.id(at), from).unwrap().into_iter().map(|entry| (entry.name, entry.id)));
                from = last.next;
            }
            names.sort();
            let expected = self.tree.names(at).unwrap().iter();
            let expected: Vec<_> = expected.map(|(name, &at)| (name.clone(), self.tree.id(at))).collect();
            assert_eq!(names, expected);
        }
        let mut granules = 0;
        for at in self.tree.files() {
            let (id, bytes) = (self.tree.id(at), self.tree.bytes(at).unwrap());
            let attr = fs.attributes(id).unwrap();
            assert_eq!(attr.size, bytes.len() as u64, "the size of file {id}");
            granules += attr.blocks * 512 / GRANULE;
            let mut back = vec![0; bytes.len()];
            assert_eq!(fs.read(id, 0, ReadBuffer::Bytes(&mut back)).unwrap(), attr.size);
            assert_same(&back, bytes, &format!("file {id}"));
        }
        let usage = fs.usage().unwrap();
        let used = usage.live + usage.promised;
        let is_right = if self.shared { used <= granules } else { used == granules };
        assert!(is_right, "files use {used}, and say that they use {granules}");
        fs.check().unwrap();
        self.rig.check();
    }
}

fn assert_same(back: &[u8], expected: &[u8], what: &impl std::fmt::Debug) {
    if back != expected {
        let at = (0..expected.len()).find(|&at| back[at] != expected[at]).expect("as long as is expected");
        panic!("{what:?}: byte {at} of {} is {}, not {}", expected.len(), back[at], expected[at]);
    }
}

/// True if both did it. They must agree.
fn same<T: std::fmt::Debug>(op: &Op, says: FsResult, expected: Result<T, Errno>) -> bool {
    match (says, expected) {
        (Ok(()), Ok(_)) => true,
        (Err(error), Err(errno)) => {
            assert_eq!(error.errno(), errno, "{op:?}");
            false
        }
        (says, expected) => panic!("{op:?}: {says:?}, expected {expected:?}"),
    }
}

/// An error is right only where there was not enough room.
/// Lives through `operations` random operations, and compares now and then.
pub fn live(rig: Rig, seed: u64, operations: usize) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let every = count_from("SMRFS_MODEL_EVERY", 50);
    let mut life = Life::new(rig);
    for number in 0..operations {
        let op = if random.random_range(0..12) == 0 { Op::share(&mut random) } else { Op::random(&mut random) };
        if std::env::var_os("SMRFS_MODEL_TRACE").is_some() {
            eprintln!("{seed}/{number}: {op:?}");
        }
        life.step(&op);
        if std::env::var_os("SMRFS_MODEL_REMOUNT").is_some_and(|value| value == "1") {
            life.step(&Op::Remount(true));
        }
        if number % every == every - 1 {
            life.compare();
        }
    }
    life.step(&Op::Remount(true));
}
