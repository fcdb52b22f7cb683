//! Arbitrary text as a drive file, and a few accesses on whatever drive it makes.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use smrkit::drive::Drive;
use smrkit::units::{Nanos, Pba};

fuzz_target!(|text: &str| {
    let Ok(mut drive) = Drive::parse(Path::new("fuzz.toml"), text) else { return };
    let sectors = drive.geometry.sectors();
    let mut now = Nanos::ZERO;
    for part in 0..8 {
        let pba = Pba(sectors / 8 * part);
        let end = drive.clock.access(&drive.geometry, now, part % 2 == 0, pba, (sectors - pba.0).min(64));
        assert!(end >= now);
        now = end;
    }
});
