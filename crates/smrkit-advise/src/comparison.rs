//! The few numbers of a run that decide, and two runs compared: does a change help?
//!
//! `docs/reference/advise.md` defines the words. This module does not judge how much a problem matters.

use serde::Serialize;

use smrkit::layer::BASELINE;
use smrkit::stats::outcome::{CommandTimes, Outcome};
use smrkit::stats::timeline::Phase;
use smrkit::stats::verdict;
use smrkit::units::{Nanos, SECTOR_BYTES};

use crate::stretches::{Figures, P99_ERROR};

/// Factor by which something has to be better or worse to count as a difference.
pub const FACTOR: f64 = 2.0;

/// Up to this multiple of their time a run does as well as conventional disks (assumption).
pub const ALIKE: f64 = 1.5;

/// Factor by which a quotient may be off whose two p99 are each off by `P99_ERROR`.
const DOUBT: f64 = (1.0 + P99_ERROR) / (1.0 - P99_ERROR);

/// Latencies up to this, of a seek and half a turn, are alike to whoever waits: what a write cache hides is no disk's (assumption).
pub const UNNOTICED_NS: u64 = 10_000_000;

/// Waits below this are no difference that anybody acts on (assumption).
pub const SHORT_NS: u64 = 1_000_000_000;

/// From this share of it in use on, a cache is called full (assumption).
pub const FULL: f64 = 0.9;

/// A cache that would be full only after a week of the same is not called filling, because the load rests before that (assumption).
const LONGEST_FILLING_S: f64 = 7.0 * 86_400.0;

/// The course of a run in a few numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Trajectory {
    /// Requests completed.
    pub requests: u64,
    /// Of them those that a host-managed disk would have refused.
    pub refused: u64,
    /// Of these those that wrote to a zone which had been written full before.
    #[serde(skip)]
    pub refused_by_full_zones: u64,
    /// Bytes that they read and wrote.
    pub bytes: u64,
    /// Their time.
    pub elapsed_ns: u64,
    /// When the last of them came, of those that come at times of their own.
    pub arrivals_ns: u64,
    /// True if requests come faster than they are served, so that ever more of them wait.
    pub falls_behind: bool,
    /// The first moment that a request waited for cleaning, in seconds; null if none did.
    pub cache_full_at_s: Option<f64>,
    /// Seconds more until the cache is full, where it was still filling at the end; null if it was not.
    pub full_in_s: Option<f64>,
    /// Seconds of the load until the cache is full, where the run begins there; null where it begins as the disk was.
    pub full_after_s: Option<f64>,
    /// Host bytes until then, read and written; null if it never came.
    pub cache_full_after_bytes: Option<u64>,
    /// Host bytes a second before that moment, or over the whole run; null if there was no time before it.
    pub rate_before_bytes_per_s: Option<f64>,
    /// Host bytes a second from it on; null if it never came.
    pub rate_after_bytes_per_s: Option<f64>,
    /// Slow and fast phases of that; none where it is steady.
    #[serde(skip)]
    pub phases: Vec<Phase>,
    /// Mean latency.
    pub mean_ns: u64,
    /// The latency that 99 % don't exceed.
    pub p99_ns: u64,
    /// The longest latency of a request.
    pub longest_stall_ns: u64,
    /// That of a read.
    pub longest_read_ns: u64,
    /// That of a write.
    pub longest_write_ns: u64,
    /// True if any of its disks has cleaning to do some day: all but conventional ones.
    pub cleans: bool,
    /// Disks in it.
    pub disks: u64,
    /// Disks that a timeout of 7 s would drop.
    pub dropped_7s: u64,
    /// Disks that a timeout of 30 s would drop.
    pub dropped_30s: u64,
    /// The longest command of any disk, from its dispatch.
    pub longest_command_ns: u64,
    /// Share of the time that its busiest disk was idle.
    pub idle_share: f64,
    /// The rebuild, resilver or scrub, if there was one that ended.
    pub rebuild: Option<RebuildFigures>,
}

/// A rebuild, a resilver or a scrub in a few numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RebuildFigures {
    /// From the failure until the array was redundant again, or all was read; of a part of a disk the time that as large a part of the
    /// whole takes.
    pub elapsed_ns: u64,
    /// Bytes that were rebuilt, or read of each disk.
    pub bytes: u64,
    /// The size of the disk that was rebuilt; of a scrub, of the first disk.
    pub disk_bytes: u64,
}

