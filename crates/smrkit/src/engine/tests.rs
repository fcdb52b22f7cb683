//! The loop against a device that serves every request in 10 ns and has a given amount of cleaning to do.

use super::settings::{Arrival, Prefill};
use super::*;
use crate::drive::Position;
use crate::layer::Gauges;
use crate::medium::{Damage, Stamp};
use crate::request::{InMemory, Op};
use crate::stats::timeline::TimelineBuilder;
use crate::units::Lba;

const SERVICE: u64 = 10;
const STAGE: u64 = 4;

#[derive(Default)]
struct Fake {
    now: Nanos,
    due: u32,
    spare: u32,
    cleaning_end: Nanos,
    served: Vec<u64>,
    /// After how many requests counting began.
    began: Vec<usize>,
}

impl Device for Fake {
    fn host_sectors(&self) -> u64 {
        1000
    }
    fn now(&self) -> Nanos {
        self.now
    }
    fn wait_until(&mut self, time: Nanos) {
        self.now = self.now.max(time);
    }
    fn step(&mut self, need: Need) -> DiskResult<bool> {
        let left = if need == Need::Must { &mut self.due } else { &mut self.spare };
        let any = *left > 0;
        if any {
            *left -= 1;
            self.now += Nanos(STAGE);
            self.cleaning_end = self.now;
        }
        Ok(any)
    }
    fn serve(&mut self, request: &Request, _: &mut Buf) -> DiskResult {
        self.now += Nanos(SERVICE);
        self.served.push(request.lba.0);
        Ok(())
    }
    fn position(&self, lba: Lba) -> Position {
        Position { cylinder: lba.0 as u32, ..Position::default() }
    }
    fn positioning(&self, position: &Position) -> Nanos {
        let head = self.served.last().copied().unwrap_or(0);
        Nanos(u64::from(position.cylinder).abs_diff(head))
    }
    fn cache_sectors(&self) -> u64 {
        0
    }
    fn cleaning_end(&self) -> Nanos {
        self.cleaning_end
    }
    fn gauges(&self) -> Gauges {
        Gauges::default()
    }
    fn reset_counts(&mut self) {
        self.began.push(self.served.len());
    }
    fn take_damages(&mut self) -> Vec<Damage> {
        Vec::new()
    }
    fn check(&self) -> DiskResult {
        Ok(())
    }
    fn cut_power(&mut self, _: Power) {}
    fn recover(&mut self) -> Result<(), Error> {
        Ok(())
    }
    fn keeps_acknowledged(&self) -> bool {
        true
    }
    fn peek(&mut self, _: Lba) -> Stamp {
        Stamp::default()
    }
    fn physical_sectors(&self) -> (u64, u64) {
        (0, 0)
    }
}

struct Rows(Vec<RequestRow>);

impl Observer for Rows {
    fn wants_requests(&self) -> bool {
        true
    }
    fn request(&mut self, row: &RequestRow) {
        self.0.push(*row);
    }
}

fn request(time: u64, lba: u64) -> Request {
    Request { time: Nanos(time), ..Request::new(Op::Read, Lba(lba), 1) }
}

/// Serves `requests` on `fake`; (arrival, start, end) of each in the order of service, and what was counted.
fn run(fake: Fake, settings: Settings, requests: &[Request]) -> (Fake, Vec<(u64, u64, u64)>, HostCounts) {
    let mut rows = Rows(Vec::new());
    let mut engine = Engine::new(fake, settings, HostCounts::new(TimelineBuilder::growing(Nanos(100))), &mut rows);
    engine.run(&mut InMemory::new(requests)).unwrap();
    let (fake, counts, _) = engine.into_parts();
    (fake, rows.0.iter().map(|row| (row.arrival_ns, row.start_ns, row.end_ns)).collect(), counts)
}

fn fails(settings: Settings, requests: &[Request]) -> String {
    let mut none = NoObserver;
    let counts = HostCounts::new(TimelineBuilder::growing(Nanos(100)));
    Engine::new(Fake::default(), settings, counts, &mut none).run(&mut InMemory::new(requests)).unwrap_err().to_string()
}

#[test]
fn a_closed_loop_sends_when_a_command_is_answered() {
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
fn one_stage_that_is_due_comes_before_each_request_and_the_request_waits() {
    let fake = Fake { due: 1, ..Fake::default() };
    let (_, times, counts) = run(fake, Settings::default(), &[request(0, 1), request(0, 2)]);
    assert_eq!(times, [(0, 4, 14), (14, 14, 24)]);
    assert_eq!(counts.cache_full, Some((Nanos(0), 0)));
    assert_eq!((counts.wait_ns, counts.service_ns), (4, 20));
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

#[test]
fn shortest_positioning_time_first_takes_the_nearest_waiting_command() {
    let requests = [500, 10, 490, 20].map(|lba| request(0, lba));
    let served = |queue| {
        let settings = Settings { queue, depth: 4, ..Settings::default() };
        run(Fake::default(), settings, &requests).0.served
    };
    assert_eq!(served(Queue::Sptf), [10, 20, 490, 500]);
    assert_eq!(served(Queue::Fcfs), [500, 10, 490, 20]);
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
    let settings = Settings { warmup: 2, ..Settings::default() };
    let (fake, times, counts) = run(Fake::default(), settings, &[request(0, 1), request(0, 2), request(0, 3)]);
    assert_eq!((fake.served.len(), counts.requests, counts.elapsed()), (3, 1, Nanos(10)));
    assert_eq!(fake.began, [2], "and a recorder sees nothing of it");
    assert_eq!(times, [(0, 0, 10)]);
}

#[test]
fn a_prefill_is_not_counted() {
    let settings = Settings { prefill: Prefill::Sequential, ..Settings::default() };
    let (fake, times, counts) = run(Fake::default(), settings, &[request(0, 5)]);
    assert_eq!((fake.served, times, counts.requests), (vec![0, 5], vec![(0, 0, 10)], 1));
}

#[test]
fn requests_outside_the_device_are_refused_or_folded() {
    let outside = [request(0, 1500)];
    let message = fails(Settings::default(), &outside);
    assert!(message.contains("past the capacity of 1000 sectors") && message.contains("--fold"), "{message}");
    let (fake, ..) = run(Fake::default(), Settings { fold: true, ..Settings::default() }, &outside);
    assert_eq!(fake.served, [500]);
}

#[test]
fn times_that_go_backwards_are_refused_only_where_they_matter() {
    let disordered = [request(9, 1), request(3, 2)];
    let message = fails(Settings { arrival: Arrival::Trace, ..Settings::default() }, &disordered);
    assert!(message.contains("request 2") && message.contains("--sort"), "{message}");
    assert_eq!(run(Fake::default(), Settings::default(), &disordered).0.served, [1, 2]);
}
