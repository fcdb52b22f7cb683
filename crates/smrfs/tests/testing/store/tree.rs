//! The tree in memory: nodes, directories with stable positions of entries, link counts, and the rules of rename.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Errno, FsResult};
use crate::meta::{Attr, Entry, Kind, NewNode, RenameMode, SetAttr, SetTime, Time};
use crate::units::NodeId;

/// Longest name in bytes, as on file systems of Linux.
pub(super) const NAME_BYTES: usize = 255;

/// Most names of one node, as on ext4.
const LINKS_MAX: u32 = 65_000;

/// Most entries that one call of `list` returns.
const LISTED: usize = 256;

pub type Name = Arc<[u8]>;

/// Saved form of a node.
#[derive(Clone, Debug)]
pub struct SavedNode {
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) rdev: u32,
    pub(super) atime: Time,
    pub(super) mtime: Time,
    pub(super) ctime: Time,
    pub(super) target: Option<Arc<[u8]>>,
    pub(super) attributes: Arc<BTreeMap<Vec<u8>, Vec<u8>>>,
    pub(super) map: Option<Arc<[u8]>>,
}

impl SavedNode {
    pub(super) fn new(new: &NewNode, now: Time) -> SavedNode {
        SavedNode {
            kind: new.kind,
            mode: new.mode & 0o7777,
            uid: new.uid,
            gid: new.gid,
            rdev: new.rdev,
            atime: now,
            mtime: now,
            ctime: now,
            target: None,
            attributes: Arc::default(),
            map: None,
        }
    }

    /// Bytes that its attributes take, without the map.
    pub(super) fn attribute_bytes(&self) -> usize {
        self.attributes.iter().map(|(name, value)| name.len() + value.len()).sum()
    }
}

/// A directory's names.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub(super) parent: u64,
    /// The node of each name, and its place: a position for `list` that stays as other names come and go.
    pub(super) by_name: BTreeMap<Name, (NodeId, u64)>,
    by_place: BTreeMap<u64, Name>,
    last_place: u64,
    directories: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) saved: SavedNode,
    pub(super) names: Option<Box<Names>>,
    pub(super) links: u32,
    lookups: u64,
}

/// All nodes.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) nodes: BTreeMap<u64, Node>,
    pub(super) next: u64,
}

pub(super) const ROOT: NodeId = NodeId(1);

impl Tree {
    pub(super) fn new(root: SavedNode) -> Tree {
        let mut tree = Tree { nodes: BTreeMap::new(), next: ROOT.0 };
        tree.add(root);
        tree.nodes.get_mut(&ROOT.0).expect("the root").links = 1;
        tree
    }

