//! The store as the unshingled partition of a simulated drive: charges the time that [`Costs`] gives for each commit of its journal.

use std::sync::Arc;

use smrkit::units::Nanos;

use super::{Costs, Effect, MemoryStore, Recorder, Synced};
use crate::device::HostManaged;
use crate::error::FsResult;
use crate::units::NodeId;

struct Charged {
    device: Arc<dyn HostManaged>,
    costs: Costs,
    /// Changes since the last sync, one journal block each.
    changed_blocks: u64,
}

impl Charged {
    /// Commits the journal. Costs nothing if there are no changes.
    fn commit(&mut self) {
        let blocks = std::mem::take(&mut self.changed_blocks);
        if blocks > 0 {
            self.device.wait_until(Nanos(self.device.now().0 + self.costs.commit_ns(blocks)));
        }
    }
}

impl Recorder for Charged {
    fn begin(&mut self, bytes: usize) -> FsResult {
        self.changed_blocks += 1 + bytes as u64 / 4096;
        Ok(())
    }

    fn change(&mut self, effects: Vec<Effect>, _renamed: Vec<NodeId>, _emptied: Option<NodeId>) {
        if effects.iter().any(|effect| matches!(effect, Effect::State(..))) {
            self.commit();
        }
    }

    fn sync(&mut self, _what: Synced) -> FsResult {
        self.commit();
        Ok(())
    }
}

impl MemoryStore {
    /// The store, which charges `costs` to the clock of `device` from now on.
    pub fn charged(self, device: Arc<dyn HostManaged>, costs: Costs) -> MemoryStore {
        self.lock().recorder = Some(Box::new(Charged { device, costs, changed_blocks: 0 }));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Bands, Model, Shape};
    use crate::meta::memory::Limits;
    use crate::meta::{Attributes, Durability, Kind, Maps, MetadataStore, Names, NewNode, RenameMode, SetAttr, Time};
    use crate::testing::memory::Memory;
    use crate::testing::memory::Power;
    use crate::testing::shingled::{Shingled, WriteHistory};

    fn disk() -> Arc<Shingled<Memory>> {
        let bands = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
        let shape = Shape { model: Model::Caveat, granule_bytes: 4096, granules: 64, did: 1, dpid: 1, bands };
        let memory = Arc::new(Memory::new(&shape, Arc::new(Power::new())));
        Arc::new(Shingled::new(memory, shape, WriteHistory::Blank).unwrap())
    }

