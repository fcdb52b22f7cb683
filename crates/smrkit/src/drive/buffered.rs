//! A drive's buffer in front of the mechanical clock: a write cache and read-ahead, each off by default.
//!
//! While there is room, a write completes after the bus transfer; the media writes the queue in order, joining contiguous writes. A read's
//! bus transfer overlaps the media's. After a read, the media reads ahead until the next access that it must serve. The buffer keeps the last
//! sectors that passed under the head, and earlier stretches. The overhead of a command overlaps the service of the previous one, if it was
//! sent by then. Left out: reordering inside the cache, interrupting an access once begun.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Mechanical, Position, scaled};
use crate::geometry::Geometry;
use crate::state::state;
use crate::units::{Nanos, Pba, SECTOR_BYTES};

named_values! {
    /// End of the media's reading on after a read.
    pub enum ReadAheadTo {
        /// As many bytes as `read_ahead_bytes` says.
        #[default]
        Bytes = "bytes",
        /// The end of the track of the last sector asked for.
        Track = "track",
        /// The end of the track, or of the next one where reading came from the track before.
        NextTrack = "next-track",
    }
}

named_values! {
    /// Order in which a write cache brings what it holds to the platters.
    pub enum WriteCacheOrder {
        /// The drive's own, above its layer: nearest first, with writes overwritten and joined.
        #[default]
        Position = "position",
        /// The order of arrival, at once, as the drives of the 1990s are described.
        Arrival = "arrival",
    }
}

/// A command's overhead by its kind and by the kind of the one before: after a read, after a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overheads {
    /// Before the media reads.
    pub read_miss: [Nanos; 2],
    /// Before the bus carries data that is in the buffer.
    pub read_hit: [Nanos; 2],
    /// Before the bus carries a write into the buffer.
    pub write: [Nanos; 2],
    /// Before the media writes data that the buffer has no room for.
    pub media_write: [Nanos; 2],
    /// From then until the bus begins to carry the data of such a write; `None` for media that don't wait for the data.
    pub write_data: Option<Nanos>,
    /// After a read from the media has enough in the buffer, before the bus carries it.
    pub read_reselect: Nanos,
    /// At the end of a read, and of a write.
    pub completion: [Nanos; 2],
}

/// A buffer and the bus to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Buffer {
    /// Room for writes that the media has not done; 0 is off.
    pub write_cache_bytes: u64,
    /// Order in which these are written.
    pub write_cache_order: WriteCacheOrder,
    /// Bytes that the media reads on after a read; 0 is off, save where it reads to a track's end.
    pub read_ahead_bytes: u64,
    /// Place where reading on ends.
    pub read_ahead_to: ReadAheadTo,
    /// Bytes behind the head's place that are kept; read-ahead overwrites the rest.
    pub segment_bytes: u64,
    /// Stretches that are kept, the current one included; the oldest is dropped first.
    pub segments: u32,
    /// Sectors of the track that pass before the first one asked for are read too.
    pub reads_passing: bool,
    /// Reading on stops before it would overwrite what the last request asked for.
    pub keeps_requested: bool,
    /// The rate of the bus for reads, and for writes.
    pub bus_bytes_per_s: [f64; 2],
    /// The share of a read that must be in the buffer before the bus begins.
    pub watermark: f64,
    /// The share of a write that must be in the buffer before the media begin, where they wait for its data.
    pub write_watermark: f64,
    /// Overheads of commands.
    pub overheads: Overheads,
}

impl Buffer {
    /// SATA at 6 Gb/s with its 8b/10b code (assumption where a drive file names none).
    pub const BUS_BYTES_PER_S: f64 = 600e6;

    /// True if commands wait for all that the media does: it has no cache, and does not read ahead.
    pub fn is_off(&self) -> bool {
        self.write_cache_bytes < SECTOR_BYTES
            && self.read_ahead_bytes < SECTOR_BYTES
            && self.read_ahead_to == ReadAheadTo::Bytes
    }
}

