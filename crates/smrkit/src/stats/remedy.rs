//! Would a change help? What a run shows, in the few numbers that decide, and two of them compared.
//!
//! `docs/reference/advise.md` defines the words. Which changes are tried is the command's affair; how much a problem matters to
//! somebody is not weighed.

use serde::Serialize;

use super::counts::{STALL_7S, STALL_30S};
use super::outcome::Outcome;
use crate::layer::BASELINE;
use crate::units::SECTOR_BYTES;

/// How many times better or worse something has to be to count as a difference.
const FACTOR: f64 = 2.0;

/// Waits below this are no difference that anybody acts on (assumption).
const SHORT_NS: u64 = 1_000_000_000;

/// The course of a run in a few numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Course {
    /// Requests answered.
    pub requests: u64,
    /// Their time.
    pub elapsed_ns: u64,
    /// The first moment that a request waited for cleaning, in seconds; null if none did.
    pub cache_full_at_s: Option<f64>,
    /// Host bytes until then, read and written; null if it never came.
    pub cache_full_after_bytes: Option<u64>,
    /// Host bytes a second before that moment, or over the whole run.
    pub rate_before_bytes_per_s: f64,
    /// Host bytes a second from it on; null if it never came.
    pub rate_after_bytes_per_s: Option<f64>,
    /// Mean latency.
    pub mean_ns: u64,
    /// The longest latency of a request.
    pub longest_stall_ns: u64,
    /// Whether any of its disks has cleaning to do some day: all but conventional ones.
    pub cleans: bool,
    /// Disks in it.
    pub disks: u64,
    /// Disks that a timeout of 7 s would drop.
    pub dropped_7s: u64,
    /// Disks that a timeout of 30 s would drop.
    pub dropped_30s: u64,
    /// Share of the time that its busiest disk was idle.
    pub idle_share: f64,
}

impl Course {
    /// What `outcome` shows. A disk of an array is dropped for a command of its own.
    pub fn of(outcome: &Outcome) -> Course {
        let verdict = &outcome.verdict;
        let alone = std::slice::from_ref(outcome);
        let disks = if outcome.members.is_empty() { alone } else { outcome.members.as_slice() };
        let over = |ns: u64| disks.iter().filter(|disk| disk.latency_ns.all.max > ns).count() as u64;
        let busy_ns = disks.iter().map(|disk| disk.busy_ns).max().unwrap_or(0);
        let until = |at_s: f64| (verdict.rate_before_bytes_per_s * at_s).round() as u64;
        Course {
            requests: outcome.requests,
            elapsed_ns: outcome.elapsed_ns,
            cache_full_at_s: verdict.cache_full_at_s,
            cache_full_after_bytes: verdict.cache_full_at_s.map(until),
            rate_before_bytes_per_s: verdict.rate_before_bytes_per_s,
            rate_after_bytes_per_s: verdict.rate_after_bytes_per_s,
            mean_ns: outcome.latency_ns.all.mean,
            longest_stall_ns: outcome.latency_ns.all.max,
            cleans: disks.iter().any(|disk| disk.layer != BASELINE),
            disks: disks.len() as u64,
            dropped_7s: over(STALL_7S.0),
            dropped_30s: over(STALL_30S.0),
            idle_share: 1.0 - (busy_ns as f64 / outcome.elapsed_ns.max(1) as f64).min(1.0),
        }
    }

    /// The rate that remains: from when the cache is full, or throughout.
    pub fn lasting_bytes_per_s(&self) -> f64 {
        self.rate_after_bytes_per_s.unwrap_or(self.rate_before_bytes_per_s)
    }

    /// The rate before the cache was full; `None` where it never was, or requests wait from the first on.
    pub fn fresh_bytes_per_s(&self) -> Option<f64> {
        self.cache_full_at_s.filter(|&at_s| at_s > 0.0)?;
        Some(self.rate_before_bytes_per_s).filter(|&rate| rate > 0.0)
    }
}

/// Mean bytes of a request.
pub fn mean_request_bytes(outcome: &Outcome) -> f64 {
    let bytes = (outcome.host_read_sectors + outcome.host_written_sectors) * SECTOR_BYTES;
    bytes as f64 / outcome.requests.max(1) as f64
}

/// By what the pace of a run is judged, and what it should be. Below half of that it is too slow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// By the rate that remains: the disk's own as fast as it can.
    BytesPerSecond(f64),
    /// By the mean latency: where requests come at times of their own, or after pauses, a rate says how many came.
    MeanNs(f64),
}

