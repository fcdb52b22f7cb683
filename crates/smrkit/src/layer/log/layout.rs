//! Layout of segments: bands of `segment_tracks` tracks with the guard of the drive's law after each.
//!
//! Bands begin at each recording zone's first track. The rest at a zone's end makes a shorter segment.

use crate::geometry::{Divisor, Geometry, Guard, RecordingZone};
use crate::layer::prelude::*;
use crate::layer::zones::ZoneLayout;

/// Bands of one recording zone.
#[derive(Clone, Debug)]
pub(in crate::layer) struct ZoneSegments {
    first_segment: u32,
    /// The zone's first raw sector; `stride` is the number of raw sectors from one band to the next.
    origin: u64,
    stride: Divisor,
}

/// Segments of a drive: bands, or the zones of a host-managed disk from the number `first` on.
pub(in crate::layer) enum SegmentLayout {
    Bands { geometry: Geometry, strips: Vec<ZoneSegments> },
    Zones { zones: ZoneLayout, first: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::layer) struct SegmentPlace {
    pub(super) start: Pba,
    pub(super) sectors: u32,
}

/// The most sectors of a segment: as many as an entry of its list can count.
pub(in crate::layer) const SEGMENT_SECTORS_MAX: u64 = (1 << 24) - 1;

impl SegmentLayout {
    /// Lays bands over the whole drive.
    pub(super) fn new(drive: &Drive, segment_tracks: u64) -> (SegmentLayout, Vec<SegmentPlace>) {
        let geometry = drive.geometry.clone();
        let bands = BandRule::new(drive, segment_tracks);
        let (mut strips, mut places) = (Vec::new(), Vec::new());
        for zone in geometry.zones.iter() {
            strips.push(ZoneSegments {
                first_segment: places.len() as u32,
                origin: geometry.raw_track_start(zone.first_track),
                stride: Divisor::new(bands.stride(zone) * zone.track_sectors),
            });
            places.extend((0..bands.count(zone)).map(|band| bands.place(zone, band)));
        }
        (SegmentLayout::Bands { geometry, strips }, places)
    }

    /// The zones of a host-managed disk that are written in order.
    pub(in crate::layer) fn of_zones(zones: ZoneLayout) -> (SegmentLayout, Vec<SegmentPlace>) {
        let (first, sectors) = (zones.conventional, zones.size() as u32);
        let places = (first..zones.count()).map(|zone| SegmentPlace { start: zones.start(zone), sectors }).collect();
        (SegmentLayout::Zones { zones, first }, places)
    }

    /// The segment of a sector. A guard belongs to the segment before it.
    #[inline]
    pub(super) fn segment_at(&self, pba: Pba) -> usize {
        match self {
            SegmentLayout::Bands { geometry, strips } => {
                let raw = geometry.raw(pba);
                let strip = &strips[geometry.zone_index(raw)];
                strip.first_segment as usize + strip.stride.quotient(raw - strip.origin) as usize
            }
            // A forged map may name a conventional zone: its number wraps to one that no segment has.
            SegmentLayout::Zones { zones, first } => zones.at(pba).wrapping_sub(*first) as usize,
        }
    }
}

/// Number of segments of a drive, and their length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Segments that hold any sector.
    pub usable: u64,
    /// Sectors of all of them.
    pub sectors: u64,
    /// Sectors of the longest.
    pub longest: u64,
    /// Tracks of a segment, as asked for.
    pub tracks: u64,
}

/// Computes the totals of a drive's segments. Without defects it does not list them, because all bands of a zone but the last are alike.
pub(super) fn totals(drive: &Drive, segment_tracks: u64) -> Result<Totals, Error> {
    let bands = BandRule::new(drive, segment_tracks);
    let mut totals = Totals { tracks: segment_tracks, ..Totals::default() };
    for zone in drive.geometry.zones.iter() {
        let count = bands.count(zone);
        match drive.geometry.slipped() {
            0 => {
                totals.add(bands.place(zone, 0), count - 1);
                totals.add(bands.place(zone, count - 1), 1);
            }
            _ => (0..count).for_each(|band| totals.add(bands.place(zone, band), 1)),
        }
    }
    if totals.longest > SEGMENT_SECTORS_MAX {
        return Err(Error::Impossible(format!(
            "a segment of {} sectors is longer than {SEGMENT_SECTORS_MAX}: lower log.segment_tracks",
            totals.longest
        )));
    }
    Ok(totals)
}

impl Totals {
    fn add(&mut self, place: SegmentPlace, times: u64) {
        let sectors = u64::from(place.sectors);
        if sectors > 0 && times > 0 {
            self.usable += times;
            self.sectors += sectors * times;
            self.longest = self.longest.max(sectors);
        }
    }
}

/// The rule by which zones are divided into bands.
struct BandRule<'a> {
    geometry: &'a Geometry,
    guard: Guard,
    guard_tracks: u64,
    segment_tracks: u64,
}

impl BandRule<'_> {
    fn new(drive: &Drive, segment_tracks: u64) -> BandRule<'_> {
        let guard = drive.interference.guard(&drive.geometry);
        let guard_tracks = if let Guard::Tracks(tracks) = guard { tracks } else { 0 };
        BandRule { geometry: &drive.geometry, guard, guard_tracks, segment_tracks }
    }

    /// Tracks from one band of a zone to the next.
    fn stride(&self, zone: &RecordingZone) -> u64 {
        self.segment_tracks.saturating_add(self.guard_tracks).min(zone.tracks)
    }

    fn count(&self, zone: &RecordingZone) -> u64 {
        zone.tracks.div_ceil(self.stride(zone))
    }

    /// Place of a band, without the guard at its end.
    fn place(&self, zone: &RecordingZone, band: u64) -> SegmentPlace {
        let at = band * self.stride(zone);
        let first = zone.first_track + at;
        let tracks = self.segment_tracks.min((zone.tracks - at).saturating_sub(self.guard_tracks));
        let (start, end) = (self.geometry.track_start(first), self.geometry.track_start(first + tracks));
        let lost = match self.guard {
            // At the end of the disk no guard is needed.
            Guard::Sectors(sectors) if end.0 < self.geometry.sectors => sectors,
            _ => 0,
        };
        SegmentPlace { start, sectors: (end - start).saturating_sub(lost).min(u64::from(u32::MAX)) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_fill_a_recording_zone_and_the_last_is_shorter() {
        let mut drive = Drive::load("tiny-constant").unwrap();
        drive.geometry = Geometry::uniform(25, 10).unwrap();
        let law = crate::medium::interference::Interference::Tracks { width: 2, band: None };
        let drive = drive.with_interference(law).unwrap();
        let (layout, places) = SegmentLayout::new(&drive, 8);
        let place = |start, sectors| SegmentPlace { start: Pba(start), sectors };
        assert_eq!(places, [place(0, 80), place(90, 80), place(180, 60)]);
        assert_eq!([0, 89, 90, 239].map(|pba| layout.segment_at(Pba(pba))), [0, 0, 1, 2]);
    }

    #[test]
    fn segments_that_hold_nothing_do_not_count() {
        let mut totals = Totals::default();
        for (sectors, times) in [(0, 3), (80, 0), (60, 2), (50, 1)] {
            totals.add(SegmentPlace { start: Pba(0), sectors }, times);
        }
        assert_eq!(totals, Totals { usable: 3, sectors: 170, longest: 60, tracks: 0 });
    }
}
