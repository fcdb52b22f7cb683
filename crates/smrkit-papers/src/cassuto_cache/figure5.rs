//! Figure 5: write overloading and slowdown against the cache's size.

use smrkit::drive::Drive;
use smrkit::stats::outcome::Outcome;

use super::common::seconds;
use crate::{Item, Plan, Row, Scale, Shown};
use smrkit_report::figure::{Axis, Figure, Panel, Series, Style};

/// Half of the requests write (assumption: "more write intensive"); 89 periods of the stand-in's places, which fit
/// next to a cache of 10 %.
const WORKLOAD: &str = "cassuto-pc:write_share=0.5,span=273408M";
/// Depth below 0 of a second difference that still agrees, as a share of the curve's range (assumption: seeds scatter).
const CONVEX: f64 = 0.05;

pub fn item(scale: &Scale, drive: &Drive) -> Item {
    let percents: Vec<u64> = scale.pick((1..=10).collect(), vec![1, 4, 7, 10]);
    let mut plans = Vec::new();
    for seed in scale.seeds(5, 2) {
        plans.push(Plan::workload(drive, "in-place", WORKLOAD, seed));
        let cached = |&percent: &u64| Plan::workload(drive, "set-assoc", WORKLOAD, seed).set("cache_percent", percent);
        plans.extend(percents.iter().map(cached));
    }
    Item::new("Figure 5: the cache's size", plans, move |outcomes| {
        let curves = Curves::from_outcomes(&percents, outcomes);
        Shown {
            text: vec![format!(
                "{WORKLOAD} on cassuto-table1, set-assoc with regions of 50,000 sectors and a cache of {} to {} %; the mean \
                 over {} seeds.",
                percents[0],
                percents[percents.len() - 1],
                curves.seeds
            )],
            rows: rows(&curves),
            figure: Some(figure(&curves)),
            ..Shown::default()
        }
    })
}

/// Both curves: cache in percent, mean, and each seed's value.
struct Curves {
    percents: Vec<f64>,
    overloading: Vec<f64>,
    slowdown: Vec<f64>,
    seeds: usize,
}

impl Curves {
    fn from_outcomes(percents: &[u64], outcomes: &[Outcome]) -> Curves {
        let seeds: Vec<&[Outcome]> = outcomes.chunks_exact(percents.len() + 1).collect();
        let mean = |of: &dyn Fn(&[Outcome], usize) -> f64| -> Vec<f64> {
            let at = |i| seeds.iter().map(|runs| of(runs, i)).sum::<f64>() / seeds.len() as f64;
            (1..=percents.len()).map(at).collect()
        };
        Curves {
            percents: percents.iter().map(|&percent| percent as f64).collect(),
            overloading: mean(&|runs, i| runs[i].write_overloading.unwrap_or(f64::NAN)),
            slowdown: mean(&|runs, i| seconds(&runs[i]) / seconds(&runs[0])),
            seeds: seeds.len(),
        }
    }
}

fn rows(curves: &Curves) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, values) in [("write overloading", &curves.overloading), ("slowdown", &curves.slowdown)] {
        let listed: Vec<String> = values.iter().map(|value| format!("{value:.2}")).collect();
        let falls = values.windows(2).all(|pair| pair[1] <= pair[0]);
        let reason = "no step may rise";
        rows.push(
            Row::holds(format!("{name} as the cache grows"), "falls", listed.join(" "), "", falls).because(reason),
        );
        let lowest = least_second_difference(values);
        let reason = format!(
            "the least second difference, of the curve's range, must be at least -{} % (assumption)",
            100.0 * CONVEX
        );
        let ours = format!("{:+.1} %", 100.0 * lowest);
        rows.push(Row::holds(format!("{name}: convex"), "convex", ours, "", lowest >= -CONVEX).because(reason));
    }
    let below = curves.overloading.iter().zip(&curves.slowdown).all(|(overloading, slowdown)| overloading < slowdown);
    rows.push(
        Row::holds(
            "which curve lies below",
            "write overloading",
            if below { "write overloading" } else { "not one throughout" },
            "",
            below,
        )
        .because("the paper says that a threshold under 1000, which raises overloading, would bring the curves closer")
        .derived(),
    );
    let (overloading, slowdown) = (curves.overloading[0], curves.slowdown[0]);
    let reason = "not given; Table I's lighter workload has 3.8 and 3.48";
    for (item, value) in
        [("write overloading at the least cache", overloading), ("slowdown at the least cache", slowdown)]
    {
        rows.push(Row::not_comparable(item, value, "").because(reason));
    }
    rows
}

/// The least second difference of equidistant values, as a share of their range.
fn least_second_difference(values: &[f64]) -> f64 {
    let range = values.iter().copied().fold(f64::MIN, f64::max) - values.iter().copied().fold(f64::MAX, f64::min);
    let second = values.windows(3).map(|three| three[0] - 2.0 * three[1] + three[2]);
    second.fold(f64::INFINITY, f64::min) / range
}

fn figure(curves: &Curves) -> Figure {
    let points = |values: &[f64]| curves.percents.iter().copied().zip(values.iter().copied()).collect();
    let series = [
        Series::nth(0, "write overloading", Style::Marked, points(&curves.overloading)),
        Series::nth(1, "slowdown", Style::Marked, points(&curves.slowdown)),
    ];
    let (x, y) = (Axis::linear("Cache (% of the disk)"), Axis::linear("Factor"));
    Figure::new(
        "cassuto-cache-figure-5",
        "Figure 5: write overloading and slowdown against the cache's size",
        "Ours. The paper's curves fall and are convex; their values are not in its text.",
        [Panel::lines(None, x, y, series).guided([(1.0, "plain drive")])],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bend_downward_is_found() {
        assert_eq!(least_second_difference(&[10.0, 6.0, 4.0, 3.0]), 1.0 / 7.0);
        assert_eq!(least_second_difference(&[10.0, 9.0, 4.0, 0.0]), -0.4);
    }
}
