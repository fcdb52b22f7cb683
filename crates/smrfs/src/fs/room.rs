//! Promises of room: it is promised when data is accepted, so that the disk never fills later.
//!
//! Overwritten data need no new room for good: the old place comes back with the commit.

use std::ops::Add;

use crate::error::{Errno, FsResult};

/// Granules in use and promised, over all files.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rooms {
    /// Room that files can fill in all.
    pub usable: u64,
    /// In the maps in memory; what is shared, once.
    pub mapped: u64,
    /// To data in memory that has no place yet, by fallocate, and to writes under way.
    pub promised: u64,
}

impl Rooms {
    /// Room that can still be promised.
    pub(super) fn free(&self) -> u64 {
        self.usable.saturating_sub(self.mapped.saturating_add(self.promised))
    }

    /// True if there is room for all that was promised.
    pub(super) fn is_kept(&self) -> bool {
        self.mapped.saturating_add(self.promised) <= self.usable
    }

    /// Promises `granules`, all or none.
    pub(super) fn promise(&mut self, granules: u64) -> FsResult {
        if granules > 0 && granules > self.free() {
            return Err(Errno::ENOSPC.into());
        }
        self.promised += granules;
        Ok(())
    }

    /// Takes a promise back.
    pub(super) fn take_back(&mut self, granules: u64) {
        debug_assert!(granules <= self.promised, "{granules} taken back of {} promised", self.promised);
        self.promised = self.promised.saturating_sub(granules);
    }

    /// Shared extents of `more` granules have a place in some map, and of `less` in none.
    pub(super) fn recount(&mut self, more: u64, less: u64) {
        self.mapped = (self.mapped + more).saturating_sub(less);
    }

    /// Something that used `before` uses `after` now.
    pub(super) fn change(&mut self, before: Use, after: Use) {
        self.mapped = (self.mapped + after.mapped).saturating_sub(before.mapped);
        self.promised = (self.promised + after.unplaced).saturating_sub(before.unplaced);
    }
}

impl Add for Use {
    type Output = Use;

    fn add(self, other: Use) -> Use {
        Use { mapped: self.mapped + other.mapped, unplaced: self.unplaced + other.unplaced }
    }
}

/// Room that a range of a file needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Use {
    /// Granules with a place on the disk.
    pub mapped: u64,
    /// Granules without, but with a right to one: buffered, or promised by fallocate.
    pub unplaced: u64,
}
