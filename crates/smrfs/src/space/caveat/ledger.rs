//! Labels of a disk, kept step by step: readable extents and scars, each with its place in the order of writes, and the
//! writable runs that follow, found by address and by length.
//!
//! The safety policy of Kadekodi et al. 2015, section 4.2, granule by granule. A scar is a dead extent that was
//! written after a readable one within DPID above it; once no such is left, it is forgotten. Nothing else of the past matters.
//!
//! The begin of a run may lie within DPID below readable data; the rest is solid: it stays writable when the history is lost
//! in a mount. What must be counted on is counted in solid granules.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;

use crate::device::Shape;
use crate::units::Span;

/// Label of a granule that is not readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteLabel {
    /// Must not be written: readable data follows within DID.
    Before,
    /// Must not be written: it has been written since readable data within DPID above it was.
    Scar,
    /// May be written once.
    Once,
    /// May be written.
    Free,
}

/// Granules by what may be done with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub before: u64,
    pub scar: u64,
    pub once: u64,
    pub free: u64,
}

impl Tally {
    fn count_mut(&mut self, label: WriteLabel) -> &mut u64 {
        match label {
            WriteLabel::Before => &mut self.before,
            WriteLabel::Scar => &mut self.scar,
            WriteLabel::Once => &mut self.once,
            WriteLabel::Free => &mut self.free,
        }
    }
}

/// The state of the disk as far as the safety rule needs it.
#[derive(Clone, Debug)]
pub(super) struct CaveatLedger {
    pub granules: u64,
    pub did: u64,
    pub dpid: u64,
    pub readable: Ordered,
    pub scars: Ordered,
    pub runs: WritableRuns,
    pub tally: Tally,
    order: u64,
}

impl CaveatLedger {
    /// A disk of which nothing is readable and nothing has been written.
    pub fn new(shape: &Shape, unit: u64) -> CaveatLedger {
        let mut runs = WritableRuns::new(unit);
        runs.replace(0, shape.granules, &[WritableRun { from: 0, to: shape.granules, solid: 0 }]);
        CaveatLedger {
            granules: shape.granules,
            did: shape.did,
            dpid: shape.dpid,
            readable: Ordered::default(),
            scars: Ordered::default(),
            runs,
            tally: Tally { free: shape.granules, ..Tally::default() },
            order: 1,
        }
    }

    /// At mount: this is readable; nobody knows since when.
    pub fn adopt(&mut self, span: Span) {
        self.readable.insert((span.at.0, span.end().0, self.order));
    }

    /// At mount, after the last `adopt`: what is not readable may have been written after all that is.
    pub fn start(&mut self) {
        let mut end = 0;
        let extents: Vec<OrderedPiece> = self.readable.from(0).collect();
        for (index, &(_, to, order)) in extents.iter().enumerate() {
            end = end.max(to);
            let next = extents.get(index + 1).map_or(self.granules, |&(from, _, _)| from);
            self.scars.insert((end, next.min(end + self.dpid).max(end), order));
        }
        self.tally = Tally::default();
        self.add(0, self.granules);
    }

    /// Notes that `span` was written, and is readable.
    pub fn write(&mut self, span: Span) {
        self.order += 1;
        let order = self.order;
        let (at, end) = (span.at.0, span.end().0);
        self.change(at, end, |ledger| {
            ledger.scars.cut(at, end);
            ledger.readable.cut(at, end);
            ledger.readable.insert((at, end, order));
        });
    }

    /// A write of this failed: it counts as written, and holds nothing.
    pub fn fail(&mut self, span: Span) {
        self.order += 1;
        let order = self.order;
        let (at, end) = (span.at.0, span.end().0);
        self.change(at, end, |ledger| {
            ledger.scars.cut(at, end);
            ledger.scars.insert((at, end, order));
            ledger.forget(at, end);
        });
    }

    /// Notes that `span` will not be read again.
    pub fn release(&mut self, span: Span) {
        let (at, end) = (span.at.0, span.end().0);
        self.change(at, end, |ledger| {
            for piece in ledger.readable.cut(at, end) {
                ledger.scars.insert(piece);
            }
            ledger.forget(at, (end + ledger.dpid).min(ledger.granules));
        });
    }

