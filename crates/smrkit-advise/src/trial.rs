//! A run that is to be made: the system with a change, or the demand with one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use smrkit::engine::saved::SavedState;
use smrkit::error::Error;
use smrkit::experiment::demand::{Demand, FirstRequests, Opened, Opening};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool::{RequestSink, RunWatch};
use smrkit::pack::Packed;
use smrkit::request::{Op, Request, Source};
use smrkit::settings::{Arrival, Settings, Warmup};
use smrkit::stats::counts::RequestRow;
use smrkit::stats::outcome::{Outcome, Replayed};
use smrkit::units::{Lba, Nanos, SECTOR_BYTES};

use crate::comparison::{self, Comparison, Multiples, Trajectory, mean_request_bytes, quotient};
use crate::stretches::Stretches;

/// Requests of the shortest part of a load that is run.
const FEWEST: u64 = 10_000;
/// Requests after the cache was full from which the rate that remains is told: a share of those before, and a number (assumptions).
const SETTLED: f64 = 0.1;
const FEW_AFTER: f64 = 1000.0;
/// Requests that are served at most to see a cache full.
const MOST_FILLING: u64 = 2_560_000;
/// Requests and bytes written after which a load at its own times is known to go on like that: twice the RAM of large drives, which
/// hides nothing any more then (assumptions).
const ENOUGH_OPEN: u64 = 40_000;
const ENOUGH_WRITTEN: u64 = 512 << 20;
/// How many times as many as are left would have to be served before filling is given up (assumption: a cache may fill more slowly at
/// first).
const HOPELESS: f64 = 4.0;
/// How often a load is repeated at most for that: of a shorter one nobody knows whether it is typical.
const MOST_REPEATED: u32 = 32;
/// The golden section, whose multiples spread evenly over a whole; requests keep their alignment to 1 MiB.
const GOLDEN: f64 = 0.618_033_988_75;
const ALIGNED: u64 = 2048;
/// Commands outstanding while a cache is filled on purpose (SATA's native command queueing).
const QUEUED: u32 = 32;

/// A run to be made.
#[derive(Clone)]
pub struct Trial {
    /// The system, under its settings.
    pub run: PlannedRun,
    /// Writes are packed into writes of this many sectors.
    pub packed_sectors: Option<u32>,
    /// Only this many requests are served, if that is given.
    pub first: Option<u64>,
    /// Times of the requests, if they are not their own.
    pub pace: Option<Pace>,
    /// Only these writes are served, if that is given.
    pub filling: Option<Filling>,
}

/// Writes of a load that fill a cache. Its reads take no room in one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Filling {
    /// The first of them, from 0.
    skip: u64,
    /// How far behind their own place they go, around the end of the disk.
    shift_sectors: u64,
}

/// Requests at a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// When they begin to come.
    pub rest: Nanos,
    /// The time between them.
    pub interval: Nanos,
}

/// Result of a run.
pub struct Measured {
    /// All of it.
    pub outcome: Outcome,
    /// The few numbers of the run that decide.
    pub trajectory: Trajectory,
    /// Share of the bytes written that continue another write; `None` without writes.
    pub sequential_share: Option<f64>,
    /// Requests of the load, before any were packed.
    pub asked: u64,
    /// The system with its cache full, where the run begins there.
    pub full: Option<Full>,
    /// Its requests in stretches.
    stretches: Stretches,
}

