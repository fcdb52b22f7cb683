//! The writable runs of the disk, found by address and by length.

use std::collections::{BTreeMap, BTreeSet};

/// The longest runs of granules that may be written, by address and by length.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    by_start: BTreeMap<u64, u64>,
    by_length: BTreeSet<(u64, u64)>,
    /// Runs of at least `unit`, once more.
    roomy: BTreeMap<u64, u64>,
    unit: u64,
    roomy_granules: u64,
}

impl Runs {
    /// No run; those of at least `unit` count as room.
    pub fn new(unit: u64) -> Runs {
        Runs { unit, ..Runs::default() }
    }

    /// What a run of so many granules is worth: all or, if too short to count on, nothing.
    pub fn worth(&self, length: u64) -> u64 {
        if length >= self.unit { length } else { 0 }
    }

    /// The granules of the runs that are long enough to count on.
    pub fn roomy_granules(&self) -> u64 {
        self.roomy_granules
    }

    /// The part that counts on of the runs that begin in `from..to`.
    pub fn worth_within(&self, from: u64, to: u64) -> u64 {
        if to.saturating_sub(from) < self.unit { 0 } else { self.roomy.range(from..to).map(|(_, length)| length).sum() }
    }

    /// Adds a run, joined with those that touch it.
    pub fn insert(&mut self, mut at: u64, mut end: u64) {
        if at >= end {
            return;
        }
        if let Some((from, to)) = self.before(at)
            && to == at
        {
            self.take(from, to - from);
            at = from;
        }
        if let Some(&length) = self.by_start.get(&end) {
            self.take(end, length);
            end += length;
        }
        self.put(at, end - at);
    }

    /// Takes out what lies in `at..end`.
    pub fn cut(&mut self, at: u64, end: u64) {
        while let Some((from, to)) = self.before(end)
            && to > at
        {
            self.take(from, to - from);
            if end < to {
                self.put(end, to - end);
            }
            if from < at {
                self.put(from, at - from);
            }
        }
    }

    /// The run in which `at` lies, as from and to.
    pub fn around(&self, at: u64) -> Option<(u64, u64)> {
        self.before(at + 1).filter(|&(_, to)| to > at)
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
        let runs = if length >= self.unit { &self.roomy } else { &self.by_start };
        runs.range(from..).filter(move |&(_, &has)| has >= length).map(|(&at, &length)| (at, at + length))
    }

    /// All runs in ascending order.
    pub fn all(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.by_start.iter().map(|(&at, &length)| (at, at + length))
    }

    /// Whether the three indexes say the same.
    pub fn agree(&self) -> bool {
        let lengths: BTreeSet<(u64, u64)> = self.by_start.iter().map(|(&at, &length)| (length, at)).collect();
        let roomy: BTreeMap<u64, u64> = self
            .by_start
            .iter()
            .filter(|&(_, &length)| length >= self.unit)
            .map(|(&at, &length)| (at, length))
            .collect();
        lengths == self.by_length && roomy == self.roomy && roomy.values().sum::<u64>() == self.roomy_granules
    }

    fn before(&self, at: u64) -> Option<(u64, u64)> {
        self.by_start.range(..at).next_back().map(|(&from, &length)| (from, from + length))
    }

    fn put(&mut self, at: u64, length: u64) {
        self.by_start.insert(at, length);
        self.by_length.insert((length, at));
        if length >= self.unit {
            self.roomy.insert(at, length);
            self.roomy_granules += length;
        }
    }

    fn take(&mut self, at: u64, length: u64) {
        self.by_start.remove(&at);
        self.by_length.remove(&(length, at));
        if length >= self.unit {
            self.roomy.remove(&at);
            self.roomy_granules -= length;
        }
    }
}
