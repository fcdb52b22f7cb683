//! The journal next to an image: writes in the order in which the layer made them, each with a checksum.
//!
//! A layer orders its writes and never flushes between those that depend on each other; a crash of the host would carry them out in
//! any order. So they go here first. After a crash the longest valid beginning of the journal is what was written: what a drive
//! has written whose power was cut. A flush is one sync of this file. What has gathered moves to the image before the journal
//! starts over.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use smrfs::map::{checksum, checksum_of_more};
use smrkit::ranges::{RangeMap, Shift};

use super::storage::Storage;

/// Bytes of a record before its data.
const HEAD_BYTES: usize = 24;
/// Records gather in memory up to this many bytes; longer ones are written at once (assumption).
const BUFFER_BYTES: usize = 256 << 10;
/// Bytes that the journal holds at most before it moves to the image (assumption).
pub(super) const FULL_BYTES: u64 = 64 << 20;
/// Parts of the image that it knows at most: some MB of memory (assumption).
const PARTS_MAX: usize = 1 << 16;
/// Parts that a journal is believed to have changed: many times what gathers before it moves to the image (assumption).
const PARTS_BELIEVED_MAX: usize = 16 * PARTS_MAX;
/// None of the numbers of records comes so far.
const NUMBER_MAX: u64 = 1 << 62;
/// Records of one use of an image at most (assumption).
const NUMBERS: u64 = 1 << 48;

/// Mark in the length of a record that changes a range without bytes of its own: its data are the range's length, and the number and
/// place of the source.
const MOVES: u32 = 1 << 31;
const MOVE_WORDS: usize = 3;
const MOVE_BYTES: u64 = 8 * MOVE_WORDS as u64;
const HOLE: u64 = 0;
const FROM_IMAGE: u64 = 1;
const FROM_JOURNAL: u64 = 2;
const DESTROYED: u64 = 3;

/// Source of the bytes of a part of the image.
#[derive(Clone)]
pub(super) enum Source {
    /// The image file as it is without the journal, from this byte on.
    Image(u64),
    /// The journal, from this byte on.
    Journal(u64),
    /// Memory, from this byte on.
    Memory(Arc<Vec<u8>>, usize),
    /// Zeros, which take up no room.
    Hole,
    /// Destroyed sectors.
    Destroyed,
}

impl Shift for Source {
    fn shifted(&self, by: u64) -> Source {
        match self {
            Source::Image(at) => Source::Image(at + by),
            Source::Journal(at) => Source::Journal(at + by),
            Source::Memory(bytes, at) => Source::Memory(bytes.clone(), at + by as usize),
            Source::Hole => Source::Hole,
            Source::Destroyed => Source::Destroyed,
        }
    }
}

/// The journal of an open image.
pub(super) struct Journal {
    file: Arc<dyn Storage>,
    full_bytes: u64,
    /// Bytes in the file, followed by those that have not been written to it yet.
    written: u64,
    buffer: Vec<u8>,
    /// The parts of the image that it changes.
    parts: RangeMap<Source>,
    /// The number of the next record.
    number: u64,
    is_synced: bool,
}

impl Journal {
    /// Opens the journal in `file`, which is full with this many bytes: it holds each change that is whole and preceded by whole ones.
    /// Errors: one of them is whole, and no change of the bytes `own` of an image.
    /// Records of an empty one are numbered from `first` on.
    pub(super) fn open(file: Arc<dyn Storage>, full_bytes: u64, own: Range<u64>, first: u64) -> io::Result<Journal> {
        let length = file.length()?;
        let (mut at, mut expected, mut parts) = (0, None, RangeMap::default());
        while let Some(record) = Record::read(file.as_ref(), at, length)? {
            if expected.is_some_and(|expected| expected != record.number) {
                break;
            }
            let (range, source) =
                record.change(at, &own).filter(|_| parts.len() < PARTS_BELIEVED_MAX).ok_or_else(foreign)?;
            apply(&mut parts, range, source);
            at += HEAD_BYTES as u64 + record.bytes;
            expected = Some(record.number + 1);
        }
        if at < length {
            // Else what follows might be taken for the continuation of what is added.
            file.set_length(at)?;
            file.sync()?;
        }
        let number = expected.unwrap_or(first);
        // A killed process may have left it without a sync.
        let is_synced = at == 0;
        Ok(Journal { file, full_bytes, written: at, buffer: Vec::new(), parts, number, is_synced })
    }

