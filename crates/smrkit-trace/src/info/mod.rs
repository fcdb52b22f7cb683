//! Statistics of a trace, in one pass: mix, footprint, sizes, sequentiality, arrivals, tracks written.
//!
//! Everything is exact save the percentiles of gaps (0.01 %). Memory grows with the stretches of sectors that are read or
//! written, not with the number of requests to them.

use std::collections::BTreeMap;

use serde::Serialize;
use smrkit::error::Error;
use smrkit::ranges::RangeMap;
use smrkit::request::{Op, Request, Source};
use smrkit::stats::latency::{Latency, LatencyCounts};
use smrkit::units::SECTOR_BYTES;

use crate::row::Volume;

/// Statistics of a trace. Shares are 0 to 1, and null without a denominator.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TraceInfo {
    /// Rows.
    pub requests: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Number of flushes.
    pub flushes: u64,
    /// Number of discards.
    pub discards: u64,
    /// Writes / requests.
    pub write_share: Option<f64>,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes discarded.
    pub discarded_bytes: u64,
    /// The largest end of a request, over all volumes.
    pub highest_end_sectors: u64,
    /// Distinct sectors.
    pub footprint: Footprint,
    /// Sectors written that the trace had written before / sectors written.
    pub rewrite_share: Option<f64>,
    /// The size of a track.
    pub track_bytes: u64,
    /// Distinct tracks of this size that are written.
    pub written_tracks: u64,
    /// Sizes of reads.
    pub read_sizes: Sizes,
    /// Sizes of writes.
    pub write_sizes: Sizes,
    /// Requests that follow one another.
    pub sequential: Sequential,
    /// When requests arrive.
    pub arrivals: Arrivals,
    /// The course of time.
    pub rate: RateSeries,
    /// The volumes that have requests, in the order of their indexes.
    pub volumes: Vec<VolumeInfo>,
}

/// Distinct sectors and blocks that a trace touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Footprint {
    /// Sectors read at least once.
    pub read_sectors: u64,
    /// Sectors written at least once.
    pub written_sectors: u64,
    /// Sectors read or written.
    pub touched_sectors: u64,
    /// Aligned 4 KiB blocks that are written, in part or whole.
    pub written_4kib_blocks: u64,
}

/// Requests that follow one another: each begins where the one before on its volume ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sequential {
    /// Share of reads and writes that continue the one before.
    pub share: Option<f64>,
    /// The longest stretch, in requests.
    pub longest_run_requests: u64,
}

/// One volume of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VolumeInfo {
    /// Its index in the trace's table.
    pub index: u16,
    /// The number that the trace gives it.
    pub number: u64,
    /// The name that the trace gives it; may be empty.
    pub name: String,
    /// Requests.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// The largest end of a request.
    pub highest_end_sectors: u64,
}

/// The size of a track for `written_tracks`: 1 MiB, as in Vguard's figure 5 (which says 1 MB).
const TRACK_BYTES: u64 = 1 << 20;

impl TraceInfo {
    /// Reads `source` to its end. A reader knows its table of volumes only then: until `name_volumes`, each volume's number is its index.
    pub fn from_source(source: &mut dyn Source) -> Result<TraceInfo, Error> {
        let mut gathered = Gathered::default();
        let mut batch = Vec::new();
        while source.fill_next(&mut batch)? {
            batch.iter().for_each(|request| gathered.count(request));
        }
        Ok(gathered.finish())
    }

    /// Gives the volumes the numbers and names of the trace's table.
    pub fn name_volumes(&mut self, table: &[Volume]) {
        for volume in &mut self.volumes {
            if let Some(entry) = table.get(usize::from(volume.index)) {
                (volume.number, volume.name) = (entry.number, entry.name.clone());
            }
        }
    }
}

/// Sectors in a 4 KiB block.
const BLOCK: u64 = 8;

