//! One HTML page that opens offline: text, tables and figures.
//!
//! `chart.js` draws the figures and saves them as SVG and PNG. The page asks the network for nothing, and forbids it by its content
//! policy. Every text from outside is escaped.

use serde_json::{Value, json};
use smrkit::stats::measured::Measured;
use smrkit::stats::outcome::Outcome;

use crate::figure::{Axis, BarPart, Body, Colour, Estimate, Figure, Key, Numbers, Panel, Series};
use crate::format::escape;
use crate::grid::Grid;
use crate::label::{beside, distinct};
use crate::series;
use crate::table::{
    about, certainty, cost, headline, optional, pause_table, pauses_told, power_cuts, speed, verdict_table,
};

/// A part of a page.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its heading.
    pub heading: String,
    /// Its topic: consecutive sections of one topic are folded together. A section without a topic is always shown.
    pub topic: Option<&'static str>,
    /// Paragraphs.
    pub text: Vec<String>,
    /// A figure below the text.
    pub figure: Option<Figure>,
    /// Boxes side by side, below the figure.
    pub cards: Vec<Card>,
    /// A table below them.
    pub table: Option<Grid>,
    /// Texts to copy, each with its description, at the end.
    pub copied: Vec<(&'static str, String)>,
}

/// A box with a question and its answer.
#[derive(Clone, Debug, Default)]
pub struct Card {
    /// The question.
    pub heading: &'static str,
    /// Paragraphs of the answer; one that begins with `$ ` is a command.
    pub text: Vec<String>,
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

    /// The section as a part of a topic.
    pub fn under(self, topic: &'static str) -> Section {
        Section { topic: Some(topic), ..self }
    }
}

/// The page of `smrkit run --report`: the headline and its figure, the comparison, everything else by topic and, if it is given, the command
/// that made the runs.
pub fn report(runs: &[Outcome], measured: Option<&Measured>, command: Option<String>) -> String {
    let with_measured = beside(runs, measured);
    let (mut first, verdicts) = (series::telling(&with_measured), verdict_table(runs));
    first.name = "telling".into();
    let findings = power_cuts(runs).into_iter().chain(pauses_told(runs, measured));
    let text = [headline(runs)].into_iter().chain(findings).chain([first.note.clone()]).collect();
    let mut sections = vec![
        Section { heading: first.title.clone(), text, figure: Some(first), ..Section::default() },
        Section::of_table("What happens", verdicts),
        Section::of_table("How fast", speed(&with_measured)),
    ];
    sections.extend(
        measured
            .and_then(|all| pause_table(runs, all))
            .map(|grid| Section::of_table("When the measured drive paused", grid)),
    );
    for figure in series::figures(runs, measured) {
        let topic = topic(&figure.name);
        sections.push(Section::of_figure(figure).under(topic));
    }
    sections.extend(certainty(runs).map(|grid| Section {
        text: vec![CERTAINTY.into()],
        ..Section::of_table("How certain that is", grid).under("How long requests take")
    }));
    sections.push(Section::of_table("What it costs", cost(runs)).under("Extra work"));
    let tables = optional(runs).into_iter();
    sections.extend(tables.map(|(heading, grid)| Section::of_table(heading, grid).under("Arrays and sources")));
    sections.push(Section::of_table("What was run", facts(runs)).under(RUN));
    if let Some(command) = command {
        let copied = vec![("The command", command)];
        sections.push(Section { heading: "Run it again".into(), copied, ..Section::default() }.under(RUN));
    }
    // A section without a topic has no position (`None`), which sorts before all others.
    sections.sort_by_key(|section| TOPICS.iter().position(|&topic| section.topic == Some(topic)));
    page(&title(runs), &sections)
}

/// The title: the demand and the disk.
fn title(runs: &[Outcome]) -> String {
    let what = runs.first().and_then(|run| run.replayed.trace.as_deref().or(run.replayed.workload.as_deref()));
    let disks: Vec<&str> = distinct(runs.iter().map(|run| run.array.as_deref().unwrap_or(&run.drive)));
    format!("{} on {}", what.unwrap_or("smrkit"), disks.join(", "))
}

const RUN: &str = "What was run";

/// What the table of confidence intervals says.
const CERTAINTY: &str = "95 % confidence intervals by the run's own requests: what other requests of the same kind would give. Where \
                         requests are too few, or depend on each other for too long, a longer run is needed to tell, or a warm-up.";

/// Topics of a comparison, in the order of the page.
const TOPICS: [&str; 6] = ["How long requests take", "Over time", "Extra work", "The disk", "Arrays and sources", RUN];

