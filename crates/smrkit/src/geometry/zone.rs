//! Recording zones: their tracks, and the angles of their sectors.

use super::Turn;
use super::divisor::Divisor;
use super::order::TrackOrder;
use crate::units::{Pba, Track};

/// Sectors a track may have at most.
pub const TRACK_SECTORS_MAX: u64 = 1 << 24;
/// Recording zones a drive may have at most (surfaces counted apart).
pub const ZONES_MAX: usize = 32_768;
/// Sectors a drive may have at most: 562 TB, as far as the extent map counts.
pub(crate) const SECTORS_MAX: u64 = 1 << 40;

/// An edge of the platter: the direction of shingling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Edge {
    /// Toward the spindle.
    Inner,
    /// Toward the rim.
    Outer,
}

/// The definition of a recording zone: tracks of one length next to each other on one surface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneShape {
    /// Surface (head), from 0.
    pub surface: u32,
    /// The outermost of its cylinders; cylinders count from the rim inward.
    pub outer_cylinder: u64,
    /// Number of tracks.
    pub tracks: u64,
    /// Sectors on each track, defective ones included.
    pub track_sectors: u64,
    /// The direction of shingling.
    pub toward: Edge,
}

/// A recording zone of a geometry.
#[derive(Clone, Debug)]
pub struct RecordingZone {
    /// Its first usable sector.
    pub first_pba: Pba,
    /// Its first track in the order of PBAs.
    pub first_track: Track,
    /// Number of tracks.
    pub tracks: u64,
    /// Sectors on each track, defective ones included.
    pub track_sectors: u64,
    /// The direction of shingling, which is the direction of PBAs.
    pub toward: Edge,
    /// The cylinder of its first track: the outermost where it shingles inward, else the innermost.
    pub first_cylinder: u64,
    /// The next recording zone carries on in the same direction on the same surface, perhaps after guard tracks.
    pub continues: bool,
    pub(super) order: TrackOrder,
    pub(super) raw_first: u64,
    pub(super) raw_end: u64,
    /// Angle at which its first sector begins.
    pub(super) origin: Turn,
    /// From a track's first sector to the next track's, and to that of one on another surface.
    pub(super) skew: Turn,
    pub(super) head_skew: Turn,
    pub(super) mean_skew: Turn,
    pub(super) step: Turn,
    pub(super) divisor: Divisor,
}

impl RecordingZone {
    /// The cylinder of the zone's track `k`.
    #[inline]
    pub fn cylinder(&self, k: u64) -> u64 {
        self.spot(k).0
    }

    /// The cylinder and the surface (head) of the zone's track `k`.
    #[inline(always)]
    pub fn spot(&self, k: u64) -> (u64, u32) {
        match (&self.order, self.toward) {
            (TrackOrder::Surface(surface), Edge::Inner) => (self.first_cylinder + k, *surface),
            (TrackOrder::Surface(surface), Edge::Outer) => (self.first_cylinder - k, *surface),
            (order, _) => {
                let (inward, surface) = order.spot(k).unwrap_or_default();
                (self.first_cylinder + inward, surface)
            }
        }
    }

    /// The surface that it lies on; `None` where it lies on all of them.
    pub fn surface(&self) -> Option<u32> {
        match self.order {
            TrackOrder::Surface(surface) => Some(surface),
            _ => None,
        }
    }

    /// Tracks that follow each other on one surface; `None` where all do.
    pub fn run_tracks(&self) -> Option<u64> {
        self.order.run_tracks()
    }

    /// The mean angle from a track's first sector to the next track's.
    pub fn mean_skew(&self) -> Turn {
        self.mean_skew
    }

    /// Sets the skews, to the next track and to one on another surface.
    pub(super) fn set_skews(&mut self, skew: Turn, head_skew: Turn) {
        let heads = u128::from(self.order.head_steps(self.tracks - 1));
        let steps = u128::from(self.tracks - 1).max(1);
        let mean = (u128::from(skew) * (steps - heads.min(steps)) + u128::from(head_skew) * heads) / steps;
        (self.skew, self.head_skew, self.mean_skew) = (skew, head_skew, mean as Turn);
    }

    /// The one function of angles: where sector `sector` (defective ones counted) of the zone's track `k` begins.
    ///
    /// Skews of the tracks before and `sector / track_sectors`, modulo the turn. The end of a sector is the beginning of the
    /// next, and the error is below 2⁻⁴⁰ of a turn, so that differences never drift.
    #[inline]
    pub fn angle(&self, k: u64, sector: u64) -> Turn {
        let mut angle =
            self.origin.wrapping_add(k.wrapping_mul(self.skew)).wrapping_add(sector.wrapping_mul(self.step));
        if !matches!(self.order, TrackOrder::Surface(_)) {
            let heads = self.order.head_steps(k);
            angle = angle.wrapping_add(heads.wrapping_mul(self.head_skew.wrapping_sub(self.skew)));
        }
        angle
    }

    /// True if a track, none before the zone's first, is one of its own.
    #[inline]
    pub(crate) fn holds(&self, track: Track) -> bool {
        track - self.first_track < self.tracks
    }

    /// The raw sector at which one of its tracks begins.
    #[inline]
    pub(crate) fn raw_start(&self, track: Track) -> u64 {
        self.raw_first + (track - self.first_track) * self.track_sectors
    }

    /// The angle that one sector takes.
    #[inline]
    pub fn sector_turn(&self) -> Turn {
        self.step
    }

    /// The surfaces that it lies on.
    pub fn surfaces(&self) -> std::ops::Range<u32> {
        match &self.order {
            TrackOrder::Surface(surface) => *surface..*surface + 1,
            order => 0..order.surfaces(),
        }
    }

    /// The outermost and the innermost of its cylinders.
    pub fn cylinders(&self) -> (u64, u64) {
        if let TrackOrder::Surface(_) = self.order {
            let (a, b) = (self.first_cylinder, self.cylinder(self.tracks - 1));
            return (a.min(b), a.max(b));
        }
        (self.first_cylinder, self.first_cylinder + self.tracks / u64::from(self.surfaces().end) - 1)
    }
}
