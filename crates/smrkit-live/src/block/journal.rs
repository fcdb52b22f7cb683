//! The journal next to an image: writes in the order in which the layer made them, each with a checksum.
//!
//! A layer orders its writes and never flushes between those that depend on each other; a crash of the host would carry them out in
//! any order. So they go here first. After a crash the longest valid beginning of the journal is what was written: what a drive
//! has written whose power was cut. A flush is one sync of this file. What has gathered moves to the image before the journal
//! starts over.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use smrfs::map::checksum;

use super::storage::Storage;

/// Bytes of a record before its data.
const HEAD_BYTES: usize = 24;
/// Records gather in memory up to this many bytes; longer ones are written at once (assumption).
const BUFFER_BYTES: usize = 256 << 10;
/// Bytes that the journal holds at most before it moves to the image (assumption).
pub(super) const FULL_BYTES: u64 = 64 << 20;
/// The longest record that is believed.
const RECORD_BYTES_MAX: u64 = 1 << 30;

/// Mark in the length of a record that frees a range, whose length in bytes is its data.
const PUNCH: u32 = 1 << 31;
/// A place in the journal that is none: zeros.
const HOLE: u64 = u64::MAX;

/// A change of the image.
pub(super) enum Change<'a> {
    /// Bytes, from this one of the image on.
    Write(u64, &'a [u8]),
    /// A range is zeros, and takes up no room.
    Punch(Range<u64>),
}

/// A part of the image whose bytes are in the journal.
#[derive(Clone, Copy)]
struct JournalPiece {
    end: u64,
    /// Their place in the journal, or [`HOLE`].
    at: u64,
}

impl JournalPiece {
    /// The place of the byte that is `bytes` behind its first.
    fn place(&self, bytes: u64) -> u64 {
        if self.at == HOLE { HOLE } else { self.at + bytes }
    }
}

/// The journal of an open image.
pub(super) struct Journal {
    file: Arc<dyn Storage>,
    full_bytes: u64,
    /// Bytes in the file, followed by those that have not been written to it yet.
    written: u64,
    buffer: Vec<u8>,
    /// By the first byte in the image; no two overlap.
    pieces: BTreeMap<u64, JournalPiece>,
    /// The number of the next record.
    number: u64,
    is_synced: bool,
}

impl Journal {
    /// Opens the journal in `file`, which is full with so many bytes, and gives `apply` each change that is whole and preceded by whole
    /// ones.
    pub(super) fn open(
        file: Arc<dyn Storage>,
        full_bytes: u64,
        mut apply: impl FnMut(Change) -> io::Result<()>,
    ) -> io::Result<Journal> {
        let length = file.length()?;
        let (mut at, mut expected) = (0, None);
        while let Some(record) = Record::read(file.as_ref(), at, length)? {
            if expected.is_some_and(|expected| expected != record.number) {
                break;
            }
            apply(record.change())?;
            expected = Some(record.number + 1);
            at += (HEAD_BYTES + record.data.len()) as u64;
        }
        let number = expected.unwrap_or(1);
        let (buffer, pieces) = (Vec::new(), BTreeMap::new());
        Ok(Journal { file, full_bytes, written: 0, buffer, pieces, number, is_synced: true })
    }

    /// Adds a write of `bytes` at `offset` of the image.
    pub(super) fn add(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        // A piece without bytes would take the place of the one that begins there.
        assert!(!bytes.is_empty(), "a write of nothing");
        let at = self.end() + HEAD_BYTES as u64;
        self.add_record(offset, 0, bytes)?;
        self.cover(offset, JournalPiece { end: offset + bytes.len() as u64, at });
        Ok(())
    }

