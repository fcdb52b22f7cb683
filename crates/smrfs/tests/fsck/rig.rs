//! A file system made by hand, with maps to damage and a disk that may not read everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use smrkit::tally::Cause;

use smrfs::data::{Data, ReadBuffer};
use smrfs::device::stacked;
use smrfs::device::strict::StrictAppend;
use smrfs::device::{Bands, HostManaged, Model, Shape};
use smrfs::error::{DeviceError, DeviceResult};
use smrfs::fsck::report::Report;
use smrfs::fsck::{FsckOptions, check};
use smrfs::map::{self, FileMap, Head, Stored};
use smrfs::meta::memory::{Limits, MemoryStore};
use smrfs::meta::{Kind, Maps, Names, NewNode, Time};
use smrfs::space::bands::BandSpace;
use smrfs::space::bands::BandsOptions;
use smrfs::space::caveat::{Caveat, CaveatOptions};
use smrfs::space::{Counts, Space};
use smrfs::testing::memory::Memory;
use smrfs::testing::memory::Power;
use smrfs::testing::shingled::{Shingled, WriteHistory};
use smrfs::units::{Granule, NodeId, Owner, Span};

/// Name of the saved free map.
pub const STATE: &str = "free-map";

pub fn shape(model: Model) -> Shape {
    let bands = match model {
        Model::StrictAppend => Bands { count: 8, granules: 30, gap_granules: 2, max_open: 8 },
        Model::Caveat => Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 },
    };
    Shape { model, granule_bytes: 512, granules: 260, did: 2, dpid: 1, bands }
}

/// A disk, a store, and the maps that were put there.
pub struct Fixture {
    pub device: Bad,
    pub store: MemoryStore,
    pub maps: BTreeMap<NodeId, FileMap>,
    pub next_part: u64,
}

