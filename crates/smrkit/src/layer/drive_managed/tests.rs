//! Positions, room and entries of the log; thresholds, shares and damaged books of the persistent cache.

use super::cache::{LogEntry, StaleRuns};
use super::*;
use crate::disk::Power;
use crate::drive::Drive;
use crate::geometry::{Geometry, Guard};
use crate::medium::interference::Interference;
use crate::medium::{Medium, Stamp, Stamps};
use crate::schema::{Keyed, Values};

fn drive() -> Drive {
    let mut drive = Drive::load("tiny-constant").unwrap();
    drive.geometry = Geometry::uniform(40, 20).unwrap();
    drive.with_interference(Interference::None).unwrap()
}

/// The costs that the drive's clock tells.
fn costs(drive: &Drive) -> Costs {
    Costs::new(drive, &CostKeys::read(&Values::new(CostKeys::keys())).unwrap())
}

/// A log of 60 sectors from PBA 40 on: three tracks.
fn log(guard: Guard) -> (CacheLog, Disk) {
    let drive = drive();
    let mut log = CacheLog::new(&drive, costs(&drive), Pba(40), Pba(100));
    log.guard = guard;
    log.release_before(0);
    (log, Disk::new(&drive, Medium::Stamps(Stamps::new())))
}

fn stamps(lba: u64, n: u64) -> Buf {
    Buf::Stamps((lba..lba + n).map(|lba| Stamp::new(Lba(lba), 1).0).collect())
}

fn append(log: &mut CacheLog, disk: &mut Disk, lba: u64, n: u64) -> (u64, u64) {
    let (sectors, pba) = log.append(disk, Cause::Host, (Lba(lba), n), &stamps(lba, n), 0).unwrap();
    (sectors, pba.0)
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
        let (mut log, _) = log(guard);
        log.release_before(95);
        assert_eq!((log.limit, log.copied_tail), (limit, 95), "{guard:?}");
        assert_eq!(log.next_lap(), 60);
    }
    let (mut log, _) = log(Guard::Tracks(1));
    log.release_before(119);
    assert_eq!(log.limit, 120 + 20, "the track before that of the tail");
}

