//! Positions, room and headers of the log.

use super::*;
use crate::drive::Drive;
use crate::medium::interference::Interference;
use crate::medium::{Medium, Stamp, Stamps};

const HOST: u64 = 500;

/// A log of 60 sectors from PBA 40 on: three tracks.
fn log(guard: Guard) -> (CacheLog, Disk, Costs) {
    let mut drive = Drive::load("tiny-constant").unwrap();
    drive.geometry = Geometry::uniform(40, 20).unwrap();
    let drive = drive.with_interference(Interference::None).unwrap();
    let log = CacheLog::new(&drive.geometry, (guard, 0), Pba(40), Pba(100));
    (log, Disk::new(&drive, Medium::Stamps(Stamps::new())), Costs::new(&drive))
}

fn stamps(lba: u64, n: u64) -> Buf {
    Buf::Stamps((lba..lba + n).map(|lba| Stamp::new(Lba(lba), 1).0).collect())
}

fn append(log: &mut CacheLog, disk: &mut Disk, costs: &Costs, lba: u64, n: u64) -> (u64, u64) {
    let data = stamps(lba, n);
    let host = HostData { lba: Lba(lba), sectors: n, buf: &data, at: 0 };
    let (sectors, pba) = log.append(disk, costs, Cause::Host, &host).unwrap();
    (sectors, pba.0)
}

#[test]
fn positions_go_on_over_the_laps() {
    let (log, ..) = log(Guard::Tracks(0));
    for tail in 0..200 {
        for pba in 40..100 {
            let position = log.position(Pba(pba), tail);
            assert!((tail..tail + 60).contains(&position), "{position} from {tail} on");
            assert_eq!(log.pba(position), Pba(pba));
        }
    }
    let held = [(39, 1), (40, 0), (40, 60), (40, 61), (99, 1), (100, 0), (100, 1), (101, 0)];
    let held = held.map(|(pba, n)| log.holds(Pba(pba), n));
    assert_eq!(held, [false, true, true, false, true, true, false, false]);
}

#[test]
fn the_head_keeps_the_guard_from_what_a_map_copy_needs() {
    for (guard, limit) in [
        (Guard::Sectors(0), 120 + 35),
        (Guard::Sectors(10), 120 + 25),
        (Guard::Sectors(50), 120),
        (Guard::Tracks(0), 120 + 20),
        (Guard::Tracks(1), 120),
        (Guard::Tracks(2), 120),
        (Guard::Tracks(9), 120),
    ] {
        let (mut log, ..) = log(guard);
        log.keep_from(95);
        assert_eq!((log.limit, log.kept()), (limit, 95), "{guard:?}");
        assert_eq!(log.next_lap(), 60);
    }
    let (mut log, ..) = log(Guard::Tracks(1));
    log.keep_from(119);
    assert_eq!(log.limit, 120 + 20, "the track before that of the tail");
}

#[test]
fn a_request_finds_room_if_its_last_sector_does() {
    let (mut log, ..) = log(Guard::Tracks(0));
    for limit in [60, 80, 120, 130] {
        for head in 0..=60 {
            for n in 1..130 {
                (log.next.head, log.limit) = (head, limit);
                // A header, then data, to the end of a lap; the last sector of a lap holds no header.
                let (mut at, mut left) = (head, n);
                while left > 0 {
                    at += if at % 60 == 59 { 2 } else { 1 };
                    let here = left.min(60 - at % 60);
                    (at, left) = (at + here, left - here);
                }
                assert_eq!(log.has_room(n), at <= limit, "{n} from {head} on, up to {limit}");
                let room = if head % 60 == 59 { 59 } else { 59 - head % 60 };
                assert_eq!(log.holds_undivided(n), n <= room);
            }
        }
    }
}

#[test]
fn little_is_free_from_a_quarter_of_a_small_log_on() {
    let (mut log, mut disk, costs) = log(Guard::Tracks(0));
    append(&mut log, &mut disk, &costs, 0, 44);
    assert_eq!((log.used(), log.is_nearly_full()), (45, false));
    append(&mut log, &mut disk, &costs, 100, 1);
    assert_eq!((log.used(), log.is_nearly_full(), log.length()), (47, true, 2));
}

