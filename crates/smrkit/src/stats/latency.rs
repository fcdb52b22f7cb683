//! Latencies: counts in fine buckets, their text form, summaries and coarse distributions.
//!
//! Up to 2^15 ns each value has a bucket of its own; above that, each power of two has 2^14 buckets. An outcome has the occupied buckets as
//! text, so that merges are exact. A hand-written histogram takes 15 instructions for a request, where a library's took 77, and a tenth of
//! the space in a result.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::record;
use crate::request::Op;

record! {
    /// Latencies of requests.
    #[derive(Copy, Eq)]
    pub struct Latencies {
        /// All requests, including flushes and discards.
        pub all: Latency,
        /// Reads.
        pub read: Latency,
        /// Writes.
        pub write: Latency,
    }
}

record! {
    /// A distribution in nanoseconds. Percentiles are nearest-rank, at most 0.01 % off; count, mean and maximum are exact.
    #[derive(Copy, Eq)]
    pub struct Latency {
        /// Number of requests.
        pub count: u64,
        /// Mean.
        pub mean: u64,
        /// Median.
        pub p50: u64,
        /// The latency that 90 % don't exceed.
        pub p90: u64,
        /// The latency that 95 % don't exceed.
        pub p95: u64,
        /// The latency that 99 % don't exceed.
        pub p99: u64,
        /// The latency that 99.5 % don't exceed.
        pub p99_5: u64,
        /// The latency that 99.9 % don't exceed.
        pub p99_9: u64,
        /// Longest latency.
        pub max: u64,
    }
}

record! {
    /// Distributions of latencies in steps of at most 3 %, coarse enough to draw.
    #[derive(Eq)]
    pub struct Histograms {
        /// For reads, pairs of an upper bound of the latency and the number of requests, in ascending order.
        pub read: Vec<(u64, u64)>,
        /// The same pairs for writes.
        pub write: Vec<(u64, u64)>,
    }
}

record! {
    /// Latencies of each operation in fine buckets.
    #[derive(Eq)]
    pub struct LatencyBuckets {
        /// Reads.
        pub read: OpLatencies,
        /// Writes.
        pub write: OpLatencies,
        /// Flushes.
        pub flush: OpLatencies,
        /// Discards.
        pub discard: OpLatencies,
    }
}

record! {
    /// Latencies of one operation, in the detail that an exact merge of outcomes needs.
    #[derive(Eq)]
    pub struct OpLatencies {
        /// Exact sum of the latencies.
        #[serde(with = "wide")]
        pub sum_ns: u128,
        /// Longest latency.
        pub max_ns: u64,
        /// Occupied buckets and their counts as [text](#buckets-as-text).
        pub buckets: String,
    }
}

/// Sums beyond 64 bits in JSON: a number while it fits, else its digits as text, because readers round longer numbers.
pub(super) mod wide {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    /// Writes a sum; for `#[serde(with = …)]`.
    pub fn serialize<S: Serializer>(sum: &u128, to: S) -> Result<S::Ok, S::Error> {
        match u64::try_from(*sum) {
            Ok(number) => number.serialize(to),
            Err(_) => sum.to_string().serialize(to),
        }
    }

    /// Reads a sum; for `#[serde(with = …)]`.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u128, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Digits(String),
        }
        match Written::deserialize(from)? {
            Written::Number(number) => Ok(number.into()),
            Written::Digits(digits) => digits.parse().map_err(de::Error::custom),
        }
    }
}

/// Number of buckets between two powers of two, as a power of two.
const OCTAVE_BITS: u32 = 14;

/// The same of the steps of a coarse distribution, which are at most a thirty-second of the latency wide.
const STEP_BITS: u32 = 5;

/// The percentiles of an outcome, in thousandths.
pub(super) const PERCENTILES: [u64; 6] = [500, 900, 950, 990, 995, 999];

/// The last bucket, with latencies up to `u64::MAX`.
const LAST: u64 = index(u64::MAX);

/// The number of a latency's bucket.
#[inline]
const fn index(ns: u64) -> u64 {
    numbered::<OCTAVE_BITS>(ns)
}

/// The number of a latency's interval, if there are 2^`BITS` between two powers of two.
#[inline]
const fn numbered<const BITS: u32>(ns: u64) -> u64 {
    let shift = (64 - ns.leading_zeros()).saturating_sub(BITS + 1);
    ((shift as u64) << BITS) + (ns >> shift)
}

