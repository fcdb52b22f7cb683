//! In which order a member is rebuilt, and in what pieces.
//!
//! Ascending, as mdraid does; or in the order in which ZFS finds its records: runs of neighbouring records in a random order. Which
//! record begins a run, which runs are in use, and the position of each run are computed from its number and the seed (by a Feistel
//! permutation), so the order takes no memory.

use crate::random::{Permutation, bits_under, splitmix};
use crate::settings::rebuild::RebuildOrder;
use crate::units::Lba;

/// Pieces of a member: the first sector of each, and how many.
pub(super) struct RebuildPieces {
    /// Sectors of the member.
    end: u64,
    /// Sectors of a piece, except for the last of the member.
    sectors: u64,
    /// The next piece in ascending order.
    next: u64,
    /// The order of the pieces, if it is not ascending.
    scattered: Option<ScatteredRecords>,
}

impl RebuildPieces {
    /// The pieces of a member of `end` sectors, in the `order` of its rebuild.
    pub fn new(order: RebuildOrder, end: u64, seed: u64) -> RebuildPieces {
        let (sectors, scattered) = match order {
            RebuildOrder::Ascending { sectors } => (sectors, None),
            RebuildOrder::Scattered { record_sectors, run_sectors, live } => {
                let mean_run = run_sectors as f64 / record_sectors as f64;
                let records = ScatteredRecords::new(end.div_ceil(record_sectors), mean_run, live, seed);
                (record_sectors, Some(records))
            }
        };
        RebuildPieces { end, sectors, next: 0, scattered }
    }

    /// The sectors of all pieces, about.
    pub fn total(&self) -> u64 {
        let live = self.scattered.as_ref().map_or(1.0, |records| records.live);
        (self.end as f64 * live) as u64
    }
}

impl Iterator for RebuildPieces {
    type Item = (Lba, u64);

    fn next(&mut self) -> Option<(Lba, u64)> {
        let number = match &mut self.scattered {
            Some(records) => records.next()?,
            None => {
                self.next += 1;
                self.next - 1
            }
        };
        let start = number * self.sectors;
        if start >= self.end {
            return None;
        }
        Some((Lba(start), self.sectors.min(self.end - start)))
    }
}

/// Streams of the seed, one for each choice, so that the choices are independent.
const ORDER: u64 = 1;
const RUNS: u64 = 2;
const LIVE: u64 = 3;

/// The records in use, each once, in the order of the rebuild.
struct ScatteredRecords {
    count: u64,
    /// The mean length of a run, in records.
    mean_run: f64,
    /// The share of the runs that is in use.
    live: f64,
    seed: u64,
    order: Permutation,
    /// How many positions of the order have been visited.
    visited: u64,
    /// The next record of the current run, if it continues.
    next: u64,
    in_run: bool,
}

impl ScatteredRecords {
    fn new(count: u64, mean_run: f64, live: f64, seed: u64) -> ScatteredRecords {
        let order_seed = splitmix(seed ^ ORDER);
        let keys = [1, 2, 3, 4].map(|round| splitmix(order_seed.wrapping_add(round)));
        // An even number of bits, so that both halves of the Feistel network have the same width.
        let order = Permutation::new(count, bits_under(count).next_multiple_of(2).max(2), keys);
        ScatteredRecords { count, mean_run, live, seed, order, visited: 0, next: 0, in_run: false }
    }

    /// True if a run begins here.
    fn begins_run(&self, record: u64) -> bool {
        // A run begins with probability 1/mean at each record, so that lengths are geometric with that mean. Record 0 always begins one.
        record == 0 || self.share(record, RUNS) * self.mean_run < 1.0
    }

    /// A pseudo-random number from 0 to 1 for a record.
    fn share(&self, record: u64, salt: u64) -> f64 {
        (splitmix(record ^ splitmix(self.seed ^ salt)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Iterator for ScatteredRecords {
    type Item = u64;

    /// The next record in use: of the same run, else the first of a random run that is in use.
    fn next(&mut self) -> Option<u64> {
        if self.in_run && self.next < self.count && !self.begins_run(self.next) {
            self.next += 1;
            return Some(self.next - 1);
        }
        self.in_run = false;
        while self.visited < self.count {
            let record = self.order.at(self.visited, splitmix);
            self.visited += 1;
            // A run is in use as a whole, decided by its first record.
            if self.begins_run(record) && self.share(record, LIVE) < self.live {
                (self.next, self.in_run) = (record + 1, true);
                return Some(record);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_record_in_use_comes_once_and_only_whole_runs_are_left_out(
            end in 1u64..20_000, sectors in 1u64..40, mean in 1.0f64..50.0, live in 0.0f64..1.0,
            seed in any::<u64>(),
        ) {
            let of = |live| {
                let records = ScatteredRecords::new(end.div_ceil(sectors), mean, live, seed);
                RebuildPieces { end, sectors, next: 0, scattered: Some(records) }.collect::<Vec<_>>()
            };
            let mut all = of(1.0);
            all.sort_unstable();
            let mut next = 0;
            for (at, n) in all {
                prop_assert_eq!(at.0, next);
                next += n;
            }
            prop_assert_eq!(next, end);
            let mut part = of(live);
            let count = part.len();
            part.sort_unstable();
            part.dedup();
            prop_assert_eq!(part.len(), count);
            let runs = ScatteredRecords::new(end.div_ceil(sectors), mean, live, seed);
            let used: Vec<bool> = (0..runs.count).map(|record| part.binary_search_by_key(&(record * sectors), |(at, _)| at.0).is_ok()).collect();
            for record in 1..used.len() {
                prop_assert!(used[record] == used[record - 1] || runs.begins_run(record as u64));
            }
        }

        #[test]
        fn ascending_pieces_follow_each_other(end in 1u64..10_000, sectors in 1u64..300) {
            let mut next = 0;
            for (at, n) in RebuildPieces::new(RebuildOrder::Ascending { sectors }, end, 1) {
                prop_assert_eq!(at.0, next);
                next += n;
            }
            prop_assert_eq!(next, end);
        }
    }

    #[test]
    fn scattered_runs_have_the_mean_length_and_share_asked_for() {
        let records: Vec<u64> = ScatteredRecords::new(400_000, 20.0, 0.8, 7).collect();
        let heads = records.windows(2).filter(|pair| pair[1] != pair[0] + 1).count() + 1;
        let mean = records.len() as f64 / heads as f64;
        assert!((19.0..21.0).contains(&mean), "{mean}");
        assert!((0.78..0.82).contains(&(records.len() as f64 / 400_000.0)), "{}", records.len());
        let (early, late) = records.split_at(records.len() / 2);
        let centre = |part: &[u64]| part.iter().sum::<u64>() as f64 / part.len() as f64;
        assert!((centre(early) - centre(late)).abs() < 20_000.0);
    }

    #[test]
    fn the_order_never_changes() {
        // Golden: a change here changes every rebuild in a scattered order.
        let first = |count| ScatteredRecords::new(count, 1.0, 1.0, 7).take(6).collect::<Vec<_>>();
        assert_eq!(first(300), [258, 226, 113, 182, 118, 286]);
        assert_eq!(first(1000), [258, 226, 476, 338, 502, 286]);
    }
}
