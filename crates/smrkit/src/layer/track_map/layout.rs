//! Bands of equally many tracks on a drive's own recording zones, and where LBAs lie in them.
//!
//! All tracks of a recording zone are used up to the length of the shortest, so that places are arithmetic: defects cost each track as many
//! sectors as the worst track of the zone has. Bands do not cross recording zones.

use std::ops::Range;

use super::scheme::Scheme;
use crate::geometry::{Divisor, Geometry, Guard};
use crate::layer::prelude::*;

/// The bands of one recording zone.
struct ZoneTracks {
    first_band: u64,
    /// The raw sector at which the first band begins.
    origin: u64,
    /// Raw sectors of a track.
    track: u64,
    /// Sectors of each track that are used.
    used: u64,
    bands: u64,
}

/// LBAs of one group of tracks in one strip. They fill the group's tracks of one band after another.
struct GroupRun {
    first_lba: u64,
    strip: u32,
    /// Index of the group's first track in the scheme's order.
    first_place: usize,
    group_tracks: Divisor,
    track_sectors: Divisor,
}

/// A piece of a request on one track.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackPiece {
    /// The strip of its band.
    pub strip: u32,
    /// The band, among all.
    pub band: u64,
    /// The track in the band, from 0.
    pub track: usize,
    /// The first sector, counted from the track's start.
    pub first: u64,
    pub sectors: u64,
    /// The first sector, counted from the request's start.
    pub at: u64,
}

/// The tracks of one band on the platters.
#[derive(Clone, Copy)]
pub struct Band {
    /// The raw sector at which it begins.
    raw: u64,
    /// Raw sectors of a track.
    track: u64,
    /// Number of its first track, counting the used tracks of all bands.
    pub base: usize,
}

impl Band {
    /// Beginning of a track of the band.
    pub fn start(&self, geometry: &Geometry, track: usize) -> Pba {
        geometry.usable(self.raw + track as u64 * self.track)
    }
}

/// Layout of LBAs.
pub struct TrackLayout {
    strips: Vec<ZoneTracks>,
    runs: Vec<GroupRun>,
    /// For each stretch of 2^`shift` LBAs, the run in which it begins.
    buckets: Vec<u32>,
    shift: u32,
    order: Vec<u32>,
    geometry: Geometry,
    tracks: u64,
    stride: u64,
    pub bands: u64,
    /// LBAs that lie on tracks of bands, and how many of them are offered to the host.
    pub sectors: u64,
    pub offered: u64,
    /// Sectors of the random access zone that can be used.
    pub random_sectors: u64,
}

/// There are fewer stretches of LBAs than this; it sets their length.
const BUCKETS: u64 = 4096;

impl TrackLayout {
    /// The layout for `layer` of bands whose tracks are used in the order of `scheme`, after `random` tracks of a random access zone. A
    /// write damages up to `width` tracks, its own included.
    pub fn new(layer: &str, drive: &Drive, scheme: &Scheme, width: u64, random: u64) -> Result<TrackLayout, Error> {
        let geometry = &drive.geometry;
        let tracks = scheme.tracks() as u64;
        let strips = strips(geometry, random, tracks, width - 1);
        let bands = strips.iter().map(|strip| strip.bands).sum();
        if bands == 0 {
            return Err(Error::Impossible(format!(
                "{layer}: no band of {tracks} tracks fits the drive next to a random access zone of {random}: name fewer \
                 tracks in track-map.scheme, lower track-map.random_tracks or take a larger drive"
            )));
        }
        let runs = runs(&strips, scheme);
        let sectors = strips.iter().map(|strip| strip.bands * tracks * strip.used).sum();
        // The shortest stretches of LBAs that are few enough.
        let shift = (0..).find(|shift| (sectors >> shift) < BUCKETS).unwrap_or(0);
        let run_of = |lba: u64| runs.partition_point(|run: &GroupRun| run.first_lba <= lba) as u32 - 1;
        let buckets = (0..=sectors >> shift).map(|bucket| run_of(bucket << shift)).collect();
        let random_sectors = random_sectors(geometry, random, width);
        let order = scheme.order.clone();
        let stride = tracks + width - 1;
        Ok(TrackLayout {
            strips,
            runs,
            buckets,
            shift,
            order,
            geometry: geometry.clone(),
            tracks,
            stride,
            bands,
            sectors,
            offered: sectors,
            random_sectors,
        })
    }

    #[inline]
    pub fn band(&self, piece: &TrackPiece) -> Band {
        let strip = &self.strips[piece.strip as usize];
        let raw = strip.origin + (piece.band - strip.first_band) * self.stride * strip.track;
        Band { raw, track: strip.track, base: (piece.band * self.tracks) as usize }
    }

