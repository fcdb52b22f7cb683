//! The nodes that are in use: where each has a name, and which have a descriptor open.
//!
//! A node is known while the kernel or the core holds lookups of it, or while a known node is in it. Descriptors are a cache of bounded size;
//! only nodes that have lost their last known name keep theirs.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use smrfs::meta::Kind;

/// A known node.
#[derive(Debug, Default)]
pub struct Node {
    /// The node's kind.
    pub kind: Kind,
    /// One of its names; `None` once that was removed.
    pub place: Option<NodeName>,
    /// Lookups that have not been given back.
    pub lookups: u64,
    /// Known nodes whose `place` is in it.
    pub children: u64,
    /// The generation, which distinguishes it from earlier nodes with the same number, once that was asked for.
    pub generation: Option<u32>,
    /// An open descriptor.
    pub fd: Option<Arc<OwnedFd>>,
    /// True if the descriptor has been used since the last sweep.
    was_used: bool,
    /// True if the descriptor must stay: there is no name to open it by.
    pinned: bool,
    /// True if its place is in the directory of orphans, which users don't see.
    pub is_orphan: bool,
    /// The mark of its map, if a map was stored since the node became known.
    pub mark: Option<u64>,
}

impl Node {
    fn is_needed(&self) -> bool {
        self.lookups > 0 || self.children > 0 || self.fd.is_some()
    }
}

/// What must be done before the last known name of a node is removed.
#[derive(Debug, PartialEq, Eq)]
pub enum UnlinkStep {
    /// Nothing, because the node is not in use, or has another name.
    Nothing,
    /// Nothing now, because the node has a descriptor; it will be kept open.
    KeepDescriptor,
    /// Open a descriptor, which will be kept open.
    OpenDescriptor,
    /// Give the node a name among the orphans, because too many descriptors must stay open already.
    LinkAsOrphan,
}

/// All known nodes.
#[derive(Debug)]
pub struct Nodes {
    known: HashMap<u64, Node>,
    /// Nodes with a cached descriptor, in the order of the clock algorithm; and some whose descriptor was closed.
    order: VecDeque<u64>,
    /// Cached descriptors, which may be closed.
    pub open: usize,
    /// Descriptors that must stay open.
    pinned: usize,
    descriptors_max: usize,
    /// One name of every node of the tree, once that was needed.
    pub index: Option<HashMap<u64, NodeName>>,
}

impl Nodes {
    /// None known yet; at most `descriptors_max` descriptors are cached.
    pub fn new(descriptors_max: usize) -> Nodes {
        Nodes { known: HashMap::new(), order: VecDeque::new(), open: 0, pinned: 0, descriptors_max, index: None }
    }

    /// Adds a node that stays known, with its descriptor.
    pub fn add_permanent(&mut self, id: u64, fd: Arc<OwnedFd>) {
        // So many lookups that no kernel gives all of them back: `forget` never drops it.
        let node = Node { kind: Kind::Directory, lookups: u64::MAX / 2, fd: Some(fd), pinned: true, ..Node::default() };
        self.known.insert(id, node);
    }

    /// The node, if it is known.
    pub fn get(&mut self, id: u64) -> Option<&mut Node> {
        self.known.get_mut(&id)
    }

    /// Nodes that are known.
    #[cfg(test)]
    pub fn known(&self) -> usize {
        self.known.len()
    }

    /// The cached descriptor of a node.
    pub fn fd(&mut self, id: u64) -> Option<Arc<OwnedFd>> {
        let node = self.known.get_mut(&id)?;
        node.was_used = true;
        node.fd.clone()
    }

    /// The name of a node: of a known node, or from the index.
    pub fn place(&self, id: u64) -> Option<NodeName> {
        match self.known.get(&id) {
            Some(node) => node.place.clone(),
            None => self.index.as_ref()?.get(&id).cloned(),
        }
    }

