//! Requests per CPU-second of arrays, on one core, without data: `cargo bench -p smrkit --bench array -- CASE …`.
//!
//! Each case is a short description of an array of `st5000as0011`, over the repeated CloudPhysics trace; the single drive runs in
//! the same process. Printed as `case requests cpu_seconds requests_per_cpu_second ratio`, the ratio being that of the single
//! drive's rate to the case's.

mod common;

use std::sync::Arc;

use common::{cloudphysics, cpu_seconds};
use smrkit::device::level::Level;
use smrkit::device::spec::{ArraySpec, DriveSpec, MemberSpec};
use smrkit::engine::NoObserver;
use smrkit::experiment::system::System;
use smrkit::layer::BASELINE;
use smrkit::request::{InMemory, Request};
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
    ("raid10", Level::Raid10 { copies: 2 }, 4, 1, Queue::Fcfs),
    ("raid5", Level::Raid5, 4, 1, Queue::Fcfs),
    ("raid5-32", Level::Raid5, 4, 32, Queue::Fcfs),
    ("raid6", Level::Raid6, 5, 1, Queue::Fcfs),
];

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let Some(requests) = cloudphysics(REQUESTS) else { return };
    let requests: Arc<[Request]> = requests.into();
    let single = timed(&requests, single);
    print("in-place", &requests, single, single);
    for &(name, level, disks, depth, queue) in CASES {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            let settings = Settings { depth, queue, prefill: Prefill::None, ..Settings::default() };
            let seconds = timed(&requests, |source| array(level, disks, settings, source));
            print(name, &requests, seconds, single);
        }
    }
}

fn print(name: &str, requests: &[Request], seconds: f64, single: f64) {
    let count = requests.len();
    println!("{name} {count} {seconds:.3} {:.2}M {:.2}", count as f64 / seconds / 1e6, seconds / single);
}

fn timed(requests: &Arc<[Request]>, run: impl FnOnce(&mut InMemory)) -> f64 {
    let mut source = InMemory::new(requests.clone());
    let begin = cpu_seconds();
    run(&mut source);
    cpu_seconds() - begin
}

fn single(source: &mut InMemory) {
    serve(&System::drive(DRIVE).layer(BASELINE), Settings::default(), source);
}

fn array(level: Level, disks: usize, settings: Settings, source: &mut InMemory) {
    let member = MemberSpec::Drive(DriveSpec::of(DRIVE, BASELINE, Vec::new()));
    serve(&System::array(ArraySpec::new(level, vec![member; disks])), settings, source);
}

fn serve(system: &System, settings: Settings, source: &mut InMemory) {
    let planned = system.run(settings).expect("a system that there can be");
    planned.run.execute(source, &mut NoObserver).expect("nothing fails");
}
