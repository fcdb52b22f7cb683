//! Sizes, holes and promises of room.

use super::write::SIZE_MAX;
use super::{Allocate, FileSystem};
use crate::error::{Errno, FsResult};
use crate::units::NodeId;

impl FileSystem {
    /// Makes a file as long as `size`: what is cut off is gone, what is added is a hole.
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
        self.data.now_changed(&file, &mut state);
        Ok(())
    }

    /// Promises room, makes holes, makes zeros.
    pub fn allocate(&self, id: NodeId, how: Allocate, offset: u64, bytes: u64) -> FsResult {
        self.changeable()?;
        if bytes == 0 {
            return Err(Errno::EINVAL.into());
        }
        let end = offset.checked_add(bytes).filter(|&end| end <= SIZE_MAX).ok_or(Errno::EFBIG)?;
        let file = self.file(id)?;
        let mut state = file.lock_alive()?;
        let whole = offset.div_ceil(self.data.granule_bytes)..end / self.data.granule_bytes;
        let all = offset / self.data.granule_bytes..end.div_ceil(self.data.granule_bytes);
        match how {
            Allocate::Extend => {
                self.data.clear_shared_tail(&file, &mut state, end)?;
                self.data.promise_range(&file, &mut state, all, 0..0)?;
                self.data.grow(&file, &mut state, end)?;
            }
            Allocate::KeepSize => self.data.promise_range(&file, &mut state, all, 0..0)?,
            Allocate::Punch => {
                self.data.clear_edges(&file, &mut state, offset..end)?;
                if whole.start < whole.end {
                    self.data.rearrange(&file, &mut state, whole.clone(), &mut 0, |state| state.map.remove(whole));
                }
            }
            Allocate::Zero(extend) => {
                if extend {
                    self.data.clear_shared_tail(&file, &mut state, end)?;
                }
                self.data.promise_range(&file, &mut state, all, whole)?;
                self.data.clear_edges(&file, &mut state, offset..end)?;
                if extend {
                    self.data.grow(&file, &mut state, end)?;
                }
            }
        }
        self.data.now_changed(&file, &mut state);
        Ok(())
    }
}
