//! `smrkit defragment`: moves the data of files on a mount into as few extents as possible.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use smrkit::error::Error;
use smrkit_live::mount::control::{Client, Command};

use crate::exit::Done;

const EXAMPLES: &str = "\
Examples:
  smrkit defragment /mnt/smr/database";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Defragment {
    /// Files on a mount.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

impl Defragment {
    pub fn execute(self) -> anyhow::Result<Done> {
        for file in &self.files {
            let path = file.canonicalize().map_err(|error| Error::reading(file, error))?;
            let metadata = fs::metadata(&path).map_err(|error| Error::reading(file, error))?;
            if !metadata.is_file() {
                return Err(
                    Error::input(file, "not a regular file, and only those have data to move: name files").into()
                );
            }
            let mut client = Client::connect(mount_point_of(&path, metadata.dev()))?;
            client.ask(Command::Defragment { inode: metadata.ino() }).with_context(|| file.display().to_string())?;
        }
        Ok(Done::All)
    }
}

/// The highest directory above `path` that is on the same device.
fn mount_point_of(path: &Path, device: u64) -> &Path {
    let same = |path: &&Path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.dev() == device);
    path.ancestors().take_while(same).last().unwrap_or(path)
}
