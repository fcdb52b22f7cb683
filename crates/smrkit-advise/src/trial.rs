//! A run that is to be made: the system with a change, or the demand with one.

use smrkit::error::Error;
use smrkit::experiment::demand::{Demand, First, Opened, Opening};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool::Watch;
use smrkit::interleave::Placement;
use smrkit::pack::Packed;
use smrkit::stats::outcome::Outcome;

/// A run to be made.
#[derive(Clone)]
pub struct Trial {
    /// The system, under its settings.
    pub run: PlannedRun,
    /// Writes are packed into writes of so many sectors.
    pub packed_sectors: Option<u32>,
    /// Where several sources go, if elsewhere than now.
    pub placement: Option<Placement>,
    /// Only the first so many requests are served.
    pub first: Option<u64>,
}

impl Trial {
    /// The demand as it is.
    pub fn of(run: PlannedRun) -> Trial {
        Trial { run, packed_sectors: None, placement: None, first: None }
    }

    /// Serves the demand; a workload takes `sectors` for the disk's size. `hash` asks for the traces' SHA-256.
    pub fn serve(&self, demand: &dyn Demand, sectors: u64, hash: bool, mut watch: Watch) -> Result<Outcome, Error> {
        let seed = self.run.settings().seed;
        let opening = Opening { hash, placement: self.placement, ..Opening::new(sectors, seed) };
        let open = || -> Result<Box<dyn Opened>, Error> {
            let first = Box::new(First::new(demand.open(&opening)?, self.first.unwrap_or(u64::MAX)));
            Ok(match self.packed_sectors {
                None => first,
                Some(size) => Box::new(Packed::new(first as Box<dyn Opened>, size, self.run.host_sectors()?)),
            })
        };
        self.run.serve(demand, open, &mut watch).map_err(|error| demand.named(error))
    }
}
