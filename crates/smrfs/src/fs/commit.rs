//! Durability: when data, maps and names reach the disk, and when replaced extents become free.
//!
//! 1. Data is written to a free place.
//! 2. The disk is flushed. Some stores do that themselves with the next step.
//! 3. The map that names the new place is stored and synced.
//! 4. The old place is free.
//!
//! `sync` does so for one file and the names that lead to it. A commit of everything flushes the disk once and the store once. Data that a
//! snapshot names was written before the snapshot, so no lock on a file's state is held while the disk works.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::{Mutex, MutexGuard};

use super::FileSystem;
use super::file::{File, FileState, Times};
use super::place::SMALL_PIECES;
use super::statistics::CleaningWork;
use crate::error::{Errno, FsError, FsResult};
use crate::map::{Head, StoragePlan};
use crate::units::{NodeId, Span};

/// A file at the moment of a commit.
pub(super) struct Snapshot {
    file: Arc<File>,
    /// `None` for a file without a name, which need not be durable.
    plan: Option<StoragePlan>,
    /// Extents that this map no longer names.
    retired: Vec<Span>,
    /// The version that the commit makes durable; `None` if data was still in the buffer.
    version: Option<u64>,
    size: u64,
    /// True if this map says that it shares extents.
    shares: bool,
}

/// Extents and parts of a file that no map in memory names any more. They are freed when this is durable.
pub(super) struct UnlinkedFile {
    pub spans: Vec<Span>,
    /// The parts of its map in the store.
    pub parts: Vec<u64>,
}

/// Changes that the next commit has to make durable, besides files: names, and the release of replaced extents.
#[derive(Default)]
pub(super) struct Commits {
    /// Held during a commit of everything.
    committing: Mutex<()>,
    pending_free: Mutex<Vec<UnlinkedFile>>,
    pub unsynced: Mutex<Unsynced>,
    /// True if the store has changes besides maps that are not durable.
    store_changed: AtomicBool,
    /// The number that the next new part of a map will have.
    pub next_part: AtomicU64,
}

impl Commits {
    /// Leaves extents and parts to the next commit, which frees them.
    pub(super) fn free_at_next_commit(&self, gone: UnlinkedFile) {
        if !gone.spans.is_empty() || !gone.parts.is_empty() {
            self.pending_free.lock().push(gone);
        }
    }

    /// Notes that the store has changes that are not durable.
    pub(super) fn store_changed(&self) {
        self.store_changed.store(true, Relaxed);
    }

    /// Notes that a node got a name in that directory, or lost one.
    pub(super) fn named(&self, id: NodeId, directory: NodeId) {
        self.store_changed();
        self.unsynced.lock().add(id, directory);
    }
}

impl FileSystem {
    /// Makes the names under which a node was last created or moved durable.
    fn sync_names(&self, id: NodeId) -> FsResult {
        let changes = self.commits.unsynced.lock().directories(id);
        for (directory, _) in &changes {
            match self.data.disk.make_durable(|| self.store.sync_dir(*directory)) {
                // The directory is gone, and with it the name.
                Err(error) if error.errno() == Errno::ENOENT => {}
                result => result?,
            }
        }
        self.commits.unsynced.lock().synced(id, &changes);
        Ok(())
    }

    /// Makes a snapshot durable: its data first, then its map. Without a snapshot, only syncs the store. Returns true if it stored a map.
    fn save_snapshot(&self, file: &Arc<File>, snapshot: Option<Snapshot>) -> FsResult<bool> {
        self.data.counters.lock().commits += 1;
        let sync = || self.data.disk.make_durable(|| self.store.sync(file.id));
        let Some(snapshot) = snapshot else { return sync().map(|()| false) };
        if snapshot.plan.is_none() {
            // Its old blocks are freed only when the removal of its name is durable.
            self.restore(snapshot);
            return self.data.disk.flush().map(|()| false);
        }
        let result = self.data.disk.flush_with(self.store.journal()).and_then(|()| self.store_snapshot(&snapshot));
        match result.and_then(|()| sync()) {
            Ok(()) => {
                self.finish(snapshot);
                Ok(true)
            }
            Err(error) => {
                let unlinked = file.look().is_unlinked;
                self.restore(snapshot);
                // A file removed meanwhile has nothing to make durable.
                if unlinked { Ok(false) } else { Err(error) }
            }
        }
    }

