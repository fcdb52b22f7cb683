//! The table of segments: which are free, open and closed, what each holds, how much of it is live, and how old it is.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::LogRules;
use super::layout::{SegmentLayout, SegmentPlace};
use super::victims::Victims;
use crate::layer::prelude::*;

/// Use of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SegmentState {
    /// To be written from its start.
    Free,
    /// Being filled.
    Open,
    /// Full, until it is cleaned.
    Closed,
    /// Its live sectors are being moved.
    Cleaned,
}

words! {
    /// Order in which free segments are used.
    pub(in crate::layer) enum FreeOrder {
        /// The one that was freed first.
        Oldest = "oldest",
        /// The one with the lowest number, nearest to the outer edge.
        Lowest = "lowest",
        /// The one with the next higher number after the last that was taken; the lowest follows the highest.
        RoundRobin = "round-robin",
    }
}

/// The entries of a segment. A segment written in order needs no memory on the heap.
pub(super) type Entries = SmallVec<[SegmentEntry; 2]>;

pub(super) struct Segment {
    pub(super) place: SegmentPlace,
    pub(super) state: SegmentState,
    /// Sectors from the start on that have been written or skipped.
    pub(super) filled: u32,
    /// Sectors among them that the map points to.
    pub(super) live: u32,
    /// Bucket in which the policy keeps it.
    pub(super) bucket: u16,
    /// Stream that filled it.
    pub(super) stream: u8,
    /// Age of its youngest data: how many sectors the host had written when it wrote that.
    pub(super) youngest: u64,
    /// Its entries, from the start on.
    pub(super) entries: Entries,
}

state! {
    Segment {
        values: state, filled, live, bucket, stream, youngest, entries;
        built: place;
    }
}

impl Segment {
    pub(super) fn new(place: SegmentPlace) -> Segment {
        Segment {
            place,
            state: SegmentState::Free,
            filled: 0,
            live: 0,
            bucket: 0,
            stream: 0,
            youngest: 0,
            entries: Entries::new(),
        }
    }

    /// Place of the next sector to be written.
    #[inline]
    pub(super) fn head(&self) -> Pba {
        self.place.start + u64::from(self.filled)
    }

    /// Sectors that can still be written.
    #[inline]
    pub(super) fn room(&self) -> u64 {
        u64::from(self.place.sectors - self.filled)
    }

    /// Sectors without live data.
    #[inline]
    pub(super) fn dead(&self) -> u64 {
        u64::from(self.place.sectors - self.live)
    }
}

/// Consecutive sectors written to a segment: the first LBA (40 bits) and how many (24 bits). They begin where the previous entry's end.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct SegmentEntry(u64);

const COUNT_BITS: u32 = 24;
const SECTORS_MAX: u64 = (1 << COUNT_BITS) - 1;
/// An LBA that no drive has: marks skipped sectors.
const NOTHING: u64 = (1 << (64 - COUNT_BITS)) - 1;

impl SegmentEntry {
    #[inline]
    pub(super) fn new(lba: Lba, sectors: u64) -> SegmentEntry {
        debug_assert!(lba.0 < NOTHING && sectors <= SECTORS_MAX);
        SegmentEntry(lba.0 << COUNT_BITS | sectors)
    }

    /// Skipped sectors.
    pub(super) fn gap(sectors: u64) -> SegmentEntry {
        SegmentEntry(NOTHING << COUNT_BITS | sectors)
    }

    /// LBA of the sectors; `None` if they were skipped.
    pub(super) fn lba(self) -> Option<Lba> {
        let lba = self.0 >> COUNT_BITS;
        (lba != NOTHING).then_some(Lba(lba))
    }

    #[inline]
    pub(super) fn sectors(self) -> u64 {
        self.0 & SECTORS_MAX
    }

    /// Adds sectors that continue this entry; returns `false` if they don't.
    #[inline]
    pub(super) fn joins(&mut self, lba: Lba, sectors: u64) -> bool {
        let joins = (self.0 >> COUNT_BITS) + self.sectors() == lba.0 && self.sectors() + sectors <= SECTORS_MAX;
        self.0 += if joins { sectors } else { 0 };
        joins
    }
}

