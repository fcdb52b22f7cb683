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
    /// What reads that are under way must find, by their tags; 0 where anything may be.
    reads: BTreeMap<u64, (Lba, Words)>,
}

impl Expected {
    /// A request is sent: what it writes. What a read must find is kept by its tag.
    pub fn sent(&mut self, tag: u64, request: &Request) -> Words {
        let sectors = u64::from(request.sectors);
        match request.op {
            Op::Read => {
                let words = (0..sectors).map(|i| self.word(request.lba + i)).collect();
                self.reads.insert(tag, (request.lba, words));
            }
            Op::Write => {
                self.writes += 1;
                let words: Words = (0..sectors).map(|i| Stamp::new(request.lba + i, self.writes).0).collect();
                self.put(request.lba, &words);
                return words;
            }
            Op::Discard => self.put(request.lba, &vec![0; sectors as usize]),
            Op::Flush => {}
        }
        Words::new()
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
    pub fn verify(&mut self, tag: u64, found: &[u64]) -> DiskResult {
        let Some((lba, expected)) = self.reads.remove(&tag) else { return Ok(()) };
        if found.len() != expected.len() {
            let message = format!("a read of {} sectors from {lba} found {}", expected.len(), found.len());
            return Err(Box::new(Fault::Inconsistent(message)));
        }
        let wrong = expected.iter().zip(found).position(|(&expected, &found)| expected != 0 && expected != found);
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
