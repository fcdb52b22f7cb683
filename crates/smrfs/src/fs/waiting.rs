//! The files with something in their buffers, in the order in which they are to be written out.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::file::File;

/// Files in a queue that any of them may leave.
#[derive(Default)]
pub(super) struct Waiting {
    files: BTreeMap<u64, Arc<File>>,
    next: u64,
}

impl Waiting {
    /// Puts a file at the end; tells its turn.
    pub(super) fn join(&mut self, file: Arc<File>) -> u64 {
        self.next += 1;
        self.files.insert(self.next, file);
        self.next
    }

    pub(super) fn leave(&mut self, turn: u64) {
        self.files.remove(&turn);
    }

    /// The file that waits longest.
    pub(super) fn first(&self) -> Option<Arc<File>> {
        self.files.values().next().cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<File>> {
        self.files.values().cloned().collect()
    }
}