/// A mechanical clock behind a buffer.
#[derive(Clone, Debug)]
pub struct Buffered {
    buffer: Buffer,
    /// The clock of the media.
    pub media: Mechanical,
    queue: WriteQueue,
    segments: Segments,
    /// Until when the media is busy with the access it has begun.
    pub busy_until: Nanos,
    /// Time for which the media wrote from the cache while no command was served, up to `counted_to`.
    pub unwaited: Nanos,
    /// Up to when `unwaited` is counted: at least the end of the last command; [`Nanos::MAX`] while one is served.
    counted_to: Nanos,
    /// When the next command was sent to the drive, if that was before its turn.
    sent: Nanos,
    /// True if the last command was a write.
    after_write: bool,
    /// Time of the bus for a sector, for reads and for writes.
    ps_per_sector: [u64; 2],
}

state! {
    Buffered {
        parts: media, queue, segments;
        values: busy_until, unwaited, counted_to, sent, after_write;
        built: buffer, ps_per_sector;
    }
}

impl Buffered {
    /// A clock behind an empty buffer.
    pub fn new(media: Mechanical, buffer: Buffer) -> Buffered {
        let in_order = buffer.write_cache_order == WriteCacheOrder::Arrival;
        Buffered {
            media,
            queue: WriteQueue::new(if in_order { buffer.write_cache_bytes / SECTOR_BYTES } else { 0 }),
            segments: Segments::new(&buffer),
            busy_until: Nanos::ZERO,
            unwaited: Nanos::ZERO,
            counted_to: Nanos::ZERO,
            sent: Nanos::MAX,
            after_write: false,
            ps_per_sector: buffer.bus_bytes_per_s.map(|rate| (SECTOR_BYTES as f64 * 1e12 / rate).round() as u64),
            buffer,
        }
    }

    /// The size of a write-back cache above the layer. 0 if the drive's cache writes in the order of arrival, because this clock models such
    /// a cache itself.
    pub fn write_cache_sectors(&self) -> u64 {
        match self.buffer.write_cache_order {
            WriteCacheOrder::Position => self.buffer.write_cache_bytes / SECTOR_BYTES,
            WriteCacheOrder::Arrival => 0,
        }
    }

    /// True if writes complete in a cache that this clock keeps, in the order of arrival.
    pub fn completes_early(&self) -> bool {
        self.queue.can_hold(1)
    }

    /// When a command that needs only the bus completes: it was sent at `sent`, and its data is carried from `start` on.
    pub fn transfer(&mut self, start: Nanos, sent: Nanos, write: bool, sectors: u64) -> Nanos {
        let overheads = &self.buffer.overheads;
        let ready = self.ready(start, sent, if write { overheads.write } else { overheads.read_hit });
        let end = ready + self.bus(write, sectors) + overheads.completion[usize::from(write)];
        self.after_write = write;
        end
    }

    /// Notes that the next command was sent at `moment`: its overhead began then.
    pub(crate) fn sent_at(&mut self, moment: Nanos) {
        self.sent = moment;
    }

    /// Cuts the power: queued writes are lost, and the buffer is empty.
    pub fn power_cut(&mut self) {
        self.queue.clear();
        self.segments.clear();
    }

    /// Serves an access issued at `now`; returns when the command completes.
    pub fn access(&mut self, g: &Geometry, now: Nanos, write: bool, pba: Pba, sectors: u64) -> Nanos {
        self.catch_up(g, now);
        // While a command is served, nothing that the media does counts as unwaited.
        let counted_to = std::mem::replace(&mut self.counted_to, Nanos::MAX);
        let sent = std::mem::replace(&mut self.sent, Nanos::MAX).min(now);
        let completed = match write {
            true => self.write(g, now, sent, pba, sectors),
            false => self.read(g, now, sent, pba, sectors),
        };
        self.after_write = write;
        let completed = completed + self.buffer.overheads.completion[usize::from(write)];
        self.counted_to = counted_to.max(completed);
        completed
    }

    /// The first time from `now` on at which the overhead of a command that was sent at `sent` is over.
    fn ready(&self, now: Nanos, sent: Nanos, overhead: [Nanos; 2]) -> Nanos {
        now.max(sent + overhead[usize::from(self.after_write)])
    }

