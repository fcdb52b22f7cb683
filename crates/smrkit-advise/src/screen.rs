//! The answer on the terminal: sentences, the system at each depth, what was tried. It fits into 80 columns.

use smrkit::stats::comparison::{Comparison, Effect, Multiples, Trajectory};

use super::advice::{Advice, Remedy};
use super::changes;
use super::rebuild;
use super::remedies::ChangeKind;
use smrkit_report::format::{self, NONE, printable, rate, wrapped};
use smrkit_report::{Grid, Section};

/// Columns of sentences and tables.
const WIDTH: usize = 80;

/// The mark of the best change.
const BEST: &str = " <- best";

/// Codes of a terminal.
const BOLD: &str = "1";
const GREEN: &str = "1;32";

/// All of it; `is_coloured` lets the answer and the best change stand out.
pub fn text(advice: &Advice, is_coloured: bool) -> String {
    let painted = |text: String, code: &str| if is_coloured { format!("\x1b[{code}m{text}\x1b[0m") } else { text };
    let answer = wrapped("", &printable(&advice.text), WIDTH);
    let (first, rest) = answer.split_once('\n').unwrap_or((&answer, ""));
    let mut out = format!("{}\n{rest}\n\n", painted(first.into(), BOLD));
    for (nth, action) in (1..).zip(&advice.actions) {
        let mark = format!("{nth}. ");
        out += &format!("{}\n", wrapped(&mark, &action.what, WIDTH));
        out += &action.command.as_ref().map_or(String::new(), |command| format!("   $ {command}\n"));
    }
    if !advice.actions.is_empty() {
        out.push('\n');
    }
    if advice.demand.requests > 0 {
        out += &format!("{}\n\n", present(advice).text_within(WIDTH));
    }
    for line in tried(advice).text_within(WIDTH).lines() {
        let line = if line.contains(BEST) { painted(line.into(), GREEN) } else { line.to_string() };
        out += &format!("{line}\n");
    }
    out.push('\n');
    for remedy in &advice.remedies {
        if let Some(reason) = &remedy.not_run {
            out += &format!("{}\n", wrapped("", &printable(&format!("{}: not run: {reason}", remedy.change)), WIDTH));
        }
    }
    if let Some(first) = advice.remedies.iter().find_map(|remedy| remedy.first_requests) {
        let (first, all) = (format::count(first), format::count(advice.demand.requests));
        out += &format!("* seen over the first {first} of {all} requests\n");
    }
    for line in about(advice) {
        out += &format!("{}\n", wrapped("", &printable(&line), WIDTH));
    }
    out
}

