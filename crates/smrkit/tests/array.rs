//! Every level of arrays, over every layer, on small random drives in check mode: no byte is wrong while members fail, are
//! replaced and rebuilt at random moments, and what was rebuilt stands in for what fails next. Whether it is checked changes
//! no time.
//!
//! `SMRKIT_ARRAY_REQUESTS` sets the requests for each level (1.5·10^5 in CI).

mod common;

use common::arrays::{Failures, array_run, level, run_with};
use common::count::count_from;
use common::planned::plan;
use common::{Disks, random_requests, with_times};
use rand::{Rng, RngExt};
use smrkit::device::health::Health;
use smrkit::device::level::Level;
use smrkit::engine::NoObserver;
use smrkit::engine::system::ArrayRun;
use smrkit::engine::task::{BackgroundTask, Idle};
use smrkit::error::Error;
use smrkit::layer::LAYERS;
use smrkit::request::{InMemory, Request};
use smrkit::settings::{Arrival, Prefill, Queue, Settings};
use smrkit::stats::counts::{HostCounts, HostTotals};
use smrkit::units::Lba;

const REQUESTS: u64 = 1000;

fn requests_wanted() -> u64 {
    count_from("SMRKIT_ARRAY_REQUESTS", 5_000)
}

/// A random array, settings and requests.
struct Trial {
    disks: Disks,
    run: ArrayRun,
    settings: Settings,
    requests: Vec<Request>,
}

impl Trial {
    fn new(kind: Level, seed: u64) -> Trial {
        let mut disks = Disks::new(seed);
        let spec = &LAYERS[seed as usize % LAYERS.len()];
        let size = level(&mut disks, kind);
        let run = array_run(&mut disks, size, spec);
        let random = &mut disks.random;
        let depth = [1, 2, 4, 8, 32][random.random_range(0..5)];
        let queues = [Queue::Fcfs, Queue::Fcfs, Queue::Elevator, Queue::Sptf];
        let queue = if depth == 1 { Queue::Fcfs } else { queues[random.random_range(0..4)] };
        let open = random.random_bool(0.3);
        let settings = Settings {
            arrival: if open { Arrival::Trace } else { Arrival::FlatOut },
            prefill: [Prefill::None, Prefill::Full, Prefill::Sequential][random.random_range(0..3)],
            depth,
            queue,
            check: true,
            seed,
            ..Settings::default()
        };
        let mut requests = random_requests(random, run.host_sectors().unwrap(), REQUESTS);
        if kind == Level::Dedicated {
            requests.iter_mut().for_each(|request| on_a_member(random, &run, request));
        }
        if open {
            requests = with_times(random, requests);
        }
        Trial { disks, run, settings, requests }
    }

    fn failures(&self) -> Failures {
        let mut random = self.disks.random.clone();
        Failures::random(&mut random, &self.run, &self.settings, REQUESTS)
    }

    fn survives(&self) -> Result<(), Error> {
        let mut failures = self.failures();
        let due = failures.due.len();
        let checked = run_with(&self.run, self.settings, &self.requests, &mut failures, |engine| {
            engine.finish()?;
            let array = engine.device.array_mut().unwrap();
            assert!(array.health.iter().all(|health| matches!(health, Health::Good)), "not all is rebuilt");
            // What fails now is not what was rebuilt: that has to stand in for it.
            if due > 0 {
                array.fail((self.settings.seed % self.run.members.len() as u64) as u32);
                engine.finish()?;
            }
            Ok(counted(&mut engine.counts))
        })?;
        let unchecked = Settings { check: false, ..self.settings };
        let mut failures = Failures::random(&mut self.disks.random.clone(), &self.run, &unchecked, REQUESTS);
        let plain =
            run_with(&self.run, unchecked, &self.requests, &mut failures, |engine| Ok(counted(&mut engine.counts)))?;
        assert_eq!(checked, plain, "the check takes time");
        Ok(())
    }
}

/// Gives a request to a source, within the sectors of its member.
fn on_a_member(random: &mut impl Rng, run: &ArrayRun, request: &mut Request) {
    request.source = random.random_range(0..run.members.len()) as u8;
    let sectors = run.members[request.source as usize].host_sectors().unwrap();
    request.sectors = request.sectors.min(sectors as u32);
    request.lba = Lba(request.lba.0 % (sectors - u64::from(request.sectors) + 1));
}

fn counted(counts: &mut HostCounts) -> (HostTotals, u64, String) {
    let latencies = format!("{:?}", counts.latencies());
    (counts.totals, counts.elapsed().0, latencies)
}

fn survives(kind: Level) {
    let trials = requests_wanted().div_ceil(REQUESTS);
    for seed in 0..trials {
        let trial = Trial::new(kind, seed);
        let what = || format!("seed {seed}, {:?} {:?}\n", trial.settings, describe(&trial.run));
        if let Err(error) = trial.survives() {
            panic!("{kind}: {error}\n{}", what());
        }
    }
    println!("{kind}: {} requests", trials * REQUESTS);
}

fn describe(run: &ArrayRun) -> String {
    use smrkit::engine::system::DriveRun;
    let member = |drive: &DriveRun| format!("{} {}", drive.layer.name, drive.host_sectors().unwrap());
    let members: Vec<String> = run.members.iter().map(member).collect();
    format!("{:?} chunk {}: {}", run.level, run.chunk_sectors, members.join(", "))
}

#[test]
fn span_loses_nothing() {
    survives(Level::Span);
}

#[test]
fn raid0_loses_nothing() {
    survives(Level::Raid0);
}

#[test]
fn raid1_loses_nothing() {
    survives(Level::Raid1);
}

#[test]
fn raid10_loses_nothing() {
    survives(Level::Raid10);
}

#[test]
fn raid4_loses_nothing() {
    survives(Level::Raid4);
}

#[test]
fn raid5_loses_nothing() {
    survives(Level::Raid5);
}

#[test]
fn raid6_loses_nothing() {
    survives(Level::Raid6);
}

#[test]
fn raidz3_loses_nothing() {
    survives(Level::Raidz3);
}

#[test]
fn dedicated_loses_nothing() {
    survives(Level::Dedicated);
}

/// Work of an array's own that never comes: for its sake the loop goes from event to event.
struct Never;

impl BackgroundTask for Never {
    fn is_over(&self) -> bool {
        false
    }
}

#[test]
fn what_completes_at_once_counts_as_from_event_to_event() {
    let kinds = [Level::Span, Level::Raid0, Level::Raid1, Level::Raid10, Level::Raid5, Level::Dedicated];
    for seed in 0..60 {
        let trial = Trial::new(kinds[seed as usize % kinds.len()], seed);
        let depth = [1, 1, 2][seed as usize / kinds.len() % 3];
        let settings = Settings { depth, queue: Queue::Fcfs, arrival: Arrival::FlatOut, ..trial.settings };
        let run = plan(trial.run.clone(), settings).unwrap();
        let outcome = |task: &mut dyn BackgroundTask| {
            let mut source = InMemory::new(trial.requests.clone());
            let outcome = run.execute_with(task, &mut source, &mut NoObserver).unwrap();
            serde_json::to_string(&outcome).unwrap()
        };
        assert_eq!(outcome(&mut Idle), outcome(&mut Never), "seed {seed}, {:?}", describe(&trial.run));
    }
}
