//! The short text form: `LEVEL:key=value,…`, with `member=(…)` for what differs or is nested.
//!
//! Values with commas, parentheses or blanks stand in double quotes; a quote inside is written twice.

use super::DEPTH_MAX;
use super::resolve::{RawArray, RawDrive, RawMember};
use crate::error::Error;

const KEYS: &str = "disks, chunk, copies, write, layer, drive, capacity, set, member";
const DRIVE_KEYS: &str = "layer, drive, capacity, set";

/// Reads an array.
pub(super) fn array(text: &str) -> Result<RawArray, Error> {
    array_at(Part { text, at: 0 }.trimmed(), 1).map_err(|e| *e)
}

/// A part of the text and where it begins, in bytes.
#[derive(Clone, Copy)]
struct Part<'a> {
    text: &'a str,
    at: usize,
}

type Result2<T> = Result<T, Box<Error>>;

impl<'a> Part<'a> {
    fn trimmed(self) -> Part<'a> {
        let blank = self.text.len() - self.text.trim_start().len();
        Part { text: self.text.trim(), at: self.at + blank }
    }

    fn slice(self, from: usize, to: usize) -> Part<'a> {
        Part { text: &self.text[from..to], at: self.at + from }
    }

    /// An error at this place.
    fn error<T>(self, message: impl std::fmt::Display) -> Result2<T> {
        let shown: String = self.text.chars().take(40).collect();
        Err(Box::new(Error::Usage(format!("array, character {}, `{shown}`: {message}", self.at + 1))))
    }

    /// Where `separator` stands outside of parentheses and quotes.
    fn outside(self, separator: u8) -> Result2<Vec<usize>> {
        let (mut found, mut open, mut quoted) = (Vec::new(), Vec::new(), None);
        for (i, byte) in self.text.bytes().enumerate() {
            match byte {
                b'"' if quoted.is_some() => quoted = None,
                b'"' => quoted = Some(i),
                _ if quoted.is_some() => {}
                b'(' => open.push(i),
                b')' if open.pop().is_none() => {
                    return self.slice(i, self.text.len()).error("a `)` that nothing opened: remove it, or open it");
                }
                byte if byte == separator && open.is_empty() => found.push(i),
                _ => {}
            }
        }
        match (quoted, open.last()) {
            (Some(i), _) => self.slice(i, self.text.len()).error("the quote is not closed: add a `\"`"),
            (None, Some(&i)) => self.slice(i, self.text.len()).error("the `(` is not closed: add a `)`"),
            (None, None) => Ok(found),
        }
    }

    /// The parts between commas; none of an empty text.
    fn items(self) -> Result2<Vec<Part<'a>>> {
        let mut from = 0;
        let mut items = Vec::new();
        for to in self.outside(b',')?.into_iter().chain([self.text.len()]) {
            items.push(self.slice(from, to).trimmed());
            from = to + 1;
        }
        Ok(if self.text.trim().is_empty() { Vec::new() } else { items })
    }

    /// `key=value`.
    fn setting(self) -> Result2<(Part<'a>, Part<'a>)> {
        match self.outside(b'=')?.first() {
            Some(&i) => Ok((self.slice(0, i).trimmed(), self.slice(i + 1, self.text.len()).trimmed())),
            None => self.error("expected key=value"),
        }
    }

    /// What stands in the parentheses that this part is.
    fn inside(self) -> Result2<Part<'a>> {
        match self.text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            Some(_) => Ok(self.slice(1, self.text.len() - 1).trimmed()),
            None => self.error("expected it in parentheses: (…)"),
        }
    }

    /// The value, without its quotes.
    fn value(self) -> Result2<String> {
        let inner = self.text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        match inner {
            Some(inner) if !inner.replace("\"\"", "").contains('"') => Ok(inner.replace("\"\"", "\"")),
            _ if self.text.is_empty() => self.error("a value is missing: write key=value"),
            _ if self.text.contains('"') => self.error("put the whole value in quotes, and write a quote in it twice"),
            _ => Ok(self.text.to_string()),
        }
    }
}

/// A value as `value` reads it back.
pub(super) fn quoted(value: &str) -> String {
    let odd = |c: char| c.is_whitespace() || "\"(),=:".contains(c);
    if value.is_empty() || value.contains(odd) { format!("\"{}\"", value.replace('"', "\"\"")) } else { value.into() }
}

fn array_at(part: Part<'_>, depth: usize) -> Result2<RawArray> {
    let end = part.text.find(':').unwrap_or(part.text.len());
    let name = part.slice(0, end).trimmed();
    if name.text.is_empty() {
        return name
            .error("the kind of array is missing: write raid5:disks=4,chunk=512KiB,layer=drive-managed or the like");
    }
    let mut array = RawArray { level: name.text.to_string(), ..RawArray::default() };
    for item in part.slice((end + 1).min(part.text.len()), part.text.len()).items()? {
        let (key, value) = item.setting()?;
        let place = match key.text {
            "disks" => &mut array.disks,
            "chunk" => &mut array.chunk,
            "copies" => &mut array.copies,
            "write" => &mut array.write,
            "member" => {
                array.members.push(member(value.inside()?, depth)?);
                continue;
            }
            _ => {
                drive_key(&mut array.drive, key, value, KEYS)?;
                continue;
            }
        };
        put(place, key, value)?;
    }
    Ok(array)
}

/// A member: a nested array, which begins with its kind, or a drive.
fn member(part: Part<'_>, depth: usize) -> Result2<RawMember> {
    let end = part.text.find([':', '=', ',']).unwrap_or(part.text.len());
    let is_array = !part.text.is_empty() && !part.text[end..].starts_with('=');
    if is_array {
        if depth >= DEPTH_MAX {
            return part.error(format!("arrays nested more than {DEPTH_MAX} deep: nest fewer"));
        }
        let nested = array_at(part, depth + 1)?;
        return Ok(RawMember { count: None, drive: RawDrive::default(), array: Some(Box::new(nested)) });
    }
    let mut drive = RawDrive::default();
    for item in part.items()? {
        let (key, value) = item.setting()?;
        drive_key(&mut drive, key, value, DRIVE_KEYS)?;
    }
    Ok(RawMember { count: None, drive, array: None })
}

fn drive_key(drive: &mut RawDrive, key: Part<'_>, value: Part<'_>, known: &str) -> Result2<()> {
    match key.text {
        "layer" => put(&mut drive.layer, key, value),
        "drive" => put(&mut drive.drive, key, value),
        "capacity" => put(&mut drive.capacity, key, value),
        "set" if drive.set.is_some() => key.error("given twice: write set=(key=value,key=value)"),
        "set" => {
            let mut pairs = Vec::new();
            for item in value.inside()?.items()? {
                let (key, value) = item.setting()?;
                pairs.push((key.value()?, value.value()?));
            }
            drive.set = Some(pairs);
            Ok(())
        }
        _ => key.error(format!("unknown key; known are {known}")),
    }
}

fn put(place: &mut Option<String>, key: Part<'_>, value: Part<'_>) -> Result2<()> {
    if place.is_some() {
        return key.error("given twice: leave one out");
    }
    *place = Some(value.value()?);
    Ok(())
}
