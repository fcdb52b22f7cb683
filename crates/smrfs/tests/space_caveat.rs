//! The allocator of Caveat-Scriptor, driven without a file system: filled, emptied, refilled, overwritten at random, nearly
//! full, for several times its capacity. It must never say that there is no room, and not move too much for one write.
//!
//! `SMRFS_SPACE=full` takes granules of 4 KiB and 5 times the capacity; `SMRFS_SPACE=table` prints a table of many settings.

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::device::{Bands, Model, Shape};
use smrfs::space::caveat::{Caveat, CaveatOptions};
use smrfs::space::{Space, Step, Trigger, Want};
use smrfs::units::{Granule, NodeId, Owner, Span};

const NOWHERE: u64 = u64::MAX;
const MIB: u64 = 1 << 20;

/// A disk with files all of one size, whose granules are numbered through.
struct Driver {
    space: Caveat,
    block: u64,
    file_granules: u64,
    /// Where each granule of the files is.
    places: Vec<u64>,
    retired: Vec<Span>,
    /// Retired pieces that are released together, as a commit does.
    commit_every: usize,
    host: u64,
    moved: u64,
    most_for_one: u64,
    stuck: u64,
    settles: u64,
}

impl Driver {
    fn new(shape: &Shape, options: CaveatOptions, file_granules: u64) -> Driver {
        let block = options.block_granules;
        let space = Caveat::new(shape, options).expect("possible");
        let places = vec![NOWHERE; space.usable() as usize];
        Driver {
            space,
            block,
            file_granules,
            places,
            retired: vec![],
            commit_every: 1,
            host: 0,
            moved: 0,
            most_for_one: 0,
            stuck: 0,
            settles: 0,
        }
    }

    fn owner(&self, granule: u64) -> Owner {
        Owner { file: NodeId(1 + granule / self.file_granules), granule: granule % self.file_granules }
    }

    /// Writes granules of the files, some of which may be on the disk already; tells whether there was room.
    fn write(&mut self, granules: Range<u64>) -> bool {
        let before = self.moved;
        let mut at = granules.start;
        while at < granules.end {
            let file_end = (at / self.file_granules + 1) * self.file_granules;
            let count = granules.end.min(file_end) - at;
            let Some(span) = self.room(at, count) else { return false };
            self.put(at, span);
            self.host += span.count;
            at += span.count;
            if self.retired.len() >= self.commit_every {
                self.settle();
            }
        }
        while let Some(why) = self.space.wants_cleaning(false) {
            match self.space.clean(why) {
                Some(step) => self.carry_out(step),
                None => break,
            }
        }
        self.most_for_one = self.most_for_one.max(self.moved - before);
        true
    }

    fn room(&mut self, at: u64, count: u64) -> Option<Span> {
        let after =
            (at % self.file_granules > 0).then(|| self.places[at as usize - 1]).filter(|&place| place != NOWHERE);
        let want = Want {
            owner: self.owner(at),
            after: after.map(|place| Granule(place + 1)),
            count: count.min(self.block),
            more: count - count.min(self.block),
            moving: false,
        };
        loop {
            if let Some(span) = self.space.place(&want) {
                return Some(span);
            }
            self.stuck += 1;
            let step = self.space.clean(Trigger::Stuck)?;
            self.carry_out(step);
        }
    }

    fn carry_out(&mut self, step: Step) {
        match step {
            Step::Move(span, owner) => {
                let want = Want { owner, after: None, count: span.count, more: 0, moving: true };
                let to = self.space.place(&want).expect("the cleaner has looked");
                assert_eq!(to.count, span.count);
                self.put((owner.file.0 - 1) * self.file_granules + owner.granule, to);
                self.moved += span.count;
            }
            Step::Settle => self.settle(),
            Step::Reset(_) => unreachable!("no bands"),
        }
    }

    /// `span` now holds the files' granules from `at` on.
    fn put(&mut self, at: u64, span: Span) {
        self.space.written(span, self.owner(at));
        self.forget(at..at + span.count);
        for granule in 0..span.count {
            self.places[(at + granule) as usize] = span.at.0 + granule;
        }
    }

    /// Those granules of the files are no longer where they were.
    fn forget(&mut self, granules: Range<u64>) {
        let mut run: Option<Span> = None;
        for granule in granules {
            let place = std::mem::replace(&mut self.places[granule as usize], NOWHERE);
            match &mut run {
                _ if place == NOWHERE => {}
                Some(span) if span.end().0 == place => span.count += 1,
                _ => self.retire(run.replace(Span::new(place, 1))),
            }
        }
        self.retire(run);
    }

    fn retire(&mut self, span: Option<Span>) {
        if let Some(span) = span {
            self.space.retire(span);
            self.retired.push(span);
        }
    }

    fn settle(&mut self) {
        self.settles += 1;
        for span in std::mem::take(&mut self.retired) {
            self.space.release(span);
        }
    }
}

fn shape(granule_bytes: u64, bytes: u64, did_bytes: u64, dpid_bytes: u64) -> Shape {
    Shape {
        model: Model::Caveat,
        granule_bytes,
        granules: bytes / granule_bytes,
        did: did_bytes / granule_bytes,
        dpid: dpid_bytes / granule_bytes,
        bands: Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 },
    }
}

/// Fills to `fill` of the raw disk and overwrites at random pieces of `piece`; gives amplification and the most moved for one.
fn overwrite(
    shape: &Shape,
    options: CaveatOptions,
    fill: f64,
    piece: Range<u64>,
    times: f64,
) -> Result<(f64, u64), String> {
    let mut driver = Driver::new(shape, options, 1 << 40);
    let live = ((shape.granules as f64 * fill) as u64).min(driver.space.usable());
    let block = driver.block;
    let mut at = 0;
    while at < live {
        if !driver.write(at..(at + block).min(live)) {
            return Err(format!("no room at {at} while filling to {live}"));
        }
        at += block;
    }
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let mut measured = (0, 0, 0);
    let goal = (shape.granules as f64 * times) as u64;
    let mut written = 0;
    while written < goal {
        let count = random.random_range(piece.clone());
        let slots = live / count;
        let at = random.random_range(0..slots) * count;
        if !driver.write(at..at + count) {
            return Err(format!("no room after {written} of {goal}: {:?}", driver.space.counts()));
        }
        written += count;
        if written < goal / 3 {
            measured = (driver.host, driver.moved, 0);
            driver.most_for_one = 0;
            driver.stuck = 0;
        }
    }
    let (host, moved) = (driver.host - measured.0, driver.moved - measured.1);
    eprint!(" [stuck {} settles {}]", driver.stuck, driver.settles);
    Ok(((host + moved) as f64 / host as f64, driver.most_for_one))
}

#[test]
fn table() {
    let granule = 64 << 10;
    for (did, dpid) in [(1, 1), (3, 1)] {
        for fill in [0.85, 0.90, 0.95] {
            let shape = shape(granule, 8192 * MIB, did * MIB, dpid * MIB);
            let options = CaveatOptions { block_granules: 16, ..CaveatOptions::default() };
            let begin = std::time::Instant::now();
            let result = overwrite(&shape, options, fill, 16..17, 3.0);
            eprintln!(
                " {did}/{dpid} {fill}: {:?} {:?}",
                result.map(|(amplification, most)| (amplification, most as f64 / 16.0)),
                begin.elapsed()
            );
        }
    }
}
