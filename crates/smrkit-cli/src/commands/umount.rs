//! `smrkit umount`: ends a mount, and waits until all is durable.

use std::path::PathBuf;

use clap::Args;
use smrkit_live::mount;

use crate::exit::Done;

const EXAMPLES: &str = "\
Examples:
  smrkit umount /mnt/smr";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Umount {
    /// The mount point.
    #[arg(value_name = "MOUNTPOINT")]
    mount_point: PathBuf,
    /// Unmount even if some data can't be saved; data that was synced before is safe.
    #[arg(long)]
    give_up: bool,
}

impl Umount {
    pub fn execute(self) -> anyhow::Result<Done> {
        mount::end(&mount::canonical(&self.mount_point)?, self.give_up)?;
        Ok(Done::All)
    }
}
