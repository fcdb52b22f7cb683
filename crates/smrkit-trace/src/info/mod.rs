//! Statistics of a trace, in one pass: mix, footprint, sizes, sequentiality, arrivals, hot spots, tracks written.
//!
//! Everything is exact save the percentiles of gaps (0.01 %). Memory does not grow with the number of requests on the
//! same sectors: at most 156 MB for each of the sets of sectors read and written on 5 TB in aligned 4 KiB blocks, 40 MB
//! for hot spots. Unaligned requests take up to 8 bytes each and set, at most 1.25 GB for all of 5 TB.

mod gathered;
mod heat;
mod paged;
mod rate;
mod sectors;
mod sizes;

#[cfg(test)]
mod tests;

use serde::Serialize;

pub use heat::{HotSpots, Surface};
pub use rate::{Arrivals, Gaps, RateSeries};
pub use sizes::Sizes;

use self::gathered::Gathered;
use crate::volume::Volume;
use smrkit::error::Error;
use smrkit::request::Source;
use smrkit::units::SECTOR_BYTES;

/// The facts that `TraceInfo::from_source` needs besides the requests.
#[derive(Clone, Debug)]
pub struct InfoSettings {
    /// The size of a track, for `written_tracks`: 1 MiB, as in Vguard's figure 5 (which says 1 MB).
    pub track_bytes: u64,
}

impl Default for InfoSettings {
    fn default() -> InfoSettings {
        InfoSettings { track_bytes: 1 << 20 }
    }
}

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

impl TraceInfo {
    /// Reads `source` to its end. Volumes carry their index as number until `name_volumes`, since a reader knows its
    /// table of volumes only then.
    pub fn from_source(source: &mut dyn Source, settings: &InfoSettings) -> Result<TraceInfo, Error> {
        let track_sectors = settings.track_bytes / SECTOR_BYTES;
        if track_sectors == 0 {
            return Err(Error::Usage(format!("a track of {} bytes: give at least 512", settings.track_bytes)));
        }
        let mut gathered = Gathered::new();
        let mut batch = Vec::new();
        loop {
            source.fill(&mut batch)?;
            if batch.is_empty() {
                return Ok(gathered.finish(track_sectors));
            }
            batch.iter().for_each(|request| gathered.count(request));
        }
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
