//! A metadata store in memory.
//!
//! Names behave as on Linux. Permissions are not checked: on a mount the kernel does that. Nothing is ever lost, unless a test has put a
//! power supply behind the store (`power`). Each operation checks its arguments, changes the tree, and notes what a power cut may take.

mod power;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::{Attr, Attributes, Durability, Entry, Kind, Maps, Names, NewNode, RenameMode, SetAttr, StoreRoom, Time};
use crate::error::{Errno, FsError, FsResult};
use crate::units::{HostJournal, NodeId};
use power::Powered;
pub use power::StoreLoss;
use tree::{NAME_BYTES, Name, ROOT, SavedNode, Tree};

/// The time of a store: a counter, or the model's clock.
pub type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// Limits of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest map that always fits.
    pub map_bytes: usize,
    /// All users' attributes of a node. A map may be longer than `map_bytes` by the space that they leave.
    pub attribute_bytes: usize,
    /// Nodes.
    pub nodes: u64,
}

impl Limits {
    /// As ext4 with blocks of 4 KiB: one block for all attributes of a node.
    pub const EXT4: Limits = Limits { map_bytes: 2000, attribute_bytes: 1900, nodes: 1 << 32 };
    /// As file systems that take 64 KiB for each attribute.
    pub const LARGE: Limits = Limits { map_bytes: 60_000, attribute_bytes: 1 << 20, nodes: 1 << 40 };
}

/// A part of the store after a change; `None` if it was removed.
#[derive(Clone, Debug)]
pub enum Effect {
    /// The saved part of a node.
    Node(NodeId, Arc<SavedNode>),
    /// A name in a directory.
    Name(NodeId, Name, Option<NodeId>),
    /// A part of a map.
    Part(u64, Option<Arc<[u8]>>),
    /// A named state, which is durable at once.
    State(String, Option<Arc<[u8]>>),
}

/// The target of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synced {
    /// The saved part of a node, without its names.
    Node(NodeId),
    /// The names in a directory, and everything that they depend on.
    Directory(NodeId),
    /// A part of a map.
    Part(u64),
    /// Everything.
    All,
}

/// A metadata store in memory.
pub struct MemoryStore {
    state: Mutex<StoreState>,
    limits: Limits,
    clock: Clock,
    /// True if all changes become durable in order, by commits of a journal, as on ext4.
    in_order: bool,
    /// What was left by a power cut holds all changes up to this operation of its power supply.
    committed: u64,
}

struct StoreState {
    tree: Tree,
    parts: BTreeMap<u64, Arc<[u8]>>,
    states: BTreeMap<String, Arc<[u8]>>,
    power: Option<Powered>,
    /// True if the next change of names ends in an I/O error after it has been made.
    breaks_behind_change: bool,
}

impl MemoryStore {
    /// An empty store that never loses anything.
    pub fn new(limits: Limits, clock: Clock) -> MemoryStore {
        let new = NewNode { kind: Kind::Directory, mode: 0o755, uid: 0, gid: 0, rdev: 0 };
        let tree = Tree::new(SavedNode::new(&new, clock()));
        let state = StoreState {
            tree,
            parts: BTreeMap::new(),
            states: BTreeMap::new(),
            power: None,
            breaks_behind_change: false,
        };
        MemoryStore { state: Mutex::new(state), limits, clock, in_order: false, committed: 0 }
    }

    /// The next change of names is made, and ends in an I/O error.
    pub fn break_behind_next_change(&self) {
        self.lock().breaks_behind_change = true;
    }

    fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock()
    }

    /// Locks the state to read it, if there is power.
    fn lock_to_read(&self) -> FsResult<MutexGuard<'_, StoreState>> {
        let state = self.lock();
        state.power.as_ref().map_or(Ok(()), Powered::look)?;
        Ok(state)
    }

    /// Locks the state to change it, if there is power.
    fn lock_to_change(&self) -> FsResult<MutexGuard<'_, StoreState>> {
        let mut state = self.lock();
        state.power.as_mut().map_or(Ok(()), Powered::begin)?;
        Ok(state)
    }

    fn sync_what(&self, what: Synced) -> FsResult {
        self.lock().power.as_mut().map_or(Ok(()), |power| power.sync(what))
    }

    /// Creates a node. In a set-group-ID directory it gets the directory's group.
    fn make_saved(&self, parent: NodeId, name: &[u8], new: &NewNode, target: Option<&[u8]>) -> FsResult<Attr> {
        let (now, mut state) = ((self.clock)(), self.lock_to_change()?);
        let StoreState { tree, .. } = &mut *state;
        tree.check_new_name(parent, name)?;
        if tree.nodes.len() as u64 >= self.limits.nodes {
            return Err(Errno::ENOSPC.into());
        }
        let directory = &tree.node(parent)?.saved;
        let mut saved = SavedNode::new(new, now);
        if directory.mode & 0o2000 != 0 {
            saved.gid = directory.gid;
            saved.mode |= if new.kind == Kind::Directory { 0o2000 } else { 0 };
        }
        saved.target = target.map(Arc::from);
        let (id, name) = (tree.add(saved), Arc::from(name));
        tree.attach(parent, &name, id)?;
        tree.modified(parent, now);
        let attr = tree.look_up(id)?;
        state.save(id);
        state.rename(vec![Effect::Name(parent, name, Some(id))], vec![id], None);
        state.save(parent);
        state.end_change().map(|()| attr)
    }

    /// Removes a name.
    fn remove_name(&self, parent: NodeId, name: &[u8], directory: bool) -> FsResult {
        let (now, mut state) = ((self.clock)(), self.lock_to_change()?);
        let StoreState { tree, .. } = &mut *state;
        let id = tree.find(parent, name)?;
        match (tree.names(id).is_ok(), directory) {
            (true, false) => return Err(Errno::EISDIR.into()),
            (false, true) => return Err(Errno::ENOTDIR.into()),
            (true, true) if !tree.is_empty(id)? => return Err(Errno::ENOTEMPTY.into()),
            _ => {}
        }
        tree.detach(parent, name)?;
        tree.modified(parent, now);
        tree.note_removed_name(id, now);
        state.rename(vec![Effect::Name(parent, name.into(), None)], vec![id], directory.then_some(id));
        state.save(id);
        state.save(parent);
        state.end_change()
    }
}

impl StoreState {
    fn save(&mut self, id: NodeId) {
        if let (Some(power), Some(node)) = (&mut self.power, self.tree.nodes.get(&id.0)) {
            power.save(id, &node.saved);
        }
    }

    fn rename(&mut self, effects: Vec<Effect>, renamed: Vec<NodeId>, emptied: Option<NodeId>) {
        if let Some(power) = &mut self.power {
            power.change(effects, renamed, emptied);
        }
    }

    fn end_change(&mut self) -> FsResult {
        if std::mem::take(&mut self.breaks_behind_change) { Err(Errno::EIO.into()) } else { Ok(()) }
    }

    fn record(&mut self, effect: Effect) {
        self.rename(vec![effect], Vec::new(), None);
    }
}

/// Longest value of a user's attribute, as on Linux.
const VALUE_BYTES: usize = 65_536;

impl Names for MemoryStore {
    fn root(&self) -> NodeId {
        ROOT
    }

    fn lookup(&self, parent: NodeId, name: &[u8]) -> FsResult<Attr> {
        let mut state = self.lock_to_read()?;
        let id = state.tree.find(parent, name)?;
        state.tree.look_up(id)
    }

    fn forget(&self, id: NodeId, count: u64) {
        self.lock().tree.forget(id, count);
    }

    fn make(&self, parent: NodeId, name: &[u8], new: &NewNode) -> FsResult<Attr> {
        match new.kind {
            Kind::Link => Err(Errno::EINVAL.into()),
            _ => self.make_saved(parent, name, new, None),
        }
    }

