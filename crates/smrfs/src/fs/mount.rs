//! Mounting and unmounting. Live extents come from the maps, or from the state that a clean unmount saved.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};

use super::allocator::Rooms;
use super::commit::Commits;
use super::file::{ALL, File, Files};
use super::place::DataStore;
use super::shared::Shared;
use super::{FileSystem, FsOptions};
use crate::device::{HostManaged, Model, Shape};
use crate::error::{Errno, FsError, FsResult, SealFault};
use crate::map::{self, Decoded, MapError};
use crate::meta::MetadataStore;
use crate::space::Live;
use crate::space::Space;
use crate::units::{Granule, NodeId, Owner, Span};

/// The name of the saved state in the store.
pub(crate) const STATE: &str = "free-map";

impl FileSystem {
    /// Mounts a volume: takes its live extents from the saved state if the last unmount was clean, else from a scan of all maps. `space` is
    /// fresh; the caller has checked that device and store belong together.
    pub fn mount(
        device: Arc<dyn HostManaged>,
        store: Arc<dyn MetadataStore>,
        mut space: Box<dyn Space>,
        options: FsOptions,
    ) -> FsResult<FileSystem> {
        let shape = *device.shape();
        let saved = store.load_state(STATE)?.and_then(|bytes| decode(&bytes, &shape));
        let (adopted, next_part, promising) = match &saved {
            Some(saved) => (adopt_saved(saved, &mut *space)?, saved.next_part, Vec::new()),
            None => scan(&*store, &mut *space, options.read_only)?,
        };
        let report = match shape.model {
            Model::StrictAppend => device.report(0, shape.bands.count)?,
            Model::Caveat => Vec::new(),
        };
        space.start(&report);
        if !options.read_only {
            // From here on the saved state would be outdated.
            store.remove_state(STATE)?;
            discard_dead(&*device, &*space, &shape);
        }
        let rooms = Rooms { usable: space.usable(), mapped: adopted.mapped, promised: adopted.promised };
        let commits = Commits::default();
        commits.next_part.store(next_part, Relaxed);
        let mounted = FileSystem {
            data: DataStore::new(device, store.clone(), space, adopted.shared, rooms, options.block_granules),
            files: Files::new(store.clone(), options.cached_extents, adopted.with_data),
            commits,
            store,
            options,
            cleaning: Mutex::default(),
            names: RwLock::default(),
            unmounted: AtomicBool::new(false),
            damaged: adopted.damaged,
        };
        // A crash may bring back data whose room had been promised to others since, so promises are dropped until all others can be kept.
        for id in promising {
            if mounted.options.read_only || mounted.data.allocator.rooms.lock().is_enough() {
                break;
            }
            let file = mounted.file(id)?;
            let mut state = file.lock();
            mounted.data.replace_ranges(&file, &mut state, &[ALL], &mut 0, |_, _| Vec::new());
            mounted.data.touch(&file, &mut state);
        }
        Ok(mounted)
    }

    /// Makes everything durable, and saves the state from which the next mount starts without a scan. Nothing can be changed afterwards.
    pub fn unmount(&self) -> FsResult {
        if self.options.read_only || self.unmounted.load(Relaxed) {
            return Ok(());
        }
        self.sync_all()?;
        self.unmounted.store(true, Relaxed);
        let promised = self.data.allocator.rooms.lock().promised;
        let unlinked = |owner: Owner| self.files.get(owner.file).is_some_and(|file| file.look().is_unlinked);
        let (live, shared) = (self.live(), self.data.allocator.shared.read().all().collect::<Vec<_>>());
        let saved = SavedState::new(self.commits.next_part.load(Relaxed), promised, &live, &shared, unlinked);
        match self.store.store_state(STATE, &encode(&saved, self.data.disk.device.shape())) {
            // Without a saved state, the next mount reads all maps.
            Err(error) if error.errno() == Errno::ENOSPC => Ok(()),
            stored => stored,
        }
    }

