//! Damaged books of a host-managed disk.

use super::*;
use crate::medium::Medium;
use crate::medium::interference::Interference;
use crate::schema::Keyed;

/// A disk of zones of 128 sectors with at most two open ones.
fn zoned() -> (Zoned, Disk) {
    let drive = Drive::load("tiny-constant").unwrap().with_interference(Interference::None).unwrap();
    let set = [("zone_bytes", "64Ki"), ("max_open", "2")].map(|(key, value)| (key.into(), value.into()));
    let keys = ZonedKeys::read(&SPEC.resolve(&set).unwrap()).unwrap();
    let zoned = Zoned::new(&drive, &keys).unwrap();
    (zoned, Disk::new(&drive, Medium::NoData))
}

#[test]
fn a_check_finds_wrong_counts_and_zones_that_can_not_be_open() {
    let size = 128;
    let found = |pointers: [u64; 3], open: &[u64], active: u64| {
        let (mut zoned, disk) = zoned();
        let first = zoned.layout.conventional();
        zoned.pointers[first as usize..][..3].copy_from_slice(&pointers);
        (zoned.open, zoned.active) = (open.iter().map(|zone| first + zone).collect(), active);
        zoned.check(&disk).map_err(|fault| fault.to_string())
    };
    assert_eq!(found([1, size - 1, size], &[0, 1], 2), Ok(()));
    assert!(found([1, size - 1, size], &[0, 1], 3).unwrap_err().contains("3 zones count as active, 2 are"));
    assert!(found([1, 2, 3], &[0, 1, 2], 3).unwrap_err().contains("3 zones are open, and 2 may be"));
    assert!(found([1, size, 0], &[1], 1).unwrap_err().contains("is open, and empty or full"));
    assert!(found([1, size, 0], &[2], 1).unwrap_err().contains("is open, and empty or full"));
}

#[test]
fn pointers_up_to_a_zones_end_are_taken_and_others_refused() {
    let (zoned_before, disk) = zoned();
    let (zones, first) = (zoned_before.pointers.len(), zoned_before.layout.conventional() as usize);
    let taken = |pointers: &[u64]| {
        let mut books = zoned_before.books().unwrap();
        books[first..][..pointers.len()].copy_from_slice(pointers);
        let (mut after, _) = zoned();
        after.take_books(&books)?;
        assert_eq!(after.books(), Some(books));
        after.check(&disk).map(|()| after.active)
    };
    assert_eq!(taken(&[128, 0, 1, 127]).unwrap(), 2);
    assert!(taken(&[129]).is_err());
    let (mut after, _) = zoned();
    assert!(after.take_books(&vec![0; zones - 1]).is_err() && after.take_books(&vec![0; zones + 1]).is_err());
}