/// The counts of a pass.
#[derive(Default)]
struct Gathered {
    info: TraceInfo,
    volumes: Vec<VolumeState>,
    read: SectorSet,
    written: SectorSet,
    /// Requests by their sectors.
    read_sizes: BTreeMap<u32, u64>,
    write_sizes: BTreeMap<u32, u64>,
    /// Reads and writes that begin where the one before on their volume ended.
    followers: u64,
    /// Times of the first row, of the row before, and the latest.
    start_ns: Option<u64>,
    previous_ns: Option<u64>,
    latest_ns: u64,
    gaps: LatencyCounts,
}

#[derive(Default)]
struct VolumeState {
    info: VolumeInfo,
    /// The end of the previous request, and the stretch that it belongs to.
    previous_end: Option<u64>,
    run_requests: u64,
}

impl Gathered {
    fn count(&mut self, request: &Request) {
        let index = usize::from(request.volume);
        if index >= self.volumes.len() {
            self.volumes.resize_with(index + 1, VolumeState::default);
        }
        let bytes = u64::from(request.sectors) * SECTOR_BYTES;
        let volume = &mut self.volumes[index].info;
        volume.requests += 1;
        let mut new_sectors = 0;
        match request.op {
            Op::Read => {
                volume.reads += 1;
                volume.read_bytes += bytes;
                *self.read_sizes.entry(request.sectors).or_default() += 1;
                self.read.insert(request);
            }
            Op::Write => {
                volume.writes += 1;
                volume.written_bytes += bytes;
                *self.write_sizes.entry(request.sectors).or_default() += 1;
                new_sectors = self.written.insert(request);
            }
            Op::Flush => self.info.flushes += 1,
            Op::Discard => {
                self.info.discards += 1;
                self.info.discarded_bytes += bytes;
            }
        }
        self.arrive(request, new_sectors);
        // Flushes and discards leave the order of reads and writes as it is.
        if matches!(request.op, Op::Read | Op::Write) {
            self.follow(request);
        }
    }

    /// Counts the request among the arrivals and in its window of the series; `new_sectors` of it were written for the first time.
    fn arrive(&mut self, request: &Request, new_sectors: u64) {
        let (time, TraceInfo { arrivals, rate, .. }) = (request.time.0, &mut self.info);
        let start_ns = *self.start_ns.get_or_insert(time);
        if let Some(previous_ns) = self.previous_ns.replace(time) {
            arrivals.out_of_order_rows += u64::from(time < previous_ns);
            // `Op::Read` stands for all operations: gaps have one total.
            self.gaps.record(Op::Read, time.saturating_sub(previous_ns));
        } else {
            arrivals.first_ns = time;
        }
        arrivals.first_ns = arrivals.first_ns.min(time);
        self.latest_ns = self.latest_ns.max(time);
        let (at, bytes) = (rate.window(time.saturating_sub(start_ns)), u64::from(request.sectors) * SECTOR_BYTES);
        rate.requests[at] += 1;
        match request.op {
            Op::Read => rate.read_bytes[at] += bytes,
            Op::Write => rate.written_bytes[at] += bytes,
            Op::Flush | Op::Discard => {}
        }
        rate.first_written_bytes[at] += new_sectors * SECTOR_BYTES;
    }

    /// Counts the request among the sequential runs of its volume.
    fn follow(&mut self, request: &Request) {
        let volume = &mut self.volumes[usize::from(request.volume)];
        let end = request.lba.0.saturating_add(u64::from(request.sectors));
        volume.info.highest_end_sectors = volume.info.highest_end_sectors.max(end);
        if volume.previous_end == Some(request.lba.0) {
            self.followers += 1;
        } else {
            volume.run_requests = 0;
        }
        volume.previous_end = Some(end);
        volume.run_requests += 1;
        let longest = &mut self.info.sequential;
        longest.longest_run_requests = longest.longest_run_requests.max(volume.run_requests);
    }