    /// The time from `now` until a read at a position would begin, after the access that the media is busy with.
    #[inline]
    pub fn estimate_at(&self, position: &Position, now: Nanos) -> Nanos {
        let start = now.max(self.busy_until);
        start.since(now) + self.media.estimate_at(position, start)
    }

    /// Writes everything to the media; returns when that is done.
    pub fn flush(&mut self, g: &Geometry, now: Nanos) -> Nanos {
        self.catch_up(g, Nanos::MAX);
        now.max(self.busy_until)
    }

    /// The end of a write: into the buffer or, if it is longer than that, to the media.
    fn write(&mut self, g: &Geometry, now: Nanos, sent: Nanos, pba: Pba, sectors: u64) -> Nanos {
        // What is read ahead from now on would be older than this write.
        if self.segments.is_read_ahead(pba, pba + sectors) {
            self.stop_reading_ahead(g, now);
        }
        self.segments.overwrite(pba, pba + sectors);
        if !self.queue.can_hold(sectors) {
            // A write that is longer than the cache goes to the media, after all queued writes.
            let ready = self.ready(now, sent, self.buffer.overheads.media_write);
            let start = self.flush(g, now).max(ready);
            let Some(until_data) = self.buffer.overheads.write_data else {
                return self.on_media(g, start, true, pba, sectors).max(ready + self.bus(true, sectors));
            };
            // The head moves while the bus carries data; if it arrives first, it waits for the data.
            self.stop_reading_ahead(g, start);
            let bus_start = ready + until_data;
            let begin = bus_start + self.lead(g, pba, sectors);
            let start = start.max(Nanos(begin.0.saturating_sub(self.media.write_seek(g, pba).0)));
            return self.on_media(g, start, true, pba, sectors).max(bus_start + self.bus(true, sectors));
        }
        let mut room_at = now;
        while !self.queue.has_room(sectors) {
            // A write frees its room when the media has done it; then the next begins.
            room_at = room_at.max(self.busy_until);
            self.queue.finish_write();
            if !self.queue.has_room(sectors) {
                self.begin_write(g, Nanos::MAX);
            }
        }
        let completed = self.ready(room_at, sent, self.buffer.overheads.write) + self.bus(true, sectors);
        self.queue.push(pba, sectors, completed);
        completed
    }

    /// How long the bus carries a write before the media begins: until the watermark of the part on the first track is in the buffer, and
    /// until the bus stays a sector ahead of the media up to the end, even in the fastest zone (assumption). Only the first track counts:
    /// on the HP C3323A, writes that continue on the next track begin as early as shorter ones.
    fn lead(&self, g: &Geometry, pba: Pba, sectors: u64) -> Nanos {
        let on_first_track = sectors.min(g.track_start(g.track_of(pba) + 1) - pba);
        let watermark = (self.buffer.write_watermark * on_first_track as f64).ceil() as u64;
        let on_media = Nanos(scaled(self.media.rotation().0, sectors, g.longest_track()));
        let stays_ahead = self.bus(true, sectors + 1).since(on_media);
        self.bus(true, watermark).max(stays_ahead)
    }

