//! Putting data on the disk: a place from the space, the write, and the file's map in memory, in this order.

use std::ops::Range;
use std::sync::Arc;

use smrkit::tally::Cause;

use super::FileSystem;
use super::file::{File, FileState};
use super::room::Use;
use crate::data::Data;
use crate::error::FsResult;
use crate::map::FilePiece;
use crate::space::AllocationRequest;
use crate::units::{Granule, NodeId, Owner, Span};

/// A piece is small if it is less than this part of a block, and a file in pieces after more than this many of them.
/// (Assumption: reading 1 MiB in 128 KiB pieces is nearly as fast as in one.)
pub(super) const SMALL: u64 = 8;

/// Blocks of a buffer that are written in one go, so that the space knows what follows. (Assumption.)
const GATHERED: u64 = 4;

/// Data for the disk, whole granules of one file.
pub(super) struct WriteBatch<'a> {
    /// Ranges of granules of the file, in ascending order; they share a place.
    pub runs: &'a [Range<u64>],
    /// One behind the other.
    pub data: Data<'a>,
    /// True if it comes from elsewhere on the disk: neither newer than what is buffered nor promised.
    pub moving: bool,
    /// True if it may use the cleaner's reserve.
    pub reserve: bool,
    pub cause: Cause,
}

impl<'a> WriteBatch<'a> {
    /// Data that a host wrote.
    pub(super) fn host(runs: &'a [Range<u64>], data: Data<'a>) -> WriteBatch<'a> {
        WriteBatch { runs, data, moving: false, reserve: false, cause: Cause::Host }
    }

    /// Data that were on the disk already.
    pub(super) fn moved(runs: &'a [Range<u64>], data: Data<'a>, reserve: bool) -> WriteBatch<'a> {
        WriteBatch { runs, data, moving: true, reserve, cause: Cause::Clean }
    }
}

/// Granules promised to a call under way; what changes in a file is taken from them.
pub(super) type Held = u64;

impl FileSystem {
    /// Writes the first block of `load`, as much as finds room in one place; tells how many granules. None: no room.
    /// Runs share a place and a write: a file written at random goes to the disk block by block.
    pub(super) fn place_block(
        &self,
        file: &Arc<File>,
        state: &mut FileState,
        load: &WriteBatch<'_>,
        held: &mut Held,
    ) -> FsResult<Option<u64>> {
        let _placing = self.allocator.placing();
        let after = state.end_before(load.runs[0].start);
        let Some(pieces) = self.write_block(file.id, after, load)? else { return Ok(None) };
        let count = pieces.iter().map(|(span, _)| span.count).sum();
        let mut places = pieces.iter().map(|&(span, _)| span);
        let mut insert = |state: &mut FileState, run: Range<u64>| {
            places.next().map_or(Vec::new(), |span| state.map.insert(run.start, span))
        };
        let runs: Vec<Range<u64>> =
            pieces.iter().map(|(span, owner)| owner.granule..owner.granule + span.count).collect();
        if load.moving {
            let old = runs.into_iter().flat_map(|run| insert(state, run)).collect();
            self.retire(file, state, old);
        } else {
            self.rearrange_all(file, state, &runs, held, insert);
        }
        self.touch(file, state);
        Ok(Some(count))
    }

    /// Writes the first block of `load` for a file whose data before it ends `after`; tells what of the runs lies where.
    pub(super) fn write_block(
        &self,
        file: NodeId,
        after: Option<Granule>,
        load: &WriteBatch<'_>,
    ) -> FsResult<Option<Vec<(Span, Owner)>>> {
        let granules = load.data.bytes() / self.granule_bytes;
        let count = granules.min(self.options.block_granules);
        let owner = Owner { file, granule: load.runs[0].start };
        let want = AllocationRequest { owner, after, count, more: granules - count, moving: load.reserve };
        let write =
            |span: Span| self.disk.write(span.at, load.data.part(0, span.count * self.granule_bytes), load.cause);
        let Some(pieces) = self.allocator.write(&want, load.runs, write)? else { return Ok(None) };
        let count: u64 = pieces.iter().map(|(span, _)| span.count).sum();
        let counter = if load.moving { &self.counters.moved } else { &self.counters.written };
        counter.add(count * self.granule_bytes);
        Ok(Some(pieces))
    }

