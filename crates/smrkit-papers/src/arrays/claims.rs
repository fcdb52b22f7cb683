//! The paper's claims about movement, each by one measure and under one scheme.

use super::measured::{Measure, MeasuredSet};
use super::setup::{Configuration, UpdateScheme};
use crate::{Agreement, Row};
use smrkit_report::Grid;
use smrkit_report::format::{NONE, short};

/// "Up to forty times" at burst 1.
const FORTY: f64 = 40.0;
/// Factor within which it still agrees (assumption; the paper's traces are not named).
const FORTY_WITHIN: f64 = 2.0;
/// Movement has risen if it is this many times pure at burst 1 (assumption).
const RISES: f64 = 5.0;
/// "Approaches pure": the most at the longest bursts (assumption).
const NEAR_PURE: f64 = 1.5;
/// "Around 25 %" below pure, and how far from it still agrees (assumption).
const DEDICATED: (f64, f64) = (0.75, 0.1);
/// Measures that are counted; time stands next to them.
pub const COUNTED: [Measure; 3] = [Measure::Distance, Measure::Count, Measure::Bands];

const UNIT: &str = "× pure";

/// A claim about figure 2.
#[derive(Clone, Copy)]
enum Claim {
    /// "Up to forty times" at burst 1.
    UpToForty,
    /// "Quickly dropping": the most that may be left at a burst, as a share of that at burst 1 (assumption).
    Drops(u64, f64),
    /// Long bursts "approach" pure.
    ApproachesPure,
    /// "Around 25 %" below pure.
    DedicatedBelow,
}

/// Verdict on a claim by one measure.
struct Judged {
    ours: f64,
    /// True if the claim holds; `None` if nothing rose that could drop.
    holds: Option<bool>,
    why: String,
}

impl Claim {
    const ALL: [Claim; 5] = [
        Claim::UpToForty,
        Claim::Drops(50, 0.25),
        Claim::Drops(250, 0.1),
        Claim::ApproachesPure,
        Claim::DedicatedBelow,
    ];

    fn configuration(self) -> Configuration {
        match self {
            Claim::UpToForty => Configuration::Striped(1),
            Claim::Drops(burst, _) => Configuration::Striped(burst),
            Claim::ApproachesPure => Configuration::Striped(1000),
            Claim::DedicatedBelow => Configuration::Dedicated,
        }
    }

    fn paper(self) -> &'static str {
        match self {
            Claim::UpToForty => "up to 40",
            Claim::Drops(..) => "quickly dropping",
            Claim::ApproachesPure => "approaches pure",
            Claim::DedicatedBelow => "0.75",
        }
    }

    fn judge(self, measured: &MeasuredSet, scheme: UpdateScheme, measure: Measure) -> Judged {
        let configuration = self.configuration();
        let spread = measured.times_pure(scheme, measure, configuration);
        let (ours, range) = (spread.mean, spread.range);
        let first = measured.times_pure(scheme, measure, Configuration::Striped(1)).mean;
        let judged = |holds: bool, why: String| Judged { ours, holds: Some(holds), why: format!("{range}; {why}") };
        let of_rise = |judged: Judged| match first >= RISES {
            true => judged,
            // Where nothing rises, nothing can fall again.
            false => {
                let why = format!("at burst 1 it is {first:.2} × pure: nothing is there to drop");
                Judged { holds: None, why, ..judged }
            }
        };
        match self {
            Claim::UpToForty => {
                let holds = (FORTY / FORTY_WITHIN..=FORTY * FORTY_WITHIN).contains(&ours);
                judged(holds, format!("agrees within a factor of {FORTY_WITHIN} (assumption)"))
            }
            Claim::Drops(_, left) => {
                let share = ours / first;
                let why = format!("{share:.2} of that at burst 1, at most {left} agrees (assumption)");
                of_rise(judged(share <= left, why))
            }
            Claim::ApproachesPure => {
                let to = measured.against(scheme, measure, configuration, Configuration::Uninterleaved).mean;
                let to = match to.is_finite() {
                    true => format!("; {to:.2} × striped without interleaving"),
                    false => String::new(),
                };
                of_rise(judged(ours <= NEAR_PURE, format!("at most {NEAR_PURE} agrees (assumption){to}")))
            }
            Claim::DedicatedBelow => {
                let (expected, within) = DEDICATED;
                judged((ours - expected).abs() <= within, format!("within {within} of it agrees (assumption)"))
            }
        }
    }

    fn row(self, measured: &MeasuredSet, scheme: UpdateScheme, measure: Measure) -> Row {
        let Judged { ours, holds, why } = self.judge(measured, scheme, measure);
        let item = format!("{}: {}", measure.name(), self.configuration());
        let row = Row::holds(item, self.paper(), ours, UNIT, holds == Some(true)).because(why);
        let row = if let Claim::DedicatedBelow = self { Row { paper: DEDICATED.0.into(), ..row } } else { row };
        if holds.is_none() { Row { verdict: Agreement::NotComparable, ..row } } else { row }
    }

    /// The measures by which it holds under a scheme.
    fn cell(self, measured: &MeasuredSet, scheme: UpdateScheme) -> String {
        let judge = |&measure: &Measure| {
            let judged = self.judge(measured, scheme, measure);
            let holds = judged.holds.filter(|_| judged.ours.is_finite() && measured.counts(scheme, measure))?;
            Some((measure, holds))
        };
        let judged: Vec<(Measure, bool)> = COUNTED.iter().filter_map(judge).collect();
        let names = judged.iter().filter(|(_, holds)| *holds).map(|(measure, _)| measure.short_name());
        match judged.is_empty() {
            true => NONE.into(),
            false => {
                Some(names.collect::<Vec<_>>().join(", ")).filter(|names| !names.is_empty()).unwrap_or("no".into())
            }
        }
    }
}