    fn finish(self) -> TraceInfo {
        let Gathered { read, written, followers, .. } = self;
        let sum = |of: fn(&VolumeInfo) -> u64| self.volumes.iter().map(|volume| of(&volume.info)).sum::<u64>();
        let highest_end = self.volumes.iter().map(|volume| volume.info.highest_end_sectors).max();
        let (requests, reads, writes) = (sum(|volume| volume.requests), sum(|volume| volume.reads), sum(|v| v.writes));
        let (read_bytes, written_bytes) = (sum(|volume| volume.read_bytes), sum(|volume| volume.written_bytes));
        let written_sectors = written_bytes / SECTOR_BYTES;
        // Saturating, because a request may end beyond the last sector that a set can hold.
        let rewritten = written_sectors.saturating_sub(written.len());
        let span_ns = self.latest_ns.saturating_sub(self.info.arrivals.first_ns);
        let per_second = |count: u64, ns: u64| count as f64 / (ns as f64 / 1e9);
        let busiest = self.info.rate.requests.iter().max();
        let volumes = self.volumes.into_iter().zip(0..=u16::MAX).map(|(state, index)| VolumeInfo {
            index,
            number: u64::from(index),
            ..state.info
        });
        TraceInfo {
            requests,
            reads,
            writes,
            write_share: share(writes, requests),
            read_bytes,
            written_bytes,
            highest_end_sectors: highest_end.unwrap_or(0),
            footprint: Footprint {
                read_sectors: read.len(),
                written_sectors: written.len(),
                touched_sectors: read.len() + written.len() - read.overlap(&written),
                written_4kib_blocks: written.pieces(BLOCK),
            },
            rewrite_share: share(rewritten, written_sectors),
            track_bytes: TRACK_BYTES,
            written_tracks: written.pieces(TRACK_BYTES / SECTOR_BYTES),
            read_sizes: Sizes::from_counts(&self.read_sizes),
            write_sizes: Sizes::from_counts(&self.write_sizes),
            sequential: Sequential { share: share(followers, reads + writes), ..self.info.sequential },
            arrivals: Arrivals {
                span_ns,
                mean_requests_per_s: (span_ns > 0).then(|| per_second(requests, span_ns)),
                peak_requests_per_s: busiest.map(|&count| per_second(count, self.info.rate.window_ns)),
                gap_ns: self.gaps.list().summary().all,
                ..self.info.arrivals
            },
            volumes: volumes.filter(|volume| volume.requests > 0).collect(),
            ..self.info
        }
    }
}

/// A set of sectors: their ranges, by volume.
#[derive(Default)]
struct SectorSet(Vec<RangeMap<()>>);

impl SectorSet {
    /// Adds the sectors of a request; returns how many are new.
    fn insert(&mut self, request: &Request) -> u64 {
        let volume = usize::from(request.volume);
        if volume >= self.0.len() {
            self.0.resize_with(volume + 1, RangeMap::default);
        }
        let (ranges, start) = (&mut self.0[volume], request.lba.0);
        let before = ranges.count();
        ranges.cover(start..start.saturating_add(u64::from(request.sectors)), ());
        ranges.count() - before
    }

    fn len(&self) -> u64 {
        self.0.iter().map(RangeMap::count).sum()
    }

    /// Number of aligned pieces of `sectors` that have at least one sector in the set.
    fn pieces(&self, sectors: u64) -> u64 {
        let pieces_of_volume = |ranges: &RangeMap<()>| {
            let (mut count, mut counted_to) = (0, 0);
            for (range, ()) in ranges.iter() {
                // A range may begin in the piece in which the range before ends.
                let first = (range.start / sectors).max(counted_to);
                counted_to = range.end.div_ceil(sectors);
                count += counted_to - first;
            }
            count
        };
        self.0.iter().map(pieces_of_volume).sum()
    }

