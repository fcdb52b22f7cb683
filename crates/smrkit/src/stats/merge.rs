//! Several outcomes as one: what one count over the requests of all runs would have given.
//!
//! Counts and times are sums, also `elapsed_ns` and `arrivals_ns`; percentiles come from the fine buckets, ratios and rates from the
//! sums. Timelines begin together, with the counting, and lie over each other.

use std::ops::Add;

use super::builder::{OutcomeBuilder, Physical, RunNames, RunRequest};
use super::counts::{HostSide, HostTotals};
use super::histogram::{LatencyCounts, LatencyLists};
use super::latency_buckets::LatencyBuckets;
use super::outcome::{Outcome, RunRecord, SourceCounts};
use super::physical::{Commands, Surface};
use super::replayed::Replayed;
use super::sums::common;
use super::timeline::Timeline;
use super::verdict_counts::{RunVerdict, VerdictCounts};
use crate::error::Error;
use crate::settings::Settings;
use crate::units::Nanos;

impl Outcome {
    /// Merges the outcomes of runs of one system with the same settings, on any requests and seeds.
    ///
    /// Percentiles, counts, sums and maxima are those of one run over all requests. What differs between the runs and can't
    /// be summed is null or empty: names of traces and workloads, gauges, counters that are no whole numbers, and what only
    /// a comparison tells. For that, merge the baselines too, and judge with
    /// [`super::verdict::judge`] and [`super::verdict::Baseline::from_outcome`]. `seed` is the first run's.
    ///
    /// An error names what differs; a power cut, a rebuild, a record in summary, and times of more than 64 bits are refused.
    pub fn merge(outcomes: &[Outcome]) -> Result<Outcome, Error> {
        let merged = merge(&outcomes.iter().collect::<Vec<_>>())?;
        Ok(merged.finish())
    }
}

fn merge(outcomes: &[&Outcome]) -> Result<OutcomeBuilder, Error> {
    let Some(&first) = outcomes.first() else {
        return Err(Error::Usage("there is no outcome to merge: give at least one".into()));
    };
    outcomes.iter().try_for_each(|other| check(first, other))?;
    check_times(outcomes)?;
    let asked = RunRequest {
        engine: Settings { seed: first.seed, ..first.engine },
        state: first.state.clone(),
        run: RunRecord { window_ns: common(outcomes, |one| &one.run.window_ns).copied().flatten(), ..system(first) },
        version: first.version.clone(),
        commit: first.commit.clone(),
    };
    let names = RunNames {
        asked: common(outcomes, |one| &one.asked).cloned().unwrap_or_default(),
        ..RunNames::from_outcome(first)
    };
    Ok(OutcomeBuilder {
        array: first.array.clone(),
        scaled: outcomes.iter().filter_map(|one| one.scaled).max_by_key(|scaled| scaled.needed_bytes),
        replayed: replayed(outcomes),
        merged_runs: Some(outcomes.iter().map(|one| runs(one)).sum()),
        merged_verdicts: Some(outcomes.iter().map(|one| verdicts(one)).fold(VerdictCounts::default(), Add::add)),
        interrupted: outcomes.iter().any(|one| one.interrupted),
        members: members(outcomes)?,
        names,
        physical: physical(outcomes),
        host: host(outcomes)?,
        asked,
        ..OutcomeBuilder::default()
    })
}

/// Physical state of one drive over several runs, one after another.
fn physical(outcomes: &[&Outcome]) -> Physical {
    let all: Vec<Physical> = outcomes.iter().map(|one| Physical::from_outcome(one)).collect();
    Physical {
        map_bytes: all.iter().map(|one| one.map_bytes).max().unwrap_or(0),
        capacity: all.first().map(|one| one.capacity).unwrap_or_default(),
        surface: surface(&all),
        ..Physical::sum(&all.iter().collect::<Vec<_>>())
    }
}

/// Host's side of all. The cache is full when the first of them is; the rates before and after are those of each run
/// around its own moment.
fn host(outcomes: &[&Outcome]) -> Result<HostSide, Error> {
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(|one| of(one)).sum::<u64>();
    let commands =
        |of: fn(&Outcome) -> Commands| outcomes.iter().map(|one| of(one)).fold(Commands::default(), Add::add);
    Ok(HostSide {
        totals: HostTotals {
            requests: sum(|one| one.requests),
            commands: commands(|one| one.commands),
            adjusted: commands(|one| one.adjusted),
            read_sectors: sum(|one| one.host_read_sectors),
            written_sectors: sum(|one| one.host_written_sectors),
            wait_ns: outcomes.iter().map(|one| one.wait_ns).sum(),
            service_ns: sum(|one| one.service_ns),
            stalls_over_7s: sum(|one| one.verdict.stalls_over_7s),
            stalls_over_30s: sum(|one| one.verdict.stalls_over_30s),
        },
        elapsed_ns: sum(|one| one.elapsed_ns),
        arrivals_ns: sum(|one| one.arrivals_ns),
        full_at_s: outcomes.iter().filter_map(|one| one.verdict.cache_full_at_s).reduce(f64::min),
        before_bytes: sum(|one| one.verdict.before_bytes),
        before: Nanos(sum(|one| one.verdict.before_ns)),
        by_source: by_source(outcomes)?,
        latency: latencies(outcomes.iter().map(|one| (&one.latency_buckets, one.latency_ns.all.count)))?,
        timeline: timeline(outcomes)?,
    })
}

