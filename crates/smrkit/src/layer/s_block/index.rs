//! Finding what to destage without a scan: a set of slots that gives its next member, and a tree that knows its largest.

use crate::error::DiskResult;
use crate::state::{self, State};

/// A set of numbers below a bound; bits in words, and a bit for each word with members, and so on.
pub struct Bits {
    levels: Vec<Vec<u64>>,
}

impl Bits {
    /// An empty set of numbers below `bound`.
    pub fn new(bound: u64) -> Bits {
        let mut levels = Vec::new();
        let mut words = bound.div_ceil(64).max(1);
        loop {
            levels.push(vec![0; words as usize]);
            if words == 1 {
                return Bits { levels };
            }
            words = words.div_ceil(64);
        }
    }

    /// Puts a number in.
    #[inline]
    pub fn insert(&mut self, mut i: u64) {
        for level in &mut self.levels {
            let word = &mut level[(i / 64) as usize];
            let was = *word;
            *word |= 1 << (i % 64);
            if was != 0 {
                return;
            }
            i /= 64;
        }
    }

    /// Takes a number out.
    pub fn remove(&mut self, mut i: u64) {
        for level in &mut self.levels {
            let word = &mut level[(i / 64) as usize];
            *word &= !(1 << (i % 64));
            if *word != 0 {
                return;
            }
            i /= 64;
        }
    }

    /// True if a number is in.
    pub fn contains(&self, i: u64) -> bool {
        self.levels[0][(i / 64) as usize] >> (i % 64) & 1 == 1
    }

    /// The least member that is at least `from`.
    pub fn next(&self, from: u64) -> Option<u64> {
        let mut at = from;
        for (height, level) in self.levels.iter().enumerate() {
            let masked = level.get((at / 64) as usize)? & (u64::MAX << (at % 64));
            if masked != 0 {
                let found = at / 64 * 64 + u64::from(masked.trailing_zeros());
                return Some(self.descend(height, found));
            }
            at = at / 64 + 1;
        }
        None
    }

    fn descend(&self, height: usize, mut i: u64) -> u64 {
        for level in self.levels[..height].iter().rev() {
            i = i * 64 + u64::from(level[i as usize].trailing_zeros());
        }
        i
    }

    /// Memory taken, in bytes.
    pub fn bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.len() as u64 * 8).sum()
    }
}

/// Values by number, and which number has the largest; of equal ones the lowest.
pub struct Largest {
    /// A binary tree in one vector: the root at 1, the values from `leaves` on.
    tree: Vec<u32>,
    leaves: usize,
}

impl Largest {
    /// A number of values of 0.
    pub fn new(count: usize) -> Largest {
        let leaves = count.next_power_of_two();
        Largest { tree: vec![0; 2 * leaves], leaves }
    }

    /// Changes a value.
    pub fn set(&mut self, i: usize, value: u32) {
        let mut at = self.leaves + i;
        self.tree[at] = value;
        while at > 1 {
            at /= 2;
            let larger = self.tree[2 * at].max(self.tree[2 * at + 1]);
            if std::mem::replace(&mut self.tree[at], larger) == larger {
                return;
            }
        }
    }

    /// A value.
    pub fn value(&self, i: usize) -> u32 {
        self.tree[self.leaves + i]
    }

    /// The number with the largest value, and the value.
    pub fn top(&self) -> (usize, u32) {
        let mut at = 1;
        while at < self.leaves {
            at *= 2;
            at += usize::from(self.tree[at + 1] > self.tree[at]);
        }
        (at - self.leaves, self.tree[at])
    }

    /// Memory taken, in bytes.
    pub fn bytes(&self) -> u64 {
        self.tree.len() as u64 * 4
    }
}

/// Saved are the members; the bits over words with members follow.
impl State for Bits {
    fn save(&self, out: &mut Vec<u8>) {
        state::write(&self.levels[0], out);
    }

    fn load(&mut self, from: &mut &[u8]) -> DiskResult {
        state::read_sized(&mut self.levels[0], from)?;
        for height in 1..self.levels.len() {
            let (below, above) = self.levels.split_at_mut(height);
            above[0].fill(0);
            for (i, _) in below[height - 1].iter().enumerate().filter(|(_, word)| **word != 0) {
                above[0][i / 64] |= 1 << (i % 64);
            }
        }
        Ok(())
    }
}

/// Saved are the values; which are largest follows.
impl State for Largest {
    fn save(&self, out: &mut Vec<u8>) {
        state::write(&self.tree[self.leaves..], out);
    }

    fn load(&mut self, from: &mut &[u8]) -> DiskResult {
        let mut values = self.tree.split_off(self.leaves);
        state::read_sized(&mut values, from)?;
        self.tree.append(&mut values);
        for at in (1..self.leaves).rev() {
            self.tree[at] = self.tree[2 * at].max(self.tree[2 * at + 1]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_agree_with_a_set(ops in prop::collection::vec((0u64..20_000, any::<bool>()), 1..300), asks in prop::collection::vec(0u64..20_100, 20)) {
            let (mut bits, mut model) = (Bits::new(20_000), BTreeSet::new());
            for (i, insert) in ops {
                if insert { bits.insert(i); model.insert(i); } else { bits.remove(i); model.remove(&i); }
            }
            for from in asks {
                prop_assert_eq!(bits.next(from), model.range(from..).next().copied());
            }
        }

        #[test]
        fn the_largest_is_found(count in 1usize..70, ops in prop::collection::vec((0usize..70, 0u32..9), 1..100)) {
            let (mut tree, mut model) = (Largest::new(count), vec![0; count]);
            for (i, value) in ops {
                let i = i % count;
                tree.set(i, value);
                model[i] = value;
                let most = *model.iter().max().unwrap();
                prop_assert_eq!(tree.top(), (model.iter().position(|&v| v == most).unwrap(), most));
            }
        }
    }
}
