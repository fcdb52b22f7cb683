//! A piece of a file as the checks see it: where it lies on the disk, and whose it is.

use crate::units::{NodeId, Span};

/// A run of granules in a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Extent {
    pub span: Span,
    pub file: NodeId,
    pub first: u64,
}

impl Extent {
    /// Tells if `next` goes on where this ends, in the file and on the disk.
    pub fn continues(&self, next: &Extent) -> bool {
        let end = (self.file, self.span.end(), self.first + self.span.count);
        end == (next.file, next.span.at, next.first)
    }
}
