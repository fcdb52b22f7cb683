//! Rules for writes on a Caveat-Scriptor disk, and a checker that stands apart from the allocator.
//!
//! The rule is that of Kadekodi et al. 2015, section 4.2, granule by granule and as the paper has it, in whole regions. The
//! checker watches a disk of either model.

mod bands;
pub mod checker;
mod ledger;

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
