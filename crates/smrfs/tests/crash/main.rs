//! Power cuts at every write of disk and store of recorded runs, in memory: what was promised is there, and nothing is mixed.
//!
//! Of what was not flushed or synced all, nothing, the latest or anything may be lost. Recovery is cut again. The number of
//! cuts is `SMRFS_CUTS`, or some thousands; each is named by seed, operation and losses.

mod bounded;
mod check;
#[path = "../../../smrkit/tests/common/count.rs"]
mod count;
mod faults;
mod mixed;
mod rig;
mod run;
mod stories;
#[path = "../common/watch.rs"]
mod watch;
#[path = "../common/zones.rs"]
mod zones;

use smrfs::meta::Maps;
use smrfs::meta::memory::StoreLoss;
use smrfs::testing::memory::WriteLoss as DiskLoss;

use count::count_from;
use rig::Disk;
use run::Run;

/// Operations of a run; each makes several writes of disk and store.
const OPERATIONS: usize = 250;

fn cuts() -> u64 {
    count_from("SMRFS_CUTS", 4000)
}

fn every_cut_of_runs(disk: Disk) {
    let (mut done, mut seed, mut out_of_order) = (0, 0, 0);
    let (mut moves, mut resets, mut spills) = (0, 0, 0);
    while done < cuts() / 2 {
        seed += 1;
        let run = Run::new(disk, seed, OPERATIONS);
        let cleaned = run.cleaned();
        (moves, resets) = (moves + cleaned.0, resets + cleaned.1);
        spills += run.rig.store.spills().expect("the parts").len();
        for cut in run.first..=run.rig.power.operations() + 1 {
            let loss = DiskLoss::ALL[(cut + seed) as usize % 4];
            for store in [StoreLoss::Latest, StoreLoss::Any] {
                out_of_order += check::cut(&run, seed, cut, (loss, store));
            }
            done += 1;
        }
    }
    println!(
        "{disk:?}: {done} cuts of {seed} runs, each with two kinds of loss; {moves} moves, {resets} resets, {spills} parts"
    );
    println!("{out_of_order} files with some of what was not synced, and not the first of it");
    // Full disks are rare in these runs. (Without writing buffers out first it is one file in four cuts.)
    assert!(10 * out_of_order as u64 <= done, "writes are made durable out of order");
    assert!(moves > 0 && spills > 0, "runs that do not clean and spill show nothing");
}

#[test]
fn power_cuts_on_strict_append_take_nothing_that_was_promised() {
    every_cut_of_runs(Disk::StrictAppend);
}

#[test]
fn power_cuts_on_caveat_scriptor_take_nothing_that_was_promised() {
    every_cut_of_runs(Disk::Caveat);
}

#[test]
fn power_cuts_on_zones_take_nothing_that_was_promised() {
    every_cut_of_runs(Disk::Zoned);
}
