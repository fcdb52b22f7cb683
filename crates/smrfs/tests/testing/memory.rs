//! Platters in memory, which lose what a power cut loses, and the power supply that a test cuts.
//!
//! Between flushes everything lies in a volatile write cache. When the power goes, a part of it has reached the platters:
//! none, all, the first writes, or any of them, and of each write any granules (on strict-append the first ones: a cursor
//! never passes a hole). A flush that is left to a journal's commit saves what was written before it only if a survivor's store has
//! a commit behind it. A recording keeps every operation, so that one run serves any number of cuts. Contents are pages of a
//! granule in shared chunks, so that a copy costs little.
//!
//! Device and metadata store in memory count every write, reset, flush, change and sync on one power supply's counter, so that
//! a cut at any point hits both. What of the unsynced survives is theirs to decide.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::{Mutex, MutexGuard};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrkit::tally::Cause;
use smrkit::units::Nanos;

use super::shingled::Destructible;
use crate::data::{Data, ReadBuffer};
use crate::device::{Bands, Platters, Shape};
use crate::error::{DeviceError, DeviceResult};
use crate::units::{Granule, HostJournal, Span};

/// Time of an access by the clock in memory: an assumption, so that time goes on at all.
const ACCESS_NS: u64 = 100_000;

/// Sparse bytes in memory behind a volatile write cache.
pub struct Memory {
    power: Arc<Power>,
    bands: Bands,
    granule_bytes: usize,
    recording: bool,
    state: Mutex<DiskState>,
}

struct DiskState {
    /// The disk as the host sees it.
    image: DiskImage,
    /// From each flush to the next; without a recording only the last.
    epochs: Vec<FlushEpoch>,
    /// True if the last write or reset is one on which `destroy` and `keep_cursor` follow.
    open: bool,
    failing: Option<u64>,
    /// True once a flush has failed: as Linux does, later ones say that all is well, and save nothing of what was written.
    has_forgotten: bool,
    now: u64,
}

/// Events from one flush on.
struct FlushEpoch {
    /// The number of the flush.
    flush: u64,
    /// True if it saved nothing by itself: the next commit of the store's journal does.
    is_by_commit: bool,
    /// The disk as it was durable then.
    durable: DiskImage,
    operations: Vec<Operation>,
}

impl Memory {
    /// Empty platters for a disk of that shape.
    pub fn new(shape: &Shape, power: Arc<Power>) -> Memory {
        Memory::holding(DiskImage::new(shape.bands.count), shape.bands, shape.granule_bytes as usize, power, false)
    }

    /// A disk that keeps every operation for [`Memory::survivor`].
    pub fn recording(shape: &Shape, power: Arc<Power>) -> Memory {
        Memory { recording: true, ..Memory::new(shape, power) }
    }

    fn holding(image: DiskImage, bands: Bands, granule_bytes: usize, power: Arc<Power>, recording: bool) -> Memory {
        let flush = power.operations();
        let durable = image.clone();
        let epochs = vec![FlushEpoch { flush, is_by_commit: false, durable, operations: Vec::new() }];
        let state = Mutex::new(DiskState { image, epochs, open: false, failing: None, has_forgotten: false, now: 0 });
        Memory { power, bands, granule_bytes, recording, state }
    }

    /// The platters as they are after the power has failed at operation number `cut` of its [`Power`]: that one may have
    /// been done in part. `power` is the new one; `recording` whether the survivor keeps its operations in turn. Without a
    /// recording the cut must lie behind the last flush. No journal has committed anything.
    pub fn survivor(&self, cut: u64, loss: WriteLoss, seed: u64, power: Arc<Power>, recording: bool) -> Memory {
        self.survivor_beside(cut, 0, loss, seed, power, recording)
    }

    /// As [`Memory::survivor`], beside a store whose last commit holds changes up to operation number `committed`.
    pub fn survivor_beside(
        &self,
        cut: u64,
        committed: u64,
        loss: WriteLoss,
        seed: u64,
        power: Arc<Power>,
        recording: bool,
    ) -> Memory {
        let state = self.state.lock();
        let is_done = |epoch: &FlushEpoch| epoch.flush < cut && (!epoch.is_by_commit || epoch.flush < committed);
        let last = state.epochs.iter().rposition(is_done).unwrap_or(0);
        let issued = state.epochs[last..].iter().flat_map(|epoch| &epoch.operations);
        let issued: Vec<&Operation> = issued.take_while(|operation| operation.number <= cut).collect();
        let mut image = state.epochs[last].durable.clone();
        apply(&mut image, &issued, &self.bands, loss, seed ^ cut.rotate_left(32), cut);
        Memory::holding(image, self.bands, self.granule_bytes, power, recording)
    }

