//! A drive's budget: how much it takes at once, at which rate it goes on after that, how long a rest restores it, and which rate it keeps up
//! for ever.

use std::sync::Arc;

use serde::Serialize;
use smrkit::engine::saved::SavedState;
use smrkit::error::Error;
use smrkit::experiment::pool::{self, Monitor, RunWatch};
use smrkit::settings::{Arrival, Settings};
use smrkit::stats::timeline::Timeline;
use smrkit::units::Nanos;

use crate::Question;
use crate::comparison::share_until_full;
use crate::trial::{Full, MOST_OF_PHASES, MOST_REQUESTS, Measured, Pace, Trial};

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

/// The budget of the system of `trial` under its load; `None` after an interrupt, or if there is nothing to clean.
pub fn find(question: &Question, trial: Trial, own: &Measured, monitor: &dyn Monitor) -> Result<Option<Budget>, Error> {
    let outcome = &own.outcome;
    let is_free = question.run.is_conventional() || outcome.host_written_sectors == 0 || own.trajectory.refused > 0;
    if is_free || outcome.rebuild.is_some() {
        return Ok(None);
    }
    pool::make_one(monitor, "what it takes", |watch| Search { question, trial, watch }.budget(own))
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
pub fn recovery(question: &Question, trial: Trial, own: &Measured, monitor: &dyn Monitor) -> Result<Recovery, Error> {
    pool::make_one(monitor, "how long it has to rest", |watch| {
        let mut search = Search { question, trial, watch };
        let whole = Trial { first: Some(own.asked), ..search.beginning_with(own.full.as_ref()) };
        let (served, state) = whole.serve_to_state(search.watch)?;
        let Some(state) = state.filter(|_| !served.outcome.timeline.cache_fill.is_empty()) else {
            return Ok(Recovery::Unknown);
        };
        let rest_s = search.rest_s(&state)?;
        // After an interrupt it is not known.
        Ok(match search.watch.is_at(1.0) {
            true => rest_s.map_or(Recovery::NotSoon, Recovery::After),
            false => Recovery::Unknown,
        })
    })
}

struct Search<'a, 'w> {
    question: &'a Question,
    /// The load on the system as it is.
    trial: Trial,
    watch: &'a mut RunWatch<'w>,
}

impl Search<'_, '_> {
    fn budget(&mut self, own: &Measured) -> Result<Option<Budget>, Error> {
        let Measured { outcome, trajectory, .. } = own;
        let request_bytes = trajectory.bytes as f64 / trajectory.requests.max(1) as f64;
        let written_share = own.written_a_request() / request_bytes;
        let (arrival, is_even) = (self.trial.load.settings.arrival, self.trial.load.is_even);
        let is_open = arrival != Arrival::FlatOut;
        let mut budget = Budget { request_bytes, written_share, ..Budget::default() };
        if !is_open {
            budget.at_once_bytes = trajectory.cache_full_after_bytes;
            budget.at_once_bytes_per_s = trajectory.rate_before_bytes_per_s.unwrap_or(0.0);
            budget.after_bytes_per_s = trajectory.rate_after_bytes_per_s;
        }
        let full = match &own.full {
            Some(full) => Some(full.clone()),
            // A load may end before the cache is full. What it would find with a full one is of interest all the same.
            None if is_open || trajectory.cache_full_at_s.is_some() || share_until_full(outcome).is_some() => {
                let writes = own.requests_until_full().map_or(own.asked, |requests| requests as u64);
                self.trial.fill(writes, own.written_a_request(), self.watch)?
            }
            None => None,
        };
        // It was filled by the writes alone.
        if let Some(full) = full.as_ref().filter(|_| is_open || budget.at_once_bytes.is_none()) {
            let at_once = full.bytes as f64 / written_share;
            budget.at_once_bytes = Some(at_once as u64);
            if is_open {
                budget.at_once_bytes_per_s = at_once / full.seconds.max(1e-9);
            } else if is_even || own.asked <= MOST_OF_PHASES {
                // Only all of a load with phases tells its rate, which may be too much to run.
                budget.after_bytes_per_s = Some(self.rate_from_full(full, own)?);
            }
        }
        budget.for_ever_bytes_per_s = match (&full, arrival) {
            // If the cache was still filling, and could not be filled, no run shows what comes after.
            (None, Arrival::Trace) if trajectory.full_in_s.is_some() => None,
            // What a load with phases leaves to its next round depends on where it ends. A rate that holds for one round, from one state of
            // the cache on, need not hold for ever.
            _ if !is_even => None,
            (_, Arrival::Trace) => self.scaled_rate(full.as_ref(), own)?,
            (Some(full), _) => {
                // What remains in a closed loop is a good guess.
                let guess = budget.after_bytes_per_s.unwrap_or(budget.at_once_bytes_per_s) / request_bytes.max(1.0);
                self.paced_rate(full, guess)?.map(|rate| rate * request_bytes)
            }
            (None, _) => None,
        };
        if let Some(full) = full.filter(|full| full.has_fill) {
            let nearly_full = full.nearly(self.watch)?;
            budget.rest_s = nearly_full.map(|state| self.rest_s(&state)).transpose()?.flatten();
        }
        Ok(Some(budget).filter(|_| self.watch.is_at(1.0)))
    }

    /// The load, from a full cache on where there is one.
    fn beginning_with(&self, full: Option<&Full>) -> Trial {
        full.map_or_else(|| self.trial.clone(), |full| self.trial.beginning_with(&full.state))
    }

    /// Trial with the load's requests at a pace, from a state on if there is one.
    fn paced(&self, state: Option<&Arc<SavedState>>, pace: Pace) -> Trial {
        let settings =
            Settings { arrival: Arrival::Trace, think: Nanos::ZERO, time_scale: 1.0, ..self.trial.load.settings };
        let run = self.question.run.clone().with(settings);
        let trial = Trial { run, pace: Some(pace), ..self.trial.clone() };
        state.map_or_else(|| trial.clone(), |state| trial.beginning_with(state))
    }

    /// How full the cache is in the course of the first requests at a pace.
    fn fill_at_pace(&mut self, state: Option<&Arc<SavedState>>, requests: u64, pace: Pace) -> Result<Timeline, Error> {
        let trial = Trial { first: Some(requests), ..self.paced(state, pace) };
        Ok(trial.serve(self.watch)?.outcome.timeline)
    }

    /// Finds the highest rate, in bytes a second, at which the drive keeps up with a paced load once its cache is full, or from the beginning
    /// on if the load does not fill the cache. `None` after an interrupt.
    fn scaled_rate(&mut self, full: Option<&Full>, own: &Measured) -> Result<Option<f64>, Error> {
        let question = self.question;
        let as_asked = 1.0;
        let (Some(scaled_load), Some(filled)) = (&question.scaled_load, full) else {
            return self.bisected_rate(full, own, as_asked, FINE_RATE);
        };
        // What a full cache holds depends on the rate of the load, because that decides how many writes come between two commits. So the cache is
        // filled again at the rate that was found roughly.
        let asked = own.trajectory.asked_bytes_per_s();
        let Some(rough) = self.bisected_rate(full, own, as_asked, ROUGH_RATE)? else { return Ok(None) };
        let times = rough / asked.max(1e-9);
        let writes = filled.requests.max(FEWEST_REFILLING);
        let mut trial = self.trial.clone();
        trial.load.demand = scaled_load(times)?;
        let refilled = trial.fill(writes, own.written_a_request(), self.watch)?;
        // If the load does not fill the cache at that rate, the cache as it was filled at first has to do.
        self.bisected_rate(refilled.as_ref().or(full), own, times, FINE_RATE)
    }

    /// Bisects the scale of a paced load from a full cache on (from the beginning on without one) until it is known within a factor of `fine`,
    /// beginning with `guess`. Returns the rate in bytes a second.
    fn bisected_rate(
        &mut self,
        full: Option<&Full>,
        own: &Measured,
        guess: f64,
        fine: f64,
    ) -> Result<Option<f64>, Error> {
        // Not all parts of a use scale, so the bytes a second are those of the run served last.
        let mut bytes_per_s = own.trajectory.asked_bytes_per_s();
        let settings = self.trial.load.settings;
        let times = edge(guess, fine, |times| {
            let mut trial = self.trial.clone();
            match &self.question.scaled_load {
                Some(scaled_load) => trial.load.demand = scaled_load(times)?,
                None => {
                    trial.run = trial.run.with(Settings { time_scale: settings.time_scale / times, ..settings });
                }
            }
            let served = match full {
                Some(full) => trial.beginning_with(&full.state).serve_until_decided(full, self.watch)?,
                None => Trial { first: Some(own.asked), ..trial }.serve(self.watch)?,
            };
            bytes_per_s = served.trajectory.asked_bytes_per_s() / times;
            Ok(keeps_up(&served))
        })?;
        Ok(times.map(|times| bytes_per_s * times))
    }

    /// Bytes a second of the load, as fast as the drive takes it, from a full cache on.
    fn rate_from_full(&mut self, full: &Full, own: &Measured) -> Result<f64, Error> {
        let trial = self.beginning_with(Some(full));
        let served = match trial.load.is_even {
            true => trial.serve_enough(MOST_REQUESTS, false, self.watch)?,
            false => Trial { first: Some(own.asked), ..trial }.serve(self.watch)?,
        };
        Ok(served.trajectory.lasting_bytes_per_s())
    }

    /// Finds how many requests a second the drive keeps up with, evenly spaced, once its cache is full; `None` after an interrupt.
    fn paced_rate(&mut self, full: &Full, guess: f64) -> Result<Option<f64>, Error> {
        edge(guess, FINE_RATE, |rate| {
            let pace = Pace { rest: Nanos::ZERO, interval: Nanos((1e9 / rate) as u64) };
            Ok(keeps_up(&self.paced(Some(&full.state), pace).serve_until_decided(full, self.watch)?))
        })
    }

    /// Seconds of rest until the cache is empty; `None` if that takes longer than any rest that is tried, or after an interrupt.
    ///
    /// A drive that cleans in a rest is seen to have done so when the next request comes. Some, far apart, tell roughly when; then the time
    /// of a single one is bisected, since each keeps the drive from cleaning for a while.
    fn rest_s(&mut self, full: &Arc<SavedState>) -> Result<Option<f64>, Error> {
        let one_after = |rest| Pace { rest, interval: Nanos::ZERO };
        // The request that ends the rest is in the cache itself.
        let one = self.fill_at_pace(None, 1, one_after(Nanos::ZERO))?.cache_fill.last().copied().unwrap_or(0.0);
        let empty = EMPTY.max(one * 1.5);
        let timeline = self.fill_at_pace(Some(full), RESTS, Pace { rest: FIRST_REST, interval: FIRST_REST })?;
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
            let fill = self.fill_at_pace(Some(full), 1, one_after(Nanos::from_secs(middle)))?.cache_fill;
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
    let (step, farthest) = if is_low { (2.0, FARTHEST) } else { (0.5, 1.0 / FARTHEST) };
    let is_farthest = |value: f64| value >= guess * FARTHEST || value <= guess / FARTHEST;
    let mut last = guess;
    // Outwards until it lies between two, and then inwards.
    let next = loop {
        if is_farthest(last) {
            return Ok(Some(guess * farthest));
        }
        let next = last * step;
        let Some(is_held) = holds(next)? else { return Ok(None) };
        if is_held != is_low {
            break next;
        }
        last = next;
    };
    let (mut low, mut high) = (last.min(next), last.max(next));
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
