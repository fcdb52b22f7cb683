//! The write cache of a drive, the same for every layer: what it makes faster, and what it promises.

use crate::common::planned::{serve, with};
use crate::common::rebuilds::conventional;
use crate::common::{Disks, count, random_requests};
use rand::RngExt;
use smrkit::drive::Drive;
use smrkit::engine::{NoObserver, RequestRows};
use smrkit::experiment::demand::{Demand, GeneratedDemand, Table};
use smrkit::experiment::system::System;
use smrkit::layer::{BASELINE, LAYERS, LayerSpec};
use smrkit::request::{Op, Request};
use smrkit::settings::{Arrival, Prefill, Queue, Settings};
use smrkit::stats::outcome::Outcome;
use smrkit::units::{Lba, Nanos, SECTOR_BYTES};
use smrkit::workload::Workload;

const PRODUCT: &str = "st8000as0002";
const OFF: &str = "@mechanical.write_cache_bytes=0";

fn drive(name: &str, cached: bool) -> Drive {
    Drive::load(&format!("{name}{}", if cached { "" } else { OFF })).unwrap()
}

fn run(drive: Drive, layer: &str, depth: u32, demand: &dyn Demand) -> Outcome {
    let drive = if layer == BASELINE { conventional(drive) } else { drive };
    let settings = Settings { depth, queue: Queue::Drive, prefill: Prefill::Full, ..Settings::default() };
    serve(&with(System::of(drive), layer, &[]).run(settings).unwrap(), demand, &mut NoObserver).unwrap()
}

fn workload(text: &str) -> GeneratedDemand {
    GeneratedDemand { span: Some(8_000_000_000), ..Workload::parse(text).unwrap().into() }
}

fn rate(outcome: &Outcome) -> f64 {
    outcome.requests as f64 / (outcome.elapsed_ns as f64 / 1e9)
}

/// Writes, and a flush at their end, so that what a cache still holds counts.
fn flushed(mut writes: Vec<Request>) -> Table {
    writes.push(Request::new(Op::Flush, Lba(0), 0));
    Table(writes.into())
}

/// A cache may order, join and overwrite more than a queue of 32 can. The disk is a small one that is written more than once, since
/// layers that put work off do it sooner or later.
#[test]
fn a_drive_with_its_cache_on_is_never_slower_than_with_a_queue() {
    let mut random = Disks::new(1).random;
    let span = 4_000_000u64;
    let small = |cached, layer: &LayerSpec| {
        let mut product = drive(PRODUCT, cached).with_capacity(10_000_000).unwrap();
        if layer.check_on(&product).is_err() {
            // Sold as no kind of disk, it can have the layers of host-managed ones as well.
            product.translation = None;
        }
        product
    };
    let mut scattered = |sectors: u64, count: u64| -> Vec<Request> {
        let mut place = || Lba(random.random_range(0..span / sectors) * sectors);
        (0..count).map(|_| Request::new(Op::Write, place(), sectors as u32)).collect()
    };
    let stream = |sectors: u64| -> Vec<Request> {
        let write =
            move |i: u64| Request::new(Op::Write, Lba(i * sectors % (span / sectors * sectors)), sectors as u32);
        (0..2 * span / sectors).map(write).collect()
    };
    let demands: [(&str, Vec<Request>); 7] = [
        ("scattered", scattered(8, 20_000)),
        ("scattered 64 KiB", scattered(128, 3000)),
        ("scattered 128 KiB", scattered(256, 3000)),
        ("scattered 256 KiB", scattered(512, 3000)),
        ("scattered 512 KiB", scattered(1024, 2000)),
        ("stream", stream(256)),
        ("large", stream(2048)),
    ];
    let mut slower = Vec::new();
    for layer in LAYERS {
        for (what, writes) in &demands {
            let demand = flushed(writes.clone());
            // By algorithm V.4 whole S-blocks go past the cache buffer, whoever joins them: that costs more than what small writes put off.
            let long = layer.name == "s-block" && !what.starts_with("scattered");
            let queued = if long { &flushed(stream(16_384)) } else { &demand };
            let queued = run(small(false, layer), layer.name, 32, queued).elapsed_ns;
            for depth in [1, 32] {
                let cached = run(small(true, layer), layer.name, depth, &demand).elapsed_ns;
                let ratio = cached as f64 / queued as f64;
                if ratio >= if layer.name == "s-block" && *what != "scattered" { 1.1 } else { 1.05 } {
                    slower.push(format!("{}, {what} at depth {depth}: {ratio:.2} times as long", layer.name));
                }
            }
        }
    }
    assert!(slower.is_empty(), "{slower:#?}");
}

