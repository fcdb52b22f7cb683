//! The superblock: the file system that a disk belongs to, the disk's shape, and the path of the metadata.
//!
//! docs/reference/smrfs-format.md describes the format. A superblock is one granule. The disk begins with two places for it, of which the
//! one with the older superblock is rewritten:
//!
//! - On Caveat-Scriptor, these are two granules more than max(DID, DPID) apart, and as far from the data, so that rewriting one damages
//!   neither the other nor data.
//! - On strict-append, these are the first two bands. Superblocks are appended to one until it is full; then the other is reset and used.
//!
//! The rest of the disk is a disk of its own, for data.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use smrkit::tally::Cause;

use crate::data::{Data, ReadBuffer};
use crate::device::{BandReport, HostManaged, Model, Shape, stacked};
use crate::error::{DeviceError, DeviceResult, Violation};
use crate::map::{sealed, unsealed};
use crate::units::{Granule, Span};

/// First bytes of every superblock.
const MAGIC: &[u8; 8] = b"SMRfs\r\n\0";
/// The version of the format.
const VERSION: u32 = 2;
/// The fields before the path, with magic and version.
const HEAD_BYTES: usize = 146;

/// A universally unique identifier. Written by hand: it is only built from random bytes and printed, which needs no crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// A UUID of version 4 from random bytes.
    pub fn random(mut bytes: [u8; 16]) -> Uuid {
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Uuid(bytes)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

/// The key of a volume, with which its maps are sealed. It is never shown, because a user who knows it can forge maps.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct VolumeKey(pub [u8; 16]);

impl fmt::Debug for VolumeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VolumeKey(..)")
    }
}

impl FromStr for Uuid {
    type Err = SuperblockError;

    fn from_str(text: &str) -> Result<Uuid, SuperblockError> {
        let digits: String = text.chars().filter(|&digit| digit != '-').collect();
        // The parser would also take a sign before the digits.
        if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(SuperblockError::Malformed("a UUID"));
        }
        let number = u128::from_str_radix(&digits, 16).map_err(|_| SuperblockError::Malformed("a UUID"))?;
        Ok(Uuid(number.to_be_bytes()))
    }
}

/// Why bytes are no superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    /// The bytes are something else.
    #[error("no SMRfs file system is on it: make one with smrkit mkfs, or check the path")]
    Foreign,
    /// A version that this program does not know.
    #[error("its format is version {}, and this smrkit knows version {VERSION}: {}", .0, version_remedy(.0))]
    Version(u32),
    /// The superblock is damaged.
    #[error("its superblock is damaged: restore the image from a copy")]
    Checksum,
    /// The checksum is right, but the fields make no sense.
    #[error("its superblock makes no sense ({0}): restore the image from a copy, or use the smrkit that made it")]
    Malformed(&'static str),
}

/// Remedy for a superblock of a version that is not known.
fn version_remedy(version: &u32) -> &'static str {
    if *version > VERSION {
        "use a newer smrkit"
    } else {
        "copy the files with the smrkit that made it to a new volume (smrkit mkfs)"
    }
}

/// The superblock of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The file system.
    pub uuid: Uuid,
    /// The metadata root that belongs to it.
    pub metadata: Uuid,
    /// The whole disk.
    pub shape: Shape,
    /// Number of the superblock, in order of writing. The highest is valid.
    pub sequence: u64,
    /// Number of writable mounts so far.
    pub mounts: u64,
    /// True if the last mount ended in good order.
    pub is_clean: bool,
    /// The key of its maps' seals.
    pub key: VolumeKey,
    /// Path of the directory that holds the metadata.
    pub path: Vec<u8>,
}

