//! Map of the sectors that the host has written and not discarded since: a bit each, in the image. The others read as zeros.
//!
//! Layers don't keep that: what was never written reads as its neighbours' damage left it, and a copy whose mapping was dropped may come
//! back after a crash.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use smrkit::device::HostSectors;
use smrkit::units::SECTOR_BYTES;

use super::store::Store;

/// Bytes of a page, read and written whole.
const PAGE_BYTES: usize = 512;
/// Sectors of a page.
const PAGE_SECTORS: u64 = 8 * PAGE_BYTES as u64;
/// Pages in memory, each in the place that its number says: 4 MiB (assumption).
const PLACES: u64 = 8192;

type Page = [u8; PAGE_BYTES];

/// The bits of a drive's sectors.
pub(super) struct Written {
    store: Arc<Store>,
    first_byte: u64,
    /// Number and content of the page in each place.
    pages: Vec<Option<(u64, Box<Page>)>>,
}

/// Bytes that the bits of this many sectors take in an image.
pub(super) fn bytes_for(sectors: u64) -> u64 {
    sectors.div_ceil(PAGE_SECTORS) * PAGE_BYTES as u64
}

impl Written {
    pub(super) fn new(store: Arc<Store>, first_byte: u64) -> Written {
        Written { store, first_byte, pages: (0..PLACES).map(|_| None).collect() }
    }

    fn page(&mut self, number: u64) -> io::Result<&mut Page> {
        let place = &mut self.pages[(number % PLACES) as usize];
        if place.as_ref().is_none_or(|(held, _)| *held != number) {
            let mut page = place.take().map_or_else(|| Box::new([0; PAGE_BYTES]), |(_, page)| page);
            self.store.read(self.first_byte + number * PAGE_BYTES as u64, &mut page[..])?;
            *place = Some((number, page));
        }
        Ok(&mut place.as_mut().expect("just read").1)
    }

    fn set(&mut self, range: Range<u64>, value: bool) -> io::Result<()> {
        for (number, bits) in by_page(range) {
            let (store, at) = (self.store.clone(), self.first_byte + number * PAGE_BYTES as u64);
            let page = self.page(number)?;
            if bits.clone().any(|bit| get(page, bit) != value) {
                bits.for_each(|bit| put(page, bit, value));
                store.write(at, page)?;
            }
        }
        Ok(())
    }

    /// The runs of sectors in `range` that hold nothing of the host's.
    pub(super) fn holes(&mut self, range: Range<u64>) -> io::Result<Vec<Range<u64>>> {
        let mut holes: Vec<Range<u64>> = Vec::new();
        for (number, bits) in by_page(range) {
            let first = number * PAGE_SECTORS;
            let page = self.page(number)?;
            if page.iter().all(|&byte| byte == 0) {
                add(&mut holes, first + bits.start..first + bits.end);
                continue;
            }
            for bit in bits.filter(|&bit| !get(page, bit)) {
                add(&mut holes, first + bit..first + bit + 1);
            }
        }
        Ok(holes)
    }

    /// The runs of sectors in `range` that hold something of the host's.
    pub(super) fn runs(&mut self, range: Range<u64>) -> io::Result<Vec<Range<u64>>> {
        let (mut runs, mut at) = (Vec::new(), range.start);
        for hole in self.holes(range.clone())? {
            runs.push(at..hole.start);
            at = hole.end;
        }
        runs.push(at..range.end);
        runs.retain(|run| !run.is_empty());
        Ok(runs)
    }
}

impl HostSectors for Written {
    fn insert(&mut self, range: Range<u64>) -> io::Result<()> {
        self.set(range, true)
    }

    fn remove(&mut self, range: Range<u64>) -> io::Result<()> {
        // Whole pages go at once: a host may discard terabytes.
        let whole = range.start.div_ceil(PAGE_SECTORS)..range.end / PAGE_SECTORS;
        if whole.start >= whole.end {
            return self.set(range, false);
        }
        self.set(range.start..whole.start * PAGE_SECTORS, false)?;
        self.set(whole.end * PAGE_SECTORS..range.end, false)?;
        for (_, page) in self.pages.iter_mut().flatten().filter(|(number, _)| whole.contains(number)) {
            page.fill(0);
        }
        let place = |page: u64| self.first_byte + page * PAGE_BYTES as u64;
        self.store.zero(place(whole.start)..place(whole.end))
    }

    fn blank(&mut self, range: Range<u64>, bytes: &mut [u8]) -> io::Result<()> {
        for hole in self.holes(range.clone())? {
            let byte = |sector: u64| ((sector - range.start) * SECTOR_BYTES) as usize;
            bytes[byte(hole.start)..byte(hole.end)].fill(0);
        }
        Ok(())
    }
}

/// Adds a run to those before it.
fn add(runs: &mut Vec<Range<u64>>, run: Range<u64>) {
    match runs.last_mut() {
        Some(last) if last.end == run.start => last.end = run.end,
        _ => runs.push(run),
    }
}

fn get(page: &Page, bit: u64) -> bool {
    page[(bit / 8) as usize] >> (bit % 8) & 1 == 1
}

fn put(page: &mut Page, bit: u64, value: bool) {
    let mask = 1 << (bit % 8);
    let byte = &mut page[(bit / 8) as usize];
    *byte = if value { *byte | mask } else { *byte & !mask };
}

/// Each page that `range` touches, and its bits there.
fn by_page(range: Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> {
    let pages = if range.is_empty() { 0..0 } else { range.start / PAGE_SECTORS..range.end.div_ceil(PAGE_SECTORS) };
    pages.map(move |number| {
        let first = number * PAGE_SECTORS;
        (number, range.start.max(first) - first..range.end.min(first + PAGE_SECTORS) - first)
    })
}
