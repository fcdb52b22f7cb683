//! One HTML page that opens offline: text, tables and figures.
//!
//! `chart.js` draws the figures and saves them as SVG and PNG. The page asks the network for nothing, and forbids it by its content
//! policy. Every text from outside is escaped.

use serde_json::{Value, json};
use smrkit::stats::outcome::Outcome;

use crate::command::command;
use crate::figure::{Axis, BarPart, Body, Colour, Figure, Key, Numbers, Panel, Series, Style, Theme};
use crate::format::escape;
use crate::grid::Grid;
use crate::series;
use crate::table::{about, cost, headline, optional, power_cuts, speed, verdicts};

/// A part of a page.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its heading.
    pub heading: String,
    /// Paragraphs.
    pub text: Vec<String>,
    /// A command to copy, below the text.
    pub command: Option<String>,
    /// A table below the text.
    pub table: Option<Grid>,
    /// A figure below the table.
    pub figure: Option<Figure>,
}

impl Section {
    /// A section of a heading and a figure, with the figure's note as text.
    pub fn of_figure(figure: Figure) -> Section {
        let text = vec![figure.note.clone()];
        Section { heading: figure.title.clone(), text, figure: Some(figure), ..Section::default() }
    }

    /// A section of a heading and a table.
    pub fn of_table(heading: &str, table: Grid) -> Section {
        Section { heading: heading.into(), table: Some(table), ..Section::default() }
    }
}

/// The page of `smrkit run --report`.
pub fn report(runs: &[Outcome]) -> String {
    let text = verdicts(runs).into_iter().chain(power_cuts(runs)).chain([headline(runs)]).collect();
    let mut sections = vec![
        Section { heading: "Verdict".into(), text, command: command(runs), ..Section::default() },
        Section::of_table("How fast", speed(runs)),
        Section::of_table("What it costs", cost(runs)),
    ];
    sections.extend(optional(runs).into_iter().map(|(heading, grid)| Section::of_table(heading, grid)));
    sections.extend(series::figures(runs).into_iter().map(Section::of_figure));
    sections.push(Section::of_table("What was run", facts(runs)));
    let what = runs.first().and_then(|r| r.replayed.trace.as_deref().or(r.replayed.workload.as_deref()));
    page(&what.map_or("smrkit".into(), |what| format!("smrkit: {what}")), &sections)
}

/// The table of what was run.
pub fn facts(runs: &[Outcome]) -> Grid {
    let mut facts = Grid::new(["what", "value"]);
    facts.rows = about(runs).into_iter().map(|(name, value)| vec![name, value]).collect();
    facts
}

/// A page of sections.
pub fn page(title: &str, sections: &[Section]) -> String {
    let mut body = String::new();
    let mut charts = Vec::new();
    for (number, section) in sections.iter().enumerate() {
        if number == 1 {
            body += &contents(sections);
        }
        body += "<section>\n";
        if !section.heading.is_empty() {
            body += &format!("<h2 id=\"section{number}\">{}</h2>\n", escape(&section.heading));
        }
        for text in section.text.iter().filter(|t| !t.is_empty()) {
            body += &format!("<p>{}</p>\n", escape(text));
        }
        if let Some(command) = &section.command {
            body += &format!("<pre tabindex=\"0\">{}</pre>\n", escape(command));
        }
        body += &section.table.as_ref().map(|grid| table(grid, &section.heading)).unwrap_or_default();
        if let Some(figure) = &section.figure {
            body += &chart_places(figure, &mut charts);
        }
        body += "</section>\n";
    }
    let downloads = if charts.is_empty() { "" } else { FIGURES_DOWNLOAD };
    let (title, script) = (escape(title), scripts(charts));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"{POLICY}\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n\
         <p id=\"date\"></p>\n{body}<p class=\"downloads\">{TABLES_DOWNLOAD}{downloads}</p>\n</main>\n{script}</body>\n</html>\n"
    )
}

/// Links to the sections, below the first of them, where there are more than a screen shows.
fn contents(sections: &[Section]) -> String {
    let headed = sections.iter().enumerate().filter(|(_, section)| !section.heading.is_empty());
    let links: Vec<String> = headed
        .map(|(number, section)| format!("<li><a href=\"#section{number}\">{}</a></li>\n", escape(&section.heading)))
        .collect();
    if links.len() < CONTENTS_FROM {
        return String::new();
    }
    format!("<nav aria-label=\"Contents\"><ul>\n{}</ul></nav>\n", links.concat())
}

/// The legend of a figure and a place for each panel, whose charts are added to `charts`.
fn chart_places(figure: &Figure, charts: &mut Vec<Value>) -> String {
    let legend = figure.legend();
    let mut places = String::new();
    if !legend.is_empty() {
        places += &format!("<div class=\"legend\">{}</div>\n", legend.iter().enumerate().map(key).collect::<String>());
    }
    let class = if figure.is_multiple() { "panels multiples" } else { "panels" };
    places += &format!("<div class=\"{class}\">\n");
    for (number, panel) in figure.panels.iter().enumerate() {
        let name = if number == 0 { figure.name.clone() } else { format!("{}-{}", figure.name, number + 1) };
        places += "<div>\n";
        if let Some(title) = &panel.title {
            places += &format!("<h3>{}</h3>\n", escape(title));
        }
        let about = [&figure.title, panel.title.as_ref().unwrap_or(&figure.note)].map(|text| escape(text)).join(": ");
        places += &format!(
            "<figure class=\"chart\" id=\"chart{}\" data-name=\"{}\" aria-label=\"{about}\">{SAVE}</figure>\n</div>\n",
            charts.len(),
            escape(&name)
        );
        charts.push(chart(panel, &legend));
    }
    places + "</div>\n"
}

