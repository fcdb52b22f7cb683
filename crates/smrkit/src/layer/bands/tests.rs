use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::disk::Power;
use crate::geometry::{Edge, Geometry, ZoneShape};
use crate::layer::prelude::*;
use crate::medium::interference::{Interference, Profile};
use crate::medium::{Medium, Stamp, Stamps};

const MAP_SECTORS: u64 = 3;

fn drive(random: &mut Pcg64Mcg, form: Form) -> Drive {
    let mut drive = Drive::load("tiny-constant").unwrap();
    let (mut shapes, mut outer_cylinder) = (Vec::new(), 0);
    for _ in 0..random.random_range(1..4) {
        let (tracks, track_sectors) = (random.random_range(30..90), random.random_range(12..40));
        shapes.push(ZoneShape { surface: 0, outer_cylinder, tracks, track_sectors, toward: Edge::Inner });
        outer_cylinder += tracks;
    }
    let raw: u64 = shapes.iter().map(|zone| zone.tracks * zone.track_sectors).sum();
    let defects = (0..[0, 15][random.random_range(0..2)]).map(|_| random.random_range(0..raw)).collect();
    drive.geometry = Geometry::new(&shapes, 0, defects).unwrap();
    let width = random.random_range(1..4);
    let law = match form {
        Form::Blocks => Interference::Blocks { reach: random.random_range(1..60) },
        Form::Tracks => Interference::Tracks { width, band: None },
        Form::Distances => Interference::Distances {
            did: random.random_range(0..60),
            dpid: random.random_range(0..30),
            writes: random.random_range(1..3),
        },
        Form::Physical => Interference::Physical(Profile::new(width, 1, 1 << 60, 1 << 59).unwrap()),
    };
    drive.with_interference(law).unwrap()
}

fn keys(random: &mut Pcg64Mcg) -> (BandKeys, BufferKeys) {
    let cache_tracks = Some(random.random_range(1..20));
    let band_tracks = random.random_range(1..9);
    (BandKeys { band_tracks, cache_tracks }, BufferKeys { buffer_bytes: random.random_range(1..200) * 512 })
}

fn layouts(count: u64, mut each: impl FnMut(&mut Pcg64Mcg, &Drive, &Home)) {
    for seed in 0..count {
        let random = &mut Pcg64Mcg::seed_from_u64(seed);
        let drive = drive(random, Form::ALL[seed as usize % 4]);
        let (bands, buffer) = keys(random);
        if let Ok(home) = Home::new("test", &drive, &bands, &buffer, MAP_SECTORS) {
            each(random, &drive, &home);
        }
    }
}

#[test]
fn every_lba_has_one_place_on_its_home_track() {
    layouts(200, |_, drive, home| {
        let host = home.capacity.host_sectors;
        let mut next = (0, 0);
        let mut last = None;
        for lba in 0..host {
            let spot = home.locate(Lba(lba));
            assert_eq!((spot.track, spot.offset), next, "LBA {lba}");
            assert_eq!(home.start(spot.track) + spot.offset, spot.pba);
            assert_eq!(spot.offset + spot.left, home.sectors(spot.track));
            assert_eq!(home.lba(spot.track), Lba(lba - spot.offset));
            let band = home.tracks_of(home.band_of(spot.track));
            assert_eq!(spot.track + 1 + spot.following, band.end);
            assert!(last < Some(spot.pba) && spot.pba.0 < drive.geometry.sectors);
            last = Some(spot.pba);
            next = if spot.left > 1 { (spot.track, spot.offset + 1) } else { (spot.track + 1, 0) };
        }
        assert_eq!(next.0, home.tracks);
        let capacity = home.capacity;
        let parts = capacity.host_sectors + capacity.cache_sectors + capacity.guard_sectors + capacity.spare_sectors;
        assert_eq!(parts, capacity.raw_sectors);
    });
}

