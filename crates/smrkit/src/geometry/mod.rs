//! Geometry: recording zones, tracks and angles of sectors, as pure arithmetic on integers.
//!
//! PBAs run in the direction of shingling: inside a recording zone, a write to a track may damage the tracks that follow it. Left out: spiral
//! tracks, and defects that are remapped instead of slipped. Angles follow `docs/reference/model.md`.

mod divisor;
mod regions;
mod slips;
mod zone;

use std::sync::Arc;

use crate::error::Error;
use crate::units::{Pba, Track};

pub use regions::{Guard, Regions};
pub use slips::Slips;
pub use zone::{Edge, RecordingZone, Skews, TRACK_SECTORS_MAX, TrackSequence, ZONES_MAX, ZoneShape};

pub(crate) use divisor::{Divisor, StretchIndex, pieces_by_divisor};
pub(crate) use zone::SECTORS_MAX;

/// An angle or a share of a rotation: 2⁶⁴ is a whole turn, so that wrapping arithmetic is arithmetic modulo the turn.
pub type Turn = u64;

/// Converts a share of a rotation into a `Turn`, modulo a rotation.
pub fn turn(share: f64) -> Turn {
    (share.rem_euclid(1.0) * 18_446_744_073_709_551_616.0) as u64
}

/// Place of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectorPlace {
    /// Recording zone.
    pub zone: u32,
    /// Track, in the order of PBAs.
    pub track: Track,
    /// Sector of the track, defective ones counted.
    pub sector: u32,
    /// Sectors on the track, defective ones counted.
    pub track_sectors: u32,
    /// The cylinder, from the rim inward.
    pub cylinder: u32,
    /// The surface.
    pub surface: u32,
    /// The angle at which the sector begins.
    pub angle: Turn,
}

/// The layout of a drive: recording zones in the order of PBAs, the skew of tracks, and slipped defects.
///
/// Raw sectors count every sector of every track; PBAs count the usable ones, so that a defect shifts all that follow
/// (slipping). Without defects the two are the same, and nothing is searched.
#[derive(Clone, Debug)]
pub struct Geometry {
    /// The recording zones in the order of PBAs.
    pub zones: Arc<[RecordingZone]>,
    index: StretchIndex,
    /// The angle from a track's first sector to the next track's.
    pub skew: Turn,
    slips: Slips,
    /// Usable sectors.
    pub sectors: u64,
    /// Tracks that hold PBAs.
    pub tracks: u64,
    /// Cylinders from the outermost track used (or the rim) to the innermost.
    pub cylinders: u64,
    longest: u64,
}

impl Geometry {
    /// Lays out recording zones in the order of PBAs. `skew` is the angle from a track's first sector to the next
    /// track's; `defects` are raw sector numbers. Errors: no zone, sizes out of range, zones that overlap.
    pub fn new(shapes: &[ZoneShape], skew: Turn, defects: Vec<u64>) -> Result<Geometry, Error> {
        Geometry::of_zones(zone::zones_of(shapes, skew)?, skew, defects.into())
    }

    /// Lays out recording zones that lie on all surfaces, in the order of PBAs; a shape counts the tracks of one surface, and its own
    /// surface is ignored. `slips` are raw sectors. Errors: as for [`Geometry::new`].
    pub fn interleaved(
        shapes: &[(ZoneShape, Skews)],
        surfaces: u32,
        sequence: TrackSequence,
        slips: Slips,
    ) -> Result<Geometry, Error> {
        Geometry::of_zones(zone::interleaved_zones(shapes, surfaces, sequence)?, 0, slips)
    }

    fn of_zones(mut zones: Vec<RecordingZone>, skew: Turn, slips: Slips) -> Result<Geometry, Error> {
        let raw = zones.last().map_or(0, |z| z.raw_end);
        if slips.end() > raw {
            return Err(Error::Impossible(format!(
                "defect {} lies beyond the last raw sector {}: remove it from slips",
                slips.end() - 1,
                raw - 1
            )));
        }
        if slips.count() == raw {
            return Err(Error::Impossible("every sector is defective: shorten slips".into()));
        }
        // Until here zones count raw sectors.
        for zone in &mut zones {
            zone.first_pba = slips.usable(zone.raw_first);
        }
        Ok(Geometry {
            index: StretchIndex::new(raw, zones.len(), |at| zones.partition_point(|z| z.raw_end <= at)),
            skew,
            sectors: raw - slips.count(),
            tracks: zones.iter().map(|z| z.tracks).sum(),
            cylinders: zones.iter().map(|z| z.cylinders().1 + 1).max().unwrap_or(1),
            longest: zones.iter().map(|z| z.track_sectors).max().unwrap_or(1),
            slips,
            zones: zones.into(),
        })
    }

