//! `smrkit advise`: what a demand meets on one drive or array, and which change would fix it, each shown by a run.

use std::path::PathBuf;

use clap::Args;
use smrkit_advise::options::{AdviseOptions, AskedAdvice};
use smrkit_advise::screen;

use super::trace::warn;
use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::output::{JsonTarget, pretty, print};
use crate::style;
use smrkit_options::paths::Paths;
use smrkit_trace::output::TargetFile;

const EXAMPLES: &str = "\
Examples:
  smrkit advise --workload random-write:count=100k             a drive-managed disk of 5 TB under random writes
  smrkit advise --trace trace.csv.gz --fold                    a trace of yours
  smrkit advise --trace trace.csv --arrival trace              the same at its own times
  smrkit advise --array raid5:disks=4 --workload mix:count=50k --depth 1,32
  smrkit advise --array raidz1:disks=4 --rebuild resilver      how long a resilver takes, and whether it ends

The answer is for the deepest of the depths; docs/reference/advise.md says what is tried and what the words mean.
Exit codes: 0 done, 1 anything else, 2 usage, 3 bad input, 4 impossible configuration, 130 interrupted.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Advise {
    #[command(flatten)]
    asked: AdviseOptions,
    /// Write the results as JSON; - is standard output.
    #[arg(long, value_name = "OUT|-")]
    json: Option<PathBuf>,
    /// Write one HTML page that opens offline.
    #[arg(long, value_name = "OUT.html")]
    report: Option<PathBuf>,
}

impl Advise {
    pub fn execute(self) -> anyhow::Result<Done> {
        let asked = self.asked.ask(false)?;
        let (json, report) = self.open(&asked)?;
        let interrupt = Interrupt::watch();
        let demand = asked.demand()?;
        let Some(advice) = asked.answer(demand, &interrupt)? else {
            eprintln!("smrkit: interrupted before the drive as it is was known: no answer");
            return Ok(Done::Interrupted);
        };
        interrupt.writing();
        warn(advice.demand.replayed.trace_notes);
        if !matches!(json, Some(JsonTarget::Stdout)) {
            print(screen::text(&advice, style::is_coloured()))?;
        }
        json.map_or(Ok(()), |json| json.write(pretty(&advice)?))?;
        report.map_or(Ok(()), |report| report.write(screen::page(&advice).as_bytes()))?;
        Ok(if advice.complete { Done::All } else { Done::Interrupted })
    }

    /// Opens the outputs besides the terminal, once it is known that none is an input.
    fn open(&self, asked: &AskedAdvice) -> anyhow::Result<(Option<JsonTarget>, Option<TargetFile>)> {
        let mut paths = Paths { outputs: self.json.iter().chain(&self.report).cloned().collect(), ..Paths::default() };
        paths.inputs.extend(asked.files());
        paths.check()?;
        let interrupt = Interrupt::watch();
        let _opening = interrupt.opening_outputs(&paths);
        Ok((
            self.json.as_deref().map(JsonTarget::open).transpose()?,
            self.report.as_ref().map(TargetFile::open).transpose()?,
        ))
    }
}
