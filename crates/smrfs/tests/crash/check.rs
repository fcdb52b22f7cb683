//! Check of a cut's remains against the run's promises until then.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use smrfs::error::{Errno, FsError};
use smrfs::fs::FileSystem;
use smrfs::meta::memory::StoreLoss;
use smrfs::testing::memory::Power;
use smrfs::testing::memory::WriteLoss as DiskLoss;
use smrfs::units::NodeId;

use crate::rig::{Mounted, Rig};
use crate::run::{DIRECTORIES, Moment, NAMES, Place, Run, read};

/// Order of a file's contents: it is as it was at some moment, or has, of what was not synced, a part of a write, or a later write and not
/// an earlier one. That happens only on a full disk: what was buffered found no room, and a commit was to make some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Kept,
    Lost,
}

/// Cuts the power at operation `cut` of the run, recovers and checks; now and then the recovery is cut, too.
/// Tells how many files have lost the order of their writes.
pub fn cut(run: &Run, seed: u64, cut: u64, losses: (DiskLoss, StoreLoss)) -> usize {
    let checked = catch_unwind(AssertUnwindSafe(|| {
        let again = seed.wrapping_mul(0x9e37_79b9).wrapping_add(cut);
        if again.is_multiple_of(4) {
            let left = run.rig.survivor(cut, losses, seed, Power::failing_at(again / 4 % 24 + 1));
            work_until_cut(&left);
            let second = left.power.operations();
            check(run, cut, &left.survivor(second, losses, again, Power::new()), again)
        } else {
            check(run, cut, &run.rig.survivor(cut, losses, seed, Power::new()), again)
        }
    }));
    checked.unwrap_or_else(|why| {
        eprintln!("run {seed}, cut at operation {cut}, losses {losses:?}");
        resume_unwind(why)
    })
}

/// Mounts, cleans and commits; the power fails somewhere on the way.
fn work_until_cut(rig: &Rig) {
    let work = || {
        let mounted = rig.mount()?;
        for _ in 0..8 {
            mounted.fs.background(true)?;
        }
        mounted.fs.sync_all()?;
        mounted.fs.unmount()
    };
    match work() {
        Ok(()) | Err(FsError::PowerCut | FsError::Device(smrfs::error::DeviceError::PowerCut)) => {}
        // Once something could not be made durable, that is all that later syncs say.
        Err(error) if error.errno() == Errno::EIO && !rig.power.is_on() => {}
        Err(error) => panic!("recovery: {error}"),
    }
}

fn check(run: &Run, cut: u64, left: &Rig, chance: u64) -> usize {
    let mounted = left.mount().expect("it mounts");
    check_room(&mounted);
    let found = names(run, &mounted.fs);
    check_names(run, cut, &found);
    let orders = found.iter().map(|(&place, &id)| check_content(run, cut, place, id, &mounted.fs));
    let out_of_order = orders.filter(|&order| order == Order::Lost).count();
    if chance % 16 == 1 {
        check_goes_on(run, left, mounted, &found);
    }
    out_of_order
}

fn places() -> impl Iterator<Item = Place> {
    (0..DIRECTORIES).flat_map(|directory| NAMES.map(move |name| (directory, name)))
}

pub fn names(run: &Run, fs: &FileSystem) -> BTreeMap<Place, NodeId> {
    let found = places().filter_map(|place| {
        let id = fs.lookup(run.directories[place.0], &[place.1]).ok()?.id;
        fs.forget(id, 1);
        Some((place, id))
    });
    found.collect()
}

/// The last promise before the cut; 0 if there was none.
fn last(promises: Option<&Vec<u64>>, cut: u64) -> u64 {
    promises.and_then(|promises| promises.iter().rev().find(|&&number| number < cut)).copied().unwrap_or(0)
}

/// Contents from operation `from` on until the cut.
fn between<T>(history: &[Moment<T>], from: u64, cut: u64) -> &[Moment<T>] {
    let first = history.partition_point(|moment| moment.from <= from).saturating_sub(1);
    let end = history.partition_point(|moment| moment.from <= cut);
    &history[first.min(end)..end]
}

fn check_names(run: &Run, cut: u64, found: &BTreeMap<Place, NodeId>) {
    for place in places() {
        let possible = between(&run.names, last(run.synced_names.get(&place), cut), cut);
        let possible: BTreeSet<Option<NodeId>> = possible.iter().map(|names| names.what.get(&place).copied()).collect();
        let is = found.get(&place).copied();
        assert!(possible.contains(&is), "{place:?} is {is:?}, and may be {possible:?}");
    }
}

/// Each byte is one that the file had there since the last promise.
fn check_content(run: &Run, cut: u64, place: Place, id: NodeId, fs: &FileSystem) -> Order {
    let bytes = read(fs, id).expect("it can be read");
    let given = run.given.iter().rev().find(|given| given.what == (place, id) && given.from <= cut);
    let by_name = given.filter(|given| {
        let before = between(&run.names, last(run.synced_names.get(&place), cut), given.from - 1);
        before.iter().all(|names| names.what.get(&place) != Some(&id))
    });
    let promised = last(run.synced_files.get(&id), cut).max(by_name.map_or(0, |given| given.from));
    let possible = between(&run.contents[&id], promised, cut);
    if possible.iter().any(|content| *content.what == *bytes) || (promised == 0 && bytes.is_empty()) {
        return Order::Kept;
    }
    let lengths: Vec<usize> = possible.iter().map(|content| content.what.len()).collect();
    // A write that makes the file longer may be there in part.
    let grown = lengths.windows(2).any(|two| (two[0]..two[1]).contains(&bytes.len()));
    assert!(grown || lengths.contains(&bytes.len()), "{place:?} ({id}) has {} bytes, and had {lengths:?}", bytes.len());
    for (at, byte) in bytes.iter().enumerate() {
        // A file that was shorter had nothing there, which reads as 0 once it is longer.
        let had = possible.iter().any(|content| content.what.get(at).copied().unwrap_or(0) == *byte);
        assert!(had, "byte {at} of {place:?} ({id}) is {byte}, which it was in none of {} contents", possible.len());
    }
    Order::Lost
}

/// The room that is used is what the maps name.
fn check_room(mounted: &Mounted) {
    let usage = mounted.fs.usage().expect("usage");
    if mounted.mapped + mounted.promised <= usage.usable {
        assert_eq!((usage.live, usage.promised, usage.counts.retired), (mounted.mapped, mounted.promised, 0));
        assert_eq!(usage.counts.readable, mounted.mapped);
    } else {
        // A promise that survived counted on room that came from a change that did not: it is dropped.
        assert!(usage.promised < mounted.promised || mounted.promised == 0);
    }
    assert_eq!(usage.free, usage.usable.saturating_sub(usage.live + usage.promised));
}

/// The file system is as good as new: it can be emptied, filled and mounted again.
fn check_goes_on(run: &Run, left: &Rig, mounted: Mounted, found: &BTreeMap<Place, NodeId>) {
    let fs = &mounted.fs;
    for &(directory, name) in found.keys() {
        fs.unlink(run.directories[directory], &[name]).expect("an unlink");
    }
    fs.sync_all().expect("a sync");
    let usage = fs.usage().expect("usage");
    assert_eq!((usage.live, usage.promised, usage.counts.readable, usage.free), (0, 0, 0, usage.usable));
    mounted.check();
    fs.unmount().expect("an unmount");
    let mounted = left.mount().expect("it mounts once more");
    assert_eq!(mounted.mapped, 0);
    assert!(names(run, &mounted.fs).is_empty());
}
