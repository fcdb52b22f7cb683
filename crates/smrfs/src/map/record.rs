//! The map record of a file, the one attribute that a commit replaces, and the parts that it names.
//!
//! `docs/reference/smrfs-format.md` describes both byte by byte. A record holds size, times and promised granules; then its base (nothing, a
//! list of parts, or the number of the part with that list), and pieces that override the base.
//!
//! Integers are LEB128 (seven bits in each byte, the lowest first); signed ones are zigzag-coded (0, -1, 1, -2, ...). The code is written by
//! hand, so that errors distinguish records that are too short from numbers out of range.

use super::{FileMap, FilePiece};
use crate::data::{sealed, unsealed};
use crate::error::FsError;
use crate::meta::Time;
use crate::units::{Granule, Span};

/// The kinds of part.
pub(super) const EXTENTS: u8 = b'E';
pub(super) const INDEX: u8 = b'I';
pub(super) const SUMS: u8 = b'S';

/// The version of records and parts without the following features.
const PLAIN: u8 = 1;
/// Added to the version if the file may share extents.
const SHARES: u8 = 1;
/// Added to the version if there are checksums: after the pieces, and in the list of parts as the numbers of parts with checksums.
const WITH_SUMS: u8 = 2;

/// The contents of a map record besides the places of the file's data.
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
    /// True if the file may share extents with others.
    pub shares: bool,
}

/// The contents of a record without the parts that it names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordSummary {
    /// Counts the commits of the file.
    pub generation: u64,
    /// Size, times, promise.
    pub head: Head,
    /// Granules of data.
    pub granules: u64,
}

/// Reads a record without the parts that it names, which is cheap.
pub fn summary(record: &[u8]) -> Result<RecordSummary, MapError> {
    read_record(record).map(|(summary, ..)| summary)
}

/// A part of a map: its number, the first granule of the file that it covers, and the part with the checksums. Checksums are separate, so
/// that a mount, which reads the places of all data, need not read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartRef {
    pub(super) first: u64,
    pub(super) number: u64,
    pub(super) sums: Option<u64>,
}

/// The base of a record, which its pieces override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Base {
    Nothing,
    Parts(Vec<PartRef>),
    Index(u64),
}

/// Encodes a record of `parts` (whose list is the part `index`, if there is one), overridden by `pieces`.
pub(super) fn write_record(
    summary: &RecordSummary,
    parts: &[PartRef],
    index: Option<u64>,
    pieces: &PieceWriter,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(96 + pieces.bytes.len());
    let with_sums = pieces.has_sums || parts.iter().any(|part| part.sums.is_some());
    out.push(version_of(summary.head.shares, with_sums));
    put(&mut out, summary.generation);
    put(&mut out, summary.head.size);
    for time in [summary.head.mtime, summary.head.ctime] {
        put_signed(&mut out, time.seconds);
        put(&mut out, u64::from(time.nanoseconds));
    }
    put(&mut out, summary.head.promised);
    put(&mut out, summary.granules);
    // The base of the record: no part, parts listed here, or parts listed in a part.
    match index {
        _ if parts.is_empty() => out.push(0),
        None => {
            out.push(1);
            write_parts(&mut out, parts, with_sums);
        }
        Some(number) => {
            out.push(2);
            put(&mut out, number);
        }
    }
    put(&mut out, pieces.count);
    out.extend_from_slice(&pieces.bytes);
    if with_sums {
        out.extend_from_slice(&pieces.sums);
    }
    sealed(out)
}

fn version_of(shares: bool, with_sums: bool) -> u8 {
    PLAIN + if shares { SHARES } else { 0 } + if with_sums { WITH_SUMS } else { 0 }
}

/// Decodes a record: returns the summary, the base, a reader at the count of pieces, and whether checksums follow the pieces.
pub(super) fn read_record(record: &[u8]) -> Result<(RecordSummary, Base, RecordReader<'_>, bool), MapError> {
    let mut reader = RecordReader::checked(record)?;
    let flags = flags(&mut reader)?;
    let (shares, with_sums) = (flags & SHARES != 0, flags & WITH_SUMS != 0);
    let generation = reader.integer()?;
    let size = reader.integer()?;
    let (mtime, ctime) = (time(&mut reader)?, time(&mut reader)?);
    let (promised, granules) = (reader.place()?, reader.place()?);
    let base = match reader.byte()? {
        0 => Base::Nothing,
        1 => Base::Parts(read_parts(&mut reader, with_sums)?),
        2 => Base::Index(reader.integer()?),
        kind => return Err(MapError::Kind(kind)),
    };
    let head = Head { size, mtime, ctime, promised, shares };
    Ok((RecordSummary { generation, head, granules }, base, reader, with_sums))
}

