//! The segments: where they lie, which are free, open and closed, what each holds, how much of it is live, and how old it is.
//!
//! A segment is a band of `segment_tracks` tracks followed by the guard of the drive's law, or a zone of a host-managed disk. Bands begin at
//! each recording zone's first track. The rest at a zone's end makes a shorter segment.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::LogRules;
use super::victims::Victims;
use crate::geometry::{Divisor, Geometry, Guard};
use crate::layer::interface::check_tables;
use crate::layer::prelude::*;
use crate::layer::runs::{LoggedRun, RUN_SECTORS_MAX};
use crate::layer::zones::ZoneLayout;

/// Bands of one recording zone.
pub struct ZoneSegments {
    first_segment: u32,
    /// The zone's first raw sector; `stride` is the number of raw sectors from one band to the next.
    origin: u64,
    stride: Divisor,
}

/// Segments of a drive: bands, or the zones of a host-managed disk from the number `first` on.
pub enum SegmentLayout {
    Bands { geometry: Geometry, strips: Vec<ZoneSegments> },
    Zones { zones: ZoneLayout, first: u64 },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentPlace {
    pub start: Pba,
    /// 0 if the guard leaves nothing of a short band.
    pub sectors: u32,
}

/// The most sectors of a segment: as many as an entry of its list can count.
pub const SEGMENT_SECTORS_MAX: u64 = RUN_SECTORS_MAX;

/// Memory of a segment and of its place in the layout.
pub const BYTES_A_SEGMENT: u64 = (size_of::<Segment>() + size_of::<SegmentPlace>()) as u64;

impl SegmentLayout {
    /// Lays bands over the whole drive. Errors: too many of them, or too long ones.
    pub fn of_bands(drive: &Drive, segment_tracks: u64) -> Result<(SegmentLayout, Vec<SegmentPlace>), Error> {
        let geometry = drive.geometry.clone();
        let guard = drive.interference.guard(&geometry);
        let guard_tracks = if let Guard::Tracks(tracks) = guard { tracks } else { 0 };
        let band_tracks = |zone_tracks: u64| segment_tracks.saturating_add(guard_tracks).min(zone_tracks);
        let count: u64 = geometry.zones.iter().map(|zone| zone.tracks.div_ceil(band_tracks(zone.tracks))).sum();
        // Before they are listed, because the list itself may be too long for the memory.
        check_tables(&format!("{count} segments"), count * BYTES_A_SEGMENT, "raise log.segment_tracks, or ")?;
        let (mut strips, mut places) = (Vec::new(), Vec::with_capacity(count as usize));
        for zone in geometry.zones.iter() {
            let stride = band_tracks(zone.tracks);
            strips.push(ZoneSegments {
                first_segment: places.len() as u32,
                origin: geometry.raw_track_start(zone.first_track),
                stride: Divisor::new(stride * zone.track_sectors),
            });
            for first in (0..zone.tracks).step_by(stride as usize) {
                // None if the rest of the zone is not longer than a guard.
                let tracks = segment_tracks.min((zone.tracks - first).saturating_sub(guard_tracks));
                let [start, end] = [first, first + tracks].map(|track| geometry.track_start(zone.first_track + track));
                let lost = match guard {
                    // At the end of the disk no guard is needed.
                    Guard::Sectors(sectors) if end.0 < geometry.sectors => sectors,
                    _ => 0,
                };
                let sectors = (end - start).saturating_sub(lost);
                if sectors > SEGMENT_SECTORS_MAX {
                    return Err(Error::Impossible(format!(
                        "a segment of {sectors} sectors is longer than {SEGMENT_SECTORS_MAX}: lower log.segment_tracks"
                    )));
                }
                places.push(SegmentPlace { start, sectors: sectors as u32 });
            }
        }
        Ok((SegmentLayout::Bands { geometry, strips }, places))
    }

    /// The zones of a host-managed disk that are written in order.
    pub fn of_zones(zones: ZoneLayout) -> (SegmentLayout, Vec<SegmentPlace>) {
        let (first, sectors) = (zones.conventional, zones.size() as u32);
        let places = (first..zones.count()).map(|zone| SegmentPlace { start: zones.start(zone), sectors }).collect();
        (SegmentLayout::Zones { zones, first }, places)
    }

