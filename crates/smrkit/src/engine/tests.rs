//! The loop against a drive that serves every request in 10 ns and has a given amount of cleaning to do.

use std::sync::{Arc, Mutex};

use super::task::Idle;
use super::*;
use crate::device::{LayeredDisk, MemberDrive, Queueing};
use crate::disk::Disk;
use crate::drive::{CommandOrder, Constant, Drive, DriveClock};
use crate::experiment::demand::GeneratedDemand;
use crate::experiment::system::System;
use crate::geometry::Geometry;
use crate::layer::{Capacity, Layer, Need};
use crate::medium::interference::Interference;
use crate::medium::{Ascending, Buf, Medium, Placement};
use crate::request::{InMemory, Op};
use crate::settings::{Arrival, Prefill, Queue, Warmup};
use crate::stats::timeline::TimelineBuilder;
use crate::tally::Cause;
use crate::units::{Lba, Pba};
use crate::workload::Workload;

const SECTORS: u64 = 1000;
const SERVICE: u64 = 10;
const STAGE: u64 = 4;

/// Work that the layer owes, and requests that it had.
#[derive(Clone, Debug, Default, PartialEq)]
struct Fake {
    due: u32,
    spare: u32,
    delay: u64,
    served: Vec<u64>,
    /// After how many requests counting began.
    began: Vec<usize>,
}

/// A layer whose every sector costs a nanosecond.
struct FakeLayer(Arc<Mutex<Fake>>);

impl FakeLayer {
    fn serve(&self, disk: &mut Disk, lba: Lba) -> DiskResult {
        self.0.lock().unwrap().served.push(lba.0);
        disk.read(Pba(0), SERVICE, Cause::Host, &mut Buf::NoData, 0)
    }
}

impl Layer for FakeLayer {
    fn capacity(&self) -> Capacity {
        Capacity { raw_sectors: SECTORS, host_sectors: SECTORS, ..Capacity::default() }
    }
    fn read(&mut self, disk: &mut Disk, lba: Lba, _: u64, _: &mut Buf) -> DiskResult {
        self.serve(disk, lba)
    }
    fn write(&mut self, disk: &mut Disk, lba: Lba, _: u64, _: &Buf) -> DiskResult {
        self.serve(disk, lba)
    }
    fn discard(&mut self, _: &mut Disk, _: Lba, _: u64) -> DiskResult {
        Ok(())
    }
    fn step(&mut self, disk: &mut Disk, need: Need) -> DiskResult<bool> {
        let mut fake = self.0.lock().unwrap();
        let left = if need == Need::Must { &mut fake.due } else { &mut fake.spare };
        if *left == 0 {
            return Ok(false);
        }
        *left -= 1;
        disk.read(Pba(0), STAGE, Cause::Clean, &mut Buf::NoData, 0)?;
        Ok(true)
    }
    fn idle_delay(&self) -> Option<Nanos> {
        Some(Nanos(self.0.lock().unwrap().delay))
    }
    fn fill(&mut self) -> Arc<dyn Placement> {
        Arc::new(Ascending::new(SECTORS, |lba| Pba(lba.0)))
    }
    fn state(&self) -> Vec<u8> {
        unreachable!("not saved here")
    }

    fn restore(&mut self, _saved: &[u8]) -> DiskResult {
        unreachable!("not saved here")
    }

    fn locate(&self, lba: Lba) -> Pba {
        Pba(lba.0)
    }
    fn check(&self) -> DiskResult {
        Ok(())
    }
    fn reset_stats(&mut self) {
        let mut fake = self.0.lock().unwrap();
        let served = fake.served.len();
        fake.began.push(served);
    }
}

fn request(time: u64, lba: u64) -> Request {
    Request { time: Nanos(time), ..Request::new(Op::Read, Lba(lba), 1) }
}

/// A drive of tracks of one sector under the fake layer.
fn member(fake: &Arc<Mutex<Fake>>, settings: &Settings) -> Device {
    let mut drive = Drive::load("tiny-constant").unwrap().with_interference(Interference::None).unwrap();
    drive.geometry = Geometry::uniform(SECTORS, 1).unwrap();
    drive.clock = DriveClock::Constant(Constant::new(0.0, 0.001).unwrap());
    let device = LayeredDisk::new(Disk::new(&drive, Medium::NoData), Box::new(FakeLayer(Arc::clone(fake))));
    let queueing = Queueing::new(settings.queue, settings.depth, None);
    Device::Drive(Box::new(MemberDrive::new(device, queueing)))
}