/// All segments, and counts over them.
pub(super) struct SegmentTable {
    layout: SegmentLayout,
    pub(super) all: Vec<Segment>,
    /// The free segments: in the order in which they were freed if `order` is `Oldest`, else by number. `free_sectors` counts their sectors.
    pub(super) free: VecDeque<u32>,
    pub(super) free_sectors: u64,
    order: FreeOrder,
    /// For round robin: one more than the number of the segment taken last.
    next: u32,
    /// The open segment of each stream.
    pub(super) open: Vec<Option<u32>>,
    /// True if the last stream is for survivors of cleaning.
    pub(super) survivors_apart: bool,
    pub(super) closed: Victims,
    /// Sectors of the longest segment.
    pub(super) longest: u64,
    /// Sectors written to segments that are not free; `live_sectors` counts those of them that the map points to.
    pub(super) log_sectors: u64,
    pub(super) live_sectors: u64,
    pub(super) entries: u64,
}

state! {
    SegmentTable {
        parts: all, closed;
        sized: open;
        values: free, free_sectors, next, log_sectors, live_sectors, entries;
        built: layout, order, survivors_apart, longest;
    }
}

impl SegmentTable {
    /// The segments at `places`, all of them free.
    pub(super) fn new(layout: SegmentLayout, places: Vec<SegmentPlace>, rules: &LogRules) -> SegmentTable {
        let mut table = SegmentTable {
            layout,
            longest: places.iter().map(|place| u64::from(place.sectors)).max().unwrap_or(0),
            all: places.into_iter().map(Segment::new).collect(),
            free: VecDeque::new(),
            free_sectors: 0,
            order: rules.free_order,
            next: 0,
            open: vec![None; rules.streams],
            survivors_apart: rules.survivors_apart,
            closed: Victims::new(rules.policy, rules.least_dead, rules.resets),
            log_sectors: 0,
            live_sectors: 0,
            entries: 0,
        };
        (0..table.all.len()).for_each(|at| table.add_free(at as u32));
        table
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> &Segment {
        &self.all[at as usize]
    }

    /// Share of the sectors written to segments that are not free, to which the map does not point.
    pub(super) fn invalid_share(&self) -> f64 {
        (self.log_sectors - self.live_sectors) as f64 / self.log_sectors.max(1) as f64
    }

    /// Memory taken, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let lists = self.entries * size_of::<SegmentEntry>() as u64;
        lists + (self.all.capacity() * size_of::<Segment>()) as u64 + self.closed.bytes()
    }

    /// Returns the segment of a sector, and how many of `n` sectors from it on are there. The rest is in the next segment, into which an
    /// extent may continue if there is no guard between.
    #[inline(always)]
    pub(super) fn part_at(&self, pba: Pba, n: u64) -> (u32, u64) {
        let at = self.layout.segment_at(pba);
        let place = &self.all[at].place;
        (at as u32, n.min(place.start + u64::from(place.sectors) - pba))
    }

    /// Sectors that a stream can write before it needs another segment.
    #[inline]
    pub(super) fn room(&self, stream: u8) -> u64 {
        self.open[usize::from(stream)].map_or(0, |at| self.get(at).room())
    }

    /// The stream to which the live data of a segment is moved.
    pub(super) fn stream_of_survivors(&self, at: u32) -> u8 {
        match self.survivors_apart {
            true => self.open.len() as u8 - 1,
            false => self.get(at).stream,
        }
    }

    /// The segment that a stream writes to; opens another if that is full.
    #[inline]
    pub(super) fn open_segment(&mut self, stream: u8) -> DiskResult<u32> {
        match self.open[usize::from(stream)] {
            Some(at) if self.get(at).room() > 0 => Ok(at),
            _ => self.open_another(stream),
        }
    }

    /// Opens a free segment, which has no data yet.
    fn open_another(&mut self, stream: u8) -> DiskResult<u32> {
        let Some(at) = self.take_free() else {
            return Err(inconsistent("no segment is free".into()).unwrap_err());
        };
        self.all[at as usize].youngest = 0;
        self.open(at, stream);
        Ok(at)
    }

    fn open(&mut self, at: u32, stream: u8) {
        let segment = &mut self.all[at as usize];
        (segment.state, segment.stream) = (SegmentState::Open, stream);
        self.open[usize::from(stream)] = Some(at);
    }

    /// Notes sectors written at the head of a segment.
    #[inline]
    pub(super) fn wrote(&mut self, at: u32, sectors: u64) {
        self.all[at as usize].filled += sectors as u32;
        self.log_sectors += sectors;
    }

    /// Notes that sectors at the head of a segment are skipped.
    pub(super) fn pass_over(&mut self, at: u32, sectors: u64) {
        self.all[at as usize].entries.push(SegmentEntry::gap(sectors));
        self.entries += 1;
        self.settle(at, 0);
    }

