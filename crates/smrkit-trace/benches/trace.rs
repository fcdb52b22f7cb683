//! Rows per CPU-second of the trace readers: `cargo bench -p smrkit-trace --bench trace [name]`.
//!
//! Input is the CloudPhysics trace of `$SMRKIT_TRACES`, repeated with later times, or generated rows where it is absent.

#[path = "../../smrkit/benches/common/mod.rs"]
mod common;

use std::hint::black_box;

use common::{cpu_seconds, sample_path};
use smrkit::request::Source;
use smrkit_trace::{OpenOptions, Trace};

/// Rows of each run: a fraction of a second each.
const ROWS: usize = 4_000_000;
const ROUNDS: usize = 3;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let csv = msr_rows();
    let packed = zstd::encode_all(&csv[..], 3).expect("packing in memory");
    let gzip = {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        encoder.write_all(&csv).and_then(|()| encoder.finish()).expect("packing in memory")
    };
    let no_hash = OpenOptions { sha256: false, ..OpenOptions::default() };
    let hash = OpenOptions::default();
    let spc = from_msr(&csv, |t, op, offset, size| {
        format!("0,{},{size},{op},{}.{:07}\n", offset / 512, t / 10_000_000, t % 10_000_000)
    });
    let alibaba = from_msr(&csv, |t, op, offset, size| format!("0,{op},{offset},{size},{}\n", t / 10));
    let dated = from_msr(&csv, |t, op, offset, size| {
        let s = t / 10_000_000;
        format!(
            "{op},{offset},{size},2026-05-{:02}T{:02}:{:02}:{:02}.{:07}Z\n",
            s / 86_400 % 28 + 1,
            s / 3600 % 24,
            s / 60 % 60,
            s % 60,
            t % 10_000_000
        )
    });
    let moments = OpenOptions { format: Some("csv:op=0,offset=1,size=2,time=3".into()), ..no_hash.clone() };
    let map = OpenOptions { format: Some("csv:volume=0,op=1,offset=2,size=3,time=4:us".into()), ..no_hash.clone() };
    let volumes = from_msr(&csv, |t, op, offset, size| {
        let op = if op == "R" { "Read" } else { "Write" };
        format!("{t},cp,{},{op},{offset},{size},0\n", offset / 4096 % 50)
    });
    for (name, bytes, options) in [
        ("msr-memory", &csv, &no_hash),
        ("msr-50-volumes-memory", &volumes, &no_hash),
        ("msr-memory-sha256", &csv, &hash),
        ("msr-zstd-sha256", &packed, &hash),
        ("msr-gzip-sha256", &gzip, &hash),
        ("spc-memory", &spc, &no_hash),
        ("alibaba-memory", &alibaba, &no_hash),
        ("csv-map-memory", &alibaba, &map),
        ("csv-dates-memory", &dated, &moments),
    ] {
        if !wanted.is_empty() && !wanted.iter().any(|w| name.contains(w.as_str())) {
            continue;
        }
        let best = (0..ROUNDS).map(|_| rows_per_cpu_second(bytes, options)).fold(0.0, f64::max);
        println!(
            "{name:22} {:6.1} M rows per CPU-second ({:.1} bytes a row)",
            best / 1e6,
            bytes.len() as f64 / ROWS as f64
        );
    }
}

fn rows_per_cpu_second(bytes: &[u8], options: &OpenOptions) -> f64 {
    let bytes = bytes.to_vec();
    let before = cpu_seconds();
    let mut trace = Trace::from_bytes("bench", bytes, options).expect("the rows are well-formed");
    let (mut batch, mut rows, mut sum) = (Vec::new(), 0, 0_u64);
    loop {
        trace.fill(&mut batch).expect("the rows are well-formed");
        if batch.is_empty() {
            break;
        }
        rows += batch.len();
        sum ^= batch.iter().fold(0, |sum, request| sum ^ request.lba.0 ^ u64::from(request.sectors));
    }
    black_box(sum);
    assert_eq!(rows, ROWS);
    rows as f64 / (cpu_seconds() - before)
}

/// `ROWS` rows in MSR's layout.
fn msr_rows() -> Vec<u8> {
    let base = sample().unwrap_or_else(generated);
    let mut out = Vec::with_capacity(ROWS * 52);
    let (mut rows, mut shift) = (0, 0);
    let mut last = 0;
    'full: loop {
        for line in base.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
            if rows == ROWS {
                break 'full;
            }
            let text = std::str::from_utf8(line).expect("the sample is text");
            let (time, rest) = text.split_once(',').expect("the sample has columns");
            let time = time.parse::<u64>().expect("the sample has times") + shift;
            last = time.max(last);
            out.extend_from_slice(format!("{time},{rest}\n").as_bytes());
            rows += 1;
        }
        shift += 72_001_000_000;
    }
    black_box(last);
    out
}

fn sample() -> Option<Vec<u8>> {
    match sample_path("cloudphysics_sample.csv.zst") {
        Some(path) => {
            println!("rows of {}", path.display());
            zstd::decode_all(std::fs::File::open(path).ok()?).ok()
        }
        None => {
            println!("generated rows: no shared/traces above this crate; SMRKIT_TRACES may name it");
            None
        }
    }
}

/// Rows like those of a busy virtual disk, from a small congruential generator.
fn generated() -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let mut time = 56_338_983_688_020_u64;
    let mut out = Vec::new();
    for _ in 0..100_000 {
        time += next(1_000_000);
        let op = if next(5) < 2 { "Read" } else { "Write" };
        let (offset, size) = (next(65_000_000) * 512, (next(64) + 1) * 512);
        out.extend_from_slice(format!("{time},cp,0,{op},{offset},{size},0\n").as_bytes());
    }
    out
}

fn from_msr(csv: &[u8], row: impl Fn(u64, &str, u64, u64) -> String) -> Vec<u8> {
    let mut out = Vec::with_capacity(csv.len());
    for line in csv.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
        let text = std::str::from_utf8(line).expect("the rows are text");
        let columns: Vec<&str> = text.split(',').collect();
        let number = |n: usize| columns[n].parse().expect("the rows are well-formed");
        out.extend_from_slice(row(number(0), &columns[3][..1], number(4), number(5)).as_bytes());
    }
    out
}
