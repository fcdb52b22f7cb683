//! Extents that several files have: making copies that share them, moving them for all, and giving the last one what is left.

use std::ops::Range;
use std::slice::from_ref;
use std::sync::Arc;

use parking_lot::RwLockWriteGuard;

use super::FileSystem;
use super::clean::is_damage;
use super::counters::CleaningWork;
use super::file::{File, FileState};
use super::place::WriteBatch;
use super::shared::SharedPart;
use super::write::SIZE_MAX;
use crate::error::{Errno, FsResult};
use crate::map::FilePiece;
use crate::units::{NodeId, Owner, Span};

/// An owner of a shared extent, and its file.
type OwnerFile = (Arc<File>, Owner);

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
        let granule = self.granule_bytes;
        let (from_file, to_file) = (self.file(from.0)?, self.file(to.0)?);
        let is_aligned = from.1.is_multiple_of(granule) && to.1.is_multiple_of(granule);
        let is_apart = from.0 != to.0 || from.1.abs_diff(to.1) >= bytes;
        if !is_aligned || !is_apart {
            return Ok(0);
        }
        let mut work = CleaningWork::default();
        let shared = loop {
            let seen = self.allocator.progress();
            let mut locked = Locked::both(&from_file, &to_file);
            let bytes = self.may_share(&mut locked, from.1, to.1, bytes)?;
            if bytes == 0 {
                break 0;
            }
            if !locked.from.says_shared && !locked.from.unlinked {
                // A map that names what another has as well is damage, unless both say that they share: the original's has
                // to say so, durably, before there is a copy.
                locked.from.shares = true;
                self.touch(&from_file, &mut locked.from);
                drop(locked);
                self.save(&from_file)?;
                continue;
            }
            let granules = from.1 / granule..(from.1 + bytes).div_ceil(granule);
            self.keep_room_on_host(0, FileSystem::placed(&locked.from, granules.clone()).len() as u64)?;
            self.clear_tail(&to_file, locked.to(), to.1)?;
            // What is buffered of the original has to have a place, and of the copy it is older than what is shared.
            if self.write_out(&from_file, &mut locked.from)? && self.write_out(&to_file, locked.to())? {
                self.share_granules(&mut locked, granules, &to_file, to.1 / granule);
                self.grown(locked.to(), to.1 + bytes);
                self.now_changed(&to_file, locked.to());
                break bytes;
            }
            drop(locked);
            self.make_room(seen, &mut work)?;
        };
        self.count(&work);
        Ok(shared)
    }

    /// The bytes of `bytes` that two files can share from these places on.
    fn may_share(&self, locked: &mut Locked<'_>, from: u64, to: u64, bytes: u64) -> FsResult<u64> {
        if locked.from.gone || locked.to().gone {
            return Err(Errno::ENOENT.into());
        }
        if locked.from.stalled > 0 {
            return Ok(0);
        }
        let rest = locked.from.size.saturating_sub(from);
        let bytes = bytes.min(rest);
        if to.checked_add(bytes).is_none_or(|end| end > SIZE_MAX) {
            return Err(Errno::EFBIG.into());
        }
        // What lies behind the original's end must not show in the copy: a part of a granule is shared only at the copy's end.
        let whole = bytes < rest || to + bytes < locked.to().size;
        Ok(if whole { bytes - bytes % self.granule_bytes } else { bytes })
    }

    /// Has `to` share granules of the other file, of which nothing is buffered, from its granule `first` on.
    fn share_granules(&self, locked: &mut Locked<'_>, granules: Range<u64>, to: &Arc<File>, first: u64) {
        let pieces = FileSystem::placed(&locked.from, granules.clone());
        let state = locked.to();
        state.shares |= !pieces.is_empty();
        let range = first..first + (granules.end - granules.start);
        self.rearrange(to, state, range.clone(), &mut 0, |state| {
            let old = state.map.remove(range);
            for piece in &pieces {
                let Some(span) = piece.span() else { continue };
                let at = first + (piece.first - granules.start);
                self.allocator.share(span, Owner { file: to.id, granule: at });
                state.map.insert(at, span);
            }
            old
        });
        self.touch(to, state);
    }

    /// Gives what no other file shares any more of `range` to the file alone: it can be replaced without more room.
    pub(super) fn reclaim(&self, file: &File, state: &mut FileState, range: Range<u64>) {
        if !state.shares {
            return;
        }
        let before = self.allocator.uses(state, range.clone());
        let pieces = self.allocator.reclaim(file.id, state.map.lookup(range.clone()));
        // What has a place of its own needs no promise.
        pieces.iter().for_each(|piece| state.promised.remove(piece.first..piece.end()));
        let after = self.allocator.uses(state, range);
        self.account(state, before, after, &mut 0);
    }

    /// Moves shared data, once for all who have it; whoever moves it holds it. `false`: no room, not even for the cleaner.
    pub(super) fn move_shared(&self, parts: &[SharedPart], work: &mut CleaningWork) -> FsResult<bool> {
        for part in parts {
            let Some(owners) = self.owners_of(part)? else { continue };
            let Some(content) = self.read_to_move(part.span)? else { continue };
            let mut done = 0;
            while done < part.span.count {
                let owner = part.owners[0];
                let run = owner.granule + done..owner.granule + part.span.count;
                let load = WriteBatch::moved(from_ref(&run), self.rest(&content, part.span.count, done), true);
                let Some(written) = self.write_block(owner.file, None, &load)? else { return Ok(false) };
                for (copy, _) in written {
                    let original = Span { at: part.span.at + done, count: copy.count };
                    self.hand_out(original, copy, owners.iter().map(|(file, owner)| (file, owner.further(done))));
                    work.moved_bytes += copy.count * self.granule_bytes;
                    done += copy.count;
                }
            }
            self.counters.moves.add(1);
        }
        Ok(true)
    }

    /// The files of all who share a part. None if that of one can't be read: it stays where it is, for all of them.
    fn owners_of(&self, part: &SharedPart) -> FsResult<Option<Vec<OwnerFile>>> {
        let mut owners = Vec::with_capacity(part.owners.len());
        for &owner in &part.owners {
            match self.file(owner.file) {
                Ok(file) => owners.push((file, owner)),
                // Its last name went meanwhile.
                Err(error) if error.errno() == Errno::ENOENT => {}
                Err(error) if is_damage(&error) => {
                    self.counters.unmovable.add(1);
                    self.allocator.leave(part.span);
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some(owners))
    }

    /// Has all owners of `original` name its copy instead.
    fn hand_out<'a>(&self, original: Span, copy: Span, owners: impl Iterator<Item = (&'a Arc<File>, Owner)>) {
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
        for piece in FileSystem::placed(&state, owner.granule..owner.granule + original.count) {
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
