//! Zoned block devices under strict-append: the device's write pointers count, and none of its rules is broken.
//!
//! The device is emulated in memory, with blocks of a quarter of a granule; whole lives of a file system on it, cut at every
//! write, are in `crash.rs`.

#[path = "common/zones.rs"]
mod zones;

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::data::{Data, ReadBuffer};
use smrfs::device::strict::StrictAppend;
use smrfs::device::zoned::{Zone, ZoneKind, ZonedDevice, ZonedError, ZonedGeometry, ZonedLayout, Zones};
use smrfs::device::{BandState, HostManaged};
use smrfs::error::{DeviceError, Violation};
use smrfs::superblock::Area;
use smrfs::superblock::{Superblock, Uuid, VolumeKey};
use smrfs::testing::memory::Power;
use smrfs::testing::memory::WriteLoss;
use smrfs::units::Granule;
use smrkit::tally::Cause;
use zones::{Emulated, EmulatedZones};

const GRANULE: u64 = 512;
const BLOCK: u64 = GRANULE / 4;
/// Granules of a zone, and those that can be written in a sequential one.
const PITCH: u64 = 19;
const CAPACITY: u64 = 16;
const CONVENTIONAL: u64 = 3;
const ZONES: EmulatedZones = EmulatedZones {
    geometry: ZonedGeometry { zones: 13, zone_bytes: PITCH * GRANULE, block_bytes: BLOCK, max_open: 0, max_active: 5 },
    conventional: CONVENTIONAL,
    capacity_blocks: CAPACITY * GRANULE / BLOCK,
};

type Disk = StrictAppend<Zones<Emulated>>;

fn new() -> (Arc<Emulated>, Disk) {
    let device = Arc::new(Emulated::new(ZONES, Arc::new(Power::new())));
    let disk = Zones::format(Arc::clone(&device), GRANULE).unwrap();
    disk.flush().unwrap();
    (device, disk)
}

fn open(device: &Arc<Emulated>) -> Disk {
    Zones::open(Arc::clone(device), GRANULE, true).unwrap()
}

fn write(disk: &Disk, at: Granule, granules: u64, value: u8) -> Result<(), DeviceError> {
    disk.write(at, Data::Bytes(&vec![value; (granules * GRANULE) as usize]), Cause::Host)
}

/// The value that fills a granule.
fn read(disk: &Disk, at: Granule) -> u8 {
    let mut room = vec![0; GRANULE as usize];
    disk.read(at, ReadBuffer::Bytes(&mut room), Cause::Host).unwrap();
    assert!(room.iter().all(|&value| value == room[0]), "granule {at} is mixed");
    room[0]
}

/// Cursor of a band, in granules.
fn filled(disk: &Disk, band: u64) -> u64 {
    let report = disk.report(band, 1).unwrap()[0];
    report.cursor - report.start
}

/// Each band as the host has it: the values written since its reset, and how many of them are durable.
#[derive(Clone, Default)]
struct Band {
    values: Vec<u8>,
    durable: usize,
}

/// A host that appends, resets, flushes and is told of failures, with a power cut at its end.
struct Host {
    bands: Vec<Band>,
    random: Pcg64Mcg,
    value: u8,
}

impl Host {
    fn step(&mut self, device: &Emulated, disk: &Disk) {
        let band = self.random.random_range(0..self.bands.len());
        let start = disk.shape().bands.span(band as u64).at;
        match self.random.random_range(0..20) {
            0..14 => self.append(device, disk, band),
            14..17 => {
                if self.random.random_range(0..4) == 0 {
                    device.fail_resets(1);
                }
                let reset = disk.reset(band as u64);
                device.fail_resets(0);
                match reset {
                    Ok(()) => self.bands[band] = Band::default(),
                    Err(_) => assert_eq!(filled(disk, band as u64), self.bands[band].values.len() as u64),
                }
            }
            _ => {
                disk.flush().unwrap();
                self.bands.iter_mut().for_each(|band| band.durable = band.values.len());
            }
        }
        for i in 0..self.bands[band].values.len() as u64 {
            assert_eq!(read(disk, start + i), self.bands[band].values[i as usize]);
        }
    }

