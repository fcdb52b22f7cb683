//! The bytes of an image file: sparse, with the journal before it, and a map of what may hold anything.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use smrkit::medium::DESTROYED_BYTE;
use smrkit::medium::HeldSectors;
use smrkit::ranges::RangeMap;
use smrkit::units::SECTOR_BYTES;

use super::journal::{Journal, Source};
use super::storage::Storage;

/// Bytes of a part whose allocation is known as a whole: a bit for each is 0.7 MB of a 5 TB drive (assumption).
const PART_BYTES: u64 = 1 << 20;

/// Files free whole blocks of this many bytes (assumption: those of ext4, xfs and btrfs).
const BLOCK_BYTES: u64 = 4096;
/// More than a range can hold without a whole block.
static ZEROS: [u8; 2 * BLOCK_BYTES as usize] = [0; 2 * BLOCK_BYTES as usize];
/// Bytes that are destroyed at a time.
static DESTROYED: [u8; 64 << 10] = [DESTROYED_BYTE; 64 << 10];
/// Bytes of the journal that are written to the image at a time (assumption).
const COPY_BYTES: u64 = 1 << 20;

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
    /// Bytes that somebody holds as they were.
    holds: Vec<Weak<HeldRange>>,
}

/// A range of an image, held as it was.
pub(super) struct HeldRange {
    store: Arc<Store>,
    /// By the byte from the range's start; none is a hole.
    sources: Mutex<RangeMap<Source>>,
}

impl HeldSectors for HeldRange {
    fn read(&self, first: u64, bytes: &mut [u8]) -> io::Result<()> {
        let state = self.store.state.lock();
        let start = first * SECTOR_BYTES;
        let sources = self.sources.lock();
        self.store.fetch(state.journal.as_ref(), sources.parts(start..start + bytes.len() as u64), bytes)
    }
}

impl HeldRange {
    /// Keeps in memory what it finds in the image's bytes `range`, which are to change.
    fn keep(&self, file: &dyn Storage, range: &Range<u64>) -> io::Result<()> {
        let mut sources = self.sources.lock();
        let found = sources.iter().filter_map(|(own, source)| {
            let &Source::Image(at) = source else { return None };
            let (start, end) = (range.start.max(at), range.end.min(at + (own.end - own.start)));
            (start < end).then(|| (own.start + (start - at)..own.start + (end - at), start))
        });
        for (own, at) in found.collect::<Vec<_>>() {
            let mut bytes = vec![0; (own.end - own.start) as usize];
            file.read(at, &mut bytes)?;
            sources.cover(own, Source::Memory(Arc::new(bytes), 0));
        }
        Ok(())
    }

    /// Keeps in memory what it finds in the journal, which is to begin anew.
    fn keep_journal(&self, journal: &Journal) -> io::Result<()> {
        let mut sources = self.sources.lock();
        let found = sources.iter().filter_map(|(own, source)| match source {
            &Source::Journal(at) => Some((own, at)),
            _ => None,
        });
        for (own, at) in found.collect::<Vec<_>>() {
            let mut bytes = vec![0; (own.end - own.start) as usize];
            journal.read(at, &mut bytes)?;
            sources.cover(own, Source::Memory(Arc::new(bytes), 0));
        }
        Ok(())
    }
}

impl Store {
    /// The bytes `own` of the image in `file`, after the writes that an earlier journal holds. With `journal_bytes` writes go there
    /// first, and move on to the image when this many have gathered.
    pub(super) fn open(
        file: Arc<dyn Storage>,
        own: Range<u64>,
        journal: Arc<dyn Storage>,
        journal_bytes: Option<u64>,
        first_record: u64,
    ) -> io::Result<Store> {
        let journal = Journal::open(journal, journal_bytes.unwrap_or(0), own, first_record)?;
        let state = StoreState { journal: Some(journal), allocated: Vec::new(), is_dirty: false, holds: Vec::new() };
        let store = Store { file, state: Mutex::new(state) };
        let mut state = store.state.lock();
        store.empty(&mut state)?;
        state.allocated = allocated(store.file.as_ref())?;
        if journal_bytes.is_none() {
            state.journal = None;
        }
        drop(state);
        Ok(store)
    }