/// Refuses what isn't a run of the same system with the same settings.
fn check(first: &Outcome, other: &Outcome) -> Result<(), Error> {
    let same = [
        ("layer", first.layer == other.layer),
        ("drive", first.drive == other.drive && first.drive_file == other.drive_file),
        ("array", first.array == other.array && first.members.len() == other.members.len()),
        ("parameters", first.parameters == other.parameters),
        ("capacity", first.capacity == other.capacity),
        ("engine", Settings { seed: other.engine.seed, ..first.engine } == other.engine),
        ("run", system(first) == system(other)),
        ("state", first.state == other.state),
        ("version", first.version == other.version && first.commit == other.commit),
    ];
    if let Some((key, _)) = same.iter().find(|(_, same)| !same) {
        return Err(Error::Usage(format!(
            "outcomes whose `{key}` differs can't be merged: merge those where it agrees"
        )));
    }
    match other.power_cut.is_some() || other.rebuild.is_some() {
        true => Err(Error::Usage("the outcome of a power cut or a rebuild can't be merged: leave it out".into())),
        false => Ok(()),
    }
}

/// Refuses more time than 64 bits hold.
fn check_times(outcomes: &[&Outcome]) -> Result<(), Error> {
    let times: [fn(&Outcome) -> u64; 4] =
        [|one| one.elapsed_ns, |one| one.arrivals_ns, |one| one.service_ns, Outcome::working_ns];
    let is_held = |of: &fn(&Outcome) -> u64| outcomes.iter().map(|one| of(one)).try_fold(0, u64::checked_add).is_some();
    match times.iter().all(is_held) {
        true => Ok(()),
        false => Err(Error::Usage("outcomes of more than 584 years together can't be merged: merge fewer".into())),
    }
}

/// Record of the system, on any requests, in windows of any length.
fn system(outcome: &Outcome) -> RunRecord {
    RunRecord { hash: None, window_ns: None, ..outcome.run.clone() }
}

/// Number of runs that an outcome is of.
fn runs(outcome: &Outcome) -> u64 {
    outcome.merged_runs.unwrap_or(1)
}

/// Counts of an outcome's verdict, or of those that it was merged from.
fn verdicts(outcome: &Outcome) -> VerdictCounts {
    let verdict = &outcome.verdict;
    match &outcome.merged_verdicts {
        Some(counts) => counts.clone(),
        None if outcome.requests == 0 => VerdictCounts::default(),
        None => VerdictCounts::one(&RunVerdict {
            is_waiting: verdict.cache_full_at_s.is_some(),
            stalls_over_7s: verdict.stalls_over_7s,
            stalls_over_30s: verdict.stalls_over_30s,
            commands_over_7s: verdict.commands.commands_over_7s,
            baseline_stalls_over_7s: verdict.baseline_stalls_over_7s.unwrap_or(0),
            longest_ns: verdict.longest_stall_ns,
            slowdown: outcome.slowdown,
        }),
    }
}

/// The latencies of all, each with the count that it must have.
fn latencies<'a>(all: impl Iterator<Item = (&'a LatencyBuckets, u64)>) -> Result<LatencyLists, Error> {
    let (mut merged, mut count) = (LatencyCounts::default(), 0);
    for (buckets, own) in all {
        merged.add(buckets)?;
        count += own;
    }
    let merged = merged.list();
    match merged.summary().all.count == count {
        true => Ok(merged),
        false => Err(Error::Usage(
            "an outcome without its `latency_buckets` can't be merged: write records in full detail".into(),
        )),
    }
}

/// Names that all have; the rows of traces that differ are summed.
fn replayed(outcomes: &[&Outcome]) -> Replayed {
    if let Some(same) = common(outcomes, |one| &one.replayed) {
        return same.clone();
    }
    fn shared<T: PartialEq + Clone>(outcomes: &[&Outcome], of: fn(&Replayed) -> &Option<T>) -> Option<T> {
        common(outcomes, |one| of(&one.replayed)).cloned().flatten()
    }
    Replayed {
        trace: shared(outcomes, |one| &one.trace),
        trace_sha256: shared(outcomes, |one| &one.trace_sha256),
        requests_sha256: shared(outcomes, |one| &one.requests_sha256),
        trace_format: shared(outcomes, |one| &one.trace_format),
        trace_reading: shared(outcomes, |one| &one.trace_reading),
        workload: shared(outcomes, |one| &one.workload),
        workload_sectors: shared(outcomes, |one| &one.workload_sectors),
        sources: shared(outcomes, |one| &one.sources),
        interleave: shared(outcomes, |one| &one.interleave),
        trace_notes: outcomes.iter().map(|one| one.replayed.trace_notes).fold(Default::default(), Add::add),
    }
}

