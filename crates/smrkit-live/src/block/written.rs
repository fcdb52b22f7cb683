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
use crate::contents::is_zero;

/// Bytes of a page, read and written whole.
const PAGE_BYTES: usize = 512;
/// Sectors of a page.
const PAGE_SECTORS: u64 = 8 * PAGE_BYTES as u64;
/// Pages in memory, each in the place that its number says: 4 MiB (assumption).
const PLACES: u64 = 8192;

/// Number of no page.
const NONE: u64 = u64::MAX;

type Page = [u8; PAGE_BYTES];

/// The bits of a drive's sectors.
pub(super) struct Written {
    store: Arc<Store>,
    first_byte: u64,
    /// Number and content of the page in each place.
    pages: Vec<Option<Box<(u64, Page)>>>,
}

/// Bytes that the bits of this many sectors take in an image.
pub(super) fn bytes_for(sectors: u64) -> u64 {
    sectors.div_ceil(PAGE_SECTORS) * PAGE_BYTES as u64
}

impl Written {
    pub(super) fn new(store: Arc<Store>, first_byte: u64) -> Written {
        Written { store, first_byte, pages: vec![None; PLACES as usize] }
    }

    fn page(&mut self, number: u64) -> io::Result<&mut Page> {
        let place = &mut self.pages[(number % PLACES) as usize];
        let (held, page) = &mut **place.get_or_insert_with(|| Box::new((NONE, [0; PAGE_BYTES])));
        if *held != number {
            *held = NONE;
            self.store.read(self.first_byte + number * PAGE_BYTES as u64, page)?;
            *held = number;
        }
        Ok(page)
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
            if is_zero(page) {
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
        for page in self.pages.iter_mut().flatten().filter(|page| whole.contains(&page.0)) {
            page.1.fill(0);
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

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    /// Pages that share a place in memory, and their neighbours.
    const PAGES: [u64; 6] = [0, 1, 2, PLACES, PLACES + 1, PLACES + 2];
    const FIRST_BYTE: u64 = 12_800;
    /// Bytes behind the bits.
    const BEHIND: u64 = FIRST_BYTE + (PLACES + 3) * PAGE_BYTES as u64;

    fn store() -> Arc<Store> {
        let [file, journal] = [(); 2].map(|()| Arc::new(tempfile::tempfile().unwrap()));
        file.set_len(BEHIND + 1000).unwrap();
        Arc::new(Store::open(file, 0..BEHIND + 1000, journal, None, 1).unwrap())
    }

    /// The runs of a range for which a model says so.
    fn runs(has: impl Fn(u64) -> bool, range: Range<u64>) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for sector in range.filter(|&sector| has(sector)) {
            match runs.last_mut() {
                Some(run) if run.end == sector => run.end += 1,
                _ => runs.push(sector..sector + 1),
            }
        }
        runs
    }

    #[test]
    fn bits_of_each_begun_page_take_a_page() {
        assert_eq!([0, 1, 4095, 4096, 4097, 12_288].map(bytes_for), [0, 512, 512, 512, 1024, 1536]);
    }

    #[test]
    fn sectors_are_known_as_written_until_they_are_discarded() {
        let store = store();
        store.write(0, &[7; FIRST_BYTE as usize]).unwrap();
        store.write(BEHIND, &[9; 1000]).unwrap();
        let mut written = Written::new(store.clone(), FIRST_BYTE);
        let mut model = std::collections::BTreeSet::new();
        let dice = &mut Pcg64Mcg::seed_from_u64(1);
        for round in 0..150 {
            let page = PAGES[dice.random_range(0..PAGES.len())];
            let start = page * PAGE_SECTORS + [0, 1, 4095, dice.random_range(0..4096)][dice.random_range(0..4)];
            let end = (page / PLACES * PLACES + 3) * PAGE_SECTORS;
            let longest = end - start;
            let some = [0, 1, 8, 4096, 8192, dice.random_range(0..=longest)];
            let range = start..start + some[dice.random_range(0..some.len())].min(longest);
            if dice.random() {
                written.insert(range.clone()).unwrap();
                model.extend(range.clone());
            } else {
                written.remove(range.clone()).unwrap();
                model.retain(|sector| !range.contains(sector));
            }
            if round % 30 == 29 {
                written = Written::new(store.clone(), FIRST_BYTE);
            }
            let around = start.saturating_sub(20)..(range.end + 20).min(end);
            assert_eq!(written.runs(around.clone()).unwrap(), runs(|sector| model.contains(&sector), around.clone()));
            assert_eq!(written.holes(around.clone()).unwrap(), runs(|sector| !model.contains(&sector), around));
        }
        for first in [0, PLACES * PAGE_SECTORS] {
            let all = first..first + 3 * PAGE_SECTORS;
            assert_eq!(written.runs(all.clone()).unwrap(), runs(|sector| model.contains(&sector), all));
        }
        let (mut before, mut behind) = ([0; FIRST_BYTE as usize], [0; 1000]);
        store.read(0, &mut before).unwrap();
        store.read(BEHIND, &mut behind).unwrap();
        assert!(before == [7; FIRST_BYTE as usize] && behind == [9; 1000], "what lies around the bits stays");
    }

    #[test]
    fn what_was_not_written_is_read_as_zeros() {
        let mut written = Written::new(store(), FIRST_BYTE);
        for range in [3..5, 7..8, 9..9] {
            written.insert(range).unwrap();
        }
        let mut bytes = [7; 10 * SECTOR_BYTES as usize];
        written.blank(1..11, &mut bytes).unwrap();
        let is_kept = |sector: u64| bytes[(sector - 1) as usize * 512..sector as usize * 512] == [7; 512];
        assert_eq!(runs(is_kept, 1..11), [3..5, 7..8]);
        assert_eq!(bytes.iter().filter(|&&byte| byte == 0).count(), 7 * 512);
    }
}
