//! Idle time: every layer that uses it does so after its delay, a stage at a time, and leaves commands alone.

use crate::common::parameters;
use smrkit::device::LayeredDisk;
use smrkit::drive::Drive;
use smrkit::engine::system::DriveRun;
use smrkit::layer::{self, Need};
use smrkit::medium::{Buf, Medium};
use smrkit::request::{Op, Request};
use smrkit::units::{Lba, Nanos};

const LAYERS: [(&str, &[(&str, &str)]); 4] = [
    ("set-assoc", &[("region_sectors", "500"), ("cache_percent", "20")]),
    ("s-block", &[("sblock_sectors", "64"), ("cache_percent", "10"), ("spare_percent", "10")]),
    ("vguard", &[("cache_tracks", "40"), ("band_tracks", "6")]),
    ("drive-managed", &[("cache_tracks", "40"), ("alpha", "300"), ("band_tracks", "6")]),
];
const DELAY: Nanos = Nanos(700_000_000);

/// The layer on a small disk after 100 writes, with something cached.
fn written(name: &str, set: &[(&str, &str)], idle_clean: &str) -> LayeredDisk {
    let mut set = set.to_vec();
    set.extend([("idle_clean", idle_clean), ("idle_delay", "700ms")]);
    let layer = layer::find(name).unwrap();
    let run = DriveRun { drive: Drive::load("tiny").unwrap(), layer, parameters: parameters(name, &set) };
    let mut device = run.device(Medium::NoData).unwrap();
    for i in 0..100 {
        device.serve(&Request::new(Op::Write, Lba(i * 17), 4), &mut Buf::NoData).unwrap();
    }
    while device.step(Need::Must).unwrap() {}
    assert!(fill(&device) > 0.0, "{name}");
    device
}

fn fill(device: &LayeredDisk) -> f64 {
    device.layer.gauges().cache_fill.unwrap()
}

fn accesses(device: &LayeredDisk) -> (u64, u64) {
    device.physical_sectors()
}

#[test]
fn idle_time_empties_the_cache_after_the_delay_where_that_is_wanted() {
    for (name, set) in LAYERS {
        let mut device = written(name, set, "on");
        let (end, before) = (device.now(), (fill(&device), accesses(&device)));
        device.idle_until(end + DELAY).unwrap();
        assert_eq!((device.now(), fill(&device), accesses(&device)), (end + DELAY, before.0, before.1), "{name}");
        device.idle_until(end + DELAY + Nanos(1)).unwrap();
        assert!(accesses(&device) > before.1, "{name}");
        device.idle_until(end + Nanos(3_600_000_000_000)).unwrap();
        device.check().unwrap();
        assert_eq!(fill(&device), 0.0, "{name}");

        let mut device = written(name, set, "off");
        let before = (fill(&device), accesses(&device));
        device.idle_until(end + Nanos(3_600_000_000_000)).unwrap();
        assert_eq!((fill(&device), accesses(&device)), before, "{name}");
    }
}

/// A read costs what it reads, however much of a band is rewritten; the next stage comes after the delay again.
#[test]
fn cleaning_in_idle_time_stops_when_a_request_comes() {
    for (name, set) in LAYERS {
        let mut device = written(name, set, "on");
        device.idle_until(device.now() + DELAY + Nanos(1)).unwrap();
        assert!(fill(&device) > 0.0, "{name}: there is more to clean");
        assert!(!device.step(Need::Must).unwrap(), "{name}: a command need not go on with it");
        let before = accesses(&device);
        device.serve(&Request::new(Op::Read, Lba(2000), 4), &mut Buf::NoData).unwrap();
        assert_eq!(accesses(&device), (before.0 + 4, before.1), "{name}");
        device.idle_until(device.now() + DELAY).unwrap();
        assert_eq!(accesses(&device), (before.0 + 4, before.1), "{name}");
        device.idle_until(device.now() + Nanos(1)).unwrap();
        assert!(accesses(&device) > (before.0 + 4, before.1), "{name}");
    }
}
