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

    /// Adds a piece that overlaps none of those there.
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

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    #[test]
    fn pieces_are_those_of_a_number_for_each_granule() {
        const SIZE: u64 = 50;
        let dice = &mut Pcg64Mcg::seed_from_u64(6);
        let (mut ordered, mut model) = (Ordered::default(), [0; SIZE as usize]);
        for step in 0..1500 {
            let at = dice.random_range(0..SIZE);
            let end = (at + dice.random_range(1..9)).min(SIZE);
            let own = at as usize..end as usize;
            let pieces = |model: &[u64]| {
                let mut pieces: Vec<OrderedPiece> = Vec::new();
                for (at, &order) in (0..).zip(model).filter(|(_, order)| **order > 0) {
                    match pieces.last_mut() {
                        Some((_, end, same)) if (*end, *same) == (at, order) => *end += 1,
                        _ => pieces.push((at, at + 1, order)),
                    }
                }
                pieces
            };
            if dice.random() && model[own.clone()].iter().all(|order| *order == 0) {
                let order = dice.random_range(1..3);
                ordered.insert((at, at, order));
                ordered.insert((at, end, order));
                model[own].fill(order);
            } else {
                let mut gone = [0; SIZE as usize];
                gone[own.clone()].copy_from_slice(&model[own.clone()]);
                assert_eq!(ordered.cut(at, end), pieces(&gone), "step {step}");
                model[own].fill(0);
            }
            let all = pieces(&model);
            assert!(ordered.from(0).eq(all.iter().copied()), "step {step}: {all:?}");
            assert_eq!(ordered.granules(), model.iter().filter(|order| **order > 0).count() as u64);
            assert_eq!(ordered.before(at), all.iter().copied().rfind(|piece| piece.0 < at));
            let overlaps = all.iter().copied().filter(|piece| piece.0 < end && at < piece.1);
            assert!(ordered.overlapping(at, end).eq(overlaps), "step {step}: {at}..{end}");
        }
    }
}
