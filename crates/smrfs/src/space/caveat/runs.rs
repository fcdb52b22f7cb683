//! The writable runs of the disk, found by address and by length.
//!
//! The begin of a run may lie within DPID below readable data; the rest is solid: it stays writable when the history is lost
//! in a mount. What must be counted on is counted in solid granules.

use std::collections::{BTreeMap, BTreeSet};

/// A run: from, to (excluded), and from where on it is solid.
pub(super) type WritableRun = (u64, u64, u64);

/// The longest runs of granules that may be written, by address and by length.
#[derive(Clone, Debug, Default)]
pub(super) struct WritableRuns {
    /// To, and from where on solid.
    by_start: BTreeMap<u64, (u64, u64)>,
    by_length: BTreeSet<(u64, u64)>,
    /// Solid granules of the runs with at least `unit` of them.
    roomy: BTreeMap<u64, u64>,
    unit: u64,
    roomy_granules: u64,
}

impl WritableRuns {
    /// No run; those with at least `unit` solid granules count as room.
    pub fn new(unit: u64) -> WritableRuns {
        WritableRuns { unit, ..WritableRuns::default() }
    }

    /// Runs of this many solid granules are room.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// The worth of a run with this many solid granules: all of them or, if too few to count on, nothing.
    pub fn worth(&self, solid: u64) -> u64 {
        if solid >= self.unit { solid } else { 0 }
    }

    /// The solid granules of the runs that have enough of them to count on.
    pub fn roomy_granules(&self) -> u64 {
        self.roomy_granules
    }

    /// Worth of the runs that begin in `from..to`.
    pub fn worth_within(&self, from: u64, to: u64) -> u64 {
        if to.saturating_sub(from) < self.unit { 0 } else { self.roomy.range(from..to).map(|(_, solid)| solid).sum() }
    }

    /// The writable runs of `lo..hi` are these now, in ascending order; those that touch are joined, outside of it too.
    pub fn replace(&mut self, lo: u64, hi: u64, runs: &[WritableRun]) {
        let before = self.before(lo).filter(|&(_, end, _)| end >= lo);
        let old: Vec<WritableRun> = before.into_iter().chain(self.within(lo, hi + 1)).collect();
        let mut new = Vec::with_capacity(runs.len() + 2);
        if let Some(&(from, to, solid)) = old.first() {
            join(&mut new, (from, to.min(lo), solid.min(lo)));
        }
        runs.iter().for_each(|&run| join(&mut new, run));
        if let Some(&(from, to, solid)) = old.last() {
            join(&mut new, (from.max(hi), to, solid.max(hi)));
        }
        // Mostly one run ends elsewhere, and others are as they were.
        old.iter().filter(|run| new.binary_search(run).is_err()).for_each(|run| self.take(*run));
        new.iter().filter(|run| old.binary_search(run).is_err()).for_each(|run| self.put(*run));
    }

    /// The run in which `at` lies.
    pub fn around(&self, at: u64) -> Option<WritableRun> {
        self.before(at + 1).filter(|&(_, to, _)| to > at)
    }

    /// Runs of at least `length`, the shortest first.
    pub fn at_least(&self, length: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.by_length.range((length, 0)..).map(|&(length, at)| (at, at + length))
    }

    /// All runs, the longest first.
    pub fn longest(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.by_length.iter().rev().map(|&(length, at)| (at, at + length))
    }

    /// Runs of at least `length` that begin at `from` or behind it, in ascending order.
    pub fn following(&self, from: u64, length: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.by_start.range(from..).map(|(&at, &(end, _))| (at, end)).filter(move |(at, end)| end - at >= length)
    }

    /// The runs that begin in `from..to`.
    pub fn within(&self, from: u64, to: u64) -> impl Iterator<Item = WritableRun> + '_ {
        self.by_start.range(from..to.max(from)).map(|(&at, &(end, solid))| (at, end, solid))
    }

    /// All runs in ascending order.
    pub fn all(&self) -> impl Iterator<Item = WritableRun> + '_ {
        self.by_start.iter().map(|(&at, &(end, solid))| (at, end, solid))
    }

    /// True if the three indexes say the same.
    pub fn agree(&self) -> bool {
        let lengths: BTreeSet<(u64, u64)> = self.all().map(|(at, end, _)| (end - at, at)).collect();
        let solid = self.all().map(|(at, end, solid)| (at, end - solid));
        let roomy: BTreeMap<u64, u64> = solid.filter(|&(_, solid)| solid >= self.unit).collect();
        lengths == self.by_length && roomy == self.roomy && roomy.values().sum::<u64>() == self.roomy_granules
    }

    fn before(&self, at: u64) -> Option<WritableRun> {
        self.by_start.range(..at).next_back().map(|(&from, &(end, solid))| (from, end, solid))
    }

    fn put(&mut self, (at, end, solid): WritableRun) {
        self.by_start.insert(at, (end, solid));
        self.by_length.insert((end - at, at));
        if end - solid >= self.unit {
            self.roomy.insert(at, end - solid);
            self.roomy_granules += end - solid;
        }
    }

    fn take(&mut self, (at, end, solid): WritableRun) {
        self.by_start.remove(&at);
        self.by_length.remove(&(end - at, at));
        if end - solid >= self.unit {
            self.roomy.remove(&at);
            self.roomy_granules -= end - solid;
        }
    }
}

/// Adds a run behind others, to the last of them where they touch.
fn join(runs: &mut Vec<WritableRun>, run: WritableRun) {
    let (at, end, solid) = run;
    match runs.last_mut() {
        _ if at >= end => {}
        Some(last) if last.1 == at => *last = (last.0, end, if last.2 < at { last.2 } else { solid }),
        _ => runs.push(run),
    }
}

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
