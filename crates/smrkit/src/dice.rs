//! All random draws of a workload, from one seeded generator.
//!
//! PCG 64 MCG (O'Neill 2014). Logarithms and powers come from `libm`, which is the same on every platform.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;

use crate::random::{Permutation, bits_under, mix, splitmix};

/// A seeded stream of random numbers.
#[derive(Clone, Debug)]
pub struct Dice(Pcg64Mcg);

impl Dice {
    /// The stream numbered `stream` of `seed`; streams don't overlap in practice, even of neighbouring seeds.
    pub fn new(seed: u64, stream: u64) -> Dice {
        let high = mix(seed ^ splitmix(stream));
        let low = mix(high ^ seed.rotate_left(32));
        Dice(Pcg64Mcg::new(u128::from(high) << 64 | u128::from(low)))
    }

    /// Any 64 bits.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "a stream without an end")]
    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `n` (0 if `n` is 0). Its bias of at most n / 2⁶⁴ is negligible.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    #[inline]
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// A number from 0 to 1, the end excluded.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// One of `list`, each with its weight; there is at least one.
    pub(crate) fn weighted<T: Copy>(&mut self, list: &[(T, u64)]) -> T {
        let mut drawn = self.below(list.iter().map(|&(_, weight)| weight).sum());
        for &(value, weight) in list {
            if drawn < weight {
                return value;
            }
            drawn -= weight;
        }
        unreachable!("the weights sum to more than what was drawn")
    }

    /// From the exponential distribution of mean 1.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// From the normal distribution of mean 0 and deviation 1 (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(2.0 * self.exponential());
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }
}

/// A coin that shows heads with a given probability. Takes no draw if that is 0 or 1.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Coin {
    Never,
    Always,
    Under(u64),
}

impl Coin {
    /// A coin for a share from 0 to 1.
    pub fn new(share: f64) -> Coin {
        match share {
            s if s <= 0.0 => Coin::Never,
            s if s >= 1.0 => Coin::Always,
            s => Coin::Under((s * 2f64.powi(64)) as u64),
        }
    }

    /// One throw.
    #[inline]
    pub fn toss(self, dice: &mut Dice) -> bool {
        match self {
            Coin::Never => false,
            Coin::Always => true,
            Coin::Under(threshold) => dice.next() < threshold,
        }
    }
}

/// A random permutation of the numbers below `n` that takes no memory.
#[derive(Clone, Debug)]
pub(crate) struct Shuffle(Permutation);

impl Shuffle {
    /// A permutation of the numbers below `n`.
    pub fn new(n: u64, dice: &mut Dice) -> Shuffle {
        Shuffle(Permutation::new(n, bits_under(n), std::array::from_fn(|_| dice.next())))
    }

    /// The image of `i`, which must be below `n`.
    #[inline]
    pub fn at(&self, i: u64) -> u64 {
        self.0.at(i, scramble)
    }
}

/// A mixer that is good enough for one of four rounds.
#[inline]
fn scramble(x: u64) -> u64 {
    let x = (x ^ (x >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_gives_each_number_once() {
        for n in [1, 2, 3, 7, 64, 1000, 4097] {
            let shuffle = Shuffle::new(n, &mut Dice::new(1, n));
            let mut seen: Vec<u64> = (0..n).map(|i| shuffle.at(i)).collect();
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..n), "{n}");
        }
        let shuffle = Shuffle::new(4097, &mut Dice::new(1, 1));
        let neighbours = (1..4097).filter(|&i| shuffle.at(i).abs_diff(shuffle.at(i - 1)) == 1).count();
        assert!(neighbours < 12, "{neighbours} of 4096 stay next to each other, 2 are expected");
    }

    #[test]
    fn the_generator_never_changes() {
        // Golden: a change here changes every seeded result.
        let mut dice = Dice::new(1, 0);
        let drawn = [dice.next(), dice.below(1000), dice.between(16, 111)];
        assert_eq!(drawn, [16_718_138_825_133_856_006, 587, 82]);
        let first = |n| {
            let shuffle = Shuffle(Permutation::new(n, bits_under(n), [1, 2, 3, 4]));
            [0, 1, 2, 3, 4, 5].map(|i| shuffle.at(i))
        };
        assert_eq!(first(300), [96, 51, 289, 234, 149, 148]);
        assert_eq!(first(1000), [480, 565, 97, 957, 213, 650]);
    }

    #[test]
    fn means_are_right() {
        let mut dice = Dice::new(7, 7);
        let n = 200_000;
        let mean = |f: &mut dyn FnMut() -> f64| (0..n).map(|_| f()).sum::<f64>() / f64::from(n);
        assert!((mean(&mut || dice.exponential()) - 1.0).abs() < 0.01);
        assert!(mean(&mut || dice.normal()).abs() < 0.01);
        assert!((mean(&mut || dice.normal().powi(2)) - 1.0).abs() < 0.015);
        let coin = Coin::new(0.3);
        assert!((mean(&mut || f64::from(coin.toss(&mut dice))) - 0.3).abs() < 0.005);
    }
}