/// Writes references to parts, each relative to the one before.
pub(super) fn write_parts(out: &mut Vec<u8>, parts: &[PartRef], with_sums: bool) {
    put(out, parts.len() as u64);
    let (mut first, mut number) = (0, 0);
    for part in parts {
        put(out, part.first - first);
        put_signed(out, part.number.wrapping_sub(number) as i64);
        if with_sums {
            // Relative to the part's own number: 0 means none, because no part holds its own checksums.
            put_signed(out, part.sums.map_or(0, |sums| sums.wrapping_sub(part.number) as i64));
        }
        (first, number) = (part.first, part.number);
    }
}

/// Reads references to parts, each stored relative to the one before.
pub(super) fn read_parts(reader: &mut RecordReader<'_>, with_sums: bool) -> Result<Vec<PartRef>, MapError> {
    let count = reader.integer()?;
    let mut parts: Vec<PartRef> = Vec::new();
    let (mut first, mut number) = (0, 0u64);
    for _ in 0..count {
        let further = reader.place()?;
        // The first part begins at 0, and each other one behind the one before.
        if (further == 0) != parts.is_empty() || first + further >= LIMIT {
            return Err(MapError::Range);
        }
        first += further;
        number = number.wrapping_add(reader.signed()? as u64);
        let apart = if with_sums { reader.signed()? as u64 } else { 0 };
        parts.push(PartRef { first, number, sums: (apart != 0).then(|| number.wrapping_add(apart)) });
    }
    Ok(parts)
}

/// Encodes a part with `body`. `with_sums` is true for a list of parts that names checksums.
pub(super) fn write_part(kind: u8, number: u64, count: Option<u64>, body: &[u8], with_sums: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 32);
    out.extend([version_of(false, with_sums), kind]);
    put(&mut out, number);
    if let Some(count) = count {
        put(&mut out, count);
    }
    out.extend_from_slice(body);
    sealed(out)
}

/// Decodes part `number`: returns a reader at its body, and whether it names checksums.
pub(super) fn read_part(kind: u8, number: u64, part: &[u8]) -> Result<(RecordReader<'_>, bool), MapError> {
    let mut reader = RecordReader::checked(part)?;
    let with_sums = flags(&mut reader)? & WITH_SUMS != 0;
    match reader.byte()? {
        found if found == kind => {}
        found => return Err(MapError::Kind(found)),
    }
    match reader.integer()? {
        found if found == number => Ok((reader, with_sums)),
        found => Err(MapError::WrongPart { wanted: number, found }),
    }
}

/// The features that the version of a record or a part adds to [`PLAIN`].
fn flags(reader: &mut RecordReader<'_>) -> Result<u8, MapError> {
    match reader.byte()? {
        known @ PLAIN..=VERSION => Ok(known - PLAIN),
        other => Err(MapError::Version(other)),
    }
}

fn time(reader: &mut RecordReader<'_>) -> Result<Time, MapError> {
    let seconds = reader.signed()?;
    let nanoseconds = u32::try_from(reader.integer()?).ok().filter(|&ns| ns < 1_000_000_000);
    Ok(Time { seconds, nanoseconds: nanoseconds.ok_or(MapError::Range)? })
}

/// The newest version of a record.
pub(super) const VERSION: u8 = PLAIN + SHARES + WITH_SUMS;

/// Why bytes are not a map record, or not a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message names the fields")]
pub enum MapError {
    /// The record ends too early.
    #[error("it ends too early")]
    Short,
    /// Bytes follow its end.
    #[error("there is something behind its end")]
    Long,
    /// The checksum does not match.
    #[error("its checksum does not match")]
    Checksum,
    /// A version that this program does not know.
    #[error("it is of version {0}, and this program knows {VERSION}: use a newer one")]
    Version(u8),
    /// An unknown kind, or one that does not belong here.
    #[error("it is of an unknown kind ({0})")]
    Kind(u8),
    /// A number outside its range.
    #[error("a number in it is out of range")]
    Range,
    /// A part in the place of another.
    #[error("part {found} is in the place of part {wanted}")]
    WrongPart { wanted: u64, found: u64 },
    /// The extents don't have as many granules as the record says.
    #[error("its extents have {found} granules, and it says {said}")]
    Granules { said: u64, found: u64 },
}