    /// Adds that `range` of the image is freed.
    pub(super) fn punch(&mut self, range: Range<u64>) -> io::Result<()> {
        self.add_record(range.start, PUNCH, &(range.end - range.start).to_le_bytes())?;
        self.cover(range.start, JournalPiece { end: range.end, at: HOLE });
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

    /// True if it is time to move what it holds to the image.
    pub(super) fn is_full(&self) -> bool {
        self.end() >= self.full_bytes
    }

    fn write_out(&mut self) -> io::Result<()> {
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

    /// Lets go of what overlaps a new piece, and takes that in.
    fn cover(&mut self, start: u64, piece: JournalPiece) {
        let before = self.pieces.range(..start).next_back().map(|(&first, &old)| (first, old));
        if let Some((first, old)) = before.filter(|(_, old)| old.end > start) {
            self.pieces.insert(first, JournalPiece { end: start, ..old });
            self.keep_tail(first, old, piece.end);
        }
        while let Some((&first, &old)) = self.pieces.range(start..piece.end).next() {
            self.pieces.remove(&first);
            self.keep_tail(first, old, piece.end);
        }
        self.pieces.insert(start, piece);
    }

    /// The part of an old piece from `end` on stays.
    fn keep_tail(&mut self, first: u64, old: JournalPiece, end: u64) {
        if old.end > end {
            self.pieces.insert(end, JournalPiece { end: old.end, at: old.place(end - first) });
        }
    }

    /// The parts of `range` that the journal holds, in order: where in the image, and where in the journal.
    fn held(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        let before = self.pieces.range(..range.start).next_back().filter(|(_, piece)| piece.end > range.start);
        let from = range.clone();
        before.into_iter().chain(self.pieces.range(from)).map(move |(&first, piece)| {
            let start = first.max(range.start);
            (start..piece.end.min(range.end), piece.place(start - first))
        })
    }

    /// Puts what it holds of the image from `offset` on over `bytes`, which were read from there.
    pub(super) fn overlay(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        if self.pieces.is_empty() {
            return Ok(());
        }
        for (range, at) in self.held(offset..offset + bytes.len() as u64) {
            self.read(at, &mut bytes[(range.start - offset) as usize..(range.end - offset) as usize])?;
        }
        Ok(())
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        if at == HOLE {
            bytes.fill(0);
            return Ok(());
        }
        if at >= self.written {
            let from = (at - self.written) as usize;
            bytes.copy_from_slice(&self.buffer[from..from + bytes.len()]);
            return Ok(());
        }
        self.file.read(at, bytes)
    }

    /// Gives `apply` all that it holds, in the order of the image, once that is durable here; [`Journal::restart`] follows when it is
    /// durable there.
    pub(super) fn move_out(&mut self, mut apply: impl FnMut(Change) -> io::Result<()>) -> io::Result<()> {
        self.sync()?;
        let mut bytes = Vec::new();
        for (&first, piece) in &self.pieces {
            if piece.at == HOLE {
                apply(Change::Punch(first..piece.end))?;
                continue;
            }
            bytes.resize((piece.end - first) as usize, 0);
            self.read(piece.at, &mut bytes)?;
            apply(Change::Write(first, &bytes))?;
        }
        Ok(())
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
        self.pieces.clear();
        Ok(())
    }
}

/// Number, offset, length with its mark, and the checksum of these and the data.
fn encode_head(number: u64, offset: u64, mark: u32, bytes: &[u8]) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&number.to_le_bytes());
    head[8..16].copy_from_slice(&offset.to_le_bytes());
    head[16..20].copy_from_slice(&(bytes.len() as u32 | mark).to_le_bytes());
    let sum = checksum(&head[..20]) ^ checksum(bytes).rotate_left(1);
    head[20..].copy_from_slice(&sum.to_le_bytes());
    head
}

/// A change in the journal.
struct Record {
    number: u64,
    offset: u64,
    mark: u32,
    data: Vec<u8>,
}

impl Record {
    /// The record at `at`, if a whole one is there.
    fn read(file: &dyn Storage, at: u64, length: u64) -> io::Result<Option<Record>> {
        if at + HEAD_BYTES as u64 > length {
            return Ok(None);
        }
        let mut head = [0; HEAD_BYTES];
        file.read(at, &mut head)?;
        let word = |from: usize| u64::from_le_bytes(head[from..from + 8].try_into().unwrap_or_default());
        let (number, offset, mark) = (word(0), word(8), word(16) as u32 & PUNCH);
        let bytes = u64::from(word(16) as u32 & !PUNCH);
        if bytes > RECORD_BYTES_MAX.min(length - at - HEAD_BYTES as u64) {
            return Ok(None);
        }
        let mut data = vec![0; bytes as usize];
        file.read(at + HEAD_BYTES as u64, &mut data)?;
        let is_whole = number > 0 && encode_head(number, offset, mark, &data) == head;
        Ok(is_whole.then_some(Record { number, offset, mark, data }))
    }

