//! How columns of outcomes are joined: rules by which the columns of an array are computed from those of its drives, and the columns of a
//! merge from those of its runs.
//!
//! Counts and times are sums, `elapsed_ns` and `arrivals_ns` too; percentiles come from the fine buckets, ratios and rates from the sums.
//! Timelines are overlaid from the beginning of counting on.

use std::collections::BTreeMap;
use std::ops::Add;

use super::latency::{LatencyBuckets, LatencyCounts, LatencyLists};
use super::outcome::Outcome;
use super::records::{Commands, Replayed, RunRecord, Scaled, SourceCounts, Surface, TraceNotes};
use super::timeline::Timeline;
use super::verdict::Verdict;
use crate::error::Error;
use crate::layer::LayerStats;
use crate::schema::Scalar;
use crate::settings::Settings;
use crate::tally::Cause;

/// The name of different values.
const MIXED: &str = "mixed";

/// A column of several outcomes.
pub(super) struct Joined<'a, T> {
    pub key: &'static str,
    pub outcomes: &'a [&'a Outcome],
    /// The column of one of them.
    pub read: fn(&Outcome) -> &T,
}

impl<'a, T: 'a> Joined<'a, T> {
    fn values(&self) -> impl Iterator<Item = &'a T> + use<'a, T> {
        let read = self.read;
        self.outcomes.iter().map(move |outcome| read(outcome))
    }

    /// The common value, if all agree.
    fn common(&self) -> Option<&'a T>
    where
        T: PartialEq,
    {
        let first = self.values().next()?;
        self.values().all(|other| other == first).then_some(first)
    }

    fn differs(&self) -> Error {
        Error::Usage(format!("outcomes whose `{}` differs can't be merged: merge those where it agrees", self.key))
    }
}

/// Unset: a column of the whole alone, or one without meaning for a merge.
pub(super) fn unset<T: Default>(_: &Joined<T>) -> Result<T, Error> {
    Ok(T::default())
}

/// Unset for now: the column is computed from others later.
pub(super) fn derived<T: Default>(_: &Joined<T>) -> Result<T, Error> {
    Ok(T::default())
}

/// The common value, or an error.
pub(super) fn same<T: PartialEq + Clone>(column: &Joined<T>) -> Result<T, Error> {
    column.common().cloned().ok_or_else(|| column.differs())
}

/// The common value, or the default.
pub(super) fn agreed<T: PartialEq + Clone + Default>(column: &Joined<T>) -> Result<T, Error> {
    Ok(column.common().cloned().unwrap_or_default())
}

/// The common name, or `mixed`.
pub(super) fn name(column: &Joined<String>) -> Result<String, Error> {
    Ok(column.common().cloned().unwrap_or_else(|| MIXED.into()))
}

pub(super) fn first<T: Clone + Default>(column: &Joined<T>) -> Result<T, Error> {
    Ok(column.values().next().cloned().unwrap_or_default())
}

pub(super) fn sum<T: Clone + Default + Add<Output = T>>(column: &Joined<T>) -> Result<T, Error> {
    Ok(column.values().cloned().fold(T::default(), Add::add))
}

/// The sum of the values that are not null.
pub(super) fn sum_of_some<T: Clone + Add<Output = T>>(column: &Joined<Option<T>>) -> Result<Option<T>, Error> {
    Ok(column.values().flatten().cloned().reduce(Add::add))
}

/// The sum of times, if 64 bits hold it.
pub(super) fn time(column: &Joined<u64>) -> Result<u64, Error> {
    column.values().try_fold(0u64, |sum, &time| sum.checked_add(time)).ok_or_else(too_long)
}

pub(super) fn too_long() -> Error {
    Error::Usage("outcomes of more than 584 years together can't be merged: merge fewer".into())
}

pub(super) fn max(column: &Joined<u64>) -> Result<u64, Error> {
    Ok(column.values().copied().max().unwrap_or(0))
}

pub(super) fn any(column: &Joined<bool>) -> Result<bool, Error> {
    Ok(column.values().any(|&one| one))
}

/// Refuses values that can't be merged.
pub(super) fn refused<T>(column: &Joined<Option<T>>) -> Result<Option<T>, Error> {
    match column.values().any(Option::is_some) {
        true => Err(Error::Usage("the outcome of a power cut or a rebuild can't be merged: leave it out".into())),
        false => Ok(None),
    }
}

/// Sums the counters that are whole numbers. The others belong to a single drive or run.
pub(super) fn sum_of_counts(column: &Joined<LayerStats>) -> Result<LayerStats, Error> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (key, value) in column.values().flat_map(|one| one.iter()) {
        if let Scalar::Int(value) = value {
            *sums.entry(key.clone()).or_default() += value;
        }
    }
    Ok(sums.into_iter().map(|(key, sum)| (key, Scalar::Int(sum))).collect::<BTreeMap<_, _>>().into())
}

