//! Operations of a metadata store in memory: checks, then the change of the tree, then a note of what is to be durable.

use std::sync::Arc;

use super::journal::{Effect, Journal};
use super::tree::{self, NAME_BYTES, ROOT, SavedNode};
use super::{MemoryStore, StoreState};
use crate::error::{Errno, FsError, FsResult};
use crate::meta::{
    Attr, Attributes, Durability, Entry, Kind, Maps, Names, NewNode, RenameMode, SetAttr, StoreRoom, Time,
};
use crate::units::NodeId;

/// Longest value of a user's attribute, as Linux has it.
const VALUE_BYTES: usize = 65_536;

impl Names for MemoryStore {
    fn root(&self) -> NodeId {
        ROOT
    }

    fn lookup(&self, parent: NodeId, name: &[u8]) -> FsResult<Attr> {
        let mut state = self.see()?;
        let id = state.tree.find(parent, name)?;
        state.tree.answer(id)
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
        let state = self.see()?;
        state.tree.node(id)?.saved.target.as_ref().map(|target| target.to_vec()).ok_or(Errno::EINVAL.into())
    }

    fn link(&self, id: NodeId, parent: NodeId, name: &[u8]) -> FsResult<Attr> {
        let (now, mut state) = ((self.clock)(), self.touch()?);
        let StoreState { tree, .. } = &mut *state;
        tree.vacant(parent, name)?;
        let node = tree.node(id)?;
        if node.names.is_some() {
            return Err(Errno::EPERM.into());
        }
        if node.links == 0 {
            return Err(Errno::ENOENT.into());
        }
        let name = Arc::from(name);
        tree.attach(parent, &name, id)?;
        tree.touch(parent, now, true);
        tree.touch(id, now, false);
        let attr = tree.answer(id)?;
        state.rename(vec![Effect::Name(parent, name, Some(id))], vec![id], None);
        state.save(id);
        state.save(parent);
        Ok(attr)
    }

    fn unlink(&self, parent: NodeId, name: &[u8]) -> FsResult {
        self.part(parent, name, false)
    }

    fn remove_dir(&self, parent: NodeId, name: &[u8]) -> FsResult {
        self.part(parent, name, true)
    }

    fn rename(&self, from: (NodeId, &[u8]), to: (NodeId, &[u8]), mode: RenameMode) -> FsResult {
        let (now, mut state) = ((self.clock)(), self.touch()?);
        let StoreState { tree, .. } = &mut *state;
        let Some((id, other)) = tree.renamed(from, to, mode)? else { return Ok(()) };
        let names: [Arc<[u8]>; 2] = [Arc::from(from.1), Arc::from(to.1)];
        let back = other.filter(|_| mode == RenameMode::Exchange);
        tree.detach(from.0, from.1)?;
        if other.is_some() {
            tree.detach(to.0, to.1)?;
        }
        tree.attach(to.0, &names[1], id)?;
        if let Some(back) = back {
            tree.attach(from.0, &names[0], back)?;
        }
        tree.touch(from.0, now, true);
        tree.touch(to.0, now, true);
        tree.touch(id, now, false);
        let emptied = other.filter(|&victim| back.is_none() && tree.names(victim).is_ok());
        if let Some(other) = other {
            tree.parted(other, now);
        }
        let [from_name, to_name] = names;
        let effects = vec![Effect::Name(from.0, from_name, back), Effect::Name(to.0, to_name, Some(id))];
        state.rename(effects, [Some(id), other].into_iter().flatten().collect(), emptied);
        for node in [Some(id), other, Some(from.0), Some(to.0)].into_iter().flatten() {
            state.save(node);
        }
        Ok(())
    }

    fn list(&self, id: NodeId, from: u64) -> FsResult<Vec<Entry>> {
        self.see()?.tree.list(id, from)
    }
}

impl Attributes for MemoryStore {
    fn attributes(&self, id: NodeId) -> FsResult<Attr> {
        self.see()?.tree.attr(id)
    }

    fn set_attributes(&self, id: NodeId, set: &SetAttr) -> FsResult<Attr> {
        let (now, mut state) = ((self.clock)(), self.touch()?);
        state.tree.set(id, set, now)?;
        state.save(id);
        state.tree.attr(id)
    }

    fn attribute(&self, id: NodeId, name: &[u8]) -> FsResult<Vec<u8>> {
        attribute_name(name)?;
        self.see()?.tree.node(id)?.saved.attributes.get(name).cloned().ok_or(Errno::ENODATA.into())
    }

    fn attribute_names(&self, id: NodeId) -> FsResult<Vec<Vec<u8>>> {
        Ok(self.see()?.tree.node(id)?.saved.attributes.keys().cloned().collect())
    }

