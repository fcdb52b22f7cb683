//! Compares two layers, drives or settings pair by pair: runs with the same requests under the same seed. Chance effects that both share
//! cancel out, so that the interval is much narrower than those of either mean.

use serde_json::{Value, json};
use smrkit::error::Error;
use smrkit_report::Grid;
use smrkit_report::format::{NONE, short};

use crate::frame::{FlatRun, Frame, text};
use crate::spread::{Spread, with_interval};
use crate::table::{
    RAW_SECTORS, cell, check_key, grouped, is_system, is_value, no_run_has, raw_unit, readable, varies, varying,
};
use crate::words::{self, unit, with_unit};

/// A comparison of the second of two values of a key with the first.
pub struct Pairs {
    /// The values of the key.
    sides: [String; 2],
    /// Other keys by which its lines differ.
    names: Vec<String>,
    lines: Vec<Line>,
}

/// One value under one load.
struct Line {
    names: Vec<Value>,
    key: String,
    /// The means of both sides, over pairs.
    means: [f64; 2],
    /// The second side's value less the first's.
    difference: Spread,
    /// The logarithm of the ratio of the second side's value to the first's; `None` if a value is not above 0.
    log_ratio: Option<Spread>,
    /// True if seeds have no effect: requests of a trace are the same under every seed.
    is_replay: bool,
}

impl Line {
    /// The ratio's geometric mean, and the ends of its interval.
    fn ratio(&self) -> Option<(f64, Option<(f64, f64)>)> {
        let log = self.log_ratio?;
        Some((log.mean.exp(), log.interval().map(|(low, high)| (low.exp(), high.exp()))))
    }
}

impl Pairs {
    /// Compares runs by the values of `keys`: those with one value of `key` with those with another. `sides` is both values, with a comma.
    pub fn new(rows: &[FlatRun], key: &str, sides: &str, keys: &[String]) -> Result<Pairs, Error> {
        keys.iter().map(String::as_str).chain([key]).try_for_each(|key| check_key(rows, key))?;
        if ["seed", "workload", "trace", "trace_reading.volume", "interleave"].contains(&key) {
            return Err(Error::Usage(format!(
                "runs of another {key} have other requests: compare layers, drives or settings"
            )));
        }
        let split = split_sides(rows, key, sides)?;
        let side =
            |value: &str| rows.iter().filter(|row| is_value(&cell(row, key), value)).cloned().collect::<Vec<_>>();
        let [first, second] = split.map(side);
        let mut names = varying(rows);
        names.retain(|name| name != key);
        // Runs are paired if they agree in all shared keys. A key of one side's own, such as a parameter of its layer, only distinguishes lines.
        let is_of_one_side = |name: &String| is_own(name, key) && !(varies(&first, name) && varies(&second, name));
        let (own, shared): (Vec<String>, Vec<String>) = names.iter().cloned().partition(is_of_one_side);
        // An own key with one value in all runs distinguishes nothing.
        names.retain(|name| !own.contains(name) || varies(&first, name) || varies(&second, name));
        let by = [shared.clone(), own].concat();
        let (firsts, seconds) = (grouped(&first, &by), grouped(&second, &by));
        let mut lines = Vec::new();
        for (cells, first_runs) in &firsts {
            let is_match =
                |(others, _): &&(Vec<String>, Vec<&FlatRun>)| others[..shared.len()] == cells[..shared.len()];
            for (_, second_runs) in seconds.iter().filter(is_match) {
                let value = |name: &String| {
                    let side = if varies(&first, name) { first_runs } else { second_runs };
                    side[0].get(name).cloned().unwrap_or_default()
                };
                let names: Vec<Value> = names.iter().map(value).collect();
                lines.extend(keys.iter().filter_map(|key| line(names.clone(), key, first_runs, second_runs)));
            }
        }
        match lines.is_empty() {
            true => Err(Error::Usage(format!(
                "no two runs differ in {key} alone: sweep both in one file, under the same seeds"
            ))),
            false => Ok(Pairs { sides: split.map(str::to_string), names, lines }),
        }
    }

