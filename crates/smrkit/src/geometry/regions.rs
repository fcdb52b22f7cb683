//! Regions of equal size with a guard after each: the shingled regions of Cassuto 2010, section II.B.
//!
//! The guard keeps a write in one region from damaging the next. Its cost is counted here, and nowhere else.

use super::divisor::StretchIndex;
use super::{Divisor, Geometry, RecordingZone, pieces_by_divisor};
use crate::error::Error;
use crate::units::{Lba, Pba};

/// Sectors that must stay unwritten after a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// A number of sectors.
    Sectors(u64),
    /// A number of whole tracks, after the track on which the region ends.
    Tracks(u64),
}

/// Regions of one strip of the disk: all of it, or those of one recording zone.
#[derive(Clone, Debug)]
struct Strip {
    first_region: u64,
    regions: u64,
    /// The first sector: a raw one if guards are of tracks, a PBA if they are of sectors.
    origin: u64,
    /// Sectors from one region to the next.
    stride: Divisor,
}

impl Strip {
    /// The number after that of its last region.
    fn end_region(&self) -> u64 {
        self.first_region + self.regions
    }
}

/// A layout of equal regions over a stretch of the disk.
#[derive(Clone, Debug)]
pub struct Regions {
    geometry: Geometry,
    strips: Vec<Strip>,
    index: StretchIndex,
    by_track: bool,
    region: Divisor,
    /// Number of regions.
    pub count: u64,
}

impl Regions {
    /// Lays regions over the whole disk. Errors: a region of 0 sectors, or none that fits.
    pub fn new(geometry: &Geometry, guard: Guard, region_sectors: u64) -> Result<Regions, Error> {
        Regions::within(geometry, guard, region_sectors, Pba(0), Pba(geometry.sectors))
    }

    /// Lays regions over the sectors from `from` up to `to`.
    ///
    /// With a guard of sectors, regions follow each other with the guard between them. With a guard of tracks, a region begins on a track of
    /// its own, and it and its guard are within one recording zone. The last region needs no guard.
    pub fn within(
        geometry: &Geometry,
        guard: Guard,
        region_sectors: u64,
        from: Pba,
        to: Pba,
    ) -> Result<Regions, Error> {
        let to = to.min(Pba(geometry.sectors));
        if region_sectors == 0 {
            return Err(Error::Usage("a region of 0 sectors: give region_sectors of at least 1".into()));
        }
        let strips = match guard {
            Guard::Sectors(g) => whole_strip(from, to, region_sectors, g),
            Guard::Tracks(w) => zone_strips(geometry, from, to, region_sectors, w),
        };
        let count = strips.last().map_or(0, Strip::end_region);
        if count == 0 {
            return Err(Error::Impossible(format!(
                "no region of {region_sectors} sectors fits between PBA {from} and {to}: lower region_sectors or give \
                 a larger drive"
            )));
        }
        Ok(Regions {
            by_track: matches!(guard, Guard::Tracks(_)),
            geometry: geometry.clone(),
            index: StretchIndex::new(count, strips.len(), |i| strips.partition_point(|s| s.end_region() <= i)),
            strips,
            region: Divisor::new(region_sectors),
            count,
        })
    }

    /// Usable sectors of each region.
    #[inline]
    pub fn region_sectors(&self) -> u64 {
        self.region.value
    }

    /// The first sector of region `i`; `i` must be below `count`.
    #[inline]
    pub fn start(&self, i: u64) -> Pba {
        debug_assert!(i < self.count, "region {i} of {}", self.count);
        let strip = &self.strips[self.index.find(&self.strips, i, |s| s.end_region() <= i)];
        let at = strip.origin + (i - strip.first_region) * strip.stride.value;
        if self.by_track { self.geometry.usable(at) } else { Pba(at) }
    }

