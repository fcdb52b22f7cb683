//! `smrkit fleet`: the repair times of many drives, and their losses.

use std::path::PathBuf;

use clap::Args;
use smrkit_advise::fleet::FleetOptions;

use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::output::{OutputOptions, note_stand_ins, pretty};
use crate::style;
use smrkit_report::format::WIDTH;

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit fleet --drive hc680 --disks 10000 --code 17+3         host-managed drives, and the same drives without shingling
  smrkit fleet --drive st8000dm004,hc680 --object 64Mi --throttle 50MB/s
  smrkit fleet --disks 5 --code 4+1 --groups 1                 RAID 5
  smrkit fleet --drive hc680 --head-loss 30%                   drives that keep the surfaces which they have left
  smrkit fleet --racks 20 --rack-loss 0.1% --rack-share 10%

docs/how-to/fleet.md says what the answer rests on.
Exit codes: 0 done, 1 anything else, 2 usage, 3 bad input, 4 impossible configuration, 130 interrupted.")]
pub struct Fleet {
    #[command(flatten)]
    asked: FleetOptions,
    /// Write the results as JSON; - is standard output.
    #[arg(long, value_name = "OUT|-")]
    json: Option<PathBuf>,
}

impl Fleet {
    pub fn execute(self) -> anyhow::Result<Done> {
        let outputs = OutputOptions { json: self.json, report: None }.open()?;
        let interrupt = Interrupt::watch();
        let Some((answer, notes)) = self.asked.answer(&interrupt)? else {
            eprintln!("smrkit: interrupted before the drives' runs were finished, so there is no answer");
            return Ok(Done::Interrupted);
        };
        note_stand_ins(notes.into_iter());
        // From now on the first Ctrl-C does not end the process, so that what is written is whole.
        interrupt.writing();
        let text = || answer.screen(style::terminal().columns.unwrap_or(WIDTH));
        outputs.write(text, || pretty(&answer), String::new)?;
        Ok(Done::All)
    }
}