/// What disks do: WD40EFRX and their like at 5,400 to 5,900 rotations a minute.
#[test]
fn a_conventional_disk_orders_writes_in_its_cache_or_in_its_queue() {
    let writes = GeneratedDemand::from(Workload::parse("random-write:size=4Ki,count=4k").unwrap());
    let of = |cached, depth| rate(&run(drive(PRODUCT, cached), BASELINE, depth, &writes));
    let [plain, cached, queued] = [of(false, 1), of(true, 1), of(false, 32)];
    assert!((60.0..90.0).contains(&plain), "{plain} a second");
    for ordered in [cached, queued, of(true, 32)] {
        assert!(ordered >= 150.0 && (2.0..3.5).contains(&(ordered / plain)), "{ordered} a second of {plain}");
    }
}

#[test]
fn no_transfer_beats_the_bus() {
    for layer in [BASELINE, "drive-managed"] {
        for text in [
            "sequential-write:size=1Mi,count=20",
            "sequential-write:size=4Ki,count=100",
            "random-write:size=64Ki,count=50",
        ] {
            for depth in [1, 32] {
                let outcome = run(drive(PRODUCT, true), layer, depth, &workload(text));
                let bytes = outcome.host_written_sectors * SECTOR_BYTES;
                let rate = bytes as f64 / (outcome.elapsed_ns as f64 / 1e9);
                assert!(rate < 600e6, "{layer}, {text} at depth {depth}: {rate} bytes/s");
            }
        }
    }
}

/// A band that is written from its beginning to its end costs its own time: nothing behind it has to be saved.
#[test]
fn a_stream_runs_at_the_conventional_speed() {
    for text in ["sequential-write:size=128Ki,count=20k", "sequential-write:size=1Mi,count=2500"] {
        for depth in [1, 32] {
            let of = |layer| run(drive(PRODUCT, true), layer, depth, &workload(text)).elapsed_ns as f64;
            let (managed, conventional) = (of("drive-managed"), of(BASELINE));
            assert!(managed < 1.1 * conventional, "{text} at depth {depth}: {}", managed / conventional);
        }
    }
}

/// A stream that is still coming stays in the cache until it reaches its band's end, while scattered writes go to the platters: cut in
/// the middle of a band, it would have the tracks behind it saved each time.
#[test]
fn a_stream_goes_band_by_band_beside_scattered_writes() {
    let at = |i: u64| Nanos(i * 1_200_000);
    let stream = |i: u64| Request { time: at(i), ..Request::new(Op::Write, Lba(i * 256), 256) };
    let scattered = |i: u64| Request { time: at(i), ..Request::new(Op::Write, Lba(5_000_000_000 + i * 1_000_000), 8) };
    let both = (0..6000).flat_map(|i| [Some(stream(i)), (i % 8 == 0).then(|| scattered(i))]).flatten();
    let settings =
        Settings { arrival: Arrival::Trace, queue: Queue::Drive, prefill: Prefill::Full, ..Settings::default() };
    let run = with(System::of(drive(PRODUCT, true)), "drive-managed", &[]).run(settings).unwrap();
    let outcome = serve(&run, &Table(both.collect()), &mut NoObserver).unwrap();
    assert!(count(&outcome, "bypassed_sectors") > 1_200_000, "{}", count(&outcome, "bypassed_sectors"));
    assert_eq!(outcome.physical_read_sectors.host, 0, "nothing had to be saved");
}

/// What is on its way to the platters takes room in the cache until it is there, so that a flush is soon done.
#[test]
fn writes_on_their_way_to_the_platters_take_room_in_the_cache() {
    let rows = |interval_ns: u64| {
        let writes = (0..400).map(|i| Request::new(Op::Write, Lba(i * 10_000_000), 8));
        let run = with(System::of(drive("wd40ndzw", true)), "log", &[]);
        let mut rows = RequestRows::default();
        serve(&run.run(Settings::default()).unwrap(), &Table(writes.collect()), &mut rows).unwrap();
        rows.0.iter().filter(|row| row.end_ns < interval_ns).count()
    };
    // The first batch of 32 takes a rotation, 11 ms, of which the cache needs seven to take 64 writes.
    let (soon, later) = (rows(10_000_000), rows(60_000_000));
    assert!((33..=64).contains(&soon) && later > 100, "{soon}, {later}");
}