type Ran = Result<(Fake, Vec<(u64, u64, u64)>, HostCounts), Error>;

/// Serves `requests` on `fake`; (arrival, start, end) of each in the order of completion, and what was counted.
fn try_run(fake: Fake, settings: Settings, requests: &[Request]) -> Ran {
    try_run_of(fake, settings, &mut InMemory::new(requests))
}

fn try_run_of(fake: Fake, settings: Settings, source: &mut dyn Source) -> Ran {
    let (fake, mut rows, mut task) = (Arc::new(Mutex::new(fake)), RequestRows(Vec::new()), Idle);
    let counts = HostCounts::new(TimelineBuilder::growing(Nanos(100)));
    let mut engine = Engine::new(member(&fake, &settings), settings, counts, &mut task, &mut rows);
    engine.run(source)?;
    let (counts, fake) = (engine.counts, fake.lock().unwrap().clone());
    Ok((fake, rows.0.iter().map(|row| (row.arrival_ns, row.start_ns, row.end_ns)).collect(), counts))
}

fn run(fake: Fake, settings: Settings, requests: &[Request]) -> (Fake, Vec<(u64, u64, u64)>, HostCounts) {
    try_run(fake, settings, requests).unwrap()
}

fn fails(settings: Settings, requests: &[Request]) -> String {
    try_run(Fake::default(), settings, requests).err().unwrap().to_string()
}

#[test]
fn a_closed_loop_sends_when_a_command_completes() {
    let requests = [request(0, 1), request(0, 2), request(0, 3)];
    let (_, times, _) = run(Fake::default(), Settings::default(), &requests);
    assert_eq!(times, [(0, 0, 10), (10, 10, 20), (20, 20, 30)]);
    let (_, times, _) = run(Fake::default(), Settings { depth: 2, ..Settings::default() }, &requests);
    assert_eq!(times, [(0, 0, 10), (0, 10, 20), (10, 20, 30)]);
}

#[test]
fn think_time_leaves_the_device_idle() {
    let settings = Settings { think: Nanos(7), ..Settings::default() };
    let (_, times, _) = run(Fake::default(), settings, &[request(0, 1), request(0, 2)]);
    assert_eq!(times, [(0, 0, 10), (17, 17, 27)]);
}

#[test]
fn an_open_loop_keeps_the_trace_s_times_and_stretches_them() {
    let settings = Settings { arrival: Arrival::Trace, time_scale: 2.0, ..Settings::default() };
    let (_, times, _) = run(Fake::default(), settings, &[request(3, 1), request(4, 2), request(50, 3)]);
    assert_eq!(times, [(6, 6, 16), (8, 16, 26), (100, 100, 110)]);
}

#[test]
fn each_request_waits_for_one_stage_that_is_due() {
    let fake = Fake { due: 1, ..Fake::default() };
    let (_, times, counts) = run(fake, Settings::default(), &[request(0, 1), request(0, 2)]);
    assert_eq!(times, [(0, 4, 14), (14, 14, 24)]);
    assert_eq!(counts.cache_full, Some((Nanos(0), 0)));
    assert_eq!((counts.totals.wait_ns, counts.totals.service_ns), (4, 20));
}

#[test]
fn a_gap_takes_what_is_due_then_what_helps_and_a_stage_may_overrun() {
    let fake = Fake { due: 1, spare: 9, ..Fake::default() };
    let settings = Settings { arrival: Arrival::Trace, ..Settings::default() };
    let (fake, times, counts) = run(fake, settings, &[request(10, 1)]);
    assert_eq!(times, [(10, 12, 22)], "three stages of 4, the last of them begun before the request came");
    assert_eq!((fake.due, fake.spare), (0, 7));
    assert_eq!(counts.cache_full.map(|(time, _)| time), Some(Nanos(10)));
}

#[test]
fn cleaning_that_ends_before_a_request_comes_delays_nobody() {
    let fake = Fake { spare: 2, ..Fake::default() };
    let settings = Settings { arrival: Arrival::Trace, ..Settings::default() };
    let (_, times, counts) = run(fake, settings, &[request(10, 1)]);
    assert_eq!((times, counts.cache_full), (vec![(10, 10, 20)], None));
}

