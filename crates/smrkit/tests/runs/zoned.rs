//! The host-managed disk: a host that keeps its rules is never blamed, and one that breaks them is told where.

use rand::{Rng, RngExt};
use smrkit::device::LayeredDisk;
use smrkit::drive::Drive;
use smrkit::engine::NoObserver;
use smrkit::engine::system::DriveRun;
use smrkit::error::{Error, Fault};
use smrkit::experiment::demand::Table;
use smrkit::layer::{self, Scalar};
use smrkit::medium::interference::{Form, Interference};
use smrkit::medium::{Buf, Medium, Stamps};
use smrkit::request::{Op, Request};
use smrkit::settings::{Prefill, Settings};
use smrkit::stats::outcome::Outcome;
use smrkit::units::Lba;

use super::common::planned::{plan, serve};
use super::common::{Disks, count, parameters, random_requests};

/// Sectors of a zone in these tests.
const ZONE: u64 = 64;
const SMALL: [(&str, &str); 2] = [("zone_bytes", "32Ki"), ("conventional_percent", "10")];

/// Knowledge of a host about a host-managed disk.
struct Zones {
    pointers: Vec<u64>,
    conventional: u64,
}

impl Zones {
    fn empty(host_sectors: u64) -> Zones {
        let count = host_sectors / ZONE;
        let conventional = (count as f64 * 0.1).round() as u64;
        Zones { pointers: (0..count).map(|zone| if zone < conventional { ZONE } else { 0 }).collect(), conventional }
    }

    /// A request that keeps the rules.
    fn lawful(&mut self, random: &mut impl Rng) -> Request {
        let zone = random.random_range(0..self.pointers.len().min(12) as u64);
        self.lawful_in(zone, random)
    }

    fn lawful_in(&mut self, zone: u64, random: &mut impl Rng) -> Request {
        let pointer = &mut self.pointers[zone as usize];
        let n = random.random_range(1..=ZONE);
        let start = zone * ZONE;
        if random.random_bool(0.3) && *pointer > 0 {
            let at = random.random_range(0..*pointer);
            return Request::new(Op::Read, Lba(start + at), n.min(*pointer - at) as u32);
        }
        if zone < self.conventional {
            let at = random.random_range(0..ZONE);
            return Request::new(Op::Write, Lba(start + at), n.min(ZONE - at) as u32);
        }
        if *pointer == ZONE || random.random_bool(0.02) {
            *pointer = 0;
            return Request::new(Op::Discard, Lba(start), ZONE as u32);
        }
        let (at, n) = (*pointer, n.min(ZONE - *pointer));
        *pointer += n;
        Request::new(Op::Write, Lba(start + at), n as u32)
    }

    /// True if a request breaks a rule, sector by sector; the disk carries it out all the same.
    fn is_broken(&mut self, request: &Request) -> bool {
        let sectors = || (request.lba.0..request.end().0).map(|lba| (lba / ZONE, lba % ZONE));
        let sequential = |zone: u64| zone >= self.conventional;
        let first = request.lba.0 / ZONE;
        match request.op {
            Op::Read => sectors().any(|(zone, at)| at >= self.pointers[zone as usize]),
            Op::Write => {
                let crosses = sectors().any(|(zone, _)| zone != first && sequential(zone));
                let off = sequential(first) && request.lba.0 % ZONE != self.pointers[first as usize];
                sectors().for_each(|(zone, at)| {
                    let pointer = &mut self.pointers[zone as usize];
                    *pointer = (*pointer).max(at + 1);
                });
                crosses || off
            }
            Op::Discard => {
                for zone in self.conventional..self.pointers.len() as u64 {
                    if request.lba.0 <= zone * ZONE && (zone + 1) * ZONE <= request.end().0 {
                        self.pointers[zone as usize] = 0;
                    }
                }
                false
            }
            Op::Flush => false,
        }
    }
}

fn drive_run(drive: &Drive, set: &[(&str, &str)]) -> DriveRun {
    DriveRun { drive: drive.clone(), layer: layer::find("zoned").unwrap(), parameters: parameters("zoned", set) }
}

fn outcome(run: DriveRun, settings: Settings, requests: Vec<Request>) -> Result<Outcome, Error> {
    serve(&plan(run, settings)?, &Table(requests.into()), &mut NoObserver)
}

fn plain() -> Drive {
    Drive::load("tiny-constant").unwrap().with_interference(Interference::None).unwrap()
}

