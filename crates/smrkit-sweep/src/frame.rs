//! Runs as flat rows, and tables for programs: columns by the keys of outcomes, with numbers in full, as CSV and Parquet.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use serde_json::{Map, Value, json};
use smrkit::error::Error;
use smrkit::record;
use smrkit::stats::outcome::{Outcome, sections};
use smrkit_trace::parquet::table::TableWriter;

/// A run as flat keys, dotted, and their values.
pub type FlatRun = BTreeMap<String, Value>;

/// The key of merged sources, as one text.
pub(crate) const SOURCES: &str = "sources";

/// The runs, one row each; other lists and distributions are left out.
pub fn rows(outcomes: &[Outcome]) -> Vec<FlatRun> {
    let row = |outcome: &Outcome| {
        let mut row = flat(json!(outcome));
        if let Some(sources) = &outcome.replayed.sources {
            let names = sources.iter().map(|source| source.trace.as_deref().or(source.workload.as_deref()));
            row.insert(SOURCES.into(), names.flatten().collect::<Vec<_>>().join(" & ").into());
        }
        row
    };
    outcomes.iter().map(row).collect()
}

/// A record as a row.
pub fn flat(record: Value) -> FlatRun {
    let mut row = FlatRun::new();
    flatten(String::new(), record, &mut row);
    row
}

/// Adds a value to a row under its key. Fields of objects get keys with dots; arrays have no column.
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

/// The table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows of as many values; null for a value that does not exist.
    pub rows: Vec<Vec<Value>>,
}

impl Frame {
    /// Comma-separated values, with a header; a value that does not exist is empty.
    pub fn csv(&self) -> String {
        let quoted = |cell: String| match cell.contains([',', '"', '\n']) {
            true => format!("\"{}\"", cell.replace('"', "\"\"")),
            false => cell,
        };
        let line = |cells: Vec<String>| cells.into_iter().map(quoted).collect::<Vec<_>>().join(",") + "\n";
        let lines = self.rows.iter().map(|row| line(row.iter().map(text).collect()));
        line(self.columns.clone()) + &lines.collect::<String>()
    }

    /// All keys of some rows.
    pub fn of(rows: &[FlatRun]) -> Frame {
        let columns: Vec<String> =
            BTreeSet::from_iter(rows.iter().flat_map(FlatRun::keys)).into_iter().cloned().collect();
        Frame { rows: rows.iter().map(|row| values(row, &columns)).collect(), columns }
    }

    /// Writes it as Parquet, without columns that have no value in any row. `format` is noted in the file's metadata.
    pub fn write(&self, path: &Path, format: &str) -> Result<(), Error> {
        let whole = whole_numbers();
        let mut columns: Vec<(&String, ArrayRef)> = Vec::new();
        for (at, key) in self.columns.iter().enumerate() {
            let cells = || self.rows.iter().map(|row| &row[at]);
            // A key has one type in all files, whatever its values in this one, so that a query can read them together.
            let values: ArrayRef = match cells().find(|cell| !cell.is_null()) {
                None => continue,
                Some(Value::Number(_)) if whole.contains(key) => {
                    Arc::new(UInt64Array::from_iter_values(cells().map(|cell| cell.as_u64().unwrap_or_default())))
                }
                Some(Value::Number(_)) => {
                    Arc::new(Float64Array::from_iter_values(cells().map(|cell| cell.as_f64().unwrap_or(f64::NAN))))
                }
                Some(_) => Arc::new(StringArray::from_iter_values(cells().map(text))),
            };
            columns.push((key, values));
        }
        let rows = RecordBatch::try_from_iter(columns).expect("columns of one length, and one at least");
        let mut table = TableWriter::create(path, rows.schema())?;
        table.write_group(&rows)?;
        table.finish(vec![("smrkit.format".into(), format.into()), ("smrkit.version".into(), "1".into())])
    }

    /// As a list of records.
    pub fn records(&self) -> Value {
        let record = |row: &Vec<Value>| Map::from_iter(self.columns.iter().cloned().zip(row.iter().cloned()));
        self.rows.iter().map(record).collect()
    }
}

/// A value as text; null is empty.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        // A whole number is written without a point, even if it is stored as a float.
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        value => value.to_string(),
    }
}

/// The values of `keys`, null for those that a run lacks.
pub(crate) fn values(row: &FlatRun, keys: &[String]) -> Vec<Value> {
    keys.iter().map(|key| row.get(key).cloned().unwrap_or_default()).collect()
}

/// Keys that are whole numbers in every outcome. Other numbers may have a fraction, or be missing, in some run.
fn whole_numbers() -> HashSet<String> {
    fn add(keys: &mut HashSet<String>, before: &str, columns: Vec<record::Column>) {
        for column in columns.into_iter().filter(|column| !column.may_be_absent) {
            let key = format!("{before}{}", column.name);
            match (column.python.as_str(), (column.table)()) {
                ("Record", Some(table)) => add(keys, &format!("{key}."), table.columns),
                ("int", _) => drop(keys.insert(key)),
                _ => {}
            }
        }
    }
    let mut keys = HashSet::from(["n".to_string()]);
    let columns = sections().into_iter().flat_map(|section| section.columns);
    add(&mut keys, "", columns.map(|one| one.column).collect());
    keys
}