/// The drive `tiny`, which orders its commands as `own` says.
fn on_tiny(own: Option<CommandOrder>) -> system::SystemRun {
    let layer = crate::layer::find("in-place").unwrap();
    let mut drive = Drive::load("tiny").unwrap();
    drive.command_order = own;
    system::DriveRun { drive, layer, parameters: layer.resolve(&[]).unwrap() }.into()
}

/// (LBA, start) of each read of a sector, in the order of service, four commands outstanding.
fn ordered(queue: Queue, own: Option<CommandOrder>, lbas: &[u64]) -> Vec<(u64, u64)> {
    let settings = Settings { queue, depth: 4, ..Settings::default() };
    let (mut rows, mut task) = (RequestRows(Vec::new()), Idle);
    let member = on_tiny(own).build(&settings).unwrap();
    let counts = HostCounts::new(TimelineBuilder::default());
    let requests: Vec<Request> = lbas.iter().map(|&lba| request(0, lba)).collect();
    Engine::new(member, settings, counts, &mut task, &mut rows).run(&mut InMemory::new(requests)).unwrap();
    rows.0.iter().map(|row| (row.lba, row.start_ns)).collect()
}

#[test]
fn sptf_takes_the_nearest_waiting_command() {
    let served = |queue| ordered(queue, None, &[8000, 10, 8100, 70]).iter().map(|row| row.0).collect::<Vec<_>>();
    let near = served(Queue::Sptf);
    assert!(near[..2].iter().all(|lba| [10, 70].contains(lba)), "{near:?}");
    assert_eq!(served(Queue::Fcfs), [8000, 10, 8100, 70]);
    assert_eq!(served(Queue::Drive), [8000, 10, 8100, 70], "a drive that orders nothing");
}

#[test]
fn a_drive_s_own_order_keeps_no_command_waiting_beyond_its_age() {
    let lbas: Vec<u64> = [8000].into_iter().chain((0..400).map(|n| n * 37 % 200)).collect();
    let begun = |age| {
        let own = CommandOrder { commands: 32, age };
        ordered(Queue::Drive, Some(own), &lbas).into_iter().find(|row| row.0 == 8000).unwrap().1
    };
    let (age, longest) = (Nanos::from_millis(100.0), Nanos::from_millis(25.0));
    assert!(begun(Nanos::MAX) > 3 * age.0, "the nearer ones go first");
    assert!((age.0..(age + longest).0).contains(&begun(age)), "{}", begun(age));
}

#[test]
fn a_drive_orders_no_more_commands_than_it_takes_at_once() {
    let served = |commands| {
        let own = CommandOrder { commands, age: Nanos::MAX };
        ordered(Queue::Drive, Some(own), &[8000, 10, 8100, 70])[1].0
    };
    assert!(served(2) > 70, "the near one is still at the host");
    assert!([10, 70].contains(&served(4)));
}

#[test]
fn commands_that_continue_one_another_are_served_in_their_order() {
    let own = CommandOrder { commands: 32, age: Nanos::MAX };
    let served = |queue, own| ordered(queue, own, &[3, 2, 1, 0]).iter().map(|row| row.0).collect::<Vec<_>>();
    assert_eq!(served(Queue::Drive, Some(own)), [0, 1, 2, 3]);
    assert_ne!(served(Queue::Sptf, None), [0, 1, 2, 3], "the first sector has just passed");
}

#[test]
fn the_host_managed_disk_keeps_its_measured_rates_at_depth() {
    // fio with 256 KiB on a 15 TB disk, commands a second (zonedstorage.io, 2019).
    let tests = [
        ("random-read:size=256Ki,count=3000", 16, 118.0),
        ("sequential-read:size=256Ki,bytes=1Gi", 8, 951.0),
        ("sequential-write:size=256Ki,bytes=1Gi", 8, 938.0),
    ];
    for (workload, depth, measured) in tests {
        let system = System::drive("hc620").layer("in-place");
        let run = system.run(Settings { depth, ..Settings::default() }).unwrap();
        assert_eq!(run.settings().queue, Queue::Drive);
        let demand = GeneratedDemand::from(Workload::parse(workload).unwrap());
        let outcome = run.execute(&demand, &run.opening().unwrap(), &mut NoObserver).unwrap();
        let rate = outcome.requests as f64 / outcome.elapsed_ns as f64 * 1e9;
        assert!((rate / measured - 1.0).abs() <= 0.15, "{workload}: {rate}, measured {measured}");
    }
}

