//! Index of a name for every node of the tree: needed for nodes that nobody has looked up, such as a file whose data the
//! cleaner moves. Made by one walk when first needed, about 50 bytes a node.

use std::collections::HashMap;

use super::place::NodeName;

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

#[cfg(test)]
mod tests {
    use super::*;

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