impl Pace {
    /// The pace of a run as a multiple of what it should be.
    pub fn of(self, course: &Course) -> f64 {
        match self {
            Pace::BytesPerSecond(wanted) => quotient(course.lasting_bytes_per_s(), wanted),
            Pace::MeanNs(wanted) => quotient(wanted, course.mean_ns as f64),
        }
    }
}

/// A quotient of two that are not negative; 1 where both are nothing.
fn quotient(over: f64, under: f64) -> f64 {
    match (over > 0.0, under > 0.0) {
        (_, true) => over / under,
        (true, false) => f64::INFINITY,
        (false, false) => 1.0,
    }
}

/// What is wrong with a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Problems {
    /// Its pace is less than half of what it should be.
    pub slow: bool,
    /// A timeout of 7 s would drop a disk.
    pub dropped_7s: bool,
    /// A timeout of 30 s would drop a disk.
    pub dropped_30s: bool,
}

/// A run, judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// What is wrong with it.
    pub problems: Problems,
    /// Its pace as a multiple of what it should be.
    pub pace: f64,
    /// Its longest latency.
    pub longest_stall_ns: u64,
    /// Whether it has shown what remains: its cache was full, or there is nothing to clean.
    pub is_settled: bool,
}

impl Judged {
    /// Judges a run by `pace`.
    pub fn new(course: &Course, pace: Pace) -> Judged {
        let pace = pace.of(course);
        let problems = Problems {
            slow: pace * FACTOR < 1.0,
            dropped_7s: course.dropped_7s > 0,
            dropped_30s: course.dropped_30s > 0,
        };
        let is_settled = course.cache_full_at_s.is_some() || !course.cleans;
        Judged { problems, pace, longest_stall_ns: course.longest_stall_ns, is_settled }
    }
}

impl Problems {
    /// Whether there is any.
    pub fn any(self) -> bool {
        self != Problems::default()
    }

    /// Whether `self` has one that `other` has not.
    fn beyond(self, other: Problems) -> bool {
        let new = |own: bool, of_other: bool| own && !of_other;
        new(self.slow, other.slow) || new(self.dropped_7s, other.dropped_7s) || new(self.dropped_30s, other.dropped_30s)
    }
}

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// There were problems, and none is left.
    Fixes,
    /// The same, but the demand ended before the cache was full: a longer one may show them again.
    FixesSoFar,
    /// A problem is gone, or the pace or the longest stall twice as good; nothing is worse.
    Helps,
    /// One thing is better, another worse.
    Mixed,
    /// Neither better nor worse.
    None,
    /// A problem is new, or the pace or the longest stall twice as bad; nothing is better.
    Worsens,
}

