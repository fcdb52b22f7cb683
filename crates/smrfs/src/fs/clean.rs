//! Cleaning: carrying out the steps that the space asks for, in the background, alongside writes, or while a write waits.
//!
//! One thread cleans at a time. Nobody waits for it while holding a lock on a file.

use std::slice::from_ref;
use std::sync::Arc;

use super::FileSystem;
use super::allocator::Progress;
use super::counters::CleaningWork;
use super::file::{File, FileState};
use super::place::WriteBatch;
use crate::data::Data;
use crate::error::{DeviceError, Errno, FsError, FsResult};
use crate::map::FilePiece;
use crate::space::CleaningStep;
use crate::units::{Owner, Span};

/// Looks in vain, one after the other, before a write is told that there is no space (assumption).
const LOOKS: u32 = 3;

/// Data that was read; no bytes in simulation.
pub(super) type Content = Option<Vec<u8>>;

impl FileSystem {
    /// Makes room for a write that found none when the progress was `seen`; ENOSPC if nothing helps.
    pub(super) fn make_room(&self, seen: Progress, work: &mut CleaningWork) -> FsResult {
        let begin = self.disk.now();
        let cleaner = self.cleaner.alone();
        let result = match self.allocator.progress().freed == seen.freed {
            true => self.unstick(seen, work),
            false => Ok(()),
        };
        drop(cleaner);
        work.stalled = true;
        work.waited_ns += (self.disk.now() - begin).0;
        result
    }

    fn unstick(&self, seen: Progress, work: &mut CleaningWork) -> FsResult {
        // More steps than there are granules help nobody: the space promised what it does not have.
        if work.steps > self.disk.shape().granules + 4096 {
            return Err(Errno::ENOSPC.into());
        }
        match self.allocator.next_step_when_stuck() {
            Some(step) => {
                work.in_vain = 0;
                self.execute(step, seen, work)
            }
            // Others may have left room between the two looks of this write, at its place and at what there is to clean.
            None => self.settle(seen).or_else(|error| {
                work.in_vain += 1;
                if work.in_vain > LOOKS || error.errno() != Errno::ENOSPC { Err(error) } else { Ok(()) }
            }),
        }
    }

    /// Commits; ENOSPC if nobody has done anything since the progress was `seen`, nor is about to.
    fn settle(&self, seen: Progress) -> FsResult {
        self.commit()?;
        if self.allocator.is_stuck_since(seen) {
            return Err(Errno::ENOSPC.into());
        }
        std::thread::yield_now();
        Ok(())
    }

    /// The work due alongside a write, as much as the space asks for.
    pub(super) fn clean_beside(&self, work: &mut CleaningWork) -> FsResult {
        if !self.allocator.wants_cleaning() {
            return Ok(());
        }
        let begin = self.disk.now();
        let cleaner = self.cleaner.alone();
        let mut result = Ok(());
        while result.is_ok() {
            let seen = self.allocator.progress();
            let Some(step) = self.allocator.next_step(false) else { break };
            result = self.execute(step, seen, work);
        }
        drop(cleaner);
        work.waited_ns += (self.disk.now() - begin).0;
        // That the cleaner finds no room is no failure of this write, which is done.
        if result.as_ref().is_err_and(|error| error.errno() == Errno::ENOSPC) { Ok(()) } else { result }
    }

    /// One bounded step of what is due in the background (writing out, cleaning, joining): `idle` if nothing else is to do.
    /// Tells whether there is more. Commits come from `sync_all`, on the caller's timer.
    pub fn background(&self, idle: bool) -> FsResult<bool> {
        if self.changeable().is_err() {
            return Ok(false);
        }
        let more = self.background_step(idle)?;
        if idle && more {
            // Nobody waits for it now. A host that comes back would, if its first fsync had to write all that idle steps left.
            self.disk.flush()?;
        }
        Ok(more)
    }

    fn background_step(&self, idle: bool) -> FsResult<bool> {
        let cleaner = self.cleaner.alone();
        let seen = self.allocator.progress();
        if let Some(step) = self.allocator.next_step(idle) {
            self.execute(step, seen, &mut CleaningWork::default())?;
            return Ok(true);
        }
        drop(cleaner);
        Ok(idle && (self.write_out_oldest(&mut CleaningWork::default())? || self.join_in_background()?))
    }

    /// Carries out one step, chosen when the progress was `seen`.
    fn execute(&self, step: CleaningStep, seen: Progress, work: &mut CleaningWork) -> FsResult {
        work.steps += 1;
        match step {
            CleaningStep::Move(span, owner) => {
                if !self.move_piece(span, owner, work)? {
                    self.settle(seen)?;
                }
            }
            CleaningStep::Settle => self.commit()?,
            CleaningStep::Reset(band) => self.reset(band)?,
        }
        self.allocator.progressed();
        Ok(())
    }

