//! The persistent cache: a circular log of entries, the map of what is valid in it, and copies of the map on the platters.
//!
//! # Log
//!
//! An entry is a header of one sector, then the host's data, written as one access. Writes that wait together may share an entry.
//!
//! Positions count sectors from the first lap on and never wrap, so that older data has smaller positions; the PBA follows from the position
//! modulo the log's size. The log is shingled too: a write at the head destroys the sectors after it, so the head keeps a guard's distance
//! from the tail.
//!
//! # Map copies
//!
//! After a power cut the drive recovers its map from the last map copy and the log entries after it. So entries to which that copy may refer
//! are not overwritten until a newer copy is written, whose time is charged. Copies are written to two places in turn, so that one is always
//! intact.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::extent_map::ExtentMap;
use crate::geometry::{Divisor, Geometry, Guard};
use crate::layer::interface::record_sectors;
use crate::layer::prelude::*;
use crate::schema::{Size, Time};
use crate::units::SECTOR_BYTES;

keys! {
    /// The costs of appends and map copies. Constants are what can be seen of a shipped drive from outside (Vguard 2017, table 2).
    pub struct CostKeys {
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
pub struct Costs {
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
}

/// Sectors of a header.
pub const HEADER: u64 = 1;

/// Data of one write in the log, which may still be valid.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct LogEntry {
    /// Position of its first sector of data.
    pub data: u64,
    pub lba: Lba,
    pub sectors: u64,
    /// True if it follows a header: it has one of its own, or is the first of several entries that share one.
    pub leads: bool,
}

/// An LBA and how many sectors from there on.
pub type Extent = (Lba, u64);

pub struct CacheLog {
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
    pub copied_tail: u64,
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
        values: head, limit, copied_tail, entries, headers, under_way;
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
            copied_tail: 0,
            entries: VecDeque::new(),
            headers: 0,
            under_way: 0,
            dpid_sectors: drive.interference.upstream(),
        };
        log.release_before(0);
        log
    }

    /// The most sectors of one request: as many as an empty log holds.
    pub fn request_max(&self) -> u64 {
        let sectors = self.size.value - self.gap;
        sectors - HEADER * sectors.div_ceil(self.costs.entry_sectors)
    }

    pub fn pba(&self, position: u64) -> Pba {
        self.start + self.size.remainder(position)
    }

    #[inline]
    pub fn push(&mut self, entry: LogEntry) {
        self.headers += u64::from(entry.leads);
        self.entries.push_back(entry);
    }

    /// Number of entries, counted by their headers.
    pub fn length(&self) -> u64 {
        self.headers
    }

    /// Position of the oldest entry's header, or the head if there is no entry.
    pub fn tail(&self) -> u64 {
        self.entries.front().map_or(self.head, |entry| entry.data - HEADER)
    }

    /// Lets the log overwrite entries before position `tail`, which no map copy needs any more.
    pub fn release_before(&mut self, tail: u64) {
        let (lap, offset) = self.size.divide(tail);
        let safe = match self.guard {
            Guard::Sectors(sectors) => offset.saturating_sub(sectors),
            Guard::Tracks(tracks) => {
                let track = self.geometry.track_of(self.start + offset);
                let until = if track.0 < tracks { Pba(0) } else { self.geometry.track_start(track - tracks) };
                until.0.saturating_sub(self.start.0)
            }
        };
        self.copied_tail = tail;
        // One lap beyond the tail, less the guard that a write there would damage.
        self.limit = (lap + 1) * self.size.value + safe;
    }

    pub fn next_lap(&self) -> u64 {
        (self.size.quotient(self.head) + 1) * self.size.value
    }

    /// Where an entry begins if it is appended at `head`, and the most sectors of data that it can hold.
    #[inline]
    fn next_entry(&self, head: u64) -> (u64, u64) {
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
            let (at, room) = self.next_entry(head);
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

    /// How many entries must be cleaned to have `free_sectors` of the log free again (a quarter of a small log), estimated from the mean length
    /// of an entry. Cleaning begins before the log is full, because otherwise each episode would need a map copy before its space could be
    /// reused.
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
        let (head, room) = self.next_entry(self.head);
        let sectors = n.min(room);
        self.head = head;
        self.write(disk, cause, sectors, data, at)?;
        self.push(LogEntry { data: head + HEADER, lba, sectors, leads: true });
        self.head = head + HEADER + sectors;
        Ok((sectors, self.pba(head + HEADER)))
    }

    /// Skips the gap that stays unused between two writes.
    pub fn skip_gap(&mut self) {
        self.head += self.gap;
    }

    /// True if one entry at the head can hold `n` sectors, without wrapping around.
    pub fn holds_undivided(&self, n: u64) -> bool {
        let (_, room) = self.next_entry(self.head);
        n <= room
    }

    /// Appends `extents`, whose sectors follow each other in `data`, under one header; returns the PBA of the first.
    pub fn append_together(&mut self, disk: &mut Disk, extents: &[Extent], data: &Buf) -> DiskResult<Pba> {
        let sectors = extents.iter().map(|(_, sectors)| sectors).sum();
        debug_assert!(self.holds_undivided(sectors));
        (self.head, _) = self.next_entry(self.head);
        self.write(disk, Cause::Host, sectors, data, 0)?;
        self.head += HEADER;
        let first = self.pba(self.head);
        for (number, &(lba, sectors)) in extents.iter().enumerate() {
            self.push(LogEntry { data: self.head, lba, sectors, leads: number == 0 });
            self.head += sectors;
        }
        Ok(first)
    }

    /// Appends a header without data. It tells recovery that certain sectors are valid at home from now on.
    pub fn append_drop(&mut self, disk: &mut Disk) -> DiskResult {
        (self.head, _) = self.next_entry(self.head);
        self.write(disk, Cause::Map, 0, &disk.buf(0), 0)?;
        self.head += HEADER;
        Ok(())
    }

    /// Writes a header and `sectors` sectors of `data` (from sector `at` on) at the head, and leaves the head there.
    #[inline]
    fn write(&mut self, disk: &mut Disk, cause: Cause, sectors: u64, data: &Buf, at: u64) -> DiskResult {
        let (pba, n) = (self.pba(self.head), HEADER + sectors);
        let mut entry = disk.metadata(n);
        entry.put(HEADER, data, at, sectors);
        self.under_way = n;
        match self.costs.append {
            None => disk.write(pba, n, cause, &entry, 0)?,
            Some(append) => {
                let more = sectors.saturating_sub(self.costs.small_sectors);
                let picoseconds = self.costs.sector_ps.saturating_mul(more);
                let transfer = Nanos(picoseconds.saturating_add(500) / 1000);
                disk.write_lasting(append + transfer, pba, n, cause, &entry)?;
            }
        }
        self.under_way = 0;
        Ok(())
    }

    /// Discards a torn entry after a power cut. The next append overwrites its sectors, except the first `dpid_sectors`: rewriting these might
    /// damage entries upstream.
    pub fn power_cut(&mut self) {
        self.head += std::mem::take(&mut self.under_way).min(self.dpid_sectors);
    }
}

