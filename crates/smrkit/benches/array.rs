//! Requests per CPU-second of arrays, on one core, without data: `cargo bench -p smrkit --bench array -- CASE …`.
//!
//! Each case is a short description of an array of `st5000as0011`, over the repeated CloudPhysics trace; the single drive runs in
//! the same process. Printed as `case requests cpu_seconds requests_per_cpu_second ratio`, the ratio being that of the single
//! drive's rate to the case's.

mod common;

use common::{cloudphysics, cpu_seconds};
use smrkit::device::level::Level;
use smrkit::device::spec::{ArraySpec, DriveSpec};
use smrkit::engine::NoObserver;
use smrkit::experiment::demand::{Opening, Table};
use smrkit::experiment::system::System;
use smrkit::layer::BASELINE;
use smrkit::settings::{Prefill, Queue, Settings};

const REQUESTS: usize = 10_000_000;
const DRIVE: &str = "st5000as0011";

/// Name, level, disks, depth, queue.
const CASES: &[(&str, Level, usize, u32, Queue)] = &[
    ("raid0", Level::Raid0, 4, 1, Queue::Fcfs),
    ("raid0-32", Level::Raid0, 4, 32, Queue::Fcfs),
    ("raid0-sptf", Level::Raid0, 4, 32, Queue::Sptf),
    ("span", Level::Span, 4, 1, Queue::Fcfs),
    ("raid1", Level::Raid1, 2, 1, Queue::Fcfs),
    ("raid10", Level::Raid10, 4, 1, Queue::Fcfs),
    ("raid5", Level::Raid5, 4, 1, Queue::Fcfs),
    ("raid5-32", Level::Raid5, 4, 32, Queue::Fcfs),
    ("raid6", Level::Raid6, 5, 1, Queue::Fcfs),
];

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let Some(requests) = cloudphysics(REQUESTS) else { return };
    let requests = Table(requests.into());
    let single = timed(&System::drive(DRIVE).layer(BASELINE), Settings::default(), &requests);
    print("in-place", &requests, single, single);
    for &(name, level, disks, depth, queue) in CASES {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            let settings = Settings { depth, queue, prefill: Prefill::None, ..Settings::default() };
            let seconds = timed(&array(level, disks), settings, &requests);
            print(name, &requests, seconds, single);
        }
    }
}

fn print(name: &str, requests: &Table, seconds: f64, single: f64) {
    let count = requests.0.len();
    println!("{name} {count} {seconds:.3} {:.2}M {:.2}", count as f64 / seconds / 1e6, seconds / single);
}

fn array(level: Level, disks: usize) -> System {
    let member = DriveSpec::of(DRIVE, BASELINE, Vec::new());
    System::array(ArraySpec::new(level, vec![member; disks]))
}

fn timed(system: &System, settings: Settings, requests: &Table) -> f64 {
    let begin = cpu_seconds();
    let run = system.run(settings).expect("a system that there can be");
    let opening = Opening::new(run.host_sectors().expect("known by now"), settings.seed);
    run.execute(requests, &opening, &mut NoObserver).expect("nothing fails");
    cpu_seconds() - begin
}
