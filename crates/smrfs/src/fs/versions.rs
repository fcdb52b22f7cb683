//! Versions of a file: how much of what has changed in memory the store has durably.

/// Changes of a file, counted.
#[derive(Default)]
pub(super) struct Versions {
    /// Counts changes of what a record holds.
    newest: u64,
    /// The change up to which the store has it durably.
    durable: u64,
    /// The last change of data or size.
    written: u64,
}

impl Versions {
    /// Counts a change of what a record holds; true if the store had the newest version until now.
    pub(super) fn change(&mut self) -> bool {
        self.newest += 1;
        self.newest == self.durable + 1
    }

    /// The last change was one of data or size.
    pub(super) fn note_written(&mut self) {
        self.written = self.newest;
    }

    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// The store has the file durably as it was after that change.
    pub(super) fn note_durable(&mut self, change: u64) {
        self.durable = change;
    }

    /// True if the store's record is older than the file in memory.
    pub(super) fn is_dirty(&self) -> bool {
        self.newest != self.durable
    }

    /// True if data or size have changed since they were made durable.
    pub(super) fn is_unsaved(&self) -> bool {
        self.written > self.durable
    }
}
