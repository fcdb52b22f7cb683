//! The drive or the array, and its layers.

use clap::Args;

/// The drive that is taken where none is named: a shipped drive-managed one.
pub const DEFAULT_DRIVE: &str = "st5000as0011";

#[derive(Args)]
pub struct System {
    /// A drive that comes with smrkit (see smrkit drives), or a drive file [default: st5000as0011].
    #[arg(long)]
    pub drive: Option<String>,
    /// Layers, with commas between (see smrkit layers) [default: all; with --check all but in-place].
    #[arg(long, value_delimiter = ',')]
    pub layer: Vec<String>,
    /// An array of drives, as LEVEL:key=value,… or a TOML file; what it leaves out of a member (layer, drive, capacity) is
    /// that of this run. Levels: span, raid0, raid1, raid10, raid4, raid5, raid6, dedicated.
    #[arg(long, value_name = "SPEC")]
    pub array: Option<String>,
}

impl System {
    /// The drive's name or file.
    pub fn drive(&self) -> &str {
        self.drive.as_deref().unwrap_or(DEFAULT_DRIVE)
    }
}
