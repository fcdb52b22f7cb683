//! Requests per CPU-second of whole runs, on one core, without data: `cargo bench -p smrkit --bench replay -- CASE …`.
//!
//! A case is printed as `case requests cpu_seconds map_mb memory_mb`, or as `skipped: reason`; `scripts/bench` reads
//! this. `--export FOLDER` writes the CloudPhysics requests as others read them: oracleGeneral, CSV, zstd CSV.

mod common;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use common::{cloudphysics, cpu_seconds, memory_mb};
use smrkit::drive::Drive;
use smrkit::engine::NoObserver;
use smrkit::engine::run::Run;
use smrkit::engine::settings::{Queue, Settings};
use smrkit::layer::{self, Parameters};
use smrkit::request::{InMemory, Op, Request};
use smrkit::stats::timeline::{TimelineBuilder, WINDOW_FIRST};
use smrkit::units::SECTOR_BYTES;
use smrkit::workload::Workload;

const REQUESTS: usize = 10_000_000;
const DRIVE: &str = "st5000as0011";

/// Name, layer, requests.
const CASES: &[(&str, &str, Requests)] = &[
    ("in-place", "in-place", Requests::CloudPhysics(Queue::Fcfs)),
    ("set-assoc", "set-assoc", Requests::CloudPhysics(Queue::Fcfs)),
    ("rmw", "rmw", Requests::CloudPhysics(Queue::Fcfs)),
    ("s-block", "s-block", Requests::CloudPhysics(Queue::Fcfs)),
    ("track-map", "track-map", Requests::CloudPhysics(Queue::Fcfs)),
    ("track-map-1234", "track-map", Requests::CloudPhysics(Queue::Fcfs)),
    ("sptf", "in-place", Requests::CloudPhysics(Queue::Sptf)),
    ("uniform", "set-assoc", Requests::Workload("random-write:size=4KiB,count=10000000")),
];

#[derive(Clone, Copy)]
enum Requests {
    /// The CloudPhysics sample, repeated, in memory.
    CloudPhysics(Queue),
    /// A workload over the whole drive, in memory.
    Workload(&'static str),
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [export, folder] = arguments.as_slice()
        && export == "--export"
    {
        if let Some(requests) = cloudphysics(REQUESTS) {
            write_oracle_general(&Path::new(folder).join("cloudphysics.oracleGeneral"), &requests);
            write_csv(&Path::new(folder).join("cloudphysics.csv"), &requests);
            pack(&Path::new(folder).join("cloudphysics.csv"));
        }
        return;
    }
    let mut trace: Option<Arc<[Request]>> = None;
    for (case, layer, requests) in CASES {
        if !arguments.is_empty() && !arguments.iter().any(|wanted| wanted == case) {
            continue;
        }
        match *requests {
            Requests::CloudPhysics(queue) => {
                if trace.is_none() {
                    trace = cloudphysics(REQUESTS).map(Into::into);
                }
                let Some(trace) = &trace else { return };
                let depth = if queue == Queue::Sptf { 32 } else { 1 };
                run(case, layer, Settings { queue, depth, ..Settings::default() }, trace.clone());
            }
            Requests::Workload(text) => run(case, layer, Settings::default(), generated(layer, text)),
        }
    }
}

fn run(case: &str, layer: &str, settings: Settings, requests: Arc<[Request]>) {
    let drive = Drive::load(DRIVE).expect("the drive comes with smrkit");
    let run = Run {
        drive: &drive,
        layer: layer::find(layer).expect("a layer"),
        parameters: parameters(case, layer),
        settings,
    };
    let count = requests.len();
    let mut source = InMemory::new(requests);
    let before = cpu_seconds();
    let outcome = run.execute(&mut source, &mut NoObserver, None, TimelineBuilder::growing(WINDOW_FIRST));
    let seconds = cpu_seconds() - before;
    let outcome = outcome.expect("requests within the drive");
    assert_eq!(outcome.requests, count as u64);
    println!("{case} {count} {seconds:.4} {:.1} {:.1}", outcome.map_bytes as f64 / 1e6, memory_mb());
}

fn defaults(layer: &str) -> Parameters {
    parameters("", layer)
}

/// The defaults, save where the case is named after something else.
fn parameters(case: &str, layer: &str) -> Parameters {
    let spec = layer::find(layer).expect("a layer");
    let set = match case {
        // Tracks in order: most updates rewrite others.
        "track-map-1234" => vec![("scheme".into(), "1234".into())],
        _ => Vec::new(),
    };
    Parameters::resolve(spec.name, spec.parameters, &set).expect("values within their ranges")
}

fn generated(layer: &str, text: &str) -> Arc<[Request]> {
    let drive = Drive::load(DRIVE).expect("the drive comes with smrkit");
    let spec = layer::find(layer).expect("a layer");
    let run = Run { drive: &drive, layer: spec, parameters: defaults(layer), settings: Settings::default() };
    let sectors = run.host_sectors().expect("the layer fits the drive");
    let mut source = Workload::parse(text).and_then(|w| w.source(sectors, 1)).expect("a known workload");
    let (mut requests, mut batch) = (Vec::with_capacity(REQUESTS), Vec::new());
    loop {
        source.fill(&mut batch).expect("a workload does not fail");
        if batch.is_empty() {
            return requests.into();
        }
        requests.extend_from_slice(&batch);
    }
}

/// libCacheSim's own layout: time in seconds (u32), object (u64), bytes (u32), next access (i64), packed.
fn write_oracle_general(path: &Path, requests: &[Request]) {
    let mut out = BufWriter::new(File::create(path).expect("a file to write"));
    for request in requests {
        let mut row = [0; 24];
        row[..4].copy_from_slice(&((request.time.0 / 1_000_000_000) as u32).to_le_bytes());
        row[4..12].copy_from_slice(&request.lba.0.to_le_bytes());
        row[12..16].copy_from_slice(&(request.sectors * SECTOR_BYTES as u32).to_le_bytes());
        row[16..].copy_from_slice(&(-2i64).to_le_bytes());
        out.write_all(&row).expect("room on the disk");
    }
    out.flush().expect("room on the disk");
}

/// The layout of MSR Cambridge.
fn write_csv(path: &Path, requests: &[Request]) {
    let mut out = BufWriter::new(File::create(path).expect("a file to write"));
    for request in requests {
        let op = if request.op == Op::Write { "Write" } else { "Read" };
        let (offset, bytes) = (request.lba.0 * SECTOR_BYTES, u64::from(request.sectors) * SECTOR_BYTES);
        writeln!(out, "{},cp,0,{op},{offset},{bytes},0", request.time.0 / 100).expect("room on the disk");
    }
    out.flush().expect("room on the disk");
}

/// Writes FILE.zst beside FILE.
fn pack(path: &Path) {
    let (from, to) = (File::open(path), File::create(path.with_extension("csv.zst")));
    zstd::stream::copy_encode(from.expect("a file to read"), to.expect("a file to write"), 3)
        .expect("room on the disk");
}
