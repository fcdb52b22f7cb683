//! The comparison for a terminal: verdicts, then tables with a row for each run, then the settings.
//!
//! The grids are plain text, so that the HTML page can show the same ones. A value that does not exist is `-`.

use std::collections::BTreeSet;

use smrkit::layer::BASELINE;
use smrkit::settings::{Arrival, Warmup};
use smrkit::stats::measured::{Explanation, MEASURED, Measured, PAUSES_MAX, Pause};
use smrkit::stats::outcome::{
    Causes, Confidence, InFlight, Interval, MergedSource, Movement, Outcome, PowerCut, Steady, Unknown,
};
use smrkit::stats::verdict::Told;
use smrkit::tally::Cause;
use smrkit::units::{Nanos, SECTOR_BYTES};

use crate::format::{self, NONE};
use crate::grid::{Column, Grid};
use crate::label::{beside, distinct, named, names, scalar};
use crate::members::{members, some_latency};
use crate::rebuild::rebuilds;

/// The terminal that a text is for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terminal {
    /// Columns; `None` if lines may have any length, as in a file.
    pub columns: Option<usize>,
    /// True if the best run is coloured.
    pub coloured: bool,
}

impl Terminal {
    /// A paragraph that begins with `mark`; its other lines are indented by the same width.
    fn lines(self, mark: &str, text: &str) -> String {
        let text = format::printable(text);
        match self.columns {
            Some(columns) => format!("{}\n", format::wrapped(mark, &text, columns)),
            None => format!("{mark}{text}\n"),
        }
    }

    fn grid(self, grid: &Grid) -> String {
        let columns = self.columns.unwrap_or(format::WIDTH);
        let parts = if self.columns.is_some() { grid.stacked(columns) } else { vec![grid.clone()] };
        let texts =
            parts.iter().map(|part| if self.coloured { part.painted(columns) } else { part.text_within(columns) });
        texts.map(|text| text + "\n\n").collect()
    }
}

/// Everything that `smrkit run` prints about its results.
pub fn text(runs: &[Outcome]) -> String {
    text_for(runs, None, Terminal::default())
}

/// [`text`], laid out for a terminal.
pub fn text_for(runs: &[Outcome], measured: Option<&Measured>, terminal: Terminal) -> String {
    if runs.is_empty() {
        return "No run was made.\n".into();
    }
    let mut out = String::new();
    for line in verdicts(runs).into_iter().chain(power_cuts(runs)).chain(pauses_told(runs, measured)) {
        out += &terminal.lines("", &line);
    }
    out += &format!("\n{}{}", terminal.grid(&speed(&beside(runs, measured))), terminal.grid(&cost(runs)));
    for (_, grid) in optional(runs) {
        out += &terminal.grid(&grid);
    }
    let facts = about(runs);
    let width = facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in facts {
        out += &terminal.lines(&format!("{name:width$}  "), &value);
    }
    out
}

/// The plain answers, one line a run, beginning with the run's name.
pub fn verdicts(runs: &[Outcome]) -> Vec<String> {
    let line = |(name, run): (String, &Outcome)| format!("{name}: {}", run.verdict.text);
    named(runs).map(line).collect()
}

/// The verdict on each run as a row; empty columns are left out.
pub fn verdict_table(runs: &[Outcome]) -> Grid {
    let verdicts: Vec<Told> = runs.iter().map(Told::of).collect();
    let columns: [Column<Told>; 4] = [
        ("what happens", |verdict| verdict.course.clone()),
        ("compared with a CMR disk", |verdict| verdict.compared.clone()),
        ("longest request", |verdict| verdict.longest.clone()),
        ("besides", |verdict| format!("{} {}", verdict.state, verdict.more).trim().into()),
    ];
    let has_text = |cell: fn(&Told) -> String| verdicts.iter().any(|verdict| !cell(verdict).is_empty());
    let columns: Vec<_> = columns.into_iter().filter(|(_, cell)| has_text(*cell)).collect();
    by_run(runs, &verdicts, &columns)
}