    /// Counts a lookup of a node by `name` in `parent`. Returns true if the node was an orphan, whose name among the orphans can then be removed.
    pub fn add_lookup(&mut self, id: u64, kind: Kind, parent: u64, name: &[u8]) -> bool {
        let node = self.known.entry(id).or_insert_with(|| Node { kind, ..Node::default() });
        node.lookups += 1;
        let was_orphan = std::mem::take(&mut node.is_orphan);
        if node.place.as_ref().is_none_or(|place| !place.is(parent, name)) {
            self.set_place(id, Some(NodeName::new(parent, name)));
        }
        // It has a name to open it by again, so the cache may close its descriptor.
        if let Some(node) = self.known.get_mut(&id)
            && std::mem::take(&mut node.pinned)
        {
            self.pinned -= 1;
            self.open += 1;
            self.order.push_back(id);
        }
        if let Some(index) = &mut self.index {
            index.entry(id).or_insert_with(|| NodeName::new(parent, name));
        }
        was_orphan
    }

    /// Gives back `count` lookups. Returns the node if it is not used any more, so that the caller can close its descriptor, which may take a
    /// while, without holding the lock.
    pub fn forget(&mut self, id: u64, count: u64) -> Option<Node> {
        let node = self.known.get_mut(&id)?;
        node.lookups = node.lookups.saturating_sub(count);
        if node.lookups > 0 || node.children > 0 { None } else { self.remove(id) }
    }

    fn remove(&mut self, id: u64) -> Option<Node> {
        let mut node = self.known.remove(&id)?;
        if node.fd.is_some() {
            self.open -= usize::from(!node.pinned);
            self.pinned -= usize::from(node.pinned);
        }
        if let Some(place) = node.place.take() {
            self.remove_child(place.parent);
        }
        Some(node)
    }

    /// Counts another known child of `parent`. If `parent` was not known, it becomes known, and in turn a child of its own parent.
    fn add_child(&mut self, parent: u64) {
        let mut at = parent;
        loop {
            if let Some(node) = self.known.get_mut(&at) {
                node.children += 1;
                return;
            }
            // A child is opened through its directories, so their names must be known as long as the child is.
            let place = self.place(at);
            let node = Node { kind: Kind::Directory, children: 1, place: place.clone(), ..Node::default() };
            self.known.insert(at, node);
            let Some(place) = place else { return };
            at = place.parent;
        }
    }

    /// Counts one known child of `parent` less. A parent that is not needed any more is forgotten, and its own parent then loses a child.
    fn remove_child(&mut self, parent: u64) {
        let mut at = parent;
        while let Some(node) = self.known.get_mut(&at) {
            node.children -= 1;
            if node.is_needed() {
                return;
            }
            let place = node.place.take();
            self.known.remove(&at);
            let Some(place) = place else { return };
            at = place.parent;
        }
    }

    fn set_place(&mut self, id: u64, place: Option<NodeName>) {
        if let Some(place) = &place {
            self.add_child(place.parent);
        }
        let Some(node) = self.known.get_mut(&id) else { return };
        let old = std::mem::replace(&mut node.place, place);
        if let Some(old) = old {
            self.remove_child(old.parent);
        }
    }

    /// Caches a descriptor of a node, and closes others if there are too many.
    pub fn keep_descriptor(&mut self, id: u64, kind: Kind, fd: &Arc<OwnedFd>) {
        if !self.known.contains_key(&id) {
            let place = self.place(id);
            self.known.insert(id, Node { kind, ..Node::default() });
            self.set_place(id, place);
        }
        let Some(node) = self.known.get_mut(&id) else { return };
        node.was_used = true;
        if node.fd.is_none() {
            node.fd = Some(Arc::clone(fd));
            self.open += 1;
            self.order.push_back(id);
        }
        while self.open > self.descriptors_max && self.close_one() {}
        // Forgotten nodes stay in `order`, and a node that was opened again is in it twice. Such entries are removed when they outnumber the
        // descriptors, so that the cost is a few steps for each descriptor that was opened.
        if self.order.len() > 4 * self.descriptors_max + 64 {
            let (known, order) = (&self.known, &mut self.order);
            let mut seen = HashSet::new();
            order.retain(|id| known.get(id).is_some_and(|node| node.fd.is_some() && !node.pinned) && seen.insert(*id));
        }
    }

