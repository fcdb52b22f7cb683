//! The short text form: `LEVEL:key=value,…`, with `member=(…)` for what differs or is nested.
//!
//! Values with commas, parentheses or blanks stand in double quotes; a quote inside is written twice.

use super::DEPTH_MAX;
use super::resolve::{RawArray, RawDrive, RawMember};
use crate::error::Error;
use crate::names::known;
use crate::schema::{TextPiece, Values};

/// Keys of a drive that are no values.
const DRIVE_NAMES: [&str; 3] = ["layer", "drive", "set"];

/// Reads an array.
pub(super) fn array(text: &str) -> Result<RawArray, Error> {
    array_at(TextPiece::whole("array", text), 1).map_err(|e| *e)
}

type Result2<T> = Result<T, Box<Error>>;

impl<'a> TextPiece<'a> {
    /// Place of `separator` outside of parentheses and quotes.
    fn outside(self, separator: u8) -> Result2<Vec<usize>> {
        let (mut found, mut open, mut quoted) = (Vec::new(), Vec::new(), None);
        for (i, byte) in self.text.bytes().enumerate() {
            match byte {
                b'"' if quoted.is_some() => quoted = None,
                b'"' => quoted = Some(i),
                _ if quoted.is_some() => {}
                b'(' => open.push(i),
                b')' if open.pop().is_none() => {
                    return Err(self
                        .slice(i, self.text.len())
                        .error("a `)` that nothing opened: remove it, or open it"));
                }
                byte if byte == separator && open.is_empty() => found.push(i),
                _ => {}
            }
        }
        match (quoted, open.last()) {
            (Some(i), _) => Err(self.slice(i, self.text.len()).error("the quote is not closed: add a `\"`")),
            (None, Some(&i)) => Err(self.slice(i, self.text.len()).error("the `(` is not closed: add a `)`")),
            (None, None) => Ok(found),
        }
    }

    /// The parts between commas; none of an empty text.
    fn items(self) -> Result2<Vec<TextPiece<'a>>> {
        let mut from = 0;
        let mut items = Vec::new();
        for to in self.outside(b',')?.into_iter().chain([self.text.len()]) {
            items.push(self.slice(from, to).trimmed());
            from = to + 1;
        }
        Ok(if self.text.trim().is_empty() { Vec::new() } else { items })
    }

    /// `key=value`.
    fn setting(self) -> Result2<(TextPiece<'a>, TextPiece<'a>)> {
        match self.outside(b'=')?.first() {
            Some(&i) => Ok((self.slice(0, i).trimmed(), self.slice(i + 1, self.text.len()).trimmed())),
            None if self.text.parse::<u64>().is_ok() => {
                Err(self.error(format!("expected key=value: for {0} disks write disks={0}", self.text)))
            }
            None => Err(self.error("expected key=value")),
        }
    }

    /// Text in the parentheses that this part is.
    fn inside(self) -> Result2<TextPiece<'a>> {
        match self.text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            Some(_) => Ok(self.slice(1, self.text.len() - 1).trimmed()),
            None => Err(self.error("expected it in parentheses: (…)")),
        }
    }

    /// The value, without its quotes.
    fn value(self) -> Result2<String> {
        let inner = self.text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        match inner {
            Some(inner) if !inner.replace("\"\"", "").contains('"') => Ok(inner.replace("\"\"", "\"")),
            _ if self.text.is_empty() => Err(self.error("a value is missing: write key=value")),
            _ if self.text.contains('"') => {
                Err(self.error("put the whole value in quotes, and write a quote in it twice"))
            }
            _ => Ok(self.text.to_string()),
        }
    }
}

/// A value as `value` reads it back.
pub(super) fn quoted(value: &str) -> String {
    let odd = |c: char| c.is_whitespace() || "\"(),=:".contains(c);
    if value.is_empty() || value.contains(odd) { format!("\"{}\"", value.replace('"', "\"\"")) } else { value.into() }
}

fn array_at(part: TextPiece<'_>, depth: usize) -> Result2<RawArray> {
    let end = part.text.find(':').unwrap_or(part.text.len());
    let name = part.slice(0, end).trimmed();
    if name.text.is_empty() {
        return Err(name
            .error("the kind of array is missing: write raid5:disks=4,chunk=512KiB,layer=drive-managed or the like"));
    }
    let mut array = RawArray::new(name.text);
    for item in part.slice((end + 1).min(part.text.len()), part.text.len()).items()? {
        let (key, value) = item.setting()?;
        match key.text {
            "member" => array.members.push(member(value.inside()?, depth)?),
            name if array.values.keys().iter().any(|known| known.name == name) => {
                put(&mut array.values, key, value)?;
            }
            _ => {
                let own = array.values.keys().iter().map(|key| key.name).chain(["member"]).collect::<Vec<_>>();
                drive_key(&mut array.drive, key, value, &own)?;
            }
        }
    }
    Ok(array)
}

/// A member: a nested array, which begins with its kind, or a drive.
fn member(part: TextPiece<'_>, depth: usize) -> Result2<RawMember> {
    let end = part.text.find([':', '=', ',']).unwrap_or(part.text.len());
    let is_array = !part.text.is_empty() && !part.text[end..].starts_with('=');
    if is_array {
        if depth >= DEPTH_MAX {
            return Err(part.error(format!("arrays nested more than {DEPTH_MAX} deep: nest fewer")));
        }
        let nested = array_at(part, depth + 1)?;
        return Ok(RawMember { count: 1, drive: RawDrive::default(), array: Some(Box::new(nested)) });
    }
    let mut drive = RawDrive::default();
    for item in part.items()? {
        let (key, value) = item.setting()?;
        drive_key(&mut drive, key, value, &[])?;
    }
    Ok(RawMember { count: 1, drive, array: None })
}

/// Sets a key of a drive; `others` are the keys of what is around it.
fn drive_key(drive: &mut RawDrive, key: TextPiece<'_>, value: TextPiece<'_>, others: &[&'static str]) -> Result2<()> {
    match key.text {
        "layer" => put_name(&mut drive.layer, key, value),
        "drive" => put_name(&mut drive.drive, key, value),
        "set" if drive.set.is_some() => Err(key.error("`set` is given twice: write set=(key=value,key=value)")),
        "set" => {
            let mut pairs = Vec::new();
            for item in value.inside()?.items()? {
                let (key, value) = item.setting()?;
                pairs.push((key.value()?, value.value()?));
            }
            drive.set = Some(pairs);
            Ok(())
        }
        name if drive.values.keys().iter().any(|known| known.name == name) => put(&mut drive.values, key, value),
        name => {
            let own = drive.values.keys().iter().map(|key| key.name);
            let all = others.iter().copied().chain(DRIVE_NAMES).chain(own);
            Err(key.error(format!("no key of this name; {}", known(name, all))))
        }
    }
}

/// Sets a key that takes a value.
fn put(values: &mut Values, key: TextPiece<'_>, value: TextPiece<'_>) -> Result2<()> {
    values.set_once(key.text, &value.value()?).map_err(|refused| refused.at(key, value))
}

/// Sets a key that takes a name.
fn put_name(place: &mut Option<String>, key: TextPiece<'_>, value: TextPiece<'_>) -> Result2<()> {
    match place.replace(value.value()?) {
        Some(_) => Err(key.error(format!("`{}` is given twice: keep one", key.text))),
        None => Ok(()),
    }
}