/// The fate of the host's data in a power cut: a line for each run that was asked to have one.
pub fn power_cuts(runs: &[Outcome]) -> Vec<String> {
    let line = |(name, run): (String, &Outcome)| {
        let asked = run.engine.power_cut?;
        let result = run.power_cut.as_ref().map_or_else(
            || format!("the run ended before physical write {}, so the power was not cut", format::count(asked)),
            power_cut,
        );
        Some(format!("{name}: {result}"))
    };
    named(runs).filter_map(line).collect()
}

fn power_cut(cut: &PowerCut) -> String {
    let lost = match cut.lost.first() {
        None => "nothing that was acknowledged is lost".into(),
        Some((lba, _)) => format!(
            "{} acknowledged sectors are lost, from LBA {lba} on ({} destroyed, {} show an older write)",
            format::count(cut.lost_sectors),
            format::count(cut.destroyed_sectors),
            format::count(cut.lost_sectors - cut.destroyed_sectors)
        ),
    };
    let in_flight = match cut.in_flight {
        InFlight::None => "no write was in flight",
        InFlight::Part => "the write in flight is there in part",
        InFlight::Whole => "the write in flight is whole",
        InFlight::Absent => "the write in flight is absent",
    };
    format!(
        "power cut at physical write {}, after {} requests: {lost}; {in_flight}",
        format::count(cut.write),
        format::count(cut.completed)
    )
}

/// Lines on the pauses of the measured drive, and on how many of them each run on a shingled drive explains.
pub fn pauses_told(runs: &[Outcome], measured: Option<&Measured>) -> Vec<String> {
    let Some(measured) = measured else { return Vec::new() };
    let Some(longest) = measured.pauses.iter().max_by_key(|pause| pause.longest_ns) else {
        return vec!["measured: no request of the trace took a second or more.".into()];
    };
    let pauses = measured.pauses.len();
    let often = match pauses {
        1 => "once".into(),
        PAUSES_MAX => format!("at least {} times", format::count(pauses as u64)),
        _ => format!("{} times", format::count(pauses as u64)),
    };
    let first = format!(
        "measured: the recorded drive kept requests waiting for a second or more {often}; the longest wait was {}, from {} on.",
        format::nanos(longest.longest_ns),
        format::seconds(longest.begin_ns as f64 / 1e9)
    );
    let line = |(number, name): (usize, String)| {
        let causes = [
            (Explanation::Shingling, "shingling (this drive pauses then, a conventional one does not)"),
            (Explanation::Load, "the load (a conventional drive would pause too)"),
            (Explanation::Neither, "something else, such as a bad sector, a link error or another program"),
        ];
        let count = |why| measured.pauses.iter().filter(|pause| pause.explanation(number) == why).count();
        let causes = causes.map(|(why, what)| (count(why), what)).into_iter().filter(|(count, _)| *count > 0);
        let parts = causes.enumerate().map(|(place, (count, what))| match (place, count) {
            (0, 1) => format!("1 is due to {what}"),
            (0, _) => format!("{} are due to {what}", format::count(count as u64)),
            _ => format!("{} to {what}", format::count(count as u64)),
        });
        format!(
            "measured, beside {name}: of {} {}.",
            format::counted(pauses as u64, "pause"),
            parts.collect::<Vec<_>>().join(", ")
        )
    };
    let shingled = names(runs).into_iter().enumerate().filter(|(number, _)| runs[*number].layer != BASELINE);
    std::iter::once(first).chain(shingled.map(line)).collect()
}

