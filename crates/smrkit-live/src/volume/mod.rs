//! A volume: an image and its metadata directory, made together and opened together.
//!
//! A request that is refused leaves the volume as it was. A volume that is opened to be changed is marked as in use, durably, before anything
//! else is written, and as clean again at the end. After a crash the marks show that saved state can't be trusted.

mod layout;
mod make;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use smrfs::device::{HostManaged, Model, Shape};
use smrfs::error::DeviceError;
use smrfs::fs::{DamagedMap, FileSystem};
use smrfs::space::Space;
use smrfs::space::bands::{BandSpace, BandsOptions};
use smrfs::space::caveat::{Caveat, CaveatOptions};
use smrfs::superblock::{Area, AreaError, Superblock, data_part};
use smrfs::units::NodeId;

pub use layout::Layout;
pub(crate) use make::blank_zones;
pub use make::{CreatedVolume, MkfsOptions, mkfs};

use crate::directory::{DirectoryStore, Home, MountStep};
use crate::error::LiveError;
use crate::image;
use crate::privacy::exposure;
use crate::zoned;

/// Options of opening a volume.
#[derive(Clone, Debug, Default)]
pub struct Open {
    /// The metadata directory, if it is not where the image says.
    pub meta: Option<PathBuf>,
    /// True if nothing is to be changed.
    pub read_only: bool,
    /// True if image and directory may be of different moments, as for checks.
    pub out_of_step: bool,
    /// True if other users may have access to image and directory.
    pub trust_open_metadata: bool,
}

/// An open volume, locked against a second user.
pub struct Volume {
    /// The whole disk, and the superblock on it.
    pub(crate) area: Area,
    device: Arc<dyn HostManaged>,
    store: Arc<DirectoryStore>,
    /// The path of the image.
    pub image: PathBuf,
    /// True if the last use ended in good order.
    pub was_clean: bool,
    /// Why image and directory are not of the same moment, if they are not.
    misfit: Option<LiveError>,
    read_only: bool,
    /// Permissions that let other users at the image or the metadata directory.
    pub exposed: Vec<LiveError>,
}

/// Converts an error of the area of superblocks to an error of the image.
pub(crate) fn area_error(path: &Path, error: AreaError) -> LiveError {
    match error {
        AreaError::Device(DeviceError::Io(error)) => LiveError::io(path, error),
        AreaError::Device(error) => LiveError::image(path, error.to_string()),
        AreaError::Superblock(error) => LiveError::image(path, error.to_string()),
    }
}

impl Volume {
    /// Opens the volume in `image`. Unless it is opened read-only, it is marked as in use.
    pub fn open(image: &Path, how: &Open) -> Result<Volume, LiveError> {
        let is_zoned = zoned::is_zoned(image)?;
        let load = |writable| {
            let whole = if is_zoned { zoned::open(image, writable)? } else { image::open(image, writable)? };
            Area::load(whole).map_err(|error| area_error(image, error))
        };
        // Opening zones for writing fills up their torn granules. So they are first opened read-only, to find out that this is a volume.
        if is_zoned && !how.read_only {
            load(false)?;
        }
        let area = load(!how.read_only)?;
        let superblock = &area.newest;
        let meta = how.meta.clone().unwrap_or_else(|| PathBuf::from(OsStr::from_bytes(&superblock.path)));
        let home = Home::open(&meta, superblock.metadata, superblock.uuid, superblock.key)?;
        let mut exposed: Vec<LiveError> = exposure(image)?.into_iter().chain(exposure(&home.path)?).collect();
        if !how.trust_open_metadata && !exposed.is_empty() {
            return Err(exposed.swap_remove(0));
        }
        let misfit = match home.check_moment(image, superblock) {
            Err(misfit) if how.out_of_step => Some(misfit),
            fits => {
                fits?;
                None
            }
        };
        // A later mount has begun if the directory's mark is ahead, even if it could not mark the image.
        let is_last_mount = home.mark().is_some_and(|mark| mark.mounts == superblock.mounts);
        let was_clean = superblock.is_clean && misfit.is_none() && is_last_mount;
        let failed = |error| LiveError::file_system(&meta, error);
        let store = Arc::new(DirectoryStore::open(home, !how.read_only).map_err(failed)?);
        let device: Arc<dyn HostManaged> = Arc::new(data_part(&area.device));
        let read_only = how.read_only;
        let mut volume = Volume { area, device, store, image: image.into(), was_clean, misfit, read_only, exposed };
        if !read_only {
            volume.begin().map_err(|error| match error {
                LiveError::Full(path) => LiveError::FullToMark(path),
                error => error,
            })?;
        }
        Ok(volume)
    }