/// The topic of a figure.
fn topic(name: &str) -> &'static str {
    match name {
        "latency" => "How long requests take",
        "iops" | "longest" | "throughput" | "cache-fill" | "gauges" => "Over time",
        "amplification" | "busy" => "Extra work",
        "capacity" => "The disk",
        _ => "Arrays and sources",
    }
}

/// The table of what was run.
pub fn facts(runs: &[Outcome]) -> Grid {
    let mut facts = Grid::new(["what", "value"]);
    facts.rows = about(runs).into_iter().map(|(name, value)| vec![name, value]).collect();
    facts
}

/// A page of sections. Its first paragraph is the description in previews of links to it.
pub fn page(title: &str, sections: &[Section]) -> String {
    let mut body = String::new();
    let mut charts = Vec::new();
    let mut topic = None;
    for (number, section) in sections.iter().enumerate() {
        if number == 1 {
            body += &contents(sections);
        }
        if topic != section.topic {
            body += topic.map_or("", |_| "</details>\n");
            topic = section.topic;
            body += &topic.map_or(String::new(), |topic| format!("<details>\n<summary>{}</summary>\n", escape(topic)));
        }
        body += &part(number, section, &mut charts);
    }
    body += topic.map_or("", |_| "</details>\n");
    let about = sections.iter().flat_map(|section| &section.text).find(|text| !text.is_empty());
    let (about, script) = (about.map_or(String::new(), |text| escape(text)), scripts(charts));
    let (title, image) = (escape(title), preview(title));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"{POLICY}\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <meta name=\"description\" content=\"{about}\">\n<meta property=\"og:title\" content=\"{title}\">\n\
         <meta property=\"og:description\" content=\"{about}\">\n<meta property=\"og:image\" content=\"{image}\">\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n\
         <p id=\"date\"></p>\n{body}</main>\n{script}</body>\n</html>\n"
    )
}

/// A picture of the title, for previews of links to the page.
fn preview(title: &str) -> String {
    let lines = crate::format::wrapped("", title, 44);
    let text = |(nth, line): (usize, &str)| format!("<text x='60' y='{}'>{}</text>", 140 + 70 * nth, escape(line));
    let lines: String = lines.lines().take(6).enumerate().map(text).collect();
    let svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='1200' height='630' font-family='sans-serif' font-size='46'>\
         <rect width='1200' height='630' fill='#fff'/><rect width='1200' height='16' fill='#0072B2'/>{lines}\
         <text x='60' y='590' font-size='32' fill='#666'>smrkit</text></svg>"
    );
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/ ='".contains(&byte);
    let encoded = svg.bytes().map(|byte| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    format!("data:image/svg+xml,{}", encoded.collect::<String>())
}

/// A text as HTML, in which what is between backticks is code.
fn with_code(text: &str) -> String {
    let mut parts = text.split('`');
    let mut html = parts.next().map(escape).unwrap_or_default();
    while let Some(code) = parts.next() {
        html += &match parts.next() {
            Some(after) => format!("<code>{}</code>{}", escape(code), escape(after)),
            None => format!("`{}", escape(code)),
        };
    }
    html
}

/// A section as HTML, whose charts are added to `charts`.
fn part(number: usize, section: &Section, charts: &mut Vec<Value>) -> String {
    let paragraph = |text: &String| match text.strip_prefix("$ ") {
        Some(command) => format!("<pre>{}</pre>\n", escape(command)),
        None => format!("<p>{}</p>\n", with_code(text)),
    };
    let paragraphs = |all: &[String]| -> String { all.iter().filter(|text| !text.is_empty()).map(paragraph).collect() };
    let mut body = "<section>\n".to_string();
    if !section.heading.is_empty() {
        body += &format!("<h2 id=\"section{number}\">{}</h2>\n", escape(&section.heading));
    }
    body += &paragraphs(&section.text);
    if let Some(figure) = &section.figure {
        body += &chart_places(figure, charts);
    }
    if !section.cards.is_empty() {
        let card = |card: &Card| format!("<div><h2>{}</h2>\n{}</div>\n", escape(card.heading), paragraphs(&card.text));
        body += &format!("<div class=\"cards\">\n{}</div>\n", section.cards.iter().map(card).collect::<String>());
    }
    body += &section.table.as_ref().map(|grid| table(grid, &section.heading)).unwrap_or_default();
    for (what, text) in &section.copied {
        body += &format!(
            "<div class=\"copied\"><p>{}</p>\n<pre tabindex=\"0\">{}</pre>\n<button>Copy</button></div>\n",
            escape(what),
            escape(text)
        );
    }
    body + "</section>\n"
}

