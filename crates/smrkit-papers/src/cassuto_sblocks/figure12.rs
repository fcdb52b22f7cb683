//! Figure 12: random 4 KB writes for 1,000 s in windows of 1 s, with the policy closest-to-tail; figure 13's longest write.

use smrkit::drive::Drive;
use smrkit::stats::outcome::Outcome;

use super::course::{RunSeries, listed, longest_ms, mean, random_writes, seconds};
use crate::{Item, Row, Scale, Shown};
use smrkit_report::figure::{Axis, Figure, Panel, Series, Style};

/// A cost of a sector at which figure 13's 50 ms come nearer (derived: they need about 2.5 to 5 µs).
pub const FASTER_US: f64 = 2.5;
/// The paper's duration, in which some 218 s follow the drop.
const PAPER_S: u64 = 1000;
/// Time for which it is run, so that the plateau is seen.
const END_S: u64 = 1200;
const STRETCH_S: usize = 40;
/// Distance that "around 50" and "around 80" allow, in percent (assumption).
const AROUND_PERCENT: f64 = 20.0;
/// The least rank correlation of a slow rise (assumption: above the √3/2 of a step between two flat halves).
const SLOWLY: f64 = 0.9;
/// Difference of windows before the drop that still agrees, in percent of their mean (assumption: a request at each end of a window).
const FLAT_PERCENT: f64 = 1.0;

pub fn item(scale: &Scale, random: &Drive, faster: &Drive) -> Item {
    let end_s = scale.pick(END_S, PAPER_S);
    let plan = |drive| random_writes(drive, scale.seed).until(seconds(end_s), seconds(1));
    Item::new(
        "Figures 12 and 13: random writes, closest to the tail",
        vec![plan(random), plan(faster)],
        move |outcomes| {
            let course = RunSeries::from_outcome(&outcomes[0], end_s);
            Shown {
                text: vec![
                    format!(
                        "random-write of 4 KB on cassuto-random, s-block with 1 section, for {end_s} s in windows of 1 s. The \
                     paper's run lasts {PAPER_S} s."
                    ),
                    format!(
                        "The same at {FASTER_US} µs a sector, since figure 13 needs a faster drive than figure 12."
                    ),
                ],
                rows: rows(&course, &RunSeries::from_outcome(&outcomes[1], end_s), outcomes),
                figure: Some(figure(&course, end_s)),
                ..Shown::default()
            }
        },
    )
}

fn rows(course: &RunSeries, faster: &RunSeries, outcomes: &[Outcome]) -> Vec<Row> {
    let means = course.means(STRETCH_S);
    let first = means.first().copied().unwrap_or(f64::NAN);
    let before = course.before();
    let level = mean(before);
    let off = before.iter().map(|iops| 100.0 * (iops / level - 1.0).abs()).fold(0.0, f64::max);
    let rank = course.rank_correlation();
    vec![
        Row::holds("IOPS before the drop", "high and flat", level, "IOPS", off <= FLAT_PERCENT)
            .because(format!("windows within {FLAT_PERCENT} % (assumption) of their mean: {off:.2} %")),
        Row::not_comparable("moment of the drop", course.drop as u64, "s")
            .because("not given; 780 s in section IV, whose cache is as large"),
        Row::near("IOPS after the drop, first 40 s", 50.0, first, "IOPS", AROUND_PERCENT)
            .because("\"around 50\"; the measure is an assumption"),
        Row::holds("IOPS from the drop on: rank correlation with time", "slowly improves", rank, "", rank >= SLOWLY)
            .because(format!(
                "windows of 1 s, at least {SLOWLY} (assumption): a single step has 0.87 at most; means of 40 s: {}",
                listed(&means)
            )),
        Row::exact("windows of 0 IOPS after the drop", 0, course.silent(), "windows").because("windows of 1 s"),
        Row::near("plateau, the last 40 s", 80.0, course.last(STRETCH_S), "IOPS", AROUND_PERCENT)
            .because("\"around 80\"; the measure is an assumption"),
        Row::near(format!("plateau at {FASTER_US} µs a sector"), 80.0, faster.last(STRETCH_S), "IOPS", AROUND_PERCENT)
            .because("a prototype without headers gave 94"),
        longest("figure 13: longest write", &outcomes[0]),
        longest(&format!("figure 13: longest write at {FASTER_US} µs a sector"), &outcomes[1]),
        Row::not_comparable("memory of the maps", outcomes[0].map_bytes, "bytes").because(
            "no figure is given; entries of the cache buffer, their map, and 12 bytes and a little for each S-block",
        ),
    ]
}

fn longest(item: &str, outcome: &Outcome) -> Row {
    let ours = longest_ms(outcome);
    let reason = "a write waits for one destage and a run of an S-block's length; the spare S-blocks spread the moves of S-blocks \
                  at the tail over other writes (assumption)";
    Row::holds(item, "under 50", ours, "ms", ours < 50.0).because(reason)
}

fn figure(course: &RunSeries, end_s: u64) -> Figure {
    let panel = |title: &str, from: usize| {
        let x = Axis { fixed: Some((from as f64, end_s as f64)), ..Axis::linear("Time (s)") };
        let ours = Series::nth(0, "ours", Style::Step, course.points(from));
        Panel::lines(Some(title), x, Axis::linear("IOPS"), [ours])
    };
    let paper = [(50.0, "paper: around 50"), (80.0, "paper: around 80")];
    Figure::new(
        "cassuto-sblocks-figure-12",
        "Figure 12: random 4 KB writes, IOPS in windows of 1 s",
        "Lines are ours. The paper's text names about 50 after the drop and about 80 in the end.",
        [panel("The whole run", 0), panel("After the drop", course.drop + 1).guided(paper)],
    )
}
