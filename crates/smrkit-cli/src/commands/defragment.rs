//! `smrkit defragment`: moves the data of files on a mount into as few extents as possible.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use smrkit::error::Error;
use smrkit_live::mount::control::{ControlClient, ControlCommand};

use crate::exit::Done;

const EXAMPLES: &str = "\
Examples:
  smrkit defragment /mnt/smr/database
  smrkit defragment -r /mnt/smr/mail";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Defragment {
    /// Files on a mount.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Move all files below directories, too.
    #[arg(short, long)]
    recursive: bool,
}

impl Defragment {
    pub fn execute(self) -> anyhow::Result<Done> {
        for file in &self.files {
            let path = file.canonicalize().map_err(|error| Error::reading(file, error))?;
            let metadata = fs::metadata(&path).map_err(|error| Error::reading(file, error))?;
            let mut client = ControlClient::connect(mount_point_of(&path, metadata.dev()))?;
            if metadata.is_dir() && self.recursive {
                below(&path, &mut client)?;
            } else if metadata.is_file() {
                defragment(&path, &metadata, &mut client)?;
            } else {
                let what = "not a regular file, and only those have data to move: name files, or directories with -r";
                return Err(Error::input(file, what).into());
            }
        }
        Ok(Done::All)
    }
}

fn defragment(path: &Path, metadata: &Metadata, client: &mut ControlClient) -> anyhow::Result<()> {
    client.ask(ControlCommand::Defragment { inode: metadata.ino() }).with_context(|| path.display().to_string())?;
    Ok(())
}

/// Moves all files below a directory. Links are not followed, and files that disappear meanwhile are skipped.
fn below(directory: &Path, client: &mut ControlClient) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory).map_err(|error| Error::reading(directory, error))? {
        let path = entry.map_err(|error| Error::reading(directory, error))?.path();
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            below(&path, client)?;
        } else if metadata.is_file() {
            defragment(&path, &metadata, client)?;
        }
    }
    Ok(())
}

/// The highest directory above `path` that is on the same device.
fn mount_point_of(path: &Path, device: u64) -> &Path {
    let same = |path: &&Path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.dev() == device);
    path.ancestors().take_while(same).last().unwrap_or(path)
}
