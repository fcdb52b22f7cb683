//! The allocator: the space map of a volume, the extents that files share, and the room that is promised to writers.
//!
//! The space stays locked from the choice of a place to the end of the write, so that writes happen in the order of their places. Room is
//! promised when data is accepted, so that the disk never turns out to be full later. Overwritten data needs no more room in the long run,
//! because the commit frees the old place.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use parking_lot::{Mutex, RwLock};
use smrkit::tally::Cause;

use super::file::{Buffer, FileState};
use super::shared::Shared;
use crate::data::Data;
use crate::device::HostManaged;
use crate::error::{DeviceError, DeviceResult, Errno, FsResult};
use crate::map::{FileMap, FilePiece, Ranges};
use crate::space::{AllocationRequest, CleaningStep, Space, Trigger};
use crate::units::{Granule, NodeId, Owner, Span};

/// The space of the disk, and the promises of it.
pub(super) struct Allocator {
    device: Arc<dyn HostManaged>,
    pub space: Mutex<Box<dyn Space>>,
    /// Locked after the space.
    pub shared: RwLock<Shared>,
    /// Locked last.
    pub rooms: Mutex<Rooms>,
    /// Counts events that may have made room.
    freed: AtomicU64,
    /// Counts blocks that were written.
    placed: AtomicU64,
    /// Blocks that are being written, whose old places are not retired yet.
    placing: AtomicU64,
    /// Spans that have become free since a backup of the disk began, and stay unchanged until it is done. Locked after the space.
    kept_for_backup: Mutex<Option<Vec<Span>>>,
}

/// A snapshot of the progress of writers and the cleaner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    /// Number of events so far that may have made room.
    pub freed: u64,
    /// Blocks written so far. After a write of another thread, there may be a place that fits.
    placed: u64,
}

/// A block that is being written, until the places that it replaces are retired.
pub(super) struct Placing<'a>(&'a Allocator);

impl Drop for Placing<'_> {
    fn drop(&mut self) {
        self.0.placing.fetch_sub(1, Release);
    }
}

impl Allocator {
    pub(super) fn new(device: Arc<dyn HostManaged>, space: Box<dyn Space>, shared: Shared, rooms: Rooms) -> Allocator {
        Allocator {
            device,
            space: Mutex::new(space),
            shared: RwLock::new(shared),
            rooms: Mutex::new(rooms),
            freed: AtomicU64::new(0),
            placed: AtomicU64::new(0),
            placing: AtomicU64::new(0),
            kept_for_backup: Mutex::default(),
        }
    }

    /// Returns the first of `places` that does not belong to the owner given with it.
    pub(super) fn first_foreign(&self, mut places: impl Iterator<Item = (Span, Owner)>) -> Option<Span> {
        let (space, shared) = (self.space.lock(), self.shared.read());
        let holds = |span: Span, owner: Owner| {
            shared.parts(span).into_iter().all(|part| {
                let whose = owner.further(part.span.at - span.at);
                part.owners.contains(&whose) || part.owners.is_empty() && space.live().holds(part.span, whose)
            })
        };
        places.find(|&(span, owner)| !holds(span, owner)).map(|(span, _)| span)
    }

    /// Room that `ranges` of a file use. A shared extent does not count as the file's: overwriting it needs room, as filling a hole does.
    pub(super) fn uses(&self, state: &FileState, ranges: &[Range<u64>]) -> Use {
        let shared = self.shared.read();
        let mut uses = Use::default();
        for piece in ranges.iter().flat_map(|range| state.map.lookup(range.clone())) {
            let Some(span) = piece.span() else {
                uses.unplaced += state.promises.unplaced_in(piece.first..piece.end(), &state.buffer);
                continue;
            };
            uses.mapped += piece.count;
            for part in shared.within(span) {
                let first = piece.first + (part.at - span.at);
                uses.mapped -= part.count;
                uses.unplaced += state.promises.unplaced_in(first..first + part.count, &state.buffer);
            }
        }
        uses
    }

    /// The pieces, or parts of them, that are not shared.
    pub(super) fn unshared(&self, pieces: Vec<FilePiece>) -> Vec<FilePiece> {
        let shared = self.shared.read();
        let unshared = |piece: FilePiece| {
            let parts = piece.span().map_or(Vec::new(), |span| shared.unshared(span));
            parts.into_iter().map(move |part| part_of(piece, part))
        };
        pieces.into_iter().flat_map(unshared).collect()
    }

