//! A power cut takes nothing that a sync promised, tears nothing, and does take the rest.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::meta::{Durability, Maps, Names, NewNode, RenameMode, Time};

const DIRECTORIES: usize = 3;

/// A directory and a name.
type Place = (usize, u8);

#[derive(Clone, Debug)]
enum Op {
    Make(Place),
    Store(Place),
    Rename(Place, Place),
    Exchange(Place, Place),
    Link(Place, Place),
    Unlink(Place),
    Sync(Place),
    SyncDir(usize),
    SyncAll,
}

fn op() -> impl Strategy<Value = Op> {
    let place = || (0..DIRECTORIES, b'a'..b'd');
    prop_oneof![
        4 => place().prop_map(Op::Make),
        4 => place().prop_map(Op::Store),
        3 => (place(), place()).prop_map(|(from, to)| Op::Rename(from, to)),
        1 => (place(), place()).prop_map(|(from, to)| Op::Exchange(from, to)),
        2 => (place(), place()).prop_map(|(from, to)| Op::Link(from, to)),
        1 => place().prop_map(Op::Unlink),
        2 => place().prop_map(Op::Sync),
        2 => (0..DIRECTORIES).prop_map(Op::SyncDir),
        1 => Just(Op::SyncAll),
    ]
}

/// Account of the store's operations and of its promises.
struct Books {
    power: Arc<Power>,
    store: MemoryStore,
    directories: Vec<NodeId>,
    /// Every name after each operation.
    names: Vec<(u64, BTreeMap<Place, NodeId>)>,
    /// For each file the operations that stored a map (the map holds that number), and those that synced it.
    maps: BTreeMap<NodeId, (Vec<u64>, Vec<u64>)>,
    /// Operations that synced a directory.
    synced: Vec<(u64, usize)>,
}

impl Books {
    fn new() -> Books {
        let power = Arc::new(Power::new());
        let clock: Clock = Arc::new(Time::default);
        let store = MemoryStore::on_power(Limits::EXT4, clock, power.clone());
        let mut directories = vec![store.root()];
        for name in [b"x", b"y"] {
            let new = NewNode { kind: Kind::Directory, mode: 0o755, uid: 0, gid: 0, rdev: 0 };
            directories.push(store.make(store.root(), name, &new).unwrap().id);
        }
        store.sync_all().unwrap();
        let (names, maps) = (vec![(power.operations(), BTreeMap::new())], BTreeMap::new());
        Books { power, store, directories, names, maps, synced: Vec::new() }
    }