impl From<MapError> for FsError {
    fn from(error: MapError) -> FsError {
        FsError::Corrupt(format!("a map record is damaged: {error}; run smrkit fsck"))
    }
}

/// Addresses and offsets in a file are below this, so that no sum of two overflows.
pub(super) const LIMIT: u64 = 1 << 56;

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, (value << 1 ^ value >> 63) as u64);
}

/// Reads the rest of a record.
pub(super) struct RecordReader<'a> {
    bytes: &'a [u8],
}

impl<'a> RecordReader<'a> {
    /// A reader of `bytes` up to their checksum, the last four bytes, which is verified first.
    pub(super) fn checked(bytes: &'a [u8]) -> Result<RecordReader<'a>, MapError> {
        let bytes = unsealed(bytes).ok_or(if bytes.len() < 4 { MapError::Short } else { MapError::Checksum })?;
        Ok(RecordReader { bytes })
    }

    pub(super) fn byte(&mut self) -> Result<u8, MapError> {
        let (&byte, rest) = self.bytes.split_first().ok_or(MapError::Short)?;
        self.bytes = rest;
        Ok(byte)
    }

    pub(super) fn integer(&mut self) -> Result<u64, MapError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(MapError::Range);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(MapError::Range)
    }

    /// A zigzag-coded integer: 0, 1, 2, 3, … stand for 0, −1, 1, −2, …
    pub(super) fn signed(&mut self) -> Result<i64, MapError> {
        let folded = self.integer()?;
        Ok((folded >> 1) as i64 ^ -((folded & 1) as i64))
    }

    /// A checksum of a granule.
    pub(super) fn sum(&mut self) -> Result<u32, MapError> {
        let (sum, rest) = self.bytes.split_first_chunk::<4>().ok_or(MapError::Short)?;
        self.bytes = rest;
        Ok(u32::from_le_bytes(*sum))
    }

    /// An integer below the limit of places and addresses.
    pub(super) fn place(&mut self) -> Result<u64, MapError> {
        Some(self.integer()?).filter(|&value| value < LIMIT).ok_or(MapError::Range)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Checks that nothing is left.
    pub(crate) fn end(&self) -> Result<(), MapError> {
        if self.bytes.is_empty() { Ok(()) } else { Err(MapError::Long) }
    }
}

/// Encodes pieces, each by its distance from the one before in the file, its length, and its distance on the disk.
#[derive(Default)]
pub(super) struct PieceWriter {
    pub(super) bytes: Vec<u8>,
    pub(super) count: u64,
    /// The checksums of the granules with data, one after another.
    pub(super) sums: Vec<u8>,
    /// True if some checksum is known.
    pub(super) has_sums: bool,
    end: u64,
    disk_end: u64,
}

impl PieceWriter {
    pub(super) fn with_room(bytes: usize) -> PieceWriter {
        PieceWriter { bytes: Vec::with_capacity(bytes), ..PieceWriter::default() }
    }

    /// Appends a piece. Pieces come in ascending order.
    pub(super) fn push(&mut self, piece: &FilePiece) {
        put(&mut self.bytes, piece.first - self.end);
        put(&mut self.bytes, piece.count << 1 | u64::from(piece.at.is_none()));
        if let Some(at) = piece.at {
            put_signed(&mut self.bytes, at.0 as i64 - self.disk_end as i64);
            self.disk_end = at.0 + piece.count;
        }
        self.end = piece.end();
        self.count += 1;
    }

