//! Files that wait: to have their buffers written out, to be committed, to be joined.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::counters::Counter;
use super::file::{File, FileState};
use crate::units::NodeId;

/// The files with something in their buffers, in the order in which they are to be written out. Any may leave.
#[derive(Default)]
struct Queue {
    files: BTreeMap<u64, Arc<File>>,
    next: u64,
}

/// Buffered data of all files.
#[derive(Default)]
pub(super) struct Buffers {
    queue: Mutex<Queue>,
    bytes: Counter,
}

impl Buffers {
    /// Unwritten bytes in memory.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// `bytes` more are buffered.
    pub(super) fn added(&self, bytes: u64) {
        self.bytes.add(bytes);
    }

    /// `bytes` are buffered no more; a file with nothing left need not wait.
    pub(super) fn removed(&self, state: &mut FileState, bytes: u64) {
        self.bytes.take(bytes);
        if state.buffer.is_empty()
            && let Some(turn) = state.waiting.take()
        {
            self.queue.lock().files.remove(&turn);
        }
    }

    /// Puts a file at the end, if it does not wait yet.
    pub(super) fn queue(&self, file: &Arc<File>, state: &mut FileState) {
        if state.waiting.is_none() {
            state.waiting = Some(self.queue.lock().join(file));
        }
    }

    /// Puts a file that waits at the end: others come first now.
    pub(super) fn queue_again(&self, file: &Arc<File>, state: &mut FileState) {
        if let Some(turn) = state.waiting {
            let mut queue = self.queue.lock();
            queue.files.remove(&turn);
            state.waiting = Some(queue.join(file));
        }
    }

    /// The file that waits longest.
    pub(super) fn first(&self) -> Option<Arc<File>> {
        self.queue.lock().files.values().next().cloned()
    }

    /// All files that wait.
    pub(super) fn all(&self) -> Vec<Arc<File>> {
        self.queue.lock().files.values().cloned().collect()
    }
}

impl Queue {
    fn join(&mut self, file: &Arc<File>) -> u64 {
        self.next += 1;
        self.files.insert(self.next, file.clone());
        self.next
    }
}

/// Files whose record is to be stored, or that have something to release.
#[derive(Default)]
pub(super) struct DirtyFiles(Mutex<BTreeMap<NodeId, Arc<File>>>);

impl DirtyFiles {
    /// A file's record has to be stored.
    pub(super) fn add(&self, file: &Arc<File>) {
        self.0.lock().insert(file.id, file.clone());
    }

    /// Forgets a node that is stored, or has nothing to store any more.
    pub(super) fn remove(&self, id: NodeId) {
        self.0.lock().remove(&id);
    }

    pub(super) fn all(&self) -> Vec<Arc<File>> {
        self.0.lock().values().cloned().collect()
    }

    pub(super) fn count(&self) -> u64 {
        self.0.lock().len() as u64
    }
}

/// Files written in small pieces, to be joined when there is nothing else to do.
#[derive(Default)]
pub(super) struct FragmentedFiles(Mutex<BTreeSet<NodeId>>);

impl FragmentedFiles {
    pub(super) fn add(&self, id: NodeId) {
        self.0.lock().insert(id);
    }

    pub(super) fn first(&self) -> Option<NodeId> {
        self.0.lock().first().copied()
    }

    /// Forgets a file that was joined, or can't be; tells whether there are others.
    pub(super) fn remove(&self, id: NodeId) -> bool {
        let mut files = self.0.lock();
        files.remove(&id);
        !files.is_empty()
    }
}
