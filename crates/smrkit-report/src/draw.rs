//! Figures as SVG or PNG: laid out here and drawn on a canvas.
//!
//! Sizes are CSS pixels. Every margin is measured from the text that it has to hold, so that nothing is cut off.

use crate::canvas::{Anchor, Canvas, Label, Raster, Svg, text_width};
use crate::figure::{Axis, Body, Colour, Figure, Key, Panel, Series, Style, Theme, strip_ticks};

const WIDTH: f64 = 900.0;
const EDGE: f64 = 18.0;
const LINES_HEIGHT: f64 = 250.0;
/// Of many panels, which are compared with each other rather than read one by one.
const MULTIPLE_HEIGHT: f64 = 130.0;
const ROW_HEIGHT: f64 = 30.0;
const TEXT: f64 = 12.0;
const INK: Colour = Theme::LIGHT.ink;
const PALE: Colour = Theme::LIGHT.pale;
const RULE: Colour = Theme::LIGHT.rule;
const GRID: Colour = Theme::LIGHT.grid;

/// A figure as an SVG document.
pub fn svg(figure: &Figure) -> String {
    let mut canvas = Svg::new(WIDTH, height(figure));
    draw(figure, &mut canvas);
    canvas.finish()
}

/// A figure as PNG; `None` if memory runs out.
pub fn png(figure: &Figure) -> Option<Vec<u8>> {
    let mut canvas = Raster::new(WIDTH, height(figure))?;
    draw(figure, &mut canvas);
    Some(canvas.finish())
}

fn height(figure: &Figure) -> f64 {
    header_height(figure) + figure.panels.iter().map(|panel| panel_height(figure, panel)).sum::<f64>() + EDGE
}

fn header_height(figure: &Figure) -> f64 {
    let legend = legend_places(&figure.legend()).last().map_or(0.0, |last| last.1 + 22.0);
    EDGE + 24.0 + note_lines(figure).len() as f64 * 17.0 + legend + 10.0
}

fn panel_height(figure: &Figure, panel: &Panel) -> f64 {
    let plot = match &panel.body {
        Body::Lines(_) if figure.is_multiple() => MULTIPLE_HEIGHT,
        Body::Lines(_) => LINES_HEIGHT,
        Body::Bars { rows, .. } => rows.len() as f64 * ROW_HEIGHT + 10.0,
        Body::Strips { rows, .. } => rows.len() as f64 * ROW_HEIGHT,
    };
    title_height(panel) + plot + 58.0
}

fn title_height(panel: &Panel) -> f64 {
    if panel.title.is_some() { 24.0 } else { 6.0 }
}

fn draw(figure: &Figure, canvas: &mut dyn Canvas) {
    say(canvas, EDGE, EDGE + 14.0, &figure.title, 17.0, INK, Anchor::Start);
    let mut y = EDGE + 34.0;
    for line in note_lines(figure) {
        say(canvas, EDGE, y, &line, TEXT, PALE, Anchor::Start);
        y += 17.0;
    }
    draw_legend(figure, canvas, y + 4.0);
    let mut top = header_height(figure);
    let margins = figure.panels.iter().map(margins).fold((0.0, 0.0), |(l, r), (ml, mr)| (ml.max(l), mr.max(r)));
    for panel in &figure.panels {
        let end = top + panel_height(figure, panel);
        draw_panel(panel, canvas, (top, end), margins);
        top = end;
    }
}

fn note_lines(figure: &Figure) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in figure.note.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}"), TEXT) < WIDTH - 2.0 * EDGE => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}

fn legend_places(keys: &[Key]) -> Vec<(f64, f64)> {
    let (mut x, mut y) = (EDGE, 0.0);
    let place = |key: &Key| {
        let width = 32.0 + text_width(&key.name, TEXT) + 18.0;
        if x + width > WIDTH - EDGE && x > EDGE {
            (x, y) = (EDGE, y + 19.0);
        }
        x += width;
        (x - width, y)
    };
    keys.iter().map(place).collect()
}

fn draw_legend(figure: &Figure, canvas: &mut dyn Canvas, top: f64) {
    let keys = figure.legend();
    for (Key { name, colour, style }, (x, y)) in keys.iter().zip(legend_places(&keys)) {
        let y = top + y;
        match style {
            None | Some(Style::Points) => canvas.rect(x + 6.0, y - 9.5, 14.0, 11.0, *colour),
            Some(style) => canvas.path(&[(x, y - 4.0), (x + 26.0, y - 4.0)], *colour, 2.4, style.dashed()),
        }
        if *style == Some(Style::Marked) {
            canvas.dot(x + 13.0, y - 4.0, 3.5, *colour);
        }
        say(canvas, x + 32.0, y, name, TEXT, INK, Anchor::Start);
    }
}

