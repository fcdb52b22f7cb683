//! The report of a check: its problems, and figures of the disk.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::device::{BandReport, BandState, Bands};
use crate::space::Counts;
use crate::units::{Owner, Span};

/// Granules of one file, and where its map has them on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FilePlace {
    /// The file.
    pub file: u64,
    /// The first granule, in the file.
    pub first: u64,
    /// The first granule, on the disk.
    pub at: u64,
    /// Number of granules.
    pub granules: u64,
}

impl FilePlace {
    pub(super) fn new(span: Span, owner: Owner) -> FilePlace {
        FilePlace { file: owner.file.0, first: owner.granule, at: span.at.0, granules: span.count }
    }
}

impl fmt::Display for FilePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FilePlace { file, first, at, granules } = self;
        write!(f, "file {file}: granules {first}..{} at {at}..{}", first + granules, at + granules)
    }
}

/// A problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "problem", rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each message names the fields")]
pub enum Problem {
    /// A corrupt map. Its file loses its data; the record is kept as a state of the store.
    #[error("file {file}: its map is damaged: {reason}")]
    BadMap { file: u64, reason: String },
    /// A map that was not made by this volume for this file. The file loses its data; the record is kept as a state.
    #[error("file {file}: its map is forged: {reason}")]
    ForgedMap { file: u64, reason: String },
    /// A map that was made for a file of another user. It is left alone unless owners are accepted.
    #[error("file {file}: {reason}: give it back (chown), or have the check accept owners, if a copy changed them")]
    OtherOwner { file: u64, reason: String },
    /// A map of a version that this program does not know; it is left alone.
    #[error("file {file}: its map is not understood: {reason}")]
    NewerMap { file: u64, reason: String },
    /// A file that had data at the last unmount, and has no map now. It is empty.
    #[error("file {file}: its map is gone, and it had data at the last unmount")]
    LostMap { file: u64 },
    /// A part that a map names, but that is missing. The file loses its data.
    #[error("file {file}: part {part} of its map is missing")]
    MissingPart { file: u64, part: u64 },
    /// A size that no file can have; it is cut to the end of the data.
    #[error("file {file}: {bytes} bytes is no size")]
    BadSize { file: u64, bytes: u64 },
    /// A promise of more granules than the disk has; it is dropped.
    #[error("file {file}: {granules} granules are promised, more than the disk has")]
    BadPromise { file: u64, granules: u64 },
    /// Behind the end of the disk; becomes a hole.
    #[error("{place}: behind the end of the disk")]
    OutOfRange { place: FilePlace },
    /// In the gap between two bands; becomes a hole.
    #[error("{place}: in a gap between bands")]
    InGap { place: FilePlace },
    /// Behind the cursor of its band, where nothing was written according to the disk, which is trusted. Becomes a hole.
    #[error("{place}: not written since its band was reset: the disk has the cursor of band {band} at {cursor}")]
    BehindCursor { place: FilePlace, band: u64, cursor: u64 },
    /// In a band that the disk can no longer read; becomes a hole.
    #[error("{place}: in a band that the disk can't read any more")]
    Offline { place: FilePlace },
    /// Also named by the map of a file that changed later, or elsewhere in the same file; becomes a hole.
    #[error("{place}: also {}", other_map(.place, .kept_by))]
    Overlap { place: FilePlace, kept_by: u64 },
    /// The disk can't read it; becomes a hole.
    #[error("{place}: can't be read: {reason}")]
    Unreadable { place: FilePlace, reason: String },
    /// Its checksum is wrong; it is left alone, and reading it is an error.
    #[error("{place}: holds something else than was written there: restore the file from a copy")]
    WrongData { place: FilePlace },
    /// An attribute that can't be read; it is removed.
    #[error("file {file}: attributes: {reason}")]
    BadAttribute { file: u64, reason: String },
    /// A saved free map that differs from the maps; it is removed.
    #[error("the saved state {name} is out of date: {reason}")]
    StaleState { name: String, reason: String },
}

/// Which other map names granules of `place` too, for [`Problem::Overlap`].
fn other_map(place: &FilePlace, kept_by: &u64) -> String {
    if *kept_by == place.file { "elsewhere in the same file".into() } else { format!("in the map of file {kept_by}") }
}

/// A problem, and whether it was repaired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The problem, in words.
    #[serde(flatten)]
    pub problem: Problem,
    /// True if it was repaired.
    pub repaired: bool,
}

/// End of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing is wrong.
    #[default]
    Clean,
    /// All problems are repaired.
    Repaired,
    /// Some problem is left.
    ErrorsLeft,
}

/// The bands of a strict-append disk by their contents: each is empty, dead, in a tenth, or lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fill {
    /// Not written since the last reset.
    pub empty: u64,
    /// Written, without data that a map names.
    pub dead: u64,
    /// Bands with data by the share of it: up to a tenth, up to two tenths, and so on.
    pub by_tenth_live: [u64; 10],
    /// Bands that can no longer be written.
    pub lost: u64,
    /// Partly written bands, among all of these.
    pub open: u64,
}

impl Fill {
    /// Counts bands by the disk's reports, and the granules of each that maps name.
    pub fn new(layout: &Bands, reports: &[BandReport], live: &[u64]) -> Fill {
        let mut fill = Fill::default();
        for (report, &live) in reports.iter().zip(live) {
            let written = report.cursor - report.start;
            fill.open += u64::from(report.state == BandState::Open);
            match (written, live) {
                _ if report.state.is_lost() => fill.lost += 1,
                (0, 0) => fill.empty += 1,
                (_, 0) => fill.dead += 1,
                _ => fill.by_tenth_live[((live * 10 - 1) / layout.granules).min(9) as usize] += 1,
            }
        }
        fill
    }
}

/// Report of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The verdict.
    pub verdict: Verdict,
    /// Problems found.
    pub found: u64,
    /// Of them repaired.
    pub repaired: u64,
    /// The problems, as many as were asked for.
    pub findings: Vec<Finding>,
    /// Regular files.
    pub files: u64,
    /// Extents of their maps.
    pub extents: u64,
    /// Granules in maps.
    pub granules: u64,
    /// Granules among them behind the end of their file: written before a crash that lost the data before them. Harmless.
    pub behind_end: u64,
    /// Parts of maps too large for one record.
    pub parts: u64,
    /// Parts that no map names: left by a crash. Harmless; a repair removes them, and so does the next mount.
    pub leaked_parts: u64,
    /// Granules read, if data was read.
    pub read: u64,
    /// Granules by the writes that they allow, as a mount would find them (after the repair, if there was one).
    pub counts: Counts,
    /// The bands, on strict-append.
    pub bands: Option<Fill>,
}
