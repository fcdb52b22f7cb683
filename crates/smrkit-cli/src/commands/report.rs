//! `smrkit report`: tables and a page of runs that were recorded, or of a sweep.

use std::path::{Path, PathBuf};

use clap::Args;
use smrkit::error::Error;
use smrkit::stats::outcome::{Outcome, Outcomes};
use smrkit_report::{report, text_for};
use smrkit_sweep::frame::rows;
use smrkit_sweep::store::Store;
use smrkit_sweep::table::{page, shown_keys, text_of};

use crate::output::{OutputOptions, pretty};
use crate::paths;
use crate::style;
use smrkit_trace::recorded::Recorded;

#[derive(Args)]
#[command(after_help = "\
The runs of all files stand next to one another, so each must be of the same trace or workload. A store of sweeps has a page with \
the table of all its runs.

Examples:
  smrkit report outcome.json --report report.html
  smrkit report rmw.json vguard.json --report both.html
  smrkit report caches.results --sweep caches --report caches.html
  smrkit results caches.results --where trace=day.csv --json day.json; smrkit report day.json --report day.html")]
pub struct Report {
    /// Result files, as `run --json` and `results --json` write them, or the folder that sweeps wrote into.
    #[arg(required = true, value_name = "OUT.json|STORE")]
    results: Vec<PathBuf>,
    /// Show one sweep of the store, by the name of its file [default: all].
    #[arg(long, value_name = "NAME")]
    sweep: Option<String>,
    /// Keys of a store's runs to show, separated by commas [default: as results].
    #[arg(long, value_delimiter = ',', value_name = "KEY1,KEY2")]
    show: Vec<String>,
    #[command(flatten)]
    outputs: OutputOptions,
}

impl Report {
    pub fn execute(self) -> anyhow::Result<()> {
        paths::check(&self.results, &self.outputs.paths())?;
        if let [store] = self.results.as_slice()
            && store.is_dir()
        {
            return self.of_store(store);
        }
        if self.sweep.is_some() || !self.show.is_empty() {
            return Err(Error::Usage("--sweep and --show choose from a store: give the store's folder".into()).into());
        }
        let outcomes = self.outcomes()?;
        let outputs = self.outputs.open()?;
        let (runs, measured) = (&outcomes.runs, outcomes.measured.as_ref());
        let text = || text_for(runs, measured, style::terminal());
        outputs.write(text, || pretty(&outcomes), || report(runs, measured, None))?;
        Ok(())
    }

    fn of_store(&self, path: &Path) -> anyhow::Result<()> {
        let outcomes = Outcomes::new(Store::open(path)?.of_sweep_or_all(self.sweep.as_deref())?);
        let outputs = self.outputs.open()?;
        let runs = &outcomes.runs;
        let name = self.sweep.clone().unwrap_or_else(|| path.file_stem().unwrap_or_default().to_string_lossy().into());
        let page = page(&name, runs, &self.show)?;
        let rows = rows(runs);
        let text = text_of(&rows, &shown_keys(&self.show, &rows), false)?;
        outputs.write(|| text + "\n", || pretty(&outcomes), || page)?;
        Ok(())
    }

    /// Reads the runs of all files, in the files' order. Errors: those of [`Recorded::read`], and runs of different demands.
    fn outcomes(&self) -> Result<Outcomes, Error> {
        if let [path] = self.results.as_slice() {
            return Ok(Recorded::read(path)?.file);
        }
        let mut runs: Vec<Outcome> = Vec::new();
        for path in &self.results {
            runs.extend(Recorded::read(path)?.file.runs);
            let demand = |run: &Outcome| (run.replayed.clone(), run.seed);
            if let Some(other) = runs.iter().find(|run| demand(run) != demand(&runs[0])) {
                return Err(Error::input(path, format!("{}, and {}: {SAME}", named(other), named(&runs[0]))));
            }
        }
        Ok(Outcomes::new(runs))
    }
}

const SAME: &str =
    "give runs of the same requests (the same --span and --seed; smrkit results --where KEY=VALUE --json chooses)";

/// The name of a run's demand.
fn named(run: &Outcome) -> String {
    let replayed = &run.replayed;
    let rule = replayed.interleave.map(|rule| rule.to_string());
    let name = replayed.trace.as_deref().or(replayed.workload.as_deref()).or(rule.as_deref());
    let span = replayed.workload_sectors.map_or(String::new(), |sectors| format!(" on {sectors} sectors"));
    format!("{} has run {}{span} with seed {}", run.layer, name.unwrap_or("a table in memory"), run.seed)
}