/// What a change from `before` to `after` does.
pub fn effect(before: &Judged, after: &Judged) -> Effect {
    let (had, has) = (before.problems, after.problems);
    if had.any() && !has.any() {
        return if after.is_settled { Effect::Fixes } else { Effect::FixesSoFar };
    }
    let speedup = quotient(after.pace, before.pace);
    let (was, is) = (before.longest_stall_ns, after.longest_stall_ns);
    let longer = if was.max(is) > SHORT_NS { quotient(is as f64, was as f64) } else { 1.0 };
    let better = had.beyond(has) || speedup >= FACTOR || longer * FACTOR <= 1.0;
    let worse = has.beyond(had) || speedup * FACTOR <= 1.0 || longer >= FACTOR;
    match (better, worse) {
        (true, false) => Effect::Helps,
        (true, true) => Effect::Mixed,
        (false, false) => Effect::None,
        (false, true) => Effect::Worsens,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::outcome::{Latencies, Latency, Verdict};

    const S: u64 = 1_000_000_000;
    const WANTED: Pace = Pace::BytesPerSecond(100.0);

    fn effect(before: &Course, after: &Course, pace: Pace) -> Effect {
        super::effect(&Judged::new(before, pace), &Judged::new(after, pace))
    }

    /// A drive that does `rate` in the end, and whose longest stall is so many seconds.
    fn course(rate: f64, stall_s: u64) -> Course {
        Course {
            cache_full_at_s: Some(1.0),
            rate_before_bytes_per_s: 100.0,
            rate_after_bytes_per_s: Some(rate),
            longest_stall_ns: stall_s * S,
            disks: 1,
            dropped_7s: u64::from(stall_s > 7),
            dropped_30s: u64::from(stall_s > 30),
            ..Course::default()
        }
    }

    #[test]
    fn a_change_fixes_only_if_no_problem_is_left() {
        let present = course(10.0, 18);
        assert_eq!(effect(&present, &course(50.0, 7), WANTED), Effect::Fixes);
        assert_eq!(effect(&present, &course(49.0, 7), WANTED), Effect::Helps, "still slow");
        assert_eq!(effect(&present, &course(100.0, 8), WANTED), Effect::Helps, "still dropped");
        assert_eq!(effect(&course(80.0, 2), &course(90.0, 2), WANTED), Effect::None, "there was nothing to fix");
    }

    #[test]
    fn what_has_not_filled_its_cache_fixes_only_so_far() {
        let present = course(10.0, 18);
        let open = Course { cache_full_at_s: None, rate_after_bytes_per_s: None, cleans: true, ..course(0.0, 1) };
        assert_eq!(effect(&present, &open, WANTED), Effect::FixesSoFar);
        assert_eq!(effect(&present, &Course { cleans: false, ..open }, WANTED), Effect::Fixes);
    }

    #[test]
    fn a_difference_is_one_of_twice_or_of_a_problem() {
        let present = course(10.0, 18);
        assert_eq!(effect(&present, &course(19.0, 10), WANTED), Effect::None);
        assert_eq!(effect(&present, &course(20.0, 18), WANTED), Effect::Helps);
        assert_eq!(effect(&present, &course(10.0, 9), WANTED), Effect::Helps);
        assert_eq!(effect(&present, &course(10.0, 31), WANTED), Effect::Worsens, "dropped at 30 s too");
        assert_eq!(effect(&present, &course(5.0, 18), WANTED), Effect::Worsens);
        assert_eq!(effect(&present, &course(40.0, 40), WANTED), Effect::Mixed);
    }

    #[test]
    fn waits_under_a_second_make_no_difference() {
        let of = |ms: u64| Course { longest_stall_ns: ms * 1_000_000, ..course(100.0, 0) };
        assert_eq!(effect(&of(30), &of(900), WANTED), Effect::None);
        assert_eq!(effect(&of(30), &of(1100), WANTED), Effect::Worsens);
        assert_eq!(effect(&of(1100), &of(30), WANTED), Effect::Helps);
    }

    #[test]
    fn a_latency_is_judged_the_other_way_round() {
        let of = |mean_ns| Course { mean_ns, ..course(1.0, 0) };
        let pace = Pace::MeanNs(100.0);
        assert!(Judged::new(&of(201), pace).problems.slow && !Judged::new(&of(200), pace).problems.slow);
        assert_eq!(effect(&of(900), &of(150), pace), Effect::Fixes);
        assert_eq!(effect(&of(900), &of(450), pace), Effect::Helps);
        assert_eq!(effect(&of(100), &of(0), pace), Effect::Helps, "nothing is faster than no time");
    }

    #[test]
    fn an_array_is_judged_by_its_members_timeouts_and_its_own_latency() {
        let max = |max| Latencies { all: Latency { max, ..Latency::default() }, ..Latencies::default() };
        let disk = |stall_s: u64, busy_ns| Outcome { latency_ns: max(stall_s * S), busy_ns, ..Outcome::default() };
        let verdict = Verdict { cache_full_at_s: Some(3.0), rate_before_bytes_per_s: 5.0, ..Verdict::default() };
        let members = vec![disk(7, 10), disk(8, 40), disk(31, 20)];
        let array = Outcome { latency_ns: max(40 * S), verdict, members, elapsed_ns: 100, ..Outcome::default() };
        let course = Course::of(&array);
        assert_eq!((course.disks, course.dropped_7s, course.dropped_30s), (3, 2, 1));
        assert_eq!((course.longest_stall_ns, course.idle_share), (40 * S, 0.6));
        assert_eq!(course.cache_full_after_bytes, Some(15));
        let alone = Course::of(&disk(8, 100));
        assert_eq!((alone.disks, alone.dropped_7s, alone.dropped_30s), (1, 1, 0));
    }

    #[test]
    fn fresh_is_what_was_before_the_cache_was_full_if_there_was_such_a_time() {
        let fresh = |at, before| {
            let course = Course { cache_full_at_s: at, rate_before_bytes_per_s: before, ..Course::default() };
            course.fresh_bytes_per_s()
        };
        assert_eq!([fresh(Some(0.0), 5.0), fresh(Some(2.0), 5.0), fresh(None, 5.0)], [None, Some(5.0), None]);
        assert_eq!(fresh(Some(2.0), 0.0), None);
    }
}
