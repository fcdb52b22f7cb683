//! A run to make: the system or the load, with at most one change.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smrkit::edit::{Packed, Taken};
use smrkit::engine::saved::SavedState;
use smrkit::engine::system::DriveRun;
use smrkit::error::Error;
use smrkit::experiment::demand::{Demand, Opened, Opening};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool::{RequestSink, RunWatch};
use smrkit::request::{Op, Request, Source};
use smrkit::settings::{Arrival, Settings, Warmup};
use smrkit::stats::counts::RequestRow;
use smrkit::stats::outcome::{Outcome, Replayed};
use smrkit::units::{Lba, Nanos, SECTOR_BYTES};

use crate::Load;
use crate::comparison::{self, Comparison, Multiples, Trajectory, mean_request_bytes, quotient};
use crate::stretches::Stretches;

/// Requests of the shortest part of a load that is run.
pub const FEWEST: u64 = 10_000;
/// Requests of a load of equal requests that are run at most, and of one that is packed into fewer.
pub const MOST_REQUESTS: u64 = 160_000;
const MOST_PACKED: u64 = 16 * MOST_REQUESTS;
/// The rate that remains is known this share of the requests that filled the cache after it was full, and at least this many (assumptions).
/// Where the log is cleaned in turns, in which hardly any request is served, as many are needed as filled it: one turn is over then.
const SETTLED: f64 = 0.1;
const FEW_AFTER: f64 = 1000.0;
/// Requests that are served at most to see a cache full.
const MOST_FILLING: u64 = 2_560_000;
/// If filling the free room of a disk that writes wherever there is some takes more small writes than that, they are joined to this many larger
/// ones: how much of each band is free then depends little on their size (assumption). A quarter of these would fill it too unevenly.
const JOINED: u64 = MOST_FILLING / 2;
const MOST_JOINED: u64 = 8 * MOST_FILLING;
/// Requests and bytes written after which a load at its own times is known to go on like that: twice the RAM of large drives, which
/// hides nothing any more then (assumptions).
const ENOUGH_OPEN: u64 = 20_000;
const ENOUGH_WRITTEN: u64 = 512 << 20;
/// Requests that are served from a full cache on, at least and at most, and of a load with phases, of which no part tells of the rest.
const FEWEST_FROM_FULL: u64 = 40_000;
const MOST_FROM_FULL: u64 = 8 * FEWEST_FROM_FULL;
pub const MOST_OF_PHASES: u64 = 4 * MOST_FROM_FULL;
/// A backlog grows for ever if latencies rise by more than this share of the time that passes (assumption).
const LATE: f64 = 0.015;
/// Filling is given up if it seems to take more than this many times the requests that are left (assumption: a cache may fill more slowly
/// at first).
const HOPELESS: f64 = 4.0;
/// Filling is tried only if it seems to take no more than this many times as many requests as are served for it (assumption).
const FAR: f64 = 2.0;
/// A backlog that is shorter than this has been worked off, and from this share in use down a full cache has been cleaned (assumptions).
const CAUGHT_UP_NS: u64 = 1_000_000_000;
const CLEANED: f64 = 0.8;
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
    /// The load.
    pub load: Load,
    /// Sectors that a workload takes for the disk's size.
    pub sectors: u64,
    /// Writes are packed into writes of this many sectors.
    pub packed_sectors: Option<u32>,
    /// The number of requests to serve, if not all of them.
    pub first: Option<u64>,
    /// The least number of requests from which `serve_enough` draws conclusions.
    pub fewest: u64,
    /// Times of the requests, if they are not their own.
    pub pace: Option<Pace>,
    /// If given, the load is repeated to fill a cache, beginning with the request of this number. Reads are left out, because they take no room;
    /// flushes are not, because streams without them would go past the cache.
    pub filling_from: Option<u64>,
    /// True if the SHA-256 of a trace is wanted.
    pub hash: bool,
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
    /// Requests of the load, reads among them, that write as much.
    pub requests: u64,
    /// The time that they took.
    pub seconds: f64,
    /// True if the layer tells how full its cache is.
    pub has_fill: bool,
    /// The run that filled the last of it, up to the first request that waited for cleaning.
    last: Trial,
}