impl RebuildFigures {
    /// The figures of a part as large of a whole disk, by how much longer it takes than on a disk of half the size. A cache that is a share
    /// of the disk is cleaned as often in either, and each time the drive writes a copy of its map: that time does not grow with the disk. On
    /// the other hand the spare bands that a drive needs at least make up for less of a larger disk.
    pub fn of_whole(self, half: RebuildFigures) -> RebuildFigures {
        let more_ns = self.elapsed_ns.saturating_sub(half.elapsed_ns) as f64;
        let more_bytes = self.disk_bytes.saturating_sub(half.disk_bytes).max(1) as f64;
        let growing_ns = (more_ns / more_bytes * self.disk_bytes as f64) as u64;
        // Beyond these bounds it was chance that made one of them slow, and the two say nothing of how the time grows: all of it is taken to.
        let is_likely = (self.elapsed_ns / 2..=self.elapsed_ns / 2 * 3).contains(&growing_ns);
        let elapsed_ns = if is_likely { growing_ns } else { self.elapsed_ns };
        RebuildFigures { elapsed_ns, ..self }
    }
}

impl Trajectory {
    /// Figures of `outcome`. A disk of an array is dropped for a command of its own.
    pub fn from_outcome(outcome: &Outcome) -> Trajectory {
        let verdict = &outcome.verdict;
        let disks = outcome.drives();
        let over =
            |of: fn(&CommandTimes) -> u64| disks.iter().filter(|disk| of(&disk.verdict.commands) > 0).count() as u64;
        let violations = || disks.iter().map(|disk| disk.layer_stats.violations());
        let working_ns = disks.iter().map(Outcome::working_ns).max().unwrap_or(0);
        Trajectory {
            requests: outcome.requests,
            refused: violations().map(|refused| refused.all).sum(),
            refused_by_full_zones: violations().map(|refused| refused.to_full_zones).sum(),
            bytes: (outcome.host_read_sectors + outcome.host_written_sectors) * SECTOR_BYTES,
            elapsed_ns: outcome.elapsed_ns,
            arrivals_ns: outcome.arrivals_ns,
            falls_behind: verdict::is_overloaded(outcome),
            cache_full_at_s: verdict.cache_full_at_s,
            full_in_s: full_in_s(outcome),
            full_after_s: None,
            cache_full_after_bytes: verdict.cache_full_at_s.map(|_| verdict.before_bytes),
            rate_before_bytes_per_s: verdict.rate_before_bytes_per_s,
            rate_after_bytes_per_s: verdict.rate_after_bytes_per_s,
            phases: verdict
                .cache_full_at_s
                .map_or_else(Vec::new, |at_s| outcome.timeline.phases_from(Nanos::from_secs(at_s))),
            mean_ns: outcome.latency_ns.all.mean,
            p99_ns: outcome.latency_ns.all.p99,
            longest_stall_ns: outcome.latency_ns.all.max,
            longest_read_ns: outcome.latency_ns.read.max,
            longest_write_ns: outcome.latency_ns.write.max,
            cleans: disks.iter().any(|disk| disk.layer != BASELINE),
            disks: disks.len() as u64,
            dropped_7s: over(|times| times.commands_over_7s),
            dropped_30s: over(|times| times.commands_over_30s),
            longest_command_ns: disks.iter().map(|disk| disk.verdict.commands.longest_command_ns).max().unwrap_or(0),
            rebuild: rebuilt(outcome),
            idle_share: 1.0 - (working_ns as f64 / outcome.elapsed_ns.max(1) as f64).min(1.0),
        }
    }

    /// The share of its requests that a host-managed disk would have refused.
    pub fn refused_share(&self) -> f64 {
        self.refused as f64 / self.requests.max(self.refused).max(1) as f64
    }

    /// True if most of what is refused would have been taken by empty zones.
    pub fn is_refused_by_full_zones(&self) -> bool {
        2 * self.refused_by_full_zones > self.refused
    }

    /// The rate that remains: from when the cache is full, or throughout.
    pub fn lasting_bytes_per_s(&self) -> f64 {
        self.rate_after_bytes_per_s.or(self.rate_before_bytes_per_s).unwrap_or(0.0)
    }

    /// Bytes a second that are asked for, where requests come at times of their own.
    pub fn asked_bytes_per_s(&self) -> f64 {
        self.bytes as f64 / (self.arrivals_ns as f64 / 1e9).max(1e-9)
    }

