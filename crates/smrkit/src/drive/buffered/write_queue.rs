//! A drive's write cache: the writes that wait for the media, and the room that they and the one at work take.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::state::state;
use crate::units::{Nanos, Pba};

/// A write that the host was told is done.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Pending {
    pub pba: Pba,
    pub sectors: u64,
    since: Nanos,
}

/// Counts of a `WriteQueue` are each of granules of this many sectors, and as many as writes of 8 KiB fit into it, so that few
/// stand for several writes; at most these, 32 KiB.
const GRANULE_SECTORS: u64 = 128;
const COUNTS_MAX: u64 = 1 << 13;

/// Writes that wait for the media. Most reads find by one count that none of them holds their sectors.
#[derive(Clone, Debug)]
pub(super) struct WriteQueue {
    /// The sectors that it has room for.
    room: u64,
    writes: VecDeque<Pending>,
    /// Sectors in `writes`, and of the write that the media is doing.
    queued: u64,
    writing: u64,
    /// Granules in `writes`, by their number modulo the counts.
    granules: Vec<u32>,
}

state! {
    WriteQueue {
        sized: granules;
        values: writes, queued, writing;
        built: room;
    }
}

impl WriteQueue {
    pub fn new(room: u64) -> Self {
        let counts = (room / 16).clamp(1, COUNTS_MAX).next_power_of_two() as usize;
        Self { room, writes: VecDeque::new(), queued: 0, writing: 0, granules: vec![0; counts] }
    }

    /// True if a write is not too long for it.
    pub fn takes(&self, sectors: u64) -> bool {
        sectors <= self.room
    }

    /// True if a write finds room at once.
    pub fn has_room(&self, sectors: u64) -> bool {
        self.queued + self.writing + sectors <= self.room
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        (self.queued, self.writing) = (0, 0);
        self.writes.clear();
        self.granules.fill(0);
    }

    /// Place of a granule's count.
    fn place(&self, granule: u64) -> usize {
        granule as usize & (self.granules.len() - 1)
    }

    fn recount(&mut self, granules: std::ops::RangeInclusive<u64>, change: impl Fn(u32) -> u32) {
        for granule in granules {
            let place = self.place(granule);
            self.granules[place] = change(self.granules[place]);
        }
    }

    /// Adds a write that is complete for the host at `since`, to the last one if it continues it.
    pub fn push(&mut self, pba: Pba, sectors: u64, since: Nanos) {
        self.queued += sectors;
        let last = (pba.0 + sectors - 1) / GRANULE_SECTORS;
        let mut first = pba.0 / GRANULE_SECTORS;
        match self.writes.back_mut() {
            Some(before) if before.pba + before.sectors == pba => {
                before.sectors += sectors;
                first = (pba.0 - 1) / GRANULE_SECTORS + 1;
            }
            _ => self.writes.push_back(Pending { pba, sectors, since }),
        }
        self.recount(first..=last, |count| count + 1);
    }

    /// When the next write was complete for the host.
    pub fn next(&self) -> Option<Nanos> {
        self.writes.front().map(|next| next.since)
    }

    /// The media begins the next write.
    pub fn begin(&mut self) -> Option<Pending> {
        let next = self.writes.pop_front()?;
        self.queued -= next.sectors;
        self.writing = next.sectors;
        let granules = next.pba.0 / GRANULE_SECTORS..=(next.pba.0 + next.sectors - 1) / GRANULE_SECTORS;
        self.recount(granules, |count| count - 1);
        Some(next)
    }

    /// The write that the media was doing is done: its room is free.
    pub fn written(&mut self) {
        self.writing = 0;
    }

    /// True if one write has all sectors from `pba` to `end`.
    pub fn holds(&self, pba: Pba, end: Pba) -> bool {
        self.granules[self.place(pba.0 / GRANULE_SECTORS)] > 0
            && self.writes.iter().any(|w| w.pba <= pba && end <= w.pba + w.sectors)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Runs in a row make one write; starts and ends lie on both sides of granules, and granules share counts.
        #[test]
        fn queued_writes_are_found_as_by_looking_at_each(
            operations in vec((0_u64..3, 0_u64..6, 0_u64..4, 1_u64..400), 1..60),
            probes in vec((0_u64..3, 0_u64..6, 0_u64..4, 1_u64..400), 1..40),
        ) {
            const COUNTS: u64 = 64;
            let place = |around: u64, granule: u64, by: u64| {
                Pba((around * COUNTS + granule) * GRANULE_SECTORS + [0, 1, 60, 127][by as usize])
            };
            let (mut cache, mut next) = (WriteQueue::new(COUNTS * 16), Pba(0));
            for (around, granule, by, sectors) in operations {
                match sectors % 5 {
                    0 => drop(cache.begin()),
                    1 => cache.push(next, sectors, Nanos::ZERO),
                    _ => cache.push(place(around, granule, by), sectors, Nanos::ZERO),
                }
                next = cache.writes.back().map_or(next, |last| last.pba + last.sectors);
                prop_assert_eq!(cache.queued, cache.writes.iter().map(|write| write.sectors).sum::<u64>());
                for &(around, granule, by, sectors) in &probes {
                    let (from, end) = (place(around, granule, by), place(around, granule, by) + sectors);
                    let one_by_one = cache.writes.iter().any(|w| w.pba <= from && end <= w.pba + w.sectors);
                    prop_assert_eq!(cache.holds(from, end), one_by_one);
                }
            }
            while cache.begin().is_some() {}
            prop_assert!(cache.granules.iter().all(|count| *count == 0));
        }
    }
}
