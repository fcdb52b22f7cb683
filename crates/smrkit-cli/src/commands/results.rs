//! `smrkit results`: a table of what sweeps computed.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use smrkit::error::Error;
use smrkit::stats::outcome::Outcomes;
use smrkit_sweep::store::Store;
use smrkit_sweep::table::{csv, filter, rows, shown, table};

use crate::exit::Done;
use crate::output::{JsonTarget, pretty, print};

const EXAMPLES: &str = "\
Keys are those of outcome.json, dotted: layer, parameters.cache_percent, engine.depth, latency_ns.all.p99. In the table runs that \
differ in their seed alone share a line, as mean ± 95 % confidence interval with \
their number n, and among the lines of one demand * marks the least of the \
first value. CSV has a line a run, with numbers in full.

Examples:
  smrkit results caches.results
  smrkit results caches.results --show slowdown,verdict.stalls_over_7s --where layer=drive-managed
  smrkit results caches.results --format csv > caches.csv";

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
    /// Values shown, with commas between [default: slowdown or, of requests at their own times, the mean latency; then the other of
    /// both, write_amplification, and p99 and max latency].
    #[arg(long, value_delimiter = ',', value_name = "KEY1,KEY2")]
    show: Vec<String>,
    /// Format of the table.
    #[arg(long, value_enum, default_value_t)]
    format: TableFormat,
    /// Show nothing, and remove results that no sweep of the store has any more: those of older files, layers and versions.
    #[arg(long, conflicts_with_all = ["sweep", "wanted", "show", "format", "json"])]
    prune: bool,
    /// Write the results as JSON; - is standard output.
    #[arg(long, value_name = "OUT|-")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum TableFormat {
    #[default]
    Table,
    Csv,
}

fn wanted(text: &str) -> Result<(String, String), Error> {
    let pair = text.split_once('=').map(|(key, value)| (key.to_string(), value.to_string()));
    pair.ok_or_else(|| Error::Usage(format!("`{text}`: expected KEY=VALUE, such as layer=rmw")))
}

impl Results {
    pub fn execute(self) -> anyhow::Result<Done> {
        let store = Store::open(&self.store)?;
        if self.prune {
            print(format!("{} files removed\n", store.prune()?))?;
            return Ok(Done::All);
        }
        let outcomes = filter(store.chosen(self.sweep.as_deref())?, &self.wanted)?;
        if let Some(path) = &self.json {
            JsonTarget::open(path)?.write(pretty(&Outcomes::new(outcomes))?)?;
            return Ok(Done::All);
        }
        let rows = rows(&outcomes);
        let keys = if self.show.is_empty() { shown(&rows) } else { self.show };
        print(match self.format {
            TableFormat::Table => table(&rows, &keys)?.text() + "\n",
            TableFormat::Csv => csv(&rows, &keys)?,
        })?;
        Ok(Done::All)
    }
}
