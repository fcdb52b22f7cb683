//! Runs as flat rows, and tables of them: the settings that varied, and the values asked for, over seeds their mean and its confidence
//! interval, the best marked. What this does not show, a library of data frames makes of the store's Parquet files.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use smrkit::error::Error;
use smrkit::layer::BASELINE;
use smrkit::names;
use smrkit::stats::outcome::Outcome;
use smrkit_report::format::{NONE, count, short};
use smrkit_report::{Grid, Section, facts};

use crate::words::{self, unit, with_unit};

/// Keys that tell runs apart, besides parameters and settings.
const IDENTITY: [&str; 10] = [
    "layer",
    "drive",
    "drive_file",
    RAW_SECTORS,
    "array",
    "trace",
    "trace_reading.volume",
    "workload",
    "interleave",
    "run.rebuild",
];
/// The size that a disk was given.
const RAW_SECTORS: &str = "capacity.raw_sectors";
/// Prefixes of keys that tell runs apart.
const SETTINGS: [&str; 2] = ["parameters.", "engine."];
/// Values shown where none are asked for.
const VALUES: [&str; 5] =
    ["slowdown", "write_amplification", "latency_ns.all.mean", "latency_ns.all.p99", "latency_ns.all.max"];

/// Stands after the least number of its kind.
const BEST: &str = " *";

/// A run as flat keys, dotted, and their values.
pub type FlatRun = BTreeMap<String, Value>;

/// The runs, one row each; lists and distributions are left out.
pub fn rows(outcomes: &[Outcome]) -> Vec<FlatRun> {
    outcomes.iter().map(|outcome| flat(json!(outcome))).collect()
}

/// A record as a row.
pub fn flat(record: Value) -> FlatRun {
    let mut row = FlatRun::new();
    flatten(String::new(), record, &mut row);
    row
}

fn flatten(key: String, value: Value, row: &mut FlatRun) {
    match value {
        Value::Object(fields) => {
            let before = if key.is_empty() { key } else { key + "." };
            fields.into_iter().for_each(|(name, value)| flatten(format!("{before}{name}"), value, row));
        }
        Value::Array(_) => {}
        value => drop(row.insert(key, value)),
    }
}

/// Values that an error lists at most.
const LISTED: usize = 20;

/// Keeps the outcomes where each key has this value, as tables show it. Errors: a key or a value that no outcome has.
pub fn filter(outcomes: Vec<Outcome>, wanted: &[(String, String)]) -> Result<Vec<Outcome>, Error> {
    let mut left = outcomes;
    for (number, (key, value)) in wanted.iter().enumerate() {
        let rows = rows(&left);
        known(&rows, key)?;
        let cells: Vec<String> = rows.iter().map(|row| cell(row, key)).collect();
        if !cells.is_empty() && !cells.contains(value) {
            let there = BTreeSet::from_iter(cells);
            let more = if there.len() > LISTED { ", …" } else { "" };
            let there = there.into_iter().take(LISTED).collect::<Vec<_>>().join(", ");
            let among = if number > 0 { " among those chosen so far" } else { "" };
            return Err(Error::Usage(format!("no run has {key}={value}{among}: there are {there}{more}")));
        }
        left = left.into_iter().zip(cells).filter(|(_, cell)| cell == value).map(|(outcome, _)| outcome).collect();
    }
    Ok(left)
}

fn known(rows: &[FlatRun], key: &str) -> Result<(), Error> {
    if rows.is_empty() || rows.iter().any(|row| row.contains_key(key)) {
        return Ok(());
    }
    // Tables head columns by the last word alone.
    let is_meant = |known: &&String| known.rsplit('.').next() == Some(key);
    let keys = || rows.iter().flat_map(FlatRun::keys);
    let nearest = || names::nearest(key, keys().map(String::as_str));
    let remedy = match keys().find(is_meant).map(String::as_str).or_else(nearest) {
        Some(meant) => format!("did you mean {meant}?"),
        None => "keys are those of outcome.json, such as layer, parameters.cache_percent, latency_ns.all.p99".into(),
    };
    Err(Error::Usage(format!("no outcome has the key {key}: {remedy}")))
}

/// A value as text; one that does not exist is a dash.
fn cell(row: &FlatRun, key: &str) -> String {
    match row.get(key) {
        None | Some(Value::Null) => NONE.into(),
        Some(Value::String(text)) => text.clone(),
        // A whole number has no point, whatever holds it.
        Some(Value::Number(number)) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        Some(value) => value.to_string(),
    }
}

/// True for a key of the disks, not of what is asked of them.
fn is_system(key: &str) -> bool {
    ["layer", "drive", "drive_file", RAW_SECTORS, "array"].contains(&key) || key.starts_with("parameters.")
}

