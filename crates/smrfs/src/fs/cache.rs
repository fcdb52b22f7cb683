//! The cache of files: their state in memory, bounded by the number of extents; and the heads of records of some other files, for `stat`.
//!
//! A file stays while it is open, is to be committed, or has a call under way. Of the other files the least recently used are dropped
//! first.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use parking_lot::Mutex;

use super::allocator::Promises;
use super::file::{File, FileState, Times};
use super::place::DataStore;
use crate::error::{Errno, FsError, FsResult};
use crate::map::{self, FileMap, Head, RecordSummary};
use crate::meta::{Kind, MetadataStore};
use crate::units::{NodeId, Owner};

const SHARDS: usize = 16;

/// The most heads in a shard: 2^17 in all, some ten megabytes. (Assumption.)
const SHARD_HEADS: usize = 8192;

/// A file's own weight besides its extents, in extents. (Assumption: some 400 bytes.)
const FILE_WEIGHT: usize = 8;

#[derive(Default)]
struct Shard {
    files: HashMap<NodeId, Arc<File>>,
    /// Heads of files that are not in `files`; `None` for a file without a record.
    heads: HashMap<NodeId, Option<RecordSummary>>,
}

/// The files in memory.
pub(super) struct Files {
    store: Arc<dyn MetadataStore>,
    /// Files that had data at the mount, if that is known. If such a file has no map now, its map was lost.
    with_data: Mutex<HashSet<NodeId>>,
    /// Extents in memory before files are dropped.
    extents_max: usize,
    shards: Vec<Mutex<Shard>>,
    /// Number of uses of files so far.
    clock: AtomicU64,
    /// Sum of the weights of all files.
    weight: AtomicUsize,
    /// The weight at which the next search for files to drop is due.
    next_search: AtomicUsize,
}

impl Files {
    pub(super) fn new(store: Arc<dyn MetadataStore>, extents_max: usize, with_data: HashSet<NodeId>) -> Files {
        Files {
            store,
            with_data: Mutex::new(with_data),
            extents_max,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            clock: AtomicU64::new(0),
            weight: AtomicUsize::new(0),
            next_search: AtomicUsize::new(extents_max),
        }
    }

    fn shard(&self, id: NodeId) -> &Mutex<Shard> {
        &self.shards[(id.0 % SHARDS as u64) as usize]
    }

    /// The file, if it is in memory.
    pub(super) fn get(&self, id: NodeId) -> Option<Arc<File>> {
        self.shard(id).lock().files.get(&id).cloned()
    }

    /// Adds a file that was just created. Anything known under its number is of a file that is gone.
    pub(super) fn put_new(&self, id: NodeId) {
        let file = Arc::new(File::new(id, true));
        self.with_data.lock().remove(&id);
        self.note_use(&file);
        let mut shard = self.shard(id).lock();
        shard.heads.remove(&id);
        // Another thread may have found the name by now.
        if let Entry::Vacant(place) = shard.files.entry(id) {
            self.weigh(&file, 0);
            place.insert(file);
        }
    }

    /// Forgets a file whose data is gone.
    pub(super) fn remove(&self, file: &File) {
        let mut shard = self.shard(file.id).lock();
        if shard.files.get(&file.id).is_some_and(|other| std::ptr::eq(&**other, file)) {
            shard.files.remove(&file.id);
            self.weight.fetch_sub(file.weight.swap(0, Relaxed), Relaxed);
        }
    }

