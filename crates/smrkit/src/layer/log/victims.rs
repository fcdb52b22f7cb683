//! Choice of the segment that is cleaned next: the oldest (FIFO), the one with the least live data (greedy), or the one with the best age ·
//! (1 − u) / (1 + u) (cost-benefit; Rosenblum and Ousterhout, SOSP 1991), where u is the live share. f2fs is greedy when cleaning is due,
//! and uses cost-benefit in idle time.
//!
//! Closed segments are kept in buckets by live share, each ordered by the age of data. Greedy takes the oldest of the lowest bucket,
//! cost-benefit compares the oldest of all buckets, so that both are exact to one part in [`BUCKETS`] of u. Emptiest-first has ten buckets,
//! as XFS on zones has, and scans the lowest one in the order of segment numbers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::segments::{Segment, SegmentState};
use crate::layer::prelude::*;

/// Policy by which victims are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimPolicy {
    Fifo,
    Greedy,
    CostBenefit,
    GreedyCostBenefit,
    Emptiest,
}

/// Buckets of the live share. Wholly live segments have one more bucket, which is never chosen from.
const BUCKETS: usize = 256;
const EMPTIEST_BUCKETS: usize = 10;
/// Emptiest-first takes a segment that is less than 1/100 live, without looking for a better one.
const AT_ONCE: u32 = 100;

/// A bucket's heap keeps up to this many outdated candidates in any case, so that a small heap is not searched all the time.
const OUTDATED_MIN: usize = 64;

/// Age of a segment's youngest data, and its number. Only valid while the segment is in the bucket.
type Candidate = Reverse<(u64, u32)>;

/// The closed segments, as the policy orders them.
pub struct Victims {
    policy: VictimPolicy,
    /// Share of a segment that must be dead before it is chosen.
    least_dead: f64,
    in_order: VecDeque<u32>,
    buckets: Vec<BinaryHeap<Candidate>>,
    /// Segments in each bucket; the heaps may also hold outdated candidates.
    counts: Vec<u32>,
    /// Buckets below this one are empty.
    lowest: usize,
    /// Sectors of closed segments without live data.
    pub dead: u64,
    /// True if a segment is freed as soon as nothing in it is live; `emptied` lists the segments to free.
    resets: bool,
    pub emptied: Vec<u32>,
}

state! {
    Victims {
        parts: in_order, buckets;
        sized: counts;
        values: lowest, dead, emptied;
        built: policy, least_dead, resets;
    }
}

fn is_valid(segments: &[Segment], bucket: usize, &Reverse((age, number)): &Candidate) -> bool {
    let segment = &segments[number as usize];
    segment.state == SegmentState::Closed && usize::from(segment.bucket) == bucket && segment.youngest == age
}

impl Victims {
    pub fn new(policy: VictimPolicy, least_dead: f64, resets: bool) -> Victims {
        Victims {
            policy,
            least_dead,
            in_order: VecDeque::new(),
            buckets: (0..=BUCKETS).map(|_| BinaryHeap::new()).collect(),
            counts: vec![0; BUCKETS + 1],
            lowest: 0,
            dead: 0,
            resets,
            emptied: Vec::new(),
        }
    }

    /// Number of buckets, without the one of wholly live segments.
    fn steps(&self) -> usize {
        if self.policy == VictimPolicy::Emptiest { EMPTIEST_BUCKETS } else { BUCKETS }
    }

    fn bucket_of(&self, segment: &Segment) -> u16 {
        (u64::from(segment.live) * self.steps() as u64 / u64::from(segment.place.sectors)) as u16
    }

    /// Adds a segment that has been closed.
    pub fn add(&mut self, segments: &mut [Segment], number: u32) {
        self.count_dead(&segments[number as usize], number, segments[number as usize].dead());
        if self.policy == VictimPolicy::Fifo {
            return self.in_order.push_back(number);
        }
        segments[number as usize].bucket = self.bucket_of(&segments[number as usize]);
        self.enter(segments, number);
    }

