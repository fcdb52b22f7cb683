//! Distributions given as curves: values and the share of things that are not larger.
//!
//! Between two points the logarithm of the value is uniform. Curves of file sizes and ages span four decades and are
//! drawn on logarithmic axes, and so the reconstructed ones have the means that fit the paper's run: 168 MB, 229 days.

use std::path::Path;

use smrkit::error::Error;
use smrkit::workload::dice::Dice;

/// A distribution by its cumulative curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// Values, and the share from 0 to 1 of what is not larger; both ascend, the last share is 1.
    points: Vec<(f64, f64)>,
    /// Its source.
    source: String,
}

/// File sizes in MB. Published as a curve only (Kadekodi et al. 2015, figure 4 b); a reconstruction.
const SIZES_MB: [(f64, f64); 9] = [
    (1.0, 0.10),
    (4.0, 0.20),
    (16.0, 0.35),
    (64.0, 0.60),
    (128.0, 0.75),
    (256.0, 0.85),
    (512.0, 0.93),
    (1024.0, 0.97),
    (4096.0, 1.0),
];

/// File ages in days. Published as a curve only (Kadekodi et al. 2015, figure 4 c); a reconstruction.
const AGES_DAYS: [(f64, f64); 10] = [
    (1.0, 0.05),
    (4.0, 0.10),
    (16.0, 0.22),
    (32.0, 0.32),
    (64.0, 0.43),
    (128.0, 0.56),
    (256.0, 0.71),
    (512.0, 0.86),
    (1024.0, 0.97),
    (2048.0, 1.0),
];

impl Distribution {
    /// The reconstructed file sizes, in MB.
    pub fn sizes_mb() -> Distribution {
        Distribution { points: SIZES_MB.to_vec(), source: "reconstruction".into() }
    }

    /// The reconstructed file ages, in days.
    pub fn ages_days() -> Distribution {
        Distribution { points: AGES_DAYS.to_vec(), source: "reconstruction".into() }
    }

    /// Reads lines of `value,cumulative_percent`; a heading, empty lines and `#` are skipped. `path` is for messages.
    pub fn parse(path: &Path, text: &str) -> Result<Distribution, Error> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        let mut headings = 0;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |message: &str| bad_line(path, number as u64 + 1, line, message);
            let columns = line.split_once(',').and_then(|(value, percent)| {
                Some((value.trim().parse::<f64>().ok()?, percent.trim().parse::<f64>().ok()?))
            });
            let Some((value, percent)) = columns else {
                headings += 1;
                if headings > 1 || !points.is_empty() {
                    return Err(wrong("expected two numbers"));
                }
                continue;
            };
            if !(value.is_finite() && value > 0.0) {
                return Err(wrong("the value must be above 0"));
            }
            if !(0.0..=100.0).contains(&percent) {
                return Err(wrong("the share must be from 0 to 100"));
            }
            if points.last().is_some_and(|last| last.0 >= value || last.1 > percent / 100.0) {
                return Err(wrong("values and shares must ascend"));
            }
            points.push((value, percent / 100.0));
        }
        if points.last().is_none_or(|last| last.1 != 1.0) {
            return Err(Error::input(
                path,
                "the last share must be 100: give lines of value,cumulative_percent, as in 64,60",
            ));
        }
        Ok(Distribution { points, source: path.display().to_string() })
    }

    /// Its source: a file, or "reconstruction".
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Its points: values, and shares from 0 to 1.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// The value at a share from 0 to 1. Up to the first point's share it is the first value.
    pub fn at(&self, share: f64) -> f64 {
        let next = self.points.partition_point(|point| point.1 < share).min(self.points.len() - 1);
        let (high, end) = self.points[next];
        if next == 0 || share >= end {
            return high;
        }
        let (low, start) = self.points[next - 1];
        low * libm::pow(high / low, (share - start) / (end - start))
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        let first = self.points[0];
        let pairs = self.points.windows(2).map(|pair| (pair[0], pair[1]));
        let of_pair = |((low, start), (high, end)): ((f64, f64), (f64, f64))| {
            (end - start) * (high - low) / libm::log(high / low)
        };
        first.0 * first.1 + pairs.map(of_pair).sum::<f64>()
    }

    /// One value at random.
    pub fn draw(&self, dice: &mut Dice) -> f64 {
        self.at(dice.unit())
    }
}

fn bad_line(path: &Path, line: u64, text: &str, message: &str) -> Error {
    let message = format!("\"{text}\": {message}; give lines of value,cumulative_percent, as in 64,60");
    Error::at_line(path, line, None, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reconstructions_have_the_means_that_fit_the_run() {
        let (sizes, ages) = (Distribution::sizes_mb(), Distribution::ages_days());
        assert!((166.0..169.0).contains(&sizes.mean()), "{} MB", sizes.mean());
        assert!((228.0..230.0).contains(&ages.mean()), "{} days", ages.mean());
        assert_eq!([0.0, 0.1, 0.6, 1.0].map(|share| sizes.at(share)), [1.0, 1.0, 64.0, 4096.0]);
        assert!((sizes.at(0.475) - 32.0).abs() < 1e-6, "half way from 16 to 64 by logarithms: {}", sizes.at(0.475));
    }

    #[test]
    fn draws_follow_the_curve() {
        let sizes = Distribution::sizes_mb();
        let mut dice = Dice::new(5, 0);
        let drawn: Vec<f64> = (0..40_000).map(|_| sizes.draw(&mut dice)).collect();
        for &(value, share) in sizes.points() {
            let ours = drawn.iter().filter(|&&size| size <= value).count() as f64 / drawn.len() as f64;
            assert!((ours - share).abs() < 0.01, "{value} MB: {ours} is not {share}");
        }
    }

    #[test]
    fn a_curve_of_the_users_is_read_and_a_bad_one_refused_by_line() {
        let read = |text| Distribution::parse(Path::new("sizes.csv"), text);
        let ours = read("mb,percent\n# small files\n0.5, 25\n2,100\n").unwrap();
        assert_eq!(ours.points(), [(0.5, 0.25), (2.0, 1.0)]);
        for (text, words) in [
            ("1,50\n1,100\n", "sizes.csv:2: \"1,100\": values and shares must ascend"),
            ("1,50\n2,40\n", "ascend"),
            ("1,50\n2,90\n", "the last share must be 100"),
            ("", "the last share must be 100"),
            ("0,50\n2,100\n", "above 0"),
            ("1,150\n", "0 to 100"),
            ("1,50\nx,y\n2,100\n", "two numbers"),
            ("nan,100\n", "above 0"),
        ] {
            let message = read(text).unwrap_err().to_string();
            assert!(message.contains(words), "{text:?}: {message}");
        }
    }
}
