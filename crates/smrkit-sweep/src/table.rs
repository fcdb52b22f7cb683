//! Tables of a sweep's runs: the settings that varied, and the mean over seeds and confidence interval of each requested value, with the
//! best marked. `frame` has the same for programs. For other tables, a library of data frames can read the store's Parquet files.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use smrkit::error::Error;
use smrkit::layer::BASELINE;
use smrkit::names;
use smrkit::stats::outcome::{Outcome, Unknown};
use smrkit::units::Nanos;
use smrkit_report::format::{NONE, count, time_unit};
use smrkit_report::{Grid, Section, facts};

use crate::frame::{FlatRun, Frame, SOURCES, rows, text, values};
use crate::spread::{Spread, with_interval};
use crate::words::{self, unit, with_unit};

/// Keys by which runs are distinguished, besides parameters and settings.
const IDENTITY: [&str; 18] = [
    "layer",
    "drive",
    "drive_file",
    RAW_SECTORS,
    "array",
    "trace",
    TRACE_HASH,
    "trace_reading.volume",
    "trace_reading.format",
    "trace_reading.skip_bad_rows",
    "workload",
    SPAN,
    SOURCES,
    "interleave",
    "edit",
    "run.rebuild",
    "run.used_sectors",
    "run.from_state",
];
/// The hash of a trace, by which two files of one name are distinguished.
const TRACE_HASH: &str = "trace_sha256";
/// The disk size that a workload assumed.
const SPAN: &str = "workload_sectors";
/// The requested size of a disk.
pub(crate) const RAW_SECTORS: &str = "capacity.raw_sectors";
/// Prefixes of other keys by which runs are distinguished.
const SETTINGS: [&str; 2] = ["parameters.", "engine."];
/// Values shown by default.
const VALUES: [&str; 5] =
    ["slowdown", "write_amplification", "latency_ns.all.mean", "latency_ns.all.p99", "latency_ns.all.max"];

/// The mark after the best number of its kind.
const BEST: &str = " *";

/// The most values that an error lists.
const LISTED: usize = 20;

/// Keeps the outcomes in which each key has the wanted value, in the form of tables. Errors: a key or a value that no outcome has.
pub fn filter(outcomes: Vec<Outcome>, wanted: &[(String, String)]) -> Result<Vec<Outcome>, Error> {
    let mut left = outcomes;
    for (number, (key, value)) in wanted.iter().enumerate() {
        let rows = rows(&left);
        check_key(&rows, key)?;
        let cells: Vec<String> = rows.iter().map(|row| cell(row, key)).collect();
        if !cells.is_empty() && !cells.iter().any(|cell| is_value(cell, value)) {
            let among = if number > 0 { " among those chosen so far" } else { "" };
            return Err(no_run_has(&format!("{key}={value}{among}"), cells));
        }
        left =
            left.into_iter().zip(cells).filter(|(_, cell)| is_value(cell, value)).map(|(outcome, _)| outcome).collect();
    }
    Ok(left)
}

/// True if a cell has a value that was asked for. Durations have several spellings: `1100ms` is `1.1s`.
pub(crate) fn is_value(cell: &str, wanted: &str) -> bool {
    cell == wanted || matches!((cell.parse::<Nanos>(), wanted.parse()), (Ok(own), Ok(other)) if own == other)
}

/// A cell as people read it: a duration in the unit that suits it.
pub(crate) fn readable(cell: String) -> String {
    match cell.parse() {
        // 0 has no unit, and may be no duration.
        Ok(Nanos(time)) if time > 0 => {
            let (unit_s, unit) = time_unit(time as f64 / 1e9);
            format!("{} {unit}", time as f64 / (unit_s * 1e9))
        }
        _ => cell,
    }
}

/// The error that no run has a value, with a list of the existing ones.
pub(crate) fn no_run_has(wanted: &str, cells: Vec<String>) -> Error {
    let existing = BTreeSet::from_iter(cells);
    let more = if existing.len() > LISTED { ", …" } else { "" };
    let listed = existing.into_iter().take(LISTED).collect::<Vec<_>>().join(", ");
    Error::Usage(format!("no run has {wanted}: there are {listed}{more}"))
}

