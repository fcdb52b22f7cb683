//! What may be written on a Caveat-Scriptor disk, by the safety rules of Kadekodi et al. 2015, section 4.2, granule by granule.
//!
//! *Upstream* is towards lower addresses, *downstream* towards higher ones. A write damages readable data up to DID downstream. A granule that
//! was written since readable data up to DPID upstream damages this data when it is written again.
//!
//! The ledger keeps readable extents and *scars*, each with its place in the order of writes. A scar is a dead extent that was written after
//! readable data within DPID upstream of it, so it must not be written again. When no such data is left, the scar is forgotten; other past
//! writes don't matter. From readable extents and scars follow the writable runs, which are indexed by address and by length.
//!
//! The beginning of a run may be within DPID downstream of readable data, where it can be written once. The rest is *solid*: it stays writable
//! when the history is lost in a mount. Space that must be relied on is counted in solid granules.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::ops::Range;

use smrkit::ranges::{RangeMap, Shift};

use crate::device::Shape;
use crate::units::Span;

/// Label of a granule that is not readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteLabel {
    /// Must not be written: readable data is within DID downstream.
    Before,
    /// Must not be written: it has been written since readable data within DPID upstream was.
    Scar,
    /// May be written once.
    Once,
    /// May be written.
    Free,
}

/// Granules by label.
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

/// Place of a write in the order of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order(pub u64);

impl Shift for Order {
    fn shifted(&self, _by: u64) -> Order {
        *self
    }
}

/// The state of the disk as far as the safety rule needs it.
#[derive(Clone, Debug)]
pub(super) struct CaveatLedger {
    pub granules: u64,
    pub did: u64,
    pub dpid: u64,
    pub readable: RangeMap<Order>,
    pub scars: RangeMap<Order>,
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
            readable: RangeMap::default(),
            scars: RangeMap::default(),
            runs,
            tally: Tally { free: shape.granules, ..Tally::default() },
            order: 1,
        }
    }

    /// Adds `span`, found readable at mount. The time of its write is not known.
    pub fn adopt(&mut self, span: Span) {
        self.readable.insert(span.range(), Order(self.order));
    }

    /// Ends a mount, after the last `adopt`. Dead granules within DPID downstream of readable ones may be newer than these: they are scars.
    pub fn start(&mut self) {
        let following = self.readable.iter().skip(1).map(|(next, _)| next.start).chain([self.granules]);
        for ((extent, &order), next) in self.readable.iter().zip(following) {
            self.scars.insert(extent.end..next.min(extent.end + self.dpid), order);
        }
        self.tally = Tally::default();
        self.add(0, self.granules);
    }

    /// Notes that `span` was written, and is readable.
    pub fn write(&mut self, span: Span) {
        self.order += 1;
        let order = Order(self.order);
        self.change(span.range(), |ledger| {
            ledger.scars.uncover(span.range());
            ledger.readable.cover(span.range(), order);
        });
    }

    /// Notes a failed write of `span`: it counts as written, but holds no data.
    pub fn fail(&mut self, span: Span) {
        self.order += 1;
        let order = Order(self.order);
        self.change(span.range(), |ledger| {
            // Only where older data upstream is readable does it matter that the span may have been written.
            ledger.scars.cover(span.range(), order);
            ledger.forget(span.range());
        });
    }

    /// Notes that `span` will not be read again.
    pub fn release(&mut self, span: Span) {
        self.change(span.range(), |ledger| {
            for (piece, order) in ledger.readable.uncover(span.range()) {
                ledger.scars.insert(piece, order);
            }
            // Scars in the span and within DPID after it may have mattered for its data only.
            ledger.forget(span.at.0..(span.end().0 + ledger.dpid).min(ledger.granules));
        });
    }

    /// Walks the gaps between readable extents in `lo..hi`, and calls `emit` with each stretch and its label.
    pub fn labels(&self, lo: u64, hi: u64, emit: &mut impl FnMut(u64, u64, WriteLabel)) {
        // The end of the readable extent upstream of the gap, and the first granule that has no label yet.
        let mut upstream_end = self.readable.before(lo + 1).next().map(|(extent, _)| extent.end);
        let mut at = upstream_end.unwrap_or(lo).max(lo);
        let mut scars = self.scars.overlapping(at..hi).map(|(scar, _)| scar).peekable();
        for (Range { start: from, end: to }, _) in self.readable.from(at) {
            if at >= hi {
                return;
            }
            self.gap(upstream_end, Some(from), (at, from.min(hi)), &mut scars, emit);
            at = to;
            upstream_end = Some(to);
        }
        if at < hi {
            self.gap(upstream_end, None, (at, hi), &mut scars, emit);
        }
    }

    /// Emits the labels of the part `lo..hi` of the gap between the readable extent that ends at `upstream_end` and the one that starts at
    /// `next`. `scars` are those in the gap and downstream of it.
    fn gap(
        &self,
        upstream_end: Option<u64>,
        next: Option<u64>,
        (lo, hi): (u64, u64),
        scars: &mut Peekable<impl Iterator<Item = Range<u64>>>,
        emit: &mut impl FnMut(u64, u64, WriteLabel),
    ) {
        let did_start = next.map_or(hi, |next| next.saturating_sub(self.did)).clamp(lo, hi);
        let dpid_end = upstream_end.map_or(lo, |end| end + self.dpid).clamp(lo, did_start);
        if lo < dpid_end {
            label_within_dpid(lo, dpid_end, scars, emit);
        }
        emit(dpid_end, did_start, WriteLabel::Free);
        emit(did_start, hi, WriteLabel::Before);
    }

    /// Forgets scars (or parts of them) in `range` without an older readable granule within DPID upstream: a write there damages nothing.
    fn forget(&mut self, range: Range<u64>) {
        let reach = self.dpid;
        let readable = &self.readable;
        let forgotten = self.scars.within(range).filter_map(|(scar, order)| {
            let mut upstream = readable.before(scar.start).take_while(|(extent, _)| extent.end + reach > scar.start);
            // The nearest extent comes first, so the first older one keeps the longest part of the scar: up to `kept_end`.
            let older = upstream.find(|(_, written)| **written <= order);
            let kept_end = older.map_or(scar.start, |(extent, _)| extent.end + reach);
            (kept_end < scar.end).then_some(kept_end..scar.end)
        });
        for part in forgotten.collect::<Vec<_>>() {
            self.scars.uncover(part);
        }
    }

    /// Calls `apply`, and updates the tally and the writable runs. `apply` may change readable granules in `range` only, and scars up to DPID
    /// downstream of it.
    fn change(&mut self, range: Range<u64>, apply: impl FnOnce(&mut CaveatLedger)) {
        let (mut lo, hi) = (range.start.saturating_sub(self.did), (range.end + self.dpid).min(self.granules));
        if let Some((extent, _)) = self.readable.before(range.start).next() {
            // Labels upstream of that extent's end do not change.
            lo = lo.max(extent.end.min(range.start));
        }
        let mut tally = self.tally;
        self.labels(lo, hi, &mut |from, to, label| *tally.count_mut(label) -= to - from);
        self.tally = tally;
        apply(self);
        self.add(lo, hi);
    }

    /// Labels `lo..hi` anew: adds the granules to the tally, and replaces the writable runs there.
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

