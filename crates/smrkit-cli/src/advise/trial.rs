//! A run that is to be made: the system with a change, or the demand with one.

use std::path::PathBuf;

use smrkit::engine::settings::Arrival;
use smrkit::error::Error;
use smrkit::interleave::Placement;
use smrkit::pack::Packed;
use smrkit::request::{Progress, Request, Source};
use smrkit::stats::outcome::Outcome;
use smrkit::stats::timeline::TimelineBuilder;

use crate::input::Input;
use crate::job::Job;
use crate::pool::Watch;

/// A run to be made.
#[derive(Clone)]
pub struct Trial {
    /// The system, under its settings.
    pub job: Job,
    /// Writes are packed into writes of so many sectors.
    pub packed_sectors: Option<u32>,
    /// Where several sources go, if elsewhere than now.
    pub placement: Option<Placement>,
    /// Only the first so many requests are served.
    pub first: Option<u64>,
}

/// The first requests of a source.
struct First<'a> {
    source: &'a mut dyn Source,
    left: u64,
}

impl Source for First<'_> {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        if self.left > 0 {
            self.source.fill(batch)?;
        }
        batch.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= batch.len() as u64;
        Ok(())
    }

    fn name(&self) -> PathBuf {
        self.source.name()
    }

    fn progress(&self) -> Progress {
        self.source.progress()
    }

    fn sources(&self) -> usize {
        self.source.sources()
    }
}

impl Trial {
    /// The demand as it is.
    pub fn of(job: Job) -> Trial {
        Trial { job, packed_sectors: None, placement: None, first: None }
    }

    /// Serves the demand; a workload takes `sectors` for the disk's size. `hash` asks for the traces' SHA-256.
    pub fn serve(&self, input: &Input, sectors: u64, hash: bool, mut watch: Watch) -> Result<Outcome, Error> {
        let mut opened = input.open_placed(sectors, self.job.settings().seed, hash, self.placement)?;
        let timeline = TimelineBuilder::default();
        let mut first = First { source: opened.source(), left: self.first.unwrap_or(u64::MAX) };
        let served = match self.packed_sectors {
            None => self.job.execute(&mut first, &mut watch, timeline),
            Some(size) => {
                let mut packed = Packed::new(&mut first, size, self.job.host_sectors()?);
                self.job.execute(&mut packed, &mut watch, timeline)
            }
        };
        let mut outcome = served.map_err(|error| input.named(error))?;
        outcome.replayed = input.describe(&opened);
        if self.job.settings().arrival == Arrival::Trace {
            input.refuse_disorder(&opened)?;
        }
        Ok(outcome)
    }
}
