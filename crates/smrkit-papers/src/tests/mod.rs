//! Every item of every study at full size on made-up results: verdicts, tables and figures where runs are alike, where they
//! are not, and where some are missing. Other tests make the runs.

#[path = "../../../smrkit/tests/common/kept_text.rs"]
mod kept_text;
mod made_up;
mod studies;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use smrkit::error::Error;
use smrkit::experiment::demand::Opening;
use smrkit_report::Grid;
use smrkit_report::figure::{Body, Figure, Panel};

use crate::lab::Planned;
use crate::row::Value;
use crate::traces::Traces;
use crate::{Item, REPRODUCTIONS, Reproduction, Scale, Shown};
use made_up::{Likeness, ResultKind};

/// Fails where what a study shows is not `kept/NAME.txt`, which has each line once.
fn kept(name: &str, skipped: usize) {
    let of = REPRODUCTIONS.iter().find(|of| of.name == name).unwrap();
    let folder = tempfile::tempdir().unwrap();
    made_up::traces(folder.path());
    let (mut text, mut seen) = (String::new(), HashSet::new());
    for likeness in Likeness::ALL {
        text += &format!("\nResults {}\n", likeness.words());
        let items = items(of, Traces::find(Some(folder.path())).unwrap());
        for item in items.into_iter().skip(skipped) {
            let lines = shown(name, item, likeness);
            text.extend(lines.lines().filter(|line| seen.insert(line.to_string())).map(|line| format!("{line}\n")));
        }
    }
    kept_text::same(&kept_path(name), &text);
}

fn kept_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/tests/kept/{name}.txt"))
}

fn items(of: &Reproduction, traces: Traces) -> Vec<Item> {
    (of.items)(&Scale { quick: false, seed: 1, traces }).unwrap()
}

fn shown(study: &str, item: Item, likeness: Likeness) -> String {
    let kind = ResultKind::of(study, item.heading);
    let results = made_up::results(kind, item.jobs.len(), likeness, item.partial);
    let runs = match likeness {
        Likeness::Alike => runs(&item),
        Likeness::Varied | Likeness::Gaps => String::new(),
    };
    (item.show)(results).iter().fold(runs, |text, (heading, shown)| text + &described(heading, shown))
}

/// The number of an item's runs, and a hash of all that decides their results: FNV-1a.
fn runs(item: &Item) -> String {
    let described: String = item.jobs.iter().map(|job| job.described() + "\n").collect();
    let mixed = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = described.bytes().fold(0xcbf2_9ce4_8422_2325, mixed);
    format!("\n{} runs of {hash:016x}", item.jobs.len())
}

/// A run as outcomes record it, the settings, and its first requests.
pub fn described_run(of: &(impl Planned + ?Sized)) -> Result<String, Error> {
    let (planned, demand) = of.planned()?;
    let (record, settings) = (planned.record(), planned.settings());
    let mut source = demand.open(&Opening::new(planned.host_sectors()?, settings.seed))?;
    let mut requests = Vec::new();
    source.fill(&mut requests)?;
    requests.truncate(3);
    let whole = serde_json::json!([record, settings]);
    Ok(format!("{whole} {requests:?}"))
}

fn described(heading: &str, shown: &Shown) -> String {
    let mut text = format!("\n{heading}: {} sentences\n", shown.text.len());
    for row in &shown.rows {
        text += &format!("{}: {} {}, {}; {}\n", row.item, ours(&row.ours), row.unit, row.verdict.name(), row.reason);
    }
    text.extend(shown.table.iter().map(table));
    text.extend(shown.figure.iter().map(figure));
    text
}

fn ours(value: &Value) -> String {
    match value {
        Value::Number(number) => short(*number),
        other => other.text(),
    }
}

fn table(table: &Grid) -> String {
    std::iter::once(&table.header).chain(&table.rows).map(|cells| cells.join(" | ") + "\n").collect()
}

fn figure(figure: &Figure) -> String {
    figure.panels.iter().map(panel).collect()
}

/// Curves by their ends and the mean of their points, bars and strips by the lengths of their parts.
fn panel(panel: &Panel) -> String {
    let mut text = format!("panel {}, marks {:?}\n", panel.title.as_deref().unwrap_or_default(), panel.guides);
    match &panel.body {
        Body::Lines(series) => {
            for series in series {
                let points = &series.points;
                let of = |value: fn(&(f64, f64)) -> f64| {
                    let ends = [points.first(), points.last()].map(|end| end.map_or(f64::NAN, value));
                    let mean = points.iter().map(value).sum::<f64>() / points.len() as f64;
                    [ends[0], mean, ends[1]].map(short).join(" ")
                };
                let (x, y) = (of(|point| point.0), of(|point| point.1));
                text += &format!("{}, {:?}: {} points, {x}; {y}\n", series.name, series.style, points.len());
            }
        }
        Body::Bars { rows, totals, parts } => {
            text += &format!("{}: {}\n", rows.join(", "), totals.join(", "));
            text.extend(parts.iter().map(|part| format!("{}: {}\n", part.name, listed(&part.values))));
        }
        Body::Strips { rows, end, range } => {
            text += &format!("to {end}, {range:?}\n");
            text.extend(rows.iter().map(|(name, cells)| format!("{name}: {}\n", listed(cells))));
        }
    }
    text
}

fn listed(values: &[f64]) -> String {
    values.iter().map(|value| short(*value)).collect::<Vec<_>>().join(" ")
}

/// The digits that no processor rounds otherwise.
fn short(value: f64) -> String {
    format!("{value:.4e}")
}

#[test]
fn made_up_results_of_the_arrays_are_shown_as_they_were() {
    kept("arrays", 0);
}

#[test]
fn made_up_results_of_cassutos_cache_are_shown_as_they_were() {
    kept("cassuto-cache", 0);
}

#[test]
fn made_up_results_of_cassutos_s_blocks_are_shown_as_they_were() {
    kept("cassuto-sblocks", 0);
}

#[test]
fn made_up_results_of_caveat_scriptor_are_shown_as_they_were() {
    kept("caveat", 0);
}

#[test]
fn made_up_results_of_he_and_du_are_shown_as_they_were() {
    kept("he-du", 0);
}

#[test]
fn made_up_results_of_vguard_are_shown_as_they_were() {
    kept("vguard", 0);
}

/// The item before the last five is that of measured drives, which lie where this machine has them.
#[test]
fn made_up_results_of_public_tests_are_shown_as_they_were() {
    let all = crate::drives::REPRODUCTION.items;
    let scale = Scale { quick: false, seed: 1, traces: Traces::default() };
    kept("drives", all(&scale).unwrap().len() - 5);
}
