//! Nothing is lost or counted twice: what a run reports against what was sent, what a witness saw at the disk's door,
//! what the medium counted, and the row of every request. Over all layers, random small drives, clocks and settings.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use crate::common::planned::{plan, serve, with};
use crate::common::{Disks, TinyClock, random_requests, random_settings, with_times};
use rand::RngExt;
use smrkit::device::{Device, LayeredDisk, MemberDrive, Queueing};
use smrkit::disk::{Disk, Recorder};
use smrkit::drive::{DRIVES, Drive};
use smrkit::engine::system::{DriveRun, SystemRun};
use smrkit::engine::task::Idle;
use smrkit::engine::{Engine, NoObserver, Observer, RequestRows};
use smrkit::error::DiskResult;
use smrkit::experiment::demand::Table;
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::system::System;
use smrkit::layer::{BASELINE, Capacity, LAYERS, Layer, LayerSpec, Need, Parameters};
use smrkit::medium::interference::{Form, Interference};
use smrkit::medium::{Ascending, Buf, Medium, Placement};
use smrkit::request::{InMemory, Op, Request};
use smrkit::settings::{Prefill, Queue, Settings, Warmup};
use smrkit::stats::counts::HostCounts;
use smrkit::stats::counts::RequestRow;
use smrkit::stats::outcome::{ByCause, Latency, Outcome};
use smrkit::stats::timeline::TimelineBuilder;
use smrkit::tally::{Access, Cause, adjusted};
use smrkit::units::{Lba, Nanos, Pba, SECTOR_BYTES};

const SEEDS: u64 = 40;
const REQUESTS: u64 = 600;

/// Sees every access at the disk's door.
#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Vec<Access>>>);

impl Recorder for Witness {
    fn access(&mut self, access: &Access) {
        self.0.lock().unwrap().push(*access);
    }
}

/// Keeps every request's row, and every access.
#[derive(Default)]
struct Seen {
    rows: RequestRows,
    witness: Witness,
}

impl Observer for Seen {
    fn wants_requests(&self) -> bool {
        true
    }
    fn request(&mut self, row: &RequestRow) {
        self.rows.request(row);
    }
    fn recorder(&mut self, _: usize) -> Option<Box<dyn Recorder>> {
        Some(Box::new(self.witness.clone()))
    }
}

/// The drive of a run.
fn drive_of(run: &PlannedRun) -> &DriveRun {
    &run.system().drives()[0]
}

/// A random drive, layer parameters and settings; calls `each` where the parameters fit the drive.
fn trials(mut each: impl FnMut(&str, PlannedRun, Vec<Request>)) {
    let mut fitting = vec![0; LAYERS.len()];
    for (seed, spec) in (0..SEEDS).flat_map(|seed| LAYERS.iter().map(move |spec| (seed, spec))) {
        let mut disks = Disks::new(seed);
        let forms = if spec.copes_with.is_empty() { &Form::ALL } else { spec.copes_with };
        let form = forms[disks.random.random_range(0..forms.len())];
        let clock = TinyClock::ALL[disks.random.random_range(0..TinyClock::ALL.len())];
        let drive = disks.drive_with(clock, form);
        let parameters = disks.parameters(spec);
        let settings = random_settings(&mut disks.random);
        let Ok(run) = plan(DriveRun { drive, layer: spec, parameters }, settings) else { continue };
        let requests = random_requests(&mut disks.random, run.host_sectors().unwrap(), REQUESTS);
        let requests = with_times(&mut disks.random, requests);
        let what = format!("{} on {clock:?} under {form:?}, seed {seed}", spec.name);
        each(&what, run, requests);
        fitting[LAYERS.iter().position(|s| s.name == spec.name).unwrap()] += 1;
    }
    assert!(fitting.iter().all(|&trials| trials > SEEDS / 2), "too few fit the drives: {fitting:?}");
}

