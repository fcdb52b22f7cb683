//! The drive or the array, and its layers.

use std::path::PathBuf;

use clap::Args;
use smrkit::device::level::Level;

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
    /// An array of drives, as LEVEL:key=value,… or a TOML file.
    #[arg(long, value_name = "SPEC", help = array_help())]
    pub array: Option<String>,
}

fn array_help() -> String {
    format!(
        "An array of drives, as LEVEL:key=value,… or a TOML file; what it leaves out of a member (layer, drive, capacity) is \
         that of this run. Levels: {}",
        Level::names()
    )
}

impl System {
    /// Files that describe the drive or the array.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let array = self.array.as_deref().filter(|text| text.ends_with(".toml"));
        [self.drive.as_deref(), array].into_iter().flatten().map(PathBuf::from).filter(|path| path.is_file())
    }

    /// The drive's name or file.
    pub fn drive(&self) -> &str {
        self.drive.as_deref().unwrap_or(DEFAULT_DRIVE)
    }
}
