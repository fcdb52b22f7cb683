//! A file in memory: its map, its buffered data, and the extents that the disk still holds for its older map. Also the queue of files whose
//! buffers are to be written out, and the cache of files.
//!
//! A buffer holds whole granules that the host has written and the disk has not. In simulation a page has no bytes.
//!
//! The cache is bounded by the number of extents. A file stays while it is open, is to be committed, or has a call under way. Of the other
//! files the least recently used are dropped first. The cache also has the heads of records of some files that are not in memory, for `stat`.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::allocator::Promises;
use super::place::DataStore;
use super::read::ReadAhead;
use crate::data::{Data, ReadBuffer};
use crate::error::{Errno, FsError, FsResult};
use crate::map::{self, FileMap, FilePiece, Head, RecordSummary, Stored};
use crate::meta::{Kind, MetadataStore, Time};
use crate::units::{NodeId, Owner, Span};

/// A granule that is behind every granule of every file.
pub(super) const BEHIND_ALL: u64 = 1 << 56;
/// Every granule of a file.
pub(super) const ALL: Range<u64> = 0..BEHIND_ALL;

/// A file that is in memory. Locks are taken in this order: `commit`, `state` (of two files, that of the lower number first), the space.
pub(super) struct File {
    pub id: NodeId,
    /// The number of the call that last used it.
    pub used: AtomicU64,
    pub read_ahead: Mutex<ReadAhead>,
    /// The file's weight in the cache, in extents.
    pub weight: AtomicUsize,
    /// Held while its map is being stored.
    pub commit: Mutex<()>,
    pub state: RwLock<FileState>,
}

/// The times that a file's record holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub mtime: Time,
    pub ctime: Time,
}

/// State of a file in memory.
#[derive(Default)]
pub(super) struct FileState {
    /// True if the other fields have been read from the store.
    pub loaded: bool,
    pub map: FileMap,
    /// The part of the map that the store has.
    pub stored: Stored,
    pub size: u64,
    /// Up to this byte the disk holds the file's bytes, old or new, so a map with this size may be committed before all is written.
    pub settled_size: u64,
    /// `None` as long as the file has no record: then the store's times count.
    pub times: Option<Times>,
    pub promises: Promises,
    pub buffer: Buffer,
    /// Extents that the map no longer names, but the durable map may.
    pub retired: Vec<Span>,
    /// True if it may share extents with others.
    pub shares: bool,
    /// True if the durable record says that it shares extents.
    pub record_shares: bool,
    /// Writes that wait for room. Room was promised to them as to writes over unshared extents, so no extent may become shared meanwhile.
    pub stalled_writes: u32,
    /// Counts changes of the record.
    pub version: u64,
    /// The version that is durable in the store.
    pub durable_version: u64,
    /// The version of the last change of data or size.
    pub data_version: u64,
    pub opens: u32,
    pub writers: u32,
    /// True if its last name is gone.
    pub is_unlinked: bool,
    /// True if its data is gone, too, because it was neither named nor open.
    pub is_gone: bool,
    /// Its place in the queue of buffers to be written out, if it has one.
    pub waiting: Option<u64>,
    /// Granule of the file at which joining continues.
    pub join_at: u64,
}

impl File {
    /// A new file if `loaded`, or else one whose state has to be read from the store first.
    pub(super) fn new(id: NodeId, loaded: bool) -> File {
        File {
            id,
            used: AtomicU64::new(0),
            read_ahead: Mutex::default(),
            weight: AtomicUsize::new(0),
            commit: Mutex::new(()),
            state: RwLock::new(FileState { loaded, ..FileState::default() }),
        }
    }

    /// The file's state, to read.
    pub(super) fn look(&self) -> RwLockReadGuard<'_, FileState> {
        self.state.read()
    }

    /// The file's state, to change.
    pub(super) fn lock(&self) -> RwLockWriteGuard<'_, FileState> {
        self.state.write()
    }

    /// The file's state, to change, if it still has its data.
    pub(super) fn lock_alive(&self) -> FsResult<RwLockWriteGuard<'_, FileState>> {
        let state = self.lock();
        if state.is_gone { Err(Errno::ENOENT.into()) } else { Ok(state) }
    }
}