/// Table of the claims that hold under each scheme, by measure, and of the movement and time that burst 1 costs.
pub fn table(measured: &MeasuredSet) -> Grid {
    let mut grid = Grid::new(["claim"]);
    grid.header.extend(UpdateScheme::ALL.map(|scheme| scheme.name().into()));
    let line = |name: String, cell: &dyn Fn(UpdateScheme) -> String| {
        [name].into_iter().chain(UpdateScheme::ALL.map(cell)).collect::<Vec<_>>()
    };
    for claim in Claim::ALL {
        let name = match claim {
            Claim::DedicatedBelow => format!("25 % below pure: {}", claim.configuration()),
            _ => format!("{}: {}", claim.paper(), claim.configuration()),
        };
        grid.rows.push(line(name, &|scheme| claim.cell(measured, scheme)));
    }
    let first = Configuration::Striped(1);
    for measure in COUNTED.into_iter().chain([Measure::Time]) {
        let name = format!("{}, {first} ({UNIT})", measure.name());
        let times = |scheme| match measured.counts(scheme, measure) {
            true => short(measured.times_pure(scheme, measure, first).mean),
            false => NONE.into(),
        };
        grid.rows.push(line(name, &times));
    }
    grid
}

/// Every configuration under every scheme, by those of these measures that count anything.
pub fn times_pure(measured: &MeasuredSet, measures: &[Measure]) -> Grid {
    let configurations: Vec<Configuration> = Configuration::all().into_iter().skip(1).collect();
    let header = format!("scheme, measure ({UNIT})");
    let names = configurations.iter().map(|configuration| configuration.short_name());
    let mut grid = Grid { header: [header].into_iter().chain(names).collect(), ..Grid::default() };
    for scheme in UpdateScheme::ALL {
        for &measure in measures.iter().filter(|&&measure| measured.counts(scheme, measure)) {
            let cell = |&configuration| short(measured.times_pure(scheme, measure, configuration).mean);
            let name = format!("{}, {}", scheme.name(), measure.name());
            grid.rows.push([name].into_iter().chain(configurations.iter().map(cell)).collect());
        }
    }
    grid
}

/// The paper's claims, which are about the log, by these measures; claims without a run are left out.
pub fn rows(measured: &MeasuredSet, measures: &[Measure]) -> Vec<Row> {
    let log = UpdateScheme::Log;
    let counted = measures.iter().filter(|&&measure| measured.counts(log, measure));
    let rows = counted.flat_map(|&measure| Claim::ALL.map(|claim| claim.row(measured, log, measure)));
    rows.filter(Row::has_number).collect()
}

/// Rows of what the paper does not compare: whose movement is added, the time that it takes, and bands dedicated to sources.
pub fn more_rows(measured: &MeasuredSet) -> Vec<Row> {
    let (log, first) = (UpdateScheme::Log, Configuration::Striped(1));
    let time = measured.times_pure(log, Measure::Time, first);
    let distance = measured.times_pure(log, Measure::Distance, first).mean;
    let host_percent = 100.0 * measured.host_share(log, first);
    let separated = measured.against_scheme(UpdateScheme::Separated, Measure::Distance, first, log);
    let to_one_log = format!("track distance, {} to one log: {first}", UpdateScheme::Separated.name());
    let rows = [
        Row::not_comparable(format!("host's share of the distance added: {first}"), host_percent, "%").because(
            "the rest is relocating; the text speaks of \"movement caused by relocating disk bands\" alone",
        ),
        Row::not_comparable(format!("time: {first}"), time.mean, UNIT).because(format!(
                "{}; {distance:.1} × the distance: one request at a time, an access waits for a rotation whatever its seek; \
                 the paper counts movements alone",
                time.range
            )),
        Row::holds(to_one_log, "below 1", separated.mean, "", separated.mean < 1.0)
            .because(format!("{}; \"dedicating disks and bands\" is to reduce movement", separated.range)),
    ];
    rows.into_iter().filter(Row::has_number).collect()
}

/// Row on dedicated disks by tracks crossed.
pub fn dedicated(measured: &MeasuredSet, scheme: UpdateScheme) -> Row {
    Claim::DedicatedBelow.row(measured, scheme, Measure::Distance)
}

/// Disks that are as large as their own sources can't be compared by tracks crossed: the claim goes by strokes.
pub fn in_strokes(measured: &MeasuredSet, rows: &mut Vec<Row>) {
    let crossed = format!("{}: {}", Measure::Distance.name(), Configuration::Dedicated);
    for row in rows.iter_mut().filter(|row| row.item == crossed) {
        row.verdict = Agreement::NotComparable;
        row.reason =
            "dedicated disks have the size of their own source, so that tracks crossed tell sizes: see strokes".into();
    }
    rows.push(Claim::DedicatedBelow.row(measured, UpdateScheme::Log, Measure::Stroke));
    rows.retain(Row::has_number);
}