    /// Appends the checksums of a piece with data.
    pub(super) fn push_sums(&mut self, sums: &[u32]) {
        self.has_sums |= sums.iter().any(|&sum| sum != 0);
        self.sums.extend(sums.iter().flat_map(|sum| sum.to_le_bytes()));
    }
}

/// Reads `count` pieces.
pub(super) fn pieces(
    reader: &mut RecordReader<'_>,
    count: u64,
    mut visit: impl FnMut(FilePiece) -> Result<(), MapError>,
) -> Result<(), MapError> {
    let (mut end, mut disk_end) = (0, 0u64);
    for _ in 0..count {
        let first = end + reader.place()?;
        let length = reader.integer()?;
        let (count, is_hole) = (length >> 1, length & 1 == 1);
        if count == 0 || count >= LIMIT || first + count >= LIMIT {
            return Err(MapError::Range);
        }
        let mut at = None;
        if !is_hole {
            let place = disk_end.checked_add_signed(reader.signed()?).ok_or(MapError::Range)?;
            if place >= LIMIT || place + count >= LIMIT {
                return Err(MapError::Range);
            }
            (at, disk_end) = (Some(Granule(place)), place + count);
        }
        end = first + count;
        visit(FilePiece { first, count, at })?;
    }
    Ok(())
}

/// Applies a piece that was read to the map.
pub(super) fn apply(map: &mut FileMap, piece: FilePiece) {
    map.cut_out(piece.first..piece.end());
    map.sums.remove(piece.first..piece.end());
    if let Some(Span { at, count }) = piece.span() {
        map.put(piece.first, count, at);
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

    #[test]
    fn integers_come_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            put(&mut out, value);
            put_signed(&mut out, value as i64);
            let mut reader = RecordReader { bytes: &out };
            assert_eq!(reader.integer(), Ok(value));
            assert_eq!(reader.signed(), Ok(value as i64));
            assert_eq!(reader.end(), Ok(()));
        }
        let mut too_long = RecordReader { bytes: &[0xff; 11] };
        assert_eq!(too_long.integer(), Err(MapError::Range));
    }

    #[test]
    fn integers_and_places_are_read_up_to_their_bounds() {
        for value in [0, 1, 127, 128, 16_383, 16_384, LIMIT - 1, LIMIT, u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(out.len() as u32, (64 - value.leading_zeros()).div_ceil(7).max(1));
            let mut reader = RecordReader { bytes: &out };
            assert_eq!((reader.integer(), reader.end()), (Ok(value), Ok(())));
            let place = RecordReader { bytes: &out }.place();
            assert_eq!(place, if value < LIMIT { Ok(value) } else { Err(MapError::Range) });
            let mut signed = Vec::new();
            put_signed(&mut signed, value as i64);
            assert_eq!(RecordReader { bytes: &signed }.signed(), Ok(value as i64));
        }
        let longest = |last: u8| [&[0xff; 9][..], &[last]].concat();
        let read = |bytes: &[u8]| RecordReader { bytes }.integer();
        assert_eq!([read(&longest(1)), read(&longest(2))], [Ok(u64::MAX), Err(MapError::Range)]);
        assert_eq!([read(&[0x80; 10]), read(&[0x80; 3])], [Err(MapError::Range), Err(MapError::Short)]);
    }

    #[test]
    fn pieces_lie_below_the_limit_in_the_file_and_on_the_disk() {
        let read = |first: u64, count: u64, at: Option<u64>| {
            let mut out = Vec::new();
            put(&mut out, first);
            put(&mut out, count << 1 | u64::from(at.is_none()));
            at.into_iter().for_each(|at| put_signed(&mut out, at as i64));
            let mut found = None;
            let done = pieces(&mut RecordReader { bytes: &out }, 1, |piece| {
                found = Some(piece);
                Ok(())
            });
            done.map(|()| found)
        };
        for (first, count, at) in [(0, 1, Some(0)), (LIMIT - 6, 5, None), (7, 5, Some(LIMIT - 6)), (7, LIMIT - 8, None)]
        {
            assert_eq!(read(first, count, at), Ok(Some(FilePiece { first, count, at: at.map(Granule) })));
        }
        for (first, count, at) in [
            (0, 0, None),
            (LIMIT, 1, None),
            (LIMIT - 5, 5, None),
            (0, LIMIT, None),
            (7, 5, Some(LIMIT - 5)),
            (7, 5, Some(LIMIT)),
            (7, 5, Some(u64::MAX)),
        ] {
            assert_eq!(read(first, count, at), Err(MapError::Range), "{first}, {count}, {at:?}");
        }
    }
}
