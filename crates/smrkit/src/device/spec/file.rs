//! The TOML form: the keys of the short form, `[[member]]` tables with a `count`, nested arrays as `[member.array]`.

use std::path::Path;

use serde::Deserialize;
use toml::Table;

use super::resolve::{MemberKeys, RawArray, RawDrive, RawMember};
use crate::error::{BadInput, Error};
use crate::schema::{Keyed, Values, toml_text};

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
    raw(table).map_err(|refused| Error::input(path, refused))
}

/// The array, or the key and what is wrong with its value.
fn raw(table: ArrayTable) -> Result<RawArray, String> {
    let mut array = RawArray::new(table.level);
    let write = table.write.map(Plain::Text);
    for (key, value) in [("disks", table.disks), ("chunk", table.chunk), ("copies", table.copies), ("write", write)] {
        put(&mut array.values, key, value)?;
    }
    array.drive = drive(table.layer, table.drive, table.capacity, table.set)?;
    array.members = table.member.into_iter().map(member).collect::<Result<_, _>>()?;
    Ok(array)
}

fn member(table: MemberTable) -> Result<RawMember, String> {
    let mut values = Values::new(MemberKeys::keys());
    put(&mut values, "count", table.count)?;
    let count = MemberKeys::read(&values).map_err(|error| error.to_string())?.count;
    let array = table.array.map(|table| raw(*table).map(Box::new)).transpose()?;
    Ok(RawMember { count, drive: drive(table.layer, table.drive, table.capacity, table.set)?, array })
}

fn drive(
    layer: Option<String>,
    drive: Option<String>,
    capacity: Option<Plain>,
    set: Option<Table>,
) -> Result<RawDrive, String> {
    let set = set.map(|table| table.into_iter().map(|(key, value)| (key, toml_text(&value))).collect());
    let mut made = RawDrive { layer, drive, set, ..RawDrive::default() };
    put(&mut made.values, "capacity", capacity)?;
    Ok(made)
}

/// Sets a key that was given.
fn put(values: &mut Values, key: &str, value: Option<Plain>) -> Result<(), String> {
    let text = match value {
        None => return Ok(()),
        Some(Plain::Number(number)) => number.to_string(),
        Some(Plain::Text(text)) => text,
    };
    values.set(key, &text).map_err(|refused| format!("{key}={text}: {refused}"))
}

fn bad_toml(path: &Path, text: &str, error: &toml::de::Error) -> Error {
    let before = error.span().and_then(|span| text.get(..span.start.min(text.len())));
    let line = before.map(|b| b.matches('\n').count() as u64 + 1);
    let column = before.map(|b| (b.len() - b.rfind('\n').map_or(0, |at| at + 1)) as u64 + 1);
    let message = format!(
        "{}; an array is level = \"raid0\", chunk = \"64KiB\" and [[member]] tables, see docs/reference/arrays.md",
        error.message().trim_end()
    );
    Error::Input(Box::new(BadInput { path: path.into(), line, column, message: message.into() }))
}
