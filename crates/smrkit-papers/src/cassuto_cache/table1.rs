//! Table I by simulation, on a stand-in for its trace.

use smrkit::drive::Drive;
use smrkit::stats::outcome::Outcome;

use super::accounting::{CACHED, COLLECTIONS, Column, PLAIN, REWRITES};
use super::common::seconds;
use crate::{Item, Plan, Row, Scale, SeedSpread, Shown, Value, number};

/// Distance from the mean of the seeds that still agrees, in percent (assumption: a collection more or less is 5 % of the
/// rewrites).
const NEAR_PERCENT: f64 = 10.0;
/// The stand-in repeats the trace's counts; what remains is rounding of the time (assumption).
const SAME_PERCENT: f64 = 0.01;

pub fn item(scale: &Scale, drive: &Drive) -> Item {
    let both = |seed| ["in-place", "set-assoc"].map(|layer| Plan::workload(drive, layer, "cassuto-pc", seed));
    let plans = scale.seeds(5, 2).flat_map(both).collect();
    Item::new("Table I: simulated", plans, |outcomes| Shown {
        text: texts![
            "cassuto-pc flat out on cassuto-table1; in-place, and set-assoc with 1 % cache and regions of 50,000 sectors; \
             the mean over seeds.",
            "The trace is not public. Its stand-in has the host's counts exactly, and its places were fitted so that \
             about 2,058 regions are rewritten (docs/reference/workloads.md): what agrees does so by construction.",
        ],
        rows: rows(outcomes),
        ..Shown::default()
    })
}

fn rows(outcomes: &[Outcome]) -> Vec<Row> {
    let (plain, cached): (Vec<&Outcome>, Vec<&Outcome>) =
        outcomes.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).unzip();
    let mut rows = column("non-shingled", &PLAIN, &plain, SAME_PERCENT, "the stand-in has the trace's counts");
    rows.extend(column("set-associative", &CACHED, &cached, NEAR_PERCENT, "places are the stand-in's"));
    let slowdowns = plain.iter().zip(&cached).map(|(plain, cached)| seconds(cached) / seconds(plain));
    let overloading = cached.iter().map(|outcome| outcome.write_overloading.unwrap_or(f64::NAN));
    let derived = "decoded from the table";
    rows.push(mean("write overloading", 3.8.into(), overloading, "", NEAR_PERCENT, "definition 4"));
    rows.push(mean("slowdown", 3.48.into(), slowdowns, "", NEAR_PERCENT, "quotient of the times"));
    let rewrites = cached.iter().map(|outcome| number(outcome.layer_stats.bands_cleaned()));
    rows.push(mean("regions rewritten", REWRITES.into(), rewrites, "regions", NEAR_PERCENT, derived));
    let collections = cached.iter().map(|outcome| number(outcome.layer_stats.collections()));
    rows.push(mean("collections", COLLECTIONS.into(), collections, "", NEAR_PERCENT, derived));
    rows.into_iter().map(Row::by_construction).collect()
}

fn column(name: &str, paper: &Column, outcomes: &[&Outcome], percent: f64, why: &str) -> Vec<Row> {
    let row = |what: &str, paper: Value, unit, of: &dyn Fn(&Outcome) -> f64| {
        mean(&format!("{what}, {name}"), paper, outcomes.iter().map(|outcome| of(outcome)), unit, percent, why)
    };
    vec![
        row("reads", paper.reads[0].into(), "commands", &|o| o.commands.physical_read as f64),
        row("writes", paper.writes[0].into(), "commands", &|o| o.commands.physical_write as f64),
        row("block reads", paper.reads[1].into(), "sectors", &|o| o.physical_read_sectors.total as f64),
        row("block writes", paper.writes[1].into(), "sectors", &|o| o.physical_written_sectors.total as f64),
        row("adjusted reads", paper.reads[2].into(), "commands", &|o| o.adjusted.physical_read as f64),
        row("adjusted writes", paper.writes[2].into(), "commands", &|o| o.adjusted.physical_write as f64),
        row("total time", paper.seconds.into(), "s", &seconds),
    ]
}

fn mean(item: &str, paper: Value, ours: impl Iterator<Item = f64>, unit: &'static str, percent: f64, why: &str) -> Row {
    let spread = SeedSpread::from_values(ours);
    Row::near(item, paper, spread.mean, unit, percent).because(format!("{why} ({})", spread.range))
}