fn empty() -> Settings {
    Settings { prefill: Prefill::None, ..Settings::default() }
}

fn with(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    SMALL.iter().chain(more).copied().collect()
}

#[test]
fn a_host_that_keeps_the_rules_loses_nothing_and_is_not_blamed() {
    let mut done = 0;
    for (seed, form) in (0..30).flat_map(|seed| Form::ALL.map(|form| (seed, form))) {
        let mut disks = Disks::new(seed);
        let run = drive_run(&disks.drive(form), &SMALL);
        let Ok(sectors) = run.host_sectors() else { continue };
        let mut zones = Zones::empty(sectors);
        let requests: Vec<Request> = (0..600).map(|_| zones.lawful(&mut disks.random)).collect();
        let settings = Settings { check: true, seed, ..empty() };
        let outcome = outcome(run, settings, requests).unwrap_or_else(|error| panic!("seed {seed} {form:?}: {error}"));
        assert_eq!(count(&outcome, "violations"), 0, "seed {seed} {form:?}: {:?}", outcome.layer_stats);
        done += 1;
    }
    assert!(done > 60, "{done} disks");
}

#[test]
fn every_broken_rule_is_counted_once_a_request() {
    for seed in 0..40 {
        let mut disks = Disks::new(seed);
        let run = drive_run(&plain(), &SMALL);
        let sectors = run.host_sectors().unwrap();
        let mut requests = random_requests(&mut disks.random, sectors / 3, 300);
        let mut zones = Zones::empty(sectors);
        let more: Vec<Request> = (0..100).map(|_| zones.lawful(&mut disks.random)).collect();
        requests.extend(more);
        let mut zones = Zones::empty(sectors);
        let expected = requests.iter().filter(|request| zones.is_broken(request)).count() as u64;
        let outcome = outcome(run, Settings { seed, ..empty() }, requests).unwrap();
        assert_eq!(count(&outcome, "violations"), expected, "seed {seed}");
    }
}

#[test]
fn a_violation_is_named_with_request_and_zone() {
    // Zones 0 to 30 are conventional.
    let lba = 40 * ZONE;
    let requests = vec![
        Request::new(Op::Write, Lba(lba), 8),
        Request::new(Op::Write, Lba(lba + 16), 8),
        Request::new(Op::Read, Lba(lba + ZONE), 8),
        Request::new(Op::Write, Lba(lba + ZONE - 8), 16),
    ];
    let found = outcome(drive_run(&plain(), &SMALL), empty(), requests).unwrap();
    let Some(Scalar::Texts(first)) = found.layer_stats.get("first_violations") else { panic!("{found:?}") };
    assert_eq!(
        *first,
        [
            "request 2, a write of 8 sectors at LBA 2576: zone 40 has its write pointer at LBA 2568",
            "request 3, a read of 8 sectors at LBA 2624: zone 41 is written up to LBA 2624 only",
            "request 4, a write of 16 sectors at LBA 2616: it crosses from zone 40 into zone 41",
        ]
    );
    let of = ["writes_off_pointer", "reads_past_pointer", "writes_across_zones", "writes_to_full_zones"];
    assert_eq!(of.map(|key| count(&found, key)), [1, 1, 1, 0]);
    let verdict = &found.verdict.text;
    assert!(
        verdict.starts_with(
            "A host-managed disk would refuse 3 of these 4 requests, so that the times below mean nothing."
        ),
        "{verdict}"
    );
    assert!(verdict.contains("The first: request 2, a write of 8 sectors at LBA 2576: zone 40"), "{verdict}");
}

#[test]
fn a_full_disk_is_written_only_after_a_reset() {
    let lba = Lba(40 * ZONE);
    let write = Request::new(Op::Write, lba, 8);
    let reset = Request::new(Op::Discard, lba, ZONE as u32);
    let run = |requests: &[Request]| {
        outcome(drive_run(&plain(), &SMALL), Settings { check: true, ..Settings::default() }, requests.to_vec())
    };
    let found = run(&[write]).unwrap();
    assert_eq!(count(&found, "writes_to_full_zones"), 1);
    assert!(found.verdict.text.contains("or begin with an empty disk (prefill none)"), "{}", found.verdict.text);
    let found = run(&[reset, write, Request::new(Op::Read, lba, 8)]).unwrap();
    assert_eq!(["violations", "resets"].map(|key| count(&found, key)), [0, 1]);
    let part = Request { sectors: ZONE as u32 - 1, ..reset };
    assert_eq!(count(&run(&[part, write]).unwrap(), "writes_to_full_zones"), 1, "a part of a zone is no reset");
}

