//! What people have measured of sold drives and published, where it answers a question that is asked here.

use smrkit::device::level::Level;
use smrkit::engine::rebuild::{RebuildOrder, Task};
use smrkit::settings::rebuild::RebuildSpec;
use smrkit_report::format;

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// The drive, by its preset's name.
    drive: &'static str,
    /// Drives of which nobody has measured this, but whose firmware is of the same kind.
    alike: &'static [&'static str],
    work: Work,
    figure: Figure,
    /// Who says so, and of which state.
    pub source: &'static str,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    /// A rebuild in an array of so many disks; a resilver in ZFS's order is scattered.
    Rebuild { disks: u64, is_scattered: bool, level: Level },
    /// A use, by its name and values.
    Use(&'static [&'static str]),
    /// Streams in writes of up to so many bytes.
    Streams(f64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    /// How long all of it took.
    Seconds(f64),
    /// Bytes a second over all of it.
    BytesPerS(f64),
    /// The most bytes a second that were left of its speed.
    AtMostBytesPerS(f64),
    /// A fall far below that of conventional disks, whose figure is in a picture only.
    Fall,
}

/// Western Digital's disks of one mapping (their drive files).
const DYNAMIC: &[&str] = &["wd40efax", "wd60efax", "wd40ndzw", "wd20spzx"];

static KNOWN: [Known; 5] = [
    Known {
        drive: "wd40efax",
        alike: &[],
        work: Work::Rebuild { disks: 4, is_scattered: true, level: Level::Raid5 },
        figure: Figure::Seconds(229.0 * 3600.0),
        source: "ServeTheHome, 2020, on a pool that was three quarters full",
    },
    Known {
        drive: "st8000as0002",
        alike: &[],
        work: Work::Rebuild { disks: 2, is_scattered: false, level: Level::Raid1 },
        figure: Figure::Seconds(57.0 * 3600.0),
        source: "StorageReview, 2015, by a NAS in use",
    },
    Known {
        drive: "wd40efax",
        alike: DYNAMIC,
        work: Work::Use(&["badblocks", "badblocks:passes=4", "format"]),
        // Eight passes in 65.1 h.
        figure: Figure::BytesPerS(8.0 * 4.0e12 / (65.1 * 3600.0)),
        source: "openzfs/zfs issue 10214, 2020, four patterns of badblocks",
    },
    Known {
        drive: "wd20spzx",
        alike: DYNAMIC,
        work: Work::Use(&["format"]),
        figure: Figure::AtMostBytesPerS(10e6),
        source: "veracrypt/VeraCrypt issue 791, 2021, a disk that had been filled before; trimming it cured that",
    },
    // A log of all writes, as is simulated, takes many streams as well as one, and small writes of them as well as large ones.
    Known {
        drive: "wd40efax",
        alike: DYNAMIC,
        work: Work::Streams(49_152.0),
        figure: Figure::Fall,
        source: "Ars Technica, June 2020, streams in writes of 32 KiB, as a RAIDZ writes them",
    },
];

/// What is asked of a drive, as far as a measurement may be of it.
#[derive(Clone, Copy, Debug)]
pub struct AskedWork<'a> {
    /// The drive, by its preset's name.
    pub drive: &'a str,
    /// The level of an array.
    pub level: Option<Level>,
    /// Disks at work.
    pub disks: u64,
    /// The rebuild.
    pub rebuild: Option<RebuildSpec>,
    /// The use, as it was asked for.
    pub asked_use: Option<&'a str>,
    /// Mean bytes of a write, of streams that take the drive's pace.
    pub stream_write_bytes: Option<f64>,
}

impl Known {
    /// Seconds that all of it takes where `bytes` are moved.
    pub fn seconds(&self, bytes: f64) -> f64 {
        match self.figure {
            Figure::Seconds(seconds) => seconds,
            Figure::BytesPerS(rate) | Figure::AtMostBytesPerS(rate) => bytes / rate,
            Figure::Fall => f64::INFINITY,
        }
    }

    /// The figure in words.
    pub fn told(&self) -> String {
        match self.figure {
            Figure::Seconds(seconds) => format::seconds(seconds),
            Figure::BytesPerS(rate) => format::rate(rate),
            Figure::AtMostBytesPerS(rate) => format!("{} and less", format::rate(rate)),
            Figure::Fall => "a fall far below that of a CMR disk".into(),
        }
    }

    /// The drive that was measured, as it is printed on the disk.
    pub fn model(&self) -> String {
        self.drive.to_uppercase()
    }

    fn is_of(&self, asked: &AskedWork) -> bool {
        match (self.work, asked.rebuild, asked.asked_use) {
            (Work::Rebuild { disks, is_scattered, level }, Some(rebuild), _) => {
                matches!(rebuild.task, Task::Rebuild { .. })
                    && is_scattered == matches!(rebuild.order, RebuildOrder::Scattered { .. })
                    && asked.level == Some(level)
                    && asked.disks == disks
            }
            (Work::Streams(most_bytes), None, _) => asked.stream_write_bytes.is_some_and(|bytes| bytes <= most_bytes),
            (Work::Use(uses), None, Some(name)) => uses.contains(&name) && asked.level.is_none(),
            _ => false,
        }
    }
}

/// What was measured of this drive at this work.
pub fn find(asked: &AskedWork) -> Option<Known> {
    KNOWN.iter().find(|known| known.drive == asked.drive && known.is_of(asked)).copied()
}

/// What was measured at this work of drives of the same kind.
pub fn of_the_kind<'a>(asked: AskedWork<'a>) -> impl Iterator<Item = &'static Known> + use<'a> {
    let is_alike = move |known: &Known| known.drive != asked.drive && known.alike.contains(&asked.drive);
    KNOWN.iter().filter(move |known| is_alike(known) && known.is_of(&asked))
}