/// One page of it that opens offline.
pub fn page(advice: &Advice) -> String {
    let answer = Section { heading: "The answer".into(), text: vec![advice.text.clone()], ..Section::default() };
    let mut actions = Grid::new(["what an owner can do", "command"]);
    for action in &advice.actions {
        actions.rows.push(vec![action.what.clone(), action.command.clone().unwrap_or_else(|| NONE.into())]);
    }
    let mut sections = vec![answer];
    if !actions.rows.is_empty() {
        sections.push(Section::of_table("What to do", actions));
    }
    if advice.demand.requests > 0 {
        sections.push(Section::of_table("As it is, compared with conventional disks", present(advice)));
    }
    sections.push(Section::of_table("What was tried", marked(tried(advice))));
    sections.push(Section { heading: "What was run".into(), text: about(advice), ..Section::default() });
    smrkit_report::page(&format!("smrkit advise: {}", asked(advice)), &sections)
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
fn dropped(course: &Trajectory) -> String {
    let of = |count: u64| if course.disks > 1 { format!("{count}: ") } else { String::new() };
    match (course.dropped_7s, course.dropped_30s) {
        (0, _) => "no".into(),
        (count, 0) => format!("{}7 s", of(count)),
        (_, count) => format!("{}30 s", of(count)),
    }
}

/// A run compared with conventional disks: the time (by the trace's times the mean latency), and p99.
fn multiples(advice: &Advice, against: &Multiples) -> [String; 2] {
    let pace = if advice.is_open() { Some(against.mean) } else { against.elapsed.or(Some(against.mean)) };
    [format::times(pace), format::times(Some(against.p99))]
}

/// The time of a run compared with conventional disks, and its longest wait; with a rebuild its time and the longest command.
fn figures(advice: &Advice, course: &Trajectory, against: &Comparison) -> [String; 3] {
    match &course.rebuild {
        Some(rebuilt) => [
            format::seconds(rebuild::time_s(rebuilt, advice.whole_disk_bytes)),
            format::times(against.rebuild),
            format::nanos(course.longest_command_ns),
        ],
        None => {
            let [times, p99] = multiples(advice, &against.whole);
            [times, p99, format::nanos(course.longest_stall_ns)]
        }
    }
}

/// The headings of the multiples.
fn headings(advice: &Advice) -> [&'static str; 2] {
    if advice.is_open() { ["mean ×", "p99 ×"] } else { ["time ×", "p99 ×"] }
}

/// The system as it is at each depth, compared with conventional disks.
fn present(advice: &Advice) -> Grid {
    let [times, p99] = headings(advice);
    let pace = if advice.is_open() { "mean" } else { "rate then" };
    let mut grid = Grid::new(["depth", "first wait", pace, "longest", "usual", times, p99, "dropped"]);
    for present in &advice.present {
        let own = &present.own;
        let depth = if advice.names_depths() { present.depth.to_string() } else { "any".into() };
        let first_wait = own.cache_full_at_s.map_or(NONE.into(), format::seconds);
        let pace = match advice.is_open() {
            true => format::nanos(own.mean_ns),
            false => rate(own.lasting_bytes_per_s()),
        };
        let usual = format::nanos(present.conventional.longest_stall_ns);
        let [times, p99] = multiples(advice, &present.against.whole);
        grid.rows.push(vec![
            depth,
            first_wait,
            pace,
            format::nanos(own.longest_stall_ns),
            usual,
            times,
            p99,
            dropped(own),
        ]);
    }
    grid
}

/// Table of the changes that were tried, at the deepest depth.
fn tried(advice: &Advice) -> Grid {
    let head = match advice.present.last() {
        _ if advice.demand.requests == 0 => "alone".into(),
        Some(hardest) if advice.names_depths() => format!("at depth {}", hardest.depth),
        _ => "at its own times".into(),
    };
    let [times, p99] = if advice.rebuild.is_some() { ["rebuild", "time ×"] } else { headings(advice) };
    let mut grid = Grid::new([head.as_str(), times, p99, "longest", "dropped", ""]);
    if let Some(hardest) = advice.present.last() {
        let mut row = vec!["as it is".to_string()];
        row.extend(figures(advice, &hardest.own, &hardest.against));
        row.extend([dropped(&hardest.own), String::new()]);
        grid.rows.push(row);
    }
    let best = best(advice);
    for (at, remedy) in advice.remedies.iter().enumerate() {
        let mut row = vec![name(remedy)];
        match (&remedy.trajectory, &remedy.against) {
            (Some(course), Some(against)) => {
                row.extend(figures(advice, course, against));
                row.push(dropped(course));
            }
            _ => row.extend(vec![NONE.to_string(); 4]),
        }
        let part = if remedy.first_requests.is_some() { " *" } else { "" };
        let mark = if best == Some(at) { BEST } else { "" };
        row.push(format!("{}{part}{mark}", effect(advice.problems.any(), remedy)));
        grid.rows.push(row);
    }
    grid
}

/// The change that does most: of those that fix it, or else help, the one that comes closest to conventional disks.
fn best(advice: &Advice) -> Option<usize> {
    let changes = advice.remedies.iter().enumerate().filter(|(_, remedy)| remedy.kind != ChangeKind::Range);
    let ranked = changes.filter_map(|(at, remedy)| {
        let worst = remedy.against.as_ref()?.worst();
        Some((remedy.rank()?, remedy.kind == ChangeKind::Idle, worst, at))
    });
    let order = |one: &(u8, bool, f64, usize), other: &(u8, bool, f64, usize)| {
        (one.0, one.1).cmp(&(other.0, other.1)).then(one.2.total_cmp(&other.2))
    };
    ranked.min_by(order).map(|(.., at)| at)
}

/// Pauses are named with what they leave the disk to rest.
fn name(remedy: &Remedy) -> String {
    match &remedy.trajectory {
        Some(course) if remedy.kind == ChangeKind::Idle => {
            format!("{}, {} idle", remedy.change, format::percent(course.idle_share, 1.0))
        }
        _ => remedy.change.clone(),
    }
}

fn effect(is_problem: bool, remedy: &Remedy) -> &'static str {
    match remedy.effect {
        None => "not run",
        Some(effect) if remedy.kind == ChangeKind::Range => changes::at_an_end(effect),
        Some(Effect::Fixes | Effect::FixesSoFar) if remedy.kind == ChangeKind::Idle => "keeps up",
        Some(Effect::Fixes) => "fixes it",
        Some(Effect::FixesSoFar) => "fixes it so far",
        Some(Effect::Helps) if is_problem => "helps",
        Some(Effect::Helps) => "better",
        Some(Effect::Mixed) => "mixed",
        Some(Effect::None) if is_problem => "does not help",
        Some(Effect::None) => "no difference",
        Some(Effect::Worsens) => "worse",
    }
}

