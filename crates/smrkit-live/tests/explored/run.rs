//! A recorded run: random requests on a small served drive, and each change that they make to its files.

use std::path::Path;
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrkit::device::spec::ArraySpec;
use smrkit::experiment::system::{System, Systems};
use smrkit::medium::Buf;
use smrkit::request::{Op, Request};
use smrkit::settings::Settings;
use smrkit::units::{Lba, Nanos, SECTOR_BYTES};
use smrkit_live::block::device::BlockDevice;
use smrkit_live::block::image::{self, DriveImage, ImageHead};

use crate::memory::{Contents, FileOp, MemoryFile, OpLog};
use crate::model::{Model, Promise, fill};

/// Layers that promise to keep what was acknowledged, with parameters that make them clean soon.
pub const LAYERS: [(&str, &[&str]); 9] = [
    ("in-place", &[]),
    ("drive-managed", &["cache_tracks=24", "band_tracks=4", "alpha=6"]),
    ("vguard", &["cache_tracks=12", "band_tracks=4", "alpha=6"]),
    ("log", &["segment_tracks=3", "policy=fifo", "spare_percent=10"]),
    // Labels of a zone take up whole blocks of the image.
    (
        "zone-log",
        &["zone_bytes=160Ki", "conventional_percent=0", "open_zones=2", "clean_below_zones=1", "spare_percent=5"],
    ),
    ("s-block", &["sblock_sectors=40", "cache_percent=20", "spare_percent=8"]),
    ("raid5:disks=3,chunk=4KiB,layer=drive-managed", &["cache_tracks=24", "band_tracks=4", "alpha=6"]),
    ("raid1:disks=2,layer=log", &["segment_tracks=3", "policy=fifo", "spare_percent=10"]),
    ("raid6:disks=4,chunk=4KiB,layer=s-block", &["sblock_sectors=40", "cache_percent=20", "spare_percent=8"]),
];

/// Drives of 2 MB: neighbours that are destroyed by sectors, by tracks, and none.
const LAWS: [&str; 3] = [
    "blocks = { value = 6, source = \"test\" }",
    "tracks = { value = 2, source = \"test\" }",
    "blocks = { value = 1, source = \"test\" }",
];

const REQUESTS: usize = 240;

/// Sectors that a request, with the cleaning before it, reads and writes on the platters: four disks' worth.
const SECTORS_MOVED_MAX: u64 = 4 * 4000;

/// The files of a drive: its image and its journal.
pub type Files = [Contents; 2];

/// A drive as it was made, to be opened in any files.
pub struct Drive {
    image: DriveImage,
    new: Contents,
    pub sectors: u64,
}

impl Drive {
    /// Makes a drive under a layer in `folder`.
    pub fn new(folder: &Path, (layer, set): (&str, &[&str]), seed: u64) -> Drive {
        let law = LAWS[seed as usize / 2 % LAWS.len()];
        let text = include_str!("../../../smrkit/drives/tiny-constant.toml")
            .replace("tracks = 400, track_sectors = 50", "tracks = 100, track_sectors = 40")
            .replace("blocks = { value = 6, source = \"the example of Cassuto 2010, figure 2\" }", law);
        let (file, path) = (folder.join("drive.toml"), folder.join("drive.img"));
        std::fs::write(&file, text).unwrap();
        let drive = System::drive(file.to_str().unwrap());
        let mut system = match ArraySpec::parse(layer) {
            Ok(array) => System { array: Some(array), ..drive },
            Err(_) => drive.layer(layer),
        };
        let layer = layer.rsplit('=').next().unwrap();
        system.set = set.iter().map(|set| format!("{layer}.{set}")).collect();
        let planned = Systems::new(&system).unwrap().runs(&[Settings::default()], None).unwrap().pop().unwrap();
        let image = image::create(&path, image::complete_record(&planned), true);
        drop(image.unwrap());
        let new = Contents::of(&std::fs::read(&path).unwrap());
        let image = DriveImage::open(&path, false).unwrap();
        let sectors = image.export_sectors();
        Drive { image, new, sectors }
    }

    pub fn head(&self) -> &ImageHead {
        self.image.head()
    }

    pub fn new_files(&self) -> Files {
        [self.new.clone(), Contents::default()]
    }

    /// Opens the drive in these files; what is done to them goes to `log`.
    pub fn open(&self, files: &Files, setup: Setup, log: Option<OpLog>) -> Result<Opened, String> {
        let [image, journal] = [0, 1].map(|number| MemoryFile::new(files[number].clone(), number, log.clone()));
        let opened = self.image.in_storage(image.clone(), journal.clone(), setup.journal_bytes);
        let (device, _) = opened
            .and_then(|image| BlockDevice::open(image, None))
            .map_err(|error| format!("it cannot be opened: {error}"))?;
        Ok(Opened { device: device.with_write_cache(setup.cache_sectors), files: OpenFiles([image, journal]) })
    }
}

/// An open drive.
pub struct Opened {
    pub device: BlockDevice,
    files: OpenFiles,
}

/// The files of an open drive.
#[derive(Clone)]
pub struct OpenFiles([Arc<MemoryFile>; 2]);

impl OpenFiles {
    pub fn contents(&self) -> Files {
        [self.0[0].contents(), self.0[1].contents()]
    }
}

