//! `smrkit drives validate`: described drives compared with what was measured on them.

use std::path::PathBuf;

use clap::Args;
use smrkit_papers::validation::{Validation, subjects};
use smrkit_report::Grid;

use crate::exit::Done;
use crate::output::{print, print_json};

#[derive(Args)]
pub struct Validate {
    /// A folder with descriptions (DiskSim's files, or drive files) and measured traces: DRIVE.trace, perhaps .zst.
    dir: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Validate {
    pub fn execute(self) -> anyhow::Result<Done> {
        let (subjects, missed) = subjects(&self.dir)?;
        let rows = subjects.iter().map(|subject| subject.validate()).collect::<Result<Vec<_>, _>>()?;
        for name in missed {
            eprintln!("{name} has no trace in this folder and is left out");
        }
        match self.json {
            true => print_json(&rows)?,
            false => print(table(&rows))?,
        }
        Ok(Done::All)
    }
}

fn table(rows: &[Validation]) -> String {
    let mut grid = Grid::new([
        "drive",
        "requests",
        "rms",
        "mean measured",
        "mean ours",
        "reads over 3 ms",
        "of them within 0.5 ms",
    ]);
    for row in rows {
        let share = 100.0 * row.slow_reads_within_half_ms as f64 / row.slow_reads.max(1) as f64;
        grid.rows.push(vec![
            row.drive.clone(),
            row.requests.to_string(),
            format!("{:.3} ms", row.rms_ms),
            format!("{:.3} ms", row.mean_measured_ms),
            format!("{:.3} ms", row.mean_ours_ms),
            row.slow_reads.to_string(),
            format!("{share:.1} %"),
        ]);
    }
    grid.text() + "\n"
}
