//! Random runs of every layer on every clock, and of arrays whose members fail, come out as they did: group by group.
//!
//! A line that moves is a result that changes; `INSTA_UPDATE=always cargo test --workspace --test runs known` accepts it.

use std::fmt::Write;

use serde_json::Value;
use smrkit::device::level;
use smrkit::engine::NoObserver;
use smrkit::error::Error;
use smrkit::experiment::demand::Table;
use smrkit::layer::LAYERS;
use smrkit::request::{Op, Request, Source};
use smrkit::settings::{Prefill, Settings, Warmup};
use smrkit::stats::outcome::Outcome;
use smrkit::workload::{WORKLOADS, Workload};

use super::determinism::Trial;
use crate::common::planned::{plan, serve};
use crate::common::rebuilds::{LEVELS, MEMBERS, array, run, small};
use crate::common::{Disks, TinyClock, arrays, random_requests, random_settings, with_times};

/// Trials of each layer on each clock.
const TRIALS: u64 = 4;

/// Keys left out: what was asked for, what depends on the build, and what others say too.
const LEFT_OUT: [&str; 18] = [
    "engine",
    "seed",
    "run",
    "version",
    "commit",
    "drive",
    "drive_file",
    "layer",
    "asked",
    "schema",
    "adjusted",
    "workload_sectors",
    "host_bytes_per_s",
    "confidence",
    "physical_written_bytes",
    "latency_buckets",
    "wait_ns",
    "total",
];

/// Every number of a value that is not zero, by its path; of a list its length, and a sum that depends on the order.
fn numbers(value: &Value, path: &str, into: &mut String) {
    let number = |number: f64| format!("{:.6}", number).trim_end_matches('0').trim_end_matches('.').to_string();
    match value {
        Value::Object(map) => {
            map.iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str())).for_each(|(key, value)| {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                numbers(value, &path, into);
            })
        }
        Value::Array(list) if sum(value) != 0.0 => {
            write!(into, " {path}[{}]={}", list.len(), number(sum(value))).unwrap();
        }
        Value::Number(value) if value.as_f64() != Some(0.0) => {
            write!(into, " {path}={}", number(value.as_f64().unwrap())).unwrap();
        }
        Value::Bool(true) => write!(into, " {path}").unwrap(),
        _ => {}
    }
}

/// All numbers in a value, those of a list by their places.
fn sum(value: &Value) -> f64 {
    match value {
        Value::Object(map) => {
            let counts = |key: &str| !["host_bytes_per_s", "physical_written_bytes"].contains(&key);
            map.iter().filter(|(key, _)| counts(key)).map(|(_, value)| sum(value)).sum()
        }
        Value::Array(list) => list.iter().enumerate().map(|(at, value)| (at + 1) as f64 * sum(value)).sum(),
        other => other.as_f64().unwrap_or(0.0),
    }
}

/// The outcome of a run: its counts, and each group of figures.
fn figures(outcome: Result<Outcome, Error>) -> String {
    let outcome = match outcome {
        Ok(outcome) => serde_json::to_value(outcome).unwrap(),
        Err(error) => return format!("  {error}\n"),
    };
    let (mut counts, mut groups) = (String::new(), String::new());
    for (key, value) in outcome.as_object().unwrap().iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str())) {
        match value {
            Value::Object(_) => {
                let mut group = String::new();
                numbers(value, "", &mut group);
                if !group.is_empty() {
                    writeln!(groups, "  {key}:{group}").unwrap();
                }
            }
            plain => numbers(plain, key, &mut counts),
        }
    }
    format!(" {counts}\n{groups}")
}

fn trials_of(name: &str) -> String {
    let layer = LAYERS.iter().position(|layer| layer.name == name).unwrap();
    let mut text = String::new();
    for (seed, clock) in (100..100 + TRIALS).flat_map(|seed| TinyClock::ALL.map(|clock| (seed, clock))) {
        let Some(mut trial) = Trial::new(seed, layer, clock) else { continue };
        let prefills = [Prefill::None, Prefill::Full, Prefill::Random(0.3), Prefill::Sequential];
        trial.settings.prefill = prefills[seed as usize % prefills.len()];
        trial.settings.movement = seed % 2 == 0;
        trial.settings.warmup = Warmup::Requests([0, 300][seed as usize / 2 % 2]);
        let outcome = serve(&trial.run().unwrap(), &Table(trial.requests.as_slice().into()), &mut NoObserver);
        write!(text, "{clock:?} {seed}\n{}", figures(outcome)).unwrap();
    }
    text
}