    /// Number of sectors in both sets.
    fn overlap(&self, other: &SectorSet) -> u64 {
        let common = |(own, others): (&RangeMap<()>, &RangeMap<()>)| {
            own.iter().map(|(range, ())| others.count_within(range)).sum::<u64>()
        };
        self.0.iter().zip(&other.0).map(common).sum()
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The sizes of requests, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sizes {
    /// The mean; null without requests.
    pub mean_bytes: Option<f64>,
    /// The smallest.
    pub min_bytes: u64,
    /// Half are no larger.
    pub p50_bytes: u64,
    /// 90 % are no larger.
    pub p90_bytes: u64,
    /// 99 % are no larger.
    pub p99_bytes: u64,
    /// The largest.
    pub max_bytes: u64,
    /// (bytes at most, requests), by powers of two, empty ones left out.
    pub histogram: Vec<(u64, u64)>,
}

impl Sizes {
    /// The sizes of requests that were counted by their sectors.
    fn from_counts(counts: &BTreeMap<u32, u64>) -> Sizes {
        let counts: Vec<(u64, u64)> =
            counts.iter().map(|(&sectors, &count)| (u64::from(sectors) * SECTOR_BYTES, count)).collect();
        let total: u64 = counts.iter().map(|&(_, count)| count).sum();
        let bytes: f64 = counts.iter().map(|&(size, count)| size as f64 * count as f64).sum();
        // The smallest size that is no smaller than this share of all.
        let rank = |percent: u64| {
            let mut left = (u128::from(total) * u128::from(percent)).div_ceil(100) as u64;
            let reached = |&&(_, count): &&(u64, u64)| {
                left = left.saturating_sub(count);
                left == 0
            };
            counts.iter().find(reached).map_or(0, |&(size, _)| size)
        };
        let mut histogram = BTreeMap::new();
        counts.iter().for_each(|&(size, count)| *histogram.entry(size.next_power_of_two()).or_default() += count);
        Sizes {
            mean_bytes: (total > 0).then(|| bytes / total as f64),
            min_bytes: counts.first().map_or(0, |&(size, _)| size),
            p50_bytes: rank(50),
            p90_bytes: rank(90),
            p99_bytes: rank(99),
            max_bytes: counts.last().map_or(0, |&(size, _)| size),
            histogram: histogram.into_iter().collect(),
        }
    }
}

/// Windows are joined in pairs when there would be more.
const WINDOWS: usize = 512;
/// The first length of a window: 1 ms.
const WINDOW_NS: u64 = 1_000_000;

/// The course of time, in equal windows from the first row's time; rows before it count in the first window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RateSeries {
    /// The length of a window.
    pub window_ns: u64,
    /// Requests that arrived.
    pub requests: Vec<u64>,
    /// Bytes read.
    pub read_bytes: Vec<u64>,
    /// Bytes written.
    pub written_bytes: Vec<u64>,
    /// Bytes written for the first time in the trace: the load of a cache that keeps each sector once.
    pub first_written_bytes: Vec<u64>,
}

impl Default for RateSeries {
    fn default() -> RateSeries {
        let [requests, read_bytes, written_bytes, first_written_bytes] = [const { Vec::new() }; 4];
        RateSeries { window_ns: WINDOW_NS, requests, read_bytes, written_bytes, first_written_bytes }
    }
}

impl RateSeries {
    fn columns(&mut self) -> [&mut Vec<u64>; 4] {
        [&mut self.requests, &mut self.read_bytes, &mut self.written_bytes, &mut self.first_written_bytes]
    }

    /// The window of a moment. Joins windows in pairs if it would be beyond the last.
    fn window(&mut self, since_start_ns: u64) -> usize {
        // Doubling keeps what was counted exact, which another division of the time would not.
        while since_start_ns / self.window_ns >= WINDOWS as u64 {
            self.window_ns *= 2;
            self.columns().into_iter().for_each(join_pairs);
        }
        let at = (since_start_ns / self.window_ns) as usize;
        if at >= self.requests.len() {
            self.columns().into_iter().for_each(|column| column.resize(at + 1, 0));
        }
        at
    }
}

/// When requests arrive.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Arrivals {
    /// The earliest time.
    pub first_ns: u64,
    /// From the earliest time to the latest.
    pub span_ns: u64,
    /// Requests per second of the span.
    pub mean_requests_per_s: Option<f64>,
    /// Requests per second in the busiest window of the series.
    pub peak_requests_per_s: Option<f64>,
    /// Time from one row to the next.
    pub gap_ns: Latency,
    /// Rows whose time lies before the row above; their gap counts as 0.
    pub out_of_order_rows: u64,
}

fn join_pairs(column: &mut Vec<u64>) {
    let joined = column.chunks(2).map(|pair| pair.iter().sum()).collect();
    *column = joined;
}

#[cfg(test)]
mod tests;