/// Emits the labels of `lo..hi`, at most the first DPID granules downstream of readable data: `Scar` for scars, and `Once` between them. Stretches
/// may be empty.
fn label_within_dpid(
    lo: u64,
    hi: u64,
    scars: &mut Peekable<impl Iterator<Item = Range<u64>>>,
    emit: &mut impl FnMut(u64, u64, WriteLabel),
) {
    let mut at = lo;
    while let Some(Range { start: from, end: to }) = scars.next_if(|scar| scar.start < hi) {
        // Scars that end before `lo` were of an earlier gap. The rest of one that ends after `hi` is in this gap, where it gets another label.
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

/// The runs of granules that may be written, by address and by length.
#[derive(Clone, Debug, Default)]
pub(super) struct WritableRuns {
    /// The end of each run, and the beginning of its solid part, by its start.
    pub by_start: BTreeMap<u64, (u64, u64)>,
    /// The length and the start of each run.
    pub by_length: BTreeSet<(u64, u64)>,
    /// The number of solid granules, by start, of the runs with at least `unit` of them.
    pub roomy: BTreeMap<u64, u64>,
    /// Runs of at least this many solid granules count as room.
    pub unit: u64,
    /// The sum of `roomy`.
    pub roomy_granules: u64,
}

impl WritableRuns {
    /// Without runs. Those with at least `unit` solid granules will count as room.
    pub fn new(unit: u64) -> WritableRuns {
        WritableRuns { unit, ..WritableRuns::default() }
    }

    /// Room that a run with `solid` solid granules counts for: all of them, or none if they are fewer than a unit.
    pub fn worth(&self, solid: u64) -> u64 {
        if solid >= self.unit { solid } else { 0 }
    }

    /// The room of the runs that begin in `from..to`, by [`WritableRuns::worth`].
    pub fn worth_within(&self, from: u64, to: u64) -> u64 {
        if to.saturating_sub(from) < self.unit { 0 } else { self.roomy.range(from..to).map(|(_, solid)| solid).sum() }
    }

    /// Replaces the writable runs of `lo..hi` by `runs`, in ascending order. Runs that touch are joined, also with runs outside `lo..hi`.
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
        // Usually only one run changes its end, so only the difference is applied.
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

/// Appends a run to `runs`, or extends the last one, if they touch.
fn join(runs: &mut Vec<WritableRun>, run: WritableRun) {
    match runs.last_mut() {
        _ if run.from >= run.to => {}
        Some(last) if last.to == run.from => {
            // If no granule of `last` is solid, the solid part begins in `run`.
            if last.solid == last.to {
                last.solid = run.solid;
            }
            last.to = run.to;
        }
        _ => runs.push(run),
    }
}