    /// Forgets what is buffered or promised in `range`, and changes its map: `change` tells what that replaced.
    pub(super) fn rearrange(
        &self,
        file: &File,
        state: &mut FileState,
        range: Range<u64>,
        held: &mut Held,
        change: impl FnOnce(&mut FileState) -> Vec<FilePiece>,
    ) {
        let mut change = Some(change);
        let change = |state: &mut FileState, _| change.take().map_or(Vec::new(), |change| change(state));
        self.rearrange_all(file, state, &[range], held, change);
    }

    /// Rearranges several ranges: `change` is called for each.
    fn rearrange_all(
        &self,
        file: &File,
        state: &mut FileState,
        ranges: &[Range<u64>],
        held: &mut Held,
        mut change: impl FnMut(&mut FileState, Range<u64>) -> Vec<FilePiece>,
    ) {
        let (mut before, mut after, mut old) = (Use::default(), Use::default(), Vec::new());
        for range in ranges {
            before = before + self.allocator.uses(state, range.clone());
            self.unbuffer(state, range.clone());
            state.promised.remove(range.clone());
            old.extend(change(state, range.clone()));
            after = after + self.allocator.uses(state, range.clone());
        }
        self.account(state, before, after, held);
        self.retire(file, state, old);
    }

    /// Forgets what is buffered in `range`.
    fn unbuffer(&self, state: &mut FileState, range: Range<u64>) {
        let granules = state.buffer.remove(range);
        self.buffers.removed(state, granules * self.granule_bytes);
    }

    /// A range of a file used `before` and uses `after`; what is more comes out of `held`.
    pub(super) fn account(&self, state: &mut FileState, before: Use, after: Use, held: &mut Held) {
        state.unplaced = state.unplaced + after.unplaced - before.unplaced;
        let more = (after.mapped + after.unplaced).saturating_sub(before.mapped + before.unplaced).min(*held);
        *held -= more;
        self.allocator.change(before, after, more);
    }

    /// The file's map names these no more.
    pub(super) fn retire(&self, file: &File, state: &mut FileState, old: Vec<FilePiece>) {
        if old.is_empty() {
            return;
        }
        self.allocator.retire(file.id, &old);
        state.note_retired(&old);
    }

    /// The file's record changes: it has to be committed.
    pub(super) fn touch(&self, file: &Arc<File>, state: &mut FileState) {
        state.changes += 1;
        if state.changes == state.durable + 1 {
            self.pending.add(file);
        }
    }

    /// Writes out what is buffered of a file, in the order of the file. `false`: no room for the rest.
    pub(super) fn write_out(&self, file: &Arc<File>, state: &mut FileState) -> FsResult<bool> {
        let small_granules = self.options.block_granules / SMALL;
        let (mut small, mut any) = (0, false);
        while !state.buffer.is_empty() {
            any = true;
            let mut runs = state.buffer.runs(GATHERED * self.options.block_granules);
            small += runs.iter().filter(|run| run.end - run.start < small_granules).count() as u64;
            let granules: u64 = runs.iter().map(|run| run.end - run.start).sum();
            let bytes = state.buffer.gather(granules, self.granule_bytes);
            let mut done = 0;
            while done < granules {
                let load = WriteBatch::host(&runs, self.rest(&bytes, granules, done));
                let Some(count) = self.place_block(file, state, &load, &mut 0)? else {
                    return Ok(false);
                };
                done += count;
                leave_out(&mut runs, count);
            }
        }
        state.settled_size = state.size;
        if state.writers == 0 && any {
            self.allocator.closed(file.id);
        }
        if small > SMALL {
            self.cleaner.add_fragmented(file.id);
        }
        Ok(true)
    }
}

/// Leaves out the first `count` granules of the runs.
fn leave_out(runs: &mut Vec<Range<u64>>, mut count: u64) {
    let whole = runs.iter().take_while(|run| {
        let granules = run.end - run.start;
        let is_whole = granules <= count;
        count -= if is_whole { granules } else { 0 };
        is_whole
    });
    let whole = whole.count();
    runs.drain(..whole);
    if let Some(run) = runs.first_mut() {
        run.start += count;
    }
}