/// Sums the drives' side only, because the host's commands to an array are not the array's to its drives.
pub(super) fn physical(column: &Joined<Commands>) -> Result<Commands, Error> {
    Ok(Commands { host_read: 0, host_write: 0, ..sum(column)? })
}

/// Sums the times of the drives' commands; the rest of a verdict is the host's.
pub(super) fn command_times(column: &Joined<Verdict>) -> Result<Verdict, Error> {
    Ok(Verdict { commands: sum(column)?.commands, ..Verdict::default() })
}

/// The common settings, except for the seed, or an error.
pub(super) fn settings(column: &Joined<Settings>) -> Result<Settings, Error> {
    let first = first(column)?;
    match column.values().all(|other| Settings { seed: other.seed, ..first } == *other) {
        true => Ok(first),
        false => Err(column.differs()),
    }
}

/// The common system, or an error; requests and windows may differ.
pub(super) fn system(column: &Joined<RunRecord>) -> Result<RunRecord, Error> {
    let bare = |one: &RunRecord| RunRecord { window_ns: None, ..one.clone() };
    let first = first(column)?;
    if column.values().any(|other| bare(other) != bare(&first)) {
        return Err(column.differs());
    }
    let have_one_window = column.values().all(|other| other.window_ns == first.window_ns);
    Ok(RunRecord { window_ns: first.window_ns.filter(|_| have_one_window), ..bare(&first) })
}

/// The enlargement for the largest need of space.
pub(super) fn largest(column: &Joined<Option<Scaled>>) -> Result<Option<Scaled>, Error> {
    Ok(column.values().flatten().copied().max_by_key(|scaled| scaled.needed_bytes))
}

/// The number of runs. A merged outcome counts as many as it was merged from.
pub(super) fn number_of_runs(column: &Joined<Option<u64>>) -> Result<Option<u64>, Error> {
    Ok(Some(column.values().map(|runs| runs.unwrap_or(1)).sum()))
}

/// Merges latencies. Each comes with its number of requests, by which missing buckets are noticed.
pub(super) fn latencies<'a>(all: impl Iterator<Item = (&'a LatencyBuckets, u64)>) -> Result<LatencyLists, Error> {
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

/// The common value of a part of what was replayed, or the default.
fn agreed_part<T: PartialEq + Clone + Default>(column: &Joined<Replayed>, part: fn(&Replayed) -> &T) -> T {
    let mut parts = column.values().map(part);
    let first = parts.next();
    first.filter(|first| parts.all(|other| other == *first)).cloned().unwrap_or_default()
}

/// Names on which all runs agree; notes on rows are summed.
pub(super) fn replayed(column: &Joined<Replayed>) -> Result<Replayed, Error> {
    if let Some(same) = column.common() {
        return Ok(same.clone());
    }
    Ok(Replayed {
        trace: agreed_part(column, |one| &one.trace),
        trace_sha256: agreed_part(column, |one| &one.trace_sha256),
        trace_format: agreed_part(column, |one| &one.trace_format),
        trace_reading: agreed_part(column, |one| &one.trace_reading),
        workload: agreed_part(column, |one| &one.workload),
        workload_sectors: agreed_part(column, |one| &one.workload_sectors),
        sources: agreed_part(column, |one| &one.sources),
        interleave: agreed_part(column, |one| &one.interleave),
        edit: agreed_part(column, |one| &one.edit),
        trace_notes: column.values().map(|one| one.trace_notes).fold(TraceNotes::default(), Add::add),
    })
}

/// Counts by source, summed over the runs; `None` if some run has none, or the runs have different numbers of sources.
pub(super) fn by_source(column: &Joined<Option<Vec<SourceCounts>>>) -> Result<Option<Vec<SourceCounts>>, Error> {
    let mut runs: Vec<&[SourceCounts]> = Vec::new();
    for run in column.values() {
        let Some(sources) = run else { return Ok(None) };
        if runs.first().is_some_and(|first| first.len() != sources.len()) {
            return Ok(None);
        }
        runs.push(sources);
    }
    let mut sums = Vec::new();
    for source in 0..runs.first().map_or(0, |sources| sources.len()) {
        sums.push(sum_of_source(runs.iter().map(|sources| &sources[source]))?);
    }
    Ok(Some(sums))
}

fn sum_of_source<'a>(all: impl Iterator<Item = &'a SourceCounts> + Clone) -> Result<SourceCounts, Error> {
    let sum = |count: fn(&SourceCounts) -> u64| all.clone().map(count).sum();
    let latency = latencies(all.clone().map(|one| (&one.latency_buckets, one.latency_ns.all.count)))?;
    Ok(SourceCounts {
        requests: sum(|one| one.requests),
        host_read_sectors: sum(|one| one.host_read_sectors),
        host_written_sectors: sum(|one| one.host_written_sectors),
        latency_ns: latency.summary(),
        latency_buckets: latency.buckets(),
    })
}

