//! The outcome of a run: one table. Each column is declared once, with how it is measured and how it is joined.
//!
//! The struct, `outcome.json`, outcomes of arrays, merges, rows of members, the Python stub and the columns of `docs/reference/outcome.md`
//! are derived from the table. A key ends with its unit; a ratio without a denominator is null.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use super::confidence::{Confidence, Interval, LatencyConfidence, Unknown};
use super::counts::HostSide;
use super::join::*;
pub use super::latency::{Histograms, Latencies, Latency, LatencyBuckets, OpLatencies};
use super::measured::Measured;
pub use super::rebuild::Rebuild;
pub use super::records::*;
pub use super::rows::LISTED_MAX;
use super::rows::{self, Row};
pub use super::timeline::Timeline;
pub use super::verdict::Verdict;
use super::verdict::sentence;
use crate::disk::Disk;
use crate::error::Error;
use crate::layer::Layer;
pub use crate::layer::{Capacity, GarbageCollection, LayerStats, Scalar};
use crate::record;
use crate::record::{Column, Table};
use crate::settings::Settings;
use crate::tally::{Cause, Counter};
use crate::units::SECTOR_BYTES;

/// The file: one record a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcomes {
    /// The version of this format.
    pub schema: u32,
    /// The runs, in the order they were asked for.
    pub runs: Vec<Outcome>,
    /// The drive that the trace was recorded on; absent where the trace doesn't tell how long requests took, or they were not replayed
    /// at its times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
}

/// A drive at the end of a run, from which its columns are read.
pub(crate) struct DriveEnd<'a> {
    pub disk: &'a Disk,
    pub layer: &'a dyn Layer,
    pub commands: CommandTimes,
}

/// A part of the columns of [`Outcome`].
pub struct Section {
    /// Its heading.
    pub name: &'static str,
    /// Its columns.
    pub columns: Vec<JoinedColumn>,
}

/// A column of [`Outcome`], and how it is joined.
pub struct JoinedColumn {
    /// The column.
    pub column: Column,
    /// The rule by which an array's column is computed from its drives'.
    pub drives: &'static str,
    /// The rule by which a merge's column is computed from its runs'.
    pub runs: &'static str,
}

