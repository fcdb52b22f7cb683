//! `smrkit results`: tables of what sweeps computed.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use smrkit::error::Error;
use smrkit::stats::outcome::{Outcome, Outcomes};
use smrkit_report::Grid;
use smrkit_sweep::select::{self, Row};
use smrkit_sweep::store::Store;

use crate::exit::Done;
use crate::output::{JsonTarget, print};

const EXAMPLES: &str = "\
Keys are those of outcome.json, dotted: layer, parameters.cache_percent, engine.depth, latency_ns.all.p99. Runs that differ in
their seed alone share a line, and all runs of a pivot's line and column share a cell: mean ± half the range.

Examples:
  smrkit results caches.results
  smrkit results caches.results --show slowdown,verdict.stalls_over_7s --where layer=drive-managed
  smrkit results caches.results --pivot trace,layer,latency_ns.all.p99 --format markdown
  smrkit results caches.results --sweep caches --against larger-caches --show slowdown";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Results {
    /// The folder that sweeps wrote into.
    store: PathBuf,
    /// One of its sweeps, by the name of its file [default: all].
    #[arg(long, value_name = "NAME")]
    sweep: Option<String>,
    /// Only runs with this value of a key; may be repeated.
    #[arg(long = "where", value_name = "KEY=VALUE", value_parser = wanted)]
    wanted: Vec<(String, String)>,
    /// The values shown, with commas between.
    #[arg(long, value_delimiter = ',', value_name = "KEY1,KEY2", default_values = select::VALUES)]
    show: Vec<String>,
    /// A line for each value of the first key, a column for each of the second, the third in the cells; the least is marked.
    #[arg(long, value_delimiter = ',', value_name = "KEY,KEY,KEY", num_args = 1, conflicts_with_all = ["show", "against"])]
    pivot: Vec<String>,
    /// Another sweep of the store to compare with, by the first value shown.
    #[arg(long, value_name = "NAME", requires = "sweep")]
    against: Option<String>,
    /// Format of the table.
    #[arg(long, value_enum, default_value_t)]
    format: ExportFormat,
    /// Write the outcomes as one result file; - is standard output.
    #[arg(long, value_name = "OUT|-")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum ExportFormat {
    #[default]
    Table,
    Csv,
    Markdown,
}

fn wanted(text: &str) -> Result<(String, String), Error> {
    let pair = text.split_once('=').map(|(key, value)| (key.to_string(), value.to_string()));
    pair.ok_or_else(|| Error::Usage(format!("`{text}`: expected KEY=VALUE, such as layer=rmw")))
}

impl Results {
    pub fn execute(self) -> anyhow::Result<Done> {
        let store = Store::open(&self.store)?;
        let outcomes = self.outcomes(&store, self.sweep.as_deref())?;
        if let Some(path) = &self.json {
            JsonTarget::open(path)?.write(&Outcomes::new(outcomes))?;
            return Ok(Done::All);
        }
        let grid = self.grid(&store, &outcomes)?;
        print(match self.format {
            ExportFormat::Table => grid.text() + "\n",
            ExportFormat::Csv => select::csv(&grid),
            ExportFormat::Markdown => select::markdown(&grid),
        })?;
        Ok(Done::All)
    }

    /// The outcomes of one sweep, or of all.
    fn outcomes(&self, store: &Store, sweep: Option<&str>) -> Result<Vec<Outcome>, Error> {
        let known = store.sweeps()?;
        let chosen = match sweep {
            None => known,
            Some(name) if known.iter().any(|known| known == name) => vec![name.to_string()],
            Some(name) => {
                let there = known.join(", ");
                return Err(Error::Usage(format!(
                    "no sweep is called {name} in {}: there are {there}",
                    self.store.display()
                )));
            }
        };
        let outcomes = chosen.iter().map(|name| store.of_sweep(name)).collect::<Result<Vec<_>, Error>>()?.concat();
        match outcomes.is_empty() {
            true => Err(Error::input(&self.store, "no outcomes yet: start smrkit sweep")),
            false => Ok(outcomes),
        }
    }

    fn rows(&self, outcomes: &[Outcome]) -> Result<Vec<Row>, Error> {
        select::filter(select::rows(outcomes)?, &self.wanted)
    }

    fn grid(&self, store: &Store, outcomes: &[Outcome]) -> Result<Grid, Error> {
        let rows = self.rows(outcomes)?;
        match (self.pivot.as_slice(), &self.against) {
            ([], None) => select::table(&rows, &self.show),
            ([], Some(other)) => {
                let others = self.rows(&self.outcomes(store, Some(other))?)?;
                select::against(&rows, &others, &self.show[0])
            }
            ([across, down, value], _) => select::pivot(&rows, across, down, value),
            _ => Err(Error::Usage("--pivot takes three keys, such as trace,layer,slowdown".into())),
        }
    }
}