/// The most sectors that one entry of the map spans.
pub const MAP_ENTRY_SECTORS: u64 = 4096;

/// Entries of the map beyond twice α: what a single request may add on a small drive.
const SPARE_ENTRIES: u64 = 64;

/// Map entries that an append may add by splitting extents in three: two for each of the 8 writes that share a log entry by default.
const SPLIT_ENTRIES: u64 = 2 * 8;

/// Memory of a map entry and of a log entry. The sum of 56 bytes follows from Vguard 2017, table 1 (1.3 MB for 22,986 of each); how it is
/// divided is an assumption.
const MAP_ENTRY_BYTES: u64 = 40;
const LOG_ENTRY_BYTES: u64 = 16;

/// Entries of the log whose places in the map are fetched together.
const FETCHED_ENTRIES: usize = 16;

/// Words at the beginning of a map copy (kind, number, tail, head, outdated notes of the scratch pad, their number, and a checksum of the
/// headers), and words of each extent in it.
const COPY_HEAD_WORDS: u64 = 7;
const COPY_EXTENT_WORDS: u64 = 2;

/// Thresholds of cleaning, and the sizes that follow from them.
pub struct Limits {
    /// Number of map entries above which cleaning is due.
    pub alpha: u64,
    /// Number of log entries above which cleaning is due.
    pub beta: u64,
    /// Number of map entries above which writes wait.
    pub map_entries_max: u64,
    /// Extents that a map copy has room for.
    pub copied_max: u64,
}

impl Limits {
    /// The limits for a log of `log_sectors`, in which up to `shared_writes` writes share an entry.
    pub fn new((alpha, beta): (u64, u64), shared_writes: u64, costs: &Costs, log_sectors: u64) -> Limits {
        let map_entries_max = 2 * alpha + SPARE_ENTRIES;
        // Extents that a power cut may add: each write since the last map copy may leave three (itself, and what is left of an older one on
        // either side), and one more wherever it spans a further map or log entry.
        let added = costs
            .map_every_writes
            .saturating_mul(3 * shared_writes)
            .saturating_add(log_sectors / MAP_ENTRY_SECTORS.min(costs.entry_sectors));
        // A log never holds more extents than sectors.
        let copied_max = map_entries_max.saturating_add(added).min(log_sectors);
        Limits { alpha, beta, map_entries_max, copied_max }
    }

