//! Slipped sectors: raw sectors that hold no PBA, as runs, so that a spare track costs as little as a single defect.

use std::ops::Range;
use std::sync::Arc;

use crate::units::Pba;

/// Raw sectors that hold no PBA.
#[derive(Clone, Debug, Default)]
pub struct Slips {
    /// For each run, ascending: the first PBA after it, and the number of sectors slipped up to its end.
    runs: Arc<[(u64, u64)]>,
}

impl From<Vec<u64>> for Slips {
    fn from(sectors: Vec<u64>) -> Slips {
        Slips::from(sectors.into_iter().map(|raw| raw..raw.saturating_add(1)).collect::<Vec<_>>())
    }
}

impl From<Vec<Range<u64>>> for Slips {
    fn from(mut ranges: Vec<Range<u64>>) -> Slips {
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for range in ranges.into_iter().filter(|range| range.start < range.end) {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        let mut slipped = 0;
        let mut runs = Vec::with_capacity(joined.len());
        for range in joined {
            // The PBA after a run is the number of usable sectors before it.
            let pba = range.start - slipped;
            slipped += range.end - range.start;
            runs.push((pba, slipped));
        }
        Slips { runs: runs.into() }
    }
}

impl Slips {
    /// Number of sectors.
    #[inline]
    pub fn count(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.1)
    }

    /// True if there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The raw sector after the last slipped one; 0 without any.
    pub fn end(&self) -> u64 {
        self.runs.last().map_or(0, |(at, total)| at + total)
    }

    /// Number of sectors that the first `runs` runs slip.
    #[inline]
    fn slipped_by(&self, runs: usize) -> u64 {
        runs.checked_sub(1).map_or(0, |last| self.runs[last].1)
    }

    /// The raw sector of a PBA.
    #[inline]
    pub fn raw(&self, pba: Pba) -> u64 {
        pba.0 + self.slipped_by(self.runs.partition_point(|run| run.0 <= pba.0))
    }

    /// The first PBA at or after a raw sector.
    #[inline]
    pub fn usable(&self, raw: u64) -> Pba {
        // A run begins at the raw sector of its PBA plus the sectors that earlier runs slip.
        let (mut low, mut high) = (0, self.runs.len());
        while low < high {
            let middle = (low + high) / 2;
            if self.runs[middle].0 + self.slipped_by(middle) < raw {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let run = low.checked_sub(1).map(|last| self.runs[last]);
        // A slipped sector of this run is before the PBA after the run.
        Pba(run.map_or(raw, |(at, total)| at.max(raw.saturating_sub(total))))
    }

    /// The most slipped sectors in any stretch that begins and ends with a slipped one and has at most `sectors` usable ones.
    pub fn most_within(&self, sectors: u64) -> u64 {
        // A window from run `first` on, which ends at each run in turn. `before` is slipped before the window.
        let (mut first, mut before, mut most) = (0, 0, 0);
        for (at, total) in self.runs.iter() {
            while at - self.runs[first].0 > sectors {
                before = self.runs[first].1;
                first += 1;
            }
            most = most.max(total - before);
        }
        most
    }

    /// The runs inside a stretch of raw sectors, cut to it, ascending.
    pub fn ranges_within(&self, raw: &Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let (start, end) = (raw.start, raw.end);
        let first = self.runs.partition_point(|(pba, slipped)| pba + slipped <= start);
        let ranges = (first..self.runs.len()).map(|run| {
            let (pba, slipped) = self.runs[run];
            pba + self.slipped_by(run)..pba + slipped
        });
        ranges.take_while(move |range| range.start < end).map(move |range| range.start.max(start)..range.end.min(end))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_count_as_their_sectors_do(ranges in prop::collection::vec((0u64..90, 0u64..9), 0..8)) {
            let slips = Slips::from(ranges.iter().map(|(at, n)| *at..at + n).collect::<Vec<_>>());
            let is_slipped = |raw: u64| ranges.iter().any(|(at, n)| (*at..at + n).contains(&raw));
            let usable: Vec<u64> = (0..120).filter(|&raw| !is_slipped(raw)).collect();
            prop_assert_eq!(slips.count(), 120 - usable.len() as u64);
            prop_assert_eq!(slips.end(), (0..120).filter(|&raw| is_slipped(raw)).max().map_or(0, |last| last + 1));
            for (pba, &raw) in usable.iter().enumerate() {
                prop_assert_eq!(slips.raw(Pba(pba as u64)), raw);
            }
            let within: Vec<u64> = slips.ranges_within(&(13..77)).flatten().collect();
            prop_assert_eq!(within, (13..77).filter(|&raw| is_slipped(raw)).collect::<Vec<_>>());
            let before = |raw: u64| usable.iter().filter(|&&other| other < raw).count() as u64;
            let slipped: Vec<u64> = (0..120).filter(|&raw| is_slipped(raw)).collect();
            for sectors in [0, 1, 5, 30] {
                // None more can be added at their end.
                let from = |&first: &u64| slipped.iter().filter(|&&raw| raw >= first && before(raw) - before(first) <= sectors).count();
                prop_assert_eq!(slips.most_within(sectors), slipped.iter().map(from).max().unwrap_or(0) as u64);
            }
            for raw in 0..100 {
                prop_assert_eq!(slips.usable(raw), Pba(usable.iter().filter(|&&other| other < raw).count() as u64));
            }
        }
    }
}
