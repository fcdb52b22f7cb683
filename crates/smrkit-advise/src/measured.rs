//! What people have measured of sold drives and published, where it answers a question that is asked here.

use smrkit::device::level::Level;
use smrkit::engine::rebuild::{RebuildOrder, Task};
use smrkit::settings::rebuild::RebuildSpec;

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// The drive, by its preset's name.
    drive: &'static str,
    /// Disks of the array.
    disks: u64,
    /// True of a resilver in ZFS's order.
    is_scattered: bool,
    /// Its level.
    level: Level,
    /// How long the rebuild took.
    pub seconds: f64,
    /// Who says so, and of which state.
    pub source: &'static str,
}

static KNOWN: [Known; 2] = [
    Known {
        drive: "wd40efax",
        disks: 4,
        is_scattered: true,
        level: Level::Raid5,
        seconds: 229.0 * 3600.0,
        source: "ServeTheHome, 2020, on a pool that was three quarters full",
    },
    Known {
        drive: "st8000as0002",
        disks: 2,
        is_scattered: false,
        level: Level::Raid1,
        seconds: 57.0 * 3600.0,
        source: "StorageReview, 2015, by a NAS in use",
    },
];

/// What was measured of such a rebuild, in an array of so many disks.
pub fn find(rebuild: RebuildSpec, drive: &str, disks: u64, level: Level) -> Option<Known> {
    let is_scattered = matches!(rebuild.order, RebuildOrder::Scattered { .. });
    let is_same = |known: &&Known| {
        matches!(rebuild.task, Task::Rebuild { .. })
            && known.drive == drive
            && known.disks == disks
            && known.is_scattered == is_scattered
            && known.level == level
    };
    KNOWN.iter().find(is_same).copied()
}