    /// A band that the disk does not reset is no failure of the write during which that was tried.
    fn reset(&self, band: u64) -> FsResult {
        let is_reset = self.allocator.reset(band, || self.disk.reset(band))?;
        let counter = if is_reset { &self.counters.resets } else { &self.counters.failed_resets };
        counter.add(1);
        Ok(())
    }

    /// Moves what of `span` files still have there. `false`: no room, not even for the cleaner. What can't be moved stays:
    /// only whoever reads it is to hear of that.
    fn move_piece(&self, span: Span, owner: Owner, work: &mut CleaningWork) -> FsResult<bool> {
        let parts = self.allocator.hold(span);
        let (alone, shared): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| part.owners.is_empty());
        let mut result = self.move_shared(&shared, work);
        self.allocator.release(shared.into_iter().map(|part| part.span).collect(), |span| self.disk.discard(span));
        for part in alone {
            if matches!(result, Ok(true)) {
                result = self.move_alone(part.span, owner.further(part.span.at - span.at), work);
            }
        }
        result
    }

    /// Moves what of `span` the file still has there, and shares with nobody.
    fn move_alone(&self, span: Span, owner: Owner, work: &mut CleaningWork) -> FsResult<bool> {
        let file = match self.file(owner.file) {
            Ok(file) => file,
            // Its last name went meanwhile.
            Err(error) if error.errno() == Errno::ENOENT => {
                self.allocator.leave_alone(span);
                return Ok(true);
            }
            Err(error) if is_damage(&error) => {
                self.counters.unmovable.add(1);
                self.allocator.leave_file(owner.file);
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        let mut state = file.lock();
        let mut found = false;
        for piece in FileSystem::placed(&state, owner.granule..owner.granule + span.count) {
            if piece.at != Some(span.at + (piece.first - owner.granule)) {
                continue;
            }
            found = true;
            for piece in self.allocator.alone(vec![piece]) {
                if !self.relocate(&file, &mut state, piece, work)? {
                    return Ok(false);
                }
            }
        }
        if !found {
            // It is the file's no more, or the space was told so wrongly: if it is still live, it stays.
            self.allocator.leave_alone(span);
        }
        Ok(true)
    }

    /// The first granule of `span` that the disk does not read by itself; all of it if there is none.
    fn unreadable(&self, span: Span) -> FsResult<Span> {
        for i in 0..span.count {
            let one = Span { at: span.at + i, count: 1 };
            match self.disk.read_span(one) {
                Err(error) if is_damage(&error) => return Ok(one),
                result => result?,
            };
        }
        Ok(span)
    }

    /// Data of a span that is to be moved; none if the disk does not read it, and then it stays.
    pub(super) fn read_to_move(&self, span: Span) -> FsResult<Option<Content>> {
        match self.disk.read_span(span) {
            Err(error) if is_damage(&error) => {
                let unreadable = self.unreadable(span)?;
                self.allocator.leave(unreadable);
                self.counters.unmovable.add(1);
                Ok(None)
            }
            content => content.map(Some),
        }
    }

    /// Data of `granules`, without the first `done` of them.
    pub(super) fn rest<'a>(&self, content: &'a Content, granules: u64, done: u64) -> Data<'a> {
        match content {
            Some(content) => Data::Bytes(&content[(done * self.granule_bytes) as usize..]),
            None => Data::Blank((granules - done) * self.granule_bytes),
        }
    }

    /// Reads a piece of a file and writes it elsewhere; if the disk does not read it, it stays. `false`: no room.
    fn relocate(
        &self,
        file: &Arc<File>,
        state: &mut FileState,
        piece: FilePiece,
        work: &mut CleaningWork,
    ) -> FsResult<bool> {
        let Some(span) = piece.span() else { return Ok(true) };
        let Some(content) = self.read_to_move(span)? else { return Ok(true) };
        let mut done = 0;
        while done < span.count {
            let run = piece.first + done..piece.end();
            let load = WriteBatch::moved(from_ref(&run), self.rest(&content, span.count, done), true);
            let Some(count) = self.place_block(file, state, &load, &mut 0)? else { return Ok(false) };
            work.moved_bytes += count * self.granule_bytes;
            done += count;
        }
        self.counters.moves.add(1);
        Ok(true)
    }

    /// Takes note of what cleaning did for one write of the host.
    pub(super) fn count(&self, work: &CleaningWork) {
        self.counters.stalls.add(u64::from(work.stalled));
        self.counters.longest_stall_ns.at_least(work.waited_ns);
        self.counters.waited_ns.add(work.waited_ns);
        self.counters.most_moved.at_least(work.moved_bytes);
    }
}

/// True if that is about what lies there, and would be so again: neither a lack of memory or room, nor of power.
pub(super) fn is_damage(error: &FsError) -> bool {
    match error {
        FsError::Corrupt(_) | FsError::Seal(_) | FsError::ForgedPart(_) | FsError::Errno(Errno::EIO) => true,
        FsError::Device(error) => !matches!(error, DeviceError::PowerCut),
        FsError::Errno(_) | FsError::PowerCut => false,
    }
}
