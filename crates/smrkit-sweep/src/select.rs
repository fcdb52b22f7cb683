//! Tables made from outcomes: what varied, and the values that are asked for, with their spread over seeds; the best marked.

use std::collections::BTreeMap;

use serde_json::Value;
use smrkit::error::Error;
use smrkit::stats::outcome::Outcome;
use smrkit_report::Grid;

/// Keys that tell runs apart, besides parameters and settings.
const IDENTITY: [&str; 7] = ["layer", "drive", "array", "trace", "trace_reading.volume", "workload", "run.rebuild"];
/// Prefixes of keys that tell runs apart.
const SETTINGS: [&str; 2] = ["parameters.", "engine."];
/// Values shown where none are asked for.
pub const VALUES: [&str; 5] =
    ["slowdown", "write_amplification", "latency_ns.all.mean", "latency_ns.all.p99", "latency_ns.all.max"];
const BEST: &str = " *";

/// A run as flat keys, dotted, and their values.
pub type Row = BTreeMap<String, Value>;

/// The runs, one row each; lists and distributions are left out.
pub fn rows(outcomes: &[Outcome]) -> Result<Vec<Row>, Error> {
    outcomes
        .iter()
        .map(|outcome| {
            let mut row = Row::new();
            let record = serde_json::to_value(outcome).map_err(|error| Error::Usage(error.to_string()))?;
            flatten(String::new(), record, &mut row);
            Ok(row)
        })
        .collect()
}

fn flatten(key: String, value: Value, row: &mut Row) {
    match value {
        Value::Object(fields) => {
            let before = if key.is_empty() { key } else { key + "." };
            fields.into_iter().for_each(|(name, value)| flatten(format!("{before}{name}"), value, row));
        }
        Value::Array(_) => {}
        value => drop(row.insert(key, value)),
    }
}

/// Keeps the rows where each key has this value.
pub fn filter(rows: Vec<Row>, wanted: &[(String, String)]) -> Result<Vec<Row>, Error> {
    wanted.iter().try_for_each(|(key, _)| known(&rows, key))?;
    let keeps = |row: &Row| wanted.iter().all(|(key, value)| cell(row, key) == *value);
    Ok(rows.into_iter().filter(keeps).collect())
}

fn known(rows: &[Row], key: &str) -> Result<(), Error> {
    match rows.is_empty() || rows.iter().any(|row| row.contains_key(key)) {
        true => Ok(()),
        false => Err(Error::Usage(format!(
            "no outcome has the key {key}: keys are those of outcome.json, such as layer, parameters.cache_percent, \
             latency_ns.all.p99"
        ))),
    }
}

fn cell(row: &Row, key: &str) -> String {
    match row.get(key) {
        None | Some(Value::Null) => "-".into(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

/// Keys that tell these rows apart, seeds left out.
fn varying(rows: &[Row]) -> Vec<String> {
    let tells = |key: &&String| IDENTITY.contains(&key.as_str()) || SETTINGS.iter().any(|start| key.starts_with(start));
    let mut keys: Vec<String> = rows.iter().flat_map(|row| row.keys().filter(tells).cloned()).collect();
    keys.sort_by_key(|key| (IDENTITY.iter().position(|known| known == key).unwrap_or(IDENTITY.len()), key.clone()));
    keys.dedup();
    keys.retain(|key| key == "layer" || rows.iter().any(|row| cell(row, key) != cell(&rows[0], key)));
    keys
}

/// Several runs of one kind: the mean of a value, and half of what lies between the least and the most.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    mean: f64,
    half: f64,
    runs: usize,
}

impl Spread {
    fn from_rows(rows: &[&Row], key: &str) -> Option<Spread> {
        let values: Vec<f64> = rows.iter().filter_map(|row| row.get(key)?.as_f64()).collect();
        let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(*v), b.max(*v)));
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (!values.is_empty()).then_some(Spread { mean, half: (most - least) / 2.0, runs: values.len() })
    }

    fn text(&self) -> String {
        match self.runs {
            1 => short(self.mean),
            _ => format!("{} ± {}", short(self.mean), short(self.half)),
        }
    }
}

/// A number in four digits, or whole.
fn short(value: f64) -> String {
    if value.abs() >= 1000.0 || value == value.round() {
        return format!("{value:.0}");
    }
    let digits = 3 - value.abs().max(1e-6).log10().floor() as i32;
    format!("{value:.*}", digits.clamp(0, 9) as usize)
}

/// Rows by their values of `keys`, in order of first sight.
fn grouped<'a>(rows: &'a [Row], keys: &[String]) -> Vec<(Vec<String>, Vec<&'a Row>)> {
    let mut groups: Vec<(Vec<String>, Vec<&Row>)> = Vec::new();
    for row in rows {
        let own: Vec<String> = keys.iter().map(|key| cell(row, key)).collect();
        match groups.iter_mut().find(|(known, _)| *known == own) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((own, vec![row])),
        }
    }
    groups
}

/// The choices that varied, besides the values of `keys`; runs that differ in their seed alone share a line.
pub fn table(rows: &[Row], keys: &[String]) -> Result<Grid, Error> {
    keys.iter().try_for_each(|key| known(rows, key))?;
    let names = varying(rows);
    let line = |(own, rows): (Vec<String>, Vec<&Row>)| {
        let value = |key: &String| match Spread::from_rows(&rows, key) {
            Some(spread) => spread.text(),
            None => cell(rows[0], key),
        };
        [own, keys.iter().map(value).collect()].concat()
    };
    let lines = grouped(rows, &names).into_iter().map(line).collect();
    Ok(Grid { header: [names, keys.to_vec()].concat(), rows: lines, best: None })
}

