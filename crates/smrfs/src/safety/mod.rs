//! Rules for writes on a Caveat-Scriptor disk, and a checker that stands apart from the allocator.
//!
//! The rule is that of Kadekodi et al. 2015, section 4.2, granule by granule and as the paper has it, in whole regions. The
//! checker watches a disk of either model.

mod bands;
pub mod checker;
pub mod law;
mod ledger;
pub mod region;

use serde::{Deserialize, Serialize};

/// The granules of a disk by what may be done with them; their sum is the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// R: may be read (live and retired).
    pub readable: u64,
    /// NW: must not be written.
    pub not_writable: u64,
    /// WO: may be written once.
    pub write_once: u64,
    /// W: may be written.
    pub writable: u64,
    /// Of `readable`: no longer in a map, and not yet released.
    pub retired: u64,
    /// Of `not_writable`: dead data that cleaning would win back.
    pub garbage: u64,
}

/// Label of a granule: free to write, or not, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GranuleLabel {
    /// R: it may be read, so it must not be written.
    Readable,
    /// NW: a write would damage what may be read.
    NotWritable,
    /// WO: it may be written once.
    WriteOnce,
    /// W: it may be written.
    Writable,
}

impl GranuleLabel {
    /// True if it may be written now.
    pub fn allows_write(self) -> bool {
        matches!(self, GranuleLabel::WriteOnce | GranuleLabel::Writable)
    }
}