    fn make_link(&self, parent: NodeId, name: &[u8], target: &[u8], uid: u32, gid: u32) -> FsResult<Attr> {
        self.make_saved(parent, name, &NewNode { kind: Kind::Link, mode: 0o777, uid, gid, rdev: 0 }, Some(target))
    }

    fn read_link(&self, id: NodeId) -> FsResult<Vec<u8>> {
        let state = self.lock_to_read()?;
        state.tree.node(id)?.saved.target.as_ref().map(|target| target.to_vec()).ok_or(Errno::EINVAL.into())
    }

    fn link(&self, id: NodeId, parent: NodeId, name: &[u8]) -> FsResult<Attr> {
        let (now, mut state) = ((self.clock)(), self.lock_to_change()?);
        let StoreState { tree, .. } = &mut *state;
        tree.check_new_name(parent, name)?;
        let node = tree.node(id)?;
        // Only directories have names in them.
        if node.names.is_some() {
            return Err(Errno::EPERM.into());
        }
        // A node that has lost its last name lives only as long as it is open.
        if node.links == 0 {
            return Err(Errno::ENOENT.into());
        }
        let name = Arc::from(name);
        tree.attach(parent, &name, id)?;
        tree.modified(parent, now);
        tree.changed(id, now);
        let attr = tree.look_up(id)?;
        state.rename(vec![Effect::Name(parent, name, Some(id))], vec![id], None);
        state.save(id);
        state.save(parent);
        state.end_change().map(|()| attr)
    }

    fn unlink(&self, parent: NodeId, name: &[u8]) -> FsResult {
        self.remove_name(parent, name, false)
    }

    fn remove_dir(&self, parent: NodeId, name: &[u8]) -> FsResult {
        self.remove_name(parent, name, true)
    }

    fn rename(&self, from: (NodeId, &[u8]), to: (NodeId, &[u8]), mode: RenameMode) -> FsResult {
        let (now, mut state) = ((self.clock)(), self.lock_to_change()?);
        let StoreState { tree, .. } = &mut *state;
        let Some((id, other)) = tree.check_rename(from, to, mode)? else { return Ok(()) };
        let ((from_parent, from_name), (to_parent, to_name)) = (from, to);
        let exchanged = other.filter(|_| mode == RenameMode::Exchange);
        tree.detach(from_parent, from_name)?;
        if other.is_some() {
            tree.detach(to_parent, to_name)?;
        }
        let (from_name, to_name): (Name, Name) = (from_name.into(), to_name.into());
        tree.attach(to_parent, &to_name, id)?;
        if let Some(exchanged) = exchanged {
            tree.attach(from_parent, &from_name, exchanged)?;
        }
        tree.modified(from_parent, now);
        tree.modified(to_parent, now);
        tree.changed(id, now);
        let emptied = other.filter(|&victim| exchanged.is_none() && tree.names(victim).is_ok());
        if let Some(other) = other {
            tree.note_removed_name(other, now);
        }
        let effects = vec![Effect::Name(from_parent, from_name, exchanged), Effect::Name(to_parent, to_name, Some(id))];
        state.rename(effects, [Some(id), other].into_iter().flatten().collect(), emptied);
        for node in [Some(id), other, Some(from_parent), Some(to_parent)].into_iter().flatten() {
            state.save(node);
        }
        state.end_change()
    }

    fn list(&self, id: NodeId, from: u64) -> FsResult<Vec<Entry>> {
        self.lock_to_read()?.tree.list(id, from)
    }
}

impl Attributes for MemoryStore {
    fn attributes(&self, id: NodeId) -> FsResult<Attr> {
        self.lock_to_read()?.tree.attr(id)
    }

