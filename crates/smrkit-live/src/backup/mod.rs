//! Backups: a copy of image and metadata directory as they were at one moment, which can be mounted, checked and restored.
//!
//! Programs continue while a mount is copied:
//!
//! 1. The mount makes everything durable. The copy shows this moment.
//! 2. The metadata directory is copied. Meanwhile changes stay in memory, so that an fsync or a new name waits.
//! 3. The data is copied. Meanwhile nothing is written where data of that moment is.

#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use smrfs::data::ReadBuffer;
use smrfs::device::strict::{CopyError, copy as copy_bands, fits};
use smrfs::device::{BandReport, BandState, HostManaged, Model, Shape, stacked};
use smrfs::error::{DeviceError, DeviceResult, FsResult};
use smrfs::fs::{FileSystem, FsOptions};
use smrfs::map;
use smrfs::meta::{Maps, Names};
use smrfs::superblock::{Area, AreaError, Superblock, data_part};
use smrfs::units::{Granule, NodeId, Span};
use smrkit::quantity::Bytes;
use smrkit::tally::Cause;

pub use crate::contents::MayContinue;
use crate::directory::{self, DirectoryStore, Home, MountStep};
use crate::error::LiveError;
use crate::image::{Blank, bytes_for};
use crate::mount::control::{ControlClient, ControlCommand, value_path};
use crate::mount::{self, MountError};
use crate::volume::{Open, Volume, area_error, blank_zones, damaged_maps, file_name, space};
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
fn creation_error(path: &Path, error: std::io::Error) -> LiveError {
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
fn refuse_existing(path: &Path) -> Result<(), LiveError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Err(creation_error(path, std::io::ErrorKind::AlreadyExists.into())),
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
    may_continue: &MayContinue,
) -> Result<Damage, LiveError> {
    let failed = |error| LiveError::file_system(meta, error);
    store.sync_copy().map_err(failed)?;
    let space = space(device.shape())?;
    let core = FileSystem::mount(device, store, space, FsOptions::default()).map_err(failed)?;
    let damage = Damage { maps: damaged_maps(&core), data: wrong_data(&core, meta, may_continue)? };
    core.unmount().map_err(failed)?;
    Ok(damage)
}

/// Lists files with data that is not what was written.
fn wrong_data(core: &FileSystem, meta: &Path, may_continue: &MayContinue) -> Result<Vec<String>, LiveError> {
    let (_, mut wrong) = mount::scrub_pieces([core.live(), core.further_owners()].concat(), |piece, owner| {
        contents::check_interrupt(may_continue).map_err(|error| LiveError::io(meta, error))?;
        core.scrub(piece, owner).map_err(|error| LiveError::file_system(meta, error))
    })?;
    let maps: Vec<NodeId> = core.damaged_maps().iter().map(|map| map.file).collect();
    wrong.retain(|file, _| !maps.contains(file));
    let line = |(file, bytes)| format!("{}: {} of it are not what was written", file_name(core, file), Bytes(bytes));
    Ok(wrong.into_iter().map(line).collect())
}

/// Makes a backup in a new folder by `copy`, which returns the damage of the original. Removes the folder if that fails.
fn in_new_folder(
    folder: &Path,
    copy: impl FnOnce(&VolumePaths) -> Result<Damage, MountError>,
) -> Result<Copy, MountError> {
    fs::DirBuilder::new().mode(0o700).create(folder).map_err(|error| creation_error(folder, error))?;
    let at = VolumePaths::in_backup(folder);
    match copy(&at) {
        Ok(damage) => Ok(Copy { at, damage }),
        Err(error) => {
            remove(&at);
            let _ = fs::remove_dir(folder);
            Err(error)
        }
    }
}

/// Copies the volume that is mounted at `point` into `folder`, which is created.
pub fn of_mount(point: &Path, folder: &Path, may_continue: &MayContinue) -> Result<Copy, MountError> {
    let point = mount::canonical(point)?;
    // Includes what programs have changed in mapped pages, and leaves little to be written while they wait.
    mount::sync(&point)?;
    in_new_folder(folder, |to| {
        let device =
            |path: &Path| fs::metadata(path).map(|found| found.dev()).map_err(|error| LiveError::io(path, error));
        if device(folder)? == device(&point)? {
            let what = format!("{} lies on the mount that is to be copied: name a folder elsewhere", folder.display());
            return Err(LiveError::impossible(what).into());
        }
        match copy_moment(&point, to, true, may_continue) {
            // Programs needed the room of data that was still to be copied. In a second attempt they wait for the copy.
            Err(MountError::Daemon(_)) => copy_moment(&point, to, false, may_continue),
            copied => copied,
        }
    })
}