    /// Makes all writes durable, and frees the extents that they replaced. Needs no free space, so it also works on a full disk.
    pub(super) fn commit(&self) -> FsResult {
        // Before any lock is taken, because while a copy of the store is made others need them to make their changes.
        self.store.wait_for_thaw();
        let _one = self.commits.committing.lock();
        let dirty: Vec<Arc<File>> = self.data.dirty.lock().values().cloned().collect();
        // Cleared before the sync, so that a change made during it is left to the next commit.
        let store_changed = self.commits.store_changed.swap(false, Relaxed);
        if dirty.is_empty() && !store_changed && self.commits.pending_free.lock().is_empty() {
            return Ok(());
        }
        self.data.counters.lock().commits += 1;
        // All are locked before the first snapshot, because a file whose fsync is under way could store an older map after a newer one.
        let commits: Vec<MutexGuard<'_, ()>> = dirty.iter().map(|file| file.commit.lock()).collect();
        // Taken before the snapshots: an extent that is retired later may still be in a map that is stored now, and is left to the next commit.
        let freed = std::mem::take(&mut *self.commits.pending_free.lock());
        self.commits.unsynced.lock().begin();
        let snapshots = dirty.iter().filter_map(|file| {
            let mut state = file.lock();
            if !state.is_unlinked {
                // Data that finds no room, or can't be written, stays buffered.
                let _ = self.data.write_out(file, &mut state);
            }
            self.snapshot(file, &mut state)
        });
        let snapshots: Vec<Snapshot> = snapshots.collect();
        let result = self.commit_snapshots(snapshots);
        drop(commits);
        self.commits.unsynced.lock().end(result.is_ok());
        match &result {
            Ok(()) => freed.into_iter().for_each(|gone| self.free(gone)),
            // Which changes are durable is unknown, so old and new places both stay in use.
            Err(_) => {
                self.commits.pending_free.lock().extend(freed);
                self.commits.store_changed();
            }
        }
        result
    }

    /// Flushes once, stores the maps that can be stored, and syncs once. If a map can't be stored, the old one stays: an error.
    fn commit_snapshots(&self, snapshots: Vec<Snapshot>) -> FsResult {
        if !snapshots.is_empty()
            && let Err(error) = self.data.disk.flush_with(self.store.journal())
        {
            snapshots.into_iter().for_each(|snapshot| self.restore(snapshot));
            return Err(error);
        }
        let (mut stored, mut failure) = (Vec::with_capacity(snapshots.len()), None);
        for snapshot in snapshots {
            match self.store_snapshot(&snapshot) {
                Ok(()) => stored.push(snapshot),
                Err(error) => {
                    // A file that has lost its last name meanwhile needs no map.
                    if !snapshot.file.look().is_unlinked && error.errno() != Errno::ENOENT {
                        failure = Some(error);
                    }
                    self.restore(snapshot);
                }
            }
        }
        if let Err(error) = self.data.disk.make_durable(|| self.store.sync_all()) {
            stored.into_iter().for_each(|snapshot| self.restore(snapshot));
            // After a failed sync of a part, the sync of everything fails as its consequence.
            return Err(failure.unwrap_or(error));
        }
        stored.into_iter().for_each(|snapshot| self.finish(snapshot));
        failure.map_or(Ok(()), Err)
    }

    /// Takes a snapshot of a file, with the extents retired so far; `None` if there is nothing to commit.
    fn snapshot(&self, file: &Arc<File>, state: &mut FileState) -> Option<Snapshot> {
        if state.is_gone || (!state.is_dirty() && state.retired.is_empty()) {
            return None;
        }
        let size = state.size_to_commit(self.data.granule_bytes);
        // The times are missing after a change that failed half-way.
        let times = *state.times.get_or_insert_with(|| {
            let now = self.data.now();
            Times { mtime: now, ctime: now }
        });
        let promised = state.promises.ranges.count();
        let head = Head { size, mtime: times.mtime, ctime: times.ctime, promised, shares: state.shares };
        let mut number = || self.commits.next_part.fetch_add(1, Relaxed);
        let plan = (!state.is_unlinked)
            .then(|| state.stored.plan(&mut state.map, &head, self.store.map_bytes_max(), &mut number));
        self.files.weigh(file, state.map.weight());
        Some(Snapshot {
            file: file.clone(),
            plan,
            retired: std::mem::take(&mut state.retired),
            // With data still in the buffer, the file stays dirty.
            version: state.buffer.is_empty().then_some(state.version),
            size,
            shares: state.shares,
        })
    }

