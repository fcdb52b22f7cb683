//! Backups: a copy of image and metadata directory as they were at one moment, which can be mounted, checked and restored.
//!
//! A mount is held for as long as copying takes: all that was written before is durable and in the copy, and what programs
//! ask for waits. Where the host's file system shares blocks between files (FICLONE: xfs, btrfs), that is the time of copying
//! the metadata; elsewhere the image's data is copied as well.

use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use smrfs::fs::FileSystem;
use smrfs::meta::MetadataStore;

use crate::contents;
use crate::directory;
use crate::error::LiveError;
use crate::mount::control::{ControlClient, ControlCommand};
use crate::mount::{self, MountError};
use crate::volume::{Open, Volume};
use crate::zoned;

/// Paths of a volume that is there or is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The image.
    pub image: PathBuf,
    /// The metadata directory.
    pub meta: PathBuf,
}

impl Paths {
    /// The places in the folder of a backup.
    pub fn in_backup(folder: &Path) -> Paths {
        Paths { image: folder.join("disk.img"), meta: folder.join("disk.meta") }
    }
}

/// Copies the volume that is mounted at `point` into `folder`, which is made.
pub fn of_mount(point: &Path, folder: &Path) -> Result<Paths, MountError> {
    let point = mount::canonical(point)?;
    // What programs have changed in mapped pages; and little is left to write while they wait.
    mount::sync(&point)?;
    let mut client = ControlClient::connect(&point)?;
    let made = Folder::make(folder)?;
    let device =
        |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).map_err(|error| LiveError::io(path, error));
    if device(folder)? == device(&point)? {
        let what = format!("{} lies on the mount that is to be copied: name a folder elsewhere", folder.display());
        return Err(LiveError::Impossible(what).into());
    }
    let held = client.ask(ControlCommand::Hold)?;
    let place = |key: &str| held[key].as_str().map(PathBuf::from).unwrap_or_default();
    let from = Paths { image: place("image"), meta: place("meta") };
    let to = Paths::in_backup(&made.path);
    copy(&from, &to)?;
    drop(client);
    settle(&to)?;
    made.keep();
    Ok(to)
}

/// Copies a volume that is not mounted into `folder`, which is made.
pub fn of_volume(image: &Path, how: &Open, folder: &Path) -> Result<Paths, MountError> {
    let volume = Volume::open(image, &Open { read_only: true, ..how.clone() })?;
    let from = Paths { image: image.into(), meta: volume.meta().into() };
    let made = Folder::make(folder)?;
    let to = Paths::in_backup(&made.path);
    copy(&from, &to)?;
    settle(&to)?;
    made.keep();
    Ok(to)
}

/// Makes a volume of the backup in `folder`, at places where nothing is.
pub fn restore(folder: &Path, to: &Paths, trust_open_metadata: bool) -> Result<(), MountError> {
    let from = Paths::in_backup(folder);
    let meta = Some(from.meta.clone());
    let how = Open { meta, read_only: true, trust_open_metadata, ..Open::default() };
    let _locked = Volume::open(&from.image, &how)?;
    copy(&from, to)?;
    Ok(settle(to).inspect_err(|_| remove(to))?)
}

/// The folder of a backup that is being made: it goes if nothing comes of it.
struct Folder {
    path: PathBuf,
    is_done: bool,
}

impl Folder {
    fn make(path: &Path) -> Result<Folder, LiveError> {
        fs::DirBuilder::new().mode(0o700).create(path).map_err(|error| taken(path, error))?;
        Ok(Folder { path: path.into(), is_done: false })
    }

    fn keep(mut self) {
        self.is_done = true;
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.is_done {
            remove(&Paths::in_backup(&self.path));
            let _ = fs::remove_dir(&self.path);
        }
    }
}

fn taken(path: &Path, error: std::io::Error) -> LiveError {
    match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            LiveError::Impossible(format!("{} exists: name one that does not, or remove it", path.display()))
        }
        _ => LiveError::io(path, error),
    }
}

/// Removes what was made; what can't be removed stays, for the error that led here is what counts.
fn remove(paths: &Paths) {
    let _ = fs::remove_file(&paths.image);
    let _ = fs::remove_dir_all(&paths.meta);
}

/// Copies image and directory, neither of which anybody changes meanwhile. Nothing is left of a copy that fails.
fn copy(from: &Paths, to: &Paths) -> Result<(), LiveError> {
    zoned::refuse(&from.image, "is no image that could be copied", "copy the files (rsync -aAX)")?;
    let mut options = File::options();
    let made = options.read(true).write(true).create_new(true).mode(0o600).open(&to.image);
    let made = made.map_err(|error| taken(&to.image, error))?;
    if fs::symlink_metadata(&to.meta).is_ok() {
        let _ = fs::remove_file(&to.image);
        return Err(taken(&to.meta, std::io::ErrorKind::AlreadyExists.into()));
    }
    let failed = |error| LiveError::io(&to.image, error);
    let image = File::open(&from.image).map_err(|error| LiveError::io(&from.image, error));
    let copied = image.and_then(|image| contents::copy(&image, &made).map_err(failed));
    copied.and_then(|()| directory::copy(&from.meta, &to.meta)).inspect_err(|_| remove(to))
}

/// Makes a copy durable, and a volume of its own that was left in good order: it knows its own directory, and all maps have been read.
fn settle(at: &Paths) -> Result<(), LiveError> {
    let mut volume = Volume::open(&at.image, &Open { meta: Some(at.meta.clone()), ..Open::default() })?;
    let failed = |error| LiveError::file_system(&at.meta, error);
    let options = smrfs::fs::FsOptions::default();
    volume.store().sync_all().map_err(failed)?;
    let core = FileSystem::mount(volume.device(), volume.store(), volume.space()?, options).map_err(failed)?;
    core.unmount().map_err(failed)?;
    drop(core);
    volume.close()
}
