//! `mkfs`: an image and its metadata directory. Everything that can be refused is refused before anything is changed.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use smrfs::device::zoned::ZonedLayout;
use smrfs::device::{HostManaged, Model, Shape};
use smrfs::superblock::{Area, AreaError, Superblock, Uuid, VolumeKey, data_shape};

use super::{Layout, area_error, bands_of, space};
use crate::directory::{NewHome, Probe};
use crate::error::LiveError;
use crate::image::{Blank, ImageTarget};
use crate::zoned::{self, BlankZones};

/// Options of making a volume.
#[derive(Clone, Debug)]
pub struct MkfsOptions {
    /// The image file, or the block device.
    pub image: PathBuf,
    /// The metadata directory: new, empty, or with `force` an old one.
    pub meta: PathBuf,
    /// The disk's layout; a size of 0 takes that of the file or the device that is there.
    pub layout: Layout,
    /// True to overwrite existing data.
    pub force: bool,
}

/// A volume that was made.
#[derive(Clone, Debug)]
pub struct CreatedVolume {
    /// The superblock.
    pub superblock: Superblock,
    /// The metadata directory, absolute.
    pub meta: PathBuf,
    /// Abilities of its file system.
    pub probe: Probe,
    /// The disk for data.
    pub data: Shape,
    /// Granules of it that files can fill.
    pub usable: u64,
    /// Assignment of the zones, on a zoned device.
    pub zones: Option<ZonedLayout>,
    /// Bytes free on the image's file system, where these are too few for all of the image.
    pub host_free_bytes: Option<u64>,
}

/// Makes a file system.
pub fn mkfs(wanted: &MkfsOptions) -> Result<CreatedVolume, LiveError> {
    if zoned::is_zoned(&wanted.image)? {
        return mkfs_on_zones(wanted);
    }
    let mut layout = wanted.layout;
    if layout.size_bytes == 0 {
        layout.size_bytes = match ImageTarget::for_path(&wanted.image)? {
            ImageTarget::File(bytes) | ImageTarget::Device(bytes) if bytes > 0 => bytes,
            _ => return Err(LiveError::impossible("a new image needs a size: give {size}")),
        };
    }
    let shape = layout.shape()?;
    // A disk that is too small for a file system is refused before the image is looked at.
    space(&data_shape(&shape))?;
    refuse_nesting(&wanted.image, &wanted.meta)?;
    let blank = Blank::choose(&wanted.image, &shape, layout.size_bytes, wanted.force)?;
    let new_image = blank.created();
    create_volume(wanted, shape, || blank.fill()).inspect_err(|_| {
        // An error here is ignored, because the one that made `mkfs` fail is reported.
        let _ = new_image.map(std::fs::remove_file);
    })
}

/// Makes a file system on a zoned device, whose zones are the bands.
fn mkfs_on_zones(wanted: &MkfsOptions) -> Result<CreatedVolume, LiveError> {
    let (path, layout) = (wanted.image.display(), &wanted.layout);
    if layout.model == Model::Caveat {
        return Err(LiveError::impossible(format!(
            "{path} takes no writes just anywhere, as caveat does: leave {{model}} away, or put an image on a conventional \
             disk"
        )));
    }
    let size = Some(layout.size_bytes).filter(|&bytes| bytes > 0);
    let given = [("size", size), ("band", layout.band_bytes), ("did", layout.did_bytes), ("dpid", layout.dpid_bytes)];
    if let Some(&(field, _)) = given.iter().find(|(_, bytes)| bytes.is_some()) {
        return Err(LiveError::impossible(format!("the bands of {path} are its zones: leave {{{field}}} away")));
    }
    refuse_nesting(&wanted.image, &wanted.meta)?;
    let blank = blank_zones(&wanted.image, wanted.force)?;
    let zones = blank.layout;
    let volume = create_volume(wanted, zones.shape, || blank.fill())?;
    Ok(CreatedVolume { zones: Some(zones), ..volume })
}

/// Checks that a volume can be made on a zoned device: its zones are enough and, without `force`, empty.
pub(crate) fn blank_zones(path: &Path, force: bool) -> Result<BlankZones, LiveError> {
    let blank = BlankZones::choose(path, force)?;
    bands_of(&data_shape(&blank.layout.shape)).map_err(|error| {
        let remedy = "take a device with more zones, or format it with smaller ones";
        LiveError::image(path, format!("its zones are too few for a file system ({error}): {remedy}"))
    })?;
    Ok(blank)
}

/// Creates the disk with `create_disk`, and the metadata directory. If either fails, removes a metadata directory that this call has created.
fn create_volume(
    wanted: &MkfsOptions,
    shape: Shape,
    create_disk: impl FnOnce() -> Result<Arc<dyn HostManaged>, LiveError>,
) -> Result<CreatedVolume, LiveError> {
    let failed = |error| area_error(&wanted.image, error);
    let new_home = NewHome::choose(&wanted.meta, wanted.force)?;
    let created_meta = new_home.is_new.then(|| new_home.path.clone());
    let create = || {
        let data = data_shape(&shape);
        let usable = space(&data)?.usable();
        let (uuid, own) = (Uuid::random(random_bytes()?), Uuid::random(random_bytes()?));
        let key = VolumeKey(random_bytes()?);
        let path = new_home.path.as_os_str().as_bytes().to_vec();
        let first = Superblock { uuid, metadata: own, shape, sequence: 0, mounts: 0, is_clean: true, key, path };
        // Nothing is created if the path is too long for the superblock.
        first.encode().map_err(|error| failed(AreaError::Superblock(error)))?;
        // The disk comes first, because it fails if the host's disk is full.
        let disk = create_disk()?;
        let probe = new_home.probe;
        let meta = new_home.format(own, uuid, key)?.path;
        let area = Area::format(disk, first).map_err(failed)?;
        let host_free_bytes = area.device.room_bytes().map_err(|error| failed(AreaError::Device(error)))?;
        Ok(CreatedVolume { superblock: area.newest, meta, probe, data, usable, zones: None, host_free_bytes })
    };
    create().inspect_err(|_| {
        let _ = created_meta.map(std::fs::remove_dir_all);
    })
}

/// Errors: the image is inside its own metadata directory, which is erased.
fn refuse_nesting(image: &Path, meta: &Path) -> Result<(), LiveError> {
    let absolute = |path: &Path| std::path::absolute(path).map_err(|error| LiveError::io(path, error));
    if absolute(image)?.starts_with(absolute(meta)?) {
        return Err(LiveError::impossible("the image lies in the metadata directory: keep them apart"));
    }
    Ok(())
}

fn random_bytes() -> Result<[u8; 16], LiveError> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0; 16];
    let read = std::fs::File::open(source).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| LiveError::io(source, error)).map(|()| bytes)
}
