//! Reference of a directory tree, as simple as can be: nodes in memory, files as bytes.

use std::collections::BTreeMap;

use smrfs::error::Errno;
use smrfs::units::NodeId;

/// A node's place in the reference.
pub type At = usize;

/// A node. One without names stays while it is open.
#[derive(Clone, Debug)]
pub enum Node {
    File { bytes: Vec<u8>, names: u32, opens: u32 },
    Directory(BTreeMap<Vec<u8>, At>),
}

/// A directory tree; node 0 is its root.
pub struct Tree {
    pub nodes: Vec<(Node, NodeId)>,
}

type OpResult<T = ()> = Result<T, Errno>;

impl Tree {
    pub fn new(root: NodeId) -> Tree {
        Tree { nodes: vec![(Node::Directory(BTreeMap::new()), root)] }
    }

    pub fn id(&self, at: At) -> NodeId {
        self.nodes[at].1
    }

    pub fn names(&self, at: At) -> OpResult<&BTreeMap<Vec<u8>, At>> {
        match &self.nodes[at].0 {
            Node::Directory(names) => Ok(names),
            Node::File { .. } => Err(Errno::ENOTDIR),
        }
    }

    fn names_mut(&mut self, at: At) -> &mut BTreeMap<Vec<u8>, At> {
        match &mut self.nodes[at].0 {
            Node::Directory(names) => names,
            Node::File { .. } => panic!("node {at} is a file"),
        }
    }

    pub fn lookup(&self, directory: At, name: &[u8]) -> OpResult<At> {
        self.names(directory)?.get(name).copied().ok_or(Errno::ENOENT)
    }

    /// The bytes of a file that exists.
    pub fn bytes(&self, at: At) -> OpResult<&Vec<u8>> {
        match &self.nodes[at].0 {
            Node::File { bytes, .. } => Ok(bytes),
            Node::Directory(_) => Err(Errno::EISDIR),
        }
    }

    pub fn bytes_mut(&mut self, at: At) -> &mut Vec<u8> {
        match &mut self.nodes[at].0 {
            Node::File { bytes, .. } => bytes,
            Node::Directory(_) => panic!("node {at} is a directory"),
        }
    }

    pub fn is_file(&self, at: At) -> bool {
        matches!(self.nodes[at].0, Node::File { .. })
    }

    /// A file's names and opens.
    pub fn uses(&mut self, at: At) -> (&mut u32, &mut u32) {
        match &mut self.nodes[at].0 {
            Node::File { names, opens, .. } => (names, opens),
            Node::Directory(_) => panic!("node {at} is a directory"),
        }
    }

    /// Every directory.
    pub fn directories(&self) -> Vec<At> {
        let mut found = vec![0];
        let mut next = 0;
        while let Some(&at) = found.get(next) {
            let names = self.names(at).unwrap();
            found.extend(names.values().filter(|&&at| !self.is_file(at)));
            next += 1;
        }
        found
    }

    /// Every file that has a name or is open.
    pub fn files(&self) -> Vec<At> {
        let used = |node: &Node| matches!(node, Node::File { names, opens, .. } if names + opens > 0);
        (0..self.nodes.len()).filter(|&at| used(&self.nodes[at].0)).collect()
    }

    pub fn may_make(&self, directory: At, name: &[u8]) -> OpResult {
        if self.names(directory)?.contains_key(name) { Err(Errno::EEXIST) } else { Ok(()) }
    }

    pub fn make(&mut self, directory: At, name: &[u8], id: NodeId, is_file: bool) {
        let node = match is_file {
            true => Node::File { bytes: Vec::new(), names: 1, opens: 0 },
            false => Node::Directory(BTreeMap::new()),
        };
        self.nodes.push((node, id));
        let at = self.nodes.len() - 1;
        self.names_mut(directory).insert(name.to_vec(), at);
    }

    pub fn link(&mut self, at: At, directory: At, name: &[u8]) {
        *self.uses(at).0 += 1;
        self.names_mut(directory).insert(name.to_vec(), at);
    }

    pub fn may_unlink(&self, directory: At, name: &[u8]) -> OpResult<At> {
        let at = self.lookup(directory, name)?;
        if self.is_file(at) { Ok(at) } else { Err(Errno::EISDIR) }
    }

    pub fn may_remove_dir(&self, directory: At, name: &[u8]) -> OpResult<At> {
        let at = self.lookup(directory, name)?;
        if self.names(at)?.is_empty() { Ok(at) } else { Err(Errno::ENOTEMPTY) }
    }

    /// Takes a name away.
    pub fn remove(&mut self, directory: At, name: &[u8]) {
        let at = self.names_mut(directory).remove(name).unwrap();
        if self.is_file(at) {
            *self.uses(at).0 -= 1;
        }
    }

    /// True if `below` is `above` or lies in it.
    fn lies_in(&self, below: At, above: At) -> bool {
        below == above
            || self
                .names(above)
                .is_ok_and(|names| names.values().any(|&at| !self.is_file(at) && self.lies_in(below, at)))
    }

    pub fn may_rename(&self, from: (At, &[u8]), to: (At, &[u8])) -> OpResult {
        let at = self.lookup(from.0, from.1)?;
        if !self.is_file(at) && self.lies_in(to.0, at) {
            return Err(Errno::EINVAL);
        }
        let Ok(victim) = self.lookup(to.0, to.1) else { return Ok(()) };
        match (self.is_file(at), self.is_file(victim)) {
            _ if at == victim => Ok(()),
            (true, false) if self.lies_in(from.0, victim) => Err(Errno::ENOTEMPTY),
            (true, false) => Err(Errno::EISDIR),
            (false, true) => Err(Errno::ENOTDIR),
            (false, false) if !self.names(victim)?.is_empty() => Err(Errno::ENOTEMPTY),
            _ => Ok(()),
        }
    }

    pub fn rename(&mut self, from: (At, &[u8]), to: (At, &[u8])) {
        let at = self.lookup(from.0, from.1).unwrap();
        if self.lookup(to.0, to.1) == Ok(at) {
            return;
        }
        if self.lookup(to.0, to.1).is_ok() {
            self.remove(to.0, to.1);
        }
        self.names_mut(from.0).remove(from.1);
        self.names_mut(to.0).insert(to.1.to_vec(), at);
    }
}

/// Puts `data` into a file at `offset`; what is skipped reads as zeros.
pub fn put(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if bytes.len() < offset + data.len() {
        bytes.resize(offset + data.len(), 0);
    }
    bytes[offset..offset + data.len()].copy_from_slice(data);
}
