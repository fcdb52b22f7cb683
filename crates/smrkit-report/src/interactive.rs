//! A figure's panel as the data and layout that plotly.js draws.
//!
//! plotly.js reads a little HTML in names and titles, so that every text from outside is escaped here as well.

use serde_json::{Value, json};

use crate::canvas::text_width;
use crate::figure::{Axis, Body, Colour, Numbers, Panel, Part, Series, Style};
use crate::format::escape;

/// Height of a panel of lines, in CSS pixels.
const LINES_HEIGHT: usize = 340;
const GRID: &str = "#e4e4e4";

/// A panel as plotly.js takes it: `data` and `layout`.
pub fn panel(panel: &Panel) -> Value {
    match &panel.body {
        Body::Lines(series) => lines(panel, series),
        Body::Bars { rows, totals, parts } => bars(panel, rows, totals, parts),
        Body::Strips { rows, end, range } => strips(panel, rows, *end, *range),
    }
}

fn lines(panel: &Panel, series: &[Series]) -> Value {
    let data: Vec<Value> = series.iter().map(|s| line(panel, s)).collect();
    let (x_range, y_range) = panel.ranges();
    let mut layout =
        layout(LINES_HEIGHT + legend_height(series), axis(&panel.x, x_range, 10), axis(&panel.y, y_range, 8));
    layout["showlegend"] = json!(series.iter().any(|s| !s.name.is_empty()));
    layout["shapes"] = panel.guides.iter().map(|g| guide(g.0)).collect();
    layout["annotations"] = panel.guides.iter().map(|(at, name)| guide_name(&panel.y, *at, name)).collect();
    json!({"data": data, "layout": layout})
}

/// Room for the lines of a legend after its first, at a usual width of the page.
fn legend_height(series: &[Series]) -> usize {
    let width: f64 = series.iter().map(|s| text_width(&s.name, 12.0) + 50.0).sum();
    (width / 1000.0) as usize * 19
}

fn line(panel: &Panel, series: &Series) -> Value {
    // A point without a value is a gap: null in JSON.
    let points = series.points.iter().filter(|p| panel.x.takes(p.0) && (panel.y.takes(p.1) || p.1.is_nan()));
    let (x, y): (Vec<f64>, Vec<f64>) = points.copied().unzip();
    let text: Vec<String> =
        x.iter().zip(&y).map(|(&x, &y)| format!("{}, {}", panel.x.numbers.text(x), panel.y.numbers.text(y))).collect();
    // A line between a point and itself can't be seen.
    let single = x.windows(2).zip(y.windows(2)).all(|(x, y)| x[0] == x[1] && y[0] == y[1]);
    let mode = match series.style {
        Style::Points => "markers",
        Style::Marked => "lines+markers",
        _ if single => "lines+markers",
        _ => "lines",
    };
    json!({
        "type": "scatter", "mode": mode, "name": escape(&series.name), "x": x, "y": y,
        "text": text, "hovertemplate": "%{text}", "cliponaxis": false, "showlegend": !series.name.is_empty(),
        "line": {
            "color": series.colour.hex(), "width": 1.8,
            "shape": if series.style.steps() { "hv" } else { "linear" },
            "dash": if series.style.dashed() { "dash" } else { "solid" },
        },
        "marker": {"color": series.colour.hex(), "size": 7},
    })
}

fn guide(at: f64) -> Value {
    json!({
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": at, "y1": at,
        "line": {"color": "#999999", "width": 1, "dash": "dot"},
    })
}

fn guide_name(y: &Axis, at: f64, name: &str) -> Value {
    // Annotations on a logarithmic axis are placed by the logarithm, shapes by the value.
    let at = if y.log { at.log10() } else { at };
    json!({
        "xref": "paper", "x": 1, "xanchor": "left", "y": at, "yanchor": "middle",
        "text": escape(name), "showarrow": false, "font": {"color": "#666666", "size": 11},
    })
}