    /// The end of a read: from the buffer, from sectors being read ahead, or from the media.
    fn read(&mut self, g: &Geometry, now: Nanos, sent: Nanos, pba: Pba, sectors: u64) -> Nanos {
        let end = pba + sectors;
        let from_buffer = self.ready(now, sent, self.buffer.overheads.read_hit) + self.bus(false, sectors);
        if self.queue.holds(pba, end) || self.segments.has_kept(pba, end) {
            return from_buffer;
        }
        if let Some(ahead) = self.segments.ahead_of(g, &self.media, now, pba, end) {
            if end <= ahead.end {
                return from_buffer;
            }
            // The media goes on from where it reads ahead, so that the read waits for its last sector only.
            let passed = self.media.access_without_overhead(g, ahead.passed, false, ahead.end, end - ahead.end);
            self.read_on(g, ahead.began, pba, end, passed);
            return from_buffer.max(passed + self.bus(false, 1));
        }
        // The read waits for the write that the media has begun, but goes before those that are queued.
        let start = self.ready(now, sent, self.buffer.overheads.read_miss).max(self.busy_until);
        self.queue.finish_write();
        if self.buffer.reads_passing {
            // The head must be where it stops before the sectors that pass it are counted.
            self.stop_reading_ahead(g, start);
        }
        let passing = if self.buffer.reads_passing { self.media.passing_before(g, start, pba) } else { 0 };
        // The bus begins when this many sectors are in the buffer, and ends after the last.
        let first = ((self.buffer.watermark * sectors as f64) as u64).clamp(1, sectors);
        let begun = self.on_media(g, start, false, pba, first);
        let more = sectors - first;
        let done = if more > 0 { self.go_on(g, begun, false, pba + first, more) } else { begun };
        self.read_on(g, pba - passing, pba, end, done);
        let carried = begun + self.buffer.overheads.read_reselect + self.bus(false, sectors);
        // The last sector can be carried only after it has passed under the head.
        carried.max(done + self.bus(false, 1))
    }

    /// The time until a write of `sectors` finds room in the cache; `None` if it is longer than the cache.
    #[inline]
    pub fn wait_for_room(&self, now: Nanos, sectors: u64) -> Option<Nanos> {
        let wait = if self.queue.has_room(sectors) { Nanos::ZERO } else { self.busy_until.since(now) };
        self.queue.can_hold(sectors).then_some(wait)
    }

    /// True if a read finds its sectors in the buffer: among queued writes, in a kept stretch, or where the media reads ahead.
    #[inline]
    pub fn holds(&self, g: &Geometry, now: Nanos, pba: Pba, sectors: u64) -> bool {
        let end = pba + sectors;
        self.queue.holds(pba, end)
            || self.segments.has_kept(pba, end)
            || self.segments.ahead_of(g, &self.media, now, pba, end).is_some()
    }

    /// Starts reading ahead after a read of `pba` to `end`, in a stretch that began at `began`.
    fn read_on(&mut self, g: &Geometry, began: Pba, pba: Pba, end: Pba, passed: Nanos) {
        let end_of_track = |more: u64| g.track_start(g.track_of(end - 1) + more);
        let sectors = self.buffer.read_ahead_bytes / SECTOR_BYTES;
        let limit = match self.buffer.read_ahead_to {
            ReadAheadTo::Bytes if sectors == 0 => return,
            ReadAheadTo::Bytes if self.buffer.keeps_requested => (end + sectors).min(pba + self.segments.length),
            ReadAheadTo::Bytes => end + sectors,
            ReadAheadTo::NextTrack if g.track_of(began) < g.track_of(end - 1) => end_of_track(2),
            ReadAheadTo::Track | ReadAheadTo::NextTrack => end_of_track(1),
        };
        self.segments.ahead = Some(ReadAhead { began, end, passed, limit: limit.max(end).min(Pba(g.sectors)) });
    }

    /// Lets the media begin the queued writes that it would have begun before `now`.
    fn catch_up(&mut self, g: &Geometry, now: Nanos) {
        // First the rest of the write that the media is at.
        self.count_unwaited(self.counted_to, now.min(self.busy_until));
        while self.begin_write(g, now) {}
        if self.busy_until <= now {
            self.queue.finish_write();
        }
    }

    /// Begins the next queued write if it is due, and the media free for it, before `limit`.
    fn begin_write(&mut self, g: &Geometry, limit: Nanos) -> bool {
        let start = self.queue.next_since().map(|since| self.busy_until.max(since));
        let Some(start) = start.filter(|start| *start < limit) else { return false };
        let Some(next) = self.queue.start_write() else { return false };
        let end = self.on_media(g, start, true, next.pba, next.sectors);
        self.count_unwaited(start, limit.min(end));
        true
    }

    fn count_unwaited(&mut self, from: Nanos, to: Nanos) {
        self.unwaited += to.since(from.max(self.counted_to));
        self.counted_to = self.counted_to.max(to);
    }

