//! Distribution of latencies, on the crate `hdrhistogram`: percentiles by nearest rank, at most 0.01 %
//! off; count, mean and maximum exact.

use super::buckets::Buckets;
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
    buckets: Buckets,
    /// Latencies that are not in `buckets` yet.
    waiting: Vec<u64>,
    sum_ns: u128,
    max_ns: u64,
}

/// Four significant digits: values that differ by more than 0.01 % are told apart.
const DIGITS: u8 = 4;

/// So many are put into their buckets at once. The buckets lie too far apart for the processor's caches; it fetches several at
/// a time only if nothing else is done meanwhile.
const TOGETHER: usize = 32;

/// Room at the start, for latencies up to 17 s; longer ones make the histogram grow. Zeroing room for all of them would
/// take most of the time of a short run.
const NS_EXPECTED: u64 = 1 << 34;

impl Counts {
    fn new() -> Counts {
        let waiting = Vec::with_capacity(TOGETHER);
        Counts { buckets: Buckets::new(NS_EXPECTED, DIGITS), waiting, sum_ns: 0, max_ns: 0 }
    }

    #[inline]
    fn record(&mut self, latency_ns: u64) {
        if self.waiting.len() == TOGETHER {
            self.settle();
        }
        self.waiting.push(latency_ns);
        self.sum_ns += u128::from(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
    }

    #[inline(never)]
    fn settle(&mut self) {
        self.waiting.drain(..).for_each(|latency_ns| self.buckets.record(latency_ns));
    }

    /// Adds what another one has counted, which is settled.
    fn add(&mut self, other: &Counts) {
        self.buckets.add(&other.buckets);
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    fn summary(&self) -> Latency {
        let count = self.buckets.len();
        if count == 0 {
            return Latency::default();
        }
        // The nearest rank is an integer; half a rank less keeps the crate's own rounding away from the next one.
        let at = |per_mille: u64| {
            let rank = nearest_rank(count, per_mille);
            self.buckets.value_at_quantile((rank as f64 - 0.5) / count as f64).min(self.max_ns)
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
        self.buckets.for_each(|value, count| {
            let upper = coarse(value).min(self.max_ns.max(1));
            match steps.last_mut() {
                Some(last) if last.0 == upper => last.1 += count,
                _ => steps.push((upper, count)),
            }
        });
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

    fn settle(&mut self) {
        for counts in [&mut self.read, &mut self.write].into_iter().chain(&mut self.other) {
            counts.settle();
        }
    }

    /// The summaries of all, reads and writes.
    pub fn summary(&mut self) -> Latencies {
        self.settle();
        let mut all = Counts::new();
        for counts in [&self.read, &self.write].into_iter().chain(&self.other) {
            all.add(counts);
        }
        Latencies { all: all.summary(), read: self.read.summary(), write: self.write.summary() }
    }

    /// The distributions, coarse enough to draw.
    pub fn histograms(&mut self) -> Histograms {
        self.settle();
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
    fn the_99_9th_percentile_of_a_thousand_is_the_second_largest() {
        let mut counts = LatencyCounts::default();
        (1..=1000).for_each(|n| counts.record(Op::Write, n));
        assert_eq!(counts.summary().write.p99_9, 999);
    }
}