/// Copies what is on a mount at one moment. With `resumes_early` programs continue once the directory is copied; if they need the room of data
/// that is still to be copied, the mount reports an error. Without, commits wait until the data is copied as well.
fn copy_moment(
    point: &Path,
    to: &VolumePaths,
    resumes_early: bool,
    may_continue: &MayContinue,
) -> Result<Damage, MountError> {
    let mut client = ControlClient::connect(point)?;
    let reply = client.ask(ControlCommand::Keep)?;
    let place = |key: &str| value_path(&reply[key]).unwrap_or_default();
    let from = VolumePaths { image: place("image"), meta: place("meta") };
    let job = CopyJob { from: &from, to, force: false, may_continue };
    let mut names_copied = || {
        if resumes_early {
            // Any command ends the wait for the directory. The reply is ignored, because the same question is asked at the end.
            let _ = client.ask(ControlCommand::Kept);
        }
    };
    let area = match zoned::is_zoned(&from.image)? {
        true => Some(Area::load(zoned::look(&from.image)?).map_err(|error| area_error(&from.image, error))?),
        false => None,
    };
    let copied = match &area {
        Some(area) => Some(job.copy_to_disk(area, &mut names_copied)?),
        None => job.copy_files(&mut names_copied).map(|()| None)?,
    };
    // If programs continued, the mount may have given up data that was being copied. If they waited, it only has to be still there.
    let end = if resumes_early { ControlCommand::Kept } else { ControlCommand::Report };
    client.ask(end).inspect_err(|_| remove(to))?;
    // The mount need not keep anything any more.
    drop(client);
    Ok(match copied {
        Some(copied) => copied.finish(&job)?,
        None => job.finish_files()?,
    })
}

/// Copies a volume that is not mounted into `folder`, which is created.
pub fn of_volume(image: &Path, how: &Open, folder: &Path, may_continue: &MayContinue) -> Result<Copy, MountError> {
    let volume = Volume::open(image, &Open { read_only: true, ..how.clone() })?;
    let from = VolumePaths { image: image.into(), meta: volume.meta().into() };
    in_new_folder(folder, |to| Ok(CopyJob { from: &from, to, force: false, may_continue }.duplicate(&volume)?))
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
pub fn restore(folder: &Path, wanted: &RestoreOptions, may_continue: &MayContinue) -> Result<Copy, MountError> {
    let from = VolumePaths::in_backup(folder);
    let (meta, trust_open_metadata) = (Some(from.meta.clone()), wanted.trust_open_metadata);
    let how = Open { meta, read_only: true, trust_open_metadata, ..Open::default() };
    let volume = Volume::open(&from.image, &how)?;
    let job = CopyJob { from: &from, to: &wanted.to, force: wanted.force, may_continue };
    let damage = job.duplicate(&volume)?;
    Ok(Copy { at: wanted.to.clone(), damage })
}

/// A copy to be made: of the volume at `from`, as the volume at `to`.
struct CopyJob<'a> {
    from: &'a VolumePaths,
    to: &'a VolumePaths,
    /// True if data on a zoned device may be overwritten.
    force: bool,
    may_continue: &'a MayContinue<'a>,
}

