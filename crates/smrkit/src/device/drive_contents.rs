//! Contents that a drive's commands carry: nothing, or stamps that are verified.

use smallvec::SmallVec;

use super::LayeredDisk;
use super::command::Command;
use super::shadow::{Loss, Shadow};
use super::write_cache::{HeldRun, WriteCache};
use crate::error::{DiskResult, Fault};
use crate::layer::QueuedWrite;
use crate::medium::Buf;
use crate::pages::Pages;
use crate::request::{Op, Request};
use crate::stats::outcome::{InFlight, PowerCut};
use crate::units::{Lba, Nanos};

/// Contents of a drive's commands.
pub enum DriveContents {
    /// None: time is all that is asked for.
    None,
    /// In check mode: stamps that are verified, on platters that hold them.
    Checked(Box<DriveCheck>),
}

/// Contents that a drive is verified against in check mode.
#[derive(Default)]
pub struct DriveCheck {
    pub(super) shadow: Shadow,
    /// Contents of an array; nothing on a drive of its own, whose shadow knows all.
    pub(super) contents: Pages,
    /// The power cuts so far.
    pub(super) power_cuts: Vec<PowerCut>,
}

impl DriveContents {
    /// Contents of check mode, or none.
    pub fn new(check: bool) -> DriveContents {
        if check { DriveContents::Checked(Box::default()) } else { DriveContents::None }
    }

    pub(super) fn check(&mut self) -> Option<&mut DriveCheck> {
        match self {
            DriveContents::Checked(check) => Some(check),
            _ => None,
        }
    }

    /// Serves a request that carries `data`; what it reads goes there, and over it what `cache` holds.
    #[inline(always)]
    pub(super) fn serve(
        &mut self,
        device: &mut LayeredDisk,
        cache: Option<&WriteCache>,
        request: &Request,
        data: &mut Buf,
    ) -> DiskResult {
        match self {
            DriveContents::None => device.serve(request, &mut Buf::NoData),
            DriveContents::Checked(check) => check.serve(device, cache, request, data),
        }
    }

    /// Takes a request that `cache` serves: a write is acknowledged, and goes there; a read finds all that it asks for.
    #[inline]
    pub(super) fn serve_from_cache(
        &mut self,
        device: &mut LayeredDisk,
        cache: &mut WriteCache,
        request: &Request,
        data: &mut Buf,
        now: Nanos,
    ) -> DiskResult {
        match self {
            DriveContents::Checked(check) => check.serve_from_cache(device, cache, request, data, now),
            DriveContents::None => {
                if request.op == Op::Write {
                    cache.put(device, request, &Buf::NoData, now);
                }
                Ok(())
            }
        }
    }

    /// Brings runs of the write cache to the platters, which were acknowledged before.
    pub(super) fn write_back(&mut self, device: &mut LayeredDisk, runs: &[HeldRun]) -> DiskResult {
        let writes: SmallVec<[QueuedWrite; 8]> = runs.iter().map(HeldRun::as_write).collect();
        device.write_back(&writes, runs[0].source)?;
        match self {
            DriveContents::Checked(check) => check.shadow.look_for_damage(device),
            DriveContents::None => Ok(()),
        }
    }

    /// Serves writes together.
    pub(super) fn serve_together(&mut self, device: &mut LayeredDisk, commands: &[(Command, Nanos)]) -> DiskResult {
        if let DriveContents::Checked(check) = self {
            return check.serve_together(device, commands);
        }
        let requests: Vec<_> = commands.iter().map(|(command, _)| (&command.request, &command.data)).collect();
        device.serve_together(&requests)
    }

    /// After a fault: if it is a power cut, the layer forgets what it has in volatile memory, and what was under way may be tried
    /// again. In check mode what the host finds is compared with what it was promised.
    #[cold]
    pub(super) fn power_cut(&mut self, device: &mut LayeredDisk, fault: Box<Fault>) -> DiskResult {
        let write = write_cut(fault)?;
        device.power_cut();
        device.check()?;
        let Some(check) = self.check() else { return Ok(()) };
        let loss = check.shadow.audit(device);
        let report = PowerCut { write, completed: check.shadow.requests(), ..describe(&loss) };
        check.power_cuts.push(report.clone());
        match loss.durable {
            Some(lba) if device.layer.keeps_acknowledged() => {
                Err(Box::new(Fault::Lost { write, lba, sectors: report.lost_sectors }))
            }
            _ => Ok(()),
        }
    }
}