    /// Accesses the media, which ends reading ahead.
    fn on_media(&mut self, g: &Geometry, start: Nanos, write: bool, pba: Pba, sectors: u64) -> Nanos {
        self.stop_reading_ahead(g, start);
        self.go_on(g, start, write, pba, sectors)
    }

    /// Continues an access, without ending reading ahead.
    #[inline(always)]
    fn go_on(&mut self, g: &Geometry, start: Nanos, write: bool, pba: Pba, sectors: u64) -> Nanos {
        self.busy_until = self.media.access_without_overhead(g, start, write, pba, sectors);
        self.busy_until
    }

    /// Stops reading ahead; the head stays where reading got to.
    fn stop_reading_ahead(&mut self, g: &Geometry, now: Nanos) {
        if let Some(reached) = self.segments.stop(g, &self.media, now) {
            self.media.leave_at(&g.place(Pba(reached.0.saturating_sub(1))));
        }
    }

    /// The bus time of a write, or of a read.
    fn bus(&self, write: bool, sectors: u64) -> Nanos {
        Nanos(scaled(sectors, self.ps_per_sector[usize::from(write)], 1000))
    }
}

/// A stretch from `began` on that was read, or is being read ahead up to `limit`. Its sector `end` passed under the head at `passed`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct ReadAhead {
    pub began: Pba,
    pub end: Pba,
    pub passed: Nanos,
    pub limit: Pba,
}

impl ReadAhead {
    /// The sector that reading has reached.
    fn reached(&self, g: &Geometry, media: &Mechanical, now: Nanos) -> Pba {
        let left = self.limit - self.end;
        let whole = media.streaming(g, self.end, left).0.max(1);
        self.end + scaled(left, now.since(self.passed).0.min(whole), whole)
    }
}

/// The segments of a buffer, each with a stretch.
#[derive(Clone, Debug)]
struct Segments {
    ahead: Option<ReadAhead>,
    /// Earlier stretches, from and to, the latest first.
    kept: VecDeque<(Pba, Pba)>,
    count: usize,
    /// The length of each, in sectors.
    pub length: u64,
}

state! { Segments { values: ahead, kept; built: count, length; } }

impl Segments {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.ahead = None;
        self.kept.clear();
    }

    pub fn new(buffer: &Buffer) -> Segments {
        let (count, length) = (buffer.segments as usize, buffer.segment_bytes / SECTOR_BYTES);
        Segments { ahead: None, kept: VecDeque::new(), count, length }
    }

    /// Stops reading ahead; returns the sector that reading got to. If there are more segments, the stretch is kept.
    pub fn stop(&mut self, g: &Geometry, media: &Mechanical, now: Nanos) -> Option<Pba> {
        let ahead = self.ahead.take()?;
        let reached = ahead.reached(g, media, now);
        if self.count > 1 {
            // One segment is for the next stretch, and one for this.
            self.kept.truncate(self.count - 2);
            self.kept.push_front((self.kept_from(&ahead, reached), reached));
        }
        Some(reached)
    }

    /// The first sector of a stretch that is still in the buffer: sectors further behind the head are overwritten.
    fn kept_from(&self, ahead: &ReadAhead, reached: Pba) -> Pba {
        ahead.began.max(Pba(reached.0.saturating_sub(self.length)))
    }

    /// True if a stretch that was read holds sectors.
    #[inline]
    pub fn has_kept(&self, pba: Pba, end: Pba) -> bool {
        self.kept.iter().any(|&(from, to)| from <= pba && end <= to)
    }

    /// The stretch being read ahead, if it holds sectors or will.
    #[inline]
    pub fn ahead_of(&self, g: &Geometry, media: &Mechanical, now: Nanos, pba: Pba, end: Pba) -> Option<ReadAhead> {
        let covers = |ahead: &ReadAhead| ahead.began <= pba && end <= ahead.limit;
        self.ahead.filter(|ahead| covers(ahead) && self.kept_from(ahead, ahead.reached(g, media, now)) <= pba)
    }

    /// True if any of these sectors are read ahead.
    pub fn is_read_ahead(&self, pba: Pba, end: Pba) -> bool {
        self.ahead.is_some_and(|ahead| pba < ahead.limit && end > ahead.began)
    }

    /// Forgets stretches with sectors that are overwritten now.
    pub fn overwrite(&mut self, pba: Pba, end: Pba) {
        self.kept.retain(|&(from, to)| to <= pba || end <= from);
    }
}