fn execute(run: &PlannedRun, requests: &[Request]) -> (Outcome, Vec<RequestRow>, Vec<Access>) {
    let mut seen = Seen::default();
    let outcome = serve(run, &Table(requests.into()), &mut seen);
    let accesses = std::mem::take(&mut *seen.witness.0.lock().unwrap());
    (outcome.unwrap(), seen.rows.0, accesses)
}

fn by_cause(accesses: &[Access], write: Option<bool>, of: impl Fn(&Access) -> u64) -> ByCause {
    let sum = |cause: Cause| {
        accesses.iter().filter(|a| a.cause == cause && write.is_none_or(|w| w == a.write)).map(&of).sum::<u64>()
    };
    let [host, destage, clean, map] = Cause::ALL.map(sum);
    ByCause { total: host + destage + clean + map, host, destage, clean, map }
}

/// When all was done: a write cache goes on writing after the last completion.
fn all_done(outcome: &Outcome, accesses: &[Access]) -> u64 {
    accesses.last().map_or(0, |last| (last.start + last.duration).0).max(outcome.elapsed_ns)
}

#[test]
fn what_the_host_sent_is_what_was_counted() {
    trials(|what, run, requests| {
        let (outcome, rows, _) = execute(&run, &requests);
        let count = |op| requests.iter().filter(|r| r.op == op).count() as u64;
        let sum = |op, of: fn(u64) -> u64| requests.iter().filter(|r| r.op == op).map(|r| of(r.sectors.into())).sum();
        let sectors = |op| -> u64 { sum(op, |n| n) };
        assert_eq!((outcome.requests, rows.len()), (REQUESTS, requests.len()), "{what}");
        assert_eq!(outcome.host_read_sectors, sectors(Op::Read), "{what}");
        assert_eq!(outcome.host_written_sectors, sectors(Op::Write), "{what}");
        let (commands, adjusted_commands) = (outcome.commands, outcome.adjusted);
        assert_eq!((commands.host_read, commands.host_write), (count(Op::Read), count(Op::Write)), "{what}");
        assert_eq!(adjusted_commands.host_read, sum(Op::Read, adjusted), "{what}");
        assert_eq!(adjusted_commands.host_write, sum(Op::Write, adjusted), "{what}");
        let served = |op| rows.iter().filter(|r| r.op == op).map(|r| u64::from(r.sectors)).sum::<u64>();
        assert_eq!((served(Op::Read), served(Op::Write)), (sectors(Op::Read), sectors(Op::Write)), "{what}");
    });
}

#[test]
fn a_row_leads_to_the_request_of_its_source() {
    trials(|what, run, mut requests| {
        requests.iter_mut().enumerate().for_each(|(number, request)| request.source = (number * number % 3) as u8);
        let settings = Settings { warmup: Warmup::Requests(REQUESTS / 4), ..*run.settings() };
        let (_, rows, _) = execute(&run.with(settings), &requests);
        let sent = |source: u8| requests.iter().filter(|request| request.source == source).collect::<Vec<_>>();
        let sources = [0, 1, 2].map(sent);
        for row in &rows {
            let Request { op, lba, sectors, .. } = *sources[usize::from(row.source)][row.row as usize];
            assert_eq!((row.op, row.lba, row.sectors), (op, lba.0, sectors), "{what}, request {}", row.index);
        }
        let places: BTreeSet<(u8, u64)> = rows.iter().map(|row| (row.source, row.row)).collect();
        assert_eq!(places.len() as u64, REQUESTS - REQUESTS / 4, "{what}: each row is one request's");
    });
}