    /// Closes a descriptor, by the clock algorithm: the first one in `order` that was not used since it was last passed.
    fn close_one(&mut self) -> bool {
        // A descriptor is passed once if it was used, so after two rounds there is none left to close.
        for _ in 0..=2 * self.order.len() {
            let Some(id) = self.order.pop_front() else { return false };
            let Some(node) = self.known.get_mut(&id) else { continue };
            if node.fd.is_none() || node.pinned {
                continue;
            }
            if std::mem::take(&mut node.was_used) {
                self.order.push_back(id);
                continue;
            }
            node.fd = None;
            self.open -= 1;
            if !node.is_needed() {
                self.remove(id);
            }
            return true;
        }
        false
    }

    /// Returns what must be done before this name of the node is removed.
    pub fn step_before_unlink(&self, id: u64, parent: u64, name: &[u8]) -> UnlinkStep {
        let Some(node) = self.known.get(&id) else { return UnlinkStep::Nothing };
        if node.lookups == 0 || node.place.as_ref().is_none_or(|place| !place.is(parent, name)) {
            return UnlinkStep::Nothing;
        }
        // A directory can't have a second name, so its descriptor must stay open. Few removed directories are in use.
        let may_pin = self.pinned < self.descriptors_max || node.kind == Kind::Directory;
        match (may_pin, &node.fd) {
            (false, _) => UnlinkStep::LinkAsOrphan,
            (true, Some(_)) => UnlinkStep::KeepDescriptor,
            (true, None) => UnlinkStep::OpenDescriptor,
        }
    }

    /// Notes that a name of the node was removed. `orphan` is its name among the orphans, if it was given one.
    pub fn remove_name(&mut self, id: u64, parent: u64, name: &[u8], orphan: Option<NodeName>) {
        if let Some(index) = &mut self.index
            && index.get(&id).is_some_and(|indexed| indexed.is(parent, name))
        {
            index.remove(&id);
        }
        let Some(node) = self.known.get_mut(&id) else { return };
        if node.place.as_ref().is_none_or(|place| !place.is(parent, name)) {
            return;
        }
        node.is_orphan = orphan.is_some();
        if node.lookups == 0 && node.children == 0 {
            self.remove(id);
            return;
        }
        // Without a name, the node can only be reached by its descriptor, so the cache must not close it.
        if orphan.is_none() && node.fd.is_some() && !node.pinned {
            node.pinned = true;
            self.open -= 1;
            self.pinned += 1;
        }
        self.set_place(id, orphan);
    }

    /// Notes that a name of the node has moved.
    pub fn move_name(&mut self, id: u64, (from, old_name): (u64, &[u8]), (to, new_name): (u64, &[u8])) {
        if let Some(index) = &mut self.index {
            index.insert(id, NodeName::new(to, new_name));
        }
        let place = self.known.get(&id).and_then(|node| node.place.as_ref());
        if place.is_some_and(|place| place.is(from, old_name)) {
            self.set_place(id, Some(NodeName::new(to, new_name)));
        }
    }
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeName {
    /// The directory.
    pub parent: u64,
    /// The name.
    pub name: Box<[u8]>,
}

impl NodeName {
    /// The name `name` in `parent`.
    pub fn new(parent: u64, name: &[u8]) -> NodeName {
        NodeName { parent, name: name.into() }
    }

    /// True if it is this one.
    pub fn is(&self, parent: u64, name: &[u8]) -> bool {
        self.parent == parent && *self.name == *name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_descriptors_does_not_grow_with_what_was_forgotten() {
        let fd = Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
        let mut nodes = Nodes::new(4);
        for id in 0..1000 {
            nodes.keep_descriptor(id, Kind::File, &fd);
            assert!(nodes.forget(id, 1).is_some());
            assert!(nodes.order.len() <= 4 * 4 + 64, "{id}: {}", nodes.order.len());
        }
        assert_eq!((nodes.open, nodes.known()), (0, 0));
    }

    #[test]
    fn a_node_is_known_while_it_has_a_user_a_descriptor_or_a_child() {
        let fd = Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
        let mut nodes = Nodes::new(1);
        nodes.add_lookup(2, Kind::Directory, 1, b"folder");
        nodes.add_lookup(3, Kind::File, 2, b"file");
        assert_eq!(nodes.known(), 3, "with the directory that the folder is in");
        assert!(nodes.forget(2, 1).is_none());
        for id in 10..20 {
            nodes.keep_descriptor(id, Kind::File, &fd);
            assert_eq!((nodes.open, nodes.known()), (1, 4), "{id}");
        }
        nodes.keep_descriptor(3, Kind::File, &fd);
        nodes.keep_descriptor(20, Kind::File, &fd);
        assert_eq!(nodes.known(), 4, "the file is in use without its descriptor");
        nodes.keep_descriptor(2, Kind::Directory, &fd);
        nodes.keep_descriptor(20, Kind::File, &fd);
        assert_eq!(nodes.known(), 4, "the folder has a file that is known");
        nodes.keep_descriptor(1, Kind::Directory, &fd);
        assert!(nodes.forget(3, 1).is_some());
        assert_eq!(nodes.known(), 1, "the directory has a descriptor");
        nodes.keep_descriptor(20, Kind::File, &fd);
        assert_eq!(nodes.known(), 1);
    }

    fn null() -> Arc<OwnedFd> {
        Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()))
    }

