//! The persistent cache as a circular log of entries: a header of one sector, then the host's data, written as one access.
//! Writes that wait together may share an entry.
//!
//! Positions count sectors from the first lap on and never wrap, so that older is smaller; the PBA is the position modulo the log's length.
//! The log is shingled too: a write at the head destroys the sectors after it, so the head stays a guard away from the tail. Entries that
//! the last copy of the map, or the entries after it, may refer to are not overwritten, because the drive has to find its map after a power
//! cut; what that takes is charged.

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
    /// The position of its first sector of data.
    pub data: u64,
    pub lba: Lba,
    pub sectors: u64,
    /// True if it has a header of its own, or is the first of several that share one.
    pub leads: bool,
}

/// An LBA and how many sectors from there on.
pub(super) type Extent = (Lba, u64);

/// The log.
pub(super) struct CacheLog {
    geometry: Geometry,
    pub costs: Costs,
    start: Pba,
    length: Divisor,
    pub guard: Guard,
    /// Position of the next entry, or of the end of a lap without room for its header.
    pub head: u64,
    /// Entries must end at or before this position.
    pub limit: u64,
    /// Beginning of the oldest entry that the last copy of the map may refer to.
    pub kept: u64,
    /// The entries, oldest first. Those that share a header are separate.
    pub entries: VecDeque<LogEntry>,
    /// Number of their headers.
    headers: u64,
    /// Sectors that are being appended: torn if the power is cut.
    under_way: u64,
    /// How many sectors upstream a second write wears.
    wears: u64,
    /// Sectors left unused after the entries of each write.
    gap: u64,
}

state! {
    CacheLog {
        values: head, limit, kept, entries, headers, under_way;
        built: geometry, costs, start, length, guard, wears, gap;
    }
}

impl CacheLog {
    /// An empty log in the sectors `start..end`.
    pub fn new(drive: &Drive, costs: Costs, start: Pba, end: Pba) -> CacheLog {
        let mut log = CacheLog {
            geometry: drive.geometry.clone(),
            // Bounded, so that also on a small drive most of the log is for data.
            gap: costs.gap_sectors.min((end - start) / 4),
            costs,
            start,
            length: Divisor::new(end - start),
            guard: drive.interference.guard(&drive.geometry),
            head: 0,
            limit: 0,
            kept: 0,
            entries: VecDeque::new(),
            headers: 0,
            under_way: 0,
            wears: drive.interference.upstream(),
        };
        log.keep_from(0);
        log
    }

    /// The most sectors of one request: those that an empty log holds.
    pub fn request_max(&self) -> u64 {
        let length = self.length.value - self.gap;
        length - HEADER * length.div_ceil(self.costs.entry_sectors)
    }

    #[inline]
    pub fn pba(&self, position: u64) -> Pba {
        self.start + self.length.remainder(position)
    }

    /// Sectors that it has.
    pub fn length_sectors(&self) -> u64 {
        self.length.value
    }

    /// Adds an entry behind the others.
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

    /// Beginning of the oldest entry, or the head if there is none.
    pub fn tail(&self) -> u64 {
        self.entries.front().map_or(self.head, |entry| entry.data - HEADER)
    }

    /// Lets the log overwrite entries before position `tail`, which no map copy needs any more.
    pub fn keep_from(&mut self, tail: u64) {
        let (lap, offset) = self.length.divide(tail);
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
        self.limit = (lap + 1) * self.length.value + safe;
    }

    /// Beginning of the next lap.
    pub fn next_lap(&self) -> u64 {
        (self.length.quotient(self.head) + 1) * self.length.value
    }

    /// Beginning of an entry at `head`, and the sectors of data that it has room for.
    #[inline]
    fn opening(&self, head: u64) -> (u64, u64) {
        let room = self.length.value - self.length.remainder(head);
        // The last sector of the log holds no header, because no data could follow it.
        let (at, room) = if room > HEADER { (head, room - HEADER) } else { (head + room, self.length.value - HEADER) };
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

    /// Sectors in use, guard not counted: from the tail to the head.
    pub fn used(&self) -> u64 {
        self.head - self.tail()
    }

    /// Entries to clean before `free_sectors` of the log are free again. If cleaning began only when it is full, each episode would need a
    /// map copy before its space could be reused.
    #[inline]
    pub fn excess(&self) -> u64 {
        let (length, used) = (self.length.value, self.used());
        let excess = (used + self.costs.free_sectors.min(length / 4)).saturating_sub(length);
        if excess == 0 { 0 } else { (excess * self.headers).div_ceil(used) }
    }

    /// Appends up to `n` sectors of `data`, from sector `at` on, as one entry: as many as an entry holds, and as fit before the log's end.
    /// Returns how many, and where they lie.
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

    /// True if `n` sectors would fit in one entry.
    pub fn holds_undivided(&self, n: u64) -> bool {
        n <= self.opening(self.head).1
    }

    /// Appends `extents`, whose sectors follow each other in `data`, as one entry; returns where the first of them lies.
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

    /// Appends a header without data, which says which sectors are valid at home from now on.
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

    /// Discards a torn entry after a power cut. Its sectors are overwritten, except where that would wear the sectors upstream.
    pub fn power_cut(&mut self) {
        self.head += std::mem::take(&mut self.under_way).min(self.wears);
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
        /// Amount of data that an entry can hold at append_time; if it holds more, the transfer time of the rest is
        /// added.
        append_bytes: u64 = Size(512, 1 << 40), "64Ki";
        /// Most data in a log entry; a longer write takes several entries. any means no limit.
        entry_bytes: Option<u64> = Or("any", Size(4096, 1 << 40)), "any";
        /// Space in the log that stays unused between two writes.
        gap_bytes: u64 = Size(0, 1 << 40), "0";
        /// Space in the log that cleaning keeps free, or a quarter of the log if that is less.
        free_bytes: u64 = Size(0, 1 << 50), "128Mi";
        /// Log appends after which the map is saved to disk again.
        map_every_writes: u64 = Count(1, 1 << 50), "240";
        /// Time to save the map; clock means that the drive's clock determines it.
        map_time: Option<Nanos> = Or("clock", Time(1)), "clock";
    }
}

/// Times of accesses, and how often the map is copied.
pub(super) struct Costs {
    append: Option<Nanos>,
    /// Sectors of host data up to which an append takes `append_time`.
    small_sectors: u64,
    /// Transfer of each sector beyond, in picoseconds.
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

    /// Writes a copy of the map.
    pub fn map_copy(&self, disk: &mut Disk, pba: Pba, sectors: u64) -> DiskResult {
        match self.map {
            None => disk.write_metadata(pba, sectors),
            Some(time) => disk.write_lasting(time, pba, sectors, Cause::Map, &disk.metadata(sectors)),
        }
    }
}
