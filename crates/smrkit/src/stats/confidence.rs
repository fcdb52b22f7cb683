//! 95 % confidence intervals of a run's own values: how far another run of the same kind, with other requests, may differ.
//!
//! A request waits longer after one that waited long, so that requests are no independent samples, and an interval computed as if they were
//! is much too narrow. Means of long blocks of consecutive requests are nearly independent (the method of batch means). Every value here
//! is a ratio of two sums over the requests: time per request, bytes per second, sectors written per sector of the host, and the share of
//! requests up to a percentile. One estimate serves them all.
//!
//! While the run goes, the counters are noted after equal numbers of requests. When there are too many notes, every second is dropped.

use serde::{Deserialize, Serialize};

use super::counts::HostTotals;
use super::latency::{Distribution, LatencyCounts, PERCENTILES, nearest_rank, step as step_of};
use crate::record;
use crate::record::ColumnType;
use crate::request::Op;
use crate::units::Nanos;

/// The most blocks; then pairs are joined.
const BLOCKS_MAX: usize = 64;
/// The least: with fewer, neither their spread nor their correlation can be told.
const BLOCKS_MIN: usize = 8;
/// Requests of the first blocks.
const FIRST_LENGTH: u64 = 32;
/// Correlation between neighbouring blocks, in its standard errors, from which blocks are joined in pairs. One in ten runs whose blocks are
/// independent exceeds it.
const CORRELATED: f64 = 1.28;
/// Independent requests that would tell as much as the run's: fewer are too few, because then the blocks are not nearly independent either.
const EFFECTIVE_MIN: f64 = 100.0;
/// Independent requests beyond a percentile.
const BEYOND_MIN: f64 = 10.0;

record! {
    /// 95 % confidence intervals of values of the run.
    #[derive(Copy)]
    pub struct Confidence {
        /// Number of blocks of consecutive requests.
        pub blocks: u64,
        /// Number of requests in a block.
        pub block_requests: u64,
        /// Of `latency_ns.all`.
        pub all: LatencyConfidence,
        /// Of `latency_ns.read`.
        pub read: LatencyConfidence,
        /// Of `latency_ns.write`.
        pub write: LatencyConfidence,
        /// Of `host_bytes_per_s`.
        pub host_bytes_per_s: Interval,
        /// Of `write_amplification`.
        pub write_amplification: Interval,
    }
}

record! {
    /// Intervals of latencies, in nanoseconds.
    #[derive(Copy)]
    pub struct LatencyConfidence {
        /// Of the mean.
        pub mean: Interval,
        /// Of the median.
        pub p50: Interval,
        /// Of the 90th percentile.
        pub p90: Interval,
        /// Of the 95th percentile.
        pub p95: Interval,
        /// Of the 99th percentile.
        pub p99: Interval,
        /// Of the 99.5th percentile.
        pub p99_5: Interval,
        /// Of the 99.9th percentile.
        pub p99_9: Interval,
    }
}

record! {
    /// An interval, in the unit of its value.
    #[derive(Copy)]
    pub struct Interval {
        /// Its lower end; null if it is not known.
        pub low: Option<f64>,
        /// Its upper end; null if it is not known.
        pub high: Option<f64>,
        /// Why the ends are not known: `too-few-requests` or `too-correlated`; absent if they are, or if there is no
        /// such value.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub unknown: Option<Unknown>,
    }
}

/// Why an interval is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unknown {
    /// Even independent requests would be too few.
    TooFewRequests,
    /// Requests depend on each other for too long, or the run drifts.
    TooCorrelated,
}

impl Unknown {
    /// The reason in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Unknown::TooFewRequests => "too-few-requests",
            Unknown::TooCorrelated => "too-correlated",
        }
    }
}

impl ColumnType for Unknown {
    fn python() -> String {
        "str".into()
    }
}

impl From<Unknown> for Interval {
    fn from(why: Unknown) -> Interval {
        Interval { unknown: Some(why), ..Interval::default() }
    }
}

impl Interval {
    fn new(low: f64, high: f64) -> Interval {
        Interval { low: Some(low.max(0.0)), high: Some(high), unknown: None }
    }
}

