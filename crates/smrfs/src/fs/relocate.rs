//! Moving data that is on the disk: one piece of a file, extents that are shared, and pieces of a file that are joined.
//!
//! Joining, which the paper leaves open (Kadekodi et al. 2015): files written at random are read in order later. A window of a
//! file at a time, and only where that leaves fewer extents.

use std::ops::Range;
use std::slice::from_ref;
use std::sync::Arc;

use super::counters::CleaningWork;
use super::disk::is_damage;
use super::file::{File, FileState};
use super::place::{Content, DataStore, WriteBatch};
use crate::error::FsResult;
use crate::map::FilePiece;
use crate::units::{Owner, Span};

/// Windows looked at in a call, at most, where nothing is to be joined.
const LOOKED_AT: usize = 1024;

impl DataStore {
    /// Data of a span that is to be moved; none if the disk does not read it, and then it stays.
    pub(super) fn read_to_move(&self, span: Span) -> FsResult<Option<Content>> {
        match self.disk.read_span(span) {
            Err(error) if is_damage(&error) => {
                let unreadable = self.disk.unreadable(span)?;
                self.allocator.leave(unreadable);
                self.counters.unmovable.add(1);
                Ok(None)
            }
            content => content.map(Some),
        }
    }

    /// Reads a piece of a file and writes it elsewhere; if the disk does not read it, it stays. `false`: no room.
    pub(super) fn relocate(
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

    /// Joins the next window that has at least `least` extents; tells whether the file has more.
    pub(super) fn join_step(&self, file: &Arc<File>, least: usize) -> FsResult<bool> {
        let mut state = file.lock();
        for _ in 0..LOOKED_AT {
            if state.handles.is_gone() || state.join_at >= state.map.end() {
                state.join_at = 0;
                return Ok(false);
            }
            let window = state.join_at..state.join_at + self.block_granules;
            // What others have as well stays theirs.
            let pieces = self.allocator.alone(state.placed(window.clone()));
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

    /// Writes pieces that follow each other in the file to one place. `false`: no room.
    fn join(&self, file: &Arc<File>, state: &mut FileState, pieces: &[FilePiece]) -> FsResult<bool> {
        let mut content = Some(Vec::new());
        let mut granules = 0;
        for span in pieces.iter().filter_map(FilePiece::span) {
            let bytes = self.disk.read_span(span)?;
            content = content.zip(bytes).map(|(mut content, bytes)| {
                content.extend(bytes);
                content
            });
            granules += span.count;
        }
        let (first, mut done) = (pieces[0].first, 0);
        while done < granules {
            let run = first + done..first + granules;
            let load = WriteBatch::moved(from_ref(&run), self.rest(&content, granules, done), false);
            let Some(count) = self.place_block(file, state, &load, &mut 0)? else { return Ok(false) };
            done += count;
        }
        Ok(true)
    }

    /// Has all owners of `original` name its copy instead.
    pub(super) fn hand_out<'a>(
        &self,
        original: Span,
        copy: Span,
        owners: impl Iterator<Item = (&'a Arc<File>, Owner)>,
    ) {
        let (mut taken, mut left) = (0, 0);
        for (file, owner) in owners {
            let (more, less) = self.take_copy(file, owner, original, copy);
            (taken, left) = (taken + more, left + less);
        }
        self.allocator.end_copy(copy, taken, left, |span| self.disk.discard(span));
        if taken == 0 {
            // Whoever has it is not among the files: if it is still live, it stays.
            self.allocator.leave(original);
        }
    }

    /// Has one owner of `original` name its copy instead, where it still has it. Tells how many granules of the copy were
    /// nobody's before, and how many of the original are nobody's now.
    fn take_copy(&self, file: &Arc<File>, owner: Owner, original: Span, copy: Span) -> (u64, u64) {
        let mut state = file.lock();
        let (mut taken, mut left) = (0, 0);
        for piece in state.placed(owner.granule..owner.granule + original.count) {
            let skipped = piece.first - owner.granule;
            if piece.at != Some(original.at + skipped) {
                continue;
            }
            let to = Span { at: copy.at + skipped, count: piece.count };
            let (first, others) = self.allocator.share_copy(to, owner.further(skipped));
            taken += first.iter().map(|part| part.count).sum::<u64>();
            for part in first.into_iter().chain(others) {
                let old: Vec<FilePiece> = state.map.insert(piece.first + (part.at - to.at), part);
                left += self.allocator.give_up(file.id, &old);
                state.note_retired(&old);
            }
            self.touch(file, &mut state);
        }
        (taken, left)
    }
}

/// The runs of pieces that follow each other in the file.
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
