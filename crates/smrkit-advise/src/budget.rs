//! What a drive takes: how much at once, what remains after that, how long a rest restores it, and which rate it keeps up for ever.

use std::sync::Arc;

use serde::Serialize;
use smrkit::error::Error;
use smrkit::experiment::pool::{self, Monitor, RunWatch};
use smrkit::settings::{Arrival, Settings};
use smrkit::units::Nanos;

use crate::trial::{Measured, Pace, Trial};
use crate::{Load, MOST_REQUESTS, Question};

/// Commands that a drive takes at once (SATA's native command queueing).
const QUEUED: u32 = 32;
/// Rests that are tried at first: half an hour, and so on to two days.
const FIRST_REST: Nanos = Nanos(1_800_000_000_000);
const RESTS: u64 = 96;
/// The shortest rest that is told, and how finely one is.
const SHORTEST_REST_S: f64 = 0.5;
const FINE_REST: f64 = 1.05;
/// From this share of it in use down, a cache is called empty (assumption).
const EMPTY: f64 = 0.01;
/// Requests at a rate, after the cache was filled, by which it is seen whether the drive keeps up: at least and at most.
const FEWEST_PACED: u64 = 4000;
const MOST_PACED: u64 = 8000;
/// A drive keeps up with requests if the last is served within this share of the time in which they came (assumption).
const LATE: f64 = 0.015;
/// Steps of the bisection: to 3 % of the rate.
const STEPS: u32 = 5;

/// What a drive takes of requests like those of the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Budget {
    /// Bytes before a request first waits for cleaning; null if none did.
    pub at_once_bytes: Option<u64>,
    /// Bytes a second until then, or throughout.
    pub at_once_bytes_per_s: f64,
    /// Bytes of a request, on average.
    pub request_bytes: f64,
    /// Bytes a second from then on; null if it never came.
    pub after_bytes_per_s: Option<f64>,
    /// Seconds without requests after which it takes as much again; null if more than two days, or if it never came.
    pub rest_s: Option<f64>,
    /// Bytes a second that it keeps up for ever: more, and ever more requests wait.
    pub for_ever_bytes_per_s: Option<f64>,
}

/// The budget of the question's system under `load`; `None` after an interrupt, or if there is nothing to clean.
pub fn find(
    question: &Question,
    load: &Load,
    own: &Measured,
    sectors: u64,
    monitor: &dyn Monitor,
) -> Result<Option<Budget>, Error> {
    let outcome = &own.outcome;
    let is_free = question.run.is_conventional() || outcome.host_written_sectors == 0 || own.trajectory.refused > 0;
    if is_free || outcome.rebuild.is_some() {
        return Ok(None);
    }
    pool::make_one(monitor, "what it takes", |watch| Search { question, load, sectors, watch }.budget(own))
}

struct Search<'a, 'w> {
    question: &'a Question,
    load: &'a Load,
    sectors: u64,
    watch: &'a mut RunWatch<'w>,
}

impl Search<'_, '_> {
    fn budget(&mut self, own: &Measured) -> Result<Option<Budget>, Error> {
        let burst = match self.load.settings.arrival {
            Arrival::FlatOut => None,
            Arrival::Trace | Arrival::Closed => {
                let settings = Settings { arrival: Arrival::FlatOut, depth: QUEUED, ..self.load.settings };
                let trial = Trial::for_run(self.question.run.clone().with(settings));
                let demand = self.load.demand.as_ref();
                Some(trial.serve_enough(demand, self.sectors, MOST_REQUESTS, self.watch)?)
            }
        };
        let burst = burst.as_ref().unwrap_or(own);
        if burst.outcome.interrupted {
            return Ok(None);
        }
        let request_bytes = burst.trajectory.bytes as f64 / burst.trajectory.requests.max(1) as f64;
        let mut budget = Budget {
            at_once_bytes: burst.trajectory.cache_full_after_bytes,
            at_once_bytes_per_s: burst.trajectory.rate_before_bytes_per_s,
            after_bytes_per_s: burst.trajectory.rate_after_bytes_per_s,
            request_bytes,
            ..Budget::default()
        };
        if self.load.settings.arrival == Arrival::Trace {
            budget.for_ever_bytes_per_s = self.headroom(own)?;
        }
        let full = burst.requests_until_full().zip(burst.trajectory.cache_full_at_s);
        let Some((until_full, at_s)) = full.filter(|_| !burst.outcome.timeline.cache_fill.is_empty()) else {
            return Ok(Some(budget));
        };
        let at_once = until_full.ceil() as u64;
        // Without those that waited together with the first to find it full: cleaning that is due begins at once, not after a rest.
        budget.rest_s = self.rest_s(at_once.saturating_sub(u64::from(QUEUED)).max(1))?;
        if self.load.settings.arrival != Arrival::Trace {
            budget.for_ever_bytes_per_s = self.for_ever(at_once, at_s, burst)?.map(|rate| rate * request_bytes);
        }
        Ok(Some(budget).filter(|_| self.watch.is_at(1.0)))
    }

    /// The load's first requests, all at once, and then others at a pace.
    fn paced(&mut self, requests: u64, pace: Pace) -> Result<Measured, Error> {
        let settings = Settings { arrival: Arrival::Trace, think: Nanos::ZERO, time_scale: 1.0, ..self.load.settings };
        let run = self.question.run.clone().with(settings);
        let trial = Trial { first: Some(requests), pace: Some(pace), ..Trial::for_run(run) };
        trial.serve(self.load.demand.as_ref(), self.sectors, false, self.watch)
    }

