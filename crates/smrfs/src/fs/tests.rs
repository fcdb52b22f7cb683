//! Requests of a file system to its disk, one by one: the same programs ask for the same reads, writes and flushes as ever.
//!
//! Contents are compared with bytes in memory. No program sees what is buffered, joined, read ahead or committed when: that is
//! summed up, and held here. A change on purpose writes the figures anew: they are what the test shows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrkit::tally::Cause;
use smrkit::units::Nanos;

use super::{Allocate, FileSystem, FsOptions, Seek};
use crate::data::{Data, ReadBuffer};
use crate::device::strict::StrictAppend;
use crate::device::{Bands, HostManaged, Model, Shape, stacked};
use crate::error::DeviceResult;
use crate::fsck::{FsckOptions, check};
use crate::meta::memory::{Limits, MemoryStore};
use crate::meta::{Kind, MetadataStore, NewNode, SetAttr, Time};
use crate::space::Space;
use crate::space::bands::BandSpace;
use crate::space::bands::BandsOptions;
use crate::space::caveat::{Caveat, CaveatOptions};
use crate::testing::memory::Memory;
use crate::testing::memory::Power;
use crate::testing::shingled::{Shingled, WriteHistory};
use crate::units::{Granule, HostJournal, NodeId, Span};

const GRANULE: u64 = 512;
const FILE: NewNode = NewNode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0 };
/// Files of lower numbers stay open, the others are opened for each act.
const KEPT_OPEN: u64 = 4;
const OPTIONS: FsOptions = FsOptions {
    block_granules: 8,
    buffer_bytes: 12 << 10,
    direct_bytes: 3 << 10,
    cached_extents: 12,
    read_only: false,
};

/// A disk that sums up what is asked of it.
struct Summing {
    below: Box<dyn HostManaged>,
    sum: AtomicU64,
    calls: AtomicU64,
    /// Bytes that its host has room for; 0: all of it.
    room: AtomicU64,
}

impl Summing {
    fn note(&self, numbers: &[u64]) {
        self.calls.fetch_add(1, Relaxed);
        for &number in numbers {
            self.sum.store((self.sum.load(Relaxed) ^ number).wrapping_mul(0x0100_0000_01b3), Relaxed);
        }
    }
}

impl stacked::Stacked for Summing {
    type Below = dyn HostManaged;

    fn below(&self) -> &Self::Below {
        &*self.below
    }

    fn read(&self, at: Granule, room: ReadBuffer<'_>, cause: Cause) -> DeviceResult {
        self.note(&[1, at.0, room.bytes(), cause as u64]);
        self.below.read(at, room, cause)
    }

    fn expect(&self, span: Span) {
        self.note(&[2, span.at.0, span.count]);
    }

    fn start_flush(&self) {
        self.note(&[8]);
    }

    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        self.note(&[3, at.0, data.bytes(), cause as u64]);
        self.below.write(at, data, cause)
    }

    fn reset(&self, band: u64) -> DeviceResult {
        self.note(&[4, band]);
        self.below.reset(band)
    }

    fn discard(&self, span: Span) {
        self.note(&[5, span.at.0, span.count]);
        self.below.discard(span);
    }

    fn reserve(&self, bytes: u64) -> DeviceResult {
        self.note(&[6, bytes]);
        Ok(())
    }

    fn room_bytes(&self) -> DeviceResult<Option<u64>> {
        Ok(Some(self.room.load(Relaxed)).filter(|&room| room > 0))
    }

    fn flush_with(&self, journal: Option<HostJournal>) -> DeviceResult {
        self.note(&[7]);
        self.below.flush_with(journal)
    }

    fn now(&self) -> Nanos {
        Nanos(self.calls.load(Relaxed) * 1000)
    }
}

/// A file system, and what is in its files.
struct Program {
    disk: Arc<Summing>,
    store: Arc<dyn MetadataStore>,
    fs: FileSystem,
    dice: Pcg64Mcg,
    files: BTreeMap<u64, (NodeId, Vec<u8>)>,
}

fn space(shape: &Shape) -> Box<dyn Space> {
    match shape.model {
        Model::StrictAppend => {
            let options = BandsOptions { block_granules: 8, event_granules: 64, ..BandsOptions::default() };
            Box::new(BandSpace::new(shape, options).unwrap())
        }
        Model::Caveat => {
            let options = CaveatOptions { block_granules: 8, ..CaveatOptions::default() };
            Box::new(Caveat::new(shape, options).unwrap())
        }
    }
}

