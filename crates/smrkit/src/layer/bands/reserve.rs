//! What is set aside of a drive beside static bands, and the parameters that say how much.

use crate::drive::Drive;
use crate::layer::{Kind, Parameter, Parameters};

/// What is set aside at the outer edge, and how long bands are.
#[derive(Clone, Copy, Debug)]
pub(in crate::layer) struct Reserve {
    /// Tracks of the persistent cache.
    pub cache_tracks: u64,
    /// Tracks of a band, its guard not counted.
    pub band_tracks: u64,
    /// Memory for cleaning: the length of its stages.
    pub buffer_bytes: u64,
    /// How many slots for copies of the map.
    pub map_slots: u64,
    /// Sectors of such a slot.
    pub map_sectors: u64,
}

/// The parameter `band_tracks`.
pub(in crate::layer) const BAND_TRACKS: Parameter = Parameter {
    key: "band_tracks",
    kind: Kind::Count(1, 1 << 20),
    default: "20",
    summary: "Tracks of a band, its guard not counted.",
};

/// The parameter `cache_tracks`.
pub(in crate::layer) const CACHE_TRACKS: Parameter = Parameter {
    key: "cache_tracks",
    kind: Kind::CountOr("auto", 4, 1 << 30),
    default: "auto",
    summary: "Tracks of the persistent cache; auto is the paper's share of the disk, 13,791 of 3,911,040, and at least 24.",
};

/// The parameter `buffer_bytes`.
pub(in crate::layer) const BUFFER_BYTES: Parameter = Parameter {
    key: "buffer_bytes",
    kind: Kind::Bytes(512, 1 << 40),
    default: "15M",
    summary: "Memory for cleaning: the length of its stages.",
};

/// The paper's cache and the tracks of the drive `st5000as0011`: what `auto` scales.
const CACHE_SHARE: (u64, u64) = (13_791, 3_911_040);
/// The least cache that `auto` gives (assumption).
const CACHE_TRACKS_MIN: u64 = 24;

impl Reserve {
    /// Two slots for maps, whose length the layer decides later, and what the parameters say of the rest.
    pub fn new(drive: &Drive, parameters: &Parameters) -> Reserve {
        Reserve {
            cache_tracks: cache_tracks(drive, parameters),
            band_tracks: parameters.int("band_tracks"),
            buffer_bytes: parameters.int("buffer_bytes"),
            map_slots: 2,
            map_sectors: 0,
        }
    }
}

/// Tracks of the persistent cache, as asked for or the paper's share.
pub(in crate::layer) fn cache_tracks(drive: &Drive, parameters: &Parameters) -> u64 {
    let scaled = u128::from(drive.geometry.tracks()) * u128::from(CACHE_SHARE.0) / u128::from(CACHE_SHARE.1);
    parameters.count("cache_tracks").unwrap_or((scaled as u64).max(CACHE_TRACKS_MIN))
}
