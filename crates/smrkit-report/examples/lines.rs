//! Draws tables as lines: `lines OUT.svg TITLE TABLE.csv…`, one panel a table.
//!
//! The first line of a table names the vertical axis, the second its columns: the horizontal axis, then a line each. An empty
//! cell is no point.

use std::error::Error;

use smrkit_report::figure::{Axis, Body, Colour, Figure, Panel, Series, Style};
use smrkit_report::svg;

/// The panel of a table.
fn panel(text: &str) -> Result<Panel, Box<dyn Error>> {
    let mut lines = text.lines();
    let y = Axis::linear(lines.next().ok_or("an empty table")?);
    let mut names = lines.next().ok_or("a table without columns")?.split(',');
    let x = Axis::linear(names.next().unwrap_or_default());
    let line = |(i, name): (usize, &str)| Series {
        name: name.into(),
        colour: if name == "in-place" { Colour::GREY } else { Colour::nth(i) },
        style: Style::Line,
        points: Vec::new(),
    };
    let mut series: Vec<Series> = names.enumerate().map(line).collect();
    for line in lines {
        let mut cells = line.split(',');
        let at: f64 = cells.next().unwrap_or_default().parse()?;
        for (series, cell) in series.iter_mut().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
            series.points.push((at, cell.parse()?));
        }
    }
    Ok(Panel::new(None, x, y, Body::Lines(series)))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [out, title, tables @ ..] = &arguments[..] else {
        return Err("usage: lines OUT.svg TITLE TABLE.csv…".into());
    };
    let mut figure = Figure { name: "lines".into(), title: title.clone(), ..Figure::default() };
    for table in tables {
        figure.panels.push(panel(&std::fs::read_to_string(table)?).map_err(|error| format!("{table}: {error}"))?);
    }
    figure.share_x();
    Ok(std::fs::write(out, svg(&figure))?)
}
