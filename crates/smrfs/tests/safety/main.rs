//! The allocators of both models over a watched disk: random operations on random disks, and the books of allocator and
//! checker agree after each, no rule is broken, and nothing readable is ever damaged.
//!
//! `SMRFS_SAFETY_OPERATIONS` sets the operations in all (10^6 in CI).

mod checker;
#[path = "../../../smrkit/tests/common/count.rs"]
mod count;
mod host;
mod law;

use std::sync::Arc;

use count::count_from;
use host::{Host, Manner};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::device::caveat::CaveatScriptor;
use smrfs::device::modelled::Modelled;
use smrfs::device::strict::StrictAppend;
use smrfs::device::{Bands, HostManaged, Model, Shape};
use smrfs::space::Space;
use smrfs::space::bands::BandSpace;
use smrfs::space::bands::BandsOptions;
use smrfs::space::caveat::{Caveat, CaveatOptions, Placement};
use smrfs::testing::memory::Memory;
use smrfs::testing::memory::Power;
use smrfs::testing::shingled::{Destructible, Shingled, WriteHistory};
use smrfs::testing::stamped::Stamped;
use smrkit::drive::Drive;

const OPERATIONS_PER_DISK: u64 = 3000;

fn operations_wanted() -> u64 {
    count_from("SMRFS_SAFETY_OPERATIONS", 60_000)
}

/// Platters beneath a disk.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Beneath {
    /// Bytes, and the write history of the device.
    Memory,
    /// Stamps, and the simulator's own law.
    Stamps,
    /// Nothing but the write history of the device.
    Nothing,
}

fn disk(shape: &Shape, beneath: Beneath) -> Arc<dyn HostManaged> {
    let platters: Arc<dyn Destructible> = match beneath {
        Beneath::Memory => Arc::new(Memory::new(shape, Arc::new(Power::new()))),
        _ => {
            let drive = Drive::load("tiny-constant").unwrap();
            let drive = drive.with_capacity(shape.granules * shape.granule_bytes / 512).unwrap();
            match beneath {
                Beneath::Stamps => Arc::new(Stamped::new(drive, shape)),
                _ => Arc::new(Modelled::new(drive, shape).unwrap()),
            }
        }
    };
    match shape.model {
        Model::Caveat if beneath == Beneath::Stamps => Arc::new(CaveatScriptor::new(platters, *shape).unwrap()),
        Model::Caveat => Arc::new(Shingled::new(platters, *shape, WriteHistory::Blank).unwrap()),
        Model::StrictAppend => Arc::new(StrictAppend::new(platters, *shape, &[]).unwrap()),
    }
}

/// A distance: often none, one, or about the size of a block.
fn distance(random: &mut Pcg64Mcg, block: u64, most: u64) -> u64 {
    let distance = match random.random_range(0..6) {
        0 => 0,
        1 => random.random_range(0..4),
        2 => block + random.random_range(0..3) - 1,
        _ => random.random_range(0..=most),
    };
    distance.min(most)
}

fn manner(random: &mut Pcg64Mcg, block: u64, beneath: Beneath) -> Manner {
    Manner {
        write_max: random.random_range(1..=2 * block),
        fill: random.random_range(30..=100),
        bytes: beneath == Beneath::Memory,
        check_every: 97,
        fails: [0, 300, 60][random.random_range(0..3)],
        remounts: [0, 1000, 150][random.random_range(0..3)],
    }
}

/// One disk and its allocator.
struct Trial {
    shape: Shape,
    make: Box<dyn Fn() -> Box<dyn Space>>,
}

fn caveat(random: &mut Pcg64Mcg, granules: u64, block: u64, most: u64) -> Option<Trial> {
    let (did, dpid) = (distance(random, block, most), distance(random, block, most));
    let bands = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
    let shape = Shape { model: Model::Caveat, granule_bytes: 512, granules, did, dpid, bands };
    let options = CaveatOptions {
        placement: Placement::ALL[random.random_range(0..Placement::ALL.len())],
        split: random.random_bool(0.7),
        defragment: random.random_bool(0.8),
        block_granules: block,
    };
    Caveat::new(&shape, options.clone()).ok()?;
    Some(Trial { shape, make: Box::new(move || Box::new(Caveat::new(&shape, options.clone()).unwrap())) })
}