    /// The pieces, or parts of them, that need room before they can be written: holes and shared extents.
    pub(super) fn without_room(&self, pieces: impl Iterator<Item = FilePiece>) -> Vec<FilePiece> {
        let shared = self.shared.read();
        let mut found = Vec::new();
        for piece in pieces {
            match piece.span() {
                Some(span) => found.extend(shared.within(span).map(|part| part_of(piece, part))),
                None => found.push(piece),
            }
        }
        found
    }

    /// Adds `owner` to the owners of `span`, which has another owner.
    pub(super) fn share(&self, span: Span, owner: Owner) {
        let space = self.space.lock();
        self.shared.write().add(span, owner, space.live());
    }

    /// Adds `owner` to the owners of the copy at `span` of shared data, except for dead parts. Returns the parts that had no owner yet, and
    /// those that other owners have.
    pub(super) fn add_copy_owner(&self, span: Span, owner: Owner) -> (Vec<Span>, Vec<Span>) {
        let mut space = self.space.lock();
        let (first, others) = self.shared.write().add_copy(span, owner);
        // The space knows one owner of each extent: of a copy, the first that took it.
        first.iter().for_each(|part| space.hand_over(*part, owner.further(part.at - span.at)));
        (first, others)
    }

    /// Ends the move of shared data to a copy at `span`, and frees parts of the copy that no owner took. `named` granules of the copy have
    /// owners now, and `unnamed` granules of the original have none any more.
    pub(super) fn end_copy(&self, span: Span, named: u64, unnamed: u64) {
        let mut space = self.space.lock();
        self.shared.read().unshared(span).into_iter().for_each(|part| space.retire(part));
        self.rooms.lock().recount(named, unnamed);
        drop(space);
        self.release(vec![span]);
    }

    /// Ends the sharing of the parts of pieces that no other file has any more, and returns them.
    pub(super) fn reclaim(&self, file: NodeId, pieces: impl Iterator<Item = FilePiece>) -> Vec<FilePiece> {
        let mut shared = self.shared.write();
        let mut reclaim = |piece: FilePiece| {
            let owner = Owner { file, granule: piece.first };
            let parts = piece.span().map_or(Vec::new(), |span| shared.reclaim(span, owner));
            parts.into_iter().map(move |part| part_of(piece, part))
        };
        let reclaimed: Vec<FilePiece> = pieces.flat_map(&mut reclaim).collect();
        // Shared granules count once, but not in the use of any file. From now on the caller counts these in the use of its file.
        self.rooms.lock().recount(0, reclaimed.iter().map(|piece| piece.count).sum());
        reclaimed
    }

    /// Finds a place and writes the beginning of `data` there; after a failed write, once more elsewhere. Returns where each part of `runs`,
    /// which share the place, was written; `None` if there is no room.
    pub(super) fn write(
        &self,
        want: &AllocationRequest,
        runs: &[Range<u64>],
        data: Data<'_>,
        cause: Cause,
    ) -> FsResult<Option<Vec<(Span, Owner)>>> {
        let mut failure = None;
        for _ in 0..2 {
            // Locked until the data is written, because a strict-append band takes writes only in the order of their places.
            let mut space = self.space.lock();
            let Some(span) = space.place(want) else { return Ok(None) };
            let data = data.part(0, span.count * self.device.shape().granule_bytes);
            match self.device.write(span.at, data, cause) {
                Ok(()) => {
                    let pieces = pieces(span, want.owner, runs);
                    space.written_in_pieces(&pieces);
                    self.placed.fetch_add(1, Relaxed);
                    return Ok(Some(pieces));
                }
                Err(error) => {
                    // The state of the span and its neighbours is unknown, so the span counts as written, and is not tried again.
                    space.failed(span);
                    failure = Some(error);
                }
            }
        }
        failure.map_or(Ok(None), |error| Err(error.into()))
    }

    /// Retires pieces that a file's map in memory no longer names. Returns how many granules were shared and have no owner now; the caller
    /// subtracts them from the use.
    pub(super) fn retire_uncounted(&self, file: NodeId, pieces: &[FilePiece]) -> u64 {
        let mut space = self.space.lock();
        let mut shared = self.shared.write();
        let mut dead = 0;
        for piece in pieces {
            let Some(span) = piece.span() else { continue };
            let given_up = shared.retire(span, Owner { file, granule: piece.first });
            given_up.still_owned.into_iter().for_each(|(part, owner)| space.hand_over(part, owner));
            dead += given_up.dead.iter().map(|part| part.count).sum::<u64>();
            given_up.unshared.into_iter().chain(given_up.dead).for_each(|part| space.retire(part));
        }
        dead
    }

