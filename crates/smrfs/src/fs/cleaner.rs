//! Cleaning, and joining of files when there is nothing else to do.

use std::collections::BTreeSet;

use parking_lot::{Mutex, MutexGuard};

use crate::units::NodeId;

/// One thread cleans at a time. Nobody waits for it while holding a lock on a file.
#[derive(Default)]
pub(super) struct FileCleaner {
    one: Mutex<()>,
    /// Files written in small pieces.
    fragmented: Mutex<BTreeSet<NodeId>>,
}

impl FileCleaner {
    /// Waits until nobody else cleans.
    pub(super) fn alone(&self) -> MutexGuard<'_, ()> {
        self.one.lock()
    }

    /// A file has been written in small pieces.
    pub(super) fn add_fragmented(&self, id: NodeId) {
        self.fragmented.lock().insert(id);
    }

    /// One of the files that were.
    pub(super) fn fragmented(&self) -> Option<NodeId> {
        self.fragmented.lock().first().copied()
    }

    /// It has been joined, or can't be; tells whether there are others.
    pub(super) fn remove_fragmented(&self, id: NodeId) -> bool {
        let mut fragmented = self.fragmented.lock();
        fragmented.remove(&id);
        !fragmented.is_empty()
    }
}