/// The sections of a layout in the order of PBAs: (first sector, sectors).
fn sections(home: &Home) -> Vec<(Pba, u64)> {
    let (cache, cache_end) = home.cache;
    let mut sections = vec![(cache, cache_end - cache)];
    sections.extend(home.pads.map(|pad| (pad, super::NOTE_SECTORS + home.stage_sectors)));
    sections.extend(home.maps.iter().map(|&map| (map, MAP_SECTORS)));
    let bands = (0..home.bands).map(|band| home.tracks_of(band));
    sections.extend(bands.map(|tracks| (home.start(tracks.start), home.sectors_of(tracks))));
    sections
}

#[test]
fn no_write_reaches_the_next_section_or_wears_the_one_before() {
    layouts(400, |_, drive, home| {
        for pair in sections(home).windows(2) {
            let ((start, sectors), (next, _)) = (pair[0], pair[1]);
            let reached = drive.interference.downstream_end(&drive.geometry, start, sectors);
            assert!(reached <= next, "{:?}: {start}+{sectors} reaches {reached}, past {next}", drive.interference);
            assert!(next - (start + sectors) >= drive.interference.upstream());
        }
    });
}

/// A band with stamps of version 1 at home and of version 2 in "the cache" for some of its tracks, which cleaning may trust or not.
struct Toy {
    cached: Vec<u32>,
    trusts_cache: bool,
}

impl Toy {
    fn stamp(&self, home: &Home, track: u32, offset: u64, cached: bool) -> u64 {
        Stamp::new(home.lba(track) + offset, if cached { 2 } else { 1 }).0
    }

    fn fill(&self, disk: &mut Disk, home: &Home, tracks: std::ops::Range<u32>) {
        let stamps: Vec<u64> = tracks
            .clone()
            .flat_map(|t| (0..home.sectors(t)).map(move |i| (t, i)))
            .map(|(t, i)| self.stamp(home, t, i, false))
            .collect();
        disk.write(home.start(tracks.start), stamps.len() as u64, Cause::Host, &Buf::Stamps(stamps), 0).unwrap();
    }

    fn overlay(&self, home: &Home, tracks: std::ops::Range<u32>, buf: &mut Buf, at: u64) -> bool {
        for &track in self.cached.iter().filter(|track| tracks.contains(track)) {
            let stamps = (0..home.sectors(track)).map(|i| self.stamp(home, track, i, true)).collect();
            let before = home.sectors_of(tracks.start..track);
            buf.put(at + before, &Buf::Stamps(stamps), 0, home.sectors(track));
        }
        self.cached.iter().any(|track| tracks.contains(track))
    }

    fn clean(&self, disk: &mut Disk, home: &Home, cleaner: &mut Cleaner) -> crate::error::DiskResult {
        while cleaner.is_working() {
            let is_cached = |mut tracks: std::ops::Range<u32>| {
                self.trusts_cache && tracks.all(|track| self.cached.contains(&track))
            };
            cleaner.phase(disk, home, is_cached, |_, tracks, buf, at| Ok(self.overlay(home, tracks, buf, at)))?;
            self.every_sector_is_found(disk, home, cleaner);
        }
        Ok(())
    }

    /// Home or stand-in hold version 1 of every track that is not cached.
    fn every_sector_is_found(&self, disk: &mut Disk, home: &Home, cleaner: &Cleaner) {
        let band = home.tracks_of(home.band_of(self.cached[0]));
        for track in band.filter(|track| !self.cached.contains(track)) {
            let place = cleaner.scratch_copy(home, track).unwrap_or(home.start(track));
            for i in 0..home.sectors(track) {
                let found = disk.stamps().unwrap().get(place + i);
                assert_eq!(found.0, self.stamp(home, track, i, false), "track {track} at {place}");
            }
        }
    }
}

