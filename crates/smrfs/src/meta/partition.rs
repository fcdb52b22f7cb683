//! The unshingled partition of a simulated drive: a store that charges the drive's time for its journal.
//!
//! It has what a simulated workload asks for: files in directories, their maps, and states. It has no links, renames or users' attributes
//! (EOPNOTSUPP), and a file is gone with its name. Reads cost nothing, because they are assumed to hit the host's cache, as in the runs of
//! Kadekodi et al. 2015.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use smrkit::units::Nanos;

use super::{Attr, Attributes, Durability, Entry, Kind, Maps, Names, NewNode, RenameMode, SetAttr, StoreRoom, Time};
use crate::device::HostManaged;
use crate::error::{Errno, FsResult};
use crate::units::NodeId;

/// Costs of the unshingled partition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// A seek between the partitions.
    pub seek_ns: u64,
    /// Half a rotation.
    pub half_rotation_ns: u64,
    /// Writing one block of 4 KiB.
    pub block_ns: u64,
}

impl Costs {
    /// A commit of `blocks` journal blocks: a seek, half a rotation and the blocks, then half a rotation and the commit record, to which no
    /// seek is needed. The figures that go in are assumptions about an ordinary drive.
    pub fn commit_ns(&self, blocks: u64) -> u64 {
        self.seek_ns + 2 * self.half_rotation_ns + (blocks + 1) * self.block_ns
    }
}

/// The longest map that a store on ext4 has room for: one block of 4 KiB holds all attributes of a node, and users' take the other half.
const MAP_BYTES: usize = 2000;
const ROOT: NodeId = NodeId(1);

/// The store on the partition, with the drive whose time it charges.
pub struct SimulatedPartition {
    device: Arc<dyn HostManaged>,
    costs: Costs,
    contents: Mutex<Contents>,
}

struct Contents {
    /// Attributes and map of each node, by its number.
    nodes: BTreeMap<NodeId, (Attr, Option<Vec<u8>>)>,
    names: BTreeMap<(NodeId, Vec<u8>), NodeId>,
    parts: BTreeMap<u64, Vec<u8>>,
    states: BTreeMap<String, Vec<u8>>,
    next_node: NodeId,
    /// Journal blocks of the changes since the last commit.
    changed_blocks: u64,
}

impl SimulatedPartition {
    /// An empty store that charges `costs` to the clock of `device`.
    pub fn new(device: Arc<dyn HostManaged>, costs: Costs) -> SimulatedPartition {
        let root = Attr { id: ROOT, kind: Kind::Directory, mode: 0o755, links: 2, ..Attr::default() };
        let contents = Contents {
            nodes: BTreeMap::from([(ROOT, (root, None))]),
            names: BTreeMap::new(),
            parts: BTreeMap::new(),
            states: BTreeMap::new(),
            next_node: NodeId(ROOT.0 + 1),
            changed_blocks: 0,
        };
        SimulatedPartition { device, costs, contents: Mutex::new(contents) }
    }

    /// Makes a change with `bytes` of content: a journal block for the node, and the blocks that the content fills.
    fn change<T>(&self, bytes: usize, change: impl FnOnce(&mut Contents) -> T) -> T {
        let mut contents = self.contents.lock();
        contents.changed_blocks += 1 + bytes as u64 / 4096;
        change(&mut contents)
    }

    /// Commits the journal. Whatever is to be synced, a journal commits all changes. Without any it does nothing.
    fn commit(&self) -> FsResult {
        let blocks = std::mem::take(&mut self.contents.lock().changed_blocks);
        if blocks > 0 {
            self.device.wait_until(Nanos(self.device.now().0 + self.costs.commit_ns(blocks)));
        }
        Ok(())
    }
}

fn unsupported<T>() -> FsResult<T> {
    Err(Errno::EOPNOTSUPP.into())
}

impl Names for SimulatedPartition {
    fn root(&self) -> NodeId {
        ROOT
    }

