//! A word for each sector of a disk, kept in pages, because most of a disk is never touched.
//!
//! A sector of a page that does not exist has the word that the disk began with: 0 or, on a full disk, a function of its number.
//!
//! Also a set of LBAs by runs, which is small when nearly all or nearly none are in it.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::extent_map::ExtentMap;
use crate::units::{Lba, Pba};

const PAGE: u64 = 512;

/// The largest disk that is checked whole if it began full: 8.6 GB (assumption: a few seconds). On larger ones only touched pages are
/// checked.
pub(crate) const WHOLE_SECTORS_MAX: u64 = 1 << 24;

/// Initial contents of a disk: writes the words of the sectors from a number on to a slice of zeros.
pub(crate) type InitialWords = Box<dyn Fn(u64, &mut [u64]) + Send + Sync>;

type Page = Box<[u64; PAGE as usize]>;

/// A word for each sector, in pages that are created by the first write to them.
#[derive(Default)]
pub(crate) struct Pages {
    pages: BTreeMap<u64, Page>,
    /// The initial contents of a disk that began full.
    initial: Option<InitialWords>,
    /// Numbers of pages that were cleared and do not exist.
    blank: LbaSet,
}

impl Pages {
    /// Pages of a disk that began with the words of `initial`, without later writes.
    pub(crate) fn beginning_with(initial: InitialWords) -> Pages {
        Pages { initial: Some(initial), ..Pages::default() }
    }

    /// The word of the sector `at`.
    pub(crate) fn get(&self, at: u64) -> u64 {
        let mut word = [0];
        self.read(at, &mut word);
        word[0]
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
            match self.pages.get(&number) {
                Some(page) => out[of].copy_from_slice(&page[within]),
                None => self.initial_words(number * PAGE + within.start as u64, &mut out[of]),
            }
        }
    }

    /// Reads words one by one. Fast if most sectors are near the one before.
    pub(crate) fn nearby(&self) -> impl FnMut(u64) -> u64 {
        let (mut number, mut here) = (u64::MAX, [0; PAGE as usize]);
        let mut page: Option<&Page> = None;
        move |at| {
            if at / PAGE != number {
                number = at / PAGE;
                page = self.pages.get(&number);
                if page.is_none() {
                    self.initial_words(number * PAGE, &mut here);
                }
            }
            page.map_or(&here, |page| &**page)[(at % PAGE) as usize]
        }
    }

    /// Writes the initial words of sectors of a page that does not exist to `out`.
    fn initial_words(&self, at: u64, out: &mut [u64]) {
        out.fill(0);
        if let Some(initial) = &self.initial
            && !self.blank.contains(Lba(at / PAGE))
        {
            initial(at, out);
        }
    }

    /// A page, which is created if it does not exist.
    fn page(&mut self, number: u64) -> &mut [u64; PAGE as usize] {
        if !self.pages.contains_key(&number) {
            let mut page = Box::new([0; PAGE as usize]);
            self.initial_words(number * PAGE, &mut page[..]);
            self.pages.insert(number, page);
        }
        self.pages.get_mut(&number).expect("just put")
    }

    /// Sets the words of the sectors from `first` on.
    pub(crate) fn put(&mut self, first: u64, words: &[u64]) {
        for (number, within, of) in runs(first, words.len() as u64) {
            self.page(number)[within].copy_from_slice(&words[of]);
        }
    }

    /// The sectors in `range` whose words can differ from 0, page by page: the first sector in each page, and the words from it on. On a disk
    /// that began full these are all pages of the range.
    pub(crate) fn within(&mut self, range: Range<u64>) -> impl Iterator<Item = (u64, &mut [u64])> {
        let numbers = range.start / PAGE..range.end.div_ceil(PAGE);
        // Sectors of a disk that began full have words although their pages do not exist yet.
        if self.initial.is_some() {
            for number in numbers.clone() {
                self.page(number);
            }
        }
        self.pages.range_mut(numbers).map(move |(number, page)| {
            let begin = number * PAGE;
            let (first, end) = (range.start.max(begin), range.end.min(begin + PAGE));
            (first, &mut page[(first - begin) as usize..(end - begin) as usize])
        })
    }

    /// Sets the words of `range` to 0. It may be the whole disk: only the pages at its ends are created.
    pub(crate) fn clear(&mut self, range: Range<u64>) {
        let whole = range.start.div_ceil(PAGE)..range.end / PAGE;
        // On a disk that began empty, pages that do not exist are 0 already.
        if self.initial.is_some() && whole.start < whole.end {
            self.blank.insert(Lba(whole.start), whole.end - whole.start);
            self.pages.range_mut(whole.clone()).for_each(|(_, page)| page.fill(0));
            self.within(range.start..whole.start * PAGE).for_each(|(_, words)| words.fill(0));
            self.within(whole.end * PAGE..range.end).for_each(|(_, words)| words.fill(0));
        } else {
            self.within(range).for_each(|(_, words)| words.fill(0));
        }
    }

    /// The sectors of existing pages, ascending, on a disk of `capacity` sectors; all sectors of a small disk that began full.
    pub(crate) fn extents(&self, capacity: u64) -> Vec<Range<u64>> {
        let extent = |number: u64| number * PAGE..capacity.min((number + 1) * PAGE);
        match self.initial {
            Some(_) if capacity <= WHOLE_SECTORS_MAX => (0..capacity.div_ceil(PAGE)).map(extent).collect(),
            _ => self.pages.keys().copied().map(extent).collect(),
        }
    }
}

