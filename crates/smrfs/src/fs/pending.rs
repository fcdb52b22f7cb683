//! Changes that the next commit has to make durable: maps, names, and the end of what they replaced.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::{Mutex, MutexGuard};

use super::file::File;
use super::unsynced::{Change, Unsynced};
use crate::units::{NodeId, Span};

/// Room of a file that no map in memory names any more, until that is durable.
pub(super) struct UnlinkedFile {
    pub spans: Vec<Span>,
    /// The parts of its map in the store.
    pub parts: Vec<u64>,
}

/// Changes that are not durable yet.
pub(super) struct Pending {
    /// Held during a commit of everything.
    committing: Mutex<()>,
    /// Files whose record is to be stored, or that have something to release.
    files: Mutex<BTreeMap<NodeId, Arc<File>>>,
    pending_free: Mutex<Vec<UnlinkedFile>>,
    unsynced: Mutex<Unsynced>,
    /// True if the store has something that is not durable, besides maps.
    store: AtomicBool,
    next_part: AtomicU64,
}

/// Room that a commit of everything frees when it is done.
pub(super) struct Taken(Vec<UnlinkedFile>);

impl Pending {
    /// Nothing yet; new parts of maps are numbered from `next_part` on.
    pub(super) fn new(next_part: u64) -> Pending {
        Pending {
            committing: Mutex::default(),
            files: Mutex::default(),
            pending_free: Mutex::default(),
            unsynced: Mutex::default(),
            store: AtomicBool::new(false),
            next_part: AtomicU64::new(next_part),
        }
    }

    /// A file's record has to be stored.
    pub(super) fn add(&self, file: &Arc<File>) {
        self.files.lock().insert(file.id, file.clone());
    }

    /// It is stored, or there is nothing to store any more.
    pub(super) fn remove(&self, id: NodeId) {
        self.files.lock().remove(&id);
    }

    pub(super) fn files(&self) -> Vec<Arc<File>> {
        self.files.lock().values().cloned().collect()
    }

    pub(super) fn count(&self) -> u64 {
        self.files.lock().len() as u64
    }

    /// Keeps what is to be freed with the next commit.
    pub(super) fn put_off(&self, gone: UnlinkedFile) {
        if !gone.spans.is_empty() || !gone.parts.is_empty() {
            self.pending_free.lock().push(gone);
        }
    }

    /// The store has something that is not durable.
    pub(super) fn store_changed(&self) {
        self.store.store(true, Relaxed);
    }

    /// A node has a new name, in that directory, or none there any more.
    pub(super) fn named(&self, id: NodeId, directory: NodeId) {
        self.store_changed();
        self.unsynced.lock().add(id, directory);
    }

    /// The changes of names to make durable for a node.
    pub(super) fn names_of(&self, id: NodeId) -> Vec<Change> {
        self.unsynced.lock().directories(id)
    }

    /// These changes are durable.
    pub(super) fn names_synced(&self, id: NodeId, durable: &[Change]) {
        self.unsynced.lock().synced(id, durable);
    }

    /// The number of a new part of a map, each once.
    pub(super) fn new_part(&self) -> u64 {
        self.next_part.fetch_add(1, Relaxed)
    }

    /// The number that the next part will have.
    pub(super) fn next_part(&self) -> u64 {
        self.next_part.load(Relaxed)
    }

    /// Waits for a commit of everything that is under way.
    pub(super) fn alone(&self) -> MutexGuard<'_, ()> {
        self.committing.lock()
    }

    /// The files to commit, where there is anything to commit at all. The caller is alone.
    pub(super) fn due(&self) -> Option<Vec<Arc<File>>> {
        let files = self.files();
        let nothing = files.is_empty() && self.pending_free.lock().is_empty();
        (self.store.swap(false, Relaxed) || !nothing).then_some(files)
    }

    /// A commit begins, its files are locked: what is put off from now on is for the next one.
    pub(super) fn begin(&self) -> Taken {
        let freed = std::mem::take(&mut *self.pending_free.lock());
        self.unsynced.lock().begin();
        Taken(freed)
    }

    /// It has ended well: tells what is free now.
    pub(super) fn done(&self, taken: Taken) -> Vec<UnlinkedFile> {
        self.unsynced.lock().end(true);
        taken.0
    }

    /// It has failed: all is as it was.
    pub(super) fn undone(&self, taken: Taken) {
        self.unsynced.lock().end(false);
        self.pending_free.lock().extend(taken.0);
        self.store_changed();
    }
}
