//! Static bands with a persistent cache at the outer edge, and how a band is cleaned: what `vguard` and `drive-managed`
//! share. Both are described in Shafaei & Desnoyers, "Virtual Guard", HotStorage 2017.
//!
//! Each layer has its own cache, and its own rule for when cleaning is due.
//!
//! # Layout
//!
//! From PBA 0 on: the persistent cache, two halves of a scratch pad, slots for maps, each followed by guard tracks; then
//! bands of equal length with guard tracks between them, from each recording zone's first free track on. A zone's last
//! band may be shorter. LBAs fill the bands' tracks ("home tracks") in order; defects are slipped.

mod clean;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use crate::geometry::{Divisor, Geometry, Guard, StretchIndex};
pub(super) use crate::layer::bands::clean::{Cleaner, EPISODE_BANDS};
use crate::layer::prelude::*;
use crate::medium::interference::Interference;
use crate::schema::Size;
use crate::units::{SECTOR_BYTES, Track};

keys! {
    /// The parameters of layers on static bands with a persistent cache.
    #[derive(Clone)]
    pub(in crate::layer) struct BandKeys {
        /// Number of tracks in a band, without its guard.
        pub band_tracks: u64 = Count(1, 1 << 20), "20";
        /// Number of tracks in the persistent cache; auto is the share in the Vguard paper (13,791 of 3,911,040
        /// tracks), but at least 24.
        pub cache_tracks: Option<u64> = Or("auto", Count(4, 1 << 30)), "auto";
    }
}

keys! {
    /// Memory for cleaning.
    pub(in crate::layer) struct BufferKeys {
        /// Memory for cleaning; it is the amount of data that one stage of cleaning rewrites.
        pub buffer_bytes: u64 = Size(512, 1 << 40), "15M";
    }
}

/// The paper's cache and the tracks of the drive `st5000as0011`: what `auto` scales.
const CACHE_SHARE: (u64, u64) = (13_791, 3_911_040);
/// The least cache that `auto` gives (assumption).
pub(super) const CACHE_TRACKS_MIN: u64 = 24;

impl BandKeys {
    /// Tracks of the persistent cache: the parameter or, if that is `auto`, the paper's share of the drive.
    pub fn cache_tracks(&self, drive: &Drive) -> u64 {
        let scaled = u128::from(drive.geometry.tracks) * u128::from(CACHE_SHARE.0) / u128::from(CACHE_SHARE.1);
        self.cache_tracks.unwrap_or((scaled as u64).max(CACHE_TRACKS_MIN))
    }
}

/// Bands of one recording zone. "Raw" sectors and LBAs are counted as if there were no defects.
#[derive(Clone, Debug)]
struct ZoneBands {
    /// The track of the first band's start, and that track's first raw sector.
    first_track: u64,
    raw_start: u64,
    /// Number of the first home track, and how many home tracks there are.
    first_home: u64,
    homes: u64,
    /// Number of the first band.
    first_band: u64,
    /// Tracks from one band's start to the next.
    stride: u64,
    /// Raw LBA of the first home track.
    raw_lba: u64,
    /// Raw sectors of a track.
    sectors: Divisor,
}

impl ZoneBands {
    fn home_end(&self) -> u64 {
        self.first_home + self.homes
    }

    fn raw_end(&self) -> u64 {
        self.raw_lba + self.homes * self.sectors.value
    }
}

/// Where an LBA is at home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::layer) struct HomeLocation {
    pub track: u32,
    /// Number of the sector in the track.
    pub offset: u64,
    /// Sectors from this one to the track's end.
    pub left: u64,
    pub pba: Pba,
    /// Home tracks of the band that follow `track`.
    pub following: u32,
}

#[derive(Clone, Debug)]
pub(in crate::layer) struct Home {
    geometry: Geometry,
    strips: Vec<ZoneBands>,
    by_lba: StretchIndex,
    by_home: StretchIndex,
    /// For each defect, the first LBA after it; see [`Home::slipped`].
    slips: Vec<u64>,
    band: Divisor,
    /// Number of home tracks, and of bands.
    pub tracks: u32,
    pub bands: u32,
    /// Start and end of the persistent cache, which has whole tracks.
    pub cache: (Pba, Pba),
    /// The halves of the scratch pad.
    pub pads: [Pba; 2],
    /// The most sectors that a stage of cleaning holds.
    pub stage_sectors: u64,
    /// The slots for maps.
    pub maps: [Pba; 2],
    /// The most tracks that a guard takes.
    pub reach: u64,
    pub capacity: Capacity,
}

