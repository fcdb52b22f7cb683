//! The answer on the terminal: sentences, the system at each depth, what was tried. It fits into 100 columns.

use smrkit::stats::remedy::{Course, Effect};

use super::advice::{Advice, Remedy};
use super::remedies::Kind;
use smrkit_report::Grid;
use smrkit_report::format::{self, NONE, printable, rate, wrapped};

/// Columns of the sentences.
const WIDTH: usize = 96;

/// All of it.
pub fn text(advice: &Advice) -> String {
    let mut out = format!("{}\n\n", wrapped("", &printable(&advice.text), WIDTH));
    out += &format!("{}\n\n{}\n\n", present(advice).text(), tried(advice).text());
    for remedy in &advice.remedies {
        if let Some(reason) = &remedy.not_run {
            out += &format!("{}\n", wrapped("", &printable(&format!("{}: not run: {reason}", remedy.change)), WIDTH));
        }
    }
    if let Some(first) = advice.remedies.iter().find_map(|remedy| remedy.first_requests) {
        out += &format!("* over the first {} requests, which showed enough\n", format::count(first));
    }
    for line in about(advice) {
        out += &format!("{}\n", wrapped("", &printable(&line), WIDTH));
    }
    out
}

/// What is told of a run: when the cache is full, what remains, the longest wait, who is dropped.
fn cells(advice: &Advice, course: &Course) -> Vec<String> {
    let dropped = |count: u64| match (count, course.disks) {
        (0, _) => "no".to_string(),
        (_, 1) => "dropped".to_string(),
        (count, disks) => format!("{count} of {disks}"),
    };
    let pace = match advice.is_open() {
        true => format::nanos(course.mean_ns),
        false => rate(course.lasting_bytes_per_s()),
    };
    vec![
        course.cache_full_at_s.map_or(NONE.into(), format::seconds),
        pace,
        format::nanos(course.longest_stall_ns),
        dropped(course.dropped_7s),
        dropped(course.dropped_30s),
    ]
}

/// The heading of the pace: the rate that remains, or the mean wait.
fn pace(advice: &Advice) -> &'static str {
    if advice.is_open() { "mean wait" } else { "rate then" }
}

/// The system as it is at each depth, and conventional disks.
fn present(advice: &Advice) -> Grid {
    let mut grid =
        Grid::new(["depth", "cache full", pace(advice), "longest", "7 s", "30 s", "conventional", "longest"]);
    for present in &advice.present {
        let usual = &present.conventional;
        let depth = if advice.is_open() { "any".into() } else { present.depth.to_string() };
        let mut row = vec![depth];
        row.extend(cells(advice, &present.own));
        row.extend([cells(advice, usual).swap_remove(1), format::nanos(usual.longest_stall_ns)]);
        grid.rows.push(row);
    }
    grid
}

/// What was tried, at the deepest depth.
fn tried(advice: &Advice) -> Grid {
    let head = match advice.present.last() {
        Some(hardest) if !advice.is_open() => format!("at depth {}", hardest.depth),
        _ => "at its own times".into(),
    };
    let mut grid = Grid::new([head.as_str(), "cache full", pace(advice), "longest", "7 s", "30 s", ""]);
    if let Some(hardest) = advice.present.last() {
        let mut row = vec!["as it is".to_string()];
        row.extend(cells(advice, &hardest.own));
        row.push(String::new());
        grid.rows.push(row);
    }
    for remedy in &advice.remedies {
        let mut row = vec![name(remedy)];
        match &remedy.course {
            Some(course) => row.extend(cells(advice, course)),
            None => row.extend(vec![NONE.to_string(); 5]),
        }
        row.push(format!("{}{}", effect(advice, remedy), if remedy.first_requests.is_some() { " *" } else { "" }));
        grid.rows.push(row);
    }
    grid
}

/// Pauses are named with what they leave the disk to rest.
fn name(remedy: &Remedy) -> String {
    match &remedy.course {
        Some(course) if remedy.kind == Kind::Idle => {
            format!("{} ({} idle)", remedy.change, format::percent(course.idle_share, 1.0))
        }
        _ => remedy.change.clone(),
    }
}

fn effect(advice: &Advice, remedy: &Remedy) -> &'static str {
    match remedy.effect {
        None => "not run",
        Some(Effect::Fixes | Effect::FixesSoFar) if remedy.kind == Kind::Idle => "keeps up",
        Some(Effect::Fixes) => "fixes it",
        Some(Effect::FixesSoFar) => "fixes it so far",
        Some(Effect::Helps) if advice.problems.any() => "helps",
        Some(Effect::Helps) => "better",
        Some(Effect::Mixed) => "helps and harms",
        Some(Effect::None) if advice.problems.any() => "does not help",
        Some(Effect::None) => "no difference",
        Some(Effect::Worsens) => "makes it worse",
    }
}

/// What was run, in a few lines.
fn about(advice: &Advice) -> Vec<String> {
    let (system, demand, engine) = (&advice.system, &advice.demand, &advice.engine);
    let what = demand.replayed.trace.clone().or_else(|| demand.replayed.workload.clone());
    let sources = || {
        let all = demand.replayed.sources.iter().flatten();
        let names: Vec<String> = all.filter_map(|source| source.trace.clone().or(source.workload.clone())).collect();
        names.join(" & ")
    };
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
            what.unwrap_or_else(sources),
            format::count(demand.requests),
            format::bytes(demand.read_bytes as f64),
            format::bytes(demand.written_bytes as f64)
        ),
        format!("on {} under {}{array}, seed {}, smrkit {}", system.drive, system.layer, advice.seed, advice.version),
        "Each line is a run. Rates and timeouts are those of the model: docs/reference/advise.md says what is assumed."
            .into(),
    ]
}
