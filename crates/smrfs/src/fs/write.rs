//! Writing: large aligned parts go straight to the disk, the rest through the buffer.
//!
//! Room is promised before anything changes, so that a full disk is noticed here and not when the buffer is written out.
//! A writer that finds no place lets go of the file, has room made, and goes on.

use std::ops::Range;
use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::FileSystem;
use super::buffer::{PageBytes, zeros};
use super::counters::CleaningWork;
use super::file::{File, FileState};
use super::place::{Held, WriteBatch};
use crate::data::Data;
use crate::error::{Errno, FsResult};
use crate::units::NodeId;

/// Files end below this: places in a file and sums of two of them stay far from overflow.
pub(super) const SIZE_MAX: u64 = 1 << 62;

/// Room promised to one write under way; what is not used is given back.
struct Promise<'a> {
    fs: &'a FileSystem,
    granules: u64,
}

impl Promise<'_> {
    /// Raises it to `granules`, or says that there is no room.
    fn at_least(&mut self, granules: u64) -> FsResult {
        if granules > self.granules {
            self.fs.allocator.promise(granules - self.granules)?;
            self.granules = granules;
        }
        Ok(())
    }
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        self.fs.allocator.take_back(self.granules);
    }
}

impl FileSystem {
    /// Writes all of `data` from the byte `offset` on, or nothing (after an I/O error of the disk: perhaps some).
    pub fn write(&self, id: NodeId, offset: u64, data: Data<'_>) -> FsResult {
        self.changeable()?;
        let file = self.file(id)?;
        let bytes = data.bytes();
        if bytes == 0 {
            return Ok(());
        }
        if offset.checked_add(bytes).is_none_or(|end| end > SIZE_MAX) {
            return Err(Errno::EFBIG.into());
        }
        if matches!(data, Data::Blank(_)) {
            self.disk.hold_no_bytes();
        }
        let mut work = CleaningWork::default();
        self.again_with_room(&file, || self.write_data(&file, offset, data, &mut work))?;
        self.counters.host_written.add(bytes);
        self.balance(&mut work)?;
        self.clean_beside(&mut work)?;
        self.count(&work);
        Ok(())
    }

    /// Work that is told of no room is done once more after a commit, where others gave up what a file shared with them: until
    /// that is durable, it is not the file's to replace.
    pub(super) fn again_with_room(&self, file: &File, mut work: impl FnMut() -> FsResult) -> FsResult {
        let done = work();
        if !done.as_ref().is_err_and(|error| error.errno() == Errno::ENOSPC) || !file.look().shares {
            return done;
        }
        let cleaner = self.cleaner.alone();
        self.commit()?;
        drop(cleaner);
        work()
    }

    fn write_data(&self, file: &Arc<File>, offset: u64, data: Data<'_>, work: &mut CleaningWork) -> FsResult {
        let granule = self.granule_bytes;
        let end = offset + data.bytes();
        let direct = match data.bytes() >= self.options.direct_bytes {
            true => offset.div_ceil(granule)..(end / granule).max(offset.div_ceil(granule)),
            false => 0..0,
        };
        let (head, tail) = match direct.is_empty() {
            true => (offset..end, end..end),
            false => (offset..direct.start * granule, direct.end * granule..end),
        };
        let mut promise = Promise { fs: self, granules: 0 };
        let mut state = file.lock();
        if state.gone {
            return Err(Errno::ENOENT.into());
        }
        promise.at_least(self.lacks(file, &mut state, offset / granule..end.div_ceil(granule)))?;
        self.keep_room_on_host(data.bytes(), 0)?;
        self.clear_tail(file, &mut state, end)?;
        self.buffer(file, &mut state, &head, data.part(0, head.end - offset), &mut promise.granules)?;
        let mut at = direct.start;
        while at < direct.end {
            promise.at_least(self.lacks(file, &mut state, at..end.div_ceil(granule)))?;
            let rest = data.part(at * granule - offset, (direct.end - at) * granule);
            let run = at..direct.end;
            let load = WriteBatch::host(from_ref(&run), rest);
            let seen = self.allocator.progress();
            // What is buffered is older and goes first: a commit must not have a later write and not an earlier one.
            let laid = match self.write_out(file, &mut state)? {
                true => self.place_block(file, &mut state, &load, &mut promise.granules)?,
                false => None,
            };
            match laid {
                Some(count) => {
                    at += count;
                    self.grown(&mut state, at * granule);
                }
                None => {
                    state.stalled += 1;
                    drop(state);
                    let made = self.make_room(seen, work);
                    state = file.lock();
                    state.stalled -= 1;
                    made?;
                    if state.gone {
                        return Err(Errno::ENOENT.into());
                    }
                    // It may have been cut off meanwhile.
                    self.clear_tail(file, &mut state, end)?;
                }
            }
        }
        self.buffer(
            file,
            &mut state,
            &tail,
            data.part(tail.start - offset, tail.end - tail.start),
            &mut promise.granules,
        )?;
        self.now_changed(file, &mut state);
        Ok(())
    }