/// The first requests of every workload, by their kinds and their sums.
#[test]
fn workloads_make_the_requests_that_they_did() {
    let mut text = String::new();
    for (info, keys) in
        WORKLOADS.iter().flat_map(|info| ["", "start=7M", "rate=300,arrivals=poisson"].map(|keys| (info, keys)))
    {
        for seed in 1..3 {
            let spec = if keys.is_empty() { info.name.to_string() } else { format!("{}:{keys}", info.name) };
            let source = Workload::parse(&spec).and_then(|workload| workload.source(400 << 20, seed));
            let told = match source {
                Ok(mut source) => requests(source.as_mut()),
                Err(error) => error.to_string(),
            };
            writeln!(text, "{spec} {seed}: {told}").unwrap();
        }
    }
    insta::assert_snapshot!("workloads", text);
}

fn requests(source: &mut dyn Source) -> String {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while all.len() < 8000 && source.fill(&mut batch).is_ok() && !batch.is_empty() {
        all.append(&mut batch);
    }
    let sum = |of: &dyn Fn(&Request) -> u64| {
        all.iter().zip(1..).map(|(request, at)| of(request) as f64 * at as f64).sum::<f64>()
    };
    let count = |op| all.iter().filter(|request| request.op == op).count();
    format!(
        "{} requests, {} reads, {} writes, sums {} {} {} {}, the last at {:?}",
        all.len(),
        count(Op::Read),
        count(Op::Write),
        sum(&|request| request.lba.0),
        sum(&|request| request.sectors.into()),
        sum(&|request| request.time.0 / 1000),
        sum(&|request| u64::from(request.source) * request.lba.0),
        all.last().map(|last| last.time.0),
    )
}

/// One test a layer.
macro_rules! layers {
    ($($test:ident: $name:literal),+) => {
        $(#[test] fn $test() { insta::assert_snapshot!($name, trials_of($name)); })+

        #[test]
        fn no_layer_is_left_out() {
            assert_eq!(LAYERS.iter().map(|layer| layer.name).collect::<Vec<_>>(), [$($name),+]);
        }
    };
}

layers! {
    conventional_runs: "in-place",
    read_modify_write_runs: "rmw",
    set_associative_runs: "set-assoc",
    s_block_runs: "s-block",
    drive_managed_runs: "drive-managed",
    vguard_runs: "vguard",
    runs_of_track_maps: "track-map",
    smart_runs: "smart",
    log_runs: "log",
    dm_zoned_runs: "dm-zoned",
    runs_of_logs_in_zones: "zone-log",
    interlaced_runs: "imr",
    host_aware_runs: "host-aware",
    h_swd_runs: "h-swd"
}

#[test]
fn runs_of_arrays() {
    let mut text = String::new();
    for (seed, kind) in (0..3).flat_map(|seed| level::LEVELS.iter().map(move |spec| (seed, spec.level))) {
        let mut disks = Disks::new(seed);
        let size = arrays::level(&mut disks, kind);
        let array = arrays::array_run(&mut disks, size, &LAYERS[seed as usize * 3]);
        let mut settings = random_settings(&mut disks.random);
        settings.prefill = if seed == 0 { Prefill::None } else { Prefill::Full };
        let requests = random_requests(&mut disks.random, array.host_sectors().unwrap(), 600);
        let requests = with_times(&mut disks.random, requests);
        let outcome = serve(&plan(array, settings).unwrap(), &Table(requests.into()), &mut NoObserver);
        write!(text, "{kind} {seed}\n{}", figures(outcome)).unwrap();
    }
    insta::assert_snapshot!("arrays", text);
}

#[test]
fn rebuilds_and_scrubs() {
    let tasks = [
        "disk=1,write=24Ki,window=2,after=100",
        "disk=0,failed=before,order=scattered,record=16Ki,run=64Ki,window=3,after=50",
        "resilver:disk=2,record=8Ki,run=8Ki,live=0.5,after=80,rate=4MB",
        "scrub:read=64Ki,window=3,after=40",
    ];
    let others = ["set-assoc", "s-block", "drive-managed", "vguard", "log", "zone-log"];
    let mut text = String::new();
    for (at, (level, task)) in LEVELS.into_iter().flat_map(|level| tasks.map(|task| (level, task))).enumerate() {
        let layer = others[at % others.len()];
        let array = array(level, (0..MEMBERS).map(|n| small(if n % 2 == 0 { "in-place" } else { layer })).collect());
        let settings = Settings { depth: 1 + at as u32 % 5, ..Settings::default() };
        let workload = Some("mix:size=8Ki,count=400,write_share=0.6,span=8M");
        let outcome = run(&array, settings, task, workload);
        write!(text, "{level} with {layer}, {task}\n{}", figures(outcome)).unwrap();
    }
    insta::assert_snapshot!("rebuilds", text);
}