/// Counters after some block, from the beginning of counting.
#[derive(Default)]
pub(super) struct Mark {
    /// Requests: all, reads, writes.
    requests: [u64; 3],
    /// Sums of their latencies.
    sums_ns: [u128; 3],
    host_bytes: u64,
    written_sectors: u64,
    physical_sectors: u64,
    elapsed: Nanos,
    /// Requests in each step of latency, by operation. 32 bits may overflow, but the difference of two marks doesn't.
    steps: [Vec<u32>; 4],
}

impl Mark {
    pub fn new(totals: &HostTotals, latency: &mut LatencyCounts, elapsed: Nanos, physical_sectors: u64) -> Mark {
        let sums_ns = latency.sums_ns();
        Mark {
            requests: [totals.requests, totals.commands.host_read, totals.commands.host_write],
            sums_ns: [sums_ns.iter().sum(), sums_ns[Op::Read as usize], sums_ns[Op::Write as usize]],
            host_bytes: totals.host_bytes(),
            written_sectors: totals.written_sectors,
            physical_sectors,
            elapsed,
            steps: latency.steps(),
        }
    }
}

/// Blocks of consecutive requests.
pub(super) struct Blocks {
    /// Requests in a block.
    length: u64,
    /// The number of requests at which the current block ends, so that [`Blocks::mark`] is due.
    pub end: u64,
    marks: Vec<Mark>,
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks { length: FIRST_LENGTH, end: FIRST_LENGTH, marks: Vec::new() }
    }
}

impl Blocks {
    /// Ends a block with the counters at its end.
    #[cold]
    pub fn mark(&mut self, mark: Mark) {
        self.marks.push(mark);
        if self.marks.len() == BLOCKS_MAX {
            // Marks hold sums from the beginning, so that without every second one the blocks are twice as long.
            let mut is_end = true;
            self.marks.retain(|_| {
                is_end = !is_end;
                is_end
            });
            self.length *= 2;
        }
        self.end += self.length;
    }

    /// The intervals of a run with the counters `whole` and the latencies `of` all requests, reads and writes.
    pub fn confidence(&self, whole: &Mark, of: &[Distribution; 3]) -> Confidence {
        let [all, read, write] = [0, 1, 2].map(|group| self.latencies(group, whole, &of[group]));
        let rate = |mark: &Mark| (mark.host_bytes as f64 * 1e9, mark.elapsed.0 as f64);
        let amplification = |mark: &Mark| (mark.physical_sectors as f64, mark.written_sectors as f64);
        Confidence {
            blocks: self.marks.len() as u64,
            block_requests: self.length,
            all,
            read,
            write,
            host_bytes_per_s: self.ratio(rate, whole),
            write_amplification: self.ratio(amplification, whole),
        }
    }

    /// Two sums over each block.
    fn samples(&self, of: impl Fn(&Mark) -> (f64, f64)) -> Vec<(f64, f64)> {
        let mut before = (0.0, 0.0);
        let difference = |mark: &Mark| {
            let now = of(mark);
            let (above, below) = (now.0 - before.0, now.1 - before.1);
            before = now;
            (above, below)
        };
        self.marks.iter().map(difference).collect()
    }

    /// The interval of the ratio of two sums.
    fn ratio(&self, of: impl Fn(&Mark) -> (f64, f64), whole: &Mark) -> Interval {
        match of(whole) {
            // A drive that was measured from outside shows no writes to its platters.
            (_, 0.0) | (0.0, _) => Interval::default(),
            (above, below) => match Estimate::new(self.samples(of)) {
                Ok(estimate) => estimate.around(above / below),
                Err(why) => why.into(),
            },
        }
    }

    /// The intervals of latencies of all requests, of reads or of writes.
    fn latencies(&self, group: usize, whole: &Mark, of: &Distribution) -> LatencyConfidence {
        if of.count() == 0 {
            return LatencyConfidence::default();
        }
        let samples = self.samples(|mark| (mark.sums_ns[group] as f64, mark.requests[group] as f64));
        // Few requests of a kind may all lie in a few blocks, which then look alike.
        let is_few = (of.count() as f64) < EFFECTIVE_MIN || telling(&samples) < BLOCKS_MIN;
        let up_to = self.up_to(group, whole);
        let percentile = |per_mille| match is_few {
            true => Unknown::TooFewRequests.into(),
            false => self.percentile(per_mille, group, of, &up_to).unwrap_or_else(Interval::from),
        };
        let [p50, p90, p95, p99, p99_5, p99_9] = PERCENTILES.map(percentile);
        let mean = match Estimate::new(samples) {
            _ if is_few => Unknown::TooFewRequests.into(),
            // Independent requests would have this variance of the mean if they were so few.
            Ok(estimate) if estimate.error.powi(2) * EFFECTIVE_MIN > of.variance() => Unknown::TooCorrelated.into(),
            Ok(estimate) => estimate.around(of.mean()),
            Err(why) => why.into(),
        };
        LatencyConfidence { mean, p50, p90, p95, p99, p99_5, p99_9 }
    }

