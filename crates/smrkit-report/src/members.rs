//! Tables of the members of arrays: a line for each, or a summary of each array if there are many.

use smrkit::stats::outcome::{LISTED_MAX, Outcome};

use crate::format;
use crate::grid::Grid;
use crate::label::named;

/// The name of each member of an array: its number from 0, and how it differs from the others.
pub fn member_names(run: &Outcome) -> Vec<String> {
    let members = &run.members;
    let name = |(number, member): (usize, &Outcome)| {
        let mut words = vec![number.to_string()];
        if members.iter().any(|other| other.layer != member.layer) {
            words.push(member.layer.clone());
        }
        if members.iter().any(|other| other.drive != member.drive) {
            words.push(format!("on {}", member.drive));
        }
        words.join(" ")
    };
    members.iter().enumerate().map(name).collect()
}

/// The table of the members; `None` if no run is of an array.
pub fn members(runs: &[Outcome]) -> Option<Grid> {
    match runs.iter().map(|run| run.members.len()).sum() {
        0 => None,
        1..=LISTED_MAX => Some(lines(runs)),
        _ => Some(summary(runs)),
    }
}

/// A table with a row for each member.
fn lines(runs: &[Outcome]) -> Grid {
    let header = ["run", "member", "busy", "cleaning", "commands", "amplification", "mean", "longest", "over 7 s"];
    let mut grid = Grid::new(header);
    for (name, run) in named(runs) {
        for (member, drive) in member_names(run).into_iter().zip(&run.members) {
            grid.rows.push(vec![
                name.clone(),
                member,
                share(drive.working_ns(), run),
                share(drive.cleaning.ns, run),
                format::count(drive.requests),
                format::times(drive.write_amplification),
                some_latency(drive, drive.latency_ns.all.mean),
                some_latency(drive, drive.latency_ns.all.max),
                format::count(drive.verdict.commands.commands_over_7s),
            ]);
        }
    }
    grid
}

/// A table with a row for each run.
fn summary(runs: &[Outcome]) -> Grid {
    let header = ["run", "members", "least busy", "median", "busiest", "most amplified", "longest command", "over 7 s"];
    let mut grid = Grid::new(header);
    for (name, run) in named(runs).filter(|(_, run)| !run.members.is_empty()) {
        let [least, median, most] = by_busy(run).map(|at| share(run.members[at].working_ns(), run));
        let amplified = run.members.iter().filter_map(|member| member.write_amplification).reduce(f64::max);
        let slowest = run.members.iter().max_by_key(|member| member.latency_ns.all.max).unwrap_or(run);
        let stalled = run.members.iter().filter(|member| member.verdict.commands.commands_over_7s > 0).count();
        grid.rows.push(vec![
            name,
            format::count(run.members.len() as u64),
            least,
            median,
            most,
            format::times(amplified),
            some_latency(slowest, slowest.latency_ns.all.max),
            format::count(stalled as u64),
        ]);
    }
    grid
}

/// The numbers of an array's least busy member, the median one, and the busiest.
pub fn by_busy(run: &Outcome) -> [usize; 3] {
    let mut order: Vec<usize> = (0..run.members.len()).collect();
    order.sort_by_key(|&at| run.members[at].working_ns());
    let at = |place: usize| order.get(place).copied().unwrap_or(0);
    [at(0), at(order.len() / 2), at(order.len().saturating_sub(1))]
}

/// A member's `part_ns` as a share of the array's time.
pub fn share(part_ns: u64, run: &Outcome) -> String {
    format::percent(part_ns as f64, span_ns(run) as f64)
}

/// Time from the beginning of counting to the last completion, or to the end of a rebuild. A member may work longer, to empty its write cache
/// or in a rebuild that was cut short, so the time is at least that of the busiest member: no share exceeds 1.
fn span_ns(run: &Outcome) -> u64 {
    let whole = run.rebuild.as_ref().map_or(0, |rebuild| rebuild.begin_ns + rebuild.elapsed_ns);
    let worked = run.members.iter().map(|member| member.working_ns().max(member.cleaning.ns)).max();
    run.elapsed_ns.max(whole).max(worked.unwrap_or(0))
}

/// A latency; `-` if no request was counted.
pub fn some_latency(member: &Outcome, ns: u64) -> String {
    if member.latency_ns.all.count > 0 { format::nanos(ns) } else { format::NONE.into() }
}