/// Keys that tell these rows apart, seeds left out.
fn varying(rows: &[FlatRun]) -> Vec<String> {
    let tells = |key: &&String| IDENTITY.contains(&key.as_str()) || SETTINGS.iter().any(|start| key.starts_with(start));
    let mut keys: Vec<String> = rows.iter().flat_map(|row| row.keys().filter(tells).cloned()).collect();
    keys.sort_by_key(|key| (IDENTITY.iter().position(|known| known == key).unwrap_or(IDENTITY.len()), key.clone()));
    keys.dedup();
    keys.retain(|key| key == "layer" || varies(rows, key));
    keys
}

/// True if runs differ in `key`; parameters are compared within a layer, as asked for, files and sizes within a drive.
fn varies(rows: &[FlatRun], key: &str) -> bool {
    let asked = key.strip_prefix("parameters.").map(|parameter| format!("asked.{parameter}"));
    let within: &[&str] = match key {
        "drive_file" | RAW_SECTORS => &["drive", "array"],
        _ if asked.is_some() => &["layer"],
        _ => &[],
    };
    let chosen = |row: &FlatRun| cell(row, asked.as_deref().filter(|asked| row.contains_key(*asked)).unwrap_or(key));
    let mut first: BTreeMap<Vec<String>, String> = BTreeMap::new();
    rows.iter().any(|row| {
        let group = within.iter().map(|key| cell(row, key)).collect();
        *first.entry(group).or_insert_with(|| chosen(row)) != chosen(row)
    })
}

/// A number of several runs of one kind: its mean and 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// Half the width of the interval about it, by Student's t: 95 of 100 such intervals hold the mean of all seeds. 0 where all are alike.
    pub half: f64,
}

impl Spread {
    /// The spread of numbers; none without any.
    pub fn new(numbers: impl Iterator<Item = f64>) -> Option<Spread> {
        let all: Vec<f64> = numbers.collect();
        // By comparison: the variance of numbers that are alike may be a little more than 0, as the mean is rounded.
        let are_alike = all.iter().all(|value| *value == all[0]);
        let runs = all.len();
        let mean = all.iter().sum::<f64>() / runs as f64;
        let variance =
            all.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / runs.saturating_sub(1).max(1) as f64;
        let half = students_t(runs) * (variance / runs as f64).sqrt();
        (runs > 0).then_some(Spread { mean, half: if are_alike { 0.0 } else { half } })
    }

    /// In numbers of which `factor` makes a unit: `5 ± 1`; without an interval where no seed made a difference.
    pub fn text(&self, factor: f64) -> String {
        let (mean, half) = (self.mean * factor, self.half * factor);
        // The interval has no more digits than the mean.
        let digits = (2 - mean.abs().max(1e-6).log10().floor() as i32).clamp(0, 8);
        let round = 10_f64.powi(digits);
        match self.half == 0.0 {
            true => short(mean),
            false => format!("{} ± {}", short(mean), short((half * round).ceil() / round)),
        }
    }
}

/// The number of standard errors that a 95 % confidence interval of the mean of so many values reaches.
fn students_t(values: usize) -> f64 {
    const TO_THIRTY: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    match values.checked_sub(2) {
        None => 0.0,
        // Beyond the table an approximation that is right to a thousandth.
        Some(at) => TO_THIRTY.get(at).copied().unwrap_or(1.96 + 2.46 / (at + 1) as f64),
    }
}

/// The spread of a value over rows.
fn spread(rows: &[&FlatRun], key: &str) -> Option<Spread> {
    Spread::new(rows.iter().filter_map(|row| row.get(key)?.as_f64()))
}

/// Rows by their values of `keys`, in order of first sight.
fn grouped<'a>(rows: &'a [FlatRun], keys: &[String]) -> Vec<(Vec<String>, Vec<&'a FlatRun>)> {
    let mut groups: Vec<(Vec<String>, Vec<&FlatRun>)> = Vec::new();
    for row in rows {
        let own: Vec<String> = keys.iter().map(|key| cell(row, key)).collect();
        match groups.iter_mut().find(|(known, _)| *known == own) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((own, vec![row])),
        }
    }
    groups
}

/// The unit of a choice, which is shown as it was made.
fn raw_unit(key: &str) -> &'static str {
    match key {
        _ if key.ends_with("_percent") => "%",
        _ if key.ends_with("_ns") => "ns",
        _ if key.ends_with("_bytes") => "B",
        _ if key.ends_with("_sectors") => "sectors",
        _ => "",
    }
}

