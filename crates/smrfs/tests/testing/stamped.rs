//! Platters of the simulator with stamps on them, which its own shingling law destroys.
//!
//! By distances, and with a write history of its own, so that what the models above do is checked by other code.

use parking_lot::Mutex;
use smrkit::disk::Disk;
use smrkit::drive::Drive;
use smrkit::medium::interference::Interference;
use smrkit::medium::{Buf, Medium, Stamp, Stamps};
use smrkit::tally::Cause;
use smrkit::units::{Lba, Nanos, Pba, SECTOR_BYTES};

use super::shingled::Destructible;
use crate::data::{Data, ReadBuffer};
use crate::device::{Platters, Shape};
use crate::error::{DeviceError, DeviceResult};
use crate::units::{Granule, HostJournal, Span};

/// The platters, with numbers of writes on them, and marks of what was destroyed.
pub struct Stamped {
    state: Mutex<(Disk, u64)>,
    granule_sectors: u64,
}

impl Stamped {
    /// The platters of `drive`, for a disk of that shape, which fits on it.
    pub fn new(drive: Drive, shape: &Shape) -> Stamped {
        let granule_sectors = shape.granule_bytes / SECTOR_BYTES;
        let (did, dpid) = (shape.did * granule_sectors, shape.dpid * granule_sectors);
        let drive = drive.with_interference(Interference::Distances { did, dpid, writes: 1 }).expect("a law");
        let disk = Disk::new(&drive, Medium::Stamps(Stamps::new()));
        Stamped { state: Mutex::new((disk, 0)), granule_sectors }
    }

    fn pba(&self, at: Granule) -> Pba {
        Pba(at.0 * self.granule_sectors)
    }
}

impl Platters for Stamped {
    fn read(&self, at: Granule, mut room: ReadBuffer<'_>, cause: Cause) -> DeviceResult {
        let (sectors, disk) = (room.bytes() / SECTOR_BYTES, &mut self.state.lock().0);
        let mut buf = disk.buf(sectors);
        disk.read(self.pba(at), sectors, cause, &mut buf, 0).expect("a read");
        let Buf::Stamps(stamps) = &buf else { panic!("no stamps") };
        room.clear();
        match stamps.iter().position(|&stamp| Stamp(stamp).is_damaged()) {
            None => Ok(()),
            Some(i) => {
                let granule = |sector: u64| Granule(sector / self.granule_sectors);
                let (at, by) = (granule(self.pba(at).0 + i as u64), granule(Stamp(stamps[i]).lba().0));
                Err(DeviceError::Damaged { at, by })
            }
        }
    }

    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        let (pba, sectors, mut state) = (self.pba(at), data.bytes() / SECTOR_BYTES, self.state.lock());
        state.1 += 1;
        let stamps = (pba.0..pba.0 + sectors).map(|lba| Stamp::new(Lba(lba), state.1).0).collect();
        state.0.write(pba, sectors, cause, &Buf::Stamps(stamps), 0).expect("a write");
        Ok(())
    }

    fn flush_with(&self, _journal: Option<HostJournal>) -> DeviceResult {
        Ok(())
    }

    fn now(&self) -> Nanos {
        self.state.lock().0.now()
    }
}

/// The simulator destroys by itself.
impl Destructible for Stamped {
    fn destroy(&self, _span: Span, _by: Granule) -> DeviceResult {
        Ok(())
    }
}