impl Program {
    fn new(shape: Shape) -> Program {
        let memory = Arc::new(Memory::new(&shape, Arc::new(Power::new())));
        let below: Box<dyn HostManaged> = match shape.model {
            Model::StrictAppend => Box::new(StrictAppend::new(memory, shape, &[]).unwrap()),
            Model::Caveat => Box::new(Shingled::new(memory, shape, WriteHistory::Blank).unwrap()),
        };
        let disk =
            Arc::new(Summing { below, sum: AtomicU64::new(0), calls: AtomicU64::new(0), room: AtomicU64::new(0) });
        let now = AtomicI64::new(1);
        let clock = Arc::new(move || Time { seconds: now.fetch_add(1, Relaxed), nanoseconds: 0 });
        let limits = Limits { map_bytes: 300, attribute_bytes: 300, nodes: 1000 };
        let store: Arc<dyn MetadataStore> = Arc::new(MemoryStore::new(limits, clock));
        let fs = FileSystem::mount(disk.clone(), store.clone(), space(&shape), OPTIONS).unwrap();
        Program { disk, store, fs, dice: Pcg64Mcg::seed_from_u64(21), files: BTreeMap::new() }
    }

    fn remount(&mut self) {
        self.fs.unmount().unwrap();
        let shape = *HostManaged::shape(&*self.disk);
        self.fs = FileSystem::mount(self.disk.clone(), self.store.clone(), space(&shape), OPTIONS).unwrap();
        for (number, (id, _)) in &self.files {
            assert_eq!(self.fs.lookup(self.fs.root(), number.to_string().as_bytes()).unwrap().id, *id);
            if *number < KEPT_OPEN {
                self.fs.open(*id, true, false).unwrap();
            }
        }
    }

    /// The file of that number, which is made where there is none.
    fn file(&mut self, number: u64) -> NodeId {
        if let Some((id, _)) = self.files.get(&number) {
            return *id;
        }
        let id = self.fs.make(self.fs.root(), number.to_string().as_bytes(), &FILE).unwrap().id;
        if number < KEPT_OPEN {
            self.fs.open(id, true, false).unwrap();
        }
        self.files.insert(number, (id, Vec::new()));
        id
    }

    fn remove(&mut self, number: u64) {
        if let Some((id, _)) = self.files.remove(&number) {
            self.fs.unlink(self.fs.root(), number.to_string().as_bytes()).unwrap();
            self.fs.release(id, true).unwrap();
            self.fs.forget(id, 1);
        }
    }

    /// An offset and a length: of whole granules, or any.
    fn range(&mut self) -> (u64, u64) {
        let unit = [1, GRANULE, GRANULE][self.dice.random_range(0..3)];
        let most = [900, 3000, 9000][self.dice.random_range(0..3)] / unit;
        (self.dice.random_range(0..24_000 / unit) * unit, self.dice.random_range(1..=most.max(1)) * unit)
    }

    fn act(&mut self, step: u64) {
        let number = self.dice.random_range(0..8);
        let id = self.file(number);
        if number >= KEPT_OPEN {
            self.fs.open(id, true, false).unwrap();
        }
        let (offset, bytes) = self.range();
        let (from, to) = (offset as usize, (offset + bytes) as usize);
        let act = self.dice.random_range(0..40);
        let data = &mut self.files.get_mut(&number).unwrap().1;
        let end = data.len();
        match act {
            0..14 => {
                let at = if act < 4 { end } else { from };
                let written: Vec<u8> = (0..bytes).map(|i| (step * 7 + i / 100) as u8).collect();
                self.fs.write(id, at as u64, Data::Bytes(&written)).unwrap();
                data.resize(end.max(at + written.len()), 0);
                data[at..at + written.len()].copy_from_slice(&written);
            }
            14..22 => {
                let mut found = vec![1; bytes as usize];
                let count = self.fs.read(id, offset, ReadBuffer::Bytes(&mut found)).unwrap() as usize;
                assert_eq!(count, to.min(end).saturating_sub(from), "step {step}");
                assert!(found[..count] == data[from.min(end)..][..count], "step {step}");
            }
            22..24 => {
                self.fs.set_attributes(id, &SetAttr { size: Some(offset), ..SetAttr::default() }).unwrap();
                data.resize(from, 0);
            }
            24 => self.fs.allocate(id, Allocate::KeepSize, offset, bytes).unwrap(),
            25 => {
                self.fs.allocate(id, Allocate::Extend, offset, bytes).unwrap();
                data.resize(end.max(to), 0);
            }
            26 | 27 => {
                let how = if act == 26 { Allocate::Punch } else { Allocate::Zero(false) };
                self.fs.allocate(id, how, offset, bytes).unwrap();
                data[from.min(end)..to.min(end)].fill(0);
            }
            28 => {
                self.fs.allocate(id, Allocate::Zero(true), offset, bytes).unwrap();
                data.resize(end.max(to), 0);
                data[from..to].fill(0);
            }
            29..32 => {
                let found = [Seek::Data, Seek::Hole].map(|what| self.fs.seek(id, offset, what).unwrap_or(u64::MAX));
                self.disk.note(&[8, found[0], found[1]]);
            }
            32..34 => self.fs.sync(id).unwrap(),
            34 => self.fs.sync_all().unwrap(),
            35 => self.remove(number),
            36 => {
                self.fs.release(id, true).unwrap();
                self.fs.open(id, true, false).unwrap();
            }
            37 => drop(self.fs.defragment(id).unwrap()),
            _ => {
                for _ in 0..6 {
                    if !self.fs.background(act == 38).unwrap() {
                        break;
                    }
                }
            }
        }
        if number >= KEPT_OPEN && self.files.contains_key(&number) {
            self.fs.release(id, true).unwrap();
        }
        let (usage, statistics) = (self.fs.usage().unwrap(), self.fs.statistics());
        self.disk.note(&[9, usage.free, usage.live, usage.promised, usage.available(), usage.size()]);
        self.disk.note(&[statistics.buffered_bytes, statistics.dirty_files, statistics.commits, statistics.waited_ns]);
        self.disk.note(&[statistics.written_bytes, statistics.read_bytes, self.fs.files_in_memory() as u64]);
        if let Some((id, data)) = self.files.get(&number) {
            let attr = self.fs.attributes(*id).unwrap();
            assert_eq!(attr.size, data.len() as u64, "step {step}");
            self.disk.note(&[10, attr.blocks, attr.mtime.seconds as u64, attr.ctime.seconds as u64]);
        }
    }

