//! Statistics of a trace, in one pass: mix, footprint, sizes, sequentiality, arrivals, hot spots, tracks written.
//!
//! Everything is exact save the percentiles of gaps (0.01 %). Memory does not grow with the number of requests on the
//! same sectors: at most 156 MB for each of the sets of sectors read and written on 5 TB in aligned 4 KiB blocks, 40 MB
//! for hot spots. Unaligned requests take up to 8 bytes each and set, at most 1.25 GB for all of 5 TB.

mod facts;
mod gathered;
mod heat;
mod paged;
mod rate;
mod sectors;
mod sizes;

#[cfg(test)]
mod tests;

pub use facts::{Footprint, Sequential, TraceInfo, VolumeInfo};
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
        while source.fill_next(&mut batch)? {
            batch.iter().for_each(|request| gathered.count(request));
        }
        Ok(gathered.finish(track_sectors))
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
