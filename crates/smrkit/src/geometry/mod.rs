//! Where sectors lie: recording zones, tracks and angles, as pure arithmetic on integers.
//!
//! PBAs run in the direction of shingling: inside a recording zone each track is followed by the one that a write to
//! it may damage. Left out: spiral tracks, remapped (as against slipped) defects. Angles follow `docs/reference/model.md`.

mod divisor;
mod layout;
mod pieces;
mod regions;

use std::sync::Arc;

use crate::error::Error;
use crate::units::{Pba, Track};

pub use divisor::Divisor;
pub use pieces::{Pieces, pieces_by_divisor, pieces_by_multiples};
pub use regions::{Guard, Regions};

/// An angle or a share of a rotation: 2⁶⁴ is a whole turn, so that wrapping arithmetic is arithmetic modulo the turn.
pub type Turn = u64;

/// Turns a share of a rotation (0 to 1, exclusive) into a `Turn`; what lies outside is folded into it.
pub fn turn(share: f64) -> Turn {
    (share.rem_euclid(1.0) * 18_446_744_073_709_551_616.0) as u64
}

/// An edge of the platter: the direction of shingling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Edge {
    /// Toward the spindle.
    Inner,
    /// Toward the rim.
    Outer,
}

/// What defines a recording zone: tracks of one length beside each other on one surface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneShape {
    /// Which surface (head), from 0.
    pub surface: u32,
    /// The outermost of its cylinders; cylinders count from the rim inward.
    pub outer_cylinder: u64,
    /// How many tracks.
    pub tracks: u64,
    /// Sectors on each track, defective ones included.
    pub track_sectors: u64,
    /// The direction of shingling.
    pub toward: Edge,
}

/// A recording zone of a geometry.
#[derive(Clone, Debug)]
pub struct Zone {
    /// Its first usable sector.
    pub first_pba: Pba,
    /// Its first track in the order of PBAs.
    pub first_track: Track,
    /// How many tracks.
    pub tracks: u64,
    /// Sectors on each track, defective ones included.
    pub track_sectors: u64,
    /// The direction of shingling, which is the direction of PBAs.
    pub toward: Edge,
    /// Which surface (head).
    pub surface: u32,
    /// The cylinder of its first track: the outermost where it shingles inward, else the innermost.
    pub first_cylinder: u64,
    /// The next recording zone carries on in the same direction on the same surface, perhaps after guard tracks.
    pub continues: bool,
    raw_first: u64,
    raw_end: u64,
    step: Turn,
    divisor: Divisor,
}

impl Zone {
    /// The cylinder of the zone's track `k`.
    #[inline]
    pub fn cylinder(&self, k: u64) -> u64 {
        match self.toward {
            Edge::Inner => self.first_cylinder + k,
            Edge::Outer => self.first_cylinder - k,
        }
    }

    /// Whether a track, none before the zone's first, is one of its own.
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

    /// The outermost and the innermost of its cylinders.
    pub fn cylinders(&self) -> (u64, u64) {
        let (a, b) = (self.first_cylinder, self.cylinder(self.tracks - 1));
        (a.min(b), a.max(b))
    }
}

/// Where a sector lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which recording zone.
    pub zone: u32,
    /// Which track, in the order of PBAs.
    pub track: Track,
    /// Which sector of the track, defective ones counted.
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
    zones: Arc<[Zone]>,
    buckets: Arc<[u16]>,
    shift: u32,
    skew: Turn,
    /// `defect − its rank`, ascending: a PBA at or above it lies after that defect.
    slips: Arc<[u64]>,
    sectors: u64,
    tracks: u64,
    cylinders: u64,
    longest: u64,
}

/// Sectors a track may have at most.
pub const TRACK_SECTORS_MAX: u64 = 1 << 24;
/// Recording zones a drive may have at most (surfaces counted apart).
pub const ZONES_MAX: usize = 32_768;
/// Sectors a drive may have at most: 562 TB, as far as the extent map counts.
pub(crate) const SECTORS_MAX: u64 = 1 << 40;
const BUCKETS: u64 = 4096;

