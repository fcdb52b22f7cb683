//! The table of a rebuild or a scrub, and its figures: the progress, the host's latency, and the new member's work.

use smrkit::stats::outcome::{Outcome, Rebuild};
use smrkit::stats::rebuild::{BusyTimes, MemberRebuild};

use crate::figure::{Axis, BarPart, Body, Colour, Figure, Numbers, Panel, Series, Style, gapped};
use crate::format;
use crate::grid::{Column, Grid};
use crate::label::{line_styles, named};

/// Work of a drive: its name, its colour, and the time that it took.
pub type BusyWork = (&'static str, Colour, fn(&BusyTimes) -> u64);

/// Kinds of work of a drive, in the order of bars.
pub const WORK: [BusyWork; 6] = [
    ("reading for commands", Colour::nth(0), |busy| busy.host_read),
    ("writing for commands", Colour::SKY, |busy| busy.host_write),
    ("maps", Colour::PINK, |busy| busy.map_read + busy.map_write),
    ("destaging", Colour::ORANGE, |busy| busy.destage_read + busy.destage_write),
    ("reading bands", Colour::nth(2), |busy| busy.clean_read),
    ("writing bands", Colour::VERMILION, |busy| busy.clean_write),
];

/// A run that rebuilt.
struct RebuiltRun<'a> {
    run: &'a Outcome,
    rebuild: &'a Rebuild,
    name: String,
    /// Its colour, and whether its lines are broken.
    line: (Colour, bool),
}

/// The table of rebuilds and scrubs; `None` if no run had one.
pub fn rebuilds(runs: &[Outcome]) -> Option<Grid> {
    fn host_latency(rebuild: &Rebuild, ns: u64) -> String {
        if rebuild.foreground_ns.all.count > 0 { format::nanos(ns) } else { format::NONE.into() }
    }
    let rebuilt = named(runs).filter_map(|(name, run)| Some((name, run.rebuild.as_ref()?)));
    let columns: [Column<(String, &Rebuild)>; 10] = [
        ("run", |(name, _)| name.clone()),
        ("redundant", |(_, rebuild)| format::nanos(rebuild.elapsed_ns)),
        ("clean", |(_, rebuild)| rebuild.clean_ns.map_or(format::NONE.into(), format::nanos)),
        ("MB/s", |(_, rebuild)| format::ratio(Some(rebuild.bytes_per_s / 1e6))),
        ("longest piece", |(_, rebuild)| format::nanos(rebuild.longest_piece_ns)),
        ("longest command", |(_, rebuild)| format::nanos(rebuild.longest_command_ns)),
        ("of the new", |(_, rebuild)| rebuild.longest_new_ns.map_or(format::NONE.into(), format::nanos)),
        ("host mean", |(_, rebuild)| host_latency(rebuild, rebuild.foreground_ns.all.mean)),
        ("host p99", |(_, rebuild)| host_latency(rebuild, rebuild.foreground_ns.all.p99)),
        ("dropped at", |(_, rebuild)| match (rebuild.dropped_7s, rebuild.dropped_30s) {
            (_, true) => "7 s, 30 s".into(),
            (true, false) => "7 s".into(),
            (false, false) => format::NONE.into(),
        }),
    ];
    Grid::of_items(rebuilt, &columns).unless_empty()
}

/// The figures of all runs with a rebuild or a scrub; none if no run had one.
pub fn figures(runs: &[Outcome]) -> Vec<Figure> {
    let runs = named(runs).zip(line_styles(runs));
    let all: Vec<RebuiltRun> = runs
        .filter_map(|((name, run), line)| Some(RebuiltRun { run, rebuild: run.rebuild.as_ref()?, name, line }))
        .collect();
    if all.is_empty() { Vec::new() } else { vec![course(&all), busy(&all)] }
}