    /// Files and other nodes with changes that are not durable, those with most data in memory first.
    pub fn unsaved(&self) -> Vec<Unsaved> {
        let mut unsaved = Vec::new();
        let dirty: Vec<Arc<File>> = self.data.dirty.lock().values().cloned().collect();
        for file in dirty {
            let state = file.look();
            if state.is_unsaved() && !state.is_unlinked {
                let bytes = state.buffer.within(ALL).count() as u64 * self.data.granule_bytes;
                unsaved.push((file.id, Some(bytes)));
            }
        }
        let others = self.commits.unsynced.lock().nodes();
        let with_data: HashSet<NodeId> = unsaved.iter().map(|(id, _)| *id).collect();
        unsaved.extend(others.into_iter().filter(|id| !with_data.contains(id)).map(|id| (id, None)));
        unsaved.sort_by_key(|&(id, bytes)| (Reverse(bytes), id));
        let named =
            unsaved.into_iter().map(|(id, data_bytes)| Unsaved { id, path: self.store.path_to(id), data_bytes });
        // A node without path and data has lost its last name, so there is nothing to save.
        named.filter(|one| one.path.is_some() || one.data_bytes.is_some()).collect()
    }
}

/// A node with changes that are not durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsaved {
    /// The node.
    pub id: NodeId,
    /// A path, if the store knows one.
    pub path: Option<Vec<u8>>,
    /// Bytes of its data in memory, if data or size have changes that are not durable; `None` if only its name has.
    pub data_bytes: Option<u64>,
}

/// Adopts the extents of a state that the last mount saved, so that no map has to be read.
fn adopt_saved(saved: &SavedState, space: &mut dyn Space) -> FsResult<Adopted> {
    let mut adopted = Adopted { mapped: saved.mapped, promised: saved.promised, ..Adopted::default() };
    for &(span, owner) in &saved.extents {
        if !space.adopt(span, owner) {
            return Err(conflicting_owner(span, owner));
        }
        adopted.with_data.insert(owner.file);
    }
    for &(span, owner) in &saved.shared {
        adopted.with_data.insert(owner.file);
        if adopt(space, &mut adopted.shared, span, owner, |_| true)? > 0 {
            return Err(conflicting_owner(span, owner));
        }
    }
    Ok(adopted)
}

/// Reads every map, and removes parts that no map names. Returns the findings, the number of the next part of a map, and the files to which
/// room is promised.
fn scan(store: &dyn MetadataStore, space: &mut dyn Space, read_only: bool) -> FsResult<(Adopted, u64, Vec<NodeId>)> {
    let mut parts: BTreeSet<u64> = store.spills()?.into_iter().collect();
    let next_part = parts.last().map_or(1, |last| last + 1);
    let mut promising = Vec::new();
    let adopted = adopt_maps(store, space, &mut |id, decoded| {
        if decoded.summary.head.promised > 0 {
            promising.push(id);
        }
        decoded.stored.numbers().for_each(|number| {
            parts.remove(&number);
        });
    })?;
    // A damaged map does not show which parts are its own, and fsck may need them.
    if !read_only && adopted.damaged.is_empty() {
        for number in parts {
            store.remove_spill(number)?;
        }
    }
    Ok((adopted, next_part, promising))
}

/// Discards all granules that are not live, because a crash may have left data there that nobody will read.
fn discard_dead(device: &dyn HostManaged, space: &dyn Space, shape: &Shape) {
    let mut at = Granule(0);
    let end = Span { at: Granule(shape.granules), count: 0 };
    for span in space.live().from(Granule(0)).map(|(span, _)| span).chain([end]) {
        if span.at > at {
            device.discard(Span { at, count: span.at - at });
        }
        at = span.end();
    }
}

/// The findings of reading all maps.
#[derive(Debug, Default)]
pub struct Adopted {
    /// Regular files with data.
    pub files: u64,
    /// Granules in maps. Shared ones count once.
    pub mapped: u64,
    /// Granules promised by fallocate.
    pub promised: u64,
    /// Files whose maps can't be used.
    pub damaged: Vec<DamagedMap>,
    /// Extents that files share.
    pub(super) shared: Shared,
    /// Files with data, if they are known before their maps are read.
    pub(super) with_data: HashSet<NodeId>,
}

/// A file whose map can't be used. It can't be read; others can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedMap {
    /// The file.
    pub file: NodeId,
    /// The fault.
    pub reason: String,
}

