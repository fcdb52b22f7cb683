//! The sizes of requests: exact counts of each size, percentiles by nearest rank.

use std::collections::BTreeMap;

use serde::Serialize;

use smrkit::units::SECTOR_BYTES;

/// Sizes up to here, in sectors, are counted in a table: 2 MiB.
const SMALL: usize = 4096;

/// The sizes of requests, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sizes {
    /// The mean; null without requests.
    pub mean_bytes: Option<f64>,
    /// The smallest.
    pub min_bytes: u64,
    /// Half are no larger.
    pub p50_bytes: u64,
    /// 90 % are no larger.
    pub p90_bytes: u64,
    /// 99 % are no larger.
    pub p99_bytes: u64,
    /// The largest.
    pub max_bytes: u64,
    /// (bytes at most, requests), by powers of two, empty ones left out.
    pub histogram: Vec<(u64, u64)>,
    /// The most common sizes, (bytes, requests), most common first.
    pub common: Vec<(u64, u64)>,
}

/// Counts sizes.
pub(super) struct SizeCounter {
    small: Vec<u64>,
    large: BTreeMap<u32, u64>,
}

impl SizeCounter {
    pub(super) fn new() -> SizeCounter {
        SizeCounter { small: vec![0; SMALL], large: BTreeMap::new() }
    }

    pub(super) fn count(&mut self, sectors: u32) {
        match self.small.get_mut(sectors as usize) {
            Some(count) => *count += 1,
            None => *self.large.entry(sectors).or_default() += 1,
        }
    }

    pub(super) fn finish(&self) -> Sizes {
        let small = self.small.iter().enumerate().map(|(sectors, &count)| (sectors as u64, count));
        let large = self.large.iter().map(|(&sectors, &count)| (u64::from(sectors), count));
        let counts: Vec<(u64, u64)> = small
            .chain(large)
            .filter(|&(_, count)| count > 0)
            .map(|(size, count)| (size * SECTOR_BYTES, count))
            .collect();
        let total: u64 = counts.iter().map(|&(_, count)| count).sum();
        let bytes: f64 = counts.iter().map(|&(size, count)| size as f64 * count as f64).sum();
        let rank = |percent: u64| {
            let mut left = (u128::from(total) * u128::from(percent)).div_ceil(100) as u64;
            let reached = |&&(_, count): &&(u64, u64)| {
                left = left.saturating_sub(count);
                left == 0
            };
            counts.iter().find(reached).map_or(0, |&(size, _)| size)
        };
        let mut histogram = BTreeMap::new();
        counts.iter().for_each(|&(size, count)| *histogram.entry(size.next_power_of_two()).or_default() += count);
        let mut common = counts.clone();
        common.sort_by_key(|&(size, count)| (std::cmp::Reverse(count), size));
        common.truncate(8);
        Sizes {
            mean_bytes: (total > 0).then(|| bytes / total as f64),
            min_bytes: counts.first().map_or(0, |&(size, _)| size),
            p50_bytes: rank(50),
            p90_bytes: rank(90),
            p99_bytes: rank(99),
            max_bytes: counts.last().map_or(0, |&(size, _)| size),
            histogram: histogram.into_iter().collect(),
            common,
        }
    }
}
