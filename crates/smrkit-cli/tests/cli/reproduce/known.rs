//! Compares a reproduction with what it was: rows, tables, what is said of them, and the elements of its figures.
//!
//! `UPDATE=1` writes the file of each anew; a row that moves is a result that changes.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::super::kept_text;

/// Fails where the result and its figures are not those of `tests/reproduced/NAME.txt`.
pub fn compare(name: &str, result: &Value, text: &str, files: &BTreeMap<String, String>) {
    same(name, &(rows(result) + &tables(result) + &paragraphs(text) + &drawn(files)));
}

/// Fails where a text is not `tests/reproduced/NAME.txt`.
pub fn same(name: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/reproduced/{name}.txt"));
    kept_text::same(&path, made);
}

fn rows(result: &Value) -> String {
    let line = |row: &Value| {
        let text = |key: &str| value(&row[key]);
        let by_construction = if row["by_construction"] == true { ", by construction" } else { "" };
        let (item, paper, ours, unit) = (text("item"), text("paper"), text("ours"), text("unit"));
        format!("{item}: {ours} {unit}, paper {paper}: {}; {}{by_construction}\n", text("verdict"), text("reason"))
    };
    result["rows"].as_array().unwrap().iter().map(line).collect()
}

fn tables(result: &Value) -> String {
    let cells = |row: &Value| row.as_array().unwrap().iter().map(value).collect::<Vec<_>>().join(" | ") + "\n";
    let table = |table: &Value| {
        let rows = table["rows"].as_array().unwrap().iter();
        format!(
            "\n{}\n{}",
            value(&table["heading"]),
            std::iter::once(&table["header"]).chain(rows).map(cells).collect::<String>()
        )
    };
    result["tables"].as_array().unwrap().iter().map(table).collect()
}

/// The paragraphs on the terminal that are no tables, without the line that names the commit.
fn paragraphs(text: &str) -> String {
    let prose = text.split("\n\n").filter(|paragraph| !paragraph.contains('─'));
    let lines =
        prose.flat_map(|paragraph| paragraph.trim().lines().chain([""])).filter(|line| !line.contains("smrkit 0."));
    lines.fold("\n".to_string(), |text, line| text + line.trim_end_matches('═') + "\n")
}

/// A value as text; of a fraction the digits that no processor rounds otherwise.
fn value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => format!("{:.5e}", number.as_f64().unwrap()),
        other => other.to_string(),
    }
}

/// Elements of each figure by their colour: how many, and the mean of their points.
pub fn drawn(files: &BTreeMap<String, String>) -> String {
    let figures = files.iter().filter(|(path, _)| path.ends_with(".svg"));
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_string();
    figures.map(|(path, picture)| format!("\n{}\n{}", name(path), elements(picture))).collect()
}

fn elements(picture: &str) -> String {
    let mut found: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for line in picture.lines() {
        let attribute = |name: &str| Some(line.split_once(&format!(" {name}=\""))?.1.split('"').next().unwrap());
        let Some(colour) = attribute("stroke").or(attribute("fill")) else { continue };
        let kind = line.trim_start_matches('<').split(' ').next().unwrap();
        let points = match attribute("points") {
            Some(points) => points.split(' ').filter_map(|point| point.split_once(',')).map(place).collect(),
            None => [("cx", "cy"), ("x", "y")]
                .iter()
                .filter_map(|(x, y)| Some(place((attribute(x)?, attribute(y)?))))
                .collect::<Vec<_>>(),
        };
        found.entry(format!("{kind} {colour}")).or_default().extend(points);
    }
    let line = |(kind, points): (&String, &Vec<(f64, f64)>)| {
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
        format!("{kind}: {} points about {:.1}, {:.1}\n", points.len(), mean(|point| point.0), mean(|point| point.1))
    };
    found.iter().map(line).collect()
}

fn place((x, y): (&str, &str)) -> (f64, f64) {
    (x.parse().unwrap(), y.parse().unwrap())
}