/// The choices that varied, besides the values of `keys`; runs that differ in their seed alone share a line. The least of the
/// first value is marked among the lines of each demand.
pub fn table(rows: &[FlatRun], keys: &[String]) -> Result<Grid, Error> {
    keys.iter().try_for_each(|key| known(rows, key))?;
    let names = varying(rows);
    let (mut lines, groups): (Vec<Vec<String>>, Vec<Vec<&FlatRun>>) = grouped(rows, &names).into_iter().unzip();
    let mut header: Vec<String> = names.iter().map(|name| with_unit(&words::name(name), raw_unit(name))).collect();
    let mut best = Vec::new();
    if groups.iter().any(|rows| rows.len() > 1) {
        header.push("n".into());
        lines.iter_mut().zip(&groups).for_each(|(line, rows)| line.push(rows.len().to_string()));
    }
    for (nth, key) in keys.iter().enumerate() {
        let values: Vec<Option<Spread>> = groups.iter().map(|rows| spread(rows, key)).collect();
        if values.iter().all(Option::is_none) {
            header.push(words::name(key));
            lines.iter_mut().zip(&groups).for_each(|(line, rows)| line.push(cell(rows[0], key)));
            continue;
        }
        if nth == 0 {
            best = least(&groups, &names, &values);
        }
        let (unit, factor) = unit(key, middle(&values));
        header.push(with_unit(&words::name(key), &unit));
        for (at, (line, value)) in lines.iter_mut().zip(&values).enumerate() {
            let mark = if nth == 0 && best.contains(&at) { BEST } else { "" };
            line.push(value.map_or(NONE.into(), |value| value.text(factor) + mark));
        }
    }
    Ok(Grid { header, rows: lines, best })
}

/// The number whose unit suits a column: between the least and the greatest by their ratio.
fn middle(values: &[Option<Spread>]) -> f64 {
    let means = values.iter().flatten().map(|value| value.mean).filter(|&mean| mean > 0.0);
    let (least, most) = means.fold((f64::MAX, 0.0_f64), |(a, b), v| (a.min(v), b.max(v)));
    if most > 0.0 { (least * most).sqrt() } else { 0.0 }
}

/// The values that runs are shown with, first the one that they are judged by: of requests at their own times the mean latency, else the
/// time for all of them.
pub fn shown(rows: &[FlatRun]) -> Vec<String> {
    let measure = match rows.iter().any(|row| cell(row, "engine.arrival") == "trace") {
        true => "latency_ns.all.mean",
        false => "slowdown",
    };
    let others = VALUES.into_iter().filter(|value| *value != measure);
    std::iter::once(measure).chain(others).map(str::to_string).collect()
}

/// The page of a sweep called `name`: the table of its runs, and what was run. Figures are for a library of data frames, as
/// `docs/how-to/sweep.md` shows.
pub fn page(name: &str, outcomes: &[Outcome]) -> Result<String, Error> {
    let rows = rows(outcomes);
    let runs =
        format!("{} runs; the best of those that had the same requests are marked.", count(outcomes.len() as u64));
    let sections = [
        Section { text: vec![runs], ..Section::of_table("All runs", table(&rows, &shown(&rows))?) },
        Section::of_table("What was run", facts(outcomes)),
    ];
    Ok(smrkit_report::page(&format!("smrkit sweep: {name}"), &sections))
}

/// Comma-separated values for programs: a header, then a line for each run with what varied, the seed and the values of `keys`,
/// all in full.
pub fn csv(rows: &[FlatRun], keys: &[String]) -> Result<String, Error> {
    keys.iter().try_for_each(|key| known(rows, key))?;
    let names = [varying(rows), vec!["seed".into()], keys.to_vec()].concat();
    let quoted = |cell: String| match cell.contains([',', '"', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    };
    let line = |cells: Vec<String>| cells.into_iter().map(quoted).collect::<Vec<_>>().join(",") + "\n";
    let value = |row: &FlatRun, key: &String| match row.get(key) {
        None | Some(Value::Null) => String::new(),
        Some(_) => cell(row, key),
    };
    let lines = rows.iter().map(|row| line(names.iter().map(|key| value(row, key)).collect()));
    Ok(line(names.clone()) + &lines.collect::<String>())
}

/// Lines with the least value among those of shingled disks under the same demand, where there are several.
fn least(groups: &[Vec<&FlatRun>], names: &[String], values: &[Option<Spread>]) -> Vec<usize> {
    let demand: Vec<&String> = names.iter().filter(|name| !is_system(name)).collect();
    let mut cases: BTreeMap<Vec<String>, Vec<(f64, usize)>> = BTreeMap::new();
    for (at, rows) in groups.iter().enumerate().filter(|(_, rows)| cell(rows[0], "layer") != BASELINE) {
        let case = demand.iter().map(|name| cell(rows[0], name)).collect();
        cases.entry(case).or_default().extend(values[at].map(|value| (value.mean, at)));
    }
    let several = cases.into_values().filter(|case| case.len() > 1);
    several.filter_map(|case| Some(case.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))?.1)).collect()
}

#[cfg(test)]
mod tests;
