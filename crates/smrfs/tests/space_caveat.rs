//! The allocator of Caveat-Scriptor, driven without a file system: filled, emptied, refilled, overwritten at random, nearly
//! full, for several times its capacity. It must never say that there is no room, and not move too much for one write.
//!
//! `SMRFS_SPACE=full` takes granules of 4 KiB and 5 times the capacity; `SMRFS_SPACE=table` prints a table of many settings.

#[path = "../../smrkit/tests/common/count.rs"]
mod count;

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::device::{Bands, Model, Shape};
use smrfs::space::caveat::{Caveat, CaveatOptions, Placement};
use smrfs::space::{AllocationRequest, CleaningStep, Space, Trigger};
use smrfs::units::{Granule, NodeId, Owner, Span};

use count::count_from;

const NOWHERE: u64 = u64::MAX;
const MIB: u64 = 1 << 20;

/// A disk with files all of one size, whose granules are numbered through.
struct Driver {
    space: Caveat,
    block: u64,
    file_granules: u64,
    /// Place of each granule of the files.
    places: Vec<u64>,
    /// Place by the durable maps.
    durable: Vec<u64>,
    /// True if power cuts are to come: then durable maps are kept.
    cuts: bool,
    retired: Vec<Span>,
    /// Retired pieces that are released together, as a commit does.
    commit_every: usize,
    host: u64,
    moved: u64,
    most_for_one: u64,
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
            durable: places.clone(),
            cuts: false,
            places,
            retired: vec![],
            commit_every: 1,
            host: 0,
            moved: 0,
            most_for_one: 0,
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
        let after = (!at.is_multiple_of(self.file_granules))
            .then(|| self.places[at as usize - 1])
            .filter(|&place| place != NOWHERE);
        let want = AllocationRequest {
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
            let step = self.space.clean(Trigger::Stuck)?;
            self.carry_out(step);
        }
    }

    fn carry_out(&mut self, step: CleaningStep) {
        match step {
            CleaningStep::Move(span, owner) => {
                let want = AllocationRequest { owner, after: None, count: span.count, more: 0, moving: true };
                let to = self.space.place(&want).expect("the cleaner has looked");
                assert_eq!(to.count, span.count);
                self.put((owner.file.0 - 1) * self.file_granules + owner.granule, to);
                self.moved += span.count;
            }
            CleaningStep::Settle => self.settle(),
            CleaningStep::Reset(_) => unreachable!("no bands"),
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

    /// Forgets granules of files that are no longer where they were.
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
        if self.cuts {
            self.durable.copy_from_slice(&self.places);
        }
        for span in std::mem::take(&mut self.retired) {
            self.space.release(span);
        }
    }
}

