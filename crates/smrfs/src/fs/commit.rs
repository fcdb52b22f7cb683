//! Making things durable: data, flush, map, and only then is the old place free. The map's own commit may flush data as well.
//!
//! `sync` does so for one file. A commit of everything flushes the disk once and the store once. What a snapshot names was
//! written before it was taken, so no lock on a file's state is held while the disk works.

use std::sync::Arc;

use parking_lot::MutexGuard;

use super::FileSystem;
use super::allocate::BEHIND_ALL;
use super::counters::CleaningWork;
use super::file::{File, FileState, Times};
use super::pending::UnlinkedFile;
use crate::error::{Errno, FsError, FsResult};
use crate::map::{Head, StoragePlan};
use crate::meta::MetadataStore;
use crate::units::{NodeId, Span};

/// A file as it is to be durable.
struct Snapshot {
    file: Arc<File>,
    /// None for a file without a name: nothing of it is to last.
    plan: Option<StoragePlan>,
    /// Not in this map any more.
    retired: Vec<Span>,
    /// Changes that are durable then; none if something was still in the buffer.
    changes: Option<u64>,
    size: u64,
    /// True if this map says that it shares.
    shares: bool,
}

impl FileSystem {
    /// Makes a file durable: data, map, attributes and the name it was last made or moved under.
    pub fn sync(&self, id: NodeId) -> FsResult {
        if self.options.read_only {
            return Ok(());
        }
        match self.file(id) {
            Ok(file) => self.save(&file)?,
            Err(error) if error.errno() == Errno::EISDIR => return self.sync_dir(id),
            Err(error) if error.errno() == Errno::EINVAL => self.store.sync(id)?,
            Err(error) => return Err(error),
        }
        self.sync_names(id)
    }

    /// Makes the names in a directory durable.
    pub fn sync_dir(&self, id: NodeId) -> FsResult {
        if self.options.read_only {
            return Ok(());
        }
        self.store.sync_dir(id)?;
        self.sync_names(id)
    }

    fn sync_names(&self, id: NodeId) -> FsResult {
        let changes = self.pending.names_of(id);
        for (directory, _) in &changes {
            match self.store.sync_dir(*directory) {
                // It is gone, and with it the name.
                Err(error) if error.errno() == Errno::ENOENT => {}
                result => result?,
            }
        }
        self.pending.names_synced(id, &changes);
        Ok(())
    }

    /// Makes data, map and attributes of a file durable.
    pub(super) fn save(&self, file: &Arc<File>) -> FsResult {
        let mut work = CleaningWork::default();
        loop {
            let seen = self.allocator.progress();
            let commit = file.commit.lock();
            let mut state = file.lock();
            if state.gone {
                return Ok(());
            }
            if self.write_out(file, &mut state)? {
                if state.is_dirty() {
                    drop(state);
                    // The disk works while the map is put together.
                    self.disk.start_flush();
                    state = file.lock();
                    if state.gone {
                        return Ok(());
                    }
                }
                let snapshot = self.snapshot(file, &mut state);
                drop(state);
                self.count(&work);
                return self.save_snapshot(file, snapshot);
            }
            // Whoever makes room may have to commit this file.
            drop(state);
            drop(commit);
            self.make_room(seen, &mut work)?;
        }
    }

    fn save_snapshot(&self, file: &Arc<File>, snapshot: Option<Snapshot>) -> FsResult {
        self.counters.commits.add(1);
        let Some(snapshot) = snapshot else { return self.sync_store(|store| store.sync(file.id)) };
        if snapshot.plan.is_none() {
            // Its old blocks are free only when it is durably without a name.
            self.restore(snapshot);
            return self.disk.flush();
        }
        let result = self.disk.flush_with(self.store.journal()).and_then(|()| self.store_snapshot(&snapshot));
        match result.and_then(|()| self.sync_store(|store| store.sync(file.id))) {
            Ok(()) => {
                self.finish(snapshot);
                Ok(())
            }
            Err(error) => {
                let unlinked = file.look().unlinked;
                self.restore(snapshot);
                if unlinked { Ok(()) } else { Err(error) }
            }
        }
    }

    /// Makes everything durable (what a commit in the background does, too).
    pub fn sync_all(&self) -> FsResult {
        if self.options.read_only {
            return Ok(());
        }
        let mut failure = None;
        let waiting = self.buffers.all();
        for file in waiting {
            let mut work = CleaningWork::default();
            if let Err(error) = self.write_out_all(&file, &mut work) {
                failure = Some(error);
            }
            self.count(&work);
        }
        self.commit()?;
        failure.map_or(Ok(()), Err)
    }

    /// Makes durable what has been written, and frees what that replaced. Needs no room.
    pub(super) fn commit(&self) -> FsResult {
        let _one = self.pending.alone();
        let Some(files) = self.pending.due() else { return Ok(()) };
        self.counters.commits.add(1);
        let commits: Vec<MutexGuard<'_, ()>> = files.iter().map(|file| file.commit.lock()).collect();
        let taken = self.pending.begin();
        let snapshots = files.iter().filter_map(|file| {
            let mut state = file.lock();
            if !state.unlinked {
                // What finds no room or can't be written stays buffered.
                let _ = self.write_out(file, &mut state);
            }
            self.snapshot(file, &mut state)
        });
        let snapshots: Vec<Snapshot> = snapshots.collect();
        let result = self.commit_snapshots(snapshots);
        drop(commits);
        match &result {
            Ok(()) => self.pending.done(taken).into_iter().for_each(|gone| self.free(gone)),
            Err(_) => self.pending.undone(taken),
        }
        result
    }