    /// Sectors of a map copy.
    pub fn copy_sectors(&self) -> u64 {
        record_sectors(COPY_HEAD_WORDS + COPY_EXTENT_WORDS * self.copied_max)
    }
}

pub struct PersistentCache {
    pub limits: Limits,
    pub log: CacheLog,
    /// Places of the valid sectors.
    pub map: ExtentMap,
    copy_places: [Pba; 2],
    /// Map copies since the drive was new, and since counting began.
    pub copies: u64,
    pub map_writes: u64,
    /// Appends since the last map copy.
    pub appends: u64,
    /// Log entries of the last append.
    pub last_entries: u64,
    /// LBAs for which the last map copy may still point to the log, and the map does not. Kept only if writes may bypass the log.
    pub stale: Option<StaleRuns>,
    /// How many of the oldest entries have their part of the map in the processor's caches, as far as we know.
    fetched: usize,
}

state! {
    PersistentCache {
        parts: log;
        values: map, copies, map_writes, appends, last_entries, stale;
        built: limits, copy_places, fetched;
    }
}

/// A disk with a persistent cache, which it cleans in its own way.
pub trait CachedDisk {
    fn cache(&mut self) -> &mut PersistentCache;

    /// Frees entries of the log while the host waits.
    fn clean(&mut self, disk: &mut Disk) -> DiskResult;

    /// True if cleaning in progress has to be finished before an empty log is given up as too short.
    fn is_cleaning(&self) -> bool {
        false
    }

    /// Notes that the map was copied.
    fn note_copied(&mut self) {}

    /// Notes that sectors were appended to the log.
    fn note_cached(&mut self, _lba: Lba, _n: u64) {}

    /// Writes `n` sectors of `data` to the log, in several requests if one is too long.
    #[inline]
    fn put(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf, at: u64) -> DiskResult {
        let mut done = 0;
        while done < n {
            let count = (n - done).min(self.cache().log.request_max());
            self.make_room(disk, count)?;
            self.cache().append(disk, Cause::Host, lba + done, count, data, at + done)?;
            self.note_cached(lba + done, count);
            self.cache().log.skip_gap();
            self.copy_if_due(disk)?;
            done += count;
        }
        Ok(())
    }

    /// Writes `extents`, `n` sectors in total that follow each other in `data`, to the log as one entry; returns `false` if they can't be in
    /// one.
    fn put_together(&mut self, disk: &mut Disk, extents: &[Extent], n: u64, data: &Buf) -> DiskResult<bool> {
        // Not even an empty log has room for more.
        if n > self.cache().log.request_max() {
            return Ok(false);
        }
        self.make_room(disk, n)?;
        if !self.cache().log.holds_undivided(n) {
            return Ok(false);
        }
        self.cache().append_together(disk, extents, data)?;
        extents.iter().for_each(|&(lba, n)| self.note_cached(lba, n));
        self.cache().log.skip_gap();
        self.copy_if_due(disk)?;
        Ok(true)
    }

    /// Copies the map after an append, if that is due.
    fn copy_if_due(&mut self, disk: &mut Disk) -> DiskResult {
        if self.cache().is_copy_due() { self.copy_map(disk) } else { Ok(()) }
    }

    fn copy_map(&mut self, disk: &mut Disk) -> DiskResult {
        self.cache().persist(disk)?;
        self.note_copied();
        Ok(())
    }

    /// Makes room in log and map for a request of `n` sectors, while the host waits.
    fn make_room(&mut self, disk: &mut Disk, n: u64) -> DiskResult {
        if self.cache().has_room(n) { Ok(()) } else { self.clear_room(disk, n) }
    }

    /// Cleans until the cache has room for `n` sectors.
    #[cold]
    fn clear_room(&mut self, disk: &mut Disk, n: u64) -> DiskResult {
        while !self.cache().has_room(n) {
            let has_entries = self.cache().trim();
            if self.cache().is_held_by_copy() {
                self.copy_map(disk)?;
            } else if has_entries || self.is_cleaning() {
                self.clean(disk)?;
            } else {
                // The log is empty, and the request still does not fit before `limit`. So it starts with the next lap, and copying the map
                // moves `limit` by a lap.
                let log = &mut self.cache().log;
                log.head = log.next_lap();
                return self.copy_map(disk);
            }
        }
        Ok(())
    }
}

