//! A timeout runs from a command's dispatch to its drive: time in the host's queue is not held against the drive.

use crate::common::planned::{self, serve};
use smrkit::drive::{CommandOrder, Drive};
use smrkit::engine::{NoObserver, Observer, RequestRows};
use smrkit::experiment::system::System;
use smrkit::settings::{Arrival, Queue, Settings};
use smrkit::stats::outcome::CommandTimes;
use smrkit::stats::outcome::Outcome;
use smrkit::units::Nanos;

fn served(layer: &str, workload: &str, settings: Settings, observer: &mut dyn Observer) -> Outcome {
    let run = System::drive("tiny").layer(layer).run(settings).unwrap();
    serve(&run, &planned::workload(workload), observer).unwrap()
}

#[test]
fn requests_that_wait_in_the_hosts_queue_drop_no_drive() {
    let deep = Settings { depth: 2000, ..Settings::default() };
    let burst = Settings { arrival: Arrival::Trace, ..Settings::default() };
    let bursts = "burst:on=1s,off=120s,interval=500us,count=4k";
    for (workload, settings) in [("random-write:count=4k", deep), (bursts, burst)] {
        let outcome = served("in-place", workload, settings, &mut NoObserver);
        let verdict = &outcome.verdict;
        assert!(verdict.stalls_over_7s > 0 && verdict.longest_stall_ns > 7_000_000_000, "{workload}");
        assert!(verdict.commands.longest_command_ns < 1_000_000_000, "{workload}: {:?}", verdict.commands);
        assert!(verdict.text.contains("would not drop it"), "{}", verdict.text);
    }
}

#[test]
fn of_commands_that_the_drive_queues_all_of_the_latency_counts() {
    for (depth, queue) in [(1, Queue::Fcfs), (32, Queue::Fcfs), (100, Queue::Sptf), (40, Queue::Elevator)] {
        let settings = Settings { depth, queue, ..Settings::default() };
        let outcome = served("drive-managed", "random-write:count=3k", settings, &mut NoObserver);
        assert_eq!(outcome.verdict.commands.longest_command_ns, outcome.latency_ns.all.max, "{queue:?} {depth}");
    }
}

#[test]
fn a_drive_that_orders_commands_is_sent_one_whenever_one_completes() {
    for commands in [4, 100] {
        let mut drive = Drive::load("tiny").unwrap();
        drive.command_order = Some(CommandOrder { commands, age: Nanos(50_000_000) });
        let settings = Settings { depth: 300, queue: Queue::Drive, ..Settings::default() };
        let run = System::of(drive).layer("in-place").run(settings).unwrap();
        let (mut rows, mut times) = (RequestRows::default(), CommandTimes::default());
        let outcome = serve(&run, &planned::workload("mix:count=3k"), &mut rows).unwrap();
        let RequestRows(mut rows) = rows;
        rows.sort_by_key(|row| row.row);
        let mut ends: Vec<u64> = rows.iter().map(|row| row.end_ns).collect();
        ends.sort_unstable();
        for (at, row) in rows.iter().enumerate() {
            let room_ns = at.checked_sub(commands as usize).map_or(0, |before| ends[before]);
            times.count(Nanos(row.end_ns - row.arrival_ns.max(room_ns)));
        }
        assert_eq!(outcome.verdict.commands, times, "{commands}");
        assert!(times.longest_command_ns < outcome.latency_ns.all.max, "{commands}");
    }
}

#[test]
fn a_command_is_dispatched_when_the_one_32_before_it_is_completed() {
    for (layer, depth) in [("in-place", 33), ("drive-managed", 50), ("vguard", 500)] {
        let (mut rows, mut times) = (RequestRows::default(), CommandTimes::default());
        let outcome = served(layer, "mix:count=3k", Settings { depth, ..Settings::default() }, &mut rows);
        let RequestRows(rows) = rows;
        for (at, row) in rows.iter().enumerate() {
            let room_ns = at.checked_sub(32).map_or(0, |before| rows[before].end_ns);
            times.count(Nanos(row.end_ns - row.arrival_ns.max(room_ns)));
        }
        assert_eq!(outcome.verdict.commands, times, "{layer}");
        assert!(times.longest_command_ns < outcome.latency_ns.all.max, "{layer}");
    }
}
