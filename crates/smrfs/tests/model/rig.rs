//! A file system on parts in memory, with a checker between it and the disk, that can be mounted again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use smrfs::device::strict::StrictAppend;
use smrfs::device::{Bands, HostManaged, Model, Shape};
use smrfs::fs::{FileSystem, FsOptions};
use smrfs::meta::memory::{Limits, MemoryStore};
use smrfs::meta::{MetadataStore, Time};
use smrfs::safety::counts::Order;
use smrfs::space::Space;
use smrfs::space::bands::BandSpace;
use smrfs::space::bands::BandsOptions;
use smrfs::space::caveat::{Caveat, CaveatOptions};
use smrfs::testing::memory::Memory;
use smrfs::testing::memory::Power;
use smrfs::testing::shingled::{Shingled, WriteHistory};
use smrfs::units::Span;

use crate::faulty::Faulty;
use crate::watch::{Watch, watched};

/// Bytes of a granule in these tests.
pub const GRANULE: u64 = 512;

/// A disk, a store, and the file system mounted on them.
pub struct Rig {
    pub device: Arc<Faulty>,
    pub store: Arc<dyn MetadataStore>,
    pub memory: Arc<Memory>,
    pub options: FsOptions,
    pub fs: Arc<FileSystem>,
    watch: Arc<dyn Watch>,
}

impl Rig {
    /// A new disk of that model, of some hundred granules.
    pub fn new(model: Model, options: FsOptions) -> Rig {
        Rig::with_store(model, options, |store| Arc::new(store))
    }

    /// A rig whose `store` says what comes between the store in memory and the file system.
    pub fn with_store(
        model: Model,
        options: FsOptions,
        store: impl FnOnce(MemoryStore) -> Arc<dyn MetadataStore>,
    ) -> Rig {
        let shape = shape(model);
        let memory = Arc::new(Memory::new(&shape, Arc::new(Power::new())));
        let (device, watch) = in_front(&shape, memory.clone());
        let device = Arc::new(Faulty::new(device));
        let now = AtomicI64::new(1);
        let clock = Arc::new(move || Time { seconds: now.fetch_add(1, Relaxed), nanoseconds: 0 });
        let store = store(MemoryStore::new(Limits { map_bytes: 160, ..Limits::EXT4 }, clock));
        let fs = Arc::new(mounted(&device, &store, &options));
        Rig { device, store, memory, options, fs, watch }
    }

    /// Mounts again; `clean` after an unmount, and otherwise after a commit only.
    pub fn remount(&mut self, clean: bool) {
        if clean {
            self.fs.unmount().unwrap();
        } else {
            self.fs.sync_all().unwrap();
        }
        self.mount();
    }

    /// Mounts what is durable, whatever the last mount still had in mind.
    pub fn mount(&mut self) {
        self.fs = Arc::new(mounted(&self.device, &self.store, &self.options));
        let live: Vec<Span> = self.fs.live().into_iter().map(|(span, _)| span).collect();
        self.watch.mounted(&live, Order::Kept).unwrap();
        self.check();
    }

    /// The checker has seen nothing that the law forbids.
    pub fn check(&self) {
        assert_eq!(self.watch.first_violation(), None);
    }
}

fn mounted(device: &Arc<Faulty>, store: &Arc<dyn MetadataStore>, options: &FsOptions) -> FileSystem {
    FileSystem::mount(device.clone(), store.clone(), space(device.shape()), options.clone()).unwrap()
}

fn shape(model: Model) -> Shape {
    let shape = |granules, bands| Shape { model, granule_bytes: GRANULE, granules, did: 3, dpid: 2, bands };
    match model {
        Model::StrictAppend => {
            let bands = Bands { count: 24, granules: 32, gap_granules: 3, max_open: 6 };
            shape(24 * 35, bands)
        }
        Model::Caveat => shape(800, Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 }),
    }
}

fn space(shape: &Shape) -> Box<dyn Space> {
    let options = BandsOptions { block_granules: 8, event_granules: 128, ..BandsOptions::default() };
    match shape.model {
        Model::StrictAppend => Box::new(BandSpace::new(shape, options).unwrap()),
        Model::Caveat => {
            Box::new(Caveat::new(shape, CaveatOptions { block_granules: 8, ..CaveatOptions::default() }).unwrap())
        }
    }
}

fn in_front(shape: &Shape, memory: Arc<Memory>) -> (Arc<dyn HostManaged>, Arc<dyn Watch>) {
    match shape.model {
        Model::StrictAppend => watched(StrictAppend::new(memory, *shape, &[]).unwrap()),
        Model::Caveat => watched(Shingled::new(memory, *shape, WriteHistory::Blank).unwrap()),
    }
}
