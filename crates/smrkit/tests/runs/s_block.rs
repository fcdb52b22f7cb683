//! No write waits for the S-block buffer as a whole, whatever is written, unless algorithm V.5 is asked for.

use crate::common::planned::{Set, serve, with, workload};
use smrkit::engine::NoObserver;
use smrkit::experiment::demand::{Demand, Table};
use smrkit::experiment::system::AskedCapacity;
use smrkit::experiment::system::System;
use smrkit::request::{Op, Request};
use smrkit::settings::Settings;
use smrkit::stats::outcome::Outcome;
use smrkit::units::Lba;

/// 2 GB: 1,883 S-blocks, 19 of them spare. To move one takes 14 ms, all of them 26 s.
const SECTORS: u64 = 3_906_250;

fn run(set: Set, demand: &dyn Demand) -> Outcome {
    let system = System::drive("cassuto-random").capacity(AskedCapacity::Sectors(SECTORS));
    serve(&with(system, "s-block", set).run(Settings::default()).unwrap(), demand, &mut NoObserver).unwrap()
}

fn longest_ms(text: &str, set: Set) -> f64 {
    let outcome = run(set, &workload(text));
    assert!(crate::common::count(&outcome, "destages") > 100, "{text} {set:?}");
    outcome.latency_ns.write.max as f64 / 1e6
}

/// S-blocks outside the span have nothing cached: each lap of the tail has to move all of them.
#[test]
fn what_is_never_written_is_moved_past_a_little_with_each_write() {
    let longest = longest_ms("random-write:span=25%,count=40k", &[]);
    assert!(longest < 1000.0, "{longest} ms");
}

/// Three quarters of the S-blocks have nothing cached, so that the tail of a full buffer finds no invalid slot among them.
#[test]
fn what_is_never_written_is_moved_in_one_write_to_the_letter_of_v_5() {
    let longest = longest_ms("random-write:span=25%,count=40k", &[("moves", "literal")]);
    assert!(longest > 10_000.0, "{longest} ms");
}

#[test]
fn skewed_writes_wait_for_a_part_of_the_disk_under_any_policy() {
    let skewed = "hot-cold:write_share=1,hot_share=2%,hot_access_share=90%,count=40k";
    for policy in ["closest-to-tail", "largest", "cache-tail", "weighted"] {
        let longest = longest_ms(skewed, &[("policy", policy)]);
        assert!(longest < 7000.0, "{policy}: {longest} ms");
    }
}

/// Entries of which a part was written again can't be given up: their S-blocks are destaged instead of copying them for laps.
#[test]
fn long_entries_with_holes_are_not_copied_round_and_round() {
    let long = (0..18).map(|i| Request::new(Op::Write, Lba(i * 1760), 1760));
    let holes = (0..3000).map(|i| Request::new(Op::Write, Lba(i * 7919 % 3900 * 8), 8));
    let outcome = run(&[("bypass", "off")], &Table(long.chain(holes).collect()));
    assert!(crate::common::count(&outcome, "destages") > 3);
    let copied = crate::common::count(&outcome, "run_sectors");
    assert!(copied < 2000 * 2000, "{copied} sectors: a lap has 44,000");
}