    fn set_attributes(&self, id: NodeId, set: &SetAttr) -> FsResult<Attr> {
        let (now, mut state) = ((self.clock)(), self.lock_to_change()?);
        state.tree.set(id, set, now)?;
        state.save(id);
        state.tree.attr(id)
    }

    fn attribute(&self, id: NodeId, name: &[u8]) -> FsResult<Vec<u8>> {
        attribute_name(name)?;
        self.lock_to_read()?.tree.node(id)?.saved.attributes.get(name).cloned().ok_or(Errno::ENODATA.into())
    }

    fn attribute_names(&self, id: NodeId) -> FsResult<Vec<Vec<u8>>> {
        Ok(self.lock_to_read()?.tree.node(id)?.saved.attributes.keys().cloned().collect())
    }

    fn set_attribute(&self, id: NodeId, name: &[u8], value: &[u8], create: bool, replace: bool) -> FsResult {
        attribute_name(name)?;
        if value.len() > VALUE_BYTES {
            return Err(Errno::E2BIG.into());
        }
        let (now, mut state) = ((self.clock)(), self.lock_to_change()?);
        let saved = &mut state.tree.node_mut(id)?.saved;
        if name.starts_with(b"user.") && !matches!(saved.kind, Kind::File | Kind::Directory) {
            return Err(Errno::EPERM.into());
        }
        match saved.attributes.get(name) {
            Some(_) if create => return Err(Errno::EEXIST.into()),
            None if replace => return Err(Errno::ENODATA.into()),
            _ => {}
        }
        let mut attributes = Arc::clone(&saved.attributes);
        Arc::make_mut(&mut attributes).insert(name.to_vec(), value.to_vec());
        let before = std::mem::replace(&mut saved.attributes, attributes);
        if saved.attribute_bytes() + self.map_beyond(saved) > self.limits.attribute_bytes {
            saved.attributes = before;
            return Err(Errno::ENOSPC.into());
        }
        saved.ctime = now;
        state.save(id);
        Ok(())
    }

    fn remove_attribute(&self, id: NodeId, name: &[u8]) -> FsResult {
        attribute_name(name)?;
        let (now, mut state) = ((self.clock)(), self.lock_to_change()?);
        let saved = &mut state.tree.node_mut(id)?.saved;
        if Arc::make_mut(&mut saved.attributes).remove(name).is_none() {
            return Err(Errno::ENODATA.into());
        }
        saved.ctime = now;
        state.save(id);
        Ok(())
    }

    fn now(&self) -> Time {
        (self.clock)()
    }
}

impl Maps for MemoryStore {
    fn load_map(&self, id: NodeId) -> FsResult<Option<Vec<u8>>> {
        Ok(self.lock_to_read()?.tree.node(id)?.saved.map.as_ref().map(|map| map.to_vec()))
    }

    fn store_map(&self, id: NodeId, map: &[u8]) -> FsResult {
        let (now, mut state) = ((self.clock)(), self.lock_to_change()?);
        let saved = &mut state.tree.node_mut(id)?.saved;
        if saved.kind != Kind::File {
            return Err(Errno::EINVAL.into());
        }
        if saved.map.as_deref() == Some(map) {
            // As on ext4, an attribute that is set to the value that it has changes nothing, so a sync of the file commits nothing.
            return Ok(());
        }
        let room = self.limits.map_bytes + self.limits.attribute_bytes.saturating_sub(saved.attribute_bytes());
        if map.len() > room {
            return Err(Errno::ENOSPC.into());
        }
        // The ctime changes, too, as on a conventional file system that stores the map in an attribute.
        (saved.map, saved.ctime) = (Some(map.into()), now);
        state.save(id);
        Ok(())
    }

    fn map_bytes_max(&self) -> usize {
        self.limits.map_bytes
    }

    fn store_spill(&self, number: u64, part: &[u8]) -> FsResult {
        let mut state = self.lock_to_change()?;
        if state.parts.contains_key(&number) {
            return Err(Errno::EEXIST.into());
        }
        let part: Arc<[u8]> = part.into();
        state.parts.insert(number, part.clone());
        state.record(Effect::Part(number, Some(part)));
        Ok(())
    }

