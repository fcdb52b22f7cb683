//! The world of the simulated ageing: a disk on the model's clock with a file system on it, watched by the checker, the target
//! of workloads on it, and the distributions that sizes and ages are drawn from.
//!
//! A distribution is a curve: values, each with the share of samples that are not larger. Between two points the logarithm of the value is
//! uniform, because curves of file sizes and ages span four decades and are drawn on logarithmic axes. With that, the reconstructed ones
//! have means that fit the paper's run: 168 MB, 229 days.

use std::collections::HashMap;
use std::sync::Arc;

use smrkit::dice::Dice;
use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit::units::Nanos;

use super::PAPER_DISK_BYTES;
use crate::data::{Data, ReadBuffer};
use crate::device::caveat::CaveatScriptor;
use crate::device::modelled::Modelled;
use crate::device::strict::StrictAppend;
use crate::device::{Bands, HostManaged, Model, Shape};
use crate::error::{Errno, FsResult};
use crate::fs::{FileSystem, FsOptions};
use crate::meta::partition::{Costs, SimulatedPartition};
use crate::meta::{Kind, NewNode};
use crate::safety::Watched;
use crate::space::Space;
use crate::space::bands::{BandSpace, BandsOptions};
use crate::space::caveat::{Caveat, CaveatOptions, Placement};
use crate::units::{GRANULE_BYTES, NodeId};
use crate::workload::driver::BLOCK_BYTES;
use crate::workload::{Act, Cleaned, FileKey, Target, TargetRoom};

const MIB: u64 = 1 << 20;
/// Open bands that the disk allows (assumption: more than one log needs).
const MAX_OPEN: u64 = 8;
/// The work of a cleaning event (Kadekodi et al. 2015, section 4.1).
const EVENT_BYTES: u64 = 128 * MIB;
/// Time between commits of ext4, and so of a file system on it (assumption).
const COMMIT_EVERY: Nanos = Nanos(5_000_000_000);
/// The unshingled partition, next to the shingled one on the paper's disk: a short seek, half a rotation at 7200 rpm, 4 KiB
/// at 138 MB/s (assumptions).
const COSTS: Costs = Costs { seek_ns: 3_000_000, half_rotation_ns: 4_166_667, block_ns: 29_681 };

/// A simulated disk and the file system on it.
#[derive(Clone, Debug)]
pub struct World {
    /// The disk's model.
    pub model: Model,
    /// The drive whose clock is used; the disk is its first part.
    pub drive: Drive,
    /// The shingled partition.
    pub disk_bytes: u64,
    /// Bytes of a granule. 4 KiB on a mounted disk; coarser ones are faster to simulate.
    pub granule_bytes: u64,
    /// DID.
    pub did_bytes: u64,
    /// DPID.
    pub dpid_bytes: u64,
    /// A band of strict-append.
    pub band_bytes: u64,
    /// The allocator of Caveat-Scriptor.
    pub caveat: CaveatOptions,
    /// The allocator of strict-append.
    pub bands: BandsOptions,
    /// Time after which everything is made durable, by the model's clock.
    pub commit_every: Nanos,
}

impl World {
    /// The paper's world of one model (Kadekodi et al. 2015, sections 4 and 5): 100 GB of its disk, bands of 32 MB, next-fit, no defragmenter.
    pub fn paper(model: Model, drive: Drive) -> World {
        World {
            model,
            drive,
            disk_bytes: PAPER_DISK_BYTES,
            granule_bytes: GRANULE_BYTES,
            did_bytes: MIB,
            dpid_bytes: MIB,
            band_bytes: 32 * MIB,
            caveat: CaveatOptions {
                placement: Placement::NextFit,
                split: false,
                defragment: false,
                ..CaveatOptions::default()
            },
            bands: BandsOptions::paper(),
            commit_every: COMMIT_EVERY,
        }
    }

