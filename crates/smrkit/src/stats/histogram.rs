//! Distribution of latencies: percentiles by nearest rank, at most 0.01 % off; count, mean and maximum exact. The first latencies
//! are kept as they are: counters take hundreds of kilobytes, and an array has two sets for each drive.

use super::buckets::{Buckets, values_of};
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

/// Latencies of each operation, listed for a result.
#[derive(Default)]
pub struct LatencyLists {
    read: OpList,
    write: OpList,
    flush: OpList,
    discard: OpList,
}

/// Latencies of one operation, listed.
#[derive(Default)]
struct OpList {
    /// The largest latency of each bucket that holds any, ascending, and the number in it.
    values: Vec<(u64, u64)>,
    sum_ns: u128,
    max_ns: u64,
}

#[derive(Default)]
struct BucketCounts {
    /// All, as long as there are no counters.
    few: Vec<u64>,
    many: Option<Box<Buckets>>,
    sum_ns: u128,
    max_ns: u64,
}

/// More latencies than this are counted in buckets.
const FEW: usize = 8192;

impl BucketCounts {
    #[inline(always)]
    fn record(&mut self, latency_ns: u64) {
        self.sum_ns += u128::from(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
        match &mut self.many {
            Some(buckets) => buckets.record(latency_ns),
            None => self.keep(latency_ns),
        }
    }

    #[inline(never)]
    fn keep(&mut self, latency_ns: u64) {
        self.few.push(latency_ns);
        if self.few.len() > FEW {
            self.fill();
        }
    }

    /// Counts in buckets from now on.
    fn fill(&mut self) -> &mut Buckets {
        let mut buckets = self.many.take().unwrap_or_default();
        std::mem::take(&mut self.few).into_iter().for_each(|ns| buckets.record(ns));
        self.many.insert(buckets)
    }

    fn list(&self) -> OpList {
        let values = self.many.as_ref().map_or_else(|| values_of(&self.few), |buckets| buckets.values());
        OpList { values, sum_ns: self.sum_ns, max_ns: self.max_ns }
    }

    /// Adds what another one has counted, in its text.
    fn add(&mut self, text: &OpLatencies) -> Result<(), Error> {
        if text.buckets.is_empty() {
            return Ok(());
        }
        let buckets = self.fill();
        latency_buckets::read(&text.buckets, |ns, count| buckets.record_n(ns, count))?;
        self.sum_ns += text.sum_ns;
        self.max_ns = self.max_ns.max(text.max_ns);
        Ok(())
    }
}

impl OpList {
    fn text(&self) -> OpLatencies {
        let mut buckets = Writer::default();
        self.values.iter().for_each(|&(ns, count)| buckets.push(ns, count));
        OpLatencies { sum_ns: self.sum_ns, max_ns: self.max_ns, buckets: buckets.finish() }
    }

