//! Tables and figure 6 of the Vguard paper on its layer, and single behaviours of it.

use crate::common::planned::{Set, serve, with, workload};
use crate::common::{count, on_st5000as0011, writes};
use smrkit::drive::Drive;
use smrkit::engine::NoObserver;
use smrkit::experiment::demand::{GeneratedDemand, Table};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::system::System;
use smrkit::geometry::{Edge, Geometry, ZoneShape};
use smrkit::medium::interference::Interference;
use smrkit::settings::Settings;
use smrkit::stats::outcome::Outcome;

const TRACK: u64 = 3516;
/// The first LBA on tracks of that length: the 41 home tracks before it are as long as the cache's, next to which they lie.
const BASE: u64 = 41 * 3576;
const ROTATION_MS: f64 = 60_000.0 / 5980.0;

fn random_writes(span: &str, set: Set, warmup: u64) -> Outcome {
    let writes = workload(&format!("random-write:size=4Ki,span={span},count=100k"));
    let demand = GeneratedDemand { span: Some(9_700_000_000), ..writes };
    on_st5000as0011("vguard", set, warmup, &demand)
}

fn written(extents: &[(u64, u32)]) -> Outcome {
    on_st5000as0011("vguard", &[], 0, &Table(writes(extents).into()))
}

fn near(ns: u64, ms: f64, tolerance: f64) -> bool {
    (ns as f64 / 1e6 - ms).abs() <= tolerance
}

#[test]
fn the_last_track_of_a_band_is_written_without_a_copy() {
    let outcome = written(&[(BASE + 19 * TRACK, 8), (BASE + 39 * TRACK + 100, 8)]);
    assert_eq!(count(&outcome, "guard_copies"), 0);
}

#[test]
fn a_track_is_copied_once_however_often_the_one_before_is_written() {
    let many: Vec<(u64, u32)> = (0..200).map(|i| (BASE + i % 400 * 8, 8)).collect();
    let outcome = written(&many);
    assert_eq!((count(&outcome, "guard_copies"), count(&outcome, "cached_tracks_max")), (1, 1));
}

#[test]
fn a_cached_track_moves_to_the_head_when_another_lies_behind_it() {
    // The innermost band: its tracks are short, so that each takes one track of the cache with its copy of the map. Tracks
    // 1 and 11 are copied, then 1 is written (11 lies behind it), then written again at the head.
    let (band, track) = (written(&[(0, 8)]).capacity.host_sectors - 20 * 1758, 1758);
    let outcome = written(&[(band, 8), (band + 10 * track, 8), (band + track, 8), (band + track + 800, 8)]);
    assert_eq!((count(&outcome, "guard_copies"), count(&outcome, "relocations")), (2, 1));
    assert_eq!(count(&outcome, "cache_tracks_active_max"), 2);
}

#[test]
fn a_write_that_follows_its_predecessor_waits_a_rotation() {
    let outcome = written(&(0..50).map(|i| (BASE + 19 * TRACK + i * 16, 16)).collect::<Vec<_>>());
    assert!(near(outcome.latency_ns.write.p50, 10.08, 0.01), "{}", outcome.latency_ns.write.p50);
}

#[test]
fn a_copy_for_a_sequential_write_takes_three_rotations() {
    // 4 KB writes on a band's last track end where the next begins a track that needs a copy, 30.12 ms in the paper.
    let outcome = written(&[(BASE + 19 * TRACK + 1000, 8), (BASE + 20 * TRACK + 1008, 8)]);
    assert!(near(outcome.latency_ns.write.max, 3.0 * ROTATION_MS + 8.0 / 3516.0 * ROTATION_MS, 0.01));
}

#[test]
fn the_map_takes_41_kb_by_equation_1() {
    assert_eq!(written(&[(0, 8)]).map_bytes, 9194 * 36 / 8);
}

