//! The persistent cache as a circular log of entries: a header of one sector, then the host's data, written as one access.
//! Writes that wait together may share an entry.
//!
//! Positions count sectors from the first lap on and never come back, so that older is smaller; the PBA is the position
//! modulo the log's length. The log shingles as well: a write at the head destroys what follows, so that the head keeps a
//! guard from the tail. Nothing is written over that the last map copy, or the entries after it, may lead to.

#[cfg(test)]
mod tests;

use std::collections::{VecDeque, vec_deque};

use serde::{Deserialize, Serialize};

use smallvec::SmallVec;

use super::costs::Costs;
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::extent_map::ExtentMap;
use crate::geometry::{Divisor, Geometry, Guard};
use crate::layer::COUNT_MAX;
use crate::medium::digest::digest;
use crate::medium::{Buf, WritePart};
use crate::state::state;
use crate::tally::Cause;
use crate::units::{Lba, Pba};

/// Sectors of a header.
pub(super) const HEADER: u64 = 1;
const KIND: u64 = 0x646d_2d65_6e74_7279;

/// Part of the log that is kept free: 128 MiB, or a quarter of it where that is less (assumption). The same on a drive of any size,
/// so that as many map copies come with what passes through the log.
const FREE_SECTORS: u64 = 262_144;

/// Data of one write in the log, as far as it may still be valid.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct LogEntry {
    /// The position of its first sector of data.
    pub data: u64,
    pub lba: Lba,
    pub sectors: u64,
    /// True if it has a header of its own, or is the first of those that share one.
    pub leads: bool,
}

/// An LBA and how many sectors from there on.
pub(super) type Extent = (Lba, u64);

/// Contents of an entry's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogHeader {
    pub lba: Lba,
    pub sectors: u64,
    /// Further writes in the entry, in the order of their data.
    pub more: SmallVec<[Extent; 7]>,
    /// Parts of the same request that follow; it counts when the last is whole.
    pub to_come: u64,
    /// The home copy is the valid one from now on; no data follows.
    pub drops: bool,
    /// Of the data.
    pub digest: u64,
}

/// Data of the host on their way to the log.
pub(super) struct HostData<'a> {
    pub lba: Lba,
    pub sectors: u64,
    pub buf: &'a Buf,
    /// The first of them in `buf`.
    pub at: u64,
}

/// Place where a chain of headers goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Link {
    /// The position at which the next header is looked for.
    pub head: u64,
    /// Derived from all headers before it, so that nothing else is taken for the next one.
    pub chain: u64,
}

impl LogHeader {
    /// A header of one write.
    fn for_extent((lba, sectors): Extent, digest: u64) -> LogHeader {
        LogHeader { lba, sectors, more: SmallVec::new(), to_come: 0, drops: false, digest }
    }

    fn words(&self, link: Link) -> SmallVec<[u64; 24]> {
        let flags = self.to_come << 1 | u64::from(self.drops);
        let mut words = SmallVec::new();
        words.extend([KIND, link.chain, link.head, self.lba.0, self.sectors, flags, self.digest]);
        words.extend(self.more.iter().flat_map(|&(lba, sectors)| [lba.0, sectors]));
        words
    }

    /// The header at `link`, if these words are it.
    fn of_words(words: &[u64], link: Link) -> Option<LogHeader> {
        let &[kind, chain, head, lba, sectors, flags, digest, ref more @ ..] = words else { return None };
        let more = more.chunks_exact(2).map(|pair| (Lba(pair[0]), pair[1])).collect();
        let header = LogHeader { lba: Lba(lba), sectors, more, to_come: flags >> 1, drops: flags & 1 == 1, digest };
        ((kind, chain, head) == (KIND, link.chain, link.head)).then_some(header)
    }

    /// Sectors that follow the header.
    pub fn data_sectors(&self) -> u64 {
        if self.drops { 0 } else { self.extents().map(|(_, sectors)| sectors).sum() }
    }

