//! Cost of cleaning a log against the closed form for FIFO under uniform writes (Lambert's W; `docs/reference/layers/log.md`),
//! and the order of the policies.

use crate::common::planned::{self, serve, with};
use smrkit::drive::Drive;
use smrkit::engine::NoObserver;
use smrkit::experiment::system::System;
use smrkit::geometry::Geometry;
use smrkit::medium::interference::Interference;
use smrkit::settings::{Prefill, Settings, Warmup};

const SEGMENTS: u64 = 1200;
const SEGMENT_SECTORS: u64 = 480;
/// Writes of 4 KiB before counting begins, and counted: some 2.5 times the log each.
const WRITES: u64 = 180_000;

/// Lambert's W₀ by Newton's iteration, for -1/e < x < 0.
fn lambert_w(x: f64) -> f64 {
    (0..100).fold(-0.1, |w: f64, _| w - (w * w.exp() - x) / (w.exp() * (w + 1.0)))
}

/// Sectors written for each of the host's, FIFO, at this share of live data.
fn fifo_amplification(fill: f64) -> f64 {
    let a = 1.0 / fill;
    a / (a + lambert_w(-a * (-a).exp()))
}

/// Sectors written for each of the host's by a log of [`SEGMENTS`] segments, full of data, in its steady state.
fn amplification(set: &[(&str, &str)], workload: &str) -> f64 {
    let mut drive = Drive::load("tiny-constant").unwrap();
    drive.geometry = Geometry::uniform(SEGMENTS, SEGMENT_SECTORS).unwrap();
    let drive = drive.with_interference(Interference::Blocks { reach: 6 }).unwrap();
    let settings = Settings { prefill: Prefill::Sequential, warmup: Warmup::Requests(WRITES), ..Settings::default() };
    let run = with(System::of(drive), "log", &[&[("segment_tracks", "1")], set].concat()).run(settings).unwrap();
    let demand = planned::workload(&format!("{workload},count={}", 2 * WRITES));
    serve(&run, &demand, &mut NoObserver).unwrap().write_amplification.unwrap()
}

#[test]
fn the_closed_form_has_its_known_values() {
    let values = [0.7, 0.8, 0.9].map(|fill| format!("{:.3}", fifo_amplification(fill)));
    assert_eq!(values, ["1.876", "2.693", "5.179"]);
}

#[test]
fn fifo_costs_what_the_closed_form_says_and_greedy_no_more() {
    for (spare, fill) in [("30", 0.7), ("20", 0.8), ("10", 0.9)] {
        let closed = fifo_amplification(fill);
        let of = |policy| amplification(&[("policy", policy), ("spare_percent", spare)], "random-write:size=4Ki");
        let (fifo, greedy) = (of("fifo"), of("greedy"));
        println!("fill {fill}: closed form {closed:.3}, fifo {fifo:.3}, greedy {greedy:.3}");
        assert!((fifo / closed - 1.0).abs() < 0.05, "fill {fill}: {fifo} against {closed}");
        assert!(greedy <= fifo, "fill {fill}: {greedy} against {fifo}");
    }
}

#[test]
fn cost_benefit_is_below_greedy_where_a_tenth_is_hot() {
    for separate in ["none", "hot"] {
        let hot = "hot-cold:size=4Ki,write_share=1,hot_share=0.1,hot_access_share=0.9";
        let of = |policy| amplification(&[("policy", policy), ("spare_percent", "20"), ("separate", separate)], hot);
        let (greedy, cost_benefit) = (of("greedy"), of("cost-benefit"));
        println!("separate={separate}: greedy {greedy:.3}, cost-benefit {cost_benefit:.3}");
        assert!(cost_benefit < greedy, "separate={separate}: {cost_benefit} against {greedy}");
    }
}
