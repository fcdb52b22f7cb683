//! Copies that share a file's extents: what can be shared, and the record that has to say so before.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::RwLockWriteGuard;

use super::FileSystem;
use super::counters::CleaningWork;
use super::file::{File, FileState};
use super::write::SIZE_MAX;
use crate::error::{Errno, FsResult};
use crate::units::{NodeId, Owner};

/// The two files of a copy, locked; one if it is the same.
struct Locked<'a> {
    from: RwLockWriteGuard<'a, FileState>,
    to: Option<RwLockWriteGuard<'a, FileState>>,
}

impl<'a> Locked<'a> {
    /// Locks both in the order of their numbers: nothing else locks two.
    fn both(from: &'a File, to: &'a File) -> Locked<'a> {
        if from.id == to.id {
            return Locked { from: from.lock(), to: None };
        }
        let first = if to.id < from.id { Some(to.lock()) } else { None };
        let from = from.lock();
        Locked { from, to: Some(first.unwrap_or_else(|| to.lock())) }
    }

    fn to(&mut self) -> &mut FileState {
        self.to.as_deref_mut().unwrap_or(&mut self.from)
    }
}

impl FileSystem {
    /// Has a file share up to `bytes` bytes of another, or of its own elsewhere; tells how many: whole granules, and the
    /// last one of the original where the copy ends there as well. 0 where the places do not allow it, or while a write of
    /// the original waits for room.
    pub fn share(&self, from: (NodeId, u64), to: (NodeId, u64), bytes: u64) -> FsResult<u64> {
        self.changeable()?;
        let granule = self.data.granule_bytes;
        let (from_file, to_file) = (self.file(from.0)?, self.file(to.0)?);
        let is_aligned = from.1.is_multiple_of(granule) && to.1.is_multiple_of(granule);
        let is_apart = from.0 != to.0 || from.1.abs_diff(to.1) >= bytes;
        if !is_aligned || !is_apart {
            return Ok(0);
        }
        let mut work = CleaningWork::default();
        let shared = loop {
            let seen = self.data.allocator.progress();
            let mut locked = Locked::both(&from_file, &to_file);
            let bytes = self.may_share(&mut locked, from.1, to.1, bytes)?;
            if bytes == 0 {
                break 0;
            }
            if !locked.from.sharing.says_so() && !locked.from.handles.is_unlinked() {
                // A map that names what another has as well is damage, unless both say that they share: the original's has
                // to say so, durably, before there is a copy.
                locked.from.sharing.begin();
                self.data.touch(&from_file, &mut locked.from);
                drop(locked);
                self.save(&from_file)?;
                continue;
            }
            let granules = from.1 / granule..(from.1 + bytes).div_ceil(granule);
            self.data.keep_room_on_host(0, locked.from.placed(granules.clone()).len() as u64)?;
            self.data.clear_tail(&to_file, locked.to(), to.1)?;
            // What is buffered of the original has to have a place, and of the copy it is older than what is shared.
            if self.data.write_out(&from_file, &mut locked.from)? && self.data.write_out(&to_file, locked.to())? {
                self.share_granules(&mut locked, granules, &to_file, to.1 / granule);
                self.data.grown(locked.to(), to.1 + bytes);
                self.data.now_changed(&to_file, locked.to());
                break bytes;
            }
            drop(locked);
            self.make_room(seen, &mut work)?;
        };
        self.data.counters.count(&work);
        Ok(shared)
    }

    /// The bytes of `bytes` that two files can share from these places on.
    fn may_share(&self, locked: &mut Locked<'_>, from: u64, to: u64, bytes: u64) -> FsResult<u64> {
        if locked.from.handles.is_gone() || locked.to().handles.is_gone() {
            return Err(Errno::ENOENT.into());
        }
        if locked.from.sharing.is_stalled() {
            return Ok(0);
        }
        let rest = locked.from.size.saturating_sub(from);
        let bytes = bytes.min(rest);
        if to.checked_add(bytes).is_none_or(|end| end > SIZE_MAX) {
            return Err(Errno::EFBIG.into());
        }
        // What lies behind the original's end must not show in the copy: a part of a granule is shared only at the copy's end.
        let whole = bytes < rest || to + bytes < locked.to().size;
        Ok(if whole { bytes - bytes % self.data.granule_bytes } else { bytes })
    }

    /// Has `to` share granules of the other file, of which nothing is buffered, from its granule `first` on.
    fn share_granules(&self, locked: &mut Locked<'_>, granules: Range<u64>, to: &Arc<File>, first: u64) {
        let pieces = locked.from.placed(granules.clone());
        let state = locked.to();
        if !pieces.is_empty() {
            state.sharing.begin();
        }
        let range = first..first + (granules.end - granules.start);
        self.data.rearrange(to, state, range.clone(), &mut 0, |state| {
            let old = state.map.remove(range);
            for piece in &pieces {
                let Some(span) = piece.span() else { continue };
                let at = first + (piece.first - granules.start);
                self.data.allocator.share(span, Owner { file: to.id, granule: at });
                state.map.insert(at, span);
            }
            old
        });
        self.data.touch(to, state);
    }
}
