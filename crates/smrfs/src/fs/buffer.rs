//! Data that the host has written and the disk has not: whole granules of one file, in memory.
//!
//! In simulation a page has no bytes.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::data::{Data, ReadBuffer};

/// A granule's bytes; none in simulation, which reads as zeros.
pub(super) type PageBytes = Option<Box<[u8]>>;

/// The unwritten granules of one file.
#[derive(Default)]
pub(super) struct Buffer {
    pages: BTreeMap<u64, PageBytes>,
}

impl Buffer {
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The first granule behind all.
    pub(super) fn end(&self) -> u64 {
        self.pages.last_key_value().map_or(0, |(&granule, _)| granule + 1)
    }

    pub(super) fn has(&self, granule: u64) -> bool {
        self.pages.contains_key(&granule)
    }

    /// Puts a granule in, whole.
    pub(super) fn put(&mut self, granule: u64, page: PageBytes) {
        self.pages.insert(granule, page);
    }

    /// Overwrites a part of a granule that is there, `at` bytes behind its beginning.
    pub(super) fn patch(&mut self, granule: u64, granule_bytes: u64, at: u64, data: Data<'_>) {
        let Some(page) = self.pages.get_mut(&granule) else { return };
        if let Data::Bytes(bytes) = data {
            let page = page.get_or_insert_with(|| zeros(granule_bytes));
            page[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Makes zeros of the bytes from `from` up to `to` of a granule that is there.
    pub(super) fn clear(&mut self, granule: u64, from: u64, to: u64) {
        if let Some(Some(page)) = self.pages.get_mut(&granule) {
            page[from as usize..to as usize].fill(0);
        }
    }

    /// Reads from `at` bytes behind the beginning of a granule that is there.
    pub(super) fn read(&self, granule: u64, at: u64, mut room: ReadBuffer<'_>) {
        match (self.pages.get(&granule), &mut room) {
            (Some(Some(page)), ReadBuffer::Bytes(bytes)) => {
                bytes.copy_from_slice(&page[at as usize..at as usize + bytes.len()]);
            }
            _ => room.clear(),
        }
    }

    /// Forgets what lies in `range`; tells how many granules that were.
    pub(super) fn remove(&mut self, range: Range<u64>) -> u64 {
        // One by one: splitting the tree would walk all of it.
        let found: Vec<u64> = self.within(range).collect();
        found.iter().for_each(|granule| drop(self.pages.remove(granule)));
        found.len() as u64
    }

    /// The granules in `range`, in ascending order.
    pub(super) fn within(&self, range: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        let end = range.end.max(range.start);
        self.pages.range(range.start..end).map(|(&granule, _)| granule)
    }

    /// The first granule from `from` on that is there.
    pub(super) fn next(&self, from: u64) -> Option<u64> {
        self.pages.range(from..).next().map(|(&granule, _)| granule)
    }

    /// The first granule from `from` on that is not there.
    pub(super) fn next_gap(&self, from: u64) -> u64 {
        let mut gap = from;
        for (&granule, _) in self.pages.range(from..) {
            if granule != gap {
                break;
            }
            gap += 1;
        }
        gap
    }

    /// The contiguous runs of the first `most` granules.
    pub(super) fn runs(&self, most: u64) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for &granule in self.pages.keys().take(most as usize) {
            match runs.last_mut() {
                Some(run) if run.end == granule => run.end += 1,
                _ => runs.push(granule..granule + 1),
            }
        }
        runs
    }

    /// The bytes of the first `count` granules, one behind the other; none if none of them has any.
    pub(super) fn gather(&self, count: u64, granule_bytes: u64) -> Option<Vec<u8>> {
        let pages = || self.pages.values().take(count as usize);
        if pages().all(Option::is_none) {
            return None;
        }
        let mut bytes = Vec::with_capacity((count * granule_bytes) as usize);
        for page in pages() {
            match page {
                Some(page) => bytes.extend_from_slice(page),
                None => bytes.resize(bytes.len() + granule_bytes as usize, 0),
            }
        }
        Some(bytes)
    }
}

/// A granule of zeros.
pub(super) fn zeros(granule_bytes: u64) -> Box<[u8]> {
    vec![0; granule_bytes as usize].into_boxed_slice()
}