/// What is kept of the requests of a run.
#[derive(Default)]
struct Served {
    stretches: Stretches,
    /// First sector and end of the last few writes.
    last: VecDeque<(u64, u64)>,
    /// Sectors that were written behind another write. Streams and queues mix, so that this one may be one of the last few, and come after it.
    sequential: u64,
    written: u64,
}

/// Requests among which one is looked for that another continues: twice what a drive takes at once.
const RECENT: usize = 64;

impl Served {
    fn add(&mut self, row: &RequestRow) {
        // The first request of a run: start over.
        if row.index == 0 {
            *self = Served::default();
        }
        self.stretches.add(row);
        if row.op != Op::Write {
            return;
        }
        let (sectors, end) = (u64::from(row.sectors), row.lba + u64::from(row.sectors));
        self.written += sectors;
        if self.last.iter().any(|&(first, past)| past == row.lba || end == first) {
            self.sequential += sectors;
        }
        if self.last.len() == RECENT {
            self.last.pop_front();
        }
        self.last.push_back((row.lba, end));
    }
}

impl Full {
    /// The system just before its cache is full; `None` after an interrupt. Requests that waited together with the first to find it full are
    /// left out: with them cleaning would be due, and begin at once instead of after a rest.
    pub fn nearly(&self, watch: &mut RunWatch) -> Result<Option<Arc<SavedState>>, Error> {
        let first = self.last.first.map(|first| first.saturating_sub(u64::from(QUEUED)).max(1));
        Ok(Trial { first, ..self.last.clone() }.serve_to_state(watch)?.1)
    }
}

/// Layer of disks that write wherever there is room, and know of room only what was never written or was trimmed.
const DYNAMIC: &str = "log";

/// True if any disk of the run is of that kind.
pub fn is_dynamic(run: &PlannedRun) -> bool {
    run.system().drives().iter().any(|own| own.layer.name == DYNAMIC)
}

impl Trial {
    /// The load as it is; `run` has its settings, or others.
    pub fn new(run: PlannedRun, load: &Load, sectors: u64) -> Trial {
        let (load, fewest) = (load.clone(), FEWEST);
        Trial {
            run,
            load,
            sectors,
            packed_sectors: None,
            first: None,
            fewest,
            pace: None,
            filling_from: None,
            hash: false,
        }
    }

    /// The same, beginning with a saved state.
    pub fn beginning_with(&self, state: &Arc<SavedState>) -> Trial {
        Trial { run: self.run.clone().beginning_with(Arc::clone(state)), ..self.clone() }
    }

    /// Serves as much of the load as tells how the system does. If only a part of each disk is rebuilt (`is_part`), disks of half that size are
    /// rebuilt as well, which tells how much of the time grows with the disk.
    pub fn serve_load(&self, is_part: bool, watch: &mut RunWatch) -> Result<Measured, Error> {
        let mut served = self.serve_until_known(watch)?;
        // Where nothing is cleaned, all of it grows with the disk.
        let cleans = served.outcome.drives().iter().any(|disk| disk.cleaning.count > 0);
        let Some(part) = served.trajectory.rebuild.filter(|_| is_part && cleans && !served.outcome.interrupted) else {
            return Ok(served);
        };
        // A layer may have no room on a disk of half the size.
        let Ok(half) = self.on_half() else { return Ok(served) };
        let half = half.serve_until_known(watch)?;
        served.outcome.interrupted |= half.outcome.interrupted;
        served.trajectory.rebuild = half.trajectory.rebuild.map(|half| part.of_whole(half)).or(Some(part));
        Ok(served)
    }

    /// The same on disks of half the size.
    pub fn on_half(&self) -> Result<Trial, Error> {
        let half = |own: &DriveRun| own.with_drive(own.drive.clone().with_capacity(own.drive.geometry.sectors / 2)?);
        let run = self.run.on(self.run.system().with_drives(&half)?).possible()?;
        let sectors = run.host_sectors()?.min(self.sectors);
        Ok(Trial { run, sectors, ..self.clone() })
    }

