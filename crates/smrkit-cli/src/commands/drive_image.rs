//! `smrkit df` and `smrkit fsck` on the image of a served drive.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::json;
use smrkit::quantity::Bytes;
use smrkit::units::SECTOR_BYTES;
use smrkit_live::block::device::BlockDevice;
use smrkit_live::block::image::DriveImage;
use smrkit_live::error::LiveError;

use crate::exit::Done;
use crate::output::{print, print_json};

/// Prints the drive's size, and the room that its image takes up.
pub fn df(path: &Path, as_json: bool) -> anyhow::Result<Done> {
    let image = DriveImage::open(path, true)?;
    let run = image.run();
    let capacity = (run.layer.capacity)(&run.drive, &run.parameters)?;
    let taken = std::fs::metadata(path).map_err(|error| LiveError::io(path, error))?.blocks() * 512;
    let bytes = |sectors: u64| sectors * SECTOR_BYTES;
    if as_json {
        print_json(&json!({
            "image": path,
            "layer": run.layer.name,
            "drive": run.drive.name,
            "export_bytes": bytes(image.export_sectors()),
            "raw_bytes": bytes(capacity.raw_sectors),
            "cache_bytes": bytes(capacity.cache_sectors),
            "image_bytes": taken,
            "was_clean": image.was_clean(),
        }))?;
        return Ok(Done::All);
    }
    let state = if image.was_clean() { "" } else { "; not closed in good order: its next use begins with recovery" };
    print(format!(
        "{}: {} of {} ({} raw, {} cache) under {}; the image takes up {}{state}\n",
        path.display(),
        Bytes(bytes(image.export_sectors())),
        run.drive.name,
        Bytes(bytes(capacity.raw_sectors)),
        Bytes(bytes(capacity.cache_sectors)),
        run.layer.name,
        Bytes(taken)
    ))?;
    Ok(Done::All)
}

/// Lets the layer rebuild its maps, and checks them. The image is closed in good order.
pub fn fsck(path: &Path) -> anyhow::Result<Done> {
    let image = DriveImage::open(path, true)?;
    let was_clean = image.was_clean();
    let (device, _) = BlockDevice::open(image, None)?;
    let checked = device.layered().check();
    device.close()?;
    let state = if was_clean { "closed in good order" } else { "not closed in good order, recovered" };
    let (verdict, code) = match checked {
        Ok(()) => ("the layer's maps make sense".to_string(), u8::from(!was_clean)),
        Err(fault) => (fault.to_string(), 4),
    };
    print(format!("{}: {state}: {verdict}\n", path.display()))?;
    Ok(Done::Code(code))
}
