//! Contents of a figure, before anything is drawn: axes, series, bars, colours.
//!
//! `series.rs` makes figures from outcomes. `chart.js` draws them on a page, from what `page.rs` makes of them.

/// The most panels that a page shows below each other.
const MULTIPLE_FROM: usize = 2;

/// A figure: one panel, or several below each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// The stem of the file's name, and the anchor in a page.
    pub name: String,
    /// The title.
    pub title: String,
    /// A sentence on how to read the figure, or why it is empty.
    pub note: String,
    /// The panels; none if there is nothing to show.
    pub panels: Vec<Panel>,
}

/// A pair of axes and what is drawn between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Its heading, if the figure has several panels.
    pub title: Option<String>,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Horizontal marks: a value of y and its name.
    pub guides: Vec<(f64, String)>,
    /// Moments: a value of x and what happens then.
    pub marks: Vec<(f64, String)>,
    /// The lines or bars.
    pub body: Body,
}

/// The lines or bars between the axes.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Lines and points.
    Lines(Vec<Series>),
    /// Horizontal bars, one a row, stacked by part.
    Bars {
        /// The rows' names, from the top.
        rows: Vec<String>,
        /// The text after each bar.
        totals: Vec<String>,
        /// The parts, from the left.
        parts: Vec<BarPart>,
    },
    /// Horizontal bars, one a row, each with its range of uncertainty and a measured value.
    Estimates(Vec<Estimate>),
}

/// A bar whose length is uncertain.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The row's name.
    pub name: String,
    /// Its length.
    pub value: f64,
    /// The range of the true value.
    pub range: Option<(f64, f64)>,
    /// A measured value, if there is one.
    pub measured: Option<f64>,
    /// The text after it.
    pub text: String,
    /// Its colour.
    pub colour: Colour,
}

impl Estimate {
    /// The right end of everything drawn for it.
    fn end(&self) -> f64 {
        self.value.max(self.range.map_or(0.0, |range| range.1)).max(self.measured.unwrap_or(0.0))
    }
}

/// A line, or points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// The way its points are joined.
    pub style: Style,
    /// The points, in the order of x; one whose y is NaN is a gap.
    pub points: Vec<(f64, f64)>,
}

/// The way the points of a series are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// The value holds until the next point; otherwise lines are straight.
    pub steps: bool,
    /// The lines are broken.
    pub dashed: bool,
}

impl Style {
    /// Lines from point to point.
    pub const LINE: Style = Style { steps: false, dashed: false };
    /// Lines of values that hold until the next.
    pub const STEPS: Style = Style { steps: true, dashed: false };
}

/// A part of stacked bars.
#[derive(Clone, Debug, PartialEq)]
pub struct BarPart {
    /// Its name in the legend.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// Its length in each row.
    pub values: Vec<f64>,
}

impl Figure {
    /// A figure of panels.
    pub fn new(
        name: impl Into<String>,
        title: impl Into<String>,
        note: impl Into<String>,
        panels: impl IntoIterator<Item = Panel>,
    ) -> Figure {
        let panels = panels.into_iter().collect();
        Figure { name: name.into(), title: title.into(), note: note.into(), panels }
    }

    /// A figure of the panels that have data. Its note is `nothing` if none has.
    pub fn of_data(
        name: &str,
        title: &str,
        note: &str,
        panels: impl IntoIterator<Item = Panel>,
        nothing: &str,
    ) -> Figure {
        let panels: Vec<Panel> = panels.into_iter().filter(|panel| !panel.is_empty()).collect();
        Figure::new(name, title, if panels.is_empty() { nothing } else { note }, panels)
    }

    /// Sets one horizontal range for all panels, so that they can be compared from top to bottom.
    pub fn share_x(&mut self) {
        let Some(first) = self.panels.first() else { return };
        let range = first.x.range(self.panels.iter().flat_map(|p| p.points().map(|(x, _)| x)));
        self.panels.iter_mut().for_each(|p| p.x.fixed = Some(range));
    }

    /// Sets one vertical range for all panels of lines, so that they can be compared side by side.
    pub fn share_y(&mut self) {
        let Some(first) = self.panels.first() else { return };
        let guides = self.panels.iter().flat_map(|p| p.guides.iter().map(|guide| guide.0));
        let range = first.y.range(self.panels.iter().flat_map(|p| p.points().map(|(_, y)| y)).chain(guides));
        self.panels.iter_mut().for_each(|p| p.y.fixed = Some(range));
    }