    /// Serves as much of the load as tells what remains. A load without an end is not judged by how it began: if the cache was still filling at
    /// the end of the run, it is served again from when the cache is full.
    pub fn serve_until_known(&self, watch: &mut RunWatch) -> Result<Measured, Error> {
        let load = &self.load;
        let most = if self.packed_sectors.is_some() { MOST_PACKED } else { MOST_REQUESTS };
        let part = match load.is_even {
            true => Some(self.serve_enough(most, load.is_endless(), watch)?),
            false => None,
        };
        // A part of a load may lie in zones that take everything: whether a drive refuses any of it shows in all of it.
        let decides = |part: &Measured| {
            !self.run.refuses_writes() || part.trajectory.refused > 0 || part.outcome.host_written_sectors == 0
        };
        let served = match part.filter(decides) {
            Some(part) => part,
            None => Trial { hash: true, ..self.clone() }.serve(watch)?,
        };
        let is_over = served.outcome.interrupted || self.run.rebuild().is_some() || self.run.settings().check;
        let Some(times) = served.times_until_full().filter(|_| !is_over) else { return Ok(served) };
        let until_full = served.asked as f64 * times;
        if load.is_endless() {
            return match self.serve_from_full(&served, watch)? {
                Some(later) => Ok(later),
                // Streams that come at once may go past a cache that they fill one by one: only their own times tell what comes then.
                _ if load.is_even && until_full <= MOST_FILLING as f64 => self.serve_enough(MOST_FILLING, false, watch),
                _ => Ok(served),
            };
        }
        let opening = Opening::new(self.sectors, self.run.settings().seed);
        let all = load.demand.open(&opening).map_err(|error| self.run.named(error))?.progress().total;
        match load.is_even && all.is_none_or(|all| all as f64 >= until_full) {
            true => self.with_what_remains(served, watch),
            // The load ends before its cache is full.
            false => Ok(served),
        }
    }

    /// Serves as much of a load of equal requests as shows what remains: until requests have waited for cleaning for a while, or `most`
    /// are served; flat out, more where the cache is still filling then. At its own times a load that leaves the cache as it is needs no more,
    /// and with `until_filling` neither does one that fills it. From few on, twice as many each time, so that little is served twice.
    pub fn serve_enough(&self, most: u64, until_filling: bool, watch: &mut RunWatch) -> Result<Measured, Error> {
        let mut first = self.fewest.min(most);
        loop {
            let measured = Trial { first: Some(first), ..self.clone() }.serve(watch)?;
            let (outcome, trajectory) = (&measured.outcome, &measured.trajectory);
            let is_flat_out = outcome.engine.arrival == Arrival::FlatOut;
            let until_full = measured.times_until_full().map(|times| first as f64 * times);
            let far = if is_dynamic(&self.run) { 1.0 } else { FAR } * MOST_FILLING as f64;
            let can_fill = until_full.is_some_and(|requests| requests < far);
            let is_close = trajectory.cache_full_at_s.is_some();
            let most = if is_flat_out && (can_fill || is_close) { most.max(MOST_FILLING) } else { most };
            let is_long = first >= ENOUGH_OPEN && outcome.host_written_sectors * SECTOR_BYTES >= ENOUGH_WRITTEN;
            let is_filling = trajectory.full_in_s.is_some();
            let is_steady = is_filling && until_filling || !is_filling && !is_close && is_long;
            let is_all = measured.asked < first || first >= most;
            if is_all || outcome.interrupted || measured.has_settled() || !is_flat_out && is_steady {
                return Ok(measured);
            }
            let next = match measured.requests_until_full().filter(|_| measured.is_cleaned_in_turns()) {
                Some(until_full) => ((2.1 * until_full) as u64).max(first + first / 4),
                None if is_close => first + first / 4,
                // What leaves the cache as it is ends when it has written enough.
                None if !is_flat_out && !is_filling && first >= ENOUGH_OPEN => {
                    let enough = 1.05 * ENOUGH_WRITTEN as f64 / measured.written_a_request().max(1.0);
                    (enough as u64).max(first * 2)
                }
                None => first * 2,
            };
            first = next.min(most);
        }
    }

    /// Serves a load without an end from where its own requests have filled the cache: as many as `measured` did, which ended before that,
    /// or more until those that wait are more and more, or are not. `None` if they don't fill it, or after an interrupt.
    fn serve_from_full(&self, measured: &Measured, watch: &mut RunWatch) -> Result<Option<Measured>, Error> {
        let times = measured.times_until_full().unwrap_or(1.0);
        let Some(full) = self.filled_after(measured, watch)? else { return Ok(None) };
        let trial = self.beginning_with(&full.state);
        let mut later = match self.load.is_even {
            true => trial.serve_until_decided(&full, watch)?,
            false => Trial { first: Some(measured.asked), hash: true, ..trial }.serve(watch)?,
        };
        later.trajectory.full_after_s = Some(measured.outcome.elapsed_ns as f64 / 1e9 * times);
        // It was full from the beginning on, and this is what comes then.
        later.trajectory.full_in_s = None;
        later.full = Some(full);
        Ok(Some(later))
    }

