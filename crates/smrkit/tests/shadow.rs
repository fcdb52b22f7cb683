//! Every layer, under each form of interference that it declares, on many small random disks in check mode: each read
//! returns the last write, and nothing that the host owns is ever damaged.
//!
//! `SMRKIT_SHADOW_REQUESTS` sets the requests for each layer (10^7 in CI).

mod common;

use common::count::count_from;
use common::planned::{plan, serve};
use common::{Disks, random_requests, with_times};
use rand::RngExt;
use smrkit::engine::NoObserver;
use smrkit::engine::system::DriveRun;
use smrkit::error::{Error, Fault};
use smrkit::experiment::demand::Table;
use smrkit::layer::{self, LAYERS, LayerSpec};
use smrkit::medium::interference::Form;
use smrkit::settings::{Arrival, Prefill, Queue, Settings};

const REQUESTS_PER_DISK: u64 = 4000;

fn requests_wanted() -> u64 {
    count_from("SMRKIT_SHADOW_REQUESTS", 50_000)
}

/// One random disk, parameters and requests; `None` where the disk is too small for the parameters.
fn trial(spec: &'static LayerSpec, form: Form, seed: u64) -> Option<Result<(), String>> {
    let mut disks = Disks::new(seed);
    let drive = disks.drive(form);
    let parameters = disks.parameters(spec);
    let queued = disks.random.random_bool(0.3);
    // Idle gaps, in which layers do what they put off.
    let open = seed % 3 == 1;
    let settings = Settings {
        check: true,
        seed,
        arrival: if open { Arrival::Trace } else { Arrival::FlatOut },
        prefill: [Prefill::None, Prefill::Full, Prefill::Full, Prefill::Sequential, Prefill::Random(0.7)]
            [disks.random.random_range(0..5)],
        depth: if queued { 4 } else { 1 },
        queue: if queued { Queue::Sptf } else { Queue::Fcfs },
        ..Settings::default()
    };
    let run = match plan(DriveRun { drive: drive.clone(), layer: spec, parameters }, settings) {
        Ok(run) => run,
        Err(Error::Impossible(_)) => return None,
        Err(other) => return Some(Err(other.to_string())),
    };
    let mut requests = random_requests(&mut disks.random, run.host_sectors().unwrap(), REQUESTS_PER_DISK);
    if open {
        requests = with_times(&mut disks.random, requests);
    }
    let what = |error| format!("{error}\n{:?} {:?}", drive.interference, run.system().drives()[0].parameters);
    Some(serve(&run, &Table(requests.into()), &mut NoObserver).map(drop).map_err(what))
}

fn survives(name: &str) {
    let spec = layer::find(name).unwrap();
    let mut requests = 0;
    for seed in 0.. {
        for &form in spec.copes_with {
            if let Some(result) = trial(spec, form, seed) {
                result.unwrap_or_else(|error| panic!("{name} under {form:?}, seed {seed}: {error}"));
                requests += REQUESTS_PER_DISK;
            }
        }
        if requests >= requests_wanted() {
            break;
        }
    }
    println!("{name}: {requests} requests");
}

#[test]
fn rmw_never_loses_a_write() {
    survives("rmw");
}

#[test]
fn set_assoc_never_loses_a_write() {
    survives("set-assoc");
}

#[test]
fn s_block_never_loses_a_write() {
    survives("s-block");
}

#[test]
fn drive_managed_never_loses_a_write() {
    survives("drive-managed");
}

#[test]
fn vguard_never_loses_a_write() {
    survives("vguard");
}

#[test]
fn track_map_never_loses_a_write() {
    survives("track-map");
}

#[test]
fn smart_never_loses_a_write() {
    survives("smart");
}

#[test]
fn log_never_loses_a_write() {
    survives("log");
}

#[test]
fn dm_zoned_never_loses_a_write() {
    survives("dm-zoned");
}

#[test]
fn zone_log_never_loses_a_write() {
    survives("zone-log");
}

#[test]
fn imr_never_loses_a_write() {
    survives("imr");
}

#[test]
fn host_aware_never_loses_a_write() {
    survives("host-aware");
}

#[test]
fn h_swd_never_loses_a_write() {
    survives("h-swd");
}

#[test]
fn every_layer_but_the_baseline_is_tested_here() {
    let tested =
        "rmw set-assoc s-block drive-managed vguard track-map smart log dm-zoned zone-log imr host-aware h-swd"
            .split(' ')
            .collect::<Vec<_>>();
    let missing: Vec<&str> = LAYERS.iter().map(|spec| spec.name).filter(|n| *n != layer::BASELINE).collect();
    assert_eq!(missing, tested, "add a test for each layer above");
}

#[test]
fn the_conventional_disk_is_caught_under_every_interference() {
    for form in Form::ALL {
        let caught = |seed| {
            let result = trial(layer::find(layer::BASELINE).unwrap(), form, seed).unwrap();
            result.is_err_and(|error| error.contains("broke the shingling law") || error.contains("but the last write"))
        };
        assert!((0..20).any(caught), "in-place is not caught under {form:?}");
    }
}

#[test]
fn damage_is_named_when_it_happens() {
    let mut disks = Disks::new(1);
    let drive = disks.drive(Form::Blocks);
    let settings = Settings { check: true, prefill: Prefill::None, ..Settings::default() };
    let layer = layer::find(layer::BASELINE).unwrap();
    let run = plan(DriveRun { drive, layer, parameters: disks.parameters(layer) }, settings).unwrap();
    let writes = common::writes(&[(8, 8), (0, 8)]);
    let error = serve(&run, &Table(writes.into()), &mut NoObserver);
    let Err(Error::Fault(fault)) = error else { panic!("no fault") };
    assert!(matches!(*fault, Fault::Damaged { lba, by, .. } if lba.0 == 8 && by.0 == 0), "{fault}");
}
