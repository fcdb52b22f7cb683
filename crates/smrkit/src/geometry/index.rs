//! Finds the stretch that a number lies in, with hardly a search: stretches of very different lengths follow each other.

use std::sync::Arc;

const BUCKETS: u64 = 4096;

/// The first stretch of each bucket of numbers.
#[derive(Clone, Debug)]
pub struct StretchIndex {
    firsts: Arc<[u16]>,
    shift: u32,
}

impl StretchIndex {
    /// An index of `count` stretches (1 to 65,536) of the numbers up to `end`; `ended_at` tells how many end at a number or before.
    pub fn new(end: u64, count: usize, ended_at: impl Fn(u64) -> usize) -> StretchIndex {
        assert!((1..=1 << 16).contains(&count), "{count} stretches");
        let shift = (0..).find(|shift| (end >> shift) < BUCKETS).unwrap_or(0);
        let buckets = 0..=(end >> shift) + 1;
        StretchIndex { firsts: buckets.map(|bucket| ended_at(bucket << shift).min(count - 1) as u16).collect(), shift }
    }

    /// The stretch that `at` lies in, `stretches` being all of them; the last for numbers beyond.
    #[inline]
    pub fn find<T>(&self, stretches: &[T], at: u64, ends_before: impl Fn(&T) -> bool) -> usize {
        let bucket = ((at >> self.shift) as usize).min(self.firsts.len() - 2);
        let (first, last) = (self.firsts[bucket] as usize, self.firsts[bucket + 1] as usize);
        if first == last {
            return first;
        }
        first + stretches[first..last].partition_point(ends_before)
    }
}
