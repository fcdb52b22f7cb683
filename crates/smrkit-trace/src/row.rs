//! A row as a format parses it, before units and order are checked; its possible errors; and the table of volumes.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use smrkit::request::Op;

use crate::number::{self, NoNumber};

/// One request in the units of a trace: ticks and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceRow {
    /// The time, in ticks of the format, from any origin.
    pub ticks: u64,
    /// The first byte.
    pub offset: u64,
    /// Number of bytes; 0 for a flush only.
    pub bytes: u64,
    /// Index into the table of volumes.
    pub volume: u16,
    /// The operation.
    pub op: Op,
}

/// The most bytes one request may have, so that its sectors fit in 32 bits.
pub(crate) const BYTES_MAX: u64 = (u32::MAX as u64 - 1) * 512;

/// The error of a malformed row, and the column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    /// The first byte of the column, from 0.
    pub at: usize,
    /// Bytes of the column.
    pub len: usize,
    /// The column's name.
    pub name: &'static str,
    /// The problem.
    pub problem: Problem,
}

/// Problem of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The row ends before it.
    Missing,
    /// The row goes on after its last column.
    Surplus,
    /// A field that should be something else.
    Expected(&'static str),
    /// A number below 0.
    Negative,
    /// A number too large for 64 bits.
    Overflow,
    /// A size of 0.
    Zero,
    /// A request of 2 TiB or more.
    TooLong,
    /// More volumes than a trace may have. Never skipped.
    TooManyVolumes,
    /// Rows of several jobs of fio, mixed in one file. Never skipped: the rest would not be the trace of any job.
    SeveralWriters,
}

impl Problem {
    /// True if the trace is still wrong without the row, so that it must not be skipped.
    pub fn is_fatal(self) -> bool {
        matches!(self, Problem::TooManyVolumes | Problem::SeveralWriters)
    }
}

impl Bad {
    /// True if the column has the right form, but an impossible value.
    pub fn is_of_value(&self) -> bool {
        matches!(self.problem, Problem::Zero | Problem::Negative | Problem::Overflow | Problem::TooLong)
    }

    /// The message, for a row whose text is `line`.
    pub fn message(&self, line: &[u8]) -> String {
        // A column that is missing is past the end of the line.
        let text = &line[self.at.min(line.len())..(self.at + self.len).min(line.len())];
        let shown = &text[..text.len().min(40)];
        let dots = if text.len() > 40 { "…" } else { "" };
        let is = format!("{} is \"{}{dots}\"", self.name, shown.escape_ascii());
        match self.problem {
            Problem::Missing => format!("the row ends before {}", self.name),
            Problem::Surplus => format!("the row goes on after its last column: \"{}{dots}\"", shown.escape_ascii()),
            Problem::Expected(what) => format!("{is}: expected {what}"),
            Problem::Negative => format!("{is}: expected a number of at least 0"),
            Problem::Overflow => format!("{is}: larger than 64 bits hold"),
            Problem::Zero => format!("{is}: expected a size above 0"),
            Problem::TooLong => format!("{is}: a request is shorter than 2 TiB"),
            Problem::SeveralWriters => {
                "a second heading of fio: several jobs wrote this file at once, and tore each other's rows. Record each to a \
                 file of its own: run fio with numjobs=1, or give every job its own write_iolog"
                    .into()
            }
            Problem::TooManyVolumes => {
                format!("{is}: the trace has more than 65,535 volumes; split it by volume before it is read")
            }
        }
    }
}

/// One column of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    /// Its text, without spaces around it.
    pub text: &'a [u8],
    /// Its first byte in the line.
    pub at: usize,
    /// Its name.
    pub name: &'static str,
}