    /// Writes parts and record to the store. After an error the old record still stands, and the new parts are removed.
    fn store_snapshot(&self, snapshot: &Snapshot) -> FsResult {
        let Some(plan) = &snapshot.plan else { return Ok(()) };
        let remove = |_: &FsError| self.remove_parts(plan.parts.iter().map(|(number, _)| *number));
        plan.parts.iter().try_for_each(|(number, part)| self.store.store_spill(*number, part)).inspect_err(remove)?;
        // All parts are written before the first is waited for.
        let sync = |(number, _): &(u64, Vec<u8>)| self.data.disk.make_durable(|| self.store.sync_spill(*number));
        plan.parts.iter().try_for_each(sync).inspect_err(remove)?;
        // The number of a file that is neither named nor open may be another file's by now. The lock keeps this one from becoming so.
        let state = snapshot.file.look();
        if state.is_gone {
            return Ok(());
        }
        self.store.store_map(snapshot.file.id, &plan.record).inspect_err(remove)
    }

    /// Removes parts that no durable record names. One that stays is removed at the next scan.
    fn remove_parts(&self, parts: impl IntoIterator<Item = u64>) {
        for number in parts {
            let _ = self.store.remove_spill(number);
        }
    }

    /// Completes a snapshot that is durable: frees the extents and parts that it replaced.
    fn finish(&self, snapshot: Snapshot) {
        let mut state = snapshot.file.lock();
        let mut obsolete = snapshot.plan.map_or(Vec::new(), |plan| state.stored.adopt(plan));
        if state.is_gone {
            // It lost its last name meanwhile, and this map with it.
            obsolete.extend(state.stored.numbers());
            drop(state);
            self.commits.free_at_next_commit(UnlinkedFile { spans: snapshot.retired, parts: obsolete });
            return;
        }
        state.record_shares |= snapshot.shares;
        if let Some(version) = snapshot.version {
            state.durable_version = version;
            // All bytes of the snapshot are on the disk. The file may have been cut meanwhile.
            state.settled_size = state.settled_size.max(snapshot.size.min(state.size));
        }
        if !state.is_dirty() {
            self.data.dirty.lock().remove(&snapshot.file.id);
        }
        drop(state);
        self.free(UnlinkedFile { spans: snapshot.retired, parts: obsolete });
    }

    /// Takes back a snapshot that may not be durable: the extents it replaced stay retired, and the file dirty.
    fn restore(&self, snapshot: Snapshot) {
        let mut state = snapshot.file.lock();
        if state.is_gone {
            // It lost its last name meanwhile.
            drop(state);
            self.commits.free_at_next_commit(UnlinkedFile { spans: snapshot.retired, parts: Vec::new() });
            return;
        }
        state.retired.extend(snapshot.retired);
        self.data.dirty.lock().insert(snapshot.file.id, snapshot.file.clone());
    }

    /// Frees extents and parts that no durable map names any more.
    fn free(&self, gone: UnlinkedFile) {
        self.data.allocator.release(gone.spans);
        self.remove_parts(gone.parts);
    }

    /// Joins the pieces of a file, a block at a time. Returns whether there is more to do.
    #[cfg(any(test, feature = "testing"))]
    pub fn defragment(&self, id: NodeId) -> FsResult<bool> {
        self.changeable()?;
        let file = self.file(id)?;
        self.data.join_step(&file, 2)
    }

    /// Joins a block of a file that was written in small pieces, if room is plentiful.
    fn join_in_background(&self) -> FsResult<bool> {
        let Some(id) = self.data.fragmented.lock().first().copied() else { return Ok(false) };
        let rooms = *self.data.allocator.rooms.lock();
        let has_room = rooms.free() > rooms.usable / 8;
        let more = match self.file(id) {
            Ok(file) if has_room => self.data.join_step(&file, SMALL_PIECES as usize),
            _ => Ok(false),
        };
        match more {
            Ok(true) => Ok(true),
            more => {
                let mut others = self.data.fragmented.lock();
                others.remove(&id);
                more.map(|_| !others.is_empty())
            }
        }
    }

