//! A file system on a disk in memory, with its metadata in memory.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use smrfs::device::strict::StrictAppend;
use smrfs::device::{Bands, HostManaged, Model, Shape};
use smrfs::fs::{FileSystem, FsOptions};
use smrfs::meta::Time;
use smrfs::meta::memory::{Limits, MemoryStore};
use smrfs::space::Space;
use smrfs::space::bands::BandSpace;
use smrfs::space::bands::BandsOptions;
use smrfs::space::caveat::{Caveat, CaveatOptions};
use smrfs::testing::memory::Memory;
use smrfs::testing::memory::Power;
use smrfs::testing::shingled::{Shingled, WriteHistory};
use smrfs::units::GRANULE_BYTES;

/// Size of the disk, in granules: 256 MiB.
const GRANULES: u64 = 65_536;
/// DID and DPID, in granules: 64 KiB, so that gaps do not fill a disk of this size.
const DISTANCE: u64 = 16;

/// A fresh file system, and the disk that it is on.
pub fn file_system(model: Model) -> (FileSystem, Arc<dyn HostManaged>) {
    let (core, disk, _) = file_system_and_store(model);
    (core, disk)
}

/// A fresh file system, its disk and its store.
pub fn file_system_and_store(model: Model) -> (FileSystem, Arc<dyn HostManaged>, Arc<MemoryStore>) {
    let ((disk, space), store) = (disk(model), store());
    (mounted(disk.clone(), store.clone(), space), disk, store)
}

/// A fresh file system on a disk behind `front`.
pub fn file_system_on<D: HostManaged + 'static>(
    model: Model,
    front: impl FnOnce(Arc<dyn HostManaged>) -> Arc<D>,
) -> (FileSystem, Arc<D>) {
    let (disk, space) = disk(model);
    let disk = front(disk);
    (mounted(disk.clone(), store(), space), disk)
}

fn disk(model: Model) -> (Arc<dyn HostManaged>, Box<dyn Space>) {
    let shape = shape(model);
    let memory = Arc::new(Memory::new(&shape, Arc::new(Power::new())));
    match model {
        Model::StrictAppend => (
            Arc::new(StrictAppend::new(memory, shape, &[]).expect("a disk")),
            Box::new(BandSpace::new(&shape, BandsOptions::default()).expect("a space")),
        ),
        Model::Caveat => (
            Arc::new(Shingled::new(memory, shape, WriteHistory::Blank).expect("a disk")),
            Box::new(Caveat::new(&shape, CaveatOptions::default()).expect("a space")),
        ),
    }
}

fn store() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(Limits::LARGE, Arc::new(now)))
}

fn mounted(device: Arc<dyn HostManaged>, store: Arc<MemoryStore>, space: Box<dyn Space>) -> FileSystem {
    FileSystem::mount(device, store, space, FsOptions::default()).expect("a fresh file system")
}

fn shape(model: Model) -> Shape {
    let band = 1024;
    let bands = match model {
        Model::StrictAppend => {
            Bands { count: GRANULES / (band + DISTANCE), granules: band, gap_granules: DISTANCE, max_open: 16 }
        }
        Model::Caveat => Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 },
    };
    Shape { model, granule_bytes: GRANULE_BYTES, granules: GRANULES, did: DISTANCE, dpid: DISTANCE, bands }
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    Time { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() }
}