    fn lookup(&self, parent: NodeId, name: &[u8]) -> FsResult<Attr> {
        let contents = self.contents.lock();
        let id = contents.names.get(&(parent, name.to_vec())).ok_or(Errno::ENOENT)?;
        Ok(contents.nodes[id].0)
    }

    fn forget(&self, _id: NodeId, _count: u64) {}

    fn make(&self, parent: NodeId, name: &[u8], new: &NewNode) -> FsResult<Attr> {
        let now = self.now();
        self.change(0, |contents| {
            let name = (parent, name.to_vec());
            if contents.names.contains_key(&name) {
                return Err(Errno::EEXIST.into());
            }
            let id = contents.next_node;
            contents.next_node.0 += 1;
            let &NewNode { kind, mode, uid, gid, rdev } = new;
            let times = Attr { atime: now, mtime: now, ctime: now, ..Attr::default() };
            let attr = Attr { id, kind, mode, links: 1, uid, gid, rdev, ..times };
            contents.nodes.insert(id, (attr, None));
            contents.names.insert(name, id);
            Ok(attr)
        })
    }

    fn make_link(&self, _parent: NodeId, _name: &[u8], _target: &[u8], _uid: u32, _gid: u32) -> FsResult<Attr> {
        unsupported()
    }

    fn read_link(&self, _id: NodeId) -> FsResult<Vec<u8>> {
        unsupported()
    }

    fn link(&self, _id: NodeId, _parent: NodeId, _name: &[u8]) -> FsResult<Attr> {
        unsupported()
    }

    fn unlink(&self, parent: NodeId, name: &[u8]) -> FsResult {
        self.change(0, |contents| {
            let id = contents.names.remove(&(parent, name.to_vec())).ok_or(Errno::ENOENT)?;
            contents.nodes.remove(&id);
            Ok(())
        })
    }

    fn remove_dir(&self, _parent: NodeId, _name: &[u8]) -> FsResult {
        unsupported()
    }

    fn rename(&self, _from: (NodeId, &[u8]), _to: (NodeId, &[u8]), _mode: RenameMode) -> FsResult {
        unsupported()
    }

    fn list(&self, _id: NodeId, _from: u64) -> FsResult<Vec<Entry>> {
        unsupported()
    }
}

impl Attributes for SimulatedPartition {
    fn attributes(&self, id: NodeId) -> FsResult<Attr> {
        Ok(self.contents.lock().nodes.get(&id).ok_or(Errno::ENOENT)?.0)
    }

    fn set_attributes(&self, _id: NodeId, _set: &SetAttr) -> FsResult<Attr> {
        unsupported()
    }

    fn attribute(&self, _id: NodeId, _name: &[u8]) -> FsResult<Vec<u8>> {
        unsupported()
    }

    fn attribute_names(&self, _id: NodeId) -> FsResult<Vec<Vec<u8>>> {
        unsupported()
    }

    fn set_attribute(&self, _id: NodeId, _name: &[u8], _value: &[u8], _create: bool, _replace: bool) -> FsResult {
        unsupported()
    }

    fn remove_attribute(&self, _id: NodeId, _name: &[u8]) -> FsResult {
        unsupported()
    }

    fn now(&self) -> Time {
        let now = self.device.now().0;
        Time { seconds: (now / 1_000_000_000) as i64, nanoseconds: (now % 1_000_000_000) as u32 }
    }
}

impl Maps for SimulatedPartition {
    fn load_map(&self, id: NodeId) -> FsResult<Option<Vec<u8>>> {
        Ok(self.contents.lock().nodes.get(&id).ok_or(Errno::ENOENT)?.1.clone())
    }

    fn store_map(&self, id: NodeId, map: &[u8]) -> FsResult {
        self.change(map.len(), |contents| {
            contents.nodes.get_mut(&id).ok_or(Errno::ENOENT)?.1 = Some(map.to_vec());
            Ok(())
        })
    }