/// Reads every map, has a fresh `space` adopt its extents, and calls `each` for it. A corrupt map costs only its own file. Fails
///
/// - at a map of a newer program, or one that can't be read now, because its data would be overwritten,
/// - at a map that names an extent of another without saying that it shares, because then image and directory are of different moments.
pub fn adopt_maps(
    store: &dyn MetadataStore,
    space: &mut dyn Space,
    each: &mut dyn FnMut(NodeId, &Decoded),
) -> FsResult<Adopted> {
    let (mut adopted, mut sharing) = (Adopted::default(), HashSet::new());
    let mut of_other_users = Vec::new();
    store.inspect(&mut |id, found| {
        let mut reason = None;
        let record = match found {
            Ok(None) => return Ok(()),
            Ok(Some(map)) => map.record,
            Err(FsError::Seal(error)) => {
                let why = error.fault.to_string();
                match error.fault {
                    SealFault::Damaged | SealFault::Forged => {
                        adopted.damaged.push(DamagedMap { file: id, reason: why });
                        return Ok(());
                    }
                    SealFault::Version(_) => return Err(in_file(id, FsError::Corrupt(why))),
                    SealFault::Owner { map, .. } => {
                        reason = Some(why);
                        map.record
                    }
                }
            }
            Err(error) => return Err(in_file(id, error)),
        };
        if let Err(error @ MapError::Version(_)) = map::summary(&record) {
            return Err(in_file(id, error.into()));
        }
        let decoded = match map::decode_places(&record, |number| map::load_part(store, number)) {
            Err(error @ (FsError::Corrupt(_) | FsError::ForgedPart(_))) => {
                adopted.damaged.push(DamagedMap { file: id, reason: error.to_string() });
                return Ok(());
            }
            decoded => decoded?,
        };
        if let Some(reason) = reason {
            // It may be a copy of another file's map, which then has to adopt its extents first.
            adopted.damaged.push(DamagedMap { file: id, reason });
            each(id, &decoded);
            of_other_users.push((id, decoded));
            return Ok(());
        }
        if decoded.summary.head.shares {
            sharing.insert(id);
        }
        adopted.files += u64::from(decoded.map.extents() > 0);
        for piece in decoded.map.extents_from(0) {
            let Some(span) = piece.span() else { continue };
            let may_share = |other: NodeId| sharing.contains(&id) && sharing.contains(&other);
            let owner = Owner { file: id, granule: piece.first };
            adopted.mapped += adopt(space, &mut adopted.shared, span, owner, may_share)?;
        }
        adopted.promised = adopted.promised.saturating_add(decoded.summary.head.promised);
        each(id, &decoded);
        Ok(())
    })?;
    // Their data is kept, because the owner may get the file back.
    for (id, decoded) in of_other_users {
        for piece in decoded.map.extents_from(0) {
            let Some(span) = piece.span() else { continue };
            if space.adopt(span, Owner { file: id, granule: piece.first }) {
                adopted.mapped += span.count;
            }
        }
    }
    Ok(adopted)
}

/// Adopts an extent, which may have other owners if `may_share` is true of their files. Returns how many granules had no owner.
pub(super) fn adopt(
    space: &mut dyn Space,
    shared: &mut Shared,
    span: Span,
    owner: Owner,
    may_share: impl Fn(NodeId) -> bool,
) -> FsResult<u64> {
    if space.adopt(span, owner) {
        return Ok(span.count);
    }
    let others: Vec<(Span, Owner)> = space.live().within(span).collect();
    if !others.iter().all(|(_, other)| may_share(other.file)) {
        return Err(conflicting_owner(span, owner));
    }
    let (mut at, mut adopted) = (span.at, 0);
    // An empty span at the end, so that what lies behind the last of the others is adopted, too.
    for other in others.iter().map(|(other, _)| *other).chain([Span { at: span.end(), count: 0 }]) {
        let before = Span { at, count: other.at - at };
        if !space.adopt(before, owner.further(at - span.at)) {
            return Err(conflicting_owner(span, owner));
        }
        adopted += before.count;
        shared.add(other, owner.further(other.at - span.at), space.live());
        at = other.end();
    }
    Ok(adopted)
}

pub(super) fn conflicting_owner(span: Span, owner: Owner) -> FsError {
    let file = owner.file;
    FsError::Corrupt(format!("the map of file {file} names {span}, which is another's or not there: run smrkit fsck"))
}

fn in_file(id: NodeId, error: FsError) -> FsError {
    match error {
        FsError::Corrupt(why) => FsError::Corrupt(format!("file {id}: {why}")),
        other => other,
    }
}

/// The version of a saved state. (1 and 2 were coded by hand.)
const VERSION: u64 = 3;

