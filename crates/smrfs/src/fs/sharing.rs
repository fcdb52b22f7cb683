//! Sharing of a file's extents with others: who may have them as well, and what the durable record says of it.

/// The part that a file has in shared extents.
#[derive(Default)]
pub(super) struct Sharing {
    /// True if others may have some of its extents as well.
    shares: bool,
    /// True if the durable record says so.
    says_so: bool,
    /// Writes of it that wait for room, which was promised to what is not shared.
    stalled: u32,
}

impl Sharing {
    /// A file that was read from the store: whether it shares, and its record says so.
    pub(super) fn loaded(shares: bool, says_so: bool) -> Sharing {
        Sharing { shares, says_so: shares && says_so, stalled: 0 }
    }

    /// Others may have some of its extents from now on.
    pub(super) fn begin(&mut self) {
        self.shares = true;
    }

    pub(super) fn shares(&self) -> bool {
        self.shares
    }

    /// A record that says it shares, or not, is durable.
    pub(super) fn note_durable(&mut self, says_so: bool) {
        self.says_so |= says_so;
    }

    /// True if a durable record says that it shares.
    pub(super) fn says_so(&self) -> bool {
        self.says_so
    }

    /// A write begins to wait for room.
    pub(super) fn stall(&mut self) {
        self.stalled += 1;
    }

    /// A write waits no longer.
    pub(super) fn unstall(&mut self) {
        self.stalled -= 1;
    }

    /// True if a write waits for room.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled > 0
    }
}