/// A write that has completed for the host, and waits for the media.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Pending {
    pub pba: Pba,
    pub sectors: u64,
    since: Nanos,
}

/// Sectors of a granule, by which a `WriteQueue` counts its writes. It has as many counts as writes of 8 KiB fit into it, so that few
/// counts are shared; at most these, 32 KiB.
const GRANULE_SECTORS: u64 = 128;
const COUNTS_MAX: u64 = 1 << 13;

/// Writes that wait for the media. For most reads one count shows that none of the writes holds their sectors.
#[derive(Clone, Debug)]
struct WriteQueue {
    /// The sectors that it has room for.
    room: u64,
    writes: VecDeque<Pending>,
    /// Sectors in `writes`, and in the write that the media is doing.
    queued: u64,
    writing: u64,
    /// How many granules of `writes` have this number, modulo the length.
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
    /// Forgets all of them.
    pub fn clear(&mut self) {
        (self.queued, self.writing) = (0, 0);
        self.writes.clear();
        self.granules.fill(0);
    }

    pub fn new(room: u64) -> Self {
        let counts = (room / 16).clamp(1, COUNTS_MAX).next_power_of_two() as usize;
        Self { room, writes: VecDeque::new(), queued: 0, writing: 0, granules: vec![0; counts] }
    }

    /// True if the queue is long enough for the write.
    pub fn can_hold(&self, sectors: u64) -> bool {
        sectors <= self.room
    }

    /// True if a write finds room at once.
    pub fn has_room(&self, sectors: u64) -> bool {
        self.queued + self.writing + sectors <= self.room
    }

    /// The count of a granule, which other granules may share.
    fn count_of(&mut self, granule: u64) -> &mut u32 {
        let shared = granule as usize & (self.granules.len() - 1);
        &mut self.granules[shared]
    }

    /// Adds a write that completes for the host at `since`; joins it to the last one if it continues that.
    pub fn push(&mut self, pba: Pba, sectors: u64, since: Nanos) {
        self.queued += sectors;
        let last = (pba.0 + sectors - 1) / GRANULE_SECTORS;
        let mut first = pba.0 / GRANULE_SECTORS;
        match self.writes.back_mut() {
            Some(before) if before.pba + before.sectors == pba => {
                before.sectors += sectors;
                // The granule of the sector before is counted already.
                first = (pba.0 - 1) / GRANULE_SECTORS + 1;
            }
            _ => self.writes.push_back(Pending { pba, sectors, since }),
        }
        (first..=last).for_each(|granule| *self.count_of(granule) += 1);
    }

    /// When the next write completed for the host.
    pub fn next_since(&self) -> Option<Nanos> {
        self.writes.front().map(|next| next.since)
    }

    /// Takes out the next write, which the media begins.
    pub fn start_write(&mut self) -> Option<Pending> {
        let next = self.writes.pop_front()?;
        self.queued -= next.sectors;
        self.writing = next.sectors;
        let granules = next.pba.0 / GRANULE_SECTORS..=(next.pba.0 + next.sectors - 1) / GRANULE_SECTORS;
        granules.for_each(|granule| *self.count_of(granule) -= 1);
        Some(next)
    }

    /// Frees the room of the write that the media has done.
    pub fn finish_write(&mut self) {
        self.writing = 0;
    }

    /// True if one write has all sectors from `pba` to `end`.
    #[inline]
    pub fn holds(&self, pba: Pba, end: Pba) -> bool {
        self.granules[(pba.0 / GRANULE_SECTORS) as usize & (self.granules.len() - 1)] > 0
            && self.writes.iter().any(|w| w.pba <= pba && end <= w.pba + w.sectors)
    }
}

#[cfg(test)]
mod tests;