    /// True if its writes are of the first `host_sectors` LBAs, and its data find `room` sectors.
    fn fits(&self, host_sectors: u64, room: u64) -> bool {
        let mut data = 0;
        let are_there = self.extents().all(|(lba, sectors)| {
            data += sectors.min(host_sectors);
            sectors > 0 && lba.0.saturating_add(sectors) <= host_sectors
        });
        are_there && (self.drops || data <= room)
    }

    /// The writes of the entry, in the order of their data.
    pub fn extents(&self) -> impl Iterator<Item = Extent> {
        std::iter::once((self.lba, self.sectors)).chain(self.more.iter().copied())
    }
}

/// The log.
pub(super) struct CacheLog {
    geometry: Geometry,
    start: Pba,
    length: Divisor,
    guard: Guard,
    next: Link,
    /// An entry must end at or before this position.
    limit: u64,
    /// Beginning of the oldest entry that the last map copy needs.
    kept: u64,
    entries: VecDeque<LogEntry>,
    /// Number of their headers.
    headers: u64,
    /// Sectors that are being appended, until they are there.
    under_way: u64,
    /// Sectors before one that a second write to it wears.
    wears: u64,
}

state! {
    CacheLog {
        values: next, limit, kept, entries, headers, under_way;
        built: geometry, start, length, guard, wears;
    }
}

impl CacheLog {
    /// An empty log in the sectors `start..end`.
    pub fn new(geometry: &Geometry, (guard, wears): (Guard, u64), start: Pba, end: Pba) -> CacheLog {
        let length = Divisor::new(end - start);
        let mut log = CacheLog {
            geometry: geometry.clone(),
            start,
            length,
            guard,
            next: Link::default(),
            limit: 0,
            kept: 0,
            entries: VecDeque::new(),
            headers: 0,
            under_way: 0,
            wears,
        };
        log.keep_from(0);
        log
    }

    /// True if a restored state has entries of the first `host_sectors` LBAs, each within one lap.
    pub fn is_possible(&self, host_sectors: u64) -> bool {
        let is_entry = |entry: &LogEntry| {
            let in_lap =
                |at: u64| at > 0 && at < COUNT_MAX && self.length.remainder(at) + entry.sectors <= self.length.value();
            let known = entry.lba.0 < host_sectors && entry.sectors <= host_sectors - entry.lba.0;
            0 < entry.sectors && known && in_lap(entry.data)
        };
        let counts = [self.next.head, self.limit, self.kept].iter().all(|&count| count < COUNT_MAX);
        let headers = self.entries.iter().filter(|entry| entry.leads).count() as u64;
        let whole = self.headers == headers && self.under_way <= self.length.value();
        counts && whole && self.entries.iter().all(is_entry)
    }

    /// The most sectors that one request may bring: those of an empty log.
    pub fn request_max(&self) -> u64 {
        self.length.value() - HEADER
    }

    #[inline]
    pub fn pba(&self, position: u64) -> Pba {
        self.start + self.length.remainder(position)
    }

    /// The position of a PBA of the log at or after position `tail`.
    pub fn position(&self, pba: Pba, tail: u64) -> u64 {
        let (lap, offset) = self.length.divide(tail);
        let lap = lap + u64::from(pba - self.start < offset);
        lap * self.length.value() + (pba - self.start)
    }

    /// Sectors that it has.
    pub fn length_sectors(&self) -> u64 {
        self.length.value()
    }

    /// True if this many sectors from a PBA on are the log's.
    pub fn holds(&self, pba: Pba, sectors: u64) -> bool {
        let end = self.start + self.length.value();
        self.start <= pba && pba <= end && sectors <= end - pba
    }

    pub fn next(&self) -> Link {
        self.next
    }

    /// The entries, oldest first; those that share a header one by one.
    pub fn entries(&self) -> vec_deque::Iter<'_, LogEntry> {
        self.entries.iter()
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