impl Geometry {
    /// Lays out recording zones in the order of PBAs. `skew` is the angle from a track's first sector to the next
    /// track's; `defects` are raw sector numbers. Errors: no zone, sizes out of range, zones that overlap.
    pub fn new(shapes: &[ZoneShape], skew: Turn, mut defects: Vec<u64>) -> Result<Geometry, Error> {
        let mut zones = layout::zones_of(shapes)?;
        let raw = zones.last().map_or(0, |z| z.raw_end);
        defects.sort_unstable();
        defects.dedup();
        if let Some(&bad) = defects.last().filter(|&&d| d >= raw) {
            return Err(Error::Impossible(format!(
                "defect {bad} lies beyond the last raw sector {}: remove it from geometry.slips",
                raw - 1
            )));
        }
        if defects.len() as u64 == raw {
            return Err(Error::Impossible("every sector is defective: shorten geometry.slips".into()));
        }
        let slips: Arc<[u64]> = defects.iter().enumerate().map(|(rank, d)| d - rank as u64).collect();
        for zone in &mut zones {
            zone.first_pba = Pba(usable(&slips, zone.raw_first));
        }
        let shift = (0..).find(|s| (raw >> s) < BUCKETS).unwrap_or(0);
        let buckets = (0..=(raw >> shift) + 1)
            .map(|b| zones.partition_point(|z| z.raw_end <= b << shift).min(zones.len() - 1) as u16)
            .collect();
        Ok(Geometry {
            buckets,
            shift,
            skew,
            sectors: raw - slips.len() as u64,
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

    /// Usable sectors.
    #[inline]
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Tracks that hold PBAs.
    pub fn tracks(&self) -> u64 {
        self.tracks
    }

    /// Cylinders from the outermost track used (or the rim) to the innermost.
    pub fn cylinders(&self) -> u64 {
        self.cylinders
    }

    /// Surfaces used.
    pub fn surfaces(&self) -> u32 {
        self.zones.iter().map(|z| z.surface + 1).max().unwrap_or(1)
    }

    /// Sectors on the longest track.
    pub fn longest_track(&self) -> u64 {
        self.longest
    }

    /// Defective sectors that were slipped.
    pub fn slipped(&self) -> u64 {
        self.slips.len() as u64
    }

    /// The angle from a track's first sector to the next track's.
    pub fn skew(&self) -> Turn {
        self.skew
    }

    /// The recording zones in the order of PBAs.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// The recording zone of a sector; the last one for PBAs beyond the disk.
    pub fn zone_of(&self, pba: Pba) -> &Zone {
        &self.zones[self.zone_index(self.raw(pba))]
    }

    /// The recording zone of a track; the last one for tracks beyond the disk.
    pub fn zone_of_track(&self, track: Track) -> &Zone {
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
        // Mostly one track; defects would lengthen the extent.
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
        Pba(usable(&self.slips, self.raw_track_start(track)))
    }

    /// The usable sectors of a track; 0 beyond the disk.
    pub fn track_sectors(&self, track: Track) -> u64 {
        self.track_start(track + 1) - self.track_start(track)
    }

    /// Where a sector lies and at which angle. For a PBA beyond the disk the place is meaningless.
    #[inline]
    pub fn place(&self, pba: Pba) -> Place {
        let raw = self.raw(pba);
        let index = self.zone_index(raw);
        let zone = &self.zones[index];
        let (k, sector) = zone.divisor.divide(raw - zone.raw_first);
        let track = zone.first_track + k;
        Place {
            zone: index as u32,
            track,
            sector: sector as u32,
            track_sectors: zone.track_sectors as u32,
            cylinder: zone.cylinder(k) as u32,
            surface: zone.surface,
            angle: self.angle(zone, track, sector),
        }
    }

    /// The one function of angles: where sector `sector` (defective ones counted) of a track begins.
    ///
    /// `track · skew + sector / track_sectors`, modulo the turn. The end of a sector is the beginning of the next, and
    /// the error is below 2⁻⁴⁰ of a turn, so that differences never drift.
    #[inline]
    pub fn angle(&self, zone: &Zone, track: Track, sector: u64) -> Turn {
        track.0.wrapping_mul(self.skew).wrapping_add(sector.wrapping_mul(zone.step))
    }

    /// The number of a usable sector among all sectors.
    #[inline]
    pub(crate) fn raw(&self, pba: Pba) -> u64 {
        if self.slips.is_empty() {
            return pba.0;
        }
        pba.0 + self.slips.partition_point(|&s| s <= pba.0) as u64
    }

    /// Whether a raw sector is defective.
    pub(crate) fn is_defect(&self, raw: u64) -> bool {
        self.usable(raw + 1) == self.usable(raw)
    }

    /// The first usable sector at or after a raw sector.
    #[inline]
    pub(crate) fn usable(&self, raw: u64) -> Pba {
        Pba(usable(&self.slips, raw))
    }

    /// The raw sector at which a track begins.
    pub(crate) fn raw_track_start(&self, track: Track) -> u64 {
        self.zone_of_track(track).raw_start(track)
    }

    /// The index of the recording zone of a raw sector.
    #[inline]
    pub(crate) fn zone_index(&self, raw: u64) -> usize {
        let bucket = ((raw >> self.shift) as usize).min(self.buckets.len() - 2);
        let (first, last) = (self.buckets[bucket] as usize, self.buckets[bucket + 1] as usize);
        if first == last {
            return first;
        }
        first + self.zones[first..last].partition_point(|z| z.raw_end <= raw)
    }

    /// Track and sector in the recording zone of a raw sector.
    #[inline]
    pub(crate) fn in_zone(zone: &Zone, raw: u64) -> (u64, u64) {
        zone.divisor.divide(raw - zone.raw_first)
    }

    /// The raw sectors of a recording zone.
    #[inline]
    pub(crate) fn raw_of_zone(zone: &Zone) -> std::ops::Range<u64> {
        zone.raw_first..zone.raw_end
    }
}

/// `raw` less the defects before it; with slips stored as `defect − rank`.
fn usable(slips: &[u64], raw: u64) -> u64 {
    let (mut low, mut high) = (0, slips.len());
    while low < high {
        let mid = (low + high) / 2;
        if slips[mid] + (mid as u64) < raw {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    raw - low as u64
}

#[cfg(test)]
mod tests;
