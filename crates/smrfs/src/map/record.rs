//! The map record of a file, the one attribute that a commit replaces, and the parts that it names.
//!
//! Byte by byte in `docs/reference/smrfs-format.md`. A record holds size, times and promised granules; then what it builds on
//! (nothing, a list of parts, or the number of the part with that list), and pieces that override it.

use super::code::{LIMIT, PieceWriter, RecordReader, put, put_signed, sealed};
use crate::error::FsError;
use crate::meta::Time;

/// The kinds of part.
pub(super) const EXTENTS: u8 = b'E';
pub(super) const INDEX: u8 = b'I';

/// The version of a record whose file shares no extent, and of parts: programs that know no sharing read them.
const ALONE: u8 = 1;

/// The contents of a map record other than the places of the file's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Bytes.
    pub size: u64,
    /// Last change of the data.
    pub mtime: Time,
    /// Last change of anything that the core changed.
    pub ctime: Time,
    /// Granules promised by fallocate and not yet written.
    pub promised: u64,
    /// True if others may name some of the extents as well.
    pub shares: bool,
}

/// Contents of a record by itself, without the parts that it names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordSummary {
    /// Counts the commits of the file.
    pub generation: u64,
    /// Size, times, promise.
    pub head: Head,
    /// Granules of data.
    pub granules: u64,
}

/// Reads a record by itself, without the parts that it names: that is cheap.
pub fn summary(record: &[u8]) -> Result<RecordSummary, MapError> {
    read_record(record).map(|(summary, _, _)| summary)
}

/// A part of a map: its number, and the granule of the file from which on it is in charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartRef {
    pub(super) first: u64,
    pub(super) number: u64,
}

/// Base that the pieces in a record override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Base {
    Nothing,
    Parts(Vec<PartRef>),
    Index(u64),
}

/// A record that builds on `parts`, whose list is part `index` where there is one, overridden by `pieces`.
pub(super) fn write_record(
    summary: &RecordSummary,
    parts: &[PartRef],
    index: Option<u64>,
    pieces: &PieceWriter,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(96 + pieces.bytes.len());
    out.push(if summary.head.shares { VERSION } else { ALONE });
    put(&mut out, summary.generation);
    put(&mut out, summary.head.size);
    for time in [summary.head.mtime, summary.head.ctime] {
        put_signed(&mut out, time.seconds);
        put(&mut out, u64::from(time.nanoseconds));
    }
    put(&mut out, summary.head.promised);
    put(&mut out, summary.granules);
    match index {
        _ if parts.is_empty() => out.push(0),
        None => {
            out.push(1);
            write_parts(&mut out, parts);
        }
        Some(number) => {
            out.push(2);
            put(&mut out, number);
        }
    }
    put(&mut out, pieces.count);
    out.extend_from_slice(&pieces.bytes);
    sealed(out)
}

/// The summary, the base, and a reader at the count of pieces.
pub(super) fn read_record(record: &[u8]) -> Result<(RecordSummary, Base, RecordReader<'_>), MapError> {
    let mut reader = RecordReader::checked(record)?;
    let shares = version(&mut reader)? > ALONE;
    let generation = reader.integer()?;
    let size = reader.integer()?;
    let (mtime, ctime) = (time(&mut reader)?, time(&mut reader)?);
    let (promised, granules) = (reader.place()?, reader.place()?);
    let base = match reader.byte()? {
        0 => Base::Nothing,
        1 => Base::Parts(read_parts(&mut reader)?),
        2 => Base::Index(reader.integer()?),
        kind => return Err(MapError::Kind(kind)),
    };
    Ok((RecordSummary { generation, head: Head { size, mtime, ctime, promised, shares }, granules }, base, reader))
}

pub(super) fn write_parts(out: &mut Vec<u8>, parts: &[PartRef]) {
    put(out, parts.len() as u64);
    let (mut first, mut number) = (0, 0);
    for part in parts {
        put(out, part.first - first);
        put_signed(out, part.number.wrapping_sub(number) as i64);
        (first, number) = (part.first, part.number);
    }
}