    #[test]
    fn a_sync_commits_the_journal_only_where_something_changed() {
        let device = disk();
        let store = MemoryStore::new(Limits::LARGE, Arc::new(Time::default));
        let costs = Costs { seek_ns: 1000, half_rotation_ns: 100, block_ns: 1 };
        let store = store.charged(device.clone(), costs);
        let took = |act: &dyn Fn()| {
            let begin = device.now();
            act();
            device.now().0 - begin.0
        };
        let new = NewNode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0 };
        let id = store.make(store.root(), b"f", &new).unwrap().id;
        assert_eq!(took(&|| store.store_map(id, &[0; 9000]).unwrap()), 0);
        assert_eq!(took(&|| store.sync(id).unwrap()), 1000 + 2 * 100 + (1 + 3) + 1);
        assert_eq!(took(&|| store.sync_all().unwrap()), 0);
        assert_eq!(took(&|| store.store_state("s", b"x").unwrap()), 1000 + 2 * 100 + 1 + 1);
    }

    /// Each call gives what a store gives that charges nothing, and leaves the expected number of blocks to be committed, or commits.
    #[test]
    fn every_call_is_charged_as_a_change_or_a_commit() {
        let device = disk();
        let plain = || {
            let ticks = std::sync::atomic::AtomicI64::new(7);
            let clock =
                move || Time { seconds: ticks.fetch_add(1, std::sync::atomic::Ordering::Relaxed), nanoseconds: 0 };
            MemoryStore::new(Limits::LARGE, Arc::new(clock))
        };
        let costs = Costs { seek_ns: 1000, half_rotation_ns: 100, block_ns: 1 };
        let (store, other) = (plain().charged(device.clone(), costs), plain());
        let new = NewNode { kind: Kind::File, mode: 0o644, uid: 3, gid: 4, rdev: 0 };
        let folder = NewNode { kind: Kind::Directory, ..new };
        let find = |store: &dyn MetadataStore, name: &[u8]| store.lookup(store.root(), name).unwrap().id;
        let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
        type Call<'a> = &'a dyn Fn(&dyn MetadataStore) -> String;
        // The blocks that wait after each, if nothing waited before; none where it commits.
        let calls: [(Option<u64>, Call<'_>); 35] = [
            (Some(0), &|s| format!("{:?} {:?} {:?}", s.root(), s.map_bytes_max(), s.room())),
            (Some(1), &|s| format!("{:?}", s.make(s.root(), b"f", &new))),
            (Some(1), &|s| format!("{:?}", s.make(s.root(), b"d", &folder))),
            (Some(1), &|s| format!("{:?}", s.make_link(s.root(), b"l", b"target", 5, 6))),
            (Some(0), &|s| format!("{:?}", s.lookup(s.root(), b"f"))),
            (Some(0), &|s| format!("{:?}", s.lookup(s.root(), b"none"))),
            (Some(0), &|s| format!("{:?}", s.read_link(find(s, b"l")))),
            (Some(1), &|s| format!("{:?}", s.link(find(s, b"f"), s.root(), b"g"))),
            (Some(1), &|s| format!("{:?}", s.set_attributes(find(s, b"f"), &set))),
            (Some(0), &|s| format!("{:?}", s.attributes(find(s, b"f")))),
            (Some(1), &|s| format!("{:?}", s.set_attribute(find(s, b"f"), b"user.a", &[7; 4095], false, false))),
            (Some(2), &|s| format!("{:?}", s.set_attribute(find(s, b"f"), b"user.b", &[7; 4096], true, false))),
            (Some(0), &|s| format!("{:?}", s.attribute(find(s, b"f"), b"user.a").map(|value| value.len()))),
            (Some(0), &|s| format!("{:?}", s.attribute_names(find(s, b"f")))),
            (Some(1), &|s| format!("{:?}", s.remove_attribute(find(s, b"f"), b"user.b"))),
            (Some(0), &|s| format!("{:?}", s.attribute_names(find(s, b"f")))),
            (Some(3), &|s| format!("{:?}", s.store_map(find(s, b"f"), &[1; 9000]))),
            (Some(0), &|s| format!("{:?}", s.load_map(find(s, b"f")).map(|map| map.map(|map| map.len())))),
            (Some(2), &|s| format!("{:?}", s.store_spill(9, &[2; 5000]))),
            (Some(1), &|s| format!("{:?}", s.store_spill(8, &[2; 50]))),
            (Some(0), &|s| format!("{:?}", s.load_spill(9).map(|part| part.len()))),
            (Some(1), &|s| format!("{:?}", s.remove_spill(8))),
            (Some(0), &|s| format!("{:?} {:?}", s.spills(), s.load_spill(8))),
            (None, &|s| format!("{:?}", s.sync_spill(9))),
            (None, &|s| format!("{:?}", s.store_state("state", b"bytes"))),
            (Some(0), &|s| format!("{:?}", s.load_state("state"))),
            (None, &|s| format!("{:?} {:?}", s.remove_state("state"), s.load_state("state"))),
            (Some(1), &|s| format!("{:?}", s.rename((s.root(), b"g"), (s.root(), b"h"), RenameMode::Replace))),
            (Some(0), &|s| format!("{:?}", s.list(s.root(), 0))),
            (None, &|s| format!("{:?}", s.sync(find(s, b"f")))),
            (Some(1), &|s| format!("{:?}", s.unlink(s.root(), b"h"))),
            (Some(1), &|s| format!("{:?}", s.remove_dir(s.root(), b"d"))),
            (None, &|s| format!("{:?} {:?}", s.sync_dir(s.root()), s.list(s.root(), 0))),
            (None, &|s| format!("{:?} {:?}", s.sync_all(), s.now())),
            (Some(0), &|s| {
                let mut found = Vec::new();
                let scanned = s.scan(&mut |id, map| {
                    found.push((id, map.map(|map| map.len())));
                    Ok(())
                });
                let id = find(s, b"f");
                s.forget(id, 100);
                format!("{scanned:?} {found:?}")
            }),
        ];
        for (number, (blocks, call)) in calls.into_iter().enumerate() {
            if blocks.is_none() {
                for one in [&store, &other] {
                    one.set_attributes(one.root(), &set).unwrap();
                }
            }
            let begin = device.now();
            assert_eq!(call(&store), call(&other), "call {number}");
            assert_eq!(device.now() > begin, blocks.is_none(), "call {number}");
            let begin = device.now().0;
            store.sync_all().unwrap();
            let waiting = blocks.filter(|&blocks| blocks > 0);
            assert_eq!(device.now().0 - begin, waiting.map_or(0, |blocks| 1201 + blocks), "call {number}");
        }
    }
}
