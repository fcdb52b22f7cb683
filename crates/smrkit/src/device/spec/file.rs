//! The TOML form: the keys of the short form, `[[member]]` tables with a `count`, nested arrays as `[member.array]`.

use std::path::Path;

use serde::Deserialize;
use toml::Table;

use super::resolve::{MemberKeys, RawArray, RawDrive, RawMember};
use crate::error::Error;
use crate::schema::{Keyed, Values, toml_text};
use crate::toml_file::{Mistake, TomlKeys};

/// Keys of an array.
const ARRAY: &[&str] = &["level", "disks", "chunk", "copies", "write", "layer", "drive", "capacity", "set", "member"];
/// Keys of a member.
const MEMBER: &[&str] = &["count", "layer", "drive", "capacity", "set", "array"];

/// A number, or its text with a unit.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a whole number, or a text such as \"512KiB\"")]
enum Plain {
    Number(u64),
    Text(String),
}

/// Reads an array; `path` is for messages.
pub(super) fn array(path: &Path, text: &str) -> Result<RawArray, Error> {
    let remedy = "an array is level = \"raid0\", chunk = \"64KiB\" and [[member]] tables, see docs/reference/arrays.md";
    TomlKeys::parse(text, ARRAY).and_then(raw).map_err(|mistake| mistake.in_file(path, text, remedy))
}

fn raw(mut keys: TomlKeys) -> Result<RawArray, Mistake> {
    let mut array = RawArray::new(keys.need::<String>("level")?);
    for key in ["disks", "chunk", "copies"] {
        put(&mut array.values, key, keys.get(key)?)?;
    }
    put(&mut array.values, "write", keys.get("write")?.map(Plain::Text))?;
    array.members = keys.tables("member", MEMBER)?.into_iter().map(member).collect::<Result<_, _>>()?;
    array.drive = drive(keys)?;
    Ok(array)
}

fn member(mut keys: TomlKeys) -> Result<RawMember, Mistake> {
    let mut values = Values::new(MemberKeys::keys());
    put(&mut values, "count", keys.get("count")?)?;
    let count = MemberKeys::read(&values).map_err(|error| Mistake::Refused(error.to_string()))?.count;
    let array = keys.table("array", ARRAY)?.map(raw).transpose()?.map(Box::new);
    Ok(RawMember { count, drive: drive(keys)?, array })
}

fn drive(mut keys: TomlKeys) -> Result<RawDrive, Mistake> {
    let set = keys.get::<Table>("set")?;
    let set = set.map(|table| table.into_iter().map(|(key, value)| (key, toml_text(&value))).collect());
    let mut made = RawDrive { layer: keys.get("layer")?, drive: keys.get("drive")?, set, ..RawDrive::default() };
    put(&mut made.values, "capacity", keys.get("capacity")?)?;
    keys.end();
    Ok(made)
}

/// Sets a key that was given.
fn put(values: &mut Values, key: &str, value: Option<Plain>) -> Result<(), Mistake> {
    let text = match value {
        None => return Ok(()),
        Some(Plain::Number(number)) => number.to_string(),
        Some(Plain::Text(text)) => text,
    };
    values.set(key, &text).map_err(|refused| Mistake::Refused(format!("{key}={text}: {refused}")))
}