    /// The segment of a sector. A guard belongs to the segment before it.
    fn segment_at(&self, pba: Pba) -> usize {
        match self {
            SegmentLayout::Bands { geometry, strips } => {
                let raw = geometry.raw(pba);
                let strip = &strips[geometry.zone_index(raw)];
                strip.first_segment as usize + strip.stride.quotient(raw - strip.origin) as usize
            }
            // A forged map may name a conventional zone: its number wraps to one that no segment has.
            SegmentLayout::Zones { zones, first } => zones.at(pba).wrapping_sub(*first) as usize,
        }
    }
}

/// Use of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SegmentState {
    /// To be written from its start.
    #[default]
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
    pub enum FreeOrder {
        /// The one that was freed first.
        Oldest = "oldest",
        /// The one with the lowest number, nearest to the outer edge.
        Lowest = "lowest",
        /// The one with the next higher number after the last that was taken; the lowest follows the highest.
        RoundRobin = "round-robin",
    }
}

/// The entries of a segment. A segment written in order needs no memory on the heap.
pub type Entries = SmallVec<[LoggedRun; 2]>;

#[derive(Default)]
pub struct Segment {
    pub place: SegmentPlace,
    pub state: SegmentState,
    /// Sectors from the start on that have been written or skipped.
    pub filled: u32,
    /// Sectors among them that the map points to.
    pub live: u32,
    /// Bucket in which the policy keeps it.
    pub bucket: u16,
    /// Stream that filled it.
    pub stream: u8,
    /// Age of its youngest data: how many sectors the host had written when it wrote that.
    pub youngest: u64,
    /// Its entries, from the start on.
    pub entries: Entries,
}

state! {
    Segment {
        values: state, filled, live, bucket, stream, youngest, entries;
        built: place;
    }
}

impl Segment {
    pub fn new(place: SegmentPlace) -> Segment {
        Segment { place, ..Segment::default() }
    }

    /// Place of the next sector to be written.
    pub fn head(&self) -> Pba {
        self.place.start + u64::from(self.filled)
    }

    /// Sectors that can still be written.
    pub fn room(&self) -> u64 {
        u64::from(self.place.sectors - self.filled)
    }

    /// Sectors without live data.
    pub fn dead(&self) -> u64 {
        u64::from(self.place.sectors - self.live)
    }
}

/// All segments, and counts over them.
pub struct SegmentTable {
    layout: SegmentLayout,
    pub all: Vec<Segment>,
    /// The free segments: in the order in which they were freed if `order` is `Oldest`, else by number. `free_sectors` counts their sectors.
    pub free: VecDeque<u32>,
    pub free_sectors: u64,
    order: FreeOrder,
    /// For round robin: one more than the number of the segment taken last.
    next: u32,
    /// The open segment of each stream.
    pub open: Vec<Option<u32>>,
    /// True if the last stream is for survivors of cleaning.
    pub survivors_apart: bool,
    pub closed: Victims,
    /// Sectors of the longest segment.
    pub longest: u64,
    /// Sectors written to segments that are not free; `live_sectors` counts those of them that the map points to.
    pub log_sectors: u64,
    pub live_sectors: u64,
    pub entries: u64,
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
    pub fn new(layout: SegmentLayout, places: Vec<SegmentPlace>, rules: &LogRules) -> SegmentTable {
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
        (0..table.all.len()).for_each(|number| table.add_free(number as u32));
        table
    }

    pub fn get(&self, number: u32) -> &Segment {
        &self.all[number as usize]
    }

    /// Share of the sectors written to segments that are not free, to which the map does not point.
    pub fn invalid_share(&self) -> f64 {
        (self.log_sectors - self.live_sectors) as f64 / self.log_sectors.max(1) as f64
    }

    /// Memory taken, in bytes.
    pub fn bytes(&self) -> u64 {
        let lists = self.entries * size_of::<LoggedRun>() as u64;
        lists + (self.all.capacity() * size_of::<Segment>()) as u64 + self.closed.bytes()
    }

    /// Returns the segment of a sector, and how many of `n` sectors from it on are there. The rest is in the next segment, into which an
    /// extent may continue if there is no guard between.
    #[inline(always)]
    pub fn part_at(&self, pba: Pba, n: u64) -> (u32, u64) {
        let number = self.layout.segment_at(pba);
        let place = &self.all[number].place;
        (number as u32, n.min(place.start + u64::from(place.sectors) - pba))
    }

    /// Sectors that a stream can write before it needs another segment.
    pub fn room(&self, stream: u8) -> u64 {
        self.open[usize::from(stream)].map_or(0, |number| self.get(number).room())
    }

    /// The stream to which the live data of a segment is moved.
    pub fn stream_of_survivors(&self, number: u32) -> u8 {
        match self.survivors_apart {
            true => self.open.len() as u8 - 1,
            false => self.get(number).stream,
        }
    }

    /// The segment that a stream writes to; opens another if that is full.
    pub fn open_segment(&mut self, stream: u8) -> DiskResult<u32> {
        match self.open[usize::from(stream)] {
            Some(number) if self.get(number).room() > 0 => Ok(number),
            _ => {
                let Some(number) = self.take_free() else { return inconsistent("no segment is free") };
                // The age of what it held before it was freed does not count.
                self.all[number as usize].youngest = 0;
                self.open(number, stream);
                Ok(number)
            }
        }
    }

