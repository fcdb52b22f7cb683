//! The bytes of an image file: sparse, with the journal before it, and a map of what may hold anything.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::journal::{Change, Journal};
use super::storage::Storage;

/// Bytes of a part whose allocation is known as a whole: a bit for each is 0.7 MB of a 5 TB drive (assumption).
const PART_BYTES: u64 = 1 << 20;

/// Files free whole blocks of this many bytes (assumption: those of ext4, xfs and btrfs).
const BLOCK_BYTES: u64 = 4096;
/// More than a range can hold without a whole block.
static ZEROS: [u8; 2 * BLOCK_BYTES as usize] = [0; 2 * BLOCK_BYTES as usize];

/// An image's bytes.
pub(super) struct Store {
    file: Arc<dyn Storage>,
    state: Mutex<StoreState>,
}

struct StoreState {
    /// None: writes go straight to the image.
    journal: Option<Journal>,
    allocated: Vec<u64>,
    /// True if anything was written to the image since it was last synced.
    is_dirty: bool,
}

impl Store {
    /// The image in `file`, after the writes that an earlier journal holds. With `journal_bytes` writes go there first, and move on
    /// to the image when so many have gathered.
    pub(super) fn open(
        file: Arc<dyn Storage>,
        journal: Arc<dyn Storage>,
        journal_bytes: Option<u64>,
    ) -> io::Result<Store> {
        let mut is_dirty = false;
        let mut journal = Journal::open(journal, journal_bytes.unwrap_or(0), |change| {
            is_dirty = true;
            carry_out(file.as_ref(), change)
        })?;
        if is_dirty {
            file.sync()?;
        }
        journal.restart()?;
        let allocated = allocated(file.as_ref())?;
        let journal = journal_bytes.is_some().then_some(journal);
        Ok(Store { file, state: Mutex::new(StoreState { journal, allocated, is_dirty: false }) })
    }

    /// Fills `bytes` from `offset` on.
    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let state = self.state.lock();
        if state.is_hole(offset..offset + bytes.len() as u64) {
            bytes.fill(0);
            return Ok(());
        }
        self.file.read(offset, bytes)?;
        state.journal.as_ref().map_or(Ok(()), |journal| journal.overlay(offset, bytes))
    }

    /// Writes `bytes` at `offset`.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut state = self.state.lock();
        state.allocate(offset..offset + bytes.len() as u64);
        let Some(journal) = &mut state.journal else {
            state.is_dirty = true;
            return self.file.write(offset, bytes);
        };
        journal.add(offset, bytes)?;
        if journal.is_full() { self.empty(&mut state) } else { Ok(()) }
    }

    /// Makes zeros of `range`, and frees the whole blocks in it.
    pub(super) fn zero(&self, range: Range<u64>) -> io::Result<()> {
        if self.is_hole(range.clone()) {
            return Ok(());
        }
        let blocks = whole_blocks(&range);
        if blocks.is_empty() {
            return self.write(range.start, &ZEROS[..(range.end - range.start) as usize]);
        }
        self.write(range.start, &ZEROS[..(blocks.start - range.start) as usize])?;
        self.punch(blocks.clone())?;
        self.write(blocks.end, &ZEROS[..(range.end - blocks.end) as usize])
    }

    /// Frees the whole blocks in `range`: they read as zeros.
    pub(super) fn punch(&self, range: Range<u64>) -> io::Result<()> {
        let range = whole_blocks(&range);
        let mut state = self.state.lock();
        if range.is_empty() || state.is_hole(range.clone()) {
            return Ok(());
        }
        state.free(range.clone());
        let Some(journal) = &mut state.journal else {
            state.is_dirty = true;
            return self.file.punch(range);
        };
        journal.punch(range)?;
        if journal.is_full() { self.empty(&mut state) } else { Ok(()) }
    }

    /// Makes everything written durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        let is_dirty = std::mem::take(&mut state.is_dirty);
        match &mut state.journal {
            Some(journal) => journal.sync(),
            None if is_dirty => self.file.sync(),
            None => Ok(()),
        }
    }

    /// Moves what the journal holds to the image.
    fn empty(&self, state: &mut StoreState) -> io::Result<()> {
        let Some(journal) = &mut state.journal else { return Ok(()) };
        journal.move_out(|change| carry_out(self.file.as_ref(), change))?;
        self.file.sync()?;
        journal.restart()
    }

    /// Ends in good order: the image alone holds everything, durably.
    pub(super) fn close(&self) -> io::Result<()> {
        self.empty(&mut self.state.lock())?;
        self.file.sync()
    }

    /// True if it is known that these bytes take up no room: nothing was written there, or it was freed.
    pub(super) fn is_hole(&self, range: Range<u64>) -> bool {
        self.state.lock().is_hole(range)
    }
}

impl StoreState {
    fn parts(range: Range<u64>) -> Range<u64> {
        range.start / PART_BYTES..range.end.div_ceil(PART_BYTES)
    }

    fn is_hole(&self, range: Range<u64>) -> bool {
        StoreState::parts(range)
            .all(|part| self.allocated.get((part / 64) as usize).is_none_or(|word| word >> (part % 64) & 1 == 0))
    }

    /// The parts that lie in `range` as a whole are holes.
    fn free(&mut self, range: Range<u64>) {
        for part in range.start.div_ceil(PART_BYTES)..range.end / PART_BYTES {
            if let Some(word) = self.allocated.get_mut((part / 64) as usize) {
                *word &= !(1 << (part % 64));
            }
        }
    }

    fn allocate(&mut self, range: Range<u64>) {
        for part in StoreState::parts(range) {
            let word = (part / 64) as usize;
            if self.allocated.len() <= word {
                self.allocated.resize(word + 1, 0);
            }
            self.allocated[word] |= 1 << (part % 64);
        }
    }
}

fn whole_blocks(range: &Range<u64>) -> Range<u64> {
    range.start.next_multiple_of(BLOCK_BYTES)..range.end / BLOCK_BYTES * BLOCK_BYTES
}

/// Makes a change that a journal held in the image.
fn carry_out(file: &dyn Storage, change: Change) -> io::Result<()> {
    match change {
        Change::Write(at, bytes) => file.write(at, bytes),
        Change::Punch(range) => file.punch(range),
    }
}

/// A bit for each part of the file that is no hole.
fn allocated(file: &dyn Storage) -> io::Result<Vec<u64>> {
    let mut state = StoreState { journal: None, allocated: Vec::new(), is_dirty: false };
    let mut at = 0;
    while let Some(range) = file.allocated_from(at)? {
        at = range.end;
        state.allocate(range);
    }
    Ok(state.allocated)
}
