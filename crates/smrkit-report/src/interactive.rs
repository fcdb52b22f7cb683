//! A figure's panel as the data and layout that plotly.js draws.
//!
//! plotly.js reads a little HTML in names and titles, so that every text from outside is escaped here as well. Colours of what
//! is no data come from a template, one for light and one for dark pages; legends are the page's.

use serde_json::{Value, json};

use crate::draw::margins;
use crate::figure::{Axis, BarPart, Body, Colour, Key, Numbers, Panel, Series, Style, Theme, strip_ticks};
use crate::format::escape;
use crate::packed::{packed, rounded};

/// Height of a panel of lines, in CSS pixels.
const LINES_HEIGHT: usize = 310;
/// Size of text.
const TEXT: usize = 12;

/// A panel as plotly.js takes it, `data` and `layout`; what is drawn carries the number of its key in `legend`.
pub fn panel(panel: &Panel, legend: &[Key]) -> Value {
    let key = |name: &str| legend.iter().position(|key| key.name == name);
    match &panel.body {
        Body::Lines(series) => lines(panel, series, key),
        Body::Bars { rows, totals, parts } => bars(panel, rows, totals, parts, key),
        Body::Strips { rows, end, range } => strips(panel, rows, *end, *range),
    }
}

/// Defaults of all charts on a page of this theme.
pub fn template(theme: Theme) -> Value {
    let (ink, pale, rule, grid) = (theme.ink.hex(), theme.pale.hex(), theme.rule.hex(), theme.grid.hex());
    let none = "rgba(0,0,0,0)";
    let axis = json!({
        "automargin": true, "showline": true, "linecolor": rule, "gridcolor": grid, "zeroline": false, "ticks": "outside",
        "tickcolor": rule, "tickangle": 0, "title": {"font": {"size": TEXT}},
    });
    json!({"layout": {
        "font": {"family": "system-ui, sans-serif", "size": TEXT, "color": ink}, "paper_bgcolor": none, "plot_bgcolor": none,
        "xaxis": axis, "yaxis": axis, "hovermode": "closest", "showlegend": false,
        "annotationdefaults": {"showarrow": false, "xanchor": "left", "font": {"size": TEXT}},
        "shapedefaults": {"line": {"color": pale, "width": 1, "dash": "dot"}},
        "modebar": {"bgcolor": none, "color": rule, "activecolor": ink},
    }})
}

fn lines(panel: &Panel, series: &[Series], key: impl Fn(&str) -> Option<usize>) -> Value {
    let data: Vec<Value> = series.iter().map(|s| line(panel, s, key(&s.name))).collect();
    let (x_range, y_range) = panel.ranges();
    let mut layout = layout(panel, LINES_HEIGHT, axis(&panel.x, x_range, 10), axis(&panel.y, y_range, 8));
    let guide =
        |(at, _): &(f64, String)| json!({"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": at, "y1": at});
    layout["shapes"] = panel.guides.iter().map(guide).collect();
    layout["annotations"] = panel.guides.iter().map(|(at, name)| guide_name(&panel.y, *at, name)).collect();
    json!({"data": data, "layout": layout})
}

fn line(panel: &Panel, series: &Series, key: Option<usize>) -> Value {
    let (mut points, mut dots) = (Vec::new(), Vec::new());
    for stretch in panel.stretches(series) {
        // A point without a value is a gap: null in JSON.
        points.extend(points.last().map(|&(x, _)| (x, f64::NAN)));
        dots.resize(points.len(), 0);
        dots.resize(points.len() + stretch.len(), if series.has_dots(&stretch) { 7 } else { 0 });
        points.extend(stretch);
    }
    let (template, text) = hover(panel, &points);
    let (x, y): (Vec<f64>, Vec<f64>) = points.into_iter().unzip();
    let has_dots = dots.iter().any(|&size| size > 0);
    let mode = match series.style {
        Style::Points => "markers",
        _ if has_dots => "lines+markers",
        _ => "lines",
    };
    json!({
        "type": "scatter", "mode": mode, "name": escape(&series.name), "meta": key, "x": packed(&x), "y": packed(&y),
        "text": text, "hovertemplate": template, "cliponaxis": false,
        "line": {
            "color": series.colour.hex(), "width": 1.8,
            "shape": if series.style.steps() { "hv" } else { "linear" },
            "dash": if series.style.dashed() { "dash" } else { "solid" },
        },
        "marker": {"color": series.colour.hex(), "size": has_dots.then_some(dots), "line": {"width": 0}},
    })
}

