//! Options of the commands that open a volume.

use std::path::PathBuf;

use clap::Args;
use smrkit_live::volume::Open;

/// Place of the metadata directory, and the users who may get at it.
#[derive(Args, Clone, Debug, Default)]
pub struct VolumeOptions {
    /// The metadata directory, if it is not where the image says.
    #[arg(long, value_name = "DIR")]
    pub meta: Option<PathBuf>,
    /// Go on although other users may get at the image or the metadata directory, or own it.
    #[arg(long)]
    pub trust_open_metadata: bool,
}

impl VolumeOptions {
    /// Options of opening it to be changed.
    pub fn open(&self) -> Open {
        Open { meta: self.meta.clone(), trust_open_metadata: self.trust_open_metadata, ..Open::default() }
    }
}
