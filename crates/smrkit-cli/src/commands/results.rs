//! `smrkit results`: tables of what sweeps computed.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use smrkit::error::Error;
use smrkit::stats::outcome::{Outcome, Outcomes};
use smrkit_sweep::select::{self, FlatRun};
use smrkit_sweep::sheet::Sheet;
use smrkit_sweep::store::Store;

use crate::exit::Done;
use crate::output::{JsonTarget, pretty, print};

const EXAMPLES: &str = "\
Keys are those of outcome.json, dotted: layer, parameters.cache_percent, engine.depth, latency_ns.all.p99. Runs that differ in \
their seed alone share a line, and all runs of a pivot's line and column share a cell: mean ± half the range, of which CSV and \
Parquet make two columns. Among the lines of one demand * marks the least of the first value.

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
    /// One sweep of the store, by the name of its file [default: all].
    #[arg(long, value_name = "NAME")]
    sweep: Option<String>,
    /// Only runs with this value of a key. May be repeated.
    #[arg(long = "where", value_name = "KEY=VALUE", value_parser = wanted)]
    wanted: Vec<(String, String)>,
    /// Values shown, with commas between.
    #[arg(long, value_delimiter = ',', value_name = "KEY1,KEY2", default_values = select::VALUES)]
    show: Vec<String>,
    /// Keys of lines, columns and cells. The least of a line is marked.
    #[arg(long, value_delimiter = ',', value_name = "KEY,KEY,KEY", num_args = 1, conflicts_with_all = ["show", "against"])]
    pivot: Vec<String>,
    /// A sweep of the store to compare with. Compared is the first value shown.
    #[arg(long, value_name = "NAME", requires = "sweep")]
    against: Option<String>,
    /// Format of the table.
    #[arg(long, value_enum, default_value_t)]
    format: ExportFormat,
    /// Write the table as Parquet. It has the columns of the CSV.
    #[arg(long, value_name = "OUT.parquet", conflicts_with_all = ["format", "json"])]
    parquet: Option<PathBuf>,
    /// Write the results as JSON; - is standard output.
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
        let outcomes = store.chosen(self.sweep.as_deref())?;
        if let Some(path) = &self.json {
            JsonTarget::open(path)?.write(pretty(&Outcomes::new(outcomes))?)?;
            return Ok(Done::All);
        }
        let sheet = self.sheet(&store, &outcomes)?;
        if let Some(path) = &self.parquet {
            sheet.write_parquet(path)?;
            return Ok(Done::All);
        }
        print(match self.format {
            ExportFormat::Table => sheet.grid().text() + "\n",
            ExportFormat::Csv => sheet.csv(),
            ExportFormat::Markdown => sheet.markdown(),
        })?;
        Ok(Done::All)
    }

    fn rows(&self, outcomes: &[Outcome]) -> Result<Vec<FlatRun>, Error> {
        select::filter(select::rows(outcomes)?, &self.wanted)
    }

    fn sheet(&self, store: &Store, outcomes: &[Outcome]) -> Result<Sheet, Error> {
        match (self.pivot.as_slice(), &self.against) {
            ([], None) => select::table(&self.rows(outcomes)?, &self.show),
            ([], Some(other)) => {
                let (own, others) = (select::rows(outcomes)?, select::rows(&store.chosen(Some(other))?)?);
                // A value that one of them lacks is what the comparison shows.
                select::filter([own.clone(), others.clone()].concat(), &self.wanted)?;
                let wanted = |rows| select::filter(rows, &self.wanted).unwrap_or_default();
                let name = self.sweep.as_deref().unwrap_or_default();
                select::against(&wanted(own), &wanted(others), &self.show[0], [name, other])
            }
            ([across, down, value], _) => select::pivot(&self.rows(outcomes)?, across, down, value),
            _ => Err(Error::Usage("--pivot takes three keys, such as trace,layer,slowdown".into())),
        }
    }
}
