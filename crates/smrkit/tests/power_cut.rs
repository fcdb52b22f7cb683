//! The power is cut at every physical write of seeded runs, and again soon after.
//!
//! A layer that promises it loses no acknowledged sector, and what it still says afterwards is checked to the end of the
//! run. The others lose exactly what their papers warn of. `SMRKIT_POWER_CUTS` sets the cuts for each layer.

mod common;

use common::count::count_from;
use common::planned::{plan, with};
use common::{Disks, TinyClock, random_requests, with_times};
use rand::RngExt;
use smrkit::disk::Power;
use smrkit::drive::Drive;
use smrkit::engine::Engine;
use smrkit::engine::NoObserver;
use smrkit::engine::system::DriveRun;
use smrkit::engine::task::Idle;
use smrkit::error::Error;
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::system::System;
use smrkit::layer::{self, LayerSpec, Scalar};
use smrkit::medium::interference::{Form, Interference};
use smrkit::request::{InMemory, Op, Request};
use smrkit::settings::{Arrival, Prefill, Settings};
use smrkit::stats::counts::HostCounts;
use smrkit::stats::outcome::{InFlight, PowerCut};
use smrkit::stats::timeline::TimelineBuilder;
use smrkit::units::{Lba, Nanos};

const REQUESTS_PER_RUN: u64 = 150;

fn cuts_wanted() -> u64 {
    count_from("SMRKIT_POWER_CUTS", 2000)
}

/// The loop itself with the power cut at `cuts`, its end checked like any run's.
fn run(run: &PlannedRun, requests: &[Request], cuts: Vec<u64>) -> Result<Vec<PowerCut>, Error> {
    let settings = *run.settings();
    let mut device = run.system().build(&settings)?;
    device.drives_mut()[0].device_mut().disk.cut_power(Power::new(cuts, settings.seed));
    let counts = HostCounts::new(TimelineBuilder::growing(Nanos(1_000_000)));
    let (mut task, mut observer) = (Idle, NoObserver);
    let mut engine = Engine::new(device, settings, counts, &mut task, &mut observer);
    engine.run(&mut InMemory::new(requests.to_vec()))?;
    let power_cuts = engine.take_power_cuts();
    engine.finish()?;
    Ok(power_cuts)
}

/// True if requests come with pauses, in which layers do what they put off.
fn is_open(seed: u64) -> bool {
    seed % 3 == 1
}

/// A small disk with random parameters and requests; `None` where the disk is too small for the parameters.
fn scene(
    spec: &'static LayerSpec,
    clock: TinyClock,
    form: Form,
    seed: u64,
) -> Option<(Drive, layer::Parameters, Vec<Request>)> {
    let mut disks = Disks::new(seed);
    let drive = disks.drive_with(clock, form);
    let parameters = disks.parameters(spec);
    let host_sectors = match (spec.build)(&drive, &parameters) {
        Ok(layer) => layer.capacity().host_sectors,
        Err(Error::Impossible(_)) => return None,
        Err(other) => panic!("{other}"),
    };
    // A small hot part, so that logs and caches turn over and bands are cleaned within a short run.
    let span = [host_sectors, host_sectors / 3, 64][disks.random.random_range(0..3)].clamp(1, host_sectors);
    let mut requests = random_requests(&mut disks.random, span, REQUESTS_PER_RUN);
    requests.retain(|request| request.op != Op::Read || seed.is_multiple_of(2));
    if is_open(seed) {
        requests = with_times(&mut disks.random, requests);
    }
    Some((drive, parameters, requests))
}

/// Cuts the power at each physical write of runs until there were enough, every other time again soon after.
fn cut_everywhere(name: &str, mut see: impl FnMut(&PowerCut, &PlannedRun, &str)) {
    cut_with(name, |requests| requests, |cut, run, what, _| see(cut, run, what));
}

/// Cuts as [`cut_everywhere`] does, with requests as `prepare` makes them.
fn cut_with(
    name: &str,
    prepare: impl Fn(Vec<Request>) -> Vec<Request>,
    see: impl FnMut(&PowerCut, &PlannedRun, &str, &[Request]),
) {
    cut_on(name, TinyClock::Constant, prepare, see);
}

