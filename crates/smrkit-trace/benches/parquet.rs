//! Speed at which our Parquet traces are written and read, their size, and speed of a trace's statistics: the
//! CloudPhysics sample repeated to 10^7 requests, shifted in time. Figures are per second of CPU time, best of three.
//!
//! The sample is read from the folder `$SMRKIT_TRACES`.

#[path = "../../smrkit/benches/common/mod.rs"]
mod common;

use std::path::Path;
use std::sync::Arc;

use common::{cloudphysics, cpu_seconds};
use smrkit::request::{InMemory, Request, Source};
use smrkit::stats::counts::RequestRow;
use smrkit_trace::info::TraceInfo;
use smrkit_trace::parquet::{Meta, ParquetWriter};
use smrkit_trace::rows::{Row, Rows};
use smrkit_trace::{OpenOptions, Trace};

const ROWS: usize = 10_000_000;

fn main() {
    let (Some(sample), Some(requests)) = (cloudphysics(1), cloudphysics(ROWS)) else { return };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join("bench.parquet");
    write(&path, &sample);
    println!("bytes a row, {} rows: {:.3}", sample.len(), bytes_a_row(&path, sample.len()));
    let write_s = best_of_three(|| write(&path, &requests));
    println!("bytes a row, {} rows: {:.3}", requests.len(), bytes_a_row(&path, requests.len()));
    let mut read_back = 0;
    let read_s = best_of_three(|| read_back = read(&path));
    assert_eq!(read_back, requests.len());
    println!("write: {:.1} M rows per CPU-second", requests.len() as f64 / write_s / 1e6);
    println!("read: {:.1} M rows per CPU-second", requests.len() as f64 / read_s / 1e6);
    let rows_s = best_of_three(|| write_rows(&path, &requests));
    println!(
        "request rows: {:.1} ns a row, {:.2} bytes",
        rows_s / ROWS as f64 * 1e9,
        bytes_a_row(&path, requests.len())
    );
    let requests: Arc<[Request]> = requests.into();
    let mut written_tracks = 0;
    let info_s = best_of_three(|| {
        let info = TraceInfo::from_source(&mut InMemory::new(requests.clone())).expect("statistics");
        written_tracks = info.written_tracks;
    });
    println!("statistics: {:.1} M rows per CPU-second, {written_tracks} tracks written", ROWS as f64 / info_s / 1e6);
}

fn write(path: &Path, requests: &[Request]) {
    let mut writer = ParquetWriter::create(path, &Meta::default(), None).expect("create");
    for batch in requests.chunks(4096) {
        writer.write(batch).expect("write");
    }
    writer.finish().expect("finish");
}

/// One row a request: latencies of a drive-managed disk's kind, 10 ms and a part of a rotation.
fn write_rows(path: &Path, requests: &[Request]) {
    let mut rows = Rows::create(path, RequestRow::COLUMNS).expect("create");
    let mut end_ns = 0;
    for (index, request) in requests.iter().enumerate() {
        let index = index as u64;
        let start_ns = request.time.0.max(end_ns);
        end_ns = start_ns + 10_000_000 + index.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 10_033_444;
        let (lba, sectors, op, arrival_ns) = (request.lba.0, request.sectors, request.op, request.time.0);
        rows.push(&RequestRow {
            index,
            source: 0,
            row: index,
            op,
            lba,
            sectors,
            arrival_ns,
            start_ns,
            end_ns,
            wait_ns: start_ns - arrival_ns,
            latency_ns: end_ns - arrival_ns,
        })
        .expect("push");
    }
    rows.finish().expect("finish");
}

fn read(path: &Path) -> usize {
    let mut reader = Trace::open(path, &OpenOptions { sha256: false, ..OpenOptions::default() }).expect("open");
    let (mut batch, mut rows, mut ends) = (Vec::new(), 0, 0_u64);
    while reader.fill_next(&mut batch).expect("read") {
        rows += batch.len();
        ends ^= batch[0].end().0;
    }
    assert!(ends > 0);
    rows
}

fn bytes_a_row(path: &Path, rows: usize) -> f64 {
    std::fs::metadata(path).map_or(0.0, |meta| meta.len() as f64 / rows as f64)
}

fn best_of_three(mut run: impl FnMut()) -> f64 {
    let mut time = || {
        let before = cpu_seconds();
        run();
        cpu_seconds() - before
    };
    (0..3).map(|_| time()).fold(f64::INFINITY, f64::min)
}
