//! The file system: names from the metadata store, data on the shingled disk, and the order that keeps them together.

mod allocator;
mod clean;
mod commit;
mod disk;
mod file;
pub(crate) mod mount;
mod names;
mod place;
mod read;
mod shared;
pub mod statistics;
#[cfg(any(test, feature = "testing"))]
#[path = "../../tests/testing/fs.rs"]
mod testing;
#[cfg(test)]
mod tests;
mod write;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::{Mutex, RwLock};

use crate::error::{Errno, FsResult};
use crate::meta::MetadataStore;
use crate::units::{Granule, NodeId, Owner, Span};
use commit::Commits;
pub use disk::Scrubbed;
use file::{File, Files};
pub use mount::{Adopted, DamagedMap, Unsaved, adopt_maps};
use place::DataStore;
use statistics::{Statistics, Usage};

/// Options of a mounted file system; none of them is stored on the disk.
#[derive(Clone, Debug)]
pub struct FsOptions {
    /// The largest block, in granules: 1 MiB.
    pub block_granules: u64,
    /// Bytes of unwritten data in memory, over all files, before some is written.
    pub buffer_bytes: u64,
    /// Requests of at least this many bytes go straight to the disk.
    pub direct_bytes: u64,
    /// Extents of maps in memory, over all files, before the least recently used are dropped.
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
    /// Promises room, and grows the file if needed.
    Extend,
    /// Promises room, and keeps the size.
    KeepSize,
    /// Makes a hole; the size stays.
    Punch,
    /// Makes the range read as zeros; grows the file if needed (`true`) or keeps the size.
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
/// Locks are taken in this order: the cleaner's, that of commits of everything (or that of names), a file's commit, a file's state (of two
/// files the lower number's first), the allocator, the small ones. A thread that holds a lock of a file never waits for the cleaner.
pub struct FileSystem {
    store: Arc<dyn MetadataStore>,
    options: FsOptions,
    data: DataStore,
    files: Files,
    commits: Commits,
    /// One thread cleans at a time.
    cleaning: Mutex<()>,
    /// Held shared while a name is created, exclusively while one is removed or moved, so that the target of a rename can't change.
    names: RwLock<()>,
    unmounted: AtomicBool,
    damaged: Vec<DamagedMap>,
}

impl FileSystem {
    /// The regular file of that number.
    fn file(&self, id: NodeId) -> FsResult<Arc<File>> {
        self.files.file(id, &self.data)
    }

    /// Makes everything durable, and keeps it unchanged on the disk until [`FileSystem::let_go`], so that it can be copied while programs
    /// run on. The caller copies the returned store while it is `frozen`, and lets nobody else in meanwhile. EBUSY if it is kept for
    /// another copy already.
    pub fn keep(&self) -> FsResult<Arc<dyn MetadataStore>> {
        // The maps that will be copied do not name what this frees, so only what becomes free later is kept.
        self.sync_all()?;
        if self.data.allocator.keep() { Ok(self.store.clone()) } else { Err(Errno::EBUSY.into()) }
    }

    /// True as long as the disk is kept unchanged. Ends when a program needs the space.
    pub fn keeps(&self) -> bool {
        self.data.allocator.keeps()
    }

    /// Ends what [`FileSystem::keep`] began; `false` if nothing was kept.
    pub fn let_go(&self) -> bool {
        self.data.allocator.let_go()
    }

    /// EROFS if nothing may be changed.
    fn changeable(&self) -> FsResult {
        let refused = self.unmounted.load(Relaxed) || self.flush_failed();
        if self.options.read_only || refused { Err(Errno::EROFS.into()) } else { Ok(()) }
    }

    /// True once a flush has failed: nothing is acknowledged or changed any more.
    pub fn flush_failed(&self) -> bool {
        self.data.disk.flush_failed()
    }

    /// Space and its use, for `statfs` and more.
    pub fn usage(&self) -> FsResult<Usage> {
        let room = self.store.room()?;
        let counts = self.data.allocator.space.lock().counts();
        let rooms = *self.data.allocator.rooms.lock();
        Ok(Usage {
            granule_bytes: self.data.granule_bytes,
            usable: rooms.usable,
            free: rooms.free(),
            beyond_host: self.data.granules_beyond_host(rooms.free())?,
            live: rooms.mapped,
            promised: rooms.promised,
            counts,
            nodes: room.nodes,
            free_nodes: room.free_nodes,
            name_bytes: room.name_bytes,
        })
    }

    /// Files whose maps can't be used, as far as the mount has read maps.
    pub fn damaged_maps(&self) -> &[DamagedMap] {
        &self.damaged
    }

    /// Live spans of the disk with their owners, in ascending order.
    pub fn live(&self) -> Vec<(Span, Owner)> {
        self.data.allocator.space.lock().live().from(Granule(0)).collect()
    }

    /// Live spans of the disk with several owners, with the owners other than the one in `live`.
    pub fn further_owners(&self) -> Vec<(Span, Owner)> {
        let (space, shared) = (self.data.allocator.space.lock(), self.data.allocator.shared.read());
        shared.all().filter(|&(span, owner)| !space.live().holds(span, owner)).collect()
    }

    /// Counts since the mount.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            read_bytes: self.data.disk.read_bytes.load(Relaxed),
            buffered_bytes: self.data.buffers.bytes(),
            dirty_files: self.data.dirty.lock().len() as u64,
            ..*self.data.counters.lock()
        }
    }
}
