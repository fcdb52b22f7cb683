//! Threads that make, write, read, rename and remove the same few files, open and closed, while others clean and commit.
//!
//! A file is written once and all of one byte, so that a reader knows what is wrong without knowing what is right.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::data::{Data, ReadBuffer};
use smrfs::error::{Errno, FsResult};
use smrfs::fs::FileSystem;
use smrfs::meta::{Attr, Kind, NewNode, RenameMode};
use smrfs::units::NodeId;

/// The names that all threads use.
pub const NAMES: std::ops::Range<u8> = b'a'..b'm';

/// Result that others may have changed meanwhile.
fn unless_gone<T>(result: FsResult<T>) -> Option<T> {
    let expected = [Errno::ENOENT, Errno::EEXIST, Errno::ENOSPC];
    result.inspect_err(|error| assert!(expected.contains(&error.errno()), "{error:?}")).ok()
}

/// All of a file; its bytes are all the same.
fn read(fs: &FileSystem, id: NodeId, bytes: u64) -> Option<Vec<u8>> {
    let mut content = vec![0; bytes as usize];
    let count = unless_gone(fs.read(id, 0, ReadBuffer::Bytes(&mut content)))?;
    content.truncate(count as usize);
    assert!(content.windows(2).all(|two| two[0] == two[1]), "{id}: a mixture");
    Some(content)
}

fn open(fs: &FileSystem, attr: &Attr, writing: bool, work: impl FnOnce()) {
    if unless_gone(fs.open(attr.id, writing, false)).is_some() {
        work();
        fs.release(attr.id, writing).unwrap();
    }
    fs.forget(attr.id, 1);
}

fn one(fs: &FileSystem, seed: u64, rounds: u64, owner: (u32, u32), longest: u64) {
    let root = fs.root();
    let new = NewNode { kind: Kind::File, mode: 0o600, uid: owner.0, gid: owner.1, rdev: 0 };
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    for _ in 0..rounds {
        let (a, b) = ([random.random_range(NAMES)], [random.random_range(NAMES)]);
        let bytes = random.random_range(1..longest);
        match random.random_range(0..10) {
            0..4 => {
                let Some(attr) = unless_gone(fs.make(root, &a, &new)) else { continue };
                let content = vec![random.random_range(1..=255); bytes as usize];
                let syncs = random.random_bool(0.1);
                open(fs, &attr, true, || {
                    unless_gone(fs.write(attr.id, 0, Data::Bytes(&content)));
                    if syncs {
                        unless_gone(fs.sync(attr.id));
                    }
                });
            }
            4..7 => {
                if let Some(attr) = unless_gone(fs.lookup(root, &a)) {
                    open(fs, &attr, false, || drop(read(fs, attr.id, longest)));
                }
            }
            7 => drop(unless_gone(fs.rename((root, &a), (root, &b), RenameMode::Replace))),
            _ => drop(unless_gone(fs.unlink(root, &a))),
        }
    }
}

/// Lets a crowd loose; afterwards nothing is buffered or waits to be freed. Tells what each name holds.
pub fn crowd(fs: &FileSystem, threads: u64, rounds: u64, owner: (u32, u32), longest: u64) -> Vec<(u8, Vec<u8>)> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..threads).map(|seed| scope.spawn(move || one(fs, seed, rounds, owner, longest))).collect();
        let done = &done;
        scope.spawn(move || {
            while !done.load(Relaxed) {
                fs.background(true).unwrap();
                fs.sync_all().unwrap();
                std::thread::yield_now();
            }
        });
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Relaxed);
        results.into_iter().for_each(|result| result.unwrap());
    });
    fs.sync_all().unwrap();
    fs.check().unwrap();
    let (usage, found) = (fs.usage().unwrap(), contents(fs, longest));
    assert_eq!(usage.counts.retired, 0);
    // What another thread's rename replaced has left nothing behind.
    let named: u64 = found.iter().map(|(_, content)| (content.len() as u64).div_ceil(usage.granule_bytes)).sum();
    assert_eq!(usage.live, named);
    found
}

/// Contents of each name.
pub fn contents(fs: &FileSystem, longest: u64) -> Vec<(u8, Vec<u8>)> {
    let found = NAMES.filter_map(|name| {
        let attr = unless_gone(fs.lookup(fs.root(), &[name]))?;
        let content = read(fs, attr.id, longest).expect("its name is there");
        assert_eq!(content.len() as u64, attr.size);
        fs.forget(attr.id, 1);
        Some((name, content))
    });
    found.collect()
}