/// Refuses a key that no outcome has, and suggests a similar one.
pub(crate) fn check_key(rows: &[FlatRun], key: &str) -> Result<(), Error> {
    if rows.is_empty() || rows.iter().any(|row| row.contains_key(key)) {
        return Ok(());
    }
    // Tables show the last word of a key only, and p99_9 is easily called p999, so similar keys are suggested.
    let bare = |key: &str| key.replace('_', "");
    let is_similar = |known: &&String| {
        [known.as_str(), known.rsplit('.').next().unwrap_or(known)].iter().any(|known| bare(known) == bare(key))
    };
    let keys = || rows.iter().flat_map(FlatRun::keys);
    let nearest = || names::nearest(key, keys().map(String::as_str));
    let remedy = match keys().find(is_similar).map(String::as_str).or_else(nearest) {
        Some(meant) => format!("did you mean {meant}?"),
        None => "keys are those of outcome.json, such as layer, parameters.cache_percent, latency_ns.all.p99".into(),
    };
    Err(Error::Usage(format!("no outcome has the key {key}: {remedy}")))
}

/// A value as text; one that does not exist is a dash.
pub(crate) fn cell(row: &FlatRun, key: &str) -> String {
    row.get(key).filter(|value| !value.is_null()).map_or(NONE.into(), text)
}

/// True for a key that describes the simulated system, and not the demand.
pub(crate) fn is_system(key: &str) -> bool {
    ["layer", "drive", "drive_file", RAW_SECTORS, "array"].contains(&key) || key.starts_with("parameters.")
}

/// Keys by which `rows` differ, without the seed.
pub(crate) fn varying(rows: &[FlatRun]) -> Vec<String> {
    let distinguishes =
        |key: &&String| IDENTITY.contains(&key.as_str()) || SETTINGS.iter().any(|start| key.starts_with(start));
    let mut keys: Vec<String> = rows.iter().flat_map(|row| row.keys().filter(distinguishes).cloned()).collect();
    keys.sort_by_key(|key| (IDENTITY.iter().position(|known| known == key).unwrap_or(IDENTITY.len()), key.clone()));
    keys.dedup();
    keys.retain(|key| key == "layer" || varies(rows, key));
    keys
}

/// True if `key` has several values among these runs. A parameter varies only if it differs between runs of one layer, and its value counts as it
/// was given (`asked.*`), because `auto` resolves differently on each drive. A drive file or a size varies only if it differs between runs of
/// one drive or array, a trace's hash between traces of one path, and the span between runs of one system, whose capacity is the default span.
pub(crate) fn varies(rows: &[FlatRun], key: &str) -> bool {
    let asked_key = key.strip_prefix("parameters.").map(|parameter| format!("asked.{parameter}"));
    let group_keys: &[&str] = match key {
        "drive_file" | RAW_SECTORS => &["drive", "array"],
        TRACE_HASH => &["trace"],
        SPAN => &["run.system"],
        _ if asked_key.is_some() => &["layer"],
        _ => &[],
    };
    // A parameter that was given as `auto` compares as `auto`, whatever number it became. Other parameters are not in `asked`.
    let value = |row: &FlatRun| cell(row, asked_key.as_deref().filter(|key| row.contains_key(*key)).unwrap_or(key));
    let mut first_in_group: BTreeMap<Vec<String>, String> = BTreeMap::new();
    rows.iter().any(|row| {
        let group = group_keys.iter().map(|key| cell(row, key)).collect();
        *first_in_group.entry(group).or_insert_with(|| value(row)) != value(row)
    })
}

/// The spread of a number over the runs of each group; `None` if the key is no number.
fn spreads<'a>(groups: impl Iterator<Item = &'a Vec<&'a FlatRun>>, key: &str) -> Option<Vec<Option<Spread>>> {
    let spread = |rows: &Vec<&FlatRun>| Spread::new(rows.iter().filter_map(|row| row.get(key)?.as_f64()));
    let spreads: Vec<Option<Spread>> = groups.map(spread).collect();
    spreads.iter().any(Option::is_some).then_some(spreads)
}

/// What a run's own requests tell about the interval of a value: its end `low` or `high`, or `unknown`, the reason why there is none.
fn confidence<'a>(row: &'a FlatRun, key: &str, part: &str) -> Option<&'a Value> {
    row.get(&format!("confidence.{}.{part}", key.trim_start_matches("latency_ns.")))
}

/// The interval of a value of several seeds, or of a single run by its own requests.
fn interval(value: Option<Spread>, rows: &[&FlatRun], key: &str) -> Option<(f64, f64)> {
    match rows {
        [row] => confidence(row, key, "low").and_then(Value::as_f64).zip(confidence(row, key, "high")?.as_f64()),
        _ => value?.interval(),
    }
}

/// The [`table`] as text, with a line below for each percentile that some runs have too few requests to tell.
pub fn text_of(rows: &[FlatRun], keys: &[String], within: bool) -> Result<String, Error> {
    let doubts = doubts(rows, keys).into_iter().map(|line| format!("\n\n{line}"));
    Ok(table(rows, keys, within)?.text() + &doubts.collect::<String>())
}

