//! Extents that do not overlap, each with the number of the write that last touched it.

use std::collections::BTreeMap;

/// A piece of the disk: from, to (excluded), and the number of the write that was last there.
pub(super) type OrderedPiece = (u64, u64, u64);

/// Extents by address, with their place in the order of writes. Neighbours of one write are joined.
#[derive(Clone, Debug, Default)]
pub(super) struct Ordered {
    extents: BTreeMap<u64, (u64, u64)>,
    granules: u64,
}

impl Ordered {
    /// The granules in it.
    pub fn granules(&self) -> u64 {
        self.granules
    }

    /// Adds what does not overlap anything in it.
    pub fn insert(&mut self, (mut at, mut end, order): OrderedPiece) {
        if at >= end {
            return;
        }
        self.granules += end - at;
        // Behind all others, as at a mount.
        if let Some(mut last) = self.extents.last_entry()
            && last.get().0 <= at
        {
            if *last.get() == (at, order) {
                last.get_mut().0 = end;
            } else {
                self.extents.insert(at, (end, order));
            }
            return;
        }
        if let Some((before, to, same)) = self.before(at)
            && to == at
            && same == order
        {
            at = before;
        }
        if let Some(&(to, same)) = self.extents.get(&end)
            && same == order
        {
            self.extents.remove(&end);
            end = to;
        }
        self.extents.insert(at, (end, order));
    }

    /// Takes out what lies in `at..end`; gives the pieces.
    pub fn cut(&mut self, at: u64, end: u64) -> Vec<OrderedPiece> {
        let mut pieces: Vec<OrderedPiece> = self.overlapping(at, end).collect();
        for piece in &mut pieces {
            let (from, to, order) = *piece;
            self.extents.remove(&from);
            *piece = (from.max(at), to.min(end), order);
            if from < at {
                self.extents.insert(from, (at, order));
            }
            if end < to {
                self.extents.insert(end, (to, order));
            }
            self.granules -= piece.1 - piece.0;
        }
        pieces
    }

    /// The last extent that begins before `at`.
    pub fn before(&self, at: u64) -> Option<OrderedPiece> {
        self.upstream(at).next()
    }

    /// The extents that begin before `at`, the nearest first.
    pub fn upstream(&self, at: u64) -> impl Iterator<Item = OrderedPiece> + '_ {
        self.extents.range(..at).rev().map(|(&from, &(to, order))| (from, to, order))
    }

    /// The extents that begin at `at` or behind it, in ascending order.
    pub fn from(&self, at: u64) -> impl Iterator<Item = OrderedPiece> + '_ {
        self.extents.range(at..).map(|(&from, &(to, order))| (from, to, order))
    }

    /// The extents that have something in common with `at..end`, whole, in ascending order.
    pub fn overlapping(&self, at: u64, end: u64) -> impl Iterator<Item = OrderedPiece> + '_ {
        let first = match self.before(at) {
            Some((from, to, _)) if to > at => from,
            _ => at,
        };
        self.extents.range(first..end.max(first)).map(|(&from, &(to, order))| (from, to, order))
    }
}
