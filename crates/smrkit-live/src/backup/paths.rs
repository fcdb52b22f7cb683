//! Places of a copy: nothing is there before, a volume in good order after it, and nothing if it fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use smrfs::device::HostManaged;
use smrfs::fs::{DamagedMap, FileSystem, FsOptions};
use smrfs::meta::Durability;

use crate::directory::DirectoryStore;
use crate::error::LiveError;
use crate::volume::space;

/// Paths of a volume that is there or is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumePaths {
    /// The image.
    pub image: PathBuf,
    /// The metadata directory.
    pub meta: PathBuf,
}

impl VolumePaths {
    /// The places in the folder of a backup.
    pub fn in_backup(folder: &Path) -> VolumePaths {
        VolumePaths { image: folder.join("disk.img"), meta: folder.join("disk.meta") }
    }
}

/// The error of a path that can not be made; names the remedy if something is there.
pub(super) fn taken(path: &Path, error: std::io::Error) -> LiveError {
    match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            LiveError::impossible(format!("{} exists: name one that does not, or remove it", path.display()))
        }
        _ => LiveError::io(path, error),
    }
}

/// Removes files that were made. Errors are ignored: the one that led here counts. Devices stay.
pub(super) fn remove(paths: &VolumePaths) {
    if fs::symlink_metadata(&paths.image).is_ok_and(|metadata| metadata.is_file()) {
        let _ = fs::remove_file(&paths.image);
    }
    let _ = fs::remove_dir_all(&paths.meta);
}

/// An error if something is at `path`.
pub(super) fn refuse_taken(path: &Path) -> Result<(), LiveError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Err(taken(path, std::io::ErrorKind::AlreadyExists.into())),
        Err(_) => Ok(()),
    }
}

/// A backup that was made, or a volume made of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Where it is.
    pub at: VolumePaths,
    /// Files whose maps can't be used, and why: the copy has them as they are.
    pub damaged: Vec<String>,
}

/// Makes a copied directory durable, and saves what an unmount saves: all maps have been read. Tells which can't be used.
pub(super) fn leave_in_order(
    device: Arc<dyn HostManaged>,
    store: Arc<DirectoryStore>,
    meta: &Path,
) -> Result<Vec<String>, LiveError> {
    let failed = |error| LiveError::file_system(meta, error);
    store.sync_all().map_err(failed)?;
    let space = space(device.shape())?;
    let core = FileSystem::mount(device, store, space, FsOptions::default()).map_err(failed)?;
    let damaged = damaged_maps(&core);
    core.unmount().map_err(failed)?;
    Ok(damaged)
}

/// The files of a mount whose maps can't be used, and why.
pub(crate) fn damaged_maps(core: &FileSystem) -> Vec<String> {
    let told = core.damaged_maps().iter().map(|DamagedMap { file, reason }| {
        let path = core.path_to(*file).map(|path| String::from_utf8_lossy(&path).into_owned());
        format!("{}: {reason}", path.unwrap_or(format!("file {file}")))
    });
    told.collect()
}