    /// Descriptors that are cached, those that stay, nodes that are known.
    fn counts(nodes: &Nodes) -> (usize, usize, usize) {
        (nodes.open, nodes.pinned, nodes.known())
    }

    #[test]
    fn a_node_in_use_is_held_by_a_descriptor_or_by_another_name() {
        let fd = null();
        let mut nodes = Nodes::new(1);
        assert_eq!(nodes.step_before_unlink(2, 1, b"a"), UnlinkStep::Nothing, "nobody knows it");
        nodes.keep_descriptor(2, Kind::File, &fd);
        assert_eq!(nodes.step_before_unlink(2, 1, b"a"), UnlinkStep::Nothing, "nobody uses it");
        nodes.add_lookup(2, Kind::File, 1, b"a");
        for (id, name) in [(3, &b"b"[..]), (4, b"c")] {
            nodes.add_lookup(id, if id == 3 { Kind::Directory } else { Kind::File }, 1, name);
        }
        assert_eq!(
            [nodes.step_before_unlink(2, 1, b"b"), nodes.step_before_unlink(2, 9, b"a")],
            [UnlinkStep::Nothing, UnlinkStep::Nothing],
            "it has another name"
        );
        assert_eq!(
            [nodes.step_before_unlink(2, 1, b"a"), nodes.step_before_unlink(3, 1, b"b")],
            [UnlinkStep::KeepDescriptor, UnlinkStep::OpenDescriptor]
        );
        assert_eq!(counts(&nodes), (1, 0, 4));
        nodes.remove_name(2, 1, b"other", None);
        assert_eq!(counts(&nodes), (1, 0, 4));
        nodes.remove_name(2, 1, b"a", None);
        assert_eq!((counts(&nodes), nodes.place(2)), ((0, 1, 4), None), "its descriptor stays");
        // Too many stay: files get a name, directories a descriptor all the same.
        assert_eq!(
            [nodes.step_before_unlink(3, 1, b"b"), nodes.step_before_unlink(4, 1, b"c")],
            [UnlinkStep::OpenDescriptor, UnlinkStep::LinkAsOrphan]
        );
        nodes.keep_descriptor(3, Kind::Directory, &fd);
        nodes.keep_descriptor(4, Kind::File, &fd);
        assert_eq!(counts(&nodes), (1, 1, 4), "one descriptor is cached, another stays");
        nodes.keep_descriptor(3, Kind::Directory, &fd);
        assert_eq!(
            [nodes.step_before_unlink(3, 1, b"b"), nodes.step_before_unlink(4, 1, b"c")],
            [UnlinkStep::KeepDescriptor, UnlinkStep::LinkAsOrphan]
        );
        nodes.remove_name(4, 1, b"c", Some(NodeName::new(7, b"4")));
        assert!(nodes.get(4).unwrap().is_orphan && nodes.place(4) == Some(NodeName::new(7, b"4")));
        // A name that is found anew.
        assert!(!nodes.add_lookup(2, Kind::File, 1, b"a"));
        assert_eq!((nodes.pinned, nodes.open), (0, 2));
        assert!(nodes.add_lookup(4, Kind::File, 1, b"c"), "its other name can go");
        assert!(!nodes.get(4).unwrap().is_orphan && nodes.place(4) == Some(NodeName::new(1, b"c")));
        nodes.remove_name(3, 1, b"b", None);
        assert_eq!((nodes.pinned, nodes.open), (1, 1));
        assert!(nodes.forget(3, 1).is_some());
        assert_eq!((nodes.pinned, nodes.open), (0, 1));
        assert!(nodes.forget(2, 1).is_none(), "two answers were given");
        assert!(nodes.forget(2, 1).is_some() && nodes.forget(2, 1).is_none());
    }

