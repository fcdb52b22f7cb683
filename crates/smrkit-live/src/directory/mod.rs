//! The metadata store in a directory of a conventional file system: the tree of names with empty files in it, whose maps
//! are attributes.
//!
//! `tree` holds what users see, `maps` maps too long for an attribute, `state` the saved states, `orphans` files that are
//! in use without a name. Changes made to the directory from outside while it is in use are not seen.

mod attributes;
mod copy;
mod entries;
mod errors;
mod home;
mod index;
mod maps;
mod mark;
mod names;
mod nodes;
mod place;
pub mod probe;
pub(crate) mod seal;
mod stat;
mod tree;
mod users;
mod values;
#[cfg(test)]
mod comparison_tests;
#[cfg(test)]
mod state_tests;
#[cfg(test)]
mod tests;
mod walk;
mod way;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use rustix::time::{ClockId, clock_gettime};
use smrfs::error::{Errno, FsError, FsResult, SealedMap};
use smrfs::meta::{Attr, Entry, Kind, MetadataStore, NewNode, RenameMode, SetAttr, StoreRoom, Time};
use smrfs::units::{HostJournal, NodeId};

pub use copy::copy;
use errors::{checked, failed, failed_io};
pub use home::{Home, Site};
pub use mark::MountStep;
use nodes::Nodes;
use way::open_at;

/// The metadata store in a directory.
#[derive(Debug)]
pub struct DirectoryStore {
    home: Home,
    root: u64,
    /// The device number of the tree: what is mounted below it is no part of it.
    device: u64,
    /// The journal of the file system that the directory lies on.
    journal: Option<HostJournal>,
    /// The folder of nodes without a name; 0 where it is missing, and nothing changes.
    orphans: u64,
    nodes: Mutex<Nodes>,
    /// Held shared while a name is used, alone while one goes or moves.
    names: RwLock<()>,
    /// Held shared while a map is sealed or opened for the owner that its file has, alone while a file changes hands.
    owners: RwLock<()>,
    /// Held by whoever changes users' attributes.
    values_change: Mutex<()>,
    /// Held shared while an attribute is read, alone while it goes from next to its file to the stub or back.
    values_moved: RwLock<()>,
}

