//! A cache buffer: a circle of pages, in which entries (a header, then data) are appended at the head and given up at the
//! tail.
//!
//! Positions count the sectors ever appended, page records left out. A page begins with a record at a fixed place, from
//! which the chain of headers can be walked; it is written over only when the tail has left it, and the pages that the
//! write may damage.

use std::collections::VecDeque;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::layout::SBlockLayout;
use super::record::{CacheHeader, HeaderKind};
use crate::disk::Disk;
use crate::error::{DiskResult, Fault};
use crate::geometry::Divisor;
use crate::layer::COUNT_MAX;
use crate::medium::{Buf, WritePart};
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

    /// Something of this many sectors, at least 1, that holds nothing: torn by a power cut, or a note about one.
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

/// A part of what is appended.
pub enum AppendPiece<'a> {
    /// A header.
    Header(CacheHeader),
    /// Sectors of a buffer.
    Data {
        /// Buffer that holds them.
        buf: &'a Buf,
        /// The first of them.
        at: u64,
        /// Number of sectors.
        sectors: u64,
    },
}

impl AppendPiece<'_> {
    fn sectors(&self) -> u64 {
        match self {
            AppendPiece::Header(_) => 1,
            AppendPiece::Data { sectors, .. } => *sectors,
        }
    }
}

/// The circle, and what lies in it.
pub struct CacheBuffer {
    start: Pba,
    page_sectors: u64,
    /// Sectors of a page without its record.
    payload: Divisor,
    pages: Divisor,
    guard_pages: u64,
    /// Place at which the next entry is appended.
    pub head: u64,
    /// The oldest entry not given up.
    pub tail: u64,
    /// The position of a page at the head whose record is there already: it must not be written twice next to live sectors.
    pub begun: Option<u64>,
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
        values: head, tail, begun, held, data, valid, under_way;
        built: start, page_sectors, payload, pages, guard_pages, wears;
    }
}

/// Step of writing to a cache buffer, in order.
enum CacheStep<'a> {
    Record([u64; 11]),
    Data(&'a Buf, u64, u64),
    /// The circle's end: the rest goes to its beginning.
    Wrap,
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
            begun: None,
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

    /// Pages of the circle.
    pub fn pages(&self) -> u64 {
        self.pages.value()
    }

    /// Sectors of a page without its record.
    pub fn payload(&self) -> u64 {
        self.payload.value()
    }

    /// Sectors of a page.
    pub fn page_sectors(&self) -> u64 {
        self.page_sectors
    }

    /// Beginning of the page of this number.
    pub fn page_start(&self, page: u64) -> Pba {
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

    /// Reads `length` sectors from a position on, page records and all, into `out` from its first sector on.
    pub fn read(&self, disk: &mut Disk, position: u64, length: u64, out: &mut Buf) -> DiskResult {
        let mut at = 0;
        for (pba, n) in self.accesses(position, length) {
            if n > 0 {
                out.room(at + n);
                disk.read(pba, n, Cause::Clean, out, at)?;
            }
            at += n;
        }
        Ok(())
    }

    /// Place of a position in what was read from `first` on.
    pub fn offset_in_read(&self, first: u64, position: u64) -> u64 {
        position - first + self.payload.quotient(position) - self.payload.quotient(first)
    }

    /// Appends on a disk that holds nothing: only time passes.
    #[inline]
    pub fn append_time(&mut self, disk: &mut Disk, cause: Cause, length: u64) -> DiskResult {
        self.has_room(length)?;
        let record = u64::from(self.begins_page(self.head));
        let [(first, n), (second, rest)] = self.accesses(self.head, length);
        self.under_way = length;
        disk.write(first - record, n + record, cause, &Buf::NoData, 0)?;
        if rest > 0 {
            disk.write(second, rest, cause, &Buf::NoData, 0)?;
        }
        self.under_way = 0;
        self.head += length;
        Ok(())
    }

    /// True if a page's record must be written before what is appended at a position.
    #[inline]
    fn begins_page(&self, position: u64) -> bool {
        self.payload.remainder(position) == 0 && self.begun != Some(position)
    }

    fn has_room(&self, length: u64) -> DiskResult {
        if length <= self.room() {
            return Ok(());
        }
        let message = format!("a cache buffer has room for {} sectors, not for {length}", self.room());
        Err(Box::new(Fault::Inconsistent(message)))
    }

    /// Appends `pieces` as one access, or two at the circle's end. Headers get their place, `epoch` and `done`.
    pub fn append(
        &mut self,
        disk: &mut Disk,
        cause: Cause,
        epoch: u64,
        done: u64,
        pieces: &[AppendPiece],
    ) -> DiskResult {
        let length = pieces.iter().map(AppendPiece::sectors).sum();
        self.has_room(length)?;
        let steps = self.steps(epoch, done, pieces, length);
        self.under_way = length;
        let mut pba = self.pba(self.head) - u64::from(self.begins_page(self.head));
        for stretch in steps.split(|step| matches!(step, CacheStep::Wrap)) {
            let parts: Vec<WritePart> = stretch
                .iter()
                .map(|step| match step {
                    CacheStep::Record(words) => WritePart::Record { words, sectors: 1 },
                    CacheStep::Data(buf, at, sectors) => WritePart::Data { buf, at: *at, sectors: *sectors },
                    CacheStep::Wrap => unreachable!("split here"),
                })
                .collect();
            if !parts.is_empty() {
                disk.write_parts(pba, cause, &parts)?;
            }
            pba = self.start;
        }
        self.under_way = 0;
        self.head += length;
        Ok(())
    }

    /// Steps of a write: the pieces, cut at page ends, with a record at the beginning of each page.
    fn steps<'a>(&self, epoch: u64, done: u64, pieces: &[AppendPiece<'a>], length: u64) -> Vec<CacheStep<'a>> {
        let mut headers = Vec::new();
        let mut position = self.head;
        for piece in pieces {
            if let AppendPiece::Header(_) = piece {
                headers.push(position);
            }
            position += piece.sectors();
        }
        headers.push(self.head + length);
        let (mut steps, mut at) = (Vec::new(), self.head);
        for piece in pieces {
            let mut left = piece.sectors();
            while left > 0 {
                let (page, offset) = self.payload.divide(at);
                if self.begins_page(at) {
                    if at > self.head && self.pages.remainder(page) == 0 {
                        steps.push(CacheStep::Wrap);
                    }
                    let next = headers[headers.partition_point(|&header| header < at)];
                    let first = (next - at).min(self.payload.value());
                    let record = CacheHeader::new(HeaderKind::Page, 0, first, 0);
                    steps.push(CacheStep::Record(
                        CacheHeader { epoch, done, position: at, tail: self.tail, ..record }.words(),
                    ));
                }
                let count = left.min(self.payload.value() - offset);
                steps.push(match *piece {
                    AppendPiece::Header(header) => {
                        CacheStep::Record(CacheHeader { epoch, done, position: at, tail: self.tail, ..header }.words())
                    }
                    AppendPiece::Data { buf, at: from, sectors } => {
                        CacheStep::Data(buf, from + (sectors - left), count)
                    }
                });
                at += count;
                left -= count;
            }
        }
        steps
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
