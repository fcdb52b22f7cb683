//! Figures 13 and 14: how long writes take by the policy that chooses the S-block to destage.

use smrkit::drive::Drive;
use smrkit::stats::outcome::Outcome;

use super::course::{RunSeries, longest_ms, random_writes, seconds};
use crate::{Item, Row, Scale, Shown};
use smrkit_report::figure::{Axis, Figure, Numbers, Panel, Series, Style};
use smrkit_report::format::count;
use smrkit_report::slower_than;

const POLICIES: [&str; 4] = ["closest-to-tail", "largest", "cache-tail", "weighted"];
/// Long enough to use up the spare S-blocks.
const END_S: u64 = 1600;
/// Factor by which the longest write of closest-to-tail is to be shorter (assumption).
const TIMES: f64 = 20.0;
const LAST_S: usize = 200;

pub fn item(scale: &Scale, drive: &Drive) -> Item {
    let end_s = scale.pick(END_S, 1200);
    let shown: Vec<&str> = scale.pick(POLICIES.to_vec(), POLICIES[..2].to_vec());
    let plan = |policy: &&str| random_writes(drive, scale.seed).set("policy", policy).until(seconds(end_s), seconds(1));
    Item::new("Figures 13 and 14: destage policies", shown.iter().map(plan).collect(), move |outcomes| Shown {
        text: vec![format!(
            "random-write of 4 KB on cassuto-random, s-block with 1 section and each policy, for {end_s} s. Nothing is added to \
             make commands slow: a policy that destages S-blocks near the head leaves the tail full of valid ones, and \
             once the spare S-blocks are used up they have to be moved."
        )],
        rows: rows(&shown, outcomes, end_s),
        figure: Some(figure(&shown, outcomes)),
        ..Shown::default()
    })
}

fn rows(shown: &[&str], outcomes: &[Outcome], end_s: u64) -> Vec<Row> {
    let [closest, largest] = [0, 1].map(|i| longest_ms(&outcomes[i]));
    let moved = |outcome: &Outcome| {
        let [moved, destages] =
            ["sblocks_moved", "destages"].map(|key| outcome.layer_stats.count(key).map_or("no".into(), count));
        format!("{moved} S-blocks moved for {destages} destages")
    };
    let mut rows = vec![
        Row::holds("largest: longest write", "over 7", largest / 1e3, "s", largest > 7000.0)
            .because(format!("{}; the paper does not say how long it ran", moved(&outcomes[1]))),
        Row::holds(
            "longest write, largest to closest-to-tail",
            "over 140",
            largest / closest,
            "times",
            largest / closest > 140.0,
        )
        .because("over 7 s to under 50 ms"),
        Row::holds(
            "which policy has the shorter longest write",
            "closest-to-tail, by far",
            if closest * TIMES <= largest { "closest-to-tail, by far" } else { "not by far" },
            "",
            closest * TIMES <= largest,
        )
        .because(format!("at least {TIMES} times shorter (assumption); {}", moved(&outcomes[0]))),
    ];
    for (policy, outcome) in shown.iter().zip(outcomes) {
        let course = RunSeries::from_outcome(outcome, end_s);
        let reason = format!("not given; the longest write takes {:.0} ms; {}", longest_ms(outcome), moved(outcome));
        rows.push(
            Row::not_comparable(format!("{policy}: IOPS in the last {LAST_S} s"), course.last(LAST_S), "IOPS")
                .because(reason),
        );
    }
    rows
}

fn figure(shown: &[&str], outcomes: &[Outcome]) -> Figure {
    let lines = shown.iter().zip(outcomes).enumerate();
    let series = lines.map(|(i, (policy, outcome))| {
        Series::nth(i, *policy, Style::Step, slower_than(&outcome.latency_histogram.write))
    });
    let x = Axis::log("Time of a write (logarithmic)", Numbers::Time);
    let y = Axis::log("Writes that took longer", Numbers::Percent);
    Figure::new(
        "cassuto-sblocks-figures-13-and-14",
        "Figures 13 and 14: how long writes take, by destage policy",
        "Ours, as the share of writes that took longer. The paper's histograms end under 50 ms and beyond 7 s.",
        [Panel::lines(None, x, y, series)],
    )
}
