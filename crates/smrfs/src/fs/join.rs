//! Joining the extents of a file, a window of it at a time, and only where that leaves fewer.
//!
//! Joining, which the paper leaves open (Kadekodi et al. 2015): files written at random are read in order later.

use std::ops::Range;
use std::slice::from_ref;
use std::sync::Arc;

use super::FileSystem;
use super::file::{File, FileState};
use super::place::{SMALL, WriteBatch};
use crate::error::FsResult;
use crate::map::FilePiece;
use crate::units::NodeId;

/// Windows looked at in a call, at most, where nothing is to be joined.
const LOOKED_AT: usize = 1024;

impl FileSystem {
    /// Moves a file's data into as few extents as possible, a block at a time; tells whether there is more to do.
    pub fn defragment(&self, id: NodeId) -> FsResult<bool> {
        self.changeable()?;
        let file = self.file(id)?;
        self.join_step(&file, 2)
    }

    /// Joins a block of a file that was written in small pieces, if room is plentiful.
    pub(super) fn join_in_background(&self) -> FsResult<bool> {
        let Some(id) = self.cleaner.fragmented() else { return Ok(false) };
        let rooms = self.allocator.rooms();
        let plenty = rooms.free() > rooms.usable / 8;
        let more = match self.file(id) {
            Ok(file) if plenty => self.join_step(&file, SMALL as usize),
            _ => Ok(false),
        };
        match more {
            Ok(true) => Ok(true),
            more => {
                let others = self.cleaner.remove_fragmented(id);
                more.map(|_| others)
            }
        }
    }

    /// Joins the next window that has at least `least` extents; tells whether the file has more.
    fn join_step(&self, file: &Arc<File>, least: usize) -> FsResult<bool> {
        let mut state = file.lock();
        for _ in 0..LOOKED_AT {
            if state.gone || state.join_at >= state.map.end() {
                state.join_at = 0;
                return Ok(false);
            }
            let window = state.join_at..state.join_at + self.options.block_granules;
            // What others have as well stays theirs.
            let pieces = self.allocator.alone(FileSystem::placed(&state, window.clone()));
            state.join_at = match pieces.first() {
                Some(_) => window.end,
                None => {
                    state.map.next_data(window.end).unwrap_or(window.end) / self.options.block_granules
                        * self.options.block_granules
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