impl Superblock {
    /// Its bytes, a whole granule. A path that is too long is an error.
    pub fn encode(&self) -> Result<Vec<u8>, SuperblockError> {
        if self.path.len() > self.path_bytes_max() {
            return Err(SuperblockError::Malformed("the path of the metadata directory is too long"));
        }
        let shape = &self.shape;
        let mut out = Vec::with_capacity(shape.granule_bytes as usize);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.uuid.0);
        out.extend_from_slice(&self.metadata.0);
        out.push(u8::from(shape.model == Model::Caveat));
        out.push(u8::from(self.is_clean));
        let counts = [self.sequence, self.mounts];
        counts.iter().chain(&shape.words()).for_each(|count| out.extend_from_slice(&count.to_le_bytes()));
        out.extend_from_slice(&(self.path.len() as u32).to_le_bytes());
        debug_assert_eq!(out.len(), HEAD_BYTES - 16);
        out.extend_from_slice(&self.key.0);
        out.extend_from_slice(&self.path);
        out.resize(shape.granule_bytes as usize - 4, 0);
        Ok(sealed(out))
    }

    fn path_bytes_max(&self) -> usize {
        (self.shape.granule_bytes as usize).saturating_sub(HEAD_BYTES + 4)
    }

    /// Reads the superblock in a granule. Errors: the bytes are none.
    pub fn decode(granule: &[u8]) -> Result<Superblock, SuperblockError> {
        let mut reader = SuperblockReader(granule);
        if reader.take::<8>().ok() != Some(*MAGIC) {
            return Err(SuperblockError::Foreign);
        }
        // Checked before the version: a flipped bit in the version is damage, which no other program can read either.
        unsealed(granule).ok_or(SuperblockError::Checksum)?;
        let version = u32::from_le_bytes(reader.take()?);
        if version != VERSION {
            return Err(SuperblockError::Version(version));
        }
        let (uuid, metadata) = (Uuid(reader.take()?), Uuid(reader.take()?));
        let model = match reader.take::<1>()? {
            [0] => Model::StrictAppend,
            [1] => Model::Caveat,
            _ => return Err(SuperblockError::Malformed("its model")),
        };
        let is_clean = reader.take::<1>()? == [1];
        let (sequence, mounts) = (reader.count()?, reader.count()?);
        let mut words = [0; 8];
        for word in &mut words {
            *word = reader.count()?;
        }
        let shape = Shape::from_words(model, words);
        let path_bytes = u32::from_le_bytes(reader.take()?) as usize;
        let key = VolumeKey(reader.take()?);
        let path = reader.0.get(..path_bytes).ok_or(SuperblockError::Malformed("its path"))?.to_vec();
        if shape.granule_bytes != granule.len() as u64 || shape.check().is_err() {
            return Err(SuperblockError::Malformed("its shape"));
        }
        let superblock = Superblock { uuid, metadata, shape, sequence, mounts, is_clean, key, path };
        if superblock.path.len() > superblock.path_bytes_max() || superblock.path.contains(&0) {
            return Err(SuperblockError::Malformed("its path"));
        }
        Ok(superblock)
    }
}

struct SuperblockReader<'a>(&'a [u8]);

impl SuperblockReader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], SuperblockError> {
        let (bytes, rest) = self.0.split_first_chunk::<N>().ok_or(SuperblockError::Checksum)?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn count(&mut self) -> Result<u64, SuperblockError> {
        self.take().map(u64::from_le_bytes)
    }
}

/// The bands that superblocks take on a strict-append disk.
const BANDS: u64 = 2;

/// Granules before a band's cursor in which its last superblock is searched (assumption). A power cut leaves at most one torn superblock, so
/// a few would do; the limit keeps a band that never held any from being read to its beginning.
const SEARCHED: usize = 256;