#[test]
fn a_disk_that_refuses_writes_nothing() {
    let mut device = drive_run(&plain(), &with(&[("violations", "refuse")])).device(Medium::NoData).unwrap();
    let serve =
        |device: &mut LayeredDisk, lba: u64| device.serve(&Request::new(Op::Write, Lba(lba), 8), &mut Buf::NoData);
    let fault = serve(&mut device, 40 * ZONE + 8).unwrap_err();
    let Fault::ZoneRule(text) = *fault else { panic!("{fault}") };
    assert!(text.contains("request 1, a write of 8 sectors at LBA 2568: zone 40 has its write pointer at LBA 2560"));
    assert_eq!(device.physical_sectors(), (0, 0));
    serve(&mut device, 40 * ZONE).unwrap();
    serve(&mut device, 40 * ZONE + 8).unwrap();
    assert_eq!(device.physical_sectors(), (0, 16));
    let refused = outcome(
        drive_run(&plain(), &with(&[("violations", "refuse")])),
        empty(),
        vec![Request::new(Op::Read, Lba(40 * ZONE), 8)],
    );
    assert!(matches!(refused, Err(Error::Fault(fault)) if matches!(*fault, Fault::ZoneRule(_))));
}

#[test]
fn the_zone_written_longest_ago_is_closed_beyond_the_limit() {
    let begin = |zone: u64| Request::new(Op::Write, Lba(zone * ZONE), 8);
    let go_on = |zone: u64| Request::new(Op::Write, Lba(zone * ZONE + 8), 8);
    let requests = vec![begin(40), begin(41), go_on(40), begin(42), go_on(41)];
    let closed = |limit| {
        let found = outcome(drive_run(&plain(), &with(&[("max_open", limit)])), empty(), requests.clone()).unwrap();
        assert_eq!(count(&found, "violations"), 0);
        count(&found, "zones_closed")
    };
    // With two, 41 is closed for 42, then 40 for 41.
    assert_eq!(["0", "3", "2", "1"].map(closed), [0, 0, 2, 4]);
}

#[test]
fn active_zones_beyond_the_limit_are_violations_until_one_ends() {
    let begin = |zone: u64| Request::new(Op::Write, Lba(zone * ZONE), 8);
    let finish = Request::new(Op::Write, Lba(40 * ZONE + 8), ZONE as u32 - 8);
    let reset = Request::new(Op::Discard, Lba(41 * ZONE), ZONE as u32);
    let found = |requests: Vec<Request>| {
        let found = outcome(drive_run(&plain(), &with(&[("max_active", "2")])), empty(), requests).unwrap();
        count(&found, "zones_beyond_max_active")
    };
    assert_eq!(found(vec![begin(40), begin(41), begin(42)]), 1);
    assert_eq!(found(vec![begin(40), begin(41), finish, begin(42)]), 0);
    assert_eq!(found(vec![begin(40), begin(41), reset, begin(42)]), 0);
}

/// The host sends the request that was cut again, at the write pointer, which did not move.
#[test]
fn write_pointers_outlive_power_cuts() {
    let mut cuts = 0;
    for (seed, form) in (0..10).flat_map(|seed| [Form::Blocks, Form::Tracks].map(|form| (seed, form))) {
        let mut disks = Disks::new(seed);
        let run = drive_run(&disks.drive(form), &SMALL);
        let Ok(sectors) = run.host_sectors() else { continue };
        let mut zones = Zones::empty(sectors);
        let requests: Vec<Request> = (0..150).map(|_| zones.lawful(&mut disks.random)).collect();
        for write in (1..60).step_by(3) {
            let settings = Settings { check: true, seed, power_cut: Some(write), ..empty() };
            let found = outcome(run.clone(), settings, requests.clone()).unwrap();
            let Some(cut) = &found.power_cut else { continue };
            assert_eq!((cut.lost_sectors, count(&found, "violations")), (0, 0), "seed {seed} {form:?}, cut at {write}");
            cuts += 1;
        }
    }
    assert!(cuts > 200, "{cuts} cuts");
}

