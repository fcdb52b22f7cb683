//! Writing: large aligned parts go straight to the disk, the rest through the buffer; sizes, holes and promises of room.
//!
//! A writer that finds no place unlocks the file, makes room, and continues.

use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::file::File;
use super::place::{PromisedRoom, WriteBatch};
use super::statistics::CleaningWork;
use super::{Allocate, FileSystem};
use crate::data::Data;
use crate::error::{Errno, FsResult};
use crate::units::NodeId;

/// The largest size, so that the sum of two offsets doesn't overflow.
pub(super) const SIZE_MAX: u64 = 1 << 62;

impl FileSystem {
    /// Writes all of `data` from byte `offset` on, or nothing (after an I/O error of the disk, perhaps a part).
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
            self.data.disk.is_blank.store(true, Relaxed);
        }
        let mut work = CleaningWork::default();
        self.retry_after_commit(&file, || self.write_data(&file, offset, data, &mut work))?;
        self.data.counters.lock().host_written_bytes += bytes;
        // While the buffers of all files are over their limit, the longest waiting is written out.
        while self.data.buffers.bytes() > self.options.buffer_bytes && self.write_out_oldest(&mut work)? {}
        self.clean_while_writing(&mut work)?;
        self.data.counters.lock().count(&work);
        Ok(())
    }

    /// Does `work`, and does it once more after a commit if it finds no room and the file shares extents.
    pub(super) fn retry_after_commit(&self, file: &File, mut work: impl FnMut() -> FsResult) -> FsResult {
        let result = work();
        if !result.as_ref().is_err_and(|error| error.errno() == Errno::ENOSPC) || !file.look().shares {
            return result;
        }
        // Other files may have given up extents that they shared with this file. Until a commit their durable maps name these extents, so
        // they still count as shared, and overwriting them needs room. After the commit `reclaim` ends the sharing. The cleaner's lock must
        // be taken before that of commits.
        let cleaner = self.cleaning.lock();
        self.commit()?;
        drop(cleaner);
        work()
    }

    /// Writes `data` from byte `offset` on: whole granules of a large write straight to the disk, all else to the buffer.
    fn write_data(&self, file: &Arc<File>, offset: u64, data: Data<'_>, work: &mut CleaningWork) -> FsResult {
        let granule = self.data.granule_bytes;
        let end = offset + data.bytes();
        let first_whole = offset.div_ceil(granule);
        let is_large = data.bytes() >= self.options.direct_bytes;
        let direct = if is_large { first_whole..(end / granule).max(first_whole) } else { 0..0 };
        let (mut head, mut tail) = (offset..end, end..end);
        if !direct.is_empty() {
            (head, tail) = (offset..direct.start * granule, direct.end * granule..end);
        }
        let mut promise = PromisedRoom::new(&self.data.allocator);
        let mut state = file.lock_alive()?;
        promise.raise_to(self.data.granules_to_promise(file, &mut state, offset / granule..end.div_ceil(granule)))?;
        self.data.reserve_on_host(data.bytes(), 0)?;
        self.data.clear_tail(file, &mut state, end)?;
        self.data.buffer(file, &mut state, &head, data.part(0, head.end - offset), &mut promise.granules)?;
        let mut at = direct.start;
        while at < direct.end {
            promise.raise_to(self.data.granules_to_promise(file, &mut state, at..end.div_ceil(granule)))?;
            let rest = data.part(at * granule - offset, (direct.end - at) * granule);
            let run = at..direct.end;
            let batch = WriteBatch::host(from_ref(&run), rest);
            let seen = self.data.allocator.progress();
            // Buffered data is older and goes first, because a commit must not include a later write without an earlier one.
            let mut placed = None;
            if self.data.write_out(file, &mut state)? {
                placed = self.data.place_block(file, &mut state, &batch, &mut promise.granules)?;
            }
            match placed {
                Some(count) => {
                    at += count;
                    self.data.raise_size(&mut state, at * granule);
                }
                None => {
                    // Unlocked, because making room may have to lock this file. Its extents must not become shared meanwhile, because the
                    // room was promised for unshared ones.
                    state.stalled_writes += 1;
                    drop(state);
                    let made_room = self.make_room(seen, work);
                    state = file.lock();
                    state.stalled_writes -= 1;
                    made_room?;
                    if state.is_gone {
                        return Err(Errno::ENOENT.into());
                    }
                    // The file may have been truncated meanwhile.
                    self.data.clear_tail(file, &mut state, end)?;
                }
            }
        }
        let rest = data.part(tail.start - offset, tail.end - tail.start);
        self.data.buffer(file, &mut state, &tail, rest, &mut promise.granules)?;
        self.data.note_data_change(file, &mut state);
        Ok(())
    }

    /// Sets the size of a file: drops data beyond it, or adds a hole.
    pub(super) fn truncate(&self, id: NodeId, size: u64) -> FsResult {
        if size > SIZE_MAX {
            return Err(Errno::EFBIG.into());
        }
        let file = self.file(id)?;
        let mut state = file.lock_alive()?;
        if size < state.size {
            self.data.drop_behind(&file, &mut state, size.div_ceil(self.data.granule_bytes));
            state.size = size;
            state.settled_size = state.settled_size.min(size);
        } else {
            self.data.grow(&file, &mut state, size)?;
        }
        self.data.note_data_change(&file, &mut state);
        Ok(())
    }

    /// Allocates, punches or zeroes a range, as fallocate(2) does.
    pub fn allocate(&self, id: NodeId, mode: Allocate, offset: u64, bytes: u64) -> FsResult {
        self.changeable()?;
        if bytes == 0 {
            return Err(Errno::EINVAL.into());
        }
        let end = offset.checked_add(bytes).filter(|&end| end <= SIZE_MAX).ok_or(Errno::EFBIG)?;
        let file = self.file(id)?;
        let mut state = file.lock_alive()?;
        let nothing = 0..0;
        // Granules that lie wholly in the range, and those of which it has at least a part.
        let inside = offset.div_ceil(self.data.granule_bytes)..end / self.data.granule_bytes;
        let touched = offset / self.data.granule_bytes..end.div_ceil(self.data.granule_bytes);
        match mode {
            Allocate::Extend => {
                self.data.clear_shared_tail(&file, &mut state, end)?;
                self.data.promise_range(&file, &mut state, touched, nothing)?;
                self.data.grow(&file, &mut state, end)?;
            }
            Allocate::KeepSize => self.data.promise_range(&file, &mut state, touched, nothing)?,
            Allocate::Punch => {
                self.data.clear_edges(&file, &mut state, offset..end)?;
                if inside.start < inside.end {
                    self.data
                        .replace_ranges(&file, &mut state, &[inside], &mut 0, |state, range| state.map.remove(range));
                }
            }
            Allocate::Zero(extend) => {
                if extend {
                    self.data.clear_shared_tail(&file, &mut state, end)?;
                }
                self.data.promise_range(&file, &mut state, touched, inside)?;
                self.data.clear_edges(&file, &mut state, offset..end)?;
                if extend {
                    self.data.grow(&file, &mut state, end)?;
                }
            }
        }
        self.data.note_data_change(&file, &mut state);
        Ok(())
    }
}
