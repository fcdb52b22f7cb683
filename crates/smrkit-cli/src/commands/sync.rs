//! `smrkit sync`: makes everything on a mount durable.

use std::path::PathBuf;

use clap::Args;
use smrkit_live::mount;

use crate::exit::Done;

const EXAMPLES: &str = "\
Examples:
  smrkit sync /mnt/smr

sync(1) does not reach a mount: Linux never tells it.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Sync {
    /// The mount point.
    #[arg(value_name = "MOUNTPOINT")]
    mount_point: PathBuf,
}

impl Sync {
    pub fn execute(self) -> anyhow::Result<Done> {
        mount::sync(&mount::canonical(&self.mount_point)?)?;
        Ok(Done::All)
    }
}