    fn append(&mut self, device: &Emulated, disk: &Disk, band: usize) {
        let (start, written) = (disk.shape().bands.span(band as u64).at, self.bands[band].values.len() as u64);
        if written == CAPACITY {
            return;
        }
        let granules = self.random.random_range(1..=CAPACITY - written);
        let fails = self.random.random_range(0..6) == 0;
        if fails {
            device.fail_next_write(self.random.random_range(0..granules * GRANULE / BLOCK));
        }
        self.value = self.value % 250 + 1;
        match write(disk, start + written, granules, self.value) {
            Ok(()) => {
                assert!(!fails || band < CONVENTIONAL as usize - 1);
                self.bands[band].values.resize((written + granules) as usize, self.value);
            }
            Err(DeviceError::Violation(Violation::TooManyOpen { .. })) => {}
            Err(_) => {
                // The device says where it stopped; what a torn granule holds is filled up and not to be read.
                let now = filled(disk, band as u64);
                assert!(written <= now && now <= written + granules);
                let values = &mut self.bands[band].values;
                values.resize(now as usize, self.value);
                self.forget_last(disk, band, written as usize);
            }
        }
    }

    /// The last granule written may be torn: its value is what the disk has.
    fn forget_last(&mut self, disk: &Disk, band: usize, from: usize) {
        let start = disk.shape().bands.span(band as u64).at;
        if self.bands[band].values.len() > from {
            let last = self.bands[band].values.len() as u64 - 1;
            let mut room = vec![0; GRANULE as usize];
            disk.read(start + last, ReadBuffer::Bytes(&mut room), Cause::Host).unwrap();
            let is_torn = room.iter().any(|&value| value != room[0]);
            if is_torn {
                assert!(room.ends_with(&[0; BLOCK as usize]), "what is missing of a granule is zeros");
                disk.reset(band as u64).unwrap();
                self.bands[band] = Band::default();
            }
        }
    }
}

#[test]
fn whatever_fails_the_cursors_are_the_devices() {
    for seed in 0..400 {
        let (device, disk) = new();
        let bands = vec![Band::default(); disk.shape().bands.count as usize];
        let mut host = Host { bands, random: Pcg64Mcg::seed_from_u64(seed), value: 0 };
        for _ in 0..60 {
            host.step(&device, &disk);
        }
        assert_eq!(device.refused(), [""; 0], "seed {seed}");
    }
}

#[test]
fn what_was_flushed_is_before_the_cursor_after_a_cut() {
    let (mut torn, mut cuts) = (0, 0);
    for seed in 0..60 {
        let power = Arc::new(Power::new());
        let device = Arc::new(Emulated::new(ZONES, Arc::clone(&power)));
        let disk = Zones::format(Arc::clone(&device), GRANULE).unwrap();
        disk.flush().unwrap();
        let bands = vec![Band::default(); disk.shape().bands.count as usize];
        let mut host = Host { bands, random: Pcg64Mcg::seed_from_u64(seed), value: 0 };
        let mut moments = Vec::new();
        for _ in 0..40 {
            moments.push((power.operations(), host.bands.clone()));
            host.step(&device, &disk);
        }
        for (number, loss) in WriteLoss::ALL.into_iter().cycle().take(120).enumerate() {
            let cut = host.random.random_range(moments[0].0 + 1..=power.operations() + 1);
            let before = &moments[moments.partition_point(|(from, _)| *from < cut) - 1].1;
            let after =
                moments.get(moments.partition_point(|(from, _)| *from < cut)).map_or(&host.bands, |next| &next.1);
            let left = Arc::new(device.survivor(cut, loss, seed + number as u64, Arc::new(Power::new())));
            let pointers = left.report(CONVENTIONAL, ZONES.geometry.zones).unwrap();
            torn += pointers.iter().filter(|zone| zone.pointer % GRANULE > 0).count();
            cuts += 1;
            check(&open(&left), before, after);
            assert_eq!(left.refused(), [""; 0], "seed {seed}, cut {cut}, {loss:?}");
        }
    }
    assert!(torn > cuts / 20, "{torn} torn granules in {cuts} cuts");
}