impl DirectoryStore {
    /// Opens the store in `home`. If it may be changed, what a crash left among the orphans goes.
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
        nodes.anchor(root_stat.st_ino, Arc::new(tree));
        let mut orphans_id = 0;
        if let Some(orphans) = orphans {
            orphans_id = rustix::fs::fstat(&orphans).map_err(failed)?.st_ino;
            nodes.anchor(orphans_id, Arc::new(orphans));
        }
        Ok(DirectoryStore {
            home,
            root: root_stat.st_ino,
            device: root_stat.st_dev,
            journal,
            orphans: orphans_id,
            nodes: Mutex::new(nodes),
            names: RwLock::new(()),
            owners: RwLock::new(()),
            values_change: Mutex::new(()),
            values_moved: RwLock::new(()),
        })
    }

    /// The directory that holds it all.
    pub fn path(&self) -> &Path {
        self.home.path()
    }

    /// The directory with its identity.
    pub fn home(&self) -> &Home {
        &self.home
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock()
    }

    fn names_stay(&self) -> RwLockReadGuard<'_, ()> {
        self.names.read()
    }

    fn names_change(&self) -> RwLockWriteGuard<'_, ()> {
        self.names.write()
    }

    fn owners_stay(&self) -> RwLockReadGuard<'_, ()> {
        self.owners.read()
    }

    fn owners_change(&self) -> RwLockWriteGuard<'_, ()> {
        self.owners.write()
    }

    /// A descriptor of a node, opened by its name where none is at hand. The caller holds the lock of the names.
    fn fd(&self, id: u64) -> FsResult<Arc<OwnedFd>> {
        if let Some(fd) = self.nodes().fd(id) {
            return Ok(fd);
        }
        match self.open_by_name(id) {
            Err(FsError::Errno(Errno::ENOENT)) => {
                // Nobody has looked it up: the index knows, or a new one does.
                let is_known = self.nodes().get(id).is_some();
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
        // The way up to a directory that is open, then down again.
        let mut way = Vec::new();
        let mut at = id;
        let mut fd = {
            let mut nodes = self.nodes();
            loop {
                if let Some(fd) = nodes.fd(at) {
                    break fd;
                }
                let place = nodes.place(at).ok_or(Errno::ENOENT)?;
                let kind = nodes.get(at).map(|node| node.kind);
                let parent = place.parent;
                way.push((at, kind, place));
                at = parent;
            }
        };
        for (id, kind, place) in way.into_iter().rev() {
            let (opened, kind) = self.open_known(&fd, &place.name, id, kind)?;
            fd = Arc::new(opened);
            self.nodes().keep(id, kind, &fd);
        }
        Ok(fd)
    }

    /// Opens the name and makes sure that it is that node.
    fn open_known(&self, parent: &OwnedFd, name: &[u8], id: u64, kind: Option<Kind>) -> FsResult<(OwnedFd, Kind)> {
        let kind = match kind {
            Some(kind) => kind,
            None => stat::kind(&stat::at(parent, name)?),
        };
        let opened = open_at(parent, name, kind)?;
        let found = rustix::fs::fstat(&opened).map_err(failed)?;
        if found.st_ino != id || found.st_dev != self.device {
            return Err(Errno::ENOENT.into());
        }
        Ok((opened, kind))
    }

    /// The clock, finer than the one the kernel puts into nodes.
    fn clock() -> Time {
        let now = clock_gettime(ClockId::Realtime);
        Time { seconds: now.tv_sec, nanoseconds: now.tv_nsec as u32 }
    }

    fn set_stat(&self, id: u64, set: &SetAttr) -> FsResult<Attr> {
        let _names = self.names_stay();
        let fd = self.fd(id)?;
        let kind = stat::kind(&stat::for_fd(&fd)?);
        match set.uid {
            Some(uid) if kind == Kind::File => self.give_file(&fd, uid, set.gid)?,
            uid if uid.is_some() || set.gid.is_some() => stat::change_owner(&fd, uid, set.gid)?,
            _ => {}
        }
        if let Some(mode) = set.mode {
            way::steady(|| stat::change_mode(&fd, kind, mode))?;
        }
        let now = DirectoryStore::clock();
        if set.atime.is_some() || set.mtime.is_some() {
            stat::change_times(&fd, set, now)?;
        }
        if let Some(node) = self.nodes().get(id) {
            node.changed = Some(now);
            if set.mtime.is_some() {
                node.modified = None;
            }
        }
        Ok(self.told(&stat::for_fd(&fd)?))
    }
}

/// Number of descriptors that are cached: a quarter of what the process may have, and as many again for nodes without a name.
fn descriptors() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1 << 20);
    (limit / 4).clamp(16, 8192) as usize
}

impl MetadataStore for DirectoryStore {
    fn root(&self) -> NodeId {
        NodeId(self.root)
    }

    fn lookup(&self, parent: NodeId, name: &[u8]) -> FsResult<Attr> {
        self.look_up(parent.0, name)
    }

    fn find(&self, id: NodeId) -> FsResult<Attr> {
        self.find_node(id.0)
    }

    fn parent(&self, directory: NodeId) -> FsResult<Attr> {
        self.find_parent(directory.0)
    }

    fn forget(&self, id: NodeId, count: u64) {
        self.forget_answers(id.0, count);
    }

    fn attributes(&self, id: NodeId) -> FsResult<Attr> {
        self.stat(id.0)
    }

    fn set_attributes(&self, id: NodeId, set: &SetAttr) -> FsResult<Attr> {
        self.set_stat(id.0, set)
    }

    fn make(&self, parent: NodeId, name: &[u8], new: &NewNode) -> FsResult<Attr> {
        self.make_node(parent.0, name, new)
    }

    fn make_link(&self, parent: NodeId, name: &[u8], target: &[u8], uid: u32, gid: u32) -> FsResult<Attr> {
        self.make_symlink(parent.0, name, target, uid, gid)
    }

    fn read_link(&self, id: NodeId) -> FsResult<Vec<u8>> {
        let _names = self.names_stay();
        let fd = self.fd(id.0)?;
        match rustix::fs::readlinkat(&fd, c"", Vec::new()) {
            Ok(target) => Ok(target.into_bytes()),
            // What is no link has no target; the kernel says so in another way for an empty path.
            Err(rustix::io::Errno::NOENT) => Err(Errno::EINVAL.into()),
            Err(error) => Err(failed(error)),
        }
    }

