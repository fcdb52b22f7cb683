//! Data of files, in memory and on the disk: the buffer, sizes and promises of room; finding a place, writing there, and updating the
//! file's map in memory; and room on the host of the disk.
//!
//! Room is promised before anything changes, so that a write on a full disk fails at once, and not when the buffer is written out.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::slice::from_ref;
use std::sync::Arc;

use parking_lot::Mutex;
use smrkit::tally::Cause;

use super::allocator::{Allocator, Rooms};
use super::disk::Disk;
use super::file::{BEHIND_ALL, Buffers, File, FileState, PageBytes, Times, zeros};
use super::shared::Shared;
use super::statistics::Statistics;
use crate::data::Data;
use crate::device::HostManaged;
use crate::error::{Errno, FsError, FsResult};
use crate::map::{FilePiece, checksum};
use crate::meta::{MetadataStore, Time};
use crate::space::{AllocationRequest, Space};
use crate::units::{Granule, NodeId, Owner, Span};

/// A piece is small if it is less than a block divided by this. (Assumption: reading 1 MiB in 128 KiB pieces is nearly as fast as in one.)
const SMALL_PART: u64 = 8;
/// A file is fragmented if more pieces than this are small. (Assumption.)
pub(super) const SMALL_PIECES: u64 = 8;

/// Blocks of a buffer that are written in one go, so that the space knows what follows. (Assumption.)
const GATHERED: u64 = 4;

/// Room on the host beyond accepted data: for granules that are read to be changed in part, for concurrent writes, and for the host's
/// metadata (assumption).
const SLACK_BYTES: u64 = 2 << 20;
/// Bytes that the store needs for a record: a block of its own for attributes (ext4).
const RECORD_BYTES: u64 = 4 << 10;
/// Bytes that an extent of a map takes in a part, roughly (assumption).
const EXTENT_BYTES: u64 = 8;

/// Data to be written to the disk: whole granules of one file.
pub(super) struct WriteBatch<'a> {
    /// Ranges of granules of the file, in ascending order; they share a place.
    pub runs: &'a [Range<u64>],
    /// The data of the runs, one after another.
    pub data: Data<'a>,
    /// True if it is moved on the disk. Moved data is older than buffered data, and room was not promised for it.
    pub moving: bool,
    /// True if it may use the cleaner's reserve.
    pub reserve: bool,
}

impl<'a> WriteBatch<'a> {
    /// Data that a host wrote.
    pub(super) fn host(runs: &'a [Range<u64>], data: Data<'a>) -> WriteBatch<'a> {
        WriteBatch { runs, data, moving: false, reserve: false }
    }

    /// Data that was on the disk already.
    pub(super) fn moved(runs: &'a [Range<u64>], data: Data<'a>, reserve: bool) -> WriteBatch<'a> {
        WriteBatch { runs, data, moving: true, reserve }
    }
}

/// Data that was read; `None` in simulation.
pub(super) type Content = Option<Vec<u8>>;

/// Data of files, on the disk and in memory, and the files to be committed.
pub(super) struct DataStore {
    pub disk: Disk,
    pub allocator: Allocator,
    pub buffers: Buffers,
    /// Files whose record is to be stored, or that have extents to release.
    pub dirty: Mutex<BTreeMap<NodeId, Arc<File>>>,
    /// Files written in small pieces, to be joined when there is nothing else to do.
    pub fragmented: Mutex<BTreeSet<NodeId>>,
    pub counters: Mutex<Statistics>,
    pub granule_bytes: u64,
    /// The largest block.
    pub block_granules: u64,
    store: Arc<dyn MetadataStore>,
}

impl DataStore {
    pub(super) fn new(
        device: Arc<dyn HostManaged>,
        store: Arc<dyn MetadataStore>,
        space: Box<dyn Space>,
        shared: Shared,
        rooms: Rooms,
        block_granules: u64,
    ) -> DataStore {
        DataStore {
            granule_bytes: device.shape().granule_bytes,
            block_granules,
            disk: Disk::new(device.clone()),
            allocator: Allocator::new(device, space, shared, rooms),
            buffers: Buffers::default(),
            dirty: Mutex::default(),
            fragmented: Mutex::default(),
            counters: Mutex::default(),
            store,
        }
    }

