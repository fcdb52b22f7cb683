//! Platters of the simulator: a drive's clock, and a medium without data. A checker above finds out what writes would destroy.

use std::io;

use parking_lot::Mutex;
use smrkit::disk::Disk;
use smrkit::drive::Drive;
use smrkit::error::{DiskResult, Error};
use smrkit::medium::interference::Interference;
use smrkit::medium::{Buf, Medium};
use smrkit::tally::Cause;
use smrkit::units::{Nanos, Pba, SECTOR_BYTES};

use super::{Platters, Shape};
use crate::data::{Data, ReadBuffer};
use crate::error::{DeviceError, DeviceResult};
use crate::units::{Granule, HostJournal};

/// The platters of a simulated drive.
pub struct Modelled {
    disk: Mutex<Disk>,
    granule_sectors: u64,
}

impl Modelled {
    /// The platters of `drive`, for a disk of that shape. Errors: a drive that is too small.
    pub fn new(drive: Drive, shape: &Shape) -> Result<Modelled, Error> {
        shape.check()?;
        let granule_sectors = shape.granule_bytes / SECTOR_BYTES;
        let (needed, sectors) = (shape.granules * granule_sectors, drive.geometry.sectors);
        if needed > sectors {
            return Err(Error::Impossible(format!(
                "a disk of {needed} sectors on {}, which has {sectors}: take a smaller size or a larger drive",
                drive.name
            )));
        }
        let disk = Disk::new(&drive.with_interference(Interference::None)?, Medium::NoData);
        Ok(Modelled { disk: Mutex::new(disk), granule_sectors })
    }

    fn pba(&self, at: Granule) -> Pba {
        Pba(at.0 * self.granule_sectors)
    }
}

impl Platters for Modelled {
    fn read(&self, at: Granule, mut room: ReadBuffer<'_>, cause: Cause) -> DeviceResult {
        let sectors = room.bytes() / SECTOR_BYTES;
        done(self.disk.lock().read(self.pba(at), sectors, cause, &mut Buf::NoData, 0))?;
        room.clear();
        Ok(())
    }

    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        let sectors = data.bytes() / SECTOR_BYTES;
        done(self.disk.lock().write(self.pba(at), sectors, cause, &Buf::NoData, 0))
    }

    fn flush_with(&self, _journal: Option<HostJournal>) -> DeviceResult {
        done(self.disk.lock().flush())
    }

    fn now(&self) -> Nanos {
        self.disk.lock().now()
    }

    fn wait_until(&self, time: Nanos) {
        self.disk.lock().wait_until(time);
    }
}

fn done(result: DiskResult) -> DeviceResult {
    result.map_err(|fault| DeviceError::Io(io::Error::other(fault)))
}
