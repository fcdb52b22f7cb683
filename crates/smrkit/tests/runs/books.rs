//! Books of layers: taken back they bring everything back, and damaged ones are refused or tell of another sound state.

use crate::common::{Disks, random_requests};
use smrkit::disk::Disk;
use smrkit::drive::Drive;
use smrkit::layer::{HOST_MANAGED, LAYERS, Layer, LayerSpec, Need, Parameters};
use smrkit::medium::interference::Form;
use smrkit::medium::{Buf, Medium};
use smrkit::request::Op;
use smrkit::units::Lba;

fn build(spec: &LayerSpec, drive: &Drive, parameters: &Parameters) -> (Box<dyn Layer>, Disk) {
    ((spec.build)(drive, parameters).unwrap(), Disk::new(drive, Medium::NoData))
}

/// Layers that have books, after some requests; with them the drive and parameters.
fn with_books(seeds: u64) -> impl Iterator<Item = (&'static LayerSpec, Drive, Parameters, Box<dyn Layer>, Vec<u64>)> {
    let specs = LAYERS.iter().chain(HOST_MANAGED);
    specs.flat_map(move |spec| (0..seeds).map(move |seed| (spec, seed))).filter_map(|(spec, seed)| {
        let mut disks = Disks::new(seed);
        let drive = disks.drive(spec.copes_with.first().copied().unwrap_or(Form::Tracks));
        let parameters = disks.parameters(spec);
        (spec.capacity)(&drive, &parameters).ok()?;
        let (mut layer, mut disk) = build(spec, &drive, &parameters);
        layer.books()?;
        for request in random_requests(&mut disks.random, layer.capacity().host_sectors, 120) {
            while layer.step(&mut disk, Need::Must).unwrap() {}
            let (lba, n) = (request.lba, u64::from(request.sectors));
            // A host-managed disk may refuse.
            let _ = match request.op {
                Op::Write => layer.write(&mut disk, lba, n, &Buf::NoData),
                Op::Discard => layer.discard(&mut disk, lba, n),
                Op::Read => layer.read(&mut disk, lba, n, &mut Buf::NoData),
                Op::Flush => layer.flush(&mut disk),
            };
        }
        layer.flush(&mut disk).unwrap();
        let books = layer.books()?;
        Some((spec, drive, parameters, layer, books))
    })
}

#[test]
fn books_bring_back_where_everything_lies() {
    let mut found = 0;
    for (spec, drive, parameters, before, books) in with_books(6) {
        let (mut after, disk) = build(spec, &drive, &parameters);
        after.take_books(&books).unwrap();
        after.check(&disk).unwrap();
        assert_eq!(after.gauges().cache_fill, before.gauges().cache_fill, "{}", spec.name);
        let (mut again, _) = build(spec, &drive, &parameters);
        again.take_books(&after.books().unwrap()).unwrap();
        assert_eq!(again.books(), after.books(), "{}", spec.name);
        for lba in (0..before.capacity().host_sectors).map(Lba) {
            assert_eq!(after.locate(lba), before.locate(lba), "{} {lba}", spec.name);
        }
        found += 1;
    }
    assert!(found > 12, "{found}");
}

#[test]
fn damaged_books_are_refused_or_tell_of_a_sound_state() {
    for (spec, drive, parameters, _, books) in with_books(2) {
        let taken = |books: &[u64]| {
            let (mut after, disk) = build(spec, &drive, &parameters);
            after.take_books(books).map(|()| (after, disk))
        };
        assert!(taken(&books[..books.len() - 1]).is_err() && taken(&[]).is_err(), "{}", spec.name);
        assert!(taken(&[books.as_slice(), &[0]].concat()).is_err(), "{}", spec.name);
        let step = 1 + books.len() / 40;
        for at in (0..books.len()).step_by(step) {
            let word = books[at];
            for damaged in [0, word.wrapping_sub(1), word + 1, word ^ 1 << 33, u64::MAX] {
                let mut books = books.clone();
                books[at] = damaged;
                let Ok((after, disk)) = taken(&books) else { continue };
                after.check(&disk).unwrap();
                let capacity = after.capacity();
                let mut places = (0..capacity.host_sectors).map(|lba| after.locate(Lba(lba)).0);
                assert!(places.all(|pba| pba < capacity.raw_sectors), "{}: word {at} as {damaged}", spec.name);
            }
        }
    }
}