    /// Retires pieces that a file's map in memory no longer names.
    pub(super) fn retire(&self, file: NodeId, pieces: &[FilePiece]) {
        let dead = self.retire_uncounted(file, pieces);
        self.rooms.lock().recount(0, dead);
        self.note_progress();
    }

    /// Frees spans that no durable map names any more.
    pub(super) fn release(&self, spans: Vec<Span>) {
        if spans.is_empty() {
            return;
        }
        let mut space = self.space.lock();
        // A span that was shared is freed by its last release only.
        let mut shared = self.shared.write();
        let mut spans: Vec<Span> = spans.into_iter().flat_map(|span| shared.release(span)).collect();
        drop(shared);
        match &mut *self.kept_for_backup.lock() {
            Some(kept) => kept.append(&mut spans),
            None => self.free(&mut **space, spans),
        }
    }

    fn free(&self, space: &mut dyn Space, mut spans: Vec<Span>) {
        // Neighbours are joined, so that adjacent data is freed at once.
        spans.sort_unstable_by_key(|span| span.at);
        spans.dedup_by(|span, before| {
            let touches = before.end() == span.at;
            before.count += if touches { span.count } else { 0 };
            touches
        });
        for span in spans {
            // In this order and under the lock, because a later discard might hit data that the next writer has just put there.
            self.device.discard(span);
            space.release(span);
        }
        self.note_progress();
    }

    /// Keeps spans that become free from now on unchanged, for a backup; returns `false` if another backup has begun this already.
    pub(super) fn keep(&self) -> bool {
        self.kept_for_backup.lock().replace(Vec::new()).is_none()
    }

    /// True while freed spans are kept.
    pub(super) fn keeps(&self) -> bool {
        self.kept_for_backup.lock().is_some()
    }

    /// Frees the kept spans; returns `false` if nothing was kept.
    pub(super) fn let_go(&self) -> bool {
        let mut space = self.space.lock();
        let kept = self.kept_for_backup.lock().take();
        kept.map(|spans| self.free(&mut **space, spans)).is_some()
    }

    /// Notes that no one writes to a file any more, so that space reserved for it is for all.
    pub(super) fn closed(&self, file: NodeId) {
        self.space.lock().closed(file);
        self.note_progress();
    }

    pub(super) fn mark_unmovable(&self, span: Span) {
        self.space.lock().mark_unmovable(span);
    }

    /// Marks live data in `span` that is not shared as unmovable.
    pub(super) fn mark_unshared_unmovable(&self, span: Span) {
        let (mut space, shared) = (self.space.lock(), self.shared.read());
        shared.unshared(span).into_iter().for_each(|part| space.mark_unmovable(part));
    }

    /// Marks the live data of a file that is not shared as unmovable.
    pub(super) fn mark_file_unmovable(&self, id: NodeId) {
        let (mut space, shared) = (self.space.lock(), self.shared.read());
        let all = space.live().from(Granule(0)).filter(|(_, owner)| owner.file == id);
        let all: Vec<Span> = all.flat_map(|(span, _)| shared.unshared(span)).collect();
        all.into_iter().for_each(|span| space.mark_unmovable(span));
    }

    /// True if cleaning is due while the host writes.
    pub(super) fn wants_cleaning(&self) -> bool {
        // Moving data frees nothing while its old place is kept.
        !self.keeps() && self.space.lock().wants_cleaning(false).is_some()
    }

    /// The next step of the cleaning that is due.
    pub(super) fn next_step(&self, idle: bool) -> Option<CleaningStep> {
        let mut space = self.space.lock();
        let why = space.wants_cleaning(idle).filter(|_| !self.keeps())?;
        space.clean(why)
    }

    /// The next step for a write that finds no room.
    pub(super) fn next_step_when_stuck(&self) -> Option<CleaningStep> {
        let mut space = self.space.lock();
        if self.keeps() { None } else { space.clean(Trigger::Stuck) }
    }

