//! A disk that begins full: every layer's state is that of a disk which was written once, in order, and cleaned until its
//! persistent cache was empty.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::planned::{plan, serve};
use crate::common::{Disks, parameters, random_requests};
use smrkit::device::{LayeredDisk, Shadow};
use smrkit::disk::{Disk, Recorder};
use smrkit::drive::Drive;
use smrkit::engine::system::DriveRun;
use smrkit::engine::{NoObserver, Observer};
use smrkit::error::Error;
use smrkit::experiment::demand::Table;
use smrkit::experiment::system::System;
use smrkit::layer::{self, LayerSpec, Need, Parameters};
use smrkit::medium::interference::{Form, Interference};
use smrkit::medium::{Medium, Stamp, Stamps};
use smrkit::request::{Op, Request};
use smrkit::settings::{Prefill, Settings};
use smrkit::tally::{Access, Cause};
use smrkit::units::{Lba, Nanos, Pba};

const SEEDS: u64 = 12;

/// An access: whether it writes, its cause, first sector and sectors.
type Seen = (bool, Cause, Pba, u64);

/// Every access: whether it writes, its cause, where, and how long.
#[derive(Clone, Default)]
struct Accesses(Arc<Mutex<Vec<Seen>>>);

impl Recorder for Accesses {
    fn access(&mut self, access: &Access) {
        self.0.lock().unwrap().push((access.write, access.cause, access.pba, access.sectors));
    }
}

/// A drive with check mode's shadow.
struct Checked {
    device: LayeredDisk,
    shadow: Shadow,
}

impl Checked {
    fn empty(drive: &Drive, spec: &'static LayerSpec, parameters: &Parameters) -> Option<Checked> {
        let layer = match (spec.build)(drive, parameters) {
            Ok(layer) => layer,
            Err(Error::Impossible(_)) => return None,
            Err(other) => panic!("{other}"),
        };
        let disk = Disk::new(drive, Medium::Stamps(Stamps::new()));
        Some(Checked { device: LayeredDisk::new(disk, layer), shadow: Shadow::default() })
    }

    fn full(mut self) -> Checked {
        self.device.fill();
        self.shadow.fill();
        self
    }

    /// Writes every LBA once, in order, sector by sector; then cleans as long as the layer finds anything to clean.
    fn written(mut self, what: &str) -> Checked {
        for lba in (0..self.device.host_sectors).map(Lba) {
            self.serve(&Request::new(Op::Write, lba, 1), what);
        }
        self.serve(&Request::new(Op::Flush, Lba(0), 0), what);
        while self.device.step(Need::Must).unwrap() || self.device.step(Need::Spare).unwrap() {}
        self
    }

    fn serve(&mut self, request: &Request, what: &str) {
        let Checked { device, shadow } = self;
        let served = device.step(Need::Must).and_then(|_| shadow.serve(request, |buf| device.serve(request, buf)));
        served.and_then(|()| shadow.after(device)).unwrap_or_else(|fault| panic!("{what}: {fault}"));
    }

    /// Accesses that the requests make the drive do.
    fn accesses(&mut self, requests: &[Request], what: &str) -> Vec<(bool, Cause, Pba, u64)> {
        let accesses = Accesses::default();
        self.device.disk.record(Some(Box::new(accesses.clone())));
        requests.iter().for_each(|request| self.serve(request, what));
        self.device.disk.record(None);
        self.shadow.finish(&mut self.device).unwrap_or_else(|fault| panic!("{what}: {fault}"));
        accesses.0.lock().unwrap().clone()
    }
}

/// State by which layers can be compared. What is not seen from outside makes the rest impossible:
///
/// - The S-blocks of `s-block` have moved round their circle, and the tracks of `smart` to its pools.
/// - The chunks of `dm-zoned` lie in the zones that reclaim found free.
/// - The logs of `vguard`, `drive-managed` and `h-swd` go on where they stopped.
/// - `log` may leave the outermost segments of a full disk free.
/// - The files of `zone-log` have their open zones, which are chosen by rules of the host's own.
/// - `track-map` with a limit of overwriting remembers how often filling rewrote a track, which no one sees.
struct Comparable {
    places: bool,
    accesses: bool,
}

fn comparable(spec: &LayerSpec, drive: &Drive, parameters: &Parameters) -> Comparable {
    match spec.name {
        "log" if parameters.given().any(|given| given == ("spare_outer", "on")) => {
            Comparable { places: false, accesses: false }
        }
        "zone-log"
            if parameters.given().any(|(key, value)| key == "free_zones" || key == "host" && value != "mixed") =>
        {
            Comparable { places: false, accesses: false }
        }
        "s-block" | "smart" | "dm-zoned" => Comparable { places: false, accesses: false },
        "vguard" | "drive-managed" | "h-swd" | "zone-log" => Comparable { places: true, accesses: false },
        "track-map" => Comparable { places: true, accesses: drive.interference.upstream() == 0 },
        _ => Comparable { places: true, accesses: true },
    }
}

