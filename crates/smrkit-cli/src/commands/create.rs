//! `smrkit create`: makes an image that `smrkit serve` serves as a drive or an array.

use std::path::PathBuf;

use clap::Args;
use smrkit::error::Error;
use smrkit::experiment::system::{AskedCapacity, DefaultLayers, System, Systems};
use smrkit::quantity::Bytes;
use smrkit::settings::{Queue, Settings};
use smrkit::stats::outcome::RunRecord;
use smrkit_live::block::drive::{PreparedState, ServedDrive};
use smrkit_live::block::image::{self, DriveImage};
use smrkit_live::block::report::ImageReport;
use smrkit_live::block::server::lack_of_ublk;
use smrkit_options::run::{SystemOptions, read_state};

use crate::interrupt::Interrupt;
use crate::output::{note_stand_ins, print};

/// The drive or the array that an image is served as.
#[derive(Args)]
pub struct DriveChoice {
    /// The drive's name, a model string, or a drive file. See smrkit drives [default: st8000dm004].
    #[arg(long)]
    drive: Option<String>,
    /// The layer. See smrkit layers [default: the one that the drive is sold with].
    #[arg(long, value_name = "NAME")]
    layer: Option<String>,
    /// An array: LEVEL:key=value,…. See smrkit run --help.
    #[arg(long, value_name = "SPEC")]
    array: Option<String>,
    /// Size of the drive, or of each member. A host is offered what the layer leaves of it [default: the drive's own].
    #[arg(long, value_name = "SIZE")]
    capacity: Option<AskedCapacity>,
    /// Set a parameter of the layer.
    #[arg(long, value_name = "LAYER.KEY=VALUE")]
    set: Vec<String>,
}

impl DriveChoice {
    /// True if any of these options was given.
    pub fn is_made(&self) -> bool {
        let DriveChoice { drive, layer, array, capacity, set } = self;
        drive.is_some() || layer.is_some() || array.is_some() || capacity.is_some() || !set.is_empty()
    }

    /// The drive or the array. If no size was given, it has room for at least `sectors`.
    pub fn record(&self, sectors: Option<u64>) -> Result<RunRecord, Error> {
        let (drive, array) = (self.drive.clone(), self.array.clone());
        let asked = SystemOptions { drive, layer: self.layer.iter().cloned().collect(), array }.asked(self.capacity)?;
        let system = System { set: self.set.clone(), default_layers: DefaultLayers::AsSold, ..asked };
        let systems = Systems::new(&system)?;
        note_stand_ins(systems.stand_ins());
        match &systems.runs(&[Settings::default()], sectors)?[..] {
            [planned] => Ok(image::complete_record(planned)),
            _ => {
                let remedy = "an image holds one drive or array: name one layer, and give each parameter one value";
                Err(Error::Usage(remedy.into()))
            }
        }
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit create disk.img --layer drive-managed
  smrkit create disk.img --layer s-block --capacity 64GB --set s-block.cache_percent=2
  smrkit create disk.img --layer in-place --capacity 64GB       a conventional disk, to compare with
  smrkit create disk.img --capacity 64GB --state nearly-full    its cache has room for a moment
  smrkit create raid.img --array raid5:disks=4 --capacity 64GB  an array of four such drives

The image is a plain raw file, sparse: it takes up what is written to it. smrkit serve presents it as a block device.")]
pub struct Create {
    /// The image file to make, and IMAGE.smr beside it.
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    #[command(flatten)]
    choice: DriveChoice,
    /// State in which the drive begins: new; with a persistent cache that is nearly full (95 %), full, or being
    /// cleaned; or the state in a file that smrkit run --save-state wrote. For a log, all sectors are written, and the
    /// same share is used up of the space that it has before it must clean [default: new].
    #[arg(long, value_name = "nearly-full|full|cleaning|FILE")]
    state: Option<String>,
    /// Overwrite what is there.
    #[arg(long)]
    force: bool,
}

impl Create {
    pub fn execute(self) -> anyhow::Result<()> {
        let interrupt = Interrupt::watch();
        let state = self.state.as_deref().map(prepared).transpose()?;
        let image = image::create(&self.image, self.choice.record(None)?, self.force)?;
        let text = text(&image);
        if image.system.drives().iter().any(|drive| drive.layer.name == "set-assoc") {
            eprintln!(
                "smrkit: set-assoc keeps the map of its persistent cache in memory: a power cut takes what is there, flushed or not"
            );
        }
        if image::is_host_managed(&image.system)
            && let Some(lack) = lack_of_ublk(true)
        {
            eprintln!(
                "smrkit: only smrkit serve --ublk shows a host the zones of this drive, and it can't be used here: {lack}"
            );
        }
        if let Some(state) = state {
            // An interrupt removes them: nobody asked for a new drive.
            interrupt.opening().extend([self.image.clone(), image::state_path(&self.image)]);
            let prepared = ServedDrive::open(image, None, Queue::Fcfs).and_then(|(mut drive, _)| {
                drive.prepare(&state)?;
                drive.close()
            });
            prepared.inspect_err(|_| image::remove(&self.image))?;
            interrupt.opening().clear();
        }
        print(text)
    }
}

/// Parses `--state`.
fn prepared(name: &str) -> Result<PreparedState, Error> {
    Ok(match name {
        "nearly-full" => PreparedState::NearlyFull,
        "full" => PreparedState::Full,
        "cleaning" => PreparedState::Cleaning,
        file => PreparedState::Saved(read_state(file.as_ref())?),
    })
}

/// Text on the drive as a host will see it.
fn text(image: &DriveImage) -> String {
    let ImageReport { drive, layer, array, .. } = image.describe();
    let array = array.map_or_else(String::new, |array| format!("{array}, "));
    let size = Bytes::of_sectors(image.sectors());
    format!("{}: {size} of {array}{drive} under {layer}\n", image.path.display())
}
