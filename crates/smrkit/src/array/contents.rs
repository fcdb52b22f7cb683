//! Check mode: the word that each sector of a member was last written with.
//!
//! The drive's own stamps say whether a read returned the last write; the words say what that write was. An array's parity is
//! worked out on words.

use std::collections::BTreeMap;

use super::target::Words;
use crate::units::Lba;

const PAGE: u64 = 512;

/// Words by LBA; 0 where nothing was written.
#[derive(Default)]
pub(super) struct Contents {
    pages: BTreeMap<u64, Box<[u64; PAGE as usize]>>,
}

impl Contents {
    /// The words of `sectors` sectors from `lba` on.
    pub fn read(&self, lba: Lba, sectors: u64) -> Words {
        let of = |at: u64| self.pages.get(&(at / PAGE)).map_or(0, |page| page[(at % PAGE) as usize]);
        (lba.0..lba.0 + sectors).map(of).collect()
    }

    /// Takes `words` from `lba` on.
    pub fn write(&mut self, lba: Lba, words: &[u64]) {
        for (at, &word) in (lba.0..).zip(words) {
            let page = self.pages.entry(at / PAGE).or_insert_with(|| Box::new([0; PAGE as usize]));
            page[(at % PAGE) as usize] = word;
        }
    }

    /// Forgets `sectors` sectors from `lba` on.
    pub fn clear(&mut self, lba: Lba, sectors: u64) {
        let end = lba.0 + sectors;
        for (page, words) in self.pages.range_mut(lba.0 / PAGE..end.div_ceil(PAGE)) {
            let first = page * PAGE;
            let own = lba.0.max(first) - first..end.min(first + PAGE) - first;
            words[own.start as usize..own.end as usize].fill(0);
        }
    }
}
