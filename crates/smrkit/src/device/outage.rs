//! Power cuts of a drive: volatile memory is lost, what the host finds is compared with what it was promised, and the host sends its
//! request again.

use super::LayeredDisk;
use super::drive_contents::DriveContents;
use super::shadow::Loss;
use crate::error::{DiskResult, Fault};
use crate::stats::outcome::{InFlight, PowerCut};
use crate::units::Lba;

/// Lost extents that a result names.
const LOST_SHOWN: usize = 100;

/// After a fault: if it is a power cut, the layer forgets what it has in volatile memory, and what was under way may be tried
/// again.
#[cold]
pub(super) fn outage(device: &mut LayeredDisk, contents: &mut DriveContents, fault: Box<Fault>) -> DiskResult {
    let write = write_cut(fault)?;
    device.power_cut();
    device.check()?;
    let Some(check) = contents.check() else { return Ok(()) };
    let loss = check.shadow.audit(device);
    let report = PowerCut { write, completed: check.shadow.requests(), ..describe(&loss) };
    check.power_cuts.push(report.clone());
    match loss.lost.first() {
        Some(&lba) if device.layer.keeps_acknowledged() => {
            Err(Box::new(Fault::Lost { write, lba, sectors: report.lost_sectors }))
        }
        _ => Ok(()),
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
        let in_flight = |in_flight| describe(&Loss { in_flight, lost: Vec::new(), destroyed: 0 }).in_flight;
        assert_eq!(in_flight(None), InFlight::None);
        let states = [Some((0, 8)), Some((7, 8)), Some((8, 8))].map(in_flight);
        assert_eq!(states, [InFlight::Absent, InFlight::Part, InFlight::Whole]);
        let lost = |lbas: &[u64]| {
            let lost = lbas.iter().copied().map(Lba).collect();
            let found = describe(&Loss { in_flight: None, lost, destroyed: 2 });
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
