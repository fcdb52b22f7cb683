//! Reading: buffered data first, then mapped data from the disk, and zeros elsewhere.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use super::disk::{Scrubbed, is_damage};
use super::file::{File, FileState};
use super::{FileSystem, Seek};
use crate::data::ReadBuffer;
use crate::error::{Errno, FsResult};
use crate::map::FilePiece;
use crate::units::{NodeId, Owner, Span};

/// A block of a file in fewer pieces than this needs no hints, because the host reads ahead itself. (Assumption.)
const PIECES: usize = 4;

/// The most blocks of one hint. The more blocks, the more of their pieces are close together. (Assumption.)
const BLOCKS_MAX: u64 = 16;

/// Pieces with at most this many granules between them are read together. (Assumption.)
const SKIPPED: u64 = 32;

/// The state of read-ahead for a file that is read in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReadAhead {
    /// The end of the blocks that were read or hinted.
    end: u64,
    /// Number of blocks in the last hint.
    last: u64,
}

impl ReadAhead {
    fn load(file: &File) -> ReadAhead {
        let both = file.ahead.load(Relaxed);
        ReadAhead { end: both / (2 * BLOCKS_MAX), last: both % (2 * BLOCKS_MAX) }
    }

    fn store(self, file: &File) {
        file.ahead.store(self.end * 2 * BLOCKS_MAX + self.last, Relaxed);
    }

    /// The blocks to hint at when `block` is read, and the new state. Once the reader has come to the last hinted blocks, hints twice as
    /// many as the last time.
    fn next(self, block: u64) -> (Range<u64>, ReadAhead) {
        let ReadAhead { end, last } = self;
        let reached = end.saturating_sub(last);
        // Two threads may read neighbouring blocks in either order, but a read of the first block starts anew.
        let late = end.saturating_sub(2 * last + 1).max(u64::from(end > 4));
        if (late..reached).contains(&block) {
            return (end..end, self);
        }
        if (reached..end).contains(&block) {
            let count = (2 * last).min(BLOCKS_MAX);
            return (end..end + count, ReadAhead { end: end + count, last: count });
        }
        // The next block then counts as read in order.
        let end = if block == 0 { 2 } else { block + 1 };
        (if block == 0 { 0..end } else { end..end }, ReadAhead { end, last: 1 })
    }
}

impl FileSystem {
    /// Reads from byte `offset` on, as much as the file has and `room` takes; returns how many bytes. The rest of `room` is not changed.
    pub fn read(&self, id: NodeId, offset: u64, mut room: ReadBuffer<'_>) -> FsResult<u64> {
        let file = self.file(id)?;
        // The lock keeps the extents from being released while they are read.
        let state = file.look();
        if state.is_gone {
            return Err(Errno::ENOENT.into());
        }
        let bytes = room.bytes().min(state.size.saturating_sub(offset));
        if bytes > 0 {
            self.read_ahead(&file, &state, offset / self.data.granule_bytes);
            self.read_range(&state, offset..offset + bytes, room.part(0, bytes))?;
            self.data.counters.lock().host_read_bytes += bytes;
        }
        Ok(bytes)
    }

    /// Hints at the next blocks for a reader in order, if they are fragmented. Pieces close together on the disk, which were written
    /// together, are one hint.
    fn read_ahead(&self, file: &File, state: &FileState, granule: u64) {
        let block = self.data.block_granules;
        let before = ReadAhead::load(file);
        let (blocks, told) = before.next(granule / block);
        if told != before {
            told.store(file);
        }
        let end = blocks.end.min(state.size.div_ceil(self.data.granule_bytes * block));
        if end <= blocks.start {
            return;
        }
        let pieces = state.placed(blocks.start * block..end * block);
        if pieces.len() < PIECES * (end - blocks.start) as usize {
            return;
        }
        let mut spans: Vec<Span> = pieces.iter().filter_map(FilePiece::span).collect();
        spans.sort_unstable_by_key(|span| span.at);
        let band = |span: &Span| self.data.disk.shape().bands.band_at(span.at);
        let mut expected = spans[0];
        for span in &spans[1..] {
            // Pieces of different bands are not joined, because the gap between them was never written.
            if span.at <= expected.end() + SKIPPED && band(&expected) == band(span) {
                expected.count = span.end().max(expected.end()) - expected.at;
            } else {
                self.data.disk.expect(expected);
                expected = *span;
            }
        }
        self.data.disk.expect(expected);
    }