/// Cuts as [`cut_with`] does, on drives with another clock.
fn cut_on(
    name: &str,
    clock: TinyClock,
    prepare: impl Fn(Vec<Request>) -> Vec<Request>,
    mut see: impl FnMut(&PowerCut, &PlannedRun, &str, &[Request]),
) {
    let spec = layer::find(name).unwrap();
    let mut done = 0;
    for seed in 0.. {
        for &form in spec.copes_with {
            let Some((drive, parameters, requests)) = scene(spec, clock, form, seed) else { continue };
            let requests = prepare(requests);
            let arrival = if is_open(seed) { Arrival::Trace } else { Arrival::FlatOut };
            let prefill = [Prefill::None, Prefill::Full][(seed / 2 % 2) as usize];
            // Writes that wait together may be one write to the platters.
            let depth = [1, 1, 6][(seed % 3) as usize];
            let settings = Settings { check: true, seed, arrival, prefill, depth, ..Settings::default() };
            let the_run = plan(DriveRun { drive: drive.clone(), layer: spec, parameters }, settings).unwrap();
            for write in 1.. {
                let mut cuts = vec![write];
                if write % 2 == 0 {
                    cuts.extend([write + 1 + write / 2 % 7, write + 9 + write / 2 % 5]);
                }
                let what = format!(
                    "{name} under {form:?}, seed {seed}, cut at {cuts:?}\n{:?} {:?}",
                    drive.interference,
                    the_run.system().drives()[0].parameters
                );
                let found = run(&the_run, &requests, cuts).unwrap_or_else(|error| panic!("{what}: {error}"));
                found.iter().for_each(|cut| see(cut, &the_run, &what, &requests));
                done += found.len() as u64;
                if found.is_empty() {
                    break;
                }
            }
        }
        if done >= cuts_wanted() {
            break;
        }
    }
    println!("{name}: {done} power cuts");
}

/// No acknowledged sector is lost (the engine stops at one), and the write in flight is whole or absent where the map follows once all of
/// it is written. Only a mapped sector shows that: for any other the platters are looked at where the layer would read them.
fn loses_nothing(name: &str, is_whole: bool) {
    let see = |cut: &PowerCut, run: &PlannedRun, what: &str, requests: &[Request]| {
        assert_eq!(cut.lost_sectors, 0, "{what}: {cut:?}");
        let served = requests.iter().take(cut.completed as usize + 1);
        let all_mapped = run.settings().prefill == Prefill::Full && served.clone().all(|one| one.op != Op::Discard);
        assert!(!(is_whole && all_mapped) || cut.in_flight != InFlight::Part, "{what}: {cut:?}");
    };
    cut_with(name, |requests| requests, see);
}

/// Checks that something was lost at all: a layer that warns of loss and shows none is not tested.
fn loses_something(name: &str) {
    let mut lost = 0;
    cut_everywhere(name, |cut, _, _| lost += u64::from(cut.lost_sectors > 0));
    assert!(lost > 0);
}

#[test]
fn log_keeps_what_it_acknowledged_and_requests_whole() {
    loses_nothing("log", true);
}

#[test]
fn zone_log_keeps_what_it_acknowledged_and_requests_whole() {
    loses_nothing("zone-log", true);
}

#[test]
fn drive_managed_loses_nothing() {
    loses_nothing("drive-managed", false);
}

/// What was flushed is on the platters, whatever the drive's own cache held: the engine stops where it is not.
#[test]
fn only_unflushed_writes_of_a_write_cache_are_lost() {
    for name in ["drive-managed", "s-block", "vguard", "smart", "log", "zone-log", "host-aware"] {
        let mut lost = 0;
        cut_on(name, TinyClock::Cached, flushed, |cut, _, _, _| lost += cut.lost_sectors);
        assert!(lost > 0, "{name}");
    }
}

/// A flush follows every other request.
fn flushed(requests: Vec<Request>) -> Vec<Request> {
    let flush = |time| Request { time, ..Request::new(Op::Flush, Lba(0), 0) };
    requests.chunks(2).flat_map(|pair| pair.iter().copied().chain([flush(pair[pair.len() - 1].time)])).collect()
}

/// What was acknowledged before the last flush is there.
#[test]
fn dm_zoned_loses_only_what_was_not_flushed() {
    let mut lost = 0;
    cut_with("dm-zoned", flushed, |cut, _, what, requests| {
        let completed = &requests[..(cut.completed as usize).min(requests.len())];
        let since = completed.iter().rev().take_while(|request| request.op != Op::Flush);
        let since: Vec<&Request> = since.filter(|request| request.op == Op::Write).collect();
        for &(lba, sectors) in &cut.lost {
            let is_unflushed = |lba| since.iter().any(|write| (write.lba.0..write.end().0).contains(&lba));
            assert!((lba..lba + sectors).all(is_unflushed), "{what}: {cut:?} of {since:?}");
        }
        lost += cut.lost_sectors;
    });
    assert!(lost > 0);
}

#[test]
fn rmw_loses_what_it_was_rewriting() {
    loses_something("rmw");
}

#[test]
fn track_map_loses_what_it_was_rewriting() {
    loses_something("track-map");
}

/// A bottom track is written, then the top track before it and the one after it: what is beside the write is lost on both, or on the second.
#[test]
fn imr_loses_the_top_tracks_that_it_was_rewriting() {
    let write = [Request::new(Op::Write, Lba(50), 8)];
    let lost = |cut| small("imr", 6, &[], &write, cut).lost_sectors;
    assert!((8..=16).contains(&lost(2)) && (0..=8).contains(&lost(3)), "{} {}", lost(2), lost(3));
}

#[test]
fn set_assoc_loses_its_map_and_the_region_that_it_was_merging() {
    loses_something("set-assoc");
}

