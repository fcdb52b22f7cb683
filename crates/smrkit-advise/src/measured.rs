//! What people have measured of sold drives and published, where it answers a question that is asked here.

use smrkit::device::level::Level;
use smrkit::engine::rebuild::{RebuildOrder, Task};
use smrkit::settings::rebuild::RebuildSpec;

/// A measurement.
pub struct Known {
    /// The drive that was measured, by its preset's name, and those whose firmware is of the same kind, but which nobody has measured.
    drives: &'static [&'static str],
    /// True of the work that was measured.
    is_of: fn(&AskedWork) -> bool,
    /// Bytes a second over all of it, of a rebuild those of the disk; 0 where it is known only that they were far fewer than on CMR disks.
    bytes_per_s: f64,
    /// The figure in words.
    pub figure: &'static str,
    /// Who says so, and of which state.
    pub source: &'static str,
    /// True if the source may be mistaken, so that it turns no answer over.
    pub is_doubtful: bool,
}

/// What is asked of a drive, as far as a measurement may be of it.
pub struct AskedWork<'a> {
    /// The drive, by its preset's name.
    pub drive: &'a str,
    /// The level of an array, and the disks in it.
    pub array: Option<(Level, u64)>,
    /// The rebuild.
    pub rebuild: Option<RebuildSpec>,
    /// The use, by its name.
    pub use_name: Option<&'a str>,
    /// Mean bytes of a write, of streams that take the drive's pace.
    pub stream_write_bytes: Option<f64>,
    /// True of a disk all of which had been written.
    pub is_full: bool,
}

/// Up to this mean size writes of a stream are those of 32 KiB that were measured (assumption).
const SMALL_STREAM: f64 = 49_152.0;

static KNOWN: [Known; 6] = [
    Known {
        drives: &["wd40efax"],
        is_of: |asked| asked.rebuilds(true) && asked.is_onto_used() && asked.array == Some((Level::Raid5, 4)),
        bytes_per_s: 4e12 / (229.0 * 3600.0),
        figure: "229 h for 4 TB",
        source: "ServeTheHome, 2020, on a pool that was three quarters full",
        is_doubtful: false,
    },
    Known {
        drives: &["wd40efax"],
        is_of: |asked| asked.rebuilds(false) && asked.array == Some((Level::Raid5, 4)),
        bytes_per_s: 4e12 / (57.0 * 3600.0),
        figure: "57 h for 4 TB",
        source: "which is doubtful: docs/papers/drives.md",
        is_doubtful: true,
    },
    Known {
        drives: &["st8000as0002"],
        is_of: |asked| asked.rebuilds(false) && asked.array == Some((Level::Raid1, 2)),
        bytes_per_s: 8e12 / (57.0 * 3600.0),
        figure: "57 h for 8 TB",
        source: "StorageReview, 2015, by a NAS in use",
        is_doubtful: false,
    },
    Known {
        drives: &["wd40efax", "wd60efax", "wd40ndzw", "wd20spzx"],
        is_of: |asked| asked.array.is_none() && matches!(asked.use_name, Some("badblocks" | "format")),
        // Eight passes in 65.1 h.
        bytes_per_s: 8.0 * 4.0e12 / (65.1 * 3600.0),
        figure: "137 MB/s",
        source: "openzfs/zfs issue 10214, 2020, four patterns of badblocks",
        is_doubtful: false,
    },
    Known {
        drives: &["wd20spzx", "wd40efax", "wd60efax", "wd40ndzw"],
        is_of: |asked| asked.array.is_none() && (asked.use_name == Some("format") || asked.is_stream_onto_full()),
        bytes_per_s: 10e6,
        figure: "10 MB/s and less",
        source: "veracrypt/VeraCrypt issue 791, 2021, a disk that had been filled before; trimming it cured that",
        is_doubtful: false,
    },
    // A log of all writes, as is simulated, takes many streams as well as one, and small writes of them as well as large ones.
    Known {
        drives: &["wd40efax", "wd60efax", "wd40ndzw", "wd20spzx"],
        is_of: |asked| asked.rebuild.is_none() && asked.stream_write_bytes.is_some_and(|bytes| bytes <= SMALL_STREAM),
        bytes_per_s: 0.0,
        figure: "a fall far below that of a CMR disk",
        source: "Ars Technica, June 2020, streams in writes of 32 KiB, as a RAIDZ writes them",
        is_doubtful: false,
    },
];

impl AskedWork<'_> {
    /// True of a rebuild, scattered as ZFS's order is, or not.
    fn rebuilds(&self, is_scattered: bool) -> bool {
        self.rebuild.is_some_and(|spec| {
            matches!(spec.task, Task::Rebuild { .. })
                && is_scattered == matches!(spec.order, RebuildOrder::Scattered { .. })
        })
    }

    /// True of a rebuild onto a disk that was written before, as was measured of drives that trimming makes fast again.
    fn is_onto_used(&self) -> bool {
        self.rebuild.is_some_and(|spec| matches!(spec.task, Task::Rebuild { used: true, .. }))
    }

    /// True of a stream of large writes, onto a disk that was filled before.
    fn is_stream_onto_full(&self) -> bool {
        self.rebuild.is_none() && self.is_full && self.stream_write_bytes.is_some_and(|bytes| bytes > SMALL_STREAM)
    }

    /// What was measured of this drive at this work.
    pub fn known(&self) -> Option<&'static Known> {
        KNOWN.iter().find(|known| known.drives[0] == self.drive && (known.is_of)(self))
    }

    /// How this drive has failed its owners at this work, and who says so. That is a fault of firmware, which no run shows.
    pub fn fault(&self) -> Option<(&'static str, &'static str)> {
        let fails = self.drive == "wd40efax" && self.rebuilds(true);
        fails.then_some((
            "may answer writes with errors during a resilver, even new ones, so that ZFS drops them",
            "openzfs/zfs issues 10214, 12799 and 15033; iXsystems, 2020",
        ))
    }

    /// What was measured at this work of drives of the same kind.
    pub fn known_of_its_kind(&self) -> impl Iterator<Item = &'static Known> {
        KNOWN.iter().filter(|known| known.drives[1..].contains(&self.drive) && (known.is_of)(self))
    }
}

impl Known {
    /// Seconds that all of it takes where `bytes` are moved.
    pub fn seconds(&self, bytes: f64) -> f64 {
        bytes / self.bytes_per_s
    }

    /// The drive that was measured, as it is printed on the disk.
    pub fn model(&self) -> String {
        self.drives[0].to_uppercase()
    }
}
