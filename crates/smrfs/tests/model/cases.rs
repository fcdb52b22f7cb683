//! Single promises that random lives would not notice: times, limits of memory, the saved free map.

use std::sync::atomic::Ordering::Relaxed;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::data::{Data, ReadBuffer};
use smrfs::device::Model;
use smrfs::error::Errno;
use smrfs::fs::{Allocate, FileSystem, FsOptions, Seek};
use smrfs::meta::{Kind, NewNode, RenameMode, SetAttr, SetTime, Time};
use smrfs::units::NodeId;

use crate::options;
use crate::rig::{GRANULE, Rig};

const FILE: NewNode = NewNode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0 };

fn rig() -> Rig {
    Rig::new(Model::StrictAppend, options())
}

fn make(fs: &FileSystem, name: &str) -> NodeId {
    fs.make(fs.root(), name.as_bytes(), &FILE).unwrap().id
}

fn times(fs: &FileSystem, id: NodeId) -> (Time, Time) {
    let attr = fs.attributes(id).unwrap();
    (attr.mtime, attr.ctime)
}

#[test]
fn times_change_with_what_the_host_does_and_with_nothing_else() {
    let mut rig = rig();
    let fs = rig.fs.clone();
    let id = make(&fs, "a");
    let mut last = times(&fs, id);
    let mut changed = |what: &str, data: bool| {
        let now = times(&fs, id);
        assert!(now.1 > last.1, "{what} changes ctime");
        assert_eq!(now.0 > last.0, data, "{what} and mtime");
        last = now;
    };
    fs.write(id, 0, Data::Bytes(&[1; 3000])).unwrap();
    changed("write", true);
    fs.set_attributes(id, &SetAttr { size: Some(3000), ..SetAttr::default() }).unwrap();
    changed("truncation to the same size", true);
    fs.set_attributes(id, &SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
    changed("chmod", false);
    fs.link(id, fs.root(), b"b").unwrap();
    changed("link", false);
    fs.rename((fs.root(), b"b"), (fs.root(), b"c"), RenameMode::Replace).unwrap();
    changed("rename", false);
    fs.unlink(fs.root(), b"c").unwrap();
    changed("unlink", false);
    fs.set_attribute(id, b"user.x", b"1", false, false).unwrap();
    changed("setxattr", false);
    let then = Time { seconds: 5, nanoseconds: 6 };
    fs.set_attributes(id, &SetAttr { mtime: Some(SetTime::To(then)), ..SetAttr::default() }).unwrap();
    let (mtime, ctime) = times(&fs, id);
    assert!(mtime == then && ctime > last.1);
    fs.sync(id).unwrap();
    while fs.defragment(id).unwrap() {}
    fs.background(true).unwrap();
    fs.sync_all().unwrap();
    assert_eq!(times(&fs, id), (mtime, ctime));
    drop(fs);
    rig.remount(false);
    assert_eq!(times(&rig.fs, id), (mtime, ctime));
}

/// A host that comes back does not wait until the disk has all that was moved while it was away.
#[test]
fn idle_work_is_on_the_disk_when_it_ends() {
    for model in [Model::StrictAppend, Model::Caveat] {
        let rig = Rig::new(model, FsOptions { block_granules: 16, ..options() });
        let (fs, id) = (&rig.fs, make(&rig.fs, "scattered"));
        let granules = fs.usage().unwrap().usable / 4;
        fs.write(id, 0, Data::Bytes(&vec![1; (granules * GRANULE) as usize])).unwrap();
        for granule in (0..granules).step_by(2) {
            fs.write(id, granule * GRANULE, Data::Bytes(&[2; GRANULE as usize])).unwrap();
        }
        fs.sync_all().unwrap();
        let mut moved = 0;
        while fs.background(true).unwrap() {
            assert_eq!(rig.device.unflushed_bytes.load(Relaxed), 0, "{model:?}");
            moved = fs.statistics().moved_bytes;
        }
        assert!(moved >= granules * GRANULE / 2, "{model:?}: {moved} of {granules} granules");
    }
}

#[test]
fn promised_room_is_there_when_the_disk_is_full() {
    for model in [Model::StrictAppend, Model::Caveat] {
        let mut rig = Rig::new(model, options());
        let fs = rig.fs.clone();
        let (kept, filler) = (make(&fs, "kept"), make(&fs, "filler"));
        fs.allocate(kept, Allocate::KeepSize, 0, 100 * GRANULE).unwrap();
        let free = fs.usage().unwrap().free;
        fs.write(filler, 0, Data::Bytes(&vec![1; (free * GRANULE) as usize])).unwrap();
        fs.sync_all().unwrap();
        drop(fs);
        rig.remount(false);
        assert_eq!(rig.fs.usage().unwrap().free, 0);
        rig.fs.write(kept, 0, Data::Bytes(&vec![2; 100 * GRANULE as usize])).unwrap();
        let more = rig.fs.write(kept, 100 * GRANULE, Data::Bytes(&[2])).unwrap_err();
        assert_eq!(more.errno(), Errno::ENOSPC);
        rig.remount(true);
        assert_eq!(rig.fs.usage().unwrap().promised, 0);
    }
}

#[test]
fn a_promise_holds_for_its_granules_until_the_unmount() {
    let rig = Rig::new(Model::Caveat, FsOptions { cached_extents: 200, ..options() });
    let (fs, at) = (&rig.fs, 100 * GRANULE);
    let (kept, filler) = (make(fs, "kept"), make(fs, "filler"));
    fs.allocate(kept, Allocate::KeepSize, at, 10 * GRANULE).unwrap();
    fs.sync(kept).unwrap();
    for number in 0..100 {
        let id = make(fs, &format!("f{number}"));
        fs.write(id, 0, Data::Bytes(&[1])).unwrap();
        fs.sync(id).unwrap();
    }
    assert!(fs.files_in_memory() < 60);
    let free = fs.usage().unwrap().free;
    fs.write(filler, 0, Data::Bytes(&vec![1; (free * GRANULE) as usize])).unwrap();
    fs.write(kept, at, Data::Bytes(&vec![2; 10 * GRANULE as usize])).unwrap();
    assert_eq!(fs.usage().unwrap().promised, 0);
}

#[test]
fn what_is_no_file_takes_no_place_among_the_files() {
    let rig = rig();
    let new = NewNode { kind: Kind::Directory, ..FILE };
    for number in 0..50 {
        let id = rig.fs.make(rig.fs.root(), format!("d{number}").as_bytes(), &new).unwrap().id;
        rig.fs.sync(id).unwrap();
    }
    assert_eq!(rig.fs.files_in_memory(), 0);
}

#[test]
fn a_read_only_mount_reads_and_changes_nothing() {
    let mut rig = rig();
    let id = make(&rig.fs, "a");
    rig.fs.write(id, 0, Data::Bytes(&[3; 5000])).unwrap();
    rig.options.read_only = true;
    rig.remount(true);
    let fs = &rig.fs;
    let mut back = [0; 5000];
    assert_eq!(fs.read(id, 0, ReadBuffer::Bytes(&mut back)).unwrap(), 5000);
    assert_eq!(back, [3; 5000]);
    let refused = [
        fs.write(id, 0, Data::Bytes(&[1])).unwrap_err(),
        fs.open(id, true, false).unwrap_err(),
        fs.unlink(fs.root(), b"a").unwrap_err(),
        fs.make(fs.root(), b"b", &FILE).unwrap_err(),
        fs.set_attributes(id, &SetAttr { mode: Some(0), ..SetAttr::default() }).unwrap_err(),
        fs.allocate(id, Allocate::Punch, 0, 10).unwrap_err(),
        fs.defragment(id).unwrap_err(),
    ];
    assert!(refused.iter().all(|error| error.errno() == Errno::EROFS));
    fs.open(id, false, false).unwrap();
    fs.sync_all().unwrap();
    fs.unmount().unwrap();
    let written = rig.fs.statistics().written_bytes;
    assert_eq!(written, 0);
    // What the clean unmount before has saved still holds.
    rig.options.read_only = false;
    rig.remount(true);
    rig.fs.check().unwrap();
}

#[test]
fn files_that_nobody_uses_leave_memory() {
    let rig = Rig::new(Model::Caveat, FsOptions { cached_extents: 200, ..options() });
    let ids: Vec<NodeId> = (0..300).map(|number| make(&rig.fs, &format!("f{number}"))).collect();
    for &id in &ids {
        rig.fs.write(id, 0, Data::Bytes(&[id.0 as u8; 400])).unwrap();
        rig.fs.sync(id).unwrap();
    }
    assert!(rig.fs.files_in_memory() < 40, "{} files in memory", rig.fs.files_in_memory());
    for &id in &ids {
        assert_eq!(rig.fs.attributes(id).unwrap().size, 400);
        let mut back = [0; 400];
        rig.fs.read(id, 0, ReadBuffer::Bytes(&mut back)).unwrap();
        assert_eq!(back, [id.0 as u8; 400]);
    }
    assert!(rig.fs.files_in_memory() < 40);
}

#[test]
fn space_of_a_file_without_a_name_comes_back_when_it_is_closed() {
    let rig = rig();
    let fs = &rig.fs;
    let id = make(fs, "a");
    fs.write(id, 0, Data::Bytes(&[3; 5000])).unwrap();
    fs.sync(id).unwrap();
    let live = fs.usage().unwrap().live;
    fs.open(id, false, false).unwrap();
    fs.unlink(fs.root(), b"a").unwrap();
    assert_eq!(fs.usage().unwrap().live, live);
    fs.release(id, false).unwrap();
    assert_eq!(fs.usage().unwrap().live, 0);
    assert!(fs.usage().unwrap().counts.retired > 0);
    fs.sync_all().unwrap();
    assert_eq!(fs.usage().unwrap().counts.readable, 0);
    assert_eq!(fs.open(id, false, false).unwrap_err().errno(), Errno::ENOENT);
}

#[test]
fn a_file_can_be_synced_whose_directory_is_gone() {
    let rig = rig();
    let fs = &rig.fs;
    let new = NewNode { kind: Kind::Directory, mode: 0o700, uid: 0, gid: 0, rdev: 0 };
    let folder = fs.make(fs.root(), b"folder", &new).unwrap().id;
    let file = fs.make(folder, b"file", &NewNode { kind: Kind::File, ..new }).unwrap().id;
    fs.open(file, true, false).unwrap();
    fs.write(file, 0, Data::Bytes(&[1; 100])).unwrap();
    fs.unlink(folder, b"file").unwrap();
    fs.remove_dir(fs.root(), b"folder").unwrap();
    fs.forget(folder, 1);
    fs.sync(file).unwrap();
    fs.write(file, 100, Data::Bytes(&[2; 100])).unwrap();
    fs.sync(file).unwrap();
    fs.release(file, true).unwrap();
}

#[test]
fn joining_leaves_one_extent_a_block_where_there_is_room() {
    let rig = Rig::new(Model::Caveat, options());
    let fs = &rig.fs;
    let id = make(fs, "a");
    let size = 64 * GRANULE;
    for granule in (0..64).map(|number| number * 37 % 64) {
        fs.write(id, granule * GRANULE, Data::Bytes(&[granule as u8; GRANULE as usize])).unwrap();
        fs.sync(id).unwrap();
    }
    let extents = || fs.live().into_iter().filter(|(_, owner)| owner.file == id).count();
    assert!(extents() > 30, "{} extents", extents());
    while fs.defragment(id).unwrap() {}
    assert!(extents() <= 8, "{} extents", extents());
    let mut back = vec![0; size as usize];
    fs.read(id, 0, ReadBuffer::Bytes(&mut back)).unwrap();
    assert!((0..size).all(|at| back[at as usize] == (at / GRANULE) as u8));
    rig.check();
}

#[test]
fn data_without_bytes_takes_the_same_way() {
    for model in [Model::StrictAppend, Model::Caveat] {
        let run = |blank: bool| {
            let rig = Rig::new(model, options());
            let fs = &rig.fs;
            let ids: Vec<NodeId> = ["a", "b", "c"].map(|name| make(fs, name)).into();
            let longest = fs.usage().unwrap().usable * GRANULE / 3;
            let mut random = Pcg64Mcg::seed_from_u64(4);
            for _ in 0..600 {
                let id = ids[random.random_range(0..3)];
                let offset = random.random_range(0..longest);
                let bytes = random.random_range(1..=(9 * GRANULE).min(longest - offset));
                let content = vec![1; bytes as usize];
                let data = if blank { Data::Blank(bytes) } else { Data::Bytes(&content) };
                fs.write(id, offset, data).unwrap();
                let mut content = vec![0; bytes as usize];
                let room = if blank { ReadBuffer::Blank(bytes) } else { ReadBuffer::Bytes(&mut content) };
                fs.read(id, offset / 2, room).unwrap();
                fs.background(true).unwrap();
            }
            fs.sync_all().unwrap();
            rig.check();
            (fs.live(), fs.statistics())
        };
        let (live, statistics) = run(true);
        assert!(statistics.moved_bytes > 0);
        assert_eq!((live, statistics), run(false));
    }
}

#[test]
fn a_sparse_file_of_50_gb_costs_what_is_in_it() {
    let mut rig = rig();
    let fs = rig.fs.clone();
    let id = make(&fs, "a");
    let size = 50_000_000_000;
    fs.set_attributes(id, &SetAttr { size: Some(size), ..SetAttr::default() }).unwrap();
    for at in [0, size / 2, size - 5] {
        fs.write(id, at, Data::Bytes(b"12345")).unwrap();
    }
    drop(fs);
    rig.remount(false);
    let fs = &rig.fs;
    let attr = fs.attributes(id).unwrap();
    assert_eq!((attr.size, attr.blocks), (size, 3));
    assert_eq!(fs.seek(id, 512, Seek::Data).unwrap(), size / 2 / GRANULE * GRANULE);
    let mut back = [0; 5];
    fs.read(id, size - 5, ReadBuffer::Bytes(&mut back)).unwrap();
    assert_eq!(&back, b"12345");
    fs.allocate(id, Allocate::Punch, 0, size).unwrap();
    assert_eq!(fs.seek(id, 0, Seek::Data).unwrap_err().errno(), Errno::ENXIO);
    assert_eq!(fs.allocate(id, Allocate::Extend, 0, size).unwrap_err().errno(), Errno::ENOSPC);
    fs.set_attributes(id, &SetAttr { size: Some(0), ..SetAttr::default() }).unwrap();
    fs.check().unwrap();
}

#[test]
fn a_file_written_at_random_goes_to_the_disk_block_by_block() {
    for model in [Model::StrictAppend, Model::Caveat] {
        let mut rig = Rig::new(model, FsOptions { buffer_bytes: 64 * GRANULE, ..options() });
        let id = make(&rig.fs, "a");
        let mut expected = vec![0; 200 * GRANULE as usize];
        // Every third granule, from behind; then two next to another, over the end of a block.
        for granule in (0..40u64).rev().map(|number| 3 * number).chain([19, 20]) {
            let at = granule * GRANULE;
            let bytes = vec![granule as u8 + 1; GRANULE as usize];
            expected[at as usize..(at + GRANULE) as usize].copy_from_slice(&bytes);
            rig.fs.write(id, at, Data::Bytes(&bytes)).unwrap();
        }
        expected.truncate(118 * GRANULE as usize);
        rig.fs.sync(id).unwrap();
        let writes = rig.device.writes.load(Relaxed);
        assert!((6..=9).contains(&writes), "42 granules in blocks of 8, {model:?}: {writes} writes");
        rig.fs.check().unwrap();
        for _ in 0..2 {
            let mut found = vec![0; expected.len() + 1];
            assert_eq!(rig.fs.read(id, 0, ReadBuffer::Bytes(&mut found)).unwrap(), expected.len() as u64);
            assert!(found[..expected.len()] == expected, "{model:?}");
            rig.remount(true);
        }
    }
}

#[test]
fn a_file_in_pieces_that_is_read_in_order_is_read_ahead() {
    let rig = rig();
    let id = make(&rig.fs, "a");
    let granules = 76;
    for number in 0..granules {
        let at = (number * 27 % granules) * GRANULE;
        rig.fs.write(id, at, Data::Bytes(&[7; GRANULE as usize])).unwrap();
        rig.fs.sync(id).unwrap();
    }
    let read =
        |granule: u64| rig.fs.read(id, granule * GRANULE, ReadBuffer::Bytes(&mut [0; GRANULE as usize])).unwrap();
    read(37);
    assert!(rig.device.expected.lock().unwrap().is_empty(), "nobody reads in order yet");
    for granule in 0..granules {
        read(granule);
    }
    let expected = rig.device.expected.lock().unwrap();
    for (span, owner) in rig.fs.live() {
        let told = expected.iter().filter(|other| other.contains(span)).count();
        assert!(told > 0, "granule {} of the file, {span}: {expected:?}", owner.granule);
    }
    assert!(expected.len() as u64 <= granules, "{} hints for {granules} pieces", expected.len());
}

/// A copy that shares takes no room, overwriting it does, and whoever is the last to have something replaces it in place.
#[test]
fn a_shared_copy_takes_room_only_as_it_is_overwritten() {
    for model in [Model::StrictAppend, Model::Caveat] {
        for (gone, is_synced, is_remounted) in
            [("a", true, false), ("a", false, false), ("b", false, true), ("b", true, true)]
        {
            shared_and_overwritten(Rig::new(model, options()), gone, is_synced, is_remounted);
        }
    }
}

fn shared_and_overwritten(mut rig: Rig, gone: &str, is_synced: bool, is_remounted: bool) {
    let [one, two] = ["a", "b"].map(|name| make(&rig.fs, name));
    let granules = rig.fs.usage().unwrap().usable * 4 / 5;
    let bytes = granules * GRANULE;
    rig.fs.write(one, 0, Data::Bytes(&vec![1; bytes as usize])).unwrap();
    assert_eq!(rig.fs.share((one, 0), (two, 0), bytes).unwrap(), bytes);
    for clean in [false, true].into_iter().filter(|_| is_remounted) {
        rig.remount(clean);
        assert_eq!(rig.fs.usage().unwrap().live, granules);
    }
    let (left, removed) = if gone == "a" { (two, one) } else { (one, two) };
    let whole = |byte| vec![byte; bytes as usize];
    let refused = rig.fs.write(left, 0, Data::Bytes(&whole(2)));
    assert_eq!(refused.unwrap_err().errno(), Errno::ENOSPC, "there is no room for both");
    rig.fs.write(left, 0, Data::Bytes(&[2; 10 * GRANULE as usize])).unwrap();
    assert_eq!(rig.fs.usage().unwrap().live, granules + 10);
    rig.fs.allocate(left, Allocate::KeepSize, 10 * GRANULE, 5 * GRANULE).unwrap();
    if is_remounted {
        rig.remount(true);
    }
    assert_eq!(rig.fs.usage().unwrap().promised, 5, "what is shared is promised anew");
    let other = make(&rig.fs, "c");
    let rest = rig.fs.usage().unwrap().free * GRANULE;
    rig.fs.write(other, 0, Data::Bytes(&vec![7; rest as usize])).unwrap();
    rig.fs.write(left, 12 * GRANULE, Data::Bytes(&[2; GRANULE as usize])).unwrap();
    let fs = &rig.fs;
    fs.unlink(fs.root(), gone.as_bytes()).unwrap();
    fs.forget(removed, 1);
    if is_synced {
        fs.sync_all().unwrap();
    }
    for round in 3..6 {
        fs.write(left, 0, Data::Bytes(&whole(round))).unwrap();
        assert_eq!(fs.usage().unwrap().live, granules + rest / GRANULE);
    }
    assert!(contents(fs, left) == whole(5));
    fs.check().unwrap();
    rig.check();
}

/// Cleaning moves what is shared once: the disk holds no more afterwards, and both files name the same place.
#[test]
fn cleaning_keeps_shared_what_is_shared() {
    for model in [Model::StrictAppend, Model::Caveat] {
        let rig = Rig::new(model, options());
        let fs = &rig.fs;
        let [one, two, other] = ["a", "b", "c"].map(|name| make(fs, name));
        let usable = fs.usage().unwrap().usable;
        // What is shared and what is not lie side by side, in small pieces.
        for at in (0..100).map(|number| number * 37 % 100) {
            for file in [one, other] {
                fs.write(file, at * GRANULE, Data::Bytes(&[at as u8 | 1; GRANULE as usize])).unwrap();
                fs.sync(file).unwrap();
            }
        }
        let size = fs.attributes(one).unwrap().size;
        assert_eq!(fs.share((one, 0), (two, 0), size).unwrap(), size);
        let before = (contents(fs, one), fs.usage().unwrap().live);
        let places = || fs.live().into_iter().filter(|(_, owner)| owner.file != other).collect::<Vec<_>>();
        let at_first = places();
        let mut random = Pcg64Mcg::seed_from_u64(1);
        for _ in 0..3000 {
            let at = random.random_range(0..usable * 7 / 10) * GRANULE;
            fs.write(other, at, Data::Bytes(&[9; 3 * GRANULE as usize])).unwrap();
        }
        fs.sync_all().unwrap();
        assert_ne!(places(), at_first, "{model:?}: nothing that is shared was moved");
        let shared: u64 = places().iter().map(|(span, _)| span.count).sum();
        assert_eq!(shared * GRANULE, size, "{model:?}");
        assert!(contents(fs, one) == before.0 && contents(fs, two) == before.0);
        fs.check().unwrap();
        rig.check();
    }
}

fn contents(fs: &FileSystem, id: NodeId) -> Vec<u8> {
    let mut bytes = vec![0; fs.attributes(id).unwrap().size as usize];
    fs.read(id, 0, ReadBuffer::Bytes(&mut bytes)).unwrap();
    bytes
}
