//! The persistent cache as a circular log of entries: a header of one sector, then the host's data, written as one access.
//! Writes that wait together may share an entry.
//!
//! Positions count sectors from the first lap on and never wrap, so that older data has smaller positions; the PBA follows from the position
//! modulo the log's size. The log is shingled too: a write at the head destroys the sectors after it, so the head keeps a guard's distance
//! from the tail.
//!
//! After a power cut the drive recovers its map from the last map copy and the log entries after it. So entries to which that copy may refer
//! are not overwritten until a newer copy is written, whose time is charged.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::extent_map::ExtentMap;
use crate::geometry::{Divisor, Geometry, Guard};
use crate::layer::prelude::*;
use crate::schema::{Size, Time};
use crate::units::SECTOR_BYTES;

/// Sectors of a header.
pub(super) const HEADER: u64 = 1;

/// Data of one write in the log, which may still be valid.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct LogEntry {
    /// Position of its first sector of data.
    pub data: u64,
    pub lba: Lba,
    pub sectors: u64,
    /// True if it follows a header: it has one of its own, or is the first of several entries that share one.
    pub leads: bool,
}

/// An LBA and how many sectors from there on.
pub(super) type Extent = (Lba, u64);

pub(super) struct CacheLog {
    geometry: Geometry,
    pub costs: Costs,
    start: Pba,
    /// Sectors of the log. Its length, as reported, is counted in headers instead.
    pub size: Divisor,
    pub guard: Guard,
    /// Position of the next entry, or of the end of a lap without room for its header.
    pub head: u64,
    /// Entries must end at or before this position.
    pub limit: u64,
    /// Position of the oldest entry that the last copy of the map may refer to.
    pub kept: u64,
    /// The entries, oldest first. Writes that share a header are separate entries.
    pub entries: VecDeque<LogEntry>,
    /// Number of the entries' headers.
    headers: u64,
    /// Sectors of the append in progress, which a power cut would tear.
    under_way: u64,
    /// Sectors upstream of a rewritten one that the rewrite may damage (DPID).
    dpid_sectors: u64,
    /// Sectors left unused after the entries of each write.
    gap: u64,
}

state! {
    CacheLog {
        values: head, limit, kept, entries, headers, under_way;
        built: geometry, costs, start, size, guard, dpid_sectors, gap;
    }
}

impl CacheLog {
    /// An empty log in the sectors `start..end`.
    pub fn new(drive: &Drive, costs: Costs, start: Pba, end: Pba) -> CacheLog {
        let mut log = CacheLog {
            geometry: drive.geometry.clone(),
            // Bounded, so that most of the log is for data even on a small drive.
            gap: costs.gap_sectors.min((end - start) / 4),
            costs,
            start,
            size: Divisor::new(end - start),
            guard: drive.interference.guard(&drive.geometry),
            head: 0,
            limit: 0,
            kept: 0,
            entries: VecDeque::new(),
            headers: 0,
            under_way: 0,
            dpid_sectors: drive.interference.upstream(),
        };
        log.keep_from(0);
        log
    }

    /// The most sectors of one request: as many as an empty log holds.
    pub fn request_max(&self) -> u64 {
        let sectors = self.size.value - self.gap;
        sectors - HEADER * sectors.div_ceil(self.costs.entry_sectors)
    }

    #[inline]
    pub fn pba(&self, position: u64) -> Pba {
        self.start + self.size.remainder(position)
    }

    #[inline]
    pub fn push(&mut self, entry: LogEntry) {
        self.headers += u64::from(entry.leads);
        self.entries.push_back(entry);
    }

    /// Number of entries, counted by their headers.
    #[inline]
    pub fn length(&self) -> u64 {
        self.headers
    }

    /// Position of the oldest entry's header, or the head if there is no entry.
    pub fn tail(&self) -> u64 {
        self.entries.front().map_or(self.head, |entry| entry.data - HEADER)
    }

    /// Lets the log overwrite entries before position `tail`, which no map copy needs any more.
    pub fn keep_from(&mut self, tail: u64) {
        let (lap, offset) = self.size.divide(tail);
        let safe = match self.guard {
            Guard::Sectors(sectors) => offset.saturating_sub(sectors),
            Guard::Tracks(tracks) => {
                let track = self.geometry.track_of(self.start + offset);
                let until = if track.0 < tracks { Pba(0) } else { self.geometry.track_start(track - tracks) };
                until.0.saturating_sub(self.start.0)
            }
        };
        self.kept = tail;
        // One lap beyond the tail, less the guard that a write there would damage.
        self.limit = (lap + 1) * self.size.value + safe;
    }

