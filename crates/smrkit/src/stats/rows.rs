//! Members of arrays in result files: whole records or, in a summary, rows with the columns that tables of members show.
//!
//! The table of columns declares the contents of a row, which is an excerpt of the member's record under the same keys.

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::outcome::{Outcome, ROWS};

/// The most members that tables list one by one. More are summed up, and their rows leave out the columns of lists.
pub const LISTED_MAX: usize = 16;

/// When a row has a value.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Row {
    /// Always.
    Always,
    /// If it is neither null nor 0.
    Present,
    /// If it is neither null nor 0, and members are listed.
    Listed,
    /// If it differs from the value of the member before.
    Changed,
}

/// The values that rows may have: their paths in a record, and when a row has them.
fn row_values() -> impl Iterator<Item = (String, Row)> {
    let parts = |&(column, parts): &(&str, &'static [(&str, Row)])| {
        let column = column.to_string();
        parts.iter().map(move |(part, when)| (format!("/{column}{part}"), *when))
    };
    ROWS.iter().flat_map(parts)
}

/// The record of a member with all columns empty.
fn blank_member() -> serde_json::Result<Value> {
    serde_json::to_value(Outcome::default())
}

/// The row of one of `count` members. `before` is the record of the previous member: a row has columns marked `Changed` only where they differ
/// from it.
fn row(member: &Value, before: &Value, count: usize) -> Value {
    let mut row = Value::Object(Default::default());
    for (path, when) in row_values() {
        let Some(value) = member.pointer(&path) else { continue };
        let is_nothing = value.is_null() || value.as_u64() == Some(0);
        let has_it = match when {
            Row::Always => true,
            Row::Present => !is_nothing,
            Row::Listed => !is_nothing && count <= LISTED_MAX,
            Row::Changed => before.pointer(&path) != Some(value),
        };
        if has_it {
            put(&mut row, &path, value.clone());
        }
    }
    row
}

fn put(record: &mut Value, path: &str, value: Value) {
    let place = path.split('/').skip(1).fold(record, |record, key| &mut record[key]);
    *place = value;
}

/// The record of a member, rebuilt from its row and the record of the member before.
fn from_row(row: &Value, before: &Value) -> serde_json::Result<Value> {
    let mut record = blank_member()?;
    for (path, when) in row_values() {
        let value = row.pointer(&path).or_else(|| before.pointer(&path).filter(|_| when == Row::Changed));
        if let Some(value) = value {
            put(&mut record, &path, value.clone());
        }
    }
    // Left out of the row, because it is the same number.
    record["latency_ns"]["all"]["count"] = record["requests"].clone();
    Ok(record)
}

/// The members of an array with only the values of their rows, and without parameters that are the array's.
pub(super) fn shortened(array: &Outcome) -> Vec<Outcome> {
    let short = |member: &Outcome| -> serde_json::Result<Outcome> {
        let (whole, blank) = (serde_json::to_value(member)?, blank_member()?);
        // To a row and back, which drops all that rows don't hold.
        let record = from_row(&row(&whole, &blank, array.members.len()), &blank)?;
        let mut short: Outcome = serde_json::from_value(record)?;
        if short.parameters == array.parameters {
            short.parameters.clear();
        }
        Ok(short)
    };
    array.members.iter().map(|member| short(member).expect("an excerpt of a record is a record")).collect()
}

/// Writes members in full, and those that [`shortened`] made as rows; for `#[serde(with = …)]`.
pub(super) fn serialize<S: Serializer>(members: &[Outcome], to: S) -> Result<S::Ok, S::Error> {
    // Rows hold no system, so a shortened member has none.
    let is_shortened = |member: &Outcome| member.run.system.is_empty();
    if !members.iter().any(is_shortened) {
        return members.serialize(to);
    }
    let mut before = blank_member().map_err(S::Error::custom)?;
    let mut written = Vec::new();
    for member in members {
        let whole = serde_json::to_value(member).map_err(S::Error::custom)?;
        written.push(if is_shortened(member) { row(&whole, &before, members.len()) } else { whole.clone() });
        before = whole;
    }
    written.serialize(to)
}

/// Reads members; for `#[serde(with = …)]`.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Outcome>, D::Error> {
    let mut before = blank_member().map_err(D::Error::custom)?;
    let mut members = Vec::new();
    for read in Vec::<Value>::deserialize(from)? {
        let is_row = read.get("run").is_none();
        before = if is_row { from_row(&read, &before).map_err(D::Error::custom)? } else { read };
        members.push(serde_json::from_value(before.clone()).map_err(D::Error::custom)?);
    }
    Ok(members)
}
