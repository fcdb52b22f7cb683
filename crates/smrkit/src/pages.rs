//! Words of a disk's sectors, one a sector, 0 where none was ever put: kept in pages, since most of a disk is empty.

use std::collections::BTreeMap;
use std::ops::Range;

const PAGE: u64 = 512;

/// A word a sector, in pages that come to be with the first word put.
#[derive(Default)]
pub(crate) struct Pages(BTreeMap<u64, Box<[u64; PAGE as usize]>>);

impl Pages {
    /// The word of the sector `at`.
    pub(crate) fn get(&self, at: u64) -> u64 {
        self.0.get(&(at / PAGE)).map_or(0, |page| page[(at % PAGE) as usize])
    }

    /// The words of `n` sectors from `first` on.
    pub(crate) fn words(&self, first: u64, n: u64) -> Vec<u64> {
        let mut words = vec![0; n as usize];
        self.read(first, &mut words);
        words
    }

    /// The words of as many sectors from `first` on as `out` holds.
    pub(crate) fn read(&self, first: u64, out: &mut [u64]) {
        for (number, within, of) in runs(first, out.len() as u64) {
            match self.0.get(&number) {
                Some(page) => out[of].copy_from_slice(&page[within]),
                None => out[of].fill(0),
            }
        }
    }

    /// Puts words into the sectors from `first` on.
    pub(crate) fn put(&mut self, first: u64, words: &[u64]) {
        self.replace(first, words, |_, _| {});
    }

    /// Puts words into the sectors from `first` on; `each` gets what was there and what is.
    pub(crate) fn replace(&mut self, first: u64, words: &[u64], mut each: impl FnMut(u64, u64)) {
        for (number, within, of) in runs(first, words.len() as u64) {
            let page = self.0.entry(number).or_insert_with(|| Box::new([0; PAGE as usize]));
            for (slot, &word) in page[within].iter_mut().zip(&words[of]) {
                each(std::mem::replace(slot, word), word);
            }
        }
    }

    /// The sectors within `range` of pages that exist, ascending: each page's first of them, and their words.
    pub(crate) fn within(&mut self, range: Range<u64>) -> impl Iterator<Item = (u64, &mut [u64])> {
        self.0.range_mut(range.start / PAGE..range.end.div_ceil(PAGE)).map(move |(number, page)| {
            let begin = number * PAGE;
            let (first, end) = (range.start.max(begin), range.end.min(begin + PAGE));
            (first, &mut page[(first - begin) as usize..(end - begin) as usize])
        })
    }

    /// Puts 0 into the sectors of `range`, which may be the whole disk: only pages that exist are touched.
    pub(crate) fn clear(&mut self, range: Range<u64>) {
        self.within(range).for_each(|(_, words)| words.fill(0));
    }

    /// The sectors of the pages that exist on a disk of so many, ascending.
    pub(crate) fn extents(&self, capacity: u64) -> impl Iterator<Item = Range<u64>> {
        self.0.keys().map(move |number| number * PAGE..capacity.min((number + 1) * PAGE))
    }
}

/// The pages that `n` sectors from `first` on lie in: each one's number, the places in it, and which of the sectors.
fn runs(first: u64, n: u64) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let (number, within) = ((first + done) / PAGE, (first + done) % PAGE);
        let sectors = (n - done).min(PAGE - within);
        let of = done;
        done += sectors;
        (sectors > 0).then_some((number, within as usize..(within + sectors) as usize, of as usize..done as usize))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECTORS: usize = 5 * PAGE as usize;

    proptest! {
        #[test]
        fn pages_hold_what_a_plain_list_holds(
            puts in prop::collection::vec((0..SECTORS, 0..1200usize), 1..12),
            (first, n) in (0..SECTORS, 0..1200usize),
        ) {
            let (mut pages, mut plain) = (Pages::default(), vec![0; SECTORS]);
            for (number, &(first, n)) in (1..).zip(&puts) {
                let words = vec![number; n.min(SECTORS - first)];
                let mut were = Vec::new();
                pages.replace(first as u64, &words, |was, _| were.push(was));
                prop_assert_eq!(&were[..], &plain[first..][..words.len()]);
                plain[first..][..words.len()].copy_from_slice(&words);
            }
            let n = n.min(SECTORS - first);
            prop_assert_eq!(&pages.words(first as u64, n as u64)[..], &plain[first..][..n]);
            prop_assert!((0..SECTORS).all(|at| pages.get(at as u64) == plain[at]));
            let extents: Vec<_> = pages.extents(SECTORS as u64).collect();
            let covered = |at: usize| extents.iter().any(|extent| extent.contains(&(at as u64)));
            prop_assert!((0..SECTORS).all(|at| plain[at] == 0 || covered(at)));
            let asked = first as u64..(first + n) as u64;
            let mut seen = vec![false; SECTORS];
            for (at, words) in pages.within(asked.clone()) {
                prop_assert_eq!(&*words, &plain[at as usize..][..words.len()]);
                seen[at as usize..][..words.len()].fill(true);
            }
            prop_assert!((0..SECTORS).all(|at| seen[at] == (asked.contains(&(at as u64)) && covered(at))));
            pages.clear(asked.clone());
            prop_assert!((0..SECTORS).all(|at| pages.get(at as u64) == u64::from(!seen[at]) * plain[at]));
        }
    }
}