/// The pages of `n` sectors from `first` on: the number of each, the range in the page, and the range among the sectors.
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

/// A set of LBAs.
#[derive(Default, Serialize, Deserialize)]
pub struct LbaSet {
    /// True if `extents` are the LBAs that are not in the set.
    inverted: bool,
    extents: ExtentMap,
}

impl LbaSet {
    /// Every LBA.
    pub fn all() -> LbaSet {
        LbaSet { inverted: true, extents: ExtentMap::new() }
    }

    /// Adds `n` LBAs from `lba` on.
    #[inline]
    pub fn insert(&mut self, lba: Lba, n: u64) {
        // Mostly nothing changes, because disks are mostly overwritten.
        if !self.contains_all(lba, n) {
            self.set(lba, n, !self.inverted);
        }
    }

    /// Removes `n` LBAs from `lba` on.
    pub fn remove(&mut self, lba: Lba, n: u64) {
        self.set(lba, n, self.inverted);
    }

    #[inline]
    fn set(&mut self, lba: Lba, n: u64, listed: bool) {
        if listed { self.extents.insert(lba, n, Pba(lba.0)) } else { self.extents.remove(lba, n) }
    }

    /// True if the set has an LBA.
    pub fn contains(&self, lba: Lba) -> bool {
        self.runs(lba, 1).next().is_some()
    }

    /// True if the set has all of `n` LBAs from `lba` on.
    #[inline]
    pub fn contains_all(&self, lba: Lba, n: u64) -> bool {
        self.extents.pieces(lba, n).all(|piece| piece.pba.is_some() != self.inverted)
    }

    /// The runs of LBAs in the set among `n` from `lba` on, in order: (first, how many). The next run may continue one.
    #[inline]
    pub fn runs(&self, lba: Lba, n: u64) -> impl Iterator<Item = (Lba, u64)> + '_ {
        let inverted = self.inverted;
        self.extents.pieces(lba, n).filter(move |piece| piece.pba.is_some() != inverted).map(|p| (p.lba, p.sectors))
    }

    /// Memory taken, in bytes.
    pub fn bytes(&self) -> u64 {
        self.extents.bytes()
    }
}

#[cfg(test)]
mod tests {
    mod pages {
        use super::super::*;
        use proptest::prelude::*;

        const SECTORS: usize = 5 * PAGE as usize;

        /// First content of a sector in the tests of a full disk.
        fn first(at: u64) -> u64 {
            at % 3 * 1000
        }

        fn pages_of(full: bool) -> (Pages, Vec<u64>) {
            let words = |from: u64, out: &mut [u64]| (from..).zip(out).for_each(|(at, word)| *word = first(at));
            match full {
                true => (Pages::beginning_with(Box::new(words)), (0..SECTORS as u64).map(first).collect()),
                false => (Pages::default(), vec![0; SECTORS]),
            }
        }

