//! When each granule was last written: the number of the write command, in a flat array.
//!
//! Within one command a higher granule counts as later; that is why a granule downstream of another is the newer of the two
//! if their numbers are equal.

use crate::units::Span;

/// The number of the last write of each granule; 0 is never.
#[derive(Clone)]
pub struct WriteOrder {
    last: Vec<u32>,
    writes: u32,
}

impl WriteOrder {
    /// A disk of `granules`, never written.
    pub fn new(granules: u64) -> WriteOrder {
        WriteOrder { last: vec![0; granules as usize], writes: 0 }
    }

    /// When `at` was last written; 0 if never.
    #[inline]
    pub fn last_write(&self, at: u64) -> u32 {
        self.last[at as usize]
    }

    /// The numbers of the granules of `span`.
    #[inline]
    pub fn within(&self, from: u64, to: u64) -> &[u32] {
        &self.last[from as usize..to as usize]
    }

    /// The highest number in `from..to`; 0 if there is none.
    #[inline]
    pub fn newest(&self, from: u64, to: u64) -> u32 {
        if from < to { self.within(from, to).iter().fold(0, |a, &b| a.max(b)) } else { 0 }
    }

    /// The lowest number in `from..to`; the highest there is if that is empty.
    #[inline]
    pub fn oldest(&self, from: u64, to: u64) -> u32 {
        if from < to { self.within(from, to).iter().fold(u32::MAX, |a, &b| a.min(b)) } else { u32::MAX }
    }

    /// One more write command: its number, higher than all before.
    pub fn next(&mut self) -> u32 {
        if self.writes == u32::MAX - 1 {
            self.renumber();
        }
        self.writes += 1;
        self.writes
    }

    /// `span` has been written by the command `number`.
    #[inline]
    pub fn put(&mut self, span: Span, number: u32) {
        self.last[span.at.0 as usize..span.end().0 as usize].fill(number);
    }

    /// Numbers the commands that are still the last of a granule anew from 1, in the same order.
    fn renumber(&mut self) {
        let mut numbers: Vec<u32> = self.last.iter().copied().filter(|&number| number > 0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in self.last.iter_mut().filter(|number| **number > 0) {
            *number = numbers.partition_point(|other| other < number) as u32 + 1;
        }
        self.writes = numbers.len() as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_run_out_are_given_anew_in_the_same_order() {
        let mut order = WriteOrder::new(4);
        for (at, number) in [(0, 70_000), (2, 5), (3, 4_000_000_000)] {
            order.put(Span::new(at, 1), number);
        }
        order.writes = u32::MAX - 1;
        assert_eq!(order.next(), 4);
        assert_eq!(order.within(0, 4), [2, 0, 1, 3]);
        assert_eq!((order.newest(0, 3), order.oldest(2, 4), order.newest(1, 1)), (2, 1, 0));
    }
}
