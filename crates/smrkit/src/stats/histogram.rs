//! Distribution of latencies, on the crate `hdrhistogram`: percentiles by nearest rank, at most 0.01 %
//! off; count, mean and maximum exact.

use hdrhistogram::Histogram;

use super::outcome::{Histograms, Latencies, Latency};
use crate::request::Op;

/// Latencies of reads, writes, and the other requests.
pub struct LatencyCounts {
    read: Counts,
    write: Counts,
    /// Flushes and discards, which many runs have none of.
    other: Option<Counts>,
}

struct Counts {
    /// How many latencies have each place (see [`place`]).
    counts: Vec<u64>,
    /// Latencies that are not counted yet. The counts are larger than the processor's caches: many at once, whose places are
    /// fetched together, take a fraction of the time.
    pending: Vec<u64>,
    sum_ns: u128,
    max_ns: u64,
}

/// Four significant digits: values that differ by more than 0.01 % are told apart.
const DIGITS: u8 = 4;

/// The bits of a value that are told apart: 2^15 is the first power of two above twice 10^4, as in `hdrhistogram`.
const BITS: u32 = 15;

/// Latencies that are counted at once.
const PENDING: usize = 256;

/// The place of a value: its exponent and its first bits.
#[inline]
fn place(value: u64) -> usize {
    let shift = u64::BITS - BITS - (value | ((1 << BITS) - 1)).leading_zeros();
    ((shift as usize) << (BITS - 1)) + (value >> shift) as usize
}

/// The smallest value that has a place.
fn smallest(place: usize) -> u64 {
    let shift = (place >> (BITS - 1)).saturating_sub(1);
    ((place - (shift << (BITS - 1))) as u64) << shift
}

impl Counts {
    fn new() -> Counts {
        Counts { counts: Vec::new(), pending: Vec::new(), sum_ns: 0, max_ns: 0 }
    }

    #[inline]
    fn record(&mut self, latency_ns: u64) {
        self.sum_ns += u128::from(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
        self.pending.push(latency_ns);
        if self.pending.len() >= PENDING {
            self.settle();
        }
    }

    /// Counts all that is pending.
    #[inline(never)]
    fn settle(&mut self) {
        let most = place(self.max_ns);
        if most >= self.counts.len() {
            self.counts.resize(most + 1, 0);
        }
        for latency_ns in self.pending.drain(..) {
            self.counts[place(latency_ns)] += 1;
        }
    }

    /// Adds what `other`, which is settled, holds.
    fn add(&mut self, other: &Counts) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The distribution of what is settled.
    fn histogram(&self) -> Histogram<u64> {
        let most = self.max_ns.max(2);
        let mut histogram = Histogram::new_with_bounds(1, most, DIGITS).expect("bounds that the crate takes");
        for (place, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            histogram.record_n(smallest(place), count).expect("a value within the bounds");
        }
        histogram
    }

    fn summary(&self) -> Latency {
        let histogram = self.histogram();
        let count = histogram.len();
        if count == 0 {
            return Latency::default();
        }
        // The nearest rank is an integer; half a rank less keeps the crate's own rounding away from the next one.
        let at = |per_mille: u64| {
            let rank = nearest_rank(count, per_mille);
            histogram.value_at_quantile((rank as f64 - 0.5) / count as f64).min(self.max_ns)
        };
        Latency {
            count,
            mean: ((self.sum_ns + u128::from(count) / 2) / u128::from(count)) as u64,
            p50: at(500),
            p90: at(900),
            p95: at(950),
            p99: at(990),
            p99_5: at(995),
            p99_9: at(999),
            max: self.max_ns,
        }
    }

    /// Coarse steps of a thirty-second of a power of two, for drawing.
    fn steps(&self) -> Vec<(u64, u64)> {
        let mut steps: Vec<(u64, u64)> = Vec::new();
        for value in self.histogram().iter_recorded() {
            let upper = coarse(value.value_iterated_to()).min(self.max_ns.max(1));
            match steps.last_mut() {
                Some(last) if last.0 == upper => last.1 += value.count_at_value(),
                _ => steps.push((upper, value.count_at_value())),
            }
        }
        steps
    }
}

/// The rank, from 1, of the value that this share of `count` values does not exceed.
fn nearest_rank(count: u64, per_mille: u64) -> u64 {
    (u128::from(count) * u128::from(per_mille)).div_ceil(1000).max(1) as u64
}

/// The largest value of `ns`'s step; steps are at most a thirty-second of the value wide.
fn coarse(ns: u64) -> u64 {
    let shift = (64 - ns.leading_zeros()).saturating_sub(6);
    (ns >> shift) << shift | ((1 << shift) - 1)
}

impl Default for LatencyCounts {
    fn default() -> Self {
        LatencyCounts { read: Counts::new(), write: Counts::new(), other: None }
    }
}

impl LatencyCounts {
    /// Counts one request.
    #[inline]
    pub fn record(&mut self, op: Op, latency_ns: u64) {
        match op {
            Op::Read => self.read.record(latency_ns),
            Op::Write => self.write.record(latency_ns),
            Op::Flush | Op::Discard => self.other.get_or_insert_with(Counts::new).record(latency_ns),
        }
    }

