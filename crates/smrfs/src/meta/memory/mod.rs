//! A metadata store in memory: for tests, with power cuts that lose what was not synced, and for simulation.
//!
//! Names behave as on Linux. Permissions are not checked: on a mount that is the kernel's business. States are durable at
//! once; everything else waits for a sync (without a power supply nothing is ever lost, and nothing is noted for it).

#[cfg(test)]
mod cut_tests;
mod journal;
mod store;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::{Attr, Kind, NewNode, Time};
use crate::error::{Errno, FsError, FsResult};
use crate::power::Power;
use crate::units::NodeId;
use journal::{Effect, Journal, StoreImage, Update};
use tree::{ROOT, SavedNode, Tree};

pub use journal::StoreLoss;

/// Tells the time of a store: a counter, or the model's clock.
pub type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// Limits of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest map that always fits.
    pub map_bytes: usize,
    /// All users' attributes of a node; what they leave a map may take beyond `map_bytes`.
    pub attribute_bytes: usize,
    /// Nodes.
    pub nodes: u64,
}

impl Limits {
    /// As ext4 with blocks of 4 KiB: one block for all attributes of a node.
    pub const EXT4: Limits = Limits { map_bytes: 2000, attribute_bytes: 1900, nodes: 1 << 32 };
    /// As file systems that take 64 KiB an attribute.
    pub const LARGE: Limits = Limits { map_bytes: 60_000, attribute_bytes: 1 << 20, nodes: 1 << 40 };
}

/// A metadata store in memory.
pub struct MemoryStore {
    state: Mutex<StoreState>,
    limits: Limits,
    clock: Clock,
    power: Option<Arc<Power>>,
}

struct StoreState {
    tree: Tree,
    parts: BTreeMap<u64, Arc<[u8]>>,
    states: BTreeMap<String, Arc<[u8]>>,
    journal: Option<Journal>,
    /// The operation that is being done.
    number: u64,
}

impl MemoryStore {
    /// An empty one that never loses anything.
    pub fn new(limits: Limits, clock: Clock) -> MemoryStore {
        let new = NewNode { kind: Kind::Directory, mode: 0o755, uid: 0, gid: 0, rdev: 0 };
        let tree = Tree::new(SavedNode::new(&new, clock()));
        let (parts, states) = (BTreeMap::new(), BTreeMap::new());
        let state = StoreState { tree, parts, states, journal: None, number: 0 };
        MemoryStore { state: Mutex::new(state), limits, clock, power: None }
    }

    /// An empty one on a power supply that may fail.
    pub fn on_power(limits: Limits, clock: Clock, power: Arc<Power>) -> MemoryStore {
        MemoryStore::new(limits, clock).powered(power)
    }

    /// The store as it is after the power has failed at operation number `cut` of its [`Power`]: that one may have been
    /// done. It can be asked for any cut so far, many times. `seed` decides what is lost, `power` is the new one.
    pub fn survivor(&self, cut: u64, loss: StoreLoss, seed: u64, power: Arc<Power>) -> MemoryStore {
        let state = self.lock();
        let image = match &state.journal {
            Some(journal) => journal.cut(cut, loss, &mut Pcg64Mcg::seed_from_u64(seed ^ cut.rotate_left(32))),
            None => state.image(),
        };
        let tree = grown(&image, state.tree.next);
        let state = StoreState { tree, parts: image.parts, states: image.states, journal: None, number: 0 };
        let store =
            MemoryStore { state: Mutex::new(state), limits: self.limits, clock: self.clock.clone(), power: None };
        store.powered(power)
    }

    /// From now on on this power supply; what there is so far is durable.
    fn powered(mut self, power: Arc<Power>) -> MemoryStore {
        let mut state = self.lock();
        state.journal = Some(Journal::new(power.operations(), state.image()));
        drop(state);
        self.power = Some(power);
        self
    }

    fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock()
    }

    /// To look.
    fn see(&self) -> FsResult<MutexGuard<'_, StoreState>> {
        match &self.power {
            Some(power) if !power.is_on() => Err(FsError::PowerCut),
            _ => Ok(self.lock()),
        }
    }

    /// To change or to sync: one operation of the power supply.
    fn touch(&self) -> FsResult<MutexGuard<'_, StoreState>> {
        let mut state = self.lock();
        if let Some(power) = &self.power {
            if !power.operation() {
                return Err(FsError::PowerCut);
            }
            state.number = power.operations();
        }
        Ok(state)
    }

    fn make_saved(&self, parent: NodeId, name: &[u8], new: &NewNode, target: Option<&[u8]>) -> FsResult<Attr> {
        let (now, mut state) = ((self.clock)(), self.touch()?);
        let StoreState { tree, .. } = &mut *state;
        tree.vacant(parent, name)?;
        if tree.nodes.len() as u64 >= self.limits.nodes {
            return Err(Errno::ENOSPC.into());
        }
        let above = &tree.node(parent)?.saved;
        let mut saved = SavedNode::new(new, now);
        if above.mode & 0o2000 != 0 {
            saved.gid = above.gid;
            saved.mode |= if new.kind == Kind::Directory { 0o2000 } else { 0 };
        }
        saved.target = target.map(Arc::from);
        let (id, name) = (tree.add(saved), Arc::from(name));
        tree.attach(parent, &name, id)?;
        tree.touch(parent, now, true);
        let attr = tree.answer(id)?;
        state.save(id);
        state.rename(vec![Effect::Name(parent, name, Some(id))], vec![id], None);
        state.save(parent);
        Ok(attr)
    }

    /// Takes a name away.
    fn part(&self, parent: NodeId, name: &[u8], directory: bool) -> FsResult {
        let (now, mut state) = ((self.clock)(), self.touch()?);
        let StoreState { tree, .. } = &mut *state;
        let id = tree.find(parent, name)?;
        match (tree.names(id).is_ok(), directory) {
            (true, false) => return Err(Errno::EISDIR.into()),
            (false, true) => return Err(Errno::ENOTDIR.into()),
            (true, true) if !tree.is_empty(id)? => return Err(Errno::ENOTEMPTY.into()),
            _ => {}
        }
        tree.detach(parent, name)?;
        tree.touch(parent, now, true);
        tree.parted(id, now);
        state.rename(vec![Effect::Name(parent, name.into(), None)], vec![id], directory.then_some(id));
        state.save(id);
        state.save(parent);
        Ok(())
    }
}

impl StoreState {
    fn image(&self) -> StoreImage {
        let mut image = StoreImage { parts: self.parts.clone(), states: self.states.clone(), ..StoreImage::default() };
        for (&id, node) in &self.tree.nodes {
            image.nodes.insert(id, Arc::new(node.saved.clone()));
            image.names.extend(node.names.iter().flat_map(|names| names.entries()).map(|(name, to)| ((id, name), to)));
        }
        image
    }

    fn save(&mut self, id: NodeId) {
        if let (Some(journal), Some(node)) = (&mut self.journal, self.tree.nodes.get(&id.0)) {
            let effect = Effect::Node(id, Arc::new(node.saved.clone()));
            journal.push(self.number, Update::new(vec![effect], Vec::new(), None));
        }
    }

    fn rename(&mut self, effects: Vec<Effect>, renamed: Vec<NodeId>, emptied: Option<NodeId>) {
        if let Some(journal) = &mut self.journal {
            journal.push(self.number, Update::new(effects, renamed, emptied));
        }
    }

    fn part(&mut self, number: u64, part: Option<Arc<[u8]>>) {
        if let Some(journal) = &mut self.journal {
            journal.push(self.number, Update::new(vec![Effect::Part(number, part)], Vec::new(), None));
        }
    }

    fn state(&mut self, name: &str, bytes: Option<Arc<[u8]>>) {
        if let Some(journal) = &mut self.journal {
            let effect = Effect::State(name.into(), bytes);
            journal.push_durable(self.number, Update::new(vec![effect], Vec::new(), None));
        }
    }

    fn synced(&mut self, how: impl FnOnce(&mut Journal, u64)) {
        if let Some(journal) = &mut self.journal {
            how(journal, self.number);
        }
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
