//! A drive's buffer before the mechanical clock: a write cache and read-ahead, each off by default.
//!
//! A write is answered after the bus transfer while there is room; the media works off the queue in order, joining
//! what is contiguous. After a read the media goes on reading until the next access that it must serve. Left out:
//! reordering inside the cache, and interrupting a media access once it has begun.

use std::collections::VecDeque;

use super::{Mechanical, Position};
use crate::error::Error;
use crate::geometry::{Geometry, Place};
use crate::units::{Nanos, Pba, SECTOR_BYTES};

/// Sizes of the buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Buffer {
    /// Room for writes that the media has not done; 0 is off.
    pub write_cache_bytes: u64,
    /// How far the media reads on after a read; 0 is off.
    pub read_ahead_bytes: u64,
    /// The rate of the bus.
    pub bus_bytes_per_s: f64,
}

impl Buffer {
    /// SATA at 6 Gb/s with its 8b/10b code (assumption where a drive file names none).
    pub const BUS_BYTES_PER_S: f64 = 600e6;

    /// Neither cache nor read-ahead.
    pub fn is_off(&self) -> bool {
        self.write_cache_bytes < SECTOR_BYTES && self.read_ahead_bytes < SECTOR_BYTES
    }

    /// Errors: a bus without a sensible rate.
    pub fn check(&self) -> Result<(), Error> {
        if (1e3..=1e13).contains(&self.bus_bytes_per_s) {
            return Ok(());
        }
        let rate = self.bus_bytes_per_s;
        Err(Error::Impossible(format!("mechanical.bus_bytes_per_s = {rate}: give 1e3 to 1e13")))
    }
}

/// A write that the host was told is done.
#[derive(Clone, Copy, Debug)]
struct Pending {
    pba: Pba,
    sectors: u64,
    since: Nanos,
}

/// A stretch that was read or is being read ahead: `end` passed under the head at `passed`; on to `limit`. As much is
/// kept before `end` as may be read after it.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    start: Pba,
    end: Pba,
    passed: Nanos,
    limit: Pba,
}

/// A mechanical clock behind a buffer.
#[derive(Clone, Debug)]
pub struct Buffered {
    media: Mechanical,
    queue: VecDeque<Pending>,
    /// Sectors of queued writes.
    queued: u64,
    /// Sectors of the write that the media is doing until `busy_until`.
    writing: u64,
    busy_until: Nanos,
    media_time: Nanos,
    ahead: Option<Ahead>,
    cache_sectors: u64,
    ahead_sectors: u64,
    ps_per_sector: u64,
}

impl Buffered {
    /// A clock behind an empty buffer.
    pub fn new(media: Mechanical, buffer: Buffer) -> Buffered {
        Buffered {
            media,
            queue: VecDeque::new(),
            queued: 0,
            writing: 0,
            busy_until: Nanos::ZERO,
            media_time: Nanos::ZERO,
            ahead: None,
            cache_sectors: buffer.write_cache_bytes / SECTOR_BYTES,
            ahead_sectors: buffer.read_ahead_bytes / SECTOR_BYTES,
            ps_per_sector: (SECTOR_BYTES as f64 * 1e12 / buffer.bus_bytes_per_s).round() as u64,
        }
    }

    /// The clock of the media.
    pub fn media(&self) -> &Mechanical {
        &self.media
    }

    /// Moves the head over a place.
    pub fn leave_at(&mut self, place: &Place) {
        self.media.leave_at(place);
    }

    /// Until when the media is busy with what it has begun.
    pub fn busy_until(&self) -> Nanos {
        self.busy_until
    }

    /// How long the media has worked so far, whoever waited for it; reading ahead is not counted.
    pub fn media_time(&self) -> Nanos {
        self.media_time
    }

    /// Sectors that were answered but are not on the media once it is done with what it has begun.
    pub fn queued_sectors(&self) -> u64 {
        self.queued
    }

    /// Serves an access issued at `now`; returns when the host is answered.
    pub fn access(&mut self, g: &Geometry, now: Nanos, write: bool, pba: Pba, sectors: u64) -> Nanos {
        self.catch_up(g, now);
        if sectors == 0 {
            return now + self.media.overhead();
        }
        if write { self.write(g, now, pba, sectors) } else { self.read(g, now, pba, sectors) }
    }

    /// From `now` until a read at a position would begin, behind what the media is doing.
    pub fn estimate_at(&self, position: &Position, now: Nanos) -> Nanos {
        let start = now.max(self.busy_until);
        start.since(now) + self.media.estimate_at(position, start)
    }