/// A system whose cache was filled by writes that came as fast as it took them.
#[derive(Clone)]
pub struct Full {
    /// The system.
    pub state: Arc<SavedState>,
    /// Bytes written until one first waited for cleaning.
    pub bytes: u64,
    /// The time that they took.
    pub seconds: f64,
    /// Bytes a second from then on.
    pub after_bytes_per_s: Option<f64>,
    /// True if the layer tells how full its cache is.
    pub has_fill: bool,
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
        Trial { run, packed_sectors: None, first: None, pace: None, filling: None }
    }

    /// Serves as much of a load of equal requests as shows what remains: until requests have waited for cleaning for a while, or `most`
    /// are served; flat out, more where the cache is still filling then. At its own times a load that fills the cache needs no more, since
    /// it is served again from there, and neither does one that leaves the cache as it is. From few on, twice as many each time, so that
    /// little is served twice.
    pub fn serve_enough(
        &self,
        demand: &dyn Demand,
        sectors: u64,
        most: u64,
        watch: &mut RunWatch,
    ) -> Result<Measured, Error> {
        let mut first = FEWEST.min(most);
        loop {
            let part = Trial { first: Some(first), ..self.clone() };
            let measured = part.serve(demand, sectors, false, watch)?;
            let is_flat_out = measured.outcome.engine.arrival == Arrival::FlatOut;
            let trajectory = &measured.trajectory;
            let most = if is_flat_out && trajectory.full_in_s.is_some() { most.max(MOST_FILLING) } else { most };
            let is_close = trajectory.cache_full_at_s.is_some();
            let is_long =
                first >= ENOUGH_OPEN && measured.outcome.host_written_sectors * SECTOR_BYTES >= ENOUGH_WRITTEN;
            let is_steady = trajectory.full_in_s.is_some() || !is_close && is_long;
            let is_all = measured.asked < first || first >= most;
            if is_all || measured.outcome.interrupted || measured.has_settled() || !is_flat_out && is_steady {
                return Ok(measured);
            }
            first = if is_close { first + first / 4 } else { first * 2 }.min(most);
        }
    }

    /// Serves a load without an end from where its own requests have filled the cache: as many as `measured` did or as tell how it goes on,
    /// which ended before that. `None` if they don't fill it, or after an interrupt.
    pub fn serve_from_full(
        &self,
        demand: &dyn Demand,
        sectors: u64,
        measured: &Measured,
        watch: &mut RunWatch,
    ) -> Result<Option<Measured>, Error> {
        let Some(full) = self.fill(demand, sectors, watch)? else { return Ok(None) };
        let run = self.run.clone().beginning_with(Arc::clone(&full.state));
        let trial = Trial { run, first: Some(measured.asked.max(ENOUGH_OPEN)), ..self.clone() };
        let mut later = trial.serve(demand, sectors, true, watch)?;
        later.trajectory.full_after_s = measured.trajectory.full_in_s.map(|more_s| {
            let until_now_s = measured.outcome.elapsed_ns as f64 / 1e9;
            until_now_s + more_s
        });
        later.full = Some(full);
        Ok(Some(later))
    }

    /// The system once the writes of the load have filled its cache, where they come as fast as they can and again and again; `None` if
    /// that takes more requests or repetitions than are served for it, or after an interrupt.
    pub fn fill(&self, demand: &dyn Demand, sectors: u64, watch: &mut RunWatch) -> Result<Option<Full>, Error> {
        let mut settings = Settings {
            arrival: Arrival::FlatOut,
            depth: QUEUED,
            think: Nanos::ZERO,
            time_scale: 1.0,
            warmup: Warmup::Requests(0),
            until: None,
            ..*self.run.settings()
        };
        let is_by_chance = demand.open(&Opening::new(sectors, settings.seed))?.describe().workload.is_some();
        let mut from = self.run.clone();
        let mut filling = Filling::default();
        let (mut bytes, mut seconds) = (0, 0.0);
        let (mut first, mut left, mut repetitions) = (FEWEST, MOST_FILLING, 0);
        loop {
            if filling.skip == 0 {
                // Elsewhere on the disk than the load itself and what filled it before, since what is written again takes no more room, and
                // is cleaned sooner: by another seed, or where nothing is made by chance, shifted by the part of the disk that lands
                // farthest from all places before.
                settings.seed += 1;
                if !is_by_chance {
                    let farthest = (sectors as f64 * GOLDEN) as u64 / ALIGNED * ALIGNED;
                    filling.shift_sectors = (filling.shift_sectors + farthest) % sectors.max(1);
                }
                repetitions += 1;
            }
            let prefill = from.settings().prefill;
            let run = from.clone().with(Settings { prefill, ..settings });
            let trial = Trial { run, first: Some(first), pace: None, filling: Some(filling), ..self.clone() };
            let state = Arc::new(Mutex::new(None));
            let kept = Arc::clone(&state);
            watch.hand_state(Box::new(move |saved| {
                *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(saved));
            }));
            let served = trial.serve(demand, sectors, false, watch)?;
            let state = state.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(state) = state.filter(|_| !served.outcome.interrupted) else { return Ok(None) };
            let Measured { outcome, trajectory, asked, .. } = served;
            if let Some((at_s, until)) = trajectory.cache_full_at_s.zip(trajectory.cache_full_after_bytes) {
                return Ok(Some(Full {
                    state,
                    bytes: bytes + until,
                    seconds: seconds + at_s,
                    after_bytes_per_s: trajectory.rate_after_bytes_per_s,
                    has_fill: !outcome.timeline.cache_fill.is_empty(),
                }));
            }
            (bytes, seconds) = (bytes + trajectory.bytes, seconds + outcome.elapsed_ns as f64 / 1e9);
            left = left.saturating_sub(asked);
            // A state is costly to save and to read again, so that as many come next as seem to be needed.
            let needed = comparison::share_until_full(&outcome).map_or(f64::MAX, |times| times * first as f64);
            let is_hopeless = needed > HOPELESS * left as f64 && MOST_FILLING - left > ENOUGH_OPEN;
            let is_all = asked < first;
            if left == 0 || is_hopeless || is_all && (repetitions == MOST_REPEATED || asked + filling.skip == 0) {
                return Ok(None);
            }
            from = from.beginning_with(state);
            filling.skip = if is_all { 0 } else { filling.skip + first };
            first = ((needed * 1.1) as u64).clamp(FEWEST, first * 4).min(left);
        }
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
        let opening = Opening { hash, think_times, ..Opening::new(sectors, seed) };
        let asked = Arc::new(AtomicU64::new(0));
        let open = || -> Result<Box<dyn Opened>, Error> {
            // A trace with a second volume is opened again.
            asked.store(0, Ordering::Relaxed);
            let mut opened = demand.open(&opening)?;
            if let Some(filling) = self.filling {
                opened = Box::new(FillingWrites { opened, filling, sectors });
            }
            let opened = FirstRequests::new(opened, self.first.unwrap_or(u64::MAX));
            let first = Box::new(CountedRequests { opened, count: Arc::clone(&asked) });
            Ok(match (self.packed_sectors, self.pace) {
                (None, Some(pace)) => Box::new(PacedRequests { opened: first, pace, served: 0 }),
                (None, None) => first,
                (Some(size), _) => Box::new(Packed::new(first as Box<dyn Opened>, size, self.run.host_sectors()?)),
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
        let asked = asked.load(Ordering::Relaxed);
        Ok(Measured { outcome, trajectory, sequential_share: order.share(), asked, full: None, stretches })
    }
}

/// Writes of an open demand that fill a cache.
struct FillingWrites {
    opened: Box<dyn Opened>,
    filling: Filling,
    sectors: u64,
}

impl Source for FillingWrites {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        let Filling { skip, shift_sectors } = &mut self.filling;
        let all = self.sectors;
        loop {
            self.opened.fill(batch)?;
            // Only a batch that is empty by itself is the end.
            let is_end = batch.is_empty();
            batch.retain(|request| request.op == Op::Write);
            let skipped = batch.len().min(usize::try_from(*skip).unwrap_or(usize::MAX));
            batch.drain(..skipped);
            *skip -= skipped as u64;
            for request in batch.iter_mut().filter(|_| *shift_sectors > 0) {
                let last = all.saturating_sub(u64::from(request.sectors));
                request.lba = Lba(((request.lba.0 + *shift_sectors) % all.max(1)).min(last));
            }
            if is_end || !batch.is_empty() {
                return Ok(());
            }
        }
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(&self.opened)
    }
}

