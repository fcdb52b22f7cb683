//! Platters of the simulator: a drive's clock, and its medium of nothing, stamps or bytes.
//!
//! On stamps the simulator's own shingling law destroys, by distances and with a write history of its own, so that what the
//! models above do is checked by other code. On nothing and on bytes only the model above destroys.

use std::io;

use parking_lot::Mutex;
use smrkit::disk::Disk;
use smrkit::drive::Drive;
use smrkit::error::{DiskResult, Error};
use smrkit::medium::interference::Interference;
use smrkit::medium::{Backing, Buf, Medium, Stamp, Stamps, WritePart};
use smrkit::tally::Cause;
use smrkit::units::{Lba, Nanos, Pba, SECTOR_BYTES};

use super::Shape;
use super::platters::{DESTROYED_BYTE, Platters};
use crate::data::{Data, ReadBuffer};
use crate::error::{DeviceError, DeviceResult};
use crate::units::{Granule, HostJournal, Span};

/// Contents of platters.
pub enum Contents {
    /// Nothing: only time is of interest.
    Nothing,
    /// Numbers of writes, and marks of what was destroyed.
    Stamps,
    /// Bytes.
    Bytes(Box<dyn Backing>),
}

/// The platters of a simulated drive.
pub struct Modelled {
    disk: Mutex<Written>,
    granule_sectors: u64,
}

struct Written {
    disk: Disk,
    writes: u64,
    stamps: bool,
}

impl Modelled {
    /// The platters of `drive`, for a disk of that shape. Errors: a drive that is too small.
    pub fn new(drive: Drive, contents: Contents, shape: &Shape) -> Result<Modelled, Error> {
        shape.check()?;
        let granule_sectors = shape.granule_bytes / SECTOR_BYTES;
        let (needed, sectors) = (shape.granules * granule_sectors, drive.geometry.sectors());
        if needed > sectors {
            return Err(Error::Impossible(format!(
                "a disk of {needed} sectors on {}, which has {sectors}: take a smaller size or a larger drive",
                drive.name
            )));
        }
        let stamps = matches!(contents, Contents::Stamps);
        let law = match contents {
            Contents::Stamps => Interference::Distances {
                did: shape.did * granule_sectors,
                dpid: shape.dpid * granule_sectors,
                writes: 1,
            },
            _ => Interference::None,
        };
        let medium = match contents {
            Contents::Nothing => Medium::NoData,
            Contents::Stamps => Medium::Stamps(Stamps::new()),
            Contents::Bytes(backing) => Medium::Bytes(backing),
        };
        let disk = Disk::new(&drive.with_interference(law)?, medium);
        Ok(Modelled { disk: Mutex::new(Written { disk, writes: 0, stamps }), granule_sectors })
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
        match (&buf, &mut room) {
            (Buf::Bytes(bytes), ReadBuffer::Bytes(out)) => out.copy_from_slice(bytes),
            (Buf::Stamps(stamps), _) => {
                self.check(at, stamps)?;
                room.clear();
            }
            _ => room.clear(),
        }
        Ok(())
    }

    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        let (pba, sectors) = (self.pba(at), data.bytes() / SECTOR_BYTES);
        let mut written = self.disk.lock();
        written.writes += 1;
        let mut buf = written.disk.buf(sectors);
        match (&mut buf, data) {
            (Buf::Bytes(to), Data::Bytes(from)) => to.copy_from_slice(from),
            (Buf::Stamps(stamps), _) => {
                for (lba, stamp) in (pba.0..).zip(stamps) {
                    *stamp = Stamp::new(Lba(lba), written.writes).0;
                }
            }
            _ => {}
        }
        done(written.disk.write(pba, sectors, cause, &buf, 0))
    }

    fn destroy(&self, span: Span, _by: Granule) -> DeviceResult {
        let mut written = self.disk.lock();
        if written.stamps || !written.disk.holds_data() {
            return Ok(());
        }
        let sectors = span.count * self.granule_sectors;
        let buf = Buf::Bytes(vec![DESTROYED_BYTE; (sectors * SECTOR_BYTES) as usize]);
        let parts = [WritePart::Data { buf: &buf, at: 0, sectors }];
        done(written.disk.write_parts_lasting(Nanos::ZERO, self.pba(span.at), Cause::Host, &parts))
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