impl CopyJob<'_> {
    /// Copies an open volume, which is therefore locked. A copy that fails leaves nothing.
    fn duplicate(&self, volume: &Volume) -> Result<Damage, LiveError> {
        if zoned::is_zoned(&self.from.image)? || zoned::is_zoned(&self.to.image)? {
            return self.copy_to_disk(&volume.area, &mut || {})?.finish(self);
        }
        self.copy_files(&mut || {})?;
        self.finish_files().inspect_err(|_| remove(self.to))
    }

    /// Copies a metadata directory, which must not change until this calls `names_copied`, and its image file, in which data that the directory's
    /// maps name must not change. A copy that fails leaves nothing.
    fn copy_files(&self, names_copied: &mut dyn FnMut()) -> Result<(), LiveError> {
        let CopyJob { from, to, may_continue, .. } = *self;
        refuse_existing(&to.meta)?;
        let mut options = File::options();
        let created = options.read(true).write(true).create_new(true).mode(0o600).open(&to.image);
        let created = created.map_err(|error| creation_error(&to.image, error))?;
        let mut copy = || {
            let image = File::open(&from.image).map_err(|error| LiveError::io(&from.image, error))?;
            directory::copy(&from.meta, &to.meta, may_continue)?;
            names_copied();
            contents::copy(&image, &created, may_continue).map_err(|error| LiveError::io(&to.image, error))
        };
        copy().inspect_err(|_| remove(to))
    }

    /// Makes a copy of files durable, and a clean volume that knows its own directory. Returns the damage that was copied.
    fn finish_files(&self) -> Result<Damage, LiveError> {
        // A copy of a volume in use looks as if directory and image were of two moments. Here they are not, because the mount kept all data that
        // the maps name.
        let how = Open { meta: Some(self.to.meta.clone()), out_of_step: true, ..Open::default() };
        let mut volume = Volume::open(&self.to.image, &how)?;
        let damage = verify_and_unmount(volume.device(), volume.store(), &self.to.meta, self.may_continue)?;
        volume.close()?;
        Ok(damage)
    }

    /// Copies the disk of `source` and its metadata directory, from a zoned device or to one, band by band through the emulated disks. A zoned
    /// device that holds data is refused without `force`. A copy that fails leaves nothing.
    fn copy_to_disk(&self, source: &Area, names_copied: &mut dyn FnMut()) -> Result<CopiedDisk, LiveError> {
        let CopyJob { from, to, force, .. } = *self;
        refuse_existing(&to.meta)?;
        let shape = *source.device.shape();
        let disk = match zoned::is_zoned(&to.image)? {
            true => {
                let blank = blank_zones(&to.image, force)?;
                check_bands(from, &shape, &to.image, &blank.layout.shape)?;
                blank.fill()?
            }
            false => Blank::choose(&to.image, &shape, bytes_for(&shape).unwrap_or(u64::MAX), false)?.fill()?,
        };
        self.fill_disk(disk, source, names_copied)
    }

    /// Copies to `disk`, and removes the copy if that fails.
    fn fill_disk(
        &self,
        disk: Arc<dyn HostManaged>,
        source: &Area,
        names_copied: &mut dyn FnMut(),
    ) -> Result<CopiedDisk, LiveError> {
        let CopyJob { from, to, may_continue, .. } = *self;
        let meta_error = |error| LiveError::file_system(&to.meta, error);
        let disk_error = |error: DeviceError| area_error(&to.image, error.into());
        let mut copy = || {
            Area::empty(&*disk).and_then(|()| disk.flush()).map_err(disk_error)?;
            directory::copy(&from.meta, &to.meta, may_continue)?;
            names_copied();
            let first = &source.newest;
            let home = Home::open(&to.meta, first.metadata, first.uuid, first.key)?;
            let mounts = 1 + first.mounts;
            // The mark can be final already, because the copy is no volume until its superblock is written.
            home.set_mark(mounts, MountStep::Closed, &to.image).map_err(meta_error)?;
            let path = home.path.as_os_str().as_bytes().to_vec();
            let store = Arc::new(DirectoryStore::open(home, true).map_err(meta_error)?);
            let disk_below: Arc<dyn HostManaged> = Arc::new(data_part(&source.device));
            let original = Original { disk: disk_below, store: &store, owners: OnceLock::new(), may_continue };
            copy_bands(&original, &data_part(&disk)).map_err(|error| match error {
                CopyError::Read(error) => area_error(&from.image, error.into()),
                CopyError::Write(error) => disk_error(error),
            })?;
            Ok((store, Superblock { shape: *disk.shape(), mounts, is_clean: true, path, ..first.clone() }))
        };
        let (store, superblock) = copy().inspect_err(|_| undo(&*disk, to))?;
        Ok(CopiedDisk { disk, store, superblock })
    }
}

/// A finished copy on a disk that is not yet durable. It has no superblock yet, so that an unfinished copy is not taken for a volume.
struct CopiedDisk {
    disk: Arc<dyn HostManaged>,
    store: Arc<DirectoryStore>,
    superblock: Superblock,
}

fn undo(disk: &dyn HostManaged, to: &VolumePaths) {
    let _ = Area::empty(disk);
    remove(to);
}

impl CopiedDisk {
    /// Makes the copy durable and a clean volume. Returns the damage that was copied. Leaves nothing if that fails.
    fn finish(self, job: &CopyJob<'_>) -> Result<Damage, LiveError> {
        let CopiedDisk { disk, store, superblock } = self;
        let failed = |error: AreaError| area_error(&job.to.image, error);
        let finish = || {
            disk.flush().map_err(|error| failed(error.into()))?;
            let damage = verify_and_unmount(Arc::new(data_part(&disk)), store, &job.to.meta, job.may_continue)?;
            Area::begin(Arc::clone(&disk), superblock).map_err(failed)?;
            Ok(damage)
        };
        finish().inspect_err(|_| undo(&*disk, job.to))
    }
}

