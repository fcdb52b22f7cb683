//! What a figure shows, before anything is drawn: axes, series, bars, colours.
//!
//! `series.rs` makes figures from outcomes; `html.rs` and `figures.rs` only draw them. Colours are those of Okabe and
//! Ito (2008), which people with any common colour blindness can tell apart.

use crate::format;

/// A figure: one panel, or several below each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// The stem of the file's name, and the anchor in a page.
    pub name: String,
    /// The title.
    pub title: String,
    /// How to read it, or why it is empty; one sentence.
    pub note: String,
    /// The panels; none where there is nothing to show.
    pub panels: Vec<Panel>,
}

/// A pair of axes and what is drawn between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// A heading of its own, where a figure has several panels.
    pub title: Option<String>,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Horizontal marks: a value of y and its name.
    pub guides: Vec<(f64, String)>,
    /// What is drawn.
    pub body: Body,
}

/// What is drawn between the axes.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Lines and points.
    Lines(Vec<Series>),
    /// Horizontal bars, one a row, stacked by part.
    Bars {
        /// The rows' names, from the top.
        rows: Vec<String>,
        /// What is written after each bar.
        totals: Vec<String>,
        /// The parts, from the left.
        parts: Vec<Part>,
    },
    /// Strips of colour, one a row; cells of equal width; zero is left white.
    Strips {
        /// The rows from the top: name and cells.
        rows: Vec<(String, Vec<f64>)>,
        /// Where the last cell ends on the horizontal axis.
        end: f64,
        /// The smallest and largest value that gets a colour, for all panels alike.
        range: (f64, f64),
    },
}

/// A line, or points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// How the points are joined.
    pub style: Style,
    /// The points, in the order of x; one whose y is NaN is a gap.
    pub points: Vec<(f64, f64)>,
}

/// How the points of a series are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Straight lines.
    Line,
    /// Straight broken lines.
    Dashed,
    /// The value holds until the next point.
    Step,
    /// The same, broken.
    DashedStep,
    /// Dots alone.
    Points,
    /// Lines with a dot at each point.
    Marked,
}

impl Style {
    /// Whether the line is broken.
    pub fn dashed(self) -> bool {
        matches!(self, Style::Dashed | Style::DashedStep)
    }

    /// Whether the value holds until the next point.
    pub fn steps(self) -> bool {
        matches!(self, Style::Step | Style::DashedStep)
    }
}

/// A part of stacked bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Its name in the legend.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// Its length in each row.
    pub values: Vec<f64>,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What it measures, with the unit.
    pub label: String,
    /// Logarithmic; only values above 0 are drawn.
    pub log: bool,
    /// Start at 0 (linear axes).
    pub from_zero: bool,
    /// How its numbers are written.
    pub numbers: Numbers,
    /// The range to draw, where the data of this panel alone shall not decide.
    pub fixed: Option<(f64, f64)>,
}

/// How numbers are written at ticks and under the pointer.
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

    /// Whether a value can be drawn on it.
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

impl Figure {
    /// A figure with one panel of lines.
    pub fn lines(name: &str, title: &str, x: Axis, y: Axis, series: Vec<Series>) -> Figure {
        let panel = Panel { title: None, x, y, guides: Vec::new(), body: Body::Lines(series) };
        Figure { name: name.into(), title: title.into(), note: String::new(), panels: vec![panel] }
    }
}

impl Figure {
    /// Gives the panels one horizontal range, so that they can be compared from top to bottom.
    pub fn share_x(&mut self) {
        let Some(first) = self.panels.first() else { return };
        let range = first.x.range(self.panels.iter().flat_map(|p| p.points().map(|(x, _)| x)));
        self.panels.iter_mut().for_each(|p| p.x.fixed = Some(range));
    }
}

impl Panel {
    /// The points of its lines that its axes can show.
    pub fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        let series = if let Body::Lines(series) = &self.body { series.as_slice() } else { &[] };
        series.iter().flat_map(|s| &s.points).copied().filter(|p| self.x.takes(p.0) && self.y.takes(p.1))
    }

    /// The ranges of both axes, for a panel of lines.
    pub fn ranges(&self) -> ((f64, f64), (f64, f64)) {
        let guides = self.guides.iter().map(|g| g.0);
        (self.x.range(self.points().map(|p| p.0)), self.y.range(self.points().map(|p| p.1).chain(guides)))
    }

    /// Whether nothing would be drawn.
    pub fn is_empty(&self) -> bool {
        match &self.body {
            Body::Lines(series) => series.iter().all(|s| s.points.is_empty()),
            Body::Bars { parts, .. } => parts.iter().all(|p| p.values.iter().all(|&v| v <= 0.0)),
            Body::Strips { rows, .. } => rows.iter().all(|(_, cells)| cells.is_empty()),
        }
    }
}

impl Series {
    /// A series in the nth colour.
    pub fn nth(n: usize, name: impl Into<String>, style: Style, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), colour: Colour::nth(n), style, points }
    }
}

/// A colour: red, green, blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour(pub u8, pub u8, pub u8);

impl Colour {
    /// The conventional disk.
    pub const GREY: Colour = Colour(0x77, 0x77, 0x77);
    /// Writes for the host.
    pub const SKY: Colour = Colour(0x56, 0xB4, 0xE9);
    /// Destaging.
    pub const ORANGE: Colour = Colour(0xE6, 0x9F, 0x00);
    /// Cleaning.
    pub const VERMILION: Colour = Colour(0xD5, 0x5E, 0x00);
    /// Maps.
    pub const PINK: Colour = Colour(0xCC, 0x79, 0xA7);
    /// The palette of runs and series; `GREY` is kept for the conventional disk.
    pub const PALETTE: [Colour; 7] = [
        Colour(0x00, 0x72, 0xB2),
        Colour::VERMILION,
        Colour(0x00, 0x9E, 0x73),
        Colour::PINK,
        Colour::ORANGE,
        Colour::SKY,
        Colour(0x88, 0x22, 0x55),
    ];

    /// The nth colour of the palette, from the start again after the last.
    pub const fn nth(n: usize) -> Colour {
        Colour::PALETTE[n % Colour::PALETTE.len()]
    }

    /// As CSS writes it.
    pub fn hex(self) -> String {
        format!("#{:02X}{:02X}{:02X}", self.0, self.1, self.2)
    }

    /// The colour of a strip's cell: from pale to dark blue as `share` goes from 0 to 1.
    pub fn strip(share: f64) -> Colour {
        const STOPS: [Colour; 4] =
            [Colour(0xDD, 0xE8, 0xF4), Colour(0x8F, 0xBC, 0xE0), Colour(0x2B, 0x7B, 0xBA), Colour(0x08, 0x2A, 0x5C)];
        let at = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
        let (from, to) = (STOPS[at as usize], STOPS[(at as usize + 1).min(STOPS.len() - 1)]);
        let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * at.fract()).round() as u8;
        Colour(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
    }
}

/// Steps that end where a window without a value (NaN) begins, with one point without a value for each gap.
pub fn gapped(steps: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(steps.len());
    for &(x, y) in steps {
        match points.last() {
            Some(&(_, last)) if y.is_nan() && !last.is_nan() => points.extend([(x, last), (x, f64::NAN)]),
            _ if y.is_nan() => {}
            _ => points.push((x, y)),
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_range() {
        let linear = Axis::linear("time (s)");
        assert_eq!(linear.ticks(linear.range([0.0, 47.0].into_iter()), 6), [0.0, 10.0, 20.0, 30.0, 40.0]);
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
}
