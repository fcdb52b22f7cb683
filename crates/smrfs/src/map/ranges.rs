//! A set of granules of a file, as ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of numbers, as ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    ends: BTreeMap<u64, u64>,
    count: u64,
}

impl Ranges {
    /// Adds `range`; tells the range that it is in now.
    pub fn insert(&mut self, range: Range<u64>) -> Range<u64> {
        if range.is_empty() {
            return range;
        }
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&from, &to)) = self.ends.range(..=end).next_back()
            && to >= start
        {
            self.ends.remove(&from);
            self.count -= to - from;
            (start, end) = (start.min(from), end.max(to));
        }
        self.ends.insert(start, end);
        self.count += end - start;
        start..end
    }

    /// Takes out `range`.
    pub fn remove(&mut self, range: Range<u64>) {
        while let Some((&from, &to)) = self.ends.range(..range.end).next_back()
            && to > range.start
            && !range.is_empty()
        {
            self.ends.remove(&from);
            self.count -= to.min(range.end) - from.max(range.start);
            if to > range.end {
                self.ends.insert(range.end, to);
            }
            if from < range.start {
                self.ends.insert(from, range.start);
            }
        }
    }

    /// Adds all of `other`.
    pub fn extend(&mut self, other: Ranges) {
        for range in other.iter() {
            self.insert(range);
        }
    }

    /// True if `number` is in it.
    pub fn contains(&self, number: u64) -> bool {
        self.ends.range(..=number).next_back().is_some_and(|(_, &end)| number < end)
    }

    /// Count of the numbers of `range` that are in it.
    pub fn count_within(&self, range: Range<u64>) -> u64 {
        let first = match self.ends.range(..=range.start).next_back() {
            Some((&start, &end)) if end > range.start => start,
            _ => range.start,
        };
        let found = self.ends.range(first..range.end.max(first));
        found.map(|(&start, &end)| end.min(range.end).saturating_sub(start.max(range.start))).sum()
    }

    /// Count of the numbers in it.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The first number in it from `at` on.
    pub fn first_from(&self, at: u64) -> Option<u64> {
        if self.contains(at) { Some(at) } else { self.from(at).next().map(|range| range.start) }
    }

    /// The ranges that begin before `at`, the nearest first.
    #[inline]
    pub fn before(&self, at: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ends.range(..at).rev().map(|(&start, &end)| start..end)
    }

    /// The ranges that begin at `at` or behind it.
    #[inline]
    pub fn from(&self, at: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ends.range(at..).map(|(&start, &end)| start..end)
    }

    /// True if nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The ranges, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ends.iter().map(|(&start, &end)| start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_a_set(changes in prop::collection::vec((0u64..50, 0u64..12, any::<bool>()), 0..40)) {
            let (mut ranges, mut set) = (Ranges::default(), [false; 70]);
            for (start, count, add) in changes {
                let own = start..start + count;
                set[start as usize..own.end as usize].fill(add);
                if add {
                    let merged = ranges.insert(own.clone());
                    prop_assert!(own.is_empty() || ranges.iter().any(|range| range == merged) && merged.contains(&start));
                } else {
                    ranges.remove(own);
                }
                for (number, &there) in set.iter().enumerate() {
                    prop_assert_eq!(ranges.contains(number as u64), there);
                    let inside = set[number..(number + 9).min(70)].iter().filter(|&&there| there).count() as u64;
                    prop_assert_eq!(ranges.count_within(number as u64..number as u64 + 9), inside);
                }
                prop_assert_eq!(ranges.count(), set.iter().filter(|&&there| there).count() as u64);
                prop_assert_eq!(ranges.first_from(start), (start..70).find(|&at| set[at as usize]));
                let before: Vec<_> = ranges.iter().filter(|range| range.start < start).collect();
                prop_assert!(ranges.before(start).eq(before.iter().cloned().rev()));
                prop_assert!(ranges.iter().eq(before.into_iter().chain(ranges.from(start))));
                prop_assert!(ranges.iter().zip(ranges.iter().skip(1)).all(|(a, b)| a.end < b.start));
            }
        }
    }
}
