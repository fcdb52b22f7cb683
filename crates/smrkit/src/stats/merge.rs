//! Several outcomes as one: what one count over the requests of all runs would have given.
//!
//! Counts and times are sums, also `elapsed_ns` and `arrivals_ns`; percentiles come from the fine buckets, ratios and rates from the
//! sums. Timelines begin together, with the counting, and lie over each other.

use std::ops::Add;

use super::histogram::LatencyCounts;
use super::latency_buckets::LatencyBuckets;
use super::outcome::{ByCause, Cleaning, Commands, Outcome, RunRecord, SourceCounts, Surface, Timeline, Verdict};
use super::replayed::Replayed;
use super::sums::{
    HostRates, add_cleaning, add_commands, add_movement, add_stats, write_amplification, write_overloading,
};
use super::verdict::judge;
use crate::error::Error;
use crate::settings::Settings;
use crate::units::Nanos;

impl Outcome {
    /// Merges the outcomes of runs of one system with the same settings, on any requests and seeds.
    ///
    /// Percentiles, counts, sums and maxima are those of one run over all requests. What differs between the runs and can't be
    /// summed is null or empty: names of traces and workloads, gauges, counters that are no whole numbers, and what only a
    /// comparison tells. For that, merge the baselines too, and [`judge`] by [`super::verdict::Baseline::of`] them. `seed` is
    /// the first run's.
    ///
    /// An error names what differs; a power cut, a rebuild, and a record in summary are refused.
    pub fn merge(outcomes: &[Outcome]) -> Result<Outcome, Error> {
        let Some(first) = outcomes.first() else {
            return Err(Error::Usage("there is no outcome to merge: give at least one".into()));
        };
        outcomes.iter().try_for_each(|other| check(first, other))?;
        let latency = latencies(outcomes.iter().map(|one| (&one.latency_buckets, one.latency_ns.all.count)))?;
        let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
        let causes = |of: fn(&Outcome) -> ByCause| outcomes.iter().map(of).fold(ByCause::default(), Add::add);
        let commands = |of: fn(&Outcome) -> Commands| outcomes.iter().map(of).fold(Commands::default(), add_commands);
        let host_written_sectors = sum(|one| one.host_written_sectors);
        let physical_written_sectors = causes(|one| one.physical_written_sectors);
        let adjusted = commands(|one| one.adjusted);
        let latency_ns = latency.summary();
        let mut merged = Outcome {
            layer: first.layer.clone(),
            drive: first.drive.clone(),
            drive_file: first.drive_file.clone(),
            array: first.array.clone(),
            parameters: first.parameters.clone(),
            asked: common(outcomes, |one| &one.asked).cloned().unwrap_or_default(),
            scaled: outcomes.iter().filter_map(|one| one.scaled).max_by_key(|scaled| scaled.needed_bytes),
            engine: first.engine,
            state: first.state.clone(),
            run: RunRecord {
                window_ns: common(outcomes, |one| &one.run.window_ns).copied().flatten(),
                ..system(first)
            },
            seed: first.seed,
            version: first.version.clone(),
            commit: first.commit.clone(),
            replayed: replayed(outcomes),
            merged_runs: Some(sum(runs)),
            interrupted: outcomes.iter().any(|one| one.interrupted),
            requests: sum(|one| one.requests),
            host_read_sectors: sum(|one| one.host_read_sectors),
            host_written_sectors,
            physical_read_sectors: causes(|one| one.physical_read_sectors),
            physical_written_sectors,
            busy_by_cause_ns: causes(|one| one.busy_by_cause_ns),
            commands: commands(|one| one.commands),
            adjusted,
            write_overloading: write_overloading(&adjusted),
            write_amplification: write_amplification(&physical_written_sectors, host_written_sectors),
            slowdown: None,
            latency_ns,
            wait_ns: sum(|one| one.wait_ns),
            service_ns: sum(|one| one.service_ns),
            busy_ns: sum(|one| one.busy_ns),
            elapsed_ns: sum(|one| one.elapsed_ns),
            arrivals_ns: sum(|one| one.arrivals_ns),
            map_bytes: outcomes.iter().map(|one| one.map_bytes).max().unwrap_or(0),
            cleaning: outcomes.iter().map(|one| one.cleaning).fold(Cleaning::default(), add_cleaning),
            capacity: first.capacity,
            timeline: timeline(outcomes)?,
            surface: surface(outcomes),
            latency_histogram: latency.histograms(),
            latency_buckets: latency.buckets(),
            by_source: by_source(outcomes)?,
            movement: outcomes.iter().filter_map(|one| one.movement).reduce(add_movement),
            layer_stats: add_stats(outcomes.iter().map(|one| &one.layer_stats)),
            power_cut: None,
            verdict: verdict(outcomes, latency_ns.all.max),
            members: members(outcomes)?,
            rebuild: None,
        };
        judge(&mut merged, None);
        Ok(merged)
    }
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

/// What was run, in windows of any length.
fn system(outcome: &Outcome) -> RunRecord {
    RunRecord { window_ns: None, ..outcome.run.clone() }
}

/// How many runs an outcome is of.
fn runs(outcome: &Outcome) -> u64 {
    outcome.merged_runs.unwrap_or(1)
}

/// What all have, if they agree.
fn common<'a, T: PartialEq>(outcomes: &'a [Outcome], of: impl Fn(&'a Outcome) -> &'a T) -> Option<&'a T> {
    let (first, others) = outcomes.split_first()?;
    others.iter().all(|other| of(other) == of(first)).then(|| of(first))
}