/// A table with a line for each value of `across` and a column for each of `down`; the least value of each line is marked.
pub fn pivot(rows: &[Row], across: &str, down: &str, value: &str) -> Result<Grid, Error> {
    [across, down, value].iter().try_for_each(|key| known(rows, key))?;
    let columns: Vec<String> = grouped(rows, &[down.into()]).into_iter().map(|(own, _)| own.concat()).collect();
    let line = |(own, rows): (Vec<String>, Vec<&Row>)| {
        let of = |column: &String| {
            let there: Vec<&Row> = rows.iter().copied().filter(|row| cell(row, down) == *column).collect();
            Spread::from_rows(&there, value)
        };
        let spreads: Vec<Option<Spread>> = columns.iter().map(of).collect();
        let best = spreads.iter().flatten().map(|spread| spread.mean).fold(f64::MAX, f64::min);
        let text = |spread: &Option<Spread>| match spread {
            Some(spread) if spread.mean == best => spread.text() + BEST,
            Some(spread) => spread.text(),
            None => "-".into(),
        };
        [own, spreads.iter().map(text).collect()].concat()
    };
    let lines = grouped(rows, &[across.into()]).into_iter().map(line).collect();
    Ok(Grid { header: [vec![format!("{across} \\ {down}")], columns].concat(), rows: lines, best: None })
}

/// One value of the same runs in two sweeps, and their ratio.
pub fn against(rows: &[Row], others: &[Row], value: &str) -> Result<Grid, Error> {
    known(rows, value)?;
    let all: Vec<Row> = rows.iter().chain(others).cloned().collect();
    let names = varying(&all);
    let theirs = grouped(others, &names);
    let line = |(own, rows): (Vec<String>, Vec<&Row>)| {
        let before = Spread::from_rows(&rows, value);
        let after = theirs.iter().find(|(known, _)| *known == own).and_then(|(_, rows)| Spread::from_rows(rows, value));
        let text = |spread: Option<Spread>| spread.map_or("-".into(), |spread| spread.text());
        let ratio = before.zip(after).map_or("-".into(), |(before, after)| short(after.mean / before.mean));
        [own, vec![text(before), text(after), ratio]].concat()
    };
    let lines = grouped(rows, &names).into_iter().map(line).collect();
    let values = vec![value.to_string(), "against".into(), "ratio".into()];
    Ok(Grid { header: [names, values].concat(), rows: lines, best: None })
}

/// The table as comma-separated values.
pub fn csv(grid: &Grid) -> String {
    let quoted = |cell: &String| match cell.contains([',', '"', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.clone(),
    };
    let line = |cells: &Vec<String>| cells.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n";
    std::iter::once(&grid.header).chain(&grid.rows).map(line).collect()
}

/// The table in Markdown.
pub fn markdown(grid: &Grid) -> String {
    let line = |cells: &Vec<String>| format!("| {} |\n", cells.join(" | ").replace('\\', "\\\\"));
    let rule = format!("|{}\n", "---|".repeat(grid.header.len()));
    line(&grid.header) + &rule + &grid.rows.iter().map(line).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(layer: &str, percent: u64, seed: u64, slowdown: f64) -> Row {
        let mut row = Row::new();
        let record =
            json!({"layer": layer, "parameters": {"cache_percent": percent}, "seed": seed, "slowdown": slowdown});
        flatten(String::new(), record, &mut row);
        row
    }

    fn example() -> Vec<Row> {
        vec![row("rmw", 1, 1, 4.0), row("rmw", 1, 2, 6.0), row("log", 1, 1, 2.5), row("log", 2, 1, 2.0)]
    }

    #[test]
    fn seeds_share_a_line_that_shows_their_spread() {
        let grid = table(&example(), &["slowdown".into()]).unwrap();
        assert_eq!(grid.header, ["layer", "parameters.cache_percent", "slowdown"]);
        assert_eq!(grid.rows, [["rmw", "1", "5 ± 1"], ["log", "1", "2.500"], ["log", "2", "2"]]);
        assert_eq!(csv(&grid).lines().nth(1), Some("rmw,1,5 ± 1"));
        assert_eq!(markdown(&grid).lines().nth(1), Some("|---|---|---|"));
    }

    #[test]
    fn the_best_of_a_line_is_marked_and_what_is_missing_is_a_dash() {
        let grid = pivot(&example(), "layer", "parameters.cache_percent", "slowdown").unwrap();
        assert_eq!(grid.rows, [["rmw", "5 ± 1 *", "-"], ["log", "2.500", "2 *"]]);
    }

    #[test]
    fn two_sweeps_are_compared_run_by_run() {
        let others = vec![row("log", 1, 1, 5.0)];
        let grid = against(&example(), &others, "slowdown").unwrap();
        assert_eq!(grid.rows[0][2..], ["5 ± 1", "-", "-"]);
        assert_eq!(grid.rows[1][2..], ["2.500", "5", "2"]);
    }

    #[test]
    fn rows_are_kept_by_their_values_and_unknown_keys_refused() {
        let wanted = |key: &str, value: &str| vec![(key.to_string(), value.to_string())];
        assert_eq!(filter(example(), &wanted("layer", "log")).unwrap().len(), 2);
        assert_eq!(filter(example(), &wanted("parameters.cache_percent", "2")).unwrap().len(), 1);
        assert!(
            filter(example(), &wanted("colour", "red")).unwrap_err().to_string().contains("no outcome has the key")
        );
    }
}