    /// For each block, its number of requests up to each step of latency.
    fn up_to(&self, group: usize, whole: &Mark) -> Vec<Vec<u64>> {
        let ops = [0..4, Op::Read as usize..1, Op::Write as usize..2][group].clone();
        let length = whole.steps[ops.clone()].iter().map(Vec::len).max().unwrap_or(0);
        let first = Mark::default();
        let before = std::iter::once(&first).chain(&self.marks);
        let block = |(before, mark): (&Mark, &Mark)| {
            let mut counts = vec![0u64; length];
            for op in ops.clone() {
                let (old, new) = (&before.steps[op], &mark.steps[op]);
                counts.iter_mut().zip(new).for_each(|(count, new)| *count += u64::from(*new));
                // Steps that a mark lacks were empty then. A count that has wrapped around since does so again here.
                counts.iter_mut().zip(old).for_each(|(count, old)| *count = count.wrapping_sub(u64::from(*old)));
            }
            let mut sum = 0;
            counts.iter_mut().for_each(|count| {
                sum += *count & u64::from(u32::MAX);
                *count = sum;
            });
            counts
        };
        before.zip(&self.marks).map(block).collect()
    }

    /// The interval of a percentile. Its ends are percentiles themselves: those that the share of requests up to it may have in other runs.
    ///
    /// 1. Find the latency step up to which the share of requests is nearest to that of the percentile.
    /// 2. Estimate from the blocks how exactly this run tells that share.
    /// 3. Express the error as a number of independent requests.
    /// 4. Apply that number to the share of the percentile, and look up both ends.
    fn percentile(
        &self,
        per_mille: u64,
        group: usize,
        of: &Distribution,
        up_to: &[Vec<u64>],
    ) -> Result<Interval, Unknown> {
        let (count, share) = (of.count(), per_mille as f64 / 1000.0);
        let smaller_share = share.min(1.0 - share);
        if count as f64 * smaller_share < BEYOND_MIN {
            return Err(Unknown::TooFewRequests);
        }
        // 1.
        let at = step_of(of.at_rank(nearest_rank(count, per_mille)));
        let samples = self.samples(|mark| (0.0, mark.requests[group] as f64));
        let total: f64 = samples.iter().map(|sample| sample.1).sum();
        let share_up_to = |step: usize| up_to.iter().map(|block| block[step]).sum::<u64>() as f64 / total;
        // Of the ends of the step and of the one before, the one whose share is nearest to that of the percentile.
        let ends = [at.checked_sub(1), Some(at)].into_iter().flatten().map(|step| (share_up_to(step), step));
        let divides = ends.filter(|(share, _)| *share > 0.0 && *share < 1.0);
        let nearest = divides.min_by(|(a, _), (b, _)| (a - share).abs().total_cmp(&(b - share).abs()));
        let Some((step_share, step)) = nearest else {
            let ends = [of.at_rank(1), of.at_rank(count)];
            return match step_of(ends[0]) == step_of(ends[1]) {
                // All latencies are within 3 %.
                true => Ok(Interval::new(ends[0] as f64, ends[1] as f64)),
                // Only requests after the last whole block are so long: the run drifts.
                false => Err(Unknown::TooCorrelated),
            };
        };
        // 2.
        let samples = samples.iter().zip(up_to).map(|(sample, block)| (block[step] as f64, sample.1)).collect();
        let estimate = Estimate::new(samples)?;
        // 3. Independent requests that would tell this share as exactly. Those beyond the percentile may come in clusters.
        let effective = step_share * (1.0 - step_share) / estimate.error.powi(2) * (count as f64 / total);
        if effective < EFFECTIVE_MIN || effective * smaller_share < BEYOND_MIN {
            return Err(Unknown::TooCorrelated);
        }
        // 4.
        let half = estimate.quantile * (share * (1.0 - share) / effective).sqrt();
        let end = |share: f64| of.at_rank(((count as f64 * share).ceil() as u64).clamp(1, count)) as f64;
        Ok(Interval::new(end(share - half), end(share + half)))
    }
}

