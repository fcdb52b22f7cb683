//! A disk and a store of different moments, as a stale copy or one that was made while programs wrote: whoever reads a granule gets what
//! that file had there, or an error. `SMRFS_MIXED` is the number of pairs for each disk.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::data::ReadBuffer;
use smrfs::meta::memory::StoreLoss;
use smrfs::testing::memory::{Power, WriteLoss};

use crate::OPERATIONS;
use crate::check::names;
use crate::count::count_from;
use crate::rig::{Disk, GRANULE};
use crate::run::Run;

/// Pairs of moments of one run.
const PAIRS: u64 = 10;

/// Pairs that were refused, and granules that were read and that were found to be another's.
#[derive(Debug, Default)]
struct Found {
    refused: u64,
    right: u64,
    foreign: u64,
}

fn pair(run: &Run, (of_disk, of_store): (u64, u64), seed: u64, found: &mut Found) {
    let losses = (WriteLoss::None, StoreLoss::Latest);
    let left = run.rig.survivor_of_two(of_disk, of_store, losses, seed, Power::new());
    let Ok(mounted) = left.mount() else {
        found.refused += 1;
        return;
    };
    for (place, id) in names(run, &mounted.fs) {
        let Ok(attr) = mounted.fs.attributes(id) else { continue };
        for at in (0..attr.size).step_by(GRANULE as usize) {
            let mut bytes = vec![0; GRANULE.min(attr.size - at) as usize];
            if mounted.fs.read(id, at, ReadBuffer::Bytes(&mut bytes)).is_err() {
                found.foreign += 1;
                continue;
            }
            found.right += 1;
            let had = |content: &[u8], i: usize| content.get(at as usize + i).copied().unwrap_or(0);
            let contents = &run.contents[&id];
            let is_own = |i: usize, byte: u8| byte == 0 || contents.iter().any(|content| had(&content.what, i) == byte);
            let foreign = (0..).zip(&bytes).find(|&(i, &byte)| !is_own(i, byte));
            assert_eq!(
                foreign, None,
                "disk {of_disk}, store {of_store}: {place:?} ({id}) shows another's data at {at}"
            );
        }
    }
}

fn moments_that_do_not_fit(disk: Disk) {
    let mut found = Found::default();
    let pairs: u64 = count_from("SMRFS_MIXED", 100);
    for seed in 1..=pairs.div_ceil(PAIRS) {
        let run = Run::new(disk, seed, OPERATIONS);
        let dice = &mut Pcg64Mcg::seed_from_u64(seed);
        for _ in 0..PAIRS {
            let mut moment = || dice.random_range(run.first..=run.rig.power.operations() + 1);
            pair(&run, (moment(), moment()), seed, &mut found);
        }
    }
    println!("{disk:?}: {found:?}");
    assert!(found.right > 0 && found.foreign > 0, "{found:?}");
}

#[test]
fn data_of_another_file_is_found_on_strict_append() {
    moments_that_do_not_fit(Disk::StrictAppend);
}

#[test]
fn data_of_another_file_is_found_on_caveat_scriptor() {
    moments_that_do_not_fit(Disk::Caveat);
}

#[test]
fn data_of_another_file_is_found_on_zones() {
    moments_that_do_not_fit(Disk::Zoned);
}