impl Field<'_> {
    /// A field of a binary record, which has no text to show.
    pub fn named(name: &'static str) -> Field<'static> {
        Field { text: b"", at: 0, name }
    }

    /// The error that this column has `problem`.
    pub fn bad(&self, problem: Problem) -> Bad {
        Bad { at: self.at, len: self.text.len(), name: self.name, problem }
    }

    /// The error that something else was expected.
    pub fn expected(&self, what: &'static str) -> Bad {
        self.bad(Problem::Expected(what))
    }

    fn number(&self, found: Result<u64, NoNumber>, what: &'static str) -> Result<u64, Bad> {
        found.map_err(|no| {
            self.bad(match no {
                NoNumber::Malformed => Problem::Expected(what),
                NoNumber::Negative => Problem::Negative,
                NoNumber::Overflow => Problem::Overflow,
            })
        })
    }

    /// An unsigned integer, of decimal digits or, after `0x`, of hexadecimal ones.
    pub fn integer(&self) -> Result<u64, Bad> {
        match self.text.strip_prefix(b"0x").or_else(|| self.text.strip_prefix(b"0X")) {
            Some(_) => self.hexadecimal(),
            None => self.number(grouped(self.text, whole), "an integer"),
        }
    }

    /// An unsigned integer times `unit`.
    pub fn times(&self, unit: u64) -> Result<u64, Bad> {
        self.integer()?.checked_mul(unit).ok_or_else(|| self.bad(Problem::Overflow))
    }

    /// A decimal number times `scale`, to the nearest integer.
    pub fn decimal(&self, scale: u64) -> Result<u64, Bad> {
        self.number(grouped(self.text, |text| number::decimal(text, scale)), "a number such as 12.345")
    }

    /// A hexadecimal number.
    pub fn hexadecimal(&self) -> Result<u64, Bad> {
        self.number(number::hexadecimal(self.text), "a hexadecimal number")
    }

    /// Parses an operation as tools write it: a letter or letters of RWBS, a word alone or among others (`write|sync`, `REQ_OP_WRITE`), a SCSI
    /// operation code in hexadecimal, or 0 and 1 (false and true), which stand for `zero` and `one`.
    pub fn operation(&self, zero: Op, one: Op) -> Result<Op, Bad> {
        // The usual case, without an allocation.
        if let Ok(op) = self.letter() {
            return Ok(op);
        }
        let upper = self.text.to_ascii_uppercase();
        match upper.as_slice() {
            b"0" | b"FALSE" => return Ok(zero),
            b"1" | b"TRUE" => return Ok(one),
            // UNMAP, which vscsi's records have without its ranges.
            b"42" | b"0X42" => return Ok(Op::Discard),
            _ => {}
        }
        let is_one_of = |names: &str, word: &[u8]| names.split(' ').any(|name| name.as_bytes() == word);
        let of_word = |word: &[u8]| OPERATIONS.iter().find(|(names, _)| is_one_of(names, word)).map(|(_, op)| *op);
        let words = upper.split(|byte| !byte.is_ascii_alphanumeric()).filter_map(of_word);
        let code = upper.strip_prefix(b"0X").unwrap_or(&upper);
        // SCSI's codes have two digits: 8 alone may be anything.
        let code = number::hexadecimal(code).ok().filter(|_| code.len() == 2).and_then(|code| scsi(code as u16));
        let letters = upper.split(|byte| *byte == b'|').filter_map(|part| rwbs(part)?.request());
        // Beside another operation, sync and flush are attributes of it, as in `write|sync`.
        let op = words.chain(code).chain(letters).min_by_key(|op| *op == Op::Flush);
        op.ok_or_else(|| {
            self.expected("R, W, D, F, read, write, discard, flush, 0 or 1 (replace other words by these first)")
        })
    }

    /// `R` or `W`, in either case.
    pub fn letter(&self) -> Result<Op, Bad> {
        match self.text {
            b"R" | b"r" => Ok(Op::Read),
            b"W" | b"w" => Ok(Op::Write),
            _ => Err(self.expected("R or W")),
        }
    }
}

