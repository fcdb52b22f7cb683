//! Promises of room: it is promised when data is accepted, so that the disk never fills later.
//!
//! Overwritten data need no new room for good: the old place comes back with the commit.

use std::ops::{Add, Range};

use super::buffer::Buffer;
use crate::error::{Errno, FsResult};
use crate::map::{FileMap, FilePiece, Ranges};

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
    /// Granules that have no place yet but are promised one.
    pub unplaced: u64,
}

/// Granules of one file that fallocate promised a place to, and the number of those that wait for one.
#[derive(Default)]
pub(super) struct Promises {
    ranges: Ranges,
    /// Granules without a place, promised by fallocate or buffered.
    unplaced: u64,
}

impl Promises {
    /// Promises of `granules` that a record names: it tells how many, and they are taken to be the first that are `shared`, and
    /// then the first holes of the map.
    pub(super) fn of_record(granules: u64, shared: &[FilePiece], map: &FileMap) -> Promises {
        let mut promises = Promises { unplaced: granules, ..Promises::default() };
        let (mut left, mut at) = (granules, 0);
        for piece in shared {
            let count = piece.count.min(left);
            promises.add(piece.first..piece.first + count);
            left -= count;
        }
        while left > 0 {
            let hole = map.next_hole(at);
            let end = map.next_data(hole).unwrap_or(u64::MAX).min(hole + left);
            promises.add(hole..end);
            left -= end - hole;
            at = end;
        }
        promises
    }

    pub(super) fn add(&mut self, range: Range<u64>) {
        self.ranges.insert(range);
    }

    pub(super) fn remove(&mut self, range: Range<u64>) {
        self.ranges.remove(range);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Granules that fallocate promised.
    pub(super) fn granules(&self) -> u64 {
        self.ranges.count()
    }

    /// Granules without a place, promised or buffered.
    pub(super) fn unplaced(&self) -> u64 {
        self.unplaced
    }

    /// Granules of `range`, a hole or shared, that are promised or buffered.
    pub(super) fn unplaced_in(&self, range: Range<u64>, buffer: &Buffer) -> u64 {
        let buffered = buffer.within(range.clone()).filter(|&granule| !self.ranges.contains(granule));
        self.ranges.count_within(range) + buffered.count() as u64
    }

    /// A range of the file used `before` and uses `after`.
    pub(super) fn change(&mut self, before: Use, after: Use) {
        self.unplaced = self.unplaced + after.unplaced - before.unplaced;
    }
}
