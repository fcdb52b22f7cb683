//! A drive's budget: how much it takes at once, at which rate it goes on after that, how long a rest restores it, and which rate it keeps up
//! for ever.

use std::sync::Arc;

use serde::Serialize;
use smrkit::engine::saved::SavedState;
use smrkit::error::Error;
use smrkit::experiment::pool::{self, Monitor, RunWatch};
use smrkit::settings::{Arrival, Settings};
use smrkit::units::Nanos;

use crate::comparison::share_until_full;
use crate::trial::{Full, Measured, Pace, Trial};
use crate::{Load, MOST_REQUESTS, Question};

/// Rests that are tried at first: half an hour, and so on to two days.
const FIRST_REST: Nanos = Nanos(1_800_000_000_000);
const RESTS: u64 = 96;
/// The shortest rest that is told, and how finely one is.
const SHORTEST_REST_S: f64 = 0.5;
const FINE_REST: f64 = 1.05;
/// From this share of it in use down, a cache is called empty (assumption).
const EMPTY: f64 = 0.01;
/// Requests that are served at least to fill a cache at another rate.
const FEWEST_REFILLING: u64 = 10_000;
/// How finely a rate is told, and by how much at most it may differ from the first guess.
const FINE_RATE: f64 = 1.04;
const ROUGH_RATE: f64 = 1.4;
const FARTHEST: f64 = 256.0;

/// What a drive takes of requests like those of the load, in bytes that these read and write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Budget {
    /// Bytes before a request first waits for cleaning; null if none did.
    pub at_once_bytes: Option<u64>,
    /// Bytes a second until then, or throughout.
    pub at_once_bytes_per_s: f64,
    /// Bytes of a request, on average.
    pub request_bytes: f64,
    /// The share of the bytes that are written: reads take no room.
    pub written_share: f64,
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

/// How long the drive has to rest after a load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Recovery {
    /// It was not tried, or the layer does not tell how full its cache is.
    #[default]
    Unknown,
    /// After these seconds its cache is empty.
    After(f64),
    /// Longer than any rest that was tried.
    NotSoon,
}

/// The time for which the drive has to rest after all of a load.
pub fn recovery(
    question: &Question,
    load: &Load,
    own: &Measured,
    sectors: u64,
    monitor: &dyn Monitor,
) -> Result<Recovery, Error> {
    let found = pool::make_one(monitor, "how long it has to rest", |watch| {
        let mut search = Search { question, load, sectors, watch };
        let trial = search.from(own.full.as_ref().map(|full| &full.state), load.settings);
        let whole = Trial { first: Some(own.asked), ..trial };
        let (served, state) = whole.serve_to_state(&load.demand, sectors, search.watch)?;
        let Some(state) = state.filter(|_| !served.outcome.timeline.cache_fill.is_empty()) else {
            return Ok(None);
        };
        let rest_s = search.rest_s(&state)?;
        Ok(Some(rest_s.map_or(Recovery::NotSoon, Recovery::After)).filter(|_| search.watch.is_at(1.0)))
    });
    Ok(found?.unwrap_or_default())
}

struct Search<'a, 'w> {
    question: &'a Question,
    load: &'a Load,
    sectors: u64,
    watch: &'a mut RunWatch<'w>,
}

impl Search<'_, '_> {
    fn budget(&mut self, own: &Measured) -> Result<Option<Budget>, Error> {
        let request_bytes = own.trajectory.bytes as f64 / own.trajectory.requests.max(1) as f64;
        let written_share = own.written_a_request() / request_bytes;
        let (outcome, is_open) = (&own.outcome, self.load.settings.arrival != Arrival::FlatOut);
        let mut budget = Budget { request_bytes, written_share, ..Budget::default() };
        if !is_open {
            budget.at_once_bytes = own.trajectory.cache_full_after_bytes;
            budget.at_once_bytes_per_s = own.trajectory.rate_before_bytes_per_s.unwrap_or(0.0);
            budget.after_bytes_per_s = own.trajectory.rate_after_bytes_per_s;
        }
        let full = match &own.full {
            Some(full) => Some(full.clone()),
            // A load may end before the cache is full. What it would find with a full one is of interest all the same.
            None if is_open || own.trajectory.cache_full_at_s.is_some() || share_until_full(outcome).is_some() => {
                self.fill(own)?
            }
            None => None,
        };
        // It was filled by the writes alone.
        if let Some(full) = full.as_ref().filter(|_| is_open || budget.at_once_bytes.is_none()) {
            let at_once = full.bytes as f64 / written_share;
            budget.at_once_bytes = Some(at_once as u64);
            match is_open {
                true => budget.at_once_bytes_per_s = at_once / full.seconds.max(1e-9),
                // Only all of a load with phases tells its rate, which may be too much to run.
                false if self.load.is_even || own.is_repeatable() => {
                    budget.after_bytes_per_s = Some(self.rate_from_full(full, own)?);
                }
                false => {}
            }
        }
        budget.for_ever_bytes_per_s = match (&full, self.load.settings.arrival) {
            // If the cache was still filling, and could not be filled, no run shows what comes after.
            (None, Arrival::Trace) if own.trajectory.full_in_s.is_some() => None,
            // What a load with phases leaves to its next round depends on where it ends. A rate that holds for one round, from one state of
            // the cache on, need not hold for ever.
            _ if !self.load.is_even => None,
            (_, Arrival::Trace) => self.scaled_rate(full.as_ref(), own)?,
            (Some(full), _) => {
                // What remains in a closed loop is a good guess.
                let guess = budget.after_bytes_per_s.unwrap_or(budget.at_once_bytes_per_s) / request_bytes.max(1.0);
                self.paced_rate(full, guess)?.map(|rate| rate * request_bytes)
            }
            (None, _) => None,
        };
        if let Some(full) = full.filter(|full| full.has_fill) {
            let nearly_full = full.nearly(&self.load.demand, self.sectors, self.watch)?;
            budget.rest_s = nearly_full.map(|state| self.rest_s(&state)).transpose()?.flatten();
        }
        Ok(Some(budget).filter(|_| self.watch.is_at(1.0)))
    }