    /// The system once it is as full as the load of which `measured` is the beginning makes it, if that does not take too many requests.
    fn filled_after(&self, measured: &Measured, watch: &mut RunWatch) -> Result<Option<Full>, Error> {
        let times = measured.times_until_full().unwrap_or(1.0);
        let writes = (measured.outcome.commands.host_write as f64 * times) as u64;
        match writes <= if is_dynamic(&self.run) { MOST_JOINED } else { MOST_FILLING } {
            true => self.fill(writes, measured.written_a_request(), watch),
            false => Ok(None),
        }
    }

    /// The beginning of a load that comes as fast as it can, `measured`, with what comes once it has filled the cache.
    fn with_what_remains(&self, mut measured: Measured, watch: &mut RunWatch) -> Result<Measured, Error> {
        let Some(full) = self.filled_after(&measured, watch)? else { return Ok(measured) };
        let later = Trial { first: Some(FEWEST_FROM_FULL), ..self.beginning_with(&full.state) }.serve(watch)?;
        measured.trajectory.append(&later.trajectory);
        measured.outcome.interrupted |= later.outcome.interrupted;
        measured.full = Some(full);
        Ok(measured)
    }

    /// Serves requests of a load that is the same throughout, from a full cache on, until it is clear whether ever more of them wait. Some caches
    /// are cleaned in turns, and take everything while they fill up again, so as many requests are served as fill them twice. A disk that writes
    /// wherever there is room moves old data all the time once it is full.
    pub fn serve_until_decided(&self, full: &Full, watch: &mut RunWatch) -> Result<Measured, Error> {
        let turns = if is_dynamic(&self.run) { FEWEST_FROM_FULL } else { 2 * full.requests };
        let mut first = turns.clamp(FEWEST_FROM_FULL, MOST_FROM_FULL);
        loop {
            let mut later = Trial { first: Some(first), hash: true, ..self.clone() }.serve(watch)?;
            // The backlog of a cache that has just become full is not one that grows for ever: cleaning in turns may work it off again.
            // And a band that was cleaned may have made room for many requests before one waits again.
            let trajectory = &later.trajectory;
            let is_open = match trajectory.cache_full_at_s {
                Some(_) => trajectory.falls_behind && later.keeps_up() || !later.has_seen_refilling(),
                None => trajectory.full_in_s.is_some(),
            };
            if !is_open || later.asked < first || first >= MOST_FROM_FULL || later.outcome.interrupted {
                later.trajectory.falls_behind &= !later.keeps_up();
                return Ok(later);
            }
            first = (first * 2).min(MOST_FROM_FULL);
        }
    }

    /// The system once the writes of the load have filled its cache, where they come as fast as they can and again and again: `writes` at
    /// first, each request of the load writing `written_a_request` bytes on average. `None` if that takes more requests or repetitions than are
    /// served for it, or after an interrupt.
    pub fn fill(&self, writes: u64, written_a_request: f64, watch: &mut RunWatch) -> Result<Option<Full>, Error> {
        let settings = Settings {
            arrival: Arrival::FlatOut,
            depth: QUEUED,
            think: Nanos::ZERO,
            time_scale: 1.0,
            warmup: Warmup::Requests(0),
            until: None,
            ..*self.run.settings()
        };
        let mut most = MOST_FILLING;
        let (mut bytes, mut seconds, mut served_all) = (0, 0.0, 0);
        let run = self.run.clone().with(settings);
        let mut trial = Trial { run, pace: None, hash: false, ..self.clone() };
        if writes > MOST_FILLING && is_dynamic(&trial.run) {
            let sectors = writes as f64 * written_a_request / (JOINED * SECTOR_BYTES) as f64;
            trial.packed_sectors = trial.packed_sectors.max(Some((sectors as u32).next_power_of_two()));
            most = MOST_JOINED;
        }
        let mut next = writes.clamp(FEWEST, most);
        loop {
            (trial.first, trial.filling_from) = (Some(next), Some(served_all));
            let (served, state) = trial.serve_to_state(watch)?;
            let Some(state) = state else { return Ok(None) };
            let until_full = served.requests_until_full().map(|requests| requests as u64);
            let Measured { outcome, trajectory, asked, .. } = served;
            if let Some((at_s, until)) = trajectory.cache_full_at_s.zip(trajectory.cache_full_after_bytes) {
                let bytes = bytes + until;
                return Ok(Some(Full {
                    state,
                    bytes,
                    requests: (bytes as f64 / written_a_request.max(1.0)) as u64,
                    seconds: seconds + at_s,
                    has_fill: !outcome.timeline.cache_fill.is_empty(),
                    last: Trial { first: until_full, ..trial },
                }));
            }
            (bytes, seconds) = (bytes + trajectory.bytes, seconds + outcome.elapsed_ns as f64 / 1e9);
            served_all += asked;
            let left = most.saturating_sub(served_all);
            // Next as many requests as seem to be needed, and not a few at a time, because a state is costly to save and to read again.
            let needed = comparison::share_until_full(&outcome).map_or(f64::MAX, |times| times * next as f64);
            // No requests are left, the load's repetitions have ended, or the cache fills too slowly.
            if left == 0 || asked < next || needed > HOPELESS * left as f64 {
                return Ok(None);
            }
            trial.run = trial.run.beginning_with(state);
            next = ((needed * 1.1) as u64).clamp(FEWEST, next * 4).min(left);
        }
    }

