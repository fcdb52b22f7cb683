//! One power supply for a disk and a metadata store: it fails at an operation of a test's choosing.
//!
//! Device and store in memory count every write, reset, flush, change and sync on the same counter, so that a cut at any
//! point hits both. What of the unsynced survives is theirs to decide.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// A power supply and the operations done on it.
#[derive(Debug, Default)]
pub struct Power {
    operations: AtomicU64,
    /// The number of the first operation that finds the power off; 0: it never fails.
    cut: AtomicU64,
}

impl Power {
    /// One that never fails.
    pub fn new() -> Power {
        Power::default()
    }

    /// One that fails at operation number `operation`, counted from 1: that one and all later ones are not done.
    pub fn failing_at(operation: u64) -> Power {
        Power { operations: AtomicU64::new(0), cut: AtomicU64::new(operation) }
    }

    /// An operation begins; `false`: the power is off, nothing may be done.
    pub fn operation(&self) -> bool {
        let number = self.operations.fetch_add(1, SeqCst) + 1;
        let cut = self.cut.load(SeqCst);
        cut == 0 || number < cut
    }

    /// True if the power is on.
    pub fn is_on(&self) -> bool {
        let cut = self.cut.load(SeqCst);
        cut == 0 || self.operations.load(SeqCst) < cut
    }

    /// Operations begun so far, including the one that the cut hit.
    pub fn operations(&self) -> u64 {
        self.operations.load(SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_the_cut_on_nothing_is_done() {
        let power = Power::failing_at(3);
        assert!(power.operation() && power.operation() && power.is_on());
        assert!(!power.operation() && !power.operation() && !power.is_on());
        assert_eq!(power.operations(), 4);
    }
}
