//! `smrkit advise`: will a drive or an array do for a load, and what would help if not, each shown by a run.

use std::path::PathBuf;

use clap::Args;
use smrkit_advise::options::{AdviseOptions, AskedAdvice};
use smrkit_advise::screen::{self, Screen};

use super::trace::warn;
use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::output::{JsonTarget, note_stand_ins, pretty, print};
use crate::paths::Paths;
use crate::style;
use smrkit_trace::output::TargetFile;

const EXAMPLES: &str = "\
Examples:
  smrkit advise --drive wd40efax --workload random-write:count=100k
  smrkit advise --trace trace.csv.gz --fold                    a trace of yours
  smrkit advise --trace trace.csv --arrival trace              the same at its own times
  smrkit advise --array raid5:disks=4 --workload mix:count=50k --depth 1,32
  smrkit advise --array raidz1:disks=4 --rebuild resilver      how long a resilver takes, unused and used, and whether it ends

docs/reference/advise.md says what is tried and what the words mean.
Exit codes: 0 done, 1 anything else, 2 usage, 3 bad input, 4 impossible configuration, 130 interrupted.";

/// Columns that lines take at most, to be read well.
const WIDEST: usize = 120;

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Advise {
    #[command(flatten)]
    asked: AdviseOptions,
    /// Show the drive at both ends of what is known of it, what could not be run, and what exactly was run.
    #[arg(long)]
    details: bool,
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
        note_stand_ins(asked.stand_ins());
        let (json, report) = self.open(&asked)?;
        let interrupt = Interrupt::watch();
        let demand = asked.demand()?;
        let Some(advice) = asked.answer(demand, &interrupt)? else {
            eprintln!("smrkit: interrupted before the first simulation finished, so there is no answer");
            return Ok(Done::Interrupted);
        };
        interrupt.writing();
        warn(advice.demand.replayed.trace_notes);
        if !matches!(json, Some(JsonTarget::Stdout)) {
            let terminal = style::terminal();
            let width = terminal.columns.unwrap_or(Screen::default().width).min(WIDEST);
            let screen = Screen { width, is_coloured: terminal.coloured, details: self.details };
            print(screen::text(&advice, screen))?;
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
