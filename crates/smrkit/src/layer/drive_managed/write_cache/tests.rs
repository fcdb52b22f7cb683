//! The write cache beside a plain list of the sectors that it holds.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::drive::Drive;
use crate::medium::{Medium, Stamp, Stamps};

const LBAS: usize = 60;

fn disk() -> Disk {
    Disk::new(&Drive::load("tiny-constant").unwrap(), Medium::Stamps(Stamps::new()))
}

fn data(lba: u64, n: u64, version: u64) -> Buf {
    Buf::Stamps((lba..lba + n).map(|lba| Stamp::new(Lba(lba), version).0).collect())
}

/// Stamps that a cache holds, by LBA.
fn held(cache: &WriteCache, first: usize, end: usize) -> Vec<Option<u64>> {
    let mut list = vec![None; LBAS];
    let mut at = first as u64;
    let each = |lba: Lba, n: u64, held: Option<(&Buf, u64)>| {
        assert_eq!((lba.0, n > 0), (at, true));
        at += n;
        if let Some((Buf::Stamps(stamps), from)) = held {
            (0..n).for_each(|i| list[(lba.0 + i) as usize] = Some(stamps[(from + i) as usize]));
        }
        Ok::<(), ()>(())
    };
    cache.parts(Lba(first as u64), (end - first) as u64, each).unwrap();
    assert_eq!(at, end as u64);
    list
}

#[test]
fn a_write_cache_agrees_with_a_list_of_its_sectors() {
    let (random, disk) = (&mut Pcg64Mcg::seed_from_u64(3), disk());
    for _ in 0..60 {
        let mut cache = WriteCache::new(LBAS as u64);
        let mut list: Vec<Option<u64>> = vec![None; LBAS];
        for version in 1..25 {
            let first = random.random_range(0..LBAS);
            let end = random.random_range(first + 1..=LBAS.min(first + 15));
            let (lba, n) = (first as u64, (end - first) as u64);
            match random.random_range(0..5) {
                0 => {
                    cache.remove(&disk, Lba(lba), n).unwrap();
                    list[first..end].fill(None);
                }
                1 => {
                    let Some(run) = cache.next_run() else { continue };
                    let range = run.lba.0 as usize..(run.lba.0 + run.sectors) as usize;
                    let Buf::Stamps(stamps) = cache.take(&disk, &run).unwrap() else { panic!("stamps") };
                    assert_eq!(stamps.into_iter().map(Some).collect::<Vec<_>>(), list[range.clone()]);
                    list[range].fill(None);
                    assert!(cache.is_under_way());
                    cache.arrived();
                }
                _ => {
                    cache.put(&disk, Lba(lba), n, &data(lba, n, version), random.random_bool(0.3)).unwrap();
                    (first..end).for_each(|lba| list[lba] = Some(Stamp::new(Lba(lba as u64), version).0));
                }
            }
            assert_eq!(held(&cache, 0, LBAS), list);
            let mut part = vec![None; LBAS];
            part[first..end].copy_from_slice(&list[first..end]);
            assert_eq!(held(&cache, first, end), part);
            assert_eq!(cache.sectors(), list.iter().flatten().count() as u64);
            assert_eq!(cache.is_empty(), list.iter().flatten().count() == 0);
            assert!(cache.is_sound());
        }
    }
}

