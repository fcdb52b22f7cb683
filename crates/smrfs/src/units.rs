//! Addresses on the shingled partition.
//!
//! They count granules, the unit of allocation and of the safety rule: 4 KiB on a mounted disk, any size in a test. Places in files are in
//! granules as well, from 0, but plain numbers.

use std::fmt;
use std::ops::{Add, Range, Sub};

use serde::{Deserialize, Serialize};

/// Bytes of a granule on a mounted disk.
pub const GRANULE_BYTES: u64 = 4096;

/// The journal of a file system of the host, by the file system's device number. Each of its commits flushes the disk first, so that all
/// data written back before is durable with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostJournal(pub u64);

/// An address on the shingled partition, in granules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Granule(pub u64);

impl Add<u64> for Granule {
    type Output = Granule;
    fn add(self, granules: u64) -> Granule {
        Granule(self.0 + granules)
    }
}

impl Sub<Granule> for Granule {
    type Output = u64;
    fn sub(self, other: Granule) -> u64 {
        self.0 - other.0
    }
}

impl fmt::Display for Granule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A run of granules on the shingled partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// Its first granule.
    pub at: Granule,
    /// Number of granules.
    pub count: u64,
}

impl Span {
    /// `count` granules from `at` on.
    pub fn new(at: u64, count: u64) -> Span {
        Span { at: Granule(at), count }
    }

    /// The first granule behind it.
    pub fn end(self) -> Granule {
        self.at + self.count
    }

    /// The numbers of its granules.
    pub fn range(self) -> Range<u64> {
        self.at.0..self.end().0
    }

    /// True if it has none.
    pub fn is_empty(self) -> bool {
        self.count == 0
    }

    /// Common part of both, if any.
    pub fn overlap(self, other: Span) -> Option<Span> {
        let at = self.at.max(other.at);
        let end = self.end().min(other.end());
        (at < end).then(|| Span { at, count: end - at })
    }

    /// True if all of `other` lies in it.
    pub fn contains(self, other: Span) -> bool {
        self.at <= other.at && other.end() <= self.end()
    }
}

impl From<Range<u64>> for Span {
    fn from(range: Range<u64>) -> Span {
        Span::new(range.start, range.end - range.start)
    }
}

impl fmt::Display for Span {
    /// `12..20`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.at, self.end())
    }
}

/// A node of the tree: file, directory, link. The metadata store numbers them; a number is never reused while in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Owner of a granule's data: granule `granule` of file `file`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// The file.
    pub file: NodeId,
    /// The place in the file, in granules.
    pub granule: u64,
}

impl Owner {
    /// The owner of the granule `granules` further on, in a run that is contiguous in the file.
    pub fn further(self, granules: u64) -> Owner {
        Owner { granule: self.granule + granules, ..self }
    }
}
