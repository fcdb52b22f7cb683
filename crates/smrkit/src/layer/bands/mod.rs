//! Static bands with a persistent cache at the outer edge, and how a band is cleaned: what `vguard` and `drive-managed`
//! share. Both are described in Shafaei & Desnoyers, "Virtual Guard", HotStorage 2017.
//!
//! Left out here: what lies in the cache and when cleaning is due; that is each layer's own.

mod clean;
mod home;
#[cfg(test)]
mod tests;

use crate::drive::Drive;
use crate::keys;
use crate::schema::{Count, Or, Size};

pub(super) use clean::{Cleaner, Episode, PhaseResult};
pub(super) use home::{Home, HomeLocation};

/// Room that is set aside at the outer edge, and the length of bands.
#[derive(Clone, Copy, Debug)]
pub(in crate::layer) struct Reserve {
    /// Tracks of the persistent cache.
    pub cache_tracks: u64,
    /// Tracks of a band, its guard not counted.
    pub band_tracks: u64,
    /// Memory for cleaning: the length of its stages.
    pub buffer_bytes: u64,
    /// Number of slots for copies of the map.
    pub map_slots: u64,
    /// Sectors of such a slot.
    pub map_sectors: u64,
}

keys! {
    /// The parameters of layers on static bands with a persistent cache.
    #[derive(Clone)]
    pub(in crate::layer) struct BandKeys {
        /// Tracks of a band, its guard not counted.
        pub band_tracks: u64 = Count(1, 1 << 20), "20";
        /// Tracks of the persistent cache; auto is Vguard's share, 13,791 of 3,911,040, and at least 24.
        pub cache_tracks: Option<u64> = Or("auto", Count(4, 1 << 30)), "auto";
    }
}

keys! {
    /// Memory for cleaning.
    #[derive(Clone)]
    pub(in crate::layer) struct BufferKeys {
        /// Memory for cleaning: the length of its stages.
        pub buffer_bytes: u64 = Size(512, 1 << 40), "15M";
    }
}

/// The paper's cache and the tracks of the drive `st5000as0011`: what `auto` scales.
const CACHE_SHARE: (u64, u64) = (13_791, 3_911_040);
/// The least cache that `auto` gives (assumption).
pub(super) const CACHE_TRACKS_MIN: u64 = 24;

impl Reserve {
    /// Two slots for maps, whose length the layer decides later, and what the parameters say of the rest.
    pub fn new(drive: &Drive, bands: &BandKeys, buffer: &BufferKeys) -> Reserve {
        Reserve {
            cache_tracks: bands.cache_tracks(drive),
            band_tracks: bands.band_tracks,
            buffer_bytes: buffer.buffer_bytes,
            map_slots: 2,
            map_sectors: 0,
        }
    }
}

impl BandKeys {
    /// Tracks of the persistent cache, as asked for, or the paper's share.
    pub fn cache_tracks(&self, drive: &Drive) -> u64 {
        let scaled = u128::from(drive.geometry.tracks()) * u128::from(CACHE_SHARE.0) / u128::from(CACHE_SHARE.1);
        self.cache_tracks.unwrap_or((scaled as u64).max(CACHE_TRACKS_MIN))
    }
}