impl Opened for FillingWrites {
    fn describe(&self) -> Replayed {
        self.opened.describe()
    }

    fn refuse_disorder(&self) -> Result<(), Error> {
        self.opened.refuse_disorder()
    }
}

/// Requests of an open demand, counted.
struct CountedRequests {
    opened: FirstRequests,
    count: Arc<AtomicU64>,
}

impl Source for CountedRequests {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        self.opened.fill(batch)?;
        self.count.fetch_add(batch.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(&self.opened)
    }
}

impl Opened for CountedRequests {
    fn describe(&self) -> Replayed {
        self.opened.describe()
    }

    fn refuse_disorder(&self) -> Result<(), Error> {
        self.opened.refuse_disorder()
    }
}

/// Requests of an open demand at other times.
struct PacedRequests {
    opened: Box<dyn Opened>,
    pace: Pace,
    served: u64,
}

impl Source for PacedRequests {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        self.opened.fill(batch)?;
        for request in batch.iter_mut() {
            request.time = Nanos(self.pace.rest.0.saturating_add(self.pace.interval.0.saturating_mul(self.served)));
            self.served += 1;
        }
        Ok(())
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(&self.opened)
    }
}

impl Opened for PacedRequests {
    fn describe(&self) -> Replayed {
        self.opened.describe()
    }
}

impl Measured {
    /// True if requests have waited for cleaning for long enough to tell the rate that remains.
    fn has_settled(&self) -> bool {
        let Some(until_full) = self.requests_until_full() else { return false };
        let after = self.outcome.requests as f64 - until_full;
        after >= (until_full * SETTLED).max(FEW_AFTER)
    }

    /// By how much later its last requests are answered than those before them, as a share of the time between.
    pub fn lateness_growth(&self) -> f64 {
        self.stretches.growth()
    }

    /// Requests until one first waited for cleaning; `None` if none did.
    pub fn requests_until_full(&self) -> Option<f64> {
        let bytes = self.trajectory.cache_full_after_bytes?;
        Some(bytes as f64 / mean_request_bytes(&self.outcome).max(1.0))
    }

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
