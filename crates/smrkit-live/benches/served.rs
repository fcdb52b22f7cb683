//! Served drives flat out, without a server: `cargo bench -p smrkit-live --bench served [-- LAYER … [--journal]]`.
//!
//! The image is in memory, and with `--journal` has a journal as `smrkit serve` gives it, in memory too. 4 KiB are written at random
//! places of the first GiB: on a new drive until its cache is full, if it has one; then, after that GiB was written in order, on one
//! in use. Rates are per CPU-second of this thread.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrkit::experiment::size::AskedCapacity;
use smrkit::experiment::system::{System, Systems};
use smrkit::medium::Buf;
use smrkit::quantity::Bytes;
use smrkit::request::{Op, Request};
use smrkit::settings::Settings;
use smrkit::units::Lba;
use smrkit_live::block::device::BlockDevice;
use smrkit_live::block::image::{self, DriveImage};
use smrkit_live::block::storage::Storage;

const LAYERS: [&str; 8] =
    ["in-place", "log", "s-block", "set-assoc", "drive-managed", "vguard", "dm-zoned", "zone-log"];
const GIB: u64 = 1 << 30;
const SECTORS: u64 = 8;
/// CPU time after which a rate is known well enough.
const SECONDS: f64 = 2.0;
const BATCH: u64 = 100;
/// Pages of the image, 8 GiB, after which a rate is known as well as memory lets it: S-blocks move over all of the drive.
const PAGES_MAX: usize = (8 << 30) / PAGE;

fn main() {
    let (options, asked): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|word| word.starts_with('-'));
    let journal_bytes = options.iter().any(|option| option == "--journal").then_some(64 << 20);
    println!("{:16} {:>16} {:>16} {:>16}", "4 KiB writes/CPU-s", "on a new drive", "on one in use", "1 MiB, MB/CPU-s");
    for layer in LAYERS.into_iter().filter(|layer| asked.is_empty() || asked.iter().any(|asked| asked == layer)) {
        run(layer, journal_bytes);
    }
}

fn run(layer: &str, journal_bytes: Option<u64>) {
    let folder = tempfile::TempDir::new().unwrap();
    let mut drive = Drive::new(folder.path(), layer, journal_bytes);
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut write = |drive: &mut Drive| drive.write(random.random_range(0..GIB / 4096) * SECTORS, SECTORS);
    let empty = rate(&mut drive, &mut write, |drive| !drive.is_full() && drive.pages() < PAGES_MAX);
    let begun = cpu_seconds();
    (0..GIB >> 20).for_each(|at| drive.write(at << 11, 1 << 11));
    let in_order = GIB as f64 / 1e6 / (cpu_seconds() - begun);
    let full = rate(&mut drive, &mut write, |drive| drive.pages() < PAGES_MAX);
    println!("{layer:18} {empty:>16.0} {full:>16.0} {in_order:>16.0}");
}

/// Writes a CPU-second, for `SECONDS` or as long as `goes_on`.
fn rate(drive: &mut Drive, write: &mut impl FnMut(&mut Drive), goes_on: impl Fn(&Drive) -> bool) -> f64 {
    let (mut writes, begun) = (0, cpu_seconds());
    loop {
        (0..BATCH).for_each(|_| write(drive));
        writes += BATCH;
        let lasted = cpu_seconds() - begun;
        if lasted > SECONDS || !goes_on(drive) {
            return writes as f64 / lasted;
        }
    }
}

struct Drive {
    device: BlockDevice,
    file: Arc<Memory>,
    buf: Buf,
}

impl Drive {
    fn new(folder: &std::path::Path, layer: &str, journal_bytes: Option<u64>) -> Drive {
        // S-blocks need room for their spare ones.
        let capacity: Bytes = if layer == "s-block" { "64GB" } else { "16GB" }.parse().unwrap();
        let mut system = System::drive("st5000as0011").layer(layer).capacity(AskedCapacity::Sectors(capacity.0 / 512));
        if layer == "set-assoc" {
            system = system.set("set-assoc.region_sectors", 4096);
        }
        let planned = Systems::new(&system).unwrap().runs(&[Settings::default()], None).unwrap().pop().unwrap();
        let path = folder.join("drive.img");
        image::create(&path, image::complete_record(&planned), false).unwrap();
        let image = DriveImage::open(&path, false).unwrap();
        let (file, journal) = (Arc::<Memory>::default(), Arc::<Memory>::default());
        file.set_length(std::fs::metadata(&path).unwrap().len()).unwrap();
        let image = image.in_storage(file.clone(), journal, journal_bytes).unwrap();
        let (device, _) = BlockDevice::open(image, None).unwrap();
        Drive { device, file, buf: Buf::Bytes(vec![0x5A; 1 << 20]) }
    }

    fn write(&mut self, lba: u64, sectors: u64) {
        let arrival = self.device.now();
        if let Buf::Bytes(bytes) = &mut self.buf {
            bytes.resize(sectors as usize * 512, 0x5A);
        }
        self.device.serve(&Request::new(Op::Write, Lba(lba), sectors as u32), arrival, &mut self.buf).unwrap();
    }

    fn pages(&self) -> usize {
        self.file.0.lock().unwrap().pages.len()
    }

    fn is_full(&self) -> bool {
        self.device.gauges().cache_fill.is_some_and(|fill| fill > 0.98)
    }
}

/// Time that this thread has worked.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// Small, as S-blocks move in pieces over all of the drive.
const PAGE: usize = 1 << 16;

/// A sparse file in memory.
#[derive(Default)]
struct Memory(Mutex<Contents>);

#[derive(Default)]
struct Contents {
    pages: HashMap<u64, Vec<u8>>,
    length: u64,
}

/// The parts of a range, each in one page: the page, where in it, and where in the range.
fn parts(offset: u64, bytes: usize) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = (at % PAGE as u64) as usize;
        let count = (PAGE - within).min(bytes - done);
        let part = (at / PAGE as u64, within..within + count, done..done + count);
        done += count;
        (count > 0).then_some(part)
    })
}

impl Storage for Memory {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().length)
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let contents = self.0.lock().unwrap();
        for (page, within, part) in parts(offset, bytes.len()) {
            match contents.pages.get(&page) {
                Some(page) => bytes[part].copy_from_slice(&page[within]),
                None => bytes[part].fill(0),
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut contents = self.0.lock().unwrap();
        for (page, within, part) in parts(offset, bytes.len()) {
            contents.pages.entry(page).or_insert_with(|| vec![0; PAGE])[within].copy_from_slice(&bytes[part]);
        }
        contents.length = contents.length.max(offset + bytes.len() as u64);
        Ok(())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.lock().unwrap().length = length;
        Ok(())
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        let mut contents = self.0.lock().unwrap();
        for (page, within, _) in parts(range.start, (range.end - range.start) as usize) {
            if within.len() == PAGE {
                contents.pages.remove(&page);
            } else if let Some(page) = contents.pages.get_mut(&page) {
                page[within].fill(0);
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn allocated_from(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let contents = self.0.lock().unwrap();
        let first = contents.pages.keys().copied().filter(|page| page * PAGE as u64 >= offset).min();
        Ok(first.map(|page| page * PAGE as u64..(page + 1) * PAGE as u64))
    }
}
