//! Data that the host has written and the disk has not: whole granules of a file, in memory; and the files that wait to have
//! theirs written out.
//!
//! In simulation a page has no bytes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::file::{File, FileState};
use super::statistics::Counter;
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

/// The files with something in their buffers, in the order in which they are to be written out. Any may leave.
#[derive(Default)]
struct Queue {
    files: BTreeMap<u64, Arc<File>>,
    next: u64,
}

/// Buffered data of all files.
#[derive(Default)]
pub(super) struct Buffers {
    queue: Mutex<Queue>,
    bytes: Counter,
}

impl Buffers {
    /// Unwritten bytes in memory.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// `bytes` more are buffered.
    pub(super) fn added(&self, bytes: u64) {
        self.bytes.add(bytes);
    }

    /// `bytes` are buffered no more; a file with nothing left need not wait.
    pub(super) fn removed(&self, state: &mut FileState, bytes: u64) {
        self.bytes.take(bytes);
        if state.buffer.is_empty()
            && let Some(turn) = state.waiting.take()
        {
            self.queue.lock().files.remove(&turn);
        }
    }

    /// Puts a file at the end, if it does not wait yet.
    pub(super) fn queue(&self, file: &Arc<File>, state: &mut FileState) {
        if state.waiting.is_none() {
            state.waiting = Some(self.queue.lock().join(file));
        }
    }

    /// Puts a file that waits at the end: others come first now.
    pub(super) fn queue_again(&self, file: &Arc<File>, state: &mut FileState) {
        if let Some(turn) = state.waiting {
            let mut queue = self.queue.lock();
            queue.files.remove(&turn);
            state.waiting = Some(queue.join(file));
        }
    }

    /// The file that waits longest.
    pub(super) fn first(&self) -> Option<Arc<File>> {
        self.queue.lock().files.values().next().cloned()
    }

    /// All files that wait.
    pub(super) fn all(&self) -> Vec<Arc<File>> {
        self.queue.lock().files.values().cloned().collect()
    }
}

impl Queue {
    fn join(&mut self, file: &Arc<File>) -> u64 {
        self.next += 1;
        self.files.insert(self.next, file.clone());
        self.next
    }
}