/// Cleans a band, with the power cut at these writes; returns how often it was.
fn clean_with_cuts(seed: u64, drive: &Drive, home: &Home, cuts: &[u64]) -> u64 {
    let random = &mut Pcg64Mcg::seed_from_u64(seed);
    let tracks = home.tracks_of(random.random_range(0..home.bands));
    let share = [0.4, 0.9, 1.0][random.random_range(0..3)];
    let cached: Vec<u32> = tracks.clone().filter(|_| random.random_bool(share)).chain([tracks.end - 1]).collect();
    let toy = Toy { cached, trusts_cache: random.random_bool(0.7) };
    let mut disk = Disk::new(drive, Medium::Stamps(Stamps::new()));
    toy.fill(&mut disk, home, tracks.clone());
    let first = if drive.interference.upstream() > 0 { tracks.start } else { toy.cached[0] };
    let mut cleaner = Cleaner::default();
    cleaner.begin(first..tracks.end, u32::MAX);
    disk.cut_power(Power::new(cuts.to_vec(), seed));
    let mut tried = 0;
    while toy.clean(&mut disk, home, &mut cleaner).is_err() {
        tried += 1;
        disk.power_cut();
        cleaner.power_cut();
        toy.every_sector_is_found(&mut disk, home, &cleaner);
    }
    for track in tracks {
        for i in 0..home.sectors(track) {
            let expected = toy.stamp(home, track, i, toy.cached.contains(&track));
            let found = disk.stamps().unwrap().get(home.start(track) + i);
            assert_eq!(
                found.0, expected,
                "seed {seed} {:?} cuts {cuts:?}: track {track} sector {i}",
                drive.interference
            );
        }
    }
    tried
}

#[test]
fn a_band_is_cleaned_wherever_the_power_is_cut() {
    layouts(250, |random, drive, home| {
        let seed = random.random_range(0..1000);
        for cut in 1.. {
            let again = cut + random.random_range(1..4);
            if clean_with_cuts(seed, drive, home, &[cut, again]) == 0 {
                break;
            }
        }
    });
}

#[test]
fn twenty_outer_tracks_are_cleaned_in_stages_of_seven_seven_and_six() {
    let drive = Drive::load("st5000as0011").unwrap();
    let bands = BandKeys { band_tracks: 20, cache_tracks: Some(13_791) };
    let home = Home::new("test", &drive, &bands, &BufferKeys { buffer_bytes: 15_000_000 }, 200).unwrap();
    let (mut disk, mut cleaner) = (Disk::new(&drive, Medium::NoData), Cleaner::default());
    cleaner.begin(home.tracks_of(0), u32::MAX);
    let mut stages = Vec::new();
    while cleaner.is_working() {
        if let Some(tracks) = cleaner.phase(&mut disk, &home, |_| false, |_, _, _, _| Ok(false)).unwrap() {
            stages.push(tracks.len());
        }
    }
    assert_eq!(stages, [7, 7, 6]);
    assert!(home.capacity.host_sectors >= 9_767_541_168, "5 TB");
}

#[test]
fn an_episode_must_end_when_more_is_overdue_than_it_frees() {
    let mut cleaner = Cleaner::default();
    assert!(!cleaner.is_cleaning() && !cleaner.is_due() && !cleaner.falls_short_of(9));
    cleaner.begin_episode(&[], 0, Need::Must);
    assert!(!cleaner.is_cleaning() && !cleaner.is_due());
    cleaner.begin_episode(&[3, 5], 3, Need::Must);
    assert!(cleaner.is_due() && !cleaner.falls_short_of(3) && cleaner.falls_short_of(4));
    assert_eq!([0; 3].map(|_| cleaner.next_band()), [Some(3), Some(5), None]);
    assert!(!cleaner.is_cleaning() && !cleaner.falls_short_of(4), "nothing was cached in the last band");
    cleaner.begin_episode(&[7], 3, Need::Spare);
    assert!(cleaner.is_cleaning() && !cleaner.is_due());
    assert_eq!(cleaner.next_band(), Some(7));
    cleaner.begin(40..42, u32::MAX);
    assert!(cleaner.is_cleaning() && cleaner.falls_short_of(4), "the last band is at work");
}
