//! The answer as a page that opens offline: what it is, over time, beside other disks and changes, what to do, and how sure.

use smrkit::layer::BASELINE;
use smrkit_report::figure::{Axis, Body, Colour, Estimate, Figure, Panel};
use smrkit_report::{Card, Grid, Section, format};

use crate::advice::{Advice, Answer, Measure};
use crate::comparison::{Effect, Trajectory};
use crate::{screen, words};

/// The page of one answer, or of several drives under one load. `command` asks again.
pub fn page(all: &[Advice], command: Option<&str>) -> String {
    let (title, mut sections) = match all {
        [advice] => (headline(advice), of_one(advice)),
        all => {
            let asked = all.first().map_or(String::new(), screen::asked);
            (format!("{asked}: {}", format::list(all.iter().map(words::system).collect())), of_several(all))
        }
    };
    sections.push(Section {
        heading: if command.is_some() { "Ask again".into() } else { String::new() },
        copied: command.map(|command| ("The command", command.to_string())).into_iter().collect(),
        ..Section::default()
    });
    let copied = vec![("Markdown", markdown(all, command)), ("BBCode, for forums", bbcode(all, command))];
    sections.push(Section { copied, ..Section::default() }.under("Text to copy"));
    smrkit_report::page(&title, &sections)
}

fn headline(advice: &Advice) -> String {
    advice.text.lines().next().unwrap_or_default().into()
}

fn of_one(advice: &Advice) -> Vec<Section> {
    const TRIED: &str = "What was tried, and how much depends on what is not known";
    // What to do and how sure that is are on cards.
    let is_lead = |line: &&str| ["How long", "How fast", "Why"].iter().any(|label| line.starts_with(label));
    let text = advice.text.lines().skip(1).filter(is_lead).map(str::to_string).collect();
    let mut sections = vec![Section { text, cards: cards(advice), ..Section::default() }];
    if advice.is_too_short() || advice.problems.refused {
        return sections;
    }
    let course = course(advice);
    if !course.panels.is_empty() {
        let mut section = Section::of_figure(course);
        if let Some(after_s) = advice.judged().own.full_after_s {
            section.text.insert(0, format!("From when the cache is full, after about {}.", format::seconds(after_s)));
        }
        sections.push(section);
    }
    sections.push(Section::of_figure(bars(&rows(advice), advice.measure())));
    let mut ends = Grid::new(["drive", screen::figure_name(advice), "longest", "dropped"]);
    ends.rows.extend(screen::rows_of_ends(advice).map(|cells| cells[..4].to_vec()));
    for (heading, table) in [
        ("Changes that were tried", screen::tried(advice)),
        ("Beside CMR disks", screen::present(advice)),
        ("At both ends of what is known of the drive", ends),
    ] {
        if !table.rows.is_empty() {
            sections.push(Section::of_table(heading, table).under(TRIED));
        }
    }
    let budget = words::budget(advice).into_iter().collect();
    sections.push(Section { heading: "What it takes".into(), text: budget, ..Section::default() }.under(TRIED));
    sections.push(Section { text: screen::notes(advice), ..Section::default() }.under("What was run"));
    sections
}

/// What happens over time. The lines have the names of the answer, not of layers.
fn course(advice: &Advice) -> Figure {
    let mut course = smrkit_report::telling(&advice.runs);
    if !advice.system.is_conventional {
        let lines = course.panels.iter_mut().flat_map(|panel| match &mut panel.body {
            Body::Lines(lines) => lines.as_mut_slice(),
            _ => &mut [],
        });
        lines.for_each(|line| {
            line.name = if line.colour == Colour::GREY { "CMR disks".into() } else { words::system(advice) };
        });
    }
    course
}

fn of_several(all: &[Advice]) -> Vec<Section> {
    let Some(first) = all.first() else { return Vec::new() };
    let (text, table) = shown_first(all);
    let rows: Vec<Estimate> = all.iter().flat_map(|advice| row_of(advice, words::system(advice))).collect();
    let mut sections = vec![
        Section { text, ..Section::default() },
        Section::of_figure(bars(&rows, first.measure())),
        Section::of_table("Side by side", table),
    ];
    for advice in all {
        let text = advice.text.lines().chain(words::budget(advice).as_deref()).map(str::to_string).collect();
        sections.push(Section { heading: words::system(advice), text, ..Section::default() }.under("Each by itself"));
    }
    sections
}

/// Will it be dropped, what to do, how sure.
fn cards(advice: &Advice) -> Vec<Card> {
    let mut to_do = Vec::new();
    for action in &advice.actions {
        to_do.push(words::with_price(action));
        to_do.extend(action.command.as_ref().map(|command| format!("$ {command}")));
    }
    let is_more = advice.answer == Answer::Yes && !to_do.is_empty();
    let heading = if is_more { "If you want more" } else { "What to do" };
    if to_do.is_empty() {
        to_do.push("Nothing has to be done.".into());
    }
    for (when, commands) in words::replaces(advice) {
        to_do.push(when);
        to_do.extend(commands.iter().map(|command| format!("$ {command}")));
    }
    let sure = [Some(words::certainty(advice)), words::assumed(advice)].into_iter().flatten().collect();
    vec![
        Card { heading: "Will a disk be dropped?", text: vec![words::dropped(advice)] },
        Card { heading, text: to_do },
        Card { heading: "How sure is this?", text: sure },
    ]
}

