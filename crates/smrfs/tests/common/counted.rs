//! A metadata store that counts what is asked of it, and can be told to do something before the next rename.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use smrfs::error::{Errno, FsResult};
use smrfs::meta::memory::MemoryStore;
use smrfs::meta::{Attr, Attributes, Durability, Entry, Maps, Names, NewNode, RenameMode, SetAttr, StoreRoom, Time};
use smrfs::units::{HostJournal, NodeId};

/// Counts of the calls so far.
#[derive(Default)]
pub struct Counts {
    /// Calls of all kinds.
    pub calls: AtomicU64,
    /// Bytes of maps, parts and states that were read.
    pub read_bytes: AtomicU64,
    /// Bytes written.
    pub written_bytes: AtomicU64,
    /// True if no sync succeeds.
    pub syncs_fail: AtomicBool,
    /// The journal by whose commits a sync ends, if any.
    pub journal: Mutex<Option<HostJournal>>,
    /// Action before the next rename.
    pub before_rename: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Counts {
    /// Calls, bytes read, bytes written since the last time.
    pub fn take(&self) -> [u64; 3] {
        [&self.calls, &self.read_bytes, &self.written_bytes].map(|count| count.swap(0, Relaxed))
    }
}

/// A store in memory behind counters.
pub struct Counted {
    pub store: MemoryStore,
    pub counts: std::sync::Arc<Counts>,
}

impl Counted {
    /// A call that moves this many bytes.
    fn called(&self, read_bytes: usize, written_bytes: usize) {
        self.counts.calls.fetch_add(1, Relaxed);
        self.counts.read_bytes.fetch_add(read_bytes as u64, Relaxed);
        self.counts.written_bytes.fetch_add(written_bytes as u64, Relaxed);
    }

    fn synced(&self) -> FsResult {
        self.called(0, 0);
        if self.counts.syncs_fail.load(Relaxed) { Err(Errno::EIO.into()) } else { Ok(()) }
    }

    fn read<T: AsRef<[u8]>>(&self, found: FsResult<Option<T>>) -> FsResult<Option<T>> {
        let bytes = found.as_ref().ok().and_then(Option::as_ref).map_or(0, |bytes| bytes.as_ref().len());
        self.called(bytes, 0);
        found
    }
}

impl Names for Counted {
    fn root(&self) -> NodeId {
        self.store.root()
    }

    fn lookup(&self, parent: NodeId, name: &[u8]) -> FsResult<Attr> {
        self.called(0, 0);
        self.store.lookup(parent, name)
    }

    fn forget(&self, id: NodeId, count: u64) {
        self.called(0, 0);
        self.store.forget(id, count);
    }

    fn make(&self, parent: NodeId, name: &[u8], new: &NewNode) -> FsResult<Attr> {
        self.called(0, 0);
        self.store.make(parent, name, new)
    }

    fn make_link(&self, parent: NodeId, name: &[u8], target: &[u8], uid: u32, gid: u32) -> FsResult<Attr> {
        self.called(0, 0);
        self.store.make_link(parent, name, target, uid, gid)
    }

    fn read_link(&self, id: NodeId) -> FsResult<Vec<u8>> {
        self.called(0, 0);
        self.store.read_link(id)
    }

    fn link(&self, id: NodeId, parent: NodeId, name: &[u8]) -> FsResult<Attr> {
        self.called(0, 0);
        self.store.link(id, parent, name)
    }

    fn unlink(&self, parent: NodeId, name: &[u8]) -> FsResult {
        self.called(0, 0);
        self.store.unlink(parent, name)
    }

    fn remove_dir(&self, parent: NodeId, name: &[u8]) -> FsResult {
        self.called(0, 0);
        self.store.remove_dir(parent, name)
    }

    fn rename(&self, from: (NodeId, &[u8]), to: (NodeId, &[u8]), mode: RenameMode) -> FsResult {
        self.called(0, 0);
        let before = self.counts.before_rename.lock().unwrap().take();
        if let Some(before) = before {
            before();
        }
        self.store.rename(from, to, mode)
    }