    /// One recording zone on one surface, shingled inward, without skew.
    pub fn uniform(tracks: u64, track_sectors: u64) -> Result<Geometry, Error> {
        let shape = ZoneShape { surface: 0, outer_cylinder: 0, tracks, track_sectors, toward: Edge::Inner };
        Geometry::new(&[shape], 0, Vec::new())
    }

    /// Sectors on the longest track.
    pub fn longest_track(&self) -> u64 {
        self.longest
    }

    /// Defective sectors that were slipped.
    pub fn slipped(&self) -> u64 {
        self.slips.count()
    }

    /// The recording zone of a sector; the last one for PBAs beyond the disk.
    #[inline]
    pub fn zone_of(&self, pba: Pba) -> &RecordingZone {
        &self.zones[self.zone_index(self.raw(pba))]
    }

    /// The recording zone of a track; the last one for tracks beyond the disk.
    pub fn zone_of_track(&self, track: Track) -> &RecordingZone {
        let after = self.zones.partition_point(|z| z.first_track <= track);
        &self.zones[after.max(1) - 1]
    }

    /// The track of a sector.
    #[inline]
    pub fn track_of(&self, pba: Pba) -> Track {
        let raw = self.raw(pba);
        let zone = &self.zones[self.zone_index(raw)];
        zone.first_track + zone.divisor.quotient(raw - zone.raw_first)
    }

    /// The tracks of the first and of the last sector of an extent.
    #[inline]
    pub fn tracks_of(&self, pba: Pba, sectors: u64) -> (Track, Track) {
        let raw = self.raw(pba);
        let zone = &self.zones[self.zone_index(raw)];
        let (k, sector) = Geometry::in_zone(zone, raw);
        let first = zone.first_track + k;
        // The usual case, one track. With defects, the extent may span more raw sectors than `sectors`.
        if self.slips.is_empty() && sector + sectors <= zone.track_sectors {
            return (first, first);
        }
        (first, self.track_of(pba + (sectors - 1)))
    }

    /// The first usable sector of a track; the disk's end for tracks beyond it.
    pub fn track_start(&self, track: Track) -> Pba {
        if track.0 >= self.tracks {
            return Pba(self.sectors);
        }
        self.slips.usable(self.raw_track_start(track))
    }

    /// Like `track_start`, but faster for a track in the recording zone of `pba`, which is a sector before it.
    #[inline]
    pub(crate) fn track_start_near(&self, pba: Pba, track: Track) -> Pba {
        let zone = self.zone_of(pba);
        if zone.holds(track) { self.slips.usable(zone.raw_start(track)) } else { self.track_start(track) }
    }

    /// The usable sectors of a track; 0 beyond the disk.
    pub fn track_sectors(&self, track: Track) -> u64 {
        self.track_start(track + 1) - self.track_start(track)
    }

    /// Place of a sector, with its angle. For a PBA beyond the disk the place is meaningless.
    #[inline]
    pub fn place(&self, pba: Pba) -> SectorPlace {
        let raw = self.raw(pba);
        let index = self.zone_index(raw);
        let zone = &self.zones[index];
        let (k, sector) = zone.divisor.divide(raw - zone.raw_first);
        let (cylinder, surface) = zone.spot(k);
        SectorPlace {
            zone: index as u32,
            track: zone.first_track + k,
            sector: sector as u32,
            track_sectors: zone.track_sectors as u32,
            cylinder: cylinder as u32,
            surface,
            angle: zone.angle(k, sector),
        }
    }

    /// The number of a usable sector among all sectors.
    #[inline]
    pub(crate) fn raw(&self, pba: Pba) -> u64 {
        if self.slips.is_empty() {
            return pba.0;
        }
        self.slips.raw(pba)
    }

    /// True if a raw sector is defective.
    pub(crate) fn is_defect(&self, raw: u64) -> bool {
        self.usable(raw + 1) == self.usable(raw)
    }

    /// The first usable sector at or after a raw sector.
    #[inline]
    pub(crate) fn usable(&self, raw: u64) -> Pba {
        self.slips.usable(raw)
    }

    /// The raw sector at which a track begins.
    pub(crate) fn raw_track_start(&self, track: Track) -> u64 {
        self.zone_of_track(track).raw_start(track)
    }

    /// The index of the recording zone of a raw sector.
    #[inline]
    pub(crate) fn zone_index(&self, raw: u64) -> usize {
        self.index.find(&self.zones, raw, |z| z.raw_end <= raw)
    }

    /// Track and sector in the recording zone of a raw sector.
    #[inline]
    pub(crate) fn in_zone(zone: &RecordingZone, raw: u64) -> (u64, u64) {
        zone.divisor.divide(raw - zone.raw_first)
    }

    /// The raw sectors of a recording zone.
    #[inline]
    pub(crate) fn raw_of_zone(zone: &RecordingZone) -> std::ops::Range<u64> {
        zone.raw_first..zone.raw_end
    }
}

#[cfg(test)]
pub(crate) mod tests;