/// The log and its map survive; what is lost belongs to the band that was being rewritten.
#[test]
fn h_swd_loses_only_parts_of_the_band_that_it_was_rewriting() {
    let mut lost = 0;
    cut_everywhere("h-swd", |cut, run, what| {
        let parameters = &run.system().drives()[0].parameters;
        let Scalar::Int(band) = parameters.scalars()["region_sectors"] else { panic!("{what}") };
        let bands: Vec<u64> = cut.lost.iter().map(|&(lba, _)| lba / band).collect();
        assert!(bands.iter().all(|&of| of == bands[0]), "{what}: {cut:?}");
        lost += cut.lost_sectors;
    });
    assert!(lost > 0);
}

#[test]
fn s_block_loses_nothing() {
    loses_nothing("s-block", false);
}

#[test]
fn smart_loses_nothing() {
    loses_nothing("smart", false);
}

#[test]
fn host_aware_loses_nothing() {
    loses_nothing("host-aware", false);
}

/// Writes at the pointer, each followed by the same write again, as a host repeats one that failed. If it was torn, the second one must not
/// go to the same sectors of the platters, and what the zone held before must not come back behind the torn part.
#[test]
fn host_aware_loses_nothing_when_a_torn_append_is_repeated() {
    let appended = |requests: Vec<Request>| {
        let end = requests.iter().map(|request| request.end().0).max().unwrap_or(0);
        let mut at = 0;
        let appends = requests.into_iter().filter(|request| request.op == Op::Write).map_while(|request| {
            let append = Request { lba: Lba(at), ..request };
            at = append.end().0;
            (at <= end).then_some([append, append])
        });
        appends.flatten().collect()
    };
    let see = |cut: &PowerCut, _: &PlannedRun, what: &str, _: &[Request]| {
        assert_eq!(cut.lost_sectors, 0, "{what}: {cut:?}");
    };
    cut_with("host-aware", appended, see);
}

#[test]
fn vguard_loses_nothing() {
    loses_nothing("vguard", false);
}

/// The layer on a small disk of constant costs.
fn small_run(name: &str, law: Interference, set: &[(&str, &str)]) -> PlannedRun {
    let drive = Drive::load("tiny-constant").unwrap().with_interference(law).unwrap();
    with(System::of(drive), name, set).run(Settings { check: true, ..Settings::default() }).unwrap()
}

/// A cut of the layer on a small disk whose writes destroy the `reach - 1` sectors after them.
fn small(name: &str, reach: u64, set: &[(&str, &str)], requests: &[Request], write: u64) -> PowerCut {
    run(&small_run(name, Interference::Blocks { reach }, set), requests, vec![write]).unwrap().remove(0)
}

/// What a cut left of an S-block is passed over where sectors must not be written twice.
#[test]
fn torn_s_blocks_are_not_written_over_where_that_wears_their_neighbours() {
    let law = Interference::Distances { did: 20, dpid: 19, writes: 1 };
    let run_of =
        small_run("s-block", law, &[("sblock_sectors", "40"), ("cache_percent", "20"), ("spare_percent", "10")]);
    let extents: Vec<(u64, u32)> = (0..16).map(|i| (i * 80, [80, 40][i as usize % 2])).collect();
    let requests = common::writes(&extents);
    for first in 1..=12 {
        for second in first + 1..first + 8 {
            let cuts = run(&run_of, &requests, vec![first, second]).unwrap();
            let lost: Vec<u64> = cuts.iter().map(|cut| cut.lost_sectors).collect();
            assert_eq!(lost, [0, 0], "cut at {first} and {second}");
        }
    }
}

#[test]
fn set_assoc_loses_each_cached_sector_with_its_map() {
    let extents: Vec<(u64, u32)> = (0..20).map(|i| (i * 16, 8)).collect();
    let cut =
        small("set-assoc", 2, &[("region_sectors", "400"), ("cache_percent", "10")], &common::writes(&extents), 20);
    assert_eq!((cut.lost_sectors, cut.destroyed_sectors), (19 * 8, 0), "{cut:?}");
    assert_eq!(cut.lost, (0..19).map(|i| (i * 16, 8)).collect::<Vec<_>>());
}

#[test]
fn a_cut_rewrite_of_a_region_loses_what_its_last_sector_destroyed() {
    let requests = common::writes(&[(0, 200), (0, 8)]);
    let cut = small("rmw", 30, &[("region_sectors", "200"), ("portion", "region")], &requests, 2);
    let [(first, 29)] = cut.lost[..] else { panic!("{cut:?}") };
    assert!(first > 8, "{cut:?}");
    assert_eq!((cut.lost_sectors, cut.destroyed_sectors), (29, 29));
}

#[test]
fn a_cut_rewrite_of_tracks_loses_what_its_last_sector_destroyed() {
    let requests = common::writes(&[(0, 100), (40, 8)]);
    let cut = small("track-map", 30, &[("scheme", "1234"), ("random_tracks", "0")], &requests, 2);
    let [(first, sectors)] = cut.lost[..] else { panic!("{cut:?}") };
    assert!(first > 40 && sectors == 29.min(100 - first), "{cut:?}");
    assert_eq!((cut.lost_sectors, cut.destroyed_sectors), (sectors, sectors));
}
