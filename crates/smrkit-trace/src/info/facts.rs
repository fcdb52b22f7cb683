//! The statistics, as results hold them.

use serde::Serialize;

use super::heat::{HotSpots, Surface};
use super::rate::{Arrivals, RateSeries};
use super::sizes::Sizes;

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
    /// The size of a track, as given.
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
    /// Skew of the accesses.
    pub hot_spots: HotSpots,
    /// Beginnings of requests.
    pub surface: Surface,
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
    /// Aligned 4 KiB blocks that are read, in part or whole.
    pub read_4kib_blocks: u64,
    /// Aligned 4 KiB blocks that are written, in part or whole.
    pub written_4kib_blocks: u64,
}

/// Requests that follow one another: each begins where the one before on its volume ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sequential {
    /// Share of reads and writes that continue the one before.
    pub share: Option<f64>,
    /// Stretches of requests that continue one another; single requests are stretches of 1.
    pub runs: u64,
    /// Requests in a stretch, on average.
    pub mean_run_requests: Option<f64>,
    /// Bytes in a stretch, on average.
    pub mean_run_bytes: Option<f64>,
    /// The longest stretch, in requests.
    pub longest_run_requests: u64,
    /// The longest stretch, in bytes.
    pub longest_run_bytes: u64,
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
    /// Distinct sectors read.
    pub read_footprint_sectors: u64,
    /// Distinct sectors written.
    pub written_footprint_sectors: u64,
    /// The largest end of a request.
    pub highest_end_sectors: u64,
}