    fn open(&mut self, number: u32, stream: u8) {
        let segment = &mut self.all[number as usize];
        (segment.state, segment.stream) = (SegmentState::Open, stream);
        self.open[usize::from(stream)] = Some(number);
    }

    /// Notes sectors written at the head of a segment.
    pub fn wrote(&mut self, number: u32, sectors: u64) {
        self.all[number as usize].filled += sectors as u32;
        self.log_sectors += sectors;
    }

    /// Notes that sectors at the head of a segment are skipped.
    pub fn skip(&mut self, number: u32, sectors: u64) {
        self.all[number as usize].entries.push(LoggedRun::skipped(sectors));
        self.entries += 1;
        let no_age = 0;
        self.end_write(number, no_age);
    }

    /// After a power cut, leaves a gap of `dpid_sectors` at the head of each open segment. A torn write may have reached sectors beyond the
    /// head; rewriting these damages up to `dpid_sectors` before them, which are then all in the gap.
    pub fn power_cut(&mut self, dpid_sectors: u64) {
        for number in self.open.clone().into_iter().flatten() {
            let sectors = dpid_sectors.min(self.get(number).room());
            if sectors > 0 {
                self.wrote(number, sectors);
                self.skip(number, sectors);
            }
        }
    }

    /// Notes that the map points to sectors written to a segment.
    pub fn add_live(&mut self, number: u32, lba: Lba, sectors: u64) {
        self.live_sectors += sectors;
        let segment = &mut self.all[number as usize];
        segment.live += sectors as u32;
        if !segment.entries.last_mut().is_some_and(|last| last.extend(lba, sectors)) {
            segment.entries.push(LoggedRun::new(lba, sectors));
            self.entries += 1;
        }
    }

    /// Notes that the map no longer points to these sectors.
    pub fn remove_live(&mut self, mut pba: Pba, mut sectors: u64) {
        while sectors > 0 {
            let (number, count) = self.part_at(pba, sectors);
            let segment = &mut self.all[number as usize];
            segment.live -= count as u32;
            self.live_sectors -= count;
            if segment.state == SegmentState::Closed {
                self.closed.shrunk(&mut self.all, number, count);
            }
            (sectors, pba) = (sectors - count, pba + count);
        }
    }

    /// Notes that data of this age was written to a segment. A full segment is closed, and may be cleaned from then on.
    #[inline]
    pub fn end_write(&mut self, number: u32, age: u64) {
        let segment = &mut self.all[number as usize];
        segment.youngest = segment.youngest.max(age);
        // Called once for each write of a shared append: only the first call closes the segment.
        if segment.room() == 0 && segment.state == SegmentState::Open {
            self.close(number);
        }
    }

    fn close(&mut self, number: u32) {
        let segment = &mut self.all[number as usize];
        segment.state = SegmentState::Closed;
        // It gets no more entries, and closed segments take most of the memory.
        segment.entries.shrink_to_fit();
        let open = &mut self.open[usize::from(segment.stream)];
        // If an append filled it and went on in another segment, that one is open by now.
        if *open == Some(number) {
            *open = None;
        }
        self.closed.add(&mut self.all, number);
    }

