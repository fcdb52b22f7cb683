//! Overlay of a record over the parts of a map: the ranges that changed since the parts were written, and what they are now.

use std::ops::Range;

use super::{FileMap, FilePiece, Ranges, cut};

/// Ranges of a file and what they are made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Overlay {
    ranges: Ranges,
    /// The data in them.
    data: FileMap,
}

impl Overlay {
    /// `changes` are as in `map` now.
    pub(super) fn take(&mut self, changes: &Ranges, map: &FileMap) {
        for range in changes.iter() {
            self.data.cut_out(range.clone());
            for piece in map.lookup(range.clone()) {
                self.put(piece);
            }
        }
    }

    /// Adds a piece of which nothing is there as data.
    pub(super) fn put(&mut self, piece: FilePiece) {
        self.ranges.insert(piece.first..piece.end());
        if let Some(at) = piece.at {
            self.data.put(piece.first, piece.count, at);
        }
    }

    /// Takes out `range`.
    pub(super) fn remove(&mut self, range: Range<u64>) {
        self.ranges.remove(range.clone());
        self.data.cut_out(range);
    }

    /// Number of ranges.
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Pieces of the ranges, data and holes, in ascending order.
    pub(super) fn pieces(&self) -> impl Iterator<Item = FilePiece> + '_ {
        let (mut ranges, mut extents) = (self.ranges.iter(), self.data.extents_from(0).peekable());
        let mut left = 0..0;
        std::iter::from_fn(move || {
            if left.is_empty() {
                left = ranges.next()?;
            }
            // An extent lies in one range: ranges that touch are one.
            let piece = match extents.peek() {
                Some(extent) if extent.first <= left.start => extents.next()?,
                Some(extent) => {
                    FilePiece { first: left.start, count: extent.first.min(left.end) - left.start, at: None }
                }
                None => FilePiece { first: left.start, count: left.end - left.start, at: None },
            };
            left.start = piece.end();
            Some(piece)
        })
    }
}

/// Data of `map` in `range`, cut to it.
pub(super) fn data_in(map: &FileMap, range: Range<u64>) -> impl Iterator<Item = FilePiece> + '_ {
    let whole = map.extents_from(range.start).take_while({
        let end = range.end;
        move |piece| piece.first < end
    });
    whole.map(move |piece| cut(piece, range.clone()))
}