    /// True for many panels of lines, which a page shows side by side.
    pub(crate) fn is_multiple(&self) -> bool {
        let lines = self.panels.iter().filter(|panel| matches!(panel.body, Body::Lines(_)));
        lines.count() > MULTIPLE_FROM
    }

    /// The legend: the named series and parts that some panel draws, each name once.
    pub(crate) fn legend(&self) -> Vec<Key> {
        // A name keeps the place of the first panel that has it, even if only a later one draws it.
        let mut keys: Vec<(Key, bool)> = Vec::new();
        for (key, drawn) in self.panels.iter().flat_map(Panel::keys) {
            match keys.iter_mut().find(|(old, _)| old.name == key.name) {
                Some((_, before)) => *before |= drawn,
                None => keys.push((key, drawn)),
            }
        }
        keys.into_iter().filter(|(key, drawn)| *drawn && !key.name.is_empty()).map(|(key, _)| key).collect()
    }
}

/// An entry of a legend.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    /// The name of a series or part.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// The way a series is joined; `None` for a part of bars.
    pub style: Option<Style>,
}

impl Panel {
    /// A panel without guides.
    pub fn new(title: Option<&str>, x: Axis, y: Axis, body: Body) -> Panel {
        Panel { title: title.map(str::to_string), x, y, guides: Vec::new(), marks: Vec::new(), body }
    }

    /// A panel of lines.
    pub fn lines(title: Option<&str>, x: Axis, y: Axis, series: impl IntoIterator<Item = Series>) -> Panel {
        Panel::new(title, x, y, Body::Lines(series.into_iter().collect()))
    }

    /// A panel of bars.
    pub fn bars(title: Option<&str>, x: Axis, rows: Vec<String>, totals: Vec<String>, parts: Vec<BarPart>) -> Panel {
        Panel::new(title, x, Axis::default(), Body::Bars { rows, totals, parts })
    }

    /// Its names for the legend, and whether each is drawn.
    fn keys(&self) -> Vec<(Key, bool)> {
        match &self.body {
            Body::Lines(series) => {
                let key = |s: &Series| Key { name: s.name.clone(), colour: s.colour, style: Some(s.style) };
                series.iter().map(|s| (key(s), true)).collect()
            }
            Body::Bars { parts, .. } => {
                let key = |p: &BarPart| Key { name: p.name.clone(), colour: p.colour, style: None };
                parts.iter().map(|p| (key(p), p.is_drawn())).collect()
            }
            Body::Estimates(_) => Vec::new(),
        }
    }

    /// The points of its lines that can be drawn on its axes.
    pub(crate) fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        let series = if let Body::Lines(series) = &self.body { series.as_slice() } else { &[] };
        series.iter().flat_map(|s| self.stretches(s)).flatten()
    }

    /// The points of a series that can be drawn on the axes, split at the gaps.
    pub(crate) fn stretches(&self, series: &Series) -> Vec<Vec<(f64, f64)>> {
        let shown = |&&(x, y): &&(f64, f64)| self.x.takes(x) && self.y.takes(y);
        let stretches = series.points.split(|(_, y)| y.is_nan());
        stretches
            .map(|points| points.iter().filter(shown).copied().collect())
            .filter(|s: &Vec<_>| !s.is_empty())
            .collect()
    }

    /// The ranges of both axes. Bars and estimates are drawn in rows, so their vertical range is fixed.
    pub(crate) fn ranges(&self) -> ((f64, f64), (f64, f64)) {
        match &self.body {
            Body::Lines(_) => {
                let guides = self.guides.iter().map(|g| g.0);
                (self.x.range(self.points().map(|p| p.0)), self.y.range(self.points().map(|p| p.1).chain(guides)))
            }
            Body::Bars { .. } => (self.x.range(self.bar_ends().into_iter()), (0.0, 1.0)),
            Body::Estimates(all) => (self.x.range(all.iter().map(Estimate::end)), (0.0, 1.0)),
        }
    }

    /// End of each row's bar.
    pub(crate) fn bar_ends(&self) -> Vec<f64> {
        let Body::Bars { rows, parts, .. } = &self.body else { return Vec::new() };
        (0..rows.len()).map(|row| parts.iter().map(|part| part.values[row]).sum()).collect()
    }

    /// True if nothing would be drawn.
    pub fn is_empty(&self) -> bool {
        match &self.body {
            Body::Lines(series) => series.iter().all(|s| s.points.is_empty()),
            Body::Bars { parts, .. } => !parts.iter().any(BarPart::is_drawn),
            Body::Estimates(all) => all.is_empty(),
        }
    }
}