    /// Calls `emit` with each stretch of `lo..hi` that is not readable and its label.
    pub fn labels(&self, lo: u64, hi: u64, emit: &mut impl FnMut(u64, u64, WriteLabel)) {
        let mut above = self.readable.before(lo + 1).map(|(_, to, _)| to);
        let mut at = above.unwrap_or(lo).max(lo);
        let mut scars = self.scars.overlapping(at, hi).peekable();
        for (from, to, _) in self.readable.from(at) {
            if at >= hi {
                return;
            }
            self.gap(above, Some(from), (at, from.min(hi)), &mut scars, emit);
            at = to;
            above = Some(to);
        }
        if at < hi {
            self.gap(above, None, (at, hi), &mut scars, emit);
        }
    }

    /// The labels of a part of the gap between what is readable up to `above` and from `next` on. `scars` are those that lie in it
    /// or behind.
    fn gap(
        &self,
        above: Option<u64>,
        next: Option<u64>,
        part: (u64, u64),
        scars: &mut Peekable<impl Iterator<Item = OrderedPiece>>,
        emit: &mut impl FnMut(u64, u64, WriteLabel),
    ) {
        let (lo, hi) = part;
        let before = next.map_or(hi, |next| next.saturating_sub(self.did)).clamp(lo, hi);
        let below = above.map_or(lo, |end| end + self.dpid).clamp(lo, before);
        if lo < below {
            label_below(lo, below, scars, emit);
        }
        emit(below, before, WriteLabel::Free);
        emit(before, hi, WriteLabel::Before);
    }

    /// Forgets scars and parts of scars in `lo..hi` that have no older readable granule within DPID above them.
    fn forget(&mut self, lo: u64, hi: u64) {
        let reach = self.dpid;
        let readable = &self.readable;
        let forgotten = self.scars.overlapping(lo, hi).filter_map(|(from, to, order)| {
            let (from, to) = (from.max(lo), to.min(hi));
            let mut above = readable.upstream(from).take_while(|&(_, end, _)| end + reach > from);
            let until = above.find(|&(_, _, written)| written <= order).map_or(from, |(_, end, _)| end + reach);
            (until < to).then_some((until, to))
        });
        let forgotten: Vec<(u64, u64)> = forgotten.collect();
        for (from, to) in forgotten {
            self.scars.cut(from, to);
        }
    }

    /// Does `apply`, which changes only what is in `at..end` (and scars), and keeps count of what may be written.
    fn change(&mut self, at: u64, end: u64, apply: impl FnOnce(&mut CaveatLedger)) {
        let (mut lo, hi) = (at.saturating_sub(self.did), (end + self.dpid).min(self.granules));
        if let Some((_, to, _)) = self.readable.before(at) {
            // Before the end of that extent nothing changes.
            lo = lo.max(to.min(at));
        }
        let mut tally = self.tally;
        self.labels(lo, hi, &mut |from, to, label| *tally.count_mut(label) -= to - from);
        self.tally = tally;
        apply(self);
        self.add(lo, hi);
    }

    /// Counts the labels of `lo..hi`, and makes its runs what they say.
    fn add(&mut self, lo: u64, hi: u64) {
        let (mut tally, mut runs) = (self.tally, Vec::new());
        self.labels(lo, hi, &mut |from, to, label| {
            *tally.count_mut(label) += to - from;
            match label {
                WriteLabel::Once => runs.push(WritableRun { from, to, solid: to }),
                WriteLabel::Free => runs.push(WritableRun { from, to, solid: from }),
                WriteLabel::Before | WriteLabel::Scar => {}
            }
        });
        self.tally = tally;
        self.runs.replace(lo, hi, &runs);
    }
}

/// The first DPID granules behind a run: not writable where scarred. A scar that does not matter has been forgotten.
fn label_below(
    lo: u64,
    hi: u64,
    scars: &mut Peekable<impl Iterator<Item = OrderedPiece>>,
    emit: &mut impl FnMut(u64, u64, WriteLabel),
) {
    let mut at = lo;
    while let Some((from, to, _)) = scars.next_if(|&(from, _, _)| from < hi) {
        // One before `lo` lies in an earlier gap, behind what scars can mark there.
        if to > lo {
            emit(at, from.max(lo), WriteLabel::Once);
            at = to.min(hi);
            emit(from.max(lo), at, WriteLabel::Scar);
        }
    }
    emit(at, hi, WriteLabel::Once);
}