/// The longest pauses of the measured drive, with those of the simulated drives at the same times.
pub fn pause_table(runs: &[Outcome], measured: &Measured) -> Option<Grid> {
    let mut longest: Vec<&Pause> = measured.pauses.iter().collect();
    longest.sort_by_key(|pause| std::cmp::Reverse(pause.longest_ns));
    longest.truncate(PAUSES_SHOWN);
    let names = names(runs);
    let mut grid = Grid::new(["at", "measured"]);
    grid.header.extend(names.iter().cloned());
    let is_shingled = |number: &usize| runs[*number].layer != BASELINE;
    let shingled: Vec<usize> = (0..runs.len()).filter(is_shingled).collect();
    grid.header.extend(shingled.iter().map(|&number| match shingled.len() {
        1 => "explained by".to_string(),
        _ => format!("by {}", names[number]),
    }));
    for pause in longest {
        let mut row = vec![format::seconds(pause.begin_ns as f64 / 1e9), format::nanos(pause.longest_ns)];
        row.extend(pause.simulated_ns.iter().map(|&ns| format::nanos(ns)));
        row.extend(shingled.iter().map(|&number| match pause.explanation(number) {
            Explanation::Load => "the load".into(),
            Explanation::Shingling => "shingling".into(),
            Explanation::Neither => NONE.into(),
        }));
        grid.rows.push(row);
    }
    grid.unless_empty()
}

/// Pauses that a page lists.
const PAUSES_SHOWN: usize = 50;

/// The table of speed: time, rate, latency, stalls.
pub fn speed(runs: &[Outcome]) -> Grid {
    let columns: [Column<Outcome>; 11] = [
        ("elapsed", |run| format::nanos(run.elapsed_ns)),
        ("slowdown", |run| format::times(run.slowdown)),
        ("MB/s", rate),
        ("mean", |run| some_latency(run, run.latency_ns.all.mean)),
        ("mean ×", |run| latency_times(run, run.latency_ns.all.mean, run.verdict.baseline_mean_ns)),
        ("p99", |run| some_latency(run, run.latency_ns.all.p99)),
        ("p99 ×", |run| latency_times(run, run.latency_ns.all.p99, run.verdict.baseline_p99_ns)),
        ("max", |run| some_latency(run, run.latency_ns.all.max)),
        ("first wait", |run| run.verdict.cache_full_at_s.map_or(NONE.into(), format::seconds)),
        ("over 7 s", |run| format::count(run.verdict.stalls_over_7s)),
        ("over 30 s", |run| format::count(run.verdict.stalls_over_30s)),
    ];
    Grid { best: best(runs).into_iter().collect(), ..by_run(runs, runs, &columns) }
}

/// A latency as a multiple of the conventional disk's, if there is one to compare with.
fn latency_times(run: &Outcome, own_ns: u64, baseline_ns: Option<u64>) -> String {
    let compared = baseline_ns.filter(|_| run.latency_ns.all.count > 0 && run.layer != BASELINE);
    format::times(compared.and_then(|baseline_ns| quotient(own_ns, baseline_ns)))
}

/// A table with a row for each run: its name, and a cell for each column, from the run's facts.
fn by_run<T>(runs: &[Outcome], facts: &[T], columns: &[Column<T>]) -> Grid {
    let mut grid = Grid::new(["run"]);
    grid.header.extend(columns.iter().map(|(name, _)| name.to_string()));
    for (name, facts) in names(runs).into_iter().zip(facts) {
        grid.rows.push(std::iter::once(name).chain(columns.iter().map(|(_, cell)| cell(facts))).collect());
    }
    grid
}

/// The fastest run on a shingled disk: by mean latency if requests come at the trace's times, else by elapsed time. `None` if two are equal.
fn best(runs: &[Outcome]) -> Option<usize> {
    let is_shingled = |run: &Outcome| run.layer != BASELINE && run.layer != MEASURED;
    let shingled = runs.iter().enumerate().filter(|(_, run)| is_shingled(run) && run.requests > 0);
    let timed = |run: &Outcome| match run.engine.arrival {
        Arrival::Trace => run.latency_ns.all.mean,
        _ => run.elapsed_ns,
    };
    let mut times: Vec<(u64, usize)> = shingled.map(|(number, run)| (timed(run), number)).collect();
    times.sort_unstable();
    match times[..] {
        [(least, number), (second, _), ..] if least < second => Some(number),
        _ => None,
    }
}

