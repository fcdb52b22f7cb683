//! Reading: buffered data first, then mapped data from the disk, and zeros elsewhere.

use std::ops::Range;

use super::disk::{Scrubbed, is_damage};
use super::file::{File, FileState};
use super::{FileSystem, Seek};
use crate::data::ReadBuffer;
use crate::error::{Errno, FsResult};
use crate::map::FilePiece;
use crate::units::{NodeId, Owner, Span};

/// A block in fewer pieces than this needs no hints, because the host reads ahead itself. (Assumption.)
const FRAGMENTED_PIECES: usize = 4;

/// The most blocks of one hint. The more blocks, the more of their pieces are close together. (Assumption.)
const WINDOW_MAX: u64 = 16;

/// Pieces with at most this many granules between them are read together. (Assumption.)
const GAP_MAX: u64 = 32;

/// The read-ahead window of a file: the `window` blocks before block `end`. A read in the window continues a sequential reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadAhead {
    end: u64,
    window: u64,
}

impl ReadAhead {
    /// Returns the blocks to hint at when `block` is read, and the new window: if the reader enters the old one, the next, twice as long.
    fn next(self, block: u64) -> (Range<u64>, ReadAhead) {
        let ReadAhead { end, window } = self;
        let start = end.saturating_sub(window);
        if (start..end).contains(&block) {
            let window = (2 * window).min(WINDOW_MAX);
            return (end..end + window, ReadAhead { end: end + window, window });
        }
        // Reads shortly before the window change nothing: a block takes several reads, and two threads may read neighbouring blocks in
        // either order. Block 0 is an exception once the window has left the first blocks, because the file is then read again.
        let behind = start.saturating_sub(window + 1).max(u64::from(end > 4));
        if (behind..start).contains(&block) {
            return (end..end, self);
        }
        // Elsewhere the window is the next block, so that two reads in the same block are no sequential reader.
        let hint = if block == 0 { 0..2 } else { 0..0 };
        (hint, ReadAhead { end: block + 2, window: 1 })
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

    /// Hints at the next blocks of a sequential reader if they are fragmented. Pieces that are close together on the disk are one hint.
    fn read_ahead(&self, file: &File, state: &FileState, granule: u64) {
        let block = self.data.block_granules;
        let mut window = file.read_ahead.lock();
        let (blocks, next_window) = window.next(granule / block);
        *window = next_window;
        drop(window);
        let end = blocks.end.min(state.size.div_ceil(self.data.granule_bytes * block));
        if end <= blocks.start {
            return;
        }
        let pieces = state.placed(blocks.start * block..end * block);
        if pieces.len() < FRAGMENTED_PIECES * (end - blocks.start) as usize {
            return;
        }
        let mut spans: Vec<Span> = pieces.iter().filter_map(FilePiece::span).collect();
        spans.sort_unstable_by_key(|span| span.at);
        let band = |span: &Span| self.data.disk.device.shape().bands.band_at(span.at);
        let mut expected = spans[0];
        for span in &spans[1..] {
            // Pieces of different bands are not joined, because the gap between them was never written.
            if span.at <= expected.end() + GAP_MAX && band(&expected) == band(span) {
                expected.count = span.end().max(expected.end()) - expected.at;
            } else {
                self.data.disk.device.expect(expected);
                expected = *span;
            }
        }
        self.data.disk.device.expect(expected);
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
    pub fn seek(&self, id: NodeId, offset: u64, target: Seek) -> FsResult<u64> {
        let file = self.file(id)?;
        let state = file.look();
        if offset >= state.size {
            return Err(Errno::ENXIO.into());
        }
        let from = offset / self.data.granule_bytes;
        let found = match target {
            Seek::Data => [state.map.next_data(from), state.buffer.next(from)].into_iter().flatten().min(),
            Seek::Hole => Some(next_hole(&state, from)),
        };
        let byte = found.map(|granule| offset.max(granule * self.data.granule_bytes));
        match target {
            Seek::Data => byte.filter(|&byte| byte < state.size).ok_or(Errno::ENXIO.into()),
            Seek::Hole => Ok(byte.map_or(state.size, |byte| byte.min(state.size))),
        }
    }

    /// Reads the granules of `span` that still belong to its owner, and verifies them. The owner is locked meanwhile: spans should be small.
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

/// The first granule from `from` on that neither has a place nor is buffered.
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

    /// Returns the hints that reads of `blocks` lead to.
    fn hints(blocks: impl IntoIterator<Item = u64>) -> Vec<Range<u64>> {
        let mut ahead = ReadAhead { end: 0, window: 0 };
        let next = |block| {
            let (hint, after) = ahead.next(block);
            ahead = after;
            (!hint.is_empty()).then_some(hint)
        };
        blocks.into_iter().filter_map(next).collect()
    }

    #[test]
    fn hints_to_a_sequential_reader_double_in_length() {
        let from_start = [0..2, 2..4, 4..8, 8..16, 16..32, 32..48, 48..64, 64..80];
        let from_midst = [102..104, 104..108, 108..116, 116..132, 132..148];
        for reads_a_block in [1, 8] {
            let read = |blocks: Range<u64>| hints(blocks.flat_map(|block| vec![block; reads_a_block]));
            assert_eq!(read(0..60), from_start, "{reads_a_block} reads a block");
            assert_eq!(read(100..132), from_midst, "{reads_a_block} reads a block");
        }
        let two_threads = hints((0..60).flat_map(|block| [block, block, block + 1, block, block + 1]));
        assert_eq!(two_threads, from_start);
    }

    #[test]
    fn random_reads_get_no_hints() {
        assert_eq!(hints([70, 3, 900, 71, 4, 901, 72, 5]), []);
        assert_eq!(hints([500, 500, 9, 9]), [], "two reads in a block are no sequential reader");
    }

    #[test]
    fn hints_begin_anew_where_reading_does() {
        assert_eq!(hints([70, 3, 4]).first(), Some(&(5..7)));
        for blocks in [3, 5, 9, 16, 40] {
            let once = hints((0..blocks).flat_map(|block| [block; 8]));
            let twice = hints((0..2 * blocks).flat_map(|at| [at % blocks; 8]));
            assert_eq!(twice, [once.clone(), once].concat(), "the second time like the first: {blocks} blocks");
        }
    }
}
