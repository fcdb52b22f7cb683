//! Making and opening images as host-managed disks.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use smrfs::device::caveat::{CaveatScriptor, Past};
use smrfs::device::strict::StrictAppend;
use smrfs::device::{HostManaged, Model, Shape};

use super::head::{self, Head, NoHead};
use super::{Image, Target, bytes_for, head_bytes, open_alone};
use crate::error::LiveError;

/// Makes an image of a blank disk at `path`: a new file, or what is there is overwritten with `force`. What is refused is
/// left as it was.
pub fn create(path: &Path, shape: &Shape, force: bool) -> Result<Arc<dyn HostManaged>, LiveError> {
    let bytes = bytes_for(shape).ok_or_else(|| LiveError::Impossible("a disk of over 8 EiB: give less".into()))?;
    let head = Head { shape: shape.clone() };
    match Target::of(path)? {
        Target::Missing => {
            let made = std::fs::File::create_new(path).map_err(|error| LiveError::io(path, error))?;
            drop(made);
            fill(path, &head, bytes).inspect_err(|_| drop(std::fs::remove_file(path)))
        }
        Target::File(0) => fill(path, &head, bytes),
        Target::File(_) | Target::Device(_) if !force && !is_blank(path)? => Err(LiveError::Exists(path.into())),
        Target::File(_) => fill(path, &head, bytes),
        Target::Device(size) if size < bytes => {
            let what = format!("{} has {size} bytes, fewer than {bytes}: lower --size", path.display());
            Err(LiveError::Impossible(what))
        }
        Target::Device(_) => fill(path, &head, bytes),
    }
}

/// Whether the first bytes are zeros, where every file system and table of partitions has something.
fn is_blank(path: &Path) -> Result<bool, LiveError> {
    let file = open_alone(path, false)?;
    let mut bytes = vec![0; 1 << 20];
    let mut filled = 0;
    loop {
        match file.read_at(&mut bytes[filled..], filled as u64).map_err(|error| LiveError::io(path, error))? {
            0 => return Ok(bytes[..filled].iter().all(|&byte| byte == 0)),
            read => filled += read,
        }
    }
}

fn fill(path: &Path, head: &Head, bytes: u64) -> Result<Arc<dyn HostManaged>, LiveError> {
    let file = open_alone(path, true)?;
    let failed = |error| LiveError::io(path, error);
    let is_file = file.metadata().map_err(failed)?.is_file();
    if is_file {
        // An old image's bytes go, and the new one's are made when they are written.
        file.set_len(0).and_then(|()| file.set_len(bytes)).map_err(failed)?;
    }
    let mut first = head.encode();
    first.resize(head_bytes(&head.shape) as usize, 0);
    file.write_all_at(&first, 0).and_then(|()| file.sync_all()).map_err(failed)?;
    if is_file {
        sync_parent(path).map_err(failed)?;
    }
    disk(Image::new(path, file, head), &[], Past::Untracked)
}

/// Makes the name of a new file durable.
fn sync_parent(path: &Path) -> std::io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(parent)?.sync_all()
}

/// Opens an image as the disk that it is; `writable` or only to be looked at. `destroys`: neighbours of what is written on
/// a Caveat-Scriptor disk are really destroyed, as its law says, which costs writes; else the host is trusted.
pub fn open(path: &Path, writable: bool, destroys: bool) -> Result<Arc<dyn HostManaged>, LiveError> {
    let file = open_alone(path, writable)?;
    let failed = |error| LiveError::io(path, error);
    let head = head::read(&file).map_err(failed)?.map_err(|no| {
        LiveError::image(
            path,
            match no {
                NoHead::Foreign => "this is no SMRfs image: check the path, or make one with smrkit mkfs".into(),
                NoHead::Version(version) => format!("an image of format {version}: use a newer smrkit"),
                NoHead::Damaged => "the image's head is damaged: restore the image from a copy".to_string(),
            },
        )
    })?;
    let (Target::File(bytes) | Target::Device(bytes)) = Target::of(path)? else {
        return Err(LiveError::image(path, "the image has just been removed: make it again"));
    };
    let expected = bytes_for(&head.shape).unwrap_or(u64::MAX);
    if bytes < expected {
        let what = format!("the image is cut short ({bytes} bytes of {expected}): restore it from a copy");
        return Err(LiveError::image(path, what));
    }
    let cursors = head::read_cursors(&file, &head.shape).map_err(failed)?;
    let past = if destroys { Past::Unknown } else { Past::Untracked };
    disk(Image::new(path, file, &head), &cursors, past)
}

fn disk(image: Image, cursors: &[smrfs::units::Granule], past: Past) -> Result<Arc<dyn HostManaged>, LiveError> {
    let shape = image.shape.clone();
    let impossible = |error: smrkit::error::Error| LiveError::Impossible(error.to_string());
    Ok(match shape.model {
        Model::StrictAppend => Arc::new(StrictAppend::new(image, shape, cursors).map_err(impossible)?),
        Model::Caveat => Arc::new(CaveatScriptor::new(image, shape, past).map_err(impossible)?),
    })
}
