//! Requests per CPU-second of whole runs, on one core, without data: `cargo bench -p smrkit --bench replay -- CASE …`.
//!
//! Each layer is a case by its name, on a drive so large that few layers clean; NAME-small is the smallest drive that holds
//! the trace, written in order before, and a tenth of the requests. `--list` prints the layers; a case is printed as `case requests cpu_seconds map_mb memory_mb`, or as
//! `skipped: reason`; `scripts/bench` reads both. `--export FOLDER` writes the CloudPhysics requests as others read them: oracleGeneral, CSV, zstd CSV.

mod common;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use common::{cloudphysics, cpu_seconds, memory_mb};
use smrkit::drive::Drive;
use smrkit::engine::NoObserver;
use smrkit::error::Error;
use smrkit::experiment::demand::{Opening, Table};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::system::System;
use smrkit::layer::{AS_SOLD, LAYERS};
use smrkit::request::{Op, Request};
use smrkit::settings::{Prefill, Queue, Settings};
use smrkit::units::SECTOR_BYTES;
use smrkit::workload::Workload;

const REQUESTS: usize = 10_000_000;
/// On a small drive, where a request may cost a thousand times as much.
const REQUESTS_SMALL: usize = 1_000_000;
const DRIVE: &str = "st5000as0011";
/// A drive as it is sold, with its electronics: write cache, read-ahead, an order of its own.
const PRODUCT: &str = "st8000as0002";

/// Further cases: name, layer, requests.
const MORE: &[(&str, &str, Requests)] = &[
    ("sptf", "in-place", Requests::CloudPhysics(Queue::Sptf, Size::Own)),
    ("product-mix", AS_SOLD, Requests::OnProduct("mix:count=1000000")),
    ("product-read", AS_SOLD, Requests::OnProduct("random-read:size=4KiB,count=1000000")),
    ("product-write", AS_SOLD, Requests::OnProduct("random-write:size=4KiB,count=1000000")),
    ("uniform", "set-assoc", Requests::Workload("random-write:size=4KiB,count=10000000")),
    ("zoned", "zoned", Requests::Workload("sequential-write:size=256KiB,count=10000000")),
];

/// Every layer on the drive as it is and on a small one, and what else is measured.
fn cases() -> Vec<(String, &'static str, Requests)> {
    let own = |name: &'static str| (name.to_string(), name, Requests::CloudPhysics(Queue::Fcfs, Size::Own));
    let small =
        |name: &'static str| (format!("{name}-small"), name, Requests::CloudPhysics(Queue::Fcfs, Size::Smallest));
    let layers = LAYERS.iter().flat_map(|spec| [own(spec.name), small(spec.name)]);
    layers.chain(MORE.iter().map(|&(case, layer, requests)| (case.to_string(), layer, requests))).collect()
}

/// Size of the drive.
#[derive(Clone, Copy, PartialEq)]
enum Size {
    /// As its file says.
    Own,
    /// As small as the requests allow, and written in order before them, so that there is something to clean.
    Smallest,
}

#[derive(Clone, Copy)]
enum Requests {
    /// The CloudPhysics sample, repeated, in memory.
    CloudPhysics(Queue, Size),
    /// A workload over the whole drive, in memory.
    Workload(&'static str),
    /// A workload over [`PRODUCT`], which is full, 32 outstanding.
    OnProduct(&'static str),
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
    if arguments == ["--list"] {
        return LAYERS.iter().for_each(|spec| println!("{}", spec.name));
    }
    let mut trace: Option<Arc<[Request]>> = None;
    for (case, layer, requests) in cases() {
        if !arguments.is_empty() && !arguments.contains(&case) {
            continue;
        }
        match requests {
            Requests::CloudPhysics(queue, size) => {
                if trace.is_none() {
                    trace = cloudphysics(REQUESTS).map(Into::into);
                }
                let Some(trace) = &trace else { return };
                let depth = if queue == Queue::Sptf { 32 } else { 1 };
                let settings = Settings { queue, depth, prefill: Prefill::None, ..Settings::default() };
                match size {
                    Size::Own => run(&case, layer, &own_drive(), settings, trace.clone()),
                    Size::Smallest => {
                        let settings = Settings { prefill: Prefill::Sequential, ..settings };
                        run(&case, layer, &smallest_drive(layer, trace), settings, trace[..REQUESTS_SMALL].into());
                    }
                }
            }
            Requests::Workload(text) => {
                let settings = Settings { prefill: Prefill::None, ..Settings::default() };
                run(&case, layer, &own_drive(), settings, generated(layer, &own_drive(), text));
            }
            Requests::OnProduct(text) => {
                let (drive, settings) = (load(PRODUCT), Settings { depth: 32, ..Settings::default() });
                run(&case, layer, &drive, settings, generated(layer, &drive, text));
            }
        }
    }
}

fn own_drive() -> Drive {
    load(DRIVE)
}

fn load(name: &str) -> Drive {
    Drive::load(name).expect("the drive comes with smrkit")
}

/// The drive, scaled down as far as the layer can offer every LBA of the requests.
fn smallest_drive(layer: &str, requests: &[Request]) -> Drive {
    let end = requests.iter().map(|request| request.end().0).max().unwrap_or(1);
    let mut sectors = end;
    while sectors < own_drive().geometry.sectors {
        let drive = own_drive().with_capacity(sectors).expect("a size for a drive");
        match prepared(layer, &drive, Settings::default()).and_then(|run| run.host_sectors()) {
            Ok(offered) if offered >= end => return drive,
            Ok(offered) => sectors += (end - offered).max(end / 1000),
            Err(_) => sectors += end / 10,
        }
    }
    own_drive()
}

fn prepared(layer: &str, drive: &Drive, settings: Settings) -> Result<PlannedRun, Error> {
    System::of(drive.clone()).layer(layer).run(settings)
}

fn run(case: &str, layer: &str, drive: &Drive, settings: Settings, requests: Arc<[Request]>) {
    let run = prepared(layer, drive, settings).expect("the layer fits the drive");
    let count = requests.len();
    let opening = Opening::new(run.host_sectors().expect("known by now"), settings.seed);
    let before = cpu_seconds();
    let outcome = run.execute(&Table(requests), &opening, &mut NoObserver);
    let seconds = cpu_seconds() - before;
    let outcome = outcome.expect("requests within the drive");
    assert_eq!(outcome.requests, count as u64);
    println!("{case} {count} {seconds:.4} {:.1} {:.1}", outcome.map_bytes as f64 / 1e6, memory_mb());
}

fn generated(layer: &str, drive: &Drive, text: &str) -> Arc<[Request]> {
    let prepared = prepared(layer, drive, Settings::default()).and_then(|run| run.host_sectors());
    let sectors = prepared.expect("the layer fits the drive");
    let mut source = Workload::parse(text).and_then(|w| w.source(sectors, 1)).expect("a known workload");
    source.rest().expect("a workload does not fail").into()
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

/// Writes FILE.zst next to FILE.
fn pack(path: &Path) {
    let (from, to) = (File::open(path), File::create(path.with_extension("csv.zst")));
    zstd::stream::copy_encode(from.expect("a file to read"), to.expect("a file to write"), 3)
        .expect("room on the disk");
}
