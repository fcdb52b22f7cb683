//! Random writes, and requests a second over the time of a run.

use smrkit::drive::Drive;
use smrkit::stats::outcome::Outcome;
use smrkit::units::Nanos;

use crate::Plan;
use smrkit_report::format::count;

/// Random 4 KB writes on the layer.
pub fn random_writes(drive: &Drive, seed: u64) -> Plan {
    Plan::workload(drive, "s-block", "random-write:count=100M", seed)
}

pub fn seconds(s: u64) -> Nanos {
    Nanos(s * 1_000_000_000)
}

/// Requests in each second of a run.
pub struct RunSeries {
    iops: Vec<f64>,
    /// The first second in which a write waits for cleaning; the end if none does.
    pub drop: usize,
}

impl RunSeries {
    /// Of a run with windows of 1 s that ended after `end_s`.
    pub fn from_outcome(outcome: &Outcome, end_s: u64) -> RunSeries {
        let mut iops: Vec<f64> = outcome.timeline.requests.iter().map(|&requests| requests as f64).collect();
        iops.resize(end_s as usize, 0.0);
        let drop = outcome.verdict.cache_full_at_s.unwrap_or(end_s as f64);
        RunSeries { iops, drop: (drop as usize).min(end_s as usize) }
    }

    /// The whole seconds before the drop.
    pub fn before(&self) -> &[f64] {
        &self.iops[..self.drop]
    }

    /// The whole seconds after the drop.
    pub fn after(&self) -> &[f64] {
        &self.iops[(self.drop + 1).min(self.iops.len())..]
    }

    /// Means of whole stretches of this many seconds after the drop.
    pub fn means(&self, length_s: usize) -> Vec<f64> {
        self.after().chunks_exact(length_s).map(mean).collect()
    }

    /// The mean of the last seconds.
    pub fn last(&self, length_s: usize) -> f64 {
        let after = self.after();
        mean(&after[after.len().saturating_sub(length_s)..])
    }

    /// Seconds after the drop without any request.
    pub fn silent(&self) -> u64 {
        self.after().iter().filter(|&&iops| iops == 0.0).count() as u64
    }

    /// The least mean of this many seconds in a row after the drop, and the seconds until a mean of `wanted` is reached.
    pub fn depth_and_rise(&self, length_s: usize, wanted: f64) -> (f64, Option<usize>) {
        let means: Vec<f64> = self.after().windows(length_s).map(mean).collect();
        let least = means.iter().copied().fold(f64::INFINITY, f64::min);
        (least, means.iter().position(|&iops| iops >= wanted))
    }

    /// Steadiness of the rate's rise after the drop: Spearman's rank correlation of seconds and requests, windows alike sharing
    /// their rank.
    pub fn rank_correlation(&self) -> f64 {
        let after = self.after();
        let rank = |value: f64| {
            let (less, equal) = after.iter().fold((0, 0), |(less, equal), &other| {
                (less + usize::from(other < value), equal + usize::from(other == value))
            });
            less as f64 + (equal as f64 - 1.0) / 2.0
        };
        let middle = (after.len() as f64 - 1.0) / 2.0;
        let pairs = after.iter().enumerate().map(|(at, &value)| (at as f64 - middle, rank(value) - middle));
        let (both, time, rate) =
            pairs.fold((0.0, 0.0, 0.0), |(both, time, rate), (a, b)| (both + a * b, time + a * a, rate + b * b));
        both / (time * rate).sqrt()
    }

    /// For a figure: the middle of each second, and its requests.
    pub fn points(&self, from_s: usize) -> Vec<(f64, f64)> {
        self.iops.iter().enumerate().skip(from_s).map(|(i, &iops)| (i as f64 + 0.5, iops)).collect()
    }
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Whole numbers in a row.
pub fn listed(values: &[f64]) -> String {
    values.iter().map(|value| count(value.round() as u64)).collect::<Vec<_>>().join(" ")
}

/// The longest write, in milliseconds.
pub fn longest_ms(outcome: &Outcome) -> f64 {
    outcome.latency_ns.write.max as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_rises_less_steadily_than_a_slope() {
        let of = |after: &[f64]| RunSeries { iops: [&[900.0, 400.0], after].concat(), drop: 1 }.rank_correlation();
        assert!((of(&[40.0, 45.0, 50.0, 60.0]) - 1.0).abs() < 1e-12);
        assert!((of(&[60.0, 50.0, 40.0]) + 1.0).abs() < 1e-12);
        let step: Vec<f64> = (0..400).map(|at| if at < 200 { 41.0 } else { 80.0 }).collect();
        assert!((of(&step) - 0.866).abs() < 0.001, "{}", of(&step));
    }

    #[test]
    fn the_second_of_the_drop_counts_to_neither_side() {
        let course = RunSeries { iops: vec![900.0, 900.0, 500.0, 40.0, 60.0, 0.0, 80.0], drop: 2 };
        assert_eq!((course.before().len(), course.after()), (2, &[40.0, 60.0, 0.0, 80.0][..]));
        assert_eq!((course.means(2), course.last(2), course.silent()), (vec![50.0, 40.0], 40.0, 1));
        assert_eq!(course.depth_and_rise(2, 50.0), (30.0, Some(0)));
    }
}
