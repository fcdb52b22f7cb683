//! Shared by fuzz targets.

use std::path::Path;

use smrkit::drive::Drive;
use smrkit::units::{Nanos, Pba};

/// A few accesses on whatever drive a drive file makes, if it makes one.
pub fn access_drive(text: &str) {
    let Ok(mut drive) = Drive::parse(Path::new("fuzz.toml"), text) else { return };
    let sectors = drive.geometry.sectors;
    let mut now = Nanos::ZERO;
    for part in 0..8 {
        let pba = Pba(sectors / 8 * part);
        let end = drive.clock.access(&drive.geometry, now, part % 2 == 0, pba, (sectors - pba.0).min(64));
        assert!(end >= now);
        now = end;
    }
}