    /// Estimates the seconds to move `bytes`, which are no fewer than the run moved: the run's own time, then the lasting rate for whatever the
    /// run did not reach.
    pub fn seconds_for(&self, bytes: f64) -> f64 {
        let elapsed_s = self.elapsed_ns as f64 / 1e9;
        // The last known point, from which the lasting rate is extrapolated.
        let (mut known_s, mut known_bytes) = (elapsed_s, self.bytes as f64);
        if let Some((full_s, full_bytes)) =
            self.cache_full_at_s.zip(self.cache_full_after_bytes).filter(|_| self.is_full_later())
        {
            // The cache fills only after the end of this run. Until then the run's mean rate holds.
            if bytes <= full_bytes as f64 {
                return elapsed_s * bytes / known_bytes.max(1.0);
            }
            (known_s, known_bytes) = (full_s, full_bytes as f64);
        }
        known_s + (bytes - known_bytes) / self.lasting_bytes_per_s().max(1e-9)
    }

    /// True if the cache is full only after the end of the run, and another run has told what comes then.
    pub fn is_full_later(&self) -> bool {
        self.cache_full_at_s.is_some_and(|at_s| at_s > self.elapsed_ns as f64 / 1e9)
    }

    /// Appends the run from when the cache is full to this one, at whose end it was still filling.
    pub fn append(&mut self, later: &Trajectory) {
        let Some(more_s) = self.full_in_s.take() else { return };
        let at_s = self.elapsed_ns as f64 / 1e9 + more_s;
        self.cache_full_at_s = Some(at_s);
        self.cache_full_after_bytes = self.rate_before_bytes_per_s.map(|rate| (rate * at_s) as u64);
        self.rate_after_bytes_per_s = Some(later.lasting_bytes_per_s());
        self.phases.clone_from(&later.phases);
        self.longest_stall_ns = self.longest_stall_ns.max(later.longest_stall_ns);
        self.longest_read_ns = self.longest_read_ns.max(later.longest_read_ns);
        self.longest_write_ns = self.longest_write_ns.max(later.longest_write_ns);
        self.longest_command_ns = self.longest_command_ns.max(later.longest_command_ns);
        self.dropped_7s = self.dropped_7s.max(later.dropped_7s);
        self.dropped_30s = self.dropped_30s.max(later.dropped_30s);
    }

    /// Figures of its requests.
    pub fn figures(&self) -> Figures {
        Figures {
            requests: self.requests,
            elapsed_ns: self.elapsed_ns,
            mean_ns: self.mean_ns,
            p99_ns: self.p99_ns,
            longest_ns: self.longest_stall_ns,
        }
    }
}

/// The share of the cache in use at the end of each window; of a log, that of what was free at the beginning. `None` where the layer has
/// neither.
fn fill(outcome: &Outcome) -> Option<Vec<f64>> {
    let timeline = &outcome.timeline;
    if !timeline.cache_fill.is_empty() {
        return Some(timeline.cache_fill.clone());
    }
    let left = ["free_segments", "free_conventional_share"].iter().find_map(|name| timeline.gauges.get(*name))?;
    Some(left.iter().map(|free| 1.0 - free / left[0].max(1e-9)).collect())
}

/// How many times as much as was served fills what is left of the cache; `None` where it did not fill more.
pub fn share_until_full(outcome: &Outcome) -> Option<f64> {
    let fill = fill(outcome)?;
    let (first, last) = (fill.first()?, fill.last()?);
    (last > first).then(|| (1.0 - last).max(0.0) / (last - first))
}

/// Seconds from the end of a run until the cache is full, where it fills more with each quarter of the run; `None` if it does not, or
/// was full before. A log, as dm-zoned's zones for random writes, is called full when requests wait for it, which is before its last
/// segment is used.
fn full_in_s(outcome: &Outcome) -> Option<f64> {
    let timeline = &outcome.timeline;
    let fill = fill(outcome)?;
    // A cache may make requests wait long before it is full: where its drive begins to clean in every pause.
    let was_full = outcome.verdict.cache_full_at_s.is_some()
        && (timeline.cache_fill.is_empty() || fill.iter().any(|&fill| fill >= FULL));
    let quarter = fill.len() / 4;
    if was_full || quarter == 0 {
        return None;
    }
    let mean = |nth: usize| {
        let all = &fill[fill.len() - (nth + 1) * quarter..fill.len() - nth * quarter];
        all.iter().sum::<f64>() / quarter as f64
    };
    let (last, before, first) = (mean(0), mean(1), mean(2));
    let a_second = (last - first) / (2.0 * quarter as f64 * timeline.window_ns as f64 / 1e9);
    let seconds = (1.0 - fill[fill.len() - 1]).max(0.0) / a_second;
    (first <= before && before <= last && first < last && seconds <= LONGEST_FILLING_S).then_some(seconds)
}