    fn map_bytes_max(&self) -> usize {
        MAP_BYTES
    }

    fn store_spill(&self, number: u64, part: &[u8]) -> FsResult {
        self.change(part.len(), |contents| drop(contents.parts.insert(number, part.to_vec())));
        Ok(())
    }

    fn load_spill(&self, number: u64) -> FsResult<Vec<u8>> {
        Ok(self.contents.lock().parts.get(&number).ok_or(Errno::ENOENT)?.clone())
    }

    fn remove_spill(&self, number: u64) -> FsResult {
        self.change(0, |contents| contents.parts.remove(&number)).ok_or(Errno::ENOENT)?;
        Ok(())
    }

    fn spills(&self) -> FsResult<Vec<u64>> {
        Ok(self.contents.lock().parts.keys().copied().collect())
    }

    fn load_state(&self, name: &str) -> FsResult<Option<Vec<u8>>> {
        Ok(self.contents.lock().states.get(name).cloned())
    }

    fn store_state(&self, name: &str, bytes: &[u8]) -> FsResult {
        self.change(bytes.len(), |contents| drop(contents.states.insert(name.into(), bytes.to_vec())));
        self.commit()
    }

    fn remove_state(&self, name: &str) -> FsResult {
        self.change(0, |contents| drop(contents.states.remove(name)));
        self.commit()
    }

    fn scan(&self, visit: &mut dyn FnMut(NodeId, Option<Vec<u8>>) -> FsResult) -> FsResult {
        let nodes = self.contents.lock().nodes.clone();
        nodes.into_iter().filter(|(_, (attr, _))| attr.kind == Kind::File).try_for_each(|(id, (_, map))| visit(id, map))
    }
}

impl Durability for SimulatedPartition {
    fn sync_spill(&self, _number: u64) -> FsResult {
        self.commit()
    }

    fn sync(&self, _id: NodeId) -> FsResult {
        self.commit()
    }

    fn sync_dir(&self, _id: NodeId) -> FsResult {
        self.commit()
    }

    fn sync_all(&self) -> FsResult {
        self.commit()
    }

