//! Spare S-blocks: how the S-block buffer's tail moves on (V.5), a little with each write that cleans.
//!
//! The paper moves the tail once the buffer is full, by as many S-blocks as it takes; under skewed demands that is nearly all
//! of them, inside one write. Here (assumption) spare S-blocks are the slack that spreads the moves. A write that cleans
//! and destages nothing moves one while fewer than three quarters of them are free; and where the tail has so far to go that
//! they would be used up first, every write that cleans moves its share of the way.

use serde::{Deserialize, Serialize};

use super::SBlock;
use super::gather::{kept, taken};
use super::keys::DestagePolicy;
use crate::disk::Disk;
use crate::error::DiskResult;

/// Factor by which the tail moves faster than it would have to if destages stay as frequent as they were.
const HASTE: u64 = 2;

/// Number of writes that cleaned since the layer was built, and of those that destaged an S-block.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct CleaningFrequency {
    cleanings: u64,
    destages: u64,
}

impl CleaningFrequency {
    /// A write has cleaned, and destaged this many S-blocks.
    fn note(&mut self, destages: u64) {
        self.cleanings += 1;
        self.destages += destages;
    }

    /// The S-blocks to move now where the tail has to pass `way` of them before this many more destages.
    fn moves(&self, way: u64, destages: u64) -> u64 {
        let writes = destages * (self.cleanings / self.destages.max(1)).max(1);
        (HASTE * way / writes.max(1)).clamp(1, way.max(1))
    }
}

impl SBlock {
    /// Moves the tail on until this many S-blocks fit and the buffer is not full. It comes after the S-block that was added,
    /// not before, so that a copy at the tail which that one replaces need not move.
    pub(super) fn defrag_slots(&mut self, disk: &mut Disk, section: usize, more: u64) -> DiskResult {
        if self.slots[section].used() + more > self.slots[section].limit {
            self.counts.first_cleaning_request.get_or_insert(disk.requests());
        }
        while self.slots[section].used() + more > self.slots[section].limit {
            self.advance_slots_tail(disk, section)?;
        }
        Ok(())
    }

    /// Moves as many S-blocks as are due with a write that cleans and has destaged this many; of those that can wait none, if
    /// it destaged any.
    pub(super) fn keep_spares(&mut self, disk: &mut Disk, section: usize, destages: u64) -> DiskResult {
        self.pace.note(destages);
        self.slots[section].skip_invalid();
        let spare = self.slots[section].spare();
        let share = self.rules.reclaim_ahead.max(0.75);
        let Some(way) = self.way_of_tail(section).filter(|way| *way > 0) else { return Ok(()) };
        if spare >= way + (self.layout.spares as f64 * share) as u64 || destages > 0 && spare >= way {
            return Ok(());
        }
        for _ in 0..self.pace.moves(way, spare + 1) {
            self.advance_slots_tail(disk, section)?;
        }
        self.slots[section].skip_invalid();
        Ok(())
    }

    /// Number of S-blocks between the tail and the next slot that it gives up for nothing, or will once its S-block is
    /// destaged; `None` where all slots are valid.
    fn way_of_tail(&self, section: usize) -> Option<u64> {
        let slots = &self.slots[section];
        let invalid = slots.valid_at_tail()?;
        match self.rules.policy {
            DestagePolicy::ClosestToTail => {
                let next = slots.cached_from_tail().next().map(|slot| slots.distance(slot));
                Some(next.map_or(invalid, |next| next.min(invalid)))
            }
            _ => Some(invalid),
        }
    }

    /// The tail moves on by a slot, past a copy at the head if its S-block is valid.
    pub(super) fn advance_slots_tail(&mut self, disk: &mut Disk, section: usize) -> DiskResult {
        let mut buf = taken(&mut self.sblock_buf, disk, self.size.value() + 1);
        let moved = self.slots[section].advance(disk, self.epoch, self.done, &mut buf)?;
        self.sblock_buf = kept(buf);
        self.counts.sblocks_moved += u64::from(moved);
        Ok(())
    }
}