fn rebuilt(outcome: &Outcome) -> Option<RebuildFigures> {
    let rebuild = outcome.rebuild.as_ref()?;
    let new = rebuild.members.iter().position(|member| member.new).unwrap_or(0);
    let disk_bytes = outcome.members.get(new)?.capacity.host_sectors * SECTOR_BYTES;
    Some(RebuildFigures { elapsed_ns: rebuild.elapsed_ns, bytes: rebuild.bytes, disk_bytes })
}

/// Mean bytes of a request.
pub fn mean_request_bytes(outcome: &Outcome) -> f64 {
    let bytes = (outcome.host_read_sectors + outcome.host_written_sectors) * SECTOR_BYTES;
    bytes as f64 / outcome.requests.max(1) as f64
}

/// One run compared with another over the same requests: each measure as a multiple of the other's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Multiples {
    /// Of the time; null where the times of the requests, or pauses, decide it.
    pub elapsed: Option<f64>,
    /// Of the mean latency.
    pub mean: f64,
    /// Of the latency that 99 % don't exceed.
    pub p99: f64,
    /// Of the longest latency.
    pub longest: f64,
}

impl Multiples {
    /// `own` compared with `other`; `is_timed` says whether the time of the run is the disk's own.
    pub fn from_figures(own: &Figures, other: &Figures, is_timed: bool) -> Multiples {
        let times = |of: fn(&Figures) -> u64| match of(own).max(of(other)) <= UNNOTICED_NS {
            true => 1.0,
            false => quotient(of(own) as f64, of(other) as f64),
        };
        Multiples {
            elapsed: is_timed.then(|| {
                let for_one = |figures: &Figures| figures.elapsed_ns as f64 / figures.requests.max(1) as f64;
                // If the runs served different numbers of requests, as after a warm-up until each is steady, the times of one are compared.
                match own.requests == other.requests {
                    true => quotient(own.elapsed_ns as f64, other.elapsed_ns as f64),
                    false => quotient(for_one(own), for_one(other)),
                }
            }),
            mean: times(|figures| figures.mean_ns),
            p99: times(|figures| figures.p99_ns),
            longest: times(|figures| figures.longest_ns),
        }
    }

    /// The multiple that counts: of the time, where requests follow each other as fast as they are served, since nobody waits for one of
    /// them; else the larger of mean and p99. The longest latency is one request's.
    pub fn worst(&self) -> f64 {
        self.elapsed.unwrap_or(self.mean.max(self.p99))
    }
}

/// Quotient of two that are not negative; 1 where both are nothing.
pub fn quotient(over: f64, under: f64) -> f64 {
    match (over > 0.0, under > 0.0) {
        (_, true) => over / under,
        (true, false) => f64::INFINITY,
        (false, false) => 1.0,
    }
}

/// A run compared with that of conventional disks over the same requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// As a whole.
    pub whole: Multiples,
    /// From the first wait for cleaning on; null if none waited.
    pub from_first_wait: Option<Multiples>,
    /// The time of the rebuild as a multiple; null without one.
    pub rebuild: Option<f64>,
}

impl Comparison {
    /// The largest multiple, as a whole or from the first wait on.
    pub fn worst(&self) -> f64 {
        self.worst_with(1.0)
    }

    /// True if the run is slow: some multiple is surely over 2.
    pub fn is_slow(&self) -> bool {
        self.worst_with(1.0 / DOUBT) > FACTOR
    }

    /// True if it does as well as conventional disks: no multiple may be over 1.5.
    pub fn is_alike(&self) -> bool {
        self.worst_with(DOUBT) <= ALIKE
    }

    /// The worst multiple. Those since cleaning first delayed a request are known less exactly, and count `factor` times.
    fn worst_with(&self, factor: f64) -> f64 {
        let later = self.from_first_wait.map_or(0.0, |later| later.worst() * factor);
        later.max(self.whole.worst()).max(self.rebuild.unwrap_or(0.0))
    }
}

