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

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    #[test]
    fn runs_are_those_of_a_set_of_granules() {
        const SIZE: u64 = 50;
        let dice = &mut Pcg64Mcg::seed_from_u64(6);
        let (mut runs, mut set) = (DisjointRuns::default(), [false; SIZE as usize]);
        for step in 0..1500 {
            let at = dice.random_range(0..SIZE);
            let span = Span::new(at, dice.random_range(1..9).min(SIZE - at));
            let own = at as usize..span.end().0 as usize;
            let adds = dice.random() && !set[own.clone()].contains(&true);
            if adds {
                runs.insert(span)
            } else {
                runs.remove(span)
            }
            set[own].fill(adds);
            if step % 500 == 499 {
                runs.clear();
                set.fill(false);
            }
            let mut expected: Vec<(u64, u64)> = Vec::new();
            for at in (0..SIZE).filter(|&at| set[at as usize]) {
                match expected.last_mut() {
                    Some((_, end)) if *end == at => *end += 1,
                    _ => expected.push((at, at + 1)),
                }
            }
            assert!(runs.from(0).eq(expected.iter().copied()), "step {step}");
            assert_eq!(runs.granules(), set.iter().filter(|live| **live).count() as u64);
            assert_eq!(runs.first_from(at), (at..SIZE).find(|&at| set[at as usize]), "step {step}");
            assert!(runs.above(at).eq(expected.iter().copied().filter(|run| run.0 < at).rev()));
            assert!(runs.from(at).eq(expected.iter().copied().filter(|run| run.0 >= at)));
        }
    }
}
