//! Executes the steps of cleaning that the space asks for, in the background, between writes, or while a write waits; and joins pieces of
//! files.
//!
//! One thread cleans at a time. No thread waits for it while holding a lock on a file. Joining is for files that are written at random and
//! read in order later; the paper leaves it open (Kadekodi et al. 2015). It joins one window of a file at a time, if that leaves fewer extents.

use std::ops::Range;
use std::slice::from_ref;
use std::sync::Arc;

use smrkit::tally::Cause;

use super::FileSystem;
use super::allocator::Progress;
use super::disk::is_damage;
use super::file::{File, FileState};
use super::place::{Content, DataStore, WriteBatch};
use super::shared::SharedPart;
use super::statistics::CleaningWork;
use crate::error::{Errno, FsResult};
use crate::map::FilePiece;
use crate::space::CleaningStep;
use crate::units::{Owner, Span};

/// Attempts in a row that find nothing to clean before a write fails for lack of space (assumption).
const RETRIES_MAX: u32 = 3;

/// An owner of a shared extent, and its file.
type OwnerFile = (Arc<File>, Owner);

impl FileSystem {
    /// Makes room for a write that found none when the progress was `seen`; ENOSPC if nothing helps.
    pub(super) fn make_room(&self, seen: Progress, work: &mut CleaningWork) -> FsResult {
        let begin = self.data.disk.device.now();
        let cleaner = self.cleaning.lock();
        let result = if self.data.allocator.progress().freed == seen.freed { self.unstick(seen, work) } else { Ok(()) };
        drop(cleaner);
        work.stalled = true;
        work.waited_ns += (self.data.disk.device.now() - begin).0;
        result
    }

    /// Does one step of cleaning for a write that has no room, or settles if no step would help. Errors: ENOSPC if nothing helps.
    fn unstick(&self, seen: Progress, work: &mut CleaningWork) -> FsResult {
        // More steps than there are granules mean that the space promised room that it does not have.
        if work.steps > self.data.disk.device.shape().granules + 4096 {
            return Err(Errno::ENOSPC.into());
        }
        match self.data.allocator.next_step_when_stuck() {
            Some(step) => {
                work.looks_without_gain = 0;
                self.execute(step, seen, work)
            }
            // Others may have made room between this write's search for a place and its search for something to clean.
            None => self.settle(seen).or_else(|error| {
                work.looks_without_gain += 1;
                if work.looks_without_gain > RETRIES_MAX || error.errno() != Errno::ENOSPC {
                    Err(error)
                } else {
                    Ok(())
                }
            }),
        }
    }

    /// Commits; ENOSPC if there was no progress since `seen`, and none is about to be made.
    fn settle(&self, seen: Progress) -> FsResult {
        self.commit()?;
        // A copy of the disk is given up if programs need its space.
        if self.data.allocator.is_stuck_since(seen) && !self.let_go() {
            return Err(Errno::ENOSPC.into());
        }
        // Others may make room before the caller tries again.
        std::thread::yield_now();
        Ok(())
    }

    /// Does the cleaning that is due with a write.
    pub(super) fn clean_while_writing(&self, work: &mut CleaningWork) -> FsResult {
        if !self.data.allocator.wants_cleaning() {
            return Ok(());
        }
        let begin = self.data.disk.device.now();
        let cleaner = self.cleaning.lock();
        let mut result = Ok(());
        while result.is_ok() {
            let seen = self.data.allocator.progress();
            let Some(step) = self.data.allocator.next_step(false) else { break };
            result = self.execute(step, seen, work);
        }
        drop(cleaner);
        work.waited_ns += (self.data.disk.device.now() - begin).0;
        // This write has succeeded, so it must not fail because the cleaner has no room.
        if result.as_ref().is_err_and(|error| error.errno() == Errno::ENOSPC) { Ok(()) } else { result }
    }

    /// Executes one step, chosen when the progress was `seen`.
    pub(super) fn execute(&self, step: CleaningStep, seen: Progress, work: &mut CleaningWork) -> FsResult {
        work.steps += 1;
        match step {
            CleaningStep::Move(span, owner) => {
                if !self.move_piece(span, owner, work)? {
                    self.settle(seen)?;
                }
            }
            CleaningStep::Settle => self.commit()?,
            CleaningStep::Reset(band) => {
                let is_reset = self.data.allocator.reset(band)?;
                let mut counters = self.data.counters.lock();
                *(if is_reset { &mut counters.resets } else { &mut counters.failed_resets }) += 1;
            }
        }
        self.data.allocator.note_progress();
        Ok(())
    }

