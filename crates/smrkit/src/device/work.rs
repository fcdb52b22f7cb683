//! Work that an array has under way: commands of the host, and its own. Work on the same stripes, or on the same sectors, is done one after
//! another, in the order of arrival.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

use super::Command;
use super::plan::{MemberPlan, Sub};
use super::redundancy::KnownSectors;
use crate::units::{Lba, Nanos};

/// Owner of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A command that came from outside.
    Host,
    /// The rebuilding of a part of a new member.
    Rebuild { disk: u32 },
    /// The verification of a part of all members.
    Scrub,
}

/// A part of an array's own work that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DonePart {
    /// The member's first sector.
    pub at: Lba,
    /// Number of sectors.
    pub sectors: u64,
    /// When it was begun.
    pub begin: Nanos,
    /// When it was done.
    pub end: Nanos,
}

/// A command under way.
pub(super) struct ArrayCommand {
    pub owner: Owner,
    pub command: Command,
    pub plan: MemberPlan,
    /// Commands of members that have not been completed.
    pub left: u32,
    /// True if the second part of the plan is under way.
    pub in_second_part: bool,
    /// When the first of its commands to members began; [`Nanos::MAX`] before that.
    pub start: Nanos,
    pub lock: Option<RangeLock>,
    /// Rebuilding: how often the member had been replaced when it was written to.
    pub replaced: u32,
    /// Contents that have been read, where commands carry any.
    pub known: KnownSectors,
}

impl ArrayCommand {
    /// A command, whose plan reuses the memory of that of a `recycled` one.
    #[inline]
    pub fn new(owner: Owner, command: Command, recycled: Option<&mut ArrayCommand>) -> ArrayCommand {
        let mut plan = recycled.map_or_else(MemberPlan::default, |recycled| std::mem::take(&mut recycled.plan));
        plan.clear();
        ArrayCommand {
            owner,
            start: Nanos::MAX,
            command,
            plan,
            left: 0,
            in_second_part: false,
            lock: None,
            replaced: 0,
            known: KnownSectors::default(),
        }
    }

    /// The commands of members that are under way.
    pub fn subs(&self) -> &[Sub] {
        if self.in_second_part { &self.plan.second } else { &self.plan.first }
    }
}

/// Entries by number. Numbers are reused. Written by hand, so that a removed entry can be read until its number is used again, and hands on
/// its memory.
pub(crate) struct Slab<T> {
    entries: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Adds the entry that `make` makes; returns its number. `make` gets the removed entry that had this number before, if there is one.
    #[inline]
    pub fn add(&mut self, make: impl FnOnce(Option<&mut T>) -> T) -> u32 {
        let Some(id) = self.free.pop() else {
            self.entries.push(make(None));
            return (self.entries.len() - 1) as u32;
        };
        let entry = &mut self.entries[id as usize];
        *entry = make(Some(entry));
        id
    }

    #[inline]
    pub fn get(&mut self, id: u32) -> &mut T {
        &mut self.entries[id as usize]
    }

    #[inline]
    pub fn remove(&mut self, id: u32) {
        self.free.push(id);
    }

    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

/// The sectors that a piece of work locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RangeLock {
    /// Rows of stripes, or sectors where there are no stripes.
    Extent {
        first: u64,
        last: u64,
        /// True if no other work may overlap; else other shared locks may.
        exclusive: bool,
    },
    /// Locks nothing, but waits for all earlier work that changes sectors.
    Flush,
}

struct HeldLock {
    last: u64,
    exclusive: bool,
    order: u64,
    /// How many earlier locks it waits for.
    blockers: u32,
}

/// A flush that waits for earlier writes.
struct WaitingFlush {
    order: u64,
    id: u32,
    /// How many of the writes have not been completed.
    writes: usize,
}

/// The locks of all work under way or waiting.
#[derive(Default)]
pub(super) struct Locks {
    /// Locks by their first row or sector.
    ranges: BTreeMap<(u64, u32), HeldLock>,
    /// The lock, while there is only one: it is found without a lookup.
    only: Option<(u32, RangeLock)>,
    flushes: Vec<WaitingFlush>,
    /// Length of the longest lock so far.
    longest: u64,
    next_order: u64,
}