        proptest! {
            #[test]
            fn pages_hold_what_a_plain_list_holds(
                full in any::<bool>(),
                puts in prop::collection::vec((0..SECTORS, 0..1200usize), 1..12),
                (first, n) in (0..SECTORS, 0..1200usize),
            ) {
                let (mut pages, mut plain) = pages_of(full);
                for (number, &(first, n)) in (1..).zip(&puts) {
                    let words = vec![number; n.min(SECTORS - first)];
                    if number % 4 == 0 {
                        pages.clear(first as u64..(first + words.len()) as u64);
                        plain[first..][..words.len()].fill(0);
                        continue;
                    }
                    pages.put(first as u64, &words);
                    plain[first..][..words.len()].copy_from_slice(&words);
                }
                let n = n.min(SECTORS - first);
                prop_assert_eq!(&pages.words(first as u64, n as u64)[..], &plain[first..][..n]);
                prop_assert!((0..SECTORS).all(|at| pages.get(at as u64) == plain[at]));
                let mut nearby = pages.nearby();
                prop_assert!((0..SECTORS).step_by(7).chain([0, 1]).all(|at| nearby(at as u64) == plain[at]));
                drop(nearby);
                let extents = pages.extents(SECTORS as u64);
                let covered = |at: usize| extents.iter().any(|extent| extent.contains(&(at as u64)));
                prop_assert!((0..SECTORS).all(|at| plain[at] == 0 || covered(at)));
                let asked = first as u64..(first + n) as u64;
                for (at, words) in pages.within(asked.clone()) {
                    prop_assert!(asked.contains(&at) || words.is_empty());
                    prop_assert_eq!(&*words, &plain[at as usize..][..words.len()]);
                    words.fill(7);
                    plain[at as usize..][..words.len()].fill(7);
                }
                prop_assert!((0..SECTORS).all(|at| pages.get(at as u64) == plain[at]));
                let mut nearby = pages.nearby();
                prop_assert!((0..SECTORS).step_by(7).chain([0, 1]).all(|at| nearby(at as u64) == plain[at]));
                drop(nearby);
                prop_assert!(asked.clone().all(|at| !covered(at as usize) || plain[at as usize] == 7));
                pages.clear(asked.clone());
                plain[first..][..n].fill(0);
                prop_assert!((0..SECTORS).all(|at| pages.get(at as u64) == plain[at]));
                let mut nearby = pages.nearby();
                prop_assert!((0..SECTORS).step_by(7).chain([0, 1]).all(|at| nearby(at as u64) == plain[at]));
                drop(nearby);
            }
        }
    }

    mod lba_set {
        use proptest::prelude::*;

        use super::super::*;

        proptest! {
            #[test]
            fn a_set_agrees_with_a_list_of_its_members(
                all in any::<bool>(),
                changes in prop::collection::vec((0u64..9000, 1u64..5000, any::<bool>()), 0..20),
                (lba, n) in (0u64..9000, 1u64..9000),
            ) {
                let mut set = if all { LbaSet::all() } else { LbaSet::default() };
                let mut model = vec![all; 20_000];
                for (lba, n, put) in changes {
                    if put { set.insert(Lba(lba), n) } else { set.remove(Lba(lba), n) }
                    model[lba as usize..(lba + n) as usize].fill(put);
                }
                let found: Vec<u64> = set.runs(Lba(lba), n).flat_map(|(lba, n)| lba.0..lba.0 + n).collect();
                let expected: Vec<u64> = (lba..lba + n).filter(|&at| model[at as usize]).collect();
                prop_assert_eq!(set.contains_all(Lba(lba), n), expected.len() as u64 == n);
                prop_assert_eq!(found, expected);
                prop_assert_eq!(set.contains(Lba(lba)), model[lba as usize]);
            }
        }

        #[test]
        fn a_full_set_takes_no_memory_where_members_are_put_in_again() {
            let mut set = LbaSet::all();
            set.insert(Lba(1 << 36), 4096);
            assert_eq!(set.bytes(), 0);
        }
    }
}
