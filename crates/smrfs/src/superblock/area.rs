//! Place of the superblock: two places at the disk's beginning, of which the older one is rewritten.
//!
//! Caveat-Scriptor: two granules more than max(DID, DPID) apart and as far from the data, so that neither law forbids to
//! rewrite them. Strict-append: the first two bands; one is appended to until it is full, then the other begins anew.

use std::sync::Arc;

use smrkit::tally::Cause;

use super::{Superblock, SuperblockError};
use crate::data::{Data, ReadBuffer};
use crate::device::part::Part;
use crate::device::{BandReport, Bands, HostManaged, Model, Shape};
use crate::error::{DeviceError, DeviceResult};
use crate::units::Granule;

/// The bands that superblocks take on a strict-append disk.
const BANDS: u64 = 2;

/// Granules before a band's cursor in which its last superblock is looked for: each cut leaves a torn one at most, and what
/// was never a superblock's band is not read to its beginning (assumption).
const SEARCHED: usize = 256;

/// Why a superblock could not be found or written.
#[derive(Debug, thiserror::Error)]
pub enum AreaError {
    /// Something other than a superblock.
    #[error(transparent)]
    Superblock(#[from] SuperblockError),
    /// The disk failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// The granules at a disk's beginning that superblocks take.
pub fn granules(shape: &Shape) -> u64 {
    match shape.model {
        Model::Caveat => 2 * (shape.did.max(shape.dpid) + 1),
        Model::StrictAppend => BANDS * (shape.bands.granules + shape.bands.gap_granules),
    }
}

/// The least granules that a disk needs for its superblocks and some data.
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
    device: Arc<dyn HostManaged>,
    newest: Superblock,
    /// The place of the newest: the granule, or the band.
    place: u64,
}

impl Area {
    /// Finds the newest superblock, which tells the size of the disk.
    pub fn load(device: Arc<dyn HostManaged>) -> Result<Area, AreaError> {
        let area = Area::load_resized(device)?;
        match area.newest.shape == *area.device.shape() {
            true => Ok(area),
            false => Err(SuperblockError::Resized.into()),
        }
    }

    /// Finds the newest superblock, whatever size it names.
    pub fn load_resized(device: Arc<dyn HostManaged>) -> Result<Area, AreaError> {
        let mut best: Result<(Superblock, u64), AreaError> = Err(SuperblockError::Foreign.into());
        for place in 0..2 {
            let found = match device.shape().model {
                Model::Caveat => read(&device, copy(device.shape(), place)),
                Model::StrictAppend => last_in_band(&device, place),
            };
            best = match (best, found) {
                (Ok(best), Ok(found)) if found.sequence > best.0.sequence => Ok((found, place)),
                (Ok(best), _) => Ok(best),
                (Err(_), Ok(found)) => Ok((found, place)),
                (Err(AreaError::Superblock(SuperblockError::Foreign)), Err(error)) => Err(error),
                (Err(error), Err(_)) => Err(error),
            };
        }
        let (mut newest, place) = best?;
        let Shape { granules, bands, .. } = *device.shape();
        // How many bands may be open is for the disk to say, today.
        newest.shape.bands.max_open = bands.max_open;
        let bands = Bands { count: bands.count, ..newest.shape.bands };
        if (Shape { granules, bands, ..newest.shape }) != *device.shape() {
            return Err(SuperblockError::Malformed("it is that of another disk").into());
        }
        Ok(Area { device, newest, place })
    }

    /// Writes the first superblock of a disk, on which nothing else is left.
    pub fn format(device: Arc<dyn HostManaged>, first: Superblock) -> Result<Area, AreaError> {
        Area::empty(&*device)?;
        Area::begin(device, first)
    }

    /// Makes old superblocks unreadable; strict-append bands are emptied, all that can be written.
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
        // It goes into copy 0, or to the beginning of band 0.
        let place = if device.shape().model == Model::Caveat { 1 } else { 0 };
        let mut area = Area { device, newest: first.clone(), place };
        area.store(first)?;
        Ok(area)
    }

    /// The newest superblock.
    pub fn newest(&self) -> &Superblock {
        &self.newest
    }

    /// The disk that it is on.
    pub fn device(&self) -> &Arc<dyn HostManaged> {
        &self.device
    }

    /// Writes a newer superblock, durably; the one before stays readable.
    pub fn store(&mut self, mut next: Superblock) -> Result<(), AreaError> {
        next.sequence = self.newest.sequence + 1;
        let bytes = next.encode()?;
        // Whatever fails from here on, the place of the newest is not touched.
        match self.device.shape().model {
            Model::Caveat => {
                let place = 1 - self.place;
                self.device.write(copy(self.device.shape(), place), Data::Bytes(&bytes), Cause::Map)?;
                self.device.flush()?;
                self.place = place;
            }
            Model::StrictAppend => {
                let band = self.append(&bytes)?;
                self.device.flush()?;
                self.place = band;
            }
        }
        self.newest = next;
        Ok(())
    }

    /// Appends to the band of the newest, or to the other one, begun anew, if that is full.
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

/// Place of a copy on a Caveat-Scriptor disk.
fn copy(shape: &Shape, place: u64) -> Granule {
    Granule(place * (shape.did.max(shape.dpid) + 1))
}

fn read(device: &Arc<dyn HostManaged>, at: Granule) -> Result<Superblock, AreaError> {
    let mut bytes = vec![0; device.shape().granule_bytes as usize];
    device.read(at, ReadBuffer::Bytes(&mut bytes), Cause::Map)?;
    Ok(Superblock::decode(&bytes)?)
}

/// The last superblock of a band that can be read: behind it lies at most what a power cut tore.
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
