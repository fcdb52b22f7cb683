//! Places of LBAs on a disk that begins full, as if each had been written once, in order: a medium of stamps asks for them
//! instead of storing it.

use crate::units::{Lba, Pba};

/// Place of every LBA.
pub trait Placement: Send + Sync {
    /// Calls `each` for those of `n` sectors from `pba` on that hold an LBA, in order: which of the sectors, and the LBA.
    fn within(&self, pba: Pba, n: u64, each: &mut dyn FnMut(u64, Lba));
}

/// LBAs that lie in the order of their numbers.
pub struct Ascending<F> {
    sectors: u64,
    place: F,
}

impl<F: Fn(Lba) -> Pba> Ascending<F> {
    /// The first `sectors` LBAs, each where `place` says.
    pub fn new(sectors: u64, place: F) -> Ascending<F> {
        Ascending { sectors, place }
    }
}

impl<F: Fn(Lba) -> Pba + Send + Sync> Placement for Ascending<F> {
    fn within(&self, pba: Pba, n: u64, each: &mut dyn FnMut(u64, Lba)) {
        let (mut low, mut high) = (0, self.sectors);
        while low < high {
            let middle = (low + high) / 2;
            if (self.place)(Lba(middle)) < pba { low = middle + 1 } else { high = middle }
        }
        for lba in (low..self.sectors).map(Lba) {
            let at = (self.place)(lba);
            if at >= pba + n {
                break;
            }
            each(at - pba, lba);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_between_those_that_hold_an_lba_hold_none() {
        let placement = Ascending::new(12, |lba| Pba(10 + lba.0 / 4 * 7 + lba.0 % 4));
        let mut found = Vec::new();
        placement.within(Pba(12), 16, &mut |at, lba| found.push((at, lba.0)));
        assert_eq!(found, [(0, 2), (1, 3), (5, 4), (6, 5), (7, 6), (8, 7), (12, 8), (13, 9), (14, 10), (15, 11)]);
    }
}
