//! The paper's claims about movement, each by one measure and under one scheme.

use super::super::row::{Row, Verdict};
use super::measured::{Measure, MeasuredSet};
use super::setup::{BURSTS, Configuration, UpdateScheme};

/// "Up to forty times" at burst 1.
const FORTY: f64 = 40.0;
/// Factor within which it still agrees (assumption; the paper's traces are not named).
const FORTY_WITHIN: f64 = 2.0;
/// Movement has risen if it is this many times pure at burst 1 (assumption).
const RISES: f64 = 5.0;
/// "Quickly dropping": the most that may be left of it at these bursts, as shares of that at burst 1 (assumptions).
const LEFT: [(u64, f64); 2] = [(50, 0.25), (250, 0.1)];
/// "Approaches pure": the most at the longest bursts (assumption).
const NEAR_PURE: f64 = 1.5;
/// "Around 25 %" below pure, and how far from it still agrees (assumption).
const DEDICATED: (f64, f64) = (0.75, 0.1);

const UNIT: &str = "× pure";

/// All configurations of a scheme by all measures that count anything.
pub fn rows(measured: &MeasuredSet, scheme: UpdateScheme, measures: &[Measure]) -> Vec<Row> {
    let counted = measures.iter().filter(|&&measure| measured.counts(scheme, measure));
    let mut rows: Vec<Row> = counted.flat_map(|&measure| of_measure(measured, scheme, measure)).collect();
    rows.push(host_row(measured, scheme));
    rows
}

fn of_measure(measured: &MeasuredSet, scheme: UpdateScheme, measure: Measure) -> Vec<Row> {
    let times = |configuration| measured.times_pure(scheme, measure, configuration);
    let first = times(Configuration::Striped(1)).mean;
    // Where nothing rises, nothing can fall again.
    let of_rise = |row: Row| match first >= RISES {
        true => row,
        false => {
            let reason = format!("at burst 1 it is {first:.2} × pure: nothing is there to drop");
            Row { verdict: Verdict::NotComparable, reason, ..row }
        }
    };
    let row = |configuration: Configuration| {
        let item = format!("{}: {configuration}", measure.name());
        let spread = times(configuration);
        let (ours, range) = (spread.mean, spread.range);
        match configuration {
            Configuration::Striped(1) => {
                let holds = (FORTY / FORTY_WITHIN..=FORTY * FORTY_WITHIN).contains(&ours);
                let why = format!("{range}; agrees within a factor of {FORTY_WITHIN} (assumption)");
                Row::holds(item, "up to 40", ours, UNIT, holds, why)
            }
            Configuration::Striped(burst) if LEFT.iter().any(|(named, _)| *named == burst) => {
                let left = LEFT.iter().find(|(named, _)| *named == burst).map_or(1.0, |(_, left)| *left);
                let share = ours / first;
                let why = format!("{range}; {share:.2} of that at burst 1, at most {left} agrees (assumption)");
                of_rise(Row::holds(item, "quickly dropping", ours, UNIT, share <= left, why))
            }
            Configuration::Striped(1000) => {
                let to = measured.against(scheme, measure, configuration, Configuration::Uninterleaved).mean;
                let why =
                    format!("{range}; at most {NEAR_PURE} agrees (assumption); {to:.2} × striped without interleaving");
                of_rise(Row::holds(item, "approaches pure", ours, UNIT, ours <= NEAR_PURE, why))
            }
            Configuration::Dedicated => dedicated_row(item, ours, &range),
            _ => Row::not_comparable(&item, ours, UNIT, &format!("{range}; the text has no number for it")),
        }
    };
    let striped = BURSTS.map(Configuration::Striped);
    striped.into_iter().chain([Configuration::Uninterleaved, Configuration::Dedicated]).map(row).collect()
}

/// "Around 25 %" below pure.
fn dedicated_row(item: String, ours: f64, range: &str) -> Row {
    let (expected, within) = DEDICATED;
    let why = format!("{range}; within {within} of it agrees (assumption)");
    Row::holds(item, expected, ours, UNIT, (ours - expected).abs() <= within, why)
}

/// Disks that are as large as their own sources can't be compared by tracks crossed: the claim goes by strokes.
pub fn in_strokes(measured: &MeasuredSet, scheme: UpdateScheme, rows: &mut Vec<Row>) {
    let crossed = format!("{}: {}", Measure::Distance.name(), Configuration::Dedicated);
    for row in rows.iter_mut().filter(|row| row.item == crossed) {
        row.verdict = Verdict::NotComparable;
        row.reason =
            "dedicated disks have the size of their own source, so that tracks crossed tell sizes: see strokes".into();
    }
    let spread = measured.times_pure(scheme, Measure::Stroke, Configuration::Dedicated);
    let range = format!("{}; tracks crossed as a share of each disk's", spread.range);
    rows.push(dedicated_row(format!("{}: {}", Measure::Stroke.name(), Configuration::Dedicated), spread.mean, &range));
}

/// Row on the accesses that carry the increase of distance.
fn host_row(measured: &MeasuredSet, scheme: UpdateScheme) -> Row {
    let configuration = Configuration::Striped(1);
    let share = 100.0 * measured.host_share(scheme, configuration);
    let why = "the rest is relocating; the text speaks of \"movement caused by relocating disk bands\" alone";
    Row::not_comparable(&format!("host's share of the distance added: {configuration}"), share, "%", why)
}
