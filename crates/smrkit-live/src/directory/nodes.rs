//! The nodes that are in use: where each has a name, and which have a descriptor open.
//!
//! A node is known while the kernel or the core holds answers about it, or while a known node lies in it. Descriptors are
//! a cache of bounded size; only nodes that have lost their last known name keep theirs.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use smrfs::meta::Kind;

/// A known node.
#[derive(Debug)]
pub struct Node {
    /// The node's kind.
    pub kind: Kind,
    /// A name of it; none once that has been taken away.
    pub place: Option<NodeName>,
    /// Answers that have not been given back.
    pub lookups: u64,
    /// Known nodes that have their place in it.
    pub children: u64,
    /// Generation, which tells it from earlier nodes of its number, once that was asked for.
    pub generation: Option<u32>,
    /// An open descriptor.
    pub fd: Option<Arc<OwnedFd>>,
    /// True if the descriptor has been used since the last sweep.
    recent: bool,
    /// True if the descriptor must stay: there is no name to open it by.
    pinned: bool,
    /// True if its place is in the directory of orphans: a name that users don't see.
    pub is_orphan: bool,
    /// The mark of its map, if one was stored since the node is known.
    pub mark: Option<u64>,
}

impl Node {
    fn new(kind: Kind) -> Node {
        Node {
            kind,
            place: None,
            lookups: 0,
            children: 0,
            generation: None,
            fd: None,
            recent: false,
            pinned: false,
            is_orphan: false,
            mark: None,
        }
    }

    fn is_needed(&self) -> bool {
        self.lookups > 0 || self.children > 0 || self.fd.is_some()
    }
}

/// Step to be done before the last known name of a node goes.
#[derive(Debug, PartialEq, Eq)]
pub enum Hold {
    /// Nothing: nobody uses it, or it has another name.
    No,
    /// The node has a descriptor, which stays.
    Open,
    /// The node needs a descriptor.
    Need,
    /// Too many descriptors are held: it needs another name.
    Rename,
}

/// All known nodes.
#[derive(Debug)]
pub struct Nodes {
    known: HashMap<u64, Node>,
    /// Nodes with a descriptor in the order of opening, and some that have none any more.
    order: VecDeque<u64>,
    /// Descriptors that are open.
    pub open: usize,
    pinned: usize,
    most_open: usize,
    /// Index of a name for every node of the tree, once that was needed.
    pub index: Option<Index>,
}

impl Nodes {
    /// None known yet; at most `most_open` descriptors are cached.
    pub fn new(most_open: usize) -> Nodes {
        Nodes { known: HashMap::new(), order: VecDeque::new(), open: 0, pinned: 0, most_open, index: None }
    }

    /// A node that is known for good, with its descriptor.
    pub fn anchor(&mut self, id: u64, fd: Arc<OwnedFd>) {
        let mut node = Node::new(Kind::Directory);
        // So many that no kernel gives all of them back: `forget` never drops it.
        (node.lookups, node.fd, node.pinned) = (u64::MAX / 2, Some(fd), true);
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
        node.recent = true;
        node.fd.clone()
    }

    /// Name of a node, known or from the index.
    pub fn place(&self, id: u64) -> Option<NodeName> {
        match self.known.get(&id) {
            Some(node) => node.place.clone(),
            None => self.index.as_ref()?.place(id),
        }
    }

    /// An answer about a node goes out: it has (also) the name `name` in `parent`. Tells whether it was an orphan, whose
    /// other name can go.
    pub fn answered(&mut self, id: u64, kind: Kind, parent: u64, name: &[u8]) -> bool {
        let node = self.known.entry(id).or_insert_with(|| Node::new(kind));
        node.lookups += 1;
        let was_orphan = std::mem::take(&mut node.is_orphan);
        if node.place.as_ref().is_none_or(|place| !place.is(parent, name)) {
            self.set_place(id, Some(NodeName::new(parent, name)));
        }
        self.unpin(id);
        if let Some(index) = &mut self.index
            && !index.contains(id)
        {
            index.insert(id, parent, name);
        }
        was_orphan
    }