    /// Finds the track that an LBA is on, and how many of the next `n` sectors are on it.
    #[inline]
    pub fn piece(&self, lba: Lba, n: u64) -> TrackPiece {
        // The stretch's first LBA is in the run that the bucket gives; this LBA may be a few runs further on.
        let runs = &self.runs[self.buckets[(lba.0 >> self.shift) as usize] as usize..];
        let run = &runs[runs[1..].iter().take_while(|run| run.first_lba <= lba.0).count()];
        let (track_in_run, first) = run.track_sectors.divide(lba.0 - run.first_lba);
        let (band, in_group) = run.group_tracks.divide(track_in_run);
        TrackPiece {
            strip: run.strip,
            band: self.strips[run.strip as usize].first_band + band,
            track: self.order[run.first_place + in_group as usize] as usize,
            first,
            sectors: n.min(run.track_sectors.value - first),
            at: 0,
        }
    }

    /// Divides a request into one piece for each track, in the order of its LBAs.
    pub fn pieces(&self, lba: Lba, n: u64) -> impl Iterator<Item = TrackPiece> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            (at < n).then(|| {
                let piece = TrackPiece { at, ..self.piece(lba + at, n - at) };
                at += piece.sectors;
                piece
            })
        })
    }

    /// The PBA of a piece's first sector.
    pub fn pba(&self, piece: &TrackPiece) -> Pba {
        self.band(piece).start(&self.geometry, piece.track) + piece.first
    }

    /// The sector beside a piece's first one: the same number on the next or the previous track, if that is in the same recording zone.
    pub fn beside(&self, piece: &TrackPiece, is_after: bool) -> Option<Pba> {
        let strip = &self.strips[piece.strip as usize];
        let track = (piece.band - strip.first_band) * self.stride + piece.track as u64;
        let neighbour = match is_after {
            true => Some(track + 1).filter(|&next| next < strip.bands * self.stride),
            false => track.checked_sub(1),
        };
        Some(self.geometry.usable(strip.origin + neighbour? * strip.track) + piece.first)
    }

    /// The LBA at a PBA; `None` if that is in no band, or past the used part of its track.
    pub fn lba(&self, pba: Pba) -> Option<Lba> {
        let raw = self.geometry.raw(pba);
        let strip_number = self.strips.partition_point(|strip| strip.origin <= raw).checked_sub(1)?;
        let strip = &self.strips[strip_number];
        let track_in_strip = (raw - strip.origin) / strip.track;
        let (band, track) = (track_in_strip / self.stride, track_in_strip % self.stride);
        if band >= strip.bands || track >= self.tracks {
            return None;
        }
        let sector = pba - self.geometry.usable(strip.origin + track_in_strip * strip.track);
        let place = self.order.iter().position(|&ordered| u64::from(ordered) == track)?;
        let has_place =
            |run: &GroupRun| (run.first_place..run.first_place + run.group_tracks.value as usize).contains(&place);
        let run = self.runs.iter().find(|run| run.strip as usize == strip_number && has_place(run))?;
        let track_in_run = band * run.group_tracks.value + (place - run.first_place) as u64;
        (sector < strip.used).then(|| Lba(run.first_lba + track_in_run * strip.used + sector))
    }

    /// The tracks of bands by strip, and how many sectors of each are used.
    pub fn track_runs(&self) -> impl Iterator<Item = (Range<usize>, u64)> + '_ {
        self.strips.iter().map(|strip| {
            let [first, end] =
                [strip.first_band, strip.first_band + strip.bands].map(|band| (band * self.tracks) as usize);
            (first..end, strip.used)
        })
    }

    /// Memory taken, in bytes.
    pub fn bytes(&self) -> u64 {
        let strips = size_of_val(self.strips.as_slice());
        (strips + size_of_val(self.runs.as_slice()) + size_of_val(self.buckets.as_slice())) as u64
    }
}

/// The bands of each recording zone, which begin after `random` tracks of the drive, and are each followed by `guard` tracks.
fn strips(geometry: &Geometry, random: u64, tracks: u64, guard: u64) -> Vec<ZoneTracks> {
    let mut strips: Vec<ZoneTracks> = Vec::with_capacity(geometry.zones.len());
    for zone in geometry.zones.iter() {
        let skipped = random.saturating_sub(zone.first_track.0).min(zone.tracks);
        // The disk's last band needs no guard: nothing follows it.
        let spare = if zone.first_track.0 + zone.tracks == geometry.tracks { guard } else { 0 };
        let bands = (zone.tracks - skipped).saturating_add(spare) / (tracks + guard);
        // Defects make tracks unequal: each is used up to the length of the shortest.
        let used = zone.track_sectors - geometry.most_defects_on_a_track(zone);
        if bands == 0 || used == 0 {
            continue;
        }
        let origin = Geometry::raw_of_zone(zone).start + skipped * zone.track_sectors;
        let first_band = strips.last().map_or(0, |strip| strip.first_band + strip.bands);
        strips.push(ZoneTracks { first_band, origin, track: zone.track_sectors, used, bands });
    }
    strips
}