    /// Serves the load, and keeps the state at its end; `None` after an interrupt.
    pub fn serve_to_state(&self, watch: &mut RunWatch) -> Result<(Measured, Option<Arc<SavedState>>), Error> {
        let state = Arc::new(Mutex::new(None));
        let saved_state = Arc::clone(&state);
        watch.state = Some(Box::new(move |saved| *lock(&saved_state) = Some(Arc::new(saved))));
        let served = self.serve(watch)?;
        let state = lock(&state).take();
        Ok((served, state))
    }

    /// Serves the load once, as far as `first` says.
    pub fn serve(&self, watch: &mut RunWatch) -> Result<Measured, Error> {
        let Settings { seed, arrival, .. } = *self.run.settings();
        let demand = &self.load.demand;
        let opening =
            Opening { hash: self.hash, think_times: arrival == Arrival::Closed, ..Opening::new(self.sectors, seed) };
        let asked = Arc::new(AtomicU64::new(0));
        let open = || -> Result<Box<dyn Opened>, Error> {
            // A trace with a second volume is opened again.
            asked.store(0, Ordering::Relaxed);
            let opened: Box<dyn Opened> = match (self.filling_from, self.pace) {
                (None, None) => demand.open(&opening)?,
                (filling_from, _) => Box::new(Repeated::new(Arc::clone(demand), opening, filling_from)?),
            };
            let opened = Taken::first(opened, self.first.unwrap_or(u64::MAX));
            let first: Box<dyn Opened> =
                Box::new(CountedRequests { opened, count: Arc::clone(&asked), pace: self.pace });
            Ok(match self.packed_sectors {
                None => first,
                Some(size) => Box::new(Packed::new(first, size, self.run.host_sectors()?)),
            })
        };
        let served = Arc::new(Mutex::new(Served::default()));
        let recorder = Arc::clone(&served);
        let sink: RequestSink = Box::new(move |row| lock(&recorder).add(row));
        watch.requests = Some(sink);
        let outcome = self.run.serve(demand.as_ref(), open, watch);
        let outcome = outcome.map_err(|error| self.run.named(demand.named(error)))?;
        let trajectory = Trajectory::from_outcome(&outcome);
        let Served { stretches, sequential, written, .. } = std::mem::take(&mut *lock(&served));
        let sequential_share = (written > 0).then(|| sequential as f64 / written as f64);
        let asked = asked.load(Ordering::Relaxed);
        Ok(Measured { outcome, trajectory, sequential_share, asked, full: None, stretches })
    }
}

/// Locks the mutex, also if a thread panicked while it held it.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Repeats a demand. Each repetition goes to other places than the load itself and the repetitions before, because what is written to the
/// same place takes no more room in a cache and is cleaned sooner. A workload gets another seed; a trace is shifted by that part of the disk
/// which ends up farthest from all places before.
struct Repeated {
    demand: Arc<dyn Demand>,
    opening: Opening,
    opened: Box<dyn Opened>,
    /// Requests still to be skipped.
    skip: u64,
    /// True if reads are left out, to fill a cache.
    fills: bool,
    /// The distance by which requests are shifted, around the end of the disk.
    shift_sectors: u64,
    /// The number of the repetition. A run from a full cache has higher numbers than those that filled it, so that it goes elsewhere.
    nth: u32,
    last: u32,
    /// False while this repetition has given no request: one that gives none would be repeated for ever.
    has_any: bool,
}