/// The number of blocks that tell something of a ratio of two sums: requests of its kind are in them.
fn telling(samples: &[(f64, f64)]) -> usize {
    samples.iter().filter(|sample| sample.1 > 0.0).count()
}

/// What blocks tell about a ratio of two sums.
struct Estimate {
    /// The ratio's standard error.
    error: f64,
    /// Half a 95 % interval in standard errors, by Student's t.
    quantile: f64,
    /// The skewness of the blocks' mean, divided by 6.
    skew: f64,
}

impl Estimate {
    /// The estimate from the two sums of each block.
    fn new(mut samples: Vec<(f64, f64)>) -> Result<Estimate, Unknown> {
        if telling(&samples) < BLOCKS_MIN {
            return Err(Unknown::TooFewRequests);
        }
        while telling(&samples) >= BLOCKS_MIN {
            let n = samples.len() as f64;
            let sum = samples.iter().fold((0.0, 0.0), |sum, sample| (sum.0 + sample.0, sum.1 + sample.1));
            let ratio = sum.0 / sum.1;
            // By how much a block exceeds the ratio. To first order, the ratio's error is the mean of these.
            let excess: Vec<f64> = samples.iter().map(|sample| sample.0 - ratio * sample.1).collect();
            let moment_sum = |exponent: i32| excess.iter().map(|each| each.powi(exponent)).sum::<f64>();
            let squares = moment_sum(2);
            if squares == 0.0 {
                return Ok(Estimate { error: 0.0, quantile: 0.0, skew: 0.0 });
            }
            let correlation = excess.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / squares;
            if correlation < CORRELATED / n.sqrt() {
                // A correlation too small to be noticed still widens the interval.
                let variance = squares / (n - 1.0) * (1.0 + 2.0 * correlation).max(1.0);
                let third_moment = moment_sum(3) * n / ((n - 1.0) * (n - 2.0));
                let deviation = (squares / (n - 1.0)).sqrt();
                return Ok(Estimate {
                    error: (variance * n).sqrt() / sum.1,
                    quantile: students_t(telling(&samples)),
                    skew: third_moment / (deviation * deviation * deviation) / (6.0 * n.sqrt()),
                });
            }
            // Neighbouring blocks are correlated: join them in pairs, and try again.
            samples = samples.chunks_exact(2).map(|two| (two[0].0 + two[1].0, two[0].1 + two[1].1)).collect();
        }
        Err(Unknown::TooCorrelated)
    }

    /// The interval around the ratio of the whole run.
    fn around(&self, ratio: f64) -> Interval {
        // Rare long latencies make the mean's distribution skew; R. Willink, "A confidence interval and test for the mean of an asymmetric
        // distribution" (2005), moves both ends accordingly.
        let moved = |t: f64| match self.skew {
            skew if skew.abs() < 1e-6 => t,
            // The system's cube root has other last digits than a browser's.
            skew => (libm::cbrt(1.0 + 6.0 * skew * (t - skew)) - 1.0) / (2.0 * skew),
        };
        Interval::new(ratio - moved(self.quantile) * self.error, ratio - moved(-self.quantile) * self.error)
    }
}

