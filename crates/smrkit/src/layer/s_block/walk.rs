//! Reading the headers of both buffers after a power cut.
//!
//! Slots and pages begin at fixed places, where host data never lies; within a page each header tells where the next one
//! is. What an earlier lap or a cut left behind has a wrong position, or an epoch before that of what precedes it.

use std::ops::Range;

use super::cache::CacheBuffer;
use super::record::{CacheHeader, HeaderKind};
use super::slots::SlotBuffer;
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::tally::Cause;

/// A header found (of a page there is none), and whether the data that belong to it are whole.
#[derive(Clone, Copy)]
pub struct Item {
    pub header: CacheHeader,
    pub whole: bool,
}

impl Item {
    /// The position after it.
    fn end(&self) -> u64 {
        let data = if self.header.kind == HeaderKind::Entry { self.header.extent } else { 0 };
        self.header.position + 1 + data
    }
}

/// Contents of a buffer, in the order in which they were written.
pub struct Walk {
    pub items: Vec<Item>,
    /// The tail, as last noted.
    pub tail: u64,
    /// End of the last thing written, as far as is known.
    pub head: u64,
    /// A page that was begun and holds nothing yet.
    pub begun: Option<u64>,
    /// The latest of all headers.
    pub epoch: u64,
    pub done: u64,
}

impl Walk {
    fn new(head: u64) -> Walk {
        Walk { items: Vec::new(), tail: 0, head, begun: None, epoch: 0, done: 0 }
    }

    /// True if a header may follow what was found so far; if so it is taken note of.
    fn follows(&mut self, header: &CacheHeader) -> bool {
        if header.epoch < self.epoch {
            return false;
        }
        self.epoch = header.epoch;
        self.tail = self.tail.max(header.tail);
        self.done = self.done.max(header.done);
        true
    }

    /// Drops what lies before the tail, and what a note says is void.
    fn finish(mut self) -> Walk {
        if let Some(last) = self.items.last_mut() {
            last.whole &= last.end() <= self.head;
        }
        let voids: Vec<(u64, u64)> = self.items.iter().filter_map(|item| voided(&item.header)).collect();
        for item in &mut self.items {
            let position = item.header.position;
            item.whole &= item.header.kind != HeaderKind::Void;
            item.whole &= !voids.iter().any(|&(from, to)| (from..to).contains(&position));
        }
        self.items.retain(|item| item.header.position >= self.tail);
        self
    }
}

/// The positions that a header says are void, if there are any.
fn voided(header: &CacheHeader) -> Option<(u64, u64)> {
    let from = match header.kind {
        HeaderKind::Void => header.what,
        HeaderKind::Slot => header.extent,
        HeaderKind::Page | HeaderKind::Entry => return None,
    };
    // Nearly all slots void nothing, and each range kept is held against every item.
    (from < header.position).then_some((from, header.position))
}

/// Walks the chain of headers from page to page; entries are of the LBAs `lbas`.
pub fn walk_cache(disk: &mut Disk, cache: &CacheBuffer, lbas: &Range<u64>) -> DiskResult<Walk> {
    let mut pages = Vec::new();
    for page in 0..cache.pages() {
        let words = disk.read_record(cache.page_start(page), 1, Cause::Map)?;
        let header =
            words.and_then(|words| CacheHeader::parse(&words)).filter(|header| header.kind == HeaderKind::Page);
        let is_here = |h: &CacheHeader| {
            let (number, at) = (h.position / cache.payload(), h.position % cache.payload());
            number % cache.pages() == page && at == 0 && h.what <= cache.payload()
        };
        pages.extend(header.filter(is_here));
    }
    pages.sort_unstable_by_key(|header| header.position);
    let mut walk = Walk::new(0);
    for anchor in pages {
        if !walk.follows(&anchor) {
            break;
        }
        walk_page(disk, cache, lbas, &anchor, &mut walk)?;
    }
    find_torn(disk, cache, &mut walk.items)?;
    Ok(walk.finish())
}

