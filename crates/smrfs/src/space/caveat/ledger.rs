//! Labels of a disk, kept step by step: readable extents and scars, each with its place in the order of writes.
//!
//! The safety policy of Kadekodi et al. 2015, section 4.2, per granule or for whole regions. A scar is a dead extent that was
//! written after a readable one within DPID above it; once no such is left, it is forgotten. Nothing else of the past matters.

use std::iter::Peekable;

use super::options::Rule;
use super::runs::WritableRuns;
use super::runs::{Ordered, OrderedPiece};
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
    pub rule: Rule,
    pub readable: Ordered,
    pub scars: Ordered,
    pub runs: WritableRuns,
    pub tally: Tally,
    order: u64,
}

impl CaveatLedger {
    /// A disk of which nothing is readable and nothing has been written.
    pub fn new(shape: &Shape, rule: Rule, unit: u64) -> CaveatLedger {
        let mut runs = WritableRuns::new(unit);
        runs.replace(0, shape.granules, &[(0, shape.granules, 0)]);
        CaveatLedger {
            granules: shape.granules,
            did: shape.did,
            dpid: shape.dpid,
            rule,
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
            self.scars.insert((end, next.min(end + self.memory()).max(end), order));
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
            ledger.forget(at, (end + ledger.memory()).min(ledger.granules));
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
            match self.rule {
                Rule::Lba => label_below(lo, below, scars, emit),
                Rule::Region => self.below_regions(above.unwrap_or(lo), lo, below, emit),
            }
        }
        emit(below, before, WriteLabel::Free);
        emit(before, hi, WriteLabel::Before);
    }

    /// Labels by the paper's rule: the region behind each run that ends within DPID above is not writable as a whole if any
    /// of it was written after any of the run's last DPID granules.
    fn below_regions(&self, above: u64, lo: u64, hi: u64, emit: &mut impl FnMut(u64, u64, WriteLabel)) {
        let mut end = above;
        let mut until = lo;
        while end + self.dpid > until {
            let (oldest, start) = self.tail(end);
            let newest = self.scars.overlapping(end, end + self.dpid).map(|(_, _, order)| order).max();
            if newest.is_some_and(|newest| newest >= oldest) {
                until = until.max(end + self.dpid);
            }
            match self.readable.before(start) {
                Some((_, to, _)) => end = to,
                None => break,
            }
        }
        let until = until.clamp(lo, hi);
        emit(lo, until, WriteLabel::Scar);
        emit(until, hi, WriteLabel::Once);
    }

    /// The oldest write among the last DPID granules of the run that ends at `end`, and where that run, or that part, begins.
    fn tail(&self, end: u64) -> (u64, u64) {
        let from = end.saturating_sub(self.dpid);
        let (mut oldest, mut start) = (u64::MAX, end);
        for (at, to, order) in self.readable.upstream(end) {
            if to < start || to <= from {
                break;
            }
            oldest = oldest.min(order);
            start = at;
        }
        (oldest, start)
    }

    /// Distance above a scar from which an older readable granule makes it matter.
    fn memory(&self) -> u64 {
        match self.rule {
            Rule::Lba => self.dpid,
            // The scar lies up to DPID behind the run's end, the older granule up to DPID before it.
            Rule::Region => 2 * self.dpid,
        }
    }

    /// Forgets scars and parts of scars in `lo..hi` that have no older readable granule within DPID above them.
    fn forget(&mut self, lo: u64, hi: u64) {
        let reach = self.memory();
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
        let (above, below) = match self.rule {
            Rule::Lba => (self.did, self.dpid),
            Rule::Region => (self.did.max(self.dpid), 2 * self.dpid),
        };
        let (mut lo, hi) = (at.saturating_sub(above), (end + below).min(self.granules));
        if self.rule == Rule::Lba
            && let Some((_, to, _)) = self.readable.before(at)
        {
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
                WriteLabel::Once => runs.push((from, to, to)),
                WriteLabel::Free => runs.push((from, to, from)),
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