/// Runs of LBAs that are added in any order, and seldom queried.
#[derive(Default, Serialize, Deserialize)]
pub struct StaleRuns {
    runs: Vec<(Lba, Lba)>,
    /// True if the runs are in order, and no two of them overlap.
    is_sorted: bool,
}

impl StaleRuns {
    pub fn add(&mut self, lba: Lba, n: u64) {
        self.runs.push((lba, lba + n));
        self.is_sorted = false;
    }

    /// True if it has one of `n` LBAs from `lba` on.
    pub fn overlap(&mut self, lba: Lba, n: u64) -> bool {
        if !self.is_sorted {
            // The stable sort is fast here: cleaning adds ascending runs, band by band, which it only has to merge.
            self.runs.sort();
            self.runs.dedup_by(|(next_start, next_end), (_, end)| {
                let touches = next_start <= end;
                if touches {
                    *end = (*end).max(*next_end);
                }
                touches
            });
            self.is_sorted = true;
        }
        let after = self.runs.partition_point(|&(_, end)| end <= lba);
        self.runs.get(after).is_some_and(|&(start, _)| start < lba + n)
    }
}

impl PersistentCache {
    /// An empty cache. `bypassed` if writes may bypass it.
    pub fn new(limits: Limits, log: CacheLog, copy_places: [Pba; 2], bypassed: bool) -> PersistentCache {
        PersistentCache {
            limits,
            log,
            map: ExtentMap::new(),
            copy_places,
            copies: 0,
            map_writes: 0,
            appends: 0,
            last_entries: 0,
            stale: bypassed.then(StaleRuns::default),
            fetched: 0,
        }
    }

