//! Backups: a copy of image and metadata directory as they were at one moment, which can be mounted, checked and restored.
//!
//! Programs continue while a mount is copied:
//!
//! 1. The mount makes everything durable. The copy shows this moment.
//! 2. The metadata directory is copied. Meanwhile changes stay in memory, so that an fsync or a new name waits.
//! 3. The data is copied. Meanwhile nothing is written where data of that moment is.

mod disk;

use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use smrfs::device::HostManaged;
use smrfs::fs::{FileSystem, FsOptions};
use smrfs::meta::Durability;
use smrfs::superblock::Area;
use smrfs::units::NodeId;
use smrkit::quantity::Bytes;

pub use crate::contents::GoesOn;
use crate::directory::{self, DirectoryStore};
use crate::error::LiveError;
use crate::mount::control::{ControlClient, ControlCommand, value_path};
use crate::mount::{self, MountError};
use crate::volume::{Open, Volume, damaged_maps, of_area, space};
use crate::{contents, zoned};

/// Paths of a volume that exists, or is to be created.
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

/// The error of a path that can't be created, with the remedy if something is there.
fn taken(path: &Path, error: std::io::Error) -> LiveError {
    match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            LiveError::impossible(format!("{} exists: name one that does not, or remove it", path.display()))
        }
        _ => LiveError::io(path, error),
    }
}

/// Removes the files of an unfinished copy; devices stay. Errors are ignored, because the error that made the copy fail is reported.
fn remove(paths: &VolumePaths) {
    if fs::symlink_metadata(&paths.image).is_ok_and(|metadata| metadata.is_file()) {
        let _ = fs::remove_file(&paths.image);
    }
    let _ = fs::remove_dir_all(&paths.meta);
}

/// Errors: something is at `path`.
fn refuse_taken(path: &Path) -> Result<(), LiveError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Err(taken(path, std::io::ErrorKind::AlreadyExists.into())),
        Err(_) => Ok(()),
    }
}

/// A finished backup, or a volume that was restored from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Where it is.
    pub at: VolumePaths,
    /// Damage of the original, which was copied.
    pub damage: Damage,
}

/// Files of a copy that can't be read, or only in part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Files whose maps can't be used, and why.
    pub maps: Vec<String>,
    /// Files with data that is not what was written, and how much.
    pub data: Vec<String>,
}

/// Makes a copied directory durable, compares all data with its checksums, and saves the state that an unmount saves. Returns the damage.
fn verify_and_unmount(
    device: Arc<dyn HostManaged>,
    store: Arc<DirectoryStore>,
    meta: &Path,
    goes_on: &GoesOn,
) -> Result<Damage, LiveError> {
    let failed = |error| LiveError::file_system(meta, error);
    store.sync_all().map_err(failed)?;
    let space = space(device.shape())?;
    let core = FileSystem::mount(device, store, space, FsOptions::default()).map_err(failed)?;
    let damage = Damage { maps: damaged_maps(&core), data: wrong_data(&core, meta, goes_on)? };
    core.unmount().map_err(failed)?;
    Ok(damage)
}

/// Lists files with data that is not what was written.
fn wrong_data(core: &FileSystem, meta: &Path, goes_on: &GoesOn) -> Result<Vec<String>, LiveError> {
    let (_, mut wrong) = mount::scrub_pieces([core.live(), core.further_owners()].concat(), |piece, owner| {
        contents::check(goes_on).map_err(|error| LiveError::io(meta, error))?;
        core.scrub(piece, owner).map_err(|error| LiveError::file_system(meta, error))
    })?;
    let maps: Vec<NodeId> = core.damaged_maps().iter().map(|map| map.file).collect();
    wrong.retain(|file, _| !maps.contains(file));
    let lines = wrong.into_iter().map(|(file, bytes)| {
        let path = core.path_to(file).map(|path| String::from_utf8_lossy(&path).into_owned());
        format!("{}: {} of it are not what was written", path.unwrap_or(format!("file {file}")), Bytes(bytes))
    });
    Ok(lines.collect())
}

/// Copies the volume that is mounted at `point` into `folder`, which is created.
pub fn of_mount(point: &Path, folder: &Path, goes_on: &GoesOn) -> Result<Copy, MountError> {
    let point = mount::canonical(point)?;
    // Includes what programs have changed in mapped pages, and leaves little to be written while they wait.
    mount::sync(&point)?;
    let client = ControlClient::connect(&point)?;
    let made = Folder::make(folder)?;
    let device =
        |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).map_err(|error| LiveError::io(path, error));
    if device(folder)? == device(&point)? {
        let what = format!("{} lies on the mount that is to be copied: name a folder elsewhere", folder.display());
        return Err(LiveError::impossible(what).into());
    }
    drop(client);
    let to = VolumePaths::in_backup(&made.path);
    let damage = match of_moment(&point, &to, true, goes_on) {
        // Programs needed the room of data that was still to be copied. In a second attempt they wait for the copy.
        Err(MountError::Daemon(_)) => of_moment(&point, &to, false, goes_on)?,
        copied => copied?,
    };
    made.keep();
    Ok(Copy { at: to, damage })
}