    /// Coarse steps of a thirty-second of a power of two, for drawing.
    fn steps(&self) -> Vec<(u64, u64)> {
        let mut steps: Vec<(u64, u64)> = Vec::new();
        for &(value, count) in &self.values {
            let upper = coarse(value).min(self.max_ns.max(1));
            match steps.last_mut() {
                Some(last) if last.0 == upper => last.1 = last.1.saturating_add(count),
                _ => steps.push((upper, count)),
            }
        }
        steps
    }
}

/// The summary of what several have counted together.
fn summary(of: &[&OpList]) -> Latency {
    let mut values: Vec<(u64, u64)> = of.iter().flat_map(|list| &list.values).copied().collect();
    // It consists of ascending runs, which are merged.
    values.sort();
    let count: u64 = values.iter().fold(0u64, |sum, value| sum.saturating_add(value.1));
    if count == 0 {
        return Latency::default();
    }
    let max = of.iter().map(|list| list.max_ns).max().unwrap_or(0);
    let sum_ns: u128 = of.iter().map(|list| list.sum_ns).sum();
    let (mut at, mut below) = (0, 0u64);
    // To be asked with rising shares.
    let mut percentile = |per_mille: u64| {
        let rank = nearest_rank(count, per_mille);
        while below.saturating_add(values[at].1) < rank {
            below += values[at].1;
            at += 1;
        }
        values[at].0.min(max)
    };
    Latency {
        count,
        mean: ((sum_ns + u128::from(count) / 2) / u128::from(count)) as u64,
        p50: percentile(500),
        p90: percentile(900),
        p95: percentile(950),
        p99: percentile(990),
        p99_5: percentile(995),
        p99_9: percentile(999),
        max,
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
        let counts = match op {
            Op::Read => &mut self.read,
            Op::Write => &mut self.write,
            Op::Flush => &mut self.flush,
            Op::Discard => &mut self.discard,
        };
        counts.record(latency_ns);
    }

    /// Adds what was counted elsewhere, from its fine buckets.
    pub fn add(&mut self, buckets: &LatencyBuckets) -> Result<(), Error> {
        let LatencyBuckets { read, write, flush, discard } = buckets;
        self.read.add(read)?;
        self.write.add(write)?;
        self.flush.add(flush)?;
        self.discard.add(discard)
    }

    /// All so far, listed.
    pub fn list(&self) -> LatencyLists {
        LatencyLists {
            read: self.read.list(),
            write: self.write.list(),
            flush: self.flush.list(),
            discard: self.discard.list(),
        }
    }
}

impl LatencyLists {
    /// The summaries of all, reads and writes.
    pub fn summary(&self) -> Latencies {
        Latencies {
            all: summary(&[&self.read, &self.write, &self.flush, &self.discard]),
            read: summary(&[&self.read]),
            write: summary(&[&self.write]),
        }
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
            let ours = counts.list().summary().all;
            for (per_mille, ours) in [(500, ours.p50), (900, ours.p90), (995, ours.p99_5), (999, ours.p99_9)] {
                let not_above = |value: &&u64| ns.iter().filter(|other| other <= value).count() * 1000 >= ns.len() * per_mille;
                let exact = *ns.iter().find(not_above).unwrap();
                let near = ours.abs_diff(exact) as f64 <= exact as f64 * 1e-4 + 1.0;
                prop_assert!(near, "{per_mille} per mille: {ours} is not {exact}");
            }
            prop_assert_eq!((ours.max, ours.count), (ns[ns.len() - 1], ns.len() as u64));
            prop_assert_eq!(counts.list().histograms().read.iter().map(|s| s.1).sum::<u64>(), ns.len() as u64);
        }
    }

    proptest! {
        #[test]
        fn latencies_kept_as_they_are_tell_the_same_as_counted_ones(ns in prop::collection::vec(0u64..1 << 26, 1..200)) {
            let mut pairs = [BucketCounts::default(), BucketCounts::default()];
            pairs[1].fill();
            ns.iter().for_each(|&n| pairs.iter_mut().for_each(|counts| counts.record(n)));
            let [few, many] = [pairs[0].list(), pairs[1].list()];
            let both = summary(&[&few, &many]);
            prop_assert!(pairs[0].many.is_none());
            prop_assert_eq!(summary(&[&few]), summary(&[&many]));
            prop_assert_eq!(few.steps(), many.steps());
            prop_assert_eq!((both.count, both.p50), (2 * ns.len() as u64, summary(&[&few]).p50));
            let mut again = BucketCounts::default();
            [few, many].iter().for_each(|list| again.add(&list.text()).unwrap());
            prop_assert_eq!(summary(&[&again.list()]), both);
        }
    }

    #[test]
    fn buckets_take_over_from_many_latencies() {
        let mut counts = BucketCounts::default();
        (0..=FEW as u64).for_each(|n| counts.record(n));
        assert_eq!((counts.few.len(), summary(&[&counts.list()]).count), (0, FEW as u64 + 1));
    }

    #[test]
    fn a_drive_without_commands_takes_no_room_for_latencies() {
        let counts = LatencyCounts::default();
        assert!(
            [counts.read, counts.write, counts.flush, counts.discard]
                .iter()
                .all(|c| c.many.is_none() && c.few.capacity() == 0)
        );
    }

    #[test]
    fn the_99_9th_percentile_of_a_thousand_is_the_second_largest() {
        let mut counts = LatencyCounts::default();
        (1..=1000).for_each(|n| counts.record(Op::Write, n));
        assert_eq!(counts.list().summary().write.p99_9, 999);
    }
}
