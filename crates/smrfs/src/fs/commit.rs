//! Making things durable: data, flush, map, and only then is the old place free. The map's own commit may flush data as well.
//!
//! `sync` does so for one file. A commit of everything flushes the disk once and the store once. What a snapshot names was
//! written before it was taken, so no lock on a file's state is held while the disk works.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::{Mutex, MutexGuard};

use super::cache::Files;
use super::file::{File, FileState, Times};
use super::place::DataStore;
use super::unsynced::Unsynced;
use super::waiting::DirtyFiles;
use crate::error::{Errno, FsError, FsResult};
use crate::map::{Head, StoragePlan};
use crate::meta::MetadataStore;
use crate::units::{NodeId, Span};

/// A file as it is to be durable.
pub(super) struct Snapshot {
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

/// Room of a file that no map in memory names any more, until that is durable.
pub(super) struct UnlinkedFile {
    pub spans: Vec<Span>,
    /// The parts of its map in the store.
    pub parts: Vec<u64>,
}

/// Changes that the next commit has to make durable, besides files: names, and the end of what was replaced.
pub(super) struct Committer {
    store: Arc<dyn MetadataStore>,
    /// Held during a commit of everything.
    committing: Mutex<()>,
    pending_free: Mutex<Vec<UnlinkedFile>>,
    unsynced: Mutex<Unsynced>,
    /// True if the store has something that is not durable, besides maps.
    store_changed: AtomicBool,
    next_part: AtomicU64,
}

/// Room that a commit of everything frees when it is done.
struct Taken(Vec<UnlinkedFile>);

impl Committer {
    /// Nothing yet; new parts of maps are numbered from `next_part` on.
    pub(super) fn new(store: Arc<dyn MetadataStore>, next_part: u64) -> Committer {
        Committer {
            store,
            committing: Mutex::default(),
            pending_free: Mutex::default(),
            unsynced: Mutex::default(),
            store_changed: AtomicBool::new(false),
            next_part: AtomicU64::new(next_part),
        }
    }

    /// Keeps what is to be freed with the next commit.
    pub(super) fn put_off(&self, gone: UnlinkedFile) {
        if !gone.spans.is_empty() || !gone.parts.is_empty() {
            self.pending_free.lock().push(gone);
        }
    }

    /// The store has something that is not durable.
    pub(super) fn store_changed(&self) {
        self.store_changed.store(true, Relaxed);
    }

    /// A node has a new name, in that directory, or none there any more.
    pub(super) fn named(&self, id: NodeId, directory: NodeId) {
        self.store_changed();
        self.unsynced.lock().add(id, directory);
    }

    /// Makes durable the names under which a node was last made or moved.
    pub(super) fn sync_names(&self, data: &DataStore, id: NodeId) -> FsResult {
        let changes = self.unsynced.lock().directories(id);
        for (directory, _) in &changes {
            match data.disk.make_durable(|| self.store.sync_dir(*directory)) {
                // It is gone, and with it the name.
                Err(error) if error.errno() == Errno::ENOENT => {}
                result => result?,
            }
        }
        self.unsynced.lock().synced(id, &changes);
        Ok(())
    }

    /// Nodes whose names may not be durable.
    pub(super) fn unsynced_nodes(&self) -> Vec<NodeId> {
        self.unsynced.lock().nodes()
    }

    /// The number of a new part of a map, each once.
    fn new_part(&self) -> u64 {
        self.next_part.fetch_add(1, Relaxed)
    }

    /// The number that the next part will have.
    pub(super) fn next_part(&self) -> u64 {
        self.next_part.load(Relaxed)
    }