    /// Counts sectors of the closed segment `number` that are dead now.
    #[inline]
    fn count_dead(&mut self, segment: &Segment, number: u32, sectors: u64) {
        self.dead += sectors;
        if self.resets && segment.live == 0 {
            self.emptied.push(number);
        }
    }

    /// Adds a segment to the candidates of its bucket.
    fn enter(&mut self, segments: &[Segment], number: u32) {
        let segment = &segments[number as usize];
        let bucket = usize::from(segment.bucket);
        self.counts[bucket] += 1;
        self.lowest = self.lowest.min(bucket);
        // Wholly live segments are never chosen, and emptiest-first scans the segments themselves.
        if bucket == self.steps() || self.policy == VictimPolicy::Emptiest {
            return;
        }
        let heap = &mut self.buckets[bucket];
        // Outdated candidates are removed when they are the greater part, which bounds the heap's memory.
        if heap.len() > 2 * self.counts[bucket] as usize + OUTDATED_MIN {
            heap.retain(|candidate| is_valid(segments, bucket, candidate));
        }
        // A segment that returns to a bucket may have an old candidate there, which counts again. The duplicate is dropped once the segment
        // has left the bucket.
        heap.push(Reverse((segment.youngest, number)));
    }

    /// Notes that the closed segment `number` lost live sectors.
    pub fn shrunk(&mut self, segments: &mut [Segment], number: u32, sectors: u64) {
        self.count_dead(&segments[number as usize], number, sectors);
        if self.policy == VictimPolicy::Fifo {
            return;
        }
        let bucket = self.bucket_of(&segments[number as usize]);
        let segment = &mut segments[number as usize];
        if bucket != segment.bucket {
            self.counts[usize::from(segment.bucket)] -= 1;
            segment.bucket = bucket;
            self.enter(segments, number);
        }
    }

    /// Takes out the segment to be cleaned next. `now` is how many sectors the host has written, in which ages count.
    pub fn take(&mut self, segments: &[Segment], now: u64, need: Need) -> Option<u32> {
        let policy = match (self.policy, need) {
            (VictimPolicy::GreedyCostBenefit, Need::Must) => VictimPolicy::Greedy,
            (policy, _) => policy,
        };
        let least_dead = self.least_dead;
        let is_eligible = |number: &u32| {
            let segment = &segments[*number as usize];
            segment.dead() as f64 >= least_dead * f64::from(segment.place.sectors)
        };
        match policy {
            VictimPolicy::Fifo => {
                if self.in_order.front().is_some_and(is_eligible) {
                    self.in_order.pop_front()
                } else {
                    None
                }
            }
            VictimPolicy::Greedy => {
                let lowest = self.lowest();
                self.oldest_in(segments, lowest)
            }
            VictimPolicy::Emptiest => self.emptiest(segments),
            VictimPolicy::CostBenefit | VictimPolicy::GreedyCostBenefit => {
                let benefit = |number: u32| {
                    let segment = &segments[number as usize];
                    let u = f64::from(segment.live) / f64::from(segment.place.sectors);
                    (now - segment.youngest + 1) as f64 * (1.0 - u) / (1.0 + u)
                };
                let mut best: Option<(f64, u32)> = None;
                for bucket in 0..BUCKETS {
                    // The segments of a bucket have about as many live sectors, so the oldest of them gains most.
                    let Some(number) = self.oldest_in(segments, bucket).filter(is_eligible) else { continue };
                    let benefit = benefit(number);
                    // Of equal benefits the first counts.
                    if best.is_none_or(|(highest, _)| benefit > highest) {
                        best = Some((benefit, number));
                    }
                }
                best.map(|(_, number)| number)
            }
        }
        .filter(is_eligible)
        .inspect(|&number| self.leave(segments, number))
    }

    /// The lowest bucket with a segment.
    fn lowest(&mut self) -> usize {
        while self.lowest < self.steps() && self.counts[self.lowest] == 0 {
            self.lowest += 1;
        }
        self.lowest
    }