    /// The data of `content`, which has `granules`, without the first `done` of them.
    pub(super) fn data_from<'a>(&self, content: &'a Content, granules: u64, done: u64) -> Data<'a> {
        match content {
            Some(content) => Data::Bytes(&content[(done * self.granule_bytes) as usize..]),
            None => Data::Blank((granules - done) * self.granule_bytes),
        }
    }

    /// The store's clock.
    pub(super) fn now(&self) -> Time {
        self.store.now()
    }

    /// Writes the first block of `batch`, or as much of it as finds room in one place. Returns how many granules it wrote; `None` if there is
    /// no room. Several runs share a place and a write, so that a file written at random goes to the disk block by block. What the file uses
    /// beyond its old places is taken from `promised`.
    pub(super) fn place_block(
        &self,
        file: &Arc<File>,
        state: &mut FileState,
        batch: &WriteBatch<'_>,
        promised: &mut u64,
    ) -> FsResult<Option<u64>> {
        // Held until the old places are retired, because until then another writer must not conclude that no room will become free.
        let _placing = self.allocator.placing();
        let before = batch.runs[0].start.checked_sub(1).and_then(|before| state.map.at(before));
        let after = before.map(|at| at + 1);
        let Some(pieces) = self.write_block(file.id, after, batch)? else { return Ok(None) };
        let count: u64 = pieces.iter().map(|(span, _)| span.count).sum();
        if batch.moving {
            // Moved data was verified when it was read, and keeps its checksums. It does not go through `replace_ranges`, which would drop newer
            // data that is buffered for the same granules.
            let old = pieces.iter().flat_map(|&(span, owner)| state.map.insert(owner.granule, span)).collect();
            self.retire(file, state, old);
        } else {
            let sums: Vec<u32> = match batch.data {
                Data::Bytes(bytes) => {
                    let granules = bytes.chunks_exact(self.granule_bytes as usize).take(count as usize);
                    granules.map(checksum).collect()
                }
                Data::Blank(_) => vec![0; count as usize],
            };
            let runs: Vec<Range<u64>> =
                pieces.iter().map(|(span, owner)| owner.granule..owner.granule + span.count).collect();
            let (mut spans, mut sums) = (pieces.iter().map(|&(span, _)| span), &sums[..]);
            self.replace_ranges(file, state, &runs, promised, |state, run| {
                let Some(span) = spans.next() else { return Vec::new() };
                let old = state.map.insert(run.start, span);
                let (span_sums, rest) = sums.split_at(span.count as usize);
                state.map.set_sums(run.start, span_sums);
                sums = rest;
                old
            });
        }
        self.touch(file, state);
        Ok(Some(count))
    }

    /// Writes the first block of `batch` for a file whose preceding data ends at `after`; returns where each piece was written.
    pub(super) fn write_block(
        &self,
        file: NodeId,
        after: Option<Granule>,
        batch: &WriteBatch<'_>,
    ) -> FsResult<Option<Vec<(Span, Owner)>>> {
        let granules = batch.data.bytes() / self.granule_bytes;
        let count = granules.min(self.block_granules);
        let owner = Owner { file, granule: batch.runs[0].start };
        let want = AllocationRequest { owner, after, count, more: granules - count, moving: batch.reserve };
        let cause = if batch.moving { Cause::Clean } else { Cause::Host };
        let Some(pieces) = self.allocator.write(&want, batch.runs, batch.data, cause)? else { return Ok(None) };
        let count: u64 = pieces.iter().map(|(span, _)| span.count).sum();
        let mut counters = self.counters.lock();
        let counter = if batch.moving { &mut counters.moved_bytes } else { &mut counters.written_bytes };
        *counter += count * self.granule_bytes;
        Ok(Some(pieces))
    }

    /// Drops buffered data and promises in `ranges`, and changes the map there by `change`, which returns the pieces that it replaced.
    pub(super) fn replace_ranges(
        &self,
        file: &File,
        state: &mut FileState,
        ranges: &[Range<u64>],
        promised: &mut u64,
        mut change: impl FnMut(&mut FileState, Range<u64>) -> Vec<FilePiece>,
    ) {
        let old = self.change_with_account(state, ranges, promised, |state| {
            let mut old = Vec::new();
            for range in ranges {
                let granules = state.buffer.remove(range.clone());
                self.buffers.removed(state, granules * self.granule_bytes);
                state.promises.ranges.uncover(range.clone());
                old.extend(change(state, range.clone()));
            }
            old
        });
        self.retire(file, state, old);
    }

    /// Makes a change in `ranges` of a file, and updates the account of room.
    ///
    /// The use of a range depends on map, buffer and promises together, so it is counted before the first change and after the last; in
    /// between, a granule that moves from the buffer to the map would not count at all. `promised` granules were promised to the call before
    /// any change, so additional use is taken from them, or it would count twice. A granule that moves from the buffer, or from a promise of
    /// fallocate, to a place on the disk uses as much as before, and takes nothing from `promised`.
    fn change_with_account<T>(
        &self,
        state: &mut FileState,
        ranges: &[Range<u64>],
        promised: &mut u64,
        change: impl FnOnce(&mut FileState) -> T,
    ) -> T {
        let before = self.allocator.uses(state, ranges);
        let changed = change(state);
        let after = self.allocator.uses(state, ranges);
        state.promises.unplaced = state.promises.unplaced + after.unplaced - before.unplaced;
        let more = (after.mapped + after.unplaced).saturating_sub(before.mapped + before.unplaced).min(*promised);
        *promised -= more;
        let mut rooms = self.allocator.rooms.lock();
        rooms.change(before, after);
        rooms.take_back(more);
        changed
    }

    /// Retires pieces that the file's map no longer names.
    pub(super) fn retire(&self, file: &File, state: &mut FileState, old: Vec<FilePiece>) {
        if old.is_empty() {
            return;
        }
        self.allocator.retire(file.id, &old);
        state.note_retired(&old);
    }

    /// Marks the file's record as changed, so that the next commit stores it.
    pub(super) fn touch(&self, file: &Arc<File>, state: &mut FileState) {
        if !state.is_dirty() {
            self.dirty.lock().insert(file.id, file.clone());
        }
        state.version += 1;
    }

    /// Marks data or size of the file as changed.
    pub(super) fn touch_data(&self, file: &Arc<File>, state: &mut FileState) {
        self.touch(file, state);
        state.data_version = state.version;
    }

    /// Writes out a file's buffer, in the order of the file; returns `false` if there is no room for all of it.
    pub(super) fn write_out(&self, file: &Arc<File>, state: &mut FileState) -> FsResult<bool> {
        let small_granules = self.block_granules / SMALL_PART;
        let (mut small_pieces, mut has_written) = (0, false);
        while !state.buffer.is_empty() {
            has_written = true;
            let mut runs = state.buffer.runs(GATHERED * self.block_granules);
            small_pieces += runs.iter().filter(|run| run.end - run.start < small_granules).count() as u64;
            let granules: u64 = runs.iter().map(|run| run.end - run.start).sum();
            let bytes = state.buffer.gather(granules, self.granule_bytes);
            let mut done = 0;
            while done < granules {
                let batch = WriteBatch::host(&runs, self.data_from(&bytes, granules, done));
                // Room for buffered data was promised when it was accepted, and counts as the file's use already.
                let Some(count) = self.place_block(file, state, &batch, &mut 0)? else { return Ok(false) };
                done += count;
                skip_granules(&mut runs, count);
            }
        }
        // Nothing is buffered any more, so a map committed from now on may have the whole size.
        state.settled_size = state.size;
        if state.writers == 0 && has_written {
            self.allocator.closed(file.id);
        }
        if small_pieces > SMALL_PIECES {
            self.fragmented.lock().insert(file.id);
        }
        Ok(true)
    }

    /// How many granules have to be promised before `range` can be written. First ends the sharing of extents that no other file has any more.
    pub(super) fn granules_to_promise(&self, file: &File, state: &mut FileState, range: Range<u64>) -> u64 {
        // A shared granule counts as if it had no place, because its place can't be reused as long as others have it. If those that no other
        // file has any more still counted as shared, overwriting them would need room that a full disk does not have.
        if state.shares {
            self.change_with_account(state, from_ref(&range), &mut 0, |state| {
                for piece in self.allocator.reclaim(file.id, state.map.lookup(range.clone())) {
                    // A granule with a place of its own needs no promise.
                    state.promises.ranges.uncover(piece.first..piece.end());
                }
            });
        }
        let uses = self.allocator.uses(state, from_ref(&range));
        range.end.saturating_sub(range.start) - uses.mapped - uses.unplaced
    }

    /// Drops data and promises from granule `first` of the file on.
    pub(super) fn drop_behind(&self, file: &Arc<File>, state: &mut FileState, first: u64) {
        let end = state.map.end().max(state.buffer.end());
        if end <= first && state.promises.ranges.is_empty() {
            return;
        }
        let behind = first..BEHIND_ALL;
        self.replace_ranges(file, state, &[behind], &mut 0, |state, range| state.map.remove(range));
        self.touch(file, state);
    }

    /// Reserves room on the file systems that hold disk and store for a write of `bytes`, for `extents` more in maps, and for all data
    /// accepted before, so that a write that was acknowledged does not fail later for lack of room.
    pub(super) fn reserve_on_host(&self, bytes: u64, extents: u64) -> FsResult {
        let accepted = self.buffers.bytes() + bytes;
        self.disk.device.reserve(accepted + SLACK_BYTES).map_err(|error| no_room(error.into()))?;
        let files = self.dirty.lock().len() as u64 + 1;
        let extents = extents + accepted / self.granule_bytes + 1;
        self.store.reserve(files * RECORD_BYTES + extents * EXTENT_BYTES).map_err(no_room)
    }

    /// How many of `free` granules the file system that holds the disk has no room for.
    pub(super) fn granules_beyond_host(&self, free: u64) -> FsResult<u64> {
        let Some(room) = self.disk.device.room_bytes()? else { return Ok(0) };
        let accepted = self.buffers.bytes() + SLACK_BYTES;
        let granules = room.saturating_sub(accepted) / self.granule_bytes;
        Ok(free.saturating_sub(granules.saturating_sub(self.allocator.rooms.lock().mapped)))
    }
}

