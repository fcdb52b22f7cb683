//! Axes: ranges, ticks, and how numbers are written at them.

use crate::format;

/// An axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// The quantity, with its unit.
    pub label: String,
    /// Logarithmic; only values above 0 are drawn.
    pub log: bool,
    /// Start at 0 (linear axes).
    pub from_zero: bool,
    /// The form of its numbers.
    pub numbers: Numbers,
    /// The range to draw, where the data of this panel alone shall not decide.
    pub fixed: Option<(f64, f64)>,
}

/// The form of numbers at ticks and under the pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// As they are; the axis label carries the unit.
    #[default]
    Plain,
    /// Seconds, written with the unit that keeps them readable.
    Time,
    /// Bytes, written with a decimal prefix.
    Bytes,
    /// Shares of 1, written in percent.
    Percent,
}

impl Numbers {
    /// A value as text.
    pub fn text(self, value: f64) -> String {
        match self {
            Numbers::Plain => format::short(value),
            Numbers::Time => format::seconds(value),
            Numbers::Bytes => format::bytes(value),
            Numbers::Percent => format!("{} %", format::short(value * 100.0)),
        }
    }
}

impl Axis {
    /// A linear axis that starts at 0.
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), from_zero: true, ..Axis::default() }
    }

    /// A linear axis over the data's own range.
    pub fn tight(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), ..Axis::default() }
    }

    /// A logarithmic axis.
    pub fn log(label: impl Into<String>, numbers: Numbers) -> Axis {
        Axis { label: label.into(), log: true, numbers, ..Axis::default() }
    }

    /// True for a value that can be drawn on it.
    pub fn takes(&self, value: f64) -> bool {
        value.is_finite() && (!self.log || value > 0.0)
    }

    /// The range to draw for data from `low` to `high`; never empty.
    pub fn range(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        if let Some(range) = self.fixed {
            return range;
        }
        let (low, high) =
            values.filter(|&v| self.takes(v)).fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        if low > high {
            return if self.log { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        if self.log {
            let (low, high) = (power_of_ten(low.log10().floor() as i32), power_of_ten(high.log10().ceil() as i32));
            return (if low < high { low } else { low / 10.0 }, high);
        }
        let low = if self.from_zero { low.min(0.0) } else { low };
        let spread = if high > low { high - low } else { low.abs().max(1.0) };
        (if low == 0.0 { 0.0 } else { low - 0.04 * spread }, high + 0.06 * spread)
    }

    /// At most about `most` round values from `low` to `high`.
    pub fn ticks(&self, (low, high): (f64, f64), most: usize) -> Vec<f64> {
        if self.log { log_ticks(low, high, most) } else { linear_ticks(low, high, most) }
    }
}

fn linear_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let rough = (high - low) / most.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|&s| s >= rough).unwrap_or(rough);
    if !step.is_normal() || (high - low) / step > 1000.0 {
        return vec![low];
    }
    let first = (low / step - 1e-9).ceil() as i64;
    (first..).map(|i| i as f64 * step).take_while(|&v| v <= high + 1e-9 * step).collect()
}

fn log_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let (first, last) = (low.log10().round() as i32, high.log10().round() as i32);
    let decades = (last - first).max(1) as usize;
    let stride = decades.div_ceil(most.max(1));
    let multiples: &[f64] = if decades * 3 <= most { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let ticks = (first..=last).step_by(stride).flat_map(|e| multiples.iter().map(move |m| power_of_ten(e) * m));
    ticks.filter(|&v| v >= low * 0.999 && v <= high * 1.001).collect()
}