    /// Takes the closed segment to clean next, if cleaning gains anything; `now` as for [`Victims::take`].
    pub fn take_victim(&mut self, now: u64, need: Need) -> Option<u32> {
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
    pub fn take_least_live(&mut self) -> Option<u32> {
        let victim = self.closed.least_live(&self.all)?;
        self.closed.remove(&self.all, victim);
        self.all[victim as usize].state = SegmentState::Cleaned;
        Some(victim)
    }

    /// Frees a cleaned segment, whose live data has been moved.
    pub fn free_victim(&mut self, number: u32) -> DiskResult {
        let live = self.get(number).live;
        ensure!(live == 0, "segment {number} was cleaned, but {live} sectors of it are live");
        self.release(number);
        Ok(())
    }

    fn release(&mut self, number: u32) {
        let segment = &mut self.all[number as usize];
        self.log_sectors -= u64::from(segment.filled);
        self.entries -= segment.entries.len() as u64;
        segment.entries = Entries::new();
        (segment.state, segment.filled) = (SegmentState::Free, 0);
        self.add_free(number);
    }

    fn add_free(&mut self, number: u32) {
        let sectors = u64::from(self.get(number).place.sectors);
        if sectors > 0 {
            let place = match self.order {
                FreeOrder::Oldest => self.free.len(),
                FreeOrder::Lowest | FreeOrder::RoundRobin => self.free.partition_point(|&other| other < number),
            };
            self.free.insert(place, number);
            self.free_sectors += sectors;
        }
    }

    fn take_free(&mut self) -> Option<u32> {
        let place = match self.order {
            FreeOrder::RoundRobin => self.free.partition_point(|&number| number < self.next),
            FreeOrder::Oldest | FreeOrder::Lowest => 0,
        };
        let number = self.free.remove(place).or_else(|| self.free.pop_front())?;
        self.next = number + 1;
        self.free_sectors -= u64::from(self.get(number).place.sectors);
        Some(number)
    }

    /// Frees the closed segments without live data; returns how many.
    #[cold]
    pub fn free_emptied(&mut self) -> u64 {
        let mut count = 0;
        while let Some(number) = self.closed.emptied.pop() {
            self.closed.remove(&self.all, number);
            self.release(number);
            count += 1;
        }
        count
    }

    /// Before `n` sectors are filled, while all segments are free: moves segments from the front of the free list to its end, so that they are
    /// used last. They are as many as the filling leaves free.
    pub fn spare_first(&mut self, n: u64) {
        let mut spare = self.free_sectors - n;
        let mut count = 0;
        while let Some(&number) = self.free.get(count)
            && let Some(left) = spare.checked_sub(u64::from(self.get(number).place.sectors))
        {
            (spare, count) = (left, count + 1);
        }
        self.free.rotate_left(count);
    }

    /// Fills a free segment with up to `n` sectors from `lba` on, as if each had been written once, in order. Returns the first PBA and how
    /// many sectors.
    pub fn fill(&mut self, lba: Lba, n: u64) -> Option<(Pba, u64)> {
        let number = self.take_free()?;
        let segment = &mut self.all[number as usize];
        let (start, sectors) = (segment.head(), n.min(segment.room()));
        segment.filled = sectors as u32;
        self.log_sectors += sectors;
        self.add_live(number, lba, sectors);
        let (first_stream, written_so_far) = (0, lba.0 + sectors);
        self.open(number, first_stream);
        self.end_write(number, written_so_far);
        Some((start, sectors))
    }

    /// Checks that counts agree, that each segment's list covers its written sectors, and that its state fits.
    pub fn check(&self, cleaned: Option<u32>) -> DiskResult {
        (0..).zip(&self.all).try_for_each(|(number, segment)| self.check_segment(number, segment, cleaned))?;
        let sum = |quantity: fn(&Segment) -> u64| self.all.iter().map(quantity).sum::<u64>();
        let sum_in = |state: SegmentState, quantity: fn(&Segment) -> u64| {
            self.all.iter().filter(|segment| segment.state == state).map(quantity).sum::<u64>()
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
        for (name, counted, found) in agree {
            ensure!(counted == found, "{counted} {name} are counted, {found} are there");
        }
        Ok(())
    }

    fn check_segment(&self, number: u32, segment: &Segment, cleaned: Option<u32>) -> DiskResult {
        let Segment { state, filled, place, entries, .. } = segment;
        let listed: u64 = entries.iter().map(|entry| entry.sectors()).sum();
        let is_open = self.open.contains(&Some(number));
        let fits = match state {
            SegmentState::Free => *filled == 0 && !is_open,
            SegmentState::Open => is_open,
            SegmentState::Closed => segment.room() == 0 && !is_open,
            SegmentState::Cleaned => cleaned == Some(number),
        };
        ensure!(
            fits && listed == u64::from(*filled),
            "segment {number} is {state:?} with {filled} of {} sectors written and {listed} in its list",
            place.sectors
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drive whose writes damage the next track, with this many tracks of 10 sectors.
    fn drive(tracks: u64) -> Drive {
        let mut drive = Drive::load("tiny-constant").unwrap();
        drive.geometry = Geometry::uniform(tracks, 10).unwrap();
        let law = crate::medium::interference::Interference::Tracks { width: 2, band: None };
        drive.with_interference(law).unwrap()
    }

    fn place(start: u64, sectors: u32) -> SegmentPlace {
        SegmentPlace { start: Pba(start), sectors }
    }

    #[test]
    fn bands_fill_a_recording_zone_and_the_last_is_shorter() {
        let (layout, places) = SegmentLayout::of_bands(&drive(25), 8).unwrap();
        assert_eq!(places, [place(0, 80), place(90, 80), place(180, 60)]);
        assert_eq!([0, 89, 90, 239].map(|pba| layout.segment_at(Pba(pba))), [0, 0, 1, 2]);
    }

    #[test]
    fn of_a_band_of_one_track_the_guard_leaves_nothing() {
        let (_, places) = SegmentLayout::of_bands(&drive(19), 8).unwrap();
        assert_eq!(places, [place(0, 80), place(90, 80), place(180, 0)]);
    }
}
