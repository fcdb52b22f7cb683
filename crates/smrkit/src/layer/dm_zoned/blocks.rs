//! Validity of a zone's blocks: a bitmap, stored only where some are valid and some are not.

use serde::{Deserialize, Serialize};

/// Sectors of a block.
pub(super) const BLOCK: u64 = 8;

/// Blocks of a word.
const WORD: u32 = 64;

/// The valid blocks of a zone.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ValidBlocks {
    blocks: u32,
    valid: u32,
    words: Option<Box<[u64]>>,
}

impl ValidBlocks {
    /// None of `blocks` blocks.
    pub fn none(blocks: u32) -> ValidBlocks {
        ValidBlocks { blocks, valid: 0, words: None }
    }

    /// True if it is of a zone of `blocks` blocks, and its count agrees with its bits. Those behind the last block may be set.
    pub fn is_possible(&self, blocks: u32) -> bool {
        let bits = |(index, word): (usize, &u64)| (word & self.mask(index)).count_ones();
        let agrees = match &self.words {
            Some(words) => words.len() == self.words() && words.iter().enumerate().map(bits).sum::<u32>() == self.valid,
            None => self.valid == 0 || self.valid == self.blocks,
        };
        self.blocks == blocks && agrees
    }

    /// Number of valid blocks.
    #[inline]
    pub fn count(&self) -> u32 {
        self.valid
    }

    /// Makes `n` blocks from `first` on valid, or invalid; returns true if that changes any.
    #[inline]
    pub fn put(&mut self, first: u32, n: u32, valid: bool) -> bool {
        let before = self.valid;
        if self.words.is_none() {
            if self.valid == if valid { self.blocks } else { 0 } {
                return false;
            }
            if n == self.blocks {
                self.valid = if valid { n } else { 0 };
                return true;
            }
            let all = if self.valid == 0 { 0 } else { u64::MAX };
            self.words = Some(vec![all; self.blocks.div_ceil(WORD) as usize].into());
        }
        let Some(words) = &mut self.words else { return false };
        let mut at = first;
        while at < first + n {
            let end = (first + n).min((at / WORD + 1) * WORD);
            let mask = (u64::MAX >> (WORD - (end - at))) << (at % WORD);
            let word = &mut words[(at / WORD) as usize];
            let changed = if valid { mask & !*word } else { mask & *word };
            *word ^= changed;
            self.valid = if valid { self.valid + changed.count_ones() } else { self.valid - changed.count_ones() };
            at = end;
        }
        if self.valid == 0 || self.valid == self.blocks {
            self.words = None;
        }
        self.valid != before
    }

    /// Validity of the block `at`, and how many from it on, up to `end`, are alike.
    #[inline]
    pub fn run(&self, at: u32, end: u32) -> (bool, u32) {
        let Some(words) = &self.words else { return (self.valid > 0, end - at) };
        let valid = words[(at / WORD) as usize] >> (at % WORD) & 1 == 1;
        let mut to = at;
        while to < end {
            let word = words[(to / WORD) as usize] >> (to % WORD);
            let alike = if valid { word.trailing_ones() } else { word.trailing_zeros() };
            let left = WORD - to % WORD;
            to += alike.min(left);
            if alike < left {
                break;
            }
        }
        (valid, to.min(end) - at)
    }

    /// The first run of valid blocks from `at` on: (first, how many), of which no more than `most` are looked at.
    pub fn next_valid(&self, at: u32, most: u32) -> Option<(u32, u32)> {
        let run_within =
            |at: u32, n: u32| (at < self.blocks).then(|| self.run(at, at.saturating_add(n).min(self.blocks)));
        let first = match run_within(at, 1)? {
            (true, _) => at,
            (false, _) => at + run_within(at, self.blocks)?.1,
        };
        run_within(first, most).map(|(_, n)| (first, n))
    }

    /// The block after the last valid one.
    pub fn end(&self) -> u32 {
        let mut end = 0;
        while let Some((first, n)) = self.next_valid(end, self.blocks) {
            end = first + n;
        }
        end
    }

    /// Words of the bitmap.
    pub fn words(&self) -> usize {
        self.blocks.div_ceil(WORD) as usize
    }

    /// Word `index` of the bitmap.
    pub fn word(&self, index: usize) -> u64 {
        match &self.words {
            Some(words) => words.get(index).copied().unwrap_or(0),
            None if self.valid == 0 => 0,
            None => self.mask(index),
        }
    }

    /// Replaces word `index` of the bitmap.
    pub fn set_word(&mut self, index: usize, word: u64) {
        let (mask, old) = (self.mask(index), self.word(index));
        for bit in 0..WORD {
            if ((old ^ word) & mask) >> bit & 1 == 1 {
                self.put(index as u32 * WORD + bit, 1, word >> bit & 1 == 1);
            }
        }
    }

    /// The bits of word `index` that stand for blocks.
    fn mask(&self, index: usize) -> u64 {
        let left = self.blocks.saturating_sub(index as u32 * WORD).min(WORD);
        if left == 0 { 0 } else { u64::MAX >> (WORD - left) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn valid_blocks_agree_with_a_list(
            blocks in 1u32..300,
            changes in prop::collection::vec((0u32..300, 1u32..300, any::<bool>()), 0..30),
        ) {
            let (mut valid, mut list) = (ValidBlocks::none(blocks), vec![false; blocks as usize]);
            for (first, n, put) in changes {
                let (first, end) = (first % blocks, (first % blocks + n).min(blocks));
                let range = first as usize..end as usize;
                let changes = list[range.clone()].iter().any(|&was| was != put);
                prop_assert_eq!(valid.put(first, end - first, put), changes);
                list[range].fill(put);
            }
            prop_assert_eq!(valid.count() as usize, list.iter().filter(|&&valid| valid).count());
            prop_assert_eq!(valid.end() as usize, list.iter().rposition(|&valid| valid).map_or(0, |last| last + 1));
            let mut copy = ValidBlocks::none(blocks);
            (0..5).for_each(|index| copy.set_word(index, valid.word(index)));
            for at in 0..blocks {
                let first = (at..blocks).find(|&block| list[block as usize]);
                let run = first.map(|first| (first, valid.run(first, blocks).1));
                prop_assert_eq!(valid.next_valid(at, blocks), run);
                prop_assert_eq!(valid.next_valid(at, 3), run.map(|(first, n)| (first, n.min(3))));
                let alike = list[at as usize..].iter().take_while(|&&valid| valid == list[at as usize]).count();
                prop_assert_eq!(valid.run(at, blocks), (list[at as usize], alike as u32));
                prop_assert_eq!(copy.run(at, blocks), valid.run(at, blocks));
            }
        }
    }
}
