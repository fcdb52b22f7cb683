//! Ranges of numbers, each with a value: a newer range replaces the parts of older ones that it overlaps, and adjacent ranges whose values
//! continue each other are joined. Written by hand, because the value of the rest of a range is shifted to its new beginning, where crates
//! of interval maps would copy it unchanged.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize, Serializer};

/// The value of a range, from which the value of a part of the range follows.
pub trait Shift: Clone + PartialEq {
    /// The value of the part that begins `by` after the range's start.
    fn shifted(&self, by: u64) -> Self;
}

impl Shift for () {
    fn shifted(&self, _by: u64) {}
}

/// Ranges that do not overlap, with their values.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "BTreeMap<u64, (u64, T)>")]
pub struct RangeMap<T> {
    ranges: BTreeMap<u64, (u64, T)>,
    count: u64,
}

impl<T> Default for RangeMap<T> {
    fn default() -> RangeMap<T> {
        RangeMap { ranges: BTreeMap::new(), count: 0 }
    }
}

impl<T> From<BTreeMap<u64, (u64, T)>> for RangeMap<T> {
    fn from(ranges: BTreeMap<u64, (u64, T)>) -> RangeMap<T> {
        let count = ranges.iter().map(|(first, (end, _))| end.saturating_sub(*first)).sum();
        RangeMap { ranges, count }
    }
}

impl<T: Serialize> Serialize for RangeMap<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.ranges.serialize(serializer)
    }
}

impl<T: Shift> RangeMap<T> {
    /// Sets the value of a range, replacing older values.
    pub fn cover(&mut self, range: Range<u64>, value: T) {
        self.uncover(range.clone());
        self.insert(range, value);
    }

    /// Sets the value of a range that has none so far.
    pub fn insert(&mut self, range: Range<u64>, mut value: T) {
        if range.is_empty() {
            return;
        }
        debug_assert!(self.overlapping(range.clone()).next().is_none(), "something is known of {range:?}");
        self.count += range.end - range.start;
        // The usual case, a range after all others (a mount does this a million times), takes one search.
        if let Some(mut last) = self.ranges.last_entry()
            && last.get().0 <= range.start
        {
            let (first, (end, known)) = (*last.key(), last.get_mut());
            if *end == range.start && known.shifted(*end - first) == value {
                *end = range.end;
            } else {
                self.ranges.insert(range.start, (range.end, value));
            }
            return;
        }
        let mut joined = range.clone();
        if let Some((&first, (end, known))) = self.ranges.range(..range.start).next_back()
            && *end == range.start
            && known.shifted(*end - first) == value
        {
            (joined.start, value) = (first, known.clone());
        }
        if let Some((end, next)) = self.ranges.get(&range.end)
            && value.shifted(range.end - joined.start) == *next
        {
            joined.end = *end;
            self.ranges.remove(&range.end);
        }
        self.ranges.insert(joined.start, (joined.end, value));
    }

    /// Removes the values of a range; returns them with the parts that they had.
    pub fn uncover(&mut self, range: Range<u64>) -> Vec<(Range<u64>, T)> {
        let mut gone = Vec::new();
        if range.is_empty() || self.end() <= range.start {
            return gone;
        }
        self.split(range.start);
        while let Some((&first, _)) = self.ranges.range(range.clone()).next()
            && let Some((end, value)) = self.ranges.remove(&first)
        {
            if end > range.end {
                self.ranges.insert(range.end, (end, value.shifted(range.end - first)));
            }
            let part = first..end.min(range.end);
            self.count -= part.end - part.start;
            gone.push((part, value));
        }
        gone
    }

    /// The values of the parts of a range, mutable. Ranges are split at its ends and not joined again.
    pub fn within_mut(&mut self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, &mut T)> {
        if !range.is_empty() {
            self.split(range.start);
            self.split(range.end);
        }
        self.ranges.range_mut(range).map(|(&first, (end, value))| (first..*end, value))
    }

    /// Splits a range that crosses `at`.
    fn split(&mut self, at: u64) {
        if let Some((&first, (end, value))) = self.ranges.range_mut(..at).next_back()
            && *end > at
        {
            let rest = (std::mem::replace(end, at), value.shifted(at - first));
            self.ranges.insert(at, rest);
        }
    }