/// The largest latency of a bucket.
fn largest(index: u64) -> u64 {
    let shift = (index >> OCTAVE_BITS).saturating_sub(1);
    (index - (shift << OCTAVE_BITS)) << shift | ((1 << shift) - 1)
}

/// The number of the step that a latency is in.
#[inline]
pub(super) fn step(ns: u64) -> usize {
    numbered::<STEP_BITS>(ns) as usize
}

/// Latencies of one operation. The latest wait in a list and are counted many at a time, because counters are seldom in the processor's
/// caches. Drives with few commands need no counters at all.
#[derive(Default)]
struct BucketCounts {
    waiting: Vec<u64>,
    /// Latencies in each coarse step, of all but those that wait from the index `stepped` on. Few enough for the processor's caches, and yet
    /// faster to count many at a time than one by one.
    steps: Vec<u32>,
    stepped: usize,
    /// 32 bits, because an array has two such lists for each drive, and they should fit in the processor's caches.
    counts: Vec<u32>,
    /// The upper bits of counts that exceed 32 bits, by bucket.
    overflown: BTreeMap<u64, u64>,
    sum_ns: u128,
    max_ns: u64,
}

/// How many latencies wait until they are counted.
const WAITING_MAX: usize = 8192;

impl BucketCounts {
    #[inline(always)]
    fn record(&mut self, latency_ns: u64) {
        self.sum_ns += u128::from(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
        self.waiting.push(latency_ns);
        if self.waiting.len() == WAITING_MAX {
            self.count_waiting();
        }
    }

    #[inline(never)]
    fn count_waiting(&mut self) {
        self.count_steps();
        self.stepped = 0;
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.drain(..).for_each(|ns| self.count(ns, 1));
        self.waiting = waiting;
    }

    /// Counts the steps of the latest latencies.
    fn count_steps(&mut self) {
        for &ns in &self.waiting[self.stepped..] {
            let at = step(ns);
            if self.steps.len() <= at {
                self.steps.resize(at + 1, 0);
            }
            self.steps[at] = self.steps[at].wrapping_add(1);
        }
        self.stepped = self.waiting.len();
    }

    /// Counts a latency `n` times.
    #[inline]
    fn count(&mut self, ns: u64, n: u64) {
        let at = index(ns);
        // Counters come in whole octaves.
        if self.counts.len() as u64 <= at {
            self.counts.resize((((at >> OCTAVE_BITS) + 1) << OCTAVE_BITS) as usize, 0);
        }
        let count = u64::from(self.counts[at as usize]) + (n & u64::from(u32::MAX));
        // The counter keeps the lower 32 bits, `overflown` the rest.
        self.counts[at as usize] = count as u32;
        let rest = (n >> 32) + (count >> 32);
        if rest > 0 {
            let upper = self.overflown.entry(at).or_default();
            *upper = upper.saturating_add(rest << 32);
        }
    }

    /// Adds the counts of another, from its text.
    fn add(&mut self, text: &OpLatencies) -> Result<(), Error> {
        read_buckets(&text.buckets, |ns, count| self.count(ns, count))?;
        self.sum_ns += text.sum_ns;
        self.max_ns = self.max_ns.max(text.max_ns);
        Ok(())
    }

    /// All latencies so far, with those that wait to be counted.
    fn list(&self) -> OpList {
        let mut values = values_of(&self.waiting);
        for (at, &count) in (0..).zip(&self.counts) {
            let overflown = self.overflown.get(&at).copied().unwrap_or(0);
            let count = overflown.saturating_add(count.into());
            if count > 0 {
                values.push((largest(at), count));
            }
        }
        // The stable sort only has to merge two ascending runs.
        values.sort();
        values.dedup_by(|(next_ns, next_count), (ns, count)| {
            let is_same = next_ns == ns;
            if is_same {
                *count = count.saturating_add(*next_count);
            }
            is_same
        });
        OpList { values, sum_ns: self.sum_ns, max_ns: self.max_ns }
    }
}

/// Buckets and counts of latencies that are not in counters yet.
fn values_of(latencies: &[u64]) -> Vec<(u64, u64)> {
    let mut sorted: Vec<u64> = latencies.iter().map(|&ns| largest(index(ns))).collect();
    sorted.sort_unstable();
    sorted.chunk_by(|a, b| a == b).map(|equal| (equal[0], equal.len() as u64)).collect()
}

/// Digits of 6 bits. A format of our own: bytes in base64 would take a third more, and a crate.
const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

/// A 3-bit field of this value is continued by digits.
const LONG: u64 = 7;

/// Encodes occupied buckets, ascending, given as the largest latency and the count of each. A digit for each bucket has two fields of 3 bits:
/// how many empty buckets come before it, and its count less 1. Digits that continue these fields follow.
fn buckets_text(buckets: &[(u64, u64)]) -> String {
    let (mut text, mut next) = (String::new(), 0);
    for &(ns, count) in buckets {
        let (skipped, more) = (index(ns) - next, count - 1);
        text.push(digit(skipped.min(LONG) << 3 | more.min(LONG)));
        for field in [skipped, more] {
            if field >= LONG {
                write_long(&mut text, field - LONG);
            }
        }
        next = index(ns) + 1;
    }
    text
}

/// Writes five bits in each digit, the lowest first. All digits except the last have the sixth bit set.
fn write_long(text: &mut String, mut value: u64) {
    while value >= 32 {
        text.push(digit(32 | value & 31));
        value >>= 5;
    }
    text.push(digit(value));
}

fn digit(bits: u64) -> char {
    char::from(DIGITS[bits as usize])
}

/// Calls `each` with the largest latency and the count of the text's buckets, ascending.
fn read_buckets(text: &str, mut each: impl FnMut(u64, u64)) -> Result<(), Error> {
    let mut digits = text.bytes().map(|byte| DIGITS.iter().position(|&digit| digit == byte).map(|at| at as u64));
    let damaged = || Error::Usage("latency_buckets are damaged: take the record as smrkit wrote it".into());
    let mut next = 0u64;
    while let Some(digit) = digits.next() {
        // The first digit of a bucket has the short forms of both of its numbers.
        let digit = digit.ok_or_else(damaged)?;
        let skipped = field(digit >> 3, &mut digits).ok_or_else(damaged)?;
        let more = field(digit & 7, &mut digits).ok_or_else(damaged)?;
        let index = next.checked_add(skipped).filter(|&index| index <= LAST).ok_or_else(damaged)?;
        each(largest(index), more.checked_add(1).ok_or_else(damaged)?);
        next = index + 1;
    }
    Ok(())
}

/// Reads a 3-bit field, with the digits that continue it if it is `LONG`.
fn field(short: u64, digits: &mut impl Iterator<Item = Option<u64>>) -> Option<u64> {
    if short < LONG {
        return Some(short);
    }
    let mut rest = 0u64;
    // Twelve digits of five bits: a longer number is damage.
    for shift in (0..60).step_by(5) {
        let digit = digits.next()??;
        rest |= (digit & 31) << shift;
        if digit < 32 {
            return Some(rest + LONG);
        }
    }
    None
}

/// Latencies of each operation, by its number.
#[derive(Default)]
pub struct LatencyCounts([BucketCounts; 4]);

/// Latencies of each operation, by its number, listed for a result.
#[derive(Default)]
pub struct LatencyLists([OpList; 4]);

/// Latencies of one operation, listed.
#[derive(Default)]
struct OpList {
    /// The largest latency of each occupied bucket, ascending, and its count.
    values: Vec<(u64, u64)>,
    sum_ns: u128,
    max_ns: u64,
}

impl OpList {
    fn text(&self) -> OpLatencies {
        OpLatencies { sum_ns: self.sum_ns, max_ns: self.max_ns, buckets: buckets_text(&self.values) }
    }