/// The figure of progress and of the host's latency over time.
fn course(all: &[RebuiltRun]) -> Figure {
    let longest = all.iter().map(|one| one.rebuild.elapsed_ns).max().unwrap_or(0);
    let (unit_s, unit) = format::time_unit(longest as f64 / 1e9);
    let x = || Axis::linear(format!("Time since the failure ({unit})"));
    let lines = |of: &dyn Fn(&RebuiltRun) -> Series| -> Body {
        Body::Lines(all.iter().map(of).filter(|series| !series.points.is_empty()).collect())
    };
    let share = lines(&|&RebuiltRun { rebuild, ref name, line: (colour, dashed), .. }| {
        let points = shares(rebuild).into_iter().map(|(s, share)| (s / unit_s, share)).collect();
        Series { name: name.clone(), colour, style: Style { dashed, ..Style::LINE }, points }
    });
    let latency = lines(&|&RebuiltRun { run, rebuild, ref name, line: (colour, dashed) }| {
        let points = slowest(run, rebuild).into_iter().map(|(s, latency)| (s / unit_s, latency)).collect();
        Series { name: name.clone(), colour, style: Style { dashed, ..Style::STEPS }, points }
    });
    let panel = |title: &str, y: Axis, body| Panel::new(Some(title), x(), y, body);
    let y = Axis::log("Longest latency (logarithmic)", Numbers::Time);
    let timeouts = vec![(7.0, "7 s".into()), (30.0, "30 s".into())];
    let panels = [
        panel("Rebuilt", Axis::linear("Share of what is to be rebuilt (%)"), share),
        Panel { guides: timeouts, ..panel("The host meanwhile: slowest request in each window", y, latency) },
    ];
    let note = "How much was rebuilt (of a scrub: read), and how long the host's requests took meanwhile.";
    let mut figure = Figure::of_data("rebuild", "The course of the rebuild", note, panels, note);
    figure.share_x();
    figure
}

/// The share that was done, in percent, at the end of each window (in seconds since the failure).
fn shares(rebuild: &Rebuild) -> Vec<(f64, f64)> {
    let (window_s, end_s) = (rebuild.series.window_ns as f64 / 1e9, rebuild.elapsed_ns as f64 / 1e9);
    let mut done = 0;
    let point = |(window, bytes): (usize, &u64)| {
        done += bytes;
        (((window + 1) as f64 * window_s).min(end_s), 100.0 * done as f64 / rebuild.bytes.max(1) as f64)
    };
    let points: Vec<(f64, f64)> = rebuild.series.bytes.iter().enumerate().map(point).collect();
    if points.is_empty() { points } else { [(0.0, 0.0)].into_iter().chain(points).collect() }
}

/// The host's longest latency in each window (in seconds since the failure), with a gap for a window without requests.
fn slowest(run: &Outcome, rebuild: &Rebuild) -> Vec<(f64, f64)> {
    if rebuild.foreground_ns.all.count == 0 {
        return Vec::new();
    }
    let since = |window: usize| (window as f64 * run.timeline.window_ns as f64 - rebuild.begin_ns as f64) / 1e9;
    let end_s = rebuild.elapsed_ns as f64 / 1e9;
    let is_idle = |window: usize| run.timeline.requests.get(window).is_none_or(|&requests| requests == 0);
    let latency = |window: usize, ns: u64| if is_idle(window) { f64::NAN } else { ns as f64 / 1e9 };
    let windows = run.timeline.longest_ns.iter().enumerate();
    let meanwhile = windows.filter(|(window, _)| since(window + 1) > 0.0 && since(*window) < end_s);
    let mut points: Vec<(f64, f64)> =
        meanwhile.map(|(window, &ns)| (since(window).max(0.0), latency(window, ns))).collect();
    points.extend(points.last().map(|&(_, latency)| (end_s, latency)));
    gapped(&points)
}