/// Template of what stands under the pointer, and the points' texts where plotly.js can't write their numbers.
fn hover(panel: &Panel, points: &[(f64, f64)]) -> (String, Option<Vec<String>>) {
    let place = |axis: &Axis, name: &str, greatest: f64| match axis.numbers {
        Numbers::Plain => Some(format!("%{{{name}:,.4~r}}")),
        Numbers::Bytes => Some(format!("%{{{name}:.4~s}}B")),
        Numbers::Percent => Some(format!("%{{{name}:.4~%}}")),
        Numbers::Time if greatest < 1000.0 => Some(format!("%{{{name}:.3~s}}s")),
        Numbers::Time => None,
    };
    let (x, y) = points.iter().fold((0.0_f64, 0.0_f64), |(x, y), point| (x.max(point.0), y.max(point.1)));
    if let (Some(x), Some(y)) = (place(&panel.x, "x", x), place(&panel.y, "y", y)) {
        return (format!("{x}, {y}"), None);
    }
    let text = |&(x, y): &(f64, f64)| format!("{}, {}", panel.x.numbers.text(x), panel.y.numbers.text(y));
    ("%{text}".into(), Some(points.iter().map(text).collect()))
}

fn guide_name(y: &Axis, at: f64, name: &str) -> Value {
    // Annotations on a logarithmic axis are placed by the logarithm, shapes by the value.
    let at = if y.log { at.log10() } else { at };
    json!({"xref": "paper", "x": 1, "xshift": 4, "y": at, "yanchor": "middle", "text": escape(name)})
}

fn bars(
    panel: &Panel,
    rows: &[String],
    totals: &[String],
    parts: &[BarPart],
    key: impl Fn(&str) -> Option<usize>,
) -> Value {
    let names: Vec<String> = rows.iter().rev().map(|r| escape(r)).collect();
    let bar = |part: &BarPart| {
        let values: Vec<f64> = part.values.iter().rev().copied().collect();
        let text: Vec<String> = values.iter().map(|&v| panel.x.numbers.text(v)).collect();
        json!({
            "type": "bar", "orientation": "h", "name": escape(&part.name), "meta": key(&part.name), "x": values, "y": names,
            "hovertext": text, "hovertemplate": "%{hovertext}", "marker": {"color": part.colour.hex()},
        })
    };
    let data: Vec<Value> = parts.iter().filter(|part| part.is_drawn()).map(bar).collect();
    let x = axis(&panel.x, panel.ranges().0, 8);
    let mut layout = layout(panel, 84 + 34 * rows.len(), x, json!({"type": "category"}));
    layout["barmode"] = json!("stack");
    layout["bargap"] = json!(0.35);
    let total = |((end, row), total): ((f64, &String), &String)| json!({"x": end, "y": escape(row), "text": format!(" {}", escape(total))});
    layout["annotations"] = panel.bar_ends().into_iter().zip(rows).zip(totals).map(total).collect();
    json!({"data": data, "layout": layout})
}