/// The table of costs: amplification by cause, cleaning, capacity.
pub fn cost(runs: &[Outcome]) -> Grid {
    let columns: [Column<Outcome>; 9] = [
        ("amplification", |run| format::times(run.write_amplification)),
        ("= host", |run| written_share(run, run.physical_written_sectors.host)),
        ("+ destage", |run| written_share(run, run.physical_written_sectors.destage)),
        ("+ clean", |run| written_share(run, run.physical_written_sectors.clean)),
        ("+ map", |run| written_share(run, run.physical_written_sectors.map)),
        ("cleaning share", |run| format::percent(run.cleaning.ns as f64, run.busy_ns as f64)),
        ("longest", |run| if run.cleaning.count > 0 { format::nanos(run.cleaning.max_ns) } else { NONE.into() }),
        ("capacity lost", |run| {
            let lost = run.capacity.raw_sectors.saturating_sub(run.capacity.host_sectors);
            format::percent(lost as f64, run.capacity.raw_sectors as f64)
        }),
        ("maps", |run| format::bytes(run.map_bytes as f64)),
    ];
    by_run(runs, runs, &columns)
}

/// Sectors written for each sector that the host wrote. Empty for a rebuild, whose writes do not depend on the host's.
fn written_share(run: &Outcome, sectors: u64) -> String {
    format::ratio(run.write_amplification.and_then(|_| quotient(sectors, run.host_written_sectors)))
}

/// The table of 95 % confidence intervals by each run's own requests; `None` if no run has any.
pub fn certainty(runs: &[Outcome]) -> Option<Grid> {
    let header = ["run", "mean", "p50", "p95", "p99", "p99.9", "throughput", "amplification"];
    let mut grid = Grid::new(header);
    for (name, run) in named(runs) {
        let Some(Confidence { all, host_bytes_per_s, write_amplification, .. }) = &run.confidence else { continue };
        let mut row = vec![name];
        row.extend(
            [&all.mean, &all.p50, &all.p95, &all.p99, &all.p99_9].map(|of| ends(of, |ns| format::nanos(ns as u64))),
        );
        row.extend([
            ends(host_bytes_per_s, format::rate),
            ends(write_amplification, |ratio| format::times(Some(ratio))),
        ]);
        grid.rows.push(row);
    }
    grid.unless_empty()
}

/// The ends of an interval, or why they are not known.
fn ends(interval: &Interval, text: impl Fn(f64) -> String) -> String {
    match (interval.low.zip(interval.high), interval.unknown) {
        (Some((low, high)), _) => format!("{} to {}", text(low), text(high)),
        (None, Some(Unknown::TooFewRequests)) => "too few requests".into(),
        (None, Some(Unknown::TooCorrelated)) => "too correlated".into(),
        (None, None) => NONE.into(),
    }
}

/// The disks and the requests in a line.
pub fn headline(runs: &[Outcome]) -> String {
    let wanted = ["array", "drive", "trace", "workload", "sources", "requests", "arrival"];
    let facts = about(runs).into_iter().filter(|(name, _)| wanted.contains(&name.as_str()));
    facts.map(|(name, value)| format!("{}: {value}", format::capital(&name))).collect::<Vec<_>>().join(". ")
}

/// Names and values of the settings. If runs differ in a setting, all of its values are listed.
pub fn about(runs: &[Outcome]) -> Vec<(String, String)> {
    let mut facts: Vec<(String, String)> = Vec::new();
    let mut say = |name: &str, of: &dyn Fn(&Outcome) -> String| {
        let values = distinct(runs.iter().map(of).filter(|v| !v.is_empty())).join("; ");
        if !values.is_empty() {
            facts.push((name.into(), values));
        }
    };
    say("interrupted", &|r| {
        if r.interrupted { "yes: only what was served until then is counted".into() } else { String::new() }
    });
    say("drive", &|r| distinct(r.drives().iter().map(sized)).join(", "));
    say("array", &|r| r.array.clone().unwrap_or_default());
    say("rebuild", &|r| r.rebuild.as_ref().map(|rebuild| rebuild.spec.to_string()).unwrap_or_default());
    say("trace", &trace);
    say("workload", &|r| r.replayed.workload.clone().unwrap_or_default());
    say("sources", &sources);
    say("requests", &requests);
    say("arrival", &arrival);
    say("notes", &notes);
    facts.extend(parameters(runs));
    let seeds = distinct(runs.iter().map(|r| r.seed.to_string())).join(", ");
    let builds = distinct(runs.iter().map(|r| match &r.commit {
        Some(commit) => format!("smrkit {} ({commit})", r.version),
        None => format!("smrkit {}", r.version),
    }));
    facts.extend([("seed".into(), seeds), ("made by".into(), builds.join(", "))]);
    facts
}

