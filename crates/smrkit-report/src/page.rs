//! One HTML page that opens offline: text, tables and interactive figures.
//!
//! plotly.js is embedded once; the page asks the network for nothing, and forbids it by its content policy. Every text
//! from outside is escaped.

use serde_json::{Value, json};
use smrkit::stats::outcome::Outcome;

use crate::figure::{Colour, Figure, Key, Style, Theme};
use crate::format::escape;
use crate::grid::Grid;
use crate::table::{about, cost, power_cuts, speed, verdicts};
use crate::{interactive, optional, series};

/// A part of a page.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its heading.
    pub heading: String,
    /// Paragraphs.
    pub text: Vec<String>,
    /// A table below the text.
    pub table: Option<Grid>,
    /// A figure below the table.
    pub figure: Option<Figure>,
}

impl Section {
    /// A section of a heading and a figure, with the figure's note as text.
    pub fn of_figure(figure: Figure) -> Section {
        Section { heading: figure.title.clone(), text: vec![figure.note.clone()], table: None, figure: Some(figure) }
    }

    /// A section of a heading and a table.
    pub fn of_table(heading: &str, table: Grid) -> Section {
        Section { heading: heading.into(), table: Some(table), ..Section::default() }
    }
}

/// The page of `smrkit run --report`.
pub fn report(runs: &[Outcome]) -> String {
    let mut facts = Grid::new(["what", "value"]);
    facts.rows = about(runs).into_iter().map(|(name, value)| vec![name, value]).collect();
    let verdicts = verdicts(runs).into_iter().chain(power_cuts(runs)).collect();
    let mut sections = vec![
        Section { heading: "Verdict".into(), text: verdicts, ..Section::default() },
        Section::of_table("How fast", speed(runs)),
        Section::of_table("What it costs", cost(runs)),
    ];
    sections.extend(optional::grids(runs).into_iter().map(|(heading, grid)| Section::of_table(heading, grid)));
    sections.extend(series::figures(runs).into_iter().map(Section::of_figure));
    sections.push(Section::of_table("What was run", facts));
    let what = runs.first().and_then(|r| r.replayed.trace.as_deref().or(r.replayed.workload.as_deref()));
    page(&what.map_or("smrkit".into(), |what| format!("smrkit: {what}")), &sections)
}

/// A page of sections.
pub fn page(title: &str, sections: &[Section]) -> String {
    let mut body = String::new();
    let mut charts = Vec::new();
    for section in sections {
        body += &format!("<section>\n<h2>{}</h2>\n", escape(&section.heading));
        for text in section.text.iter().filter(|t| !t.is_empty()) {
            body += &format!("<p>{}</p>\n", escape(text));
        }
        body += &section.table.as_ref().map(table).unwrap_or_default();
        if let Some(figure) = &section.figure {
            body += &chart_places(figure, &mut charts);
        }
        body += "</section>\n";
    }
    let title = escape(title);
    let script = if charts.is_empty() { String::new() } else { scripts(&charts) };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"{POLICY}\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}{script}</body>\n</html>\n"
    )
}

/// The legend of a figure and a place for each panel, whose charts are added to `charts`.
fn chart_places(figure: &Figure, charts: &mut Vec<Value>) -> String {
    let legend = figure.legend();
    let mut places = String::new();
    if !legend.is_empty() {
        places += &format!("<div class=\"legend\">{}</div>\n", legend.iter().enumerate().map(key).collect::<String>());
    }
    for panel in &figure.panels {
        if let Some(title) = &panel.title {
            places += &format!("<h3>{}</h3>\n", escape(title));
        }
        places += &format!("<div class=\"chart\" id=\"chart{}\"></div>\n", charts.len());
        charts.push(interactive::panel(panel, &legend));
    }
    places
}

/// A series of a legend can be hidden and shown again; a part of bars, on which others stand, can't.
fn key((number, key): (usize, &Key)) -> String {
    let (colour, name) = (css(key.colour), escape(&key.name));
    match key.style {
        None => format!("<span class=\"key\"><i class=\"part\" style=\"color:{colour}\"></i>{name}</span>"),
        Some(style) => {
            let class = match style {
                Style::Points => "dot",
                style if style.dashed() => "dashed",
                _ => "solid",
            };
            format!(
                "<button class=\"key\" data-key=\"{number}\" aria-pressed=\"true\"><i class=\"{class}\" \
                 style=\"color:{colour}\"></i>{name}</button>"
            )
        }
    }
}

/// A colour that changes with the page's theme where it has to.
fn css(colour: Colour) -> String {
    if colour == Colour::ON_DARK.0 { format!("var(--swapped,{})", colour.hex()) } else { colour.hex() }
}

/// plotly.js, the charts, and what draws them.
fn scripts(charts: &[Value]) -> String {
    let data = json!({
        "charts": charts,
        "themes": {"light": interactive::template(Theme::LIGHT), "dark": interactive::template(Theme::DARK)},
        "swapped": [Colour::ON_DARK.0.hex(), Colour::ON_DARK.1.hex()],
    });
    // `<` can only stand in a JSON string; written so, no text can end the script.
    let data = data.to_string().replace('<', "\\u003c");
    format!("<script>{PLOTLY}</script>\n<script>\nconst page = {data};\n{SCRIPT}</script>\n")
}

/// Draws the charts, in the page's theme, again when that changes; hides and shows what a legend's key names.
const SCRIPT: &str = include_str!("page.js");

/// plotly.js without the charts that no figure here has: scatter, bar, heat map and their kin.
const PLOTLY: &str = include_str!("../vendor/plotly-cartesian.min.js");

fn table(grid: &Grid) -> String {
    let class = |i: usize| if grid.is_numeric(i) { " class=\"number\"" } else { "" };
    let row = |tag: &str, cells: &[String]| -> String {
        let cells = cells.iter().enumerate().map(|(i, cell)| match cell.as_str() {
            "agree" | "differs" | "not-comparable" => format!("<{tag} class=\"{cell}\">{cell}</{tag}>"),
            _ => format!("<{tag}{}>{}</{tag}>", class(i), escape(cell)),
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let rows: String = grid.rows.iter().map(|r| row("td", r)).collect();
    format!(
        "<div class=\"wide\"><table>\n<thead>\n{}</thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n",
        row("th", &grid.header)
    )
}

const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:";

const STYLE: &str = include_str!("page.css");
