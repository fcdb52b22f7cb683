//! Options of the commands that open a volume.

use std::path::PathBuf;

use clap::Args;
use smrkit_live::volume::Open;

/// Place of the metadata directory, and the users who may get at it.
#[derive(Args, Clone, Debug, Default)]
pub struct VolumeOptions {
    /// The metadata directory. Where the image says, if it was not moved.
    #[arg(long, value_name = "DIR")]
    pub meta: Option<PathBuf>,
    /// Continue although other users can access the files, or own them.
    #[arg(long)]
    pub trust_open_metadata: bool,
}

impl VolumeOptions {
    /// Options of opening it to be changed.
    pub fn open(&self) -> Open {
        Open { meta: self.meta.clone(), trust_open_metadata: self.trust_open_metadata, ..Open::default() }
    }
}