impl Repeated {
    /// All requests, or with `filling_from` those that fill a cache, from the request of that number on.
    fn new(demand: Arc<dyn Demand>, opening: Opening, filling_from: Option<u64>) -> Result<Repeated, Error> {
        let opened = demand.open(&opening)?;
        let (fills, skip) = (filling_from.is_some(), filling_from.unwrap_or(0));
        let nth = if fills { 0 } else { MOST_REPEATED };
        let last = nth + MOST_REPEATED;
        let mut all = Repeated { demand, opening, opened, skip, fills, shift_sectors: 0, nth, last, has_any: true };
        all.repeat()?;
        Ok(all)
    }

    fn repeat(&mut self) -> Result<(), Error> {
        (self.nth, self.has_any) = (self.nth + 1, false);
        let seed = self.opening.seed + u64::from(self.nth);
        self.opened = self.demand.open(&Opening { seed, ..self.opening })?;
        if self.opened.describe().workload.is_none() {
            let farthest = (self.opening.host_sectors as f64 * GOLDEN) as u64 / ALIGNED * ALIGNED;
            self.shift_sectors = farthest * u64::from(self.nth) % self.opening.host_sectors.max(1);
        }
        Ok(())
    }
}

impl Source for Repeated {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        loop {
            self.opened.fill(batch)?;
            if batch.is_empty() {
                if self.nth == self.last || !self.has_any {
                    return Ok(());
                }
                self.repeat()?;
                continue;
            }
            batch.retain(|request| !self.fills || request.op != Op::Read);
            self.has_any |= !batch.is_empty();
            let skipped = batch.len().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
            batch.drain(..skipped);
            self.skip -= skipped as u64;
            let all = self.opening.host_sectors;
            for request in batch.iter_mut().filter(|_| self.shift_sectors > 0) {
                let last = all.saturating_sub(u64::from(request.sectors));
                request.lba = Lba(((request.lba.0 + self.shift_sectors) % all.max(1)).min(last));
            }
            if !batch.is_empty() {
                return Ok(());
            }
        }
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(&self.opened)
    }
}

impl Opened for Repeated {
    fn describe(&self) -> Replayed {
        self.opened.describe()
    }

    fn refuse_disorder(&self) -> Result<(), Error> {
        self.opened.refuse_disorder()
    }
}

/// Requests of an open demand, counted, and at other times where a pace is given.
struct CountedRequests {
    opened: Taken<Box<dyn Opened>>,
    count: Arc<AtomicU64>,
    pace: Option<Pace>,
}

impl Source for CountedRequests {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        self.opened.fill(batch)?;
        let before = self.count.fetch_add(batch.len() as u64, Ordering::Relaxed);
        if let Some(Pace { rest, interval }) = self.pace {
            for (request, nth) in batch.iter_mut().zip(before..) {
                request.time = Nanos(rest.0.saturating_add(interval.0.saturating_mul(nth)));
            }
        }
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
        // At a pace the times of the demand itself say nothing.
        if self.pace.is_some() { Ok(()) } else { self.opened.refuse_disorder() }
    }
}

impl Measured {
    /// True if requests have waited for cleaning for long enough to tell the rate that remains.
    fn has_settled(&self) -> bool {
        let Some(until_full) = self.requests_until_full() else { return false };
        let after = self.outcome.requests as f64 - until_full;
        let share = if self.is_cleaned_in_turns() { 1.0 } else { SETTLED };
        after >= (until_full * share).max(FEW_AFTER)
    }

    /// True if the cache held far less at some time after it was full. Its entries tell, because the log on the disk may be as long as before.
    fn is_cleaned_in_turns(&self) -> bool {
        let timeline = &self.outcome.timeline;
        let Some((entries, at_s)) = timeline.gauges.get("map_entries").zip(self.trajectory.cache_full_at_s) else {
            return false;
        };
        let full = (at_s * 1e9) as u64 / timeline.window_ns.max(1);
        let after = entries.get(full as usize..).unwrap_or_default();
        after.iter().any(|&now| now < CLEANED * after[0])
    }