/// The rectangle between a panel's axes, and the ranges on them.
struct Plot<'a> {
    panel: &'a Panel,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x_range: (f64, f64),
    y_range: (f64, f64),
}

impl Plot<'_> {
    fn x(&self, value: f64) -> f64 {
        self.left + share(&self.panel.x, self.x_range, value) * (self.right - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - share(&self.panel.y, self.y_range, value) * (self.bottom - self.top)
    }
}

fn share(axis: &Axis, (low, high): (f64, f64), value: f64) -> f64 {
    match axis.log {
        true => (value / low).log10() / (high / low).log10(),
        false => (value - low) / (high - low),
    }
}

fn draw_panel(panel: &Panel, canvas: &mut dyn Canvas, (top, end): (f64, f64), (left, right): (f64, f64)) {
    if let Some(title) = &panel.title {
        say(canvas, EDGE, top + 13.0, &shortened(title, 13.0, WIDTH - 2.0 * EDGE), 13.0, INK, Anchor::Start);
    }
    let (x_range, y_range) = panel.ranges();
    let (top, bottom) = (top + title_height(panel), end - 58.0);
    let plot = Plot { panel, left, right: WIDTH - right, top, bottom, x_range, y_range };
    draw_x_axis(&plot, canvas);
    match &panel.body {
        Body::Lines(series) => {
            draw_y_axis(&plot, canvas);
            draw_guides(&plot, canvas);
            series.iter().for_each(|s| draw_series(&plot, s, canvas));
        }
        Body::Bars { .. } => draw_bars(&plot, canvas),
        Body::Strips { .. } => draw_strips(&plot, canvas),
    }
    canvas.path(&[(plot.left, plot.bottom), (plot.right, plot.bottom)], RULE, 1.0, false);
}

/// The longest row name that is written out.
const NAME_WIDTH: f64 = 260.0;

/// The room left and right of a panel's plot.
fn margins(panel: &Panel) -> (f64, f64) {
    let widest = |texts: &mut dyn Iterator<Item = String>| texts.map(|t| text_width(&t, TEXT)).fold(0.0, f64::max);
    match &panel.body {
        Body::Lines(_) => {
            let ticks = panel.y.ticks(panel.ranges().1, 6);
            let left = widest(&mut ticks.into_iter().map(|t| panel.y.numbers.text(t)));
            (EDGE + 20.0 + left + 8.0, EDGE + 10.0 + widest(&mut panel.guides.iter().map(|g| g.1.clone())))
        }
        Body::Bars { rows, totals, .. } => {
            let names = widest(&mut rows.iter().cloned()).min(NAME_WIDTH);
            (EDGE + names + 8.0, EDGE + widest(&mut totals.iter().cloned()) + 10.0)
        }
        Body::Strips { rows, range, .. } => {
            let scale = widest(&mut strip_ticks(*range).into_iter().map(|t| panel.y.numbers.text(t)));
            (EDGE + widest(&mut rows.iter().map(|r| r.0.clone())) + 8.0, EDGE + scale + 36.0)
        }
    }
}

fn draw_x_axis(plot: &Plot, canvas: &mut dyn Canvas) {
    for tick in plot.panel.x.ticks(plot.x_range, 9) {
        let x = plot.x(tick);
        canvas.path(&[(x, plot.top), (x, plot.bottom)], GRID, 1.0, false);
        canvas.path(&[(x, plot.bottom), (x, plot.bottom + 4.0)], RULE, 1.0, false);
        say(canvas, x, plot.bottom + 18.0, &plot.panel.x.numbers.text(tick), TEXT, INK, Anchor::Middle);
    }
    let middle = (plot.left + plot.right) / 2.0;
    say(canvas, middle, plot.bottom + 38.0, &plot.panel.x.label, TEXT + 1.0, INK, Anchor::Middle);
}

