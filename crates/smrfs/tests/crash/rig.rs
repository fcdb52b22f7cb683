//! A disk and a store in memory on one power supply, and what is left of them after it has failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use smrfs::device::strict::StrictAppend;
use smrfs::device::zoned::{ZonedError, ZonedGeometry, Zones};
use smrfs::device::{Bands, HostManaged, Model, Shape};
use smrfs::error::{DeviceError, FsError, FsResult};
use smrfs::fs::{FileSystem, FsOptions};
use smrfs::map;
use smrfs::meta::memory::{Limits, MemoryStore, StoreLoss};
use smrfs::meta::{Maps, Time};
use smrfs::safety::counts::Order;
use smrfs::space::Space;
use smrfs::space::bands::BandSpace;
use smrfs::space::bands::BandsOptions;
use smrfs::space::caveat::{Caveat, CaveatOptions, Placement};
use smrfs::testing::memory::Power;
use smrfs::testing::memory::{Memory, WriteLoss as DiskLoss};
use smrfs::testing::shingled::{Shingled, WriteHistory};
use smrfs::units::Span;

use crate::watch::{Watch, watched};
use crate::zones::{Emulated, EmulatedZones};

/// Bytes of a granule in these tests.
pub const GRANULE: u64 = 512;

/// Granules of a block.
const BLOCK: u64 = 4;

/// Kind of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    StrictAppend,
    /// Strict-append on a zoned block device, whose blocks are a quarter of a granule.
    Zoned,
    Caveat,
}

impl Disk {
    pub const ALL: [Disk; 3] = [Disk::StrictAppend, Disk::Zoned, Disk::Caveat];
}

/// Holder of the data.
enum Beneath {
    Memory(Arc<Memory>),
    Zones(Arc<Emulated>),
}

/// Disk and store, and how to mount them.
pub struct Rig {
    pub power: Arc<Power>,
    beneath: Beneath,
    pub store: Arc<MemoryStore>,
    shape: Shape,
    /// The policy on Caveat-Scriptor.
    pub placement: Placement,
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
    zones: Option<Arc<Emulated>>,
}

impl Mounted {
    /// The law has been kept.
    pub fn check(&self) {
        assert_eq!(self.watch.first_violation(), None);
        assert_eq!(self.zones.as_ref().map_or(Vec::new(), |zones| zones.refused()), [""; 0]);
    }
}

impl Rig {
    /// A new disk of that kind, of some hundred granules; the store has a journal if `in_order`.
    pub fn new(disk: Disk, in_order: bool) -> Rig {
        Rig::on(disk, in_order, Power::new())
    }

    /// A new disk on that power supply.
    pub fn on(disk: Disk, in_order: bool, power: Power) -> Rig {
        let power = Arc::new(power);
        let (shape, beneath) = match disk {
            Disk::Zoned => {
                let device = Arc::new(Emulated::new(ZONES, power.clone()));
                let disk = Zones::format(device.clone(), GRANULE).expect("zones that fit");
                disk.flush().expect("a flush");
                (*disk.shape(), Beneath::Zones(device))
            }
            Disk::StrictAppend | Disk::Caveat => {
                let model = if disk == Disk::Caveat { Model::Caveat } else { Model::StrictAppend };
                let shape = shape(model);
                (shape, Beneath::Memory(Arc::new(Memory::recording(&shape, power.clone()))))
            }
        };
        let now = AtomicI64::new(1);
        let clock = Arc::new(move || Time { seconds: now.fetch_add(1, Relaxed), nanoseconds: 0 });
        // Short records: maps of some five extents spill.
        let limits = Limits { map_bytes: 40, ..Limits::EXT4 };
        let store = MemoryStore::on_power(limits, clock, power.clone());
        let store = Arc::new(if in_order { store.in_order() } else { store });
        Rig { beneath, store, power, shape, placement: Placement::Adjacent, new: true }
    }

    /// The remains if the power failed at operation `cut`; the run goes on with `power`.
    pub fn survivor(&self, cut: u64, losses: (DiskLoss, StoreLoss), seed: u64, power: Power) -> Rig {
        self.survivor_of_two(cut, cut, losses, seed, power)
    }

    /// As [`Rig::survivor`], with the disk and the store of two moments.
    pub fn survivor_of_two(
        &self,
        cut: u64,
        store_cut: u64,
        losses: (DiskLoss, StoreLoss),
        seed: u64,
        power: Power,
    ) -> Rig {
        let power = Arc::new(power);
        let store = self.store.survivor(store_cut, losses.1, seed, power.clone());
        let beneath = match &self.beneath {
            Beneath::Memory(memory) => {
                let left = memory.survivor_beside(cut, store.committed(), losses.0, seed, power.clone(), true);
                Beneath::Memory(Arc::new(left))
            }
            Beneath::Zones(zones) => Beneath::Zones(Arc::new(zones.survivor(cut, losses.0, seed, power.clone()))),
        };
        Rig { beneath, store: Arc::new(store), power, shape: self.shape, placement: self.placement, new: false }
    }

    /// Mounts. What the maps name may be read, and nothing else; of past writes nothing is known.
    pub fn mount(&self) -> FsResult<Mounted> {
        let (live, promised) = self.live()?;
        let mapped = live.iter().map(|span| span.count).sum();
        let shape = self.shape;
        let mut zones = None;
        let (device, watch) = match (&self.beneath, shape.model) {
            (Beneath::Zones(device), _) => {
                zones = Some(device.clone());
                watched(Zones::open(device.clone(), GRANULE, true).map_err(|error| match error {
                    ZonedError::Device(DeviceError::PowerCut) => FsError::PowerCut,
                    ZonedError::Device(error) => error.into(),
                    error => panic!("{error}"),
                })?)
            }
            (Beneath::Memory(memory), Model::StrictAppend) => {
                let cursors = memory.cursors();
                watched(StrictAppend::new(memory.clone(), shape, &cursors).expect("a sound shape"))
            }
            (Beneath::Memory(memory), Model::Caveat) => {
                let past = if self.new { WriteHistory::Blank } else { WriteHistory::Unknown };
                watched(Shingled::new(memory.clone(), shape, past).expect("a sound shape"))
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
        let fs = FileSystem::mount(device, self.store.clone(), space(&self.shape, self.placement), options)?;
        Ok(Mounted { fs, mapped, promised, watch, zones })
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
        // Files may share: whether these do, the mount looks at.
        live.dedup_by(|span, before| {
            let overlaps = span.at < before.end();
            before.count = before.count.max(if overlaps { span.end() - before.at } else { 0 });
            overlaps
        });
        Ok((live, promised))
    }
}

/// A table of cursors, two conventional bands and twelve sequential ones, without gaps.
const ZONES: EmulatedZones = EmulatedZones {
    geometry: ZonedGeometry {
        zones: 15,
        zone_bytes: 16 * GRANULE,
        block_bytes: GRANULE / 4,
        max_open: 0,
        max_active: 5,
    },
    conventional: 3,
    capacity_blocks: 4 * 16,
};

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

fn space(shape: &Shape, placement: Placement) -> Box<dyn Space> {
    match shape.model {
        Model::StrictAppend => {
            let options = BandsOptions { block_granules: BLOCK, event_granules: 32, ..BandsOptions::default() };
            Box::new(BandSpace::new(shape, options).expect("a sound shape"))
        }
        Model::Caveat => {
            let options = CaveatOptions { block_granules: BLOCK, placement, ..CaveatOptions::default() };
            Box::new(Caveat::new(shape, options).expect("a sound shape"))
        }
    }
}