    /// The segment of the lowest bucket with the least live data (of equal ones, the first), or the first that is almost empty. `None` if all
    /// are wholly live.
    fn emptiest(&mut self, segments: &[Segment]) -> Option<u32> {
        let lowest = self.lowest();
        if lowest == self.steps() {
            return None;
        }
        let in_bucket = |number: &usize| {
            segments[*number].state == SegmentState::Closed && usize::from(segments[*number].bucket) == lowest
        };
        let mut least: Option<usize> = None;
        for number in (0..segments.len()).filter(in_bucket).take(self.counts[lowest] as usize) {
            let live = segments[number].live;
            if least.is_none_or(|least| live < segments[least].live) {
                least = Some(number);
                if live < segments[number].place.sectors / AT_ONCE {
                    break;
                }
            }
        }
        least.map(|number| number as u32)
    }

    /// True if a closed segment is less than half live.
    pub fn any_below_half(&mut self) -> bool {
        self.lowest() < self.steps() / 2
    }

    /// The closed segment with the least live data, whatever the policy.
    pub fn least_live(&self, segments: &[Segment]) -> Option<u32> {
        let closed = (0..segments.len()).filter(|&number| segments[number].state == SegmentState::Closed);
        closed.min_by_key(|&number| segments[number].live).map(|number| number as u32)
    }

    /// Takes out a closed segment that the policy did not choose.
    pub fn remove(&mut self, segments: &[Segment], number: u32) {
        self.in_order.retain(|&other| other != number);
        self.leave(segments, number);
    }

    /// Takes a segment out of the counts.
    fn leave(&mut self, segments: &[Segment], number: u32) {
        self.dead -= segments[number as usize].dead();
        if self.policy != VictimPolicy::Fifo {
            self.counts[usize::from(segments[number as usize].bucket)] -= 1;
        }
    }

    /// Finds the segment of a bucket with the oldest data. Drops outdated candidates before it.
    fn oldest_in(&mut self, segments: &[Segment], bucket: usize) -> Option<u32> {
        // The last bucket has the wholly live segments.
        if bucket == BUCKETS || self.counts[bucket] == 0 {
            return None;
        }
        let heap = &mut self.buckets[bucket];
        while let Some(candidate) = heap.peek() {
            if is_valid(segments, bucket, candidate) {
                return Some(candidate.0.1);
            }
            heap.pop();
        }
        None
    }

    /// Number of segments that can be chosen, for checks.
    pub fn len(&self) -> usize {
        self.in_order.len() + self.counts.iter().sum::<u32>() as usize
    }