    /// Coarse steps of a thirty-second of a power of two, for drawing.
    fn steps(&self) -> Vec<(u64, u64)> {
        let mut steps: Vec<(u64, u64)> = Vec::new();
        for &(value, count) in &self.values {
            let upper = step_end(value).min(self.max_ns);
            match steps.last_mut() {
                Some(last) if last.0 == upper => last.1 = last.1.saturating_add(count),
                _ => steps.push((upper, count)),
            }
        }
        steps
    }
}

/// Latencies of some operations together.
pub(super) struct Distribution {
    /// The largest latency of each occupied bucket, ascending, and the number of latencies up to it.
    up_to: Vec<(u64, u64)>,
    sum_ns: u128,
    max_ns: u64,
}

impl Distribution {
    fn of(lists: &[&OpList]) -> Distribution {
        let mut up_to: Vec<(u64, u64)> = lists.iter().flat_map(|list| &list.values).copied().collect();
        // The stable sort only has to merge ascending runs.
        up_to.sort();
        let mut below = 0u64;
        for (_, count) in &mut up_to {
            below = below.saturating_add(*count);
            *count = below;
        }
        let max_ns = lists.iter().map(|list| list.max_ns).max().unwrap_or(0);
        Distribution { up_to, sum_ns: lists.iter().map(|list| list.sum_ns).sum(), max_ns }
    }

