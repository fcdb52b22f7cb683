//! Table 2: latency percentiles of both layers, for those of the paper's traces that are at hand.

use smrkit::drive::Drive;
use smrkit::stats::outcome::Outcome;

use super::super::bars::{self, Bar};
use super::common::{TracePair, listed, never_cleans, percentiles, within};
use super::paper::{COLUMNS, P99_9, TABLE2, TUNED_ON, Table2Row};
use super::traces::{AtHand, TraceKind};
use crate::{Agreement, Item, Row, Scale, Shown, Value};
use smrkit_report::figure::{Colour, Figure};

/// Distance within which Vguard's percentiles agree on the trace that it was tuned on: ms up to 99.5 %, percent above.
const TUNED_MS: [f64; 3] = [0.03, 0.05, 0.1];
const TAIL_PERCENT: f64 = 10.0;
/// Distance within which the drive-managed disk's agree there, in ms.
const MANAGED_MS: f64 = 0.01;
/// Distance within which the quotient at 99.9 % agrees, in percent.
const RATIO_PERCENT: f64 = 15.0;
/// Distance within which other traces of the table agree, in percent (assumption).
const OTHER_PERCENT: f64 = 10.0;
/// The requests that copy a guard on the tuned trace: more than five, and the 6th largest of 1,055, which is 99.5 %, is one.
const COPIES: (u64, u64) = (4, 7);
const COPIES_BELOW_99_5: u64 = 5;

pub fn item(scale: &Scale, drive: &Drive, traces: &[AtHand]) -> Item {
    let at_hand = |trace: &&AtHand| matches!(trace.kind, TraceKind::OfTable2(_)) && trace.fits();
    let of_table: Vec<&AtHand> = traces.iter().filter(at_hand).collect();
    let plans = of_table.iter().flat_map(|trace| trace.on_both(drive, scale.seed)).collect();
    let kinds: Vec<TraceKind> = of_table.iter().map(|trace| trace.kind).collect();
    Item::new("Table 2: latency percentiles of MSR traces", plans, move |outcomes| {
        let runs: Vec<Option<TracePair>> = by_row(&kinds, outcomes);
        let rows = TABLE2.iter().zip(&runs).flat_map(|(paper, pair)| match pair {
            Some(pair) => rows(paper, pair),
            None => vec![not_at_hand(paper)],
        });
        Shown {
            text: vec![
                format!(
                    "Whole MSR volumes flat out on {}, both layers with their defaults. {} of {} are at hand; the others' \
                     numbers are in the figure, and parts of some of them under \"further traces\".",
                    super::common::DRIVE,
                    runs.iter().flatten().count(),
                    TABLE2.len()
                ),
                format!(
                    "{TUNED_ON} is the trace that the drive file's constants were fitted on, so that what agrees there does so by \
                     construction."
                ),
            ],
            rows: rows.collect(),
            figure: Some(figure(&runs)),
            ..Shown::default()
        }
    })
}

/// The runs of each of the table's rows.
fn by_row<'a>(kinds: &[TraceKind], outcomes: &'a [Outcome]) -> Vec<Option<TracePair<'a>>> {
    let mut runs: Vec<Option<TracePair>> = TABLE2.iter().map(|_| None).collect();
    for (kind, pair) in kinds.iter().zip(TracePair::all(outcomes)) {
        if let TraceKind::OfTable2(row) = kind {
            runs[*row] = Some(pair);
        }
    }
    runs
}

fn not_at_hand(paper: &Table2Row) -> Row {
    let item = format!("{}: drive-managed / vguard, 99.9 %", paper.trace);
    Row::beside(item, paper.ratio(P99_9), Value::None, "×")
        .because("the trace is not at hand; the figure has all its percentiles")
}