/// A line for each percentile that some runs have too few requests to tell.
fn doubts(rows: &[FlatRun], keys: &[String]) -> Vec<String> {
    // A run counts once, as in the table.
    let runs: Vec<&FlatRun> = grouped(rows, &varying(rows)).into_iter().flat_map(|(_, rows)| rows).collect();
    let line = |key: &String| {
        let is_too_few = |row: &&&FlatRun| {
            confidence(row, key, "unknown").and_then(Value::as_str) == Some(Unknown::TooFewRequests.name())
        };
        let few = runs.iter().filter(is_too_few).count();
        (few > 0).then(|| format!("{}: too few requests to tell it in {few} of {} runs.", words::name(key), runs.len()))
    };
    keys.iter().filter(|key| key.starts_with("latency_ns.") && key.contains(".p")).filter_map(line).collect()
}

/// Rows by their values of `keys`, in order of first sight.
pub(crate) fn grouped<'a>(rows: &'a [FlatRun], keys: &[String]) -> Vec<(Vec<String>, Vec<&'a FlatRun>)> {
    let mut groups: Vec<(Vec<String>, Vec<&FlatRun>)> = Vec::new();
    for row in rows {
        let cells: Vec<String> = keys.iter().map(|key| cell(row, key)).collect();
        match groups.iter_mut().find(|(known, _)| *known == cells) {
            // A store has a run twice if two sweeps have it with other layers: it counts once.
            Some((_, rows)) if rows.iter().any(|other| cell(other, "seed") == cell(row, "seed")) => {}
            Some((_, rows)) => rows.push(row),
            None => groups.push((cells, vec![row])),
        }
    }
    groups
}

/// The unit of a setting, which is shown as it was given.
pub(crate) fn raw_unit(key: &str) -> &'static str {
    match key {
        _ if key.ends_with("_percent") => "%",
        _ if key.ends_with("_ns") => "ns",
        _ if key.ends_with("_bytes") => "B",
        _ if key.ends_with("_sectors") => "sectors",
        _ => "",
    }
}

/// The table of the settings that varied and the values of `keys`. Runs that differ only in their seed share a line. Among the lines of
/// each demand, the best by the first value is marked. With `within`, lines of a single run have the interval by its own requests.
pub fn table(rows: &[FlatRun], keys: &[String], within: bool) -> Result<Grid, Error> {
    keys.iter().try_for_each(|key| check_key(rows, key))?;
    let names = varying(rows);
    let groups = grouped(rows, &names).into_iter();
    let (mut lines, groups): (Vec<Vec<String>>, Vec<Vec<&FlatRun>>) =
        groups.map(|(cells, rows)| (cells.into_iter().map(readable).collect(), rows)).unzip();
    let mut header: Vec<String> = names.iter().map(|name| with_unit(&words::name(name), raw_unit(name))).collect();
    let mut best = Vec::new();
    if groups.iter().any(|rows| rows.len() > 1) {
        header.push("n".into());
        lines.iter_mut().zip(&groups).for_each(|(line, rows)| line.push(rows.len().to_string()));
    }
    for (nth, key) in keys.iter().enumerate() {
        let Some(values) = spreads(groups.iter(), key) else {
            header.push(words::name(key));
            lines.iter_mut().zip(&groups).for_each(|(line, rows)| line.push(cell(rows[0], key)));
            continue;
        };
        if nth == 0 {
            best = best_lines(key, &groups, &names, &values);
        }
        let (unit, factor) = unit(key, middle(&values));
        header.push(with_unit(&words::name(key), &unit));
        for (at, (line, value)) in lines.iter_mut().zip(&values).enumerate() {
            let mark = if nth == 0 && best.contains(&at) { BEST } else { "" };
            // Without a spread over seeds, this is the interval of a single run by its own requests.
            let own_interval = interval(None, &groups[at], key).filter(|_| within);
            let text = |value: Spread| match own_interval {
                Some((low, high)) => with_interval(value.mean * factor, Some((low * factor, high * factor))),
                None => value.text(factor),
            };
            line.push(value.map_or(NONE.into(), |value| text(value) + mark));
        }
    }
    Ok(Grid { header, rows: lines, best })
}

/// The number that decides on a column's unit: the geometric mean of the least and the greatest.
fn middle(values: &[Option<Spread>]) -> f64 {
    let means = values.iter().flatten().map(|value| value.mean).filter(|&mean| mean > 0.0);
    let (least, most) = means.fold((f64::MAX, 0.0_f64), |(a, b), v| (a.min(v), b.max(v)));
    if most > 0.0 { (least * most).sqrt() } else { 0.0 }
}

