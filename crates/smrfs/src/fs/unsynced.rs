//! Names that are not durable yet: which directories to sync for a node's name to stay.

use std::collections::{BTreeSet, HashMap};

use crate::units::NodeId;

/// A directory in which a node's names have changed, and which change that was.
pub(super) type Change = (NodeId, u64);

/// For each node the directories in which its names have changed since the last commit of everything.
#[derive(Default)]
pub(super) struct Unsynced {
    now: HashMap<NodeId, Vec<Change>>,
    /// Changes that a commit under way makes durable.
    committing: HashMap<NodeId, Vec<Change>>,
    changes: u64,
}

impl Unsynced {
    /// A name of `id` in `directory` was made or taken away.
    pub(super) fn add(&mut self, id: NodeId, directory: NodeId) {
        self.changes += 1;
        let directories = self.now.entry(id).or_default();
        directories.retain(|(other, _)| *other != directory);
        directories.push((directory, self.changes));
    }

    /// All nodes whose names may not be durable, in order.
    pub(super) fn nodes(&self) -> Vec<NodeId> {
        let nodes: BTreeSet<NodeId> = self.now.keys().chain(self.committing.keys()).copied().collect();
        nodes.into_iter().collect()
    }

    /// The changes to make durable for `id`, and for those directories their own, and so on: the uppermost last.
    pub(super) fn directories(&self, id: NodeId) -> Vec<Change> {
        let mut found: Vec<Change> = Vec::new();
        let (mut next, mut of) = (0, id);
        loop {
            for map in [&self.now, &self.committing] {
                for change in map.get(&of).into_iter().flatten() {
                    if !found.iter().any(|(other, _)| *other == change.0) {
                        found.push(*change);
                    }
                }
            }
            let Some(&(directory, _)) = found.get(next) else { return found };
            (next, of) = (next + 1, directory);
        }
    }

    /// Forgets durable changes of names of `id` and of the directories that they lie in.
    pub(super) fn synced(&mut self, id: NodeId, durable: &[Change]) {
        for node in durable.iter().map(|(directory, _)| *directory).chain([id]) {
            let Some(left) = self.now.get_mut(&node) else { continue };
            left.retain(|change| !durable.contains(change));
            if left.is_empty() {
                self.now.remove(&node);
            }
        }
    }

    /// A commit of everything begins.
    pub(super) fn begin(&mut self) {
        self.committing = std::mem::take(&mut self.now);
    }

    /// Ends the commit under way.
    pub(super) fn end(&mut self, durable: bool) {
        let committing = std::mem::take(&mut self.committing);
        if !durable {
            for (id, changes) in committing {
                changes.into_iter().for_each(|(directory, _)| self.add(id, directory));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_durable_once_also_for_the_files_below_it() {
        let (root, folder, one, two) = (NodeId(1), NodeId(2), NodeId(3), NodeId(4));
        let mut unsynced = Unsynced::default();
        unsynced.add(folder, root);
        unsynced.add(one, folder);
        unsynced.add(two, folder);
        let directories = |changes: &[Change]| changes.iter().map(|change| change.0).collect::<Vec<_>>();
        let of_one = unsynced.directories(one);
        assert_eq!(directories(&of_one), [folder, root]);
        // Moved meanwhile: that is another change.
        unsynced.add(folder, root);
        unsynced.synced(one, &of_one);
        assert!(unsynced.directories(one).is_empty());
        let of_two = unsynced.directories(two);
        assert_eq!(directories(&of_two), [folder, root]);
        unsynced.synced(two, &of_two);
        unsynced.add(one, folder);
        assert_eq!(directories(&unsynced.directories(one)), [folder], "the folder's own name is durable");
    }
}