    /// `count` answers are given back. Gives the node if it is not used any more: closing its descriptor may take a while,
    /// and is not to be done while others wait.
    pub fn forget(&mut self, id: u64, count: u64) -> Option<Node> {
        let node = self.known.get_mut(&id)?;
        node.lookups = node.lookups.saturating_sub(count);
        if node.lookups > 0 || node.children > 0 {
            return None;
        }
        self.remove(id)
    }

    fn remove(&mut self, id: u64) -> Option<Node> {
        let mut node = self.known.remove(&id)?;
        if node.fd.is_some() {
            self.open -= usize::from(!node.pinned);
            self.pinned -= usize::from(node.pinned);
        }
        if let Some(place) = node.place.take() {
            self.lost_child(place.parent);
        }
        Some(node)
    }

    /// One known node more lies in `parent`, which becomes known, and so on upward.
    fn new_child(&mut self, parent: u64) {
        let mut at = parent;
        loop {
            if let Some(node) = self.known.get_mut(&at) {
                node.children += 1;
                return;
            }
            // A child is opened by way of its directories, whose names have to be known as long as the child is.
            let place = self.place(at);
            let mut node = Node::new(Kind::Directory);
            (node.children, node.place) = (1, place.clone());
            self.known.insert(at, node);
            let Some(place) = place else { return };
            at = place.parent;
        }
    }