#[test]
fn what_is_reported_of_the_platters_is_what_passed_the_door() {
    trials(|what, run, requests| {
        let (outcome, _, accesses) = execute(&run, &requests);
        assert_eq!(outcome.physical_read_sectors, by_cause(&accesses, Some(false), |a| a.sectors), "{what}");
        assert_eq!(outcome.physical_written_sectors, by_cause(&accesses, Some(true), |a| a.sectors), "{what}");
        assert_eq!(outcome.busy_by_cause_ns, by_cause(&accesses, None, |a| a.duration.0), "{what}");
        let commands = (outcome.commands.physical_read, outcome.commands.physical_write);
        let total = |write| by_cause(&accesses, Some(write), |_| 1).total;
        assert_eq!(commands, (total(false), total(true)), "{what}");
        let commands = (outcome.adjusted.physical_read, outcome.adjusted.physical_write);
        let total = |write| by_cause(&accesses, Some(write), |a| adjusted(a.sectors)).total;
        assert_eq!(commands, (total(false), total(true)), "{what}");
        let cleaning = [Cause::Destage, Cause::Clean];
        let cleaned = accesses.iter().filter(|a| cleaning.contains(&a.cause));
        let (sectors, ns) = cleaned.fold((0, 0), |(s, ns), a| (s + a.sectors, ns + a.duration.0));
        assert_eq!((outcome.cleaning.sectors, outcome.cleaning.ns), (sectors, ns), "{what}");
    });
}

#[test]
fn the_head_moves_as_the_accesses_at_the_door_say() {
    trials(|what, run, requests| {
        let of = |movement| run.clone().with(Settings { movement, ..*run.settings() });
        let run = of(true);
        let (outcome, _, accesses) = execute(&run, &requests);
        let geometry = &drive_of(&run).drive.geometry;
        let first = |access: &Access| geometry.track_of(access.pba).0;
        let last = |access: &Access| geometry.track_of(access.pba + (access.sectors - 1)).0;
        let steps = accesses.windows(2).map(|pair| (pair[1].cause, last(&pair[0]).abs_diff(first(&pair[1]))));
        let (mut distance, mut count) = ([0; 4], [0; 4]);
        for (cause, tracks) in steps {
            distance[cause as usize] += tracks;
            count[cause as usize] += u64::from(tracks > 0);
        }
        let movement = outcome.movement.expect("it was asked for");
        for (found, expected) in [(movement.track_distance, distance), (movement.track_count, count)] {
            assert_eq!([found.host, found.destage, found.clean, found.map], expected, "{what}");
            assert_eq!(found.total, expected.iter().sum::<u64>(), "{what}");
        }
        let strokes = movement.track_distance.clean as f64 / geometry.tracks as f64;
        assert_eq!(movement.stroke_share.clean, strokes, "{what}");
        let cleaned = outcome.physical_written_sectors.clean > 0;
        assert!(cleaned || movement.bands_moved.total == 0, "{what}: bands moved without a write");
        let quiet = execute(&of(false), &requests).0;
        let engine = quiet.engine;
        assert!(outcome.engine.movement && !engine.movement, "{what}");
        assert_eq!(quiet, Outcome { movement: None, engine, ..outcome }, "{what}: counting changes nothing else");
    });
}

#[test]
fn a_log_written_in_order_goes_one_track_at_a_time() {
    let drive = Drive::load("tiny-constant").unwrap();
    let settings = Settings { movement: true, prefill: Prefill::None, ..Settings::default() };
    let run = with(System::of(drive.clone()), "log", &[("segment_tracks", "4")]).run(settings).unwrap();
    let requests: Vec<Request> = (0..500).map(|i| Request::new(Op::Write, Lba(i * 8), 8)).collect();
    let (outcome, _, accesses) = execute(&run, &requests);
    let track = |pba: Pba| drive.geometry.track_of(pba).0;
    let reached = track(accesses.last().unwrap().pba + 7) - track(accesses[0].pba);
    let movement = outcome.movement.unwrap();
    // What lies across a track's end is no movement; each other step is one track.
    assert!(movement.track_distance.total <= reached && movement.track_count.total > 0, "{movement:?} {reached}");
    assert_eq!(movement.track_count, movement.track_distance);
}