/// The trace, the workload or the sources that were asked for; the rebuild where there is none.
fn asked(advice: &Advice) -> String {
    let replayed = &advice.demand.replayed;
    let sources = || {
        let all = replayed.sources.iter().flatten();
        let names: Vec<String> = all.filter_map(|source| source.trace.clone().or(source.workload.clone())).collect();
        names.join(" & ")
    };
    let what = replayed.trace.clone().or_else(|| replayed.workload.clone()).unwrap_or_else(sources);
    match &advice.rebuild {
        Some(rebuild) if what.is_empty() => format!("rebuild {rebuild}"),
        Some(rebuild) => format!("{what}, rebuild {rebuild}"),
        None => what,
    }
}

/// Lines on what was run.
fn about(advice: &Advice) -> Vec<String> {
    let (system, demand, engine) = (&advice.system, &advice.demand, &advice.engine);
    let array = system.array.as_ref().map_or(String::new(), |array| format!(", {array}"));
    let mut how = match advice.is_open() {
        true => "at the trace's times".to_string(),
        false => "flat out".to_string(),
    };
    if engine.think.0 > 0 {
        how += &format!(", think time {}", format::nanos(engine.think.0));
    }
    how += &format!(", order {}", engine.queue.name());
    how += &format!(", {}", advice.state.words());
    vec![
        format!(
            "{}: {} requests, {} read, {} written, {how}",
            asked(advice),
            format::count(demand.requests),
            format::bytes(demand.read_bytes as f64),
            format::bytes(demand.written_bytes as f64)
        ),
        format!("on {} under {}{array}, seed {}, smrkit {}", system.drive, system.layer, advice.seed, advice.version),
        "Each line is a run. Rates and timeouts are those of the model: docs/reference/advise.md says what is assumed."
            .into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::changes::tests::pause;
    use super::*;

    #[test]
    fn each_effect_has_its_word_for_each_kind_of_change() {
        use Effect::{Fixes, FixesSoFar, Helps, Mixed, Worsens};
        let words = |kind, is_problem| {
            let effects = [Fixes, FixesSoFar, Helps, Mixed, Effect::None, Worsens].map(Some);
            let word = |shown| effect(is_problem, &Remedy { kind, ..pause(shown) });
            assert_eq!(word(None), "not run");
            effects.map(word)
        };
        let at_an_end = ["better", "better", "better", "mixed", "the same", "worse"];
        assert_eq!([true, false].map(|is_problem| words(ChangeKind::Range, is_problem)), [at_an_end; 2]);
        assert_eq!(words(ChangeKind::Idle, true), ["keeps up", "keeps up", "helps", "mixed", "does not help", "worse"]);
        assert_eq!(
            words(ChangeKind::Layer, true),
            ["fixes it", "fixes it so far", "helps", "mixed", "does not help", "worse"]
        );
        assert_eq!(
            words(ChangeKind::Layer, false),
            ["fixes it", "fixes it so far", "better", "mixed", "no difference", "worse"]
        );
    }
}
