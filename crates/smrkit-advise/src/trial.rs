//! A run that is to be made: the system with a change, or the demand with one.

use std::sync::{Arc, Mutex, PoisonError};

use smrkit::error::Error;
use smrkit::experiment::demand::{Demand, FirstRequests, Opened, Opening};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool::{RequestSink, RunWatch};
use smrkit::interleave::SourcePlacement;
use smrkit::pack::Packed;
use smrkit::settings::{Arrival, Settings};
use smrkit::stats::comparison::{Comparison, Multiples, Trajectory, mean_request_bytes};
use smrkit::stats::outcome::Outcome;
use smrkit::stats::stretches::Stretches;
use smrkit::units::Nanos;

/// A run to be made.
#[derive(Clone)]
pub struct Trial {
    /// The system, under its settings.
    pub run: PlannedRun,
    /// Writes are packed into writes of this many sectors.
    pub packed_sectors: Option<u32>,
    /// Placement of several sources, if elsewhere than now.
    pub placement: Option<SourcePlacement>,
    /// Only the first this many requests are served.
    pub first: Option<u64>,
}

/// Result of a run.
pub struct Measured {
    /// All of it.
    pub outcome: Outcome,
    /// The few numbers of the run that decide.
    pub trajectory: Trajectory,
    /// Its requests in stretches.
    stretches: Stretches,
}

impl Trial {
    /// The demand as it is.
    pub fn for_run(run: PlannedRun) -> Trial {
        Trial { run, packed_sectors: None, placement: None, first: None }
    }

    /// Serves the demand; a workload takes `sectors` for the disk's size. `hash` asks for the traces' SHA-256.
    pub fn serve(
        &self,
        demand: &dyn Demand,
        sectors: u64,
        hash: bool,
        watch: &mut RunWatch,
    ) -> Result<Measured, Error> {
        let Settings { seed, arrival, .. } = *self.run.settings();
        let think_times = arrival == Arrival::Closed;
        let opening = Opening { hash, placement: self.placement, think_times, ..Opening::new(sectors, seed) };
        let open = || -> Result<Box<dyn Opened>, Error> {
            let first = Box::new(FirstRequests::new(demand.open(&opening)?, self.first.unwrap_or(u64::MAX)));
            Ok(match self.packed_sectors {
                None => first,
                Some(size) => Box::new(Packed::new(first as Box<dyn Opened>, size, self.run.host_sectors()?)),
            })
        };
        let stretches = Arc::new(Mutex::new(Stretches::default()));
        let kept = Arc::clone(&stretches);
        let sink: RequestSink = Box::new(move |row| kept.lock().unwrap_or_else(PoisonError::into_inner).add(row));
        watch.hand_requests(sink);
        let outcome = self.run.serve(demand, open, watch).map_err(|error| demand.named(error))?;
        let trajectory = Trajectory::from_outcome(&outcome);
        let stretches = std::mem::take(&mut *stretches.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Measured { outcome, trajectory, stretches })
    }
}

impl Measured {
    /// Comparison with `usual`, a run of conventional disks over the same requests.
    pub fn compared_with(&self, usual: &Measured) -> Comparison {
        let is_timed = self.is_timed();
        let whole = Multiples::from_figures(&self.trajectory.figures(), &usual.trajectory.figures(), is_timed);
        let from_first_wait = self.trajectory.cache_full_at_s.and_then(|at_s| {
            let first = self.stretches.at((at_s * 1e9) as u64);
            let (own, other) = (self.stretches.from(first)?, usual.stretches.from(first)?);
            (own.requests == other.requests).then(|| Multiples::from_figures(&own, &other, is_timed))
        });
        let rebuilds = self.trajectory.rebuild.zip(usual.trajectory.rebuild);
        let rebuild = rebuilds.map(|(own, usual)| own.elapsed_ns as f64 / usual.elapsed_ns.max(1) as f64);
        Comparison { whole, from_first_wait, rebuild }
    }

    /// The time for a byte of its requests, in nanoseconds.
    pub fn time_for_a_byte(&self) -> f64 {
        let bytes = mean_request_bytes(&self.outcome) * self.outcome.requests as f64;
        self.trajectory.elapsed_ns as f64 / bytes.max(1.0)
    }

    /// True if the time that the requests take is the disk's own: without pauses, not by the trace's times, and not alongside a
    /// rebuild, which ends the run.
    pub fn is_timed(&self) -> bool {
        let engine = &self.outcome.engine;
        engine.arrival == Arrival::FlatOut && engine.think == Nanos::ZERO && self.outcome.rebuild.is_none()
    }
}
