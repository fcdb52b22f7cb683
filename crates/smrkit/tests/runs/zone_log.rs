//! The log over zones: write pointers, the reserve, resets, idle time, and files.

use rand::RngExt;
use smrkit::device::LayeredDisk;
use smrkit::drive::Drive;
use smrkit::engine::Observer;
use smrkit::engine::system::DriveRun;
use smrkit::layer::{self, GarbageCollection, Need, Scalar};
use smrkit::medium::interference::Interference;
use smrkit::medium::{Buf, Medium};
use smrkit::request::{Op, Request};
use smrkit::units::{Lba, Nanos};

use crate::common::{Disks, Witness, parameters, random_requests};

/// Sectors of a zone in these tests.
const ZONE: u64 = 128;

fn device(set: &[(&str, &str)]) -> LayeredDisk {
    let drive = Drive::load("tiny-constant").unwrap().with_interference(Interference::None).unwrap();
    let small = [("zone_bytes", "64Ki"), ("conventional_percent", "4")];
    let set: Vec<(&str, &str)> = small.into_iter().chain(set.iter().copied()).collect();
    let layer = layer::find("zone-log").unwrap();
    DriveRun { drive, layer, parameters: parameters("zone-log", &set) }.device(Medium::NoData).unwrap()
}

fn serve(device: &mut LayeredDisk, op: Op, lba: u64, n: u64) {
    device.step(Need::Must).unwrap();
    device.serve(&Request::new(op, Lba(lba), n as u32), &mut Buf::NoData).unwrap();
}

fn count(device: &LayeredDisk, key: &str) -> u64 {
    match device.layer.stats().get(key) {
        Some(Scalar::Int(count)) => *count,
        other => panic!("{key} is {other:?}"),
    }
}

fn free_zones(device: &LayeredDisk) -> u64 {
    device.layer.gauges().others.iter().find(|gauge| gauge.name == "free_zones").unwrap().value as u64
}

const HOSTS: [&str; 4] = ["mixed", "xfs", "btrfs", "f2fs"];

#[test]
fn every_zone_is_written_at_its_pointer_or_from_its_start() {
    HOSTS.into_iter().for_each(writes_at_pointers);
}

fn writes_at_pointers(host: &str) {
    let mut device = device(&[("host", host), ("spare_percent", "10")]);
    let mut witness = Witness::default();
    device.disk.record(witness.recorder(0));
    for request in random_requests(&mut Disks::new(3).random, device.host_sectors, 20_000) {
        device.step(Need::Must).unwrap();
        device.serve(&request, &mut Buf::NoData).unwrap();
    }
    device.check().unwrap();
    let (mut pointers, mut causes) = (vec![0; 1000], vec![None; 1000]);
    for (_, access) in witness.0.lock().unwrap().iter().filter(|(_, access)| access.write) {
        let (mut at, end) = (access.pba.0, access.pba.0 + access.sectors);
        while at < end {
            let (zone, offset) = ((at / ZONE) as usize, at % ZONE);
            let n = (end - at).min(ZONE - offset);
            // A zone that is written from its start again was full.
            let fits = offset == pointers[zone] || offset == 0 && pointers[zone] == ZONE;
            assert!(fits, "PBA {at} is written, and zone {zone} up to its sector {}", pointers[zone]);
            // What cleaning moves has zones of its own.
            let cause = if offset == 0 { None } else { causes[zone] };
            assert!(cause.is_none_or(|cause| cause == access.cause), "zone {zone} holds data of both causes");
            (pointers[zone], causes[zone]) = (offset + n, Some(access.cause));
            at += n;
        }
    }
    assert!(count(&device, "zones_reset") + count(&device, "bands_cleaned") > 100);
}