fn rows(paper: &Table2Row, pair: &TracePair) -> Vec<Row> {
    let tuned = paper.trace == TUNED_ON;
    let fitted = |row: Row| if row.verdict == Agreement::Agree { row.by_construction() } else { row };
    let item = |what: &str| format!("{}: {what}", paper.trace);
    let (vguard, managed) = (percentiles(pair.vguard), percentiles(pair.managed));
    let mut rows = Vec::new();
    for (i, column) in COLUMNS.iter().enumerate() {
        let item = format!("{}: vguard, {column}", paper.trace);
        rows.push(match tuned {
            true => fitted(tuned_row(i, item, paper.vguard[i], vguard[i], copies(pair))),
            false => Row::near(&item, paper.vguard[i], vguard[i], "ms", OTHER_PERCENT).because("(assumption)"),
        });
    }
    for (i, column) in COLUMNS.iter().enumerate() {
        let item = format!("{}: drive-managed, {column}", paper.trace);
        rows.push(match tuned {
            true => fitted(within(item, paper.managed[i], managed[i], "ms", MANAGED_MS, "")),
            false => Row::near(&item, paper.managed[i], managed[i], "ms", OTHER_PERCENT).because("(assumption)"),
        });
    }
    let quotient =
        Row::near(item("drive-managed / vguard, 99.9 %"), paper.ratio(P99_9), pair.ratio_at_99_9(), "×", RATIO_PERCENT)
            .because("quotient of the rows above");
    rows.push(if tuned { fitted(quotient) } else { quotient });
    if tuned {
        rows.push(copies_row(&item("requests that copy a guard"), copies(pair)));
    }
    rows.push(never_cleans(&item("bands that vguard cleans"), pair.vguard, "must be none"));
    rows
}

fn copies(pair: &TracePair) -> u64 {
    pair.vguard.layer_stats.count("guard_copies").unwrap_or(0)
}

fn tuned_row(column: usize, item: String, paper: f64, ours: f64, copies: u64) -> Row {
    const P99_5: usize = 2;
    if column >= P99_9 {
        let why = "a guard copy: seek, read a track, seek to the cache, write it, seek back";
        return Row::near(&item, paper, ours, "ms", TAIL_PERCENT).because(why);
    }
    if column == P99_5 && copies > COPIES_BELOW_99_5 {
        let why = format!(
            "hangs on one request: 99.5 % is the 6th largest of 1,055, and {copies} requests copy a guard on this drive's \
             zoned tracks; tracks of one length give 5"
        );
        return Row::beside(item, paper, ours, "ms").because(why);
    }
    within(item, paper, ours, "ms", TUNED_MS[column], "turns of the disk and the transfer")
}

fn copies_row(item: &str, copies: u64) -> Row {
    let (least, most) = COPIES;
    let reason = "the tail of Table 2, and models with tracks of one length and of several";
    Row::holds(item, format!("{least} to {most}"), copies, "", (least..=most).contains(&copies))
        .because(reason)
        .derived()
}

/// Bars of one trace: its name, whether it is ours, and a value and text for each of its panels.
struct TraceBars {
    name: String,
    ours: bool,
    panels: [(f64, String); 3],
}

impl TraceBars {
    fn new(trace: &str, ours: bool, vguard: &[f64; 5], managed: &[f64; 5]) -> TraceBars {
        let ratio = managed[P99_9] / vguard[P99_9];
        let name = if ours { format!("{trace}, ours") } else { trace.into() };
        let panels =
            [(ratio, format!("{ratio:.1}")), (vguard[P99_9], listed(vguard)), (managed[P99_9], listed(managed))];
        TraceBars { name, ours, panels }
    }
}

fn figure(runs: &[Option<TracePair>]) -> Figure {
    let mut all = Vec::new();
    for (paper, pair) in TABLE2.iter().zip(runs) {
        all.push(TraceBars::new(paper.trace, false, &paper.vguard, &paper.managed));
        if let Some(pair) = pair {
            all.push(TraceBars::new(paper.trace, true, &percentiles(pair.vguard), &percentiles(pair.managed)));
        }
    }
    let titles = [
        ("drive-managed / vguard at 99.9 %", "Quotient"),
        ("vguard, 99.9 %", "Latency (ms)"),
        ("drive-managed, 99.9 %", "Latency (ms)"),
    ];
    let panel = |(i, (title, unit)): (usize, (&str, &str))| {
        let bar = |of: &TraceBars| Bar::new(of.ours.into(), &of.name, of.panels[i].0, &of.panels[i].1);
        let kinds = [("paper", Colour::GREY), ("ours", Colour::nth(0))];
        bars::panel(Some(title), unit, kinds, all.iter().map(bar).collect())
    };
    let note = format!(
        "Bars show what 99.9 % of the requests don't exceed; the five numbers are the latencies at {}, in ms.",
        COLUMNS.join(", ")
    );
    let panels = titles.into_iter().enumerate().map(panel);
    Figure::new("vguard-table-2", "Table 2: latency of MSR traces", note, panels)
}
