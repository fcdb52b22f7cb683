//! Several threads at once on a nearly full disk, with the cleaner and commits alongside.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::data::{Data, ReadBuffer};
use smrfs::error::{Errno, FsResult};
use smrfs::fs::{Allocate, FileSystem};
use smrfs::meta::{Kind, NewNode, RenameMode, SetAttr};
use smrfs::units::NodeId;

use crate::rig::{GRANULE, Rig};

const FILE: NewNode = NewNode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0 };

/// The byte that belongs at `at` of a file in its round `round`.
fn byte(file: u64, round: u64, at: u64) -> u8 {
    (file * 31 + round * 7 + at / 3) as u8 | 1
}

/// One file that is overwritten, cut, punched and read back by one thread.
fn writer(fs: &FileSystem, id: NodeId, number: u64, granules: u64, rounds: u64) {
    let mut random = Pcg64Mcg::seed_from_u64(number);
    let mut expected: Vec<u8> = Vec::new();
    for round in 0..rounds {
        let offset = random.random_range(0..granules * GRANULE);
        let length = random.random_range(1..20 * GRANULE).min(granules * GRANULE - offset).max(1);
        match random.random_range(0..20) {
            0 => {
                let size = offset.min(expected.len() as u64);
                fs.set_attributes(id, &SetAttr { size: Some(size), ..SetAttr::default() }).unwrap();
                expected.truncate(size as usize);
            }
            1 => {
                // What is shared of the edges needs room.
                match fs.allocate(id, Allocate::Punch, offset, length) {
                    Ok(()) => {
                        let end = expected.len().min((offset + length) as usize);
                        expected[end.min(offset as usize)..end].fill(0);
                    }
                    Err(error) => assert_eq!(error.errno(), Errno::ENOSPC, "{error:?}"),
                }
            }
            2 => fs.sync(id).unwrap(),
            _ => {
                let data: Vec<u8> = (offset..offset + length).map(|at| byte(number, round, at)).collect();
                match fs.write(id, offset, Data::Bytes(&data)) {
                    Ok(()) => crate::reference::put(&mut expected, offset as usize, &data),
                    Err(error) => assert_eq!(error.errno(), Errno::ENOSPC, "{error:?}"),
                }
            }
        }
        let mut back = vec![0; expected.len() + 1];
        assert_eq!(fs.read(id, 0, ReadBuffer::Bytes(&mut back)).unwrap(), expected.len() as u64);
        assert!(back[..expected.len()] == expected[..], "file {number} after round {round}");
    }
}

/// Files that come and go by name while others write.
fn passer_by(fs: &FileSystem, root: NodeId, rounds: u64) {
    for round in 0..rounds {
        let attr = fs.make(root, b"new", &FILE).unwrap();
        let data = vec![byte(99, round, 0); 6 * GRANULE as usize];
        let written = fs.write(attr.id, 0, Data::Bytes(&data));
        fs.rename((root, b"new"), (root, b"old"), RenameMode::Replace).unwrap();
        if written.is_ok() {
            let mut back = vec![0; data.len()];
            fs.read(attr.id, 0, ReadBuffer::Bytes(&mut back)).unwrap();
            assert!(back == data);
        }
        fs.forget(attr.id, 1);
    }
    fs.unlink(root, b"old").unwrap();
}

/// Shares a file again and again while it changes: what was shared stays as it was, but for the copy's own writes.
fn copier(fs: &FileSystem, original: NodeId, copy: NodeId, done: &AtomicBool) {
    let content = || {
        let mut back = vec![0; 64 * GRANULE as usize];
        let size = fs.read(copy, 0, ReadBuffer::Bytes(&mut back)).unwrap();
        back.truncate(size as usize);
        back
    };
    let room = |result: FsResult| assert!(result.is_ok() || result.is_err_and(|error| error.errno() == Errno::ENOSPC));
    for round in 1u64.. {
        room(fs.share((original, round % 5 * GRANULE), (copy, 0), 60 * GRANULE).map(drop));
        let mut expected = content();
        let place = round * 7 % 50 * GRANULE + 5;
        if place + 100 < expected.len() as u64 && fs.write(copy, place, Data::Bytes(&[round as u8; 700])).is_ok() {
            crate::reference::put(&mut expected, place as usize, &[round as u8; 700]);
        }
        for _ in 0..4 {
            assert!(content() == expected, "the copy of round {round} has changed");
            std::thread::yield_now();
        }
        if round % 3 == 0 {
            room(fs.set_attributes(copy, &SetAttr { size: Some(0), ..SetAttr::default() }).map(drop));
        }
        if done.load(Relaxed) {
            break;
        }
    }
}

/// Lets all of them run until the writers have done their rounds.
pub fn together(mut rig: Rig, rounds: u64) {
    let fs = rig.fs.clone();
    let root = fs.root();
    let share = fs.usage().unwrap().usable / 4;
    let ids: Vec<NodeId> = (0..3u8).map(|name| fs.make(root, &[b'a' + name], &FILE).unwrap().id).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = ids
            .iter()
            .zip(1..)
            .map(|(&id, number)| {
                let fs = &fs;
                scope.spawn(move || writer(fs, id, number, share + 20, rounds))
            })
            .collect();
        let (fs, done) = (&fs, &done);
        scope.spawn(move || passer_by(fs, root, rounds / 4));
        for (&original, name) in ids.iter().zip([b"d", b"e"]) {
            let copy = fs.make(root, name, &FILE).unwrap().id;
            scope.spawn(move || copier(fs, original, copy, done));
        }
        scope.spawn(move || {
            while !done.load(Relaxed) {
                fs.background(true).unwrap();
                fs.usage().unwrap();
            }
        });
        scope.spawn(move || {
            while !done.load(Relaxed) {
                fs.sync_all().unwrap();
                std::thread::yield_now();
            }
        });
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Relaxed);
        results.into_iter().for_each(|result| result.unwrap());
    });
    fs.check().unwrap();
    rig.check();
    drop(fs);
    rig.remount(false);
    rig.fs.check().unwrap();
}