    /// Adds a write of `bytes` at `offset` of the image.
    pub(super) fn add(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let at = self.end() + HEAD_BYTES as u64;
        self.add_record(offset, 0, bytes)?;
        apply(&mut self.parts, offset..offset + bytes.len() as u64, Source::Journal(at));
        Ok(())
    }

    /// Adds that a range of the image is from now on what `source` is.
    pub(super) fn add_from(&mut self, range: Range<u64>, source: Source) -> io::Result<()> {
        let length = range.end - range.start;
        if matches!(source, Source::Image(at) if at == range.start) && self.parts.within(range.clone()).next().is_none()
        {
            return Ok(());
        }
        let (kind, at) = match &source {
            Source::Memory(bytes, at) => return self.add(range.start, &bytes[*at..*at + length as usize]),
            Source::Image(at) => (FROM_IMAGE, *at),
            Source::Journal(at) => (FROM_JOURNAL, *at),
            Source::Destroyed => (DESTROYED, 0),
            Source::Hole => (HOLE, 0),
        };
        let words = [length, kind, at].map(u64::to_le_bytes);
        self.add_record(range.start, MOVES, words.as_flattened())?;
        apply(&mut self.parts, range, source);
        Ok(())
    }

    fn add_record(&mut self, offset: u64, mark: u32, bytes: &[u8]) -> io::Result<()> {
        let head = encode_head(self.number, offset, mark, bytes);
        if self.buffer.len() + HEAD_BYTES + bytes.len() > BUFFER_BYTES {
            self.write_out()?;
        }
        self.buffer.extend_from_slice(&head);
        if bytes.len() > BUFFER_BYTES / 2 {
            self.write_out()?;
            self.file.write(self.written, bytes)?;
            self.written += bytes.len() as u64;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        self.number += 1;
        self.is_synced = false;
        Ok(())
    }

    fn end(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// True if it is time to move its records to the image.
    pub(super) fn is_full(&self) -> bool {
        self.end() >= self.full_bytes || self.parts.len() >= PARTS_MAX
    }

    fn write_out(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.file.write(self.written, &self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes all that was added durable.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if !self.is_synced {
            self.write_out()?;
            self.file.sync()?;
            self.is_synced = true;
        }
        Ok(())
    }

    /// The parts of the image that it changes.
    pub(super) fn parts(&self) -> &RangeMap<Source> {
        &self.parts
    }

    /// Fills `bytes` from its byte `at` on.
    pub(super) fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        if at >= self.written {
            let from = (at - self.written) as usize;
            bytes.copy_from_slice(&self.buffer[from..from + bytes.len()]);
            return Ok(());
        }
        self.file.read(at, bytes)
    }

    /// Begins anew: the image holds everything.
    pub(super) fn restart(&mut self) -> io::Result<()> {
        if self.file.length()? > 0 {
            self.file.set_length(0)?;
            // Else new records might overwrite some of these, and what is left would take the image back to an earlier state.
            self.file.sync()?;
        }
        (self.written, self.is_synced) = (0, true);
        self.buffer.clear();
        self.parts.clear();
        Ok(())
    }
}

/// True if a journal may be that of an image whose records are numbered from `first` on: it is empty, or begins with one of those.
pub(super) fn belongs(file: &dyn Storage, first: u64) -> io::Result<bool> {
    let length = file.length()?;
    let mut number = [0; 8];
    if length < number.len() as u64 {
        return Ok(length == 0);
    }
    file.read(0, &mut number)?;
    Ok((first..first + NUMBERS).contains(&u64::from_le_bytes(number)))
}

/// Takes a change in. What is to be as the image has it is no change.
fn apply(parts: &mut RangeMap<Source>, range: Range<u64>, source: Source) {
    match source {
        Source::Image(at) if at == range.start => parts.uncover(range),
        source => parts.cover(range, source),
    }
}

/// A record with a good checksum that the journal of this image can't have.
fn foreign() -> io::Error {
    let what = "its journal (.journal) is of another image, or forged: restore both from a copy, or remove the journal and lose the \
                last writes";
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Number, offset, length with its mark, and the checksum of these and the data.
fn encode_head(number: u64, offset: u64, mark: u32, bytes: &[u8]) -> [u8; HEAD_BYTES] {
    encode_summed(number, offset, bytes.len() as u32 | mark, checksum(bytes))
}

fn encode_summed(number: u64, offset: u64, length: u32, data_sum: u32) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&number.to_le_bytes());
    head[8..16].copy_from_slice(&offset.to_le_bytes());
    head[16..20].copy_from_slice(&length.to_le_bytes());
    let sum = checksum(&head[..20]) ^ data_sum.rotate_left(1);
    head[20..].copy_from_slice(&sum.to_le_bytes());
    head
}

/// A change in the journal.
struct Record {
    number: u64,
    offset: u64,
    mark: u32,
    /// Bytes of its data.
    bytes: u64,
    /// The first words of its data, where it has this many.
    words: [u64; MOVE_WORDS],
}

impl Record {
    /// The record at `at`, if a whole one is there. Its data may be long, and are not kept.
    fn read(file: &dyn Storage, at: u64, length: u64) -> io::Result<Option<Record>> {
        if at + HEAD_BYTES as u64 > length {
            return Ok(None);
        }
        let mut head = [0; HEAD_BYTES];
        file.read(at, &mut head)?;
        let word = |from: usize| u64::from_le_bytes(head[from..from + 8].try_into().unwrap_or_default());
        let (number, offset, marked) = (word(0), word(8), word(16) as u32);
        let (mark, bytes, place) = (marked & MOVES, u64::from(marked & !MOVES), at + HEAD_BYTES as u64);
        if bytes > length - place {
            return Ok(None);
        }
        let (mut sum, mut words) = (0, [0; MOVE_WORDS]);
        let mut buffer = vec![0; bytes.min(BUFFER_BYTES as u64) as usize];
        for from in (place..place + bytes).step_by(BUFFER_BYTES) {
            let data = &mut buffer[..(place + bytes - from).min(BUFFER_BYTES as u64) as usize];
            file.read(from, data)?;
            sum = checksum_of_more(sum, data);
            if from == place {
                words.iter_mut().zip(data.as_chunks().0).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
            }
        }
        let is_whole = number > 0 && encode_summed(number, offset, marked, sum) == head;
        Ok(is_whole.then_some(Record { number, offset, mark, bytes, words }))
    }

    /// The range of the image that this record at `at` changes, and the source of its new content; `None` if the record is no
    /// change within the image's bytes `own`.
    fn change(&self, at: u64, own: &Range<u64>) -> Option<(Range<u64>, Source)> {
        let bytes_of = |start: u64, length: u64| Some(start..start.checked_add(length)?);
        let within = |outer: &Range<u64>, inner: &Range<u64>| outer.start <= inner.start && inner.end <= outer.end;
        let (length, source, is_there) = match self.words {
            _ if self.mark != MOVES => (self.bytes, Source::Journal(at + HEAD_BYTES as u64), true),
            _ if self.bytes != MOVE_BYTES => return None,
            [length, FROM_IMAGE, from] => (length, Source::Image(from), within(own, &bytes_of(from, length)?)),
            [length, FROM_JOURNAL, from] => (length, Source::Journal(from), bytes_of(from, length)?.end <= at),
            [length, DESTROYED, 0] => (length, Source::Destroyed, true),
            [length, HOLE, 0] => (length, Source::Hole, true),
            _ => return None,
        };
        let range = bytes_of(self.offset, length)?;
        (is_there && within(own, &range) && self.number < NUMBER_MAX).then_some((range, source))
    }
}

#[cfg(test)]
mod tests;