pub(super) fn read_parts(reader: &mut RecordReader<'_>) -> Result<Vec<PartRef>, MapError> {
    let count = reader.integer()?;
    let mut parts: Vec<PartRef> = Vec::new();
    let (mut first, mut number) = (0, 0u64);
    for _ in 0..count {
        let further = reader.place()?;
        if (further == 0) != parts.is_empty() || first + further >= LIMIT {
            return Err(MapError::Range);
        }
        first += further;
        number = number.wrapping_add(reader.signed()? as u64);
        parts.push(PartRef { first, number });
    }
    Ok(parts)
}

/// A part that holds `body`.
pub(super) fn write_part(kind: u8, number: u64, count: Option<u64>, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 32);
    out.extend([ALONE, kind]);
    put(&mut out, number);
    if let Some(count) = count {
        put(&mut out, count);
    }
    out.extend_from_slice(body);
    sealed(out)
}

/// A reader at the body of part `number`.
pub(super) fn read_part(kind: u8, number: u64, part: &[u8]) -> Result<RecordReader<'_>, MapError> {
    let mut reader = RecordReader::checked(part)?;
    version(&mut reader)?;
    match reader.byte()? {
        found if found == kind => {}
        found => return Err(MapError::Kind(found)),
    }
    match reader.integer()? {
        found if found == number => Ok(reader),
        found => Err(MapError::WrongPart { wanted: number, found }),
    }
}

fn version(reader: &mut RecordReader<'_>) -> Result<u8, MapError> {
    match reader.byte()? {
        known @ ALONE..=VERSION => Ok(known),
        other => Err(MapError::Version(other)),
    }
}

fn time(reader: &mut RecordReader<'_>) -> Result<Time, MapError> {
    let seconds = reader.signed()?;
    let nanoseconds = u32::try_from(reader.integer()?).ok().filter(|&ns| ns < 1_000_000_000);
    Ok(Time { seconds, nanoseconds: nanoseconds.ok_or(MapError::Range)? })
}

/// The newest version of a record.
pub(super) const VERSION: u8 = 2;

/// Why bytes are no map record, or no part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The record ends too early.
    #[error("it ends too early")]
    Short,
    /// There is something behind its end.
    #[error("there is something behind its end")]
    Long,
    /// The checksum does not match.
    #[error("its checksum does not match")]
    Checksum,
    /// A version that this program does not know.
    #[error("it is of version {0}, and this program knows {VERSION}: use a newer one")]
    Version(u8),
    /// A kind that does not exist, or is not the one that belongs here.
    #[error("it is of an unknown kind ({0})")]
    Kind(u8),
    /// A number outside its range.
    #[error("a number in it is out of range")]
    Range,
    /// A part in the place of another.
    #[error("part {found} is in the place of part {wanted}")]
    WrongPart {
        /// The part that the record names.
        wanted: u64,
        /// The part's own number.
        found: u64,
    },
    /// The extents are not as many as the record says.
    #[error("its extents have {found} granules, and it says {said}")]
    Granules {
        /// The record's number.
        said: u64,
        /// The number in its extents.
        found: u64,
    },
}

impl From<MapError> for FsError {
    fn from(error: MapError) -> FsError {
        FsError::Corrupt(format!("a map record is damaged: {error}; run smrkit fsck"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_nanoseconds_below_a_second() {
        let read = |nanoseconds| {
            let time = Time { seconds: -3, nanoseconds };
            let head =
                Head { size: 1, mtime: time, ctime: Time { seconds: 5, nanoseconds: 6 }, promised: 2, shares: true };
            let whole = RecordSummary { generation: 8, head, granules: 9 };
            let found = summary(&write_record(&whole, &[], None, &PieceWriter::default()));
            assert!(found.is_err() || found == Ok(whole));
            found.map(|found| found.head.mtime.nanoseconds)
        };
        assert_eq!([0, 999_999_999].map(read), [Ok(0), Ok(999_999_999)]);
        assert_eq!([1_000_000_000, u32::MAX].map(read), [Err(MapError::Range), Err(MapError::Range)]);
    }
}
