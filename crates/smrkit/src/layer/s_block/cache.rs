//! A cache buffer: a circle of pages, in which entries (a header, then data) are appended at the head and given up at the
//! tail.
//!
//! Positions count the sectors ever appended, page records left out. A page begins with a record at a fixed place, from which the
//! chain of headers could be walked; it is written over only when the tail has left it, and the pages that the write may damage.

use std::collections::VecDeque;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::keys::SBlockLayout;
use crate::disk::Disk;
use crate::error::{DiskResult, Fault};
use crate::geometry::Divisor;
use crate::layer::COUNT_MAX;
use crate::medium::Buf;
use crate::state::state;
use crate::tally::Cause;
use crate::units::{Lba, Pba};

const SECTORS_BITS: u32 = 24;
const VOID: u64 = (1 << (64 - SECTORS_BITS)) - 1;

/// Entry of a header: first LBA and number of sectors, in one word.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct HeaderEntry(u64);

impl HeaderEntry {
    pub fn new(lba: Lba, sectors: u64) -> HeaderEntry {
        debug_assert!(lba.0 < VOID && sectors < 1 << SECTORS_BITS);
        HeaderEntry(lba.0 << SECTORS_BITS | sectors)
    }

    /// Something of this many sectors, at least 1, that holds nothing: torn by a power cut.
    pub fn void(length: u64) -> HeaderEntry {
        HeaderEntry(VOID << SECTORS_BITS | (length - 1))
    }

    pub fn lba(self) -> Lba {
        Lba(self.0 >> SECTORS_BITS)
    }

    /// Sectors of data; for a void entry without meaning.
    pub fn sectors(self) -> u64 {
        self.0 & ((1 << SECTORS_BITS) - 1)
    }

    /// Sectors of the buffer that it takes, its header counted.
    pub fn length(self) -> u64 {
        self.sectors() + 1
    }

    pub fn is_void(self) -> bool {
        self.lba().0 == VOID
    }
}

/// The circle, and what lies in it.
pub struct CacheBuffer {
    start: Pba,
    page_sectors: u64,
    /// Sectors of a page without its record.
    pub payload: Divisor,
    pub pages: Divisor,
    guard_pages: u64,
    /// Place at which the next entry is appended.
    pub head: u64,
    /// The oldest entry not given up.
    pub tail: u64,
    /// From tail to head.
    pub entries: VecDeque<HeaderEntry>,
    /// Sectors of entries that hold data, headers counted.
    pub held: u64,
    /// Sectors held, without headers.
    pub data: u64,
    /// Sectors that are mapped here.
    pub valid: u64,
    /// Sectors that are being appended, until they are there.
    under_way: u64,
    /// True if a second write to a sector wears those before it.
    wears: bool,
}

state! {
    CacheBuffer {
        parts: entries;
        values: head, tail, held, data, valid, under_way;
        built: start, page_sectors, payload, pages, guard_pages, wears;
    }
}

impl CacheBuffer {
    pub fn new(start: Pba, layout: &SBlockLayout) -> CacheBuffer {
        CacheBuffer {
            start,
            page_sectors: layout.page_sectors,
            payload: Divisor::new(layout.page_sectors - 1),
            pages: Divisor::new(layout.pages),
            guard_pages: layout.guard_pages,
            head: 0,
            tail: 0,
            entries: VecDeque::new(),
            held: 0,
            data: 0,
            valid: 0,
            under_way: 0,
            wears: layout.wears,
        }
    }

    /// True if a restored state holds entries of these LBAs alone.
    pub fn is_possible(&self, lbas: &Range<u64>) -> bool {
        let is_entry = |entry: &HeaderEntry| {
            let lba = entry.lba().0;
            entry.is_void() || lbas.start <= lba && lba + entry.sectors() <= lbas.end
        };
        let counts = [self.head, self.held, self.data, self.valid, self.under_way];
        self.tail <= self.head && counts.iter().all(|&count| count < COUNT_MAX) && self.entries.iter().all(is_entry)
    }

    fn page_start(&self, page: u64) -> Pba {
        self.start + self.pages.remainder(page) * self.page_sectors
    }

    /// Sectors that may be appended: they, and what they damage, stay clear of the page in which the tail lies.
    #[inline]
    pub fn room(&self) -> u64 {
        let end = (self.payload.quotient(self.tail) + self.pages.value() - self.guard_pages) * self.payload.value();
        end.saturating_sub(self.head)
    }

    /// Sectors of data that are mapped no more.
    pub fn invalid(&self) -> u64 {
        self.data - self.valid
    }

    /// Place of a position.
    #[inline]
    pub fn pba(&self, position: u64) -> Pba {
        let (page, offset) = self.payload.divide(position);
        self.page_start(page) + 1 + offset
    }

    /// Place of the data of an entry at a position, if no page record is in the middle.
    #[inline]
    pub fn undivided(&self, position: u64, entry: HeaderEntry) -> Option<Pba> {
        let (page, offset) = self.payload.divide(position + 1);
        (offset + entry.sectors() <= self.payload.value()).then(|| self.page_start(page) + 1 + offset)
    }

