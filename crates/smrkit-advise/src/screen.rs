//! The answer on the terminal, and as a page: sentences, actions, the system under each load, what was tried.

use smrkit_report::format::{self, NONE, printable, rate, wrapped};
use smrkit_report::{Grid, Section};

use crate::LoadKind;
use crate::advice::{Advice, Present, Remedy};
use crate::changes::ChangeKind;
use crate::comparison::{Comparison, Trajectory};
use crate::words;

/// The mark of the best change.
const BEST: &str = " <- best";

/// Codes of a terminal.
const BOLD: &str = "1";
const GREEN: &str = "1;32";

/// How the answer is shown on a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// Columns.
    pub width: usize,
    /// True if the answer and the best change stand out in colour.
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
    let Screen { width, is_coloured, details } = screen;
    let painted = |text: String, code: &str| if is_coloured { format!("\x1b[{code}m{text}\x1b[0m") } else { text };
    let mut lines: Vec<String> = advice.text.lines().map(|line| wrapped("", &printable(line), width)).collect();
    if let Some(first) = lines.first_mut() {
        *first = first.lines().map(|line| painted(line.into(), BOLD)).collect::<Vec<_>>().join("\n");
    }
    let mut out = lines.join("\n") + "\n\n";
    for (nth, action) in (1..).zip(&advice.actions) {
        let mark = format!("{nth}. ");
        out += &format!("{}\n", wrapped(&mark, &format!("{}. Costs: {}.", action.what, action.cost), width));
        out += &action.command.as_ref().map_or(String::new(), |command| format!("   $ {command}\n"));
    }
    if !advice.actions.is_empty() {
        out.push('\n');
    }
    if advice.rebuild.is_none() && advice.present.len() > 1 {
        out += &format!("{}\n\n", present(advice).text_within(width));
    }
    let grid = tried(advice, details);
    if grid.rows.len() > 1 {
        for line in grid.text_within(width).lines() {
            let line = if line.contains(BEST) { painted(line.into(), GREEN) } else { line.to_string() };
            out += &format!("{line}\n");
        }
        out.push('\n');
    }
    for line in notes(advice, details) {
        out += &format!("{}\n", wrapped("", &printable(&line), width));
    }
    out
}

/// One page of it that opens offline.
pub fn page(advice: &Advice) -> String {
    let sentences = advice.text.lines().map(str::to_string).collect();
    let answer = Section { heading: "The answer".into(), text: sentences, ..Section::default() };
    let mut actions = Grid::new(["what an owner can do", "what it costs", "command"]);
    for action in &advice.actions {
        let command = action.command.clone().unwrap_or_else(|| NONE.into());
        actions.rows.push(vec![action.what.clone(), action.cost.clone(), command]);
    }
    let mut sections = vec![answer];
    if !actions.rows.is_empty() {
        sections.push(Section::of_table("What to do", actions));
    }
    sections.push(Section::of_table("As it is, compared with CMR disks", present(advice)));
    if !advice.remedies.is_empty() {
        sections.push(Section::of_table("What was tried", marked(tried(advice, true))));
    }
    sections.push(Section { heading: "What was run".into(), text: notes(advice, true), ..Section::default() });
    smrkit_report::page(&format!("{} on {}", asked(advice), system(advice)), &sections)
}

/// The table of a page, which marks the best change itself and names each column.
fn marked(mut grid: Grid) -> Grid {
    if let Some(last) = grid.header.last_mut() {
        *last = "effect".into();
    }
    for (at, row) in grid.rows.iter_mut().enumerate() {
        if let Some(effect) = row.last_mut()
            && let Some(text) = effect.strip_suffix(BEST)
        {
            *effect = text.into();
            grid.best.push(at);
        }
    }
    grid
}

/// Text on the disks that a run drops: the shortest timeout that would drop one; of an array, how many.
fn dropped(run: &Trajectory) -> String {
    let of = |count: u64| if run.disks > 1 { format!("{count}: ") } else { String::new() };
    match (run.dropped_7s, run.dropped_30s) {
        (0, _) => "no".into(),
        (count, 0) => format!("{}7 s", of(count)),
        (_, count) => format!("{}30 s", of(count)),
    }
}

/// The figure by which runs are told apart, and its name.
fn figure(advice: &Advice, run: &Trajectory) -> String {
    match (advice.rebuild_s(run), advice.is_open()) {
        (Some(seconds), _) => format::seconds(seconds),
        (None, true) => format::nanos(run.mean_ns),
        (None, false) => rate(run.lasting_bytes_per_s()),
    }
}

fn figure_name(advice: &Advice) -> &'static str {
    match (advice.rebuild.is_some(), advice.is_open()) {
        (true, _) => "time",
        (false, true) => "mean",
        (false, false) => "rate then",
    }
}

/// The longest wait of a host's request; of a rebuild, the longest command.
fn longest(advice: &Advice, run: &Trajectory) -> String {
    format::nanos(if advice.rebuild.is_some() { run.longest_command_ns } else { run.longest_stall_ns })
}

/// The system as it is under each load, next to conventional disks.
fn present(advice: &Advice) -> Grid {
    let name = figure_name(advice);
    let cmr = format!("CMR {name}");
    let mut grid = Grid::new([
        if advice.rebuild.is_some() { "use" } else { "depth" },
        "first wait",
        name,
        &cmr,
        "longest",
        "CMR longest",
        "dropped",
    ]);
    for one in &advice.present {
        grid.rows.push(vec![
            load_name(advice, one),
            one.own.cache_full_at_s.map_or(NONE.into(), format::seconds),
            figure(advice, &one.own),
            figure(advice, &one.conventional),
            longest(advice, &one.own),
            longest(advice, &one.conventional),
            dropped(&one.own),
        ]);
    }
    grid
}

