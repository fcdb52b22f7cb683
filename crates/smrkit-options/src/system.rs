//! The drive or the array, and its layers.

use std::path::{Path, PathBuf};

use clap::Args;
use smrkit::device::level::Level;
use smrkit::device::spec::ArraySpec;
use smrkit::error::Error;
use smrkit::experiment::size::AskedCapacity;
use smrkit::experiment::system::System;

/// The drive or the array, and its layers.
#[derive(Args, Clone)]
pub struct SystemOptions {
    /// The drive's name, or a drive file. See smrkit drives [default: st5000as0011].
    #[arg(long)]
    pub drive: Option<String>,
    /// Layers, with commas between. See smrkit layers [default: all; with --check all but in-place].
    #[arg(long, value_delimiter = ',')]
    pub layer: Vec<String>,
    /// An array of drives, as LEVEL:key=value,… or a TOML file.
    #[arg(long, value_name = "SPEC", help = array_help())]
    pub array: Option<String>,
}

fn array_help() -> String {
    format!(
        "An array: LEVEL:key=value,… or a TOML file. What it leaves out of a member (layer, drive, capacity) is \
         that of this run. Levels: {}",
        Level::names()
    )
}

impl SystemOptions {
    /// Files that describe the drive or the array.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let array = self.array.as_deref().filter(|text| text.ends_with(".toml"));
        [self.drive.as_deref(), array].into_iter().flatten().map(PathBuf::from).filter(|path| path.is_file())
    }

    /// The system that they ask for, without parameters.
    pub fn asked(&self, capacity: Option<AskedCapacity>) -> Result<System, Error> {
        let array = self.array.as_deref().map(read_array).transpose()?;
        let (drives, layers) = (self.drive.iter().cloned().collect(), self.layer.clone());
        Ok(System { array, drives, layers, capacity, ..System::default() })
    }
}

/// The array that `--array` describes, as text or as the path of a TOML file.
fn read_array(text: &str) -> Result<ArraySpec, Error> {
    if !text.ends_with(".toml") {
        return ArraySpec::parse(text).map_err(|error| match Path::new(text).exists() {
            true => Error::Usage(format!(
                "{{array}} {text} is a path: the name of a file that describes one must end in .toml"
            )),
            false => error,
        });
    }
    let content = std::fs::read_to_string(text).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => Error::input(text, "not a text file: give an array in TOML"),
        _ => Error::reading(text, error),
    })?;
    ArraySpec::from_toml(Path::new(text), &content)
}