fn bars(panel: &Panel, rows: &[String], totals: &[String], parts: &[Part]) -> Value {
    let names: Vec<String> = rows.iter().rev().map(|r| escape(r)).collect();
    let drawn = parts.iter().filter(|p| p.values.iter().any(|&v| v > 0.0));
    let data: Vec<Value> = drawn
        .map(|part| {
            let values: Vec<f64> = part.values.iter().rev().copied().collect();
            let text: Vec<String> = values.iter().map(|&v| panel.x.numbers.text(v)).collect();
            json!({
                "type": "bar", "orientation": "h", "name": escape(&part.name), "x": values, "y": names,
                "hovertext": text, "hovertemplate": "%{hovertext}", "marker": {"color": part.colour.hex()},
            })
        })
        .collect();
    let ends: Vec<f64> = (0..rows.len()).map(|i| parts.iter().map(|p| p.values[i]).sum()).collect();
    let x = axis(&panel.x, panel.x.range(ends.iter().map(|end| end * 1.08)), 8);
    let y = json!({"type": "category", "automargin": true});
    let mut layout = layout(130 + 34 * rows.len(), x, y);
    layout["barmode"] = json!("stack");
    layout["bargap"] = json!(0.35);
    layout["showlegend"] = json!(true);
    let total = |i: usize| {
        json!({
            "x": ends[i], "xanchor": "left", "y": escape(&rows[i]), "text": format!(" {}", escape(&totals[i])),
            "showarrow": false, "font": {"size": 12},
        })
    };
    layout["annotations"] = (0..rows.len()).map(total).collect();
    json!({"data": data, "layout": layout})
}

fn strips(panel: &Panel, rows: &[(String, Vec<f64>)], end: f64, (low, high): (f64, f64)) -> Value {
    let columns = rows.iter().map(|r| r.1.len()).max().unwrap_or(0);
    let edges: Vec<f64> = (0..=columns).map(|i| end * i as f64 / columns.max(1) as f64).collect();
    let cells = |row: &(String, Vec<f64>)| -> Vec<Option<f64>> {
        row.1.iter().map(|&v| (v > 0.0).then(|| v.log10())).collect()
    };
    let text = |row: &(String, Vec<f64>)| -> Vec<String> { row.1.iter().map(|&v| panel.y.numbers.text(v)).collect() };
    let scale: Vec<Value> = (0..=12).map(|i| i as f64 / 12.0).map(|s| json!([s, Colour::strip(s).hex()])).collect();
    let ticks = strip_ticks((low, high));
    let data = json!([{
        "type": "heatmap", "x": edges, "y": rows.iter().rev().map(|r| escape(&r.0)).collect::<Vec<_>>(),
        "z": rows.iter().rev().map(cells).collect::<Vec<_>>(),
        "text": rows.iter().rev().map(text).collect::<Vec<_>>(),
        "hovertemplate": format!("%{{y}}: %{{text}}<br>at %{{x:.4g}}<extra></extra>"),
        "hoverongaps": false, "ygap": 4, "zmin": low.log10(), "zmax": high.log10().max(low.log10() + 1e-6),
        "colorscale": scale,
        "colorbar": {
            "thickness": 12, "tickvals": ticks.iter().map(|t| t.log10()).collect::<Vec<_>>(),
            "ticktext": ticks.iter().map(|&t| panel.y.numbers.text(t)).collect::<Vec<_>>(),
        },
    }]);
    let x = axis(&panel.x, (0.0, end), 10);
    let y = json!({"type": "category", "automargin": true, "showgrid": false});
    json!({"data": data, "layout": layout(150 + 34 * rows.len(), x, y)})
}

/// The values named beside a strip's colours.
pub fn strip_ticks((low, high): (f64, f64)) -> Vec<f64> {
    let decades = Axis::log("", Numbers::Bytes).ticks((low, high), 4);
    if decades.len() > 1 { decades } else { vec![low, high] }
}

fn axis(axis: &Axis, (low, high): (f64, f64), most: usize) -> Value {
    let mut json = json!({
        "title": {"text": escape(&axis.label), "font": {"size": 12}}, "automargin": true, "showline": true,
        "linecolor": "#888888", "gridcolor": GRID, "zeroline": false, "ticks": "outside", "tickcolor": "#888888",
    });
    if axis.log {
        let ticks = axis.ticks((low, high), most);
        json["type"] = json!("log");
        json["range"] = json!([low.log10(), high.log10()]);
        json["ticktext"] = ticks.iter().map(|&t| axis.numbers.text(t)).collect();
        json["tickvals"] = json!(ticks);
    } else {
        json["range"] = json!([low, high]);
    }
    json
}

fn layout(height: usize, x: Value, y: Value) -> Value {
    json!({
        "height": height, "xaxis": x, "yaxis": y, "hovermode": "closest",
        "margin": {"l": 70, "r": 60, "t": 36, "b": 50},
        "modebar": {"orientation": "v"},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.0, "yanchor": "bottom", "traceorder": "normal"},
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": "#222222"},
        "plot_bgcolor": "#ffffff", "paper_bgcolor": "#ffffff",
    })
}