/// Copies what is on a mount at one moment. With `goes_on_early` programs continue once the directory is copied; if they need the room of data
/// that is still to be copied, the mount reports an error. Without, commits wait until the data is copied as well.
fn of_moment(point: &Path, to: &VolumePaths, goes_on_early: bool, goes_on: &GoesOn) -> Result<Damage, MountError> {
    let mut client = ControlClient::connect(point)?;
    let kept = client.ask(ControlCommand::Keep)?;
    let place = |key: &str| value_path(&kept[key]).unwrap_or_default();
    let from = VolumePaths { image: place("image"), meta: place("meta") };
    let mut names_copied = || {
        if goes_on_early {
            // Any command ends the wait for the directory. The reply is ignored, because the same question is asked at the end.
            let _ = client.ask(ControlCommand::Kept);
        }
    };
    let source = match zoned::is_zoned(&from.image)? {
        true => Some(Area::load(zoned::look(&from.image)?).map_err(|error| of_area(&from.image, error))?),
        false => None,
    };
    let copied = match &source {
        Some(area) => Some(disk::copy(area, &from, to, false, &mut names_copied, goes_on)?),
        None => copy(&from, to, &mut names_copied, goes_on).map(|()| None)?,
    };
    // If programs continued, the mount may have given up data that was being copied. If they waited, it only has to be still there.
    let end = if goes_on_early { ControlCommand::Kept } else { ControlCommand::Report };
    client.ask(end).inspect_err(|_| remove(to))?;
    drop(client);
    Ok(match copied {
        Some(copied) => copied.finish(goes_on)?,
        None => finish(to, goes_on)?,
    })
}

/// Copies a volume that is not mounted into `folder`, which is created.
pub fn of_volume(image: &Path, how: &Open, folder: &Path, goes_on: &GoesOn) -> Result<Copy, MountError> {
    let volume = Volume::open(image, &Open { read_only: true, ..how.clone() })?;
    let from = VolumePaths { image: image.into(), meta: volume.meta().into() };
    let made = Folder::make(folder)?;
    let to = VolumePaths::in_backup(&made.path);
    let damage = duplicate(&volume, &from, &to, false, goes_on)?;
    made.keep();
    Ok(Copy { at: to, damage })
}

/// Options of restoring a backup.
#[derive(Clone, Debug)]
pub struct RestoreOptions {
    /// Paths that don't exist yet; the image may be a zoned device.
    pub to: VolumePaths,
    /// True if data on a zoned device may be overwritten.
    pub force: bool,
    /// True if other users may have access to the backup.
    pub trust_open_metadata: bool,
}

/// Restores the backup in `folder` as a volume.
pub fn restore(folder: &Path, wanted: &RestoreOptions, goes_on: &GoesOn) -> Result<Copy, MountError> {
    let from = VolumePaths::in_backup(folder);
    let (meta, trust_open_metadata) = (Some(from.meta.clone()), wanted.trust_open_metadata);
    let how = Open { meta, read_only: true, trust_open_metadata, ..Open::default() };
    let volume = Volume::open(&from.image, &how)?;
    let damage = duplicate(&volume, &from, &wanted.to, wanted.force, goes_on)?;
    Ok(Copy { at: wanted.to.clone(), damage })
}

/// Copies an open volume, which is therefore locked. A copy that fails leaves nothing.
fn duplicate(
    volume: &Volume,
    from: &VolumePaths,
    to: &VolumePaths,
    force: bool,
    goes_on: &GoesOn,
) -> Result<Damage, LiveError> {
    if zoned::is_zoned(&from.image)? || zoned::is_zoned(&to.image)? {
        return disk::copy(&volume.area, from, to, force, &mut || {}, goes_on)?.finish(goes_on);
    }
    copy(from, to, &mut || {}, goes_on)?;
    finish(to, goes_on).inspect_err(|_| remove(to))
}

/// The folder of a backup that is being made. Dropping it before `keep` removes it.
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
            remove(&VolumePaths::in_backup(&self.path));
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// Copies a metadata directory, which must not change until this calls `names_copied`, and its image file, in which data that the directory's
/// maps name must not change. A copy that fails leaves nothing.
fn copy(
    from: &VolumePaths,
    to: &VolumePaths,
    names_copied: &mut dyn FnMut(),
    goes_on: &GoesOn,
) -> Result<(), LiveError> {
    refuse_taken(&to.meta)?;
    let mut options = File::options();
    let made = options.read(true).write(true).create_new(true).mode(0o600).open(&to.image);
    let made = made.map_err(|error| taken(&to.image, error))?;
    let failed = |error| LiveError::io(&to.image, error);
    let image = File::open(&from.image).map_err(|error| LiveError::io(&from.image, error));
    let copied = directory::copy(&from.meta, &to.meta, goes_on).and_then(|()| {
        names_copied();
        contents::copy(&image?, &made, goes_on).map_err(failed)
    });
    copied.inspect_err(|_| remove(to))
}

/// Makes a copy durable, and a clean volume that knows its own directory. Returns the damage that was copied.
fn finish(at: &VolumePaths, goes_on: &GoesOn) -> Result<Damage, LiveError> {
    // A copy of a volume in use looks as if directory and image were of two moments. Here they are not, because the mount kept all data that the
    // maps name.
    let how = Open { meta: Some(at.meta.clone()), out_of_step: true, ..Open::default() };
    let mut volume = Volume::open(&at.image, &how)?;
    let damage = verify_and_unmount(volume.device(), volume.store(), &at.meta, goes_on)?;
    volume.close()?;
    Ok(damage)
}