/// Links to the sections, shown below the first one if there are many.
fn contents(sections: &[Section]) -> String {
    let headed = sections.iter().enumerate().filter(|(_, section)| !section.heading.is_empty());
    let links: Vec<String> = headed
        .map(|(number, section)| format!("<li><a href=\"#section{number}\">{}</a></li>\n", escape(&section.heading)))
        .collect();
    // Folded topics already serve as contents.
    if links.len() < CONTENTS_FROM || sections.iter().any(|section| section.topic.is_some()) {
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

/// An entry of a legend. It is a button that hides and shows a series; a part of bars can't be hidden, because other parts are stacked on it.
fn key((number, key): (usize, &Key)) -> String {
    let (colour, name) = (css(key.colour), escape(&key.name));
    let plain = key.colour.hex();
    match key.style {
        None => format!(
            "<span class=\"key\"><i class=\"part\" data-colour=\"{plain}\" style=\"color:{colour}\"></i>{name}</span>"
        ),
        Some(style) => {
            let class = if style.dashed { "dashed" } else { "solid" };
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

/// The data of the charts, and the scripts. The script that draws charts is left out if there are none.
fn scripts(mut charts: Vec<Value>) -> String {
    let times = share_times(&mut charts);
    let drawing = if charts.is_empty() { "" } else { CHART };
    let data = json!({
        "charts": charts,
        "times": times,
        // The dark page is nearly black, like that of page.css.
        "themes": {
            "light": {"ink": "#222222", "pale": "#666666", "rule": "#888888", "grid": "#E4E4E4", "page": "#fff"},
            "dark": {"ink": "#E2E2E2", "pale": "#A6A6A6", "rule": "#777777", "grid": "#383838", "page": "#181818"},
        },
        // The second is drawn in place of the first on the dark page.
        "swapped": [Colour::ON_DARK.0.hex(), Colour::ON_DARK.1.hex()],
    });
    // `<` occurs in JSON only within strings; escaped, no text can end the script.
    let data = data.to_string().replace('<', "\\u003c");
    format!("<script>\nconst page = {data};\n{drawing}{SCRIPT}</script>\n")
}

/// Moves the x values of lines to a shared list, which is returned, and puts their index in their place, because most charts of a run have the
/// same windows of time.
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

/// A panel as data for `chart.js`. A series that can be hidden has the number of its key in `legend`.
pub(crate) fn chart(panel: &Panel, legend: &[Key]) -> Value {
    let key = |name: &str| legend.iter().position(|key| key.name == name);
    let (x_range, y_range) = panel.ranges();
    let guides: Vec<_> = panel.guides.iter().filter(|guide| panel.y.takes(guide.0)).collect();
    let mut data = json!({"x": axis(&panel.x, x_range), "y": axis(&panel.y, y_range), "guides": guides});
    if !panel.marks.is_empty() {
        data["marks"] = json!(panel.marks);
    }
    match &panel.body {
        Body::Lines(all) => {
            data["series"] = all.iter().map(|one| series(panel, one, key(&one.name))).collect();
        }
        Body::Bars { rows, totals, parts } => {
            let part = |part: &BarPart| json!({"name": part.name, "colour": part.colour.hex(), "values": part.values});
            let parts: Vec<Value> = parts.iter().filter(|part| part.is_drawn()).map(part).collect();
            data["bars"] = json!({"rows": rows, "totals": totals, "parts": parts});
        }
        Body::Estimates(all) => {
            let row = |one: &Estimate| {
                json!({"name": one.name, "value": rounded(one.value), "range": one.range, "measured": one.measured,
                       "text": one.text, "colour": one.colour.hex()})
            };
            data["estimates"] = all.iter().map(row).collect();
        }
    }
    data
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
        "key": key, "name": series.name, "colour": series.colour.hex(), "steps": series.style.steps,
        "dashed": series.style.dashed, "x": x, "y": y,
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

/// A number with five significant digits: more can't be seen, and pages stay small.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

/// Draws all charts in the page's theme, and again when that changes; hides and shows series by the legend; links zooming and hovering of
/// charts over the same quantity; saves charts.
const SCRIPT: &str = include_str!("page.js");

/// Draws one chart.
const CHART: &str = include_str!("chart.js");

/// Buttons that save a chart.
const SAVE: &str =
    "<figcaption><button data-format=\"svg\">SVG</button><button data-format=\"png\">PNG</button></figcaption>";

/// A table with the best row marked. It scrolls sideways if it is wider than the page.
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
        false => format!("<th scope=\"col\"{}>{}</th>", class(i), escape(name)),
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

/// The least number of sections for which a page has links to them.
const CONTENTS_FROM: usize = 4;

const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:";

const STYLE: &str = include_str!("page.css");
