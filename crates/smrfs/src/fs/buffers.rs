//! All files' buffers: how much is in them, and which is to be written out next.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::counters::Counter;
use super::file::{File, FileState};

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

    /// So much more is buffered.
    pub(super) fn added(&self, bytes: u64) {
        self.bytes.add(bytes);
    }

    /// So much is buffered no more; a file with nothing left need not wait.
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
