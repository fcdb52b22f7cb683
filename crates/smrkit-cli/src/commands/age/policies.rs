//! Comparison of placement policies: the same files on a disk of each, for several seeds.

use serde::Serialize;
use serde_json::{Value, json};
use smrfs::age::AgeingResult;
use smrfs::age::world::World;
use smrfs::workload::driver::End;
use smrkit::VERSION;
use smrkit_report::{Grid, Section, page};
use smrkit_sweep::spread::Spread;

/// A disk that has aged under one policy.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyRun {
    placement: &'static str,
    seed: u64,
    /// Bytes written and moved for each byte written.
    write_amplification: f64,
    /// The longest time for which cleaning delayed an event.
    longest_stall_s: f64,
    /// Room that can be written without cleaning, in percent of the disk.
    writable_percent: f64,
    /// True if it ended with no room for a block.
    is_full: bool,
}

/// A number of a run, and its name.
type Column = (&'static str, fn(&PolicyRun) -> f64);

const COLUMNS: [Column; 3] = [
    ("moved (% of written)", |run| 100.0 * (run.write_amplification - 1.0)),
    ("longest stall (s)", |run| run.longest_stall_s),
    ("writable at once (%)", |run| run.writable_percent),
];

impl PolicyRun {
    /// The result of a disk that was aged with `seed`.
    pub fn new(world: &World, seed: u64, aged: &AgeingResult) -> PolicyRun {
        let last = &aged.last;
        let written_bytes = last.written_bytes.max(1) as f64;
        PolicyRun {
            placement: world.caveat.placement.name(),
            seed,
            write_amplification: (written_bytes + last.cleaned.moved_bytes as f64) / written_bytes,
            longest_stall_s: aged.alone.longest_delay.as_secs(),
            writable_percent: 100.0 * (last.writable_bytes + last.write_once_bytes) as f64 / world.disk_bytes as f64,
            is_full: aged.end == End::Full,
        }
    }
}

/// Aged disks: for each seed, one under every policy.
pub struct Policies {
    pub runs: Vec<PolicyRun>,
    pub interrupted: bool,
}

impl Policies {
    /// The policies in their order.
    fn placements(&self) -> Vec<&'static str> {
        let mut placements: Vec<&str> = Vec::new();
        for run in &self.runs {
            if !placements.contains(&run.placement) {
                placements.push(run.placement);
            }
        }
        placements
    }

    fn of(&self, placement: &str) -> impl Iterator<Item = &PolicyRun> {
        self.runs.iter().filter(move |run| run.placement == placement)
    }

    fn table(&self) -> Grid {
        let [moved, stall, writable] = COLUMNS.map(|(name, _)| name);
        let mut grid = Grid::new(["placement", "disks", "full", moved, stall, writable]);
        for placement in self.placements() {
            let counts = [self.of(placement).count(), self.of(placement).filter(|run| run.is_full).count()];
            let spread = |(_, number): Column| Spread::new(self.of(placement).map(number));
            let spreads = COLUMNS.into_iter().filter_map(spread).map(|spread| spread.text(1.0));
            let row = [placement.to_string()].into_iter().chain(counts.map(|count| count.to_string())).chain(spreads);
            grid.rows.push(row.collect());
        }
        grid
    }

    /// Sentences on how each policy differs from the first. Runs are compared seed by seed, because both policies then place the same files.
    fn differences(&self) -> Vec<String> {
        let placements = self.placements();
        let Some((first, others)) = placements.split_first() else { return Vec::new() };
        let sentence = |other: &&str| {
            let difference = |(name, number): Column| {
                let differences: Vec<f64> = self
                    .of(other)
                    .filter_map(|run| {
                        let same = self.of(first).find(|one| one.seed == run.seed)?;
                        Some(number(run) - number(same))
                    })
                    .collect();
                let (pairs, spread) = (differences.len(), Spread::new(differences.into_iter())?);
                let more = if spread.mean > 0.0 { "higher" } else { "lower" };
                let size = Spread { mean: spread.mean.abs(), ..spread };
                Some(match spread.mean.abs() > spread.half && pairs > 1 {
                    true => format!("{name} {more} by {}", size.text(1.0)),
                    false => format!("{name} not told apart"),
                })
            };
            let differences: Vec<String> = COLUMNS.into_iter().filter_map(difference).collect();
            format!("{other} beside {first}, seed by seed: {}.", differences.join("; "))
        };
        others.iter().map(sentence).collect()
    }

    /// Text for people.
    pub fn text(&self) -> String {
        let interval = "Means and their 95 % confidence intervals over seeds.".to_string();
        let told = self.differences().into_iter().chain([interval]);
        format!("{}\n{}\n", self.table().text(), told.collect::<Vec<_>>().join("\n"))
    }

    /// As `smrkit age --json` writes it, with the program's commit.
    pub fn record(&self, commit: Option<&str>) -> Value {
        json!({
            "schema": 1,
            "version": VERSION,
            "commit": commit,
            "interrupted": self.interrupted,
            "runs": self.runs,
            "differences": self.differences(),
        })
    }

    /// As a page that opens offline.
    pub fn page(&self) -> String {
        let text = Section { heading: "In short".into(), text: self.differences(), ..Section::default() };
        page("smrkit age", &[text, Section::of_table("Policies", self.table())])
    }
}
