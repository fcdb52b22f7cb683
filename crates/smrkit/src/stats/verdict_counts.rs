//! Verdicts of several merged runs, counted: of a cloud's volumes, how many would stall.

use std::ops::Add;

use serde::{Deserialize, Serialize};

use super::physical::add_fields;

/// The longest latencies that runs are told apart by; a run beyond the last is in a class of its own.
const STALLS_NS: [u64; 6] = [10_000_000, 100_000_000, 1_000_000_000, 7_000_000_000, 30_000_000_000, u64::MAX];
/// Slowdowns that runs are told apart by, in percent.
const SLOWDOWNS_PERCENT: [u64; 7] = [100, 110, 150, 200, 500, 1000, u64::MAX];

/// Number of runs that came to each verdict. Sums, so that merges of merges are exact. `docs/reference/outcome.md` explains every key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictCounts {
    /// Runs that counted a request.
    pub runs: u64,
    /// Runs with a request that waited for cleaning.
    pub waiting_for_cleaning: u64,
    /// Runs with a request over 7 s.
    pub stalling_over_7s: u64,
    /// Runs with a request over 30 s.
    pub stalling_over_30s: u64,
    /// Runs with a command over 7 s: a timeout would drop the drive.
    pub dropped_at_7s: u64,
    /// Runs whose conventional disk had a request over 7 s.
    pub baseline_stalling_over_7s: u64,
    /// (longest latency at most, runs), ascending.
    pub longest_ns: Vec<(u64, u64)>,
    /// (slowdown in percent at most, runs), ascending; of runs that were compared.
    pub slowdown_percent: Vec<(u64, u64)>,
}

/// Verdict of one run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RunVerdict {
    pub is_waiting: bool,
    pub stalls_over_7s: u64,
    pub stalls_over_30s: u64,
    pub commands_over_7s: u64,
    pub baseline_stalls_over_7s: u64,
    pub longest_ns: u64,
    pub slowdown: Option<f64>,
}

impl VerdictCounts {
    /// The counts of one run.
    pub(super) fn one(run: &RunVerdict) -> VerdictCounts {
        let longest_ns = STALLS_NS.map(|limit| (limit, 0));
        let slowdown_percent = SLOWDOWNS_PERCENT.map(|limit| (limit, 0));
        let mut one = VerdictCounts {
            runs: 1,
            waiting_for_cleaning: u64::from(run.is_waiting),
            stalling_over_7s: u64::from(run.stalls_over_7s > 0),
            stalling_over_30s: u64::from(run.stalls_over_30s > 0),
            dropped_at_7s: u64::from(run.commands_over_7s > 0),
            baseline_stalling_over_7s: u64::from(run.baseline_stalls_over_7s > 0),
            longest_ns: longest_ns.to_vec(),
            slowdown_percent: slowdown_percent.to_vec(),
        };
        add(&mut one.longest_ns, |limit| run.longest_ns <= limit);
        if let Some(slowdown) = run.slowdown {
            add(&mut one.slowdown_percent, |limit| limit == u64::MAX || slowdown * 100.0 <= limit as f64);
        }
        one
    }
}

add_fields!(VerdictCounts: runs, waiting_for_cleaning, stalling_over_7s, stalling_over_30s, dropped_at_7s,
    baseline_stalling_over_7s, longest_ns by both, slowdown_percent by both);

/// The counts of both, by class.
fn both(own: Vec<(u64, u64)>, other: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    if own.is_empty() {
        return other;
    }
    let more = |limit: u64| other.iter().filter(|(of, _)| *of == limit).map(|(_, runs)| runs).sum::<u64>();
    own.into_iter().map(|(limit, runs)| (limit, runs + more(limit))).collect()
}

/// Counts a run in the first class that holds it.
fn add(classes: &mut [(u64, u64)], holds: impl Fn(u64) -> bool) {
    if let Some((_, runs)) = classes.iter_mut().find(|(limit, _)| holds(*limit)) {
        *runs += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The class that a run is counted in, of those of its longest latency and of its slowdown.
    fn classes(longest_ns: u64, slowdown: Option<f64>) -> (u64, Option<u64>) {
        let one = VerdictCounts::one(&RunVerdict { longest_ns, slowdown, ..RunVerdict::default() });
        let class = |classes: &[(u64, u64)]| {
            assert!(classes.iter().map(|class| class.1).sum::<u64>() <= 1);
            classes.iter().find(|class| class.1 > 0).map(|class| class.0)
        };
        (class(&one.longest_ns).unwrap(), class(&one.slowdown_percent))
    }

    #[test]
    fn a_run_is_counted_in_the_first_class_that_holds_it() {
        for limit in STALLS_NS {
            assert_eq!(classes(limit, None).0, limit);
        }
        for (below, above) in STALLS_NS.iter().zip(&STALLS_NS[1..]) {
            assert_eq!(classes(below + 1, None).0, *above);
        }
        for (slowdown, percent) in [(0.1, 100), (1.0, 100), (1.01, 110), (1.5, 150), (2.0, 200), (2.01, 500)] {
            assert_eq!(classes(0, Some(slowdown)).1, Some(percent), "{slowdown}");
        }
        for (slowdown, percent) in [(10.0, 1000), (10.1, u64::MAX), (f64::MAX, u64::MAX), (f64::INFINITY, u64::MAX)] {
            assert_eq!(classes(0, Some(slowdown)).1, Some(percent), "{slowdown}");
        }
        assert_eq!(classes(0, None).1, None);
    }

    #[test]
    fn each_verdict_is_counted_by_itself_and_sums_are_by_class() {
        let none = VerdictCounts::one(&RunVerdict::default());
        let alone = [
            RunVerdict { is_waiting: true, ..RunVerdict::default() },
            RunVerdict { stalls_over_7s: 3, ..RunVerdict::default() },
            RunVerdict { stalls_over_30s: 3, ..RunVerdict::default() },
            RunVerdict { commands_over_7s: 3, ..RunVerdict::default() },
            RunVerdict { baseline_stalls_over_7s: 3, ..RunVerdict::default() },
        ];
        let counts = |counts: &VerdictCounts| {
            [
                counts.waiting_for_cleaning,
                counts.stalling_over_7s,
                counts.stalling_over_30s,
                counts.dropped_at_7s,
                counts.baseline_stalling_over_7s,
            ]
        };
        assert_eq!((none.runs, counts(&none)), (1, [0; 5]));
        let mut sum = VerdictCounts::default();
        for (at, run) in alone.iter().enumerate() {
            let one = VerdictCounts::one(run);
            assert_eq!(counts(&one), std::array::from_fn(|other| u64::from(other == at)));
            // The first is counted once, the next twice, and so on.
            for _ in 0..=at {
                sum = sum + one.clone();
            }
        }
        assert_eq!((sum.runs, counts(&sum)), (15, [1, 2, 3, 4, 5]));
        assert_eq!((sum.longest_ns[0], sum.longest_ns.len()), ((STALLS_NS[0], 15), STALLS_NS.len()));
        let slow = VerdictCounts::one(&RunVerdict { longest_ns: 8_000_000_000, slowdown: Some(3.0), ..alone[0] });
        let both = slow.clone() + slow + none;
        assert_eq!((both.longest_ns[0].1, both.longest_ns[4].1, both.slowdown_percent[4].1), (1, 2, 2));
    }
}