/// Declares the columns of [`Outcome`].
///
/// `name: type [drives: rule, runs: rule] source |from| value;` is a column that holds `value` of a `drive` ([`DriveEnd`]) or of the `host`
/// ([`HostSide`]); `add` adds the host's part to the drives'. A column without a source is set by the code that makes the run. The rules,
/// functions of [`super::join`], join the columns of an array's members and of several runs. `row` puts the column, or a part of it, in the
/// rows of members, under the condition of [`Row`].
macro_rules! outcome {
    ($(#[$($about:tt)*])* pub struct $name:ident {
        $($section:literal { $(
            $(#[doc = $help:literal])+ $(#[serde($($serde:tt)+)])?
            pub $column:ident: $type:ty [drives: $drives:ident, runs: $runs:ident $(, row: $row:expr)?]
            $($source:ident |$from:ident| $value:expr),*;
        )* })*
    }) => {
        record! {
            $(#[$($about)*])*
            pub struct $name { $($($(#[doc = $help])+ $(#[serde($($serde)+)])? pub $column: $type,)*)* }
        }

        /// The columns of [`Outcome`] in sections, in the order of JSON.
        pub fn sections() -> Vec<Section> {
            let joined = |drives, runs| move |column| JoinedColumn { column, drives, runs };
            vec![$(Section {
                name: $section,
                columns: [$({
                    let (help, serde) = (concat!($($help),+), concat!("", $(stringify!($($serde)+))?));
                    let columns = Table::columns::<$type>(stringify!($column), help, serde).into_iter();
                    columns.map(joined(stringify!($drives), stringify!($runs))).collect::<Vec<_>>()
                }),*].into_iter().flatten().collect(),
            }),*]
        }

        /// The parts of columns that rows of members have.
        pub(super) const ROWS: &[(&str, &[(&str, Row)])] = &[$($($((stringify!($column), &$row),)?)*)*];

        impl $name {
            /// Reads the drive's columns.
            pub(crate) fn measure_drive(&mut self, drive: &DriveEnd) {
                $($($(outcome!(@drive $source |$from| $value, self.$column, drive);)*)*)*
            }

            /// Reads the columns on the host's side.
            pub(crate) fn measure_host(&mut self, host: HostSide) {
                $($($(outcome!(@host $source |$from| $value, self.$column, host);)*)*)*
            }

            /// Joins the outcomes of an array's drives, or of runs.
            fn joined(all: &[&$name], of_drives: bool) -> Result<$name, Error> {
                Ok($name { $($($column: {
                    let read: fn(&$name) -> &$type = |one| &one.$column;
                    let column = Joined { key: stringify!($column), outcomes: all, read };
                    if of_drives { $drives(&column)? } else { $runs(&column)? }
                },)*)* })
            }
        }
    };
    (@drive drive |$from:ident| $value:expr, $own:expr, $end:expr) => { $own = { let $from = $end; $value } };
    (@drive $other:ident $($rest:tt)*) => {};
    (@host host |$from:ident| $value:expr, $own:expr, $side:expr) => { $own = { let $from = &$side; $value } };
    (@host add |$from:ident| $value:expr, $own:expr, $side:expr) => {
        $own = std::mem::take(&mut $own) + { let $from = &$side; $value }
    };
    (@host $other:ident $($rest:tt)*) => {};
}

outcome! {
    /// One run: configuration, counts, latency, the course of time, and the plain verdict.
    pub struct Outcome {
        "What was run" {
            /// The layer's name.
            pub layer: String [drives: name, runs: same, row: [("", Row::Changed)]];
            /// The drive's name; `mixed` if the members of an array differ, as for `layer`.
            pub drive: String [drives: name, runs: same, row: [("", Row::Changed)]];
            /// Path of the drive file; null for a drive that comes with smrkit.
            pub drive_file: Option<String> [drives: agreed, runs: same];
            /// Canonical text of the [array](arrays.md#descriptions); null for a single drive.
            pub array: Option<String> [drives: unset, runs: same];
            /// Every parameter of the layer, including defaults; a parameter that was `auto` has the value that was
            /// chosen. Empty for an array whose members differ.
            pub parameters: BTreeMap<String, Scalar> [drives: agreed, runs: same, row: [("", Row::Changed)]];
            /// Parameters that were `auto` and are a number in `parameters`.
            pub asked: BTreeMap<String, Scalar> [drives: agreed, runs: agreed];
            /// Enlargement of the drive to more platters than its own, because the trace needs them
            /// ([`--capacity auto`](model.md#sizes)); null if there was none.
            pub scaled: Option<Scaled> [drives: unset, runs: largest];
            /// [Arrivals and order](engine.md) of requests.
            pub engine: Settings [drives: unset, runs: settings];
            /// State of the disk when counting began.
            pub state: State [drives: unset, runs: same];
            /// The seed of everything random.
            pub seed: u64 [drives: unset, runs: first];
            /// Further values that `smrkit run --repeat` needs to repeat the run.
            pub run: RunRecord [drives: unset, runs: system];
            /// smrkit's version.
            pub version: String [drives: unset, runs: same];
            /// The commit from which smrkit was built, with `-changed` if the simulator's sources differed; null if unknown.
            pub commit: Option<String> [drives: unset, runs: same];
            /// What was replayed.
            #[serde(flatten)]
            pub replayed: Replayed [drives: unset, runs: replayed];
            /// Number of runs that were merged into this record; absent for a single run.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub merged_runs: Option<u64> [drives: unset, runs: number_of_runs];
            /// True if a signal ended the run.
            pub interrupted: bool [drives: unset, runs: any];
        }
        "What was counted" {
            /// Requests completed and counted.
            pub requests: u64 [drives: unset, runs: sum, row: [("", Row::Always)]] host |host| host.counts.totals.requests;
            /// Sectors read by the host.
            pub host_read_sectors: u64 [drives: unset, runs: sum] host |host| host.counts.totals.read_sectors;
            /// Sectors written by the host.
            pub host_written_sectors: u64 [drives: unset, runs: sum] host |host| host.counts.totals.written_sectors;
            /// Sectors read from the platters, by cause.
            pub physical_read_sectors: ByCause [drives: sum, runs: sum] drive |drive| drive.by_cause(|read, _| read.sectors);
            /// Sectors written to the platters, by cause.
            pub physical_written_sectors: ByCause [drives: sum, runs: sum]
                drive |drive| drive.by_cause(|_, write| write.sectors);
            /// The time that the drive was busy, by cause.
            pub busy_by_cause_ns: ByCause [drives: sum, runs: sum] drive |drive| drive.by_cause(|read, write| read.ns + write.ns);
            /// Number of commands of any length. For an array, host commands are those to the array, and physical
            /// commands those of its drives.
            pub commands: Commands [drives: physical, runs: sum]
                drive |drive| drive.physical_commands(|counter| counter.commands), add |host| host.counts.totals.commands;
            /// Commands as Cassuto 2010 counts them: one of n sectors counts floor(n / 1000) + 1.
            pub adjusted: Commands [drives: physical, runs: sum]
                drive |drive| drive.physical_commands(|counter| counter.adjusted), add |host| host.counts.totals.adjusted;
            /// Cassuto's definition 4: (physical writes + physical reads − host reads) / host writes, counting commands
            /// as in `adjusted`.
            pub write_overloading: Option<f64> [drives: unset, runs: derived];
            /// Physical / host sectors written; null after a rebuild, because its writes are not the host's.
            pub write_amplification: Option<f64> [drives: unset, runs: derived, row: [("", Row::Present)]];
            /// Elapsed time / elapsed time of `in-place` on the same requests. If `in-place` was not asked for, it is
            /// run without being listed. If the numbers of requests differ, times per request are compared.
            pub slowdown: Option<f64> [drives: unset, runs: unset];
            /// Bytes read and written by the host per second of `elapsed_ns`.
            pub host_bytes_per_s: Option<f64> [drives: unset, runs: derived];
            /// How certain the run's own values are ([confidence intervals](#confidence-intervals)); absent for a member
            /// of an array, for merged runs and in a summary.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub confidence: Option<Confidence> [drives: unset, runs: unset] host |host| host.confidence;
        }
        "Time and space" {
            /// Latency from arrival to completion.
            pub latency_ns: Latencies [drives: unset, runs: derived, row: [("/all/mean", Row::Listed), ("/all/max", Row::Present)]]
                host |host| host.latency_ns;
            /// Sum of the times that requests waited, including waits for cleaning; written as text from 2^64 on.
            #[serde(with = "super::latency::wide")]
            pub wait_ns: u128 [drives: unset, runs: sum] host |host| host.counts.totals.wait_ns;
            /// Sum of service times; `wait_ns` + `service_ns` is the sum of latencies.
            pub service_ns: u64 [drives: unset, runs: time] host |host| host.counts.totals.service_ns;
            /// Total time of accesses to the platters. An access that a write cache began before the last completion
            /// counts in full.
            pub busy_ns: u64 [drives: sum, runs: time, row: [("", Row::Always)]] drive |drive| drive.disk.tally().busy().0;
            /// Time, in addition to `busy_ns`, in which the drive wrote from its own buffer while no access was made;
            /// absent if the drive has no such buffer.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub buffer_write_ns: Option<u64> [drives: sum_of_some, runs: sum_of_some, row: [("", Row::Present)]]
                drive |drive| drive.disk.clock().unwaited().map(|time| time.0);
            /// Time from the beginning of counting (the start, or the end of prefill and warm-up) to the last
            /// completion.
            pub elapsed_ns: u64 [drives: unset, runs: time] host |host| host.counts.elapsed().0;
            /// Time from the beginning of counting to the last arrival.
            pub arrivals_ns: u64 [drives: unset, runs: time]
                host |host| host.counts.last_arrival.since(host.counts.begin).0;
            /// Memory that the layer's maps take at the end.
            pub map_bytes: u64 [drives: sum, runs: max] drive |drive| drive.layer.map_bytes();
            /// Uninterrupted stretches of destaging and cleaning.
            pub cleaning: Cleaning [drives: sum, runs: sum, row: [("/ns", Row::Listed)]] drive |drive| drive.cleaning();
            /// How the platters' sectors are used; the last four keys add up to `raw_sectors`. For an array,
            /// `host_sectors` is what the array offers, so copies, parity and unused remainders are missing from the
            /// sum.
            pub capacity: Capacity [drives: sum, runs: same, row: [("/raw_sectors", Row::Changed)]]
                drive |drive| drive.layer.capacity();
            /// Values over time, in equal windows from the beginning of counting.
            pub timeline: Timeline [drives: unset, runs: overlaid] host |host| host.timeline.clone();
            /// Sectors written to each slice of the PBA range, by cause (the disk in slices of equal size); empty for
            /// an array.
            pub surface: Surface [drives: unset, runs: surface] drive |drive| drive.surface();
            /// Distribution of latencies in steps of at most 3 %.
            pub latency_histogram: Histograms [drives: unset, runs: derived] host |host| host.latency.histograms();
            /// Distribution of latencies in the fine buckets from which percentiles are computed, for merges; empty in
            /// a summary.
            pub latency_buckets: LatencyBuckets [drives: unset, runs: derived] host |host| host.latency.buckets();
            /// Counts of each merged source, in the order of `sources`; absent for a single source.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub by_source: Option<Vec<SourceCounts>> [drives: unset, runs: by_source] host |host| host.counts.by_source();
            /// Movement of the head, with `--movement` and for arrays; else absent.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub movement: Option<Movement> [drives: sum_of_some, runs: sum_of_some] drive |drive| drive.movement();
            /// Garbage collection of a file system on zones ([`zone-log`](layers/zone-log.md)); absent for other layers.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub garbage_collection: Option<GarbageCollection> [drives: sum_of_some, runs: sum_of_some]
                drive |drive| drive.layer.garbage_collection();
            /// The layer's own counters ([its page](layers.md)).
            pub layer_stats: LayerStats [drives: sum_of_counts, runs: sum_of_counts] drive |drive| drive.layer.stats();
        }
        "Verdict, power cut, members, rebuild" {
            /// The power cut, and what was found after it; null without a power cut, or if the run ended before it.
            pub power_cut: Option<PowerCut> [drives: unset, runs: refused];
            /// The verdict that a run prints first, and the values behind it.
            pub verdict: Verdict [drives: command_times, runs: sum, row: [("/commands_over_7s", Row::Present)]]
                drive |drive| Verdict { commands: drive.commands, ..Verdict::default() }, add |host| host.counts.verdict();
            /// For an array, the same record for each drive; absent for a single drive. There the host is the array:
            /// `requests` are the commands that it sent to the drive, and `latency_ns` and `verdict` are about these
            /// commands. Keys that only a comparison sets are null.
            #[serde(default, skip_serializing_if = "Vec::is_empty", with = "super::rows")]
            pub members: Vec<Outcome> [drives: unset, runs: members];
            /// The [rebuild, resilver or scrub](arrays.md#rebuild-resilver-scrub) of an array; absent without one, or
            /// if the run ended before it was complete.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub rebuild: Option<Rebuild> [drives: unset, runs: refused];
        }
    }
}

impl DriveEnd<'_> {
    /// A quantity by cause, of the counters of reads and of writes.
    fn by_cause(&self, quantity: impl Fn(&Counter, &Counter) -> u64) -> ByCause {
        let tally = self.disk.tally();
        causes(|cause| quantity(tally.reads(cause), tally.writes(cause)))
    }

    /// Commands to the platters, of which `count` reads the number.
    fn physical_commands(&self, count: fn(&Counter) -> u64) -> Commands {
        Commands {
            physical_read: self.by_cause(|read, _| count(read)).total,
            physical_write: self.by_cause(|_, write| count(write)).total,
            ..Commands::default()
        }
    }

    fn cleaning(&self) -> Cleaning {
        let sum = |quantity: fn(&Counter) -> u64| {
            let by_cause = self.by_cause(|read, write| quantity(read) + quantity(write));
            by_cause.destage + by_cause.clean
        };
        let (count, longest) = self.disk.tally().stretches();
        Cleaning { count, sectors: sum(|counter| counter.sectors), ns: sum(|counter| counter.ns), max_ns: longest.0 }
    }

    /// The head's movements, if they were counted.
    fn movement(&self) -> Option<Movement> {
        let counted = self.disk.tally().movement()?;
        let distance = causes(|cause| counted.distance[cause as usize]);
        let count = causes(|cause| counted.count[cause as usize]);
        Some(Movement::new(distance, count, self.disk.geometry().tracks, self.layer.bands_moved()))
    }

    fn surface(&self) -> Surface {
        let (parts, part_sectors) = self.disk.tally().surface();
        let [host, destage, clean, map] =
            Cause::ALL.map(|cause| parts.iter().map(|part| part[cause as usize]).collect());
        Surface { part_sectors, host, destage, clean, map }
    }
}

fn causes(quantity: impl Fn(Cause) -> u64) -> ByCause {
    let [host, destage, clean, map] = Cause::ALL.map(quantity);
    ByCause { total: host + destage + clean + map, host, destage, clean, map }
}

impl Outcome {
    /// The outcome of an array, as far as it follows from its `members` and the host's side.
    pub(crate) fn of_array(members: Vec<Outcome>, host: HostSide) -> Result<Outcome, Error> {
        let mut all = Outcome::joined(&members.iter().collect::<Vec<_>>(), true)?;
        all.measure_host(host);
        Ok(Outcome { members, ..all })
    }

    /// Computes the columns that follow from others: ratios, rates, the sentence.
    pub(crate) fn conclude(self) -> Outcome {
        let has_rebuild = self.rebuild.is_some();
        self.conclude_with_members(has_rebuild)
    }

    /// Of an array with a rebuild, neither the whole nor the members have ratios to the host's requests, because a rebuild's accesses serve none.
    fn conclude_with_members(mut self, has_rebuild: bool) -> Outcome {
        let ratio = |over: f64, under: u64| (under > 0 && !has_rebuild).then(|| over / under as f64);
        let adjusted = &self.adjusted;
        let excess = (adjusted.physical_write + adjusted.physical_read) as f64 - adjusted.host_read as f64;
        self.write_overloading = ratio(excess, adjusted.host_write);
        self.write_amplification = ratio(self.physical_written_sectors.total as f64, self.host_written_sectors);
        let host_bytes = (self.host_read_sectors + self.host_written_sectors) * SECTOR_BYTES;
        self.host_bytes_per_s = (self.elapsed_ns > 0).then(|| host_bytes as f64 * 1e9 / self.elapsed_ns as f64);
        if has_rebuild && let Some(confidence) = &mut self.confidence {
            confidence.write_amplification = Interval::default();
        }
        self.verdict.conclude(&self.latency_ns, self.host_read_sectors + self.host_written_sectors, self.elapsed_ns);
        self.members = self.members.into_iter().map(|member| member.conclude_with_members(has_rebuild)).collect();
        self.verdict.text = sentence(&self);
        self
    }

    /// Merges the outcomes of runs of one system with the same settings, on any requests and seeds.
    ///
    /// Percentiles, counts, sums and maxima are those of one run over all requests. Columns that differ between the runs and can't be
    /// summed are null or empty: names of traces and workloads, gauges, counters that are not whole numbers, and columns that need a
    /// comparison. For those, merge the baselines too, and judge with [`super::verdict::judge`]. `seed` is the
    /// first run's.
    ///
    /// An error names what differs; a power cut, a rebuild, a record in summary, and times of more than 64 bits are refused.
    pub fn merge(outcomes: &[Outcome]) -> Result<Outcome, Error> {
        Ok(Outcome::of_runs(&outcomes.iter().collect::<Vec<_>>())?.conclude())
    }

    pub(super) fn of_runs(outcomes: &[&Outcome]) -> Result<Outcome, Error> {
        if outcomes.is_empty() {
            return Err(Error::Usage("there is no outcome to merge: give at least one".into()));
        }
        let mut all = Outcome::joined(outcomes, false)?;
        // Their sum is the time that the drive worked, which has to fit as well.
        if all.busy_ns.checked_add(all.buffer_write_ns.unwrap_or(0)).is_none() {
            return Err(too_long());
        }
        // Percentiles can't be summed, so they are computed from the merged buckets.
        let latency = latencies(outcomes.iter().map(|one| (&one.latency_buckets, one.latency_ns.all.count)))?;
        all.latency_ns = latency.summary();
        all.latency_histogram = latency.histograms();
        all.latency_buckets = latency.buckets();
        Ok(all)
    }

    /// Leaves out series, surfaces and distributions: their keys stay, but are empty. Of members it keeps the columns that tables show; of
    /// a rebuild's members the new ones, of a scrub's their sum.
    pub fn summary(&self) -> Outcome {
        let window_ns = self.timeline.window_ns;
        let without_buckets =
            |counts: &SourceCounts| SourceCounts { latency_buckets: LatencyBuckets::default(), ..counts.clone() };
        Outcome {
            timeline: Timeline { window_ns, ..Timeline::default() },
            surface: Surface { part_sectors: self.surface.part_sectors, ..Surface::default() },
            confidence: None,
            latency_histogram: Histograms::default(),
            latency_buckets: LatencyBuckets::default(),
            by_source: self.by_source.as_ref().map(|sources| sources.iter().map(without_buckets).collect()),
            members: rows::shortened(self),
            rebuild: self.rebuild.as_ref().map(Rebuild::summary),
            ..self.clone()
        }
    }

    /// The drives of the run: itself, or an array's members.
    pub fn drives(&self) -> &[Outcome] {
        if self.members.is_empty() { std::slice::from_ref(self) } else { &self.members }
    }

    /// The time that the drive worked, for the host or for itself.
    pub fn working_ns(&self) -> u64 {
        self.busy_ns + self.buffer_write_ns.unwrap_or(0)
    }
}

impl Outcomes {
    /// A result file of these runs.
    pub fn new(runs: Vec<Outcome>) -> Outcomes {
        Outcomes { schema: 1, runs, measured: None }
    }

    /// Each run's [`Outcome::summary`].
    pub fn summary(&self) -> Outcomes {
        let measured = self.measured.as_ref();
        let measured = measured.map(|one| Measured { run: one.run.summary(), pauses: one.pauses.clone() });
        Outcomes { schema: self.schema, runs: self.runs.iter().map(Outcome::summary).collect(), measured }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declared_column_is_in_json_and_no_other() {
        let record = serde_json::to_value(Outcome::default()).unwrap();
        let found: Vec<&str> = record.as_object().unwrap().keys().map(String::as_str).collect();
        let declared = sections().into_iter().flat_map(|section| section.columns).map(|one| one.column);
        let always: Vec<&str> = declared.filter(|column| !column.may_be_absent).map(|column| column.name).collect();
        assert_eq!(found, always);
    }

    #[test]
    fn every_part_of_a_row_is_part_of_a_record() {
        let record = serde_json::to_value(Outcome { buffer_write_ns: Some(1), ..Outcome::default() }).unwrap();
        for (column, part) in ROWS.iter().flat_map(|(column, parts)| parts.iter().map(move |part| (column, part.0))) {
            assert!(record.pointer(&format!("/{column}{part}")).is_some(), "{column}{part}");
        }
    }
}
