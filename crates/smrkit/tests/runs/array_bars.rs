//! Costs of arrays, exactly: writes and reads for each write, times that add up, an array of one drive that is that
//! drive to the nanosecond, and the same bytes each time.

use crate::common::arrays::{array_run, drive_run, level};
use crate::common::planned::{plan, serve};
use crate::common::{Disks, parameters, random_requests, random_settings, with_times};
use rand::RngExt;
use smrkit::device::level::{LEVELS, Level};
use smrkit::drive::Drive;
use smrkit::engine::system::{ArrayRun, DriveRun};
use smrkit::engine::task::Idle;
use smrkit::engine::{NoObserver, Observer, RequestRows};
use smrkit::experiment::demand::Table;
use smrkit::interleave::{Interleave, Interleaved, MergePart, SourcePlacement};
use smrkit::layer::{BASELINE, LAYERS, find};
use smrkit::request::{InMemory, Op, Request};
use smrkit::settings::{Prefill, Queue, Settings, Warmup};
use smrkit::stats::outcome::{ByCause, Outcome, Timeline, Verdict};
use smrkit::units::Lba;

const SEEDS: u64 = 8;

fn of_drives(level: Level, chunk_sectors: u64, drives: Vec<DriveRun>) -> ArrayRun {
    let members = drives;
    ArrayRun { chunk_sectors, ..ArrayRun::new(level, members) }
}

fn execute(run: &ArrayRun, settings: Settings, requests: &[Request], observer: &mut dyn Observer) -> Outcome {
    serve(&plan(run.clone(), settings).unwrap(), &Table(requests.into()), observer).unwrap()
}

/// Writes of 4 KiB at random, over a quarter of the array or more, none across a chunk.
fn small_writes(disks: &mut Disks, host_sectors: u64) -> Vec<Request> {
    let lba = |disks: &mut Disks| Lba(disks.random.random_range(0..host_sectors / 8) * 8);
    (0..2000).map(|_| Request::new(Op::Write, lba(disks), 8)).collect()
}

/// Sectors written, and read, for each that the host writes in small pieces.
fn cost_of_small_writes(level: Level, members: usize) -> (f64, f64) {
    let mut disks = Disks::new(members as u64);
    let drive = drive_run(&mut disks, find(BASELINE).unwrap());
    let run = of_drives(level, 24, vec![drive; members]);
    let requests = small_writes(&mut disks, run.host_sectors().unwrap());
    let depth = [1, 8][members % 2];
    let outcome = execute(&run, Settings { depth, ..Settings::default() }, &requests, &mut NoObserver);
    let host = outcome.host_written_sectors as f64;
    assert_eq!(outcome.write_amplification, Some(outcome.physical_written_sectors.total as f64 / host));
    (outcome.write_amplification.unwrap(), outcome.physical_read_sectors.total as f64 / host)
}

#[test]
fn a_small_write_costs_one_sector_a_copy_and_a_parity() {
    for members in 5..8 {
        let cost = |level| cost_of_small_writes(level, members).0;
        for once in [Level::Span, Level::Raid0] {
            assert_eq!(cost(once), 1.0, "{once}");
        }
        assert_eq!(cost(Level::Raid1), members as f64);
        assert_eq!(cost(Level::Raid10), 2.0);
        assert_eq!((cost(Level::Raid4), cost(Level::Raid5)), (2.0, 2.0));
        assert_eq!((cost(Level::Raid6), cost(Level::Raidz3)), (3.0, 4.0));
    }
}

#[test]
fn a_small_write_reads_the_fewest_sectors_that_give_its_parity() {
    for members in 5..8 {
        for (level, parities) in [(Level::Raid4, 1), (Level::Raid5, 1), (Level::Raid6, 2), (Level::Raidz3, 3)] {
            let (rmw, reconstruct) = (1.0 + parities as f64, (members - parities - 1) as f64);
            let reads = cost_of_small_writes(level, members).1;
            assert_eq!(reads, rmw.min(reconstruct), "{level} of {members}");
        }
        assert_eq!(cost_of_small_writes(Level::Raid1, members).1, 0.0);
    }
}

