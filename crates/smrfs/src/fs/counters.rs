//! Counting what is done, from several threads.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::statistics::Statistics;

/// A number that several threads add to.
#[derive(Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    pub(super) fn take(&self, less: u64) {
        self.0.fetch_sub(less, Relaxed);
    }

    pub(super) fn at_least(&self, value: u64) {
        self.0.fetch_max(value, Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Counts since the mount of all that nobody else counts.
#[derive(Default)]
pub(super) struct Counters {
    pub host_written: Counter,
    pub host_read: Counter,
    pub written: Counter,
    pub moved: Counter,
    pub moves: Counter,
    pub unmovable: Counter,
    pub resets: Counter,
    pub failed_resets: Counter,
    pub commits: Counter,
    pub stalls: Counter,
    pub longest_stall_ns: Counter,
    pub waited_ns: Counter,
    pub most_moved: Counter,
}

impl Counters {
    /// Takes note of what cleaning did for one write of the host.
    pub(super) fn count(&self, work: &CleaningWork) {
        self.stalls.add(u64::from(work.stalled));
        self.longest_stall_ns.at_least(work.waited_ns);
        self.waited_ns.add(work.waited_ns);
        self.most_moved.at_least(work.moved_bytes);
    }

    pub(super) fn statistics(&self) -> Statistics {
        Statistics {
            host_written_bytes: self.host_written.get(),
            host_read_bytes: self.host_read.get(),
            written_bytes: self.written.get(),
            moved_bytes: self.moved.get(),
            moves: self.moves.get(),
            unmovable: self.unmovable.get(),
            resets: self.resets.get(),
            failed_resets: self.failed_resets.get(),
            commits: self.commits.get(),
            stalls: self.stalls.get(),
            longest_stall_ns: self.longest_stall_ns.get(),
            waited_ns: self.waited_ns.get(),
            most_moved_for_one_write_bytes: self.most_moved.get(),
            ..Statistics::default()
        }
    }
}

/// Work of cleaning for one call of the host.
#[derive(Default)]
pub(super) struct CleaningWork {
    /// Looks for something to clean that found nothing, one after the other.
    pub looks_without_gain: u32,
    /// Bytes that it moved.
    pub moved_bytes: u64,
    /// Steps of it.
    pub steps: u64,
    /// Time for which the call waited for it.
    pub waited_ns: u64,
    /// True if it could not go on without.
    pub stalled: bool,
}
