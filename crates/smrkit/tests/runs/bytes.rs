//! All layers on a disk of real bytes: what was written is read back, on disks that destroy as the law says, and
//! after power cuts by the layers that promise it.

use crate::common::count::count_from;
use crate::common::{Disks, random_requests};
use rand::{Rng, RngExt};
use smrkit::disk::Disk;
use smrkit::drive::Drive;
use smrkit::error::{DiskResult, Error, Fault};
use smrkit::layer::{LAYERS, Layer, LayerSpec, Need, Parameters};
use smrkit::medium::interference::Form;
use smrkit::medium::{Buf, Medium, MemoryBacking};
use smrkit::power::Power;
use smrkit::request::{Op, Request};
use smrkit::tally::Cause;
use smrkit::units::{Lba, Pba};

const SECTOR: usize = 512;

/// Last data of the host, sector by sector; `None` where it owns nothing or can't know.
type Expected = Vec<Option<Vec<u8>>>;

struct Scene<'a> {
    spec: &'static LayerSpec,
    drive: &'a Drive,
    parameters: Parameters,
    disk: Disk,
    layer: Box<dyn Layer>,
    expected: Expected,
}

impl Scene<'_> {
    fn serve(&mut self, request: &Request, data: &Buf) -> DiskResult {
        let (disk, n) = (&mut self.disk, u64::from(request.sectors));
        let own = request.lba.0 as usize..request.end().0 as usize;
        match request.op {
            Op::Write => {
                self.layer.write(disk, request.lba, n, data)?;
                let Buf::Bytes(bytes) = data else { panic!("a disk of bytes takes bytes") };
                for (expected, sector) in self.expected[own].iter_mut().zip(bytes.chunks(SECTOR)) {
                    *expected = Some(sector.to_vec());
                }
            }
            Op::Discard => {
                self.layer.discard(disk, request.lba, n)?;
                self.expected[own].fill(None);
            }
            Op::Flush => self.layer.flush(disk)?,
            Op::Read => {
                let mut out = disk.buf(n);
                self.layer.read(disk, request.lba, n, &mut out)?;
                let Buf::Bytes(bytes) = out else { panic!("a disk of bytes gives bytes") };
                for (sector, expected) in bytes.chunks(SECTOR).zip(&self.expected[own]) {
                    assert!(expected.as_ref().is_none_or(|expected| sector == expected));
                }
            }
        }
        Ok(())
    }

    /// After a fault, which must be a power cut. The host knows no more what it was writing.
    fn recover(&mut self, mut fault: Box<Fault>, request: &Request) {
        self.expected[request.lba.0 as usize..request.end().0 as usize].fill(None);
        loop {
            assert!(matches!(*fault, Fault::PowerCut { .. }), "{fault}");
            self.disk.power_on();
            self.layer = (self.spec.build)(self.drive, &self.parameters).unwrap();
            match self.layer.recover(&mut self.disk) {
                Ok(()) => return self.layer.check(&self.disk).unwrap(),
                Err(again) => fault = again,
            }
        }
    }
}

/// Bytes that no other write has; now and then what lies somewhere on the platters, a layer's own records among it.
fn data(disk: &mut Disk, request: &Request, random: &mut impl Rng) -> Buf {
    let n = u64::from(request.sectors);
    let mut buf = disk.buf(n);
    if random.random_bool(0.3) {
        let pba = Pba(random.random_range(0..=disk.geometry().sectors() - n));
        if disk.read(pba, n, Cause::Host, &mut buf, 0).is_ok() {
            return buf;
        }
    }
    let mut bytes = vec![0; n as usize * SECTOR];
    random.fill_bytes(&mut bytes);
    Buf::Bytes(bytes)
}

fn trial(spec: &'static LayerSpec, form: Form, seed: u64, cuts: bool) {
    let mut disks = Disks::new(seed);
    let (drive, parameters) = (disks.drive(form), disks.parameters(spec));
    let layer = match (spec.build)(&drive, &parameters) {
        Ok(layer) => layer,
        Err(Error::Impossible(_)) => return,
        Err(error) => panic!("{error}"),
    };
    let host_sectors = layer.capacity().host_sectors;
    let cuts = cuts && layer.keeps_acknowledged();
    let mut disk = Disk::new(&drive, Medium::Bytes(Box::new(MemoryBacking::default())));
    disk.record_conventionally(layer.conventional_end());
    let expected = vec![None; host_sectors as usize];
    let mut scene = Scene { spec, drive: &drive, parameters, disk, layer, expected };
    let random = &mut disks.random;
    if cuts {
        scene.disk.cut_power(Power::new((0..40).map(|_| random.random_range(1..900)).collect(), seed));
    }
    for request in random_requests(random, host_sectors, 400) {
        let data = data(&mut scene.disk, &request, random);
        let stepped = scene.layer.step(&mut scene.disk, Need::Must);
        if let Err(fault) = stepped.and_then(|_| scene.serve(&request, &data)) {
            scene.recover(fault, &request);
        }
    }
    for lba in (0..host_sectors).step_by(64) {
        let all = Request::new(Op::Read, Lba(lba), 64.min(host_sectors - lba) as u32);
        scene.serve(&all, &Buf::NoData).unwrap();
    }
}

/// Trials of a layer on each law.
fn seeds() -> u64 {
    count_from("SMRKIT_SEEDS", 3)
}

#[test]
fn every_layer_returns_the_bytes_last_written() {
    for spec in LAYERS {
        for &form in spec.copes_with {
            (0..seeds()).for_each(|seed| trial(spec, form, seed, false));
        }
    }
}

#[test]
fn data_that_looks_like_records_survives_power_cuts() {
    for spec in LAYERS {
        for &form in spec.copes_with {
            (100..100 + seeds()).for_each(|seed| trial(spec, form, seed, true));
        }
    }
}

#[test]
#[should_panic(expected = "expected.as_ref()")]
fn bytes_of_a_conventional_layout_are_destroyed_on_a_shingled_disk() {
    (0..15).for_each(|seed| trial(&LAYERS[0], Form::Blocks, seed, false));
}
