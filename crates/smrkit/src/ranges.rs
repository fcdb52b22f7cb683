//! Ranges of numbers, each with what is known of it: a newer one covers what it overlaps of older ones. By hand: what is left of a
//! range tells of its own beginning, where crates of interval maps copy the value as it was.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Something known of a range that can be told of a part of it.
pub trait Shift: Clone {
    /// Knowledge of the part that begins `by` behind the range's start.
    fn shifted(&self, by: u64) -> Self;
}

impl Shift for () {
    fn shifted(&self, _by: u64) {}
}

/// Ranges, no two of which overlap.
#[derive(Clone, Serialize, Deserialize)]
pub struct RangeMap<T>(BTreeMap<u64, (u64, T)>);

impl<T> Default for RangeMap<T> {
    fn default() -> RangeMap<T> {
        RangeMap(BTreeMap::new())
    }
}

impl<T: Shift> RangeMap<T> {
    /// Takes in a range, in place of what is known of any of it.
    pub fn cover(&mut self, range: Range<u64>, value: T) {
        self.uncover(range.clone());
        if !range.is_empty() {
            self.0.insert(range.start, (range.end, value));
        }
    }

    /// Forgets what is known of any of a range.
    pub fn uncover(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        if let Some((&first, (end, value))) = self.0.range_mut(..range.start).next_back()
            && *end > range.start
        {
            let old = (std::mem::replace(end, range.start), value.clone());
            self.keep_tail(first, old, range.end);
        }
        while let Some((&first, _)) = self.0.range(range.clone()).next() {
            let Some(old) = self.0.remove(&first) else { return };
            self.keep_tail(first, old, range.end);
        }
    }

    /// The part of a range that was taken out from `from` on stays.
    fn keep_tail(&mut self, first: u64, (end, value): (u64, T), from: u64) {
        if end > from {
            self.0.insert(from, (end, value.shifted(from - first)));
        }
    }

    /// Known parts of a range, in order.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, T)> + '_ {
        let before = self.0.range(..range.start).next_back().filter(|(_, (end, _))| *end > range.start);
        let from = range.start..range.end.max(range.start);
        before.into_iter().chain(self.0.range(from)).map(move |(&first, (end, value))| {
            let start = first.max(range.start);
            (start..(*end).min(range.end), value.shifted(start - first))
        })
    }

    /// The parts of a range, in order: what is known of each, if anything.
    pub fn parts(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, Option<T>)> + '_ {
        let mut at = range.start;
        let mut known = self.within(range.clone()).peekable();
        std::iter::from_fn(move || {
            let part = match known.next_if(|(next, _)| next.start == at) {
                Some((next, value)) => (next, Some(value)),
                None => (at..known.peek().map_or(range.end, |(next, _)| next.start), None),
            };
            at = part.0.end;
            (!part.0.is_empty()).then_some(part)
        })
    }

    /// All ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Range<u64>, &T)> {
        self.0.iter().map(|(&first, (end, value))| (first..*end, value))
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if nothing is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Shift for u64 {
        fn shifted(&self, by: u64) -> u64 {
            self + by
        }
    }

    proptest! {
        #[test]
        fn every_number_is_known_by_what_covered_it_last(
            changes in prop::collection::vec((0..60u64, 0..20u64, prop::option::of(1..1000u64)), 1..60),
            (from, n) in (0..60u64, 0..30u64),
        ) {
            let (mut map, mut expected) = (RangeMap::default(), [None; 90]);
            for (start, n, value) in changes {
                match value {
                    Some(value) => map.cover(start..start + n, value * 100),
                    None => map.uncover(start..start + n),
                }
                for at in start..start + n {
                    expected[at as usize] = value.map(|value| value * 100 + (at - start));
                }
            }
            let each = |(range, value): (Range<u64>, Option<u64>)| range.clone().map(move |at| value.map(|value| value + (at - range.start)));
            let found: Vec<_> = map.parts(from..from + n).flat_map(each).collect();
            prop_assert_eq!(&found[..], &expected[from as usize..(from + n) as usize]);
            let known: u64 = map.iter().map(|(range, _)| range.end - range.start).sum();
            prop_assert_eq!(known, expected.iter().flatten().count() as u64);
            prop_assert_eq!((map.len(), map.is_empty()), (map.iter().count(), known == 0));
        }
    }
}