#[test]
fn drives_that_order_nothing_serve_commands_as_they_come() {
    let own = Some(CommandOrder { commands: 32, age: Nanos::MAX });
    let queue = |own, depth| on_tiny(own).effective(Settings { depth, ..Settings::default() }).queue;
    assert_eq!([queue(None, 8), queue(own, 1), queue(own, 8)], [Queue::Fcfs, Queue::Fcfs, Queue::Drive]);
}

#[test]
fn the_elevator_goes_to_the_end_of_the_way_and_turns() {
    let settings = Settings { queue: Queue::Elevator, depth: 2, ..Settings::default() };
    let requests = [50, 60, 40, 90, 10].map(|lba| request(0, lba));
    assert_eq!(run(Fake::default(), settings, &requests).0.served, [50, 60, 90, 40, 10]);
}

#[test]
fn commands_that_have_not_arrived_are_not_chosen() {
    let settings = Settings { arrival: Arrival::Trace, queue: Queue::Sptf, depth: 4, ..Settings::default() };
    let (fake, ..) = run(Fake::default(), settings, &[request(0, 900), request(5, 500), request(1000, 1)]);
    assert_eq!(fake.served, [900, 500, 1]);
}

#[test]
fn warm_up_is_served_but_not_counted() {
    let settings = Settings { warmup: Warmup::Requests(2), ..Settings::default() };
    let (fake, times, counts) = run(Fake::default(), settings, &[request(0, 1), request(0, 2), request(0, 3)]);
    assert_eq!((fake.served.len(), counts.totals.requests, counts.elapsed()), (3, 1, Nanos(10)));
    assert_eq!(fake.began, [2], "and a recorder sees nothing of it");
    assert_eq!(times, [(0, 0, 10)]);
}

#[test]
fn a_prefill_is_not_counted() {
    let settings = Settings { prefill: Prefill::Sequential, ..Settings::default() };
    let (fake, times, counts) = run(Fake::default(), settings, &[request(0, 5)]);
    assert_eq!((fake.served, times, counts.totals.requests), (vec![0, 5], vec![(0, 0, 10)], 1));
}

#[test]
fn requests_outside_the_device_are_refused_or_folded() {
    let outside = [request(0, 1500)];
    let message = fails(Settings::default(), &outside);
    assert!(message.contains("past the capacity of 1000 sectors") && message.contains("add fold"), "{message}");
    let (fake, ..) = run(Fake::default(), Settings { fold: true, ..Settings::default() }, &outside);
    assert_eq!(fake.served, [500]);
    let crossing_the_end = [Request { sectors: 8, ..request(0, 1999) }];
    let (fake, ..) = run(Fake::default(), Settings { fold: true, ..Settings::default() }, &crossing_the_end);
    assert_eq!(fake.served, [992]);
}

#[test]
fn times_that_go_backwards_are_refused_only_where_they_matter() {
    let disordered = [request(9, 1), request(3, 2)];
    let message = fails(Settings { arrival: Arrival::Trace, ..Settings::default() }, &disordered);
    assert!(message.contains("request 2") && message.contains("in order with sort"), "{message}");
    assert_eq!(run(Fake::default(), Settings::default(), &disordered).0.served, [1, 2]);
}

/// Requests of which it is known how many were outstanding when they came.
struct Recorded {
    requests: Vec<Request>,
    outstanding: Vec<u16>,
}

impl Source for Recorded {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        *batch = std::mem::take(&mut self.requests);
        Ok(())
    }

    fn outstanding(&self) -> &[u16] {
        &self.outstanding
    }
}

#[test]
fn a_recorded_request_comes_after_those_that_its_host_has_seen() {
    // Two come together, 5 after the beginning; two more 7 after the first of these has ended, one 3 after all have.
    let pauses = [(5, 0), (5, 1), (12, 1), (12, 2), (15, 0)];
    let settings = Settings { arrival: Arrival::Closed, depth: 32, ..Settings::default() };
    let requests = pauses.iter().enumerate().map(|(at, &(time, _))| request(time, 100 * at as u64)).collect();
    let mut source = Recorded { requests, outstanding: pauses.iter().map(|&(_, outstanding)| outstanding).collect() };
    let (_, times, _) = try_run_of(Fake::default(), settings, &mut source).unwrap();
    assert_eq!(times, [(5, 5, 15), (5, 15, 25), (22, 25, 35), (22, 35, 45), (48, 48, 58)]);
}