/// The values shown for runs: the `asked` ones, if there are any. The first one is decisive: the mean latency for requests at their own
/// times, else the slowdown.
pub fn shown_keys(asked: &[String], rows: &[FlatRun]) -> Vec<String> {
    if !asked.is_empty() {
        return asked.to_vec();
    }
    let measure = match rows.iter().any(|row| cell(row, "engine.arrival") == "trace") {
        true => "latency_ns.all.mean",
        false => "slowdown",
    };
    let others = VALUES.into_iter().filter(|value| *value != measure);
    std::iter::once(measure).chain(others).map(str::to_string).collect()
}

/// The page of the sweep `name`: the table of its runs with the values of `keys`, and their settings. `docs/how-to/sweep.md` shows how to
/// draw figures.
pub fn page(name: &str, outcomes: &[Outcome], keys: &[String]) -> Result<String, Error> {
    let rows = rows(outcomes);
    let keys = shown_keys(keys, &rows);
    let runs =
        format!("{} runs; the best of those that had the same requests are marked.", count(outcomes.len() as u64));
    let text = std::iter::once(runs).chain(doubts(&rows, &keys)).collect();
    let sections = [
        Section { text, ..Section::of_table("All runs", table(&rows, &keys, false)?) },
        Section::of_table("What was run", facts(outcomes)),
    ];
    Ok(smrkit_report::page(&format!("smrkit sweep: {name}"), &sections))
}

/// A frame for programs: the settings that varied, the seed and the values of `keys` of each run.
pub fn runs(rows: &[FlatRun], keys: &[String]) -> Result<Frame, Error> {
    keys.iter().try_for_each(|key| check_key(rows, key))?;
    let columns = [varying(rows), vec!["seed".into()], keys.to_vec()].concat();
    Ok(Frame { rows: rows.iter().map(|row| values(row, &columns)).collect(), columns })
}

/// A frame for programs: a line for runs that differ only in their seed, with their number `n`, and for each number the mean and the ends
/// of its 95 % confidence interval: over the seeds, or of a single run by its own requests.
pub fn intervals(rows: &[FlatRun], keys: &[String]) -> Result<Frame, Error> {
    keys.iter().try_for_each(|key| check_key(rows, key))?;
    let names = varying(rows);
    let groups = grouped(rows, &names);
    let mut columns = [names.clone(), vec!["n".into()]].concat();
    let first = |rows: &[&FlatRun], key: &String| rows[0].get(key).cloned().unwrap_or_default();
    let mut lines: Vec<Vec<Value>> = groups
        .iter()
        .map(|(_, rows)| names.iter().map(|name| first(rows, name)).chain([json!(rows.len())]).collect())
        .collect();
    for key in keys {
        // What is no number has no spread, so the first run of a group stands for the others.
        let Some(values) = spreads(groups.iter().map(|(_, rows)| rows), key) else {
            columns.push(key.clone());
            lines.iter_mut().zip(&groups).for_each(|(line, (_, rows))| line.push(first(rows, key)));
            continue;
        };
        columns.extend(["mean", "low", "high"].map(|end| format!("{key}.{end}")));
        for ((line, value), (_, rows)) in lines.iter_mut().zip(values).zip(&groups) {
            let interval = interval(value, rows, key);
            line.extend([json!(value.map(|value| value.mean)), json!(interval.map(|(low, _)| low))]);
            line.push(json!(interval.map(|(_, high)| high)));
        }
    }
    Ok(Frame { columns, rows: lines })
}

/// The lines with the best value of `key`: one for each demand that has several lines of shingled disks.
fn best_lines(key: &str, groups: &[Vec<&FlatRun>], names: &[String], values: &[Option<Spread>]) -> Vec<usize> {
    let demand: Vec<&String> = names.iter().filter(|name| !is_system(name)).collect();
    let sign = if words::is_better_high(key) { -1.0 } else { 1.0 };
    let mut by_demand: BTreeMap<Vec<String>, Vec<(f64, usize)>> = BTreeMap::new();
    for (at, rows) in groups.iter().enumerate().filter(|(_, rows)| cell(rows[0], "layer") != BASELINE) {
        let own_demand = demand.iter().map(|name| cell(rows[0], name)).collect();
        // A time that was never reached (`_at_s`) counts as the latest.
        let never = key.ends_with("_at_s").then_some(f64::INFINITY);
        let mean = values[at].map(|value| value.mean).or(never);
        by_demand.entry(own_demand).or_default().extend(mean.map(|mean| (sign * mean, at)));
    }
    let several = by_demand.into_values().filter(|lines| lines.len() > 1);
    let best = several.filter_map(|lines| lines.into_iter().min_by(|(a, _), (b, _)| a.total_cmp(b)));
    best.map(|(_, at)| at).collect()
}

#[cfg(test)]
mod tests;
