//! The allocator: the space map of a volume, and the room that is promised to writers.
//!
//! The space stays locked from the placing to the end of the write, so that the order of writes is the order of placing.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;

use super::room::{Rooms, Use};
use crate::error::{DeviceError, DeviceResult, FsResult};
use crate::space::{AllocationRequest, CleaningStep, Counts, Space, Trigger};
use crate::units::{Granule, NodeId, Owner, Span};

/// The space of the disk, and the promises of it.
pub(super) struct Allocator {
    space: Mutex<Box<dyn Space>>,
    rooms: Mutex<Rooms>,
    /// Counts what may have made room.
    progress: AtomicU64,
}

impl Allocator {
    pub(super) fn new(space: Box<dyn Space>, rooms: Rooms) -> Allocator {
        Allocator { space: Mutex::new(space), rooms: Mutex::new(rooms), progress: AtomicU64::new(0) }
    }

    pub(super) fn rooms(&self) -> Rooms {
        *self.rooms.lock()
    }

    pub(super) fn counts(&self) -> Counts {
        self.space.lock().counts()
    }

    pub(super) fn live(&self) -> Vec<(Span, Owner)> {
        self.space.lock().live().from(Granule(0)).collect()
    }

    /// The first of these places that its owner does not have.
    pub(super) fn first_foreign(&self, mut places: impl Iterator<Item = (Span, Owner)>) -> Option<Span> {
        let space = self.space.lock();
        places.find(|&(span, owner)| !space.live().holds(span, owner)).map(|(span, _)| span)
    }

    /// Promises `granules`, all or none.
    pub(super) fn promise(&self, granules: u64) -> FsResult {
        self.rooms.lock().promise(granules)
    }

    /// Takes a promise back.
    pub(super) fn take_back(&self, granules: u64) {
        self.rooms.lock().take_back(granules);
    }

    /// Something that used `before` uses `after` now, and `promised` before to a call under way.
    pub(super) fn change(&self, before: Use, after: Use, promised: u64) {
        let mut rooms = self.rooms.lock();
        rooms.change(before, after);
        rooms.take_back(promised);
    }

    /// Finds a place, has `write` write there, and after a failed write once more, elsewhere. Tells what of `runs`, which
    /// share the place, lies where; none if there is no room.
    pub(super) fn write(
        &self,
        want: &AllocationRequest,
        runs: &[Range<u64>],
        mut write: impl FnMut(Span) -> DeviceResult,
    ) -> FsResult<Option<Vec<(Span, Owner)>>> {
        let mut failure = None;
        for _ in 0..2 {
            let mut space = self.space.lock();
            let Some(span) = space.place(want) else { return Ok(None) };
            match write(span) {
                Ok(()) => {
                    let pieces = pieces(span, want.owner, runs);
                    space.written_in_pieces(&pieces);
                    return Ok(Some(pieces));
                }
                Err(error) => {
                    space.failed(span);
                    failure = Some(error);
                }
            }
        }
        failure.map_or(Ok(None), |error| Err(error.into()))
    }

    /// No map in memory names these any more.
    pub(super) fn retire(&self, spans: &[Span]) {
        let mut space = self.space.lock();
        spans.iter().for_each(|&span| space.retire(span));
    }

    /// No durable map names these any more. `discarded` sees each before it can be written again.
    pub(super) fn release(&self, mut spans: Vec<Span>, discarded: impl Fn(Span)) {
        if spans.is_empty() {
            return;
        }
        join_neighbours(&mut spans);
        let mut space = self.space.lock();
        for span in spans {
            discarded(span);
            space.release(span);
        }
        self.progressed();
    }

    /// Nobody writes to that file any more.
    pub(super) fn closed(&self, file: NodeId) {
        self.space.lock().closed(file);
    }

    /// Live data in it stays where it is.
    pub(super) fn leave(&self, span: Span) {
        self.space.lock().unmovable(span);
    }

    /// Whatever is live of a file stays where it is.
    pub(super) fn leave_file(&self, id: NodeId) {
        let mut space = self.space.lock();
        let all = space.live().from(Granule(0)).filter(|(_, owner)| owner.file == id);
        let all: Vec<Span> = all.map(|(span, _)| span).collect();
        all.into_iter().for_each(|span| space.unmovable(span));
    }

    /// True where cleaning is due next to the host's writes.
    pub(super) fn wants_cleaning(&self) -> bool {
        self.space.lock().wants_cleaning(false).is_some()
    }

    /// The next step of the cleaning that is due.
    pub(super) fn next_step(&self, idle: bool) -> Option<CleaningStep> {
        let mut space = self.space.lock();
        let why = space.wants_cleaning(idle)?;
        space.clean(why)
    }

    /// The next step where a write finds no room.
    pub(super) fn next_step_when_stuck(&self) -> Option<CleaningStep> {
        self.space.lock().clean(Trigger::Stuck)
    }

    /// Has `reset` reset a band; `false` if the disk did not do it, which is no failure of whoever waits for room.
    pub(super) fn reset(&self, band: u64, reset: impl FnOnce() -> DeviceResult) -> DeviceResult<bool> {
        let mut space = self.space.lock();
        match reset() {
            Ok(()) => space.was_reset(band),
            Err(DeviceError::PowerCut) => return Err(DeviceError::PowerCut),
            Err(_) => {
                space.reset_failed(band);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Number of times that room may have been made so far.
    pub(super) fn progress(&self) -> u64 {
        self.progress.load(Relaxed)
    }

    /// There may be room now where there was none.
    pub(super) fn progressed(&self) {
        self.progress.fetch_add(1, Relaxed);
    }

    /// Compares what is kept step by step with a recount.
    pub(super) fn check(&self) -> Result<(), String> {
        let space = self.space.lock();
        space.check()?;
        let (live, mapped) = (space.live().granules(), self.rooms().mapped);
        if live != mapped {
            return Err(format!("{live} granules are live, and the maps have {mapped}"));
        }
        Ok(())
    }
}

/// Pieces of `span`, one for each of the file's runs that share it, beginning with that of `first`.
fn pieces(span: Span, first: Owner, runs: &[Range<u64>]) -> Vec<(Span, Owner)> {
    let (mut at, mut pieces) = (span.at, Vec::new());
    for run in runs {
        let count = (run.end - run.start).min(span.end() - at);
        if count == 0 {
            break;
        }
        pieces.push((Span { at, count }, Owner { granule: run.start, ..first }));
        at = at + count;
    }
    pieces
}

/// Sorts spans that do not overlap, and makes one of those that touch: what was written side by side is freed at once.
fn join_neighbours(spans: &mut Vec<Span>) {
    spans.sort_unstable_by_key(|span| span.at);
    spans.dedup_by(|span, before| {
        let touch = before.end() == span.at;
        before.count += if touch { span.count } else { 0 };
        touch
    });
}
