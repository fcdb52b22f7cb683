//! Effects of a power cut on a store in memory: the synced updates stay, and of the others what a mode of loss allows.
//!
//! Each update belongs to some objects: what is saved of a node, a name in a directory, the set of a node's names, a part.
//! Updates of one object never overtake each other; beyond that only syncs promise anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand::{Rng, RngExt};

use super::super::tree::{Name, SavedNode};
use super::super::{Effect, Synced};
use crate::units::NodeId;

/// Loss that a power cut may cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreLoss {
    /// The latest updates, from any point behind the last synced one on: as a journal that is written in order.
    Latest,
    /// Any updates that were not synced, so long as those of one object stay in order.
    Any,
}

/// Changes that happen as one.
#[derive(Clone, Debug)]
pub(super) struct Update {
    pub(super) effects: Vec<Effect>,
    /// Nodes whose names it changes.
    pub(super) renamed: Vec<NodeId>,
    /// A directory that must be empty for it.
    pub(super) emptied: Option<NodeId>,
    /// The number of its operation.
    number: u64,
    /// The operation that made it durable; `NEVER` if none did.
    durable: u64,
}

const NEVER: u64 = u64::MAX;

/// One thing whose updates stay in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    Saved(NodeId),
    Name(NodeId, Name),
    NamesOf(NodeId),
    NamesIn(NodeId),
    Part(u64),
    State(String),
}

impl Update {
    pub(super) fn new(effects: Vec<Effect>, renamed: Vec<NodeId>, emptied: Option<NodeId>) -> Update {
        Update { effects, renamed, emptied, number: 0, durable: NEVER }
    }

    /// Objects whose updates it must not overtake.
    fn needs(&self) -> impl Iterator<Item = Object> + '_ {
        let effects = self.effects.iter().map(|effect| match effect {
            Effect::Node(id, _) => Object::Saved(*id),
            Effect::Name(parent, name, _) => Object::Name(*parent, name.clone()),
            Effect::Part(number, _) => Object::Part(*number),
            Effect::State(name, _) => Object::State(name.clone()),
        });
        let renamed = self.renamed.iter().map(|id| Object::NamesOf(*id));
        effects.chain(renamed).chain(self.emptied.map(Object::NamesIn))
    }

    /// Objects whose later updates must not overtake it: those that it changes, and whatever needs all names in a directory.
    fn changes(&self) -> impl Iterator<Item = Object> + '_ {
        let directories = self.effects.iter().filter_map(|effect| match effect {
            Effect::Name(parent, ..) => Some(Object::NamesIn(*parent)),
            _ => None,
        });
        self.needs().filter(|object| !matches!(object, Object::NamesIn(_))).chain(directories)
    }

    fn saves(&self, id: NodeId) -> bool {
        self.effects.iter().any(|effect| matches!(effect, Effect::Node(saved, _) if *saved == id))
    }
}

/// Store as it is on the platters.
#[derive(Clone, Debug, Default)]
pub(super) struct StoreImage {
    pub(super) nodes: BTreeMap<u64, Arc<SavedNode>>,
    pub(super) names: BTreeMap<(u64, Name), NodeId>,
    pub(super) parts: BTreeMap<u64, Arc<[u8]>>,
    pub(super) states: BTreeMap<String, Arc<[u8]>>,
}

impl StoreImage {
    fn apply(&mut self, update: &Update) {
        for effect in &update.effects {
            match effect {
                Effect::Node(id, saved) => drop(self.nodes.insert(id.0, saved.clone())),
                Effect::Name(parent, name, id) => put(&mut self.names, (parent.0, name.clone()), id),
                Effect::Part(number, part) => put(&mut self.parts, *number, part),
                Effect::State(name, bytes) => put(&mut self.states, name.clone(), bytes),
            }
        }
    }

    /// True if every node that the update gives a name exists.
    fn has_nodes_of(&self, update: &Update) -> bool {
        update.effects.iter().all(|effect| match effect {
            Effect::Name(_, _, Some(id)) => self.nodes.contains_key(&id.0),
            _ => true,
        })
    }
}

fn put<K: Ord, V: Clone>(map: &mut BTreeMap<K, V>, key: K, value: &Option<V>) {
    match value {
        Some(value) => drop(map.insert(key, value.clone())),
        None => drop(map.remove(&key)),
    }
}

/// Every update in order, in epochs that each begin with everything durable.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    epochs: Vec<JournalEpoch>,
    /// The operations that made something durable.
    syncs: Vec<u64>,
}

#[derive(Clone, Debug)]
struct JournalEpoch {
    /// The operation that made everything durable.
    number: u64,
    image: StoreImage,
    updates: Vec<Update>,
}

impl Journal {
    /// All that is in `image` is durable.
    pub(super) fn new(number: u64, image: StoreImage) -> Journal {
        Journal { epochs: vec![JournalEpoch { number, image, updates: Vec::new() }], syncs: vec![number] }
    }