/// Durable data that was not reset since is there, and the disk can be written at every cursor.
fn check(disk: &Disk, before: &[Band], after: &[Band]) {
    for (number, (before, after)) in before.iter().zip(after).enumerate() {
        let start = disk.shape().bands.span(number as u64).at;
        let kept = after.values.starts_with(&before.values[..before.durable]);
        if kept {
            assert!(filled(disk, number as u64) >= before.durable as u64, "band {number}");
            for i in 0..before.durable {
                assert_eq!(read(disk, start + i as u64), before.values[i], "band {number}");
            }
        }
    }
    for band in 0..disk.shape().bands.count {
        let (cursor, end) = (filled(disk, band), disk.shape().bands.granules);
        if cursor < end {
            match write(disk, disk.shape().bands.span(band).at + cursor, end - cursor, 9) {
                Ok(()) | Err(DeviceError::Violation(Violation::TooManyOpen { .. })) => {}
                Err(error) => panic!("band {band} from {cursor} on: {error}"),
            }
        }
    }
}

#[test]
fn a_disk_to_be_looked_at_is_not_written() {
    let (device, disk) = new();
    let band = CONVENTIONAL;
    device.fail_next_write(5);
    write(&disk, disk.shape().bands.span(band).at, 3, 7).unwrap_err();
    let fresh = Arc::new(Emulated::new(ZONES, Arc::new(Power::new())));
    drop(Zones::format(Arc::clone(&fresh), GRANULE).unwrap());
    // A torn granule that nobody has filled up.
    fresh.write((band + 1) * PITCH * GRANULE, &vec![7; 5 * BLOCK as usize]).unwrap();
    let looked = Zones::open(Arc::clone(&fresh), GRANULE, false).unwrap();
    assert_eq!((filled(&looked, band), fresh.report(band + 1, 1).unwrap()[0].pointer % GRANULE), (1, BLOCK));
    let opened = open(&fresh);
    assert_eq!((filled(&opened, band), fresh.report(band + 1, 1).unwrap()[0].pointer % GRANULE), (2, 0));
}

#[test]
fn what_lies_in_zones_without_gaps_is_read_across_them() {
    let zones = EmulatedZones { capacity_blocks: PITCH * GRANULE / BLOCK, ..ZONES };
    let disk = Zones::format(Arc::new(Emulated::new(zones, Arc::new(Power::new()))), GRANULE).unwrap();
    let band = disk.shape().bands.span(CONVENTIONAL);
    write(&disk, band.at, band.count, 1).unwrap();
    write(&disk, band.end(), 2, 2).unwrap();
    let mut room = vec![0; 5 * GRANULE as usize];
    disk.read(band.at + (band.count - 3), ReadBuffer::Bytes(&mut room), Cause::Host).unwrap();
    let values: Vec<u8> = room.chunks(GRANULE as usize).map(|granule| granule[0]).collect();
    assert_eq!(values, [1, 1, 1, 2, 2]);
    let beyond = disk.read(band.at + (band.count - 2), ReadBuffer::Bytes(&mut room), Cause::Host);
    assert!(matches!(beyond, Err(DeviceError::Violation(Violation::BeyondCursor { .. }))), "{beyond:?}");
}

#[test]
fn zones_out_of_service_are_told_and_left() {
    let (device, _) = new();
    device.lose(5, BandState::Offline);
    device.lose(6, BandState::ReadOnly);
    let disk = open(&device);
    let states: Vec<BandState> = disk.report(0, 20).unwrap().iter().map(|band| band.state).collect();
    assert_eq!((states[4], states[5], states[6]), (BandState::Offline, BandState::ReadOnly, BandState::Empty));
    // One that is lost later is noticed by what fails.
    let band = disk.shape().bands.span(7).at;
    device.lose(8, BandState::ReadOnly);
    write(&disk, band, 1, 1).unwrap_err();
    assert_eq!(disk.report(7, 1).unwrap()[0].state, BandState::ReadOnly);
}

