//! The longest runs of live granules, by address.

use std::collections::BTreeMap;

use crate::units::Span;

/// Disjoint runs that do not touch; start and end.
#[derive(Clone, Debug, Default)]
pub(super) struct DisjointRuns {
    runs: BTreeMap<u64, u64>,
    granules: u64,
}

impl DisjointRuns {
    /// Live granules.
    pub(super) fn granules(&self) -> u64 {
        self.granules
    }

    /// Adds `span`, of which nothing is live.
    pub(super) fn insert(&mut self, span: Span) {
        let (mut start, mut end) = (span.at.0, span.end().0);
        self.granules += span.count;
        if let Some((&before, &its_end)) = self.runs.range(..start).next_back()
            && its_end == start
        {
            start = before;
        }
        if let Some(its_end) = self.runs.remove(&end) {
            end = its_end;
        }
        self.runs.insert(start, end);
    }

    /// Takes out what is live of `span`.
    pub(super) fn remove(&mut self, span: Span) {
        let (start, end) = (span.at.0, span.end().0);
        if let Some((&before, &its_end)) = self.runs.range(..start).next_back()
            && its_end > start
        {
            self.runs.insert(before, start);
            self.granules -= its_end.min(end) - start;
            if its_end > end {
                self.runs.insert(end, its_end);
                return;
            }
        }
        while let Some((&at, &its_end)) = self.runs.range(start..end).next() {
            self.runs.remove(&at);
            self.granules -= its_end.min(end) - at;
            if its_end > end {
                self.runs.insert(end, its_end);
            }
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = DisjointRuns::default();
    }

    /// The first live granule from `at` on.
    pub(super) fn first_from(&self, at: u64) -> Option<u64> {
        match self.above(at).next() {
            Some((_, end)) if end > at => Some(at),
            _ => self.from(at).next().map(|(start, _)| start),
        }
    }

    /// The runs that begin before `at`, the nearest first.
    #[inline]
    pub(super) fn above(&self, at: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.range(..at).rev().map(|(&start, &end)| (start, end))
    }

    /// The runs that begin at `at` or behind it.
    #[inline]
    pub(super) fn from(&self, at: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.range(at..).map(|(&start, &end)| (start, end))
    }
}