    /// The sum, and some of the counts, of a long life.
    fn live_long(mut self, steps: u64) -> [u64; 8] {
        for step in 0..steps {
            self.act(step);
            if step % 300 == 299 {
                self.fs.check().unwrap();
                self.remount();
            }
        }
        let told = self.fs.statistics();
        self.fs.sync_all().unwrap();
        let report = check(&*self.disk, &*self.store, &FsckOptions::default()).unwrap();
        assert_eq!((report.found, report.files), (0, self.files.len() as u64));
        for (id, data) in self.files.values() {
            let mut found = vec![1; data.len()];
            self.fs.read(*id, 0, ReadBuffer::Bytes(&mut found)).unwrap();
            assert!(found == *data);
        }
        let [sum, calls] = [&self.disk.sum, &self.disk.calls].map(|number| number.load(Relaxed));
        let most = told.most_moved_for_one_write_bytes;
        [told.written_bytes, told.moved_bytes, told.resets, told.commits, told.stalls, most, calls, sum]
    }
}

#[test]
fn programs_ask_for_the_same_of_strict_append_as_ever() {
    let bands = Bands { count: 40, granules: 12, gap_granules: 2, max_open: 8 };
    let disk = Shape { model: Model::StrictAppend, granule_bytes: GRANULE, granules: 560, did: 2, dpid: 1, bands };
    assert_eq!(Program::new(disk).live_long(1000), [76_288, 7680, 14, 13, 2, 512, 6619, 17_667_006_190_555_457_313]);
}

#[test]
fn programs_ask_for_the_same_of_caveat_scriptor_as_ever() {
    let bands = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
    let disk = Shape { model: Model::Caveat, granule_bytes: GRANULE, granules: 700, did: 3, dpid: 1, bands };
    assert_eq!(Program::new(disk).live_long(1000), [77_312, 6144, 0, 8, 0, 512, 6079, 9_761_867_073_315_385_130]);
}

/// Two mebibytes of the host's room are kept for what it notes itself.
#[test]
fn what_the_host_has_no_room_for_is_not_available() {
    let bands = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
    let disk = Shape { model: Model::Caveat, granule_bytes: GRANULE, granules: 700, did: 3, dpid: 1, bands };
    let mut program = Program::new(disk);
    let room = |program: &Program, granules: u64, more: u64| {
        program.disk.room.store((2 << 20) + granules * GRANULE + more, Relaxed);
        let usage = program.fs.usage().unwrap();
        assert_eq!(usage.available(), usage.free - usage.beyond_host);
        (usage.free, usage.beyond_host)
    };
    let free = program.fs.usage().unwrap().free;
    assert_eq!(program.fs.usage().unwrap().beyond_host, 0, "it has all of its room");
    assert_eq!([room(&program, 100, 0), room(&program, 100, 511)], [(free, free - 100); 2]);
    assert_eq!([room(&program, free, 0), room(&program, free - 1, 511)], [(free, 0), (free, 1)]);
    assert_eq!(room(&program, 0, 0), (free, free));
    let id = program.file(1);
    program.disk.room.store(0, Relaxed);
    program.fs.write(id, 0, Data::Bytes(&[7; 10 * GRANULE as usize])).unwrap();
    program.fs.sync(id).unwrap();
    assert_eq!(room(&program, 100, 0), (free - 10, free - 100), "what lies there is in that room");
    program.disk.room.store(0, Relaxed);
    program.fs.write(id, 10 * GRANULE, Data::Bytes(&[7; 700])).unwrap();
    assert_eq!(program.fs.statistics().buffered_bytes, 2 * GRANULE);
    assert_eq!(room(&program, 102, 0), (free - 12, free - 102), "what is buffered is to come");
    assert_eq!(room(&program, 101, 511), (free - 12, free - 101));
}