/// Errors: the zones of the device at `path` are not the bands of `from`, so that the data can't keep its places.
fn check_bands(from: &VolumePaths, shape: &Shape, path: &Path, zones: &Shape) -> Result<(), LiveError> {
    if fits(shape, zones) {
        return Ok(());
    }
    let (image, path) = (from.image.display(), path.display());
    let remedy = "make a volume there (smrkit mkfs), mount both and copy the files (rsync -aAX)";
    Err(LiveError::impossible(match shape.model {
        Model::Caveat => format!("{image} is a caveat disk, and {path} takes no writes just anywhere: {remedy}"),
        Model::StrictAppend => {
            let bands_in_words = |shape: &Shape| {
                let bytes = |granules: u64| Bytes(granules * shape.granule_bytes);
                let (band, gap) = (bytes(shape.bands.granules), bytes(shape.bands.gap_granules));
                format!("{} of {band}, {gap} apart", shape.bands.count)
            };
            format!(
                "the zones of {path} ({}) are not the bands of {image} ({}): {remedy}",
                bands_in_words(zones),
                bands_in_words(shape)
            )
        }
    }))
}

/// The disk that is copied. Granules that can't be read are copied as zeros if they belong to no file; if they do, the copy fails, and the error
/// names the file.
struct Original<'a> {
    disk: Arc<dyn HostManaged>,
    /// The metadata's copy.
    store: &'a DirectoryStore,
    /// Extents and their files, in order; read at the first need.
    owners: OnceLock<FsResult<Vec<(Span, NodeId)>>>,
    may_continue: &'a MayContinue<'a>,
}

impl Original<'_> {
    /// Reads one granule of a span that could not be read at once.
    fn read_granule(&self, at: Granule, mut room: ReadBuffer<'_>, cause: Cause) -> DeviceResult {
        contents::check_interrupt(self.may_continue).map_err(DeviceError::Io)?;
        let bytes = room.bytes();
        let read = self.disk.read(at, room.part(0, bytes), cause);
        let Err(DeviceError::Io(error)) = read else { return read };
        room.clear();
        self.check_unowned(Span { at, count: 1 }, &error)
    }

    /// Errors: `span`, which can't be read because of `why`, belongs to a file, whose name is in the error.
    fn check_unowned(&self, span: Span, why: &dyn Display) -> DeviceResult {
        let failed = |what: String| Err(DeviceError::Io(std::io::Error::other(what)));
        let owners = match self.owners.get_or_init(|| owners(self.store)) {
            Ok(owners) => owners,
            Err(error) => return failed(format!("{why}; and its maps: {error}: run smrkit fsck")),
        };
        let after = owners.partition_point(|(owned, _)| owned.at < span.end());
        let Some((_, file)) = owners[..after].last().filter(|(owned, _)| owned.overlap(span).is_some()) else {
            return Ok(());
        };
        let path = self.store.path_to(*file).unwrap_or_default();
        let at = Bytes(span.at.0 * self.disk.shape().granule_bytes);
        failed(format!(
            "what lies at {at} of its data can't be read ({why}) and belongs to {}: remove or replace that file and \
             try again; smrkit scrub MOUNTPOINT names all such files",
            String::from_utf8_lossy(&path).trim_start_matches('/')
        ))
    }
}

/// Lists the extents of all files in the order of the disk. An extent that files share is listed for the first of them only.
fn owners(store: &DirectoryStore) -> FsResult<Vec<(Span, NodeId)>> {
    let mut owners = Vec::new();
    store.scan(&mut |id, record| -> FsResult {
        let Some(record) = record else { return Ok(()) };
        let decoded = map::decode_places(&record, |number| map::load_part(store, number))?;
        owners.extend(decoded.map.extents_from(0).filter_map(|piece| Some((piece.span()?, id))));
        Ok(())
    })?;
    owners.sort_unstable();
    owners.dedup_by(|(next, _), (kept, _)| {
        // Cuts off the part that belongs to the extent before.
        let start = next.at.max(kept.end());
        *next = Span { at: start, count: next.end().max(start) - start };
        next.is_empty()
    });
    Ok(owners)
}

impl stacked::Stacked for Original<'_> {
    type Below = dyn HostManaged;

    fn below(&self) -> &Self::Below {
        &*self.disk
    }

    fn read(&self, at: Granule, mut room: ReadBuffer<'_>, cause: Cause) -> DeviceResult {
        contents::check_interrupt(self.may_continue).map_err(DeviceError::Io)?;
        let bytes = room.bytes();
        let whole = self.below().read(at, room.part(0, bytes), cause);
        let Err(DeviceError::Io(_)) = whole else { return whole };
        let granule = self.below().shape().granule_bytes;
        (0..bytes / granule).try_for_each(|i| self.read_granule(at + i, room.part(i * granule, granule), cause))
    }

    fn report(&self, first: u64, count: u64) -> DeviceResult<Vec<BandReport>> {
        let reports = self.below().report(first, count)?;
        for (band, _) in (first..).zip(&reports).filter(|(_, report)| report.state == BandState::Offline) {
            self.check_unowned(self.below().shape().bands.span(band), &"its zone is offline")?;
        }
        Ok(reports)
    }
}
