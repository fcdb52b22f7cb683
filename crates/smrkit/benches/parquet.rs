//! How fast our Parquet traces are written and read, how small they are, and how fast a trace's statistics are made: the
//! CloudPhysics sample repeated to 10^7 requests, shifted in time. Figures are per second of CPU time, best of three.
//!
//! The sample is looked for in `$SMRKIT_TRACES`, then in `../shared/traces` beside the repository.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use smrkit::request::{InMemory, Op, Request, Source};
use smrkit::stats::rows::{RequestRow, RequestRows};
use smrkit::trace::info::{InfoSettings, TraceInfo};
use smrkit::trace::parquet::{Meta, ParquetReader, ParquetWriter};
use smrkit::units::{Lba, Nanos};

const ROWS: usize = 10_000_000;

fn main() {
    let Some(sample) = sample() else {
        println!("skipped: no cloudphysics_sample.csv.zst in $SMRKIT_TRACES or ../shared/traces");
        return;
    };
    let span = sample.last().map_or(0, |last| last.time.0) + 1_000_000;
    let shifted = |lap: u64| move |request: &Request| Request { time: Nanos(request.time.0 + lap * span), ..*request };
    let laps = ROWS.div_ceil(sample.len()) as u64;
    let requests: Vec<Request> = (0..laps).flat_map(|lap| sample.iter().map(shifted(lap))).collect();

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
        let info = TraceInfo::of(&mut InMemory::new(requests.clone()), &InfoSettings::default()).expect("statistics");
        written_tracks = info.written_tracks;
    });
    println!("statistics: {:.1} M rows per CPU-second, {written_tracks} tracks written", ROWS as f64 / info_s / 1e6);
}

fn write(path: &Path, requests: &[Request]) {
    let mut writer = ParquetWriter::create(path, &Meta::default()).expect("create");
    for batch in requests.chunks(4096) {
        writer.write(batch).expect("write");
    }
    writer.finish().expect("finish");
}

/// One row a request: latencies of a drive-managed disk's kind, 10 ms and a part of a rotation.
fn write_rows(path: &Path, requests: &[Request]) {
    let mut rows = RequestRows::create(path).expect("create");
    let mut end_ns = 0;
    for (index, request) in requests.iter().enumerate() {
        let index = index as u64;
        let start_ns = request.time.0.max(end_ns);
        end_ns = start_ns + 10_000_000 + index.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 10_033_444;
        let (lba, sectors, op, arrival_ns) = (request.lba.0, request.sectors, request.op, request.time.0);
        rows.push(&RequestRow { index, source: 0, op, lba, sectors, arrival_ns, start_ns, end_ns }).expect("push");
    }
    rows.finish().expect("finish");
}

fn read(path: &Path) -> usize {
    let mut reader = ParquetReader::open(path).expect("open");
    let (mut batch, mut rows, mut ends) = (Vec::new(), 0, 0_u64);
    loop {
        reader.fill(&mut batch).expect("read");
        if batch.is_empty() {
            assert!(ends > 0);
            return rows;
        }
        rows += batch.len();
        ends ^= batch[0].end().0;
    }
}

fn bytes_a_row(path: &Path, rows: usize) -> f64 {
    std::fs::metadata(path).map_or(0.0, |meta| meta.len() as f64 / rows as f64)
}

fn best_of_three(mut run: impl FnMut()) -> f64 {
    let mut time = || {
        let before = cpu_s();
        run();
        cpu_s() - before
    };
    (0..3).map(|_| time()).fold(f64::INFINITY, f64::min)
}

/// CPU time of this process where Linux tells it, else the time on the wall.
fn cpu_s() -> f64 {
    use std::sync::OnceLock;
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(Instant::now);
    let told = std::fs::read_to_string("/proc/self/schedstat").ok();
    let nanos = told.and_then(|text| text.split(' ').next().and_then(|first| first.parse::<f64>().ok()));
    nanos.map_or_else(|| start.elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}

fn sample() -> Option<Vec<Request>> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("SMRKIT_TRACES").map_or(beside, PathBuf::from);
    let packed = std::fs::read(folder.join("cloudphysics_sample.csv.zst")).ok()?;
    let text = String::from_utf8(zstd::decode_all(&packed[..]).ok()?).ok()?;
    let mut first = None;
    text.lines()
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
            let ticks = number(0)?;
            let time = Nanos((ticks - *first.get_or_insert(ticks)) * 100);
            let op = if *fields.get(3)? == "Write" { Op::Write } else { Op::Read };
            Some(Request { time, ..Request::new(op, Lba(number(4)? / 512), (number(5)? / 512) as u32) })
        })
        .collect()
}
