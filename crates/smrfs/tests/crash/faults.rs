//! An I/O error somewhere in a run, and a power cut behind it: nothing that was acknowledged is lost, whatever failed.
//!
//! A flush that fails is the worst case: the cache is forgotten, and later flushes and syncs say that all is well. A run ends in one
//! of two ways. Either nothing is acknowledged or changed any more, and [`FileSystem::unsaved`] names whatever a power cut can take;
//! or the error cost one call alone, and everything can still be made durable. `SMRFS_FAULTS` is the number of rounds for each disk.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::error::{Errno, FsResult};
use smrfs::fs::FileSystem;
use smrfs::meta::memory::StoreLoss;
use smrfs::meta::{Kind, NewNode};
use smrfs::testing::memory::{Access, Power, WriteLoss};

use crate::OPERATIONS;
use crate::check::{self, names};
use crate::count::count_from;
use crate::rig::{Disk, Rig};
use crate::run::{Run, read};

/// Runs in which each kind of access is made to fail, in turn.
const ACCESSES: [Access; 3] = [Access::Flush, Access::Change, Access::Read];
/// Power cuts behind an error, besides the one behind the end.
const CUTS: u64 = 8;

/// Ends of the runs, counted.
#[derive(Debug, Default)]
struct Ends {
    read_only: u64,
    unsaved_files: usize,
    went_on: u64,
}

fn errno(result: FsResult) -> Result<(), Errno> {
    result.map_err(|error| error.errno())
}

/// Nothing is acknowledged, nothing is changed, and what is lost is named; tells how many files are.
fn is_read_only(run: &Run, fs: &FileSystem, seed: u64) -> usize {
    let root = fs.root();
    let directories = run.directories.iter().map(|&directory| fs.sync_dir(directory));
    let files = run.current().values().map(|&id| fs.sync(id));
    for synced in directories.chain(files).chain([fs.sync_all(), fs.unmount()]) {
        assert_eq!(errno(synced), Err(Errno::EIO));
    }
    let new = NewNode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0 };
    assert_eq!(errno(fs.make(root, b"new", &new).map(drop)), Err(Errno::EROFS));
    let unsaved = fs.unsaved();
    for loss in [StoreLoss::Latest, StoreLoss::Any] {
        let left = run.rig.survivor(run.rig.power.operations() + 1, (WriteLoss::All, loss), seed, Power::new());
        let left = left.mount().expect("it mounts");
        for (place, id) in names(run, &left.fs) {
            let is_named = unsaved.iter().any(|file| file.id == id && file.data_bytes.is_some());
            if run.current().get(&place) == Some(&id) && !is_named {
                let (is, was) = (read(&left.fs, id).expect("data"), read(fs, id).expect("data"));
                assert!(is == was, "{place:?} ({id}) has lost {} bytes, and nobody says so", was.len());
            }
        }
    }
    unsaved.len()
}

fn round(disk: Disk, seed: u64, access: Access, from: u64, ends: &mut Ends) {
    let mut run = Run::on(Rig::on(disk, seed % 2 == 1, Power::with_fault(access, from)), seed, OPERATIONS);
    if !run.rig.power.is_broken() {
        return;
    }
    if run.fs().flush_failed() {
        ends.read_only += 1;
        ends.unsaved_files += is_read_only(&run, run.fs(), seed);
    } else {
        assert_ne!(access, Access::Flush, "a flush has failed, and the file system goes on");
        ends.went_on += 1;
        run.fs().sync_all().expect("the error cost one call");
        run.promise_all();
    }
    let (dice, end) = (&mut Pcg64Mcg::seed_from_u64(seed ^ from), run.rig.power.operations() + 1);
    for cut in (0..CUTS).map(|_| dice.random_range(from..=end)).chain([end]) {
        let loss = WriteLoss::ALL[(cut + seed) as usize % 4];
        for store in [StoreLoss::Latest, StoreLoss::Any] {
            check::cut(&run, seed, cut, (loss, store));
        }
    }
}

fn errors_before_cuts(disk: Disk) {
    let rounds: u64 = count_from("SMRFS_FAULTS", 60);
    let mut ends = Ends::default();
    for seed in 1..=rounds.div_ceil(12) {
        let whole = Run::new(disk, seed, OPERATIONS);
        let dice = &mut Pcg64Mcg::seed_from_u64(seed);
        for number in 0..12 {
            let from = dice.random_range(whole.first..=whole.rig.power.operations());
            round(disk, seed, ACCESSES[number % ACCESSES.len()], from, &mut ends);
        }
    }
    let Ends { read_only, unsaved_files, went_on } = ends;
    println!(
        "{disk:?}: {read_only} mounts became read-only after a failed flush and named {unsaved_files} unsaved files; {went_on} lost \
         one call to an error, and went on until all was durable"
    );
    assert!(read_only > 0 && went_on > 0);
}

#[test]
fn an_io_error_takes_nothing_that_was_promised_on_strict_append() {
    errors_before_cuts(Disk::StrictAppend);
}

#[test]
fn an_io_error_takes_nothing_that_was_promised_on_caveat_scriptor() {
    errors_before_cuts(Disk::Caveat);
}

#[test]
fn an_io_error_takes_nothing_that_was_promised_on_zones() {
    errors_before_cuts(Disk::Zoned);
}