    fn room(&self) -> FsResult<StoreRoom> {
        Ok(StoreRoom { nodes: 1 << 32, free_nodes: 1 << 32, free_bytes: u64::MAX >> 1, name_bytes: 255 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Bands, Model, Shape};
    use crate::meta::MetadataStore;
    use crate::meta::memory::{Limits, MemoryStore};
    use crate::testing::memory::{Memory, Power};
    use crate::testing::shingled::{Shingled, WriteHistory};

    const COSTS: Costs = Costs { seek_ns: 1000, half_rotation_ns: 100, block_ns: 1 };
    const FILE: NewNode = NewNode { kind: Kind::File, mode: 0o644, uid: 3, gid: 4, rdev: 0 };

    fn disk() -> Arc<dyn HostManaged> {
        let bands = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
        let shape = Shape { model: Model::Caveat, granule_bytes: 4096, granules: 64, did: 1, dpid: 1, bands };
        let memory = Arc::new(Memory::new(&shape, Arc::new(Power::new())));
        Arc::new(Shingled::new(memory, shape, WriteHistory::Blank).unwrap())
    }

    #[test]
    fn calls_answer_as_on_a_complete_store() {
        let partition = Arc::new(SimulatedPartition::new(disk(), COSTS));
        let clock = partition.clone();
        let complete = MemoryStore::new(Limits::EXT4, Arc::new(move || clock.now()));
        let find = |s: &dyn MetadataStore, name: &[u8]| s.lookup(s.root(), name).unwrap().id;
        let folder = NewNode { kind: Kind::Directory, ..FILE };
        let gone = |s: &dyn MetadataStore, name: &[u8]| s.lookup(s.root(), name).map_err(|error| error.errno());
        type Call<'a> = &'a dyn Fn(&dyn MetadataStore) -> String;
        let calls: [Call<'_>; 26] = [
            &|s| format!("{:?} {} {:?}", s.root(), s.map_bytes_max(), s.load_state("state")),
            &|s| format!("{:?}", s.remove_state("state")),
            &|s| format!("{:?}", s.make(s.root(), b"d", &folder).unwrap().id),
            &|s| format!("{:?}", s.make(find(s, b"d"), b"f", &FILE)),
            &|s| format!("{:?}", s.make(s.root(), b"f", &FILE)),
            &|s| format!("{:?}", s.make(s.root(), b"f", &FILE).unwrap_err().errno()),
            &|s| format!("{:?}", gone(s, b"none")),
            &|s| format!("{:?}", s.attributes(find(s, b"f"))),
            &|s| format!("{:?}", s.load_map(find(s, b"f"))),
            &|s| format!("{:?}", s.store_map(find(s, b"f"), &[1; 1900])),
            &|s| format!("{:?}", s.load_map(find(s, b"f"))),
            &|s| format!("{:?} {:?}", s.sync(find(s, b"f")), s.now()),
            &|s| format!("{:?}", s.sync_all()),
            &|s| format!("{:?}", s.store_spill(9, &[2; 5000])),
            &|s| format!("{:?}", s.store_spill(8, &[2; 50])),
            &|s| format!("{:?} {:?}", s.load_spill(9).unwrap().len(), s.spills()),
            &|s| format!("{:?}", s.sync_spill(9)),
            &|s| format!("{:?}", s.remove_spill(8)),
            &|s| format!("{:?} {:?}", s.spills(), s.load_spill(8).unwrap_err().errno()),
            &|s| format!("{:?}", s.sync_dir(s.root())),
            &|s| format!("{:?}", s.store_state("state", &[3; 9000])),
            &|s| format!("{:?}", s.load_state("state").unwrap().unwrap().len()),
            &|s| {
                let mut found = Vec::new();
                let scanned = s.scan(&mut |id, map| {
                    found.push((id, map.map(|map| map.len())));
                    Ok(())
                });
                format!("{scanned:?} {found:?}")
            },
            &|s| format!("{:?}", s.unlink(s.root(), b"f")),
            &|s| format!("{:?} {:?}", gone(s, b"f"), s.unlink(s.root(), b"f").unwrap_err().errno()),
            &|s| format!("{:?} {:?}", s.sync_all(), s.now()),
        ];
        for (number, call) in calls.into_iter().enumerate() {
            // The partition first, because the other store shows its time.
            assert_eq!(call(&*partition), call(&complete), "call {number}");
        }
    }

    #[test]
    fn a_sync_commits_all_changes_and_costs_nothing_without_any() {
        let device = disk();
        let store = SimulatedPartition::new(device.clone(), COSTS);
        let took = |act: &dyn Fn()| {
            let begin = device.now();
            act();
            device.now().0 - begin.0
        };
        let commit = |blocks: u64| 1000 + 2 * 100 + blocks + 1;
        let id = store.make(store.root(), b"f", &FILE).unwrap().id;
        assert_eq!(took(&|| store.store_map(id, &[0; 9000]).unwrap()), 0);
        assert_eq!(took(&|| store.sync(id).unwrap()), commit(1 + 3));
        assert_eq!(took(&|| store.sync_all().unwrap()), 0);
        assert_eq!(took(&|| store.store_state("state", &[0; 5000]).unwrap()), commit(2));
        assert_eq!(took(&|| store.store_spill(9, &[0; 50]).unwrap()), 0);
        assert_eq!(took(&|| store.remove_spill(9).unwrap()), 0);
        assert_eq!(took(&|| store.sync_spill(8).unwrap()), commit(2));
        assert_eq!(took(&|| store.unlink(store.root(), b"f").unwrap()), 0);
        assert_eq!(took(&|| store.sync_dir(store.root()).unwrap()), commit(1));
    }
}
