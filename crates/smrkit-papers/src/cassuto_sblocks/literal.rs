//! Algorithm V.2 to the letter: an S-block is destaged only when nothing is invalid.

use smrkit::drive::Drive;
use smrkit::stats::outcome::Outcome;

use super::course::{RunSeries, longest_ms, mean, random_writes, seconds};
use crate::{Item, Row, Scale, Shown};
use smrkit_report::figure::{Axis, Figure, Panel, Series, Style};
use smrkit_report::format::count;

const END_S: u64 = 1600;
const STRETCH_S: usize = 100;
/// Windows above this are left out of the figure (assumption).
const LOW_IOPS: f64 = 150.0;
/// The paper's plateau.
const PLATEAU: f64 = 80.0;

pub fn item(scale: &Scale, drive: &Drive) -> Item {
    let sections: Vec<u64> = scale.pick(vec![1, 10, 100, 1000], vec![1, 100]);
    let end_s = scale.pick(END_S, 1200);
    let run = |set: &[(&str, &str)], sections: u64| {
        let plan = random_writes(drive, scale.seed).set("sections", sections).until(seconds(end_s), seconds(1));
        set.iter().fold(plan, |plan, (key, value)| plan.set(key, value))
    };
    let mut plans: Vec<_> = sections.iter().map(|&sections| run(&[("rule", "literal")], sections)).collect();
    plans.push(run(&[("copy", "entries")], 1));
    Item::new("Algorithm V.2 to the letter", plans, move |outcomes| Shown {
        text: vec![format!(
            "random-write of 4 KB on cassuto-random for {end_s} s with rule=literal and several numbers of sections; and the \
             default rule with valid entries copied one by one (copy=entries)."
        )],
        rows: rows(&sections, outcomes, end_s),
        figure: Some(figure(&sections, outcomes, end_s)),
        ..Shown::default()
    })
}

fn rows(sections: &[u64], outcomes: &[Outcome], end_s: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    for (&sections, outcome) in sections.iter().zip(outcomes) {
        let course = RunSeries::from_outcome(outcome, end_s);
        let means = course.means(STRETCH_S);
        let (least, last) = (means.iter().copied().fold(f64::INFINITY, f64::min), course.last(STRETCH_S));
        let silent = course.silent();
        let named = if sections == 1 { "1 section".into() } else { format!("{} sections", count(sections)) };
        let shape =
            if silent > 0 { format!("{} windows of 0 IOPS", count(silent)) } else { "no window of 0 IOPS".into() };
        let reason = format!(
            "the last {STRETCH_S} s; {shape}, the least {STRETCH_S} s have {least:.0}, the longest write takes {:.1} s; \
             destaging ahead is needed for the plateau (question 1 of V.C)",
            longest_ms(outcome) / 1e3
        );
        let item = format!("literal rule, {named}: plateau of about 80 without windows of 0");
        let holds = silent == 0 && means.first().is_some_and(|&first| last >= first) && last > 0.75 * PLATEAU;
        rows.push(Row::holds(item, PLATEAU, last, "IOPS", holds).because(reason));
    }
    if let Some(singly) = outcomes.last() {
        let after = mean(RunSeries::from_outcome(singly, end_s).after());
        let reason = "a command for each read and each write: runs must be copied at once for figure 12";
        rows.push(
            Row::holds("entries copied one by one", PLATEAU, after, "IOPS", after > 0.75 * PLATEAU).because(reason),
        );
    }
    rows
}

fn figure(sections: &[u64], outcomes: &[Outcome], end_s: u64) -> Figure {
    let from = outcomes.iter().map(|outcome| RunSeries::from_outcome(outcome, end_s).drop).min().unwrap_or(0);
    let lines = sections.iter().zip(outcomes).enumerate().map(|(i, (&sections, outcome))| {
        let course = RunSeries::from_outcome(outcome, end_s);
        let points: Vec<(f64, f64)> = course
            .points(0)
            .chunks_exact(10)
            .map(|ten| (ten[5].0, ten.iter().map(|point| point.1).sum::<f64>() / 10.0))
            .filter(|point| point.1 <= LOW_IOPS)
            .collect();
        let name = if sections == 1 { "1 section".into() } else { format!("{} sections", count(sections)) };
        Series::nth(i, name, Style::Line, points)
    });
    let x = Axis { fixed: Some((from as f64, end_s as f64)), ..Axis::linear("Time (s)") };
    let panel = Panel::lines(None, x, Axis::linear("IOPS"), lines);
    Figure::new(
        "cassuto-sblocks-literal-rule",
        "Algorithm V.2 to the letter: IOPS after the drop",
        "Means of 10 s, those up to 150 IOPS. Destaging only when nothing is invalid, the rate falls or stops.",
        [panel.guided([(PLATEAU, "paper: around 80")])],
    )
}
