//! Arbitrary requests and a power cut on every layer, in check mode on a tiny shingled disk.
#![no_main]

use libfuzzer_sys::fuzz_target;
use smrkit::drive::Drive;
use smrkit::engine::NoObserver;
use smrkit::engine::run::Run;
use smrkit::settings::Settings;
use smrkit::engine::system::DriveRun;
use smrkit::layer::{BASELINE, LAYERS, LayerSpec, Parameters};
use smrkit::request::{InMemory, Op, Request};
use smrkit::units::Lba;

/// One request from four bytes, inside `host_sectors`.
fn request(bytes: &[u8], host_sectors: u64) -> Request {
    let sectors = u64::from(bytes[1] % 64 + 1);
    let lba = Lba((u64::from(bytes[2]) << 8 | u64::from(bytes[3])) % (host_sectors - sectors));
    let op = [Op::Write, Op::Write, Op::Read, Op::Discard][usize::from(bytes[0] % 4)];
    Request::new(op, lba, sectors as u32)
}

/// Parameters with which every layer fits the drive.
const SMALL: [(&str, &str); 7] = [
    ("region_sectors", "96"),
    ("sblock_sectors", "64"),
    ("cache_percent", "10"),
    ("spare_percent", "10"),
    ("segment_tracks", "4"),
    ("band_tracks", "6"),
    ("buffer_bytes", "32768"),
];

/// Small parameters of `layer`.
fn small(layer: &LayerSpec) -> Parameters {
    let takes = |key: &str| (layer.keys)().iter().any(|parameter| parameter.name == key);
    let set: Vec<_> = SMALL.iter().filter(|(key, _)| takes(key)).map(|(k, v)| (k.to_string(), v.to_string())).collect();
    layer.resolve(&set).expect("values in range")
}

// The first byte says at which physical write the power is cut, the rest is requests.
fuzz_target!(|bytes: &[u8]| {
    let Some((&cut, bytes)) = bytes.split_first() else { return };
    let drive = Drive::load("tiny-constant").expect("a drive of ours");
    for layer in LAYERS.iter().filter(|layer| layer.name != BASELINE) {
        let settings = Settings { check: true, power_cut: Some(u64::from(cut) + 1), ..Settings::default() };
        let run = Run::new(DriveRun { drive: drive.clone(), layer, parameters: small(layer) }, settings);
        let host_sectors = run.host_sectors().expect("room for the layer");
        let requests: Vec<Request> = bytes.chunks_exact(4).map(|four| request(four, host_sectors)).collect();
        run.execute(&mut InMemory::new(requests), &mut NoObserver).expect("no layer loses a write");
    }
});