/// Half a 95 % confidence interval of the mean of `values` values, in standard errors.
pub fn students_t(values: usize) -> f64 {
    const TO_THIRTY: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    match values.checked_sub(2) {
        None => 0.0,
        // Beyond the table, an approximation whose error is below 0.001.
        Some(at) => TO_THIRTY.get(at).copied().unwrap_or(1.96 + 2.46 / (at + 1) as f64),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::counts::{HostCounts, HostSide, Times};
    use super::super::timeline::{Reading, TimelineBuilder};
    use super::*;
    use crate::random::splitmix;
    use crate::request::Request;
    use crate::units::Lba;

    const REQUESTS: usize = 16_000;

    /// Draws from a seed.
    struct Draws(u64);

    impl Draws {
        /// Uniform, above 0.
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(1);
            ((splitmix(splitmix(self.0)) >> 11) + 1) as f64 / (1u64 << 53) as f64
        }

        fn normal(&mut self) -> f64 {
            (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
        }
    }

    /// Latencies in milliseconds, each correlated with the one before: a process of first order (AR(1)) with mean 10 and deviation 1.
    fn autoregressive(seed: u64, count: usize, correlation: f64) -> impl Iterator<Item = f64> {
        let mut draws = Draws(seed);
        let mut state = draws.normal();
        let fresh = (1.0 - correlation * correlation).sqrt();
        (0..count).map(move |_| {
            state = correlation * state + fresh * draws.normal();
            10.0 + state
        })
    }

    /// Times in a queue that a disk serves in 1 ms each, and that is busy for 70 % of the time (M/D/1).
    fn queue(seed: u64, count: usize) -> impl Iterator<Item = f64> {
        let (mut draws, mut wait_ms) = (Draws(seed), 0.0f64);
        let sojourns_ms = std::iter::repeat_with(move || {
            let until_next_ms = -draws.uniform().ln() / 0.7;
            let sojourn_ms = wait_ms + 1.0;
            wait_ms = (sojourn_ms - until_next_ms).max(0.0);
            sojourn_ms
        });
        // Later requests don't know that the queue was empty at first.
        sojourns_ms.skip(1000).take(count)
    }

    /// A run whose writes of 8 sectors take these times, one after another.
    fn run(latencies_ms: impl Iterator<Item = f64>) -> HostSide {
        run_mixed(latencies_ms.map(|ms| (Op::Write, ms)))
    }

    /// The same of reads and writes. For each sector and millisecond it writes a sector to the platters.
    fn run_mixed(latencies_ms: impl Iterator<Item = (Op, f64)>) -> HostSide {
        let mut counts = HostCounts::new(TimelineBuilder::default()).in_blocks();
        let (mut now, written) = (Nanos::ZERO, Cell::new(0));
        let reading = || Reading { written_sectors: written.get(), ..Reading::default() };
        for (op, ms) in latencies_ms {
            let request = Request { time: Nanos::ZERO, lba: Lba(0), sectors: 8, op, volume: 0, source: 0 };
            let end = now + Nanos((ms * 1e6) as u64);
            written.set(written.get() + (8.0 * ms).round() as u64);
            counts.count(&request, &Times { arrival: now, start: now, end }, reading);
            now = end;
        }
        counts.finish(&reading())
    }

    /// Of how many thousandths of the known intervals hold the truth.
    #[derive(Debug)]
    struct Coverage {
        mean: u64,
        p50: u64,
        p95: u64,
        rate: u64,
        amplification: u64,
        /// The mean's interval, if requests were independent.
        naive: u64,
    }

    fn coverage<I: Iterator<Item = f64>>(of: impl Fn(u64) -> I, mean_ms: f64, percentiles_ms: [f64; 2]) -> Coverage {
        let mut covered = [(0, 0); 6];
        for experiment in 1..=1000 {
            let host = run(of(experiment << 32));
            let found = host.confidence.unwrap();
            let [all, ..] = host.latency.distributions();
            let half = 1.96 * (all.variance() / all.count() as f64).sqrt();
            let intervals = [
                (found.write.mean, 1e6 * mean_ms),
                (found.all.p50, 1e6 * percentiles_ms[0]),
                (found.all.p95, 1e6 * percentiles_ms[1]),
                (found.host_bytes_per_s, 4096e3 / mean_ms),
                (found.write_amplification, mean_ms),
                (Interval::new(all.mean() - half, all.mean() + half), 1e6 * mean_ms),
            ];
            for ((known, held), (interval, truth)) in covered.iter_mut().zip(intervals) {
                let Some((low, high)) = interval.low.zip(interval.high) else { continue };
                *known += 1;
                *held += u64::from(low <= truth && truth <= high);
            }
        }
        assert!(covered.iter().all(|(known, _)| *known > 950), "long enough to tell: {covered:?}");
        let [mean, p50, p95, rate, amplification, naive] = covered.map(|(known, held)| 1000 * held / known);
        Coverage { mean, p50, p95, rate, amplification, naive }
    }

    #[test]
    fn of_a_thousand_intervals_950_hold_the_truth() {
        let is_near = |count: u64| (930..=970).contains(&count);
        // An M/D/1 queue's mean wait is ρ / (2 (1 - ρ)) services; its percentiles come from a run of four million.
        let long = run(queue(7, 4_000_000)).latency_ns.all;
        let percentiles_ms = [long.p50, long.p95].map(|ns| ns as f64 / 1e6);
        let queued = coverage(|seed| queue(seed, REQUESTS), 1.0 + 0.7 / 0.6, percentiles_ms);
        // Quantiles of the normal distribution.
        let normal_ms = [10.0, 11.644854];
        let correlated = coverage(|seed| autoregressive(seed, REQUESTS, 0.8), 10.0, normal_ms);
        let independent = coverage(|seed| autoregressive(seed, REQUESTS, 0.0), 10.0, normal_ms);
        for (of, covered) in [("queue", queued), ("AR(1)", correlated)] {
            let Coverage { mean, p50, p95, rate, amplification, naive } = covered;
            assert!([mean, p50, p95, rate, amplification].into_iter().all(is_near), "{of}: {covered:?}");
            assert!(naive < 600, "{of}: {covered:?}");
        }
        assert!(is_near(independent.mean) && is_near(independent.naive), "{independent:?}");
    }

    #[test]
    fn what_a_run_can_not_tell_has_its_reason() {
        let of = |latencies: &mut dyn Iterator<Item = f64>| run(latencies).confidence.unwrap();
        let few = of(&mut autoregressive(1, 200, 0.0));
        assert_eq!((few.all.mean.unknown, few.host_bytes_per_s.low), (Some(Unknown::TooFewRequests), None));
        let some = of(&mut autoregressive(1, 5_000, 0.0));
        assert_eq!((some.all.p99.unknown, some.all.p99_9.unknown), (None, Some(Unknown::TooFewRequests)));
        assert_eq!(some.read.mean, Interval::default(), "no reads");
        let drifting = of(&mut (0..50_000).map(|n| 1.0 + n as f64 / 1e4));
        assert_eq!(drifting.all.mean.unknown, Some(Unknown::TooCorrelated));
        assert_eq!(drifting.all.p50.unknown, Some(Unknown::TooCorrelated));
        // Ten stalls of two hundred requests tell no more than ten requests would.
        let mut draws = Draws(3);
        let mut stalled = 0u32;
        let clustered = of(&mut (0..100_000).map(|_| {
            stalled = if stalled == 0 && draws.uniform() < 1e-4 { 200 } else { stalled.saturating_sub(1) };
            if stalled > 0 { 100.0 } else { 1.0 + draws.uniform() }
        }));
        assert_eq!(clustered.all.p99.unknown, Some(Unknown::TooCorrelated));
        let alike = of(&mut std::iter::repeat_n(2.0, 5_000)).all;
        assert_eq!((alike.mean.low, alike.p99.low, alike.p99.high), (Some(2e6), Some(2e6), Some(2e6)));
    }

    #[test]
    fn requests_of_a_kind_are_too_few_if_they_are_less_than_100_or_in_less_than_8_blocks() {
        let reads = |is_read: &dyn Fn(usize) -> bool| {
            let ops = (0..REQUESTS).map(|n| if is_read(n) { Op::Read } else { Op::Write });
            run_mixed(ops.zip(autoregressive(1, REQUESTS, 0.0))).confidence.unwrap().read
        };
        let why = |of: LatencyConfidence| [of.mean, of.p50, of.p90].map(|interval| interval.unknown);
        assert_eq!(why(reads(&|n| n % 200 == 0)), [Some(Unknown::TooFewRequests); 3], "80 reads");
        assert_eq!(why(reads(&|n| (1000..1400).contains(&n))), [Some(Unknown::TooFewRequests); 3], "in three blocks");
        assert_eq!(why(reads(&|n| n >= REQUESTS - 120)), [Some(Unknown::TooFewRequests); 3], "after the last block");
        assert_eq!(why(reads(&|n| n % 80 == 0)), [None; 3], "200 reads");
    }

    #[test]
    fn blocks_grow_with_the_run_and_hold_nearly_all_of_it() {
        for count in [300, 2047, 2048, 100_000, 1_000_000] {
            let Confidence { blocks, block_requests, .. } = run(std::iter::repeat_n(1.0, count)).confidence.unwrap();
            assert!(blocks < BLOCKS_MAX as u64 && (blocks + 1) * block_requests > count as u64, "{blocks} of {count}");
            assert!(blocks >= 32 || block_requests == FIRST_LENGTH, "{blocks} of {count}");
        }
    }
}
