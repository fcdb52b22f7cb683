//! `smrkit results`: a table of what sweeps computed.

use std::path::PathBuf;

use clap::Args;
use smrkit::error::Error;
use smrkit::stats::outcome::Outcomes;
use smrkit_sweep::frame::rows;
use smrkit_sweep::pairs::Pairs;
use smrkit_sweep::store::Store;
use smrkit_sweep::table::{filter, intervals, runs, shown_keys, text_of};

use crate::output::{JsonTarget, pretty, print};

#[derive(Args)]
#[command(after_help = "\
Keys are those of outcome.json, dotted: layer, parameters.cache_percent, engine.depth, latency_ns.all.p99. In the table runs that \
differ in their seed alone share a line, as mean ± 95 % confidence interval with \
their number n, and among the lines of one demand * marks the best of the \
first value. CSV and Parquet have a line a run, or with --intervals a line as the table has, with the columns n, KEY.mean, KEY.low and \
KEY.high; numbers are in full, and in the unit that the key ends in. A run that has no other seeds, such as a replay, then has the \
interval of its own requests.

--compare pairs runs with the same requests and seed. Each line is the second's value as a multiple of the first's, with the 95 % \
confidence interval; where a value may be 0 it is the difference.

Examples:
  smrkit results caches.results
  smrkit results caches.results --show slowdown,verdict.stalls_over_7s --where layer=drive-managed
  smrkit results caches.results --compare layer=drive-managed,vguard
  smrkit results caches.results --intervals --format csv > caches.csv")]
pub struct Results {
    /// The folder that sweeps wrote into.
    store: PathBuf,
    /// Show one sweep of the store, by the name of its file [default: all].
    #[arg(long, value_name = "NAME")]
    sweep: Option<String>,
    /// Show only runs in which a key has this value. May be repeated.
    #[arg(long = "where", value_name = "KEY=VALUE", value_parser = wanted)]
    wanted: Vec<(String, String)>,
    /// Keys to show, separated by commas [default: slowdown, mean latency, write_amplification, and p99 and max
    /// latency; for requests at their own times the mean latency comes first].
    #[arg(long, value_delimiter = ',', value_name = "KEY1,KEY2")]
    show: Vec<String>,
    /// Compare two layers, drives or values of a setting, run by run.
    #[arg(long, value_name = "KEY=A,B", value_parser = wanted)]
    compare: Option<(String, String)>,
    /// Show 95 % confidence intervals: over the seeds, or of a single run by its own requests. In CSV and Parquet, runs
    /// that differ only in their seed are one line.
    #[arg(long, conflicts_with = "compare")]
    intervals: bool,
    /// Format of the table.
    #[arg(long, value_parser = ["table", "csv"], default_value = "table")]
    format: String,
    /// Write the CSV table as Parquet.
    #[arg(long, value_name = "OUT.parquet", conflicts_with = "json")]
    parquet: Option<PathBuf>,
    /// Show nothing, and remove results that no sweep of the store uses any more: those of older files, layers and
    /// versions.
    #[arg(long, conflicts_with_all = ["sweep", "wanted", "show", "format", "json", "compare", "intervals", "parquet"])]
    prune: bool,
    /// Write the results as JSON; - is standard output.
    #[arg(long, value_name = "OUT|-")]
    json: Option<PathBuf>,
}

fn wanted(text: &str) -> Result<(String, String), Error> {
    let pair = text.split_once('=').map(|(key, value)| (key.to_string(), value.to_string()));
    pair.ok_or_else(|| Error::Usage(format!("`{text}`: expected KEY=VALUE, such as layer=rmw")))
}

impl Results {
    pub fn execute(self) -> anyhow::Result<()> {
        let store = Store::open(&self.store)?;
        if self.prune {
            return print(format!("{} files removed\n", store.prune()?));
        }
        let outcomes = filter(store.of_sweep_or_all(self.sweep.as_deref())?, &self.wanted)?;
        let (missing, all) = store.missing(self.sweep.as_deref())?;
        if missing > 0 {
            eprintln!("{missing} of {all} comparisons are missing: smrkit sweep computes them");
        }
        if let Some(path) = &self.json {
            JsonTarget::open(path)?.write(pretty(&Outcomes::new(outcomes))?)?;
            return Ok(());
        }
        let rows = rows(&outcomes);
        let keys = shown_keys(&self.show, &rows);
        let pairs = self.compare.map(|(key, sides)| Pairs::new(&rows, &key, &sides, &keys)).transpose()?;
        let frame = || match &pairs {
            Some(pairs) => Ok(pairs.frame()),
            None if self.intervals => intervals(&rows, &keys),
            None => runs(&rows, &keys),
        };
        if let Some(path) = &self.parquet {
            frame()?.write(path, "table")?;
            return Ok(());
        }
        print(match (self.format.as_str(), &pairs) {
            ("csv", _) => frame()?.csv(),
            (_, Some(pairs)) => pairs.text(),
            (_, None) => text_of(&rows, &keys, self.intervals)? + "\n",
        })
    }
}