    pub(super) fn save_snapshot(&self, data: &DataStore, file: &Arc<File>, snapshot: Option<Snapshot>) -> FsResult {
        data.counters.commits.add(1);
        let sync = || data.disk.make_durable(|| self.store.sync(file.id));
        let Some(snapshot) = snapshot else { return sync() };
        if snapshot.plan.is_none() {
            // Its old blocks are free only when it is durably without a name.
            self.restore(data, snapshot);
            return data.disk.flush();
        }
        let result = data.disk.flush_with(self.store.journal()).and_then(|()| self.store_snapshot(data, &snapshot));
        match result.and_then(|()| sync()) {
            Ok(()) => {
                self.finish(data, snapshot);
                Ok(())
            }
            Err(error) => {
                let unlinked = file.look().handles.is_unlinked();
                self.restore(data, snapshot);
                if unlinked { Ok(()) } else { Err(error) }
            }
        }
    }

    /// Makes durable what has been written, and frees what that replaced. Needs no room.
    pub(super) fn commit(&self, data: &DataStore, files: &Files) -> FsResult {
        let _one = self.committing.lock();
        let Some(due) = self.due(&data.dirty) else { return Ok(()) };
        data.counters.commits.add(1);
        let commits: Vec<MutexGuard<'_, ()>> = due.iter().map(|file| file.commit.lock()).collect();
        let taken = self.begin();
        let snapshots = due.iter().filter_map(|file| {
            let mut state = file.lock();
            if !state.handles.is_unlinked() {
                // What finds no room or can't be written stays buffered.
                let _ = data.write_out(file, &mut state);
            }
            self.snapshot(data, files, file, &mut state)
        });
        let snapshots: Vec<Snapshot> = snapshots.collect();
        let result = self.commit_snapshots(data, snapshots);
        drop(commits);
        match &result {
            Ok(()) => self.done(taken).into_iter().for_each(|gone| self.free(data, gone)),
            Err(_) => self.undone(taken),
        }
        result
    }

    /// Flushes once, stores what can be stored, syncs once. A map that can't be stored stays as it is, and is an error.
    fn commit_snapshots(&self, data: &DataStore, snapshots: Vec<Snapshot>) -> FsResult {
        if !snapshots.is_empty()
            && let Err(error) = data.disk.flush_with(self.store.journal())
        {
            snapshots.into_iter().for_each(|snapshot| self.restore(data, snapshot));
            return Err(error);
        }
        let (mut stored, mut failure) = (Vec::with_capacity(snapshots.len()), None);
        for snapshot in snapshots {
            match self.store_snapshot(data, &snapshot) {
                Ok(()) => stored.push(snapshot),
                Err(error) => {
                    // A file that lost its last name meanwhile, or loses it now, has no use for a map.
                    if !snapshot.file.look().handles.is_unlinked() && error.errno() != Errno::ENOENT {
                        failure = Some(error);
                    }
                    self.restore(data, snapshot);
                }
            }
        }
        if let Err(error) = data.disk.make_durable(|| self.store.sync_all()) {
            stored.into_iter().for_each(|snapshot| self.restore(data, snapshot));
            // After a failed sync of a part this is only its echo.
            return Err(failure.unwrap_or(error));
        }
        stored.into_iter().for_each(|snapshot| self.finish(data, snapshot));
        failure.map_or(Ok(()), Err)
    }

    /// The file as it is now, if its record is older. What is retired so far goes along.
    pub(super) fn snapshot(
        &self,
        data: &DataStore,
        files: &Files,
        file: &Arc<File>,
        state: &mut FileState,
    ) -> Option<Snapshot> {
        if state.handles.is_gone() || (!state.versions.is_dirty() && !state.has_retired()) {
            return None;
        }
        let size = state.size_to_commit(data.granule_bytes);
        // A change that failed half-way has set no time yet.
        let times = *state.times.get_or_insert_with(|| {
            let now = data.now();
            Times { mtime: now, ctime: now }
        });
        let promised = state.promises.granules();
        let head = Head { size, mtime: times.mtime, ctime: times.ctime, promised, shares: state.sharing.shares() };
        let mut number = || self.new_part();
        let plan = (!state.handles.is_unlinked())
            .then(|| state.stored.plan(&mut state.map, &head, self.store.map_bytes_max(), &mut number));
        files.weigh(file, state.map.extents());
        Some(Snapshot {
            file: file.clone(),
            plan,
            retired: state.take_retired(),
            changes: state.buffer.is_empty().then_some(state.versions.newest()),
            size,
            shares: state.sharing.shares(),
        })
    }

