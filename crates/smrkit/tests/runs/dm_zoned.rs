//! dm-zoned: what Linux documents of it.

use smrkit::device::LayeredDisk;
use smrkit::drive::Drive;
use smrkit::engine::system::DriveRun;
use smrkit::layer::{self, Need, Scalar};
use smrkit::medium::interference::Interference;
use smrkit::medium::{Buf, Medium, Stamps};
use smrkit::request::{Op, Request};
use smrkit::units::{Lba, Nanos};

use super::common::parameters;

/// Sectors of a zone in these tests.
const ZONE: u64 = 128;

fn device(set: &[(&str, &str)], medium: Medium) -> LayeredDisk {
    let drive = Drive::load("tiny-constant").unwrap().with_interference(Interference::None).unwrap();
    let small = [("zone_bytes", "64Ki"), ("commit_period", "0ns")];
    let set: Vec<(&str, &str)> = small.into_iter().chain(set.iter().copied()).collect();
    let layer = layer::find("dm-zoned").unwrap();
    DriveRun { drive, layer, parameters: parameters("dm-zoned", &set) }.device(medium).unwrap()
}

fn serve(device: &mut LayeredDisk, op: Op, lba: u64, n: u64) {
    device.serve(&Request::new(op, Lba(lba), n as u32), &mut Buf::NoData).unwrap();
}

fn count(device: &LayeredDisk, key: &str) -> u64 {
    match device.layer.stats().get(key) {
        Some(Scalar::Int(count)) => *count,
        other => panic!("{key} is {other:?}"),
    }
}

fn free_share(device: &LayeredDisk) -> f64 {
    device.layer.gauges().others[0].value
}

/// "For a 10TB host-managed disk with 256 MB zones, dm-zoned memory usage per disk instance is at most 4.5 MB and as little as 5
/// zones will be used internally for storing metadata and performing reclaim operations."
#[test]
fn ten_terabytes_take_five_zones_and_4_5_mb() {
    let drive = Drive::load("st5000as0011").unwrap().with_capacity(19_531_250_000).unwrap();
    let drive = drive.with_interference(Interference::None).unwrap();
    let layer = layer::find("dm-zoned").unwrap();
    let parameters = parameters("dm-zoned", &[("reserved_zones", "1")]);
    let zones = 37_252;
    let capacity = (layer.capacity)(&drive, &parameters).unwrap();
    assert_eq!((capacity.host_sectors, capacity.spare_sectors), ((zones - 5) << 19, 5 << 19));
    let built = (layer.build)(&drive, &parameters).unwrap();
    // Super blocks, mapping table, bitmaps of 16 zones of three blocks each, and 512 more.
    let blocks = 2 + 74 + 16 * 3 + 512;
    assert_eq!(built.map_bytes(), zones * 56 + blocks * 4096);
    assert!(2 * built.map_bytes() <= 9 << 20, "{}", built.map_bytes());
}

#[test]
fn reclaim_begins_at_30_percent_free_and_ends_at_50() {
    let mut device = device(&[("conventional_percent", "30")], Medium::NoData);
    let mut chunk = 0;
    while free_share(&device) > 0.3 {
        assert!(!device.step(Need::Must).unwrap(), "{} is free", free_share(&device));
        serve(&mut device, Op::Write, chunk * ZONE, 8);
        chunk += 1;
    }
    assert_eq!(count(&device, "zones_reclaimed"), 0);
    let mut before = 0.0;
    while device.step(Need::Must).unwrap() {
        assert!(before < 0.5, "{before} was free before this step");
        before = free_share(&device);
    }
    let zones = chunk as f64 / (1.0 - free_share(&device) - count(&device, "zones_reclaimed") as f64 / chunk as f64);
    assert!(free_share(&device) >= 0.5 && before >= 0.5, "{} free of {zones}", free_share(&device));
    assert!(count(&device, "zones_reclaimed") > 0);
    device.check().unwrap();
}