#[test]
fn a_sweep_brings_what_came_before_it_and_what_follows_on_that() {
    let disk = disk();
    let mut cache = WriteCache::new(100);
    let put = |cache: &mut WriteCache, lba, n, direct| cache.put(&disk, Lba(lba), n, &data(lba, n, 1), direct).unwrap();
    let next = |cache: &mut WriteCache| {
        let run = cache.next_run()?;
        cache.take(&disk, &run).unwrap();
        Some((run.lba.0, run.sectors, run.direct))
    };
    put(&mut cache, 10, 5, false);
    put(&mut cache, 15, 5, false);
    put(&mut cache, 20, 5, true);
    put(&mut cache, 40, 5, false);
    assert_eq!(next(&mut cache), Some((10, 10, false)), "the next piece goes straight to its band");
    // What comes behind the sweep waits for the next, even before it; what follows on a run goes along.
    put(&mut cache, 5, 3, false);
    put(&mut cache, 30, 2, false);
    put(&mut cache, 45, 5, false);
    assert_eq!(next(&mut cache), Some((20, 5, true)));
    assert_eq!(next(&mut cache), Some((40, 10, false)));
    assert_eq!(next(&mut cache), Some((5, 3, false)));
    assert_eq!(next(&mut cache), Some((30, 2, false)));
    assert_eq!(next(&mut cache), None);
}

#[test]
fn a_run_may_end_within_a_piece() {
    let disk = disk();
    let mut cache = WriteCache::new(100);
    cache.put(&disk, Lba(10), 8, &data(10, 8, 1), false).unwrap();
    let taken = cache.take(&disk, &FlushRun { lba: Lba(10), sectors: 5, direct: false }).unwrap();
    assert!(matches!((taken, data(10, 5, 1)), (Buf::Stamps(a), Buf::Stamps(b)) if a == b));
    assert_eq!((cache.sectors(), held(&cache, 0, LBAS).iter().flatten().count()), (3, 3));
    // Room is taken until the run has arrived.
    assert!(cache.has_room(92) && !cache.has_room(93) && cache.is_under_way());
    cache.arrived();
    assert!(cache.has_room(97) && !cache.has_room(98) && !cache.is_under_way());
    assert!(cache.takes(100) && !cache.takes(101) && !WriteCache::new(0).takes(1));
}

#[test]
fn a_cache_is_emptied_once_half_full_or_when_no_write_comes() {
    let mut disk = disk();
    let mut cache = WriteCache::new(20);
    let put = |cache: &mut WriteCache, disk: &mut Disk, ms: u64, lba, n| {
        disk.wait_until(Nanos(ms * 1_000_000));
        cache.put(disk, Lba(lba), n, &data(lba, n, 1), false).unwrap();
        cache.due().map(|due| due.0 as f64 / 1e6)
    };
    assert_eq!(cache.due(), None);
    assert_eq!(put(&mut cache, &mut disk, 1, 0, 5), Some(101.0));
    assert_eq!(put(&mut cache, &mut disk, 3, 5, 5), Some(103.0), "half is not more than half");
    assert_eq!(put(&mut cache, &mut disk, 7, 10, 1), Some(7.0));
    assert_eq!(put(&mut cache, &mut disk, 9, 11, 4), Some(7.0), "since it was half full");
    cache.remove(&disk, Lba(0), 10).unwrap();
    assert_eq!(cache.due(), Some(Nanos(109_000_000)));
    cache.remove(&disk, Lba(10), 5).unwrap();
    assert_eq!(cache.due(), None);
}

#[test]
fn a_check_finds_overlaps_and_wrong_sums() {
    let disk = disk();
    let cache = || {
        let mut cache = WriteCache::new(20);
        cache.put(&disk, Lba(5), 5, &data(5, 5, 1), false).unwrap();
        cache.put(&disk, Lba(10), 5, &data(10, 5, 1), false).unwrap();
        cache
    };
    assert!(cache().is_sound());
    assert!(!WriteCache { sectors: 11, ..cache() }.is_sound());
    assert!(WriteCache { under_way: 10, ..cache() }.is_sound() && !WriteCache { under_way: 11, ..cache() }.is_sound());
    let mut overlapping = cache();
    overlapping.insert(12, HeldWrite { sectors: 2, data: Buf::NoData, came: 0, direct: false });
    assert!(!overlapping.is_sound());
    let mut first = cache();
    first.insert(4, HeldWrite { sectors: 2, data: Buf::NoData, came: 0, direct: false });
    assert!(!first.is_sound());
}