fn strict(random: &mut Pcg64Mcg, granules: u64, block: u64, most: u64) -> Option<Trial> {
    let (did, dpid) = (distance(random, block, most), distance(random, block, most));
    let count = random.random_range(8..40);
    let bands = Bands {
        count,
        granules: (granules / count).max(2),
        gap_granules: did.max(dpid) + random.random_range(0..3),
        max_open: random.random_range(3..9),
    };
    let granules = bands.span(count - 1).end().0 + random.random_range(0..2 * bands.gap_granules + 1);
    let shape = Shape { model: Model::StrictAppend, granule_bytes: 512, granules, did, dpid, bands };
    let options = if random.random_bool(0.5) { BandsOptions::paper() } else { BandsOptions::default() };
    let options = BandsOptions { block_granules: block, event_granules: 4 * bands.granules, ..options };
    BandSpace::new(&shape, options).ok()?;
    Some(Trial { shape, make: Box::new(move || Box::new(BandSpace::new(&shape, options).unwrap())) })
}

/// Runs trials until this many operations are done.
fn holds(operations: u64, salt: u64, trial: fn(&mut Pcg64Mcg, u64, u64, u64) -> Option<Trial>) {
    let (mut done, mut moved, mut disks, mut refused) = (0, 0, 0, 0);
    for seed in 0.. {
        let mut random = Pcg64Mcg::seed_from_u64(seed << 8 | salt);
        let granules = random.random_range(200..4000);
        let block = random.random_range(1..40);
        let most = granules / [12, 12, 4][random.random_range(0..3)];
        let Some(Trial { shape, make }) = trial(&mut random, granules, block, most) else { continue };
        let beneath = if random.random_bool(0.5) { Beneath::Memory } else { Beneath::Stamps };
        let manner = manner(&mut random, block, beneath);
        eprintln!("seed {seed}: {shape:?} over {beneath:?}");
        let mut host = Host::new(disk(&shape, beneath), &*make, manner, seed);
        while host.operations < OPERATIONS_PER_DISK.min(operations) {
            host.step();
        }
        host.check();
        (done, moved, disks, refused) = (done + host.operations, moved + host.moved, disks + 1, refused + host.refused);
        if done >= operations {
            break;
        }
    }
    println!("{done} operations on {disks} disks, {moved} granules moved, {refused} writes without room");
    assert!(moved > 0, "nothing was ever cleaned");
}

#[test]
fn caveat_scriptor_never_writes_where_the_law_forbids() {
    holds(operations_wanted() * 6 / 10, 1, caveat);
}

#[test]
fn strict_append_only_appends_and_never_resets_what_may_be_read() {
    holds(operations_wanted() * 3 / 10, 2, strict);
}

/// DID and DPID of several MB, at 4 KiB a granule and blocks of 1 MB.
#[test]
fn the_same_on_large_disks() {
    let operations = operations_wanted() / 10;
    let mut done = 0;
    for seed in 0.. {
        let mut random = Pcg64Mcg::seed_from_u64(seed << 8 | 3);
        let trial = if seed % 3 == 2 { strict } else { caveat };
        let granules = random.random_range(60_000..600_000);
        let Some(Trial { shape, make }) = trial(&mut random, granules, 256, 1100) else { continue };
        let manner = Manner { check_every: 5000, write_max: 1500, ..manner(&mut random, 256, Beneath::Nothing) };
        eprintln!("seed {seed}: {shape:?}");
        let mut host = Host::new(disk(&shape, Beneath::Nothing), &*make, manner, seed);
        while host.operations < (2 * OPERATIONS_PER_DISK).min(operations) {
            host.step();
        }
        host.check();
        done += host.operations;
        if done >= operations {
            return;
        }
    }
}