#[test]
fn a_whole_stripe_is_written_without_reading() {
    for (level, data) in [(Level::Raid4, 4), (Level::Raid5, 4), (Level::Raid6, 3), (Level::Raidz3, 2)] {
        let mut disks = Disks::new(1);
        let drive = drive_run(&mut disks, find(BASELINE).unwrap());
        let run = of_drives(level, 16, vec![drive; 5]);
        let (host_sectors, stripe) = (run.host_sectors().unwrap(), 16 * data);
        let requests: Vec<Request> = (0..host_sectors / stripe)
            .map(|number| Request::new(Op::Write, Lba(number * stripe), stripe as u32))
            .collect();
        let outcome = execute(&run, Settings::default(), &requests, &mut NoObserver);
        assert_eq!(outcome.physical_read_sectors.total, 0, "{level}");
        assert_eq!(outcome.physical_written_sectors.total * data, outcome.host_written_sectors * 5, "{level}");
    }
}

/// A random array, settings and requests.
fn trials(mut each: impl FnMut(&str, &ArrayRun, Settings, &[Request])) {
    for (seed, kind) in (0..SEEDS).flat_map(|seed| LEVELS.iter().map(move |spec| (seed, spec.level))) {
        if kind == Level::Dedicated {
            continue;
        }
        let mut disks = Disks::new(seed);
        let size = level(&mut disks, kind);
        let run = array_run(&mut disks, size, &LAYERS[seed as usize % LAYERS.len()]);
        let settings = random_settings(&mut disks.random);
        let requests = random_requests(&mut disks.random, run.host_sectors().unwrap(), 400);
        let requests = with_times(&mut disks.random, requests);
        each(&format!("{kind}, seed {seed}, {settings:?}"), &run, settings, &requests);
    }
}

fn add(a: ByCause, b: ByCause) -> [u64; 5] {
    [a.total + b.total, a.host + b.host, a.destage + b.destage, a.clean + b.clean, a.map + b.map]
}

fn parts(a: ByCause) -> [u64; 5] {
    add(a, ByCause::default())
}

#[test]
fn times_and_sectors_add_up_by_cause_and_over_members() {
    trials(|what, run, settings, requests| {
        let outcome = execute(run, settings, requests, &mut NoObserver);
        for member in &outcome.members {
            assert_eq!(member.busy_by_cause_ns.total, member.busy_ns, "{what}");
            for causes in [member.busy_by_cause_ns, member.physical_read_sectors, member.physical_written_sectors] {
                let [total, rest @ ..] = parts(causes);
                assert_eq!(total, rest.iter().sum::<u64>(), "{what}");
            }
        }
        let of: [fn(&Outcome) -> ByCause; 3] =
            [|m| m.busy_by_cause_ns, |m| m.physical_read_sectors, |m| m.physical_written_sectors];
        for of in of {
            let mut sums = [0; 5];
            for member in &outcome.members {
                sums.iter_mut().zip(parts(of(member))).for_each(|(sum, part)| *sum += part);
            }
            assert_eq!(sums, parts(of(&outcome)), "{what}");
        }
        let sum = |of: fn(&Outcome) -> u64| outcome.members.iter().map(of).sum::<u64>();
        assert_eq!(sum(|m| m.busy_ns), outcome.busy_ns, "{what}");
        assert_eq!(sum(|m| m.commands.physical_write), outcome.commands.physical_write, "{what}");
        assert_eq!(sum(|m| m.commands.physical_read), outcome.commands.physical_read, "{what}");
    });
}

#[test]
fn an_array_waits_for_cleaning_from_when_a_member_s_command_does() {
    let mut waited = 0;
    trials(|what, run, settings, requests| {
        let mut rows = RequestRows::default();
        let outcome = execute(run, settings, requests, &mut rows);
        let verdict = outcome.verdict;
        let first = outcome.members.iter().filter_map(|member| member.verdict.cache_full_at_s).reduce(f64::min);
        assert_eq!(verdict.cache_full_at_s, first, "{what}");
        let Some(at_s) = first else { return };
        waited += u32::from(at_s > 0.0);
        // What was answered at that very moment may count before it or after it.
        let answered = |until: &dyn Fn(f64) -> bool| {
            let rows =
                rows.0.iter().filter(|row| until(row.end_ns as f64 / 1e9) && matches!(row.op, Op::Read | Op::Write));
            rows.map(|row| f64::from(row.sectors) * 512.0).sum::<f64>()
        };
        let (before, with) = (answered(&|end_s| end_s < at_s - 1e-9), answered(&|end_s| end_s < at_s + 1e-9));
        let counted = verdict.rate_before_bytes_per_s.unwrap_or(0.0) * at_s;
        assert!(before - 1.0 < counted && counted < with + 1.0, "{what}: {before} to {with}, not {counted}");
        let after = verdict.rate_after_bytes_per_s.unwrap() * (outcome.elapsed_ns as f64 / 1e9 - at_s);
        let all = answered(&|_| true);
        assert!((counted + after - all).abs() < 1.0, "{what}: {counted} and {after} are not {all}");
    });
    assert!(waited >= 5, "{waited}");
}