/// Reads the data of what may be torn: the entry written last before a power cut, after which another epoch begins.
fn find_torn(disk: &mut Disk, cache: &CacheBuffer, items: &mut [Item]) -> DiskResult {
    let mut next_epoch = None;
    for item in items.iter_mut().rev() {
        let header = item.header;
        if header.kind == HeaderKind::Entry && next_epoch != Some(header.epoch) {
            item.whole &= digest(disk, cache, &header)? == header.digest;
        }
        next_epoch = Some(header.epoch);
    }
    Ok(())
}

fn walk_page(
    disk: &mut Disk,
    cache: &CacheBuffer,
    lbas: &Range<u64>,
    anchor: &CacheHeader,
    walk: &mut Walk,
) -> DiskResult {
    let page = cache.page_start(anchor.position / cache.payload());
    disk.read_for_records(page, cache.page_sectors(), Cause::Map)?;
    let (start, end) = (anchor.position, anchor.position + cache.payload());
    let mut at = start + anchor.what;
    // What reached into this page must end where the page says.
    if let Some(last) = walk.items.last_mut() {
        last.whole &= last.end() <= start || last.end() == at || last.end() > end && anchor.what == cache.payload();
    }
    while at < end {
        let words = disk.record_at(page + 1 + (at - start), 1)?;
        let header = words.and_then(|words| CacheHeader::parse(&words)).filter(|header| header.position == at);
        let is_item = |h: &CacheHeader| match h.kind {
            HeaderKind::Entry => {
                let is_short = h.extent < cache.pages() * cache.payload();
                is_short && h.extent > 0 && lbas.start <= h.what && h.what.saturating_add(h.extent) <= lbas.end
            }
            kind => kind == HeaderKind::Void,
        };
        let Some(header) = header.filter(is_item) else { break };
        if !walk.follows(&header) {
            break;
        }
        let item = Item { header, whole: true };
        walk.items.push(item);
        at = item.end();
    }
    // An entry that goes on where no page was begun is torn; the next page is untouched.
    walk.head = at.min(end);
    walk.begun = Some(start).filter(|&start| start == at);
    Ok(())
}

/// The digest of an entry's data.
fn digest(disk: &mut Disk, cache: &CacheBuffer, header: &CacheHeader) -> DiskResult<u64> {
    let first = header.position + 1;
    let mut data = disk.buf(header.extent);
    for (position, pba, n) in cache.runs(first, header.extent) {
        disk.read(pba, n, Cause::Map, &mut data, position - first)?;
    }
    data.digest(0, header.extent)
}

/// Reads the headers of all slots. Only the S-block written last can be torn.
pub fn walk_slots(disk: &mut Disk, slots: &SlotBuffer, sectors: u64) -> DiskResult<Walk> {
    let mut headers = Vec::new();
    for slot in 0..slots.slots() {
        let words = disk.read_record(slots.pba(slot), 1, Cause::Map)?;
        let header = words.and_then(|words| CacheHeader::parse(&words));
        let header = header.filter(|h| matches!(h.kind, HeaderKind::Slot | HeaderKind::Void));
        let is_there = |h: &CacheHeader| h.kind != HeaderKind::Slot || h.what < slots.slot_of.len() as u64;
        headers.extend(header.filter(|h| slots.slot(h.position) == slot && is_there(h)));
    }
    headers.sort_unstable_by_key(|header| header.position);
    let mut walk = Walk::new(slots.head);
    for header in headers {
        if !walk.follows(&header) {
            break;
        }
        walk.head = header.position + 1;
        walk.items.push(Item { header, whole: true });
    }
    if let Some(last) = walk.items.last_mut().filter(|last| last.header.kind == HeaderKind::Slot) {
        let first = slots.pba(slots.slot(last.header.position)) + 1;
        let labels = disk.read_labels(first, sectors, Cause::Map)?;
        last.whole = labels.last() == Some(&(sectors - 1, last.header.label()));
    }
    Ok(walk.finish())
}