impl BarPart {
    /// True if it is longer than 0 in some row.
    pub(crate) fn is_drawn(&self) -> bool {
        self.values.iter().any(|&value| value > 0.0)
    }
}

/// Ends a stepped line where a window without a value (NaN) begins. Consecutive windows without a value become one NaN point.
pub fn gapped(steps: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(steps.len());
    for &(x, y) in steps {
        match points.last() {
            // The last value holds up to here.
            Some(&(_, last)) if y.is_nan() && !last.is_nan() => points.extend([(x, last), (x, f64::NAN)]),
            _ if y.is_nan() => {}
            _ => points.push((x, y)),
        }
    }
    points
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// The quantity, with its unit.
    pub label: String,
    /// Logarithmic, and only values above 0 are drawn; else linear from 0.
    pub log: bool,
    /// The form of its numbers.
    pub numbers: Numbers,
    /// The range to draw, if it does not follow from this panel's data alone.
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

impl Axis {
    /// A linear axis that starts at 0.
    pub fn linear(label: impl Into<String>) -> Axis {
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

    /// The range to draw for `values`; never empty.
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
        let low = low.min(0.0);
        let spread = if high > low { high - low } else { low.abs().max(1.0) };
        // A little room around the values, but an axis that begins at 0 ends there.
        (if low == 0.0 { 0.0 } else { low - 0.04 * spread }, high + 0.06 * spread)
    }
}

fn power_of_ten(exponent: i32) -> f64 {
    // Read from text, because a product of tens is not always the nearest number.
    format!("1e{exponent}").parse().unwrap_or(f64::INFINITY)
}

// Colours of Okabe and Ito (2008), which people with any common colour blindness can tell apart, and wine of Tol (2021).

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
    /// The last of the palette, too dark for dark ground.
    const WINE: Colour = Colour(0x88, 0x22, 0x55);
    /// A colour that can't be seen on a dark background, and its replacement there.
    pub const ON_DARK: (Colour, Colour) = (Colour::WINE, Colour(0xF0, 0xE4, 0x42));
    /// The palette of runs and series; `GREY` is kept for the conventional disk.
    pub const PALETTE: [Colour; 7] = [
        Colour(0x00, 0x72, 0xB2),
        Colour::VERMILION,
        Colour(0x00, 0x9E, 0x73),
        Colour::PINK,
        Colour::ORANGE,
        Colour::SKY,
        Colour::WINE,
    ];

    /// The nth colour of the palette, from the start again after the last.
    pub const fn nth(n: usize) -> Colour {
        Colour::PALETTE[n % Colour::PALETTE.len()]
    }

    /// The colour as CSS writes it.
    pub fn hex(self) -> String {
        format!("#{:02X}{:02X}{:02X}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_data_odd_data_and_one_value_still_give_a_range() {
        for axis in [Axis::linear(""), Axis::log("", Numbers::Plain)] {
            for data in [vec![], vec![0.0], vec![f64::NAN], vec![5.0], vec![1e300, 1e-300], vec![-3.0, 3.0]] {
                let (low, high) = axis.range(data.iter().copied());
                assert!(low < high, "{axis:?} {data:?}");
            }
        }
    }

    #[test]
    fn ranges_leave_room_around_the_values() {
        let of = |axis: &Axis, values: &[f64]| axis.range(values.iter().copied());
        let (linear, log) = (Axis::linear(""), Axis::log("", Numbers::Plain));
        assert_eq!(of(&linear, &[50.0, 100.0]), (0.0, 106.0));
        assert_eq!(of(&linear, &[-50.0, 50.0]), (-54.0, 56.0));
        assert_eq!(of(&log, &[20.0, 3000.0, 0.0, -1.0]), (10.0, 10_000.0));
        assert_eq!((of(&log, &[100.0]), of(&log, &[0.0003, 31.0])), ((10.0, 100.0), (1e-4, 100.0)));
        assert_eq!((of(&log, &[]), of(&linear, &[f64::NAN])), ((1.0, 10.0), (0.0, 1.0)));
        let fixed = Axis { fixed: Some((3.0, 4.0)), ..linear };
        assert_eq!(of(&fixed, &[50.0]), (3.0, 4.0));
        assert_eq!(
            [log.takes(0.0), log.takes(0.1), fixed.takes(0.0), fixed.takes(f64::INFINITY)],
            [false, true, true, false]
        );
    }
}