    fn run(&mut self, op: &Op) {
        let mut names = self.names.last().unwrap().1.clone();
        let at = |place: Place| (self.directories[place.0], [place.1]);
        let result = match *op {
            Op::Make(place) => {
                let (parent, name) = at(place);
                let new = NewNode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0 };
                self.store.make(parent, &name, &new).map(|attr| {
                    names.insert(place, attr.id);
                })
            }
            Op::Store(place) => names.get(&place).map_or(Ok(()), |&id| {
                let number = self.power.operations() + 1;
                self.maps.entry(id).or_default().0.push(number);
                self.store.store_map(id, &number.to_le_bytes())
            }),
            Op::Rename(from, to) | Op::Exchange(from, to) => {
                let exchange = matches!(op, Op::Exchange(..));
                let mode = if exchange { RenameMode::Exchange } else { RenameMode::Replace };
                let ((parent, name), (to_parent, to_name)) = (at(from), at(to));
                self.store.rename((parent, &name), (to_parent, &to_name), mode).map(|()| {
                    let (id, other) = (names[&from], names.get(&to).copied());
                    if other != Some(id) {
                        names.remove(&from);
                        names.insert(to, id);
                        match other {
                            Some(other) if exchange => {
                                names.insert(from, other);
                            }
                            _ => {}
                        }
                    }
                })
            }
            Op::Link(from, to) => {
                let (parent, name) = at(to);
                names.get(&from).copied().map_or(Ok(()), |id| {
                    self.store.link(id, parent, &name).map(|_| {
                        names.insert(to, id);
                    })
                })
            }
            Op::Unlink(place) => {
                let (parent, name) = at(place);
                self.store.unlink(parent, &name).map(|()| {
                    names.remove(&place);
                })
            }
            Op::Sync(place) => names.get(&place).map_or(Ok(()), |&id| {
                self.store.sync(id)?;
                self.maps.entry(id).or_default().1.push(self.power.operations());
                Ok(())
            }),
            Op::SyncDir(directory) => {
                let result = self.store.sync_dir(self.directories[directory]);
                self.synced.push((self.power.operations(), directory));
                result
            }
            Op::SyncAll => {
                let (result, number) = (self.store.sync_all(), self.power.operations());
                self.synced.extend((0..DIRECTORIES).map(|directory| (number, directory)));
                names.values().for_each(|&id| self.maps.entry(id).or_default().1.push(number));
                result
            }
        };
        // Refused operations change nothing: the model test has them.
        drop(result);
        self.names.push((self.power.operations(), names));
    }

    /// Compares what a cut has left with what was promised.
    fn check(&self, cut: u64, left: &MemoryStore) {
        let found: BTreeMap<Place, NodeId> = (0..DIRECTORIES)
            .flat_map(|directory| (b'a'..b'd').map(move |name| (directory, name)))
            .filter_map(|place| Some((place, left.lookup(self.directories[place.0], &[place.1]).ok()?.id)))
            .collect();
        let values = |place: Place, from: u64| -> BTreeSet<Option<NodeId>> {
            let at_first = self.names.iter().rev().find(|(number, _)| *number <= from);
            let later = self.names.iter().filter(|(number, _)| (from + 1..=cut).contains(number));
            at_first.into_iter().chain(later).map(|(_, names)| names.get(&place).copied()).collect()
        };
        for directory in 0..DIRECTORIES {
            let last = self.synced.iter().rev().find(|(number, synced)| *number < cut && *synced == directory);
            for place in (b'a'..b'd').map(|name| (directory, name)) {
                let possible = values(place, last.map_or(0, |last| last.0));
                assert!(possible.contains(&found.get(&place).copied()), "cut {cut}: {place:?} is {found:?}");
            }
        }
        for (&id, (stored, synced)) in &self.maps {
            let has_name = found.values().any(|&named| named == id);
            if has_name {
                let last = synced.iter().rev().find(|number| **number < cut).copied().unwrap_or(0);
                let least = stored.iter().rev().find(|number| **number <= last).copied().unwrap_or(0);
                let map = left.load_map(id).unwrap().map_or(0, |map| u64::from_le_bytes(map.try_into().unwrap()));
                assert!(map == 0 || stored.contains(&map), "cut {cut}: a map that never was");
                assert!((least..=cut).contains(&map), "cut {cut}: map {map} of {id}, and {least} was synced");
            }
            // A file that had a durable name, and one or another ever since, has one.
            let named = |names: &BTreeMap<Place, NodeId>| names.values().any(|&named| named == id);
            let durable = self.synced.iter().find(|(number, directory)| {
                let names = &self.names.iter().rev().find(|(at, _)| at <= number).unwrap().1;
                *number < cut && names.iter().any(|(place, named)| place.0 == *directory && *named == id)
            });
            if let Some((from, _)) = durable {
                let ever_since = self.names.iter().filter(|(number, _)| (*from..=cut).contains(number));
                assert!(has_name || !ever_since.into_iter().all(|(_, names)| named(names)), "cut {cut}: {id} is lost");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_cut_takes_nothing_that_was_promised(ops in prop::collection::vec(op(), 0..60), seed in any::<u64>()) {
        let mut books = Books::new();
        let first = books.power.operations() + 1;
        ops.iter().for_each(|op| books.run(op));
        for cut in first..=books.power.operations() + 1 {
            for loss in [StoreLoss::Latest, StoreLoss::Any] {
                books.check(cut, &books.store.survivor(cut, loss, seed, Arc::new(Power::new())));
            }
        }
    }
}

#[test]
fn a_synced_file_without_a_synced_name_may_be_lost() {
    let mut books = Books::new();
    [
        Op::Make((0, b'a')),
        Op::Store((0, b'a')),
        Op::SyncDir(0),
        Op::Make((0, b'b')),
        Op::Store((0, b'b')),
        Op::Sync((0, b'b')),
    ]
    .iter()
    .for_each(|op| books.run(op));
    let cut = books.power.operations() + 1;
    let left: Vec<MemoryStore> =
        (0..50).map(|seed| books.store.survivor(cut, StoreLoss::Any, seed, Arc::new(Power::new()))).collect();
    let has = |store: &MemoryStore, name: &[u8]| store.lookup(store.root(), name).ok().map(|attr| attr.id);
    let map = |store: &MemoryStore, name| store.load_map(has(store, name)?).unwrap();
    assert!(left.iter().all(|store| has(store, b"a").is_some()));
    assert!(left.iter().any(|store| map(store, b"a").is_none()) && left.iter().any(|store| map(store, b"a").is_some()));
    assert!(left.iter().any(|store| has(store, b"b").is_none()) && left.iter().any(|store| has(store, b"b").is_some()));
    assert!(left.iter().filter(|store| has(store, b"b").is_some()).all(|store| map(store, b"b").is_some()));
}

#[test]
fn a_part_is_whole_once_it_is_synced_and_may_be_torn_before() {
    let power = Arc::new(Power::new());
    let store = MemoryStore::on_power(Limits::EXT4, Arc::new(Time::default), power.clone());
    store.store_spill(7, &[1; 100]).unwrap();
    let lengths = |cut| -> BTreeSet<Option<usize>> {
        let left = (0..100).map(|seed| store.survivor(cut, StoreLoss::Any, seed, Arc::new(Power::new())));
        left.map(|left| left.load_spill(7).ok().map(|part| part.len())).collect()
    };
    let before = lengths(power.operations() + 1);
    assert!(before.contains(&None) && before.len() > 5);
    store.sync_spill(7).unwrap();
    assert_eq!(lengths(power.operations() + 1), BTreeSet::from([Some(100)]));
    assert_eq!(lengths(power.operations()), before, "the recording still knows the cut before");
}
