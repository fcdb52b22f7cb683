//! `smrkit sync`: makes everything on a mount durable.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use smrkit_live::mount;
use smrkit_live::mount::control::{ControlClient, ControlCommand};

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
        let point = mount::canonical(&self.mount_point)?;
        let synced = mount::sync(&point);
        // The kernel reports only that the sync failed; the mount itself knows whether a flush was lost.
        if synced.is_err()
            && let Ok(report) = ControlClient::connect(&point).and_then(|mut client| client.ask(ControlCommand::Report))
            && report["flush_failed"] == true
        {
            bail!("a flush failed: nothing is acknowledged any more (smrkit umount names what is unsaved)");
        }
        synced?;
        Ok(Done::All)
    }
}
