//! Served drives flat out, without a server: `cargo bench -p smrkit-live --bench served [-- LAYER …]`.
//!
//! The image is a file in /dev/shm, where there is one. 4 KiB are written at random places: on a new drive, until its persistent cache is
//! full if it has one; then, after a GiB was written in order, with a cache that is full again. Rates are per CPU-second of this thread,
//! with what the kernel does for it; the share of the drive's time that went into cleaning is that of the second.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::time::{ClockId, clock_gettime};
use smrkit::experiment::system::AskedCapacity;
use smrkit::experiment::system::{System, Systems};
use smrkit::quantity::Bytes;
use smrkit::settings::{Queue, Settings};
use smrkit_live::block::drive::{Command, CommandKind, PreparedState, ServedDrive};
use smrkit_live::block::image;

/// Layers, and a drive that each can be put on.
const LAYERS: [(&str, &str); 8] = [
    ("in-place", "st5000as0011"),
    ("log", "st5000as0011"),
    ("s-block", "st5000as0011"),
    ("set-assoc", "st5000as0011"),
    ("drive-managed", "st5000as0011"),
    ("vguard", "st5000as0011"),
    ("dm-zoned", "hc620"),
    ("zone-log", "hc620"),
];
const GIB: u64 = 1 << 30;
/// CPU time after which a rate is known well enough.
const SECONDS: f64 = 2.0;
const BATCH: u64 = 100;

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    println!(
        "{:16} {:>14} {:>16} {:>9} {:>16}",
        "4 KiB writes/CPU-s", "on a new drive", "with a full cache", "cleaning", "1 MiB, MB/CPU-s"
    );
    for (layer, drive) in LAYERS {
        if asked.is_empty() || asked.iter().any(|asked| asked == layer) {
            run(layer, drive);
        }
    }
}

fn run(layer: &str, drive: &str) {
    let folder = tempfile::TempDir::new_in("/dev/shm").or_else(|_| tempfile::TempDir::new()).unwrap();
    let capacity: Bytes = if matches!(layer, "s-block" | "dm-zoned") { "128GB" } else { "16GB" }.parse().unwrap();
    let mut system = System::drive(drive).layer(layer).capacity(AskedCapacity::Sectors(capacity.0 / 512));
    if layer == "set-assoc" {
        system = system.set("set-assoc.region_sectors", 4096);
    }
    let planned = Systems::new(&system).unwrap().runs(&[Settings::default()], None).unwrap().pop().unwrap();
    let image = image::create(&folder.path().join("drive.img"), image::complete_record(&planned), false).unwrap();
    let (mut drive, _) = ServedDrive::open(image, None, Queue::Fcfs).unwrap();
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut write_one =
        |drive: &mut ServedDrive| write(drive, random.random_range(0..drive.image.sectors() / 8) * 4096, 4096);
    let is_full = |drive: &ServedDrive| drive.gauges().cache_fill.is_some_and(|fill| fill > 0.98);
    let new = rate(&mut drive, &mut write_one, |drive| !is_full(drive));
    let begun = cpu_seconds();
    (0..GIB >> 20).for_each(|at| write(&mut drive, at << 20, 1 << 20));
    let in_order = GIB as f64 / 1e6 / (cpu_seconds() - begun);
    if drive.gauges().cache_fill.is_some() {
        drive.prepare(&PreparedState::Full).unwrap();
    }
    let before = (drive.now(), drive.cleaning_time());
    let full = rate(&mut drive, &mut write_one, |_| true);
    let cleaning = drive.cleaning_time().since(before.1).0 as f64 / drive.now().since(before.0).0 as f64;
    println!("{layer:18} {new:>14.0} {full:>16.0} {:>7.0} % {in_order:>16.0}", cleaning * 100.0);
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
        writes += BATCH;
        let lasted = cpu_seconds() - begun;
        if lasted > SECONDS || !goes_on(drive) {
            return writes as f64 / lasted;
        }
    }
}

/// Time that this thread has worked, to the nanosecond: the kernel's schedstat counts up only now and then.
fn cpu_seconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}