    pub fn next_lap(&self) -> u64 {
        (self.size.quotient(self.head) + 1) * self.size.value
    }

    /// Where an entry begins if it is appended at `head`, and the most sectors of data that it can hold.
    #[inline]
    fn opening(&self, head: u64) -> (u64, u64) {
        let room = self.size.value - self.size.remainder(head);
        // The last sector of the log holds no header, because no data could follow it.
        let (at, room) = if room > HEADER { (head, room - HEADER) } else { (head + room, self.size.value - HEADER) };
        (at, room.min(self.costs.entry_sectors))
    }

    /// True if a request of `n` sectors finds room.
    #[inline]
    pub fn has_room(&self, n: u64) -> bool {
        let (mut head, mut left) = (self.head, n);
        loop {
            let (at, room) = self.opening(head);
            head = at + HEADER + left.min(room);
            if left <= room {
                return head + self.gap <= self.limit;
            }
            left -= room;
        }
    }

    /// Sectors from the tail to the head, without the guard.
    pub fn used(&self) -> u64 {
        self.head - self.tail()
    }

    /// How many entries must be cleaned to have `free_sectors` of the log free again, estimated from the mean length of an entry. Cleaning
    /// begins before the log is full, because otherwise each episode would need a map copy before its space could be reused.
    #[inline]
    pub fn excess(&self) -> u64 {
        let (size, used) = (self.size.value, self.used());
        let excess = (used + self.costs.free_sectors.min(size / 4)).saturating_sub(size);
        if excess == 0 { 0 } else { (excess * self.headers).div_ceil(used) }
    }

    /// Appends up to `n` sectors of `data`, from sector `at` on, as one entry: as many as an entry holds, and as fit before the log's end.
    /// Returns how many, and the PBA of the first.
    #[inline]
    pub fn append(
        &mut self,
        disk: &mut Disk,
        cause: Cause,
        (lba, n): Extent,
        data: &Buf,
        at: u64,
    ) -> DiskResult<(u64, Pba)> {
        let (head, room) = self.opening(self.head);
        let sectors = n.min(room);
        self.head = head;
        self.write(disk, cause, sectors, data, at)?;
        self.push(LogEntry { data: head + HEADER, lba, sectors, leads: true });
        self.head = head + HEADER + sectors;
        Ok((sectors, self.pba(head + HEADER)))
    }

    /// Skips the gap that stays unused between two writes.
    #[inline]
    pub fn skip_gap(&mut self) {
        self.head += self.gap;
    }

    /// True if one entry at the head can hold `n` sectors, without wrapping around.
    pub fn holds_undivided(&self, n: u64) -> bool {
        n <= self.opening(self.head).1
    }

    /// Appends `extents`, whose sectors follow each other in `data`, under one header; returns the PBA of the first.
    pub fn append_together(&mut self, disk: &mut Disk, extents: &[Extent], data: &Buf) -> DiskResult<Pba> {
        let sectors = extents.iter().map(|(_, sectors)| sectors).sum();
        debug_assert!(self.holds_undivided(sectors));
        self.head = self.opening(self.head).0;
        self.write(disk, Cause::Host, sectors, data, 0)?;
        self.head += HEADER;
        let first = self.pba(self.head);
        for (number, &(lba, sectors)) in extents.iter().enumerate() {
            self.push(LogEntry { data: self.head, lba, sectors, leads: number == 0 });
            self.head += sectors;
        }
        Ok(first)
    }

    /// Appends a header without data, which records that certain sectors are valid at home from now on.
    pub fn append_drop(&mut self, disk: &mut Disk) -> DiskResult {
        self.head = self.opening(self.head).0;
        self.write(disk, Cause::Map, 0, &disk.buf(0), 0)?;
        self.head += HEADER;
        Ok(())
    }

    #[inline]
    fn write(&mut self, disk: &mut Disk, cause: Cause, sectors: u64, data: &Buf, at: u64) -> DiskResult {
        let mut entry = disk.metadata(HEADER + sectors);
        entry.put(HEADER, data, at, sectors);
        self.under_way = HEADER + sectors;
        self.costs.append(disk, self.pba(self.head), cause, sectors, &entry)?;
        self.under_way = 0;
        Ok(())
    }