    /// The bands' cursors, for `StrictAppend::new`.
    pub fn cursors(&self) -> Vec<Granule> {
        let state = self.state.lock();
        (0..).zip(state.image.filled()).map(|(band, filled)| self.bands.span(band).at + filled).collect()
    }

    /// The next write fails after `granules` of it.
    pub fn fail_next_write(&self, granules: u64) {
        self.state.lock().failing = Some(granules);
    }

    /// The pages of `data`.
    fn pages(&self, data: Data<'_>) -> Vec<GranuleContent> {
        match data {
            Data::Bytes(bytes) => {
                bytes.chunks(self.granule_bytes).map(|page| GranuleContent::Bytes(page.into())).collect()
            }
            Data::Blank(bytes) => vec![GranuleContent::Zeros; bytes as usize / self.granule_bytes],
        }
    }

    /// A write or a reset begins.
    fn begin(&self) -> DeviceResult<(MutexGuard<'_, DiskState>, bool, u64)> {
        let mut state = self.state.lock();
        state.open = false;
        self.operate(state)
    }

    /// An operation begins. The state to do it on, whether it is done, and its number; an error if nothing of it is.
    fn operate<'a>(
        &self,
        mut state: MutexGuard<'a, DiskState>,
    ) -> DeviceResult<(MutexGuard<'a, DiskState>, bool, u64)> {
        let was_on = self.power.is_on();
        let done = self.power.operation();
        state.now += ACCESS_NS;
        let number = self.power.operations();
        // The operation that the cut hits is under way when the power goes.
        if done || was_on { Ok((state, done, number)) } else { Err(DeviceError::PowerCut) }
    }
}

impl Platters for Memory {
    fn read(&self, at: Granule, mut room: ReadBuffer<'_>, _cause: Cause) -> DeviceResult {
        if !self.power.is_on() {
            return Err(DeviceError::PowerCut);
        }
        if self.power.breaks(Access::Read) {
            return Err(broken());
        }
        let mut state = self.state.lock();
        state.now += ACCESS_NS;
        let bytes = self.granule_bytes as u64;
        for i in 0..room.bytes() / bytes {
            let at = at + i;
            match (state.image.get(at.0), room.part(i * bytes, bytes)) {
                (GranuleContent::Damaged { by }, _) => return Err(DeviceError::Damaged { at, by: *by }),
                (GranuleContent::Bytes(page), ReadBuffer::Bytes(out)) => out.copy_from_slice(page),
                (_, mut out) => out.clear(),
            }
        }
        Ok(())
    }

    fn write(&self, at: Granule, data: Data<'_>, _cause: Cause) -> DeviceResult {
        let mut pages = self.pages(data);
        let (mut state, done, number) = self.begin()?;
        let breaks = done && self.power.breaks(Access::Change);
        let failing = if done { state.failing.take() } else { None }.or(breaks.then_some(pages.len() as u64 / 2));
        if let Some(granules) = failing {
            pages.truncate(granules as usize);
        }
        if done {
            state.image.put(at.0, &pages);
        }
        state.add(Operation { number, at: at.0, pages, destroyed: Vec::new(), cursor: None });
        match (done, failing) {
            (false, _) => Err(DeviceError::PowerCut),
            (true, Some(_)) => Err(broken()),
            (true, None) => Ok(()),
        }
    }

    /// Moves a band's cursor. A reset (nothing filled) is an operation of its own, which a power cut can hit; any other move
    /// belongs to the write before it.
    fn keep_cursor(&self, band: u64, cursor: Granule) -> DeviceResult {
        let filled = cursor - self.bands.span(band).at;
        if filled == 0 {
            let (mut state, done, number) = self.begin()?;
            if done && self.power.breaks(Access::Change) {
                return Err(broken());
            }
            let at = cursor.0;
            state.add(Operation { number, at, pages: Vec::new(), destroyed: Vec::new(), cursor: None });
            if !done {
                return Err(DeviceError::PowerCut);
            }
            drop(state);
        }
        let mut state = self.state.lock();
        if !state.open {
            return Err(DeviceError::PowerCut);
        }
        state.image.fill(band, filled);
        state.add_to_last(|operation| operation.cursor = Some((band, filled)), |durable| durable.fill(band, filled));
        Ok(())
    }

    fn flush_with(&self, journal: Option<HostJournal>) -> DeviceResult {
        let (mut state, done, flush) = self.operate(self.state.lock())?;
        if !done {
            return Err(DeviceError::PowerCut);
        }
        if self.power.breaks(Access::Flush) {
            state.has_forgotten = true;
            return Err(broken());
        }
        if state.has_forgotten {
            return Ok(());
        }
        let is_by_commit = journal.is_some();
        if !self.recording && !is_by_commit {
            state.epochs.clear();
        }
        let durable = state.image.clone();
        state.epochs.push(FlushEpoch { flush, is_by_commit, durable, operations: Vec::new() });
        Ok(())
    }

