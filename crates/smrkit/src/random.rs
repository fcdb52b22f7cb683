//! Pseudo-random functions of numbers: a 64-bit mixer, and permutations that take no memory.
//!
//! They have no state: keys and seeds come from the caller. `dice.rs` draws. Written by hand, because a run must give the same
//! result with any version, bit by bit.

/// The finaliser of SplitMix64 (Steele, Lea & Flood 2014).
#[inline]
pub(crate) fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The number that SplitMix64 draws in state `x`.
#[inline]
pub(crate) fn splitmix(x: u64) -> u64 {
    mix(x.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

/// How many bits the numbers below `n` need.
pub(crate) fn bits_under(n: u64) -> u32 {
    64 - n.saturating_sub(1).leading_zeros()
}

/// A permutation of the numbers below `n`: a Feistel network of four rounds, repeated until the result is below `n` (cycle walking, Black
/// and Rogaway 2002).
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    n: u64,
    low_bits: u32,
    low_mask: u64,
    high_mask: u64,
    keys: [u64; 4],
}

impl Permutation {
    /// A permutation of the numbers below `n`, from a network over numbers of `bits` bits, which must be enough for them.
    pub fn new(n: u64, bits: u32, keys: [u64; 4]) -> Permutation {
        debug_assert!(bits >= bits_under(n), "{bits} bits for the numbers under {n}");
        let (low_bits, high_bits) = (bits.div_ceil(2), bits / 2);
        Permutation { n, low_bits, low_mask: (1 << low_bits) - 1, high_mask: (1 << high_bits) - 1, keys }
    }

    /// The image of `i`, which must be below `n`. `mixed` is the round function, the same in all calls.
    #[inline]
    pub fn at(&self, i: u64, mixed: impl Fn(u64) -> u64) -> u64 {
        debug_assert!(i < self.n);
        let mut x = i;
        // Ends, because the network's cycle through `i` comes back to `i`.
        loop {
            x = self.network(x, &mixed);
            if x < self.n {
                return x;
            }
        }
    }

    /// One pass of the network.
    #[inline]
    fn network(&self, x: u64, mixed: impl Fn(u64) -> u64) -> u64 {
        let (mut low, mut high) = (x & self.low_mask, x >> self.low_bits);
        for pair in self.keys.chunks_exact(2) {
            high ^= mixed(low ^ pair[0]) & self.high_mask;
            low ^= mixed(high ^ pair[1]) & self.low_mask;
        }
        high << self.low_bits | low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_gives_each_number_once() {
        for n in [1, 2, 3, 7, 64, 300, 1000, 4097] {
            let bits = bits_under(n);
            for bits in [bits, bits.next_multiple_of(2).max(2)] {
                let order = Permutation::new(n, bits, [1, 2, 3, 4]);
                let mut seen: Vec<u64> = (0..n).map(|i| order.at(i, splitmix)).collect();
                seen.sort_unstable();
                assert!(seen.into_iter().eq(0..n), "{n} of {bits} bits");
            }
        }
    }
}
