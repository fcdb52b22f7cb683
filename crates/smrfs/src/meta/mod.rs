//! The unshingled partition: a store of names, attributes and maps.
//!
//! The tree, permissions, owners, times, links and attributes live here; the file system's core adds size, blocks and the times of files
//! that it changed. Back ends: a directory on a conventional file system (in `smrkit-live`), the partition of a simulated drive, and in tests
//! one in memory that loses unsynced changes in a power cut.

pub mod partition;
#[cfg(any(test, feature = "testing"))]
#[path = "../../tests/testing/store/mod.rs"]
pub mod memory;

use crate::error::{Errno, FsResult, SealedMap};
use crate::units::{HostJournal, NodeId};

/// The user's attribute that holds the access list of a node, as Linux writes it.
pub const ACCESS_LIST: &[u8] = b"system.posix_acl_access";
/// The user's attribute that holds the access list which new nodes in a directory get.
pub const DEFAULT_ACCESS_LIST: &[u8] = b"system.posix_acl_default";

/// Kind of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    #[default]
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// A moment, since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds, negative before.
    pub seconds: i64,
    /// Nanoseconds of the second.
    pub nanoseconds: u32,
}

/// Attributes as `stat` shows them. Of a regular file the store knows all except size and blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    /// The node.
    pub id: NodeId,
    /// Generation, which distinguishes it from earlier nodes of that number; 0 for the root, or if the store has none.
    pub generation: u32,
    /// Its kind.
    pub kind: Kind,
    /// Permission bits, with set-id and sticky bits: the lower 12.
    pub mode: u32,
    /// Names that it has.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device.
    pub rdev: u32,
    /// Size in bytes: of a file as the core sets it, of a link the length of its target, of a directory as the store chooses.
    pub size: u64,
    /// Units of 512 bytes.
    pub blocks: u64,
    /// Last read.
    pub atime: Time,
    /// Last change of the data.
    pub mtime: Time,
    /// Last change of anything.
    pub ctime: Time,
}

/// A time to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// To now.
    Now,
    /// To this.
    To(Time),
}

/// Changes of attributes; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size in bytes. Stores ignore it: the core handles it.
    pub size: Option<u64>,
    /// Last read.
    pub atime: Option<SetTime>,
    /// Last change of the data.
    pub mtime: Option<SetTime>,
    /// Last change of anything, as noted by a host that caches writes. Stores ignore it, like the size.
    pub ctime: Option<Time>,
}

/// A node to be created by `create`, `mkdir` and the like.
#[derive(Clone, Copy, Debug)]
pub struct NewNode {
    /// Its kind; not a link.
    pub kind: Kind,
    /// Permission bits, with the caller's mask applied.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group; a directory with the set-group-id bit gives its own instead.
    pub gid: u32,
    /// Device number of a device.
    pub rdev: u32,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The node.
    pub id: NodeId,
    /// Its kind.
    pub kind: Kind,
    /// The name's bytes.
    pub name: Vec<u8>,
    /// Position from which to continue after this entry.
    pub next: u64,
}

/// How `rename` treats an existing name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// Replaces it.
    Replace,
    /// Fails with EEXIST.
    NoReplace,
    /// Swaps the two.
    Exchange,
}

/// The space of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreRoom {
    /// Nodes in all.
    pub nodes: u64,
    /// Nodes still free.
    pub free_nodes: u64,
    /// Bytes still free.
    pub free_bytes: u64,
    /// Longest name in bytes.
    pub name_bytes: u32,
}

/// The tree of names. Errors of name operations are those of the system call of that name. After EIO a change may have been made; any other error
/// means that nothing has changed ([`FsError::after_change`](crate::error::FsError::after_change)).
pub trait Names: Send + Sync {
    /// The root directory.
    fn root(&self) -> NodeId;
    /// The node of that name. The caller owes a `forget` for each result of this, and of the calls that create a node.
    fn lookup(&self, parent: NodeId, name: &[u8]) -> FsResult<Attr>;
    /// The node of that number, whether or not it was looked up before. Not supported by stores whose nodes need no handles.
    fn find(&self, _id: NodeId) -> FsResult<Attr> {
        Err(Errno::ENOENT.into())
    }
    /// The directory in which a directory lies.
    fn parent(&self, _directory: NodeId) -> FsResult<Attr> {
        Err(Errno::ENOENT.into())
    }
    /// Gives back `count` results of `lookup` and the like, after which the store may forget the node.
    fn forget(&self, id: NodeId, count: u64);
    /// Creates a node that is not a symbolic link.
    fn make(&self, parent: NodeId, name: &[u8], new: &NewNode) -> FsResult<Attr>;
    /// Creates a symbolic link.
    fn make_link(&self, parent: NodeId, name: &[u8], target: &[u8], uid: u32, gid: u32) -> FsResult<Attr>;
    /// The target of a symbolic link.
    fn read_link(&self, id: NodeId) -> FsResult<Vec<u8>>;
    /// Gives a node another name.
    fn link(&self, id: NodeId, parent: NodeId, name: &[u8]) -> FsResult<Attr>;
    /// Removes a name of a node that is not a directory. Holders of a `lookup` can still use the node.
    fn unlink(&self, parent: NodeId, name: &[u8]) -> FsResult;
    /// Removes an empty directory.
    fn remove_dir(&self, parent: NodeId, name: &[u8]) -> FsResult;
    /// Moves a name.
    fn rename(&self, from: (NodeId, &[u8]), to: (NodeId, &[u8]), mode: RenameMode) -> FsResult;
    /// Some entries of a directory, from position `from` on (0: its beginning), without `.` and `..`; empty at its end.
    fn list(&self, id: NodeId, from: u64) -> FsResult<Vec<Entry>>;
    /// A path to the node from the root, for messages, if the store knows one.
    fn path_to(&self, _id: NodeId) -> Option<Vec<u8>> {
        None
    }
}