    pub(super) fn node(&self, id: NodeId) -> FsResult<&Node> {
        self.nodes.get(&id.0).ok_or(Errno::ENOENT.into())
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> FsResult<&mut Node> {
        self.nodes.get_mut(&id.0).ok_or(Errno::ENOENT.into())
    }

    /// The names in a directory that still has a name itself.
    pub(super) fn names(&self, id: NodeId) -> FsResult<&Names> {
        self.node(id)?.names.as_deref().ok_or(Errno::ENOTDIR.into())
    }

    fn names_mut(&mut self, id: NodeId) -> FsResult<&mut Names> {
        self.node_mut(id)?.names.as_deref_mut().ok_or(Errno::ENOTDIR.into())
    }

    pub(super) fn attr(&self, id: NodeId) -> FsResult<Attr> {
        let Node { saved, names, links, .. } = self.node(id)?;
        let (size, blocks) = match (names, &saved.target) {
            (Some(_), _) => (4096, 8),
            (_, Some(target)) => (target.len() as u64, 0),
            _ => (0, 0),
        };
        let links = match names {
            // The directory's own name, its `.`, and the `..` of each directory in it.
            Some(names) if *links > 0 => 2 + names.directories,
            _ => *links,
        };
        let &SavedNode { kind, mode, uid, gid, rdev, atime, mtime, ctime, .. } = saved;
        Ok(Attr { id, generation: 0, kind, mode, links, uid, gid, rdev, size, blocks, atime, mtime, ctime })
    }

    /// Returns the attributes of a node, and counts a lookup that the caller will give back by `forget`.
    pub(super) fn look_up(&mut self, id: NodeId) -> FsResult<Attr> {
        self.node_mut(id)?.lookups += 1;
        self.attr(id)
    }

    pub(super) fn forget(&mut self, id: NodeId, count: u64) {
        if let Some(node) = self.nodes.get_mut(&id.0) {
            node.lookups = node.lookups.saturating_sub(count);
            self.drop_unused(id);
        }
    }

    fn drop_unused(&mut self, id: NodeId) {
        if self.nodes.get(&id.0).is_some_and(|node| node.links == 0 && node.lookups == 0) {
            self.nodes.remove(&id.0);
        }
    }

    pub(super) fn find(&self, parent: NodeId, name: &[u8]) -> FsResult<NodeId> {
        let names = self.names(parent)?;
        if name.len() > NAME_BYTES {
            return Err(Errno::ENAMETOOLONG.into());
        }
        names.by_name.get(name).map(|found| found.0).ok_or(Errno::ENOENT.into())
    }

    /// Checks that a new name can be added: that the name is free and valid, and that the directory has not been removed itself.
    pub(super) fn check_new_name(&self, parent: NodeId, name: &[u8]) -> FsResult {
        check_name(name)?;
        match self.find(parent, name) {
            Ok(_) => Err(Errno::EEXIST.into()),
            Err(error) if error.errno() == Errno::ENOENT && self.node(parent)?.links > 0 => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Adds a node without a name.
    pub(super) fn add(&mut self, saved: SavedNode) -> NodeId {
        let id = NodeId(self.next);
        self.next += 1;
        self.add_as(id, saved);
        id
    }

    pub(super) fn add_as(&mut self, id: NodeId, saved: SavedNode) {
        let names = (saved.kind == Kind::Directory).then(Box::default);
        self.nodes.insert(id.0, Node { saved, names, links: 0, lookups: 0 });
    }

    /// Links a node into `parent` under `name`, which must be free.
    pub(super) fn attach(&mut self, parent: NodeId, name: &Name, id: NodeId) -> FsResult {
        let node = self.node_mut(id)?;
        if node.names.is_none() && node.links >= LINKS_MAX {
            return Err(Errno::EMLINK.into());
        }
        node.links += 1;
        let directory = node.names.as_deref_mut().map(|names| names.parent = parent.0).is_some();
        let names = self.names_mut(parent)?;
        names.directories += u32::from(directory);
        names.last_place += 1;
        let place = names.last_place;
        names.by_name.insert(name.clone(), (id, place));
        names.by_place.insert(place, name.clone());
        Ok(())
    }

    /// Removes a name. The node stays while lookups of it have not been given back.
    pub(super) fn detach(&mut self, parent: NodeId, name: &[u8]) -> FsResult<NodeId> {
        let id = self.find(parent, name)?;
        let node = self.node_mut(id)?;
        node.links -= 1;
        let directory = node.names.is_some();
        let names = self.names_mut(parent)?;
        names.directories -= u32::from(directory);
        if let Some((_, place)) = names.by_name.remove(name) {
            names.by_place.remove(&place);
        }
        Ok(id)
    }

    /// Updates mtime and ctime of a directory whose names were changed.
    pub(super) fn modified(&mut self, id: NodeId, now: Time) {
        if let Some(node) = self.nodes.get_mut(&id.0) {
            (node.saved.mtime, node.saved.ctime) = (now, now);
        }
    }

    /// Updates the ctime of a node whose attributes were changed.
    pub(super) fn changed(&mut self, id: NodeId, now: Time) {
        if let Some(node) = self.nodes.get_mut(&id.0) {
            node.saved.ctime = now;
        }
    }

    /// Updates the ctime of a node that lost a name, and drops the node if it has no names and no lookups.
    pub(super) fn note_removed_name(&mut self, id: NodeId, now: Time) {
        self.changed(id, now);
        self.drop_unused(id);
    }

    pub(super) fn set(&mut self, id: NodeId, set: &SetAttr, now: Time) -> FsResult {
        let saved = &mut self.node_mut(id)?.saved;
        if (set.uid.is_some() || set.gid.is_some()) && set.mode.is_none() && saved.kind != Kind::Directory {
            // As chown(2): clears set-user-id, and set-group-id if the group may execute.
            let set_gid = if saved.mode & 0o010 != 0 { 0o2000 } else { 0 };
            saved.mode &= !(0o4000 | set_gid);
        }
        saved.mode = set.mode.map_or(saved.mode, |mode| mode & 0o7777);
        saved.uid = set.uid.unwrap_or(saved.uid);
        saved.gid = set.gid.unwrap_or(saved.gid);
        let time = |set: Option<SetTime>, old| match set {
            Some(SetTime::Now) => now,
            Some(SetTime::To(time)) => time,
            None => old,
        };
        saved.atime = time(set.atime, saved.atime);
        saved.mtime = time(set.mtime, saved.mtime);
        if *set != (SetAttr { size: set.size, ..SetAttr::default() }) {
            saved.ctime = now;
        }
        Ok(())
    }

    pub(super) fn list(&self, id: NodeId, from: u64) -> FsResult<Vec<Entry>> {
        let names = self.names(id)?;
        let places = names.by_place.range(from.saturating_add(1)..).take(LISTED);
        places
            .map(|(&next, name)| {
                let id = names.by_name[name].0;
                Ok(Entry { id, kind: self.node(id)?.saved.kind, name: name.to_vec(), next })
            })
            .collect()
    }

    pub(super) fn is_empty(&self, id: NodeId) -> FsResult<bool> {
        Ok(self.names(id)?.by_name.is_empty())
    }

    /// True if `id` is `directory`, or in it at any depth.
    fn lies_in(&self, mut id: NodeId, directory: NodeId) -> bool {
        while id != directory {
            if id == ROOT {
                return false;
            }
            match self.names(id) {
                Ok(names) => id = NodeId(names.parent),
                Err(_) => return false,
            }
        }
        true
    }

    /// Checks a rename; returns the node, and the one that it replaces or is swapped with. `None` if both names are of one node, because
    /// such a rename changes nothing.
    pub(super) fn check_rename(
        &self,
        (from_parent, from_name): (NodeId, &[u8]),
        (to_parent, to_name): (NodeId, &[u8]),
        mode: RenameMode,
    ) -> FsResult<Option<(NodeId, Option<NodeId>)>> {
        check_name(to_name)?;
        let id = self.find(from_parent, from_name)?;
        let victim = match self.find(to_parent, to_name) {
            Ok(victim) => Some(victim),
            Err(error) if error.errno() == Errno::ENOENT && self.names(to_parent).is_ok() => None,
            Err(error) => return Err(error),
        };
        match (mode, victim) {
            (RenameMode::NoReplace, Some(_)) => return Err(Errno::EEXIST.into()),
            (RenameMode::Exchange, None) => return Err(Errno::ENOENT.into()),
            // A removed directory takes no new names.
            _ if self.node(to_parent)?.links == 0 => return Err(Errno::ENOENT.into()),
            _ => {}
        }
        let is_directory = |id: NodeId| self.names(id).is_ok();
        if is_directory(id) && self.lies_in(to_parent, id) {
            return Err(Errno::EINVAL.into());
        }
        let Some(victim) = victim else { return Ok(Some((id, None))) };
        if is_directory(victim) && self.lies_in(from_parent, victim) {
            let exchange = mode == RenameMode::Exchange;
            return Err(if exchange { Errno::EINVAL } else { Errno::ENOTEMPTY }.into());
        }
        if victim == id {
            return Ok(None);
        }
        match (is_directory(id), is_directory(victim)) {
            _ if mode == RenameMode::Exchange => {}
            (true, false) => return Err(Errno::ENOTDIR.into()),
            (false, true) => return Err(Errno::EISDIR.into()),
            (true, true) if !self.is_empty(victim)? => return Err(Errno::ENOTEMPTY.into()),
            _ => {}
        }
        Ok(Some((id, Some(victim))))
    }
}

fn check_name(name: &[u8]) -> FsResult {
    match name {
        b"" => Err(Errno::ENOENT.into()),
        b"." | b".." => Err(Errno::EEXIST.into()),
        _ if name.len() > NAME_BYTES => Err(Errno::ENAMETOOLONG.into()),
        _ if name.iter().any(|byte| matches!(byte, b'/' | 0)) => Err(Errno::EINVAL.into()),
        _ => Ok(()),
    }
}
