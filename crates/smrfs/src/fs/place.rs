//! Data of files, and putting it on the disk: a place from the space, the write, and the file's map in memory, in this order; and the
//! room that the host has for it.

use std::ops::Range;
use std::sync::Arc;

use smrkit::tally::Cause;

use super::allocator::Allocator;
use super::counters::Counters;
use super::disk::Disk;
use super::file::{BEHIND_ALL, File, FileState};
use super::room::Use;
use super::waiting::{Buffers, DirtyFiles, FragmentedFiles};
use crate::data::Data;
use crate::device::HostManaged;
use crate::error::{Errno, FsError, FsResult};
use crate::map::FilePiece;
use crate::meta::{MetadataStore, Time};
use crate::space::AllocationRequest;
use crate::units::{Granule, NodeId, Owner, Span};

/// A piece is small if it is less than this part of a block, and a file in pieces after more than this many of them.
/// (Assumption: reading 1 MiB in 128 KiB pieces is nearly as fast as in one.)
pub(super) const SMALL: u64 = 8;

/// Blocks of a buffer that are written in one go, so that the space knows what follows. (Assumption.)
const GATHERED: u64 = 4;

/// Room on the host beyond what has been accepted: for what is read back to be changed in part, for other writes of the same
/// moment, and for what the host notes of it all (assumption).
const SLACK_BYTES: u64 = 2 << 20;
/// Bytes that the store needs for a record: a block of the attributes' own (ext4).
const RECORD_BYTES: u64 = 4 << 10;
/// Bytes that an extent of a map takes in a part, roughly (assumption).
const EXTENT_BYTES: u64 = 8;

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

/// Data that was read; no bytes in simulation.
pub(super) type Content = Option<Vec<u8>>;

/// Data of files: on the disk, in memory, and what of it is to be made durable.
pub(super) struct DataStore {
    pub disk: Disk,
    pub allocator: Allocator,
    pub buffers: Buffers,
    pub dirty: DirtyFiles,
    pub fragmented: FragmentedFiles,
    pub counters: Counters,
    pub granule_bytes: u64,
    /// The largest block.
    pub block_granules: u64,
    store: Arc<dyn MetadataStore>,
}

impl DataStore {
    pub(super) fn new(
        device: Arc<dyn HostManaged>,
        store: Arc<dyn MetadataStore>,
        allocator: Allocator,
        block_granules: u64,
    ) -> DataStore {
        DataStore {
            granule_bytes: device.shape().granule_bytes,
            block_granules,
            disk: Disk::new(device),
            allocator,
            buffers: Buffers::default(),
            dirty: DirtyFiles::default(),
            fragmented: FragmentedFiles::default(),
            counters: Counters::default(),
            store,
        }
    }

    /// Data of `granules`, without the first `done` of them.
    pub(super) fn rest<'a>(&self, content: &'a Content, granules: u64, done: u64) -> Data<'a> {
        match content {
            Some(content) => Data::Bytes(&content[(done * self.granule_bytes) as usize..]),
            None => Data::Blank((granules - done) * self.granule_bytes),
        }
    }

    /// The store's clock.
    pub(super) fn now(&self) -> Time {
        self.store.now()
    }

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
        let count = granules.min(self.block_granules);
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
            state.promises.remove(range.clone());
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
        state.promises.change(before, after);
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
        if state.versions.change() {
            self.dirty.add(file);
        }
    }

    /// Data or size of the file change.
    pub(super) fn touch_data(&self, file: &Arc<File>, state: &mut FileState) {
        self.touch(file, state);
        state.versions.note_written();
    }

    /// Writes out what is buffered of a file, in the order of the file. `false`: no room for the rest.
    pub(super) fn write_out(&self, file: &Arc<File>, state: &mut FileState) -> FsResult<bool> {
        let small_granules = self.block_granules / SMALL;
        let (mut small, mut any) = (0, false);
        while !state.buffer.is_empty() {
            any = true;
            let mut runs = state.buffer.runs(GATHERED * self.block_granules);
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
        if !state.handles.has_writers() && any {
            self.allocator.closed(file.id);
        }
        if small > SMALL {
            self.fragmented.add(file.id);
        }
        Ok(true)
    }

    /// Gives what no other file shares any more of `range` to the file alone: it can be replaced without more room.
    pub(super) fn reclaim(&self, file: &File, state: &mut FileState, range: Range<u64>) {
        if !state.sharing.shares() {
            return;
        }
        let before = self.allocator.uses(state, range.clone());
        let pieces = self.allocator.reclaim(file.id, state.map.lookup(range.clone()));
        // What has a place of its own needs no promise.
        pieces.iter().for_each(|piece| state.promises.remove(piece.first..piece.end()));
        let after = self.allocator.uses(state, range);
        self.account(state, before, after, &mut 0);
    }

    /// The granules of `range` that have to be promised before it can be written.
    pub(super) fn lacks(&self, file: &File, state: &mut FileState, range: Range<u64>) -> u64 {
        self.reclaim(file, state, range.clone());
        let uses = self.allocator.uses(state, range.clone());
        range.end.saturating_sub(range.start) - uses.mapped - uses.unplaced
    }

    /// Drops data and promises from granule `first` of the file on.
    pub(super) fn drop_behind(&self, file: &Arc<File>, state: &mut FileState, first: u64) {
        let end = state.map.end().max(state.buffer.end());
        if end <= first && state.promises.is_empty() {
            return;
        }
        let range = first..BEHIND_ALL;
        self.rearrange(file, state, range.clone(), &mut 0, |state| state.map.remove(range));
        self.touch(file, state);
    }

    /// Sees to it that a write of `bytes` more, with `extents` more in maps, and what has been accepted before, finds room on the
    /// hosts of disk and store: who is told that a write has been done never hears later that there was no room.
    pub(super) fn keep_room_on_host(&self, bytes: u64, extents: u64) -> FsResult {
        let accepted = self.buffers.bytes() + bytes;
        self.disk.reserve(accepted + SLACK_BYTES).map_err(|error| no_room(error.into()))?;
        let files = self.dirty.count() + 1;
        let extents = extents + accepted / self.granule_bytes + 1;
        self.store.reserve(files * RECORD_BYTES + extents * EXTENT_BYTES).map_err(no_room)
    }

    /// Granules for which the host of the disk has no room any more, of `free` ones.
    pub(super) fn beyond_host(&self, free: u64) -> FsResult<u64> {
        let Some(room) = self.disk.room_bytes()? else { return Ok(0) };
        let accepted = self.buffers.bytes() + SLACK_BYTES;
        let granules = room.saturating_sub(accepted) / self.granule_bytes;
        Ok(free.saturating_sub(granules.saturating_sub(self.allocator.rooms().mapped)))
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

/// Treats lack of space as ENOSPC, not as a disk failure.
fn no_room(error: FsError) -> FsError {
    if error.errno() == Errno::ENOSPC { Errno::ENOSPC.into() } else { error }
}