    /// Bytes a second of a load at its own times up to which the drive keeps up with it once its cache is full; `None` if the load does
    /// not fill it, or after an interrupt.
    fn headroom(&mut self, own: &Measured) -> Result<Option<f64>, Error> {
        let demand = self.load.demand.as_ref();
        let as_it_is = Trial::for_run(self.question.run.clone().with(self.load.settings));
        let full = match &own.full {
            Some(full) => Some(Arc::clone(full)),
            None => as_it_is.fill(demand, self.sectors, self.watch)?,
        };
        let Some(full) = full else { return Ok(None) };
        let asked = own.trajectory.bytes as f64 / (own.trajectory.arrivals_ns as f64 / 1e9).max(1e-9);
        let mut keeps_up = |times: f64| -> Result<Option<bool>, Error> {
            let time_scale = self.load.settings.time_scale / times;
            let run = self.question.run.clone().with(Settings { time_scale, ..self.load.settings });
            let run = run.beginning_with(Arc::clone(&full));
            let trial = Trial { first: Some(own.asked), ..Trial::for_run(run) };
            let served = trial.serve(self.load.demand.as_ref(), self.sectors, false, self.watch)?;
            Ok((!served.outcome.interrupted).then_some(!served.trajectory.falls_behind))
        };
        let (mut low, mut high) = if own.trajectory.falls_behind { (1.0 / 64.0, 1.0) } else { (1.0, 64.0) };
        for _ in 0..STEPS + 2 {
            let middle = f64::sqrt(low * high);
            match keeps_up(middle)? {
                None => return Ok(None),
                Some(true) => low = middle,
                Some(false) => high = middle,
            }
        }
        Ok(Some(asked * f64::sqrt(low * high)))
    }

    /// Seconds of rest until the cache is empty; `None` if that takes longer than any that is tried, or after an interrupt.
    ///
    /// A drive that cleans in a rest is seen to have done so when the next request comes. Some, far apart, tell roughly when; then the time
    /// of a single one is bisected, since each keeps the drive from cleaning for a while.
    fn rest_s(&mut self, at_once: u64) -> Result<Option<f64>, Error> {
        // The request that ends the rest is in the cache itself.
        let one = Pace { at_once: 1, rest: Nanos::ZERO, interval: Nanos::ZERO };
        let one = self.paced(1, one)?.outcome.timeline.cache_fill.last().copied().unwrap_or(0.0);
        let empty = EMPTY.max(one * 1.5);
        let pace = Pace { at_once, rest: FIRST_REST, interval: FIRST_REST };
        let timeline = self.paced(at_once + RESTS, pace)?.outcome.timeline;
        let is_empty = |nth: u64| {
            let window = (FIRST_REST.0 * nth / timeline.window_ns.max(1)) as usize;
            timeline.cache_fill.get(window).is_some_and(|&fill| fill <= empty)
        };
        let Some(nth) = (1..=RESTS).find(|&nth| is_empty(nth)) else { return Ok(None) };
        let first_s = FIRST_REST.as_secs();
        let (mut low, mut high) =
            (if nth > 1 { first_s * (nth - 1) as f64 } else { SHORTEST_REST_S }, first_s * nth as f64);
        while high > low * FINE_REST {
            let middle = f64::sqrt(low * high);
            let pace = Pace { at_once, rest: Nanos::from_secs(middle), interval: Nanos::ZERO };
            let fill = self.paced(at_once + 1, pace)?.outcome.timeline.cache_fill;
            if !self.watch.is_at(0.5) {
                return Ok(None);
            }
            match fill.last().is_some_and(|&fill| fill <= empty) {
                true => high = middle,
                false => low = middle,
            }
        }
        Ok(Some(high))
    }

    /// Requests a second that it keeps up with its cache full; `None` after an interrupt.
    fn for_ever(&mut self, at_once: u64, full_at_s: f64, burst: &Measured) -> Result<Option<f64>, Error> {
        let bytes = burst.trajectory.bytes as f64 / burst.trajectory.requests.max(1) as f64;
        let [before, after] = [burst.trajectory.rate_before_bytes_per_s, burst.trajectory.lasting_bytes_per_s()];
        let (before, after) = (before / bytes, after / bytes);
        let count = (at_once * 2).clamp(FEWEST_PACED, MOST_PACED);
        let mut keeps_up = |rate: f64| -> Result<Option<bool>, Error> {
            let interval = Nanos((1e9 / rate) as u64);
            let pace = Pace { at_once, rest: Nanos((full_at_s * 1e9) as u64), interval };
            let run = self.paced(at_once + count, pace)?;
            let late_ns = run.outcome.elapsed_ns.saturating_sub(run.outcome.arrivals_ns) as f64;
            Ok((!run.outcome.interrupted).then_some(late_ns <= LATE * count as f64 * interval.0 as f64))
        };
        // What remains in a closed loop is a good guess.
        let guess = after * 1.2;
        let (mut low, mut high) = match keeps_up(guess)? {
            None => return Ok(None),
            Some(true) => (guess, before.max(guess)),
            Some(false) => (after / 2.0, guess),
        };
        for _ in 0..STEPS {
            let middle = (low * high).sqrt();
            match keeps_up(middle)? {
                None => return Ok(None),
                Some(true) => low = middle,
                Some(false) => high = middle,
            }
        }
        Ok(Some((low * high).sqrt()))
    }
}