    /// After a power cut, leaves a gap of `dpid_sectors` at the head of each open segment. A torn write may have reached sectors beyond the
    /// head; rewriting these damages up to `dpid_sectors` before them, which are then all in the gap.
    pub(super) fn power_cut(&mut self, dpid_sectors: u64) {
        for at in self.open.clone().into_iter().flatten() {
            let sectors = dpid_sectors.min(self.get(at).room());
            if sectors > 0 {
                self.wrote(at, sectors);
                self.pass_over(at, sectors);
            }
        }
    }

    /// Notes that the map points to sectors written to a segment.
    #[inline]
    pub(super) fn add_live(&mut self, at: u32, lba: Lba, sectors: u64) {
        self.live_sectors += sectors;
        let segment = &mut self.all[at as usize];
        segment.live += sectors as u32;
        if !segment.entries.last_mut().is_some_and(|last| last.joins(lba, sectors)) {
            segment.entries.push(SegmentEntry::new(lba, sectors));
            self.entries += 1;
        }
    }

    /// Notes that the map no longer points to these sectors.
    #[inline]
    pub(super) fn remove_live(&mut self, mut pba: Pba, mut sectors: u64) {
        while sectors > 0 {
            let (at, count) = self.part_at(pba, sectors);
            let segment = &mut self.all[at as usize];
            segment.live -= count as u32;
            self.live_sectors -= count;
            if segment.state == SegmentState::Closed {
                self.closed.shrunk(&mut self.all, at, count);
            }
            (sectors, pba) = (sectors - count, pba + count);
        }
    }

    /// Notes that data of this age was written to a segment. A full segment is closed, and may be cleaned from then on.
    #[inline]
    pub(super) fn settle(&mut self, at: u32, age: u64) {
        let segment = &mut self.all[at as usize];
        segment.youngest = segment.youngest.max(age);
        // Called once for each write of a shared append: only the first call closes the segment.
        if segment.room() == 0 && segment.state == SegmentState::Open {
            self.close(at);
        }
    }

    fn close(&mut self, at: u32) {
        let segment = &mut self.all[at as usize];
        segment.state = SegmentState::Closed;
        // It gets no more entries, and closed segments take most of the memory.
        segment.entries.shrink_to_fit();
        let open = &mut self.open[usize::from(segment.stream)];
        if *open == Some(at) {
            *open = None;
        }
        self.closed.add(&mut self.all, at);
    }

    /// Takes the closed segment to clean next, if cleaning gains anything; `now` as for [`Victims::take`].
    pub(super) fn take_victim(&mut self, now: u64, need: Need) -> Option<u32> {
        if self.closed.dead == 0 {
            return None;
        }
        let victim = self.closed.take(&self.all, now, need)?;
        let room = self.free_sectors + self.room(self.stream_of_survivors(victim));
        if room < u64::from(self.get(victim).live) {
            // There is no room for its live data, which is possible only after a power cut in the middle of cleaning. The segment that was
            // being cleaned then has the least left to move.
            self.closed.add(&mut self.all, victim);
            return self.take_least_live();
        }
        self.all[victim as usize].state = SegmentState::Cleaned;
        Some(victim)
    }

    /// Takes the closed segment with the least live data, whatever the policy says.
    pub(super) fn take_least_live(&mut self) -> Option<u32> {
        let victim = self.closed.take_least_live(&self.all)?;
        self.all[victim as usize].state = SegmentState::Cleaned;
        Some(victim)
    }

    /// Frees a cleaned segment, whose live data has been moved.
    pub(super) fn free_victim(&mut self, at: u32) -> DiskResult {
        match self.get(at).live {
            0 => {
                self.release(at);
                Ok(())
            }
            live => inconsistent(format!("segment {at} was cleaned, but {live} sectors of it are live")),
        }
    }

    fn release(&mut self, at: u32) {
        let segment = &mut self.all[at as usize];
        self.log_sectors -= u64::from(segment.filled);
        self.entries -= segment.entries.len() as u64;
        segment.entries = Entries::new();
        (segment.state, segment.filled) = (SegmentState::Free, 0);
        self.add_free(at);
    }

    fn add_free(&mut self, at: u32) {
        let sectors = u64::from(self.get(at).place.sectors);
        if sectors > 0 {
            let place = match self.order {
                FreeOrder::Oldest => self.free.len(),
                FreeOrder::Lowest | FreeOrder::RoundRobin => self.free.partition_point(|&other| other < at),
            };
            self.free.insert(place, at);
            self.free_sectors += sectors;
        }
    }

