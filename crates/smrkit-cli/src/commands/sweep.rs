//! `smrkit sweep`: many runs into a store, each comparison once.

use std::path::PathBuf;

use clap::Args;
use smrkit::experiment::pool::Monitor;
use smrkit::message::worded;
use smrkit_report::format::counted;
use smrkit_sweep::execute::execute;
use smrkit_sweep::plan::{Part, Sweep as Plan};
use smrkit_sweep::store::Store;
use smrkit_sweep::table::page;

use crate::exit::{self, Done};
use crate::interrupt::Interrupt;
use crate::output::print;
use crate::paths;
use smrkit_trace::output::TargetFile;

#[derive(Args)]
#[command(after_help = "\
A sweep's file has the options of smrkit run, and lists in place of values:

  drive = \"st5000as0011\"
  layer = [\"drive-managed\", \"set-assoc\"]
  trace = [\"monday.csv.gz\", \"tuesday.csv.gz\"]
  depth = [1, 32]
  repeat = 3                                   # seeds 1 to 3
  [set]
  \"set-assoc.cache_percent\" = [1, 2, 5]

Layers and parameters are compared on drives of one size; every other list multiplies. A list in a list is merged. What is in \
the store already is not computed again, also after an interrupt. A comparison that fails is told at the end, and stops no other. Paths \
count from the folder of the file.

Volumes of a trace, each on a disk of its own, are a list too: convert the trace to Parquet once (smrkit trace convert), then \
trace = \"cloud.parquet\" and volume = [0, 1, 2].

Examples:
  smrkit sweep caches.toml
  smrkit results caches.results --show trace,layer,slowdown")]
pub struct Sweep {
    /// The sweep's file.
    file: PathBuf,
    /// The folder that keeps the results. Several sweeps may share one [default: the file's name with .results].
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Compute one part of several: 2/8 is the second of eight. Jobs that see the same store share a sweep in this way.
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    part: Part,
    /// Write one HTML page that opens offline.
    #[arg(long, value_name = "OUT.html")]
    report: Option<PathBuf>,
}

impl Sweep {
    pub fn execute(self) -> anyhow::Result<Done> {
        let outputs: Vec<PathBuf> = self.report.iter().cloned().collect();
        // Checked before the store is made; opened only with a plan that can be read.
        paths::check(std::slice::from_ref(&self.file), &outputs)?;
        let plan = Plan { part: self.part, ..Plan::read(&self.file)? };
        let folder = self.store.unwrap_or_else(|| self.file.with_extension("results"));
        let store = Store::create(&folder)?;
        plan.note.iter().for_each(|note| eprintln!("smrkit: {note}"));
        let interrupt = Interrupt::watch();
        let report = {
            let _opening = interrupt.opening_outputs(&[], &outputs)?;
            self.report.as_ref().map(TargetFile::open).transpose()?
        };
        let done = execute(&plan, &store, &interrupt)?;
        interrupt.writing();
        let comparisons = counted(plan.comparisons.len() as u64, "comparison");
        let part = if plan.part == Part::ALL { String::new() } else { format!("part {} of ", plan.part) };
        let computed = counted(done.computed as u64, "run");
        print(format!(
            "{}: {part}{comparisons}; {computed} computed, {} found in {}\n",
            plan.name,
            done.found,
            folder.display()
        ))?;
        let outcomes = store.of_sweep(&plan.name)?;
        report.map_or(Ok(()), |report| report.write(page(&plan.name, &outcomes, &[])?.as_bytes()))?;
        if !interrupt.goes_on() {
            eprintln!("smrkit: interrupted; start it again to go on from there");
            return Ok(Done::Interrupted);
        }
        let mut failures = done.failures.into_iter();
        let Some(first) = failures.next() else { return Ok(Done::All) };
        failures.for_each(|failure| eprintln!("smrkit: {}", worded(&failure.message(), &exit::option)));
        Err(first.into())
    }
}