#[test]
fn every_request_completes_once_and_latency_is_wait_and_service() {
    trials(|what, run, settings, requests| {
        let mut rows = RequestRows::default();
        let outcome = execute(run, settings, requests, &mut rows);
        let rows = rows.0;
        assert_eq!((outcome.requests as usize, rows.len()), (requests.len(), requests.len()), "{what}");
        let waits: u64 = rows.iter().map(|row| row.start_ns - row.arrival_ns).sum();
        let services: u64 = rows.iter().map(|row| row.end_ns - row.start_ns).sum();
        assert_eq!((waits.into(), services), (outcome.wait_ns, outcome.service_ns), "{what}");
        let key = |op: Op, lba: u64, sectors: u32| (lba, sectors, op as u8);
        let mut answered: Vec<_> = rows.iter().map(|row| key(row.op, row.lba, row.sectors)).collect();
        let mut sent: Vec<_> = requests.iter().map(|request| key(request.op, request.lba.0, request.sectors)).collect();
        answered.sort_unstable();
        sent.sort_unstable();
        assert_eq!(answered, sent, "{what}");
    });
}

fn json(outcome: &Outcome) -> String {
    serde_json::to_string(outcome).unwrap()
}

/// Host's side of an outcome.
fn seen(outcome: &Outcome) -> String {
    let o = outcome;
    let latencies = (&o.latency_ns, o.wait_ns, o.service_ns, o.elapsed_ns, o.arrivals_ns);
    let verdict = Verdict { text: "an array calls itself one".into(), ..o.verdict.clone() };
    let sectors = (o.host_read_sectors, o.host_written_sectors, &o.commands, &o.adjusted, verdict);
    // Drives of an array are ahead of each other, so that their writes may be seen in another window.
    let timeline = Timeline { physical_written_bytes: Vec::new(), ..o.timeline.clone() };
    format!("{:?} {latencies:?} {sectors:?} {:?} {timeline:?}", o.requests, o.latency_histogram)
}

#[test]
fn an_array_of_one_drive_is_that_drive() {
    for (seed, spec) in (0..SEEDS).flat_map(|seed| LAYERS.iter().map(move |spec| (seed, spec))) {
        let mut disks = Disks::new(seed);
        let drive = drive_run(&mut disks, spec);
        let settings = Settings {
            depth: [1, 8][seed as usize % 2],
            prefill: [Prefill::None, Prefill::Sequential, Prefill::Random(0.5)][disks.random.random_range(0..3)],
            // Arrays count it always.
            movement: true,
            warmup: Warmup::Requests([0, 100][disks.random.random_range(0..2)]),
            check: disks.random.random_bool(0.3),
            ..random_settings(&mut disks.random)
        };
        // Where drives order their commands, an array keeps the order of those for the same sectors, and a drive does not.
        let settings = Settings { queue: Queue::Fcfs, ..settings };
        for kind in [Level::Span, Level::Raid0, Level::Dedicated] {
            let what = format!("{kind} of {}, seed {seed}, {settings:?}", spec.name);
            // Chunks that leave nothing over: the array has all of the drive.
            let sectors = drive.host_sectors().unwrap();
            let chunk = (1..=64).rev().find(|chunk| sectors.is_multiple_of(*chunk)).unwrap();
            let run = of_drives(kind, chunk, vec![drive.clone()]);
            let requests = random_requests(&mut Disks::new(seed).random, run.host_sectors().unwrap(), 500);
            let requests = with_times(&mut disks.random, requests);
            let array = execute(&run, settings, &requests, &mut NoObserver);
            let single = plan(drive.clone(), settings).unwrap();
            let single = serve(&single, &Table(requests.into()), &mut NoObserver).unwrap();
            assert_eq!(seen(&array), seen(&single), "{what}");
            // Members have no intervals of their own.
            let single = Outcome { confidence: None, ..single };
            assert_eq!(json(&array.members[0]), json(&single), "{what}");
        }
    }
}