    pub(super) fn count(&self) -> u64 {
        self.up_to.last().map_or(0, |last| last.1)
    }

    /// The latency of this rank, from 1 to their number.
    pub(super) fn at_rank(&self, rank: u64) -> u64 {
        let at = self.up_to.partition_point(|&(_, count)| count < rank);
        self.up_to.get(at).map_or(self.max_ns, |value| value.0.min(self.max_ns))
    }

    pub(super) fn mean(&self) -> f64 {
        self.sum_ns as f64 / self.count() as f64
    }

    /// The variance of a single latency.
    pub(super) fn variance(&self) -> f64 {
        let (mean, mut below, mut squares) = (self.mean(), 0, 0.0);
        for &(ns, count) in &self.up_to {
            squares += (ns as f64 - mean).powi(2) * (count - below) as f64;
            below = count;
        }
        squares / self.count() as f64
    }

    pub(super) fn summary(&self) -> Latency {
        let count = self.count();
        if count == 0 {
            return Latency::default();
        }
        let mean = ((self.sum_ns + u128::from(count) / 2) / u128::from(count)) as u64;
        let [p50, p90, p95, p99, p99_5, p99_9] =
            PERCENTILES.map(|per_mille| self.at_rank(nearest_rank(count, per_mille)));
        Latency { count, mean, p50, p90, p95, p99, p99_5, p99_9, max: self.max_ns }
    }
}

/// The rank, from 1, of the value that this share of `count` values doesn't exceed.
pub(super) fn nearest_rank(count: u64, per_mille: u64) -> u64 {
    (u128::from(count) * u128::from(per_mille)).div_ceil(1000).max(1) as u64
}

/// The largest value of `ns`'s step in a histogram; steps are at most a thirty-second of the value wide.
pub fn step_end(ns: u64) -> u64 {
    let shift = (64 - ns.leading_zeros()).saturating_sub(STEP_BITS + 1);
    (ns >> shift) << shift | ((1 << shift) - 1)
}

impl LatencyCounts {
    /// Counts one request.
    #[inline]
    pub fn record(&mut self, op: Op, latency_ns: u64) {
        self.0[op as usize].record(latency_ns);
    }

    /// Adds the counts of fine buckets.
    pub fn add(&mut self, buckets: &LatencyBuckets) -> Result<(), Error> {
        let LatencyBuckets { read, write, flush, discard } = buckets;
        self.0.iter_mut().zip([read, write, flush, discard]).try_for_each(|(counts, text)| counts.add(text))
    }

    /// The exact sum of each operation so far.
    pub(super) fn sums_ns(&self) -> [u128; 4] {
        self.0.each_ref().map(|own| own.sum_ns)
    }

    /// How many latencies of each operation were recorded so far in each step.
    pub(super) fn steps(&mut self) -> [Vec<u32>; 4] {
        self.0.each_mut().map(|own| {
            own.count_steps();
            own.steps.clone()
        })
    }

    /// A list of all so far.
    pub fn list(&self) -> LatencyLists {
        LatencyLists(self.0.each_ref().map(BucketCounts::list))
    }
}

impl LatencyLists {
    /// The summaries of all, reads and writes.
    pub fn summary(&self) -> Latencies {
        let [all, read, write] = self.distributions().map(|own| own.summary());
        Latencies { all, read, write }
    }

    /// Latencies of all operations, of reads and of writes.
    pub(super) fn distributions(&self) -> [Distribution; 3] {
        let [read, write, ..] = self.0.each_ref();
        [Distribution::of(&self.0.each_ref()), Distribution::of(&[read]), Distribution::of(&[write])]
    }

    /// The distribution of each operation: reads, writes, flushes, discards.
    pub fn by_op(&self) -> [Latency; 4] {
        self.0.each_ref().map(|list| Distribution::of(&[list]).summary())
    }

    /// The fine buckets, as text.
    pub fn buckets(&self) -> LatencyBuckets {
        let [read, write, flush, discard] = self.0.each_ref().map(OpList::text);
        LatencyBuckets { read, write, flush, discard }
    }

    /// The distribution of each operation, coarse enough to draw.
    pub fn steps(&self) -> [Vec<(u64, u64)>; 4] {
        self.0.each_ref().map(OpList::steps)
    }

