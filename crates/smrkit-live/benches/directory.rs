//! Many files on a real metadata directory: `cargo bench -p smrkit-live --bench directory [-- FILES …]`.
//!
//! Creates files of 4 KiB, a thousand in a directory, on a volume in a new folder under `$TMPDIR`; then mounts it after a
//! crash, after a clean end, and looks files up. Caches of the host are warm: `scan` is what the calls cost, not the disk.
//! MB is what the clean mount and the lookups have taken from the heap.

use std::alloc::System;
use std::path::Path;
use std::time::Instant;

use cap::Cap;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::data::Data;
use smrfs::device::Model;
use smrfs::fs::{FileSystem, FsOptions};
use smrfs::meta::{Kind, NewNode};
use smrfs::units::GRANULE_BYTES;
use smrkit_live::volume::{Layout, MkfsOptions, Open, Volume, mkfs};

/// Counts the bytes in use.
#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

fn main() {
    let given: Vec<u64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let counts = if given.is_empty() { vec![10_000, 100_000] } else { given };
    println!(
        "{:>9} create us  commit s  scan s  unmount s  clean mount s  lookup us  unlink us  commit s     MB",
        "files"
    );
    for count in counts {
        run(count);
    }
}

fn seconds<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let begin = Instant::now();
    let result = work();
    (begin.elapsed().as_secs_f64(), result)
}

fn open(image: &Path) -> (Volume, FileSystem) {
    let volume = Volume::open(image, &Open::default()).expect("a volume");
    let space = volume.space().expect("a space");
    let mounted = FileSystem::mount(volume.device(), volume.store(), space, FsOptions::default()).expect("a mount");
    (volume, mounted)
}

fn run(count: u64) {
    let folder = tempfile::TempDir::new().expect("a folder");
    let image = folder.path().join("image");
    let size_bytes = (count * 3 * GRANULE_BYTES).max(64 << 20).next_power_of_two();
    let layout = Layout { model: Model::Caveat, size_bytes, did_bytes: None, dpid_bytes: None, band_bytes: None };
    mkfs(&MkfsOptions { image: image.clone(), meta: folder.path().join("meta"), layout, force: false }).expect("made");
    let (volume, fs) = open(&image);
    let owner = |kind, mode| NewNode {
        kind,
        mode,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        rdev: 0,
    };
    let create = seconds(|| {
        let mut directory = fs.root();
        for number in 0..count {
            let name = number.to_string();
            if number % 1000 == 0 {
                let above = fs.root();
                directory = fs.make(above, name.as_bytes(), &owner(Kind::Directory, 0o755)).expect("made").id;
            }
            let id = fs.make(directory, name.as_bytes(), &owner(Kind::File, 0o644)).expect("made").id;
            fs.write(id, 0, Data::Bytes(&[7; GRANULE_BYTES as usize])).expect("written");
            fs.forget(id, 1);
        }
    })
    .0;
    let commit = seconds(|| fs.sync_all().expect("durable")).0;
    // Left without a word.
    drop((fs, volume));
    let (scan, (mut volume, fs)) = seconds(|| open(&image));
    let unmount = seconds(|| {
        fs.unmount().expect("unmounted");
        volume.close().expect("closed");
    })
    .0;
    drop((fs, volume));
    let before = HEAP.allocated();
    let (clean, (volume, fs)) = seconds(|| open(&image));
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let lookups = 20_000;
    let lookup = seconds(|| {
        for _ in 0..lookups {
            let number = random.random_range(0..count);
            let above = fs.lookup(fs.root(), (number / 1000 * 1000).to_string().as_bytes()).expect("found").id;
            let found = fs.lookup(above, number.to_string().as_bytes()).expect("found").id;
            fs.forget(found, 1);
            fs.forget(above, 1);
        }
    })
    .0;
    let memory = HEAP.allocated().saturating_sub(before) as f64 / 1e6;
    let unlink = seconds(|| {
        for number in 0..count {
            let above = fs.lookup(fs.root(), (number / 1000 * 1000).to_string().as_bytes()).expect("found").id;
            fs.unlink(above, number.to_string().as_bytes()).expect("unlinked");
            fs.forget(above, 1);
        }
    })
    .0;
    let freed = seconds(|| fs.sync_all().expect("durable")).0;
    drop((fs, volume));
    println!(
        "{count:>9} {:>9.1} {commit:>9.2} {scan:>7.2} {unmount:>10.2} {clean:>14.3} {:>10.1} {:>10.1} {freed:>9.2} {memory:>6.1}",
        create * 1e6 / count as f64,
        lookup * 1e6 / f64::from(lookups),
        unlink * 1e6 / count as f64,
    );
}
