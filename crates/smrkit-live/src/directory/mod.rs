//! The metadata store in a directory of a conventional file system: the tree of names with empty files in it, whose maps
//! are attributes.
//!
//! `tree` holds what users see, `maps` maps too long for an attribute, `state` the saved states, `orphans` files that are
//! in use without a name. Changes made to the directory from outside while it is in use are not seen.

mod attributes;
mod copy;
mod home;
mod maps;
mod mark;
mod names;
mod nodes;
pub mod probe;
pub(crate) mod seal;
mod stat;
mod values;
#[cfg(test)]
mod comparison_tests;
#[cfg(test)]
mod state_tests;
#[cfg(test)]
mod tests;
mod walk;
mod permissions;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use rustix::time::{ClockId, clock_gettime};
use smrfs::error::{DeviceError, Errno, FsError, FsResult};
use smrfs::meta::{Kind, Time};
use smrfs::units::HostJournal;

pub use copy::copy;
pub use home::{Home, NewHome};
pub use mark::MountStep;
use nodes::Nodes;
use permissions::open_at;

/// The metadata store in a directory.
#[derive(Debug)]
pub struct DirectoryStore {
    /// The directory with its identity.
    pub home: Home,
    root: u64,
    /// The device number of the tree. Other file systems that are mounted below it are no part of it.
    device: u64,
    /// The journal of the file system that the directory lies on.
    journal: Option<HostJournal>,
    /// The folder of nodes without a name; 0 if it is missing in a store that is only read.
    orphans: u64,
    nodes: Mutex<Nodes>,
    /// Held shared while anything that a backup copies is changed, exclusively while one is made. It is taken before all other locks, so that a
    /// change that waits for a backup holds no lock that a reader needs.
    changes: RwLock<()>,
    /// Held shared while a name is used, exclusively while one is removed or renamed.
    names: RwLock<()>,
    /// Held shared while a map is sealed or opened for the owner of its file, exclusively while a file's owner changes.
    owners: RwLock<()>,
    /// Held while users' attributes are changed.
    values_change: Mutex<()>,
    /// Held shared while an attribute is read, exclusively while it moves between the file's own attributes and its stub.
    values_moved: RwLock<()>,
}

impl DirectoryStore {
    /// Opens the store in `home`. If it may be changed, removes orphans that a crash left.
    pub fn open(home: Home, writable: bool) -> FsResult<DirectoryStore> {
        DirectoryStore::open_with(home, writable, descriptors())
    }

    /// Opens a store that keeps at most `descriptors` in its cache.
    fn open_with(home: Home, writable: bool, descriptors: usize) -> FsResult<DirectoryStore> {
        if writable {
            home.make_lost_folders()?;
            home.empty_orphans()?;
        }
        let tree = home.folder("tree")?;
        let root_stat = rustix::fs::fstat(&tree).map_err(failed)?;
        let orphans = match home.folder("orphans") {
            Err(FsError::Errno(Errno::ENOENT)) if !writable => None,
            orphans => Some(orphans?),
        };
        let journal = home.journal().filter(|journal| *journal == HostJournal(root_stat.st_dev));
        let mut nodes = Nodes::new(descriptors);
        nodes.add_permanent(root_stat.st_ino, Arc::new(tree));
        let mut orphans_id = 0;
        if let Some(orphans) = orphans {
            orphans_id = rustix::fs::fstat(&orphans).map_err(failed)?.st_ino;
            nodes.add_permanent(orphans_id, Arc::new(orphans));
        }
        Ok(DirectoryStore {
            home,
            root: root_stat.st_ino,
            device: root_stat.st_dev,
            journal,
            orphans: orphans_id,
            nodes: Mutex::new(nodes),
            changes: RwLock::new(()),
            names: RwLock::new(()),
            owners: RwLock::new(()),
            values_change: Mutex::new(()),
            values_moved: RwLock::new(()),
        })
    }

    /// The directory that holds it all.
    pub fn path(&self) -> &Path {
        &self.home.path
    }

    /// Returns a descriptor of a node. If none is cached, opens one by the node's name. The caller holds the lock `names`.
    fn fd(&self, id: u64) -> FsResult<Arc<OwnedFd>> {
        if let Some(fd) = self.nodes.lock().fd(id) {
            return Ok(fd);
        }
        match self.open_by_name(id) {
            Err(FsError::Errno(Errno::ENOENT)) => {
                // A node that was never looked up has a name in the index only, which is made at the first need.
                let is_known = self.nodes.lock().get(id).is_some();
                if is_known {
                    return Err(Errno::ENOENT.into());
                }
                self.make_index()?;
                self.open_by_name(id)
            }
            opened => opened,
        }
    }

    fn open_by_name(&self, id: u64) -> FsResult<Arc<OwnedFd>> {
        // Goes up to a directory that is open, then down again from there.
        let mut unopened = Vec::new();
        let mut at = id;
        let mut fd = {
            let mut nodes = self.nodes.lock();
            loop {
                if let Some(fd) = nodes.fd(at) {
                    break fd;
                }
                let place = nodes.place(at).ok_or(Errno::ENOENT)?;
                let kind = nodes.get(at).map(|node| node.kind);
                let parent = place.parent;
                unopened.push((at, kind, place));
                at = parent;
            }
        };
        for (id, kind, place) in unopened.into_iter().rev() {
            let (opened, kind) = self.open_known(&fd, &place.name, id, kind)?;
            fd = Arc::new(opened);
            self.nodes.lock().keep_descriptor(id, kind, &fd);
        }
        Ok(fd)
    }

    /// Opens a name. Errors: it is not the name of node `id`.
    fn open_known(&self, parent: &OwnedFd, name: &[u8], id: u64, kind: Option<Kind>) -> FsResult<(OwnedFd, Kind)> {
        let kind = match kind {
            Some(kind) => kind,
            None => stat::kind(&stat::at(parent, name)?),
        };
        let opened = open_at(parent, name, kind)?;
        let found = rustix::fs::fstat(&opened).map_err(failed)?;
        if found.st_ino != id || found.st_dev != self.device { Err(Errno::ENOENT.into()) } else { Ok((opened, kind)) }
    }

    /// The time, finer than in the timestamps that the kernel sets.
    fn clock() -> Time {
        let now = clock_gettime(ClockId::Realtime);
        Time { seconds: now.tv_sec, nanoseconds: now.tv_nsec as u32 }
    }
}

/// Number of descriptors to cache: a quarter of those that the process may have. As many again are for nodes without a name.
fn descriptors() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1 << 20);
    (limit / 4).clamp(16, 8192) as usize
}

/// Converts an error of the operating system to the core's.
fn failed(errno: rustix::io::Errno) -> FsError {
    FsError::Errno(Errno(errno.raw_os_error()))
}

/// Converts an I/O error to the core's.
fn failed_io(error: std::io::Error) -> FsError {
    error.raw_os_error().map_or(FsError::Device(DeviceError::Io(error)), |errno| Errno(errno).into())
}

/// Refuses a name that is empty, `.` or `..`, or has a slash or a zero byte in it.
fn checked(name: &[u8]) -> FsResult {
    match name {
        b"" | b"." | b".." => Err(Errno::EINVAL.into()),
        _ if name.iter().any(|&byte| byte == b'/' || byte == 0) => Err(Errno::EINVAL.into()),
        _ => Ok(()),
    }
}
