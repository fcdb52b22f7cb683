//! Arithmetic that every access needs: exact division by a number that is known in advance, and a search for the stretch that contains a
//! number.
//!
//! Division is Barrett's method: a truncated reciprocal gives the quotient or one less, and one comparison corrects it. It is written by hand
//! so that quotient and remainder come from one multiplication, without a branch. Stretches are contiguous and may have very different
//! lengths.

use std::sync::Arc;

/// A divisor with its reciprocal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    /// The divisor itself.
    pub value: u64,
    /// floor((2⁶⁴ − 1) / value).
    reciprocal: u64,
}

impl Divisor {
    /// Prepares a divisor; 0 is taken as 1.
    pub fn new(value: u64) -> Divisor {
        let value = value.max(1);
        Divisor { value, reciprocal: u64::MAX / value }
    }

    /// Quotient and remainder of `n`, exact for every `n`.
    #[inline]
    pub fn divide(&self, n: u64) -> (u64, u64) {
        let quotient = ((u128::from(n) * u128::from(self.reciprocal)) >> 64) as u64;
        let remainder = n - quotient * self.value;
        // The rounded reciprocal may give one too few. Corrected without a branch: for small divisors the correction is a toss-up, and half of
        // the predictions would be wrong.
        let is_one_low = remainder >= self.value;
        (quotient + u64::from(is_one_low), remainder - if is_one_low { self.value } else { 0 })
    }

    /// The quotient of `n`.
    #[inline]
    pub fn quotient(&self, n: u64) -> u64 {
        self.divide(n).0
    }

    /// The remainder of `n`.
    #[inline]
    pub fn remainder(&self, n: u64) -> u64 {
        self.divide(n).1
    }
}

/// Divides `first .. first + count` at the multiples of `size` into pieces: (index of the multiple, first offset from it, length).
pub(crate) fn pieces_by_divisor(first: u64, count: u64, size: Divisor) -> impl Iterator<Item = (u64, u64, u64)> {
    let (mut index, mut offset) = size.divide(first);
    let mut left = count.min(u64::MAX - first);
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let length = (size.value - offset).min(left);
        let piece = (index, offset, length);
        (index, offset, left) = (index + 1, 0, left - length);
        Some(piece)
    })
}

const BUCKETS: u64 = 4096;

/// The first stretch of each bucket of numbers.
#[derive(Clone, Debug)]
pub struct StretchIndex {
    firsts: Arc<[u16]>,
    shift: u32,
}

impl StretchIndex {
    /// An index of `count` stretches (1 to 65,536) of the numbers up to `end`. `ended_at` returns how many end at or before a number.
    pub fn new(end: u64, count: usize, ended_at: impl Fn(u64) -> usize) -> StretchIndex {
        assert!((1..=1 << 16).contains(&count), "{count} stretches");
        let shift = (0..).find(|shift| (end >> shift) < BUCKETS).unwrap_or(0);
        // One more than the numbers need, because the search in a bucket ends at the first stretch of the next bucket.
        let buckets = 0..=(end >> shift) + 1;
        StretchIndex { firsts: buckets.map(|bucket| ended_at(bucket << shift).min(count - 1) as u16).collect(), shift }
    }

    /// The index in `stretches` of the one that contains `at`; the last for numbers beyond.
    #[inline]
    pub fn find<T>(&self, stretches: &[T], at: u64, ends_before: impl Fn(&T) -> bool) -> usize {
        let last_bucket = self.firsts.len() - 2;
        let bucket = ((at >> self.shift) as usize).min(last_bucket);
        let (first, last) = (self.firsts[bucket] as usize, self.firsts[bucket + 1] as usize);
        if first == last {
            return first;
        }
        first + stretches[first..last].partition_point(ends_before)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn division_by_reciprocal_is_exact(n in any::<u64>(), d in 1..=u64::MAX, small in 1u64..1 << 24) {
            for d in [d, small, u64::MAX, 1] {
                for n in [n, n >> 20, u64::MAX, n - n % d, (n - n % d).saturating_sub(1)] {
                    prop_assert_eq!(Divisor::new(d).divide(n), (n / d, n % d));
                }
            }
        }
    }
}