#[test]
fn a_request_cut_at_the_logs_end_says_how_many_parts_follow() {
    type Cut<'a> = &'a [(u64, u64)];
    // Sectors of each entry, and how many entries follow.
    let cases: [(u64, Cut); 3] = [(20, &[(38, 1), (19, 0)]), (57, &[(1, 1), (49, 0)]), (58, &[(30, 0)])];
    for (before, cut) in cases {
        let (mut log, mut disk, costs) = log(Guard::Tracks(0));
        append(&mut log, &mut disk, &costs, 400, before);
        let begin = log.next();
        let n = cut.iter().map(|entry| entry.0).sum();
        let whole = stamps(7, n);
        let (mut done, mut expected) = (0, Vec::new());
        for &(sectors, to_come) in cut {
            let host = HostData { lba: Lba(7 + done), sectors: n - done, buf: &whole, at: done };
            assert_eq!(log.append(&mut disk, &costs, Cause::Host, &host).unwrap().0, sectors);
            expected.push((7 + done, sectors, to_come));
            done += sectors;
        }
        let end = std::mem::replace(&mut log.next, begin);
        let mut found = Vec::new();
        while let Some(header) = log.read_header(&mut disk, HOST).unwrap() {
            found.push((header.lba.0, header.data_sectors(), header.to_come));
        }
        assert_eq!((found, log.next()), (expected, end));
    }
}

#[test]
fn headers_are_read_back_as_they_were_written() {
    let (mut log, mut disk, costs) = log(Guard::Tracks(0));
    let extents = [(Lba(10), 3), (Lba(400), 2), (Lba(20), 4)];
    let pba = log.append_together(&mut disk, &costs, &extents, &stamps(0, 9)).unwrap();
    let entries: Vec<_> = log.entries().map(|e| (e.data, e.lba.0, e.sectors, e.leads)).collect();
    assert_eq!((pba, entries), (Pba(41), vec![(1, 10, 3, true), (4, 400, 2, false), (6, 20, 4, false)]));
    assert_eq!(log.length(), 1);
    log.append_drop(&mut disk, &costs, Lba(30), 9).unwrap();
    let end = log.next();
    assert_eq!((end.head, log.length()), (11, 1));
    log.next = Link::default();
    let first = log.read_header(&mut disk, HOST).unwrap().unwrap();
    assert_eq!((first.extents().collect::<Vec<_>>(), first.drops, first.data_sectors()), (extents.to_vec(), false, 9));
    let second = log.read_header(&mut disk, HOST).unwrap().unwrap();
    assert_eq!((second.lba, second.sectors, second.drops, second.data_sectors()), (Lba(30), 9, true, 0));
    assert_eq!((log.next(), log.read_header(&mut disk, HOST).unwrap()), (end, None));
}

#[test]
fn headers_fit_where_their_writes_and_data_do() {
    let header = |lba, sectors, more: &[Extent], drops| LogHeader {
        more: more.into(),
        drops,
        ..LogHeader::for_extent((Lba(lba), sectors), 0)
    };
    for (header, room, fits) in [
        (header(0, 10, &[], false), 10, true),
        (header(0, 11, &[], false), 10, false),
        (header(0, 11, &[], true), 10, true),
        (header(0, 0, &[], false), 10, false),
        (header(HOST - 10, 10, &[], false), 10, true),
        (header(HOST - 9, 10, &[], false), 10, false),
        (header(u64::MAX, 10, &[], false), 10, false),
        (header(0, u64::MAX, &[], true), 10, false),
        (header(0, 6, &[(Lba(50), 4)], false), 10, true),
        (header(0, 6, &[(Lba(50), 5)], false), 10, false),
        (header(0, 6, &[(Lba(HOST), 1)], false), 10, false),
        (header(0, 6, &[(Lba(50), 0)], false), 10, false),
    ] {
        assert_eq!(header.fits(HOST, room), fits, "{header:?} in {room}");
    }
}

#[test]
fn only_the_next_header_of_the_chain_is_read() {
    let link = Link { head: 30, chain: 77 };
    let header = LogHeader { to_come: 3, drops: true, ..LogHeader::for_extent((Lba(1), 2), 9) };
    let words = header.words(link);
    assert_eq!(LogHeader::of_words(&words, link).as_ref(), Some(&header));
    for word in 0..3 {
        let mut other = words.to_vec();
        other[word] += 1;
        assert_eq!(LogHeader::of_words(&other, link), None);
    }
    assert_eq!(LogHeader::of_words(&words[..6], link), None);
}