/// The runs in the order of their LBAs: a group of the scheme in all strips, then the next group.
fn runs(strips: &[ZoneTracks], scheme: &Scheme) -> Vec<GroupRun> {
    let mut runs = Vec::new();
    let mut first_lba = 0;
    for group in &scheme.groups {
        for (i, strip) in strips.iter().enumerate() {
            let tracks = group.len() as u64;
            runs.push(GroupRun {
                first_lba,
                strip: i as u32,
                first_place: group.start,
                group_tracks: Divisor::new(tracks),
                track_sectors: Divisor::new(strip.used),
            });
            first_lba += strip.bands * tracks * strip.used;
        }
    }
    runs
}

/// Sectors on every `width`-th of the drive's first `tracks` tracks.
fn random_sectors(geometry: &Geometry, tracks: u64, width: u64) -> u64 {
    let mut sectors = 0;
    for zone in geometry.zones.iter() {
        let (first, end) = (zone.first_track.0, zone.first_track.0 + zone.tracks);
        let usable_before = |track: u64| track.min(tracks) / width;
        let shortest = zone.track_sectors - geometry.most_defects_on_a_track(zone);
        sectors += (usable_before(end) - usable_before(first)) * shortest;
    }
    sectors
}

/// How many tracks a write damages under the drive's law, its own included. If the law counts sectors, the most tracks that these can be on.
pub fn width_of(drive: &Drive) -> u64 {
    match drive.interference.guard(&drive.geometry) {
        Guard::Tracks(tracks) => 1 + tracks,
        Guard::Sectors(0) => 1,
        Guard::Sectors(sectors) => {
            let shortest = drive.geometry.zones.iter().map(|zone| zone.track_sectors).min().unwrap_or(1);
            1 + sectors.saturating_add(drive.geometry.most_defects_within(sectors)).div_ceil(shortest)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2,000 bands of four tracks of 100 sectors, and a random access zone of 100 tracks.
    fn paper(scheme: &str) -> TrackLayout {
        let mut drive = Drive::load("tiny-constant").unwrap();
        drive.geometry = Geometry::uniform(10_100, 100).unwrap();
        TrackLayout::new("track-map", &drive, &scheme.parse().unwrap(), 2, 100).unwrap()
    }

    #[test]
    fn the_papers_example_has_its_numbers() {
        let layout = paper("1234");
        assert_eq!((layout.bands, layout.sectors, layout.random_sectors), (2000, 800_000, 5000));
        // The paper counts LBAs from 1, and tracks from 1 behind the random access zone.
        let track = |lba: u64| layout.pba(&layout.piece(Lba(lba - 1), 1)).0 / 100 - 100 + 1;
        assert_eq!([1, 100, 101, 400, 401, 500].map(track), [1, 1, 2, 4, 6, 6]);
    }

    #[test]
    fn round_robin_takes_a_track_of_all_bands_before_the_next() {
        let layout = paper("14R(23)");
        let place = |lba: u64| {
            let piece = layout.piece(Lba(lba), 1);
            (piece.band, piece.track + 1)
        };
        assert_eq!([0, 100, 200, 399_999].map(place), [(0, 1), (0, 4), (1, 1), (1999, 4)]);
        assert_eq!([400_000, 400_100, 599_999, 600_000].map(place), [(0, 2), (1, 2), (1999, 2), (0, 3)]);
    }

    #[test]
    fn every_lba_has_a_place_of_its_own() {
        for (drive, width) in [("tiny", 2), ("tiny-constant", 4)] {
            let drive = Drive::load(drive).unwrap();
            let scheme = "3R(51)42".parse::<Scheme>().unwrap();
            let layout = TrackLayout::new("track-map", &drive, &scheme, width, 0).unwrap();
            let mut places: Vec<Pba> = (0..layout.sectors).map(|lba| layout.pba(&layout.piece(Lba(lba), 1))).collect();
            places.sort_unstable();
            assert!(places.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(places[places.len() - 1].0 < drive.geometry.sectors);
            for lba in (0..layout.sectors).map(Lba) {
                assert_eq!(layout.lba(layout.pba(&layout.piece(lba, 1))), Some(lba));
            }
            let held = (0..drive.geometry.sectors).filter(|&pba| layout.lba(Pba(pba)).is_some()).count();
            assert_eq!(held as u64, layout.sectors);
            let whole: u64 = layout.pieces(Lba(0), layout.sectors).map(|piece| piece.sectors).sum();
            assert_eq!(whole, layout.sectors);
        }
    }
}