/// Sectors of the note in front of a half of the scratch pad.
pub(super) const NOTE_SECTORS: u64 = 1;
/// Less than 1/1000 of the disk may stay unused before a section (assumption).
const LOST_PARTS: u64 = 1000;

impl Home {
    /// Lays out a drive, with slots of `map_sectors` for maps. Errors: a drive too small for the cache, what cleaning needs, and one band.
    pub fn new(
        layer: &str,
        drive: &Drive,
        bands: &BandKeys,
        buffer: &BufferKeys,
        map_sectors: u64,
    ) -> Result<Home, Error> {
        let g = &drive.geometry;
        let (band_tracks, cache_tracks) = (bands.band_tracks, bands.cache_tracks(drive));
        let guard = drive.interference.guard(g);
        let longest = g.longest_track();
        let reach = g.zones.iter().map(|zone| guard_tracks(g, guard, zone.track_sectors)).max().unwrap_or(0);
        // If rewriting may damage sectors upstream (DPID), a band is rewritten in one stage, from its beginning.
        let least = if drive.interference.upstream() > 0 { band_tracks } else { (1 + reach).min(band_tracks) };
        let band_sectors = band_tracks.saturating_mul(longest);
        let stage_sectors = (buffer.buffer_bytes / SECTOR_BYTES).min(band_sectors).max(least.saturating_mul(longest));
        let pad_sectors = NOTE_SECTORS.saturating_add(stage_sectors);
        let cache = (g.track_start(Track(0)), g.track_start(Track(cache_tracks)));
        // On the platters, each with a guard after it: the cache, both halves of the scratch pad, both maps, then strips of bands.
        let mut sections = Sections { g, guard, next: cache_tracks };
        sections.skip_guard();
        let pads = [sections.take(pad_sectors), sections.take(pad_sectors)];
        let maps = [sections.take(map_sectors), sections.take(map_sectors)];
        let strips = strips(g, guard, sections.next, band_tracks);
        let Some(last) = strips.last() else {
            return Err(Error::Impossible(format!(
                "{} tracks hold no band of {band_tracks} next to a cache of {cache_tracks}, a scratch pad of 2 × {pad_sectors} \
                 sectors and 2 maps of {map_sectors}: lower {layer}.band_tracks, cache_tracks, buffer_bytes or alpha, or take a \
                 larger drive",
                g.tracks
            )));
        };
        let homes = last.home_end();
        if homes > u64::from(u32::MAX - 1) {
            return Err(Error::Impossible("more than 2^32 tracks: take a smaller drive".into()));
        }
        let raw = last.raw_end();
        let mut home = Home {
            geometry: g.clone(),
            by_lba: StretchIndex::new(raw, strips.len(), |lba| strips.partition_point(|s| s.raw_end() <= lba)),
            by_home: StretchIndex::new(homes, strips.len(), |track| strips.partition_point(|s| s.home_end() <= track)),
            slips: Vec::new(),
            band: Divisor::new(band_tracks),
            tracks: homes as u32,
            bands: (last.first_band + last.homes.div_ceil(band_tracks)) as u32,
            strips,
            cache,
            pads,
            stage_sectors,
            maps,
            reach,
            capacity: Capacity::default(),
        };
        home.slips = home.slipped();
        let host_sectors = raw - home.slips.len() as u64;
        let cache_sectors = home.cache.1 - home.cache.0;
        let spare_sectors = 2 * (pad_sectors + map_sectors);
        home.capacity = Capacity::new(drive, host_sectors, cache_sectors, spare_sectors);
        Ok(home)
    }

    /// For each defect on the home tracks, the first LBA after it: the defect's raw LBA less the number of defects before it.
    fn slipped(&self) -> Vec<u64> {
        let mut slips = Vec::new();
        if self.geometry.slipped() == 0 {
            return slips;
        }
        for strip in &self.strips {
            for k in 0..strip.homes {
                // Most tracks have no defect, and need no look at each sector.
                if self.geometry.track_sectors(self.track_of(strip, k)) == strip.sectors.value {
                    continue;
                }
                let raw = self.raw_of(strip, k);
                for sector in 0..strip.sectors.value {
                    if self.geometry.is_defect(raw + sector) {
                        let raw_lba = strip.raw_lba + k * strip.sectors.value + sector;
                        let defects_before = slips.len() as u64;
                        slips.push(raw_lba - defects_before);
                    }
                }
            }
        }
        slips
    }

