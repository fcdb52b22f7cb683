//! Bars of ours, and the paper's below them.

use smrkit_report::figure::{Axis, BarPart, Body, Colour, Panel};

/// A bar: its name, its length, and what is written behind it.
pub struct Bar {
    pub name: String,
    pub value: f64,
    pub total: String,
}

/// A panel of our bars and the paper's; `parts` name the two in the legend.
pub fn panel(title: Option<String>, x: &str, parts: [&str; 2], ours: Vec<Bar>, paper: Bar) -> Panel {
    let none = vec![0.0; ours.len()];
    let values = [
        ours.iter().map(|bar| bar.value).chain([0.0]).collect::<Vec<_>>(),
        none.into_iter().chain([paper.value]).collect(),
    ];
    let (rows, totals) = ours.into_iter().chain([paper]).map(|bar| (bar.name, bar.total)).unzip();
    let colours = [Colour::nth(0), Colour::GREY];
    let parts = parts.into_iter().zip(colours).zip(values);
    let parts = parts.map(|((name, colour), values)| BarPart { name: name.into(), colour, values }).collect();
    let body = Body::Bars { rows, totals, parts };
    Panel { title, x: Axis::linear(x), y: Axis::default(), guides: Vec::new(), body }
}
