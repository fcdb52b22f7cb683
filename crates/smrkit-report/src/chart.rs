//! A panel of a figure as data for `chart.js`, which draws it on a page and saves it as SVG and PNG.

use serde_json::{Value, json};

use crate::figure::{Axis, BarPart, Body, Key, Numbers, Panel, Series, Style, Theme};

/// A panel as JSON; what can be hidden carries the number of its key in `legend`.
pub fn panel(panel: &Panel, legend: &[Key]) -> Value {
    let key = |name: &str| legend.iter().position(|key| key.name == name);
    let (x_range, y_range) = panel.ranges();
    let guides: Vec<_> = panel.guides.iter().filter(|guide| panel.y.takes(guide.0)).collect();
    let mut data = json!({"x": axis(&panel.x, x_range), "y": axis(&panel.y, y_range), "guides": guides});
    match &panel.body {
        Body::Lines(all) => {
            data["series"] = all.iter().map(|one| series(panel, one, key(&one.name))).collect();
        }
        Body::Bars { rows, totals, parts } => {
            let part = |part: &BarPart| json!({"name": part.name, "colour": part.colour.hex(), "values": part.values});
            let parts: Vec<Value> = parts.iter().filter(|part| part.is_drawn()).map(part).collect();
            data["bars"] = json!({"rows": rows, "totals": totals, "parts": parts});
        }
        Body::Strips { rows, end, range } => {
            let row = |(name, cells): &(String, Vec<f64>)| json!({"name": name, "cells": cells.iter().copied().map(rounded).collect::<Vec<_>>()});
            data["strips"] = json!({"rows": rows.iter().map(row).collect::<Vec<_>>(), "end": end, "range": range});
        }
    }
    data
}

/// The colours of what is no data, on a page of this theme.
pub fn theme(theme: Theme, page: &str) -> Value {
    json!({
        "ink": theme.ink.hex(), "pale": theme.pale.hex(), "rule": theme.rule.hex(), "grid": theme.grid.hex(), "page": page,
    })
}

fn series(panel: &Panel, series: &Series, key: Option<usize>) -> Value {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for stretch in panel.stretches(series) {
        // A point without a value is a gap: null in JSON.
        points.extend(points.last().map(|&(x, _)| (x, f64::NAN)));
        points.extend(stretch);
    }
    let (x, y): (Vec<f64>, Vec<f64>) = points.into_iter().map(|(x, y)| (rounded(x), rounded(y))).unzip();
    json!({
        "key": key, "name": series.name, "colour": series.colour.hex(), "steps": series.style.steps(),
        "dashed": series.style.dashed(), "joined": series.style != Style::Points,
        "dots": matches!(series.style, Style::Points | Style::Marked), "x": x, "y": y,
    })
}

fn axis(axis: &Axis, range: (f64, f64)) -> Value {
    let form = match axis.numbers {
        Numbers::Plain => "plain",
        Numbers::Time => "time",
        Numbers::Bytes => "bytes",
        Numbers::Percent => "percent",
    };
    json!({"label": axis.label, "log": axis.log, "form": form, "range": range})
}

/// A number with five digits that count: more can't be seen, and pages stay small.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}