impl Opened {
    pub fn files(&self) -> &OpenFiles {
        &self.files
    }

    fn serve(&mut self, request: Request, pause: Nanos, bytes: Vec<u8>) -> Vec<u8> {
        let mut buf = Buf::Bytes(bytes);
        let arrival = self.device.now() + pause;
        self.device.serve(&request, arrival, &mut buf).unwrap_or_else(|error| panic!("{request:?}: {error:?}"));
        let Buf::Bytes(bytes) = buf else { unreachable!("bytes, as above") };
        bytes
    }

    /// Sectors read from the platters and written to them so far.
    fn moved(&self) -> u64 {
        let sectors = self.device.drives().into_iter().map(|drive| drive.physical_sectors());
        sectors.map(|(read, written)| read + written).sum()
    }

    pub fn write(&mut self, lba: u64, sectors: u64, number: u64, pause: Nanos) {
        let mut bytes = vec![0; (sectors * SECTOR_BYTES) as usize];
        for (lba, sector) in (lba..).zip(bytes.chunks_exact_mut(SECTOR_BYTES as usize)) {
            fill(lba, number, sector);
        }
        self.serve(Request::new(Op::Write, Lba(lba), sectors as u32), pause, bytes);
    }

    pub fn trim(&mut self, lba: u64, sectors: u64) {
        self.serve(Request::new(Op::Discard, Lba(lba), sectors as u32), Nanos::ZERO, Vec::new());
    }

    pub fn flush(&mut self) {
        self.serve(Request::new(Op::Flush, Lba(0), 0), Nanos::ZERO, Vec::new());
    }

    pub fn read(&mut self, lba: u64, sectors: u64) -> Vec<u8> {
        let room = vec![0; (sectors * SECTOR_BYTES) as usize];
        self.serve(Request::new(Op::Read, Lba(lba), sectors as u32), Nanos::ZERO, room)
    }
}

/// Options of a served drive.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub journal_bytes: Option<u64>,
    pub cache_sectors: usize,
}

impl Setup {
    /// Its promise when its process is killed.
    pub fn promise(&self) -> Promise {
        match (self.journal_bytes, self.cache_sectors) {
            (None, 0) => Promise::Acknowledged,
            _ => Promise::Flushed,
        }
    }
}

/// A run.
pub struct Run {
    pub drive: Drive,
    pub setup: Setup,
    pub seed: u64,
    pub model: Model,
    /// Changes of the files, and how much of that before each request and after the last.
    pub ops: Vec<(usize, FileOp)>,
    pub begins: Vec<usize>,
    /// The part of the drive that is written, and some more.
    pub span: u64,
    /// Bands, or what the layer has in their place, that were cleaned.
    pub cleaned: u64,
}

impl Run {
    /// Runs random requests on a new drive.
    pub fn new(folder: &Path, layer: (&str, &[&str]), setup: Setup, seed: u64) -> Run {
        let drive = Drive::new(folder, layer, seed);
        let log = OpLog::default();
        let mut opened = drive.open(&drive.new_files(), setup, Some(log.clone())).unwrap();
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let span = [drive.sectors, 500, 120][random.random_range(0..3)];
        let (mut model, mut begins) = (Model::default(), Vec::new());
        // A log begins to clean when the whole disk has been written.
        let requests = if layer.0.ends_with("log") { 3 * REQUESTS } else { REQUESTS };
        for request in 1..=requests {
            begins.push(log.lock().unwrap().len());
            let moved = opened.moved();
            request_at_random(&mut opened, &mut model, request, span, &mut random);
            let moved = opened.moved() - moved;
            assert!(moved < SECTORS_MOVED_MAX, "{}, seed {seed}: request {request} moves {moved} sectors", layer.0);
        }
        begins.push(log.lock().unwrap().len());
        let cleaned = opened.device.drives().iter().map(|drive| drive.layer.bands_moved()).sum();
        drop(opened);
        let ops = std::mem::take(&mut *log.lock().unwrap());
        let span = (span + 40).min(drive.sectors);
        Run { drive, setup, seed, model, ops, begins, span, cleaned }
    }

    /// The request that op `at` belongs to: it may or may not have been carried out, all before it have been.
    pub fn request_at(&self, at: usize) -> usize {
        self.begins.partition_point(|&begin| begin <= at)
    }
}

/// Serves a random request and takes it into the model.
fn request_at_random(opened: &mut Opened, model: &mut Model, request: usize, span: u64, random: &mut Pcg64Mcg) {
    let most = [8, 24, 120][random.random_range(0..3)];
    let sectors = random.random_range(1..=most).min(span);
    let lba = random.random_range(0..=span - sectors);
    let pause = Nanos([0, 0, 3_000_000_000][random.random_range(0..3)]);
    match random.random_range(0..12) {
        0 => {
            opened.flush();
            model.flush(request);
        }
        1 | 2 => {
            opened.trim(lba, sectors);
            model.write(request, lba, sectors, 0);
        }
        3 => {
            let read = opened.read(lba, sectors);
            model.judge(lba, &read, request, Promise::Acknowledged).unwrap();
        }
        _ => {
            opened.write(lba, sectors, request as u64, pause);
            model.write(request, lba, sectors, request as u64);
        }
    }
}
