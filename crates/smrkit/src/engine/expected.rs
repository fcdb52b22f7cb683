//! Check mode for arrays: what the host wrote last, against what it gets back.
//!
//! A read is compared with what was written before it was sent; an array serves commands for the same sectors in the order of
//! their coming.

use std::collections::BTreeMap;

use crate::array::Words;
use crate::error::{DiskResult, Fault};
use crate::medium::Stamp;
use crate::pages::Pages;
use crate::request::{Op, Request};
use crate::shadow::compare;
use crate::units::Lba;

/// What the host expects of each sector of an array.
#[derive(Default)]
pub(super) struct Expected {
    /// The word last written to each LBA; 0 where the host owns nothing.
    pages: Pages,
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
                self.reads.insert(tag, (request.lba, self.pages.words(request.lba.0, sectors)));
            }
            Op::Write => {
                self.writes += 1;
                let words: Words = (0..sectors).map(|i| Stamp::new(request.lba + i, self.writes).0).collect();
                self.pages.put(request.lba.0, &words);
                return words;
            }
            Op::Discard => self.pages.clear(request.lba.0..request.lba.0 + sectors),
            Op::Flush => {}
        }
        Words::new()
    }

    /// Compares what a read found with what it must find.
    pub fn verify(&mut self, tag: u64, found: &[u64]) -> DiskResult {
        let Some((lba, expected)) = self.reads.remove(&tag) else { return Ok(()) };
        if found.len() != expected.len() {
            let message = format!("a read of {} sectors from {lba} found {}", expected.len(), found.len());
            return Err(Box::new(Fault::Inconsistent(message)));
        }
        compare(lba, &expected, found)
    }

    /// Extents that the host owns some of, in order.
    pub fn owned(&self, capacity: u64) -> impl Iterator<Item = (Lba, u64)> {
        self.pages.extents(capacity).map(|extent| (Lba(extent.start), extent.end - extent.start))
    }
}