impl FileState {
    /// The pieces of `range` that have a place.
    pub(super) fn placed(&self, range: Range<u64>) -> Vec<FilePiece> {
        self.map.lookup(range).filter(|piece| piece.at.is_some()).collect()
    }

    /// Notes extents that the map no longer names, but that the durable map may.
    pub(super) fn note_retired(&mut self, pieces: &[FilePiece]) {
        for span in pieces.iter().filter_map(FilePiece::span) {
            match self.retired.last_mut() {
                Some(last) if last.end() == span.at => last.count += span.count,
                _ => self.retired.push(span),
            }
        }
    }

    /// True if the store's record is older than the file in memory.
    pub(super) fn is_dirty(&self) -> bool {
        self.version != self.durable_version
    }

    /// True if data or size have changed since they were made durable.
    pub(super) fn is_unsaved(&self) -> bool {
        self.data_version > self.durable_version
    }

    /// The size with which the map can be committed now. Up to this size the disk holds the file's bytes, old or new.
    pub(super) fn size_to_commit(&self, granule_bytes: u64) -> u64 {
        match self.buffer.next(self.settled_size / granule_bytes) {
            Some(granule) => self.size.min(self.settled_size.max(granule * granule_bytes)),
            None => self.size,
        }
    }
}

/// A granule's bytes; none in simulation, which reads as zeros.
pub(super) type PageBytes = Option<Box<[u8]>>;

/// The unwritten granules of one file.
#[derive(Default)]
pub(super) struct Buffer {
    pages: BTreeMap<u64, PageBytes>,
}

impl Buffer {
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The granule after the last buffered one.
    pub(super) fn end(&self) -> u64 {
        self.pages.last_key_value().map_or(0, |(&granule, _)| granule + 1)
    }

    pub(super) fn has(&self, granule: u64) -> bool {
        self.pages.contains_key(&granule)
    }

    /// Puts a granule in, whole.
    pub(super) fn put(&mut self, granule: u64, page: PageBytes) {
        self.pages.insert(granule, page);
    }

