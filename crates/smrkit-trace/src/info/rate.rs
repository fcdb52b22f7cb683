//! Requests and bytes over time, in at most 512 windows that double as the trace grows, and the gaps between requests.

use serde::Serialize;

use smrkit::request::{Op, Request};
use smrkit::stats::latency::{Latency, LatencyCounts};
use smrkit::units::SECTOR_BYTES;

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
    /// Share of windows without requests.
    pub idle_window_share: Option<f64>,
    /// Variance of requests per window / their mean: 1 where arrivals are independent, larger in bursts.
    pub dispersion: Option<f64>,
    /// Standard deviation of gaps / their mean.
    pub gap_variation: Option<f64>,
    /// Time from one row to the next.
    pub gap_ns: Latency,
    /// Rows whose time lies before the row above; their gap counts as 0.
    pub out_of_order_rows: u64,
}

/// Gathers the series and the gaps.
#[derive(Default)]
pub(super) struct Rate {
    series: RateSeries,
    start_ns: Option<u64>,
    previous_ns: Option<u64>,
    earliest_ns: u64,
    latest_ns: u64,
    gaps: LatencyCounts,
    gap_sum: f64,
    gap_squares: f64,
    out_of_order_rows: u64,
}

impl Rate {
    /// Counts a request, `new_sectors` of which were written for the first time.
    pub(super) fn count(&mut self, request: &Request, new_sectors: u64) {
        let time = request.time.0;
        let start_ns = *self.start_ns.get_or_insert(time);
        if let Some(previous_ns) = self.previous_ns.replace(time) {
            self.out_of_order_rows += u64::from(time < previous_ns);
            let gap = time.saturating_sub(previous_ns);
            // `Op::Read` stands for all operations: gaps have one total.
            self.gaps.record(Op::Read, gap);
            self.gap_sum += gap as f64;
            self.gap_squares += gap as f64 * gap as f64;
        } else {
            self.earliest_ns = time;
        }
        self.earliest_ns = self.earliest_ns.min(time);
        self.latest_ns = self.latest_ns.max(time);
        let at = self.window(time.saturating_sub(start_ns));
        let bytes = u64::from(request.sectors) * SECTOR_BYTES;
        self.series.requests[at] += 1;
        match request.op {
            Op::Read => self.series.read_bytes[at] += bytes,
            Op::Write => self.series.written_bytes[at] += bytes,
            Op::Flush | Op::Discard => {}
        }
        self.series.first_written_bytes[at] += new_sectors * SECTOR_BYTES;
    }

    /// The window of a moment. Joins windows in pairs if it would be beyond the last.
    fn window(&mut self, since_start_ns: u64) -> usize {
        while since_start_ns / self.series.window_ns >= WINDOWS as u64 {
            self.series.window_ns *= 2;
            self.series.columns().into_iter().for_each(join_pairs);
        }
        let at = (since_start_ns / self.series.window_ns) as usize;
        if at >= self.series.requests.len() {
            self.series.columns().into_iter().for_each(|column| column.resize(at + 1, 0));
        }
        at
    }

    pub(super) fn finish(self) -> (RateSeries, Arrivals) {
        let span_ns = self.latest_ns.saturating_sub(self.earliest_ns);
        let rows = self.series.requests.iter().sum::<u64>() as f64;
        let windows = self.series.requests.len() as f64;
        let mean = rows / windows;
        let squares = self.series.requests.iter().map(|&count| (count as f64 - mean).powi(2)).sum::<f64>();
        let idle = self.series.requests.iter().filter(|&&count| count == 0).count() as f64;
        let busiest = self.series.requests.iter().max().map(|&count| count as f64);
        let gaps = self.gaps.list().summary().all;
        let gap_count = gaps.count.max(1) as f64;
        let gap_mean = self.gap_sum / gap_count;
        let gap_deviation = (self.gap_squares / gap_count - gap_mean * gap_mean).max(0.0).sqrt();
        let arrivals = Arrivals {
            first_ns: self.earliest_ns,
            span_ns,
            mean_requests_per_s: (span_ns > 0).then(|| rows / (span_ns as f64 / 1e9)),
            peak_requests_per_s: busiest.map(|count| count / (self.series.window_ns as f64 / 1e9)),
            idle_window_share: (windows > 0.0).then(|| idle / windows),
            dispersion: (rows > 0.0).then(|| squares / windows / mean),
            gap_variation: (gap_mean > 0.0).then(|| gap_deviation / gap_mean),
            gap_ns: gaps,
            out_of_order_rows: self.out_of_order_rows,
        };
        (self.series, arrivals)
    }
}

fn join_pairs(column: &mut Vec<u64>) {
    let joined = column.chunks(2).map(|pair| pair.iter().sum()).collect();
    *column = joined;
}
