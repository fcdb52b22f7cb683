//! `smrkit snapshot`: copies an image with the state of its drive.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args;
use smrkit_live::block::image::{DriveImage, state_path};
use smrkit_live::error::LiveError;

use crate::exit::Done;

const EXAMPLES: &str = "\
Examples:
  smrkit snapshot disk.img full.img                    a test may spoil the copy, and the next one takes a new copy

Where the file system shares blocks (btrfs, xfs), that takes no time and no room.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Snapshot {
    /// The image, which is not being served.
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// The copy to make, and COPY.smr beside it.
    #[arg(value_name = "COPY")]
    copy: PathBuf,
}

impl Snapshot {
    pub fn execute(self) -> anyhow::Result<Done> {
        // Locks the image until both files are copied.
        let image = DriveImage::open(&self.image, |_| Ok(None))?;
        let pairs = [(&self.image, &self.copy), (&state_path(&image.path), &state_path(&self.copy))]
            .map(|(from, to)| (from.clone(), to.clone()));
        if let Some((_, taken)) = pairs.iter().find(|(_, to)| to.symlink_metadata().is_ok()) {
            let remedy = "something is there already: give the copy another name, or remove it";
            return Err(LiveError::image(taken, remedy).into());
        }
        for (from, to) in &pairs {
            let mut copy = Command::new("cp");
            copy.args(["--reflink=auto", "--sparse=always"]).arg("--").args([from, to]);
            if !copy.status().context("cp")?.success() {
                bail!("{} could not be copied to {}", from.display(), to.display());
            }
        }
        Ok(Done::All)
    }
}
