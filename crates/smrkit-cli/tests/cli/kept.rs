//! What commands made, compared with what they made before.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::{Scratch, kept_text, smrkit};

/// Fails where a text is not `tests/reproduced/NAME.txt`; `UPDATE=1` writes it anew.
pub fn same(name: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/reproduced/{name}.txt"));
    kept_text::same(&path, made);
}

/// The result of a command, of which the JSON goes to standard output.
pub fn json(arguments: &str) -> Value {
    serde_json::from_str(&smrkit(&format!("{arguments} --json -")).done()).unwrap()
}

/// The files of a folder, `""` or one that ends in a slash, whose names end so.
pub fn made(scratch: &Scratch, folder: &str, ending: &str) -> impl Iterator<Item = (String, String)> {
    let entries = std::fs::read_dir(scratch.path(folder)).into_iter().flatten();
    entries.filter_map(move |entry| {
        let path = entry.unwrap().path();
        let name = format!("{folder}{}", path.file_name()?.display());
        name.ends_with(ending).then(|| (name, std::fs::read_to_string(path).unwrap()))
    })
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