impl DriveCheck {
    /// Serves writes together, and looks after them.
    fn serve_together(&mut self, device: &mut LayeredDisk, commands: &[(Command, Nanos)]) -> DiskResult {
        let requests: Vec<&Request> = commands.iter().map(|(command, _)| &command.request).collect();
        self.shadow.serve_together(&requests, |writes| device.serve_together(writes))?;
        self.shadow.after(device)?;
        commands.iter().for_each(|(command, _)| self.put(&command.request, &command.data));
        Ok(())
    }

    /// Serves a request, and looks after it.
    fn serve(
        &mut self,
        device: &mut LayeredDisk,
        cache: Option<&WriteCache>,
        request: &Request,
        data: &mut Buf,
    ) -> DiskResult {
        if cache.is_some() && request.op == Op::Write {
            // Torn by a power cut, it may take what it was to replace: the layer takes it for one that was acknowledged before.
            self.shadow.may_lose(request);
        }
        self.shadow.serve(request, |buf| {
            device.serve(request, buf)?;
            if let Some(cache) = cache.filter(|_| request.op == Op::Read) {
                cache.overlay(request.lba, u64::from(request.sectors), buf);
            }
            Ok(())
        })?;
        self.served(device, request, data)
    }

    fn serve_from_cache(
        &mut self,
        device: &mut LayeredDisk,
        cache: &mut WriteCache,
        request: &Request,
        data: &mut Buf,
        now: Nanos,
    ) -> DiskResult {
        self.shadow.serve(request, |buf| {
            match request.op {
                Op::Write => cache.put(device, request, buf, now),
                _ => cache.overlay(request.lba, u64::from(request.sectors), buf),
            }
            Ok(())
        })?;
        if request.op == Op::Write {
            self.shadow.may_lose(request);
        }
        self.served(device, request, data)
    }

    /// Looks after a request, and keeps what the array has written, or tells what it reads.
    fn served(&mut self, device: &mut LayeredDisk, request: &Request, data: &mut Buf) -> DiskResult {
        self.shadow.after(device)?;
        let sectors = u64::from(request.sectors);
        match request.op {
            Op::Read => *data = Buf::Stamps(self.contents.words(request.lba.0, sectors)),
            Op::Write => self.put(request, data),
            Op::Discard => self.contents.clear(request.lba.0..request.lba.0 + sectors),
            Op::Flush => {}
        }
        Ok(())
    }

    fn put(&mut self, request: &Request, data: &Buf) {
        if let Buf::Stamps(stamps) = data {
            self.contents.put(request.lba.0, stamps);
        }
    }
}

/// Lost extents that a result names.
const LOST_SHOWN: usize = 100;

/// The number of the write that was cut; any other fault is passed on.
fn write_cut(fault: Box<Fault>) -> DiskResult<u64> {
    match *fault {
        Fault::PowerCut { write } => Ok(write),
        _ => Err(fault),
    }
}

fn describe(loss: &Loss) -> PowerCut {
    let in_flight = match loss.in_flight {
        None => InFlight::None,
        Some((0, _)) => InFlight::Absent,
        Some((there, all)) if there == all => InFlight::Whole,
        Some(_) => InFlight::Part,
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
    PowerCut { in_flight, lost_sectors, destroyed_sectors, lost, ..PowerCut::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_described_by_extents_and_what_became_of_the_write() {
        let in_flight = |in_flight| describe(&Loss { in_flight, ..Loss::default() }).in_flight;
        assert_eq!(in_flight(None), InFlight::None);
        let states = [Some((0, 8)), Some((7, 8)), Some((8, 8))].map(in_flight);
        assert_eq!(states, [InFlight::Absent, InFlight::Part, InFlight::Whole]);
        let lost = |lbas: &[u64]| {
            let lost = lbas.iter().copied().map(Lba).collect();
            let found = describe(&Loss { lost, destroyed: 2, ..Loss::default() });
            assert_eq!((found.lost_sectors, found.destroyed_sectors), (lbas.len() as u64, 2));
            found.lost
        };
        assert_eq!(lost(&[]), []);
        assert_eq!(lost(&[3, 4, 5, 7, 9, 10]), [(3, 3), (7, 1), (9, 2)]);
        let scattered: Vec<u64> = (0..2 * LOST_SHOWN as u64).map(|i| 2 * i).collect();
        assert_eq!(lost(&scattered).len(), LOST_SHOWN);
    }

    #[test]
    fn faults_that_are_no_power_cut_are_passed_on() {
        assert_eq!(write_cut(Box::new(Fault::PowerCut { write: 7 })).unwrap(), 7);
        let other = write_cut(Box::new(Fault::Inconsistent("books".into()))).unwrap_err();
        assert!(matches!(*other, Fault::Inconsistent(_)));
    }
}
