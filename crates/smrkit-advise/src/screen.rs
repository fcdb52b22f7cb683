//! The answer on the terminal, as it comes: five lines, one table if anything was tried, what else can be done.

use smrkit_report::Grid;
use smrkit_report::format::{self, NONE, printable, rate, wrapped};

use crate::LoadKind;
use crate::advice::{Action, Advice, Answer, Measure, Present, Remedy, Verdict};
use crate::changes::ChangeKind;
use crate::comparison::Trajectory;
use crate::words::{self, HOW_SURE};

/// Codes of a terminal.
const BOLD: &str = "1";

/// Columns of the table of what was tried: narrow enough for 80 in all.
const COLUMNS: [usize; 4] = [27, 12, 11, 13];

/// How the answer is shown on a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// Columns.
    pub width: usize,
    /// True if the answer stands out in colour.
    pub is_coloured: bool,
    /// Shows the ends of the drive's range, why changes were not run, and what exactly was run.
    pub details: bool,
}

impl Default for Screen {
    fn default() -> Screen {
        Screen { width: 80, is_coloured: false, details: false }
    }
}

/// All of it.
pub fn text(advice: &Advice, screen: Screen) -> String {
    let rows: String = (0..advice.remedies.len()).filter_map(|nth| row(advice, nth, screen)).collect();
    let table = if tries_more(advice, screen) { table_head(advice, screen) + &rows } else { String::new() };
    first(advice, "", screen) + &table + &rest(advice, &advice.text, screen)
}

/// The lines of a text that a preview shows: yes or no, and how long or how fast.
fn previewed(text: &str) -> impl Iterator<Item = &str> {
    let is_shown =
        |(nth, line): &(usize, &str)| *nth == 0 || line.starts_with("How long") || line.starts_with("How fast");
    text.lines().enumerate().filter(is_shown).map(|(_, line)| line)
}

/// The answer so far, while more is run, and what it leaves out.
pub fn preview(advice: &Advice, screen: Screen) -> String {
    let by = match advice.judged().own.rebuild {
        _ if !advice.is_of_part() => "by the drive's most likely figures alone".into(),
        Some(_) => "by the array while nobody uses it".into(),
        None => format!("by the first {} requests alone", format::count(advice.demand.requests)),
    };
    format!("At first sight, {by}:\n{}\n", lines(previewed(&advice.text), screen))
}

/// The answer, but for how sure it is, since later runs add to that; after the preview of a text only what that did not show.
pub fn first(advice: &Advice, preview: &str, screen: Screen) -> String {
    let said: Vec<&str> = previewed(preview).collect();
    let is_new = |line: &&str| !line.starts_with(HOW_SURE) && !said.contains(line);
    let new = advice.text.lines().filter(is_new);
    if said.is_empty() {
        return lines(new, screen);
    }
    let headline = advice.text.lines().next().unwrap_or_default();
    // Only a headline has colours.
    let screen = Screen { is_coloured: screen.is_coloured && !said.contains(&headline), ..screen };
    let answer = |line: &str| line.split([':', ',', ' ']).next().map(str::to_string);
    let effect = match answer(said[0]) {
        before if before == answer(headline) => "confirm",
        Some(word) if ["Yes", "No", "Perhaps"].contains(&word.as_str()) => "change",
        // It had no answer yet.
        _ => "give",
    };
    format!("More runs {effect} the answer:\n{}", lines(new, screen))
}

/// The last row of what was tried; before the first of them the rows that the answer was about.
pub fn tried_row(advice: &Advice, screen: Screen) -> String {
    let last = advice.remedies.len() - 1;
    let Some(tried) = row(advice, last, screen) else { return String::new() };
    let is_first = (advice.run_beside()..last).all(|nth| row(advice, nth, screen).is_none());
    if !is_first {
        return tried;
    }
    let beside: String = (0..advice.run_beside()).filter_map(|nth| row(advice, nth, screen)).collect();
    table_head(advice, screen) + &beside + &tried
}

/// True if a change has a row that was not run beside the system as it is.
fn tries_more(advice: &Advice, screen: Screen) -> bool {
    (advice.run_beside()..advice.remedies.len()).any(|nth| row(advice, nth, screen).is_some())
}

fn table_head(advice: &Advice, screen: Screen) -> String {
    let head = [head(advice), figure_name(advice), "longest", "dropped", ""].map(str::to_string);
    let rows: String = as_it_is(advice).iter().map(|row| table_row(row)).collect();
    format!("\n{}{}\n{rows}", table_row(&head), "─".repeat(screen.width.min(80)))
}

