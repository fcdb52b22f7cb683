//! Where segments lie: bands of `segment_tracks` tracks with the guard of the drive's law after each.
//!
//! Bands are counted from each recording zone's first track. What is left at a zone's end makes a shorter segment.

use crate::drive::Drive;
use crate::error::Error;
use crate::geometry::{Divisor, Geometry, Guard};
use crate::units::{Pba, Track};

/// Bands of one recording zone.
#[derive(Clone, Debug)]
struct Strip {
    first_segment: u32,
    /// The zone's first raw sector, and raw sectors from one band to the next.
    origin: u64,
    stride: Divisor,
}

/// The bands of a drive.
pub(super) struct Layout {
    geometry: Geometry,
    strips: Vec<Strip>,
}

/// A segment's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) start: Pba,
    pub(super) sectors: u32,
}

/// Sectors of a segment at most: what an entry of its list can count.
pub(super) const SEGMENT_SECTORS_MAX: u64 = (1 << 24) - 1;

impl Layout {
    /// Lays bands over the whole drive. Errors: bands too short for their guard, or too long.
    pub(super) fn new(drive: &Drive, segment_tracks: u64) -> Result<(Layout, Vec<Place>), Error> {
        let geometry = drive.geometry.clone();
        let guard = drive.interference.guard(&geometry);
        let guard_tracks = if let Guard::Tracks(tracks) = guard { tracks } else { 0 };
        let (mut strips, mut places) = (Vec::new(), Vec::new());
        for zone in geometry.zones() {
            let stride = segment_tracks.saturating_add(guard_tracks).min(zone.tracks);
            strips.push(Strip {
                first_segment: places.len() as u32,
                origin: geometry.raw_track_start(zone.first_track),
                stride: Divisor::new(stride * zone.track_sectors),
            });
            for k in (0..zone.tracks).step_by(stride as usize) {
                let first = zone.first_track + k;
                let own = segment_tracks.min((zone.tracks - k).saturating_sub(guard_tracks));
                places.push(place(&geometry, first, own, guard));
            }
        }
        if let Some(long) = places.iter().find(|place| u64::from(place.sectors) > SEGMENT_SECTORS_MAX) {
            return Err(Error::Impossible(format!(
                "a segment of {} sectors is longer than {SEGMENT_SECTORS_MAX}: lower log.segment_tracks",
                long.sectors
            )));
        }
        Ok((Layout { geometry, strips }, places))
    }

    /// The segment of a sector; guards count as part of the one before them.
    #[inline]
    pub(super) fn of(&self, pba: Pba) -> usize {
        let raw = self.geometry.raw(pba);
        let strip = &self.strips[self.geometry.zone_index(raw)];
        strip.first_segment as usize + strip.stride.quotient(raw - strip.origin) as usize
    }
}

/// The segment of `tracks` tracks from `first` on; guards of sectors lie at its end.
fn place(geometry: &Geometry, first: Track, tracks: u64, guard: Guard) -> Place {
    let (start, end) = (geometry.track_start(first), geometry.track_start(first + tracks));
    let lost = match guard {
        // Nothing lies behind the last sector of the disk.
        Guard::Sectors(sectors) if end.0 < geometry.sectors() => sectors,
        _ => 0,
    };
    Place { start, sectors: (end - start).saturating_sub(lost).min(u64::from(u32::MAX)) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_with_their_guards_fill_a_recording_zone_and_the_rest_is_a_shorter_one() {
        let mut drive = Drive::load("tiny-constant").unwrap();
        drive.geometry = Geometry::uniform(25, 10).unwrap();
        let law = crate::medium::interference::Interference::Tracks { width: 2, band: None };
        let drive = drive.with_interference(law).unwrap();
        let (layout, places) = Layout::new(&drive, 8).unwrap();
        let place = |start, sectors| Place { start: Pba(start), sectors };
        assert_eq!(places, [place(0, 80), place(90, 80), place(180, 60)]);
        assert_eq!([0, 89, 90, 239].map(|pba| layout.of(Pba(pba))), [0, 0, 1, 2]);
    }
}
