//! The file system: names from the metadata store, data on the shingled disk, and the order that keeps them together.

mod allocate;
mod attributes;
mod buffer;
mod cache;
mod clean;
mod commit;
mod counters;
mod file;
mod join;
mod locks;
pub(crate) mod mount;
mod names;
mod place;
mod read;
mod room;
pub(crate) mod saved;
pub mod statistics;
mod unsynced;
mod waiting;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, RwLock};

use crate::device::HostManaged;
use crate::error::FsResult;
use crate::meta::MetadataStore;
use crate::space::Space;
use crate::units::{Granule, NodeId, Owner, Span};
use cache::Files;
use counters::Counters;
use file::File;
use locks::lock;
use names::Gone;
use room::Rooms;
use statistics::{Statistics, Usage};
use unsynced::Unsynced;
use waiting::Waiting;

/// How a file system behaves; nothing of it is on the disk.
#[derive(Clone, Debug)]
pub struct Options {
    /// The largest block, in granules: 1 MiB.
    pub block_granules: u64,
    /// Bytes of unwritten data in memory, over all files, before some is written.
    pub buffer_bytes: u64,
    /// Requests of at least so many bytes go straight to the disk.
    pub direct_bytes: u64,
    /// Extents of maps in memory, over all files, before the longest unused are dropped.
    pub cached_extents: usize,
    /// Whether nothing may be changed.
    pub read_only: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            block_granules: 256,
            buffer_bytes: 8 << 20,
            direct_bytes: 64 << 10,
            cached_extents: 1 << 20,
            read_only: false,
        }
    }
}

/// What fallocate(2) is to do.
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

/// What lseek(2) looks for.
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
/// file's state, the space, the small ones. Nobody waits for the cleaner who holds a lock of a file.
pub struct FileSystem {
    device: Arc<dyn HostManaged>,
    store: Arc<dyn MetadataStore>,
    options: Options,
    granule_bytes: u64,
    space: Mutex<Box<dyn Space>>,
    rooms: Mutex<Rooms>,
    files: Files,
    waiting: Mutex<Waiting>,
    /// Files whose record is to be stored, or that have something to release.
    dirty: Mutex<BTreeMap<NodeId, Arc<File>>>,
    /// Files written in small pieces.
    fragmented: Mutex<BTreeSet<NodeId>>,
    limbo: Mutex<Vec<Gone>>,
    unsynced: Mutex<Unsynced>,
    /// Whether the store has something that is not durable, beside maps.
    unsynced_store: AtomicBool,
    /// Held shared while a name is made, alone while one is taken away: what a rename replaces is known before.
    names: RwLock<()>,
    cleaner: Mutex<()>,
    committing: Mutex<()>,
    /// Held while the disk is flushed: a failure is told to one caller only, and counts for all.
    flushing: Mutex<()>,
    flush_failed: AtomicBool,
    /// Counts what may have made room.
    progress: AtomicU64,
    next_part: AtomicU64,
    blank: AtomicBool,
    unmounted: AtomicBool,
    counters: Counters,
}

impl FileSystem {
    fn new(
        device: Arc<dyn HostManaged>,
        store: Arc<dyn MetadataStore>,
        space: Box<dyn Space>,
        options: Options,
        rooms: Rooms,
        next_part: u64,
    ) -> FileSystem {
        FileSystem {
            granule_bytes: device.shape().granule_bytes,
            device,
            store,
            space: Mutex::new(space),
            rooms: Mutex::new(rooms),
            files: Files::new(options.cached_extents),
            options,
            waiting: Mutex::default(),
            dirty: Mutex::default(),
            fragmented: Mutex::default(),
            limbo: Mutex::default(),
            unsynced: Mutex::default(),
            unsynced_store: AtomicBool::new(false),
            names: RwLock::default(),
            cleaner: Mutex::default(),
            committing: Mutex::default(),
            flushing: Mutex::default(),
            flush_failed: AtomicBool::new(false),
            progress: AtomicU64::new(0),
            next_part: AtomicU64::new(next_part),
            blank: AtomicBool::new(false),
            unmounted: AtomicBool::new(false),
            counters: Counters::default(),
        }
    }

    /// What `statfs` tells, and more.
    pub fn usage(&self) -> FsResult<Usage> {
        let room = self.store.room()?;
        let counts = lock(&self.space).counts();
        let rooms = *lock(&self.rooms);
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

    /// What lies where on the disk, and whose it is, in ascending order.
    pub fn live(&self) -> Vec<(Span, Owner)> {
        lock(&self.space).live().from(Granule(0)).collect()
    }

    /// Compares what is kept step by step with a recount; says what is wrong. For tests: nothing else may go on.
    pub fn check(&self) -> Result<(), String> {
        let space = lock(&self.space);
        space.check()?;
        let (live, mapped) = (space.live().granules(), lock(&self.rooms).mapped);
        if live != mapped {
            return Err(format!("{live} granules are live, and the maps have {mapped}"));
        }
        Ok(())
    }

    /// What has been done since the mount.
    pub fn statistics(&self) -> Statistics {
        let dirty_files = lock(&self.dirty).len() as u64;
        self.counters.statistics(dirty_files)
    }
}
