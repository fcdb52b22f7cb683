//! Cleaning: carrying out the steps that the space asks for, in the background, beside writes, or while a write waits.
//!
//! One thread cleans at a time. Nobody waits for it while holding a lock on a file.

use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use smrkit::tally::Cause;

use super::FileSystem;
use super::counters::Work;
use super::file::{File, FileState};
use super::locks::lock;
use super::place::Load;
use crate::data::{Data, Room};
use crate::error::{Errno, FsResult};
use crate::map::Piece;
use crate::space::{Step, Trigger};
use crate::units::{Owner, Span};

impl FileSystem {
    /// Makes room for a write that found none when the progress was `seen`; ENOSPC if nothing helps.
    pub(super) fn make_room(&self, seen: u64, work: &mut Work) -> FsResult {
        let begin = self.device.now();
        let cleaner = lock(&self.cleaner);
        let result = match self.progress.load(Relaxed) == seen {
            true => self.unstick(work),
            false => Ok(()),
        };
        drop(cleaner);
        work.stalled = true;
        work.waited_ns += (self.device.now() - begin).0;
        result
    }

    fn unstick(&self, work: &mut Work) -> FsResult {
        // More steps than there are granules help nobody: the space promised what it does not have.
        if work.steps > self.device.shape().granules + 4096 {
            return Err(Errno::ENOSPC.into());
        }
        let step = lock(&self.space).clean(Trigger::Stuck);
        match step {
            Some(step) => self.execute(step, work),
            None => self.settle(),
        }
    }

    /// Commits, where that frees anything; ENOSPC if not.
    fn settle(&self) -> FsResult {
        let before = self.progress.load(Relaxed);
        self.commit()?;
        if self.progress.load(Relaxed) == before { Err(Errno::ENOSPC.into()) } else { Ok(()) }
    }

    /// The work due beside a write, as much as the space asks for.
    pub(super) fn clean_beside(&self, work: &mut Work) -> FsResult {
        if lock(&self.space).wants_cleaning(false).is_none() {
            return Ok(());
        }
        let begin = self.device.now();
        let cleaner = lock(&self.cleaner);
        let mut result = Ok(());
        while let Some(step) = self.next_step(false) {
            result = self.execute(step, work);
            if result.is_err() {
                break;
            }
        }
        drop(cleaner);
        work.waited_ns += (self.device.now() - begin).0;
        // That the cleaner finds no room is no failure of this write, which is done.
        if result.as_ref().is_err_and(|error| error.errno() == Errno::ENOSPC) { Ok(()) } else { result }
    }

    fn next_step(&self, idle: bool) -> Option<Step> {
        let mut space = lock(&self.space);
        let why = space.wants_cleaning(idle)?;
        space.clean(why)
    }

    /// One bounded step of what is due in the background (writing out, cleaning, joining): `idle` if nothing else is to do.
    /// Tells whether there is more. Commits come from `sync_all`, on the caller's timer.
    pub fn background(&self, idle: bool) -> FsResult<bool> {
        if self.changeable().is_err() {
            return Ok(false);
        }
        let cleaner = lock(&self.cleaner);
        if let Some(step) = self.next_step(idle) {
            self.execute(step, &mut Work::default())?;
            return Ok(true);
        }
        drop(cleaner);
        if !idle {
            return Ok(false);
        }
        if self.write_out_oldest(&mut Work::default())? {
            return Ok(true);
        }
        self.join_in_background()
    }

    /// Carries out one step.
    fn execute(&self, step: Step, work: &mut Work) -> FsResult {
        work.steps += 1;
        match step {
            Step::Move(span, owner) => {
                if !self.move_piece(span, owner, work)? {
                    self.settle()?;
                }
            }
            Step::Settle => self.commit()?,
            Step::Reset(band) => {
                let mut space = lock(&self.space);
                self.device.reset(band)?;
                space.was_reset(band);
                self.counters.resets.add(1);
            }
        }
        self.progress.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Moves what of `span` the file still has there. `false`: no room, not even for the cleaner.
    fn move_piece(&self, span: Span, owner: Owner, work: &mut Work) -> FsResult<bool> {
        let file = match self.file(owner.file) {
            Ok(file) => file,
            // Its last name went meanwhile.
            Err(error) if error.errno() == Errno::ENOENT => return Ok(true),
            Err(error) => return Err(error),
        };
        let mut state = file.lock();
        for piece in FileSystem::placed(&state, owner.granule..owner.granule + span.count) {
            if piece.at != Some(span.at + (piece.first - owner.granule)) {
                continue;
            }
            if !self.relocate(&file, &mut state, piece, work)? {
                return Ok(false);
            }
        }
        self.counters.moves.add(1);
        Ok(true)
    }

    /// Reads a piece of a file and writes it elsewhere. `false`: no room.
    pub(super) fn relocate(
        &self,
        file: &Arc<File>,
        state: &mut FileState,
        piece: Piece,
        work: &mut Work,
    ) -> FsResult<bool> {
        let Some(span) = piece.span() else { return Ok(true) };
        let bytes = span.count * self.granule_bytes;
        let content = self.read_span(span)?;
        let mut done = 0;
        while done < span.count {
            let data = match &content {
                Some(content) => Data::Bytes(&content[(done * self.granule_bytes) as usize..]),
                None => Data::Blank(bytes - done * self.granule_bytes),
            };
            let run = piece.first + done..piece.end();
            let load = Load::moved(from_ref(&run), data, true);
            let Some(count) = self.lay(file, state, &load, &mut 0)? else { return Ok(false) };
            work.moved_bytes += count * self.granule_bytes;
            done += count;
        }
        Ok(true)
    }

    /// What is on the disk there, for moving it; none in simulation.
    pub(super) fn read_span(&self, span: Span) -> FsResult<Option<Vec<u8>>> {
        let bytes = span.count * self.granule_bytes;
        self.counters.read.add(bytes);
        if self.is_blank() {
            self.device.read(span.at, Room::Blank(bytes), Cause::Clean)?;
            return Ok(None);
        }
        let mut content = vec![0; bytes as usize];
        self.device.read(span.at, Room::Bytes(&mut content), Cause::Clean)?;
        Ok(Some(content))
    }

    /// Takes note of what cleaning did for one write of the host.
    pub(super) fn count(&self, work: &Work) {
        self.counters.stalls.add(u64::from(work.stalled));
        self.counters.longest_stall_ns.at_least(work.waited_ns);
        self.counters.most_moved.at_least(work.moved_bytes);
    }
}