    /// The disk's shape.
    pub fn shape(&self) -> Shape {
        let granules = |bytes: u64| bytes.div_ceil(self.granule_bytes);
        let (did, dpid) = (granules(self.did_bytes), granules(self.dpid_bytes));
        let (size, band, gap) = (self.disk_bytes / self.granule_bytes, granules(self.band_bytes), did.max(dpid));
        let bands = match self.model {
            Model::Caveat => Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 },
            Model::StrictAppend => Bands {
                count: (size + gap) / (band + gap).max(1),
                granules: band,
                gap_granules: gap,
                max_open: MAX_OPEN,
            },
        };
        Shape { model: self.model, granule_bytes: self.granule_bytes, granules: size, did, dpid, bands }
    }

    /// A new file system on it.
    pub fn mount(&self) -> Result<Simulated, Error> {
        let shape = self.shape();
        let platters = Arc::new(Modelled::new(self.drive.clone(), &shape)?);
        // Simulated data has no bytes that could be destroyed: the checker finds writes that would destroy some.
        let device: Arc<dyn HostManaged> = match self.model {
            Model::Caveat => Arc::new(Watched::new(CaveatScriptor::new(platters, shape)?)),
            Model::StrictAppend => Arc::new(Watched::new(StrictAppend::new(platters, shape, &[])?)),
        };
        let store = Arc::new(SimulatedPartition::new(Arc::clone(&device), COSTS));
        let fs = FileSystem::mount(Arc::clone(&device), store, self.space(&shape)?, self.options())?;
        Ok(Simulated::new(fs, device, self.commit_every))
    }

    /// The options of the file system.
    pub fn options(&self) -> FsOptions {
        FsOptions { block_granules: self.block_granules(), ..FsOptions::default() }
    }

    /// The allocator for a disk of that shape.
    pub fn space(&self, shape: &Shape) -> Result<Box<dyn Space>, Error> {
        let block_granules = self.block_granules();
        Ok(match self.model {
            Model::Caveat => {
                let options = CaveatOptions { block_granules, ..self.caveat.clone() };
                Box::new(Caveat::new(shape, options)?)
            }
            Model::StrictAppend => {
                let event_granules = EVENT_BYTES / self.granule_bytes;
                let options = BandsOptions { block_granules, event_granules, ..self.bands };
                Box::new(BandSpace::new(shape, options)?)
            }
        })
    }

    fn block_granules(&self) -> u64 {
        (BLOCK_BYTES / self.granule_bytes).max(1)
    }
}

/// A file system on the model's clock.
pub struct Simulated {
    /// The file system.
    pub fs: FileSystem,
    device: Arc<dyn HostManaged>,
    folders: HashMap<u32, NodeId>,
    files: HashMap<FileKey, (NodeId, u64)>,
    commit_every: Nanos,
    committed: Nanos,
    /// Total delay of acts by cleaning that ran between them.
    delayed: Nanos,
}

impl Simulated {
    /// `fs`, just mounted on `device`. Everything is made durable every `commit_every`.
    pub fn new(fs: FileSystem, device: Arc<dyn HostManaged>, commit_every: Nanos) -> Simulated {
        let committed = device.now();
        Simulated {
            fs,
            device,
            folders: HashMap::new(),
            files: HashMap::new(),
            commit_every,
            committed,
            delayed: Nanos::ZERO,
        }
    }

    fn folder(&mut self, number: u32) -> FsResult<NodeId> {
        if let Some(&id) = self.folders.get(&number) {
            return Ok(id);
        }
        let id = self.fs.make(self.fs.root(), number.to_string().as_bytes(), &node(Kind::Directory, 0o755))?.id;
        self.folders.insert(number, id);
        Ok(id)
    }

    fn file(&self, file: FileKey) -> FsResult<(NodeId, u64)> {
        self.files.get(&file).copied().ok_or(Errno::ENOENT.into())
    }
}

fn name(file: FileKey) -> Vec<u8> {
    file.number.to_string().into_bytes()
}

fn node(kind: Kind, mode: u32) -> NewNode {
    NewNode { kind, mode, uid: 0, gid: 0, rdev: 0 }
}

/// The ager empties no file by opening it.
const TRUNCATE: bool = false;

impl Target for Simulated {
    fn perform(&mut self, act: Act) -> FsResult {
        match act {
            Act::Create(file) => {
                let folder = self.folder(file.folder)?;
                let id = self.fs.make(folder, &name(file), &node(Kind::File, 0o644))?.id;
                self.files.insert(file, (id, 0));
                let writing = true;
                self.fs.open(id, writing, TRUNCATE)
            }
            Act::Open { file, writing } => self.fs.open(self.file(file)?.0, writing, TRUNCATE),
            Act::Append { file, bytes } => {
                let (id, size) = self.file(file)?;
                self.fs.write(id, size, Data::Blank(bytes))?;
                self.files.insert(file, (id, size + bytes));
                Ok(())
            }
            Act::Read { file, offset, bytes } => {
                self.fs.read(self.file(file)?.0, offset, ReadBuffer::Blank(bytes)).map(|_| ())
            }
            Act::Close { file, writing } => self.fs.release(self.file(file)?.0, writing),
            Act::Delete(file) => {
                let (id, _) = self.file(file)?;
                let folder = self.folder(file.folder)?;
                self.fs.unlink(folder, &name(file))?;
                self.fs.forget(id, 1);
                self.files.remove(&file);
                Ok(())
            }
            Act::Stat(file) => {
                let folder = self.folder(file.folder)?;
                let id = self.fs.lookup(folder, &name(file))?.id;
                self.fs.attributes(id)?;
                self.fs.forget(id, 1);
                Ok(())
            }
        }
    }

