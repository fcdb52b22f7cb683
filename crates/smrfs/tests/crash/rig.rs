//! A disk and a store in memory on one power supply, and what is left of them after it has failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use smrfs::device::caveat::{CaveatScriptor, WriteHistory};
use smrfs::device::memory::{Memory, WriteLoss as DiskLoss};
use smrfs::device::strict::StrictAppend;
use smrfs::device::{Bands, Model, Shape};
use smrfs::error::FsResult;
use smrfs::fs::{FileSystem, FsOptions};
use smrfs::map;
use smrfs::meta::memory::{Limits, MemoryStore, StoreLoss};
use smrfs::meta::{MetadataStore, Time};
use smrfs::power::Power;
use smrfs::safety::checker::Order;
use smrfs::space::Space;
use smrfs::space::bands::BandSpace;
use smrfs::space::bands::options::BandsOptions;
use smrfs::space::caveat::Caveat;
use smrfs::space::caveat::options::CaveatOptions;
use smrfs::units::Span;

use crate::watch::{Watch, watched};

/// Bytes of a granule in these tests.
pub const GRANULE: u64 = 512;

/// Granules of a block.
const BLOCK: u64 = 4;

/// Disk and store, and how to mount them.
pub struct Rig {
    pub power: Arc<Power>,
    pub memory: Arc<Memory>,
    pub store: Arc<MemoryStore>,
    shape: Shape,
    /// True if nothing was ever written.
    new: bool,
}

/// A mounted file system and the eyes of its checker.
pub struct Mounted {
    pub fs: FileSystem,
    /// Granules in maps before the mount.
    pub mapped: u64,
    /// Granules that records promised before the mount.
    pub promised: u64,
    watch: Arc<dyn Watch>,
}

impl Mounted {
    /// The law has been kept.
    pub fn check(&self) {
        assert_eq!(self.watch.first_violation(), None);
    }
}

impl Rig {
    /// A new disk of that model, of some hundred granules.
    pub fn new(model: Model) -> Rig {
        let (power, shape) = (Arc::new(Power::new()), shape(model));
        let now = AtomicI64::new(1);
        let clock = Arc::new(move || Time { seconds: now.fetch_add(1, Relaxed), nanoseconds: 0 });
        // Short records: maps of some five extents spill.
        let limits = Limits { map_bytes: 40, ..Limits::EXT4 };
        let store = Arc::new(MemoryStore::on_power(limits, clock, power.clone()));
        Rig { memory: Arc::new(Memory::recording(&shape, power.clone())), store, power, shape, new: true }
    }

    /// The remains if the power failed at operation `cut`; the run goes on with `power`.
    pub fn survivor(&self, cut: u64, losses: (DiskLoss, StoreLoss), seed: u64, power: Power) -> Rig {
        let power = Arc::new(power);
        let memory = self.memory.survivor(cut, losses.0, seed, power.clone(), true);
        let store = self.store.survivor(cut, losses.1, seed, power.clone());
        Rig { memory: Arc::new(memory), store: Arc::new(store), power, shape: self.shape, new: false }
    }

    /// Mounts. What the maps name may be read, and nothing else; of past writes nothing is known.
    pub fn mount(&self) -> FsResult<Mounted> {
        let (live, promised) = self.live()?;
        let mapped = live.iter().map(|span| span.count).sum();
        let (memory, shape) = (self.memory.clone(), self.shape);
        let (device, watch) = match shape.model {
            Model::StrictAppend => {
                let cursors = memory.cursors();
                watched(StrictAppend::new(memory, shape, &cursors).expect("a sound shape"))
            }
            Model::Caveat => {
                let past = if self.new { WriteHistory::Blank } else { WriteHistory::Unknown };
                watched(CaveatScriptor::new(memory, shape, past).expect("a sound shape"))
            }
        };
        watch.mounted(&live, Order::Forgotten)?;
        let options = FsOptions {
            block_granules: BLOCK,
            buffer_bytes: 12 * GRANULE,
            direct_bytes: 6 * GRANULE,
            cached_extents: 40,
            read_only: false,
        };
        let fs = FileSystem::mount(device, self.store.clone(), space(&self.shape), options)?;
        Ok(Mounted { fs, mapped, promised, watch })
    }

    /// Live spans by the durable maps, and their promises, by a scan of our own.
    fn live(&self) -> FsResult<(Vec<Span>, u64)> {
        let (mut live, mut promised) = (Vec::new(), 0);
        self.store.scan(&mut |_, record| {
            if let Some(record) = record {
                let decoded = map::decode(&record, |number| self.store.load_spill(number))?;
                promised += decoded.summary.head.promised;
                live.extend(decoded.map.extents_from(0).filter_map(|piece| piece.span()));
            }
            Ok(())
        })?;
        live.sort_unstable();
        Ok((live, promised))
    }
}

fn shape(model: Model) -> Shape {
    let shape = |granules, bands| Shape { model, granule_bytes: GRANULE, granules, did: 3, dpid: 2, bands };
    match model {
        Model::StrictAppend => {
            let bands = Bands { count: 14, granules: 16, gap_granules: 3, max_open: 5 };
            shape(14 * 19, bands)
        }
        Model::Caveat => shape(170, Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 }),
    }
}

fn space(shape: &Shape) -> Box<dyn Space> {
    match shape.model {
        Model::StrictAppend => {
            let options = BandsOptions { block_granules: BLOCK, event_granules: 32, ..BandsOptions::default() };
            Box::new(BandSpace::new(shape, options).expect("a sound shape"))
        }
        Model::Caveat => {
            let options = CaveatOptions { block_granules: BLOCK, ..CaveatOptions::default() };
            Box::new(Caveat::new(shape, options).expect("a sound shape"))
        }
    }
}
