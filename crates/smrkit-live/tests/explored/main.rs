//! Crashes of a served drive at its writes: power cuts, kills and crashes of the host, in memory; at some drawn at random, or with
//! enough of them at all.
//!
//! All that is served is there: image, journal, map of written sectors, layer and, in some runs, the volatile write cache. A model
//! of what was acknowledged and flushed judges what is found. `SMRKIT_LIVE_CUTS` sets the crashes for each layer and test.

#[path = "../../../smrkit/tests/common/count.rs"]
mod count;
mod crash;
mod forged;
mod memory;
mod model;
mod run;

use count::count_from;
use crash::{Crashes, Tried};
use run::{LAYERS, Run, Setup};
use tempfile::TempDir;

/// Bytes at which a journal moves to the image, so small that runs see it.
const JOURNAL_BYTES: u64 = 100 << 10;

fn cuts() -> u64 {
    count_from("SMRKIT_LIVE_CUTS", 100)
}

/// Time that this thread has worked.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// Crashes runs on each layer, with and without a write cache, until there were enough.
fn explore(what: &str, journal_bytes: Option<u64>, crash: fn(&mut Crashes)) {
    for layer in LAYERS {
        let folder = TempDir::new().unwrap();
        let mut cleaned = 0;
        // An array's crash takes as long as several of a drive's.
        let cuts = if layer.0.contains(':') { cuts().div_ceil(8) } else { cuts() };
        let (mut tried, begun) = (Tried::up_to(cuts), cpu_seconds());
        for seed in 0.. {
            let setup = Setup { journal_bytes, cache_sectors: [0, 60][seed as usize % 2] };
            let run = Run::new(folder.path(), layer, setup, seed);
            cleaned += run.cleaned;
            crash(&mut Crashes::new(&run, &mut tried));
            if tried.is_enough() && (cleaned > 0 || layer.0 == "in-place") {
                break;
            }
        }
        let Tried { cuts, in_recovery, subsets, .. } = tried;
        let rate = tried.all() as f64 / (cpu_seconds() - begun);
        println!(
            "{}, {what}: {cuts} cuts, {in_recovery} in recovery, {subsets} subsets; {rate:.0} a CPU-second",
            layer.0
        );
    }
}

#[test]
fn a_kill_at_any_write_loses_nothing_that_was_acknowledged() {
    explore("killed", None, |crashes| crashes.kill_everywhere());
}

#[test]
fn a_crash_of_the_host_loses_nothing_that_was_flushed() {
    explore("host crashed", Some(JOURNAL_BYTES), |crashes| crashes.crash_everywhere());
}