    /// The exact sum of each operation.
    pub fn sums_ns(&self) -> [u128; 4] {
        self.0.each_ref().map(|list| list.sum_ns)
    }

    /// The distributions, coarse enough to draw.
    pub fn histograms(&self) -> Histograms {
        let [read, write, ..] = self.steps();
        Histograms { read, write }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

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
        let mut counts = BucketCounts::default();
        let full = u64::from(u32::MAX);
        for n in [full, 5, 3 << 32] {
            counts.count(7, n);
        }
        assert_eq!(counts.list().values, [(7, full + 5 + (3 << 32))]);
        counts.count(9, full);
        counts.record(8);
        // One of them waits.
        (0..WAITING_MAX).for_each(|_| counts.record(9));
        assert_eq!(counts.waiting, [9]);
        assert_eq!(counts.list().values, [(7, full + 5 + (3 << 32)), (8, 1), (9, full + WAITING_MAX as u64)]);
    }

    #[test]
    fn neighbouring_buckets_of_few_requests_take_a_character_each() {
        let buckets: Vec<(u64, u64)> = (100..200).map(|ns| (ns, ns % 7 + 1)).collect();
        assert!(buckets_text(&buckets).len() <= 103);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(buckets in prop::collection::btree_map(0u64.., 1u64..1 << 50, 0..50)) {
            let buckets: BTreeMap<u64, u64> =
                buckets.into_iter().map(|(ns, count)| (largest(index(ns)), count)).collect();
            let buckets: Vec<(u64, u64)> = buckets.into_iter().collect();
            let mut found = Vec::new();
            read_buckets(&buckets_text(&buckets), |ns, count| found.push((ns, count))).unwrap();
            prop_assert_eq!(found, buckets);
        }

        #[test]
        fn damaged_text_is_refused_or_read(text in "[0-9A-Za-z_ü -]{0,20}") {
            let _ = read_buckets(&text, |_, count| assert!(count > 0));
        }
    }

    #[test]
    fn text_that_ends_early_or_leaves_the_range_is_refused() {
        for text in ["v", "u", " ", "________________", "u__________f"] {
            assert!(read_buckets(text, |_, _| ()).is_err(), "{text}");
        }
    }

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
        fn latencies_that_wait_tell_the_same_as_counted_ones(ns in prop::collection::vec(0u64..1 << 28, 1..200)) {
            let mut pairs = [BucketCounts::default(), BucketCounts::default()];
            ns.iter().for_each(|&n| pairs.iter_mut().for_each(|counts| counts.record(n)));
            pairs[1].count_waiting();
            let [waiting, counted] = [pairs[0].list(), pairs[1].list()];
            let summary = |of: &[&OpList]| Distribution::of(of).summary();
            let both = summary(&[&waiting, &counted]);
            prop_assert!(pairs[0].counts.is_empty());
            prop_assert_eq!(summary(&[&waiting]), summary(&[&counted]));
            prop_assert_eq!(waiting.steps(), counted.steps());
            prop_assert_eq!((both.count, both.p50), (2 * ns.len() as u64, summary(&[&waiting]).p50));
            let mut again = BucketCounts::default();
            [waiting, counted].iter().for_each(|list| again.add(&list.text()).unwrap());
            prop_assert_eq!(summary(&[&again.list()]), both);
        }
    }

    #[test]
    fn a_drive_without_commands_takes_no_room_for_latencies() {
        let counts = LatencyCounts::default();
        assert!(counts.0.iter().all(|own| own.counts.capacity() == 0 && own.waiting.capacity() == 0));
    }

    #[test]
    fn the_99_9th_percentile_of_a_thousand_is_the_second_largest() {
        let mut counts = LatencyCounts::default();
        (1..=1000).for_each(|n| counts.record(Op::Write, n));
        assert_eq!(counts.list().summary().write.p99_9, 999);
    }

    #[test]
    fn sums_beyond_64_bits_are_written_and_read_exactly() {
        for (sum_ns, written) in
            [(7, json!(7)), (u64::MAX.into(), json!(u64::MAX)), (1 << 64, json!("18446744073709551616"))]
        {
            let latencies = OpLatencies { sum_ns, ..OpLatencies::default() };
            let record = serde_json::to_value(&latencies).unwrap();
            assert_eq!(record["sum_ns"], written);
            assert_eq!(serde_json::from_value::<OpLatencies>(record).unwrap(), latencies);
        }
    }
}
