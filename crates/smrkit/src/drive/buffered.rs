//! A drive's buffer before the mechanical clock: a write cache and read-ahead, each off by default.
//!
//! A write completes after the bus transfer while there is room; the media works off the queue in order, joining
//! what is contiguous. A read's bus transfer overlaps the media's. After a read the media goes on reading until the next
//! access that it must serve; a window behind the head is kept, and so are stretches that were read before. Overheads of a
//! command that was sent before the one at work was completed overlap it. Left out: reordering inside the cache,
//! interrupting an access once begun.

use std::collections::VecDeque;

use super::{Buffer, Mechanical, Overheads, Position, ReadAheadTo};
use crate::geometry::{Geometry, SectorPlace};
use crate::units::{Nanos, Pba, SECTOR_BYTES};

/// A write that the host was told is done.
#[derive(Clone, Copy, Debug)]
struct Pending {
    pba: Pba,
    sectors: u64,
    since: Nanos,
}

/// Counts of a `WriteQueue` are each of granules of this many sectors, and as many as writes of 8 KiB fit into the cache, so that few
/// stand for several writes; at most these, 32 KiB.
const GRANULE_SECTORS: u64 = 128;
const COUNTS_MAX: u64 = 1 << 13;

/// Writes that wait for the media, in order of arrival. Most reads find by one count that none of them holds their sectors.
#[derive(Clone, Debug)]
struct WriteQueue {
    writes: VecDeque<Pending>,
    sectors: u64,
    /// Granules in the writes, by their number modulo the counts.
    granules: Vec<u32>,
}

