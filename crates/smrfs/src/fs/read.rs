//! Reading: from the buffer what is newer there, from the disk what is mapped, and zeros elsewhere.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use super::file::{File, FileState};
use super::{FileSystem, Seek};
use crate::data::ReadBuffer;
use crate::error::{Errno, FsResult};
use crate::map::FilePiece;
use crate::units::{NodeId, Span};

/// A window of a file in fewer pieces is read as it is: the host reads ahead by itself. (Assumption.)
const PIECES: usize = 8;

/// Granules between two pieces that are read with them rather than stepped over. (Assumption.)
const SKIPPED: u64 = 16;

impl FileSystem {
    /// Reads from the byte `offset` on as much as the file has and `room` takes; tells how many bytes. The rest of `room`
    /// is left alone.
    pub fn read(&self, id: NodeId, offset: u64, mut room: ReadBuffer<'_>) -> FsResult<u64> {
        let file = self.file(id)?;
        // The lock keeps what is read from being released meanwhile.
        let state = file.look();
        if state.gone {
            return Err(Errno::ENOENT.into());
        }
        let bytes = room.bytes().min(state.size.saturating_sub(offset));
        if bytes > 0 {
            self.read_ahead(&file, &state, offset / self.granule_bytes);
            self.read_range(&state, offset..offset + bytes, room.part(0, bytes))?;
            self.counters.host_read.add(bytes);
        }
        Ok(bytes)
    }

    /// Tells the disk once a window what a reader of the file in order is about to want, where that lies in pieces: what lies
    /// close together on the disk at once, as it was written at once.
    fn read_ahead(&self, file: &File, state: &FileState, granule: u64) {
        let (block, told) = (self.options.block_granules, file.ahead.load(Relaxed));
        let window = granule / block;
        // Two threads may ask for neighbours in either order.
        if told == window + 2 || told == window + 3 {
            return;
        }
        let first = match window {
            _ if told == window + 1 => window + 1,
            0 => 0,
            _ => return file.ahead.store(window + 1, Relaxed),
        };
        file.ahead.store(window + 2, Relaxed);
        let pieces = FileSystem::placed(state, first * block..(window + 2) * block);
        if pieces.len() < PIECES {
            return;
        }
        let mut spans: Vec<Span> = pieces.iter().filter_map(FilePiece::span).collect();
        spans.sort_unstable_by_key(|span| span.at);
        let mut expected = spans[0];
        for span in &spans[1..] {
            if span.at - expected.end() <= SKIPPED {
                expected.count = span.end() - expected.at;
            } else {
                self.disk.expect(expected);
                expected = *span;
            }
        }
        self.disk.expect(expected);
    }

    fn read_range(&self, state: &FileState, range: Range<u64>, mut room: ReadBuffer<'_>) -> FsResult {
        let granule = self.granule_bytes;
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
                    Some(start) => self.disk.read(start + (at - piece.first), from - at * granule, room)?,
                    None => room.clear(),
                }
                at = end;
            }
        }
        Ok(())
    }

    /// First byte of the next data or hole from the byte `offset` on; ENXIO behind the end.
    pub fn seek(&self, id: NodeId, offset: u64, what: Seek) -> FsResult<u64> {
        let file = self.file(id)?;
        let state = file.look();
        if offset >= state.size {
            return Err(Errno::ENXIO.into());
        }
        let from = offset / self.granule_bytes;
        let found = match what {
            Seek::Data => [state.map.next_data(from), state.buffer.next(from)].into_iter().flatten().min(),
            Seek::Hole => Some(next_hole(&state, from)),
        };
        let byte = found.map(|granule| offset.max(granule * self.granule_bytes));
        match what {
            Seek::Data => byte.filter(|&byte| byte < state.size).ok_or(Errno::ENXIO.into()),
            Seek::Hole => Ok(byte.map_or(state.size, |byte| byte.min(state.size))),
        }
    }

    /// The pieces of `range` that have a place, for whoever moves them.
    pub(super) fn placed(state: &FileState, range: Range<u64>) -> Vec<FilePiece> {
        state.map.lookup(range).filter(|piece| piece.at.is_some()).collect()
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
