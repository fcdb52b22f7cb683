//! `smrkit report`: tables, a page and figures of runs that were recorded.

use std::path::PathBuf;

use clap::Args;
use smrkit::error::Error;
use smrkit::stats::outcome::{Outcome, Outcomes};
use smrkit_report::{figures, report, text};

use crate::exit::Done;
use crate::output::{OutputOptions, Paths};
use crate::recorded::Recorded;

const EXAMPLES: &str = "\
The runs of all files stand next to one another, so each must be of the same trace or workload.

Examples:
  smrkit report outcome.json --report report.html
  smrkit report rmw.json vguard.json --report both.html --figures figures
  smrkit results caches.results --where trace=day.csv --json day.json; smrkit report day.json --report day.html";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Report {
    /// Result files, as `run --json` and `results --json` write them.
    #[arg(required = true, value_name = "OUT.json")]
    results: Vec<PathBuf>,
    #[command(flatten)]
    outputs: OutputOptions,
}

impl Report {
    pub fn execute(self) -> anyhow::Result<Done> {
        let mut paths = Paths { inputs: self.results.clone(), ..Paths::default() };
        self.outputs.name(&mut paths);
        paths.check()?;
        let runs = self.outcomes()?;
        let outputs = self.outputs.open()?;
        let outcomes = Outcomes::new(runs);
        let runs = &outcomes.runs;
        outputs.write(|| text(runs), &outcomes, || report(runs), || figures(runs))?;
        Ok(Done::All)
    }

    /// The runs of all files, in their order. Errors: what [`Recorded::read`] refuses, and runs of different demands.
    fn outcomes(&self) -> Result<Vec<Outcome>, Error> {
        let mut runs: Vec<Outcome> = Vec::new();
        for path in &self.results {
            runs.extend(Recorded::read(path)?.outcomes);
            let demand = |run: &Outcome| (run.replayed.clone(), run.seed);
            if let Some(other) = runs.iter().find(|run| demand(run) != demand(&runs[0])) {
                return Err(Error::input(path, format!("{}, and {}: {SAME}", named(other), named(&runs[0]))));
            }
        }
        Ok(runs)
    }
}

const SAME: &str =
    "give runs of the same requests (the same --span and --seed; smrkit results --where KEY=VALUE --json chooses)";

/// Text that names the requests of a run.
fn named(run: &Outcome) -> String {
    let replayed = &run.replayed;
    let name = replayed.trace.as_deref().or(replayed.workload.as_deref()).or(replayed.interleave.as_deref());
    let span = replayed.workload_sectors.map_or(String::new(), |sectors| format!(" on {sectors} sectors"));
    format!("{} has run {}{span} with seed {}", run.layer, name.unwrap_or("a table in memory"), run.seed)
}