/// Counts of each source; `None` where a run has one source, or another number of them.
fn by_source(outcomes: &[&Outcome]) -> Result<Option<Vec<SourceCounts>>, Error> {
    let Some(all) = outcomes.iter().map(|one| one.by_source.as_deref()).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    if all.windows(2).any(|pair| pair[0].len() != pair[1].len()) {
        return Ok(None);
    }
    let sources = all.first().map_or(0, |sources| sources.len());
    (0..sources).map(|at| source(all.iter().map(|sources| &sources[at]))).collect::<Result<Vec<_>, _>>().map(Some)
}

fn source<'a>(all: impl Iterator<Item = &'a SourceCounts> + Clone) -> Result<SourceCounts, Error> {
    let sum = |of: fn(&SourceCounts) -> u64| all.clone().map(of).sum();
    let latency = latencies(all.clone().map(|one| (&one.latency_buckets, one.latency_ns.all.count)))?;
    Ok(SourceCounts {
        requests: sum(|one| one.requests),
        host_read_sectors: sum(|one| one.host_read_sectors),
        host_written_sectors: sum(|one| one.host_written_sectors),
        latency_ns: latency.summary(),
        latency_buckets: latency.buckets(),
    })
}

/// Members merged one by one.
fn members(outcomes: &[&Outcome]) -> Result<Vec<OutcomeBuilder>, Error> {
    let count = outcomes.first().map_or(0, |first| first.members.len());
    (0..count).map(|at| merge(&outcomes.iter().map(|one| &one.members[at]).collect::<Vec<_>>())).collect()
}

/// Timelines in the shortest windows that all of theirs can be joined to, added; the cache's fill is the mean over the runs, each
/// with its last fill after its end.
fn timeline(outcomes: &[&Outcome]) -> Result<Timeline, Error> {
    let mut window_ns = 1u64;
    for own in outcomes.iter().map(|one| one.timeline.window_ns.max(1)) {
        window_ns = (window_ns / gcd(window_ns, own))
            .checked_mul(own)
            .ok_or_else(|| Error::Usage("timelines without a common window can't be merged: take one length".into()))?;
    }
    let factor = |one: &Outcome| (window_ns / one.timeline.window_ns.max(1)) as usize;
    let series = |of: fn(&Timeline) -> &Vec<u64>, join: fn(u64, u64) -> u64| {
        let mut joined = Vec::new();
        for one in outcomes {
            for (at, windows) in of(&one.timeline).chunks(factor(one)).enumerate() {
                joined.resize(joined.len().max(at + 1), 0);
                joined[at] = windows.iter().copied().fold(joined[at], join);
            }
        }
        joined
    };
    let fills = outcomes.iter().filter(|one| !one.timeline.cache_fill.is_empty()).map(|one| {
        let fill = one.timeline.cache_fill.chunks(factor(one)).filter_map(|windows| windows.last().copied());
        (runs(one) as f64, fill.collect())
    });
    Ok(Timeline {
        window_ns,
        requests: series(|one| &one.requests, Add::add),
        read_bytes: series(|one| &one.read_bytes, Add::add),
        written_bytes: series(|one| &one.written_bytes, Add::add),
        longest_ns: series(|one| &one.longest_ns, u64::max),
        cache_fill: mean(&fills.collect::<Vec<(f64, Vec<f64>)>>()),
        gauges: Default::default(),
        gauge_units: Default::default(),
    })
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The mean of series with weights; one that ends early keeps its last value.
fn mean(all: &[(f64, Vec<f64>)]) -> Vec<f64> {
    let length = all.iter().map(|(_, series)| series.len()).max().unwrap_or(0);
    let weights: f64 = all.iter().map(|(weight, _)| weight).sum();
    let at = |at: usize| all.iter().map(|(weight, series)| weight * series[at.min(series.len() - 1)]).sum::<f64>();
    (0..length).map(|window| at(window) / weights).collect()
}

/// Surfaces added; empty where their parts differ.
fn surface(all: &[Physical]) -> Surface {
    let of = [|one: &Surface| &one.host, |one| &one.destage, |one| &one.clean, |one| &one.map]
        as [fn(&Surface) -> &Vec<u64>; 4];
    let shape = |one: &Physical| (one.surface.part_sectors, of.map(|of| of(&one.surface).len()));
    if all.windows(2).any(|pair| shape(&pair[0]) != shape(&pair[1])) {
        return Surface::default();
    }
    let [host, destage, clean, map] = of.map(|of| {
        let parts = all.iter().map(|one| of(&one.surface).clone());
        parts.reduce(|a, b| a.iter().zip(&b).map(|(a, b)| a + b).collect()).unwrap_or_default()
    });
    Surface { part_sectors: all.first().map_or(0, |one| one.surface.part_sectors), host, destage, clean, map }
}