/// The rows of the system as it is: under the load that changes serve, and in light use, where that is the problem, beside CMR disks.
fn as_it_is(advice: &Advice) -> Vec<Vec<String>> {
    let row = |name: &str, run| cells(advice, name, run, "");
    if advice.problems.refused {
        // No time of what is refused is a disk's.
        return vec![row("CMR disks", &advice.judged().conventional)];
    }
    let mut rows = vec![row("as it is", &advice.base().own)];
    if advice.tries_unused() {
        let used = advice.judged();
        rows.push(row("as it is, in light use", &used.own));
        rows.extend(advice.trimmed.get(advice.hardest).map(|trimmed| row("new disk trimmed, light use", &trimmed.own)));
        if !advice.system.is_conventional {
            rows.push(row("CMR disks, in light use", &used.conventional));
        }
    }
    rows
}

/// The row of a change; without details only if it was run.
fn row(advice: &Advice, nth: usize, screen: Screen) -> Option<String> {
    let remedy = advice.remedies.get(nth).filter(|remedy| remedy.trajectory.is_some() || screen.details)?;
    Some(table_row(&cells_of_change(advice, remedy)))
}

fn cells_of_change(advice: &Advice, remedy: &Remedy) -> Vec<String> {
    let effect = match advice.verdict {
        // No other change makes another drive of it.
        Verdict::Fails if remedy.kind != ChangeKind::Conventional => "same firmware",
        _ => words::effect(advice.problems.any(), remedy),
    };
    match &remedy.trajectory {
        Some(run) => cells(advice, &remedy.change, run, effect),
        None => [&remedy.change, NONE, NONE, NONE, effect].map(str::to_string).into(),
    }
}

/// The rows of the drive where all that is known only roughly is as bad, and as good, as it may be.
pub(crate) fn rows_of_ends(advice: &Advice) -> impl Iterator<Item = Vec<String>> {
    advice.ends.iter().map(|end| {
        let name = if end.worse { "the drive at its worst" } else { "the drive at its best" };
        cells(advice, name, &end.trajectory, "")
    })
}

/// What follows the table: lines of the answer that have changed since they were said, what else can be done, the budget, how sure all of it
/// is, what was run.
pub fn rest(advice: &Advice, said: &str, screen: Screen) -> String {
    let Screen { width, details, .. } = screen;
    let mut out = String::new();
    if details {
        if advice.remedies.len() == advice.run_beside() && !advice.is_too_short() {
            out += &table_head(advice, screen);
            out.extend((0..advice.run_beside()).filter_map(|nth| row(advice, nth, screen)));
        }
        out.extend(rows_of_ends(advice).map(|row| table_row(&row)));
    }
    // These lines of the answer are shown in a longer form below.
    let lists_actions = advice.actions.len() > 1 || advice.actions.iter().any(words::has_price);
    let is_new = |line: &&str| {
        let is_below = line.starts_with(HOW_SURE) || lists_actions && line.starts_with("What to do:");
        !is_below && !said.lines().any(|known| known == *line)
    };
    let changed: Vec<&str> = advice.text.lines().filter(is_new).collect();
    if !changed.is_empty() {
        out += &format!("\n{}", lines(changed.into_iter(), Screen { is_coloured: false, ..screen }));
    }
    if lists_actions {
        let first_step = advice.text.lines().find(|line| line.starts_with("What to do:"));
        let is_said = first_step.is_some_and(|line| said.lines().any(|known| known == line));
        let is_complete = |action: &Action| !words::has_price(action) && action.command.is_none();
        // What was said of the first step is all there is to say.
        let skipped = usize::from(is_said && advice.actions.len() > 1 && is_complete(&advice.actions[0]));
        out += match advice.answer {
            Answer::Yes => "\nIf you want more:\n",
            _ if skipped > 0 => "\nWhat else to do:\n",
            _ => "\nWhat to do:\n",
        };
        for action in &advice.actions[skipped..] {
            out += &format!("{}\n", wrapped("- ", &words::with_price(action), width));
            out += &action.command.as_ref().map_or(String::new(), |command| format!("  $ {command}\n"));
        }
    }
    for (when, commands) in words::replaces(advice) {
        out += &format!("\n{}\n", wrapped("", &when, width));
        out.extend(commands.iter().map(|command| format!("  $ {command}\n")));
    }
    let sure = advice.text.lines().find(|line| line.starts_with(HOW_SURE)).map(printable);
    for paragraph in [words::budget(advice), sure, words::assumed(advice)].into_iter().flatten() {
        out += &format!("\n{}\n", wrapped("", &paragraph, width));
    }
    if details {
        out.push('\n');
        out.extend(notes(advice).iter().map(|line| format!("{}\n", wrapped("", &printable(line), width))));
    }
    out
}

