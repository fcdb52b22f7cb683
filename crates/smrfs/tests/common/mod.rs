//! A file system over a disk without data: only where something lies is known. For tests and benchmarks of room and scale.
#![allow(dead_code)]

pub mod counted;
pub mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use smrfs::data::{Data, ReadBuffer};
use smrfs::device::Platters;
use smrfs::device::caveat::CaveatScriptor;
use smrfs::device::strict::StrictAppend;
use smrfs::device::{Bands, HostManaged, Model, Shape};
use smrfs::error::DeviceResult;
use smrfs::fs::{FileSystem, FsOptions};
use smrfs::meta::memory::{Limits, MemoryStore};
use smrfs::meta::{Kind, MetadataStore, NewNode, Time};
use smrfs::safety::counts::Order;
use smrfs::space::Space;
use smrfs::space::bands::BandSpace;
use smrfs::space::bands::BandsOptions;
use smrfs::space::caveat::{Caveat, CaveatOptions};
use smrfs::units::{GRANULE_BYTES, Granule, HostJournal, Span};
use smrkit::tally::Cause;
use smrkit::units::Nanos;

use watch::{Watch, watched};

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;

pub const FILE: NewNode = NewNode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0 };
pub const DIRECTORY: NewNode = NewNode { kind: Kind::Directory, mode: 0o755, uid: 0, gid: 0, rdev: 0 };

/// Platters that hold nothing; each access takes a millisecond.
#[derive(Default)]
struct Nothing(AtomicU64);

impl Nothing {
    fn access(&self) -> DeviceResult {
        self.0.fetch_add(1_000_000, Relaxed);
        Ok(())
    }
}

impl Platters for Nothing {
    fn read(&self, _at: Granule, mut room: ReadBuffer<'_>, _cause: Cause) -> DeviceResult {
        room.clear();
        self.access()
    }

    fn write(&self, _at: Granule, _data: Data<'_>, _cause: Cause) -> DeviceResult {
        self.access()
    }

    fn flush_with(&self, _journal: Option<HostJournal>) -> DeviceResult {
        self.access()
    }

    fn now(&self) -> Nanos {
        Nanos(self.0.load(Relaxed))
    }
}

/// A disk, a store, and the file system mounted on them.
pub struct Rig {
    pub fs: FileSystem,
    pub shape: Shape,
    pub store: Arc<dyn MetadataStore>,
    device: Arc<dyn HostManaged>,
    watch: Option<Arc<dyn Watch>>,
    options: FsOptions,
}

impl Rig {
    /// A new disk of that shape; `watched` by the checker or trusted. What comes between the store in memory and the
    /// file system is for `store` to say.
    pub fn new(
        shape: Shape,
        watched: bool,
        store: impl FnOnce(MemoryStore, &Arc<dyn HostManaged>) -> Arc<dyn MetadataStore>,
    ) -> Rig {
        let (device, watch) = match shape.model {
            Model::StrictAppend => {
                in_front(StrictAppend::new(Arc::new(Nothing::default()), shape, &[]).unwrap(), watched)
            }
            Model::Caveat => {
                let disk = CaveatScriptor::new(Arc::new(Nothing::default()), shape).unwrap();
                in_front(disk, watched)
            }
        };
        let now = AtomicI64::new(1);
        let clock = Arc::new(move || Time { seconds: now.fetch_add(1, Relaxed), nanoseconds: 0 });
        let store = store(MemoryStore::new(Limits::EXT4, clock), &device);
        let options = FsOptions::default();
        let fs = mounted(&device, &store, &options);
        Rig { fs, shape, store, device, watch, options }
    }

    /// With a store in memory that takes no time.
    pub fn plain(shape: Shape, watched: bool) -> Rig {
        Rig::new(shape, watched, |store, _| Arc::new(store))
    }

    /// Mounts again: after an unmount if `clean`, otherwise after nothing but a commit.
    pub fn remount(&mut self, clean: bool) {
        if clean {
            self.fs.unmount().unwrap();
        } else {
            self.fs.sync_all().unwrap();
        }
        self.fs = mounted(&self.device, &self.store, &self.options);
        if let Some(watch) = &self.watch {
            let live: Vec<Span> = self.fs.live().into_iter().map(|(span, _)| span).collect();
            watch.mounted(&live, Order::Kept).unwrap();
        }
    }

    /// The disk and the store alone.
    pub fn without_fs(self) -> Parts {
        Parts { device: self.device, store: self.store, options: self.options }
    }

    /// Checks that the counts agree with a recount, and the checker has seen nothing that the law forbids.
    pub fn check(&self) {
        self.fs.check().unwrap();
        assert_eq!(self.watch.as_ref().and_then(|watch| watch.first_violation()), None);
    }

    /// The bytes that files can fill.
    pub fn usable_bytes(&self) -> u64 {
        self.fs.usage().unwrap().usable * GRANULE_BYTES
    }
}

/// A disk and a store that nobody has mounted.
pub struct Parts {
    device: Arc<dyn HostManaged>,
    store: Arc<dyn MetadataStore>,
    options: FsOptions,
}

impl Parts {
    /// Mounts them, unwatched.
    pub fn mounted(self) -> Rig {
        let Parts { device, store, options } = self;
        let fs = mounted(&device, &store, &options);
        Rig { fs, shape: *device.shape(), store, device, watch: None, options }
    }
}

fn in_front(disk: impl HostManaged + 'static, is_watched: bool) -> (Arc<dyn HostManaged>, Option<Arc<dyn Watch>>) {
    if !is_watched {
        return (Arc::new(disk), None);
    }
    let (disk, watch) = watched(disk);
    (disk, Some(watch))
}

fn mounted(device: &Arc<dyn HostManaged>, store: &Arc<dyn MetadataStore>, options: &FsOptions) -> FileSystem {
    FileSystem::mount(device.clone(), store.clone(), space(device.shape()), options.clone()).unwrap()
}

/// The allocator of a mounted disk.
fn space(shape: &Shape) -> Box<dyn Space> {
    match shape.model {
        Model::StrictAppend => Box::new(BandSpace::new(shape, BandsOptions::default()).unwrap()),
        Model::Caveat => Box::new(Caveat::new(shape, CaveatOptions::default()).unwrap()),
    }
}

/// A disk of `bytes` in granules of 4 KiB; bands of `band_bytes`, and at most 128 of them open.
pub fn shape(model: Model, bytes: u64, did_bytes: u64, dpid_bytes: u64, band_bytes: u64) -> Shape {
    let (granules, did, dpid) = (bytes / GRANULE_BYTES, did_bytes / GRANULE_BYTES, dpid_bytes / GRANULE_BYTES);
    let (band, gap) = (band_bytes / GRANULE_BYTES, did.max(dpid));
    let bands = match model {
        Model::Caveat => Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 },
        Model::StrictAppend => {
            Bands { count: (granules + gap) / (band + gap), granules: band, gap_granules: gap, max_open: 128 }
        }
    };
    Shape { model, granule_bytes: GRANULE_BYTES, granules, did, dpid, bands }
}
