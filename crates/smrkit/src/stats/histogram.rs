//! Distribution of latencies, on the crate `hdrhistogram`: percentiles by nearest rank, at most 0.01 %
//! off; count, mean and maximum exact. The first latencies are kept as they are: a histogram takes megabytes, and an array has
//! two for each drive.

use std::borrow::Cow;

use super::buckets::Buckets;
use super::latency::{Histograms, Latencies, Latency};
use super::latency_buckets::{self, LatencyBuckets, OpLatencies, Writer};
use crate::error::Error;
use crate::request::Op;

/// Latencies of each operation.
#[derive(Default)]
pub struct LatencyCounts {
    read: BucketCounts,
    write: BucketCounts,
    flush: BucketCounts,
    discard: BucketCounts,
}

#[derive(Default)]
struct BucketCounts {
    /// All, as long as there is no histogram.
    few: Vec<u64>,
    many: Option<Box<Buckets>>,
    sum_ns: u128,
    max_ns: u64,
}

/// Four significant digits: values that differ by more than 0.01 % are told apart.
const DIGITS: u8 = 4;

/// More latencies than this are counted in a histogram: 64 KiB of them, against its 1.4 MB and more.
const FEW: usize = 8192;

/// Room at the start, at most, for latencies up to 17 s; longer ones make the histogram grow. Zeroing room for all of them
/// would take most of the time of a short run.
const NS_EXPECTED: u64 = 1 << 34;

fn room(longest_ns: u64) -> Buckets {
    Buckets::new(longest_ns.clamp(2, NS_EXPECTED), DIGITS)
}

impl BucketCounts {
    #[inline]
    fn record(&mut self, latency_ns: u64) {
        self.sum_ns += u128::from(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
        match &mut self.many {
            Some(histogram) => histogram.record(latency_ns),
            None => self.keep(latency_ns),
        }
    }

    fn keep(&mut self, latency_ns: u64) {
        self.few.push(latency_ns);
        if self.few.len() > FEW {
            self.fill();
        }
    }

    /// A histogram of all so far.
    fn histogram(&self) -> Cow<'_, Buckets> {
        match &self.many {
            Some(histogram) => Cow::Borrowed(histogram),
            None => {
                let mut histogram = room(self.max_ns);
                self.few.iter().for_each(|&ns| histogram.record(ns));
                Cow::Owned(histogram)
            }
        }
    }

    /// Counts in a histogram from now on.
    fn fill(&mut self) -> &mut Buckets {
        let mut histogram = self.many.take().unwrap_or_else(|| Box::new(room(self.max_ns)));
        self.few.iter().for_each(|&ns| histogram.record(ns));
        self.few = Vec::new();
        self.many.insert(histogram)
    }

    fn is_empty(&self) -> bool {
        self.few.is_empty() && self.many.is_none()
    }

    /// Adds what another one has counted.
    fn add(&mut self, other: &BucketCounts) {
        match &other.many {
            None => other.few.iter().for_each(|&ns| self.record(ns)),
            Some(histogram) => {
                self.fill().add(histogram);
                self.sum_ns += other.sum_ns;
                self.max_ns = self.max_ns.max(other.max_ns);
            }
        }
    }

    /// From their text.
    fn from_latencies(text: &OpLatencies) -> Result<BucketCounts, Error> {
        let mut histogram = room(text.max_ns);
        latency_buckets::read(&text.buckets, |ns, count| histogram.record_n(ns, count))?;
        let many = (histogram.len() > 0).then(|| Box::new(histogram));
        Ok(BucketCounts { few: Vec::new(), many, sum_ns: text.sum_ns, max_ns: text.max_ns })
    }

    fn text(&self) -> OpLatencies {
        let mut buckets = Writer::default();
        if !self.is_empty() {
            self.histogram().for_each(|ns, count| buckets.push(ns, count));
        }
        OpLatencies { sum_ns: self.sum_ns, max_ns: self.max_ns, buckets: buckets.finish() }
    }

    fn summary(&self) -> Latency {
        if self.is_empty() {
            return Latency::default();
        }
        let histogram = self.histogram();
        let count = histogram.len();
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
        if self.is_empty() {
            return steps;
        }
        self.histogram().for_each(|value, count| {
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

impl LatencyCounts {
    /// Counts one request.
    #[inline]
    pub fn record(&mut self, op: Op, latency_ns: u64) {
        match op {
            Op::Read => self.read.record(latency_ns),
            Op::Write => self.write.record(latency_ns),
            Op::Flush => self.flush.record(latency_ns),
            Op::Discard => self.discard.record(latency_ns),
        }
    }

    /// Adds what was counted elsewhere, from its fine buckets.
    pub fn add(&mut self, buckets: &LatencyBuckets) -> Result<(), Error> {
        let LatencyBuckets { read, write, flush, discard } = buckets;
        self.read.add(&BucketCounts::from_latencies(read)?);
        self.write.add(&BucketCounts::from_latencies(write)?);
        self.flush.add(&BucketCounts::from_latencies(flush)?);
        self.discard.add(&BucketCounts::from_latencies(discard)?);
        Ok(())
    }

    /// The summaries of all, reads and writes.
    pub fn summary(&self) -> Latencies {
        let mut all = BucketCounts::default();
        for counts in [&self.read, &self.write, &self.flush, &self.discard] {
            all.add(counts);
        }
        Latencies { all: all.summary(), read: self.read.summary(), write: self.write.summary() }
    }

    /// The fine buckets, as text.
    pub fn buckets(&self) -> LatencyBuckets {
        LatencyBuckets {
            read: self.read.text(),
            write: self.write.text(),
            flush: self.flush.text(),
            discard: self.discard.text(),
        }
    }

    /// The distributions, coarse enough to draw.
    pub fn histograms(&self) -> Histograms {
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

    proptest! {
        #[test]
        fn latencies_kept_as_they_are_tell_the_same_as_counted_ones(ns in prop::collection::vec(0u64..1 << 36, 1..200)) {
            let mut pairs = [BucketCounts::default(), BucketCounts::default()];
            pairs[1].fill();
            ns.iter().for_each(|&n| pairs.iter_mut().for_each(|counts| counts.record(n)));
            let mut both = BucketCounts::default();
            pairs.iter().for_each(|counts| both.add(counts));
            prop_assert!(pairs[0].many.is_none());
            prop_assert_eq!(pairs[0].summary(), pairs[1].summary());
            prop_assert_eq!(pairs[0].steps(), pairs[1].steps());
            prop_assert_eq!((both.summary().count, both.summary().p50), (2 * ns.len() as u64, pairs[0].summary().p50));
        }
    }

    #[test]
    fn a_histogram_takes_over_from_many_latencies() {
        let mut counts = BucketCounts::default();
        (0..=FEW as u64).for_each(|n| counts.record(n));
        assert_eq!((counts.few.len(), counts.summary().count), (0, FEW as u64 + 1));
    }

    #[test]
    fn a_drive_without_commands_takes_no_room_for_latencies() {
        let counts = LatencyCounts::default();
        assert!(
            [counts.read, counts.write, counts.flush, counts.discard]
                .iter()
                .all(|c| c.is_empty() && c.few.capacity() == 0)
        );
    }

    #[test]
    fn the_99_9th_percentile_of_a_thousand_is_the_second_largest() {
        let mut counts = LatencyCounts::default();
        (1..=1000).for_each(|n| counts.record(Op::Write, n));
        assert_eq!(counts.summary().write.p99_9, 999);
    }
}
