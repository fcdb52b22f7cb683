//! The writable runs of the disk, found by address and by length.
//!
//! The begin of a run may lie within DPID below readable data; the rest is solid: it stays writable when the history is lost
//! in a mount. What must be counted on is counted in solid granules.

use std::collections::{BTreeMap, BTreeSet};

/// A run: from, to (excluded), and from where on it is solid.
type WritableRun = (u64, u64, u64);

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

    /// Adds a run that is solid from `solid` on, joined with those that touch it.
    pub fn insert(&mut self, mut at: u64, mut end: u64, mut solid: u64) {
        if at >= end {
            return;
        }
        if let Some((from, to, before)) = self.before(at)
            && to == at
        {
            self.take(from);
            at = from;
            solid = if before < to { before } else { solid };
        }
        if let Some((to, behind)) = self.take(end) {
            solid = if solid < end { solid } else { behind };
            end = to;
        }
        self.put(at, end, solid);
    }

    /// Takes out what lies in `at..end`.
    pub fn cut(&mut self, at: u64, end: u64) {
        while let Some((from, to, solid)) = self.before(end)
            && to > at
        {
            self.take(from);
            if end < to {
                self.put(end, to, solid.max(end));
            }
            if from < at {
                self.put(from, at, solid.min(at));
            }
        }
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

    fn put(&mut self, at: u64, end: u64, solid: u64) {
        self.by_start.insert(at, (end, solid));
        self.by_length.insert((end - at, at));
        if end - solid >= self.unit {
            self.roomy.insert(at, end - solid);
            self.roomy_granules += end - solid;
        }
    }

    fn take(&mut self, at: u64) -> Option<(u64, u64)> {
        let (end, solid) = self.by_start.remove(&at)?;
        self.by_length.remove(&(end - at, at));
        if end - solid >= self.unit {
            self.roomy.remove(&at);
            self.roomy_granules -= end - solid;
        }
        Some((end, solid))
    }
}