/// Why a superblock could not be found or written.
#[derive(Debug, thiserror::Error)]
pub enum AreaError {
    /// The superblock is missing or unusable.
    #[error(transparent)]
    Superblock(#[from] SuperblockError),
    /// The disk failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Granules at the beginning of a disk that are reserved for superblocks.
pub fn granules(shape: &Shape) -> u64 {
    match shape.model {
        Model::Caveat => 2 * (shape.did.max(shape.dpid) + 1),
        Model::StrictAppend => BANDS * (shape.bands.granules + shape.bands.gap_granules),
    }
}

/// The smallest disk, in granules, with room for superblocks and some data.
pub fn granules_min(shape: &Shape) -> u64 {
    match shape.model {
        Model::Caveat => granules(shape) + 1,
        Model::StrictAppend => granules(shape) + shape.bands.granules,
    }
}

/// The rest of the disk, for data.
pub fn data_part(device: &Arc<dyn HostManaged>) -> Part {
    let shape = device.shape();
    Part::new(Arc::clone(device), granules(shape), bands(shape))
}

/// The shape of the rest of the disk.
pub fn data_shape(shape: &Shape) -> Shape {
    Part::shape_of(shape, granules(shape), bands(shape))
}

fn bands(shape: &Shape) -> u64 {
    if shape.model == Model::StrictAppend { BANDS } else { 0 }
}

/// The superblocks of a disk.
pub struct Area {
    /// The disk that it is on.
    pub device: Arc<dyn HostManaged>,
    /// The newest superblock.
    pub newest: Superblock,
    /// The place of the newest: the granule, or the band.
    place: u64,
}

impl Area {
    /// Finds the newest superblock. Errors: there is none, or the disk has another shape.
    pub fn load(device: Arc<dyn HostManaged>) -> Result<Area, AreaError> {
        let mut best: Result<(Superblock, u64), AreaError> = Err(SuperblockError::Foreign.into());
        for place in 0..2 {
            let found = match device.shape().model {
                Model::Caveat => read(&device, copy(device.shape(), place)),
                Model::StrictAppend => last_in_band(&device, place),
            };
            // The newer of two wins, one that can be read over an error, and of two errors the first that says more than that nothing is there.
            best = match (best, found) {
                (Ok(best), Ok(found)) if found.sequence > best.0.sequence => Ok((found, place)),
                (Ok(best), _) => Ok(best),
                (Err(_), Ok(found)) => Ok((found, place)),
                (Err(AreaError::Superblock(SuperblockError::Foreign)), Err(error)) => Err(error),
                (Err(error), Err(_)) => Err(error),
            };
        }
        let (mut newest, place) = best?;
        // The disk decides how many bands may be open; that may have changed since the superblock was written.
        newest.shape.bands.max_open = device.shape().bands.max_open;
        if newest.shape != *device.shape() {
            return Err(SuperblockError::Malformed("it is that of another disk").into());
        }
        Ok(Area { device, newest, place })
    }

    /// Erases old superblocks from a disk and writes its first one.
    pub fn format(device: Arc<dyn HostManaged>, first: Superblock) -> Result<Area, AreaError> {
        Area::empty(&*device)?;
        Area::begin(device, first)
    }

    /// Makes old superblocks unreadable. On a strict-append disk this resets every band that can be written.
    pub fn empty(device: &dyn HostManaged) -> DeviceResult {
        let shape = *device.shape();
        if shape.model == Model::Caveat {
            let zeros = vec![0; shape.granule_bytes as usize];
            return (0..2).try_for_each(|place| device.write(copy(&shape, place), Data::Bytes(&zeros), Cause::Map));
        }
        for (band, report) in (0..).zip(device.report(0, shape.bands.count)?) {
            if report.cursor > report.start && !report.state.is_lost() {
                device.reset(band)?;
            }
        }
        Ok(())
    }

    /// Writes the first superblock of a disk that has been emptied, durably.
    pub fn begin(device: Arc<dyn HostManaged>, first: Superblock) -> Result<Area, AreaError> {
        // It goes into copy 0, or to the beginning of band 0: `store` writes to the other copy of a Caveat disk, but appends to this band of a strict-append one.
        let place = if device.shape().model == Model::Caveat { 1 } else { 0 };
        let mut area = Area { device, newest: first.clone(), place };
        area.store(first)?;
        Ok(area)
    }

    /// Writes a newer superblock, durably; the one before stays readable.
    pub fn store(&mut self, mut next: Superblock) -> Result<(), AreaError> {
        next.sequence = self.newest.sequence + 1;
        let bytes = next.encode()?;
        // A failure from here on leaves the newest superblock intact, as the next goes to another place.
        let place = match self.device.shape().model {
            Model::Caveat => {
                let place = 1 - self.place;
                self.device.write(copy(self.device.shape(), place), Data::Bytes(&bytes), Cause::Map)?;
                place
            }
            Model::StrictAppend => self.append(&bytes)?,
        };
        self.device.flush()?;
        (self.place, self.newest) = (place, next);
        Ok(())
    }

    /// Appends to the band of the newest superblock, or, if that is full, resets the other band and writes there. Returns the band.
    fn append(&self, bytes: &[u8]) -> DeviceResult<u64> {
        let bands = self.device.shape().bands;
        let cursor = |band: u64| -> DeviceResult<Granule> {
            Ok(self.device.report(band, 1)?.first().map_or(bands.span(band).end(), |report| report.cursor))
        };
        let at = cursor(self.place)?;
        if at < bands.span(self.place).end() {
            self.device.write(at, Data::Bytes(bytes), Cause::Map)?;
            return Ok(self.place);
        }
        let other = 1 - self.place;
        if cursor(other)? > bands.span(other).at {
            self.device.reset(other)?;
        }
        self.device.write(bands.span(other).at, Data::Bytes(bytes), Cause::Map)?;
        Ok(other)
    }
}

/// Granule of copy `place` on a Caveat-Scriptor disk.
fn copy(shape: &Shape, place: u64) -> Granule {
    Granule(place * (shape.did.max(shape.dpid) + 1))
}

fn read(device: &Arc<dyn HostManaged>, at: Granule) -> Result<Superblock, AreaError> {
    let mut bytes = vec![0; device.shape().granule_bytes as usize];
    device.read(at, ReadBuffer::Bytes(&mut bytes), Cause::Map)?;
    Ok(Superblock::decode(&bytes)?)
}

/// The last readable superblock of a band. Behind it there is at most one that a power cut tore.
fn last_in_band(device: &Arc<dyn HostManaged>, band: u64) -> Result<Superblock, AreaError> {
    let reports = device.report(band, 1)?;
    let Some(&BandReport { start, cursor, .. }) = reports.first() else { return Err(SuperblockError::Foreign.into()) };
    let mut worst = AreaError::Superblock(SuperblockError::Foreign);
    for at in (start.0..cursor.0).rev().take(SEARCHED) {
        match read(device, Granule(at)) {
            Ok(found) => return Ok(found),
            Err(error @ AreaError::Device(DeviceError::PowerCut)) => return Err(error),
            Err(error) if matches!(worst, AreaError::Superblock(SuperblockError::Foreign)) => worst = error,
            Err(_) => {}
        }
    }
    Err(worst)
}

/// All of a disk but its first granules.
pub struct Part {
    whole: Arc<dyn HostManaged>,
    shape: Shape,
    first: u64,
    first_band: u64,
}

impl Part {
    /// `whole` without its first `granules`, which are its first `bands`. One open band is left to those.
    pub fn new(whole: Arc<dyn HostManaged>, granules: u64, bands: u64) -> Part {
        let shape = Part::shape_of(whole.shape(), granules, bands);
        Part { whole, shape, first: granules, first_band: bands }
    }

    /// The shape of such a part.
    pub fn shape_of(whole: &Shape, granules: u64, bands: u64) -> Shape {
        let mut shape = *whole;
        shape.granules = shape.granules.saturating_sub(granules);
        shape.bands.count = shape.bands.count.saturating_sub(bands);
        if bands > 0 {
            shape.bands.max_open = shape.bands.max_open.saturating_sub(1);
        }
        shape
    }

    fn checked(&self, at: Granule, bytes: u64) -> DeviceResult<Granule> {
        let span = Span { at, count: bytes / self.shape.granule_bytes };
        if span.at.0.checked_add(span.count).is_none_or(|end| end > self.shape.granules) {
            return Err(Violation::OutOfRange { span, granules: self.shape.granules }.into());
        }
        Ok(at + self.first)
    }
}

impl stacked::Stacked for Part {
    type Below = dyn HostManaged;

    fn below(&self) -> &Self::Below {
        &*self.whole
    }

    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn read(&self, at: Granule, room: ReadBuffer<'_>, cause: Cause) -> DeviceResult {
        self.below().read(self.checked(at, room.bytes())?, room, cause)
    }

    fn expect(&self, span: Span) {
        if let Ok(at) = self.checked(span.at, span.count * self.shape.granule_bytes) {
            self.below().expect(Span { at, ..span });
        }
    }

    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        self.below().write(self.checked(at, data.bytes())?, data, cause)
    }

    fn reset(&self, band: u64) -> DeviceResult {
        let bands = self.shape.bands.count;
        // A disk without bands says so itself.
        if band >= bands && self.first_band > 0 {
            return Err(Violation::NoSuchBand { band, bands }.into());
        }
        self.below().reset(band + self.first_band)
    }

    fn report(&self, first: u64, count: u64) -> DeviceResult<Vec<BandReport>> {
        let bands = self.shape.bands.count;
        let (first, count) = (first.min(bands), count.min(bands - first.min(bands)));
        let mut reports = self.below().report(first + self.first_band, count)?;
        for report in &mut reports {
            report.start = Granule(report.start.0 - self.first);
            report.cursor = Granule(report.cursor.0 - self.first);
        }
        Ok(reports)
    }

    fn discard(&self, span: Span) {
        self.below().discard(Span { at: span.at + self.first, count: span.count });
    }
}