    /// Resets a band; returns `false` if the disk refuses, which is no error for the write that waits for room.
    pub(super) fn reset(&self, band: u64) -> DeviceResult<bool> {
        let mut space = self.space.lock();
        match self.device.reset(band) {
            Ok(()) => space.was_reset(band),
            Err(DeviceError::PowerCut) => return Err(DeviceError::PowerCut),
            Err(_) => {
                space.reset_failed(band);
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn progress(&self) -> Progress {
        Progress { freed: self.freed.load(Relaxed), placed: self.placed.load(Relaxed) }
    }

    /// Notes that a block is about to be written.
    pub(super) fn placing(&self) -> Placing<'_> {
        self.placing.fetch_add(1, Relaxed);
        Placing(self)
    }

    /// True if there was no progress since `seen`, and none is about to be made.
    pub(super) fn is_stuck_since(&self, seen: Progress) -> bool {
        // Read in this order, so that a write that ends between the two reads shows in the progress.
        self.placing.load(Acquire) == 0 && self.progress() == seen
    }

    /// Notes that there may be room now.
    pub(super) fn note_progress(&self) {
        self.freed.fetch_add(1, Relaxed);
    }
}

/// Divides `span` among `runs` of a file, of which the first begins at the owner `first`.
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

/// The part of a piece at the place `part`.
fn part_of(piece: FilePiece, part: Span) -> FilePiece {
    let skipped = piece.at.map_or(0, |at| part.at - at);
    FilePiece { first: piece.first + skipped, count: part.count, at: Some(part.at) }
}

/// Granules in use and promised, over all files.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rooms {
    /// Room that files can fill in all.
    pub usable: u64,
    /// Granules in the maps in memory. Shared ones count once.
    pub mapped: u64,
    /// Granules promised to buffered data, by fallocate, and to writes under way.
    pub promised: u64,
}

impl Rooms {
    /// Room that can still be promised. After a crash, files may have more than all that is usable.
    pub(super) fn free(&self) -> u64 {
        self.usable.saturating_sub(self.mapped.saturating_add(self.promised))
    }

    /// True if there is room for all that was promised.
    pub(super) fn is_enough(&self) -> bool {
        self.mapped.saturating_add(self.promised) <= self.usable
    }

    /// Promises `granules`, all or none.
    pub(super) fn promise(&mut self, granules: u64) -> FsResult {
        if granules > 0 && granules > self.free() {
            return Err(Errno::ENOSPC.into());
        }
        self.promised += granules;
        Ok(())
    }

    pub(super) fn take_back(&mut self, granules: u64) {
        debug_assert!(granules <= self.promised, "{granules} taken back of {} promised", self.promised);
        self.promised = self.promised.saturating_sub(granules);
    }

    /// Counts `more` granules of shared extents that some map names now, and `less` that none names any more.
    pub(super) fn recount(&mut self, more: u64, less: u64) {
        self.mapped = (self.mapped + more).saturating_sub(less);
    }

    /// Replaces the use `before` by `after`.
    pub(super) fn change(&mut self, before: Use, after: Use) {
        self.mapped = (self.mapped + after.mapped).saturating_sub(before.mapped);
        self.promised = (self.promised + after.unplaced).saturating_sub(before.unplaced);
    }
}

/// Room that a range of a file needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Use {
    /// Granules with a place on the disk.
    pub mapped: u64,
    /// Granules without a place, which are promised one.
    pub unplaced: u64,
}

/// Granules of one file to which fallocate promised a place, and how many granules wait for a place.
#[derive(Default)]
pub(super) struct Promises {
    /// Granules that fallocate promised.
    pub ranges: Ranges,
    /// Granules without a place, promised by fallocate or buffered.
    pub unplaced: u64,
}

impl Promises {
    /// The promises of a record, which holds only their number. They are assumed to be for the first `shared` granules, and then for the
    /// first holes of the map.
    pub(super) fn of_record(granules: u64, shared: &[FilePiece], map: &FileMap) -> Promises {
        let mut promises = Promises { unplaced: granules, ..Promises::default() };
        let (mut left, mut at) = (granules, 0);
        for piece in shared {
            let count = piece.count.min(left);
            promises.ranges.cover(piece.first..piece.first + count, ());
            left -= count;
        }
        while left > 0 {
            let hole = map.next_hole(at);
            let end = map.next_data(hole).unwrap_or(u64::MAX).min(hole + left);
            promises.ranges.cover(hole..end, ());
            left -= end - hole;
            at = end;
        }
        promises
    }

    /// Granules of `range`, which is a hole or shared, that are promised or buffered. A buffered granule that was promised counts once.
    fn unplaced_in(&self, range: Range<u64>, buffer: &Buffer) -> u64 {
        let buffered = buffer.within(range.clone()).filter(|&granule| !self.ranges.contains(granule));
        self.ranges.count_within(range) + buffered.count() as u64
    }
}