    /// Beginning of the oldest entry; the head where there is none.
    pub fn tail(&self) -> u64 {
        self.entries.front().map_or(self.next.head, |entry| entry.data - HEADER)
    }

    /// Beginning of the oldest entry that must not be written over.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// A map copy needs nothing before position `tail` any more.
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
        self.limit = (lap + 1) * self.length.value() + safe;
    }

    /// Goes on elsewhere: at the beginning of the next lap, or behind a torn entry; earlier headers lead no further.
    pub fn restart_at(&mut self, head: u64, salt: u64) {
        self.next = Link { head, chain: digest(&[self.next.chain, head, salt]) };
    }

    pub fn next_lap(&self) -> u64 {
        (self.length.quotient(self.next.head) + 1) * self.length.value()
    }

    /// Beginning of the next entry, and the sectors of data that it has room for.
    #[inline]
    fn opening(&self, head: u64) -> (u64, u64) {
        let room = self.length.value() - self.length.remainder(head);
        // The last sector of the log holds no header.
        if room > HEADER { (head, room - HEADER) } else { (head + room, self.length.value() - HEADER) }
    }

    /// True if a request of `n` sectors finds room.
    #[inline]
    pub fn has_room(&self, n: u64) -> bool {
        let (mut head, mut left) = (self.next.head, n);
        loop {
            let (at, room) = self.opening(head);
            head = at + HEADER + left.min(room);
            if left <= room {
                return head <= self.limit;
            }
            left -= room;
        }
    }

    /// Sectors in use, guard not counted: from the tail to the head.
    pub fn used(&self) -> u64 {
        self.next.head - self.tail()
    }

    /// True if less is free than is to be kept free by cleaning ahead.
    #[inline]
    pub fn is_nearly_full(&self) -> bool {
        let length = self.length.value();
        self.used() + FREE_SECTORS.min(length / 4) > length
    }

    /// Appends up to `n` sectors of `data` as one entry, as many as fit before the log's end. Returns how many, and where
    /// they lie.
    #[inline]
    pub fn append(&mut self, disk: &mut Disk, costs: &Costs, cause: Cause, host: &HostData) -> DiskResult<(u64, Pba)> {
        let &HostData { lba, sectors: n, buf, at } = host;
        let (head, room) = self.opening(self.next.head);
        let sectors = n.min(room);
        let part = WritePart::Data { buf, at, sectors };
        self.next.head = head;
        self.under_way = HEADER + sectors;
        if disk.holds_data() {
            let to_come = (n - sectors).div_ceil(self.request_max());
            let header = LogHeader { to_come, ..LogHeader::for_extent((lba, sectors), buf.digest(at, sectors)?) };
            self.write(disk, costs, cause, &header, Some(part))?;
        } else {
            let header = WritePart::Record { words: &[], sectors: HEADER };
            costs.append(disk, self.pba(head), cause, sectors, &[header, part])?;
        }
        self.under_way = 0;
        self.push(LogEntry { data: head + HEADER, lba, sectors, leads: true });
        self.next.head = head + HEADER + sectors;
        Ok((sectors, self.pba(head + HEADER)))
    }

    /// True if an entry of `n` sectors would lie before the log's end.
    pub fn holds_undivided(&self, n: u64) -> bool {
        n <= self.opening(self.next.head).1
    }

    /// Appends `extents`, of which `data` holds one after another, as one entry; returns where the first of them lies.
    pub fn append_together(
        &mut self,
        disk: &mut Disk,
        costs: &Costs,
        extents: &[Extent],
        data: &Buf,
    ) -> DiskResult<Pba> {
        let sectors = extents.iter().map(|(_, sectors)| sectors).sum();
        debug_assert!(self.holds_undivided(sectors));
        let header =
            LogHeader { more: extents[1..].into(), ..LogHeader::for_extent(extents[0], data.digest(0, sectors)?) };
        self.next.head = self.opening(self.next.head).0;
        self.write(disk, costs, Cause::Host, &header, Some(WritePart::Data { buf: data, at: 0, sectors }))?;
        let first = self.next.head + HEADER;
        self.next.head = first;
        for (number, &(lba, sectors)) in extents.iter().enumerate() {
            self.push(LogEntry { data: self.next.head, lba, sectors, leads: number == 0 });
            self.next.head += sectors;
        }
        Ok(self.pba(first))
    }

    /// Notes that `n` sectors from `lba` on are valid at home from now on.
    pub fn append_drop(&mut self, disk: &mut Disk, costs: &Costs, lba: Lba, n: u64) -> DiskResult {
        self.next.head = self.opening(self.next.head).0;
        self.write(disk, costs, Cause::Map, &LogHeader { drops: true, ..LogHeader::for_extent((lba, n), 0) }, None)?;
        self.next.head += HEADER;
        Ok(())
    }

    fn write(
        &mut self,
        disk: &mut Disk,
        costs: &Costs,
        cause: Cause,
        header: &LogHeader,
        data: Option<WritePart>,
    ) -> DiskResult {
        let words = header.words(self.next);
        let record = WritePart::Record { words: &words, sectors: HEADER };
        let pba = self.pba(self.next.head);
        self.under_way = HEADER + data.map_or(0, |data| data.sectors());
        match data {
            Some(data) => costs.append(disk, pba, cause, data.sectors(), &[record, data])?,
            None => costs.append(disk, pba, cause, 0, &[record])?,
        }
        self.under_way = 0;
        self.next.chain = digest(&words);
        Ok(())
    }

    /// Reads the header that the chain leads to, if there is one; it is of the first `host_sectors` LBAs.
    pub fn read_header(&mut self, disk: &mut Disk, host_sectors: u64) -> DiskResult<Option<LogHeader>> {
        let (head, room) = self.opening(self.next.head);
        let link = Link { head, ..self.next };
        let words = disk.read_record(self.pba(link.head), HEADER, Cause::Map)?;
        let header = |words: &Vec<u64>| LogHeader::of_words(words, link).filter(|h| h.fits(host_sectors, room));
        let Some((words, header)) = words.and_then(|words| header(&words).map(|header| (words, header))) else {
            return Ok(None);
        };
        self.next = Link { head: link.head + HEADER + header.data_sectors(), chain: digest(&words) };
        Ok(Some(header))
    }

    /// The power was cut: a torn entry is written over, but for as much as would wear what lies before it.
    pub fn power_cut(&mut self) {
        self.next.head += std::mem::take(&mut self.under_way).min(self.wears);
    }

    /// Pieces that `map` still finds in an entry: (LBA, sectors, PBA).
    pub fn valid<'a>(&self, map: &'a ExtentMap, entry: &LogEntry) -> impl Iterator<Item = (Lba, u64, Pba)> + use<'a> {
        let first = self.pba(entry.data);
        let own = first..first + entry.sectors;
        map.mapped(entry.lba, entry.sectors).filter(move |(.., pba)| own.contains(pba))
    }

    /// Forgets the oldest entries as far as nothing in them is valid. Returns a valid sector of the first that stays.
    pub fn trim(&mut self, map: &ExtentMap) -> Option<Lba> {
        while let Some(entry) = self.entries.front() {
            if let Some((lba, ..)) = self.valid(map, entry).next() {
                return Some(lba);
            }
            self.headers -= u64::from(entry.leads);
            self.entries.pop_front();
        }
        None
    }

    /// A log found on the platters: its entries, oldest first, and where it goes on.
    pub fn restore(&mut self, entries: VecDeque<LogEntry>, next: Link) {
        self.headers = entries.iter().filter(|entry| entry.leads).count() as u64;
        (self.entries, self.next) = (entries, next);
    }
}
