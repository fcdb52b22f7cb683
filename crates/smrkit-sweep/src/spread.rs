//! The mean of several runs and its 95 % confidence interval, by Student's t.

use smrkit::stats::confidence::students_t;
use smrkit_report::format::{fixed, short};

/// The mean of a number over several runs of one kind, with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Number of runs.
    pub n: usize,
    /// The mean.
    pub mean: f64,
    /// Half the width of the interval around it: 95 of 100 such intervals hold the mean of all seeds. 0 if all numbers are equal.
    pub half: f64,
}

impl Spread {
    /// The spread of `numbers`; `None` without any.
    pub fn new(numbers: impl Iterator<Item = f64>) -> Option<Spread> {
        let all: Vec<f64> = numbers.collect();
        // Compared directly, because the mean is rounded, so that the variance of equal numbers may be a little above 0.
        let are_equal = all.iter().all(|value| *value == all[0]);
        let n = all.len();
        let mean = all.iter().sum::<f64>() / n as f64;
        let variance = all.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n.saturating_sub(1).max(1) as f64;
        let half = students_t(n) * (variance / n as f64).sqrt();
        (n > 0).then_some(Spread { n, mean, half: if are_equal { 0.0 } else { half } })
    }

    /// The ends of the interval; `None` for a single run.
    pub fn interval(self) -> Option<(f64, f64)> {
        (self.n > 1).then_some((self.mean - self.half, self.mean + self.half))
    }

    /// Text of the mean and half the interval, multiplied by `factor`: `4.13 ± 0.66`, with the interval's first two digits. Without an
    /// interval if seeds made no difference.
    pub fn text(&self, factor: f64) -> String {
        let (mean, half) = (self.mean * factor, self.half * factor);
        if half == 0.0 {
            return short(mean);
        }
        // The unit that `short` would choose, for both numbers.
        let (unit, prefix) = match mean.abs().max(half) {
            most if most >= 999_500_000.0 => (1e9, " G"),
            most if most >= 999_500.0 => (1e6, " M"),
            _ => (1.0, ""),
        };
        let digits = digits_of(half / unit);
        format!("{} ± {}{prefix}", fixed(mean / unit, digits), fixed(half / unit, digits))
    }
}

/// A number and the ends of its interval, with the interval's first two digits: `1.73 (1.52 to 1.97)`.
pub(crate) fn with_interval(value: f64, ends: Option<(f64, f64)>) -> String {
    match ends {
        Some((low, high)) if low < high => {
            let digits = digits_of((high - low) / 2.0);
            format!("{} ({} to {})", fixed(value, digits), fixed(low, digits), fixed(high, digits))
        }
        _ => short(value),
    }
}

/// The decimals that show two digits of half an interval: 2 for 0.664, -1 for 123.
fn digits_of(half: f64) -> i32 {
    // Rounded first, since 0.0996 is 0.10.
    let rounded = format!("{half:.1e}");
    let exponent = rounded.split_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok());
    1 - exponent.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_shown_with_two_digits_and_its_mean_as_far() {
        let text = |numbers: &[f64], factor| Spread::new(numbers.iter().copied()).unwrap().text(factor);
        assert_eq!(text(&[5.0], 1.0), "5");
        assert_eq!(text(&[5.0, 5.0], 1.0), "5", "no seed made a difference");
        assert_eq!(text(&[4000.0, 4246.0, 4123.0], 1e-3), "4.12 ± 0.31");
        assert_eq!(text(&[1.0, 1.001], 1.0), "1.0005 ± 0.0064");
        assert_eq!(text(&[99.0, 101.3, 100.0, 101.0], 1.0), "100.3 ± 1.7");
        assert_eq!(text(&[4000.0, 4246.0, 4123.0], 1.0), "4,120 ± 310");
        assert_eq!(text(&[4000.0, 4246.0, 4123.0], 1e3), "4.12 ± 0.31 M");
        assert_eq!(text(&[0.0, 0.0], 1.0), "0");
        assert_eq!([0.664, 0.0996, 9.96, 123.0, 1.0].map(digits_of), [2, 2, 0, -1, 1]);
    }

    #[test]
    fn a_spread_is_of_its_numbers() {
        let of = |numbers: &[f64]| Spread::new(numbers.iter().copied());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3.0]).unwrap().interval(), None);
        assert_eq!(of(&[3.0, 3.0]).unwrap().interval(), Some((3.0, 3.0)));
        let spread = of(&[4.0, 1.0, 7.0]).unwrap();
        assert_eq!((spread.n, spread.mean), (3, 4.0));
        assert!((spread.half - 4.303 * 3.0 / 3_f64.sqrt()).abs() < 1e-9);
    }
}
