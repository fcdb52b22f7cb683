//! Served drives flat out, without a server: `cargo bench -p smrkit-live --bench served [-- LAYER …]`.
//!
//! The image is a file in /dev/shm, where there is one. 4 KiB are written at random places of the first GiB: on a new drive until its cache
//! is full, if it has one; then, after that GiB was written in order, on one in use. Rates are per CPU-second of this thread, with what the
//! kernel does for it.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrkit::experiment::system::AskedCapacity;
use smrkit::experiment::system::{System, Systems};
use smrkit::quantity::Bytes;
use smrkit::settings::{Queue, Settings};
use smrkit_live::block::drive::{Command, CommandKind, ServedDrive};
use smrkit_live::block::image;

const LAYERS: [&str; 8] =
    ["in-place", "log", "s-block", "set-assoc", "drive-managed", "vguard", "dm-zoned", "zone-log"];
const GIB: u64 = 1 << 30;
/// CPU time after which a rate is known well enough.
const SECONDS: f64 = 2.0;
const BATCH: u64 = 100;

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    println!("{:16} {:>16} {:>16} {:>16}", "4 KiB writes/CPU-s", "on a new drive", "on one in use", "1 MiB, MB/CPU-s");
    for layer in LAYERS.into_iter().filter(|layer| asked.is_empty() || asked.iter().any(|asked| asked == layer)) {
        run(layer);
    }
}

fn run(layer: &str) {
    let folder = tempfile::TempDir::new_in("/dev/shm").or_else(|_| tempfile::TempDir::new()).unwrap();
    let capacity: Bytes = if layer == "s-block" { "64GB" } else { "16GB" }.parse().unwrap();
    let mut system = System::drive("st5000as0011").layer(layer).capacity(AskedCapacity::Sectors(capacity.0 / 512));
    if layer == "set-assoc" {
        system = system.set("set-assoc.region_sectors", 4096);
    }
    let planned = Systems::new(&system).unwrap().runs(&[Settings::default()], None).unwrap().pop().unwrap();
    let image = image::create(&folder.path().join("drive.img"), image::complete_record(&planned), false).unwrap();
    let (mut drive, _) = ServedDrive::open(image, None, Queue::Fcfs).unwrap();
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut write_one = |drive: &mut ServedDrive| write(drive, random.random_range(0..GIB / 4096) * 4096, 4096);
    let is_full = |drive: &ServedDrive| drive.gauges().cache_fill.is_some_and(|fill| fill > 0.98);
    let empty = rate(&mut drive, &mut write_one, |drive| !is_full(drive));
    let begun = cpu_seconds();
    (0..GIB >> 20).for_each(|at| write(&mut drive, at << 20, 1 << 20));
    let in_order = GIB as f64 / 1e6 / (cpu_seconds() - begun);
    let full = rate(&mut drive, &mut write_one, |_| true);
    println!("{layer:18} {empty:>16.0} {full:>16.0} {in_order:>16.0}");
}

fn write(drive: &mut ServedDrive, offset: u64, bytes: u64) {
    drive.serve(Command::new(CommandKind::Write, offset, bytes, vec![0x5A; bytes as usize])).unwrap();
}

/// Writes a CPU-second, for `SECONDS` or as long as `goes_on`.
fn rate(
    drive: &mut ServedDrive,
    write: &mut impl FnMut(&mut ServedDrive),
    goes_on: impl Fn(&ServedDrive) -> bool,
) -> f64 {
    let (mut writes, begun) = (0, cpu_seconds());
    loop {
        (0..BATCH).for_each(|_| write(drive));
        drive.write_gathered();
        writes += BATCH;
        let lasted = cpu_seconds() - begun;
        if lasted > SECONDS || !goes_on(drive) {
            return writes as f64 / lasted;
        }
    }
}

/// Time that this thread has worked.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}
