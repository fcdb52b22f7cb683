//! Mounting and unmounting: what is live comes from the maps, or from what a clean unmount saved.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::adopt::{Adopted, adopt, adopt_maps, not_there};
use super::allocator::Allocator;
use super::file::BEHIND_ALL;
use super::room::Rooms;
use super::saved::{self, SavedState};
use super::{FileSystem, FsOptions};
use crate::device::{HostManaged, Model, Shape};
use crate::error::{Errno, FsResult};
use crate::meta::MetadataStore;
use crate::space::Space;
use crate::units::{Granule, NodeId, Owner, Span};

/// The name of the saved state in the store.
pub(crate) const STATE: &str = "free-map";

/// Findings of a mount.
pub(super) struct Found {
    pub(super) adopted: Adopted,
    pub(super) next_part: u64,
    /// The files that promises were made to, after a scan.
    promising: Vec<NodeId>,
}

impl FileSystem {
    /// Mounts: takes the maps from the store's saved state if the last unmount was clean, and by a scan if not.
    /// `space` is fresh; whoever calls has checked that device and store belong together.
    pub fn mount(
        device: Arc<dyn HostManaged>,
        store: Arc<dyn MetadataStore>,
        mut space: Box<dyn Space>,
        options: FsOptions,
    ) -> FsResult<FileSystem> {
        let shape = *device.shape();
        let saved = store.load_state(STATE)?.and_then(|bytes| saved::decode(&bytes, &shape));
        let mut found = match &saved {
            Some(saved) => take_saved(saved, &mut *space)?,
            None => scan(&*store, &mut *space, options.read_only)?,
        };
        let report = match shape.model {
            Model::StrictAppend => device.report(0, shape.bands.count)?,
            Model::Caveat => Vec::new(),
        };
        space.start(&report);
        if !options.read_only {
            // From here on the saved state would lie.
            store.remove_state(STATE)?;
            discard_dead(&*device, &*space, &shape);
        }
        let Adopted { mapped, promised, .. } = found.adopted;
        let rooms = Rooms { usable: space.usable(), mapped, promised };
        let allocator = Allocator::new(space, std::mem::take(&mut found.adopted.shared), rooms);
        let promising = std::mem::take(&mut found.promising);
        let mounted = FileSystem::new(device, store, allocator, options, found);
        if !mounted.options.read_only {
            mounted.drop_promises(&promising)?;
        }
        Ok(mounted)
    }

    /// A crash may bring data back whose room had been promised to others since. What can't be kept is dropped.
    fn drop_promises(&self, promising: &[NodeId]) -> FsResult {
        for &id in promising {
            if self.data.allocator.rooms().is_kept() {
                break;
            }
            let file = self.file(id)?;
            let mut state = file.lock();
            self.data.rearrange(&file, &mut state, 0..BEHIND_ALL, &mut 0, |_| Vec::new());
            self.data.touch(&file, &mut state);
        }
        Ok(())
    }

    /// Makes everything durable, saves the free map, and says so. Nothing can be changed afterwards.
    pub fn unmount(&self) -> FsResult {
        if self.options.read_only || self.unmounted.load(Relaxed) {
            return Ok(());
        }
        self.sync_all()?;
        self.unmounted.store(true, Relaxed);
        let promised = self.data.allocator.rooms().promised;
        let unlinked = |owner: Owner| self.files.get(owner.file).is_some_and(|file| file.look().handles.is_unlinked());
        let (live, shared) = (self.live(), self.data.allocator.shared());
        let saved = SavedState::new(self.commits.next_part(), promised, &live, &shared, unlinked);
        match self.store.store_state(STATE, &saved::encode(&saved, self.data.disk.shape())) {
            // The next mount reads all maps instead.
            Err(error) if error.errno() == Errno::ENOSPC => Ok(()),
            stored => stored,
        }
    }

    /// Files and other nodes of which something is not durable; those with most in memory first.
    pub fn unsaved(&self) -> Vec<Unsaved> {
        let mut unsaved = Vec::new();
        for file in self.data.dirty.all() {
            let state = file.look();
            if state.versions.is_unsaved() && !state.handles.is_unlinked() {
                let bytes = state.buffer.within(0..BEHIND_ALL).count() as u64 * self.data.granule_bytes;
                unsaved.push((file.id, Some(bytes)));
            }
        }
        let others = self.commits.unsynced_nodes();
        let with_data: HashSet<NodeId> = unsaved.iter().map(|(id, _)| *id).collect();
        unsaved.extend(others.into_iter().filter(|id| !with_data.contains(id)).map(|id| (id, None)));
        unsaved.sort_by_key(|&(id, bytes)| (Reverse(bytes), id));
        let told = unsaved.into_iter().map(|(id, data_bytes)| Unsaved { path: self.store.path_to(id), data_bytes });
        // A node without a path has lost its last name, which is not durable either.
        told.filter(|one| one.path.is_some() || one.data_bytes.is_some()).collect()
    }
}

/// A node of which something is not durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsaved {
    /// A path, where the store knows one.
    pub path: Option<Vec<u8>>,
    /// Bytes of its data in memory, if data or size have changed since they were durable; none if only its name is not.
    pub data_bytes: Option<u64>,
}

fn take_saved(saved: &SavedState, space: &mut dyn Space) -> FsResult<Found> {
    let mut adopted = Adopted { mapped: saved.mapped, promised: saved.promised, ..Adopted::default() };
    for &(span, owner) in &saved.extents {
        if !space.adopt(span, owner) {
            return Err(not_there(span, owner));
        }
        adopted.with_data.insert(owner.file);
    }
    for &(span, owner) in &saved.shared {
        adopted.with_data.insert(owner.file);
        if adopt(space, &mut adopted.shared, span, owner, |_| true)? > 0 {
            return Err(not_there(span, owner));
        }
    }
    Ok(Found { adopted, next_part: saved.next_part, promising: Vec::new() })
}

/// Reads every map. Parts that none names are removed.
fn scan(store: &dyn MetadataStore, space: &mut dyn Space, read_only: bool) -> FsResult<Found> {
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
    // A map that can't be used does not tell which parts are its own: fsck may need them.
    if !read_only && adopted.damaged.is_empty() {
        for number in parts {
            store.remove_spill(number)?;
        }
    }
    Ok(Found { adopted, next_part, promising })
}

/// Tells the disk what is not live: nobody knows what a crash left there, and nobody will read it.
fn discard_dead(device: &dyn HostManaged, space: &dyn Space, shape: &Shape) {
    let mut at = Granule(0);
    let mut dead = |until: Granule, behind: Granule| {
        if until > at {
            device.discard(Span { at, count: until - at });
        }
        at = behind;
    };
    for (span, _) in space.live().from(Granule(0)) {
        dead(span.at, span.end());
    }
    dead(Granule(shape.granules), Granule(shape.granules));
}