/// A run of granules that may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WritableRun {
    pub from: u64,
    /// Where it ends, excluded.
    pub to: u64,
    /// Where its solid part begins, which goes up to `to`.
    pub solid: u64,
}

/// The longest runs of granules that may be written, by address and by length.
#[derive(Clone, Debug, Default)]
pub(super) struct WritableRuns {
    /// To, and from where on solid.
    pub by_start: BTreeMap<u64, (u64, u64)>,
    pub by_length: BTreeSet<(u64, u64)>,
    /// Solid granules of the runs with at least `unit` of them.
    pub roomy: BTreeMap<u64, u64>,
    /// Runs of this many solid granules are room.
    pub unit: u64,
    /// The solid granules of the runs that have enough of them to count on.
    pub roomy_granules: u64,
}

impl WritableRuns {
    /// No run; those with at least `unit` solid granules count as room.
    pub fn new(unit: u64) -> WritableRuns {
        WritableRuns { unit, ..WritableRuns::default() }
    }

    /// The worth of a run with this many solid granules: all of them or, if too few to count on, nothing.
    pub fn worth(&self, solid: u64) -> u64 {
        if solid >= self.unit { solid } else { 0 }
    }

    /// Worth of the runs that begin in `from..to`.
    pub fn worth_within(&self, from: u64, to: u64) -> u64 {
        if to.saturating_sub(from) < self.unit { 0 } else { self.roomy.range(from..to).map(|(_, solid)| solid).sum() }
    }

    /// The writable runs of `lo..hi` are these now, in ascending order; those that touch are joined, outside of it too.
    pub fn replace(&mut self, lo: u64, hi: u64, runs: &[WritableRun]) {
        let before = self.before(lo).filter(|run| run.to >= lo);
        let old: Vec<WritableRun> = before.into_iter().chain(self.within(lo, hi + 1)).collect();
        let mut new = Vec::with_capacity(runs.len() + 2);
        if let Some(&WritableRun { from, to, solid }) = old.first() {
            join(&mut new, WritableRun { from, to: to.min(lo), solid: solid.min(lo) });
        }
        runs.iter().for_each(|&run| join(&mut new, run));
        if let Some(&WritableRun { from, to, solid }) = old.last() {
            join(&mut new, WritableRun { from: from.max(hi), to, solid: solid.max(hi) });
        }
        // Mostly one run ends elsewhere, and others are as they were.
        old.iter().filter(|run| new.binary_search(run).is_err()).for_each(|run| self.take(*run));
        new.iter().filter(|run| old.binary_search(run).is_err()).for_each(|run| self.put(*run));
    }

    /// The run in which `at` lies.
    pub fn around(&self, at: u64) -> Option<WritableRun> {
        self.before(at + 1).filter(|run| run.to > at)
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
        self.by_start.range(from..to.max(from)).map(|(&from, &(to, solid))| WritableRun { from, to, solid })
    }

    fn before(&self, at: u64) -> Option<WritableRun> {
        self.by_start.range(..at).next_back().map(|(&from, &(to, solid))| WritableRun { from, to, solid })
    }

    fn put(&mut self, WritableRun { from, to, solid }: WritableRun) {
        self.by_start.insert(from, (to, solid));
        self.by_length.insert((to - from, from));
        if to - solid >= self.unit {
            self.roomy.insert(from, to - solid);
            self.roomy_granules += to - solid;
        }
    }

    fn take(&mut self, WritableRun { from, to, solid }: WritableRun) {
        self.by_start.remove(&from);
        self.by_length.remove(&(to - from, from));
        if to - solid >= self.unit {
            self.roomy.remove(&from);
            self.roomy_granules -= to - solid;
        }
    }
}

/// Adds a run behind others, to the last of them where they touch.
fn join(runs: &mut Vec<WritableRun>, run: WritableRun) {
    match runs.last_mut() {
        _ if run.from >= run.to => {}
        Some(last) if last.to == run.from => {
            // Nothing of `last` is solid, so the solid part begins in `run`.
            if last.solid == last.to {
                last.solid = run.solid;
            }
            last.to = run.to;
        }
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
