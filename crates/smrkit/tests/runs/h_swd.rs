//! What the abstract of H-SWD (MASCOTS 2012) claims, as far as a run can show it.

use crate::common::count;
use crate::common::planned::{Set, serve, with, workload};
use smrkit::drive::Drive;
use smrkit::engine::NoObserver;
use smrkit::experiment::system::System;
use smrkit::geometry::Geometry;
use smrkit::medium::interference::Interference;
use smrkit::settings::Settings;
use smrkit::stats::outcome::Outcome;

/// Some blocks, scattered over the disk, are written far more often than others.
const SKEWED: &str = "zipf:write_share=1,count=30k";

/// A run of a layer on a full disk of 3000 tracks of 50 sectors with a head two tracks wide.
fn run(layer: &str, set: Set, text: &str) -> Outcome {
    let mut drive = Drive::load("tiny-constant").unwrap();
    drive.geometry = Geometry::uniform(3000, 50).unwrap();
    let drive = drive.with_interference(Interference::Tracks { width: 2, band: None }).unwrap();
    serve(&with(System::of(drive), layer, set).run(Settings::default()).unwrap(), &workload(text), &mut NoObserver)
        .unwrap()
}

fn h_swd(hot_writes: &str, text: &str) -> Outcome {
    run("h-swd", &[("cache_percent", "6"), ("region_sectors", "500"), ("hot_writes", hot_writes)], text)
}

/// Telling hot data from cold makes reclaiming cheaper, if there is hot data.
#[test]
fn knowing_hot_data_saves_rewriting() {
    let rewritten = |hot_writes, text| count(&h_swd(hot_writes, text), "bands_rewritten") as f64;
    let (with, without) = (rewritten("2", SKEWED), rewritten("0", SKEWED));
    assert!(with < without, "{with} against {without}");
    let uniform = "random-write:count=10k";
    let (with, without) = (rewritten("2", uniform), rewritten("0", uniform));
    assert!((0.9..1.1).contains(&(with / without)), "{with} against {without}");
}

/// It needs less time than the indirection system of S-blocks, which moves all S-blocks alike.
#[test]
fn it_is_faster_than_s_blocks_under_a_skewed_load() {
    let s_blocks = [("cache_percent", "3"), ("spare_percent", "3"), ("sblock_sectors", "500")];
    let [own, theirs] = [h_swd("2", SKEWED), run("s-block", &s_blocks, SKEWED)];
    assert!(own.elapsed_ns < theirs.elapsed_ns, "{} against {}", own.elapsed_ns, theirs.elapsed_ns);
}
