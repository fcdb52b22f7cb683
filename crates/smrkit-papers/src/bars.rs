//! Bars of two kinds, one a row.

use smrkit_report::figure::{Axis, BarPart, Body, Colour, Panel};

/// A bar: the first or second kind, its name, its length, and what is written behind it.
pub struct Bar {
    kind: usize,
    name: String,
    value: f64,
    total: String,
}

impl Bar {
    pub fn new(kind: usize, name: impl Into<String>, value: f64, total: impl Into<String>) -> Bar {
        Bar { kind, name: name.into(), value, total: total.into() }
    }
}

/// A panel of bars from the top; each kind has a name in the legend, and a colour.
pub fn panel(title: Option<&str>, x: &str, kinds: [(&str, Colour); 2], bars: Vec<Bar>) -> Panel {
    let part = |(kind, (name, colour)): (usize, (&str, Colour))| {
        let values = bars.iter().map(|bar| if bar.kind == kind { bar.value } else { 0.0 }).collect();
        BarPart { name: name.into(), colour, values }
    };
    let parts = kinds.into_iter().enumerate().map(part).collect();
    let (rows, totals) = bars.into_iter().map(|bar| (bar.name, bar.total)).unzip();
    Panel::new(title, Axis::linear(x), Axis::default(), Body::Bars { rows, totals, parts })
}