/// The latencies of all, each with the count that it must have.
fn latencies<'a>(all: impl Iterator<Item = (&'a LatencyBuckets, u64)>) -> Result<LatencyCounts, Error> {
    let (mut merged, mut count) = (LatencyCounts::default(), 0);
    for (buckets, own) in all {
        merged.add(buckets)?;
        count += own;
    }
    match merged.summary().all.count == count {
        true => Ok(merged),
        false => Err(Error::Usage(
            "an outcome without its `latency_buckets` can't be merged: write records in full detail".into(),
        )),
    }
}

/// Names that all have; the rows of traces that differ are summed.
fn replayed(outcomes: &[Outcome]) -> Replayed {
    if let Some(same) = common(outcomes, |one| &one.replayed) {
        return same.clone();
    }
    fn of<T: PartialEq + Clone>(outcomes: &[Outcome], of: fn(&Replayed) -> &Option<T>) -> Option<T> {
        common(outcomes, |one| of(&one.replayed)).cloned().flatten()
    }
    Replayed {
        trace: of(outcomes, |one| &one.trace),
        trace_sha256: of(outcomes, |one| &one.trace_sha256),
        trace_format: of(outcomes, |one| &one.trace_format),
        trace_reading: of(outcomes, |one| &one.trace_reading),
        workload: of(outcomes, |one| &one.workload),
        workload_sectors: of(outcomes, |one| &one.workload_sectors),
        sources: of(outcomes, |one| &one.sources),
        interleave: of(outcomes, |one| &one.interleave),
        trace_notes: outcomes.iter().map(|one| one.replayed.trace_notes).fold(Default::default(), Add::add),
    }
}

/// Counts of each source; `None` where a run has one source, or another number of them.
fn by_source(outcomes: &[Outcome]) -> Result<Option<Vec<SourceCounts>>, Error> {
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
fn members(outcomes: &[Outcome]) -> Result<Vec<Outcome>, Error> {
    let count = outcomes.first().map_or(0, |first| first.members.len());
    let of = |at: usize| outcomes.iter().map(|one| one.members[at].clone()).collect::<Vec<_>>();
    (0..count).map(|at| Outcome::merge(&of(at))).collect()
}

/// The plain answer's numbers. The cache is full when the first of them is; the rates before and after are those of each run
/// around its own moment.
fn verdict(outcomes: &[Outcome], longest_stall_ns: u64) -> Verdict {
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    let rates = HostRates {
        full_at_s: outcomes.iter().filter_map(|one| one.verdict.cache_full_at_s).reduce(f64::min),
        before_bytes: sum(|one| one.verdict.before_bytes),
        before: Nanos(sum(|one| one.verdict.before_ns)),
        sectors: sum(|one| one.host_read_sectors + one.host_written_sectors),
        elapsed: Nanos(sum(|one| one.elapsed_ns)),
    };
    Verdict {
        longest_stall_ns,
        stalls_over_7s: sum(|one| one.verdict.stalls_over_7s),
        stalls_over_30s: sum(|one| one.verdict.stalls_over_30s),
        ..rates.verdict()
    }
}

/// Timelines in the shortest windows that all of theirs can be joined to, added; the cache's fill is the mean over the runs, each
/// with its last fill after its end.
fn timeline(outcomes: &[Outcome]) -> Result<Timeline, Error> {
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
fn surface(outcomes: &[Outcome]) -> Surface {
    let of = [|one: &Surface| &one.host, |one| &one.destage, |one| &one.clean, |one| &one.map]
        as [fn(&Surface) -> &Vec<u64>; 4];
    let shape = |one: &Outcome| (one.surface.part_sectors, of.map(|of| of(&one.surface).len()));
    if outcomes.windows(2).any(|pair| shape(&pair[0]) != shape(&pair[1])) {
        return Surface::default();
    }
    let [host, destage, clean, map] = of.map(|of| {
        let parts = outcomes.iter().map(|one| of(&one.surface).clone());
        parts.reduce(|a, b| a.iter().zip(&b).map(|(a, b)| a + b).collect()).unwrap_or_default()
    });
    Surface { part_sectors: outcomes.first().map_or(0, |one| one.surface.part_sectors), host, destage, clean, map }
}
