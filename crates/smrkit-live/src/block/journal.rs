//! The journal next to an image: writes in the order in which the layer made them, each with a checksum.
//!
//! A layer orders its writes and never flushes between those that depend on each other; a crash of the host would carry them out in
//! any order. So they go here first. After a crash the longest valid beginning of the journal is what was written: what a drive
//! has written whose power was cut. A flush is one sync of this file. What has gathered moves to the image before the journal
//! starts over.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use smrfs::map::checksum;

/// Bytes of a record before its data.
const HEAD_BYTES: usize = 24;
/// Records gather in memory up to this many bytes; longer ones are written at once (assumption).
const BUFFER_BYTES: usize = 256 << 10;
/// Bytes that the journal holds at most before it moves to the image (assumption).
const FULL_BYTES: u64 = 64 << 20;
/// The longest record that is believed.
const RECORD_BYTES_MAX: u64 = 1 << 30;

/// A part of the image whose bytes are in the journal.
#[derive(Clone, Copy)]
struct JournalPiece {
    end: u64,
    /// Their place in the journal.
    at: u64,
}

/// The journal of an open image.
pub(super) struct Journal {
    file: File,
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
    /// Opens the journal in `file` and gives `apply` each write that is whole and preceded by whole ones.
    pub(super) fn open(file: File, mut apply: impl FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<Journal> {
        let length = file.metadata()?.len();
        let (mut at, mut expected) = (0, None);
        while let Some((number, offset, data)) = read_record(&file, at, length)? {
            if expected.is_some_and(|expected| expected != number) {
                break;
            }
            apply(offset, &data)?;
            expected = Some(number + 1);
            at += (HEAD_BYTES + data.len()) as u64;
        }
        let number = expected.unwrap_or(1);
        Ok(Journal { file, written: 0, buffer: Vec::new(), pieces: BTreeMap::new(), number, is_synced: true })
    }

    /// Adds a write of `bytes` at `offset` of the image.
    pub(super) fn add(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let head = encode_head(self.number, offset, bytes);
        let at = self.end() + HEAD_BYTES as u64;
        if self.buffer.len() + HEAD_BYTES + bytes.len() > BUFFER_BYTES {
            self.write_out()?;
        }
        self.buffer.extend_from_slice(&head);
        if bytes.len() > BUFFER_BYTES / 2 {
            self.write_out()?;
            self.file.write_all_at(bytes, self.written)?;
            self.written += bytes.len() as u64;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        self.number += 1;
        self.is_synced = false;
        self.cover(offset, JournalPiece { end: offset + bytes.len() as u64, at });
        Ok(())
    }

    fn end(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// True if it is time to move what it holds to the image.
    pub(super) fn is_full(&self) -> bool {
        self.end() >= FULL_BYTES
    }

    fn write_out(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes all that was added durable.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if !self.is_synced {
            self.write_out()?;
            self.file.sync_data()?;
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
            self.pieces.insert(end, JournalPiece { end: old.end, at: old.at + (end - first) });
        }
    }

    /// The parts of `range` that the journal holds, in order: where in the image, and where in the journal.
    fn held(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        let before = self.pieces.range(..range.start).next_back().filter(|(_, piece)| piece.end > range.start);
        let from = range.clone();
        before.into_iter().chain(self.pieces.range(from)).map(move |(&first, piece)| {
            let start = first.max(range.start);
            (start..piece.end.min(range.end), piece.at + (start - first))
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
        if at >= self.written {
            let from = (at - self.written) as usize;
            bytes.copy_from_slice(&self.buffer[from..from + bytes.len()]);
            return Ok(());
        }
        self.file.read_exact_at(bytes, at)
    }

    /// Gives `apply` all that it holds, in the order of the image, once that is durable here; [`Journal::restart`] follows when it is
    /// durable there.
    pub(super) fn move_out(&mut self, mut apply: impl FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
        self.sync()?;
        let mut bytes = Vec::new();
        for (&first, piece) in &self.pieces {
            bytes.resize((piece.end - first) as usize, 0);
            self.read(piece.at, &mut bytes)?;
            apply(first, &bytes)?;
        }
        Ok(())
    }

    /// Begins anew: the image holds everything.
    pub(super) fn restart(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        (self.written, self.is_synced) = (0, true);
        self.buffer.clear();
        self.pieces.clear();
        Ok(())
    }
}

/// Number, offset, length, and the checksum of these and the data.
fn encode_head(number: u64, offset: u64, bytes: &[u8]) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&number.to_le_bytes());
    head[8..16].copy_from_slice(&offset.to_le_bytes());
    head[16..20].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    let sum = checksum(&head[..20]) ^ checksum(bytes).rotate_left(1);
    head[20..].copy_from_slice(&sum.to_le_bytes());
    head
}

/// The record at `at`, if a whole one is there.
fn read_record(file: &File, at: u64, length: u64) -> io::Result<Option<(u64, u64, Vec<u8>)>> {
    if at + HEAD_BYTES as u64 > length {
        return Ok(None);
    }
    let mut head = [0; HEAD_BYTES];
    file.read_exact_at(&mut head, at)?;
    let word = |from: usize| u64::from_le_bytes(head[from..from + 8].try_into().unwrap_or_default());
    let (number, offset, bytes) = (word(0), word(8), word(16) & 0xFFFF_FFFF);
    if bytes > RECORD_BYTES_MAX.min(length - at - HEAD_BYTES as u64) {
        return Ok(None);
    }
    let mut data = vec![0; bytes as usize];
    file.read_exact_at(&mut data, at + HEAD_BYTES as u64)?;
    Ok((number > 0 && encode_head(number, offset, &data) == head).then_some((number, offset, data)))
}

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use rand::SeedableRng;

    use super::*;

    const IMAGE: usize = 4096;

    fn opened(file: &File) -> (Journal, Vec<u8>) {
        let mut image = vec![0; IMAGE];
        let apply = |at: u64, bytes: &[u8]| {
            image[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
            Ok(())
        };
        let journal = Journal::open(file.try_clone().unwrap(), apply).unwrap();
        (journal, image)
    }

    #[test]
    fn what_was_written_last_is_read_wherever_writes_overlap() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(1);
        let (mut journal, mut expected) = opened(&tempfile::tempfile().unwrap());
        for fill in 0..2000u32 {
            let start = random.random_range(0..IMAGE - 1);
            let end = random.random_range(start + 1..=IMAGE.min(start + 500));
            // No byte is like the ones next to it, so that a piece read at a wrong place shows.
            let bytes: Vec<u8> = (start..end).map(|at| (fill as usize * 7 + at) as u8).collect();
            journal.add(start as u64, &bytes).unwrap();
            expected[start..end].copy_from_slice(&bytes);
            let mut found = vec![0; IMAGE];
            journal.overlay(0, &mut found).unwrap();
            assert!(found == expected, "after write {fill}");
        }
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