    /// Counts one known child of `parent` less. A node that nothing else holds is dropped, and its own parent then loses a child.
    fn lost_child(&mut self, parent: u64) {
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
            self.new_child(place.parent);
        }
        let Some(node) = self.known.get_mut(&id) else { return };
        let old = std::mem::replace(&mut node.place, place);
        if let Some(old) = old {
            self.lost_child(old.parent);
        }
    }

    /// Keeps a descriptor for a node, and closes others where there are too many.
    pub fn keep(&mut self, id: u64, kind: Kind, fd: &Arc<OwnedFd>) {
        if !self.known.contains_key(&id) {
            let place = self.place(id);
            self.known.insert(id, Node::new(kind));
            self.set_place(id, place);
        }
        let Some(node) = self.known.get_mut(&id) else { return };
        node.recent = true;
        if node.fd.is_none() {
            node.fd = Some(Arc::clone(fd));
            self.open += 1;
            self.order.push_back(id);
        }
        while self.open > self.most_open {
            if !self.close_one() {
                break;
            }
        }
        // A node that is forgotten leaves its number behind, and one that is opened again stands there twice. They are dropped
        // when they outnumber the descriptors, so that this costs a few steps for each descriptor that was opened.
        if self.order.len() > 4 * self.most_open + 64 {
            let (known, order) = (&self.known, &mut self.order);
            let mut seen = std::collections::HashSet::new();
            order.retain(|id| known.get(id).is_some_and(|node| node.fd.is_some() && !node.pinned) && seen.insert(*id));
        }
    }

    /// Closes the first descriptor that has not been used for a round.
    fn close_one(&mut self) -> bool {
        // Each descriptor is passed by once, where it was used. After two rounds none is left to close.
        for _ in 0..=2 * self.order.len() {
            let Some(id) = self.order.pop_front() else { return false };
            let Some(node) = self.known.get_mut(&id) else { continue };
            if node.fd.is_none() || node.pinned {
                continue;
            }
            if std::mem::take(&mut node.recent) {
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

    /// Step that must be done before that name of the node goes.
    pub fn hold(&self, id: u64, parent: u64, name: &[u8]) -> Hold {
        let Some(node) = self.known.get(&id) else { return Hold::No };
        if node.lookups == 0 || node.place.as_ref().is_none_or(|place| !place.is(parent, name)) {
            return Hold::No;
        }
        match (&node.fd, self.pinned < self.most_open) {
            (Some(_), true) => Hold::Open,
            (None, true) => Hold::Need,
            // A directory can't have a second name; only empty ones go, and few are in use then.
            (fd, false) if node.kind == Kind::Directory => {
                if fd.is_some() {
                    Hold::Open
                } else {
                    Hold::Need
                }
            }
            (_, false) => Hold::Rename,
        }
    }

    /// Forgets a name of the node that is gone. `orphan` is its name among the orphans, if it was given one.
    pub fn lost(&mut self, id: u64, parent: u64, name: &[u8], orphan: Option<NodeName>) {
        if let Some(index) = &mut self.index {
            index.remove(id, parent, name);
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
        // Without a name the descriptor is the only way to the node, so that the cache must not close it.
        if orphan.is_none() && node.fd.is_some() && !node.pinned {
            node.pinned = true;
            self.open -= 1;
            self.pinned += 1;
        }
        self.set_place(id, orphan);
    }

    /// A name of the node has moved.
    pub fn moved(&mut self, id: u64, from: (u64, &[u8]), to: (u64, &[u8])) {
        if let Some(index) = &mut self.index {
            index.remove(id, from.0, from.1);
            index.insert(id, to.0, to.1);
        }
        let moves = self.known.get(&id).is_some_and(|node| node.place.as_ref().is_some_and(|p| p.is(from.0, from.1)));
        if moves {
            self.set_place(id, Some(NodeName::new(to.0, to.1)));
        }
    }

    fn unpin(&mut self, id: u64) {
        if let Some(node) = self.known.get_mut(&id)
            && node.pinned
            && node.fd.is_some()
        {
            node.pinned = false;
            self.pinned -= 1;
            self.open += 1;
            self.order.push_back(id);
        }
    }
}

/// One name of each node.
#[derive(Debug, Default)]
pub struct Index {
    places: HashMap<u64, IndexEntry>,
    names: Vec<u8>,
    /// Bytes of `names` that entries still use.
    used: usize,
}

#[derive(Debug)]
struct IndexEntry {
    parent: u64,
    /// Start of the name, and in the lowest byte its length (at most 255).
    name: u64,
}

impl Index {
    /// Empty.
    pub fn new() -> Index {
        Index::default()
    }

    /// Name of a node.
    pub fn place(&self, id: u64) -> Option<NodeName> {
        let entry = self.places.get(&id)?;
        Some(NodeName::new(entry.parent, self.name(entry)))
    }

    /// True if the node is in it.
    pub fn contains(&self, id: u64) -> bool {
        self.places.contains_key(&id)
    }

    fn name(&self, entry: &IndexEntry) -> &[u8] {
        let begin = (entry.name >> 8) as usize;
        &self.names[begin..begin + (entry.name & 255) as usize]
    }

    /// The node has this name. Names are at most 255 bytes long; a longer one is not taken.
    pub fn insert(&mut self, id: u64, parent: u64, name: &[u8]) {
        let Ok(length) = u8::try_from(name.len()) else { return };
        let entry = IndexEntry { parent, name: (self.names.len() as u64) << 8 | u64::from(length) };
        self.names.extend_from_slice(name);
        self.used += name.len();
        if let Some(old) = self.places.insert(id, entry) {
            self.used -= (old.name & 255) as usize;
        }
        // Names that are not used any more take half of the room at most.
        if self.names.len() > 2 * self.used + (1 << 16) {
            self.pack();
        }
    }

    /// The node has lost this name.
    pub fn remove(&mut self, id: u64, parent: u64, name: &[u8]) {
        if self.places.get(&id).is_some_and(|entry| entry.parent == parent && self.name(entry) == name) {
            self.places.remove(&id);
            self.used -= name.len();
        }
    }

    fn pack(&mut self) {
        let old = std::mem::take(&mut self.names);
        for entry in self.places.values_mut() {
            let (begin, length) = ((entry.name >> 8) as usize, entry.name & 255);
            entry.name = (self.names.len() as u64) << 8 | length;
            self.names.extend_from_slice(&old[begin..begin + length as usize]);
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
            nodes.keep(id, Kind::File, &fd);
            assert!(nodes.forget(id, 1).is_some());
            assert!(nodes.order.len() <= 4 * 4 + 64, "{id}: {}", nodes.order.len());
        }
        assert_eq!((nodes.open, nodes.known()), (0, 0));
    }

    #[test]
    fn a_node_is_known_while_it_has_a_user_a_descriptor_or_a_child() {
        let fd = Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
        let mut nodes = Nodes::new(1);
        nodes.answered(2, Kind::Directory, 1, b"folder");
        nodes.answered(3, Kind::File, 2, b"file");
        assert_eq!(nodes.known(), 3, "with the directory that the folder is in");
        assert!(nodes.forget(2, 1).is_none());
        for id in 10..20 {
            nodes.keep(id, Kind::File, &fd);
            assert_eq!((nodes.open, nodes.known()), (1, 4), "{id}");
        }
        nodes.keep(3, Kind::File, &fd);
        nodes.keep(20, Kind::File, &fd);
        assert_eq!(nodes.known(), 4, "the file is in use without its descriptor");
        nodes.keep(2, Kind::Directory, &fd);
        nodes.keep(20, Kind::File, &fd);
        assert_eq!(nodes.known(), 4, "the folder has a file that is known");
        nodes.keep(1, Kind::Directory, &fd);
        assert!(nodes.forget(3, 1).is_some());
        assert_eq!(nodes.known(), 1, "the directory has a descriptor");
        nodes.keep(20, Kind::File, &fd);
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
        assert_eq!(nodes.hold(2, 1, b"a"), Hold::No, "nobody knows it");
        nodes.keep(2, Kind::File, &fd);
        assert_eq!(nodes.hold(2, 1, b"a"), Hold::No, "nobody uses it");
        nodes.answered(2, Kind::File, 1, b"a");
        for (id, name) in [(3, &b"b"[..]), (4, b"c")] {
            nodes.answered(id, if id == 3 { Kind::Directory } else { Kind::File }, 1, name);
        }
        assert_eq!([nodes.hold(2, 1, b"b"), nodes.hold(2, 9, b"a")], [Hold::No, Hold::No], "it has another name");
        assert_eq!([nodes.hold(2, 1, b"a"), nodes.hold(3, 1, b"b")], [Hold::Open, Hold::Need]);
        assert_eq!(counts(&nodes), (1, 0, 4));
        nodes.lost(2, 1, b"other", None);
        assert_eq!(counts(&nodes), (1, 0, 4));
        nodes.lost(2, 1, b"a", None);
        assert_eq!((counts(&nodes), nodes.place(2)), ((0, 1, 4), None), "its descriptor stays");
        // Too many stay: files get a name, directories a descriptor all the same.
        assert_eq!([nodes.hold(3, 1, b"b"), nodes.hold(4, 1, b"c")], [Hold::Need, Hold::Rename]);
        nodes.keep(3, Kind::Directory, &fd);
        nodes.keep(4, Kind::File, &fd);
        assert_eq!(counts(&nodes), (1, 1, 4), "one descriptor is cached, another stays");
        nodes.keep(3, Kind::Directory, &fd);
        assert_eq!([nodes.hold(3, 1, b"b"), nodes.hold(4, 1, b"c")], [Hold::Open, Hold::Rename]);
        nodes.lost(4, 1, b"c", Some(NodeName::new(7, b"4")));
        assert!(nodes.get(4).unwrap().is_orphan && nodes.place(4) == Some(NodeName::new(7, b"4")));
        // A name that is found anew.
        assert!(!nodes.answered(2, Kind::File, 1, b"a"));
        assert_eq!((nodes.pinned, nodes.open), (0, 2));
        assert!(nodes.answered(4, Kind::File, 1, b"c"), "its other name can go");
        assert!(!nodes.get(4).unwrap().is_orphan && nodes.place(4) == Some(NodeName::new(1, b"c")));
        nodes.lost(3, 1, b"b", None);
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
        nodes.answered(2, Kind::Directory, 1, b"a");
        nodes.answered(3, Kind::File, 2, b"b");
        assert!(nodes.forget(2, 1).is_none());
        nodes.keep(3, Kind::File, &fd);
        assert_eq!(counts(&nodes), (1, 0, 3));
        nodes.lost(2, 1, b"a", None);
        assert_eq!((counts(&nodes), nodes.place(2)), ((1, 0, 2), None), "a known file lies in it");
        assert!(nodes.forget(3, 1).is_some());
        assert_eq!(counts(&nodes), (0, 0, 0));
        nodes.keep(5, Kind::File, &fd);
        nodes.set_place(5, Some(NodeName::new(1, b"c")));
        nodes.lost(5, 1, b"c", None);
        assert_eq!(counts(&nodes), (0, 0, 0));
    }

    #[test]
    fn the_descriptor_that_was_not_used_for_a_round_is_closed() {
        let fd = null();
        let mut nodes = Nodes::new(2);
        for id in [2, 3, 4] {
            nodes.answered(id, Kind::File, 1, &[b'a' + id as u8]);
            nodes.keep(id, Kind::File, &fd);
        }
        let open =
            |nodes: &Nodes| (2..9).filter(|id| nodes.known.get(id).is_some_and(|node| node.fd.is_some())).collect();
        let is_open: Vec<u64> = open(&nodes);
        assert_eq!(is_open, [3, 4]);
        assert!(nodes.fd(3).is_some() && nodes.fd(2).is_none() && nodes.fd(8).is_none());
        nodes.keep(5, Kind::File, &fd);
        let is_open: Vec<u64> = open(&nodes);
        assert_eq!((is_open, nodes.open), (vec![3, 5], 2));
        nodes.keep(5, Kind::File, &fd);
        assert_eq!(nodes.open, 2, "it has one");
    }

    #[test]
    fn names_are_those_of_the_index_until_a_node_is_known() {
        let mut nodes = Nodes::new(2);
        let mut index = Index::new();
        index.insert(2, 1, b"a");
        index.insert(3, 2, b"b");
        nodes.index = Some(index);
        let name = |parent, name: &[u8]| Some(NodeName::new(parent, name));
        assert_eq!([nodes.place(3), nodes.place(4)], [name(2, b"b"), None]);
        // A file that lies in it makes a folder known, and what that lies in.
        nodes.answered(4, Kind::File, 3, b"c");
        assert_eq!((nodes.known(), nodes.place(3), nodes.place(4)), (4, name(2, b"b"), name(3, b"c")));
        let in_index = |nodes: &Nodes, id| nodes.index.as_ref().unwrap().place(id);
        assert_eq!(in_index(&nodes, 4), name(3, b"c"));
        nodes.answered(4, Kind::File, 1, b"second");
        assert_eq!((nodes.place(4), in_index(&nodes, 4)), (name(1, b"second"), name(3, b"c")));
        assert_eq!(nodes.known(), 2, "nothing that is known lies in the folders any more");
        nodes.moved(4, (9, b"other"), (2, b"x"));
        assert_eq!((nodes.place(4), in_index(&nodes, 4)), (name(1, b"second"), name(2, b"x")));
        nodes.moved(4, (1, b"second"), (2, b"d"));
        assert_eq!((nodes.place(4), in_index(&nodes, 4)), (name(2, b"d"), name(2, b"d")));
        nodes.lost(4, 2, b"d", None);
        assert_eq!((nodes.place(4), in_index(&nodes, 4)), (None, None));
    }

    #[test]
    fn names_that_are_not_used_any_more_leave_room_and_the_others_stay() {
        let mut index = Index::new();
        let name = |round: u64, id: u64| vec![b'a' + ((round + id) % 26) as u8; (1 + (7 * round + id) % 255) as usize];
        for round in 0..100 {
            for id in 0..40 {
                index.insert(id, round, &name(round, id));
            }
            index.remove(round % 40, round, &name(round, round % 40));
            for id in 0..40 {
                let place = (id != round % 40).then(|| NodeName::new(round, &name(round, id)));
                assert_eq!(index.place(id), place, "{round}, {id}");
            }
            assert!(index.names.len() <= 2 * index.used + (1 << 16) + 255, "{} of {}", index.used, index.names.len());
        }
    }
}