    /// Bytes that a request of the load writes, reads counted with none.
    pub fn written_a_request(&self) -> f64 {
        (self.outcome.host_written_sectors * SECTOR_BYTES) as f64 / self.outcome.requests.max(1) as f64
    }

    /// True if the drive keeps up with requests at times of their own, from a full cache on: it worked off its backlog, or latencies don't grow
    /// any more once its cache is full again. While an emptied cache fills, requests are served sooner, which says nothing of what comes then.
    pub fn keeps_up(&self) -> bool {
        let refilled_ns = self.refilled_at_ns();
        let again_ns = refilled_ns.unwrap_or(0).max(self.outcome.elapsed_ns / 2);
        let has_caught_up = self.stretches.shortest_ns_from(again_ns).is_some_and(|shortest| shortest < CAUGHT_UP_NS);
        // What it was late with at the beginning, as after a full cache, says nothing of how that goes on.
        has_caught_up || refilled_ns.is_some() && self.stretches.growth() <= LATE
    }

    /// True if at least half of the run came after its cache was full again, or if the cache was full all the time.
    fn has_seen_refilling(&self) -> bool {
        self.refilled_at_ns().is_some_and(|at_ns| self.outcome.elapsed_ns >= 2 * at_ns)
    }

    /// When the cache was full again after it had been cleaned; 0 if it never was, `None` if it was not full again.
    fn refilled_at_ns(&self) -> Option<u64> {
        let timeline = &self.outcome.timeline;
        let Some(cleaned) = timeline.cache_fill.iter().position(|&fill| fill < CLEANED) else { return Some(0) };
        let again = timeline.cache_fill[cleaned..].iter().position(|&fill| fill >= comparison::FULL)?;
        Some((cleaned + again) as u64 * timeline.window_ns)
    }

    /// How many times as long as the run it takes until the cache is full, where that was still filling at the end.
    pub fn times_until_full(&self) -> Option<f64> {
        let more_s = self.trajectory.full_in_s?;
        Some(1.0 + more_s / (self.outcome.elapsed_ns as f64 / 1e9).max(1e-9))
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
            if self.trajectory.is_full_later() {
                return self.after_by_bytes(usual);
            }
            let first = self.stretches.at((at_s * 1e9) as u64);
            let (own, other) = (self.stretches.from(first)?, usual.stretches.from(first)?);
            (own.requests == other.requests).then(|| Multiples::from_figures(&own, &other, is_timed))
        });
        let rebuilds = self.trajectory.rebuild.zip(usual.trajectory.rebuild);
        let rebuild = rebuilds.map(|(own, usual)| own.elapsed_ns as f64 / usual.elapsed_ns.max(1) as f64);
        Comparison { whole, from_first_wait, rebuild }
    }

    /// Comparison with `usual`, which served the same bytes by other requests. The time for a byte is compared if it is the disk's own. Else it
    /// is the mean latency of requests at their own times, or with think times the sum of all latencies: larger requests are fewer.
    pub fn compared_by_bytes(&self, usual: &Measured) -> Comparison {
        let time = self.is_timed().then(|| quotient(self.time_for_a_byte(), usual.time_for_a_byte()));
        let (own, other) = (&self.trajectory, &usual.trajectory);
        let requests = match self.outcome.engine.arrival {
            Arrival::Trace => (1, 1),
            Arrival::FlatOut | Arrival::Closed => (own.requests, other.requests),
        };
        let waits = || quotient(own.mean_ns as f64 * requests.0 as f64, other.mean_ns as f64 * requests.1 as f64);
        let times = time.unwrap_or_else(waits);
        let whole = Multiples { elapsed: time.map(|_| times), mean: times, p99: times, longest: times };
        Comparison { whole, from_first_wait: self.after_by_bytes(usual), rebuild: None }
    }

    /// The same of the time for a byte from when the cache is full, if that is the disk's own.
    fn after_by_bytes(&self, usual: &Measured) -> Option<Multiples> {
        let rate = self.trajectory.rate_after_bytes_per_s.filter(|_| self.is_timed())?;
        let times = quotient(1e9 / rate, usual.time_for_a_byte());
        Some(Multiples { elapsed: Some(times), mean: times, p99: times, longest: times })
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