impl WriteQueue {
    fn new(cache_sectors: u64) -> Self {
        let counts = (cache_sectors / 16).clamp(1, COUNTS_MAX);
        Self { writes: VecDeque::new(), sectors: 0, granules: vec![0; counts.next_power_of_two() as usize] }
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

    fn push(&mut self, pba: Pba, sectors: u64, since: Nanos) {
        self.sectors += sectors;
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

    fn pop(&mut self) -> Option<Pending> {
        let next = self.writes.pop_front()?;
        self.sectors -= next.sectors;
        let granules = next.pba.0 / GRANULE_SECTORS..=(next.pba.0 + next.sectors - 1) / GRANULE_SECTORS;
        self.recount(granules, |count| count - 1);
        Some(next)
    }

    /// True if one write has all sectors from `pba` to `end`.
    fn holds(&self, pba: Pba, end: Pba) -> bool {
        self.granules[self.place(pba.0 / GRANULE_SECTORS)] > 0
            && self.writes.iter().any(|w| w.pba <= pba && end <= w.pba + w.sectors)
    }
}

/// A stretch that was read or is being read ahead, from `began` on: `end` passed under the head at `passed`; on to `limit`.
#[derive(Clone, Copy, Debug)]
struct ReadAhead {
    began: Pba,
    end: Pba,
    passed: Nanos,
    limit: Pba,
}

/// A mechanical clock behind a buffer.
#[derive(Clone, Debug)]
pub struct Buffered {
    media: Mechanical,
    queue: WriteQueue,
    /// Sectors of the write that the media is doing until `busy_until`.
    writing: u64,
    busy_until: Nanos,
    media_time: Nanos,
    /// Time that the media wrote from the cache while no command was served, so far as it is counted.
    unwaited: Nanos,
    /// Until when that is counted, the end of the last command at least; [`Nanos::MAX`] while one is served.
    counted_to: Nanos,
    ahead: Option<ReadAhead>,
    /// Stretches that were read before it, from and to, the latest first.
    kept: VecDeque<(Pba, Pba)>,
    /// When the drive was sent the command that comes next, where that was before its turn.
    sent: Nanos,
    /// True if the last command was a write.
    after_write: bool,
    overheads: Overheads,
    cache_sectors: u64,
    ahead_sectors: u64,
    ahead_to: ReadAheadTo,
    segment_sectors: u64,
    segments: usize,
    any_order: bool,
    reads_passing: bool,
    keeps_requested: bool,
    reads_ahead: bool,
    watermark: f64,
    /// Of the bus, for reads and for writes.
    ps_per_sector: [u64; 2],
}

impl Buffered {
    /// A clock behind an empty buffer.
    pub fn new(media: Mechanical, buffer: Buffer) -> Buffered {
        Buffered {
            media,
            queue: WriteQueue::new(buffer.write_cache_bytes / SECTOR_BYTES),
            writing: 0,
            busy_until: Nanos::ZERO,
            media_time: Nanos::ZERO,
            unwaited: Nanos::ZERO,
            counted_to: Nanos::ZERO,
            ahead: None,
            kept: VecDeque::new(),
            sent: Nanos::MAX,
            after_write: false,
            overheads: buffer.overheads,
            cache_sectors: buffer.write_cache_bytes / SECTOR_BYTES,
            ahead_sectors: buffer.read_ahead_bytes / SECTOR_BYTES,
            ahead_to: buffer.read_ahead_to,
            segment_sectors: buffer.segment_bytes / SECTOR_BYTES,
            segments: buffer.segments as usize,
            any_order: buffer.any_order,
            reads_passing: buffer.reads_passing,
            keeps_requested: buffer.keeps_requested,
            reads_ahead: buffer.reads_ahead(),
            watermark: buffer.watermark,
            ps_per_sector: buffer.bus_bytes_per_s.map(|rate| (SECTOR_BYTES as f64 * 1e12 / rate).round() as u64),
        }
    }

    /// The clock of the media.
    pub fn media(&self) -> &Mechanical {
        &self.media
    }

    /// Moves the head over a place.
    pub fn leave_at(&mut self, place: &SectorPlace) {
        self.media.leave_at(place);
    }

    /// Until when the media is busy with what it has begun.
    pub fn busy_until(&self) -> Nanos {
        self.busy_until
    }

    /// Time that the media has worked so far, whoever waited for it; reading ahead is not counted.
    pub fn media_time(&self) -> Nanos {
        self.media_time
    }

    /// Time that the media wrote from the cache while no command was served, until the last one began.
    pub fn unwaited(&self) -> Nanos {
        self.unwaited
    }

    /// Counts that time anew.
    pub fn reset_unwaited(&mut self) {
        self.unwaited = Nanos::ZERO;
    }

    /// The command that is served next was sent at `moment`: its overhead is over so much earlier.
    pub(crate) fn sent_at(&mut self, moment: Nanos) {
        self.sent = moment;
    }

    /// Serves an access issued at `now`; returns when the command completes.
    pub fn access(&mut self, g: &Geometry, now: Nanos, write: bool, pba: Pba, sectors: u64) -> Nanos {
        self.catch_up(g, now);
        let counted_to = std::mem::replace(&mut self.counted_to, Nanos::MAX);
        let sent = std::mem::replace(&mut self.sent, Nanos::MAX).min(now);
        let completed = match write {
            _ if sectors == 0 => now.max(sent + self.overhead(self.overheads.read_hit)),
            true => self.write(g, now, sent, pba, sectors),
            false => self.read(g, now, sent, pba, sectors),
        };
        self.after_write = write;
        let completed = completed + self.overheads.completion[usize::from(write)];
        self.counted_to = counted_to.max(completed);
        completed
    }

    fn overhead(&self, of_kind: [Nanos; 2]) -> Nanos {
        of_kind[usize::from(self.after_write)]
    }

    /// From `now` until a read at a position would begin, behind what the media is doing.
    pub fn estimate_at(&self, position: &Position, now: Nanos) -> Nanos {
        let start = now.max(self.busy_until);
        start.since(now) + self.media.estimate_at(position, start)
    }

    /// Writes everything to the media; returns when that is done.
    pub fn flush(&mut self, g: &Geometry, now: Nanos) -> Nanos {
        self.catch_up(g, Nanos::MAX);
        now.max(self.busy_until)
    }

    fn write(&mut self, g: &Geometry, now: Nanos, sent: Nanos, pba: Pba, sectors: u64) -> Nanos {
        if self.ahead.is_some_and(|a| pba < a.limit && pba + sectors > a.began) {
            self.stop_reading_ahead(g, now);
        }
        self.kept.retain(|&(from, end)| end <= pba || pba + sectors <= from);
        if sectors > self.cache_sectors {
            let ready = now.max(sent + self.overhead(self.overheads.media_write));
            let start = self.flush(g, now).max(ready);
            return self.on_media(g, start, true, pba, sectors).max(ready + self.write_bus(sectors));
        }
        let mut room_at = now;
        while self.queue.sectors + self.writing + sectors > self.cache_sectors {
            // What is being written frees its room when it is done; then the next begins.
            room_at = room_at.max(self.busy_until);
            self.writing = 0;
            if self.queue.sectors + sectors > self.cache_sectors {
                self.begin_write(g, Nanos::MAX);
            }
        }
        let completed = room_at.max(sent + self.overhead(self.overheads.write)) + self.write_bus(sectors);
        self.queue.push(pba, sectors, completed);
        completed
    }

    fn read(&mut self, g: &Geometry, now: Nanos, sent: Nanos, pba: Pba, sectors: u64) -> Nanos {
        let end = pba + sectors;
        let from_buffer = now.max(sent + self.overhead(self.overheads.read_hit)) + self.bus(sectors);
        if self.queue.holds(pba, end) || self.is_kept(pba, end) {
            return from_buffer;
        }
        if let Some(ahead) = self.ahead_of(g, now, pba, end) {
            if end <= ahead.end {
                return from_buffer;
            }
            let passed = self.media.access_without_overhead(g, ahead.passed, false, ahead.end, end - ahead.end);
            self.read_on(g, ahead.began, pba, end, passed);
            return from_buffer.max(passed + self.bus(1));
        }
        let start = now.max(sent + self.overhead(self.overheads.read_miss)).max(self.busy_until);
        self.writing = 0;
        if let Some(done) = self.in_any_order(g, start, pba, sectors) {
            self.read_on(g, pba, pba, end, done);
            return (start + self.overheads.read_reselect + self.bus(sectors)).max(done + self.bus(1));
        }
        let passing = self.passing_before(g, start, pba);
        // The bus begins when so much is there, and ends after the last sector.
        let first = ((self.watermark * sectors as f64) as u64).clamp(1, sectors);
        let begun = self.on_media(g, start, false, pba, first);
        let done = if first < sectors { self.go_on(g, begun, pba + first, sectors - first) } else { begun };
        self.read_on(g, pba - passing, pba, end, done);
        (begun + self.overheads.read_reselect + self.bus(sectors)).max(done + self.bus(1))
    }

    /// The time until a write of `sectors` finds room in the cache; `None` where it is too long for it.
    pub fn wait_for_room(&self, now: Nanos, sectors: u64) -> Option<Nanos> {
        let has_room = self.queue.sectors + self.writing + sectors <= self.cache_sectors;
        let wait = if has_room { Nanos::ZERO } else { self.busy_until.since(now) };
        (sectors <= self.cache_sectors).then_some(wait)
    }

    /// True if a read finds its sectors in the buffer: among queued writes, in a kept stretch, or where the media reads ahead.
    pub fn holds(&self, g: &Geometry, now: Nanos, pba: Pba, sectors: u64) -> bool {
        let end = pba + sectors;
        self.queue.holds(pba, end) || self.is_kept(pba, end) || self.ahead_of(g, now, pba, end).is_some()
    }

    fn is_kept(&self, pba: Pba, end: Pba) -> bool {
        self.kept.iter().any(|&(from, to)| from <= pba && end <= to)
    }

    /// The stretch being read ahead, if it holds sectors or will.
    fn ahead_of(&self, g: &Geometry, now: Nanos, pba: Pba, end: Pba) -> Option<ReadAhead> {
        let covers = |ahead: &ReadAhead| ahead.began <= pba && end <= ahead.limit;
        self.ahead.filter(|ahead| covers(ahead) && self.kept_from(g, ahead, now) <= pba)
    }

    /// Reads sectors of one track as they pass under the head; `None` where they lie on several, or are read in order.
    fn in_any_order(&mut self, g: &Geometry, start: Nanos, pba: Pba, sectors: u64) -> Option<Nanos> {
        if !self.any_order {
            return None;
        }
        self.stop_reading_ahead(g, start);
        let took = self.media.any_order(g, start, pba, sectors)?;
        self.media.leave_at(&g.place(pba + (sectors - 1)));
        self.media_time += took;
        self.busy_until = start + took;
        Some(self.busy_until)
    }

    /// Sectors before `pba` that a read of it from `start` on reads as they pass.
    fn passing_before(&mut self, g: &Geometry, start: Nanos, pba: Pba) -> u64 {
        if !self.reads_passing {
            return 0;
        }
        self.stop_reading_ahead(g, start);
        self.media.passing_before(g, start, pba)
    }

    /// Reads on at once where the media has just stopped.
    fn go_on(&mut self, g: &Geometry, start: Nanos, pba: Pba, sectors: u64) -> Nanos {
        let end = self.media.access_without_overhead(g, start, false, pba, sectors);
        self.media_time += end - start;
        self.busy_until = end;
        end
    }

    /// The media reads ahead after a read of `pba` to `end`, of a stretch that began at `began`.
    fn read_on(&mut self, g: &Geometry, began: Pba, pba: Pba, end: Pba, passed: Nanos) {
        if !self.reads_ahead {
            return;
        }
        let end_of_track = |more: u64| g.track_start(g.track_of(end - 1) + more);
        let limit = match self.ahead_to {
            ReadAheadTo::Bytes if self.keeps_requested => {
                Pba((end.0 + self.ahead_sectors).min(pba.0 + self.segment_sectors))
            }
            ReadAheadTo::Bytes => end + self.ahead_sectors,
            ReadAheadTo::NextTrack if g.track_of(began) < g.track_of(end - 1) => end_of_track(2),
            ReadAheadTo::Track | ReadAheadTo::NextTrack => end_of_track(1),
        };
        let limit = limit.max(end).min(Pba(g.sectors()));
        self.ahead = Some(ReadAhead { began, end, passed, limit });
    }

    /// From where on a stretch is still in the buffer: what lies further behind the head is overwritten.
    fn kept_from(&self, g: &Geometry, ahead: &ReadAhead, now: Nanos) -> Pba {
        ahead.began.max(Pba(self.reached(g, ahead, now).0.saturating_sub(self.segment_sectors)))
    }

    /// Place that reading ahead has reached.
    fn reached(&self, g: &Geometry, ahead: &ReadAhead, now: Nanos) -> Pba {
        let left = ahead.limit - ahead.end;
        let whole = self.media.streaming(g, ahead.end, left).0.max(1);
        let share = now.since(ahead.passed).0.min(whole);
        ahead.end + (u128::from(left) * u128::from(share) / u128::from(whole)) as u64
    }

    /// Lets the media begin the queued writes that it would have begun before `now`.
    fn catch_up(&mut self, g: &Geometry, now: Nanos) {
        self.count_unwaited(self.counted_to, now.min(self.busy_until));
        while self.begin_write(g, now) {}
        if self.busy_until <= now {
            self.writing = 0;
        }
    }

    /// Begins the next queued write if the media is free for it before `before`.
    fn begin_write(&mut self, g: &Geometry, before: Nanos) -> bool {
        let start_of = |next: &Pending| self.busy_until.max(next.since);
        let Some(start) = self.queue.writes.front().map(start_of).filter(|start| *start < before) else { return false };
        let Some(next) = self.queue.pop() else { return false };
        self.writing = next.sectors;
        let end = self.on_media(g, start, true, next.pba, next.sectors);
        self.count_unwaited(start, before.min(end));
        true
    }

    fn count_unwaited(&mut self, from: Nanos, to: Nanos) {
        self.unwaited += to.since(from.max(self.counted_to));
        self.counted_to = self.counted_to.max(to);
    }

    /// An access of the media itself, which ends reading ahead.
    fn on_media(&mut self, g: &Geometry, start: Nanos, write: bool, pba: Pba, sectors: u64) -> Nanos {
        self.stop_reading_ahead(g, start);
        let end = self.media.access_without_overhead(g, start, write, pba, sectors);
        self.media_time += end - start;
        self.busy_until = end;
        end
    }

    /// Reads ahead no more; the head stays where reading got to. What was read is kept where there are more segments.
    fn stop_reading_ahead(&mut self, g: &Geometry, now: Nanos) {
        let Some(ahead) = self.ahead.take() else { return };
        let reached = self.reached(g, &ahead, now);
        if self.segments > 1 {
            self.kept.truncate(self.segments - 2);
            self.kept.push_front((self.kept_from(g, &ahead, now), reached));
        }
        self.media.leave_at(&g.place(Pba(reached.0.max(1) - 1)));
    }

    /// The bus time of a read.
    fn bus(&self, sectors: u64) -> Nanos {
        Nanos((u128::from(sectors) * u128::from(self.ps_per_sector[0]) / 1000) as u64)
    }

    fn write_bus(&self, sectors: u64) -> Nanos {
        Nanos((u128::from(sectors) * u128::from(self.ps_per_sector[1]) / 1000) as u64)
    }
}

#[cfg(test)]
mod tests;