/// Removes the first `count` granules from the runs.
fn skip_granules(runs: &mut Vec<Range<u64>>, mut count: u64) {
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

/// Room promised to a write under way. The rest is given back when this is dropped.
pub(super) struct PromisedRoom<'a> {
    allocator: &'a Allocator,
    pub granules: u64,
}

impl<'a> PromisedRoom<'a> {
    pub(super) fn new(allocator: &'a Allocator) -> PromisedRoom<'a> {
        PromisedRoom { allocator, granules: 0 }
    }

    /// Raises the promise to `granules`; fails if there is no room.
    pub(super) fn raise_to(&mut self, granules: u64) -> FsResult {
        if granules > self.granules {
            self.allocator.rooms.lock().promise(granules - self.granules)?;
            self.granules = granules;
        }
        Ok(())
    }
}

impl Drop for PromisedRoom<'_> {
    fn drop(&mut self) {
        self.allocator.rooms.lock().take_back(self.granules);
    }
}

impl DataStore {
    /// Loads a granule into the buffer, if it is not there.
    pub(super) fn fetch(&self, file: &Arc<File>, state: &mut FileState, granule: u64, promised: &mut u64) -> FsResult {
        if !state.buffer.has(granule) {
            let page = match state.map.at(granule) {
                // Verified before a part of it is changed: written back, it gets a new checksum, which would hide damage.
                Some(at) => {
                    let sums = state.map.sums(granule..granule + 1);
                    self.disk.read_span(Span { at, count: 1 }, &sums, Cause::Host)?.map(Vec::into_boxed_slice)
                }
                None if self.disk.holds_no_bytes() => None,
                None => Some(zeros(self.granule_bytes)),
            };
            self.put_page(file, state, granule, page, promised);
        }
        Ok(())
    }