/// Calls `each` with small random drives and parameters for every layer.
fn trials(mut each: impl FnMut(&str, &'static LayerSpec, &Drive, &Parameters)) {
    for spec in layer::named() {
        let mut tried = 0;
        for seed in 0..SEEDS {
            // The conventional disk copes with no law, and needs none here.
            for form in spec.copes_with.iter().copied().map(Some).chain(spec.copes_with.is_empty().then_some(None)) {
                let mut disks = Disks::new(seed);
                let drive = match form {
                    Some(form) => disks.drive(form),
                    None => disks.drive(Form::Blocks).with_interference(Interference::None).unwrap(),
                };
                let parameters = disks.parameters(spec);
                if Checked::empty(&drive, spec, &parameters).is_some() {
                    tried += 1;
                    each(&format!("{} under {form:?}, seed {seed}", spec.name), spec, &drive, &parameters);
                }
            }
        }
        assert!(tried > 4, "{}: {tried} drives", spec.name);
    }
}

#[test]
fn a_full_disk_is_one_written_in_order_and_cleaned() {
    trials(|what, spec, drive, parameters| {
        let empty = || Checked::empty(drive, spec, parameters).unwrap();
        let (mut full, mut written) = (empty().full(), empty().written(what));
        let comparable = comparable(spec, drive, parameters);
        assert_eq!(full.device.layer.capacity(), written.device.layer.capacity(), "{what}");
        for one in [&full, &written] {
            assert_eq!(one.device.layer.gauges().cache_fill.unwrap_or(0.0), 0.0, "{what}");
            one.device.check().unwrap_or_else(|fault| panic!("{what}: {fault}"));
        }
        for lba in (0..full.device.host_sectors).map(Lba) {
            let (place, other) = (full.device.layer.locate(lba), written.device.layer.locate(lba));
            let stamps = full.device.disk.stamps().unwrap();
            assert_eq!(stamps.get(place), Stamp::first(lba), "{what}: LBA {lba} at {place}");
            let found = written.device.disk.stamps().unwrap().get(other);
            assert!(found.lba() == lba && !found.is_damaged(), "{what}: LBA {lba} at {other}");
            let given: Vec<_> = parameters.given().collect();
            assert!(!comparable.places || place == other, "{what}: LBA {lba} at {place} and {other}, {given:?}");
        }
        let requests = random_requests(&mut Disks::new(7).random, full.device.host_sectors, 150);
        let (ours, theirs) = (full.accesses(&requests, what), written.accesses(&requests, what));
        if comparable.accesses {
            let first = ours.iter().zip(&theirs).position(|(a, b)| a != b);
            assert_eq!(ours, theirs, "{what}: they differ from access {first:?} on");
        }
    });
}

#[test]
fn worn_sectors_of_a_full_disk_are_those_that_were_written_once() {
    let law = Interference::Distances { did: 0, dpid: 5, writes: 1 };
    let drive = Drive::load("tiny-constant").unwrap().with_interference(law).unwrap();
    let spec = smrkit::layer::find("in-place").unwrap();
    let damaged = |full: bool| {
        let checked = Checked::empty(&drive, spec, &spec.resolve(&[]).unwrap()).unwrap();
        let mut checked = if full { checked.full() } else { checked };
        let Checked { device, shadow } = &mut checked;
        let request = Request::new(Op::Write, Lba(100), 1);
        shadow.serve(&request, |buf| device.serve(&request, buf)).unwrap();
        device.take_damages().iter().map(|damage| damage.was.lba().0).collect::<Vec<_>>()
    };
    // A second write wears what lies before it, a first one nothing.
    let mut worn = damaged(true);
    worn.sort_unstable();
    assert_eq!((worn, damaged(false)), (vec![95, 96, 97, 98, 99], vec![]));
}

/// Stops after the prefill.
struct Stop;

impl Observer for Stop {
    fn go_on(&mut self, _: smrkit::request::Progress, _: u64) -> bool {
        false
    }
}

#[test]
fn filling_costs_no_time_and_nothing_is_counted() {
    let drive = Drive::load("st5000as0011").unwrap();
    for spec in layer::named() {
        let settings = Settings::default();
        assert_eq!(settings.prefill, Prefill::Full);
        let run = DriveRun { drive: drive.clone(), layer: spec, parameters: parameters(spec.name, &[]) };
        let filled = || {
            let mut device = run.device(Medium::NoData).unwrap();
            let before = device.layer.map_bytes();
            let begin = Instant::now();
            device.fill();
            (device, before, begin.elapsed())
        };
        // A tenth of that on an idle machine; on others, one of many.
        let is_quick = |took: &Duration| took.as_millis() < 100;
        let (device, before, took) = (0..20).map(|_| filled()).find(|(.., took)| is_quick(took)).unwrap_or_else(filled);
        assert!(is_quick(&took), "{}: {took:?}", spec.name);
        assert!(device.layer.map_bytes() < before + (8 << 20), "{}: {} bytes", spec.name, device.layer.map_bytes());
        assert_eq!((device.now(), device.physical_sectors()), (Nanos::ZERO, (0, 0)));
        let requests = Table([Request::new(Op::Read, Lba(0), 8)].into());
        let outcome = serve(&plan(run, settings).unwrap(), &requests, &mut Stop).unwrap();
        assert_eq!(outcome.physical_written_sectors.total, 0, "{}", spec.name);
    }
}

#[test]
fn a_write_to_a_full_region_rewrites_it_and_to_an_empty_not() {
    let rewrites = |prefill| {
        let system = System::drive("cassuto-random").layer("rmw");
        let run = system.run(Settings { prefill, ..Settings::default() }).unwrap();
        let requests = (0..50).map(|i| Request::new(Op::Write, Lba(i * 1_000_000), 8));
        let outcome = serve(&run, &Table(requests.collect()), &mut NoObserver).unwrap();
        crate::common::count(&outcome, "rewrites")
    };
    assert_eq!([Prefill::Full, Prefill::None].map(rewrites), [50, 0]);
}
