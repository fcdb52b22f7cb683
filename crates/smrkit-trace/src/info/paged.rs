//! A map by number whose numbers lie in neighbourhoods: a search tree of pages, each with the values of 64 numbers.
//!
//! Requests all over a large disk find their page among some thousand, which stay in the processor's caches; among all values
//! each search would miss them several times.

use std::collections::BTreeMap;
use std::ops::Range;

const PAGE: u64 = 64;

type Page<T> = Box<[Option<T>; PAGE as usize]>;

/// Values by number, ascending.
pub(super) struct Paged<T> {
    pages: BTreeMap<u64, Page<T>>,
}

impl<T> Default for Paged<T> {
    fn default() -> Paged<T> {
        Paged { pages: BTreeMap::new() }
    }
}

impl<T: Default> Paged<T> {
    /// The value of a number, which gets the default one first where it has none.
    pub(super) fn entry(&mut self, at: u64) -> &mut T {
        let page = self.pages.entry(at / PAGE).or_insert_with(|| Box::new([const { None }; PAGE as usize]));
        page[(at % PAGE) as usize].get_or_insert_default()
    }

    /// Takes the values of a range of numbers out.
    pub(super) fn take(&mut self, range: Range<u64>, mut each: impl FnMut(T)) {
        let mut emptied = Vec::new();
        for (&number, page) in self.pages.range_mut(range.start / PAGE..range.end.div_ceil(PAGE)) {
            let first = number * PAGE;
            let within = range.start.max(first) - first..range.end.min(first + PAGE) - first;
            page[within.start as usize..within.end as usize].iter_mut().filter_map(Option::take).for_each(&mut each);
            if page.iter().all(Option::is_none) {
                emptied.push(number);
            }
        }
        for number in emptied {
            self.pages.remove(&number);
        }
    }

    /// The numbers that have a value, and the values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.pages.iter().flat_map(move |(&number, page)| {
            (number * PAGE..).zip(page.iter()).filter_map(|(at, value)| Some((at, value.as_ref()?)))
        })
    }
}