    /// Reads bytes of a file: buffered granules one by one, mapped ones up to the next buffered one, and holes as zeros.
    fn read_range(&self, state: &FileState, range: Range<u64>, mut room: ReadBuffer<'_>) -> FsResult {
        let granule = self.data.granule_bytes;
        for piece in state.map.lookup(range.start / granule..range.end.div_ceil(granule)) {
            let mut at = piece.first;
            while at < piece.end() {
                let buffered = state.buffer.has(at);
                let end = match buffered {
                    true => at + 1,
                    false => state.buffer.next(at).map_or(piece.end(), |next| next.min(piece.end())),
                };
                let from = range.start.max(at * granule);
                let to = range.end.min(end * granule);
                let mut room = room.part(from - range.start, to - from);
                match piece.at {
                    _ if buffered => state.buffer.read(at, from - at * granule, room),
                    Some(start) => {
                        let place = start + (at - piece.first);
                        self.data.disk.read(place, from - at * granule, room, &state.map.sums(at..end))?;
                    }
                    None => room.clear(),
                }
                at = end;
            }
        }
        Ok(())
    }

    /// First byte of the next data or hole from byte `offset` on; ENXIO past the end.
    pub fn seek(&self, id: NodeId, offset: u64, what: Seek) -> FsResult<u64> {
        let file = self.file(id)?;
        let state = file.look();
        if offset >= state.size {
            return Err(Errno::ENXIO.into());
        }
        let from = offset / self.data.granule_bytes;
        let found = match what {
            Seek::Data => [state.map.next_data(from), state.buffer.next(from)].into_iter().flatten().min(),
            Seek::Hole => Some(next_hole(&state, from)),
        };
        let byte = found.map(|granule| offset.max(granule * self.data.granule_bytes));
        match what {
            Seek::Data => byte.filter(|&byte| byte < state.size).ok_or(Errno::ENXIO.into()),
            Seek::Hole => Ok(byte.map_or(state.size, |byte| byte.min(state.size))),
        }
    }

    /// Reads the granules of `span` that still belong to its owner, and verifies them. The owner is locked meanwhile, so spans should be
    /// small.
    pub fn scrub(&self, span: Span, owner: Owner) -> FsResult<Scrubbed> {
        let file = match self.file(owner.file) {
            Err(error) if error.errno() == Errno::ENOENT => return Ok(Scrubbed::default()),
            Err(error) if is_damage(&error) => {
                return Ok(Scrubbed { read_bytes: 0, damaged_bytes: span.count * self.data.granule_bytes });
            }
            file => file?,
        };
        // The lock keeps the extents from being released while they are read.
        let state = file.look();
        let mut scrubbed = Scrubbed::default();
        let places = state.placed(owner.granule..owner.granule + span.count);
        for piece in places {
            if let Some(place) = piece.span().filter(|place| span.contains(*place)) {
                self.data.disk.scrub(place, &state.map.sums(piece.first..piece.end()), &mut scrubbed)?;
            }
        }
        Ok(scrubbed)
    }
}

fn next_hole(state: &FileState, from: u64) -> u64 {
    let mut hole = from;
    loop {
        let further = state.buffer.next_gap(state.map.next_hole(hole));
        if further == hole {
            return hole;
        }
        hole = further;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The blocks that are told of while these are read.
    fn told(blocks: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
        let mut told = ReadAhead { end: 0, last: 0 };
        let next = |block| {
            let (blocks, after) = told.next(block);
            told = after;
            (!blocks.is_empty()).then_some(blocks)
        };
        blocks.filter_map(next).collect()
    }

    #[test]
    fn a_reader_in_order_is_told_of_twice_as_much_each_time() {
        let in_order = told((0..60).flat_map(|block| [block; 8]));
        assert_eq!(in_order, [0..2, 2..4, 4..8, 8..16, 16..32, 32..48, 48..64, 64..80]);
        // From the midst on, and by two threads that overtake each other.
        let from_midst = told((100..140).flat_map(|block| [block; 8]));
        assert_eq!(from_midst, [101..103, 103..107, 107..115, 115..131, 131..147, 147..163]);
        let swapped = told((0..60).flat_map(|block| [block, block, block + 1, block, block + 1]));
        assert_eq!(swapped, [0..2, 2..4, 4..8, 8..16, 16..32, 32..48, 48..64, 64..80]);
    }

    #[test]
    fn a_reader_anywhere_is_told_of_nothing() {
        assert_eq!(told([70, 3, 900, 71, 4, 901, 72, 5].into_iter()), []);
    }

    #[test]
    fn a_reader_that_begins_to_go_in_order_is_told_of_what_follows() {
        assert_eq!(told([70, 3, 3, 70, 3].into_iter()).first(), Some(&(4..6)));
        for blocks in [3, 5, 9, 16, 40] {
            let once = told((0..blocks).flat_map(|block| [block; 8]));
            let twice = told((0..2 * blocks).flat_map(|at| [at % blocks; 8]));
            assert_eq!(twice, [once.clone(), once].concat(), "the second time like the first: {blocks} blocks");
        }
    }
}