/// A row of coloured cells a run: bars side by side, each as long as its part of the disk, without those that hold nothing.
fn strips(panel: &Panel, rows: &[(String, Vec<f64>)], end: f64, (low, high): (f64, f64)) -> Value {
    let width = end / panel.columns().max(1) as f64;
    let scale: Vec<Value> = (0..=12).map(|i| i as f64 / 12.0).map(|s| json!([s, Colour::strip(s).hex()])).collect();
    let ticks = strip_ticks((low, high));
    let colours = json!({
        "thickness": 12, "tickvals": ticks.iter().map(|t| t.log10()).collect::<Vec<_>>(),
        "ticktext": ticks.iter().map(|&t| panel.y.numbers.text(t)).collect::<Vec<_>>(),
    });
    let strip = |(number, (name, values)): (usize, &(String, Vec<f64>))| {
        let cells: Vec<(usize, f64)> = values.iter().copied().enumerate().filter(|&(_, value)| value > 0.0).collect();
        let each = |of: &dyn Fn(&(usize, f64)) -> Value| cells.iter().map(of).collect::<Vec<_>>();
        json!({
            "type": "bar", "orientation": "h", "name": escape(name), "width": 0.8,
            "base": each(&|&(column, _)| json!(rounded(width * column as f64))),
            "x": vec![rounded(width); cells.len()], "y": vec![number; cells.len()],
            "text": each(&|&(_, value)| json!(panel.y.numbers.text(value))), "textposition": "none",
            "hovertemplate": format!("{}: %{{text}}<br>from %{{base:.4~r}} on<extra></extra>", escape(name)),
            "marker": {
                "color": each(&|&(_, value)| json!(rounded(value.log10()))), "colorscale": scale, "line": {"width": 0},
                "cmin": low.log10(), "cmax": high.log10().max(low.log10() + 1e-6), "showscale": number == 0, "colorbar": colours,
            },
        })
    };
    let data: Vec<Value> = rows.iter().rev().enumerate().map(strip).collect();
    let names: Vec<String> = rows.iter().rev().map(|row| escape(&row.0)).collect();
    let y = json!({
        "tickvals": (0..rows.len()).collect::<Vec<_>>(), "ticktext": names, "range": [-0.5, rows.len() as f64 - 0.5],
        "showgrid": false, "fixedrange": true,
    });
    let mut layout = layout(panel, 104 + 34 * rows.len(), axis(&panel.x, panel.ranges().0, 10), y);
    layout["barmode"] = json!("overlay");
    // The colours are made for white, on dark pages too: darker is more.
    layout["plot_bgcolor"] = json!("#ffffff");
    layout["xaxis"]["gridcolor"] = json!(Theme::LIGHT.grid.hex());
    json!({"data": data, "layout": layout})
}

fn axis(axis: &Axis, (low, high): (f64, f64), most: usize) -> Value {
    let mut json = json!({"title": {"text": escape(&axis.label)}});
    if axis.log {
        let ticks = axis.ticks((low, high), most);
        json["type"] = json!("log");
        json["range"] = json!([low.log10(), high.log10()]);
        json["ticktext"] = ticks.iter().map(|&t| axis.numbers.text(t)).collect();
        json["tickvals"] = json!(ticks);
        return json;
    }
    json["range"] = json!([low, high]);
    // plotly.js places these ticks itself, also after a zoom.
    match axis.numbers {
        Numbers::Plain => {}
        Numbers::Bytes => (json["tickformat"], json["ticksuffix"]) = (json!("~s"), json!("B")),
        Numbers::Time => (json["tickformat"], json["ticksuffix"]) = (json!("~s"), json!("s")),
        Numbers::Percent => json["tickformat"] = json!("~%"),
    }
    json
}

fn layout(panel: &Panel, height: usize, x: Value, y: Value) -> Value {
    // Where plotly.js makes room by itself, as for the colours' scale, there is none to add.
    let right = if let Body::Strips { .. } = panel.body { 10.0 } else { margins(panel).1 };
    json!({
        "height": height, "xaxis": x, "yaxis": y,
        "margin": {"l": 20, "r": right.ceil(), "t": 26, "b": 40},
    })
}