#[test]
fn a_drive_file_says_how_its_zones_are() {
    let drive = Drive::load("hc620").unwrap();
    let spec = layer::find("zoned").unwrap();
    let settled = (spec.settled)(&drive, &spec.resolve_on(&drive, &[]).unwrap()).unwrap().scalars();
    assert_eq!((&settled["zone_bytes"], &settled["max_open"]), (&Scalar::Int(1 << 28), &Scalar::Int(128)));
    let capacity = (spec.capacity)(&drive, &spec.resolve_on(&drive, &[]).unwrap()).unwrap();
    assert_eq!(capacity.host_sectors, 55_880 << 19);
    let layer = (spec.build)(&drive, &spec.resolve_on(&drive, &[]).unwrap()).unwrap();
    assert_eq!(layer.conventional_end().0, 524 << 19);
}

/// After a reset the platters still hold what was written, and the disk does not show it.
#[test]
fn what_lies_past_a_pointer_reads_as_zeros() {
    let run = drive_run(&plain(), &SMALL);
    let mut device = run.device(Medium::Stamps(Stamps::new())).unwrap();
    let mut serve = |op, at: u64, n: u64, stamp: u64| {
        let mut buf = Buf::Stamps(vec![stamp; n as usize]);
        device.serve(&Request::new(op, Lba(40 * ZONE + at), n as u32), &mut buf).unwrap();
        buf
    };
    serve(Op::Write, 0, 24, 7);
    serve(Op::Discard, 0, ZONE, 0);
    serve(Op::Write, 0, 8, 9);
    let Buf::Stamps(read) = serve(Op::Read, 0, 24, 1) else { panic!("a disk of stamps gives stamps") };
    assert_eq!(read, [[9; 8], [0; 8], [0; 8]].concat());
}

/// Zones of a realm, and the conventional ones that it holds if its tracks are wider by 100 / 75.
const REALM: [(&str, &str); 2] = [("realm_zones", "8"), ("conventional_density_percent", "75")];
const WIDE: u64 = 6;

/// Knowledge of a host about a disk with realms.
struct Hybrid {
    sequential: Zones,
    /// The first zone of the conventional domain, and whether each realm is conventional.
    domain: u64,
    is_converted: Vec<bool>,
}

impl Hybrid {
    fn empty(run: &DriveRun) -> Hybrid {
        let plain: Vec<_> = run.parameters.given().filter(|(key, _)| *key != "realm_zones").collect();
        let domain = drive_run(&run.drive, &plain).host_sectors().unwrap() / ZONE;
        let realms = run.host_sectors().unwrap() / ZONE - domain;
        let mut sequential = Zones::empty(domain * ZONE);
        // Wider zones leave fewer of them in their room.
        let layer = (run.layer.build)(&run.drive, &run.parameters).unwrap();
        sequential.conventional = layer.zones().unwrap().limits().conventional;
        (0..domain).for_each(|zone| {
            sequential.pointers[zone as usize] = if zone < sequential.conventional { ZONE } else { 0 };
        });
        Hybrid { sequential, domain, is_converted: vec![false; (realms / 8) as usize] }
    }

    /// Requests that keep the rules: one to an active zone, or those that convert one of the first realms.
    fn lawful(&mut self, random: &mut impl Rng) -> Vec<Request> {
        let realm = random.random_range(0..self.is_converted.len().min(3) as u64);
        let first = self.sequential.conventional + 8 * realm;
        let own = (self.domain + 8 * realm) * ZONE;
        let is_converted = &mut self.is_converted[realm as usize];
        if random.random_bool(0.05) {
            *is_converted = !*is_converted;
            self.sequential.pointers[first as usize..][..8].fill(0);
            let shingled = Request::new(Op::Discard, Lba(first * ZONE), 8 * ZONE as u32);
            let conventional = Request::new(Op::Discard, Lba(own), (WIDE * ZONE) as u32);
            // What is given up is discarded first: sequential zones have to be empty, and a host that keeps what it loses is wrong.
            return if *is_converted { vec![shingled, conventional] } else { vec![conventional, shingled] };
        }
        let n = random.random_range(1..=ZONE);
        if *is_converted {
            let op = if random.random_bool(0.5) { Op::Write } else { Op::Read };
            return vec![Request::new(op, Lba(own + random.random_range(0..(WIDE - 1) * ZONE)), n as u32)];
        }
        let zone = first + random.random_range(0..8);
        vec![self.sequential.lawful_in(zone, random)]
    }
}