#[test]
fn the_surface_shows_every_sector_written_where_it_was_written() {
    trials(|what, run, requests| {
        let (outcome, _, accesses) = execute(&run, &requests);
        let surface = &outcome.surface;
        for (cause, parts) in Cause::ALL.iter().zip([&surface.host, &surface.destage, &surface.clean, &surface.map]) {
            let mut expected = vec![0; parts.len()];
            for access in accesses.iter().filter(|a| a.write && a.cause == *cause) {
                for sector in 0..access.sectors {
                    expected[((access.pba.0 + sector) / surface.part_sectors) as usize] += 1;
                }
            }
            assert_eq!(parts, &expected, "{what}");
        }
    });
}

#[test]
fn time_is_spent_once() {
    trials(|what, run, requests| {
        let (outcome, rows, accesses) = execute(&run, &requests);
        assert_eq!(outcome.busy_ns, outcome.busy_by_cause_ns.total, "{what}");
        let until = all_done(&outcome, &accesses);
        assert!(outcome.working_ns() <= until, "{what}: busy {} of {until}", outcome.working_ns());
        let caches = drive_of(&run).drive.clock.write_cache_sectors() > 0;
        assert!(caches || until == outcome.elapsed_ns, "{what}: an access after the last completion");
        let apart = accesses.windows(2).all(|pair| pair[0].start + pair[0].duration <= pair[1].start);
        assert!(apart, "{what}: two accesses at once");
        let ordered = rows.iter().all(|r| r.arrival_ns <= r.start_ns && r.start_ns <= r.end_ns);
        assert!(ordered, "{what}: a request answered before it came");
        // Writes that have waited together may be one.
        let together = |pair: &[RequestRow]| (pair[0].start_ns, pair[0].end_ns) == (pair[1].start_ns, pair[1].end_ns);
        let alone = rows.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns || together(pair));
        assert!(caches || alone, "{what}: two requests served at once");
        let sum = |of: fn(&RequestRow) -> u64| rows.iter().map(of).sum::<u64>();
        assert_eq!(outcome.wait_ns, sum(|r| r.start_ns - r.arrival_ns).into(), "{what}");
        assert_eq!(outcome.service_ns, sum(|r| r.end_ns - r.start_ns), "{what}");
        let latencies = outcome.wait_ns + u128::from(outcome.service_ns);
        assert_eq!(latencies, sum(|r| r.end_ns - r.arrival_ns).into(), "{what}");
        assert_eq!(outcome.elapsed_ns, rows.iter().map(|r| r.end_ns).max().unwrap_or(0), "{what}");
    });
}

#[test]
fn latencies_are_those_of_the_rows() {
    trials(|what, run, requests| {
        let (outcome, rows, _) = execute(&run, &requests);
        let sorted = |wanted: fn(Op) -> bool| {
            let rows = rows.iter().filter(|r| wanted(r.op));
            let mut latencies: Vec<u64> = rows.map(|r| r.end_ns - r.arrival_ns).collect();
            latencies.sort_unstable();
            latencies
        };
        let (read, write) = (sorted(|op| op == Op::Read), sorted(|op| op == Op::Write));
        assert_same_distribution(what, &outcome.latency_ns.all, &sorted(|_| true));
        assert_same_distribution(what, &outcome.latency_ns.read, &read);
        assert_same_distribution(what, &outcome.latency_ns.write, &write);
        let drawn = |steps: &[(u64, u64)]| steps.iter().map(|step| step.1).sum::<u64>();
        assert_eq!(drawn(&outcome.latency_histogram.read), read.len() as u64, "{what}");
        assert_eq!(drawn(&outcome.latency_histogram.write), write.len() as u64, "{what}");
    });
}

