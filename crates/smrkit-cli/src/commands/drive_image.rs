//! Commands on the images of served drives: `smrkit snapshot`, `inject`, `replay`, and what `df` and `fsck` do with such an image.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args;
use smrkit::error::Error;
use smrkit::quantity::Bytes;
use smrkit::settings::Queue;
use smrkit_live::block::control::InjectedFault;
use smrkit_live::block::drive::ServedDrive;
use smrkit_live::block::image::{self, DriveImage, state_path};
use smrkit_live::block::log::replay;
use smrkit_live::error::LiveError;
use smrkit_live::mount::control::{ControlClient, ControlCommand};
use smrkit_live::mount::{self, MountError};
use smrkit_report::format;

use crate::exit::Done;
use crate::output::{print, print_as};

/// Keys of a server's report that df prints.
const DF_KEYS: [&str; 8] = ["image", "layer", "drive", "array", "export_bytes", "raw_bytes", "cache_bytes", "process"];

/// The server of an image, or the process of a mount.
pub fn connect(image: &Path) -> anyhow::Result<ControlClient> {
    ControlClient::connect(image).map_err(|error| match error {
        MountError::NotMounted(path) if !path.is_dir() => {
            Error::input(path, "not being served: start smrkit serve first").into()
        }
        error => anyhow::Error::from(error),
    })
}

/// Prints the drive's size, and the space that its image uses. While it is served, its server reports them.
pub fn df(path: &Path, as_json: bool) -> anyhow::Result<()> {
    let used_bytes = std::fs::metadata(path).map_err(|error| LiveError::io(path, error))?.blocks() * 512;
    let (mut about, state) = match ControlClient::connect(&mount::canonical(path)?) {
        Ok(mut client) => {
            let mut about = client.ask(ControlCommand::Report)?;
            // The rest of the report is for `smrkit top`.
            if let Some(about) = about.as_object_mut() {
                about.retain(|key, _| DF_KEYS.contains(&key.as_str()));
            }
            let state = format!("; process {} serves it", about["process"]);
            (about, state)
        }
        Err(MountError::NotMounted(_)) => {
            let image = DriveImage::open(path, |_| Ok(None))?;
            let mut about = serde_json::to_value(image.describe())?;
            about["was_clean"] = image.was_clean.into();
            let state = if image.was_clean { "" } else { "; not closed cleanly" };
            (about, state.to_string())
        }
        Err(error) => return Err(error.into()),
    };
    about["image_bytes"] = used_bytes.into();
    let size = |key: &str| Bytes(about[key].as_u64().unwrap_or_default());
    let word = |key: &str| about[key].as_str().unwrap_or_default();
    let array = about["array"].as_str().map_or_else(String::new, |array| format!("{array}, "));
    let text = format!(
        "{}: {} of {array}{} ({} raw, {} cache) under {}; the image takes up {}{state}\n",
        path.display(),
        size("export_bytes"),
        word("drive"),
        size("raw_bytes"),
        size("cache_bytes"),
        word("layer"),
        Bytes(used_bytes)
    );
    print_as(as_json, || &about, || text)
}

