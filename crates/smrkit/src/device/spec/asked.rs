//! An array, its members and their drives, as they are asked for.

use crate::device::level::{Level, WritePolicy};

/// The most drives of an array, nested ones included (assumption: no controller has more).
pub const DRIVES_MAX: usize = 4096;

/// Depth to which arrays may be nested (assumption).
pub const DEPTH_MAX: usize = 8;

/// An array; `Display` gives its canonical text, which parses to the same array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArraySpec {
    /// Its kind, with the copies of a RAID 10.
    pub level: Level,
    /// The level's name as it was written: that of ZFS or that of md.
    pub name: &'static str,
    /// Sectors of a chunk; without effect where there are no chunks.
    pub chunk_sectors: u64,
    /// Way in which partly written stripes get their parity.
    pub write: WritePolicy,
    /// The members, in order.
    pub members: Vec<MemberSpec>,
}

/// A member of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberSpec {
    /// A drive with a layer.
    Drive(DriveSpec),
    /// An array of its own.
    Array(Box<ArraySpec>),
}

/// A drive with a layer; what is not given is the run's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriveSpec {
    /// The layer's name.
    pub layer: Option<String>,
    /// The drive's name, or its file.
    pub drive: Option<String>,
    /// The drive's size in sectors.
    pub capacity_sectors: Option<u64>,
    /// Parameters of the layer, as text.
    pub set: Vec<(String, String)>,
}