#[test]
fn random_writes_are_first_cleaned_after_9678() {
    for span in ["500G", "1T", "2T", "4T"] {
        let first = count(&random_writes(span, &[], 0), "first_cleaning_request");
        assert!(first.abs_diff(9678) * 100 <= 9678 * 3, "{span}: {first}");
    }
}

#[test]
fn a_terabyte_of_random_writes_cleans_0_72_bands_a_write() {
    let bands = count(&random_writes("1T", &[("partial", "off")], 50_000), "bands_cleaned");
    assert!((bands as f64 / 50_000.0 / 0.72 - 1.0).abs() < 0.05, "{bands}");
}

#[test]
fn whole_bands_cut_the_tail_and_whole_episodes_the_median() {
    let runs = ["phase", "band", "episode"].map(|spread| random_writes("1T", &[("spread", spread)], 0));
    let of = |value: fn(&Outcome) -> u64| [&runs[0], &runs[1], &runs[2]].map(value);
    let (medians, tails) = (of(|run| run.latency_ns.write.p50), of(|run| run.latency_ns.write.p99));
    assert!(medians[2] * 2 < medians[0].min(medians[1]), "{medians:?}");
    assert!(tails[1] < tails[0] && tails[0] < tails[2], "{tails:?}");
    let cleaned = of(|run| count(run, "bands_cleaned"));
    assert!(cleaned.iter().all(|bands| bands.abs_diff(cleaned[0]) < cleaned[0] / 50), "{cleaned:?}");
}

#[test]
fn a_real_trace_has_the_latencies_of_table_2() {
    let Some(trace) = crate::common::real_trace("msr_wdev_1.csv.zst") else { return };
    let outcome = on_st5000as0011("vguard", &[], 0, &trace);
    let latency = outcome.latency_ns.all;
    assert_eq!((count(&outcome, "guard_copies"), count(&outcome, "bands_cleaned")), (4, 0));
    assert!(near(latency.p95, 10.08, 0.03) && near(latency.p99, 10.08, 0.05), "{latency:?}");
    assert!(near(latency.p99_5, 10.38, 0.1), "{latency:?}");
    assert!(near(latency.p99_9, 38.04, 3.8) && near(latency.max, 39.25, 3.9), "{latency:?}");
}

/// A run in check mode on a small drive whose second band has a track of defects alone, the last but one of its ten.
fn checked(layer: &str, cache_tracks: &str) -> PlannedRun {
    let mut drive = Drive::load("tiny-constant").unwrap();
    let shape = ZoneShape { surface: 0, outer_cylinder: 0, tracks: 200, track_sectors: 40, toward: Edge::Inner };
    drive.geometry = Geometry::new(&[shape], 0, (60 * 40..61 * 40).collect()).unwrap();
    let drive = drive.with_interference(Interference::Tracks { width: 3, band: None }).unwrap();
    let set = [("band_tracks", "10"), ("cache_tracks", cache_tracks), ("buffer_bytes", "4KiB")];
    with(System::of(drive), layer, &set).run(Settings { check: true, ..Settings::default() }).unwrap()
}

#[test]
fn cleaning_takes_no_harm_from_a_track_of_defects_alone() {
    for layer in ["vguard", "drive-managed"] {
        for step in [1, 7] {
            let run = checked(layer, "24");
            let pieces = run.host_sectors().unwrap() / 8;
            // In order, or each seventh and those between in later rounds.
            let lbas = (0..step).flat_map(|first| (first..pieces).step_by(step as usize)).map(|piece| (piece * 8, 8));
            let demand = Table(writes(&lbas.collect::<Vec<_>>()).into());
            serve(&run, &demand, &mut NoObserver).unwrap_or_else(|error| panic!("{layer}, {step}: {error}"));
        }
    }
}

#[test]
fn a_track_of_defects_alone_is_copied_as_nothing() {
    let before = Table(writes(&[(17 * 40, 8)]).into());
    let outcome = serve(&checked("vguard", "20"), &before, &mut NoObserver).unwrap();
    assert_eq!(count(&outcome, "guard_copies"), 2);
}
