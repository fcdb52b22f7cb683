//! `smrkit replay`: serves the log of a served drive once more in the simulator.

use std::path::PathBuf;

use clap::Args;
use smrkit_live::block::log::replay;
use smrkit_report::format;

use crate::exit::Done;
use crate::output::print;

const EXAMPLES: &str = "\
Examples:
  smrkit replay disk.log

Exit code: 0 all requests took the simulator's time to the nanosecond, 5 some did not.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Replay {
    /// A file that smrkit serve --log wrote.
    #[arg(value_name = "LOG")]
    log: PathBuf,
}

impl Replay {
    pub fn execute(self) -> anyhow::Result<Done> {
        let replayed = replay(&self.log)?;
        let requests = format::counted(replayed.requests, "request");
        let text = match &replayed.first {
            None => format!("{requests} took the simulator's time to the nanosecond\n"),
            Some(first) => format!(
                "{requests}: {}, the first in line {}\n  logged    {}\n  replayed  {}\n",
                format::counted(replayed.differences, "different line"),
                first.line,
                first.logged,
                first.replayed
            ),
        };
        print(text)?;
        Ok(if replayed.differences == 0 { Done::All } else { Done::Code(5) })
    }
}
