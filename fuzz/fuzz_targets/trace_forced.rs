//! Arbitrary bytes through every format, each forced; the first byte chooses it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use smrkit::request::{Op, Source};
use smrkit_trace::{FORMATS, OpenOptions, Trace};

fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let format = match FORMATS[usize::from(first & 0x1f) % FORMATS.len()].name {
        "csv" => "csv:time=0:us,op=1,offset=2,size=3:sectors,volume=4".to_string(),
        name @ ("lcs" | "oracle-general") => format!("{name}:op=write"),
        name => name.to_string(),
    };
    let options = OpenOptions { format: Some(format), skip_bad_rows: first & 0x20 != 0, ..OpenOptions::default() };
    let Ok(mut trace) = Trace::from_bytes("fuzz", bytes.to_vec(), &options) else { return };
    let mut batch = Vec::new();
    while trace.fill(&mut batch).is_ok() && !batch.is_empty() {
        for request in &batch {
            assert!(usize::from(request.volume) < trace.volumes().len());
            assert_eq!(request.sectors == 0, request.op == Op::Flush);
            assert!(request.end().0 <= 1 << 55);
        }
    }
});