    fn change(&self) -> Change<'_> {
        match (self.mark, self.data.first_chunk()) {
            (PUNCH, Some(&bytes)) => Change::Punch(self.offset..self.offset + u64::from_le_bytes(bytes)),
            _ => Change::Write(self.offset, &self.data),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use rand::RngExt;
    use rand::SeedableRng;

    use super::*;

    const IMAGE: usize = 4096;

    fn carry_out(image: &mut [u8], change: Change) -> io::Result<()> {
        match change {
            Change::Write(at, bytes) => image[at as usize..at as usize + bytes.len()].copy_from_slice(bytes),
            Change::Punch(range) => image[range.start as usize..range.end as usize].fill(0),
        }
        Ok(())
    }

    fn opened(file: &File) -> (Journal, Vec<u8>) {
        let mut image = vec![0; IMAGE];
        let file = Arc::new(file.try_clone().unwrap());
        let journal = Journal::open(file, FULL_BYTES, |change| carry_out(&mut image, change)).unwrap();
        (journal, image)
    }

    #[test]
    fn what_was_written_last_is_read_wherever_writes_overlap() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(1);
        let file = tempfile::tempfile().unwrap();
        let (mut journal, mut expected) = opened(&file);
        for fill in 0..2000u32 {
            let start = random.random_range(0..IMAGE - 1);
            let end = random.random_range(start + 1..=IMAGE.min(start + 500));
            // No byte is like the ones next to it, so that a piece read at a wrong place shows.
            let bytes: Vec<u8> = (start..end).map(|at| (fill as usize * 7 + at) as u8).collect();
            if fill % 5 == 0 {
                journal.punch(start as u64..end as u64).unwrap();
                expected[start..end].fill(0);
            } else {
                journal.add(start as u64, &bytes).unwrap();
                expected[start..end].copy_from_slice(&bytes);
            }
            let mut found = vec![0; IMAGE];
            journal.overlay(0, &mut found).unwrap();
            assert!(found == expected, "after write {fill}");
        }
        journal.sync().unwrap();
        let mut moved = vec![0; IMAGE];
        journal.move_out(|change| carry_out(&mut moved, change)).unwrap();
        assert!(moved == expected && opened(&file).1 == expected);
    }

    #[test]
    fn a_crash_leaves_a_beginning_of_what_was_written() {
        let file = tempfile::tempfile().unwrap();
        let (mut journal, _) = opened(&file);
        for fill in 1..=9u8 {
            journal.add(u64::from(fill), &[fill; 100]).unwrap();
        }
        journal.sync().unwrap();
        let whole = file.metadata().unwrap().len();
        let record = whole / 9;
        for cut in [whole, whole - 1, whole - record, whole - record - 1, record - 1, 0] {
            file.set_len(cut).unwrap();
            let (_, image) = opened(&file);
            let last = image.iter().max().copied().unwrap_or_default();
            assert_eq!(u64::from(last), cut / record, "cut at byte {cut}");
        }
    }

    #[test]
    fn a_damaged_record_ends_what_is_believed() {
        let file = tempfile::tempfile().unwrap();
        let (mut journal, _) = opened(&file);
        (1..=5u8).for_each(|fill| journal.add(u64::from(fill), &[fill; 100]).unwrap());
        journal.sync().unwrap();
        let record = file.metadata().unwrap().len() / 5;
        file.write_all_at(&[77], 3 * record + HEAD_BYTES as u64 + 50).unwrap();
        assert_eq!(opened(&file).1.iter().max(), Some(&3));
    }

    #[test]
    fn records_of_an_earlier_round_are_not_taken_for_later_ones() {
        let file = tempfile::tempfile().unwrap();
        let (mut journal, _) = opened(&file);
        (1..=5u8).for_each(|fill| journal.add(u64::from(fill), &[fill; 100]).unwrap());
        journal.sync().unwrap();
        let mut old = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut old, 0).unwrap();
        journal.restart().unwrap();
        journal.add(0, &[9; 100]).unwrap();
        journal.sync().unwrap();
        // The host lost the new length of the file, and with it the end of the earlier round came back.
        let record = old.len() / 5;
        file.write_all_at(&old[record..], record as u64).unwrap();
        let (_, image) = opened(&file);
        assert_eq!((image[0], image.iter().filter(|byte| **byte != 9).max()), (9, Some(&0)));
    }
}