    /// Text for people: the ratio and its 95 % confidence interval, or the difference if a value may be 0.
    pub fn text(&self) -> String {
        let [first, second] = &self.sides;
        let mut header: Vec<String> =
            self.names.iter().map(|name| with_unit(&words::name(name), raw_unit(name))).collect();
        header.extend(["value".into(), "n".into(), first.clone(), second.clone()]);
        let has_ratio = self.lines.iter().any(|line| line.log_ratio.is_some());
        let has_difference = self.lines.iter().any(|line| line.log_ratio.is_none());
        header.extend(has_ratio.then(|| format!("{second} / {first}")));
        header.extend(has_difference.then(|| format!("{second} - {first}")));
        let row = |line: &Line| {
            let (unit, factor) = unit(&line.key, line.means[0].max(line.means[1]));
            let name = |value: &Value| if value.is_null() { NONE.into() } else { readable(text(value)) };
            let mut row: Vec<String> = line.names.iter().map(name).collect();
            row.extend([with_unit(&words::name(&line.key), &unit), line.difference.n.to_string()]);
            row.extend(line.means.map(|mean| short(mean * factor)));
            if has_ratio {
                row.push(line.ratio().map_or(NONE.into(), |(ratio, ends)| with_interval(ratio, ends)));
            }
            if has_difference {
                let ends = line.difference.interval().map(|(low, high)| (low * factor, high * factor));
                let text = with_interval(line.difference.mean * factor, ends);
                row.push(if line.log_ratio.is_none() { text } else { NONE.into() });
            }
            row
        };
        let grid = Grid { rows: self.lines.iter().map(row).collect(), header, best: Vec::new() };
        let single = |is_replay| self.lines.iter().any(|line| line.difference.n == 1 && line.is_replay == is_replay);
        let notes = [
            (single(true), "Seeds play no part in a replay: its one pair is exact, and has no interval."),
            (single(false), "One seed makes no interval: sweep with repeat = 5."),
        ];
        let notes = notes.into_iter().filter(|(is_so, _)| *is_so).map(|(_, note)| format!("\n{note}\n"));
        format!("{}\n{}", grid.text(), notes.collect::<String>())
    }

    /// A frame for programs: a line for each value under each load.
    pub fn frame(&self) -> Frame {
        let [first, second] = &self.sides;
        let ends_of = |ends: Option<(f64, f64)>| {
            let (low, high) = ends.unzip();
            [json!(low), json!(high)]
        };
        let row = |line: &Line| -> (Vec<String>, Vec<Value>) {
            let (ratio, ends) = line.ratio().unzip();
            let [ratio_low, ratio_high] = ends_of(ends.flatten());
            let [low, high] = ends_of(line.difference.interval());
            let own = [
                ("value", json!(line.key)),
                ("first", json!(first)),
                ("second", json!(second)),
                ("n", json!(line.difference.n)),
                ("mean_first", json!(line.means[0])),
                ("mean_second", json!(line.means[1])),
                ("ratio", json!(ratio)),
                ("ratio.low", ratio_low),
                ("ratio.high", ratio_high),
                ("difference", json!(line.difference.mean)),
                ("difference.low", low),
                ("difference.high", high),
            ];
            let names = self.names.iter().cloned().zip(line.names.iter().cloned());
            names.chain(own.map(|(name, value)| (name.to_string(), value))).unzip()
        };
        let (columns, rows): (Vec<_>, Vec<_>) = self.lines.iter().map(row).unzip();
        // There is one line at least, and all have the same columns.
        Frame { columns: columns.into_iter().next().unwrap_or_default(), rows }
    }
}

/// Splits `FIRST,SECOND` into two values of `key` that runs have.
fn split_sides<'a>(rows: &[FlatRun], key: &str, sides: &'a str) -> Result<[&'a str; 2], Error> {
    let existing: Vec<String> = rows.iter().map(|row| cell(row, key)).collect();
    // The text of an array has commas itself, so each comma is tried as the separator of the two values.
    let splits = || sides.match_indices(',').map(|(comma, _)| [&sides[..comma], &sides[comma + 1..]]);
    let exist = |split: &[&str; 2]| split.iter().all(|side| existing.iter().any(|cell| is_value(cell, side)));
    splits().find(exist).ok_or_else(|| match splits().next() {
        None => {
            Error::Usage(format!("{key}={sides} has one value: give two with a comma between, such as layer=rmw,log"))
        }
        Some(_) => no_run_has(&format!("these two values of {key}: {sides}"), existing.clone()),
    })
}

/// True for a key in which the two values of `compared` may differ: a layer has parameters of its own, and a drive has its size.
fn is_own(name: &str, compared: &str) -> bool {
    match compared {
        "layer" => name.starts_with("parameters.") || name == RAW_SECTORS,
        _ => is_system(compared) && is_system(name) && name != "layer",
    }
}

/// Compares one value of runs that differ in the compared key, seed by seed.
fn line(names: Vec<Value>, key: &str, first: &[&FlatRun], second: &[&FlatRun]) -> Option<Line> {
    let partner = |run: &&FlatRun| second.iter().find(|other| cell(other, "seed") == cell(run, "seed")).copied();
    let number = |run: &FlatRun| run.get(key).and_then(Value::as_f64);
    let pairs: Vec<(f64, f64)> = first.iter().filter_map(|run| Some((number(run)?, number(partner(run)?)?))).collect();
    let mean = |side: fn(&(f64, f64)) -> f64| pairs.iter().map(side).sum::<f64>() / pairs.len() as f64;
    let is_positive = pairs.iter().all(|(a, b)| *a > 0.0 && *b > 0.0);
    let has = |key: &str| first[0].get(key).is_some_and(|value| !value.is_null());
    Some(Line {
        names,
        key: key.into(),
        means: [mean(|(a, _)| *a), mean(|(_, b)| *b)],
        difference: Spread::new(pairs.iter().map(|(a, b)| b - a))?,
        log_ratio: Spread::new(pairs.iter().map(|(a, b)| (b / a).ln())).filter(|_| is_positive),
        is_replay: has("trace") && !has("workload") && !has("run.rebuild"),
    })
}

#[cfg(test)]
mod tests;