/// Words of operations.
const OPERATIONS: [(&str, Op); 4] = [
    ("READ READS RD READFILE DISKREAD", Op::Read),
    ("WRITE WRITES WR WRITEFILE DISKWRITE", Op::Write),
    ("DISCARD DISCARDS TRIM UNMAP", Op::Discard),
    ("FLUSH FLUSHES SYNC FSYNC SYNCHRONIZE DISKFLUSH", Op::Flush),
];

/// Parsed letters of RWBS, as the kernel and blktrace write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rwbs {
    pub op: Option<Op>,
    /// A flush comes before the operation, or is the operation.
    pub flush: bool,
}

impl Rwbs {
    /// The operation that the letters ask for: a flush if they have no other; `None` if they have neither.
    pub fn request(self) -> Option<Op> {
        self.op.or(self.flush.then_some(Op::Flush))
    }
}

/// Parses letters of RWBS, without zone operations.
pub(crate) fn rwbs(letters: &[u8]) -> Option<Rwbs> {
    let after_flush = letters.strip_prefix(b"F");
    let (op, flags) = match after_flush.unwrap_or(letters) {
        [b'R', flags @ ..] => (Some(Op::Read), flags),
        [b'W', flags @ ..] => (Some(Op::Write), flags),
        [b'D', flags @ ..] => (Some(Op::Discard), flags),
        flags => (None, flags),
    };
    // B is a barrier of kernels before 2.6.37, U an atomic write.
    let is_known = !letters.is_empty() && flags.iter().all(|flag| b"FNAESMBU".contains(flag));
    is_known.then_some(Rwbs { op, flush: after_flush.is_some() })
}

/// Operation of a SCSI operation code (SBC-4, table of commands).
pub(crate) fn scsi(code: u16) -> Option<Op> {
    match code {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Op::Read),
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Some(Op::Write),
        0x35 | 0x91 => Some(Op::Flush),
        _ => None,
    }
}

/// Parses a number; if that fails, tries again without the marks between its thousands, as in `1,234,567.5`.
fn grouped<T>(text: &[u8], parse: impl Fn(&[u8]) -> Result<T, NoNumber>) -> Result<T, NoNumber> {
    let found = parse(text);
    if !matches!(found, Err(NoNumber::Malformed)) {
        return found;
    }
    let text = str::from_utf8(text).unwrap_or_default();
    let is_mark = |c: char| matches!(c, ',' | '\'' | '’' | '_' | ' ' | '\u{a0}' | '\u{2009}' | '\u{202f}');
    let mut groups = text.split('.').next().unwrap_or_default().split(is_mark);
    let is_grouped =
        groups.next().is_some_and(|group| (1..=3).contains(&group.len())) && groups.all(|group| group.len() == 3);
    if is_grouped { parse(text.replace(is_mark, "").as_bytes()) } else { found }
}

/// Parses an integer, which may end in a point and zeros, as in tables of floating-point numbers.
fn whole(text: &[u8]) -> Result<u64, NoNumber> {
    let point =
        text.iter().position(|byte| *byte == b'.').filter(|at| text[*at..].iter().skip(1).all(|byte| *byte == b'0'));
    number::integer(&text[..point.unwrap_or(text.len())])
}

/// Parses a number of any form, for guesses at what a column holds.
pub(crate) fn float(text: &str) -> Option<f64> {
    grouped(text.as_bytes(), |text| {
        str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(NoNumber::Malformed)
    })
    .ok()
}

/// Offset and size in bytes. Errors: an overflow, or a size of 0.
pub(crate) fn extent(offset: Field, offset_unit: u64, size: Field, size_unit: u64) -> Result<(u64, u64), Bad> {
    let first = offset.times(offset_unit)?;
    let bytes = size.times(size_unit)?;
    if bytes == 0 {
        return Err(size.bad(Problem::Zero));
    }
    if bytes > BYTES_MAX {
        return Err(size.bad(Problem::TooLong));
    }
    if first.checked_add(bytes).is_none() { Err(offset.bad(Problem::Overflow)) } else { Ok((first, bytes)) }
}