/// State that a clean unmount saves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedState {
    /// The number of the next part of a map.
    pub next_part: u64,
    /// Granules in maps.
    pub mapped: u64,
    /// Granules promised.
    pub promised: u64,
    /// Live extents, in ascending order.
    pub extents: Vec<(Span, Owner)>,
    /// Live extents with further owners.
    pub shared: Vec<(Span, Owner)>,
}

impl SavedState {
    /// Makes the state of the `live` extents, and of the `shared` ones with all their owners, without files that are `unlinked`.
    pub(super) fn new(
        next_part: u64,
        promised: u64,
        live: &[(Span, Owner)],
        shared: &[(Span, Owner)],
        unlinked: impl Fn(Owner) -> bool,
    ) -> SavedState {
        let stays = |(_, owner): &&(Span, Owner)| !unlinked(*owner);
        let mut first = Live::default();
        for &(span, owner) in live.iter().filter(stays) {
            first.insert(span, owner);
        }
        // If an extent's first owner is unlinked, the next one is inserted in its place. The rest, which `insert` refuses, are further owners.
        let mut is_further = |&(span, owner): &(Span, Owner)| !first.holds(span, owner) && !first.insert(span, owner);
        let shared = shared.iter().filter(stays).copied().filter(|extent| is_further(extent)).collect();
        let (extents, mapped) = (first.from(Granule(0)).collect(), first.granules());
        SavedState { next_part, mapped, promised, extents, shared }
    }
}

pub(super) fn encode(saved: &SavedState, shape: &Shape) -> Vec<u8> {
    let state = (VERSION, shape.granules, shape.granule_bytes, saved);
    map::sealed(postcard::to_allocvec(&state).expect("a state of known shape"))
}

