//! Thresholds, shares and damaged books of the persistent cache.

use super::*;
use crate::drive::Drive;
use crate::geometry::{Geometry, Guard};
use crate::medium::Medium;
use crate::medium::interference::Interference;

/// A cache with a log of 60 sectors from PBA 40 on, of up to 4 and 2 entries before cleaning; copies hold 3 extents.
fn cache(bypassed: bool) -> (PersistentCache, Disk) {
    let mut drive = Drive::load("tiny-constant").unwrap();
    drive.geometry = Geometry::uniform(40, 20).unwrap();
    let drive = drive.with_interference(Interference::None).unwrap();
    let log = CacheLog::new(&drive.geometry, (Guard::Tracks(0), 0), Pba(40), Pba(100));
    let (limits, copies) = (Limits { alpha: 4, beta: 2, map_entries_max: 20 }, MapCopies::new([Pba(0), Pba(20)], 3));
    let cache = PersistentCache::new(limits, Costs::new(&drive), log, copies, bypassed);
    (cache, Disk::new(&drive, Medium::NoData))
}

/// Verdict of the check on these (position, LBA, sectors) in a log up to a head.
fn checked(entries: &[(u64, u64, u64)], head: u64, damage: impl Fn(&mut PersistentCache)) -> Result<(), String> {
    let (mut cache, _) = cache(false);
    for &(data, lba, sectors) in entries {
        cache.log.push(LogEntry { data, lba: Lba(lba), sectors, leads: true });
        cache.map.insert(Lba(lba), sectors, cache.log.pba(data));
    }
    cache.log.restart_at(head, 0);
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
    assert!(checked(&entries, 10, |cache| cache.log.keep_from(1)).unwrap_err().contains("tail before the last map"));
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
    assert_eq!((cache.excess(), cache.fill(60), cache.is_empty(), cache.appends()), (0, 0.0, true, 0));
    put(&mut cache, 0, 9);
    put(&mut cache, 100, 9);
    // Of 20 sectors of the log in use, 18 are valid and 2 are headers.
    assert_eq!((cache.excess(), cache.fill(60), cache.invalid_share()), (0, 1.0, 0.0));
    assert_eq!((cache.map_entries(), cache.log_length(), cache.memory_bytes()), (2, 2, 2 * 40 + 2 * 16));
    // Three map entries of one, and a third entry in the log.
    put(&mut cache, 3, 2);
    assert_eq!((cache.map_entries(), cache.log_length(), cache.excess(), cache.appends()), (4, 3, 1, 3));
    assert_eq!(cache.invalid_share(), 1.0 - 21.0 / 23.0);
    put(&mut cache, 103, 2);
    assert_eq!((cache.map_entries(), cache.log_length(), cache.excess()), (6, 4, 2));
    cache.forget(Lba(0), 9);
    assert_eq!((cache.map_entries(), cache.excess(), cache.is_held_by_copy()), (3, 2, false));
    assert!(cache.trim());
    assert_eq!((cache.log_length(), cache.excess(), cache.is_held_by_copy()), (3, 1, true));
    cache.persist(&mut disk, 0).unwrap();
    assert_eq!((cache.map_writes(), cache.appends(), cache.is_held_by_copy()), (1, 0, false));
    cache.reset_counts();
    assert_eq!(cache.map_writes(), 0);
}

#[test]
fn the_largest_share_of_a_threshold_is_the_fill() {
    let (mut cache, mut disk) = cache(false);
    cache.append(&mut disk, Cause::Host, Lba(0), 9, &Buf::NoData, 0).unwrap();
    assert_eq!(cache.fill(60), 0.5, "one log entry of two");
    assert_eq!(cache.fill(16), 10.0 / 16.0, "sectors");
    assert_eq!(cache.fill(8), 1.0);
    cache.limits = Limits { alpha: 1, beta: 9, map_entries_max: 20 };
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