    /// Operation `number` makes a change.
    pub(super) fn push(&mut self, number: u64, update: Update) {
        // States are durable as soon as they are stored.
        let is_state = update.effects.iter().all(|effect| matches!(effect, Effect::State(..)));
        let durable = if is_state { number } else { NEVER };
        self.last().updates.push(Update { number, durable, ..update });
    }

    /// Operation `number` makes something durable.
    pub(super) fn sync(&mut self, number: u64, what: Synced) {
        self.syncs.push(number);
        let last = self.last();
        if what == Synced::All {
            let mut image = last.image.clone();
            last.updates.iter().for_each(|update| image.apply(update));
            return self.epochs.push(JournalEpoch { number, image, updates: Vec::new() });
        }
        last.settle(number, |update| {
            update.effects.iter().any(|effect| match (what, effect) {
                (Synced::Node(id) | Synced::Directory(id), Effect::Node(saved, _)) => *saved == id,
                (Synced::Directory(id), Effect::Name(parent, ..)) => *parent == id,
                (Synced::Part(number), Effect::Part(part, _)) => *part == number,
                _ => false,
            })
        });
    }

    fn last(&mut self) -> &mut JournalEpoch {
        self.epochs.last_mut().expect("there is always one")
    }

    /// The store after a power cut at operation `cut`, which may itself have been carried out; and the last operation that a commit has saved
    /// if there is a journal: a sync, or a change that was committed before one was asked for.
    pub(super) fn cut(&self, cut: u64, loss: StoreLoss, random: &mut impl Rng) -> (StoreImage, u64) {
        let last = self.epochs.partition_point(|epoch| epoch.number < cut).max(1) - 1;
        let synced = self.syncs[self.syncs.partition_point(|&number| number < cut).max(1) - 1];
        match loss {
            StoreLoss::Latest => {
                let (image, kept) = self.epochs[last].cut_latest(cut, random);
                (image, kept.max(synced))
            }
            StoreLoss::Any => (self.epochs[last].cut_any(cut, random), synced),
        }
    }
}

impl JournalEpoch {
    fn settle(&mut self, number: u64, wanted: impl Fn(&Update) -> bool) {
        let mut needed: BTreeSet<Object> = BTreeSet::new();
        let mut shown: BTreeSet<NodeId> = BTreeSet::new();
        for update in self.updates.iter_mut().rev().filter(|update| update.durable == NEVER) {
            if wanted(update) || update.changes().any(|object| needed.contains(&object)) {
                update.durable = number;
                needed.extend(update.needs());
                shown.extend(update.effects.iter().filter_map(|effect| match effect {
                    Effect::Name(_, _, id) => *id,
                    _ => None,
                }));
            }
        }
        // A name that is durable shows a node: at least as it was made.
        for id in shown.into_iter().filter(|id| !self.image.nodes.contains_key(&id.0)) {
            if let Some(made) = self.updates.iter_mut().find(|update| update.saves(id)) {
                made.durable = made.durable.min(number);
            }
        }
    }

    /// The updates that were begun by then.
    fn begun(&self, cut: u64) -> &[Update] {
        &self.updates[..self.updates.partition_point(|update| update.number <= cut)]
    }

    /// All updates up to a random one behind the last that is durable; and the operation of that one.
    fn cut_latest(&self, cut: u64, random: &mut impl Rng) -> (StoreImage, u64) {
        let (mut image, begun) = (self.image.clone(), self.begun(cut));
        let synced = begun.iter().rposition(|update| update.durable < cut).map_or(0, |last| last + 1);
        let kept = random.random_range(synced..=begun.len());
        begun[..kept].iter().for_each(|update| image.apply(update));
        (image, begun[..kept].last().map_or(self.number, |update| update.number))
    }

    fn cut_any(&self, cut: u64, random: &mut impl Rng) -> StoreImage {
        let mut image = self.image.clone();
        // Sometimes nearly all is lost, sometimes nearly nothing.
        let share = [0.0, 0.1, 0.5, 0.9, 1.0][random.random_range(0..5)];
        let mut overtaken: BTreeSet<Object> = BTreeSet::new();
        for update in self.begun(cut) {
            let durable = update.durable < cut;
            let lost = !durable
                && (random.random_bool(share)
                    || update.needs().any(|object| overtaken.contains(&object))
                    || !image.has_nodes_of(update));
            if lost {
                overtaken.extend(update.changes());
                continue;
            }
            image.apply(update);
            if !durable {
                tear_parts(&mut image, update, random);
            }
        }
        image
    }
}

/// A part that was not synced may be there with a part of its bytes.
fn tear_parts(image: &mut StoreImage, update: &Update, random: &mut impl Rng) {
    for effect in &update.effects {
        if let Effect::Part(number, Some(part)) = effect {
            let kept = random.random_range(0..=part.len());
            image.parts.insert(*number, part[..kept].into());
        }
    }
}
