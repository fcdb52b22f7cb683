//! One file in memory: its map, what of it is not on the disk yet, and what the disk still holds for its older map.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::allocator::{Promises, Use};
use super::buffer::Buffer;
use super::shared::Shared;
use crate::error::{Errno, FsResult};
use crate::map::{FileMap, FilePiece, Stored};
use crate::meta::Time;
use crate::units::{Granule, NodeId, Span};

/// Behind every granule of every file.
pub(super) const BEHIND_ALL: u64 = 1 << 56;

/// A file that is in memory. Locks are taken in this order: `commit`, `state` (of two files the lower number's first), the space.
pub(super) struct File {
    pub id: NodeId,
    /// When it was last used, in calls.
    pub used: AtomicU64,
    /// Blocks of it that the disk has been told of, where it is read in order, as `read.rs` packs them.
    pub ahead: AtomicU64,
    /// The file's weight in the cache, in extents.
    pub weight: AtomicUsize,
    /// Held while a map of it is on its way to the store.
    pub commit: Mutex<()>,
    pub state: RwLock<FileState>,
}

/// The times that a file's record holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub mtime: Time,
    pub ctime: Time,
}

/// State of a file in memory.
#[derive(Default)]
pub(super) struct FileState {
    /// True if the rest has been read from the store.
    pub loaded: bool,
    pub map: FileMap,
    /// The part of the map that the store has.
    pub stored: Stored,
    pub size: u64,
    /// Up to here the disk holds this file's bytes, old or new, so that a map may be committed before all is written.
    pub settled_size: u64,
    /// None as long as the store's own are right: it has no record.
    pub times: Option<Times>,
    pub promises: Promises,
    pub buffer: Buffer,
    /// Not in the map any more, but perhaps in the durable one.
    pub retired: Vec<Span>,
    /// True if others may have some of its extents as well.
    pub shares: bool,
    /// True if the durable record says that it shares.
    pub record_shares: bool,
    /// Writes that wait for room, which was promised to what is not shared.
    pub stalled_writes: u32,
    /// Counts changes of what a record holds.
    pub version: u64,
    /// The version that the store has durably.
    pub durable_version: u64,
    /// The version of the last change of data or size.
    pub data_version: u64,
    pub opens: u32,
    pub writers: u32,
    /// True if its last name is gone.
    pub is_unlinked: bool,
    /// True if its data is gone, too: it was neither named nor open.
    pub is_gone: bool,
    /// Its turn to have its buffer written out, if there is something in it.
    pub waiting: Option<u64>,
    /// Granule of the file at which joining goes on.
    pub join_at: u64,
}

impl File {
    /// A file whose state is empty, or has to be read from the store first.
    pub(super) fn new(id: NodeId, loaded: bool) -> File {
        File {
            id,
            used: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
            weight: AtomicUsize::new(0),
            commit: Mutex::new(()),
            state: RwLock::new(FileState { loaded, ..FileState::default() }),
        }
    }

    /// The file's state, to look at.
    pub(super) fn look(&self) -> RwLockReadGuard<'_, FileState> {
        self.state.read()
    }

    /// The file's state, to change.
    pub(super) fn lock(&self) -> RwLockWriteGuard<'_, FileState> {
        self.state.write()
    }

    /// The file's state, to change, if it still has its data.
    pub(super) fn lock_alive(&self) -> FsResult<RwLockWriteGuard<'_, FileState>> {
        let state = self.lock();
        if state.is_gone { Err(Errno::ENOENT.into()) } else { Ok(state) }
    }
}

impl FileState {
    /// The pieces of `range` that have a place.
    pub(super) fn placed(&self, range: Range<u64>) -> Vec<FilePiece> {
        self.map.lookup(range).filter(|piece| piece.at.is_some()).collect()
    }

    /// Room that `range` uses. A shared extent is nobody's: what replaces it needs room, as in a hole.
    pub(super) fn uses(&self, range: Range<u64>, shared: &Shared) -> Use {
        let mut uses = Use::default();
        for piece in self.map.lookup(range) {
            let Some(span) = piece.span() else {
                uses.unplaced += self.promises.unplaced_in(piece.first..piece.end(), &self.buffer);
                continue;
            };
            uses.mapped += piece.count;
            for part in shared.within(span) {
                let first = piece.first + (part.at - span.at);
                uses.mapped -= part.count;
                uses.unplaced += self.promises.unplaced_in(first..first + part.count, &self.buffer);
            }
        }
        uses
    }

    /// End on the disk of the data before granule `first`.
    pub(super) fn end_before(&self, first: u64) -> Option<Granule> {
        let before = self.map.at(first.checked_sub(1)?)?;
        Some(before + 1)
    }

    /// Takes note that the map names these no more, which may be durable still.
    pub(super) fn note_retired(&mut self, pieces: &[FilePiece]) {
        for span in pieces.iter().filter_map(FilePiece::span) {
            match self.retired.last_mut() {
                Some(last) if last.end() == span.at => last.count += span.count,
                _ => self.retired.push(span),
            }
        }
    }

    /// True if the store's record is older than the file in memory.
    pub(super) fn is_dirty(&self) -> bool {
        self.version != self.durable_version
    }

    /// True if data or size have changed since they were made durable.
    pub(super) fn is_unsaved(&self) -> bool {
        self.data_version > self.durable_version
    }

    /// One `open` ends; EBADF if there is none.
    pub(super) fn close(&mut self, writing: bool) -> FsResult {
        if self.opens == 0 || (writing && self.writers == 0) {
            return Err(Errno::EBADF.into());
        }
        self.opens -= 1;
        self.writers -= u32::from(writing);
        Ok(())
    }

    /// The size up to which this map can be committed although some granules are not written: behind it there is nothing
    /// that the disk does not hold.
    pub(super) fn size_to_commit(&self, granule_bytes: u64) -> u64 {
        match self.buffer.next(self.settled_size / granule_bytes) {
            Some(granule) => self.size.min(self.settled_size.max(granule * granule_bytes)),
            None => self.size,
        }
    }
}
