//! Costs that must not grow with the size of things: calls of the metadata store and bytes of maps, counted.
//!
//! `cargo bench -p smrfs --bench scale` measures the time and memory of larger ones.

mod common;

use std::sync::Arc;

use common::counted::{Counted, Counts};
use common::{FILE, GIB, MIB, Rig, shape};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::data::{Data, ReadBuffer};
use smrfs::device::Model;
use smrfs::units::{GRANULE_BYTES, NodeId};

/// A large disk and what is asked of its store.
fn rig() -> (Rig, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let counted = counts.clone();
    let shape = shape(Model::Caveat, 8 * GIB, MIB, MIB, 0);
    (Rig::new(shape, false, |store, _| Arc::new(Counted { store, counts: counted })), counts)
}

/// A file of this many pieces of 4 KiB that all lie alone, durable.
fn in_pieces(rig: &Rig, count: u64) -> NodeId {
    let id = rig.fs.make(rig.fs.root(), b"pieces", &FILE).unwrap().id;
    for number in 0..count {
        put(rig, id, number * 7919 % count);
    }
    rig.fs.sync_all().unwrap();
    id
}

fn put(rig: &Rig, id: NodeId, number: u64) {
    rig.fs.write(id, number * 3 * GRANULE_BYTES, Data::Blank(GRANULE_BYTES)).unwrap();
}

#[test]
fn an_fsync_of_a_large_map_stores_little_more_than_of_a_small_one() {
    let [small, large] = [1000, 100_000].map(|count| {
        let (rig, counts) = rig();
        let id = in_pieces(&rig, count);
        let mut random = Pcg64Mcg::seed_from_u64(1);
        counts.take();
        let syncs = 500;
        for _ in 0..syncs {
            put(&rig, id, random.random_range(0..count));
            rig.fs.sync(id).unwrap();
        }
        counts.take().map(|count| count / syncs)
    });
    println!("a sync: calls, bytes read and written: {small:?} of 1000 pieces, {large:?} of 100,000");
    assert!(large[0] <= 2 * small[0] + 4 && large[1] == 0, "{small:?} {large:?}");
    // A part of the map is written anew where its changes outgrow the record: 100 times the map, less than 10 times the bytes.
    assert!(large[2] <= 10 * small[2], "{small:?} {large:?}");
}

#[test]
fn a_clean_mount_reads_no_maps_and_a_lookup_one_record() {
    let (mut rig, counts) = rig();
    let id = in_pieces(&rig, 50_000);
    for number in 0..2000 {
        let file = rig.fs.make(rig.fs.root(), number.to_string().as_bytes(), &FILE).unwrap().id;
        rig.fs.write(file, 0, Data::Blank(GRANULE_BYTES)).unwrap();
    }
    rig.remount(false);
    let [scan, ..] = counts.take();
    assert!(scan > 2000, "{scan} calls: every file was read");
    rig.fs.unmount().unwrap();
    counts.take();
    let rig = rig.without_fs().mounted();
    let [calls, read, written] = counts.take();
    assert!(calls < 20 && read < 52_000 * 12 && written == 0, "{calls} calls, {read} bytes read, {written} written");
    let attr = rig.fs.lookup(rig.fs.root(), b"pieces").unwrap();
    assert_eq!(attr.blocks, 50_000 * GRANULE_BYTES / 512);
    let [calls, read, _] = counts.take();
    assert!(calls <= 3 && read <= 4096, "{calls} calls, {read} bytes for a stat");
    rig.fs.read(id, 0, ReadBuffer::Blank(GRANULE_BYTES)).unwrap();
    assert!(counts.take()[1] > 50_000, "now the map is read");
    rig.fs.read(id, 3 * GRANULE_BYTES, ReadBuffer::Blank(GRANULE_BYTES)).unwrap();
    assert_eq!(counts.take(), [0, 0, 0], "once");
}

#[test]
fn names_cost_the_same_in_any_directory() {
    let [small, large] = [100u64, 20_000].map(|count| {
        let (rig, counts) = rig();
        let root = rig.fs.root();
        for number in 0..count {
            rig.fs.make(root, number.to_string().as_bytes(), &FILE).unwrap();
        }
        rig.fs.sync_all().unwrap();
        counts.take();
        for number in 0..100 {
            let name = (number * count / 100).to_string();
            rig.fs.lookup(root, name.as_bytes()).unwrap();
            rig.fs.rename((root, name.as_bytes()), (root, b"x"), smrfs::meta::RenameMode::Replace).unwrap();
            let id = rig.fs.lookup(root, b"x").unwrap().id;
            rig.fs.sync(id).unwrap();
            rig.fs.unlink(root, b"x").unwrap();
        }
        counts.take()
    });
    assert_eq!(small, large, "calls, bytes read, bytes written");
}