    /// Flushes once, stores what can be stored, syncs once. A map that can't be stored stays as it is, and is an error.
    fn commit_snapshots(&self, snapshots: Vec<Snapshot>) -> FsResult {
        if !snapshots.is_empty()
            && let Err(error) = self.disk.flush_with(self.store.journal())
        {
            snapshots.into_iter().for_each(|snapshot| self.restore(snapshot));
            return Err(error);
        }
        let (mut stored, mut failure) = (Vec::with_capacity(snapshots.len()), None);
        for snapshot in snapshots {
            match self.store_snapshot(&snapshot) {
                Ok(()) => stored.push(snapshot),
                Err(error) => {
                    // A file that lost its last name meanwhile, or loses it now, has no use for a map.
                    if !snapshot.file.look().unlinked && error.errno() != Errno::ENOENT {
                        failure = Some(error);
                    }
                    self.restore(snapshot);
                }
            }
        }
        if let Err(error) = self.sync_store(|store| store.sync_all()) {
            stored.into_iter().for_each(|snapshot| self.restore(snapshot));
            return Err(error);
        }
        stored.into_iter().for_each(|snapshot| self.finish(snapshot));
        failure.map_or(Ok(()), Err)
    }

    /// The file as it is now, if its record is older. What is retired so far goes along.
    fn snapshot(&self, file: &Arc<File>, state: &mut FileState) -> Option<Snapshot> {
        if state.gone || (!state.is_dirty() && state.retired.is_empty()) {
            return None;
        }
        let size = state.size_to_commit(self.granule_bytes);
        // A change that failed half-way has set no time yet.
        let times = *state.times.get_or_insert_with(|| {
            let now = self.store.now();
            Times { mtime: now, ctime: now }
        });
        let promised = state.promised.count_within(0..BEHIND_ALL);
        let head = Head { size, mtime: times.mtime, ctime: times.ctime, promised, shares: state.shares };
        let mut number = || self.pending.new_part();
        let plan = (!state.unlinked)
            .then(|| state.stored.plan(&mut state.map, &head, self.store.map_bytes_max(), &mut number));
        self.files.weigh(file, state.map.extents());
        Some(Snapshot {
            file: file.clone(),
            plan,
            retired: std::mem::take(&mut state.retired),
            changes: state.buffer.is_empty().then_some(state.changes),
            size,
            shares: state.shares,
        })
    }

    /// Makes durable what the store has. Where that is to flush the disk as well, its failure is a flush's.
    fn sync_store(&self, sync: impl FnOnce(&dyn MetadataStore) -> FsResult) -> FsResult {
        sync(&*self.store).inspect_err(|error| {
            if self.store.journal().is_some() && [Errno::EIO, Errno::EROFS].contains(&error.errno()) {
                self.disk.flush_has_failed();
            }
        })
    }

    /// Hands parts and record to the store; on an error the record is still the old one, and the parts are removed.
    fn store_snapshot(&self, snapshot: &Snapshot) -> FsResult {
        let Some(plan) = &snapshot.plan else { return Ok(()) };
        let remove = |_: &FsError| self.remove_parts(plan.parts.iter().map(|(number, _)| *number));
        self.store.spill(&plan.parts).inspect_err(remove)?;
        // Without name and open the file's number may be another file's by now; while it is locked it can't lose them.
        let state = snapshot.file.look();
        if state.gone {
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

    /// The snapshot is durable: what it replaced is free.
    fn finish(&self, snapshot: Snapshot) {
        let mut state = snapshot.file.lock();
        let mut obsolete = snapshot.plan.map_or(Vec::new(), |plan| state.stored.done(plan));
        if state.gone {
            // It lost its last name meanwhile, and this map with it.
            obsolete.extend(state.stored.numbers());
            drop(state);
            self.pending.put_off(UnlinkedFile { spans: snapshot.retired, parts: obsolete });
            return;
        }
        state.says_shared |= snapshot.shares;
        if let Some(changes) = snapshot.changes {
            state.durable = changes;
            state.settled_size = state.settled_size.max(snapshot.size.min(state.size));
        }
        if !state.is_dirty() {
            self.pending.remove(snapshot.file.id);
        }
        drop(state);
        self.free(UnlinkedFile { spans: snapshot.retired, parts: obsolete });
    }

    /// The snapshot is not durable, or nobody knows: what it replaced stays.
    fn restore(&self, snapshot: Snapshot) {
        let mut state = snapshot.file.lock();
        if state.gone {
            // It lost its last name meanwhile.
            drop(state);
            self.pending.put_off(UnlinkedFile { spans: snapshot.retired, parts: Vec::new() });
            return;
        }
        state.retired.extend(snapshot.retired);
        self.pending.add(&snapshot.file);
    }

    /// No durable map names these any more.
    fn free(&self, gone: UnlinkedFile) {
        self.allocator.release(gone.spans, |span| self.disk.discard(span));
        self.remove_parts(gone.parts);
    }
}