    fn link(&self, id: NodeId, parent: NodeId, name: &[u8]) -> FsResult<Attr> {
        self.add_name(id.0, parent.0, name)
    }

    fn unlink(&self, parent: NodeId, name: &[u8]) -> FsResult {
        self.remove_name(parent.0, name, false)
    }

    fn remove_dir(&self, parent: NodeId, name: &[u8]) -> FsResult {
        self.remove_name(parent.0, name, true)
    }

    fn rename(&self, from: (NodeId, &[u8]), to: (NodeId, &[u8]), mode: RenameMode) -> FsResult {
        self.move_name((from.0.0, from.1), (to.0.0, to.1), mode)
    }

    fn list(&self, id: NodeId, from: u64) -> FsResult<Vec<Entry>> {
        self.entries(id.0, from)
    }

    fn attribute(&self, id: NodeId, name: &[u8]) -> FsResult<Vec<u8>> {
        self.user_attribute(id.0, name)
    }

    fn attribute_names(&self, id: NodeId) -> FsResult<Vec<Vec<u8>>> {
        self.user_attributes(id.0)
    }

    fn set_attribute(&self, id: NodeId, name: &[u8], value: &[u8], create: bool, replace: bool) -> FsResult {
        self.set_user_attribute(id.0, name, value, (create, replace))
    }

    fn remove_attribute(&self, id: NodeId, name: &[u8]) -> FsResult {
        self.remove_user_attribute(id.0, name)
    }

    fn check_attributes(&self, repair: bool, tell: &mut dyn FnMut(NodeId, String)) -> FsResult {
        self.check_values(repair, tell)
    }

    fn load_map(&self, id: NodeId) -> FsResult<Option<Vec<u8>>> {
        self.read_map(id.0)
    }

    fn store_map(&self, id: NodeId, map: &[u8]) -> FsResult {
        self.write_map(id.0, map)
    }

    fn forget_mark(&self, id: NodeId) -> FsResult {
        self.remove_map(id.0)
    }

    fn map_bytes_max(&self) -> usize {
        self.home.map_bytes()
    }

    fn store_spill(&self, number: u64, part: &[u8]) -> FsResult {
        self.home.store_spill(number, part)
    }

    fn load_spill(&self, number: u64) -> FsResult<Vec<u8>> {
        self.home.load_spill(number)
    }

    fn sync_spill(&self, number: u64) -> FsResult {
        self.home.sync_spill(number)
    }

    fn remove_spill(&self, number: u64) -> FsResult {
        self.home.remove_spill(number)
    }

    fn spills(&self) -> FsResult<Vec<u64>> {
        self.home.spills()
    }

    fn load_state(&self, name: &str) -> FsResult<Option<Vec<u8>>> {
        self.home.load_state(name)
    }

    fn store_state(&self, name: &str, bytes: &[u8]) -> FsResult {
        self.home.store_state(name, bytes)
    }

    fn remove_state(&self, name: &str) -> FsResult {
        self.home.remove_state(name)
    }

    fn journal(&self) -> Option<HostJournal> {
        self.journal
    }

    fn sync(&self, id: NodeId) -> FsResult {
        self.sync_node(id.0)
    }

    fn sync_dir(&self, id: NodeId) -> FsResult {
        self.sync_node(id.0)
    }

    fn sync_all(&self) -> FsResult {
        self.home.sync_all()
    }

    fn scan(&self, visit: &mut dyn FnMut(NodeId, Option<Vec<u8>>) -> FsResult) -> FsResult {
        self.visit_files(&mut |id, map| visit(id, map?.map(|map| map.record)))
    }

    fn inspect(&self, visit: &mut dyn FnMut(NodeId, FsResult<Option<SealedMap>>) -> FsResult) -> FsResult {
        self.visit_files(visit)
    }

    fn room(&self) -> FsResult<StoreRoom> {
        self.home.room()
    }

    fn reserve(&self, bytes: u64) -> FsResult {
        self.home.reserve.keep(bytes).map_err(failed_io)
    }

    fn path_to(&self, id: NodeId) -> Option<Vec<u8>> {
        let nodes = self.nodes();
        let (mut path, mut at) = (Vec::new(), id.0);
        while at != self.root {
            let place = nodes.place(at)?;
            path.splice(0..0, [b"/", &*place.name].concat());
            at = place.parent;
        }
        Some(path)
    }

    fn now(&self) -> Time {
        DirectoryStore::clock()
    }
}