/// A full disk with hardly more spare than the reserve: cleaning goes on for ever, and the host leaves the reserve alone.
#[test]
fn the_reserve_keeps_cleaning_from_getting_stuck() {
    let reserve = 2;
    for open in ["1", "4"] {
        let mut device = device(&[("open_zones", open), ("clean_below_zones", "1"), ("spare_percent", "0.1")]);
        device.fill();
        let host = device.host_sectors;
        let (mut random, mut least) = (Disks::new(1).random, u64::MAX);
        for _ in 0..20_000 {
            let n = random.random_range(1..40);
            let before = free_zones(&device);
            device
                .serve(&Request::new(Op::Write, Lba(random.random_range(0..host - n)), n as u32), &mut Buf::NoData)
                .unwrap();
            let after = free_zones(&device);
            assert!(after >= before || after + 1 >= reserve, "{before} zones were free, and are {after}");
            least = least.min(after);
        }
        device.check().unwrap();
        assert!(least + 1 >= reserve && least <= reserve, "{least} zones were free, {reserve} are reserved");
        assert!(count(&device, "moved_sectors") > 0);
    }
}

/// Writes that find no zone in which cleaning has gone ahead, of writes of single sectors to a full disk.
fn writes_that_waited(set: &[(&str, &str)]) -> u64 {
    let mut device = device(&[&[("spare_percent", "10")], set].concat());
    device.fill();
    let (host, mut random, mut waited) = (device.host_sectors, Disks::new(1).random, 0);
    for _ in 0..40_000 {
        device.step(Need::Must).unwrap();
        let cleaned = count(&device, "bands_cleaned");
        let lba = random.random_range(0..host);
        device.serve(&Request::new(Op::Write, Lba(lba), 1), &mut Buf::NoData).unwrap();
        waited += u64::from(count(&device, "bands_cleaned") > cleaned);
    }
    let counted = device.layer.garbage_collection().unwrap();
    assert_eq!((counted.writers_slept, counted.moved_sectors), (waited, count(&device, "moved_sectors")));
    waited
}

#[test]
fn no_write_waits_for_a_zone_where_as_many_are_free_as_are_open() {
    assert_eq!(writes_that_waited(&[]), 0);
    assert!(writes_that_waited(&[("clean_below_zones", "1")]) > 0);
}

#[test]
fn zones_of_which_nothing_is_live_are_reset_without_copies() {
    let mut device = device(&[]);
    device.fill();
    let (host, free) = (device.host_sectors, free_zones(&device));
    for _ in 0..3 {
        (0..host / 16).for_each(|i| serve(&mut device, Op::Write, i * 16, 16));
    }
    assert_eq!((count(&device, "moved_sectors"), count(&device, "bands_cleaned")), (0, 0));
    assert!(count(&device, "zones_reset") >= 3 * (host / ZONE) - 8);
    let accesses = device.physical_sectors();
    serve(&mut device, Op::Discard, 0, host);
    // Only open zones are left.
    assert!(free_zones(&device) + 5 >= free + host / ZONE, "{} are free", free_zones(&device));
    assert_eq!(device.physical_sectors(), accesses);
    device.check().unwrap();
}

/// Every third of a zone's sectors is written again, or two of three.
fn holed(device: &mut LayeredDisk, of_three: u64) {
    device.fill();
    (0..40 * ZONE).filter(|lba| lba % 3 < of_three).for_each(|lba| serve(device, Op::Write, lba, 1));
}

#[test]
fn idle_time_cleans_zones_less_than_half_live_after_the_delay() {
    let set = [("spare_percent", "40"), ("idle_clean", "on"), ("idle_delay", "1s")];
    for (of_three, cleans) in [(1, false), (2, true)] {
        let mut device = device(&set);
        holed(&mut device, of_three);
        let (end, moved) = (device.now(), |device: &LayeredDisk| count(device, "moved_sectors"));
        device.idle_until(end + Nanos(1_000_000_000)).unwrap();
        assert_eq!(moved(&device), 0);
        device.idle_until(end + Nanos(1_000_000_001)).unwrap();
        assert_eq!(moved(&device) > 0, cleans);
        assert!(!device.step(Need::Must).unwrap(), "a request need not go on with it");
        device.idle_until(end + Nanos(3_600_000_000_000)).unwrap();
        assert_eq!(count(&device, "bands_cleaned") >= 30, cleans);
        assert!(!device.layer.stats().contains_key("first_cleaning_request"));
        device.check().unwrap();
    }
    let mut unused = device(&set[..1]);
    holed(&mut unused, 2);
    unused.idle_until(unused.now() + Nanos(3_600_000_000_000)).unwrap();
    assert_eq!(count(&unused, "moved_sectors"), 0);
}

