//! The headers on the platters, each a record of one sector: of an entry, a page, a slot, or a note that something is void.

use crate::layer::COUNT_MAX;
use crate::medium::{Label, record_sectors};

/// Subject of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum HeaderKind {
    /// The beginning of a page of a cache buffer.
    Page = 0x7361,
    /// Host data in a cache buffer.
    Entry,
    /// An S-block.
    Slot,
    /// A request that a power cut left incomplete.
    Void,
}

const WORDS: usize = 11;
const _: () = assert!(record_sectors(WORDS) == 1);

/// A header.
#[derive(Clone, Copy, Debug)]
pub struct CacheHeader {
    pub kind: HeaderKind,
    /// Recoveries before it was written. What an earlier epoch left behind a later one is stale.
    pub epoch: u64,
    /// Position in its buffer, counted from the first sector (or slot) ever appended.
    pub position: u64,
    /// The buffer's tail when it was written.
    pub tail: u64,
    /// The last number of the requests completed before.
    pub done: u64,
    /// The number of this write: the host's writes and S-blocks are numbered through. A copy keeps its number.
    pub number: u64,
    /// Of an entry the first LBA, of a slot the S-block (in its section), of a page the offset of its first header, of a
    /// note the first position that is void.
    pub what: u64,
    /// Of an entry its sectors, of a slot the first position that is void before it.
    pub extent: u64,
    /// Part of a request, from 0, and the number of its parts.
    pub part: (u64, u64),
    /// Of an entry's data.
    pub digest: u64,
}

impl CacheHeader {
    /// A header that its buffer will complete with place and epoch.
    pub fn new(kind: HeaderKind, number: u64, what: u64, extent: u64) -> CacheHeader {
        CacheHeader { kind, epoch: 0, position: 0, tail: 0, done: 0, number, what, extent, part: (0, 1), digest: 0 }
    }

    /// The words of its record.
    pub fn words(&self) -> [u64; WORDS] {
        let (part, parts) = self.part;
        let place = [self.kind as u64, self.epoch, self.position, self.tail, self.done];
        let [kind, epoch, position, tail, done] = place;
        [kind, epoch, position, tail, done, self.number, self.what, self.extent, part, parts, self.digest]
    }

    /// The header in a record, if it is one of ours.
    pub fn parse(words: &[u64]) -> Option<CacheHeader> {
        let &[kind, epoch, position, tail, done, number, what, extent, part, parts, digest] = words else {
            return None;
        };
        let kind = [HeaderKind::Page, HeaderKind::Entry, HeaderKind::Slot, HeaderKind::Void]
            .into_iter()
            .find(|&k| k as u64 == kind)?;
        let counts = [epoch, position, tail, done, number, parts];
        let is_possible = counts.iter().all(|&count| count < COUNT_MAX) && part < parts && part <= number;
        is_possible.then_some(CacheHeader {
            kind,
            epoch,
            position,
            tail,
            done,
            number,
            what,
            extent,
            part: (part, parts),
            digest,
        })
    }

    /// The label of an S-block's last sector: it is there only if the whole S-block is.
    pub fn label(&self) -> Label {
        [self.kind as u64, self.epoch, self.position]
    }

    /// The numbers of its request, first and last.
    pub fn request(&self) -> (u64, u64) {
        let first = self.number - self.part.0;
        (first, first + self.part.1 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_back_and_what_can_be_none_is_not() {
        for kind in [HeaderKind::Page, HeaderKind::Entry, HeaderKind::Slot, HeaderKind::Void] {
            let header = CacheHeader {
                epoch: 1,
                position: 2,
                tail: 3,
                done: 4,
                part: (5, 7),
                digest: 8,
                ..CacheHeader::new(kind, 20, 9, 10)
            };
            let words = header.words();
            assert_eq!(words, [kind as u64, 1, 2, 3, 4, 20, 9, 10, 5, 7, 8]);
            let with = |at: usize, word: u64| {
                let mut words = words;
                words[at] = word;
                CacheHeader::parse(&words).map(|header| header.words())
            };
            assert_eq!(with(0, kind as u64), Some(words));
            assert_eq!(with(0, 9), None);
            for count in [1, 2, 3, 4, 5, 9] {
                assert!(with(count, COUNT_MAX - 1).is_some() && with(count, COUNT_MAX).is_none(), "word {count}");
            }
            // A part is one of those that there are, and has a number of its own.
            assert!(with(8, 6).is_some() && with(8, 7).is_none());
            assert!(with(5, 5).is_some() && with(5, 4).is_none());
            assert!(CacheHeader::parse(&words[..10]).is_none());
            assert_eq!((header.request(), header.label()), ((15, 21), [kind as u64, 1, 2]));
        }
    }
}