/// The parameters of each layer; all values, with commas, if runs differ.
fn parameters(runs: &[Outcome]) -> Vec<(String, String)> {
    // The drives of a run have its parameters; the run itself has them if a summary left the members out.
    let drives = runs.iter().flat_map(|run| match run.members.iter().all(|member| member.parameters.is_empty()) {
        true => std::slice::from_ref(run),
        false => &run.members[..],
    });
    let runs: Vec<&Outcome> = drives.collect();
    let layers = distinct(runs.iter().filter(|r| !r.parameters.is_empty()).map(|r| r.layer.as_str()));
    let line = |layer: &str| {
        let alike: Vec<&Outcome> = runs.iter().copied().filter(|r| r.layer == layer).collect();
        let keys: BTreeSet<&String> = alike.iter().flat_map(|r| r.parameters.keys()).collect();
        let values = |key: &String| distinct(alike.iter().filter_map(|r| r.parameters.get(key)).map(scalar)).join(",");
        keys.iter().map(|key| format!("{key}={}", values(key))).collect::<Vec<_>>().join(" ")
    };
    layers.into_iter().map(|layer| (layer.to_string(), line(layer))).collect()
}

/// A drive's name, and how much its platters hold.
fn sized(drive: &Outcome) -> String {
    format!("{} ({})", drive.drive, format::sectors(drive.capacity.raw_sectors))
}

fn trace(run: &Outcome) -> String {
    let Some(path) = &run.replayed.trace else { return String::new() };
    let details =
        [run.replayed.trace_format.clone(), run.replayed.trace_sha256.as_ref().map(|sha| format!("sha256 {sha}"))];
    let details: Vec<String> = details.into_iter().flatten().collect();
    if details.is_empty() { path.clone() } else { format!("{path} ({})", details.join(", ")) }
}

/// Several merged sources, by number, and how they were merged.
fn sources(run: &Outcome) -> String {
    let (Some(sources), Some(rule)) = (&run.replayed.sources, &run.replayed.interleave) else { return String::new() };
    let name = |source: &MergedSource| source.trace.clone().or(source.workload.clone()).unwrap_or_default();
    format!("{} (interleave {rule})", sources.iter().map(name).collect::<Vec<_>>().join(" & "))
}

fn requests(run: &Outcome) -> String {
    let [read, written] = [run.host_read_sectors, run.host_written_sectors].map(format::sectors);
    format!("{} ({read} read, {written} written)", format::count(run.requests))
}

fn arrival(run: &Outcome) -> String {
    let engine = &run.engine;
    let mut words = match engine.arrival {
        Arrival::Trace => vec!["at the trace's times".to_string()],
        Arrival::Closed => vec!["after the trace's think times".to_string(), format!("queue depth {}", engine.depth)],
        Arrival::FlatOut => vec!["flat out".to_string(), format!("queue depth {}", engine.depth)],
    };
    if engine.arrival == Arrival::Trace && engine.time_scale != 1.0 {
        words.push(format!("stretched {}", format::times(Some(engine.time_scale))));
    }
    if engine.think > Nanos::ZERO {
        words.push(format!("think time {}", format::nanos(engine.think.0)));
    }
    words.push(format!("order {}", engine.queue.name()));
    words.push(run.state.words());
    words.extend(warmup(engine.warmup, run.state.steady));
    if engine.fold {
        words.push("addresses folded".into());
    }
    if engine.check {
        words.push("every read verified".into());
    }
    words.join(", ")
}