    /// Loads a granule with data into the buffer, to change a part of it. That needs room only if the granule is shared.
    pub(super) fn fetch_with_room(&self, file: &Arc<File>, state: &mut FileState, granule: u64) -> FsResult {
        let mut promise = PromisedRoom::new(&self.allocator);
        promise.raise_to(self.granules_to_promise(file, state, granule..granule + 1))?;
        self.fetch(file, state, granule, &mut promise.granules)
    }

    fn put_page(&self, file: &Arc<File>, state: &mut FileState, granule: u64, page: PageBytes, promised: &mut u64) {
        self.change_with_account(state, from_ref(&(granule..granule + 1)), promised, |state| {
            if !state.buffer.has(granule) {
                self.buffers.added(self.granule_bytes);
            }
            state.buffer.put(granule, page);
        });
        self.touch_data(file, state);
        self.buffers.queue(file, state);
    }

    /// Puts the bytes of `range` into the buffer. The rest of partial granules is read from the disk.
    pub(super) fn buffer(
        &self,
        file: &Arc<File>,
        state: &mut FileState,
        range: &Range<u64>,
        data: Data<'_>,
        promised: &mut u64,
    ) -> FsResult {
        let granule = self.granule_bytes;
        let mut from = range.start;
        while from < range.end {
            let at = from / granule;
            let to = range.end.min((at + 1) * granule);
            let is_whole = to - from == granule;
            match data.part(from - range.start, to - from) {
                Data::Bytes(bytes) if is_whole => self.put_page(file, state, at, Some(bytes.into()), promised),
                Data::Blank(_) if is_whole => self.put_page(file, state, at, None, promised),
                part => {
                    self.fetch(file, state, at, promised)?;
                    state.buffer.patch(at, granule, from - at * granule, part);
                }
            }
            from = to;
        }
        if !range.is_empty() {
            self.raise_size(state, range.end);
        }
        Ok(())
    }

