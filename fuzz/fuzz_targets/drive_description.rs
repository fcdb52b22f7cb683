//! Arbitrary text as the model, the specs and the seek curve of a DiskSim description, and a few accesses on what it makes.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use smrkit::drive::{Drive, import};
use smrkit::units::{Nanos, Pba};

fuzz_target!(|texts: (&str, &str, &str)| {
    let Ok(imported) = import::disksim_texts(texts.0, texts.1, texts.2) else { return };
    let Ok(mut drive) = Drive::parse(Path::new("fuzz.toml"), &imported.text) else { return };
    let sectors = drive.geometry.sectors();
    let mut now = Nanos::ZERO;
    for part in 0..8 {
        let pba = Pba(sectors / 8 * part);
        let end = drive.clock.access(&drive.geometry, now, part % 2 == 0, pba, (sectors - pba.0).min(64));
        assert!(end >= now);
        now = end;
    }
});
