//! `smrkit df` and `smrkit fsck` on the image of a served drive.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use smrkit::error::Error;
use smrkit::quantity::Bytes;
use smrkit::settings::Queue;
use smrkit_live::block::drive::ServedDrive;
use smrkit_live::block::image::DriveImage;
use smrkit_live::error::LiveError;
use smrkit_live::mount::control::{ControlClient, ControlCommand};
use smrkit_live::mount::{self, MountError};

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
pub fn df(path: &Path, as_json: bool) -> anyhow::Result<Done> {
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
            let mut about = image.describe();
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
    print_as(as_json, || &about, || text)?;
    Ok(Done::All)
}

/// Checks the layers' maps, after replaying the requests since the last checkpoint. Closes the image cleanly, unless `no_changes`.
pub fn fsck(path: &Path, no_changes: bool) -> anyhow::Result<Done> {
    let image = DriveImage::open(path, |_| Ok(None))?;
    let was_clean = image.was_clean;
    let image = if no_changes { image.read_only() } else { image };
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