/// Count, mean and maximum exact; percentiles by nearest rank within 0.01 %.
fn assert_same_distribution(what: &str, found: &Latency, sorted: &[u64]) {
    let Some(&max) = sorted.last() else { return assert_eq!(*found, Latency::default(), "{what}") };
    let count = sorted.len() as u64;
    assert_eq!((found.count, found.max), (count, max), "{what}");
    assert_eq!(found.mean, (sorted.iter().sum::<u64>() + count / 2) / count, "{what}");
    let percentiles = [
        (50.0, found.p50),
        (90.0, found.p90),
        (95.0, found.p95),
        (99.0, found.p99),
        (99.5, found.p99_5),
        (99.9, found.p99_9),
    ];
    for (percent, value) in percentiles {
        let rank = (count as f64 * percent / 100.0).ceil().max(1.0) as usize;
        let exact = sorted[rank - 1];
        assert!(value.abs_diff(exact) as f64 <= exact as f64 * 1e-4, "{what}: p{percent} is {value}, not {exact}");
    }
}

#[test]
fn the_timeline_sums_to_the_totals() {
    trials(|what, run, requests| {
        let (outcome, ..) = execute(&run, &requests);
        let timeline = &outcome.timeline;
        assert_eq!(timeline.requests.iter().sum::<u64>(), outcome.requests, "{what}");
        assert_eq!(timeline.read_bytes.iter().sum::<u64>(), outcome.host_read_sectors * SECTOR_BYTES, "{what}");
        assert_eq!(timeline.written_bytes.iter().sum::<u64>(), outcome.host_written_sectors * SECTOR_BYTES, "{what}");
        let physical = outcome.physical_written_sectors.total * SECTOR_BYTES;
        assert_eq!(timeline.physical_written_bytes.iter().sum::<u64>(), physical, "{what}");
        assert_eq!(timeline.longest_ns.iter().max().copied(), Some(outcome.latency_ns.all.max), "{what}");
        let windows = timeline.requests.len() as u64;
        assert!(timeline.window_ns * windows >= outcome.elapsed_ns, "{what}: the timeline ends before the run");
        let has_cache = outcome.capacity.cache_sectors > 0;
        let fills = timeline.cache_fill.len() as u64;
        assert_eq!(fills, if has_cache { windows } else { 0 }, "{what}");
        assert!(timeline.cache_fill.iter().all(|fill| (0.0..=1.0).contains(fill)), "{what}");
    });
}

#[test]
fn warm_up_leaves_the_rest_to_be_counted() {
    trials(|what, run, requests| {
        let settings = Settings { warmup: Warmup::Requests(100), ..*run.settings() };
        let (outcome, rows, accesses) = execute(&run.with(settings), &requests);
        assert_eq!((outcome.requests, rows.len()), (REQUESTS - 100, requests.len() - 100), "{what}");
        assert!(outcome.physical_written_sectors.total <= by_cause(&accesses, Some(true), |a| a.sectors).total);
        assert!(outcome.busy_ns <= all_done(&outcome, &accesses), "{what}");
        assert_eq!(outcome.latency_ns.all.count, outcome.requests, "{what}");
        assert_eq!(outcome.timeline.requests.iter().sum::<u64>(), outcome.requests, "{what}");
    });
}

#[test]
fn the_medium_counts_the_same_sectors() {
    trials(|what, run, requests| {
        let mut drive = drive_of(&run).drive.clone();
        if drive_of(&run).layer.name == BASELINE {
            drive.interference = Interference::None;
        }
        let settings = Settings { check: true, ..*run.settings() };
        let member = SystemRun::from(DriveRun { drive, ..drive_of(&run).clone() }).build(&settings).unwrap();
        let counts = HostCounts::new(TimelineBuilder::growing(Nanos(1_000_000)));
        let (mut task, mut observer) = (Idle, NoObserver);
        let mut engine = Engine::new(member, settings, counts, &mut task, &mut observer);
        engine.run(&mut InMemory::new(requests)).unwrap_or_else(|error| panic!("{what}: {error}"));
        let drives = engine.device.drives_mut();
        let device = drives[0].device_mut();
        let counted: u64 = Cause::ALL.iter().map(|&cause| device.disk.tally().writes(cause).sectors).sum();
        let written = device.disk.stamps().unwrap().written_sectors();
        assert_eq!(counted, written, "{what}");
        assert!(written > 0 || drive_of(&run).parameters.scalars().contains_key("hold"), "{what}: nothing was written");
    });
}

