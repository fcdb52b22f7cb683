//! The file system: names from the metadata store, data on the shingled disk, and the order that keeps them together.

pub mod statistics;

use std::sync::Arc;

use crate::data::{Data, Room};
use crate::device::HostManaged;
use crate::error::FsResult;
use crate::meta::{Attr, Entry, MetadataStore, NewNode, RenameMode, SetAttr};
use crate::space::Space;
use crate::units::NodeId;
use statistics::{Statistics, Usage};

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
pub struct FileSystem {}

#[allow(unused_variables)]
impl FileSystem {
    /// Mounts: takes the maps from the store's saved state if the last unmount was clean, and by a scan if not.
    /// `space` is fresh; whoever calls has checked that device and store belong together.
    pub fn mount(
        device: Arc<dyn HostManaged>,
        store: Arc<dyn MetadataStore>,
        space: Box<dyn Space>,
        options: Options,
    ) -> FsResult<FileSystem> {
        unimplemented!()
    }

    /// Makes everything durable, saves the free map, and says so.
    pub fn unmount(&self) -> FsResult {
        unimplemented!()
    }

    /// The root directory.
    pub fn root(&self) -> NodeId {
        unimplemented!()
    }

    /// The node of that name; owes a `forget`, as do all that make a node.
    pub fn lookup(&self, parent: NodeId, name: &[u8]) -> FsResult<Attr> {
        unimplemented!()
    }

    /// `count` answers are given back.
    pub fn forget(&self, id: NodeId, count: u64) {
        unimplemented!()
    }

    /// What `stat` tells.
    pub fn attributes(&self, id: NodeId) -> FsResult<Attr> {
        unimplemented!()
    }

    /// Changes attributes, the size among them.
    pub fn set_attributes(&self, id: NodeId, set: &SetAttr) -> FsResult<Attr> {
        unimplemented!()
    }

    /// Makes a node that is no link.
    pub fn make(&self, parent: NodeId, name: &[u8], new: &NewNode) -> FsResult<Attr> {
        unimplemented!()
    }

    /// Makes a symbolic link.
    pub fn make_link(&self, parent: NodeId, name: &[u8], target: &[u8], uid: u32, gid: u32) -> FsResult<Attr> {
        unimplemented!()
    }

    /// The target of a symbolic link.
    pub fn read_link(&self, id: NodeId) -> FsResult<Vec<u8>> {
        unimplemented!()
    }

    /// Gives a node another name.
    pub fn link(&self, id: NodeId, parent: NodeId, name: &[u8]) -> FsResult<Attr> {
        unimplemented!()
    }

    /// Takes a name away.
    pub fn unlink(&self, parent: NodeId, name: &[u8]) -> FsResult {
        unimplemented!()
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, parent: NodeId, name: &[u8]) -> FsResult {
        unimplemented!()
    }

    /// Moves a name; a file with data not yet durable is committed first.
    pub fn rename(&self, from: (NodeId, &[u8]), to: (NodeId, &[u8]), mode: RenameMode) -> FsResult {
        unimplemented!()
    }

    /// Some entries of a directory from the place `from` on, without `.` and `..`; empty at its end.
    pub fn list(&self, id: NodeId, from: u64) -> FsResult<Vec<Entry>> {
        unimplemented!()
    }

    /// A user's attribute.
    pub fn attribute(&self, id: NodeId, name: &[u8]) -> FsResult<Vec<u8>> {
        unimplemented!()
    }

    /// The names of the user's attributes.
    pub fn attribute_names(&self, id: NodeId) -> FsResult<Vec<Vec<u8>>> {
        unimplemented!()
    }

    /// Sets a user's attribute.
    pub fn set_attribute(&self, id: NodeId, name: &[u8], value: &[u8], create: bool, replace: bool) -> FsResult {
        unimplemented!()
    }

    /// Removes a user's attribute.
    pub fn remove_attribute(&self, id: NodeId, name: &[u8]) -> FsResult {
        unimplemented!()
    }

    /// A file is opened once more; `truncate` empties it. While it is open its data stays, whatever happens to its names.
    pub fn open(&self, id: NodeId, writing: bool, truncate: bool) -> FsResult {
        unimplemented!()
    }

    /// One `open` ends.
    pub fn release(&self, id: NodeId, writing: bool) -> FsResult {
        unimplemented!()
    }

    /// Reads from the byte `offset` on as much as the file has and `room` takes; tells how many bytes. The rest of `room`
    /// is left alone.
    pub fn read(&self, id: NodeId, offset: u64, room: Room<'_>) -> FsResult<u64> {
        unimplemented!()
    }

    /// Writes all of `data` from the byte `offset` on, or nothing. Clears set-id bits where `clear_set_id` says so.
    pub fn write(&self, id: NodeId, offset: u64, data: Data<'_>, clear_set_id: bool) -> FsResult {
        unimplemented!()
    }

    /// Promises room, makes holes, makes zeros.
    pub fn allocate(&self, id: NodeId, how: Allocate, offset: u64, bytes: u64) -> FsResult {
        unimplemented!()
    }

    /// Where the next data or hole begins, from the byte `offset` on; ENXIO behind the end.
    pub fn seek(&self, id: NodeId, offset: u64, what: Seek) -> FsResult<u64> {
        unimplemented!()
    }

    /// Makes a file durable: data, map, attributes and the name it was last made or moved under.
    pub fn sync(&self, id: NodeId) -> FsResult {
        unimplemented!()
    }

    /// Makes the names in a directory durable.
    pub fn sync_dir(&self, id: NodeId) -> FsResult {
        unimplemented!()
    }

    /// Makes everything durable (what a commit in the background does, too).
    pub fn sync_all(&self) -> FsResult {
        unimplemented!()
    }

    /// One bounded step of what is due in the background (writing out, committing, cleaning, joining): `idle` if nothing
    /// else is to do. Tells whether there is more.
    pub fn background(&self, idle: bool) -> FsResult<bool> {
        unimplemented!()
    }

    /// Moves a file's data into as few extents as possible, a block at a time; tells whether there is more to do.
    pub fn defragment(&self, id: NodeId) -> FsResult<bool> {
        unimplemented!()
    }

    /// What `statfs` tells, and more.
    pub fn usage(&self) -> FsResult<Usage> {
        unimplemented!()
    }

    /// What has been done since the mount.
    pub fn statistics(&self) -> Statistics {
        unimplemented!()
    }
}