fn load_name(advice: &Advice, present: &Present) -> String {
    match present.load {
        LoadKind::Unused => "unused".into(),
        LoadKind::Light => "light use".into(),
        LoadKind::Asked if advice.is_open() => "own times".into(),
        LoadKind::Asked => format!("{}{}", if advice.rebuild.is_some() { "depth " } else { "" }, present.depth),
    }
}

/// Table of what was tried. All multiples are of conventional disks under the load as it is.
fn tried(advice: &Advice, details: bool) -> Grid {
    let hardest = advice.judged();
    let head = match hardest.load {
        LoadKind::Light => "while unused".to_string(),
        LoadKind::Unused => "alone".into(),
        LoadKind::Asked if advice.is_open() => "at its own times".into(),
        LoadKind::Asked => format!("at depth {}", hardest.depth),
    };
    let mut grid = Grid::new([head.as_str(), figure_name(advice), "× CMR", "longest", "dropped", ""]);
    let (own, against) = &advice.compared;
    grid.rows.push(row(advice, "as it is".into(), own, Some(against), String::new()));
    let best = advice.best();
    for (at, remedy) in advice.remedies.iter().enumerate().filter(|(_, remedy)| details || is_shown(remedy)) {
        let mark = if best == Some(at) { BEST } else { "" };
        let effect = format!("{}{mark}", words::effect(advice.problems.any(), remedy));
        grid.rows.push(match (&remedy.trajectory, &remedy.against) {
            (Some(run), against) => {
                // With pauses the load is another one.
                let against = against.as_ref().filter(|_| remedy.kind != ChangeKind::Idle);
                row(advice, name(remedy), run, against, effect)
            }
            _ => [vec![name(remedy)], vec![NONE.to_string(); 4], vec![effect]].concat(),
        });
    }
    grid
}

/// True of what can be changed, and was run.
fn is_shown(remedy: &Remedy) -> bool {
    remedy.kind != ChangeKind::Range && remedy.trajectory.is_some()
}

fn row(advice: &Advice, name: String, run: &Trajectory, against: Option<&Comparison>, effect: String) -> Vec<String> {
    let times = format::times(against.map(|against| advice.times(against)));
    vec![name, figure(advice, run), times, longest(advice, run), dropped(run), effect]
}

/// Pauses are named with what they leave the disk to rest, and ends of a range as such.
fn name(remedy: &Remedy) -> String {
    match &remedy.trajectory {
        Some(run) if remedy.kind == ChangeKind::Idle => {
            format!("{}, {} idle", remedy.change, format::percent(run.idle_share, 1.0))
        }
        _ if remedy.kind == ChangeKind::Range => format!("drive at {}", remedy.change),
        _ => remedy.change.clone(),
    }
}

/// The trace, the workload or the sources that were asked for, and the rebuild.
fn asked(advice: &Advice) -> String {
    let replayed = &advice.demand.replayed;
    let sources = || {
        let all = replayed.sources.iter().flatten();
        let names: Vec<String> = all.filter_map(|source| source.trace.clone().or(source.workload.clone())).collect();
        names.join(" & ")
    };
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

/// The drive or the array.
fn system(advice: &Advice) -> String {
    let system = &advice.system;
    match &system.array {
        Some(array) => format!("{array} of {}", system.drive),
        None => system.drive.clone(),
    }
}

/// Lines below the tables.
fn notes(advice: &Advice, details: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(first) = advice.first_requests.filter(|_| !advice.remedies.is_empty()) {
        let all = format::count(advice.demand.requests);
        notes.push(format!("The table is for the first {} of {all} requests.", format::count(first)));
    }
    for remedy in advice.remedies.iter().filter(|_| details) {
        notes.extend(remedy.not_run.as_ref().map(|reason| format!("{}: not run: {reason}", name(remedy))));
    }
    let (demand, engine) = (&advice.demand, &advice.engine);
    let mut simulated =
        format!("Simulated: {} under {}, {}", system(advice), advice.system.layer, advice.state.words());
    if details {
        let mut how = if advice.is_open() { "at the trace's times".to_string() } else { "flat out".into() };
        if engine.think.0 > 0 {
            how += &format!(", think time {}", format::nanos(engine.think.0));
        }
        notes.push(format!("{simulated}, seed {}, smrkit {}.", advice.seed, advice.version));
        notes.push(format!(
            "{}: {} requests, {} read, {} written, {how}, order {}.",
            asked(advice),
            format::count(demand.requests),
            format::bytes(demand.read_bytes as f64),
            format::bytes(demand.written_bytes as f64),
            engine.queue.name()
        ));
        notes.push("Each row is a run. docs/reference/advise.md says what is assumed.".into());
    } else {
        simulated += &format!(", {}.", asked(advice));
        notes.push(simulated);
        let hidden = advice.remedies.iter().filter(|remedy| !is_shown(remedy)).count();
        if hidden > 0 {
            notes.push(
                "--details shows the drive at both ends of what is known of it, and what could not be run.".into(),
            );
        }
    }
    notes
}
