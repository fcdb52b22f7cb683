//! Counters of latencies in fine buckets: up to 2^15 ns each value has its own, above that each power of two has 2^14.
//!
//! An outcome has the same buckets as text. They are counted here, not in a library's histogram, since a request then takes 15
//! instructions in place of 77, and a result a tenth.

use std::collections::BTreeMap;

/// A power of two has as many buckets as this, as a power of two.
const OCTAVE_BITS: u32 = 14;

/// The last bucket, with latencies up to `u64::MAX`.
pub(super) const LAST: u64 = index(u64::MAX);

/// The number of a latency's bucket.
#[inline]
pub(super) const fn index(ns: u64) -> u64 {
    let shift = (64 - ns.leading_zeros()).saturating_sub(OCTAVE_BITS + 1);
    ((shift as u64) << OCTAVE_BITS) + (ns >> shift)
}

/// The largest latency of a bucket.
pub(super) fn largest(index: u64) -> u64 {
    let shift = (index >> OCTAVE_BITS).saturating_sub(1);
    (index - (shift << OCTAVE_BITS)) << shift | ((1 << shift) - 1)
}

/// Counters of latencies. An array has a pair for each drive, which its processor's caches hold better at 32 bits.
pub(super) struct Buckets {
    counts: Vec<u32>,
    /// Latencies that are in no counter yet: a counter is seldom in the processor's caches, and those of a batch are fetched
    /// at once.
    waiting: [u64; BATCH],
    waiting_count: usize,
    /// Of a bucket, what its counter lost by overflow.
    overflown: BTreeMap<u64, u64>,
}

/// Latencies that are counted at a time.
const BATCH: usize = 32;

impl Default for Buckets {
    fn default() -> Buckets {
        Buckets { counts: Vec::new(), waiting: [0; BATCH], waiting_count: 0, overflown: BTreeMap::new() }
    }
}

impl Buckets {
    /// Counts a latency.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.waiting[self.waiting_count % BATCH] = ns;
        self.waiting_count += 1;
        if self.waiting_count == BATCH {
            self.count_waiting();
        }
    }

    #[inline(never)]
    fn count_waiting(&mut self) {
        self.waiting_count = 0;
        for i in 0..BATCH {
            let at = index(self.waiting[i]);
            let has_overflown = match self.counts.get_mut(at as usize) {
                Some(count) => {
                    *count = count.wrapping_add(1);
                    *count == 0
                }
                None => {
                    self.record_n(self.waiting[i], 1);
                    false
                }
            };
            if has_overflown {
                self.overflow(at, 1 << 32);
            }
        }
    }

    /// Counts a latency `n` times.
    #[inline(never)]
    pub fn record_n(&mut self, ns: u64, n: u64) {
        let at = index(ns);
        if self.counts.len() as u64 <= at {
            self.counts.resize((((at >> OCTAVE_BITS) + 1) << OCTAVE_BITS) as usize, 0);
        }
        let count = u64::from(self.counts[at as usize]) + (n & u64::from(u32::MAX));
        self.counts[at as usize] = count as u32;
        let rest = (n >> 32) + (count >> 32);
        if rest > 0 {
            self.overflow(at, rest << 32);
        }
    }

    #[cold]
    fn overflow(&mut self, at: u64, count: u64) {
        let of = self.overflown.entry(at).or_default();
        *of = of.saturating_add(count);
    }

    /// The largest latency of each bucket that holds any, ascending, and the number in it.
    pub fn values(&self) -> Vec<(u64, u64)> {
        let mut values = values_of(&self.waiting[..self.waiting_count]);
        for (at, &count) in (0..).zip(&self.counts) {
            let more = if self.overflown.is_empty() { 0 } else { self.overflown.get(&at).copied().unwrap_or(0) };
            let count = more.saturating_add(count.into());
            if count > 0 {
                values.push((largest(at), count));
            }
        }
        // Two ascending runs, which are merged.
        values.sort();
        values.dedup_by(|next, last| {
            let is_same = next.0 == last.0;
            last.1 = if is_same { last.1.saturating_add(next.1) } else { last.1 };
            is_same
        });
        values
    }
}

/// Values of latencies that are not in counters.
pub(super) fn values_of(latencies: &[u64]) -> Vec<(u64, u64)> {
    let mut sorted: Vec<u64> = latencies.iter().map(|&ns| largest(index(ns))).collect();
    sorted.sort_unstable();
    sorted.chunk_by(|a, b| a == b).map(|equal| (equal[0], equal.len() as u64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_follow_each_other_without_gap() {
        for index in (0..100_000).chain(LAST - 100..=LAST) {
            assert_eq!(super::index(largest(index)), index);
            if index < LAST {
                assert_eq!(super::index(largest(index) + 1), index + 1);
            }
        }
        assert_eq!(largest(LAST), u64::MAX);
    }

    #[test]
    fn counters_of_32_bits_lose_nothing() {
        let mut buckets = Buckets::default();
        let full = u64::from(u32::MAX);
        for n in [full, 5, 3 << 32] {
            buckets.record_n(7, n);
        }
        assert_eq!(buckets.values(), [(7, full + 5 + (3 << 32))]);
        buckets.record_n(9, full);
        buckets.record(8);
        // One of them waits.
        (0..BATCH).for_each(|_| buckets.record(9));
        assert_eq!(buckets.values(), [(7, full + 5 + (3 << 32)), (8, 1), (9, full + BATCH as u64)]);
    }

    proptest! {
        #[test]
        fn counted_latencies_have_the_values_of_listed_ones(latencies in prop::collection::vec(0u64..1 << 28, 0..100)) {
            let mut buckets = Buckets::default();
            latencies.iter().for_each(|&ns| buckets.record(ns));
            prop_assert_eq!(buckets.values(), values_of(&latencies));
        }
    }
}