    fn now(&self) -> Nanos {
        Nanos(self.state.lock().now)
    }

    fn wait_until(&self, time: Nanos) {
        let mut state = self.state.lock();
        state.now = state.now.max(time.0);
    }
}

impl Destructible for Memory {
    fn destroy(&self, span: Span, by: Granule) -> DeviceResult {
        let mut state = self.state.lock();
        if !state.open {
            return Err(DeviceError::PowerCut);
        }
        state.image.destroy(span, by);
        state.add_to_last(|operation| operation.destroyed.push((span, by)), |durable| durable.destroy(span, by));
        Ok(())
    }
}

impl DiskState {
    fn add(&mut self, operation: Operation) {
        if let Some(epoch) = self.epochs.last_mut() {
            epoch.operations.push(operation);
            self.open = true;
        }
    }

    /// Completes the last write or reset. Where another thread has flushed it since, the durable disk has it too; a flush that was left to a
    /// commit may not have saved it, so both get it.
    fn add_to_last(&mut self, to_operation: impl FnOnce(&mut Operation), to_durable: impl Fn(&mut DiskImage)) {
        for epoch in self.epochs.iter_mut().rev() {
            if let Some(operation) = epoch.operations.last_mut() {
                return to_operation(operation);
            }
            to_durable(&mut epoch.durable);
            if !epoch.is_by_commit {
                return;
            }
        }
    }
}

const CHUNK: u64 = 32;

/// Content of a granule.
#[derive(Clone, Debug, Default)]
enum GranuleContent {
    /// Never written; reads as zeros.
    #[default]
    Empty,
    /// Data of no interest.
    Zeros,
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// Nothing any more.
    Damaged {
        /// The granule whose write destroyed it.
        by: Granule,
    },
}

/// The platters, and the bands' cursors.
#[derive(Clone)]
struct DiskImage {
    chunks: BTreeMap<u64, Arc<[GranuleContent; CHUNK as usize]>>,
    filled: Arc<Vec<u64>>,
}

impl DiskImage {
    fn new(bands: u64) -> DiskImage {
        DiskImage { chunks: BTreeMap::new(), filled: Arc::new(vec![0; bands as usize]) }
    }

    fn get(&self, at: u64) -> &GranuleContent {
        self.chunks.get(&(at / CHUNK)).map_or(&GranuleContent::Empty, |chunk| &chunk[(at % CHUNK) as usize])
    }

    fn put(&mut self, at: u64, pages: &[GranuleContent]) {
        for (at, page) in (at..).zip(pages) {
            *self.slot(at) = page.clone();
        }
    }

    /// Damages what there is in `span`.
    fn destroy(&mut self, span: Span, by: Granule) {
        for at in span.at.0..span.end().0 {
            if !matches!(self.get(at), GranuleContent::Empty) {
                *self.slot(at) = GranuleContent::Damaged { by };
            }
        }
    }

    /// Granules written, by band.
    fn filled(&self) -> impl Iterator<Item = u64> + '_ {
        self.filled.iter().copied()
    }

    fn fill(&mut self, band: u64, filled: u64) {
        Arc::make_mut(&mut self.filled)[band as usize] = filled;
    }

    fn slot(&mut self, at: u64) -> &mut GranuleContent {
        let chunk = self.chunks.entry(at / CHUNK).or_default();
        &mut Arc::make_mut(chunk)[(at % CHUNK) as usize]
    }
}

/// Rule for what a power cut leaves of writes that were not flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteLoss {
    /// Nothing.
    All,
    /// Everything; some of the write under way.
    None,
    /// The first writes, and some of the next.
    Tail,
    /// Any of them, and of each any granules.
    Any,
}

impl WriteLoss {
    /// All four.
    pub const ALL: [WriteLoss; 4] = [WriteLoss::All, WriteLoss::None, WriteLoss::Tail, WriteLoss::Any];
}

/// A write or a reset, and what it brought about.
struct Operation {
    number: u64,
    at: u64,
    pages: Vec<GranuleContent>,
    destroyed: Vec<(Span, Granule)>,
    /// Strict-append: the band and how far it is filled then.
    cursor: Option<(u64, u64)>,
}

/// Part of an operation that survives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Whole,
    Torn,
    Lost,
}

