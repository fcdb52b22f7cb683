//! Platters of the simulator: a drive's clock, and its medium of nothing or stamps.
//!
//! On stamps the simulator's own shingling law destroys, by distances and with a write history of its own, so that what the
//! models above do is checked by other code. On nothing only the model above destroys.

use std::io;

use parking_lot::Mutex;
use smrkit::disk::Disk;
use smrkit::drive::Drive;
use smrkit::error::{DiskResult, Error};
use smrkit::medium::interference::Interference;
use smrkit::medium::{Buf, Medium, Stamp, Stamps};
use smrkit::tally::Cause;
use smrkit::units::{Lba, Nanos, Pba, SECTOR_BYTES};

use super::{Platters, Shape};
use crate::data::{Data, ReadBuffer};
use crate::error::{DeviceError, DeviceResult};
use crate::units::{Granule, HostJournal, Span};

/// Contents of platters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// Nothing: only time is of interest.
    Nothing,
    /// Numbers of writes, and marks of what was destroyed.
    Stamps,
}

/// The platters of a simulated drive.
pub struct Modelled {
    disk: Mutex<Written>,
    granule_sectors: u64,
}

struct Written {
    disk: Disk,
    writes: u64,
}

impl Modelled {
    /// The platters of `drive`, for a disk of that shape. Errors: a drive that is too small.
    pub fn new(drive: Drive, contents: Contents, shape: &Shape) -> Result<Modelled, Error> {
        shape.check()?;
        let granule_sectors = shape.granule_bytes / SECTOR_BYTES;
        let (needed, sectors) = (shape.granules * granule_sectors, drive.geometry.sectors);
        if needed > sectors {
            return Err(Error::Impossible(format!(
                "a disk of {needed} sectors on {}, which has {sectors}: take a smaller size or a larger drive",
                drive.name
            )));
        }
        let law = match contents {
            Contents::Stamps => Interference::Distances {
                did: shape.did * granule_sectors,
                dpid: shape.dpid * granule_sectors,
                writes: 1,
            },
            Contents::Nothing => Interference::None,
        };
        let medium = match contents {
            Contents::Nothing => Medium::NoData,
            Contents::Stamps => Medium::Stamps(Stamps::new()),
        };
        let disk = Disk::new(&drive.with_interference(law)?, medium);
        Ok(Modelled { disk: Mutex::new(Written { disk, writes: 0 }), granule_sectors })
    }

    fn pba(&self, at: Granule) -> Pba {
        Pba(at.0 * self.granule_sectors)
    }

    /// An error if any of the stamps read from `at` on is of damage.
    fn check(&self, at: Granule, stamps: &[u64]) -> DeviceResult {
        let granule = |sector: u64| Granule(sector / self.granule_sectors);
        match stamps.iter().position(|&stamp| Stamp(stamp).is_damaged()) {
            None => Ok(()),
            Some(i) => {
                let at = granule(self.pba(at).0 + i as u64);
                Err(DeviceError::Damaged { at, by: granule(Stamp(stamps[i]).lba().0) })
            }
        }
    }
}

impl Platters for Modelled {
    fn read(&self, at: Granule, mut room: ReadBuffer<'_>, cause: Cause) -> DeviceResult {
        let sectors = room.bytes() / SECTOR_BYTES;
        let mut written = self.disk.lock();
        let mut buf = written.disk.buf(sectors);
        done(written.disk.read(self.pba(at), sectors, cause, &mut buf, 0))?;
        drop(written);
        if let Buf::Stamps(stamps) = &buf {
            self.check(at, stamps)?;
        }
        room.clear();
        Ok(())
    }

    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        let (pba, sectors) = (self.pba(at), data.bytes() / SECTOR_BYTES);
        let mut written = self.disk.lock();
        written.writes += 1;
        let mut buf = written.disk.buf(sectors);
        if let Buf::Stamps(stamps) = &mut buf {
            for (lba, stamp) in (pba.0..).zip(stamps) {
                *stamp = Stamp::new(Lba(lba), written.writes).0;
            }
        }
        done(written.disk.write(pba, sectors, cause, &buf, 0))
    }

    fn destroy(&self, _span: Span, _by: Granule) -> DeviceResult {
        Ok(())
    }

    fn keep_cursor(&self, _band: u64, _cursor: Granule) -> DeviceResult {
        Ok(())
    }

    fn flush_with(&self, _journal: Option<HostJournal>) -> DeviceResult {
        done(self.disk.lock().disk.flush())
    }

    fn now(&self) -> Nanos {
        self.disk.lock().disk.now()
    }

    fn wait_until(&self, time: Nanos) {
        self.disk.lock().disk.wait_until(time);
    }
}

fn done(result: DiskResult) -> DeviceResult {
    result.map_err(|fault| DeviceError::Io(io::Error::other(fault)))
}
