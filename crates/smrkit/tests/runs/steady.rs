//! Warm-up until cleaning has settled: that of a drive or of an array, or that it never did.

use crate::common::planned::{Set, serve, with, workload};
use smrkit::device::spec::ArraySpec;
use smrkit::engine::NoObserver;
use smrkit::experiment::system::System;
use smrkit::settings::{Settings, Warmup};
use smrkit::stats::outcome::Outcome;

fn drive(layer: &str, set: Set) -> System {
    with(System::drive("tiny"), layer, set)
}

fn run(system: System, requests: &str) -> Outcome {
    let run = system.run(Settings { warmup: Warmup::UntilSteady, ..Settings::default() }).unwrap();
    let demand = workload(&format!("random-write:size=4KiB,count={requests}"));
    serve(&run, &demand, &mut NoObserver).unwrap()
}

const MANAGED: [(&str, &str); 3] = [("cache_tracks", "40"), ("band_tracks", "6"), ("beta", "300")];

fn amplification(outcome: &Outcome) -> f64 {
    outcome.physical_written_sectors.clean as f64 / outcome.host_written_sectors as f64
}

#[test]
fn counting_begins_when_cleaning_has_settled() {
    let outcome = run(drive("drive-managed", &MANAGED), "40k");
    let steady = outcome.state.steady.unwrap();
    assert_eq!(outcome.requests, 40_000 - steady.after_requests);
    // The second half of the warm-up looks alike only if the first has seen the cache fill.
    assert!(steady.after_requests >= 2048 && steady.after_ns > 0, "{steady:?}");
    assert!(outcome.cleaning.count > 0);
    // What is counted goes on as it was.
    let longer = run(drive("drive-managed", &MANAGED), "80k");
    assert_eq!(longer.state.steady, outcome.state.steady);
    let (first, all) = (amplification(&outcome), amplification(&longer));
    assert!((first / all - 1.0).abs() < 0.05, "{first} and {all}");
}

#[test]
fn what_cleans_nothing_is_steady_at_once_and_a_short_demand_never() {
    assert_eq!(run(drive("in-place", &[]), "5k").state.steady.unwrap().after_requests, 2048);
    for (layer, requests) in [("in-place", "2k"), ("drive-managed", "2k")] {
        let outcome = run(drive(layer, &[]), requests);
        assert_eq!((outcome.state.steady, outcome.requests), (None, 0), "{layer}");
    }
}

/// A log has nothing to clean until its spare sectors are used up: that nothing is moved before says nothing.
#[test]
fn spare_sectors_are_used_up_before_anything_counts_as_settled() {
    let outcome = run(drive("log", &[("segment_tracks", "8"), ("spare_percent", "30")]), "60k");
    let (steady, capacity) = (outcome.state.steady.unwrap(), outcome.capacity);
    assert!(steady.after_requests * 8 >= capacity.spare_sectors, "{steady:?} {capacity:?}");
    assert!(outcome.physical_written_sectors.clean > 0);
}

#[test]
fn an_array_settles_as_its_members_do() {
    let alone = run(drive("drive-managed", &MANAGED), "40k").state.steady.unwrap();
    let array = ArraySpec::parse("raid1:disks=2").unwrap();
    let outcome = run(System { array: Some(array), ..drive("drive-managed", &MANAGED) }, "40k");
    let steady = outcome.state.steady.unwrap();
    assert!(steady.after_requests >= alone.after_requests / 2, "{steady:?}, alone {alone:?}");
    assert_eq!(outcome.requests, 40_000 - steady.after_requests);
}

#[test]
fn a_record_tells_a_number_from_until_steady() {
    for (text, json) in [("100", "100"), ("1k", "1000"), ("until-steady", "\"until-steady\"")] {
        let warmup: Warmup = text.parse().unwrap();
        assert_eq!(serde_json::to_string(&warmup).unwrap(), json);
        assert_eq!(serde_json::from_str::<Warmup>(json).unwrap(), warmup);
    }
    for wrong in ["steady", "-1", "1.5"] {
        assert!(wrong.parse::<Warmup>().is_err(), "{wrong}");
    }
    assert!(serde_json::from_str::<Warmup>("\"steady\"").is_err());
}