/// Does on `image` what survives of `operations`; number `cut` was under way.
fn apply(image: &mut DiskImage, operations: &[&Operation], bands: &Bands, loss: WriteLoss, seed: u64, cut: u64) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let tail = random.random_range(0..=operations.len());
    // Bands of which something is lost: their cursor stays there.
    let mut ended = Vec::new();
    for (i, operation) in operations.iter().enumerate() {
        let fate = match loss {
            WriteLoss::All => Fate::Lost,
            WriteLoss::None => Fate::Whole,
            WriteLoss::Tail if i < tail => Fate::Whole,
            WriteLoss::Tail if i == tail => Fate::Torn,
            WriteLoss::Tail => Fate::Lost,
            WriteLoss::Any => [Fate::Whole, Fate::Torn, Fate::Lost][random.random_range(0..3)],
        };
        let fate = if operation.number == cut && fate == Fate::Whole { Fate::Torn } else { fate };
        match bands.band_at(Granule(operation.at)) {
            None => anywhere(image, operation, fate, &mut random),
            Some(band) if ended.contains(&band) => {}
            Some(band) => {
                append(image, operation, fate, bands.span(band).at.0, band, &mut random);
                if fate != Fate::Whole {
                    ended.push(band);
                }
            }
        }
    }
}

fn anywhere(image: &mut DiskImage, operation: &Operation, fate: Fate, random: &mut Pcg64Mcg) {
    match fate {
        Fate::Lost => return,
        Fate::Whole => image.put(operation.at, &operation.pages),
        Fate::Torn => {
            for (at, page) in (operation.at..).zip(&operation.pages) {
                if random.random() {
                    image.put(at, std::slice::from_ref(page));
                }
            }
        }
    }
    for &(span, by) in &operation.destroyed {
        image.destroy(span, by);
    }
}

fn append(image: &mut DiskImage, operation: &Operation, fate: Fate, start: u64, band: u64, random: &mut Pcg64Mcg) {
    let pages = operation.pages.len();
    let survive = match fate {
        Fate::Lost => return,
        Fate::Whole => pages,
        Fate::Torn => random.random_range(0..=pages),
    };
    image.put(operation.at, &operation.pages[..survive]);
    match operation.cursor {
        Some((band, filled)) if survive == pages => image.fill(band, filled),
        // A reset under way may have been done; so may the part of a write.
        _ if pages == 0 && random.random() => image.fill(band, 0),
        _ if pages > 0 => image.fill(band, operation.at - start + survive as u64),
        _ => {}
    }
}

fn broken() -> DeviceError {
    DeviceError::Io(io::Error::other("an access that was to fail"))
}

/// Kind of an access that fails with an I/O error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Of the disk alone.
    Read,
    /// A write or a reset, or a change of the store.
    Change,
    /// A flush of the disk, or a sync of the store.
    Flush,
}

/// A power supply and the operations done on it.
#[derive(Debug, Default)]
pub struct Power {
    operations: AtomicU64,
    /// The number of the first operation that finds the power off; 0: it never fails.
    cut: AtomicU64,
    /// The first access of that kind from that operation on fails, whatever else the power does.
    fault: Option<(Access, u64)>,
    is_broken: AtomicBool,
}

impl Power {
    /// One that never fails.
    pub fn new() -> Power {
        Power::default()
    }

    /// One that fails at operation number `operation`, counted from 1: that one and all later ones are not done.
    pub fn failing_at(operation: u64) -> Power {
        Power { cut: AtomicU64::new(operation), ..Power::default() }
    }

    /// One that never fails, on which the first access of that kind from operation number `from` on ends in an I/O error.
    pub fn with_fault(access: Access, from: u64) -> Power {
        Power { fault: Some((access, from)), ..Power::default() }
    }

    /// True if this access is the one that ends in an I/O error.
    pub fn breaks(&self, access: Access) -> bool {
        let is_due = self.fault.is_some_and(|(kind, from)| kind == access && self.operations() >= from);
        is_due && !self.is_broken.swap(true, SeqCst)
    }

    /// True if an access has ended in an I/O error.
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(SeqCst)
    }

    /// An operation begins; `false`: the power is off, nothing may be done.
    pub fn operation(&self) -> bool {
        let number = self.operations.fetch_add(1, SeqCst) + 1;
        let cut = self.cut.load(SeqCst);
        cut == 0 || number < cut
    }

    /// True if the power is on.
    pub fn is_on(&self) -> bool {
        let cut = self.cut.load(SeqCst);
        cut == 0 || self.operations.load(SeqCst) < cut
    }

    /// Operations begun so far, including the one that the cut hit.
    pub fn operations(&self) -> u64 {
        self.operations.load(SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_the_cut_on_nothing_is_done() {
        let power = Power::failing_at(3);
        assert!(power.operation() && power.operation() && power.is_on());
        assert!(!power.operation() && !power.operation() && !power.is_on());
        assert_eq!(power.operations(), 4);
    }
}
