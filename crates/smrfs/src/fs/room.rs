//! Promises of room: it is promised when data is accepted, so that the disk never fills later.
//!
//! Overwritten data need no new room for good: the old place comes back with the commit.

use std::ops::Add;

use super::FileSystem;
use crate::error::{Errno, FsError, FsResult};

/// Room on the host beyond what has been accepted: for what is read back to be changed in part, for other writes of the same
/// moment, and for what the host notes of it all (assumption).
const SLACK_BYTES: u64 = 2 << 20;
/// Bytes that the store needs for a record: a block of the attributes' own (ext4).
const RECORD_BYTES: u64 = 4 << 10;
/// Bytes that an extent of a map takes in a part, roughly (assumption).
const EXTENT_BYTES: u64 = 8;

impl FileSystem {
    /// Sees to it that a write of `bytes` more, with `extents` more in maps, and what has been accepted before, finds room on the
    /// hosts of disk and store: who is told that a write has been done never hears later that there was no room.
    pub(super) fn keep_room_on_host(&self, bytes: u64, extents: u64) -> FsResult {
        let accepted = self.buffers.bytes() + bytes;
        self.disk.reserve(accepted + SLACK_BYTES).map_err(|error| no_room(error.into()))?;
        let files = self.pending.count() + 1;
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

/// That there is no room is no failure of the disk, whoever says so.
fn no_room(error: FsError) -> FsError {
    if error.errno() == Errno::ENOSPC { Errno::ENOSPC.into() } else { error }
}

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