    /// The runs on the platters of `length` sectors from a position on, page records left out: (position, PBA, sectors).
    #[inline]
    pub fn runs(&self, position: u64, length: u64) -> impl Iterator<Item = (u64, Pba, u64)> + use<> {
        let (mut at, end) = (position, position + length);
        let (page_sectors, payload, pages, start) = (self.page_sectors, self.payload, self.pages, self.start);
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (page, offset) = payload.divide(at);
            let count = (payload.value() - offset).min(end - at);
            let run = (at, start + pages.remainder(page) * page_sectors + 1 + offset, count);
            at += count;
            Some(run)
        })
    }

    /// The one or two accesses that cover `length` sectors from a position on, with the page records between them: first
    /// PBA and sectors. A record in front is left out.
    #[inline]
    fn accesses(&self, position: u64, length: u64) -> [(Pba, u64); 2] {
        let (first, last) = (self.pba(position), self.pba(position + length - 1));
        if first <= last {
            return [(first, last - first + 1), (first, 0)];
        }
        let end = self.start + self.pages.value() * self.page_sectors;
        [(first, end - first), (self.start, last - self.start + 1)]
    }

    /// Reads `length` sectors from a position on, page records and all.
    pub fn read(&self, disk: &mut Disk, position: u64, length: u64) -> DiskResult<Buf> {
        let accesses = self.accesses(position, length);
        let (mut out, mut at) = (disk.buf(accesses[0].1 + accesses[1].1), 0);
        for (pba, n) in accesses.into_iter().filter(|access| access.1 > 0) {
            disk.read(pba, n, Cause::Clean, &mut out, at)?;
            at += n;
        }
        Ok(out)
    }

    /// Place of a position in what was read from `first` on.
    pub fn offset_in_read(&self, first: u64, position: u64) -> u64 {
        position - first + self.payload.quotient(position) - self.payload.quotient(first)
    }

    /// Appends entries of `length` sectors, headers counted, as one access, or two at the circle's end. Their data are the runs
    /// `data` of `buf`: position, sectors, and the first of them in `buf`.
    #[inline]
    pub fn append(
        &mut self,
        disk: &mut Disk,
        cause: Cause,
        length: u64,
        buf: &Buf,
        data: impl Iterator<Item = (u64, u64, u64)>,
    ) -> DiskResult {
        if length > self.room() {
            let message = format!("a cache buffer has room for {} sectors, not for {length}", self.room());
            return Err(Box::new(Fault::Inconsistent(message)));
        }
        // A page's record is written with what comes first in it.
        let record = u64::from(self.payload.remainder(self.head) == 0);
        let [(first, n), (second, rest)] = self.accesses(self.head, length);
        let entries = match disk.holds_data() {
            true => self.laid_out(disk.metadata(record + n + rest), record, buf, data),
            false => Buf::NoData,
        };
        self.under_way = length;
        disk.write(first - record, record + n, cause, &entries, 0)?;
        if rest > 0 {
            disk.write(second, rest, cause, &entries, record + n)?;
        }
        self.under_way = 0;
        self.head += length;
        Ok(())
    }

    /// Headers with the data laid over them, behind `record` sectors of a page's record.
    #[cold]
    fn laid_out(&self, mut entries: Buf, record: u64, buf: &Buf, data: impl Iterator<Item = (u64, u64, u64)>) -> Buf {
        for (position, sectors, at) in data {
            for (run, _, count) in self.runs(position, sectors) {
                entries.put(record + self.offset_in_read(self.head, run), buf, at + (run - position), count);
            }
        }
        entries
    }

    /// The power was cut: what was being appended is void. Where nothing wears, it is written over.
    pub fn power_cut(&mut self) {
        let torn = std::mem::take(&mut self.under_way);
        if self.wears && torn > 0 {
            self.push(HeaderEntry::void(torn));
            self.head += torn;
        }
    }

    /// Adds an entry at the head's end of the queue; it has been appended.
    #[inline]
    pub fn push(&mut self, entry: HeaderEntry) {
        self.entries.push_back(entry);
        if !entry.is_void() {
            self.held += entry.length();
            self.data += entry.sectors();
        }
    }

    /// Gives up the entry at the tail.
    pub fn pop(&mut self) -> Option<HeaderEntry> {
        let entry = self.entries.pop_front()?;
        self.tail += entry.length();
        if !entry.is_void() {
            self.held -= entry.length();
            self.data -= entry.sectors();
        }
        Some(entry)
    }

    /// Puts this many entries of the tail, `length` sectors in all, behind the others: they were copied to the head.
    pub fn carry_over(&mut self, entries: usize, length: u64) {
        self.entries.rotate_left(entries);
        self.tail += length;
    }

    /// Memory taken, in bytes.
    pub fn bytes(&self) -> u64 {
        (self.entries.capacity() * size_of::<HeaderEntry>()) as u64
    }
}
