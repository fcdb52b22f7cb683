//! dm-zoned: what Linux documents of it.

use std::io;
use std::sync::{Arc, Mutex};

use smrkit::device::LayeredDisk;
use smrkit::drive::Drive;
use smrkit::engine::system::DriveRun;
use smrkit::layer::{self, Need, Scalar};
use smrkit::medium::interference::Interference;
use smrkit::medium::{Backing, Buf, Medium, MemoryBacking};
use smrkit::request::{Op, Request};
use smrkit::units::{Lba, Nanos, Pba};

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
    let mut device = half_written(&[], Medium::Bytes(Box::new(MemoryBacking::default())));
    let mut write = |lba: u64, byte: u8| {
        let mut buf = Buf::Bytes(vec![byte; 512 * 8]);
        device.serve(&Request::new(Op::Write, Lba(lba), 8), &mut buf).unwrap();
    };
    write(0, 7);
    write(8, 9);
    write(64, 5);
    device.serve(&Request::new(Op::Discard, Lba(8), 12), &mut Buf::Bytes(Vec::new())).unwrap();
    let mut buf = Buf::Bytes(vec![1; 512 * 80]);
    device.serve(&Request::new(Op::Read, Lba(0), 80), &mut buf).unwrap();
    let Buf::Bytes(read) = buf else { panic!("a disk of bytes gives bytes") };
    let found: Vec<u8> = read.chunks_exact(8 * 512).map(|block| block[0]).collect();
    assert_eq!(found, [7, 0, 0, 0, 0, 0, 0, 0, 5, 0]);
}

/// Bytes in memory that take note of what is discarded: (PBA, sectors).
struct NotesDiscards(MemoryBacking, Arc<Mutex<Vec<(u64, u64)>>>);

impl Backing for NotesDiscards {
    fn read(&self, pba: Pba, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read(pba, bytes)
    }

    fn write(&mut self, pba: Pba, bytes: &[u8]) -> io::Result<()> {
        self.0.write(pba, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    fn discard(&mut self, pba: Pba, sectors: u64) -> io::Result<()> {
        self.1.lock().unwrap().push((pba.0, sectors));
        Ok(())
    }
}

#[test]
fn a_discard_frees_the_whole_blocks_of_each_zone() {
    let discarded = Arc::default();
    let backing = NotesDiscards(MemoryBacking::default(), Arc::clone(&discarded));
    let mut device = half_written(&[], Medium::Bytes(Box::new(backing)));
    // Block 1 lies in a buffer, the others are in the zone.
    device.serve(&Request::new(Op::Write, Lba(8), 8), &mut Buf::Bytes(vec![1; 512 * 8])).unwrap();
    let [home, buffer] = [0, 8].map(|lba| device.layer.locate(Lba(lba)).0);
    discarded.lock().unwrap().clear();
    device.serve(&Request::new(Op::Discard, Lba(4), 31), &mut Buf::Bytes(Vec::new())).unwrap();
    assert_eq!(*discarded.lock().unwrap(), [(home + 8, 24), (buffer, 24)]);
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

#[test]
fn the_books_of_a_served_disk_bring_everything_back() {
    let mut before = half_written(&[], Medium::NoData);
    for lba in [8, 300, 1000, 64] {
        serve(&mut before, Op::Write, lba / 8 * 8, 8);
    }
    serve(&mut before, Op::Flush, 0, 0);
    let mut after = device(&[], Medium::NoData);
    after.layer.take_books(&before.layer.books().unwrap()).unwrap();
    after.check().unwrap();
    for lba in (0..1200).map(Lba) {
        assert_eq!(after.layer.locate(lba), before.layer.locate(lba), "LBA {lba}");
    }
    assert!(after.layer.take_books(&[1, 2]).is_err());
}
