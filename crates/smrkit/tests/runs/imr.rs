//! What is said of interlaced recording, as far as a run can show it.

use crate::common::count;
use crate::common::planned::{Set, serve, with, workload};
use smrkit::drive::Drive;
use smrkit::engine::NoObserver;
use smrkit::experiment::system::System;
use smrkit::geometry::Geometry;
use smrkit::settings::{Prefill, Settings};
use smrkit::stats::outcome::Outcome;

/// A run on 400 interlaced tracks of 50 sectors, in check mode.
fn run(set: Set, prefill: Prefill, text: &str) -> Outcome {
    let mut drive = Drive::load("tiny-constant").unwrap();
    drive.geometry = Geometry::uniform(400, 50).unwrap();
    let settings = Settings { check: true, prefill, ..Settings::default() };
    serve(&with(System::of(drive), "imr", set).run(settings).unwrap(), &workload(text), &mut NoObserver).unwrap()
}

/// No space is lost to guards: every track is used.
#[test]
fn all_tracks_are_used() {
    let capacity = run(&[], Prefill::Full, "random-write:count=1").capacity;
    assert_eq!((capacity.host_sectors, capacity.guard_sectors), (400 * 50, 0));
}

/// Two phases: bottom tracks are used first, so that nothing is rewritten before half of the space is in use.
#[test]
fn up_to_half_of_the_space_nothing_is_rewritten_in_two_phases() {
    let half = "random-write:count=2k,span=5000000";
    let amplification = |phases| run(&[("phases", phases)], Prefill::None, half).write_amplification.unwrap();
    assert_eq!((amplification("2"), amplification("3")), (1.0, 1.0));
    assert!(amplification("1") > 1.5);
}

/// Three phases: up to three quarters, a write to a bottom track has a top track in use on one side only.
#[test]
fn up_to_three_quarters_one_track_is_rewritten_in_three_phases() {
    let rewritten = |phases| {
        let outcome = run(
            &[("phases", phases)],
            Prefill::None,
            "sequential-write:size=4Ki,span=7500000,count=1850;random-write:count=2k,span=7500000",
        );
        let [writes, tops] = ["bottom_writes", "tops_rewritten"].map(|key| count(&outcome, key));
        tops as f64 / writes as f64
    };
    let (two, three) = (rewritten("2"), rewritten("3"));
    assert!(three <= 1.0 && three > 0.3, "{three}");
    assert!(two > 0.3, "{two}");
}

/// On a full disk writes to top tracks are free, and those to bottom tracks write three times as much: twice the host's sectors on average.
#[test]
fn on_a_full_disk_a_bottom_write_rewrites_both_neighbours() {
    let outcome = run(&[], Prefill::Full, "random-write:count=4k");
    let [tops, bottoms, rewritten] =
        ["top_writes", "bottom_writes", "tops_rewritten"].map(|key| count(&outcome, key) as f64);
    // The last bottom track has a top track on one side only.
    assert!((rewritten / bottoms - 2.0).abs() < 0.02, "{rewritten} of {bottoms}");
    assert!((tops / bottoms - 1.0).abs() < 0.1, "{tops} and {bottoms}");
    assert!((outcome.write_amplification.unwrap() - 2.0).abs() < 0.1);
}
