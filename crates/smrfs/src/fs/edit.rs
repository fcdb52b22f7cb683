//! Changes of files in memory: of the buffer, the size, and the promises of room.
//!
//! Room is promised before anything changes, so that a full disk is noticed here and not when the buffer is written out.

use std::ops::Range;
use std::sync::Arc;

use super::allocator::Allocator;
use super::buffer::{PageBytes, zeros};
use super::file::{File, FileState, Times};
use super::place::{DataStore, Held};
use crate::data::Data;
use crate::error::{Errno, FsResult};

/// Room promised to one write under way; what is not used is given back.
pub(super) struct HeldRoom<'a> {
    allocator: &'a Allocator,
    pub granules: u64,
}

impl<'a> HeldRoom<'a> {
    pub(super) fn new(allocator: &'a Allocator) -> HeldRoom<'a> {
        HeldRoom { allocator, granules: 0 }
    }

    /// Raises it to `granules`, or says that there is no room.
    pub(super) fn at_least(&mut self, granules: u64) -> FsResult {
        if granules > self.granules {
            self.allocator.promise(granules - self.granules)?;
            self.granules = granules;
        }
        Ok(())
    }
}

impl Drop for HeldRoom<'_> {
    fn drop(&mut self) {
        self.allocator.take_back(self.granules);
    }
}

impl DataStore {
    /// Has a granule in the buffer, as the file has it now.
    pub(super) fn fetch(&self, file: &Arc<File>, state: &mut FileState, granule: u64, held: &mut Held) -> FsResult {
        if !state.buffer.has(granule) {
            let page = match state.map.at(granule) {
                Some(at) => self.disk.read_page(at)?,
                None if self.disk.holds_no_bytes() => None,
                None => Some(zeros(self.granule_bytes)),
            };
            self.put_page(file, state, granule, page, held);
        }
        Ok(())
    }

    /// Has a granule with data in the buffer, to be changed in part: only where it is shared that takes room.
    pub(super) fn fetch_with_room(&self, file: &Arc<File>, state: &mut FileState, granule: u64) -> FsResult {
        let mut promise = HeldRoom::new(&self.allocator);
        promise.at_least(self.lacks(file, state, granule..granule + 1))?;
        self.fetch(file, state, granule, &mut promise.granules)
    }

    fn put_page(&self, file: &Arc<File>, state: &mut FileState, granule: u64, page: PageBytes, held: &mut Held) {
        let before = self.allocator.uses(state, granule..granule + 1);
        if !state.buffer.has(granule) {
            self.buffers.added(self.granule_bytes);
        }
        state.buffer.put(granule, page);
        let after = self.allocator.uses(state, granule..granule + 1);
        self.account(state, before, after, held);
        self.touch_data(file, state);
        self.buffers.queue(file, state);
    }

    /// Puts the bytes of `range` into the buffer; where a granule is not whole, the rest comes from the disk.
    pub(super) fn buffer(
        &self,
        file: &Arc<File>,
        state: &mut FileState,
        range: &Range<u64>,
        data: Data<'_>,
        held: &mut Held,
    ) -> FsResult {
        let granule = self.granule_bytes;
        let mut from = range.start;
        while from < range.end {
            let at = from / granule;
            let to = range.end.min((at + 1) * granule);
            let whole = to - from == granule;
            let bytes = data.part(from - range.start, to - from);
            match bytes {
                Data::Bytes(bytes) if whole => self.put_page(file, state, at, Some(bytes.into()), held),
                Data::Blank(_) if whole => self.put_page(file, state, at, None, held),
                part => {
                    self.fetch(file, state, at, held)?;
                    state.buffer.patch(at, granule, from - at * granule, part);
                }
            }
            from = to;
        }
        if !range.is_empty() {
            self.grown(state, range.end);
        }
        Ok(())
    }

    /// Before a file grows up to the byte `end`: what its last granule has behind the old end becomes zeros.
    pub(super) fn clear_tail(&self, file: &Arc<File>, state: &mut FileState, end: u64) -> FsResult {
        let (granule, behind) = (state.size / self.granule_bytes, state.size % self.granule_bytes);
        if end > state.size && behind > 0 && (state.map.at(granule).is_some() || state.buffer.has(granule)) {
            self.fetch_with_room(file, state, granule)?;
            state.buffer.clear(granule, behind, self.granule_bytes);
        }
        Ok(())
    }

    /// Before room is promised to a file that is to grow: its last granule may need some itself.
    pub(super) fn clear_shared_tail(&self, file: &Arc<File>, state: &mut FileState, end: u64) -> FsResult {
        if state.sharing.shares() { self.clear_tail(file, state, end) } else { Ok(()) }
    }

    /// Makes zeros of what `range` has of granules that it does not cover.
    pub(super) fn clear_edges(&self, file: &Arc<File>, state: &mut FileState, range: Range<u64>) -> FsResult {
        let granule = self.granule_bytes;
        let edge = |at: u64| (at, range.start.max(at * granule)..range.end.min((at + 1) * granule));
        let has_data = |state: &FileState, at| state.map.at(at).is_some() || state.buffer.has(at);
        let mut edges = vec![edge(range.start / granule), edge(range.end / granule)];
        edges.retain(|(at, part)| part.start < part.end && part.end - part.start < granule && has_data(state, *at));
        edges.dedup();
        // Both or none: there may be no room for the second.
        edges.iter().try_for_each(|(at, _)| self.fetch_with_room(file, state, *at))?;
        for (at, part) in edges {
            state.buffer.clear(at, part.start - at * granule, part.end - at * granule);
        }
        Ok(())
    }

    /// Promises room to what has none in `range`, all or nothing; of that, `emptied` becomes a hole first.
    pub(super) fn promise_range(
        &self,
        file: &Arc<File>,
        state: &mut FileState,
        range: Range<u64>,
        emptied: Range<u64>,
    ) -> FsResult {
        let mut held = self.lacks(file, state, range.clone());
        if held > 0 && self.beyond_host(held)? > 0 {
            return Err(Errno::ENOSPC.into());
        }
        self.allocator.promise(held)?;
        if emptied.start < emptied.end {
            self.rearrange(file, state, emptied.clone(), &mut 0, |state| {
                let old = state.map.remove(emptied.clone());
                state.promises.add(emptied);
                old
            });
        }
        let before = self.allocator.uses(state, range.clone());
        for piece in self.allocator.without_room(state.map.lookup(range.clone())) {
            state.promises.add(piece.first..piece.end());
        }
        let after = self.allocator.uses(state, range);
        self.account(state, before, after, &mut held);
        self.allocator.take_back(held);
        self.touch(file, state);
        Ok(())
    }

    /// Makes a file longer by a hole.
    pub(super) fn grow(&self, file: &Arc<File>, state: &mut FileState, size: u64) -> FsResult {
        self.clear_tail(file, state, size)?;
        self.grown(state, size);
        Ok(())
    }

    /// The file reaches to the byte `end` at least.
    pub(super) fn grown(&self, state: &mut FileState, end: u64) {
        state.size = state.size.max(end);
        if state.buffer.is_empty() {
            state.settled_size = state.size;
        }
    }

    /// Data or size of a file have changed, now.
    pub(super) fn now_changed(&self, file: &Arc<File>, state: &mut FileState) {
        let now = self.now();
        state.times = Some(Times { mtime: now, ctime: now });
        self.touch_data(file, state);
    }
}