    #[test]
    fn a_node_that_nobody_uses_goes_with_its_name() {
        let fd = null();
        let mut nodes = Nodes::new(4);
        nodes.add_lookup(2, Kind::Directory, 1, b"a");
        nodes.add_lookup(3, Kind::File, 2, b"b");
        assert!(nodes.forget(2, 1).is_none());
        nodes.keep_descriptor(3, Kind::File, &fd);
        assert_eq!(counts(&nodes), (1, 0, 3));
        nodes.remove_name(2, 1, b"a", None);
        assert_eq!((counts(&nodes), nodes.place(2)), ((1, 0, 2), None), "a known file lies in it");
        assert!(nodes.forget(3, 1).is_some());
        assert_eq!(counts(&nodes), (0, 0, 0));
        nodes.keep_descriptor(5, Kind::File, &fd);
        nodes.set_place(5, Some(NodeName::new(1, b"c")));
        nodes.remove_name(5, 1, b"c", None);
        assert_eq!(counts(&nodes), (0, 0, 0));
    }

    #[test]
    fn the_descriptor_that_was_not_used_for_a_round_is_closed() {
        let fd = null();
        let mut nodes = Nodes::new(2);
        for id in [2, 3, 4] {
            nodes.add_lookup(id, Kind::File, 1, &[b'a' + id as u8]);
            nodes.keep_descriptor(id, Kind::File, &fd);
        }
        let open =
            |nodes: &Nodes| (2..9).filter(|id| nodes.known.get(id).is_some_and(|node| node.fd.is_some())).collect();
        let is_open: Vec<u64> = open(&nodes);
        assert_eq!(is_open, [3, 4]);
        assert!(nodes.fd(3).is_some() && nodes.fd(2).is_none() && nodes.fd(8).is_none());
        nodes.keep_descriptor(5, Kind::File, &fd);
        let is_open: Vec<u64> = open(&nodes);
        assert_eq!((is_open, nodes.open), (vec![3, 5], 2));
        nodes.keep_descriptor(5, Kind::File, &fd);
        assert_eq!(nodes.open, 2, "it has one");
    }

    #[test]
    fn names_are_those_of_the_index_until_a_node_is_known() {
        let mut nodes = Nodes::new(2);
        nodes.index = Some(HashMap::from([(2, NodeName::new(1, b"a")), (3, NodeName::new(2, b"b"))]));
        let name = |parent, name: &[u8]| Some(NodeName::new(parent, name));
        assert_eq!([nodes.place(3), nodes.place(4)], [name(2, b"b"), None]);
        // A file that lies in it makes a folder known, and what that lies in.
        nodes.add_lookup(4, Kind::File, 3, b"c");
        assert_eq!((nodes.known(), nodes.place(3), nodes.place(4)), (4, name(2, b"b"), name(3, b"c")));
        let in_index = |nodes: &Nodes, id| nodes.index.as_ref().unwrap().get(&id).cloned();
        assert_eq!(in_index(&nodes, 4), name(3, b"c"));
        nodes.add_lookup(4, Kind::File, 1, b"second");
        assert_eq!((nodes.place(4), in_index(&nodes, 4)), (name(1, b"second"), name(3, b"c")));
        assert_eq!(nodes.known(), 2, "nothing that is known lies in the folders any more");
        nodes.move_name(4, (9, b"other"), (2, b"x"));
        assert_eq!((nodes.place(4), in_index(&nodes, 4)), (name(1, b"second"), name(2, b"x")));
        nodes.move_name(4, (1, b"second"), (2, b"d"));
        assert_eq!((nodes.place(4), in_index(&nodes, 4)), (name(2, b"d"), name(2, b"d")));
        nodes.remove_name(4, 2, b"d", None);
        assert_eq!((nodes.place(4), in_index(&nodes, 4)), (None, None));
    }
}