#[test]
fn every_sector_of_a_drive_has_its_use() {
    let whole = |what: &str, spec: &LayerSpec, drive: &Drive, parameters: &Parameters| {
        let Ok(layer) = (spec.build)(drive, parameters) else { return };
        let c = layer.capacity();
        assert_eq!(c.raw_sectors, drive.geometry.sectors, "{what}");
        let used = c.host_sectors + c.cache_sectors + c.guard_sectors + c.spare_sectors;
        assert_eq!(used, c.raw_sectors, "{what}: {c:?}");
    };
    trials(|what, run, _| whole(what, drive_of(&run).layer, &drive_of(&run).drive, &drive_of(&run).parameters));
    for (name, _) in DRIVES {
        let drive = Drive::load(name).unwrap();
        for spec in LAYERS {
            let defaults = spec.resolve_on(&drive, &[]).unwrap();
            whole(&format!("{} on {name}", spec.name), spec, &drive, &defaults);
        }
    }
}

/// A layer that owes a rewrite of a track after each write, to be done before the next request.
struct Owing {
    sectors: u64,
    owes: bool,
}

impl Layer for Owing {
    fn capacity(&self) -> Capacity {
        Capacity { raw_sectors: self.sectors, host_sectors: self.sectors, ..Capacity::default() }
    }
    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        disk.read(Pba(lba.0), n, Cause::Host, out, 0)
    }
    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        self.owes = true;
        disk.write(Pba(lba.0), n, Cause::Host, data, 0)
    }
    fn discard(&mut self, _disk: &mut Disk, _lba: Lba, _n: u64) -> DiskResult {
        Ok(())
    }
    fn step(&mut self, disk: &mut Disk, need: Need) -> DiskResult<bool> {
        if need == Need::Must && std::mem::take(&mut self.owes) {
            disk.write(Pba(0), 64, Cause::Clean, &disk.buf(64), 0)?;
            return Ok(true);
        }
        Ok(false)
    }
    fn fill(&mut self) -> Arc<dyn Placement> {
        Arc::new(Ascending::new(self.sectors, |lba| Pba(lba.0)))
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
}

#[test]
fn the_next_request_waits_for_what_the_drive_owes() {
    let drive = Drive::load("tiny").unwrap();
    let sectors = drive.geometry.sectors;
    let requests = random_requests(&mut Disks::new(1).random, sectors, REQUESTS);
    let mut seen = Seen::default();
    let accesses = Arc::clone(&seen.witness.0);
    let disk = Disk::new(&drive, Medium::NoData);
    let device = LayeredDisk::new(disk, Box::new(Owing { sectors, owes: false }));
    let counts = HostCounts::new(TimelineBuilder::growing(Nanos(1_000_000)));
    let queueing = Queueing::new(Queue::Fcfs, 1, None);
    let member = Device::Drive(Box::new(MemberDrive::new(device, queueing)));
    let mut task = Idle;
    let mut engine = Engine::new(member, Settings::default(), counts, &mut task, &mut seen);
    engine.run(&mut InMemory::new(requests)).unwrap();
    let (drives, counts) = (engine.device.drives(), &engine.counts);
    let busy = by_cause(&accesses.lock().unwrap(), None, |access| access.duration.0);
    assert!(busy.clean > 0);
    assert_eq!((counts.totals.wait_ns, counts.totals.service_ns), (busy.clean.into(), busy.host));
    assert_eq!(counts.elapsed().0, busy.total);
    assert_eq!(drives[0].device().disk.tally().busy().0, busy.total);
}
