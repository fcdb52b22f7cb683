//! `smrkit inject`: injects a fault into a served drive.

use std::path::PathBuf;

use clap::Args;
use smrkit_live::block::control::InjectedFault;
use smrkit_live::block::image;
use smrkit_live::mount::control::ControlCommand;

use super::drive_image::connect;
use crate::exit::Done;

const EXAMPLES: &str = "\
Examples:
  smrkit inject disk.img power-cut            the next write of the drive is torn, and commands under way fail
  smrkit inject disk.img bad-sector 2048      reads of the sector fail until it is written
  smrkit inject disk.img slow 8s              the next request takes 8 seconds longer
  smrkit inject disk.img timeout              the next request never completes
  smrkit inject disk.img fail write lba=0..4096 count=3
                                              three writes to these sectors fail
  smrkit inject disk.img fail every=100 probability=0.5
                                              of each hundredth request every second fails
  smrkit inject disk.img corrupt lba=2048..4096
                                              reads of these sectors return wrong data
  smrkit inject disk.img clear                no request fails any more, and all sectors can be read
  smrkit inject disk.img idle 1h              an hour without requests passes at once
  smrkit inject raid.img fail-member 1        the second drive of an array fails
  smrkit inject raid.img replace-member 1     a new one takes its place, and is rebuilt

Every fault is in the log of smrkit serve --log.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Inject {
    /// The image that smrkit serve serves.
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// The fault: power-cut [SEED], bad-sector LBA, slow TIME, timeout, idle TIME, clear, fail-member N, replace-member N; fail [OP] or
    /// corrupt, with lba=FIRST..END, count=N, every=N, probability=P.
    #[arg(value_name = "FAULT", required = true, num_args = 1..)]
    fault: Vec<String>,
}

impl Inject {
    pub fn execute(self) -> anyhow::Result<Done> {
        let fault = self.fault.join(" ");
        fault.parse::<InjectedFault>()?;
        connect(&image::canonical(&self.image)?)?.ask(ControlCommand::Inject { fault })?;
        Ok(Done::All)
    }
}