/// Problems of a run. Their order is that of how bad they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problems {
    /// A host-managed disk would refuse some of its requests, so that no time of it is a disk's.
    pub refused: bool,
    /// A timeout of 30 s would drop a disk.
    pub dropped_30s: bool,
    /// A timeout of 7 s would drop a disk.
    pub dropped_7s: bool,
    /// True if it takes more than twice what conventional disks take for the same requests.
    pub slow: bool,
}

/// A run, judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// Its problems.
    pub problems: Problems,
    /// Its time, mean latency, p99 and rebuild as multiples of those of conventional disks, as far as they can be compared
    /// with another run's.
    pub multiples: [Option<f64>; 4],
    /// Its longest latency.
    pub longest_stall_ns: u64,
    /// True if it has shown what remains: its cache was full, or there is nothing to clean.
    pub is_settled: bool,
}

impl Judged {
    /// Judges a run by conventional disks over the same requests.
    pub fn new(run: &Trajectory, comparison: &Comparison) -> Judged {
        let problems = Problems {
            refused: run.refused > 0,
            slow: comparison.is_slow(),
            dropped_7s: run.dropped_7s > 0,
            dropped_30s: run.dropped_30s > 0,
        };
        let is_settled = run.cache_full_at_s.is_some() || !run.cleans;
        let Multiples { elapsed, mean, p99, .. } = comparison.whole;
        let multiples = [elapsed, Some(mean), Some(p99), comparison.rebuild];
        // A rebuild alone has no requests that wait, but commands that do.
        let longest_stall_ns = run.longest_stall_ns.max(run.longest_command_ns);
        Judged { problems, multiples, longest_stall_ns, is_settled }
    }
}

impl Problems {
    fn all(self) -> [bool; 4] {
        [self.refused, self.dropped_30s, self.dropped_7s, self.slow]
    }

    /// True if there is any.
    pub fn any(self) -> bool {
        self.all().contains(&true)
    }

    /// True if `self` has one that `other` has not.
    pub fn beyond(self, other: Problems) -> bool {
        self.all().into_iter().zip(other.all()).any(|(own, of_other)| own && !of_other)
    }
}

/// Effect of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// There were problems, and none is left.
    Fixes,
    /// No problem is left, but the demand ended before the cache was full: a longer one may show them again.
    FixesSoFar,
    /// A problem is gone, or a multiple or the longest stall halved; nothing is worse.
    Helps,
    /// One thing is better, another worse.
    Mixed,
    /// Neither better nor worse.
    None,
    /// A problem is new, or a multiple or the longest stall doubled; nothing is better.
    Worsens,
}

/// The times of a run before and after a change of its requests' sizes, as multiples of that of conventional disks. How much of an even load
/// was run before its cache was full is chance, so what remains is compared.
pub fn times_by_bytes(before: &Comparison, after: &Comparison, is_even: bool) -> [Option<f64>; 2] {
    match before.from_first_wait.zip(after.from_first_wait).filter(|_| is_even) {
        Some((was, is)) => [was.elapsed, is.elapsed],
        None => [before.whole.elapsed, after.whole.elapsed],
    }
}