    /// The ranges that overlap `range`, whole, in order.
    pub fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, &T)> {
        let across = self.before(range.start).next().filter(|(before, _)| before.end > range.start);
        let first = across.map_or(range.start, |(before, _)| before.start);
        // Nothing overlaps an empty range, even inside another.
        let end = if range.is_empty() { first } else { range.end };
        self.ranges.range(first..end).map(|(&first, (end, value))| (first..*end, value))
    }

    /// The parts of a range that have values, in order.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, T)> + '_ {
        self.overlapping(range.clone()).map(move |(whole, value)| {
            let start = whole.start.max(range.start);
            (start..whole.end.min(range.end), value.shifted(start - whole.start))
        })
    }

    /// All parts of a range, in order, with their values, if they have any.
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

    /// The value at a number.
    pub fn get(&self, at: u64) -> Option<T> {
        let (&first, (end, value)) = self.ranges.range(..=at).next_back()?;
        (at < *end).then(|| value.shifted(at - first))
    }

    /// True if a number has a value.
    pub fn contains(&self, at: u64) -> bool {
        self.get(at).is_some()
    }

    /// The first number from `at` on that has a value.
    pub fn first_from(&self, at: u64) -> Option<u64> {
        self.overlapping(at..u64::MAX).next().map(|(range, _)| range.start.max(at))
    }

    /// How many numbers of `range` have a value.
    pub fn count_within(&self, range: Range<u64>) -> u64 {
        self.within(range).map(|(part, _)| part.end - part.start).sum()
    }

    /// How many numbers have a value.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The ranges that begin before `at`, the nearest first.
    #[inline]
    pub fn before(&self, at: u64) -> impl Iterator<Item = (Range<u64>, &T)> {
        self.ranges.range(..at).rev().map(|(&first, (end, value))| (first..*end, value))
    }

    /// The ranges that begin at or after `at`, in order.
    #[inline]
    pub fn from(&self, at: u64) -> impl Iterator<Item = (Range<u64>, &T)> {
        self.ranges.range(at..).map(|(&first, (end, value))| (first..*end, value))
    }

    /// All ranges, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Range<u64>, &T)> {
        self.ranges.iter().map(|(&first, (end, value))| (first..*end, value))
    }

    /// The end of the last range; 0 if there is none.
    pub fn end(&self) -> u64 {
        self.ranges.last_key_value().map_or(0, |(_, (end, _))| *end)
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// True if there is no range.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        *self = RangeMap::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is known of a number: a file and a place in it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Place(u64, u64);

    impl Shift for Place {
        fn shifted(&self, by: u64) -> Place {
            Place(self.0, self.1 + by)
        }
    }

    proptest! {
        #[test]
        fn it_knows_what_an_array_would(
            changes in prop::collection::vec((0..60u64, 0..20u64, prop::option::of((0..2u64, 0..3u64))), 1..60),
            (from, n) in (0..60u64, 0..30u64),
        ) {
            let (mut map, mut expected) = (RangeMap::default(), [None; 90]);
            for (start, n, value) in changes {
                // Those of one file that lie side by side often go on in each other.
                let value = value.map(|(file, shift)| Place(file, start + shift));
                match value {
                    Some(value) => map.cover(start..start + n, value),
                    None => {
                        let gone: Vec<_> = map.uncover(start..start + n);
                        let gone = gone.into_iter().flat_map(|(range, value)| range.clone().map(move |at| (at, value.shifted(at - range.start))));
                        let known = (start..start + n).filter_map(|at| Some((at, expected[at as usize]?)));
                        prop_assert!(gone.eq(known));
                    }
                }
                for at in start..start + n {
                    expected[at as usize] = value.map(|value| value.shifted(at - start));
                }
            }
            let each = |(range, value): (Range<u64>, Option<Place>)| range.clone().map(move |at| value.map(|value| value.shifted(at - range.start)));
            let found: Vec<_> = map.parts(from..from + n).flat_map(each).collect();
            prop_assert_eq!(&found[..], &expected[from as usize..(from + n) as usize]);
            prop_assert_eq!(map.count_within(from..from + n), found.iter().flatten().count() as u64);
            prop_assert_eq!((map.get(from), map.contains(from)), (expected[from as usize], expected[from as usize].is_some()));
            prop_assert_eq!(map.first_from(from), (from..90).find(|&at| expected[at as usize].is_some()));
            prop_assert_eq!(map.count(), expected.iter().flatten().count() as u64);
            prop_assert_eq!((map.len(), map.is_empty()), (map.iter().count(), map.count() == 0));
            // Neighbours that go on in each other are one.
            let all: Vec<_> = map.iter().collect();
            let are_joined = all.windows(2).all(|pair| {
                let (before, next) = (&pair[0].0, &pair[1].0);
                let goes_on = pair[0].1.shifted(next.start - before.start) == *pair[1].1;
                before.end < next.start || before.end == next.start && !goes_on
            });
            prop_assert!(are_joined);
            let (before, behind): (Vec<_>, Vec<_>) = all.iter().cloned().partition(|(range, _)| range.start < from);
            prop_assert!(map.before(from).eq(before.into_iter().rev()) && map.from(from).eq(behind));
            let overlapping = all.iter().filter(|(range, _)| range.start.max(from) < range.end.min(from + n)).cloned();
            prop_assert!(map.overlapping(from..from + n).eq(overlapping));
            // Saved, restored, cut and changed.
            let saved = serde_json::to_string(&map).unwrap();
            let mut restored: RangeMap<Place> = serde_json::from_str(&saved).unwrap();
            prop_assert_eq!(&restored, &map);
            restored.within_mut(from..from + n).for_each(|(_, place)| place.0 = 9);
            for (at, known) in (0..90).zip(expected) {
                let is_inside = (from..from + n).contains(&at);
                prop_assert_eq!(restored.get(at), known.map(|Place(file, place)| Place(if is_inside { 9 } else { file }, place)));
            }
        }
    }
}