/// Attributes of nodes: those of `stat`, and users' own.
pub trait Attributes: Send + Sync {
    /// Attributes as `stat` shows them.
    fn attributes(&self, id: NodeId) -> FsResult<Attr>;
    /// Changes attributes (but never the size), and returns the new ones.
    fn set_attributes(&self, id: NodeId, set: &SetAttr) -> FsResult<Attr>;
    /// A user's attribute.
    fn attribute(&self, id: NodeId, name: &[u8]) -> FsResult<Vec<u8>>;
    /// The names of the user's attributes, not of the store's own.
    fn attribute_names(&self, id: NodeId) -> FsResult<Vec<Vec<u8>>>;
    /// Sets a user's attribute; `create` and `replace` are as in setxattr(2).
    fn set_attribute(&self, id: NodeId, name: &[u8], value: &[u8], create: bool, replace: bool) -> FsResult;
    /// Removes a user's attribute.
    fn remove_attribute(&self, id: NodeId, name: &[u8]) -> FsResult;
    /// Calls `_tell` with each file that has unreadable attributes, and the fault; removes these attributes if `_repair`. Some stores can't
    /// have any.
    fn check_attributes(&self, _repair: bool, _tell: &mut dyn FnMut(NodeId, String)) -> FsResult {
        Ok(())
    }
    /// The store's current time, as it would set it on a node.
    fn now(&self) -> Time;
}

/// The core's data in the store: maps of files, parts of long maps, and states. A map is stored atomically: a crash leaves the old or new one.
pub trait Maps: Send + Sync {
    /// The map of a file, as `store_map` stored it; `None` for a file that never had one.
    fn load_map(&self, id: NodeId) -> FsResult<Option<Vec<u8>>>;
    /// Stores a file's map, atomically. ENOSPC if it is longer than fits next to the user's attributes.
    fn store_map(&self, id: NodeId, map: &[u8]) -> FsResult;
    /// Removes a map that is a copy, so that the next one gets a mark of its own. Does nothing in stores without seals.
    fn forget_mark(&self, _id: NodeId) -> FsResult {
        Ok(())
    }
    /// The longest map that always fits, in bytes.
    fn map_bytes_max(&self) -> usize;
    /// Stores a part of a long map, under a number that the core chooses and never reuses. `sync_spill` makes it durable.
    fn store_spill(&self, number: u64, part: &[u8]) -> FsResult;
    /// Data that `store_spill` stored.
    fn load_spill(&self, number: u64) -> FsResult<Vec<u8>>;
    /// Removes a spilled part.
    fn remove_spill(&self, number: u64) -> FsResult;
    /// The numbers of all spilled parts.
    fn spills(&self) -> FsResult<Vec<u64>>;
    /// A named state, such as the saved free map. `None` if it was never stored, or was stored by another store of which this one is a
    /// copy, because it may name nodes by their numbers.
    fn load_state(&self, name: &str) -> FsResult<Option<Vec<u8>>>;
    /// Stores a named state, atomically and durably.
    fn store_state(&self, name: &str, bytes: &[u8]) -> FsResult;
    /// Removes a named state, durably.
    fn remove_state(&self, name: &str) -> FsResult;
    /// Calls `visit` for every regular file with its map; once for a node with several names.
    fn scan(&self, visit: &mut dyn FnMut(NodeId, Option<Vec<u8>>) -> FsResult) -> FsResult;
    /// Calls `visit` for every regular file as `scan` does, also for maps with a wrong seal
    /// ([`FsError::Seal`](crate::error::FsError::Seal)) or that can't be read, and continues after them. In stores without seals, files'
    /// numbers are the marks.
    fn inspect(&self, visit: &mut dyn FnMut(NodeId, FsResult<Option<SealedMap>>) -> FsResult) -> FsResult {
        self.scan(&mut |id, record| visit(id, Ok(record.map(|record| SealedMap { record, mark: id.0 }))))
    }
}

/// Durability of names, attributes and maps, and the space for them. Nothing is durable before a sync: `sync` of a file makes its map, its
/// attributes and its data in the store durable, but not its name; `sync_dir` makes names durable.
pub trait Durability: Send + Sync {
    /// Makes a spilled part and its name durable, at the latest with a map that is stored later.
    fn sync_spill(&self, number: u64) -> FsResult;
    /// The journal whose commit, or a flush of its disk, ends every sync of the store; `None` if there is none.
    fn journal(&self) -> Option<HostJournal> {
        None
    }
    /// Makes a file's map and attributes durable.
    fn sync(&self, id: NodeId) -> FsResult;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, id: NodeId) -> FsResult;
    /// Makes everything durable.
    fn sync_all(&self) -> FsResult;
    /// Calls `during` while names, attributes and maps don't change: calls that would change them wait.
    fn frozen(&self, during: &mut dyn FnMut()) {
        during();
    }
    /// Waits for the end of `frozen`. To be called before taking locks that others need to make a change.
    fn wait_for_thaw(&self) {}
    /// The space of the store.
    fn room(&self) -> FsResult<StoreRoom>;
    /// Reserves room for `bytes` of maps; ENOSPC if there is none.
    fn reserve(&self, _bytes: u64) -> FsResult {
        Ok(())
    }
}

/// A store of names, attributes and maps. Calls may come from several threads.
pub trait MetadataStore: Names + Attributes + Maps + Durability {}

impl<S: Names + Attributes + Maps + Durability> MetadataStore for S {}
