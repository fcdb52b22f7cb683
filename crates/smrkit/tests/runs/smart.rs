//! What the abstracts of SMaRT (FAST 2017) and T-STL say of track mapping, as far as a run can show it.

use crate::common::count;
use crate::common::planned::{Set, serve, with, workload};
use smrkit::drive::Drive;
use smrkit::engine::NoObserver;
use smrkit::experiment::demand::Demand;
use smrkit::experiment::system::System;
use smrkit::geometry::Geometry;
use smrkit::medium::interference::Interference;
use smrkit::settings::{Arrival, Settings};
use smrkit::stats::outcome::Outcome;

/// A run of a layer on a full disk of 3000 tracks of 50 sectors with a head two tracks wide.
fn run(layer: &str, set: Set, demand: &dyn Demand, settings: Settings) -> Outcome {
    let mut drive = Drive::load("tiny-constant").unwrap();
    drive.geometry = Geometry::uniform(3000, 50).unwrap();
    let drive = drive.with_interference(Interference::Tracks { width: 2, band: None }).unwrap();
    serve(&with(System::of(drive), layer, set).run(settings).unwrap(), demand, &mut NoObserver).unwrap()
}

fn flat_out(set: Set, text: &str) -> Outcome {
    run("smart", set, &workload(text), Settings::default())
}

/// T-STL: below half of the space, every other track is used, and a shingled disk is a conventional one.
#[test]
fn below_half_of_the_space_every_update_is_in_place() {
    let outcome = flat_out(&[("spare_percent", "52")], "random-write:count=20k");
    assert_eq!(outcome.write_amplification, Some(1.0));
    assert_eq!((count(&outcome, "tracks_moved"), count(&outcome, "tracks_gathered")), (0, 0));
}

/// T-STL: a track that is moved leaves a free one, and nothing has to be collected until free space is in pieces.
#[test]
fn nothing_is_gathered_while_the_pool_lasts() {
    let set = [("spare_percent", "20"), ("idle_clean", "off")];
    let outcome = flat_out(&set, "random-write:count=500");
    // 600 tracks are free.
    assert!(count(&outcome, "tracks_moved") > 300);
    assert_eq!(count(&outcome, "tracks_gathered"), 0);
    let outcome = flat_out(&set, "random-write:count=5k");
    assert!(count(&outcome, "first_cleaning_request") > 500 && count(&outcome, "tracks_gathered") > 0);
}

/// SMaRT: some updates are in place even on a fuller disk, namely those of tracks before a free one.
#[test]
fn a_fuller_disk_updates_a_part_in_place() {
    let share = |spare| {
        let outcome = flat_out(&[("spare_percent", spare)], "random-write:count=20k");
        let [in_place, moved] = ["updates_in_place", "tracks_moved"].map(|key| count(&outcome, key) as f64);
        in_place / (in_place + moved)
    };
    let shares = ["5", "10", "20", "40"].map(share);
    assert!(shares.is_sorted() && shares[0] > 0.005 && shares[3] > 0.05, "{shares:?}");
}

/// SMaRT: cold data wander away from what is written often, so that locality makes gathering cheap.
#[test]
fn locality_makes_gathering_cheap() {
    let gathered = |text: &str| {
        let outcome = flat_out(&[("spare_percent", "10")], text);
        count(&outcome, "tracks_gathered") as f64 / count(&outcome, "tracks_moved") as f64
    };
    let uniform = gathered("random-write:count=40k");
    let hot = gathered("hot-cold:write_share=1,hot_share=5%,hot_access_share=95%,count=40k");
    assert!(hot < 0.7 * uniform, "{hot} against {uniform}");
}

/// SMaRT: what is gathered in the background is not waited for.
#[test]
fn idle_time_gathers_what_writes_would_wait_for() {
    let paused = Settings { arrival: Arrival::Trace, ..Settings::default() };
    let waited = |idle_clean| {
        let set = [("spare_percent", "10"), ("idle_clean", idle_clean), ("idle_delay", "1ms")];
        let outcome = run("smart", &set, &workload("random-write:count=4k,rate=5"), paused);
        outcome.layer_stats.get("first_cleaning_request").is_some()
    };
    assert_eq!((waited("off"), waited("on")), (true, false));
}

/// SMaRT: far faster than a drive-managed disk with a persistent cache, as long as the use of the space is below a threshold.
#[test]
fn up_to_half_of_the_space_it_takes_a_fraction_of_the_time_of_a_persistent_cache() {
    let demand = workload("random-write:count=5k");
    let managed = run("drive-managed", &[("cache_tracks", "60")], &demand, Settings::default());
    let own = run("smart", &[("spare_percent", "52")], &demand, Settings::default());
    assert!(own.elapsed_ns * 5 < managed.elapsed_ns, "{} against {}", own.elapsed_ns, managed.elapsed_ns);
}