/// Two live stretches too far apart for one stage: the second waits for more idle time, whatever requests come.
#[test]
fn a_request_does_not_go_on_with_what_idle_time_began() {
    let zones = [("zone_bytes", "256Ki"), ("conventional_percent", "0"), ("open_zones", "1"), ("spare_percent", "20")];
    let mut device = device(&[&zones[..], &[("idle_clean", "on"), ("idle_delay", "1s")]].concat());
    device.fill();
    serve(&mut device, Op::Write, 8, 488);
    let moved = |device: &LayeredDisk| count(device, "moved_sectors");
    device.idle_until(device.now() + Nanos(1_000_000_001)).unwrap();
    assert_eq!(moved(&device), 8);
    assert!(!device.step(Need::Must).unwrap());
    serve(&mut device, Op::Read, 0, 8);
    assert_eq!((moved(&device), count(&device, "bands_cleaned")), (8, 0));
    device.idle_until(device.now() + Nanos(10_000_000_000)).unwrap();
    assert_eq!((moved(&device), count(&device, "bands_cleaned")), (24, 1));
    device.check().unwrap();
}

#[test]
fn files_written_in_turns_have_zones_of_their_own() {
    for (open_zones, apart) in [("1", false), ("2", true)] {
        let mut device = device(&[("open_zones", open_zones)]);
        for i in 0..8 {
            serve(&mut device, Op::Write, i * 8, 8);
            serve(&mut device, Op::Write, 10 * ZONE + i * 8, 8);
        }
        let zone = |lba: u64| device.layer.locate(Lba(lba)).0 / ZONE;
        assert_eq!(zone(0) != zone(10 * ZONE), apart, "{open_zones}");
        assert_eq!(device.layer.locate(Lba(56)) == device.layer.locate(Lba(0)) + 56, apart, "{open_zones}");
    }
}

/// Six zones are written, the second and then the first are emptied, and what lies in the third is written again and again: the zones
/// that it goes to, counted from the first that was written, before and after the last zone of the disk.
fn zones_used(order: &str) -> (Vec<u64>, Vec<u64>) {
    let mut device = device(&[("open_zones", "1"), ("free_zones", order)]);
    let write = |device: &mut LayeredDisk, zone: u64| serve(device, Op::Write, zone * ZONE, ZONE);
    let zones = free_zones(&device);
    (0..6).for_each(|zone| write(&mut device, zone));
    let place = |device: &LayeredDisk, zone: u64| device.layer.locate(Lba(zone * ZONE)).0 / ZONE;
    let first = place(&device, 0);
    [1, 0].iter().for_each(|zone| serve(&mut device, Op::Discard, zone * ZONE, ZONE));
    let mut used = (0..zones).map(|_| {
        write(&mut device, 2);
        place(&device, 2) - first
    });
    let until_end = used.by_ref().take(zones as usize - 6).collect();
    (until_end, used.take(3).collect())
}

#[test]
fn free_zones_are_used_in_the_order_that_was_asked_for() {
    let (oldest, lowest, round_robin) = (zones_used("oldest"), zones_used("lowest"), zones_used("round-robin"));
    assert!(lowest.0.iter().zip([0, 1].iter().cycle()).all(|(used, one)| used == one), "{:?}", lowest.0);
    let ascending: Vec<u64> = (6..6 + oldest.0.len() as u64).collect();
    assert_eq!((&oldest.0, &round_robin.0), (&ascending, &ascending));
    assert_eq!((oldest.1, round_robin.1), (vec![1, 0, 2], vec![0, 1, 2]));
}