    /// Finds an LBA's place at home.
    #[inline]
    pub fn locate(&self, lba: Lba) -> HomeLocation {
        let raw = match self.slips.is_empty() {
            true => lba.0,
            false => lba.0 + self.slips.partition_point(|&s| s <= lba.0) as u64,
        };
        let strip = &self.strips[self.by_lba.find(&self.strips, raw, |strip| strip.raw_end() <= raw)];
        let (k, sector) = strip.sectors.divide(raw - strip.raw_lba);
        let (band, in_band) = self.band.divide(k);
        let start = strip.raw_start + (band * strip.stride + in_band) * strip.sectors.value;
        let following = self.following(strip, k, in_band) as u32;
        let track = (strip.first_home + k) as u32;
        if self.slips.is_empty() && self.geometry.slipped() == 0 {
            let left = strip.sectors.value - sector;
            return HomeLocation { track, offset: sector, left, pba: Pba(start + sector), following };
        }
        let (first, pba) = (self.geometry.usable(start), self.geometry.usable(start + sector));
        let left = self.geometry.usable(start + strip.sectors.value) - pba;
        HomeLocation { track, offset: pba - first, left, pba, following }
    }

    /// How many of `n` sectors from a place on are contiguous: those up to the end of its band.
    pub fn run_from(&self, spot: &HomeLocation, n: u64) -> u64 {
        if n <= spot.left {
            return n;
        }
        let band_end = spot.track + spot.following + 1;
        n.min(self.sectors_of(spot.track..band_end) - spot.offset)
    }

    /// Place of every LBA at home.
    pub fn placement(&self) -> Arc<dyn Placement> {
        let home = self.clone();
        Arc::new(Ascending::new(self.capacity.host_sectors, move |lba| home.locate(lba).pba))
    }

    /// The first sector of a home track; for the track after the last, the end of the last.
    pub fn start(&self, track: u32) -> Pba {
        let (strip, k) = self.strip_of_home(track);
        self.geometry.usable(self.raw_of(strip, k))
    }

    /// The sectors of a home track.
    pub fn sectors(&self, track: u32) -> u64 {
        self.sectors_of(track..track + 1)
    }

    /// The sectors of home tracks of one band.
    pub fn sectors_of(&self, tracks: Range<u32>) -> u64 {
        if tracks.is_empty() {
            return 0;
        }
        let (strip, k) = self.strip_of_home(tracks.start);
        let count = u64::from(tracks.end - tracks.start);
        if self.geometry.slipped() == 0 {
            return count * strip.sectors.value;
        }
        let raw = self.raw_of(strip, k);
        self.geometry.usable(raw + count * strip.sectors.value) - self.geometry.usable(raw)
    }

    /// The first LBA of a home track; the end of LBAs for the track after the last.
    pub fn lba(&self, track: u32) -> Lba {
        if track >= self.tracks {
            return Lba(self.capacity.host_sectors);
        }
        let (strip, k) = self.strip_of_home(track);
        let raw = strip.raw_lba + k * strip.sectors.value;
        // Finds the number of slips before `raw`. Adding its index turns an entry back into the raw LBA of the defect.
        let (mut low, mut high) = (0, self.slips.len());
        while low < high {
            let mid = (low + high) / 2;
            if self.slips[mid] + (mid as u64) < raw { low = mid + 1 } else { high = mid }
        }
        Lba(raw - low as u64)
    }

    /// Sectors of the longest home track.
    pub fn longest_track(&self) -> u64 {
        // Slips shorten some tracks; without them all tracks of a strip are alike.
        let longest = if self.geometry.slipped() == 0 {
            self.strips.iter().map(|strip| strip.sectors.value).max()
        } else {
            (0..self.tracks).map(|track| self.sectors(track)).max()
        };
        longest.unwrap_or(0)
    }

    #[inline]
    pub fn band_of(&self, track: u32) -> u32 {
        let (strip, k) = self.strip_of_home(track);
        (strip.first_band + self.band.quotient(k)) as u32
    }

    pub fn tracks_of(&self, band: u32) -> Range<u32> {
        let band = u64::from(band);
        let strip = &self.strips[self.strips.partition_point(|s| s.first_band <= band) - 1];
        let k = (band - strip.first_band) * self.band.value;
        let end = (k + self.band.value).min(strip.homes);
        (strip.first_home + k) as u32..(strip.first_home + end) as u32
    }

    /// End of the band's tracks that a write of all of `track` covers or damages.
    pub fn damaged_end(&self, law: &Interference, track: u32) -> u32 {
        let (strip, k) = self.strip_of_home(track);
        let raw = self.raw_of(strip, k);
        let start = |nth: u64| self.geometry.usable(raw + nth * strip.sectors.value);
        let reached = law.downstream_end(&self.geometry, start(0), start(1) - start(0));
        let (_, in_band) = self.band.divide(k);
        let following = self.following(strip, k, in_band);
        let safe = (1..=following).find(|&nth| start(nth) >= reached).unwrap_or(following + 1);
        track + safe as u32
    }

