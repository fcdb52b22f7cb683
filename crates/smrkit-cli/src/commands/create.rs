//! `smrkit create`: makes the image of a drive that `smrkit serve` serves.

use std::path::PathBuf;

use clap::Args;
use smrkit::error::Error;
use smrkit::experiment::size::AskedCapacity;
use smrkit::experiment::system::{System, Systems};
use smrkit::layer;
use smrkit::quantity::Bytes;
use smrkit::settings::Settings;
use smrkit_live::block::image::{self, DriveImage};

use crate::exit::Done;
use crate::output::print;

const EXAMPLES: &str = "\
Examples:
  smrkit create disk.img --layer drive-managed
  smrkit create disk.img --layer s-block --capacity 64GB --set s-block.cache_percent=2
  smrkit create disk.img --layer in-place --capacity 64GB       a conventional disk, to compare with

The image is sparse: it takes up what is written to it. smrkit serve shows it as a block device.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Create {
    /// The image file to make.
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// A drive that comes with smrkit (see smrkit drives), or a drive file [default: st5000as0011].
    #[arg(long)]
    drive: Option<String>,
    /// The layer (see smrkit layers).
    #[arg(long, default_value = "drive-managed")]
    layer: String,
    /// The drive's size; a host is offered what the layer leaves of it [default: the drive's own].
    #[arg(long, value_name = "SIZE")]
    capacity: Option<AskedCapacity>,
    /// A parameter: LAYER.KEY=VALUE.
    #[arg(long, value_name = "LAYER.KEY=VALUE")]
    set: Vec<String>,
    /// Overwrite what is there.
    #[arg(long)]
    force: bool,
}

impl Create {
    pub fn execute(self) -> anyhow::Result<Done> {
        layer::find(&self.layer)?;
        let system = System {
            drives: self.drive.iter().cloned().collect(),
            layers: vec![self.layer.clone()],
            set: self.set.clone(),
            capacity: self.capacity,
            ..System::default()
        };
        let mut runs = Systems::new(&system)?.runs(&[Settings::default()], None)?;
        let (Some(planned), true) = (runs.pop(), runs.is_empty()) else {
            return Err(Error::Usage("an image holds one drive: give each parameter one value".into()).into());
        };
        let image = image::create(&self.image, image::complete_record(&planned.run), self.force)?;
        print(text(&image))?;
        Ok(Done::All)
    }
}

/// Text on what a host will find.
fn text(image: &DriveImage) -> String {
    let run = image.run();
    format!(
        "{}: {} of {} under {}\n",
        image.path().display(),
        Bytes::of_sectors(image.export_sectors()),
        run.drive.name,
        run.layer.name
    )
}