    /// Zeroes the last granule behind the old end of the file, before the file grows up to byte `end`.
    pub(super) fn clear_tail(&self, file: &Arc<File>, state: &mut FileState, end: u64) -> FsResult {
        let (granule, behind) = (state.size / self.granule_bytes, state.size % self.granule_bytes);
        if end > state.size && behind > 0 && (state.map.at(granule).is_some() || state.buffer.has(granule)) {
            self.fetch_with_room(file, state, granule)?;
            state.buffer.clear(granule, behind, self.granule_bytes);
        }
        Ok(())
    }

    /// Does what `clear_tail` does if the file shares extents. Called before room is promised to a file that is to grow, because clearing a
    /// shared granule needs room itself.
    pub(super) fn clear_shared_tail(&self, file: &Arc<File>, state: &mut FileState, end: u64) -> FsResult {
        if state.shares { self.clear_tail(file, state, end) } else { Ok(()) }
    }

    /// Zeroes the two ends of `range`, where they fill only a part of a granule.
    pub(super) fn clear_edges(&self, file: &Arc<File>, state: &mut FileState, range: Range<u64>) -> FsResult {
        let granule = self.granule_bytes;
        let edge = |at: u64| (at, range.start.max(at * granule)..range.end.min((at + 1) * granule));
        let has_data = |state: &FileState, at| state.map.at(at).is_some() || state.buffer.has(at);
        let mut edges = vec![edge(range.start / granule), edge(range.end / granule)];
        edges.retain(|(at, part)| part.start < part.end && part.end - part.start < granule && has_data(state, *at));
        edges.dedup();
        // Both are loaded before the first is changed, because there may be no room for the second.
        edges.iter().try_for_each(|(at, _)| self.fetch_with_room(file, state, *at))?;
        for (at, part) in edges {
            state.buffer.clear(at, part.start - at * granule, part.end - at * granule);
        }
        Ok(())
    }

    /// Makes `emptied` a hole, then promises room to all granules of `range` that have none, or fails without a change.
    pub(super) fn promise_range(
        &self,
        file: &Arc<File>,
        state: &mut FileState,
        range: Range<u64>,
        emptied: Range<u64>,
    ) -> FsResult {
        let mut promise = PromisedRoom::new(&self.allocator);
        let lacking = self.granules_to_promise(file, state, range.clone());
        if lacking > 0 && self.granules_beyond_host(lacking)? > 0 {
            return Err(Errno::ENOSPC.into());
        }
        promise.raise_to(lacking)?;
        if emptied.start < emptied.end {
            self.replace_ranges(file, state, &[emptied], &mut 0, |state, emptied| {
                let old = state.map.remove(emptied.clone());
                state.promises.ranges.cover(emptied, ());
                old
            });
        }
        self.change_with_account(state, from_ref(&range), &mut promise.granules, |state| {
            for piece in self.allocator.without_room(state.map.lookup(range.clone())) {
                state.promises.ranges.cover(piece.first..piece.end(), ());
            }
        });
        self.touch(file, state);
        Ok(())
    }

    /// Grows a file by a hole.
    pub(super) fn grow(&self, file: &Arc<File>, state: &mut FileState, size: u64) -> FsResult {
        self.clear_tail(file, state, size)?;
        self.raise_size(state, size);
        Ok(())
    }

    /// Raises the size of the file to at least `end`.
    pub(super) fn raise_size(&self, state: &mut FileState, end: u64) {
        state.size = state.size.max(end);
        if state.buffer.is_empty() {
            state.settled_size = state.size;
        }
    }

    /// Notes a change of data or size, with the current time.
    pub(super) fn note_data_change(&self, file: &Arc<File>, state: &mut FileState) {
        let now = self.now();
        state.times = Some(Times { mtime: now, ctime: now });
        self.touch_data(file, state);
    }
}
