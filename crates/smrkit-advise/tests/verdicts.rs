//! Advice on a layer holds compared with conventional disks over the same requests, worked out here from the rows of both.

#[path = "../../smrkit/tests/common/count.rs"]
mod count;

use std::sync::Arc;

use smrkit::drive::Drive;
use smrkit::engine::RequestRows;
use smrkit::experiment::demand::{Demand, GeneratedDemand, Opening};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool::Unwatched;
use smrkit::experiment::system::AskedCapacity;
use smrkit::experiment::system::{System, Systems};
use smrkit::layer::{LAYERS, LayerSpec};
use smrkit::settings::{Arrival, Settings};
use smrkit::stats::counts::RequestRow;
use smrkit::stats::outcome::Outcome;
use smrkit::units::Nanos;
use smrkit::workload::Workload;
use smrkit_advise::advice::Verdict;
use smrkit_advise::comparison::UNNOTICED_NS;
use smrkit_advise::{Load, LoadKind, Question, Silent, advise};

use count::count_from;

const SPAN_SECTORS: u64 = 1 << 21;

/// Requests in each: as many as stretches are kept apart, so that figures from the first wait on are exact.
const DEMANDS: [&str; 8] = [
    "random-write:count=900",
    "random-write:size=64Ki-1Mi,count=700",
    "mix:count=1000",
    "zipf:count=900",
    "sequential-write:size=1Mi,count=600 ; random-write:count=30,span=1G ; random-read:count=300",
    "sequential-write:size=256Ki,count=500 ; random-write:count=3,span=1G ; random-read:count=400",
    "hot-cold:count=900",
    "random-read:count=500 ; random-write:size=512Ki,count=400",
];

fn settings(seed: u64) -> Settings {
    let depth = [1, 4, 32][seed as usize % 3];
    match seed % 5 {
        0 => Settings { seed, arrival: Arrival::Trace, ..Settings::default() },
        1 => Settings { seed, depth, think: Nanos(20_000_000), ..Settings::default() },
        _ => Settings { seed, depth, ..Settings::default() },
    }
}

fn served(run: &PlannedRun, demand: &dyn Demand) -> (Outcome, Vec<RequestRow>) {
    let mut rows = RequestRows::default();
    let opening = Opening::new(SPAN_SECTORS, run.settings().seed);
    (run.execute(demand, &opening, &mut rows).unwrap(), rows.0)
}

/// Time, mean and p99 of the rows from one on.
fn measures(rows: &[RequestRow], first: usize) -> [f64; 3] {
    let begin_ns = first.checked_sub(1).map_or(0, |before| rows[before].end_ns);
    let mut latencies: Vec<u64> = rows[first..].iter().map(|row| row.latency_ns).collect();
    latencies.sort_unstable();
    let mean = latencies.iter().sum::<u64>() as f64 / latencies.len() as f64;
    let p99 = latencies[(latencies.len() * 99).div_ceil(100) - 1];
    [(rows.last().unwrap().end_ns - begin_ns) as f64, mean, p99 as f64]
}

/// The largest multiple.
fn worst_multiple(own: &[RequestRow], usual: &[RequestRow], first: Option<usize>, is_timed: bool) -> f64 {
    let of = |first: usize| {
        let pairs = measures(own, first).into_iter().zip(measures(usual, first));
        let counting = if is_timed { 0..1 } else { 1..3 };
        // Latencies of less than a seek are alike.
        let is_alike = |own: f64, usual: f64| !is_timed && own.max(usual) <= UNNOTICED_NS as f64;
        let all: Vec<f64> = pairs.map(|(own, usual)| if is_alike(own, usual) { 1.0 } else { own / usual }).collect();
        all[counting].iter().copied().fold(0.0, f64::max)
    };
    first.map_or(0.0, of).max(of(0))
}

/// A drive that can have this layer: sold as no kind of disk, it can have those of host-managed ones.
fn drive_for(layer: &LayerSpec) -> Drive {
    let mut drive = Drive::load("st5000as0011").unwrap();
    if layer.check_on(&drive).is_err() {
        drive.translation = None;
    }
    drive
}

/// The number of demands, each with seed and settings of its own; `SMRKIT_VERDICTS` sets how many.
fn demands() -> u64 {
    count_from("SMRKIT_VERDICTS", 5)
}

#[test]
fn slow_and_no_problem_are_said_only_where_the_rows_show_it() {
    let (mut slow, mut fine, mut close) = (0, 0, 0);
    for seed in 0..demands() {
        let settings = [settings(seed)];
        let workload = Workload::parse(DEMANDS[seed as usize % DEMANDS.len()]).unwrap();
        let demand = Arc::new(GeneratedDemand { workload, span: Some(SPAN_SECTORS) });
        for layer in LAYERS {
            let system = System::of(drive_for(layer)).layer(layer.name);
            let system = system.capacity(AskedCapacity::Sectors(1 << 25));
            let run = Systems::new(&system).unwrap().runs(&settings, None).unwrap().pop().unwrap();
            let (outcome, own) = served(&run, demand.as_ref());
            let (_, usual) = served(&run.conventional().unwrap(), demand.as_ref());
            let waits = outcome.verdict.cache_full_at_s.map(|at_s| (at_s * 1e9) as u64);
            let first = waits.and_then(|at_ns| own.iter().position(|row| row.end_ns > at_ns));
            let is_timed = settings[0].arrival == Arrival::FlatOut && settings[0].think == Nanos::ZERO;
            let worst = worst_multiple(&own, &usual, first, is_timed);
            let load = Load { kind: LoadKind::Asked, demand: demand.clone(), settings: settings[0], is_even: false };
            let question = Question::of(run, vec![load]);
            let advice = advise(&question, &Unwatched, &mut Silent).unwrap().unwrap();
            if advice.judged().own.full_after_s.is_some() {
                // The answer is about a cache that is full, and these rows are of one that was filling.
                continue;
            }
            let what = format!("{} under {}, seed {seed}: {worst}: {}", layer.name, workload_of(seed), advice.text);
            let says_fine = advice.verdict == Verdict::Fine;
            let is_long = advice.verdict != Verdict::TooShort;
            assert!(!says_fine || worst <= 1.5, "{what}");
            assert!(!advice.problems.slow || worst > 2.0, "{what}");
            assert!(advice.problems.slow || worst < 2.04, "{what}");
            let says_slow = matches!(advice.verdict, Verdict::Slow | Verdict::Dropped | Verdict::FallsBehind);
            // By times that no disk keeps up with there is nothing to be said of the drive.
            let is_long = is_long && advice.verdict != Verdict::Overloaded;
            assert!(!is_long || says_slow || !advice.problems.slow, "{what}");
            assert!(!says_slow || advice.problems.any() || advice.verdict == Verdict::FallsBehind, "{what}");
            slow += u32::from(advice.problems.slow);
            fine += u32::from(says_fine);
            close += u32::from(!says_fine && !advice.problems.slow);
        }
    }
    let enough = 2 * demands() as u32;
    assert!(slow > enough && fine > enough / 2 && close > 0, "{slow} slow, {fine} fine, {close} between");
}

fn workload_of(seed: u64) -> &'static str {
    DEMANDS[seed as usize % DEMANDS.len()]
}
