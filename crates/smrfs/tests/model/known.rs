//! Lives of SMRfs leave on the disk what they did: bytes moved, room, calls of the store, and where the data lies.
//!
//! `UPDATE=1` writes `known.txt` anew. A line that moves is a result that changes.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use smrfs::device::Model;
use smrfs::fs::FsOptions;

use crate::counted::{Counted, Counts};
use crate::kept_text::same;
use crate::life::{Life, Op};
use crate::rig::Rig;

const SEEDS: u64 = 6;
const OPERATIONS: usize = 600;
const EVERY: usize = 60;

/// Counts of the mount, the room that there is, and the places of the data.
fn state(rig: &Rig) -> String {
    let (usage, count) = (rig.fs.usage().unwrap(), rig.fs.statistics());
    let places = rig.fs.live();
    let sum: u64 = places.iter().map(|(span, _)| span.at.0 * 31 + span.count * 7).sum();
    format!(
        "host {} {}, disk {} {}, moved {} in {}, resets {}, commits {}, stalls {}, most {}, buffered {} of {}; \
         free {} of {}, live {}, promised {}, {:?}; {} places, sum {sum}",
        count.host_written_bytes,
        count.host_read_bytes,
        count.written_bytes,
        count.read_bytes,
        count.moved_bytes,
        count.moves,
        count.resets,
        count.commits,
        count.stalls,
        count.most_moved_for_one_write_bytes,
        count.buffered_bytes,
        count.dirty_files,
        usage.free,
        usage.usable,
        usage.live,
        usage.promised,
        usage.counts,
        places.len(),
    )
}

fn told(model: Model, seed: u64, options: FsOptions) -> String {
    let mut random = Pcg64Mcg::seed_from_u64(1000 + seed);
    let counts = Arc::new(Counts::default());
    let kept = counts.clone();
    let rig = Rig::with_store(model, options, |store| Arc::new(Counted { store, counts: kept }));
    let mut life = Life::new(rig);
    let mut text = String::new();
    for number in 1..=OPERATIONS {
        life.step(&Op::random(&mut random));
        if number % EVERY == 0 {
            writeln!(text, "{model:?} {seed} {number}: {}; store {:?}", state(&life.rig), counts.take()).unwrap();
        }
    }
    text
}

#[test]
fn lives_leave_on_the_disk_what_they_did() {
    let models = [Model::StrictAppend, Model::Caveat];
    let lives = models.into_iter().flat_map(|model| (0..SEEDS).map(move |seed| (model, seed)));
    let made: String = lives.map(|(model, seed)| told(model, seed, super::options())).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../smrfs/tests/model/known.txt");
    same(&path, &made);
}
