//! An image's bytes against a model, with a journal and without one.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrkit::medium::HeldSectors;
use smrkit::units::SECTOR_BYTES;

use super::storage::Storage;
use super::store::{HeldRange, Store};

const SECTOR: usize = SECTOR_BYTES as usize;
const SECTORS: u64 = 300;

struct Scene {
    files: [Arc<File>; 2],
    journal_bytes: Option<u64>,
    store: Arc<Store>,
    expected: Vec<u8>,
    held: Vec<(Arc<HeldRange>, Vec<u8>)>,
}

fn bytes(range: &Range<u64>) -> Range<usize> {
    range.start as usize * SECTOR..range.end as usize * SECTOR
}

impl Scene {
    fn new(journal_bytes: Option<u64>) -> Scene {
        let files = [(); 2].map(|()| Arc::new(tempfile::tempfile().unwrap()));
        files[0].set_length(SECTORS * SECTOR_BYTES).unwrap();
        let store = open(&files, journal_bytes);
        Scene { files, journal_bytes, store, expected: vec![0; SECTORS as usize * SECTOR], held: Vec::new() }
    }

    /// Does something at random.
    fn act(&mut self, random: &mut impl Rng, number: u8) {
        let some = |random: &mut dyn Rng, within: u64| {
            let most = [8, 40][random.random_range(0..2)].min(within);
            let n = random.random_range(1..=most);
            let start = random.random_range(0..=within - n);
            start..start + n
        };
        let range = some(random, SECTORS);
        let (at, own) = (range.start * SECTOR_BYTES, bytes(&range));
        match random.random_range(0..20) {
            0..5 => {
                let data: Vec<u8> = own.clone().map(|at| number ^ (at / 7) as u8).collect();
                self.store.write(at, &data).unwrap();
                self.expected[own].copy_from_slice(&data);
            }
            5 => {
                self.store.zero(own.start as u64..own.end as u64).unwrap();
                self.expected[own].fill(0);
            }
            6 => {
                self.store.destroy(own.start as u64..own.end as u64).unwrap();
                self.expected[own].fill(0xDB);
            }
            7..11 => {
                let held = self.store.hold(own.start as u64..own.end as u64);
                self.held.push((held, self.expected[own].to_vec()));
            }
            11..18 if !self.held.is_empty() => {
                let (held, data) = &self.held[random.random_range(0..self.held.len())];
                let part = some(random, (data.len() / SECTOR) as u64);
                let n = part.end - part.start;
                // Half the times where it came from, as cleaning does.
                let to =
                    if random.random() { range.start.min(SECTORS - n) } else { random.random_range(0..=SECTORS - n) };
                let from = part.start * SECTOR_BYTES..part.end * SECTOR_BYTES;
                self.store.write_held(to * SECTOR_BYTES, held, from).unwrap();
                self.expected[bytes(&(to..to + n))].copy_from_slice(&data[bytes(&part)]);
            }
            18 => drop(self.held.drain(..self.held.len().saturating_sub(2))),
            19 => self.store.sync().unwrap(),
            _ => {}
        }
    }

    fn check(&self, when: &str) {
        let mut found = vec![0; self.expected.len()];
        self.store.read(0, &mut found).unwrap();
        assert!(found == self.expected, "{when}");
        for (held, expected) in &self.held {
            let mut found = vec![1; expected.len()];
            held.read(0, &mut found).unwrap();
            assert!(found == *expected, "held, {when}");
        }
    }

    /// The process is killed, or ends in good order, and the image is opened again.
    fn reopen(&mut self, is_closed: bool) {
        self.held.clear();
        if is_closed {
            self.store.close().unwrap()
        } else {
            self.store.sync().unwrap()
        }
        self.store = open(&self.files, self.journal_bytes);
    }
}

fn open(files: &[Arc<File>; 2], journal_bytes: Option<u64>) -> Arc<Store> {
    Arc::new(Store::open(files[0].clone(), 0..SECTORS * SECTOR_BYTES, files[1].clone(), journal_bytes, 1).unwrap())
}

#[test]
fn bytes_are_as_written_and_what_is_held_as_it_was() {
    for journal_bytes in [None, Some(20 << 10), Some(1 << 20)] {
        for seed in 0..40 {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let mut scene = Scene::new(journal_bytes);
            for number in 0..120 {
                scene.act(&mut random, number);
                scene.check(&format!("{journal_bytes:?}, seed {seed}, act {number}"));
                if number % 50 == 49 {
                    scene.reopen(seed % 2 == 0);
                    scene.check(&format!("{journal_bytes:?}, seed {seed}, opened again after {number}"));
                }
            }
        }
    }
}

/// Moves a piece, while it changes, that is longer than a single copy.
#[test]
fn long_pieces_are_moved_before_they_change() {
    const LONG: usize = (5 << 20) / 2;
    let files = [(); 2].map(|()| Arc::new(tempfile::tempfile().unwrap()));
    let length = 3 * LONG as u64;
    files[0].set_length(length).unwrap();
    let open = || Store::open(files[0].clone(), 0..length, files[1].clone(), Some(64 << 20), 1).unwrap();
    let [old, new] = [7, 11].map(|by| (0..LONG).map(|at| (at / 600 * by % 251) as u8).collect::<Vec<u8>>());
    let store = open();
    store.write(0, &old).unwrap();
    store.close().unwrap();
    let store = Arc::new(open());
    store.write_held(LONG as u64, &store.hold(0..LONG as u64), 0..LONG as u64).unwrap();
    store.write(0, &new).unwrap();
    store.close().unwrap();
    let mut found = vec![0; 2 * LONG];
    open().read(0, &mut found).unwrap();
    assert!(found[..LONG] == new && found[LONG..] == old);
}

#[test]
fn what_is_freed_is_known_to_take_no_room() {
    // As finely as it is known what the file system has allocated.
    const PART: u64 = 1 << 20;
    for journal_bytes in [None, Some(1 << 20)] {
        let files = [(); 2].map(|()| Arc::new(tempfile::tempfile().unwrap()));
        files[0].set_length(8 * PART).unwrap();
        let store = open(&files, journal_bytes);
        assert!(store.is_hole(0..8 * PART));
        for part in 1..4 {
            store.write(part * PART + SECTOR_BYTES, &[7; SECTOR]).unwrap();
        }
        let holes = || (0..8).map(|part| store.is_hole(part * PART..(part + 1) * PART)).collect::<Vec<_>>();
        assert_eq!(holes(), [true, false, false, false, true, true, true, true]);
        store.punch(2 * PART..3 * PART).unwrap();
        assert_eq!(holes(), [true, false, true, false, true, true, true, true]);
        store.punch(PART..2 * PART - SECTOR_BYTES).unwrap();
        assert_eq!(holes(), [true, false, true, false, true, true, true, true], "only whole parts are known");
        store.zero(0..8 * PART).unwrap();
        assert!(store.is_hole(0..8 * PART));
    }
}