/// The lines of an answer, the first of which stands out.
fn lines<'a>(all: impl Iterator<Item = &'a str>, screen: Screen) -> String {
    let mut out = String::new();
    for (nth, line) in all.enumerate() {
        let text = wrapped("", &printable(line), screen.width);
        out += &match screen.is_coloured && nth == 0 {
            true => text.lines().map(|line| format!("\x1b[{BOLD}m{line}\x1b[0m\n")).collect::<String>(),
            false => format!("{text}\n"),
        };
    }
    out
}

fn table_row(cells: &[String]) -> String {
    let mut out = format!("{:1$}", cells[0], COLUMNS[0]);
    for (cell, width) in cells.iter().zip(COLUMNS).skip(1) {
        out += &format!("{cell:>width$}");
    }
    format!("{}\n", format!("{out}  {}", cells[4]).trim_end())
}

/// A row of the table of what was tried.
fn cells(advice: &Advice, name: &str, run: &Trajectory, effect: &str) -> Vec<String> {
    let figures = [figure(advice, run), longest(advice, run), dropped(advice, run)];
    [name.to_string()].into_iter().chain(figures).chain([effect.to_string()]).collect()
}

/// What is said first of one of several drives.
pub fn headline(advice: &Advice, screen: Screen) -> String {
    let headline = advice.text.lines().next().unwrap_or_default();
    lines(std::iter::once(format!("{}: {headline}", advice.system.drive).as_str()), screen)
}

/// Several drives under one load, a row for each; their headlines have been said.
pub fn compared(all: &[Advice], screen: Screen) -> String {
    let mut grid = comparison(all);
    grid.header[0] = "drive".into();
    let mut out = lines(words::choice(all).iter().map(String::as_str), screen);
    out += &format!("\n{}\n\n", grid.text_within(screen.width));
    let sure = words::certainties(all);
    out += &lines(sure.iter().map(String::as_str), Screen { is_coloured: false, ..screen });
    if let Some(assumed) = all.first().and_then(words::assumed) {
        out += &format!("{}\n", wrapped("", &assumed, screen.width));
    }
    if screen.details {
        for advice in all {
            out += &format!("\n{}\n{}", advice.system.drive, text(advice, screen));
        }
    }
    out
}

pub(crate) fn comparison(all: &[Advice]) -> Grid {
    let Some(first) = all.first() else { return Grid::default() };
    let mut grid = Grid::new(["", "answer", figure_name(first), "range", "longest", "dropped"]);
    for advice in all {
        let own = &advice.judged().own;
        let range = advice.range.as_ref().map_or("within 10 %".into(), |range| words::between(range, range.high));
        let figures = match advice.problems.refused {
            true => ["refused", NONE, NONE, NONE].map(str::to_string),
            false => [figure(advice, own), range, longest(advice, own), dropped(advice, own)],
        };
        let names = [advice.system.drive.clone(), words::answer_word(advice.answer).into()];
        grid.rows.push(names.into_iter().chain(figures).collect());
    }
    grid
}

/// The table of what was tried, with the best marked.
pub(crate) fn tried(advice: &Advice) -> Grid {
    let first = if head(advice).is_empty() { "change" } else { head(advice) };
    let mut grid = Grid::new([first, figure_name(advice), "longest", "dropped", "effect"]);
    grid.rows = as_it_is(advice);
    let before = grid.rows.len();
    grid.rows.extend(advice.remedies.iter().map(|remedy| cells_of_change(advice, remedy)));
    grid.best.extend(advice.best().map(|best| best + before));
    grid
}

/// Who drops a disk: Linux waits 30 s for a command, a RAID controller 7 s. A drive alone is behind no RAID controller.
pub(crate) fn dropped(advice: &Advice, run: &Trajectory) -> String {
    match (run.dropped_7s, run.dropped_30s) {
        (_, 1..) => "by Linux",
        (1.., _) if advice.array.is_some() => "by RAID card",
        _ => "no",
    }
    .into()
}