#[test]
fn a_request_finds_room_if_its_last_sector_does() {
    let (mut log, _) = log(Guard::Tracks(0));
    for limit in [60, 80, 120, 130] {
        for head in 0..=60 {
            for n in 1..130 {
                (log.head, log.limit) = (head, limit);
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
fn a_quarter_of_a_small_log_is_kept_free() {
    let (mut log, mut disk) = log(Guard::Tracks(0));
    append(&mut log, &mut disk, 0, 44);
    assert_eq!((log.used(), log.excess()), (45, 0));
    append(&mut log, &mut disk, 100, 1);
    assert_eq!((log.used(), log.excess(), log.length()), (47, 1, 2));
}

#[test]
fn long_writes_take_several_entries_and_gaps_lie_between_writes() {
    let set = |key: crate::schema::Key| match key.name {
        "entry_bytes" => key.with_default("4Ki"),
        "gap_bytes" => key.with_default("2560"),
        _ => key,
    };
    let keys = CostKeys::read(&Values::new(CostKeys::keys().into_iter().map(set).collect())).unwrap();
    let mut log = CacheLog::new(&drive(), Costs::new(&drive(), &keys), Pba(40), Pba(100));
    let mut disk = Disk::new(&drive(), Medium::Stamps(Stamps::new()));
    assert_eq!((log.request_max(), log.holds_undivided(8), log.holds_undivided(9)), (48, true, false));
    assert_eq!(append(&mut log, &mut disk, 0, 20), (8, 41));
    log.skip_gap();
    // 36 sectors are five entries: 41 sectors from 14 on, and a gap.
    assert_eq!((log.head, log.has_room(36), log.has_room(37)), (14, true, false));
}

#[test]
fn a_request_is_cut_at_the_logs_end() {
    type Cut<'a> = &'a [(u64, u64)];
    // Sectors of each entry, and where they lie.
    let cases: [(u64, Cut); 3] = [(20, &[(38, 62), (19, 41)]), (57, &[(1, 99), (49, 41)]), (58, &[(30, 41)])];
    for (before, cut) in cases {
        let (mut log, mut disk) = log(Guard::Tracks(0));
        append(&mut log, &mut disk, 400, before);
        let (n, mut done) = (cut.iter().map(|entry| entry.0).sum::<u64>(), 0);
        for &(sectors, pba) in cut {
            assert_eq!(append(&mut log, &mut disk, 7 + done, n - done), (sectors, pba), "behind {before}");
            let stamps = disk.stamps().unwrap();
            assert_eq!(stamps.get(Pba(pba)), Stamp::new(Lba(7 + done), 1));
            assert!(stamps.get(Pba(pba) - HEADER).is_metadata());
            done += sectors;
        }
    }
}

#[test]
fn writes_that_share_a_header_are_entries_of_their_own() {
    let (mut log, mut disk) = log(Guard::Tracks(0));
    let extents: [Extent; 3] = [(Lba(10), 3), (Lba(400), 2), (Lba(20), 4)];
    let pba = log.append_together(&mut disk, &extents, &stamps(0, 9)).unwrap();
    let entries: Vec<_> = log.entries.iter().map(|e| (e.data, e.lba.0, e.sectors, e.leads)).collect();
    assert_eq!((pba, entries), (Pba(41), vec![(1, 10, 3, true), (4, 400, 2, false), (6, 20, 4, false)]));
    assert_eq!((log.head, log.length()), (10, 1));
    log.append_drop(&mut disk).unwrap();
    assert_eq!((log.head, log.length()), (11, 1));
}

/// A cache with a log of 60 sectors from PBA 40 on, of up to 4 and 2 entries before cleaning; copies hold 3 extents.
fn cache(bypassed: bool) -> (PersistentCache, Disk) {
    let limits = Limits { alpha: 4, beta: 2, map_entries_max: 20, copied_max: 3 };
    let log = CacheLog::new(&drive(), costs(&drive()), Pba(40), Pba(100));
    (PersistentCache::new(limits, log, [Pba(0), Pba(20)], bypassed), Disk::new(&drive(), Medium::NoData))
}

#[test]
fn a_torn_copy_of_the_map_leaves_the_one_before_and_what_it_needs() {
    let (mut cache, _) = cache(false);
    let mut disk = Disk::new(&drive(), Medium::Stamps(Stamps::new()));
    let copied = |disk: &mut Disk| [0, 20].map(|pba| disk.stamps().unwrap().get(Pba(pba)).is_metadata());
    cache.persist(&mut disk).unwrap();
    assert_eq!(copied(&mut disk), [true, false], "the first place");
    append(&mut cache.log, &mut disk, 7, 5);
    disk.cut_power(Power::new(vec![1], 0));
    cache.persist(&mut disk).unwrap_err();
    assert_eq!((cache.copies, cache.log.copied_tail), (1, 0));
    disk.power_cut();
    cache.persist(&mut disk).unwrap();
    assert_eq!((copied(&mut disk), cache.log.copied_tail), ([true, true], cache.log.tail()));
}

/// Verdict of the check on these (position, LBA, sectors) in a log up to a head.
fn checked(entries: &[(u64, u64, u64)], head: u64, damage: impl Fn(&mut PersistentCache)) -> Result<(), String> {
    let (mut cache, _) = cache(false);
    for &(data, lba, sectors) in entries {
        cache.log.push(LogEntry { data, lba: Lba(lba), sectors, leads: true });
        cache.map.insert(Lba(lba), sectors, cache.log.pba(data));
    }
    cache.log.head = head;
    damage(&mut cache);
    cache.check().map_err(|fault| fault.to_string())
}

#[test]
fn a_check_finds_entries_and_sums_that_can_not_be() {
    let entries = [(1, 10, 5), (6, 30, 4)];
    assert_eq!(checked(&entries, 10, |_| ()), Ok(()));
    assert!(checked(&[(1, 10, 5), (5, 30, 4)], 10, |_| ()).unwrap_err().contains("entries overlap at position 5"));
    let mapped = checked(&entries, 10, |cache| cache.map.insert(Lba(99), 1, Pba(90))).unwrap_err();
    assert!(mapped.contains("9 sectors are valid in the log, 10 in the map"), "{mapped}");
    assert!(checked(&entries, 9, |_| ()).unwrap_err().contains("the log's head lies before 10"));
    assert!(
        checked(&entries, 10, |cache| cache.log.release_before(1)).unwrap_err().contains("tail before the last map")
    );
    assert_eq!(checked(&entries, 60, |_| ()), Ok(()));
    assert!(checked(&entries, 61, |_| ()).unwrap_err().contains("the log holds 61 sectors"));
    assert_eq!(checked(&[(1, 10, 5), (6, 30, 4), (11, 40, 1)], 20, |_| ()), Ok(()));
    let four = checked(&[(1, 10, 5), (6, 30, 4), (11, 40, 1), (13, 50, 1)], 20, |_| ());
    assert!(four.unwrap_err().contains("4 map entries"));
}

#[test]
fn what_is_in_use_counts_against_its_thresholds() {
    let (mut cache, mut disk) = cache(false);
    let mut put = |cache: &mut PersistentCache, lba, n| {
        cache.append(&mut disk, Cause::Host, Lba(lba), n, &Buf::NoData, 0).unwrap();
    };
    assert_eq!((cache.excess(), cache.fill(60), cache.log.entries.len(), cache.appends), (0, 0.0, 0, 0));
    put(&mut cache, 0, 9);
    put(&mut cache, 100, 9);
    // Of 20 sectors of the log in use, 18 are valid and 2 are headers.
    assert_eq!((cache.excess(), cache.fill(60), cache.invalid_share()), (0, 1.0, 0.0));
    assert_eq!((cache.map.len(), cache.log.length(), cache.memory_bytes()), (2, 2, 2 * 40 + 2 * 16));
    // Three map entries of one, and a third entry in the log.
    put(&mut cache, 3, 2);
    assert_eq!((cache.map.len(), cache.log.length(), cache.excess(), cache.appends), (4, 3, 1, 3));
    assert_eq!(cache.invalid_share(), 1.0 - 21.0 / 23.0);
    put(&mut cache, 103, 2);
    assert_eq!((cache.map.len(), cache.log.length(), cache.excess()), (6, 4, 2));
    cache.forget(Lba(0), 9);
    assert_eq!((cache.map.len(), cache.excess(), cache.is_held_by_copy()), (3, 2, false));
    assert!(cache.trim());
    assert_eq!((cache.log.length(), cache.excess(), cache.is_held_by_copy()), (3, 1, true));
    cache.persist(&mut disk).unwrap();
    assert_eq!((cache.map_writes, cache.appends, cache.is_held_by_copy()), (1, 0, false));
}

#[test]
fn the_largest_share_of_a_threshold_is_the_fill() {
    let (mut cache, mut disk) = cache(false);
    cache.append(&mut disk, Cause::Host, Lba(0), 9, &Buf::NoData, 0).unwrap();
    assert_eq!(cache.fill(60), 0.5, "one log entry of two");
    assert_eq!(cache.fill(16), 10.0 / 16.0, "sectors");
    assert_eq!(cache.fill(8), 1.0);
    (cache.limits.alpha, cache.limits.beta) = (1, 9);
    assert_eq!(cache.fill(60), 1.0, "map entries");
}

#[test]
fn a_map_has_room_for_what_a_request_may_split() {
    let (mut cache, _) = cache(false);
    for (entries_max, has_room) in [(15, false), (16, true), (17, true)] {
        cache.limits.map_entries_max = entries_max;
        assert_eq!(cache.has_room(59), has_room);
    }
    assert!(!cache.has_room(60), "the log's end");
    cache.map.insert(Lba(0), 1, Pba(41));
    cache.limits.map_entries_max = 16;
    assert!(!cache.has_room(1));
}

#[test]
fn what_was_written_again_since_it_was_merged_stays() {
    for bypassed in [false, true] {
        let (mut cache, _) = cache(bypassed);
        cache.map.insert(Lba(10), 4, Pba(41));
        cache.map.insert(Lba(20), 6, Pba(51));
        let merged: Vec<_> = cache.map.mapped(Lba(0), 30).collect();
        // Two sectors in the middle of the second, and all around it.
        cache.map.insert(Lba(22), 2, Pba(70));
        cache.forget_merged(Lba(0), 30, &merged);
        let left: Vec<_> = cache.map.mapped(Lba(0), 30).collect();
        assert_eq!(left, [(Lba(22), 2, Pba(70))]);
        cache.forget_merged(Lba(0), 30, &[(Lba(20), 6, Pba(68)), (Lba(26), 1, Pba(1))]);
        assert_eq!(cache.map.sectors(), 0, "the same place");
        let stale = cache.stale.as_mut().map(|stale| (0..30).filter(|&lba| stale.overlap(Lba(lba), 1)).count());
        assert_eq!(stale, bypassed.then_some(10));
    }
}

#[test]
fn stale_runs_are_found_in_whatever_order_they_come() {
    let mut stale = StaleRuns::default();
    let mut known = [false; 120];
    for step in 0..60u64 {
        let (lba, n) = (step * 37 % 101, step % 5 + 1);
        stale.add(Lba(lba), n);
        (lba..lba + n).for_each(|at| known[at as usize] = true);
        let (lba, n) = (step * 53 % 97, step % 7 + 1);
        let expected = known[lba as usize..(lba + n) as usize].contains(&true);
        assert_eq!(stale.overlap(Lba(lba), n), expected, "{n} from {lba} after {} runs", step + 1);
    }
}

#[test]
fn writes_that_share_entries_never_outgrow_the_thresholds() {
    let drive = Drive::load("tiny").unwrap();
    let mut layer =
        DriveManaged::new(&drive, &DriveManagedKeys::read(&Values::new(DriveManagedKeys::keys())).unwrap()).unwrap();
    let mut disk = Disk::new(&drive, Medium::NoData);
    let host = layer.home.capacity.host_sectors;
    for turn in 0..400 {
        layer.step(&mut disk, Need::Must).unwrap();
        assert_eq!(layer.cache.excess(), 0, "turn {turn}");
        let lba = |n: u64| Lba((turn * 8 + n) * 7919 % (host - 1));
        let writes: Vec<_> = (0..8).map(|n| QueuedWrite { lba: lba(n), sectors: 1, data: &Buf::NoData }).collect();
        layer.write_together(&mut disk, &writes).unwrap();
    }
    assert!(layer.counts.bands_cleaned > 0);
}