    /// The summaries of all, reads and writes.
    pub fn summary(&mut self) -> Latencies {
        let mut all = Counts::new();
        for counts in [&mut self.read, &mut self.write].into_iter().chain(&mut self.other) {
            counts.settle();
            all.add(counts);
        }
        Latencies { all: all.summary(), read: self.read.summary(), write: self.write.summary() }
    }

    /// The distributions, coarse enough to draw.
    pub fn histograms(&mut self) -> Histograms {
        self.read.settle();
        self.write.settle();
        Histograms { read: self.read.steps(), write: self.write.steps() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn percentiles_are_nearest_rank_within_a_hundredth_of_a_percent(mut ns in prop::collection::vec(0u64..1 << 45, 1..400)) {
            let mut counts = LatencyCounts::default();
            ns.iter().for_each(|&n| counts.record(Op::Read, n));
            ns.sort_unstable();
            let ours = counts.summary().all;
            for (per_mille, ours) in [(500, ours.p50), (900, ours.p90), (995, ours.p99_5), (999, ours.p99_9)] {
                let not_above = |value: &&u64| ns.iter().filter(|other| other <= value).count() * 1000 >= ns.len() * per_mille;
                let exact = *ns.iter().find(not_above).unwrap();
                let near = ours.abs_diff(exact) as f64 <= exact as f64 * 1e-4 + 1.0;
                prop_assert!(near, "{per_mille} per mille: {ours} is not {exact}");
            }
            prop_assert_eq!((ours.max, ours.count), (ns[ns.len() - 1], ns.len() as u64));
            prop_assert_eq!(counts.histograms().read.iter().map(|s| s.1).sum::<u64>(), ns.len() as u64);
        }
    }

    #[test]
    fn places_are_those_of_the_crate() {
        let histogram = Histogram::<u64>::new_with_bounds(1, u64::MAX / 2, DIGITS).unwrap();
        for value in (0..60).flat_map(|bit| [1u64 << bit, (1 << bit) + 1, (1 << bit) * 2 - 1, (1 << bit) * 5 / 3]) {
            assert_eq!(smallest(place(value)), histogram.lowest_equivalent(value), "{value}");
            assert_eq!(place(smallest(place(value))), place(value), "{value}");
        }
        assert!((0..100_000).all(|at| place(smallest(at)) == at));
    }

    #[test]
    fn the_99_9th_percentile_of_a_thousand_is_the_second_largest() {
        let mut counts = LatencyCounts::default();
        (1..=1000).for_each(|n| counts.record(Op::Write, n));
        assert_eq!(counts.summary().write.p99_9, 999);
    }
}
