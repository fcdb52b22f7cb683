//! `smrkit resize`: gives a volume that is not mounted another size.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use serde_json::json;
use smrkit::quantity::Bytes;
use smrkit_live::mount::control::path_value;
use smrkit_live::volume::resize;

use super::volume::VolumeOptions;
use crate::exit::Done;
use crate::output::print_as;

const EXAMPLES: &str = "\
Examples:
  smrkit resize disk.img 4GiB

Data stays where it lies: a size that would cut some off is refused, and the least one named. Run it again if it was interrupted.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Resize {
    /// The image or block device; it must not be mounted.
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// The size that the image is to have.
    #[arg(value_name = "SIZE", value_parser = Bytes::from_str)]
    size: Bytes,
    #[command(flatten)]
    volume: VolumeOptions,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Resize {
    pub fn execute(self) -> anyhow::Result<Done> {
        let resized = resize(&self.image, &self.volume.open(), self.size.0)?;
        let granule = resized.after.granule_bytes;
        let (before, after) = (resized.before.granules * granule, resized.after.granules * granule);
        let usable = resized.usable * granule;
        let record = || {
            let image = path_value(&self.image);
            json!({"image": image, "raw_bytes": after, "raw_bytes_before": before, "usable_bytes": usable})
        };
        let text = || {
            let (usable, after, before) = (Bytes(usable), Bytes(after), Bytes(before));
            format!("{}: {usable} for files of {after}, before {before}\n", self.image.display())
        };
        print_as(self.json, record, text)?;
        Ok(Done::All)
    }
}
