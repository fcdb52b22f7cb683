//! The metadata store in a directory of a conventional file system: the tree of names with empty files in it, whose maps
//! are attributes.
//!
//! `tree` holds what users see, `maps` maps too long for an attribute, `state` the saved states, `orphans` files that are
//! in use without a name. Changes made to the directory from outside while it is in use are not seen.

mod attributes;
mod copy;
mod home;
mod host;
mod maps;
mod mark;
mod names;
mod nodes;
pub(crate) mod seal;
mod values;
mod walk;
#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use smrfs::error::{DeviceError, Errno, FsError, FsResult};
use smrfs::units::HostJournal;

pub use copy::copy;
pub use home::{Home, NewHome, Probe};
pub use mark::MountStep;
use nodes::Nodes;

use crate::journal;

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
        // A quarter of the descriptors that the process may have are cached. As many again are for nodes without a name.
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1 << 20);
        DirectoryStore::open_with(home, writable, (limit / 4).clamp(16, 8192) as usize)
    }

    /// Opens a store that keeps at most `descriptors` in its cache.
    fn open_with(home: Home, writable: bool, descriptors: usize) -> FsResult<DirectoryStore> {
        if writable {
            // Some programs that copy directories lose empty ones. A missing tree was refused before, because with an empty tree all data
            // would count as free.
            home.make_missing_folders()?;
            walk::remove_files(&home.folder("orphans")?, |_| false)?;
        }
        let tree = home.folder("tree")?;
        let root_stat = rustix::fs::fstat(&tree).map_err(os_error)?;
        let (root, device) = (root_stat.st_ino, root_stat.st_dev);
        let mut nodes = Nodes::new(descriptors);
        nodes.add_permanent(root, Arc::new(tree));
        let orphans = match home.folder("orphans") {
            Err(FsError::Errno(Errno::ENOENT)) if !writable => 0,
            orphans => {
                let orphans = orphans?;
                let id = rustix::fs::fstat(&orphans).map_err(os_error)?.st_ino;
                nodes.add_permanent(id, Arc::new(orphans));
                id
            }
        };
        // The tree may be a mount of another file system, whose journal is not the directory's.
        let journal = journal::of(&home.fd).filter(|journal| *journal == HostJournal(device));
        Ok(DirectoryStore {
            home,
            root,
            device,
            journal,
            orphans,
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
        match self.open_by_name(id) {
            // A node that was never looked up has a name in the index only, which is made at the first need.
            Err(FsError::Errno(Errno::ENOENT)) if self.nodes.lock().get(id).is_none() => {
                self.walk(&mut |_, _| Ok(()))?;
                self.open_by_name(id)
            }
            opened => opened,
        }
    }

    fn open_by_name(&self, id: u64) -> FsResult<Arc<OwnedFd>> {
        // Goes up to a directory that is open (often the node itself is), then down again from there.
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
                unopened.push((at, kind, place.name));
                at = parent;
            }
        };
        for (id, kind, name) in unopened.into_iter().rev() {
            let kind = match kind {
                Some(kind) => kind,
                None => host::kind(&host::stat_at(&fd, &name)?),
            };
            let opened = host::open_at(&fd, &name, kind)?;
            let found = rustix::fs::fstat(&opened).map_err(os_error)?;
            // The name may be another node's by now.
            if found.st_ino != id || found.st_dev != self.device {
                return Err(Errno::ENOENT.into());
            }
            fd = Arc::new(opened);
            self.nodes.lock().keep_descriptor(id, kind, &fd);
        }
        Ok(fd)
    }
}

/// Converts an error of the operating system to the core's.
fn os_error(errno: rustix::io::Errno) -> FsError {
    FsError::Errno(Errno(errno.raw_os_error()))
}

/// Converts an I/O error to the core's.
fn io_error(error: std::io::Error) -> FsError {
    error.raw_os_error().map_or(FsError::Device(DeviceError::Io(error)), |errno| Errno(errno).into())
}

/// Refuses a name that is empty, `.` or `..`, or has a slash or a zero byte in it.
fn check_name(name: &[u8]) -> FsResult {
    match name {
        b"" | b"." | b".." => Err(Errno::EINVAL.into()),
        _ if name.iter().any(|&byte| byte == b'/' || byte == 0) => Err(Errno::EINVAL.into()),
        _ => Ok(()),
    }
}