    /// Pieces of an entry to which the map still points: (LBA, sectors, PBA).
    pub fn valid(&self, entry: &LogEntry) -> impl Iterator<Item = (Lba, u64, Pba)> + '_ {
        let first = self.log.pba(entry.data);
        let own = first..first + entry.sectors;
        self.map.mapped(entry.lba, entry.sectors).filter(move |(.., pba)| own.contains(pba))
    }

    /// By how many entries map or log exceed their thresholds.
    #[inline]
    pub fn excess(&self) -> u64 {
        let map = (self.map.len() as u64).saturating_sub(self.limits.alpha);
        map.max(self.log.length().saturating_sub(self.limits.beta)).max(self.log.excess())
    }

    /// Drops the oldest entries as long as nothing in them is valid; returns whether any entry is left.
    pub fn trim(&mut self) -> bool {
        while let Some(&entry) = self.log.entries.front() {
            if self.fetched == 0 {
                // Looked up one by one, each entry would wait for main memory, which takes longer than all else. Together their waits overlap.
                self.map.fetch(self.log.entries.iter().take(FETCHED_ENTRIES).map(|entry| entry.lba));
                self.fetched = FETCHED_ENTRIES;
            }
            if self.valid(&entry).next().is_some() {
                return true;
            }
            self.log.headers -= u64::from(entry.leads);
            self.log.entries.pop_front();
            self.fetched -= 1;
        }
        false
    }

    /// True if map and log have room for a request of `n` sectors.
    #[inline]
    pub fn has_room(&self, n: u64) -> bool {
        // A long write takes several map entries.
        let entries = self.map.len() as u64 + n / MAP_ENTRY_SECTORS + SPLIT_ENTRIES;
        entries <= self.limits.map_entries_max && self.log.has_room(n)
    }

    /// True if a new map copy would make room in the log, because the last copy still refers to entries before the tail.
    pub fn is_held_by_copy(&self) -> bool {
        self.log.tail() > self.log.copied_tail
    }

    /// Appends `n` sectors of `data` as one request, in as many entries as it takes.
    #[inline]
    pub fn append(&mut self, disk: &mut Disk, cause: Cause, lba: Lba, n: u64, data: &Buf, at: u64) -> DiskResult {
        let mut done = 0;
        self.last_entries = 0;
        while done < n {
            self.last_entries += 1;
            let (count, pba) = self.log.append(disk, cause, (lba + done, n - done), data, at + done)?;
            self.map.insert(lba + done, count, pba);
            done += count;
        }
        self.appends += 1;
        Ok(())
    }

    /// Appends `extents`, whose sectors follow each other in `data`, as one entry; see [`CacheLog::holds_undivided`].
    pub fn append_together(&mut self, disk: &mut Disk, extents: &[Extent], data: &Buf) -> DiskResult {
        let mut pba = self.log.append_together(disk, extents, data)?;
        self.map.fetch(extents.iter().map(|extent| extent.0));
        for &(lba, sectors) in extents {
            self.map.insert(lba, sectors, pba);
            pba += sectors;
        }
        self.appends += 1;
        self.last_entries = 1;
        Ok(())
    }

    /// Notes on the platters that `n` sectors are valid at home from now on, if the log or the last map copy says otherwise.
    pub fn outdate(&mut self, disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        let is_cached = self.map.mapped(lba, n).next().is_some();
        if is_cached || self.stale.as_mut().is_some_and(|stale| stale.overlap(lba, n)) {
            self.log.append_drop(disk)?;
            self.map.remove(lba, n);
            self.appends += 1;
        }
        Ok(())
    }

    /// Removes sectors from the map, and remembers that its last copy on the platters may still have them.
    pub fn forget(&mut self, lba: Lba, n: u64) {
        if let Some(stale) = &mut self.stale {
            stale.add(lba, n);
        }
        self.map.remove(lba, n);
    }

    /// Removes from the map those of `n` sectors that were read as `merged` (LBA, sectors, PBA), unless they were written again since.
    pub fn forget_merged(&mut self, first: Lba, n: u64, merged: &[(Lba, u64, Pba)]) {
        // Usually nothing was written again, and all can be removed at once.
        if self.map.mapped(first, n).eq(merged.iter().copied()) {
            self.map.remove(first, n);
            if let Some(stale) = &mut self.stale {
                merged.iter().for_each(|&(lba, sectors, _)| stale.add(lba, sectors));
            }
            return;
        }
        for &(lba, sectors, pba) in merged {
            let mut done = 0;
            loop {
                let next = self.map.mapped(lba + done, sectors - done).next();
                let Some((at, n, now)) = next else { break };
                // Elsewhere in the log means that it was written again.
                if now == pba + (at - lba) {
                    self.forget(at, n);
                }
                done = at + n - lba;
            }
        }
    }

    /// True if enough appends have come since the last map copy for one to be due.
    pub fn is_copy_due(&self) -> bool {
        self.appends >= self.log.costs.map_every_writes
    }

    /// Writes a copy of the map, after which the log may overwrite the sectors before its tail.
    pub fn persist(&mut self, disk: &mut Disk) -> DiskResult {
        self.trim();
        let place = self.copy_places[(self.copies % 2) as usize];
        let sectors = self.limits.copy_sectors();
        match self.log.costs.map {
            None => disk.write_metadata(place, sectors)?,
            Some(time) => disk.write_lasting(time, place, sectors, Cause::Map, &disk.metadata(sectors))?,
        }
        // Only now: if this write had been torn, the drive would use the previous copy, and need all entries that it points to.
        self.log.release_before(self.log.tail());
        self.copies += 1;
        self.map_writes += 1;
        self.appends = 0;
        if let Some(stale) = &mut self.stale {
            stale.runs.clear();
        }
        Ok(())
    }

    /// Checks that entries are in order, that as many sectors are valid as mapped, and that the next map copy has room.
    pub fn check(&self) -> DiskResult {
        let (mut valid, mut extents) = (0, 0);
        let mut end = 0;
        for entry in &self.log.entries {
            ensure!(entry.data >= end, "the log's entries overlap at position {}", entry.data);
            end = entry.data + entry.sectors;
            for (_, sectors, _) in self.valid(entry) {
                valid += sectors;
                extents += 1;
            }
        }
        let (mapped, used) = (self.map.sectors(), self.log.used());
        ensure!(valid == mapped, "{valid} sectors are valid in the log, {mapped} in the map");
        let is_ordered = end <= self.log.head && self.log.tail() >= self.log.copied_tail;
        ensure!(is_ordered, "the log's head lies before {end}, or its tail before the last map copy's");
        ensure!(used <= self.log.size.value, "the log holds {used} sectors, more than it has");
        ensure!(extents <= self.limits.copied_max, "{extents} map entries");
        Ok(())
    }

    /// The largest of three shares: map entries of alpha, log entries of beta, and sectors in use of `cache_sectors`.
    pub fn fill(&self, cache_sectors: u64) -> f64 {
        let fill = share(self.map.len() as u64, self.limits.alpha).max(share(self.log.length(), self.limits.beta));
        fill.max(share(self.log.used(), cache_sectors)).min(1.0)
    }

    /// Share of the log's sectors in use that hold nothing valid.
    pub fn invalid_share(&self) -> f64 {
        let used = self.log.used().max(1);
        1.0 - share(self.map.sectors() + self.log.length(), used).min(1.0)
    }

    /// Memory that the drive would need.
    pub fn memory_bytes(&self) -> u64 {
        self.map.len() as u64 * MAP_ENTRY_BYTES + self.log.length() * LOG_ENTRY_BYTES
    }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
