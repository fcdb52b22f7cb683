//! Power cuts of a store in memory: what was not synced may be lost.

mod journal;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use parking_lot::Mutex;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::tree::{ROOT, SavedNode, Tree};
use super::{Clock, Effect, Limits, MemoryStore, StoreState, Synced};
use crate::error::{Errno, FsError, FsResult};
use crate::meta::Kind;
use crate::testing::memory::{Access, Power};
use crate::units::NodeId;
pub use journal::StoreLoss;
use journal::{Journal, StoreImage, Update};

/// The power supply of a store, and everything that was done on it.
pub(super) struct Powered {
    power: Arc<Power>,
    journal: Journal,
    /// The operation that is being done.
    number: u64,
    /// True once a sync has failed: later ones say that all is well, and save nothing.
    has_forgotten: bool,
}

impl Powered {
    fn operate(&mut self, access: Access) -> FsResult {
        if !self.power.operation() {
            return Err(FsError::PowerCut);
        }
        if self.power.breaks(access) {
            self.has_forgotten |= access == Access::Flush;
            return Err(Errno::EIO.into());
        }
        self.number = self.power.operations();
        Ok(())
    }

    /// Called before a read of the store.
    pub(super) fn look(&self) -> FsResult {
        if self.power.is_on() { Ok(()) } else { Err(FsError::PowerCut) }
    }

    /// Called before a change of the store.
    pub(super) fn begin(&mut self) -> FsResult {
        self.operate(Access::Change)
    }

    /// Called when the saved part of a node has changed.
    pub(super) fn save(&mut self, id: NodeId, node: &SavedNode) {
        self.change(vec![Effect::Node(id, Arc::new(node.clone()))], Vec::new(), None);
    }

    /// Called for effects that happen atomically. They change the names of the nodes `renamed`; if `emptied` is given, they require that
    /// it is an empty directory.
    pub(super) fn change(&mut self, effects: Vec<Effect>, renamed: Vec<NodeId>, emptied: Option<NodeId>) {
        self.journal.push(self.number, Update::new(effects, renamed, emptied));
    }

    /// Called for a sync.
    pub(super) fn sync(&mut self, what: Synced) -> FsResult {
        self.operate(Access::Flush)?;
        if !self.has_forgotten {
            self.journal.sync(self.number, what);
        }
        Ok(())
    }
}

impl MemoryStore {
    /// An empty one on a power supply that may fail.
    pub fn on_power(limits: Limits, clock: Clock, power: Arc<Power>) -> MemoryStore {
        MemoryStore::new(limits, clock).powered(power)
    }

    /// The same with a journal, of which a power cut takes the latest changes only.
    pub fn in_order(self) -> MemoryStore {
        MemoryStore { in_order: true, ..self }
    }

    /// The store as it is after the power has failed at operation number `cut` of its [`Power`]: that one may have been
    /// done. It can be asked for any cut so far, many times. `seed` decides what is lost, `power` is the new one.
    pub fn survivor(&self, cut: u64, loss: StoreLoss, seed: u64, power: Arc<Power>) -> MemoryStore {
        let state = self.lock();
        let loss = if self.in_order { StoreLoss::Latest } else { loss };
        let (image, committed) = match &state.power {
            Some(Powered { journal, .. }) => {
                journal.cut(cut, loss, &mut Pcg64Mcg::seed_from_u64(seed ^ cut.rotate_left(32)))
            }
            None => (state.image(), cut),
        };
        let tree = grown(&image, state.tree.next);
        let (parts, states) = (image.parts, image.states);
        let state = StoreState { tree, parts, states, power: None, breaks_behind_change: false };
        let (state, clock) = (Mutex::new(state), self.clock.clone());
        let store = MemoryStore { state, limits: self.limits, clock, in_order: self.in_order, committed };
        store.powered(power)
    }

    /// Of a survivor with a journal: the operation, before the cut, up to which commits have reached the platters. Each commit flushes the
    /// disk first.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// From now on on this power supply; what there is so far is durable.
    fn powered(self, power: Arc<Power>) -> MemoryStore {
        let mut state = self.lock();
        let journal = Journal::new(power.operations(), state.image());
        state.power = Some(Powered { power, journal, number: 0, has_forgotten: false });
        drop(state);
        self
    }
}

impl StoreState {
    fn image(&self) -> StoreImage {
        let mut image = StoreImage { parts: self.parts.clone(), states: self.states.clone(), ..StoreImage::default() };
        for (&id, node) in &self.tree.nodes {
            image.nodes.insert(id, Arc::new(node.saved.clone()));
            let names = node.names.iter().flat_map(|names| &names.by_name);
            image.names.extend(names.map(|(name, &(to, _))| ((id, name.clone()), to)));
        }
        image
    }
}

/// The tree of an image: what can be reached from the root.
fn grown(image: &StoreImage, next: u64) -> Tree {
    let root = image.nodes.get(&ROOT.0).map(|saved| SavedNode::clone(saved));
    let mut tree = Tree::new(root.expect("the root is never lost"));
    tree.next = next;
    let mut left = vec![ROOT];
    while let Some(parent) = left.pop() {
        let names = image.names.range((parent.0, Arc::from([]))..(parent.0 + 1, Arc::from([])));
        for ((_, name), &id) in names {
            let Some(saved) = image.nodes.get(&id.0) else { continue };
            if !tree.nodes.contains_key(&id.0) {
                tree.add_as(id, SavedNode::clone(saved));
                left.extend((saved.kind == Kind::Directory).then_some(id));
            }
            tree.attach(parent, name, id).expect("a directory, and links as before");
        }
    }
    tree
}
