//! Arbitrary bytes through decompression, recognition and whatever format they are taken for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use smrkit::request::Source;
use smrkit_trace::{OpenOptions, Trace};

fuzz_target!(|bytes: &[u8]| {
    for skip_bad_rows in [false, true] {
        let options = OpenOptions { format: None, skip_bad_rows, sha256: true, ..OpenOptions::default() };
        let Ok(mut trace) = Trace::from_bytes("fuzz", bytes.to_vec(), &options) else { continue };
        let mut batch = Vec::new();
        while trace.fill(&mut batch).is_ok() && !batch.is_empty() {
            assert!(batch.iter().all(|request| usize::from(request.volume) < trace.volumes().len()));
        }
    }
});