/// The figure of the rebuilt member's work, a bar for each run.
fn busy(all: &[RebuiltRun]) -> Figure {
    let times_of = |one: &RebuiltRun| WORK.map(|(_, _, of)| seconds(one.rebuild, of));
    let times: Vec<[f64; 6]> = all.iter().map(times_of).collect();
    let longest = times.iter().map(|times| times.iter().sum::<f64>()).fold(0.0, f64::max);
    let (unit_s, unit) = format::time_unit(longest);
    let part = |(at, (name, colour, _)): (usize, &BusyWork)| BarPart {
        name: name.to_string(),
        colour: *colour,
        values: times.iter().map(|times| times[at] / unit_s).collect(),
    };
    let panel = Panel::bars(
        None,
        Axis::linear(format!("Time that it was busy ({unit})")),
        all.iter().map(|one| one.name.clone()).collect(),
        all.iter().map(|one| format::nanos(one.rebuild.elapsed_ns)).collect(),
        WORK.iter().enumerate().map(part).collect(),
    );
    let note = "From the failure until the array was redundant, the time after each bar; of a scrub, all members in sum. Beyond \
                the bar it waited for the others, or emptied a buffer of its own.";
    let title = "What the rebuilt member was busy with";
    Figure::of_data("rebuild-busy", title, note, [panel], "The member was never busy.")
}

/// Seconds of the new member's (of a scrub: all members') work of a kind.
fn seconds(rebuild: &Rebuild, of: fn(&BusyTimes) -> u64) -> f64 {
    let new = rebuild.members.iter().any(|member| member.new);
    let counted = |member: &&MemberRebuild| member.new || !new;
    rebuild.members.iter().filter(counted).map(|member| of(&member.busy_ns)).sum::<u64>() as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::example::{in_place, rebuilt};

    #[test]
    fn a_rebuild_without_commands_has_no_latency_of_theirs() {
        let mut run = rebuilt();
        run.rebuild.as_mut().unwrap().foreground_ns.all.count = 0;
        let grid = rebuilds(&[run]).unwrap();
        for column in ["host mean", "host p99"] {
            let at = grid.header.iter().position(|name| name == column).unwrap();
            assert_eq!(grid.rows[0][at], format::NONE);
        }
    }

    #[test]
    fn the_progress_of_a_rebuild_goes_from_the_failure_to_the_whole() {
        let named = |runs: &[Outcome], name: &str| figures(runs).into_iter().find(|figure| figure.name == name);
        let course = named(&[rebuilt()], "rebuild").unwrap();
        let points = |panel: usize| course.panels[panel].points().collect::<Vec<_>>();
        assert_eq!(points(0), [(0.0, 0.0), (120.0, 25.0), (240.0, 75.0), (300.0, 100.0)]);
        let (first, last) = (points(1)[0], *points(1).last().unwrap());
        assert_eq!((first.0, last.0, points(1).len()), (0.0, 300.0, 31), "the host's windows from 100 to 400 s");
        let busy = named(&[rebuilt()], "rebuild-busy").unwrap();
        let Body::Bars { totals, parts, .. } = &busy.panels[0].body else { panic!("bars") };
        assert_eq!(parts.iter().map(|part| part.values[0]).sum::<f64>(), 210.0);
        assert_eq!(totals, &["300 s"]);
        let mut long = rebuilt();
        for member in &mut long.rebuild.as_mut().unwrap().members {
            member.busy_ns.host_write *= 60;
            member.busy_ns.clean_write *= 60;
        }
        let busy = named(&[long], "rebuild-busy").unwrap();
        let Body::Bars { parts, .. } = &busy.panels[0].body else { panic!("bars") };
        let sum: f64 = parts.iter().map(|part| part.values[0]).sum();
        assert_eq!((busy.panels[0].x.label.as_str(), sum), ("Time that it was busy (h)", 3.5));
        let mut quiet = rebuilt();
        quiet.rebuild.as_mut().unwrap().foreground_ns = Default::default();
        assert_eq!(named(&[quiet], "rebuild").unwrap().panels.len(), 1, "nobody asked for anything");
        assert!(named(&[in_place()], "rebuild").is_none() && named(&[in_place()], "rebuild-busy").is_none());
    }
}
