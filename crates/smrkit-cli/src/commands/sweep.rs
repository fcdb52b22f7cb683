//! `smrkit sweep`: many runs into a store, each comparison once.

use std::path::{Path, PathBuf};

use clap::Args;
use smrkit_sweep::execute::execute;
use smrkit_sweep::plan::Sweep as Plan;
use smrkit_sweep::store::Store;

use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::output::print;

const EXAMPLES: &str = "\
A sweep's file has the options of smrkit run, and lists in place of values:

  drive = \"st5000as0011\"
  layer = [\"drive-managed\", \"set-assoc\"]
  trace = [\"monday.csv.gz\", \"tuesday.csv.gz\"]
  depth = [1, 32]
  repeat = 3                                   # seeds 1 to 3
  [set]
  \"set-assoc.cache_percent\" = [1, 2, 5]

Layers and parameters are compared on drives of one size; every other list multiplies. A list in a list is merged. What is in
the store already is not computed again, also after an interrupt.

Examples:
  smrkit sweep caches.toml
  smrkit results caches.results --pivot trace,layer,slowdown";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Sweep {
    /// The sweep's file.
    file: PathBuf,
    /// The folder that keeps the results; several sweeps may share one [default: the file's name with .results].
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
}

impl Sweep {
    pub fn execute(self) -> anyhow::Result<Done> {
        let plan = Plan::read(&self.file)?;
        let folder = self.store.unwrap_or_else(|| beside(&self.file));
        let store = Store::create(&folder)?;
        let interrupt = Interrupt::watch();
        let done = execute(&plan, &store, &interrupt)?;
        interrupt.writing();
        print(format!(
            "{}: {} comparisons; {} runs computed, {} found in {}\n",
            plan.name,
            plan.comparisons.len(),
            done.computed,
            done.found,
            folder.display()
        ))?;
        if !done.complete {
            eprintln!("smrkit: interrupted; start it again to go on from there");
        }
        Ok(if done.complete { Done::All } else { Done::Interrupted })
    }
}

fn beside(file: &Path) -> PathBuf {
    file.with_extension("results")
}