/// A series of a legend can be hidden and shown again; a part of bars, on which others stand, can't.
fn key((number, key): (usize, &Key)) -> String {
    let (colour, name) = (css(key.colour), escape(&key.name));
    let plain = key.colour.hex();
    match key.style {
        None => format!(
            "<span class=\"key\"><i class=\"part\" data-colour=\"{plain}\" style=\"color:{colour}\"></i>{name}</span>"
        ),
        Some(style) => {
            let class = match style {
                Style::Points => "dot",
                style if style.dashed() => "dashed",
                _ => "solid",
            };
            format!(
                "<button class=\"key\" data-key=\"{number}\" aria-pressed=\"true\"><i class=\"{class}\" \
                 data-colour=\"{plain}\" style=\"color:{colour}\"></i>{name}</button>"
            )
        }
    }
}

/// A colour that changes with the page's theme where it has to.
fn css(colour: Colour) -> String {
    if colour == Colour::ON_DARK.0 { format!("var(--swapped,{})", colour.hex()) } else { colour.hex() }
}

/// The charts and their script, with what draws them where there is a chart.
fn scripts(mut charts: Vec<Value>) -> String {
    let times = share_times(&mut charts);
    let drawing = if charts.is_empty() { "" } else { CHART };
    let data = json!({
        "charts": charts,
        "times": times,
        "themes": {"light": theme(Theme::LIGHT, "#fff"), "dark": theme(Theme::DARK, "#181818")},
        "swapped": [Colour::ON_DARK.0.hex(), Colour::ON_DARK.1.hex()],
    });
    // `<` can only stand in a JSON string; written so, no text can end the script.
    let data = data.to_string().replace('<', "\\u003c");
    format!("<script>\nconst page = {data};\n{drawing}{SCRIPT}</script>\n")
}

/// Takes the values of x out of the lines, which have their place among the returned ones in its stead: a run's windows of time
/// are the same in most of its charts.
fn share_times(charts: &mut [Value]) -> Vec<Value> {
    let mut times: Vec<Value> = Vec::new();
    for line in charts.iter_mut().filter_map(|chart| chart.get_mut("series")?.as_array_mut()).flatten() {
        let place = times.iter().position(|known| *known == line["x"]).unwrap_or(times.len());
        let x = std::mem::replace(&mut line["x"], json!(place));
        if place == times.len() {
            times.push(x);
        }
    }
    times
}

/// A panel as data for `chart.js`; what can be hidden carries the number of its key in `legend`.
pub(crate) fn chart(panel: &Panel, legend: &[Key]) -> Value {
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
fn theme(theme: Theme, page: &str) -> Value {
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

/// Draws all charts, in the page's theme, again when that changes; hides and shows what a legend's key names; joins zooming and hovering
/// of charts over the same quantity; saves charts; sorts tables; hands out the data.
const SCRIPT: &str = include_str!("page.js");

/// Draws one chart.
const CHART: &str = include_str!("chart.js");

/// Buttons that save a chart.
const SAVE: &str =
    "<figcaption><button data-format=\"svg\">SVG</button><button data-format=\"png\">PNG</button></figcaption>";

/// A table whose header sorts it; the best row is marked. It scrolls by itself where it is wider than the page.
fn table(grid: &Grid, heading: &str) -> String {
    let class = |i: usize| if grid.is_numeric(i) { " class=\"number\"" } else { "" };
    let cell = |(i, cell): (usize, &String)| match cell.as_str() {
        "agree" | "differs" | "not-comparable" => format!("<td class=\"{cell}\">{cell}</td>"),
        _ => format!("<td{}>{}</td>", class(i), escape(cell)),
    };
    let row = |(number, cells): (usize, &Vec<String>)| {
        let best = if grid.best.contains(&number) { " class=\"best\" title=\"the best\"" } else { "" };
        format!("<tr{best}>{}</tr>\n", cells.iter().enumerate().map(cell).collect::<String>())
    };
    let name = |(i, name): (usize, &String)| match name.is_empty() {
        true => "<td></td>".to_string(),
        false => format!("<th scope=\"col\"{}><button>{}</button></th>", class(i), escape(name)),
    };
    let header: String = grid.header.iter().enumerate().map(name).collect();
    let rows: String = grid.rows.iter().enumerate().map(row).collect();
    let heading = if heading.is_empty() { "Table" } else { heading };
    format!(
        "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"{}\"><table>\n<thead>\n<tr>{header}</tr>\n</thead>\n\
         <tbody>\n{rows}</tbody>\n</table></div>\n",
        escape(heading)
    )
}

/// Sections from which on a page has links to them.
const CONTENTS_FROM: usize = 4;

/// Buttons that hand out the page's data as files.
const TABLES_DOWNLOAD: &str = "<button id=\"tables\">Download the tables (CSV)</button>\n";
const FIGURES_DOWNLOAD: &str = "<button id=\"figures\">Download the figures' data (JSON)</button>";

const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:";

const STYLE: &str = include_str!("page.css");