    /// Fills `bytes` from `offset` on.
    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let state = self.state.lock();
        let range = offset..offset + bytes.len() as u64;
        if state.is_hole(range.clone()) {
            bytes.fill(0);
            return Ok(());
        }
        let Some(journal) = &state.journal else { return self.file.read(offset, bytes) };
        let image = |(range, source): (Range<u64>, Option<Source>)| {
            (range.clone(), source.or(Some(Source::Image(range.start))))
        };
        self.fetch(Some(journal), journal.parts().parts(range).map(image), bytes)
    }

    /// Fills `bytes` with parts that follow on each other.
    fn fetch(
        &self,
        journal: Option<&Journal>,
        parts: impl Iterator<Item = (Range<u64>, Option<Source>)>,
        bytes: &mut [u8],
    ) -> io::Result<()> {
        let mut rest = bytes;
        for (range, source) in parts {
            let (part, behind) = rest.split_at_mut((range.end - range.start) as usize);
            rest = behind;
            match source {
                Some(Source::Image(at)) => self.file.read(at, part)?,
                Some(Source::Journal(at)) => journal.map_or(Ok(()), |journal| journal.read(at, part))?,
                Some(Source::Memory(bytes, at)) => part.copy_from_slice(&bytes[at..at + part.len()]),
                Some(Source::Destroyed) => part.fill(DESTROYED_BYTE),
                Some(Source::Hole) | None => part.fill(0),
            }
        }
        Ok(())
    }

    /// A range as it is now.
    pub(super) fn hold(self: &Arc<Store>, range: Range<u64>) -> Arc<HeldRange> {
        let mut state = self.state.lock();
        let mut sources = RangeMap::default();
        if !state.is_hole(range.clone()) {
            sources.cover(0..range.end - range.start, Source::Image(range.start));
            for (part, source) in state.journal.iter().flat_map(|journal| journal.parts().within(range.clone())) {
                sources.cover(part.start - range.start..part.end - range.start, source);
            }
        }
        let held = Arc::new(HeldRange { store: self.clone(), sources: Mutex::new(sources) });
        state.holds.retain(|hold| hold.strong_count() > 0);
        state.holds.push(Arc::downgrade(&held));
        held
    }

    /// Writes `bytes` at `offset`.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let range = offset..offset + bytes.len() as u64;
        let mut state = self.state.lock();
        state.allocate(range.clone());
        let Some(journal) = &mut state.journal else {
            state.keep(self.file.as_ref(), &range)?;
            return self.file.write(offset, bytes);
        };
        journal.add(offset, bytes)?;
        self.empty_if_full(&mut state)
    }

    /// Writes a range of bytes that are held at `offset`.
    pub(super) fn write_held(&self, offset: u64, held: &HeldRange, range: Range<u64>) -> io::Result<()> {
        let mut state = self.state.lock();
        let mut at = range.start;
        while at < range.end {
            // What is written may change the sources of what follows.
            let Some((part, source)) = held.sources.lock().parts(at..range.end).next() else { break };
            let to = offset + (part.start - range.start)..offset + (part.end - range.start);
            self.change(&mut state, to, source.unwrap_or(Source::Hole))?;
            at = part.end;
        }
        Ok(())
    }

    /// Makes destroyed sectors of a range.
    pub(super) fn destroy(&self, range: Range<u64>) -> io::Result<()> {
        self.change(&mut self.state.lock(), range, Source::Destroyed)
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
        self.change(&mut self.state.lock(), whole_blocks(&range), Source::Hole)
    }

    /// Makes of a range what `source` is.
    fn change(&self, state: &mut StoreState, range: Range<u64>, mut source: Source) -> io::Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        match source {
            Source::Hole if state.is_hole(range.clone()) => return Ok(()),
            Source::Hole => state.free(range.clone()),
            _ => state.allocate(range.clone()),
        }
        if let Some(journal) = &mut state.journal {
            journal.add_from(range, source)?;
            return self.empty_if_full(state);
        }
        if let Source::Image(from) = source {
            let length = range.end - range.start;
            if from == range.start {
                return Ok(());
            }
            if from.abs_diff(range.start) < length {
                let mut bytes = vec![0; length as usize];
                self.file.read(from, &mut bytes)?;
                source = Source::Memory(Arc::new(bytes), 0);
            }
        }
        state.keep(self.file.as_ref(), &range)?;
        self.carry_out(None, range, &source)
    }

    /// Makes a change in the image.
    fn carry_out(&self, journal: Option<&Journal>, range: Range<u64>, source: &Source) -> io::Result<()> {
        let chunks = |bytes: u64| {
            let end = range.end;
            range.clone().step_by(bytes as usize).map(move |at| (at, (end - at).min(bytes) as usize))
        };
        match source {
            Source::Image(from) => self.file.copy(*from, range),
            Source::Hole => self.file.punch(range),
            Source::Memory(bytes, at) => {
                self.file.write(range.start, &bytes[*at..*at + (range.end - range.start) as usize])
            }
            Source::Destroyed => {
                chunks(DESTROYED.len() as u64).try_for_each(|(at, n)| self.file.write(at, &DESTROYED[..n]))
            }
            Source::Journal(from) => {
                let mut buffer = vec![0; (range.end - range.start).min(COPY_BYTES) as usize];
                chunks(COPY_BYTES).try_for_each(|(at, n)| {
                    let bytes = &mut buffer[..n];
                    journal.map_or(Ok(()), |journal| journal.read(from + (at - range.start), bytes))?;
                    self.file.write(at, bytes)
                })
            }
        }
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

    fn empty_if_full(&self, state: &mut StoreState) -> io::Result<()> {
        if state.journal.as_ref().is_some_and(Journal::is_full) { self.empty(state) } else { Ok(()) }
    }

    /// Moves what the journal holds to the image.
    fn empty(&self, state: &mut StoreState) -> io::Result<()> {
        let StoreState { journal: Some(journal), holds, .. } = state else { return Ok(()) };
        if journal.parts().is_empty() {
            return journal.restart();
        }
        self.copy_out(journal)?;
        journal.sync()?;
        for hold in holds.iter().filter_map(Weak::upgrade) {
            hold.keep_journal(journal)?;
        }
        for (range, source) in journal.parts().iter() {
            keep(holds, self.file.as_ref(), &range)?;
            self.carry_out(Some(journal), range, source)?;
        }
        self.file.sync()?;
        journal.restart()
    }

    /// Copies to the journal what of the image is wanted elsewhere and changes itself. Then the changes may be made in any order, and
    /// again after a crash.
    fn copy_out(&self, journal: &mut Journal) -> io::Result<()> {
        let mut changing = Vec::new();
        for (to, source) in journal.parts().iter() {
            if let &Source::Image(from) = source {
                let parts = journal.parts().within(from..from + (to.end - to.start));
                changing.extend(parts.map(|(part, _)| (to.start + (part.start - from), part)));
            }
        }
        for (to, part) in changing {
            for at in part.clone().step_by(COPY_BYTES as usize) {
                let mut bytes = vec![0; (part.end - at).min(COPY_BYTES) as usize];
                self.file.read(at, &mut bytes)?;
                journal.add(to + (at - part.start), &bytes)?;
            }
        }
        Ok(())
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

/// Lets all who hold them keep in memory the bytes `range` of the image, which are to change.
fn keep(holds: &[Weak<HeldRange>], file: &dyn Storage, range: &Range<u64>) -> io::Result<()> {
    holds.iter().filter_map(Weak::upgrade).try_for_each(|hold| hold.keep(file, range))
}

impl StoreState {
    /// Before the bytes `range` of the image change.
    fn keep(&mut self, file: &dyn Storage, range: &Range<u64>) -> io::Result<()> {
        self.is_dirty = true;
        keep(&self.holds, file, range)
    }

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

/// A bit for each part of the file that is no hole.
fn allocated(file: &dyn Storage) -> io::Result<Vec<u64>> {
    let mut state = StoreState { journal: None, allocated: Vec::new(), is_dirty: false, holds: Vec::new() };
    let mut at = 0;
    while let Some(range) = file.allocated_from(at)? {
        at = range.end;
        state.allocate(range);
    }
    Ok(state.allocated)
}
