//! Arbitrary requests and a power cut on every layer, in check mode on a tiny shingled disk.
#![no_main]

use libfuzzer_sys::fuzz_target;
use smrkit::engine::NoObserver;
use smrkit::experiment::demand::Table;
use smrkit::experiment::system::System;
use smrkit::layer::{BASELINE, LAYERS, LayerSpec};
use smrkit::request::{Op, Request};
use smrkit::settings::Settings;
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

/// The drive under `layer` with small parameters.
fn small(layer: &LayerSpec) -> System {
    let takes = |key: &str| (layer.keys)().iter().any(|parameter| parameter.name == key);
    let set = SMALL.iter().filter(|(key, _)| takes(key));
    let system = System::drive("tiny-constant").layer(layer.name);
    set.fold(system, |system, (key, value)| system.set(&format!("{}.{key}", layer.name), value))
}

// The first byte says at which physical write the power is cut, the rest is requests.
fuzz_target!(|bytes: &[u8]| {
    let Some((&cut, bytes)) = bytes.split_first() else { return };
    for layer in LAYERS.iter().filter(|layer| layer.name != BASELINE) {
        let settings = Settings { check: true, power_cut: Some(u64::from(cut) + 1), ..Settings::default() };
        let run = small(layer).run(settings).expect("room for the layer");
        let opening = run.opening().expect("known by now");
        let requests = bytes.chunks_exact(4).map(|four| request(four, opening.host_sectors));
        run.execute(&Table(requests.collect()), &opening, &mut NoObserver).expect("no layer loses a write");
    }
});
