//! Room, through the whole file system: full disks of both models, deleted, refilled, and overwritten at random for long.
//!
//! Nothing but names and places is kept, so that the disks are of true size; the checker watches. Small disks are
//! overwritten a little; `SMRFS_SPACE=bar` overwrites 8 GiB in blocks five times at each fill as well, `full` everything else too.

#[path = "../common/mod.rs"]
mod common;
mod life;

use common::{GIB, KIB, MIB, Rig, shape};
use life::{Commits, Life};
use smrfs::device::{Model, Shape};
use smrfs::superblock::data_shape;
use smrfs::units::GRANULE_BYTES;

const MODELS: [Model; 2] = [Model::StrictAppend, Model::Caveat];
/// Bands of a mounted disk that is not small.
const BAND: u64 = 32 * MIB;

/// Extent of the test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Quick,
    /// The bar: 8 GiB in blocks of 1 MiB.
    Bar,
    Full,
}

fn extent() -> Extent {
    match std::env::var("SMRFS_SPACE").as_deref() {
        Ok("bar") => Extent::Bar,
        Ok("full") => Extent::Full,
        _ => Extent::Quick,
    }
}

/// `full` where everything is asked for, `quick` otherwise.
fn either<T>(full: T, quick: T) -> T {
    if extent() == Extent::Full { full } else { quick }
}

/// The disk for data of a small image: what `smrkit mkfs` makes of that size.
fn image(model: Model, bytes: u64) -> Shape {
    let distance = (bytes / 1024).next_multiple_of(GRANULE_BYTES).min(MIB);
    let band = KIB << (bytes / 64 / KIB).ilog2();
    data_shape(&shape(model, bytes, distance, distance, band))
}

#[test]
fn files_fill_what_was_promised_of_large_disks() {
    for bytes in [8 * GIB, 64 * GIB] {
        for (did, dpid) in [(1, 1), (2, 0), (0, 2)] {
            let whole = shape(Model::Caveat, bytes, did * MIB, dpid * MIB, BAND);
            let usable = Rig::plain(data_shape(&whole), false).usable_bytes();
            assert!(usable * 100 >= bytes * 95, "{did}/{dpid} MB: {usable} of {bytes}");
        }
        for (did, dpid) in [(1, 1), (3, 1)] {
            let whole = shape(Model::StrictAppend, bytes, did * MIB, dpid * MIB, BAND);
            let gaps = (whole.bands.count - 1) * whole.bands.gap_granules * GRANULE_BYTES;
            let usable = Rig::plain(data_shape(&whole), false).usable_bytes();
            assert!(usable * 100 >= (bytes - gaps) * 90, "{did}/{dpid} MB: {usable} of {bytes} less {gaps}");
        }
    }
}

#[test]
fn a_disk_overwritten_in_blocks_never_lacks_room() {
    overwrite_in_blocks(GIB, &[85, 90, 95, 100], 0.7);
    match extent() {
        Extent::Quick => {}
        Extent::Bar => overwrite_in_blocks(8 * GIB, &[85, 90, 95], 5.0),
        Extent::Full => overwrite_in_blocks(8 * GIB, &[85, 90, 95, 100], 5.0),
    }
}

/// Disks of `bytes`, overwritten so many times over at each share of what files can fill, in per cent.
fn overwrite_in_blocks(bytes: u64, shares: &[u64], times: f64) {
    for model in MODELS {
        let upstream = (model == Model::Caveat).then_some((0, 2));
        for (did, dpid) in [(1, 1), (3, 1)].into_iter().chain(upstream) {
            let shape = shape(model, bytes, did * MIB, dpid * MIB, BAND);
            let about = format!("{did}/{dpid} MB, 1 MiB blocks");
            let mut life = Life::new(shape, &about, 64 * MIB..64 * MIB + 1, MIB..MIB + 1);
            let costs = life.overwritten(shares, times);
            if model == Model::Caveat && (did, dpid) == (1, 1) {
                assert!(costs[1].amplification <= 8.0 && costs[1].most_mib <= 32.0, "{:?}", costs[1]);
            }
        }
    }
}

#[test]
fn mixed_files_and_pieces_never_lack_room() {
    for model in MODELS {
        for commits in [Commits::Timer(64 * MIB), Commits::Each(20)] {
            let shape = shape(model, either(2048, 512) * MIB, MIB, MIB, BAND.min(either(BAND, 8 * MIB)));
            let about = "files of 1 KB to 100 MB, pieces of 4 KiB to 1 MiB";
            let mut life = Life::new(shape, about, KIB..either(100, 30) * MIB, 4 * KIB..MIB);
            life.commits = commits;
            life.overwritten(&[85, 95, 100], either(5.0, 0.3));
        }
    }
}

#[test]
fn small_images_never_lack_room() {
    for model in MODELS {
        for (bytes, commits) in
            [(64 * MIB, Commits::Never), (64 * MIB, Commits::Each(16)), (256 * MIB, Commits::Timer(64 * MIB))]
        {
            let mut life = Life::new(image(model, bytes), "4 KiB pieces", 4 * MIB..16 * MIB, 4 * KIB..4 * KIB + 1);
            life.commits = commits;
            life.overwritten(&[85, 95, 100], either(5.0, 0.1));
        }
        let mut life = Life::new(image(model, 64 * MIB), "files of 1 to 16 KB", KIB..16 * KIB, KIB..16 * KIB);
        life.replaces = true;
        life.commits = Commits::Timer(either(64, 4) * MIB);
        life.overwritten(&[85, 95, 100], either(5.0, 0.4));
    }
}
