//! Ranks drawn by Zipf's law: rank k of n with weight k^−theta.
//!
//! Rejection-inversion (Hörmann and Derflinger 1996): constant memory and about one draw a rank, for any n and
//! theta ≥ 0. The formulas are theirs; the arithmetic is `libm`'s, so that ranks are the same on every platform.

use super::dice::Dice;

/// A sampler of ranks from 0 (the most frequent) to n − 1.
#[derive(Clone, Debug)]
pub(super) struct ZipfRanks {
    n: f64,
    theta: f64,
    integral_first: f64,
    integral_last: f64,
    cut: f64,
}

impl ZipfRanks {
    /// Over `n` ≥ 1 ranks.
    pub fn new(n: u64, theta: f64) -> ZipfRanks {
        let n = n.max(1) as f64;
        let mut zipf = ZipfRanks { n, theta, integral_first: 0.0, integral_last: 0.0, cut: 0.0 };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(n + 0.5);
        zipf.cut = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// One rank.
    pub fn sample(&self, dice: &mut Dice) -> u64 {
        loop {
            let u = self.integral_last + dice.unit() * (self.integral_first - self.integral_last);
            let x = self.inverse(u);
            let rank = libm::floor(x + 0.5).clamp(1.0, self.n);
            if rank - x <= self.cut || u >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    /// The integral of x^−theta from 1 to x.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        expm1_over((1.0 - self.theta) * log) * log
    }

    /// The x whose integral is `u`.
    fn inverse(&self, u: f64) -> f64 {
        let t = (u * (1.0 - self.theta)).max(-1.0);
        libm::exp(log1p_over(t) * u)
    }
}

/// (eˣ − 1) / x, steady near 0.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { libm::expm1(x) / x } else { 1.0 + x / 2.0 }
}

/// ln(1 + x) / x, steady near 0.
fn log1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { libm::log1p(x) / x } else { 1.0 - x / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_follow_the_law() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.5, 3.0] {
            let (n, draws) = (50u64, 400_000u32);
            let zipf = ZipfRanks::new(n, theta);
            let mut dice = Dice::new(3, 3);
            let mut counts = vec![0u32; n as usize];
            (0..draws).for_each(|_| counts[zipf.sample(&mut dice) as usize] += 1);
            let weight = |k: u64| ((k + 1) as f64).powf(-theta);
            let whole: f64 = (0..n).map(weight).sum();
            for k in 0..n {
                let want = weight(k) / whole * f64::from(draws);
                let got = f64::from(counts[k as usize]);
                assert!((got - want).abs() < 5.0 * want.sqrt() + 5.0, "theta {theta}, rank {k}: {got} for {want}");
            }
        }
    }

    #[test]
    fn quotients_near_0_are_steady() {
        for x in [1e-9, -1e-9, 1e-8, 1.1e-8, -2e-8] {
            assert!((expm1_over(x) - (1.0 + x / 2.0)).abs() < 1e-15, "{x}");
            assert!((log1p_over(x) - (1.0 - x / 2.0)).abs() < 1e-15, "{x}");
        }
        assert_eq!((expm1_over(0.0), log1p_over(0.0)), (1.0, 1.0));
        assert!((expm1_over(1.0) - 1.718_281_828_459_045).abs() < 1e-15);
        assert!((log1p_over(1.0) - std::f64::consts::LN_2).abs() < 1e-15);
    }

    #[test]
    fn huge_and_tiny_ranges_stay_inside() {
        let mut dice = Dice::new(1, 1);
        for n in [1, 2, 10_000_000_000] {
            for theta in [0.0, 0.99, 1.0, 10.0] {
                let zipf = ZipfRanks::new(n, theta);
                assert!((0..2000).all(|_| zipf.sample(&mut dice) < n), "{n} {theta}");
            }
        }
    }
}
