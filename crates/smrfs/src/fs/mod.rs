//! The file system: names from the metadata store, data on the shingled disk, and the order that keeps them together.

mod adopt;
mod allocate;
mod allocator;
mod attributes;
mod buffer;
mod buffers;
mod cache;
mod clean;
mod cleaner;
mod commit;
mod counters;
#[cfg(test)]
mod decision_tests;
mod disk;
mod file;
mod join;
pub(crate) mod mount;
mod names;
mod pending;
mod place;
mod read;
mod room;
pub(crate) mod saved;
mod scrub;
mod share;
mod shared;
pub mod statistics;
mod unsynced;
mod write;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::RwLock;

use crate::device::HostManaged;
use crate::error::FsResult;
use crate::meta::MetadataStore;
use crate::units::{Owner, Span};
pub use adopt::{Adopted, adopt_maps};
use allocator::Allocator;
use buffers::Buffers;
use cache::Files;
use cleaner::FileCleaner;
use counters::Counters;
use disk::Disk;
use pending::Pending;
pub use scrub::Scrubbed;
use statistics::{Statistics, Usage};

/// Behaviour of a file system; nothing of it is on the disk.
#[derive(Clone, Debug)]
pub struct FsOptions {
    /// The largest block, in granules: 1 MiB.
    pub block_granules: u64,
    /// Bytes of unwritten data in memory, over all files, before some is written.
    pub buffer_bytes: u64,
    /// Requests of at least this many bytes go straight to the disk.
    pub direct_bytes: u64,
    /// Extents of maps in memory, over all files, before the longest unused are dropped.
    pub cached_extents: usize,
    /// True if nothing may be changed.
    pub read_only: bool,
}

impl Default for FsOptions {
    fn default() -> FsOptions {
        FsOptions {
            block_granules: 256,
            buffer_bytes: 8 << 20,
            direct_bytes: 64 << 10,
            cached_extents: 1 << 20,
            read_only: false,
        }
    }
}

/// Modes of fallocate(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// Promise room, and make the file longer where needed.
    Extend,
    /// Promise room, and leave the size.
    KeepSize,
    /// Make a hole; the size stays.
    Punch,
    /// Make it read as zeros; the size grows where needed (`true`) or stays.
    Zero(bool),
}

/// Targets of lseek(2): data or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The next byte of data.
    Data,
    /// The next byte of a hole; the end of the file is one.
    Hole,
}

/// A mounted file system. Its methods may be called from several threads.
///
/// Locks are taken in this order: the cleaner's, that of commits of everything (or that of names), a file's commit, a
/// file's state (of two files the lower number's first), the allocator, the small ones. Nobody waits for the cleaner who
/// holds a lock of a file.
pub struct FileSystem {
    store: Arc<dyn MetadataStore>,
    options: FsOptions,
    granule_bytes: u64,
    disk: Disk,
    allocator: Allocator,
    files: Files,
    buffers: Buffers,
    pending: Pending,
    cleaner: FileCleaner,
    /// Held shared while a name is made, alone while one is taken away: what a rename replaces is known before.
    names: RwLock<()>,
    unmounted: AtomicBool,
    counters: Counters,
}

impl FileSystem {
    fn new(
        device: Arc<dyn HostManaged>,
        store: Arc<dyn MetadataStore>,
        allocator: Allocator,
        options: FsOptions,
        next_part: u64,
    ) -> FileSystem {
        FileSystem {
            granule_bytes: device.shape().granule_bytes,
            disk: Disk::new(device),
            store,
            allocator,
            files: Files::new(options.cached_extents),
            options,
            buffers: Buffers::default(),
            pending: Pending::new(next_part),
            cleaner: FileCleaner::default(),
            names: RwLock::default(),
            unmounted: AtomicBool::new(false),
            counters: Counters::default(),
        }
    }

    /// Room and its use, as `statfs` tells them, and more.
    pub fn usage(&self) -> FsResult<Usage> {
        let room = self.store.room()?;
        let (counts, rooms) = (self.allocator.counts(), self.allocator.rooms());
        Ok(Usage {
            granule_bytes: self.granule_bytes,
            usable: rooms.usable,
            free: rooms.free(),
            beyond_host: self.beyond_host(rooms.free())?,
            live: rooms.mapped,
            promised: rooms.promised,
            counts,
            nodes: room.nodes,
            free_nodes: room.free_nodes,
            name_bytes: room.name_bytes,
        })
    }

    /// Files whose maps are in memory.
    pub fn files_in_memory(&self) -> usize {
        self.files.count()
    }

    /// Live spans of the disk with their owners, in ascending order.
    pub fn live(&self) -> Vec<(Span, Owner)> {
        self.allocator.live()
    }

    /// Live spans of the disk that several have, with their owners other than the one that `live` tells.
    pub fn further_owners(&self) -> Vec<(Span, Owner)> {
        self.allocator.further_owners()
    }

    /// Compares what is kept step by step with a recount; says what is wrong. For tests: nothing else may go on.
    pub fn check(&self) -> Result<(), String> {
        self.allocator.check()
    }

    /// Counts since the mount.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            read_bytes: self.disk.read_bytes(),
            buffered_bytes: self.buffers.bytes(),
            dirty_files: self.pending.count(),
            ..self.counters.statistics()
        }
    }
}