fn power_of_ten(exponent: i32) -> f64 {
    format!("1e{exponent}").parse().unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_range() {
        let linear = Axis::linear("time (s)");
        assert_eq!(linear.ticks(linear.range([0.0, 47.0].into_iter()), 6), [0.0, 10.0, 20.0, 30.0, 40.0]);
        assert_eq!(linear.ticks((5000.0, 5009.0), 6), [5000.0, 5002.0, 5004.0, 5006.0, 5008.0]);
        let log = Axis::log("latency", Numbers::Time);
        assert_eq!(log.range([0.0003, 31.0].into_iter()), (1e-4, 100.0));
        assert_eq!(log.ticks((1e-4, 100.0), 8), [1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0]);
        assert_eq!(log.ticks((1.0, 10.0), 8), [1.0, 2.0, 5.0, 10.0]);
    }

    #[test]
    fn no_data_odd_data_and_one_value_still_give_a_range() {
        for axis in [Axis::linear(""), Axis::tight(""), Axis::log("", Numbers::Plain)] {
            for data in [vec![], vec![0.0], vec![f64::NAN], vec![5.0], vec![1e300, 1e-300], vec![-3.0, 3.0]] {
                let (low, high) = axis.range(data.iter().copied());
                assert!(low < high, "{axis:?} {data:?}");
                assert!(!axis.ticks((low, high), 6).is_empty(), "{axis:?} {data:?}");
                assert!(axis.ticks((low, high), 6).len() < 40, "{axis:?} {data:?}");
            }
        }
    }

    #[test]
    fn linear_ticks_are_multiples_of_one_two_or_five() {
        let of = |low, high, most| linear_ticks(low, high, most);
        assert_eq!(of(0.0, 10.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(of(0.0, 10.0, 10), (0..=10).map(f64::from).collect::<Vec<_>>());
        assert_eq!(of(0.0, 20.0, 4), [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!(of(0.0, 60.0, 6), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(of(-3.0, 3.0, 6), [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]);
        assert_eq!(of(1.5, 4.5, 3), [2.0, 3.0, 4.0]);
        assert_eq!(of(0.0, 0.5, 5), [0.0, 0.1, 0.2, 0.30000000000000004, 0.4, 0.5]);
        assert_eq!(of(0.0, 1.0, 0), [0.0, 1.0]);
        assert_eq!(of(7.0, 7.0, 5), [7.0], "an empty range has its end");
        assert_eq!(of(0.0, 1000.0, 1000).len(), 1001);
        assert_eq!(of(0.0, 5005.0, 1001), [0.0], "too many are none");
    }

    #[test]
    fn ranges_leave_room_around_the_values() {
        let of = |axis: &Axis, values: &[f64]| axis.range(values.iter().copied());
        let (linear, tight, log) = (Axis::linear(""), Axis::tight(""), Axis::log("", Numbers::Plain));
        assert_eq!(of(&linear, &[50.0, 100.0]), (0.0, 106.0));
        assert_eq!(of(&linear, &[-50.0, 50.0]), (-54.0, 56.0));
        assert_eq!(of(&tight, &[100.0, 200.0]), (96.0, 206.0));
        assert_eq!(of(&tight, &[0.0, 100.0]), (0.0, 106.0));
        assert_eq!(of(&tight, &[100.0]), (96.0, 106.0));
        assert_eq!(of(&tight, &[0.5]), (0.46, 0.56));
        assert_eq!(of(&log, &[20.0, 3000.0, 0.0, -1.0]), (10.0, 10_000.0));
        assert_eq!(of(&log, &[100.0]), (10.0, 100.0));
        assert_eq!((of(&log, &[]), of(&linear, &[f64::NAN])), ((1.0, 10.0), (0.0, 1.0)));
        let fixed = Axis { fixed: Some((3.0, 4.0)), ..linear };
        assert_eq!(of(&fixed, &[50.0]), (3.0, 4.0));
        assert_eq!(
            [log.takes(0.0), log.takes(0.1), tight.takes(0.0), tight.takes(f64::INFINITY)],
            [false, true, true, false]
        );
    }

    #[test]
    fn logarithmic_ticks_are_thinned_where_there_are_many_decades() {
        assert_eq!(log_ticks(1.0, 100.0, 6), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert_eq!(log_ticks(1.0, 100.0, 5), [1.0, 10.0, 100.0]);
        assert_eq!(log_ticks(1.0, 1e8, 8).len(), 9);
        assert_eq!(log_ticks(1.0, 1e9, 8), [1.0, 100.0, 1e4, 1e6, 1e8]);
        assert_eq!(log_ticks(2.0, 60.0, 8), [2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(
            [Numbers::Plain, Numbers::Time, Numbers::Bytes, Numbers::Percent].map(|form| form.text(0.5)),
            ["0.5", "500 ms", "0.5 B", "50 %"]
        );
    }
}