    fn set_attribute(&self, id: NodeId, name: &[u8], value: &[u8], create: bool, replace: bool) -> FsResult {
        attribute_name(name)?;
        if value.len() > VALUE_BYTES {
            return Err(Errno::E2BIG.into());
        }
        let (now, mut state) = ((self.clock)(), self.touch()?);
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
        let (now, mut state) = ((self.clock)(), self.touch()?);
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
        Ok(self.see()?.tree.node(id)?.saved.map.as_ref().map(|map| map.to_vec()))
    }

    fn store_map(&self, id: NodeId, map: &[u8]) -> FsResult {
        let (now, mut state) = ((self.clock)(), self.touch()?);
        let saved = &mut state.tree.node_mut(id)?.saved;
        if saved.kind != Kind::File {
            return Err(Errno::EINVAL.into());
        }
        let room = self.limits.map_bytes + self.limits.attribute_bytes.saturating_sub(saved.attribute_bytes());
        if map.len() > room {
            return Err(Errno::ENOSPC.into());
        }
        // A conventional file system notes the change of an attribute as well.
        (saved.map, saved.ctime) = (Some(map.into()), now);
        state.save(id);
        Ok(())
    }

    fn map_bytes_max(&self) -> usize {
        self.limits.map_bytes
    }

    fn store_spill(&self, number: u64, part: &[u8]) -> FsResult {
        let mut state = self.touch()?;
        if state.parts.contains_key(&number) {
            return Err(Errno::EEXIST.into());
        }
        let part: Arc<[u8]> = part.into();
        state.parts.insert(number, part.clone());
        state.part(number, Some(part));
        Ok(())
    }

    fn load_spill(&self, number: u64) -> FsResult<Vec<u8>> {
        self.see()?.parts.get(&number).map(|part| part.to_vec()).ok_or(Errno::ENOENT.into())
    }

    fn remove_spill(&self, number: u64) -> FsResult {
        let mut state = self.touch()?;
        state.parts.remove(&number).ok_or(Errno::ENOENT)?;
        state.part(number, None);
        Ok(())
    }

    fn spills(&self) -> FsResult<Vec<u64>> {
        Ok(self.see()?.parts.keys().copied().collect())
    }

    fn load_state(&self, name: &str) -> FsResult<Option<Vec<u8>>> {
        Ok(self.see()?.states.get(name).map(|bytes| bytes.to_vec()))
    }

    fn store_state(&self, name: &str, bytes: &[u8]) -> FsResult {
        let mut state = self.touch()?;
        state.states.insert(name.into(), bytes.into());
        state.state(name, Some(bytes.into()));
        Ok(())
    }

    fn remove_state(&self, name: &str) -> FsResult {
        let mut state = self.touch()?;
        state.states.remove(name);
        state.state(name, None);
        Ok(())
    }

    fn scan(&self, visit: &mut dyn FnMut(NodeId, Option<Vec<u8>>) -> FsResult) -> FsResult {
        let files: Vec<u64> = {
            let state = self.see()?;
            let named = |node: &tree::Node| node.saved.kind == Kind::File && node.links > 0;
            state.tree.nodes.iter().filter(|(_, node)| named(node)).map(|(&id, _)| id).collect()
        };
        // The store is not locked while it is visited: a visit may read parts.
        files.into_iter().map(NodeId).try_for_each(|id| match self.load_map(id) {
            Err(FsError::Errno(Errno::ENOENT)) => Ok(()),
            map => visit(id, map?),
        })
    }
}

impl Durability for MemoryStore {
    fn sync_spill(&self, number: u64) -> FsResult {
        self.touch()?.synced(|journal, at| journal.sync_part(at, number));
        Ok(())
    }

    fn sync(&self, id: NodeId) -> FsResult {
        self.touch()?.synced(|journal, at| journal.sync(at, id));
        Ok(())
    }

    fn sync_dir(&self, id: NodeId) -> FsResult {
        let mut state = self.touch()?;
        state.tree.names(id)?;
        state.synced(|journal, at| journal.sync_dir(at, id));
        Ok(())
    }

    fn sync_all(&self) -> FsResult {
        self.touch()?.synced(Journal::sync_all);
        Ok(())
    }

    fn room(&self) -> FsResult<StoreRoom> {
        let used = self.see()?.tree.nodes.len() as u64;
        let free_nodes = self.limits.nodes.saturating_sub(used);
        Ok(StoreRoom { nodes: self.limits.nodes, free_nodes, free_bytes: u64::MAX >> 1, name_bytes: NAME_BYTES as u32 })
    }
}
impl MemoryStore {
    /// Bytes of the map that take up room of the users' attributes.
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