    /// Overwrites a part of a buffered granule, from byte `at` on.
    pub(super) fn patch(&mut self, granule: u64, granule_bytes: u64, at: u64, data: Data<'_>) {
        let Some(page) = self.pages.get_mut(&granule) else { return };
        if let Data::Bytes(bytes) = data {
            let page = page.get_or_insert_with(|| zeros(granule_bytes));
            page[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Zeroes the bytes `from..to` of a buffered granule.
    pub(super) fn clear(&mut self, granule: u64, from: u64, to: u64) {
        if let Some(Some(page)) = self.pages.get_mut(&granule) {
            page[from as usize..to as usize].fill(0);
        }
    }

    /// Reads a buffered granule from byte `at` on.
    pub(super) fn read(&self, granule: u64, at: u64, mut room: ReadBuffer<'_>) {
        match (self.pages.get(&granule), &mut room) {
            (Some(Some(page)), ReadBuffer::Bytes(bytes)) => {
                bytes.copy_from_slice(&page[at as usize..at as usize + bytes.len()]);
            }
            _ => room.clear(),
        }
    }

    /// Removes the granules in `range`; returns how many there were.
    pub(super) fn remove(&mut self, range: Range<u64>) -> u64 {
        // Removed one by one, because splitting the tree would walk all of it.
        let found: Vec<u64> = self.within(range).collect();
        found.iter().for_each(|granule| drop(self.pages.remove(granule)));
        found.len() as u64
    }

    /// The granules in `range`, in ascending order.
    pub(super) fn within(&self, range: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        let end = range.end.max(range.start);
        self.pages.range(range.start..end).map(|(&granule, _)| granule)
    }

    /// The first buffered granule from `from` on.
    pub(super) fn next(&self, from: u64) -> Option<u64> {
        self.pages.range(from..).next().map(|(&granule, _)| granule)
    }

    /// The first granule from `from` on that is not buffered.
    pub(super) fn next_gap(&self, from: u64) -> u64 {
        let mut gap = from;
        for (&granule, _) in self.pages.range(from..) {
            if granule != gap {
                break;
            }
            gap += 1;
        }
        gap
    }

    /// The contiguous runs of the first `granules_max` granules.
    pub(super) fn runs(&self, granules_max: u64) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for &granule in self.pages.keys().take(granules_max as usize) {
            match runs.last_mut() {
                Some(run) if run.end == granule => run.end += 1,
                _ => runs.push(granule..granule + 1),
            }
        }
        runs
    }

    /// The bytes of the first `count` granules, one after another; `None` if no granule has bytes (in simulation).
    pub(super) fn gather(&self, count: u64, granule_bytes: u64) -> Option<Vec<u8>> {
        let pages = || self.pages.values().take(count as usize);
        if pages().all(Option::is_none) {
            return None;
        }
        let mut bytes = Vec::with_capacity((count * granule_bytes) as usize);
        for page in pages() {
            match page {
                Some(page) => bytes.extend_from_slice(page),
                None => bytes.resize(bytes.len() + granule_bytes as usize, 0),
            }
        }
        Some(bytes)
    }
}

pub(super) fn zeros(granule_bytes: u64) -> Box<[u8]> {
    vec![0; granule_bytes as usize].into_boxed_slice()
}

/// The files with buffered data, in the order in which they are to be written out. Any file may leave the queue.
#[derive(Default)]
struct Queue {
    files: BTreeMap<u64, Arc<File>>,
    next: u64,
}

/// Buffered data of all files.
#[derive(Default)]
pub(super) struct Buffers {
    queue: Mutex<Queue>,
    bytes: AtomicU64,
}

impl Buffers {
    /// Unwritten bytes in memory.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Counts `bytes` more.
    pub(super) fn added(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts `bytes` less. A file with an empty buffer leaves the queue.
    pub(super) fn removed(&self, state: &mut FileState, bytes: u64) {
        self.bytes.fetch_sub(bytes, Relaxed);
        if state.buffer.is_empty()
            && let Some(place) = state.waiting.take()
        {
            self.queue.lock().files.remove(&place);
        }
    }

    /// Puts a file at the end of the queue, if it is not in it.
    pub(super) fn queue(&self, file: &Arc<File>, state: &mut FileState) {
        if state.waiting.is_none() {
            state.waiting = Some(self.queue.lock().join(file));
        }
    }

    /// Moves a file from its place in the queue to the end.
    pub(super) fn queue_again(&self, file: &Arc<File>, state: &mut FileState) {
        if let Some(place) = state.waiting {
            let mut queue = self.queue.lock();
            queue.files.remove(&place);
            state.waiting = Some(queue.join(file));
        }
    }

    /// The file that waits longest. It stays in the queue until its buffer is empty.
    pub(super) fn longest_waiting(&self) -> Option<Arc<File>> {
        self.queue.lock().files.values().next().cloned()
    }

    /// All files that wait.
    pub(super) fn all(&self) -> Vec<Arc<File>> {
        self.queue.lock().files.values().cloned().collect()
    }
}

impl Queue {
    fn join(&mut self, file: &Arc<File>) -> u64 {
        self.next += 1;
        self.files.insert(self.next, file.clone());
        self.next
    }
}

/// Parts of the cache with a lock each, so that threads rarely wait for each other.
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

/// A file that is in memory, or else the head of its record.
pub(super) enum FileOrHead {
    File(Arc<File>),
    Head(RecordSummary),
    NoRecord,
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

    /// Returns what is known of a file without loading its map.
    pub(super) fn file_or_head(&self, id: NodeId, data: &DataStore) -> FsResult<FileOrHead> {
        // The shard stays locked while the record is loaded, because otherwise an old record could replace a newer one.
        let mut shard = self.shard(id).lock();
        if let Some(file) = shard.files.get(&id).cloned() {
            drop(shard);
            // Another thread may be loading it: then this waits for that.
            return Ok(FileOrHead::File(if file.look().loaded { file } else { self.file(id, data)? }));
        }
        let head = match shard.heads.get(&id) {
            Some(head) => *head,
            None => {
                let head = self.load_record(id)?.map(|record| map::summary(&record)).transpose()?;
                if shard.heads.len() >= SHARD_HEADS {
                    shard.heads.clear();
                }
                shard.heads.insert(id, head);
                head
            }
        };
        Ok(head.map_or(FileOrHead::NoRecord, FileOrHead::Head))
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