/// Conversions lose only what the host gave up, also when the power is cut, and nothing written later is damaged.
#[test]
fn realms_are_converted_in_use() {
    let (mut done, mut conversions) = (0, 0);
    for (seed, form) in (0..30).flat_map(|seed| Form::ALL.map(|form| (seed, form))) {
        let mut disks = Disks::new(seed);
        let run = drive_run(&disks.drive(form), &with(&REALM));
        if run.host_sectors().is_err() {
            continue;
        }
        let mut host = Hybrid::empty(&run);
        let requests: Vec<Request> = (0..600).flat_map(|_| host.lawful(&mut disks.random)).collect();
        // A torn write is sent again, and damages sectors upstream under the law of distances, also without realms.
        let power_cut = (seed % 2 == 1 && form != Form::Distances).then_some(50 + seed);
        let settings = Settings { check: true, seed, power_cut, ..empty() };
        let outcome = outcome(run, settings, requests).unwrap_or_else(|error| panic!("seed {seed} {form:?}: {error}"));
        assert_eq!(count(&outcome, "violations"), 0, "seed {seed} {form:?}: {:?}", outcome.layer_stats);
        assert!(outcome.power_cut.as_ref().is_none_or(|cut| cut.lost_sectors == 0), "seed {seed} {form:?}");
        conversions += count(&outcome, "conversions");
        done += outcome.requests;
    }
    assert!(done > 10_000 && conversions > 500, "{done} requests, {conversions} conversions");
}

/// The first zone of the first realm in each domain, on the plain disk with eight zones a realm.
fn realm_of_plain() -> (DriveRun, u64, u64) {
    let run = drive_run(&plain(), &with(&REALM));
    let host = Hybrid::empty(&run);
    (run, host.sequential.conventional * ZONE, host.domain * ZONE)
}

#[test]
fn inactive_zones_and_gap_zones_are_refused_and_a_conversion_needs_empty_zones() {
    let (run, shingled, own) = realm_of_plain();
    let zone = ZONE as u32;
    let broken = |requests: &[Request]| {
        let run =
            DriveRun { parameters: run.layer.with(&run.parameters, "violations", "refuse").unwrap(), ..run.clone() };
        match outcome(run, empty(), requests.to_vec()) {
            Err(Error::Fault(fault)) => fault.to_string(),
            other => panic!("{:?}", other.map(|outcome| outcome.layer_stats)),
        }
    };
    let [write, read, discard] =
        [Op::Write, Op::Read, Op::Discard].map(|op| move |lba: u64, n: u32| Request::new(op, Lba(lba), n));
    assert!(broken(&[write(own, 8)]).contains("is inactive"));
    assert!(broken(&[read(own, 8)]).contains("is inactive"));
    assert!(broken(&[write(own + WIDE * ZONE, 8)]).contains("is a gap zone"));
    let convert = discard(own, zone);
    assert!(broken(&[convert, write(shingled, 8)]).contains("is inactive"));
    assert!(broken(&[convert, write(own + WIDE * ZONE - 8, 16)]).contains("is a gap zone"));
    let message = broken(&[write(shingled + ZONE, 8), convert]);
    assert!(message.contains(&format!("of the realm is written up to LBA {}", shingled + ZONE + 8)), "{message}");
    // Conventional zones have no pointers by which they could be empty.
    let back = [convert, write(own + 40, 8), discard(shingled, zone), write(shingled, 8)];
    let outcome = outcome(run.clone(), empty(), back.to_vec()).unwrap();
    assert_eq!((count(&outcome, "violations"), count(&outcome, "conversions")), (0, 2));
}

/// A conversion takes the time that was given, and nothing else.
#[test]
fn a_conversion_takes_its_time() {
    let (run, _, own) = realm_of_plain();
    let elapsed = |time| {
        let run =
            DriveRun { parameters: run.layer.with(&run.parameters, "activate_time", time).unwrap(), ..run.clone() };
        outcome(run, empty(), vec![Request::new(Op::Discard, Lba(own), ZONE as u32)]).unwrap().elapsed_ns
    };
    assert_eq!(elapsed("3ms") - elapsed("0s"), 3_000_000);
}

#[test]
fn a_state_keeps_which_realms_are_conventional() {
    let (run, _, own) = realm_of_plain();
    let device = || run.device(Medium::NoData).unwrap();
    let mut before = device();
    before.serve(&Request::new(Op::Discard, Lba(own), ZONE as u32), &mut Buf::NoData).unwrap();
    let mut after = device();
    after.layer.restore(&before.layer.state()).unwrap();
    let write = Request::new(Op::Write, Lba(own + 3), 8);
    assert!(after.layer.zones().unwrap().check_request(&write).is_ok());
    assert!(device().layer.zones().unwrap().check_request(&write).is_err());
}
