//! Notes of a layer on the platters about its own map, so that it can be rebuilt after a power cut.
//!
//! A record is a list of words in whole sectors, with its length and a digest in front, so that a torn or overwritten
//! one is not taken for whole. On a disk of bytes it is bytes. On a disk of stamps its sectors carry stamps of no LBA, and
//! the words are kept along with them. Where nothing is held, a record only takes its time.

use crate::units::SECTOR_BYTES;

use super::digest::digest;
use super::{Buf, Label};

const MAGIC: u64 = 0x5352_4b49_5452_4543;
/// Words in front of a record: magic, length, digest.
const HEAD_WORDS: usize = 3;
const WORD_BYTES: usize = 8;
const SECTOR_WORDS: usize = SECTOR_BYTES as usize / WORD_BYTES;

/// A part of one write: data, or a record.
#[derive(Clone, Copy, Debug)]
pub enum WritePart<'a> {
    /// `sectors` sectors of `buf`, from its sector `at` on.
    Data {
        /// Buffer that holds them.
        buf: &'a Buf,
        /// The first of them.
        at: u64,
        /// Number of sectors.
        sectors: u64,
    },
    /// Data with a label for each sector. The labels may be left out on a disk that holds nothing.
    Labelled {
        /// Buffer that holds the sectors.
        buf: &'a Buf,
        /// The first of them.
        at: u64,
        /// Number of sectors.
        sectors: u64,
        /// The labels that they carry along with their data.
        labels: &'a [Label],
    },
    /// A record in `sectors` sectors; see [`record_sectors`]. The words may be left out on a disk that holds nothing.
    Record {
        /// The words.
        words: &'a [u64],
        /// The room it takes.
        sectors: u64,
    },
}

impl WritePart<'_> {
    /// Its length.
    #[inline]
    pub fn sectors(&self) -> u64 {
        match self {
            WritePart::Data { sectors, .. }
            | WritePart::Labelled { sectors, .. }
            | WritePart::Record { sectors, .. } => *sectors,
        }
    }
}

/// The sectors that a record of `words` words takes.
pub const fn record_sectors(words: usize) -> u64 {
    (words + HEAD_WORDS).div_ceil(SECTOR_WORDS) as u64
}

/// A record as bytes; `out` is its whole room.
pub(super) fn encode(words: &[u64], out: &mut [u8]) {
    let head = [MAGIC, words.len() as u64, digest(words)];
    let room = out.len() / WORD_BYTES;
    assert!(words.len() + HEAD_WORDS <= room, "a record of {} words in {room}", words.len());
    out.fill(0);
    for (bytes, word) in out.chunks_exact_mut(WORD_BYTES).zip(head.iter().chain(words)) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// The words of a record, if a whole one begins here.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<u64>> {
    let mut all = bytes.chunks_exact(WORD_BYTES).map(|b| u64::from_le_bytes(b.try_into().unwrap_or_default()));
    let head = [all.next()?, all.next()?, all.next()?];
    if head[0] != MAGIC || head[1] > all.len() as u64 {
        return None;
    }
    let words: Vec<u64> = all.take(head[1] as usize).collect();
    (digest(&words) == head[2]).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back_and_a_changed_one_does_not() {
        let words: Vec<u64> = (5..80).collect();
        let mut bytes = vec![1; (record_sectors(words.len()) * SECTOR_BYTES) as usize];
        encode(&words, &mut bytes);
        assert_eq!(decode(&bytes), Some(words));
        bytes[600] ^= 1;
        assert_eq!(decode(&bytes), None);
    }

    #[test]
    fn a_sector_holds_61_words() {
        assert_eq!([record_sectors(61), record_sectors(62)], [1, 2]);
    }
}
