//! Destaging more than the necessary number of S-blocks: a quicker convergence at the price of a deeper drop.

use smrkit::drive::Drive;

use super::course::{RunSeries, listed, random_writes, seconds};
use crate::{Item, Row, Scale, Shown};
use smrkit_report::figure::{Axis, Figure, Panel, Series, Style};

const AT_ONCE: [u64; 4] = [1, 2, 4, 8];
const END_S: u64 = 1000;
/// Means of this many seconds are compared.
const STRETCH_S: usize = 5;
/// The rate that counts as converged (assumption: nine tenths of the paper's 80).
const CONVERGED: f64 = 72.0;

pub fn item(scale: &Scale, drive: &Drive) -> Item {
    let plan = |&at_once: &u64| {
        random_writes(drive, scale.seed).set("destage_at_once", at_once).until(seconds(END_S), seconds(1))
    };
    Item::new("Destaging ahead", AT_ONCE.iter().map(plan).collect(), |outcomes| {
        let courses: Vec<RunSeries> = outcomes.iter().map(|outcome| RunSeries::from_outcome(outcome, END_S)).collect();
        Shown {
            text: texts![
                "random-write of 4 KB on cassuto-random; while less than 1 % of the cache buffer is invalid, a write that finds \
                 no room destages 1, 2, 4 or 8 S-blocks (destage_at_once).",
            ],
            rows: rows(&courses),
            figure: Some(figure(&courses)),
            ..Shown::default()
        }
    })
}

fn rows(courses: &[RunSeries]) -> Vec<Row> {
    let (depths, rises): (Vec<f64>, Vec<Option<usize>>) =
        courses.iter().map(|course| course.depth_and_rise(STRETCH_S, CONVERGED)).unzip();
    let rises: Vec<f64> = rises.iter().map(|rise| rise.map_or(f64::INFINITY, |s| s as f64)).collect();
    let falling = |values: &[f64]| values.windows(2).all(|pair| pair[1] < pair[0]);
    let reason = |what: &str| format!("{what} at {} S-blocks; each step must fall", listed(&AT_ONCE.map(|n| n as f64)));
    vec![
        Row::holds(
            format!("seconds until {CONVERGED} IOPS"),
            "quicker convergence",
            listed(&rises),
            "s",
            falling(&rises),
        )
        .because(reason(&format!("means of {STRETCH_S} s (assumption)"))),
        Row::holds(
            format!("lowest {STRETCH_S} s"),
            "a deeper temporary drop",
            listed(&depths),
            "IOPS",
            falling(&depths),
        )
        .because(reason("the least mean")),
    ]
}

fn figure(courses: &[RunSeries]) -> Figure {
    let from = courses.iter().map(|course| course.drop).min().unwrap_or(0);
    let lines = AT_ONCE.iter().zip(courses).enumerate().map(|(i, (at_once, course))| {
        let points = course.points(course.drop + 1);
        let smooth = points
            .windows(STRETCH_S)
            .map(|few| (few[STRETCH_S / 2].0, few.iter().map(|point| point.1).sum::<f64>() / STRETCH_S as f64));
        Series::nth(i, format!("{at_once} at once"), Style::Line, smooth.collect())
    });
    let x = Axis { fixed: Some((from as f64, END_S as f64)), ..Axis::linear("Time (s)") };
    Figure::new(
        "cassuto-sblocks-destaging-ahead",
        "Destaging ahead: S-blocks that a blocked write destages",
        "Ours, means of 5 s. More at once: a deeper drop, and a faster rise.",
        [Panel::lines(None, x, Axis::linear("IOPS"), lines)],
    )
}
