//! Figures of a mounted file system.

use serde::{Deserialize, Serialize};

use crate::space::Counts;

/// Space and its use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Bytes of a granule.
    pub granule_bytes: u64,
    /// Granules that files can fill in all.
    pub usable: u64,
    /// Granules free for files: usable less live less promised.
    pub free: u64,
    /// Free granules for which the host of the image has no room.
    pub beyond_host: u64,
    /// Granules in maps.
    pub live: u64,
    /// Granules promised to data not yet written, and by fallocate.
    pub promised: u64,
    /// Granules of the disk by what may be done with them.
    pub counts: Counts,
    /// Files the store has room for, in all.
    pub nodes: u64,
    /// Of them free.
    pub free_nodes: u64,
    /// Longest name in bytes.
    pub name_bytes: u32,
}

impl Usage {
    /// The size for files: `usable`, or more if a crash has brought back more data than that.
    pub fn size(&self) -> u64 {
        self.usable.max(self.live.saturating_add(self.promised)).saturating_sub(self.beyond_host)
    }

    /// The granules that can be filled now: free ones for which the host of the image has room.
    pub fn available(&self) -> u64 {
        self.free.saturating_sub(self.beyond_host)
    }
}

/// Counters since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// Bytes that hosts wrote.
    pub host_written_bytes: u64,
    /// Bytes that hosts read.
    pub host_read_bytes: u64,
    /// Bytes written to the disk for hosts.
    pub written_bytes: u64,
    /// Bytes written to the disk by the cleaner and the defragmenter.
    pub moved_bytes: u64,
    /// Bytes read from the disk, for whatever reason.
    pub read_bytes: u64,
    /// Pieces that the cleaner moved.
    pub moves: u64,
    /// Pieces that the cleaner had to leave where they are: the disk does not read them, or their file's map is damaged.
    pub unmovable: u64,
    /// Bands that were reset.
    pub resets: u64,
    /// Times that the disk did not reset a band.
    pub failed_resets: u64,
    /// Commits, and fsyncs.
    pub commits: u64,
    /// Host writes that found no room without cleaning.
    pub stalls: u64,
    /// The longest that one host write waited for cleaning, forced or ahead of need, by the disk's clock.
    pub longest_stall_ns: u64,
    /// Time that host writes waited for cleaning in all, forced or in the background, by the disk's clock.
    pub waited_ns: u64,
    /// The most bytes that cleaning moved while one write waited.
    pub most_moved_for_one_write_bytes: u64,
    /// Unwritten bytes in memory.
    pub buffered_bytes: u64,
    /// Files whose map in memory is newer than the durable one.
    pub dirty_files: u64,
}

impl Statistics {
    /// Counts the cleaning for one write of the host.
    pub(super) fn count(&mut self, work: &CleaningWork) {
        self.stalls += u64::from(work.stalled);
        self.longest_stall_ns = self.longest_stall_ns.max(work.waited_ns);
        self.waited_ns += work.waited_ns;
        self.most_moved_for_one_write_bytes = self.most_moved_for_one_write_bytes.max(work.moved_bytes);
    }
}

/// Work of cleaning for one call of the host.
#[derive(Default)]
pub(super) struct CleaningWork {
    /// Consecutive searches that found nothing to clean.
    pub looks_without_gain: u32,
    /// Bytes that it moved.
    pub moved_bytes: u64,
    /// Steps of it.
    pub steps: u64,
    /// Time for which the call waited for cleaning.
    pub waited_ns: u64,
    /// True if the call could not continue without it.
    pub stalled: bool,
}
