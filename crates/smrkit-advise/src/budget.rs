//! What a drive takes: how much at once, what remains after that, how long a rest restores it, and which rate it keeps up for ever.

use std::sync::Arc;

use serde::Serialize;
use smrkit::engine::saved::SavedState;
use smrkit::error::Error;
use smrkit::experiment::demand::Demand;
use smrkit::experiment::pool::{self, Monitor, RunWatch};
use smrkit::settings::{Arrival, Settings};
use smrkit::stats::outcome::Outcome;
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
/// A load with phases is kept up with if its last request is answered within this share of its time after it came (assumption).
const LATE_SHARE: f64 = 0.05;

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
        // What a load with phases does from a full cache on is told by all of it alone, which may be too much.
        let is_told = self.load.is_even || own.is_repeatable();
        let (outcome, is_open) = (&own.outcome, self.load.settings.arrival != Arrival::FlatOut);
        let mut budget = Budget { request_bytes, written_share, ..Budget::default() };
        if !is_open {
            budget.at_once_bytes = own.trajectory.cache_full_after_bytes;
            budget.at_once_bytes_per_s = own.trajectory.rate_before_bytes_per_s.unwrap_or(0.0);
            budget.after_bytes_per_s = own.trajectory.rate_after_bytes_per_s;
        }
        let full = match &own.full {
            Some(full) => Some(full.clone()),
            // Of a load that ends before it has filled the cache it is of interest what would come if that had been full.
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
                false if is_told => budget.after_bytes_per_s = Some(self.rate_from_full(full, own)?),
                false => {}
            }
        }
        budget.for_ever_bytes_per_s = match (&full, self.load.settings.arrival) {
            // Of a cache that was still filling, and could not be filled, nobody knows what comes after.
            (None, Arrival::Trace) if own.trajectory.full_in_s.is_some() => None,
            _ if !is_told => None,
            (_, Arrival::Trace) => self.hastened(full.as_ref(), own)?,
            (Some(full), _) => {
                // What remains in a closed loop is a good guess.
                let guess = budget.after_bytes_per_s.unwrap_or(budget.at_once_bytes_per_s) / request_bytes.max(1.0);
                self.paced_rate(full, own, guess)?.map(|rate| rate * request_bytes)
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

    /// Bytes a second of a load at its own times up to which the drive keeps up with it: once its cache is full, or where the load does
    /// not fill it, from the beginning on. `None` after an interrupt.
    fn hastened(&mut self, full: Option<&Full>, own: &Measured) -> Result<Option<f64>, Error> {
        let question = self.question;
        let (Some(hastened), Some(filled)) = (&question.hastened, full) else {
            return self.most_hastened(full, own, 1.0, FINE_RATE);
        };
        // What is in a full cache depends on how fast the load came: how many writes there were between two commits. That must not be
        // the rate which was asked for, but the one that is found.
        let asked = own.trajectory.asked_bytes_per_s();
        let Some(rough) = self.most_hastened(full, own, 1.0, ROUGH_RATE)? else { return Ok(None) };
        let times = rough / asked.max(1e-9);
        let writes = filled.requests.max(FEWEST_REFILLING);
        let trial = Trial::for_run(question.run.clone().with(self.load.settings));
        let refilled = trial.fill(&hastened(times)?, self.sectors, (writes, own.written_a_request()), self.watch)?;
        self.most_hastened(refilled.as_ref().or(full), own, times, FINE_RATE)
    }

    /// The same from one state on, as finely as asked for.
    fn most_hastened(
        &mut self,
        full: Option<&Full>,
        own: &Measured,
        guess: f64,
        fine: f64,
    ) -> Result<Option<f64>, Error> {
        // For the load asked for, and later for what was served: not all of it grows with the rest.
        let mut bytes_per_s = own.trajectory.asked_bytes_per_s();
        let times = edge(guess, fine, |times| {
            let time_scale = self.load.settings.time_scale;
            let (demand, time_scale) = match &self.question.hastened {
                Some(hastened) => (hastened(times)?, time_scale),
                None => (Arc::clone(&self.load.demand), time_scale / times),
            };
            let trial = self.from(full.map(|full| &full.state), Settings { time_scale, ..self.load.settings });
            let served = self.decided(&trial, &demand, full, own)?;
            bytes_per_s = served.trajectory.asked_bytes_per_s() / times;
            Ok(self.keeps_up(&served))
        })?;
        Ok(times.map(|times| bytes_per_s * times))
    }

    /// Bytes a second that the load is served with as fast as it can, from a full cache on.
    fn rate_from_full(&mut self, full: &Full, own: &Measured) -> Result<f64, Error> {
        let trial = self.from(Some(&full.state), self.load.settings);
        let served = match self.load.is_even {
            true => trial.serve_enough(&self.load.demand, self.sectors, MOST_REQUESTS, false, self.watch)?,
            false => self.decided(&trial, &self.load.demand, None, own)?,
        };
        Ok(served.trajectory.lasting_bytes_per_s())
    }

    /// Requests a second that the drive keeps up with its cache full, where they come one by one; `None` after an interrupt.
    fn paced_rate(&mut self, full: &Full, own: &Measured, guess: f64) -> Result<Option<f64>, Error> {
        edge(guess, FINE_RATE, |rate| {
            let pace = Pace { rest: Nanos::ZERO, interval: Nanos((1e9 / rate) as u64) };
            let trial = self.at_pace(Some(&full.state), pace);
            let served = self.decided(&trial, &self.load.demand, Some(full), own)?;
            Ok(self.keeps_up(&served))
        })
    }

    /// Serves as much of the load as tells whether the drive keeps up with it: of one with phases all of it, since the first of them say
    /// nothing of the others.
    fn decided(
        &mut self,
        trial: &Trial,
        demand: &Arc<dyn Demand>,
        full: Option<&Full>,
        own: &Measured,
    ) -> Result<Measured, Error> {
        match full.filter(|_| self.load.is_even) {
            Some(full) => trial.serve_until_decided(demand, self.sectors, full, self.watch),
            None => {
                let all = Trial { first: Some(own.asked), ..trial.clone() };
                all.serve(demand, self.sectors, false, self.watch)
            }
        }
    }

    /// Whether a drive keeps up with requests at times of their own; `None` after an interrupt. Where they come in phases, what waits in one may be
    /// worked off in another, and only what still waits at the end tells.
    fn keeps_up(&self, served: &Measured) -> Option<bool> {
        let Outcome { elapsed_ns, arrivals_ns, .. } = served.outcome;
        let late_ns = elapsed_ns.saturating_sub(arrivals_ns) as f64;
        let keeps_up = if self.load.is_even { served.keeps_up() } else { late_ns <= LATE_SHARE * elapsed_ns as f64 };
        (!served.outcome.interrupted).then_some(keeps_up)
    }

    /// Seconds of rest until a cache that is all but full is empty; `None` if that takes longer than any that is tried, or after an interrupt.
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
