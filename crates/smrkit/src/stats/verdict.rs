//! The plain answer: when the cache fills, what rate remains, how long the worst stall is, and whether a conventional
//! disk would have done better.

use super::outcome::{Outcome, Verdict};
use crate::layer::BASELINE;
use crate::quantity::Bytes;
use crate::units::Nanos;

/// Requests answered late by a conventional disk at this share of the elapsed time show that it can't keep up.
const OVERLOAD_SHARE: f64 = 0.05;

/// Completes `outcome` with what only a comparison tells: slowdown, stalls beside the conventional disk's, the sentence.
pub fn judge(outcome: &mut Outcome, baseline: Option<&Baseline>) {
    if let Some(baseline) = baseline {
        let ratio = outcome.elapsed_ns as f64 / baseline.elapsed_ns as f64;
        outcome.slowdown = (baseline.elapsed_ns > 0).then_some(ratio);
        outcome.verdict.baseline_stalls_over_7s = Some(baseline.stalls_over_7s);
        outcome.verdict.baseline_stalls_over_30s = Some(baseline.stalls_over_30s);
        outcome.verdict.baseline_overloaded = baseline.overloaded;
    }
    outcome.verdict.text = sentence(outcome);
}

/// What a comparison needs of the conventional disk's run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Baseline {
    elapsed_ns: u64,
    stalls_over_7s: u64,
    stalls_over_30s: u64,
    overloaded: bool,
}

impl Baseline {
    /// From the run of [`BASELINE`] on the same requests; `arrivals_ns` is the span of the trace's arrivals, in an open
    /// loop.
    pub fn of(outcome: &Outcome) -> Baseline {
        Baseline {
            elapsed_ns: outcome.elapsed_ns,
            stalls_over_7s: outcome.verdict.stalls_over_7s,
            stalls_over_30s: outcome.verdict.stalls_over_30s,
            overloaded: is_overloaded(outcome),
        }
    }
}

/// Whether an open loop asks more of the disk than it can do: answers end long after arrivals have, and the disk was
/// busy nearly all the time.
fn is_overloaded(outcome: &Outcome) -> bool {
    let late_ns = outcome.elapsed_ns.saturating_sub(outcome.arrivals_ns);
    let share = |part: u64| part as f64 / outcome.elapsed_ns.max(1) as f64;
    outcome.engine.arrival == "trace" && share(late_ns) > OVERLOAD_SHARE && share(outcome.busy_ns) > 0.95
}

fn sentence(outcome: &Outcome) -> String {
    let verdict = &outcome.verdict;
    if outcome.requests == 0 {
        return "No request was counted.".into();
    }
    let mut text = course(outcome);
    text += &format!(" The longest wait for an answer is {}", Nanos(verdict.longest_stall_ns));
    text += &stalls(verdict);
    if verdict.baseline_overloaded {
        text += " The conventional disk itself can't keep up with these arrival times: stretch them with --time-scale.";
    }
    if outcome.interrupted {
        text += " The run was interrupted; this is what it had so far.";
    }
    text
}

/// When cleaning first made a request wait, and the rates before and after.
fn course(outcome: &Outcome) -> String {
    let verdict = &outcome.verdict;
    let before = rate(verdict.rate_before_bytes_per_s);
    let (Some(at_s), Some(after)) = (verdict.cache_full_at_s, verdict.rate_after_bytes_per_s) else {
        let why = match outcome.capacity.cache_sectors {
            _ if outcome.layer == BASELINE => "The conventional disk",
            0 => "No request waits for rewriting",
            _ => "No request waits for cleaning",
        };
        return format!("{why}: {before} throughout.");
    };
    let when = Nanos::from_secs(at_s);
    let after = rate(after);
    let what = match outcome.capacity.cache_sectors {
        0 => "what lies behind them is rewritten",
        _ => "the persistent cache is cleaned",
    };
    let total = match outcome.slowdown {
        Some(slowdown) => format!(", {slowdown:.2} times as long as a conventional disk in all"),
        None => String::new(),
    };
    format!("From {when} on requests wait while {what}: {before} before, {after} from then on{total}.")
}

/// How many requests pass the common timeouts, and how that compares.
fn stalls(verdict: &Verdict) -> String {
    if verdict.stalls_over_7s == 0 {
        return ": no request takes over 7 s.".into();
    }
    let own = |total: u64, baseline: Option<u64>| match baseline {
        Some(0) => format!("{total} (none on a conventional disk)"),
        Some(of_baseline) => format!("{total} ({of_baseline} on a conventional disk)"),
        None => total.to_string(),
    };
    let over_7s = own(verdict.stalls_over_7s, verdict.baseline_stalls_over_7s);
    let over_30s = match verdict.stalls_over_30s {
        0 => "none".into(),
        count => own(count, verdict.baseline_stalls_over_30s),
    };
    format!("; requests over 7 s: {over_7s}, over 30 s: {over_30s}. A timeout of 7 s would drop this drive.")
}

fn rate(bytes_per_s: f64) -> String {
    format!("{}/s", Bytes(bytes_per_s.round() as u64))
}