    /// Number of files.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().files.len()).sum()
    }

    fn note_use(&self, file: &File) {
        file.used.store(self.clock.fetch_add(1, Relaxed), Relaxed);
    }

    /// Notes how many extents a file has now.
    pub(super) fn weigh(&self, file: &File, extents: usize) {
        let weight = extents + FILE_WEIGHT;
        let before = file.weight.swap(weight, Relaxed);
        self.weight.fetch_add(weight, Relaxed);
        self.weight.fetch_sub(before, Relaxed);
    }

    /// Drops files that are not in use, the least recently used first, if there are too many extents.
    pub(super) fn shrink(&self) {
        let extents = self.extents_max;
        if self.weight.load(Relaxed) <= self.next_search.load(Relaxed).max(extents) {
            return;
        }
        let mut idle: Vec<(u64, NodeId)> = Vec::new();
        for shard in &self.shards {
            let files = &shard.lock().files;
            let unheld = files.values().filter(|file| Arc::strong_count(file) == 1);
            idle.extend(unheld.map(|file| (file.used.load(Relaxed), file.id)));
        }
        idle.sort_unstable();
        // Down to three quarters, so that the next search is not due at once.
        for (_, id) in idle {
            if self.weight.load(Relaxed) <= extents / 4 * 3 {
                break;
            }
            self.drop_if_idle(id);
        }
        // The search is long. If most files are in use, the next one is due only with a quarter more extents.
        let left = self.weight.load(Relaxed);
        self.next_search.store(extents.max(left + left / 4), Relaxed);
    }

    /// Drops a file from the cache if it is not in use and all of it is stored.
    fn drop_if_idle(&self, id: NodeId) {
        let mut shard = self.shard(id).lock();
        let Some(file) = shard.files.get(&id) else { return };
        let Some(state) = file.state.try_read() else { return };
        // A record says only how many granules are promised, so the file stays while some are.
        let has_promises = !state.promises.ranges.is_empty();
        if Arc::strong_count(file) > 1 || state.opens > 0 || state.is_dirty() || state.is_unlinked || has_promises {
            return;
        }
        drop(state);
        if let Some(file) = shard.files.remove(&id) {
            self.weight.fetch_sub(file.weight.swap(0, Relaxed), Relaxed);
        }
    }

    /// The record of a file as the store has it.
    fn load_record(&self, id: NodeId) -> FsResult<Option<Vec<u8>>> {
        let record = self.store.load_map(id)?;
        if record.is_none() && self.with_data.lock().contains(&id) {
            return Err(FsError::Corrupt(format!("the map of file {id} is gone, and it had data: run smrkit fsck")));
        }
        Ok(record)
    }

    /// Returns a regular file, with its map read from the store if it was not in memory.
    pub(super) fn file(&self, id: NodeId, data: &DataStore) -> FsResult<Arc<File>> {
        let mut shard = self.shard(id).lock();
        shard.heads.remove(&id);
        let file = shard.files.entry(id).or_insert_with(|| Arc::new(File::new(id, false))).clone();
        drop(shard);
        self.note_use(&file);
        if !file.look().loaded {
            let mut state = file.lock();
            if !state.loaded
                && let Err(error) = self.load(data, &file, &mut state)
            {
                drop(state);
                drop(file);
                self.drop_if_idle(id);
                return Err(error);
            }
            self.weigh(&file, state.map.weight());
        }
        self.shrink();
        if file.look().is_gone { Err(Errno::ENOENT.into()) } else { Ok(file) }
    }

    /// Reads the state of a file from the store.
    fn load(&self, data: &DataStore, file: &Arc<File>, state: &mut FileState) -> FsResult {
        let attr = self.store.attributes(file.id)?;
        match attr.kind {
            Kind::File if attr.links > 0 => {}
            Kind::File => return Err(Errno::ENOENT.into()),
            Kind::Directory => return Err(Errno::EISDIR.into()),
            _ => return Err(Errno::EINVAL.into()),
        }
        if let Some(record) = self.load_record(file.id)? {
            let decoded = map::decode(&record, |number| map::load_part(&*self.store, number))?;
            let head = decoded.summary.head;
            check_map(data, file.id, &head, &decoded.map)?;
            state.map = decoded.map;
            state.stored = decoded.stored;
            state.size = head.size;
            state.settled_size = head.size;
            state.times = Some(Times { mtime: head.mtime, ctime: head.ctime });
            let shared = data.allocator.without_room(state.map.extents_from(0));
            state.shares = !shared.is_empty();
            state.record_shares = state.shares && head.shares;
            // A map that was committed while data was still buffered may extend past the size.
            data.drop_behind(file, state, head.size.div_ceil(data.granule_bytes));
            state.promises = Promises::of_record(head.promised, &shared, &state.map);
        }
        state.loaded = true;
        Ok(())
    }

    /// Returns a file in memory (`Ok`), or else the head of its record (`Err`), which is `None` for a file without a record.
    pub(super) fn file_or_head(
        &self,
        id: NodeId,
        data: &DataStore,
    ) -> FsResult<Result<Arc<File>, Option<RecordSummary>>> {
        // The shard stays locked while the record is loaded, because otherwise an old record could replace a newer one.
        let mut shard = self.shard(id).lock();
        if let Some(file) = shard.files.get(&id).cloned() {
            drop(shard);
            return if file.look().loaded { Ok(Ok(file)) } else { self.file(id, data).map(Ok) };
        }
        if let Some(head) = shard.heads.get(&id) {
            return Ok(Err(*head));
        }
        let head = self.load_record(id)?.map(|record| map::summary(&record)).transpose()?;
        if shard.heads.len() >= SHARD_HEADS {
            shard.heads.clear();
        }
        shard.heads.insert(id, head);
        Ok(Err(head))
    }
}

/// Refuses a map with an impossible size or promise, or with data that is not live or belongs to another file, because nothing that such a
/// map names may be read or freed.
fn check_map(data: &DataStore, id: NodeId, head: &Head, map: &FileMap) -> FsResult {
    if i64::try_from(head.size).is_err() || head.promised > data.disk.device.shape().granules {
        return Err(FsError::Corrupt(format!(
            "the map of file {id} has {} bytes and {} promised granules, more than the disk: unmount, and run smrkit fsck",
            head.size, head.promised
        )));
    }
    let owner = |granule| Owner { file: id, granule };
    let places = map.extents_from(0).filter_map(|piece| Some((piece.span()?, owner(piece.first))));
    match data.allocator.first_foreign(places) {
        Some(span) => Err(FsError::Corrupt(format!(
            "the map of file {id} names {span}, which is not that file's: unmount, and run smrkit fsck"
        ))),
        None => Ok(()),
    }
}