impl Locks {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.only.is_none() && self.ranges.is_empty()
    }

    /// Takes a lock for work `id`; returns whether the work may begin at once. If not, a later [`Locks::release`] names it.
    #[inline]
    pub fn take(&mut self, id: u32, lock: RangeLock) -> bool {
        if self.is_empty() {
            self.only = (lock != RangeLock::Flush).then_some((id, lock));
            return true;
        }
        // No longer the only one: both go to `ranges`.
        if let Some((other, before)) = self.only.take() {
            self.insert(other, before);
        }
        self.insert(id, lock)
    }

    /// Adds a lock; returns `true` if no other lock blocks it.
    fn insert(&mut self, id: u32, lock: RangeLock) -> bool {
        self.next_order += 1;
        let order = self.next_order;
        let RangeLock::Extent { first, last, exclusive } = lock else {
            // A flush waits for the writes under way, and blocks nothing.
            let writes = self.ranges.values().filter(|held| held.exclusive).count();
            if writes > 0 {
                self.flushes.push(WaitingFlush { order, id, writes });
            }
            return writes == 0;
        };
        self.longest = self.longest.max(last - first);
        let near = self.ranges.range(near(first, last, self.longest));
        let blockers = near.filter(|(_, held)| held.last >= first && (held.exclusive || exclusive)).count() as u32;
        self.ranges.insert((first, id), HeldLock { last, exclusive, order, blockers });
        blockers == 0
    }

    /// Releases the lock of work `id`; adds the work that may begin now to `free`, in the order of arrival.
    #[inline]
    pub fn release(&mut self, id: u32, lock: RangeLock, free: &mut VecDeque<u32>) {
        let RangeLock::Extent { first, last, exclusive } = lock else { return };
        match self.only {
            // Nobody waits for it, because a second lock would have moved it to `ranges`.
            Some(_) => self.only = None,
            None => self.remove((first, id), last, exclusive, free),
        }
    }

    /// Removes a lock, and adds the work that only this one blocked to `free`, in order of arrival.
    fn remove(&mut self, key: (u64, u32), last: u64, exclusive: bool, free: &mut VecDeque<u32>) {
        let Some(done) = self.ranges.remove(&key) else { return };
        let mut begin: Vec<(u64, u32)> = Vec::new();
        for ((_, id), held) in self.ranges.range_mut(near(key.0, last, self.longest)) {
            // Only locks that came later counted this one among their blockers.
            if held.order > done.order && held.last >= key.0 && (held.exclusive || exclusive) {
                held.blockers -= 1;
                if held.blockers == 0 {
                    begin.push((held.order, *id));
                }
            }
        }
        if exclusive {
            self.flushes.iter_mut().filter(|flush| flush.order > done.order).for_each(|flush| flush.writes -= 1);
            begin.extend(self.flushes.extract_if(.., |flush| flush.writes == 0).map(|flush| (flush.order, flush.id)));
        }
        begin.sort_unstable();
        free.extend(begin.into_iter().map(|(_, id)| id));
        if self.ranges.is_empty() {
            self.longest = 0;
        }
    }
}

/// Range of the locks that may overlap one from `first` to `last`, if none is longer than `longest`.
fn near(first: u64, last: u64, longest: u64) -> RangeInclusive<(u64, u32)> {
    (first.saturating_sub(longest), 0)..=(last, u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(first: u64, last: u64, exclusive: bool) -> RangeLock {
        RangeLock::Extent { first, last, exclusive }
    }

    fn released(locks: &mut Locks, id: u32, lock: RangeLock) -> Vec<u32> {
        let mut free = VecDeque::new();
        locks.release(id, lock, &mut free);
        free.into()
    }

    #[test]
    fn overlapping_work_waits_for_all_before_it_and_goes_in_order() {
        let mut locks = Locks::default();
        let locked = [(0, 9), (20, 20), (9, 20), (5, 5), (20, 25)].map(|(first, last)| lock(first, last, first != 5));
        assert!(locks.take(1, locked[0]));
        assert!(locks.take(2, locked[1]));
        assert!(!locks.take(3, locked[2]));
        assert!(!locks.take(4, locked[3]));
        assert!(!locks.take(5, locked[4]), "behind a lock that waits itself");
        assert_eq!(released(&mut locks, 1, locked[0]), [4]);
        assert_eq!(released(&mut locks, 2, locked[1]), [3]);
        assert_eq!(released(&mut locks, 3, locked[2]), [5]);
    }

    #[test]
    fn what_is_shared_waits_only_for_who_is_alone() {
        let mut locks = Locks::default();
        assert!(locks.take(1, lock(0, 9, false)));
        assert!(locks.take(2, lock(3, 4, false)));
        assert!(!locks.take(3, lock(4, 4, true)));
        assert_eq!(released(&mut locks, 1, lock(0, 9, false)), [0; 0]);
        assert_eq!(released(&mut locks, 2, lock(3, 4, false)), [3]);
    }

    #[test]
    fn a_flush_waits_for_the_writes_before_it_and_holds_up_nothing() {
        let mut locks = Locks::default();
        assert!(locks.take(1, RangeLock::Flush), "nothing to wait for");
        assert!(locks.take(2, lock(0, 9, true)));
        assert!(locks.take(3, lock(20, 29, false)));
        assert!(!locks.take(4, lock(5, 5, true)));
        assert!(!locks.take(5, RangeLock::Flush));
        assert!(locks.take(6, lock(100, 100, true)), "it came after the flush");
        assert_eq!(released(&mut locks, 6, lock(100, 100, true)), [0; 0]);
        assert_eq!(released(&mut locks, 3, lock(20, 29, false)), [0; 0]);
        assert_eq!(released(&mut locks, 2, lock(0, 9, true)), [4]);
        assert_eq!(released(&mut locks, 4, lock(5, 5, true)), [5]);
        assert!(locks.is_empty());
    }
}