fn draw_y_axis(plot: &Plot, canvas: &mut dyn Canvas) {
    for tick in plot.panel.y.ticks(plot.y_range, 6) {
        let y = plot.y(tick);
        canvas.path(&[(plot.left - 4.0, y), (plot.right, y)], GRID, 1.0, false);
        say(canvas, plot.left - 8.0, y + 4.0, &plot.panel.y.numbers.text(tick), TEXT, INK, Anchor::End);
    }
    canvas.path(&[(plot.left, plot.top), (plot.left, plot.bottom)], RULE, 1.0, false);
    let (x, y) = (EDGE + 8.0, (plot.top + plot.bottom) / 2.0);
    let text = shortened(&plot.panel.y.label, TEXT + 1.0, plot.bottom - plot.top + 20.0);
    canvas.text(x, y, Label { text: &text, size: TEXT + 1.0, colour: INK, anchor: Anchor::Middle, turned: true });
}

fn draw_guides(plot: &Plot, canvas: &mut dyn Canvas) {
    for (value, name) in plot.panel.guides.iter().filter(|g| plot.panel.y.takes(g.0)) {
        let y = plot.y(*value);
        canvas.path(&[(plot.left, y), (plot.right, y)], PALE, 1.0, true);
        say(canvas, plot.right + 6.0, y + 4.0, name, TEXT, PALE, Anchor::Start);
    }
}

fn draw_series(plot: &Plot, series: &Series, canvas: &mut dyn Canvas) {
    for stretch in plot.panel.stretches(series) {
        let points: Vec<(f64, f64)> = stretch.iter().map(|&(x, y)| (plot.x(x), plot.y(y))).collect();
        if series.has_dots(&stretch) {
            points.iter().for_each(|&(x, y)| canvas.dot(x, y, 3.5, series.colour));
        }
        if series.style != Style::Points && points.len() > 1 {
            let line = if series.style.steps() { staircase(&points) } else { points };
            canvas.path(&line, series.colour, 1.8, series.style.dashed());
        }
    }
}

fn staircase(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let stairs = points.windows(2).flat_map(|w| [(w[1].0, w[0].1), w[1]]);
    points.first().copied().into_iter().chain(stairs).collect()
}

fn draw_bars(plot: &Plot, canvas: &mut dyn Canvas) {
    let Body::Bars { rows, totals, parts } = &plot.panel.body else { return };
    for (i, (name, total)) in rows.iter().zip(totals).enumerate() {
        let y = plot.top + 5.0 + i as f64 * ROW_HEIGHT;
        let name = shortened(name, TEXT, NAME_WIDTH);
        say(canvas, plot.left - 8.0, y + ROW_HEIGHT / 2.0 + 4.0, &name, TEXT, INK, Anchor::End);
        let mut end = 0.0;
        for part in parts {
            let from = plot.x(end);
            end += part.values[i];
            canvas.rect(from, y + 5.0, plot.x(end) - from, ROW_HEIGHT - 10.0, part.colour);
        }
        say(canvas, plot.x(end) + 6.0, y + ROW_HEIGHT / 2.0 + 4.0, total, TEXT, INK, Anchor::Start);
    }
    canvas.path(&[(plot.left, plot.top), (plot.left, plot.bottom)], RULE, 1.0, false);
}

fn draw_strips(plot: &Plot, canvas: &mut dyn Canvas) {
    let Body::Strips { rows, range: (low, high), .. } = &plot.panel.body else { return };
    let spread = (high / low).log10();
    let level = |v: f64| if spread > 0.0 { (v / low).log10() / spread } else { 1.0 };
    let width = (plot.right - plot.left) / plot.panel.columns().max(1) as f64;
    for (i, (name, cells)) in rows.iter().enumerate() {
        let y = plot.top + i as f64 * ROW_HEIGHT;
        say(canvas, plot.left - 8.0, y + ROW_HEIGHT / 2.0 + 4.0, name, TEXT, INK, Anchor::End);
        for (j, &cell) in cells.iter().enumerate().filter(|(_, c)| **c > 0.0) {
            let x = plot.left + j as f64 * width;
            canvas.rect(x, y + 3.0, width, ROW_HEIGHT - 6.0, Colour::strip(level(cell)));
        }
    }
    draw_scale(plot, canvas, (*low, *high), &level);
}

/// The colours of strips and what they stand for, to the right of the plot.
fn draw_scale(plot: &Plot, canvas: &mut dyn Canvas, range: (f64, f64), level: &dyn Fn(f64) -> f64) {
    const STEPS: usize = 24;
    let (x, top, height) = (plot.right + 14.0, plot.top.min(plot.bottom - 60.0), (plot.bottom - plot.top).max(60.0));
    for i in 0..STEPS {
        let from_top = height * (STEPS - 1 - i) as f64 / STEPS as f64;
        let colour = Colour::strip(i as f64 / (STEPS - 1) as f64);
        canvas.rect(x, top + from_top, 10.0, height / STEPS as f64 + 0.3, colour);
    }
    for tick in strip_ticks(range) {
        let y = top + height * (1.0 - level(tick).clamp(0.0, 1.0));
        say(canvas, x + 15.0, y + 4.0, &plot.panel.y.numbers.text(tick), TEXT, INK, Anchor::Start);
    }
}