    fn now(&self) -> Nanos {
        self.device.now()
    }

    fn background(&mut self) -> FsResult {
        if self.device.now().since(self.committed) >= self.commit_every {
            self.fs.sync_all()?;
            self.committed = self.device.now();
        }
        let begin = self.device.now();
        while self.fs.background(false)? {}
        self.delayed += self.device.now().since(begin);
        Ok(())
    }

    fn rest(&mut self, until: Nanos) -> FsResult {
        while self.device.now() < until && self.fs.background(true)? {}
        self.device.wait_until(until);
        Ok(())
    }

    fn waited(&self) -> Nanos {
        self.delayed + Nanos(self.fs.statistics().waited_ns)
    }

    fn room(&self) -> FsResult<TargetRoom> {
        let usage = self.fs.usage()?;
        let bytes = |granules: u64| granules * usage.granule_bytes;
        Ok(TargetRoom {
            live_bytes: bytes(usage.live),
            free_bytes: bytes(usage.free),
            counts: Some((usage.counts, usage.granule_bytes)),
        })
    }

    fn cleaned(&self) -> Cleaned {
        let statistics = self.fs.statistics();
        Cleaned { moved_bytes: statistics.moved_bytes, resets: statistics.resets, stalls: statistics.stalls }
    }
}

/// A distribution by its cumulative curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distribution {
    /// Values, each with the share from 0 to 1 of samples that are not larger. Both ascend; the last share is 1.
    pub points: &'static [(f64, f64)],
}

/// File sizes in MB. Published as a curve only (Kadekodi et al. 2015, figure 4 b); a reconstruction.
pub const SIZES_MB: Distribution = Distribution {
    points: &[
        (1.0, 0.10),
        (4.0, 0.20),
        (16.0, 0.35),
        (64.0, 0.60),
        (128.0, 0.75),
        (256.0, 0.85),
        (512.0, 0.93),
        (1024.0, 0.97),
        (4096.0, 1.0),
    ],
};

/// File ages in days. Published as a curve only (Kadekodi et al. 2015, figure 4 c); a reconstruction.
pub const AGES_DAYS: Distribution = Distribution {
    points: &[
        (1.0, 0.05),
        (4.0, 0.10),
        (16.0, 0.22),
        (32.0, 0.32),
        (64.0, 0.43),
        (128.0, 0.56),
        (256.0, 0.71),
        (512.0, 0.86),
        (1024.0, 0.97),
        (2048.0, 1.0),
    ],
};

impl Distribution {
    /// The value at a share from 0 to 1; up to the first point's share, the first value.
    pub fn at(&self, share: f64) -> f64 {
        let next = self.points.partition_point(|&(_, point_share)| point_share < share).min(self.points.len() - 1);
        let (high, high_share) = self.points[next];
        if next == 0 || share >= high_share {
            return high;
        }
        let (low, low_share) = self.points[next - 1];
        low * libm::pow(high / low, (share - low_share) / (high_share - low_share))
    }

    /// One value at random.
    pub fn draw(&self, dice: &mut Dice) -> f64 {
        self.at(dice.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Distribution {
        /// The mean.
        pub fn mean(&self) -> f64 {
            let (first, first_share) = self.points[0];
            let stretches = self.points.windows(2).map(|pair| {
                let [(low, low_share), (high, high_share)] = [pair[0], pair[1]];
                // The mean of values whose logarithm is uniform is (high - low) / ln(high / low).
                (high_share - low_share) * (high - low) / libm::log(high / low)
            });
            first * first_share + stretches.sum::<f64>()
        }
    }

    #[test]
    fn the_reconstructions_have_the_means_that_fit_the_run() {
        let (sizes, ages) = (SIZES_MB, AGES_DAYS);
        assert!((166.0..169.0).contains(&sizes.mean()), "{} MB", sizes.mean());
        assert!((228.0..230.0).contains(&ages.mean()), "{} days", ages.mean());
        assert_eq!([0.0, 0.1, 0.6, 1.0].map(|share| sizes.at(share)), [1.0, 1.0, 64.0, 4096.0]);
        assert!((sizes.at(0.475) - 32.0).abs() < 1e-6, "half way from 16 to 64 by logarithms: {}", sizes.at(0.475));
    }

    #[test]
    fn draws_follow_the_curve() {
        let sizes = SIZES_MB;
        let mut dice = Dice::new(5, 0);
        let drawn: Vec<f64> = (0..40_000).map(|_| sizes.draw(&mut dice)).collect();
        for &(value, share) in sizes.points {
            let ours = drawn.iter().filter(|&&size| size <= value).count() as f64 / drawn.len() as f64;
            assert!((ours - share).abs() < 0.01, "{value} MB: {ours} is not {share}");
        }
    }
}