/// Such a host wants each write to last, and the log is what promises that soonest: even a stream goes there.
#[test]
fn a_stream_of_flushed_writes_goes_to_the_log() {
    let stream = |flushes: bool| {
        let write = |i: u64| Request::new(Op::Write, Lba(i * 8192), 8192);
        let flush = || flushes.then(|| Request::new(Op::Flush, Lba(0), 0));
        Table((0..60).flat_map(|i| std::iter::once(write(i)).chain(flush())).collect())
    };
    let bypassed =
        |flushes| count(&run(drive(PRODUCT, true), "drive-managed", 1, &stream(flushes)), "bypassed_sectors");
    assert_eq!(bypassed(true), 0);
    // The rest is still in the drive's cache.
    assert!(bypassed(false) > 30 * 8192);
}

/// A stream must not keep what was written before it from the platters.
#[test]
fn scattered_writes_leave_the_cache_beside_a_stream() {
    let scattered = (0..60).map(|i| Request::new(Op::Write, Lba(5_000_000_000 + i * 10_000_000), 8));
    let stream = (0..4000).map(|i| Request::new(Op::Write, Lba(i * 1024), 1024));
    let outcome = run(drive(PRODUCT, true), "drive-managed", 1, &Table(scattered.chain(stream).collect()));
    assert_eq!(count(&outcome, "map_entries"), 60, "all of them");
    assert!(count(&outcome, "bypassed_sectors") > 3_900_000);
}

/// Where each batch makes the layer clean, everything in the cache is too old all the time.
#[test]
fn commands_take_turns_with_a_cache_that_is_always_late() {
    let small = drive(PRODUCT, true).with_capacity(10_000_000).unwrap();
    let demand = GeneratedDemand::from(
        Workload::parse("random-write:size=4Ki,count=6k,interval=40ms+random-read:size=4Ki,count=240,interval=1s")
            .unwrap(),
    );
    let settings =
        Settings { arrival: Arrival::Trace, queue: Queue::Drive, prefill: Prefill::Full, ..Settings::default() };
    // On so small a disk the log would hold a dozen entries with gaps between them.
    let run = with(System::of(small), "drive-managed", &[("gap_bytes", "0")]).run(settings).unwrap();
    let outcome = serve(&run, &demand, &mut NoObserver).unwrap();
    assert!(count(&outcome, "bands_cleaned") > 1000, "each batch waits for cleaning");
    let longest = outcome.verdict.commands.longest_command_ns;
    assert!(longest < 20_000_000_000, "{longest} ns");
}

#[test]
fn writes_that_wait_in_the_cache_share_entries_of_the_log() {
    let before = |cached, depth| {
        let outcome =
            run(drive(PRODUCT, cached), "drive-managed", depth, &workload("random-write:size=4Ki,count=2400"));
        outcome.commands.physical_write
    };
    let [cached, queued, alone] = [before(true, 1), before(false, 32), before(false, 1)];
    assert!(alone > 2400 && cached <= queued && queued < alone / 7, "{cached} {queued} {alone}");
}

/// Reads of what the cache holds, in whole or in part, and of what it held: each finds the last write.
#[test]
fn reads_find_what_was_written_last_under_every_layer() {
    let text = include_str!("../../drives/tiny.toml").to_string()
        + "write_cache_bytes = { value = 40960, source = \"test\" }\n\
           queued_commands = { value = 32, source = \"test\" }\n";
    let tiny = Drive::parse("tiny.toml".as_ref(), &text).unwrap();
    for layer in LAYERS {
        for (seed, depth) in [(1, 1), (2, 8), (3, 40)] {
            let tiny = if layer.name == BASELINE { conventional(tiny.clone()) } else { tiny.clone() };
            let settings = Settings { depth, queue: Queue::Drive, check: true, ..Settings::default() };
            let Ok(run) = with(System::of(tiny), layer.name, &[]).run(settings) else { continue };
            let requests = random_requests(&mut Disks::new(seed).random, run.host_sectors().unwrap().min(300), 3000);
            serve(&run, &Table(requests.into()), &mut NoObserver)
                .unwrap_or_else(|error| panic!("{}: {error}", layer.name));
        }
    }
}

/// Reads need not wait for more than the batch under way, and writes not for ever.
#[test]
fn reads_go_before_what_the_cache_holds() {
    let mut random = Disks::new(7).random;
    let mut place = || Lba(random.random_range(0..1_000_000_000u64) * 8);
    let both = (0..8000).map(|i| Request::new([Op::Read, Op::Write][i % 2], place(), 8)).collect::<Vec<_>>();
    let latency = |depth| run(drive(PRODUCT, true), BASELINE, depth, &Table(both.clone().into())).latency_ns;
    let (alone, queued) = (latency(1), latency(32));
    assert!(alone.read.p99 < 60_000_000, "{}", alone.read.p99);
    assert!(queued.write.max < 8_000_000_000 && queued.read.max < 8_000_000_000, "{queued:?}");
}