    /// Moves the data in `span` that files still name. Returns `false` if there is no room, not even the cleaner's reserve.
    /// Data that can't be read stays where it is, without an error, which only readers of that data get.
    fn move_piece(&self, span: Span, owner: Owner, work: &mut CleaningWork) -> FsResult<bool> {
        // Without the hold, a shared part could be freed and overwritten while its owners get the copy one after another.
        let parts = self.data.allocator.shared.write().hold(span);
        let (shared, unshared): (Vec<_>, Vec<_>) = parts.into_iter().partition(SharedPart::is_shared);
        let mut result = self.move_shared(&shared, work);
        let shared_spans = shared.into_iter().map(|part| part.span).collect();
        self.data.allocator.release(shared_spans);
        for part in unshared {
            if matches!(result, Ok(true)) {
                result = self.move_unshared(part.span, owner.further(part.span.at - span.at), work);
            }
        }
        result
    }

    /// Moves the data in `span` that the file still names and does not share; returns `false` if there is no room.
    fn move_unshared(&self, span: Span, owner: Owner, work: &mut CleaningWork) -> FsResult<bool> {
        let file = match self.file(owner.file) {
            Ok(file) => file,
            // Its last name was removed meanwhile.
            Err(error) if error.errno() == Errno::ENOENT => {
                self.data.allocator.mark_unshared_unmovable(span);
                return Ok(true);
            }
            Err(error) if is_damage(&error) => {
                self.data.counters.lock().unmovable += 1;
                self.data.allocator.mark_file_unmovable(owner.file);
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        let mut state = file.lock();
        let mut found = false;
        for piece in state.placed(owner.granule..owner.granule + span.count) {
            if piece.at != Some(span.at + (piece.first - owner.granule)) {
                continue;
            }
            found = true;
            for piece in self.data.allocator.unshared(vec![piece]) {
                if !self.data.relocate(&file, &mut state, piece, work)? {
                    return Ok(false);
                }
            }
        }
        if !found {
            // The file no longer names it, or the space was wrong about its owner. If it is still live, it stays.
            self.data.allocator.mark_unshared_unmovable(span);
        }
        Ok(true)
    }

    /// Copies shared data, which the caller holds, and has all its owners name the copy; returns `false` if there is no room.
    fn move_shared(&self, parts: &[SharedPart], work: &mut CleaningWork) -> FsResult<bool> {
        for part in parts {
            let Some(owners) = self.owners_of(part)? else { continue };
            let sums = checksums_of(part.span, &owners);
            let Some(content) = self.data.read_to_move(part.span, &sums)? else { continue };
            let mut done = 0;
            while done < part.span.count {
                let owner = part.owners[0];
                let run = owner.granule + done..owner.granule + part.span.count;
                let batch =
                    WriteBatch::moved(from_ref(&run), self.data.data_from(&content, part.span.count, done), true);
                let Some(written) = self.data.write_block(owner.file, None, &batch)? else { return Ok(false) };
                for (copy, _) in written {
                    let original = Span { at: part.span.at + done, count: copy.count };
                    let owners = owners.iter().map(|(file, owner)| (file, owner.further(done)));
                    self.data.move_owners(original, copy, owners);
                    work.moved_bytes += copy.count * self.data.granule_bytes;
                    done += copy.count;
                }
            }
            self.data.counters.lock().moves += 1;
        }
        Ok(true)
    }

    /// The files that share a part. If the map of one can't be read, marks the part as unmovable and returns `None`.
    fn owners_of(&self, part: &SharedPart) -> FsResult<Option<Vec<OwnerFile>>> {
        let mut owners = Vec::with_capacity(part.owners.len());
        for &owner in &part.owners {
            match self.file(owner.file) {
                Ok(file) => owners.push((file, owner)),
                // Its last name was removed meanwhile.
                Err(error) if error.errno() == Errno::ENOENT => {}
                Err(error) if is_damage(&error) => {
                    self.data.counters.lock().unmovable += 1;
                    self.data.allocator.mark_unmovable(part.span);
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some(owners))
    }
}

/// The most windows without anything to join that a call looks at (assumption).
const WINDOWS_MAX: usize = 1024;

impl DataStore {
    /// Reads a span that is to be moved. If it is damaged, marks its unreadable parts as unmovable and returns `None`.
    pub(super) fn read_to_move(&self, span: Span, sums: &[u32]) -> FsResult<Option<Content>> {
        match self.disk.read_span(span, sums, Cause::Clean) {
            Err(error) if is_damage(&error) => {
                let unreadable = self.disk.unreadable(span, sums)?;
                self.allocator.mark_unmovable(unreadable);
                self.counters.lock().unmovable += 1;
                Ok(None)
            }
            content => content.map(Some),
        }
    }

    /// Reads a piece of a file and writes it elsewhere; a damaged piece stays where it is. Returns `false` if there is no room.
    pub(super) fn relocate(
        &self,
        file: &Arc<File>,
        state: &mut FileState,
        piece: FilePiece,
        work: &mut CleaningWork,
    ) -> FsResult<bool> {
        let Some(span) = piece.span() else { return Ok(true) };
        let sums = state.map.sums(piece.first..piece.end());
        let Some(content) = self.read_to_move(span, &sums)? else { return Ok(true) };
        let mut done = 0;
        while done < span.count {
            let run = piece.first + done..piece.end();
            let batch = WriteBatch::moved(from_ref(&run), self.data_from(&content, span.count, done), true);
            let Some(count) = self.place_block(file, state, &batch, &mut 0)? else { return Ok(false) };
            work.moved_bytes += count * self.granule_bytes;
            done += count;
        }
        self.counters.lock().moves += 1;
        Ok(true)
    }

    /// Joins the pieces of the next window of a file that has at least `least` of them. Returns whether there are further windows.
    pub(super) fn join_step(&self, file: &Arc<File>, least: usize) -> FsResult<bool> {
        let mut state = file.lock();
        for _ in 0..WINDOWS_MAX {
            if state.is_gone || state.join_at >= state.map.end() {
                state.join_at = 0;
                return Ok(false);
            }
            let window = state.join_at..state.join_at + self.block_granules;
            // Shared extents are left out, because joining would copy them for each owner.
            let pieces = self.allocator.unshared(state.placed(window.clone()));
            state.join_at = match pieces.first() {
                Some(_) => window.end,
                None => {
                    state.map.next_data(window.end).unwrap_or(window.end) / self.block_granules * self.block_granules
                }
            };
            for run in runs(&pieces) {
                if run.len() >= least && !self.join(file, &mut state, &pieces[run])? {
                    return Ok(false);
                }
            }
            if pieces.len() >= least {
                break;
            }
        }
        Ok(true)
    }

    /// Writes pieces that are contiguous in the file to one place; returns `false` if there is no room.
    fn join(&self, file: &Arc<File>, state: &mut FileState, pieces: &[FilePiece]) -> FsResult<bool> {
        let (mut content, mut has_bytes, mut granules) = (Vec::new(), true, 0);
        for piece in pieces {
            let Some(span) = piece.span() else { continue };
            match self.disk.read_span(span, &state.map.sums(piece.first..piece.end()), Cause::Clean)? {
                Some(bytes) => content.extend(bytes),
                None => has_bytes = false,
            }
            granules += span.count;
        }
        let content = has_bytes.then_some(content);
        let (first, mut done) = (pieces[0].first, 0);
        while done < granules {
            let run = first + done..first + granules;
            let batch = WriteBatch::moved(from_ref(&run), self.data_from(&content, granules, done), false);
            let Some(count) = self.place_block(file, state, &batch, &mut 0)? else { return Ok(false) };
            done += count;
        }
        Ok(true)
    }

    /// Makes all owners of `original` name its copy instead.
    pub(super) fn move_owners<'a>(
        &self,
        original: Span,
        copy: Span,
        owners: impl Iterator<Item = (&'a Arc<File>, Owner)>,
    ) {
        // Granules of the copy that some owner names now, and granules of the original that none names any more.
        let (mut named, mut unnamed) = (0, 0);
        for (file, owner) in owners {
            let mut state = file.lock();
            for piece in state.placed(owner.granule..owner.granule + original.count) {
                let skipped = piece.first - owner.granule;
                if piece.at != Some(original.at + skipped) {
                    // Overwritten since the copy was made.
                    continue;
                }
                let to = Span { at: copy.at + skipped, count: piece.count };
                let (first, others) = self.allocator.add_copy_owner(to, owner.further(skipped));
                named += first.iter().map(|part| part.count).sum::<u64>();
                for part in first.into_iter().chain(others) {
                    let old = state.map.insert(piece.first + (part.at - to.at), part);
                    unnamed += self.allocator.retire_uncounted(file.id, &old);
                    state.note_retired(&old);
                }
                self.touch(file, &mut state);
            }
        }
        self.allocator.end_copy(copy, named, unnamed);
        if named == 0 {
            // No known file names the original. If it is live all the same, the next event must not try to move it again.
            self.allocator.mark_unmovable(original);
        }
    }
}

/// The checksums of a shared span from the map of its first owner, or 0 (unknown) for granules that this owner no longer has there.
fn checksums_of(span: Span, owners: &[OwnerFile]) -> Vec<u32> {
    let Some((file, owner)) = owners.first() else { return vec![0; span.count as usize] };
    let state = file.look();
    let granules = owner.granule..owner.granule + span.count;
    let sums = state.map.sums(granules.clone());
    let places = granules.map(|granule| state.map.at(granule));
    (0..).zip(places).zip(sums).map(|((i, at), sum)| if at == Some(span.at + i) { sum } else { 0 }).collect()
}

/// Ranges of `pieces` that are contiguous in the file.
fn runs(pieces: &[FilePiece]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if pieces[at - 1].end() == piece.first => run.end = at + 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}
