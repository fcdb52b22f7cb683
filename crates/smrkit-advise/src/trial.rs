//! A run that is to be made: the system with a change, or the demand with one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use smrkit::error::Error;
use smrkit::experiment::demand::{Demand, FirstRequests, Opened, Opening};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool::{RequestSink, RunWatch};
use smrkit::interleave::SourcePlacement;
use smrkit::pack::Packed;
use smrkit::request::Op;
use smrkit::settings::{Arrival, Settings};
use smrkit::stats::counts::RequestRow;
use smrkit::stats::outcome::Outcome;
use smrkit::units::Nanos;

use crate::comparison::{Comparison, Multiples, Trajectory, mean_request_bytes, quotient};
use crate::stretches::Stretches;

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
    /// Share of the bytes written that continue another write; `None` without writes.
    pub sequential_share: Option<f64>,
    /// Its requests in stretches.
    stretches: Stretches,
}

/// What is kept of the requests of a run.
#[derive(Default)]
struct Served {
    stretches: Stretches,
    order: WriteOrder,
}

/// How much is written behind another write. Streams and queues mix, so that the other one may be one of the last few, and come
/// after it.
#[derive(Default)]
struct WriteOrder {
    /// First sector and end of the last few writes.
    last: VecDeque<(u64, u64)>,
    sequential: u64,
    all: u64,
}

/// Writes among which one is looked for that another continues: twice what a drive takes at once.
const RECENT_WRITES: usize = 64;

impl WriteOrder {
    fn add(&mut self, row: &RequestRow) {
        if row.index == 0 {
            *self = WriteOrder::default();
        }
        if row.op != Op::Write {
            return;
        }
        let (sectors, end) = (u64::from(row.sectors), row.lba + u64::from(row.sectors));
        self.all += sectors;
        if self.last.iter().any(|&(first, past)| past == row.lba || end == first) {
            self.sequential += sectors;
        }
        if self.last.len() == RECENT_WRITES {
            self.last.pop_front();
        }
        self.last.push_back((row.lba, end));
    }

    fn share(&self) -> Option<f64> {
        (self.all > 0).then(|| self.sequential as f64 / self.all as f64)
    }
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
        let served = Arc::new(Mutex::new(Served::default()));
        let kept = Arc::clone(&served);
        let sink: RequestSink = Box::new(move |row| {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.stretches.add(row);
            kept.order.add(row);
        });
        watch.hand_requests(sink);
        let outcome = self.run.serve(demand, open, watch).map_err(|error| demand.named(error))?;
        let trajectory = Trajectory::from_outcome(&outcome);
        let Served { stretches, order } = std::mem::take(&mut *served.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Measured { outcome, trajectory, sequential_share: order.share(), stretches })
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

    /// Comparison with `usual`, which served the same bytes by other requests: of these the time for a byte can be compared, and the mean
    /// latency where they come at times of their own. With pauses, of which there are fewer then, it is the time in which a byte is
    /// waited for.
    pub fn compared_by_bytes(&self, usual: &Measured) -> Comparison {
        let time = self.is_timed().then(|| quotient(self.time_for_a_byte(), usual.time_for_a_byte()));
        let (own, other) = (&self.trajectory, &usual.trajectory);
        let requests = match self.outcome.engine.arrival {
            Arrival::Trace => (1, 1),
            Arrival::FlatOut | Arrival::Closed => (own.requests, other.requests),
        };
        let waits = || quotient(own.mean_ns as f64 * requests.0 as f64, other.mean_ns as f64 * requests.1 as f64);
        let times = time.unwrap_or_else(waits);
        let of = |times: f64| Multiples { elapsed: time.map(|_| times), mean: times, p99: times, longest: times };
        let after = own.rate_after_bytes_per_s.filter(|_| time.is_some());
        let from_first_wait = after.map(|rate| of(quotient(1e9 / rate, usual.time_for_a_byte())));
        Comparison { whole: of(times), from_first_wait, rebuild: None }
    }

    /// The time for a byte of its requests, in nanoseconds.
    fn time_for_a_byte(&self) -> f64 {
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