    fn fill(&mut self, own: &Measured) -> Result<Option<Full>, Error> {
        let trial = Trial::for_run(self.question.run.clone().with(self.load.settings));
        let writes = own.requests_until_full().map_or(own.asked, |requests| requests as u64);
        trial.fill(&self.load.demand, self.sectors, (writes, own.written_a_request()), self.watch)
    }

    /// The load at a pace, from a full cache on where there is one.
    fn at_pace(&self, full: Option<&Arc<SavedState>>, pace: Pace) -> Trial {
        let settings = Settings { arrival: Arrival::Trace, think: Nanos::ZERO, time_scale: 1.0, ..self.load.settings };
        Trial { pace: Some(pace), ..self.from(full, settings) }
    }

    /// Its first requests.
    fn paced(&mut self, full: Option<&Arc<SavedState>>, requests: u64, pace: Pace) -> Result<Measured, Error> {
        let trial = Trial { first: Some(requests), ..self.at_pace(full, pace) };
        trial.serve(&self.load.demand, self.sectors, false, self.watch)
    }

    fn from(&self, full: Option<&Arc<SavedState>>, settings: Settings) -> Trial {
        let run = self.question.run.clone().with(settings);
        Trial::for_run(match full {
            Some(state) => run.beginning_with(Arc::clone(state)),
            None => run,
        })
    }

    /// Finds the highest rate, in bytes a second, at which the drive keeps up with a paced load once its cache is full, or from the beginning
    /// on if the load does not fill the cache. `None` after an interrupt.
    fn scaled_rate(&mut self, full: Option<&Full>, own: &Measured) -> Result<Option<f64>, Error> {
        let question = self.question;
        let (Some(scaled_load), Some(filled)) = (&question.scaled_load, full) else {
            return self.bisected_scale(full, own, 1.0, FINE_RATE);
        };
        // What a full cache holds depends on the rate of the load, because that decides how many writes come between two commits. So the cache is
        // filled again at the rate that was found roughly.
        let asked = own.trajectory.asked_bytes_per_s();
        let Some(rough) = self.bisected_scale(full, own, 1.0, ROUGH_RATE)? else { return Ok(None) };
        let times = rough / asked.max(1e-9);
        let writes = filled.requests.max(FEWEST_REFILLING);
        let trial = Trial::for_run(question.run.clone().with(self.load.settings));
        let refilled = trial.fill(&scaled_load(times)?, self.sectors, (writes, own.written_a_request()), self.watch)?;
        self.bisected_scale(refilled.as_ref().or(full), own, times, FINE_RATE)
    }

    /// Bisects the scale of a paced load from a full cache on (from the beginning on without one) until it is known within a factor of `fine`.
    /// Returns the rate in bytes a second.
    fn bisected_scale(
        &mut self,
        full: Option<&Full>,
        own: &Measured,
        guess: f64,
        fine: f64,
    ) -> Result<Option<f64>, Error> {
        // Not all parts of a use scale, so the bytes a second are those of the run served last.
        let mut bytes_per_s = own.trajectory.asked_bytes_per_s();
        let times = edge(guess, fine, |times| {
            let time_scale = self.load.settings.time_scale;
            let (demand, time_scale) = match &self.question.scaled_load {
                Some(scaled_load) => (scaled_load(times)?, time_scale),
                None => (Arc::clone(&self.load.demand), time_scale / times),
            };
            let trial = self.from(full.map(|full| &full.state), Settings { time_scale, ..self.load.settings });
            let served = match full {
                Some(full) => trial.serve_until_decided(&demand, self.sectors, full, self.watch)?,
                None => {
                    let as_many = Trial { first: Some(own.asked), ..trial };
                    as_many.serve(&demand, self.sectors, false, self.watch)?
                }
            };
            bytes_per_s = served.trajectory.asked_bytes_per_s() / times;
            Ok(keeps_up(&served))
        })?;
        Ok(times.map(|times| bytes_per_s * times))
    }