/// A full disk of a host on which single sectors are written at random, and what cleaning counted.
fn worn(set: &[(&str, &str)]) -> (LayeredDisk, GarbageCollection) {
    let mut device = device(&[&[("spare_percent", "30")], set].concat());
    device.fill();
    let (host, mut random) = (device.host_sectors, Disks::new(1).random);
    (0..40_000).for_each(|_| serve(&mut device, Op::Write, random.random_range(0..host), 1));
    device.check().unwrap();
    let counted = device.layer.garbage_collection().unwrap();
    (device, counted)
}

/// With so little garbage in each zone, btrfs finds none that it would reclaim.
#[test]
fn no_space_is_left_where_a_host_leaves_garbage_alone() {
    for (host, refuses) in [("xfs", false), ("btrfs", true), ("f2fs", false)] {
        let (_, counted) = worn(&[("host", host)]);
        assert_eq!((counted.enospc > 0, counted.enospc_garbage_sectors > 0), (refuses, refuses), "{host}: {counted:?}");
        assert!(counted.moved_sectors > 0, "{host}");
    }
    let (_, counted) = worn(&[("host", "btrfs"), ("reclaim_percent", "1")]);
    assert_eq!(counted.enospc, 0, "{counted:?}");
}

#[test]
fn cleaning_keeps_a_share_of_the_unused_space_free() {
    let free = |percent| {
        let (mut device, _) = worn(&[("host", "xfs"), ("open_zones", "2"), ("low_space_percent", percent)]);
        // Half of the disk is unused, so that a share of it is more than the zones that may be open.
        let host = device.host_sectors;
        serve(&mut device, Op::Discard, host / 2, host - host / 2);
        let mut random = Disks::new(2).random;
        (0..20_000).for_each(|_| serve(&mut device, Op::Write, random.random_range(0..host / 2), 1));
        (free_zones(&device) * ZONE) as f64 / (host / 2) as f64
    };
    let (little, much) = (free("0"), free("80"));
    assert!(little < 0.3 && much >= 0.75, "{little} and {much} of the unused space are free");
}

#[test]
fn f2fs_has_logs_by_temperature_and_moves_data_to_the_cold_one() {
    let mut device = device(&[("host", "f2fs"), ("hints", "on"), ("spare_percent", "30")]);
    let lives = [0, 2, 5, 3];
    for (at, life) in (0..).zip(lives) {
        device.layer.set_source(life);
        serve(&mut device, Op::Write, at * 8, 8);
    }
    let zone = |at: u64| device.layer.locate(Lba(at * 8)).0 / ZONE;
    assert!(zone(0) == zone(3) && zone(0) != zone(1) && zone(0) != zone(2) && zone(1) != zone(2));
}

/// Moved data goes to the log for cold data, which is one of the open zones. With as many zones open and kept free (three are those of f2fs's
/// logs of nodes), `mixed` has one more, for what it moves.
#[test]
fn f2fs_keeps_no_zone_open_for_what_it_moves() {
    let host_sectors = |host, clean_below| {
        let set = [("host", host), ("open_zones", "3"), ("clean_below_zones", clean_below), ("spare_percent", "50")];
        device(&set).host_sectors
    };
    assert_eq!(host_sectors("f2fs", "2"), host_sectors("mixed", "5") + ZONE / 2);
}

#[test]
fn a_file_is_as_long_as_was_said() {
    for (file_bytes, apart) in [("64Ki", false), ("4Ki", true)] {
        let mut device = device(&[("file_bytes", file_bytes)]);
        (0..2).for_each(|file| serve(&mut device, Op::Write, file * 8, 8));
        assert_eq!(device.layer.locate(Lba(8)).0 / ZONE != device.layer.locate(Lba(0)).0 / ZONE, apart, "{file_bytes}");
    }
}

#[test]
fn a_disk_of_too_few_zones_says_what_to_change() {
    let drive = Drive::load("tiny-constant").unwrap();
    let layer = layer::find("zone-log").unwrap();
    let error = (layer.capacity)(&drive, &parameters("zone-log", &[("open_zones", "100")])).unwrap_err().to_string();
    assert!(error.contains("and 107 are open, reserved or wanted free: lower zone_bytes"), "{error}");
}