/// Counters of a drive, but for its times: those of rotation depend on when it was asked.
fn counters(o: &Outcome) -> String {
    let sectors = (o.physical_read_sectors, o.physical_written_sectors, o.host_read_sectors, o.host_written_sectors);
    format!("{:?} {sectors:?} {:?} {:?} {:?} {:?}", o.movement, o.commands, o.adjusted, o.surface, o.layer_stats)
}

/// A layer, and parameters that are set.
type Set = (&'static str, &'static [(&'static str, &'static str)]);

/// The layers of the arrays' study: in place, with the band's tail copied, with a band held open, a log.
const STUDY: [Set; 4] = [
    ("in-place", &[]),
    ("rmw", &[("region_sectors", "500")]),
    ("rmw", &[("region_sectors", "500"), ("hold", "1")]),
    ("log", &[("spare_percent", "20")]),
];

#[test]
fn sources_as_large_as_members_are_served_as_if_alone() {
    for (name, set) in STUDY {
        let drive = Drive::load("tiny").unwrap().with_capacity(60_000).unwrap();
        let drive = DriveRun { drive, layer: find(name).unwrap(), parameters: parameters(name, set) };
        let settings = Settings { movement: true, prefill: Prefill::None, ..Settings::default() };
        let sectors = drive.host_sectors().unwrap();
        let of_source = |seed| {
            let mut requests = random_requests(&mut Disks::new(seed).random, sectors, 700);
            requests.retain(|request| request.op != Op::Flush);
            requests
        };
        let pure = [1, 2, 3].map(|seed| {
            let run = plan(drive.clone(), settings).unwrap();
            counters(&serve(&run, &Table(of_source(seed).into()), &mut NoObserver).unwrap())
        });
        for operations in [1, 7, 50, 1000] {
            let rule = Interleave::Burst { operations };
            for (level, placement) in
                [(Level::Span, SourcePlacement::EndToEnd), (Level::Dedicated, SourcePlacement::Zero)]
            {
                let part = |seed| MergePart { source: InMemory::new(of_source(seed)), sectors };
                let mut merged = Interleaved::new([1, 2, 3].map(part).into(), rule, placement, 9).unwrap();
                let run = of_drives(level, 8, vec![drive.clone(); 3]);
                let run = plan(run, settings).unwrap();
                let outcome = run.execute_with(&mut Idle, &mut merged, &mut NoObserver).unwrap();
                let found: Vec<String> = outcome.members.iter().map(counters).collect();
                assert_eq!(found, pure, "{name} {set:?}, {level}, burst {operations}");
            }
        }
    }
}

#[test]
fn the_same_run_gives_the_same_bytes_on_any_thread() {
    trials(|what, run, settings, requests| {
        let once = || json(&execute(run, settings, requests, &mut NoObserver));
        let first = once();
        let others = std::thread::scope(|scope| {
            let one = scope.spawn(once);
            [once(), one.join().unwrap()]
        });
        assert!(others.iter().all(|other| *other == first), "{what}");
    });
}

#[test]
fn members_give_as_many_sectors_as_they_are_told_and_have() {
    let mut disks = Disks::new(1);
    let drive = drive_run(&mut disks, find(BASELINE).unwrap());
    let run = of_drives(Level::Span, 8, vec![drive; 2]);
    let whole = run.host_sectors().unwrap() / 2;
    let within = |sectors: &[u64]| ArrayRun { used_sectors: Some(sectors.to_vec()), ..run.clone() }.host_sectors();
    assert_eq!(within(&[100, u64::MAX]).unwrap(), 100 + whole);
    let error = within(&[100]).unwrap_err().to_string();
    assert_eq!(error, "1 sizes for 2 members: give one for each");
}