    fn take_free(&mut self) -> Option<u32> {
        let next = match self.order {
            FreeOrder::RoundRobin => self.free.partition_point(|&at| at < self.next),
            FreeOrder::Oldest | FreeOrder::Lowest => 0,
        };
        let at = self.free.remove(next).or_else(|| self.free.pop_front())?;
        self.next = at + 1;
        self.free_sectors -= u64::from(self.get(at).place.sectors);
        Some(at)
    }

    /// Frees the closed segments without live data; returns how many.
    #[cold]
    pub(super) fn free_emptied(&mut self) -> u64 {
        let mut count = 0;
        while let Some(at) = self.closed.take_emptied(&self.all) {
            self.release(at);
            count += 1;
        }
        count
    }

    /// Before `n` sectors are filled, moves as many segments as will stay free from the front of the free list to its end, so that they are
    /// used last. All segments are free.
    pub(super) fn spare_first(&mut self, n: u64) {
        let mut spare = self.free_sectors - n;
        let mut count = 0;
        while let Some(&at) = self.free.get(count)
            && let Some(left) = spare.checked_sub(u64::from(self.get(at).place.sectors))
        {
            (spare, count) = (left, count + 1);
        }
        self.free.rotate_left(count);
    }

    /// Fills a free segment with up to `n` sectors from `lba` on, as if each had been written once, in order. Returns the first PBA and how
    /// many sectors.
    pub(super) fn fill(&mut self, lba: Lba, n: u64) -> Option<(Pba, u64)> {
        let at = self.take_free()?;
        let segment = &mut self.all[at as usize];
        let (start, sectors) = (segment.head(), n.min(segment.room()));
        segment.filled = sectors as u32;
        self.log_sectors += sectors;
        self.add_live(at, lba, sectors);
        self.open(at, 0);
        self.settle(at, lba.0 + sectors);
        Some((start, sectors))
    }

    /// Checks that counts agree, that each segment's list covers its written sectors, and that its state fits.
    pub(super) fn check(&self, cleaned: Option<u32>) -> DiskResult {
        (0..).zip(&self.all).try_for_each(|(at, segment)| self.check_segment(at, segment, cleaned))?;
        let sum = |of: fn(&Segment) -> u64| self.all.iter().map(of).sum::<u64>();
        let sum_in = |state: SegmentState, of: fn(&Segment) -> u64| {
            self.all.iter().filter(|segment| segment.state == state).map(of).sum::<u64>()
        };
        let sectors = |segment: &Segment| u64::from(segment.place.sectors);
        let agree = [
            ("live sectors", self.live_sectors, sum(|segment| segment.live.into())),
            ("log sectors", self.log_sectors, sum(|segment| segment.filled.into())),
            ("free sectors", self.free_sectors, sum_in(SegmentState::Free, sectors)),
            ("dead sectors of closed segments", self.closed.dead, sum_in(SegmentState::Closed, Segment::dead)),
            ("closed segments", self.closed.len() as u64, sum_in(SegmentState::Closed, |_| 1)),
            ("open segments", self.open.iter().flatten().count() as u64, sum_in(SegmentState::Open, |_| 1)),
            ("segments being cleaned", cleaned.iter().count() as u64, sum_in(SegmentState::Cleaned, |_| 1)),
            ("entries", self.entries, sum(|segment| segment.entries.len() as u64)),
        ];
        match agree.into_iter().find(|(_, counted, found)| counted != found) {
            Some((what, counted, found)) => inconsistent(format!("{counted} {what} are counted, {found} are there")),
            None => Ok(()),
        }
    }

    fn check_segment(&self, at: u32, segment: &Segment, cleaned: Option<u32>) -> DiskResult {
        let listed: u64 = segment.entries.iter().map(|entry| entry.sectors()).sum();
        let open = self.open.contains(&Some(at));
        let fits = match segment.state {
            SegmentState::Free => segment.filled == 0 && !open,
            SegmentState::Open => open,
            SegmentState::Closed => segment.room() == 0 && !open,
            SegmentState::Cleaned => cleaned == Some(at),
        };
        if listed != u64::from(segment.filled) || !fits {
            return inconsistent(format!(
                "segment {at} is {:?} with {} of {} sectors written and {listed} in its list",
                segment.state, segment.filled, segment.place.sectors
            ));
        }
        Ok(())
    }
}
