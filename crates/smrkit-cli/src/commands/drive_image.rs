//! `smrkit df` and `smrkit fsck` on the image of a served drive.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use smrkit::quantity::Bytes;
use smrkit_live::block::device::BlockDevice;
use smrkit_live::block::image::DriveImage;
use smrkit_live::error::LiveError;
use smrkit_live::mount::control::{ControlClient, ControlCommand};
use smrkit_live::mount::{self, MountError};

use crate::exit::Done;
use crate::output::{print, print_json};

/// Keys of a server's report that df prints.
const TOLD: [&str; 8] = ["image", "layer", "drive", "array", "export_bytes", "raw_bytes", "cache_bytes", "process"];

/// Prints the drive's size, and the room that its image takes up. While it is served, its server tells them.
pub fn df(path: &Path, as_json: bool) -> anyhow::Result<Done> {
    let taken = std::fs::metadata(path).map_err(|error| LiveError::io(path, error))?.blocks() * 512;
    let (mut about, state) = match ControlClient::connect(&mount::canonical(path)?) {
        Ok(mut client) => {
            let mut about = client.ask(ControlCommand::Report)?;
            // The rest is for smrkit top.
            if let Some(about) = about.as_object_mut() {
                about.retain(|key, _| TOLD.contains(&key.as_str()));
            }
            let state = format!("; process {} serves it", about["process"]);
            (about, state)
        }
        Err(MountError::NotMounted(_)) => {
            let image = DriveImage::open(path, true)?;
            let mut about = image.describe();
            about["was_clean"] = image.was_clean().into();
            let state =
                if image.was_clean() { "" } else { "; not closed in good order: its next use begins with recovery" };
            (about, state.to_string())
        }
        Err(error) => return Err(error.into()),
    };
    about["image_bytes"] = taken.into();
    if as_json {
        print_json(&about)?;
        return Ok(Done::All);
    }
    let size = |key: &str| Bytes(about[key].as_u64().unwrap_or_default());
    let word = |key: &str| about[key].as_str().unwrap_or_default();
    let array = about["array"].as_str().map_or_else(String::new, |array| format!("{array}, "));
    print(format!(
        "{}: {} of {array}{} ({} raw, {} cache) under {}; the image takes up {}{state}\n",
        path.display(),
        size("export_bytes"),
        word("drive"),
        size("raw_bytes"),
        size("cache_bytes"),
        word("layer"),
        Bytes(taken)
    ))?;
    Ok(Done::All)
}

/// Lets the layers rebuild their maps, and checks them, and of an array the copies and the parity. The image is closed in good order.
pub fn fsck(path: &Path) -> anyhow::Result<Done> {
    let image = DriveImage::open(path, true)?;
    let was_clean = image.was_clean();
    let (mut device, _) = BlockDevice::open(image, None)?;
    let checked = device.check();
    let (now, is_array) = (device.now(), device.is_array());
    device.close(now)?;
    let state = if was_clean { "closed in good order" } else { "not closed in good order, recovered" };
    let (verdict, code) = match checked {
        Ok(()) if is_array => ("maps make sense, copies and parity agree".to_string(), u8::from(!was_clean)),
        Ok(()) => ("the layer's maps make sense".to_string(), u8::from(!was_clean)),
        Err(fault) => (fault.to_string(), 4),
    };
    print(format!("{}: {state}: {verdict}\n", path.display()))?;
    Ok(Done::Code(code))
}
