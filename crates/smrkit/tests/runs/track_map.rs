//! The numbers of He & Du 2014 through the layer itself: figure 2's table, cold writes, requests over several tracks,
//! and that sectors on the platters follow the paper's count of tracks.

use crate::common::planned::{plan, serve};
use proptest::prelude::*;
use smrkit::drive::Drive;
use smrkit::engine::NoObserver;
use smrkit::engine::system::DriveRun;
use smrkit::error::Error;
use smrkit::experiment::demand::Table;
use smrkit::geometry::Geometry;
use smrkit::layer::{self, Scalar};
use smrkit::medium::interference::Interference;
use smrkit::request::{Op, Request};
use smrkit::settings::{Prefill, Settings, Warmup};
use smrkit::stats::outcome::Outcome;
use smrkit::units::Lba;

const SECTORS: u64 = 100;

/// Bands of `tracks` tracks of 100 sectors under a head of `width` tracks, that fit exactly.
fn drive(bands: u64, tracks: u64, width: u64) -> Drive {
    let mut drive = Drive::load("tiny-constant").unwrap();
    drive.geometry = Geometry::uniform(bands * (tracks + width - 1), SECTORS).unwrap();
    drive.with_interference(Interference::Tracks { width, band: None }).unwrap()
}

fn run(drive: &Drive, set: &[(&str, String)], settings: Settings, requests: Vec<Request>) -> Result<Outcome, Error> {
    let spec = layer::find("track-map").unwrap();
    let mut all = vec![("random_tracks".to_string(), "0".to_string())];
    all.extend(set.iter().map(|(key, value)| (key.to_string(), value.clone())));
    let parameters = spec.resolve(&all)?;
    let run = plan(DriveRun { drive: drive.clone(), layer: spec, parameters }, settings)?;
    serve(&run, &Table(requests.into()), &mut NoObserver)
}

fn stat(outcome: &Outcome, key: &str) -> f64 {
    match outcome.layer_stats[key] {
        Scalar::Float(value) => value,
        Scalar::Int(value) => value as f64,
        ref other => panic!("{key} is {other:?}"),
    }
}

fn list(outcome: &Outcome, key: &str) -> Vec<u64> {
    let Scalar::List(values) = &outcome.layer_stats[key] else { panic!("{key} is no list") };
    values.clone()
}

/// Every sector verified, on an empty disk.
fn empty() -> Settings {
    Settings { check: true, prefill: Prefill::None, ..Settings::default() }
}

/// Settings for a disk as full as it is offered.
fn full() -> Settings {
    Settings { prefill: Prefill::Sequential, ..empty() }
}

fn write(lba: u64, sectors: u64) -> Request {
    Request::new(Op::Write, Lba(lba), sectors as u32)
}

/// A write of part of each used track.
fn updates(tracks: u64) -> Vec<Request> {
    (0..tracks).map(|track| write(track * SECTORS + 37, 8)).collect()
}

#[test]
fn the_table_of_figure_2_comes_out_of_the_layer() {
    let five_thirds = 5.0 / 3.0;
    let table = [
        ("1234", [4.0, 4.0, 4.0, 4.0]),
        ("R(4123)", [1.0, 1.0, five_thirds, 4.0]),
        ("124R(3)", [five_thirds, five_thirds, five_thirds, 4.0]),
        ("14R(23)", [1.0, 1.0, five_thirds, 4.0]),
    ];
    for (scheme, wars) in table {
        for (i, war) in wars.into_iter().enumerate() {
            let percent = 25 * (i as u64 + 1);
            let set = [("scheme", scheme.to_string()), ("fill_percent", percent.to_string())];
            let outcome = run(&drive(12, 4, 2), &set, full(), updates(12 * 4 * percent / 100)).unwrap();
            let found = [stat(&outcome, "war_mean"), stat(&outcome, "update_war_mean")];
            assert!(found.iter().all(|found| (found - war).abs() < 1e-12), "{scheme} at {percent} %: {found:?}");
            assert_eq!(list(&outcome, "track_updates").iter().sum::<u64>(), outcome.requests, "{scheme}");
            assert_eq!((list(&outcome, "track_cold_writes"), stat(&outcome, "space_gain")), (vec![0; 4], 1.6));
        }
    }
}

#[test]
fn cold_sequential_writes_cost_1_then_3_and_1_5_in_all() {
    for scheme in ["1234", "R(4123)", "124R(3)", "14R(23)"] {
        let war = |percent: u64, warmup: u64| {
            let count = 12 * 4 * percent / 100 * SECTORS / 4;
            let requests = (0..count).map(|i| write(i * 4, 4)).collect();
            let set = [("scheme", scheme.to_string()), ("fill_percent", percent.to_string())];
            let settings = Settings { warmup: Warmup::Requests(warmup * 12 * SECTORS / 4), ..empty() };
            let outcome = run(&drive(12, 4, 2), &set, settings, requests).unwrap();
            assert_eq!(list(&outcome, "track_updates"), [0; 4], "nothing is written twice");
            stat(&outcome, "war_mean")
        };
        let expected = if scheme == "1234" { [1.0, 1.0, 1.0] } else { [1.0, 1.5, 3.0] };
        assert_eq!([war(75, 0), war(100, 0), war(100, 3)], expected, "{scheme}");
    }
}

