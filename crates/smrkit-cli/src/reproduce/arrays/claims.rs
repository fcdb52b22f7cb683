//! The paper's claims about movement, each by one measure and under one scheme.

use super::super::row::{Row, Value, Verdict};
use super::measured::{Measure, Measured};
use super::setup::{BURSTS, Configuration, Scheme};

/// "Up to forty times" at burst 1.
pub const FORTY: f64 = 40.0;
/// How far from it still agrees: a factor (assumption; the paper's traces are not named).
const FORTY_WITHIN: f64 = 2.0;
/// "Quickly dropping": the most that may be left of it at these bursts, as shares of that at burst 1 (assumptions).
const LEFT: [(u64, f64); 2] = [(50, 0.25), (250, 0.1)];
/// "Approaches pure": the most at the longest bursts (assumption).
const NEAR_PURE: f64 = 1.5;
/// "Around 25 %" below pure, and how far from it still agrees (assumption).
const DEDICATED: (f64, f64) = (0.75, 0.1);

const UNIT: &str = "× pure";

/// All configurations of a scheme by all measures that count anything.
pub fn rows(measured: &Measured, scheme: Scheme, measures: &[Measure]) -> Vec<Row> {
    let counted = measures.iter().filter(|&&measure| measured.counts(scheme, measure));
    let mut rows: Vec<Row> = counted.flat_map(|&measure| of_measure(measured, scheme, measure)).collect();
    rows.push(host_row(measured, scheme));
    rows
}

fn of_measure(measured: &Measured, scheme: Scheme, measure: Measure) -> Vec<Row> {
    let times = |configuration| measured.times_pure(scheme, measure, configuration);
    let first = times(Configuration::Striped(1)).mean;
    let rises = first >= FORTY / FORTY_WITHIN / 2.0;
    let row = |configuration: Configuration| {
        let item = format!("{}: {configuration}", measure.name());
        let spread = times(configuration);
        let (ours, range) = (spread.mean, spread.range);
        match configuration {
            Configuration::Striped(1) => {
                let holds = ours >= FORTY / FORTY_WITHIN && ours <= FORTY * FORTY_WITHIN;
                let why = format!("{range}; agrees within a factor of {FORTY_WITHIN} (assumption)");
                Row::holds(item, "up to 40", ours, UNIT, holds, why)
            }
            Configuration::Striped(burst) if LEFT.iter().any(|(named, _)| *named == burst) => {
                let left = LEFT.iter().find(|(named, _)| *named == burst).map_or(1.0, |(_, left)| *left);
                drop_row(item, ours, first, left, rises, &range)
            }
            Configuration::Striped(1000) => {
                let to = measured.against(scheme, measure, configuration, Configuration::Uninterleaved).mean;
                let why =
                    format!("{range}; at most {NEAR_PURE} agrees (assumption); {to:.2} × striped without interleaving");
                Row::holds(item, "approaches pure", ours, UNIT, ours <= NEAR_PURE, why)
            }
            Configuration::Dedicated => {
                let (expected, within) = DEDICATED;
                let why = format!("{range}; within {within} of it agrees (assumption)");
                Row::holds(item, expected, ours, UNIT, (ours - expected).abs() <= within, why)
            }
            _ => Row::not_comparable(&item, ours, UNIT, &format!("{range}; the text has no number for it")),
        }
    };
    let striped = BURSTS.map(Configuration::Striped);
    striped.into_iter().chain([Configuration::Uninterleaved, Configuration::Dedicated]).map(row).collect()
}

/// What rose can drop; where nothing rose, there is nothing to compare.
fn drop_row(item: String, ours: f64, first: f64, left: f64, rises: bool, range: &str) -> Row {
    let share = ours / first;
    let paper = Value::from("quickly dropping");
    if !rises {
        let why = format!("{range}; at burst 1 it is {first:.2} × pure, so that nothing is there to drop");
        return Row { verdict: Verdict::NotComparable, ..Row::holds(item, paper, ours, UNIT, false, why) };
    }
    let why = format!("{range}; {share:.2} of that at burst 1, at most {left} agrees (assumption)");
    Row::holds(item, paper, ours, UNIT, share <= left, why)
}

/// Whose accesses carry the increase of distance.
fn host_row(measured: &Measured, scheme: Scheme) -> Row {
    let configuration = Configuration::Striped(1);
    let share = 100.0 * measured.host_share(scheme, configuration);
    let why = "the rest is relocating; the text speaks of \"movement caused by relocating disk bands\" alone";
    Row::not_comparable(&format!("host's share of the distance added: {configuration}"), share, "%", why)
}
