//! One HTML page that opens offline: text, tables and interactive figures.
//!
//! plotly.js is embedded once; the page asks the network for nothing, and forbids it by its content policy. Every text
//! from outside is escaped.

use smrkit::stats::outcome::Outcome;

use crate::figure::Figure;
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
        for panel in section.figure.iter().flat_map(|f| &f.panels) {
            if let Some(title) = &panel.title {
                body += &format!("<h3>{}</h3>\n", escape(title));
            }
            body += &format!("<div class=\"chart\" id=\"chart{}\"></div>\n", charts.len());
            charts.push(interactive::panel(panel));
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

/// plotly.js, and the call that draws each chart.
fn scripts(charts: &[serde_json::Value]) -> String {
    // `<` can only stand in a JSON string; written so, no text can end the script.
    let charts = serde_json::Value::from(charts.to_vec()).to_string().replace('<', "\\u003c");
    format!(
        "<script>{PLOTLY}</script>\n<script>\nconst charts = {charts};\nconst options = {{responsive: true, displaylogo: false}};\n\
         charts.forEach((c, i) => Plotly.newPlot('chart' + i, c.data, c.layout, options));\n</script>\n"
    )
}

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

const STYLE: &str = "\
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 1180px; margin: 2em auto; padding: 0 1.5em; }
h1 { font-size: 1.5em; overflow-wrap: anywhere; }
h2 { font-size: 1.15em; margin: 2em 0 0.3em; border-bottom: 1px solid #ddd; }
h3 { font-size: 1em; margin: 1.2em 0 0; }
p { margin: 0.4em 0; max-width: 75em; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 0.8em 0; font-size: 0.92em; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25em 0.7em; border-bottom: 1px solid #e4e4e4; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
td:first-child { overflow-wrap: normal; }
th { border-bottom: 2px solid #999; white-space: nowrap; }
.number { text-align: right; white-space: nowrap; }
.agree { color: #006b4e; font-weight: 600; }
.differs { color: #a84300; font-weight: 600; }
.not-comparable { color: #666; }
.chart { width: 100%; }
@media print { .chart { break-inside: avoid; } }
";
