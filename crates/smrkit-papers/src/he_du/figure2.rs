//! Figure 2: the WAR of updates against the fill, as a curve, and at the fills of the table through the layer itself.

use std::sync::Arc;

use smrkit::error::Error;
use smrkit::layer::track_map::cost::{cold_requests, update_war};
use smrkit::request::{Op, Request};
use smrkit::settings::Prefill;
use smrkit::stats::outcome::Outcome;
use smrkit::units::Lba;

use super::common::{FILLS, N, SCHEMES, TRACK_SECTORS, W, drive, listed, paper_dots, scheme, war_mean};
use crate::{Item, Plan, Row, Scale, Shown};
use smrkit_report::figure::{Axis, Figure, Panel, Series, Style};

/// Bands of the drive: each fill ends a band of each group, so that no band is half used.
const BANDS: u64 = 24;
const WRITE_SECTORS: u64 = 8;
/// Differences below this are rounding.
const EXACT: f64 = 1e-9;
/// Steps of the curve.
const STEPS: u64 = 200;

/// Values of figure 2 in the text, at the fills of the table.
const PAPER: [(&str, [f64; 4]); 4] = [
    (SCHEMES[0], [4.0, 4.0, 4.0, 4.0]),
    (SCHEMES[1], [1.0, 1.0, 5.0 / 3.0, 4.0]),
    (SCHEMES[2], [5.0 / 3.0, 5.0 / 3.0, 5.0 / 3.0, 4.0]),
    (SCHEMES[3], [1.0, 1.0, 5.0 / 3.0, 4.0]),
];

pub fn item(scale: &Scale) -> Result<Item, Error> {
    let drive = drive(BANDS)?;
    let mut plans = Vec::new();
    for (scheme, fill) in SCHEMES.iter().flat_map(|scheme| FILLS.map(|fill| (scheme, fill))) {
        let tracks = BANDS * N * fill / 100;
        let places = (0..tracks).map(|track| Lba(track * TRACK_SECTORS + TRACK_SECTORS / 2));
        let updates: Arc<[Request]> = places.map(|lba| Request::new(Op::Write, lba, WRITE_SECTORS as u32)).collect();
        let plan = Plan::replay(&drive, "track-map", updates, scale.seed).prefill(Prefill::Sequential);
        plans.push(plan.set("scheme", scheme).set("fill_percent", fill).set("random_tracks", 0));
    }
    let figure = figure()?;
    let closed: Vec<f64> = closed_forms()?;
    let cold: Vec<Vec<f64>> =
        SCHEMES.iter().map(|text| scheme(text).map(|s| cold_requests(&s, W as usize))).collect::<Result<_, _>>()?;
    Ok(Item::new("Figure 2: updates against the fill", plans, move |outcomes| Shown {
        text: vec![format!(
            "One update of 4 KiB on each used track of {BANDS} bands, after filling them in order; N = {N}, W = {W}. The \
             curve is the closed form."
        )],
        rows: rows(outcomes, &closed, &cold),
        figure: Some(figure),
        ..Shown::default()
    }))
}

/// At the fills of the table, scheme by scheme.
fn closed_forms() -> Result<Vec<f64>, Error> {
    let mut values = Vec::new();
    for text in SCHEMES {
        let scheme = scheme(text)?;
        let war = |&fill: &u64| update_war(&scheme, W as usize, fill as f64 / 100.0).unwrap_or(f64::NAN);
        values.extend(FILLS.iter().map(war));
    }
    Ok(values)
}

fn rows(outcomes: &[Outcome], closed: &[f64], cold: &[Vec<f64>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (i, (scheme, paper)) in PAPER.iter().enumerate() {
        for (j, &paper) in paper.iter().enumerate() {
            let at = i * FILLS.len() + j;
            let (ours, closed) = (war_mean(&outcomes[at]), closed[at]);
            let agrees = (ours - paper).abs() < EXACT && (closed - paper).abs() < EXACT;
            let item = format!("WAR of {scheme}, {} % full", FILLS[j]);
            let reason = format!("equal; the closed form gives {closed:.3}");
            rows.push(Row::holds(item, paper, ours, "", agrees).because(reason));
        }
    }
    for (scheme, costs) in SCHEMES.iter().zip(cold) {
        let none = costs[..3].iter().all(|&cost| cost == 1.0);
        let item = format!("requests for first writes by {scheme}, by quarters");
        let reason = "none is amplified before 75 % (5.)";
        rows.push(Row::holds(item, "1 1 1 …", listed(costs), "", none).because(reason));
    }
    rows
}

fn figure() -> Result<Figure, Error> {
    let mut series = Vec::new();
    for (i, text) in SCHEMES.iter().enumerate() {
        let scheme = scheme(text)?;
        let at = |step: u64| {
            let fill = step as f64 / STEPS as f64;
            update_war(&scheme, W as usize, fill).map(|war| (100.0 * fill, war))
        };
        let style = if i == 3 { Style::Dashed } else { Style::Line };
        series.push(Series::nth(i, *text, style, (1..=STEPS).filter_map(at).collect()));
    }
    let of_text = PAPER.iter().flat_map(|(_, wars)| FILLS.iter().zip(wars));
    series.push(paper_dots(of_text.map(|(&fill, &war)| (fill as f64, war)).collect()));
    Ok(Figure::new(
        "he-du-figure-2",
        "Figure 2: mean WAR of updates against the fill",
        "Lines: ours, by the closed form. Dots: what the paper's text says at 25, 50, 75 and 100 %; its curve is a rough \
         prediction without numbers. 14R(23) coincides with R(4123).",
        [Panel::lines(None, Axis::linear("Space used (%)"), Axis::linear("WAR"), series)],
    ))
}