    /// How many home tracks of a band follow the one with index `k` in its recording zone and `in_band` in the band.
    fn following(&self, strip: &ZoneBands, k: u64, in_band: u64) -> u64 {
        (strip.homes - k).min(self.band.value - in_band) - 1
    }

    fn strip_of_home(&self, track: u32) -> (&ZoneBands, u64) {
        let track = u64::from(track);
        let strip = &self.strips[self.by_home.find(&self.strips, track, |strip| strip.home_end() <= track)];
        (strip, track - strip.first_home)
    }

    fn track_of(&self, strip: &ZoneBands, k: u64) -> Track {
        let (band, j) = self.band.divide(k);
        Track(strip.first_track + band * strip.stride + j)
    }

    fn raw_of(&self, strip: &ZoneBands, k: u64) -> u64 {
        let (band, j) = self.band.divide(k);
        strip.raw_start + (band * strip.stride + j) * strip.sectors.value
    }
}

/// Tracks that a guard takes where a track has `track_sectors` sectors.
fn guard_tracks(g: &Geometry, guard: Guard, track_sectors: u64) -> u64 {
    match guard {
        Guard::Tracks(tracks) => tracks,
        Guard::Sectors(0) => 0,
        Guard::Sectors(sectors) => (sectors + g.slipped()).div_ceil(track_sectors),
    }
}

/// Lays out sections of whole tracks from the outer edge on, each with its guard.
struct Sections<'a> {
    g: &'a Geometry,
    guard: Guard,
    next: u64,
}

impl Sections<'_> {
    /// Places a section that is written at once. A write across the end of a recording zone would cost an extra rotation. So if the section
    /// does not fit into what is left of this zone, that is little, and the next zone has room, the section begins there.
    fn take(&mut self, sectors: u64) -> Pba {
        let zone_end = |track: u64| {
            let zone = self.g.zone_of_track(Track(track));
            zone.first_track.0 + zone.tracks
        };
        let room = |track: u64, end: u64| self.g.track_start(Track(end)) - self.g.track_start(Track(track));
        let end = zone_end(self.next);
        let rest = room(self.next.min(end), end);
        if rest < sectors && rest < self.g.sectors / LOST_PARTS && room(end, zone_end(end)) >= sectors {
            self.next = end;
        }
        let start = self.skip(sectors);
        self.skip_guard();
        start
    }

    /// Skips the tracks of the next `sectors` sectors; returns the first.
    fn skip(&mut self, sectors: u64) -> Pba {
        let start = self.g.track_start(Track(self.next));
        while self.next < self.g.tracks && self.g.track_start(Track(self.next)) - start < sectors {
            self.next += 1;
        }
        start
    }

    fn skip_guard(&mut self) {
        match self.guard {
            Guard::Tracks(tracks) => self.next = self.next.saturating_add(tracks),
            Guard::Sectors(sectors) => _ = self.skip(sectors),
        }
    }
}

/// The bands of each recording zone, from `first_track` on.
fn strips(g: &Geometry, guard: Guard, first_track: u64, band_tracks: u64) -> Vec<ZoneBands> {
    let mut strips: Vec<ZoneBands> = Vec::new();
    let (mut first_home, mut first_band, mut raw_lba) = (0, 0, 0);
    for zone in g.zones.iter() {
        let skipped = first_track.saturating_sub(zone.first_track.0);
        let own = guard_tracks(g, guard, zone.track_sectors);
        let is_last = zone.first_track.0 + zone.tracks == g.tracks;
        // The disk's last band needs no guard: nothing follows it.
        let room = zone.tracks.saturating_sub(skipped) + if is_last && skipped < zone.tracks { own } else { 0 };
        let stride = band_tracks + own;
        let (whole, rest) = (room / stride, room % stride);
        // The last tracks make a shorter band, if any are left next to its guard.
        let homes = whole * band_tracks + rest.saturating_sub(own);
        if homes == 0 {
            continue;
        }
        let track = zone.first_track + skipped;
        let sectors = Divisor::new(zone.track_sectors);
        let raw_start = g.raw_track_start(track);
        strips.push(ZoneBands {
            first_track: track.0,
            raw_start,
            first_home,
            homes,
            first_band,
            stride,
            raw_lba,
            sectors,
        });
        first_home += homes;
        first_band += homes.div_ceil(band_tracks);
        raw_lba += homes * zone.track_sectors;
    }
    strips
}
