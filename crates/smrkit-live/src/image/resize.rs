//! Giving an image another size: its length, the cursors of new bands, and its head.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use smrfs::device::Shape;

use super::head;
use super::{ImageTarget, bytes_for};
use crate::error::LiveError;

/// Makes the image of a disk that was like `before` one of a disk like `after`, durably. Whoever calls has locked it.
pub fn resize(path: &Path, before: &Shape, after: &Shape) -> Result<(), LiveError> {
    let bytes = bytes_for(after).unwrap_or(u64::MAX);
    if let ImageTarget::Device(size) = ImageTarget::for_path(path)?
        && size < bytes
    {
        let what = format!("{} has {size} bytes, fewer than {bytes}: give less", path.display());
        return Err(LiveError::impossible(what));
    }
    let file = File::options().read(true).write(true).open(path).map_err(|error| LiveError::io(path, error))?;
    write(&file, bytes, before, after).map_err(|error| LiveError::io(path, error))
}

fn write(file: &File, bytes: u64, before: &Shape, after: &Shape) -> io::Result<()> {
    let is_file = file.metadata()?.is_file();
    if is_file && file.metadata()?.len() < bytes {
        file.set_len(bytes)?;
    }
    // What an earlier size left there: new bands are empty.
    (before.bands.count..after.bands.count).try_for_each(|band| head::write_cursor(file, band, 0))?;
    file.sync_all()?;
    file.write_all_at(&head::encode(after), 0)?;
    file.sync_all()?;
    if is_file {
        file.set_len(bytes)?;
    }
    Ok(())
}