    fn list(&self, id: NodeId, from: u64) -> FsResult<Vec<Entry>> {
        self.called(0, 0);
        self.store.list(id, from)
    }
}

impl Attributes for Counted {
    fn attributes(&self, id: NodeId) -> FsResult<Attr> {
        self.called(0, 0);
        self.store.attributes(id)
    }

    fn set_attributes(&self, id: NodeId, set: &SetAttr) -> FsResult<Attr> {
        self.called(0, 0);
        self.store.set_attributes(id, set)
    }

    fn attribute(&self, id: NodeId, name: &[u8]) -> FsResult<Vec<u8>> {
        self.called(0, 0);
        self.store.attribute(id, name)
    }

    fn attribute_names(&self, id: NodeId) -> FsResult<Vec<Vec<u8>>> {
        self.called(0, 0);
        self.store.attribute_names(id)
    }

    fn set_attribute(&self, id: NodeId, name: &[u8], value: &[u8], create: bool, replace: bool) -> FsResult {
        self.called(0, 0);
        self.store.set_attribute(id, name, value, create, replace)
    }

    fn remove_attribute(&self, id: NodeId, name: &[u8]) -> FsResult {
        self.called(0, 0);
        self.store.remove_attribute(id, name)
    }

    fn now(&self) -> Time {
        self.store.now()
    }
}

impl Maps for Counted {
    fn load_map(&self, id: NodeId) -> FsResult<Option<Vec<u8>>> {
        self.read(self.store.load_map(id))
    }

    fn store_map(&self, id: NodeId, map: &[u8]) -> FsResult {
        self.called(0, map.len());
        self.store.store_map(id, map)
    }

    fn map_bytes_max(&self) -> usize {
        self.store.map_bytes_max()
    }

    fn store_spill(&self, number: u64, part: &[u8]) -> FsResult {
        self.called(0, part.len());
        self.store.store_spill(number, part)
    }

    fn load_spill(&self, number: u64) -> FsResult<Vec<u8>> {
        self.read(self.store.load_spill(number).map(Some)).map(Option::unwrap_or_default)
    }

    fn remove_spill(&self, number: u64) -> FsResult {
        self.called(0, 0);
        self.store.remove_spill(number)
    }

    fn spills(&self) -> FsResult<Vec<u64>> {
        self.called(0, 0);
        self.store.spills()
    }

    fn load_state(&self, name: &str) -> FsResult<Option<Vec<u8>>> {
        self.read(self.store.load_state(name))
    }

    fn store_state(&self, name: &str, bytes: &[u8]) -> FsResult {
        self.called(0, bytes.len());
        self.store.store_state(name, bytes)
    }

    fn remove_state(&self, name: &str) -> FsResult {
        self.called(0, 0);
        self.store.remove_state(name)
    }

    fn scan(&self, visit: &mut dyn FnMut(NodeId, Option<Vec<u8>>) -> FsResult) -> FsResult {
        self.store.scan(&mut |id, map| {
            let map = self.read(Ok(map))?;
            visit(id, map)
        })
    }
}

impl Durability for Counted {
    fn sync_spill(&self, number: u64) -> FsResult {
        self.synced()?;
        self.store.sync_spill(number)
    }

    fn journal(&self) -> Option<HostJournal> {
        *self.counts.journal.lock().unwrap()
    }

    fn sync(&self, id: NodeId) -> FsResult {
        self.synced()?;
        self.store.sync(id)
    }

    fn sync_dir(&self, id: NodeId) -> FsResult {
        self.synced()?;
        self.store.sync_dir(id)
    }

    fn sync_all(&self) -> FsResult {
        self.synced()?;
        self.store.sync_all()
    }

    fn room(&self) -> FsResult<StoreRoom> {
        self.called(0, 0);
        self.store.room()
    }
}
