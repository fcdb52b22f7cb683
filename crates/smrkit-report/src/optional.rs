//! Tables of what only some runs have: members, a rebuild, several sources, movements of the head.

use smrkit::stats::outcome::{ByCause, Causes, MergedSource, Movement, Outcome};
use smrkit::units::SECTOR_BYTES;

use crate::format::{self, NONE};
use crate::grid::Grid;
use crate::label::names;
use crate::members::members;
use crate::rebuild::rebuilds;

/// Headings and tables of what only some runs have.
pub fn grids(runs: &[Outcome]) -> Vec<(&'static str, Grid)> {
    let grids = [
        ("Members", members(runs)),
        ("Rebuild", rebuilds(runs)),
        ("Sources", sources(runs)),
        ("Movement", movement(runs)),
    ];
    grids.into_iter().filter_map(|(heading, grid)| Some((heading, grid?))).collect()
}

/// The requests and latency of each of several sources; `None` where no run had several.
fn sources(runs: &[Outcome]) -> Option<Grid> {
    let header = ["run", "source", "requests", "read", "written", "mean", "p99", "max"];
    let mut grid = Grid::new(header);
    for (name, run) in names(runs).into_iter().zip(runs) {
        for (number, counts) in run.by_source.iter().flatten().enumerate() {
            let source = run.replayed.sources.as_ref().and_then(|sources| sources.get(number));
            let latency = |ns: u64| if counts.requests > 0 { format::nanos(ns) } else { NONE.into() };
            let size = |sectors: u64| format::bytes((sectors * SECTOR_BYTES) as f64);
            grid.rows.push(vec![
                name.clone(),
                source_name(number, source),
                format::count(counts.requests),
                size(counts.host_read_sectors),
                size(counts.host_written_sectors),
                latency(counts.latency_ns.all.mean),
                latency(counts.latency_ns.all.p99),
                latency(counts.latency_ns.all.max),
            ]);
        }
    }
    (!grid.rows.is_empty()).then_some(grid)
}

/// Its number, and its trace or workload.
fn source_name(number: usize, source: Option<&MergedSource>) -> String {
    let what = source.and_then(|source| source.trace.as_deref().or(source.workload.as_deref()));
    format!("#{number} {}", format::printable(what.unwrap_or_default()))
}

/// Movements of heads from track to track, a row a cause; `None` where nobody asked: arrays count them in any case.
fn movement(runs: &[Outcome]) -> Option<Grid> {
    let mut grid = Grid::new(["run", "cause", "tracks crossed", "strokes", "movements", "bands moved"]);
    for (name, run) in names(runs).into_iter().zip(runs) {
        let Some(movement) = run.movement.as_ref().filter(|_| run.engine.movement) else { continue };
        let causes = CAUSES.iter().map(|&(cause, count, share)| (cause, movement_cells(movement, count, share)));
        let moved: Vec<(&str, [String; 4])> =
            causes.filter(|(_, cells)| cells.iter().any(|cell| cell != "0")).collect();
        let all =
            (moved.len() != 1).then(|| ("all", movement_cells(movement, |counts| counts.total, |shares| shares.total)));
        for (cause, cells) in all.into_iter().chain(moved) {
            grid.rows.push([name.clone(), cause.into()].into_iter().chain(cells).collect());
        }
    }
    (!grid.rows.is_empty()).then_some(grid)
}

type Cause = (&'static str, fn(&ByCause) -> u64, fn(&Causes<f64>) -> f64);

const CAUSES: [Cause; 4] = [
    ("host", |counts| counts.host, |shares| shares.host),
    ("destage", |counts| counts.destage, |shares| shares.destage),
    ("clean", |counts| counts.clean, |shares| shares.clean),
    ("map", |counts| counts.map, |shares| shares.map),
];

/// The movements of one cause.
fn movement_cells(movement: &Movement, count: fn(&ByCause) -> u64, share: fn(&Causes<f64>) -> f64) -> [String; 4] {
    [
        format::count(count(&movement.track_distance)),
        format::short(share(&movement.stroke_share)),
        format::count(count(&movement.track_count)),
        format::count(count(&movement.bands_moved)),
    ]
}
