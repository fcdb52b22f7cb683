//! Verdicts of several merged runs, counted: of a cloud's volumes, how many would stall.

use serde::{Deserialize, Serialize};

/// The longest latencies that runs are told apart by; a run beyond the last is in a class of its own.
const STALLS_NS: [u64; 6] = [10_000_000, 100_000_000, 1_000_000_000, 7_000_000_000, 30_000_000_000, u64::MAX];
/// Slowdowns that runs are told apart by, in percent.
const SLOWDOWNS_PERCENT: [u64; 7] = [100, 110, 150, 200, 500, 1000, u64::MAX];

/// Number of runs that came to each verdict. Sums, so that merges of merges are exact. `docs/reference/outcome.md` explains every key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictCounts {
    /// Runs that counted a request.
    pub runs: u64,
    /// Those with a request that waited for cleaning.
    pub waiting_for_cleaning: u64,
    /// Those with a request over 7 s.
    pub stalling_over_7s: u64,
    /// Those with a request over 30 s.
    pub stalling_over_30s: u64,
    /// Those with a command over 7 s: a timeout would drop the drive.
    pub dropped_at_7s: u64,
    /// Those whose conventional disk had a request over 7 s.
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

    /// The counts of both.
    pub(super) fn plus(self, other: &VerdictCounts) -> VerdictCounts {
        let both = |own: Vec<(u64, u64)>, other: &Vec<(u64, u64)>| match own.is_empty() {
            true => other.clone(),
            false => own
                .into_iter()
                .map(|(limit, runs)| {
                    let more = other.iter().filter(|(of, _)| *of == limit).map(|(_, runs)| runs).sum::<u64>();
                    (limit, runs + more)
                })
                .collect(),
        };
        VerdictCounts {
            runs: self.runs + other.runs,
            waiting_for_cleaning: self.waiting_for_cleaning + other.waiting_for_cleaning,
            stalling_over_7s: self.stalling_over_7s + other.stalling_over_7s,
            stalling_over_30s: self.stalling_over_30s + other.stalling_over_30s,
            dropped_at_7s: self.dropped_at_7s + other.dropped_at_7s,
            baseline_stalling_over_7s: self.baseline_stalling_over_7s + other.baseline_stalling_over_7s,
            longest_ns: both(self.longest_ns, &other.longest_ns),
            slowdown_percent: both(self.slowdown_percent, &other.slowdown_percent),
        }
    }
}

/// Counts a run in the first class that holds it.
fn add(classes: &mut [(u64, u64)], holds: impl Fn(u64) -> bool) {
    if let Some((_, runs)) = classes.iter_mut().find(|(limit, _)| holds(*limit)) {
        *runs += 1;
    }
}