    /// Memory taken, in bytes.
    pub fn bytes(&self) -> u64 {
        let candidates: usize = self.buckets.iter().map(BinaryHeap::capacity).sum();
        (candidates * size_of::<Candidate>() + self.in_order.capacity() * size_of::<u32>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::segments::SegmentPlace;
    use super::*;
    use crate::units::Pba;

    /// Closed segments of 100 sectors by (live, youngest), in the order in which they were closed.
    fn closed(policy: VictimPolicy, books: &[(u32, u64)]) -> (Victims, Vec<Segment>) {
        let (mut victims, mut segments) = (Victims::new(policy, 0.0, false), Vec::new());
        for &(live, youngest) in books {
            let mut segment = Segment::new(SegmentPlace { start: Pba(0), sectors: 100 });
            (segment.state, segment.live, segment.youngest) = (SegmentState::Closed, live, youngest);
            segments.push(segment);
            let number = segments.len() as u32 - 1;
            victims.add(&mut segments, number);
        }
        (victims, segments)
    }

    /// Ten buckets of the used share, the emptiest of the lowest, of equals the one with the lowest number; a zone with less than a
    /// hundredth live is taken before better ones behind it.
    #[test]
    fn emptiest_first_takes_the_least_live_of_the_lowest_bucket() {
        for (live, expected) in [
            (&[39, 31, 35, 31][..], &[1, 3, 2, 0][..]),
            (&[30, 29, 20], &[2, 1, 0]),
            (&[9, 3, 5], &[1, 2, 0]),
            (&[100, 99, 99], &[1, 2]),
            (&[95, 10, 50], &[1, 2, 0]),
        ] {
            let books: Vec<(u32, u64)> = live.iter().map(|&live| (live, 7)).collect();
            assert_eq!(order(VictimPolicy::Emptiest, &books), expected, "{live:?}");
        }
        let (mut victims, mut segments) = (Victims::new(VictimPolicy::Emptiest, 0.0, false), Vec::new());
        for live in [999, 9, 0] {
            let mut segment = Segment::new(SegmentPlace { start: Pba(0), sectors: 1000 });
            (segment.state, segment.live) = (SegmentState::Closed, live);
            segments.push(segment);
            let number = segments.len() as u32 - 1;
            victims.add(&mut segments, number);
        }
        assert_eq!(victims.take(&segments, 0, Need::Must), Some(1));
    }

    #[test]
    fn ten_buckets_tell_whether_any_segment_is_below_half() {
        for (live, below) in [(50, false), (49, true)] {
            let (mut victims, _) = closed(VictimPolicy::Emptiest, &[(100, 1), (live, 2), (80, 3)]);
            assert_eq!(victims.any_below_half(), below, "{live} of 100");
        }
    }

    fn order(policy: VictimPolicy, books: &[(u32, u64)]) -> Vec<u32> {
        order_at(Need::Must, policy, books)
    }

    fn order_at(need: Need, policy: VictimPolicy, books: &[(u32, u64)]) -> Vec<u32> {
        let (mut victims, mut segments) = closed(policy, books);
        let mut order = Vec::new();
        while let Some(number) = victims.take(&segments, 1000, need) {
            segments[number as usize].state = SegmentState::Cleaned;
            order.push(number);
        }
        order
    }

    #[test]
    fn each_policy_has_its_own_order() {
        let books = [(90, 10), (50, 900), (80, 20), (50, 800)];
        assert_eq!(order(VictimPolicy::Fifo, &books), [0, 1, 2, 3]);
        assert_eq!(order(VictimPolicy::Greedy, &books), [3, 1, 2, 0]);
        // age · (1 − u) / (1 + u): 52, 34, 109, 67.
        assert_eq!(order(VictimPolicy::CostBenefit, &books), [2, 3, 0, 1]);
        let f2fs = |need| order_at(need, VictimPolicy::GreedyCostBenefit, &books);
        assert_eq!((f2fs(Need::Must), f2fs(Need::Spare)), (vec![3, 1, 2, 0], vec![2, 3, 0, 1]));
    }

    #[test]
    fn a_segment_with_less_garbage_than_was_asked_for_is_left_alone() {
        for (live, taken) in [(25, Some(0)), (26, None)] {
            let (mut victims, segments) = closed(VictimPolicy::Greedy, &[(live, 1)]);
            victims.least_dead = 0.75;
            assert_eq!((victims.take(&segments, 10, Need::Must), victims.len()), (taken, 1 - taken.iter().count()));
        }
        // The older one would be chosen, but has too little garbage.
        let (mut victims, segments) = closed(VictimPolicy::CostBenefit, &[(50, 1), (20, 990)]);
        victims.least_dead = 0.75;
        assert_eq!(victims.take(&segments, 1000, Need::Must), Some(1));
    }

    #[test]
    fn wholly_live_segments_are_worth_nothing_save_in_order() {
        let books = [(100, 1), (99, 2)];
        assert_eq!(order(VictimPolicy::Greedy, &books), [1]);
        assert_eq!(order(VictimPolicy::CostBenefit, &books), [1]);
        assert_eq!(order(VictimPolicy::Fifo, &books), [0, 1]);
    }

    #[test]
    fn a_segment_that_loses_data_moves_forward_and_is_chosen_once() {
        let (mut victims, mut segments) = closed(VictimPolicy::Greedy, &[(60, 1), (70, 2)]);
        for live in (0..60).rev() {
            let lost = segments[1].live - live;
            segments[1].live = live;
            victims.shrunk(&mut segments, 1, lost.into());
        }
        assert_eq!(victims.take(&segments, 10, Need::Must), Some(1));
        segments[1].state = SegmentState::Cleaned;
        let mut take = || victims.take(&segments, 10, Need::Must);
        assert_eq!((take(), take()), (Some(0), None));
        assert_eq!(victims.len(), 0);
    }
}