    /// Discards a torn entry after a power cut. The next append overwrites its sectors, except the first `dpid_sectors`: rewriting these might
    /// damage entries upstream.
    pub fn power_cut(&mut self) {
        self.head += std::mem::take(&mut self.under_way).min(self.dpid_sectors);
    }

    /// Pieces of an entry to which `map` still points: (LBA, sectors, PBA).
    pub fn valid<'a>(&self, map: &'a ExtentMap, entry: &LogEntry) -> impl Iterator<Item = (Lba, u64, Pba)> + use<'a> {
        let first = self.pba(entry.data);
        let own = first..first + entry.sectors;
        map.mapped(entry.lba, entry.sectors).filter(move |(.., pba)| own.contains(pba))
    }

    /// Drops the oldest entries as long as nothing in them is valid; returns whether any entry is left.
    pub fn trim(&mut self, map: &ExtentMap) -> bool {
        while let Some(entry) = self.entries.front() {
            if self.valid(map, entry).next().is_some() {
                return true;
            }
            self.headers -= u64::from(entry.leads);
            self.entries.pop_front();
        }
        false
    }
}

keys! {
    /// The costs of appends and map copies. Constants are what can be seen of a shipped drive from outside (Vguard 2017, table 2).
    #[derive(Clone)]
    pub(super) struct CostKeys {
        /// Time to append an entry to the log; clock means that the drive's clock determines it.
        append_time: Option<Nanos> = Or("clock", Time(1)), "clock";
        /// Amount of data that an entry can hold at `append_time`; if it holds more, the transfer time of the rest is
        /// added.
        append_bytes: u64 = Size(512, 1 << 40), "64Ki";
        /// Most data in a log entry; a longer write takes several entries. any means no limit.
        entry_bytes: Option<u64> = Or("any", Size(4096, 1 << 40)), "any";
        /// Space in the log that stays unused between two writes.
        gap_bytes: u64 = Size(0, 1 << 40), "0";
        /// Space in the log that cleaning keeps free; never more than a quarter of the log.
        free_bytes: u64 = Size(0, 1 << 50), "128Mi";
        /// Log appends after which the map is saved to disk again.
        map_every_writes: u64 = Count(1, 1 << 50), "240";
        /// Time to save the map; clock means that the drive's clock determines it.
        map_time: Option<Nanos> = Or("clock", Time(1)), "clock";
    }
}

/// The parameters of [`CostKeys`] in sectors. A time that is `None` follows from the drive's clock.
pub(super) struct Costs {
    append: Option<Nanos>,
    /// Sectors of host data up to which an append takes `append`.
    small_sectors: u64,
    /// Transfer time of each further sector, in picoseconds.
    sector_ps: u64,
    /// The most sectors of one entry.
    pub entry_sectors: u64,
    gap_sectors: u64,
    free_sectors: u64,
    pub map_every_writes: u64,
    map: Option<Nanos>,
}

impl Costs {
    pub fn new(drive: &Drive, keys: &CostKeys) -> Costs {
        Costs {
            append: keys.append_time,
            small_sectors: keys.append_bytes / SECTOR_BYTES,
            sector_ps: drive.clock.sector_ps(&drive.geometry),
            entry_sectors: keys.entry_bytes.map_or(u64::MAX, |bytes| bytes / SECTOR_BYTES),
            gap_sectors: keys.gap_bytes.div_ceil(SECTOR_BYTES),
            free_sectors: keys.free_bytes / SECTOR_BYTES,
            map_every_writes: keys.map_every_writes,
            map: keys.map_time,
        }
    }

    /// Writes an entry of the log that carries `sectors` sectors of the host.
    #[inline]
    fn append(&self, disk: &mut Disk, pba: Pba, cause: Cause, sectors: u64, entry: &Buf) -> DiskResult {
        let Some(append) = self.append else { return disk.write(pba, HEADER + sectors, cause, entry, 0) };
        let more = sectors.saturating_sub(self.small_sectors);
        let lasting = append + Nanos((self.sector_ps.saturating_mul(more).saturating_add(500)) / 1000);
        disk.write_lasting(lasting, pba, HEADER + sectors, cause, entry)
    }

    pub fn map_copy(&self, disk: &mut Disk, pba: Pba, sectors: u64) -> DiskResult {
        match self.map {
            None => disk.write_metadata(pba, sectors),
            Some(time) => disk.write_lasting(time, pba, sectors, Cause::Map, &disk.metadata(sectors)),
        }
    }
}