    /// Puts the bytes of `range` into the buffer; where a granule is not whole, the rest comes from the disk.
    fn buffer(
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
        let mut promise = Promise { fs: self, granules: 0 };
        promise.at_least(self.lacks(file, state, granule..granule + 1))?;
        self.fetch(file, state, granule, &mut promise.granules)
    }

    /// The granules of `range` that have to be promised before it can be written.
    pub(super) fn lacks(&self, file: &File, state: &mut FileState, range: Range<u64>) -> u64 {
        self.reclaim(file, state, range.clone());
        let uses = self.allocator.uses(state, range.clone());
        range.end.saturating_sub(range.start) - uses.mapped - uses.unplaced
    }

    fn put_page(&self, file: &Arc<File>, state: &mut FileState, granule: u64, page: PageBytes, held: &mut Held) {
        let before = self.allocator.uses(state, granule..granule + 1);
        if !state.buffer.has(granule) {
            self.buffers.added(self.granule_bytes);
        }
        state.buffer.put(granule, page);
        let after = self.allocator.uses(state, granule..granule + 1);
        self.account(state, before, after, held);
        self.touch(file, state);
        state.written = state.changes;
        self.buffers.queue(file, state);
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

    /// The file reaches to the byte `end` at least.
    pub(super) fn grown(&self, state: &mut FileState, end: u64) {
        state.size = state.size.max(end);
        if state.buffer.is_empty() {
            state.settled_size = state.size;
        }
    }

    /// Writes out buffers, the longest waiting first, until they keep to their limit.
    pub(super) fn balance(&self, work: &mut CleaningWork) -> FsResult {
        while self.buffers.bytes() > self.options.buffer_bytes && self.write_out_oldest(work)? {}
        Ok(())
    }

    /// Writes out the buffer of the file that waits longest; tells whether there was one.
    pub(super) fn write_out_oldest(&self, work: &mut CleaningWork) -> FsResult<bool> {
        let Some(file) = self.buffers.first() else { return Ok(false) };
        let result = self.write_out_all(&file, work);
        if result.is_err() {
            self.buffers.queue_again(&file, &mut file.lock());
        }
        result.map(|()| true)
    }

    /// Writes out what is buffered of a file, and has room made where there is none.
    pub(super) fn write_out_all(&self, file: &Arc<File>, work: &mut CleaningWork) -> FsResult {
        loop {
            let seen = self.allocator.progress();
            let mut state = file.lock();
            if self.write_out(file, &mut state)? {
                return Ok(());
            }
            drop(state);
            self.make_room(seen, work)?;
        }
    }

    /// EROFS where nothing may be changed.
    pub(super) fn changeable(&self) -> FsResult {
        let refused = self.unmounted.load(Relaxed) || self.disk.flush_failed();
        if self.options.read_only || refused { Err(Errno::EROFS.into()) } else { Ok(()) }
    }
}
