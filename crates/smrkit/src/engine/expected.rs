//! Check mode for arrays: what the host wrote last, against what it gets back.
//!
//! A read is compared with what was written before it was sent; an array serves commands for the same sectors in the order of
//! their coming.

use std::collections::BTreeMap;

use crate::array::Words;
use crate::error::{DiskResult, Fault};
use crate::medium::Stamp;
use crate::request::{Op, Request};
use crate::units::Lba;

const PAGE: u64 = 512;

/// What the host expects of each sector of an array.
#[derive(Default)]
pub(super) struct Expected {
    /// The word last written to each LBA; 0 where the host owns nothing.
    pages: BTreeMap<u64, Box<[u64; PAGE as usize]>>,
    writes: u64,
}

impl Expected {
    /// What a request writes; or for a read what it must find, 0 where anything may be.
    pub fn of(&mut self, request: &Request) -> Words {
        let sectors = u64::from(request.sectors);
        match request.op {
            Op::Read => (0..sectors).map(|i| self.word(request.lba + i)).collect(),
            Op::Write => {
                self.writes += 1;
                let words: Words = (0..sectors).map(|i| Stamp::new(request.lba + i, self.writes).0).collect();
                self.put(request.lba, &words);
                words
            }
            Op::Discard => {
                self.put(request.lba, &vec![0; sectors as usize]);
                Words::new()
            }
            Op::Flush => Words::new(),
        }
    }

    fn word(&self, lba: Lba) -> u64 {
        self.pages.get(&(lba.0 / PAGE)).map_or(0, |page| page[(lba.0 % PAGE) as usize])
    }

    fn put(&mut self, lba: Lba, words: &[u64]) {
        for (at, &word) in (lba.0..).zip(words) {
            let page = self.pages.entry(at / PAGE).or_insert_with(|| Box::new([0; PAGE as usize]));
            page[(at % PAGE) as usize] = word;
        }
    }

    /// Compares what a read found with what it must find.
    pub fn verify(lba: Lba, expected: &[u64], found: &[u64]) -> DiskResult {
        let wrong = expected.iter().zip(found).position(|(expected, found)| *expected != 0 && expected != found);
        let Some(at) = wrong else { return Ok(()) };
        let version = |word: u64| Stamp(word).version();
        let (found, expected) = (version(found[at]), version(expected[at]));
        Err(Box::new(Fault::Stale { lba: lba + at as u64, found, expected }))
    }

    /// Extents that the host owns some of, in order.
    pub fn owned(&self, capacity: u64) -> impl Iterator<Item = (Lba, u64)> {
        self.pages.keys().map(move |page| (Lba(page * PAGE), PAGE.min(capacity - page * PAGE)))
    }
}