/// The system as it is, conventional disks and changes, as far as they were run.
fn rows(advice: &Advice) -> Vec<Estimate> {
    let mut rows: Vec<Estimate> = row_of(advice, "as it is".into()).collect();
    if advice.tries_unused() {
        rows.extend(estimate(advice, "as it is, in light use".into(), &advice.judged().own, Colour::nth(0)));
    }
    for remedy in &advice.remedies {
        let colour = match remedy.effect {
            _ if remedy.change == "CMR disks" => Colour::GREY,
            Some(Effect::Fixes | Effect::FixesSoFar) => Colour::nth(2),
            _ => Colour::nth(0),
        };
        rows.extend(remedy.trajectory.as_ref().and_then(|run| estimate(advice, remedy.change.clone(), run, colour)));
    }
    rows
}

/// The system as it is, with the range of what is known of its drive, and what was measured of its like.
fn row_of(advice: &Advice, name: String) -> impl Iterator<Item = Estimate> {
    let is_conventional = advice.system.is_conventional || advice.system.layer == BASELINE;
    let colour = if is_conventional { Colour::GREY } else { Colour::nth(0) };
    let row = estimate(advice, name, &advice.base().own, colour).map(|row| Estimate {
        range: advice.drive_range.map(|range| (range.low, range.high)),
        measured: (advice.asked_work().known())
            .map(|known| advice.known_seconds(known))
            .filter(|seconds| seconds.is_finite() && advice.measure() == Measure::Seconds),
        ..row
    });
    row.into_iter()
}

fn estimate(advice: &Advice, name: String, run: &Trajectory, colour: Colour) -> Option<Estimate> {
    let value = advice.metric(run);
    let text = screen::figure(advice, run);
    value.is_finite().then_some(Estimate { name, value, range: None, measured: None, text, colour })
}

/// Bars of estimates, each with its range.
fn bars(rows: &[Estimate], of: Measure) -> Figure {
    let longest = rows.iter().map(|row| row.value.max(row.range.map_or(0.0, |range| range.1))).fold(0.0, f64::max);
    let (title, axis) = match of {
        Measure::BytesPerS => ("How fast", "Rate that remains"),
        Measure::Seconds => ("How long it takes", "Time"),
        Measure::MeanNs => ("How long a request takes", "Mean time of a request"),
    };
    let (unit, name) = of.unit(longest);
    let in_unit = |row: &Estimate| Estimate {
        value: row.value / unit,
        range: row.range.map(|(low, high)| (low / unit, high / unit)),
        measured: row.measured.map(|value| value / unit),
        ..row.clone()
    };
    let mut note = if of == Measure::BytesPerS { "Longer is better." } else { "Shorter is better." }.to_string();
    if rows.iter().any(|row| row.range.is_some()) {
        note += " The whisker is where the real drive may lie, since some of its figures are estimates.";
    }
    if rows.iter().any(|row| row.measured.is_some()) {
        note += " The dot is what somebody has measured.";
    }
    let body = Body::Estimates(rows.iter().map(in_unit).collect());
    Figure::new(
        "bars",
        title,
        note,
        [Panel::new(None, Axis::linear(format!("{axis} ({name})")), Axis::default(), body)],
    )
}

/// The lines and the table of what is shown first.
fn shown_first(all: &[Advice]) -> (Vec<String>, Grid) {
    match all {
        [advice] => (advice.text.lines().map(str::to_string).collect(), screen::tried(advice)),
        all => {
            let headlines = all.iter().map(|advice| format!("{}: {}", advice.system.drive, headline(advice)));
            (headlines.chain(words::choice(all)).collect(), screen::comparison(all))
        }
    }
}

fn markdown(all: &[Advice], command: Option<&str>) -> String {
    let (lines, grid) = shown_first(all);
    let mut out = format!("**{}**\n\n", lines.first().map_or("", String::as_str));
    out.extend(lines.iter().skip(1).map(|line| format!("- {line}\n")));
    let row = |cells: &Vec<String>| format!("| {} |\n", cells.join(" | "));
    out += &format!("\n{}{}|\n", row(&grid.header), "|---".repeat(grid.header.len()));
    out.extend(grid.rows.iter().map(row));
    out + &command.map_or(String::new(), |command| format!("\n    {command}\n"))
}

fn bbcode(all: &[Advice], command: Option<&str>) -> String {
    let (lines, grid) = shown_first(all);
    let mut out = format!("[b]{}[/b]\n\n[list]\n", lines.first().map_or("", String::as_str));
    out.extend(lines.iter().skip(1).map(|line| format!("[*] {line}\n")));
    let command = command.map_or(String::new(), |command| format!("\n$ {command}\n"));
    format!("{out}[/list]\n\n[code]\n{}{command}[/code]\n", grid.text_within(80))
}