/// Effect of a change from `before` to `after`.
pub fn effect(before: &Judged, after: &Judged) -> Effect {
    let (had, has) = (before.problems, after.problems);
    if had.any() && !has.any() {
        return if after.is_settled { Effect::Fixes } else { Effect::FixesSoFar };
    }
    let (was, is) = (before.longest_stall_ns, after.longest_stall_ns);
    let longer = (was.max(is) > SHORT_NS).then(|| quotient(is as f64, was as f64));
    let pairs = before.multiples.into_iter().zip(after.multiples);
    let changed = pairs.filter_map(|(was, is)| Some(quotient(is?, was?)));
    let factors: Vec<f64> = changed.chain(longer).collect();
    let better = had.beyond(has) || factors.iter().any(|factor| factor * FACTOR <= 1.0);
    let worse = has.beyond(had) || factors.iter().any(|&factor| factor >= FACTOR);
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
    use smrkit::stats::outcome::{Latencies, Latency, Verdict};
    use smrkit::units::Nanos;

    const S: u64 = 1_000_000_000;

    /// Multiples of conventional disks in time, mean and p99.
    fn times(elapsed: f64, mean: f64, p99: f64) -> Comparison {
        let whole = Multiples { elapsed: Some(elapsed), mean, p99, longest: 1.0 };
        Comparison { whole, from_first_wait: None, rebuild: None }
    }

    /// A drive that is this many times as slow, and whose longest stall is this many seconds.
    fn judged(multiple: f64, stall_s: u64) -> Judged {
        Judged::new(&course(stall_s), &times(multiple, multiple, multiple))
    }

    fn course(stall_s: u64) -> Trajectory {
        Trajectory {
            cache_full_at_s: Some(1.0),
            longest_stall_ns: stall_s * S,
            disks: 1,
            dropped_7s: u64::from(stall_s > 7),
            dropped_30s: u64::from(stall_s > 30),
            ..Trajectory::default()
        }
    }

    #[test]
    fn what_remains_of_an_even_load_is_compared() {
        let of = |whole, later: Option<f64>| {
            let times = |times| Multiples { elapsed: Some(times), mean: times, p99: times, longest: times };
            Comparison { whole: times(whole), from_first_wait: later.map(times), rebuild: None }
        };
        let compared = |later, is_even| times_by_bytes(&of(13.0, Some(18.0)), &of(8.0, later), is_even);
        assert_eq!(compared(Some(5.0), true), [Some(18.0), Some(5.0)]);
        assert_eq!(compared(Some(5.0), false), [Some(13.0), Some(8.0)]);
        assert_eq!(compared(None, true), [Some(13.0), Some(8.0)]);
    }

    #[test]
    fn a_run_is_slow_where_any_measure_is_twice_the_conventional() {
        let fine = Multiples { elapsed: Some(1.0), mean: 1.0, p99: 1.0, longest: 9.0 };
        assert!(!times(2.0, 2.0, 2.0).is_slow() && !times(1.6, 1.0, 1.0).is_alike());
        assert!(times(2.01, 1.0, 1.0).is_slow() && times(1.0, 9.0, 9.0).is_alike(), "time is what counts");
        let open = |mean, p99| {
            let whole = Multiples { elapsed: None, mean, p99, longest: 1.0 };
            Comparison { whole, from_first_wait: None, rebuild: None }
        };
        assert!(open(2.01, 1.0).is_slow() && open(1.0, 2.01).is_slow() && !open(2.0, 2.0).is_slow());
        let whole = Comparison { whole: fine, from_first_wait: None, rebuild: None };
        assert!(whole.is_alike(), "the longest is one request's");
        let later = Comparison { from_first_wait: Some(Multiples { elapsed: Some(3.0), ..fine }), ..whole };
        assert!(later.is_slow() && !later.is_alike());
        assert!(Comparison { rebuild: Some(2.1), ..whole }.is_slow(), "a rebuild that takes twice as long");
        const MS: u64 = 1_000_000;
        let figures =
            |elapsed_ns, mean_ms| Figures { requests: 9, elapsed_ns, mean_ns: mean_ms * MS, p99_ns: 0, longest_ns: 4 };
        let beside = Multiples::from_figures(&figures(30, 10), &figures(10, 20), true);
        assert_eq!(beside, Multiples { elapsed: Some(3.0), mean: 0.5, p99: 1.0, longest: 1.0 });
        assert_eq!(Multiples::from_figures(&figures(30, 10), &figures(10, 20), false).worst(), 1.0);
        assert_eq!(
            Multiples::from_figures(&figures(1, 10), &figures(1, 1), false).worst(),
            1.0,
            "no longer than a seek"
        );
        assert_eq!(Multiples::from_figures(&figures(1, 12), &figures(1, 1), false).worst(), 12.0);
    }

    #[test]
    fn what_does_not_grow_with_a_disk_is_left_out_of_its_rebuild() {
        let of = |seconds: u64, disk_bytes: u64| RebuildFigures { elapsed_ns: seconds * S, bytes: 0, disk_bytes };
        let whole = |part: u64, half: u64| of(part, 20).of_whole(of(half, 10)).elapsed_ns / S;
        assert_eq!(whole(100, 50), 100);
        assert_eq!(whole(100, 60), 80, "20 s come in each of them");
        assert_eq!(whole(100, 40), 120, "of a smaller disk more is spare");
        assert_eq!((whole(100, 100), whole(100, 10)), (100, 100), "by chance");
    }

    #[test]
    fn a_change_fixes_only_if_no_problem_is_left() {
        let present = judged(10.0, 18);
        assert_eq!(effect(&present, &judged(2.0, 7)), Effect::Fixes);
        assert_eq!(effect(&present, &judged(2.1, 7)), Effect::Helps, "still slow");
        assert_eq!(effect(&present, &judged(1.0, 8)), Effect::Helps, "still dropped");
        assert_eq!(effect(&judged(1.2, 2), &judged(1.0, 2)), Effect::None, "there was nothing to fix");
    }

    #[test]
    fn what_has_not_filled_its_cache_fixes_only_so_far() {
        let present = judged(10.0, 18);
        let open = Trajectory { cache_full_at_s: None, cleans: true, ..course(1) };
        let of = |course: &Trajectory| Judged::new(course, &times(1.0, 1.0, 1.0));
        assert_eq!(effect(&present, &of(&open)), Effect::FixesSoFar);
        assert_eq!(effect(&present, &of(&Trajectory { cleans: false, ..open })), Effect::Fixes);
    }

    #[test]
    fn a_difference_is_one_of_twice_or_of_a_problem() {
        let present = judged(10.0, 18);
        assert_eq!(effect(&present, &judged(6.0, 10)), Effect::None);
        assert_eq!(effect(&present, &judged(5.0, 18)), Effect::Helps);
        assert_eq!(effect(&present, &judged(10.0, 9)), Effect::Helps);
        assert_eq!(effect(&present, &judged(10.0, 31)), Effect::Worsens, "dropped at 30 s too");
        assert_eq!(effect(&present, &judged(20.0, 18)), Effect::Worsens);
        assert_eq!(effect(&present, &judged(3.0, 40)), Effect::Mixed);
        let p99 = Judged { multiples: [Some(10.0), Some(10.0), Some(4.0), None], ..present };
        assert_eq!(effect(&present, &p99), Effect::Helps, "one measure is enough");
        let time_left_out = Judged { multiples: [None, Some(10.0), Some(10.0), None], ..present };
        assert_eq!(effect(&present, &time_left_out), Effect::None, "what can't be compared is no difference");
    }

    #[test]
    fn waits_under_a_second_make_no_difference() {
        let of = |ms: u64| Judged { longest_stall_ns: ms * 1_000_000, ..judged(1.0, 0) };
        assert_eq!(effect(&of(30), &of(900)), Effect::None);
        assert_eq!(effect(&of(30), &of(1100)), Effect::Worsens);
        assert_eq!(effect(&of(1100), &of(30)), Effect::Helps);
    }

    #[test]
    fn shorter_commands_of_a_rebuild_alone_help() {
        let of = |ms: u64| Trajectory { longest_command_ns: ms * 1_000_000, ..Trajectory::default() };
        let [before, after] = [of(3750), of(654)].map(|run| Judged::new(&run, &times(1.0, 1.0, 1.0)));
        assert_eq!(effect(&before, &after), Effect::Helps);
    }

    #[test]
    fn an_array_is_judged_by_its_members_timeouts_and_its_own_latency() {
        let max = |max| Latencies { all: Latency { max, ..Latency::default() }, ..Latencies::default() };
        let disk = |stall_s: u64, busy_ns| {
            let mut commands = CommandTimes::default();
            commands.count(Nanos(stall_s * S));
            let verdict = Verdict { commands, ..Verdict::default() };
            Outcome { latency_ns: max(50 * S), verdict, busy_ns, ..Outcome::default() }
        };
        let verdict = Verdict { cache_full_at_s: Some(3.0), before_bytes: 15, ..Verdict::default() };
        let members = vec![disk(7, 10), disk(8, 40), disk(31, 20)];
        let array = Outcome { latency_ns: max(40 * S), verdict, members, elapsed_ns: 100, ..Outcome::default() };
        let course = Trajectory::from_outcome(&array);
        assert_eq!((course.disks, course.dropped_7s, course.dropped_30s), (3, 2, 1));
        assert_eq!((course.longest_stall_ns, course.idle_share), (40 * S, 0.6));
        assert_eq!(course.cache_full_after_bytes, Some(15));
        let alone = Trajectory::from_outcome(&disk(8, 100));
        assert_eq!((alone.disks, alone.dropped_7s, alone.dropped_30s), (1, 1, 0));
    }
}