    fn load_spill(&self, number: u64) -> FsResult<Vec<u8>> {
        self.lock_to_read()?.parts.get(&number).map(|part| part.to_vec()).ok_or(Errno::ENOENT.into())
    }

    fn remove_spill(&self, number: u64) -> FsResult {
        let mut state = self.lock_to_change()?;
        state.parts.remove(&number).ok_or(Errno::ENOENT)?;
        state.record(Effect::Part(number, None));
        Ok(())
    }

    fn spills(&self) -> FsResult<Vec<u64>> {
        Ok(self.lock_to_read()?.parts.keys().copied().collect())
    }

    fn load_state(&self, name: &str) -> FsResult<Option<Vec<u8>>> {
        Ok(self.lock_to_read()?.states.get(name).map(|bytes| bytes.to_vec()))
    }

    fn store_state(&self, name: &str, bytes: &[u8]) -> FsResult {
        let mut state = self.lock_to_change()?;
        state.states.insert(name.into(), bytes.into());
        state.record(Effect::State(name.into(), Some(bytes.into())));
        Ok(())
    }

    fn remove_state(&self, name: &str) -> FsResult {
        let mut state = self.lock_to_change()?;
        state.states.remove(name);
        state.record(Effect::State(name.into(), None));
        Ok(())
    }

    fn scan(&self, visit: &mut dyn FnMut(NodeId, Option<Vec<u8>>) -> FsResult) -> FsResult {
        let files: Vec<u64> = {
            let state = self.lock_to_read()?;
            let named = |node: &tree::Node| node.saved.kind == Kind::File && node.links > 0;
            state.tree.nodes.iter().filter(|(_, node)| named(node)).map(|(&id, _)| id).collect()
        };
        // The store is not locked during `visit`, which may read parts.
        files.into_iter().map(NodeId).try_for_each(|id| match self.load_map(id) {
            Err(FsError::Errno(Errno::ENOENT)) => Ok(()),
            map => visit(id, map?),
        })
    }
}

impl Durability for MemoryStore {
    fn journal(&self) -> Option<HostJournal> {
        self.in_order.then_some(HostJournal(1))
    }

    fn sync_spill(&self, number: u64) -> FsResult {
        if self.in_order {
            return Ok(());
        }
        self.sync_what(Synced::Part(number))
    }

    fn sync(&self, id: NodeId) -> FsResult {
        self.sync_what(Synced::Node(id))
    }

    fn sync_dir(&self, id: NodeId) -> FsResult {
        self.lock_to_read()?.tree.names(id)?;
        self.sync_what(Synced::Directory(id))
    }

    fn sync_all(&self) -> FsResult {
        self.sync_what(Synced::All)
    }

    fn room(&self) -> FsResult<StoreRoom> {
        let used = self.lock_to_read()?.tree.nodes.len() as u64;
        let free_nodes = self.limits.nodes.saturating_sub(used);
        Ok(StoreRoom { nodes: self.limits.nodes, free_nodes, free_bytes: u64::MAX >> 1, name_bytes: NAME_BYTES as u32 })
    }
}

impl MemoryStore {
    /// Bytes of the map that take space from the users' attributes.
    fn map_beyond(&self, saved: &SavedNode) -> usize {
        saved.map.as_ref().map_or(0, |map| map.len().saturating_sub(self.limits.map_bytes))
    }
}

fn attribute_name(name: &[u8]) -> FsResult {
    match name {
        _ if name.is_empty() || name.len() > NAME_BYTES => Err(Errno::ERANGE.into()),
        _ if [&b"user."[..], b"trusted.", b"security."].iter().any(|space| name.starts_with(space)) => Ok(()),
        _ => Err(Errno::EOPNOTSUPP.into()),
    }
}
