//! Sizes, holes and promises of room.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::RwLockWriteGuard;

use super::file::{File, FileState};
use super::write::SIZE_MAX;
use super::{Allocate, FileSystem};
use crate::error::{Errno, FsResult};
use crate::units::NodeId;

/// Behind every granule of every file.
pub(super) const BEHIND_ALL: u64 = 1 << 56;

impl FileSystem {
    /// Makes a file as long as `size`: what is cut off is gone, what is added is a hole.
    pub(super) fn truncate(&self, id: NodeId, size: u64) -> FsResult {
        if size > SIZE_MAX {
            return Err(Errno::EFBIG.into());
        }
        let file = self.file(id)?;
        let mut state = alive(&file)?;
        if size < state.size {
            self.drop_behind(&file, &mut state, size.div_ceil(self.granule_bytes));
            state.size = size;
            state.settled_size = state.settled_size.min(size);
        } else {
            self.grow(&file, &mut state, size)?;
        }
        self.now_changed(&file, &mut state);
        Ok(())
    }

    /// Makes a file longer by a hole.
    fn grow(&self, file: &Arc<File>, state: &mut FileState, size: u64) -> FsResult {
        self.clear_tail(file, state, size)?;
        self.grown(state, size);
        Ok(())
    }

    /// Drops data and promises from granule `first` of the file on.
    pub(super) fn drop_behind(&self, file: &Arc<File>, state: &mut FileState, first: u64) {
        let end = state.map.end().max(state.buffer.end());
        if end <= first && state.promised.is_empty() {
            return;
        }
        let range = first..BEHIND_ALL;
        self.rearrange(file, state, range.clone(), &mut 0, |state| state.map.remove(range));
        self.touch(file, state);
    }

    /// Promises room, makes holes, makes zeros.
    pub fn allocate(&self, id: NodeId, how: Allocate, offset: u64, bytes: u64) -> FsResult {
        self.changeable()?;
        if bytes == 0 {
            return Err(Errno::EINVAL.into());
        }
        let end = offset.checked_add(bytes).filter(|&end| end <= SIZE_MAX).ok_or(Errno::EFBIG)?;
        let file = self.file(id)?;
        let mut state = alive(&file)?;
        let whole = offset.div_ceil(self.granule_bytes)..end / self.granule_bytes;
        let all = offset / self.granule_bytes..end.div_ceil(self.granule_bytes);
        match how {
            Allocate::Extend => {
                self.clear_shared_tail(&file, &mut state, end)?;
                self.promise_range(&file, &mut state, all, 0..0)?;
                self.grow(&file, &mut state, end)?;
            }
            Allocate::KeepSize => self.promise_range(&file, &mut state, all, 0..0)?,
            Allocate::Punch => {
                self.clear_edges(&file, &mut state, offset..end)?;
                if whole.start < whole.end {
                    self.rearrange(&file, &mut state, whole.clone(), &mut 0, |state| state.map.remove(whole));
                }
            }
            Allocate::Zero(extend) => {
                if extend {
                    self.clear_shared_tail(&file, &mut state, end)?;
                }
                self.promise_range(&file, &mut state, all, whole)?;
                self.clear_edges(&file, &mut state, offset..end)?;
                if extend {
                    self.grow(&file, &mut state, end)?;
                }
            }
        }
        self.now_changed(&file, &mut state);
        Ok(())
    }

    /// Before room is promised to a file that is to grow: its last granule may need some itself.
    fn clear_shared_tail(&self, file: &Arc<File>, state: &mut FileState, end: u64) -> FsResult {
        if state.shares { self.clear_tail(file, state, end) } else { Ok(()) }
    }

    /// Promises room to what has none in `range`, all or nothing; of that, `emptied` becomes a hole first.
    fn promise_range(
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
                state.promised.insert(emptied);
                old
            });
        }
        let before = self.allocator.uses(state, range.clone());
        for piece in self.allocator.without_room(state.map.lookup(range.clone())) {
            state.promised.insert(piece.first..piece.end());
        }
        let after = self.allocator.uses(state, range);
        self.account(state, before, after, &mut held);
        self.allocator.take_back(held);
        self.touch(file, state);
        Ok(())
    }

    /// Makes zeros of what `range` has of granules that it does not cover.
    fn clear_edges(&self, file: &Arc<File>, state: &mut FileState, range: Range<u64>) -> FsResult {
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
}

/// The state of a file that still has its data, to change.
pub(super) fn alive(file: &File) -> FsResult<RwLockWriteGuard<'_, FileState>> {
    let state = file.lock();
    if state.gone { Err(Errno::ENOENT.into()) } else { Ok(state) }
}
