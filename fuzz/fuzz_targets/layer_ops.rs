//! Arbitrary requests on every layer, in check mode on a tiny shingled disk.
#![no_main]

use libfuzzer_sys::fuzz_target;
use smrkit::drive::Drive;
use smrkit::engine::NoObserver;
use smrkit::engine::run::Run;
use smrkit::engine::settings::Settings;
use smrkit::layer::{BASELINE, LAYERS, Parameters};
use smrkit::request::{InMemory, Op, Request};
use smrkit::stats::timeline::TimelineBuilder;
use smrkit::units::{Lba, Nanos};

/// One request from four bytes, inside `host_sectors`.
fn request(bytes: &[u8], host_sectors: u64) -> Request {
    let sectors = u64::from(bytes[1] % 64 + 1);
    let lba = Lba((u64::from(bytes[2]) << 8 | u64::from(bytes[3])) % (host_sectors - sectors));
    let op = [Op::Write, Op::Write, Op::Read, Op::Discard][usize::from(bytes[0] % 4)];
    Request::new(op, lba, sectors as u32)
}

fuzz_target!(|bytes: &[u8]| {
    let drive = Drive::load("tiny-constant").expect("a drive of ours");
    for layer in LAYERS.iter().filter(|layer| layer.name != BASELINE) {
        let small = ("region_sectors".to_string(), "96".to_string());
        let set: Vec<_> = layer.parameters.iter().any(|p| p.key == small.0).then_some(small).into_iter().collect();
        let parameters = Parameters::resolve(layer.name, layer.parameters, &set).expect("values in range");
        let run = Run { drive: &drive, layer, parameters, settings: Settings { check: true, ..Settings::default() } };
        let host_sectors = run.host_sectors().expect("room for the layer");
        let requests: Vec<Request> = bytes.chunks_exact(4).map(|four| request(four, host_sectors)).collect();
        let timeline = TimelineBuilder::growing(Nanos(1_000_000));
        run.execute(&mut InMemory::new(requests), &mut NoObserver, None, timeline).expect("no layer loses a write");
    }
});
