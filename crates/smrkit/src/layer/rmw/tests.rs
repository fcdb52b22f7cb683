//! Regions open in memory, and damaged books.

use super::*;
use crate::medium::Medium;
use crate::schema::Keyed;

fn layer(hold: &str) -> (Rmw, Disk) {
    let drive = Drive::load("tiny-constant").unwrap();
    let set = [("hold", hold), ("region_sectors", "50")].map(|(key, value)| (key.into(), value.into()));
    let keys = RmwKeys::read(&SPEC.resolve(&set).unwrap()).unwrap();
    (Rmw::new(&drive, &keys).unwrap(), Disk::new(&drive, Medium::NoData))
}

#[test]
fn a_check_finds_regions_held_in_a_way_that_can_not_be() {
    let held = |regions: u64| {
        let (mut layer, disk) = layer("1");
        let open = |region| OpenRegion { region, data: Buf::NoData, dirty: RangeMap::default() };
        layer.held = (0..regions).map(open).collect();
        layer.check(&disk).map_err(|fault| fault.to_string())
    };
    assert_eq!(held(1), Ok(()));
    assert!(held(2).unwrap_err().contains("2 regions are held"));
    let (mut layer, disk) = layer("0");
    layer.valid.insert(Lba(3), 4);
    layer.written.insert(Lba(3), 3);
    assert!(layer.check(&disk).unwrap_err().to_string().contains("LBA 3 is valid but was never written"));
}

#[test]
fn books_of_another_drive_are_refused() {
    let (mut before, mut disk) = layer("0");
    [(0, 10), (20, 5), (100, 60)]
        .iter()
        .for_each(|&(lba, n)| before.write(&mut disk, Lba(lba), n, &Buf::NoData).unwrap());
    before.discard(&mut disk, Lba(4), 2).unwrap();
    let books = before.books().unwrap();
    let (host, count) = (before.capacity.host_sectors, books[0] as usize);
    let taken = |change: &dyn Fn(&mut Vec<u64>)| {
        let (mut after, mut books) = (layer("0").0, books.clone());
        change(&mut books);
        after.take_books(&books).map(|()| after.books().unwrap()).map_err(|fault| fault.to_string())
    };
    assert_eq!(taken(&|_| ()).unwrap(), books);
    type Change<'a> = &'a dyn Fn(&mut Vec<u64>);
    let changes: [(&str, Change); 8] = [
        ("the map in its books", &|books| books.push(9)),
        ("the map in its books", &|books| books[0] += 1),
        ("the map in its books", &|books| books.swap(1, 3)),
        ("the map in its books", &|books| books[2] = 0),
        ("the map in its books", &|books| books[2] = u64::MAX),
        ("the map in its books", &|books| books.extend([host - 1, 2])),
        ("too short", &|books| books.truncate(count)),
        ("never written", &|books| books.truncate(books.len() - 2)),
    ];
    for (problem, change) in changes {
        let error = taken(change).unwrap_err();
        assert!(error.contains(problem), "{problem}: {error}");
    }
    assert!(taken(&|books| books.clear()).unwrap_err().contains("too short"));
}