    /// The region that holds a sector, or else the last one before it; the first region for sectors before all.
    #[inline]
    pub fn with_guard_at(&self, pba: Pba) -> u64 {
        let at = if self.by_track { self.geometry.raw(pba) } else { pba.0 };
        let strip = &self.strips[self.strips.partition_point(|s| s.origin <= at).saturating_sub(1)];
        strip.first_region + strip.stride.quotient(at.saturating_sub(strip.origin)).min(strip.regions - 1)
    }

    /// Region and offset of an LBA, if LBAs fill the regions in order. The region may be beyond the last.
    #[inline]
    pub fn of_logical(&self, lba: Lba) -> (u64, u64) {
        self.region.divide(lba.0)
    }

    /// Divides LBAs at the ends of regions: (region, first sector in it, sectors, offset from `lba`).
    #[inline]
    pub fn pieces(&self, lba: Lba, n: u64) -> impl Iterator<Item = (u64, u64, u64, u64)> + use<> {
        let size = self.region;
        pieces_by_divisor(lba.0, n, size)
            .map(move |(region, first, count)| (region, first, count, region * size.value + first - lba.0))
    }

    /// The place of an LBA, if LBAs fill the regions in order from region `first` on.
    #[inline]
    pub fn place(&self, first: u64, lba: Lba) -> Pba {
        let (region, offset) = self.of_logical(lba);
        self.start(first + region) + offset
    }
}

fn whole_strip(from: Pba, to: Pba, region: u64, guard: u64) -> Vec<Strip> {
    let room = to.0.saturating_sub(from.0);
    let stride = region.saturating_add(guard);
    // The last region needs no guard.
    let regions = room.saturating_add(guard) / stride;
    vec![Strip { first_region: 0, regions, origin: from.0, stride: Divisor::new(stride) }]
}

/// The regions of each recording zone from `from` to `to`. Each has as many whole tracks as hold `region` sectors despite defects.
fn zone_strips(g: &Geometry, from: Pba, to: Pba, region: u64, guard: u64) -> Vec<Strip> {
    let mut strips = Vec::new();
    let mut first_region = 0;
    let (low, high) = (g.raw(from), if to.0 == 0 { 0 } else { g.raw(to - 1) + 1 });
    let margin = g.most_defects_within(region);
    for zone in g.zones.iter() {
        let raw = Geometry::raw_of_zone(zone);
        let length = zone.track_sectors;
        let first = low.saturating_sub(raw.start).div_ceil(length).min(zone.tracks);
        let end = (high.saturating_sub(raw.start) / length).min(zone.tracks);
        let tracks = end.saturating_sub(first);
        let region_tracks = region.saturating_add(margin).div_ceil(length);
        let stride = region_tracks.saturating_add(guard);
        // The last region of the stretch needs no guard: nothing follows it.
        let unneeded_guard = if high <= raw.end { guard } else { 0 };
        let regions = tracks.saturating_add(unneeded_guard) / stride;
        if regions > 0 {
            let origin = raw.start + first * length;
            let stride = Divisor::new(stride.saturating_mul(length));
            strips.push(Strip { first_region, regions, origin, stride });
            first_region += regions;
        }
        if high <= raw.end {
            break;
        }
    }
    strips
}

impl Geometry {
    /// The most defects in any stretch with `sectors` usable sectors, for which a region must leave room.
    pub(crate) fn most_defects_within(&self, sectors: u64) -> u64 {
        self.slips.most_within(sectors)
    }

    /// The most defects that any one track of a recording zone has.
    pub(crate) fn most_defects_on_a_track(&self, zone: &RecordingZone) -> u64 {
        let (mut most, mut count, mut last) = (0, 0, u64::MAX);
        for run in self.slips.ranges_within(&(zone.raw_first..zone.raw_end)) {
            for (track, _, here) in pieces_by_divisor(run.start - zone.raw_first, run.end - run.start, zone.divisor) {
                count = if track == last { count + here } else { here };
                (last, most) = (track, most.max(count));
            }
        }
        most
    }
}