/// Merges the runs of each member.
pub(super) fn members(column: &Joined<Vec<Outcome>>) -> Result<Vec<Outcome>, Error> {
    let count = column.values().next().map_or(0, Vec::len);
    if column.values().any(|members| members.len() != count) {
        return Err(column.differs());
    }
    // Columns that follow from others are computed later, with those of the whole.
    (0..count).map(|at| Outcome::of_runs(&column.values().map(|members| &members[at]).collect::<Vec<_>>())).collect()
}

/// Adds timelines, in the shortest windows that are multiples of the windows of each. The cache's fill is the mean over the runs; a run that
/// has ended counts with its last fill.
pub(super) fn overlaid(column: &Joined<Timeline>) -> Result<Timeline, Error> {
    // An empty timeline has windows of 0.
    let mut lengths = column.values().map(|timeline| timeline.window_ns.max(1));
    let window_ns = lengths
        .try_fold(1u64, least_common_multiple)
        .ok_or_else(|| Error::Usage("timelines without a common window can't be merged: take one length".into()))?;
    let factor = |one: &Timeline| (window_ns / one.window_ns.max(1)) as usize;
    let joined = |series: fn(&Timeline) -> &Vec<u64>, join: fn(u64, u64) -> u64| {
        let mut common_windows = Vec::new();
        for one in column.values() {
            for (at, windows) in series(one).chunks(factor(one)).enumerate() {
                common_windows.resize(common_windows.len().max(at + 1), 0);
                common_windows[at] = windows.iter().copied().fold(common_windows[at], join);
            }
        }
        common_windows
    };
    let fills = column.outcomes.iter().zip(column.values()).filter(|(_, timeline)| !timeline.cache_fill.is_empty());
    let fills = fills.map(|(outcome, timeline)| {
        let at_ends = timeline.cache_fill.chunks(factor(timeline)).filter_map(|windows| windows.last().copied());
        (outcome.merged_runs.unwrap_or(1) as f64, at_ends.collect())
    });
    Ok(Timeline {
        window_ns,
        requests: joined(|one| &one.requests, Add::add),
        read_bytes: joined(|one| &one.read_bytes, Add::add),
        written_bytes: joined(|one| &one.written_bytes, Add::add),
        physical_written_bytes: joined(|one| &one.physical_written_bytes, Add::add),
        longest_ns: joined(|one| &one.longest_ns, u64::max),
        cache_fill: mean(&fills.collect::<Vec<(f64, Vec<f64>)>>()),
        gauges: Default::default(),
        gauge_units: Default::default(),
    })
}

fn least_common_multiple(a: u64, b: u64) -> Option<u64> {
    (a / gcd(a, b)).checked_mul(b)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The mean of series that are not empty, each with its weight.
fn mean(weighted: &[(f64, Vec<f64>)]) -> Vec<f64> {
    let longest = weighted.iter().map(|(_, series)| series.len()).max().unwrap_or(0);
    let mut sums = vec![0.0; longest];
    for (weight, series) in weighted {
        for (window, sum) in sums.iter_mut().enumerate() {
            // A series that ends early counts with its last value.
            *sum += weight * series[window.min(series.len() - 1)];
        }
    }
    let weights: f64 = weighted.iter().map(|(weight, _)| weight).sum();
    sums.into_iter().map(|sum| sum / weights).collect()
}

/// The sum of surfaces; empty if their parts differ.
pub(super) fn surface(column: &Joined<Surface>) -> Result<Surface, Error> {
    let shape = |surface: &Surface| (surface.part_sectors, Cause::ALL.map(|cause| surface.of(cause).len()));
    let first = first(column)?;
    if column.values().any(|surface| shape(surface) != shape(&first)) {
        return Ok(Surface::default());
    }
    let [host, destage, clean, map] = Cause::ALL.map(|cause| {
        let mut sums = vec![0u64; first.of(cause).len()];
        for surface in column.values() {
            sums.iter_mut().zip(surface.of(cause)).for_each(|(sum, sectors)| *sum += sectors);
        }
        sums
    });
    Ok(Surface { part_sectors: first.part_sectors, host, destage, clean, map })
}