#[test]
fn a_request_over_several_tracks_takes_the_others_along_once() {
    let requests = vec![write(0, 2 * SECTORS)];
    let outcome = run(&drive(12, 4, 2), &[("scheme", "1234".into())], full(), requests).unwrap();
    assert_eq!((outcome.physical_written_sectors.total, outcome.physical_read_sectors.total), (400, 200));
    assert_eq!(stat(&outcome, "war_mean"), 3.0);
    assert_eq!(list(&outcome, "track_updates"), [1, 1, 0, 0]);
    // The last track 4 and the first track 1 lie one after the other, and in different bands.
    let requests = vec![write(11 * SECTORS + 50, SECTORS)];
    let outcome = run(&drive(12, 4, 2), &[("scheme", "R(4123)".into())], full(), requests).unwrap();
    assert_eq!(outcome.physical_written_sectors.total, 50 + 50 + 3 * SECTORS);
    // In a single band they meet, and what lies between them is rewritten once.
    let requests = vec![write(50, SECTORS)];
    let outcome = run(&drive(1, 4, 2), &[("scheme", "R(4123)".into())], full(), requests).unwrap();
    assert_eq!(outcome.physical_written_sectors.total, 50 + 3 * SECTORS);
    assert_eq!(stat(&outcome, "tracks_rewritten"), 2.0);
}

#[test]
fn what_is_impossible_is_refused_with_a_remedy() {
    let refused = |set: &[(&str, &str)]| {
        let set: Vec<(&str, String)> = set.iter().map(|(key, value)| (*key, value.to_string())).collect();
        run(&drive(12, 4, 2), &set, full(), updates(1)).unwrap_err().to_string()
    };
    assert!(refused(&[("random_tracks", "57")]).contains("no band of 4 tracks fits"));
    assert!(refused(&[("scheme", "12R(44)3")]).contains("named twice"));
    let set = [("fill_percent", "50".to_string())];
    let beyond = || vec![write(24 * SECTORS - 1, 2)];
    assert!(run(&drive(12, 4, 2), &set, full(), beyond()).unwrap_err().to_string().contains("fold"));
    assert!(run(&drive(12, 4, 2), &set, Settings { fold: true, ..full() }, beyond()).is_ok());
}

#[test]
fn after_so_many_writes_what_lies_upstream_is_written_again() {
    let refreshed = |dpid: u64, writes: u32| {
        let law = Interference::Distances { did: SECTORS, dpid, writes };
        let drive = drive(12, 4, 3).with_interference(law).unwrap();
        let requests = (0..20).map(|_| write(3 * SECTORS, 8)).collect();
        let outcome = run(&drive, &[("scheme", "1234".into())], full(), requests).unwrap();
        stat(&outcome, "tracks_refreshed")
    };
    assert_eq!(refreshed(0, 1), 0.0);
    // Each refreshes track 3, whose writing wears out track 2, and that wears out track 1.
    assert!(refreshed(SECTORS, 5) >= 4.0);
    assert!(refreshed(SECTORS, 1) > refreshed(SECTORS, 5));
}

proptest! {
    /// Updates of whole tracks, so that a request of the paper is this many sectors.
    #[test]
    fn platters_and_paper_agree_for_any_scheme_head_and_fill(
        order in (1u32..9).prop_flat_map(|n| Just((1..=n).collect::<Vec<u32>>()).prop_shuffle()),
        cuts in prop::collection::vec(any::<bool>(), 8),
        width in 1u64..5,
        eighths in 1u64..=8,
    ) {
        let items = order.iter().zip(&cuts).map(|(t, &r)| if r { format!("R({t})") } else { t.to_string() });
        let (scheme, tracks) = (items.collect::<String>(), order.len() as u64);
        let (bands, percent) = (8, eighths as f64 * 12.5);
        let used = tracks * eighths;
        let set = [("scheme", scheme.clone()), ("fill_percent", percent.to_string())];
        let requests = (0..used).map(|track| write(track * SECTORS, SECTORS)).collect();
        let outcome = run(&drive(bands, tracks, width), &set, full(), requests).unwrap();
        let war = stat(&outcome, "war_mean");
        let rewritten = stat(&outcome, "tracks_rewritten") as u64;
        prop_assert_eq!((used + 2 * rewritten) as f64 / used as f64, war);
        prop_assert_eq!(outcome.physical_written_sectors.total, (used + rewritten) * SECTORS);
        prop_assert_eq!(outcome.physical_read_sectors.total, rewritten * SECTORS);
        if eighths == 8 {
            // Equation (2): on a full disk the scheme makes no difference.
            let expected = if width > 1 { tracks as f64 } else { 1.0 };
            prop_assert!((war - expected).abs() < 1e-12);
        }
    }
}