impl Driver {
    /// The power is cut, and the disk mounted again from the durable maps.
    fn power_cut(&mut self, shape: &Shape) {
        self.space = Caveat::new(shape, self.space.options.clone()).expect("possible");
        self.places.copy_from_slice(&self.durable);
        self.retired.clear();
        let mut at = 0;
        while at < self.places.len() {
            let place = self.places[at];
            let same =
                (1..).take_while(|&next| self.places.get(at + next).is_some_and(|&other| other == place + next as u64));
            let count = if place == NOWHERE { 1 } else { 1 + same.count() };
            let owner = self.owner(at as u64);
            let count = count.min((self.file_granules - owner.granule) as usize);
            if place != NOWHERE {
                assert!(self.space.adopt(Span::new(place, count as u64), owner));
            }
            at += count;
        }
        self.space.start(&[]);
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

/// Cost of random overwriting.
#[derive(Debug)]
struct Cost {
    amplification: f64,
    most_for_one_mib: f64,
}

/// Fills all that is usable, deletes half of it here and there, refills to `live` granules, and overwrites pieces of `piece`
/// granules at random, `times` the capacity. Panics where room is lacking.
fn overwrite(shape: &Shape, options: CaveatOptions, live: u64, piece: Range<u64>, times: f64) -> Cost {
    let mut driver = Driver::new(shape, options, u64::MAX);
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let (block, usable) = (driver.block, driver.space.usable());
    let fill = |driver: &mut Driver, until: u64| {
        for at in (0..until).step_by(block as usize) {
            assert!(driver.write(at..(at + block).min(until)), "no room at {at} while filling to {until}");
        }
    };
    fill(&mut driver, usable);
    for at in (0..usable).step_by(block as usize).filter(|_| random.random_bool(0.5)) {
        driver.forget(at..(at + block).min(usable));
    }
    driver.forget(live..usable);
    driver.settle();
    fill(&mut driver, live);
    let capacity = shape.granules as f64;
    // The first third is not counted.
    for share in [times / 3.0, times * 2.0 / 3.0] {
        (driver.host, driver.moved, driver.most_for_one) = (0, 0, 0);
        while (driver.host as f64) < capacity * share {
            let count = random.random_range(piece.clone());
            let at = random.random_range(0..live / count) * count;
            assert!(
                driver.write(at..at + count),
                "no room after {} of {capacity}: {:?}",
                driver.host,
                driver.space.counts()
            );
        }
    }
    driver.space.check().expect("what was counted step by step is so");
    Cost {
        amplification: (driver.host + driver.moved) as f64 / driver.host as f64,
        most_for_one_mib: driver.most_for_one as f64 * shape.granule_bytes as f64 / MIB as f64,
    }
}

/// Disks in granules of 64 KiB; in `SMRFS_SPACE=full` of 4 KiB. Blocks are 1 MiB.
fn setting(bytes: u64, did_mib: u64, dpid_mib: u64) -> (Shape, CaveatOptions) {
    let granule = if full() { 4 << 10 } else { 64 << 10 };
    let options = CaveatOptions { block_granules: MIB / granule, ..CaveatOptions::default() };
    (shape(granule, bytes, did_mib * MIB, dpid_mib * MIB), options)
}

fn full() -> bool {
    std::env::var("SMRFS_SPACE").is_ok_and(|how| how == "full")
}

fn table() -> bool {
    std::env::var("SMRFS_SPACE").is_ok_and(|how| how == "table")
}

#[test]
fn one_megabyte_overwrites_at_90_percent_move_little() {
    let (shape, options) = setting(8192 * MIB, 1, 1);
    let times = if full() { 5.0 } else { 1.5 };
    let block = options.block_granules;
    let cost = overwrite(&shape, options, shape.granules * 9 / 10, block..block + 1, times);
    println!("raw fill 0.90, DID/DPID 1/1 MB: {cost:.2?}");
    assert!(cost.amplification <= 8.0 && cost.most_for_one_mib <= 32.0, "{cost:?}");
}

#[test]
fn nearly_full_disks_are_overwritten_without_end() {
    for (did, dpid) in [(1, 1), (3, 1)] {
        for percent in [85, 90, 95, 100] {
            let (bytes, times) = if full() || table() { (8192 * MIB, 5.0) } else { (1024 * MIB, 2.0) };
            let (shape, options) = setting(bytes, did, dpid);
            let usable = Caveat::new(&shape, options.clone()).expect("possible").usable();
            let block = options.block_granules;
            let all = [block..block + 1, 1..block + 1, 1..2];
            // Small pieces take long: next to the table on the small disks only.
            for piece in all.into_iter().take(if full() { 1 } else { 3 }) {
                let times = if piece.end < block { times / 4.0 } else { times };
                let cost = overwrite(&shape, options.clone(), usable * percent / 100, piece.clone(), times);
                println!(
                    "{did}/{dpid} MB, {percent} % of usable {:.3}, pieces of {piece:?}: {cost:.2?}",
                    usable as f64 / shape.granules as f64
                );
            }
        }
    }
}

#[test]
fn raw_fills_of_the_table() {
    for (did, dpid) in [(1, 1), (3, 1)].into_iter().filter(|_| table()) {
        for percent in [85, 90, 93, 95] {
            let (shape, options) = setting(8192 * MIB, did, dpid);
            let usable = Caveat::new(&shape, options.clone()).expect("possible").usable();
            let live = shape.granules * percent / 100;
            if live <= usable {
                let cost = overwrite(&shape, options, live, 16..17, 5.0);
                println!("{did}/{dpid} MB, raw fill {percent} %: {cost:.2?}");
            }
        }
    }
}

#[test]
fn random_disks_never_lack_room_that_cleaning_could_make() {
    for seed in 0..count_from("SMRFS_DISKS", 10) {
        random_disk(seed);
    }
}

fn random_disk(seed: u64) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let granules = 1 << random.random_range(6..12);
    let granules = random.random_range(granules..2 * granules);
    let gap = (granules / 30).min(64);
    let shape = shape(1, granules, random.random_range(0..=gap), random.random_range(0..=gap));
    let options = CaveatOptions {
        block_granules: random.random_range(1..=16),
        placement: Placement::ALL[random.random_range(0..Placement::ALL.len())],
        ..CaveatOptions::default()
    };
    let about = format!("seed {seed}: {shape:?} {options:?}");
    let Ok(_) = Caveat::new(&shape, options.clone()) else { return };
    let mut driver = Driver::new(&shape, options, random.random_range(1..=granules));
    driver.commit_every = random.random_range(1..20);
    driver.cuts = true;
    let usable = driver.space.usable();
    let longest = random.random_range(1..=(4 * driver.block).min(usable));
    let mut written = 0;
    while written < 20 * granules {
        let count = random.random_range(1..=longest);
        let at = random.random_range(0..=usable - count);
        match random.random_range(0..1000) {
            0 => driver.power_cut(&shape),
            1..50 => driver.forget(at..at + count),
            _ => {
                assert!(driver.write(at..at + count), "{about}: no room, {usable} usable, {:?}", driver.space.counts());
                written += count;
            }
        }
        if random.random_bool(0.05) {
            driver.space.check().unwrap_or_else(|error| panic!("{about}: {error}"));
        }
    }
}