    /// Does one bounded step of background work (writing out, cleaning, joining). `idle` if nothing else is to do. Returns whether there is
    /// more. Commits come from `sync_all`, on the caller's timer.
    pub fn background(&self, idle: bool) -> FsResult<bool> {
        if self.changeable().is_err() {
            return Ok(false);
        }
        let more = self.background_step(idle)?;
        if idle && more {
            // Without this flush, the next fsync would wait until the disk has written all that idle steps left in its cache.
            self.data.disk.flush()?;
        }
        Ok(more)
    }

    fn background_step(&self, idle: bool) -> FsResult<bool> {
        let cleaner = self.cleaning.lock();
        let seen = self.data.allocator.progress();
        if let Some(step) = self.data.allocator.next_step(idle) {
            self.execute(step, seen, &mut CleaningWork::default())?;
            return Ok(true);
        }
        // Writing out may clean, which takes this lock again.
        drop(cleaner);
        Ok(idle && (self.write_out_oldest(&mut CleaningWork::default())? || self.join_in_background()?))
    }

    /// Makes a file durable: data, map, attributes and the name under which it was last created or moved.
    pub fn sync(&self, id: NodeId) -> FsResult {
        if self.options.read_only {
            return Ok(());
        }
        let names = self.commits.unsynced.lock().directories(id);
        let has_stored = match self.file(id) {
            Ok(file) => self.save(&file)?,
            Err(error) if error.errno() == Errno::EISDIR => return self.sync_dir(id),
            // A symbolic link, a device or the like, which has no data to write out.
            Err(error) if error.errno() == Errno::EINVAL => {
                self.data.disk.make_durable(|| self.store.sync(id))?;
                false
            }
            Err(error) => return Err(error),
        };
        if has_stored && self.store.journal().is_some() {
            // The journal commits changes in order, so the commit with the new map has made the names, which are older, durable too. The record
            // of a file that was dirty differs from the stored one, by its ctime if by nothing else: an attribute that is set to the value that it
            // has would not be in the journal's current transaction, and the fsync would be content with an older one.
            self.commits.unsynced.lock().synced(id, &names);
            return Ok(());
        }
        self.sync_names(id)
    }

    /// Makes the names in a directory durable.
    pub fn sync_dir(&self, id: NodeId) -> FsResult {
        if self.options.read_only {
            return Ok(());
        }
        self.data.disk.make_durable(|| self.store.sync_dir(id))?;
        self.sync_names(id)
    }

    /// Makes data, map and attributes of a file durable. Returns true if it stored a map.
    pub(super) fn save(&self, file: &Arc<File>) -> FsResult<bool> {
        self.store.wait_for_thaw();
        let mut work = CleaningWork::default();
        loop {
            let seen = self.data.allocator.progress();
            let commit = file.commit.lock();
            let mut state = file.lock();
            if state.is_gone {
                return Ok(false);
            }
            if self.data.write_out(file, &mut state)? {
                if state.is_dirty() {
                    drop(state);
                    // The disk can begin to flush while the map is encoded.
                    self.data.disk.start_flush();
                    state = file.lock();
                    if state.is_gone {
                        return Ok(false);
                    }
                }
                let snapshot = self.snapshot(file, &mut state);
                drop(state);
                self.data.counters.lock().count(&work);
                return self.save_snapshot(file, snapshot);
            }
            // Unlocked, because making room may have to commit this file.
            drop(state);
            drop(commit);
            self.make_room(seen, &mut work)?;
        }
    }

    /// Makes everything durable, as a background commit does.
    pub fn sync_all(&self) -> FsResult {
        if self.options.read_only {
            return Ok(());
        }
        if self.flush_failed() {
            return Err(Errno::EIO.into());
        }
        let mut failure = None;
        let waiting = self.data.buffers.all();
        for file in waiting {
            let mut work = CleaningWork::default();
            if let Err(error) = self.write_out_all(&file, &mut work) {
                failure = Some(error);
            }
            self.data.counters.lock().count(&work);
        }
        self.commit()?;
        failure.map_or(Ok(()), Err)
    }

