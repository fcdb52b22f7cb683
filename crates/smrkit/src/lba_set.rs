//! A set of LBAs by runs, small when nearly all or nearly none are in it.

use serde::{Deserialize, Serialize};

use crate::extent_map::ExtentMap;
use crate::units::{Lba, Pba};

/// A set of LBAs.
#[derive(Default, Serialize, Deserialize)]
pub struct LbaSet {
    /// True if `extents` are those that are not in the set.
    inverted: bool,
    extents: ExtentMap,
}

impl LbaSet {
    /// Every LBA.
    pub fn all() -> LbaSet {
        LbaSet { inverted: true, extents: ExtentMap::new() }
    }

    /// Puts `n` LBAs from `lba` on in.
    #[inline]
    pub fn insert(&mut self, lba: Lba, n: u64) {
        // Disks are mostly written where they were before.
        if !self.contains_all(lba, n) {
            self.set(lba, n, !self.inverted);
        }
    }

    /// Takes `n` LBAs from `lba` on out.
    pub fn remove(&mut self, lba: Lba, n: u64) {
        self.set(lba, n, self.inverted);
    }

    #[inline]
    fn set(&mut self, lba: Lba, n: u64, listed: bool) {
        if listed { self.extents.insert(lba, n, Pba(lba.0)) } else { self.extents.remove(lba, n) }
    }

    /// True if an LBA is in.
    pub fn contains(&self, lba: Lba) -> bool {
        self.runs(lba, 1).next().is_some()
    }

    /// True if all of `n` LBAs from `lba` on are in.
    #[inline]
    pub fn contains_all(&self, lba: Lba, n: u64) -> bool {
        self.extents.pieces(lba, n).all(|piece| piece.pba.is_some() != self.inverted)
    }

    /// The runs of those of `n` LBAs from `lba` on that are in, in order: (first, how many). A run may go on in the next.
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
    use proptest::prelude::*;

    use super::*;

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