    /// Marks the volume as in use.
    fn begin(&mut self) -> Result<(), LiveError> {
        let home = &self.store.home;
        let failed = |error| LiveError::file_system(&home.path, error);
        if !self.was_clean {
            home.forget_states().map_err(failed)?;
        }
        let mut next = self.area.newest.clone();
        // The directory is one mount ahead of the image if the image's mark could not be set. If the two are in step, that number is used again, so
        // that the directory never gets further ahead.
        let ahead = home.mark().filter(|_| self.misfit.is_some()).map_or(0, |mark| mark.mounts);
        next.mounts = 1 + next.mounts.max(ahead);
        next.is_clean = false;
        next.path = home.path.as_os_str().as_bytes().to_vec();
        self.store_between(MountStep::Begins, next, MountStep::InUse)
    }

    /// Marks the volume as clean: everything in it is durable.
    pub fn close(&mut self) -> Result<(), LiveError> {
        if self.read_only {
            return Ok(());
        }
        let next = Superblock { is_clean: true, ..self.area.newest.clone() };
        self.store_between(MountStep::Ending, next, MountStep::Closed)
    }

    /// Stores a superblock between two steps of the directory's mark. Each is durable before the next, so that a crash leaves one of the pairs that
    /// `directory/mark.rs` lists.
    fn store_between(&mut self, before: MountStep, next: Superblock, after: MountStep) -> Result<(), LiveError> {
        let (home, mounts) = (&self.store.home, next.mounts);
        let set_mark =
            |step| home.set_mark(mounts, step, &self.image).map_err(|error| LiveError::file_system(&home.path, error));
        set_mark(before)?;
        self.area.store(next).map_err(|error| area_error(&self.image, error))?;
        set_mark(after)
    }

    /// The disk for data.
    pub fn device(&self) -> Arc<dyn HostManaged> {
        Arc::clone(&self.device)
    }

    /// The metadata store.
    pub fn store(&self) -> Arc<DirectoryStore> {
        Arc::clone(&self.store)
    }

    /// A fresh allocator for the disk.
    pub fn space(&self) -> Result<Box<dyn Space>, LiveError> {
        space(self.device.shape())
    }

    /// The superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.area.newest
    }

    /// The metadata directory.
    pub fn meta(&self) -> &Path {
        self.store.path()
    }

    /// Why image and directory are not of the same moment, if they are not.
    pub fn misfit(&self) -> Option<&LiveError> {
        self.misfit.as_ref()
    }
}

/// A fresh allocator for a strict-append disk.
fn bands_of(shape: &Shape) -> Result<BandSpace, smrkit::error::Error> {
    BandSpace::new(shape, BandsOptions::default())
}

/// A fresh allocator for a disk, of its model and with the default settings.
pub fn space(shape: &Shape) -> Result<Box<dyn Space>, LiveError> {
    let space = match shape.model {
        Model::StrictAppend => bands_of(shape).map(|space| Box::new(space) as Box<dyn Space>),
        Model::Caveat => Caveat::new(shape, CaveatOptions::default()).map(|space| Box::new(space) as Box<dyn Space>),
    };
    space.map_err(|error| LiveError::impossible(format!("the disk is too small: {error}")))
}

/// A path of a file for messages, or its number if no path is known.
pub(crate) fn file_name(core: &FileSystem, file: NodeId) -> String {
    core.path_to(file).map_or(format!("file {file}"), |path| String::from_utf8_lossy(&path).into_owned())
}

/// The files of a mount whose maps can't be used, and why.
pub(crate) fn damaged_maps(core: &FileSystem) -> Vec<String> {
    let line = |DamagedMap { file, reason }: &DamagedMap| format!("{}: {reason}", file_name(core, *file));
    core.damaged_maps().iter().map(line).collect()
}