#[test]
fn idle_reclaim_frees_every_conventional_zone() {
    let mut device = device(&[("conventional_percent", "30"), ("idle_delay", "1s")], Medium::NoData);
    (0..5).for_each(|chunk| serve(&mut device, Op::Write, chunk * ZONE, 8));
    let end = device.now();
    device.idle_until(end + Nanos(1_000_000_000)).unwrap();
    assert_eq!(count(&device, "zones_reclaimed"), 0);
    device.idle_until(end + Nanos(3_600_000_000_000)).unwrap();
    assert_eq!((count(&device, "zones_reclaimed"), free_share(&device)), (5, 1.0));
}

/// A chunk that lies in a sequential zone, written up to sector 64.
fn half_written(set: &[(&str, &str)], medium: Medium) -> LayeredDisk {
    let mut device = device(set, medium);
    let mut buf = device.disk.buf(64);
    device.serve(&Request::new(Op::Write, Lba(0), 64), &mut buf).unwrap();
    while device.step(Need::Spare).unwrap() {}
    assert_eq!(free_share(&device), 1.0);
    device
}

#[test]
fn writes_at_the_pointer_go_to_the_zone_and_others_to_a_buffer() {
    let mut device = half_written(&[], Medium::NoData);
    let place = |device: &LayeredDisk, lba: u64| device.layer.locate(Lba(lba)).0;
    let home = place(&device, 0);
    serve(&mut device, Op::Write, 64, 8);
    assert_eq!((place(&device, 64), free_share(&device)), (home + 64, 1.0));
    serve(&mut device, Op::Write, 8, 8);
    let buffer = place(&device, 8) - 8;
    assert!(buffer < home && free_share(&device) < 1.0, "the buffer is a conventional zone");
    assert_eq!((place(&device, 0), place(&device, 16)), (home, home + 16));
    // Both are behind the pointer, but the first is not at it.
    serve(&mut device, Op::Write, 96, 8);
    serve(&mut device, Op::Write, 72, 32);
    assert_eq!([96, 72, 103].map(|lba| place(&device, lba)), [home + 96, home + 72, home + 103]);
    device.check().unwrap();
    while device.step(Need::Spare).unwrap() {}
    assert_eq!(free_share(&device), 1.0);
    device.check().unwrap();
}

#[test]
fn a_buffer_behind_the_pointer_is_appended_others_take_the_zone() {
    for (lba, reclaimed) in [(80, 1), (8, 2)] {
        let mut device = half_written(&[], Medium::NoData);
        let before = count(&device, "zones_reclaimed");
        serve(&mut device, Op::Write, lba, 8);
        while device.step(Need::Spare).unwrap() {}
        assert_eq!((count(&device, "zones_reclaimed") - before, free_share(&device)), (reclaimed, 1.0), "LBA {lba}");
        device.check().unwrap();
    }
}

#[test]
fn blocks_never_written_and_discarded_ones_read_as_zeros() {
    let mut device = half_written(&[], Medium::Stamps(Stamps::new()));
    let mut write = |lba: u64, stamp: u64| {
        device.serve(&Request::new(Op::Write, Lba(lba), 8), &mut Buf::Stamps(vec![stamp; 8])).unwrap();
    };
    write(0, 7);
    write(8, 9);
    write(64, 5);
    device.serve(&Request::new(Op::Discard, Lba(8), 12), &mut Buf::Stamps(Vec::new())).unwrap();
    let mut buf = Buf::Stamps(vec![1; 80]);
    device.serve(&Request::new(Op::Read, Lba(0), 80), &mut buf).unwrap();
    let Buf::Stamps(read) = buf else { panic!("a disk of stamps gives stamps") };
    let found: Vec<u64> = read.chunks_exact(8).map(|block| block[0]).collect();
    assert_eq!(found, [7, 0, 0, 0, 0, 0, 0, 0, 5, 0]);
}

#[test]
fn a_bitmap_that_is_not_in_memory_is_read_once() {
    let mut device = device(&[("conventional_percent", "30")], Medium::NoData);
    for _ in 0..3 {
        serve(&mut device, Op::Write, 0, 8);
        assert_eq!(count(&device, "metadata_reads"), 1);
    }
    serve(&mut device, Op::Write, ZONE, 8);
    assert_eq!((count(&device, "metadata_reads"), count(&device, "commits")), (2, 0));
    serve(&mut device, Op::Flush, 0, 0);
    serve(&mut device, Op::Flush, 0, 0);
    assert_eq!(count(&device, "commits"), 1);
}