fn say(canvas: &mut dyn Canvas, x: f64, y: f64, text: &str, size: f64, colour: Colour, anchor: Anchor) {
    canvas.text(x, y, Label { text, size, colour, anchor, turned: false });
}

/// A text cut to a width, with an ellipsis where something is missing.
fn shortened(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.into();
    }
    let mut kept: String = text.into();
    while !kept.is_empty() && text_width(&format!("{kept}…"), size) > width {
        kept.pop();
    }
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::BarPart;

    /// The numbers of an attribute in the elements of a kind, in their order.
    fn numbers(svg: &str, element: &str, attribute: &str) -> Vec<f64> {
        let of_line = |line: &str| line.split_once(&format!(" {attribute}=\""))?.1.split('"').next()?.parse().ok();
        svg.lines().filter(|line| line.starts_with(element)).filter_map(of_line).collect()
    }

    fn drawn(body: Body) -> String {
        let axis = || Axis::linear("bytes");
        let panel = Panel { title: None, x: axis(), y: axis(), guides: Vec::new(), body };
        svg(&Figure { name: "drawn".into(), title: "Drawn".into(), note: String::new(), panels: vec![panel] })
    }

    #[test]
    fn the_scale_of_strips_begins_where_the_strips_do() {
        let rows = ["a", "b", "c", "d"].map(|name| (name.to_string(), vec![1.0, 10.0])).into();
        let svg = drawn(Body::Strips { rows, end: 2.0, range: (1.0, 10.0) });
        let (widths, tops) = (numbers(&svg, "<rect", "width"), numbers(&svg, "<rect", "y"));
        let highest = |width: fn(f64) -> bool| {
            let tops = widths.iter().zip(&tops).filter(|(of, _)| width(**of)).map(|(_, top)| *top);
            tops.filter(|top| *top > 0.0).fold(f64::INFINITY, f64::min)
        };
        let (scale, strips) = (highest(|width| width == 10.0), highest(|width| width > 10.0));
        assert!((strips - 3.0 - scale).abs() < 0.02, "{scale}, {strips}");
    }

    #[test]
    fn a_long_legend_is_broken_into_lines_that_fit() {
        let part = |number| BarPart { name: format!("a long name {number}"), colour: INK, values: vec![1.0] };
        let body =
            Body::Bars { rows: vec!["all".into()], totals: vec!["20".into()], parts: (0..20).map(part).collect() };
        let svg = drawn(body);
        let (lefts, texts) = (numbers(&svg, "<text", "x"), svg.lines().filter(|line| line.starts_with("<text")));
        for (left, text) in lefts.into_iter().zip(texts).filter(|(_, text)| text.contains("a long name")) {
            assert!(left + text_width("a long name 10", TEXT) <= WIDTH - EDGE, "{text}");
        }
    }

    #[test]
    fn the_texts_of_a_bar_stand_beside_it() {
        let part = BarPart { name: "host".into(), colour: INK, values: vec![5.0] };
        let svg =
            drawn(Body::Bars { rows: vec!["in-place".into()], totals: vec!["5 bytes".into()], parts: vec![part] });
        let bar = numbers(&svg, "<rect", "y").into_iter().fold(0.0, f64::max) + (ROW_HEIGHT - 10.0) / 2.0;
        for text in ["in-place", "5 bytes"] {
            let line = svg.lines().find(|line| line.contains(&format!(">{text}<"))).unwrap();
            let off = numbers(line, "<text", "y")[0] - bar;
            assert!(off > 0.0 && off < TEXT / 2.0, "{text}: {off}");
        }
    }

    #[test]
    fn a_text_is_cut_only_where_it_does_not_fit() {
        let width = |text: &str| text_width(text, TEXT);
        let cut = |width| shortened("a long name", TEXT, width);
        assert_eq!(cut(width("a long name")), "a long name");
        assert_eq!(cut(width("a long name") - 0.01), "a long na…");
        assert_eq!(cut(width("a lo…")), "a lo…");
        assert_eq!(cut(width("a lo…") - 0.01), "a l…");
        assert_eq!(cut(0.0), "…");
    }
}