/// Decodes the state of a clean unmount; `None` if it is of another disk, torn, or contradicts itself.
pub(crate) fn decode(bytes: &[u8], shape: &Shape) -> Option<SavedState> {
    type State = (u64, u64, u64, SavedState);
    // Forged counts do no harm: postcard reserves a megabyte at most before it has read the items.
    let (state, rest) = postcard::take_from_bytes::<State>(map::unsealed(bytes)?).ok()?;
    let (version, granules, granule_bytes, saved) = state;
    let is_possible = |(span, owner): &(Span, Owner)| {
        let is_on_disk = span.at.0.checked_add(span.count).is_some_and(|end| end <= shape.granules);
        is_on_disk && owner.granule.checked_add(span.count).is_some()
    };
    let is_sound = rest.is_empty()
        && (version, granules, granule_bytes) == (VERSION, shape.granules, shape.granule_bytes)
        && saved.extents.iter().chain(&saved.shared).all(is_possible)
        && saved.extents.is_sorted_by(|(span, _), (next, _)| span.at.0 + span.count <= next.at.0)
        && saved.extents.iter().map(|(span, _)| span.count).try_fold(0, u64::checked_add) == Some(saved.mapped);
    is_sound.then_some(saved)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::data::{Data, ReadBuffer};
    use crate::device::caveat::CaveatScriptor;
    use crate::device::{Bands, Model};
    use crate::error::FsError;
    use crate::fs::mount::STATE;
    use crate::fs::{FileSystem, FsOptions};
    use crate::meta::memory::{Limits, MemoryStore};
    use crate::meta::{Kind, Maps, NewNode, Time};
    use crate::space::caveat::{Caveat, CaveatOptions};
    use crate::testing::memory::Memory;
    use crate::testing::memory::Power;

    #[test]
    fn what_was_saved_comes_back_and_a_flipped_bit_does_not() {
        let bands = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
        let shape = Shape { model: Model::Caveat, granule_bytes: 4096, granules: 1000, did: 1, dpid: 1, bands };
        let owner = |file, granule| Owner { file: NodeId(file), granule };
        let extents = vec![(Span::new(0, 5), owner(7, 0)), (Span::new(300, 200), owner(1 << 40, 9))];
        let shared =
            vec![(Span::new(2, 3), owner(9, 4)), (Span::new(2, 3), owner(5, 0)), (Span::new(310, 1), owner(7, 8))];
        for shared in [Vec::new(), shared] {
            let saved = SavedState { next_part: 3, mapped: 205, promised: 2, extents: extents.clone(), shared };
            comes_back(&saved, &shape);
        }
        for wrong in [vec![extents[1], extents[0]], vec![extents[0], (Span::new(4, 200), owner(5, 0))]] {
            let saved = SavedState { next_part: 3, mapped: 205, promised: 2, extents: wrong, shared: Vec::new() };
            assert_eq!(decode(&encode(&saved, &shape), &shape), None, "out of order, or over each other");
        }
    }

    fn comes_back(saved: &SavedState, shape: &Shape) {
        let bytes = encode(saved, shape);
        assert_eq!(decode(&bytes, shape).as_ref(), Some(saved));
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bytes, shape), None, "bit {bit}");
        }
        assert_eq!(decode(&bytes, &Shape { granules: 999, ..*shape }), None);
        let content = map::unsealed(&bytes).unwrap();
        for (at, byte) in [(0, 2), (content.len(), 0)] {
            let mut other = content.to_vec();
            other.truncate(at);
            other.push(byte);
            other.extend(&content[content.len().min(at + 1)..]);
            assert_eq!(decode(&map::sealed(other), shape), None, "an older version, and more than there is");
        }
    }

    #[test]
    fn an_old_state_and_one_of_endless_counts_are_not_read() {
        let bands = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
        let shape = Shape { model: Model::Caveat, granule_bytes: 4096, granules: 1000, did: 1, dpid: 1, bands };
        // Coded by hand, version 1: an extent of five granules of file 7.
        let old = [1, 0xe8, 7, 0x80, 0x20, 3, 5, 0, 1, 0, 5, 7, 0];
        assert_eq!(decode(&map::sealed(old.to_vec()), &shape), None);
        let endless = [3, 0xe8, 7, 0x80, 0x20, 3, 5, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(decode(&map::sealed(endless.to_vec()), &shape), None);
        let empty = [3, 0xe8, 7, 0x80, 0x20, 3, 0, 0, 0, 0];
        assert!(decode(&map::sealed(empty.to_vec()), &shape).is_some());
    }

    /// Whoever changes the saved state can't make one file's data another's.
    #[test]
    fn swapped_owners_give_nobody_the_data_of_another() {
        let bands = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
        let shape = Shape { model: Model::Caveat, granule_bytes: 512, granules: 400, did: 2, dpid: 2, bands };
        let memory = Arc::new(Memory::new(&shape, Arc::new(Power::new())));
        let store = Arc::new(MemoryStore::new(Limits::EXT4, Arc::new(Time::default)));
        let mounted = || {
            let device = Arc::new(CaveatScriptor::new(memory.clone(), shape).unwrap());
            let space =
                Box::new(Caveat::new(&shape, CaveatOptions { block_granules: 8, ..CaveatOptions::default() }).unwrap());
            FileSystem::mount(device, store.clone(), space, FsOptions::default()).unwrap()
        };
        let fs = mounted();
        let new = NewNode { kind: Kind::File, mode: 0o600, uid: 0, gid: 0, rdev: 0 };
        let [one, two] = [b"a", b"b"].map(|name| fs.make(fs.root(), name, &new).unwrap().id);
        for (id, byte) in [(one, 1), (two, 2)] {
            fs.write(id, 0, Data::Bytes(&[byte; 4096])).unwrap();
        }
        fs.unmount().unwrap();
        let mut saved = decode(&store.load_state(STATE).unwrap().unwrap(), &shape).unwrap();
        for (_, owner) in &mut saved.extents {
            owner.file = if owner.file == one { two } else { one };
        }
        store.store_state(STATE, &encode(&saved, &shape)).unwrap();
        let fs = mounted();
        for id in [one, two] {
            let read = fs.read(id, 0, ReadBuffer::Bytes(&mut [0; 4096]));
            assert!(matches!(read, Err(FsError::Corrupt(_))), "{read:?}");
            assert!(fs.write(id, 0, Data::Bytes(&[3; 512])).is_err());
        }
        // A disk that is filled is cleaned as well: nothing of the two is moved or overwritten.
        let other = fs.make(fs.root(), b"c", &new).unwrap().id;
        let room = fs.usage().unwrap().free * 512;
        for round in 0..20 {
            fs.write(other, round % 3 * 512, Data::Bytes(&vec![4; (room - 1024) as usize])).unwrap();
        }
        fs.sync_all().unwrap();
        drop(fs);
        store.remove_state(STATE).unwrap();
        let fs = mounted();
        for (id, byte) in [(one, 1), (two, 2)] {
            let mut back = [0; 4096];
            fs.read(id, 0, ReadBuffer::Bytes(&mut back)).unwrap();
            assert_eq!(back, [byte; 4096]);
        }
    }
}
