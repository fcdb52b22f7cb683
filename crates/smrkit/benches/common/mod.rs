//! Tools that the benchmarks share: the CPU's time, memory at its highest, and the CloudPhysics sample in memory.
#![allow(dead_code)]

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Instant;

use smrkit::request::{Request, Source};
use smrkit::units::Nanos;
use smrkit_trace::{OpenOptions, Trace};

/// CPU time of this thread where Linux tells it, else the time on the wall, in seconds.
pub fn cpu_seconds() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(Instant::now);
    let told = std::fs::read_to_string("/proc/self/schedstat").ok();
    let ns = told.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    ns.map_or_else(|| start.elapsed().as_secs_f64(), |ns| ns / 1e9)
}

/// The most memory that this process held so far, in megabytes; 0 where Linux does not tell.
pub fn memory_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok()).map_or(0.0, |kib| kib * 1.024e-3)
}

/// A real trace, from the folder `$SMRKIT_TRACES` or one of those that developers have above this crate.
pub fn sample_path(name: &str) -> Option<PathBuf> {
    let given = std::env::var_os("SMRKIT_TRACES").map(PathBuf::from);
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let above = here.ancestors().map(|folder| folder.join("shared/traces"));
    given.into_iter().chain(above).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The CloudPhysics sample repeated to at least `rows` requests, each lap later than the one before; `None` (and a line
/// that says so) where it is absent.
pub fn cloudphysics(rows: usize) -> Option<Vec<Request>> {
    let Some(path) = sample_path("cloudphysics_sample.csv.zst") else {
        println!("skipped: no cloudphysics_sample.csv.zst in $SMRKIT_TRACES or shared/traces above the crate");
        return None;
    };
    let mut trace = Trace::open(&path, &OpenOptions::default()).expect("the sample opens");
    let lap = trace.rest().expect("the sample is well-formed");
    let span = lap.last().map_or(0, |last| last.time.0) + 1_000_000;
    let later = |i: u64| move |request: &Request| Request { time: request.time + Nanos(i * span), ..*request };
    let mut requests = Vec::with_capacity(rows + lap.len());
    for i in 0..rows.div_ceil(lap.len()) as u64 {
        requests.extend(lap.iter().map(later(i)));
    }
    Some(requests)
}
