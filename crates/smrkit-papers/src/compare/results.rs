//! The table and the figure: schemes against demands.

use smrkit::stats::outcome::Outcome;
use smrkit_report::Grid;
use smrkit_report::figure::{Axis, Figure, Numbers, Panel, Series, Style};
use smrkit_report::format;

use super::schemes::Fitted;

/// Figures of a run, and of the conventional disk under the same requests.
#[derive(Clone, Copy)]
struct Cell {
    mean_ms: f64,
    p99_9_ms: f64,
    longest_ms: f64,
    /// None where nothing was written.
    amplification: Option<f64>,
    /// The mean and 99.9 % as multiples of the conventional disk's.
    mean_times: f64,
    p99_9_times: f64,
}

/// A scheme's runs: flat out and with idle time, by demand.
struct Line {
    layer: &'static str,
    lost_percent: f64,
    map_bytes: u64,
    power: String,
    cells: [Vec<Cell>; 2],
}

/// All runs.
pub struct Results {
    demands: Vec<&'static str>,
    lines: Vec<Line>,
}

const IDLE: [&str; 2] = ["flat out", "with idle time"];

impl Results {
    /// Of runs in the order of schemes, demands, and flat out before idle; the first scheme is the conventional disk.
    pub fn new(schemes: &[Fitted], demands: &[&'static str], outcomes: &[Outcome], power: &[String]) -> Results {
        let of_scheme = 2 * demands.len();
        let plain = &outcomes[..of_scheme];
        let line = |((scheme, runs), power): ((&Fitted, &[Outcome]), &String)| {
            let cells = |idle: usize| {
                let pairs = runs.iter().zip(plain).skip(idle).step_by(2);
                pairs.map(|(run, plain)| Cell::from_runs(run, plain)).collect()
            };
            Line {
                layer: scheme.layer,
                lost_percent: scheme.lost_percent(),
                map_bytes: runs.iter().map(|run| run.map_bytes).max().unwrap_or(0),
                power: power.clone(),
                cells: [cells(0), cells(1)],
            }
        };
        let lines = schemes.iter().zip(outcomes.chunks_exact(of_scheme)).zip(power).map(line).collect();
        Results { demands: demands.to_vec(), lines }
    }

    /// One line a scheme.
    pub fn summary(&self) -> Grid {
        let mut grid = Grid::new([
            "scheme",
            "mean",
            "idle",
            "99.9 %",
            "idle",
            "longest",
            "idle",
            "written",
            "idle",
            "lost",
            "maps",
            "power cut takes",
        ]);
        grid.rows = self.lines.iter().map(Line::summary).collect();
        grid
    }

    /// One line a demand and scheme.
    pub fn by_demand(&self) -> Grid {
        let mut grid = Grid::new([
            "demand",
            "scheme",
            "mean",
            "99.9 %",
            "longest",
            "written",
            "mean, idle",
            "99.9 %, idle",
            "longest, idle",
            "written, idle",
        ]);
        for (nth, demand) in self.demands.iter().enumerate() {
            grid.rows.extend(self.lines.iter().map(|line| {
                let cells = line.cells.iter().flat_map(|cells| cells[nth].texts());
                [demand.to_string(), line.layer.into()].into_iter().chain(cells).collect()
            }));
        }
        grid
    }

    /// Mean, and 99.9 %, as multiples of the conventional disk's, demand by demand.
    pub fn figure(&self) -> Figure {
        let panel = |idle: usize, what: &str, of: fn(&Cell) -> f64| {
            let line = |(nth, line): (usize, &Line)| {
                let points =
                    (1..).zip(&line.cells[idle]).map(|(at, cell): (u32, _)| (f64::from(at), of(cell))).collect();
                Series::nth(nth, line.layer, Style::Marked, points)
            };
            let series = self.lines.iter().enumerate().skip(1).map(line);
            let y = Axis::log("× the conventional disk", Numbers::Plain);
            let title = format!("{what}, {}", IDLE[idle]);
            Panel::lines(Some(&title), Axis::linear("Demand"), y, series).guided([(1.0, "conventional")])
        };
        let mean: fn(&Cell) -> f64 = |cell| cell.mean_times;
        let tail: fn(&Cell) -> f64 = |cell| cell.p99_9_times;
        let numbered: Vec<String> =
            (1..).zip(&self.demands).map(|(n, demand): (u32, _)| format!("{n} {demand}")).collect();
        let note = format!("Demands: {}. A point a run; lines join what belongs to a scheme.", numbered.join(", "));
        let title = "Every scheme on one full disk, with the same share lost";
        let panels = [(0, "Mean", mean), (1, "Mean", mean), (0, "99.9 %", tail), (1, "99.9 %", tail)];
        Figure::new("compare", title, note, panels.map(|(idle, what, of)| panel(idle, what, of)))
    }
}

impl Cell {
    fn from_runs(run: &Outcome, plain: &Outcome) -> Cell {
        let ms = |ns: u64| ns as f64 / 1e6;
        let all = [run, plain].map(|outcome| outcome.latency_ns.all);
        let times = |of: [u64; 2]| of[0] as f64 / of[1].max(1) as f64;
        Cell {
            mean_ms: ms(all[0].mean),
            p99_9_ms: ms(all[0].p99_9),
            longest_ms: ms(all[0].max),
            amplification: run.write_amplification,
            mean_times: times(all.map(|all| all.mean)),
            p99_9_times: times(all.map(|all| all.p99_9)),
        }
    }

    fn texts(&self) -> [String; 4] {
        let amplification = self.amplification.map_or(format::NONE.into(), format::short);
        [format::short(self.mean_ms), format::short(self.p99_9_ms), format::short(self.longest_ms), amplification]
    }
}

impl Line {
    fn summary(&self) -> Vec<String> {
        let mut row = vec![self.layer.to_string()];
        let times = |of: fn(&Cell) -> f64| {
            self.cells.each_ref().map(|cells| format!("{} ×", format::short(geometric(cells.iter().map(of)))))
        };
        row.extend(times(|cell| cell.mean_times));
        row.extend(times(|cell| cell.p99_9_times));
        let longest = |cells: &Vec<Cell>| cells.iter().map(|cell| cell.longest_ms).fold(0.0, f64::max) / 1e3;
        row.extend(self.cells.each_ref().map(|cells| format::seconds(longest(cells))));
        let written = |cells: &Vec<Cell>| geometric(cells.iter().filter_map(|cell| cell.amplification));
        row.extend(self.cells.each_ref().map(|cells| format!("{} ×", format::short(written(cells)))));
        row.push(format!("{:.1} %", self.lost_percent));
        row.push(format::bytes(self.map_bytes as f64));
        row.push(self.power.clone());
        row
    }
}

/// The geometric mean.
fn geometric(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value.ln(), count + 1));
    (sum / f64::from(count.max(1))).exp()
}

#[cfg(test)]
mod tests {
    use super::geometric;

    #[test]
    fn a_scheme_that_is_twice_and_half_as_slow_is_as_fast() {
        assert!((geometric([2.0, 0.5, 1.0].into_iter()) - 1.0).abs() < 1e-12);
    }
}