/// Walks the columns of a line.
#[derive(Clone, Copy)]
pub(crate) struct LineColumns<'a> {
    line: &'a [u8],
    at: usize,
    separator: Separator,
}

/// Separator of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separator {
    /// One byte; spaces around a column don't count.
    Byte(u8),
    /// Any run of spaces and tabs.
    Spaces,
}

impl<'a> LineColumns<'a> {
    /// Columns between commas.
    pub fn commas(line: &'a [u8]) -> LineColumns<'a> {
        LineColumns::new(line, Separator::Byte(b','))
    }

    /// Columns between runs of spaces and tabs.
    pub fn spaces(line: &'a [u8]) -> LineColumns<'a> {
        LineColumns::new(line, Separator::Spaces)
    }

    /// Columns between `separator`.
    pub fn new(line: &'a [u8], separator: Separator) -> LineColumns<'a> {
        LineColumns { line, at: 0, separator }
    }

    /// The next column, if there is one.
    pub fn optional(&mut self, name: &'static str) -> Option<Field<'a>> {
        // After a last separator there is one more column, which is empty; after the line's end there is none.
        let start = match self.separator {
            Separator::Byte(_) if self.at > self.line.len() => return None,
            Separator::Byte(_) => self.at,
            Separator::Spaces => self.at + self.line.get(self.at..)?.iter().position(|b| !matches!(b, b' ' | b'\t'))?,
        };
        let rest = self.line.get(start..)?;
        let length = match self.separator {
            Separator::Byte(byte) if rest.first() == Some(&b'"') => quoted(rest, byte),
            Separator::Byte(byte) => memchr::memchr(byte, rest),
            Separator::Spaces => memchr::memchr2(b' ', b'\t', rest),
        };
        let text = &rest[..length.unwrap_or(rest.len())];
        self.at = start + text.len() + 1;
        let lead = text.len() - text.trim_ascii_start().len();
        Some(Field { text: text.trim_ascii(), at: start + lead, name })
    }

    /// The next column.
    pub fn next(&mut self, name: &'static str) -> Result<Field<'a>, Bad> {
        let missing = Bad { at: self.line.len(), len: 0, name, problem: Problem::Missing };
        self.optional(name).ok_or(missing)
    }

    /// Fails if another column follows.
    pub fn end(&mut self) -> Result<(), Bad> {
        self.optional("").map_or(Ok(()), |field| Err(field.bad(Problem::Surplus)))
    }
}

/// The end of a quoted column, which may hold the separator. Without a second quote, it ends at the separator.
#[cold]
fn quoted(rest: &[u8], separator: u8) -> Option<usize> {
    let close = memchr::memchr_iter(b'"', rest).skip(1);
    let mut ends = close.map(|at| at + 1).filter(|&at| rest.get(at).is_none_or(|byte| *byte == separator));
    match ends.next() {
        Some(end) if end == rest.len() => None,
        Some(end) => Some(end),
        None => memchr::memchr(separator, rest),
    }
}

/// One of a trace's volumes; a request holds its index in the trace's table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// The number that the trace gives it.
    pub number: u64,
    /// The host or volume name that the trace gives it; may be empty.
    pub name: String,
}

impl Volume {
    /// Its name, or its number if it has no name.
    pub fn shown(&self) -> String {
        if self.name.is_empty() { self.number.to_string() } else { self.name.clone() }
    }
}

/// The most volumes of one trace: a request's index has 16 bits.
const VOLUMES_MAX: usize = 65_535;

/// Numbers below this are found in a flat table, others in a map.
const FLAT: u64 = 1 << 16;

/// The table of volumes, filled as rows are seen.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    /// The volumes so far.
    pub list: Vec<Volume>,
    /// Index plus one by number.
    flat: Vec<u16>,
    numbers: HashMap<u64, u16>,
    names: HashMap<Vec<u8>, u16>,
}

impl Volumes {
    /// The index of the volume with this number. A new one is called `name`. `field` is the column to blame if there are too many.
    pub fn numbered(&mut self, number: u64, field: Field, name: impl FnOnce() -> String) -> Result<u16, Bad> {
        let known = match number < FLAT {
            true => self.flat.get(number as usize).and_then(|plus_one| plus_one.checked_sub(1)),
            false => self.numbers.get(&number).copied(),
        };
        if let Some(index) = known {
            return Ok(index);
        }
        let index = self.add(number, name()).ok_or_else(|| field.bad(Problem::TooManyVolumes))?;
        if number < FLAT {
            // 0 is for numbers that have not been seen.
            self.flat.resize(self.flat.len().max(number as usize + 1), 0);
            self.flat[number as usize] = index + 1;
        } else {
            self.numbers.insert(number, index);
        }
        Ok(index)
    }

    /// The index of the volume that `key` names; a new one gets `number`, or the next free one.
    pub fn named(&mut self, key: &[u8], number: Option<u64>, field: Field) -> Result<u16, Bad> {
        if let Some(index) = self.names.get(key) {
            return Ok(*index);
        }
        let number = number.unwrap_or(self.list.len() as u64);
        let name = String::from_utf8_lossy(key).into_owned();
        let index = self.add(number, name).ok_or_else(|| field.bad(Problem::TooManyVolumes))?;
        self.names.insert(key.to_vec(), index);
        Ok(index)
    }

    fn add(&mut self, number: u64, name: String) -> Option<u16> {
        let index = u16::try_from(self.list.len()).ok().filter(|_| self.list.len() < VOLUMES_MAX)?;
        self.list.push(Volume { number, name });
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_shows_forty_bytes_of_a_column() {
        let said = |length: usize, problem| {
            let line = [b"1,".as_slice(), &vec![b'x'; length]].concat();
            Bad { at: 2, len: length, name: "the size", problem }.message(&line)
        };
        let xs = |count: usize| "x".repeat(count);
        let zero = |shown: &str| format!("the size is \"{shown}\": expected a size above 0");
        assert_eq!(said(1, Problem::Zero), zero("x"));
        assert_eq!(said(40, Problem::Zero), zero(&xs(40)));
        assert_eq!(said(41, Problem::Zero), zero(&(xs(40) + "…")));
        assert_eq!(said(3, Problem::Missing), "the row ends before the size");
        assert_eq!(said(3, Problem::Surplus), "the row goes on after its last column: \"xxx\"");
        assert_eq!(said(3, Problem::Expected("a number")), "the size is \"xxx\": expected a number");
        assert_eq!(said(3, Problem::Negative), "the size is \"xxx\": expected a number of at least 0");
        assert_eq!(said(3, Problem::Overflow), "the size is \"xxx\": larger than 64 bits hold");
        assert_eq!(said(3, Problem::TooLong), "the size is \"xxx\": a request is shorter than 2 TiB");
        let beyond = Bad { at: 9, len: 9, name: "the size", problem: Problem::Zero }.message(b"1,2");
        assert_eq!(beyond, zero(""));
    }

    #[test]
    fn only_values_that_are_impossible_are_told_from_other_columns() {
        let of = |problem| Bad { at: 0, len: 0, name: "", problem }.is_of_value();
        let values = [Problem::Zero, Problem::Negative, Problem::Overflow, Problem::TooLong];
        assert!(values.into_iter().all(of));
        let others = [
            Problem::Missing,
            Problem::Surplus,
            Problem::Expected(""),
            Problem::TooManyVolumes,
            Problem::SeveralWriters,
        ];
        assert!(!others.into_iter().any(of));
    }
}