    /// Writes everything to the media; returns when that is done.
    pub fn flush(&mut self, g: &Geometry, now: Nanos) -> Nanos {
        self.catch_up(g, now);
        while self.begin_write(g, Nanos::MAX) {}
        self.writing = 0;
        now.max(self.busy_until)
    }

    fn write(&mut self, g: &Geometry, now: Nanos, pba: Pba, sectors: u64) -> Nanos {
        if self.ahead.is_some_and(|a| pba < a.limit && pba + sectors > a.start) {
            self.stop_reading_ahead(g, now);
        }
        if sectors > self.cache_sectors {
            let start = self.flush(g, now);
            return self.on_media(g, start, true, pba, sectors);
        }
        let mut room_at = now;
        while self.queued + self.writing + sectors > self.cache_sectors {
            // What is being written frees its room when it is done; then the next begins.
            room_at = room_at.max(self.busy_until);
            self.writing = 0;
            if self.queued + sectors > self.cache_sectors {
                self.begin_write(g, Nanos::MAX);
            }
        }
        let answered = room_at + self.media.overhead() + self.bus(sectors);
        self.queue_write(pba, sectors, answered);
        answered
    }

    fn queue_write(&mut self, pba: Pba, sectors: u64, since: Nanos) {
        self.queued += sectors;
        match self.queue.back_mut() {
            Some(last) if last.pba + last.sectors == pba => last.sectors += sectors,
            _ => self.queue.push_back(Pending { pba, sectors, since }),
        }
    }

    fn read(&mut self, g: &Geometry, now: Nanos, pba: Pba, sectors: u64) -> Nanos {
        let end = pba + sectors;
        let from_buffer = now + self.media.overhead() + self.bus(sectors);
        if self.queue.iter().any(|w| w.pba <= pba && end <= w.pba + w.sectors) {
            return from_buffer;
        }
        if let Some(ahead) = self.ahead.filter(|a| a.start <= pba && end <= a.limit) {
            if end <= ahead.end {
                return from_buffer;
            }
            let passed = self.media.carry_on(g, ahead.passed, false, ahead.end, end - ahead.end);
            let answered = from_buffer.max(passed + self.bus(1));
            let limit = Pba((end.0 + self.ahead_sectors).min(g.sectors()));
            let start = ahead.start.max(Pba(end.0.saturating_sub(self.ahead_sectors)));
            self.ahead = Some(Ahead { start, end, passed, limit });
            return answered;
        }
        let start = now.max(self.busy_until);
        self.writing = 0;
        let done = self.on_media(g, start, false, pba, sectors);
        let limit = Pba((end.0 + self.ahead_sectors).min(g.sectors()));
        self.ahead = (self.ahead_sectors > 0).then_some(Ahead { start: pba, end, passed: done, limit });
        done
    }

    /// Lets the media begin the queued writes that it would have begun before `now`.
    fn catch_up(&mut self, g: &Geometry, now: Nanos) {
        while self.begin_write(g, now) {}
        if self.busy_until <= now {
            self.writing = 0;
        }
    }

    /// Begins the next queued write if the media is free for it before `before`.
    fn begin_write(&mut self, g: &Geometry, before: Nanos) -> bool {
        let Some(&next) = self.queue.front() else { return false };
        let start = self.busy_until.max(next.since);
        if start >= before {
            return false;
        }
        self.queue.pop_front();
        self.queued -= next.sectors;
        self.writing = next.sectors;
        self.on_media(g, start, true, next.pba, next.sectors);
        true
    }

    /// An access of the media itself, which ends reading ahead.
    fn on_media(&mut self, g: &Geometry, start: Nanos, write: bool, pba: Pba, sectors: u64) -> Nanos {
        self.stop_reading_ahead(g, start);
        let end = self.media.access(g, start, write, pba, sectors);
        self.media_time += end - start;
        self.busy_until = end;
        end
    }

    /// Forgets what was read ahead; the head stays where reading got to.
    fn stop_reading_ahead(&mut self, g: &Geometry, now: Nanos) {
        let Some(ahead) = self.ahead.take() else { return };
        let left = ahead.limit - ahead.end;
        let whole = self.media.streaming(g, ahead.end, left).0.max(1);
        let share = now.since(ahead.passed).0.min(whole);
        let reached = ahead.end + (u128::from(left) * u128::from(share) / u128::from(whole)) as u64;
        self.media.leave_at(&g.place(Pba(reached.0.max(1) - 1)));
    }

    fn bus(&self, sectors: u64) -> Nanos {
        Nanos((u128::from(sectors) * u128::from(self.ps_per_sector) / 1000) as u64)
    }
}

#[cfg(test)]
mod tests;