impl Fixture {
    /// A file system with nothing wrong; band n is written up to 4 granules from its end.
    pub fn new(model: Model, files: u64, random: &mut Pcg64Mcg) -> Fixture {
        let shape = shape(model);
        let limits = Limits { map_bytes: 160, ..Limits::EXT4 };
        let store = MemoryStore::new(limits, Arc::new(Time::default));
        let mut fixture = Fixture { device: Bad::new(shape), store, maps: BTreeMap::new(), next_part: 1 };
        let bytes = vec![7; 26 * 512];
        for band in 0..8 {
            fixture.device.write(Span::new(band * 32, 26).at, Data::Bytes(&bytes), Cause::Host).unwrap();
        }
        for file in 0..files {
            let new = NewNode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0 };
            let name = format!("file {file}");
            let id = fixture.store.make(fixture.store.root(), name.as_bytes(), &new).unwrap().id;
            fixture.maps.insert(id, FileMap::default());
        }
        let ids: Vec<NodeId> = fixture.maps.keys().copied().collect();
        for at in (0..256).filter(|at| at % 32 < 26 && at % 3 > 0) {
            let map = fixture.maps.get_mut(&ids[random.random_range(0..ids.len())]).unwrap();
            map.insert(random.random_range(0..3) + map.end(), Span::new(at, 1));
        }
        for (id, map) in fixture.maps.clone() {
            fixture.store_map(id, map, |_| {});
        }
        fixture
    }

    pub fn store_map(&mut self, id: NodeId, mut map: FileMap, change: impl FnOnce(&mut Head)) {
        let seconds = id.0 as i64;
        let ctime = Time { seconds, nanoseconds: 0 };
        let mut head = Head { size: map.end() * 512, mtime: ctime, ctime, promised: 3, shares: false };
        change(&mut head);
        let mut number = || {
            self.next_part += 1;
            self.next_part
        };
        let plan = Stored::new().plan(&mut map, &head, self.store.map_bytes_max(), &mut number);
        for (number, part) in &plan.parts {
            self.store.store_spill(*number, part).unwrap();
        }
        self.store.store_map(id, &plan.record).unwrap();
        for part in self.store.spills().unwrap() {
            if !self.named().contains(&part) {
                self.store.remove_spill(part).unwrap();
            }
        }
    }

    /// Counts that a mount would come to.
    pub fn counts_of_a_mount(&self) -> Counts {
        let shape = self.device.shape();
        let mut space: Box<dyn Space> = match shape.model {
            Model::StrictAppend => Box::new(BandSpace::new(shape, BandsOptions::default()).unwrap()),
            Model::Caveat => Box::new(Caveat::new(shape, CaveatOptions::default()).unwrap()),
        };
        for &file in self.maps.keys() {
            for piece in self.stored(file).extents_from(0).filter(|piece| piece.at.is_some()) {
                assert!(space.adopt(piece.span().unwrap(), Owner { file, granule: piece.first }));
            }
        }
        space.start(&self.device.report(0, shape.bands.count).unwrap());
        space.counts()
    }

    pub fn named(&self) -> Vec<u64> {
        let mut named = Vec::new();
        self.store
            .scan(&mut |_, record| {
                let record = record.unwrap_or_default();
                named.extend(map::part_numbers(&record, |part| self.store.load_spill(part)).unwrap_or_default());
                Ok(())
            })
            .unwrap();
        named
    }

    pub fn check(&self, repair: bool) -> Report {
        check(&self.device, &self.store, &FsckOptions { repair, read_all: true, ..FsckOptions::default() }).unwrap()
    }

    pub fn stored(&self, id: NodeId) -> FileMap {
        let record = self.store.load_map(id).unwrap().unwrap();
        map::decode(&record, |part| self.store.load_spill(part)).unwrap().map
    }

    /// Everything that a repair might change.
    pub fn dump(&self) -> Vec<(u64, Option<Vec<u8>>)> {
        let mut all = vec![(0, self.store.load_state(STATE).unwrap())];
        let parts = self.store.spills().unwrap();
        all.extend(parts.into_iter().map(|part| (part, Some(self.store.load_spill(part).unwrap()))));
        let visit = &mut |id: NodeId, record| {
            all.push((id.0, record));
            Ok(())
        };
        self.store.scan(visit).unwrap();
        all
    }

    pub fn file(&self, number: usize) -> NodeId {
        *self.maps.keys().nth(number).unwrap()
    }

    /// Puts one more extent behind a file's end, wherever that is on the disk.
    pub fn extend(&mut self, id: NodeId, span: Span) {
        let mut map = self.stored(id);
        map.insert(map.end() + 1, span);
        self.store_map(id, map, |_| {});
    }

    /// Damages the file system in one of many ways; tells which file, if only one is concerned.
    pub fn damage(&mut self, how: u32, random: &mut Pcg64Mcg) {
        let id = self.file(random.random_range(0..self.maps.len()));
        let readable = self
            .store
            .load_map(id)
            .unwrap()
            .is_some_and(|record| map::decode(&record, |part| self.store.load_spill(part)).is_ok());
        match how {
            0 if readable => self.extend(id, Span::new(random.random_range(0..20), 6)),
            1 if readable => self.extend(id, Span::new(random.random_range(250..1000), 20)),
            2 if readable => self.extend(id, Span::new(32 * random.random_range(0..7) + 24, 10)),
            3 => {
                let mut record = self.store.load_map(id).unwrap().unwrap();
                let at = random.random_range(0..record.len());
                record[at] ^= 1 << random.random_range(0..8);
                self.store.store_map(id, &record).unwrap();
            }
            4 => {
                if let Some(part) = self.store.spills().unwrap().first() {
                    self.store.remove_spill(*part).unwrap();
                }
            }
            5 => self.store.store_spill(random.random_range(1000..2000), b"nothing").unwrap(),
            6 if readable => self.store_map(id, self.stored(id), |head| head.size = u64::MAX),
            7 if readable => self.store_map(id, self.stored(id), |head| head.promised = 1 << 50),
            8 => self.store.store_state(STATE, b"bad").unwrap(),
            9 => drop(self.device.granules.lock().unwrap().insert(random.random_range(0..8) * 32 + 1)),
            _ => {}
        }
    }
}

/// A disk that does not read some granules.
pub struct Bad {
    pub disk: Arc<dyn HostManaged>,
    pub granules: Mutex<BTreeSet<u64>>,
}

impl Bad {
    pub fn new(shape: Shape) -> Bad {
        let memory = Arc::new(Memory::new(&shape, Arc::new(Power::new())));
        let disk: Arc<dyn HostManaged> = match shape.model {
            Model::StrictAppend => Arc::new(StrictAppend::new(memory, shape, &[]).unwrap()),
            Model::Caveat => Arc::new(Shingled::new(memory, shape, WriteHistory::Blank).unwrap()),
        };
        Bad { disk, granules: Mutex::default() }
    }
}

impl stacked::Stacked for Bad {
    type Below = dyn HostManaged;

    fn below(&self) -> &Self::Below {
        &*self.disk
    }

    fn read(&self, at: Granule, room: ReadBuffer<'_>, cause: Cause) -> DeviceResult {
        let end = at.0 + room.bytes() / self.below().shape().granule_bytes;
        match self.granules.lock().unwrap().range(at.0..end).next() {
            Some(&bad) => Err(DeviceError::Damaged { at: Granule(bad), by: Granule(bad + 1) }),
            None => self.below().read(at, room, cause),
        }
    }
}
