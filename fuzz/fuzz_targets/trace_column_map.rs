//! An arbitrary column map (the first line) and a table that it describes (the rest).
#![no_main]

use libfuzzer_sys::fuzz_target;
use smrkit::request::Source;
use smrkit_trace::{OpenOptions, Trace};

fuzz_target!(|text: &str| {
    let Some((map, table)) = text.split_once('\n') else { return };
    let options = OpenOptions { format: Some(format!("csv:{map}")), skip_bad_rows: true, ..OpenOptions::default() };
    let Ok(mut trace) = Trace::from_bytes("fuzz", table.to_string(), &options) else { return };
    let mut batch = Vec::new();
    while trace.fill(&mut batch).is_ok() && !batch.is_empty() {}
});
