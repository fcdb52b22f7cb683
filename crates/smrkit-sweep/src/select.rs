//! Tables of outcomes: the settings that varied, and the values asked for with their spread over seeds, the best marked.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use smrkit::error::Error;
use smrkit::layer::{self, BASELINE};
use smrkit::names;
use smrkit::quantity::{parse_bytes, parse_count, parse_duration, parse_number, parse_percent, parse_sectors};
use smrkit::stats::outcome::Outcome;

use crate::sheet::{Column, Sheet, Spread};
use crate::words::{self, with_unit};

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
pub const VALUES: [&str; 5] =
    ["slowdown", "write_amplification", "latency_ns.all.mean", "latency_ns.all.p99", "latency_ns.all.max"];

/// A run as flat keys, dotted, and their values.
pub type FlatRun = BTreeMap<String, Value>;

/// The runs, one row each; lists and distributions are left out.
pub fn rows(outcomes: &[Outcome]) -> Result<Vec<FlatRun>, Error> {
    outcomes
        .iter()
        .map(|outcome| {
            let mut row = FlatRun::new();
            let record = serde_json::to_value(outcome).map_err(|error| Error::Usage(error.to_string()))?;
            flatten(String::new(), record, &mut row);
            Ok(row)
        })
        .collect()
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

/// Keeps the rows where each key has this value. Errors: a key or a value that no row has.
pub fn filter(rows: Vec<FlatRun>, wanted: &[(String, String)]) -> Result<Vec<FlatRun>, Error> {
    let mut left = rows;
    for (number, (key, value)) in wanted.iter().enumerate() {
        known(&left, key)?;
        let there: BTreeSet<String> = left.iter().map(|row| cell(row, key)).collect();
        left.retain(|row| has(row, key, value));
        if left.is_empty() && !there.is_empty() {
            let more = if there.len() > LISTED { ", …" } else { "" };
            let there = there.into_iter().take(LISTED).collect::<Vec<_>>().join(", ");
            let among = if number > 0 { " among those chosen so far" } else { "" };
            return Err(Error::Usage(format!("no run has {key}={value}{among}: there are {there}{more}")));
        }
    }
    Ok(left)
}

/// True if the row has this value, as it is shown or as options take it.
fn has(row: &FlatRun, key: &str, value: &str) -> bool {
    let shown = cell(row, key);
    shown == value || recorded(row, key, value).is_some_and(|read| read == shown)
}

/// The value that outcomes record where options are given `text`: by the layer's own key, else by the unit of the name.
fn recorded(row: &FlatRun, key: &str, text: &str) -> Option<String> {
    if let Some(name) = key.strip_prefix("parameters.") {
        let keys = (layer::find(row.get("layer")?.as_str()?).ok()?.keys)();
        let scalar = keys.iter().find(|key| key.name == name)?.canonical(text).ok()?.scalar;
        return Some(shown(&serde_json::to_value(scalar).ok()?));
    }
    let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
    let read = match raw_unit(key) {
        "%" => parse_percent(text).map(|percent| percent.to_string()),
        "ns" if has_unit => parse_duration(text).map(|time| time.0.to_string()),
        "B" => parse_bytes(text).map(|bytes| bytes.to_string()),
        "sectors" if has_unit => parse_sectors(text).map(|sectors| sectors.to_string()),
        _ => parse_number(text).map(|number| number.to_string()),
    };
    read.or_else(|_| parse_count(text).map(|count| count.to_string())).ok()
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
pub fn cell(row: &FlatRun, key: &str) -> String {
    row.get(key).map_or_else(|| "-".into(), shown)
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        // A whole number has no point, whatever holds it.
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        value => value.to_string(),
    }
}

/// True for a key of the disks, not of what is asked of them.
pub fn is_system(key: &str) -> bool {
    ["layer", "drive", "drive_file", RAW_SECTORS, "array"].contains(&key) || key.starts_with("parameters.")
}

/// Keys that tell these rows apart, seeds left out.
pub fn varying(rows: &[FlatRun]) -> Vec<String> {
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

/// The spread of a value over rows.
pub fn spread(rows: &[&FlatRun], key: &str) -> Option<Spread> {
    Spread::new(rows.iter().filter_map(|row| row.get(key)?.as_f64()))
}

/// Rows by their values of `keys`, in order of first sight.
pub fn grouped<'a>(rows: &'a [FlatRun], keys: &[String]) -> Vec<(Vec<String>, Vec<&'a FlatRun>)> {
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

/// Names of choices as the heads of columns.
fn choices(names: &[String], lines: &[Vec<String>]) -> Vec<Column> {
    let head = |name: &String| with_unit(&words::name(name), raw_unit(name));
    let texts = |at: usize| lines.iter().map(|own| own[at].clone()).collect();
    names.iter().enumerate().map(|(at, name)| Column::Texts(head(name), texts(at))).collect()
}

/// The unit of a choice, which is shown as it was made.
pub(crate) fn raw_unit(key: &str) -> &'static str {
    match key {
        _ if key.ends_with("_percent") => "%",
        _ if key.ends_with("_ns") => "ns",
        _ if key.ends_with("_bytes") => "B",
        _ if key.ends_with("_sectors") => "sectors",
        _ => "",
    }
}

fn numbers(name: String, key: &str, values: Vec<Option<Spread>>) -> Column {
    Column::Numbers { name, key: key.into(), values, best: Vec::new() }
}

/// The choices that varied, besides the values of `keys`; runs that differ in their seed alone share a line. The least of the
/// first value is marked among the lines of each demand.
pub fn table(rows: &[FlatRun], keys: &[String]) -> Result<Sheet, Error> {
    keys.iter().try_for_each(|key| known(rows, key))?;
    let names = varying(rows);
    let (own, groups): (Vec<Vec<String>>, Vec<Vec<&FlatRun>>) = grouped(rows, &names).into_iter().unzip();
    let column = |(nth, key): (usize, &String)| {
        let head = words::name(key);
        let values: Vec<Option<Spread>> = groups.iter().map(|rows| spread(rows, key)).collect();
        if values.iter().all(Option::is_none) {
            return Column::Texts(head, groups.iter().map(|rows| cell(rows[0], key)).collect());
        }
        let best = if nth == 0 { least(&groups, &names, &values) } else { Vec::new() };
        Column::Numbers { name: head, key: key.clone(), values, best }
    };
    let values = keys.iter().enumerate().map(column).collect();
    Ok(Sheet([choices(&names, &own), values].concat()))
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

/// A table with a line for each value of `across` and a column for each of `down`; the least value of each line is marked.
pub fn pivot(rows: &[FlatRun], across: &str, down: &str, value: &str) -> Result<Sheet, Error> {
    [across, down, value].iter().try_for_each(|key| known(rows, key))?;
    let (lines, groups): (Vec<Vec<String>>, Vec<Vec<&FlatRun>>) = grouped(rows, &[across.into()]).into_iter().unzip();
    let column = |(own, _): (Vec<String>, Vec<&FlatRun>)| {
        let own = own.concat();
        let of = |rows: &Vec<&FlatRun>| {
            let there: Vec<&FlatRun> = rows.iter().copied().filter(|row| cell(row, down) == own).collect();
            spread(&there, value)
        };
        (own.clone(), groups.iter().map(of).collect::<Vec<Option<Spread>>>())
    };
    let columns: Vec<(String, Vec<Option<Spread>>)> = grouped(rows, &[down.into()]).into_iter().map(column).collect();
    // Conventional disks are what others are compared with.
    let shingled = || columns.iter().filter(|(name, _)| name != BASELINE);
    let best = |at: usize| shingled().filter_map(|(_, values)| Some(values[at]?.mean)).fold(f64::MAX, f64::min);
    let marked = |name: &str, values: &[Option<Spread>]| {
        let is_best = |&at: &usize| values[at].is_some_and(|value| value.mean == best(at));
        (0..values.len()).filter(|_| name != BASELINE).filter(is_best).collect()
    };
    let numbers = columns.iter().map(|(name, values)| Column::Numbers {
        name: name.clone(),
        key: value.into(),
        values: values.clone(),
        best: marked(name, values),
    });
    let head = format!("{} of {} by {}", words::name(value), words::name(across), words::name(down));
    let lines = lines.into_iter().map(|own| own.concat()).collect();
    Ok(Sheet(std::iter::once(Column::Texts(head, lines)).chain(numbers).collect()))
}

/// One value of the runs of two sweeps, and their ratio; what one of them lacks is a dash.
pub fn against(rows: &[FlatRun], others: &[FlatRun], value: &str, sweeps: [&str; 2]) -> Result<Sheet, Error> {
    known(rows, value)?;
    let all: Vec<FlatRun> = rows.iter().chain(others).cloned().collect();
    let names = varying(&all);
    let of = |rows: &[FlatRun], own: &Vec<String>| {
        let own: Vec<&FlatRun> =
            rows.iter().filter(|row| names.iter().zip(own).all(|(key, one)| cell(row, key) == *one)).collect();
        spread(&own, value)
    };
    let lines: Vec<Vec<String>> = grouped(&all, &names).into_iter().map(|(own, _)| own).collect();
    let [ours, theirs] = [rows, others].map(|rows| lines.iter().map(|own| of(rows, own)).collect::<Vec<_>>());
    let ratios = ours.iter().zip(&theirs).map(|(own, other)| Some(own.as_ref()?.over(other.as_ref()?))).collect();
    let name = |sweep| format!("{} of {sweep}", words::name(value));
    let values = vec![
        numbers(name(sweeps[0]), value, ours),
        numbers(name(sweeps[1]), value, theirs),
        numbers("ratio".into(), "ratio", ratios),
    ];
    Ok(Sheet([choices(&names, &lines), values].concat()))
}

#[cfg(test)]
mod tests;
