//! Damaged books of the cache, found by the check and refused where they are taken back.

use super::*;
use crate::geometry::Geometry;
use crate::medium::Medium;
use crate::medium::interference::Interference;
use crate::schema::Keyed;

/// An empty layer of regions of 50 sectors.
fn empty() -> (SetAssoc, Disk) {
    let mut drive = Drive::load("tiny-constant").unwrap();
    drive.geometry = Geometry::uniform(110, 20).unwrap();
    let drive = drive.with_interference(Interference::Tracks { width: 2, band: None }).unwrap();
    let set = [("cache_percent", "10"), ("region_sectors", "50")].map(|(key, value)| (key.into(), value.into()));
    let keys = SetAssocKeys::read(&SPEC.resolve(&set).unwrap()).unwrap();
    (SetAssoc::new(&drive, &keys).unwrap(), Disk::new(&drive, Medium::NoData))
}

/// One with 5 + 15 sectors in the second cache region, and with the third one full.
fn cached() -> SetAssoc {
    let (mut layer, mut disk) = empty();
    for (lba, n) in [(0, 10), (50, 10), (55, 10), (100, 50), (150, 5)] {
        layer.write(&mut disk, Lba(lba), n, &Buf::NoData).unwrap();
    }
    assert_eq!((layer.caches, layer.fill.as_slice()), (3, [15, 20, 50].as_slice()));
    layer.check_books().unwrap();
    layer
}

#[test]
fn a_check_finds_what_can_not_be_in_a_cache_region() {
    type Damage = fn(&mut SetAssoc);
    let damages: [(&str, Damage); 6] = [
        ("outside cache region 1", |layer| layer.map.insert(Lba(50), 1, layer.regions.start(0) + 30)),
        ("outside cache region 1", |layer| layer.map.insert(Lba(50), 1, layer.regions.start(1) + 20)),
        ("outside cache region 1", |layer| layer.map.insert(Lba(50), 2, layer.regions.start(1) + 19)),
        ("two LBAs are cached at PBA", |layer| layer.map.insert(Lba(90), 1, layer.regions.start(1) + 1)),
        ("cache region 2 is filled with 51 sectors", |layer| layer.fill[2] += 1),
        ("the sum of fills is wrong", |layer| layer.filled_sectors += 1),
    ];
    for (problem, damage) in damages {
        let mut layer = cached();
        damage(&mut layer);
        let error = layer.check_books().unwrap_err().to_string();
        assert!(error.contains(problem), "{problem}: {error}");
    }
}

#[test]
fn books_bring_the_cache_back_unless_they_are_of_another_drive() {
    let before = cached();
    let books = before.books().unwrap();
    let taken = |change: &dyn Fn(&mut Vec<u64>)| {
        let (mut after, mut books) = (empty().0, books.clone());
        change(&mut books);
        after.take_books(&books).map(|()| after).map_err(|fault| fault.to_string())
    };
    let after = taken(&|_| ()).ok().unwrap();
    assert_eq!((after.books(), after.filled_sectors), (before.books(), before.filled_sectors));
    assert!((0..before.capacity.host_sectors).map(Lba).all(|lba| after.locate(lba) == before.locate(lba)));
    // Three fills, then the LBA, sectors and PBA of each extent.
    let host = before.capacity.host_sectors;
    type Change<'a> = &'a dyn Fn(&mut Vec<u64>);
    let changes: [Change; 8] = [
        &|books| books.push(0),
        &|books| books.extend([0, 1]),
        &|books| books.swap(3, 6),
        &|books| books[4] = 0,
        &|books| books[4] = 51,
        &|books| books.extend([host - 1, 2, 0]),
        &|books| books[2] = 51,
        &|books| books[5] = u64::MAX,
    ];
    for change in changes {
        let error = taken(change).err().unwrap();
        assert!(error.contains("the map in its books"), "{error}");
    }
    assert!(taken(&|books| books.truncate(2)).err().unwrap().contains("too short"));
}