    /// Writes out the buffer of the file that waits longest; returns `false` if there is none.
    pub(super) fn write_out_oldest(&self, work: &mut CleaningWork) -> FsResult<bool> {
        let Some(file) = self.data.buffers.longest_waiting() else { return Ok(false) };
        let result = self.write_out_all(&file, work);
        if result.is_err() {
            self.data.buffers.queue_again(&file, &mut file.lock());
        }
        result.map(|()| true)
    }

    /// Writes out a file's buffer, making room if there is none.
    fn write_out_all(&self, file: &Arc<File>, work: &mut CleaningWork) -> FsResult {
        loop {
            // Noted before the attempt, so that `make_room` does not clean if room became free meanwhile.
            let seen = self.data.allocator.progress();
            let mut state = file.lock();
            if self.data.write_out(file, &mut state)? {
                return Ok(());
            }
            drop(state);
            self.make_room(seen, work)?;
        }
    }
}

/// A directory in which a node's names have changed, and the number of the change.
pub(super) type Change = (NodeId, u64);

/// For each node the directories in which its names have changed since the last commit of everything.
#[derive(Default)]
pub(super) struct Unsynced {
    /// Changes since the last commit began.
    pending: HashMap<NodeId, Vec<Change>>,
    /// Changes that a commit under way makes durable.
    committing: HashMap<NodeId, Vec<Change>>,
    changes: u64,
}

impl Unsynced {
    /// Notes that a name of `id` in `directory` was created or removed.
    pub(super) fn add(&mut self, id: NodeId, directory: NodeId) {
        self.changes += 1;
        let directories = self.pending.entry(id).or_default();
        directories.retain(|(other, _)| *other != directory);
        directories.push((directory, self.changes));
    }

    /// All nodes whose names may not be durable, in order.
    pub(super) fn nodes(&self) -> Vec<NodeId> {
        let nodes: BTreeSet<NodeId> = self.pending.keys().chain(self.committing.keys()).copied().collect();
        nodes.into_iter().collect()
    }

    /// The changes to make durable for `id`, then those for their directories, and so on up to the root.
    pub(super) fn directories(&self, id: NodeId) -> Vec<Change> {
        let mut found: Vec<Change> = Vec::new();
        let (mut visited, mut node) = (0, id);
        loop {
            for map in [&self.pending, &self.committing] {
                for change in map.get(&node).into_iter().flatten() {
                    if !found.iter().any(|(other, _)| *other == change.0) {
                        found.push(*change);
                    }
                }
            }
            let Some(&(directory, _)) = found.get(visited) else { return found };
            (visited, node) = (visited + 1, directory);
        }
    }

    /// Forgets changes of names of `id`, and of the directories with these names, that are durable now.
    pub(super) fn synced(&mut self, id: NodeId, durable: &[Change]) {
        for node in durable.iter().map(|(directory, _)| *directory).chain([id]) {
            let Some(left) = self.pending.get_mut(&node) else { continue };
            left.retain(|change| !durable.contains(change));
            if left.is_empty() {
                self.pending.remove(&node);
            }
        }
    }

    /// Begins a commit of everything.
    pub(super) fn begin(&mut self) {
        self.committing = std::mem::take(&mut self.pending);
    }

    /// Ends the commit under way. If it failed, its changes are pending again.
    pub(super) fn end(&mut self, durable: bool) {
        let committing = std::mem::take(&mut self.committing);
        if !durable {
            for (id, changes) in committing {
                changes.into_iter().for_each(|(directory, _)| self.add(id, directory));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_durable_once_also_for_the_files_below_it() {
        let (root, folder, one, two) = (NodeId(1), NodeId(2), NodeId(3), NodeId(4));
        let mut unsynced = Unsynced::default();
        unsynced.add(folder, root);
        unsynced.add(one, folder);
        unsynced.add(two, folder);
        let directories = |changes: &[Change]| changes.iter().map(|change| change.0).collect::<Vec<_>>();
        let of_one = unsynced.directories(one);
        assert_eq!(directories(&of_one), [folder, root]);
        // Moved meanwhile: that is another change.
        unsynced.add(folder, root);
        unsynced.synced(one, &of_one);
        assert!(unsynced.directories(one).is_empty());
        let of_two = unsynced.directories(two);
        assert_eq!(directories(&of_two), [folder, root]);
        unsynced.synced(two, &of_two);
        unsynced.add(one, folder);
        assert_eq!(directories(&unsynced.directories(one)), [folder], "the folder's own name is durable");
    }
}
