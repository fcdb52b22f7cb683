//! Copies a volume from a zoned device, or to one, band by band through the emulated disks.
//!
//! The superblock is written last, when everything else is durable, so that an unfinished copy is not taken for a volume.

#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use smrfs::data::ReadBuffer;
use smrfs::device::strict::{CopyError, copy as copy_bands, fits};
use smrfs::device::{BandReport, BandState, HostManaged, Model, Shape, stacked};
use smrfs::error::{DeviceError, DeviceResult, FsResult};
use smrfs::map;
use smrfs::meta::{Maps, Names};
use smrfs::superblock::Superblock;
use smrfs::superblock::{Area, AreaError, data_part};
use smrfs::units::{Granule, NodeId, Span};
use smrkit::quantity::Bytes;
use smrkit::tally::Cause;

use super::{Damage, VolumePaths, refuse_taken, remove, verify_and_unmount};
use crate::contents::{self, GoesOn};
use crate::directory::{self, DirectoryStore, Home, MountStep};
use crate::error::LiveError;
use crate::image::{Blank, bytes_for};
use crate::volume::{blank_zones, of_area};
use crate::zoned;

/// A finished copy that is not yet durable, and has no superblock yet.
pub(super) struct Copied {
    disk: Arc<dyn HostManaged>,
    store: Arc<DirectoryStore>,
    to: VolumePaths,
    superblock: Superblock,
}

/// Copies the disk of `source` and its metadata directory. A zoned device that holds data is refused without `force`. A copy that fails leaves
/// nothing.
pub(super) fn copy(
    source: &Area,
    from: &VolumePaths,
    to: &VolumePaths,
    force: bool,
    names_copied: &mut dyn FnMut(),
    goes_on: &GoesOn,
) -> Result<Copied, LiveError> {
    refuse_taken(&to.meta)?;
    let shape = *source.device.shape();
    let disk = match zoned::is_zoned(&to.image)? {
        true => {
            let blank = blank_zones(&to.image, force)?;
            check(from, &shape, &to.image, &blank.layout.shape)?;
            blank.fill()?
        }
        false => Blank::choose(&to.image, &shape, bytes_for(&shape).unwrap_or(u64::MAX), false)?.fill()?,
    };
    copy_to_disk(disk, source, from, to, names_copied, goes_on)
}

/// Copies to `disk`, and removes the copy if that fails.
fn copy_to_disk(
    disk: Arc<dyn HostManaged>,
    source: &Area,
    from: &VolumePaths,
    to: &VolumePaths,
    names_copied: &mut dyn FnMut(),
    goes_on: &GoesOn,
) -> Result<Copied, LiveError> {
    let copied = fill(&disk, source, from, to, names_copied, goes_on).inspect_err(|_| undo(&*disk, to));
    copied.map(|(store, superblock)| Copied { disk, store, to: to.clone(), superblock })
}

fn undo(disk: &dyn HostManaged, to: &VolumePaths) {
    let _ = Area::empty(disk);
    remove(to);
}

impl Copied {
    /// Makes the copy durable and a clean volume. Returns the damage that was copied. Leaves nothing if that fails.
    pub(super) fn finish(self, goes_on: &GoesOn) -> Result<Damage, LiveError> {
        let Copied { disk, store, to, superblock } = self;
        let failed = |error: AreaError| of_area(&to.image, error);
        let durable = disk.flush().map_err(|error| failed(error.into()));
        durable
            .and_then(|()| verify_and_unmount(Arc::new(data_part(&disk)), store, &to.meta, goes_on))
            .and_then(|damage| Area::begin(Arc::clone(&disk), superblock).map(|_| damage).map_err(failed))
            .inspect_err(|_| undo(&*disk, &to))
    }
}

/// Errors: the zones of the device at `path` are not the bands of `from`, so that the data can't keep its places.
fn check(from: &VolumePaths, shape: &Shape, path: &Path, zones: &Shape) -> Result<(), LiveError> {
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

/// Copies the directory and the bands. Returns the copy's metadata store, and the superblock that is yet to be written.
fn fill(
    disk: &Arc<dyn HostManaged>,
    source: &Area,
    from: &VolumePaths,
    to: &VolumePaths,
    names_copied: &mut dyn FnMut(),
    goes_on: &GoesOn,
) -> Result<(Arc<DirectoryStore>, Superblock), LiveError> {
    let failed = |error| LiveError::file_system(&to.meta, error);
    let of_disk = |error: DeviceError| of_area(&to.image, error.into());
    Area::empty(&**disk).and_then(|()| disk.flush()).map_err(of_disk)?;
    directory::copy(&from.meta, &to.meta, goes_on)?;
    names_copied();
    let first = &source.newest;
    let home = Home::open(&to.meta, first.metadata, first.uuid, first.key)?;
    let mounts = 1 + first.mounts;
    // The mark can be final already, because the copy is no volume until its superblock is written.
    home.set_mark(mounts, MountStep::Closed, &to.image).map_err(failed)?;
    let path = home.path.as_os_str().as_bytes().to_vec();
    let store = Arc::new(DirectoryStore::open(home, true).map_err(failed)?);
    let original =
        Original { disk: Arc::new(data_part(&source.device)), store: &store, owners: OnceLock::new(), goes_on };
    copy_bands(&original, &data_part(disk)).map_err(|error| match error {
        CopyError::Read(error) => of_area(&from.image, error.into()),
        CopyError::Write(error) => of_disk(error),
    })?;
    Ok((store, Superblock { shape: *disk.shape(), mounts, is_clean: true, path, ..first.clone() }))
}

/// The disk that is copied. Granules that can't be read are copied as zeros if they belong to no file; if they do, the copy fails, and the error
/// names the file.
struct Original<'a> {
    disk: Arc<dyn HostManaged>,
    /// The metadata's copy.
    store: &'a DirectoryStore,
    /// Extents and their files, in order; read at the first need.
    owners: OnceLock<FsResult<Vec<(Span, NodeId)>>>,
    goes_on: &'a GoesOn<'a>,
}

impl Original<'_> {
    /// Reads one granule of a span that could not be read at once.
    fn read_granule(&self, at: Granule, mut room: ReadBuffer<'_>, cause: Cause) -> DeviceResult {
        contents::check(self.goes_on).map_err(DeviceError::Io)?;
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
        contents::check(self.goes_on).map_err(DeviceError::Io)?;
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
