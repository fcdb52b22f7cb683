//! The bytes of an image file: sparse, with the journal before it, and a map of what may hold anything.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use parking_lot::Mutex;
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::journal::Journal;

/// Bytes of a part whose allocation is known as a whole: a bit for each is 0.7 MB of a 5 TB drive (assumption).
const PART_BYTES: u64 = 1 << 20;

/// An image's bytes.
pub(super) struct Store {
    file: File,
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
    /// The image in `file`, after the writes that an earlier journal holds. With `keeps_journal` writes go there first.
    pub(super) fn open(file: File, journal: File, keeps_journal: bool) -> io::Result<Store> {
        let mut is_dirty = false;
        let mut journal = Journal::open(journal, |at, bytes| {
            is_dirty = true;
            file.write_all_at(bytes, at)
        })?;
        if is_dirty {
            file.sync_data()?;
        }
        journal.restart()?;
        let allocated = allocated(&file)?;
        let journal = keeps_journal.then_some(journal);
        Ok(Store { file, state: Mutex::new(StoreState { journal, allocated, is_dirty: false }) })
    }

    /// Fills `bytes` from `offset` on.
    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let state = self.state.lock();
        if state.is_hole(offset..offset + bytes.len() as u64) {
            bytes.fill(0);
            return Ok(());
        }
        self.file.read_exact_at(bytes, offset)?;
        state.journal.as_ref().map_or(Ok(()), |journal| journal.overlay(offset, bytes))
    }

    /// Writes `bytes` at `offset`.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        state.allocate(offset..offset + bytes.len() as u64);
        let Some(journal) = &mut state.journal else {
            state.is_dirty = true;
            return self.file.write_all_at(bytes, offset);
        };
        journal.add(offset, bytes)?;
        if journal.is_full() { self.empty(&mut state) } else { Ok(()) }
    }

    /// Makes everything written durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        let is_dirty = std::mem::take(&mut state.is_dirty);
        match &mut state.journal {
            Some(journal) => journal.sync(),
            None if is_dirty => self.file.sync_data(),
            None => Ok(()),
        }
    }

    /// Moves what the journal holds to the image.
    fn empty(&self, state: &mut StoreState) -> io::Result<()> {
        let Some(journal) = &mut state.journal else { return Ok(()) };
        journal.move_out(|at, bytes| self.file.write_all_at(bytes, at))?;
        self.file.sync_data()?;
        journal.restart()
    }

    /// Ends in good order: the image alone holds everything, durably.
    pub(super) fn close(&self) -> io::Result<()> {
        self.empty(&mut self.state.lock())?;
        self.file.sync_data()
    }

    /// True if it is known that nothing was ever written to these bytes.
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

/// A bit for each part of the file that is no hole.
fn allocated(file: &File) -> io::Result<Vec<u64>> {
    let mut state = StoreState { journal: None, allocated: Vec::new(), is_dirty: false };
    let mut at = 0;
    loop {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => return Ok(state.allocated),
            start => start?,
        };
        at = rustix::fs::seek(file, SeekFrom::Hole(start))?;
        state.allocate(start..at);
    }
}