#[test]
fn a_superblock_is_written_after_a_write_that_failed() {
    for conventional in [0, 1, CONVENTIONAL] {
        let zones = EmulatedZones { conventional, ..ZONES };
        let device = Arc::new(Emulated::new(zones, Arc::new(Power::new())));
        let disk = Zones::format(Arc::clone(&device), GRANULE).unwrap();
        let shape = *disk.shape();
        let first = Superblock {
            uuid: Uuid::default(),
            metadata: Uuid::default(),
            shape,
            sequence: 0,
            mounts: 0,
            is_clean: true,
            key: VolumeKey::default(),
            path: b"/meta".to_vec(),
        };
        let mut area = Area::format(Arc::new(disk), first).unwrap();
        for mounts in 1..60 {
            let next = Superblock { mounts, ..area.newest.clone() };
            if mounts % 3 == 0 && conventional == 0 {
                device.fail_next_write(mounts % 4);
                area.store(next.clone()).unwrap_err();
                let found = Area::load(Arc::new(open(&device))).unwrap();
                assert_eq!(found.newest.mounts, mounts - 1);
            }
            area.store(next).unwrap();
            let found = Area::load(Arc::new(open(&device))).unwrap();
            assert_eq!(found.newest.mounts, mounts);
        }
        assert_eq!(device.refused(), [""; 0]);
    }
}

/// The refusal of a device, in words.
fn refusal(change: impl FnOnce(&mut ZonedGeometry, &mut Vec<Zone>)) -> String {
    let mut geometry = ZonedGeometry { zones: 20, zone_bytes: 4 << 20, block_bytes: 512, max_open: 0, max_active: 0 };
    let zone = |number: u64| Zone {
        kind: if number < 2 { ZoneKind::Conventional } else { ZoneKind::SequentialRequired },
        state: BandState::Empty,
        start: number * (4 << 20),
        capacity: if number < 2 { 4 << 20 } else { 3 << 20 },
        pointer: number * (4 << 20),
    };
    let mut zones: Vec<Zone> = (0..20).map(zone).collect();
    change(&mut geometry, &mut zones);
    ZonedLayout::new(&geometry, &zones, 4096).map_or_else(|error| error.to_string(), |layout| format!("{layout:?}"))
}

#[test]
fn devices_that_do_not_fit_are_refused_with_a_remedy() {
    assert!(refusal(|_, _| {}).contains("first_zone: 1, conventional: 1"));
    assert!(refusal(|geometry, _| geometry.max_active = 14).contains("max_open: 14"));
    assert!(refusal(|_, zones| zones[5].kind = ZoneKind::SequentialPreferred).contains("host-aware"));
    assert!(refusal(|geometry, _| geometry.block_bytes = 16384).contains("nvme format"));
    assert!(refusal(|_, zones| zones[5].capacity = 1 << 20).contains("zones of one size"));
    assert!(refusal(|_, zones| zones.iter_mut().for_each(|zone| zone.capacity = 12_000)).contains("no multiples"));
    assert!(refusal(|_, zones| zones.retain(|zone| zone.kind == ZoneKind::Conventional)).contains("no zones"));
    assert!(refusal(|_, zones| zones[5].state = BandState::Offline).contains("count: 19"));
}

#[test]
fn a_table_of_other_zones_or_of_nothing_is_refused() {
    let (device, _) = new();
    let other = EmulatedZones { capacity_blocks: ZONES.capacity_blocks - 4, ..ZONES };
    let foreign = Arc::new(Emulated::new(other, Arc::new(Power::new())));
    let open = |device: &Arc<Emulated>| Zones::open(Arc::clone(device), GRANULE, true).map(drop).unwrap_err();
    assert!(matches!(open(&foreign), ZonedError::Foreign));
    let mut table = vec![0; 4096];
    device.read(0, &mut table).unwrap();
    foreign.write(0, &table).unwrap();
    assert!(matches!(open(&foreign), ZonedError::OtherZones));
    table[8] = 9;
    foreign.write(0, &table).unwrap();
    assert!(matches!(open(&foreign), ZonedError::Version(9)));
}