/// Checks the layers' maps, after replaying the requests since the last checkpoint. Closes the image cleanly, unless `no_changes`.
pub fn fsck(path: &Path, no_changes: bool) -> anyhow::Result<Done> {
    let open = if no_changes { DriveImage::open_to_read } else { DriveImage::open };
    let image = open(path, |_| Ok(None))?;
    let was_clean = image.was_clean;
    let (drive, _) = ServedDrive::open(image, None, Queue::Drive)?;
    let checked = drive.check();
    drive.close()?;
    let state = if was_clean { "closed cleanly" } else { "not closed cleanly" };
    // Codes as those of fsck(8): 1 repaired, 4 errors left.
    let (verdict, code) = match checked {
        Ok(()) => ("the layer's maps make sense".to_string(), u8::from(!was_clean && !no_changes)),
        Err(fault) => (fault.to_string(), 4),
    };
    print(format!("{}: {state}: {verdict}\n", path.display()))?;
    Ok(Done::Code(code))
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit snapshot disk.img full.img                    a test may spoil the copy, and the next one takes a new copy

Where the file system shares blocks (btrfs, xfs), that takes no time and no room.")]
pub struct Snapshot {
    /// The image, which is not being served.
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// The copy to make, and COPY.smr beside it.
    #[arg(value_name = "COPY")]
    copy: PathBuf,
}

impl Snapshot {
    pub fn execute(self) -> anyhow::Result<()> {
        // Locks the image until both files are copied.
        let image = DriveImage::open(&self.image, |_| Ok(None))?;
        let pairs = [(self.image, self.copy.clone()), (state_path(&image.path), state_path(&self.copy))];
        if let Some((_, taken)) = pairs.iter().find(|(_, to)| to.symlink_metadata().is_ok()) {
            let remedy = "something is there already: give the copy another name, or remove it";
            return Err(LiveError::image(taken, remedy).into());
        }
        for (from, to) in &pairs {
            let mut copy = Command::new("cp");
            copy.args(["--reflink=auto", "--sparse=always"]).arg("--").args([from, to]);
            if !copy.status().context("cp")?.success() {
                bail!("{} could not be copied to {}", from.display(), to.display());
            }
        }
        Ok(())
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit inject disk.img power-cut            the next write of the drive is torn, and commands under way fail
  smrkit inject disk.img bad-sector 2048      reads of the sector fail until it is written
  smrkit inject disk.img slow 8s              the next request takes 8 seconds longer
  smrkit inject disk.img timeout              the next request never completes
  smrkit inject disk.img fail write lba=0..4096 count=3
                                              three writes to these sectors fail
  smrkit inject disk.img fail every=100 probability=0.5
                                              of each hundredth request every second fails
  smrkit inject disk.img corrupt lba=2048..4096
                                              reads of these sectors return wrong data
  smrkit inject disk.img clear                no request fails any more, and all sectors can be read
  smrkit inject disk.img idle 1h              an hour without requests passes at once
  smrkit inject raid.img fail-member 1        the second drive of an array fails
  smrkit inject raid.img replace-member 1     a new one takes its place, and is rebuilt

Every fault is in the log of smrkit serve --log.")]
pub struct Inject {
    /// The image that smrkit serve serves.
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// The fault: power-cut [SEED], bad-sector LBA, slow TIME, timeout, idle TIME, clear, fail-member N, replace-member N; fail [OP] or
    /// corrupt, with lba=FIRST..END, count=N, every=N, probability=P.
    #[arg(value_name = "FAULT", required = true, num_args = 1..)]
    fault: Vec<String>,
}

impl Inject {
    pub fn execute(self) -> anyhow::Result<()> {
        let fault = self.fault.join(" ");
        fault.parse::<InjectedFault>()?;
        connect(&image::canonical(&self.image)?)?.ask(ControlCommand::Inject { fault })?;
        Ok(())
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit replay disk.log

Exit code: 0 all requests took the simulator's time to the nanosecond, 5 some did not.")]
pub struct Replay {
    /// A file that smrkit serve --log wrote.
    #[arg(value_name = "LOG")]
    log: PathBuf,
}

impl Replay {
    pub fn execute(self) -> anyhow::Result<Done> {
        let replayed = replay(&self.log)?;
        let requests = format::counted(replayed.requests, "request");
        let text = match &replayed.first {
            None => format!("{requests} took the simulator's time to the nanosecond\n"),
            Some(first) => format!(
                "{requests}: {}, the first in line {}\n  logged    {}\n  replayed  {}\n",
                format::counted(replayed.differences, "different line"),
                first.line,
                first.logged,
                first.replayed
            ),
        };
        print(text)?;
        Ok(if replayed.differences == 0 { Done::All } else { Done::Code(5) })
    }
}
