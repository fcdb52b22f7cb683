//! The TOML form: the keys of the short form, `[[member]]` tables with a `count`, nested arrays as `[member.array]`.

use std::path::Path;

use serde::Deserialize;
use toml::{Table, Value};

use super::resolve::{RawArray, RawDrive, RawMember};
use crate::error::{BadInput, Error};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArrayTable {
    level: String,
    disks: Option<Plain>,
    chunk: Option<Plain>,
    copies: Option<Plain>,
    write: Option<String>,
    layer: Option<String>,
    drive: Option<String>,
    capacity: Option<Plain>,
    set: Option<Table>,
    #[serde(default)]
    member: Vec<MemberTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemberTable {
    count: Option<Plain>,
    layer: Option<String>,
    drive: Option<String>,
    capacity: Option<Plain>,
    set: Option<Table>,
    array: Option<Box<ArrayTable>>,
}

/// A number, or its text with a unit.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a whole number, or a text such as \"512KiB\"")]
enum Plain {
    Number(u64),
    Text(String),
}

/// Reads an array; `path` is for messages.
pub(super) fn array(path: &Path, text: &str) -> Result<RawArray, Error> {
    let table: ArrayTable = toml::from_str(text).map_err(|e| bad_toml(path, text, &e))?;
    Ok(raw(table))
}

fn raw(table: ArrayTable) -> RawArray {
    RawArray {
        level: table.level,
        disks: table.disks.map(plain),
        chunk: table.chunk.map(plain),
        copies: table.copies.map(plain),
        write: table.write,
        drive: drive(table.layer, table.drive, table.capacity, table.set),
        members: table.member.into_iter().map(member).collect(),
    }
}

fn member(table: MemberTable) -> RawMember {
    RawMember {
        count: table.count.map(plain),
        drive: drive(table.layer, table.drive, table.capacity, table.set),
        array: table.array.map(|table| Box::new(raw(*table))),
    }
}

fn drive(layer: Option<String>, drive: Option<String>, capacity: Option<Plain>, set: Option<Table>) -> RawDrive {
    let set = set.map(|table| table.into_iter().map(|(key, value)| (key, setting(value))).collect());
    RawDrive { layer, drive, capacity: capacity.map(plain), set }
}

fn plain(plain: Plain) -> String {
    match plain {
        Plain::Number(number) => number.to_string(),
        Plain::Text(text) => text,
    }
}

/// A parameter's value as the short form would have it.
fn setting(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn bad_toml(path: &Path, text: &str, error: &toml::de::Error) -> Error {
    let before = error.span().and_then(|span| text.get(..span.start.min(text.len())));
    let line = before.map(|b| b.matches('\n').count() as u64 + 1);
    let column = before.map(|b| (b.len() - b.rfind('\n').map_or(0, |at| at + 1)) as u64 + 1);
    let message = format!(
        "{}; an array is level = \"raid0\", chunk = \"64KiB\" and [[member]] tables, see docs/reference/arrays.md",
        error.message().trim_end()
    );
    Error::Input(Box::new(BadInput { path: path.into(), line, column, message }))
}