/// The main figure of a run as text: its time, mean latency or rate.
pub(crate) fn figure(advice: &Advice, run: &Trajectory) -> String {
    match advice.measure() {
        Measure::Seconds => advice.seconds(run).map_or(NONE.into(), format::seconds),
        // The latency of a backlog that grows is no figure.
        Measure::MeanNs if run.falls_behind => "grows".into(),
        Measure::MeanNs => format::nanos(run.mean_ns),
        Measure::BytesPerS => rate(run.lasting_bytes_per_s()),
    }
}

pub(crate) fn figure_name(advice: &Advice) -> &'static str {
    match advice.measure() {
        Measure::Seconds => "time",
        Measure::MeanNs => "mean",
        Measure::BytesPerS => "rate",
    }
}

pub(crate) fn longest(advice: &Advice, run: &Trajectory) -> String {
    format::nanos(words::longest_ns(advice, run))
}

/// The load that the table is for.
fn head(advice: &Advice) -> &'static str {
    match advice.base().load {
        LoadKind::Unused => "while nobody uses it",
        LoadKind::Light => "in light use",
        LoadKind::Asked => "",
    }
}

/// The system as it is under each load, next to conventional disks.
pub(crate) fn present(advice: &Advice) -> Grid {
    let name = figure_name(advice);
    let mut grid = Grid::new(["", name, &format!("CMR {name}"), "longest", "CMR longest", "dropped"]);
    for Present { load, own, conventional, .. } in &advice.present {
        let load = match load {
            LoadKind::Unused => "unused",
            LoadKind::Light => "light use",
            LoadKind::Asked => "your load",
        };
        let pair = |of: fn(&Advice, &Trajectory) -> String| [of(advice, own), of(advice, conventional)];
        let ([own_figure, usual], [own_longest, usual_longest]) = (pair(figure), pair(longest));
        grid.rows.push(vec![load.into(), own_figure, usual, own_longest, usual_longest, dropped(advice, own)]);
    }
    grid
}

/// The use, trace, workload or sources that were asked for, and the rebuild.
pub(crate) fn asked(advice: &Advice) -> String {
    let replayed = &advice.demand.replayed;
    let sources = || {
        let all = replayed.sources.iter().flatten();
        let names: Vec<String> = all.filter_map(|source| source.trace.clone().or(source.workload.clone())).collect();
        names.join(" & ")
    };
    if let Some(asked) = &advice.asked_use {
        return asked.to_string();
    }
    let what = match advice.judged().load {
        LoadKind::Asked => replayed.trace.clone().or_else(|| replayed.workload.clone()).unwrap_or_else(sources),
        LoadKind::Light => "light use".into(),
        LoadKind::Unused => String::new(),
    };
    match &advice.rebuild {
        Some(rebuild) if what.is_empty() => format!("rebuild {rebuild}"),
        Some(rebuild) => format!("rebuild {rebuild}, {what}"),
        None => what,
    }
}

/// What exactly was run.
pub(crate) fn notes(advice: &Advice) -> Vec<String> {
    let mut notes = Vec::new();
    for remedy in &advice.remedies {
        notes.extend(remedy.not_run.as_ref().map(|reason| format!("{}: not run: {reason}", remedy.change)));
    }
    let (demand, engine) = (&advice.demand, &advice.engine);
    let mut how =
        if advice.is_open() { "at their own times".to_string() } else { format!("{} outstanding", engine.depth) };
    if engine.think.0 > 0 {
        how += &format!(", each answered {} before the next is sent", format::nanos(engine.think.0));
    }
    notes.push(format!(
        "Simulated: {} under {}, {}, seed {}, smrkit {}.",
        words::system(advice),
        advice.system.layer,
        match advice.judged().own.full_after_s {
            Some(_) => "begun when the load had filled its cache".into(),
            None => advice.state.words(),
        },
        advice.seed,
        advice.version
    ));
    notes.push(format!(
        "{}: {} requests, {} read, {} written, {how}.",
        asked(advice),
        format::count(demand.requests),
        format::bytes(demand.read_bytes as f64),
        format::bytes(demand.written_bytes as f64),
    ));
    if let Some(workload) = advice.demand.replayed.workload.as_ref().filter(|_| advice.asked_use.is_some()) {
        let how = if advice.is_open() { "--arrival trace".into() } else { format!("--depth {}", engine.depth) };
        notes.push(format!("To change it and ask again: {how} --workload '{workload}'"));
        if advice.need.buffers.iter().any(Option::is_some) {
            notes.push("A workload has no buffer: without --keep it is compared with CMR disks.".into());
        }
    }
    notes
}
