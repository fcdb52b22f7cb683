//! Damaged copies of the map, and books that can not be.

use super::log::{CacheLog, Link};
use super::map_copy::{MapCopies, copy_sectors};
use super::*;
use crate::drive::Drive;
use crate::extent_map::ExtentMap;
use crate::geometry::{Geometry, Guard};
use crate::layer::COUNT_MAX;
use crate::medium::interference::Interference;
use crate::medium::{Medium, Stamps, WritePart};

const KIND: u64 = 0x646d_2d6d_6170_2d32;
const LEADS: u64 = 1 << 63;
const PLACES: [Pba; 2] = [Pba(0), Pba(20)];

fn drive() -> Drive {
    let mut drive = Drive::load("tiny-constant").unwrap();
    drive.geometry = Geometry::uniform(400, 20).unwrap();
    drive.with_interference(Interference::None).unwrap()
}

/// Extents as LBA, sectors and PBA.
type Extents = Vec<(u64, u64, u64)>;

/// State that a log of the sectors 40 to 100 finds in copies of up to 10 extents of these words: where it goes on, the map,
/// and up to which note the scratch pad is settled.
fn restored(copies: [Option<&[u64]>; 2]) -> Result<(Link, Extents, u64), String> {
    let drive = drive();
    let mut disk = Disk::new(&drive, Medium::Stamps(Stamps::new()));
    for (place, words) in PLACES.into_iter().zip(copies) {
        if let Some(words) = words {
            let part = WritePart::Record { words, sectors: copy_sectors(10) };
            disk.write_parts(place, Cause::Map, &[part]).unwrap();
        }
    }
    let mut log = CacheLog::new(&drive.geometry, (Guard::Tracks(0), 0), Pba(40), Pba(100));
    let mut map = ExtentMap::new();
    let settled = MapCopies::new(PLACES, 10).restore(&mut disk, &mut log, &mut map, 500);
    let settled = settled.map_err(|fault| fault.to_string())?;
    let mapped = map.mapped(Lba(0), 500).map(|(lba, n, pba)| (lba.0, n, pba.0)).collect();
    assert_eq!(log.entries().filter(|entry| entry.leads).count() as u64, log.length());
    Ok((log.next(), mapped, settled))
}

/// A copy with this number, of two extents, the second in the entry of the first, and a log from position 5 to 30.
fn copy(number: u64) -> Vec<u64> {
    let extent = |leads: u64, sectors: u64, pba: u64| leads | sectors << 40 | pba;
    let mut words = vec![KIND, number, 5, 30, 77, 3, 2, 100, extent(LEADS, 4, 50), 200, extent(0, 3, 54)];
    words.resize(7 + 2 * 10, 0);
    words
}

#[test]
fn the_newer_of_two_map_copies_counts() {
    let (older, newer) = (copy(6), copy(7));
    let mut newer = newer;
    newer[7] = 101;
    let (older, newer) = (older.as_slice(), newer.as_slice());
    let both = vec![(101, 4, 50), (200, 3, 54)];
    for copies in [[Some(older), Some(newer)], [Some(newer), Some(older)], [None, Some(newer)]] {
        assert_eq!(restored(copies).unwrap(), (Link { head: 30, chain: 77 }, both.clone(), 3));
    }
    assert_eq!(restored([None, None]).unwrap(), (Link::default(), vec![], 0));
    let mut another = copy(8);
    another[0] += 1;
    assert_eq!(restored([Some(older), Some(&another)]).unwrap().1[0].0, 100, "another kind of record");
    assert_eq!(restored([Some(older), Some(&[KIND, 9, 0, 0, 0, 0])]).unwrap().1[0].0, 100, "a short one");
}

#[test]
fn a_map_copy_of_another_drive_is_refused() {
    // Kind, number, tail, head, chain, settled notes, extents; then an LBA, and whether it leads, sectors and PBA.
    let extent = |sectors: u64, pba: u64| LEADS | sectors << 40 | pba;
    for (word, good, bad) in [
        (1, COUNT_MAX - 1, COUNT_MAX),
        (2, 30, 31),
        (3, 5, 4),
        (5, COUNT_MAX - 1, COUNT_MAX),
        (7, 196, 497),
        (8, extent(4, 40), extent(4, 39)),
        (8, extent(4, 96), extent(4, 97)),
        (8, extent(1, 50), extent(0, 50)),
        (8, extent(60, 40), extent(61, 40)),
    ] {
        let with = |value| {
            let mut words = copy(6);
            words[word] = value;
            restored([Some(&words), None]).map(|_| ())
        };
        assert_eq!(with(good), Ok(()), "word {word}");
        assert!(with(bad).unwrap_err().contains("the copy of its map"), "word {word}: {bad}");
    }
    let mut ends = copy(6);
    (ends[7], ends[6]) = (496, 1);
    assert_eq!(restored([Some(&ends), None]).unwrap().1, [(496, 4, 50)]);
}

#[test]
fn maps_are_read_back_as_they_were_written() {
    let (drive, mut map) = (drive(), ExtentMap::new());
    let (mut disk, costs) = (Disk::new(&drive, Medium::Stamps(Stamps::new())), costs::Costs::new(&drive));
    let mut log = CacheLog::new(&drive.geometry, (Guard::Tracks(0), 0), Pba(40), Pba(100));
    let mut copies = MapCopies::new(PLACES, 10);
    for (number, lba) in [100, 300, 104].into_iter().enumerate() {
        let data = disk.buf(6);
        let host = log::HostData { lba: Lba(lba), sectors: 6, buf: &data, at: 0 };
        let (n, pba) = log.append(&mut disk, &costs, Cause::Host, &host).unwrap();
        map.insert(Lba(lba), n, pba);
        copies.write(&mut disk, &costs, &mut log, &map, number as u64).unwrap();
    }
    let (mut after, mut found) =
        (CacheLog::new(&drive.geometry, (Guard::Tracks(0), 0), Pba(40), Pba(100)), ExtentMap::new());
    let mut read = MapCopies::new(PLACES, 10);
    assert_eq!(read.restore(&mut disk, &mut after, &mut found, 500).unwrap(), 2);
    assert_eq!((read.number(), after.next(), after.kept(), after.length()), (3, log.next(), log.kept(), log.length()));
    let mapped = |map: &ExtentMap| map.mapped(Lba(0), 500).collect::<Vec<_>>();
    assert_eq!(mapped(&found), mapped(&map));
    let entries = |log: &CacheLog| log.entries().map(|entry| (entry.data, entry.lba, entry.leads)).collect::<Vec<_>>();
    assert_eq!(entries(&after), entries(&log));
}
