//! A scrub of a mount: all live data is read, in small pieces so that programs hardly wait.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use smrfs::error::FsResult;
use smrfs::fs::FileSystem;
use smrfs::units::{NodeId, Owner, Span};

use crate::fuse::Gate;

/// Granules that are read while the gate is held: 1 MiB (assumption).
const PIECE: u64 = 256;

/// Report of a scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that the disk does not read, or that belong to files whose maps are damaged.
    pub damaged_bytes: u64,
    /// The files that they belong to.
    pub files: Vec<Damaged>,
}

/// A file with data that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damaged {
    /// Its path on the mount; bytes that are no text are replaced. None if no name is known.
    pub path: Option<String>,
    /// The bytes that can't be read.
    pub damaged_bytes: u64,
}

/// Reads what is live now.
pub(super) fn scrub(gate: &Gate) -> FsResult<ScrubReport> {
    let mut report = ScrubReport::default();
    let mut damaged: BTreeMap<NodeId, u64> = BTreeMap::new();
    // What files share is read for each of them.
    let all = gate.quietly("scrub", |core| Ok([core.live(), core.further_owners()].concat()))?;
    for (span, owner) in all {
        for skip in (0..span.count).step_by(PIECE as usize) {
            let piece = Span { at: span.at + skip, count: PIECE.min(span.count - skip) };
            let owner = Owner { granule: owner.granule + skip, ..owner };
            let found = gate.quietly("scrub", |core| core.scrub(piece, owner))?;
            report.read_bytes += found.read_bytes;
            report.damaged_bytes += found.damaged_bytes;
            if found.damaged_bytes > 0 {
                *damaged.entry(owner.file).or_default() += found.damaged_bytes;
            }
        }
    }
    let path = |core: &FileSystem, id| core.path_to(id).map(|path| String::from_utf8_lossy(&path).into_owned());
    for (id, damaged_bytes) in damaged {
        let path = gate.quietly("scrub", |core| Ok(path(core, id)))?;
        report.files.push(Damaged { path, damaged_bytes });
    }
    Ok(report)
}