    /// Hands parts and record to the store; on an error the record is still the old one, and the parts are removed.
    fn store_snapshot(&self, data: &DataStore, snapshot: &Snapshot) -> FsResult {
        let Some(plan) = &snapshot.plan else { return Ok(()) };
        let remove = |_: &FsError| self.remove_parts(plan.parts.iter().map(|(number, _)| *number));
        plan.parts.iter().try_for_each(|(number, part)| self.store.store_spill(*number, part)).inspect_err(remove)?;
        // All are written before the first is waited for.
        let sync = |(number, _): &(u64, Vec<u8>)| data.disk.make_durable(|| self.store.sync_spill(*number));
        plan.parts.iter().try_for_each(sync).inspect_err(remove)?;
        // Without name and open the file's number may be another file's by now; while it is locked it can't lose them.
        let state = snapshot.file.look();
        if state.handles.is_gone() {
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
    fn finish(&self, data: &DataStore, snapshot: Snapshot) {
        let mut state = snapshot.file.lock();
        let mut obsolete = snapshot.plan.map_or(Vec::new(), |plan| state.stored.done(plan));
        if state.handles.is_gone() {
            // It lost its last name meanwhile, and this map with it.
            obsolete.extend(state.stored.numbers());
            drop(state);
            self.put_off(UnlinkedFile { spans: snapshot.retired, parts: obsolete });
            return;
        }
        state.sharing.note_durable(snapshot.shares);
        if let Some(changes) = snapshot.changes {
            state.versions.note_durable(changes);
            state.settled_size = state.settled_size.max(snapshot.size.min(state.size));
        }
        if !state.versions.is_dirty() {
            data.dirty.remove(snapshot.file.id);
        }
        drop(state);
        self.free(data, UnlinkedFile { spans: snapshot.retired, parts: obsolete });
    }

    /// The snapshot is not durable, or nobody knows: what it replaced stays.
    fn restore(&self, data: &DataStore, snapshot: Snapshot) {
        let mut state = snapshot.file.lock();
        if state.handles.is_gone() {
            // It lost its last name meanwhile.
            drop(state);
            self.put_off(UnlinkedFile { spans: snapshot.retired, parts: Vec::new() });
            return;
        }
        state.put_back_retired(snapshot.retired);
        data.dirty.add(&snapshot.file);
    }

    /// No durable map names these any more.
    fn free(&self, data: &DataStore, gone: UnlinkedFile) {
        data.allocator.release(gone.spans, |span| data.disk.discard(span));
        self.remove_parts(gone.parts);
    }

    /// The files to commit, where there is anything to commit at all. The caller is alone.
    fn due(&self, dirty: &DirtyFiles) -> Option<Vec<Arc<File>>> {
        let files = dirty.all();
        let nothing = files.is_empty() && self.pending_free.lock().is_empty();
        (self.store_changed.swap(false, Relaxed) || !nothing).then_some(files)
    }

    /// A commit begins, its files are locked: what is put off from now on is for the next one.
    fn begin(&self) -> Taken {
        let freed = std::mem::take(&mut *self.pending_free.lock());
        self.unsynced.lock().begin();
        Taken(freed)
    }

    /// Ends a commit that went well; tells what is free now.
    fn done(&self, taken: Taken) -> Vec<UnlinkedFile> {
        self.unsynced.lock().end(true);
        taken.0
    }

    /// Ends a commit that failed: all is as it was.
    fn undone(&self, taken: Taken) {
        self.unsynced.lock().end(false);
        self.pending_free.lock().extend(taken.0);
        self.store_changed();
    }
}
