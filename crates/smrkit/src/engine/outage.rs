//! Power cuts: the layer starts anew, what the host finds is compared with what it was promised, and the host sends its
//! request again.

use super::Engine;
use crate::device::Device;
use crate::error::{DiskResult, Error, Fault};
use crate::shadow::Loss;
use crate::stats::outcome::PowerCut;
use crate::units::Lba;

/// Lost extents that a result names.
const LOST_SHOWN: usize = 100;

impl<D: Device> Engine<'_, D> {
    /// Does `work`, again after each power cut in it.
    #[inline]
    pub(super) fn through_outages<T>(&mut self, work: impl Fn(&mut Self) -> DiskResult<T>) -> Result<T, Error> {
        loop {
            match work(self) {
                Ok(done) => return Ok(done),
                Err(fault) => self.outage(fault)?,
            }
        }
    }

    /// After a fault: if it is a power cut, the device recovers, however often the power is cut meanwhile.
    #[cold]
    fn outage(&mut self, fault: Box<Fault>) -> Result<(), Error> {
        let (mut cuts, before, since) = (vec![write_cut(fault)?], self.device.physical_sectors(), self.device.now());
        let keeps = self.device.keeps_acknowledged();
        loop {
            match self.device.recover() {
                Ok(()) => break,
                Err(Error::Fault(fault)) => cuts.push(write_cut(fault)?),
                Err(other) => return Err(other),
            }
        }
        let after = self.device.physical_sectors();
        self.device.check()?;
        let loss = self.shadow.as_mut().map_or_else(Loss::default, |shadow| shadow.audit(&mut self.device));
        let report = PowerCut {
            write: cuts[0],
            answered: self.answered,
            recovery_ns: self.device.now().since(since).0,
            recovery_read_sectors: after.0 - before.0,
            recovery_written_sectors: after.1 - before.1,
            ..describe(&loss)
        };
        self.power_cuts.extend(cuts.iter().map(|&write| PowerCut { write, ..report.clone() }));
        match loss.lost.first() {
            Some(&lba) if keeps => {
                Err(Box::new(Fault::Lost { write: cuts[0], lba, sectors: report.lost_sectors }).into())
            }
            _ => Ok(()),
        }
    }
}

/// The number of the write that was cut; any other fault is passed on.
fn write_cut(fault: Box<Fault>) -> DiskResult<u64> {
    match *fault {
        Fault::PowerCut { write } => Ok(write),
        _ => Err(fault),
    }
}

fn describe(loss: &Loss) -> PowerCut {
    let in_flight = match loss.in_flight {
        None => "none",
        Some((0, _)) => "absent",
        Some((there, all)) if there == all => "whole",
        Some(_) => "part",
    };
    let mut lost: Vec<(u64, u64)> = Vec::new();
    for &Lba(lba) in &loss.lost {
        match lost.last_mut() {
            Some((first, sectors)) if *first + *sectors == lba => *sectors += 1,
            _ => lost.push((lba, 1)),
        }
    }
    lost.truncate(LOST_SHOWN);
    let (lost_sectors, destroyed_sectors) = (loss.lost.len() as u64, loss.destroyed);
    PowerCut { in_flight: in_flight.into(), lost_sectors, destroyed_sectors, lost, ..PowerCut::default() }
}