/// Text on the requests that were served before counting began, if any.
fn warmup(warmup: Warmup, steady: Option<Steady>) -> Option<String> {
    match (warmup, steady) {
        (Warmup::Requests(0), _) => None,
        (Warmup::Requests(requests), _) => Some(format!("warmed up by {} requests", format::count(requests))),
        (Warmup::UntilSteady, None) => Some("its cleaning never settled".into()),
        (Warmup::UntilSteady, Some(Steady { after_requests, after_ns })) => {
            let (requests, time) = (format::count(after_requests), format::nanos(after_ns));
            Some(format!("its cleaning settled after {requests} requests, {time}"))
        }
    }
}

fn notes(run: &Outcome) -> String {
    let rows = &run.replayed.trace_notes;
    let notes = [
        (rows.skipped_rows, "skipped as malformed"),
        (rows.unaligned_rows, "widened to whole sectors"),
        (rows.out_of_order_rows, "out of time order"),
    ];
    let found = notes.iter().filter(|(rows, _)| *rows > 0);
    found.map(|(rows, problem)| format!("{} {problem}", format::counted(*rows, "row"))).collect::<Vec<_>>().join(", ")
}

fn quotient(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn rate(run: &Outcome) -> String {
    let bytes = (run.host_read_sectors + run.host_written_sectors) * SECTOR_BYTES;
    // Bytes per microsecond are MB per second.
    format::ratio((run.elapsed_ns > 0).then(|| bytes as f64 * 1e3 / run.elapsed_ns as f64))
}

/// Headings and tables that only some runs need.
pub fn optional(runs: &[Outcome]) -> Vec<(&'static str, Grid)> {
    let grids = [
        ("Members", members(runs)),
        ("Rebuild", rebuilds(runs)),
        ("Sources", by_source(runs)),
        ("Movement", movement(runs)),
        ("Garbage collection", garbage_collection(runs)),
    ];
    grids.into_iter().filter_map(|(heading, grid)| Some((heading, grid?))).collect()
}

/// The requests and latency of each of several sources; `None` if no run had several.
fn by_source(runs: &[Outcome]) -> Option<Grid> {
    let header = ["run", "source", "requests", "read", "written", "mean", "p99", "max"];
    let mut grid = Grid::new(header);
    for (name, run) in named(runs) {
        for (number, counts) in run.by_source.iter().flatten().enumerate() {
            let source = run.replayed.sources.as_ref().and_then(|sources| sources.get(number));
            let source = source.and_then(|source| source.trace.as_deref().or(source.workload.as_deref()));
            let latency = |ns: u64| if counts.requests > 0 { format::nanos(ns) } else { NONE.into() };
            grid.rows.push(vec![
                name.clone(),
                format!("#{number} {}", format::printable(source.unwrap_or_default())),
                format::count(counts.requests),
                format::sectors(counts.host_read_sectors),
                format::sectors(counts.host_written_sectors),
                latency(counts.latency_ns.all.mean),
                latency(counts.latency_ns.all.p99),
                latency(counts.latency_ns.all.max),
            ]);
        }
    }
    grid.unless_empty()
}

/// Head movements from track to track, with a row for each cause; `None` if they were not asked for. Arrays always count them.
fn movement(runs: &[Outcome]) -> Option<Grid> {
    let mut grid = Grid::new(["run", "cause", "tracks crossed", "strokes", "movements", "bands moved"]);
    for (name, run) in named(runs) {
        let Some(movement) = run.movement.as_ref().filter(|_| run.engine.movement) else { continue };
        let causes = Cause::ALL.into_iter().map(|cause| (cause.name(), movement_cells(movement, Some(cause))));
        let moved: Vec<(&str, [String; 4])> =
            causes.filter(|(_, cells)| cells.iter().any(|cell| cell != "0")).collect();
        let all = (moved.len() != 1).then(|| ("all", movement_cells(movement, None)));
        for (cause, cells) in all.into_iter().chain(moved) {
            grid.rows.push([name.clone(), cause.into()].into_iter().chain(cells).collect());
        }
    }
    grid.unless_empty()
}

/// The movements of one cause, or of all.
fn movement_cells(movement: &Movement, cause: Option<Cause>) -> [String; 4] {
    fn part<T>(causes: &Causes<T>, cause: Option<Cause>) -> &T {
        cause.map_or(&causes.total, |cause| causes.of(cause))
    }
    [
        format::count(*part(&movement.track_distance, cause)),
        format::short(*part(&movement.stroke_share, cause)),
        format::count(*part(&movement.track_count, cause)),
        format::count(*part(&movement.bands_moved, cause)),
    ]
}

/// Cleaning in the terms of a file system on zones; `None` if there was none.
fn garbage_collection(runs: &[Outcome]) -> Option<Grid> {
    let mut grid = Grid::new(["run", "moved", "writers put to sleep", "ENOSPC", "garbage left"]);
    for (name, run) in named(runs) {
        let Some(collected) = run.garbage_collection.filter(|collected| *collected != Default::default()) else {
            continue;
        };
        let moved = format::sectors(collected.moved_sectors);
        let left = quotient(collected.enospc_garbage_sectors, collected.enospc);
        let left = left.map_or(NONE.into(), |sectors| format::bytes(sectors * SECTOR_BYTES as f64));
        let [slept, enospc] = [collected.writers_slept, collected.enospc].map(format::count);
        grid.rows.push(vec![name, moved, slept, enospc, left]);
    }
    grid.unless_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_cut_is_told_with_what_it_lost() {
        let cut = PowerCut { write: 40, completed: 39, in_flight: InFlight::Part, ..PowerCut::default() };
        let told = power_cut(&cut);
        assert!(told.starts_with("power cut at physical write 40, after 39 requests: nothing that was ack"));
        assert!(told.contains("the write in flight is there in part"), "{told}");
        let lost = power_cut(&PowerCut { lost_sectors: 9, destroyed_sectors: 4, lost: vec![(7, 9)], ..cut });
        let expected = "9 acknowledged sectors are lost, from LBA 7 on (4 destroyed, 5 show an older write)";
        assert!(lost.contains(expected), "{lost}");
    }

    #[test]
    fn arrivals_are_told_with_all_that_was_asked_for() {
        let of = |change: fn(&mut smrkit::settings::Settings)| {
            let mut run = crate::tests::example::in_place();
            run.engine = smrkit::settings::Settings { queue: smrkit::settings::Queue::Fcfs, ..Default::default() };
            change(&mut run.engine);
            arrival(&run)
        };
        let rest = "order fcfs, on an empty disk";
        assert_eq!(of(|_| {}), format!("flat out, queue depth 1, {rest}"));
        assert_eq!(
            of(|engine| engine.time_scale = 2.0),
            format!("flat out, queue depth 1, {rest}"),
            "no times are kept"
        );
        assert_eq!(of(|engine| engine.arrival = Arrival::Trace), format!("at the trace's times, {rest}"));
        let stretched =
            |engine: &mut smrkit::settings::Settings| (engine.arrival, engine.time_scale) = (Arrival::Trace, 2.0);
        assert_eq!(of(stretched), format!("at the trace's times, stretched 2×, {rest}"));
        let closed = |engine: &mut smrkit::settings::Settings| (engine.arrival, engine.depth) = (Arrival::Closed, 4);
        assert_eq!(of(closed), format!("after the trace's think times, queue depth 4, {rest}"));
        assert_eq!(
            of(|engine| engine.think = Nanos(5_000_000)),
            format!("flat out, queue depth 1, think time 5 ms, {rest}")
        );
        let checked = |engine: &mut smrkit::settings::Settings| (engine.fold, engine.check) = (true, true);
        assert_eq!(of(checked), format!("flat out, queue depth 1, {rest}, addresses folded, every read verified"));
    }
}