    /// Bytes a second of the load, as fast as the drive takes it, from a full cache on.
    fn rate_from_full(&mut self, full: &Full, own: &Measured) -> Result<f64, Error> {
        let trial = self.from(Some(&full.state), self.load.settings);
        let served = match self.load.is_even {
            true => trial.serve_enough(&self.load.demand, self.sectors, MOST_REQUESTS, false, self.watch)?,
            false => {
                let all = Trial { first: Some(own.asked), ..trial };
                all.serve(&self.load.demand, self.sectors, false, self.watch)?
            }
        };
        Ok(served.trajectory.lasting_bytes_per_s())
    }

    /// Finds how many requests a second the drive keeps up with, evenly spaced, once its cache is full; `None` after an interrupt.
    fn paced_rate(&mut self, full: &Full, guess: f64) -> Result<Option<f64>, Error> {
        edge(guess, FINE_RATE, |rate| {
            let pace = Pace { rest: Nanos::ZERO, interval: Nanos((1e9 / rate) as u64) };
            let trial = self.at_pace(Some(&full.state), pace);
            let served = trial.serve_until_decided(&self.load.demand, self.sectors, full, self.watch)?;
            Ok(keeps_up(&served))
        })
    }

    /// Seconds of rest until the cache is empty; `None` if that takes longer than any rest that is tried, or after an interrupt.
    ///
    /// A drive that cleans in a rest is seen to have done so when the next request comes. Some, far apart, tell roughly when; then the time
    /// of a single one is bisected, since each keeps the drive from cleaning for a while.
    fn rest_s(&mut self, full: &Arc<SavedState>) -> Result<Option<f64>, Error> {
        // The request that ends the rest is in the cache itself.
        let one = Pace { rest: Nanos::ZERO, interval: Nanos::ZERO };
        let one = self.paced(None, 1, one)?.outcome.timeline.cache_fill.last().copied().unwrap_or(0.0);
        let empty = EMPTY.max(one * 1.5);
        let pace = Pace { rest: FIRST_REST, interval: FIRST_REST };
        let timeline = self.paced(Some(full), RESTS, pace)?.outcome.timeline;
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
            let pace = Pace { rest: Nanos::from_secs(middle), interval: Nanos::ZERO };
            let fill = self.paced(Some(full), 1, pace)?.outcome.timeline.cache_fill;
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
}

/// Whether a drive keeps up with requests at times of their own; `None` after an interrupt.
fn keeps_up(served: &Measured) -> Option<bool> {
    (!served.outcome.interrupted).then(|| served.keeps_up())
}

/// The largest value for which something holds that holds for smaller ones; `None` where that was not told.
fn edge(
    guess: f64,
    fine: f64,
    mut holds: impl FnMut(f64) -> Result<Option<bool>, Error>,
) -> Result<Option<f64>, Error> {
    let Some(is_low) = holds(guess)? else { return Ok(None) };
    let (mut low, mut high) = (guess, guess);
    // Outwards until it lies between two, and then inwards.
    loop {
        let next = match is_low {
            true if high < guess * FARTHEST => high * 2.0,
            false if low > guess / FARTHEST => low / 2.0,
            _ => return Ok(Some(guess * if is_low { FARTHEST } else { 1.0 / FARTHEST })),
        };
        let Some(is_held) = holds(next)? else { return Ok(None) };
        (low, high) = match (is_low, is_held) {
            (true, true) => (next, next),
            (true, false) => (low, next),
            (false, true) => (next, high),
            (false, false) => (next, next),
        };
        if is_held != is_low {
            break;
        }
    }
    while high > low * fine {
        let middle = f64::sqrt(low * high);
        match holds(middle)? {
            None => return Ok(None),
            Some(true) => low = middle,
            Some(false) => high = middle,
        }
    }
    Ok(Some(f64::sqrt(low * high)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_is_found_wherever_it_is() {
        for guess in [0.01, 0.9, 1.0, 7.0, 200.0] {
            let found = edge(guess, FINE_RATE, |value| Ok(Some(value <= 1.0))).unwrap().unwrap();
            assert!((found - 1.0).abs() < 0.02, "{found} from {guess}");
        }
        assert_eq!(edge(1.0, FINE_RATE, |_| Ok(None)).unwrap(), None);
        let far = |holds| edge(1.0, FINE_RATE, |_| Ok(Some(holds))).unwrap();
        assert_eq!((far(true), far(false)), (Some(256.0), Some(1.0 / 256.0)));
    }
}
