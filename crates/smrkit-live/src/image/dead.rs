//! Parts of an image file that nobody will read again: they become holes, which gives the host's disk their room back.
//!
//! A hole takes the host a moment, so they are made of a block or more, and of less only where the host is short of room.

use std::collections::BTreeMap;

use smrfs::units::{Granule, Span};

/// Granules that are dead and not a hole yet: beginnings and ends of runs that do not touch.
#[derive(Debug, Default)]
pub struct Dead {
    runs: BTreeMap<u64, u64>,
}

impl Dead {
    /// Adds `span`; tells the run that it is in now.
    pub fn add(&mut self, span: Span) -> Span {
        let (mut from, mut to) = (span.at.0, span.end().0);
        while let Some((&start, &end)) = self.runs.range(..=to).next_back().filter(|&(_, &end)| end >= from) {
            self.runs.remove(&start);
            (from, to) = (from.min(start), to.max(end));
        }
        self.runs.insert(from, to);
        Span::new(from, to - from)
    }

    /// Forgets what of `span` is in it: it is written again, or a hole.
    pub fn remove(&mut self, span: Span) {
        let (from, to) = (span.at.0, span.end().0);
        while let Some((&start, &end)) = self.runs.range(..to).next_back().filter(|&(_, &end)| end > from) {
            self.runs.remove(&start);
            if end > to {
                self.runs.insert(to, end);
            }
            if start < from {
                self.runs.insert(start, from);
            }
        }
    }

    /// Takes all.
    pub fn take(&mut self) -> impl Iterator<Item = Span> + use<> {
        std::mem::take(&mut self.runs).into_iter().map(|(from, to)| Span { at: Granule(from), count: to - from })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_grow_together_and_are_cut() {
        let mut dead = Dead::default();
        assert_eq!(dead.add(Span::new(10, 5)), Span::new(10, 5));
        assert_eq!(dead.add(Span::new(20, 5)), Span::new(20, 5));
        assert_eq!(dead.add(Span::new(15, 5)), Span::new(10, 15));
        assert_eq!(dead.add(Span::new(12, 3)), Span::new(10, 15));
        dead.remove(Span::new(12, 3));
        dead.remove(Span::new(24, 100));
        dead.remove(Span::new(0, 10));
        assert_eq!(dead.take().collect::<Vec<_>>(), [Span::new(10, 2), Span::new(15, 9)]);
        assert_eq!(dead.take().count(), 0);
    }

    #[test]
    fn runs_are_those_of_a_set_of_granules() {
        use rand::{RngExt, SeedableRng};
        const SIZE: u64 = 50;
        let dice = &mut rand_pcg::Pcg64Mcg::seed_from_u64(6);
        let (mut dead, mut set) = (Dead::default(), [false; SIZE as usize]);
        for step in 0..1000 {
            let at = dice.random_range(0..SIZE);
            let span = Span::new(at, dice.random_range(1..9).min(SIZE - at));
            let adds = dice.random();
            set[at as usize..span.end().0 as usize].fill(adds);
            let mut expected: Vec<Span> = Vec::new();
            for at in (0..SIZE).filter(|&at| set[at as usize]) {
                match expected.last_mut() {
                    Some(run) if run.end().0 == at => run.count += 1,
                    _ => expected.push(Span::new(at, 1)),
                }
            }
            if adds {
                let run = dead.add(span);
                assert!(run.contains(span) && expected.contains(&run), "step {step}: {run}");
            } else {
                dead.remove(span);
            }
            let runs: Vec<Span> = dead.runs.iter().map(|(&from, &to)| Span::new(from, to - from)).collect();
            assert_eq!(runs, expected, "step {step}");
        }
        assert_eq!(dead.take().map(|span| span.count).sum::<u64>(), set.iter().filter(|dead| **dead).count() as u64);
        assert_eq!(dead.take().count(), 0);
    }
}
