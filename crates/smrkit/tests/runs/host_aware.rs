//! What a host-aware disk costs those who write its zones in order, and those who don't.

use crate::common::count;
use crate::common::planned::{Set, serve, with, workload};
use smrkit::drive::Drive;
use smrkit::engine::NoObserver;
use smrkit::experiment::system::System;
use smrkit::geometry::Geometry;
use smrkit::medium::interference::Interference;
use smrkit::settings::{Arrival, Prefill, Settings};
use smrkit::stats::outcome::Outcome;

/// A run in check mode on 750 zones of 64 KiB, 15 of them the cache, none conventional.
fn run(set: Set, text: &str, settings: Settings) -> Outcome {
    let mut drive = Drive::load("tiny-constant").unwrap();
    drive.geometry = Geometry::uniform(3000, 50).unwrap();
    let drive = drive.with_interference(Interference::Tracks { width: 2, band: None }).unwrap();
    let small = [&[("zone_bytes", "64Ki"), ("cache_percent", "2"), ("conventional_percent", "0")], set].concat();
    let run = with(System::of(drive), "host-aware", &small).run(Settings { check: true, ..settings }).unwrap();
    serve(&run, &workload(text), &mut NoObserver).unwrap()
}

const ROUND: &str = "sequential-write:size=16Ki,count=2700";

#[test]
fn zones_that_are_written_in_order_cost_nothing() {
    let outcome = run(&[], ROUND, Settings { prefill: Prefill::None, ..Settings::default() });
    assert_eq!((count(&outcome, "out_of_order_writes"), count(&outcome, "zones_rewritten")), (0, 0));
    assert_eq!(outcome.write_amplification, Some(1.0));
}

/// Each zone is cached with its headers, and written once more.
#[test]
fn full_zones_that_are_not_reset_are_written_twice() {
    let outcome = run(&[], ROUND, Settings::default());
    let amplification = outcome.write_amplification.unwrap();
    assert!((2.0..2.4).contains(&amplification), "{amplification}");
    assert_eq!(count(&outcome, "zones_rewritten") + count(&outcome, "non_seq_zones"), 2700 / 4);
}

/// Nearly every random write belongs to a zone of its own.
#[test]
fn beyond_the_limit_every_zone_written_out_of_order_has_another_one_rewritten() {
    let outcome = run(&[("max_non_seq", "4")], "random-write:count=300", Settings::default());
    let rewritten = count(&outcome, "zones_rewritten");
    assert!((280..=296).contains(&rewritten), "{rewritten}");
    assert!(outcome.write_amplification.unwrap() > 14.0, "a zone has 16 times the sectors of a write");
    let unlimited = run(&[], "random-write:count=80", Settings::default());
    assert_eq!((count(&unlimited, "zones_rewritten"), count(&unlimited, "out_of_order_writes")), (0, 80));
    assert!(count(&unlimited, "non_seq_zones") > 70);
}

#[test]
fn idle_time_rewrites_what_writes_would_wait_for() {
    let paused = Settings { arrival: Arrival::Trace, ..Settings::default() };
    let waited = |idle_clean| {
        let set = [("max_non_seq", "4"), ("idle_clean", idle_clean), ("idle_delay", "1ms")];
        run(&set, "random-write:count=100,rate=5", paused).layer_stats.get("first_cleaning_request").is_some()
    };
    assert_eq!((waited("off"), waited("on")), (true, false));
}
