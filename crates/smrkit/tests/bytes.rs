//! The same layers on a disk of real bytes: what was written is read back, on disks that destroy as the law says.

mod common;

use common::{Disks, random_requests};
use smrkit::disk::Disk;
use smrkit::error::Error;
use smrkit::layer::{LAYERS, LayerSpec, Need};
use smrkit::medium::interference::Form;
use smrkit::medium::{Buf, Medium, MemoryBacking};
use smrkit::request::{Op, Request};

const SECTOR: usize = 512;

/// What the host wrote last, sector by sector; `None` where it owns nothing.
type Expected = Vec<Option<u8>>;

fn serve(disk: &mut Disk, layer: &mut dyn smrkit::layer::Layer, request: &Request, fill: u8, expected: &mut Expected) {
    let n = u64::from(request.sectors);
    let own = request.lba.0 as usize..request.end().0 as usize;
    match request.op {
        Op::Write => {
            layer.write(disk, request.lba, n, &Buf::Bytes(vec![fill; n as usize * SECTOR])).unwrap();
            expected[own].fill(Some(fill));
        }
        Op::Discard => {
            layer.discard(disk, request.lba, n).unwrap();
            expected[own].fill(None);
        }
        Op::Flush => layer.flush(disk).unwrap(),
        Op::Read => {
            let mut out = disk.buf(n);
            layer.read(disk, request.lba, n, &mut out).unwrap();
            let Buf::Bytes(bytes) = out else { panic!("a disk of bytes gives bytes") };
            for (sector, expected) in bytes.chunks(SECTOR).zip(&expected[own]) {
                assert!(expected.is_none_or(|fill| sector.iter().all(|byte| *byte == fill)));
            }
        }
    }
}

fn trial(spec: &'static LayerSpec, form: Form, seed: u64) {
    let mut disks = Disks::new(seed);
    let drive = disks.drive(form);
    let mut layer = match (spec.build)(&drive, &disks.parameters(spec)) {
        Ok(layer) => layer,
        Err(Error::Impossible(_)) => return,
        Err(error) => panic!("{error}"),
    };
    let mut disk = Disk::new(&drive, Medium::Bytes(Box::new(MemoryBacking::default())));
    let host_sectors = layer.capacity().host_sectors;
    let mut expected = vec![None; host_sectors as usize];
    for (index, request) in random_requests(&mut disks.random, host_sectors, 600).into_iter().enumerate() {
        layer.step(&mut disk, Need::Must).unwrap();
        serve(&mut disk, layer.as_mut(), &request, index as u8, &mut expected);
    }
}

#[test]
fn every_layer_returns_the_bytes_last_written() {
    for spec in LAYERS {
        for &form in spec.copes_with {
            (0..15).for_each(|seed| trial(spec, form, seed));
        }
    }
}

#[test]
#[should_panic(expected = "expected.is_none_or")]
fn bytes_of_a_conventional_layout_are_destroyed_on_a_shingled_disk() {
    (0..15).for_each(|seed| trial(&LAYERS[0], Form::Blocks, seed));
}
